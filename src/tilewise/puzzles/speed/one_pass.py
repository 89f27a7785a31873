"""Two results in one sweep: a running result in registers saves the second read."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewise.cuda.cases import Array, case, ceil_div, integers, output
from tilewise.puzzles.counting import row_sectors, runs
from tilewise.puzzles.model import Limit, Puzzle, Trial, Values

CODE = """
extern "C" __global__
void largest(const float* A, float* peak, int* count, int rows, int cols) {
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    if (col >= cols) return;
    // [gap read the column once
    float most = A[col];
    int times = 1;
    for (int row = 1; row < rows; ++row) {
        float value = A[row * cols + col];
        if (value > most) {
            most = value;
            times = 1;
        } else if (value == most) {
            ++times;
        }
    }
    peak[col] = most;
    count[col] = times;
    // gap]
}
"""
PLAIN = """
extern "C" __global__
void largest(const float* A, float* peak, int* count, int rows, int cols) {
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    if (col >= cols) return;
    float most = -INFINITY;
    for (int row = 0; row < rows; ++row)
        most = fmaxf(most, A[row * cols + col]);
    int times = 0;
    for (int row = 0; row < rows; ++row)
        times += A[row * cols + col] == most;
    peak[col] = most;
    count[col] = times;
}
"""


def _trial(rows: int, cols: int, low: int, high: int) -> Trial:
    arrays: dict[str, Any] = {
        "A": integers(rows * cols, low=low, high=high, dtype="float32"),
        "peak": output(cols),
        "count": output(cols, dtype="int32"),
    }
    return Trial(f"{rows} x {cols}", case(ceil_div(cols, 64), 64, rows=rows, cols=cols, **arrays))


def _expected(v: Values) -> dict[str, Array]:
    matrix = v["A"].reshape(v["rows"], v["cols"])
    peak = matrix.max(axis=0)
    return {"peak": peak, "count": (matrix == peak).sum(axis=0).astype(np.int32)}


PUZZLE = Puzzle(
    title="Maximum and count in one sweep",
    task="""
    For each column of the row-major matrix `A`, find the largest value and how often it occurs. Each
    thread processes one column. Read each element once.
    """,
    launch="a one-dimensional grid of 64-thread blocks, rounded up to cover all columns.",
    code=CODE,
    plain=PLAIN,
    trials=(
        _trial(40, 100, 0, 9),
        _trial(1, 5, -9, 0),
        _trial(23, 65, -9, -3),
        _trial(64, 31, -1, 1),
        _trial(7, 130, -50, 50),
    ),
    expected=_expected,
    limits=(
        Limit(
            "global_load.requests",
            lambda v: v["rows"] * runs(v["cols"]),
            "each warp loads its 32 elements of each row once",
        ),
        Limit(
            "global_load.sectors",
            lambda v: row_sectors(v["rows"], v["cols"]),
            "32 consecutive floats span at most 5 sectors",
        ),
    ),
    blanks=(
        ("A[row * cols + col]", "A[col * rows + row]"),
        ("value > most", "value >= most"),
        ("times = 1", "++times", "times = 0"),
    ),
    lesson="[arithmetic intensity](../speed/roofline.py)",
    hints="""
    Suppose you know the answer for the first few rows. How does one more value change it? There
    are three cases.

    A smaller value changes nothing, and an equal one adds 1 to the count. What does a larger one
    do?

    Start with the first value and a count of 1. If `value > most`, set `most = value` and `times
    = 1`.
    """,
    after="""
    A new maximum makes the old count worthless, so the count restarts at 1. Rescaling by a factor
    instead of restarting gives \\online softmax (Milakov and Gimelshein, 2018), the core of
    FlashAttention.
    """,
)
