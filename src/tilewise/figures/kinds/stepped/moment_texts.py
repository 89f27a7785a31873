"""What each step of a stepped figure says: the text alternative, and what a screen reader hears.

In: moments. Out: one line each. Which moments there are is left to ``moments`` and ``states``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tilewise.figures.kinds.stepped.moments import Buffer, Floats, Ints, Moment, Touch, Watch
from tilewise.figures.values import number


def texts_of(moments: Sequence[Moment], buffers: Sequence[Buffer], watched: Sequence[str]) -> tuple[str, ...]:
    """Return one line for each moment, e.g. ``Step 3, line 5: threads 0 to 31 read x[0 to 31].``."""
    return tuple(
        f"Step {at}{f', line {moment.line}' if moment.line else ''}: {_said(moment, buffers, watched)}"
        for at, moment in enumerate(moments, 1)
    )


def _said(moment: Moment, buffers: Sequence[Buffer], watched: Sequence[str]) -> str:
    if moment.barrier:
        return "the threads of a block synchronise at the barrier."
    parts = [] if moment.text else [_touch(touch, buffers[touch.array]) for touch in moment.touches]
    parts += [_watch(watch, watched[watch.name], alone=not moment.touches) for watch in moment.watches]
    said = "; ".join(parts) + "." if parts else ""
    return f"{moment.text} {said}".strip() if moment.text else said


def _touch(touch: Touch, buffer: Buffer) -> str:
    where = f"{buffer.name}{element_text(touch.elements, buffer.shape)}"
    cost = _cost(touch)
    if touch.threads is None:
        return f"{touch.kind} {where}{cost}"
    several = len(np.unique(touch.threads)) > 1
    who = _who(touch.threads)
    if touch.kind == "outside":
        verb = "access" if several else "accesses"
        return f"{who} {verb} {buffer.name} out of bounds at [{ranges(touch.elements)}]"
    return f"{who} {touch.kind if several else touch.kind + 's'} {where}{cost}"


def _who(threads: Ints) -> str:
    """The threads by number where they are one or two ranges, else how many there are."""
    numbers = np.unique(threads)
    if int((np.diff(numbers) != 1).sum()) > 1:
        return f"{len(numbers):,} threads"
    return f"{'threads' if len(numbers) > 1 else 'thread'} {ranges(numbers)}"


def _cost(touch: Touch) -> str:
    if touch.sectors:
        return f" in {touch.sectors} {'sector' if touch.sectors == 1 else 'sectors'} of 32 bytes"
    if touch.wavefronts == touch.requests:
        return ", no bank conflict"
    if touch.wavefronts:
        return f" in {touch.wavefronts} wavefronts instead of {touch.requests}"
    return ""


def _watch(watch: Watch, name: str, alone: bool) -> str:
    said = f"{name} {_held(watch.values)}"
    if not alone or watch.threads is None:
        return said
    return f"{said} in {_who(watch.threads)}"


def _held(values: Floats) -> str:
    if len(values) == 1 or bool((values == values[0]).all()) or bool(np.isnan(values).all()):
        return f"is {number(values[0])}"
    if len(values) <= 4:
        return f"is {', '.join(number(value) for value in values)}"
    if bool((np.diff(values) == 1).all()):
        return f"is {number(values[0])} to {number(values[-1])}"
    finite = values[np.isfinite(values)]
    if not len(finite):
        return "is not finite"
    return f"ranges from {number(finite.min())} to {number(finite.max())}"


def element_text(elements: Ints, shape: tuple[int, ...]) -> str:
    """Return elements as indices: ``[0 to 3]``, or ``[0][0 to 3]`` of a matrix, or how many there are."""
    if len(shape) == 2:
        rows, columns = np.unique(elements // shape[1]), np.unique(elements % shape[1])
        if len(rows) * len(columns) == len(np.unique(elements)):
            return f"[{ranges(rows)}][{ranges(columns)}]"
    return f"[{ranges(elements)}]"


def ranges(numbers: Ints, at_most: int = 4) -> str:
    """Return whole numbers as ranges, e.g. ``0 to 3, 8``; the many beyond ``at_most`` ranges are counted."""
    sorted_numbers = np.unique(numbers)
    groups = np.split(sorted_numbers, np.flatnonzero(np.diff(sorted_numbers) != 1) + 1)
    said = [str(int(g[0])) if len(g) == 1 else f"{int(g[0])} to {int(g[-1])}" for g in groups[:at_most]]
    rest = sum(len(group) for group in groups[at_most:])
    return ", ".join(said) + (f" and {rest} more" if rest else "")
