"""The index of a thread: one element per thread, and the blocks cover the array exactly."""

from __future__ import annotations

from tilewise.cuda.cases import case, normal, output
from tilewise.puzzles.counting import sectors
from tilewise.puzzles.model import Limit, Puzzle, Trial

CODE = """
extern "C" __global__
void square(const float* a, float* out) {
    // [gap compute the index of this thread's element, and store its square
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    out[i] = a[i] * a[i];
    // gap]
}
"""
PLAIN = """
extern "C" __global__
void square(const float* a, float* out) {
    int i = threadIdx.x * gridDim.x + blockIdx.x;
    out[i] = a[i] * a[i];
}
"""


def _trial(blocks: int, threads: int) -> Trial:
    n = blocks * threads
    return Trial(f"{n:,} elements", case(blocks, threads, a=normal(n), out=output(n)))


_WHY = "a sector holds 8 floats, and neighbouring threads access neighbouring elements"

PUZZLE = Puzzle(
    title="Square every element: the thread index",
    task="""
    Set `out[i]` to the square of `a[i]` for every element.
    """,
    launch="a one-dimensional grid with exactly one thread per element.",
    code=CODE,
    plain=PLAIN,
    trials=(_trial(4, 256), _trial(3, 32), _trial(1, 64), _trial(7, 48), _trial(64, 64)),
    expected=lambda v: {"out": v["a"] * v["a"]},
    limits=(
        Limit(
            "global_load.sectors",
            lambda v: sectors(v["a"].size),
            _WHY,
        ),
        Limit(
            "global_store.sectors",
            lambda v: sectors(v["a"].size),
            _WHY,
        ),
    ),
    blanks=(
        (
            "blockIdx.x * blockDim.x + threadIdx.x",
            "threadIdx.x",
            "blockIdx.x * gridDim.x + threadIdx.x",
            "threadIdx.x * gridDim.x + blockIdx.x",
        ),
        ("a[i] * a[i]", "a[i] + a[i]", "a[i] * a[i ^ 1]"),
    ),
    lesson="[your first CUDA kernel](../kernels/first_kernel.py)",
    hints="""
    In block 0, `threadIdx.x` is the index. How many elements come before the first one of block
    1?

    Blocks 0 to b - 1 cover `b * blockDim.x` elements, and block b starts after them.

    `int i = blockIdx.x * blockDim.x + threadIdx.x;`
    """,
    after="""
    `blockIdx.x * blockDim.x` counts the elements of all blocks before this one; `threadIdx.x` counts
    on from there. The index `threadIdx.x * gridDim.x + blockIdx.x` also covers each element once and
    gives the same squares. But then neighbouring threads access elements that are `gridDim.x` apart,
    and the kernel exceeds its budget.
    """,
)
