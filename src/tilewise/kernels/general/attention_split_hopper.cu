#include "hopper.cuh"
#define CLUSTERED 1
#include "general_clusters.cuh"
#define QUERIES 64                    // of a cluster
#define KEYS 128                      // of a tile
#define PARTS (2 * SPLIT)             // of the keys' tiles: one for each warpgroup of the cluster
#define STAGES (D == 64 ? 4 : 3)      // tiles of K, and as many of V, in shared memory
#define Q_BYTES (QUERIES * D * 2)
#define TILE (KEYS * D * 2)
#define PIECES (D / 8 * 128)          // of a warpgroup's output, four numbers each

// D = Q K^T of a tile.
static __device__ void scores(float (&s)[64], u64 q, u64 k) {
    wgmma_fence();
    #pragma unroll
    for (int i = 0; i < D / 16; ++i)
        wgmma_m64n128k16(s, q + (i / 4 * 8192 + i % 4 * 32 >> 4), k + (i / 4 * KEYS * 128 + i % 4 * 32 >> 4), i);
    wgmma_commit();
}
// O += P V of a tile.
static __device__ void add_values(float (&o)[D / 2], const unsigned (&p)[32], u64 v) {
    wgmma_fence();
    #pragma unroll
    for (int i = 0; i < KEYS / 16; ++i)
#if D == 64
        wgmma_m64n64k16_rs_mn(o, &p[4 * i], v + i * 128, 1);
#else
        wgmma_m64n128k16_rs_mn(o, &p[4 * i], v + i * 128, 1);
#endif
    wgmma_commit();
}
// Scores of the tile that begins with `key` become -infinity where a lane's two rows see the keys up to `see` alone.
static __device__ void mask(float (&s)[64], int key, const int (&see)[2]) {
    if (__all_sync(~0u, key + KEYS - 1 <= see[0] && key + KEYS - 1 <= see[1])) return;
    key += threadIdx.x % 4 * 2;
    #pragma unroll
    for (int i = 0; i < 64; ++i)
        if (key + i / 4 * 8 + i % 2 > see[i / 2 % 2]) s[i] = -INFINITY;
}
// They become probabilities; what was added up before is to be multiplied by `by`.
static __device__ void softmax_step(float (&s)[64], float (&most)[2], float (&sum)[2], float (&by)[2], float scale2) {
    #pragma unroll
    for (int r = 0; r < 2; ++r) {
        float top = most[r];
        #pragma unroll
        for (int i = 2 * r; i < 64; i += 4) top = fmaxf(top, fmaxf(s[i], s[i + 1]));
        top = fmaxf(top, __shfl_xor_sync(~0u, top, 1));
        top = fmaxf(top, __shfl_xor_sync(~0u, top, 2));
        float base = top == -INFINITY ? 0.0f : top * scale2;  // no key yet
        by[r] = exp2f(most[r] * scale2 - base);
        most[r] = top;
        sum[r] *= by[r];
        #pragma unroll
        for (int i = 2 * r; i < 64; i += 4) {
            s[i] = exp2f(s[i] * scale2 - base);
            s[i + 1] = exp2f(s[i + 1] * scale2 - base);
            sum[r] += s[i] + s[i + 1];
        }
    }
}
// Two neighbouring columns to a register: operand A of the next wgmma.
static __device__ void packed(unsigned (&p)[32], const float (&s)[64]) {
    #pragma unroll
    for (int i = 0; i < 32; ++i) p[i] = pack_bf16x2(s[2 * i], s[2 * i + 1]);
}

// Attention in BF16 where query tiles are fewer than SMs: a cluster of SPLIT blocks has 64 queries of a head. Each of
// its warpgroups takes every PARTS-th tile of 128 keys, and the cluster puts the parts together. Otherwise as the
// lesson's flash_hopper: row i sees key j where j <= i + shift (with CAUSAL) and j < M; rows without a key give zeros,
// and -infinity in L. q_map, k_map, v_map: boxes of 1 x 64 x 64, 1 x 128 x 64 twice, all with a 128-byte swizzle. O:
// [heads][N][width], 8 divides the width, which is D at most. share: query heads that have the same keys.
// D 64 or 128; SPLIT 1, 2, 4 or 8. Grid: ceil(N / 64) * heads * SPLIT. Block: 384. Dynamic shared memory: Q_BYTES + 2 *
// STAGES * TILE. sm_90a.
extern "C" __global__ void __cluster_dims__(SPLIT, 1, 1) __launch_bounds__(384, 1)
attention_split(const __grid_constant__ TensorMap q_map, const __grid_constant__ TensorMap k_map,
                const __grid_constant__ TensorMap v_map, Bf16* O, float* L, int heads, int width, int N, int M,
                int share, int shift, float scale) {
    extern __shared__ __align__(1024) unsigned char smem[];
    __shared__ __align__(8) u64 q_full, k_full[STAGES], k_empty[STAGES], v_full[STAGES], v_empty[STAGES];
    __shared__ float2 own[2][QUERIES];           // largest score and sum of each row, by warpgroup
    __shared__ float weights[PARTS][QUERIES];    // of each part in the result
    unsigned char *q = smem, *k = q + Q_BYTES, *v = k + STAGES * TILE;
    int rank = blockIdx.x % SPLIT, at = blockIdx.x / SPLIT, head = at % heads;
    int first = ((N + QUERIES - 1) / QUERIES - 1 - at / heads) * QUERIES;  // those that see most keys begin
    int end = CAUSAL ? min(M, first + QUERIES + shift) : M, tiles = max(0, (end + KEYS - 1) / KEYS);
    int group = threadIdx.x / 128, lane = threadIdx.x % 32;
    if (threadIdx.x == 0) {
        mbarrier_init(&q_full, 1);
        for (int b = 0; b < STAGES; ++b) {
            mbarrier_init(&k_full[b], 1);
            mbarrier_init(&v_full[b], 1);
            mbarrier_init(&k_empty[b], 1);
            mbarrier_init(&v_empty[b], 1);
        }
        mbarrier_init_fence();
    }
    __syncthreads();
    if (group == 2) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
        if (threadIdx.x == 256) {
            mbarrier_arrive_expect_tx(&q_full, Q_BYTES);
            for (int c = 0; c < D; c += 64) tma_load_3d(q + c * 128, &q_map, c, first, head, &q_full);
            for (int t = 0;; ++t) {
                int b = t % STAGES, tile = t / 2 * PARTS + rank * 2 + t % 2;
                if (t / 2 * PARTS >= tiles) break;
                if (tile >= tiles) continue;  // only of the last round: no stage follows
                mbarrier_wait(&k_empty[b], t / STAGES % 2 ^ 1);
                mbarrier_arrive_expect_tx(&k_full[b], TILE);
                for (int c = 0; c < D; c += 64)
                    tma_load_3d(k + b * TILE + c * KEYS * 2, &k_map, c, tile * KEYS, head / share, &k_full[b]);
                mbarrier_wait(&v_empty[b], t / STAGES % 2 ^ 1);
                mbarrier_arrive_expect_tx(&v_full[b], TILE);
                for (int c = 0; c < D; c += 64)
                    tma_load_3d(v + b * TILE + c * KEYS * 2, &v_map, c, tile * KEYS, head / share, &v_full[b]);
            }
        }
        __syncwarp();
        CLUSTER_SYNC
        CLUSTER_SYNC
        return;
    }
    asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
    float s[64], o[D / 2] = {}, most[2] = {-INFINITY, -INFINITY}, sum[2] = {}, by[2];
    float scale2 = scale * 1.44269504f;
    unsigned p[32];
    u64 queries = descriptor(q, 16, 1024), keys = descriptor(k, 16, 1024), values = descriptor(v, KEYS * 128, 1024);
    int row = threadIdx.x / 32 % 4 * 16 + lane / 4, leader = threadIdx.x % 128 == 0;
    int see[2] = {CAUSAL ? min(M - 1, first + row + shift) : M - 1, CAUSAL ? min(M - 1, first + row + 8 + shift) : M - 1};
    mbarrier_wait(&q_full, 0);
    int tile = rank * 2 + group, t = group;  // of the cluster's tiles, and of the block's
    if (tile < tiles) {
        mbarrier_wait(&k_full[t], 0);
        scores(s, queries, keys + t * (TILE >> 4));
        wgmma_wait<0>(s);
        if (leader) mbarrier_arrive(&k_empty[t]);
        mask(s, tile * KEYS, see);
        softmax_step(s, most, sum, by, scale2);
        packed(p, s);
        for (tile += PARTS; tile < tiles; tile += PARTS, t += 2) {
            int b = t % STAGES, next = (t + 2) % STAGES;
            mbarrier_wait(&k_full[next], (t + 2) / STAGES % 2);
            scores(s, queries, keys + next * (TILE >> 4));
            mbarrier_wait(&v_full[b], t / STAGES % 2);
            add_values(o, p, values + b * (TILE >> 4));
            wgmma_wait<1>(s);  // P V of the tile before is in flight
            if (leader) mbarrier_arrive(&k_empty[next]);
            mask(s, tile * KEYS, see);
            softmax_step(s, most, sum, by, scale2);
            wgmma_wait<0>(o);
            if (leader) mbarrier_arrive(&v_empty[b]);
            #pragma unroll
            for (int i = 0; i < D / 2; ++i) o[i] *= by[i / 2 % 2];
            packed(p, s);
        }
        mbarrier_wait(&v_full[t % STAGES], t / STAGES % 2);
        add_values(o, p, values + t % STAGES * (TILE >> 4));
        wgmma_wait<0>(o);
    }
    #pragma unroll
    for (int r = 0; r < 2; ++r) {
        sum[r] += __shfl_xor_sync(~0u, sum[r], 1);
        sum[r] += __shfl_xor_sync(~0u, sum[r], 2);
        if (lane % 4 == 0) own[group][row + 8 * r] = make_float2(most[r], sum[r]);
    }
    asm volatile("bar.sync 1, 256;" ::: "memory");  // both warpgroups have read the tiles
    float4* parts = (float4*)k;
    #pragma unroll
    for (int i = 0; i < D / 8; ++i)
        parts[group * PIECES + i * 128 + threadIdx.x % 128] =
            make_float4(o[4 * i], o[4 * i + 1], o[4 * i + 2], o[4 * i + 3]);
    CLUSTER_SYNC  // every block has its parts in shared memory
    if (threadIdx.x < QUERIES) {
        float high[PARTS], part[PARTS], top = -INFINITY, z = 0.0f;
        #pragma unroll
        for (int i = 0; i < PARTS; ++i) {
            high[i] = load_remote(&own[i % 2][threadIdx.x].x, i / 2);
            part[i] = load_remote(&own[i % 2][threadIdx.x].y, i / 2);
            top = fmaxf(top, high[i]);
        }
        float base = top == -INFINITY ? 0.0f : top * scale2;
        #pragma unroll
        for (int i = 0; i < PARTS; ++i) {
            high[i] = exp2f(high[i] * scale2 - base);
            z += part[i] * high[i];
        }
        #pragma unroll
        for (int i = 0; i < PARTS; ++i) weights[i][threadIdx.x] = z > 0.0f ? high[i] / z : 0.0f;
        if (rank == 0 && first + threadIdx.x < N)
            L[(size_t)head * N + first + threadIdx.x] = z > 0.0f ? top * scale + logf(z) : -INFINITY;
    }
    asm volatile("bar.sync 1, 256;" ::: "memory");  // the weights are complete
    for (int e = rank * 256 + threadIdx.x; e < PIECES; e += SPLIT * 256) {
        float x[4] = {};
        #pragma unroll
        for (int i = 0; i < PARTS; ++i) {
            float4 part = load_remote(&parts[i % 2 * PIECES + e], i / 2);
            float low = weights[i][row], high = weights[i][row + 8];
            x[0] += low * part.x;
            x[1] += low * part.y;
            x[2] += high * part.z;
            x[3] += high * part.w;
        }
        int col = e / 128 * 8 + lane % 4 * 2;
        Bf16* to = O + ((size_t)head * N + first + row) * width + col;
        if (col >= width) continue;
        if (first + row < N) *(unsigned*)to = pack_bf16x2(x[0], x[1]);
        if (first + row + 8 < N) *(unsigned*)(to + 8 * width) = pack_bf16x2(x[2], x[3]);
    }
    CLUSTER_SYNC  // every block has read this one's parts
}
