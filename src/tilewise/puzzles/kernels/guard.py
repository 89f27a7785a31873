"""A bounds check: the last block has more threads than there are elements left."""

from __future__ import annotations

from tilewise.cuda.cases import case, ceil_div, normal, output
from tilewise.puzzles.counting import sectors
from tilewise.puzzles.model import Limit, Puzzle, Trial

CODE = """
extern "C" __global__
void twice_and_add(const float* a, const float* b, float* out, int n) {
    // [gap compute the index, check that the element exists, and store the result
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        out[i] = 2.0f * a[i] + b[i];
    }
    // gap]
}
"""


def _trial(n: int, threads: int) -> Trial:
    blocks = ceil_div(n, threads)
    return Trial(f"n = {n:,}", case(blocks, threads, a=normal(n), b=normal(n), out=output(n), n=n))


PUZZLE = Puzzle(
    title="A bounds check for the last block",
    task="""
    Set `out[i]` to `2 * a[i] + b[i]` for each `i` below `n`, and access no other elements.
    """,
    launch="a one-dimensional grid, rounded up to cover n, so the last block may have surplus threads.",
    code=CODE,
    trials=(_trial(1000, 256), _trial(1, 32), _trial(257, 128), _trial(96, 96), _trial(4097, 512)),
    expected=lambda v: {"out": 2 * v["a"] + v["b"]},
    rtol=1e-6,
    atol=1e-6,
    limits=(
        Limit(
            "global_load.sectors",
            lambda v: 2 * sectors(v["n"]),
            "a sector holds 8 floats, both inputs are read once, and the output is written once",
        ),
        Limit(
            "global_store.sectors",
            lambda v: sectors(v["n"]),
            "a sector holds 8 floats, both inputs are read once, and the output is written once",
        ),
    ),
    blanks=(
        ("blockIdx.x * blockDim.x + threadIdx.x", "threadIdx.x"),
        ("i < n", "i <= n", "threadIdx.x < n"),
        ("2.0f * a[i] + b[i]", "2.0f * (a[i] + b[i])"),
    ),
    lesson="[your first CUDA kernel](../kernels/first_kernel.py)",
    hints="""
    1,000 elements in blocks of 256 need 4 blocks, which have 1,024 threads. Which threads have no
    work?

    A thread may access `a[i]` only if `i` is less than `n`. If `i` equals `n`, it's already out
    of bounds.

    Put the store and both loads inside `if (i < n) { ... }`.
    """,
    after="""
    The bounds check compares with `n`, so it works for every size. It has to cover the loads too:
    with a check around the store alone, the surplus threads still load past the end of the arrays,
    unless the compiler happens to move those loads inside the check.
    """,
)
