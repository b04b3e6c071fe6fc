/** @typedef {{steps: number, last: number, points: [number, number][]}} LiveCurve
 * @typedef {{number: number, machine: string, kernel: string, cycles: number, ms: number, mJ: number}} Launch
 * @typedef {{seconds: number, doing: string, ended: string, line: string, curves: Record<string, LiveCurve>, launches: Launch[], launched: number, cycles: number, kernel: string, kernels: {kernel: string, ms: number, share: number}[]}} State */

/** A number over steps. @param {string} name @param {LiveCurve} curve */
function curveView(name, curve) {
  const width = 440, height = 190, edge = 62, foot = 24, points = curve.points.length ? curve.points : /** @type {[number, number][]} */ ([[curve.steps, curve.last]]);
  const values = points.map((p) => p[1]).filter(Number.isFinite), low = Math.min(...values), high = Math.max(...values), last = Math.max(curve.steps, 2);
  const X = (/** @type {number} */ s) => edge + (s - 1) / (last - 1) * (width - edge - 10), Y = (/** @type {number} */ v) => height - foot - (high > low ? (v - low) / (high - low) : 0.5) * (height - foot - 16);
  const svg = drawn("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${name} over ${curve.steps} steps, now ${shown(curve.last)}` });
  for (const value of high > low ? [low, (low + high) / 2, high] : [low]) svg.append(drawn("line", { x1: edge, x2: width - 10, y1: Y(value), y2: Y(value), class: "grid" }), drawn("text", { x: edge - 6, y: Y(value) + 4, "text-anchor": "end" }, shown(value)));
  svg.append(drawn("path", { d: points.map((p, i) => `${i ? "L" : "M"}${X(p[0]).toFixed(1)},${Y(p[1]).toFixed(1)}`).join(" "), class: "curve" }), drawn("text", { x: width - 10, y: height - 6, "text-anchor": "end" }, `step ${shown(curve.steps)}`));
  return element("div", { class: "live" }, element("h3", {}, `${name}: ${shown(curve.last)}`), svg);
}

/** @param {State} state @param {HTMLElement} page @param {string} token */
function showState(state, page, token) {
  const status = state.ended ? `The command is ${state.ended}, after ${state.seconds.toFixed(0)} s.` : `Running for ${state.seconds.toFixed(0)} s${state.doing ? `: ${state.doing}` : ""}.`;
  /** @type {[string, string][]} */
  const figures = [["launches of the processor", shown(state.launched)], ["cycles simulated", shown(state.cycles)]];
  if (state.launches.length) figures.push(["kernel of the last launch", state.launches[state.launches.length - 1].kernel || "–"]);
  const parts = [element("p", { class: "sentence", id: "status" }, status), element("p", { class: "line" }, ...(state.line ? ["at ", element("code", { class: "place" }, state.line)] : [])),
    element("div", { class: "split" }, ...Object.entries(state.curves).map(([name, curve]) => curveView(name, curve)))];
  if (state.kernels.length || state.kernel) {
    const now = state.ended ? "" : state.kernel ? "The CPU is at " : "The CPU is between two kernels.";
    parts.push(element("h2", {}, "CPU"), element("p", { class: "line", id: "kernel" }, now, ...(state.kernel && !state.ended ? [element("code", {}, state.kernel)] : [])));
    if (state.kernels.length) parts.push(tableView({ title: "Kernels", head: ["kernel", "ms", "share"], rows: state.kernels.map((k) => [k.kernel, k.ms, `${(100 * k.share).toFixed(1)}%`]), note: "Measured while they ran, the longest first." }));
  }
  if (state.launched) {
    const link = element("a", { href: `/report?token=${encodeURIComponent(token)}`, target: "_blank", rel: "noreferrer" }, "report of the last launch");
    parts.push(element("h2", {}, "Processor"), element("div", { class: "figures" }, ...figures.map(([name, value]) => element("div", { class: "figure" }, element("b", {}, value), element("span", {}, name)))), element("p", {}, link),
      tableView({ title: "Launches", head: ["launch", "machine", "kernel", "cycles", "ms", "mJ"], rows: state.launches.slice(-20).reverse().map((l) => [l.number, l.machine, l.kernel, l.cycles, l.ms, l.mJ]), note: "" }));
  }
  page.replaceChildren(element("header", {}, element("h1", {}, "Trilobite studio")), ...parts);
}

(function watch() {
  const token = document.body.dataset.token || "", page = /** @type {HTMLElement} */ (document.getElementById("page"));
  const ask = async () => {
    try {
      const answer = await fetch(`/state?token=${encodeURIComponent(token)}`), state = /** @type {State} */ (await answer.json());
      showState(state, page, token);
      if (!state.ended) setTimeout(ask, 400);
    } catch (error) {
      page.append(element("p", { class: "note" }, "The command's process does not answer any more."));
    }
  };
  ask();
})();
