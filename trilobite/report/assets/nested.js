const BOX = 24, GAP_X = 12, GAP_Y = 18, HEAD = 24, EDGE = 10, LETTER = 6.6, SMALL = 60;

/** @typedef {{id: number, x: number, y: number, w: number, h: number, text: string, module: boolean, open: boolean, depth: number}} Box  id: an equation n, or -1 - the number of a module */

/** Places of all boxes that can be seen when these modules are open. Rows were computed before; this adds up sizes.
 * @param {Stage} stage @param {Set<number>} open @returns {{boxes: Box[], width: number, height: number}} */
function placeBoxes(stage, open) {
  /** @type {Map<number, [number, number]>} */
  const sizes = new Map();
  const text = (/** @type {number} */ id) => id >= 0 ? stage.labels[stage.label[id]] : `${stage.modules[-1 - id][0]} (${stage.modules[-1 - id][1]})`;
  const isOpen = (/** @type {number} */ id) => id < 0 && open.has(-1 - id);
  /** @param {number} id @returns {[number, number]} */
  const size = (id) => {
    const known = sizes.get(id);
    if (known) return known;
    let w = Math.round(text(id).length * LETTER) + 16, h = BOX;
    if (isOpen(id)) {
      w += 20; h = HEAD;
      for (const row of stage.modules[-1 - id][2]) {
        let across = EDGE * 2 - GAP_X, tall = 0;
        for (const child of row) { const [cw, ch] = size(child); across += cw + GAP_X; tall = Math.max(tall, ch); }
        w = Math.max(w, across); h += tall + GAP_Y;
      }
      h += EDGE - GAP_Y / 2;
    }
    /** @type {[number, number]} */
    const found = [w, h];
    sizes.set(id, found);
    return found;
  };
  /** @type {Box[]} */
  const boxes = [];
  /** @param {number} id @param {number} x @param {number} y @param {number} depth */
  const put = (id, x, y, depth) => {
    const [w, h] = size(id);
    if (id !== -1) boxes.push({ id, x, y, w, h, text: text(id), module: id < 0, open: isOpen(id), depth });
    if (!isOpen(id)) return;
    let top = y + (id === -1 ? EDGE : HEAD);
    for (const row of stage.modules[-1 - id][2]) {
      const across = row.reduce((sum, child) => sum + size(child)[0] + GAP_X, -GAP_X), tall = Math.max(...row.map((child) => size(child)[1]));
      let left = x + (w - across) / 2;
      for (const child of row) { put(child, left, top + (tall - size(child)[1]) / 2, depth + 1); left += size(child)[0] + GAP_X; }
      top += tall + GAP_Y;
    }
  };
  open.add(0);
  const [width, height] = size(-1);
  put(-1, 0, 0, 0);
  return { boxes, width, height };
}

/** Edges between boxes that can be seen, once each: an equation in a closed module is that module.
 * @param {Stage} stage @param {Box[]} boxes @returns {[Box, Box][]} */
function visibleEdges(stage, boxes) {
  const seen = new Map(boxes.map((box) => [box.id, box]));
  /** @type {(Box|undefined)[]} */
  const shownAs = new Array(stage.label.length);
  /** @param {number} module @param {Box|undefined} closed */
  const walk = (module, closed) => {
    for (const row of stage.modules[module][2])
      for (const child of row) {
        if (child >= 0) { shownAs[child] = closed || seen.get(child); continue; }
        const box = seen.get(child);
        walk(-1 - child, closed || (box && !box.open ? box : undefined));
      }
  };
  walk(0, undefined);
  const known = new Set(), found = /** @type {[Box, Box][]} */ ([]), edges = stage.edges;
  for (let i = 0; i < edges.length; i += 2) {
    const a = shownAs[edges[i]], b = shownAs[edges[i + 1]];
    if (!a || !b || a === b) continue;
    const key = `${a.id} ${b.id}`;
    if (!known.has(key)) { known.add(key); found.push([a, b]); }
  }
  return found;
}
