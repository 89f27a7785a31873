// C = A B in BF16, summed in 32 bits, on Hopper, by tensor maps; 8 must divide N and K.
// GEMM of the lesson matmul/hopper, written by python -m tilewise.kernels: change it there.
// Compile with -std=c++17 -arch=sm_90a.
#ifndef CLUSTER
#define CLUSTER 2
#endif
#ifndef STAGES
#define STAGES 4
#endif
#include <cuda_bf16.h>
typedef __nv_bfloat16 Bf16;
typedef unsigned long long u64;
struct __align__(128) TensorMap { unsigned long long opaque[16]; };

static __device__ unsigned smem_addr(const void* p) {
    return (unsigned)__cvta_generic_to_shared(p);
}
static __device__ void mbarrier_init(u64* bar, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;"
                 :: "r"(smem_addr(bar)), "r"(arrivals) : "memory");
}
static __device__ void mbarrier_arrive_expect_tx(u64* bar, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 :: "r"(smem_addr(bar)), "r"(bytes) : "memory");
}
static __device__ void mbarrier_wait(u64* bar, int parity) {
    asm volatile("{\n.reg .pred done;\nagain:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again;\n}" :: "r"(smem_addr(bar)), "r"(parity) : "memory");
}
static __device__ void tma_load_2d(void* to, const TensorMap* map, int x, int y, u64* bar) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile"
                 ".mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];"
                 :: "r"(smem_addr(to)), "l"(map), "r"(smem_addr(bar)), "r"(x), "r"(y) : "memory");
}
// where wgmma finds an operand: address and two byte offsets, all in units of 16 bytes
static __device__ u64 descriptor(const void* p, int leading, int stride) {
    return (u64)(smem_addr(p) & 0x3ffff) >> 4  // beyond 18 bits: the block's rank in its cluster
         | (u64)(leading >> 4) << 16 | (u64)(stride >> 4) << 32
         | 1ull << 62;  // rows of 128 bytes, swizzled
}
#define R4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define R16(i) R4(i), R4(i + 4), R4(i + 8), R4(i + 12)
#define ALL_OF_D R16(0), R16(16), R16(32), R16(48), R16(64), R16(80), R16(96), R16(112)
// D += A B for a warpgroup: 64x16 times 16x256; accumulate = 0: D = A B
static __device__ void wgmma_m64n256k16(float (&d)[128], u64 a, u64 b, int accumulate) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %130, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {"
        "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,"
        "%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,"
        "%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,"
        "%59,%60,%61,%62,%63,%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,"
        "%78,%79,%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95,%96,"
        "%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,%112,"
        "%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127}, "
        "%128, %129, p, 1, 1, 0, 1;\n}"
        : ALL_OF_D : "l"(a), "l"(b), "r"(accumulate));
}
static __device__ void wgmma_fence() {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
static __device__ void wgmma_commit() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// wait until at most N groups are in flight; names d, so that no use of it moves before the wait
template <int N> static __device__ void wgmma_wait(float (&d)[128]) {
    asm volatile("wgmma.wait_group.sync.aligned %128;"
        : ALL_OF_D : "n"(N) : "memory");
}

#define A_BYTES 16384
#define B_BYTES 32768
#define HALVES 2  // the tile of C is stored in two halves
// arrive at this mbarrier of another block of the cluster
static __device__ void mbarrier_arrive_cluster(u64* bar, int block) {
    asm volatile("{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\n"
                 "mbarrier.arrive.shared::cluster.b64 _, [there];\n}"
                 :: "r"(smem_addr(bar)), "r"(block) : "memory");
}
// one copy, written to the same address in every block of the cluster
static __device__ void tma_load_2d_multicast(void* to, const TensorMap* map, int x, int y,
                                   u64* bar) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile"
                 ".mbarrier::complete_tx::bytes.multicast::cluster "
                 "[%0], [%1, {%3, %4}], [%2], %5;"
                 :: "r"(smem_addr(to)), "l"(map), "r"(smem_addr(bar)), "r"(x), "r"(y),
                    "h"((unsigned short)((1 << CLUSTER) - 1)) : "memory");
}
static __device__ void prefetch_tensor_map(const TensorMap* map) {
    asm volatile("prefetch.tensormap [%0];" :: "l"(map) : "memory");
}
static __device__ void tma_store_2d(const TensorMap* map, const void* from, int x, int y) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group "
                 "[%0, {%2, %3}], [%1];"
                 :: "l"(map), "r"(smem_addr(from)), "r"(x), "r"(y) : "memory");
}
static __device__ void warpgroup_barrier(int warpgroup) {  // a barrier of one warpgroup
    asm volatile("bar.sync %0, 128;" :: "r"(warpgroup) : "memory");
}
static __device__ unsigned pack_bf16x2(float low, float high) {
    __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
    return *(unsigned*)&both;
}
// 64 x 256 accumulators through shared memory, in boxes of 64 x 64
static __device__ void store_tile(unsigned char* smem_c, float (&d)[128],
                             const TensorMap* c_map, int i, int j, int warpgroup) {
    int lane = threadIdx.x % 32, row = threadIdx.x / 32 % 4 * 16 + lane % 16;
    bool first = threadIdx.x % 128 == 0;
    #pragma unroll
    for (int half = 0; half < HALVES; ++half) {
        if (first)
            asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
        warpgroup_barrier(warpgroup);  // the TMA has read what was here
        #pragma unroll
        for (int n = 0; n < 8 / HALVES * 4; n += 2) {  // 8 columns each
            const float* v = d + (half * 32 / HALVES + n) * 4;
            int chunk = (n % 8 + lane / 16) ^ row % 8;
            asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], "
                "{%1, %2, %3, %4};"
                :: "r"(smem_addr(smem_c + n / 8 * 8192 + row * 128 + chunk * 16)),
                   "r"(pack_bf16x2(v[0], v[1])), "r"(pack_bf16x2(v[2], v[3])),
                   "r"(pack_bf16x2(v[4], v[5])), "r"(pack_bf16x2(v[6], v[7])) : "memory");
        }
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        warpgroup_barrier(warpgroup);
        if (first) {
            for (int q = 0; q < 4 / HALVES; ++q)
                tma_store_2d(c_map, smem_c + q * 8192,
                      j + 64 * (half * 4 / HALVES + q), i);
            asm volatile("cp.async.bulk.commit_group;" ::: "memory");
        }
    }
}

// C = A B in BF16, persistent: block b computes the tiles order[b / CLUSTER + n * clusters].
// One entry of order: a tile of (128 * CLUSTER) x 256 of C, as (row, column) of tiles.
// a_map: boxes of 128 x 64; b_map, c_map: 64 x 64; all with a 128-byte swizzle.
// Any M; N and K multiples of 8 (16-byte rows). Grid: a multiple of CLUSTER. Block: 384.
// Dynamic shared memory: STAGES * 48 KB + 32 KB. STAGES 4, CLUSTER 1 or 2. sm_90a.
extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(384, 1)
gemm(const __grid_constant__ TensorMap a_map,
     const __grid_constant__ TensorMap b_map,
     const __grid_constant__ TensorMap c_map, const int2* order, int tiles, int K) {
    extern __shared__ __align__(1024) unsigned char memory[];
    __shared__ __align__(8) u64 full[STAGES], empty[STAGES];
    unsigned char *a = memory, *b = a + STAGES * A_BYTES, *c = b + STAGES * B_BYTES;
    int k_tiles = (K + 63) / 64, warpgroup = threadIdx.x / 128;
    int clusters = gridDim.x / CLUSTER, rank = blockIdx.x % CLUSTER;
    // requested before the first barrier
    int2 tile = order[blockIdx.x / CLUSTER];
    if (threadIdx.x == 32) {
        prefetch_tensor_map(&a_map);
        prefetch_tensor_map(&b_map);
        prefetch_tensor_map(&c_map);
    }
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; ++s) {
            mbarrier_init(&full[s], 1);
            mbarrier_init(&empty[s], 2 * CLUSTER);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    asm volatile("barrier.cluster.arrive.relaxed.aligned;\n"  // the fence above suffices
                 "barrier.cluster.wait.acquire.aligned;" ::: "memory");
    int t = 0;  // K tiles so far, over all output tiles
    if (warpgroup == 0) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
        if (threadIdx.x == 0) {
            // a loop over output tiles
            for (int n = blockIdx.x / CLUSTER; n < tiles; n += clusters) {
                if (n >= clusters) tile = order[n];
                int i = (tile.x * CLUSTER + rank) * 128, j = tile.y * 256;
                for (int k = 0; k < k_tiles; ++k, ++t) {
                    int s = t % STAGES;
                    mbarrier_wait(&empty[s], t / STAGES % 2 ^ 1);
                    mbarrier_arrive_expect_tx(&full[s], A_BYTES + B_BYTES);
                    tma_load_2d(a + s * A_BYTES, &a_map, k * 64, i, &full[s]);
                    for (int p = 0; p < 4 / CLUSTER; ++p) {
                        int q = rank * 4 / CLUSTER + p, x = j + 64 * q;
                        void* to = b + s * B_BYTES + q * 8192;
                        if (CLUSTER == 1) tma_load_2d(to, &b_map, x, k * 64, &full[s]);
                        else tma_load_2d_multicast(to, &b_map, x, k * 64, &full[s]);
                    }
                }
            }
            // stay until the other block's last arrivals have come
            for (int s = 0; s < STAGES && CLUSTER > 1; ++s, ++t)
                mbarrier_wait(&empty[t % STAGES], t / STAGES % 2 ^ 1);
        }
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
        float acc[128];
        for (int n = blockIdx.x / CLUSTER; n < tiles; n += clusters) {
            if (n >= clusters) tile = order[n];
            for (int k = 0; k < k_tiles; ++k, ++t) {
                int s = t % STAGES;
                unsigned char* a_tile = a + s * A_BYTES + (warpgroup - 1) * 8192;
                unsigned char* b_tile = b + s * B_BYTES;
                mbarrier_wait(&full[s], t / STAGES % 2);
                wgmma_fence();
                #pragma unroll
                for (int m = 0; m < 4; ++m)
                    wgmma_m64n256k16(acc, descriptor(a_tile + 32 * m, 16, 1024),
                          descriptor(b_tile + 2048 * m, 8192, 1024), k | m);
                wgmma_commit();
                wgmma_wait<1>(acc);
                if (k && threadIdx.x % 128 < CLUSTER)
                    mbarrier_arrive_cluster(&empty[(t - 1) % STAGES], threadIdx.x % 128);
            }
            wgmma_wait<0>(acc);
            if (threadIdx.x % 128 < CLUSTER)
                mbarrier_arrive_cluster(&empty[(t - 1) % STAGES], threadIdx.x % 128);
            int i = (tile.x * CLUSTER + rank) * 128 + 64 * (warpgroup - 1);
            store_tile(c + (warpgroup - 1) * 32768 / HALVES, acc, &c_map, i, tile.y * 256, warpgroup);
        }
        if (threadIdx.x % 128 == 0)  // keep shared memory until the TMA has read it
            asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
    }
}
