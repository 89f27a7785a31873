#include <cuda_bf16.h>
typedef __nv_bfloat16 Bf16;
#define QUERIES 64       // per tile
#define PARTS (WIDE / 8)  // threads per row, 16 bytes of O and dO each

// What `prepare` of the lesson's backward pass does, for heads of D < WIDE columns or WIDE of 64: delta = the row sums
// of dO * O, lse = L log2(e), sums = 0. O and dO: [heads][N][D], 8 divides D, 16-byte aligned; sums: [heads][padded][WIDE].
// Grid: (padded * PARTS / 256, heads). Block: 256.
extern "C" __global__ void __launch_bounds__(256)
prepare_narrow(const Bf16* O, const Bf16* dO, const float* L, float* delta, float* lse, float* sums,
               int N, int padded) {
    int row = (blockIdx.x * 256 + threadIdx.x) / PARTS, part = threadIdx.x % PARTS;
    size_t from = (size_t)blockIdx.y * N + row, to = (size_t)blockIdx.y * padded + row;
    float sum = 0.0f;
    if (row < N && part < D / 8) {
        uint4 a = ((const uint4*)O)[from * (D / 8) + part];
        uint4 b = ((const uint4*)dO)[from * (D / 8) + part];
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            unsigned x = (&a.x)[i], y = (&b.x)[i];
            sum += __uint_as_float(x << 16) * __uint_as_float(y << 16)
                 + __uint_as_float(x & 0xFFFF0000u) * __uint_as_float(y & 0xFFFF0000u);
        }
    }
    for (int offset = PARTS / 2; offset > 0; offset /= 2) sum += __shfl_xor_sync(~0u, sum, offset);
    if (part == 0) {
        float l = row < N ? L[from] : -INFINITY;  // as a row without keys
        delta[to] = sum;
        lse[to] = l > -INFINITY ? l * 1.44269504f : INFINITY;
    }
    float4* zeros = (float4*)(sums + to * WIDE) + part * 2;
    zeros[0] = zeros[1] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
}

// What `finish` does: dQ = scale * sums, [heads][N][D].
// Grid: (padded / 64, ceil(D / (WIDE / 2)), heads). Block: 128.
extern "C" __global__ void __launch_bounds__(128)
finish_narrow(const float* sums, Bf16* dQ, float scale, int N, int padded) {
    int i0 = blockIdx.x * QUERIES, half = blockIdx.y, t = threadIdx.x;
    const float4* from = (const float4*)(sums + ((size_t)blockIdx.z * padded + i0) * WIDE)
                       + half * (QUERIES * WIDE / 8);
    int row = i0 + t / 32 * 16 + t % 32 / 4;
    #pragma unroll
    for (int i = 0; i < WIDE / 16; ++i) {
        int c = half * (WIDE / 2) + i * 8 + t % 4 * 2;
        float4 v = from[i * 128 + t];
        Bf16* to = dQ + ((size_t)blockIdx.z * N + row) * D + c;
        if (c < D && row < N) *(__nv_bfloat162*)to = __floats2bfloat162_rn(v.x * scale, v.y * scale);
        if (c < D && row + 8 < N) *(__nv_bfloat162*)(to + 8 * D) = __floats2bfloat162_rn(v.z * scale, v.w * scale);
    }
}
