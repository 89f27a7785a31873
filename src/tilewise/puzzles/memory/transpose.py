"""A matrix transposed through a tile, with neither strided stores nor bank conflicts."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewise.cuda.cases import case, ceil_div, normal, output
from tilewise.puzzles.counting import row_sectors, runs
from tilewise.puzzles.model import Limit, Puzzle, Trial

CODE = """
#define TILE 32

extern "C" __global__
void transpose(const float* in, float* out, int rows, int cols) {
    // [gap a tile in shared memory; fill it row by row, then store it column by column
    __shared__ float tile[TILE][TILE + 1];
    int left = blockIdx.x * TILE, top = blockIdx.y * TILE;
    for (int r = threadIdx.y; r < TILE; r += blockDim.y) {
        int row = top + r, col = left + threadIdx.x;
        if (row < rows && col < cols)
            tile[r][threadIdx.x] = in[row * cols + col];
    }
    __syncthreads();
    for (int c = threadIdx.y; c < TILE; c += blockDim.y) {
        int row = top + threadIdx.x, col = left + c;
        if (row < rows && col < cols)
            out[col * rows + row] = tile[threadIdx.x][c];
    }
    // gap]
}
"""
PLAIN = """
#define TILE 32

extern "C" __global__
void transpose(const float* in, float* out, int rows, int cols) {
    int col = blockIdx.x * TILE + threadIdx.x;
    for (int r = threadIdx.y; r < TILE; r += blockDim.y) {
        int row = blockIdx.y * TILE + r;
        if (row < rows && col < cols)
            out[col * rows + row] = in[row * cols + col];
    }
}
"""


def _trial(rows: int, cols: int) -> Trial:
    arrays: dict[str, Any] = {"in": normal(rows * cols), "out": output(rows * cols)}
    grid = (ceil_div(cols, 32), ceil_div(rows, 32))
    return Trial(f"rows = {rows}, cols = {cols}", case(grid, (32, 8), rows=rows, cols=cols, **arrays))


_WHY = "32 floats side by side lie in at most 5 sectors"

PUZZLE = Puzzle(
    name="memory/transpose",
    title="A tile turned over",
    task="""
    Write the transpose of the row-major matrix `in`, `rows` by `cols`, to `out`, `cols` by `rows`. Loads
    and stores must both be coalesced, so turn tiles of 32 by 32 over in shared memory. Its words are
    dealt out to 32 banks in turn, word w to bank w mod 32; lanes that want different words of one bank
    are served one after the other.
    """,
    launch="blocks of 32 by 8 threads, one for each tile of 32 by 32, columns along x.",
    code=CODE,
    plain=PLAIN,
    trials=(_trial(64, 96), _trial(1, 1), _trial(33, 20), _trial(40, 100), _trial(7, 65)),
    expected=lambda v: {"out": np.ascontiguousarray(v["in"].reshape(v["rows"], v["cols"]).T).reshape(-1)},
    limits=(
        Limit("global_load.sectors", lambda v: row_sectors(v["rows"], v["cols"]), _WHY),
        Limit("global_store.sectors", lambda v: row_sectors(v["cols"], v["rows"]), _WHY),
        Limit(
            "shared_store.wavefronts",
            lambda v: v["rows"] * runs(v["cols"]),
            "one pass for each row of a tile, if no two lanes meet in a bank",
        ),
        Limit(
            "shared_load.wavefronts",
            lambda v: v["cols"] * runs(v["rows"]),
            "one pass for each column of a tile, if no two lanes meet in a bank",
        ),
    ),
    hints=(
        "A block reads a tile by its rows and writes it by its columns. In both loops `threadIdx.x` "
        "must run along memory, so "
        "it names the column at first and the row afterwards.",
        "Between the loops every thread waits: the words it reads were written by others. In a tile "
        "of 32 by 32 words, in which "
        "bank is element 0 of each row?",
        "With rows of 33 words, `__shared__ float tile[TILE][TILE + 1]`, the elements of a column "
        "lie in 32 different banks.",
    ),
    after="""
    The 33rd word of a row is never used. It moves each row on by one bank, so that a walk down a column
    meets all 32 of them. The guards of the two loops look alike and test different elements: the second
    one is for the element of `out`.
    """,
)
