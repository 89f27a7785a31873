"""Two kinds of work, one per warp: no warp diverges."""

from __future__ import annotations

from typing import Any

import numpy as np

from tilewise.cuda.cases import Array, case, ceil_div, integers, output
from tilewise.puzzles.counting import sectors
from tilewise.puzzles.model import Limit, Puzzle, Trial, Values

CODE = """
__device__ unsigned even_work(unsigned v, int steps) {
    for (int s = 0; s < steps; ++s) v = v * 5u + 1u;
    return v;
}

__device__ unsigned odd_work(unsigned v, int steps) {
    for (int s = 0; s < steps; ++s) v = (v ^ (v >> 3)) + 7u;
    return v;
}

extern "C" __global__
void two_kinds(const unsigned* in, unsigned* out, int n, int steps) {
    // [gap assign elements to threads so that each warp does one kind of work
    int half = blockDim.x / 2;
    bool odd = threadIdx.x >= half;
    int i = blockIdx.x * blockDim.x + 2 * (threadIdx.x % half) + odd;
    // gap]
    if (i >= n) return;
    out[i] = odd ? odd_work(in[i], steps) : even_work(in[i], steps);
}
"""
PLAIN = (
    CODE.replace(
        """    int half = blockDim.x / 2;
    bool odd = threadIdx.x >= half;
    int i = blockIdx.x * blockDim.x + 2 * (threadIdx.x % half) + odd;
""",
        """    int i = blockIdx.x * blockDim.x + threadIdx.x;
    bool odd = i % 2;
""",
    )
    .replace("    // [gap assign elements to threads so that each warp does one kind of work\n", "")
    .replace("    // gap]\n", "")
)


def _trial(n: int, threads: int, steps: int) -> Trial:
    arrays: dict[str, Any] = {
        "in": integers(n, low=0, high=1 << 30, dtype="uint32"),
        "out": output(n, dtype="uint32"),
    }
    return Trial(
        f"n = {n:,}, steps = {steps}", case(ceil_div(n, threads), threads, n=n, steps=steps, **arrays)
    )


def _expected(v: Values) -> dict[str, Array]:
    even, odd = v["in"][::2].copy(), v["in"][1::2].copy()
    for _ in range(v["steps"]):
        even = even * np.uint32(5) + np.uint32(1)
        odd = (odd ^ (odd >> np.uint32(3))) + np.uint32(7)
    out = np.empty_like(v["in"])
    out[::2], out[1::2] = even, odd
    return {"out": out}


PUZZLE = Puzzle(
    title="Divergence: one kind of work per warp",
    task="""
    Elements with an even index need `even_work`, and those with an odd index need `odd_work`. If
    neighbouring lanes process neighbouring elements, every warp diverges and executes both functions.
    Choose `i` and `odd` so that each warp does only one kind of work and each element is still
    processed by exactly one thread.
    """,
    launch="a one-dimensional grid of blocks of 64, 128 or 256 threads, rounded up to cover n elements.",
    code=CODE,
    plain=PLAIN,
    trials=(
        _trial(1024, 64, 20),
        _trial(1, 64, 3),
        _trial(100, 128, 5),
        _trial(513, 256, 4),
        _trial(190, 64, 2),
        _trial(600, 128, 0),
    ),
    expected=_expected,
    limits=(
        Limit(
            "divergent_branches",
            lambda v: 2 if v["n"] % 64 else 0,
            (
                "at the end of the array, the bounds check makes at most the last warp of each kind diverge, "
                "and no warp if n is a multiple of 64"
            ),
        ),
        Limit(
            "global_load.sectors",
            lambda v: 2 * sectors(v["n"]),
            "each warp needs every second element, so two warps read each sector",
        ),
    ),
    blanks=(
        ("threadIdx.x >= half", "threadIdx.x % 2", "threadIdx.x / 32 % 2"),
        ("2 * (threadIdx.x % half) + odd", "threadIdx.x", "threadIdx.x % half + half * odd"),
    ),
    lesson="[warps and divergence](../machine/warps.py)",
    hints="""
    A block of 64 threads has two warps and 64 elements, 32 of them even. Which warp should take
    which?

    Let the first half of the block's threads take the block's even elements, and the second half
    the odd ones.

    With `half = blockDim.x / 2`, thread `t` takes element `2 * (t % half)` of the block, plus 1
    if it's in the second half.
    """,
    after="""
    The number of useful operations is the same as before, but no warp executes both branches any
    more. That isn't free: two warps now load each sector, and each uses only 16 of its 32 bytes.
    That's a good trade when the work is long, as here.
    """,
)
