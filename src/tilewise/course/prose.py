"""The facts of a lesson's prose: definitions, footnotes, links, numbers, headings and words.

In: the Markdown of a lesson's prose cells. Out: facts with places, computed once per lesson. Code, fences and
formulas are opaque: nothing in them is a word, a link or a number.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from tilewise.course.mask import FILLER, PROSE, Span, mask, spans
from tilewise.errors import LessonError

if TYPE_CHECKING:
    from tilewise.course.model import Cell, Lesson

_OPAQUE = ("fence", "code", "math", "comment")
_NUMBER = re.compile(r"\{\{(?P<inside>[^\n]*?)\}\}")
_BLOCK = re.compile(r"[ \t]*\?\?\?\+?[ \t]+definition\b")
_DEFINITION = re.compile(_BLOCK.pattern + r'[ \t]*"(?P<title>[^"]*)"[ \t]*$')
_WORD = re.compile(r"[^\W_]+")
ESCAPED = re.compile(r"\\(?=[^\W\d_])")
"""The escape before an everyday word."""
_NO_NAME = frozenset("<>{}[]`*$\\")


@dataclass(frozen=True)
class Place:
    """A range of a prose cell."""

    cell: int
    """The cell's index in the lesson."""
    start: int
    """Its start in the cell's source."""
    end: int
    """Its end, exclusive."""
    line: int
    """The line of its start in the lesson's file."""


@dataclass(frozen=True)
class Definition:
    """A ``??? definition`` block."""

    title: str
    """The term, in the form of the block's title."""
    aliases: tuple[str, ...]
    """Other forms that count as its use."""
    body: str
    """Its text in Markdown, not indented."""
    place: Place
    """The whole block."""

    @property
    def names(self) -> tuple[str, ...]:
        """Title and aliases."""
        return (self.title, *self.aliases)

    @property
    def slug(self) -> str:
        """Its anchor on the lesson's page, ``term-<slug>``, without the prefix."""
        return "-".join(_WORD.findall(self.title.casefold()))

    @property
    def anchor(self) -> str:
        """The id of its element."""
        return f"term-{self.slug}"


@dataclass(frozen=True)
class Mention:
    """A link, an image, a footnote mark, a heading or a number, with its text."""

    text: str
    """The target of a link or an image, the label of a footnote, the text of a heading or a number."""
    place: Place
    """Its range."""


@dataclass(frozen=True)
class _CellProse:
    """The facts of one cell; offsets and lines are relative to the cell."""

    masked: str
    mentions: tuple[tuple[str, str, int, int], ...]
    words: frozenset[str]
    count: int
    definitions: tuple[tuple[tuple[str, ...], str, int, int], ...]
    asides: tuple[tuple[int, int], ...]


@dataclass(frozen=True, eq=False)
class Prose:
    """The facts of a lesson's prose."""

    definitions: tuple[Definition, ...]
    notes: tuple[Mention, ...]
    """The references to footnotes: ``[^label]``."""
    note_texts: tuple[Mention, ...]
    """The texts of footnotes: ``[^label]: ...``."""
    links: tuple[Mention, ...]
    images: tuple[Mention, ...]
    numbers: tuple[Mention, ...]
    headings: tuple[Mention, ...]
    words: frozenset[str]
    """Every word, in lower case."""
    masked: tuple[tuple[int, str], ...]
    """By cell: its index, and its text in lower case with all but plain prose blanked; the length is kept."""
    asides: Mapping[int, tuple[tuple[int, int], ...]]
    """By cell: the ranges of definitions and footnote texts, which a reader may never open."""
    word_count: int

    @staticmethod
    def of(lesson: Lesson) -> Prose:
        """Extract the facts.

        Raises:
            LessonError: a definition has no title or no text.
        """
        definitions: list[Definition] = []
        mentions: dict[str, list[Mention]] = {
            name: [] for name in ("note", "text", "link", "image", "number", "heading")
        }
        words: set[str] = set()
        masked = []
        asides = {}
        count = 0
        for index, cell in enumerate(lesson.cells):
            if cell.kind != "markdown":
                continue
            facts = _cell_prose(cell.source)
            masked.append((index, facts.masked))
            asides[index] = facts.asides
            words |= facts.words
            count += facts.count
            for names, body, start, end in facts.definitions:
                place = _place(cell, index, start, end)
                definitions.append(_definition(names, body, place, lesson.path))
            for kind, text, start, end in facts.mentions:
                if kind == "open":
                    raise _open(text, _place(cell, index, start, end), lesson.path)
                mentions[kind].append(Mention(text, _place(cell, index, start, end)))
        return Prose(
            definitions=tuple(definitions),
            notes=tuple(mentions["note"]),
            note_texts=tuple(mentions["text"]),
            links=tuple(mentions["link"]),
            images=tuple(mentions["image"]),
            numbers=tuple(mentions["number"]),
            headings=tuple(mentions["heading"]),
            words=frozenset(words),
            masked=tuple(masked),
            asides=asides,
            word_count=count,
        )

    def definition_around(self, place: Place) -> Definition | None:
        """The definition that contains a place, if any."""
        in_cell = (entry for entry in self.definitions if entry.place.cell == place.cell)
        return next((entry for entry in in_cell if entry.place.start <= place.start < entry.place.end), None)


def _open(what: str, place: Place, path: str) -> LessonError:
    if what == "{{":
        message, repair = "a number is not closed.", "Write {{ path | format }} on one line."
    else:
        message, repair = "a code fence is not closed.", f'End it with a line "{what}".'
    return LessonError(path, place.line, message, repair)


def _place(cell: Cell, index: int, start: int, end: int) -> Place:
    return Place(index, start, end, cell.source_line + cell.source.count("\n", 0, start))


def _definition(names: tuple[str, ...], body: str, place: Place, path: str) -> Definition:
    if not names or not all(names):
        repair = 'Write ??? definition "Term | other form".'
        raise LessonError(path, place.line, "the definition has no title, or an empty alias.", repair)
    for name in names:
        sign = next((sign for sign in name if sign in _NO_NAME), "")
        if sign or not _WORD.search(name):
            message = f'the term "{name}" has {f"the sign {sign}" if sign else "no letter"}.'
            raise LessonError(path, place.line, message, "A term is plain words.")
    if not body:
        repair = "Write it below, indented by four spaces."
        raise LessonError(path, place.line, f'the definition of "{names[0]}" is empty.', repair)
    return Definition(names[0], names[1:], body, place)


def masked_prose(source: str) -> str:
    """A text in lower case with all but plain prose blanked; the length is kept."""
    return _cell_prose(source).masked


def without_escapes(text: str) -> str:
    """Markdown without the escapes of everyday words; formulas and code keep their backslashes."""
    marks = {match.start() for match in ESCAPED.finditer(masked_prose(text))}
    return "".join(character for at, character in enumerate(text) if at not in marks)


@lru_cache(maxsize=4096)
def _cell_prose(source: str) -> _CellProse:
    """The facts of one cell; cached, because an edit changes only one cell of a course."""
    mentions: list[tuple[str, str, int, int]] = []
    hidden = list(spans(source, PROSE))
    for span in hidden:
        mentions += _mentions(span, source)
    plain = mask(source, hidden)
    seen = mask(source, (span for span in hidden if span.kind in _OPAQUE))
    if "{{" in seen:
        numbers = [("number", match["inside"].strip(), *match.span()) for match in _NUMBER.finditer(seen)]
        at = _NUMBER.sub(lambda match: FILLER * len(match[0]), seen).find("{{")
        mentions += numbers if at < 0 else [("open", "{{", at, at + 2)]
    lowered = plain.lower()
    if len(lowered) != len(plain):
        lowered = "".join(char.lower() if len(char.lower()) == 1 else char for char in plain)
    words = _WORD.findall(lowered)
    blocks = tuple(_blocks(source)) if "definition" in source else ()
    asides = [(start, end) for _, _, start, end in blocks]
    asides += [(start, _end_of_note(source, start)) for kind, _, start, _ in mentions if kind == "text"]
    return _CellProse(
        masked=lowered,
        mentions=tuple(mentions),
        words=frozenset(words),
        count=len(words),
        definitions=blocks,
        asides=tuple(sorted(asides)),
    )


def _mentions(span: Span, source: str) -> Iterator[tuple[str, str, int, int]]:
    kind, start, end, text = span
    if kind == "note":
        at_start = not source[source.rfind("\n", 0, start) + 1 : start].strip()
        is_text = at_start and text.endswith(":")
        yield ("text" if is_text else "note", text[2:].rstrip(":").removesuffix("]"), start, end)
    elif kind in ("link", "image"):
        yield (kind, re.split(r"\s", text.rpartition("](")[2].removesuffix(")"), maxsplit=1)[0], start, end)
    elif kind == "reference":
        yield ("link", text.split("]:", 1)[1].strip().partition(" ")[0], start, end)
    elif kind == "fence":
        opened = text.lstrip()
        rail = opened[: len(opened) - len(opened.lstrip(opened[0]))]
        last = text.rstrip().rpartition("\n")[2].strip()
        if "\n" not in text.strip() or last.strip("`~") or not last.startswith(rail):
            yield ("open", rail, start, end)
    elif kind == "heading":
        yield ("heading", text.strip().lstrip("#").strip(), start, end)


def _end_of_note(source: str, start: int) -> int:
    """The end of a footnote's text: at the next line that is neither blank nor indented nor its own."""
    after_blank = False
    at = source.find("\n", start)
    while at >= 0:
        end = source.find("\n", at + 1)
        line = source[at + 1 : end if end >= 0 else len(source)]
        if line.startswith("[^") or (after_blank and line.strip() and not line.startswith("    ")):
            return at
        after_blank = not line.strip()
        at = end
    return len(source)


def _blocks(source: str) -> Iterator[tuple[tuple[str, ...], str, int, int]]:
    """The definition blocks of a cell: names, body, start, end."""
    lines = source.split("\n")
    offset = 0
    for at, line in enumerate(lines):
        if "definition" in line and _BLOCK.match(line):
            match = _DEFINITION.match(line)
            indent = len(line) - len(line.lstrip()) + 4
            last = at
            for below in range(at + 1, len(lines)):
                if lines[below].strip() and not lines[below].startswith(" " * indent):
                    break
                if lines[below].strip():
                    last = below
            body = "\n".join(entry[indent:] for entry in lines[at + 1 : last + 1]).strip("\n")
            names = tuple(name.strip() for name in match["title"].split("|")) if match else ()
            end = offset + sum(len(entry) + 1 for entry in lines[at : last + 1]) - 1
            yield names, body, offset, end
        offset += len(line) + 1
