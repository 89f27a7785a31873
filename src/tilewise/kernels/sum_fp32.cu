// total[0] = the sum of x[0 .. n); `sums` is room for a number a block.
// FOUR of the lesson memory/reductions, written by python -m tilewise.kernels: change it there.
#ifndef LOADS
#define LOADS 4
#endif
__device__ float warp_sum(float acc) {
    for (int offset = 16; offset > 0; offset /= 2)
        acc += __shfl_down_sync(0xffffffff, acc, offset);
    return acc;
}
__device__ float block_sum(float acc) {  // valid in thread 0
    __shared__ float warp_sums[32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    acc = warp_sum(acc);
    if (lane == 0) warp_sums[warp] = acc;
    __syncthreads();  // every warp has stored its sum
    if (warp > 0) return 0.0f;
    return warp_sum(lane < blockDim.x / 32 ? warp_sums[lane] : 0.0f);
}
__device__ float thread_sum(const float* x, int n) {
    const float4* x4 = (const float4*)x;
    int tile = LOADS * blockDim.x, n4 = n / 4 / tile * tile;
    float4 acc = {0.0f, 0.0f, 0.0f, 0.0f};  // four accumulators
    for (int j = blockIdx.x * tile + threadIdx.x; j < n4;
         j += gridDim.x * tile) {
        float4 v[LOADS];
        #pragma unroll
        for (int k = 0; k < LOADS; ++k)  // all loads before the first addition
            v[k] = x4[j + k * blockDim.x];
        #pragma unroll
        for (int k = 0; k < LOADS; ++k) {
            acc.x += v[k].x;
            acc.y += v[k].y;
            acc.z += v[k].z;
            acc.w += v[k].w;
        }
    }
    int tid = blockIdx.x * blockDim.x + threadIdx.x;  // elements beyond the last tile
    for (int i = 4 * n4 + tid; i < n; i += gridDim.x * blockDim.x)
        acc.x += x[i];
    return (acc.x + acc.y) + (acc.z + acc.w);
}
// sums[b] = the sum of block b. x: n floats, aligned to 16 bytes; blockDim.x: whole warps.
extern "C" __global__
void sum_wide(const float* x, float* sums, int n) {
    float acc = block_sum(thread_sum(x, n));
    if (threadIdx.x == 0) sums[blockIdx.x] = acc;
}
// *total = the sum of `blocks` floats. One block.
extern "C" __global__
void add_up(const float* sums, float* total, int blocks) {
    float acc = 0.0f;
    for (int b = threadIdx.x; b < blocks; b += blockDim.x) acc += sums[b];
    acc = block_sum(acc);
    if (threadIdx.x == 0) *total = acc;
}
__device__ unsigned arrived = 0;  // blocks that have finished
// Both in one launch. Not for two launches at the same time: they would share `arrived`.
extern "C" __global__
void sum_at_once(const float* x, float* sums, float* total, int n) {
    __shared__ bool last;
    float acc = block_sum(thread_sum(x, n));
    if (threadIdx.x == 0) {
        sums[blockIdx.x] = acc;
        __threadfence();  // publish the sum before the arrival
        last = atomicInc(&arrived, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();  // every thread knows whether its block is last
    if (!last) return;
    __threadfence();  // read the other blocks' sums, not stale copies
    acc = 0.0f;
    for (int b = threadIdx.x; b < gridDim.x; b += blockDim.x)
        acc += __ldcg(sums + b);
    acc = block_sum(acc);
    if (threadIdx.x == 0) *total = acc;
}
