"""The grid and block explorer: who is who in a launch, flat or in space.

In: a grid and a block (or a launch), perhaps the problem's extent and a traced run. Out: a Figure whose
script has sliders for the sizes, a 2-D/3-D switch, a selected thread and a step. Drawing is left to
``web/figures/block_grid.js``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from tilewise.figures.accesses import Steps, shapes_of, source_of, steps_of
from tilewise.figures.dims import MAX_BLOCK_THREADS, WARP, Dims, dims, launch_of, threads, total, works
from tilewise.figures.figure import Figure
from tilewise.figures.flat_room import flat_height

MAX_THREADS = 4096
"""Threads that are drawn; of a larger launch the first ones are, and the figure says so."""


def block_grid(
    grid: Any,
    block: int | Sequence[int] | None = None,
    *,
    title: str,
    caption: str,
    extent: int | Sequence[int] | None = None,
    run: Any = None,
    arrays: Sequence[str] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    axes: Sequence[str] = ("x", "y", "z"),
    colour_by: Literal["block", "warp"] = "block",
    view: Literal["2d", "3d"] = "2d",
    most: Mapping[str, int | Sequence[int]] | None = None,
    alt: str | None = None,
) -> Figure:
    """Return the grid and block explorer.

    Args:
        grid: blocks in x, y, z, or a launch, which brings its block, its kernel and the shapes of its arrays.
        block: threads in x, y, z; left out with a launch.
        title: what is to be seen, as a statement.
        caption: what the figure shows, read alone.
        extent: cells of the problem in x, y, z; threads outside are idle and hatched.
        run: a traced run of this launch. The slider then goes through its steps, the array panel shows which
            elements each step touches, and the sizes are fixed: another launch would have other accesses.
        arrays: the buffers to show with a run, in this order.
        shapes: shape of a buffer by name, where the launch does not say it.
        axes: the lesson's names of x, y and z, e.g. ``("col", "row")``.
        colour_by: whether colour tells the blocks or the warps apart.
        view: which view stands first.
        most: the sliders' ends, ``{"grid": (4, 4, 2), "block": (16, 8, 4)}``.
        alt: the text alternative; by default made from the launch.

    Raises:
        ValueError: a size is no size, a block holds more than 1,024 threads, or the run has no trace.
    """
    grid_dims, block_dims, launch = launch_of(grid, block)
    if total(block_dims) > MAX_BLOCK_THREADS:
        raise ValueError(
            f"a block holds at most {MAX_BLOCK_THREADS} threads; {block_dims} are {total(block_dims)}"
        )
    problem = None if extent is None else dims(extent, "extent")
    names = (*axes, *("x", "y", "z")[len(axes) :])
    spec: dict[str, Any] = {
        "grid": grid_dims,
        "block": block_dims,
        "extent": problem,
        "axes": names,
        "colour_by": colour_by,
        "view": view,
        "most": _ends(grid_dims, block_dims, most or {}),
        "max_threads": MAX_THREADS,
    }
    steps: Steps | None = None
    if run is not None:
        steps = steps_of(
            run,
            grid_dims,
            block_dims,
            shapes={**shapes_of(launch), **(shapes or {})},
            only=arrays,
            source=source_of(launch),
            max_threads=MAX_THREADS,
        )
        spec["run"] = steps.spec()
    return Figure(
        title=title,
        caption=caption,
        alt=alt or launch_text(grid_dims, block_dims, problem),
        height=_explorer_height(grid_dims, block_dims)
        if steps is None
        else _height(steps, grid_dims, block_dims),
        narrow_height=_explorer_height(grid_dims, block_dims, narrow=True)
        if steps is None
        else _height(steps, grid_dims, block_dims) + 270,
        kind="block_grid",
        spec=spec,
        steps=_block_texts(grid_dims, block_dims, problem, names) if steps is None else steps.texts(),
    )


def launch_text(grid: Dims, block: Dims, extent: Dims | None) -> str:
    """Return a launch in a few sentences, with its idle threads counted over all of it."""
    blocks, per_block = total(grid), total(block)
    warps = -(-per_block // WARP)
    said = (
        f"A grid of {_by(grid)} blocks, each of {_by(block)} threads: {blocks:,} blocks, "
        f"{blocks * per_block:,} threads, {warps:,} {'warp' if warps == 1 else 'warps'} in each block."
    )
    if extent is None:
        return said
    covered = 1
    for axis in range(3):
        covered *= min(extent[axis], grid[axis] * block[axis])
    idle = blocks * per_block - covered
    return f"{said} The problem has {_by(extent)} cells: {covered:,} threads work, {idle:,} are idle."


def _by(size: Dims) -> str:
    used = 3 if size[2] > 1 else 2 if size[1] > 1 else 1
    return " by ".join(f"{part:,}" for part in size[:used])


def _block_texts(grid: Dims, block: Dims, extent: Dims | None, names: Sequence[str]) -> tuple[str, ...]:
    """Return a line for each block, up to 64 of them: where its threads stand, and how many are idle."""
    per_block, shown = total(block), min(total(grid), 64)
    every = threads(grid, block, shown * per_block)
    texts = []
    for number in range(shown):
        mine = slice(number * per_block, (number + 1) * per_block)
        first, last = every.position[mine][0], every.position[mine][-1]
        used = [axis for axis in range(3) if grid[axis] * block[axis] > 1] or [0]
        spans = ", ".join(f"{names[axis]} {first[axis]} to {last[axis]}" for axis in used)
        idle = 0 if extent is None else int(np.count_nonzero(~works(every.position[mine], extent)))
        at = ", ".join(str(part) for part in every.block[mine][0][: used[-1] + 1])
        texts.append(f"Block ({at}): {spans}" + (f"; {idle} of {per_block} threads idle." if extent else "."))
    if total(grid) > shown:
        texts.append(f"{total(grid) - shown:,} more blocks follow in the same order.")
    return tuple(texts)


def _ends(grid: Dims, block: Dims, most: Mapping[str, int | Sequence[int]]) -> dict[str, list[int]]:
    """Return the sliders' last values: never below what the figure starts with."""
    flat = total(grid) == grid[0] and total(block) == block[0]
    usual = {"grid": (8, 4, 3), "block": (64 if flat else 16, 8, 4)}
    ends = {}
    for name, start in (("grid", grid), ("block", block)):
        wanted = dims(most[name], f"most[{name!r}]") if name in most else usual[name]
        ends[name] = [max(pair) for pair in zip(wanted, start, strict=True)]
    return ends


def _explorer_height(grid: Dims, block: Dims, narrow: bool = False) -> int:
    """Return room for the launch that stands first, at least what the view in space needs, and for the rest.

    The sliders change the launch but not the room: larger launches get smaller cells.
    """
    width, least, most, rest = (320, 240, 292, 508) if narrow else (452, 280, 388, 172)
    count = min(total(grid) * total(block), MAX_THREADS)
    return rest + max(least, flat_height(grid, block, width, most, count))


def _height(steps: Steps, grid: Dims, block: Dims) -> int:
    """Return room for a run: its launch is fixed, so the drawing's height is known."""
    flat = grid[1] * block[1] * grid[2] * block[2] == 1
    columns, rows = (
        (32, -(-total(block) // WARP) * grid[0]) if flat else (grid[0] * block[0], grid[1] * block[1])
    )
    cell = min(46, 440 // columns)
    stage = int(np.clip(rows * cell + 28 * (grid[0] if flat else grid[1]), 280, 420))
    deepest = max(b.shape[0] if len(b.shape) == 2 else -(-b.shape[0] // 32) for b in steps.buffers)
    return 40 + stage + 30 + int(np.clip(30 + 20 * deepest, 60, 190)) + 40 + 40
