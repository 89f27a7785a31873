"""A ring of three stages between one producer thread and two consumer warps."""

from __future__ import annotations

from functools import partial

from tilewise.puzzles.matmul.row_sums import expected, one_load_per_tile, trial
from tilewise.puzzles.model import Puzzle

CODE = """
#include "hopper.cuh"

#define STAGES 3
#define TILE_BYTES 8192  // 64 x 32 floats

// out[r] = the sum of row r of x.
// map: boxes of 64 x 32 floats of x, 128-byte swizzle.
extern "C" __global__ void __launch_bounds__(96)
row_sums(const __grid_constant__ TensorMap map, float* out, int rows, int cols) {
    __shared__ __align__(1024) unsigned char smem[STAGES * TILE_BYTES];
    __shared__ u64 full[STAGES], empty[STAGES];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int tiles = (cols + 31) / 32;
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; ++s) {
            mbarrier_init(&full[s], 1);
            mbarrier_init(&empty[s], 2);  // one arrival per consumer warp
        }
        mbarrier_init_fence();
    }
    __syncthreads();
    if (warp == 0) {  // the producer
        if (lane == 0)
            for (int t = 0; t < tiles; ++t) {
                // [gap wait for a free stage, announce bytes, load tile t
                int stage = t % STAGES, use = t / STAGES;
                mbarrier_wait(&empty[stage], use % 2 ^ 1);
                mbarrier_arrive_expect_tx(&full[stage], TILE_BYTES);
                tma_load_2d(smem + stage * TILE_BYTES, &map, 32 * t, 64 * blockIdx.x,
                            &full[stage]);
                // gap]
            }
    } else {  // two consumer warps, 32 rows each
        int row = 32 * (warp - 1) + lane;
        float acc = 0.0f;
        for (int t = 0; t < tiles; ++t) {
            // [gap wait for tile t, and let `tile` point to it
            int stage = t % STAGES, use = t / STAGES;
            mbarrier_wait(&full[stage], use % 2);
            const float4* tile = (const float4*)(smem + stage * TILE_BYTES);
            // gap]
            for (int chunk = 0; chunk < 8; ++chunk) {
                float4 v = tile[8 * row + (chunk ^ row % 8)];
                acc += v.x + v.y + v.z + v.w;
            }
            // [gap give the stage back to the producer
            __syncwarp();
            if (lane == 0) mbarrier_arrive(&empty[stage]);
            // gap]
        }
        row += 64 * blockIdx.x;
        if (row < rows) out[row] = acc;
    }
}
"""


_trial = partial(trial, high=64, threads=96)

PUZZLE = Puzzle(
    title="A full/empty ring with two consumer warps",
    task="""
    One thread loads tiles of 64 × 32 floats into a ring of three stages. Two warps consume each
    tile; each sums 32 of its rows. Write both sides of the ring. `full` expects one arrival and the
    bytes of a tile; `empty` expects one arrival per consumer warp.
    """,
    launch="one block of 96 threads for every 64 rows. Warp 0 is the producer.",
    code=CODE,
    trials=(_trial(70, 300), _trial(1, 4), _trial(64, 96), _trial(33, 128), _trial(130, 36), _trial(40, 448)),
    expected=expected,
    limits=(one_load_per_tile(64),),
    blanks=(
        ("use % 2 ^ 1", "use % 2"),
        ("mbarrier_wait(&full[stage], use % 2);", "mbarrier_wait(&full[stage], t % 2);"),
        (
            "if (lane == 0) mbarrier_arrive(&empty[stage]);",
            "mbarrier_arrive(&empty[stage]);",
            "if (threadIdx.x == 32) mbarrier_arrive(&empty[stage]);",
        ),
    ),
    lesson="[the TMA and mbarriers](../matmul/tma.py)",
    hints="""
    Tile `t` goes into stage `t % STAGES`, and it's use number `t / STAGES` of that stage. Which
    phase of `full` does that use complete, and which phase of `empty` must be complete before it?

    The consumer waits on `full` for the parity of the use. The producer waits on `empty` for the
    opposite parity, so that its first wait on each stage passes at once.

    A warp may arrive only when all its lanes have read the tile: `__syncwarp()`, and then one
    lane arrives. If all lanes arrived, the mbarrier would need 64 arrivals.
    """,
    after="""
    Neither side knows how far the other has got. The producer runs ahead until all three stages are
    full, and the consumer warps may drift apart by up to three tiles. A stage is free only when the
    slower warp has arrived. The simulator runs the lanes of a warp in step, so it accepts the arrival
    without `__syncwarp()`. A GPU may not.
    """,
)
