"""A run as moments, the steps of a stepped figure's slider.

In: the accesses of a traced run as columns. Out: for each moment the source line, the threads and elements of
its accesses, the values of watched variables, and whether it is a barrier. Warps that execute the same line
share a moment, but not across a barrier. ``simulator/browser/stepping.py`` translates this file to
JavaScript: plain lists and loops, no NumPy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

KINDS = ["read", "write", "update"]
SHARED = 1
LOCAL = 2
"""Numbers of spaces in a trace; local memory has spilled registers, which are not arrays of the lesson."""
WARP = 32
SECTOR_BYTES = 32
WORD_BYTES = 4
BANKS = 32


@dataclass(frozen=True)
class Rows:
    """The accesses of a trace by column, as in ``Accesses``; all lists have the same length."""

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
    """The value read or written, in the element's type."""


@dataclass(frozen=True)
class Values:
    """A trace's values of one watched variable by column, as in ``Watched``."""

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
    """One size, or rows and columns."""
    space: str
    """``global`` or ``shared``."""


@dataclass(frozen=True)
class Touch:
    """The accesses to one array in one moment."""

    array: int
    """Its index among the arrays shown."""
    kind: str
    """``read``, ``write``, ``update`` for an atomic, or ``outside`` if out of bounds."""
    elements: list[int]
    """The element that each thread accesses."""
    values: list[float] | None
    """The values read or written; None if a model does not define them."""
    threads: list[int] | None = None
    """Linear indices of the threads in the launch; None if a model has no threads."""
    requests: int = 0
    """Number of warps."""
    sectors: int = 0
    """In global memory: 32-byte sectors, summed over warps."""
    wavefronts: int = 0
    """In shared memory: wavefronts, summed over warps; 0 if lanes request more than 4 bytes."""


@dataclass(frozen=True)
class Watch:
    """Values of one watched variable at the end of the moment."""

    name: int
    """Its index among the watched names."""
    values: list[float]
    """One value per thread, or one for all."""
    threads: list[int] | None = None
    """Linear indices of the threads; None if a model has none."""


@dataclass(frozen=True)
class Moment:
    """One position of the slider."""

    line: int = 0
    """Line of the source, from 1; 0 if unknown."""
    touches: Sequence[Touch] = ()
    watches: Sequence[Watch] = ()
    barrier: bool = False
    """Whether the threads synchronise at a barrier."""
    text: str = ""
    """A model's text for it."""


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
        numbers: the buffers to include, in the order of ``Touch.array``.
        sizes: number of elements of each buffer, beyond which an access is outside; None if none can be.
        threads: threads per block.
        barriers: each line with a barrier, and how often a warp passed it; -1 if warps differ. Decremented.
    """
    selected = [at for at in range(len(rows.step)) if rows.buffer[at] in numbers and rows.space[at] != LOCAL]
    keys = [[rows.interval[at], 2 * rows.step[at], rows.line[at]] for at in selected]
    entries = [[0, at] for at in selected]
    by_warp = _in_warps(rows, selected)
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
            matching = [entries[at][1] for at in group if entries[at][0] == number + 1]
            if len(matching) > 0:
                watches.append(_watch(number, values, matching, threads))
        moments.append(Moment(keys[group[0]][2], touches, watches))
        intervals.append(keys[group[0]][0])
    return _with_barriers(moments, intervals, barriers)


def _in_warps(rows: Rows, selected: list[int]) -> dict[int, list[int]]:
    """The rows of each warp, sorted by step."""
    by_warp: dict[int, list[int]] = {}
    for at in sorted(selected, key=lambda row: rows.step[row]):
        warp = WARP * rows.block[at] + rows.warp[at]
        if warp not in by_warp:
            by_warp[warp] = []
        by_warp[warp].append(at)
    return by_warp


def _last_before(step: list[int], rows: list[int], at_step: int) -> int:
    """A warp's last row up to a step; -1 if there is none."""
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
    """The indices of equal keys, in the order of the keys."""
    groups: list[list[int]] = []
    for at in sorted(range(len(keys)), key=lambda index: keys[index]):
        if len(groups) == 0 or _differ(keys[groups[-1][0]], keys[at]):
            groups.append([])
        groups[-1].append(at)
    return groups


def _differ(first: list[int], second: list[int]) -> bool:
    return any(a != b for a, b in zip(first, second, strict=True))


def _watch(number: int, values: Values, selected: list[int], threads: int) -> Watch:
    def thread(at: int) -> int:
        return values.block[at] * threads + values.warp[at] * WARP + values.lane[at]

    order = sorted(selected, key=thread)
    return Watch(number, [values.value[at] for at in order], [thread(at) for at in order])


def _touches(
    rows: Rows, here: list[int], numbers: Sequence[int], sizes: Sequence[int] | None, threads: int
) -> list[Touch]:
    def thread(at: int) -> int:
        return rows.block[at] * threads + rows.warp[at] * WARP + rows.lane[at]

    touches: list[Touch] = []
    for place, number in enumerate(numbers):
        of_array = [at for at in here if rows.buffer[at] == number]
        inside = of_array
        if sizes is not None:
            inside = [at for at in of_array if 0 <= rows.index[at] < sizes[place]]
            beyond = [at for at in of_array if not 0 <= rows.index[at] < sizes[place]]
            if len(beyond) > 0:
                touches.append(
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
            touches.append(
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
    return touches


def _warp(rows: Rows, at: int) -> int:
    return WARP * rows.block[at] + rows.warp[at]


def _sectors(rows: Rows, picked: list[int]) -> int:
    return len({f"{_warp(rows, at)} {rows.address[at] // SECTOR_BYTES}" for at in picked})


def _wavefronts(rows: Rows, picked: list[int], threads: list[int]) -> int:
    """Wavefronts: for each warp, the most different words that lanes access in one bank."""
    words = [rows.address[at] // WORD_BYTES for at in picked]
    different = {f"{thread} {word}" for thread, word in zip(threads, words, strict=True)}
    if max(rows.size[at] for at in picked) > WORD_BYTES or len(set(threads)) < len(different):
        return 0
    wanted = []
    for at, word in zip(picked, words, strict=True):
        wanted.append([_warp(rows, at), word % BANKS, word])
    wavefronts = 0
    most = 0
    count = 0
    before = [-1, -1, -1]
    for access in sorted(wanted, key=lambda word: word):
        if access[0] != before[0]:
            wavefronts += most
            most = 0
        if access[0] != before[0] or access[1] != before[1]:
            count = 0
        if _differ(access, before):
            count += 1
        most = max(most, count)
        before = access
    return wavefronts + most


def barriers_of(counted: list[list[int]], warps: int) -> list[list[int]]:
    """Convert each line's barrier count over all warps to a count per warp; -1 if warps differ."""
    return [[line, -1 if count % warps != 0 else count // warps] for line, count in counted]


def _with_barriers(moments: list[Moment], intervals: list[int], barriers: list[list[int]]) -> list[Moment]:
    """Insert a moment for each barrier between two intervals, with its line if that is unambiguous."""
    result: list[Moment] = []
    for at, moment in enumerate(moments):
        passed = intervals[at] - intervals[at - 1] if at > 0 else 0
        for _ in range(passed):
            line = _between(
                moments[at - 1].line, moment.line, [candidate for candidate, left in barriers if left != 0]
            )
            for barrier in barriers:
                if line != 0 and barrier[0] == line:
                    barrier[1] -= 1
            result.append(Moment(line, [], [], True))
        result.append(moment)
    return result


def _between(before: int, after: int, lines: list[int]) -> int:
    """The only barrier between two lines, forwards or around a loop; 0 if there are several or none."""
    if before < after:
        on_the_way = [line for line in lines if before <= line <= after]
    else:
        on_the_way = [line for line in lines if line >= before or line <= after]
    return on_the_way[0] if len(on_the_way) == 1 else 0
