"""A ring that was written for two stages and gets four."""

from __future__ import annotations

from tilewise.puzzles.matmul.row_sums import expected, one_load_per_tile, trial
from tilewise.puzzles.model import Puzzle

CODE = """
#include "hopper.cuh"

#define STAGES 4
#define TILE_BYTES 4096  // 32 x 32 floats

// out[r] = the sum of row r of x.
// map: boxes of 32 x 32 floats of x, 128-byte swizzle.
extern "C" __global__ void __launch_bounds__(32)
row_sums(const __grid_constant__ TensorMap map, float* out, int rows, int cols) {
    __shared__ __align__(1024) unsigned char smem[STAGES * TILE_BYTES];
    __shared__ u64 full[STAGES];
    int lane = threadIdx.x, row = 32 * blockIdx.x, tiles = (cols + 31) / 32;
    if (lane == 0) {
        for (int s = 0; s < STAGES; ++s) mbarrier_init(&full[s], 1);
        mbarrier_init_fence();
        // [gap start the loads of the first tiles, with two stages: tile 0, if there is one
        for (int t = 0; t < STAGES - 1 && t < tiles; ++t) {
            mbarrier_arrive_expect_tx(&full[t], TILE_BYTES);
            tma_load_2d(smem + t * TILE_BYTES, &map, 32 * t, row, &full[t]);
        }
        // gap]
    }
    __syncwarp();
    float acc = 0.0f;
    for (int t = 0; t < tiles; ++t) {
        int ahead = t + 3;  // with two stages: t + 1
        // [gap start the load of tile `ahead`, if there is one, into its stage
        int s = ahead % STAGES;
        if (lane == 0 && ahead < tiles) {
            mbarrier_arrive_expect_tx(&full[s], TILE_BYTES);
            tma_load_2d(smem + s * TILE_BYTES, &map, 32 * ahead, row, &full[s]);
        }
        // gap]
        // [gap wait for tile t and set `tile`, with two stages: t % 2, parity t / 2 % 2
        mbarrier_wait(&full[t % STAGES], t / STAGES % 2);
        const float4* tile = (const float4*)(smem + t % STAGES * TILE_BYTES);
        // gap]
        for (int chunk = 0; chunk < 8; ++chunk) {
            float4 v = tile[8 * lane + (chunk ^ lane % 8)];
            acc += v.x + v.y + v.z + v.w;
        }
        __syncwarp();  // all lanes have read tile t
    }
    for (int s = 0; s < STAGES; ++s) {  // every stage must have had its tiles
        int uses = (tiles - s + STAGES - 1) / STAGES;
        mbarrier_wait(&full[s], uses % 2 ^ 1);
    }
    if (row + lane < rows) out[row + lane] = acc;
}
"""


PUZZLE = Puzzle(
    title="From two stages to four",
    task="""
    A single warp loads tiles and sums them. The kernel was written for two stages; now there are
    four. Keep three loads in flight while the warp sums a tile. No `empty` mbarrier is needed, since
    the warp itself knows when it has read a stage. At the end, the code provided waits for the
    last phase of each of the four stages.
    """,
    launch="one block of 32 threads for every 32 rows.",
    code=CODE,
    trials=(trial(40, 332), trial(1, 4), trial(32, 64), trial(33, 96), trial(65, 128), trial(32, 292)),
    expected=expected,
    limits=(one_load_per_tile(),),
    blanks=(
        ("t < STAGES - 1 && t < tiles", "t < STAGES && t < tiles", "t < 1 && t < tiles"),
        ("lane == 0 && ahead < tiles", "lane == 0"),
        ("t / STAGES % 2", "t % 2"),
    ),
    lesson="[the TMA and mbarriers](../matmul/tma.py)",
    hints="""
    With S stages, S - 1 loads are in flight while the warp sums a tile. Which tile's load starts
    at step `t`, and which stage did the warp finish reading just before?

    Before the loop, start tiles 0, 1 and 2, as far as they exist. At step `t`, start tile `t` +
    3: its stage is that of tile `t` - 1, which all lanes have read.

    Stage `t % 4`, parity `t / 4 % 2`. The parity changes only after the warp has used all four
    stages once.
    """,
    after="""
    Only three things depend on the number of stages: the number of loads before the loop, the
    distance of the load in the loop, and the stage and parity of the wait. Written with `STAGES`,
    the next change is one line.
    """,
)
