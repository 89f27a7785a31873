"""Row sums with one warp per row and coalesced loads."""

from __future__ import annotations

from typing import Any

from tilewise.cuda.cases import case, ceil_div, integers, output
from tilewise.puzzles.counting import row_sectors
from tilewise.puzzles.model import Limit, Puzzle, Trial

CODE = """
extern "C" __global__
void row_sums(const float* A, float* sums, int rows, int cols) {
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    int lane = threadIdx.x % 32;
    if (row >= rows) return;
    float sum = 0.0f;
    // [gap sum this lane's columns of the row
    for (int col = lane; col < cols; col += 32) sum += A[row * cols + col];
    // gap]
    for (int d = 16; d > 0; d /= 2)
        sum += __shfl_down_sync(0xffffffff, sum, d);
    if (lane == 0) sums[row] = sum;
}
"""
PLAIN = """
extern "C" __global__
void row_sums(const float* A, float* sums, int rows, int cols) {
    int row = (blockIdx.x * blockDim.x + threadIdx.x) / 32;
    int lane = threadIdx.x % 32;
    if (row >= rows) return;
    float sum = 0.0f;
    int share = (cols + 31) / 32;
    for (int k = 0; k < share; ++k) {
        int col = lane * share + k;
        if (col < cols) sum += A[row * cols + col];
    }
    for (int d = 16; d > 0; d /= 2)
        sum += __shfl_down_sync(0xffffffff, sum, d);
    if (lane == 0) sums[row] = sum;
}
"""


def _trial(rows: int, cols: int, warps: int) -> Trial:
    arrays: dict[str, Any] = {
        "A": integers(rows * cols, low=1, high=100, dtype="float32"),
        "sums": output(rows),
    }
    launch = (ceil_div(rows, warps), 32 * warps)
    return Trial(f"rows = {rows}, cols = {cols}", case(*launch, rows=rows, cols=cols, **arrays))


PUZZLE = Puzzle(
    title="Row sums: one warp per row",
    task="""
    Sum each row of the row-major matrix `A`. One warp processes one row: each lane sums some of its
    columns, and the loop below combines the 32 partial sums. Assign the columns so that every load of
    the warp is coalesced.
    """,
    launch="blocks of 4 warps, enough to cover all rows.",
    code=CODE,
    plain=PLAIN,
    trials=(_trial(8, 512, 4), _trial(1, 1, 4), _trial(5, 33, 2), _trial(9, 100, 4), _trial(3, 31, 1)),
    expected=lambda v: {"sums": v["A"].reshape(v["rows"], v["cols"]).sum(axis=1)},
    limits=(
        Limit(
            "global_load.sectors",
            lambda v: row_sectors(v["rows"], v["cols"]),
            "32 consecutive floats span at most 5 sectors, and nothing is read twice",
        ),
    ),
    blanks=(
        ("col < cols", "col + 32 <= cols"),
        ("col += 32", "++col"),
        ("A[row * cols + col]", "A[row * rows + col]", "A[col * rows + row]"),
    ),
    lesson="[memory coalescing](../memory/coalescing.py)",
    hints="""
    Look at one load: 32 lanes in the same iteration. Which 32 columns should they read?

    In the first iteration, lane l reads column l. Where is its next column?

    `for (int col = lane; col < cols; col += 32)`
    """,
    after="""
    What matters is what the lanes read at the same moment, not what one lane reads over time. Giving
    each lane a contiguous run of columns looks tidy, but it spreads each load over many sectors.
    """,
)
