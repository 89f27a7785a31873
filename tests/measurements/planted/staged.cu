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
#define COLUMNS 8  // sums of a thread: 8 rows of so many columns
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
#define GROUP 16  // steps of k that are written out
#define ALL _Pragma("unroll")

// [copy
// A copy goes on by itself. Where nothing is there, it writes zeros.
__device__ void copy4(unsigned to, const float* from, bool there) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
        :: "r"(to), "l"(from), "r"(there ? 4 : 0) : "memory");
}
__device__ void copy16(unsigned to, const float* from, bool there) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
        :: "r"(to), "l"(from), "r"(there ? 16 : 0) : "memory");
}
__device__ void close_group() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}
__device__ void wait_for_oldest() {  // all but the youngest STAGES - 2 groups
    asm volatile("cp.async.wait_group %0;" :: "n"(STAGES - 2) : "memory");
}
// copy]

// [order
#define ONE(i, j) s[i][j] += part(a[u], i) * part(b[u], j);
#define DOWN(j) ONE(0, j) ONE(1, j) ONE(2, j) ONE(3, j) \
                ONE(4, j) ONE(5, j) ONE(6, j) ONE(7, j)
#define UP(j)   ONE(7, j) ONE(6, j) ONE(5, j) ONE(4, j) \
                ONE(3, j) ONE(2, j) ONE(1, j) ONE(0, j)
#if SNAKE
#define TWO(j) DOWN(j) UP(j + 1)  // New: back up from where it ended
#else
#define TWO(j) DOWN(j) DOWN(j + 1)
#endif
#if COLUMNS == 16
#define ALL_SUMS TWO(0) TWO(2) TWO(4) TWO(6) TWO(8) TWO(10) TWO(12) TWO(14)
#else
#define ALL_SUMS TWO(0) TWO(2) TWO(4) TWO(6)
#endif
// order]
__device__ float part(const float4* v, int i) {
    float4 four = v[i / 4];
    return i % 4 == 0 ? four.x : i % 4 == 1 ? four.y : i % 4 == 2 ? four.z : four.w;
}

// [fetch
#if ALIGNED
#define EACH 4
#define COPY_B copy16
#else
#define EACH 1
#define COPY_B copy4
#endif
#define JUMP (256 * EACH / WIDTH)  // rows of B that the block copies at once

struct Source {
    const float* rows[4];  // of A, where this thread copies next
    const float* b;
    int q, row;            // its column of A's tile and its row of B's
    unsigned to_a, to_b;   // its places in the first stage
};

// One stage: DEEP columns of A, turned on the way, and DEEP rows of B.
__device__ void fetch(Source& from, unsigned stage, int left, int N) {
    ALL for (int r = 0; r < 4; ++r) {
        ALL for (int p = 0; p < DEEP; p += 8)
            copy4(from.to_a + stage + 4 * (p * A_ROW + 4 * r),
                  from.rows[r] + p, from.q + p < left);
        from.rows[r] += DEEP;
    }
    ALL for (int p = 0; p < DEEP; p += JUMP) {
        COPY_B(from.to_b + stage + 4 * p * WIDTH, from.b, from.row + p < left);
        from.b += (size_t)JUMP * N;
    }
}
// fetch]

extern "C" __global__ __launch_bounds__(256, COLUMNS == 16 ? 1 : 2)
void staged(const float* A, const float* B, float* C, int M, int N, int K) {
    extern __shared__ __align__(16) float ring[];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    // [tiles
    int high = (M + ROWS - 1) / ROWS, across = (N + WIDTH - 1) / WIDTH;
    int band = blockIdx.x / (8 * across), at = blockIdx.x % (8 * across);
    int in_band = min(8, high - 8 * band);  // bands of 8 tiles share rows of L2
    int i0 = (8 * band + at % in_band) * ROWS, j0 = at / in_band * WIDTH;
    // tiles]
    int row = warp % 2 * 64 + lane / 2 % 8 * 4;
    int column = warp / 2 * (WIDTH / 4) + (lane % 2 + lane / 16 * 2) * 4;
    // [source
    Source from;
    int m = warp * 16 + lane / 8, n = threadIdx.x % (WIDTH / EACH) * EACH;
    from.q = lane % 8;
    from.row = threadIdx.x / (WIDTH / EACH);
    ALL for (int r = 0; r < 4; ++r)  // beyond M another row; its sums are not stored
        from.rows[r] = A + (size_t)min(i0 + m + 4 * r, M - 1) * K + from.q;
    from.b = B + (size_t)from.row * N + min(j0 + n, N - EACH);
    float* first_b = ring + DEEP * A_ROW;
    from.to_a = (unsigned)__cvta_generic_to_shared(ring + from.q * A_ROW + m);
    from.to_b = (unsigned)__cvta_generic_to_shared(first_b + from.row * WIDTH + n);
    // source]
    // [split
    int length = K;  // along k, for this block
#if SPLIT
    int share = ((K + DEEP - 1) / DEEP + gridDim.y - 1) / gridDim.y * DEEP;
    int start = blockIdx.y * share;
    length = min(share, K - start);
    ALL for (int r = 0; r < 4; ++r) from.rows[r] += start;
    from.b += (size_t)start * N;
    C += (size_t)blockIdx.y * M * N;  // a matrix for each part
#endif
    // split]
    int steps = (length + DEEP - 1) / DEEP;
    float s[8][COLUMNS] = {};
    float4 a[2][2], b[2][COLUMNS / 4];
    ALL for (int p = 0; p < STAGES - 1; ++p) {
        if (p < steps) fetch(from, 4 * p * STAGE, length - p * DEEP, N);
        close_group();
    }
    wait_for_oldest();
    __syncthreads();  // the first stage is there
    const float* pa = ring + row;
    const float* pb = first_b + column;
#define READ(to, q) \
    ALL for (int h = 0; h < 2; ++h) \
        a[to][h] = *(const float4*)(pa + (q) * A_ROW + 32 * h); \
    ALL for (int h = 0; h < COLUMNS / 4; ++h) \
        b[to][h] = *(const float4*)(pb + (q) * WIDTH + 16 * h);
    READ(0, 0)
    // [pipeline
    for (int step = 0, now = 0; step < steps; ++step) {
        int after = step + STAGES - 1;
        unsigned stage = 4 * (after % STAGES) * STAGE;
        if (after < length / DEEP) fetch(from, stage, DEEP, N);
        else if (after < steps) fetch(from, stage, length % DEEP, N);
        close_group();
        int next = step + 1 < steps ? (now + 1) % STAGES : now;
        _Pragma("unroll 1")
        for (int done = GROUP; done <= DEEP; done += GROUP) {
            ALL for (int q = 0; q < GROUP; ++q) {
                const int u = q % 2;  // these numbers are at work
                if (q < GROUP - 1) {
                    READ(1 - u, q + 1)
                } else {
                    pa += GROUP * A_ROW;
                    pb += GROUP * WIDTH;
                    if (done == DEEP) {
                        wait_for_oldest();
                        __syncthreads();  // one stage is there, one is read
                        pa = ring + next * STAGE + row;
                        pb = first_b + next * STAGE + column;
                    }
                    READ(0, 0)
                }
                ALL_SUMS
            }
        }
        now = next;
    }
    // pipeline]
    // [store
#if LOOSE
#define RESULT(x) ((x) + 0.0f)  // New: in another register
#else
#define RESULT(x) (x)
#endif
    ALL for (int r = 0; r < 8; ++r) {
        int i = i0 + row + r % 4 + r / 4 * 32;
        ALL for (int h = 0; h < COLUMNS / 4; ++h) {
            int j = j0 + column + 16 * h;
            float* to = C + (size_t)i * N + j;
            float* v = &s[r][4 * h];
#if ALIGNED
            if (i < M && j < N)
                *(float4*)to = make_float4(RESULT(v[0]), RESULT(v[1]),
                                           RESULT(v[2]), RESULT(v[3]));
#else
            ALL for (int c = 0; c < 4; ++c)
                if (i < M && j + c < N) to[c] = RESULT(v[c]);
#endif
        }
    }
    // store]
}
