"""How much room a stepped figure needs, part by part, so that a page can reserve it.

In: the figure's specification and texts. Out: two heights in px, for a wide and a narrow page; the
specification takes the heights of its parts. What stands in a part is left to ``web/figures/stepped.js``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tilewise.figures.dims import WARP, total
from tilewise.figures.flat_room import flat_height

WIDE, NARROW = 690, 320
GAP = 8
LINE, TEXT_LINE, CHARACTER = 18, 19, 6.5
TOOLBAR, LAUNCH, TRANSPORT = 34, 24, 44
HEAD, VALUE = 22, 24
VALUE_WIDTH, SMALLEST, LARGEST, ROW = 38, 6, 20, 32
BANKS_HEIGHT = 44
CHARACTER_HEAD, HEAD_ROOM = 7, 19
MOST_ROWS = 24


def heights(spec: dict[str, Any], texts: Sequence[str]) -> tuple[int, int]:
    """Return the heights of the whole figure, and put those of its parts into ``spec["rooms"]``."""
    rooms = {"wide": _parts(spec, texts, WIDE), "narrow": _parts(spec, texts, NARROW)}
    spec["beside"] = _beside(spec)
    spec["rooms"] = rooms
    return _whole(rooms["wide"], spec["beside"]), _whole(rooms["narrow"], False) + (
        LAUNCH if "grid" in spec else 0
    )


def _beside(spec: Mapping[str, Any]) -> bool:
    """Whether threads and arrays stand side by side on a wide page: where the launch is no single row."""
    if "grid" not in spec or not spec["arrays"]:
        return False
    return any(spec["grid"][axis] * spec["block"][axis] > 1 for axis in (1, 2))


def _parts(spec: Mapping[str, Any], texts: Sequence[str], width: int) -> dict[str, int]:
    wide = width == WIDE
    half = (width - 16) // 2 if wide and _beside(spec) else width
    parts = {"text": TEXT_LINE * (_lines(max(map(len, texts)), width) + _own_lines(spec, width))}
    if "code" in spec:
        lines = len(spec["code"]["text"].strip("\n").split("\n"))
        parts["code"] = LINE * min(lines, 13 if wide else 9) + 18
    if "grid" in spec:
        grid, block = spec["grid"], spec["block"]
        least, most = (120, 340) if wide else (140, 300)
        count = min(total(grid) * total(block), spec["max_threads"])
        parts["stage"] = max(least, flat_height(grid, block, half, most, count))
    if spec["arrays"]:
        most = 340 if wide else 440
        parts["cell"] = next(
            (cell for cell in range(LARGEST, 9, -1) if arrays_height(spec["arrays"], half, cell) <= most), 9
        )
        parts["memory"] = min(most, max(60, arrays_height(spec["arrays"], half, parts["cell"]))) + _key(half)
        if any(one["space"] == "shared" for one in spec["arrays"]):
            parts["memory"] += BANKS_HEIGHT
    if spec["watched"]:
        lanes = min(WARP, total(spec["block"])) if "block" in spec else _most_values(spec)
        rows = len(spec["watched"]) * -(-lanes // (16 if wide else 8))
        parts["watch"] = HEAD + VALUE * rows + (20 if lanes > 1 else 0)
    return parts


def _key(width: int) -> int:
    """The signs' meanings take one line or two."""
    return 26 if width > 420 else 46


def _lines(characters: int, width: int) -> int:
    return min(6, -(-int(characters * CHARACTER) // width))


def _own_lines(spec: Mapping[str, Any], width: int) -> int:
    """Lines that say what the selected thread does."""
    return _lines(100 + 16 * len(spec["watched"]), width) if "grid" in spec else 0


def _most_values(spec: Mapping[str, Any]) -> int:
    counts = [
        1 if watch["v"][0] == "c" else len(watch["v"])
        for moment in spec["moments"]
        for watch in moment.get("w", ())
    ]
    return max(counts, default=1)


def _whole(parts: Mapping[str, int], beside: bool) -> int:
    taken = {name: height for name, height in parts.items() if name != "cell"}
    if beside and "stage" in taken and "memory" in taken:
        taken["stage"] = max(taken["stage"], taken.pop("memory"))
    return TOOLBAR + TRANSPORT + sum(taken.values()) + GAP * (len(taken) + 1)


def arrays_height(arrays: Sequence[Mapping[str, Any]], width: int, largest: int) -> int:
    """Return the height of arrays set side by side as far as they go, as ``cells.js`` sets them."""
    left = line = whole = 0
    for array in arrays:
        columns, wide, tall = laid_out(array, width, largest)
        rows = min(MOST_ROWS, -(-int(np.prod(array["shape"])) // columns))
        box = max(columns * wide, CHARACTER_HEAD * (len(array["name"]) + HEAD_ROOM))
        if left and left + 24 + box > width:
            whole, left, line = whole + line + GAP, 0, 0
        left += box + (24 if left else 0)
        line = max(line, HEAD + rows * tall + 6)
    return whole + line


def laid_out(array: Mapping[str, Any], width: int, largest: int) -> tuple[int, int, int]:
    """Return the columns of an array's drawing, and width and height of a cell, as ``cells.js`` has them."""
    shape = array["shape"]
    size = int(np.prod(shape))
    valued = array["space"] != "global"
    if len(shape) == 2:
        columns = shape[1]
        if valued and columns * VALUE_WIDTH <= width:
            return columns, VALUE_WIDTH, VALUE
        cell = int(np.clip((width - 4) // columns, SMALLEST, largest))
        return columns, cell, cell
    if valued:
        fits = min(size, 2 ** int(np.log2(max(1, width // VALUE_WIDTH))))
        return fits, VALUE_WIDTH, VALUE
    columns = min(ROW, size)
    cell = int(np.clip((width - 4) // columns, SMALLEST, largest))
    return columns, cell, cell
