"""Typed performance numbers: numbers about speed written by hand in prose, and the mark with their source.

In: Markdown, or a plain sentence. Out: each number that is followed by a rate, a time, cycles, times, a
factor or a share, with its place and its source if there is one. Numbers quoted by ``{{ }}`` don't count, and
neither does anything in code, fences, formulas or addresses.

A number that no record can contain, such as one from a data sheet, is followed directly by its source:
``3.35 TB/s{from: NVIDIA H100 data sheet}``. The page shows the source as a tooltip.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from html import escape
from typing import NamedTuple

from tilewise.course.mask import FILLER, WORDLESS, Span, mask, spans

_ONE = (
    "one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|"
    "seventeen|eighteen|nineteen"
)
_TEN = "twenty|thirty|forty|fifty|sixty|seventy|eighty|ninety"
_SIMPLE = rf"(?:{_TEN})(?:-(?:{_ONE}))?|{_ONE}"
_LARGE = "hundred|thousand|million|billion|dozen"
_FRACTION = (
    r"half|(?:a|one|two|three)[ -](?:thirds?|quarters?|fourths?|fifths?|sixths?|eighths?|tenths?|hundredths?)"
)
_NUMBER = (
    r"(?:(?<![\w.,/])(?:\d[\d,_]*(?:\.\d+)?|\.\d+)(?:e[+-]?\d+)?"
    rf"(?:[ ]?(?:{_LARGE}))?"
    rf"|\b(?:(?:a|{_SIMPLE})[ -])?(?:{_LARGE})"
    rf"|\b(?:{_SIMPLE})(?:[ ]and[ ]a[ ](?:half|third|quarter))?"
    r"|\b(?:tens|dozens|hundreds|thousands|millions|billions)[ ]of"
    r"|\bhalf[ ]an?)"
)
_PREFIX = "(?:kilo|mega|giga|tera|peta|exa)"
_UNIT = (
    r"(?:[kmgtpe]?i?b(?:ytes?|its?)?/s(?:ec)?\b"
    rf"|(?:{_PREFIX})?(?:bytes?|bits?)[ ](?:a|per)[ ]second\b"
    r"|[kmgtpe]?b(?:ytes?)?[ ](?:a|per)[ ]second\b"
    rf"|(?:[kmgtpe]|{_PREFIX})?[- ]?flops?(?:/s(?:ec)?\b|[ ](?:a|per)[ ]second\b)"
    rf"|(?:[kmgtpe]|{_PREFIX})[- ]?flops\b|flops\b"
    r"|(?:operations|instructions|additions|multiplications)[ ](?:a|per)[ ]second\b"
    r"|[uµμmnp]s\b|[uµμmn]secs?\b|(?:micro|milli|nano|pico)-?seconds?\b"
    r"|(?:(?:clock|gpu|sm|machine|more|extra)[ ])*cycles?\b(?![ ]through))"
)
_PERFORMANCE = (
    r"(?:time|speed|speeds|rate|rates|bandwidth|throughput|performance|peak|latency|runtime|run[ ]time|"
    r"duration|cublas|cudnn|torch|roofline)"
)
_SPEED = r"(?:fast(?:er)?|slow(?:er)?|quick(?:er)?|long(?:er)?|short(?:er)?|much[ ]time|efficient)"
_COMPARED = rf"(?:of\b|{_SPEED}\b|more\b|less\b|higher\b|lower\b|above\b|below\b|better\b|worse\b)"
_AGAIN = (
    r"(?=[ ]?(?:[.,;:!?)\]\"”’–—]|$|\x01|\0)|[ ](?:each|over|in|per|a|an|by|for|and|or|but|to|because|when|"
    r"while|with|from|through|on|at|during|before|after|if|until|here|there|again|within|every|instead|since|"
    r"where|is|are|was|were|out|this|it|they|along)\b)"
)


class Form(NamedTuple):
    """A way in which prose expresses speed."""

    name: str
    """Its name."""
    pattern: str
    """Its verbose pattern: only spaces in brackets count, and case is ignored."""
    found: str
    """A sentence with such a number."""
    passed: str
    """A similar sentence without one."""


FORMS = (
    Form(
        "unit",
        rf"{_NUMBER}[ -]?{_UNIT}",
        "It sustains 3,030 GB/s on this device.",
        "CUDA 12 cycles through the streams.",
    ),
    Form(
        "factor",
        rf"{_NUMBER}(?:[x×](?!\w)(?![ ]?[\d\0(\[])"
        rf"|[ ][x×](?=[ ]?(?:[.,;:!?)]|$|speed|{_SPEED}|gain|improve)))",
        "The gain is 2.5×.",
        "The picture has 256 x 1 pixels, the tile 8 × 8, the other 16x16.",
    ),
    Form(
        "share",
        rf"{_NUMBER}[ ]?(?:%|percent\b|per[ ]cent\b)[ ]{_COMPARED}",
        "It reaches 80% of the peak.",
        "Each has 20,000 elements, and 73 % in all.",
    ),
    Form(
        "again",  # only counts after a word of gain
        rf"{_NUMBER}[ -]times\b{_AGAIN}",
        "Prefetching speeds the kernel up three times.",
        "Each element is read three times.",
    ),
    Form(
        "times",
        rf"{_NUMBER}[ -]times\b(?![ ](?:[\d\0]|[a-z]\b(?<![ ]a)|(?:{_SIMPLE})\b))",
        "It is twenty-five times as slow as cuBLAS.",
        "4 times 32 bytes make a line, and four times $N$ loads an array.",
    ),
    Form(
        "twice",
        rf"\b(?:twice|thrice|half|(?:{_FRACTION}))[ ](?:as[ ]{_SPEED}\b"
        rf"|(?:of[ ])?(?:the|its|their|this|that|what)[ ](?:\w+[ ]){{0,2}}?{_PERFORMANCE}\b)",
        "The new version takes half the time.",
        "Half of the threads are idle, and half the warps wait.",
    ),
)
"""Every form; if two match at the same place, the first counts."""
_FOUND = re.compile(
    "|".join(f"(?P<{form.name}>{form.pattern})" for form in FORMS), re.VERBOSE | re.IGNORECASE
)
_GAINS = re.compile(
    r"(?:\b(?:fast|slow|quick|speed|gain|improv|accelerat|outperform|beat|shorten|lengthen)\w*"
    r"(?:[ ]\w+){0,4}[ ]"
    r"|\b(?:by|up[ ]to|factor[ ]of)[ ](?:about[ ]|some[ ]|nearly[ ]|almost[ ]|over[ ])?)$",
    re.IGNORECASE,
)
_MARK = re.compile(r"\{from:\s*(?P<source>[^{}]*?)\s*\}")
_BARE = re.compile(r"[$`\s]*(?P<number>\d[\d,.]*)(?P<by>\\times)?[$`\s]*")
_PIECES = re.compile(r"(?P<gap>\n[ \t]*\n\s*)|(?P<space>&nbsp;|&thinsp;|[\s\u00a0\u2007\u2009\u202f])|.")


@dataclass(frozen=True)
class Typed:
    """A number about performance written by hand in prose."""

    text: str
    """The number with its unit, as written."""
    start: int
    """Its start."""
    end: int
    """Its end, exclusive and without its mark."""
    source: str | None
    """The source in the mark after it; None if there is no mark."""
    mark_end: int
    """The end of the mark; ``end`` if there is none."""


@lru_cache(maxsize=4096)
def typed_numbers(text: str) -> tuple[Typed, ...]:
    """Every typed performance number of a text, in order."""
    return tuple(_typed(text))


def stray_marks(text: str) -> Iterator[int]:
    """The starts of marks that follow no such number, or that name no source."""
    used = {typed.end: typed for typed in typed_numbers(text) if typed.source}
    code = (span for span in spans(text, WORDLESS) if span.kind in ("fence", "code", "comment"))
    for match in _MARK.finditer(mask(text, code)):
        if match.start() not in used:
            yield match.start()


def _typed(text: str) -> Iterator[Typed]:
    plain = _Plain.of(text)
    for match in _FOUND.finditer(plain.text):
        start, end = plain.starts[match.start()], plain.ends[match.end() - 1]
        mark = _MARK.match(text, end)
        before = plain.text[max(0, match.start() - 60) : match.start()]
        if match["again"] and mark is None and not _GAINS.search(before):
            continue
        source = mark["source"] if mark else None
        written = " ".join(text[start:end].split())
        yield Typed(written, start, end, source or None, mark.end() if mark else end)


@dataclass(frozen=True)
class _Plain:
    """The words of a text: single spaces, no emphasis, ``FILLER`` for everything but prose."""

    text: str
    starts: tuple[int, ...]
    """By character, its start in the original text."""
    ends: tuple[int, ...]
    """By character, its end there."""

    @staticmethod
    def of(text: str) -> _Plain:
        """Extract the words of a text."""
        characters: list[tuple[str, int, int]] = []
        done = 0
        for span in spans(text, WORDLESS):
            characters += _shown(text, done, span.start)
            characters += _hidden(span)
            done = span.end
        characters += _shown(text, done, len(text))
        spaced: list[tuple[str, int, int]] = []
        for character in characters:
            if character[0] != " " or (spaced and spaced[-1][0] != " "):
                spaced.append(character)
        return _Plain("".join(sign for sign, _, _ in spaced), *_columns(spaced))


def _columns(characters: list[tuple[str, int, int]]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    return tuple(start for _, start, _ in characters), tuple(end for _, _, end in characters)


def _shown(text: str, start: int, end: int) -> Iterator[tuple[str, int, int]]:
    """The characters of plain prose; a blank line becomes a control character."""
    for match in _PIECES.finditer(text, start, end):
        sign = match[0]
        if match["gap"]:
            yield ("\x01", match.start(), match.end())
        elif match["space"]:
            yield (" ", match.start(), match.end())
        elif sign in "\u2010\u2011":
            yield ("-", match.start(), match.end())
        elif sign not in "*_":
            yield (sign, match.start(), match.end())


def _hidden(span: Span) -> Iterator[tuple[str, int, int]]:
    """Filler for a span that is not prose; a formula or code that is only a number is preserved."""
    bare = _BARE.fullmatch(span.text) if span.kind in ("math", "code") else None
    if bare is not None:
        signs = bare["number"] + ("×" if bare["by"] else "")
        for at, sign in enumerate(signs):
            yield (sign, span.start if at == 0 else span.end, span.end)
    elif span.kind == "tag":
        yield (" ", span.start, span.end)
    elif span.kind != "target":
        yield (FILLER, span.start, span.end)


def faults(text: str) -> Iterator[tuple[int, str, str]]:
    """The faults of a text's numbers and marks: place, message and repair."""
    for typed in typed_numbers(text):
        if typed.source is None:
            yield typed.start, f'"{typed.text}" is a number about performance, typed by hand.', REPAIR
    for at in stray_marks(text):
        message = "this {from: ...} follows no number about performance, or names no source."
        yield at, message, "Set it right behind the number's unit, or take it out."


REPAIR = (
    "Quote it from a record or a run, {{ name.path }}, word it without the number, or name its source right "
    "behind it: 3.35 TB/s{from: NVIDIA H100 data sheet}."
)


def sourced(text: str) -> list[tuple[int, int, str]]:
    """Edits that turn marks into HTML spans with a number's source: start, end, new text."""
    edits = []
    for typed in typed_numbers(text):
        if typed.source is not None:
            source = escape(" ".join(typed.source.split()))
            opening = f'<span class="tw-number tw-typed" data-source="{source}">'
            edits += [(typed.start, typed.start, opening), (typed.end, typed.mark_end, "</span>")]
    return edits


def spelt_out(text: str) -> list[tuple[int, int, str]]:
    """Edits that turn marks into words in brackets, for output without HTML spans."""
    return [
        (typed.end, typed.mark_end, f" ({' '.join(typed.source.split())})")
        for typed in typed_numbers(text)
        if typed.source is not None
    ]
