"""Whole lessons: each has a figure, an exercise, and a kernel that is compared with pseudocode."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tilewise.course.lesson import Lesson
from tilewise.course.rules.model import LessonRule
from tilewise.errors import LessonError


def _calls(lesson: Lesson) -> list[str]:
    """The functions that a lesson calls, by name; an import of ``tilewise.figures`` counts as ``figure``."""
    nodes = [node for cell in lesson.code for node in ast.walk(ast.parse(cell.source))]
    figures = [
        node for node in nodes if isinstance(node, ast.ImportFrom) and node.module == "tilewise.figures"
    ]
    calls = [node.func.id for node in nodes if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    return [*calls, *["figure" for _ in figures]]


def _faults(lesson: Lesson) -> Iterator[LessonError]:
    calls, line = _calls(lesson), lesson.cells[-1].last_line
    if lesson.id.endswith("/puzzles"):
        if calls.count("puzzle") < 2:
            repair = 'Add puzzle("<part>/<name>").'
            yield LessonError(lesson.path, line, "a lesson of puzzles has at least two.", repair)
        return
    if "figure" not in calls:
        repair = "Add one: from tilewise.figures import bars, and show(bars(...))."
        yield LessonError(lesson.path, line, "the lesson shows no figure.", repair)
    if "exercise" not in calls:
        repair = 'Add exercise("Title", "Task", answer=..., explanation="...") to the last cell.'
        yield LessonError(lesson.path, line, "the lesson asks for no exercise.", repair)
    if "Kernel" in calls and "agree" not in calls:
        repair = "Write the kernel as pseudocode beside it, and agree(function, KERNEL, cases) below."
        yield LessonError(
            lesson.path, line, "the lesson compares no kernel of its own with pseudocode.", repair
        )


_DONE = "agree(scale, SCALE, [])\nexercise('Double it', 'How?')\n"
WHOLE = LessonRule(
    "whole lessons",
    "A lesson has a figure and an exercise, and compares a kernel with pseudocode; one of puzzles has two.",
    f"# %%\nfrom tilewise.figures import bars\n\n{_DONE}",
    f"# %%\n{_DONE}",
    _faults,
    stops=False,
)
