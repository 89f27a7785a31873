// part = softmax(scale Q K^T + bias) V over a split of the keys, L its log-sum-exp; d = 128.
// KERNEL_6 of the lesson attention/flash_forward, written by python -m tilewise.kernels: change it there.
// Compile with -std=c++17.
#ifndef D
#define D 128
#endif
#ifndef ROWS
#define ROWS 4
#endif
#ifndef KEYS
#define KEYS 8
#endif
#ifndef WARPS
#define WARPS 8
#endif
#define TILE_ROWS (2 * ROWS * WARPS)
#define TILE_KEYS (16 * KEYS)
#define WIDE (D + 4)             // row stride, padded by 16 bytes against bank conflicts
#define WIDE_P (TILE_KEYS + 16)

// Copies 16 bytes to shared memory; zeros if bytes is 0.
__device__ void cp_async_16(float* to, const float* from, int bytes) {
    unsigned at = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :: "r"(at), "l"(from), "r"(bytes) : "memory");
}

__device__ void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// Waits for this thread's copies, except the latest PENDING groups.
template <int PENDING> __device__ void cp_async_wait() {
    asm volatile("cp.async.wait_group %0;" :: "n"(PENDING) : "memory");
}

__device__ void load(float* tile, int stride, int count, const float* X, int first, int end) {
    for (int e = threadIdx.x; e < count * (D / 4); e += 32 * WARPS) {
        int r = e / (D / 4), c = e % (D / 4) * 4;
        bool in_range = first + r < end;
        cp_async_16(tile + r * stride + c, X + (in_range ? (first + r) * D + c : 0), in_range ? 16 : 0);
    }
    cp_async_commit();
}

// One split of the keys: part = softmax(scale * Q K^T + bias) V over the split, L = its log-sum-exp.
// FP32, contiguous: Q [heads][N][D], K and V [heads][M][D], bias [M], part [splits][heads][N][D],
// L [splits][heads][N]. D = 128, 16-byte aligned pointers, any N and M; share = keys per split, a
// multiple of TILE_KEYS. An empty split has zeros in part and L = -infinity; combine handles both.
// Launch (ceil(N / TILE_ROWS), splits, heads) blocks of 32 * WARPS threads; dynamic shared memory
// for q, k, v and p; sm_80 or newer.
extern "C" __global__ void __launch_bounds__(32 * WARPS, 1)
flash_tiles(const float* Q, const float* K, const float* V, const float* bias,
            float* part, float* L, int N, int M, int share, float scale) {
    extern __shared__ float4 smem[];
    float* q = (float*)smem;
    float* k = q + TILE_ROWS * WIDE;
    float* v = k + TILE_KEYS * WIDE;
    float* p = v + TILE_KEYS * D;
    int head = blockIdx.z, i0 = blockIdx.x * TILE_ROWS;
    int first = blockIdx.y * share, last = min(M, first + share);
    Q += (long long)head * N * D;
    K += (long long)head * M * D;
    V += (long long)head * M * D;
    load(q, WIDE, TILE_ROWS, Q, i0, N);
    load(k, WIDE, TILE_KEYS, K, first, last);
    load(v, D, TILE_KEYS, V, first, last);

    int lane = threadIdx.x % 32, lane_col = lane / 2;
    int row = threadIdx.x / 32 * 2 * ROWS + lane % 2;  // and every second row after it
    float m[ROWS], z[ROWS], o[ROWS][D / 16] = {};
    #pragma unroll
    for (int i = 0; i < ROWS; ++i) {
        m[i] = -INFINITY;
        z[i] = 0.0f;
    }
    for (int j0 = first; j0 < last; j0 += TILE_KEYS) {
        // loaded now, used after the GEMM
        float key_bias[KEYS];
        #pragma unroll
        for (int j = 0; j < KEYS; ++j) {
            int key = j0 + lane_col + 16 * j;
            key_bias[j] = key < last ? bias[key] : -INFINITY;
        }
        cp_async_wait<1>();
        __syncthreads();  // q and k have arrived
        float s[ROWS][KEYS] = {};
        #pragma unroll 2
        for (int c = 0; c < D; c += 4) {
            float4 a[ROWS];
            #pragma unroll
            for (int i = 0; i < ROWS; ++i) a[i] = *(float4*)&q[(row + 2 * i) * WIDE + c];
            #pragma unroll
            for (int j = 0; j < KEYS; ++j) {
                float4 b = *(float4*)&k[(lane_col + 16 * j) * WIDE + c];
                #pragma unroll
                for (int i = 0; i < ROWS; ++i) {
                    s[i][j] += a[i].x * b.x;
                    s[i][j] += a[i].y * b.y;
                    s[i][j] += a[i].z * b.z;
                    s[i][j] += a[i].w * b.w;
                }
            }
        }
        #pragma unroll
        for (int i = 0; i < ROWS; ++i) {
            float row_max = m[i];
            #pragma unroll
            for (int j = 0; j < KEYS; ++j) {
                s[i][j] = s[i][j] * scale + key_bias[j];
                row_max = fmaxf(row_max, s[i][j]);
            }
            for (int h = 2; h < 32; h *= 2) row_max = fmaxf(row_max, __shfl_xor_sync(~0u, row_max, h));
            float shift = row_max == -INFINITY ? 0.0f : row_max;
#if FORGET != 1
            float alpha = expf(m[i] - shift);
#else
            float alpha = 1.0f;
#endif
            m[i] = row_max;
            z[i] *= alpha;  // this lane's part of the sum
            #pragma unroll
            for (int j = 0; j < KEYS; ++j) {
                float e = expf(s[i][j] - shift);
                z[i] += e;
                p[(row + 2 * i) * WIDE_P + lane_col + 16 * j] = e;
            }
            #pragma unroll
            for (int c = 0; c < D / 16; ++c) o[i][c] *= alpha;
        }
#if FORGET != 2
        cp_async_wait<0>();
#endif
        __syncthreads();  // v has arrived, and no warp needs k any more
        if (j0 + TILE_KEYS < last) load(k, WIDE, TILE_KEYS, K, j0 + TILE_KEYS, last);
        #pragma unroll 2
        for (int j = 0; j < TILE_KEYS; j += 4) {
            float4 w[ROWS];
            #pragma unroll
            for (int i = 0; i < ROWS; ++i) w[i] = *(float4*)&p[(row + 2 * i) * WIDE_P + j];
            #pragma unroll
            for (int t = 0; t < 4; ++t)
                #pragma unroll
                for (int h = 0; h < D / 64; ++h) {
                    float4 b = *(float4*)&v[(j + t) * D + 64 * h + 4 * lane_col];
                    #pragma unroll
                    for (int i = 0; i < ROWS; ++i) {
                        float e = t == 0 ? w[i].x : t == 1 ? w[i].y : t == 2 ? w[i].z : w[i].w;
                        o[i][4 * h] += e * b.x;
                        o[i][4 * h + 1] += e * b.y;
                        o[i][4 * h + 2] += e * b.z;
                        o[i][4 * h + 3] += e * b.w;
                    }
                }
        }
#if FORGET != 3
        __syncthreads();  // no warp needs v any more
#endif
        if (j0 + TILE_KEYS < last) load(v, D, TILE_KEYS, V, j0 + TILE_KEYS, last);
    }
    #pragma unroll
    for (int i = 0; i < ROWS; ++i) {
        for (int h = 2; h < 32; h *= 2) z[i] += __shfl_xor_sync(~0u, z[i], h);
        if (i0 + row + 2 * i >= N) continue;
        long long out = (long long)(blockIdx.y * gridDim.z + head) * N + i0 + row + 2 * i;
        float inv_sum = z[i] > 0.0f ? 1.0f / z[i] : 0.0f;
        #pragma unroll
        for (int h = 0; h < D / 64; ++h)
            *(float4*)&part[out * D + 64 * h + 4 * lane_col] = make_float4(
                o[i][4 * h] * inv_sum, o[i][4 * h + 1] * inv_sum,
                o[i][4 * h + 2] * inv_sum, o[i][4 * h + 3] * inv_sum);
        if (lane_col == 0) L[out] = z[i] > 0.0f ? m[i] + logf(z[i]) : -INFINITY;
    }
}
