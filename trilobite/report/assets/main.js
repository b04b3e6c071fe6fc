/** @typedef {{name: string, has: (subject: Subject) => boolean, make: (subject: Subject) => Node}} View */

/** What ran, where, how long, what bounds it. @param {Subject} subject */
function overviewView(subject) {
  const heavy = [...subject.kernels].sort((a, b) => b.time - a.time).slice(0, 5);
  const box = element("section", {}, element("h2", {}, `${subject.name} on ${subject.target}`), element("p", { class: "sentence" }, subject.sentence),
    element("div", { class: "figures" }, ...subject.figures.map(([name, value]) => element("div", { class: "figure" }, element("b", {}, value), element("span", {}, name)))));
  if (heavy.length) box.append(element("h3", {}, "Where the time goes"), element("ol", {}, ...heavy.map((kernel) => element("li", {}, element("b", {}, percent(kernel.share)),
    ` ${kernel.name}${kernel.module ? ` of ${kernel.module}` : ""}, bound by ${kernel.bound} `, element("code", { class: "place" }, kernel.place)))));
  else box.append(...linesView(subject));
  return box;
}

/** Of a launch without layers: the lines that kept queues busy longest. @param {Subject} subject @returns {Node[]} */
function linesView(subject) {
  const table = tableOf(subject, "Where the cycles went, by line");
  const whole = table ? table.rows.reduce((sum, row) => sum + Number(row[3]), 0) : 0;
  if (!table || !whole) return [];
  return [element("h3", {}, "Where the busy cycles of all queues go"), element("ol", {}, ...table.rows.slice(0, 5).map((row) => element("li", {},
    element("b", {}, percent(Number(row[3]) / whole)), ` ${row[0]}, executed ${shown(Number(row[2]))} times `, element("code", { class: "place" }, String(row[1])),
    ...(subject.sources[String(row[1])] ? [element("code", { class: "source" }, subject.sources[String(row[1])])] : []))))];
}

/** @type {View[]} */
const VIEWS = [
  { name: "modules", has: (s) => s.kernels.length > 0, make: kernelsView },
  { name: "timeline", has: (s) => s.lanes.length > 0, make: timelineView },
  { name: "roofline", has: (s) => s.roofs !== null && s.roofs.points.length > 0, make: rooflineView },
  { name: "graph", has: (s) => s.stages.length > 0, make: graphView },
  { name: "stalls", has: (s) => tableOf(s, "Stalls") !== undefined, make: stallsView },
  { name: "memory", has: (s) => s.memory.length > 0, make: memoryView },
  { name: "energy", has: (s) => tableOf(s, "Energy") !== undefined, make: energyView },
  { name: "mapping", has: (s) => s.kernels.some((k) => k.predicted > 0), make: mappingView },
  { name: "tables", has: (s) => s.tables.length > 0, make: (s) => element("div", {}, ...s.tables.map(tableView)) },
];

/** The page: runs to choose from, views of the chosen run, and the address of both. @param {Data} data @param {HTMLElement} page */
function start(data, page) {
  const view = element("main", { id: "view", tabindex: "-1" }), tabs = element("nav", { role: "tablist", "aria-label": "views" });
  const many = data.subjects.length > 1, runs = /** @type {HTMLSelectElement} */ (element("select", { id: "run", "aria-label": "run" },
    ...data.subjects.map((subject, i) => element("option", { value: String(i) }, `${subject.name} on ${subject.target}`))));
  let chosen = "overview", run = 0;
  const offered = () => {
    const subject = data.subjects[run];
    return ["overview", ...(subject ? VIEWS.filter((v) => v.has(subject)).map((v) => v.name) : []), ...(many ? ["compare"] : [])];
  };
  const content = () => {
    if (chosen === "overview") return data.subjects.map(overviewView);
    if (chosen === "compare") return [compareView(data.subjects)];
    const found = /** @type {View} */ (VIEWS.find((v) => v.name === chosen));
    return [found.make(data.subjects[run])];
  };
  const show = () => {
    const names = offered();
    if (!names.includes(chosen)) chosen = "overview";
    runs.value = String(run);
    tabs.replaceChildren(...names.map((name) => button(name, () => go(name, run), { role: "tab", "aria-selected": String(name === chosen), tabindex: name === chosen ? "0" : "-1" })));
    view.replaceChildren(...content());
  };
  const go = (/** @type {string} */ name, /** @type {number} */ which) => { chosen = name; run = which; show(); history.replaceState(null, "", `#${chosen}${run ? `.${run}` : ""}`); };
  const follow = () => {
    const [name, which] = location.hash.slice(1).split(".");
    chosen = name || "overview"; run = Math.min(Math.max(Number(which) || 0, 0), Math.max(data.subjects.length - 1, 0)); show();
  };
  tabs.addEventListener("keydown", (key) => {
    const names = offered(), at = names.indexOf(chosen);
    const next = { ArrowRight: at + 1, ArrowLeft: at - 1 + names.length, Home: 0, End: names.length - 1 }[key.key];
    if (next === undefined) return;
    key.preventDefault();
    go(names[next % names.length], run);
    /** @type {HTMLElement} */ (tabs.children[next % names.length]).focus();
  });
  runs.addEventListener("change", () => go(chosen, Number(runs.value)));
  window.addEventListener("hashchange", follow);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { palette.clear(); show(); });
  matchMedia("(max-width: 40rem)").addEventListener("change", show);
  page.replaceChildren(element("header", {}, element("h1", {}, data.title), ...(many ? [element("label", { class: "run" }, "run ", runs)] : [])), tabs, view);
  follow();
}
