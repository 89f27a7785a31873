// In: listings whose lines carry data-region, the name of the marked region they belong to. Out: pointing at or
// focusing a line lights up all lines of that region, in the pseudocode and in the kernel that goes with it.

export function pairLines(article, signal) {
  const lines = [...article.querySelectorAll("[data-region]")];
  if (!lines.length) return;
  const light = (name) => {
    for (const line of lines) line.classList.toggle("tw-paired", name !== null && line.dataset.region === name);
  };
  const follow = (event) => light(event.target.closest?.("[data-region]")?.dataset.region ?? null);
  article.addEventListener("pointerover", follow, { signal });
  article.addEventListener("focusin", follow, { signal });
}
