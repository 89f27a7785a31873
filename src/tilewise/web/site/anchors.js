// In: links to a place on the page that is shown. Out: the browser's own jump. Material's instant navigation
// takes the first address that it is told of for a new page, fetches the page again and closes what the reader
// had opened; a jump within the page, and the way back from one, are therefore kept from it.

let shown = location.pathname;

window.addEventListener(
  "popstate",
  (event) => {
    if (location.pathname !== shown) return;
    event.stopImmediatePropagation();
    if (history.scrollRestoration === "auto") return;
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (event.state && Number.isFinite(event.state.y)) window.scrollTo({ top: event.state.y, behavior: "instant" });
    else if (target) target.scrollIntoView();
    else window.scrollTo({ top: 0, behavior: "instant" });
  },
  { capture: true },
);

export function jumpWithin(article, signal) {
  shown = location.pathname;
  for (const part of document.querySelectorAll("[data-md-component=container], [data-md-component=skip]")) {
    part.addEventListener(
      "click",
      (event) => {
        const link = event.target.closest?.("a[href*='#']");
        if (!link || link.target || event.defaultPrevented || event.ctrlKey || event.metaKey || event.shiftKey) return;
        if (link.host === location.host && link.pathname === location.pathname) event.stopPropagation();
      },
      { signal },
    );
  }
}
