/** Bytes in use over time, and who owns the peak. @param {Subject} subject */
function memoryView(subject) {
  const box = element("section", {}), width = 900, height = 260, edge = 70;
  const moments = [...new Set(subject.memory.flatMap((row) => [row[1], row[2]]))].sort((a, b) => a - b);
  const use = moments.map((t) => subject.memory.reduce((sum, row) => sum + (row[1] <= t && t < row[2] ? row[3] : 0), 0));
  const top = Math.max(...use, 1), last = Math.max(...moments, 1), peak = moments[use.indexOf(top)];
  const X = (t) => edge + t / last * (width - edge - 10), Y = (b) => height - 24 - b / top * (height - 50);
  const path = moments.map((t, i) => `${i ? `L${X(t)},${Y(use[i - 1])} L` : "M"}${X(t)},${Y(use[i])}`).join(" ");
  const owners = subject.memory.filter((row) => row[1] <= peak && peak < row[2]).sort((a, b) => b[3] - a[3]);
  box.append(element("h2", {}, "Memory"), drawn("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "memory over time" },
    drawn("path", { d: path, fill: "none", stroke: colour("mark"), "stroke-width": 2 }),
    drawn("text", { x: 4, y: Y(top) + 4 }, scaled(top, "B")), drawn("text", { x: X(peak), y: Y(top) - 6 }, "peak")),
    tableView({ title: "Who owns the peak", head: ["value", "bytes"], rows: owners.map((row) => [row[0], row[3]]), note: "" }));
  return box;
}
