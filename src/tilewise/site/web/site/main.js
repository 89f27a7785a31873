// The site's own script: small parts, each told about every page, also under instant navigation.
// In: Material's document$ (or one ready document without it). Out: behaviour that pages lack without it;
// every part leaves a page that works when it does not run. Figures are left to figures/main.js.

import { jumpWithin } from "./anchors.js";
import { showProvenance } from "./provenance.js";
import { loadFigures } from "./figures.js";
import { labelTabsForPrint } from "./tabs.js";
import { copyFormulas } from "./formulas.js";
import { askFirst } from "./guess.js";
import { chooseMachine, showMachine } from "./machines.js";
import { pairLines } from "./pairs.js";
import "./palette.js";
import { markProgress } from "./progress.js";
import { placeNotes } from "./sidenotes.js";
import { revealTargets } from "./reveal.js";
import { scrollableRegions } from "./regions.js";
import { standBeside } from "./beside.js";
import { takeSuggestions } from "./suggest.js";
import { sortableTables } from "./tables.js";
import { noteTerms } from "./terms.js";

const parts = [
  showProvenance,
  sortableTables,
  jumpWithin,
  noteTerms,
  copyFormulas,
  loadFigures,
  labelTabsForPrint,
  standBeside,
  askFirst,
  scrollableRegions,
  revealTargets,
  placeNotes,
  pairLines,
  markProgress,
  takeSuggestions,
];

/** Start every part on the page shown now, and stop what the page before had started. */
let stop = new AbortController();
function open() {
  stop.abort();
  stop = new AbortController();
  const article = document.querySelector(".md-content__inner");
  if (!article) return;
  showMachine(article);
  for (const part of parts) part(article, stop.signal);
}

chooseMachine(open);
if (window.document$) window.document$.subscribe(open);
else if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", open);
else open();
