"""A run as moments: what the slider of a stepped figure goes through.

In: a traced run. Out: for each moment the source line, the threads that touched memory and where, the
values of watched variables, and whether a barrier was passed. Warps that do the same stand in one moment;
what a barrier orders stays in order. How a moment is drawn is left to ``stepping`` and the page's script.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewise.figures.dims import WARP, total

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
KINDS = ("read", "write", "update")
SHARED, LOCAL = 1, 2
"""Numbers of spaces in a trace; local are registers that spilled, which are no arrays of the lesson."""
SECTOR_BYTES, WORD_BYTES, BANKS = 32, 4, 32


@dataclass(frozen=True)
class Buffer:
    """An array that the run touched."""

    name: str
    shape: tuple[int, ...]
    """One, or rows and columns."""
    space: str
    """``global`` or ``shared``."""


@dataclass(frozen=True)
class Touch:
    """What threads did to one array in one moment."""

    array: int
    """Its number among the arrays shown."""
    kind: str
    """``read``, ``write``, ``update`` for an atomic, or ``outside`` where no element of the array is."""
    elements: Ints
    """Element that each thread touched."""
    values: Floats | None
    """Value that went through; None where a model does not say it."""
    threads: Ints | None = None
    """Linear numbers of the threads in the launch; None where a model has no threads."""
    requests: int = 0
    """Warps that took part."""
    sectors: int = 0
    """Of global memory: 32-byte sectors, summed over warps."""
    wavefronts: int = 0
    """Of shared memory: passes over the banks, summed over warps; 0 where lanes ask for more than 4 bytes."""


@dataclass(frozen=True)
class Watch:
    """Values of one watched variable, as they are at the end of the moment."""

    name: int
    """Its number among the names watched."""
    values: Floats
    """A value for each thread, or one for all."""
    threads: Ints | None = None
    """Linear numbers of the threads; None where a model has none."""


@dataclass(frozen=True)
class Moment:
    """One place on the slider."""

    line: int = 0
    """Line of the source, from 1; 0 where none is known."""
    touches: tuple[Touch, ...] = ()
    watches: tuple[Watch, ...] = ()
    barrier: bool = False
    """Whether the threads meet at a barrier here."""
    text: str = ""
    """What a model says of it."""


def moments_of(
    run: Any, numbers: Sequence[int], values: Floats, sizes: Sequence[int] | None = None
) -> list[Moment]:
    """Return the moments of a traced run.

    Args:
        run: a run with a trace.
        numbers: the buffers to keep, as in ``run.buffers``; a touch counts them in this order.
        values: what went through in each access, in the elements' own types.
        sizes: elements of each of the buffers; what lies beyond is outside.
    """
    trace, block = run.accesses, total(run.block)
    kept = np.flatnonzero(np.isin(trace.buffer, numbers) & (np.asarray(trace.space) != LOCAL))
    interval, step, line = (
        np.asarray(column, np.int64)[kept] for column in (trace.interval, trace.step, trace.line)
    )
    warp = _warps(trace)[kept]
    keys = [np.stack([interval, 2 * step, line], axis=1)]
    order = np.lexsort((step, warp))
    seen: list[tuple[int, Any, Ints, Ints]] = []
    for number, watched in enumerate(run.watched.values()):
        before = _last_before(warp[order], step[order], _warps(watched), np.asarray(watched.step, np.int64))
        row = np.where(before >= 0, order[before], -1) if len(order) else before
        joins = (row >= 0) & (line[row] == watched.line) if len(line) else np.zeros(len(row), bool)
        alone = np.flatnonzero(~joins)
        seen.append((number, watched, row, joins))
        keys.append(
            np.stack([watched.interval, 2 * np.asarray(watched.step, np.int64) + 1, watched.line], axis=1)[
                alone
            ]
        )
    every, place = np.unique(np.concatenate(keys), axis=0, return_inverse=True)
    place = place.reshape(-1)
    moments = [Moment(int(key[2])) for key in every]
    for at, rows in _grouped(place[: len(kept)]):
        touches = _touches(trace, values, kept[rows], numbers, sizes, block)
        moments[at] = replace(moments[at], touches=touches)
    start = len(kept)
    for number, watched, row, joins in seen:
        where = np.empty(len(joins), np.int64)
        where[joins] = place[: len(kept)][row[joins]]
        where[~joins] = place[start : start + int((~joins).sum())]
        start += int((~joins).sum())
        thread = np.asarray(watched.block, np.int64) * block + np.asarray(watched.warp) * WARP + watched.lane
        for moment, found in _grouped(where):
            rows = found[np.argsort(thread[found], kind="stable")]
            seen_here = Watch(number, np.asarray(watched.value, np.float64)[rows], thread[rows])
            moments[moment] = replace(moments[moment], watches=(*moments[moment].watches, seen_here))
    return _with_barriers(moments, every[:, 0], _barriers(run))


def _warps(rows: Any) -> Ints:
    return np.asarray(rows.block, np.int64) * WARP + np.asarray(rows.warp, np.int64)


def _last_before(warp: Ints, step: Ints, of_warp: Ints, at_step: Ints) -> Ints:
    """Where the last row of the same warp up to a step stands, in rows by warp and step; -1 for none."""
    most = int(max(step.max(initial=0), at_step.max(initial=0))) + 1
    found = np.searchsorted(warp * most + step, of_warp * most + at_step, side="right") - 1
    same = (found >= 0) & (warp[found] == of_warp) if len(warp) else np.zeros(len(found), bool)
    return np.asarray(np.where(same, found, -1), np.int64)


def _grouped(place: Ints) -> list[tuple[int, Ints]]:
    """Each place with the rows that have it, in their order."""
    order = np.argsort(place, kind="stable")
    cuts = np.flatnonzero(np.diff(place[order])) + 1
    return [(int(place[rows[0]]), rows) for rows in np.split(order, cuts) if len(rows)]


def _touches(
    trace: Any, values: Floats, rows: Ints, numbers: Sequence[int], sizes: Sequence[int] | None, block: int
) -> tuple[Touch, ...]:
    made = []
    thread = (
        np.asarray(trace.block, np.int64)[rows] * block
        + np.asarray(trace.warp, np.int64)[rows] * WARP
        + np.asarray(trace.lane, np.int64)[rows]
    )
    for place, number in enumerate(numbers):
        of_array = np.asarray(trace.buffer)[rows] == number
        index = np.asarray(trace.index, np.int64)[rows]
        inside = (index >= 0) & (index < sizes[place]) if sizes else np.ones(len(rows), bool)
        if (beyond := of_array & ~inside).any():
            made.append(Touch(place, "outside", index[beyond], None, thread[beyond]))
        for kind, name in enumerate(KINDS):
            mine = of_array & inside & (np.asarray(trace.kind)[rows] == kind)
            if not mine.any():
                continue
            picked, who = rows[mine], thread[mine]
            ordered = np.argsort(who, kind="stable")
            picked, who = picked[ordered], who[ordered]
            address = np.asarray(trace.address)[picked].astype(np.int64)
            warp = _warps(trace)[picked]
            in_shared = int(np.asarray(trace.space)[picked[0]]) == SHARED
            made.append(
                Touch(
                    place,
                    name,
                    np.asarray(trace.index, np.int64)[picked],
                    values[picked],
                    who,
                    len(np.unique(warp)),
                    0 if in_shared else _distinct(warp, address // SECTOR_BYTES),
                    _wavefronts(warp, who, address, np.asarray(trace.size)[picked]) if in_shared else 0,
                )
            )
    return tuple(made)


def _distinct(*columns: Ints) -> int:
    return len(np.unique(np.stack(columns), axis=1)[0])


def _wavefronts(warp: Ints, thread: Ints, address: Ints, size: Any) -> int:
    """Passes over the banks: for each warp, the most words that lanes want of one bank."""
    if int(size.max()) > WORD_BYTES or len(np.unique(thread)) < len(thread):
        return 0
    pairs = np.unique(np.stack([warp, address // WORD_BYTES % BANKS, address // WORD_BYTES]), axis=1)
    (warps, _), counts = np.unique(pairs[:2], axis=1, return_counts=True)
    return int(sum(counts[warps == one].max() for one in np.unique(warps)))


def _barriers(run: Any) -> dict[int, int]:
    """How often each warp passed the barrier of a line; left open, as -1, where warps differ."""
    warps = total(run.grid) * -(-total(run.block) // WARP)
    passed = {line: counts.barriers for line, counts in sorted(run.lines.items()) if line and counts.barriers}
    return {line: -1 if count % warps else count // warps for line, count in passed.items()}


def _with_barriers(moments: list[Moment], intervals: Ints, left: dict[int, int]) -> list[Moment]:
    """Put a moment for each barrier between two intervals; its line is given where only one can be meant."""
    made: list[Moment] = []
    for at, moment in enumerate(moments):
        for _ in range(int(intervals[at] - intervals[at - 1]) if at else 0):
            line = _between(moments[at - 1].line, moment.line, [one for one, times in left.items() if times])
            if line:
                left[line] -= 1
            made.append(Moment(line, barrier=True))
        made.append(moment)
    return made


def _between(before: int, after: int, lines: Sequence[int]) -> int:
    """The only barrier that stands on the way from one line to another, forwards or round a loop; else 0."""
    if before < after:
        on_the_way = [line for line in lines if before <= line <= after]
    else:
        on_the_way = [line for line in lines if line >= before or line <= after]
    return on_the_way[0] if len(on_the_way) == 1 else 0
