"""The last block, which has more threads than there are elements left."""

from __future__ import annotations

from tilewise.cuda.cases import case, ceil_div, normal, output
from tilewise.puzzles.counting import sectors
from tilewise.puzzles.model import Limit, Puzzle, Trial

CODE = """
extern "C" __global__
void twice_and_add(const float* a, const float* b, float* out, int n) {
    // [gap which element, is there such an element, and what does it become?
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
    name="kernels/guard",
    title="The last block",
    task="Set `out[i]` to `2 * a[i] + b[i]` for each `i` below `n`, and touch nothing else.",
    launch="just enough blocks along x for n threads, so that the last one may reach past the end.",
    code=CODE,
    trials=(_trial(1000, 256), _trial(1, 32), _trial(257, 128), _trial(96, 96), _trial(4097, 512)),
    expected=lambda v: {"out": 2 * v["a"] + v["b"]},
    rtol=1e-6,
    atol=1e-6,
    limits=(
        Limit(
            "global_load.sectors",
            lambda v: 2 * sectors(v["n"]),
            "two arrays, 8 floats to a sector, each once",
        ),
        Limit("global_store.sectors", lambda v: sectors(v["n"]), "one array, 8 floats to a sector"),
    ),
    hints=(
        "1,000 elements in blocks of 256 make 4 blocks and 1,024 threads. Which threads have nothing to do?",
        "A thread may touch `a[i]` only where `i` is less than `n`; `i` equal to `n` is already one too far.",
        "Put the store, and both loads with it, into `if (i < n) { ... }`.",
    ),
    after="""
    The guard compares with `n` and not with a number of blocks, so it holds for every size. It stands
    before the loads. A guard around the store alone asks for loads past the end as well, and leaves it to
    the compiler whether they happen.
    """,
)
