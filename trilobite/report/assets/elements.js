/** An element with attributes and children; strings become text, never markup.
 * @param {string} tag @param {Record<string, string>} [attributes] @param {...(Node|string)} children @returns {HTMLElement} */
function element(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/** The same for drawings. @param {string} tag @param {Record<string, string|number>} attributes @param {...(Node|string)} children @returns {SVGElement} */
function drawn(tag, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, String(value));
  made.append(...children);
  return /** @type {SVGElement} */ (made);
}

/** A button that does something. @param {string} text @param {() => void} act @param {Record<string, string>} [more] */
function button(text, act, more) {
  const made = element("button", { type: "button", ...more }, text);
  made.addEventListener("click", act);
  return made;
}

/** A number for reading. @param {Cell|undefined} value @returns {string} */
function shown(value) {
  if (value === null || value === undefined) return "–";
  if (typeof value !== "number") return String(value);
  if (Number.isInteger(value)) return value.toLocaleString("en");
  return Math.abs(value) >= 1000 ? Math.round(value).toLocaleString("en") : value.toPrecision(4);
}

/** @param {number} value @param {string} unit @returns {string} */
function scaled(value, unit) {
  /** @type {[number, string][]} */
  const steps = [[1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];
  for (const [size, letter] of steps)
    if (value >= size) return `${(value / size).toPrecision(3)} ${letter}${unit}`;
  return `${value.toPrecision(3)} ${unit}`.trim();
}

/** A time or a count of the axis; nanoseconds in the unit that fits. @param {number} value @param {string} unit @returns {string} */
function timed(value, unit) {
  if (unit !== "ns") return `${shown(value)} ${unit}`;
  const [size, name] = timeUnit(value);
  return `${shown(value / size)} ${name}`;
}

/** Of a span of nanoseconds the unit to write it in: how many they are, and its name. @param {number} span @returns {[number, string]} */
function timeUnit(span) { return span >= 1e6 ? [1e6, "ms"] : span >= 1e3 ? [1e3, "µs"] : [1, "ns"]; }

/** How wide a chart is drawn: as wide as the screen up to a limit, so that its letters stay readable on a phone. */
function chartWidth() { return Math.min(Math.max(window.innerWidth - 24, 320), 900); }

/** @param {number} share @returns {string} */
function percent(share) { return `${(share * 100).toFixed(share >= 0.1 || share === 0 ? 0 : share >= 0.001 ? 1 : 2)} %`; }

/** Colours of the style sheet by name, read once for light and once for dark. @type {Map<string, string>} */
const palette = new Map();
/** @param {string} name @returns {string} */
function colour(name) {
  let found = palette.get(name);
  if (found === undefined) {
    found = getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim() || "#888";
    palette.set(name, found);
  }
  return found;
}

/** @param {[string, string][]} pairs  class and text */
function legend(pairs) {
  return element("div", { class: "legend" }, ...pairs.map(([kind, text]) => element("span", {}, element("i", { class: `k-${kind}` }), text)));
}
