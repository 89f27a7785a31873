"""Broadcasting: one index taken apart into a row and a column."""

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
    // [gap which row and which column is element i, and what stands there?
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
    name="kernels/broadcast",
    title="A row plus a column",
    task="""
    `out` is a row-major matrix of `rows` by `cols`. Set its element in row r and column c to `a[r] +
    b[c]`. The launch is one-dimensional: `i` counts the elements of `out`.
    """,
    launch="blocks of 128 threads along x, just enough for rows times cols.",
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
            "a warp reads a and b once each",
        ),
        Limit(
            "global_store.sectors",
            lambda v: sectors(v["rows"] * v["cols"]),
            "out is written in order, 8 floats to a sector",
        ),
    ),
    hints=(
        "Element `i` of a row-major matrix: how many whole rows lie before it, and how many elements "
        "are left over?",
        "The number of whole rows is a quotient, what is left over a remainder, both by the length of a row.",
        "`int row = i / cols; int col = i % cols;`",
    ),
    after="""
    Dividing by `rows` is the usual slip, and a square matrix hides it; that is why none of the sizes but
    one is square. The matrix is never made of copies of `a` and `b`: each thread reads the two numbers
    that it needs.
    """,
)
