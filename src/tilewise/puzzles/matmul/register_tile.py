"""A register tile of 4 x 4 accumulators: each value read from shared memory is used four times."""

from __future__ import annotations

from typing import Any

from tilewise.cuda.cases import case, ceil_div, integers, output
from tilewise.puzzles.model import Limit, Puzzle, Trial, Values

_HEAD = """
#define SIDE 32
#define DEEP 8

extern "C" __global__
void gemm(const float* At, const float* B, float* C, int M, int K, int N) {
    __shared__ __align__(16) float a[DEEP][SIDE];
    __shared__ __align__(16) float b[DEEP][SIDE];
    int top = blockIdx.y * SIDE, left = blockIdx.x * SIDE, t = threadIdx.x;
    int y = t / 8, x = t % 8;
    float acc[4][4] = {};
    for (int k = 0; k < K; k += DEEP) {
        for (int i = t; i < DEEP * SIDE; i += 64) {
            int deep = k + i / SIDE, row = top + i % SIDE, col = left + i % SIDE;
            float *to_a = &a[0][0] + i, *to_b = &b[0][0] + i;
            *to_a = deep < K && row < M ? At[deep * M + row] : 0.0f;
            *to_b = deep < K && col < N ? B[deep * N + col] : 0.0f;
        }
        __syncthreads();
        for (int j = 0; j < DEEP; ++j) {
"""
CODE = (
    _HEAD
    + """\
            // [gap load the operands of step j, and add 16 products to the accumulators
            float4 p = *(const float4*)&a[j][4 * y];
            float4 q = *(const float4*)&b[j][4 * x];
            float rows[4] = {p.x, p.y, p.z, p.w}, cols[4] = {q.x, q.y, q.z, q.w};
            for (int r = 0; r < 4; ++r)
                for (int c = 0; c < 4; ++c) acc[r][c] += rows[r] * cols[c];
            // gap]
        }
        __syncthreads();
    }
    // [gap store the thread's 16 accumulators
    for (int r = 0; r < 4; ++r)
        for (int c = 0; c < 4; ++c) {
            int row = top + 4 * y + r, col = left + 4 * x + c;
            if (row < M && col < N) C[row * N + col] = acc[r][c];
        }
    // gap]
}
"""
)
PLAIN = (
    _HEAD
    + """\
            for (int r = 0; r < 4; ++r)
                for (int c = 0; c < 4; ++c)
                    acc[r][c] += a[j][y + 8 * r] * b[j][x + 8 * c];
        }
        __syncthreads();
    }
    for (int r = 0; r < 4; ++r)
        for (int c = 0; c < 4; ++c) {
            int row = top + y + 8 * r, col = left + x + 8 * c;
            if (row < M && col < N) C[row * N + col] = acc[r][c];
        }
}
"""
)


def _trial(m: int, k: int, n: int) -> Trial:
    arrays: dict[str, Any] = {
        "At": integers(k * m, low=-9, high=10, dtype="float32"),
        "B": integers(k * n, low=-9, high=10, dtype="float32"),
        "C": output(m * n),
    }
    grid = (ceil_div(n, 32), ceil_div(m, 32))
    return Trial(f"M = {m}, K = {k}, N = {n}", case(grid, 64, M=m, K=k, N=n, **arrays))


def _reads(v: Values) -> int:
    """Two requests per warp for each k of a tile, two warps per block."""
    return 2 * 8 * 2 * ceil_div(v["M"], 32) * ceil_div(v["N"], 32) * ceil_div(v["K"], 8)


PUZZLE = Puzzle(
    title="A register tile of 4 by 4",
    task="""
    `At` is A transposed, `K` by `M`; `B` is `K` by `N`. C = A B is `M` by `N`, and each block of 64
    threads computes 32 by 32 elements of it. The tiles are already in shared memory. Give each thread
    4 by 4 accumulators, arranged so that two requests load everything it needs for one k.
    """,
    launch="blocks of 64 threads, one per 32 by 32 elements of C.",
    code=CODE,
    plain=PLAIN,
    trials=(_trial(64, 16, 32), _trial(1, 1, 1), _trial(33, 9, 40), _trial(30, 8, 35), _trial(5, 20, 64)),
    expected=lambda v: {
        "C": (v["At"].reshape(v["K"], v["M"]).T @ v["B"].reshape(v["K"], v["N"])).reshape(-1)
    },
    limits=(
        Limit(
            "shared_load.requests",
            _reads,
            "for one k, a thread needs four values of A and four of B, which is 16 bytes of each",
        ),
    ),
    blanks=(
        ("&a[j][4 * y]", "&a[j][4 * x]"),
        ("&b[j][4 * x]", "&b[j][4 * y]"),
        (
            "top + 4 * y + r, col = left + 4 * x + c",
            "top + 4 * x + r, col = left + 4 * y + c",
            "top + y + 8 * r, col = left + x + 8 * c",
        ),
    ),
    lesson="[register tiling](../matmul/register_tiles.py)",
    hints="""
    For one k, a thread needs four values of A and four of B, and computes 16 products of them.
    Which four can a single 16-byte load fetch?

    Four neighbours: thread (x, y) has rows 4 y to 4 y + 3 and columns 4 x to 4 x + 3. Load them
    into registers once, and then multiply each by each.

    `float4 p = *(const float4*)&a[j][4 * y]`, and the same for b with x, followed by two loops
    over 4. The store uses the same rows and columns, after a bounds check.
    """,
    after="""
    Each step loads eight values and computes 16 products. With 8 by 8 accumulators, it's 16 values and 64
    products. That ratio relieves shared memory, at the price of registers.
    """,
)
