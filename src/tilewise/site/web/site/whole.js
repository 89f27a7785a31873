// In: a page of which a phone has laid out only what is near the screen (styles/frame.css). Out: the rest too, piece by piece
// while there is nothing else to do, so that every part stands in its place before the reader gets there. Browsers without
// idle time do it at once.

const LONGEST = 4; // milliseconds of one go: with its last part well below a task that holds a phone up

export function layOutRest(article, signal) {
  // no class on the root, for which a browser would style the whole page anew
  const done = () => {
    article.dataset.whole = "";
    article.dispatchEvent(new Event("tw-laid-out"));
  };
  if (document.documentElement.classList.contains("tw-whole")) return done();
  const rest = [...article.children];
  if (!window.requestIdleCallback || !window.matchMedia("(max-width: 44.9375em)").matches) {
    for (const part of rest) part.classList.add("tw-laid"); // also for a window that becomes narrow
    return done();
  }
  const some = () => {
    if (signal.aborted) return;
    const start = performance.now();
    while (rest.length && performance.now() - start < LONGEST) {
      const next = rest.shift();
      next.classList.add("tw-laid");
      next.getBoundingClientRect();
    }
    rest.length ? requestIdleCallback(some) : done();
  };
  requestIdleCallback(some);
}
