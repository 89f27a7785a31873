// Bytes 'from' to 'from' + 15 of the 32 in a and b.
static __device__ uint4 shifted(uint4 a, uint4 b, int from) {
    unsigned w[8] = {a.x, a.y, a.z, a.w, b.x, b.y, b.z, b.w};
    #pragma unroll
    for (int by = 2; by > 0; by /= 2)  // whole words: 2, then 1
        if (from / 4 & by)
            #pragma unroll
            for (int i = 0; i < 8 - by; ++i) w[i] = w[i + by];
    int bits = from % 4 * 8;
    return {__funnelshift_r(w[0], w[1], bits), __funnelshift_r(w[1], w[2], bits),
            __funnelshift_r(w[2], w[3], bits), __funnelshift_r(w[3], w[4], bits)};
}
// One 16-byte chunk of a padded row.
static __device__ void pad_chunk(const unsigned short* X, uint4* Y, long long chunk, int rows, int cols,
                                 int pitch, int off) {
    int per_row = pitch / 8;
    long long row = chunk / per_row, first = row * cols + chunk % per_row * 8, end = (long long)rows * cols;
    int behind = (first + off) % 8, valid = cols - chunk % per_row * 8;  // elements
    uint4 made;
    if (first - behind >= 0 && first - behind + 16 <= end) {
        const uint4* from = (const uint4*)(X + (first - behind));
        uint4 a = from[0], b = behind ? from[1] : a;
        made = shifted(a, b, 2 * behind);
    } else {  // next to the array's ends
        unsigned short* part = (unsigned short*)&made;
        #pragma unroll
        for (int i = 0; i < 8; ++i) part[i] = i < valid ? X[first + i] : 0;
    }
    Y[chunk] = made;
}

// Rows of 16-bit elements into rows of `pitch` elements, a multiple of 8, for two arrays in one launch. A and B:
// contiguous, a_off and b_off elements behind a multiple of 16 bytes; what is beyond a row's end is not used by anyone.
// An array of 0 rows is left out. Block: 256 threads. Any grid of one axis.
extern "C" __global__ void __launch_bounds__(256)
pad_two(const unsigned short* A, unsigned short* padded_a, int a_rows, int a_cols, int a_pitch, int a_off,
        const unsigned short* B, unsigned short* padded_b, int b_rows, int b_cols, int b_pitch, int b_off) {
    long long in_a = (long long)a_rows * (a_pitch / 8), all = in_a + (long long)b_rows * (b_pitch / 8);
    for (long long i = blockIdx.x * 256LL + threadIdx.x; i < all; i += gridDim.x * 256LL)
        if (i < in_a) pad_chunk(A, (uint4*)padded_a, i, a_rows, a_cols, a_pitch, a_off);
        else pad_chunk(B, (uint4*)padded_b, i - in_a, b_rows, b_cols, b_pitch, b_off);
}
