// Repeats launches that replay.py wrote down. Out: for each, what is not as the native machine had it.
import { Machine } from "./run/machine.js";
import { report } from "./run/report.js";
import { tracedOf } from "./run/steps.js";
import { beyond_shape, fits, of_run, touched } from "tilewise-stepping";

const bytesOf = async (address) => (await fetch(address)).arrayBuffer();
const jsonOf = async (address) => (await fetch(address)).json();
const [wasm, layout] = await Promise.all([bytesOf("machine.wasm"), jsonOf("layout.json")]);
const machine = () => Machine.from(wasm, layout);
let shared = await machine();

function same(a, b) {
  return a.length === b.length && a.every((one, k) => one === b[k]);
}

function differing(a, b) {
  if (a.length !== b.length) return `${a.length} bytes, not ${b.length}`;
  const words = (one) => new Uint32Array(one.slice(0, one.length & ~3).buffer);
  const [first, second] = [words(a), words(b)];
  const count = first.filter((word, k) => word !== second[k]).length;
  return `${count || "odd bytes"} of ${first.length} words`;
}

const FLOATS = { f4: [Uint32Array, Float32Array], f8: [BigUint64Array, Float64Array] };

/** Bytes in which all that is not a number is the same: which bits it has, WebAssembly leaves open. */
function withOneNaN(bytes, type) {
  if (!FLOATS[type]) return bytes;
  const [Bits, Numbers] = FLOATS[type];
  const copy = bytes.slice();
  const bits = new Bits(copy.buffer);
  new Numbers(copy.buffer).forEach((number, at) => {
    if (Number.isNaN(number)) bits[at] = type === "f4" ? 0x7fffffff : 0x7fffffffffffffffn;
  });
  return copy;
}

/** Where two figures differ, as a path with both values; nothing where they do not. */
function apart(here, there, path = "") {
  if (typeof here !== "object" || here === null || typeof there !== "object" || there === null) {
    return Object.is(here, there) ? "" : `${path}: ${here}, not ${there}`;
  }
  const names = [...new Set([...Object.keys(here), ...Object.keys(there)])];
  for (const one of names) {
    const found = apart(here[one], there[one], `${path}.${one}`);
    if (found) return found;
  }
  return "";
}

function figureOf(program, launch, got, hazards) {
  const traced = tracedOf(shared, { program, watched: launch.watched }, launch, got, hazards);
  const numbers = touched(traced.rows, traced.buffers);
  const parts = of_run(traced, numbers, { start: 0 });
  return { ...parts, fits: fits(traced), beyond: numbers.map((number) => beyond_shape(traced, number)) };
}

/** Whether numbers of 64 bits differ in their last ones alone: each machine has its C library's log, exp and so on. */
function near(a, b) {
  const [first, second] = [a, b].map((bytes) => new Float64Array(bytes.slice().buffer));
  return first.length === second.length && first.every((one, k) => Object.is(one, second[k]) || Math.abs(one - second[k]) <= 1e-13 * Math.abs(one));
}

async function repeat(folder, name) {
  const launch = await jsonOf(`${folder}/${name}.json`);
  const [program, bin] = await Promise.all([jsonOf(`${folder}/${launch.program}.program`), bytesOf(`${folder}/${name}.bin`)]);
  let at = 0;
  const take = (length) => new Uint8Array(bin.slice(at, (at += length)));
  const given = launch.arguments.map(({ kind, bytes, same: key, raw, ...about }) => {
    const data = take(bytes);
    return kind === "array" ? { ...about, data, same: key, raw: raw && Uint8Array.from(raw) } : { ...about, value: data };
  });
  const { ended, parts } = launch;
  const [outside, accesses] = [take(parts[1]), take(parts[2])];
  const begun = performance.now();
  let got;
  try {
    const variables = launch.variables.map(({ data, unset }) => ({ data: Uint8Array.from(data), unset }));
    got = shared.run(program, given, { ...launch, variables });
  } catch (error) {
    shared = await machine();
    return { kernel: launch.kernel, faults: [`threw ${error.message}`] };
  }
  const ms = performance.now() - begun;
  const faults = [];
  const rows = (found) => JSON.stringify(found.map((one) => Object.values(one).map(String)));
  for (const key of ["status", "steps", "printed"]) {
    if (got[key] !== ended[key]) faults.push(`${key}: ${got[key]}, not ${ended[key]}`);
  }
  if (got.usedClock !== ended.used_clock) faults.push("used_clock");
  if (!same([...got.counts].map(String), ended.counts)) faults.push("counts");
  for (const key of ["hazards", "notes"]) {
    if (rows(got[key]) !== JSON.stringify(ended[key])) faults.push(`${key}: ${rows(got[key])}, not ${JSON.stringify(ended[key])}`);
  }
  let from = 0;
  got.arrays.forEach((array, number) => {
    if (!array) return;
    const native = outside.slice(from, (from += array.length));
    const { type } = launch.arguments[number];
    const [here, there] = [array, native].map((bytes) => withOneNaN(bytes, type));
    if (!same(here, there) && !(type === "f8" && near(here, there))) faults.push(`array ${number}: ${differing(here, there)}`);
  });
  const traced = new Uint8Array(got.accesses);
  if (!same(traced, accesses)) faults.push(`accesses: ${differing(traced, accesses)}`);
  const { said } = launch;
  const words = report(layout, program, { ...launch, given }, got, launch.maxSteps);
  const spoken = {
    title: words.title,
    notes: words.notes,
    hazards: words.hazards.map(({ kind, line, isNear, message, count }) => [kind, line, isNear, message, count]),
    table: [...words.table.lines.map(({ cells }) => cells), words.table.total].map((cells) =>
      cells.map(({ text, title, mark }) => [text, title, mark]),
    ),
  };
  for (const [key, value] of Object.entries(spoken)) {
    const [here, there] = [value, said[key]].map((one) => JSON.stringify(one));
    if (here !== there) faults.push(`${key}: ${here}, not ${there}`);
  }
  if (launch.stepped) {
    const found = apart(figureOf(program, { ...launch, given }, got, words.hazards), launch.stepped);
    if (found) faults.push(`the stepped figure${found}`);
  }
  return { kernel: launch.kernel, faults, stepped: Boolean(launch.stepped), ms, steps: got.steps, memory: shared.exports.memory.buffer.byteLength };
}

globalThis.replay = async (folder, names) => {
  const found = [];
  for (const name of names) found.push({ name, ...(await repeat(folder, name)) });
  return found;
};
document.title = "ready";
