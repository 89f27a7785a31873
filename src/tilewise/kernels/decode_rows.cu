// part = attention of one query per head over a split of a BF16 cache; then combine_shares.
// DECODE_ROWS of the lesson attention/decoding, written by python -m tilewise.kernels: change it there.
#ifndef GROUP
#define GROUP 4
#endif
#ifndef WARPS
#define WARPS 8
#endif
#include <cuda_bf16.h>
typedef __nv_bfloat16 Bf16;

static __device__ float exp2_approx(float x) {  // 2^x
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// Loads four BF16 elements, 8 bytes, and converts them to FP32.
static __device__ float4 load_bf16x4(const Bf16* base) {
    uint2 v = *(const uint2*)base;
    return make_float4(__uint_as_float(v.x << 16),
                       __uint_as_float(v.x & 0xFFFF0000u),
                       __uint_as_float(v.y << 16),
                       __uint_as_float(v.y & 0xFFFF0000u));
}

// Attention of one query per head over one split of the keys: the mean of the values in part,
// its log-sum-exp, base 2, in L. q [heads][128], K and V [heads / sharing][N][128], all BF16,
// contiguous, 8-byte aligned; part [splits][heads][128] and L [splits][heads], FP32.
// share = keys per split; sharing = query heads per KV head. A block serves GROUP query heads of
// one KV head: GROUP divides sharing. An empty split has zeros in part and L = -infinity.
// Launch (splits, heads / GROUP) blocks of 32 * WARPS threads; static shared memory; sm_80 or newer.
// Not handled: head dimensions other than 128, masks, paged caches.
extern "C" __global__ void __launch_bounds__(32 * WARPS, 3)
decode_rows(const Bf16* q, const Bf16* K, const Bf16* V, float* part, float* L,
            int N, int share, int sharing, float scale) {
    __shared__ float warp_o[WARPS][GROUP][128];
    __shared__ float warp_max[WARPS][GROUP], warp_sum[WARPS][GROUP];
    int lane = threadIdx.x % 32, warp_id = threadIdx.x / 32;
    int head = blockIdx.y * GROUP, heads = gridDim.y * GROUP;
    size_t base = (size_t)(head / sharing) * N * 128 + 4 * lane;
    int end = min(N, (int)(blockIdx.x + 1) * share);
    float bits = scale * 1.44269504f;  // scores as powers of two
    float4 a[GROUP], o[GROUP] = {};
    float m[GROUP], z[GROUP] = {};
    #pragma unroll
    for (int g = 0; g < GROUP; ++g) {
        a[g] = load_bf16x4(&q[(head + g) * 128 + 4 * lane]);
        m[g] = -1e30f;  // finite: -infinity minus itself is NaN
    }
    #pragma unroll 2
    for (int j = blockIdx.x * share + warp_id; j < end; j += WARPS) {
        float4 k = load_bf16x4(&K[base + (size_t)j * 128]);
        float4 v = load_bf16x4(&V[base + (size_t)j * 128]);
        #pragma unroll
        for (int g = 0; g < GROUP; ++g) {
            float s = a[g].x * k.x + a[g].y * k.y
                    + a[g].z * k.z + a[g].w * k.w;
            for (int offset = 16; offset > 0; offset /= 2)
                s += __shfl_xor_sync(~0u, s, offset);
            float row_max = fmaxf(m[g], s * bits);
            float alpha = exp2_approx(m[g] - row_max),
                  p = exp2_approx(s * bits - row_max);
            m[g] = row_max;
            z[g] = z[g] * alpha + p;
            o[g].x = o[g].x * alpha + p * v.x;
            o[g].y = o[g].y * alpha + p * v.y;
            o[g].z = o[g].z * alpha + p * v.z;
            o[g].w = o[g].w * alpha + p * v.w;
        }
    }
    #pragma unroll
    for (int g = 0; g < GROUP; ++g) {
        *(float4*)&warp_o[warp_id][g][4 * lane] = o[g];
        warp_max[warp_id][g] = m[g];
        warp_sum[warp_id][g] = z[g];
    }
    __syncthreads();  // every warp has written its m, z and o
    for (int idx = threadIdx.x; idx < GROUP * 128; idx += 32 * WARPS) {
        int g = idx / 128, at = blockIdx.x * heads + head + g;
        float row_max = -1e30f, sum = 0.0f, x = 0.0f;
        for (int w = 0; w < WARPS; ++w) row_max = fmaxf(row_max, warp_max[w][g]);
        for (int w = 0; w < WARPS; ++w) {
            float alpha = exp2_approx(warp_max[w][g] - row_max);
            sum += alpha * warp_sum[w][g];
            x += alpha * warp_o[w][g][idx % 128];
        }
        part[at * 128 + idx % 128] = sum > 0.0f ? x / sum : 0.0f;
        if (idx % 128 == 0) L[at] = row_max + log2f(sum);
    }
}

// out = mean of the splits' parts, with weights 2^L. part [shares][heads][128], L [shares][heads],
// out [heads][128] in BF16; shares = number of splits. A head without any key gets zeros.
// One thread per output element: launch ceil(heads * 128 / block) blocks.
extern "C" __global__
void combine_shares(const float* part, const float* L, Bf16* out,
                    int heads, int shares) {
    int at = blockIdx.x * blockDim.x + threadIdx.x, head = at / 128;
    if (head >= heads) return;
    float row_max = -1e30f, sum = 0.0f, x = 0.0f;
    for (int w = 0; w < shares; ++w)
        row_max = fmaxf(row_max, L[w * heads + head]);
    for (int w = 0; w < shares; ++w) {
        float weight = exp2_approx(L[w * heads + head] - row_max);
        sum += weight;
        x += weight * part[w * heads * 128 + at];
    }
    out[at] = __float2bfloat16(sum > 0.0f ? x / sum : 0.0f);
}
