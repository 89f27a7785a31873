// Leaves out style rules that nothing on the site can meet.
// In: on stdin {"css": text, "words": every word of every page and script}; --modules. Out: the rest.
// Which styles may be thinned is left to tilewise/site/publishing.py.

import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { parseArgs } from "node:util";

const { values: given } = parseArgs({ options: { modules: { type: "string" } } });
const { PurgeCSS } = createRequire(join(given.modules, "package.json"))("purgecss");
const { css, words } = JSON.parse(readFileSync(0, "utf8"));

const [result] = await new PurgeCSS().purge({
  content: [{ raw: words.join(" "), extension: "html" }],
  css: [{ raw: css }],
  defaultExtractor: (text) => text.split(" "),
});
process.stdout.write(result.css);
