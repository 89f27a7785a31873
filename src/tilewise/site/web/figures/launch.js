// Index arithmetic of a launch, in CUDA's order; tested against tilewise/figures/dims.py.
// In: grid and block as [x, y, z]. Out: the indices of a thread. Draws nothing.

export const WARP = 32;
export const MOST_IN_BLOCK = 1024;

/** @typedef {[number, number, number]} Size */
/**
 * @typedef {{block: Size, thread: Size, position: Size, linearBlock: number, linearThread: number, warp: number,
 *   lane: number}} Thread
 */

/** @param {Size} size */
export function total([x, y, z]) {
  return x * y * z;
}

/** @param {number} number @param {Size} size @returns {Size} */
export function unravel(number, [x, y]) {
  return [number % x, Math.floor(number / x) % y, Math.floor(number / (x * y))];
}

/** @param {Size} at @param {Size} size */
export function linear(at, size) {
  return (at[2] * size[1] + at[1]) * size[0] + at[0];
}

/**
 * Who the k-th thread of a launch is.
 * @param {number} k @param {Size} grid @param {Size} block
 * @returns {Thread}
 */
export function threadAt(k, grid, block) {
  const each = total(block);
  const linearBlock = Math.floor(k / each);
  const linearThread = k % each;
  const blockAt = unravel(linearBlock, grid);
  const threadIn = unravel(linearThread, block);
  return {
    block: blockAt,
    thread: threadIn,
    position: /** @type {Size} */ (blockAt.map((b, axis) => b * block[axis] + threadIn[axis])),
    linearBlock,
    linearThread,
    warp: Math.floor(linearThread / WARP),
    lane: linearThread % WARP,
  };
}

/** The linear number of the thread that stands at a position. @param {Size} position @param {Size} grid @param {Size} block */
export function threadOf(position, grid, block) {
  const blockAt = /** @type {Size} */ (position.map((p, axis) => Math.floor(p / block[axis])));
  const threadIn = /** @type {Size} */ (position.map((p, axis) => p % block[axis]));
  return linear(blockAt, grid) * total(block) + linear(threadIn, block);
}

/** Whether a position lies in the problem. @param {Size} position @param {Size|null} extent */
export function works(position, extent) {
  return !extent || position.every((p, axis) => p < extent[axis]);
}

/** How many threads of a launch lie in the problem. @param {Size} grid @param {Size} block @param {Size|null} extent */
export function working(grid, block, extent) {
  return grid.reduce((all, g, axis) => all * Math.min(g * block[axis], extent ? extent[axis] : Infinity), 1);
}

/** Whether a launch has a third axis, so that there is something to see in space. @param {{grid: Size, block: Size}} launch */
export function hasDepth({ grid, block }) {
  return Boolean(grid) && grid[2] * block[2] > 1; // a model may have no threads
}

/** Axes along which a launch has more than one thread; x at least. @param {Size} grid @param {Size} block */
export function usedAxes(grid, block) {
  const last = [2, 1].find((axis) => grid[axis] * block[axis] > 1) || 0;
  return [0, 1, 2].slice(0, last + 1);
}
