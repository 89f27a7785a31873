// In: a report of report.js. Out: elements: hazards, the counts by source line as in outputs/run.py, printed text, and
// the arrays that the kernel wrote.

import { coded, element } from "../site/dom.js";

const LEGEND = "Marked: less than half of the bytes moved were requested, or bank conflicts cost extra wavefronts.";

export function table(report) {
  return [
    ...report.hazards.map(hazard),
    element("p", { class: "tw-try-counts" }, ...summary(report)),
    ...picture(report),
    element("div", { class: "tw-run" }, title(report), counts(report), ...report.notes.map((note) => element("p", {}, `Note: ${note}`))),
    ...(report.printed ? [element("div", { class: "text tw-output highlight" }, element("pre", {}, element("code", { tabindex: 0 }, report.printed)))] : []),
    ...report.arrays.map(array),
  ];

  function counts({ table: made }) {
    const marked = made.lines.some(({ cells }) => cells.some(({ mark }) => mark));
    const groups = [];
    for (const { group } of made.columns) {
      if (groups.at(-1)?.group === group) groups.at(-1).many += 1;
      else groups.push({ group, many: 1 });
    }
    const head = element(
      "thead",
      {},
      element(
        "tr",
        {},
        element("th", { scope: "col", rowspan: 2, class: "tw-right" }, "line"),
        element("th", { scope: "col", rowspan: 2 }, "source"),
        ...groups.map(({ group, many }) => element("th", { scope: "colgroup", colspan: many }, group)),
      ),
      element(
        "tr",
        {},
        ...made.columns.map(({ name, meaning }) => element("th", { scope: "col", class: "tw-right", title: meaning }, name)),
      ),
    );
    const rows = made.lines.map(({ line, source, cells }) =>
      element(
        "tr",
        {},
        element("td", { class: "tw-right" }, String(line)),
        element("td", { class: "tw-source" }, element("code", {}, source)),
        ...cellsOf(cells, made.columns),
      ),
    );
    const total = (name, cells) =>
      element("tr", {}, element("td", {}), element("th", { scope: "row" }, name), ...cellsOf(cells, made.columns));
    const own = report.pageTotals ? [total("on the page", report.pageTotals.map((text) => ({ text })))] : [];
    return element(
      "div",
      { class: "tw-table", tabindex: 0, role: "group" },
      element(
        "table",
        {},
        ...(marked ? [element("caption", {}, LEGEND)] : []),
        head,
        element("tbody", {}, ...rows),
        element("tfoot", {}, total("in all", made.total), ...own),
      ),
    );
  }
}

/** A row's counts; each that is there says what it is, for a screen without room for columns. */
function cellsOf(cells, columns) {
  let before = "instructions";
  return cells.map(({ text, title = "", mark = "" }, at) => {
    const { group, name } = columns[at];
    const shown = title ? element("span", { title }, text) : text;
    const what = text === "" ? null : group === before ? name : `${group}: ${name}`;
    if (what) before = group;
    return element("td", { class: "tw-right", "data-mark": mark || null, "data-name": what }, shown);
  });
}

function title({ title: launch, ms }) {
  const time = ms < 10 ? ms.toFixed(1) : Math.round(ms);
  return element("div", { class: "tw-run-title" }, element("code", {}, launch), ` in your browser (${time} ms), by line of the kernel`);
}

function hazard({ kind, message, count, line, isNear, source, repair }) {
  const times = count > 1 ? ` (${count.toLocaleString("en-US")} times)` : "";
  const at = element("span", { class: "tw-hazard-line" }, `${isNear ? "near " : ""}line ${line}`);
  const code = source ? [element("div", { class: "tw-hazard-source", tabindex: 0, role: "region", "aria-label": `Line ${line}` }, at, " ", element("code", {}, source.trim()))] : [];
  return element(
    "div",
    { class: "tw-hazard", "data-hazard": kind },
    element("strong", {}, `Hazard: ${kind}.`),
    " ",
    ...coded(`${message}${times}. ${repair}`),
    ...code,
  );
}

/** The first warp's accesses: its lanes, and sectors with the words used of each or banks with the words wanted. */
function picture({ warp }) {
  if (!warp.rows.length) return [];
  const rows = warp.rows.map(({ line, text, counted, lanes, sectors, banks }) =>
    element(
      "li",
      {},
      element("span", {}, `line ${line} `, text, ", ", element("strong", {}, counted)),
      element("span", { class: "tw-try-lanes", "aria-hidden": "true" }, ...laneCells(lanes)),
      element("span", { class: sectors ? "tw-try-sectors" : "tw-try-banks", "aria-hidden": "true" }, ...(sectors ? sectors.flatMap(sectorCells) : banks.map(bankCell))),
    ),
  );
  return [element("figure", { class: "tw-try-warp" }, element("ul", {}, ...rows), element("figcaption", {}, warp.caption))];
}

function laneCells(lanes) {
  return Array.from({ length: 32 }, (_, lane) => element("i", { class: lanes.includes(lane) ? "tw-try-used" : null }));
}

/** A sector's eight words, and a gap before it where the sector before it is not touched. */
function sectorCells([number, used], at, all) {
  const words = Array.from({ length: 8 }, (_, word) => element("i", { class: used.includes(word) ? "tw-try-used" : null }));
  const apart = at > 0 && number > all[at - 1][0] + 1;
  return [element("b", { class: apart ? "tw-try-apart" : null }, ...words)];
}

function bankCell(count) {
  return element("b", {}, ...Array.from({ length: count }, () => element("i")));
}

function array({ name, shape, numbers, left }) {
  const width = shape.length > 1 ? shape.at(-1) : 0;
  const rows = [];
  for (let at = 0; at < numbers.length; at += width || numbers.length) rows.push(numbers.slice(at, at + (width || numbers.length)).join("  "));
  const more = left ? ` … and ${left.toLocaleString("en-US")} more` : "";
  return element(
    "div",
    { class: "tw-try-array" },
    element("p", {}, element("code", {}, name), ` after the run, ${shape.join(" × ")}:`),
    element("pre", { class: width ? null : "tw-try-flat" }, element("code", { tabindex: 0 }, rows.join("\n") + more)),
  );
}

/** The counts that say what a run costs, each with the page's own beside it. */
function totals({ table: made, pageTotals }) {
  return made.columns.flatMap(({ group, name }, at) => {
    if (!["issued", "sectors", "wavefronts"].includes(name)) return [];
    const count = made.total[at].text;
    const unit = name === "issued" ? "instructions" : name;
    const what = `${String(count) === "1" ? unit.slice(0, -1) : unit}${name === "issued" ? "" : ` of ${group}`}`;
    return [{ what, count, page: pageTotals?.[at] ?? made.total[at].text }];
  });
}

function summary(report) {
  return totals(report).flatMap(({ what, count, page }, at) => [
    ...(at ? ["; "] : []),
    element("strong", {}, count),
    ` ${what}${page === count ? "" : ` (${page} on the page)`}`,
  ]);
}

/** How far a run has come, in a sentence. */
export function progressText(steps, of) {
  return `Running: ${Math.round((100 * steps) / of)} % of the ${of.toLocaleString("en-US")} warp instructions that a run may take. `;
}

/** A report in a sentence, for who listens. */
export function shortText(report) {
  const [first] = report.hazards;
  const found = first ? `Hazard: ${first.kind}. ${first.message.replaceAll("`", "")}.` : "No hazard.";
  return `${report.title}: ${totals(report).map(({ what, count }) => `${count} ${what}`).join(", ")}. ${found}`;
}
