// C = A B with A of M rows and K columns; where 4 does not divide N, set ALIGNED to 0.
// STAGED of the lesson matmul/register_tiles, written by python -m tilewise.kernels: change it there.
#ifndef ALIGNED
#define ALIGNED 1
#endif
#ifndef STAGES
#define STAGES 3
#endif
#ifndef PAD
#define PAD 4
#endif
#ifndef COLUMNS
#define COLUMNS 16
#endif
#ifndef SNAKE
#define SNAKE 1
#endif
#ifndef LOOSE
#define LOOSE 1
#endif
#ifndef ALIGNED
#define ALIGNED 1  // N is a multiple of 4
#endif
#ifndef STAGES
#define STAGES 2
#endif
#ifndef PAD
#define PAD 0
#endif
#ifndef COLUMNS
#define COLUMNS 8  // accumulators per thread: 8 rows of COLUMNS
#endif
#ifndef SNAKE
#define SNAKE 0
#endif
#ifndef LOOSE
#define LOOSE 0
#endif
#ifndef SPLIT
#define SPLIT 0
#endif
#define DEEP 32
#define ROWS 128
#define WIDTH (16 * COLUMNS)
#define A_ROW (ROWS + PAD)
#define STAGE (DEEP * (A_ROW + WIDTH))
#define GROUP 16  // unrolled steps of k
#define UNROLL _Pragma("unroll")

// Asynchronous copies of 4 and 16 bytes. Outside the matrix they write zeros.
__device__ void cp_async4(unsigned to, const float* from, bool valid) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
        :: "r"(to), "l"(from), "r"(valid ? 4 : 0) : "memory");
}
__device__ void cp_async16(unsigned to, const float* from, bool valid) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
        :: "r"(to), "l"(from), "r"(valid ? 16 : 0) : "memory");
}
__device__ void cp_async_commit() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}
__device__ void cp_async_wait() {  // for all but the newest STAGES - 2 groups
    asm volatile("cp.async.wait_group %0;" :: "n"(STAGES - 2) : "memory");
}

#define FMA(i, j) acc[i][j] += element(frag_a[u], i) * element(frag_b[u], j);
#define COL_DOWN(j) FMA(0, j) FMA(1, j) FMA(2, j) FMA(3, j) \
                FMA(4, j) FMA(5, j) FMA(6, j) FMA(7, j)
#define COL_UP(j)   FMA(7, j) FMA(6, j) FMA(5, j) FMA(4, j) \
                FMA(3, j) FMA(2, j) FMA(1, j) FMA(0, j)
#if SNAKE
#define TWO_COLS(j) COL_DOWN(j) COL_UP(j + 1)  // back up from where it ended
#else
#define TWO_COLS(j) COL_DOWN(j) COL_DOWN(j + 1)
#endif
#if COLUMNS == 16
#define OUTER_PRODUCT TWO_COLS(0) TWO_COLS(2) TWO_COLS(4) TWO_COLS(6) TWO_COLS(8) TWO_COLS(10) TWO_COLS(12) TWO_COLS(14)
#else
#define OUTER_PRODUCT TWO_COLS(0) TWO_COLS(2) TWO_COLS(4) TWO_COLS(6)
#endif
__device__ float element(const float4* v, int i) {
    float4 f = v[i / 4];
    return i % 4 == 0 ? f.x : i % 4 == 1 ? f.y : i % 4 == 2 ? f.z : f.w;
}

#if ALIGNED
#define B_WIDTH 4
#define COPY_B cp_async16
#else
#define B_WIDTH 1
#define COPY_B cp_async4
#endif
#define B_ROWS (256 * B_WIDTH / WIDTH)  // rows of B that the block copies at once

struct Source {
    const float* rows[4];  // of A, where this thread copies next
    const float* b;
    int a_k, b_k;          // its k in A's tile and in B's
    unsigned to_a, to_b;   // shared-memory addresses in the first stage
};

// Starts the copies of one stage: DEEP columns of A, transposed, and DEEP rows of B.
__device__ void fetch(Source& from, unsigned stage, int left, int N) {
    UNROLL for (int r = 0; r < 4; ++r) {
        UNROLL for (int p = 0; p < DEEP; p += 8)
            cp_async4(from.to_a + stage + 4 * (p * A_ROW + 4 * r),
                  from.rows[r] + p, from.a_k + p < left);
        from.rows[r] += DEEP;
    }
    UNROLL for (int p = 0; p < DEEP; p += B_ROWS) {
        COPY_B(from.to_b + stage + 4 * p * WIDTH, from.b, from.b_k + p < left);
        from.b += (size_t)B_ROWS * N;
    }
}

// C = A B in FP32. A: M x K, B: K x N, C: M x N, row-major. With ALIGNED, 4 must divide N, and B and C
// must start at multiples of 16 bytes. Grid ceil(M / 128) * ceil(N / (16 * COLUMNS)), block 256,
// 4 * STAGES * STAGE bytes of shared memory; compute capability 8.0 or later.
// SPLIT: gridDim.y blocks take a part of K each, none of them empty, and C holds gridDim.y matrices.
extern "C" __global__ __launch_bounds__(256, COLUMNS == 16 ? 1 : 2)
void staged(const float* A, const float* B, float* C, int M, int N, int K) {
    extern __shared__ __align__(16) float smem[];
    int lane = threadIdx.x % 32, warp_id = threadIdx.x / 32;
    int tile_rows = (M + ROWS - 1) / ROWS, tile_cols = (N + WIDTH - 1) / WIDTH;
    int band = blockIdx.x / (8 * tile_cols), at = blockIdx.x % (8 * tile_cols);
    int in_band = min(8, tile_rows - 8 * band);  // bands of 8 tile rows, for reuse in L2
    int row0 = (8 * band + at % in_band) * ROWS, col0 = at / in_band * WIDTH;
    int row = warp_id % 2 * 64 + lane / 2 % 8 * 4;
    int col = warp_id / 2 * (WIDTH / 4) + (lane % 2 + lane / 16 * 2) * 4;
    Source from;
    int m = warp_id * 16 + lane / 8, n = threadIdx.x % (WIDTH / B_WIDTH) * B_WIDTH;
    from.a_k = lane % 8;
    from.b_k = threadIdx.x / (WIDTH / B_WIDTH);
    UNROLL for (int r = 0; r < 4; ++r)  // beyond M: another row, not stored
        from.rows[r] = A + (size_t)min(row0 + m + 4 * r, M - 1) * K + from.a_k;
    from.b = B + (size_t)from.b_k * N + min(col0 + n, N - B_WIDTH);
    float* smem_b = smem + DEEP * A_ROW;
    from.to_a = (unsigned)__cvta_generic_to_shared(smem + from.a_k * A_ROW + m);
    from.to_b = (unsigned)__cvta_generic_to_shared(smem_b + from.b_k * WIDTH + n);
    int length = K;  // along k, for this block
#if SPLIT
    int part_k = ((K + DEEP - 1) / DEEP + gridDim.y - 1) / gridDim.y * DEEP;
    int start = blockIdx.y * part_k;
    length = min(part_k, K - start);
    UNROLL for (int r = 0; r < 4; ++r) from.rows[r] += start;
    from.b += (size_t)start * N;
    C += (size_t)blockIdx.y * M * N;  // one partial matrix per part
#endif
    int steps = (length + DEEP - 1) / DEEP;
    float acc[8][COLUMNS] = {};
    float4 frag_a[2][2], frag_b[2][COLUMNS / 4];
    UNROLL for (int p = 0; p < STAGES - 1; ++p) {
        if (p < steps) fetch(from, 4 * p * STAGE, length - p * DEEP, N);
        cp_async_commit();
    }
    cp_async_wait();
    __syncthreads();  // the first stage has arrived
    const float* pa = smem + row;
    const float* pb = smem_b + col;
#define LOAD_FRAGMENTS(to, k) \
    UNROLL for (int h = 0; h < 2; ++h) \
        frag_a[to][h] = *(const float4*)(pa + (k) * A_ROW + 32 * h); \
    UNROLL for (int h = 0; h < COLUMNS / 4; ++h) \
        frag_b[to][h] = *(const float4*)(pb + (k) * WIDTH + 16 * h);
    LOAD_FRAGMENTS(0, 0)
    for (int step = 0, now = 0; step < steps; ++step) {
        int after = step + STAGES - 1;
        unsigned stage = 4 * (after % STAGES) * STAGE;
        if (after < length / DEEP) fetch(from, stage, DEEP, N);
        else if (after < steps) fetch(from, stage, length % DEEP, N);
        cp_async_commit();
        int next = step + 1 < steps ? (now + 1) % STAGES : now;
        _Pragma("unroll 1")
        for (int done = GROUP; done <= DEEP; done += GROUP) {
            UNROLL for (int k = 0; k < GROUP; ++k) {
                const int u = k % 2;  // the fragments in use
                if (k < GROUP - 1) {
                    LOAD_FRAGMENTS(1 - u, k + 1)
                } else {
                    pa += GROUP * A_ROW;
                    pb += GROUP * WIDTH;
                    if (done == DEEP) {
                        cp_async_wait();
                        __syncthreads();  // next stage arrived, this one is read
                        pa = smem + next * STAGE + row;
                        pb = smem_b + next * STAGE + col;
                    }
                    LOAD_FRAGMENTS(0, 0)
                }
                OUTER_PRODUCT
            }
        }
        now = next;
    }
#if LOOSE
#define RESULT(x) ((x) + 0.0f)  // a copy, in another register
#else
#define RESULT(x) (x)
#endif
    UNROLL for (int r = 0; r < 8; ++r) {
        int i = row0 + row + r % 4 + r / 4 * 32;
        UNROLL for (int h = 0; h < COLUMNS / 4; ++h) {
            int j = col0 + col + 16 * h;
            float* to = C + (size_t)i * N + j;
            float* v = &acc[r][4 * h];
#if ALIGNED
            if (i < M && j < N)
                *(float4*)to = make_float4(RESULT(v[0]), RESULT(v[1]),
                                           RESULT(v[2]), RESULT(v[3]));
#else
            UNROLL for (int c = 0; c < 4; ++c)
                if (i < M && j + c < N) to[c] = RESULT(v[c]);
#endif
        }
    }
}
