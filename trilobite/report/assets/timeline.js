/** A canvas as wide as its place and as sharp as the screen. @param {HTMLCanvasElement} canvas @param {number} height
 * @returns {[CanvasRenderingContext2D, number]} */
function sharpCanvas(canvas, height) {
  const ratio = window.devicePixelRatio || 1, width = canvas.clientWidth || 900;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio); canvas.height = Math.round(height * ratio); canvas.style.height = `${height}px`;
  }
  const ink = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  ink.setTransform(ratio, 0, 0, ratio, 0, 0);
  ink.clearRect(0, 0, width, height);
  ink.font = "12px system-ui, sans-serif";
  return [ink, width];
}

/** Draws at the next frame, however often it is asked. @param {() => void} draw */
function atNextFrame(draw) {
  let pending = false;
  return () => { if (!pending) { pending = true; requestAnimationFrame(() => { pending = false; draw(); }); } };
}

/** Lanes of events on a canvas: wheel or +/- zooms, dragging or arrows move, a click names the event, a double click fills the
 * view with it. @param {Subject} subject */
function timelineView(subject) {
  const canvas = /** @type {HTMLCanvasElement} */ (element("canvas", { tabindex: "0", role: "application", id: "timeline",
    "aria-label": "timeline; plus and minus zoom, left and right move, up and down choose a lane, n and p its next and previous event, z fills the view with it, 0 shows everything" }));
  const tip = element("div", { class: "tip", "aria-live": "polite" },
    "Point at an event for its instruction, its place and what bound it. Wheel or + and − zoom, dragging or arrows move, n and p step through events, z or a double click fills the view with one, 0 shows all.");
  const kinds = [...new Set([...subject.lanes.map((lane) => lane.kind), ...subject.labels.map((label) => label[1])])].filter(Boolean);
  const find = /** @type {HTMLInputElement} */ (element("input", { type: "search", placeholder: "find an event, Enter for the next", "aria-label": "find an event" }));
  const height = AXIS + subject.lanes.length * ROW, whole = Math.max(subject.total, 1);
  let from = 0, to = whole, drag = /** @type {number|null} */ (null), row = 0, event = -1;

  const draw = () => {
    const began = performance.now(), [ink, width] = sharpCanvas(canvas, height);
    drawAxis(ink, width, height, from, to, subject.unit);
    const paints = subject.labels.map(([, kind]) => kind ? colour(kind) : "");
    subject.lanes.forEach((lane, n) => drawLane(ink, lane, n, width, from, to, paints, subject.labels, n === row ? event : -1));
    canvas.dataset.from = String(from); canvas.dataset.to = String(to); canvas.dataset.ms = (performance.now() - began).toFixed(2);
  };
  const later = atNextFrame(draw);
  const show = (/** @type {number} */ a, /** @type {number} */ b) => {
    const span = Math.min(Math.max(b - a, Math.min(4, whole)), whole);
    from = Math.min(Math.max(a, 0), whole - span); to = from + span; later();
  };
  const zoom = (/** @type {number} */ factor, /** @type {number} */ at) => show(at - (at - from) * factor, at + (to - at) * factor);
  const time = (/** @type {number} */ x) => from + (x - NAMES) / Math.max(canvas.clientWidth - NAMES, 1) * (to - from);
  const choose = (/** @type {number} */ lane, /** @type {number} */ number) => {
    row = lane; event = number;
    const chosen = subject.lanes[lane], start = chosen.start[number], end = start + chosen.length[number];
    tip.textContent = `${chosen.name}: ${subject.unit === "ns" ? timed(start, "ns") : shown(start)} to ${timed(end, subject.unit)}, ${subject.unit === "ns" ? timed(chosen.length[number], "ns") : shown(chosen.length[number])} long\n${subject.labels[chosen.label[number]][0]}`;
    later();
  };
  const fill = () => {
    if (event < 0) return;
    const lane = subject.lanes[row], room = Math.max(lane.length[event] * 0.15, 0.5);
    show(lane.start[event] - room, lane.start[event] + lane.length[event] + room);
  };
  const step = (/** @type {number} */ by) => {
    const lane = subject.lanes[row], next = event < 0 ? Math.max(lastBefore(lane, from), 0) : Math.min(Math.max(event + by, 0), lane.start.length - 1);
    choose(row, next);
    if (lane.start[next] < from || lane.start[next] > to) show(lane.start[next] - (to - from) / 2, lane.start[next] + (to - from) / 2);
  };
  const search = () => {
    const wanted = find.value.toLowerCase(), hits = new Set();
    if (!wanted) return;
    subject.labels.forEach(([text], n) => { if (text.toLowerCase().includes(wanted)) hits.add(n); });
    const since = event < 0 ? -1 : subject.lanes[row].start[event];
    let best = /** @type {[number, number, number]|null} */ (null), first = best;
    subject.lanes.forEach((lane, n) => {
      for (let i = 0; i < lane.label.length; i++) {
        if (!hits.has(lane.label[i])) continue;
        const at = lane.start[i];
        if (!first || at < first[0]) first = [at, n, i];
        if ((at > since || (at === since && n > row)) && (!best || at < best[0])) best = [at, n, i];
      }
    });
    const found = best || first;
    if (!found) { tip.textContent = `no event has ${find.value} in its text`; return; }
    choose(found[1], found[2]); fill();
  };
  find.addEventListener("keydown", (key) => { if (key.key === "Enter") { key.preventDefault(); search(); } });

  canvas.addEventListener("wheel", (move) => { move.preventDefault(); zoom(move.deltaY > 0 ? 1.25 : 0.8, time(move.offsetX)); }, { passive: false });
  canvas.addEventListener("pointerdown", (move) => { drag = move.offsetX; canvas.setPointerCapture(move.pointerId); });
  for (const kind of ["pointerup", "pointercancel"]) canvas.addEventListener(kind, () => { drag = null; });
  canvas.addEventListener("dblclick", fill);
  canvas.addEventListener("pointermove", (move) => {
    if (drag !== null) {
      const by = (drag - move.offsetX) / Math.max(canvas.clientWidth - NAMES, 1) * (to - from);
      if (Math.abs(drag - move.offsetX) > 2) { drag = move.offsetX; show(from + by, to + by); }
      return;
    }
    const lane = Math.floor((move.offsetY - AXIS) / ROW), there = subject.lanes[lane];
    const found = there ? eventAt(there, time(move.offsetX), (to - from) / canvas.clientWidth * 2) : -1;
    if (found >= 0 && (found !== event || lane !== row)) choose(lane, found);
  });
  canvas.addEventListener("keydown", (key) => {
    const by = (to - from) / 8, middle = (from + to) / 2, lanes = subject.lanes.length;
    /** @type {Record<string, () => void>} */
    const moves = { "+": () => zoom(0.5, middle), "=": () => zoom(0.5, middle), "-": () => zoom(2, middle), ArrowLeft: () => show(from - by, to - by),
      ArrowRight: () => show(from + by, to + by), ArrowUp: () => { row = (row + lanes - 1) % lanes; event = -1; step(0); }, ArrowDown: () => { row = (row + 1) % lanes; event = -1; step(0); },
      n: () => step(1), p: () => step(-1), z: fill, 0: () => show(0, whole) };
    if (moves[key.key]) { key.preventDefault(); moves[key.key](); }
  });
  new ResizeObserver(later).observe(canvas);
  const events = subject.lanes.reduce((sum, lane) => sum + lane.start.length, 0);
  return element("section", {}, element("h2", {}, "Timeline"), element("p", { class: "note" }, `${shown(events)} events in ${subject.lanes.length} lane${subject.lanes.length > 1 ? "s" : ""}, ${timed(subject.total, subject.unit)} in all.`),
    legend(kinds.map((kind) => [kind, kind])),
    element("div", { class: "controls" }, button("+", () => zoom(0.5, (from + to) / 2), { "aria-label": "zoom in" }), button("−", () => zoom(2, (from + to) / 2), { "aria-label": "zoom out" }),
      button("all", () => show(0, whole)), find), element("div", { class: "lanes" }, canvas), tip);
}
