// Arrays of a stepped figure: the elements that a step accesses, their sectors or banks, and their values.
// In: arrays, a moment, the known state. Out: an element, with the largest cells that fit.

import { element, escaped, grouped, uniqueId } from "tilewise-figures/dom.js";
import { SIGNS, hatching } from "tilewise-figures/grid_2d.js";
import { WARP, total } from "tilewise-figures/launch.js";
import { brief, ofBlock } from "./moments.js";

const [VALUE_WIDTH, SHORT] = [36, 30];
const VALUE_HEIGHT = 24;
const [SMALLEST, LEAST, LARGEST, ROW] = [6, 9, 20, 32];
const MOST_ROWS = 24;
const SECTOR = 32;
const [CHARACTER, LETTER, HEAD_ROOM, MODEL_ROOM] = [7, 7.3, 19, 10];

/** @param {any} spec @param {{onThread: (k: number) => void}} options */
export function cellPanel(spec, { onThread }) {
  const root = element("div", { class: "tw-arrays", tabindex: "0" });
  const boxes = spec.arrays.map((array) => {
    const head = element("p", { class: "tw-array-name" });
    const body = element("div", { class: "tw-array-cells" });
    const box = element("div", { class: "tw-array" }, head, body);
    const least = CHARACTER * (array.name.length + (array.space === "model" ? MODEL_ROOM : HEAD_ROOM));
    box.style.minWidth = `${least}px`; // so that no step moves the next array
    root.append(box);
    return { box, head, body, least, hatch: uniqueId("hatch") };
  });
  let room = { width: 0, largest: LARGEST };
  root.addEventListener("click", (event) => {
    const k = event.target.closest?.("[data-k]")?.getAttribute("data-k");
    if (k) onThread(Number(k));
  });

  /** Scroll to the arrays that a step touches, where none of them is seen. @param {HTMLElement[]} active */
  function reveal(active) {
    const seen = root.getBoundingClientRect();
    const top = (box) => box.getBoundingClientRect().top - seen.top;
    if (!active.length || active.some((box) => top(box) > -ROW && top(box) < root.clientHeight - 2 * ROW)) return;
    root.scrollTop += top(active[0]);
  }

  return {
    root,
    /**
     * @param {import("./moments.js").Moment} moment @param {import("./moments.js").Known} known
     * @param {number} block @param {number} selected
     */
    show(moment, known, block, selected) {
      const here = ofBlock(spec, block);
      const active = [];
      boxes.forEach(({ box, head, body, least, hatch }, number) => {
        const array = spec.arrays[number];
        const now = touched(moment, number, here);
        const part = array.used ? `${grouped(array.used)} of ` : "";
        const { columns, wide } = laidOut(array, room);
        const name = `${array.name} (${part}${array.shape.map(grouped).join(" × ")})`;
        const letters = Math.max(least, columns * wide) / LETTER - name.length;
        head.textContent = `${name}${cost(moment, number, spec, letters) || where(array, block, spec)}`;
        body.innerHTML = drawing({ array, hatch, now, known, number, selected, room, blanks: spec.blanks });
        if (now.size) active.push(box);
      });
      reveal(active);
    },
    /** Choose the largest cells with which all arrays are seen, by frames that are empty. @param {number} width */
    fit(width) {
      for (room = { width, largest: LARGEST }; room.largest > LEAST; room.largest -= 1) {
        boxes.forEach(({ head, body }, number) => {
          head.textContent = spec.arrays[number].name;
          body.innerHTML = frame(spec.arrays[number], room, 0, "");
        });
        if (root.scrollHeight <= root.clientHeight) return;
      }
    },
  };
}

/** How many elements are drawn: of an array in shared memory those that the run uses. */
function drawnOf(array) {
  return array.used ?? array.shape.reduce((all, side) => all * side, 1);
}

/** Columns of an array's drawing and the size of a cell. */
function laidOut(array, { width, largest }) {
  const size = drawnOf(array);
  const [short, below] = array.tight ?? [0, 0];
  const tight = width < below;
  const value = tight ? short : (array.wide ?? VALUE_WIDTH);
  const valued = array.space !== "global";
  const compact = (columns) => {
    const cell = Math.min(largest, Math.max(SMALLEST, Math.floor((width - 4) / columns)));
    return { columns, wide: cell, tall: cell, valued: false };
  };
  if (array.shape.length === 2) {
    const columns = array.shape[1];
    if (!valued || columns * value > width) return compact(columns);
    return { columns, wide: value, tall: tight ? LARGEST : VALUE_HEIGHT, valued };
  }
  if (!valued) return compact(Math.min(ROW, size));
  const fits = 2 ** Math.floor(Math.log2(Math.max(1, Math.floor(width / value))));
  return { columns: Math.min(size, fits), wide: value, tall: VALUE_HEIGHT, valued };
}

function where(array, block, spec) {
  if (array.space === "model") return "";
  const many = spec.grid && spec.grid.some((size) => size > 1);
  if (array.space === "shared") return many ? `, block ${block}` : ", shared";
  return ", global";
}

/** The sectors of a step, summed over the warps that touch the array; how many these are is said where it has room. */
function cost(moment, number, spec, letters) {
  const touches = moment.touches.filter((touch) => touch.array === number && touch.sectors);
  if (!touches.length) return "";
  const sectors = touches.reduce((all, touch) => all + touch.sectors, 0);
  const each = total(spec.block);
  const warpOf = (k) => WARP * Math.floor(k / each) + Math.floor((k % each) / WARP);
  const warps = new Set(touches.flatMap(({ threads }) => threads.map(warpOf))).size;
  const said = `, ${grouped(sectors)} ${sectors === 1 ? "sector" : "sectors"}`;
  const over = warps > 1 ? ` over ${grouped(warps)} warps` : "";
  return said.length + over.length < letters ? said + over : said;
}

function touched(moment, number, here) {
  const now = new Map();
  for (const touch of moment.touches) {
    if (touch.array !== number) continue;
    touch.elements.forEach((index, place) => {
      if (!here(touch, place)) return;
      const known = now.get(index) || { kind: touch.kind, threads: [] };
      if (touch.threads) known.threads.push(touch.threads[place]);
      if (touch.kind !== "read") known.kind = touch.kind;
      now.set(index, known);
    });
  }
  return now;
}

function drawing({ array, hatch, now, known, number, selected, room, blanks }) {
  const size = drawnOf(array);
  const { columns, wide, tall, valued } = laidOut(array, room);
  const rows = Math.ceil(size / columns);
  const shown = Math.min(rows, MOST_ROWS);
  const first = rows <= shown || !now.size ? 0 : Math.min(rows - shown, Math.floor(Math.min(...now.keys()) / columns));
  const sectors = new Set();
  const sectorOf = (index) => Math.floor((array.offset + index * array.item) / SECTOR);
  if (array.space === "global") for (const index of now.keys()) sectors.add(sectorOf(index));
  const parts = [];
  for (let index = first * columns; index < Math.min(size, (first + shown) * columns); index += 1) {
    const held = known.contents[number].get(index);
    const empty = blanks && held === "nan";
    const value = empty ? undefined : held;
    const touch = empty ? undefined : now.get(index);
    const [x, y] = [(index % columns) * wide, (Math.floor(index / columns) - first) * tall];
    const fetched = !touch && sectors.has(sectorOf(index));
    const before = !empty && known.before[number].has(index);
    const looks = touch ? `tw-element tw-${touch.kind}` : before ? "tw-element tw-before" : "tw-element";
    const drawn = fetched ? `class="tw-fetched" fill="url(#${hatch})"` : `class="${looks}"`;
    const thread = touch?.threads.length ? ` data-k="${touch.threads[0]}"` : "";
    const title = escaped(said(array, index, columns, touch, value));
    const [w, h] = [wide - 1.5, tall - 1.5];
    parts.push(
      `<rect ${drawn} x="${x}" y="${y}" width="${w}" height="${h}"${thread}><title>${title}</title></rect>`,
    );
    const middle = `x="${x + w / 2}" y="${y + h / 2}"`;
    if (valued) {
      if (touch?.kind === "read") {
        parts.push(`<rect class="tw-open" x="${x + 2}" y="${y + 2}" width="${w - 4}" height="${h - 4}"/>`);
      }
      const filled = `${touch && touch.kind !== "read" ? "tw-sign" : "tw-number"}${wide < SHORT ? " tw-short" : ""}`;
      parts.push(`<text class="${filled}" ${middle}>${empty ? "" : brief(value)}</text>`);
    } else if (touch && tall >= 13) parts.push(`<text class="tw-sign" ${middle}>${SIGNS[touch.kind]}</text>`);
    else if (touch && touch.kind !== "read") {
      parts.push(`<rect class="tw-hole" x="${x + w / 3}" y="${y + h / 3}" width="${w / 3}" height="${h / 3}"/>`);
    }
    if (array.space === "global" && (array.offset + index * array.item) % SECTOR === 0) {
      parts.push(`<line class="tw-sector" x1="${x - 0.75}" x2="${x - 0.75}" y1="${y - 1}" y2="${y + h + 1}"/>`);
    }
    if (touch?.threads.includes(selected)) {
      parts.push(`<rect class="tw-selected" x="${x - 1}" y="${y - 1}" width="${w + 2}" height="${h + 2}"/>`);
    }
  }
  return frame(array, room, first, `<defs>${hatching(hatch)}</defs>${parts.join("")}`);
}

/** What surrounds an array's cells: as large as they are, and with a line below where rows are left out. */
function frame(array, room, first, parts) {
  const size = drawnOf(array);
  const { columns, wide, tall } = laidOut(array, room);
  const shown = Math.min(Math.ceil(size / columns), MOST_ROWS);
  const [across, down] = [columns * wide + 4, shown * tall + 4];
  const left = size - shown * columns;
  const note = left > 0 ? `<p class="tw-array-note">From row ${grouped(first)}; ${grouped(left)} elements are not drawn.</p>` : "";
  return `<svg width="${across}" height="${down}" viewBox="-2 -2 ${across} ${down}" aria-hidden="true">${parts}</svg>${note}`;
}

function said(array, index, columns, touch, value) {
  const name = elementName(array, index);
  const holds = value === undefined ? "" : ` = ${value}`;
  if (!touch) return `${name}${holds}`;
  const many = touch.threads.length > 1 ? `${touch.threads.length} threads` : `thread ${touch.threads[0]}`;
  return `${name}${holds}: ${touch.kind}${touch.threads.length ? ` by ${many}` : ""}`;
}

/** An element as the source writes it. */
export function elementName(array, index) {
  if (array.shape.length !== 2) return `${array.name}[${index}]`;
  return `${array.name}[${Math.floor(index / array.shape[1])}][${index % array.shape[1]}]`;
}
