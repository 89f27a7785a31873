// Copies formulas as TeX: selected formulas go to the clipboard as they were written.
// In: `.tw-math[data-tex]`. Out: a copy handler. A partially selected formula is copied whole.

/** Put TeX in place of the formulas among what is copied. */
export function copyFormulas(article, signal) {
  document.addEventListener(
    "copy",
    (event) => {
      const selection = getSelection();
      if (!selection || selection.isCollapsed || !event.clipboardData) return;
      const range = selection.getRangeAt(0);
      const ends = [range.startContainer, range.endContainer].map((node) =>
        (node.nodeType === Node.ELEMENT_NODE ? node : node.parentElement).closest(".tw-math"),
      );
      const whole = range.cloneRange();
      if (ends[0]) whole.setStartBefore(ends[0]);
      if (ends[1]) whole.setEndAfter(ends[1]);
      const copied = whole.cloneContents();
      const formulas = copied.querySelectorAll(".tw-math[data-tex]");
      if (!formulas.length) return;
      for (const formula of formulas) {
        const sign = formula.tagName === "DIV" ? "$$" : "$";
        formula.replaceWith(`${sign}${formula.dataset.tex}${sign}`);
      }
      event.clipboardData.setData("text/plain", copied.textContent);
      event.preventDefault();
    },
    { signal },
  );
}
