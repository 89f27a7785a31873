// A and B, n by n numbers of 16 bits, to rows of `stride`, a multiple of 8, and as many.
// PAD_BOTH of the lesson matmul/alignment, written by python -m tilewise.kernels: change it there.
#define PIECES 4  // of a thread
__device__ unsigned word_at(const unsigned short* source,
                            long long word, long long total) {
    if (2 * word + 1 < total) return ((const unsigned*)source)[word];
    return source[2 * word];  // the last number, if it is alone
}

extern "C" __global__ __launch_bounds__(256)
void pad_both(const unsigned short* A, const unsigned short* B,
              unsigned short* wide_A, unsigned short* wide_B,
              int n, int stride) {
    const unsigned short* source = blockIdx.y == 0 ? A : B;
    uint4* target = (uint4*)(blockIdx.y == 0 ? wide_A : wide_B);
    int across = stride / 8;
    int first = blockIdx.x * PIECES * blockDim.x + threadIdx.x;
    unsigned word[PIECES][5];
    #pragma unroll
    for (int p = 0; p < PIECES; ++p) {  // the loads of all pieces
        int piece = first + p * blockDim.x, row = piece / across;
        int begin = piece % across * 8, left = row < n ? n - begin : 0;
        long long in = (long long)row * n + begin;
        for (int j = 0; j < 5; ++j)
            word[p][j] = left > 0 && 2 * j - (int)(in & 1) < left
                ? word_at(source, (in >> 1) + j, (long long)n * n) : 0;
    }
    #pragma unroll
    for (int p = 0; p < PIECES; ++p) {  // and then their stores
        int piece = first + p * blockDim.x, row = piece / across;
        int begin = piece % across * 8, left = row < n ? n - begin : 0;
        int odd = row & n & 1;  // begin is even
        unsigned pair[4];
        for (int j = 0; j < 4; ++j) {
            pair[j] = odd ? word[p][j] >> 16 | word[p][j + 1] << 16 : word[p][j];
            if (2 * j + 1 >= left) pair[j] &= 0xffff;
            if (2 * j >= left) pair[j] = 0;
        }
        if (row < stride)
            target[piece] = make_uint4(pair[0], pair[1], pair[2], pair[3]);
    }
}
