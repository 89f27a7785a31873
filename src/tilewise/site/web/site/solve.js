// In: puzzles, `.tw-solve`. Out: a button for each that fetches solve.js to solve the puzzle on the page; a mark in the
// title of those solved in this browser.

import { element } from "./dom.js";
import { recall } from "./stored.js";

const home = document.currentScript?.src ?? document.baseURI;

export function offerPuzzles(article, signal) {
  for (const root of article.querySelectorAll(".tw-solve")) {
    const open = element("button", { type: "button", class: "tw-act" }, "Solve it here");
    const begin = async () => {
      open.disabled = true;
      try {
        const { mount } = await import(new URL("solve.js", home).href);
        await mount(root, open, signal);
      } finally {
        open.disabled = false;
      }
    };
    open.addEventListener("click", begin);
    root.append(open);
    signal.addEventListener("abort", () => root.replaceChildren());
    markSolved(root);
  }
}

/** Say in a puzzle's title whether it is solved. @param {HTMLElement} root */
export function markSolved(root) {
  const title = root.closest(".puzzle")?.querySelector(".admonition-title");
  title?.querySelector(".tw-solved")?.remove();
  if (recall("puzzles")?.[root.dataset.puzzle]?.solved) title?.append(element("span", { class: "tw-solved" }, " solved"));
}
