"""Tabs: they come in sets, each with a distinct title."""

from __future__ import annotations

from collections.abc import Iterator

from tilewise.course.lesson import Lesson
from tilewise.course.rules.model import LessonRule
from tilewise.errors import LessonError


def _faults(lesson: Lesson) -> Iterator[LessonError]:
    for members in lesson.tab_sets:
        cells = [lesson.cells[index] for index in members]
        if len(cells) == 1:
            message = f'the tab "{cells[0].tab}" stands alone.'
            repair = "Put the cell that belongs beside it directly below or above, or take tab= away."
            yield LessonError(lesson.path, cells[0].first_line, message, repair)
        seen: set[str] = set()
        for cell in cells:
            if cell.tab.casefold() in seen:
                message = f'two neighbouring tabs are called "{cell.tab}".'
                repair = "Give one another title, or put prose between two sets of tabs."
                yield LessonError(lesson.path, cell.first_line, message, repair)
            seen.add(cell.tab.casefold())


TABS = LessonRule(
    "tabs",
    "A tab has neighbours, and no two of a set have the same title.",
    '# %% tab="A"\nx = 1\n\n# %% tab="B"\ny = 1\n',
    '# %% tab="A"\nx = 1\n\n# %% [markdown]\n# Prose.\n',
    _faults,
)
