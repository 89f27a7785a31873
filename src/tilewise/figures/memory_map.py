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
        height=_height(steps.buffers, 22),
        narrow_height=_height(steps.buffers, 14) + 80,
        kind="memory_map",
        spec={
            "grid": grid_dims,
            "block": block_dims,
            "sector_elements": 32 // item_bytes if sectors else 0,
            "run": steps.spec(),
        },
        steps=steps.texts(),
    )


def _height(buffers: Sequence[Buffer], cell: int) -> int:
    """Return room for the arrays one below the other, within limits; beyond, they scroll."""
    rows = [b.shape[0] if len(b.shape) == 2 else -(-b.shape[0] // 32) for b in buffers]
    return int(np.clip(170 + sum(30 + cell * row for row in rows), 300, 640))
