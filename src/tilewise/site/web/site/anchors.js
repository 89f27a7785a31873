// In: links to a position on the current page. Out: the browser's own jump, with the page as the reader has set it.
// Material's instant navigation takes the first URL that it receives for that of a new page, fetches the page again
// and closes what the reader had opened. So it receives this page's own URL first, while nothing can be fetched, and
// doesn't get clicks that stay on the page.

const { prototype } = XMLHttpRequest;
const { send } = prototype;
prototype.send = () => undefined;
window.dispatchEvent(new PopStateEvent("popstate"));
prototype.send = send;

let shown = location.pathname;

// Material notes how far a page is scrolled 100 ms after the reader has scrolled. If a link is followed
// before that, the note would be made for the next page, which would then open as far down.
const { pushState, replaceState } = history;
let leaving = false;
history.pushState = (state, unused, url) => {
  leaving = new URL(url ?? "", location.href).pathname !== location.pathname;
  pushState.call(history, state, unused, url);
};
history.replaceState = (state, ...rest) => {
  if (!leaving || !Number.isFinite(state?.y)) replaceState.call(history, state, ...rest);
};

// The way back within the page: Material leaves it alone until it has brought in a page itself.
window.addEventListener("popstate", (event) => {
  if (location.pathname !== shown) return;
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const top = event.state?.y;
  if (target && !Number.isFinite(top)) target.scrollIntoView();
  else window.scrollTo({ top: top ?? 0, behavior: "instant" });
});

export function jumpWithin(article, signal) {
  shown = location.pathname;
  leaving = false;
  for (const part of document.querySelectorAll("[data-md-component=container], [data-md-component=skip]")) {
    part.addEventListener(
      "click",
      (event) => {
        const link = event.target.closest?.("a[href*='#']");
        if (!link || link.target || event.ctrlKey || event.metaKey || event.shiftKey) return;
        if (link.host === location.host && link.pathname === location.pathname) event.stopPropagation();
      },
      { signal },
    );
  }
}
