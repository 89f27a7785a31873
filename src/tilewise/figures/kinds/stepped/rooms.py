"""The heights of a stepped figure and its parts, which a page reserves.

In: the figure's specification and texts. Out: two heights in px, for a wide and a narrow page; the heights of
the parts are added to the specification. The script scales its drawing to them.
``simulator/browser/stepping.py`` translates this file to JavaScript.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tilewise.figures.kinds.stepped.moments import WARP

WIDE = 724
CLOSE = 690
NARROW = 328
"""Width of a figure in a window 1,280 px wide; width assumed for its text and a row of threads, so that they
also fit narrower windows; and its width on a phone 360 px wide."""
TIGHT = 420
"""Narrower pages have tight cells for short values of a matrix, and a long key on two lines."""
GAP = 8
LINE = 18
TEXT_LINE = 19
CHARACTER = 6.5
TOOLBAR = 34
LAUNCH = 24
TRANSPORT = 44
HEAD = 22
VALUE = 24
VALUE_WIDTH = 36
WHOLE_WIDTH = 32
SHORT_WIDTH = 20
TIGHT_WIDTH = 19
ELEMENT = 20
EDGE = 4
NAME = 133
"""Width of a cell with a value; of one with at most three characters in a matrix, in shared memory, and in a
matrix on a narrow page; side of a cell without value; an array's border; and a name's space besides its
letters. A row fits 32 short cells, one per lane of a warp; a phone fits two matrices of eight columns."""
MODEL_NAME = 70
"""``NAME`` for an array of a model, which has no sectors to name."""
THREAD = 46
BLOCK = 31
"""Side of a thread's cell, and the space around those of a block."""
LABEL = 17
MARGIN = 8
LEGIBLE = 9
"""Height of a block's name, margin of the threads, and side of a cell below which blocks are folded."""
BANKS_HEIGHT = 44
MOST_ROWS = 24


def heights(spec: dict[str, Any], texts: Sequence[str]) -> list[int]:
    """Return the heights of the whole figure, and store those of its parts in ``spec["rooms"]``."""
    for number, array in enumerate(spec["arrays"]):
        _fit_cells(array, number, spec)
    wide = _parts(spec, texts, WIDE)
    narrow = _parts(spec, texts, NARROW)
    spec["beside"] = _beside(spec)
    spec["rooms"] = {"wide": wide, "narrow": narrow}
    launch = LAUNCH if "grid" in spec else 0
    return [_whole(wide, spec["beside"]), _whole(narrow, False) + launch]


def _fit_cells(array: dict[str, Any], number: int, spec: Mapping[str, Any]) -> None:
    """Give an array narrower cells for short values, and limit shared memory to the rows in use.

    On a narrow page, a matrix of eight columns or more has tight cells for short values, so that it fits.
    """
    if array["space"] == "global":
        return
    touches = [touch for moment in spec["moments"] for touch in moment.get("p", []) if touch["a"] == number]
    values = [value for touch in touches for value in touch.get("v", []) if value != "c"]
    values = [*values, *[value for value in array.get("start", []) if value != "c"]]
    short = len(values) > 0 and all(isinstance(value, int) and -99 <= value <= 999 for value in values)
    if len(array["shape"]) == 2 and short:
        array["wide"] = WHOLE_WIDTH
        if array["shape"][1] >= 8:
            array["tight"] = [TIGHT_WIDTH, TIGHT]
    if array["space"] != "shared" or len(array["shape"]) != 1:
        return
    if short:
        array["wide"] = SHORT_WIDTH
    last = max([_last(touch["i"]) for touch in touches], default=0)
    used = _round_up(last + 1, WARP) * WARP
    if used < array["shape"][0]:
        array["used"] = used


def _round_up(size: int, part: int) -> int:
    return (size + part - 1) // part


def _last(runs: Sequence[Any]) -> int:
    """The largest of integers that may be encoded as runs."""
    if len(runs) == 0 or runs[0] != "r":
        return max(runs, default=0)
    starts = range(1, len(runs), 3)
    most: int = max(max(runs[at], runs[at] + runs[at + 1] * (runs[at + 2] - 1)) for at in starts)
    return most


def _total(size: Sequence[int]) -> int:
    whole = 1
    for part in size:
        whole *= part
    return whole


def _beside(spec: Mapping[str, Any]) -> bool:
    """Whether threads and arrays are side by side on a wide page: unless the launch is a single row."""
    return "grid" in spec and len(spec["arrays"]) > 0 and not _single(spec)


def _single(spec: Mapping[str, Any]) -> bool:
    return all(spec["grid"][axis] * spec["block"][axis] == 1 for axis in [1, 2])


def _parts(spec: Mapping[str, Any], texts: Sequence[str], width: int) -> dict[str, int]:
    wide = width == WIDE
    half = (width - 16) // 2 if wide and _beside(spec) else width
    longest = max(len(text) for text in texts)
    close = min(width, CLOSE)
    parts = {"text": TEXT_LINE * (_lines(longest, close) + _own_lines(spec, close))}
    if "code" in spec:
        lines = len(_without_ends(spec["code"]["text"]).split("\n"))
        parts["code"] = LINE * min(lines, 13 if wide else 9) + 18
    if "grid" in spec:
        least = 120 if wide else 100
        most = 340 if wide else 300
        needed = _row_height(spec, close) if _single(spec) else _sheet_height(spec, half, most)
        parts["stage"] = min(most, max(least, needed))
    if len(spec["arrays"]) > 0:
        room = 340 if wide and "code" in spec else 440
        parts["memory"] = min(
            room, _arrays_height(spec["arrays"], half, 3 * GAP if wide else 2 * GAP)
        ) + _key(spec, half)
        if any(array["space"] == "shared" for array in spec["arrays"]):
            parts["memory"] += BANKS_HEIGHT
    if len(spec["watched"]) > 0:
        of_lanes = "block" in spec and "threads" not in spec  # a model's values aren't those of its threads
        lanes = min(WARP, _total(spec["block"])) if of_lanes else _most_values(spec)
        rows = len(spec["watched"]) * _round_up(lanes, 16 if wide else 8)
        parts["watch"] = HEAD + VALUE * rows + (20 if lanes > 1 else 0)
    return parts


def _without_ends(text: str) -> str:
    """A text without leading and trailing empty lines."""
    while text.startswith("\n"):
        text = text[1:]
    while text.endswith("\n"):
        text = text[: len(text) - 1]
    return text


def _row_height(spec: Mapping[str, Any], width: int) -> int:
    """Height of one-row blocks in lines of at most one warp, side by side if they fit."""
    threads = min(WARP, _total(spec["block"]))
    cell = min(THREAD, width // threads)
    lines = _round_up(_total(spec["grid"]), max(1, width // (threads * cell)))
    return lines * (_round_up(_total(spec["block"]), threads) * cell + BLOCK)


def _sheet_height(spec: Mapping[str, Any], width: int, most: int) -> int:
    """Height of blocks in rows and columns, as ``flat.js`` lays them out on a slightly wider page.

    A launch in three dimensions or drawn in part takes the full height; the former is shown in 3-D too.
    """
    grid = spec["grid"]
    block = spec["block"]
    if grid[2] * block[2] > 1 or _total(grid) * _total(block) > spec["max_threads"]:
        return most
    room = width + width // 10 - MARGIN
    plain = _largest(grid, block, [room, most - MARGIN], False)
    folded = _largest(grid, block, [room, most - MARGIN], True) if plain[0] < LEGIBLE else [0, 0]
    best = folded if folded[0] > plain[0] else plain
    return best[1] + MARGIN if best[0] > 0 else most


def _largest(grid: Sequence[int], block: Sequence[int], room: Sequence[int], folds: bool) -> list[int]:
    """The side of the largest cells that fit, and their height; both 0 if none fit."""
    cell = THREAD
    while cell > 3:
        taken = _sheet(grid, block, room[0], cell, folds)
        if taken[0] <= room[0] and taken[1] <= room[1]:
            return [cell, taken[1]]
        cell -= 2 if cell > 12 else 1
    return [0, 0]


def _sheet(grid: Sequence[int], block: Sequence[int], width: int, cell: int, folds: bool) -> list[int]:
    """Width and height of all blocks with cells of this size."""
    gap = 8 if cell > 10 else 5
    columns = min(WARP, block[0]) if folds and block[1] == 1 else block[0]
    rows = block[1] * _round_up(block[0], columns)
    named = len(f"({grid[0] - 1}, {grid[1] - 1})")
    across = columns * cell + gap
    down = rows * cell + gap + (LABEL if 10 * columns * cell >= 72 * named else 0)
    beside = min(grid[0], max(1, (width + gap) // across)) if folds and grid[1] == 1 else grid[0]
    return [beside * across - gap, grid[1] * _round_up(grid[0], beside) * down - gap]


def _arrays_height(arrays: Sequence[Mapping[str, Any]], width: int, between: int) -> int:
    """Height of arrays side by side, with the gaps of ``style.css``."""
    left = 0
    line = 0
    whole = 0
    for array in arrays:
        size = array.get("used", _total(array["shape"]))
        valued = array["space"] != "global"
        tight = "tight" in array and width < TIGHT
        value_width = TIGHT_WIDTH if tight else array.get("wide", VALUE_WIDTH)
        columns = array["shape"][1] if len(array["shape"]) == 2 else min(WARP, size)
        if len(array["shape"]) != 1 and columns * value_width > width:
            valued = False
        if valued and len(array["shape"]) == 1:
            columns = min(columns, 2 ** ((width // value_width).bit_length() - 1))
        wide = value_width if valued else min(ELEMENT, (width - EDGE) // columns)
        tall = VALUE if valued and not tight else min(ELEMENT, (width - EDGE) // columns)
        name = MODEL_NAME if array["space"] == "model" else NAME
        across = max(columns * wide + EDGE, 7 * len(array["name"]) + name)
        if left > 0 and left + across > width:
            whole += line + GAP
            left = 0
            line = 0
        left += across + between
        line = max(line, HEAD + min(MOST_ROWS, _round_up(size, columns)) * tall + 6)
    return whole + line


def _key(spec: Mapping[str, Any], width: int) -> int:
    """Height of the key: one line, or two if it includes sectors on a narrow page."""
    sectors = any(array["space"] == "global" for array in spec["arrays"])
    return 46 if sectors and width <= TIGHT else 26


def _lines(characters: int, width: int) -> int:
    return min(6, _round_up(int(characters * CHARACTER), width))


def _own_lines(spec: Mapping[str, Any], width: int) -> int:
    """Lines of text on the selected thread."""
    if "threads" in spec:
        return _lines(60, width)
    return _lines(100 + 16 * len(spec["watched"]), width) if "grid" in spec else 0


def _most_values(spec: Mapping[str, Any]) -> int:
    counts = [
        1 if watch["v"][0] == "c" else len(watch["v"])
        for moment in spec["moments"]
        for watch in moment.get("w", [])
    ]
    return max(counts, default=1)


def _whole(parts: Mapping[str, int], beside: bool) -> int:
    taken = [height for name, height in parts.items() if name not in ["stage", "memory"]]
    stage = parts.get("stage", 0)
    memory = parts.get("memory", 0)
    if beside and stage > 0 and memory > 0:
        taken.append(max(stage, memory))
    else:
        taken = [*taken, *[height for height in [stage, memory] if height > 0]]
    return TOOLBAR + TRANSPORT + sum(taken) + GAP * (len(taken) + 1)
