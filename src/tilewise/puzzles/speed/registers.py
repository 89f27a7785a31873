"""Four results per thread: a coefficient in a register serves all of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewise.cuda.cases import Array, case, ceil_div, integers, output
from tilewise.puzzles.counting import runs
from tilewise.puzzles.model import Limit, Puzzle, Trial, Values

CODE = """
#define ITEMS 4

extern "C" __global__
void polynomial(const float* x, const float* coefficients, float* out,
                int n, int degree) {
    int first = blockIdx.x * (ITEMS * blockDim.x) + threadIdx.x;
    // [gap compute the results for first, first + blockDim.x, ...: ITEMS of them, if below n
    float at[ITEMS], sum[ITEMS];
    for (int k = 0; k < ITEMS; ++k) {
        int i = first + k * blockDim.x;
        at[k] = i < n ? x[i] : 0.0f;
        sum[k] = 0.0f;
    }
    for (int power = degree; power >= 0; --power) {
        float c = coefficients[power];
        for (int k = 0; k < ITEMS; ++k) sum[k] = sum[k] * at[k] + c;
    }
    for (int k = 0; k < ITEMS; ++k) {
        int i = first + k * blockDim.x;
        if (i < n) out[i] = sum[k];
    }
    // gap]
}
"""
PLAIN = """
#define ITEMS 4

extern "C" __global__
void polynomial(const float* x, const float* coefficients, float* out,
                int n, int degree) {
    int first = blockIdx.x * (ITEMS * blockDim.x) + threadIdx.x;
    for (int k = 0; k < ITEMS; ++k) {
        int i = first + k * blockDim.x;
        if (i >= n) return;
        float sum = 0.0f;
        for (int power = degree; power >= 0; --power)
            sum = sum * x[i] + coefficients[power];
        out[i] = sum;
    }
}
"""
ITEMS = 4
THREADS = 64


def _trial(n: int, degree: int) -> Trial:
    arrays: dict[str, Any] = {
        "x": integers(n, low=-3, high=4, dtype="float32"),
        "coefficients": integers(degree + 1, low=-4, high=5, dtype="float32"),
        "out": output(n),
    }
    blocks = ceil_div(n, ITEMS * THREADS)
    return Trial(f"n = {n:,}, degree = {degree}", case(blocks, THREADS, n=n, degree=degree, **arrays))


def _expected(v: Values) -> dict[str, Array]:
    powers = v["x"].astype(np.float64)[:, None] ** np.arange(v["degree"] + 1)
    return {"out": powers @ v["coefficients"].astype(np.float64)}


PUZZLE = Puzzle(
    title="Four results per thread: load each coefficient once",
    task="""
    Evaluate one polynomial at many points: for each `i` below `n`, set `out[i]` to the sum of
    `coefficients[k]` times the k-th power of `x[i]`, for k from 0 to `degree`. Each thread computes `ITEMS`
    results, `blockDim.x` apart. Load each coefficient once for all of them.
    """,
    launch="a one-dimensional grid of 64-thread blocks, one for every 256 elements, rounded up to cover n.",
    code=CODE,
    plain=PLAIN,
    trials=(_trial(2048, 6), _trial(1, 3), _trial(700, 0), _trial(256, 8), _trial(1025, 5)),
    expected=_expected,
    limits=(
        Limit(
            "global_load.requests",
            lambda v: runs(v["n"]) + (THREADS // 32) * ceil_div(v["n"], ITEMS * THREADS) * (v["degree"] + 1),
            "each warp loads its x once and each coefficient once",
        ),
    ),
    blanks=(
        ("i < n ? x[i] : 0.0f", "x[i]"),
        (
            "int power = degree; power >= 0; --power",
            "int power = 0; power <= degree; ++power",
            "int power = degree; power > 0; --power",
        ),
        ("sum[k] * at[k] + c", "(sum[k] + c) * at[k]"),
    ),
    lesson="[occupancy and latency hiding](../speed/occupancy.py)",
    hints="""
    Swap the loops: the coefficients outside, the four elements inside. What must be kept between
    iterations?

    Keep four running results and four values of x in small arrays, `float at[ITEMS],
    sum[ITEMS];`. If the loops over them have a fixed length, the compiler keeps them in
    registers.

    Use Horner's rule from the highest power down: load `c = coefficients[power]`, then for each k
    compute `sum[k] = sum[k] * at[k] + c`. Load x before the loop, store after it, and check
    bounds in both.
    """,
    after="""
    The naive kernel reads all coefficients again for each of its four results. Letting one load
    feed several results is also what makes a matrix multiplication fast.
    """,
)
