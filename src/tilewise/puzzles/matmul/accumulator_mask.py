"""A causal mask on accumulators that are spread over the registers of two warpgroups."""

from __future__ import annotations

import numpy as np

from tilewise import bf16
from tilewise.cuda.cases import Array, case, integers, output
from tilewise.cuda.tensor_map import tensor_map
from tilewise.puzzles.model import Limit, Puzzle, Trial, Values

CODE = """
#include "hopper.cuh"

// S = Q Kt for one tile, but 0 in column c of row r if c > r + shift.
// Q: M x 64, K: N x 64, S: M x N floats; M and N up to 128.
// q_map: boxes of 64 x 64. k_map: boxes of 128 x 64. 128-byte swizzle.
extern "C" __global__ void __launch_bounds__(256)
causal_scores(const __grid_constant__ TensorMap q_map,
              const __grid_constant__ TensorMap k_map, float* S, int M, int N,
              int shift) {
    __shared__ __align__(1024) unsigned char q[2 * 8192], k[16384];
    __shared__ u64 full;
    int warpgroup = threadIdx.x / 128;  // warpgroup 1 has rows 64 to 127
    if (threadIdx.x == 0) {
        mbarrier_init(&full, 1);
        mbarrier_init_fence();
        mbarrier_arrive_expect_tx(&full, sizeof(q) + sizeof(k));
        tma_load_2d(q, &q_map, 0, 0, &full);
        tma_load_2d(q + 8192, &q_map, 0, 64, &full);
        tma_load_2d(k, &k_map, 0, 0, &full);
    }
    __syncthreads();
    mbarrier_wait(&full, 0);
    float acc[64];
    wgmma_fence();
    #pragma unroll
    for (int s = 0; s < 4; ++s)
        wgmma_m64n128k16(acc, descriptor(q + 8192 * warpgroup + 32 * s, 16, 1024),
                         descriptor(k + 32 * s, 16, 1024), s > 0);
    wgmma_commit();
    wgmma_wait<0>(acc);
    int warp = threadIdx.x / 32 % 4, lane = threadIdx.x % 32;
    #pragma unroll
    for (int i = 0; i < 64; ++i) {
        // [gap declare row and col of acc[i] in S, and set acc[i] to 0 where it's masked
        int row = 64 * warpgroup + 16 * warp + lane / 4 + i / 2 % 2 * 8;
        int col = i / 4 * 8 + lane % 4 * 2 + i % 2;
        if (col > row + shift) acc[i] = 0.0f;
        // gap]
        if (row < M && col < N) S[N * row + col] = acc[i];
    }
}
"""


def _trial(m: int, n: int, shift: int) -> Trial:
    return Trial(
        f"M = {m}, N = {n}, shift = {shift}",
        case(
            1,
            256,
            Q=integers(m, 64 if m * 64 > 64 else 8, low=-4, high=5, dtype="bfloat16"),
            K=integers(n, 64 if m * 64 > 64 else 8, low=-4, high=5, dtype="bfloat16"),
            S=output(m, n),
            q_map=tensor_map("Q", box=(64, 64), swizzle=128, dtype="bfloat16"),
            k_map=tensor_map("K", box=(128, 64), swizzle=128, dtype="bfloat16"),
            M=m,
            N=n,
            shift=shift,
        ),
    )


def _masked(v: Values) -> dict[str, Array]:
    scores = bf16.values(v["Q"]) @ bf16.values(v["K"]).T
    row, col = np.mgrid[0 : v["M"], 0 : v["N"]]
    return {"S": np.where(col > row + v["shift"], np.float32(0), scores)}


PUZZLE = Puzzle(
    title="A causal mask on accumulators",
    task="""
    Two warpgroups compute a 128 × 128 tile of scores, S = Q Kᵀ; each computes 64 rows. A query in
    row r may see key c only if c ≤ r + `shift`. Work out which element of S each accumulator holds,
    and set the masked ones to 0.
    """,
    launch="one block of 256 threads, two warpgroups.",
    code=CODE,
    trials=(
        _trial(128, 128, 0),
        _trial(1, 8, 2),
        _trial(100, 96, -20),
        _trial(65, 120, 7),
        _trial(128, 104, 50),
    ),
    expected=_masked,
    limits=(Limit("wgmma", lambda v: 8, "each of the two warpgroups takes four steps of 16 along K"),),
    blanks=(
        ("64 * warpgroup + 16 * warp + lane / 4", "16 * warp + lane / 4"),
        ("lane % 4 * 2 + i % 2", "lane % 4 + i % 2 * 4"),
        ("col > row + shift", "col >= row + shift"),
    ),
    lesson="[wgmma and its accumulators](../matmul/wgmma.py)",
    hints="""
    Warp w of a warpgroup holds rows 16 w to 16 w + 15. Within the warp, four neighbouring lanes
    share a row. How many rows does that make, and where are the other eight?

    A lane holds two neighbouring columns of row lane / 4, then the same two of row lane / 4 + 8,
    then the next eight columns.

    Register i: row 16 w + lane / 4 + 8 · (i / 2 % 2), column 8 · (i / 4) + 2 · (lane % 4) + i %
    2. The second warpgroup's rows begin at 64.
    """,
    after="""
    Each lane computes its mask from indices alone, without any memory access. FlashAttention does
    the same with -inf instead of 0, and only in the tiles on the diagonal: the others need no mask,
    or needn't be computed at all.
    """,
)
