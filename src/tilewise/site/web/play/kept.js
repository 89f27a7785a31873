// The browser's cache, used once the reader has loaded the compiler: the compiler's large files, and pages with their
// resources. In: the list that site/in_page/files.py writes. Out: URLs, and the names of the two caches.

const COMPILER = "tilewise-compiler";
export const PAGES = "tilewise-pages";

/** Scripts are fetched by a browser itself, as a page is. */
const isScript = (name) => name.endsWith(".mjs");
export const scriptsOf = (list) => Object.keys(list).filter(isScript);

/** The large files, each with an address that its hash is a part of. @param {object} list @param {string} files their folder */
export const largeOf = (list, files) =>
  Object.entries(list)
    .filter(([name]) => !isScript(name))
    .map(([name, { sha256, bytes }]) => ({ name, sha256, bytes, address: new URL(`${name}?${sha256.slice(0, 16)}`, files).href }));

/** Whether an address is that of a large file. @param {URL} address */
export const isLarge = ({ pathname, search }) => search !== "" && pathname.includes("/compiler/");

/** What is kept of the compiler; null where the browser keeps nothing. */
export const keptCompiler = async () => (await globalThis.caches?.open(COMPILER).catch(() => null)) ?? null;

export const totalBytes = (large) => large.reduce((sum, { bytes }) => sum + bytes, 0);
