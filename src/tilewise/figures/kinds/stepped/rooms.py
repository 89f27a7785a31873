"""How much room a stepped figure gets, part by part, so that a page can reserve it.

In: the figure's specification and texts. Out: two heights in px, for a wide and a narrow page; the
specification takes the heights of its parts. The script fits what it draws into them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tilewise.figures.dims import WARP, total

WIDE, NARROW = 690, 320
GAP = 8
LINE, TEXT_LINE, CHARACTER = 18, 19, 6.5
TOOLBAR, LAUNCH, TRANSPORT = 34, 24, 44
HEAD, VALUE = 22, 24
VALUE_WIDTH, SHORT_WIDTH, ELEMENT, NAME = 38, 20, 20, 133
"""Width of a cell with a value, of one with at most three characters, side of one without, and what a name
needs besides its letters. A row has room for 32 short ones, a word for each lane of a warp."""
THREAD, BLOCK = 46, 31
"""Side of a thread's cell, and what stands around those of a block."""
BANKS_HEIGHT = 44
MOST_ROWS = 24


def heights(spec: dict[str, Any], texts: Sequence[str]) -> tuple[int, int]:
    """Return the heights of the whole figure, and put those of its parts into ``spec["rooms"]``."""
    for number, array in enumerate(spec["arrays"]):
        _fit_cells(array, number, spec)
    rooms = {"wide": _parts(spec, texts, WIDE), "narrow": _parts(spec, texts, NARROW)}
    spec["beside"] = _beside(spec)
    spec["rooms"] = rooms
    return _whole(rooms["wide"], spec["beside"]), _whole(rooms["narrow"], False) + (
        LAUNCH if "grid" in spec else 0
    )


def _fit_cells(array: dict[str, Any], number: int, spec: Mapping[str, Any]) -> None:
    """Let an array in shared memory have narrow cells for short values, and only rows that the run uses."""
    if array["space"] != "shared" or len(array["shape"]) != 1:
        return
    touches = [touch for one in spec["moments"] for touch in one.get("p", ()) if touch["a"] == number]
    values = [value for touch in touches for value in touch.get("v", ()) if value != "c"]
    if values and all(isinstance(value, int) and -99 <= value <= 999 for value in values):
        array["wide"] = SHORT_WIDTH
    last = max((_last(touch["i"]) for touch in touches), default=0)
    used = -(-(last + 1) // WARP) * WARP
    if used < array["shape"][0]:
        array["used"] = used


def _last(runs: Sequence[Any]) -> int:
    """The largest of whole numbers that may be written as runs."""
    if runs[:1] != ["r"]:
        return max(runs, default=0)
    parts = zip(runs[1::3], runs[2::3], runs[3::3], strict=True)
    return max((max(first, first + apart * (count - 1)) for first, apart, count in parts), default=0)


def _beside(spec: Mapping[str, Any]) -> bool:
    """Whether threads and arrays stand side by side on a wide page: where the launch is no single row."""
    return "grid" in spec and bool(spec["arrays"]) and not _single(spec)


def _single(spec: Mapping[str, Any]) -> bool:
    return all(spec["grid"][axis] * spec["block"][axis] == 1 for axis in (1, 2))


def _parts(spec: Mapping[str, Any], texts: Sequence[str], width: int) -> dict[str, int]:
    wide = width == WIDE
    half = (width - 16) // 2 if wide and _beside(spec) else width
    parts = {"text": TEXT_LINE * (_lines(max(map(len, texts)), width) + _own_lines(spec, width))}
    if "code" in spec:
        lines = len(spec["code"]["text"].strip("\n").split("\n"))
        parts["code"] = LINE * min(lines, 13 if wide else 9) + 18
    if "grid" in spec:
        least, most = (120, 340) if wide else (140, 300)
        parts["stage"] = min(most, max(least, _row_height(spec, width))) if _single(spec) else most
    if spec["arrays"]:
        parts["memory"] = min(340 if wide else 440, max(60, _arrays_height(spec["arrays"], half))) + _key(
            half
        )
        if any(one["space"] == "shared" for one in spec["arrays"]):
            parts["memory"] += BANKS_HEIGHT
    if spec["watched"]:
        lanes = min(WARP, total(spec["block"])) if "block" in spec else _most_values(spec)
        rows = len(spec["watched"]) * -(-lanes // (16 if wide else 8))
        parts["watch"] = HEAD + VALUE * rows + (20 if lanes > 1 else 0)
    return parts


def _row_height(spec: Mapping[str, Any], width: int) -> int:
    """Blocks of one row of threads, each on lines of a warp at most, side by side as far as they go."""
    threads = min(WARP, total(spec["block"]))
    cell = min(THREAD, width // threads)
    lines = -(-total(spec["grid"]) // max(1, width // (threads * cell)))
    return lines * (-(-total(spec["block"]) // threads) * cell + BLOCK)


def _arrays_height(arrays: Sequence[Mapping[str, Any]], width: int) -> int:
    """Arrays side by side as far as they go."""
    left = line = whole = 0
    for array in arrays:
        size, valued = array.get("used", int(np.prod(array["shape"]))), array["space"] != "global"
        value_width = array.get("wide", VALUE_WIDTH)
        columns = array["shape"][1] if len(array["shape"]) == 2 else min(WARP, size)
        valued &= len(array["shape"]) == 1 or columns * value_width <= width
        if valued and len(array["shape"]) == 1:
            columns = min(columns, 2 ** ((width // value_width).bit_length() - 1))
        wide, tall = (value_width, VALUE) if valued else (min(ELEMENT, width // columns),) * 2
        across = max(columns * wide, 7 * len(array["name"]) + NAME)
        if left and left + across > width:
            whole, left, line = whole + line + GAP, 0, 0
        left += across + 3 * GAP
        line = max(line, HEAD + min(MOST_ROWS, -(-size // columns)) * tall + 6)
    return whole + line


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
    taken = dict(parts)
    if beside and "stage" in taken and "memory" in taken:
        taken["stage"] = max(taken["stage"], taken.pop("memory"))
    return TOOLBAR + TRANSPORT + sum(taken.values()) + GAP * (len(taken) + 1)
