// In: a page, a position in it, the reader's text. Out: the text of a suggestion and the URL of a new issue with
// that text, truncated to what servers accept. Pure: shows, stores and sends nothing.

const LONGEST_ADDRESS = 7500;
const LONGEST_QUOTE = 1200;
const LONE = /[\uD800-\uDBFF](?![\uDC00-\uDFFF])|(?<![\uD800-\uDBFF])[\uDC00-\uDFFF]/g;
const CUT = "\n\n(The rest did not fit into a link. It was copied to the clipboard: paste it here.)";

/** @returns {{title: string, body: string}} what an issue says, in Markdown that reads as plain text */
export function message(page, draft, longestQuote = Infinity) {
  const { place } = draft;
  const words = whole(draft.text).trim();
  const start = words.split("\n", 1)[0];
  const heading = place.heading && place.heading !== page.title ? `, “${whole(place.heading)}”` : "";
  const facts = [
    `Page: ${whole(page.title)}${heading}`,
    `Address: ${page.address}${place.anchor ? `#${place.anchor}` : ""}`,
    `Source: ${page.source}${place.line ? `, line ${place.line}` : ""}`,
  ];
  const quote = shortened(whole(place.quote).trim(), longestQuote);
  const parts = [facts.map((fact) => `- ${fact}`).join("\n")];
  if (quote) parts.push(fenced(quote));
  if (words) parts.push(words);
  const title = shortened(`${whole(page.title)}: ${start || "a suggestion"}`, 90);
  return { title, body: parts.join("\n\n") };
}

/** @returns {{href: string, cut: boolean} | null} null where no repository can be written to by an address */
export function issue(page, draft) {
  const form = formOf(page.repository);
  if (!form) return null;
  const at = ({ title, body }) =>
    `${form.address}?${form.title}=${encode(title)}&${form.body}=${encode(body)}`;
  const full = at(message(page, draft));
  if (full.length <= LONGEST_ADDRESS) return { href: full, cut: false };
  const words = [...whole(draft.text)];
  const upTo = (count) => {
    const text = words.slice(0, count).join("") + CUT;
    return at(message(page, { ...draft, text }, LONGEST_QUOTE / 2));
  };
  let [fits, tooMany] = [0, words.length + 1];
  while (tooMany - fits > 1) {
    const middle = (fits + tooMany) >> 1;
    if (upTo(middle).length <= LONGEST_ADDRESS) fits = middle;
    else tooMany = middle;
  }
  return { href: upTo(fits), cut: true };
}

/** Where a host of repositories takes a new issue, and what it calls title and text. */
function formOf(repository) {
  let url;
  try {
    url = new URL(repository);
  } catch {
    return null;
  }
  if (!["https:", "http:"].includes(url.protocol)) return null;
  const base = url.origin + url.pathname.replace(/\/+$|\.git\/*$/, "");
  if (url.hostname.includes("gitlab")) {
    return { address: `${base}/-/issues/new`, title: "issue%5Btitle%5D", body: "issue%5Bdescription%5D" };
  }
  return { address: `${base}/issues/new`, title: "title", body: "body" };
}

/** A fence that nothing in the text can close, so that the quote stays text in the issue too. */
function fenced(text) {
  const longest = Math.max(2, ...[...text.matchAll(/`+/g)].map(([run]) => run.length));
  const fence = "`".repeat(longest + 1);
  return `${fence}text\n${text}\n${fence}`;
}

function shortened(text, longest) {
  const letters = [...text];
  return letters.length <= longest ? text : `${letters.slice(0, longest - 1).join("")}…`;
}

/** Half a surrogate pair is no character, and no address can hold one. */
function whole(text) {
  return text.replace(LONE, "\uFFFD");
}

function encode(text) {
  return encodeURIComponent(text).replaceAll("%20", "+");
}
