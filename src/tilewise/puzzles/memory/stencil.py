"""A stencil: a tile in shared memory with a halo on either side."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewise.cuda.cases import Array, case, ceil_div, integers, output
from tilewise.puzzles.counting import MOST_A_RUN
from tilewise.puzzles.model import Limit, Puzzle, Trial, Values

CODE = """
#define THREADS 128
#define REACH 2

extern "C" __global__
void smooth(const float* in, float* out, int n) {
    __shared__ float tile[THREADS + 2 * REACH];
    int first = blockIdx.x * THREADS;
    int i = first + threadIdx.x;
    // [gap fill the tile: its element j is in[first - REACH + j], or 0 if that doesn't exist
    for (int j = threadIdx.x; j < THREADS + 2 * REACH; j += THREADS) {
        int from = first - REACH + j;
        tile[j] = from >= 0 && from < n ? in[from] : 0.0f;
    }
    __syncthreads();
    // gap]
    if (i >= n) return;
    // [gap sum this element, REACH before it and REACH after it, from the tile
    float sum = 0.0f;
    for (int d = 0; d <= 2 * REACH; ++d) sum += tile[threadIdx.x + d];
    out[i] = sum;
    // gap]
}
"""
PLAIN = """
#define THREADS 128
#define REACH 2

extern "C" __global__
void smooth(const float* in, float* out, int n) {
    int i = blockIdx.x * THREADS + threadIdx.x;
    if (i >= n) return;
    float sum = 0.0f;
    for (int j = i - REACH; j <= i + REACH; ++j)
        if (j >= 0 && j < n) sum += in[j];
    out[i] = sum;
}
"""
THREADS = 128


def _trial(n: int) -> Trial:
    arrays: dict[str, Any] = {"in": integers(n, low=1, high=100, dtype="float32"), "out": output(n)}
    return Trial(f"n = {n:,}", case(ceil_div(n, THREADS), THREADS, n=n, **arrays))


def _expected(v: Values) -> dict[str, Array]:
    return {"out": np.convolve(np.pad(v["in"], 2), np.ones(5, np.float32), mode="valid").astype(np.float32)}


PUZZLE = Puzzle(
    title="Stencil with a halo in shared memory",
    task="""
    Set `out[i]` to the sum of `in[i - 2]` to `in[i + 2]`, where elements outside the array count as
    0. Let each block load its elements once, into `tile`, together with a halo of two more elements
    on either side.
    """,
    launch="blocks of 128 threads, enough to cover n elements.",
    code=CODE,
    plain=PLAIN,
    trials=(_trial(1024), _trial(1), _trial(130), _trial(255), _trial(129), _trial(1000)),
    expected=_expected,
    limits=(
        Limit(
            "global_load.sectors",
            lambda v: ceil_div(v["n"], THREADS) * (MOST_A_RUN * THREADS // 32 + 4),
            "each of a block's 4 warps loads 32 floats from at most 5 sectors, "
            "and the block's halo may take 4 more",
        ),
        Limit(
            "barriers",
            lambda v: ceil_div(v["n"], THREADS) * THREADS // 32,
            "each block needs one barrier, between filling the tile and reading it",
        ),
    ),
    blanks=(
        ("first - REACH + j", "first + j"),
        (
            "from >= 0 && from < n ? in[from] : 0.0f",
            "from < n ? in[from] : 0.0f",
            "in[min(max(from, 0), n - 1)]",
        ),
        ("__syncthreads();", ""),
    ),
    lesson="[shared memory and barriers](../memory/barriers.py)",
    hints="""
    The tile has 132 elements and the block 128 threads, so some threads must load two elements.

    Let j run through the tile in steps of 128, as in a loop over more elements than threads. Not
    every element of the tile exists in `in`; store a 0 for those that don't.

    Put `__syncthreads()` between the last write to the tile and the first read, before any thread
    may return. Thread t then sums `tile[t]` to `tile[t + 4]`.
    """,
    after="""
    The bounds check on `i` comes after the barrier. Threads past the end still have work to do before
    it: they help to fill the halo. If they returned first, their part of the tile would stay unwritten.
    """,
)
