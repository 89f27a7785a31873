// In: the button at a lesson's end, links to lessons in the course map. Out: the lessons that the reader has marked as
// read, stored in this browser, and a way to clear them.

import { element } from "./dom.js";
import { keep, recall } from "./stored.js";

const LESSON = /\/lessons\/([\w-]+\/[\w-]+?)(?:\/|\.html)?$/;
const KEPT = "read";

export function markProgress(article, signal) {
  const here = lessonOf(location.href);
  const mark = article.querySelector(".tw-finish");
  const listed = article.querySelector(".tw-lessons");

  const show = () => {
    const read = recall(KEPT) ?? {};
    for (const link of article.querySelectorAll(".tw-lessons li a")) {
      const isRead = lessonOf(link.href) in read;
      link.classList.toggle("tw-done", isRead);
      name(link, isRead);
    }
    if (mark && here) {
      mark.hidden = false;
      const button = mark.querySelector("button");
      button.setAttribute("aria-pressed", String(here in read));
      button.textContent = here in read ? "Read" : "Mark this lesson as read";
    }
    if (listed) summary(listed, read, show);
  };

  mark?.querySelector("button").addEventListener(
    "click",
    () => {
      const read = recall(KEPT) ?? {};
      if (here in read) delete read[here];
      else read[here] = new Date().toISOString().slice(0, 10);
      keep(KEPT, Object.keys(read).length ? read : null);
      show();
    },
    { signal },
  );
  window.addEventListener("storage", show, { signal });
  show();
}

/** "kernels/grids" of an address of that lesson's page; "" of any other. */
function lessonOf(address) {
  return LESSON.exec(new URL(address, document.baseURI).pathname)?.[1] ?? "";
}

/** A screen reader hears what the mark shows. */
function name(link, isRead) {
  link.querySelector(".tw-done-word")?.remove();
  if (isRead) link.append(element("span", { class: "tw-done-word" }, " (read)"));
}

function summary(listed, read, show) {
  const total = listed.querySelectorAll("li a").length;
  const count = listed.querySelectorAll("li a.tw-done").length;
  let line = listed.querySelector(".tw-progress");
  if (!Object.keys(read).length) return line?.remove();
  if (!line) {
    line = element("p", { class: "tw-progress", role: "status" });
    listed.append(line);
  }
  const clear = element("button", { type: "button", class: "tw-quiet" }, "Clear my progress");
  clear.addEventListener("click", () => {
    for (const kept of [KEPT, "puzzles"]) keep(kept, null);
    show();
  });
  line.replaceChildren(`You have marked ${count} of ${total} as read; only this browser knows. `, clear);
}
