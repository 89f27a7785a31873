// Y = softmax of each row of X, the row in registers, for up to TEAM * SHARE columns.
// ON_CHIP of the lesson attention/softmax, written by python -m tilewise.kernels: change it there.
// Compile with -std=c++17.
#ifndef Number
#define Number float
#endif
#ifndef TEAM
#define TEAM 8
#endif
#ifndef THREADS
#define THREADS 64
#endif
#ifndef SHARE
#define SHARE 8
#endif
#include <cuda_bf16.h>
#define VEC (16 / (int)sizeof(Number))              // elements per 16 bytes
#define CHUNKS (SHARE / VEC)                          // 16-byte chunks per thread
#define ROWS (THREADS / TEAM)                       // rows per block
#define LOG2E 1.44269504f                           // log2(e)

struct Pair { float m, z; };  // a maximum times LOG2E; a sum relative to it

// Combines the pairs of this many neighbouring lanes; each of them gets the result.
__device__ Pair warp_reduce(Pair own, int lanes) {
    float m = own.m;
    for (int h = lanes / 2; h > 0; h /= 2) m = fmaxf(m, __shfl_xor_sync(~0u, m, h));
    float z = m == -INFINITY ? 0.0f : own.z * exp2f(own.m - m);
    for (int h = lanes / 2; h > 0; h /= 2) z += __shfl_xor_sync(~0u, z, h);
    return {m, z};
}

// 16 bytes of a row from column c, one element at a time; minus infinity past its end.
__device__ uint4 load_chunk(const Number* x, int c, int cols) {
    uint4 chunk;
    Number* part = (Number*)&chunk;
    for (int k = 0; k < VEC; ++k) part[k] = c + k < cols ? x[c + k] : (Number)(-INFINITY);
    return chunk;
}

__device__ uint4 pack(const float* e, float factor) {
    uint4 chunk;
    Number* part = (Number*)&chunk;
    for (int k = 0; k < VEC; ++k) part[k] = (Number)(e[k] * factor);
    return chunk;
}

// Y = softmax of each row of X, both row-major [rows][cols]; Number is float or __nv_bfloat16.
// TEAM threads share a row and hold SHARE elements each: cols <= TEAM * SHARE. TEAM is a power of
// two; up to 32 it divides THREADS, beyond 32 it equals THREADS. SHARE is a multiple of VEC.
// X and Y are 16-byte aligned. Any cols; 16-byte accesses need cols % VEC == 0.
// Launch ceil(rows / ROWS) blocks of THREADS threads.
extern "C" __global__ void __launch_bounds__(THREADS)
softmax_on_chip(const Number* X, Number* Y, int rows, int cols) {
    int t = threadIdx.x % TEAM, row = blockIdx.x * ROWS + threadIdx.x / TEAM;
    if (row >= rows) return;
    X += (long long)row * cols;
    Y += (long long)row * cols;
    const int stride = TEAM * VEC;
    const uint4 nothing = load_chunk(X, cols, cols);
    uint4 chunk[CHUNKS];
    t *= VEC;
    if (cols % VEC == 0) {  // every row is 16-byte aligned
        #pragma unroll
        for (int k = 0; k < CHUNKS; ++k)
            chunk[k] = t + k * stride < cols ? *(const uint4*)(X + t + k * stride) : nothing;
    } else {
        #pragma unroll
        for (int k = 0; k < CHUNKS; ++k) chunk[k] = load_chunk(X, t + k * stride, cols);
    }
    float e[SHARE];
    #pragma unroll
    for (int k = 0; k < SHARE; ++k) e[k] = ((const Number*)&chunk[k / VEC])[k % VEC];
    Pair own = {-INFINITY, 0.0f};
    #pragma unroll
    for (int k = 0; k < SHARE; ++k) own.m = fmaxf(own.m, e[k]);
    own.m *= LOG2E;
    float shift = own.m == -INFINITY ? 0.0f : own.m;
    #pragma unroll
    for (int k = 0; k < SHARE; ++k) {
        e[k] = exp2f(fmaf(e[k], LOG2E, -shift));
        own.z += e[k];
    }
    Pair all = warp_reduce(own, TEAM < 32 ? TEAM : 32);
#if TEAM > 32
    __shared__ Pair warp_pairs[TEAM / 32];
    int lane = threadIdx.x % 32;
    if (lane == 0) warp_pairs[threadIdx.x / 32] = all;
    __syncthreads();  // every warp has written its pair
    all = warp_reduce(lane < TEAM / 32 ? warp_pairs[lane] : Pair{-INFINITY, 0.0f}, 32);
#endif
    float factor = all.z > 0.0f ? exp2f(own.m - all.m) / all.z : 0.0f;
    if (cols % VEC == 0) {
        #pragma unroll
        for (int k = 0; k < CHUNKS; ++k)
            if (t + k * stride < cols) *(uint4*)(Y + t + k * stride) = pack(e + k * VEC, factor);
    } else {
        #pragma unroll
        for (int k = 0; k < SHARE; ++k) {
            int c = t + k / VEC * stride + k % VEC;
            if (c < cols) Y[c] = (Number)(e[k] * factor);
        }
    }
}
