#include <cuda_bf16.h>
#include <cuda_fp16.h>
#define THREADS 256

struct Pair { float m, z; };  // a maximum; a sum of exponentials relative to it

// Combines the pairs of all lanes of a warp; every lane gets the result.
static __device__ Pair warp_reduce(Pair own) {
    float m = own.m;
    for (int h = 16; h > 0; h /= 2) m = fmaxf(m, __shfl_xor_sync(~0u, m, h));
    float z = m == -INFINITY ? 0.0f : own.z * expf(own.m - m);
    for (int h = 16; h > 0; h /= 2) z += __shfl_xor_sync(~0u, z, h);
    return {m, z};
}

// Y = softmax of each row of X: online, two passes, FP32 inside. Rows are x_step and y_step elements apart, the
// elements of a row adjacent. Any cols, any alignment. Grid: one block per row. Block: THREADS threads.
extern "C" __global__ void __launch_bounds__(THREADS)
softmax_rows(const Number* X, Number* Y, int cols, long long x_step, long long y_step) {
    __shared__ Pair warp_pairs[THREADS / 32];
    int lane = threadIdx.x % 32;
    X += blockIdx.x * x_step;
    Y += blockIdx.x * y_step;
    Pair own = {-INFINITY, 0.0f};
    #pragma unroll 4
    for (int c = threadIdx.x; c < cols; c += THREADS) {
        float x = (float)X[c];
        if (x > own.m) {
            own.z *= expf(own.m - x);
            own.m = x;
        }
        if (!(x == -INFINITY)) own.z += expf(x - own.m);
    }
    own = warp_reduce(own);
    if (lane == 0) warp_pairs[threadIdx.x / 32] = own;
    __syncthreads();  // every warp has written its pair
    Pair all = warp_reduce(lane < THREADS / 32 ? warp_pairs[lane] : Pair{-INFINITY, 0.0f});
    float factor = all.z > 0.0f ? 1.0f / all.z : 0.0f;
    if (all.m == -INFINITY) all.m = 0.0f;  // every element is minus infinity
    #pragma unroll 4
    for (int c = threadIdx.x; c < cols; c += THREADS) Y[c] = (Number)(expf((float)X[c] - all.m) * factor);
}
