"""A tile that comes in by TMA, is changed by threads and leaves by TMA, through one buffer."""

from __future__ import annotations

import numpy as np

from tilewise.cuda.cases import case, ceil_div, integers, output
from tilewise.cuda.tensor_map import tensor_map
from tilewise.puzzles.model import Limit, Puzzle, Trial, Values

CODE = """
#include "hopper.cuh"

// y = max(alpha * x, 0). x_map, y_map: boxes of 32 x 32 floats, no swizzle.
extern "C" __global__ void __launch_bounds__(128)
scale_relu(const __grid_constant__ TensorMap x_map,
           const __grid_constant__ TensorMap y_map, float alpha, int cols) {
    __shared__ __align__(1024) float tile[32 * 32];
    __shared__ u64 full;
    int row = 32 * blockIdx.x, tiles = (cols + 31) / 32;
    if (threadIdx.x == 0) {
        mbarrier_init(&full, 1);
        mbarrier_init_fence();
    }
    __syncthreads();
    for (int t = 0; t < tiles; ++t) {
        if (threadIdx.x == 0) {
            mbarrier_arrive_expect_tx(&full, sizeof(tile));
            tma_load_2d(tile, &x_map, 32 * t, row, &full);
        }
        mbarrier_wait(&full, t % 2);
        for (int i = threadIdx.x; i < 32 * 32; i += 128)
            tile[i] = fmaxf(alpha * tile[i], 0.0f);
        // [gap store the tile with the TMA, so that the next load may overwrite it
        fence_proxy_async();
        __syncthreads();
        if (threadIdx.x == 0) {
            tma_store_2d(&y_map, tile, 32 * t, row);
            tma_store_commit();
            tma_store_wait_read();
        }
        // gap]
    }
}
"""


def _trial(rows: int, cols: int) -> Trial:
    return Trial(
        f"rows = {rows}, cols = {cols}",
        case(
            ceil_div(rows, 32),
            128,
            x=integers(rows, cols, low=-8, high=9, dtype="float32"),
            y=output(rows, cols),
            x_map=tensor_map("x", box=(32, 32)),
            y_map=tensor_map("y", box=(32, 32)),
            alpha=0.5,
            cols=cols,
        ),
    )


def _tiles(v: Values) -> int:
    return ceil_div(len(v["x"]), 32) * ceil_div(v["cols"], 32)


PUZZLE = Puzzle(
    title="From ordinary stores to a TMA store",
    task="""
    Each block scales a row of tiles, one tile at a time in one buffer. The load and the arithmetic
    are given. Store the tile with the TMA: make the threads' writes visible to it, order them before the
    store, and make sure that no thread overwrites the buffer too early.
    """,
    launch="one block of 128 threads for every 32 rows.",
    code=CODE,
    trials=(_trial(40, 100), _trial(1, 4), _trial(32, 32), _trial(33, 68), _trial(64, 96), _trial(10, 132)),
    expected=lambda v: {"y": np.maximum(np.float32(0.5) * v["x"], np.float32(0))},
    limits=(
        Limit("bulk_store.requests", _tiles, "each tile is stored once"),
        Limit(
            "barriers",
            lambda v: 4 * (_tiles(v) + ceil_div(len(v["x"]), 32)),
            "four warps wait once at the start and once per tile, before the store",
        ),
    ),
    blanks=(
        ("fence_proxy_async();", "", "if (threadIdx.x == 0) fence_proxy_async();"),
        ("__syncthreads();", ""),
        ("tma_store_wait_read();", ""),
    ),
    lesson="[the TMA and mbarriers](../matmul/tma.py)",
    hints="""
    Threads write through the generic proxy, and the TMA reads through the async proxy. Which
    instruction connects the two, and which threads have to execute it?

    Every thread \\fences its own writes. After a barrier, one thread starts the store. The next
    load must not start before that store has read the buffer.

    `fence_proxy_async()` and `__syncthreads()` by all threads. Then thread 0 alone: store,
    commit, wait. It also starts the next load, so it needs no second barrier.
    """,
    after="""
    The order is write, \\fence, barrier, store. If the storing thread alone \\fences before the
    barrier, only its own writes are covered. The wait with `.read` is enough inside the loop: the
    buffer may be overwritten once it has been read, even if the writes to global memory are still
    in flight.
    """,
)
