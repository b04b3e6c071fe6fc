const ROW = 22, NAMES = 112, AXIS = 26;

/** The last event that starts at or before a time, by halving. @param {Lane} lane @param {number} when @returns {number} */
function lastBefore(lane, when) {
  const start = lane.start;
  let low = 0, high = start.length;
  while (low < high) { const middle = (low + high) >> 1; if (start[middle] <= when) low = middle + 1; else high = middle; }
  return low - 1;
}

/** The event that runs at a time, or that is less than `reach` away; -1 if there is none.
 * @param {Lane} lane @param {number} when @param {number} [reach] @returns {number} */
function eventAt(lane, when, reach = 0) {
  const found = lastBefore(lane, when);
  if (found >= 0 && when <= lane.start[found] + lane.length[found] + reach) return found;
  return found + 1 < lane.start.length && lane.start[found + 1] - when <= reach ? found + 1 : -1;
}

/** Which events to draw, as [number, left, right] in pixels: every one that is wider than a pixel, and of the rest one a
 * pixel. The cost is the canvas's width, not the trace's length.
 * @param {Lane} lane @param {number} width  of the drawing without names @param {number} from @param {number} to
 * @param {(event: number, left: number, right: number) => void} draw */
function visibleEvents(lane, width, from, to, draw) {
  const { start, length } = lane, scale = width / (to - from);
  let i = Math.max(lastBefore(lane, from), 0);
  while (i < start.length && start[i] < to) {
    const left = Math.max((start[i] - from) * scale, 0), right = Math.min((start[i] + length[i] - from) * scale, width);
    if (right >= 0) draw(i, left, Math.max(right, left + 0.6));
    const next = from + Math.max(right, left + 1) / scale;
    i = length[i] * scale >= 1 ? i + 1 : Math.max(i + 1, lastBefore(lane, next));
  }
}

/** @param {CanvasRenderingContext2D} ink @param {Lane} lane @param {number} row @param {number} width @param {number} from
 * @param {number} to @param {string[]} paints  by label, "" for the lane's own @param {[string, string][]} labels @param {number} chosen */
function drawLane(ink, lane, row, width, from, to, paints, labels, chosen) {
  const y = AXIS + row * ROW, own = colour(lane.kind), names = lane.label, plain = colour("ink");
  ink.fillStyle = plain;
  ink.fillText(lane.name, 6, y + 15, NAMES - 10);
  visibleEvents(lane, width - NAMES, from, to, (i, left, right) => {
    ink.fillStyle = paints[names[i]] || own;
    ink.fillRect(NAMES + left, y + 3, right - left, ROW - 6);
    if (right - left > 46) {
      ink.fillStyle = paints[names[i]] ? plain : "#fff";
      ink.save(); ink.beginPath(); ink.rect(NAMES + left, y, right - left - 3, ROW); ink.clip();
      ink.fillText(labels[names[i]][0].split("\n")[0], NAMES + left + 4, y + 15);
      ink.restore();
    }
    if (i === chosen) { ink.strokeStyle = plain; ink.lineWidth = 2; ink.strokeRect(NAMES + left, y + 2, Math.max(right - left, 2), ROW - 4); ink.lineWidth = 1; }
  });
}

/** A distance between marks that reads well: 1, 2 or 5 times a power of ten. @param {number} rough @returns {number} */
function tickStep(rough) {
  const power = 10 ** Math.floor(Math.log10(rough));
  return [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough * 0.999) || rough;
}

/** @param {CanvasRenderingContext2D} ink @param {number} width @param {number} height @param {number} from @param {number} to @param {string} unit */
function drawAxis(ink, width, height, from, to, unit) {
  const step = tickStep((to - from) / Math.max((width - NAMES) / 110, 1));
  const [size, name] = unit === "ns" ? timeUnit(to - from) : [1, unit];
  ink.strokeStyle = colour("line"); ink.fillStyle = colour("soft");
  for (let n = Math.ceil(from / step); n * step <= to; n++) {
    const x = NAMES + (n * step - from) / (to - from) * (width - NAMES);
    ink.beginPath(); ink.moveTo(x, AXIS - 6); ink.lineTo(x, height); ink.stroke();
    ink.fillText(Number((n * step / size).toPrecision(12)).toLocaleString("en", { maximumFractionDigits: 6 }), x + 3, 14);
  }
  ink.fillText(name, 6, 14);
}
