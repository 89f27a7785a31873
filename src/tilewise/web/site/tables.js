// In: `table.tw-sortable`, numbers as `td[data-value]`, and `data-filters` with names of columns by position.
// Out: headings that sort, by mouse and keyboard, and choices that leave rows out. Without this script it is a
// table like any other.

import { element } from "./dom.js";

const order = new Intl.Collator(undefined, { numeric: true });

export function sortableTables(article, signal) {
  for (const table of article.querySelectorAll("table.tw-sortable")) {
    const heads = [...table.tHead.rows[0].cells];
    const rows = [...table.tBodies[0].rows];
    heads.forEach((head, at) => makeSortable(table, heads, rows, at, signal));
    const filters = (table.dataset.filters ?? "").split(" ").filter(Boolean).map(Number);
    if (filters.length) addFilters(table, heads, rows, filters);
  }
}

function makeSortable(table, heads, rows, at, signal) {
  const head = heads[at];
  const button = element("button", { type: "button", class: "tw-sort" });
  button.append(...head.childNodes);
  button.append(element("span", { class: "tw-sort-mark", "aria-hidden": "true" }));
  head.append(button);
  button.addEventListener(
    "click",
    () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const sorted = rows.toSorted ? rows.toSorted(by(at, down)) : [...rows].sort(by(at, down));
      table.tBodies[0].append(...sorted);
    },
    { signal },
  );
}

/** Rows by a column; rows without a value stand last either way. */
function by(at, down) {
  return (one, other) => {
    const [left, right] = [keyOf(one.cells[at]), keyOf(other.cells[at])];
    if (left === "" || right === "") return (left === "") - (right === "");
    const found = typeof left === "number" && typeof right === "number" ? left - right : order.compare(left, right);
    return down ? -found : found;
  };
}

function keyOf(cell) {
  return cell.dataset.value === undefined ? cell.textContent.trim() : Number(cell.dataset.value);
}

function addFilters(table, heads, rows, columns) {
  const count = element("p", { class: "tw-filter-count", role: "status" });
  const choices = columns.map((at) => {
    const values = [...new Set(rows.map((row) => row.cells[at].textContent.trim()))].sort(order.compare);
    const name = heads[at].textContent.trim();
    const select = element("select", {}, element("option", { value: "" }, `${name}: all`));
    select.append(...values.map((value) => element("option", { value }, value || "none")));
    select.setAttribute("aria-label", `Rows by ${name}`);
    return { at, select };
  });
  const apply = () => {
    let left = 0;
    for (const row of rows) {
      row.hidden = choices.some(({ at, select }) => select.value && row.cells[at].textContent.trim() !== select.value);
      left += !row.hidden;
    }
    count.textContent = left === rows.length ? `${left} rows` : `${left} of ${rows.length} rows`;
  };
  const bar = element("div", { class: "tw-filters" });
  bar.append(...choices.map(({ select }) => element("label", {}, select)), count);
  for (const { select } of choices) select.addEventListener("change", apply);
  (table.closest(".tw-table") ?? table).before(bar);
  apply();
}
