// In: sets of content tabs that begin with a kernel in CUDA C and its pseudocode. Out: if the page is wide enough for
// the longest lines of both, the two are side by side until a third tab is selected; otherwise they stay tabs. The
// second's name is above it if the names of further tabs fit behind it, otherwise behind the first's.

const wide = window.matchMedia("(min-width: 76.25em)");
/** Between the two, in px. */
const GAP = 16;
/** Around a line of code, in widths of a character: padding and line numbers. */
const AROUND = 9;

export function standBeside(article, signal) {
  const sets = [...article.querySelectorAll(":scope > .tabbed-set")].filter((set) => {
    const [first, second] = set.querySelectorAll(":scope > .tabbed-labels > label");
    return first?.textContent.trim() === "CUDA C" && second?.textContent.trim() === "Pseudocode";
  });
  if (!sets.length) return;
  let widths, names;
  const place = () => {
    if (!wide.matches) return sets.forEach((set) => set.classList.remove("tw-two-up"));
    widths ??= new Map(sets.map((set) => [set, [...set.querySelectorAll(":scope > .tabbed-content > *")].map(longest)]));
    names ??= new Map(sets.map((set) => [set, [...set.querySelectorAll(":scope > .tabbed-labels > label")].slice(1)]));
    const room = article.clientWidth;
    const character = characterWidth(article);
    for (const set of sets) {
      const [first, second] = widths.get(set).map((count) => Math.ceil((count + AROUND) * character));
      const [one, other] = set.querySelectorAll(":scope > input");
      const fits = widths.get(set).slice(0, 2).every(Boolean) && first + second + GAP <= room;
      const behind = names.get(set).reduce((sum, name) => sum + name.offsetWidth, 0);
      const above = first + behind + GAP <= room;
      set.classList.toggle("tw-two-up", Boolean(fits && (one.checked || other.checked)));
      set.classList.toggle("tw-name-above", above);
      set.style.setProperty("--tw-first", `${first}px`);
      set.style.setProperty("--tw-second", `${above ? Math.max(second, behind) : second}px`);
    }
  };
  let width = 0;
  const sizes = new ResizeObserver(() => {
    if (article.clientWidth === width) return;
    width = article.clientWidth;
    place();
  });
  sizes.observe(article);
  article.addEventListener("change", (event) => event.target.closest(".tabbed-set") && place(), { signal });
  document.fonts?.ready.then(place);
  signal.addEventListener("abort", () => sizes.disconnect());
}

/** How many characters the longest line of a tab's code has; 0 where there is none to be seen. */
function longest(block) {
  const codes = [...block.querySelectorAll("pre > code")].filter((code) => !code.closest("details"));
  return Math.max(0, ...codes.flatMap((code) => code.textContent.split("\n").map((line) => line.length)));
}

function characterWidth(article) {
  const { fontSize, fontFamily } = getComputedStyle(article.querySelector("pre > code"));
  const pen = document.createElement("canvas").getContext("2d");
  pen.font = `${fontSize} ${fontFamily}`;
  return pen.measureText("0".repeat(100)).width / 100;
}
