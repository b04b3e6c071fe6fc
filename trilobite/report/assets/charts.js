/** Bars from the left, one a row, each of several parts; widths are shares of the longest row.
 * @param {string} title @param {[string, [string, number][]][]} rows  a name, and parts: class and amount
 * @param {(amount: number) => string} write */
function barsView(title, rows, write) {
  const most = Math.max(...rows.map(([, parts]) => parts.reduce((sum, part) => sum + part[1], 0)), 1e-300);
  const list = element("div", { class: "bars", role: "list", "aria-label": title });
  for (const [name, parts] of rows) {
    const total = parts.reduce((sum, part) => sum + part[1], 0), bar = element("span", { class: "bar" });
    for (const [kind, amount] of parts) {
      if (amount <= 0) continue;
      const piece = element("i", { class: `k-${kind}`, title: `${kind}: ${write(amount)}` });
      piece.style.width = `${amount / most * 100}%`;
      bar.append(piece);
    }
    list.append(element("div", { class: "barrow", role: "listitem" }, element("span", { class: "barname", title: name }, name), bar, element("span", { class: "barsum" }, write(total))));
  }
  return list;
}

/** @param {Subject} subject @param {string} title @returns {Table|undefined} */
function tableOf(subject, title) { return subject.tables.find((table) => table.title === title); }

/** What every queue of every core did, by cause, and where: by module and by line. @param {Subject} subject */
function stallsView(subject) {
  const table = /** @type {Table} */ (tableOf(subject, "Stalls")), causes = table.head.slice(1);
  /** @type {[string, [string, number][]][]} */
  const rows = table.rows.map((row) => [String(row[0]), causes.map((cause, i) => [causeClass(cause), Number(row[i + 1])])]);
  const seen = [...new Map(causes.map((cause) => [causeClass(cause), cause]))];
  const box = element("section", {}, element("h2", {}, "Stalls"), element("p", { class: "note" }, table.note),
    legend(seen.map(([kind]) => [kind, causes.filter((cause) => causeClass(cause) === kind).join(", ")])),
    barsView("stalls", rows, (n) => shown(Math.round(n))));
  const more = subject.tables.filter((t) => /^(Stalls|Where the cycles went|Critical path)/.test(t.title));
  box.append(...more.map((t) => tableView(t.title === "Stalls" ? { ...t, title: "Stalls in numbers" } : t)));
  return box;
}

/** Causes share a colour by their kind. @param {string} cause */
function causeClass(cause) {
  if (cause === "busy") return "vector";
  if (cause === "idle" || cause === "launch") return "waiting";
  if (/dram|memory|bank|bandwidth|llc|noc/i.test(cause)) return "io";
  if (/sync|barrier/i.test(cause)) return "kernel";
  return "matrix";
}

/** Joules by unit, and by layer where layers are known. @param {Subject} subject */
function energyView(subject) {
  const table = /** @type {Table} */ (tableOf(subject, "Energy"));
  /** @type {[string, [string, number][]][]} */
  const units = table.rows.filter((row) => Number(row[1]) > 0).map((row) => [String(row[0]), [["mark", Number(row[1])]]]);
  units.sort((a, b) => b[1][0][1] - a[1][0][1]);
  const box = element("section", {}, element("h2", {}, "Energy by unit"), barsView("energy by unit", units, (n) => `${shown(n)} µJ`));
  const layers = subject.kernels.filter((kernel) => kernel.joules > 0).sort((a, b) => b.joules - a.joules);
  /** @type {[string, [string, number][]][]} */
  const rows = layers.slice(0, 60).map((kernel) => [`${kernel.name} ${kernel.module}`.trim(), [["vector", kernel.joules * 1e6]]]);
  if (rows.length) box.append(element("h2", {}, "Energy by layer"), barsView("energy by layer", rows, (n) => `${shown(n)} µJ`));
  box.append(tableView({ ...table, title: "Energy in numbers" }));
  return box;
}

/** The mapping of every layer; cycles that the model predicted beside those of the simulation. @param {Subject} subject */
function mappingView(subject) {
  const known = subject.kernels.filter((kernel) => kernel.predicted > 0 && kernel.time > 0);
  const off = known.map((kernel) => Math.abs(kernel.predicted / kernel.time - 1)).sort((a, b) => a - b);
  const total = known.reduce((sum, k) => sum + k.time, 0), told = known.reduce((sum, k) => sum + k.predicted, 0);
  const said = known.length ? `${known.length} layers with a prediction: half of them within ${percent(off[off.length >> 1])} of the simulation, the worst ${percent(off[off.length - 1])} off; ` +
    `${shown(Math.round(told))} cycles predicted in all, ${shown(total)} simulated.` : "No layer has a prediction.";
  /** @type {[string, [string, number][]][]} */
  const bars = known.flatMap((k) => /** @type {[string, [string, number][]][]} */ ([[`${k.name}`, [["mark", k.time]]], ["predicted", [["kernel", k.predicted]]]]));
  return element("section", {}, element("h2", {}, "Mapping"), element("p", { class: "sentence" }, said),
    legend([["mark", "simulated"], ["kernel", "predicted"]]), barsView("predicted and simulated cycles", bars.slice(0, 120), (n) => shown(Math.round(n))),
    tableView({ title: "Every layer", head: ["layer", "module", "mapping", "simulated", "predicted", "predicted / simulated", "bound by", "line"],
      rows: subject.kernels.map((k) => [k.name, k.module, (k.notes.find((note) => note[0] === "mapping") || ["", ""])[1], k.time, k.predicted || null,
        k.predicted && k.time ? k.predicted / k.time : null, k.bound, k.place]), note: "" }));
}
