"""A histogram: count in shared memory first, then add to global memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewise.cuda.cases import Array, case, constant, integers
from tilewise.puzzles.counting import sectors
from tilewise.puzzles.model import Limit, Puzzle, Trial, Values

CODE = """
#define MOST_BINS 256

extern "C" __global__
void histogram(const int* in, int* counts, int n, int bins) {
    __shared__ int own[MOST_BINS];
    // [gap clear the block's own counts
    for (int b = threadIdx.x; b < bins; b += blockDim.x) own[b] = 0;
    __syncthreads();
    // gap]
    int first = blockIdx.x * blockDim.x + threadIdx.x;
    int step = gridDim.x * blockDim.x;
    // [gap count in[first], in[first + step], ... in them
    for (int i = first; i < n; i += step) atomicAdd(&own[in[i]], 1);
    __syncthreads();
    // gap]
    // [gap add them to counts, which all blocks share
    for (int b = threadIdx.x; b < bins; b += blockDim.x)
        atomicAdd(&counts[b], own[b]);
    // gap]
}
"""
PLAIN = """
#define MOST_BINS 256

extern "C" __global__
void histogram(const int* in, int* counts, int n, int bins) {
    int first = blockIdx.x * blockDim.x + threadIdx.x;
    int step = gridDim.x * blockDim.x;
    for (int i = first; i < n; i += step) atomicAdd(&counts[in[i]], 1);
}
"""


def _trial(n: int, bins: int, blocks: int, threads: int) -> Trial:
    arrays: dict[str, Any] = {
        "in": integers(n, low=0, high=bins),
        "counts": constant(bins, value=0, dtype="int32"),
    }
    return Trial(f"n = {n:,}, bins = {bins}", case(blocks, threads, n=n, bins=bins, **arrays))


def _expected(v: Values) -> dict[str, Array]:
    return {"counts": np.bincount(v["in"], minlength=v["bins"]).astype(np.int32)}


PUZZLE = Puzzle(
    title="Histogram in two stages",
    task="""
    Count how often each value from 0 to `bins - 1` occurs in the array `in`, and add the results to
    `counts`, which is zeroed before the launch. There are at most 256 bins. One global atomic per
    element would be correct but over budget: count within the block first, in shared memory, then add
    one value per bin.
    """,
    launch="4 blocks of 128 threads, among other shapes; n may be much larger than the number of threads.",
    code=CODE,
    plain=PLAIN,
    trials=(
        _trial(5000, 60, 4, 128),
        _trial(1, 3, 2, 32),
        _trial(777, 256, 3, 64),
        _trial(3000, 1, 4, 96),
        _trial(100, 130, 2, 128),
    ),
    expected=_expected,
    limits=(
        Limit("global_load.sectors", lambda v: sectors(v["n"]), "each element is loaded once, 8 to a sector"),
        Limit(
            "global_atomic.lane_accesses",
            lambda v: 4 * v["bins"],
            "each block adds each bin once, and no launch here has more than 4 blocks",
        ),
    ),
    blanks=(
        ("__syncthreads();", ""),
        ("atomicAdd(&own[in[i]], 1)", "own[in[i]] += 1"),
        ("atomicAdd(&counts[b], own[b])", "counts[b] += own[b]", "counts[b] = own[b]"),
    ),
    lesson="[atomics](../memory/reductions_atomics.py)",
    hints="""
    There are three stages: clear the block's own counts, count into them, and add them to the
    shared result. What is needed between the stages?

    A block may have fewer threads than bins. Loop over the bins in steps of `blockDim.x`, both to
    clear them and to add them.

    Use `atomicAdd(&own[in[i]], 1)` in the loop over elements, `__syncthreads()` before and after
    that loop, and `atomicAdd(&counts[b], own[b])` at the end.
    """,
    after="""
    Both additions are atomic: two threads of a block may update the same bin at once, and so may two
    blocks. What the two stages save is global traffic: one atomic per bin and block instead of one
    per element.
    """,
)
