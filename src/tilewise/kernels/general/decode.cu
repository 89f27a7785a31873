#include <cuda_bf16.h>
#include <cuda_fp16.h>
#define WARPS 4
#define OWN ((D + 31) / 32)  // columns per lane

// Attention of one query per head over one split of its keys: the mean of their values in part, its
// log-sum-exp in L. q: [batch][heads][D], contiguous. Key j of batch b and KV head h is at
// K + b * k_batch + h * k_head + j * k_row, and value j likewise; with a table, at page table[b][j / page] in
// place of b and row j % page in place of j. lengths: keys of each batch, or null for N; beyond N they count as N.
// part: [splits][batch * heads][D], L: [splits][batch * heads] floats; an empty split has zeros and -infinity.
// share query heads use one KV head. Any D up to 256. Grid: (splits, batch * heads). Block: 128.
extern "C" __global__ void __launch_bounds__(32 * WARPS)
decode_split(const Number* q, const Number* K, const Number* V, const int* lengths, const int* table,
             float* part, float* L, int heads, int share, int N, int split, int page, int pages,
             long long k_batch, long long k_head, long long k_row,
             long long v_batch, long long v_head, long long v_row, float scale) {
    __shared__ float warp_o[WARPS][OWN * 32], warp_max[WARPS], warp_sum[WARPS];
    int lane = threadIdx.x % 32, warp_id = threadIdx.x / 32, b = blockIdx.y / heads;
    int kv_head = blockIdx.y % heads / share, count = lengths ? max(0, min(lengths[b], N)) : N;
    int begin = min((long long)count, (long long)blockIdx.x * split);
    int end = min((long long)count, (long long)begin + split);
    float a[OWN], o[OWN] = {}, m = -INFINITY, z = 0.0f;
    for (int i = 0; i < OWN; ++i) {
        int c = lane + 32 * i;
        a[i] = c < D ? (float)q[(size_t)blockIdx.y * D + c] * scale : 0.0f;
    }
    for (int j = begin + warp_id; j < end; j += WARPS) {
        long long from = table ? table[(size_t)b * pages + j / page] : b, row = table ? j % page : j;
        const Number* k = K + from * k_batch + kv_head * k_head + row * k_row;
        const Number* v = V + from * v_batch + kv_head * v_head + row * v_row;
        float s = 0.0f;
        for (int i = 0; i < OWN; ++i)
            if (lane + 32 * i < D) s += a[i] * (float)k[lane + 32 * i];
        for (int h = 16; h > 0; h /= 2) s += __shfl_xor_sync(~0u, s, h);
        float row_max = fmaxf(m, s), base = row_max == -INFINITY ? 0.0f : row_max;
        float alpha = expf(m - base), p = expf(s - base);
        m = row_max;
        z = z * alpha + p;
        for (int i = 0; i < OWN; ++i)
            if (lane + 32 * i < D) o[i] = o[i] * alpha + p * (float)v[lane + 32 * i];
    }
    for (int i = 0; i < OWN; ++i) warp_o[warp_id][lane + 32 * i] = o[i];
    warp_max[warp_id] = m;
    warp_sum[warp_id] = z;
    __syncthreads();  // every warp has written its part
    m = -INFINITY;
    for (int w = 0; w < WARPS; ++w) m = fmaxf(m, warp_max[w]);
    float base = m == -INFINITY ? 0.0f : m;
    z = 0.0f;
    for (int w = 0; w < WARPS; ++w) z += warp_sum[w] * expf(warp_max[w] - base);
    size_t out = (size_t)blockIdx.x * gridDim.y + blockIdx.y;
    for (int c = threadIdx.x; c < D; c += 32 * WARPS) {
        float x = 0.0f;
        for (int w = 0; w < WARPS; ++w) x += warp_o[w][c] * expf(warp_max[w] - base);
        part[out * D + c] = z == 0.0f ? 0.0f : x / z;
    }
    if (threadIdx.x == 0) L[out] = z == 0.0f ? -INFINITY : base + logf(z);
}

// out = mean of the splits' parts by their weights exp(L). part [splits][rows][D], L [splits][rows], out [rows][D].
// A row without any key gets zeros. Grid: ceil(rows * D / 256). Block: 256.
extern "C" __global__ void __launch_bounds__(256)
decode_combine(const float* part, const float* L, Number* out, long long rows, int splits) {
    long long at = blockIdx.x * 256LL + threadIdx.x, row = at / D;
    if (row >= rows) return;
    float m = -INFINITY, z = 0.0f, x = 0.0f;
    for (int w = 0; w < splits; ++w) m = fmaxf(m, L[w * rows + row]);
    float base = m == -INFINITY ? 0.0f : m;
    for (int w = 0; w < splits; ++w) {
        float weight = expf(L[w * rows + row] - base);
        z += weight;
        x += weight * part[w * rows * D + at];
    }
    out[at] = (Number)(z == 0.0f ? 0.0f : x / z);
}
