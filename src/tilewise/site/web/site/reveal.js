// In: a link or a URL that points inside a fold. Out: opens every fold around the target, shows its tab, and scrolls
// there. Folds also open for print, and return to their previous state afterwards.

import { showTabOf } from "./tabs.js";

/** The address that was shown last: more of a page may be fetched, which does not open what was closed since. */
let shown = "";

export function revealTargets(article, signal) {
  const show = (hash) => {
    const id = decodeURIComponent(hash.slice(1));
    const target = id && document.getElementById(id);
    if (target && article.contains(target)) reveal(target);
  };
  window.addEventListener("hashchange", () => show(location.hash), { signal });
  article.addEventListener(
    "click",
    (event) => {
      const link = event.target.closest?.("a[href*='#']");
      if (link && link.pathname === location.pathname && link.host === location.host) show(link.hash);
    },
    { signal },
  );
  if (location.hash && location.href !== shown) show(location.hash);
  shown = location.href;

  let opened = [];
  window.addEventListener(
    "beforeprint",
    () => {
      opened = [...article.querySelectorAll("details:not([open])")];
      for (const fold of opened) fold.open = true;
    },
    { signal },
  );
  const close = () => opened.splice(0).forEach((fold) => (fold.open = false));
  window.addEventListener("afterprint", close, { signal });
}

/** Open what hides `target` and bring it into view; do nothing where it is visible already. */
export function reveal(target) {
  let hidden = false;
  for (let fold = target.closest("details"); fold; fold = fold.parentElement.closest("details")) {
    if (!fold.open && target.closest("summary")?.parentElement !== fold) {
      fold.open = true;
      hidden = true;
    }
  }
  if (!hidden && target.offsetParent !== null) return;
  showTabOf(target);
  requestAnimationFrame(() => target.scrollIntoView());
}
