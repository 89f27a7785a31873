// Bundles the site's styles and scripts with esbuild, and subsets its fonts to the letters of English text.
// In: --modules (the folder with node_modules), --kinds (with a folder for each kind of figure), --generated (with
// theme.css, which has the colours; the simulator's layout.json, sentences.js and stepping.js; and judging.js of the
// puzzles), --out.
// Out: tilewise.css, tilewise.js, feedback.js, run.js, run_worker.js, compiler_worker.js, offline.js, play.js, edit.js,
// editor.js, solve.js, trace.js, figures.js, plotly.js and fonts/*.woff2 in --out, and a script for each kind that has
// a draw_on_demand.js. tilewise/site/frontend.py decides which folders to use and when to build.

import { existsSync, mkdirSync, readFileSync, readdirSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

const { values: given } = parseArgs({
  options: {
    modules: { type: "string" },
    kinds: { type: "string" },
    generated: { type: "string" },
    out: { type: "string" },
  },
});
const here = dirname(fileURLToPath(import.meta.url));
const modules = join(given.modules, "node_modules");
const required = createRequire(join(given.modules, "package.json"));
const esbuild = required("esbuild");
const subsetFont = required("subset-font");

const FONTS = {
  "text.woff2": "@fontsource/source-serif-4/files/source-serif-4-latin-400-normal.woff2",
  "text-italic.woff2": "@fontsource/source-serif-4/files/source-serif-4-latin-400-italic.woff2",
  "text-bold.woff2": "@fontsource/source-serif-4/files/source-serif-4-latin-600-normal.woff2",
  "code.woff2": "@fontsource/ibm-plex-mono/files/ibm-plex-mono-latin-400-normal.woff2",
};

const ASCII = Array.from({ length: 95 }, (_, at) => String.fromCharCode(32 + at)).join("");
/** What the fonts hold; a browser takes any other letter from the reader's own fonts. */
const LETTERS = `${ASCII}\u00a0“”‘’–—…·•×÷−±°µ√≤≥≈≠∞→←↩✓²³½§¶†‡äéöüß`;

const shared = {
  bundle: true,
  minify: true,
  target: ["chrome109", "firefox115", "safari16.4"],
  nodePaths: [modules],
  legalComments: "linked",
  logLevel: "warning",
};

const generated = (name, lines) => {
  const path = join(given.generated, name);
  writeFileSync(path, lines.join("\n"));
  return path;
};

/** The kinds of figures that have a file, each with the file's path as it stands in a script. */
const kindsWith = (file) =>
  readdirSync(given.kinds)
    .sort()
    .map((kind) => [kind, join(given.kinds, kind, file)])
    .filter(([, path]) => existsSync(path))
    .map(([kind, path]) => [kind, JSON.stringify(path)]);

const drawn = kindsWith("draw.js");
const later = kindsWith("draw_on_demand.js");
const simulator = {
  "tilewise-layout": join(given.generated, "layout.json"),
  "tilewise-sentences": join(given.generated, "sentences.js"),
  "tilewise-stepping": join(given.generated, "stepping.js"),
  "tilewise-judging": join(given.generated, "judging.js"),
};
const figures = {
  "tilewise-figures": join(here, "figures"),
  "tilewise-kinds": generated("kinds.js", [
    ...drawn.map(([kind, path]) => `import { mount as ${kind} } from ${path};`),
    `export const HERE = { ${drawn.map(([kind]) => kind)} };`,
    `export const ON_DEMAND = ${JSON.stringify(later.map(([kind]) => kind))};`,
  ]),
};

const scripts = {
  "tilewise.js": "site/main.js",
  "figures.js": "figures/main.js",
  "plotly.js": "figures/plotly.js",
  "run_worker.js": "run/worker.js",
  "compiler_worker.js": "play/compiler_worker.js",
  "offline.js": "play/offline.js",
  ...Object.fromEntries(
    later.map(([kind, path]) => [
      `${kind}.js`,
      generated(`${kind}.js`, [
        `import { mount } from ${path};`,
        `globalThis.TilewiseKinds = { ...globalThis.TilewiseKinds, ${kind}: mount };`,
      ]),
    ]),
  ),
};

/**
 * Modules: site/suggest.js imports one once somebody has something to say, site/try.js one once somebody touches a
 * kernel's sizes, site/play.js one on the Playground, site/solve.js one once somebody opens a puzzle; these two import
 * the editor. trace.js becomes a part of the pages that `tilewise trace` writes, notebook.js of the frames in a notebook.
 */
const onDemand = {
  "feedback.js": "feedback/dialog.js",
  "run.js": "run/main.js",
  "play.js": "play/main.js",
  "edit.js": "play/edit.js",
  "editor.js": "play/editor.js",
  "solve.js": "play/solve.js",
  "trace.js": "play/trace.js",
  "notebook.js": "play/notebook.js",
};

/** The licences of the packages in a bundle whose files do not hold them, beside it. */
const withLicences = (name, { inputs }) => {
  const packages = Object.keys(inputs).map((path) => /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1]);
  const texts = [...new Set(packages.filter(Boolean))].sort().map((one) => `${one}\n\n${readFileSync(join(modules, one, "LICENSE"), "utf8")}`);
  writeFileSync(join(given.out, `${name}.LEGAL.txt`), texts.join("\n\n"));
};

mkdirSync(join(given.out, "fonts"), { recursive: true });
const cut = async ([name, source]) => {
  const font = await subsetFont(readFileSync(join(modules, source)), LETTERS, { targetFormat: "woff2" });
  writeFileSync(join(given.out, "fonts", name), font);
};

await Promise.all([
  ...Object.entries(FONTS).map(cut),
  esbuild.build({
    ...shared,
    entryPoints: [join(here, "styles", "main.css")],
    outfile: join(given.out, "tilewise.css"),
    alias: {
      "tilewise-theme": join(given.generated, "theme.css"),
      "tilewise-kinds": generated("kinds.css", kindsWith("style.css").map(([, path]) => `@import ${path};`)),
    },
    external: ["fonts/*"],
  }),
  ...Object.entries(scripts).map(([name, source]) =>
    esbuild.build({
      ...shared,
      entryPoints: [resolve(here, source)],
      outfile: join(given.out, name),
      format: "iife",
      alias: { ...figures, ...simulator },
      define: { global: "globalThis" },
      loader: { ".css": "empty" }, // plotly.js brings styles of maps, which no page draws
    }),
  ),
  ...Object.entries(onDemand).map(([name, source]) =>
    esbuild.build({
      ...shared,
      entryPoints: [join(here, source)],
      outfile: join(given.out, name),
      format: "esm",
      alias: simulator,
      ...(name === "editor.js" && { metafile: true, banner: { js: `/* Licences: ${name}.LEGAL.txt */` } }),
    }).then(({ metafile }) => metafile && withLicences(name, metafile)),
  ),
]).catch((error) => {
  if (!error.errors) console.error(error); // esbuild has said what it found
  process.exit(1);
});
