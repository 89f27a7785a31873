// In: `.tw-guess` above measured tables, with the recorded answer. Out: the record stays hidden until the reader has
// guessed or asks to see it; then the error is shown. Guesses are stored in this browser and can be cleared. Without
// JavaScript, and in print, the numbers are visible.

import { element } from "./dom.js";
import { keep, recall } from "./stored.js";

const KEPT = "guesses";
const NEAR = 1.1;
/** What readers have chosen and not yet compared, by panel: more of a page may be fetched in between. */
const chosenIn = new WeakMap();

export function askFirst(article, signal) {
  const panels = [...article.querySelectorAll(".tw-guess")];
  const all = panels.map((panel) => guessPanel(panel, signal, () => refresh()));
  const refresh = () => all.forEach((show) => show());
  if (!all.length) return;
  window.addEventListener("storage", refresh, { signal });
  refresh();
}

/** A number as a reader says it: two figures, thousands apart. */
export function said(value) {
  const rounded = Number(value.toPrecision(2));
  return rounded.toLocaleString("en", { maximumFractionDigits: 6 });
}

/** How far a guess is off: the end of a sentence. */
export function missed(guess, answer) {
  const factor = guess > answer ? guess / answer : answer / guess;
  if (factor < NEAR) return "within 10 %.";
  const many = factor.toLocaleString("en", { maximumSignificantDigits: 2 });
  return `${many}× too ${guess > answer ? "high" : "low"}.`;
}

/** @returns {() => void} shows what is kept for this panel now */
function guessPanel(panel, signal, changed) {
  const { guess: name, unit } = panel.dataset;
  const [answer, low, high] = ["answer", "low", "high"].map((each) => Number(panel.dataset[each]));
  const slider = panel.querySelector("input");
  const shown = panel.querySelector("output");
  const models = [...panel.querySelectorAll("[data-value]")];
  const [compare, skip, clear] = ["compare", "skip", "clear"].map((what) => panel.querySelector(`[data-do=${what}]`));
  const [verdict, marks] = ["verdict", "marks"].map((which) => panel.querySelector(`.tw-guess-${which}`));
  // What was recorded, and what was worked out from it beside it.
  const covered = panel.parentElement.querySelectorAll("[data-mark=measured], [data-mark=measured] ~ td");
  const charts = chartsThatTell(panel);
  const share = (value) => Math.log(value / low) / Math.log(high / low);
  const ofSlider = () => Number((low * (high / low) ** (slider.value / slider.max)).toPrecision(2));
  const withUnit = (value) => said(value) + unit;
  let chosen = chosenIn.get(panel) ?? null;

  const choose = (value, model) => {
    chosen = { guess: value, model };
    chosenIn.set(panel, chosen);
    slider.value = Math.round(share(value) * slider.max);
    slider.setAttribute("aria-valuetext", withUnit(value));
    shown.textContent = withUnit(value);
    for (const each of models) each.setAttribute("aria-pressed", String(each === model));
    compare.disabled = false;
  };
  const mark = (value, text, kind) =>
    element("span", { class: `tw-guess-mark tw-guess-${kind}`, style: `--at: ${share(value)}` }, text);
  const show = () => {
    const entry = recall(KEPT)?.[name];
    const open = entry !== undefined;
    panel.dataset.state = open ? "open" : "asked";
    for (const cell of covered) cell.inert = !open;
    for (const chart of charts) {
      chart.inert = !open;
      chart.classList.toggle("tw-waits", !open);
    }
    for (const each of [slider, ...models, skip]) each.disabled = open;
    compare.disabled = open || !chosen;
    if (!open) {
      marks.replaceChildren();
      if (!chosen) shown.textContent = "move the slider";
      return;
    }
    const { guess } = entry;
    const told = [element("strong", {}, `Measured: ${withUnit(answer)}.`)];
    if (guess !== null) told.push(` You guessed ${withUnit(guess)}: ${missed(guess, answer)}`);
    if (panel.dataset.because) told.push(` ${panel.dataset.because}`);
    verdict.replaceChildren(...told);
    marks.replaceChildren(mark(answer, "recorded", "answer"));
    if (guess !== null) {
      slider.value = Math.round(share(guess) * slider.max);
      shown.textContent = withUnit(guess);
      marks.append(mark(guess, "you", "yours"));
    } else shown.textContent = "not guessed";
  };

  slider.addEventListener("input", () => choose(ofSlider(), null), { signal });
  for (const model of models) {
    model.addEventListener("click", () => choose(Number(model.dataset.value), model), { signal });
  }
  const settle = (guess) => {
    keep(KEPT, { ...recall(KEPT), [name]: { guess } });
    changed();
    verdict.focus({ preventScroll: true });
  };
  compare.addEventListener("click", () => settle(chosen.guess), { signal });
  skip.addEventListener("click", () => settle(null), { signal });
  const forget = () => {
    chosen = null;
    chosenIn.delete(panel);
    keep(KEPT, null);
    changed();
  };
  clear.addEventListener("click", forget, { signal });
  return show;
}

/**
 * The charts whose titles and lines would give the answer away: those between a panel and the next heading, and any
 * before it that draws the same measurement. And the tables of measured values below it, before any prose.
 */
function chartsThatTell(panel) {
  let block = panel;
  while (block.parentElement && !block.parentElement.matches(".md-content__inner")) block = block.parentElement;
  const found = [];
  let prose = false;
  for (let next = block; next && !next.matches("h1, h2, h3"); next = next.nextElementSibling) {
    found.push(...[next, ...next.querySelectorAll(".tw-figure")].filter((one) => one.matches("[data-kind=chart]")));
    prose ||= next.matches("p");
    if (prose || next === block) continue;
    found.push(...[next, ...next.children].filter((one) => one.matches(".tw-table") && one.querySelector("[data-mark=measured]")));
  }
  const isAfter = (one) => Boolean(panel.compareDocumentPosition(one) & Node.DOCUMENT_POSITION_FOLLOWING);
  const same = [...document.querySelectorAll(`.tw-figure[data-recorded~="${CSS.escape(panel.dataset.guess)}"]`)];
  return [...found.filter(isAfter), ...same.filter((one) => !isAfter(one))];
}
