// Adds up the elements of each block. One barrier is missing: threads read sums
// that others have yet to write.
extern "C" __global__ void block_sum(const float* x, float* sums, int n) {
    __shared__ float partial[1024];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    partial[threadIdx.x] = i < n ? x[i] : 0.0f;
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (threadIdx.x < half) partial[threadIdx.x] += partial[threadIdx.x + half];
    }
    if (threadIdx.x == 0) sums[blockIdx.x] = partial[0];
}
