// Y = softmax of each row of X, the row in the registers of a cluster's blocks, on Hopper.
// LONG of the lesson attention/softmax_long, written by python -m tilewise.kernels: change it there.
// Compile with -std=c++17 -arch=sm_90a.
#ifndef Number
#define Number float
#endif
#ifndef THREADS
#define THREADS 64
#endif
#ifndef SHARE
#define SHARE 8
#endif
#ifndef BLOCKS
#define BLOCKS 2
#endif
#ifndef SLOTS
#define SLOTS 2
#endif
#ifndef AT_ONCE
#define AT_ONCE 1
#endif
#ifndef LAG
#define LAG 0
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
#define VEC (16 / (int)sizeof(Number))  // elements per 16 bytes
#define CHUNKS (SHARE / VEC)              // 16-byte chunks per thread
#define WARPS (THREADS / 32)
#define SLICE (THREADS * SHARE)         // elements of a row per block
#define LOG2E 1.44269504f

struct Pair { float m, z; };  // a maximum times LOG2E; a sum relative to it

static __device__ Pair combine(Pair a, Pair b) {
    float m = fmaxf(a.m, b.m), shift = m == -INFINITY ? 0.0f : m;
    return {m, a.z * exp2f(a.m - shift) + b.z * exp2f(b.m - shift)};
}

// Combines the pairs of a warp's lanes; every lane gets the result.
static __device__ Pair warp_reduce(Pair pair) {
    float m = pair.m;
    for (int h = 16; h > 0; h /= 2) m = fmaxf(m, __shfl_xor_sync(~0u, m, h));
    float z = m == -INFINITY ? 0.0f : pair.z * exp2f(pair.m - m);
    for (int h = 16; h > 0; h /= 2) z += __shfl_xor_sync(~0u, z, h);
    return {m, z};
}

// A thread's exponentials relative to its pair maximum, and that maximum with their sum.
static __device__ Pair exponentials(float (&e)[SHARE], const uint4 (&chunk)[CHUNKS]) {
    #pragma unroll
    for (int k = 0; k < SHARE; ++k) e[k] = ((const Number*)&chunk[k / VEC])[k % VEC];
    float m = -INFINITY, z = 0.0f;
    #pragma unroll
    for (int k = 0; k < SHARE; ++k) m = fmaxf(m, e[k]);
    m *= LOG2E;
    float shift = fmaxf(m, -3e38f);  // minus infinity minus this is minus infinity
    #pragma unroll
    for (int k = 0; k < SHARE; ++k) {
        e[k] = exp2f(fmaf(e[k], LOG2E, -shift));
        z += e[k];
    }
    return {m, z};
}

static __device__ uint4 pack(const float* e, float factor) {
    uint4 chunk;
    Number* part = (Number*)&chunk;
    for (int k = 0; k < VEC; ++k) part[k] = (Number)(e[k] * factor);
    return chunk;
}

static __device__ int cluster_rank() {
    int r;
    asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
    return r;
}

// The address of the same variable in another block of the cluster.
static __device__ unsigned remote_addr(const void* p, int block) {
    unsigned other;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
                 : "=r"(other) : "r"(smem_addr(p)), "r"(block));
    return other;
}

static __device__ void mbarrier_init(u64* bar) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" :: "r"(smem_addr(bar)) : "memory");
}

// Sends a pair to another block, whose mbarrier counts the bytes.
static __device__ void send_pair(Pair* to, Pair pair, u64* bar, int block) {
    u64 both = (u64)__float_as_uint(pair.z) << 32 | __float_as_uint(pair.m);
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.b64 [%0], %1, [%2];"
                 :: "r"(remote_addr(to, block)), "l"(both), "r"(remote_addr(bar, block)) : "memory");
}

static __device__ void cluster_arrive() {
    asm volatile("barrier.cluster.arrive.aligned;" ::: "memory");
}
static __device__ void cluster_wait() { asm volatile("barrier.cluster.wait.aligned;" ::: "memory"); }

// Starts a bulk copy from global to shared memory; its bytes complete the mbarrier's phase.
// Addresses and bytes are multiples of 16.
static __device__ void bulk_load(void* to, const void* from, int bytes, u64* bar) {
    mbarrier_arrive_expect_tx(bar, bytes);
    if (bytes > 0)
        asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
                     "[%0], [%1], %2, [%3];"
                     :: "r"(smem_addr(to)), "l"(from), "r"(bytes), "r"(smem_addr(bar)) : "memory");
}

// Y = softmax of each row of X, both row-major [rows][cols], 16-byte aligned; sm_90 or newer.
// Number is float or __nv_bfloat16. cols must be a multiple of VEC (4 for float, 8 for BF16) and at
// most BLOCKS * SLICE: every row must start at a multiple of 16 bytes. Otherwise the bulk copy faults.
// Each cluster of BLOCKS blocks processes every clusters-th row: launch a multiple of BLOCKS blocks of
// THREADS threads, best as many as run at once, with SLOTS * SLICE * sizeof(Number) bytes of dynamic
// shared memory.
// LAG staggers the start, in cycles; AT_ONCE is the number of resident blocks per SM. SHARE elements
// per thread, a multiple of VEC. BLOCKS <= 16 (more than 8 need an opt-in by the host).
extern "C" __global__ void __cluster_dims__(BLOCKS) __launch_bounds__(THREADS, AT_ONCE)
softmax_long(const Number* X, Number* Y, int rows, int cols) {
    extern __shared__ __align__(128) uint4 memory[];
    __shared__ __align__(8) u64 full[SLOTS], pairs_full[2];
    __shared__ Pair warp_pairs[2][BLOCKS * WARPS];
    const int t = threadIdx.x, lane = t % 32, clusters = gridDim.x / BLOCKS;
    const int begin = cluster_rank() * SLICE, count = max(0, min(SLICE, cols - begin));
    const int bytes = count * (int)sizeof(Number);
    const unsigned minus_inf = sizeof(Number) == 2 ? 0xff80ff80 : 0xff800000;  // minus infinity
    int row = blockIdx.x / BLOCKS;
    X += begin;
    Y += begin;
    if (t == 0) {
        const int slot_on_sm = row * AT_ONCE / clusters;
        const long long begun = LAG * slot_on_sm > 0 ? clock64() : 0;  // staggered start
        while (LAG * slot_on_sm > 0 && clock64() - begun < LAG * slot_on_sm);
        for (int s = 0; s < SLOTS; ++s) mbarrier_init(&full[s]);
        for (int s = 0; s < 2; ++s) mbarrier_init(&pairs_full[s]);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        for (int s = 0; s < SLOTS && row + s * clusters < rows; ++s)
            bulk_load(memory + s * (SLICE / VEC), X + (long long)(row + s * clusters) * cols,
                bytes, &full[s]);
    }
    __syncthreads();
    cluster_arrive();  // this block is running
    for (int n = 0; row < rows; row += clusters, ++n) {
        uint4* buffer = memory + n % SLOTS * (SLICE / VEC);
        mbarrier_wait(&full[n % SLOTS], n / SLOTS % 2);
        uint4 chunk[CHUNKS];
        #pragma unroll
        for (int k = 0; k < CHUNKS; ++k) {
            int i = t + k * THREADS;
            chunk[k] = i * VEC < count ? buffer[i] : uint4{minus_inf, minus_inf, minus_inf, minus_inf};
        }
        float e[SHARE];
        Pair mine = exponentials(e, chunk), pair = warp_reduce(mine);
        if (t == 0) mbarrier_arrive_expect_tx(&pairs_full[n % 2], sizeof(warp_pairs) / 2);
        if (n == 0) cluster_wait();  // every block of the cluster is running
        if (lane < BLOCKS)
            send_pair(&warp_pairs[n % 2][cluster_rank() * WARPS + t / 32], pair, &pairs_full[n % 2], lane);
        __syncthreads();  // every warp has read the buffer
        if (t == 0 && row + SLOTS * clusters < rows)
            bulk_load(buffer, X + (long long)(row + SLOTS * clusters) * cols,
                bytes, &full[n % SLOTS]);
        mbarrier_wait(&pairs_full[n % 2], n / 2 % 2);  // the pairs of all warps have arrived
        Pair all = lane < BLOCKS * WARPS ? warp_pairs[n % 2][lane] : Pair{-INFINITY, 0.0f};
        #pragma unroll
        for (int k = lane + 32; k < BLOCKS * WARPS; k += 32)
            all = combine(all, warp_pairs[n % 2][k]);
        all = warp_reduce(all);
        float factor = all.z > 0.0f ? exp2f(mine.m - all.m) / all.z : 0.0f;
        uint4* to = (uint4*)(Y + (long long)row * cols);
        #pragma unroll
        for (int k = 0; k < CHUNKS; ++k) {
            uint4 made = pack(e + k * VEC, factor);
            if ((t + k * THREADS) * VEC < count) to[t + k * THREADS] = made;
        }
    }
}
