"""Softmax along an axis.

In: an array of any shape and strides. Out: its softmax, of the same type. A row that fits in registers,
of a block or of a cluster for longer rows, is read once; even longer rows are read twice.
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
"""Elements per thread that stay in registers while a row is read once."""
_LONG_SHARE, _LONG_THREADS = 64, 256
_SHARE_BEFORE = 24
"""Elements that each of 1,024 threads keeps in registers without spills, on GPUs without clusters."""
_CLUSTERS_AT_ONCE = {2: 198, 4: 92, 8: 45}
"""By blocks per cluster: how many clusters an H100 runs at once, as in the lesson."""
_SHORT = {4: ((64, 8), (256, 16), (1024, 28)), 8: ((64, 8), (256, 24))}
"""By elements in 16 bytes: elements per thread for rows up to a length, as measured on an H200."""
_FEW, _FEW_ROWS = 1 << 21, 64
"""Elements, and rows, below which there are too few threads."""
_BYTES = {"float32": 4, "bfloat16": 2, "float16": 2}


def choose(
    columns: int, kind: str, *, rows: int = 1 << 20, aligned: bool = True, gapless: bool = True, arch: int
) -> Choice:
    """Choose the kernel for rows of a length.

    Args:
        columns: elements of a row.
        kind: their type.
        rows: the number of rows.
        aligned: whether input and result are aligned to 16 bytes.
        gapless: whether each row begins where the previous one ends.
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
    """How a row is distributed over threads: fewer elements per thread if there are few rows.

    If input and result may have different offsets from multiples of 16 bytes, a warp handles one row, and its
    lanes exchange elements.
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

    A row of only minus infinity gives zeros. If an element is NaN or plus infinity, its result is NaN, and
    the rest of that row depends on the kernel. Other rows are not affected.

    Args:
        x: float32, bfloat16 or float16, of any shape and strides.
        axis: the axis along which results sum to 1.
        dtype: "bfloat16" if a uint16 array of NumPy or CuPy holds BF16.
        out: a contiguous array of `x`'s shape and type to write to.

    Returns:
        An array of the library, shape and type of `x`.

    Raises:
        KernelError: an argument does not fit; nothing was written.
    """
    tensor = taken("softmax", "x", x, dtype=dtype)
    axes = len(tensor.shape)
    if not -axes <= axis < axes:
        raise wrong("softmax", "x", f"has shape {tensor.shape} and no axis {axis}", "Name one that it has")
    apart("softmax", out, {"x": x})
    output = result("softmax", tensor, tensor.shape, tensor.kind, out)
    with at(tensor):
        run("softmax", [] if 0 in tensor.shape else _steps(tensor, output, axis % axes))
    return returned(output)


def _steps(tensor: Tensor, output: Tensor, axis: int) -> list[Step]:
    before: list[Step] = []
    after: list[Step] = []
    rows_of, rows_to = tensor, output
    last = len(tensor.shape) - 1
    if axis != last:
        order = (*(other_axis for other_axis in range(last + 1) if other_axis != axis), axis)
        rows_of = tensor.of(tensor.data.transpose(order))
        view = output.of(output.data.transpose(order))
        rows_to = output.of(workspace("softmax", tensor, view.shape, tensor.kind))
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
    choice = choose(columns, tensor.kind, rows=rows, aligned=aligned, gapless=gapless, arch=capability())
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
    shifts = [tensor.past() for tensor in (rows_of, rows_to)]
    arguments = (*arrays, rows, columns, step, columns, *shifts)
    blocks, threads, team = (sizes[name] for name in ("BLOCKS", "THREADS", "TEAM"))
    vector = 16 // int(rows_of.data.itemsize)
    if columns + vector <= blocks * team * sizes["SHARE"]:
        grid = ceil_div(rows, threads // team) * blocks
        return Step(choice.load("softmax_rows"), arguments, grid, threads)
    return Step(choice.load("softmax_twice"), arguments, rows * blocks, threads)
