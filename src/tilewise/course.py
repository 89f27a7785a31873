"""The lessons together: their order, what each needs and unlocks, and the terms they share.

In: parsed lessons in the order of the navigation. Out: a ``Course`` that holds, or every fault that keeps
it from holding, each with its line. Nothing is executed, and nothing is rendered here.
"""

from __future__ import annotations

import hashlib
import posixpath
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from tilewise.errors import LessonError, nearest, raise_all
from tilewise.lesson import Cell, Lesson
from tilewise.prose_checks import prose_faults
from tilewise.terms import Term, Terms, Use

LessonFaults = Callable[[Lesson], Iterable[LessonError]]


@dataclass(frozen=True, eq=False)
class Course:
    """Lessons in reading order, which is a topological order of their needs."""

    lessons: tuple[Lesson, ...]
    """In reading order, drafts included."""
    terms: Terms
    """Every term, in reading order."""

    @staticmethod
    def of(lessons: Sequence[Lesson]) -> Course:
        """Check that lessons, in the order of the navigation, make a course.

        Raises:
            LessonError: one fault; ``LessonErrors`` for more: unknown needs, needs that go in a circle or
                against the navigation, a title used twice, a term used before it is defined or defined
                twice, footnotes that dangle or are unused, links to unknown lessons.
        """
        course, errors = Course.checked(lessons)
        raise_all(errors)
        return course

    @staticmethod
    def checked(
        lessons: Sequence[Lesson], faults: LessonFaults = prose_faults
    ) -> tuple[Course, list[LessonError]]:
        """The course that lessons make, without the needs that cannot be, and every fault.

        Args:
            lessons: in the order of the navigation.
            faults: what is wrong with a lesson by itself.
        """
        known = {lesson.id: lesson for lesson in lessons}
        errors = [*_titles(lessons), *(wrong := _needs(lessons, known))]
        for lesson in lessons:
            errors += faults(lesson)
        terms, twice = Terms.of(lessons)
        course = Course(tuple(_without_wrong_needs(lessons) if wrong else lessons), terms)
        errors += twice
        errors += _links(lessons, course)
        if not errors:
            errors = [error for lesson in lessons for error in course._undefined(lesson)]
        return course, errors

    @staticmethod
    def from_nav(
        nav: Sequence[str],
        lessons: Mapping[str, Lesson],
        nav_path: str = "mkdocs.yml",
        lines: Mapping[str, int] | None = None,
    ) -> Course:
        """The course that a navigation orders.

        Args:
            nav: lesson ids in the order of the navigation.
            lessons: every lesson there is, by id.
            nav_path: the navigation's file, for messages.
            lines: the line of each id in it, where known.

        Raises:
            LessonError: the navigation names an unknown lesson or one twice, or leaves one out; and as
                ``of``.
        """
        raise_all(nav_faults(nav, lessons, nav_path, lines or {}))
        return Course.of([lessons[name] for name in nav])

    @cached_property
    def by_id(self) -> dict[str, Lesson]:
        """The lessons by id."""
        return {lesson.id: lesson for lesson in self.lessons}

    def lesson(self, lesson_id: str) -> Lesson:
        """The lesson of an id.

        Raises:
            KeyError: there is none.
        """
        return self.by_id[lesson_id]

    @cached_property
    def _numbers(self) -> dict[str, int]:
        published = [lesson.id for lesson in self.lessons if not lesson.header.draft]
        return {name: number for number, name in enumerate(published, start=1)}

    def number(self, lesson_id: str) -> int:
        """The lesson's number in reading order, from 1; 0 for a draft."""
        return self._numbers.get(lesson_id, 0)

    def needs(self, lesson_id: str) -> tuple[str, ...]:
        """Ids of the lessons that it needs directly."""
        return self.by_id[lesson_id].header.needs

    def unlocks(self, lesson_id: str) -> tuple[str, ...]:
        """Ids of the published lessons that need it directly, in reading order."""
        return tuple(
            lesson.id
            for lesson in self.lessons
            if lesson_id in lesson.header.needs and not lesson.header.draft
        )

    def reaches(self, lesson_id: str) -> frozenset[str]:
        """Ids of all lessons that it needs, directly or not."""
        return self._reached[lesson_id]

    @cached_property
    def _reached(self) -> dict[str, frozenset[str]]:
        found: dict[str, frozenset[str]] = {}
        for lesson in self.lessons:  # every need stands before it
            direct = lesson.header.needs
            found[lesson.id] = frozenset(direct).union(*(found[name] for name in direct))
        return found

    def uses(self, lesson_id: str) -> tuple[Use, ...]:
        """The first use of each term in a lesson."""
        return self.terms.uses(self.by_id[lesson_id])

    def terms_so_far(self, lesson_id: str) -> tuple[Term, ...]:
        """The terms of all lessons up to and with this one, in reading order."""
        order = [lesson.id for lesson in self.lessons]
        so_far = set(order[: order.index(lesson_id) + 1])
        return tuple(term for term in self.terms.terms if term.lesson_id in so_far)

    @cached_property
    def signature(self) -> str:
        """A hash of all that a lesson's page takes from the other lessons: order, headers and terms."""
        headers = [
            (lesson.id, lesson.header.title, lesson.header.needs, lesson.header.draft)
            for lesson in self.lessons
        ]
        terms = [
            (term.lesson_id, term.definition.names, term.first_sentence_markdown) for term in self.terms.terms
        ]
        return hashlib.sha256(repr([headers, terms]).encode()).hexdigest()

    def check_terms(self, lesson_id: str, text: str, line: int) -> None:
        """Check the terms in Markdown that a cell of a lesson shows, such as an exercise's task.

        Args:
            lesson_id: the lesson.
            text: the Markdown.
            line: the cell's line.

        Raises:
            LessonError: it uses a term that the lesson neither defines nor reaches through its needs.
        """
        lesson = self.by_id[lesson_id]
        cell = Cell(lesson.path, line, line, "markdown", text, line)
        shown = replace(lesson, cells=(cell,))
        for use in self.terms.uses(shown):
            if use.term.lesson_id not in self.reaches(lesson_id) | {lesson_id}:
                error = self._undefined_error(shown, use)
                raise LessonError(error.path, line, error.message, error.repair)

    def _undefined(self, lesson: Lesson) -> Iterator[LessonError]:
        allowed = self.reaches(lesson.id) | {lesson.id}
        for use in self.uses(lesson.id):
            if use.term.lesson_id not in allowed:
                yield self._undefined_error(lesson, use)

    def _undefined_error(self, lesson: Lesson, use: Use) -> LessonError:
        cell = lesson.cells[use.cell]
        word = " ".join(cell.source[use.start : use.end].split())
        line = cell.source_line + cell.source.count("\n", 0, use.start)
        order = [entry.id for entry in self.lessons]
        home = use.term.lesson_id
        escape = f"write \\{word} for the everyday word"
        if order.index(home) > order.index(lesson.id):
            message = f'"{word}" is used here but defined later, in {use.term.path}.'
            return LessonError(
                lesson.path, line, message, f"Move the lesson, define the term here, or {escape}."
            )
        message = f'"{word}" is used here, and {use.term.path}, which defines it, is not among its needs.'
        return LessonError(lesson.path, line, message, f"Add {home} to needs, or {escape}.")


def nav_faults(
    nav: Sequence[str], lessons: Mapping[str, Lesson], nav_path: str, lines: Mapping[str, int]
) -> list[LessonError]:
    """Lessons that a navigation names and that are not there, or that it names twice or leaves out."""
    errors = []
    for position, name in enumerate(nav):
        line = lines.get(name, 0)
        if name not in lessons and name.count("/") != 1:
            message = f'the navigation names "{name}", and lessons lie in lessons/<part>/<lesson>.py.'
            repair = "Move it there; a part has no parts of its own."
            errors.append(LessonError(nav_path, line, message, repair))
        elif name not in lessons:
            message = f'the navigation names "{name}", and there is no lessons/{name}.py.'
            errors.append(LessonError(nav_path, line, message, nearest(name, lessons)))
        elif name in nav[:position]:
            message = f'the navigation names "{name}" twice.'
            errors.append(LessonError(nav_path, line, message, "Keep one."))
    for name, lesson in lessons.items():
        if name not in nav:
            repair = f"Add it to nav in {nav_path}, after what it needs, or delete the file."
            errors.append(LessonError(lesson.path, 1, "the lesson is not in the navigation.", repair))
    return errors


def _without_wrong_needs(lessons: Sequence[Lesson]) -> Iterator[Lesson]:
    """Lessons that need only what stands before them."""
    before: set[str] = set()
    for lesson in lessons:
        needs = tuple(name for name in lesson.header.needs if name in before)
        is_right = needs == lesson.header.needs
        yield lesson if is_right else replace(lesson, header=replace(lesson.header, needs=needs))
        before.add(lesson.id)


def _titles(lessons: Sequence[Lesson]) -> Iterator[LessonError]:
    seen: dict[str, Lesson] = {}
    for lesson in lessons:
        title = lesson.header.title.casefold()
        if title in seen:
            yield LessonError(
                lesson.path,
                lesson.header.line("title"),
                f'the title "{lesson.header.title}" is also that of {seen[title].path}.',
                "Give one of them another title.",
            )
        seen.setdefault(title, lesson)


def _needs(lessons: Sequence[Lesson], known: Mapping[str, Lesson]) -> list[LessonError]:
    errors = []
    for lesson in lessons:
        line = lesson.header.line("needs")
        for need in lesson.header.needs:
            if need not in known:
                message = f'needs "{need}", and there is no such lesson.'
                errors.append(LessonError(lesson.path, line, message, nearest(need, known)))
            elif known[need].header.draft and not lesson.header.draft:
                repair = f"Publish {known[need].path}, or make this one a draft too."
                errors.append(LessonError(lesson.path, line, f'needs "{need}", which is a draft.', repair))
    if errors:
        return errors
    circle = _circle(lessons)
    if circle:
        first = known[circle[0]]
        return [
            LessonError(
                first.path,
                first.header.line("needs"),
                f"the needs go in a circle: {' → '.join([*circle, circle[0]])}.",
                "Take one of them out.",
            )
        ]
    position = {lesson.id: at for at, lesson in enumerate(lessons)}
    return [
        LessonError(
            lesson.path,
            lesson.header.line("needs"),
            f'needs "{need}", which comes later in the navigation.',
            f"Move {need} before {lesson.id} in nav, or take it out of needs.",
        )
        for lesson in lessons
        for need in lesson.header.needs
        if position[need] > position[lesson.id]
    ]


def _circle(lessons: Sequence[Lesson]) -> list[str]:
    """The first circle of needs, or nothing."""
    needs = {lesson.id: lesson.header.needs for lesson in lessons}
    settled: set[str] = set()

    def visit(name: str, trail: list[str]) -> list[str]:
        if name in trail:
            return trail[trail.index(name) :]
        if name not in settled:
            for need in needs[name]:
                if circle := visit(need, [*trail, name]):
                    return circle
            settled.add(name)
        return []

    return next((circle for name in needs if (circle := visit(name, []))), [])


def _links(lessons: Sequence[Lesson], course: Course) -> Iterator[LessonError]:
    paths = {lesson.path: lesson for lesson in lessons}
    anchors = {(term.path, term.anchor) for term in course.terms.terms}
    for lesson in lessons:
        folder = posixpath.dirname(lesson.path)
        for link in lesson.prose.links:
            target, _, fragment = link.text.partition("#")
            if not target.endswith(".py") or "://" in target:
                continue
            path = posixpath.normpath(posixpath.join(folder, target))
            if path not in paths:
                names = {posixpath.relpath(known, folder or "."): known for known in paths}
                message = f"the link ({link.text}) leads to no lesson."
                yield LessonError(lesson.path, link.place.line, message, nearest(target, names))
            elif fragment.startswith("term-") and (path, fragment) not in anchors:
                message = f"the link ({link.text}) leads to no term that {path} defines."
                terms = {f"#{anchor}" for home, anchor in anchors if home == path}
                yield LessonError(lesson.path, link.place.line, message, nearest(f"#{fragment}", terms))
            elif paths[path].header.draft and not lesson.header.draft:
                message = f"the link ({link.text}) leads to a draft."
                yield LessonError(lesson.path, link.place.line, message, "Publish that lesson first.")
