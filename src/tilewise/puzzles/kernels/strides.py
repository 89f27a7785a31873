"""Strides: a window into an array that is laid out for somebody else."""

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
    // [gap copy one element, if it exists
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
    name="kernels/strides",
    title="A window with strides",
    task="""
    Element (row, col) of a window stands at `in[row * row_stride + col * col_stride]`. Copy the window to
    `out`, row-major and without holes: `rows` rows of `cols` elements.
    """,
    launch="blocks of 32 threads along x and 4 along y, and just enough of them for cols and rows.",
    code=CODE,
    trials=(
        _trial("every third column of a wide array", 10, 50, 200, 3),
        _trial("a transposed array", 33, 21, 1, 33),
        _trial("one row again and again", 9, 40, 0, 1),
        _trial("the first columns of a wide array", 5, 31, 64, 1),
        _trial("a diagonal", 1, 37, 5, 38),
        _trial("one element", 1, 1, 7, 7),
    ),
    expected=_expected,
    limits=(
        Limit(
            "global_store.sectors",
            lambda v: row_sectors(v["rows"], v["cols"]),
            "the result has no holes, and 32 floats side by side lie in at most 5 sectors",
        ),
    ),
    hints=(
        "Two formulas are needed: where the element comes from, and where it goes. Only one of them "
        "has strides.",
        "The result is an ordinary row-major array with `cols` columns.",
        "`out[row * cols + col] = in[row * row_stride + col * col_stride];` behind a guard for rows "
        "and columns.",
    ),
    after="""
    With strides one array can be seen as its transpose (`1` and the length of a row), as every third
    column, or as one row repeated (`row_stride` of 0), and the kernel need not know which. What the lanes
    of a warp read may lie far apart, so only the stores have a budget.
    """,
)
