"""float4 loads and stores, with one to three elements left at the end."""

from __future__ import annotations

from typing import Any

from tilewise.cuda.cases import case, ceil_div, integers, output
from tilewise.puzzles.counting import runs
from tilewise.puzzles.model import Limit, Puzzle, Trial

CODE = """
extern "C" __global__
void triple(const float* in, float* out, int n) {
    int q = blockIdx.x * blockDim.x + threadIdx.x;
    // [gap move four elements with one load and one store, or what is left at the end
    const float4* in4 = (const float4*)in;
    float4* out4 = (float4*)out;
    if (4 * q + 3 < n) {
        float4 v = in4[q];
        out4[q] = make_float4(3 * v.x, 3 * v.y, 3 * v.z, 3 * v.w);
    } else {
        for (int i = 4 * q; i < n; ++i) out[i] = 3 * in[i];
    }
    // gap]
}
"""
PLAIN = """
extern "C" __global__
void triple(const float* in, float* out, int n) {
    int q = blockIdx.x * blockDim.x + threadIdx.x;
    for (int i = 4 * q; i < n && i < 4 * q + 4; ++i) out[i] = 3 * in[i];
}
"""


def _trial(n: int, threads: int) -> Trial:
    arrays: dict[str, Any] = {"in": integers(n, low=-99, high=100, dtype="float32"), "out": output(n)}
    return Trial(f"n = {n:,}", case(ceil_div(ceil_div(n, 4), threads), threads, n=n, **arrays))


def _requests(n: int) -> int:
    return runs(n // 4) + n % 4


_WHY = "a warp moves 128 floats per request, and up to 3 leftover floats may each need one more request"

PUZZLE = Puzzle(
    title="float4 loads and stores",
    task="""
    Set `out[i]` to `3 * in[i]` for each `i` below `n`. Move four floats with one load and one store,
    as a `float4`. `n` need not be a multiple of 4.
    """,
    launch="blocks of 64 or 128 threads, enough to cover n elements at 4 per thread.",
    code=CODE,
    plain=PLAIN,
    trials=(
        _trial(4096, 128),
        _trial(3, 64),
        _trial(1001, 64),
        _trial(514, 128),
        _trial(255, 64),
        _trial(8, 64),
    ),
    expected=lambda v: {"out": 3 * v["in"]},
    limits=(
        Limit("global_load.requests", lambda v: _requests(v["n"]), _WHY),
        Limit("global_store.requests", lambda v: _requests(v["n"]), _WHY),
    ),
    blanks=(
        ("4 * q + 3 < n", "4 * q < n", "q < n"),
        ("in4[q]", "in4[4 * q]"),
        ("int i = 4 * q; i < n", "int i = 4 * q; i <= n"),
    ),
    lesson="[memory coalescing](../memory/coalescing.py)",
    hints="""
    `(const float4*)in` is the same memory, viewed as elements of 16 bytes. Which elements of `in`
    are in its element q?

    Thread q may move a whole `float4` only if the last of its four elements, `4 * q + 3`, is
    below `n`.

    Otherwise, a loop from `4 * q` to `n` moves what is left. For all threads but one, it has
    nothing to do.
    """,
    after="""
    The number of sectors is the same as with single floats, but it takes a quarter of the requests.
    The bounds check tests the last of the four elements, because a `float4` that reaches past the end
    is out of bounds even if most of it is inside.
    """,
)
