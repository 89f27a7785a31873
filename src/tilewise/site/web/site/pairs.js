// In: listings with data-regions, "name:first-last" by line number, as page.py writes them. Out: pointing at a line of
// a region, or reaching it by keyboard, highlights the lines of that name in the pseudocode and in the kernel next to
// it. They stay highlighted, so that the other tab shows them; Enter, or the button there, switches to it.

import { element } from "./dom.js";
import { showTabOf } from "./tabs.js";

export function pairLines(article, signal) {
  for (const set of article.querySelectorAll(".tabbed-set")) {
    const regions = [...set.querySelectorAll("[data-regions]")].flatMap(regionsOf);
    const names = new Set(regions.map((region) => region.name));
    for (const name of names) {
      const own = regions.filter((region) => region.name === name);
      const alone = own.every((region) => region.tab === own[0].tab); // though in two listings, perhaps
      if (alone) for (const region of own) regions.splice(regions.indexOf(region), 1);
    }
    if (regions.length) pairSet(set, regions, signal);
  }
}

/** The regions of a listing: name, its lines from first to last, the tab that it stands in. */
function regionsOf(listing) {
  const lines = [...listing.querySelectorAll('span[id^="__span-"]')];
  const number = (line) => Number(line.id.split("-").pop());
  return [...listing.dataset.regions.matchAll(/([\w-]+):(\d+)-(\d+)/g)].map(([, name, first, last]) => ({
    name,
    listing,
    tab: listing.closest(".tabbed-block"),
    lines: lines.filter((line) => number(line) >= Number(first) && number(line) <= Number(last)),
  }));
}

function pairSet(set, regions, signal) {
  const labels = [...set.querySelectorAll(":scope > .tabbed-labels > label")];
  const nameOf = (tab) => labels[[...tab.parentElement.children].indexOf(tab)]?.textContent.trim() ?? "";
  const turn = element("button", { type: "button", class: "tw-turn", tabindex: -1, hidden: true });
  let lit = "";
  let shown = null;

  const other = (region) => regions.find((each) => each.name === region.name && each.tab !== region.tab);
  const at = (node) => {
    const inside = regions.filter((region) => region.lines.some((line) => line.contains(node)));
    return inside.sort((a, b) => a.lines.length - b.lines.length)[0];
  };
  const light = (region) => {
    if (region?.name === lit && region?.tab === shown?.tab) return;
    lit = region?.name ?? "";
    shown = region ?? null;
    const chosen = new Set(regions.filter((each) => each.name === lit).flatMap((each) => each.lines));
    const all = regions.flatMap((each) => each.lines);
    for (const line of all) line.classList.toggle("tw-paired", chosen.has(line));
    const partner = region && other(region);
    turn.hidden = !partner;
    if (!partner) return;
    turn.textContent = `Same lines in ${nameOf(partner.tab)}`;
    region.listing.append(turn);
    const [line, box] = [region.lines[0], region.listing].map((each) => each.getBoundingClientRect());
    turn.style.top = `${line.top - box.top}px`;
  };
  const follow = (region) => {
    const partner = region && other(region);
    if (!partner) return;
    showTabOf(partner.lines[0]);
    light(partner);
    partner.lines[0].focus({ preventScroll: true });
    partner.lines[0].scrollIntoView({ block: "nearest" });
  };

  for (const region of regions) {
    const [first] = region.lines;
    first.tabIndex = 0;
    const there = nameOf(other(region).tab);
    first.setAttribute("aria-description", `${region.name}; Enter shows the same lines in ${there}`);
  }
  turn.addEventListener("click", () => follow(shown));
  const listen = (kind, handle) => set.addEventListener(kind, handle, { signal });
  // Not pointerover: that comes also where the page moves below a pointer at rest.
  listen("pointermove", (event) => {
    const region = at(event.target);
    if (region) light(region);
  });
  listen("pointerdown", (event) => {
    if (event.target !== turn && event.target.closest("[data-regions]")) light(at(event.target));
  });
  listen("focusin", (event) => {
    const region = at(event.target);
    if (region) light(region);
  });
  listen("keydown", (event) => {
    if (event.key === "Escape") light(null);
    else if (event.key === "Enter" && event.target.matches(".highlight [tabindex]")) follow(at(event.target));
  });
  set.addEventListener("change", () => {
    const now = regions.find((region) => region.name === lit && region.tab.offsetParent);
    if (now) light(now);
  }, { signal });
  signal.addEventListener("abort", () => turn.remove());
}
