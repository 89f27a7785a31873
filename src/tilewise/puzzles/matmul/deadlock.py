"""A block at the edge whose surplus warps have left: how many arrivals can a phase expect?"""

from __future__ import annotations

from functools import partial

from tilewise.puzzles.matmul.row_sums import expected, one_load_per_tile, trial
from tilewise.puzzles.model import Puzzle

CODE = """
#include "hopper.cuh"

#define STAGES 2
#define TILE_BYTES 12288  // 96 x 32 floats

// out[r] = the sum of row r of x.
// map: boxes of 96 x 32 floats of x, 128-byte swizzle.
extern "C" __global__ void __launch_bounds__(128)
row_sums(const __grid_constant__ TensorMap map, float* out, int rows, int cols) {
    __shared__ __align__(1024) unsigned char smem[STAGES * TILE_BYTES];
    __shared__ u64 full[STAGES], empty[STAGES];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int tiles = (cols + 31) / 32;
    int row0 = 96 * blockIdx.x, row = 32 * (warp - 1) + lane;
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; ++s) {
            // [gap initialise full[s] and empty[s]: how many arrivals?
            mbarrier_init(&full[s], 1);
            mbarrier_init(&empty[s], min(3, (rows - row0 + 31) / 32));
            // gap]
        }
        mbarrier_init_fence();
    }
    __syncthreads();
    // A consumer warp without rows leaves.
    if (warp > 0 && row0 + 32 * (warp - 1) >= rows) return;
    if (warp == 0) {  // the producer
        if (lane == 0)
            for (int t = 0; t < tiles; ++t) {
                int stage = t % STAGES;
                mbarrier_wait(&empty[stage], t / STAGES % 2 ^ 1);
                // [gap announce the bytes, load from column 32 * t, row row0
                mbarrier_arrive_expect_tx(&full[stage], TILE_BYTES);
                tma_load_2d(smem + stage * TILE_BYTES, &map, 32 * t, row0,
                            &full[stage]);
                // gap]
            }
        return;
    }
    float acc = 0.0f;
    for (int t = 0; t < tiles; ++t) {
        int stage = t % STAGES;
        const float4* tile = (const float4*)(smem + stage * TILE_BYTES);
        mbarrier_wait(&full[stage], t / STAGES % 2);
        for (int chunk = 0; chunk < 8; ++chunk) {
            float4 v = tile[8 * row + (chunk ^ row % 8)];
            acc += v.x + v.y + v.z + v.w;
        }
        // [gap arrive at empty[stage], when the whole warp has read the tile
        __syncwarp();
        if (lane == 0) mbarrier_arrive(&empty[stage]);
        // gap]
    }
    if (row0 + row < rows) out[row0 + row] = acc;
}
"""


_trial = partial(trial, high=96, threads=128)

PUZZLE = Puzzle(
    title="A deadlock at the edge of the matrix",
    task="""
    Three consumer warps share each tile, 32 rows each. In the last block, some of them may have no
    rows at all. Those warps return at once, and the line that makes them return has to stay. Choose
    the arrival counts and the announced bytes so that the kernel never hangs, however many rows and
    columns there are.
    """,
    launch="one block of 128 threads for every 96 rows. Warp 0 is the producer.",
    code=CODE,
    trials=(
        _trial(130, 200),
        _trial(1, 4),
        _trial(96, 128),
        _trial(33, 132),
        _trial(64, 100),
        _trial(200, 192),
    ),
    expected=expected,
    limits=(one_load_per_tile(96),),
    blanks=(
        ("min(3, (rows - row0 + 31) / 32)", "3", "(rows - row0 + 31) / 32"),
        (
            "mbarrier_arrive_expect_tx(&full[stage], TILE_BYTES);",
            "mbarrier_arrive_expect_tx(&full[stage], 128 * min(96, rows - row0));",
        ),
        ("if (lane == 0) mbarrier_arrive(&empty[stage]);", "mbarrier_arrive(&empty[stage]);"),
    ),
    lesson="[the TMA and mbarriers](../matmul/tma.py)",
    hints="""
    A phase of `empty` completes when all the arrivals that `init` announced have come. Who
    arrives in a block with 34 rows?

    The number of warps with rows is (rows - row0) / 32, rounded up, and at most three. Thread 0
    can compute it before `init`.

    And the bytes? A box that extends beyond the array is filled with zeros, and the zeros count.
    So the number of bytes is always `TILE_BYTES`, at the edge too.
    """,
    after="""
    Another solution lets the surplus warps arrive as well, in every phase. What matters is that
    `init` counts exactly the warps that arrive in *every* phase. Almost every hang of a pipelined
    kernel comes from a wrong count of arrivals or bytes, at an edge that the first test didn't cover.
    """,
)
