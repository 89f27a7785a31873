"""Needs: lessons come after their needs, so that a reader can follow the order."""

from __future__ import annotations

from collections.abc import Sequence

from tilewise.course.lesson import Lesson
from tilewise.course.order import Course
from tilewise.course.rules.model import CourseRule
from tilewise.errors import LessonError, nearest


def _faults(course: Course) -> list[LessonError]:
    lessons, known = course.lessons, course.by_id
    errors = []
    for lesson in lessons:
        line = lesson.header.line("needs")
        for need in lesson.header.needs:
            if need not in known:
                message = f'needs "{need}", and there is no such lesson.'
                errors.append(LessonError(lesson.path, line, message, nearest(need, known)))
        if (home := lesson.header.further) and home not in lesson.header.needs:
            message = f'"further" names {home}, and "needs" does not.'
            repair = f'Add {home} to "needs": a Further page builds on its lesson.'
            errors.append(LessonError(lesson.path, lesson.header.line("further"), message, repair))
    if errors:
        return errors
    circle = _circle(lessons)
    if circle:
        first = known[circle[0]]
        return [
            LessonError(
                first.path,
                first.header.line("needs"),
                f"the needs form a circle: {' → '.join([*circle, circle[0]])}.",
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
    """The first cycle of needs; empty if there is none."""
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


NEEDS = CourseRule(
    "needs",
    "What a lesson needs is a lesson that stands before it in the navigation.",
    "# %%\nx = 1\n=== part/two; needs: [part/one]\n# %%\nx = 1\n",
    "# %%\nx = 1\n=== part/two; needs: [part/three]\n# %%\nx = 1\n",
    _faults,
)
