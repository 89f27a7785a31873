"""A running sum within a warp, by shuffles: what the lanes before have, without memory in between."""

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
    // [gap add what the lanes before this one have
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
    name="memory/scan",
    title="Running sums in five steps",
    task="""
    Each stretch of 32 elements belongs to one warp. Set `out[i]` to the sum of its stretch from the first
    element up to and including element i. `__shfl_up_sync(0xffffffff, value, d)` gives a lane the `value`
    of the lane d places before it; the first d lanes get their own back. Every lane of the warp that is
    still running must make the call.
    """,
    launch="blocks of 64 or 96 threads, just enough for n.",
    code=CODE,
    plain=PLAIN,
    trials=(_trial(512, 64), _trial(1, 64), _trial(33, 96), _trial(1000, 96), _trial(95, 64)),
    expected=_expected,
    limits=(
        Limit("global_load.sectors", lambda v: sectors(v["n"]), "each element once, 8 to a sector"),
        Limit("barriers", lambda v: 0, "a shuffle needs no barrier"),
        Limit("shared_store.requests", lambda v: 0, "a shuffle needs no shared memory"),
    ),
    hints=(
        "If every lane adds what the lane before it has, it holds the sum of two. What must it add "
        "next, to hold four?",
        "Distances 1, 2, 4, 8 and 16. A lane with a number below the distance has nobody that far before it.",
        "`int before = __shfl_up_sync(0xffffffff, sum, d); if (lane >= d) sum += before;` for each "
        "distance d. The call "
        "stands outside the `if`.",
    ),
    after="""
    Five steps do what a loop needs 31 for, since after the step with distance d each lane holds the sum
    of up to 2d elements. Lanes past the end carry zeros; nobody reads them, for a lane only looks back.
    The call stands outside the `if`, because a shuffle waits for every lane that its mask names.
    """,
)
