// In: links to a place on the page that is shown. Out: the browser's own jump, with the page as the reader
// has set it. Material's instant navigation takes the first address it is told of for that of a new page,
// fetches the page again and closes what the reader had opened. So it is told of this page's own address
// beforehand, while nothing can be fetched, and clicks that stay on the page are kept from it.

const { prototype } = XMLHttpRequest;
const { send } = prototype;
prototype.send = () => undefined;
window.dispatchEvent(new PopStateEvent("popstate"));
prototype.send = send;

let shown = location.pathname;

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
