"""Typed numbers: speeds in prose, captions and notes come from a record or name their source."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import lru_cache

from tilewise.course.lesson import Lesson
from tilewise.course.rules.model import LessonRule, on_lines
from tilewise.course.typed_numbers import faults
from tilewise.errors import LessonError

_SHOWN = ("alt", "because", "caption", "explanation", "fold", "hint", "note", "title")
"""Arguments whose text is on the page."""


def page_faults(path: str, text: str) -> Iterator[LessonError]:
    """The hand-typed performance numbers of a page of docs/, each with its line."""
    return on_lines(path, 1, text, faults(text))


def _faults(lesson: Lesson) -> Iterator[LessonError]:
    """Numbers in the header, in prose, and in text that code shows."""
    header = lesson.header
    for key in ("title", "summary", "description"):
        for _, message, repair in faults(getattr(header, key)):
            yield LessonError(lesson.path, header.line(key), message, repair)
    for cell in lesson.cells:
        if cell.kind == "markdown":
            yield from on_lines(lesson.path, cell.source_line, cell.source, faults(cell.source))
        else:
            for line, text in _shown_texts(cell.source):
                yield from on_lines(lesson.path, cell.source_line + line - 1, text, faults(text))


@lru_cache(maxsize=4096)
def _shown_texts(source: str) -> tuple[tuple[int, str], ...]:
    """The strings of a code cell that are on the page, each with its first line in the cell."""
    texts = []
    for call in ast.walk(ast.parse(source)):
        if not isinstance(call, ast.Call):
            continue
        shown = [word.value for word in call.keywords if word.arg in _SHOWN]
        if isinstance(call.func, ast.Name) and call.func.id in ("exercise", "Guess"):
            shown += call.args[:2]
        for value in shown:
            texts += [
                (part.lineno, part.value)
                for part in ast.walk(value)
                if isinstance(part, ast.Constant) and isinstance(part.value, str)
            ]
    return tuple(texts)


TYPED_NUMBERS = LessonRule(
    "typed numbers",
    "A rate, a time, cycles or a factor is quoted from a record or a run, {{ name.path }}, or names its "
    "source: 3.35 TB/s{from: NVIDIA H100 data sheet}.",
    '# %% [markdown]\n# It takes {{ add.us }} µs.\n\n# %%\nshow(1, caption="It has 3 TB/s{from: a book}.")\n',
    '# %% [markdown]\n# It takes {{ add.us }} µs.\n\n# %%\nshow(1, caption="It has 3 TB/s.")\n',
    _faults,
)
