#define SIDE 32

// B[m] = A[m] transposed, for m < matrices. A: R x C with any strides in elements, `step` between matrices;
// B: C x R, row-major, contiguous. Any sizes and alignment. Bits are moved: Number is a type of their size.
// Block: 256 threads. Grid: ceil(R / 32) * ceil(C / 32) tiles, and up to 65,535 matrices at once.
extern "C" __global__ void __launch_bounds__(256)
transpose(const Number* A, Number* B, int R, int C, long long row, long long column,
          long long step, int matrices) {
    __shared__ Number tile[SIDE][SIDE + 1];  // padded against bank conflicts
    int across = (C + SIDE - 1) / SIDE, x = threadIdx.x % SIDE, y = threadIdx.x / SIDE;
    int top = blockIdx.x / across * SIDE, left = blockIdx.x % across * SIDE;
    for (int m = blockIdx.y; m < matrices; m += gridDim.y) {
        for (int r = y; r < SIDE; r += 256 / SIDE)
            if (top + r < R && left + x < C)
                tile[r][x] = A[m * step + (top + r) * row + (left + x) * column];
        __syncthreads();  // the tile is complete
        for (int c = y; c < SIDE; c += 256 / SIDE)
            if (left + c < C && top + x < R)
                B[((long long)m * C + left + c) * R + top + x] = tile[x][c];
        __syncthreads();  // the tile has been read
    }
}
