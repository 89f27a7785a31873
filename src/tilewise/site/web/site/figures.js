// In: placeholders of figures. Out: the figures' script, fetched once, when one is about a screen away. That script
// decides what to draw, on later pages too.

const home = document.currentScript?.src ?? document.baseURI;
let asked = false;

export function loadFigures(article, signal) {
  if (asked) return;
  const near = new IntersectionObserver(
    (entries) => {
      if (asked || !entries.some((entry) => entry.isIntersecting)) return;
      asked = true;
      near.disconnect();
      const script = document.createElement("script");
      script.src = new URL("figures.js", home);
      script.addEventListener("error", () => (asked = false));
      document.head.append(script);
    },
    { rootMargin: "1000px 0px" },
  );
  for (const place of article.querySelectorAll(".tw-figure[data-figure]")) near.observe(place);
  signal.addEventListener("abort", () => near.disconnect());
}
