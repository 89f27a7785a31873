"""The index of a thread: blocks side by side, one element a thread, nothing left over."""

from __future__ import annotations

from tilewise.cuda.cases import case, normal, output
from tilewise.puzzles.counting import sectors
from tilewise.puzzles.model import Limit, Puzzle, Trial

CODE = """
extern "C" __global__
void square(const float* a, float* out) {
    // [gap which element is this thread's, and what becomes of it?
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


_WHY = "8 floats lie in a sector, and neighbouring threads meet neighbouring elements"

PUZZLE = Puzzle(
    name="kernels/map",
    title="Every thread its square",
    task=(
        "Set `out[i]` to the square of `a[i]`, for each element. There are exactly as many threads as "
        "elements."
    ),
    launch="blocks side by side along x; blocks times threads of a block make the number of elements.",
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
    hints=(
        "In block 0 the thread's own number is enough. How many elements come before the first one "
        "of block 1?",
        "Before block `b` stand `b` whole blocks of `blockDim.x` elements each.",
        "`int i = blockIdx.x * blockDim.x + threadIdx.x;`",
    ),
    after="""
    The number of the block counts whole blocks, the number of the thread counts on from there. The other
    order, `threadIdx.x * gridDim.x + blockIdx.x`, meets each element once as well and gives the same
    squares; but neighbouring threads are then `gridDim.x` elements apart, and the budget turns it down.
    """,
)
