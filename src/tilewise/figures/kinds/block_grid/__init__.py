"""The grid and block explorer: the threads of a launch in 2-D or 3-D.

In: a grid and a block, optionally the problem's extent. Out: a Figure whose script has sliders for all sizes,
a 2-D/3-D switch and a selected thread.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

from tilewise.figures.dims import MAX_BLOCK_THREADS, WARP, Dims, dims, total
from tilewise.figures.figure import Figure

HEIGHT, NARROW_HEIGHT = 492, 768
"""Height in px on a wide and a narrow page; cells are scaled to it when sliders change the launch."""
DATA_HEIGHT = 26
"""Height in px of the sliders for the problem's extent; a narrow page has room for them already."""
MAX_THREADS = 1024
"""Most threads that are drawn, in cells large enough to point at; the figure says if it omits some."""


def block_grid(
    grid: int | Sequence[int],
    block: int | Sequence[int],
    *,
    title: str,
    caption: str,
    extent: int | Sequence[int] | None = None,
    axes: Sequence[str] = ("x", "y", "z"),
    view: Literal["2d", "3d"] = "2d",
) -> Figure:
    """Return the grid and block explorer.

    Args:
        grid: blocks in x, y, z.
        block: threads in x, y, z.
        title: what the reader should see, as a statement.
        caption: what the figure shows; self-contained.
        extent: cells of the problem in x, y, z; threads outside are idle and hatched.
        axes: the lesson's names of x, y and z, e.g. ``("col", "row")``.
        view: the initial view.

    Raises:
        ValueError: a size is invalid or a block has more than 1,024 threads.
    """
    grid_dims, block_dims = dims(grid, "grid"), dims(block, "block")
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
        "view": view,
        "most": _ends(grid_dims, block_dims, problem),
        "max_threads": MAX_THREADS,
    }
    return Figure(
        title=title,
        caption=caption,
        alt=launch_text(grid_dims, block_dims, problem),
        height=HEIGHT + (DATA_HEIGHT if problem else 0),
        narrow_height=NARROW_HEIGHT,
        kind="block_grid",
        spec=spec,
        steps=_block_texts(grid_dims, block_dims, problem, names),
    )


def launch_text(grid: Dims, block: Dims, extent: Dims | None) -> str:
    """Describe a launch in a few sentences, with its total number of idle threads."""
    blocks, per_block = total(grid), total(block)
    warps = -(-per_block // WARP)
    launch = (
        f"A grid of {_by(grid)} blocks, each of {_by(block)} threads: {blocks:,} blocks, "
        f"{blocks * per_block:,} threads, {warps:,} {'warp' if warps == 1 else 'warps'} in each block."
    )
    if extent is None:
        return launch
    covered = math.prod(min(extent[axis], grid[axis] * block[axis]) for axis in range(3))
    idle = blocks * per_block - covered
    return f"{launch} The problem has {_by(extent)} cells: {covered:,} threads work, {idle:,} are idle."


def _by(size: Dims) -> str:
    used = 3 if size[2] > 1 else 2 if size[1] > 1 else 1
    return " by ".join(f"{part:,}" for part in size[:used])


def _block_texts(grid: Dims, block: Dims, extent: Dims | None, names: Sequence[str]) -> tuple[str, ...]:
    """Return a line for each of the first 64 blocks: its range of threads, and how many are idle."""
    per_block, shown = total(block), min(total(grid), 64)
    used = [axis for axis in range(3) if grid[axis] * block[axis] > 1] or [0]
    texts = []
    for number in range(shown):
        at = (number % grid[0], number // grid[0] % grid[1], number // (grid[0] * grid[1]))
        first = [at[axis] * block[axis] for axis in range(3)]
        spans = ", ".join(f"{names[axis]} {first[axis]} to {first[axis] + block[axis] - 1}" for axis in used)
        idle = ""
        if extent is not None:
            working = [max(0, min(extent[axis] - first[axis], block[axis])) for axis in range(3)]
            idle = f"; {per_block - math.prod(working)} of {per_block} threads idle"
        texts.append(f"Block ({', '.join(map(str, at[: used[-1] + 1]))}): {spans}{idle}.")
    if total(grid) > shown:
        texts.append(f"{total(grid) - shown:,} more blocks follow in the same order.")
    return tuple(texts)


def _ends(grid: Dims, block: Dims, extent: Dims | None) -> dict[str, list[int]]:
    """Return the sliders' maxima, which are at least the start values."""
    flat = total(grid) == grid[0] and total(block) == block[0]
    usual = {"grid": (8, 4, 3), "block": (64 if flat else 16, 8, 4), "extent": (64 if flat else 20, 12, 6)}
    starts = {"grid": grid, "block": block} | ({"extent": extent} if extent else {})
    return {
        name: [max(pair) for pair in zip(usual[name], start, strict=True)] for name, start in starts.items()
    }
