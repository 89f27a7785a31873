// In: a record. Out: its values by name, spelt as tilewise/measurements/archive.py spells them, and what follows from
// its times: rates, the roofline's bound, how many times as fast as the first variant.

import devices from "tilewise-devices";

const nothing = () => Object.create(null);

/** A record's values, nested: experiment, variant, case. */
export function valuesOf(record) {
  const { rows, provenance } = record;
  const values = Object.assign(nothing(), provenance, { rounds: record.rounds, event_pair_us: record.event_pair_us });
  const timed = rows.filter((row) => row.median !== null);
  for (const row of rows) {
    const variant = (values[nameSlug(row.variant)] ??= nothing());
    Object.assign((variant[caseSlug(row.case)] ??= nothing()), valuesOfRow(row, record, timed));
  }
  if (new Set(timed.map((row) => caseSlug(row.case))).size === 1) {
    for (const row of timed) {
      const variant = values[nameSlug(row.variant)];
      values[nameSlug(row.variant)] = Object.assign(nothing(), variant[caseSlug(row.case)], variant);
    }
  }
  return values;
}

/** The value that a dotted path leads to; undefined where it leads nowhere, or to several. */
export function valueAt(values, path) {
  let found = values;
  for (const name of path.split(".")) {
    if (found === null || typeof found !== "object" || !Object.hasOwn(found, name)) return undefined;
    found = found[name];
  }
  return typeof found === "object" ? undefined : found;
}

function valuesOfRow(row, record, timed) {
  const values = Object.assign(nothing(), { bytes: row.bytes, flop: row.flop }, row.case);
  if (row.counters) {
    values.counters = nothing();
    for (const [name, entry] of Object.entries(row.counters)) values.counters[name.replace(/\W+/g, "_")] = entry;
  }
  if (row.median !== null) {
    const { p20, median, p80 } = row;
    Object.assign(values, { median, p20, p80 }, rates(row, record));
    const same = caseOf(row);
    const peers = timed.filter((other) => caseOf(other) === same);
    const first = peers.find((other) => other.role === "variant");
    const libraries = peers.filter((other) => other.role === "library").map((other) => other.median);
    if (first?.median && median && (first === row || apart(first, row))) values.times_first = first.median / median;
    if (libraries.length && median > 0) values.share_of_library = Math.min(...libraries) / median;
  }
  for (const name of Object.keys(values)) if (values[name] === null) delete values[name];
  return values;
}

function rates({ median, bytes, flop }, { arithmetic, provenance }) {
  const made = {};
  if (!median) return made;
  if (bytes) made.gb_per_s = bytes / (median * 1e-6) / 1e9;
  if (flop) made.tflop_per_s = flop / (median * 1e-6) / 1e12;
  const { launch_us: launch = 0 } = provenance.ceilings;
  const { memory_gb_per_s: memory, tflop_per_s: peaks = {} } = peaksOf(provenance);
  if (!memory || (bytes === null && flop === null) || (flop && !peaks[arithmetic])) return made;
  const times = {
    memory: ((bytes ?? 0) / (memory * 1e9)) * 1e6,
    arithmetic: flop ? (flop / (peaks[arithmetic] * 1e12)) * 1e6 : 0,
    launch,
  };
  const limit = Object.keys(times).reduce((most, name) => (times[name] > times[most] ? name : most));
  if (times[limit] > 0) Object.assign(made, { bound: times[limit], share_of_bound: times[limit] / median, limit });
  return made;
}

/** The data sheet's peaks of a record's device; of one that the device table lacks, what its probes reached. */
function peaksOf({ device, ceilings }) {
  if (!ceilings.memory_gb_per_s) return ceilings;
  const isNamed = ({ names: [name] }) => name === device;
  const matches = ({ names: [, pattern] }) => new RegExp(pattern).test(device);
  return devices.find(isNamed) ?? devices.find(matches) ?? ceilings;
}

/** Whether two rows differ by more than their spread: in each round, or over all samples. */
function apart(one, other) {
  const whole = (row) => [[row.p20, row.p80]];
  const [a, b] = [one.parts ?? [], other.parts ?? []];
  const isPaired = a.length === b.length && a.length > 0;
  const [mine, theirs] = isPaired ? [a, b] : [whole(one), whole(other)];
  return (
    mine.every(([, high], at) => high < theirs[at][0]) || mine.every(([low], at) => theirs[at][1] < low)
  );
}

/** Percentiles by linear interpolation, to the nanosecond. */
export function percentiles(samples, wanted) {
  const sorted = [...samples].sort((a, b) => a - b);
  return wanted.map((percent) => {
    const at = ((sorted.length - 1) * percent) / 100;
    const low = sorted[Math.floor(at)];
    const high = sorted[Math.ceil(at)];
    return Number((low + (high - low) * (at - Math.floor(at))).toFixed(3));
  });
}

const caseOf = (row) => JSON.stringify(Object.entries(row.case).sort());

function nameSlug(name) {
  const slug = name
    .toLowerCase()
    .replace(/[^a-z0-9]+/g, "_")
    .replace(/^_+|_+$/g, "");
  return /^\d/.test(slug) ? `_${slug}` : slug;
}

function caseSlug(parameters) {
  const parts = Object.entries(parameters).map(([name, value]) => nameSlug(`${name} ${written(value)}`));
  return parts.join("_") || "only";
}

const WORDS = new Map([[true, "True"], [false, "False"], [null, "None"]]);

function written(value) {
  if (typeof value === "number") return String(value).replace("-", "minus ").replace(".", "_");
  return WORDS.get(value) ?? String(value);
}
