#include "hopper.cuh"
#define D 64                    // columns, 128 bytes
#define QUERIES 64              // per tile
#define KEYS 128                // per block
#define STAGES 3                // tiles of Q and dO in shared memory
#define TILE (QUERIES * D * 2)  // bytes of 64 rows of Q, K, V or dO
#define DS (QUERIES * KEYS * 2)

static __device__ void barrier_sync(int id) {
    asm volatile("bar.sync %0, 256;" :: "r"(id) : "memory");
}
static __device__ void barrier_arrive(int id) {
    asm volatile("bar.arrive %0, 256;" :: "r"(id) : "memory");
}
static __device__ void bulk_load(float* to, const float* from, u64* bar) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 :: "r"(smem_addr(to)), "l"(from), "n"(QUERIES * 4), "r"(smem_addr(bar)) : "memory");
}
static __device__ void tma_store_3d(const TensorMap* map, const void* from, int row, int head) {
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group [%0, {%2, %3, %4}], [%1];"
                 :: "l"(map), "r"(smem_addr(from)), "r"(0), "r"(row), "r"(head) : "memory");
}
static __device__ u64 operand(const void* p) { return descriptor(p, TILE, 1024); }
// d += A B, 64 x 16 times 16 x 64, from shared memory, both K-major or (MN = 1) both MN-major. accumulate = 0: d = A B.
template <int MN> static __device__ void wgmma(float (&d)[32], u64 a, u64 b, int accumulate) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" HOPPER_R32 "}, %32, %33, p, 1, 1, %35, %35;\n}"
        : HOPPER_D32 : "l"(a), "l"(b), "r"(accumulate), "n"(MN));
}
// 64 rows of K or V times a tile of Q or dO: 64 keys by 64 queries.
static __device__ void scores(float (&d)[32], u64 rows, u64 tile) {
    wgmma_fence();
    #pragma unroll
    for (int c = 0; c < 4; ++c) wgmma<0>(d, rows + c * 2, tile + c * 2, c);
    wgmma_commit();
}
// 64 queries by 64 columns of dQ: dS times K.
static __device__ void times_k(float (&d)[32], u64 ds, u64 k) {
    wgmma_fence();
    #pragma unroll
    for (int c = 0; c < KEYS / 16; ++c) wgmma<1>(d, ds + c * 128, k + c * 128, c);
    wgmma_commit();
}
// 64 keys by 64 columns of dV or dK, added to: a in BF16 times a tile of dO or Q.
static __device__ void add_product(float (&d)[32], const unsigned (&a)[16], u64 tile) {
    wgmma_fence();
    #pragma unroll
    for (int c = 0; c < 4; ++c) wgmma_m64n64k16_rs_mn(d, a + 4 * c, tile + c * 128, 1);
}
static __device__ float exp2_approx(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
// Four 8 x 8 matrices to rows of 128 bytes, with the 128-byte swizzle.
static __device__ void stmatrix_x4(unsigned char* tile, int row, int chunk,
                                   unsigned a, unsigned b, unsigned c, unsigned d) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
                 :: "r"(smem_addr(tile) + row * 128 + (chunk ^ row % 8) * 16), "r"(a), "r"(b), "r"(c), "r"(d)
                 : "memory");
}

// What `backward` of the lesson attention/masks_and_backward does, for heads of up to 64 columns, and with more in
// flight: while a warpgroup takes the exponentials of the next tile, its products for dK and dQ of this one and for dP
// of the next run. The consumers take turns with dQ, a tile later than dK, so neither waits for the other's dS.
// Arguments, grid, block and masks as there, but columns beyond the maps' arrive as zeros; boxes of 64 x 64 for Q, dO,
// dK and dV, of 128 x 64 for K and V. sums: [heads][padded / 64] tiles of 8 x 128 groups of four. Dynamic shared
// memory: 4 * TILE + 2 * STAGES * TILE + 2 * DS bytes. sm_90a.
extern "C" __global__ void __launch_bounds__(384, 1)
backward(const __grid_constant__ TensorMap q_map, const __grid_constant__ TensorMap do_map,
         const __grid_constant__ TensorMap k_map, const __grid_constant__ TensorMap v_map,
         const __grid_constant__ TensorMap dk_map, const __grid_constant__ TensorMap dv_map,
         const float* lse, const float* delta, float* sums, int padded, float scale, int causal, int heads_first) {
    extern __shared__ __align__(1024) unsigned char smem[];
    __shared__ __align__(16) float smem_lse[STAGES][QUERIES], smem_delta[STAGES][QUERIES];
    __shared__ __align__(8) u64 kv_full, q_full[STAGES], q_empty[STAGES], do_full[STAGES], do_empty[STAGES];
    unsigned char *k = smem, *v = k + 2 * TILE, *q = v + 2 * TILE, *g = q + STAGES * TILE;  // g: dO
    unsigned char* ds = g + STAGES * TILE;
    int warpgroup = threadIdx.x / 128, tid = threadIdx.x % 128;
    if (threadIdx.x == 0) {
        mbarrier_init(&kv_full, 1);
        for (int s = 0; s < STAGES; ++s) {
            mbarrier_init(&q_full[s], 1);
            mbarrier_init(&do_full[s], 1);
            mbarrier_init(&q_empty[s], 8);  // warps
            mbarrier_init(&do_empty[s], 8);
        }
        mbarrier_init_fence();
    }
    __syncthreads();
    int head = heads_first ? blockIdx.x : blockIdx.y, j0 = (heads_first ? blockIdx.y : blockIdx.x) * KEYS;
    int first = causal ? j0 / QUERIES : 0, tiles = padded / QUERIES;
    size_t row0 = (size_t)head * padded;
    if (warpgroup == 0) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
        if (tid > 0) return;
        mbarrier_arrive_expect_tx(&kv_full, 4 * TILE);
        tma_load_3d(k, &k_map, 0, j0, head, &kv_full);
        tma_load_3d(v, &v_map, 0, j0, head, &kv_full);
        for (int m = first, step = 0; m <= tiles; ++m, ++step) {  // the last one is beyond N, and its scores aren't used
            int s = step % STAGES, empty_parity = ~(step / STAGES) & 1;
            size_t rows = row0 + min(m, tiles - 1) * QUERIES;
            mbarrier_wait(&q_empty[s], empty_parity);
            mbarrier_arrive_expect_tx(&q_full[s], TILE + QUERIES * 4);
            tma_load_3d(q + s * TILE, &q_map, 0, m * QUERIES, head, &q_full[s]);
            bulk_load(smem_lse[s], lse + rows, &q_full[s]);
            mbarrier_wait(&do_empty[s], empty_parity);
            mbarrier_arrive_expect_tx(&do_full[s], TILE + QUERIES * 4);
            tma_load_3d(g + s * TILE, &do_map, 0, m * QUERIES, head, &do_full[s]);
            bulk_load(smem_delta[s], delta + rows, &do_full[s]);
        }
        return;
    }
    asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
    int half = __shfl_sync(~0u, warpgroup, 0) - 1, lane = threadIdx.x % 32, warp = tid / 32;
    int row = warp * 16 + lane % 16, column = lane % 4 * 2;  // in a tile
    float scale_log2 = scale * 1.44269504f, s_now[32], p[32], dp[32], dk[32] = {}, dv[32] = {};
    unsigned char *k_half = k + half * TILE, *v_half = v + half * TILE;
    u64 k_rows = operand(k_half), v_rows = operand(v_half), k_columns = operand(k);
    u64 q_tiles = operand(q), do_tiles = operand(g), ds_tiles = operand(ds);
    auto exponentials = [&](const float (&x)[32], int m, int s) {  // p = P^T
        #pragma unroll
        for (int i = 0; i < 32; i += 2) {
            float2 l = *(float2*)&smem_lse[s][i / 4 * 8 + column];
            p[i] = exp2_approx(x[i] * scale_log2 - l.x);
            p[i + 1] = exp2_approx(x[i + 1] * scale_log2 - l.y);
        }
        if (causal && m < first + KEYS / QUERIES) {
            int key = j0 + half * 64 + warp * 16 + lane / 4;
            #pragma unroll
            for (int i = 0; i < 32; ++i)
                if (key + i / 2 % 2 * 8 > m * QUERIES + i / 4 * 8 + column + i % 2) p[i] = 0.0f;
        }
    };
    auto add = [&](const float (&dq)[32], int m) {
        float4* to = (float4*)(sums + (row0 + m * QUERIES) * D) + tid;
        #pragma unroll
        for (int i = 0; i < 32; i += 4) atomicAdd(to + i * 32, make_float4(dq[i], dq[i + 1], dq[i + 2], dq[i + 3]));
    };
    mbarrier_wait(&kv_full, 0);
    mbarrier_wait(&q_full[0], 0);
    scores(s_now, k_rows, q_tiles);
    mbarrier_wait(&do_full[0], 0);
    scores(dp, v_rows, do_tiles);
    wgmma_wait<1>(s_now);
    exponentials(s_now, first, 0);
    wgmma_wait<0>(dp);
    for (int m = first, step = 0; m < tiles; ++m, ++step) {
        int s = step % STAGES, next = (step + 1) % STAGES, next_parity = (step + 1) / STAGES & 1, odd = step % 2;
        bool other = odd != half;       // dQ of this tile is the other warpgroup's
        bool mine = other && step > 0;  // that of the previous one this one's
        float s_next[32], dq[32];
        unsigned w[16], e[16];  // P^T and dS^T in BF16
        #pragma unroll
        for (int i = 0; i < 16; ++i) w[i] = pack_bf16x2(p[2 * i], p[2 * i + 1]);
        add_product(dv, w, do_tiles + s * (TILE / 16));
        wgmma_commit();
        #pragma unroll
        for (int i = 0; i < 32; i += 2) {
            float2 d = *(float2*)&smem_delta[s][i / 4 * 8 + column];
            e[i / 2] = pack_bf16x2(p[i] * (dp[i] - d.x), p[i + 1] * (dp[i + 1] - d.y));
        }
        mbarrier_wait(&q_full[next], next_parity);
        scores(s_next, k_rows, q_tiles + next * (TILE / 16));
        if (other && step > 1) barrier_sync(4 + odd);  // the other has read this buffer of dS
        #pragma unroll
        for (int i = 0; i < 16; i += 4)
            stmatrix_x4(ds + odd * DS + half * TILE, row, i / 2 + lane / 16, e[i], e[i + 1], e[i + 2], e[i + 3]);
        fence_proxy_async();
        if (other) barrier_arrive(2 + odd);  // this half of dS is complete
        add_product(dk, e, q_tiles + s * (TILE / 16));
        if (mine) {
            barrier_sync(3 - odd);  // both halves of the previous dS are
            times_k(dq, ds_tiles + (1 - odd) * (DS / 16), k_columns);
        } else wgmma_commit();
        mbarrier_wait(&do_full[next], next_parity);
        scores(dp, v_rows, do_tiles + next * (TILE / 16));
        wgmma_wait<2>(s_next);
        if (lane == 0) mbarrier_arrive(&do_empty[s]);
        exponentials(s_next, m + 1, next);
        wgmma_wait<1>(dq);
        if (lane == 0) mbarrier_arrive(&q_empty[s]);
        if (mine) {
            if (m + 1 < tiles) barrier_arrive(5 - odd);
            add(dq, m - 1);
        }
        wgmma_wait<0>(dp);
    }
    int last = (tiles - 1 - first) % 2;
    if (last == half) {
        float dq[32];
        barrier_sync(2 + last);
        times_k(dq, ds_tiles + last * (DS / 16), k_columns);
        wgmma_wait<0>(dq);
        add(dq, tiles - 1);
    }
    wgmma_wait<0>(dv);
    wgmma_wait<0>(dk);
    barrier_sync(1);  // k and v are free: dK and dV reuse their memory
    #pragma unroll
    for (int i = 0; i < 32; i += 8) {
        int chunk = i / 4 + lane / 16;
        const float *x = dk + i, *y = dv + i;
        stmatrix_x4(k_half, row, chunk, pack_bf16x2(x[0] * scale, x[1] * scale),
            pack_bf16x2(x[2] * scale, x[3] * scale), pack_bf16x2(x[4] * scale, x[5] * scale),
            pack_bf16x2(x[6] * scale, x[7] * scale));
        stmatrix_x4(v_half, row, chunk, pack_bf16x2(y[0], y[1]), pack_bf16x2(y[2], y[3]),
            pack_bf16x2(y[4], y[5]), pack_bf16x2(y[6], y[7]));
    }
    fence_proxy_async();
    warpgroup_barrier(6 + half);
    if (tid > 0) return;
    tma_store_3d(&dk_map, k_half, j0 + half * 64, head);
    tma_store_3d(&dv_map, v_half, j0 + half * 64, head);
    tma_store_commit();
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}
