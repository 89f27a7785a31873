// In: the page's theme, and the reader's switch. Out: what the browser draws itself, such as scroll bars, in the same
// theme; and colours that change at once, instead of fading one after the other. Material does both on every page load
// and restyles the whole page; this script does it only when the theme changes.

const still = new CSSStyleSheet();
still.replaceSync("*, ::before, ::after { transition-duration: 0s !important; }");

const tell = () => {
  const isDark = document.body.dataset.mdColorScheme === "slate";
  document.documentElement.style.colorScheme = isDark ? "dark" : "";
};

document.addEventListener(
  "change",
  (event) => {
    if (!event.target.closest?.("[data-md-component=palette]")) return;
    document.adoptedStyleSheets = [...document.adoptedStyleSheets, still];
    requestAnimationFrame(() =>
      requestAnimationFrame(() => {
        document.adoptedStyleSheets = document.adoptedStyleSheets.filter((sheet) => sheet !== still);
      }),
    );
  },
  { capture: true },
);
new MutationObserver(tell).observe(document.body, { attributeFilter: ["data-md-color-scheme"] });
tell();
