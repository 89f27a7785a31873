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
// The accumulators of a thread as operands of an instruction, eight for each 16 columns; their names there; and the
// names of the two operands that follow.
#define R0 "%0,%1,%2,%3,%4,%5,%6,%7"
#define R1 ",%8,%9,%10,%11,%12,%13,%14,%15"
#define R2 ",%16,%17,%18,%19,%20,%21,%22,%23"
#define R3 ",%24,%25,%26,%27,%28,%29,%30,%31"
#define R4 ",%32,%33,%34,%35,%36,%37,%38,%39"
#define R5 ",%40,%41,%42,%43,%44,%45,%46,%47"
#define R6 ",%48,%49,%50,%51,%52,%53,%54,%55"
#define R7 ",%56,%57,%58,%59,%60,%61,%62,%63"
#define R8 ",%64,%65,%66,%67,%68,%69,%70,%71"
#define R9 ",%72,%73,%74,%75,%76,%77,%78,%79"
#define R10 ",%80,%81,%82,%83,%84,%85,%86,%87"
#define R11 ",%88,%89,%90,%91,%92,%93,%94,%95"
#define R12 ",%96,%97,%98,%99,%100,%101,%102,%103"
#define R13 ",%104,%105,%106,%107,%108,%109,%110,%111"
#define R14 ",%112,%113,%114,%115,%116,%117,%118,%119"
#define R15 ",%120,%121,%122,%123,%124,%125,%126,%127"
#define D4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define D8(i) D4(i), D4(i + 4)
#define D_64 D8(0), D8(8), D8(16), D8(24)
#define NAMES_64 R0 R1 R2 R3
#define NEXT_64 "%32, %33"
#define D_80 D_64, D8(32)
#define NAMES_80 NAMES_64 R4
#define NEXT_80 "%40, %41"
#define D_96 D_80, D8(40)
#define NAMES_96 NAMES_80 R5
#define NEXT_96 "%48, %49"
#define D_112 D_96, D8(48)
#define NAMES_112 NAMES_96 R6
#define NEXT_112 "%56, %57"
#define D_128 D_112, D8(56)
#define NAMES_128 NAMES_112 R7
#define NEXT_128 "%64, %65"
#define D_144 D_128, D8(64)
#define NAMES_144 NAMES_128 R8
#define NEXT_144 "%72, %73"
#define D_160 D_144, D8(72)
#define NAMES_160 NAMES_144 R9
#define NEXT_160 "%80, %81"
#define D_176 D_160, D8(80)
#define NAMES_176 NAMES_160 R10
#define NEXT_176 "%88, %89"
#define D_192 D_176, D8(88)
#define NAMES_192 NAMES_176 R11
#define NEXT_192 "%96, %97"
#define D_208 D_192, D8(96)
#define NAMES_208 NAMES_192 R12
#define NEXT_208 "%104, %105"
#define D_224 D_208, D8(104)
#define NAMES_224 NAMES_208 R13
#define NEXT_224 "%112, %113"
#define D_240 D_224, D8(112)
#define NAMES_240 NAMES_224 R14
#define NEXT_240 "%120, %121"
#define D_256 D_240, D8(120)
#define NAMES_256 NAMES_240 R15
#define NEXT_256 "%128, %129"
#define JOINED(x, y) x##y
#define OF(x, y) JOINED(x, y)
#define D OF(D_, BN)
#define QUOTED(x) #x
#define TEXT(x) QUOTED(x)

// D += A B, 64 x BN x 16, both operands in shared memory.
static __device__ void wgmma(float (&d)[BN / 2], u64 a, u64 b) {
    asm volatile("{\n.reg .pred p;\nsetp.eq.b32 p, 0, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n" TEXT(BN) "k16.f32." TYPE "." TYPE " {" OF(NAMES_, BN) "}, " OF(NEXT_, BN)
        ", p, 1, 1, " TEXT(A_COLUMNS) ", " TEXT(B_ROWS) ";\n}" : D : "l"(a), "l"(b));
}
// Waits until at most one group of instructions is under way, or none.
static __device__ void wgmma_wait_all_but_one(float (&d)[BN / 2]) {
    asm volatile("wgmma.wait_group.sync.aligned 1;" : D :: "memory");
}
static __device__ void wgmma_wait_all(float (&d)[BN / 2]) {
    asm volatile("wgmma.wait_group.sync.aligned 0;" : D :: "memory");
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
#define SHARING (CLUSTER_M * CLUSTER_N)   // blocks of a cluster, each with a tile of its own
#if SHARING > 1
static __device__ void arrive_in(u64* bar, int block) {  // at this mbarrier of a block of the cluster
    asm volatile("{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\n"
                 "mbarrier.arrive.shared::cluster.b64 _, [there];\n}"
                 :: "r"(smem_addr(bar)), "r"(block) : "memory");
}
#endif

// A box for the blocks of the mask, of which each loads a part; for one block alone, without a mask.
template <int BLOCKS>
static __device__ void load_for(void* to, const TensorMap* map, int x, int y, u64* bar, int mask) {
    if (BLOCKS > 1) tma_load_2d_multicast(to, map, x, y, bar, mask);
    else tma_load_2d(to, map, x, y, bar);
}
// Blocks of the first column of a cluster, as bits.
#define COLUMN (1 | (CLUSTER_M > 1) << CLUSTER_N | (CLUSTER_M > 2) << 2 * CLUSTER_N | (CLUSTER_M > 3) << 3 * CLUSTER_N)

// C = activation(A B + bias) in BF16 or FP16 (HALF), summed in FP32. One tile of BM x BN per cluster of SPLIT blocks,
// which share the steps of k and add up their sums in shared memory; or per cluster of CLUSTER_M x CLUSTER_N blocks as
// many tiles, in as many rows and columns: the blocks of a row load a part of its A each for all, those of a column a
// part of its B. CLUSTER: SPLIT * CLUSTER_M * CLUSTER_N.
// A_COLUMNS: A is stored [K][M] (a_map: boxes of 64 / CLUSTER_N x 64), else [M][K] (BM / CLUSTER_N x 64). B_ROWS: B is
// stored [K][N] (boxes of 64 / CLUSTER_M x 64), else [N][K] (BN / CLUSTER_M x 64). All with a 128-byte swizzle.
// C: row-major [M][N], whose rows begin at multiples of WIDE elements: 8, 4, 2 or 1; with TRANSPOSED, and SPLIT of 1,
// [N][M]. It begins c_off elements behind a multiple of 16 bytes. bias: an element per column of what is stored, or
// null. Clusters follow each other down band_rows of their rows, then in the next column. Any M, N and K. A consumer
// warpgroup has PARTS x 64 rows. GROUPS 1 to 3, or 2 with PARTS of 2; BN a multiple of 16 from 64 to 256, and of
// 8 * CLUSTER_M; with B_ROWS of 64; 192 at most with GROUPS of 3 or PARTS of 2. SPLIT 1 to 8, or CLUSTER_M and
// CLUSTER_N 1, 2 or 4.
// Grid: ceil(M / (BM * CLUSTER_M)) * ceil(N / (BN * CLUSTER_N)) * CLUSTER. Block: CONSUMERS + PRODUCERS. Dynamic shared
// memory: STAGES * STAGE bytes, and at least what a tile takes: BM * BN * 4 with SPLIT, BM * (BN + 8) * 2 without, or
// BN * (BM + 8) * 2 with TRANSPOSED. sm_90a.
extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(CONSUMERS + PRODUCERS, PER_SM)
matmul_hopper(const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map,
              Number* C, const Number* bias, int M, int N, int K, int c_off, int band_rows) {
    extern __shared__ __align__(1024) unsigned char smem[];
    __shared__ __align__(8) u64 full[STAGES], empty[STAGES];
    int tile_rows = (M + BM * CLUSTER_M - 1) / (BM * CLUSTER_M);
    int tile_cols = (N + BN * CLUSTER_N - 1) / (BN * CLUSTER_N);
    int rank = blockIdx.x % SPLIT, in_cluster = blockIdx.x / SPLIT % SHARING, tile = blockIdx.x / (SPLIT * SHARING);
    int below = in_cluster / CLUSTER_N, beside = in_cluster % CLUSTER_N;
    int band = tile / (band_rows * tile_cols), at = tile % (band_rows * tile_cols);
    int in_band = min(band_rows, tile_rows - band_rows * band);
    int row0 = ((band_rows * band + at % in_band) * CLUSTER_M + below) * BM;
    int col0 = (at / in_band * CLUSTER_N + beside) * BN;
    int k_tiles = (K + 63) / 64, per_block = (k_tiles + SPLIT - 1) / SPLIT;
    int begin = min(k_tiles, rank * per_block), end = min(k_tiles, begin + per_block);
    if (threadIdx.x == 32) {
        prefetch_tensor_map(&a_map);
        prefetch_tensor_map(&b_map);
    }
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; ++s) {
            mbarrier_init(&full[s], 1);
            mbarrier_init(&empty[s], GROUPS * (CLUSTER_M + CLUSTER_N - 1));
        }
        mbarrier_init_fence();
    }
    __syncthreads();
#if SHARING > 1
    cluster_sync();  // every block has its mbarriers
#endif
    int tid = threadIdx.x % 128, lane = threadIdx.x % 32;
    int warp_id = __shfl_sync(0xffffffff, threadIdx.x / 32, 0);  // the compiler sees that it is uniform in a warp
    int group = warp_id / 4, s = 0, phase = 0;
    if (group == GROUPS) {
#if PARTS > 1
        asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
#endif
        const int row_mask = ((1 << CLUSTER_N) - 1) << below * CLUSTER_N, column_mask = COLUMN << beside;
        if (warp_id == CONSUMERS / 32 && one_of_warp())
            for (int k = begin; k < end; ++k) {
                unsigned char *a = smem + s * STAGE, *b = a + A_BYTES;
                mbarrier_wait(&empty[s], phase ^ 1);
                mbarrier_arrive_expect_tx(&full[s], STAGE);
                if (A_COLUMNS)
                    for (int m = 0; m < BM; m += 64)
                        load_for<CLUSTER_N>(a + m * 128 + beside * (8192 / CLUSTER_N), &a_map, row0 + m,
                                            k * 64 + beside * (64 / CLUSTER_N), &full[s], row_mask);
                else
                    load_for<CLUSTER_N>(a + beside * (BM / CLUSTER_N) * 128, &a_map, k * 64,
                                        row0 + beside * (BM / CLUSTER_N), &full[s], row_mask);
                if (B_ROWS)
                    for (int n = 0; n < BN; n += 64)
                        load_for<CLUSTER_M>(b + n * 128 + below * (8192 / CLUSTER_M), &b_map, col0 + n,
                                            k * 64 + below * (64 / CLUSTER_M), &full[s], column_mask);
                else
                    load_for<CLUSTER_M>(b + below * (BN / CLUSTER_M) * 128, &b_map, k * 64,
                                        col0 + below * (BN / CLUSTER_M), &full[s], column_mask);
                if (++s == STAGES) s = 0, phase ^= 1;
            }
        __syncwarp();
#if SPLIT > 1
        cluster_sync();
        cluster_sync();
#elif SHARING > 1
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
#if SHARING > 1
    // Whom this thread tells that a stage is empty: a block of its row of the cluster, or of its column.
    int other = tid - CLUSTER_N;
    int loader = tid < CLUSTER_N ? below * CLUSTER_N + tid : (other + (other >= below)) * CLUSTER_N + beside;
#endif
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
        for (int p = 0; p < PARTS; ++p) wgmma_wait_all_but_one(acc[p]);
#if SHARING > 1
        if (before >= 0 && tid < CLUSTER_M + CLUSTER_N - 1) arrive_in(&empty[before], loader);
#else
        if (before >= 0 && tid == 0) mbarrier_arrive(&empty[before]);
#endif
        before = s;
        if (++s == STAGES) s = 0, phase ^= 1;
    }
    #pragma unroll
    for (int p = 0; p < PARTS; ++p) wgmma_wait_all(acc[p]);
#if SHARING > 1
    cluster_sync();  // other blocks' last copies into this one, and arrivals here, have come
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
