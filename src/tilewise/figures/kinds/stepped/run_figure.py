"""A traced run as a stepped figure: its specification, a text for each step, its heights.

In: a trace as columns. Out: the parts of a figure. ``simulator/browser/stepping.py`` translates this file to
JavaScript.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilewise.figures.kinds.stepped.moment_texts import texts_of
from tilewise.figures.kinds.stepped.moments import (
    LOCAL,
    SHARED,
    WARP,
    Buffer,
    Moment,
    Rows,
    Values,
    barriers_of,
    moments_of,
)
from tilewise.figures.kinds.stepped.rooms import heights
from tilewise.figures.kinds.stepped.specification import array_spec, moment_spec

MOST_BYTES = 200_000
"""Bytes of a figure's file, compressed with gzip."""
MOST_MOMENTS = 600
"""Moments on one slider."""
MOST_THREADS = 4096
"""Threads of a launch that are drawn."""
MOST_ROWS = 300_000
"""Accesses of a run; with more, no figure is attempted."""


@dataclass(frozen=True)
class Traced:
    """A traced run, as a figure needs it."""

    kernel: str
    source: str
    grid: Sequence[int]
    block: Sequence[int]
    rows: Rows
    watched: Sequence[Values]
    names: Sequence[str]
    """Names of the watched variables."""
    buffers: Sequence[str]
    """Names by the numbers in ``rows.buffer``."""
    shapes: Mapping[str, Sequence[int]]
    """Shapes of arrays by name, if known."""
    hazards: Sequence[Mapping[str, Any]]
    """Hazards with line, kind and message."""
    barriers: list[list[int]]
    """Each line with barriers, and how often all warps passed it."""


def fits(traced: Traced) -> bool:
    """Return whether a figure draws all threads that were traced."""
    each = _total(traced.block)
    last = (max(traced.rows.block, default=0) + 1) * each
    return _total(traced.grid) * each <= MOST_THREADS or last <= MOST_THREADS


def touched(rows: Rows, buffers: Sequence[str]) -> list[int]:
    """Return the arrays that the run accessed, shared memory first, because its contents are drawn."""
    known = [at for at in range(len(rows.step)) if 0 <= rows.buffer[at] < len(buffers)]
    shared = sorted({rows.buffer[at] for at in known if rows.space[at] == SHARED})
    others = sorted({rows.buffer[at] for at in known if rows.space[at] != LOCAL})
    return [*shared, *[number for number in others if number not in shared]]


def of_run(traced: Traced, numbers: Sequence[int], spec: dict[str, Any]) -> dict[str, Any]:
    """Return the parts of the figure of a run.

    Args:
        traced: the run.
        numbers: the arrays to show, in order.
        spec: the figure's settings, to which the rest is added.
    """
    accesses = [_mine(traced.rows, number) for number in numbers]
    buffers = [_buffer(traced, number, accesses[at]) for at, number in enumerate(numbers)]
    spec["arrays"] = [array_spec(buffer, traced.rows, accesses[at]) for at, buffer in enumerate(buffers)]
    spec["grid"] = traced.grid
    spec["block"] = traced.block
    spec["max_threads"] = MOST_THREADS
    spec["code"] = {"text": traced.source, "language": "cuda", "name": traced.kernel}
    spec["watched"] = traced.names
    spec["hazards"] = traced.hazards
    sizes = [_total(buffer.shape) for buffer in buffers] if len(traced.hazards) > 0 else None
    each = _total(traced.block)
    barriers = barriers_of(traced.barriers, _total(traced.grid) * ((each + WARP - 1) // WARP))
    moments = moments_of(traced.rows, traced.watched, numbers, sizes, each, barriers)
    return parts_of(spec, moments, buffers)


def parts_of(spec: dict[str, Any], moments: Sequence[Moment], buffers: Sequence[Buffer]) -> dict[str, Any]:
    """Return the specification, texts, text alternative and heights of a figure of these moments."""
    each = _total(spec["block"]) if "block" in spec else 0
    texts = texts_of(moments, buffers, spec["watched"], each)
    spec["moments"] = [moment_spec(moment) for moment in moments]
    high = heights(spec, texts) if len(moments) > 0 else [0, 0]
    return {
        "spec": spec,
        "steps": texts,
        "alt": _alt(spec, moments, buffers),
        "height": high[0],
        "narrow_height": high[1],
    }


def beyond_shape(traced: Traced, number: int) -> int:
    """Return the last accessed element if it is outside the array's shape, otherwise -1."""
    mine = _mine(traced.rows, number)
    buffer = _buffer(traced, number, mine)
    last = max([traced.rows.index[at] for at in mine], default=0)
    return last if _total(buffer.shape) <= last and len(traced.hazards) == 0 else -1


def _mine(rows: Rows, number: int) -> list[int]:
    """The accesses to one array."""
    return [at for at in range(len(rows.step)) if rows.buffer[at] == number and rows.space[at] != LOCAL]


def _buffer(traced: Traced, number: int, mine: list[int]) -> Buffer:
    rows = traced.rows
    name = traced.buffers[number]
    known = traced.shapes.get(name)
    last = max([rows.index[at] for at in mine], default=0)
    in_shared = len(mine) > 0 and rows.space[mine[0]] == SHARED
    sides = list(known) if known is not None and len(known) > 0 else [last + 1]
    if len(sides) > 2:
        sides = [_total(sides[:-1]), sides[-1]]
    if in_shared and _total(sides) <= last:
        sides = [last + 1]  # its elements are accessed in parts
    return Buffer(name, sides, "shared" if in_shared else "global")


def _total(size: Sequence[int]) -> int:
    whole = 1
    for part in size:
        whole *= part
    return whole


def _alt(spec: Mapping[str, Any], moments: Sequence[Moment], buffers: Sequence[Buffer]) -> str:
    sentences = [f"{len(moments):,} steps, listed below."]
    if "cell" in spec:
        cells = _total(spec["grid"]) * _total(spec["block"])
        sentences.append(f"Each of {cells:,} cells is a {spec['cell']}.")
    elif "grid" in spec:
        blocks = _total(spec["grid"])
        each = _total(spec["block"])
        warps = (each + WARP - 1) // WARP
        blocks_text = f"{blocks:,} {'block' if blocks == 1 else 'blocks'} of {each:,} threads"
        warps_text = f"{warps:,} {'warp' if warps == 1 else 'warps'}"
        sentences.append(f"The launch has {blocks_text}, {warps_text} in each.")
    if len(buffers) > 0:
        sentences.append(f"Arrays: {', '.join([_described(buffer) for buffer in buffers])}.")
    if len(spec["watched"]) > 0:
        sentences.append(f"Values shown: {', '.join(spec['watched'])}.")
    return " ".join(sentences)


def _described(buffer: Buffer) -> str:
    space = "" if buffer.space == "model" else f", {buffer.space}"
    sides = " by ".join([f"{part:,}" for part in buffer.shape])
    return f"{buffer.name} ({sides}{space})"
