/** How much of the first one the second needs: "1.8 times less", "the same", "2.1 times more". @param {number} a @param {number} b */
function ratioText(a, b) {
  if (!(a > 0) || !(b > 0)) return "–";
  const ratio = b / a;
  if (Math.abs(ratio - 1) < 0.005) return "the same";
  return ratio < 1 ? `${(1 / ratio).toFixed(2)} times less` : `${ratio.toFixed(2)} times more`;
}

/** Time of every module in seconds, and what is left of the whole. @param {Subject} subject @returns {Map<string, number>} */
function moduleSeconds(subject) {
  const found = new Map(), scale = subject.unit === "ns" ? 1e-9 : subject.total ? subject.seconds / subject.total : 0;
  let rest = subject.seconds;
  for (const kernel of subject.kernels) {
    const name = kernel.module || "(the network itself)", seconds = kernel.time * scale;
    found.set(name, (found.get(name) || 0) + seconds);
    rest -= seconds;
  }
  if (rest > subject.seconds * 1e-3) found.set("(outside kernels)", rest);
  return found;
}

/** Two runs side by side: a sentence, the figures of both, and the time of every module. @param {Subject[]} subjects */
function compareView(subjects) {
  const names = subjects.map((subject, i) => `${i + 1} ${subject.name} on ${subject.target}`);
  const pick = (/** @type {number} */ chosen, /** @type {string} */ label) => {
    const made = /** @type {HTMLSelectElement} */ (element("select", { "aria-label": label }, ...names.map((name, i) => element("option", { value: String(i) }, name))));
    made.value = String(chosen);
    return made;
  };
  const first = pick(0, "first run"), second = pick(1, "second run"), place = element("div", { id: "comparison" });
  const show = () => {
    const a = subjects[Number(first.value)], b = subjects[Number(second.value)];
    const both = Object.keys(a.numbers).filter((name) => name in b.numbers);
    const said = `${b.name} on ${b.target} takes ${shown(b.seconds * 1e3)} ms, ${a.name} on ${a.target} ${shown(a.seconds * 1e3)} ms: ${ratioText(a.seconds, b.seconds)}.`;
    const left = moduleSeconds(a), right = moduleSeconds(b), modules = [...new Set([...left.keys(), ...right.keys()])];
    const rows = modules.map((name) => /** @type {Cell[]} */ ([name, (left.get(name) || 0) * 1e6, (right.get(name) || 0) * 1e6, ratioText(left.get(name) || 0, right.get(name) || 0)]));
    rows.sort((x, y) => Math.abs(Number(y[1]) - Number(y[2])) - Math.abs(Number(x[1]) - Number(x[2])));
    const figures = [...new Set([...a.figures, ...b.figures].map((pair) => pair[0]))];
    const value = (/** @type {Subject} */ s, /** @type {string} */ name) => (s.figures.find((pair) => pair[0] === name) || ["", "–"])[1];
    place.replaceChildren(element("p", { class: "sentence" }, said),
      ...(both.length ? [tableView({ title: "Numbers of both", head: ["", "first", "second", "the second needs"], rows: both.map((name) => [name, a.numbers[name], b.numbers[name], ratioText(a.numbers[name], b.numbers[name])]), note: "" })] : []),
      ...(rows.length ? [tableView({ title: "Time of every module", head: ["module", "first, µs", "second, µs", "the second needs"], rows, note: "Largest difference first; each column sums to the whole time of its run." })] : []),
      tableView({ title: "Figures", head: ["figure", names[Number(first.value)], names[Number(second.value)]], rows: figures.map((name) => [name, value(a, name), value(b, name)]), note: "" }));
  };
  first.addEventListener("change", show); second.addEventListener("change", show);
  show();
  return element("section", {}, element("h2", {}, "Comparison"), element("div", { class: "controls" }, first, " against ", second), place);
}
