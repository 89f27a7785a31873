// The simulator in a single-file page: the worker's script, and machine.wasm, compressed.

export const held = (id) => document.getElementById(id).textContent;

/** @returns {Promise<{worker: string, wasm: ArrayBuffer}>} */
export async function heldParts() {
  const packed = Uint8Array.from(atob(held("tw-wasm")), (letter) => letter.charCodeAt(0));
  const wasm = await new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
  return { worker: `data:text/javascript;charset=utf-8,${encodeURIComponent(held("tw-worker"))}`, wasm }; // VS Code may forbid blob:
}
