// In: tables, code blocks and formulas that may be wider than the screen. Out: those that scroll are focusable,
// scrollable by keyboard, and labelled; the others stay out of the tab order.

const SCROLLS = ".tw-table, .tw-hazard-source, .md-typeset__scrollwrap, table.tw-plain, .tw-math, pre > code";

/** Around a line of code, in widths of a character, which is 0.6 of the letters' size. */
const AROUND = 3;

export function scrollableRegions(article, signal) {
  const boxes = article.querySelectorAll(SCROLLS);
  const listings = article.querySelectorAll("pre[style]");
  const sizes = new ResizeObserver((entries) => {
    const seen = entries.map((entry) => entry.target);
    guessAll(seen.filter((one) => one.matches("pre[style]")));
    markAll(seen.filter((one) => !one.matches("pre[style]")));
  });
  for (const box of [...boxes, ...listings]) sizes.observe(box);
  signal.addEventListener("abort", () => sizes.disconnect());
}

/** All are measured before the first is changed: a change in between has the page laid out anew for each. */
function markAll(boxes) {
  const laidOut = boxes.filter(
    (box) => (box.firstElementChild ?? box).checkVisibility?.({ contentVisibilityAuto: true }) !== false,
  );
  const wide = laidOut.map((box) => box.scrollWidth > box.clientWidth + 1);
  laidOut.forEach((box, at) => mark(box, wide[at]));
}

function mark(box, scrolls) {
  if (!scrolls) return box.removeAttribute("tabindex");
  box.tabIndex = 0;
  if (box.matches("code, table")) return;
  box.role = "region";
  box.ariaLabel ??= box.querySelector("caption")?.textContent.trim() || (box.matches(".tw-math") ? "Formula" : "Table");
}

/** A listing far from the screen is not laid out, but can be reached: its text says whether it will scroll. */
function guessAll(listings) {
  const rem = parseFloat(getComputedStyle(document.documentElement).fontSize);
  const letter = 0.6 * rem * (window.matchMedia("(max-width: 44.9375em)").matches ? 0.64 : 0.67);
  const far = listings
    .map((listing) => [listing.querySelector("code"), listing.clientWidth])
    .filter(([code]) => code && !code.checkVisibility?.({ contentVisibilityAuto: true }));
  for (const [code, width] of far) {
    const longest = Math.max(...code.textContent.split("\n").map((line) => line.length));
    if ((longest + AROUND) * letter > width) code.tabIndex = 0;
    else code.removeAttribute("tabindex");
  }
}
