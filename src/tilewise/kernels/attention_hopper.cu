// The same on Hopper: TMA, wgmma, ping-pong, a list of query tiles for each block.
// FLASH_HOPPER of the lesson attention/hopper, written by python -m tilewise.kernels: change it there.
// Compile with -std=c++17 -arch=sm_90a.
#ifndef D
#define D 128
#endif
#ifndef CAUSAL
#define CAUSAL 0
#endif
#ifndef TURNS
#define TURNS 1
#endif
// hopper.cuh: the instructions that Hopper kernels share, one function each. Compile for sm_90a.
#ifndef HOPPER_CUH
#define HOPPER_CUH
#include <cuda_bf16.h>
typedef __nv_bfloat16 Bf16;
typedef unsigned long long u64;

// 128 bytes that cuTensorMapEncodeTiled fills in; pass it as const __grid_constant__ TensorMap.
struct __align__(128) TensorMap { unsigned long long opaque[16]; };

// A shared-memory address as PTX takes it: 32 bits, from the start of shared memory.
static __device__ unsigned smem_addr(const void* p) {
    return (unsigned)__cvta_generic_to_shared(p);
}

// A phase is complete after this many arrivals and all expected bytes.
static __device__ void mbarrier_init(u64* bar, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;"
                 :: "r"(smem_addr(bar)), "r"(arrivals) : "memory");
}
// Once after the last mbarrier_init: from here on the TMA sees the barriers.
static __device__ void mbarrier_init_fence() {
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
static __device__ void mbarrier_arrive(u64* bar) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(smem_addr(bar)) : "memory");
}
// Arrive, and expect this many bytes of TMA copies in this phase.
static __device__ void mbarrier_arrive_expect_tx(u64* bar, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 :: "r"(smem_addr(bar)), "r"(bytes) : "memory");
}
// Wait until the phase of this parity (0 or 1) is complete.
static __device__ void mbarrier_wait(u64* bar, int parity) {
    asm volatile("{\n.reg .pred done;\nagain:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again;\n}" :: "r"(smem_addr(bar)), "r"(parity) : "memory");
}

// Copy the box at (x, y) to shared memory, 128-byte aligned; its bytes count on the mbarrier.
static __device__ void tma_load_2d(void* to, const TensorMap* map, int x, int y, u64* bar) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile"
                 ".mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];"
                 :: "r"(smem_addr(to)), "l"(map), "r"(smem_addr(bar)), "r"(x), "r"(y) : "memory");
}
static __device__ void tma_load_3d(void* to, const TensorMap* map, int x, int y, int z, u64* bar) {
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile"
                 ".mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2];"
                 :: "r"(smem_addr(to)), "l"(map), "r"(smem_addr(bar)), "r"(x), "r"(y), "r"(z)
                 : "memory");
}
// One load into every block of the cluster whose rank is a bit of mask: to the same
// address in each, and its bytes count on the mbarrier at the same address in each.
static __device__ void tma_load_2d_multicast(void* to, const TensorMap* map,
                                             int x, int y, u64* bar, int mask) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile"
                 ".mbarrier::complete_tx::bytes.multicast::cluster "
                 "[%0], [%1, {%3, %4}], [%2], %5;"
                 :: "r"(smem_addr(to)), "l"(map), "r"(smem_addr(bar)),
                    "r"(x), "r"(y), "h"((unsigned short)mask) : "memory");
}
// A barrier of all threads of the cluster.
static __device__ void cluster_sync() {
    asm volatile("barrier.cluster.arrive.release.aligned;\n"
                 "barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// Where wgmma finds an operand with a 128-byte swizzle: its address and two byte offsets.
static __device__ u64 descriptor(const void* p, int leading, int stride) {
    return (u64)(smem_addr(p) & 0x3ffff) >> 4  // bits 0 to 13: start address / 16
         | (u64)(leading >> 4) << 16           // bits 16 to 29: leading byte offset / 16
         | (u64)(stride >> 4) << 32            // bits 32 to 45: stride byte offset / 16
         | 1ull << 62;                         // bits 62 and 63: 128-byte swizzle
}

// The operands of one accumulator: names of registers for the assembly, and the registers.
#define HOPPER_D4(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define HOPPER_D16(i) HOPPER_D4(i), HOPPER_D4(i + 4), HOPPER_D4(i + 8), HOPPER_D4(i + 12)
#define HOPPER_D32 HOPPER_D16(0), HOPPER_D16(16)
#define HOPPER_D64 HOPPER_D32, HOPPER_D16(32), HOPPER_D16(48)
#define HOPPER_D128 HOPPER_D64, HOPPER_D16(64), HOPPER_D16(80), HOPPER_D16(96), HOPPER_D16(112)
#define HOPPER_R32 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16," \
    "%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define HOPPER_R64 HOPPER_R32 ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44," \
    "%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define HOPPER_R128 HOPPER_R64 ",%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76," \
    "%77,%78,%79,%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95,%96," \
    "%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111,%112," \
    "%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"

// D += A B in the background, 64 x N x 16, A and B in shared memory, both K-major.
// accumulate = 0: D = A B.
static __device__ void wgmma_m64n128k16(float (&d)[64], u64 a, u64 b, int accumulate) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" HOPPER_R64 "}, "
        "%64, %65, p, 1, 1, 0, 0;\n}"
        : HOPPER_D64 : "l"(a), "l"(b), "r"(accumulate));
}
// The same with B MN-major: row-major as it is stored.
static __device__ void wgmma_m64n128k16_mn(float (&d)[64], u64 a, u64 b, int accumulate) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" HOPPER_R64 "}, "
        "%64, %65, p, 1, 1, 0, 1;\n}"
        : HOPPER_D64 : "l"(a), "l"(b), "r"(accumulate));
}
static __device__ void wgmma_m64n256k16_mn(float (&d)[128], u64 a, u64 b, int accumulate) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %130, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {" HOPPER_R128 "}, "
        "%128, %129, p, 1, 1, 0, 1;\n}"
        : HOPPER_D128 : "l"(a), "l"(b), "r"(accumulate));
}

// The same with A in registers, 64 x 16 in the layout of an accumulator packed to BF16, and B MN-major.
static __device__ void wgmma_m64n128k16_rs_mn(float (&d)[64], const unsigned* a, u64 b,
                                              int accumulate) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %69, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" HOPPER_R64 "}, "
        "{%64, %65, %66, %67}, %68, p, 1, 1, 1;\n}"
        : HOPPER_D64
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate));
}
static __device__ void wgmma_m64n64k16_rs_mn(float (&d)[32], const unsigned* a, u64 b,
                                             int accumulate) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %37, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" HOPPER_R32 "}, "
        "{%32, %33, %34, %35}, %36, p, 1, 1, 1;\n}"
        : HOPPER_D32
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate));
}

// Before the first wgmma, and after ordinary code has written registers that a wgmma reads.
static __device__ void wgmma_fence() {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
static __device__ void wgmma_commit() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// Wait until at most N groups are in flight. Names d, so that no use of it moves before the wait.
template <int N> static __device__ void wgmma_wait(float (&d)[32]) {
    asm volatile("wgmma.wait_group.sync.aligned %32;" : HOPPER_D32 : "n"(N) : "memory");
}
template <int N> static __device__ void wgmma_wait(float (&d)[64]) {
    asm volatile("wgmma.wait_group.sync.aligned %64;" : HOPPER_D64 : "n"(N) : "memory");
}
template <int N> static __device__ void wgmma_wait(float (&d)[128]) {
    asm volatile("wgmma.wait_group.sync.aligned %128;" : HOPPER_D128 : "n"(N) : "memory");
}

// Two floats to a register, the first one low.
static __device__ unsigned pack_bf16x2(float low, float high) {
    __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
    return *(unsigned*)&both;
}
// A named barrier (1 to 15) of the 128 threads of a warpgroup.
static __device__ void warpgroup_barrier(int id) {
    asm volatile("bar.sync %0, 128;" :: "r"(id) : "memory");
}
// The calling thread's writes to shared memory become visible to the TMA and wgmma.
static __device__ void fence_proxy_async() {
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
// Copy a box from shared memory to (x, y), except for elements outside the array.
static __device__ void tma_store_2d(const TensorMap* map, const void* from,
                                    int x, int y) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group "
                 "[%0, {%2, %3}], [%1];"
                 :: "l"(map), "r"(smem_addr(from)), "r"(x), "r"(y) : "memory");
}
// The calling thread's stores since the last commit become one group.
static __device__ void tma_store_commit() {
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
}
// Wait until the TMA has read the shared memory of all committed stores.
static __device__ void tma_store_wait_read() {
    asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
}
// Load a tensor map ahead of its first use.
static __device__ void prefetch_tensor_map(const TensorMap* map) {
    asm volatile("prefetch.tensormap [%0];" :: "l"(map) : "memory");
}

#endif  // HOPPER_CUH
#define KEYS 128                      // keys per tile
#define BOXES (D / 64)                // boxes of 64 columns per tile
#define Q_BYTES (64 * D * 2)          // queries of one consumer warpgroup
#define TILE_BYTES (KEYS * D * 2)     // a tile of K or of V

#define arrive(bar) mbarrier_arrive(bar)
// RS: P of 64 queries and 16 keys, from registers, times 16 keys and D columns of V
#if D == 128
#define wgmma_rs wgmma_m64n128k16_rs_mn
#else
#define wgmma_rs wgmma_m64n64k16_rs_mn
#endif
// Ping-pong of the consumer warpgroups 1 and 2. Consumer 1 begins.
static __device__ void take_turn(int group) {
    if (TURNS) asm volatile("bar.sync %0, 256;" :: "r"(1 + group) : "memory");
}
static __device__ void pass_turn(int group) {
    if (TURNS) asm volatile("bar.arrive %0, 256;" :: "r"(4 - group) : "memory");
}
// how many key tiles the rows from `first` on see: at least one
static __device__ int tiles_for(int first, int rows, int M, int shift) {
    int end = CAUSAL ? min(M, first + rows + shift) : M;
    return max(1, (end + KEYS - 1) / KEYS);
}
// scores of the tile from `key` on that the two rows of a lane must not see become -infinity
static __device__ void mask(float (&s)[64], int key, int row, int M, int shift) {
    int see = CAUSAL ? min(M - 1, row + shift) : M - 1;
    int see8 = CAUSAL ? min(M - 1, row + 8 + shift) : M - 1;
    key += threadIdx.x % 4 * 2;
    #pragma unroll
    for (int i = 0; i < 64; ++i)
        if (key + i / 4 * 8 + i % 2 > (i / 2 % 2 ? see8 : see)) s[i] = -INFINITY;
}
// a lane's two rows of scores become probabilities; alpha rescales earlier sums
static __device__ void online_softmax_step(float (&s)[64], float (&row_max)[2],
                                           float (&sum)[2], float (&alpha)[2],
                                           float scale2) {
    #pragma unroll
    for (int r = 0; r < 2; ++r) {
        float new_max = row_max[r];
        #pragma unroll
        for (int i = 2 * r; i < 64; i += 4)
            new_max = fmaxf(new_max, fmaxf(s[i], s[i + 1]));
        new_max = fmaxf(new_max, __shfl_xor_sync(~0u, new_max, 1));
        new_max = fmaxf(new_max, __shfl_xor_sync(~0u, new_max, 2));
        float base = new_max == -INFINITY ? 0.0f : new_max;  // no key yet
        alpha[r] = exp2f((row_max[r] - base) * scale2);
        row_max[r] = new_max;
        sum[r] *= alpha[r];
        base *= scale2;
        #pragma unroll
        for (int i = 2 * r; i < 64; i += 4) {
            s[i] = exp2f(s[i] * scale2 - base);
            s[i + 1] = exp2f(s[i + 1] * scale2 - base);
            sum[r] += s[i] + s[i + 1];
        }
    }
}
static __device__ void rescale(float (&o)[D / 2], const float (&alpha)[2]) {
    #pragma unroll
    for (int i = 0; i < D / 2; ++i) o[i] *= alpha[i / 2 % 2];
}
// accumulators to operand A of the next wgmma: two neighbouring columns per register
static __device__ void pack(unsigned (&p)[32], const float (&s)[64]) {
    #pragma unroll
    for (int i = 0; i < 32; ++i) p[i] = pack_bf16x2(s[2 * i], s[2 * i + 1]);
}
// S = Q K^T, and O += P V or O = P V, of a tile
static __device__ void qk_gemm(float (&s)[64], u64 q, u64 k) {
    #pragma unroll
    for (int i = 0; i < D / 16; ++i)
        wgmma_m64n128k16(s, q + (i / 4 * 8192 + i % 4 * 32 >> 4),
               k + (i / 4 * KEYS * 128 + i % 4 * 32 >> 4), i);
}
static __device__ void pv_gemm(float (&o)[D / 2], const unsigned (&p)[32], u64 v,
                                  int accumulate) {
    #pragma unroll
    for (int i = 0; i < KEYS / 16; ++i)  // 16 rows of V, 2,048 bytes
        wgmma_rs(o, &p[4 * i], v + (i * 2048 >> 4), accumulate | i);
}

// TMA store: a box of 64 columns of a consumer's O
static __device__ void tma_store_3d(const TensorMap* map, const void* base, int column, int row,
                             int head) {
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group "
                 "[%0, {%2, %3, %4}], [%1];"
                 :: "l"(map), "r"(smem_addr(base)), "r"(column), "r"(row), "r"(head) : "memory");
}
static __device__ void warpgroup_sync(int group) {  // a barrier of one warpgroup
    asm volatile("bar.sync %0, 128;" :: "r"(4 + group) : "memory");
}
// O of 64 queries, through shared memory
static __device__ void store_tile(unsigned char* smem_o, const TensorMap* o_map,
                             float (&o)[D / 2], const float (&inv_sum)[2],
                             int row, int head, int group) {
    int lane = threadIdx.x % 32, mine = threadIdx.x / 32 % 4 * 16 + lane % 16;
    bool leader = threadIdx.x % 128 == 0;
    if (leader) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
    warpgroup_sync(group);  // the last TMA store has read the buffer
    #pragma unroll
    for (int n = 0; n < D / 8; n += 2) {  // 8 columns each
        const float* x = o + 4 * n;
        int chunk = (n % 8 + lane / 16) ^ mine % 8;
        asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
            :: "r"(smem_addr(smem_o + n / 8 * 8192 + mine * 128 + chunk * 16)),
               "r"(pack_bf16x2(x[0] * inv_sum[0], x[1] * inv_sum[0])),
               "r"(pack_bf16x2(x[2] * inv_sum[1], x[3] * inv_sum[1])),
               "r"(pack_bf16x2(x[4] * inv_sum[0], x[5] * inv_sum[0])),
               "r"(pack_bf16x2(x[6] * inv_sum[1], x[7] * inv_sum[1])) : "memory");
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    warpgroup_sync(group);
    if (leader) {
        for (int c = 0; c < BOXES; ++c)
            tma_store_3d(o_map, smem_o + c * 8192, 64 * c, row, head);
        asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    }
}

// Kernel 8: flash_overlap with a list of query tiles per block. order: [entry][block] pairs (tile of 128
// queries, head), filled up with (-1, -1) at the end of shorter lists; an empty list is allowed. count: all
// entries. Layouts, M, share, shift and CAUSAL as for flash_wgmma; o_map: boxes of 1 x 64 x 64.
// Grid: blocks, at most one per SM. Block: 384. Dynamic shared memory: 128 * D * 14 bytes. sm_90a.
extern "C" __global__ void __launch_bounds__(384, 1)
flash_hopper(const __grid_constant__ TensorMap q_map,
             const __grid_constant__ TensorMap k_map,
             const __grid_constant__ TensorMap v_map,
             const __grid_constant__ TensorMap o_map, float* L, const int2* order,
             int count, int N, int M, int share, int shift, float scale) {
    extern __shared__ __align__(1024) unsigned char smem[];
    __shared__ __align__(8) u64 q_full[2], q_empty[2];
    __shared__ __align__(8) u64 k_full[2], k_empty[2], v_full[2], v_empty[2];
    unsigned char *q = smem, *k = q + 4 * Q_BYTES, *v = k + 2 * TILE_BYTES;
    unsigned char* smem_o = v + 2 * TILE_BYTES;
    int group = threadIdx.x / 128;
    if (threadIdx.x == 0) {
        for (int b = 0; b < 2; ++b) {
            mbarrier_init(&q_full[b], 1);
            mbarrier_init(&k_full[b], 1);
            mbarrier_init(&v_full[b], 1);
            mbarrier_init(&q_empty[b], 2);
            mbarrier_init(&k_empty[b], 2);
            mbarrier_init(&v_empty[b], 2);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    if (group == 0) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
        if (threadIdx.x == 0) {
            int t = 0, u = 0;  // key tiles and query tiles so far
            for (int n = blockIdx.x; n < count; n += gridDim.x, ++u) {
                int first = order[n].x * 128, head = order[n].y;
                if (head < 0) break;  // end of a shorter list
                mbarrier_wait(&q_empty[u % 2], u / 2 % 2 ^ 1);
                mbarrier_arrive_expect_tx(&q_full[u % 2], 2 * Q_BYTES);
                for (int g = 0; g < 2; ++g)
                    for (int c = 0; c < BOXES; ++c)
                        tma_load_3d(q + (u % 2 * 2 + g) * Q_BYTES + c * 8192, &q_map, 64 * c,
                             first + 64 * g, head, &q_full[u % 2]);
                for (int j = tiles_for(first, 128, M, shift) - 1; j >= 0; --j, ++t) {
                    int b = t % 2;
                    mbarrier_wait(&k_empty[b], t / 2 % 2 ^ 1);
                    mbarrier_arrive_expect_tx(&k_full[b], TILE_BYTES);
                    for (int c = 0; c < BOXES; ++c)
                        tma_load_3d(k + b * TILE_BYTES + c * KEYS * 128, &k_map, 64 * c,
                             j * KEYS, head / share, &k_full[b]);
                    mbarrier_wait(&v_empty[b], t / 2 % 2 ^ 1);
                    mbarrier_arrive_expect_tx(&v_full[b], TILE_BYTES);
                    for (int c = 0; c < BOXES; ++c)
                        tma_load_3d(v + b * TILE_BYTES + c * KEYS * 128, &v_map, 64 * c,
                             j * KEYS, head / share, &v_full[b]);
                }
            }
        }
        return;
    }
    asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
    int lane = threadIdx.x % 32, leader = threadIdx.x % 128 == 0;
    float s[64], o[D / 2], alpha[2], scale2 = scale * 1.44269504f;
    unsigned p[32];
    u64 mine = descriptor(q + (group - 1) * Q_BYTES, 16, 1024);
    u64 keys = descriptor(k, 16, 1024), values = descriptor(v, KEYS * 128, 1024);
    int t = 0, u = 0;
    int2 work = order[blockIdx.x];
    if (work.y < 0) return;  // an empty list
    if (group == 2) pass_turn(group);
    mbarrier_wait(&q_full[0], 0);
    mbarrier_wait(&k_full[0], 0);
    take_turn(group);
    wgmma_fence();
    qk_gemm(s, mine, keys);
    wgmma_commit();
    pass_turn(group);
    for (int n = blockIdx.x; work.y >= 0; n += gridDim.x, ++u) {  // a list
        int first = work.x * 128, head = work.y, j = tiles_for(first, 128, M, shift) - 1;
        int row = first + (group - 1) * 64 + threadIdx.x / 32 % 4 * 16 + lane / 4;
        float row_max[2] = {-INFINITY, -INFINITY}, sum[2] = {};
        wgmma_wait<0>(s);
        if (leader) arrive(&k_empty[t % 2]);
        if ((j + 1) * KEYS > M || CAUSAL) mask(s, j * KEYS, row, M, shift);
        online_softmax_step(s, row_max, sum, alpha, scale2);
        pack(p, s);
        int accumulate = 0;
        for (--j; j >= 0; --j, ++t) {
            int b = t % 2;
            mbarrier_wait(&k_full[b ^ 1], (t + 1) / 2 % 2);
            take_turn(group);
            wgmma_fence();
            qk_gemm(s, mine + u % 2 * (2 * Q_BYTES >> 4),
                         keys + (b ^ 1) * (TILE_BYTES >> 4));
            wgmma_commit();
            mbarrier_wait(&v_full[b], t / 2 % 2);
            pv_gemm(o, p, values + b * (TILE_BYTES >> 4), accumulate);
            wgmma_commit();
            pass_turn(group);
            accumulate = 1;
            wgmma_wait<1>(s);  // PV of tile t is in flight
            if (leader) arrive(&k_empty[b ^ 1]);
            if (CAUSAL && (j + 1) * KEYS > first + shift)
                mask(s, j * KEYS, row, M, shift);
            online_softmax_step(s, row_max, sum, alpha, scale2);
            wgmma_wait<0>(o);
            if (leader) arrive(&v_empty[b]);
            rescale(o, alpha);
            pack(p, s);
        }
        mbarrier_wait(&v_full[t % 2], t / 2 % 2);
        if (leader) arrive(&q_empty[u % 2]);
        work = n + gridDim.x < count ? order[n + gridDim.x] : make_int2(0, -1);
        int more = work.y >= 0;  // no branch around wgmma
        if (more) {
            mbarrier_wait(&q_full[(u + 1) % 2], (u + 1) / 2 % 2);
            mbarrier_wait(&k_full[(t + 1) % 2], (t + 1) / 2 % 2);
        }
        take_turn(group);
        wgmma_fence();
        pv_gemm(o, p, values + t % 2 * (TILE_BYTES >> 4), accumulate);
        wgmma_commit();
        qk_gemm(s, mine + (u + more) % 2 * (2 * Q_BYTES >> 4),
                     keys + (t + more) % 2 * (TILE_BYTES >> 4));
        wgmma_commit();  // at the end of the list for nobody
        pass_turn(group);
        float inv_sum[2];
        #pragma unroll
        for (int r = 0; r < 2; ++r) {
            float z = sum[r];
            z += __shfl_xor_sync(~0u, z, 1);
            z += __shfl_xor_sync(~0u, z, 2);
            inv_sum[r] = z > 0.0f ? 1.0f / z : 0.0f;  // no key at all: zeros
            if (lane % 4 == 0 && row + 8 * r < N)
                L[(size_t)head * N + row + 8 * r] =
                    z > 0.0f ? row_max[r] * scale + logf(z) : -INFINITY;
        }
        wgmma_wait<1>(o);
        if (leader) arrive(&v_empty[t % 2]);
        ++t;
        store_tile(smem_o + (group - 1) * Q_BYTES, &o_map, o, inv_sum,
              first + (group - 1) * 64, head, group);
    }
    wgmma_wait<0>(s);
    if (leader) asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
    if (group == 1) take_turn(group);  // what group 2 passed last
}
