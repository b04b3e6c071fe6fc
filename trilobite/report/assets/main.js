/** @param {Subject} subject */
function overview(subject) {
  return element("section", {}, element("h2", {}, subject.target), element("p", { class: "sentence" }, subject.sentence),
    element("div", { class: "figures" }, ...subject.figures.map(([name, value]) =>
      element("div", { class: "figure" }, element("b", {}, value), element("span", {}, name)))));
}

/** Two runs side by side: figures that are in both. @param {Subject[]} subjects */
function comparison(subjects) {
  const first = subjects[0];
  const rows = first.figures.map(([name, value]) => [name, value, ...subjects.slice(1).map((other) =>
    (other.figures.find((pair) => pair[0] === name) || ["", "–"])[1])]);
  return tableView({ title: "Comparison", head: ["figure", ...subjects.map((s) => s.target)], rows, note: "" });
}

function start() {
  const data = readData(), page = /** @type {HTMLElement} */ (document.getElementById("page"));
  const views = element("div", { id: "view" }), tabs = element("nav", { role: "tablist" });
  /** @type {[string, () => Node[]][]} */
  const offered = [["overview", () => data.subjects.map(overview)]];
  if (data.subjects.length > 1) offered.push(["compare", () => [comparison(data.subjects)]]);
  const each = (name, has, make) => data.subjects.filter(has).forEach((subject) =>
    offered.push([data.subjects.length > 1 ? `${name}: ${subject.target}` : name, () => make(subject)]));
  each("timeline", (s) => s.lanes.length, (s) => [timelineView(s)]);
  each("roofline", (s) => s.roofs && s.roofs.points.length, (s) => [rooflineView(s.roofs)]);
  each("graph", (s) => s.stages.length, (s) => [graphView(s)]);
  each("memory", (s) => s.memory.length, (s) => [memoryView(s)]);
  each("tables", (s) => s.tables.length, (s) => s.tables.map(tableView));
  const choose = (index) => {
    [...tabs.children].forEach((tab, i) => tab.setAttribute("aria-selected", String(i === index)));
    views.replaceChildren(...offered[index][1]());
  };
  offered.forEach(([name], index) => {
    const tab = element("button", { type: "button", role: "tab" }, name);
    tab.addEventListener("click", () => { choose(index); history.replaceState(null, "", `#${index}`); });
    tabs.append(tab);
  });
  page.replaceChildren(element("h1", {}, data.title), tabs, views);
  const asked = Number(location.hash.slice(1));
  choose(asked > 0 && asked < offered.length ? asked : 0);
}
start();
