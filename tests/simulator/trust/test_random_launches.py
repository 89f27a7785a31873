"""Launches at random: outputs are NumPy's, and counts those of a second count and of closed forms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.simulator.kernels import VEC_ADD, simulate
from tilewise.simulator import Run, Trace

from .traffic import differences

SEEDS = pytest.mark.parametrize("seed", range(10))
TURN = """\
extern "C" __global__ void turn(const float* A, float* B, int rows, int cols) {
    __shared__ float tile[T * (T + PAD)];
    int col = blockIdx.x * T + threadIdx.x, row = blockIdx.y * T + threadIdx.y;
    if (row < rows && col < cols) tile[threadIdx.y * (T + PAD) + threadIdx.x] = A[row * cols + col];
    __syncthreads();
    int r = blockIdx.x * T + threadIdx.y, c = blockIdx.y * T + threadIdx.x;
    if (r < cols && c < rows) B[r * rows + c] = tile[threadIdx.x * (T + PAD) + threadIdx.y];
}
"""
SUM = """\
extern "C" __global__ void sum(const int* x, int* y, int n) {
    extern __shared__ int s[];
    int t = threadIdx.x, mine = 0;
    for (int i = blockIdx.x * blockDim.x + t; i < n; i += gridDim.x * blockDim.x) mine += x[i];
    s[t] = mine;
    for (int h = blockDim.x / 2; h > 0; h /= 2) {
        __syncthreads();
        if (t < h) s[t] += s[t + h];
    }
    if (t == 0) y[blockIdx.x] = s[0];
}
"""
COUNT = """\
extern "C" __global__ void count(const int* x, int* bins, int n, int first) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&bins[x[i] - first], 1);
}
"""


def _made(seed: int, name: str) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64([seed, *name.encode()]))


def _agree(run: Run) -> None:
    assert not run.hazards
    assert not differences(run), "\n".join(differences(run))
    assert run.counts.issued == sum(line.issued for line in run.lines.values())


def _run(source: str, *arguments: Any, **launch: Any) -> Run:
    """Traced; an untraced run of the same must count the same and leave the same."""
    copies = [one.copy() if isinstance(one, np.ndarray) else one for one in arguments]
    plain = simulate(source, *copies, **launch)
    run = simulate(source, *arguments, trace=Trace(), **launch)
    assert run.counts == plain.counts
    for one, copy in zip(arguments, copies, strict=True):
        assert not isinstance(one, np.ndarray) or one.tobytes() == copy.tobytes()
    return run


def _spans(starts: np.ndarray, ends: np.ndarray, piece: int) -> int:
    """Pieces of memory that spans of elements of 4 bytes touch, span by span."""
    some = ends > starts
    return int((((4 * ends - 1) // piece) - (4 * starts) // piece + 1)[some].sum())


@SEEDS
def test_vector_addition(seed: int) -> None:
    made = _made(seed, "add")
    n, block = int(made.integers(1, 3000)), int(made.integers(1, 1025))
    grid = -(-n // block) + int(made.integers(0, 3))
    a, b = made.normal(size=(2, n)).astype(np.float32)
    c = np.full(n, np.nan, np.float32)
    run = _run(VEC_ADD, a, b, c, np.int32(n), grid=grid, block=block)
    assert np.array_equal(c, a + b)
    _agree(run)
    first = (np.arange(grid)[:, None] * block + np.arange(0, block, 32)).reshape(-1)
    last = np.minimum(first + np.minimum(32, block - np.tile(np.arange(0, block, 32), grid)), n)
    warps = int((last > first).sum())
    assert run.counts.global_store.requests == warps and run.counts.global_load.requests == 2 * warps
    assert run.counts.global_store.sectors == _spans(first, last, 32)
    assert run.counts.global_store.lines == _spans(first, last, 128)
    assert run.counts.global_load.sectors == 2 * _spans(first, last, 32)
    assert run.counts.global_load.useful_bytes == 8 * n and run.counts.global_store.lane_accesses == n


@SEEDS
def test_a_transpose_through_a_tile(seed: int) -> None:
    made = _made(seed, "turn")
    rows, cols = (int(one) for one in made.integers(1, 70, 2))
    tile, pad = int(made.choice([4, 8, 16, 32])), int(made.integers(0, 3))
    source = f"#define T {tile}\n#define PAD {pad}\n#line 1\n{TURN}"
    a = made.normal(size=(rows, cols)).astype(np.float32)
    b = np.full((cols, rows), np.nan, np.float32)
    grid = (-(-cols // tile), -(-rows // tile))
    run = _run(source, a, b, np.int32(rows), np.int32(cols), grid=grid, block=(tile, tile))
    assert np.array_equal(b, a.T)
    _agree(run)
    assert run.counts.barriers == grid[0] * grid[1] * -(-tile * tile // 32)
    if tile == 32 and rows % 32 == 0 and cols % 32 == 0:
        ways = np.gcd(32 + pad, 32)
        assert run.counts.shared_load.wavefronts == ways * run.counts.shared_load.requests


@SEEDS
def test_a_reduction(seed: int) -> None:
    made = _made(seed, "sum")
    n, grid = int(made.integers(1, 3000)), int(made.integers(1, 6))
    block = 2 ** int(made.integers(0, 9))
    x = made.integers(-1000, 1000, n).astype(np.int32)
    y = np.full(grid, -(2**31), np.int32)
    run = _run(SUM, x, y, np.int32(n), grid=grid, block=block, shared_bytes=4 * block)
    assert y.sum() == x.sum()
    padded = np.pad(x, (0, -n % (grid * block))).reshape(-1, grid, block)
    assert np.array_equal(y, padded.sum((0, 2)))
    _agree(run)
    steps = int(np.log2(block))
    warps = -(-block // 32)
    assert run.counts.barriers == grid * warps * steps
    halves = sum(-(-(block >> step) // 32) for step in range(1, steps + 1))
    assert run.counts.shared_store.requests == grid * (warps + halves)
    assert run.counts.global_load.lane_accesses == n


@SEEDS
def test_a_histogram_by_atomics(seed: int) -> None:
    made = _made(seed, "count")
    n, block, many = int(made.integers(1, 2000)), int(made.integers(1, 300)), int(made.integers(1, 100))
    first = int(made.integers(-50, 50))
    x = (first + made.integers(0, many, n)).astype(np.int32)
    bins = np.zeros(many, np.int32)
    run = _run(COUNT, x, bins, np.int32(n), np.int32(first), grid=-(-n // block), block=block)
    assert np.array_equal(bins, np.bincount(x - first, minlength=many))
    _agree(run)
    assert run.counts.global_atomic.requests == run.counts.global_load.requests
    assert run.counts.global_atomic.lane_accesses == n and run.counts.global_store.requests == 0


@SEEDS
def test_launches_in_three_dimensions_reach_each_cell_once(seed: int) -> None:
    made = _made(seed, "cells")
    grid, block = made.integers(1, 5, 3), made.integers(1, 9, 3)
    block[2] = min(block[2], 1024 // (block[0] * block[1]))
    source = """\
extern "C" __global__ void cells(int* hits, int width, int height) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    int z = blockIdx.z * blockDim.z + threadIdx.z;
    hits[(z * height + y) * width + x] += 1;
}
"""
    size = [int(g * b) for g, b in zip(grid, block, strict=True)]
    hits = np.zeros(size[::-1], np.int32)
    run = _run(
        source,
        hits,
        np.int32(size[0]),
        np.int32(size[1]),
        grid=tuple(map(int, grid)),
        block=tuple(map(int, block)),
    )
    assert (hits == 1).all()
    _agree(run)
