// In: `table.tw-sortable`, numbers as `[data-value]`, sort keys as `[data-key]`, `data-filters` with names of the rows'
// data, `tbody[data-group]` with a heading row; rows of a group may be missing, replaced by `[data-rows]`, which counts
// them by their data. Out: headings that sort across groups, by mouse and keyboard; filters; groups that fold, and
// fetch their rows. Without JavaScript: a plain table.

import { element } from "./dom.js";
import { fetchAll } from "./later.js";

const order = new Intl.Collator(undefined, { numeric: true });
/** Tables that were made sortable. */
const known = new WeakMap();

export function sortableTables(article, signal) {
  for (const table of article.querySelectorAll("table.tw-sortable")) {
    const isNew = !known.has(table);
    if (isNew) known.set(table, sortable(table));
    const { reveal, take } = known.get(table);
    window.addEventListener("hashchange", reveal, { signal });
    if (isNew ? location.hash : take()) reveal();
  }
}

/** Add a table's buttons; returns what shows the row of the address, and what takes rows that were fetched. */
function sortable(table) {
  const bodies = [...table.tBodies];
  const groups = bodies.filter((body) => body.dataset.group).map(groupOf);
  const rows = () => (groups.length ? groups : bodies.map(groupOf)).flatMap((group) => group.rows);
  const bar = element("div", { class: "tw-filters" });
  const filters = (table.dataset.filters ?? "").split(" ").filter(Boolean);
  const folds = groups.length > 1 ? foldable(table, groups, () => apply?.every("lesson")) : null;
  const apply = filters.length ? addFilters(bar, table, rows, filters, groups) : null;
  makeSortable(table, rows, groups, bar);
  if (folds) bar.append(folds);
  if (apply) bar.append(apply.count);
  if (bar.childNodes.length) (table.closest(".tw-table") ?? table).before(bar);
  const reveal = () => {
    const row = rowAt(location.hash);
    const group = groups.find(({ body }) => body.contains(row));
    if (!row || !(group || rows().includes(row))) return;
    group?.open(true);
    if (row === group?.later) return;
    if (row.hidden) apply?.all();
    row.scrollIntoView({ block: "center" });
  };
  /** Take rows that were fetched; whether the row of the address is among them. */
  const take = () => {
    const fetched = groups.filter((group) => group.later && !group.later.isConnected);
    for (const group of fetched) group.take();
    if (fetched.length) apply?.again();
    const row = rowAt(location.hash);
    return fetched.some((group) => group.rows.includes(row));
  };
  return { reveal, take };
}

function rowAt(hash) {
  const id = decodeURIComponent(hash.slice(1));
  return (id && document.getElementById(id)?.closest("tr")) || null;
}

/** A group's rows, and how it is opened and folded; `foldable` puts the button into its heading row. */
function groupOf(body) {
  const group = { body, button: null };
  /** The row in place of those that are left out, and how many these are, by their data. */
  group.take = () => {
    const all = [...body.rows].filter((row) => !row.matches(".tw-group"));
    group.later = all.find((row) => row.matches(".tw-later")) ?? null;
    group.rows = all.filter((row) => row !== group.later);
    group.counts = JSON.parse(group.later?.dataset.rows ?? "[]");
  };
  group.take();
  group.open = (open) => {
    body.classList.toggle("tw-rows-folded", !open && group.button !== null);
    group.button?.setAttribute("aria-expanded", String(open));
    if (open && group.later) fetchAll(body);
  };
  group.isOpen = () => !body.classList.contains("tw-rows-folded");
  return group;
}

/**
 * Buttons that fold the groups, the first left open; returns the one that opens or folds them all, also those that
 * a choice of one lesson has left out: `chooseAll` undoes it.
 */
function foldable(table, groups, chooseAll) {
  const all = element("button", { type: "button", class: "tw-plain-button" }, "Open all lessons");
  const name = () => {
    all.textContent = groups.every((group) => group.isOpen()) ? "Fold all lessons" : "Open all lessons";
  };
  for (const group of groups) {
    const flip = () => {
      group.open(!group.isOpen());
      name();
    };
    const named = `Rows of ${group.body.dataset.group}`;
    const looks = { type: "button", class: "tw-fold", "aria-label": named, onclick: flip };
    group.button = element("button", looks);
    group.shown = element("small", {});
    const heading = group.body.rows[0].cells[0].firstElementChild;
    heading.prepend(group.button);
    heading.append(group.shown);
    group.open(group === groups[0]);
  }
  all.addEventListener("click", async () => {
    await fetchAll(table);
    const open = !groups.every((group) => group.isOpen());
    if (open) chooseAll();
    for (const group of groups) group.open(open);
    name();
  });
  return all;
}

/** A sorted table is one list; a button in the bar puts the rows back into their groups. */
function makeSortable(table, rows, groups, bar) {
  const heads = [...table.tHead.rows[0].cells];
  const list = groups.length ? element("tbody", {}) : table.tBodies[0];
  const looks = { type: "button", class: "tw-plain-button", hidden: true };
  const grouped = element("button", looks, "Group by lesson");
  const show = (sorted) => {
    table.classList.toggle("tw-one-list", sorted);
    for (const { body } of groups) sorted ? body.remove() : table.append(body);
    if (sorted) table.append(list);
    else list.remove();
    bar.classList.toggle("tw-one-list", sorted);
    grouped.hidden = !sorted;
  };
  if (groups.length) bar.append(grouped);
  grouped.addEventListener("click", () => {
    for (const head of heads) head.removeAttribute("aria-sort");
    for (const group of groups) group.body.append(...group.rows);
    show(false);
    heads[0].querySelector("button").focus();
  });
  heads.forEach((head, at) => {
    const button = element("button", { type: "button", class: "tw-sort" });
    button.append(...head.childNodes);
    const mark = element("span", { class: "tw-sort-mark", "aria-hidden": "true" });
    button.insertBefore(mark, button.querySelector(".tw-unit"));
    head.append(button);
    button.addEventListener("click", async () => {
      await fetchAll(table);
      if (groups.some((group) => group.later)) return;
      const down = head.getAttribute("aria-sort") === "ascending";
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      list.append(...rows().sort(by(at, down)));
      if (groups.length) show(true);
    });
  });
}

/** Rows by a column; rows without a value stand last either way. */
function by(at, down) {
  return (one, other) => {
    const [left, right] = [keyOf(one.cells[at]), keyOf(other.cells[at])];
    if (left === "" || right === "") return (left === "") - (right === "");
    const areNumbers = typeof left === "number" && typeof right === "number";
    const found = areNumbers ? left - right : order.compare(left, right);
    return down ? -found : found;
  };
}

function keyOf(cell) {
  if (cell.dataset.value !== undefined) return Number(cell.dataset.value);
  return cell.dataset.key ?? cell.textContent.trim();
}

/** Choices by the rows' data, values in the rows' order; a row that lacks a datum stays in by each choice. */
function addFilters(bar, table, rows, names, groups) {
  const count = element("p", { class: "tw-filter-count", role: "status" });
  /** How often rows have which data, also of those that are left out. */
  const counted = (group) => [...group.rows.map((row) => [row.dataset, 1]), ...group.counts];
  const all = groups.length ? groups.flatMap(counted) : rows().map((row) => [row.dataset, 1]);
  const choices = names.map((name) => {
    const values = [...new Set(all.map(([data]) => data[name]))].filter(Boolean);
    const select = element("select", { "aria-label": `Rows by ${name}` });
    select.append(element("option", { value: "" }, `${name}: all`));
    select.append(...values.map((value) => element("option", { value }, value)));
    select.value = table.dataset[`first${name[0].toUpperCase()}${name.slice(1)}`] ?? "";
    return { name, select };
  });
  const fits = (data) => choices.every(({ name, select }) => !select.value || (data[name] ?? select.value) === select.value);
  const sum = (counts) => counts.reduce((total, [data, many]) => total + (fits(data) ? many : 0), 0);
  const again = () => {
    for (const row of rows()) row.hidden = !fits(row.dataset);
    const total = all.reduce((before, [, many]) => before + many, 0);
    const shown = sum(all);
    count.textContent = shown === total ? `${shown} rows` : `${shown} of ${total} rows`;
    const met = [];
    for (const group of groups) {
      const fitting = sum(counted(group));
      group.body.hidden = !fitting;
      if (fitting) met.push(group);
      if (group.shown) group.shown.textContent = `${fitting} rows`;
    }
    if (met.length === 1) met[0].open(true);
  };
  for (const { select } of choices) {
    select.addEventListener("change", again);
    bar.append(element("label", {}, select));
  }
  again();
  return {
    count,
    again,
    every: (name) => {
      const select = choices.find((choice) => choice.name === name)?.select;
      if (!select?.value) return;
      select.value = "";
      select.dispatchEvent(new Event("change", { bubbles: true })); // rows.js counts anew
    },
    all: () => {
      for (const { select } of choices) select.value = "";
      again();
    },
  };
}
