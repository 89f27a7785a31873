// The layout of threads in the 2-D view.
// In: a launch and the available size. Out: rectangles of threads and blocks in px. grid_2d.js draws them.
//
// A launch with one axis has one warp per row, block after block, like words in a line. One with two or three axes
// keeps rows and columns, with the layers of z side by side. If that makes cells too small to see, wide blocks are
// folded: a block with one axis also has one warp per row, and a single row of blocks wraps.

import { WARP, linear, threadAt, total, unravel, usedAxes } from "./launch.js";

const LABEL = 17;
const CHARACTER = 7.2;
const LEGIBLE = 9;

/**
 * @typedef {{x: number, y: number, width: number, height: number, label: string}} Box
 * @typedef {{cell: number, width: number, height: number, x: Float32Array, y: Float32Array, blocks: Box[],
 *   layers: Box[]}} Flat
 */

/**
 * @param {import("./launch.js").Size} grid
 * @param {import("./launch.js").Size} block
 * @param {number} width
 * @param {number} height
 * @param {number} count threads to place, in linear order
 * @returns {Flat}
 */
export function flat(grid, block, width, height, count) {
  const largest = (place) => {
    for (let cell = 46; cell > 3; cell -= cell > 12 ? 2 : 1) {
      const made = place(grid, block, width, cell, count);
      if (made.width <= width && made.height <= height) return made;
    }
    return null;
  };
  const place = usedAxes(grid, block).length === 1 ? line : sheet;
  const made = largest(place);
  if (place === sheet && !(made?.cell >= LEGIBLE)) {
    const folded = largest(foldedSheet);
    if (folded && folded.cell > (made?.cell ?? 0)) return folded;
  }
  return made ?? place(grid, block, width, 5, count);
}

function line(grid, block, width, cell, count) {
  const columns = Math.min(WARP, block[0]);
  const gap = cell > 10 ? 14 : 8;
  const each = total(block);
  const shown = Math.ceil(count / each);
  const rows = Math.ceil(Math.min(each, count) / columns);
  const boxWidth = columns * cell;
  const labelled = boxWidth >= CHARACTER * `block ${shown - 1}`.length || boxWidth >= 2 * CHARACTER;
  const head = labelled ? LABEL : 0;
  const boxHeight = rows * cell;
  const across = Math.max(1, Math.floor((width + gap) / (boxWidth + gap)));
  const long = boxWidth >= CHARACTER * `block ${shown - 1}`.length;
  const blocks = Array.from({ length: shown }, (_, b) => ({
    x: (b % across) * (boxWidth + gap),
    y: Math.floor(b / across) * (boxHeight + head + gap) + head,
    width: boxWidth,
    height: boxHeight,
    label: labelled ? (long ? `block ${b}` : String(b)) : "",
  }));
  const x = new Float32Array(count);
  const y = new Float32Array(count);
  for (let k = 0; k < count; k += 1) {
    const box = blocks[Math.floor(k / each)];
    const thread = k % each;
    x[k] = box.x + (thread % columns) * cell;
    y[k] = box.y + Math.floor(thread / columns) * cell;
  }
  const lines = Math.ceil(shown / across);
  return {
    cell,
    width: Math.min(shown, across) * (boxWidth + gap) - gap,
    height: lines * (boxHeight + head + gap) - gap,
    x,
    y,
    blocks,
    layers: [],
  };
}

function foldedSheet(grid, block, width, cell, count) {
  return sheet(grid, block, width, cell, count, true);
}

function sheet(grid, block, width, cell, count, isFolded = false) {
  const gap = cell > 10 ? 8 : 5;
  const depth = grid[2] * block[2];
  const name = ([x, y, z]) => (grid[2] > 1 ? `(${x}, ${y}, ${z})` : `(${x}, ${y})`);
  const widest = CHARACTER * name([grid[0] - 1, grid[1] - 1, grid[2] - 1]).length;
  const columns = isFolded && block[1] * block[2] === 1 ? Math.min(WARP, block[0]) : block[0];
  const rows = block[1] * Math.ceil(block[0] / columns);
  const head = columns * cell >= widest ? LABEL : 0;
  const step = [columns * cell + gap, rows * cell + head + gap];
  const isRow = isFolded && grid[1] === 1 && depth === 1;
  const beside = isRow ? Math.max(1, Math.min(grid[0], Math.floor((width + gap) / step[0]))) : grid[0];
  const at = ([x, y]) => [(x % beside) * step[0], (y + Math.floor(x / beside)) * step[1] + head];
  const layerWidth = Math.max(beside * step[0] - gap, depth > 1 ? CHARACTER * `z = ${depth - 1}`.length : 0);
  const layerHeight = grid[1] * Math.ceil(grid[0] / beside) * step[1] - gap;
  const top = depth > 1 ? LABEL + 4 : 0;
  const between = 22;
  const across = Math.max(1, Math.min(depth, Math.floor((width + between) / (layerWidth + between))));
  const layers = Array.from({ length: depth }, (_, z) => ({
    x: (z % across) * (layerWidth + between),
    y: Math.floor(z / across) * (layerHeight + top + between) + top,
    width: layerWidth,
    height: layerHeight,
    label: depth > 1 ? `z = ${z}` : "",
  }));
  const x = new Float32Array(count);
  const y = new Float32Array(count);
  for (let k = 0; k < count; k += 1) {
    const who = threadAt(k, grid, block);
    const layer = layers[who.position[2]];
    const [left, up] = at(who.block);
    x[k] = layer.x + left + (who.thread[0] % columns) * cell;
    y[k] = layer.y + up + (who.thread[1] + Math.floor(who.thread[0] / columns)) * cell;
  }
  const blocks = [];
  for (let z = 0; z < depth; z += 1) {
    for (let b = 0; b < grid[0] * grid[1]; b += 1) {
      const [bx, by] = unravel(b, grid);
      const bz = Math.floor(z / block[2]);
      const first = linear([bx, by, bz], grid) * total(block) + (z % block[2]) * block[0] * block[1];
      if (first >= count) continue;
      const [left, up] = at([bx, by]);
      blocks.push({
        x: layers[z].x + left,
        y: layers[z].y + up,
        width: columns * cell,
        height: rows * cell,
        label: head ? name([bx, by, bz]) : "",
      });
    }
  }
  const used = depth;
  return {
    cell,
    width: across * (layerWidth + between) - between,
    height: Math.ceil(used / across) * (layerHeight + top + between) - between,
    x,
    y,
    blocks,
    layers,
  };
}
