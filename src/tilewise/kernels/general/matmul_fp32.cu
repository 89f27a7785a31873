#include "general_activation.cuh"
#define CLUSTERED (SPLIT > 1)
#include "general_clusters.cuh"
#define THREADS ((BM / ROWS) * (BN / COLS))
#define A_PITCH (BM + 4)
#define STAGE (DEEP * (A_PITCH + BN))  // floats
#define UNROLL _Pragma("unroll")
#define A_COPIES (BM * DEEP / THREADS)  // of a thread, for one stage
#if B_WIDE
#define B_WIDTH 4
#define COPY_B cp_async16
#else
#define B_WIDTH 1
#define COPY_B cp_async4
#endif

// Asynchronous copies of 4 and 16 bytes. Outside the matrix they write zeros.
static __device__ void cp_async4(float* to, const float* from, bool valid) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
        :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from), "r"(valid ? 4 : 0) : "memory");
}
static __device__ void cp_async16(float* to, const float* from, bool valid) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
        :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from), "r"(valid ? 16 : 0) : "memory");
}

// C = activation(A B + bias) in FP32. A: M x K, B: K x N, C: M x N, row-major, any sizes and alignment; rows of B are
// `pitch` elements apart. B_WIDE: 4 divides pitch, and B begins at a multiple of 16 bytes; WIDE: so do N and C. bias: N elements or null. One tile of BM x BN per SPLIT
// blocks, a cluster, which share the steps of k. ROWS x COLS accumulators per thread, multiples of 4; SPLIT is
// 16 at most. DEEP divides THREADS. Grid: ceil(M / BM) * ceil(N / BN) * SPLIT. Block: THREADS. Dynamic shared memory:
// 4 * max(STAGES * STAGE, SPLIT > 1 ? BM * BN : 0) bytes. Compute capability 8.0; 9.0 with SPLIT.
extern "C" __global__ void __cluster_dims__(SPLIT, 1, 1) __launch_bounds__(THREADS)
matmul_fp32(const float* A, const float* B, float* C, const float* bias, int M, int N, int K, int pitch) {
    extern __shared__ __align__(16) float smem[];
    int across = (N + BN - 1) / BN, tile = blockIdx.x / SPLIT, rank = blockIdx.x % SPLIT;
    int row0 = tile / across * BM, col0 = tile % across * BN;
    int k_tiles = (K + DEEP - 1) / DEEP, per_block = (k_tiles + SPLIT - 1) / SPLIT;
    int begin = min(k_tiles, rank * per_block), end = min(k_tiles, begin + per_block);
    int x = threadIdx.x % (BN / COLS), y = threadIdx.x / (BN / COLS);
    const float *from_a[A_COPIES], *from_b;  // where this thread copies next
    int a_k = threadIdx.x % DEEP, b_k = threadIdx.x / (BN / B_WIDTH), b_j = threadIdx.x % (BN / B_WIDTH) * B_WIDTH;
    UNROLL for (int u = 0; u < A_COPIES; ++u)  // beyond M: another row, not stored
        from_a[u] = A + (size_t)min(row0 + (int)threadIdx.x / DEEP + u * (THREADS / DEEP), M - 1) * K
                  + begin * DEEP + a_k;
    from_b = B + (size_t)(begin * DEEP + b_k) * pitch + min(col0 + b_j, pitch - B_WIDTH);
    auto fetch = [&](int k_tile) {  // starts the copies of one stage; A is transposed
        float *a = smem + (k_tile - begin) % STAGES * STAGE, *b = a + DEEP * A_PITCH;
        int left = K - k_tile * DEEP;
        UNROLL for (int u = 0; u < A_COPIES; ++u) {
            cp_async4(a + a_k * A_PITCH + threadIdx.x / DEEP + u * (THREADS / DEEP), a_k < left ? from_a[u] : A,
                      a_k < left);
            from_a[u] += DEEP;
        }
        UNROLL for (int u = 0; u < DEEP; u += THREADS * B_WIDTH / BN) {
            COPY_B(b + (b_k + u) * BN + b_j, b_k + u < left ? from_b : B, b_k + u < left);
            from_b += (size_t)(THREADS * B_WIDTH / BN) * pitch;
        }
    };
    UNROLL for (int s = 0; s < STAGES - 1; ++s) {
        if (begin + s < end) fetch(begin + s);
        asm volatile("cp.async.commit_group;" ::: "memory");
    }
    float acc[ROWS][COLS] = {};
    for (int k_tile = begin; k_tile < end; ++k_tile) {
        asm volatile("cp.async.wait_group %0;" :: "n"(STAGES - 2) : "memory");
        __syncthreads();  // this stage has arrived, the last one has been read
        if (k_tile + STAGES - 1 < end) fetch(k_tile + STAGES - 1);
        asm volatile("cp.async.commit_group;" ::: "memory");
        const float *a = smem + (k_tile - begin) % STAGES * STAGE, *b = a + DEEP * A_PITCH;
        float4 frag_a[2][ROWS / 4], frag_b[2][COLS / 4];
        auto load = [&](int to, int k) {
            UNROLL for (int h = 0; h < ROWS / 4; ++h)
                frag_a[to][h] = *(const float4*)(a + k * A_PITCH + 4 * y + h * (BM / (ROWS / 4)));
            UNROLL for (int h = 0; h < COLS / 4; ++h)
                frag_b[to][h] = *(const float4*)(b + k * BN + 4 * x + h * (BN / (COLS / 4)));
        };
        load(0, 0);
        UNROLL for (int k = 0; k < DEEP; ++k) {
            if (k + 1 < DEEP) load((k + 1) % 2, k + 1);  // while this step is multiplied
            UNROLL for (int i = 0; i < ROWS; ++i)
                UNROLL for (int j = 0; j < COLS; ++j)
                    acc[i][j] += (&frag_a[k % 2][i / 4].x)[i % 4] * (&frag_b[k % 2][j / 4].x)[j % 4];
        }
    }
    auto store = [&](int i, int h, int x, int y, float4 v) {  // four neighbouring columns of one row
        int row = row0 + 4 * y + i % 4 + i / 4 * (BM / (ROWS / 4));
        int col = col0 + 4 * x + h * (BN / (COLS / 4));
        if (row >= M) return;
        UNROLL for (int c = 0; c < 4; ++c)
            (&v.x)[c] = activated((&v.x)[c] + (bias && col + c < N ? bias[col + c] : 0.0f));
        float* to = C + (size_t)row * N + col;
#if WIDE
        if (col < N) *(float4*)to = v;
#else
        UNROLL for (int c = 0; c < 4; ++c)
            if (col + c < N) to[c] = (&v.x)[c];
#endif
    };
#if SPLIT > 1
    __syncthreads();  // every thread has read the stages
    float4* sums = (float4*)smem;
    UNROLL for (int i = 0; i < ROWS; ++i)
        UNROLL for (int h = 0; h < COLS / 4; ++h)
            sums[(i * (COLS / 4) + h) * THREADS + threadIdx.x] =
                make_float4(acc[i][4 * h], acc[i][4 * h + 1], acc[i][4 * h + 2], acc[i][4 * h + 3]);
    CLUSTER_SYNC  // every block has stored its sums
    for (int e = rank * THREADS + threadIdx.x; e < ROWS * (COLS / 4) * THREADS; e += SPLIT * THREADS) {
        float4 v = {0.0f, 0.0f, 0.0f, 0.0f};
        UNROLL for (int r = 0; r < SPLIT; ++r) {
            float4 part = load_remote(&sums[e], r);
            v.x += part.x;
            v.y += part.y;
            v.z += part.z;
            v.w += part.w;
        }
        int at = e / THREADS, owner = e % THREADS;  // whose accumulators they are
        store(at / (COLS / 4), at % (COLS / 4), owner % (BN / COLS), owner / (BN / COLS), v);
    }
    CLUSTER_SYNC  // every block has read this one's sums
#else
    UNROLL for (int i = 0; i < ROWS; ++i)
        UNROLL for (int h = 0; h < COLS / 4; ++h)
            store(i, h, x, y, make_float4(acc[i][4 * h], acc[i][4 * h + 1], acc[i][4 * h + 2], acc[i][4 * h + 3]));
#endif
}
