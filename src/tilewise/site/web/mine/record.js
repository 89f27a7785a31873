// In: files. Out: those that are records, cut to what pages show, and a sentence for each that is not one. The form
// is that of tilewise/measurements/form.py, the checksum that of record.py. Nothing of a file is ever run.

import { percentiles } from "./values.js";

const SCHEMA = 2;
const MEGABYTE = 2 ** 20;
/** The largest record of the course has a tenth of this. */
const LARGEST = 4 * MEGABYTE;
/** How many files are looked at: whoever drops more has dropped another folder. */
const MOST = 1000;

const FORM = {
  schema: "number",
  experiment: "string",
  lesson: "string",
  arithmetic: "string",
  provenance: "object",
  rows: "list",
  method: "object",
  checksum: "string",
};
const PROVENANCE = { device: "string", date: "string", ceilings: "object", versions: "object" };
const ROW = { variant: "string", role: "string", case: "object", samples_us: "list" };
const NUMBERS = ["p20", "median", "p80", "bytes", "flop"];

/** @returns {Promise<{records: any[], refused: string[], texts: number}>} */
export async function read(files) {
  const found = { records: [], refused: [], texts: 0 };
  for (const file of await unfolded(files).catch(() => [])) {
    try {
      const body = await bodyOf(file);
      if (body.kind === "text") found.texts += 1;
      else found.records.push(cut(body));
    } catch (error) {
      found.refused.push(`${file.name} ${error instanceof Refusal ? error.message : "could not be read."}`);
    }
  }
  return found;
}

class Refusal extends Error {}

function refuse(why, lesson = "") {
  const name = /^[\w/]+$/.test(lesson) ? lesson : "LESSON";
  throw new Refusal(`${why} Record it again on your GPU: tilewise record ${name} --force.`);
}

/** Files, and those in folders that were dropped. */
async function unfolded(files) {
  const found = [];
  const open = [...files];
  while (open.length && found.length < MOST) {
    const next = open.shift();
    if (next instanceof File) found.push(next);
    else if (next.isFile) found.push(await new Promise((resolve, reject) => next.file(resolve, reject)));
    else {
      const reader = next.createReader();
      for (;;) {
        const some = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
        if (!some.length) break; // folders come in parts
        open.push(...some);
      }
    }
  }
  return found.filter((file) => !file.name.startsWith("."));
}

async function bodyOf(file) {
  if (file.size > LARGEST) {
    const size = Math.round(file.size / MEGABYTE);
    throw new Refusal(`has ${size} MB, too much for a record. Choose the JSON files that tilewise record wrote.`);
  }
  const text = await file.text();
  let body;
  try {
    body = JSON.parse(text);
  } catch {
    refuse("is not JSON, or was cut off.");
  }
  const fault = faultOf(body);
  if (fault) refuse(fault, body?.lesson);
  const found = await checksum(text);
  if (found && found !== body.checksum) {
    refuse("was edited by hand: its checksum does not match its content.", body.lesson);
  }
  return body;
}

/** What is wrong with the form of a record; nothing where it fits. */
function faultOf(body) {
  if (!is(body, "object")) return "is not a record.";
  if (is(body.schema, "number") && body.schema !== SCHEMA) {
    return `has the form ${body.schema}; this page reads form ${SCHEMA}.`;
  }
  if (body.kind === "text") return is(body.checksum, "string") ? "" : 'has no "checksum".';
  const fault = misfit(body, FORM, "") || misfit(body.provenance, PROVENANCE, "provenance.");
  if (fault) return fault;
  if (!/^\w+$/.test(body.experiment)) return "has an experiment whose name has other signs than letters and digits.";
  if (!areNumbers(body.provenance.ceilings, 2)) return "has a ceiling that is not a number.";
  if (!body.rows.length) return "has no rows.";
  for (const [at, row] of body.rows.entries()) {
    const wrong = is(row, "object") ? rowFault(row, `rows[${at}]`) : `has no object in rows[${at}].`;
    if (wrong) return wrong;
  }
  return "";
}

function rowFault(row, at) {
  const fault = misfit(row, ROW, `${at}.`);
  if (fault) return fault;
  if (!["variant", "library"].includes(row.role)) return `has a role in ${at} that is neither variant nor library.`;
  const wrong = NUMBERS.find((name) => row[name] !== null && !isAmount(row[name]));
  if (wrong) return `has a "${at}.${wrong}" that is not a number from 0 on.`;
  if (!row.samples_us.every(isAmount)) return `has a time in ${at} that is not a number of microseconds.`;
  const timed = row.samples_us.length > 0;
  const times = [row.p20, row.median, row.p80];
  if (timed && (times.includes(null) || row.p20 > row.median || row.median > row.p80)) {
    return `has percentiles in ${at} that are missing or out of order.`;
  }
  if (!timed && times.some((time) => time !== null)) return `has percentiles without samples in ${at}.`;
  if (Object.values(row.case).some((value) => value && typeof value === "object")) {
    return `has a parameter in ${at} that is not one value.`;
  }
  if (row.counters !== null && !areNumbers(row.counters, 1)) return `has a counter in ${at} that is not a number.`;
  const { rounds = [] } = row;
  const isWhole = is(rounds, "list") && rounds.every((count) => Number.isInteger(count) && count > 0);
  if (!isWhole || (rounds.length && rounds.reduce((all, count) => all + count) !== row.samples_us.length)) {
    return `has rounds in ${at} that are not its samples.`;
  }
  return "";
}

function misfit(body, form, prefix) {
  for (const [name, kind] of Object.entries(form)) {
    if (!Object.hasOwn(body, name)) return `has no "${prefix}${name}".`;
    if (!is(body[name], kind)) return `has a "${prefix}${name}" of the wrong type.`;
  }
  return "";
}

function is(value, kind) {
  if (kind === "list") return Array.isArray(value);
  if (kind === "object") return value !== null && typeof value === "object" && !Array.isArray(value);
  return typeof value === kind && (kind !== "number" || Number.isFinite(value));
}

const isAmount = (value) => is(value, "number") && value >= 0;

/** Whether an object holds finite numbers alone, in objects at most `depth` deep. */
function areNumbers(body, depth) {
  if (!is(body, "object")) return false;
  return Object.values(body).every((value) => is(value, "number") || (depth > 1 && areNumbers(value, depth - 1)));
}

/** A record without its samples. */
function cut({ experiment, lesson, arithmetic, provenance, rows, method }) {
  const { notes, rounds, ...kept } = provenance;
  return {
    experiment,
    lesson,
    arithmetic,
    provenance: kept,
    rounds: is(rounds, "list") && rounds.length ? rounds.length : 1,
    event_pair_us: method.event_pair_us,
    rows: rows.map((row) => {
      const { variant, role, case: parameters, p20, median, p80, bytes, flop } = row;
      const made = { variant, role, case: parameters, p20, median, p80, bytes, flop };
      if (row.counters) made.counters = row.counters;
      if (row.rounds) made.parts = partsOf(row);
      return made;
    }),
  };
}

/** The p20 and p80 of each round. */
function partsOf(row) {
  let at = 0;
  return row.rounds.map((count) => {
    at += count;
    return percentiles(row.samples_us.slice(at - count, at), [20, 80]);
  });
}

/** SHA-256 of a record's canonical JSON without its checksum; empty where this browser offers none. */
async function checksum(text) {
  if (!globalThis.crypto?.subtle) return "";
  const bytes = new TextEncoder().encode(canonical(text));
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return [...digest].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** JSON as Python writes it: names in order, no space, ASCII alone, each number as the file has it. */
function canonical(text) {
  const tokens = text.match(/"(?:[^"\\]|\\.)*"|[^\s{}[\],:"]+|[{}[\],:]/g);
  let at = 0;
  const value = (isOuter = false) => {
    const token = tokens[at];
    at += 1;
    if (token === "{") {
      const members = new Map();
      while (tokens[at] !== "}") {
        if (tokens[at] === ",") at += 1;
        const name = ascii(tokens[at]);
        at += 2;
        members.set(name, value());
      }
      at += 1;
      if (isOuter) members.delete('"checksum"');
      const names = [...members.keys()].sort();
      return `{${names.map((name) => `${name}:${members.get(name)}`).join(",")}}`;
    }
    if (token === "[") {
      const entries = [];
      while (tokens[at] !== "]") {
        if (tokens[at] === ",") at += 1;
        entries.push(value());
      }
      at += 1;
      return `[${entries.join(",")}]`;
    }
    return token.startsWith('"') ? ascii(token) : token;
  };
  return value(true);
}

function ascii(token) {
  const escape = (letter) => `\\u${letter.charCodeAt(0).toString(16).padStart(4, "0")}`;
  return JSON.stringify(JSON.parse(token)).replace(/[\u007f-\uffff]/g, escape);
}
