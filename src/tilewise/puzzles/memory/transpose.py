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
    // [gap declare a tile in shared memory, fill it row by row, then store it column by column
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


_WHY = "32 consecutive floats span at most 5 sectors"

PUZZLE = Puzzle(
    title="Transpose through shared memory",
    task="""
    Write the transpose of the row-major matrix `in` (`rows` by `cols`) to `out` (`cols` by `rows`).
    Loads and stores must both be coalesced, so transpose tiles of 32 by 32 in shared memory.
    """,
    launch="blocks of 32 by 8 threads, one per 32 by 32 tile, with columns along x.",
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
            "storing a row of a tile takes one wavefront",
        ),
        Limit(
            "shared_load.wavefronts",
            lambda v: v["cols"] * runs(v["rows"]),
            "without bank conflicts, loading a column of a tile takes one wavefront",
        ),
    ),
    blanks=(
        ("[TILE + 1]", "[TILE]", "[TILE + 2]"),
        ("__syncthreads();", ""),
        ("int row = top + threadIdx.x, col = left + c;", "int row = top + c, col = left + threadIdx.x;"),
        ("tile[threadIdx.x][c]", "tile[c][threadIdx.x]"),
    ),
    lesson="[bank conflicts](../memory/banks.py)",
    hints="""
    A block reads a tile by its rows and writes it by its columns. In both loops, `threadIdx.x`
    must run along consecutive addresses: along the columns of `in` in the first loop, and along
    the columns of `out` in the second.

    Synchronise between the loops, because each thread reads words that others wrote. In a tile of
    32 by 32 words, which bank holds element 0 of each row?

    With rows of 33 words, `__shared__ float tile[TILE][TILE + 1]`, the elements of a column are
    in 32 different banks.
    """,
    after="""
    Nobody uses the 33rd word of a row. It shifts each row by one bank, so a column is spread over all
    32 banks. The bounds checks of the two loops look alike but test different elements: the second
    one is for the element of `out`.
    """,
)
