#include "general_rows.cuh"
#define VEC (16 / (int)sizeof(Number))  // elements per 16 bytes; Number is an integer of 2 or 4 bytes

// One 16-byte chunk of a padded row.
static __device__ void pad_chunk(const Number* X, uint4* Y, long long chunk, int rows, int cols,
                                 int pitch, int off) {
    int per_row = pitch / VEC;
    long long row = chunk / per_row, first = row * cols + chunk % per_row * VEC, end = (long long)rows * cols;
    int behind = (first + off) % VEC, valid = cols - chunk % per_row * VEC;  // elements
    uint4 made;
    if (first - behind >= 0 && first - behind + 2 * VEC <= end) {
        const uint4* from = (const uint4*)(X + (first - behind));
        uint4 a = from[0], b = behind ? from[1] : a;
        made = shifted(a, b, behind * (int)sizeof(Number));
    } else {  // next to the array's ends
        Number* part = (Number*)&made;
        #pragma unroll
        for (int i = 0; i < VEC; ++i) part[i] = i < valid ? X[first + i] : 0;
    }
    Y[chunk] = made;
}

// Rows of elements into rows of `pitch` elements, a multiple of VEC, for two arrays in one launch. A and B:
// contiguous, a_off and b_off elements behind a multiple of 16 bytes; what is beyond a row's end is not used by anyone.
// An array of 0 rows is left out. Block: 256 threads. Any grid of one axis.
extern "C" __global__ void __launch_bounds__(256)
pad_two(const Number* A, Number* padded_a, int a_rows, int a_cols, int a_pitch, int a_off,
        const Number* B, Number* padded_b, int b_rows, int b_cols, int b_pitch, int b_off) {
    long long in_a = (long long)a_rows * (a_pitch / VEC), all = in_a + (long long)b_rows * (b_pitch / VEC);
    for (long long i = blockIdx.x * 256LL + threadIdx.x; i < all; i += gridDim.x * 256LL)
        if (i < in_a) pad_chunk(A, (uint4*)padded_a, i, a_rows, a_cols, a_pitch, a_off);
        else pad_chunk(B, (uint4*)padded_b, i - in_a, b_rows, b_cols, b_pitch, b_off);
}

// Y = X, rows x cols, with rows x_step and y_step elements apart. Any sizes and alignment.
// Block: 256 threads. Grid: any number of blocks by up to 65,535 rows at once.
extern "C" __global__ void __launch_bounds__(256)
copy_rows(const Number* X, Number* Y, int rows, int cols, long long x_step, long long y_step) {
    for (long long row = blockIdx.y; row < rows; row += gridDim.y)
        #pragma unroll 4
        for (int c = blockIdx.x * 256 + threadIdx.x; c < cols; c += gridDim.x * 256)
            Y[row * y_step + c] = X[row * x_step + c];
}
