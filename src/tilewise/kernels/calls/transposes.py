"""The transpose of matrices.

In: an array of two axes or more. Out: its last two exchanged, contiguous. Where 4 divides both, the lesson's
kernel moves 16 bytes at a time; any other matrix goes through a padded tile.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewise.cuda.cases import ceil_div
from tilewise.cuda.kernel_source import KernelError
from tilewise.kernels.calls.arrays import Tensor, apart, at, result, returned, taken, wrong
from tilewise.kernels.calls.launching import WORDS, Choice, Step, merged, packed, run
from tilewise.kernels.calls.plans import planned

_MOST_TILES = 65_535


def choose(rows: int, columns: int, itemsize: int, *, whole: bool, matrices: int = 1) -> Choice:
    """Which kernel transposes matrices.

    Args:
        rows: of each matrix.
        columns: of each.
        itemsize: bytes of an element.
        whole: whether the array is contiguous and begins at a multiple of 16 bytes.
        matrices: how many there are.
    """
    if itemsize != 4:
        why = f"elements of {itemsize} bytes"
    elif not whole:
        why = "strides, or a beginning that is no multiple of 16 bytes"
    elif rows % 4 or columns % 4:
        why = "rows or columns that 4 does not divide, so that not every row begins at a multiple of 16 bytes"
    elif matrices > 1:
        why = "several matrices in one launch"
    elif rows * columns >= 2**31 or columns > 64 * _MOST_TILES:
        why = "2^31 elements or more"
    else:
        return Choice("transpose_fp32", "4-byte elements that 16-byte loads reach", {"T": 64, "DOWN": 1})
    return Choice("general/transpose", why, {"Number": WORDS[itemsize]})


@planned
def transpose(x: Any, *, out: Any = None) -> Any:
    """The last two axes exchanged, in new contiguous memory.

    Args:
        x: two axes or more, elements of 1, 2, 4 or 8 bytes, any strides.
        out: a contiguous array of the result's shape and type to write to.

    Raises:
        KernelError: an argument does not fit; nothing was written.
    """
    given = taken("transpose", "x", x, kinds=())
    if len(given.shape) < 2:
        raise wrong("transpose", "x", f"has shape {given.shape}", "Pass an array of two axes or more")
    apart("transpose", out, {"x": x})
    *leading, rows, columns = given.shape
    made = result("transpose", given, (*leading, columns, rows), given.kind, out)
    with at(given):
        run("transpose", [] if 0 in given.shape else _steps(given, made))
    return returned(made)


def _steps(given: Tensor, made: Tensor) -> list[Step]:
    extents, steps = merged(given, keep=2)
    before: list[Step] = []
    if len(extents) > 3:  # the matrices are not evenly apart
        given, before = packed("transpose", given)
        extents, steps = merged(given, keep=2)
    *_, rows, columns = extents
    matrices, apart_by = (extents[0], steps[0]) if len(extents) == 3 else (1, 0)
    whole = given.contiguous and given.aligned() and made.aligned()
    choice = choose(rows, columns, int(given.data.itemsize), whole=whole, matrices=matrices)
    if choice.lesson:
        grid = (ceil_div(rows, 64), ceil_div(columns, 64))
        floats = (one.data.reshape(-1).view(np.float32) for one in (given, made))
        return [*before, Step(choice.load(), (*floats, rows, columns), grid, 256)]
    if max(rows, columns) >= 2**31 or matrices >= 2**31:
        raise KernelError(
            f"transpose: {matrices} matrices of {rows} x {columns}: a count does not fit 32 bits. "
            "Pass fewer rows or matrices at a time."
        )
    word = np.dtype(f"uint{8 * given.data.itemsize}")
    grid = (ceil_div(rows, 32) * ceil_div(columns, 32), min(matrices, _MOST_TILES))
    arguments = (given.flat().view(word), made.data.reshape(-1).view(word), rows, columns)
    return [*before, Step(choice.load(), (*arguments, *steps[-2:], apart_by, matrices), grid, 256)]
