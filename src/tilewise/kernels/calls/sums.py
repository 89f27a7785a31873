"""The sum of an array.

In: an array of any shape and strides. Out: its sum, a 0-d array. One block or one cluster sums a small array
in one launch; a large one takes two, in FP32 those of the lesson on reductions.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewise.cuda.cases import ceil_div
from tilewise.kernels.calls.arrays import C_TYPES, Tensor, apart, at, result, returned, taken, workspace
from tilewise.kernels.calls.launching import HOPPER, Choice, Step, capability, packed, published, run
from tilewise.kernels.calls.plans import planned

LARGEST = 2**31 - 1
"""Most elements that the lesson's kernel can count."""
ONE_BLOCK, ONE_CLUSTER, BLOCKS_OF_CLUSTER = 32 << 10, 512 << 10, 8
"""Bytes that one block, and one cluster of that size, sums faster than a second launch takes."""
_BLOCKS, _PER_BLOCK = 1056, 4096
_CHUNKS_PER_BLOCK = 2048


def choose(kind: str, n: int, *, head: int = 0, arch: int = HOPPER) -> Choice:
    """Choose the kernel.

    Args:
        kind: the element type.
        n: the number of elements.
        head: how many of them are before the first multiple of 16 bytes.
        arch: the compute capability, such as 90.
    """
    size, number = 4 if kind == "float32" else 2, C_TYPES[kind]
    if size * n <= ONE_BLOCK:
        return Choice("general/sum", "one block adds up so little", {"Number": number, "CLUSTER": 1})
    if size * n <= ONE_CLUSTER and arch == HOPPER:
        settings = {"Number": number, "CLUSTER": BLOCKS_OF_CLUSTER}
        return Choice("general/sum", "one launch: the blocks of a cluster read each other's sums", settings)
    if kind == "float32" and not head and n <= LARGEST:
        return Choice("sum_fp32", "float4 loads and a tree of partial sums, in FP32", {"LOADS": 4})
    why = f"{kind} is added in FP32" if kind != "float32" else "the array begins at no multiple of 16 bytes"
    return Choice("general/sum", why, {"Number": number, "CLUSTER": 1})


@planned
def sum_of(x: Any, *, dtype: str | None = None, out: Any = None) -> Any:
    """The sum of all elements, in FP32; the same bits in every run.

    Args:
        x: float32, bfloat16 or float16, of any shape and strides; without elements the sum is 0.
        dtype: "bfloat16" if a uint16 array of NumPy or CuPy holds BF16.
        out: a 0-d array of `x`'s type to write to.

    Returns:
        A 0-d array of the library and type of `x`.

    Raises:
        KernelError: an argument does not fit; nothing was written.
    """
    tensor = taken("sum", "x", x, dtype=dtype)
    apart("sum", out, {"x": x})
    total = result("sum", tensor, (), tensor.kind, out)
    with at(tensor):
        run("sum", _steps(tensor, total))
    return returned(total)


def _steps(tensor: Tensor, output: Tensor) -> list[Step]:
    steps: list[Step] = []
    x = tensor
    if not _gapless(tensor):
        x, steps = packed("sum", tensor)
    elements = x.of(x.flat())
    n, size = int(elements.data.size), int(elements.data.itemsize)
    head = next(
        count for count in range(16 // size) if count >= n or elements.of(elements.data[count:]).aligned()
    )
    choice = choose(tensor.kind, n, head=head, arch=capability())
    total = output.data.reshape(1)
    if choice.lesson:
        blocks = min(_BLOCKS, ceil_div(n, _PER_BLOCK))
        sums = workspace("sum", tensor, (blocks,), "float32")
        first = Step(choice.load("sum_wide"), (elements.data, sums, n), blocks, 256)
        second = Step(published("sum_fp32", "add_up", LOADS=4), (sums, total, blocks), 1, 256)
        return [*steps, first, second]
    cluster = choice.settings["CLUSTER"]
    if cluster > 1 or size * n <= ONE_BLOCK:
        entry = choice.load("sum_cluster" if cluster > 1 else "sum_at_once")
        return [*steps, Step(entry, (elements.data, total, n, head), cluster, 512)]
    blocks = min(_BLOCKS // 2, ceil_div(n * size, 16 * _CHUNKS_PER_BLOCK))
    sums = workspace("sum", tensor, (blocks,), "float32")
    first = Step(choice.load("sum_blocks"), (elements.data, sums, n, head), blocks, 512)
    return [*steps, first, Step(choice.load("sum_up"), (sums, total, blocks), 1, 512)]


def _gapless(tensor: Tensor) -> bool:
    """Whether there are no gaps between elements, in any order of axes."""
    if 0 in tensor.shape:
        return tensor.contiguous
    expected = 1
    for step, extent in sorted(zip(tensor.steps, tensor.shape, strict=True)):
        if extent > 1 and step != expected:
            return False
        expected *= extent
    return bool(np.prod(tensor.shape, dtype=object) == expected)
