"""A GEMM from its parts: a ring between one producer and two consumer warpgroups that issue wgmma."""

from __future__ import annotations

from tilewise import bf16
from tilewise.cuda.cases import Array, case, ceil_div, integers, output
from tilewise.cuda.tensor_map import tensor_map
from tilewise.puzzles.model import Limit, Puzzle, Trial, Values

CODE = """
#include "hopper.cuh"

#define STAGES 3
#define A_BYTES 16384  // 128 x 64: 64 rows for each consumer warpgroup
#define B_BYTES 16384  // 64 x 128: two sub-tiles of 64 x 64
#define STAGE_BYTES (A_BYTES + B_BYTES)

// C = A B. A: M x K, B: K x N, both row-major in BF16; C: M x N floats.
// a_map: boxes of 128 x 64; b_map: boxes of 64 x 64; with a 128-byte swizzle.
extern "C" __global__ void __launch_bounds__(384)
gemm(const __grid_constant__ TensorMap a_map,
     const __grid_constant__ TensorMap b_map, float* C, int M, int N, int K) {
    extern __shared__ __align__(1024) unsigned char smem[];
    __shared__ u64 full[STAGES], empty[STAGES];
    int warpgroup = threadIdx.x / 128, k_tiles = (K + 63) / 64;
    int row0 = 128 * blockIdx.y, col0 = 128 * blockIdx.x;
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; ++s) {
            mbarrier_init(&full[s], 1);
            mbarrier_init(&empty[s], 2);  // one arrival per consumer warpgroup
        }
        mbarrier_init_fence();
    }
    __syncthreads();
    if (warpgroup == 0) {  // the producer
        if (threadIdx.x == 0)
            for (int t = 0; t < k_tiles; ++t) {
                // [gap wait for a free stage, announce bytes, load three boxes
                int stage = t % STAGES, use = t / STAGES;
                unsigned char* a = smem + stage * STAGE_BYTES;
                unsigned char* b = a + A_BYTES;
                mbarrier_wait(&empty[stage], use % 2 ^ 1);
                mbarrier_arrive_expect_tx(&full[stage], STAGE_BYTES);
                tma_load_2d(a, &a_map, 64 * t, row0, &full[stage]);
                tma_load_2d(b, &b_map, col0, 64 * t, &full[stage]);
                tma_load_2d(b + 8192, &b_map, col0 + 64, 64 * t, &full[stage]);
                // gap]
            }
    } else {  // two consumer warpgroups, 64 rows of C each
        int row1 = 64 * (warpgroup - 1);
        float acc[64];
        for (int t = 0; t < k_tiles; ++t) {
            // [gap wait for tile t, issue four wgmma and commit them
            int stage = t % STAGES, use = t / STAGES;
            unsigned char* a = smem + stage * STAGE_BYTES + 128 * row1;
            unsigned char* b = smem + stage * STAGE_BYTES + A_BYTES;
            mbarrier_wait(&full[stage], use % 2);
            wgmma_fence();
            #pragma unroll
            for (int k = 0; k < 4; ++k)
                wgmma_m64n128k16_mn(acc, descriptor(a + 32 * k, 16, 1024),
                                    descriptor(b + 2048 * k, 8192, 1024),
                                    t > 0 || k > 0);
            wgmma_commit();
            // gap]
            // [gap leave one group in flight, and give back the stage of tile t - 1
            wgmma_wait<1>(acc);
            if (t > 0 && threadIdx.x % 128 == 0)
                mbarrier_arrive(&empty[(t - 1) % STAGES]);
            // gap]
        }
        // [gap the last group
        wgmma_wait<0>(acc);
        // gap]
        int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
        #pragma unroll
        for (int i = 0; i < 64; ++i) {
            int row = row0 + row1 + 16 * warp + lane / 4 + i / 2 % 2 * 8;
            int col = col0 + i / 4 * 8 + lane % 4 * 2 + i % 2;
            if (row < M && col < N) C[(size_t)N * row + col] = acc[i];
        }
    }
}
"""


def _blocks(v: Values) -> int:
    return ceil_div(v["N"], 128) * ceil_div(v["M"], 128)


def _trial(m: int, n: int, k: int) -> Trial:
    return Trial(
        f"M = {m}, N = {n}, K = {k}",
        case(
            (ceil_div(n, 128), ceil_div(m, 128)),
            384,
            shared_bytes=3 * 32768,
            A=integers(m, k, low=-4, high=5, dtype="bfloat16"),
            B=integers(k, n, low=-4, high=5, dtype="bfloat16"),
            C=output(m, n),
            a_map=tensor_map("A", box=(128, 64), swizzle=128, dtype="bfloat16"),
            b_map=tensor_map("B", box=(64, 64), swizzle=128, dtype="bfloat16"),
            M=m,
            N=n,
            K=k,
        ),
    )


def _product(v: Values) -> dict[str, Array]:
    return {"C": bf16.values(v["A"]) @ bf16.values(v["B"])}


PUZZLE = Puzzle(
    title="A GEMM with a producer and two consumer warpgroups",
    task="""
    Warpgroup 0 is the producer: one of its threads loads a 128 × 64 tile of A and a 64 × 128 tile of
    B per stage. Warpgroups 1 and 2 each multiply 64 rows of A's tile by all of B's tile. Each keeps
    one `wgmma` group in flight: once the group of the previous tile is complete, one thread of the
    warpgroup releases that tile's stage. Write each side's code for tile t.
    """,
    launch="one block of 384 threads for every 128 by 128 elements of C, with columns along x.",
    code=CODE,
    trials=(
        _trial(130, 136, 328),
        _trial(1, 8, 8),
        _trial(128, 128, 64),
        _trial(40, 72, 200),
        _trial(200, 64, 448),
    ),
    expected=_product,
    limits=(
        Limit(
            "bulk_load.requests",
            lambda v: 3 * _blocks(v) * ceil_div(v["K"], 64),
            "a stage takes one load for A, and two for B because a row of a box is at most 128 bytes long",
        ),
        Limit(
            "wgmma",
            lambda v: 8 * _blocks(v) * ceil_div(v["K"], 64),
            "64 elements along K take four steps of 16, in each of two warpgroups",
        ),
    ),
    blanks=(
        ("use % 2 ^ 1", "use % 2"),
        ("t > 0 || k > 0", "k > 0"),
        ("&empty[(t - 1) % STAGES]", "&empty[stage]"),
    ),
    lesson="[GEMM on Hopper](../matmul/hopper.py)",
    hints="""
    Start with the kernel of `matmul/ring`: stage, use and parities are the same. How many bytes
    arrive per stage, and in how many loads? Where does each sub-tile of B begin?

    A row of A's tile has 128 bytes, so the second consumer's rows begin 64 × 128 bytes later. The
    descriptors are those of the lesson on `wgmma`, and only the very first `wgmma` of a tile of C
    overwrites the accumulators: `t > 0 || k > 0`.

    `wgmma_wait<1>(acc)` returns when the group of tile t - 1 is complete. Its stage is `(t - 1) %
    STAGES`, and for t = 0 there's none. `empty` expects one arrival per consumer warpgroup, so
    one thread of each arrives.
    """,
    after="""
    The consumers never wait for the group that they have just committed, so the tensor cores always
    have work. That's why a stage is released one tile late, and why the ring needs at least two
    stages. The edges need no special code: outside A and B, the TMA loads zeros, the bytes announced
    are the same for every tile, and only the stores to C are guarded.
    """,
)
