"""The order of lessons: the navigation names each once, after the lessons that it needs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilewise.course.lesson import Lesson
from tilewise.course.order import Course, Navigation
from tilewise.course.rules.model import CourseRule, NavigationRule
from tilewise.errors import LessonError, nearest


def _navigation_faults(nav: Navigation, lessons: Mapping[str, Lesson]) -> list[LessonError]:
    errors = []
    for position, name in enumerate(nav.order):
        line = nav.lines.get(name, 0)
        if name not in lessons and name.count("/") != 1:
            message = f'the navigation names "{name}", and lessons lie in lessons/<part>/<lesson>.py.'
            repair = "Move it there; a part has no parts of its own."
            errors.append(LessonError(nav.path, line, message, repair))
        elif name not in lessons:
            message = f'the navigation names "{name}", and there is no lessons/{name}.py.'
            errors.append(LessonError(nav.path, line, message, nearest(name, lessons)))
        elif name in nav.order[:position]:
            message = f'the navigation names "{name}" twice.'
            errors.append(LessonError(nav.path, line, message, "Keep one."))
    for name, lesson in lessons.items():
        if name not in nav.order:
            repair = f"Add it to nav in {nav.path}, after what it needs, or delete the file."
            errors.append(LessonError(lesson.path, 1, "the lesson is not in the navigation.", repair))
    return errors


NAVIGATION = NavigationRule(
    "navigation",
    "The navigation names every lesson once, after what it needs.",
    "# %%\nx = 1\n",
    "=== nav: part/one part/two\n# %%\nx = 1\n",
    _navigation_faults,
)


def _need_faults(course: Course) -> list[LessonError]:
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


NEEDS = CourseRule(
    "needs",
    "What a lesson needs is a lesson that stands before it in the navigation.",
    "# %%\nx = 1\n=== part/two; needs: [part/one]\n# %%\nx = 1\n",
    "# %%\nx = 1\n=== part/two; needs: [part/three]\n# %%\nx = 1\n",
    _need_faults,
)
