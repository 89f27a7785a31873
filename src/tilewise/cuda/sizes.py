"""The sizes of a case, and whether the launch divides them.

In: a launch. Out: its sizes in words, and whether some size leaves the last block ragged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tilewise.cuda.cases import Case, Recipe, ceil_div, shape_text

if TYPE_CHECKING:
    from tilewise.kernel.kernel import Kernel
    from tilewise.kernel.launch import Launch


def does_not_divide(launch: Launch) -> bool:
    """Whether some size of a launch is no multiple of the block, so that its edge is ragged.

    An axis with more than one thread a block covers the array extents, array sizes and whole numbers that
    need just its number of blocks; the launch is ragged where one of those is not a multiple of the block.
    Where an axis covers none (a block a row, a grid-stride loop), any array extent above 1 counts. With one
    thread a block, an array extent counts that is above 1 and no multiple of 4.
    """
    arrays: set[int] = set()
    numbers: set[int] = set()
    for value in launch.taken.values():
        if isinstance(value, Recipe | np.ndarray):
            arrays |= {*value.shape, int(value.size)}
        elif isinstance(value, int | np.integer) and not isinstance(value, bool):
            numbers.add(int(value))
    extents = {extent for extent in arrays if extent > 1}
    axes = [(many, size) for many, size in zip(launch.grid, launch.block, strict=True) if size > 1]
    if not axes:
        return any(extent % 4 for extent in extents)
    for many, size in axes:
        covered = {one for one in extents | numbers if one > 0 and ceil_div(one, size) == many}
        if any(extent % size for extent in covered or extents):
            return True
    return False


def sizes(kernel: Kernel, case: Case) -> str:
    """A case in a few words: `A 65 x 7, out 65`."""
    parts = []
    for name, value in kernel.on(case).taken.items():
        if isinstance(value, Recipe | np.ndarray):
            parts.append(f"{name} {shape_text(value.shape)}")
    return ", ".join(parts)
