"""A product of matrices whose operands pass through tiles in shared memory."""

from __future__ import annotations

from typing import Any

from tilewise.cuda.cases import case, ceil_div, integers, output
from tilewise.puzzles.model import Limit, Puzzle, Trial, Values

CODE = """
#define T 16

extern "C" __global__
void product(const float* A, const float* B, float* C, int M, int K, int N) {
    __shared__ float a[T][T], b[T][T];
    int x = threadIdx.x, y = threadIdx.y;
    int row = blockIdx.y * T + y, col = blockIdx.x * T + x;
    float sum = 0.0f;
    for (int k = 0; k < K; k += T) {
        // [gap fill both tiles, an element of each a thread, and add up their share of C[row, col]
        int across = k + x, down = k + y;
        a[y][x] = row < M && across < K ? A[row * K + across] : 0.0f;
        b[y][x] = down < K && col < N ? B[down * N + col] : 0.0f;
        __syncthreads();
        for (int j = 0; j < T; ++j) sum += a[y][j] * b[j][x];
        __syncthreads();
        // gap]
    }
    if (row < M && col < N) C[row * N + col] = sum;
}
"""
PLAIN = """
#define T 16

extern "C" __global__
void product(const float* A, const float* B, float* C, int M, int K, int N) {
    int row = blockIdx.y * T + threadIdx.y, col = blockIdx.x * T + threadIdx.x;
    float sum = 0.0f;
    if (row >= M || col >= N) return;
    for (int k = 0; k < K; ++k) sum += A[row * K + k] * B[k * N + col];
    C[row * N + col] = sum;
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
    name="matmul/tile",
    title="A product in tiles",
    task="""
    Write the product of the row-major matrices `A`, `M` by `K`, and `B`, `K` by `N`, to `C`. A block makes
    a tile of 16 by 16 elements of C. At each step along K it brings a tile of A and one of B into shared
    memory, where every thread finds the 16 elements of each that it needs.
    """,
    launch="blocks of 16 by 16 threads, one for each tile of C, columns along x.",
    code=CODE,
    plain=PLAIN,
    trials=(_trial(48, 64, 32), _trial(1, 1, 1), _trial(17, 5, 33), _trial(20, 40, 16), _trial(16, 31, 3)),
    expected=lambda v: {"C": (v["A"].reshape(v["M"], v["K"]) @ v["B"].reshape(v["K"], v["N"])).reshape(-1)},
    limits=(
        Limit(
            "global_load.requests",
            lambda v: 2 * _warp_steps(v),
            "a warp asks once for its share of each tile, at every step along K",
        ),
        Limit(
            "barriers",
            lambda v: 2 * _warp_steps(v),
            "each step fills the tiles and reads them, and after either every warp waits once",
        ),
    ),
    hints=(
        "Thread (x, y) fetches one element of A's tile and one of B's. Which row of A and which column of B"
        " does a block need, and which part of them at step k?",
        "The row of A and the column of B are those of C. A's column is `k + x` and B's row is "
        "`k + y`. What belongs into a tile where it hangs over the edge?",
        "Two barriers: one before anyone reads what others have written, and one before anyone writes over "
        "what others still read.",
    ),
    after="""
    Without tiles a warp makes two requests for each k; with them two for each 16. Zeros past the edges of A
    and B do no harm in a sum of products, so that the inner loop needs no guard at all; threads outside C
    help to fill tiles all the same.
    """,
)
