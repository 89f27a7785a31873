// The simulated machine in WebAssembly: lays out a launch in its memory, runs it, and reads the results.
// In: machine.wasm, the table of simulator/browser/layout.py, a program of simulator/browser/program.py, arguments.
// Out: counts by line, hazards, accesses, printed text and arrays, as in engine/memory.py and run.py.

const MOST_HAZARDS = 64;
const MOST_NOTES = 8;
const MOST_TOGETHER = 128;
const SM_COUNT = 132;
/** Warp instructions between two looks at `paused`. */
const SLICE = 250_000;

/**
 * @typedef {{data: Uint8Array, writable?: boolean, width?: number, same?: string, raw?: Uint8Array, skew?: number, before?: number} |
 *   {value: Uint8Array, isNull?: boolean}} Argument
 * An array, which arguments with the same `same` share, with `raw` bytes where the kernel gets no pointer to it, and
 * `skew`, how many bytes past a multiple of 16 it begins, and `before`, how many are before the kernel's pointer; or a plain value, or a null pointer.
 * @typedef {{grid: number[], block: number[], sharedBytes?: number, collect?: boolean, maxSteps: number,
 *   trace?: {blocks?: number[] | null, warps?: number[] | null, maxSteps: number}, ignored?: number,
 *   variables?: {data: Uint8Array, unset: boolean}[],
 *   paused?: (steps: number) => void}} Options
 * `ignored`: a bit for each kind of hazard that is none here. `variables`: what module variables begin with, where
 * that is not what the source says.
 */

/** What stands in the machine's memory for one launch; `free` gives it back. */
class Room {
  constructor(exports) {
    this.exports = exports;
    this.taken = [];
  }

  take(bytes) {
    const at = this.exports.calloc(Math.max(bytes, 1) + 16, 1);
    if (!at) throw new RangeError("This launch takes more memory than the page may have.");
    this.taken.push(at);
    return at;
  }

  bytes(at, length) {
    return new Uint8Array(this.exports.memory.buffer, at, length);
  }

  put(array) {
    const from = new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
    const at = this.take(from.length);
    this.bytes(at, from.length).set(from);
    return at;
  }

  free() {
    for (const at of this.taken) this.exports.free(at);
  }
}

/** A structure of the machine at an address. */
class Structure {
  constructor(exports, { size, fields }, at) {
    Object.assign(this, { exports, size, fields, at });
  }

  set(name, ...values) {
    const [offset, kind] = this.fields[name];
    const view = new DataView(this.exports.memory.buffer);
    values.forEach((value, k) => {
      const to = this.at + offset;
      if (kind === "i64" || kind === "u64") view.setBigInt64(to + 8 * k, BigInt(value), true);
      else view.setInt32(to + 4 * k, Number(value), true);
    });
  }

  /** A number; a BigInt where the field has 64 bits and `exact` is asked for. */
  get(name, exact = false) {
    const [offset, kind] = this.fields[name];
    const view = new DataView(this.exports.memory.buffer);
    const to = this.at + offset;
    if (kind === "i32") return view.getInt32(to, true);
    if (kind === "u32") return view.getUint32(to, true);
    const value = kind === "i64" ? view.getBigInt64(to, true) : view.getBigUint64(to, true);
    return exact ? value : Number(value);
  }

  all() {
    return Object.fromEntries(
      Object.entries(this.fields).map(([name, [, kind]]) => [name, kind.endsWith("64") ? this.get(name, true) : BigInt(this.get(name))]),
    );
  }
}

export class Machine {
  /** @param {BufferSource} wasm @param {any} layout */
  static async from(wasm, layout) {
    const { instance } = await WebAssembly.instantiate(wasm, {});
    instance.exports._initialize?.();
    return new Machine(instance.exports, layout);
  }

  constructor(exports, layout) {
    Object.assign(this, { exports, layout });
    /** The rows of programs that have run. */
    this.laidOut = new WeakMap();
    this.base = BigInt(layout.constants.GLOBAL_BASE);
    this.shift = BigInt(layout.constants.GLOBAL_SHIFT);
  }

  /** The address of a buffer as kernels see it. */
  addressOf(number) {
    return this.base + (BigInt(number) << this.shift);
  }

  structure(name, at) {
    return new Structure(this.exports, this.layout.structures[name], at);
  }

  /** Run a launch. @param {any} program @param {Argument[]} given @param {Options} options */
  run(program, given, options) {
    const room = new Room(this.exports);
    const launch = this.structure("Launch", room.take(this.layout.structures.Launch.size));
    try {
      return this.#run(room, launch, program, given, options);
    } finally {
      this.exports.free(launch.get("accesses"));
      launch.set("accesses", 0);
      this.exports.tw_end(launch.at);
      room.free();
    }
  }

  #run(room, launch, program, given, options) {
    const { layout, exports } = this;
    const { grid, block } = options;
    const blocks = grid[0] * grid[1] * grid[2];
    const together = program.grid_sync ? grid : program.cluster;
    if (program.grid_sync && blocks > MOST_TOGETHER) {
      throw new RangeError(`This kernel waits for its whole grid: up to ${MOST_TOGETHER} blocks can run at once.`);
    }
    const rows = program.code.op.length;
    const lines = program.lines.length || 1;
    const memory = this.#memory(room, program, given, options.variables);
    const owners = sharedOwners(program, options.sharedBytes ?? 0);
    const row = 8 * layout.counters.length;
    const counts = room.take(row * lines);
    const { Hazard, Access } = layout.structures;
    const [hazards, notes] = [MOST_HAZARDS, MOST_NOTES].map((most) => room.take(Hazard.size * most));
    const marked = (numbers, size) => (numbers ? room.put(marks(numbers, size)) : 0);
    const { trace } = options;
    const fields = {
      code: this.#code(room, program),
      n_code: rows,
      consts: room.put(constants(program.constants)),
      units: program.units,
      params: memory.parameters,
      buffers: memory.table,
      n_buffers: memory.count,
      shared_bytes: owners.length,
      owners: room.put(owners),
      local_bytes: program.local_bytes,
      shared_grain: program.shared_grain,
      global_grain: program.global_grain,
      releases: program.fences ? room.take(2 * blocks) : 0,
      counts,
      n_lines: lines,
      hazards,
      max_hazards: MOST_HAZARDS,
      notes,
      max_notes: MOST_NOTES,
      collect: options.collect ? 1 : 0,
      ignored: options.ignored ?? 0,
      tracing: trace ? 1 : 0,
      max_steps: options.maxSteps,
      trace_blocks: marked(trace?.blocks, blocks),
      trace_warps: marked(trace?.warps, 32),
      max_trace_steps: trace?.maxSteps ?? 0,
      sm_count: SM_COUNT,
      agents: program.agents || together.some((extent) => extent !== 1) ? 1 : 0,
      slice: SLICE,
    };
    for (const [name, value] of Object.entries(fields)) launch.set(name, value);
    launch.set("grid", ...grid);
    launch.set("block", ...block);
    launch.set("cluster", ...together);

    let status = 0;
    while ((status = exports.tw_run(launch.at)) === layout.status.PAUSED) options.paused?.(launch.get("steps"));
    if (status === layout.status.NO_MEMORY) throw new RangeError("This launch takes more memory than the page may have.");
    const copy = (at, length) => exports.memory.buffer.slice(at, at + length);
    const found = (at, count) =>
      Array.from({ length: count }, (_, k) => this.structure("Hazard", at + k * Hazard.size).all());
    return {
      status,
      steps: launch.get("steps"),
      usedClock: launch.get("used_clock") !== 0,
      counts: new BigUint64Array(copy(counts, row * lines)),
      hazards: found(hazards, launch.get("n_hazards")),
      notes: found(notes, launch.get("n_notes")),
      accesses: copy(launch.get("accesses"), Access.size * launch.get("n_accesses")),
      printed: new TextDecoder().decode(copy(launch.get("text"), launch.get("n_text"))),
      /** What the kernel left of each array, by number of the argument; null for plain values. */
      arrays: memory.arrays.map((array) => array && new Uint8Array(copy(...array))),
    };
  }

  /** The program in the machine's memory; its rows are laid out once, the tables they point to in every launch. */
  #code(room, program) {
    const { size, fields } = this.layout.structures.Ins;
    if (!this.laidOut.has(program)) this.laidOut.set(program, rowsOf(program, size, fields));
    const at = room.put(this.laidOut.get(program));
    const tables = program.tables.map((table) => room.put(Int32Array.from(table)));
    const view = new DataView(this.exports.memory.buffer, at, size * program.code.op.length);
    for (const [row, table] of program.table_rows) {
      view.setBigInt64(row * size + fields.imm[0], BigInt(tables[table]), true);
    }
    return at;
  }

  /** Arguments and module variables: the table of buffers, the bytes of the parameters. */
  #memory(room, program, given, variables) {
    const { layout } = this;
    const size = Math.max(0, ...program.parameters.map(([, offset, bytes]) => offset + bytes));
    const parameters = new Uint8Array(size + 8);
    const held = new Map();
    /** @type {([number, number] | null)[]} */
    const arrays = [];
    const entries = given.map((argument, number) => {
      const [, offset] = program.parameters[number];
      if (!("data" in argument)) {
        parameters.set(argument.value, offset);
        arrays.push(null);
        return { bytes: 0, at: 0, writable: 0 };
      }
      const key = argument.same ?? number;
      if (!held.has(key)) held.set(key, room.put(argument.data));
      if (argument.raw) parameters.set(argument.raw, offset);
      else new DataView(parameters.buffer).setBigUint64(offset, this.addressOf(number) + BigInt(argument.before ?? 0), true);
      arrays.push([held.get(key), argument.data.length]);
      const { data, writable, skew } = argument;
      return { bytes: data.length, at: held.get(key), writable: writable ? 1 : 0, skew };
    });
    program.variables.forEach((variable, k) => {
      const { bytes, writable } = variable;
      const { data, unset } = variables?.[k] ?? { data: initialBytes(variable), unset: variable.unset };
      entries.push({ bytes, at: room.put(data), writable: writable ? 1 : 0, unset });
    });
    const watched = new Map();
    entries.forEach(({ bytes, at, writable }, number) => {
      const words = Math.ceil(bytes / program.global_grain);
      const isConst = number < given.length && program.read_only[number];
      if (!at || !writable || isConst || words > layout.most_watched || watched.has(at)) return;
      watched.set(at, room.take(words * layout.word_bytes));
    });
    const stride = layout.structures.Buffer.size;
    const table = room.take(stride * (entries.length + 1));
    const at = room.put(parameters);
    [...entries, { bytes: size, at, writable: 0 }].forEach((entry, number) => {
      const buffer = this.structure("Buffer", table + stride * number);
      buffer.set("size", entry.bytes);
      buffer.set("data", entry.at);
      buffer.set("writable", entry.writable);
      buffer.set("id", number === entries.length ? -1 : number);
      buffer.set("words", watched.get(entry.at) ?? 0);
      buffer.set("skew", entry.skew ?? 0);
      buffer.set("unset", entry.unset ? 1 : 0);
    });
    return { parameters: at, table, count: entries.length + 1, arrays };
  }
}

/** The rows of a program as the machine reads them, without the addresses of tables. */
function rowsOf(program, size, fields) {
  const count = program.code.op.length;
  const rows = new Uint8Array(size * count);
  const view = new DataView(rows.buffer);
  const fill = (column, offset, kind) => {
    if (!column) return;
    for (let k = 0; k < count; k++) {
      if (kind === "i64") view.setBigInt64(k * size + offset, BigInt(column[k]), true);
      else view.setInt32(k * size + offset, column[k], true);
    }
  };
  for (const [name, [offset, kind, many]] of Object.entries(fields)) {
    const column = program.code[name];
    if (many > 1 && column) column.forEach((one, k) => fill(one, offset + 4 * k, kind));
    else fill(column, offset, kind);
  }
  return rows;
}

/** Each constant's two words over 32 lanes. */
function constants(pairs) {
  const all = new Uint32Array(16 * pairs.length);
  for (let k = 0; k < all.length; k++) all[k] = pairs[2 * (k >> 5) + (k & 1)];
  return all;
}

/** What a module variable holds before the first launch. */
export function initialBytes({ bytes, width, initial }) {
  const data = new Uint8Array(bytes);
  initial.forEach((element, number) => {
    let left = BigInt(element);
    for (let k = 0; k < width; k++, left >>= 8n) data[number * width + k] = Number(left & 255n);
  });
  return data;
}

function sharedOwners(program, sharedBytes) {
  const end = Math.max(0, ...program.shared.map(([, start, bytes]) => start + bytes));
  const owners = new Uint8Array(Math.max(end, sharedBytes ? program.dynamic_start + sharedBytes : 0));
  program.shared.forEach(([, start, bytes], number) => {
    owners.fill(Math.min(number + 1, 255), start, start + (bytes || sharedBytes));
  });
  return owners;
}

function marks(numbers, size) {
  const found = new Uint8Array(size);
  for (const number of numbers) if (number >= 0 && number < size) found[number] = 1;
  return found;
}
