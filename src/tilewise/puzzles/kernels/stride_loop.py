"""A loop over the grid: few threads, any number of elements."""

from __future__ import annotations

from tilewise.cuda.cases import case, normal, output
from tilewise.puzzles.counting import sectors
from tilewise.puzzles.model import Limit, Puzzle, Trial

CODE = """
extern "C" __global__
void multiply(const float* a, const float* b, float* out, int n) {
    // [gap let each thread take as many elements as it must, in an order that suits memory
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
    name="kernels/stride_loop",
    title="More elements than threads",
    task="""
    Set `out[i]` to `a[i] * b[i]` for each `i` below `n`. The number of threads is fixed, and `n` may be
    many times larger or smaller.
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
            "two arrays, 8 floats to a sector, each once",
        ),
        Limit("global_store.sectors", lambda v: sectors(v["n"]), "one array, 8 floats to a sector"),
    ),
    hints=(
        "4 blocks of 64 threads can do elements 0 to 255 at once. Which element does thread 0 of "
        "\\block 0 do next?",
        "All threads together take one stretch of the array, then the next one. How long is a stretch?",
        "`for (int i = first; i < n; i += gridDim.x * blockDim.x)`",
    ),
    after="""
    The condition of the loop is the guard as well. Giving each thread a stretch of its own, `n` by the
    number of threads, computes the same; but then the lanes of a warp read addresses far apart, and each
    request touches up to 32 sectors in place of 4.
    """,
)
