"""Headings: below the title and without skipped levels, as outlines and screen readers expect."""

from __future__ import annotations

import re
from collections.abc import Iterator

from tilewise.course.lesson import Lesson
from tilewise.course.rules.model import LessonRule
from tilewise.errors import LessonError


def _levels(lesson: Lesson) -> Iterator[tuple[int, str, int]]:
    """Each heading's level, text and line."""
    for heading in lesson.prose.headings:
        signs = re.compile("#+").match(lesson.cells[heading.place.cell].source, heading.place.start)
        yield len(signs[0]) if signs else 0, heading.text, heading.place.line


def _faults(lesson: Lesson) -> Iterator[LessonError]:
    above = 1
    for level, text, line in _levels(lesson):
        if level == 1:
            message = f'the heading "{text}" has the level of the lesson\'s title.'
            yield LessonError(lesson.path, line, message, f"Write ## {text}.")
        elif level > above + 1:
            message = f'the heading "{text}" is of level {level}, and the one above it of level {above}.'
            yield LessonError(lesson.path, line, message, f"Write {'#' * (above + 1)} {text}.")
        above = level


HEADINGS = LessonRule(
    "headings",
    "Headings in the prose begin at the second level, and go down one level at a time.",
    "# %% [markdown]\n# ## Predict\n#\n# ### The bound\n",
    "# %% [markdown]\n# ## Predict\n#\n# #### The bound\n",
    _faults,
)
