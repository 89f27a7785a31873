// In: what a trace kept of a warp's accesses. Out: of the first access of each line to each array, the sectors of
// global memory with the words that are used of each, or how many words each bank of shared memory is asked for.

/** Accesses that are shown. */
const SHOWN = 6;
const VERBS = ["loads from", "stores to", "atomics on"];
const [GLOBAL, SHARED] = [0, 1];
const WITHIN_BLOCK = (1n << 24n) - 1n;

/** @param {import("./machine.js").Machine} machine @param {any} program @param {ArrayBuffer} accesses */
export function warp(machine, program, accesses) {
  const { size, fields } = machine.layout.structures.Access;
  const view = new DataView(accesses);
  /** @type {Map<string, any>} */
  const found = new Map();
  for (let at = 0; at < accesses.byteLength; at += size) {
    const of = (name) => view.getInt32(at + fields[name][0], true);
    const [space, kind, line] = [of("space"), of("kind"), program.lines[of("line")] ?? 0];
    if (space > SHARED || kind >= VERBS.length || !line) continue;
    const address = view.getBigUint64(at + fields.address[0], true);
    const place = space === GLOBAL ? globalPlace(machine, program, of("buffer"), address) : sharedPlace(program, address);
    const key = [line, space, kind, place.name].join(" ");
    if (!found.has(key)) {
      if (found.size === SHOWN) continue;
      found.set(key, { line, space, verb: VERBS[kind], name: place.name, step: of("step"), lanes: new Set(), words: new Map() });
    }
    const one = found.get(key);
    if (one.step !== of("step")) continue;
    one.lanes.add(of("lane"));
    for (let byte = place.offset; byte < place.offset + of("size"); byte += 4) mark(one.words, space, Math.floor(byte / 4));
  }
  return [...found.values()].map(({ line, space, verb, name, lanes, words }) => ({
    line,
    text: `${verb} ${name}: ${lanes.size} ${lanes.size === 1 ? "lane" : "lanes"}`,
    sectors: space === GLOBAL ? [...words].sort(([a], [b]) => a - b).map(([sector, used]) => [sector, [...used]]) : null,
    banks: space === SHARED ? Array.from({ length: 32 }, (_, bank) => words.get(bank)?.size ?? 0) : null,
  }));
}

/** Note a word below its sector, or its bank. */
function mark(words, space, word) {
  const key = space === GLOBAL ? Math.floor(word / 8) : word % 32;
  if (!words.has(key)) words.set(key, new Set());
  words.get(key).add(space === GLOBAL ? word % 8 : word);
}

function globalPlace(machine, program, buffer, address) {
  const names = [...program.parameters.map(([name]) => name), ...program.variables.map(({ name }) => name)];
  return { name: names[buffer] ?? "memory", offset: Number(address - machine.addressOf(Math.max(buffer, 0))) };
}

function sharedPlace(program, address) {
  const offset = Number(address & WITHIN_BLOCK);
  const own = program.shared.filter(([, start]) => start <= offset).at(-1);
  return { name: own?.[0] ?? "shared memory", offset };
}
