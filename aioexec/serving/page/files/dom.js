/* Creation of elements, and the text of numbers. */

const SVG = "http://www.w3.org/2000/svg";

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value === true) node.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) node.setAttribute(name, value);
  }
  node.append(...children.flat());
  return node;
}

/** An HTML element; attributes that start with "on" are listeners, false and null ones are left out. */
export function html(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** An SVG element. */
export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

export function byId(id) {
  return document.getElementById(id);
}

/** A number with three significant digits, thousands separated. */
export function number(value) {
  if (!Number.isFinite(value)) return "–";
  if (Math.abs(value) >= 100) return Math.round(value).toLocaleString("en");
  return String(Number(value.toPrecision(3)));
}

/** The text of a shape, as [?, 28, 28]. */
export function shape(dims) {
  return dims === null ? "any shape" : `[${dims.map((dim) => dim ?? "?").join(", ")}]`;
}

/** Microseconds with a unit. */
export function duration(micros) {
  if (micros >= 1e6) return `${number(micros / 1e6)} s`;
  if (micros >= 1e3) return `${number(micros / 1e3)} ms`;
  return `${number(micros)} µs`;
}
