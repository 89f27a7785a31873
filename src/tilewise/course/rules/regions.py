"""Regions of tabs: corresponding lines of pseudocode and kernel are highlighted together.

A kernel's region that the lesson shows alone by ``region("name")`` needs no counterpart.
"""

from __future__ import annotations

from collections.abc import Iterator

from tilewise.course.lesson import Cell, Lesson
from tilewise.course.rules.model import LessonRule
from tilewise.errors import LessonError, nearest
from tilewise.outputs.kernel import MARKER


def _faults(lesson: Lesson) -> Iterator[LessonError]:
    for members in lesson.tab_sets:
        regions: dict[int, dict[str, int]] = {}
        for index in members:
            try:
                regions[index] = _regions(lesson.cells[index])
            except LessonError as error:
                yield error
        if len(regions) < len(members):
            continue  # missing counterparts may only be a consequence
        for index, own in regions.items():
            elsewhere = {name for tab, names in regions.items() if tab != index for name in names}
            for name, line in own.items():
                if name in elsewhere or f'region("{name}")' in lesson.text:
                    continue
                message = f'no tab beside "{lesson.cells[index].tab}" has a region "{name}".'
                repair = f"Mark the lines that belong to it by [{name} and {name}], or delete these markers."
                yield LessonError(lesson.path, line, message, f"{repair} {nearest(name, elsewhere)}".strip())


def _regions(cell: Cell) -> dict[str, int]:
    """The regions of a cell by name, each with its opening line in the file."""
    opened: dict[str, int] = {}
    regions: dict[str, int] = {}
    lines = cell.source.split("\n")
    for number, text in enumerate(lines, start=cell.source_line):
        marker = MARKER.match(text)
        if marker is None:
            continue
        if name := marker["opens"]:
            if name in opened or name in regions:
                message = f'region "{name}" is opened twice in this tab.'
                raise LessonError(cell.path, number, message, "Give each region its own name.")
            opened[name] = number
            continue
        name = marker["closes"]
        if name not in opened:
            message = f'region "{name}" is closed but not open.'
            raise LessonError(cell.path, number, message, f'Put a comment "[{name}" before its first line.')
        inside = lines[opened[name] + 1 - cell.source_line : number - cell.source_line]
        if all(not line.strip() or MARKER.match(line) for line in inside):
            repair = "Put its lines between the markers."
            raise LessonError(cell.path, number, f'region "{name}" is empty.', repair)
        regions[name] = opened.pop(name)
    for name, number in opened.items():
        repair = f'Put a comment "{name}]" after its last line.'
        raise LessonError(cell.path, number, f'region "{name}" is never closed.', repair)
    return regions


REGIONS = LessonRule(
    "regions",
    "Lines of tabs that belong together stand between # [name and # name], or // [name and // name].",
    '# %% tab="A"\n# [load\nx = 1\n# load]\n\n# %% tab="B"\n# [load\ny = 1\n# load]\n',
    '# %% tab="A"\n# [load\nx = 1\n# load]\n\n# %% tab="B"\ny = 1\n',
    _faults,
)
