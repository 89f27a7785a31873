"""Definitions: they are valid on every machine, because the glossary shows them without a measurement."""

from __future__ import annotations

from collections.abc import Iterator

from tilewise.course.lesson import Lesson
from tilewise.course.rules.model import LessonRule
from tilewise.errors import LessonError


def _faults(lesson: Lesson) -> Iterator[LessonError]:
    for number in lesson.prose.numbers:
        if definition := lesson.prose.definition_around(number.place):
            message = f'the definition of "{definition.title}" quotes a measured number.'
            repair = "Define without it, and quote the number in the text."
            yield LessonError(lesson.path, number.place.line, message, repair)


DEFINITIONS = LessonRule(
    "definitions",
    "A definition quotes no measured number.",
    '# %% [markdown]\n# ??? definition "Warp"\n#     32 threads.\n',
    '# %% [markdown]\n# ??? definition "Warp"\n#     {{ x.y }} threads.\n',
    _faults,
)
