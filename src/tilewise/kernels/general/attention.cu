#include <cuda_bf16.h>
#include <cuda_fp16.h>
#define WARPS 4
#define ROWS 4                     // rows per warp
#define TILE 32                    // rows of the other side in shared memory: one per lane
#define WIDE ((D + 31) / 32 * 32)  // columns, filled up with zeros
#define OWN (WIDE / 32)            // columns per lane
#define STRIDE (WIDE + 1)          // row stride of a tile, padded against bank conflicts

// `count` rows of X from row `first` on, as FP32; zeros beyond `end` and beyond D.
static __device__ void load(float* tile, int stride, int count, const Number* X, int first, int end) {
    for (int e = threadIdx.x; e < count * WIDE; e += 32 * WARPS) {
        int r = e / WIDE, c = e % WIDE;
        tile[r * stride + c] = first + r < end && c < D ? (float)X[(size_t)(first + r) * D + c] : 0.0f;
    }
}
// Scalar products of this lane's row of a tile with the warp's rows.
static __device__ void dot(float (&s)[ROWS], const float* rows, const float* tile) {
    const float* mine = tile + threadIdx.x % 32 * STRIDE;
    for (int c = 0; c < WIDE; ++c)
        #pragma unroll
        for (int r = 0; r < ROWS; ++r) s[r] += rows[r * WIDE + c] * mine[c];
}
// acc += weights (one per lane and row) times the rows of a tile.
static __device__ void add(float (&acc)[ROWS][OWN], const float (&weight)[ROWS], const float* tile) {
    for (int t = 0; t < TILE; ++t)
        #pragma unroll
        for (int r = 0; r < ROWS; ++r) {
            float w = __shfl_sync(~0u, weight[r], t);
            #pragma unroll
            for (int c = 0; c < OWN; ++c) acc[r][c] += w * tile[t * STRIDE + threadIdx.x % 32 + 32 * c];
        }
}
static __device__ void store(Number* X, int row, const float (&x)[OWN], float factor) {
    #pragma unroll
    for (int i = 0; i < OWN; ++i) {
        int c = threadIdx.x % 32 + 32 * i;
        if (c < D) X[(size_t)row * D + c] = (Number)(x[i] * factor);
    }
}
// Whether a query sees a key.
static __device__ bool sees(int query, int key, int M, int shift) {
    return key < M && (!CAUSAL || key <= query + shift);
}

// O = softmax(scale * Q K^T) V and L, the log-sum-exp of each row of scores. Q and O: [heads][N][D], K and V:
// [heads / share][M][D], contiguous, any alignment; L: [heads][N] floats. Any N, M and D up to 256. CAUSAL:
// query i sees keys up to i + shift. A row without a key gets O = 0 and L = -infinity.
// Grid: ceil(N / 16) * heads. Block: 128. Dynamic shared memory: 4 * (64 * STRIDE + 16 * WIDE) bytes.
extern "C" __global__ void __launch_bounds__(128)
attention_forward(const Number* Q, const Number* K, const Number* V, float* L, Number* O,
                  int N, int M, int share, int shift, float scale) {
    extern __shared__ float smem[];
    float *k = smem, *v = k + TILE * STRIDE, *q = v + TILE * STRIDE;
    int blocks = (N + WARPS * ROWS - 1) / (WARPS * ROWS), head = blockIdx.x / blocks;
    int first = blockIdx.x % blocks * WARPS * ROWS, lane = threadIdx.x % 32, own = threadIdx.x / 32 * ROWS;
    Q += (size_t)head * N * D;
    O += (size_t)head * N * D;
    K += (size_t)(head / share) * M * D;
    V += (size_t)(head / share) * M * D;
    load(q, WIDE, WARPS * ROWS, Q, first, N);
    float m[ROWS], z[ROWS] = {}, o[ROWS][OWN] = {};
    for (int r = 0; r < ROWS; ++r) m[r] = -INFINITY;
    int end = CAUSAL ? min((long long)M, (long long)first + WARPS * ROWS + shift) : M;
    for (int j0 = 0; j0 < end; j0 += TILE) {
        __syncthreads();  // the last tile has been used
        load(k, STRIDE, TILE, K, j0, M);
        load(v, STRIDE, TILE, V, j0, M);
        __syncthreads();  // the tile is loaded
        float s[ROWS] = {};
        dot(s, q + own * WIDE, k);
        #pragma unroll
        for (int r = 0; r < ROWS; ++r) {
            s[r] = sees(first + own + r, j0 + lane, M, shift) ? s[r] * scale : -INFINITY;
            float row_max = fmaxf(m[r], s[r]);
            for (int h = 16; h > 0; h /= 2) row_max = fmaxf(row_max, __shfl_xor_sync(~0u, row_max, h));
            float base = row_max == -INFINITY ? 0.0f : row_max, alpha = expf(m[r] - base);
            s[r] = expf(s[r] - base);
            m[r] = row_max;
            z[r] = z[r] * alpha + s[r];  // this lane's part of the sum
            #pragma unroll
            for (int c = 0; c < OWN; ++c) o[r][c] *= alpha;
        }
        add(o, s, v);
    }
    #pragma unroll
    for (int r = 0; r < ROWS; ++r) {
        for (int h = 16; h > 0; h /= 2) z[r] += __shfl_xor_sync(~0u, z[r], h);
        int row = first + own + r;
        if (row >= N) continue;
        store(O, row, o[r], z[r] == 0.0f ? 0.0f : 1.0f / z[r]);
        if (lane == 0) L[(size_t)head * N + row] = z[r] == 0.0f ? -INFINITY : m[r] + logf(z[r]);
    }
}

// dQ [heads][N][D], and delta [heads][N] for backward_keys; dO as O; O and L as the forward pass left them.
// Grid: ceil(N / 16) * heads. Block: 128. Dynamic shared memory: 4 * (64 * STRIDE + 32 * WIDE) bytes.
extern "C" __global__ void __launch_bounds__(128)
backward_queries(const Number* Q, const Number* K, const Number* V, const Number* O, const Number* dO,
                 const float* L, float* delta, Number* dQ, int N, int M, int share, int shift, float scale) {
    extern __shared__ float smem[];
    float *k = smem, *v = k + TILE * STRIDE, *q = v + TILE * STRIDE, *d_out = q + WARPS * ROWS * WIDE;
    int blocks = (N + WARPS * ROWS - 1) / (WARPS * ROWS), head = blockIdx.x / blocks;
    int first = blockIdx.x % blocks * WARPS * ROWS, lane = threadIdx.x % 32, own = threadIdx.x / 32 * ROWS;
    size_t at = (size_t)head * N;
    K += (size_t)(head / share) * M * D;
    V += (size_t)(head / share) * M * D;
    load(q, WIDE, WARPS * ROWS, Q + at * D, first, N);
    load(d_out, WIDE, WARPS * ROWS, dO + at * D, first, N);
    __syncthreads();  // the queries are loaded
    float lse[ROWS], row_delta[ROWS] = {}, dq[ROWS][OWN] = {};
    for (int r = 0; r < ROWS; ++r) {
        int row = first + own + r;
        lse[r] = row < N ? L[at + row] : -INFINITY;
        for (int c = lane; c < D && row < N; c += 32)
            row_delta[r] += d_out[(own + r) * WIDE + c] * (float)O[(at + row) * D + c];
        for (int h = 16; h > 0; h /= 2) row_delta[r] += __shfl_xor_sync(~0u, row_delta[r], h);
    }
    int end = CAUSAL ? min((long long)M, (long long)first + WARPS * ROWS + shift) : M;
    for (int j0 = 0; j0 < end; j0 += TILE) {
        __syncthreads();  // the last tile has been used
        load(k, STRIDE, TILE, K, j0, M);
        load(v, STRIDE, TILE, V, j0, M);
        __syncthreads();  // the tile is loaded
        float s[ROWS] = {}, dp[ROWS] = {};
        dot(s, q + own * WIDE, k);
        dot(dp, d_out + own * WIDE, v);
        #pragma unroll
        for (int r = 0; r < ROWS; ++r) {
            bool seen = lse[r] != -INFINITY && sees(first + own + r, j0 + lane, M, shift);
            s[r] = seen ? expf(s[r] * scale - lse[r]) * (dp[r] - row_delta[r]) * scale : 0.0f;
        }
        add(dq, s, k);
    }
    #pragma unroll
    for (int r = 0; r < ROWS; ++r) {
        int row = first + own + r;
        if (row >= N) continue;
        store(dQ + at * D, row, dq[r], 1.0f);
        if (lane == 0) delta[at + row] = row_delta[r];
    }
}

// dK and dV, both [heads / share][M][D]: summed over the `share` query heads of each. After backward_queries.
// Grid: ceil(M / 16) * heads / share. Block: 128. Dynamic shared memory as backward_queries.
extern "C" __global__ void __launch_bounds__(128)
backward_keys(const Number* Q, const Number* K, const Number* V, const Number* dO, const float* L,
              const float* delta, Number* dK, Number* dV, int N, int M, int share, int shift, float scale) {
    extern __shared__ float smem[];
    float *q = smem, *d_out = q + TILE * STRIDE, *k = d_out + TILE * STRIDE, *v = k + WARPS * ROWS * WIDE;
    int blocks = (M + WARPS * ROWS - 1) / (WARPS * ROWS), kv_head = blockIdx.x / blocks;
    int first = blockIdx.x % blocks * WARPS * ROWS, lane = threadIdx.x % 32, own = threadIdx.x / 32 * ROWS;
    size_t at = (size_t)kv_head * M * D;
    load(k, WIDE, WARPS * ROWS, K + at, first, M);
    load(v, WIDE, WARPS * ROWS, V + at, first, M);
    float dk[ROWS][OWN] = {}, dv[ROWS][OWN] = {};
    int begin = CAUSAL ? max(0LL, (long long)first - shift) / TILE * TILE : 0;  // earlier queries see none
    for (int head = kv_head * share; head < (kv_head + 1) * share; ++head)
        for (int i0 = begin; i0 < N; i0 += TILE) {
            size_t rows = (size_t)head * N;
            __syncthreads();  // the last tile has been used
            load(q, STRIDE, TILE, Q + rows * D, i0, N);
            load(d_out, STRIDE, TILE, dO + rows * D, i0, N);
            __syncthreads();  // the tile is loaded
            int i = i0 + lane;
            float lse = i < N ? L[rows + i] : -INFINITY, row_delta = i < N ? delta[rows + i] : 0.0f;
            float s[ROWS] = {}, dp[ROWS] = {};
            dot(s, k + own * WIDE, q);
            dot(dp, v + own * WIDE, d_out);
            #pragma unroll
            for (int r = 0; r < ROWS; ++r) {
                bool seen = lse != -INFINITY && sees(i, first + own + r, M, shift);
                s[r] = seen ? expf(s[r] * scale - lse) : 0.0f;
                dp[r] = seen ? s[r] * (dp[r] - row_delta) * scale : 0.0f;
            }
            add(dv, s, d_out);
            add(dk, dp, q);
        }
    #pragma unroll
    for (int r = 0; r < ROWS; ++r)
        if (first + own + r < M) {
            store(dK + at, first + own + r, dk[r], 1.0f);
            store(dV + at, first + own + r, dv[r], 1.0f);
        }
}
