"""What in Markdown is no running prose: code, formulas, links, headings; the one scanner for all who ask.

In: Markdown. Out: its spans with their kinds and places, or the text with some of them blanked. Spans do not
nest: code in a heading is part of the heading, unless only code is asked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import NamedTuple

FILLER = "\0"
"""Stands for each character that is blanked."""
# Each begins with a bare character: only then does the search skip from candidate to candidate. A kind that
# begins a line has the line end before it.
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
"""All that is no running prose; the targets of links and images are in these."""
WORDLESS = (
    "fence", "code", "math", "comment", "tag", "number", "attributes", "target", "reference", "address",
)  # fmt: skip
"""What shows no words: a heading does, and so does what a link or an image says."""


class Span(NamedTuple):
    """A stretch of Markdown that is no running prose."""

    kind: str
    """``code``, ``link``, ..."""
    start: int
    """Where it begins."""
    end: int
    """Where it ends, exclusive."""
    text: str
    """What it says."""


def spans(text: str, kinds: Iterable[str]) -> Iterator[Span]:
    """The spans of these kinds, in order; where two kinds fit, the one that ``_KINDS`` names first.

    Args:
        text: Markdown.
        kinds: which to look for; what lies inside another span of these is part of that.
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
    """A text as long as it was, with some spans blanked."""
    parts: list[str] = []
    done = 0
    for span in hidden:
        parts += (text[done : span.start], FILLER * (span.end - span.start))
        done = span.end
    return "".join([*parts, text[done:]])
