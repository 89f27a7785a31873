"""Moments and arrays in the form that the script reads.

In: moments and buffers. Out: plain dictionaries with short keys, since a run repeats them hundreds of times,
whole numbers as runs, and values as far as they are read. ``moments.js`` undoes it.
``simulator/browser/stepping.py`` translates this file for the page.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewise.figures.kinds.stepped.moments import SECTOR_BYTES, Buffer, Moment, Rows, Touch, Watch
from tilewise.figures.values import six_digits


def array_spec(buffer: Buffer, rows: Rows, mine: list[int]) -> dict[str, Any]:
    """Return an array of a run: name, shape and space, bytes of an element, where its first sector begins.

    Args:
        buffer: the array.
        rows: the accesses of the run.
        mine: which of them are to this array.
    """
    item = 4
    offset = 0
    if len(mine) > 0:
        item = min(rows.size[at] for at in mine)
        offset = (rows.address[mine[0]] - rows.index[mine[0]] * item) % (4 * SECTOR_BYTES)
    return {
        "name": buffer.name,
        "shape": buffer.shape,
        "space": buffer.space,
        "item": item,
        "offset": offset,
    }


def moment_spec(moment: Moment) -> dict[str, Any]:
    """Return a moment; what it lacks is left out."""
    made: dict[str, Any] = {}
    if moment.line != 0:
        made["l"] = moment.line
    if moment.barrier:
        made["b"] = 1
    if len(moment.touches) > 0:
        made["p"] = [_touch_spec(touch) for touch in moment.touches]
    if len(moment.watches) > 0:
        made["w"] = [_watch_spec(watch) for watch in moment.watches]
    return made


def _touch_spec(touch: Touch) -> dict[str, Any]:
    made: dict[str, Any] = {"a": touch.array, "k": touch.kind[0], "i": runs(touch.elements)}
    if touch.threads is not None:
        made["t"] = runs(touch.threads)
    if touch.values is not None:
        made["v"] = short(touch.values)
    if touch.sectors > 0:
        made["s"] = touch.sectors
    if touch.wavefronts > 0:
        made["f"] = touch.wavefronts
    return made


def _watch_spec(watch: Watch) -> dict[str, Any]:
    made: dict[str, Any] = {"n": watch.name, "v": short(watch.values)}
    if watch.threads is not None:
        made["t"] = runs(watch.threads)
    return made


def runs(numbers: Sequence[int]) -> list[Any]:
    """Return whole numbers; of runs with a common difference, ``["r", first, difference, count, ...]``."""
    made: list[Any] = ["r"]
    at = 0
    while at < len(numbers):
        apart = numbers[at + 1] - numbers[at] if at + 1 < len(numbers) else 0
        stop = at + 1
        while stop < len(numbers) and numbers[stop] - numbers[stop - 1] == apart:
            stop += 1
        made.append(numbers[at])
        made.append(apart)
        made.append(stop - at)
        at = stop
    return made if len(made) - 1 < len(numbers) else list(numbers)


def short(values: Sequence[float]) -> list[Any]:
    """Return values to six digits; equal ones as ``["c", value]``; those that are not finite by name."""
    written = [six_digits(value) for value in values]
    return ["c", written[0]] if len(written) > 1 and len(set(written)) == 1 else written
