"""The sum of a block, halving the number of threads at each step."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewise.cuda.cases import Array, case, ceil_div, integers, output
from tilewise.puzzles.counting import sectors
from tilewise.puzzles.model import Limit, Puzzle, Trial, Values

CODE = """
#define THREADS 256

extern "C" __global__
void block_sums(const float* in, float* sums, int n) {
    __shared__ float part[THREADS];
    int t = threadIdx.x;
    int i = blockIdx.x * THREADS + t;
    part[t] = i < n ? in[i] : 0.0f;
    // [gap add up part[0] to part[THREADS - 1] into part[0] in eight steps
    for (int d = THREADS / 2; d > 0; d /= 2) {
        __syncthreads();
        if (t < d) part[t] += part[t + d];
    }
    // gap]
    if (t == 0) sums[blockIdx.x] = part[0];
}
"""
PLAIN = """
#define THREADS 256

extern "C" __global__
void block_sums(const float* in, float* sums, int n) {
    __shared__ float part[THREADS];
    int t = threadIdx.x;
    int i = blockIdx.x * THREADS + t;
    part[t] = i < n ? in[i] : 0.0f;
    for (int d = 1; d < THREADS; d *= 2) {
        __syncthreads();
        int at = 2 * d * t;
        if (at < THREADS) part[at] += part[at + d];
    }
    if (t == 0) sums[blockIdx.x] = part[0];
}
"""
THREADS = 256
STEPS = 8


def _trial(n: int) -> Trial:
    blocks = ceil_div(n, THREADS)
    arrays: dict[str, Any] = {"in": integers(n, low=1, high=100, dtype="float32"), "sums": output(blocks)}
    return Trial(f"n = {n:,}", case(blocks, THREADS, n=n, **arrays))


def _expected(v: Values) -> dict[str, Array]:
    padded = np.zeros(ceil_div(v["n"], THREADS) * THREADS, np.float32)
    padded[: v["n"]] = v["in"]
    return {"sums": padded.reshape(-1, THREADS).sum(axis=1)}


def _wavefronts() -> int:
    """Loads of a block: two for each active warp of each step, and the one of the result."""
    return sum(2 * ceil_div(THREADS >> step, 32) for step in range(1, STEPS + 1)) + 1


PUZZLE = Puzzle(
    title="Tree reduction in a block",
    task="""
    Each block sums up to 256 elements of `in` and writes one value, `sums[blockIdx.x]`. Each thread
    has stored one element in the shared array `part`. Add up these elements in eight steps, each
    with half as many threads as the one before.
    """,
    launch="blocks of 256 threads, enough to cover n elements.",
    code=CODE,
    plain=PLAIN,
    trials=(_trial(1024), _trial(1), _trial(100), _trial(767), _trial(256)),
    expected=_expected,
    limits=(
        Limit("global_load.sectors", lambda v: sectors(v["n"]), "each element is loaded once, 8 to a sector"),
        Limit(
            "barriers",
            lambda v: ceil_div(v["n"], THREADS) * (STEPS + 1) * THREADS // 32,
            "each of the 8 warps executes one barrier per step, and the budget allows one more",
        ),
        Limit(
            "shared_load.wavefronts",
            lambda v: ceil_div(v["n"], THREADS) * _wavefronts(),
            "each active warp executes two loads per step, without bank conflicts, "
            "and each block loads its sum from part once",
        ),
    ),
    blanks=(
        ("int d = THREADS / 2", "int d = THREADS / 4"),
        ("__syncthreads();", "", "if (d >= 32) __syncthreads();"),
        ("t < d", "t <= d"),
    ),
    lesson="[parallel reductions](../memory/reductions.py)",
    hints="""
    In the first step, 128 threads add 128 pairs. If thread t adds `part[t + 128]` to `part[t]`,
    where are the 128 sums?

    Next, 64 threads do the same at a distance of 64, and so on down to 1. What do all threads
    have to do before a step begins?

    `for (int d = THREADS / 2; d > 0; d /= 2) { __syncthreads(); if (t < d) part[t] += part[t +
    d]; }`. The barrier is outside the `if`.
    """,
    after="""
    The active threads are the first d, so whole warps go idle. Adding neighbours first, at a distance
    of 1, then 2, gives the same sums. But then the words that a warp accesses are 2d apart, which
    causes bank conflicts, and the wavefronts exceed the budget.
    """,
)
