"""The transpose of matrices.

In: an array of two axes or more. Out: its last two swapped, contiguous. If 4 divides both, the lesson's
kernel moves 16 bytes at a time; other matrices use a padded tile.
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
    """Choose the kernel.

    Args:
        rows: of each matrix.
        columns: of each.
        itemsize: bytes per element.
        whole: whether the array is contiguous and aligned to 16 bytes.
        matrices: their number.
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
    """The last two axes swapped, in new contiguous memory.

    Args:
        x: two axes or more, elements of 1, 2, 4 or 8 bytes, any strides.
        out: a contiguous array of the result's shape and type to write to.

    Raises:
        KernelError: an argument does not fit; nothing was written.
    """
    tensor = taken("transpose", "x", x, kinds=())
    if len(tensor.shape) < 2:
        raise wrong("transpose", "x", f"has shape {tensor.shape}", "Pass an array of two axes or more")
    apart("transpose", out, {"x": x})
    *leading, rows, columns = tensor.shape
    output = result("transpose", tensor, (*leading, columns, rows), tensor.kind, out)
    with at(tensor):
        run("transpose", [] if 0 in tensor.shape else _steps(tensor, output))
    return returned(output)


def _steps(tensor: Tensor, output: Tensor) -> list[Step]:
    extents, steps = merged(tensor, keep=2)
    before: list[Step] = []
    if len(extents) > 3:  # the matrices are not evenly apart
        tensor, before = packed("transpose", tensor)
        extents, steps = merged(tensor, keep=2)
    *_, rows, columns = extents
    matrices, apart_by = (extents[0], steps[0]) if len(extents) == 3 else (1, 0)
    whole = tensor.contiguous and tensor.aligned() and output.aligned()
    choice = choose(rows, columns, int(tensor.data.itemsize), whole=whole, matrices=matrices)
    if choice.lesson:
        grid = (ceil_div(rows, 64), ceil_div(columns, 64))
        floats = (array.data.reshape(-1).view(np.float32) for array in (tensor, output))
        return [*before, Step(choice.load(), (*floats, rows, columns), grid, 256)]
    if max(rows, columns) >= 2**31 or matrices >= 2**31:
        raise KernelError(
            f"transpose: {matrices} matrices of {rows} x {columns}: a count does not fit 32 bits. "
            "Pass fewer rows or matrices at a time."
        )
    word = np.dtype(f"uint{8 * tensor.data.itemsize}")
    grid = (ceil_div(rows, 32) * ceil_div(columns, 32), min(matrices, _MOST_TILES))
    arguments = (tensor.flat().view(word), output.data.reshape(-1).view(word), rows, columns)
    return [*before, Step(choice.load(), (*arguments, *steps[-2:], apart_by, matrices), grid, 256)]
