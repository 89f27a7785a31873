"""Links: from lesson to lesson by file, to a term by its anchor."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator

from tilewise.course import Course
from tilewise.errors import LessonError, nearest
from tilewise.rules.model import CourseRule


def _faults(course: Course) -> Iterator[LessonError]:
    paths = {lesson.path: lesson for lesson in course.lessons}
    anchors = {(term.path, term.anchor) for term in course.terms.terms}
    for lesson in course.lessons:
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


LINKS = CourseRule(
    "links",
    "A link to a lesson names its file, from here, and leads to no draft; #term-... is a term it defines.",
    "# %% [markdown]\n# See [two](two.py).\n=== part/two\n# %%\nx = 1\n",
    "# %% [markdown]\n# See [two](tow.py).\n=== part/two\n# %%\nx = 1\n",
    _faults,
)
