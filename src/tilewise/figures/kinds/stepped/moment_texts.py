"""The text version of a stepped figure.

In: moments and buffers. Out: a line for each moment. ``simulator/browser/stepping.py`` translates this file
to JavaScript.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tilewise.figures.kinds.stepped.moments import Buffer, Moment, Touch, Watch
from tilewise.figures.values import number

MOST_RANGES = 4


def texts_of(
    moments: Sequence[Moment], buffers: Sequence[Buffer], watched: Sequence[str], each: int = 0
) -> list[str]:
    """Return one line for each moment, e.g. ``Step 3, line 5: threads 0 to 31 read x[0 to 31].``.

    Args:
        moments: the moments.
        buffers: the arrays that they access.
        watched: names of the watched variables.
        each: threads per block, to describe shared memory by block; 0 if a model has none.
    """
    texts = []
    for at, moment in enumerate(moments):
        line = f", line {moment.line}" if moment.line != 0 else ""
        texts.append(f"Step {at + 1}{line}: {_text(moment, buffers, watched, each)}")
    return texts


def _text(moment: Moment, buffers: Sequence[Buffer], watched: Sequence[str], each: int) -> str:
    if moment.barrier:
        return "the threads of a block synchronise at the barrier."
    parts = []
    if moment.text == "":
        parts = [_touch(touch, buffers[touch.array], each) for touch in moment.touches]
    alone = len(moment.touches) == 0
    for watch in moment.watches:
        parts.append(_watch(watch, watched[watch.name], alone))
    values = "; ".join(parts) + "." if len(parts) > 0 else ""
    return f"{moment.text} {values}".strip() if moment.text != "" else values


def _touch(touch: Touch, buffer: Buffer, each: int) -> str:
    where = f"{buffer.name}{element_text(touch.elements, buffer.shape)}"
    cost = _cost(touch)
    if touch.threads is None:
        return f"{touch.kind} {where}{cost}"
    blocks = (
        _uniform_blocks(touch.threads, touch.elements, each) if each > 0 and buffer.space == "shared" else []
    )
    threads = touch.threads
    within = ""
    if len(blocks) > 0:
        threads = [thread % each for thread in touch.threads]
        within = _within(blocks)
    several = len(set(threads)) > 1
    who = f"{within}{_who(threads)}"
    if touch.kind == "outside":
        verb = "access" if several else "accesses"
        return f"{who} {verb} {buffer.name} out of bounds at [{ranges(touch.elements)}]"
    verb = touch.kind if several else touch.kind + "s"
    return f"{who} {verb} {where}{cost}"


def _uniform_blocks(threads: list[int], elements: list[int], each: int) -> list[int]:
    """The blocks of some threads if all do the same in their own shared memory.

    Empty if they differ, or for block 0 alone, whose threads have the same numbers in the launch.
    """
    blocks = sorted({thread // each for thread in threads})
    part = len([thread for thread in threads if thread // each == blocks[0]])
    if blocks[-1] == 0 or len(threads) != part * len(blocks):
        return []
    for at, thread in enumerate(threads):
        if thread // each != blocks[at // part] or thread % each != threads[at % part] % each:
            return []
        if elements[at] != elements[at % part]:
            return []
    return blocks


def _within(blocks: list[int]) -> str:
    if len(blocks) == 1:
        return f"in block {blocks[0]}, "
    named = f"blocks {blocks[0]} and {blocks[1]}" if len(blocks) == 2 else _several(blocks, "block")
    return f"in each of {named}, "


def _who(threads: list[int]) -> str:
    return _several(threads, "thread")


def _several(threads: list[int], name: str) -> str:
    """Threads or blocks by number if they form one or two ranges, otherwise their count."""
    numbers = sorted(set(threads))
    if len(_groups(numbers)) > 2:
        return f"{len(numbers):,} {name}s"
    names = f"{name}s" if len(numbers) > 1 else name
    return f"{names} {ranges(numbers)}"


def _cost(touch: Touch) -> str:
    """Sectors or wavefronts, summed over warps, because each warp has its own."""
    warps = f", summed over {touch.requests} warps" if touch.requests > 1 else ""
    if touch.sectors > 0:
        name = "sector" if touch.sectors == 1 else "sectors"
        return f" in {touch.sectors} {name} of 32 bytes{warps}"
    if touch.wavefronts == touch.requests:
        return ", no bank conflict"
    if touch.wavefronts > 0:
        return f" in {touch.wavefronts} wavefronts instead of {touch.requests}{warps}"
    return ""


def _watch(watch: Watch, name: str, alone: bool) -> str:
    assignment = f"{name} {_values(watch.values)}"
    if not alone or watch.threads is None:
        return assignment
    return f"{assignment} in {_who(watch.threads)}"


def _values(values: list[float]) -> str:
    if all(value == values[0] for value in values) or all(math.isnan(value) for value in values):
        return f"= {number(values[0])}"
    if len(values) <= 4:
        return f"= {', '.join([number(value) for value in values])}"
    if all(values[at] - values[at - 1] == 1 for at in range(1, len(values))):
        return f"= {number(values[0])} to {number(values[-1])}"
    finite = [value for value in values if math.isfinite(value)]
    if len(finite) == 0:
        return "is not finite"
    return f"ranges from {number(min(finite))} to {number(max(finite))}"


def element_text(elements: list[int], shape: list[int]) -> str:
    """Return elements as indices: ``[0 to 3]``, or ``[0][0 to 3]`` of a matrix."""
    if len(shape) == 2:
        rows = sorted({element // shape[1] for element in elements})
        columns = sorted({element % shape[1] for element in elements})
        if len(rows) * len(columns) == len(set(elements)):
            return f"[{ranges(rows)}][{ranges(columns)}]"
    return f"[{ranges(elements)}]"


def ranges(numbers: list[int]) -> str:
    """Return integers as ranges, e.g. ``0 to 3, 8``, and a count of those beyond ``MOST_RANGES``."""
    groups = _groups(sorted(set(numbers)))
    texts = [
        f"{group[0]}" if group[0] == group[1] else f"{group[0]} to {group[1]}"
        for group in groups[:MOST_RANGES]
    ]
    rest = sum(group[1] - group[0] + 1 for group in groups[MOST_RANGES:])
    more = f" and {rest} more" if rest > 0 else ""
    return ", ".join(texts) + more


def _groups(numbers: list[int]) -> list[list[int]]:
    """The first and last of each run of consecutive numbers; ``numbers`` is sorted."""
    groups: list[list[int]] = []
    for value in numbers:
        if len(groups) > 0 and groups[-1][1] + 1 == value:
            groups[-1][1] = value
        else:
            groups.append([value, value])
    return groups
