// total[0] = the sum of x[0 .. n); `sums` is room for a number a block.
// FOUR of the lesson memory/reductions, written by python -m tilewise.kernels: change it there.
#ifndef LOADS
#define LOADS 4
#endif
__device__ float warp_sum(float s) {
    for (int hop = 16; hop > 0; hop /= 2)
        s += __shfl_down_sync(0xffffffff, s, hop);
    return s;
}
__device__ float block_sum(float s) {  // in thread 0: the sum of the block
    __shared__ float box[32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    s = warp_sum(s);
    if (lane == 0) box[warp] = s;
    __syncthreads();  // the sums of all warps are in the box
    if (warp > 0) return 0.0f;
    return warp_sum(lane < blockDim.x / 32 ? box[lane] : 0.0f);
}
__device__ float thread_sum(const float* x, int n) {
    const float4* wide = (const float4*)x;
    int tile = LOADS * blockDim.x, whole = n / 4 / tile * tile;
    float4 s = {0.0f, 0.0f, 0.0f, 0.0f};  // four separate sums
    for (int at = blockIdx.x * tile + threadIdx.x; at < whole;
         at += gridDim.x * tile) {
        float4 v[LOADS];
        #pragma unroll
        for (int k = 0; k < LOADS; ++k)  // all loads, then the sums
            v[k] = wide[at + k * blockDim.x];
        #pragma unroll
        for (int k = 0; k < LOADS; ++k) {
            s.x += v[k].x;
            s.y += v[k].y;
            s.z += v[k].z;
            s.w += v[k].w;
        }
    }
    int me = blockIdx.x * blockDim.x + threadIdx.x;  // what fills no tile
    for (int i = 4 * whole + me; i < n; i += gridDim.x * blockDim.x)
        s.x += x[i];
    return (s.x + s.y) + (s.z + s.w);
}
extern "C" __global__
void sum_wide(const float* x, float* sums, int n) {
    float s = block_sum(thread_sum(x, n));
    if (threadIdx.x == 0) sums[blockIdx.x] = s;
}
extern "C" __global__
void add_up(const float* sums, float* total, int blocks) {
    float s = 0.0f;
    for (int b = threadIdx.x; b < blocks; b += blockDim.x) s += sums[b];
    s = block_sum(s);
    if (threadIdx.x == 0) *total = s;
}
__device__ unsigned arrived = 0;  // blocks that are done
extern "C" __global__
void sum_at_once(const float* x, float* sums, float* total, int n) {
    __shared__ bool last;
    float s = block_sum(thread_sum(x, n));
    if (threadIdx.x == 0) {
        sums[blockIdx.x] = s;
        __threadfence();  // the sum is in place before its arrival counts
        last = atomicInc(&arrived, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();  // everybody knows whether this block is the last
    if (!last) return;
    __threadfence();  // and reads what the others wrote, not an old copy
    s = 0.0f;
    for (int b = threadIdx.x; b < gridDim.x; b += blockDim.x)
        s += __ldcg(sums + b);
    s = block_sum(s);
    if (threadIdx.x == 0) *total = s;
}
