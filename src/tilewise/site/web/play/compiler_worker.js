// The compiler in a worker: clang's front end, LLVM's NVPTX backend, and the course's Python, all as wasm.
// In: {files, list}, the URL of the compiler's files and their sizes and hashes; then {number, given}. Out:
// {loaded, of}, {ready}, or {failed}; then {number, made}, as in site/in_page/answering.py.

import { clang, treeOf } from "./clang.js";
import { keptCompiler, largeOf, totalBytes } from "./kept.js";

const COURSE = "/course";

let compile = null;

/** A file as its bytes, from the browser's cache, else from the host: what has another hash is refused. */
async function held({ address, sha256 }, loaded) {
  const kept = await keptCompiler();
  const found = await kept?.match(address);
  const answer = found ?? (await fetch(address));
  if (!answer.ok) throw new Error(`${address}: ${answer.status}`);
  const count = new TransformStream({
    transform(part, to) {
      if (!found) loaded(part.length);
      to.enqueue(part);
    },
  });
  const bytes = new Uint8Array(await new Response(answer.body.pipeThrough(count)).arrayBuffer());
  const hash = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  if (Array.from(hash, (one) => one.toString(16).padStart(2, "0")).join("") !== sha256) {
    await kept?.delete(address);
    throw new Error(`${address} is not the file that this page was made with`);
  }
  if (!found) await kept?.put(address, new Response(bytes)).catch(() => {}); // a full disk keeps nothing
  return bytes;
}

const unpacked = (bytes) => new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip")), { headers: { "Content-Type": "application/wasm" } });

/** Fetch all files, forget those of an earlier release, and start Python. */
async function begin(files, list) {
  const large = largeOf(list, files);
  const of = totalBytes(large);
  let loaded = 0;
  const count = (bytes) => postMessage({ loaded: (loaded += bytes), of });
  const bytes = Object.fromEntries(await Promise.all(large.map(async (one) => [one.name, await held(one, count)])));
  await forgetOthers(large.map(({ address }) => address));
  postMessage({ loaded: of, of });

  // Both packages fetch their own files; they get what is here, and nothing else.
  globalThis.fetch = async (asked) => {
    const name = new URL(asked.url ?? asked, files).pathname.split("/").pop();
    if (bytes[`${name}.gz`]) return unpacked(bytes[`${name}.gz`]);
    return bytes[name] ? new Response(bytes[name]) : new Response(new Uint8Array(1024)); // an empty archive of headers
  };
  const at = (name) => new URL(name, files).href;
  const [{ runLLVM }, { loadPyodide }, backend] = await Promise.all([
    import(at("clang.mjs")),
    import(at("pyodide.mjs")),
    WebAssembly.compileStreaming(unpacked(bytes["nvptx.wasm.gz"])),
  ]);
  const lock = new TextDecoder().decode(bytes["pyodide-lock.json"]);
  const [python] = await Promise.all([
    loadPyodide({ indexURL: files, lockFileContents: lock, packageBaseUrl: files }),
    runLLVM(null, {}, { fetchProgress() {} }),
  ]);
  python.unpackArchive(bytes["course.zip"], "zip", { extractDir: COURSE });
  for (const { name } of large) delete bytes[name];
  python.runPython(`import sys; sys.path.insert(0, "${COURSE}")`);
  const { begin: tell, answered, headers } = python.pyimport("tilewise.site.in_page.answering");
  const tree = treeOf(JSON.parse(headers()));
  tell((options, source) => clang(runLLVM, backend, tree, JSON.parse(options), source));
  return (given) => answered(JSON.stringify(given));
}

async function forgetOthers(addresses) {
  const kept = await keptCompiler();
  for (const { url } of (await kept?.keys()) ?? []) {
    if (!addresses.includes(url)) await kept.delete(url);
  }
}

onmessage = async ({ data }) => {
  if (data.list) {
    compile = begin(data.files, data.list);
    compile.then(
      () => postMessage({ ready: true }),
      (error) => postMessage({ failed: String(error) }),
    );
    return;
  }
  postMessage({ number: data.number, made: JSON.parse((await compile)(data.given)) });
};
