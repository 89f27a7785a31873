"""An inclusive scan within a warp, by shuffles."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewise.cuda.cases import Array, case, ceil_div, integers, output
from tilewise.puzzles.counting import sectors
from tilewise.puzzles.model import Limit, Puzzle, Trial, Values

CODE = """
extern "C" __global__
void running_sums(const int* in, int* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int lane = threadIdx.x % 32;
    int sum = i < n ? in[i] : 0;
    // [gap add the values of the lanes before this one
    for (int d = 1; d < 32; d *= 2) {
        int before = __shfl_up_sync(0xffffffff, sum, d);
        if (lane >= d) sum += before;
    }
    // gap]
    if (i < n) out[i] = sum;
}
"""
PLAIN = """
extern "C" __global__
void running_sums(const int* in, int* out, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int lane = threadIdx.x % 32;
    if (i >= n) return;
    int sum = 0;
    for (int j = i - lane; j <= i; ++j) sum += in[j];
    out[i] = sum;
}
"""


def _trial(n: int, threads: int) -> Trial:
    arrays: dict[str, Any] = {"in": integers(n, low=1, high=1000), "out": output(n, dtype="int32")}
    return Trial(f"n = {n:,}", case(ceil_div(n, threads), threads, n=n, **arrays))


def _expected(v: Values) -> dict[str, Array]:
    padded = np.zeros(ceil_div(v["n"], 32) * 32, np.int32)
    padded[: v["n"]] = v["in"]
    sums = np.cumsum(padded.reshape(-1, 32), axis=1, dtype=np.int32)
    return {"out": sums.reshape(-1)[: v["n"]]}


PUZZLE = Puzzle(
    title="Warp scan with shuffles",
    task="""
    Each run of 32 elements belongs to one warp. Set `out[i]` to the sum of the elements of its run,
    from the first up to and including element i. `__shfl_up_sync(0xffffffff, value, d)` returns the
    `value` of the lane d positions lower; the first d lanes get their own value back. Every lane
    that hasn't exited must execute the call, and no lane may read from a lane that has exited.
    """,
    launch="blocks of 64 or 96 threads, enough to cover n elements.",
    code=CODE,
    plain=PLAIN,
    trials=(_trial(512, 64), _trial(1, 64), _trial(33, 96), _trial(1000, 96), _trial(95, 64)),
    expected=_expected,
    limits=(
        Limit("global_load.sectors", lambda v: sectors(v["n"]), "each element is loaded once, 8 to a sector"),
        Limit("barriers", lambda v: 0, "a shuffle needs neither a barrier nor shared memory"),
        Limit("shared_store.requests", lambda v: 0, "a shuffle needs neither a barrier nor shared memory"),
    ),
    blanks=(
        ("int d = 1; d < 32; d *= 2", "int d = 16; d > 0; d /= 2", "int d = 1; d < 32; ++d"),
        ("__shfl_up_sync", "__shfl_down_sync"),
        ("lane >= d", "lane > d"),
    ),
    lesson="[warp shuffles](../memory/reductions.py)",
    hints="""
    If every lane adds the value of the lane before it, it holds the sum of two elements. What
    must it add next, to hold four?

    Use distances of 1, 2, 4, 8 and 16. A lane whose number is below the distance has no lane that
    far before it.

    `int before = __shfl_up_sync(0xffffffff, sum, d); if (lane >= d) sum += before;` for each
    distance d. The call is outside the `if`.
    """,
    after="""
    Five steps do the work of a loop of 31, because after the step with distance d each lane holds the
    sum of up to 2d elements. This is the scan of Hillis and Steele (1986). Lanes past the end hold
    zeros, which no other lane reads. The call has to be outside the `if`, because a shuffle waits for
    every lane that its mask names.
    """,
)
