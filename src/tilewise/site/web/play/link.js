// A Playground's state in a URL: compressed, in the fragment after #, which no browser sends to a server.

const MARK = "#code=";
const MOST_LETTERS = 400_000;
/** Addresses from here on are cut by some programs that carry them. */
export const LONG_ADDRESS = 30_000;

/** @param {object} state */
export async function written(state) {
  const bytes = await through(new Blob([JSON.stringify(state)]).stream(), new CompressionStream("deflate-raw"));
  let text = "";
  for (const byte of bytes) text += String.fromCharCode(byte);
  return MARK + btoa(text).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

/** The state that an address holds; null where it holds none that can be read. @param {string} hash */
export async function read(hash) {
  if (!hash.startsWith(MARK)) return null;
  try {
    const packed = atob(hash.slice(MARK.length).replaceAll("-", "+").replaceAll("_", "/"));
    const bytes = Uint8Array.from(packed, (letter) => letter.charCodeAt(0));
    const state = JSON.parse(new TextDecoder().decode(await through(new Blob([bytes]).stream(), new DecompressionStream("deflate-raw"))));
    return typeof state?.text === "string" ? state : null;
  } catch {
    return null;
  }
}

async function through(stream, change) {
  const reader = stream.pipeThrough(change).getReader();
  const parts = [];
  let length = 0;
  for (;;) {
    const { done, value } = await reader.read();
    if (done) break;
    length += value.length;
    if (length > MOST_LETTERS) throw new RangeError("too long");
    parts.push(value);
  }
  const all = new Uint8Array(length);
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}
