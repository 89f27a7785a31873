// A compiler of CUDA in two parts: clang's front end, from npm, and LLVM's optimiser and NVPTX backend, from nvptx/build.py.
// In: options of the front end and a source. Out: PTX, or the syntax tree where that is asked for, and what clang says.

import { ptxOf } from "./nvptx.js";

/** As site/in_page/answering.py calls it. */
const BITCODE = "out.bc";

/** Files by their paths, as nested folders. */
export function treeOf(texts) {
  const root = {};
  for (const [path, text] of Object.entries(texts)) {
    const parts = path.split("/").filter(Boolean);
    const name = parts.pop();
    parts.reduce((folder, part) => (folder[part] ??= {}), root)[name] = text;
  }
  return root;
}

/** @returns {[number, string, string]} an exit code, below 0 where clang broke off; what is made; what is said */
export function clang(runLLVM, backend, headers, options, source) {
  const decoders = { made: new TextDecoder(), said: new TextDecoder() };
  const heard = { made: "", said: "" };
  const hear = (name) => (bytes) => bytes && (heard[name] += decoders[name].decode(bytes, { stream: true }));
  try {
    const files = { ...headers, "kernel.cu": source };
    const left = runLLVM(["clang", ...options], files, { stdout: hear("made"), stderr: hear("said"), synchronously: true, decodeASCII: false });
    return [0, left[BITCODE] ? ptxOf(backend, left[BITCODE]) : heard.made, heard.said];
  } catch (error) {
    if (error.code === undefined) console.warn(error);
    return [error.code ?? -1, "", heard.said];
  }
}
