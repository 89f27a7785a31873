// In: listings with data-regions, "name:first-last" by line number, as page.py writes them. Out: pointing at a line
// of a region lights up every line of the regions of that name, in the pseudocode and in the kernel beside it.

export function pairLines(article, signal) {
  const lines = [];
  for (const listing of article.querySelectorAll("[data-regions]")) {
    for (const [name, first, last] of regionsOf(listing.dataset.regions)) {
      for (const line of listing.querySelectorAll('span[id^="__span-"]')) {
        const number = Number(line.id.split("-").pop());
        if (number >= first && number <= last) {
          line.dataset.pair = `${line.dataset.pair ?? ""} ${name} `;
          lines.push(line);
        }
      }
    }
  }
  if (!lines.length) return;

  const follow = (event) => {
    const names = event.target.closest?.("[data-pair]")?.dataset.pair.split(" ").filter(Boolean) ?? [];
    const name = names.at(-1);
    for (const line of lines) line.classList.toggle("tw-paired", Boolean(name) && line.dataset.pair.includes(` ${name} `));
  };
  article.addEventListener("pointerover", follow, { signal });
  article.addEventListener("pointerdown", follow, { signal });
}

/** "load:3-5 store:9-9" as [["load", 3, 5], ["store", 9, 9]]. */
function regionsOf(text) {
  return [...text.matchAll(/([\w-]+):(\d+)-(\d+)/g)].map(([, name, first, last]) => [name, Number(first), Number(last)]);
}
