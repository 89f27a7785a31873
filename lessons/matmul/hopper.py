# ---
# title: The Hopper machine
# needs: [matmul/matrix_units, matmul/tiles_and_waves, matmul/wgmma]
# summary: "One instruction, one copy unit, one kind of barrier: what does each of them add to a product of matrices, and do 200 lines with all three come near the matrix units' own rate?"
# description: "TMA, mbarriers, wgmma, producer and consumers, clusters: a ladder of ten rungs beside the library, the fastest kernel in 200 lines of CUDA C."
# date: 2026-11-21
# tags: [Hopper, wgmma, TMA, mbarrier, clusters]
# ---

# %% [markdown]
# At the tensor cores' peak (data sheet), {{ task.peak | .1f }} TFLOP/s, a GEMM of
# 4,096 takes {{ task.us | us }}. With `mma.sync` it takes {{ task.mma_us | us }} at best, for
# that instruction alone was recorded at {{ task.mma_share | .0%  }} of the peak. Hopper has an
# instruction of its own, a unit that feeds it, and barriers between the two. What does each of them
# add, and how near to the {{ task.us | us }} does a kernel of {{ fast.lines }} lines come?

# %% [markdown]
# ## Operands from shared memory
#
# `wgmma` is an instruction of four warps, a warpgroup. It multiplies 64 × 16 by 16 × 256 and adds the
# product to sums in the warpgroup's registers, {{ task.sums }} to a lane. Its operands are not in
# registers: it takes both from shared memory, each described by 64 bits that say where the matrix
# begins, how far its pieces lie apart and how they are swizzled. It is asynchronous. The warps commit
# what they began as a group and wait for the group when they need the sums.

# %% [markdown]
# The [TMA](tma.py) copies tiles of A and B there, swizzled, and an mbarrier signals that they have arrived.

# %% fold="Imports"
import re

import numpy as np

from tilewise import (
    Guess,
    Kernel,
    Table,
    agree,
    bf16,
    case,
    ceil_div,
    check,
    expect_hazard,
    gpu_here,
    integers,
    measure,
    normal,
    output,
    parallel,
    publish,
    show,
    tensor_map,
    tiles,
)
from tilewise.figures import Span, heat_map, timeline
from tilewise.measurements import (
    Numbers,
    complete,
    medians_us,
    printed,
    printed_numbers,
    recorded,
    recorded_device,
)
from tilewise.measurements.references import bf16_product, matrix_product

OPTIONS = ("-std=c++17", "-arch=sm_90a")
# %% [markdown]
# The first kernel has one warpgroup and one buffer. A thread asks for the slabs of $A$ and $B$,
# everybody waits for the bytes, four `wgmma` go through the slab, and when they are done it may be
# overwritten.


# %% tab="Pseudocode"
def one_buffer(A, B, C):
    M, K = A.shape
    N = B.shape[1]
    for rows in tiles(M, 64):
        for cols in tiles(N, 256):
            d = np.zeros((len(rows), len(cols)))
            for ks in tiles(K, 64):
                # [step
                a, b = A[rows][:, ks], B[ks][:, cols]
                d += a @ b
                # step]
            C[np.ix_(rows, cols)] = d


# %% tab="CUDA C"
ONE_BUFFER = Kernel(
    r"""
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

// a warpgroup's 64 x 256 sums to C, two neighbours at a time
static __device__ void write(Bf16* C, float (&d)[128], int i, int j,
                             int M, int N) {
    int lane = threadIdx.x % 32, row = i + threadIdx.x / 32 % 4 * 16 + lane / 4;
    #pragma unroll
    for (int n = 0; n < 128; n += 2) {
        int r = row + n / 2 % 2 * 8, col = j + n / 4 * 8 + lane % 4 * 2;
        if (r < M && col < N)
            *(__nv_bfloat162*)&C[(size_t)r * N + col] =
                __floats2bfloat162_rn(d[n], d[n + 1]);
    }
}

// one warpgroup, one buffer: 64 x 256 of C from slabs of 64 along K
extern "C" __global__ void __launch_bounds__(128)
one_buffer(const __grid_constant__ TensorMap a_map,
           const __grid_constant__ TensorMap b_map, Bf16* C, int M, int N, int K) {
    extern __shared__ __align__(1024) unsigned char memory[];
    __shared__ __align__(8) u64 full;
    unsigned char *a = memory, *b = memory + 8192;
    int i = blockIdx.y * 64, j = blockIdx.x * 256;
    if (threadIdx.x == 0) {
        init(&full, 1);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    float d[128];
    int slabs = (K + 63) / 64;
    for (int t = 0; t < slabs; ++t) {
        // [step
        if (threadIdx.x == 0) {  // one thread brings the whole slab
            expect(&full, 8192 + 4 * 8192);
            load(a, &a_map, t * 64, i, &full);
            for (int q = 0; q < 4; ++q)
                load(b + q * 8192, &b_map, j + 64 * q, t * 64, &full);
        }
        wait(&full, t & 1);
        wgmma_fence();
        #pragma unroll
        for (int s = 0; s < 4; ++s)
            wgmma(d, matrix(a + 32 * s, 16, 1024),
                  matrix(b + 2048 * s, 8192, 1024), t | s);
        wgmma_commit();
        wgmma_wait<0>(d);
        __syncthreads();  // all warps have read the slab
        // step]
    }
    write(C, d, i, j, M, N);
}
""",
    options=OPTIONS,
)

# %%
ONE_BUFFER.region("step")

# %% fold="Code of the check"
GPU = recorded_device()
SMS = GPU.sms
PEAK = GPU.peak_tflop_per_s["bf16_matrix"]
MMA = recorded("reads.ceilings.probes.bf16_matrix_tflop_per_s")
A_CLOCK = 2 * GPU.fma_per_sm_clock["bf16_matrix"]


def operands(M, N, K, whole=False, a_rows=64):
    """A, B, C and their tensor maps; whole numbers make sums exact."""
    if whole:
        A, B = (integers(*shape, low=-2, high=3, dtype="bfloat16") for shape in ((M, K), (K, N)))
    else:
        A, B = normal(M, K, dtype="bfloat16"), normal(K, N, dtype="bfloat16")
    boxes = {"a_map": ("A", a_rows), "b_map": ("B", 64), "c_map": ("C", 64)}
    maps = {
        name: tensor_map(array, box=(height, 64), swizzle=128, dtype="bfloat16")
        for name, (array, height) in boxes.items()
    }
    return {"A": A, "B": B, "C": output(M, N, dtype="bfloat16"), "M": M, "N": N, "K": K, **maps}


def with_one_buffer(M, N, K, **more):
    grid = (ceil_div(N, 256), ceil_div(M, 64))
    return case(**operands(M, N, K, **more), grid=grid, block=128, shared_bytes=40 * 1024)


RAGGED = [(72, 264, 136), (136, 40, 392)]
agree(one_buffer, ONE_BUFFER, [with_one_buffer(*size, whole=True) for size in RAGGED])

# %% [markdown]
# ## One brings, others multiply
#
# While a slab comes, this block multiplies nothing. Another division of labour lets both go on: a
# warpgroup that only brings, the producer, and others that only multiply, the consumers, with a ring of
# buffers between them. Each buffer has two mbarriers. `full` opens when its bytes have come, `empty`
# when its consumers have read it. The producer runs ahead until the ring is full; a consumer waits only
# if the producer is late.

# %% fold="Code of the figure"
COME, WORK, SLABS, STAGES_SHOWN = 5.0, 3.0, 6, 4


def waiting_and_running_ahead():
    """Spans of a block with one buffer, and of a producer and a consumer with a ring of four."""
    spans, now = [], 0.0
    for t in range(SLABS):
        spans += [Span("one buffer", now, now + COME, str(t), "waste")]
        spans += [Span("one buffer", now + COME, now + COME + WORK, str(t), "block")]
        now += COME + WORK
    asked, left, last_come = 0.0, [], 0.0
    for t in range(SLABS):
        start = max(asked, left[t - STAGES_SHOWN]) if t >= STAGES_SHOWN else asked
        here = max(start + COME, last_come + 1.0)  # boxes come one after the other
        spans += [Span(f"ring, buffer {t % STAGES_SHOWN}", start, here, str(t), "read")]
        begin = max(here, left[-1] if left else 0.0)
        spans += [Span("ring, consumer", begin, begin + WORK, str(t), "block")]
        left.append(begin + WORK)
        asked, last_come = start + 0.5, here
    order = ["one buffer", "ring, consumer", *(f"ring, buffer {s}" for s in range(STAGES_SHOWN))]
    order = ["one buffer", "ring, consumer", *(f"ring, buffer {s}" for s in range(STAGES_SHOWN))]
    return sorted(spans, key=lambda span: order.index(span.row))


show(
    timeline(
        waiting_and_running_ahead(),
        unit="arbitrary units",
        title="With a ring the consumer waits once, at the start",
        caption=f"{SLABS} slabs of which each takes {COME:.0f} units to come and {WORK:.0f} to multiply, with one buffer and with a ring of four: a model with small numbers. Each bar has its slab's number; on the buffers' rows slabs come, filled bars on the others are products. Hatched: the matrix units wait.",
    )
)


# %% tab="Pseudocode"
def pipeline(A, B, C):
    M, K = A.shape
    N = B.shape[1]
    for rows in tiles(M, 128):
        for cols in tiles(N, 256):
            d = np.zeros((len(rows), len(cols)))
            # [producer
            slabs = ((A[rows][:, ks], B[ks][:, cols]) for ks in tiles(K, 64))
            # producer]
            # [consumer
            for a, b in slabs:  # as they come
                d += a @ b
            # consumer]
            C[np.ix_(rows, cols)] = d


# %% tab="CUDA C"
PIPELINE = Kernel(
    r"""
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

static __device__ void arrive(u64* bar) {  // New
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(at(bar)) : "memory");
}

// a warpgroup's 64 x 256 sums to C, two neighbours at a time
static __device__ void write(Bf16* C, float (&d)[128], int i, int j,
                             int M, int N) {
    int lane = threadIdx.x % 32, row = i + threadIdx.x / 32 % 4 * 16 + lane / 4;
    #pragma unroll
    for (int n = 0; n < 128; n += 2) {
        int r = row + n / 2 % 2 * 8, col = j + n / 4 * 8 + lane % 4 * 2;
        if (r < M && col < N)
            *(__nv_bfloat162*)&C[(size_t)r * N + col] =
                __floats2bfloat162_rn(d[n], d[n + 1]);
    }
}

#define A_BYTES (CONSUMERS * 8192)
#define B_BYTES 32768

// warpgroup 0 brings slabs into a ring, each other one makes 64 x 256 of C
extern "C" __global__ void __launch_bounds__(128 + 128 * CONSUMERS, 1)
pipeline(const __grid_constant__ TensorMap a_map,
         const __grid_constant__ TensorMap b_map, Bf16* C, int M, int N, int K) {
    extern __shared__ __align__(1024) unsigned char memory[];
    __shared__ __align__(8) u64 full[STAGES], empty[STAGES];
    unsigned char *a = memory, *b = memory + STAGES * A_BYTES;
    int i = blockIdx.y * CONSUMERS * 64, j = blockIdx.x * 256;
    int slabs = (K + 63) / 64, group = threadIdx.x / 128;
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; ++s) {
            init(&full[s], 1);
            init(&empty[s], CONSUMERS);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    if (group == 0) {
        // [producer
#if REGISTERS
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
#endif
        if (threadIdx.x == 0)
            for (int t = 0; t < slabs; ++t) {
                int s = t % STAGES;
                wait(&empty[s], t / STAGES % 2 ^ 1);  // at first: free
                expect(&full[s], A_BYTES + B_BYTES);
                for (int q = 0; q < CONSUMERS; ++q)
                    load(a + s * A_BYTES + q * 8192, &a_map,
                         t * 64, i + 64 * q, &full[s]);
                for (int q = 0; q < 4; ++q)
                    load(b + s * B_BYTES + q * 8192, &b_map,
                         j + 64 * q, t * 64, &full[s]);
            }
        // producer]
    } else {
        // [consumer
#if REGISTERS
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
#endif
        float d[128];
        for (int t = 0; t < slabs; ++t) {
            int s = t % STAGES;
            unsigned char* mine = a + s * A_BYTES + (group - 1) * 8192;
            unsigned char* all = b + s * B_BYTES;
            wait(&full[s], t / STAGES % 2);
            wgmma_fence();
            #pragma unroll
            for (int k = 0; k < 4; ++k)
                wgmma(d, matrix(mine + 32 * k, 16, 1024),
                      matrix(all + 2048 * k, 8192, 1024), t | k);
            wgmma_commit();
            wgmma_wait<1>(d);  // the slab before has been read
            if (t && threadIdx.x % 128 == 0) arrive(&empty[(t - 1) % STAGES]);
        }
        wgmma_wait<0>(d);
        // consumer]
        write(C, d, i + 64 * (group - 1), j, M, N);
    }
}
""",
    defines={"CONSUMERS": 2, "STAGES": 4, "REGISTERS": 1},
    options=OPTIONS,
)

# %%
PIPELINE.region("producer")

# %%
PIPELINE.region("consumer")

# %% [markdown]
# A consumer leaves one group of `wgmma` under way while it begins the next, so that the matrix units
# never run dry; when a group is begun, the one before it is over, and its buffer can be given back.
# The `fence` before the first product tells that registers and shared memory are as they should be.

# %% fold="Code of the check"


def of_pipeline(consumers, registers=0, stages=4):
    """The kernel with so many consumers, and a function for its inputs and launch."""
    kernel = Kernel(
        PIPELINE.source,
        defines={"CONSUMERS": consumers, "STAGES": stages, "REGISTERS": registers},
        options=OPTIONS,
    )

    def on(M, N, K, **more):
        return case(
            **operands(M, N, K, **more),
            grid=(ceil_div(N, 256), ceil_div(M, 64 * consumers)),
            block=128 + 128 * consumers,
            shared_bytes=stages * (consumers * 8192 + 32768),
        )

    return kernel, on


RUNG_RING, RUNG_TWO, RUNG_REGISTERS = of_pipeline(1), of_pipeline(2), of_pipeline(2, 1)
agree(pipeline, PIPELINE, [RUNG_REGISTERS[1](*size, whole=True) for size in RAGGED])
for kernel, on in (RUNG_RING, RUNG_TWO):
    agree(pipeline, kernel, [on(*size, whole=True) for size in RAGGED])

# %% [markdown]
# Each of these signs is there because of what happens without it. A consumer that does not wait for
# `full` multiplies what has not come. A producer that does not wait for `empty` announces bytes on a
# barrier whose phase is not over. A warpgroup that does not wait for its products reads sums that are
# not finished. The simulator names all three.

# %% fold="Code of the check"


def with_fault(kernel, text, instead):
    assert kernel.source.count(text) == 1, text
    return Kernel(kernel.source.replace(text, instead), defines=kernel.defines, options=OPTIONS)


faulty = RUNG_REGISTERS[1](136, 40, 392)
NO_FULL = with_fault(PIPELINE, "wait(&full[s], t / STAGES % 2);", "")
NO_EMPTY = with_fault(PIPELINE, "wait(&empty[s], t / STAGES % 2 ^ 1);", "")
NO_RESULT = with_fault(PIPELINE, "        wgmma_wait<0>(d);", "")
expect_hazard(NO_FULL.on(faulty), "undelivered", line_with="wgmma(d, matrix(mine")
expect_hazard(NO_EMPTY.on(faulty), "mbarrier", line_with="expect(&full[s]")
expect_hazard(NO_RESULT.on(faulty), "accumulator", line_with="write(C, d")

# %% [markdown]
# On a GPU the roles can note the clock of their SM: the producer when it asks for a slab, each consumer when
# the slab is there and when its products are done. The stamps are the only change to the kernel.

# %% fold="The kernel with stamps"
STAMPS = {
    "wait(&empty[s], t / STAGES % 2 ^ 1);  // at first: free\n": "if (here) stamps[t] = clock64();\n",
    "wait(&full[s], t / STAGES % 2);\n": "if (here) stamps[(2 * group - 1) * slabs + t] = clock64();\n",
    "wgmma_wait<1>(d);  // the slab before has been read\n": "if (here) stamps[2 * group * slabs + t] = clock64();\n",
    "int slabs = (K + 63) / 64, group = threadIdx.x / 128;\n": (
        "bool here = blockIdx.x + blockIdx.y == 0 && threadIdx.x % 128 == 0;\n"
    ),
}


def with_stamps():
    """The pipeline in which the first block notes the clock: producer, then begin and end of each consumer."""
    text = PIPELINE.source
    for line, stamp in STAMPS.items():
        assert text.count(line) == 1, line
        text = text.replace(line, line + stamp)
    text = text.replace(
        "Bf16* C, int M, int N, int K) {", "Bf16* C, int M, int N, int K, long long* stamps) {"
    )
    return Kernel(text, defines=PIPELINE.defines, options=OPTIONS)


STAMPED, SHOWN = with_stamps(), 14
on_stamps = RUNG_REGISTERS[1](136, 40, 392, whole=True)
held = on_stamps.make() | {"stamps": np.zeros((5, 7), np.int64)}
maps = [on_stamps.values[name].of(held[name[0].upper()]) for name in ("a_map", "b_map")]
STAMPED.simulate(
    *maps, held["C"], 136, 40, 392, held["stamps"], grid=on_stamps.grid, block=384, shared_bytes=4 * 49152
)
check(bf16.values(held["C"]), bf16_product(held), name="C with stamps")
assert (np.diff(held["stamps"], axis=1) > 0).all(), "a clock goes backwards"

# %% fold="Code that notes the clock on a GPU" needs="gpu" record="pipeline_clock"
if gpu_here():
    import cupy

    there = {name: cupy.random.standard_normal((4096, 4096), dtype=np.float32) for name in "AB"}
    there = {name: (values.view(np.uint32) >> 16).astype(np.uint16) for name, values in there.items()}
    product, noted = cupy.zeros((4096, 4096), np.uint16), cupy.zeros((5, 64), np.int64)
    both = [tensor_map(there[name], box=(64, 64), swizzle=128, dtype="bfloat16") for name in "AB"]
    for _ in range(3):  # the last one is warm
        STAMPED(*both, product, 4096, 4096, 4096, noted, grid=(16, 32), block=384, shared_bytes=4 * 49152)
    noted = cupy.asnumpy(noted)
    print("slab: asked, there for consumer 1, for 2, the slab before done by 1, by 2; clocks of the SM")
    for slab in range(SHOWN + 1):
        print(f"{slab}: {', '.join(str(noted[row, slab] - noted[0, 0]) for row in (0, 1, 3, 2, 4))}")

# %% fold="Code of the figure"
SAID = printed("matmul/hopper", "pipeline_clock")
# asked, there for two consumers, the slab before done by both: an array of slabs by five
CLOCKS = np.array(
    [[int(clock) for clock in re.findall(r"-?\d+", line)[1:]] for line in SAID.splitlines()[1:]]
)


def spans_of(clocks):
    """Spans of the buffers, from asking to the first consumer's begin, and of the consumers' products."""
    spans = []
    for slab, (asked, *there, _, _) in enumerate(clocks[:-1].tolist()):
        spans += [Span(f"buffer {slab % 4}", asked, min(there), str(slab), "read")]
        for at in (0, 1):
            before = clocks[slab, 3 + at] if slab else 0
            begin, end = max(there[at], int(before)), int(clocks[slab + 1, 3 + at])
            spans += [Span(f"consumer {at + 1}", begin, end, str(slab), "block")]
    return sorted(spans, key=lambda span: ("buffer" in span.row, span.row))


if SAID:
    show(
        timeline(
            spans_of(CLOCKS),
            unit="clocks",
            title="Producer and consumers of one block, by the clock of its SM",
            caption=f"The first {SHOWN} slabs of one block of the kernel with two consumers, recorded on an {{machine}}. On a buffer's row a slab is asked for and comes. A consumer's bar begins when the slab is there and the one before is done.",
        )
    )
publish(pace={"clocks": float(np.median(np.diff(CLOCKS[5:, 3]))) if SAID else np.nan})

# %% [markdown]
# Once the ring runs, a slab takes a consumer {{ pace.clocks | , }} clocks, and the matrix units need
# {{ large.clocks | , }} for both consumers' products. What is left to gain lies at the ends of a tile.

# %% [markdown]
# ## A larger tile, and registers where they are needed
#
# Per slab a block with one consumer brings {{ small.bytes | , }} bytes for {{ small.clocks }} clocks of
# the matrix units, {{ small.per_clock | .0f }} bytes a clock on every SM, all of them through the L2.
# A second consumer with 64 more rows shares the slab of $B$: {{ large.bytes | , }} bytes for
# {{ large.clocks | , }} clocks, {{ large.per_clock | .0f }} a clock. The rungs `ring` and
# `two consumers` differ in this alone.

# %% fold="Code of the numbers"


def a_slab(rows, columns, shared_by=1):
    """Bytes that a block brings of a slab of 64, and clocks of the matrix units for it."""
    moved, clocks = 2 * 64 * (rows + columns / shared_by), 2 * rows * columns * 64 // A_CLOCK
    return {"bytes": int(moved), "clocks": clocks, "per_clock": moved / clocks}


publish(
    small=a_slab(64, 256),
    large=a_slab(128, 256),
    pair=a_slab(128, 256, 2),
    registers={"equal": 65_536 // 384 // 8 * 8},
    task={
        "peak": PEAK,
        "us": 2 * 4096**3 / PEAK / 1e6,
        "mma_us": 2 * 4096**3 / MMA / 1e6,
        "mma_share": MMA / PEAK,
        "sums": 64 * 256 // 128,
    },
)

# %% [markdown]
# Three warpgroups with equal shares get {{ registers.equal }} registers a thread. A consumer holds
# {{ task.sums }} sums besides its addresses, a producer next to nothing. `setmaxnreg` lets the producer
# give registers back and the consumers take them. Here the compiler's report has no spills either way,
# so by itself it should gain nothing; it makes room for what comes.

# %% [markdown]
# ## Out by the copy unit
#
# The sums go out as they came in. `stmatrix`, the reverse of `ldmatrix`, lays them into shared memory as
# BF16, four matrices of 8 × 8 at a time and swizzled without conflicts, and one thread asks the TMA to
# store boxes of 64 × 64. Whole rows of 128 bytes leave, what sticks out over the edge is dropped, and no
# thread waits. Ordinary stores and the copy unit go different ways to the same shared memory. Between
# them stands `fence.proxy.async`, and without it the unit may carry out what was there before.

# %% [markdown]
# ## Tile after tile
#
# With one block to an SM, each new block begins with an empty ring, and its last stores are waited for.
# A persistent kernel is launched with as many blocks as there are SMs, and each of them goes through a
# list of tiles. The producer is already at the next tile while the consumers store the last. And since
# the order is now a list, it can be any: the kernel reads it from an array.
#
# ??? definition "Persistent kernel | persistent kernels"
#     A kernel with as many blocks as fit on the device at a time, each of which fetches piece after
#     piece of the work.


# %% tab="Pseudocode"
def gemm(A, B, C, order):
    M, K = A.shape
    N = B.shape[1]
    high, wide = [*tiles(M, 128)], [*tiles(N, 256)]
    for block in parallel(2):  # as many as there are SMs
        for i, j in order[block::2]:
            rows, cols = high[i], wide[j]
            d = np.zeros((len(rows), len(cols)))
            for ks in tiles(K, 64):
                # [producer
                a, b = A[rows][:, ks], B[ks][:, cols]
                # producer]
                # [consumer
                d += a @ b
                # consumer]
            # [write
            C[np.ix_(rows, cols)] = d
            # write]


# %% tab="CUDA C"
GEMM = Kernel(
    r"""
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
""",
    defines={"CLUSTER": 1, "STAGES": 4},
    options=OPTIONS,
)

# %%
GEMM.region("producer")

# %%
GEMM.region("write")

# %% [markdown]
# Which order? At every moment {{ waves.sms }} tiles are under way, and the slabs that they need are
# shared through the L2. Row by row, tiles under way that follow each other lie in a few long rows, and
# need many columns of $B$. In groups of eight rows they form a block of tiles, which is nearer to a
# square and needs fewer slabs. A Hilbert curve keeps neighbours in the list neighbours in the matrix at
# every scale.


# %%
def row_by_row(rows, columns):
    return [(i, j) for i in range(rows) for j in range(columns)]


def grouped(rows, columns, high=8):
    """Column by column within groups of so many rows."""
    return [
        (i, j)
        for first in range(0, rows, high)
        for j in range(columns)
        for i in range(first, min(first + high, rows))
    ]


# %% fold="Code of the figure"
from tilewise.kernels import hilbert

ORDERS = {"row by row": row_by_row, "groups of eight": grouped, "Hilbert curve": hilbert}


def slabs_of_wave(order, width=128):
    """Bytes of A and B slabs that the tiles of a wave need for 64 along K, as a mean over the waves."""
    waves = [order[start : start + width] for start in range(0, len(order), width)]
    needed = [128 * len({i for i, _ in wave}) + 256 * len({j for _, j in wave}) for wave in waves]
    return 2 * 64 * float(np.mean(needed))


def when(order):
    """At which place of the list each of 16 x 16 tiles stands."""
    places = np.zeros((16, 16))
    places[tuple(np.transpose(order))] = np.arange(len(order))
    return places


NEEDED = {name: slabs_of_wave(make(64, 32)) for name, make in ORDERS.items()}
show(
    heat_map(
        {name: when(make(16, 16)) for name, make in ORDERS.items()},
        x="tile column",
        y="tile row",
        role="tile",
        form=".0f",
        key=False,
        title="Tiles that are worked on together should lie together",
        caption="A result of 16 × 16 tiles and three orders: pale tiles first, dark ones last.",
        alt="Three squares of 16 by 16 tiles, coloured by their place in the list: row by row, in groups of eight rows, along a Hilbert curve.",
    )
)
publish(
    waves={
        "sms": SMS,
        "rows_kb": NEEDED["row by row"] / 1024,
        "groups_kb": NEEDED["groups of eight"] / 1024,
        "hilbert_kb": NEEDED["Hilbert curve"] / 1024,
    }
)

# %% [markdown]
# For a product of 8,192, a wave of 128 tiles needs, for each 64 along $K$, {{ waves.rows_kb | ,.0f }} KB
# row by row, {{ waves.groups_kb | ,.0f }} KB in groups of eight and {{ waves.hilbert_kb | ,.0f }} KB
# along the curve. What it asks for is the same; less of it has to come from device memory.

# %% fold="Code of the check"


def of_gemm(order, blocks=SMS, cluster=1, kernel=None, even=False):
    made = kernel or Kernel(GEMM.source, defines={"CLUSTER": cluster, "STAGES": 4}, options=OPTIONS)

    def on(M, N, K, **more):
        path = np.array(order(ceil_div(ceil_div(M, 128), cluster), ceil_div(N, 256)), np.int32)
        at_once = min(blocks // cluster, len(path)) if blocks else len(path)
        if even:  # as few as take no more rounds
            at_once = ceil_div(len(path), ceil_div(len(path), at_once))
        return case(
            **operands(M, N, K, a_rows=128, **more),
            order=path,
            tiles=len(path),
            grid=cluster * at_once,
            block=384,
            shared_bytes=4 * 49152 + 32768,
        )

    return made, on


on_two = of_gemm(hilbert, blocks=2, kernel=GEMM)[1]
agree(gemm, GEMM, [on_two(*size, whole=True) for size in ((136, 520, 200), (264, 264, 136))])
held = GEMM.on(on_two(136, 264, 1024)).run()
exact = bf16_product(held)
check(
    bf16.values(held["C"]),
    exact,
    rtol=2**-8,
    atol=2**-12 * np.abs(exact).max(),
    name="C of random numbers, against sums in 64 bits",
)
FENCE = 'asm volatile("fence.proxy.async.shared::cta;" ::: "memory");'
WAIT = 'if (first)\n            asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");'
small = on_two(136, 264, 136)
expect_hazard(with_fault(GEMM, FENCE, "").on(small), "proxy", line_with="cp.async.bulk.tensor.2d.global")
expect_hazard(with_fault(GEMM, WAIT, "").on(small), "overwritten", line_with="write(c + (group - 1)")
publish(fast={"lines": GEMM.source.strip().count("\n") + 1})

# %% [markdown]
# The first of these faults is the fence left out. In the second nobody waits until the unit has read the
# staging buffer before it is filled again.

# %% [markdown]
# ## Two blocks, one copy
#
# Two tiles of one column need the same slab of $B$, and both fetch it. A cluster is up to eight blocks of
# a launch that run at the same time on neighbouring SMs and can reach each other's shared memory. With clusters of two, each block
# brings half of the slab and the TMA puts it into the shared memory of both: a multicast. What is asked
# of the L2 falls from {{ large.per_clock | .0f }} to {{ pair.per_clock | .0f }} bytes a clock. The price
# is that a buffer is free only when the consumers of both blocks have read it, so each consumer signals
# to both.
#
# ??? definition "Multicast"
#     One copy that arrives in the shared memory of several blocks of a cluster.

# %% fold="Code of the check"
PAIRS, on_pairs = of_gemm(grouped, blocks=4, cluster=2)
on_one_pair = of_gemm(grouped, blocks=2, cluster=2)[1]  # both of its tiles, one after the other
whole = [on_pairs(300, 520, 392, whole=True), on_one_pair(136, 264, 200, whole=True)]
agree(one_buffer, PAIRS, whole)

# %% [markdown]
# All of the signals are only about reading: nothing was written that another block has to see. A signal can
# say more, `mbarrier.arrive.release.cluster`: what its thread wrote is released to the cluster. The table
# below has a row with this word, which looks harmless.

# %% [markdown]
# ## Rounds of the same size
#
# A product of 4,096 has {{ rounds.tiles }} tiles. On {{ rounds.sms }} SMs they take {{ rounds.number }} rounds,
# and the last one leaves SMs without work. {{ rounds.even }} SMs need no more rounds. By the count of rounds
# it is all the same, and {{ rounds.left }} SMs get nothing to do at all. But when a round is {{ rounds.even }}
# tiles along the curve, it is a rectangle of tiles, which needs {{ rounds.even_kb | .0f }} KB of slabs for
# each 64 along $K$; {{ rounds.sms }} tiles from anywhere on the curve need {{ rounds.all_kb | .0f }}.

# %% fold="Code of the numbers"
PATH = hilbert(4096 // 128, 4096 // 256)
ROUNDS = ceil_div(len(PATH), SMS)
publish(
    rounds={
        "tiles": len(PATH),
        "sms": SMS,
        "number": ROUNDS,
        "even": ceil_div(len(PATH), ROUNDS),
        "left": SMS - ceil_div(len(PATH), ROUNDS),
        "even_kb": slabs_of_wave(PATH, ceil_div(len(PATH), ROUNDS)) / 1024,
        "all_kb": slabs_of_wave(PATH, SMS) / 1024,
    }
)

# %% [markdown]
# ## Fewer tiles than SMs
#
# A product of 1,024 has {{ few.tiles }} tiles of 128 × 256, and {{ few.idle }} of {{ waves.sms }} SMs
# get none. Smaller tiles would ask for more bytes. The other way is to cut $K$: the blocks of a cluster
# take a part of it each, and add up their sums at the end. The sums lie in shared memory, where the
# other blocks of the cluster read them, always in the same order, so that the same bits come out every
# time. With four parts {{ few.busy }} SMs have work.
#
# ??? definition "Split-K"
#     Cutting the sum over $K$ into parts that different blocks add up, so that there is work for more
#     SMs than there are tiles.

# %%
SPLIT = Kernel(
    r"""
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
static __device__ void arrive(u64* bar) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(at(bar)) : "memory");
}
static __device__ void meet_cluster() {
    asm volatile("barrier.cluster.arrive.release.aligned;\n"
                 "barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
// New: four sums of another block of the cluster
static __device__ float4 fetch(const float4* p, int block) {
    float4 v;
    asm volatile("{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %4, %5;\n"
                 "ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [there];\n}"
                 : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w)
                 : "r"(at(p)), "r"(block) : "memory");
    return v;
}

// the blocks of a cluster share a tile of C: each adds up its part of K
extern "C" __global__ void __cluster_dims__(SPLIT, 1, 1) __launch_bounds__(384, 1)
split(const __grid_constant__ TensorMap a_map,
      const __grid_constant__ TensorMap b_map, Bf16* C, int M, int N, int K) {
    extern __shared__ __align__(1024) unsigned char memory[];
    __shared__ __align__(8) u64 full[STAGES], empty[STAGES];
    unsigned char *a = memory, *b = a + STAGES * A_BYTES;
    int i = blockIdx.y * 128, j = blockIdx.x / SPLIT * 256, rank = blockIdx.x % SPLIT;
    int group = threadIdx.x / 128, me = threadIdx.x - 128;
    int share = ((K + 63) / 64 + SPLIT - 1) / SPLIT;  // New: slabs of each block
    int first = rank * share, slabs = min(share, (K + 63) / 64 - first);
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; ++s) {
            init(&full[s], 1);
            init(&empty[s], 2);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    float d[128] = {};
    float4* partial = (float4*)memory;
    if (group == 0) {
        asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
        if (threadIdx.x == 0)
            for (int t = 0; t < slabs; ++t) {
                int s = t % STAGES, k = (first + t) * 64;
                wait(&empty[s], t / STAGES % 2 ^ 1);
                expect(&full[s], A_BYTES + B_BYTES);
                load(a + s * A_BYTES, &a_map, k, i, &full[s]);
                for (int q = 0; q < 4; ++q)
                    load(b + s * B_BYTES + q * 8192, &b_map, j + 64 * q, k, &full[s]);
            }
        __syncwarp();
        meet_cluster();
        meet_cluster();
    } else {
        asm volatile("setmaxnreg.inc.sync.aligned.u32 240;");
        for (int t = 0; t < slabs; ++t) {
            int s = t % STAGES;
            unsigned char* mine = a + s * A_BYTES + (group - 1) * 8192;
            unsigned char* all = b + s * B_BYTES;
            wait(&full[s], t / STAGES % 2);
            wgmma_fence();
            #pragma unroll
            for (int m = 0; m < 4; ++m)
                wgmma(d, matrix(mine + 32 * m, 16, 1024),
                      matrix(all + 2048 * m, 8192, 1024), 1);
            wgmma_commit();
            wgmma_wait<1>(d);
            if (t && me % 128 == 0) arrive(&empty[(t - 1) % STAGES]);
        }
        wgmma_wait<0>(d);
        // [reduction
        asm volatile("bar.sync 1, 256;" ::: "memory");  // the ring has been read
        #pragma unroll
        for (int n = 0; n < 32; ++n)
            partial[n * 256 + me] =
                make_float4(d[4 * n], d[4 * n + 1], d[4 * n + 2], d[4 * n + 3]);
        meet_cluster();  // all partial sums lie there
        int lane = me % 32;
        int row = i + (group - 1) * 64 + me / 32 % 4 * 16 + lane / 4;
        #pragma unroll 2
        for (int n = rank * 32 / SPLIT; n < (rank + 1) * 32 / SPLIT; ++n) {
            float4 v = {};
            for (int q = 0; q < SPLIT; ++q) {  // in the same order in every run
                float4 part = fetch(&partial[n * 256 + me], q);
                v.x += part.x;
                v.y += part.y;
                v.z += part.z;
                v.w += part.w;
            }
            int col = j + n * 8 + lane % 4 * 2;
            if (col >= N) continue;
            __nv_bfloat162* to = (__nv_bfloat162*)&C[(size_t)row * N + col];
            if (row < M) to[0] = __floats2bfloat162_rn(v.x, v.y);
            if (row + 8 < M) to[4 * N] = __floats2bfloat162_rn(v.z, v.w);
        }
        meet_cluster();  // nobody leaves while others read
        // reduction]
    }
}
""",
    defines={"SPLIT": 4, "STAGES": 4},
    options=OPTIONS,
)

# %%
SPLIT.region("reduction")

# %% fold="Code of the check"


def of_split(parts):

    def on(M, N, K, **more):
        return case(
            **operands(M, N, K, a_rows=128, **more),
            grid=(parts * ceil_div(N, 256), ceil_div(M, 128)),
            block=384,
            shared_bytes=4 * 49152,
        )

    return Kernel(SPLIT.source, defines={"SPLIT": parts, "STAGES": 4}, options=OPTIONS), on


for parts, *size in ((4, 72, 264, 200), (2, 136, 40, 520)):
    cut, on_cut = of_split(parts)
    held = cut.on(on_cut(*size, whole=True)).run()
    check(
        bf16.values(held["C"]),
        bf16_product(held),
        name=f"C by {parts} parts of K, {' x '.join(map(str, size))}",
    )
FEW = ceil_div(1024, 128) * ceil_div(1024, 256)
publish(few={"tiles": FEW, "idle": SMS - FEW, "busy": 4 * FEW, "gain": 4.0})

# %% [markdown]
# Whether all of them work at once is a question of its own. The blocks of a cluster sit on SMs of one
# neighbourhood, and what is left over there by one cluster is of no use to the next. The driver can be asked.

# %% fold="Code that asks the driver" needs="gpu" record="clusters_at_once"
if gpu_here():
    import ctypes

    import cupy

    class Attribute(ctypes.Structure):
        _fields_ = (("number", ctypes.c_int), ("pad", ctypes.c_int), ("value", ctypes.c_uint32 * 16))

    class Launch(ctypes.Structure):
        _fields_ = (
            ("sizes", ctypes.c_uint32 * 7),  # grid, block, bytes of shared memory
            ("stream", ctypes.c_void_p),
            ("attributes", ctypes.POINTER(Attribute)),
            ("count", ctypes.c_uint32),
        )

    asked_of = cupy.RawModule(code=ONE_BUFFER.gpu_source, options=OPTIONS).get_function("one_buffer")
    asked_of.max_dynamic_shared_size_bytes = 4 * 49152
    for blocks in (1, 2, 4, 8):
        cluster, at_once = Attribute(4, 0, (ctypes.c_uint32 * 16)(blocks, 1, 1)), ctypes.c_int()
        wanted = Launch(
            (ctypes.c_uint32 * 7)(64 * blocks, 1, 1, 128, 1, 1, 4 * 49152), None, ctypes.pointer(cluster), 1
        )
        status = ctypes.CDLL("libcuda.so.1").cuOccupancyMaxActiveClusters(
            ctypes.byref(at_once), ctypes.c_void_p(asked_of.kernel.ptr), ctypes.byref(wanted)
        )
        print(
            f"clusters of {blocks} with 192 KB a block: {at_once.value} at once"
            if not status
            else f"error {status}"
        )

# %% fold="Code of the numbers"
CLUSTERS = printed_numbers("matmul/hopper", "clusters_at_once", r"clusters of (\d+) .*: (\d+) at once")
FOURS = CLUSTERS[4]
publish(fours={"at_once": FOURS, "wanted": FEW, "rounds": np.ceil(FEW / FOURS)})

# %% [markdown]
# On the recorded H100 it says {{ fours.at_once }}. {{ fours.wanted }} clusters of four then need
# {{ fours.rounds }} rounds, which gives back half of what the parts gain. With two parts there is room for
# all.

# %% [markdown]
# ## What it should take
#
# What the ladder changes can be counted before it is timed. The simulator gives the bytes that the
# copies ask for and the requests of ordinary stores, the compiler the registers.

# %% fold="The row to compare with: one thread a sum"
ONE_THREAD = Kernel(r"""
#include <cuda_bf16.h>
extern "C" __global__
void one_thread(const __nv_bfloat16* A, const __nv_bfloat16* B, __nv_bfloat16* C,
                int M, int N, int K) {
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    if (row >= M || col >= N) return;
    float s = 0.0f;
    for (int k = 0; k < K; ++k)
        s += __bfloat162float(A[(size_t)row * K + k])
           * __bfloat162float(B[(size_t)k * N + col]);
    C[(size_t)row * N + col] = __float2bfloat16(s);
}
""")


def with_one_thread(M, N, K):
    return case(**operands(M, N, K), grid=(ceil_div(N, 32), ceil_div(M, 8)), block=(32, 8))


# %% fold="Code of the prediction"
from tilewise.kernel.nvrtc import available, compile_kernel

RELEASED = Kernel(
    GEMM.source.replace("mbarrier.arrive.shared::cluster", "mbarrier.arrive.release.cluster.shared::cluster"),
    defines={"CLUSTER": 2, "STAGES": 4},
    options=OPTIONS,
)
assert RELEASED.source != GEMM.source
LADDER = {  # its kernel and launch, and what is new
    "one thread a sum": ((ONE_THREAD, with_one_thread), "nothing: no matrix units"),
    "one buffer": ((ONE_BUFFER, with_one_buffer), "wgmma and TMA, 64 × 256"),
    "ring": (RUNG_RING, "producer and consumer, four buffers"),
    "two consumers": (RUNG_TWO, "tile of 128 × 256"),
    "registers moved": (RUNG_REGISTERS, "setmaxnreg"),
    "stored by TMA": (of_gemm(row_by_row, blocks=None), "stmatrix, boxes of C"),
    "persistent": (of_gemm(row_by_row), "a list of tiles"),
    "groups of eight": (of_gemm(grouped), "another list"),
    "Hilbert curve": (of_gemm(hilbert), "another list"),
    "clusters of two": (of_gemm(hilbert, cluster=2), "B by multicast"),
    "rounds of the same size": (of_gemm(hilbert, cluster=2, even=True), "fewer blocks, no more rounds"),
    "released to the cluster": (
        of_gemm(hilbert, cluster=2, even=True, kernel=RELEASED),
        "that, and a word in the signal",
    ),
    "two parts of K": (of_split(2), "split-K in clusters of two"),
    "four parts of K": (of_split(4), "split-K in clusters of four"),
}
SIZE = (256, 512, 64)


def counted_of(kernel, on):
    """FLOP for each byte that the copies ask for, and store requests, of one product; registers."""
    counts = kernel.on(on(*SIZE)).simulate().counts
    registers = compile_kernel(kernel, ["sm_90a"])[0].registers if available() is None else None
    work = 2 * SIZE[0] * SIZE[1] * SIZE[2]
    asked = counts.bulk_load.useful_bytes or counts.global_load.useful_bytes
    return work / asked, counts.global_store.requests, registers


COUNTED = {label: counted_of(*rung) for label, (rung, _) in LADDER.items()}
show(
    Table(
        ["rung", "what is new", "FLOP for a byte asked for", "ordinary stores", "registers"],
        [[label, new, *COUNTED[label]] for label, (_, new) in LADDER.items()],
        caption="The ladder, counted for a product of 256 × 512 with 64 terms: bytes of loads and bulk copies and warp requests of stores by the simulator, registers a thread at the start from the compiler's report for an H100.",
    )
)
RUNGS = {"one": "one buffer", "two": "two consumers", "pairs": "clusters of two"}
publish(counted_rungs={name: COUNTED[label][0] for name, label in RUNGS.items()})

# %% [markdown]
# So the expectation is this. From one buffer to the ring the waiting goes. The second consumer raises
# what is done for a byte from {{ counted_rungs.one | .0f }} to {{ counted_rungs.two | .0f }} FLOP, and
# `setmaxnreg` changes nothing yet. The list saves the start of each tile, the order traffic from device
# memory, which matters most at 8,192. The multicast comes to {{ counted_rungs.pairs | .0f }} FLOP a byte,
# which helps only if the L2 is the limit. Rounds of the same size are as many as before, and a word in a
# signal moves nothing. At 1,024 four parts of $K$ would be worth up to {{ few.gain | .0f }} times, less
# the adding up and the second round.


# %% fold="Code of the measurement"
def launched(label):
    kernel, on = LADDER[label][0]
    return lambda M, N, K: kernel.on(on(M, N, K))


def torch_matmul(arrays):
    import torch

    A, B, C = (
        torch.as_tensor(arrays[name].view("int16"), device="cuda").view(torch.bfloat16) for name in "ABC"
    )
    return lambda: torch.matmul(A, B, out=C) is None


def cublas_lt(arrays):
    from tilewise.gpu.cublas_lt import fastest

    return fastest(*(arrays[name] for name in "ABC"))


LT = "cuBLASLt, best of 10 algorithms"
SHAPES = [*((n, n, n) for n in (1024, 2048, 4096, 8192)), (8192, 2048, 4096), (2048, 8192, 1024)]
ladder = measure(
    "hopper_ladder",
    variants={label: launched(label) for label in LADDER},
    cases=[dict(zip("MNK", shape, strict=True)) for shape in SHAPES],
    count_case={"M": 256, "N": 512, "K": 64},
    bytes=lambda M, N, K: 2 * (M * K + K * N + M * N),
    flop=lambda M, N, K: 2 * M * N * K,
    arithmetic="bf16_matrix",
    counts=("sectors", "instructions"),
    library={"cuBLAS": torch_matmul, LT: cublas_lt},
    reference=matrix_product,
    tolerance=2**-8,
    reasons={"*": "What it should take"},
    fold="All rows",
    guess=Guess(
        "At 4,096, how many times as fast as one buffer is the kernel with clusters and rounds of the same size?",
        of="rounds of the same size",
        over="one buffer",
        at={"M": 4096, "N": 4096, "K": 4096},
        between=(1.0, 8.0),
        models={"bytes for a clock": a_slab(64, 256)["per_clock"] / a_slab(128, 256, 2)["per_clock"]},
        because="With one buffer other blocks on the SM multiply while this one waits.",
    ),
)

# %% fold="Code of the table"
check(
    COUNTED["clusters of two"][0] / COUNTED["one buffer"][0],
    a_slab(64, 256)["per_clock"] / a_slab(128, 256, 2)["per_clock"],
    rtol=1e-12,
    name="FLOP for a byte by count and by formula",
)
US = medians_us(ladder, "M", "N", "K")
RATES = Numbers({(label, *size): 2 * np.prod(size) / us / 1e6 for (label, *size), us in US.items()})
if complete(RATES):
    show(
        Table(
            ["rung", *(f"{M:,} × {N:,}, K = {K:,}" for M, N, K in SHAPES)],
            [
                [label, *(round(RATES[label, *shape]) for shape in SHAPES)]
                for label in dict.fromkeys(label for label, *_ in RATES)
            ],
            caption="TFLOP/s of each rung and of cuBLAS, recorded on an {machine} with random numbers.",
        )
    )

# %% fold="Code of the numbers"
LAST = "rounds of the same size"
WGMMA = recorded("hopper_ladder.ceilings.probes.wgmma_bf16_tflop_per_s")


def times(label, over, n=4096):
    return RATES[label, n, n, n] / RATES[over, n, n, n]


def rounds_us(label, n):
    """The median of each recorded round of a rung, in microseconds."""
    here = [row for row in ladder.rows if row["variant"] == label and set(row["parameters"].values()) == {n}]
    return np.array((here[0]["recorded"] or {}).get("rounds", [np.nan]) if here else [np.nan])


if complete(RATES):
    for n in (2048, 4096, 8192):
        assert times(LAST, "cuBLAS", n) > 1, f"the answer says that the kernel leads at {n:,}"
    assert times("released to the cluster", LAST) < 0.8, "a takeaway says what a word too much costs"
    for parts in ("two parts of K", "four parts of K"):
        assert times("ring", parts, 1024) > 1.1, "the text says that smaller tiles were worth more at 1,024"
GAVE = {
    "ring": ("ring", "one buffer"),
    "two": ("two consumers", "ring"),
    "registers": ("registers moved", "two consumers"),
    "stored": ("stored by TMA", "registers moved"),
    "listed": ("persistent", "stored by TMA"),
    "groups": ("groups of eight", "persistent"),
    "curve": ("Hilbert curve", "persistent"),
    "clusters": ("clusters of two", "Hilbert curve"),
    "even": (LAST, "clusters of two"),
    "word": ("released to the cluster", LAST),
}
ROUNDS_US = rounds_us("cuBLAS", 4096)
SHARES = {n: rounds_us("cuBLAS", n) / rounds_us(LAST, n) for n in (4096, 8192)}
BESIDE_LT = [times(LAST, LT, n) for n in (2048, 4096, 8192)]
TFLOP = RATES[LAST, 4096, 4096, 4096]
publish(
    gave={name: times(*pair) for name, pair in GAVE.items()}
    | {f"{name}_large": times(*pair, 8192) for name, pair in GAVE.items()},
    beside={f"at_{n}": times(LAST, "cuBLAS", n) for n in (2048, 4096, 8192)}
    | {"tflop": TFLOP, "us": 2 * 4096**3 / TFLOP / 1e6, "of_units": TFLOP / PEAK},
    in_rounds={"number": len(ROUNDS_US), "moved": max(ROUNDS_US) / min(ROUNDS_US) - 1}
    | {f"low_{n}": min(shares) for n, shares in SHARES.items()}
    | {f"high_{n}": max(shares) for n, shares in SHARES.items()},
    best_of_ten={
        "least": min(BESIDE_LT),
        "most": max(BESIDE_LT),
        "gained": max(RATES[LT, *shape] / RATES["cuBLAS", *shape] for shape in SHAPES) - 1,
    },
    unfed={"tflop": WGMMA, "of_peak": WGMMA / PEAK, "reached": RATES[LAST, 8192, 8192, 8192] / WGMMA},
    few_tiles={
        "ring": times("ring", "cuBLAS", 1024),
        "two": times("two parts of K", "cuBLAS", 1024),
        "four": times("four parts of K", "cuBLAS", 1024),
        "last": times(LAST, "cuBLAS", 1024),
    },
)

# %% [markdown]
# At 4,096 the ring came to {{ gave.ring | .2f }} times the rate of one buffer: where a block is small, several
# share an SM, and some multiply while others wait. What the ring buys is room for a second consumer, which gave
# {{ gave.two | .2f }}. `setmaxnreg` gave {{ gave.registers | .2f }}, as expected, the stores by TMA
# {{ gave.stored | .2f }} and the list {{ gave.listed | .2f }}.
#
# The orders gave less than the count of slabs promised, and why is unexplained. At 4,096 and 8,192 groups of eight came to
# {{ gave.groups | .2f }} and {{ gave.groups_large | .2f }} times the rate of row by row, the curve to
# {{ gave.curve | .2f }} and {{ gave.curve_large | .2f }}. With clusters of two the curve
# gave {{ gave.clusters | .2f }} and {{ gave.clusters_large | .2f }} times its rate without, and rounds of the
# same size {{ gave.even | .2f }} and {{ gave.even_large | .2f }} on top.
#
# The word that moves nothing left {{ gave.word | .2f }} of the rate. In the machine code it is a `MEMBAR` for
# the whole GPU before each signal: the warp waits until what it has written is there for all, once for each
# slab. A consumer has only read, by products that are known to be over, and needs none of it.
#
# At 1,024 cutting $K$ does not win. Two parts come to {{ few_tiles.two | .0% }} of cuBLAS's rate, about as much as no
# parts with {{ few_tiles.last | .0% }}, and four to {{ few_tiles.four | .0% }}, with their second round. The
# `ring`, whose tiles are half as high, reaches {{ few_tiles.ring | .0% }}. Where tiles are fewer than SMs,
# smaller tiles were worth more than parts. [A tile for two blocks](shared_tiles.py) goes on from here.

# %% [markdown]
# ## The answer
#
# {{ task.us | us }} is what the tensor cores need at their peak. The kernel of
# {{ fast.lines }} lines takes {{ beside.us | us }}, {{ beside.tflop | .0f }} TFLOP/s or
# {{ beside.of_units | .0% }} of the peak (data sheet). Beside cuBLAS that is {{ beside.at_2048 | .1% }} of its rate at
# 2,048, {{ beside.at_4096 | .1% }} at 4,096 and {{ beside.at_8192 | .1% }} at 8,192.
#
# How sure is so small a lead? On the H100 kernel and library took turns in {{ in_rounds.number }} rounds, each in a process of its own. From one round
# to another cuBLAS's median at 4,096 moved by {{ in_rounds.moved | .1% }}, and the kernel's with it: its share is
# {{ in_rounds.low_4096 | .1% }} to {{ in_rounds.high_4096 | .1% }}, and {{ in_rounds.low_8192 | .1% }} to
# {{ in_rounds.high_8192 | .1% }} at 8,192.
#
# cuBLAS runs one algorithm, which its heuristics choose. On an H200 the fastest of the ten that cuBLASLt names was
# up to {{ best_of_ten.gained | .1% }} faster than that choice; beside it the kernel has {{ best_of_ten.least | .1% }} to
# {{ best_of_ten.most | .1% }} of the rate at 2,048 to 8,192. And the chip itself? There, `wgmma` on operands that stay in
# shared memory, with nothing to copy, reaches {{ unfed.tflop | .0f }} TFLOP/s, {{ unfed.of_peak | .0%  }} of the peak.
# At 8,192 the kernel does {{ unfed.reached | .0% }} of that.
#
# The ladder takes away one reason to wait after the other: the detour through registers, the slab that has yet
# to come, the start of the next tile behind the stores of the last, bytes that another SM has just fetched. What
# remains is the launch itself, a last round that is not full, and a clock that falls when the chip reaches its
# power limit.

# %% [markdown]
# ## Takeaways
#
# - `wgmma` takes its operands from shared memory and works while its warps go on; the TMA brings them
#   there, swizzled and with zeros outside, at the word of one thread.
# - Two mbarriers a buffer, full and empty, let a producer run ahead of its consumers.
# - A tile of 128 × 256 asks the L2 for {{ large.per_clock | .0f }} bytes a clock and SM, one of 64 × 256
#   for {{ small.per_clock | .0f }}; a multicast to two blocks leaves {{ pair.per_clock | .0f }}.
# - A persistent kernel with a list of tiles separates what is computed from the order: an order is data, not
#   code, and which is good must be measured.
# - A signal should release no more than was written. Here one word too much left {{ gave.word | .2f }} of the
#   rate.
# - What ordinary stores wrote, the copy unit may read only behind `fence.proxy.async`.


# %% fold="The whole cell, with two wrong answers that the tests turn down"
from tilewise import exercise


def in_squares(rows, columns):
    side = 8
    return [
        (i, j)
        for top in range(0, rows, side)
        for left in range(0, columns, side)
        for i in range(top, min(top + side, rows))
        for j in range(left, min(left + side, columns))
    ]


def in_strips(rows, columns):
    return [(i, j) for j in range(columns) for i in range(rows)]


def order_tests(order):
    for rows, columns in ((16, 16), (24, 40), (5, 7), (9, 17)):
        path = [tuple(tile) for tile in order(rows, columns)]
        assert sorted(path) == row_by_row(rows, columns), f"{rows} x {columns}: not every tile once"
        if rows % 8 or columns % 8:
            continue
        for start in range(0, len(path), 64):
            wave = path[start : start + 64]
            slabs = len({i for i, _ in wave}) + len({j for _, j in wave})
            assert slabs <= 16, f"{rows} x {columns}: 64 tiles from {start} on need {slabs} slabs, not 16"


exercise(
    "An order of your own",
    """
    A GPU works on 64 tiles at a time, in the order of a list. Write `order(rows, columns)`, a list of all pairs
    (row, column), so that each 64 tiles from a multiple of 64 on need at most 16 slabs, rows and columns together,
    where both numbers are multiples of 8. Other sizes must be covered too. The tests count slabs.
    """,
    answer=in_squares,
    tests=order_tests,
    wrong=[row_by_row, in_strips],
    hint="Which shape of 64 tiles touches the fewest rows and columns?",
)

# %% [markdown]
# Rows that are no multiple of 16 bytes cannot be described by a tensor map at all. What the library does
# with them, and what one can do in its place, is the subject of the lesson on alignment.
