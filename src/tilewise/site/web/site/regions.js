// In: tables, code blocks and formulas that may be wider than the screen. Out: those that do scroll can be reached and
// scrolled by keyboard, and say what they are; those that do not stay out of the tab order.

const SCROLLS = ".tw-table, .tw-hazard-source, .md-typeset__scrollwrap, .tw-math, pre > code";

/** Around a line of code, in widths of a character, which is 0.6 of the letters' size. */
const AROUND = 3;

export function scrollableRegions(article, signal) {
  const boxes = article.querySelectorAll(SCROLLS);
  const listings = article.querySelectorAll("pre[style]");
  const mark = (box) => {
    if ((box.firstElementChild ?? box).checkVisibility?.({ contentVisibilityAuto: true }) === false) return; // not laid out
    if (box.scrollWidth > box.clientWidth + 1) {
      box.tabIndex = 0;
      if (!box.matches("code")) {
        box.role = "region";
        box.ariaLabel ??=
          box.querySelector("caption")?.textContent.trim() || (box.matches(".tw-math") ? "Formula" : "Table");
      }
    } else box.removeAttribute("tabindex");
  };
  const sizes = new ResizeObserver((entries) => {
    for (const { target } of entries) target.matches("pre[style]") ? guess(target) : mark(target);
  });
  for (const box of [...boxes, ...listings]) sizes.observe(box);
  // what was skipped may be laid out at the size that it had
  article.addEventListener("tw-laid-out", () => boxes.forEach(mark), { signal });
  signal.addEventListener("abort", () => sizes.disconnect());
}

/** A listing far from the screen is not laid out, but can be reached: its text says whether it will scroll. */
function guess(listing) {
  const code = listing.querySelector("code");
  if (!code || code.checkVisibility?.({ contentVisibilityAuto: true })) return;
  const rem = parseFloat(getComputedStyle(document.documentElement).fontSize);
  const letter = 0.6 * rem * (window.matchMedia("(max-width: 44.9375em)").matches ? 0.64 : 0.67);
  const longest = Math.max(...code.textContent.split("\n").map((line) => line.length));
  if ((longest + AROUND) * letter > listing.clientWidth) code.tabIndex = 0;
  else code.removeAttribute("tabindex");
}
