"""Moments and arrays in the compact form that the script reads.

In: moments and buffers. Out: plain dictionaries with short keys, because a run repeats them hundreds of
times, integers as runs, and values to six digits. ``moments.js`` decodes it.
``simulator/browser/stepping.py`` translates this file to JavaScript.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilewise.figures.kinds.stepped.moments import SECTOR_BYTES, Buffer, Moment, Rows, Touch, Watch
from tilewise.figures.values import six_digits


def array_spec(buffer: Buffer, rows: Rows, mine: list[int]) -> dict[str, Any]:
    """Return an array of a run: name, shape, space, bytes per element, and offset in its first sector.

    Args:
        buffer: the array.
        rows: the accesses of the run.
        mine: the indices of those to this array.
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
    """Return a moment without empty parts."""
    spec: dict[str, Any] = {}
    if moment.line != 0:
        spec["l"] = moment.line
    if moment.barrier:
        spec["b"] = 1
    if len(moment.touches) > 0:
        spec["p"] = [_touch_spec(touch) for touch in moment.touches]
    if len(moment.watches) > 0:
        spec["w"] = [_watch_spec(watch) for watch in moment.watches]
    return spec


def _touch_spec(touch: Touch) -> dict[str, Any]:
    spec: dict[str, Any] = {"a": touch.array, "k": touch.kind[0], "i": runs(touch.elements)}
    if touch.threads is not None:
        spec["t"] = runs(touch.threads)
    if touch.values is not None:
        spec["v"] = short(touch.values)
    if touch.sectors > 0:
        spec["s"] = touch.sectors
    if touch.wavefronts > 0:
        spec["f"] = touch.wavefronts
    return spec


def _watch_spec(watch: Watch) -> dict[str, Any]:
    spec: dict[str, Any] = {"n": watch.name, "v": short(watch.values)}
    if watch.threads is not None:
        spec["t"] = runs(watch.threads)
    return spec


def runs(numbers: Sequence[int]) -> list[Any]:
    """Encode integers as runs, ``["r", first, difference, count, ...]``, if that is shorter."""
    encoded: list[Any] = ["r"]
    at = 0
    while at < len(numbers):
        difference = numbers[at + 1] - numbers[at] if at + 1 < len(numbers) else 0
        stop = at + 1
        while stop < len(numbers) and numbers[stop] - numbers[stop - 1] == difference:
            stop += 1
        encoded.append(numbers[at])
        encoded.append(difference)
        encoded.append(stop - at)
        at = stop
    return encoded if len(encoded) - 1 < len(numbers) else list(numbers)


def short(values: Sequence[float]) -> list[Any]:
    """Round values to six digits; equal ones become ``["c", value]``, and non-finite ones names."""
    rounded_values = [six_digits(value) for value in values]
    return ["c", rounded_values[0]] if len(values) > 1 and len(set(rounded_values)) == 1 else rounded_values
