// In: a range of a page. Out: its position: the heading above it, and the line of the lesson's file. Lines come from
// data-line, which page.py gives to paragraphs and listings.

/** @returns {{quote: string, heading: string, anchor: string, line: number}} */
export function placeOf(article, range) {
  let node = range.startContainer;
  if (node.nodeType !== Node.ELEMENT_NODE) node = node.parentElement;
  const note = node.closest(".footnote li[id]");
  if (note) node = article.querySelector(`a.footnote-ref[href$="#${CSS.escape(note.id)}"]`) ?? node;
  const heading = before(article, "h1, h2, h3, h4", node);
  return {
    quote: textOf(range).trim(),
    heading: heading ? wordsOf(heading) : "",
    anchor: heading?.id ?? "",
    line: lineOf(article, node),
  };
}

/** The words of a heading without its permanent link. */
export function wordsOf(heading) {
  return [...heading.childNodes]
    .filter((part) => !part.classList?.contains("headerlink"))
    .map((part) => part.textContent)
    .join("")
    .trim();
}

/** What is selected, formulas as TeX where there are any. */
export function textOf(range) {
  const copied = range.cloneContents();
  const formulas = copied.querySelectorAll(".tw-math[data-tex]");
  for (const formula of formulas) {
    const sign = formula.tagName === "DIV" ? "$$" : "$";
    formula.replaceWith(`${sign}${formula.dataset.tex}${sign}`);
  }
  for (const mark of copied.querySelectorAll(".headerlink, .footnote-ref, .tw-done-word")) mark.remove();
  if (!formulas.length) return String(getSelection()).replaceAll("¶", "");
  const texts = document.createTreeWalker(copied, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const text = texts.currentNode;
    if (!text.parentElement?.closest("pre")) text.data = text.data.replace(/\s+/g, " ");
  }
  for (const block of copied.querySelectorAll("p, li, h2, h3, h4, tr")) block.append("\n");
  return copied.textContent;
}

function lineOf(article, node) {
  const around = node.closest("[data-line]") ?? before(article, "[data-line]", node);
  if (!around) return 0;
  const first = Number(around.dataset.line);
  const span = around.contains(node) ? node.closest('span[id^="__span-"]') : null;
  if (!span) return first;
  let line = Number(span.id.split("-").pop());
  for (const dropped of around.dataset.dropped?.split(" ") ?? []) if (Number(dropped) <= line) line += 1;
  return first + line - 1;
}

function before(article, selector, node) {
  let found = null;
  for (const each of article.querySelectorAll(selector)) {
    if (each !== node && !(each.compareDocumentPosition(node) & Node.DOCUMENT_POSITION_FOLLOWING)) break;
    found = each;
  }
  return found;
}
