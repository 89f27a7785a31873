"""Terms: each is defined once, and only used in lessons that reach its definition."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tilewise.course.lesson import Cell, Lesson
from tilewise.course.order import Course
from tilewise.course.rules.model import CourseRule
from tilewise.course.terms import Use
from tilewise.errors import LessonError


def check_terms(course: Course, lesson_id: str, text: str, line: int) -> None:
    """Check the terms in a cell's Markdown output, such as an exercise's task.

    Raises:
        LessonError: it uses a term that the lesson neither defines nor reaches through its needs.
    """
    lesson = course.lesson(lesson_id)
    shown = replace(lesson, cells=(Cell(lesson.path, line, line, "markdown", text, line),))
    for error in _unknown(shown, course):
        raise LessonError(error.path, line, error.message, error.repair)


def _unknown(lesson: Lesson, course: Course) -> Iterator[LessonError]:
    known = course.reaches(lesson.id) | {lesson.id}
    for use in course.terms.uses(lesson):
        if use.term.lesson_id not in known:
            yield _error(lesson, use, course)


def _error(lesson: Lesson, use: Use, course: Course) -> LessonError:
    cell = lesson.cells[use.cell]
    word = " ".join(cell.source[use.start : use.end].split())
    line = cell.source_line + cell.source.count("\n", 0, use.start)
    order = list(course.by_id)
    home = use.term.lesson_id
    escape = f"write \\{word} for the everyday word"
    if order.index(home) > order.index(lesson.id):
        message = f'"{word}" is used here but defined later, in {use.term.path}.'
        repair = f"Move the lesson, define the term here, or {escape}."
    else:
        message = f'"{word}" is used here, and {use.term.path}, which defines it, is not among its needs.'
        repair = f"Add {home} to needs, or {escape}."
    return LessonError(lesson.path, line, message, repair)


def _twice(course: Course) -> Iterator[LessonError]:
    for term, first in course.terms.twice:
        known = {name.casefold() for name in (*first.definition.names, first.definition.slug)}
        shared = next((name for name in term.definition.names if name.casefold() in known), term.title)
        message = f'"{shared}" is defined here and in {first.path}:{first.definition.place.line}.'
        repair = "Keep one definition, or call one of them by another name."
        yield LessonError(term.path, term.definition.place.line, message, repair)


_WARP = '# %% [markdown]\n# ??? definition "Warp"\n#     32 threads.\n'
DEFINED_ONCE = CourseRule(
    "defined once",
    "A term is defined once, in the lesson that first needs it.",
    _WARP,
    f"{_WARP}=== part/two\n{_WARP}",
    _twice,
)
KNOWN = CourseRule(
    "known terms",
    "A term is used where it is defined and in lessons that need that one; \\term is the everyday word.",
    f"{_WARP}=== part/two; needs: [part/one]\n# %% [markdown]\n# A warp.\n",
    f"{_WARP}=== part/two\n# %% [markdown]\n# A warp.\n",
    lambda course: [error for lesson in course.lessons for error in _unknown(lesson, course)],
    last=True,
)
