/** Operations a byte against operations a second, both logarithmic; the roofs, and a point a kernel. @param {Roofs} roofs */
function rooflineView(roofs) {
  const box = element("section", {}), width = 900, height = 420, edge = 64;
  const tip = element("div", { class: "tip", "aria-live": "polite" }, "Point at a kernel for its name and how far below its roof it is.");
  const points = roofs.points.filter((p) => p[1] > 0 && p[3] > 0)
    .map(([label, work, bytes, seconds]) => ({ label, x: bytes > 0 ? work / bytes : 1e4, y: work / seconds, work }));
  const top = Math.max(...roofs.peaks.map((p) => p[1]), 1), band = Math.max(...roofs.bandwidths.map((b) => b[1]), 1);
  const xs = [0.1, (top / band) * 10, ...points.map((p) => p.x)], ys = [top * 2, ...points.map((p) => p.y / 2)];
  const low = [Math.log10(Math.min(...xs)), Math.log10(Math.max(Math.min(...ys), top / 1e6))];
  const high = [Math.log10(Math.max(...xs)), Math.log10(Math.max(...ys))];
  const X = (v) => edge + (Math.log10(v) - low[0]) / (high[0] - low[0]) * (width - edge - 12);
  const Y = (v) => height - 40 - (Math.log10(Math.max(v, 10 ** low[1])) - low[1]) / (high[1] - low[1]) * (height - 60);
  const svg = drawn("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "roofline" });
  for (let d = Math.ceil(low[1]); d <= high[1]; d++)
    svg.append(drawn("line", { x1: edge, x2: width, y1: Y(10 ** d), y2: Y(10 ** d), stroke: colour("line") }),
      drawn("text", { x: 4, y: Y(10 ** d) + 4 }, scaled(10 ** d, "")));
  for (let d = Math.ceil(low[0]); d <= high[0]; d++)
    svg.append(drawn("text", { x: X(10 ** d), y: height - 22 }, String(10 ** d)));
  svg.append(drawn("text", { x: width / 2 - 60, y: height - 4 }, "operations a byte of DRAM"));
  for (const [name, peak] of roofs.peaks) {
    const knee = peak / band;
    svg.append(drawn("path", { d: `M${X(10 ** low[0])},${Y(band * 10 ** low[0])} L${X(knee)},${Y(peak)} L${width - 12},${Y(peak)}`,
      fill: "none", stroke: colour("mark"), "stroke-width": 2 }),
      drawn("text", { x: width - 210, y: Y(peak) - 6 }, `${name}: ${scaled(peak, "op/s")}`));
  }
  for (const point of points) {
    const dot = drawn("circle", { cx: X(point.x), cy: Y(point.y), r: 5, fill: colour("matrix"), tabindex: 0, "fill-opacity": 0.75 });
    const say = () => {
      const roof = Math.min(top, band * point.x);
      tip.textContent = `${point.label}\n${scaled(point.y, "op/s")}, ${shown(point.x)} operations a byte: ${(100 * point.y / roof).toFixed(1)} % of its roof`;
    };
    dot.append(drawn("title", {}, point.label));
    dot.addEventListener("pointerenter", say); dot.addEventListener("focus", say);
    svg.append(dot);
  }
  box.append(element("h2", {}, "Roofline"), svg, tip);
  return box;
}
