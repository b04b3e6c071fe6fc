/** The graph after each pass, laid out beforehand; nodes that a pass made are marked. @param {Subject} subject */
function graphView(subject) {
  const box = element("section", {}), pick = /** @type {HTMLSelectElement} */ (element("select", { "aria-label": "stage" })),
    place = element("div", { class: "scroll" }), tip = element("pre", {}, "Choose an equation.");
  subject.stages.forEach((stage, i) => pick.append(element("option", { value: String(i) }, `${stage.name} (${stage.nodes.length})`)));
  const show = () => {
    const stage = subject.stages[Number(pick.value)];
    const svg = drawn("svg", { viewBox: `0 0 ${stage.width} ${stage.height}`, role: "img", "aria-label": stage.name });
    svg.style.width = `${stage.width}px`;
    const at = new Map(stage.nodes.map((node) => [node.id, node]));
    for (const [a, b] of stage.edges) {
      const from = at.get(a), to = at.get(b);
      if (from && to) svg.append(drawn("path", { class: "edge", d: `M${from.x + from.w / 2},${from.y + from.h} C${from.x + from.w / 2},${from.y + from.h + 18} ${to.x + to.w / 2},${to.y - 18} ${to.x + to.w / 2},${to.y}` }));
    }
    for (const node of stage.nodes) {
      const group = drawn("g", { class: node.fresh ? "node new" : "node", tabindex: 0 },
        drawn("rect", { x: node.x, y: node.y, width: node.w, height: node.h, rx: 4 }),
        drawn("text", { x: node.x + 6, y: node.y + 16 }, node.label));
      const say = () => { tip.textContent = `${node.label}\n${node.module || ""}\n${node.location}`; };
      group.addEventListener("click", say); group.addEventListener("focus", say);
      svg.append(group);
    }
    place.replaceChildren(svg);
  };
  pick.addEventListener("change", show);
  box.append(element("h2", {}, "Graph"), element("p", { class: "note" }, "After each pass; what the pass made has a green frame."), pick, place, tip);
  show();
  return box;
}
