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
    // [gap add up part[0] to part[THREADS - 1] into part[0], in eight steps
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


def _passes() -> int:
    """Loads of a block: two for each active warp of each step, and the one of the result."""
    return sum(2 * ceil_div(THREADS >> step, 32) for step in range(1, STEPS + 1)) + 1


PUZZLE = Puzzle(
    name="memory/tree",
    title="Half as many at each step",
    task="""
    Each \\block sums up to 256 elements of `in` and writes one number, `sums[blockIdx.x]`. The elements
    stand in `part`; add them up in eight steps, each with half as many threads as the one before.
    """,
    launch="blocks of 256 threads, just enough for n.",
    code=CODE,
    plain=PLAIN,
    trials=(_trial(1024), _trial(1), _trial(100), _trial(767), _trial(256)),
    expected=_expected,
    limits=(
        Limit("global_load.sectors", lambda v: sectors(v["n"]), "each element once, 8 to a sector"),
        Limit(
            "barriers",
            lambda v: ceil_div(v["n"], THREADS) * (STEPS + 1) * THREADS // 32,
            "one barrier a step for each of 8 warps, and one to spare",
        ),
        Limit(
            "shared_load.wavefronts",
            lambda v: ceil_div(v["n"], THREADS) * _passes(),
            "two loads for each warp that still adds, without conflicts: neighbouring threads, "
            "neighbouring words",
        ),
    ),
    hints=(
        "In the first step 128 threads add 128 pairs. If thread t adds `part[t + 128]` to `part[t]`, "
        "where are the 128 sums?",
        "Then 64 threads do the same with a distance of 64, and so on down to 1. What must be done "
        "by all before a step begins?",
        "`for (int d = THREADS / 2; d > 0; d /= 2) { __syncthreads(); if (t < d) part[t] += part[t + "
        "d]; }`. The barrier stands "
        "outside the `if`.",
    ),
    after="""
    The threads that still add are the first d, so whole warps fall silent. Adding neighbours first,
    distance 1, then 2, gives the same sums; but the words of a warp then lie 2d apart, more and more of
    them in the same bank, and the budget for passes turns it down.
    """,
)
