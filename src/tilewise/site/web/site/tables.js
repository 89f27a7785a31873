// In: `table.tw-sortable`, numbers as `[data-value]`, words to sort by as `[data-key]`, `data-filters` with
// names of the rows' data, `tbody[data-group]` with a heading row. Out: headings that sort over all groups,
// by mouse and keyboard; choices that leave rows out; groups that fold. Without this script: a plain table.

import { element } from "./dom.js";

const order = new Intl.Collator(undefined, { numeric: true });

export function sortableTables(article, signal) {
  for (const table of article.querySelectorAll("table.tw-sortable")) {
    if (table.querySelector(".tw-sort")) continue; // another machine was chosen, which leaves it as it is
    const bodies = [...table.tBodies];
    const rows = bodies.flatMap((body) => [...body.rows].filter((row) => !row.matches(".tw-group")));
    const groups = bodies.filter((body) => body.dataset.group).map((body) => groupOf(body, rows));
    const bar = element("div", { class: "tw-filters" });
    const filters = (table.dataset.filters ?? "").split(" ").filter(Boolean);
    const folds = groups.length > 1 ? foldable(groups) : null;
    const apply = filters.length ? addFilters(bar, table, rows, filters, groups) : null;
    makeSortable(table, rows, groups, bar);
    if (folds) bar.append(folds);
    if (apply) bar.append(apply.count);
    if (bar.childNodes.length) (table.closest(".tw-table") ?? table).before(bar);
    const reveal = () => {
      const row = rowAt(location.hash);
      if (!row || !rows.includes(row)) return;
      if (row.hidden) apply?.all();
      groups.find((group) => group.rows.includes(row))?.open(true);
      row.scrollIntoView({ block: "center" });
    };
    window.addEventListener("hashchange", reveal, { signal });
    if (location.hash) reveal();
  }
}

function rowAt(hash) {
  const id = decodeURIComponent(hash.slice(1));
  return id && document.getElementById(id)?.closest("tr");
}

/** A group's rows, and how it is opened and folded; `foldable` puts the button into its heading row. */
function groupOf(body, rows) {
  const group = { body, rows: rows.filter((row) => row.parentNode === body), button: null };
  group.open = (open) => {
    body.classList.toggle("tw-rows-folded", !open && group.button !== null);
    group.button?.setAttribute("aria-expanded", String(open));
  };
  group.isOpen = () => !body.classList.contains("tw-rows-folded");
  return group;
}

/** Buttons that fold the groups, the first left open; returns the one that opens or folds them all. */
function foldable(groups) {
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
  all.addEventListener("click", () => {
    const open = !groups.every((group) => group.isOpen());
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
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      list.append(...[...rows].sort(by(at, down)));
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
  const choices = names.map((name) => {
    const values = [...new Set(rows.map((row) => row.dataset[name]))].filter(Boolean);
    const select = element("select", { "aria-label": `Rows by ${name}` });
    select.append(element("option", { value: "" }, `${name}: all`));
    select.append(...values.map((value) => element("option", { value }, value)));
    select.value = table.dataset[`first${name[0].toUpperCase()}${name.slice(1)}`] ?? "";
    return { name, select };
  });
  const apply = () => {
    for (const row of rows) {
      row.hidden = choices.some(({ name, select }) => {
        return select.value && row.dataset[name] && row.dataset[name] !== select.value;
      });
    }
    const shown = rows.filter((row) => !row.hidden).length;
    count.textContent = shown === rows.length ? `${shown} rows` : `${shown} of ${rows.length} rows`;
    const met = groups.filter((group) => group.rows.some((row) => !row.hidden));
    for (const group of groups) {
      group.body.hidden = !met.includes(group);
      const fitting = group.rows.filter((row) => !row.hidden).length;
      if (group.shown) group.shown.textContent = `${fitting} rows`;
    }
    if (met.length === 1) met[0].open(true);
  };
  for (const { select } of choices) {
    select.addEventListener("change", apply);
    bar.append(element("label", {}, select));
  }
  apply();
  const all = () => {
    for (const { select } of choices) select.value = "";
    apply();
  };
  return { count, all };
}
