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
#include <cuda_bf16.h>
#define VEC (16 / (int)sizeof(Number))  // elements per 16 bytes
#define CHUNKS (SHARE / VEC)              // 16-byte chunks per thread
#define WARPS (THREADS / 32)
#define SLICE (THREADS * SHARE)         // elements of a row per block
#define LOG2E 1.44269504f
typedef unsigned long long u64;

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

static __device__ unsigned smem_addr(const void* p) {
    return (unsigned)__cvta_generic_to_shared(p);
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

static __device__ void mbarrier_expect_tx(u64* bar, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 :: "r"(smem_addr(bar)), "r"(bytes) : "memory");
}

static __device__ void mbarrier_wait(u64* bar, int parity) {
    asm volatile("{\n.reg .pred done;\nagain:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again;\n}" :: "r"(smem_addr(bar)), "r"(parity) : "memory");
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
    mbarrier_expect_tx(bar, bytes);
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
        if (t == 0) mbarrier_expect_tx(&pairs_full[n % 2], sizeof(warp_pairs) / 2);
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
