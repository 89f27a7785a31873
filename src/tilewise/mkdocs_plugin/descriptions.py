"""What a page is about, for search engines and link previews, where its author did not say.

In: a page's HTML. Out: its first words, up to a sentence's or a word's end, as text for an attribute. Lessons
state theirs in the header; this is for the pages of docs/ and for those made by the build.
"""

from __future__ import annotations

import re
from html import escape, unescape

LONGEST = 180
"""Characters; longer ones are cut by those who show them."""
_PARAGRAPH = re.compile(r"<p>(.*?)</p>", re.DOTALL)
_NOTE = re.compile(r"<(sup|annotation)\b.*?</\1>", re.DOTALL)
_TAG = re.compile(r"<[^>]*>")


def first_words(html: str) -> str:
    """A page's first paragraph of some length, cut and escaped; empty where it has none."""
    for match in _PARAGRAPH.finditer(html):
        text = " ".join(unescape(_TAG.sub("", _NOTE.sub("", match[1]))).split())
        if len(text) >= 40:
            return escape(_cut(text))
    return ""


def _cut(text: str) -> str:
    if len(text) <= LONGEST:
        return text
    sentences = [match.end() for match in re.finditer(r"[.?!:](?= )", text[:LONGEST])]
    if sentences and sentences[-1] >= LONGEST // 3:
        return text[: sentences[-1]].removesuffix(":")
    return text[: LONGEST - 1].rpartition(" ")[0] + "…"
