/** Bytes in use after every change, by one sweep over beginnings and ends.
 * @param {[string, number, number, number][]} rows  owner, from, to, bytes @returns {{at: number[], use: number[]}} */
function memoryCurve(rows) {
  const changes = new Map();
  for (const [, from, to, bytes] of rows) {
    changes.set(from, (changes.get(from) || 0) + bytes);
    changes.set(to, (changes.get(to) || 0) - bytes);
  }
  const at = [...changes.keys()].sort((a, b) => a - b);
  let now = 0;
  return { at, use: at.map((moment) => (now += changes.get(moment))) };
}

/** Bytes in use over time, and who owns the peak. @param {Subject} subject */
function memoryView(subject) {
  const { at, use } = memoryCurve(subject.memory), width = chartWidth(), height = 280, edge = 74, foot = 30;
  const top = use.reduce((a, b) => Math.max(a, b), 1), last = at[at.length - 1] || 1, peak = at[use.indexOf(top)] || 0;
  const X = (/** @type {number} */ t) => edge + t / last * (width - edge - 14), Y = (/** @type {number} */ b) => height - foot - b / top * (height - foot - 26);
  const path = `M${edge},${Y(0)}` + at.map((t, i) => ` L${X(t).toFixed(1)},${Y(i ? use[i - 1] : 0).toFixed(1)} L${X(t).toFixed(1)},${Y(use[i]).toFixed(1)}`).join("");
  const svg = drawn("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `memory over time, at most ${shown(top)} bytes`, tabindex: 0 });
  for (const share of [0, 0.25, 0.5, 0.75, 1])
    svg.append(drawn("line", { x1: edge, x2: width - 14, y1: Y(share * top), y2: Y(share * top), class: "grid" }), drawn("text", { x: edge - 8, y: Y(share * top) + 4, "text-anchor": "end" }, scaled(share * top, "B")));
  const step = Math.max(tickStep(last / (width / 90)), 1);
  for (let t = 0; X(t) < width - 76; t += step) svg.append(drawn("text", { x: X(t), y: height - 12, "text-anchor": "middle" }, shown(t)));
  svg.append(drawn("text", { x: width - 14, y: height - 12, "text-anchor": "end" }, "kernel"),
    drawn("path", { d: `${path} L${X(last)},${Y(0)} L${edge},${Y(0)} Z`, class: "area" }), drawn("path", { d: path, class: "curve" }),
    drawn("circle", { cx: X(peak), cy: Y(top), r: 5, class: "peak" }), drawn("text", { x: Math.min(X(peak) + 8, width - 60), y: Y(top) - 8 }, "peak"));
  const mark = drawn("line", { class: "cursor", y1: 10, y2: height - foot, x1: X(peak), x2: X(peak) });
  svg.append(mark);
  const place = element("div", {});
  const show = (/** @type {number} */ moment) => {
    mark.setAttribute("x1", String(X(moment))); mark.setAttribute("x2", String(X(moment)));
    const owners = subject.memory.filter((row) => row[1] <= moment && moment < row[2]).sort((a, b) => b[3] - a[3]);
    const sum = owners.reduce((all, row) => all + row[3], 0);
    place.replaceChildren(tableView({ title: moment === peak ? "Who owns the peak" : `Who holds memory at kernel ${moment}`, head: ["value", "made by kernel", "last read by", "bytes", "share"],
      rows: owners.map((row) => [row[0], row[1], row[2] - 1, row[3], row[3] / sum]), note: `${shown(sum)} bytes in ${owners.length} values.` }));
  };
  let now = peak;
  const to = (/** @type {number} */ moment) => { now = Math.min(Math.max(Math.round(moment), 0), Math.max(last - 1, 0)); show(now); };
  svg.addEventListener("click", (event) => {
    const box = svg.getBoundingClientRect(), x = (/** @type {MouseEvent} */ (event).clientX - box.left) / box.width * width;
    to((x - edge) / (width - edge - 14) * last);
  });
  svg.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[/** @type {KeyboardEvent} */ (event).key];
    if (step) { event.preventDefault(); to(now + step); }
  });
  show(peak);
  return element("section", {}, element("h2", {}, "Memory"), element("p", { class: "sentence" }, `At most ${scaled(top, "B")} are in use at once, at kernel ${shown(peak)} of ${shown(last)}.`),
    element("p", { class: "note" }, "Values between kernels; inputs, weights and constants are there before and behind the run. Click, or use the arrow keys, for another moment."), svg, place);
}
