"""Descriptors of a K-major and an MN-major operand, with sub-tiles of an unusual height."""

from __future__ import annotations

from tilewise import bf16
from tilewise.cuda.cases import Array, case, integers, output
from tilewise.cuda.tensor_map import tensor_map
from tilewise.puzzles.model import Limit, Puzzle, Trial, Values

CODE = """
#include "hopper.cuh"

// D = A B for one tile. A: M x K, B: K x N, D: M x N floats.
// M and K up to 64, N up to 128. All maps have a 128-byte swizzle.
// a_map: boxes of 64 x 64. b_map: boxes of 32 rows x 64 columns.
extern "C" __global__ void __launch_bounds__(128)
one_tile(const __grid_constant__ TensorMap a_map,
         const __grid_constant__ TensorMap b_map, float* D, int M, int N) {
    __shared__ __align__(1024) unsigned char a[8192], b[4 * 4096];
    __shared__ u64 full;
    if (threadIdx.x == 0) {
        mbarrier_init(&full, 1);
        mbarrier_init_fence();
        mbarrier_arrive_expect_tx(&full, sizeof(a) + sizeof(b));
        tma_load_2d(a, &a_map, 0, 0, &full);
        for (int h = 0; h < 2; ++h)       // rows 0 to 31 of B, then rows 32 to 63
            for (int q = 0; q < 2; ++q)   // 64 columns each
                tma_load_2d(b + 4096 * (2 * h + q), &b_map, 64 * q, 32 * h,
                            &full);
    }
    __syncthreads();
    mbarrier_wait(&full, 0);
    float acc[64];
    wgmma_fence();
    #pragma unroll
    for (int k = 0; k < 4; ++k) {
        // [gap the descriptors of columns 16 k to 16 k + 15 of A and rows 16 k to 16 k + 15 of B
        u64 desc_a = descriptor(a + 32 * k, 16, 1024);
        u64 desc_b = descriptor(b + 8192 * (k / 2) + 2048 * (k % 2), 4096, 1024);
        // gap]
        wgmma_m64n128k16_mn(acc, desc_a, desc_b, k > 0);
    }
    wgmma_commit();
    wgmma_wait<0>(acc);
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    #pragma unroll
    for (int i = 0; i < 64; ++i) {
        int row = 16 * warp + lane / 4 + i / 2 % 2 * 8;
        int col = i / 4 * 8 + lane % 4 * 2 + i % 2;
        if (row < M && col < N) D[N * row + col] = acc[i];
    }
}
"""


def _trial(m: int, n: int, k: int) -> Trial:
    return Trial(
        f"M = {m}, N = {n}, K = {k}",
        case(
            1,
            128,
            A=integers(m, k, low=-4, high=5, dtype="bfloat16"),
            B=integers(k, n, low=-4, high=5, dtype="bfloat16"),
            D=output(m, n),
            a_map=tensor_map("A", box=(64, 64), swizzle=128, dtype="bfloat16"),
            b_map=tensor_map("B", box=(32, 64), swizzle=128, dtype="bfloat16"),
            M=m,
            N=n,
        ),
    )


def _product(v: Values) -> dict[str, Array]:
    return {"D": bf16.values(v["A"]) @ bf16.values(v["B"])}


PUZZLE = Puzzle(
    title="The two offsets of a descriptor",
    task="""
    One warpgroup multiplies 64 × 64 by 64 × 128. A is K-major: 64 rows of 64 elements. B is
    row-major, hence MN-major, and the TMA has loaded it as four sub-tiles of 32 rows × 64 columns:
    the left and right halves of the upper 32 rows, then those of the lower 32. Fill in both
    descriptors for step k: address, leading byte offset, stride byte offset.
    """,
    launch="one block of 128 threads.",
    code=CODE,
    trials=(
        _trial(64, 128, 64),
        _trial(1, 8, 8),
        _trial(40, 72, 56),
        _trial(64, 64, 32),
        _trial(17, 120, 40),
    ),
    expected=_product,
    limits=(Limit("wgmma", lambda v: 4, "K = 64 takes four steps of 16"),),
    blanks=(
        ("a + 32 * k", "a + 16 * k", "a + 2048 * k"),
        ("8192 * (k / 2) + 2048 * (k % 2)", "2048 * k"),
        ("4096, 1024)", "1024, 4096)"),
    ),
    lesson="[wgmma and its descriptors](../matmul/wgmma.py)",
    hints="""
    Think in swizzle atoms, eight rows of 128 bytes. In A, how far is it from eight rows to the
    next eight? And in one sub-tile of B?

    A K-major operand with a 128-byte swizzle doesn't use LBO. In B, the next 64 columns are in
    the next sub-tile. How many bytes is a sub-tile of 32 rows?

    SBO is 1,024 for both. LBO of B is 32 × 128 = 4,096. Two steps of 16 rows fit into a sub-tile,
    2,048 bytes apart; for the next two, skip both sub-tiles of the upper half.
    """,
    after="""
    SBO follows from the swizzle alone. LBO follows from how you placed the sub-tiles, so it changes
    with the height of the box: 8,192 with 64 rows, 4,096 with 32. A step along K has to go to where
    the TMA put the next rows, and that isn't always a constant distance.
    """,
)
