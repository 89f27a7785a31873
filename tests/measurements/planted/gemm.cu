#include <cuda_bf16.h>
typedef __nv_bfloat16 Bf16;
typedef unsigned long long u64;
struct __align__(128) TensorMap { unsigned long long opaque[16]; };

static __device__ unsigned at(const void* p) {
    return (unsigned)__cvta_generic_to_shared(p);
}
static __device__ void init(u64* bar, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;"
                 :: "r"(at(bar)), "r"(arrivals) : "memory");
}
static __device__ void expect(u64* bar, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 :: "r"(at(bar)), "r"(bytes) : "memory");
}
static __device__ void wait(u64* bar, int parity) {
    asm volatile("{\n.reg .pred done;\nagain:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again;\n}" :: "r"(at(bar)), "r"(parity) : "memory");
}
static __device__ void load(void* to, const TensorMap* map, int x, int y, u64* bar) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile"
                 ".mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];"
                 :: "r"(at(to)), "l"(map), "r"(at(bar)), "r"(x), "r"(y) : "memory");
}
// where wgmma finds a matrix: address, and two distances, in units of 16 bytes
static __device__ u64 matrix(const void* p, int lead, int stride) {
    return (u64)(at(p) & 0x3ffff) >> 4  // beyond 18 bits: the block's rank in its cluster
         | (u64)(lead >> 4) << 16 | (u64)(stride >> 4) << 32
         | 1ull << 62;  // rows of 128 bytes, swizzled
}
#define SUM(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define FOUR(i) SUM(i), SUM(i + 4), SUM(i + 8), SUM(i + 12)
#define SUMS FOUR(0), FOUR(16), FOUR(32), FOUR(48), FOUR(64), FOUR(80), FOUR(96), FOUR(112)
// D += A B for a warpgroup: 64x16 times 16x256; keep = 0: D = A B
static __device__ void wgmma(float (&d)[128], u64 a, u64 b, int keep) {
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
        : SUMS : "l"(a), "l"(b), "r"(keep));
}
static __device__ void wgmma_fence() {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
static __device__ void wgmma_commit() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// until at most N groups are under way; names d, so that no use of it moves before this
template <int N> static __device__ void wgmma_wait(float (&d)[128]) {
    asm volatile("wgmma.wait_group.sync.aligned %128;"
        : SUMS : "n"(N) : "memory");
}

#define A_BYTES 16384
#define B_BYTES 32768
#define ROUNDS 2  // halves in which a tile of C is stored
// New: at the same barrier of a block of the cluster
static __device__ void arrive_at(u64* bar, int block) {
    asm volatile("{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\n"
                 "mbarrier.arrive.shared::cluster.b64 _, [there];\n}"
                 :: "r"(at(bar)), "r"(block) : "memory");
}
// New: into the same place of every block of the cluster
static __device__ void load_to_all(void* to, const TensorMap* map, int x, int y,
                                   u64* bar) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile"
                 ".mbarrier::complete_tx::bytes.multicast::cluster "
                 "[%0], [%1, {%3, %4}], [%2], %5;"
                 :: "r"(at(to)), "l"(map), "r"(at(bar)), "r"(x), "r"(y),
                    "h"((unsigned short)((1 << CLUSTER) - 1)) : "memory");
}
static __device__ void fetch_map(const TensorMap* map) {
    asm volatile("prefetch.tensormap [%0];" :: "l"(map) : "memory");
}
// New: a box from shared to global memory
static __device__ void store(const TensorMap* map, const void* from, int x, int y) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group "
                 "[%0, {%2, %3}], [%1];"
                 :: "l"(map), "r"(at(from)), "r"(x), "r"(y) : "memory");
}
static __device__ void meet(int group) {  // a barrier of one warpgroup
    asm volatile("bar.sync %0, 128;" :: "r"(group) : "memory");
}
static __device__ unsigned pair(float low, float high) {
    __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
    return *(unsigned*)&both;
}
// [write
// New: 64 x 256 sums by way of shared memory, in boxes of 64 x 64
static __device__ void write(unsigned char* room, float (&d)[128],
                             const TensorMap* c_map, int i, int j, int group) {
    int lane = threadIdx.x % 32, row = threadIdx.x / 32 % 4 * 16 + lane % 16;
    bool first = threadIdx.x % 128 == 0;
    #pragma unroll
    for (int round = 0; round < ROUNDS; ++round) {
        if (first)
            asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
        meet(group);  // what was stored from here has been read
        #pragma unroll
        for (int n = 0; n < 8 / ROUNDS * 4; n += 2) {  // 8 columns each
            const float* v = d + (round * 32 / ROUNDS + n) * 4;
            int chunk = (n % 8 + lane / 16) ^ row % 8;
            asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], "
                "{%1, %2, %3, %4};"
                :: "r"(at(room + n / 8 * 8192 + row * 128 + chunk * 16)),
                   "r"(pair(v[0], v[1])), "r"(pair(v[2], v[3])),
                   "r"(pair(v[4], v[5])), "r"(pair(v[6], v[7])) : "memory");
        }
        asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
        meet(group);
        if (first) {
            for (int q = 0; q < 4 / ROUNDS; ++q)
                store(c_map, room + q * 8192,
                      j + 64 * (round * 4 / ROUNDS + q), i);
            asm volatile("cp.async.bulk.commit_group;" ::: "memory");
        }
    }
}
// write]

extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(384, 1)
gemm(const __grid_constant__ TensorMap a_map,
     const __grid_constant__ TensorMap b_map,
     const __grid_constant__ TensorMap c_map, const int2* order, int tiles, int K) {
    extern __shared__ __align__(1024) unsigned char memory[];
    __shared__ __align__(8) u64 full[STAGES], empty[STAGES];
    unsigned char *a = memory, *b = a + STAGES * A_BYTES, *c = b + STAGES * B_BYTES;
    int slabs = (K + 63) / 64, group = threadIdx.x / 128;
    int clusters = gridDim.x / CLUSTER, rank = blockIdx.x % CLUSTER;
    // New: asked for before the first barrier, there behind it
    int2 tile = order[blockIdx.x / CLUSTER];
    if (threadIdx.x == 32) {
        fetch_map(&a_map);
        fetch_map(&b_map);
        fetch_map(&c_map);
    }
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; ++s) {
            init(&full[s], 1);
            init(&empty[s], 2 * CLUSTER);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    asm volatile("barrier.cluster.arrive.relaxed.aligned;\n"  // the fence did the rest
                 "barrier.cluster.wait.acquire.aligned;" ::: "memory");
    int t = 0;  // slabs so far, of all tiles
    if (group == 0) {
        // [producer
        asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
        if (threadIdx.x == 0) {
            // New: tile after tile
            for (int n = blockIdx.x / CLUSTER; n < tiles; n += clusters) {
                if (n >= clusters) tile = order[n];
                int i = (tile.x * CLUSTER + rank) * 128, j = tile.y * 256;
                for (int k = 0; k < slabs; ++k, ++t) {
                    int s = t % STAGES;
                    wait(&empty[s], t / STAGES % 2 ^ 1);
                    expect(&full[s], A_BYTES + B_BYTES);
                    load(a + s * A_BYTES, &a_map, k * 64, i, &full[s]);
                    for (int p = 0; p < 4 / CLUSTER; ++p) {
                        int q = rank * 4 / CLUSTER + p, x = j + 64 * q;
                        void* to = b + s * B_BYTES + q * 8192;
                        if (CLUSTER == 1) load(to, &b_map, x, k * 64, &full[s]);
                        else load_to_all(to, &b_map, x, k * 64, &full[s]);  // New
                    }
                }
            }
            // New: nobody leaves while another block's signals are to come
            for (int s = 0; s < STAGES && CLUSTER > 1; ++s, ++t)
                wait(&empty[t % STAGES], t / STAGES % 2 ^ 1);
        }
        // producer]
    } else {
        // [consumer
        asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
        float d[128];
        for (int n = blockIdx.x / CLUSTER; n < tiles; n += clusters) {
            if (n >= clusters) tile = order[n];
            for (int k = 0; k < slabs; ++k, ++t) {
                int s = t % STAGES;
                unsigned char* mine = a + s * A_BYTES + (group - 1) * 8192;
                unsigned char* all = b + s * B_BYTES;
                wait(&full[s], t / STAGES % 2);
                wgmma_fence();
                #pragma unroll
                for (int m = 0; m < 4; ++m)
                    wgmma(d, matrix(mine + 32 * m, 16, 1024),
                          matrix(all + 2048 * m, 8192, 1024), k | m);
                wgmma_commit();
                wgmma_wait<1>(d);
                if (k && threadIdx.x % 128 < CLUSTER)
                    arrive_at(&empty[(t - 1) % STAGES], threadIdx.x % 128);
            }
            wgmma_wait<0>(d);
            if (threadIdx.x % 128 < CLUSTER)
                arrive_at(&empty[(t - 1) % STAGES], threadIdx.x % 128);
            int i = (tile.x * CLUSTER + rank) * 128 + 64 * (group - 1);
            write(c + (group - 1) * 32768 / ROUNDS, d, &c_map, i, tile.y * 256, group);
        }
        // consumer]
        if (threadIdx.x % 128 == 0)  // shared memory has to last until it is read
            asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
    }
}
