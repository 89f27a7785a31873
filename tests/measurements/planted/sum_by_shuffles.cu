// [warp
__device__ float warp_sum(float s) {
    for (int hop = 16; hop > 0; hop /= 2) {
        s += __shfl_down_sync(0xffffffff, s, hop);  // watch: s
    }
    return s;  // in lane 0: the sum of all 32
}
// warp]

extern "C" __global__
void sum_by_shuffles(const float* x, float* sums, int n) {
    __shared__ float box[32];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float s = warp_sum(i < n ? x[i] : 0.0f);
    // [block
    if (lane == 0) box[warp] = s;
    __syncthreads();  // the sums of all warps are in the box
    if (warp > 0) return;
    s = warp_sum(lane < blockDim.x / 32 ? box[lane] : 0.0f);
    if (lane == 0) sums[blockIdx.x] = s;
    // block]
}
