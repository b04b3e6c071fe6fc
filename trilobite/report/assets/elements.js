/** An element with attributes and children; strings become text, never markup.
 * @param {string} tag @param {Record<string, string>} [attributes] @param {...(Node|string)} children */
function element(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/** The same for drawings. @param {string} tag @param {Record<string, string|number>} attributes @param {...(Node|string)} children */
function drawn(tag, attributes, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, String(value));
  made.append(...children);
  return made;
}

/** A number for reading. @param {number|string|null} value */
function shown(value) {
  if (value === null) return "–";
  if (typeof value !== "number") return String(value);
  if (Number.isInteger(value)) return value.toLocaleString("en");
  return Math.abs(value) >= 1000 ? Math.round(value).toLocaleString("en") : value.toPrecision(4);
}

/** @param {number} value @param {string} unit */
function scaled(value, unit) {
  const steps = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];
  for (const [size, letter] of steps)
    if (value >= /** @type {number} */ (size)) return `${(value / /** @type {number} */ (size)).toPrecision(3)} ${letter}${unit}`;
  return `${value.toPrecision(3)} ${unit}`;
}

/** A colour of the style sheet. @param {string} name */
function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim() || "#888";
}
