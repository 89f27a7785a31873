"""Titles: each lesson has its own."""

from __future__ import annotations

from collections.abc import Iterator

from tilewise.course import Course
from tilewise.errors import LessonError
from tilewise.lesson import Lesson
from tilewise.rules.model import CourseRule


def _faults(course: Course) -> Iterator[LessonError]:
    seen: dict[str, Lesson] = {}
    for lesson in course.lessons:
        title = lesson.header.title.casefold()
        if title in seen:
            yield LessonError(
                lesson.path,
                lesson.header.line("title"),
                f'the title "{lesson.header.title}" is also that of {seen[title].path}.',
                "Give one of them another title.",
            )
        seen.setdefault(title, lesson)


TITLES = CourseRule(
    "titles",
    "No two lessons have the same title.",
    "# %%\nx = 1\n=== part/two; title: Two\n# %%\nx = 1\n",
    "# %%\nx = 1\n=== part/two; title: Title of part/one\n# %%\nx = 1\n",
    _faults,
)
