const ROW = 22, NAMES = 112, AXIS = 26;

/** Lanes of events on a canvas: wheel or +/- zooms, dragging or arrows move, a click names the event.
 * @param {Subject} subject */
function timelineView(subject) {
  const box = element("section", {}), canvas = /** @type {HTMLCanvasElement} */ (element("canvas", {
    tabindex: "0", role: "img",
    "aria-label": "timeline; plus and minus zoom, arrow keys move, zero shows everything" }));
  const tip = element("div", { class: "tip", "aria-live": "polite" },
    "Point at an event for its instruction, its place and what bound it. Wheel or +/− zooms, dragging or arrows move, 0 shows all.");
  const kinds = [...new Set([...subject.lanes.map((lane) => lane.kind), ...subject.labels.map((label) => label[1])])].filter(Boolean);
  box.append(element("h2", {}, "Timeline"), element("div", { class: "legend" },
    ...kinds.map((kind) => element("span", {}, element("i", { class: `k-${kind}` }), kind))), canvas, tip);
  const height = AXIS + subject.lanes.length * ROW;
  let from = 0, to = Math.max(subject.total, 1), drag = /** @type {number|null} */ (null), pending = false;

  const draw = () => {
    pending = false;
    const ratio = window.devicePixelRatio || 1, width = canvas.clientWidth || 900;
    if (canvas.width !== width * ratio || canvas.height !== height * ratio) {
      canvas.width = width * ratio; canvas.height = height * ratio; canvas.style.height = `${height}px`;
    }
    const ink = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    ink.setTransform(ratio, 0, 0, ratio, 0, 0);
    ink.clearRect(0, 0, width, height);
    ink.font = "12px system-ui, sans-serif";
    drawAxis(ink, width, height, from, to, subject.unit);
    const paints = subject.labels.map(([, kind]) => kind ? colour(kind) : "");
    subject.lanes.forEach((lane, row) => drawLane(ink, lane, row, width, from, to, paints));
    canvas.dataset.from = String(from); canvas.dataset.to = String(to);
  };
  const later = () => { if (!pending) { pending = true; requestAnimationFrame(draw); } };
  const show = (a, b) => {
    const least = Math.min(8, subject.total || 8), span = Math.min(Math.max(b - a, least), Math.max(subject.total, 1));
    from = Math.min(Math.max(a, 0), Math.max(subject.total - span, 0)); to = from + span; later();
  };
  const zoom = (factor, at) => show(at - (at - from) * factor, at + (to - at) * factor);
  const time = (x) => from + (x - NAMES) / Math.max(canvas.clientWidth - NAMES, 1) * (to - from);

  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    zoom(event.deltaY > 0 ? 1.25 : 0.8, time(event.offsetX));
  }, { passive: false });
  canvas.addEventListener("pointerdown", (event) => { drag = event.offsetX; canvas.setPointerCapture(event.pointerId); });
  canvas.addEventListener("pointerup", () => { drag = null; });
  canvas.addEventListener("pointermove", (event) => {
    if (drag !== null) {
      const step = (drag - event.offsetX) / Math.max(canvas.clientWidth - NAMES, 1) * (to - from);
      drag = event.offsetX;
      show(from + step, to + step);
      return;
    }
    const lane = subject.lanes[Math.floor((event.offsetY - AXIS) / ROW)];
    const found = lane ? eventAt(lane, time(event.offsetX)) : -1;
    if (lane && found >= 0)
      tip.textContent = `${lane.name}: ${shown(lane.start[found])} to ${shown(lane.start[found] + lane.length[found])} ${subject.unit}\n${subject.labels[lane.label[found]][0]}`;
  });
  canvas.addEventListener("keydown", (event) => {
    const step = (to - from) / 8, middle = (from + to) / 2;
    const moves = { "+": () => zoom(0.5, middle), "=": () => zoom(0.5, middle), "-": () => zoom(2, middle),
      ArrowLeft: () => show(from - step, to - step), ArrowRight: () => show(from + step, to + step),
      0: () => show(0, subject.total) };
    const move = /** @type {Record<string, () => void>} */ (moves)[event.key];
    if (move) { event.preventDefault(); move(); }
  });
  new ResizeObserver(later).observe(canvas);
  later();
  return box;
}

/** The last event that starts at or before a time, by halving. @param {Lane} lane @param {number} when */
function lastBefore(lane, when) {
  let low = 0, high = lane.start.length;
  while (low < high) { const middle = (low + high) >> 1; if (lane.start[middle] <= when) low = middle + 1; else high = middle; }
  return low - 1;
}

/** @param {Lane} lane @param {number} when */
function eventAt(lane, when) {
  const found = lastBefore(lane, when);
  return found >= 0 && when <= lane.start[found] + lane.length[found] ? found : -1;
}

/** Every event that is wider than a pixel, and of the rest one a pixel: the cost is the canvas's width, not the trace's.
 * @param {CanvasRenderingContext2D} ink @param {Lane} lane @param {number} row @param {number} width @param {number} from @param {number} to @param {string[]} paints by label, "" for the lane's own */
function drawLane(ink, lane, row, width, from, to, paints) {
  const y = AXIS + row * ROW, scale = (width - NAMES) / (to - from);
  ink.fillStyle = colour("ink");
  ink.fillText(lane.name, 6, y + 15, NAMES - 10);
  const own = colour(lane.kind);
  let i = Math.max(lastBefore(lane, from), 0);
  while (i < lane.start.length && lane.start[i] < to) {
    const left = Math.max(NAMES + (lane.start[i] - from) * scale, NAMES);
    const right = Math.min(NAMES + (lane.start[i] + lane.length[i] - from) * scale, width);
    ink.fillStyle = paints[lane.label[i]] || own;
    if (right >= NAMES) ink.fillRect(left, y + 3, Math.max(right - left, 0.6), ROW - 6);
    const next = from + (Math.max(right, left + 1) - NAMES) / scale;
    i = lane.length[i] * scale >= 1 ? i + 1 : Math.max(i + 1, lastBefore(lane, next));
  }
}

/** @param {CanvasRenderingContext2D} ink @param {number} width @param {number} height @param {number} from @param {number} to @param {string} unit */
function drawAxis(ink, width, height, from, to, unit) {
  const rough = (to - from) / Math.max((width - NAMES) / 110, 1), power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough) || rough;
  ink.strokeStyle = colour("line"); ink.fillStyle = colour("soft");
  for (let t = Math.ceil(from / step) * step; t <= to; t += step) {
    const x = NAMES + (t - from) / (to - from) * (width - NAMES);
    ink.beginPath(); ink.moveTo(x, AXIS - 6); ink.lineTo(x, height); ink.stroke();
    ink.fillText(shown(Math.round(t * 1000) / 1000), x + 3, 14);
  }
  ink.fillText(unit, 6, 14);
}
