"""The course as a whole: the lessons' order, what each needs and unlocks, and their shared terms.

In: parsed lessons in the order of the navigation. Out: a ``Course``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from tilewise.course.lesson import Lesson
from tilewise.course.terms import Terms, Use


@dataclass(frozen=True)
class Part:
    """A section of the navigation with lessons."""

    title: str
    """Its title in mkdocs.yml."""
    lessons: tuple[str, ...]
    """The ids of its lessons, in reading order."""
    about: str = ""
    """A sentence on it."""


@dataclass(frozen=True)
class Navigation:
    """The lessons' order and parts in mkdocs.yml."""

    order: Sequence[str] = ()
    """Their ids in reading order."""
    path: str = "mkdocs.yml"
    """The file, for messages."""
    lines: Mapping[str, int] = field(default_factory=dict)
    """The line of each id in the file."""
    parts: Sequence[Part] = ()
    """The sections of the navigation with lessons."""


@dataclass(frozen=True, eq=False)
class Course:
    """Lessons in reading order, which is a topological order of their needs."""

    lessons: tuple[Lesson, ...]
    """In reading order."""
    terms: Terms
    """Every term, in reading order."""

    @staticmethod
    def of(lessons: Sequence[Lesson]) -> Course:
        """The course of lessons in this order; needs that do not come before their lesson are dropped."""
        return Course(tuple(_without_wrong_needs(lessons)), Terms.of(lessons))

    @cached_property
    def by_id(self) -> dict[str, Lesson]:
        """The lessons by id."""
        return {lesson.id: lesson for lesson in self.lessons}

    def lesson(self, lesson_id: str) -> Lesson:
        """The lesson with an id.

        Raises:
            KeyError: there is no such lesson.
        """
        return self.by_id[lesson_id]

    @cached_property
    def core(self) -> tuple[str, ...]:
        """The ids of the core track, in reading order: every lesson but the Further pages."""
        return tuple(name for name, lesson in self.by_id.items() if not lesson.header.further)

    @cached_property
    def _numbers(self) -> dict[str, int]:
        core = {name: number for number, name in enumerate(self.core, start=1)}
        return {name: core.get(lesson.header.further or name, 0) for name, lesson in self.by_id.items()}

    def further(self, lesson_id: str) -> tuple[str, ...]:
        """Ids of the Further pages of a lesson, in reading order."""
        return tuple(name for name, lesson in self.by_id.items() if lesson.header.further == lesson_id)

    def number(self, lesson_id: str) -> int:
        """The lesson's number on the core track, from 1; a Further page has its lesson's."""
        return self._numbers[lesson_id]

    def needs(self, lesson_id: str) -> tuple[str, ...]:
        """Ids of the lessons that it needs directly."""
        return self.by_id[lesson_id].header.needs

    def unlocks(self, lesson_id: str) -> tuple[str, ...]:
        """Ids of the lessons that need it directly, in reading order."""
        return tuple(lesson.id for lesson in self.lessons if lesson_id in lesson.header.needs)

    def reaches(self, lesson_id: str) -> frozenset[str]:
        """Ids of all lessons that it needs, directly or indirectly."""
        return self._reached[lesson_id]

    @cached_property
    def _reached(self) -> dict[str, frozenset[str]]:
        reached: dict[str, frozenset[str]] = {}
        for lesson in self.lessons:  # its needs come before it
            direct = lesson.header.needs
            reached[lesson.id] = frozenset(direct).union(*(reached[name] for name in direct))
        return reached

    def uses(self, lesson_id: str) -> tuple[Use, ...]:
        """The first use of each term in a lesson."""
        return self.terms.uses(self.by_id[lesson_id])

    @cached_property
    def signature(self) -> str:
        """A hash of all that a lesson's page uses of other lessons: order, headers and terms."""
        headers = [
            (lesson.id, lesson.header.title, lesson.header.needs, lesson.header.further)
            for lesson in self.lessons
        ]
        terms = [
            (term.lesson_id, term.definition.names, term.first_sentence_markdown) for term in self.terms.terms
        ]
        return hashlib.sha256(repr([headers, terms]).encode()).hexdigest()


def _without_wrong_needs(lessons: Sequence[Lesson]) -> Iterator[Lesson]:
    """The lessons, each with only the needs that come before it."""
    before: set[str] = set()
    for lesson in lessons:
        needs = tuple(name for name in lesson.header.needs if name in before)
        is_right = needs == lesson.header.needs
        yield lesson if is_right else replace(lesson, header=replace(lesson.header, needs=needs))
        before.add(lesson.id)
