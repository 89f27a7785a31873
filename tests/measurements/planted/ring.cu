#include <cuda_bf16.h>
typedef __nv_bfloat16 Bf16;

// D += A B for one warp: 16x16 times 16x8, two BF16 to a register
static __device__ void mma(float (&d)[4], const unsigned (&a)[4],
                           const unsigned* b) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
// four matrices of 8x8: lane l brings the address of row l % 8 of matrix l / 8
static __device__ void ldmatrix(unsigned (&r)[4], const uint4* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 "
        "{%0, %1, %2, %3}, [%4];"
        : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
        : "r"((unsigned)__cvta_generic_to_shared(row)) : "memory");
}
static __device__ void ldmatrix_turned(unsigned (&r)[4], const uint4* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 "
        "{%0, %1, %2, %3}, [%4];"
        : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
        : "r"((unsigned)__cvta_generic_to_shared(row)) : "memory");
}
// where a chunk of 16 bytes of a slab's row lies
static __device__ int place(int row, int chunk, int chunks) {
    return row * chunks + (chunk ^ row % 8);
}
// New: 16 bytes go from global to shared memory by themselves
static __device__ void copy(uint4* to, const Bf16* from, int bytes) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :: "r"((unsigned)__cvta_generic_to_shared(to)),
                    "l"(from), "r"(bytes) : "memory");  // the rest: zeros
}
// HEIGHT rows of CHUNKS chunks of X, from (row, col) on; zeros outside
template <int HEIGHT, int CHUNKS>
static __device__ void bring(uint4* slab, const Bf16* X, int row, int col,
                             int rows, int cols) {
    int chunk = threadIdx.x % CHUNKS, at = col + chunk * 8;
    #pragma unroll
    for (int r = threadIdx.x / CHUNKS; r < HEIGHT; r += 128 / CHUNKS) {
        bool there = row + r < rows && at < cols;
        const Bf16* from = there ? &X[(size_t)(row + r) * cols + at] : X;
        copy(&slab[place(r, chunk, CHUNKS)], from, there ? 16 : 0);
    }
}

extern "C" __global__ void __launch_bounds__(128)
ring(const Bf16* A, const Bf16* B, Bf16* C, int M, int N, int K) {
    extern __shared__ __align__(128) uint4 memory[];  // New: STAGES pairs
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int i = blockIdx.y * 128, j = blockIdx.x * 128;
    int wi = warp / 2 * 64, wj = warp % 2 * 64;
    float d[4][8][4] = {};
    // [stages
    int slabs = (K + 63) / 64;
    auto begin = [&](int t) {  // New: slab t, as one group of copies
        uint4* stage = memory + t % STAGES * 2048;
        if (t < slabs) {
            bring<128, 8>(stage, A, i, t * 64, M, K);
            bring<64, 16>(stage + 1024, B, t * 64, j, K, N);
        }
        asm volatile("cp.async.commit_group;" ::: "memory");
    };
    for (int t = 0; t < STAGES - 1; ++t) begin(t);
    for (int t = 0; t < slabs; ++t) {
        asm volatile("cp.async.wait_group %0;"
                     :: "n"(STAGES - 2) : "memory");  // own copies of slab t
        __syncthreads();  // everybody's; and slab t - 1 has been read
        begin(t + STAGES - 1);
        uint4 *a_slab = memory + t % STAGES * 2048, *b_slab = a_slab + 1024;
        // stages]
        #pragma unroll
        for (int s = 0; s < 4; ++s) {  // 16 along K at a time
            unsigned a[4][4], b[4][4];
            #pragma unroll
            for (int m = 0; m < 4; ++m)
                ldmatrix(a[m], &a_slab[place(wi + 16 * m + lane % 16,
                                             2 * s + lane / 16, 8)]);
            #pragma unroll
            for (int n = 0; n < 4; ++n)
                ldmatrix_turned(b[n],
                    &b_slab[place(16 * s + lane % 16,
                                  wj / 8 + 2 * n + lane / 16, 16)]);
            #pragma unroll
            for (int m = 0; m < 4; ++m)
                #pragma unroll
                for (int n = 0; n < 8; ++n)
                    mma(d[m][n], a[m], &b[n / 2][n % 2 * 2]);
        }
    }
    #pragma unroll
    for (int m = 0; m < 4; ++m)
        #pragma unroll
        for (int n = 0; n < 8; ++n)
            #pragma unroll
            for (int r = 0; r < 4; r += 2) {
                int row = i + wi + 16 * m + lane / 4 + r * 4;
                int col = j + wj + 8 * n + lane % 4 * 2;
                if (row < M && col < N)
                    *(__nv_bfloat162*)&C[(size_t)row * N + col] =
                        __floats2bfloat162_rn(d[m][n][r], d[m][n][r + 1]);
            }
}
