// In: a selection in the article, the box at the page's end. Out: a draft of a suggestion and, on request, the dialog
// of feedback/dialog.js, fetched then. A draft stays in this window's memory and, if the reader agrees, in this
// browser; the dialog decides where it goes.

import { element } from "./dom.js";
import { placeOf, wordsOf } from "./place.js";
import { keep, recall } from "./stored.js";

const home = document.currentScript?.src ?? document.baseURI;
const WAIT_MS = 200;
const KEPT = "This draft is kept in this browser until you forget it. Nothing has been sent.";
const NOWHERE = { quote: "", heading: "", anchor: "", line: 0 };
/** Drafts of this window, by page. */
const drafts = new Map();

/**
 * @typedef {{text: string, place: typeof NOWHERE, kept: boolean, sent: boolean}} Draft
 */

export function takeSuggestions(article, signal) {
  const section = article.querySelector(".tw-feedback");
  if (!section) return;
  const name = `draft:${location.pathname}`;
  const box = section.querySelector("textarea");
  const [openButton, keepButton] = ["open", "keep"].map((what) => section.querySelector(`[data-do=${what}]`));
  const note = section.querySelector(".tw-feedback-note");
  const usual = note.textContent;
  const stored = recall(name);
  /** @type {Draft} */
  const draft = drafts.get(name) ?? {
    text: stored?.text ?? box.value,
    place: { ...NOWHERE, ...stored?.place },
    kept: Boolean(stored),
    sent: false,
  };
  drafts.set(name, draft);

  const guard = (event) => event.preventDefault();
  /** Bring the page, the store and the guard against losing words in line with the draft. */
  const settle = () => {
    if (box.value !== draft.text) box.value = draft.text;
    const isEmpty = !draft.text.trim() && !draft.place.quote;
    openButton.disabled = isEmpty;
    keepButton.disabled = isEmpty && !draft.kept;
    if (draft.kept && !keep(name, { text: draft.text, place: draft.place })) draft.kept = false;
    keepButton.setAttribute("aria-pressed", String(draft.kept));
    keepButton.textContent = draft.kept ? "Forget the draft" : "Keep a draft in this browser";
    note.textContent = draft.kept ? KEPT : usual;
    if (draft.text.trim() && !draft.kept && !draft.sent) window.addEventListener("beforeunload", guard);
    else window.removeEventListener("beforeunload", guard);
  };
  const change = (changes) => {
    Object.assign(draft, { sent: false }, changes);
    settle();
  };
  const toggleKept = () => {
    if (draft.kept) keep(name, null);
    change({ kept: !draft.kept });
  };
  const open = async (back) => {
    try {
      const { openDialog } = await import(new URL("feedback.js", home).href);
      const page = {
        title: wordsOf(article.querySelector("h1") ?? document.head.querySelector("title")),
        address: location.origin + location.pathname,
        source: section.dataset.file,
        repository: section.dataset.repository ?? "",
      };
      openDialog({ page, draft, change, toggleKept, back });
    } catch {
      note.textContent = "The dialog could not be fetched. Check the connection and try again.";
    }
  };
  box.addEventListener("input", () => change({ text: box.value }), { signal });
  openButton.addEventListener("click", () => open(() => openButton.focus()), { signal });
  keepButton.addEventListener("click", toggleKept, { signal });
  signal.addEventListener("abort", () => window.removeEventListener("beforeunload", guard));
  settle();

  offerAtSelection(article, section, signal, (place, back) => {
    change({ place });
    open(back);
  });
}

/** A button near what is selected; Tab leads to it, Escape puts it away. */
function offerAtSelection(article, section, signal, take) {
  const button = element("button", { type: "button", class: "tw-act tw-suggest", hidden: true });
  button.textContent = "Suggest a change";
  button.setAttribute("aria-label", "Suggest a change to the selected text");
  document.body.append(button);
  let range = null;
  let timer = 0;

  const hide = () => {
    button.hidden = true;
    range = null;
  };
  const look = () => {
    if (document.activeElement === button || document.querySelector("dialog[open]")) return;
    const selection = getSelection();
    const chosen = selection.rangeCount && !selection.isCollapsed ? selection.getRangeAt(0) : null;
    const around = chosen?.commonAncestorContainer;
    const isText = article.contains(around ?? null) && !section.contains(around);
    if (!isText || !String(selection).trim()) return hide();
    range = chosen.cloneRange();
    const boxes = [...chosen.getClientRects()];
    const end = boxes.at(-1) ?? chosen.getBoundingClientRect();
    button.hidden = false;
    const room = document.documentElement.clientWidth - button.offsetWidth - 8;
    button.style.left = `${Math.max(8, Math.min(end.right - button.offsetWidth / 2, room)) + scrollX}px`;
    const gap = matchMedia("(pointer: coarse)").matches ? 30 : 8;
    button.style.top = `${Math.max(end.bottom + gap, 56) + scrollY}px`;
  };
  document.addEventListener(
    "selectionchange",
    () => {
      clearTimeout(timer);
      timer = setTimeout(look, WAIT_MS);
    },
    { signal },
  );
  document.addEventListener(
    "keydown",
    (event) => {
      if (button.hidden) return;
      if (event.key === "Escape") hide();
      else if (event.key === "Tab" && !event.shiftKey && document.activeElement !== button) {
        event.preventDefault();
        button.focus();
      }
    },
    { signal },
  );
  button.addEventListener("pointerdown", (event) => event.preventDefault());
  button.addEventListener("click", () => {
    if (!range) return;
    const chosen = range;
    const back = () => {
      getSelection().removeAllRanges();
      getSelection().addRange(chosen);
    };
    const place = placeOf(article, chosen);
    hide();
    take(place, back);
  });
  signal.addEventListener("abort", () => {
    clearTimeout(timer);
    button.remove();
  });
}
