"""The sum of an array.

In: an array of any shape and strides. Out: its sum, an array without axes. The kernel is that of the lesson
on reductions; elements before the first multiple of 16 bytes get a block of their own.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from tilewise.cuda.cases import ceil_div
from tilewise.kernels.calls.arrays import C_TYPES, Tensor, apart, at, result, returned, taken, workspace
from tilewise.kernels.calls.launching import Choice, Step, packed, packing, published, run

LARGEST = 2**30
"""Elements of one launch: the kernel counts them in an int."""
_BLOCKS, _PER_BLOCK = 1056, 4096


def choose(kind: str) -> Choice:
    """Which kernel adds up elements of a type."""
    if kind == "float32":
        return Choice("sum_fp32", "float4 loads and a tree of partial sums, in FP32", {"LOADS": 4})
    return Choice("general/sum", f"{kind} is added in FP32, and no lesson adds it", {"Number": C_TYPES[kind]})


def sum_of(x: Any, *, dtype: str | None = None, out: Any = None) -> Any:
    """The sum of all elements, in FP32; the same bits in every run.

    Args:
        x: float32, bfloat16 or float16, of any shape and strides; without elements the sum is 0.
        dtype: "bfloat16" where a uint16 array of NumPy or CuPy holds BF16.
        out: an array without axes, of `x`'s type, to write to.

    Returns:
        An array without axes, of the sort and type of `x`.

    Raises:
        KernelError: an argument does not fit; nothing was written.
    """
    given = taken("sum", "x", x, dtype=dtype)
    apart("sum", out, x=x)
    made = result("sum", given, (), given.kind, out)
    with at(given):
        run("sum", _steps(given, made))
    return returned(made)


def _steps(given: Tensor, made: Tensor) -> list[Step]:
    steps: list[Step] = []
    if _gapless(given):
        elements = given.of(given.flat())
    else:
        copy, steps = packed("sum", given)
        elements = given.of(copy.flat())
    pieces = _pieces(elements)
    blocks = [min(_BLOCKS, ceil_div(piece.shape[0], _PER_BLOCK)) for piece in pieces]
    sums = workspace("sum", given, (max(sum(blocks), 1),), "float32", 0.0)
    choice, first = choose(given.kind), 0
    entry = "sum_wide" if given.kind == "float32" else None
    for piece, count in zip(pieces, blocks, strict=True):
        room = sums[first : first + count]
        steps.append(Step(choice.load(entry), (piece.data, room, piece.shape[0]), count, 256))
        first += count
    total = made if made.kind == "float32" else made.of(workspace("sum", given, (), "float32"), "float32")
    add_up = published("sum_fp32", "add_up", LOADS=4)
    steps.append(Step(add_up, (sums, total.data.reshape(1), max(first, 1)), 1, 256))
    return steps if total is made else steps + packing("sum", total, made)


def _pieces(elements: Tensor) -> list[Tensor]:
    """Parts that the kernel takes: from a multiple of 16 bytes on, and few enough to count in an int."""
    n = elements.shape[0]
    size = int(elements.data.itemsize)
    head = next(
        (few for few in range(16 // size) if few < n and elements.of(elements.data[few:]).aligned()), 0
    )
    starts = [*([0] if head else []), *range(head, n, LARGEST)]
    return [elements.of(elements.data[a:b]) for a, b in pairwise([*starts, n])]


def _gapless(given: Tensor) -> bool:
    """Whether the elements fill their memory, in whatever order of axes."""
    if 0 in given.shape:
        return given.contiguous
    expected = 1
    for step, extent in sorted(zip(given.steps, given.shape, strict=True)):
        if extent > 1 and step != expected:
            return False
        expected *= extent
    return bool(np.prod(given.shape, dtype=object) == expected)
