"""Sources of right kernels beyond those of the lessons: a tree, tiles, warps, atomics, pipelines."""

from __future__ import annotations

TREE_SUM = """\
extern "C" __global__ void tree_sum(const float* x, float* y, int n) {
    __shared__ float s[128];
    int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    s[t] = i < n ? x[i] : 0.0f;
    __syncthreads();
    for (int h = 64; h > 0; h /= 2) {
        if (t < h) s[t] += s[t + h];
        __syncthreads();
    }
    if (t == 0) y[blockIdx.x] = s[0];
}
"""
TRANSPOSE = """\
extern "C" __global__ void transpose(const float* A, float* B, int rows, int cols) {
    __shared__ float tile[16][17];
    int col = blockIdx.x * 16 + threadIdx.x, row = blockIdx.y * 16 + threadIdx.y;
    if (row < rows && col < cols) tile[threadIdx.y][threadIdx.x] = A[row * cols + col];
    __syncthreads();
    int r = blockIdx.x * 16 + threadIdx.y, c = blockIdx.y * 16 + threadIdx.x;
    if (r < cols && c < rows) B[r * rows + c] = tile[threadIdx.x][threadIdx.y];
}
"""
SOFTMAX_BLOCK = """\
extern "C" __global__ void softmax_block(const float* x, float* y, int n) {
    __shared__ float most[3], total[3];
    int t = threadIdx.x, lane = t % 32, warp = t / 32;
    const float* row = x + blockIdx.x * n;
    float m = -INFINITY;
    for (int j = t; j < n; j += 96) m = fmaxf(m, row[j]);
    for (int o = 16; o > 0; o /= 2) m = fmaxf(m, __shfl_xor_sync(0xffffffff, m, o));
    if (lane == 0) most[warp] = m;
    __syncthreads();
    m = fmaxf(most[0], fmaxf(most[1], most[2]));
    float z = 0.0f;
    for (int j = t; j < n; j += 96) z += expf(row[j] - m);
    for (int o = 16; o > 0; o /= 2) z += __shfl_xor_sync(0xffffffff, z, o);
    if (lane == 0) total[warp] = z;
    __syncthreads();
    z = total[0] + total[1] + total[2];
    for (int j = t; j < n; j += 96) y[blockIdx.x * n + j] = expf(row[j] - m) / z;
}
"""
HISTOGRAM = """\
extern "C" __global__ void histogram(const int* x, int* counts, int n) {
    __shared__ int bins[48];
    int t = threadIdx.x;
    if (t < 48) bins[t] = 0;
    __syncthreads();
    int i = blockIdx.x * blockDim.x + t;
    if (i < n) atomicAdd(&bins[x[i]], 1);
    __syncthreads();
    if (t < 48) atomicAdd(&counts[t], bins[t]);
}
"""
SCAN = """\
extern "C" __global__ void scan(const float* x, float* y, int n) {
    extern __shared__ float s[];
    int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    s[t] = i < n ? x[i] : 0.0f;
    __syncthreads();
    for (int d = 1; d < 96; d *= 2) {
        float left = t >= d ? s[t - d] : 0.0f;
        __syncthreads();
        s[t] += left;
        __syncthreads();
    }
    if (i < n) y[i] = s[t];
}
"""
STENCIL = """\
extern "C" __global__ void stencil(const float* x, float* y, int n) {
    __shared__ float s[66];
    int t = threadIdx.x, i = blockIdx.x * 64 + t;
    s[t + 1] = i < n ? x[i] : 0.0f;
    if (t == 0) s[0] = i > 0 ? x[i - 1] : 0.0f;
    if (t == 63) s[65] = i + 1 < n ? x[i + 1] : 0.0f;
    __syncthreads();
    if (i < n) y[i] = s[t] - 2.0f * s[t + 1] + s[t + 2];
}
"""
WARP_ROWS = """\
extern "C" __global__ void warp_rows(const float* A, const float* x, float* y, int rows, int cols) {
    int lane = threadIdx.x % 32, row = blockIdx.x * 2 + threadIdx.x / 32;
    if (row >= rows) return;
    float s = 0.0f;
    for (int k = lane; k < cols; k += 32) s += A[row * cols + k] * x[k];
    for (int o = 16; o > 0; o /= 2) s += __shfl_down_sync(0xffffffff, s, o);
    if (lane == 0) y[row] = s;
}
"""
COPY_BY_FOUR = """\
extern "C" __global__ void copy_by_four(const float4* x, float4* y, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
        float4 v = x[i];
        v.x = v.x * 2.0f;
        v.w = v.w + 1.0f;
        y[i] = v;
    }
}
"""
COMPACT = """\
extern "C" __global__ void compact(const int* x, int* kept, int* count, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x % 32;
    int keep = 0, v = 0;
    if (i < n) v = x[i];
    keep = i < n && v % 3 == 0;
    unsigned who = __ballot_sync(0xffffffff, keep);
    int base = 0;
    if (lane == 0) base = atomicAdd(count, __popc(who));
    base = __shfl_sync(0xffffffff, base, 0);
    if (keep) kept[base + __popc(who & ((1u << lane) - 1))] = v;
}
"""
WARP_TILE = """\
extern "C" __global__ void warp_tile(const float* x, float* y, int n) {
    __shared__ float s[4][32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, i = blockIdx.x * blockDim.x + threadIdx.x;
    s[warp][lane] = i < n ? x[i] : 0.0f;
    __syncwarp();
    float v = s[warp][31 - lane];
    __syncwarp();
    s[warp][lane] = v + s[warp][lane];
    __syncwarp();
    if (i < n) y[i] = s[warp][lane ^ 1];
}
"""
PIPELINE = """\
extern "C" __global__ void pipeline(const float* x, float* y, int tiles) {
    __shared__ float ring[2][32];
    int lane = threadIdx.x % 32;
    if (threadIdx.x < 32) {
        for (int k = 0; k < tiles; ++k) {
            if (k >= 2) asm volatile("bar.sync %0, 64;" :: "r"(3 + k % 2) : "memory");
            ring[k % 2][lane] = x[k * 32 + lane];
            asm volatile("bar.arrive %0, 64;" :: "r"(1 + k % 2) : "memory");
        }
    } else {
        float s = 0.0f;
        for (int k = 0; k < tiles; ++k) {
            asm volatile("bar.sync %0, 64;" :: "r"(1 + k % 2) : "memory");
            s += ring[k % 2][31 - lane];
            if (k + 2 < tiles) asm volatile("bar.arrive %0, 64;" :: "r"(3 + k % 2) : "memory");
        }
        y[lane] = s;
    }
}
"""
DOUBLE_BUFFER = """\
extern "C" __global__ void double_buffer(const float* A, const float* x, float* y, int rows, int cols) {
    __shared__ float part[2][32];
    int row = blockIdx.x * 64 + threadIdx.x;
    float s = 0.0f;
    if (threadIdx.x < 32) part[0][threadIdx.x] = threadIdx.x < cols ? x[threadIdx.x] : 0.0f;
    __syncthreads();
    for (int k = 0; k < cols; k += 32) {
        int now = k / 32 % 2, next = k + 32 + threadIdx.x;
        if (threadIdx.x < 32) part[1 - now][threadIdx.x] = next < cols ? x[next] : 0.0f;
        for (int j = 0; row < rows && j < 32 && k + j < cols; ++j)
            s += A[row * cols + k + j] * part[now][j];
        __syncthreads();
    }
    if (row < rows) y[row] = s;
}
"""
ASYNC_TILES = """\
#define FETCH(to, from) asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" \\
    :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from) : "memory")
#define COMMIT() asm volatile("cp.async.commit_group;" ::: "memory")
#define WAIT(n) asm volatile("cp.async.wait_group %0;" :: "n"(n) : "memory")
#line 1
extern "C" __global__ void async_tiles(const float* x, float* y, int tiles) {
    __shared__ float ring[2][64];
    int t = threadIdx.x;
    float s = 0.0f;
    FETCH(&ring[0][t], x + t);
    COMMIT();
    for (int k = 0; k < tiles; ++k) {
        if (k + 1 < tiles) FETCH(&ring[(k + 1) % 2][t], x + (k + 1) * 64 + t);
        COMMIT();
        WAIT(1);
        __syncthreads();
        s += ring[k % 2][63 - t];
        __syncthreads();
    }
    y[t] = s;
}
"""
