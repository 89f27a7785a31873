"""Specimens of control flow: lanes of a warp that diverge, exit early, or need unequal numbers of iterations.

In: nothing. Out: ``SPECIMENS``. The simulator runs the lane group with the lowest program counter first; a
GPU may join the lanes elsewhere, and then requests differ. ``differences`` names where.
"""

from __future__ import annotations

import numpy as np

from tilewise.cuda.cases import Array, case, integers, normal, output
from tilewise.kernel.kernel import Kernel
from validation.specimen import Specimen, specimen

SEARCH = Kernel(r"""
extern "C" __global__
void search(const int* rows, int* found, int n, int width, int wanted) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int at = -1;
    for (int j = 0; j < width; ++j)
        if (rows[i * width + j] == wanted) {
            at = j;
            break;
        }
    found[i] = at;
}
""")

RAGGED = Kernel(r"""
extern "C" __global__
void ragged(const float* values, const int* start, float* sums, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float s = 0.0f;
    for (int j = start[i]; j < start[i + 1]; ++j) s += values[j];
    sums[i] = s;
}
""")

GRID_STRIDE = Kernel(r"""
extern "C" __global__
void grid_stride(const float* x, float* y, int n, float alpha) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        y[i] = alpha * x[i] + y[i];
}
""")

EARLY_RETURN = Kernel(r"""
extern "C" __global__
void early_return(const int* x, int* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int v = x[i];
    if (v % 3 == 0) return;
    y[i] = v * x[n - 1 - i];
}
""")

PREDICATED = Kernel(r"""
extern "C" __global__
void predicated(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && x[i] > 0.0f) y[i] = x[i];
}
""")

EITHER = Kernel(r"""
extern "C" __global__
void either(const float* a, const float* b, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    if (i % 2) y[i] = a[i] + 1.0f;
    else y[i] = b[i] * 2.0f;
}
""")

FIVE_WAYS = Kernel(r"""
extern "C" __global__
void five_ways(const int* x, int* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int v = x[i], r;
    switch (i % 5) {
        case 0: r = v + x[(i + 1) % n]; break;
        case 1: r = v - 3; break;
        case 2: r = v * x[(i + 7) % n]; break;
        case 3: r = v ^ 0x1234; break;
        default: r = -v;
    }
    y[i] = r;
}
""")

COLLATZ = Kernel(r"""
extern "C" __global__
void collatz(const int* x, int* steps, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    long long v = x[i];
    int count = 0;
    while (v != 1) {
        v = v % 2 ? 3 * v + 1 : v / 2;
        ++count;
    }
    steps[i] = count;
}
""")

PER_WARP = Kernel(r"""
extern "C" __global__
void per_warp(const float* x, const int* turns, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float s = 0.0f;
    for (int j = 0; j < turns[i / 32]; ++j) s += x[(i + 32 * j) % n];
    y[i] = s;
}
""")

CALLED = Kernel(r"""
__device__ __noinline__ float step(const float* x, int i, int n) {
    float v = x[i];
    return i + 1 < n ? v - x[i + 1] : v;
}

extern "C" __global__
void called(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = step(x, i, n) * step(x, n - 1 - i, n);
}
""")

HALF_BLOCKS = Kernel(r"""
extern "C" __global__
void half_blocks(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (threadIdx.x < 64) y[i] = x[i] + x[n - 1 - i];
    else y[i] = 0.5f;
}
""")

_N = 500


def _starts() -> Array:
    """Offsets of 100 rows of 0 to 39 values, and the end of the last one."""
    lengths = integers(100, low=0, high=40, seed=3).make()
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)


_SHAPE = {"grid": 4, "block": 128}

SPECIMENS: tuple[Specimen, ...] = (
    specimen(
        "search",
        "a loop that each lane leaves when it has found its value",
        SEARCH,
        case(
            rows=integers(100, 40, low=0, high=30),
            found=output(100, dtype="int32"),
            n=100,
            width=40,
            wanted=7,
            grid=2,
            block=64,
        ),
    ),
    specimen(
        "ragged rows",
        "a trip count for each lane",
        RAGGED,
        case(values=normal(4000), start=_starts(), sums=output(100), n=100, grid=2, block=64),
    ),
    specimen(
        "grid-stride loop",
        "every thread takes several elements",
        GRID_STRIDE,
        case(x=normal(1000), y=normal(1000), n=1000, alpha=1.5, grid=3, block=64),
    ),
    specimen(
        "early return",
        "a third of the lanes leaves between two loads",
        EARLY_RETURN,
        case(x=integers(_N, low=0, high=1000), y=integers(_N, low=0, high=9), n=_N, **_SHAPE),
    ),
    specimen(
        "predicated store",
        "half of the lanes store",
        PREDICATED,
        case(x=normal(_N), y=normal(_N), n=_N, **_SHAPE),
    ),
    specimen(
        "two branches",
        "even and odd lanes load from different arrays",
        EITHER,
        case(a=normal(_N), b=normal(_N), y=output(_N), n=_N, **_SHAPE),
    ),
    specimen(
        "switch",
        "five ways, two of which load",
        FIVE_WAYS,
        case(x=integers(_N, low=-999, high=999), y=output(_N, dtype="int32"), n=_N, **_SHAPE),
    ),
    specimen(
        "collatz",
        "a while loop without memory",
        COLLATZ,
        case(x=integers(_N, low=1, high=1000), steps=output(_N, dtype="int32"), n=_N, **_SHAPE),
    ),
    specimen(
        "turns per warp",
        "a trip count for each warp, read from memory",
        PER_WARP,
        case(x=normal(256), turns=integers(8, low=0, high=12), y=output(256), n=256, grid=2, block=128),
    ),
    specimen(
        "device function",
        "a function that is not inlined, called twice",
        CALLED,
        case(x=normal(_N), y=output(_N), n=_N, **_SHAPE),
    ),
    specimen(
        "half of each block",
        "whole warps take different branches",
        HALF_BLOCKS,
        case(x=normal(512), y=output(512), n=512, **_SHAPE),
    ),
)
"""All specimens, in the order of the tables."""
