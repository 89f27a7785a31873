// The gradients of attention in BF16 on Hopper; d = 128; before it prepare, after it finish.
// BACKWARD of the lesson attention/masks_and_backward, written by python -m tilewise.kernels: change it there.
// Compile with -std=c++17 -arch=sm_90a.
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
#define QUERIES 64  // per tile
#define KEYS 128    // per block
#define D 128
#define STAGES 2
#define Q_BYTES (QUERIES * D * 2)
#define K_BYTES (KEYS * D * 2)

static __device__ void named_barrier(int barrier, int threads) {
    asm volatile("bar.sync %0, %1;" :: "r"(barrier), "r"(threads) : "memory");
}
// `rows` rows of D elements, in two boxes of 64 columns: a 128-byte swizzle allows no wider ones
static __device__ void load_tile(unsigned char* to, const TensorMap* map, int rows,
                            int row, int head, u64* bar) {
    for (int c = 0; c < D; c += 64)
        asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile"
                     ".mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2];"
                     :: "r"(smem_addr(to) + c / 64 * rows * 128), "l"(map), "r"(smem_addr(bar)),
                        "r"(c), "r"(row), "r"(head) : "memory");
}
static __device__ void bulk_load(float* to, const float* from, u64* bar) {
    asm volatile("cp.async.bulk.shared::cluster.global"
                 ".mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];"
                 :: "r"(smem_addr(to)), "l"(from), "n"(QUERIES * 4), "r"(smem_addr(bar))
                 : "memory");
}
static __device__ void tma_store_3d(const TensorMap* map, const unsigned char* from,
                             int column, int row, int head) {
    asm volatile("cp.async.bulk.tensor.3d.global.shared::cta.tile.bulk_group "
                 "[%0, {%2, %3, %4}], [%1];"
                 :: "l"(map), "r"(smem_addr(from)), "r"(column), "r"(row), "r"(head)
                 : "memory");
}
// An operand for wgmma: its address and two byte offsets, in units of 16 bytes.
static __device__ u64 descriptor(const void* p, int leading) {
    return (u64)(smem_addr(p) & 0x3ffff) >> 4 | (u64)(leading >> 4) << 16
         | (u64)(1024 >> 4) << 32 | 1ull << 62;  // stride; 128-byte swizzle
}
// d += A B^T, 64 x 16 times 16 x 64, both operands K-major. accumulate = 0: d = A B^T.
static __device__ void wgmma_m64n64k16(float (&d)[32], u64 a, u64 b, int accumulate) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" HOPPER_R32 "}, "
        "%32, %33, p, 1, 1, 0, 0;\n}" : HOPPER_D32 : "l"(a), "l"(b), "r"(accumulate));
}
// The same with both operands MN-major: 16 keys are the rows of A and B in shared memory.
static __device__ void wgmma_m64n64k16_mn(float (&d)[32], u64 a, u64 b, int accumulate) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {" HOPPER_R32 "}, "
        "%32, %33, p, 1, 1, 1, 1;\n}" : HOPPER_D32 : "l"(a), "l"(b), "r"(accumulate));
}
// d += A B, 64 x 16 times 16 x D, A from registers, B MN-major.
static __device__ void wgmma_m64n128k16_rs(float (&d)[64], const unsigned* a, u64 b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" HOPPER_R64
        "}, {%64, %65, %66, %67}, %68, 1, 1, 1, 1;"
        : HOPPER_D64 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
static __device__ float exp2_approx(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}
// Four 8 x 8 matrices from registers to rows of 128 bytes, with the 128-byte swizzle.
static __device__ void stmatrix_x4(unsigned char* tile, int row, int chunk,
                           unsigned a, unsigned b, unsigned c, unsigned d) {
    asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
                 :: "r"(smem_addr(tile) + row * 128 + (chunk ^ row % 8) * 16),
                    "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
}

// delta = the row sums of dO * O, lse = L log2(e), sums = 0.
// O and dO: BF16 [heads][N][128], 16-byte aligned. L: [heads][N], natural logarithm. delta and lse: [heads][padded],
// sums: [heads][padded][128]; padded is N rounded up to a multiple of 64.
// A row without keys, for which the forward pass leaves L = -infinity, gets lse = +infinity, and so does a
// row beyond N: exp2(s - lse) is then 0. Grid: (padded / 16, heads). Block: 256, 8 elements per thread.
extern "C" __global__ void __launch_bounds__(256)
prepare(const Bf16* O, const Bf16* dO, const float* L, float* delta, float* lse,
        float* sums, int N, int padded) {
    int row = (blockIdx.x * 256 + threadIdx.x) / 16, part = threadIdx.x % 16;
    if (row >= padded) return;
    size_t from = (size_t)blockIdx.y * N + row, to = (size_t)blockIdx.y * padded + row;
    float sum = 0.0f;
    if (row < N) {
        uint4 a = ((const uint4*)O)[from * 16 + part];
        uint4 b = ((const uint4*)dO)[from * 16 + part];
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            unsigned x = (&a.x)[i], y = (&b.x)[i];
            sum += __uint_as_float(x << 16) * __uint_as_float(y << 16)
                 + __uint_as_float(x & 0xFFFF0000u) * __uint_as_float(y & 0xFFFF0000u);
        }
    }
    for (int offset = 8; offset > 0; offset /= 2) sum += __shfl_xor_sync(~0u, sum, offset);
    if (part == 0) {
        delta[to] = sum;
        float l = row < N ? L[from] : -INFINITY;  // as a row without keys
        lse[to] = l > -INFINITY ? l * 1.44269504f : INFINITY;
    }
    float4* zeros = (float4*)(sums + to * D) + part * 2;
    zeros[0] = zeros[1] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
}

// dK and dV in BF16, dQ accumulated in sums (FP32, in the order of wgmma's fragments; finish converts it).
// Tensor maps of BF16 [heads][N][128] with a 128-byte swizzle: boxes of 64 x 64 for Q, dO, dK and dV,
// of 128 x 64 for K and V. As many keys as queries; any N: what is missing arrives as zeros.
// Grid: (ceil(N / 128), heads), or with heads_first = 1 (heads, ceil(N / 128)). Block: 384, a producer
// and two consumer warpgroups. Dynamic shared memory: 180,224 bytes. sm_90a only. No mask but the causal
// one, no dropout, no grouped query heads, d = 128 only. dQ isn't deterministic in its last bits.
extern "C" __global__ void __launch_bounds__(384, 1)
backward(const __grid_constant__ TensorMap q_map,
         const __grid_constant__ TensorMap do_map,
         const __grid_constant__ TensorMap k_map,
         const __grid_constant__ TensorMap v_map,
         const __grid_constant__ TensorMap dk_map,
         const __grid_constant__ TensorMap dv_map,
         const float* lse, const float* delta, float* sums,
         int padded, float scale, int causal, int heads_first) {
    extern __shared__ __align__(1024) unsigned char smem[];
    __shared__ __align__(16) float smem_lse[STAGES][QUERIES], smem_delta[STAGES][QUERIES];
    __shared__ __align__(8) u64 kv_full;
    __shared__ __align__(8) u64 q_full[STAGES], q_empty[STAGES];
    __shared__ __align__(8) u64 do_full[STAGES], do_empty[STAGES];
    unsigned char *k = smem, *v = k + K_BYTES, *q = v + K_BYTES;  // g: dO
    unsigned char *g = q + STAGES * Q_BYTES, *smem_ds = g + STAGES * Q_BYTES;
    unsigned char *smem_dq = smem_ds + QUERIES * KEYS * 2;
    int warpgroup = threadIdx.x / 128, tid = threadIdx.x % 128;
    if (threadIdx.x == 0) {
        mbarrier_init(&kv_full, 1);
        for (int s = 0; s < STAGES; ++s) {
            mbarrier_init(&q_full[s], 1);
            mbarrier_init(&do_full[s], 1);
            mbarrier_init(&q_empty[s], 2);
            mbarrier_init(&do_empty[s], 2);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    int head = heads_first ? blockIdx.x : blockIdx.y;
    int j0 = (heads_first ? blockIdx.y : blockIdx.x) * KEYS;
    int first = causal ? j0 / QUERIES : 0, tiles = padded / QUERIES;
    size_t row0 = (size_t)head * padded;
    if (warpgroup == 0) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
        if (tid > 0) return;
        mbarrier_arrive_expect_tx(&kv_full, 2 * K_BYTES);
        load_tile(k, &k_map, KEYS, j0, head, &kv_full);
        load_tile(v, &v_map, KEYS, j0, head, &kv_full);
        for (int m = first, step = 0; m < tiles; ++m, ++step) {
            int s = step % STAGES, empty_parity = ~(step / STAGES) & 1, i0 = m * QUERIES;
            mbarrier_wait(&q_empty[s], empty_parity);
            mbarrier_arrive_expect_tx(&q_full[s], Q_BYTES + QUERIES * 4);
            load_tile(q + s * Q_BYTES, &q_map, QUERIES, i0, head, &q_full[s]);
            bulk_load(smem_lse[s], lse + row0 + i0, &q_full[s]);
            mbarrier_wait(&do_empty[s], empty_parity);
            mbarrier_arrive_expect_tx(&do_full[s], Q_BYTES + QUERIES * 4);
            load_tile(g + s * Q_BYTES, &do_map, QUERIES, i0, head, &do_full[s]);
            bulk_load(smem_delta[s], delta + row0 + i0, &do_full[s]);
        }
        return;
    }
    asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
    int half = warpgroup - 1, lane = threadIdx.x % 32, warp = tid / 32;
    int row = warp * 16 + lane % 16, column = lane % 4 * 2;  // in a tile
    float scale_log2 = scale * 1.44269504f, dk[D / 2] = {}, dv[D / 2] = {};
    mbarrier_wait(&kv_full, 0);
    for (int m = first, step = 0; m < tiles; ++m, ++step) {
        int s = step % STAGES, parity = step / STAGES & 1;
        unsigned char *q_tile = q + s * Q_BYTES, *do_tile = g + s * Q_BYTES;
        float p[QUERIES / 2], dp[QUERIES / 2];
        mbarrier_wait(&q_full[s], parity);
        wgmma_fence();
        #pragma unroll
        for (int c = 0; c < 8; ++c)  // S^T: 64 keys by 64 queries
            wgmma_m64n64k16(p, descriptor(k + c / 4 * 16384 + half * 8192 + c % 4 * 32, 16),
                    descriptor(q_tile + c / 4 * 8192 + c % 4 * 32, 16), c);
        wgmma_commit();
        mbarrier_wait(&do_full[s], parity);
        wgmma_fence();
        #pragma unroll
        for (int c = 0; c < 8; ++c)
            wgmma_m64n64k16(dp, descriptor(v + c / 4 * 16384 + half * 8192 + c % 4 * 32, 16),
                    descriptor(do_tile + c / 4 * 8192 + c % 4 * 32, 16), c);
        wgmma_commit();
        wgmma_wait<1>(p);
        unsigned w[QUERIES / 4];  // P^T in BF16, as A of the next GEMM
        #pragma unroll
        for (int i = 0; i < 32; ++i)
            p[i] = exp2_approx(p[i] * scale_log2
                               - smem_lse[s][i / 4 * 8 + column + i % 2]);
        if (causal && m < first + KEYS / QUERIES) {
            int key = j0 + half * 64 + warp * 16 + lane / 4;
            #pragma unroll
            for (int i = 0; i < 32; ++i)
                if (key + i / 2 % 2 * 8 > m * QUERIES + i / 4 * 8 + column + i % 2)
                    p[i] = 0.0f;
        }
        #pragma unroll
        for (int i = 0; i < 16; ++i) w[i] = pack_bf16x2(p[2 * i], p[2 * i + 1]);
        wgmma_wait<0>(dp);
        wgmma_fence();
        #pragma unroll
        for (int i = 0; i < 4; ++i)
            wgmma_m64n128k16_rs(dv, w + 4 * i, descriptor(do_tile + i * 2048, 8192));
        wgmma_commit();
        unsigned e[QUERIES / 4];  // dS^T in BF16, as A of dK's GEMM
        #pragma unroll
        for (int i = 0; i < 32; i += 2) {
            float2 d = *(float2*)&smem_delta[s][i / 4 * 8 + column];
            e[i / 2] = pack_bf16x2(p[i] * (dp[i] - d.x),
                                   p[i + 1] * (dp[i + 1] - d.y));
        }
        named_barrier(2, 256);  // both warpgroups have read the previous dS
        #pragma unroll
        for (int i = 0; i < 16; i += 4)
            stmatrix_x4(smem_ds + half * 8192, row, i / 2 + lane / 16,
                e[i], e[i + 1], e[i + 2], e[i + 3]);
        fence_proxy_async();
        named_barrier(3, 256);  // both halves of dS are complete
        float dq[D / 4];  // 64 queries by half of D
        wgmma_fence();
        #pragma unroll
        for (int i = 0; i < KEYS / 16; ++i)
            wgmma_m64n64k16_mn(dq, descriptor(smem_ds + i * 2048, 8192),
                   descriptor(k + half * 16384 + i * 2048, 16384), i);
        wgmma_commit();
        #pragma unroll
        for (int i = 0; i < 4; ++i)
            wgmma_m64n128k16_rs(dk, e + 4 * i, descriptor(q_tile + i * 2048, 8192));
        wgmma_commit();
        wgmma_wait<1>(dq);
        if (tid == 0) mbarrier_arrive(&do_empty[s]);
        float* to = sums + (row0 + m * QUERIES) * D + half * (QUERIES * D / 2);
        float4* dq_tile = (float4*)(smem_dq + half * (QUERIES * D * 2));
        if (tid == 0) asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
        named_barrier(4 + half, 128);  // the previous tile of dQ has been read
        #pragma unroll
        for (int i = 0; i < D / 16; ++i)
            dq_tile[i * 128 + tid] =
                make_float4(dq[4 * i], dq[4 * i + 1], dq[4 * i + 2], dq[4 * i + 3]);
        fence_proxy_async();
        named_barrier(4 + half, 128);
        if (tid == 0) {
            asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 "
                         "[%0], [%1], %2;"
                         :: "l"(to), "r"(smem_addr(dq_tile)), "n"(QUERIES * D * 2) : "memory");
            asm volatile("cp.async.bulk.commit_group;" ::: "memory");
        }
        wgmma_wait<0>(dk);
        if (tid == 0) mbarrier_arrive(&q_empty[s]);
    }
    wgmma_wait<0>(dv);
    wgmma_wait<0>(dk);
    named_barrier(2, 256);  // k and v are free: dK and dV reuse their memory
    #pragma unroll
    for (int i = 0; i < D / 2; i += 8) {
        int tile = i / 32 * 16384 + half * 8192, chunk = i / 4 % 8 + lane / 16;
        const float *x = dk + i, *y = dv + i;
        stmatrix_x4(k + tile, row, chunk, pack_bf16x2(x[0] * scale, x[1] * scale),
            pack_bf16x2(x[2] * scale, x[3] * scale), pack_bf16x2(x[4] * scale, x[5] * scale),
            pack_bf16x2(x[6] * scale, x[7] * scale));
        stmatrix_x4(v + tile, row, chunk, pack_bf16x2(y[0], y[1]), pack_bf16x2(y[2], y[3]),
            pack_bf16x2(y[4], y[5]), pack_bf16x2(y[6], y[7]));
    }
    fence_proxy_async();
    named_barrier(4 + half, 128);
    if (tid > 0) return;
    for (int c = 0; c < 2; ++c) {
        int tile = c * 16384 + half * 8192;
        tma_store_3d(&dk_map, k + tile, 64 * c, j0 + half * 64, head);
        tma_store_3d(&dv_map, v + tile, 64 * c, j0 + half * 64, head);
    }
    asm volatile("cp.async.bulk.commit_group;" ::: "memory");
    asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
}

// dQ = scale * sums, BF16 [heads][N][128]. A tile of sums has two halves of D, and a half has 8 x 128
// groups of four accumulators, two from each of two rows that are 8 apart.
// Grid: (padded / 64, 2, heads). Block: 128.
extern "C" __global__ void __launch_bounds__(128)
finish(const float* sums, Bf16* dQ, float scale, int N, int padded) {
    int i0 = blockIdx.x * QUERIES, half = blockIdx.y, t = threadIdx.x;
    const float4* from = (const float4*)(sums + ((size_t)blockIdx.z * padded + i0) * D)
                       + half * (QUERIES * D / 8);
    int row = i0 + t / 32 * 16 + t % 32 / 4;
    #pragma unroll
    for (int i = 0; i < D / 16; ++i) {
        float4 x = from[i * 128 + t];
        int column = half * (D / 2) + i * 8 + t % 4 * 2;
        unsigned* to = (unsigned*)(dQ + ((size_t)blockIdx.z * N + row) * D + column);
        if (row < N) *to = pack_bf16x2(x.x * scale, x.y * scale);
        if (row + 8 < N) to[4 * D] = pack_bf16x2(x.z * scale, x.w * scale);
    }
}
