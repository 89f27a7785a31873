// O = softmax(scale Q K^T) V in BF16 by mma.sync, L its log-sum-exp; d = 64 or 128.
// FLASH_MMA of the lesson attention/matrix_units, written by python -m tilewise.kernels: change it there.
#ifndef D
#define D 128
#endif
#ifndef CAUSAL
#define CAUSAL 0
#endif
#ifndef TILES
#define TILES 2
#endif
#ifndef KEYS
#define KEYS 64
#endif
#include <cuda_bf16.h>
typedef __nv_bfloat16 Bf16;
#define ROWS (64 * TILES)     // queries per block: 4 warps with 16 * TILES each
#define CHUNKS (D / 8)        // 16-byte chunks per row

// D += A B for one warp: 16x16 times 16x8, two BF16 per register
static __device__ void mma(float (&d)[4], const unsigned* a, const unsigned* b) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
// four 8x8 matrices: lane l passes the address of row l % 8 of matrix l / 8
static __device__ void ldmatrix(unsigned (&r)[4], const uint4* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 "
        "{%0, %1, %2, %3}, [%4];"
        : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
        : "r"((unsigned)__cvta_generic_to_shared(row)) : "memory");
}
static __device__ void ldmatrix_trans(unsigned (&r)[4], const uint4* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 "
        "{%0, %1, %2, %3}, [%4];"
        : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
        : "r"((unsigned)__cvta_generic_to_shared(row)) : "memory");
}
// the swizzled position of a 16-byte chunk
static __device__ int swizzle(int row, int chunk) {
    return row * CHUNKS + (chunk ^ row % 8);
}
// starts asynchronous copies of COUNT rows of X from row `begin` on; rows from `end` on become zeros
template <int COUNT>
static __device__ void load_tile(uint4* tile, const Bf16* X, int begin, int end) {
    #pragma unroll
    for (int e = threadIdx.x; e < COUNT * CHUNKS; e += 128) {
        int row = e / CHUNKS, chunk = e % CHUNKS;
        bool in_range = begin + row < end;
        const Bf16* src = X + (in_range ? (size_t)(begin + row) * D + chunk * 8 : 0);
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
            :: "r"((unsigned)__cvta_generic_to_shared(&tile[swizzle(row, chunk)])),
               "l"(src), "r"(in_range ? 16 : 0) : "memory");
    }
}
// the copies of all threads have landed, and all warps are done with the previous tile
static __device__ void wait_for_tile() {
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncthreads();
}
static __device__ unsigned pack_bf16x2(float low, float high) {
    __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
    return *(unsigned*)&both;
}

// O = softmax(scale * Q K^T) V and L, the log-sum-exp of each row of scores, in natural logarithms.
// Q and O: BF16 [heads][N][D]; K and V: BF16 [heads / share][M][D], where `share` query heads use the
// same K and V; L: FP32 [heads][N]. All contiguous, base addresses multiples of 16 bytes.
// D is 64 or 128, KEYS a multiple of 16, TILES 1 or 2; any N and M >= 1. CAUSAL: query i sees the keys
// up to i + shift. A row without a key gets O = 0 and L = -infinity.
// Grid (ceil(N / ROWS), heads), 128 threads, 2 * D * (ROWS + 2 * KEYS) bytes of dynamic shared memory;
// sm_80 or newer. No other strides, no dropout, no bias.
extern "C" __global__ void __launch_bounds__(128)
flash_mma(const Bf16* Q, const Bf16* K, const Bf16* V, float* L, Bf16* O,
          int N, int M, int share, int shift, float scale) {
    extern __shared__ __align__(128) uint4 smem[];
    uint4 *q = smem, *k = q + ROWS * CHUNKS, *v = k + KEYS * CHUNKS;
    int lane = threadIdx.x % 32, warp_row = threadIdx.x / 32 * 16 * TILES;
    int head = blockIdx.y, block_row = blockIdx.x * ROWS;
    Q += (size_t)head * N * D;
    K += (size_t)(head / share) * M * D;
    V += (size_t)(head / share) * M * D;
    float o[TILES][D / 8][4] = {}, row_max[TILES][2], row_sum[TILES][2] = {};
    float scale_log2 = scale * 1.44269504f;  // exp(x) = exp2(x log2 e)
    #pragma unroll
    for (int m = 0; m < TILES; ++m) row_max[m][0] = row_max[m][1] = -INFINITY;
    int end = CAUSAL ? min(M, block_row + ROWS + shift) : M;
    int last = max(0, (end + KEYS - 1) / KEYS - 1) * KEYS;
    load_tile<ROWS>(q, Q, block_row, N);
    load_tile<KEYS>(k, K, last, M);
    for (int key = last; key >= 0; key -= KEYS) {
        wait_for_tile();
        load_tile<KEYS>(v, V, key, M);  // in flight during QK^T
        float s[TILES][KEYS / 8][4] = {};
        #pragma unroll
        for (int c = 0; c < D / 16; ++c) {
            unsigned a[TILES][4], b[4];
            #pragma unroll
            for (int m = 0; m < TILES; ++m)
                ldmatrix(a[m], &q[swizzle(warp_row + 16 * m + lane % 16,
                                          2 * c + lane / 16)]);
            #pragma unroll
            for (int n = 0; n < KEYS / 8; n += 2) {
                ldmatrix(b, &k[swizzle(8 * n + lane % 8 + lane / 16 * 8,
                                       2 * c + lane / 8 % 2)]);
                #pragma unroll
                for (int m = 0; m < TILES; ++m) {
                    mma(s[m][n], a[m], b);
                    mma(s[m][n + 1], a[m], b + 2);
                }
            }
        }
        unsigned p[TILES][KEYS / 4];
        #pragma unroll
        for (int m = 0; m < TILES; ++m)
            #pragma unroll
            for (int r = 0; r < 2; ++r) {  // the lane's two rows
                int row = block_row + warp_row + 16 * m + lane / 4 + 8 * r;
                int last_key = CAUSAL ? min(M - 1, row + shift) : M - 1;
                if (key + KEYS > M || (CAUSAL && key + KEYS > block_row + shift))
                    #pragma unroll
                    for (int i = 0; i < KEYS / 4; ++i)
                        if (key + i / 2 * 8 + lane % 4 * 2 + i % 2 > last_key)
                            s[m][i / 2][2 * r + i % 2] = -INFINITY;
                float m_new = row_max[m][r];
                #pragma unroll
                for (int n = 0; n < KEYS / 8; ++n)
                    m_new = fmaxf(m_new, fmaxf(s[m][n][2 * r], s[m][n][2 * r + 1]));
                m_new = fmaxf(m_new, __shfl_xor_sync(~0u, m_new, 1));
                m_new = fmaxf(m_new, __shfl_xor_sync(~0u, m_new, 2));
                float base = m_new == -INFINITY ? 0.0f : m_new;  // p = 0
                float alpha = exp2f((row_max[m][r] - base) * scale_log2);
                row_max[m][r] = m_new;
                row_sum[m][r] *= alpha;
                base *= scale_log2;
                #pragma unroll
                for (int n = 0; n < KEYS / 8; ++n) {
                    float x = exp2f(s[m][n][2 * r] * scale_log2 - base);
                    float y = exp2f(s[m][n][2 * r + 1] * scale_log2 - base);
                    row_sum[m][r] += x + y;
                    p[m][2 * n + r] = pack_bf16x2(x, y);  // left operand
                }
                #pragma unroll
                for (int n = 0; n < D / 8; ++n) {
                    o[m][n][2 * r] *= alpha;
                    o[m][n][2 * r + 1] *= alpha;
                }
            }
        wait_for_tile();
        if (key) load_tile<KEYS>(k, K, key - KEYS, M);  // in flight during PV
        #pragma unroll
        for (int c = 0; c < KEYS / 16; ++c)
            #pragma unroll
            for (int n = 0; n < D / 8; n += 2) {
                unsigned b[4];
                ldmatrix_trans(b, &v[swizzle(16 * c + lane % 16, n + lane / 16)]);
                #pragma unroll
                for (int m = 0; m < TILES; ++m) {
                    mma(o[m][n], &p[m][4 * c], b);
                    mma(o[m][n + 1], &p[m][4 * c], b + 2);
                }
            }
    }
    #pragma unroll
    for (int m = 0; m < TILES; ++m)
        #pragma unroll
        for (int r = 0; r < 2; ++r) {
            float z = row_sum[m][r];
            z += __shfl_xor_sync(~0u, z, 1);
            z += __shfl_xor_sync(~0u, z, 2);
            float inv_sum = z > 0.0f ? 1.0f / z : 0.0f;  // no key at all: zeros
            int row = block_row + warp_row + 16 * m + lane / 4 + 8 * r;
            if (row >= N) continue;
            size_t i = (size_t)head * N + row;
            if (lane % 4 == 0)
                L[i] = z > 0.0f ? row_max[m][r] * scale + logf(z) : -INFINITY;
            #pragma unroll
            for (int n = 0; n < D / 8; ++n)
                *(__nv_bfloat162*)&O[i * D + 8 * n + lane % 4 * 2] =
                    __floats2bfloat162_rn(o[m][n][2 * r] * inv_sum,
                                          o[m][n][2 * r + 1] * inv_sum);
        }
}
// spills: a few values with D of 128, on GPUs before Hopper
