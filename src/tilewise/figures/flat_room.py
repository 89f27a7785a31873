"""How tall the flat view of a launch is in a given width: ``web/figures/flat.js`` says where threads stand.

In: a launch and a width. Out: a height in px, for the room that a page reserves. Drawing is left to the
script; a test holds the two against each other.
"""

from __future__ import annotations

from tilewise.figures.dims import WARP, Dims, total

LABEL, CHARACTER = 17, 7.2
MARGIN = 8
"""What the view leaves around its drawing."""
LARGEST = 46
"""Side of the largest cell."""


def flat_height(grid: Dims, block: Dims, width: int, most: int, count: int | None = None) -> int:
    """Return the height of the flat view in px, in the largest cells with which it fits.

    Args:
        grid: blocks in x, y, z.
        block: threads in x, y, z.
        width: px that the drawing has.
        most: px that it may take in height.
        count: threads drawn; all by default.
    """
    threads = count or total(grid) * total(block)
    single = all(grid[axis] * block[axis] == 1 for axis in (1, 2))
    room = (width - MARGIN, most - MARGIN)
    cell = LARGEST
    while cell > 3:
        wide, tall = (
            _line(grid, block, room[0], cell, threads) if single else _sheet(grid, block, room[0], cell)
        )
        if wide <= room[0] and tall <= room[1]:
            return int(-(-tall // 1)) + MARGIN
        cell -= 2 if cell > 12 else 1
    return most


def _line(grid: Dims, block: Dims, width: int, cell: int, count: int) -> tuple[float, float]:
    columns = min(WARP, block[0])
    gap = 14 if cell > 10 else 8
    shown = -(-count // total(block))
    rows = -(-min(total(block), count) // columns)
    wide = columns * cell
    labelled = wide >= CHARACTER * len(f"block {shown - 1}") or wide >= 2 * CHARACTER
    head = LABEL if labelled else 0
    across = max(1, (width + gap) // (wide + gap))
    lines = -(-shown // across)
    return min(shown, across) * (wide + gap) - gap, lines * (rows * cell + head + gap) - gap


def _sheet(grid: Dims, block: Dims, width: int, cell: int) -> tuple[float, float]:
    gap = 8 if cell > 10 else 5
    depth = grid[2] * block[2]
    used = grid if grid[2] > 1 else grid[:2]
    name = f"({', '.join(str(part - 1) for part in used)})"
    head = LABEL if block[0] * cell >= CHARACTER * len(name) else 0
    layer_wide = grid[0] * (block[0] * cell + gap) - gap
    layer_tall = grid[1] * (block[1] * cell + head + gap) - gap
    top = LABEL + 4 if depth > 1 else 0
    between = 22
    across = max(1, min(depth, (width + between) // (layer_wide + between)))
    lines = -(-depth // across)
    return across * (layer_wide + between) - between, lines * (layer_tall + top + between) - between
