#include <cuda_bf16.h>
#include <cuda_fp16.h>

// sums[b] = the sum of what block b reads of x[0 .. n), in FP32. Any n, any alignment.
// Block: 256 threads. Any grid of one axis.
extern "C" __global__ void __launch_bounds__(256)
sum_blocks(const Number* x, float* sums, long long n) {
    __shared__ float warp_sums[8];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float acc = 0.0f;
    #pragma unroll 4
    for (long long i = blockIdx.x * 256LL + threadIdx.x; i < n; i += gridDim.x * 256LL) acc += (float)x[i];
    for (int h = 16; h > 0; h /= 2) acc += __shfl_xor_sync(~0u, acc, h);
    if (lane == 0) warp_sums[warp] = acc;
    __syncthreads();  // every warp has written its sum
    if (warp > 0) return;
    acc = lane < 8 ? warp_sums[lane] : 0.0f;
    for (int h = 4; h > 0; h /= 2) acc += __shfl_xor_sync(~0u, acc, h);
    if (lane == 0) sums[blockIdx.x] = acc;
}
