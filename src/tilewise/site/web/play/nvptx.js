// LLVM's optimiser and NVPTX backend as wasm (nvptx/nvptx.cpp). In: bitcode. Out: PTX. It has no access to the system:
// no files, no clock, no random numbers.

const NOT_THERE = 52;

/** @param {WebAssembly.Module} module @param {Uint8Array} bitcode @returns {string} */
export function ptxOf(module, bitcode) {
  let said = "";
  const view = () => new DataView(out.memory.buffer);
  const text = (at, length) => new TextDecoder().decode(new Uint8Array(out.memory.buffer, at, length));
  const calls = {
    fd_write(_, parts, count, written) {
      let total = 0;
      for (let at = parts; at < parts + 8 * count; at += 8) {
        const length = view().getUint32(at + 4, true);
        said += text(view().getUint32(at, true), length);
        total += length;
      }
      view().setUint32(written, total, true);
      return 0;
    },
    environ_sizes_get(count, size) {
      view().setUint32(count, 0, true);
      view().setUint32(size, 0, true);
      return 0;
    },
    environ_get: () => 0,
    clock_time_get(_id, _precision, at) {
      view().setBigUint64(at, 0n, true);
      return 0;
    },
    random_get(at, length) {
      new Uint8Array(out.memory.buffer, at, length).fill(0);
      return 0;
    },
    proc_exit(code) {
      throw new Error(`LLVM ended with ${code}: ${said}`);
    },
  };
  const named = WebAssembly.Module.imports(module).map(({ name }) => [name, calls[name] ?? (() => NOT_THERE)]);
  const out = new WebAssembly.Instance(module, { wasi_snapshot_preview1: Object.fromEntries(named) }).exports;
  out._initialize();
  const at = out.reserve(bitcode.length);
  new Uint8Array(out.memory.buffer, at, bitcode.length).set(bitcode);
  if (!out.compile(at, bitcode.length)) throw new Error(`LLVM cannot read the bitcode: ${said}`);
  return text(out.made(), out.length());
}
