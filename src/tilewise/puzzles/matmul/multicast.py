"""A cluster of four blocks in which each tile is needed by two: who gets what?"""

from __future__ import annotations

from tilewise.cuda.cases import case, ceil_div, integers, output
from tilewise.cuda.tensor_map import tensor_map
from tilewise.puzzles.model import Limit, Puzzle, Trial, Values

_HEAD = """
#include "hopper.cuh"

#define TILE 32
#define HALF_BYTES 2048  // 16 x 32 floats

// C = A B for K up to 32: A is M x K, B K x N, C M x N.
// Both maps have boxes of 16 x 32 floats.
// A cluster of four blocks computes 64 x 64 of C. Rank 2 * y + x has tile (y, x).
extern "C" __global__ void __cluster_dims__(4, 1, 1) __launch_bounds__(128)
gemm(const __grid_constant__ TensorMap a_map,
     const __grid_constant__ TensorMap b_map, float* C, int M, int N) {
    __shared__ __align__(1024) float a[TILE * TILE], b[TILE * TILE];
    __shared__ u64 full;
    int rank = blockIdx.x % 4, y = rank / 2, x = rank % 2;
    int row0 = 64 * blockIdx.y + 32 * y, col0 = 64 * (blockIdx.x / 4) + 32 * x;
    if (threadIdx.x == 0) {
        mbarrier_init(&full, 1);
        mbarrier_init_fence();
        mbarrier_arrive_expect_tx(&full, sizeof(a) + sizeof(b));
    }
    cluster_sync();  // all four blocks are ready to receive
    if (threadIdx.x == 0) {
"""
_TAIL = """\
    }
    mbarrier_wait(&full, 0);
    int col = threadIdx.x % 32;
    for (int row = threadIdx.x / 32; row < TILE; row += 4) {
        float acc = 0.0f;
        for (int k = 0; k < TILE; ++k)
            acc += a[TILE * row + k] * b[TILE * k + col];
        if (row0 + row < M && col0 + col < N)
            C[(row0 + row) * N + col0 + col] = acc;
    }
    cluster_sync();  // nobody leaves while others still receive
}
"""
CODE = (
    _HEAD
    + """\
        // [gap load half of A's tile for the blocks that need it, and half of B's tile
        float *to_a = a + 16 * TILE * x, *to_b = b + 16 * TILE * y;
        int same_y = 3 << 2 * y, same_x = 5 << x;
        tma_load_2d_multicast(to_a, &a_map, 0, row0 + 16 * x, &full, same_y);
        tma_load_2d_multicast(to_b, &b_map, col0, 16 * y, &full, same_x);
        // gap]
"""
    + _TAIL
)
PLAIN = (
    _HEAD
    + """\
        for (int half = 0; half < 2; ++half) {
            tma_load_2d(a + 16 * TILE * half, &a_map, 0, row0 + 16 * half, &full);
            tma_load_2d(b + 16 * TILE * half, &b_map, col0, 16 * half, &full);
        }
"""
    + _TAIL
)


def _trial(m: int, k: int, n: int) -> Trial:
    return Trial(
        f"M = {m}, K = {k}, N = {n}",
        case(
            (4 * ceil_div(n, 64), ceil_div(m, 64)),
            128,
            A=integers(m, k, low=-8, high=9, dtype="float32"),
            B=integers(k, n, low=-8, high=9, dtype="float32"),
            C=output(m, n),
            a_map=tensor_map("A", box=(16, 32)),
            b_map=tensor_map("B", box=(16, 32)),
            M=m,
            N=n,
        ),
    )


def _blocks(v: Values) -> int:
    return 4 * ceil_div(v["M"], 64) * ceil_div(v["N"], 64)


PUZZLE = Puzzle(
    title="Multicast masks in a cluster of four",
    task="""
    The four blocks of a cluster compute 2 by 2 tiles of C. The two blocks with the same `y` need the same
    tile of A, and the two with the same `x` need the same tile of B. All tiles are 32 × 32. Let each
    block load half of each of its two tiles, 16 rows, and multicast it. Bit *r* of the mask stands
    for the block with rank *r* in the cluster.
    """,
    launch="clusters of four blocks of 128 threads, one cluster per 64 × 64 elements of C.",
    code=CODE,
    plain=PLAIN,
    trials=(
        _trial(64, 32, 64),
        _trial(1, 4, 4),
        _trial(50, 20, 40),
        _trial(33, 32, 68),
        _trial(70, 16, 36),
        _trial(64, 8, 128),
    ),
    expected=lambda v: {"C": v["A"] @ v["B"]},
    limits=(
        Limit(
            "bulk_load.requests",
            lambda v: 2 * _blocks(v),
            "each block loads half a tile of A and half a tile of B",
        ),
    ),
    blanks=(
        ("a + 16 * TILE * x", "a + 16 * TILE * y"),
        (
            "3 << 2 * y, same_x = 5 << x",
            "5 << x, same_x = 3 << 2 * y",
            "15, same_x = 15",
            "3 << y, same_x = 5 << 2 * x",
        ),
    ),
    lesson="[clusters](../matmul/clusters.py)",
    hints="""
    Rank 2 y + x. Which two ranks have y = 0, and which bits are that? Which two have x = 0?

    The mask of a row of tiles is 0b0011 or 0b1100, and that of a column 0b0101 or 0b1010. Shift
    the first of each by the block's own y or x.

    A: mask `3 << 2 * y`. The two blocks differ in x, so x selects the half: `a + 16 * TILE * x`
    from row `row0 + 16 * x`. B: mask `5 << x`, and y selects the half.
    """,
    after="""
    The bytes arrive at the same address and report to the same mbarrier in every block of the mask,
    so each block expects two whole tiles, half of which others load. The first cluster barrier is
    indispensable: no block may write to another whose mbarrier isn't ready.
    """,
)
