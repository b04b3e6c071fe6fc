/** @typedef {{name: string, time: number, joules: number, kernels: Kernel[], below: Map<string, Branch>}} Branch */

/** Kernels by module, each module with the sum of what is in it. @param {Kernel[]} kernels @returns {Branch} */
function moduleTree(kernels) {
  /** @param {string} name @returns {Branch} */
  const branch = (name) => ({ name, time: 0, joules: 0, kernels: [], below: new Map() });
  const root = branch("");
  for (const kernel of kernels) {
    let at = root;
    at.time += kernel.time; at.joules += kernel.joules;
    for (const part of kernel.module ? kernel.module.split(".") : []) {
      let next = at.below.get(part);
      if (!next) { next = branch(at.name ? `${at.name}.${part}` : part); at.below.set(part, next); }
      at = next;
      at.time += kernel.time; at.joules += kernel.joules;
    }
    at.kernels.push(kernel);
  }
  return root;
}

/** From a module down to its kernels, their equations, loops or instructions, with the user's lines. @param {Subject} subject */
function kernelsView(subject) {
  const whole = subject.kernels.reduce((sum, kernel) => sum + kernel.time, 0) || 1;
  const unit = subject.unit === "ns" ? "µs" : subject.unit, scale = subject.unit === "ns" ? 1e-3 : 1;
  const amount = (/** @type {number} */ time) => `${shown(subject.unit === "ns" ? time * scale : Math.round(time))} ${unit}, ${percent(time / whole)}`;
  const meter = (/** @type {number} */ time) => {
    const bar = element("i", { class: "meter k-mark" });
    bar.style.width = `${Math.max(time / whole * 100, 0.5)}%`;
    return element("span", { class: "meterbox", "aria-hidden": "true" }, bar);
  };
  const source = (/** @type {string} */ place) => place ? [element("code", { class: "place" }, place), ...(subject.sources[place] ? [element("code", { class: "source" }, subject.sources[place])] : [])] : [];

  const opened = (/** @type {Kernel} */ kernel) => {
    const body = element("div", { class: "inside" });
    const box = element("details", { class: "kernel" }, element("summary", {}, element("b", {}, kernel.name), ` ${amount(kernel.time)}, bound by ${kernel.bound}`, meter(kernel.time)), body);
    box.addEventListener("toggle", () => {
      if (body.childNodes.length) return;
      body.append(element("p", { class: "line" }, ...source(kernel.place)),
        element("dl", { class: "notes" }, ...kernel.notes.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)])));
      if (kernel.predicted) body.append(element("p", { class: "note" }, `predicted ${shown(kernel.predicted)} ${unit}, ${(kernel.predicted / kernel.time).toFixed(2)} of the simulated`));
      if (kernel.equations.length) body.append(element("h4", {}, "Equations"), element("ol", { class: "equations" }, ...kernel.equations.map(([text, place]) =>
        element("li", {}, element("code", {}, text), " ", ...source(place)))));
      for (const [title, text] of kernel.code) body.append(element("details", {}, element("summary", {}, title), element("pre", { tabindex: "0" }, text)));
    });
    return box;
  };
  /** @param {Branch} branch @param {number} depth @returns {HTMLElement[]} */
  const rows = (branch, depth) => {
    const below = [...branch.below.values()].sort((a, b) => b.time - a.time).map((inner) => {
      const box = element("details", depth === 0 && branch.below.size <= 3 ? { open: "" } : {}, element("summary", {}, element("b", {}, inner.name), ` ${amount(inner.time)}`, meter(inner.time)));
      let filled = false;
      const fill = () => { if (!filled) { filled = true; box.append(element("div", { class: "inside" }, ...rows(inner, depth + 1))); } };
      if (box.hasAttribute("open")) fill(); else box.addEventListener("toggle", fill);
      return box;
    });
    return [...below, ...[...branch.kernels].sort((a, b) => b.time - a.time).map(opened)];
  };
  return element("section", { class: "tree" }, element("h2", {}, "Modules and kernels"),
    element("p", { class: "note" }, "Open a module for its kernels, a kernel for its equations, its loops or instructions, and the line of your source."),
    ...rows(moduleTree(subject.kernels), 0));
}
