// B = A transposed, A of R rows and C columns.
// TURN_WIDE_DOWN of the lesson memory/banks, written by python -m tilewise.kernels: change it there.
#ifndef T
#define T 64
#endif
#ifndef DOWN
#define DOWN 1
#endif
// B = A transposed. A: R x C, row-major; B: C x R, row-major; both aligned to 16 bytes.
// Any R and C with R * C < 2^31; fast where T divides both. T: 32 or 64, the tile's side.
// Block: T * T / 16 threads. Grid: ceil(C / T) x ceil(R / T), swapped if DOWN is 1.
extern "C" __global__
void transpose_float4(const float* A, float* B, int R, int C) {
    __shared__ float4 tile[T][T / 4];
    int left = T * (DOWN ? blockIdx.y : blockIdx.x);
    int top = T * (DOWN ? blockIdx.x : blockIdx.y);
    int x = threadIdx.x % (T / 4), y = threadIdx.x / (T / 4);
    if (left + T <= C && top + T <= R && R % 4 == 0 && C % 4 == 0) {
        float v[4][4];  // a 4 x 4 block per thread, in registers
        #pragma unroll
        for (int r = 0; r < 4; ++r)
            *(float4*)v[r] = *(const float4*)(A + (top + 4 * y + r) * C + left + 4 * x);
        #pragma unroll
        for (int c = 0; c < 4; ++c)  // its columns, swizzled
            tile[4 * x + c][y ^ x % 8] = make_float4(v[0][c], v[1][c], v[2][c], v[3][c]);
        __syncthreads();  // the tile is complete
        #pragma unroll
        for (int c = 0; c < 4; ++c)
            *(float4*)(B + (left + 4 * y + c) * R + top + 4 * x) = tile[4 * y + c][x ^ y % 8];
    } else {  // partial tile or unaligned rows: element by element
        for (int i = threadIdx.x; i < T * T; i += blockDim.x) {
            int r = top + i / T, c = left + i % T;
            if (r < R && c < C) B[c * R + r] = A[r * C + c];
        }
    }
}
