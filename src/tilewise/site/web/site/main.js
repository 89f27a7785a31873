// The site's own script: small parts, each called for every page, also under instant navigation.
// In: Material's document$ (or one ready document without it). Out: behaviour that pages lack without it; a page works
// without any of the parts. figures/main.js draws figures.

import { jumpWithin } from "./anchors.js";
import { showProvenance } from "./provenance.js";
import { loadFigures } from "./figures.js";
import { labelTabsForPrint } from "./tabs.js";
import { copyFormulas } from "./formulas.js";
import { askFirst } from "./guess.js";
import { fetchFolds, onMore } from "./later.js";
import { chooseMachine, showMachine } from "./machines.js";
import { pairLines } from "./pairs.js";
import "./palette.js";
import { markProgress } from "./progress.js";
import { placeNotes } from "./sidenotes.js";
import { revealTargets } from "./reveal.js";
import { scrollableRegions } from "./regions.js";
import { searchRows } from "./rows.js";
import { standBeside } from "./beside.js";
import { offerPuzzles } from "./solve.js";
import { takeSuggestions } from "./suggest.js";
import { sortableTables } from "./tables.js";
import { noteTerms } from "./terms.js";
import { offerRuns } from "./try.js";
import { openPlayground } from "./play.js";

/** What decides how the page looks at first or where it stands, and what answers the pointer. */
const atOnce = [
  fetchFolds,
  showProvenance,
  sortableTables,
  searchRows,
  jumpWithin,
  noteTerms,
  standBeside,
  askFirst,
  revealTargets,
  placeNotes,
  offerRuns,
  offerPuzzles,
  openPlayground,
];
/** What can wait: each a task of its own, so that none of them holds the page up. */
const soon = [
  loadFigures,
  copyFormulas,
  labelTabsForPrint,
  scrollableRegions,
  pairLines,
  markProgress,
  takeSuggestions,
];

let stop = new AbortController();
/** Start every part on the page shown now, and stop what the page before had started. */
function open() {
  stop.abort();
  stop = new AbortController();
  const article = document.querySelector(".md-content__inner");
  if (!article) return;
  showMachine(article);
  const { signal } = stop;
  for (const part of atOnce) part(article, signal);
  for (const part of soon) setTimeout(() => signal.aborted || part(article, signal));
}

chooseMachine(open);
onMore(open);
// The first page is opened in a task of its own, after the theme's.
let first = true;
function opened() {
  if (!first) return open();
  first = false;
  setTimeout(open);
}
if (window.document$) window.document$.subscribe(opened);
else if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", open);
else open();
