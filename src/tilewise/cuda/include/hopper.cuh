// hopper.cuh: the instructions that Hopper kernels share, one function each. Compile for sm_90a.
#ifndef HOPPER_CUH
#define HOPPER_CUH
#include <cuda_bf16.h>
typedef __nv_bfloat16 Bf16;
typedef unsigned long long u64;

// [tensor_map
// 128 bytes that cuTensorMapEncodeTiled fills in; pass it as const __grid_constant__ TensorMap.
struct __align__(128) TensorMap { unsigned long long opaque[16]; };
// tensor_map]

// [smem_addr
// A shared-memory address as PTX takes it: 32 bits, from the start of shared memory.
static __device__ unsigned smem_addr(const void* p) {
    return (unsigned)__cvta_generic_to_shared(p);
}
// smem_addr]

// [mbarrier
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
// mbarrier]

// [tma_load
// Copy the box at (x, y) to shared memory, 128-byte aligned; its bytes count on the mbarrier.
static __device__ void tma_load_2d(void* to, const TensorMap* map, int x, int y, u64* bar) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile"
                 ".mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];"
                 :: "r"(smem_addr(to)), "l"(map), "r"(smem_addr(bar)), "r"(x), "r"(y) : "memory");
}
// tma_load]
static __device__ void tma_load_3d(void* to, const TensorMap* map, int x, int y, int z, u64* bar) {
    asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.tile"
                 ".mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5}], [%2];"
                 :: "r"(smem_addr(to)), "l"(map), "r"(smem_addr(bar)), "r"(x), "r"(y), "r"(z)
                 : "memory");
}
// [tma_multicast
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
// tma_multicast]

// [descriptor
// Where wgmma finds an operand with a 128-byte swizzle: its address and two byte offsets.
static __device__ u64 descriptor(const void* p, int leading, int stride) {
    return (u64)(smem_addr(p) & 0x3ffff) >> 4  // bits 0 to 13: start address / 16
         | (u64)(leading >> 4) << 16           // bits 16 to 29: leading byte offset / 16
         | (u64)(stride >> 4) << 32            // bits 32 to 45: stride byte offset / 16
         | 1ull << 62;                         // bits 62 and 63: 128-byte swizzle
}
// descriptor]

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

// [wgmma_k_major
// D += A B in the background, 64 x N x 16, A and B in shared memory, both K-major.
// accumulate = 0: D = A B.
static __device__ void wgmma_m64n128k16(float (&d)[64], u64 a, u64 b, int accumulate) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" HOPPER_R64 "}, "
        "%64, %65, p, 1, 1, 0, 0;\n}"
        : HOPPER_D64 : "l"(a), "l"(b), "r"(accumulate));
}
// wgmma_k_major]
// [wgmma_mn_major
// The same with B MN-major: row-major as it is stored.
static __device__ void wgmma_m64n128k16_mn(float (&d)[64], u64 a, u64 b, int accumulate) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" HOPPER_R64 "}, "
        "%64, %65, p, 1, 1, 0, 1;\n}"
        : HOPPER_D64 : "l"(a), "l"(b), "r"(accumulate));
}
// wgmma_mn_major]
static __device__ void wgmma_m64n256k16_mn(float (&d)[128], u64 a, u64 b, int accumulate) {
    asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %130, 0;\n"
        "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {" HOPPER_R128 "}, "
        "%128, %129, p, 1, 1, 0, 1;\n}"
        : HOPPER_D128 : "l"(a), "l"(b), "r"(accumulate));
}

// [wgmma_from_registers
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
// wgmma_from_registers]

// [wgmma_order
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
// wgmma_order]

// Two floats to a register, the first one low.
static __device__ unsigned pack_bf16x2(float low, float high) {
    __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
    return *(unsigned*)&both;
}
// A named barrier (1 to 15) of the 128 threads of a warpgroup.
static __device__ void warpgroup_barrier(int id) {
    asm volatile("bar.sync %0, 128;" :: "r"(id) : "memory");
}
// [tma_store
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
// tma_store]
// Load a tensor map ahead of its first use.
static __device__ void prefetch_tensor_map(const TensorMap* map) {
    asm volatile("prefetch.tensormap [%0];" :: "l"(map) : "memory");
}

#endif  // HOPPER_CUH
