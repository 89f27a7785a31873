#include "general_activation.cuh"
#define CLUSTERED (SPLIT > 1)
#include "general_clusters.cuh"
#define LANES ((BM / ROWS) * (BN / COLS))  // threads of a slice
#define THREADS (LANES * SLICES)
#define STEPS (DEEP / SLICES)  // of k, that a slice takes of a stage
#define A_PITCH (BM + 4)
#define STAGE (DEEP * (A_PITCH + BN))  // floats
#define C_PITCH (BN + 16)
#define UNROLL _Pragma("unroll")
#define C_WIDTH (WIDE ? 4 : 1)
#define B_DOWN (THREADS * B_WIDTH / BN)

// Asynchronous copy of one, two or four floats. Outside the matrix it writes zeros.
template <int WIDTH> static __device__ void copy(float* to, const float* from, bool valid) {
    unsigned at = (unsigned)__cvta_generic_to_shared(to);
    if (WIDTH == 4)
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                     :: "r"(at), "l"(from), "r"(valid ? 16 : 0) : "memory");
    else
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;"
                     :: "r"(at), "l"(from), "n"(WIDTH < 4 ? 4 * WIDTH : 4), "r"(valid ? 4 * WIDTH : 0) : "memory");
}

// C = activation(A B + bias) in FP32. A: M x K, B: K x N, C: M x N, row-major, any sizes and alignment. Rows of B begin
// at multiples of B_WIDTH elements: 4, 2 or 1; WIDE: those of C at multiples of 16 bytes. bias: N elements or null.
// One tile of BM x BN per SPLIT blocks, a cluster of 8 at most, which share the steps of k; in a block SLICES groups of
// threads share those of a stage. ROWS x COLS accumulators per thread, multiples of 4; a warp has 4 x 8 threads of a
// slice. 8 divides DEEP. Grid: ceil(M / BM) * ceil(N / BN) * SPLIT. Block: THREADS. Dynamic shared memory:
// 4 * max(STAGES * STAGE, SPLIT * SLICES > 1 || !WIDE ? SLICES * BM * C_PITCH : 0) bytes. Compute capability 8.0; 9.0
// with SPLIT.
extern "C" __global__ void __cluster_dims__(SPLIT, 1, 1) __launch_bounds__(THREADS, PER_SM)
matmul_fp32(const float* A, const float* B, float* C, const float* bias, int M, int N, int K) {
    extern __shared__ __align__(16) float smem[];
    int across = (N + BN - 1) / BN, tile = blockIdx.x / SPLIT, rank = blockIdx.x % SPLIT;
    int row0 = tile / across * BM, col0 = tile % across * BN;
    int k_tiles = (K + DEEP - 1) / DEEP, per_block = (k_tiles + SPLIT - 1) / SPLIT;
    int begin = min(k_tiles, rank * per_block), end = min(k_tiles, begin + per_block);
    int a_row = threadIdx.x / 8, a_k = threadIdx.x % 8;  // what it copies
    int b_k = threadIdx.x / (BN / B_WIDTH), b_col = threadIdx.x % (BN / B_WIDTH) * B_WIDTH;
    const float* from_a = A + (size_t)(row0 + a_row) * K + begin * DEEP + a_k;
    const float* from_b = B + (size_t)(begin * DEEP + b_k) * N + col0 + b_col;
    auto fetch = [&](int k_tile) {  // starts the copies of one stage
        float *a = smem + (k_tile - begin) % STAGES * STAGE, *b = a + DEEP * A_PITCH;
        int left = K - k_tile * DEEP;
        UNROLL for (int u = 0; u < BM; u += THREADS / 8)
            UNROLL for (int k = 0; k < DEEP; k += 8)
                copy<1>(a + (a_k + k) * A_PITCH + a_row + u, from_a + (size_t)u * K + k,
                        a_k + k < left && row0 + a_row + u < M);
        UNROLL for (int u = 0; u < DEEP; u += B_DOWN)
            copy<B_WIDTH>(b + (b_k + u) * BN + b_col, from_b + (size_t)u * N,
                          b_k + u < left && col0 + b_col < N);
        from_a += DEEP;
        from_b += (size_t)DEEP * N;
    };
    UNROLL for (int s = 0; s < STAGES - 1; ++s) {
        if (begin + s < end) fetch(begin + s);
        asm volatile("cp.async.commit_group;" ::: "memory");
    }
    // Lanes 0 and 1 share rows, 0 and 2 columns: half a warp then reads 16 bytes each in one pass, of A as of B.
    int slice = threadIdx.x / LANES, lane = threadIdx.x % 32, warp_id = threadIdx.x % LANES / 32;
    int x = warp_id % (BN / COLS / 8) * 8 + (lane & 1 | lane >> 1 & 6);
    int y = warp_id / (BN / COLS / 8) * 4 + (lane >> 1 & 1 | lane >> 3 & 2);
    float acc[ROWS][COLS] = {};
    for (int k_tile = begin; k_tile < end; ++k_tile) {
        asm volatile("cp.async.wait_group %0;" :: "n"(STAGES - 2) : "memory");
        __syncthreads();  // this stage has arrived, the last one has been read
        if (k_tile + STAGES - 1 < end) fetch(k_tile + STAGES - 1);
        asm volatile("cp.async.commit_group;" ::: "memory");
        const float* stage = smem + (k_tile - begin) % STAGES * STAGE;
        const float* a = stage + slice * STEPS * A_PITCH + 4 * y;
        const float* b = stage + DEEP * A_PITCH + slice * STEPS * BN + 4 * x;
        float4 frag_a[2][ROWS / 4], frag_b[2][COLS / 4];
        auto load = [&](int k) {
            UNROLL for (int h = 0; h < ROWS / 4; ++h)
                frag_a[k % 2][h] = *(const float4*)(a + k * A_PITCH + h * (BM / (ROWS / 4)));
            UNROLL for (int h = 0; h < COLS / 4; ++h)
                frag_b[k % 2][h] = *(const float4*)(b + k * BN + h * (BN / (COLS / 4)));
        };
        load(0);
        UNROLL for (int k = 0; k < STEPS; ++k) {
            if (k + 1 < STEPS) load(k + 1);  // while this step is multiplied
            UNROLL for (int i = 0; i < ROWS; ++i)
                UNROLL for (int n = 0; n < COLS; ++n) {
                    const int j = i % 2 ? COLS - 1 - n : n;  // back from where it ended: an operand is the same
                    acc[i][j] += (&frag_a[k % 2][i / 4].x)[i % 4] * (&frag_b[k % 2][j / 4].x)[j % 4];
                }
        }
    }
    auto row_of = [&](int i) { return 4 * y + i % 4 + i / 4 * (BM / (ROWS / 4)); };  // accumulators
    auto store = [&](int row, int col, const float* v) {  // neighbouring columns of one row
        if (row0 + row >= M || col0 + col >= N) return;
        float made[C_WIDTH];
        UNROLL for (int c = 0; c < C_WIDTH; ++c) made[c] = activated(v[c] + (bias ? bias[col0 + col + c] : 0.0f));
        float* to = C + (size_t)(row0 + row) * N + col0 + col;
#if WIDE
        *(float4*)to = make_float4(made[0], made[1], made[2], made[3]);
#else
        *to = made[0];
#endif
    };
#if SPLIT * SLICES > 1 || !WIDE
    __syncthreads();  // every thread has read the stages
    UNROLL for (int i = 0; i < ROWS; ++i)
        UNROLL for (int h = 0; h < COLS / 4; ++h)  // + 0: a copy, so that accumulators may be in any registers
            *(float4*)&smem[(slice * BM + row_of(i)) * C_PITCH + 4 * x + h * (BN / (COLS / 4))] = make_float4(
                acc[i][4 * h] + 0.0f, acc[i][4 * h + 1] + 0.0f, acc[i][4 * h + 2] + 0.0f, acc[i][4 * h + 3] + 0.0f);
#if SPLIT > 1
    CLUSTER_SYNC  // every block has stored its sums
#else
    __syncthreads();
#endif
    for (int e = rank * THREADS + threadIdx.x; e < BM * BN / C_WIDTH; e += SPLIT * THREADS) {
        int row = e / (BN / C_WIDTH), col = e % (BN / C_WIDTH) * C_WIDTH;
        float v[C_WIDTH] = {};
        UNROLL for (int r = 0; r < SPLIT; ++r)
            UNROLL for (int s = 0; s < SLICES; ++s) {
                const float* from = &smem[(s * BM + row) * C_PITCH + col];
#if WIDE && SPLIT > 1
                float4 part = load_remote((const float4*)from, r);
#elif WIDE
                float4 part = *(const float4*)from;
#elif SPLIT > 1
                float part = load_remote(from, r);
#else
                float part = *from;
#endif
                UNROLL for (int c = 0; c < C_WIDTH; ++c) v[c] += ((const float*)&part)[c];
            }
        store(row, col, v);
    }
#if SPLIT > 1
    CLUSTER_SYNC  // every block has read this one's sums
#endif
#else
    UNROLL for (int i = 0; i < ROWS; ++i)
        UNROLL for (int h = 0; h < COLS / 4; ++h)
            store(row_of(i), 4 * x + h * (BN / (COLS / 4)), &acc[i][4 * h]);
#endif
}
