/** One graph on a canvas: wheel or +/- zooms, dragging or arrows move, a click chooses, a double click or Enter opens and closes.
 * @param {Stage} stage @param {Uint8Array} marks @param {string} mark  class of marked equations @param {string} sign  before their text
 * @param {(text: string) => void} say @param {string} label */
function graphBoard(stage, marks, mark, sign, say, label) {
  const canvas = /** @type {HTMLCanvasElement} */ (element("canvas", { tabindex: "0", role: "application", class: "graph",
    "aria-label": `${label}; plus and minus zoom, arrow keys move, n and p choose the next and previous box, Enter opens and closes a module, 0 shows everything` }));
  const open = new Set([0]), height = 560;
  if (stage.label.length <= SMALL) stage.modules.forEach((_, n) => open.add(n));
  let { boxes, width: wide, height: tall } = placeBoxes(stage, open), edges = visibleEdges(stage, boxes);
  let scale = 1, left = 0, top = 0, chosen = -1, drag = /** @type {[number, number]|null} */ (null), fitted = false, moved = false;

  const fit = () => {
    const width = canvas.clientWidth || 900;
    scale = Math.min(1.2, Math.max(Math.min(width / (wide + 20), height / (tall + 20)), 0.02));
    if (scale < 0.8) scale = Math.min(1, Math.max(width / (wide + 20), 0.35)); // rather readable from its top than whole
    left = (width / scale - wide) / 2; top = tall * scale < height ? (height / scale - tall) / 2 : 8;
  };
  const draw = () => {
    const began = performance.now(), [ink, width] = sharpCanvas(canvas, height);
    if (!fitted) { fitted = true; fit(); }
    ink.scale(scale, scale); ink.translate(left, top);
    const x0 = -left, x1 = width / scale - left, y0 = -top, y1 = height / scale - top;
    const inside = (/** @type {Box} */ b) => b.x < x1 && b.x + b.w > x0 && b.y < y1 && b.y + b.h > y0;
    const card = colour("card"), line = colour("line"), text = colour("ink"), soft = colour("soft"), paper = colour("paper"), hot = colour(mark);
    for (const box of boxes) if (box.open && inside(box)) {
      ink.fillStyle = box.depth % 2 ? paper : card; ink.strokeStyle = line;
      ink.fillRect(box.x, box.y, box.w, box.h); ink.strokeRect(box.x, box.y, box.w, box.h);
    }
    ink.strokeStyle = soft; ink.lineWidth = Math.max(1, 0.6 / scale); ink.globalAlpha = 0.6;
    ink.beginPath();
    for (const [a, b] of edges) {
      const ax = a.x + a.w / 2, ay = a.y + a.h, bx = b.x + b.w / 2, by = b.y;
      if (Math.max(ax, bx) < x0 || Math.min(ax, bx) > x1 || by < y0 || ay > y1) continue;
      ink.moveTo(ax, ay);
      if (scale < 0.2) ink.lineTo(bx, by); else { const bend = Math.min(Math.abs(by - ay) / 2, 40); ink.bezierCurveTo(ax, ay + bend, bx, by - bend, bx, by); }
    }
    ink.stroke();
    ink.globalAlpha = 1;
    const letters = scale > 0.3;
    boxes.forEach((box, n) => {
      if (!inside(box)) return;
      const marked = box.id >= 0 && marks[box.id] === 1;
      ink.lineWidth = n === chosen ? 3 : marked ? 2 : 1;
      ink.strokeStyle = n === chosen ? colour("mark") : marked ? hot : line;
      if (!box.open) { ink.fillStyle = box.module ? colour("waiting") : card; ink.fillRect(box.x, box.y, box.w, box.h); ink.strokeRect(box.x, box.y, box.w, box.h); }
      else if (n === chosen) ink.strokeRect(box.x, box.y, box.w, box.h);
      if (letters) { ink.fillStyle = text; ink.fillText(`${marked ? sign : ""}${box.module ? (box.open ? "▾ " : "▸ ") : ""}${box.text}`, box.x + 8, box.y + 16); }
    });
    canvas.dataset.ms = (performance.now() - began).toFixed(2); canvas.dataset.boxes = String(boxes.length); canvas.dataset.scale = String(scale);
  };
  const later = atNextFrame(draw);
  const laid = () => { ({ boxes, width: wide, height: tall } = placeBoxes(stage, open)); edges = visibleEdges(stage, boxes); later(); };
  const zoom = (/** @type {number} */ factor, /** @type {number} */ x, /** @type {number} */ y) => {
    const next = Math.min(Math.max(scale * factor, 0.01), 4);
    left += x / next - x / scale; top += y / next - y / scale; scale = next; later();
  };
  const choose = (/** @type {number} */ n) => {
    chosen = n;
    const box = boxes[n];
    if (box) {
      if (box.module) say(`${stage.modules[-1 - box.id][0]}: ${stage.modules[-1 - box.id][1]} equations`);
      else say([stage.labels[stage.label[box.id]], stage.details[stage.detail[box.id]], stage.places[stage.place[box.id]]].filter(Boolean).join("\n"));
    }
    later();
  };
  const toggle = () => {
    const box = boxes[chosen];
    if (!box || !box.module) return;
    const module = -1 - box.id, before = { x: box.x, y: box.y };
    if (!open.delete(module)) open.add(module);
    laid();
    chosen = boxes.findIndex((other) => other.id === box.id);
    left += before.x - boxes[chosen].x; top += before.y - boxes[chosen].y; // what was clicked stays where it was
  };
  const step = (/** @type {number} */ by) => {
    choose((chosen + by + boxes.length) % boxes.length);
    const box = boxes[chosen], width = canvas.clientWidth;
    left = width / scale / 2 - box.x - box.w / 2; top = Math.min(height / scale / 2 - box.y - BOX / 2, 8 + Math.max(0, height / scale / 2 - box.y)); later();
  };
  const at = (/** @type {number} */ x, /** @type {number} */ y) => {
    const px = x / scale - left, py = y / scale - top;
    for (let n = boxes.length - 1; n >= 0; n--) { const b = boxes[n]; if (px >= b.x && px <= b.x + b.w && py >= b.y && py <= b.y + b.h) return n; }
    return -1;
  };
  canvas.addEventListener("wheel", (move) => { move.preventDefault(); zoom(move.deltaY > 0 ? 0.87 : 1.15, move.offsetX, move.offsetY); }, { passive: false });
  canvas.addEventListener("pointerdown", (move) => { drag = [move.offsetX, move.offsetY]; moved = false; canvas.setPointerCapture(move.pointerId); });
  canvas.addEventListener("pointermove", (move) => {
    if (!drag) return;
    moved = moved || Math.hypot(move.offsetX - drag[0], move.offsetY - drag[1]) > 3;
    if (moved) { left += (move.offsetX - drag[0]) / scale; top += (move.offsetY - drag[1]) / scale; drag = [move.offsetX, move.offsetY]; later(); }
  });
  canvas.addEventListener("pointerup", (move) => { drag = null; if (!moved) choose(at(move.offsetX, move.offsetY)); });
  canvas.addEventListener("dblclick", toggle);
  canvas.addEventListener("keydown", (key) => {
    const by = 60 / scale, middle = canvas.clientWidth / 2;
    /** @type {Record<string, () => void>} */
    const moves = { "+": () => zoom(1.4, middle, height / 2), "=": () => zoom(1.4, middle, height / 2), "-": () => zoom(0.7, middle, height / 2), ArrowLeft: () => { left += by; later(); },
      ArrowRight: () => { left -= by; later(); }, ArrowUp: () => { top += by; later(); }, ArrowDown: () => { top -= by; later(); }, n: () => step(1), p: () => step(-1), Enter: toggle, 0: () => { fit(); later(); } };
    if (moves[key.key]) { key.preventDefault(); moves[key.key](); }
  });
  new ResizeObserver(later).observe(canvas);
  return { canvas, all: (/** @type {boolean} */ opened) => { open.clear(); open.add(0); if (opened) stage.modules.forEach((_, n) => open.add(n)); chosen = -1; laid(); fit(); } };
}

/** How many equations have a mark. @param {Uint8Array} marks */
function countMarks(marks) { let count = 0; for (const mark of marks) count += mark; return count; }

/** The graph after each pass beside the one before it: what the pass took away, and what it made. @param {Subject} subject */
function graphView(subject) {
  const pick = /** @type {HTMLSelectElement} */ (element("select", { "aria-label": "stage" })), place = element("div", { class: "split" }), tip = element("pre", { class: "tip", "aria-live": "polite" }), said = element("p", { class: "sentence" });
  subject.stages.forEach((stage, i) => pick.append(element("option", { value: String(i) }, `${i ? "after " : ""}${stage.name} (${stage.total.toLocaleString("en")} equations)`)));
  const both = /** @type {HTMLInputElement} */ (element("input", { type: "checkbox" }));
  /** @type {{all: (opened: boolean) => void}[]} */
  let boards = [];
  const show = () => {
    const number = Number(pick.value), stage = subject.stages[number], before = subject.stages[number - 1];
    tip.textContent = "Choose an equation for what it computes and the line that it comes from. A double click, or Enter, opens and closes a module.";
    const made = countMarks(stage.fresh), gone = before ? countMarks(before.gone) : 0;
    said.textContent = `${stage.name}${stage.doc ? `: ${stage.doc}` : ""}. ` + (before ? `${made} equations are new (+, thick frame), ${gone} of the ${before.total.toLocaleString("en")} before it are gone (−). ` : "") +
      (stage.same.length ? `Left as it is by ${stage.same.join(", ")}.` : "") + (stage.total > stage.label.length ? ` The first ${stage.label.length.toLocaleString("en")} equations are drawn.` : "");
    const say = (/** @type {string} */ text) => { tip.textContent = text; };
    const after = graphBoard(stage, stage.fresh, "vector", "+ ", say, `graph after ${stage.name}`);
    const parts = [element("div", {}, element("h3", {}, before ? `after ${stage.name}` : stage.name), after.canvas)];
    boards = [after];
    if (both.checked && before) {
      const old = graphBoard(before, before.gone, "matrix", "− ", say, `graph before ${stage.name}`);
      parts.unshift(element("div", {}, element("h3", {}, `before ${stage.name}`), old.canvas));
      boards.push(old);
    }
    place.replaceChildren(...parts);
  };
  pick.addEventListener("change", show); both.addEventListener("change", show);
  const box = element("section", {}, element("h2", {}, "Graph"), element("div", { class: "controls" }, pick,
    button("previous", () => { pick.value = String(Math.max(Number(pick.value) - 1, 0)); show(); }), button("next", () => { pick.value = String(Math.min(Number(pick.value) + 1, subject.stages.length - 1)); show(); }),
    element("label", {}, both, " the one before beside it"), button("open all modules", () => boards.forEach((board) => board.all(true))), button("close all", () => boards.forEach((board) => board.all(false)))), said, place, tip);
  show();
  return box;
}
