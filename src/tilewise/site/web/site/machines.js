// In: the machines of `#tw-machines` and the header's button; blocks `.tw-machines`, which have other machines' outputs
// in templates; numbers `[data-on]`. Out: one selected machine for the whole site, stored in this browser; a change
// updates all of them.

import { element } from "./dom.js";
import { keep, recall } from "./stored.js";

const KEPT = "machine";
/** Recorded numbers in sentences; a table says itself where its numbers come from. */
const RECORDED = ":not(td) > a.tw-number[data-provenance]";

const machines = JSON.parse(document.getElementById("tw-machines")?.textContent ?? "[]");
const root = document.querySelector(".tw-machine");
/** Of each block, the outputs of the machines that are not shown. */
const outputs = new WeakMap();
/** What brings the page back to how it was sent, the last change last. */
const undo = [];
let reopen = () => {};

const nameOf = (id) => machines.find((machine) => machine.id === id)?.name ?? id;
/** The machine of a number; the first where it does not say. */
const recordedOn = ({ dataset: { provenance = "" } }) =>
  machines.find(({ id }) => provenance.startsWith(`provenance-${id}-`)) ?? machines[0];
const machineOf = (block) => block.dataset.shown ?? block.dataset.machine;
const isKnown = (id) => machines.some((machine) => machine.id === id);
let wanted = machines[0]?.id;

/** Let the reader choose; `again` starts the page's parts anew around what changes. */
export function chooseMachine(again) {
  if (!machines.length || !root) return;
  reopen = again;
  follow();
  addMenu();
  window.addEventListener("storage", ({ key }) => {
    if (key && !key.endsWith(`:${KEPT}`)) return;
    follow();
    again();
  });
}

/** What this browser keeps: the default where that is nothing, or a machine that the site no longer has. */
function follow() {
  const kept = recall(KEPT);
  wanted = isKnown(kept) ? kept : machines[0].id;
}

function choose(id) {
  wanted = id;
  keep(KEPT, id === machines[0].id ? null : id);
  reopen();
}

/** Show the chosen machine's outputs and numbers in an article. Called before any part looks at it. */
export function showMachine(article) {
  if (!machines.length || !root) return;
  while (undo.length) undo.pop()();
  const button = root.querySelector(".tw-machine-button");
  button.textContent = nameOf(wanted);
  button.setAttribute("aria-label", `Measured on: ${nameOf(wanted)}`);

  let changed = false;
  for (const block of article.querySelectorAll(".tw-machines")) changed = showBlock(block, wanted) || changed;
  for (const number of article.querySelectorAll("[data-on]")) {
    const other = JSON.parse(number.dataset.on)[wanted];
    if (other) renumber(number, other);
  }
  for (const number of wanted === machines[0].id ? [] : article.querySelectorAll(RECORDED)) {
    const of = recordedOn(number);
    if (of.id !== wanted) change(number, null, { "data-elsewhere": of.name });
  }
  const lacking = [...article.querySelectorAll(".tw-machines, .tw-measurement[data-machine]")].filter(
    (block) => machineOf(block) !== wanted && !block.querySelector(".tw-measurement[data-machine]"),
  );
  for (const block of lacking) {
    note(block, `${nameOf(machineOf(block))} (not measured on the ${nameOf(wanted)})`);
  }
  nameOnce(article);
  if (changed) document.dispatchEvent(new Event("tw:content"));
}

/** A list of facts that came with a block and is also among the sources of quoted numbers: only the first is named. */
function nameOnce(article) {
  const seen = new Set();
  for (const list of article.querySelectorAll(".tw-provenance-list[id]")) {
    const { id } = list;
    if (!seen.has(id)) seen.add(id);
    else change(list, null, { id: null });
  }
}

/** Put a machine's output in place of the one shown, or the default's where it has none. */
function showBlock(block, machine) {
  if (!outputs.has(block)) {
    const templates = [...block.querySelectorAll(":scope > template[data-machine]")];
    outputs.set(block, new Map(templates.map((each) => [each.dataset.machine, each.content])));
    block.dataset.first = block.dataset.shown;
  }
  const others = outputs.get(block);
  const { shown, first } = block.dataset;
  const next = machine === shown || others.has(machine) ? machine : first;
  if (next === shown) return false;
  const away = document.createDocumentFragment();
  away.append(...[...block.childNodes].filter((node) => node.nodeName !== "TEMPLATE"));
  block.prepend(others.get(next));
  moveKept(away, block);
  others.delete(next);
  others.set(shown, away);
  block.dataset.shown = next;
  return true;
}

/** Entries that all machines share, such as the code, move to the line of the output that is shown. */
function moveKept(from, to) {
  const entries = [...from.querySelectorAll(".tw-folds > [data-kept]")];
  if (!entries.length) return;
  let line = [...to.querySelectorAll(".tw-folds")].filter((each) => !each.closest("details")).at(-1);
  if (!line) {
    line = element("div", { class: "tw-folds" });
    to.append(line);
  }
  line.append(...entries);
}

/** Another machine's number instead of the one that the page was sent with. */
function renumber(number, { text, origin, spread }) {
  change(number, [text], origin ? { href: `#${origin}`, "data-provenance": origin, "data-spread": spread || null } : {});
}

/** Change what an element holds and some of its attributes, until the next choice. */
function change(node, children, attributes = {}) {
  const before = Object.keys(attributes).map((name) => [name, node.getAttribute(name)]);
  const held = [...node.childNodes];
  const set = (name, value) => (value === null ? node.removeAttribute(name) : node.setAttribute(name, value));
  if (children) node.replaceChildren(...children);
  for (const [name, value] of Object.entries(attributes)) set(name, value);
  undo.push(() => {
    if (children) node.replaceChildren(...held);
    for (const [name, value] of before) set(name, value);
  });
}

/** A line above a block that shows another machine than the chosen one. */
function note(block, text) {
  const line = element("p", { class: "tw-machine-note" }, text);
  block.prepend(line);
  undo.push(() => line.remove());
}

function addMenu() {
  const button = root.querySelector(".tw-machine-button");
  const items = machines.map(({ id, name }) =>
    element("button", { type: "button", role: "menuitemradio", tabindex: -1, "data-id": id }, name),
  );
  const heading = element("p", { "aria-hidden": "true" }, "Measured on");
  const menu = element("div", { role: "menu", class: "tw-machine-menu", hidden: true }, heading, ...items);
  menu.setAttribute("aria-label", "Measured on");
  root.prepend(menu);

  const open = (isOpen, focus = isOpen ? items.find((item) => item.ariaChecked === "true") : button) => {
    menu.hidden = !isOpen;
    button.setAttribute("aria-expanded", String(isOpen));
    focus?.focus();
  };
  const mark = () => items.forEach((item) => item.setAttribute("aria-checked", String(item.dataset.id === wanted)));
  button.addEventListener("click", () => {
    mark();
    open(menu.hidden);
  });
  menu.addEventListener("click", ({ target }) => {
    const { id } = target.dataset;
    if (!id) return;
    open(false);
    choose(id);
  });
  root.addEventListener("keydown", (event) => {
    const at = items.indexOf(document.activeElement);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: -1 }[event.key];
    if (event.key === "Escape" && !menu.hidden) open(false);
    else if (event.key === "Tab") open(false, null);
    else if (to === undefined) return;
    else if (menu.hidden) button.click();
    else items.at(to % items.length).focus();
    if (event.key !== "Tab") event.preventDefault();
  });
  document.addEventListener("pointerdown", ({ target }) => menu.hidden || root.contains(target) || open(false, null));
}
