"""A grid-stride loop: a fixed number of threads, any number of elements."""

from __future__ import annotations

from tilewise.cuda.cases import case, normal, output
from tilewise.puzzles.counting import sectors
from tilewise.puzzles.model import Limit, Puzzle, Trial

CODE = """
extern "C" __global__
void multiply(const float* a, const float* b, float* out, int n) {
    // [gap let each thread process as many elements as necessary, in an order that saves sectors
    int first = blockIdx.x * blockDim.x + threadIdx.x;
    int step = gridDim.x * blockDim.x;
    for (int i = first; i < n; i += step) {
        out[i] = a[i] * b[i];
    }
    // gap]
}
"""
PLAIN = """
extern "C" __global__
void multiply(const float* a, const float* b, float* out, int n) {
    int threads = gridDim.x * blockDim.x;
    int share = (n + threads - 1) / threads;
    int first = (blockIdx.x * blockDim.x + threadIdx.x) * share;
    for (int i = first; i < first + share && i < n; ++i)
        out[i] = a[i] * b[i];
}
"""


def _trial(n: int, blocks: int, threads: int) -> Trial:
    return Trial(f"n = {n:,}", case(blocks, threads, a=normal(n), b=normal(n), out=output(n), n=n))


PUZZLE = Puzzle(
    title="Loop over the grid: more elements than threads",
    task="""
    Set `out[i]` to `a[i] * b[i]` for each `i` below `n`.
    """,
    launch="a grid of fixed size, whatever n is.",
    code=CODE,
    plain=PLAIN,
    trials=(
        _trial(2000, 4, 64),
        _trial(31, 4, 64),
        _trial(256, 4, 64),
        _trial(1025, 3, 96),
        _trial(769, 1, 32),
    ),
    expected=lambda v: {"out": v["a"] * v["b"]},
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
        (
            "blockIdx.x * blockDim.x + threadIdx.x",
            "threadIdx.x * gridDim.x + blockIdx.x",
            "blockIdx.x * blockDim.x",
        ),
        ("gridDim.x * blockDim.x", "blockDim.x"),
        ("i < n", "i <= n"),
    ),
    lesson="[grids, blocks and threads](../kernels/grids.py)",
    hints="""
    4 blocks of 64 threads can process elements 0 to 255 at once. Which element should thread 0 of
    block 0 process next?

    All threads together process one chunk of the array, then the next. How long is a chunk?

    `for (int i = first; i < n; i += gridDim.x * blockDim.x)`
    """,
    after="""
    The loop condition doubles as the bounds check. You could also give each thread `n` / threads
    consecutive elements. The results are the same, but then the lanes of a warp access addresses far
    apart, and each access of a warp touches up to 32 sectors instead of 4.
    """,
)
