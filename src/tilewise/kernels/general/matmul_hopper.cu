#include "hopper.cuh"
#include <cuda_fp16.h>
#include "general_activation.cuh"
#define CLUSTERED 1
#include "general_clusters.cuh"
#include "general_16bit.cuh"
#include "general_rows.cuh"
#define BM (64 * PARTS * GROUPS)     // rows of a tile: 64 for each part of a consumer warpgroup
#define CONSUMERS (128 * GROUPS)     // threads
#define PRODUCERS (PARTS > 1 ? 128 : 32)  // one of them loads; a warpgroup can give its registers away
#define A_BYTES (BM * 128)           // of a stage: 64 steps of k
#define B_BYTES (BN * 128)
#define STAGE (A_BYTES + B_BYTES)
#define PITCH ((TRANSPOSED ? BM : BN) + 8)  // elements of a row of the staged tile, padded against bank conflicts
// The accumulators of a thread as operands of an instruction, their names there, and those of the two that follow.
#define R16_32 ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47"
#define R16_64 ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79"
#define R16_80 ",%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95"
#if BN == 64
#define D HOPPER_D32
#define NAMES HOPPER_R32
#define FIRST "%32"
#define SECOND "%33"
#elif BN == 96
#define D HOPPER_D32, HOPPER_D16(32)
#define NAMES HOPPER_R32 R16_32
#define FIRST "%48"
#define SECOND "%49"
#elif BN == 128
#define D HOPPER_D64
#define NAMES HOPPER_R64
#define FIRST "%64"
#define SECOND "%65"
#elif BN == 160
#define D HOPPER_D64, HOPPER_D16(64)
#define NAMES HOPPER_R64 R16_64
#define FIRST "%80"
#define SECOND "%81"
#elif BN == 192
#define D HOPPER_D64, HOPPER_D16(64), HOPPER_D16(80)
#define NAMES HOPPER_R64 R16_64 R16_80
#define FIRST "%96"
#define SECOND "%97"
#else
#define D HOPPER_D128
#define NAMES HOPPER_R128
#define FIRST "%128"
#define SECOND "%129"
#endif
#define QUOTED(x) #x
#define TEXT(x) QUOTED(x)

// D += A B, 64 x BN x 16, both operands in shared memory.
static __device__ void wgmma(float (&d)[BN / 2], u64 a, u64 b) {
    asm volatile("{\n.reg .pred p;\nsetp.eq.b32 p, 0, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n" TEXT(BN) "k16.f32." TYPE "." TYPE " {" NAMES "}, " FIRST ", " SECOND
        ", p, 1, 1, " TEXT(A_COLUMNS) ", " TEXT(B_ROWS) ";\n}" : D : "l"(a), "l"(b));
}
template <int PENDING> static __device__ void wgmma_pending(float (&d)[BN / 2]) {  // at most so many groups
    asm volatile("wgmma.wait_group.sync.aligned " FIRST ";" : D : "n"(PENDING) : "memory");
}
// Whether this is the lane that the hardware picks: its addresses stay in uniform registers, where TMA wants them.
static __device__ bool one_of_warp() {
    unsigned chosen;
    asm volatile("{\n.reg .pred p;\nelect.sync _|p, 0xffffffff;\nselp.u32 %0, 1, 0, p;\n}" : "=r"(chosen));
    return chosen;
}
static __device__ void consumers_sync() {
    asm volatile("bar.sync 1, %0;" :: "n"(CONSUMERS) : "memory");
}
#if PAIR > 1
static __device__ void arrive_in(u64* bar, int block) {  // at this mbarrier of a block of the cluster
    asm volatile("{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\n"
                 "mbarrier.arrive.shared::cluster.b64 _, [there];\n}"
                 :: "r"(smem_addr(bar)), "r"(block) : "memory");
}
#endif

// C = activation(A B + bias) in BF16 or FP16 (HALF), summed in FP32. One tile of BM x BN per cluster of SPLIT blocks,
// which share the steps of k and add up their sums in shared memory; or with PAIR of 2 two tiles, one below the other,
// per cluster of two blocks, which load half of B each for both. CLUSTER: SPLIT * PAIR.
// A_COLUMNS: A is stored [K][M] (a_map: boxes of 64 x 64), else [M][K] (BM x 64). B_ROWS: B is stored [K][N] (boxes of
// 64 / PAIR x 64), else [N][K] (BN / PAIR x 64). All with a 128-byte swizzle. C: row-major [M][N], whose rows
// begin at multiples of WIDE elements: 8, 4, 2 or 1; with TRANSPOSED, and SPLIT of 1, [N][M]. It begins c_off elements
// behind a multiple of 16 bytes. bias: an element per column of what is stored, or null. Any M, N and K. A
// consumer warpgroup has PARTS x 64 rows. GROUPS 1 to 3, or 2 with PARTS of 2; BN 64, 128, 192 or 256, without B_ROWS
// 96 or 160, too, 192 at most with GROUPS of 3 or PARTS of 2; SPLIT 1 to 8; PAIR 1, or 2 with SPLIT of 1.
// Grid: ceil(M / (BM * PAIR)) * PAIR * ceil(N / BN) * SPLIT. Block: CONSUMERS + PRODUCERS. Dynamic shared memory: STAGES *
// STAGE bytes, and at least what a tile takes: BM * BN * 4 with SPLIT, BM * (BN + 8) * 2 without, or
// BN * (BM + 8) * 2 with TRANSPOSED. sm_90a.
extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(CONSUMERS + PRODUCERS, PER_SM)
matmul_hopper(const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map,
              Number* C, const Number* bias, int M, int N, int K, int c_off) {
    extern __shared__ __align__(1024) unsigned char smem[];
    __shared__ __align__(8) u64 full[STAGES], empty[STAGES];
    int tile_rows = (M + BM * PAIR - 1) / (BM * PAIR), tile_cols = (N + BN - 1) / BN;
    int rank = blockIdx.x % SPLIT, lower = blockIdx.x / SPLIT % PAIR, tile = blockIdx.x / (SPLIT * PAIR);
    int band = tile / (8 * tile_cols), at = tile % (8 * tile_cols);
    int in_band = min(8, tile_rows - 8 * band);  // bands of 8 tile rows, for reuse in L2
    int row0 = ((8 * band + at % in_band) * PAIR + lower) * BM, col0 = at / in_band * BN;
    int k_tiles = (K + 63) / 64, per_block = (k_tiles + SPLIT - 1) / SPLIT;
    int begin = min(k_tiles, rank * per_block), end = min(k_tiles, begin + per_block);
    if (threadIdx.x == 32) {
        prefetch_tensor_map(&a_map);
        prefetch_tensor_map(&b_map);
    }
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; ++s) {
            mbarrier_init(&full[s], 1);
            mbarrier_init(&empty[s], GROUPS * PAIR);
        }
        mbarrier_init_fence();
    }
    __syncthreads();
#if PAIR > 1
    cluster_sync();  // both blocks have their mbarriers
#endif
    int tid = threadIdx.x % 128, lane = threadIdx.x % 32;
    int warp_id = __shfl_sync(0xffffffff, threadIdx.x / 32, 0);  // the compiler sees that it is uniform in a warp
    int group = warp_id / 4, s = 0, phase = 0;
    if (group == GROUPS) {
#if PARTS > 1
        asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
#endif
        if (warp_id == CONSUMERS / 32 && one_of_warp())
            for (int k = begin; k < end; ++k) {
                unsigned char *a = smem + s * STAGE, *b = a + A_BYTES;
                mbarrier_wait(&empty[s], phase ^ 1);
                mbarrier_arrive_expect_tx(&full[s], STAGE);
                if (A_COLUMNS)
                    for (int m = 0; m < BM; m += 64) tma_load_2d(a + m * 128, &a_map, row0 + m, k * 64, &full[s]);
                else tma_load_2d(a, &a_map, k * 64, row0, &full[s]);
#if PAIR > 1
                if (B_ROWS)
                    for (int n = 0; n < BN; n += 64)
                        tma_load_2d_multicast(b + n * 128 + lower * 4096, &b_map, col0 + n, k * 64 + lower * 32,
                                              &full[s], 3);
                else
                    tma_load_2d_multicast(b + lower * (BN / 2) * 128, &b_map, k * 64, col0 + lower * (BN / 2),
                                          &full[s], 3);
#else
                if (B_ROWS)
                    for (int n = 0; n < BN; n += 64) tma_load_2d(b + n * 128, &b_map, col0 + n, k * 64, &full[s]);
                else tma_load_2d(b, &b_map, k * 64, col0, &full[s]);
#endif
                if (++s == STAGES) s = 0, phase ^= 1;
            }
        __syncwarp();
#if SPLIT > 1
        cluster_sync();
        cluster_sync();
#elif PAIR > 1
        cluster_sync();
#endif
        return;
    }
#if PARTS > 1
    asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
#endif
    float acc[PARTS][BN / 2] = {};
    // An address is in the lowest bits, in units of 16 bytes: what is added to it is added to the descriptor.
    u64 first_a = descriptor(smem + group * PARTS * 8192, A_COLUMNS ? 8192 : 16, 1024);
    u64 first_b = descriptor(smem + A_BYTES, B_ROWS ? 8192 : 16, 1024);
    for (int k = begin, before = -1; k < end; ++k) {
        mbarrier_wait(&full[s], phase);
        wgmma_fence();
        u64 a = first_a + s * (STAGE / 16), b = first_b + s * (STAGE / 16);
        #pragma unroll
        for (int m = 0; m < 4; ++m)
            #pragma unroll
            for (int p = 0; p < PARTS; ++p)
                wgmma(acc[p], a + (p * 8192 + (A_COLUMNS ? 2048 : 32) * m) / 16, b + (B_ROWS ? 2048 : 32) * m / 16);
        wgmma_commit();
        #pragma unroll
        for (int p = 0; p < PARTS; ++p) wgmma_pending<1>(acc[p]);
#if PAIR > 1
        if (before >= 0 && tid < 2) arrive_in(&empty[before], tid);
#else
        if (before >= 0 && tid == 0) mbarrier_arrive(&empty[before]);
#endif
        before = s;
        if (++s == STAGES) s = 0, phase ^= 1;
    }
    #pragma unroll
    for (int p = 0; p < PARTS; ++p) wgmma_pending<0>(acc[p]);
#if PAIR > 1
    cluster_sync();  // the other block's last copies into this one, and arrivals here, have come
#endif
    int row = row0 + group * PARTS * 64 + threadIdx.x / 32 % 4 * 16 + lane / 4, col = col0 + lane % 4 * 2;
#if SPLIT > 1
    consumers_sync();  // every warpgroup has read the stages
    float4* sums = (float4*)smem;
    #pragma unroll
    for (int p = 0; p < PARTS; ++p)
        #pragma unroll
        for (int g = 0; g < BN / 8; ++g) {
            const float* x = acc[p] + 4 * g;
            sums[(p * (BN / 8) + g) * CONSUMERS + threadIdx.x] = make_float4(x[0], x[1], x[2], x[3]);
        }
    cluster_sync();  // every block has stored its sums
    for (int e = rank * CONSUMERS + threadIdx.x; e < PARTS * BN / 8 * CONSUMERS; e += SPLIT * CONSUMERS) {
        float x[4] = {};
        #pragma unroll
        for (int r = 0; r < SPLIT; ++r) {
            float4 part = load_remote(&sums[e], r);
            x[0] += part.x;
            x[1] += part.y;
            x[2] += part.z;
            x[3] += part.w;
        }
        int c = col + e / CONSUMERS % (BN / 8) * 8, first = row + e / CONSUMERS / (BN / 8) * 64;
        if (c >= N) continue;
        float low = bias ? (float)bias[c] : 0.0f, high = bias && c + 1 < N ? (float)bias[c + 1] : 0.0f;
        #pragma unroll
        for (int i = 0; i < 4; i += 2) {
            if (first + i * 4 >= M) continue;
            Number* to = C + (size_t)(first + i * 4) * N + c;
            unsigned both = pack(activated(x[i] + low), activated(x[i + 1] + high));
#if WIDE > 1
            *(unsigned*)to = both;
#else
            to[0] = ((Number*)&both)[0];
            if (c + 1 < N) to[1] = ((Number*)&both)[1];
#endif
        }
    }
    cluster_sync();  // every block has read this one's sums
#else
    consumers_sync();  // every warpgroup has read the stages
    #pragma unroll
    for (int p = 0; p < PARTS; ++p) {
        int warp_row = (group * PARTS + p) * 64 + threadIdx.x / 32 % 4 * 16;
        Number* staged = (Number*)smem + (TRANSPOSED ? 0 : warp_row * PITCH);
        #pragma unroll
        for (int i = 0; i < BN / 2; i += 2) {
            int r = lane / 4 + i / 2 % 2 * 8, c = i / 4 * 8 + lane % 4 * 2;
            float x = acc[p][i], y = acc[p][i + 1];
#if TRANSPOSED
            if (bias) {
                int at_c = row0 + warp_row + r;  // the column of C
                float more = at_c < M ? (float)bias[at_c] : 0.0f;
                x += more;
                y += more;
            }
            staged[c * PITCH + warp_row + r] = (Number)activated(x);
            staged[(c + 1) * PITCH + warp_row + r] = (Number)activated(y);
#else
            if (bias) {
                x += col0 + c < N ? (float)bias[col0 + c] : 0.0f;
                y += col0 + c + 1 < N ? (float)bias[col0 + c + 1] : 0.0f;
            }
            *(unsigned*)&staged[r * PITCH + c] = pack(activated(x), activated(y));
#endif
        }
#if !TRANSPOSED
        __syncwarp();  // the warp's rows are complete
        store_tile<WIDE, 16, BN, 32>(C, M, N, row0 + warp_row, col0, staged, PITCH, lane, c_off);
#endif
    }
#if TRANSPOSED
    consumers_sync();  // the tile is complete
    store_tile<WIDE, BN, BM, CONSUMERS>(C, N, M, col0, row0, (const Number*)smem, PITCH, threadIdx.x, c_off);
#endif
#endif
}
