"""Strides: a window into a larger array."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewise.cuda.cases import Array, case, ceil_div, normal, output
from tilewise.puzzles.counting import row_sectors
from tilewise.puzzles.model import Limit, Puzzle, Trial, Values

CODE = """
extern "C" __global__
void gather(const float* in, float* out, int rows, int cols,
            int row_stride, int col_stride) {
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    // [gap copy one element if it exists
    if (row >= rows || col >= cols) return;
    out[row * cols + col] = in[row * row_stride + col * col_stride];
    // gap]
}
"""
BLOCK = (32, 4)


def _trial(label: str, rows: int, cols: int, row_stride: int, col_stride: int) -> Trial:
    reach = (rows - 1) * row_stride + (cols - 1) * col_stride + 1
    grid = (ceil_div(cols, BLOCK[0]), ceil_div(rows, BLOCK[1]))
    shape = {"rows": rows, "cols": cols, "row_stride": row_stride, "col_stride": col_stride}
    arrays: dict[str, Any] = {"in": normal(reach), "out": output(rows * cols)}
    return Trial(
        f"{rows} x {cols}, strides {row_stride} and {col_stride} ({label})",
        case(grid, BLOCK, **shape, **arrays),
    )


def _expected(v: Values) -> dict[str, Array]:
    row, col = np.ogrid[: v["rows"], : v["cols"]]
    return {"out": v["in"][row * v["row_stride"] + col * v["col_stride"]].reshape(-1)}


PUZZLE = Puzzle(
    title="Copy a strided window",
    task="""
    Element (row, col) of a window into a larger array is `in[row * row_stride + col * col_stride]`.
    Copy the window to `out`, which is row-major and contiguous: `rows` rows of `cols` elements.
    """,
    launch="a two-dimensional grid of blocks of 32 × 4 threads (x × y), rounded up to cover rows and cols.",
    code=CODE,
    trials=(
        _trial("every third column of a wide array", 10, 50, 200, 3),
        _trial("a transposed array", 33, 21, 1, 33),
        _trial("the same row repeated", 9, 40, 0, 1),
        _trial("the first columns of a wide array", 5, 31, 64, 1),
        _trial("a diagonal", 1, 37, 5, 38),
        _trial("one element", 1, 1, 7, 7),
    ),
    expected=_expected,
    limits=(
        Limit(
            "global_store.sectors",
            lambda v: row_sectors(v["rows"], v["cols"]),
            "only stores are counted, and 32 consecutive floats of the output span at most 5 sectors",
        ),
    ),
    blanks=(
        ("row >= rows || col >= cols", "row >= rows && col >= cols"),
        ("row * cols + col", "col * rows + row"),
        (
            "row * row_stride + col * col_stride",
            "row * col_stride + col * row_stride",
            "row * row_stride + col",
        ),
    ),
    lesson="[grids in two dimensions](../kernels/grids.py)",
    hints="""
    You need two index formulas: one to read and one to write. Only one of them has strides.

    The result is an ordinary row-major array with `cols` columns.

    `out[row * cols + col] = in[row * row_stride + col * col_stride];` after a bounds check for
    rows and columns.
    """,
    after="""
    Strides let the same array be viewed as its transpose (strides of 1 and the row length), as
    every third column, or as one row repeated (a `row_stride` of 0). The kernel doesn't need to know
    which. Depending on the strides, the lanes of a warp may read addresses that are far apart, so
    only the stores have a budget.
    """,
)
