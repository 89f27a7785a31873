// In: kernels that a reader may run, `.tw-try`. Out: run.js, fetched when a reader first uses one of them, or if the
// page's URL requests a run; and a button for edit.js if the page has a compiler.

import { element } from "./dom.js";

const home = document.currentScript?.src ?? document.baseURI;
const isEditable = isSecureContext && document.querySelector('meta[name="tilewise-compiler"]') !== null;

export function offerRuns(article, signal) {
  for (const root of article.querySelectorAll(".tw-try[data-offer]")) {
    let panel = null;
    const begin = () => {
      const again = () => (panel = null); // touched again, it is fetched again
      panel ??= import(new URL("run.js", home).href).then(({ mount }) => mount(root, signal), again);
      return panel;
    };
    const form = root.querySelector("form");
    for (const kind of ["pointerdown", "focusin", "input"]) form.addEventListener(kind, begin, { signal });
    const asks = new URLSearchParams(location.search);
    if (asks.has(root.id) || asks.has(`${root.id}-steps`)) begin();
    if (isEditable) offerEdit(root, begin, signal);
  }
}

function offerEdit(root, begin, signal) {
  const open = async () => {
    const [{ toggle }, panel] = await Promise.all([import(new URL("edit.js", home).href), begin()]);
    if (panel) toggle(root, button, panel, signal);
  };
  const button = element("button", { type: "button", class: "tw-act", "aria-expanded": "false", onclick: open }, "Edit");
  root.querySelector(".tw-try-head").append(" ", button);
  signal.addEventListener("abort", () => button.remove());
}
