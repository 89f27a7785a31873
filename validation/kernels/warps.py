"""Specimens of cooperating lanes and warps, and of asynchronous copies.

In: nothing. Out: ``SPECIMENS``: shuffles, matches, reductions, named barriers, ``__syncwarp``, cp.async.
"""

from __future__ import annotations

from tilewise.cuda.cases import case, integers, normal, output
from tilewise.kernel.kernel import Kernel
from validation.specimen import Specimen, specimen

SHUFFLES = Kernel(r"""
extern "C" __global__
void shuffles(const int* x, int* y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, v = x[i];
    int a = __shfl_up_sync(0xffffffffu, v, 3), b = __shfl_down_sync(0xffffffffu, v, 7, 16);
    int c = __shfl_sync(0xffffffffu, v, v & 31), d = __shfl_xor_sync(0xffffffffu, v, 9);
    y[i] = a + 3 * b + 5 * c + 7 * d;
}
""")

ROW_SUMS = Kernel(r"""
extern "C" __global__
void row_sums(const float* x, float* y, int rows, int cols) {
    int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= rows) return;
    float s = 0.0f;
    for (int j = lane; j < cols; j += 32) s += x[row * cols + j];
    for (int d = 16; d > 0; d /= 2) s += __shfl_xor_sync(0xffffffffu, s, d);
    if (lane == 0) y[row] = s;
}
""")

MATCHES = Kernel(r"""
extern "C" __global__
void matches(const int* x, unsigned int* y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, v = x[i], same;
    unsigned peers = __match_any_sync(0xffffffffu, v);
    unsigned all = __match_all_sync(0xffffffffu, v >> 8, &same);
    y[i] = peers ^ (all + same);
}
""")

REDUCTIONS = Kernel(r"""
extern "C" __global__
void reductions(const int* x, int* y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, v = x[i];
    y[i] = __reduce_add_sync(0xffffffffu, v) + 3 * __reduce_max_sync(0xffffffffu, v)
         - (int)__reduce_xor_sync(0xffffffffu, (unsigned)v);
}
""")

WARP_TILE = Kernel(r"""
extern "C" __global__
void warp_tile(const float* x, float* y, int n) {
    __shared__ float s[4][32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, i = blockIdx.x * blockDim.x + threadIdx.x;
    s[warp][lane] = i < n ? x[i] : 0.0f;
    __syncwarp();
    float v = s[warp][31 - lane];
    __syncwarp();
    s[warp][lane] = v + (float)lane;
    __syncwarp();
    if (i < n) y[i] = s[warp][lane ^ 1];
}
""")

NAMED_BARRIERS = Kernel(r"""
extern "C" __global__
void named_barriers(const float* x, float* y, int tiles) {
    __shared__ float ring[2][32];
    int lane = threadIdx.x % 32;
    if (threadIdx.x < 32) {
        for (int k = 0; k < tiles; ++k) {
            if (k >= 2) asm volatile("bar.sync %0, 64;" :: "r"(3 + k % 2) : "memory");
            ring[k % 2][lane] = x[k * 32 + lane];
            asm volatile("bar.arrive %0, 64;" :: "r"(1 + k % 2) : "memory");
        }
    } else {
        float s = 0.0f;
        for (int k = 0; k < tiles; ++k) {
            asm volatile("bar.sync %0, 64;" :: "r"(1 + k % 2) : "memory");
            s += ring[k % 2][31 - lane];
            if (k + 2 < tiles) asm volatile("bar.arrive %0, 64;" :: "r"(3 + k % 2) : "memory");
        }
        y[lane] = s;
    }
}
""")

COPY_ASYNC = Kernel(r"""
extern "C" __global__
void copy_async(const float* x, float* y, int shift) {
    __shared__ __align__(16) float tile[SIZE / 4 * 64];
    int t = threadIdx.x;
    const float* from = x + (blockIdx.x * 64 + (t + shift) % 64) * (SIZE / 4);
    asm volatile("cp.async." KIND ".shared.global [%0], [%1], %2;"
                 :: "r"((unsigned)__cvta_generic_to_shared(&tile[t * (SIZE / 4)])), "l"(from), "n"(SIZE)
                 : "memory");
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncthreads();
    for (int i = t; i < SIZE / 4 * 64; i += 64)
        y[blockIdx.x * (SIZE / 4 * 64) + i] = tile[SIZE / 4 * 64 - 1 - i];
}
""", defines={"SIZE": 4, "KIND": '"ca"'})  # fmt: skip

PIPELINE = Kernel(r"""
#define FETCH(to, from) asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" \
    :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from) : "memory")
extern "C" __global__
void pipeline(const float4* x, float* y, int tiles) {
    __shared__ float4 ring[3][64];
    int t = threadIdx.x;
    float s = 0.0f;
    for (int k = 0; k < 2; ++k) {
        if (k < tiles) FETCH(&ring[k][t], &x[k * 64 + t]);
        asm volatile("cp.async.commit_group;" ::: "memory");
    }
    for (int k = 0; k < tiles; ++k) {
        asm volatile("cp.async.wait_group 1;" ::: "memory");
        __syncthreads();
        float4 v = ring[k % 3][63 - t];
        s += v.x + v.y + v.z + v.w;
        if (k + 2 < tiles) FETCH(&ring[(k + 2) % 3][t], &x[(k + 2) * 64 + t]);
        asm volatile("cp.async.commit_group;" ::: "memory");
    }
    y[t] = s;
}
""")

HALF2_DOT = Kernel(r"""
#include <cuda_fp16.h>

extern "C" __global__
void half2_dot(const half2* a, const half2* b, half2* sums, float* dots, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    half2 p = __hmul2(a[i], b[i]), q = __hadd2(a[i], b[i]);
    sums[i] = __hsub2(q, p);
    dots[i] = __low2float(p) + __high2float(p);
}
""")


def _copies(size: int, kind: str, shift: int) -> Specimen:
    kernel = Kernel(COPY_ASYNC.source, defines={"SIZE": size, "KIND": f'"{kind}"'})
    inputs = case(x=normal(3, 64, size // 4), y=output(3, 64, size // 4), shift=shift, grid=3, block=64)
    turned = "" if not shift else f", turned by {shift}"
    return specimen(f"cp.async {kind} of {size} bytes{turned}", "asynchronous copies", kernel, inputs)


_WHOLE = case(x=integers(512, low=0, high=1000), y=output(512, dtype="int32"), grid=4, block=128)

SPECIMENS: tuple[Specimen, ...] = (
    specimen("shuffles", "up, down in halves, from any lane, exclusive-or", SHUFFLES, _WHOLE),
    specimen(
        "row sums by shuffles",
        "a row a warp, summed with shuffles",
        ROW_SUMS,
        case(x=normal(13, 77), y=output(13), rows=13, cols=77, grid=4, block=128),
    ),
    specimen(
        "matches",
        "lanes with the same value",
        MATCHES,
        case(x=integers(512, low=0, high=9), y=output(512, dtype="uint32"), grid=4, block=128),
    ),
    specimen("reductions", "sum, maximum and exclusive-or of a warp", REDUCTIONS, _WHOLE),
    specimen(
        "warp tile",
        "lanes of a warp exchange through shared memory",
        WARP_TILE,
        case(x=normal(500), y=output(500), n=500, grid=4, block=128),
    ),
    specimen(
        "named barriers",
        "one warp makes, another takes, four barriers",
        NAMED_BARRIERS,
        case(x=normal(7, 32), y=output(32), tiles=7, grid=1, block=64),
    ),
    *(
        _copies(*settings)
        for settings in ((4, "ca", 0), (8, "ca", 0), (16, "ca", 0), (16, "cg", 0), (4, "ca", 5))
    ),
    specimen(
        "pipeline of copies",
        "three stages of 16-byte cp.async",
        PIPELINE,
        case(x=normal(7, 64, 4), y=output(64), tiles=7, grid=1, block=64),
    ),
    specimen(
        "half2 products",
        "sums, differences and products of two halves a lane",
        HALF2_DOT,
        case(
            a=normal(300, 2, dtype="float16"),
            b=normal(300, 2, dtype="float16"),
            sums=output(300, 2, dtype="float16"),
            dots=output(300),
            n=300,
            grid=3,
            block=128,
        ),
    ),
)
"""All specimens, in the order of the tables."""
