"""Softmax along an axis.

In: an array of any shape and strides. Out: its softmax, of the same type. Rows that fit registers are read
once, longer ones by a cluster of blocks, and what no cluster holds is read twice.
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
from tilewise.kernels.calls.plans import planned

SHARE = 32
"""Elements that a thread holds in registers while its row is read once."""
_LONG_SHARE, _LONG_THREADS = 64, 256
_SHARE_BEFORE = 24
"""Elements that each of 1,024 threads holds without spills, on GPUs without clusters."""
_CLUSTERS_AT_ONCE = {2: 198, 4: 92, 8: 45}
"""By blocks of a cluster: how many clusters an H100 runs at once, as the lesson has it."""
_SHORT = {4: ((64, 8), (256, 16), (1024, 28)), 8: ((64, 8), (256, 24))}
"""By elements in 16 bytes: how many a thread holds of rows up to a length, as measured on an H200."""
_FEW, _FEW_ROWS = 1 << 21, 64
"""Elements, and rows, below which threads are what is short."""
_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}


def choose(
    columns: int, kind: str, *, rows: int = 1 << 20, aligned: bool = True, gapless: bool = True, arch: int
) -> Choice:
    """Which kernel computes rows of a length.

    Args:
        columns: elements of a row.
        kind: their type.
        rows: how many rows there are.
        aligned: whether input and result begin at multiples of 16 bytes.
        gapless: whether each row begins where the one before it ends.
        arch: the compute capability, such as 90.
    """
    number, vector = C_TYPES[kind], 16 // _BYTES[kind]
    whole = gapless and aligned and columns % vector == 0
    if whole and columns <= 1024 * SHARE:
        share = 8 if columns <= 64 else SHARE
        team = 2 ** (ceil_div(columns, share) - 1).bit_length()
        return Choice(
            "softmax_on_chip",
            f"a row of {columns} fits the registers of {team} threads: one read, one write",
            {
                "Number": number,
                "TEAM": team,
                "THREADS": max(team, 128) if team <= 32 else team,
                "SHARE": share,
            },
        )
    blocks = 2 ** max(1, (ceil_div(columns, _LONG_SHARE * _LONG_THREADS) - 1).bit_length())
    if whole and kind != "float16" and blocks in _CLUSTERS_AT_ONCE and arch == HOPPER:
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
        if columns % vector
        else f"no lesson's kernel holds rows of {columns} {kind} elements here"
    )
    return Choice(
        "general/softmax", why, {"Number": number, **_shape(columns + vector, rows, vector, arch, aligned)}
    )


def _shape(columns: int, rows: int, vector: int, arch: int, aligned: bool) -> dict[str, int]:
    """How a row is spread over threads: fewer elements each where there are few rows.

    Where input and result may begin differently behind multiples of 16 bytes, a warp has one row: its lanes
    hand elements on.
    """
    clusters = () if arch != HOPPER else (8,) if rows < _FEW_ROWS else (2, 4, 8)
    limit = SHARE if arch == HOPPER else _SHARE_BEFORE
    limit = next((share for most, share in _SHORT[vector] if columns <= most + vector), limit)
    most = 2 * vector if rows * columns <= _FEW else limit
    for blocks, threads in (
        (1, 1024),
        *((blocks, threads) for blocks in clusters for threads in (512, 1024)),
    ):
        for share in sorted({most, limit}):
            if columns <= blocks * threads * share:
                team = 2 ** (ceil_div(columns, blocks * share) - 1).bit_length()
                if blocks > 1:
                    team = max(team, 64)
                elif not aligned:
                    team = max(team, min(32, 2 ** (ceil_div(columns, vector) - 1).bit_length()))
                own = ceil_div(ceil_div(columns, blocks * team), vector) * vector
                return {
                    "TEAM": team,
                    "THREADS": max(team, 128) if team <= 32 else team,
                    "SHARE": own,
                    "BLOCKS": blocks,
                }
    return {"TEAM": 1024, "THREADS": 1024, "SHARE": vector, "BLOCKS": 8 if arch == HOPPER else 1}


@planned
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
    apart("softmax", out, {"x": x})
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
    gapless = step == columns or rows == 1
    choice = choose(columns, given.kind, rows=rows, aligned=aligned, gapless=gapless, arch=capability())
    return [*before, _launch(choice, rows_of, rows_to, rows, columns, step), *after]


def _launch(choice: Choice, rows_of: Tensor, rows_to: Tensor, rows: int, columns: int, step: int) -> Step:
    sizes = choice.settings
    arrays = (rows_of.flat(), rows_to.flat())
    if choice.kernel == "softmax_on_chip":
        grid = ceil_div(rows, sizes["THREADS"] // sizes["TEAM"])
        return Step(choice.load(), (*arrays, rows, columns), grid, sizes["THREADS"])
    if choice.kernel == "softmax_long":
        blocks, threads = sizes["BLOCKS"], sizes["THREADS"]
        shared = sizes["SLOTS"] * threads * sizes["SHARE"] * int(rows_of.data.itemsize)
        grid = min(_CLUSTERS_AT_ONCE[blocks], rows) * blocks
        return Step(choice.load(), (*arrays, rows, columns), grid, threads, shared)
    shifts = [one.past() for one in (rows_of, rows_to)]
    arguments = (*arrays, rows, columns, step, columns, *shifts)
    blocks, threads, team = (sizes[name] for name in ("BLOCKS", "THREADS", "TEAM"))
    vector = 16 // int(rows_of.data.itemsize)
    if columns + vector <= blocks * team * sizes["SHARE"]:
        grid = ceil_div(rows, threads // team) * blocks
        return Step(choice.load("softmax_rows"), arguments, grid, threads)
    return Step(choice.load("softmax_twice"), arguments, rows * blocks, threads)
