// In: recorded numbers, `a[data-provenance]` with the id of the list of their facts; quoted ones, `[data-source]`. Out:
// the facts next to a number that is hovered, focused or tapped. Readers can point at the box; Tab moves into it,
// Escape and a press elsewhere close it. Without JavaScript the link points to the list.

import { element } from "./dom.js";
import { lookUp } from "./later.js";

const NUMBERS = "a[data-provenance], [data-source]";
const WAIT_MS = { show: 160, hide: 220 };
const EDGE_PX = 8;

export function showProvenance(article, signal) {
  const numbers = article.querySelectorAll(NUMBERS);
  if (!numbers.length) return;
  for (const number of numbers) if (!number.matches("a")) number.tabIndex = 0;
  const box = element("span", { class: "tw-provenance-box", id: "tw-provenance-box", role: "group", hidden: true });
  let shown = null;
  let held = false;
  let timer = 0;

  const hide = () => {
    clearTimeout(timer);
    if (!shown) return;
    shown.removeAttribute("aria-describedby");
    if (shown.matches("a")) shown.setAttribute("aria-expanded", "false");
    shown = null;
    held = false;
    box.hidden = true;
  };
  const show = (number, hold = false) => {
    clearTimeout(timer);
    held ||= hold;
    if (shown === number) return;
    hide();
    held = hold;
    shown = number;
    const { provenance } = number.dataset;
    const list = provenance && document.getElementById(provenance);
    const fill = (found) => box.replaceChildren(...contents(number, found));
    if (!list?.closest(".tw-later")) fill(list);
    else {
      box.replaceChildren();
      const late = (found) => {
        if (shown !== number) return;
        fill(found);
        place(box, number);
      };
      lookUp(provenance).then(late, () => late(null));
    }
    box.setAttribute("aria-label", `Where ${number.textContent.trim()} comes from`);
    number.after(box);
    box.hidden = false;
    number.setAttribute("aria-describedby", box.id);
    if (number.matches("a")) number.setAttribute("aria-expanded", "true");
    place(box, number);
  };
  const later = (what, ms) => {
    clearTimeout(timer);
    timer = setTimeout(what, ms);
  };
  const at = (event) => event.target.closest?.(NUMBERS);
  const listen = (target, kind, handle, options = {}) =>
    target.addEventListener(kind, handle, { signal, ...options });

  listen(article, "pointerover", (event) => {
    if (event.pointerType === "touch") return;
    const number = at(event);
    if (box.contains(event.target)) clearTimeout(timer);
    else if (number) later(() => show(number), shown ? 0 : WAIT_MS.show);
    else if (shown && !held && shown !== document.activeElement) later(hide, WAIT_MS.hide);
  });
  listen(article, "pointerleave", () => !held && later(hide, WAIT_MS.hide));
  listen(article, "focusin", (event) => {
    const number = at(event);
    if (number?.matches(":focus-visible")) show(number);
    else if (shown && !box.contains(event.target) && number !== shown) hide();
  });
  listen(
    article,
    "click",
    (event) => {
      const number = at(event);
      if (!number || event.ctrlKey || event.metaKey || event.shiftKey) return;
      event.preventDefault();
      event.stopImmediatePropagation();
      if (shown === number && held) hide();
      else show(number, true);
    },
    { capture: true },
  );
  listen(document, "pointerdown", (event) => shown && !box.contains(event.target) && !at(event) && hide());
  listen(document, "keydown", (event) => {
    if (event.key !== "Escape" || !shown) return;
    if (box.contains(document.activeElement)) shown.focus();
    hide();
  });
  listen(window, "scroll", () => shown && place(box, shown), { passive: true });
  listen(window, "resize", () => shown && place(box, shown));
  for (const wide of article.querySelectorAll(".tw-table")) {
    listen(wide, "scroll", () => shown && wide.contains(shown) && place(box, shown), { passive: true });
  }
  signal.addEventListener("abort", () => {
    hide();
    box.remove();
  });
}

/** The facts of a recorded number in a copy of its list, or the words of who states it. */
function contents(number, list) {
  if (!list) return [number.dataset.source ?? ""];
  const copy = list.cloneNode(true);
  copy.removeAttribute("id");
  const { spread } = number.dataset;
  if (spread) copy.prepend(element("dt", {}, "spread"), element("dd", {}, spread));
  return [copy];
}

/** Below the number, or above it where there is no room; inside the window at either side, over tables. */
function place(box, number) {
  const mark = number.getClientRects()[0] ?? number.getBoundingClientRect();
  const room = document.documentElement.clientWidth - box.offsetWidth - EDGE_PX;
  const below = mark.bottom + box.offsetHeight + EDGE_PX < window.innerHeight;
  box.style.left = `${Math.max(EDGE_PX, Math.min(mark.left, room))}px`;
  box.style.top = `${below ? mark.bottom + 4 : Math.max(EDGE_PX, mark.top - box.offsetHeight - 4)}px`;
}
