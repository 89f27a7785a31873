// A CUDA compiler in two parts: clang's front end, from npm, and LLVM's optimiser and NVPTX backend, from
// nvptx/build.py. In: options of the front end and a source. Out: PTX or the requested syntax tree, and clang's
// messages.

import { ptxOf } from "./nvptx.js";

/** As site/in_page/answering.py calls them. */
const BITCODE = "out.bc";
const PRECOMPILED = "headers.pch";

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

/** Takes bytes, in millions of small pieces. */
class Heard {
  text = "";
  #decoder = new TextDecoder();
  #bytes = new Uint8Array(1 << 16);
  #used = 0;

  add(bytes) {
    if (this.#used + bytes.length > this.#bytes.length) this.#decode();
    if (bytes.length > this.#bytes.length) this.text += this.#decoder.decode(bytes, { stream: true });
    else {
      this.#bytes.set(bytes, this.#used);
      this.#used += bytes.length;
    }
  }

  #decode() {
    this.text += this.#decoder.decode(this.#bytes.subarray(0, this.#used), { stream: true });
    this.#used = 0;
  }

  toString() {
    this.#decode();
    return this.text;
  }
}

/** @returns {[number, string, string]} an exit code, below 0 where clang broke off; what is made; what is said */
export function clang(runLLVM, backend, headers, options, source) {
  const [made, said] = [new Heard(), new Heard()];
  const hear = (heard) => (bytes) => bytes && heard.add(bytes);
  try {
    const files = { ...headers, "kernel.cu": source };
    const left = runLLVM(["clang", ...options], files, { stdout: hear(made), stderr: hear(said), synchronously: true, decodeASCII: false });
    if (left[PRECOMPILED]) headers[PRECOMPILED] = left[PRECOMPILED];
    return [0, left[BITCODE] ? ptxOf(backend, left[BITCODE]) : String(made), String(said)];
  } catch (error) {
    if (error.code === undefined) console.warn(error);
    return [error.code ?? -1, "", String(said)];
  }
}
