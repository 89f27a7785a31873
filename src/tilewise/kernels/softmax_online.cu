// Y = softmax of each row of X in two passes, any length, aligned to 4 bytes.
// SOFTMAX_THREE of the lesson attention/softmax, written by python -m tilewise.kernels: change it there.
#define THREADS 256

struct Pair { float m, z; };  // a maximum; a sum of exponentials relative to it

// Combines the pairs of all lanes of a warp; every lane gets the result.
__device__ Pair warp_reduce(Pair own) {
    float m = own.m;
    for (int h = 16; h > 0; h /= 2) m = fmaxf(m, __shfl_xor_sync(~0u, m, h));
    float z = m == -INFINITY ? 0.0f : own.z * expf(own.m - m);
    for (int h = 16; h > 0; h /= 2) z += __shfl_xor_sync(~0u, z, h);
    return {m, z};
}

// Combines the pairs of all threads of the block; every thread gets the result.
__device__ Pair block_reduce(Pair own) {
    __shared__ Pair warp_pairs[THREADS / 32];
    int lane = threadIdx.x % 32;
    own = warp_reduce(own);
    __syncthreads();  // the previous call's warp_pairs have been read
    if (lane == 0) warp_pairs[threadIdx.x / 32] = own;
    __syncthreads();  // every warp has written its pair
    return warp_reduce(lane < THREADS / 32 ? warp_pairs[lane] : Pair{-INFINITY, 0.0f});
}

// Y = softmax of each row of X, both row-major [rows][cols], any cols, 4-byte aligned.
// Three passes. Launch one block of THREADS threads per row; the pairs are in static shared memory.
extern "C" __global__
void softmax_three(const float* X, float* Y, int cols) {
    X += (long long)blockIdx.x * cols;
    Y += (long long)blockIdx.x * cols;
    float m = -INFINITY;
    for (int c = threadIdx.x; c < cols; c += THREADS) m = fmaxf(m, X[c]);
    m = block_reduce({m, 0.0f}).m;
    if (m == -INFINITY) m = 0.0f;  // every element is minus infinity
    float z = 0.0f;
    for (int c = threadIdx.x; c < cols; c += THREADS) z += expf(X[c] - m);
    z = block_reduce({m, z}).z;
    float factor = z > 0.0f ? 1.0f / z : 0.0f;
    for (int c = threadIdx.x; c < cols; c += THREADS) Y[c] = expf(X[c] - m) * factor;
}

// The same result, layout and launch as softmax_three; two passes.
extern "C" __global__
void softmax_online(const float* X, float* Y, int cols) {
    X += (long long)blockIdx.x * cols;
    Y += (long long)blockIdx.x * cols;
    // one pass finds both; a larger maximum rescales the sum
    Pair own = {-INFINITY, 0.0f};
    for (int c = threadIdx.x; c < cols; c += THREADS) {
        float x = X[c];
        if (x > own.m) {
            own.z *= expf(own.m - x);
            own.m = x;
        }
        if (x > -INFINITY) own.z += expf(x - own.m);
    }
    Pair all = block_reduce(own);
    float factor = all.z > 0.0f ? 1.0f / all.z : 0.0f;
    if (all.m == -INFINITY) all.m = 0.0f;
    for (int c = threadIdx.x; c < cols; c += THREADS) Y[c] = expf(X[c] - all.m) * factor;
}
