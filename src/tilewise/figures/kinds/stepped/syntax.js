// Syntax highlighting for a few lines of CUDA C or Python, with the site's classes.
// In: a source. Out: its lines as HTML; the text is unchanged.

import { escaped } from "tilewise-figures/dom.js";

const C_WORDS =
  "auto bool break case char const constexpr continue default do double else enum extern false float for goto half if " +
  "inline int long namespace nullptr return short signed sizeof static struct switch template true typedef typename " +
  "union unsigned using void volatile while uint8_t int8_t uint16_t int16_t uint32_t int32_t uint64_t int64_t size_t " +
  "float2 float4 int2 int4 half2 __restrict__ __global__ __device__ __shared__ __constant__ __launch_bounds__";
const PYTHON_WORDS =
  "and as assert break class continue def del elif else except False finally for from if import in is lambda None " +
  "nonlocal not or pass raise return True try while with yield";
const C_GIVEN = "threadIdx blockIdx blockDim gridDim warpSize __syncthreads __syncwarp";

const LANGUAGES = {
  cuda: language(/\/\/[^\n]*|\/\*[\s\S]*?\*\//, /^[ \t]*#[^\n]*/, C_WORDS, C_GIVEN),
  python: language(/#[^\n]*/, /(?!)/, PYTHON_WORDS, "range len min max sum abs enumerate zip"),
};

/** @param {string} source @param {string} name @returns {string[]} */
export function colouredLines(source, name) {
  const { pattern, words, given } = LANGUAGES[name] || LANGUAGES.cuda;
  let made = "";
  let last = 0;
  for (const found of source.matchAll(pattern)) {
    made += escaped(source.slice(last, found.index));
    last = found.index + found[0].length;
    const { comment, directive, text, number, word } = found.groups;
    const kind =
      (comment && "c1") ||
      (directive && "cp") ||
      (text && "s") ||
      (number && "mi") ||
      (words.has(word) && "k") ||
      (given.has(word) && "nb");
    made += kind ? spans(found[0], kind) : escaped(found[0]);
  }
  return (made + escaped(source.slice(last))).split("\n");
}

/** A span a line, so that lines can stand apart. */
function spans(text, kind) {
  return text.split("\n").map((part) => (part ? `<span class="${kind}">${escaped(part)}</span>` : "")).join("\n");
}

function language(comment, directive, words, given) {
  const parts = [
    `(?<comment>${comment.source})`,
    `(?<directive>${directive.source})`,
    '(?<text>"(?:[^"\\\\\\n]|\\\\.)*"|\'(?:[^\'\\\\\\n]|\\\\.)*\')',
    "(?<number>\\b(?:0[xX][\\da-fA-F]+|\\d+\\.?\\d*(?:[eE][-+]?\\d+)?)[fFuUlL]*)",
    "(?<word>[A-Za-z_]\\w*)",
  ];
  return {
    pattern: new RegExp(parts.join("|"), "gm"),
    words: new Set(words.split(" ")),
    given: new Set(given.split(" ")),
  };
}
