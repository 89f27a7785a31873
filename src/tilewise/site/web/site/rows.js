// In: `[data-search]`, which names rows in groups: `tbody[data-group]` of a table that tables.js sorts and filters, or
// `details[data-group]`. Out: a search field that hides rows without its words; for folds also a selection of one
// lesson. A row without the words has the class tw-unfound. Without JavaScript: all rows, and folds to open.

import { element } from "./dom.js";
import { fetchAll } from "./later.js";

const WAIT_MS = 120;
/** The choice of a lesson that tables.js has made. */
const LESSON = ".tw-filters select[aria-label='Rows by lesson']";
/** What was made of each place, which stays when another machine is chosen or when rows are added. */
const made = new WeakMap();

export function searchRows(article) {
  for (const place of article.querySelectorAll("[data-search]")) {
    if (!made.has(place)) made.set(place, searchIn(place));
    made.get(place)();
  }
}

/** Adds the field; returns what looks for its words anew. */
function searchIn(place) {
  const folds = [...place.querySelectorAll("details[data-group]")];
  const what = place.dataset.search;
  const field = element("input", { type: "search", placeholder: `Search ${what}`, "aria-label": `Search ${what}` });
  const count = element("p", { class: "tw-filter-count", role: "status" });
  const bar = element("div", { class: "tw-filters tw-search" }, field);
  const own = folds.length ? oneOf(folds) : null;
  const lesson = () => own ?? place.querySelector(LESSON);
  if (own) bar.append(element("label", {}, own));
  bar.append(count);
  place.prepend(bar);

  const again = () => {
    const words = wordsOf(field.value);
    const rows = [...place.querySelectorAll("tbody tr:not(.tw-group, .tw-later)")];
    const groups = new Set();
    let found = 0;
    for (const row of rows) {
      const text = textOf(row);
      const fits = words.every((word) => text.includes(word));
      row.classList.toggle("tw-unfound", !fits);
      if (!fits || row.hidden || row.closest("details[data-group]")?.hidden) continue;
      found += 1;
      groups.add(groupOf(row));
    }
    place.classList.toggle("tw-searching", words.length > 0);
    for (const group of place.querySelectorAll("[data-group]")) {
      group.classList.toggle("tw-unfound", words.length > 0 && !groups.has(group.dataset.group));
    }
    if (words.length) for (const fold of folds) fold.open = !fold.matches(".tw-unfound") && !fold.hidden;
    const lessons = groups.size === 1 ? "1 lesson" : `${groups.size} lessons`;
    count.textContent = words.length ? `${found} ${found === 1 ? "match" : "matches"} in ${lessons}` : "";
  };

  let before = null; // what was open, and the lesson chosen, when the search began
  let timer = 0;
  const search = async () => {
    if (wordsOf(field.value).length && !before) {
      before = { lesson: lesson()?.value ?? "", open: folds.filter((fold) => fold.open) };
      choose(lesson(), "");
      await fetchAll(place);
    }
    if (!wordsOf(field.value).length && before) {
      for (const fold of folds) fold.open = before.open.includes(fold);
      if (lesson()?.value === "") choose(lesson(), before.lesson);
      before = null;
    }
    again();
  };
  field.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(search, WAIT_MS);
  });
  place.addEventListener("change", again);
  return again;
}

/** A choice of one fold; the others go. */
function oneOf(folds) {
  const select = element("select", { "aria-label": "Rows by lesson" }, element("option", { value: "" }, "lesson: all"));
  select.append(...folds.map(({ dataset }) => element("option", { value: dataset.group }, dataset.group)));
  select.addEventListener("change", () => {
    for (const fold of folds) {
      fold.hidden = select.value !== "" && fold.dataset.group !== select.value;
      fold.open = select.value !== "" && !fold.hidden;
    }
  });
  return select;
}

function choose(select, value) {
  if (!select || select.value === value) return;
  select.value = value;
  select.dispatchEvent(new Event("change", { bubbles: true }));
}

const wordsOf = (text) => text.toLowerCase().split(/\s+/).filter(Boolean);
const groupOf = (row) => row.dataset.lesson ?? row.closest("[data-group]")?.dataset.group ?? "";

function textOf(row) {
  const [head] = row.cells;
  return `${head.dataset.key ?? head.textContent} ${groupOf(row)}`.toLowerCase();
}
