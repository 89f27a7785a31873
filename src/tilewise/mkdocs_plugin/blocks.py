"""What differs between two states of a page, block by block, so that a save sends a paragraph and not a page.

In: the HTML of two pages. Out: which elements at the top of the article to replace by which HTML, unless
they differ elsewhere, too. What a browser does with it is in ``live.js``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

_ATTRIBUTES = r"[^>\"']*(?:(?:\"[^\"]*\"|'[^']*')[^>\"']*)*"
_TOKEN = re.compile(
    rf"<!--.*?-->|<(?P<text>pre|script|style|textarea)\b{_ATTRIBUTES}>.*?</(?P=text)\s*>"
    rf"|<(?P<leaf>span|a|td|th|code|em|strong|li)\b{_ATTRIBUTES}>[^<]*</(?P=leaf)>"
    rf"|<(?P<end>/?)(?P<name>[a-zA-Z][\w-]*){_ATTRIBUTES}>",
    re.DOTALL,
)
_VOID = frozenset(
    ["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "source", "track", "wbr"]
)
_ARTICLE = re.compile(r"<article\b[^>]*>")
_LINE = re.compile(r' data-line="\d+"')


@dataclass(frozen=True)
class Article:
    """A page cut into the elements at the top level of its article."""

    frame: str
    """The page without what is in its article."""
    blocks: tuple[str, ...]
    """The HTML of each element, with the text behind it."""

    @staticmethod
    def of(html: str) -> Article:
        """Cut a page; one without an article is all frame."""
        opening = _ARTICLE.search(html)
        closing = html.rfind("</article>")
        if opening is None or closing < opening.end():
            return Article(html, ())
        return Article(html[: opening.end()] + html[closing:], _blocks(html[opening.end() : closing]))

    def changes_to(self, other: Article) -> dict[str, Any] | None:
        """How to make another state of the page of this one.

        Returns:
            ``total``, how many elements there are, and ``edits``, from the last to the first: where to take
            how many elements out, and which HTML to put in. None where more than the article differs.
        """
        if self.frame != other.frame or not self.blocks:
            return None
        before, after = (tuple(_LINE.sub("", block) for block in each.blocks) for each in (self, other))
        matcher = SequenceMatcher(None, before, after, autojunk=False)
        edits = [
            [start, end - start, "".join(other.blocks[first:last])]
            for kind, start, end, first, last in matcher.get_opcodes()
            if kind != "equal"
        ]
        return {"total": len(before), "edits": edits[::-1]}


def _blocks(html: str) -> tuple[str, ...]:
    found: list[str] = []
    depth = start = 0
    opened = False
    for token in _TOKEN.finditer(html):
        name, is_whole = token["name"], token["text"] or token["leaf"]
        if not name and not is_whole:
            continue  # a comment
        if depth == 0 and not token["end"]:
            if opened:
                found.append(html[start : token.start()])
                start = token.start()
            opened = True
        if name and name.lower() not in _VOID and not token[0].endswith("/>"):
            depth = max(0, depth + (-1 if token["end"] else 1))
    if opened:
        found.append(html[start:])
    return tuple(found)
