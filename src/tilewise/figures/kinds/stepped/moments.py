"""A run as moments: what the slider of a stepped figure goes through.

In: the accesses of a traced run as columns. Out: for each moment the source line, the threads that touched
memory and where, the values of watched variables, and whether a barrier was passed. Warps that do the same
stand in one moment; what a barrier orders stays in order. ``simulator/browser/stepping.py`` translates this
file for the page: plain lists and loops, no NumPy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

KINDS = ["read", "write", "update"]
SHARED = 1
LOCAL = 2
"""Numbers of spaces in a trace; local are registers that spilled, which are no arrays of the lesson."""
WARP = 32
SECTOR_BYTES = 32
WORD_BYTES = 4
BANKS = 32


@dataclass(frozen=True)
class Rows:
    """The accesses of a trace, column by column, as ``Accesses`` has them; all lists have one length."""

    step: list[int]
    block: list[int]
    warp: list[int]
    lane: list[int]
    line: list[int]
    space: list[int]
    kind: list[int]
    size: list[int]
    buffer: list[int]
    interval: list[int]
    address: list[int]
    index: list[int]
    value: list[float]
    """What went through, in the element's own type."""


@dataclass(frozen=True)
class Values:
    """What a trace saw of one watched variable, column by column, as ``Watched`` has it."""

    step: list[int]
    block: list[int]
    warp: list[int]
    lane: list[int]
    line: list[int]
    value: list[float]
    interval: list[int]


@dataclass(frozen=True)
class Buffer:
    """An array that the run touched."""

    name: str
    shape: list[int]
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
    elements: list[int]
    """Element that each thread touched."""
    values: list[float] | None
    """Value that went through; None where a model does not say it."""
    threads: list[int] | None = None
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
    values: list[float]
    """A value for each thread, or one for all."""
    threads: list[int] | None = None
    """Linear numbers of the threads; None where a model has none."""


@dataclass(frozen=True)
class Moment:
    """One place on the slider."""

    line: int = 0
    """Line of the source, from 1; 0 where none is known."""
    touches: Sequence[Touch] = ()
    watches: Sequence[Watch] = ()
    barrier: bool = False
    """Whether the threads meet at a barrier here."""
    text: str = ""
    """What a model says of it."""


def moments_of(
    rows: Rows,
    watched: Sequence[Values],
    numbers: Sequence[int],
    sizes: Sequence[int] | None,
    threads: int,
    barriers: list[list[int]],
) -> list[Moment]:
    """Return the moments of a traced run.

    Args:
        rows: the accesses.
        watched: the values of watched variables.
        numbers: the buffers to keep; a touch counts them in this order.
        sizes: elements of each of the buffers; what lies beyond is outside. None where nothing can.
        threads: threads of a block.
        barriers: each line with a barrier, and how often a warp passed it; -1 where warps
            differ. Counted down.
    """
    kept = [at for at in range(len(rows.step)) if rows.buffer[at] in numbers and rows.space[at] != LOCAL]
    keys = [[rows.interval[at], 2 * rows.step[at], rows.line[at]] for at in kept]
    entries = [[0, at] for at in kept]
    by_warp = _in_warps(rows, kept)
    for number, values in enumerate(watched):
        for at in range(len(values.step)):
            warp = WARP * values.block[at] + values.warp[at]
            row = _last_before(rows.step, by_warp[warp], values.step[at]) if warp in by_warp else -1
            if row >= 0 and rows.line[row] == values.line[at]:
                keys.append([rows.interval[row], 2 * rows.step[row], rows.line[row]])
            else:
                keys.append([values.interval[at], 2 * values.step[at] + 1, values.line[at]])
            entries.append([number + 1, at])
    moments = []
    intervals = []
    for group in _grouped(keys):
        here = [entries[at][1] for at in group if entries[at][0] == 0]
        touches = _touches(rows, here, numbers, sizes, threads)
        watches = []
        for number, values in enumerate(watched):
            found = [entries[at][1] for at in group if entries[at][0] == number + 1]
            if len(found) > 0:
                watches.append(_watch(number, values, found, threads))
        moments.append(Moment(keys[group[0]][2], touches, watches))
        intervals.append(keys[group[0]][0])
    return _with_barriers(moments, intervals, barriers)


def _in_warps(rows: Rows, kept: list[int]) -> dict[int, list[int]]:
    """The rows of each warp, by step."""
    found: dict[int, list[int]] = {}
    for at in sorted(kept, key=lambda row: rows.step[row]):
        warp = WARP * rows.block[at] + rows.warp[at]
        if warp not in found:
            found[warp] = []
        found[warp].append(at)
    return found


def _last_before(step: list[int], rows: list[int], at_step: int) -> int:
    """The last of a warp's rows up to a step; -1 for none."""
    low = 0
    high = len(rows)
    while low < high:
        middle = (low + high) // 2
        if step[rows[middle]] <= at_step:
            low = middle + 1
        else:
            high = middle
    return rows[low - 1] if low > 0 else -1


def _grouped(keys: list[list[int]]) -> list[list[int]]:
    """Where each key is, for all keys in their order."""
    groups: list[list[int]] = []
    for at in sorted(range(len(keys)), key=lambda one: keys[one]):
        if len(groups) == 0 or _differ(keys[groups[-1][0]], keys[at]):
            groups.append([])
        groups[-1].append(at)
    return groups


def _differ(first: list[int], second: list[int]) -> bool:
    return any(one != other for one, other in zip(first, second, strict=True))


def _watch(number: int, values: Values, found: list[int], threads: int) -> Watch:
    def thread(at: int) -> int:
        return values.block[at] * threads + values.warp[at] * WARP + values.lane[at]

    order = sorted(found, key=thread)
    return Watch(number, [values.value[at] for at in order], [thread(at) for at in order])


def _touches(
    rows: Rows, here: list[int], numbers: Sequence[int], sizes: Sequence[int] | None, threads: int
) -> list[Touch]:
    def thread(at: int) -> int:
        return rows.block[at] * threads + rows.warp[at] * WARP + rows.lane[at]

    made: list[Touch] = []
    for place, number in enumerate(numbers):
        of_array = [at for at in here if rows.buffer[at] == number]
        inside = of_array
        if sizes is not None:
            inside = [at for at in of_array if 0 <= rows.index[at] < sizes[place]]
            beyond = [at for at in of_array if not 0 <= rows.index[at] < sizes[place]]
            if len(beyond) > 0:
                made.append(
                    Touch(
                        place,
                        "outside",
                        [rows.index[at] for at in beyond],
                        None,
                        [thread(at) for at in beyond],
                    )
                )
        for kind, name in enumerate(KINDS):
            picked = sorted([at for at in inside if rows.kind[at] == kind], key=thread)
            if len(picked) == 0:
                continue
            in_shared = rows.space[picked[0]] == SHARED
            made.append(
                Touch(
                    place,
                    name,
                    [rows.index[at] for at in picked],
                    [rows.value[at] for at in picked],
                    [thread(at) for at in picked],
                    len({_warp(rows, at) for at in picked}),
                    0 if in_shared else _sectors(rows, picked),
                    _wavefronts(rows, picked, [thread(at) for at in picked]) if in_shared else 0,
                )
            )
    return made


def _warp(rows: Rows, at: int) -> int:
    return WARP * rows.block[at] + rows.warp[at]


def _sectors(rows: Rows, picked: list[int]) -> int:
    return len({f"{_warp(rows, at)} {rows.address[at] // SECTOR_BYTES}" for at in picked})


def _wavefronts(rows: Rows, picked: list[int], threads: list[int]) -> int:
    """Passes over the banks: for each warp, the most words that lanes want of one bank."""
    words = [rows.address[at] // WORD_BYTES for at in picked]
    different = {f"{thread} {word}" for thread, word in zip(threads, words, strict=True)}
    if max(rows.size[at] for at in picked) > WORD_BYTES or len(set(threads)) < len(different):
        return 0
    wanted = []
    for at, word in zip(picked, words, strict=True):
        wanted.append([_warp(rows, at), word % BANKS, word])
    passes = 0
    most = 0
    count = 0
    before = [-1, -1, -1]
    for one in sorted(wanted, key=lambda word: word):
        if one[0] != before[0]:
            passes += most
            most = 0
        if one[0] != before[0] or one[1] != before[1]:
            count = 0
        if _differ(one, before):
            count += 1
        most = max(most, count)
        before = one
    return passes + most


def barriers_of(counted: list[list[int]], warps: int) -> list[list[int]]:
    """Of lines with barriers and how often all warps passed them: how often each did; -1 if warps differ."""
    return [[line, -1 if count % warps != 0 else count // warps] for line, count in counted]


def _with_barriers(moments: list[Moment], intervals: list[int], barriers: list[list[int]]) -> list[Moment]:
    """Put a moment for each barrier between two intervals; its line is given where only one can be meant."""
    made: list[Moment] = []
    for at, moment in enumerate(moments):
        passed = intervals[at] - intervals[at - 1] if at > 0 else 0
        for _ in range(passed):
            line = _between(moments[at - 1].line, moment.line, [one for one, left in barriers if left != 0])
            for barrier in barriers:
                if line != 0 and barrier[0] == line:
                    barrier[1] -= 1
            made.append(Moment(line, [], [], True))
        made.append(moment)
    return made


def _between(before: int, after: int, lines: list[int]) -> int:
    """The only barrier that stands on the way from one line to another, forwards or round a loop; else 0."""
    if before < after:
        on_the_way = [line for line in lines if before <= line <= after]
    else:
        on_the_way = [line for line in lines if line >= before or line <= after]
    return on_the_way[0] if len(on_the_way) == 1 else 0
