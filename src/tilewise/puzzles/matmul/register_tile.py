"""Sixteen sums to a thread, so that what leaves shared memory is used four times."""

from __future__ import annotations

from typing import Any

from tilewise.cuda.cases import case, ceil_div, integers, output
from tilewise.puzzles.model import Limit, Puzzle, Trial, Values

_HEAD = """
#define SIDE 32
#define DEEP 8

extern "C" __global__
void product(const float* At, const float* B, float* C, int M, int K, int N) {
    __shared__ __align__(16) float a[DEEP][SIDE];
    __shared__ __align__(16) float b[DEEP][SIDE];
    int top = blockIdx.y * SIDE, left = blockIdx.x * SIDE, t = threadIdx.x;
    int y = t / 8, x = t % 8;
    float sums[4][4] = {};
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
            // [gap read what the thread's sums need at depth j, and add the 16 products
            float4 p = *(const float4*)&a[j][4 * y];
            float4 q = *(const float4*)&b[j][4 * x];
            float rows[4] = {p.x, p.y, p.z, p.w}, cols[4] = {q.x, q.y, q.z, q.w};
            for (int r = 0; r < 4; ++r)
                for (int c = 0; c < 4; ++c) sums[r][c] += rows[r] * cols[c];
            // gap]
        }
        __syncthreads();
    }
    // [gap store the thread's 16 sums
    for (int r = 0; r < 4; ++r)
        for (int c = 0; c < 4; ++c) {
            int row = top + 4 * y + r, col = left + 4 * x + c;
            if (row < M && col < N) C[row * N + col] = sums[r][c];
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
                    sums[r][c] += a[j][y + 8 * r] * b[j][x + 8 * c];
        }
        __syncthreads();
    }
    for (int r = 0; r < 4; ++r)
        for (int c = 0; c < 4; ++c) {
            int row = top + y + 8 * r, col = left + x + 8 * c;
            if (row < M && col < N) C[row * N + col] = sums[r][c];
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
    """Two requests a warp, for each depth of a slab, two warps a block."""
    return 2 * 8 * 2 * ceil_div(v["M"], 32) * ceil_div(v["N"], 32) * ceil_div(v["K"], 8)


PUZZLE = Puzzle(
    name="matmul/register_tile",
    title="Sixteen sums to a thread",
    task="""
    `At` is A turned over, `K` by `M`; `B` is `K` by `N`; the block of 64 threads makes 32 by 32 elements of
    the product C, `M` by `N`. The \\slabs are in shared memory. Give each thread 4 by 4 sums, so placed that
    it reads what they need at one depth with two requests.
    """,
    launch="blocks of 64 threads, one for each 32 by 32 elements of C.",
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
            "16 bytes a lane hold the four values of A that a thread needs at one depth, 16 more those of B",
        ),
    ),
    hints=(
        "Of a \\slab's row at depth j a thread needs four values of A and four of B, and makes 16 products of"
        " them. Which four can one load of 16 bytes fetch?",
        "Four neighbours: thread (x, y) has rows 4 y to 4 y + 3 and columns 4 x to 4 x + 3. Read them once "
        "into registers, then multiply each by each.",
        "`float4 p = *(const float4*)&a[j][4 * y]`, the same for b with x; then two loops over 4. The store"
        " has the same rows and columns, behind a guard.",
    ),
    after="""
    Eight values come in and 16 products go out of each step: twice as many as values. With 8 by 8 sums it
    is four times. That ratio is what lifts a product of matrices off the speed of shared memory, and
    registers are what it costs.
    """,
)
