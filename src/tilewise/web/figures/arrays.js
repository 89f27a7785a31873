// Arrays as cells: which elements a step touches, which were touched before, which are the selected thread's.
// In: arrays with shapes and the steps of a run. Out: an element. A long array shows a window around what is touched.

import { element, escaped, grouped } from "./dom.js";
import { SIGNS } from "./grid_2d.js";

const MOST_CELLS = 1024;
const ROW = 32;
const SMALLEST = 6;
const HEAD = 20;
const CHARACTER = 7.3;
// As in figures.css, between arrays.
const GAP = [28, 8];

/**
 * @typedef {{name: string, shape: number[], space: string}} ArrayInfo
 * @typedef {{a: number, k: string, t: number[], i: number[], v: (number|null)[]}} Touch
 * @typedef {{line: number, source: string, touches: Touch[]}} Step
 */

/**
 * @param {ArrayInfo[]} arrays
 * @param {Step[]} steps
 * @param {{sectorElements?: number, onThread?: (k: number) => void, largest?: number}} [options]
 */
export function arrayPanel(arrays, steps, { sectorElements = 0, onThread, largest = 20 } = {}) {
  const root = element("div", { class: "tw-arrays", tabindex: "0" });
  const boxes = arrays.map((array) => {
    const head = element("p", { class: "tw-array-name" });
    const body = element("div", { class: "tw-array-cells" });
    root.append(element("div", { class: "tw-array" }, head, body));
    return { array, head, body };
  });
  let cell = largest;

  root.addEventListener("click", (event) => {
    const k = event.target.closest?.("[data-k]")?.getAttribute("data-k");
    if (k && onThread) onThread(Number(k));
  });

  return {
    root,
    /** Choose the largest cells with which all arrays are seen at once. @param {number} width @param {number} height */
    fit(width, height) {
      cell = largest;
      while (cell > SMALLEST && flowHeight(arrays, cell, width) > height) cell -= 1;
    },
    /** @param {number} at @param {number} selected a thread, or -1 for none */
    show(at, selected) {
      boxes.forEach(({ array, head, body }, number) => {
        const now = touchedNow(steps[at], number);
        const before = new Set();
        for (const step of steps.slice(0, at)) {
          for (const touch of step.touches) if (touch.a === number) for (const index of touch.i) before.add(index);
        }
        const sectors = sectorElements ? new Set([...now.keys()].map((e) => Math.floor(e / sectorElements))).size : 0;
        const count = sectors ? `: ${sectors} ${sectors === 1 ? "sector" : "sectors"} touched` : "";
        head.textContent = `${array.name} (${array.shape.map(grouped).join(" × ")}), ${array.space}${count}`;
        body.innerHTML = cells({ array, now, before, selected, cell, sectorElements });
      });
    },
  };
}

/** @param {ArrayInfo} array */
function sides(array) {
  const size = array.shape.reduce((all, part) => all * part, 1);
  const columns = array.shape.length === 2 ? array.shape[1] : Math.min(ROW, size);
  return { size, columns, rows: Math.ceil(size / columns) };
}

/** Height of all arrays set side by side as far as they go, then below. */
function flowHeight(arrays, cell, width) {
  let [left, line, all] = [0, 0, 0];
  for (const array of arrays) {
    const { columns, rows } = sides(array);
    const wide = Math.max(columns * cell + 4, CHARACTER * (array.name.length + 24));
    if (columns * cell + 4 > width) return Infinity;
    if (left && left + GAP[0] + wide > width) {
      all += line + GAP[1];
      [left, line] = [0, 0];
    }
    left += (left ? GAP[0] : 0) + wide;
    line = Math.max(line, HEAD + Math.min(rows, Math.ceil(MOST_CELLS / columns)) * cell + 4);
  }
  return all + line;
}

/** @param {Step|undefined} step @param {number} number */
function touchedNow(step, number) {
  const now = new Map();
  for (const touch of step ? step.touches : []) {
    if (touch.a !== number) continue;
    touch.i.forEach((index, place) => {
      const known = now.get(index) || { kind: touch.k, threads: [], value: touch.v[place] };
      known.threads.push(touch.t[place]);
      if (touch.k !== "read") known.kind = touch.k;
      now.set(index, known);
    });
  }
  return now;
}

function cells({ array, now, before, selected, cell, sectorElements }) {
  const matrix = array.shape.length === 2;
  const { size, columns, rows } = sides(array);
  const most = Math.max(1, Math.floor(MOST_CELLS / columns));
  const firstRow =
    rows <= most || !now.size ? 0 : Math.min(rows - most, Math.floor(Math.min(...now.keys()) / columns));
  const shownRows = Math.min(rows, most);
  const inner = cell - 1.5;
  const parts = [];
  for (let row = 0; row < shownRows; row += 1) {
    for (let column = 0; column < columns; column += 1) {
      const index = (firstRow + row) * columns + column;
      if (index >= size) break;
      const touch = now.get(index);
      const [x, y] = [column * cell, row * cell];
      const name = touch ? `tw-element tw-${touch.kind}` : before.has(index) ? "tw-element tw-before" : "tw-element";
      const thread = touch ? ` data-k="${touch.threads[0]}"` : "";
      const title = escaped(said(array, index, columns, matrix, touch));
      parts.push(
        `<rect class="${name}" x="${x}" y="${y}" width="${inner}" height="${inner}"${thread}><title>${title}</title></rect>`,
      );
      if (touch && cell >= 13) {
        parts.push(`<text class="tw-sign" x="${x + inner / 2}" y="${y + inner / 2}">${SIGNS[touch.kind]}</text>`);
      } else if (touch && touch.kind !== "read") {
        // Too small for a letter: what is written has a hole.
        const third = inner / 3;
        parts.push(`<rect class="tw-hole" x="${x + third}" y="${y + third}" width="${third}" height="${third}"/>`);
      }
      if (sectorElements && index % sectorElements === 0) {
        parts.push(`<line class="tw-sector" x1="${x - 0.75}" x2="${x - 0.75}" y1="${y - 1}" y2="${y + inner + 1}"/>`);
      }
      if (touch?.threads.includes(selected)) {
        const side = inner + 2;
        parts.push(`<rect class="tw-selected" x="${x - 1}" y="${y - 1}" width="${side}" height="${side}"/>`);
      }
    }
  }
  const [wide, tall] = [columns * cell + 4, shownRows * cell + 4];
  const left = size - shownRows * columns;
  const rowsShown = `${grouped(firstRow)} to ${grouped(firstRow + shownRows - 1)}`;
  const note = left > 0 ? `<p class="tw-array-note">Rows ${rowsShown}; ${grouped(left)} elements are not drawn.</p>` : "";
  return `<svg width="${wide}" height="${tall}" viewBox="-2 -2 ${wide} ${tall}" aria-hidden="true">${parts.join("")}</svg>${note}`;
}

function said(array, index, columns, matrix, touch) {
  const where = matrix
    ? `${array.name}[${Math.floor(index / columns)}][${index % columns}], element ${index}`
    : `${array.name}[${index}]`;
  if (!touch) return where;
  const value = touch.value === null || touch.value === undefined ? "" : `, value ${touch.value}`;
  const who = touch.threads.length === 1 ? `thread ${touch.threads[0]}` : `${touch.threads.length} threads`;
  return `${where}: ${touch.kind} by ${who}${value}`;
}
