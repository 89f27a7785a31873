"""What a lesson's prose says: definitions, footnotes, links, numbers, headings and the words between them.

In: the Markdown of a lesson's prose cells. Out: facts with places, found once a lesson. Code, fences and
formulas are opaque: nothing in them is a word, a link or a number. What the facts mean together is for
``tilewise.terms``, ``tilewise.course`` and ``tilewise.page``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache

from tilewise.errors import LessonError
from tilewise.lesson.model import Cell, Lesson

# Each alternative begins with a bare character: only then does the search skip from candidate to candidate.
_SPANS = re.compile(
    r"""
      \n(?:
        (?P<fence>[ \t]*(?P<rail>`{3,}|~{3,})[^\n]*(?:\n[\s\S]*?(?:\n[ \t]*(?P=rail)[`~]*[ \t]*(?=\n|\Z)|\Z)))
      | (?P<heading>\#{1,6}[ \t][^\n]*)
      | (?P<block>[ \t]*(?:!!!|\?\?\?\+?|===[!+]?|///)[ \t]?[^\n]*)
      | (?P<reference>[ ]{0,3}\[[^\]\n^][^\]\n]*\]:[^\n]*)
      )
    | `(?P<code>(?P<tick>`*)(?:[^`\n]|\n(?![ \t]*\n)|(?!`(?P=tick)(?!`))`+)+?`(?P=tick)(?!`))
    | \$(?P<math>\$[\s\S]+?\$\$|(?![\s$])(?:\\.|[^\\$\n]|\n(?![ \t]*\n))+?(?<!\s)\$)
    | <(?:(?P<comment>!--[\s\S]*?-->)|(?P<tag>/?[A-Za-z][^<>]*>))
    | \{(?:(?P<number>\{[^\n]*?\}\})|(?P<attributes>from:[^{}]*\}|:?[ ]*[.\#:a-z][^{}\n]*\}))
    | !(?P<image>\[(?:[^\[\]\n]|\n(?![ \t]*\n))*\]\([^()\n]*\))
    | \[(?:
        (?P<note>\^[^\]\s]+\]:?)
      | (?P<link>(?:[^\[\]\n]|\n(?![ \t]*\n)|\[[^\[\]\n]*\])*\]\((?P<target>[^()\s]*)[^()\n]*\))
      | (?P<pair>[^\[\]\n]+\]\[[^\[\]\n]*\])
      )
    | \\(?P<escaped>[^\w\s])
    """,
    re.VERBOSE,
)
_OPAQUE = ("fence", "code", "math", "comment")
_NUMBER = re.compile(r"\{\{(?P<inside>[^\n]*?)\}\}")
_BLOCK = re.compile(r"[ \t]*\?\?\?\+?[ \t]+definition\b")
_DEFINITION = re.compile(_BLOCK.pattern + r'[ \t]*"(?P<title>[^"]*)"[ \t]*$')
_WORD = re.compile(r"[^\W_]+")
_FILLER = "\0"
_NO_NAME = frozenset("<>{}[]`*$\\")


@dataclass(frozen=True)
class Place:
    """A stretch of a prose cell."""

    cell: int
    """The cell's index in the lesson."""
    start: int
    """Where it begins in the cell's source."""
    end: int
    """Where it ends, exclusive."""
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
    """What it says, in Markdown, not indented."""
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
    """A link, an image, a footnote's mark or a number, with its text."""

    text: str
    """A link's or an image's target, a footnote's label, a heading's text, what a number's braces hold."""
    place: Place
    """Where."""


@dataclass(frozen=True)
class _CellProse:
    """What one cell says; offsets and lines count from the cell's beginning."""

    masked: str
    found: tuple[tuple[str, str, int, int], ...]
    words: frozenset[str]
    count: int
    definitions: tuple[tuple[tuple[str, ...], str, int, int], ...]
    asides: tuple[tuple[int, int], ...]


@dataclass(frozen=True, eq=False)
class Prose:
    """What the prose of a lesson says."""

    definitions: tuple[Definition, ...]
    notes: tuple[Mention, ...]
    """Where footnotes are called: ``[^label]``."""
    note_texts: tuple[Mention, ...]
    """Where they stand: ``[^label]: ...``."""
    links: tuple[Mention, ...]
    images: tuple[Mention, ...]
    numbers: tuple[Mention, ...]
    headings: tuple[Mention, ...]
    words: frozenset[str]
    """Every word, in lower case."""
    masked: tuple[tuple[int, str], ...]
    """By cell: its index, and its text in lower case, all but plain prose blanked, as long as its source."""
    asides: Mapping[int, tuple[tuple[int, int], ...]]
    """By cell: where definitions and the texts of footnotes stand, which a reader may not open."""
    word_count: int

    @staticmethod
    def of(lesson: Lesson) -> Prose:
        """Find the facts.

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
            says = _cell_prose(cell.source)
            masked.append((index, says.masked))
            asides[index] = says.asides
            words |= says.words
            count += says.count
            for names, body, start, end in says.definitions:
                place = _place(cell, index, start, end)
                definitions.append(_definition(names, body, place, lesson.path))
            for kind, text, start, end in says.found:
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
    """A text in lower case, all but plain prose blanked, as long as it was."""
    return _cell_prose(source).masked


@lru_cache(maxsize=4096)
def _cell_prose(source: str) -> _CellProse:
    """The facts of one cell; kept, since an edit changes one cell of a course."""
    shifted = "\n" + source
    masked: list[str] = []
    opaque: list[str] = []
    found: list[tuple[str, str, int, int]] = []
    done = 0
    for match in _SPANS.finditer(shifted):
        start, end = match.span()
        if shifted[start] == "\n":
            start += 1
        masked += (shifted[done:start], _FILLER * (end - start))
        hidden = next((name for name in _OPAQUE if match[name] is not None), "")
        opaque += (shifted[done:start], _FILLER * (end - start) if hidden else shifted[start:end])
        done = end
        found += _mentions(match, start - 1, end - 1)
    plain = "".join([*masked, shifted[done:]])[1:]
    seen = "".join([*opaque, shifted[done:]])[1:]
    if "{{" in seen:
        numbers = [("number", match["inside"].strip(), *match.span()) for match in _NUMBER.finditer(seen)]
        at = _NUMBER.sub(lambda match: _FILLER * len(match[0]), seen).find("{{")
        found += numbers if at < 0 else [("open", "{{", at, at + 2)]
    lowered = plain.lower()
    if len(lowered) != len(plain):
        lowered = "".join(char.lower() if len(char.lower()) == 1 else char for char in plain)
    words = _WORD.findall(lowered)
    blocks = tuple(_blocks(source)) if "definition" in source else ()
    asides = [(start, end) for _, _, start, end in blocks]
    asides += [(start, _end_of_note(source, start)) for kind, _, start, _ in found if kind == "text"]
    return _CellProse(
        masked=lowered,
        found=tuple(found),
        words=frozenset(words),
        count=len(words),
        definitions=blocks,
        asides=tuple(sorted(asides)),
    )


def _mentions(match: re.Match[str], start: int, end: int) -> Iterator[tuple[str, str, int, int]]:
    if match["note"]:
        at_start = not match.string[match.string.rfind("\n", 0, match.start()) + 1 : match.start()].strip()
        label = match["note"][1:].rstrip(":").removesuffix("]")
        is_text = at_start and match["note"].endswith(":")
        yield ("text" if is_text else "note", label, start, end)
    elif match["target"] is not None:
        yield ("link", match["target"], start, end)
    elif match["image"]:
        inside = match["image"].rpartition("](")[2].removesuffix(")").split()
        yield ("image", inside[0] if inside else "", start, end)
    elif match["reference"]:
        yield ("link", match["reference"].split("]:", 1)[1].strip().partition(" ")[0], start, end)
    elif match["fence"]:
        last = match["fence"].rstrip().rpartition("\n")[2].strip()
        if "\n" not in match["fence"].strip() or last.strip("`~") or not last.startswith(match["rail"]):
            yield ("open", match["rail"], start, end)
    elif match["heading"]:
        yield ("heading", match["heading"].strip().lstrip("#").strip(), start, end)


def _end_of_note(source: str, start: int) -> int:
    """Where the text of a footnote ends: at the next line that is neither blank nor indented nor its own."""
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
