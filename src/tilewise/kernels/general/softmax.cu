#include <cuda_bf16.h>
#include <cuda_fp16.h>
#define CLUSTERED (BLOCKS > 1)
#include "general_clusters.cuh"
#include "general_rows.cuh"
#define VEC (16 / (int)sizeof(Number))  // elements per 16 bytes
#define CHUNKS (SHARE / VEC)            // 16-byte chunks per thread
#define LOG2E 1.44269504f

struct Pair { float m, z; };  // a maximum times LOG2E; a sum of powers of two relative to it

// Combines the pairs of this many neighbouring lanes; each of them gets the result.
static __device__ Pair warp_reduce(Pair own, int lanes) {
    float m = own.m;
    for (int h = lanes / 2; h > 0; h /= 2) m = fmaxf(m, __shfl_xor_sync(~0u, m, h));
    float z = m == -INFINITY ? 0.0f : own.z * exp2f(own.m - m);
    for (int h = lanes / 2; h > 0; h /= 2) z += __shfl_xor_sync(~0u, z, h);
    return {m, z};
}
// Combines the pairs of all threads of a row; every thread gets the result.
static __device__ Pair row_reduce(Pair own) {
    Pair all = warp_reduce(own, TEAM < 32 ? TEAM : 32);
#if TEAM > 32
    __shared__ Pair warp_pairs[TEAM / 32];
    int lane = threadIdx.x % 32;
    if (lane == 0) warp_pairs[threadIdx.x / 32] = all;
    __syncthreads();  // every warp has written its pair
    all = warp_reduce(lane < TEAM / 32 ? warp_pairs[lane] : Pair{-INFINITY, 0.0f}, 32);
#endif
#if BLOCKS > 1
    __shared__ float block_m, block_z;
    if (threadIdx.x == 0) {
        block_m = all.m;
        block_z = all.z;
    }
    CLUSTER_SYNC  // every block has written its pair
    Pair one = {-INFINITY, 0.0f};
    if (threadIdx.x % 32 < BLOCKS)
        one = {load_remote(&block_m, threadIdx.x % 32), load_remote(&block_z, threadIdx.x % 32)};
    all = warp_reduce(one, 32);
    CLUSTER_ARRIVE  // before leaving, a block waits for this
#endif
    return all;
}
static __device__ void leave() {
#if BLOCKS > 1
    CLUSTER_WAIT
#endif
}
// Whether the chunk from element c on is whole: it then begins at a multiple of 16 bytes.
static __device__ bool whole(int c, int cols) { return c >= 0 && c <= cols - VEC; }

// 16 bytes of a row from element c on; minus infinity outside of it.
static __device__ uint4 load_chunk(const Number* x, int c, int cols) {
    if (whole(c, cols)) return *(const uint4*)(x + c);
    uint4 chunk;
    #pragma unroll
    for (int k = 0; k < VEC; ++k)
        ((Number*)&chunk)[k] = c + k >= 0 && c + k < cols ? x[c + k] : (Number)(-INFINITY);
    return chunk;
}
static __device__ void store_chunk(Number* y, int c, int cols, bool aligned, const float* e, float factor) {
    if (aligned && whole(c, cols)) {
        uint4 chunk;
        #pragma unroll
        for (int k = 0; k < VEC; ++k) ((Number*)&chunk)[k] = (Number)(e[k] * factor);
        *(uint4*)(y + c) = chunk;
        return;
    }
    #pragma unroll
    for (int k = 0; k < VEC; ++k)
        if (c + k >= 0 && c + k < cols) y[c + k] = (Number)(e[k] * factor);
}
static __device__ void store_elements(Number* y, int c, int cols, uint4 chunk, int first, int last) {
    #pragma unroll
    for (int k = 0; k < VEC; ++k)
        if (k >= first && k < last && c + k >= 0 && c + k < cols) y[c + k] = ((const Number*)&chunk)[k];
}
// As store_chunk, where Y's chunks begin `behind` elements further on: a lane stores the end of its own chunk with the
// beginning of its neighbour's. Called by all lanes that share rows.
static __device__ void store_shifted(Number* y, int c, int cols, int behind, const float* e, float factor) {
    const int lanes = TEAM < 32 ? TEAM : 32;
    uint4 own, next;
    #pragma unroll
    for (int k = 0; k < VEC; ++k) ((Number*)&own)[k] = (Number)(e[k] * factor);
    next.x = __shfl_down_sync(~0u, own.x, 1);
    next.y = __shfl_down_sync(~0u, own.y, 1);
    next.z = __shfl_down_sync(~0u, own.z, 1);
    next.w = __shfl_down_sync(~0u, own.w, 1);
    if (threadIdx.x % lanes == 0) store_elements(y, c, cols, own, 0, behind);
    if (threadIdx.x % lanes == lanes - 1) {
        store_elements(y, c, cols, own, behind, VEC);
        return;
    }
    uint4 made = shifted(own, next, behind * (int)sizeof(Number));
    if (whole(c + behind, cols)) *(uint4*)(y + c + behind) = made;
    else store_elements(y, c + behind, cols, made, 0, VEC);
}

// Y = softmax of each row of X, read once: TEAM threads of each of BLOCKS blocks hold SHARE elements of a row each,
// in chunks that begin at multiples of 16 bytes wherever the row does. Rows are x_step and y_step elements apart; X
// and Y begin x_off and y_off elements behind a multiple of 16 bytes. cols + VEC <= BLOCKS * TEAM * SHARE, SHARE is
// a multiple of VEC. TEAM is a power of two: up to 32 it divides THREADS, beyond it equals THREADS, and with
// BLOCKS > 1 too. 1,024 threads spill from SHARE of 28 on. Grid: ceil(rows / (THREADS / TEAM)) * BLOCKS. Block: THREADS. Clusters need compute capability 9.0.
extern "C" __global__ void __cluster_dims__(BLOCKS) __launch_bounds__(THREADS)
softmax_rows(const Number* X, Number* Y, int rows, int cols, long long x_step, long long y_step,
             int x_off, int y_off) {
    int t = threadIdx.x % TEAM + blockIdx.x % BLOCKS * (TEAM * CHUNKS);
    long long row = blockIdx.x / BLOCKS * (THREADS / TEAM) + threadIdx.x / TEAM;
    if (row >= rows) return;  // only where a warp has several rows, or the block one row
    int before = (row * x_step + x_off) % VEC;
    int behind = (before - (int)((row * y_step + y_off) % VEC) + VEC) % VEC;
    X += row * x_step;
    Y += row * y_step;
    uint4 chunk[CHUNKS];
    #pragma unroll
    for (int k = 0; k < CHUNKS; ++k) chunk[k] = load_chunk(X, (t + k * TEAM) * VEC - before, cols);
    float e[SHARE];
    #pragma unroll
    for (int k = 0; k < SHARE; ++k) e[k] = (float)((const Number*)&chunk[k / VEC])[k % VEC];
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
    Pair all = row_reduce(own);
    float factor = all.z > 0.0f ? exp2f(own.m - all.m) / all.z : 0.0f;
    #pragma unroll
    for (int k = 0; k < CHUNKS; ++k)
        if (behind && TEAM >= 32) store_shifted(Y, (t + k * TEAM) * VEC - before, cols, behind, e + k * VEC, factor);
        else store_chunk(Y, (t + k * TEAM) * VEC - before, cols, !behind, e + k * VEC, factor);
    leave();
}

// The same for rows of any length, read twice. TEAM equals THREADS; SHARE is VEC. Grid: rows * BLOCKS.
extern "C" __global__ void __cluster_dims__(BLOCKS) __launch_bounds__(THREADS)
softmax_twice(const Number* X, Number* Y, int rows, int cols, long long x_step, long long y_step,
              int x_off, int y_off) {
    long long row = blockIdx.x / BLOCKS;
    int before = (row * x_step + x_off) % VEC, stride = BLOCKS * THREADS * VEC;
    int first = (blockIdx.x % BLOCKS * THREADS + threadIdx.x) * VEC - before;
    bool aligned = before == (row * y_step + y_off) % VEC;
    X += row * x_step;
    Y += row * y_step;
    Pair own = {-INFINITY, 0.0f};
    #pragma unroll 2
    for (long long c = first; c < cols; c += stride) {
        uint4 chunk = load_chunk(X, c, cols);
        float e[VEC], m = own.m;
        #pragma unroll
        for (int k = 0; k < VEC; ++k) m = fmaxf(m, e[k] = (float)((const Number*)&chunk)[k] * LOG2E);
        float shift = m == -INFINITY ? 0.0f : m;
        own.z *= exp2f(own.m - shift);
        #pragma unroll
        for (int k = 0; k < VEC; ++k) own.z += exp2f(e[k] - shift);
        own.m = m;
    }
    Pair all = row_reduce(own);
    float factor = all.z > 0.0f ? 1.0f / all.z : 0.0f, shift = all.m == -INFINITY ? 0.0f : all.m;
    #pragma unroll 2
    for (long long c = first; c < cols; c += stride) {
        uint4 chunk = load_chunk(X, c, cols);
        float e[VEC];
        #pragma unroll
        for (int k = 0; k < VEC; ++k)
            e[k] = exp2f(fmaf((float)((const Number*)&chunk)[k], LOG2E, -shift));
        store_chunk(Y, c, cols, aligned, e, factor);
    }
    leave();
}
