// In: kernels that a reader may run, `.tw-try`. Out: run.js, fetched when one of them is first touched, or when the
// page's address asks for a run.

const home = document.currentScript?.src ?? document.baseURI;

export function offerRuns(article, signal) {
  for (const root of article.querySelectorAll(".tw-try")) {
    let asked = false;
    const begin = async () => {
      if (asked) return;
      asked = true;
      try {
        (await import(new URL("run.js", home).href)).mount(root, signal);
      } catch {
        asked = false; // touched again, it is fetched again
      }
    };
    const form = root.querySelector("form");
    for (const kind of ["pointerdown", "focusin", "input"]) form.addEventListener(kind, begin, { signal });
    const asks = new URLSearchParams(location.search);
    if (asks.has(root.id) || asks.has(`${root.id}-steps`)) begin();
  }
}
