"""Broadcasting: split one index into a row and a column."""

from __future__ import annotations

from typing import Any

from tilewise.cuda.cases import case, ceil_div, normal, output
from tilewise.puzzles.counting import runs, sectors
from tilewise.puzzles.model import Limit, Puzzle, Trial

CODE = """
extern "C" __global__
void outer_sum(const float* a, const float* b, float* out,
               int rows, int cols) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    // [gap find the row and the column of element i, and store its value
    if (i >= rows * cols) return;
    int row = i / cols;
    int col = i % cols;
    out[i] = a[row] + b[col];
    // gap]
}
"""


def _trial(rows: int, cols: int, threads: int) -> Trial:
    n = rows * cols
    arrays: dict[str, Any] = {"a": normal(rows), "b": normal(cols), "out": output(n)}
    return Trial(
        f"rows = {rows}, cols = {cols}", case(ceil_div(n, threads), threads, rows=rows, cols=cols, **arrays)
    )


PUZZLE = Puzzle(
    title="Outer sum: one index, two axes",
    task="""
    `out` is a row-major matrix with `rows` rows and `cols` columns. Set the element in row r and
    column c to `a[r] + b[c]`. The launch is one-dimensional, and `i` is the index into `out`.
    """,
    launch="a one-dimensional grid of 128-thread blocks, rounded up to cover rows × cols elements.",
    code=CODE,
    trials=(
        _trial(24, 50, 128),
        _trial(50, 7, 128),
        _trial(1, 300, 128),
        _trial(300, 1, 128),
        _trial(16, 16, 128),
        _trial(3, 5, 128),
    ),
    expected=lambda v: {"out": (v["a"][:, None] + v["b"]).reshape(-1)},
    limits=(
        Limit(
            "global_load.requests",
            lambda v: 2 * runs(v["rows"] * v["cols"]),
            "each warp needs one load from a and one from b, even where a row ends",
        ),
        Limit(
            "global_store.sectors",
            lambda v: sectors(v["rows"] * v["cols"]),
            "out is written once, in order, and a sector holds 8 floats",
        ),
    ),
    blanks=(
        ("i >= rows * cols", "i > rows * cols"),
        ("i / cols", "i / rows", "i % cols"),
        ("i % cols", "i % rows", "i / cols"),
    ),
    lesson="[grids in two dimensions](../kernels/grids.py)",
    hints="""
    How many whole rows come before element `i` of a row-major matrix, and how many elements are
    left over?

    The number of whole rows is a quotient, and what is left over is a remainder. Both divide by
    the length of a row.

    `int row = i / cols; int col = i % cols;`
    """,
    after="""
    Dividing by `rows` is the usual mistake, and a square matrix hides it. That's why only one of the
    sizes is square. Nothing copies `a` or `b` into a matrix first: each thread reads just the two
    values it needs. NumPy calls this broadcasting.
    """,
)
