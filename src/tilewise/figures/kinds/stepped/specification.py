"""Moments and arrays in the form that the script reads.

In: moments and buffers. Out: plain dictionaries with short keys, since a run repeats them hundreds of times,
whole numbers as runs, and values as far as they are read. ``moments.js`` undoes it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tilewise.figures.kinds.stepped.moments import SECTOR_BYTES, Buffer, Moment, Touch, Watch


def array_spec(
    buffer: Buffer,
    trace: Any = None,
    mine: npt.NDArray[np.bool_] | None = None,
    held: npt.NDArray[np.float64] | None = None,
) -> dict[str, Any]:
    """Return an array: its name, shape and space, bytes of an element, and where its first sector begins.

    Args:
        buffer: the array.
        trace: the accesses of a run, and
        mine: which of them are to this array.
        held: of a model's array, what it holds at first.
    """
    made: dict[str, Any] = {"name": buffer.name, "shape": list(buffer.shape), "space": buffer.space}
    if held is not None:
        return made | {"start": short(held.ravel())}
    item, offset = 4, 0
    if trace is not None and mine is not None and mine.any():
        first = int(np.flatnonzero(mine)[0])
        item = int(np.min(np.asarray(trace.size)[mine]))
        offset = (int(trace.address[first]) - int(trace.index[first]) * item) % (4 * SECTOR_BYTES)
    return made | {"item": item, "offset": offset}


def moment_spec(moment: Moment) -> dict[str, Any]:
    """Return a moment; what it lacks is left out."""
    made: dict[str, Any] = {}
    if moment.line:
        made["l"] = moment.line
    if moment.barrier:
        made["b"] = 1
    if moment.touches:
        made["p"] = [_touch(touch) for touch in moment.touches]
    if moment.watches:
        made["w"] = [_watch(watch) for watch in moment.watches]
    return made


def _touch(touch: Touch) -> dict[str, Any]:
    made: dict[str, Any] = {"a": touch.array, "k": touch.kind[0], "i": runs(touch.elements)}
    if touch.threads is not None:
        made["t"] = runs(touch.threads)
    if touch.values is not None:
        made["v"] = short(touch.values)
    if touch.sectors:
        made["s"] = touch.sectors
    if touch.wavefronts:
        made["f"] = touch.wavefronts
    return made


def _watch(watch: Watch) -> dict[str, Any]:
    made: dict[str, Any] = {"n": watch.name, "v": short(watch.values)}
    return made if watch.threads is None else made | {"t": runs(watch.threads)}


def runs(numbers: npt.NDArray[np.int64]) -> list[Any]:
    """Return whole numbers; of runs with a common difference, ``["r", first, difference, count, ...]``."""
    made: list[Any] = ["r"]
    at, size = 0, len(numbers)
    change = np.diff(numbers)
    while at < size:
        apart = int(change[at]) if at < size - 1 else 0
        stop = at + 1
        while stop < size and change[stop - 1] == apart:
            stop += 1
        made += [int(numbers[at]), apart, stop - at]
        at = stop
    return made if len(made) - 1 < size else [int(number) for number in numbers]


def short(values: npt.NDArray[np.float64]) -> list[Any]:
    """Return values to six digits; equal ones as ``["c", value]``; those that are not finite by name."""
    written = [_one(value) for value in values.tolist()]
    return ["c", written[0]] if len(written) > 1 and len(set(map(str, written))) == 1 else written


def _one(value: float) -> float | int | str:
    if np.isnan(value):
        return "nan"
    if np.isinf(value):
        return "inf" if value > 0 else "-inf"
    if value == round(value) and abs(value) < 2**53:
        return int(value)
    return float(f"{value:.6g}")
