"""The course's vocabulary: the lesson that defines each term, and the first use of each term in a lesson.

In: the lessons' prose facts. Out: a ``Terms`` index, first uses with places, and duplicate definitions.
``tilewise.course.rules.terms`` checks by ``needs`` whether a use is allowed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

from tilewise.course.lesson import Lesson
from tilewise.course.prose import Definition, Prose, without_escapes

_WORD = re.compile(r"[^\W_]+")
_MARKUP = re.compile(
    r"!?\[([^\]]*)\]\([^)]*\)|\[\^[^\]]*\]|\{:?\s*[.#][^}]*\}|(?<![\w\\])[*_]{1,3}|[*_]{1,3}(?!\w)|`"
)
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[\"“(A-ZÀ-Þ0-9$])")


@dataclass(frozen=True)
class Term:
    """A word with a defined meaning in this course."""

    definition: Definition
    """Its title, other forms, text and place."""
    lesson_id: str
    """The lesson that defines it."""
    path: str
    """That lesson's file."""

    @property
    def title(self) -> str:
        """The term."""
        return self.definition.title

    @property
    def anchor(self) -> str:
        """The id of its element, on the lesson's page and in the glossary."""
        return self.definition.anchor

    @property
    def first_sentence_markdown(self) -> str:
        """The first sentence of its definition as written, without footnotes and escapes."""
        paragraph = re.sub(r"\[\^[^\]]*\]", "", self.definition.body.split("\n\n")[0])
        sentence = _SENTENCE.split(" ".join(paragraph.split()), maxsplit=1)[0]
        return without_escapes(sentence)

    @property
    def first_sentence(self) -> str:
        """The first sentence of its definition as plain text, for a tooltip."""
        paragraph = self.definition.body.split("\n\n")[0]
        plain = " ".join(_MARKUP.sub(lambda match: match[1] or "", paragraph).split())
        plain = re.sub(r"\\(?=[\w$*_`\[\]])", "", plain)
        return _SENTENCE.split(plain, maxsplit=1)[0]


@dataclass(frozen=True)
class Use:
    """The first use of a term in a lesson."""

    term: Term
    """The term used."""
    cell: int
    """The index of the prose cell."""
    start: int
    """Its start in the cell's source."""
    end: int
    """Its end, exclusive."""


@dataclass(frozen=True)
class Terms:
    """Every term of a course, in reading order."""

    terms: tuple[Term, ...]
    twice: tuple[tuple[Term, Term], ...] = ()
    """Duplicate definitions, each with the first one; duplicates are not terms of the course."""

    @staticmethod
    def of(lessons: Sequence[Lesson]) -> Terms:
        """The terms that lessons define."""
        terms: list[Term] = []
        twice: list[tuple[Term, Term]] = []
        taken: dict[str, Term] = {}
        for lesson in lessons:
            for definition in lesson.prose.definitions:
                term = Term(definition, lesson.id, lesson.path)
                names = {name.casefold() for name in (*definition.names, definition.slug)}
                first = next((taken[name] for name in sorted(names) if name in taken), None)
                if first is not None:
                    twice.append((term, first))
                    continue
                terms.append(term)
                taken.update(dict.fromkeys(names, term))
        return Terms(tuple(terms), tuple(twice))

    def of_lesson(self, lesson_id: str) -> tuple[Term, ...]:
        """The terms that a lesson adds."""
        return tuple(term for term in self.terms if term.lesson_id == lesson_id)

    def uses(self, lesson: Lesson) -> tuple[Use, ...]:
        """The first use of each term in a lesson, in the order of the text.

        A use in the running text takes precedence over one in a definition or a footnote.
        """
        by_name = self._by_name
        first: dict[Term, Use] = {}
        asides = lesson.prose.asides

        def order(use: Use) -> tuple[bool, int, int]:
            is_aside = any(start <= use.start < end for start, end in asides[use.cell])
            return (is_aside, use.cell, use.start)

        for name, cell, start, end in _first_uses(lesson.prose, _Names.of(frozenset(by_name))):
            use = Use(by_name[name], cell, start, end)
            known = first.get(use.term)
            if known is None or order(use) < order(known):
                first[use.term] = use
        return tuple(sorted(first.values(), key=lambda use: (use.cell, use.start)))

    @cached_property
    def _by_name(self) -> dict[str, Term]:
        return {" ".join(name.lower().split()): term for term in self.terms for name in term.definition.names}


@dataclass(frozen=True, eq=False)
class _Names:
    """All names of a course's terms, indexed for the search."""

    first_words: dict[str, tuple[str, ...]]
    """By first word: the names that begin with it."""
    longer: dict[str, tuple[str, ...]]
    """By name: the longer names that contain it."""

    @staticmethod
    @lru_cache(maxsize=64)
    def of(names: frozenset[str]) -> _Names:
        first: dict[str, list[str]] = {}
        for name in sorted(names):
            words = _WORD.findall(name)
            if words:
                first.setdefault(words[0], []).append(name)
        longer = {
            name: tuple(each for each in names if len(each) > len(name) and name in each) for name in names
        }
        return _Names({word: tuple(group) for word, group in first.items()}, longer)


@lru_cache(maxsize=1024)
def _first_uses(prose: Prose, names: _Names) -> tuple[tuple[str, int, int, int], ...]:
    """Each name's first use: name, cell, start, end. Part of a longer name does not count."""
    uses = []
    for word in prose.words & names.first_words.keys():
        for name in names.first_words[word]:
            use = _first_use(prose, name, names.longer[name], asides=False)
            use = use or _first_use(prose, name, names.longer[name], asides=True)
            if use is not None:
                uses.append((name, *use))
    return tuple(uses)


def _first_use(prose: Prose, name: str, longer: Sequence[str], asides: bool) -> tuple[int, int, int] | None:
    """A name's first use: cell, start, end; in the running text, or in asides as well."""
    own = [entry.place for entry in prose.definitions if name in map(str.lower, entry.names)]
    for index, text in prose.masked:
        blocked = [(place.start, place.end) for place in own if place.cell == index]
        blocked += () if asides else prose.asides[index]
        for longer_name in longer:
            blocked += [match.span() for match in _pattern(longer_name).finditer(text)]
        span = _first(name, text, blocked)
        if span is not None:
            return (index, *span)
    return None


def _first(name: str, text: str, blocked: Sequence[tuple[int, int]]) -> tuple[int, int] | None:
    if " " not in name and name not in text:
        return None
    for match in _pattern(name).finditer(text):
        start, end = match.span()
        before = text[start - 1] if start else " "
        after = text[end] if end < len(text) else " "
        whole = not (before.isalnum() or before in "_\\") and not (after.isalnum() or after == "_")
        if whole and not any(first <= start and end <= last for first, last in blocked):
            return start, end
    return None


@lru_cache(maxsize=4096)
def _pattern(name: str) -> re.Pattern[str]:
    return re.compile(r"\s+".join(re.escape(word) for word in name.split()))
