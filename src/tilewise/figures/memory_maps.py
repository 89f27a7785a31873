"""A memory map: the elements of arrays as cells, and who touches them at each step of a run.

In: a traced run and its launch. Out: a Figure with a slider over the run's steps. Which accesses there
were is the simulator's word; drawing is left to ``web/figures/memory_map.js``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tilewise.figures.accesses import Buffer, shapes_of, source_of, steps_of
from tilewise.figures.dims import launch_of
from tilewise.figures.figure import Figure


def memory_map(
    run: Any,
    grid: Any,
    block: int | Sequence[int] | None = None,
    *,
    title: str,
    caption: str,
    arrays: Sequence[str] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    sectors: bool = False,
    item_bytes: int = 4,
    alt: str | None = None,
) -> Figure:
    """Return the map of the arrays that a run touched.

    Args:
        run: a traced run.
        grid: the run's launch, or its grid in x, y, z.
        block: its block; left out with a launch.
        title: what is to be seen, as a statement.
        caption: what the figure shows, read alone.
        arrays: the buffers to show, in this order; all by default.
        shapes: shape of a buffer by name, where the launch does not say it.
        sectors: mark the borders of 32-byte sectors, and count those touched.
        item_bytes: bytes of an element, for the sectors.
        alt: the text alternative; by default counts steps and arrays.

    Raises:
        ValueError: the run has no trace, or a name is no buffer of it.
    """
    grid_dims, block_dims, launch = launch_of(grid, block)
    steps = steps_of(
        run,
        grid_dims,
        block_dims,
        shapes={**shapes_of(launch), **(shapes or {})},
        only=arrays,
        source=source_of(launch),
    )
    named = ", ".join(f"{b.name} ({' by '.join(str(n) for n in b.shape)})" for b in steps.buffers)
    return Figure(
        title=title,
        caption=caption,
        alt=alt or f"The arrays {named} over {len(steps.steps)} steps of the run; each step is a line below.",
        height=_height(steps.buffers, 710, 420),
        narrow_height=_height(steps.buffers, 310, 520) + 40,
        kind="memory_map",
        spec={
            "grid": grid_dims,
            "block": block_dims,
            "sector_elements": 32 // item_bytes if sectors else 0,
            "run": steps.spec(),
        },
        steps=steps.texts(),
    )


def _height(buffers: Sequence[Buffer], width: int, most: int) -> int:
    """Return room for the arrays, in the largest cells with which all are seen, and for the controls."""
    heights = [_flow(buffers, cell, width) for cell in range(22, 5, -1)]
    return 180 + int(np.clip(next((height for height in heights if height <= most), most), 110, most))


def _flow(buffers: Sequence[Buffer], cell: int, width: int) -> float:
    """Return the height of all arrays, laid out as ``arrays.js`` does: side by side, then below."""
    left = line = total = 0.0
    for buffer in buffers:
        columns = buffer.shape[1] if len(buffer.shape) == 2 else min(32, buffer.shape[0])
        rows = -(-int(np.prod(buffer.shape)) // columns)
        if columns * cell + 4 > width:
            return np.inf
        wide = max(columns * cell + 4, 7.3 * (len(buffer.name) + 24))
        if left and left + 28 + wide > width:
            total, left, line = total + line + 8, 0.0, 0.0
        left += wide + (28 if left else 0)
        line = max(line, 24 + min(rows, -(-1024 // columns)) * cell)
    return total + line
