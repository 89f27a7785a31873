#include <cuda_bf16.h>
#define PER (16 / (int)sizeof(Number))              // numbers in 16 bytes
#define HOLD (SHARE / PER)                          // such pieces a thread holds
#define ROWS (THREADS / TEAM)                       // rows of a block
#define LOG2E 1.44269504f                           // e is 2 to this power

struct Pair { float m, z; };  // a maximum, times LOG2E; a sum relative to it

// The pairs of neighbouring lanes, as many as given, as one in each of them.
__device__ Pair together(Pair own, int lanes) {
    float m = own.m;
    for (int h = lanes / 2; h > 0; h /= 2) m = fmaxf(m, __shfl_xor_sync(~0u, m, h));
    float z = m == -INFINITY ? 0.0f : own.z * exp2f(own.m - m);
    for (int h = lanes / 2; h > 0; h /= 2) z += __shfl_xor_sync(~0u, z, h);
    return {m, z};
}

// 16 bytes of a row from column c on, number by number; minus infinity behind its end.
__device__ uint4 gather(const Number* x, int c, int cols) {
    uint4 piece;
    Number* part = (Number*)&piece;
    for (int k = 0; k < PER; ++k) part[k] = c + k < cols ? x[c + k] : (Number)(-INFINITY);
    return piece;
}

__device__ uint4 pack(const float* e, float factor) {
    uint4 piece;
    Number* part = (Number*)&piece;
    for (int k = 0; k < PER; ++k) part[k] = (Number)(e[k] * factor);
    return piece;
}

extern "C" __global__ void __launch_bounds__(THREADS)
softmax_on_chip(const Number* X, Number* Y, int rows, int cols) {
    int t = threadIdx.x % TEAM, row = blockIdx.x * ROWS + threadIdx.x / TEAM;
    if (row >= rows) return;
    X += (long long)row * cols;
    Y += (long long)row * cols;
    // [pairs
    const int stride = TEAM * PER;
    const uint4 nothing = gather(X, cols, cols);
    uint4 piece[HOLD];
    t *= PER;
    if (cols % PER == 0) {  // every row begins at a multiple of 16 bytes
        #pragma unroll
        for (int k = 0; k < HOLD; ++k)
            piece[k] = t + k * stride < cols ? *(const uint4*)(X + t + k * stride) : nothing;
    } else {
        #pragma unroll
        for (int k = 0; k < HOLD; ++k) piece[k] = gather(X, t + k * stride, cols);
    }
    float e[SHARE];
    #pragma unroll
    for (int k = 0; k < SHARE; ++k) e[k] = ((const Number*)&piece[k / PER])[k % PER];
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
    // pairs]
    // [all
    Pair all = together(own, TEAM < 32 ? TEAM : 32);
#if TEAM > 32
    __shared__ Pair box[TEAM / 32];
    int lane = threadIdx.x % 32;
    if (lane == 0) box[threadIdx.x / 32] = all;
    __syncthreads();  // every warp's pair is in the box
    all = together(lane < TEAM / 32 ? box[lane] : Pair{-INFINITY, 0.0f}, 32);
#endif
    // all]
    // [write
    float factor = all.z > 0.0f ? exp2f(shift - all.m) / all.z : 0.0f;
    if (cols % PER == 0) {
        #pragma unroll
        for (int k = 0; k < HOLD; ++k)
            if (t + k * stride < cols) *(uint4*)(Y + t + k * stride) = pack(e + k * PER, factor);
    } else {
        #pragma unroll
        for (int k = 0; k < SHARE; ++k) {
            int c = t + k / PER * stride + k % PER;
            if (c < cols) Y[c] = (Number)(e[k] * factor);
        }
    }
    // write]
}
