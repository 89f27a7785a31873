"""A stepped figure at a telling moment, small and still: its code, its threads, its arrays.

In: the specification of a stepped figure. Out: shapes in a drawing. Lines of code are bars, as long as they
are; the line of the moment, the threads that act and the elements that they touch stand out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tilewise.figures import dims
from tilewise.figures.small_drawing import HEIGHT, WIDTH, SmallDrawing

_MARGIN = 8.0
_MOST_LINES, _MOST_COLUMNS = 24, 60
_LARGEST_CELL = 14.0
_TOUCHES = {"r": "read", "w": "write"}


def draw_steps(drawing: SmallDrawing, spec: Mapping[str, Any]) -> None:
    """Draw a stepped figure: code on the left, then threads, then arrays, as far as it has them."""
    moment = _telling(spec)
    left = _MARGIN
    columns = [name for name in ("code", "grid", "arrays") if spec.get(name)]
    share = (WIDTH - _MARGIN) / len(columns)
    for name in columns:
        area = (left, share - _MARGIN)
        if name == "code":
            _draw_code(drawing, spec["code"]["text"], moment.get("l", 0), area)
        elif name == "grid":
            _draw_threads(drawing, spec, moment, area)
        else:
            _draw_arrays(drawing, spec["arrays"], moment, area)
        left += share


def _telling(spec: Mapping[str, Any]) -> Mapping[str, Any]:
    """The first moment from the start on in which something is touched."""
    moments: Sequence[Mapping[str, Any]] = spec["moments"]
    order = [*moments[spec["start"] :], *moments]
    return next((moment for moment in order if moment.get("p")), moments[0])


def _whole(written: Sequence[Any]) -> list[int]:
    """Whole numbers from the short form of ``encoding.runs``."""
    if not written or written[0] != "r":
        return [int(number) for number in written]
    rest = written[1:]
    return [
        first + apart * step
        for first, apart, count in zip(rest[::3], rest[1::3], rest[2::3], strict=True)
        for step in range(count)
    ]


def _draw_code(drawing: SmallDrawing, text: str, line: int, area: tuple[float, float]) -> None:
    lines = text.rstrip("\n").split("\n")
    first = max(0, min(line - _MOST_LINES // 2, len(lines) - _MOST_LINES))
    pitch = min((HEIGHT - 2 * _MARGIN) / min(len(lines), _MOST_LINES), 11.0)
    across = area[1] / _MOST_COLUMNS
    for row, source in enumerate(lines[first : first + _MOST_LINES]):
        indent = len(source) - len(source.lstrip())
        long = min(len(source.strip()), _MOST_COLUMNS - indent)
        top = _MARGIN + row * pitch
        if first + row + 1 == line:
            drawing.box("tile", (area[0] - 3, top - pitch * 0.2), (area[1] + 3, pitch * 0.95), 0.28)
        drawing.box("muted", (area[0] + indent * across, top), (long * across, pitch * 0.5), 0.65)


def _draw_threads(
    drawing: SmallDrawing, spec: Mapping[str, Any], moment: Mapping[str, Any], area: tuple[float, float]
) -> None:
    """The lowest layer of threads; those that act in full colour, each block with a frame."""
    grid, block = spec["grid"], spec["block"]
    every = dims.threads(tuple(grid), tuple(block), spec["max_threads"])
    acting = np.zeros(len(every.position), dtype=bool)
    for touch in moment.get("p", ()):
        here = [thread for thread in _whole(touch.get("t", ())) if thread < len(acting)]
        acting[here] = True
    layer = every.position[:, 2] == 0
    wide, deep = grid[0] * block[0], grid[1] * block[1]
    side = min(area[1] / wide, (HEIGHT - 2 * _MARGIN) / deep, _LARGEST_CELL)
    top = (HEIGHT - side * deep) / 2
    gap = 1.0 if side > 3 else 0.3
    for (x, y, _), acts in zip(every.position[layer].tolist(), acting[layer].tolist(), strict=True):
        at = (area[0] + x * side, top + y * side)
        drawing.box("block", at, (side - gap, side - gap), 1.0 if acts else 0.25)
    for column in range(grid[0]):
        for row in range(grid[1]):
            at = (area[0] + column * block[0] * side - 0.5, top + row * block[1] * side - 0.5)
            drawing.frame("block", at, (block[0] * side, block[1] * side))


def _draw_arrays(
    drawing: SmallDrawing,
    arrays: Sequence[Mapping[str, Any]],
    moment: Mapping[str, Any],
    area: tuple[float, float],
) -> None:
    """The arrays below each other, in cells of one size; read and written elements in their colours."""
    shapes = [array["shape"] if len(array["shape"]) == 2 else [1, array["shape"][0]] for array in arrays]
    shapes = [_folded(rows, columns) for rows, columns in shapes]
    room = HEIGHT - 2 * _MARGIN - 6.0 * (len(arrays) - 1)
    side = min(
        area[1] / max(columns for _, columns in shapes), room / sum(rows for rows, _ in shapes), _LARGEST_CELL
    )
    top = (HEIGHT - side * sum(rows for rows, _ in shapes) - 6.0 * (len(arrays) - 1)) / 2
    touched: dict[int, dict[int, str]] = {}
    for touch in moment.get("p", ()):
        here = touched.setdefault(touch["a"], {})
        for element in _whole(touch["i"]):
            here[element] = _TOUCHES.get(touch["k"], "tile")
    for number, (array, (rows, columns)) in enumerate(zip(arrays, shapes, strict=True)):
        elements = int(np.prod(array["shape"]))
        roles = touched.get(number, {})
        for element in range(min(elements, rows * columns)):
            at = (area[0] + element % columns * side, top + element // columns * side)
            gap = 1.0 if side > 3 else 0.3
            role = roles.get(element)
            drawing.box(role or "muted", at, (side - gap, side - gap), 1.0 if role else 0.25)
        top += rows * side + 6.0


def _folded(rows: int, columns: int) -> tuple[int, int]:
    """The shape in which an array is drawn: a long row goes on in the next line."""
    if rows == 1 and columns > 16:
        return -(-columns // 16), 16
    return rows, columns
