// In: records by experiment, and an article. Out: their numbers in its measured tables and in its sentences, and a
// mark on what still is another machine's. Whatever comes from a record becomes text, never markup.

import { element } from "../site/dom.js";
import { redrawn } from "./charts.js";
import { formatted, number } from "./format.js";
import { valueAt, valuesOf } from "./values.js";

const ABSENT = "–";
const SCALES = { µs: 1, ms: 1e3, s: 1e6, "%": 0.01 };
const CLOCKS = [
  ["sm_clock_mhz", "SM clock", "MHz"],
  ["memory_clock_mhz", "memory clock", "MHz"],
  ["power_limit_w", "power limit", "W"],
  ["temperature_c", "temperature", "°C"],
];
const VERSIONS = { cuda_runtime: "CUDA", cupy: "CuPy", torch: "torch", cudnn: "cuDNN", triton: "Triton" };

/**
 * @param {Map<string, any>} records
 * @param {{article: Element, numbers: string, change: Function, note: Function, nameOf: (id: string) => string,
 *   recordedOn: (number: Element) => {id: string, name: string}, undo: (() => void)[]}} given
 */
export function showRecords(records, { article, numbers, change, note, nameOf, recordedOn, undo }) {
  const known = new Map();
  const valuesFor = (experiment) => {
    if (!known.has(experiment) && records.has(experiment)) known.set(experiment, valuesOf(records.get(experiment)));
    return known.get(experiment);
  };
  const absent = (block, machine) => note(block, `${nameOf(machine)} (not in your files)`);

  for (const block of article.querySelectorAll(".tw-measurement[data-experiment]")) {
    const { experiment, machine } = block.dataset;
    const values = valuesFor(experiment);
    if (values) {
      showTable(block, records.get(experiment), values, change);
      const question = block.querySelector(".tw-guess");
      if (question && machine) note(question, `The question is about the ${nameOf(machine)}`);
    } else if (machine) absent(block, machine);
  }
  const at = (path) => {
    const [experiment, ...rest] = path.split(".");
    return records.has(experiment) ? valueAt(valuesFor(experiment), rest.join(".")) : undefined;
  };
  const own = ".tw-measurement[data-experiment], .tw-figure[data-recorded]";
  for (const block of article.querySelectorAll(".tw-machines")) {
    if (!block.querySelector(own)) absent(block, block.dataset.shown);
  }
  for (const figure of article.querySelectorAll(".tw-figure[data-recorded]")) {
    const shown = figure.closest(".tw-machines")?.dataset.shown ?? recordedOn(figure).id;
    redraw(figure, at, undo).then(
      (isDrawn) => {
        if (isDrawn) note(figure, `Recorded values of your files; all else is about the ${nameOf(shown)}`);
        else if (isDrawn === false) absent(figure, shown);
      },
      () => absent(figure, shown),
    );
  }

  const lists = element("div", { hidden: true });
  article.append(lists);
  undo.push(() => lists.remove());
  for (const place of article.querySelectorAll(numbers)) {
    const { path = "", format = "", provenance: origin = "" } = place.dataset;
    const [experiment, ...rest] = path.split(".");
    const values = origin && valuesFor(experiment);
    const text = values && formatted(valueAt(values, rest.join(".")), format);
    if (text === undefined || !values) {
      change(place, null, { "data-elsewhere": recordedOn(place).name });
      continue;
    }
    const spread = spreadOf((name) => valueAt(values, [...rest.slice(0, -1), name].join(".")));
    change(place, [text], { href: `#${idOf(experiment)}`, "data-provenance": idOf(experiment), "data-spread": spread });
    if (!document.getElementById(idOf(experiment))) lists.append(provenanceList(records.get(experiment)));
  }
}

/** Draw a chart with other numbers; false where they lack some of it, nothing where another choice came first. */
async function redraw(figure, at, undo) {
  let isOver = false;
  undo.push(() => (isOver = true));
  const answer = await fetch(new URL(figure.dataset.figure, document.baseURI).href);
  const made = redrawn(await answer.json(), at);
  if (isOver) return null;
  if (!made) return false;
  const id = `tw-mine-${figure.dataset.figure.replace(/\W+/g, "-")}`;
  const data = element("script", { type: "application/json", id }, JSON.stringify(made));
  const source = figure.dataset.figure;
  const list = figure.querySelector(".tw-figure-alt ol");
  const rows = [...(list?.children ?? [])];
  figure.append(data);
  draw(figure, `#${id}`);
  list?.replaceChildren(...made.steps.map((step) => element("li", {}, step)));
  undo.push(() => {
    data.remove();
    list?.replaceChildren(...rows);
    draw(figure, source);
  });
  return true;
}

/** Let the figures' script take a figure for a new one, which has other data. */
function draw(figure, source) {
  const place = document.createComment("");
  const tell = () => document.dispatchEvent(new Event("tw:content"));
  figure.replaceWith(place);
  tell();
  figure.dataset.figure = source;
  figure.removeAttribute("data-state");
  figure.querySelector(".tw-figure-body").replaceChildren();
  place.replaceWith(figure);
  tell();
}

function showTable(block, record, values, change) {
  const table = block.querySelector("table");
  if (!table) return; // it is folded, and could not be fetched
  const columns = [...table.tHead.rows[0].cells].map((head) => ({
    name: head.dataset.column,
    scale: SCALES[head.querySelector(".tw-unit")?.textContent] ?? 1,
  }));
  for (const row of table.tBodies[0].rows) {
    const value = (name) => valueAt(values, `${row.dataset.row}.${name}`);
    columns.forEach(({ name, scale }, at) => {
      if (!name) return;
      const found = value(name);
      const digits = name === "share_of_bound" ? ".3g" : ".4g";
      const text = found === undefined ? ABSENT : number(Number(formatted(found / scale, digits)));
      const isTime = name === "median" && found !== undefined;
      const shown = isTime ? timeOf(text, record, spreadOf(value)) : text;
      change(row.cells[at], [shown], isTime ? { "data-mark": "measured" } : {});
    });
  }
  for (const old of block.querySelectorAll(".tw-stale, .tw-reasons")) change(old, null, { hidden: "" });
  const origin = block.querySelector(".tw-provenance");
  const { device, date } = record.provenance;
  const summary = element("summary", {}, `Recorded on ${short(device)}, ${short(date)}, from your file`);
  if (origin) change(origin, [summary, provenanceList(record)]);
  else block.append(element("details", { class: "tw-provenance" }, summary, provenanceList(record)));
}

function timeOf(text, { experiment }, spread) {
  const id = idOf(experiment);
  return element("a", { class: "tw-number", href: `#${id}`, "data-provenance": id, "data-spread": spread }, text);
}

const idOf = (experiment) => `provenance-mine-${experiment}`;
const short = (text) => text.slice(0, 80);

/** The facts of a record, as tilewise/measurements/provenance_links.py lists them. */
function provenanceList({ experiment, provenance, rounds }) {
  const { device, date, driver, ceilings, versions } = provenance;
  const facts = [["device", device], ["date", date], ["driver", driver]];
  for (const [name, label, unit] of CLOCKS) {
    const value = formatted(provenance[name], ".0f");
    if (typeof provenance[name] === "number") facts.push([label, `${value} ${unit}`]);
  }
  const memory = formatted(ceilings.memory_gb_per_s, ",.0f");
  if (memory) facts.push(["fastest memory probe", `${memory} GB/s`]);
  const found = Object.entries(VERSIONS).filter(([name]) => typeof versions[name] === "string");
  facts.push(["versions", found.map(([name, label]) => `${label} ${short(versions[name])}`).join(", ")]);
  if (rounds > 1) facts.push(["rounds", String(rounds)]);
  facts.push(["record", `${experiment}.json, your file`]);
  const shown = facts.filter(([, value]) => typeof value === "string" && value);
  const members = shown.flatMap(([label, value]) => [element("dt", {}, label), element("dd", {}, short(value))]);
  return element("dl", { class: "tw-provenance-list", id: idOf(experiment) }, ...members);
}

/** The spread of a time in words; nothing where a row has none. */
function spreadOf(value) {
  const times = ["p20", "median", "p80"].map((name) => [name, value(name)]);
  if (times.some(([, time]) => typeof time !== "number")) return null;
  const written = (time) => formatted(time, time >= 1000 ? ",.0f" : ".4g");
  return times.map(([name, time]) => `${name} ${written(time)} µs`).join(", ");
}
