"""Shown figures: what a cell makes for the page stands on the page."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tilewise.errors import LessonError
from tilewise.lesson import Lesson
from tilewise.rules.model import LessonRule


def _faults(lesson: Lesson) -> Iterator[LessonError]:
    """The last value of a cell is shown by itself."""
    cells = [(cell, ast.parse(cell.source).body) for cell in lesson.code]
    made = {"Table"} | {
        name.asname or name.name
        for _, body in cells
        for node in body
        if isinstance(node, ast.ImportFrom) and node.module == "tilewise.figures"
        for name in node.names
    }
    for cell, body in cells:
        for node in body[:-1]:
            call = node.value if isinstance(node, ast.Expr) else None
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id in made:
                name, line = call.func.id, cell.source_line + node.lineno - 1
                message = f"{name}(...) is made here and shown nowhere."
                yield LessonError(lesson.path, line, message, f"Write show({name}(...)).")


SHOWN_FIGURES = LessonRule(
    "shown figures",
    "A figure or table that a cell makes is shown by it.",
    "# %%\nfrom tilewise.figures import bars\n\nshow(bars({}))\nx = 1\n",
    "# %%\nfrom tilewise.figures import bars\n\nbars({})\nx = 1\n",
    _faults,
)
