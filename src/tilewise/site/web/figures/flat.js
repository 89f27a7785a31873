// Where each thread stands in the flat view.
// In: a launch and the room there is. Out: rectangles of threads and blocks in px. Drawing is left to grid_2d.js.
//
// A launch with one axis is laid out a warp a row, block after block like words in a line. One with two or three axes
// keeps rows and columns; the layers of z stand side by side.

import { WARP, linear, threadAt, total, unravel, usedAxes } from "./launch.js";

const LABEL = 17;
const CHARACTER = 7.2;

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
  const place = usedAxes(grid, block).length === 1 ? line : sheet;
  for (let cell = 46; cell > 3; cell -= cell > 12 ? 2 : 1) {
    const made = place(grid, block, width, cell, count);
    if (made.width <= width && made.height <= height) return made;
  }
  return place(grid, block, width, 5, count);
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

function sheet(grid, block, width, cell, count) {
  const gap = cell > 10 ? 8 : 5;
  const depth = grid[2] * block[2];
  const name = ([x, y, z]) => (grid[2] > 1 ? `(${x}, ${y}, ${z})` : `(${x}, ${y})`);
  const widest = CHARACTER * name([grid[0] - 1, grid[1] - 1, grid[2] - 1]).length;
  const head = block[0] * cell >= widest ? LABEL : 0;
  const step = [block[0] * cell + gap, block[1] * cell + head + gap];
  const layerWidth = grid[0] * step[0] - gap;
  const layerHeight = grid[1] * step[1] - gap;
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
    x[k] = layer.x + who.block[0] * step[0] + who.thread[0] * cell;
    y[k] = layer.y + who.block[1] * step[1] + head + who.thread[1] * cell;
  }
  const blocks = [];
  for (let z = 0; z < depth; z += 1) {
    for (let b = 0; b < grid[0] * grid[1]; b += 1) {
      const [bx, by] = unravel(b, grid);
      const bz = Math.floor(z / block[2]);
      const first = linear([bx, by, bz], grid) * total(block) + (z % block[2]) * block[0] * block[1];
      if (first >= count) continue;
      blocks.push({
        x: layers[z].x + bx * step[0],
        y: layers[z].y + by * step[1] + head,
        width: block[0] * cell,
        height: block[1] * cell,
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
