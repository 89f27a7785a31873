"""What a stepped figure says at each moment, as lines of its text version.

In: moments and buffers. Out: a line each. ``simulator/browser/stepping.py`` translates this file for the
page.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from tilewise.figures.kinds.stepped.moments import Buffer, Moment, Touch, Watch
from tilewise.figures.values import number

MOST_RANGES = 4


def texts_of(moments: Sequence[Moment], buffers: Sequence[Buffer], watched: Sequence[str]) -> list[str]:
    """Return one line for each moment, e.g. ``Step 3, line 5: threads 0 to 31 read x[0 to 31].``."""
    texts = []
    for at, moment in enumerate(moments):
        line = f", line {moment.line}" if moment.line != 0 else ""
        texts.append(f"Step {at + 1}{line}: {_said(moment, buffers, watched)}")
    return texts


def _said(moment: Moment, buffers: Sequence[Buffer], watched: Sequence[str]) -> str:
    if moment.barrier:
        return "the threads of a block synchronise at the barrier."
    parts = []
    if moment.text == "":
        parts = [_touch(touch, buffers[touch.array]) for touch in moment.touches]
    alone = len(moment.touches) == 0
    for watch in moment.watches:
        parts.append(_watch(watch, watched[watch.name], alone))
    said = "; ".join(parts) + "." if len(parts) > 0 else ""
    return f"{moment.text} {said}".strip() if moment.text != "" else said


def _touch(touch: Touch, buffer: Buffer) -> str:
    where = f"{buffer.name}{element_text(touch.elements, buffer.shape)}"
    cost = _cost(touch)
    if touch.threads is None:
        return f"{touch.kind} {where}{cost}"
    several = len(set(touch.threads)) > 1
    who = _who(touch.threads)
    if touch.kind == "outside":
        verb = "access" if several else "accesses"
        return f"{who} {verb} {buffer.name} out of bounds at [{ranges(touch.elements)}]"
    verb = touch.kind if several else touch.kind + "s"
    return f"{who} {verb} {where}{cost}"


def _who(threads: list[int]) -> str:
    """The threads by number where they are one or two ranges, else how many there are."""
    numbers = sorted(set(threads))
    if len(_groups(numbers)) > 2:
        return f"{len(numbers):,} threads"
    name = "threads" if len(numbers) > 1 else "thread"
    return f"{name} {ranges(numbers)}"


def _cost(touch: Touch) -> str:
    if touch.sectors > 0:
        name = "sector" if touch.sectors == 1 else "sectors"
        return f" in {touch.sectors} {name} of 32 bytes"
    if touch.wavefronts == touch.requests:
        return ", no bank conflict"
    if touch.wavefronts > 0:
        return f" in {touch.wavefronts} wavefronts instead of {touch.requests}"
    return ""


def _watch(watch: Watch, name: str, alone: bool) -> str:
    said = f"{name} {_held(watch.values)}"
    if not alone or watch.threads is None:
        return said
    return f"{said} in {_who(watch.threads)}"


def _held(values: list[float]) -> str:
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
    """Return elements as indices: ``[0 to 3]``, or ``[0][0 to 3]`` of a matrix, or how many there are."""
    if len(shape) == 2:
        rows = sorted({element // shape[1] for element in elements})
        columns = sorted({element % shape[1] for element in elements})
        if len(rows) * len(columns) == len(set(elements)):
            return f"[{ranges(rows)}][{ranges(columns)}]"
    return f"[{ranges(elements)}]"


def ranges(numbers: list[int]) -> str:
    """Return whole numbers as ranges, e.g. ``0 to 3, 8``; the many beyond ``MOST_RANGES`` are counted."""
    groups = _groups(sorted(set(numbers)))
    said = [f"{one[0]}" if one[0] == one[1] else f"{one[0]} to {one[1]}" for one in groups[:MOST_RANGES]]
    rest = sum(one[1] - one[0] + 1 for one in groups[MOST_RANGES:])
    more = f" and {rest} more" if rest > 0 else ""
    return ", ".join(said) + more


def _groups(numbers: list[int]) -> list[list[int]]:
    """The first and the last of each run of neighbours, of numbers in their order."""
    groups: list[list[int]] = []
    for one in numbers:
        if len(groups) > 0 and groups[-1][1] + 1 == one:
            groups[-1][1] = one
        else:
            groups.append([one, one])
    return groups
