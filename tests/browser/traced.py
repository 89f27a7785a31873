"""Traced launches of all kinds, which ``test_replay.py`` repeats in a browser with their stepped figures."""

import numpy as np

from tilewise import Kernel, Trace

MIXED = Kernel(r"""
__device__ int total;
extern "C" __global__ void mixed(const float4* x, double* y, unsigned short* z, int* bins, int n) {
    __shared__ int counts[4][8];
    __shared__ float2 pairs[33];
    extern __shared__ float more[];
    int t = threadIdx.x + blockDim.x * threadIdx.y;  // watch: t
    if (t < 32) counts[t / 8][t % 8] = 3 * t - 40;
    pairs[t % 33] = make_float2(t, 0.1f * t);
    more[t] = 1.0f / t;
    __syncthreads();
    float4 four = x[t];
    double y0 = four.x / 3.0 + four.w + pairs[(t + 1) % 33].y;  // watch: y0, t
    y[t] = y0;
    z[blockDim.x * blockDim.y * blockIdx.x + t] = counts[t % 4][t % 8] + more[t ^ 1];
    atomicAdd(&bins[t % 3], counts[t % 4][1]);
    atomicAdd(&total, 1);
    for (int k = 1; k < n; k *= 2) {
        __syncthreads();
        if (t % (2 * k) == 0 && t + k < 32) counts[t / 8][t % 8] += counts[(t + k) / 8][(t + k) % 8];
    }
}
""")
BEYOND = Kernel(r"""
extern "C" __global__ void beyond(const float* x, float* y, int n) {
    __shared__ float s[32];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    s[threadIdx.x] = x[i];
    y[i] = s[31 - threadIdx.x] + x[i + n];
}
""")
VALUES = Kernel(r"""
extern "C" __global__ void values(const double* x, double* y, float* z) {
    double v = x[threadIdx.x];  // watch: v
    y[threadIdx.x] = v;
    z[threadIdx.x] = (float)v;
}
""")

PAIRS = Kernel(r"""
#include <cuda_fp16.h>
extern "C" __global__ void pairs(const void* x, void* y, unsigned char* z) {
    __shared__ __align__(16) __half tile[128];
    __shared__ __align__(16) float both[64];
    int t = threadIdx.x;
    ((unsigned*)tile)[t] = ((const unsigned*)x)[t];
    ((double*)both)[t] = 0.5 * t;
    __syncthreads();
    if (t < 16) ((uint2*)y)[t] = ((const uint2*)tile)[t ^ 1];
    if (t > 15) z[t] = ((const char*)both)[t];
}
""")


def main() -> None:
    """Launch each with several traces."""
    rng = np.random.default_rng(7)
    for blocks, block, trace in (
        (1, (8, 4, 1), Trace()),
        (2, (32, 2, 1), Trace()),
        (3, (32, 2, 1), Trace(blocks=[1], warps=[1])),
        (2, (20, 3, 1), Trace(max_steps=40)),
    ):
        threads = block[0] * block[1]
        x = rng.normal(size=(threads, 4)).astype(np.float32)
        MIXED.simulate(
            x, np.zeros(threads), np.zeros(blocks * threads, np.uint16), np.zeros(3, np.int32), 32,
            grid=blocks, block=block, shared_bytes=4 * threads, trace=trace, hazards="collect",
        )  # fmt: skip
    for n in (0, 9):
        x, y = np.ones(50, np.float32), np.zeros(50, np.float32)
        BEYOND.simulate(x, y, n, grid=2, block=32, trace=Trace(), hazards="collect")
    for dtype in (np.uint16, np.float16, np.int8, np.float32):
        # bits of all kinds, signalling NaNs among them
        x = rng.integers(0, 256, 128, np.uint8).view(dtype)
        PAIRS.simulate(
            x, np.zeros(128 // x.itemsize, dtype), np.zeros(32, np.uint8), grid=1, block=32, trace=Trace()
        )
    special = [0.0, -0.0, np.nan, np.inf, -np.inf, 1e15, 1e16, 2.0**53, 123456.5, 100000.5, 1000000.5]
    special += [0.1, 1e-5, 1.0005, 2.00050, 9.9995, 99.995, 12345.5, 0.000123456, 123456789.5, 1e9 + 0.5]
    special += [8.5e-5, 5e-324, -7.25]
    for at in range(0, len(special), 4):  # four values are said one by one
        x = np.array(special[at : at + 4])
        VALUES.simulate(x, np.zeros(4), np.zeros(4, np.float32), grid=1, block=4, trace=Trace())
    for spread in (0, 4, 12):
        drawn = rng.normal(size=64) * 10.0 ** rng.integers(-spread, spread + 1, size=64)
        x = np.array([*special, *drawn, *np.round(drawn, 3)])
        x = np.resize(x, 160)
        for warps in (None, [2]):
            VALUES.simulate(
                x, np.zeros(160), np.zeros(160, np.float32), grid=1, block=160, trace=Trace(warps=warps)
            )


if __name__ == "__main__":
    main()
