/** The roof over an intensity. @param {number} peak @param {number} band @param {number} x */
function roofAt(peak, band, x) { return Math.min(peak, band * x); }

/** Operations a byte against operations a second, both logarithmic; the roofs, and a point a kernel. @param {Subject} subject */
function rooflineView(subject) {
  const roofs = /** @type {Roofs} */ (subject.roofs), width = chartWidth(), height = Math.min(440, Math.max(width * 0.75, 300)), edge = 72, foot = 46;
  const measured = subject.target === "cpu" ? "measured" : "simulated";
  const top = Math.max(...roofs.peaks.map((p) => p[1]), 1), band = Math.max(...roofs.bandwidths.map((b) => b[1]), 1);
  const slow = Math.min(...roofs.bandwidths.map((b) => b[1]));
  const points = roofs.points.filter((p) => p[1] > 0 && p[3] > 0)
    .map(([label, work, bytes, seconds]) => ({ label, x: bytes > 0 ? work / bytes : top / slow * 30, y: work / seconds, work, seconds, bytes }));
  const xs = [top / band / 30, top / slow * 30, ...points.map((p) => p.x)], ys = [top * 1.6, ...points.map((p) => p.y / 2)];
  const low = [Math.log10(Math.min(...xs)), Math.log10(Math.max(Math.min(...ys), top / 1e6))], high = [Math.log10(Math.max(...xs)), Math.log10(Math.max(...ys))];
  const X = (/** @type {number} */ v) => edge + (Math.log10(v) - low[0]) / (high[0] - low[0]) * (width - edge - 16);
  const Y = (/** @type {number} */ v) => height - foot - (Math.log10(Math.max(v, 10 ** low[1])) - low[1]) / (high[1] - low[1]) * (height - foot - 24);
  const svg = drawn("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `roofline with ${points.length} kernels, ${measured}` });
  for (let d = Math.ceil(low[1]); d <= high[1]; d++)
    svg.append(drawn("line", { x1: edge, x2: width - 16, y1: Y(10 ** d), y2: Y(10 ** d), class: "grid" }), drawn("text", { x: edge - 8, y: Y(10 ** d) + 4, "text-anchor": "end" }, scaled(10 ** d, "op/s")));
  for (let d = Math.ceil(low[0]); d <= high[0]; d++)
    svg.append(drawn("line", { x1: X(10 ** d), x2: X(10 ** d), y1: 14, y2: height - foot, class: "grid" }), drawn("text", { x: X(10 ** d), y: height - foot + 18, "text-anchor": "middle" }, String(Number((10 ** d).toPrecision(3)))));
  svg.append(drawn("text", { x: (width + edge) / 2, y: height - 8, "text-anchor": "middle" }, "operations a byte of memory"));
  roofs.bandwidths.forEach(([name, rate], n) => {
    const knee = top / rate, from = Math.max(10 ** low[0], 10 ** low[1] / rate);
    // along the slope, over it: a label beside the line would lie on it
    const at = from * (knee / from) ** 0.12, x = X(at), y = Y(rate * at) - 8, angle = Math.atan2(Y(top) - Y(rate * from), X(knee) - X(from)) * 180 / Math.PI;
    svg.append(drawn("path", { d: `M${X(from)},${Y(rate * from)} L${X(knee)},${Y(top)}`, class: n ? "roof thin" : "roof" }),
      drawn("text", { x, y, transform: `rotate(${angle.toFixed(1)} ${x.toFixed(1)} ${y.toFixed(1)})` }, `${name}: ${scaled(rate, "B/s")}`));
  });
  for (const [name, peak] of roofs.peaks)
    svg.append(drawn("path", { d: `M${X(Math.min(peak / band, 10 ** high[0]))},${Y(peak)} L${width - 16},${Y(peak)}`, class: "roof" }),
      drawn("text", { x: width - 20, y: Y(peak) - 7, "text-anchor": "end" }, `${name}: ${scaled(peak, "op/s")}`));
  const tip = element("div", { class: "tip", "aria-live": "polite" }, "Point at a kernel, or move to it with the Tab key, for its name and how far below its roof it is.");
  const most = Math.max(...points.map((p) => p.seconds), 1e-300);
  for (const point of points) {
    const dot = drawn("circle", { cx: X(point.x), cy: Y(point.y), r: 4 + 7 * Math.sqrt(point.seconds / most), class: "dot", tabindex: 0, "aria-label": point.label });
    const say = () => {
      tip.textContent = `${point.label}\n${scaled(point.y, "op/s")}, ${shown(point.x)} operations a byte, ${percent(point.y / roofAt(top, slow, point.x))} of the roof over it, ${shown(point.seconds * 1e6)} µs`;
    };
    for (const kind of ["pointerenter", "focus"]) dot.addEventListener(kind, say);
    svg.append(dot);
  }
  /** @type {Cell[][]} */
  const rows = points.map((p) => [p.label.split("\n")[0], p.seconds * 1e6, p.y / 1e9, p.x, p.y / roofAt(top, slow, p.x), p.x < top / slow ? "memory" : "arithmetic"]);
  rows.sort((a, b) => Number(b[1]) - Number(a[1]));
  return element("section", {}, element("h2", {}, "Roofline"), element("p", { class: "note" }, `Every kernel is a point, ${measured}; its area grows with its time.`), svg, tip,
    tableView({ title: "Every kernel", head: ["kernel", "µs", "Gop/s", "operations a byte", "of the roof", "under"], rows, note: "" }));
}
