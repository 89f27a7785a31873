// Compiles in Node as the page's worker does. In: the addresses of @yowasp/clang, nvptx.wasm.gz and play/clang.js as
// arguments; on stdin a line of JSON with the headers by their paths, then a line of [options, source] for each text.
// Out: for each a line of [exit code, what is made, what is said].

import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { gunzipSync } from "node:zlib";

const [package_, packed, script] = process.argv.slice(2);
const [{ runLLVM }, { clang, treeOf }] = await Promise.all([import(package_), import(script)]);
const backend = await WebAssembly.compile(gunzipSync(readFileSync(new URL(packed))));
await runLLVM(null, {}, { fetchProgress() {} });
let tree = null;
for await (const line of createInterface({ input: process.stdin })) {
  const given = JSON.parse(line);
  if (!tree) tree = treeOf(given);
  else console.log(JSON.stringify(clang(runLLVM, backend, tree, ...given)));
}
