// In: a page and a draft. Out: a modal dialog with the quote, a text box and a preview of exactly what would be
// sent. Nothing leaves the page without a click: on a link to a new issue, or to copy to the clipboard.

import { element } from "../site/dom.js";
import { issue, message } from "./message.js";

const SAID = {
  usual: "Nothing is stored or sent until you press a button.",
  kept: "This draft is kept in this browser until you forget it. Nothing has been sent.",
  cut: "This is too long for a link. The issue opens with its beginning; the whole text is copied to paste.",
  byHand: "The browser does not let pages copy. The preview is selected: copy it by hand.",
};

/**
 * @param {{page: {title: string, address: string, source: string, repository: string},
 *   draft: import("../site/suggest.js").Draft, change: (changes: object) => void,
 *   toggleKept: () => void, back: () => void}} given
 */
export function openDialog({ page, draft, change, toggleKept, back }) {
  const quote = element("blockquote", { class: "tw-dialog-quote" });
  const leaveOut = element("button", { type: "button", class: "tw-quiet" }, "Leave the quote out");
  const quoted = element("div", { class: "tw-dialog-quoted" }, quote, leaveOut);
  const box = element("textarea", { id: "tw-dialog-text", rows: 5, autofocus: true });
  const preview = element("pre", { class: "tw-dialog-preview", tabindex: 0, "aria-label": "Preview" });
  const note = element("p", { class: "tw-feedback-note", role: "status" });
  const send = element("a", { class: "tw-act tw-act-main", target: "_blank", rel: "noopener noreferrer" });
  const copy = element("button", { type: "button", class: "tw-act" }, "Copy the text");
  const keepButton = element("button", { type: "button", class: "tw-quiet" });
  const close = element("button", { type: "button", class: "tw-dialog-close", "aria-label": "Close" }, "×");
  const dialog = element(
    "dialog",
    { class: "tw-dialog md-typeset", "aria-labelledby": "tw-dialog-title" },
    element("h2", { id: "tw-dialog-title" }, "Suggest a change"),
    close,
    quoted,
    element("label", { for: box.id }, "What would you change, and why?"),
    box,
    element("p", { class: "tw-dialog-label" }, "This is what goes out, and nothing else:"),
    preview,
    note,
    element("p", { class: "tw-feedback-buttons" }, send, copy, keepButton),
  );
  const host = page.repository && issue(page, draft) ? new URL(page.repository).host : "";
  send.textContent = `Open as an issue on ${host}`;
  send.hidden = !host;
  box.value = draft.text;

  const show = () => {
    quoted.hidden = !draft.place.quote;
    quote.textContent = draft.place.quote;
    const { title, body } = message(page, draft);
    preview.textContent = `${title}\n\n${body}`;
    const ready = Boolean(draft.text.trim());
    const made = host && ready ? issue(page, draft) : null;
    if (made) send.href = made.href;
    else send.removeAttribute("href");
    send.setAttribute("aria-disabled", String(!made));
    copy.disabled = !ready;
    keepButton.textContent = draft.kept ? "Forget the draft" : "Keep a draft in this browser";
    keepButton.setAttribute("aria-pressed", String(draft.kept));
    note.textContent = made?.cut
      ? SAID.cut
      : draft.kept
        ? SAID.kept
        : SAID.usual;
    return made;
  };
  const copyAll = async () => {
    try {
      await navigator.clipboard.writeText(preview.textContent);
      return true;
    } catch {
      getSelection().selectAllChildren(preview);
      preview.focus();
      return false;
    }
  };

  box.addEventListener("input", () => {
    change({ text: box.value });
    show();
  });
  leaveOut.addEventListener("click", () => {
    change({ place: { ...draft.place, quote: "" } });
    show();
    box.focus();
  });
  keepButton.addEventListener("click", () => {
    toggleKept();
    show();
  });
  copy.addEventListener("click", async () => {
    const done = await copyAll();
    change({ sent: done });
    note.textContent = done ? "Copied." : SAID.byHand;
  });
  send.addEventListener("click", async () => {
    if (issue(page, draft)?.cut) await copyAll();
    change({ sent: true });
  });
  close.addEventListener("click", () => dialog.close());
  dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
  dialog.addEventListener("close", () => {
    dialog.remove();
    back();
  });
  // Material's shortcuts (/, n, p and others) listen to the whole window.
  dialog.addEventListener("keydown", (event) => event.key !== "Escape" && event.stopPropagation());
  show();
  document.body.append(dialog);
  dialog.showModal();
}
