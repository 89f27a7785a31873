#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include "general_activation.cuh"
#define CLUSTERED (SPLIT > 1)
#include "general_clusters.cuh"
#include "general_16bit.cuh"
#include "general_rows.cuh"
#define DEEP 64  // steps of k in shared memory at once
#define THREADS (32 * WARPS_M * WARPS_N)
#define TILES_M (BM / WARPS_M / 16)  // of an mma, per warp
#define TILES_N (BN / WARPS_N / 8)
#define A_ROW (A_BY_ROWS ? DEEP : BM)  // elements of a row in shared memory
#define B_ROW (B_BY_ROWS ? BN : DEEP)
#define STAGE ((BM + BN) * DEEP)  // elements
#define PITCH (BN + 8)           // elements of a row of the staged tile, padded against bank conflicts
#define UNROLL _Pragma("unroll")

// Where a row's 16 bytes are: eight rows next to each other have theirs in different banks.
template <int ROW> static __device__ int swizzled(int row, int chunk) {
    const int chunks = ROW / 8;
    return row * ROW + (chunks >= 8 ? chunk ^ row % 8 : chunk ^ row / 2 % 4) * 8;
}
template <bool TRANSPOSED> static __device__ void load_matrices(unsigned* d, const Number* row) {
    unsigned at = (unsigned)__cvta_generic_to_shared(row);
    if (TRANSPOSED)
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3]) : "r"(at) : "memory");
    else
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                     : "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3]) : "r"(at) : "memory");
}
// D += A B for one warp: 16 x 16 times 16 x 8, two elements per register.
static __device__ void mma(float (&d)[4], const unsigned* a, const unsigned* b) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." TYPE "." TYPE ".f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Moves stages of one matrix to shared memory, LOAD bytes at once: ROWS rows of ROW elements, zeros beyond the matrix.
// Where rows begin at multiples of 2 bytes (HELD), a thread loads the two aligned 16 bytes in which its eight elements
// are into registers, and shifts them later: no copy to shared memory of fewer than four bytes is asynchronous.
template <int ROWS, int ROW, int LOAD> struct Copies {
    static const bool HELD = LOAD < 4;
    static const int WIDTH = HELD ? 8 : LOAD / 2, PER_ROW = ROW / WIDTH;  // elements of a copy, copies of a row
    static const int COUNT = ROWS * PER_ROW / THREADS, DOWN = THREADS / PER_ROW;
    uint4 held[HELD ? COUNT : 1][2];
    unsigned behind[HELD ? COUNT : 1];  // elements from the first that is held to the first that is wanted

    // Starts the copies of the stage whose first element is `from`; rows and columns: how many are left of the matrix,
    // whose last element is `last`; `all`, where the array begins, is `off` elements behind a multiple of 16 bytes.
    __device__ void start(Number* to, const Number* from, long long pitch, long long rows, int columns,
                          const Number* all, int off, const Number* last) {
        int row = first_row(), column = threadIdx.x % PER_ROW * WIDTH;
        int left = min(WIDTH, max(0, columns - column));  // elements
        const Number *first = from + row * pitch + column, *source = first;
        unsigned at_ends = 0;  // by bits: chunks whose aligned loads would leave the array
        UNROLL for (int u = 0; u < COUNT; ++u) {
            int valid = row + u * DOWN < rows ? left : 0;
            if (HELD) {
                uint4(&x)[2] = held[HELD ? u : 0];
                x[0] = x[1] = uint4{};
                int more = (int)((source - all + off) % 8);
                behind[HELD ? u : 0] = more;
                const Number* base = source - more;
                bool inside = base >= all && base + (more + valid > 8 ? 15 : 7) <= last;
                if (valid && inside) x[0] = *(const uint4*)base;
                if (valid && inside && more + valid > 8) x[1] = *(const uint4*)(base + 8);
                if (valid && !inside) at_ends |= 1u << u;
            } else {
                unsigned at = (unsigned)__cvta_generic_to_shared(to + place(row + u * DOWN, column));
                const Number* x = valid ? source : from;
                if (LOAD == 16)
                    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                                 :: "r"(at), "l"(x), "r"(valid * 2) : "memory");
                else
                    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;"
                                 :: "r"(at), "l"(x), "n"(HELD ? 4 : LOAD < 16 ? LOAD : 8), "r"(valid * 2)
                                 : "memory");
            }
            source += DOWN * pitch;
        }
        if (!HELD || !at_ends) return;
        UNROLL for (int u = 0; u < COUNT; ++u) {  // after all loads have begun
            if (!(at_ends >> u & 1)) continue;
            unsigned part[4] = {};
            #pragma unroll 1
            for (int i = 7; i >= 0; --i) {  // the last one first: each moves the others up by two bytes
                UNROLL for (int w = 3; w > 0; --w) part[w] = __funnelshift_l(part[w - 1], part[w], 16);
                part[0] = part[0] << 16 | (i < left ? *(const unsigned short*)&first[u * DOWN * pitch + i] : 0);
            }
            held[HELD ? u : 0][0] = make_uint4(part[0], part[1], part[2], part[3]);
            behind[HELD ? u : 0] = 0;
        }
    }
    __device__ void finish(Number* to, int columns) const {
        if (!HELD) return;
        int row = first_row(), column = threadIdx.x % PER_ROW * WIDTH, left = columns - column;
        UNROLL for (int u = 0; u < COUNT; ++u) {
            uint4 x = shifted(held[HELD ? u : 0][0], held[HELD ? u : 0][1], behind[HELD ? u : 0] * 2);
            if (left < 8) {  // what follows the row's end is zero
                unsigned* w = &x.x;
                UNROLL for (int i = 0; i < 4; ++i) w[i] &= left >= 2 * i + 2 ? ~0u : left > 2 * i ? 0xffffu : 0u;
            }
            *(uint4*)(to + place(row + u * DOWN, column)) = x;
        }
    }
    // The compiler may not see that it is the same for every stage: it would keep all addresses in registers.
    static __device__ int first_row() {
        int row = threadIdx.x / PER_ROW;
        asm volatile("" : "+r"(row));
        return row;
    }
    static __device__ int place(int row, int column) { return swizzled<ROW>(row, column / 8) + column % 8; }
};

// C[m] = activation(A[m] B[m] + bias), for m < matrices, of BF16 or FP16 (HALF), summed in FP32. A: M x K, row-major if
// A_BY_ROWS, else column-major; B: K x N, likewise. Their rows or columns are a_pitch and b_pitch elements apart, their
// matrices a_step and b_step; every row begins at a multiple of A_LOAD or B_LOAD bytes: 2, 4, 8 or 16. C: M x N,
// row-major, contiguous, whose rows begin at multiples of WIDE elements: 8, 4, 2 or 1. A, B and C begin a_off, b_off
// and c_off elements behind multiples of 16 bytes. bias: N elements or null. Any M, N and K of at least 1.
// A tile of BM x BN, each 32, 64 or 128, per SPLIT blocks, a cluster, which share the steps of k. A warp's part is a
// multiple of 16 x 16; an SM should have room for PER_SM blocks, or for three, if that is fewer, with loads of 2 bytes.
// Grid: ceil(M / BM) * ceil(N / BN) * SPLIT, by up to 65,535 matrices at once. Block: THREADS, 64 at least. Dynamic
// shared memory: the greater of 2 * STAGES * STAGE and, with SPLIT, 4 * BM * BN bytes. Compute capability 8.0; 9.0
// with SPLIT.
extern "C" __global__ void __cluster_dims__(SPLIT, 1, 1)
__launch_bounds__(THREADS, A_LOAD > 2 && B_LOAD > 2 || PER_SM < 3 ? PER_SM : 3)
matmul_mma(const Number* A, const Number* B, const Number* bias, Number* C, int M, int N, int K,
           long long a_pitch, long long a_step, long long b_pitch, long long b_step, int a_off, int b_off,
           int c_off, int matrices) {
    extern __shared__ __align__(128) Number smem[];
    int rank = blockIdx.x % SPLIT, tile = blockIdx.x / SPLIT, lane = threadIdx.x % 32, warp_id = threadIdx.x / 32;
    int tile_rows = (M + BM - 1) / BM, tile_cols = (N + BN - 1) / BN;
    int band = tile / (8 * tile_cols), at = tile % (8 * tile_cols);
    int in_band = min(8, tile_rows - 8 * band);  // bands of 8 tile rows, for reuse in L2
    int row0 = (8 * band + at % in_band) * BM, col0 = at / in_band * BN;
    int k_tiles = (K + DEEP - 1) / DEEP, per_block = (k_tiles + SPLIT - 1) / SPLIT;
    int begin = min(k_tiles, rank * per_block), end = min(k_tiles, begin + per_block);
    int warp_row = warp_id / WARPS_N * (BM / WARPS_M), warp_col = warp_id % WARPS_N * (BN / WARPS_N);
    Copies<A_BY_ROWS ? BM : DEEP, A_ROW, A_LOAD> a_copies;
    Copies<B_BY_ROWS ? DEEP : BN, B_ROW, B_LOAD> b_copies;
    for (int m = blockIdx.y; m < matrices; m += gridDim.y) {
        const Number* a_tile = A + m * a_step + row0 * (A_BY_ROWS ? a_pitch : 1);
        const Number* b_tile = B + m * b_step + col0 * (B_BY_ROWS ? 1 : b_pitch);
        const Number *a_last = A + m * a_step + (A_BY_ROWS ? (M - 1) * a_pitch + K : (K - 1) * a_pitch + M) - 1;
        const Number *b_last = B + m * b_step + (B_BY_ROWS ? (K - 1) * b_pitch + N : (N - 1) * b_pitch + K) - 1;
        auto start = [&](int k_tile) {
            Number* to = smem + (k_tile - begin) % STAGES * STAGE;
            int k = k_tile * DEEP;
            a_copies.start(to, a_tile + k * (A_BY_ROWS ? 1 : a_pitch), a_pitch, A_BY_ROWS ? M - row0 : K - k,
                           A_BY_ROWS ? K - k : M - row0, A, a_off, a_last);
            b_copies.start(to + BM * DEEP, b_tile + k * (B_BY_ROWS ? b_pitch : 1), b_pitch,
                           B_BY_ROWS ? K - k : N - col0, B_BY_ROWS ? N - col0 : K - k, B, b_off, b_last);
        };
        auto finish = [&](int k_tile) {
            Number* to = smem + (k_tile - begin) % STAGES * STAGE;
            int k = k_tile * DEEP;
            a_copies.finish(to, A_BY_ROWS ? K - k : M - row0);
            b_copies.finish(to + BM * DEEP, B_BY_ROWS ? N - col0 : K - k);
        };
        float acc[TILES_M][TILES_N][4] = {};
        // The first rounds only start copies: one place for them, since code takes time to load, too.
        for (int k_tile = begin - (STAGES - 1); k_tile < end; ++k_tile) {
            if (k_tile >= begin) {
                asm volatile("cp.async.wait_group %0;" :: "n"(STAGES - 2) : "memory");
                __syncthreads();  // this stage has arrived, the last one has been read
            }
            bool more = k_tile + STAGES - 1 < end;
            if (more) start(k_tile + STAGES - 1);
            asm volatile("cp.async.commit_group;" ::: "memory");
            if (k_tile >= begin) {
                const Number *a = smem + (k_tile - begin) % STAGES * STAGE, *b = a + BM * DEEP;
                UNROLL for (int k = 0; k < DEEP; k += 16) {
                    unsigned frag_a[TILES_M][4], frag_b[TILES_N / 2][4];
                    int low = lane % 8, second = lane / 8 % 2, fourth = lane / 16;  // of the four matrices, which
                    UNROLL for (int i = 0; i < TILES_M; ++i) {
                        int row = warp_row + 16 * i;
                        load_matrices<!A_BY_ROWS>(frag_a[i], a + (A_BY_ROWS
                            ? swizzled<A_ROW>(row + second * 8 + low, k / 8 + fourth)
                            : swizzled<A_ROW>(k + fourth * 8 + low, row / 8 + second)));
                    }
                    UNROLL for (int j = 0; j < TILES_N / 2; ++j) {
                        int col = warp_col + 16 * j;
                        load_matrices<B_BY_ROWS>(frag_b[j], b + (B_BY_ROWS
                            ? swizzled<B_ROW>(k + second * 8 + low, col / 8 + fourth)
                            : swizzled<B_ROW>(col + fourth * 8 + low, k / 8 + second)));
                    }
                    UNROLL for (int i = 0; i < TILES_M; ++i)
                        UNROLL for (int j = 0; j < TILES_N; ++j) mma(acc[i][j], frag_a[i], frag_b[j / 2] + j % 2 * 2);
                }
            }
            if (more) finish(k_tile + STAGES - 1);
        }
        asm volatile("cp.async.wait_group 0;" ::: "memory");
        __syncthreads();  // every warp has read the stages
#if SPLIT > 1
        float4* sums = (float4*)smem;
        UNROLL for (int t = 0; t < TILES_M * TILES_N; ++t) {
            float(&x)[4] = acc[t / TILES_N][t % TILES_N];
            sums[t * THREADS + threadIdx.x] = make_float4(x[0], x[1], x[2], x[3]);
        }
        CLUSTER_SYNC  // every block has stored its sums
        for (int e = rank * THREADS + threadIdx.x; e < TILES_M * TILES_N * THREADS; e += SPLIT * THREADS) {
            float4 v = {0.0f, 0.0f, 0.0f, 0.0f};
            UNROLL for (int r = 0; r < SPLIT; ++r) {
                float4 part = load_remote(&sums[e], r);
                v.x += part.x;
                v.y += part.y;
                v.z += part.z;
                v.w += part.w;
            }
            int t = e / THREADS, row = row0 + warp_row + t / TILES_N * 16 + lane / 4;
            int col = col0 + warp_col + t % TILES_N * 8 + lane % 4 * 2;
            float low = bias && col < N ? (float)bias[col] : 0.0f;
            float high = bias && col + 1 < N ? (float)bias[col + 1] : 0.0f;
            UNROLL for (int h = 0; h < 2; ++h) {
                if (row + 8 * h >= M || col >= N) continue;
                Number* to = C + ((long long)m * M + row + 8 * h) * N + col;
                Number both[2] = {(Number)activated((h ? v.z : v.x) + low), (Number)activated((h ? v.w : v.y) + high)};
#if WIDE > 1
                *(unsigned*)to = *(unsigned*)both;
#else
                to[0] = both[0];
                if (col + 1 < N) to[1] = both[1];
#endif
            }
        }
        CLUSTER_SYNC  // every block has read this one's sums
#else
        UNROLL for (int t = 0; t < TILES_M * TILES_N; ++t) {
            int row = warp_row + t / TILES_N * 16 + lane / 4, col = warp_col + t % TILES_N * 8 + lane % 4 * 2;
            float low = bias && col0 + col < N ? (float)bias[col0 + col] : 0.0f;
            float high = bias && col0 + col + 1 < N ? (float)bias[col0 + col + 1] : 0.0f;
            const float(&x)[4] = acc[t / TILES_N][t % TILES_N];
            UNROLL for (int h = 0; h < 2; ++h)
                *(unsigned*)&smem[(row + 8 * h) * PITCH + col] =
                    pack(activated(x[2 * h] + low), activated(x[2 * h + 1] + high));
        }
        __syncthreads();  // the tile is complete
        long long first = (long long)m * M * N;
        store_tile<WIDE, BM, BN, THREADS>(C + first, M, N, row0, col0, smem, PITCH, threadIdx.x, c_off + first);
        __syncthreads();  // every warp has stored its part
#endif
    }
}
