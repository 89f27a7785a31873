"""Navigation: mkdocs.yml names every lesson once, in reading order."""

from __future__ import annotations

from collections.abc import Mapping

from tilewise.course.lesson import Lesson
from tilewise.course.order import Navigation
from tilewise.course.rules.model import NavigationRule
from tilewise.errors import LessonError, nearest


def _faults(nav: Navigation, lessons: Mapping[str, Lesson]) -> list[LessonError]:
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
    _faults,
)
