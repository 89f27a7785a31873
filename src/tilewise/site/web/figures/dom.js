// Creates elements. In: names, attributes, children. Out: detached elements.

const SVG = "http://www.w3.org/2000/svg";

/**
 * @param {string} tag
 * @param {Record<string, any>} [attributes] `on*` are listeners, `class` and the rest are attributes; null leaves one out
 * @param {...(Node|string|null)} children
 * @returns {any}
 */
export function element(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

/**
 * @param {string} tag
 * @param {Record<string, any>} [attributes]
 * @param {...(Node|string|null)} children
 * @returns {any}
 */
export function svg(tag, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, tag), attributes, children);
}

/** @param {string|number} text */
export function escaped(text) {
  return String(text).replace(/[&<>"]/g, (sign) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[sign]);
}

let numbered = 0;

/** @param {string} word */
export function uniqueId(word) {
  numbered += 1;
  return `tw-${word}-${numbered}`;
}

/** Digits in groups of three, as the text writes them. @param {number} value */
export function grouped(value) {
  return value.toLocaleString("en-US");
}

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}
