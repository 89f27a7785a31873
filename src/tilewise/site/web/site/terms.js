// In: links to terms with their definition as a title. Out: the definition in our own tooltip: on hover, on focus and
// on a first tap. Readers can point at it, and Escape closes it.

import { element } from "./dom.js";

const NOTED = "a.tw-term[title], details.terms a[title]";
const WAIT_MS = { show: 140, hide: 180 };
const EDGE_PX = 8;

export function noteTerms(article, signal) {
  const texts = new Map();
  for (const mark of article.querySelectorAll(NOTED)) {
    texts.set(mark, mark.title);
    mark.removeAttribute("title");
    mark.classList.add("tw-noted");
  }
  if (!texts.size) return;
  const note = element("div", { class: "tw-tip", id: "tw-tip", role: "tooltip", hidden: true });
  document.body.append(note);
  let shown = null;
  let timer = 0;

  const hide = () => {
    clearTimeout(timer);
    shown?.removeAttribute("aria-describedby");
    shown = null;
    note.hidden = true;
  };
  const show = (mark) => {
    clearTimeout(timer);
    if (shown === mark) return;
    hide();
    shown = mark;
    note.textContent = texts.get(mark);
    note.append(" ", element("a", { href: mark.getAttribute("href"), tabindex: -1 }, "Definition"));
    mark.setAttribute("aria-describedby", note.id);
    note.hidden = false;
    place(note, mark);
  };
  const later = (what, ms) => {
    clearTimeout(timer);
    timer = setTimeout(what, ms);
  };
  const at = (event) => {
    const mark = event.target.closest?.(".tw-noted");
    return texts.has(mark) ? mark : null;
  };
  const listen = (target, kind, handle, options = {}) =>
    target.addEventListener(kind, handle, { signal, ...options });

  listen(document, "pointerover", (event) => {
    const mark = at(event);
    if (event.pointerType === "touch") return;
    if (note.contains(event.target)) clearTimeout(timer);
    else if (mark) later(() => show(mark), shown ? 0 : WAIT_MS.show);
    else if (!shown || shown !== document.activeElement) later(hide, WAIT_MS.hide);
  });
  listen(article, "focusin", (event) => (at(event)?.matches(":focus-visible") ? show(at(event)) : hide()));
  listen(article, "focusout", hide);
  listen(document, "keydown", (event) => event.key === "Escape" && hide());
  // A first tap shows the note, with the link in it; a second one, or a click of a mouse, follows the link.
  let touch = false;
  listen(document, "pointerdown", (event) => {
    touch = event.pointerType === "touch";
    if (touch && shown && !at(event) && !note.contains(event.target)) hide();
  });
  listen(
    article,
    "click",
    (event) => {
      const mark = touch ? at(event) : null;
      if (!mark || shown === mark) return;
      event.preventDefault();
      event.stopPropagation();
      show(mark);
    },
    { capture: true },
  );
  signal.addEventListener("abort", () => {
    clearTimeout(timer);
    note.remove();
    for (const [mark, text] of texts) mark.title = text;
  });
}

/** Below the mark, or above it where there is no room; inside the window at either side. */
function place(note, mark) {
  const box = mark.getClientRects()[0] ?? mark.getBoundingClientRect();
  const room = document.documentElement.clientWidth - note.offsetWidth - EDGE_PX;
  const below = box.bottom + note.offsetHeight + EDGE_PX < window.innerHeight;
  note.style.left = `${Math.max(EDGE_PX, Math.min(box.left, room)) + window.scrollX}px`;
  note.style.top = `${(below ? box.bottom + 4 : box.top - note.offsetHeight - 4) + window.scrollY}px`;
}
