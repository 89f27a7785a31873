"""Softmax along an axis.

In: an array of any shape and strides. Out: its softmax, of the same type. Rows that fit registers are read
once, longer ones go to a cluster of blocks, and rows that 16-byte loads don't reach take two passes.
"""

from __future__ import annotations

from typing import Any

from tilewise.cuda.cases import ceil_div
from tilewise.cuda.kernel_source import KernelError
from tilewise.kernels.calls.arrays import (
    C_TYPES,
    Tensor,
    apart,
    at,
    result,
    returned,
    taken,
    workspace,
    wrong,
)
from tilewise.kernels.calls.launching import HOPPER, Choice, Step, capability, merged, packed, packing, run

SHARE = 32
"""Elements that a thread holds in registers while its row is read once."""
_LONG_SHARE, _LONG_THREADS = 64, 256
_CLUSTERS_AT_ONCE = {2: 198, 4: 92, 8: 45}
"""By blocks of a cluster: how many clusters an H100 runs at once, as the lesson has it."""
_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}


def choose(columns: int, kind: str, *, aligned: bool = True, gapless: bool = True, arch: int) -> Choice:
    """Which kernel computes rows of a length.

    Args:
        columns: elements of a row.
        kind: their type.
        aligned: whether input and result begin at multiples of 16 bytes.
        gapless: whether each row begins where the one before it ends.
        arch: the compute capability, such as 90.
    """
    number, vector = C_TYPES[kind], 16 // _BYTES[kind]
    whole = columns % vector == 0
    if gapless and columns <= 1024 * SHARE and (aligned or not whole):
        team = 2 ** (ceil_div(columns, SHARE) - 1).bit_length()
        return Choice(
            "softmax_on_chip",
            f"a row of {columns} fits the registers of {team} threads: one read, one write",
            {
                "Number": number,
                "TEAM": team,
                "THREADS": max(team, 128) if team <= 32 else team,
                "SHARE": SHARE,
            },
        )
    blocks = 2 ** max(1, (ceil_div(columns, _LONG_SHARE * _LONG_THREADS) - 1).bit_length())
    fits = gapless and aligned and whole and kind != "float16" and blocks in _CLUSTERS_AT_ONCE
    if fits and arch == HOPPER and columns > 1024 * SHARE:
        return Choice(
            "softmax_long",
            f"a row of {columns} fits the registers of {blocks} blocks, a cluster",
            {
                **{"Number": number, "THREADS": _LONG_THREADS, "SHARE": _LONG_SHARE, "BLOCKS": blocks},
                **{"SLOTS": 1, "AT_ONCE": 768 // _LONG_THREADS, "LAG": 0},
            },
        )
    why = (
        "rows are apart in memory"
        if not gapless
        else "the array begins at no multiple of 16 bytes"
        if not aligned
        else f"rows of {columns} {kind} elements do not all begin at multiples of 16 bytes"
        if not whole
        else f"rows of {columns} are too long for registers here"
    )
    if kind == "float32" and gapless:
        return Choice("softmax_online", f"{why}: 4-byte loads, two passes")
    return Choice("general/softmax", f"{why}: element by element, two passes", {"Number": number})


def softmax(x: Any, axis: int = -1, *, dtype: str | None = None, out: Any = None) -> Any:
    """Softmax along an axis, computed in FP32.

    A row of minus infinity alone gives zeros. Where an element is NaN or plus infinity the result is NaN;
    what the rest of that row holds then depends on the kernel. Other rows are not touched by it.

    Args:
        x: float32, bfloat16 or float16, of any shape and strides.
        axis: the axis along which results add up to 1.
        dtype: "bfloat16" where a uint16 array of NumPy or CuPy holds BF16.
        out: a contiguous array of `x`'s shape and type to write to.

    Returns:
        An array of the sort, shape and type of `x`.

    Raises:
        KernelError: an argument does not fit; nothing was written.
    """
    given = taken("softmax", "x", x, dtype=dtype)
    axes = len(given.shape)
    if not -axes <= axis < axes:
        raise wrong("softmax", "x", f"has shape {given.shape} and no axis {axis}", "Name one that it has")
    apart("softmax", out, x=x)
    made = result("softmax", given, given.shape, given.kind, out)
    with at(given):
        run("softmax", [] if 0 in given.shape else _steps(given, made, axis % axes))
    return returned(made)


def _steps(given: Tensor, made: Tensor, axis: int) -> list[Step]:
    before: list[Step] = []
    after: list[Step] = []
    rows_of, rows_to = given, made
    last = len(given.shape) - 1
    if axis != last:
        order = (*(one for one in range(last + 1) if one != axis), axis)
        rows_of = given.of(given.data.transpose(order))
        view = made.of(made.data.transpose(order))
        rows_to = made.of(workspace("softmax", given, view.shape, given.kind))
        after = packing("softmax", rows_to, view)
    extents, steps = merged(rows_of, keep=1)
    if len(extents) > 2 or (steps[-1] != 1 and extents[-1] > 1):
        rows_of, before = packed("softmax", rows_of)
        extents, steps = merged(rows_of, keep=1)
    columns = extents[-1]
    rows, step = (extents[0], steps[0]) if len(extents) == 2 else (1, columns)
    if columns >= 2**31 or rows >= 2**31:
        raise KernelError(
            f"softmax: {rows} rows of {columns}: a count does not fit 32 bits. Pass fewer at a time."
        )
    aligned = rows_of.aligned() and rows_to.aligned()
    choice = choose(columns, given.kind, aligned=aligned, gapless=step == columns, arch=capability())
    return [*before, _launch(choice, rows_of, rows_to, rows, columns, step), *after]


def _launch(choice: Choice, rows_of: Tensor, rows_to: Tensor, rows: int, columns: int, step: int) -> Step:
    kernel, sizes = choice.load(), choice.settings
    arrays = (rows_of.flat(), rows_to.flat())
    if choice.kernel == "softmax_on_chip":
        grid = ceil_div(rows, sizes["THREADS"] // sizes["TEAM"])
        return Step(kernel, (*arrays, rows, columns), grid, sizes["THREADS"])
    if choice.kernel == "softmax_long":
        blocks, threads = sizes["BLOCKS"], sizes["THREADS"]
        shared = sizes["SLOTS"] * threads * sizes["SHARE"] * int(rows_of.data.itemsize)
        grid = min(_CLUSTERS_AT_ONCE[blocks], rows) * blocks
        return Step(kernel, (*arrays, rows, columns), grid, threads, shared)
    if choice.kernel == "softmax_online":
        return Step(kernel, (*arrays, columns), rows, 256)
    return Step(kernel, (*arrays, columns, step, columns), rows, 256)
