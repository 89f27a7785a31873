"""The parts of Markdown that are not running prose: code, formulas, links, headings. The only such scanner.

In: Markdown. Out: its spans with kinds and offsets, or the text with some of them blanked. Spans do not nest:
code in a heading is part of the heading, unless only code is requested.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

FILLER = "\0"
"""Replaces each blanked character."""
# Each pattern begins with a literal character, so that the search can skip between candidates. Kinds that
# begin a line start with the line end before it.
_KINDS = {
    "fence": r"\n[ \t]*(?P<rail>`{3,}|~{3,})[^\n]*"
    r"(?:\n[\s\S]*?(?:\n[ \t]*(?P=rail)[`~]*[ \t]*(?=\n|\Z)|\Z))",
    "heading": r"\n\#{1,6}[ \t][^\n]*",
    "block": r"\n[ \t]*(?:!!!|\?\?\?\+?|===[!+]?|///)[ \t]?[^\n]*",
    "reference": r"\n[ ]{0,3}\[[^\]\n^][^\]\n]*\]:[^\n]*",
    "code": r"`(?P<tick>`*)(?:[^`\n]|\n(?![ \t]*\n)|(?!`(?P=tick)(?!`))`+)+?`(?P=tick)(?!`)",
    "math": r"\$(?:\$[\s\S]+?\$\$|(?![\s$])(?:\\.|[^\\$\n]|\n(?![ \t]*\n))+?(?<!\s)\$)",
    "comment": r"<!--[\s\S]*?-->",
    "tag": r"</?[A-Za-z][^<>]*>",
    "number": r"\{\{[^\n]*?\}\}",
    "attributes": r"\{(?:from:[^{}]*\}|:?[ ]*[.\#:a-z][^{}\n]*\})",
    "image": r"!\[(?:[^\[\]\n]|\n(?![ \t]*\n))*\]\([^()\n]*\)",
    "note": r"\[\^[^\]\s]+\]:?",
    "link": r"\[(?:[^\[\]\n]|\n(?![ \t]*\n)|\[[^\[\]\n]*\])*\]\([^()\n]*\)",
    "target": r"\((?<=\]\()[^()\n]*\)",
    "pair": r"\[[^\[\]\n]+\]\[[^\[\]\n]*\]",
    "address": r"h(?<!\wh)ttps?://[^\s<>()]+",
    "escaped": r"\\[^\w\s]",
}
PROSE = tuple(kind for kind in _KINDS if kind not in ("target", "address"))
"""All that is not running prose; targets are part of links and images."""
WORDLESS = (
    "fence", "code", "math", "comment", "tag", "number", "attributes", "target", "reference", "address",
)  # fmt: skip
"""Spans without visible words; headings and the texts of links and images have some."""


class Span(NamedTuple):
    """A range of Markdown that is not running prose."""

    kind: str
    """``code``, ``link``, ..."""
    start: int
    """Where it begins."""
    end: int
    """Where it ends, exclusive."""
    text: str
    """Its text."""


def spans(text: str, kinds: Iterable[str]) -> Iterator[Span]:
    """The spans of these kinds, in order; if two kinds match, the first in ``_KINDS`` wins.

    Args:
        text: Markdown.
        kinds: the kinds to look for; a span inside another one is part of that one.
    """
    for match in _scanner(frozenset(kinds)).finditer("\n" + text):
        skipped = match[0].startswith("\n")
        kind = match.lastgroup
        assert kind is not None
        yield Span(kind, match.start() - 1 + skipped, match.end() - 1, match[0][skipped:])


@lru_cache
def _scanner(kinds: frozenset[str]) -> re.Pattern[str]:
    return re.compile("|".join(f"(?P<{kind}>{_KINDS[kind]})" for kind in _KINDS if kind in kinds))


def mask(text: str, hidden: Iterable[Span]) -> str:
    """A text of the same length, with some spans blanked."""
    parts: list[str] = []
    done = 0
    for span in hidden:
        parts += (text[done : span.start], FILLER * (span.end - span.start))
        done = span.end
    return "".join([*parts, text[done:]])
