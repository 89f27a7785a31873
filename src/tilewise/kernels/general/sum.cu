#include <cuda_bf16.h>
#include <cuda_fp16.h>
#define CLUSTERED (CLUSTER > 1)
#include "general_clusters.cuh"
#define THREADS 512
#define VEC (16 / (int)sizeof(Number))  // elements per 16 bytes
#define LOADS 4                         // 16-byte loads of a thread in flight

static __device__ float warp_sum(float acc) {
    for (int h = 16; h > 0; h /= 2) acc += __shfl_xor_sync(~0u, acc, h);
    return acc;
}
static __device__ float block_sum(float acc) {  // valid in warp 0
    __shared__ float warp_sums[THREADS / 32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    acc = warp_sum(acc);
    if (lane == 0) warp_sums[warp] = acc;
    __syncthreads();  // every warp has stored its sum
    return warp > 0 ? 0.0f : warp_sum(lane < THREADS / 32 ? warp_sums[lane] : 0.0f);
}
static __device__ float sum_of(uint4 chunk) {
    float acc = 0.0f;
    #pragma unroll
    for (int k = 0; k < VEC; ++k) acc += (float)((const Number*)&chunk)[k];
    return acc;
}
// What this thread adds up of x[0 .. n): `head` elements stand before the first multiple of 16 bytes.
static __device__ float thread_sum(const Number* x, long long n, int head) {
    const uint4* body = (const uint4*)(x + head);
    long long chunks = (n - head) / VEC, rest = head + chunks * VEC;
    float acc[LOADS] = {};
    for (long long tile = blockIdx.x * (long long)(LOADS * THREADS); tile < chunks;
         tile += gridDim.x * (long long)(LOADS * THREADS)) {
        uint4 chunk[LOADS];
        #pragma unroll
        for (int k = 0; k < LOADS; ++k) {  // all loads before the first addition
            long long i = tile + k * THREADS + threadIdx.x;
            chunk[k] = i < chunks ? body[i] : uint4{0, 0, 0, 0};
        }
        #pragma unroll
        for (int k = 0; k < LOADS; ++k) acc[k] += sum_of(chunk[k]);
    }
    if (blockIdx.x == 0 && threadIdx.x < head) acc[0] += (float)x[threadIdx.x];
    if (blockIdx.x == 0 && threadIdx.x < n - rest) acc[1] += (float)x[rest + threadIdx.x];
    return (acc[0] + acc[1]) + (acc[2] + acc[3]);
}

// sums[b] = the sum of what block b reads of x[0 .. n), in FP32. Any n; x + head is a multiple of 16 bytes, head <= n
// and less than 16 bytes. Block: 512 threads. Any grid of one axis.
extern "C" __global__ void __launch_bounds__(THREADS)
sum_blocks(const Number* x, float* sums, long long n, int head) {
    float acc = block_sum(thread_sum(x, n, head));
    if (threadIdx.x == 0) sums[blockIdx.x] = acc;
}

// *total = the sum of `blocks` floats. One block of 512 threads.
extern "C" __global__ void __launch_bounds__(THREADS)
sum_up(const float* sums, Number* total, int blocks) {
    float acc = 0.0f;
    for (int b = threadIdx.x; b < blocks; b += THREADS) acc += sums[b];
    acc = block_sum(acc);
    if (threadIdx.x == 0) *total = (Number)acc;
}

// Both in one launch, for what one block reads in a few steps. One block of 512 threads; arguments as sum_blocks.
extern "C" __global__ void __launch_bounds__(THREADS)
sum_at_once(const Number* x, Number* total, long long n, int head) {
    float acc = block_sum(thread_sum(x, n, head));
    if (threadIdx.x == 0) *total = (Number)acc;
}

#if CLUSTER > 1
// Both in one launch by one cluster: a grid of CLUSTER blocks of 512 threads; compute capability 9.0.
extern "C" __global__ void __cluster_dims__(CLUSTER) __launch_bounds__(THREADS)
sum_cluster(const Number* x, Number* total, long long n, int head) {
    __shared__ float own;
    float acc = block_sum(thread_sum(x, n, head));
    if (threadIdx.x == 0) own = acc;
    CLUSTER_SYNC
    if (blockIdx.x == 0 && threadIdx.x < 32) {
        float x = warp_sum(threadIdx.x < CLUSTER ? load_remote(&own, threadIdx.x) : 0.0f);
        if (threadIdx.x == 0) *total = (Number)x;
    }
    CLUSTER_SYNC
}
#endif
