"""Moments and arrays in the form that ``web/figures/stepped.js`` reads.

In: moments and buffers. Out: plain dictionaries with short keys, since a run repeats them hundreds of times.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from tilewise.figures.accesses import Buffer
from tilewise.figures.encoding import runs, short
from tilewise.figures.moments import SECTOR_BYTES, Moment, Touch, Watch


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
