// In: a lesson's offer (kernel/try_it.py), and the reader's choice: sizes, a kernel, how arrays are initialised. Out:
// arguments and a shape for the machine. Numbers are generated as in kernel/try_it.py, to the last bit.

const BLOCK_LIMITS = [1024, 1024, 64];
const GRID_LIMITS = [2 ** 31 - 1, 65_535, 65_535];
const MOST_THREADS = 1024;
const MOST_BYTES = 1 << 26;
const MOST_BLOCKS = 1 << 20;
const MOST_SHARED_BYTES = 232_448;

/** A size that the page cannot offer, in a sentence for the reader. */
export class Refused extends Error {}

/** The value of a formula: a number, a size's name, or [operator, left, right]. @param {any} formula */
function valueOf(formula, sizes) {
  if (typeof formula === "number") return formula;
  if (typeof formula === "string") return sizes[formula];
  const [operator, left, right] = [formula[0], valueOf(formula[1], sizes), valueOf(formula[2], sizes)];
  switch (operator) {
    case "+":
      return left + right;
    case "-":
      return left - right;
    case "*":
      return left * right;
    case "//":
      return Math.floor(left / right);
    case "%":
      return left - right * Math.floor(left / right);
    default:
      throw new Error(`There is no operator ${operator}.`);
  }
}

/**
 * @typedef {{sizes: Record<string, number>, kernel: number, fill: string, own: number[], fills?: Record<string, any>}} Choice
 * `fill`: "given" as the lesson has it, "ramp", or "own" with the reader's numbers, repeated. `fills`: how single
 * arrays begin instead.
 */

/** Grid, block and arguments of a kernel: its own, or those of all. @param {any} offer @param {number} kernel */
export const planOf = (offer, kernel) => offer.kernels[kernel].launch ?? offer;

/** @param {any} offer @param {Choice} choice */
export function launchOf(offer, choice) {
  const of = (formula) => valueOf(formula, choice.sizes);
  const plan = planOf(offer, choice.kernel);
  const grid = plan.grid.map(of);
  const block = plan.block.map(of);
  const sharedBytes = of(plan.sharedBytes);
  check(grid, block);
  checkKernel(offer, choice, grid, block, sharedBytes);
  let bytes = 0;
  const shapes = plan.arguments.map((one) => one.shape?.map(of));
  plan.arguments.forEach((one, at) => {
    if (shapes[at]) bytes += count(shapes[at]) * widthOf(one.type);
  });
  if (bytes > MOST_BYTES) {
    throw new Refused(`The arrays would take ${Math.round(bytes / 2 ** 20)} MiB; the page runs up to ${MOST_BYTES >> 20} MiB.`);
  }
  const given = plan.arguments.map((one, at) => {
    if (!one.shape) return { value: bytesOf([of(one.value)], one.type) };
    if (one.byValue) return { value: filled(one, count(shapes[at]), choice) };
    if (choice.fills?.[one.name]?.kind === "null") return { value: new Uint8Array(8), isNull: true };
    const data = kept(one, count(shapes[at]), choice);
    return { data, raw: one.raw && Uint8Array.from(one.raw), writable: true, type: one.type, width: widthOf(one.type), mayPoint: one.type === "u8", same: one.same, before: one.before };
  });
  const variables = offer.variables?.map((one) => one && { data: filled(one, count(one.shape.map(of)), choice), unset: false });
  return { given, shapes, grid, block, sharedBytes, variables, collect: offer.collect };
}

function check(grid, block) {
  const threads = count(block);
  if (threads > MOST_THREADS) throw new Refused(`A block of ${said(block)} has ${threads.toLocaleString("en-US")} threads; at most 1,024 are possible.`);
  if (block.some((extent, axis) => extent < 1 || extent > BLOCK_LIMITS[axis])) throw new Refused(`A block can't be ${said(block)}.`);
  if (grid.some((extent, axis) => extent < 1 || extent > GRID_LIMITS[axis])) throw new Refused(`A grid can't be ${said(grid)}.`);
  const blocks = count(grid);
  if (blocks > MOST_BLOCKS) throw new Refused(`The grid has ${blocks.toLocaleString("en-US")} blocks; the page runs up to ${MOST_BLOCKS.toLocaleString("en-US")}.`);
}

/** What a kernel's own text allows, as cuda/arguments.py checks it. */
function checkKernel(offer, choice, grid, block, sharedBytes) {
  const { cluster, static_shared: fixed } = offer.kernels[choice.kernel].program;
  const bytes = fixed + sharedBytes;
  if (bytes > MOST_SHARED_BYTES) throw new Refused(`A block can't have ${bytes.toLocaleString("en-US")} bytes of shared memory; at most ${MOST_SHARED_BYTES.toLocaleString("en-US")} are possible.`);
  if (cluster.some((few, axis) => grid[axis] % few)) throw new Refused(`A grid of ${said(grid)} is not a whole number of clusters of ${said(cluster)} blocks.`);
  const promised = offer.maxThreads ?? MOST_THREADS;
  if (count(block) > promised) throw new Refused(`A block of ${said(block)} has ${count(block).toLocaleString("en-US")} threads; the kernel promises at most ${promised.toLocaleString("en-US")} by __launch_bounds__.`);
}

const count = (shape) => shape.reduce((all, extent) => all * extent, 1);
const said = (shape) => shape.join(" × ");

/** NumPy's names of types, with the width of an element; bf16 is held in two bytes. */
export const TYPES = {
  f8: [8, (view, at, value) => view.setFloat64(at, value, true), (view, at) => view.getFloat64(at, true)],
  f4: [4, (view, at, value) => view.setFloat32(at, value, true), (view, at) => view.getFloat32(at, true)],
  f2: [2, (view, at, value) => view.setUint16(at, halfOf(value), true), (view, at) => ofHalf(view.getUint16(at, true))],
  bf16: [2, (view, at, value) => view.setUint16(at, bfloatOf(value), true), (view, at) => ofBfloat(view.getUint16(at, true))],
  i8: [8, (view, at, value) => view.setBigInt64(at, whole(value), true), (view, at) => Number(view.getBigInt64(at, true))],
  u8: [8, (view, at, value) => view.setBigInt64(at, whole(value), true), (view, at) => Number(view.getBigUint64(at, true))],
  i4: [4, (view, at, value) => view.setInt32(at, Math.trunc(value), true), (view, at) => view.getInt32(at, true)],
  u4: [4, (view, at, value) => view.setInt32(at, Math.trunc(value), true), (view, at) => view.getUint32(at, true)],
  i2: [2, (view, at, value) => view.setInt16(at, Math.trunc(value), true), (view, at) => view.getInt16(at, true)],
  u2: [2, (view, at, value) => view.setInt16(at, Math.trunc(value), true), (view, at) => view.getUint16(at, true)],
  i1: [1, (view, at, value) => view.setInt8(at, Math.trunc(value)), (view, at) => view.getInt8(at)],
  u1: [1, (view, at, value) => view.setInt8(at, Math.trunc(value)), (view, at) => view.getUint8(at)],
  b1: [1, (view, at, value) => view.setInt8(at, value ? 1 : 0), (view, at) => view.getUint8(at)],
};

const whole = (value) => BigInt(Math.trunc(value));
const widthOf = (type) => TYPES[type][0];

/** @param {Iterable<number> & {length: number}} numbers */
function bytesOf(numbers, type) {
  const [width, set] = TYPES[type];
  const view = new DataView(new ArrayBuffer(width * numbers.length));
  for (let at = 0; at < numbers.length; at++) set(view, at * width, numbers[at]);
  return new Uint8Array(view.buffer);
}

/** The numbers in bytes, up to `most` of them. @param {Uint8Array} bytes */
export function numbersIn(bytes, type, most = Infinity) {
  const [width, , get] = TYPES[type];
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  return Array.from({ length: Math.min(most, bytes.byteLength / width) }, (_, at) => get(view, at * width));
}

function decoded(text) {
  return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
}

const isFloat = (type) => type.startsWith("f") || type === "bf16";

/** What arrays began with last: a run leaves it as it is, and most arrays stay when a size changes. */
const begun = new WeakMap();

function kept(argument, length, choice) {
  const key = JSON.stringify([length, choice.fill, choice.own, choice.fills?.[argument.name]]);
  if (begun.get(argument)?.key !== key) begun.set(argument, { key, data: filled(argument, length, choice) });
  return begun.get(argument).data;
}

/** Bytes over and over. */
function repeated(bytes, length) {
  if (bytes.length === length || !bytes.length) return bytes;
  return new Uint8Array(length).map((_, at) => bytes[at % bytes.length]);
}

function filled({ name, fill: given, type, data }, length, { fill: wanted, own, fills }) {
  const fill = fills?.[name] ?? given;
  const { kind } = fill;
  if (kind === "given") return repeated(decoded(data), length * widthOf(type));
  if (kind === "ramp") return bytesOf(Array.from({ length }, (_, at) => at), type);
  if (kind === "own") return bytesOf(Array.from({ length }, (_, at) => fill.numbers[at % fill.numbers.length]), type);
  if (kind === "output") return poisoned(length, type);
  if (wanted === "own" && own.length && kind !== "constant") return bytesOf(Array.from({ length }, (_, at) => own[at % own.length]), type);
  if (wanted === "ramp" && kind !== "constant") return bytesOf(Array.from({ length }, (_, at) => at), type);
  if (kind === "constant") return bytesOf(new Array(length).fill(fill.value), type);
  const draw = generator(fill.seed);
  const numbers = new Float64Array(length);
  for (let at = 0; at < length; at++) {
    if (kind === "normal") {
      const sum = draw() + draw() + draw() + draw();
      numbers[at] = (fill.scale * Math.floor((sum - 2) * 173 + 0.5)) / 100;
    } else if (kind === "uniform") numbers[at] = fill.low + (fill.high - fill.low) * draw();
    else numbers[at] = fill.low + Math.floor((fill.high - fill.low) * draw());
  }
  return bytesOf(numbers, type);
}

/** What nobody has written: NaN, or the byte 0xA5. */
function poisoned(length, type) {
  if (isFloat(type)) return bytesOf(new Array(length).fill(NaN), type);
  return new Uint8Array(length * widthOf(type)).fill(0xa5);
}

/** Numbers in [0, 1) by Tommy Ettinger's mulberry32. */
function generator(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** The bits of a number as a binary format with `fraction` bits of it and `exponent` bits, ties to even. */
function bitsOf(value, fraction, exponent) {
  const bias = 2 ** (exponent - 1) - 1;
  const sign = value < 0 || Object.is(value, -0) ? 2 ** (fraction + exponent) : 0;
  const top = (2 ** exponent - 1) * 2 ** fraction;
  if (Number.isNaN(value)) return top + 2 ** (fraction - 1);
  const size = Math.abs(value);
  if (size === 0) return sign;
  if (size === Infinity) return sign + top;
  const power = Math.max(Math.floor(Math.log2(size)), 1 - bias);
  const lower = size < 2 ** power ? power - 1 : size >= 2 ** (power + 1) ? power + 1 : power;
  const at = Math.max(lower, 1 - bias);
  const scaled = size / 2 ** (at - fraction);
  const below = Math.floor(scaled);
  const rest = scaled - below;
  const rounded = below + (rest > 0.5 || (rest === 0.5 && below % 2) ? 1 : 0);
  return sign + Math.min((at + bias - 1) * 2 ** fraction + rounded, top);
}

function ofBits(bits, fraction, exponent) {
  const sign = bits >> (fraction + exponent) ? -1 : 1;
  const power = (bits >> fraction) & (2 ** exponent - 1);
  const rest = bits & (2 ** fraction - 1);
  const bias = 2 ** (exponent - 1) - 1;
  if (power === 2 ** exponent - 1) return rest ? NaN : sign * Infinity;
  return sign * (power ? 2 ** fraction + rest : rest) * 2 ** (Math.max(power, 1) - bias - fraction);
}

const halfOf = (value) => bitsOf(value, 10, 5);
const ofHalf = (bits) => ofBits(bits, 10, 5);
const single = new Float32Array(1);
const itsBits = new Uint32Array(single.buffer);

/** The upper half of the bits of the number as a float, rounded to even: rounded twice, as Python does. */
function bfloatOf(value) {
  if (Number.isNaN(value)) return 0x7fc0;
  single[0] = value;
  return (itsBits[0] + 0x7fff + ((itsBits[0] >>> 16) & 1)) >>> 16;
}
const ofBfloat = (bits) => ofBits(bits, 7, 8);
