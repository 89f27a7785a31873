// In: tables, code blocks and formulas that may be wider than the screen. Out: those that do scroll can be reached and
// scrolled by keyboard, and say what they are; those that do not stay out of the tab order.

const SCROLLS = ".tw-table, .tw-hazard-source, .md-typeset__scrollwrap, .tw-math, pre > code";

export function scrollableRegions(article, signal) {
  const boxes = article.querySelectorAll(SCROLLS);
  const mark = (box) => {
    if (box.scrollWidth > box.clientWidth + 1) {
      box.tabIndex = 0;
      if (!box.matches("code")) {
        box.role = "region";
        box.ariaLabel ??=
          box.querySelector("caption")?.textContent.trim() || (box.matches(".tw-math") ? "Formula" : "Table");
      }
    } else box.removeAttribute("tabindex");
  };
  const sizes = new ResizeObserver((entries) => entries.forEach((entry) => mark(entry.target)));
  for (const box of boxes) sizes.observe(box);
  signal.addEventListener("abort", () => sizes.disconnect());
}
