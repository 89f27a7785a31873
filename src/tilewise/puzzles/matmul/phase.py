"""One buffer and one mbarrier that a block uses again and again: which parity does each use wait for?"""

from __future__ import annotations

from functools import partial

from tilewise.puzzles.matmul.row_sums import expected, one_load_per_tile, trial
from tilewise.puzzles.model import Puzzle

CODE = """
#include "hopper.cuh"

// out[r] = the sum of row r of x. map: boxes of 32 x 32 floats of x, no swizzle.
extern "C" __global__ void __launch_bounds__(32)
row_sums(const __grid_constant__ TensorMap map, float* out, int rows, int cols) {
    __shared__ __align__(128) float tile[32 * 32];
    __shared__ u64 full;
    int lane = threadIdx.x, tiles = (cols + 31) / 32;
    if (lane == 0) {
        mbarrier_init(&full, 1);
        mbarrier_init_fence();
    }
    __syncwarp();
    // [gap declare what tells you which phase comes next
    int phase = 0;
    // gap]
    for (int row = 32 * blockIdx.x; row < rows; row += 32 * gridDim.x) {
        float acc = 0.0f;
        for (int t = 0; t < tiles; ++t) {
            if (lane == 0) {
                mbarrier_arrive_expect_tx(&full, sizeof(tile));
                tma_load_2d(tile, &map, 32 * t, row, &full);
            }
            // [gap wait until the bytes of this load have arrived
            mbarrier_wait(&full, phase);
            phase ^= 1;
            // gap]
            for (int c = 0; c < 32; ++c) acc += tile[32 * lane + (c + lane) % 32];
            __syncwarp();  // all lanes have read the tile
        }
        if (row + lane < rows) out[row + lane] = acc;
    }
}
"""


_trial = partial(trial, swizzle=0)

PUZZLE = Puzzle(
    title="The right phase of an mbarrier",
    task="""
    Each block sums the rows of a matrix, 32 rows at a time, through a single buffer that the TMA
    fills. The same mbarrier serves every load. For each tile of each group of
    32 rows that the block processes, wait for the right phase of that mbarrier.
    """,
    launch="blocks of 32 threads. Each block processes every `gridDim.x`-th group of 32 rows.",
    code=CODE,
    trials=(
        _trial(70, 96, 1),
        _trial(1, 4, 1),
        _trial(33, 32, 1),
        _trial(200, 36, 2),
        _trial(100, 132, 3),
        _trial(32, 256, 4),
    ),
    expected=expected,
    limits=(one_load_per_tile(),),
    blanks=(
        ("int phase = 0;", "int phase = 1;"),
        ("mbarrier_wait(&full, phase);", "mbarrier_wait(&full, t % 2);", "mbarrier_wait(&full, 0);"),
        ("phase ^= 1;", "if (lane == 0) phase ^= 1;"),
    ),
    lesson="[the TMA and mbarriers](../matmul/tma.py)",
    hints="""
    A wait names a parity, and phase 0 is the first to complete. Which parity does the first load
    wait for, and which the second?

    The mbarrier doesn't know that a new group of rows begins. With three tiles per group, the
    first load of the second group is phase 3.

    Declare `int phase = 0;` before both loops. At each load, wait with `mbarrier_wait(&full,
    phase)` and then flip it with `phase ^= 1`.
    """,
    after="""
    The phase belongs to the mbarrier, so it has to live as long as the mbarrier does. `t % 2` works
    only while each group has an even number of tiles, or the block has just one group. That's why
    persistent kernels count their K tiles over all output tiles.
    """,
)
