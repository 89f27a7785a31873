"""A matrix multiplication with tiles in shared memory."""

from __future__ import annotations

from typing import Any

from tilewise.cuda.cases import case, ceil_div, integers, output
from tilewise.puzzles.model import Limit, Puzzle, Trial, Values

CODE = """
#define T 16

extern "C" __global__
void gemm(const float* A, const float* B, float* C, int M, int K, int N) {
    __shared__ float a[T][T], b[T][T];
    int x = threadIdx.x, y = threadIdx.y;
    int row = blockIdx.y * T + y, col = blockIdx.x * T + x;
    float acc = 0.0f;
    for (int k = 0; k < K; k += T) {
        // [gap load one element of each tile per thread, and add this step's part of C[row, col]
        int across = k + x, down = k + y;
        a[y][x] = row < M && across < K ? A[row * K + across] : 0.0f;
        b[y][x] = down < K && col < N ? B[down * N + col] : 0.0f;
        __syncthreads();
        for (int j = 0; j < T; ++j) acc += a[y][j] * b[j][x];
        __syncthreads();
        // gap]
    }
    if (row < M && col < N) C[row * N + col] = acc;
}
"""
PLAIN = """
#define T 16

extern "C" __global__
void gemm(const float* A, const float* B, float* C, int M, int K, int N) {
    int row = blockIdx.y * T + threadIdx.y, col = blockIdx.x * T + threadIdx.x;
    float acc = 0.0f;
    if (row >= M || col >= N) return;
    for (int k = 0; k < K; ++k) acc += A[row * K + k] * B[k * N + col];
    C[row * N + col] = acc;
}
"""


def _trial(m: int, k: int, n: int) -> Trial:
    arrays: dict[str, Any] = {
        "A": integers(m * k, low=-9, high=10, dtype="float32"),
        "B": integers(k * n, low=-9, high=10, dtype="float32"),
        "C": output(m * n),
    }
    grid = (ceil_div(n, 16), ceil_div(m, 16))
    return Trial(f"M = {m}, K = {k}, N = {n}", case(grid, (16, 16), M=m, K=k, N=n, **arrays))


def _warp_steps(v: Values) -> int:
    """Steps along K times the warps of all blocks."""
    return 8 * ceil_div(v["M"], 16) * ceil_div(v["N"], 16) * ceil_div(v["K"], 16)


PUZZLE = Puzzle(
    title="Tiled matrix multiplication",
    task="""
    Compute C = A B for row-major matrices: `A` is `M` by `K` and `B` is `K` by `N`. Each block computes
    a tile of 16 by 16 elements of C. At each step along K, it loads a tile of A and a tile of B into
    shared memory, from which every thread reads the 16 elements of each tile that it needs.
    """,
    launch="blocks of 16 by 16 threads, one per tile of C, with columns along x.",
    code=CODE,
    plain=PLAIN,
    trials=(_trial(48, 64, 32), _trial(1, 1, 1), _trial(17, 5, 33), _trial(20, 40, 16), _trial(16, 31, 3)),
    expected=lambda v: {"C": (v["A"].reshape(v["M"], v["K"]) @ v["B"].reshape(v["K"], v["N"])).reshape(-1)},
    limits=(
        Limit(
            "global_load.requests",
            lambda v: 2 * _warp_steps(v),
            "at each step along K, a warp loads its part of each tile with one request",
        ),
        Limit(
            "barriers",
            lambda v: 2 * _warp_steps(v),
            "every warp waits twice per step: after the tiles are filled and after they are read",
        ),
    ),
    blanks=(
        ("row < M && across < K", "across < K"),
        ("__syncthreads();", ""),
        ("a[y][j] * b[j][x]", "a[j][y] * b[x][j]"),
        ("__syncthreads();", ""),
    ),
    lesson="[tiling in shared memory](../matmul/tiling.py)",
    hints="""
    Thread (x, y) loads one element of A's tile and one of B's. Which rows of A and which columns
    of B does the block need, and which part of them at step k?

    The row of A and the column of B are those of C. A's column is `k + x` and B's row is `k + y`.
    What should a tile hold where it extends beyond the matrix?

    You need two barriers: one before any thread reads what others have written, and one before
    any thread overwrites what others still read.
    """,
    after="""
    Without tiles, a warp makes two requests for each k; with them, two for every 16. Zeros beyond the
    edges of A and B don't change the result, so the inner loop needs no bounds check. Threads outside C
    load elements like all the others.
    """,
)
