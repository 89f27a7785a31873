#include <cuda_bf16.h>
#include <cuda_fp16.h>
#define CLUSTERED (CLUSTER > 1)
#include "general_clusters.cuh"
#include "general_16bit.cuh"
#define WARPS 4
#define ROWS 16  // query heads of one KV head: the rows of an mma
#define KEYS 16  // that a warp takes at once
#define STAGES 2
#define CHUNKS (D / 8)           // of 16 bytes, of a row
#define TILE (KEYS * CHUNKS)     // chunks of a tile of K or V
#define PITCH (D + 4)            // floats of a row of sums, padded against bank conflicts
#define LOG2E 1.44269504f

static __device__ float exp2_approx(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
// D += A B for one warp: 16 x 16 times 16 x 8, two elements per register.
static __device__ void mma(float (&d)[4], const unsigned* a, unsigned b0, unsigned b1) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." TYPE "." TYPE ".f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}
static __device__ void cp_async(uint4* to, const Number* from, bool valid) {  // zeros where not valid
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
        :: "r"((unsigned)__cvta_generic_to_shared(to)), "l"(from), "r"(valid ? 16 : 0) : "memory");
}
// Where a chunk is in a tile: eight lanes that read at once find all banks.
static __device__ int k_at(int key, int chunk) { return key * CHUNKS + (chunk ^ key % 2 * 4); }
static __device__ int v_at(int key, int chunk) { return key * CHUNKS + (chunk ^ key / 2 % 4 * 2); }

// Attention of one query per head over a cache, by tensor cores. The arrays are those of decode_split in decode.cu, but
// every row of q, K and V begins at a multiple of 16 bytes, and D is 64 or 128. A block serves up to 16 query heads of a
// KV head: 'groups' blocks serve its 'share' heads. DIRECT: the CLUSTER blocks of a row share its keys and write out,
// [batch * heads][D]. Else split x writes its part and log-sum-exp (natural), for decode_combine. Any lengths; a
// sequence without keys gets zeros. Grid: (splits, batch * KV heads * groups); splits is CLUSTER if DIRECT. Block: 128.
// Dynamic shared memory: WARPS * max(STAGES * TILE * 32, ROWS * PITCH * 4) bytes.
extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(32 * WARPS, 3)
decode_mma(const Number* q, const Number* K, const Number* V, const int* lengths, const int* table, Number* out,
           float* part, float* L, int heads, int share, int groups, int N, int split, int page, int pages,
           long long k_batch, long long k_head, long long k_row,
           long long v_batch, long long v_head, long long v_row, float scale) {
    extern __shared__ __align__(16) uint4 smem[];
    float(*warp_o)[ROWS][PITCH] = (float(*)[ROWS][PITCH])smem;  // after the last key
    __shared__ float warp_max[WARPS][ROWS], warp_sum[WARPS][ROWS];
    int lane = threadIdx.x % 32, warp_id = threadIdx.x / 32, quad = lane % 4, r = lane / 4;
    int kv_heads = heads / share, group = blockIdx.y % groups, kv_head = blockIdx.y / groups % kv_heads;
    int b = blockIdx.y / groups / kv_heads, first = group * ROWS, rows = min(ROWS, share - first);
    int count = lengths ? max(0, min(lengths[b], N)) : N;
    int begin = min((long long)count, (long long)blockIdx.x * split);
    int end = min((long long)count, (long long)begin + split);
    size_t head = (size_t)b * heads + kv_head * share + first;
    float scale_log2 = scale * LOG2E;
    // The order of the columns within 32 is the same for Q and K: each lane has eight neighbouring ones.
    uint4 q_low[D / 32], q_high[D / 32];  // of rows r and r + 8
    #pragma unroll
    for (int i = 0; i < D / 32; ++i) {
        q_low[i] = r < rows ? *(const uint4*)&q[(head + r) * D + 32 * i + 8 * quad] : uint4{};
        q_high[i] = r + 8 < rows ? *(const uint4*)&q[(head + r + 8) * D + 32 * i + 8 * quad] : uint4{};
    }
    float o[D / 8][4] = {}, m[2] = {-INFINITY, -INFINITY}, z[2] = {};
    K += kv_head * k_head;
    V += kv_head * v_head;
    uint4* tiles = smem + warp_id * STAGES * 2 * TILE;
    auto fetch = [&](int j0, int stage) {  // starts the copies of the warp's next keys
        uint4* tile = tiles + stage * 2 * TILE;
        #pragma unroll
        for (int u = 0; u < TILE / 32; ++u) {
            int key = (lane + 32 * u) / CHUNKS, chunk = (lane + 32 * u) % CHUNKS, j = min(j0 + key, end - 1);
            long long from = b, row = j;
            if (table) {
                from = table[(size_t)b * pages + j / page];
                row = j % page;
            }
            cp_async(tile + k_at(key, chunk), K + from * k_batch + row * k_row + 8 * chunk, j0 + key < end);
            cp_async(tile + TILE + v_at(key, chunk), V + from * v_batch + row * v_row + 8 * chunk, j0 + key < end);
        }
    };
    int j_first = begin + KEYS * warp_id;
    #pragma unroll
    for (int s = 0; s < STAGES - 1; ++s) {
        if (j_first + s * KEYS * WARPS < end) fetch(j_first + s * KEYS * WARPS, s);
        asm volatile("cp.async.commit_group;" ::: "memory");
    }
    for (int j0 = j_first, t = 0; j0 < end; j0 += KEYS * WARPS, ++t) {
        __syncwarp();  // every lane has read the tile before
        int ahead = j0 + (STAGES - 1) * KEYS * WARPS;
        if (ahead < end) fetch(ahead, (t + STAGES - 1) % STAGES);
        asm volatile("cp.async.commit_group;\ncp.async.wait_group %0;" :: "n"(STAGES - 1) : "memory");
        __syncwarp();  // this tile has arrived for every lane
        const uint4 *k_tile = tiles + t % STAGES * 2 * TILE, *v_tile = k_tile + TILE;
        float s[2][4] = {};
        #pragma unroll
        for (int i = 0; i < D / 32; ++i) {
            unsigned low[4] = {q_low[i].x, q_high[i].x, q_low[i].y, q_high[i].y};
            unsigned high[4] = {q_low[i].z, q_high[i].z, q_low[i].w, q_high[i].w};
            #pragma unroll
            for (int n = 0; n < 2; ++n) {  // this lane's keys of the two tiles of 8
                uint4 k = k_tile[k_at(8 * n + r, 4 * i + quad)];
                mma(s[n], low, k.x, k.y);
                mma(s[n], high, k.z, k.w);
            }
        }
        unsigned p[4];
        #pragma unroll
        for (int h = 0; h < 2; ++h) {  // rows r and r + 8
            float row_max = m[h];
            #pragma unroll
            for (int i = 0; i < 4; ++i) {
                float& x = s[i / 2][2 * h + i % 2];
                x = j0 + i / 2 * 8 + 2 * quad + i % 2 < end ? x * scale_log2 : -INFINITY;
                row_max = fmaxf(row_max, x);
            }
            row_max = fmaxf(row_max, __shfl_xor_sync(~0u, row_max, 1));
            row_max = fmaxf(row_max, __shfl_xor_sync(~0u, row_max, 2));
            float base = row_max == -INFINITY ? 0.0f : row_max, alpha = exp2_approx(m[h] - base);
            if (__any_sync(~0u, row_max > m[h])) {  // else nothing is to be scaled
                z[h] *= alpha;
                #pragma unroll
                for (int n = 0; n < D / 8; ++n) {
                    o[n][2 * h] *= alpha;
                    o[n][2 * h + 1] *= alpha;
                }
            }
            m[h] = row_max;
            #pragma unroll
            for (int t = 0; t < 2; ++t) {
                float x = exp2_approx(s[t][2 * h] - base), y = exp2_approx(s[t][2 * h + 1] - base);
                z[h] += x + y;
                p[2 * t + h] = pack(x, y);
            }
        }
        #pragma unroll
        for (int i = 0; i < D / 64; ++i) {
            uint4 v[4];  // two neighbouring keys of each tile, eight columns
            #pragma unroll
            for (int n = 0; n < 4; ++n) v[n] = v_tile[v_at(n / 2 * 8 + 2 * quad + n % 2, 8 * i + r)];
            #pragma unroll
            for (int c = 0; c < 8; ++c) {  // column 8 r + c of each lane
                unsigned word[4];
                #pragma unroll
                for (int n = 0; n < 4; ++n) word[n] = (&v[n].x)[c / 2];
                unsigned pick = c % 2 ? 0x7632 : 0x5410;  // the same half of two keys
                mma(o[8 * i + c], p, __byte_perm(word[0], word[1], pick), __byte_perm(word[2], word[3], pick));
            }
        }
    }
    __syncthreads();  // every warp has read its tiles
    #pragma unroll
    for (int h = 0; h < 2; ++h) {
        z[h] += __shfl_xor_sync(~0u, z[h], 1);
        z[h] += __shfl_xor_sync(~0u, z[h], 2);
        if (quad == 0) {
            warp_max[warp_id][r + 8 * h] = m[h];
            warp_sum[warp_id][r + 8 * h] = z[h];
        }
        if (r + 8 * h >= rows) continue;
        #pragma unroll
        for (int n = 0; n < D / 8; ++n)
            #pragma unroll
            for (int i = 0; i < 2; ++i)
                warp_o[warp_id][r + 8 * h][n / 8 * 64 + (2 * quad + i) * 8 + n % 8] = o[n][2 * h + i];
    }
    __syncthreads();  // every warp has written its part
    __shared__ float block_max[ROWS], block_sum[ROWS], factor[WARPS][ROWS];
    if (threadIdx.x < ROWS) {
        float most = -INFINITY, sum = 0.0f;
        for (int w = 0; w < WARPS; ++w) most = fmaxf(most, warp_max[w][threadIdx.x]);
        float base = most == -INFINITY ? 0.0f : most;
        for (int w = 0; w < WARPS; ++w) {
            factor[w][threadIdx.x] = exp2_approx(warp_max[w][threadIdx.x] - base);
            sum += warp_sum[w][threadIdx.x] * factor[w][threadIdx.x];
        }
        block_max[threadIdx.x] = most;
        block_sum[threadIdx.x] = sum;
    }
    __syncthreads();  // the warps' factors are known
#if CLUSTER > 1
    for (int e = threadIdx.x; e < rows * D; e += 32 * WARPS) {
        float x = 0.0f;
        for (int w = 0; w < WARPS; ++w) x += warp_o[w][e / D][e % D] * factor[w][e / D];
        warp_o[0][e / D][e % D] = x;  // the block's
    }
    CLUSTER_SYNC  // every block has its sums
    for (int e = blockIdx.x * 32 * WARPS + threadIdx.x; e < rows * D; e += CLUSTER * 32 * WARPS) {
        float max_of[CLUSTER], most = -INFINITY, sum = 0.0f, x = 0.0f;
        #pragma unroll
        for (int c = 0; c < CLUSTER; ++c) most = fmaxf(most, max_of[c] = load_remote(&block_max[e / D], c));
        float base = most == -INFINITY ? 0.0f : most;
        #pragma unroll
        for (int c = 0; c < CLUSTER; ++c) {
            float weight = exp2_approx(max_of[c] - base);
            sum += weight * load_remote(&block_sum[e / D], c);
            x += weight * load_remote(&warp_o[0][e / D][e % D], c);
        }
        out[head * D + e] = (Number)(sum == 0.0f ? 0.0f : x / sum);
    }
    CLUSTER_SYNC  // every block has read this one's sums
#else
    size_t rows_of_all = (size_t)(gridDim.y / groups) * share;
    for (int e = threadIdx.x; e < rows * D; e += 32 * WARPS) {
        float x = 0.0f, sum = block_sum[e / D];
        for (int w = 0; w < WARPS; ++w) x += warp_o[w][e / D][e % D] * factor[w][e / D];
        x = sum == 0.0f ? 0.0f : x / sum;
#if DIRECT
        out[head * D + e] = (Number)x;
#else
        part[(blockIdx.x * rows_of_all + head) * D + e] = x;
        if (e % D == 0)
            L[blockIdx.x * rows_of_all + head + e / D] =
                sum == 0.0f ? -INFINITY : block_max[e / D] / LOG2E + logf(sum);
#endif
    }
#endif
}
