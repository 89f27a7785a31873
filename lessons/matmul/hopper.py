# ---
# title: "GEMM on Hopper: TMA, wgmma and warp specialisation"
# needs: [matmul/matrix_units, matmul/tiles_and_waves, matmul/wgmma, matmul/clusters]
# summary: "TMA and wgmma alone leave you far behind cuBLAS. Which steps close the gap, and which ones gain nothing?"
# description: "A BF16 GEMM for Hopper in 200 lines of CUDA C: producer and consumer warpgroups, setmaxnreg, a TMA store, persistent blocks, tile orders, clusters with multicast, and even waves, each step measured."
# date: 2026-11-23
# tags: [GEMM, Hopper, wgmma, TMA, warp specialisation, clusters]
# ---

# %% [markdown]
# On a Hopper GPU, cuBLAS multiplies two BF16 matrices of 4,096 × 4,096 in {{ hook.cublas | us }}. A naive kernel with
# one thread per element of C takes {{ hook.naive | us }}. The last kernel on this page takes {{ beside.us | us }}.
#
# You already have the parts: [the TMA](tma.py) copies tiles, mbarriers signal that they've arrived, and
# [wgmma](wgmma.py) multiplies them. Put together in the obvious way, they leave you far behind cuBLAS. The difference
# is scheduling: who loads, who multiplies, who waits for whom, and in which order the tiles are computed. Some changes
# gain nothing, and a single wrong qualifier costs more than most of the changes gain.
#
# The schedule follows Pranjal Shankhdhar's [fast.cu](https://cudaforfun.substack.com/p/outperforming-cublas-on-h100-a-worklog) and [CUTLASS](https://github.com/NVIDIA/cutlass), which calls it *warp-specialised persistent*.

# %% fold="Imports"
import re

import numpy as np

from tilewise import Kernel, bf16, check, expect_hazard, gpu_here, parallel, publish, show, tensor_map, tiles
from tilewise.figures import Span, bars, heat_map, timeline
from tilewise.kernels import hilbert
from tilewise.measurements import Archive, Numbers, complete, medians_us, printed, printed_numbers
from tilewise.measurements.archive import lesson_root
from tilewise.measurements.profiling import PEAK as OF_PEAK
from tilewise.measurements.profiling import SUMMARY, printed_profiles, stall_fractions, summary_rows
from tilewise.measurements.references import bf16_product, matrix_product

OPTIONS = ("-std=c++17", "-arch=sm_90a")

# %% [markdown]
# ## One warpgroup, one buffer
#
# All kernels on this page include [`hopper.cuh`](tma.py#the-shared-header), which holds the functions from the last two
# lessons.
#
# Start with one 64 × 256 tile per block, one warpgroup, and one buffer for a tile of A and a tile of B, each 64 deep
# along K. One thread requests both tiles, all threads wait for the bytes, and the warpgroup issues four `wgmma`
# instructions.


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
#include "hopper.cuh"

// a warpgroup's 64 x 256 accumulators to C, two columns at a time
static __device__ void store_tile(Bf16* C, float (&d)[128], int i, int j,
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

// C = A B in BF16, one tile of 64 x 256 per block: one warpgroup, one buffer.
// a_map, b_map: boxes of 64 x 64, 128-byte swizzle. Any M; N and K multiples of 8.
// Grid: ceil(N / 256) x ceil(M / 64). Block: 128. Dynamic shared memory: 40 KB. sm_90a.
extern "C" __global__ void __launch_bounds__(128)
one_buffer(const __grid_constant__ TensorMap a_map,
           const __grid_constant__ TensorMap b_map, Bf16* C, int M, int N, int K) {
    extern __shared__ __align__(1024) unsigned char memory[];
    __shared__ __align__(8) u64 full;
    unsigned char *a = memory, *b = memory + 8192;
    int i = blockIdx.y * 64, j = blockIdx.x * 256;
    if (threadIdx.x == 0) {
        mbarrier_init(&full, 1);
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    float acc[128];
    int k_tiles = (K + 63) / 64;
    for (int t = 0; t < k_tiles; ++t) {
        // [step
        if (threadIdx.x == 0) {  // one thread requests both tiles
            mbarrier_arrive_expect_tx(&full, 8192 + 4 * 8192);
            tma_load_2d(a, &a_map, t * 64, i, &full);
            for (int q = 0; q < 4; ++q)
                tma_load_2d(b + q * 8192, &b_map, j + 64 * q, t * 64, &full);
        }
        mbarrier_wait(&full, t & 1);
        wgmma_fence();
        #pragma unroll
        for (int s = 0; s < 4; ++s)
            wgmma_m64n256k16_mn(acc, descriptor(a + 32 * s, 16, 1024),
                  descriptor(b + 2048 * s, 8192, 1024), t | s);
        wgmma_commit();
        wgmma_wait<0>(acc);
        __syncthreads();  // all warps have read the tiles
        // step]
    }
    store_tile(C, acc, i, j, M, N);
}
""",
    options=OPTIONS,
)

# %%
ONE_BUFFER.region("step")

# %% [markdown]
# Run it on the simulator. If every element of A is 1 and every element of B is 0.5, every element of C is K / 2.

# %%
A, B, C = np.ones((64, 128)), np.full((128, 256), 0.5), np.zeros((64, 256))
A, B, C = bf16.bits(A), bf16.bits(B), bf16.bits(C)
A_map, B_map = (tensor_map(array, box=(64, 64), swizzle=128, dtype="bfloat16") for array in (A, B))
ONE_BUFFER(A_map, B_map, C, 64, 256, 128, grid=(1, 1), block=128, shared_bytes=40 * 1024)
print(bf16.values(C)[0, 0], bf16.values(C)[63, 255])

# %% fold="Code of the checks"
from tilewise import agree, case, ceil_div, integers, normal, output
from tilewise.measurements import recorded_device

GPU = recorded_device()
SMS = GPU.sms
PEAK = GPU.peak_tflop_per_s["bf16_matrix"]
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
# ## Warp specialisation: producer and consumer warpgroups
#
# While a tile is in flight, this block computes nothing. So split the work: a *producer* warpgroup only loads,
# *consumer* warpgroups only multiply, and [a ring of buffers](tma.py#a-ring-of-buffers) connects them. Each buffer has
# two mbarriers: `full` completes when the bytes have arrived, and `empty` when every consumer has read them. A consumer
# waits only if the producer is late.


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
            for a, b in slabs:  # in the order of arrival
                d += a @ b
            # consumer]
            C[np.ix_(rows, cols)] = d


# %% tab="CUDA C"
PIPELINE = Kernel(
    r"""
#include "hopper.cuh"

// a warpgroup's 64 x 256 accumulators to C, two columns at a time
static __device__ void store_tile(Bf16* C, float (&d)[128], int i, int j,
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

// The same with a producer warpgroup, a ring of STAGES buffers and CONSUMERS consumer
// warpgroups, each of which computes 64 x 256 of C.
// Grid: ceil(N / 256) x ceil(M / (64 * CONSUMERS)). Block: 128 * (1 + CONSUMERS).
// Dynamic shared memory: STAGES * (A_BYTES + B_BYTES).
extern "C" __global__ void __launch_bounds__(128 + 128 * CONSUMERS, 1)
pipeline(const __grid_constant__ TensorMap a_map,
         const __grid_constant__ TensorMap b_map, Bf16* C, int M, int N, int K) {
    extern __shared__ __align__(1024) unsigned char memory[];
    __shared__ __align__(8) u64 full[STAGES], empty[STAGES];
    unsigned char *a = memory, *b = memory + STAGES * A_BYTES;
    int i = blockIdx.y * CONSUMERS * 64, j = blockIdx.x * 256;
    int k_tiles = (K + 63) / 64, warpgroup = threadIdx.x / 128;
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; ++s) {
            mbarrier_init(&full[s], 1);
            mbarrier_init(&empty[s], CONSUMERS);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    if (warpgroup == 0) {
        // [producer
#if REGISTERS
        asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
#endif
        if (threadIdx.x == 0)
            for (int t = 0; t < k_tiles; ++t) {
                int s = t % STAGES;
                mbarrier_wait(&empty[s], t / STAGES % 2 ^ 1);  // passes at first
                mbarrier_arrive_expect_tx(&full[s], A_BYTES + B_BYTES);
                for (int q = 0; q < CONSUMERS; ++q)
                    tma_load_2d(a + s * A_BYTES + q * 8192, &a_map,
                         t * 64, i + 64 * q, &full[s]);
                for (int q = 0; q < 4; ++q)
                    tma_load_2d(b + s * B_BYTES + q * 8192, &b_map,
                         j + 64 * q, t * 64, &full[s]);
            }
        // producer]
    } else {
        // [consumer
#if REGISTERS
        asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
#endif
        float acc[128];
        for (int t = 0; t < k_tiles; ++t) {
            int s = t % STAGES;
            unsigned char* a_tile = a + s * A_BYTES + (warpgroup - 1) * 8192;
            unsigned char* b_tile = b + s * B_BYTES;
            mbarrier_wait(&full[s], t / STAGES % 2);
            wgmma_fence();
            #pragma unroll
            for (int k = 0; k < 4; ++k)
                wgmma_m64n256k16_mn(acc, descriptor(a_tile + 32 * k, 16, 1024),
                      descriptor(b_tile + 2048 * k, 8192, 1024), t | k);
            wgmma_commit();
            wgmma_wait<1>(acc);  // tile t - 1 has been read
            if (t && threadIdx.x % 128 == 0) mbarrier_arrive(&empty[(t - 1) % STAGES]);
        }
        wgmma_wait<0>(acc);
        // consumer]
        store_tile(C, acc, i + 64 * (warpgroup - 1), j, M, N);
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
# A consumer keeps one `wgmma` group in flight while it issues the next, so that the tensor cores always have work. When
# `wgmma_wait<1>` returns, the *previous* group is done, so the consumer signals `empty` for tile `t - 1`.

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
# Each wait prevents one bug. Without the wait on `full`, a consumer multiplies bytes that haven't arrived. Without the
# wait on `empty`, the producer laps the consumers and sets an expected byte count on an mbarrier whose current phase
# hasn't completed. Without the last `wgmma_wait`, the consumer stores unfinished accumulators. On a GPU, a kernel with
# such a bug can still pass its tests. The simulator reports each one:

# %% fold="Code of the check"
from tilewise.kernel.edits import edited

faulty = RUNG_REGISTERS[1](136, 40, 392)
NO_FULL = edited(PIPELINE, ("mbarrier_wait(&full[s], t / STAGES % 2);", ""))
NO_EMPTY = edited(PIPELINE, ("mbarrier_wait(&empty[s], t / STAGES % 2 ^ 1);", ""))
NO_RESULT = edited(PIPELINE, ("        wgmma_wait<0>(acc);", ""))
expect_hazard(NO_FULL.on(faulty), "undelivered", line_with="wgmma_m64n256k16_mn(acc, descriptor(a_tile")
expect_hazard(NO_EMPTY.on(faulty), "mbarrier", line_with="mbarrier_arrive_expect_tx(&full[s]")
expect_hazard(NO_RESULT.on(faulty), "accumulator", line_with="store_tile(C, acc")

# %% [markdown]
# Run one tile of 128 × 256, and leave out one wait at a time. What does the simulator report for each version?

# %% fold="Code of the run"
from tilewise import try_it

RING = RUNG_REGISTERS[1](128, 256, 384)
WAITS = {
    "all waits": PIPELINE,
    "no wait on full": NO_FULL,
    "no wait on empty": NO_EMPTY,
    "no last wait": NO_RESULT,
}
try_it({name: kernel.on(RING) for name, kernel in WAITS.items()})

# %% [markdown]
# To watch the ring, let each role record its SM's clock:

# %% fold="The kernel with clock stamps"
STAMPS = {
    "mbarrier_wait(&empty[s], t / STAGES % 2 ^ 1);  // passes at first\n": "if (here) stamps[t] = clock64();\n",
    "mbarrier_wait(&full[s], t / STAGES % 2);\n": "if (here) stamps[(2 * warpgroup - 1) * k_tiles + t] = clock64();\n",
    "wgmma_wait<1>(acc);  // tile t - 1 has been read\n": "if (here) stamps[2 * warpgroup * k_tiles + t] = clock64();\n",
    "int k_tiles = (K + 63) / 64, warpgroup = threadIdx.x / 128;\n": (
        "bool here = blockIdx.x + blockIdx.y == 0 && threadIdx.x % 128 == 0;\n"
    ),
}


def with_stamps():
    """The pipeline in which the first block notes the clock: producer, then start and end of each consumer."""
    text = PIPELINE.source
    for line, stamp in STAMPS.items():
        assert text.count(line) == 1, line
        text = text.replace(line, line + stamp)
    text = text.replace(
        "Bf16* C, int M, int N, int K) {", "Bf16* C, int M, int N, int K, long long* stamps) {"
    )
    return Kernel(text, defines=PIPELINE.defines, options=OPTIONS)


STAMPED, SHOWN = with_stamps(), 14

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
# requested, arrived for two consumers, previous tile done by both: an array of K tiles by five
CLOCKS = np.array(
    [[int(clock) for clock in re.findall(r"-?\d+", line)[1:]] for line in SAID.splitlines()[1:]]
)


def spans_of(clocks):
    """Spans of the buffers, from request to arrival, and of the consumers' wgmma groups."""
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
            unit="cycles",
            title="The producer runs four tiles ahead, and both consumers stay busy",
            caption=f"The first {SHOWN} K tiles of one block with two consumer warpgroups, recorded on an {{machine}}. In a buffer's row, a bar extends from the request to the arrival. A consumer's bar starts when its tile has arrived and the previous one is done.",
        )
    )
publish(
    pace={
        "clocks": float(np.median(np.diff(CLOCKS[5:, 3]))) if SAID else np.nan,
        "first": float(CLOCKS[0, 1]) if SAID else np.nan,
    }
)

# %% [markdown]
# Once the ring is full, each K tile takes a consumer {{ pace.clocks | ,.0f }} cycles. At their peak (data sheet), the
# tensor cores need {{ large.clocks | , }} for both consumers, so little is left to gain here. But the first tile didn't
# arrive until {{ pace.first | ,.0f }} cycles had passed.

# %% [markdown]
# ## Two consumer warpgroups: fewer bytes per FLOP
#
# Why two consumers? With a 64 × 256 output tile, each SM has to load {{ small.per_clock | .0f }} bytes from the L2 for
# every cycle of tensor-core work. A second consumer with 64 more rows reuses the same tile of B. That leaves
# {{ large.per_clock | .0f }} bytes per cycle.
#
# A consumer thread needs 128 registers for its accumulators alone, while a producer needs very few, so
# [`setmaxnreg`](wgmma.py#the-register-budget) moves registers from the producer to the consumers.

# %% fold="Code of the numbers"


def a_slab(rows, columns, shared_by=1):
    """Bytes that a block loads for 64 of K, and cycles of the tensor cores for them."""
    moved, clocks = 2 * 64 * (rows + columns / shared_by), 2 * rows * columns * 64 // A_CLOCK
    return {"bytes": int(moved), "clocks": clocks, "per_clock": moved / clocks}


publish(
    small=a_slab(64, 256),
    large=a_slab(128, 256),
    pair=a_slab(128, 256, 2),
    task={"peak": PEAK, "us": 2 * 4096**3 / PEAK / 1e6},
)

# %% [markdown]
# ## Persistent blocks and a loop over tiles
#
# A block that computes one tile starts with an empty ring and ends by waiting for its stores. A *persistent* kernel is
# launched with one block per SM, and each block loops over tiles: the producer starts loading the next tile while the
# consumers are still storing the previous one. The kernel reads the order of the tiles from an array.
#
# ??? definition "Persistent kernel | persistent kernels"
#     A kernel launched with as many blocks as fit on the device at once. Each block loops over
#     pieces of the work.


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
#include "hopper.cuh"

#define A_BYTES 16384
#define B_BYTES 32768
#define HALVES 2  // the tile of C is stored in two halves
// New: arrive at this mbarrier of another block of the cluster
static __device__ void mbarrier_arrive_cluster(u64* bar, int block) {
    asm volatile("{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\n"
                 "mbarrier.arrive.shared::cluster.b64 _, [there];\n}"
                 :: "r"(smem_addr(bar)), "r"(block) : "memory");
}
// New: one copy, written to the same address in every block of the cluster
static __device__ void tma_load_2d_multicast(void* to, const TensorMap* map, int x, int y,
                                   u64* bar) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile"
                 ".mbarrier::complete_tx::bytes.multicast::cluster "
                 "[%0], [%1, {%3, %4}], [%2], %5;"
                 :: "r"(smem_addr(to)), "l"(map), "r"(smem_addr(bar)), "r"(x), "r"(y),
                    "h"((unsigned short)((1 << CLUSTER) - 1)) : "memory");
}
// [write
// New: 64 x 256 accumulators through shared memory, in boxes of 64 x 64
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
// write]

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
    // New: requested before the first barrier
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
        // [producer
        asm volatile("setmaxnreg.dec.sync.aligned.u32 24;");
        if (threadIdx.x == 0) {
            // New: a loop over output tiles
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
                        else tma_load_2d_multicast(to, &b_map, x, k * 64, &full[s]);  // New
                    }
                }
            }
            // New: stay until the other block's last arrivals have come
            for (int s = 0; s < STAGES && CLUSTER > 1; ++s, ++t)
                mbarrier_wait(&empty[t % STAGES], t / STAGES % 2 ^ 1);
        }
        // producer]
    } else {
        // [consumer
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
                    wgmma_m64n256k16_mn(acc, descriptor(a_tile + 32 * m, 16, 1024),
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
        // consumer]
        if (threadIdx.x % 128 == 0)  // keep shared memory until the TMA has read it
            asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");
    }
}
""",
    defines={"CLUSTER": 1, "STAGES": 4},
    options=OPTIONS,
)

# %%
GEMM.region("producer")

# %% [markdown]
# ## Storing C: stmatrix and TMA
#
# In the \epilogue, `stmatrix`, the inverse of `ldmatrix`, writes the accumulators to shared memory as BF16, four 8 × 8
# matrices at a time. The layout is swizzled, so there are no bank conflicts. Then one thread has the TMA store 64 × 64
# boxes in the background; the TMA clips them at the edge of C.

# %%
GEMM.region("write")

# %% [markdown]
# Two orderings matter. `fence.proxy.async` must come between the writes and the TMA's read, because [the TMA reads
# through a different proxy](tma.py#tma-stores-and-the-async-proxy). And `cp.async.bulk.wait_group.read` must come
# before the next tile overwrites the staging buffer. Leave out either one, and the simulator stops:

# %% fold="Code of the check"


def of_gemm(order, blocks=SMS, cluster=1, kernel=None, even=False):
    made = kernel or Kernel(GEMM.source, defines={"CLUSTER": cluster, "STAGES": 4}, options=OPTIONS)

    def on(M, N, K, **more):
        path = np.array(order(ceil_div(ceil_div(M, 128), cluster), ceil_div(N, 256)), np.int32)
        at_once = min(blocks // cluster, len(path)) if blocks else len(path)
        if even:  # the smallest grid with as many waves
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
    name="C of random inputs, against a GEMM in 64 bits",
)
FENCE = 'asm volatile("fence.proxy.async.shared::cta;" ::: "memory");'
WAIT = 'if (first)\n            asm volatile("cp.async.bulk.wait_group.read 0;" ::: "memory");'
small = on_two(136, 264, 136)
expect_hazard(edited(GEMM, (FENCE, "")).on(small), "proxy", line_with="tma_store_2d(c_map")
expect_hazard(edited(GEMM, (WAIT, "")).on(small), "overwritten", line_with="stmatrix")

# %% [markdown]
# ## Tile order: row-major, grouped, Hilbert
#
# At any moment 132 tiles are in flight, and they share rows of A and columns of B through the L2. In row-major order,
# they cover a few long rows of tiles and therefore need all columns of B. If the order works through groups of eight
# rows, the tiles in flight cover something closer to a square, which needs fewer rows and columns in total. A Hilbert
# curve, fast.cu's choice, keeps neighbours in the list close in the matrix at every scale.


# %% fold="Code of two of the orders"
def row_by_row(rows, columns):
    return [(i, j) for i in range(rows) for j in range(columns)]


def grouped(rows, columns, high=8):
    """Column by column within groups of a few rows."""
    return [
        (i, j)
        for first in range(0, rows, high)
        for j in range(columns)
        for i in range(first, min(first + high, rows))
    ]


# %% fold="Code of the figure"
ORDERS = {"row-major": row_by_row, "groups of eight rows": grouped, "Hilbert curve": hilbert}


def slabs_of_wave(order, width=128):
    """Bytes of A and B that the tiles of a wave need for 64 of K, as a mean over the waves."""
    waves = [order[start : start + width] for start in range(0, len(order), width)]
    needed = [128 * len({i for i, _ in wave}) + 256 * len({j for _, j in wave}) for wave in waves]
    return 2 * 64 * float(np.mean(needed))


def when(order):
    """The position in the list of each of 16 x 16 tiles."""
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
        title="A Hilbert curve keeps tiles of one wave close together",
        caption="C as 16 × 16 tiles in three orders. The greener a tile, the later it is.",
        alt="Three squares of 16 by 16 tiles, coloured by their position in the list: row-major, in groups of eight rows, along a Hilbert curve.",
    )
)
publish(waves={"rows_kb": NEEDED["row-major"] / 1024, "hilbert_kb": NEEDED["Hilbert curve"] / 1024})

# %% [markdown]
# At 8,192, a wave of 128 tiles needs an average of {{ waves.rows_kb | ,.0f }} KiB of A and B for each K tile in
# row-major order, and {{ waves.hilbert_kb | ,.0f }} KiB along the curve. The blocks request the same number of bytes
# from the L2 whatever the order. Only the traffic between DRAM and the L2 changes.

# %% [markdown]
# ## Clusters and multicast
#
# Two tiles in the same column of C need the same tiles of B. So launch the blocks in clusters of two: each block loads
# half of the tile of B, and the TMA writes it into the shared memory of both by
# [multicast](clusters.py#multicast-one-load-for-all-blocks). The load on the L2 falls from {{ large.per_clock | .0f }}
# to {{ pair.per_clock | .0f }} bytes per cycle per SM. The price is that a buffer is free only when the consumers of
# *both* blocks have read it, so each consumer arrives at both `empty` mbarriers. Since one of them is in the other
# block, `mbarrier.arrive.release.cluster` may look like the safe choice.
#
# Why pairs and not larger clusters? Ask the driver how many fit at once:

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

# %% fold="Code of the check, and of the numbers"
PAIRS, on_pairs = of_gemm(grouped, blocks=4, cluster=2)
on_one_pair = of_gemm(grouped, blocks=2, cluster=2)[1]  # both of its tiles, one after the other
whole = [on_pairs(300, 520, 392, whole=True), on_one_pair(136, 264, 200, whole=True)]
agree(one_buffer, PAIRS, whole)

CLUSTERS = printed_numbers("matmul/hopper", "clusters_at_once", r"clusters of (\d+) .*: (\d+) at once")
publish(fours={"at_once": CLUSTERS[4]})

# %% [markdown]
# {{ fours.at_once }} clusters of four fit at once, not the 33 that 132 SMs would hold, because [a cluster has to fit
# into a GPC](clusters.py#gpcs-where-a-cluster-fits). Clusters of two use all SMs.

# %% [markdown]
# ## Even waves
#
# At 4,096, C has 512 tiles. On 132 SMs they take four [waves](tiles_and_waves.py), and in the last one some SMs idle.
# 128 SMs need just as many waves, so launch 128 blocks. At this size, each wave of 128 tiles on the Hilbert curve forms
# a rectangle, which needs only {{ rounds.even_kb | .0f }} KiB for each K tile.

# %% fold="Code of the numbers"
PATH = hilbert(4096 // 128, 4096 // 256)
assert (len(PATH), ceil_div(len(PATH), SMS)) == (512, 4), "the text says so"
publish(rounds={"even_kb": slabs_of_wave(PATH, 128) / 1024})

# %% [markdown]
# ## Estimate: counting bytes per FLOP
#
# Before you time anything, count:

# %% fold="The naive kernel, for comparison"
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
from tilewise import Table
from tilewise.kernel.nvrtc import available, compile_kernel

RELEASED = Kernel(
    GEMM.source.replace("mbarrier.arrive.shared::cluster", "mbarrier.arrive.release.cluster.shared::cluster"),
    defines={"CLUSTER": 2, "STAGES": 4},
    options=OPTIONS,
)
assert RELEASED.source != GEMM.source
LADDER = {  # kernel and launch, and what is new
    "naive, no tensor cores": ((ONE_THREAD, with_one_thread), "one thread per element"),
    "single buffer": ((ONE_BUFFER, with_one_buffer), "wgmma and TMA, tile 64 × 256"),
    "producer/consumer ring": (RUNG_RING, "producer warpgroup, four stages"),
    "two consumer warpgroups": (RUNG_TWO, "tile 128 × 256"),
    "setmaxnreg": (RUNG_REGISTERS, "40 and 232 registers"),
    "TMA store epilogue": (of_gemm(row_by_row, blocks=None), "stmatrix, then TMA"),
    "persistent": (of_gemm(row_by_row), "loop over tiles, row-major"),
    "persistent, grouped order": (of_gemm(grouped), "groups of eight rows"),
    "persistent, Hilbert order": (of_gemm(hilbert), "Hilbert curve"),
    "clusters of two, multicast": (of_gemm(hilbert, cluster=2), "B by multicast"),
    "even waves": (of_gemm(hilbert, cluster=2, even=True), "fewer blocks, as many waves"),
    "even waves, release.cluster": (
        of_gemm(hilbert, cluster=2, even=True, kernel=RELEASED),
        "arrive with .release.cluster",
    ),
}
SIZE = (256, 512, 64)


def counted_of(kernel, on):
    """FLOP per byte loaded and store requests of one launch."""
    counts = kernel.on(on(*SIZE)).simulate().counts
    asked = counts.bulk_load.useful_bytes or counts.global_load.useful_bytes
    return 2 * SIZE[0] * SIZE[1] * SIZE[2] / asked, counts.global_store.requests


COUNTED = {label: counted_of(*rung) for label, (rung, _) in LADDER.items()}
show(
    Table(
        ["version", "new", "FLOP per byte", "store requests"],
        [[label, new, *COUNTED[label]] for label, (_, new) in LADDER.items()],
        caption="Counts from the simulator for a 256 × 512 GEMM with K = 64: FLOPs per byte that loads and bulk copies move, and warp-wide store requests.",
    )
)

# %% [markdown]
# What do you expect? The ring removes the waiting. The second consumer and multicast raise the intensity. The
# persistent loop hides the start and the end of each tile, and the tile order saves DRAM traffic. The wider release
# shouldn't matter, since it moves no data.


# %% fold="Code of the measurement"
from tilewise import Guess, measure
from tilewise.kernels.from_lesson import from_lesson


def launched(label):
    kernel, on = LADDER[label][0]
    return lambda M, N, K: kernel.on(on(M, N, K))


torch_matmul, cublas_lt = from_lesson("matmul/matrix_units", "torch_matmul", "cublas_lt")

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
    reasons={"*": "Estimate: counting bytes per FLOP"},
    fold="All rows",
    guess=Guess(
        "At 4,096, how much faster is the last version, with clusters and even waves, than the single buffer?",
        of="even waves",
        over="single buffer",
        at={"M": 4096, "N": 4096, "K": 4096},
        between=(1.0, 8.0),
        models={"bytes per cycle": a_slab(64, 256)["per_clock"] / a_slab(128, 256, 2)["per_clock"]},
        because="With a single buffer, several blocks fit on an SM, and one multiplies while another waits.",
    ),
)

# %% fold="Code that profiles versions on a GPU" needs="gpu torch" record="counters"
if gpu_here():
    from tilewise.measurements.profiling import profiled, table_of
    from tilewise.measurements.side_by_side import Calls

    def chosen_versions():
        """Calls of some versions and of cuBLAS on matrices of 4,096 and of 8,192 rows and columns."""
        calls = Calls()
        for n, labels in (
            (4096, ("naive, no tensor cores", "single buffer", "setmaxnreg", "even waves")),
            (8192, ("persistent", "persistent, grouped order", "persistent, Hilbert order", "even waves")),
        ):
            for label in labels:
                calls.add(f"{label}, {n}", launched(label)(n, n, n))
            calls.add_library(f"cuBLAS, {n}", torch_matmul)
        return calls.by_label

    print(table_of(profiled("matmul/hopper", "counters", chosen_versions)))

# %% fold="Code of the numbers"
US = medians_us(ladder, "M", "N", "K")
RATES = Numbers({(label, *size): 2 * np.prod(size) / us / 1e6 for (label, *size), us in US.items()})
LAST = "even waves"
H200 = Archive(lesson_root()).record("hopper_ladder", "NVIDIA H200")  # has more rows than the H100's
assert H200 is not None, "the text quotes it"
assert any("8,192" in note and "power cap" in note for note in H200.provenance["notes"]), "the text says so"
H200_RATES = Numbers(
    {
        (row.variant, *row.case.values()): 2 * np.prod([*row.case.values()]) / row.median / 1e6
        for row in H200.rows
        if row.median
    }
)
WGMMA = H200.provenance["ceilings"]["probes"]["wgmma_bf16_tflop_per_s"]


def blocks_per_sm(label, threads, shared_kb):
    """How many blocks fit on an SM, by the registers that NVRTC gives the kernel."""
    [built] = compile_kernel(LADDER[label][0][0], ["sm_90a"])
    registers = ceil_div(built.registers, 8) * 8  # allocated in units of 8 per thread
    return min(65_536 // (threads * registers), 227 // (shared_kb + 1))  # KB; 1 is the system's


publish(fits={"single": np.nan if available() else blocks_per_sm("single buffer", 128, 40)})
if available() is None:
    assert blocks_per_sm("producer/consumer ring", 256, 160) == 1, "the text says that one ring fits"


def times(label, over, n=4096):
    return RATES[label, n, n, n] / RATES[over, n, n, n]


if complete(RATES):
    for n in (2048, 4096, 8192):
        assert times(LAST, "cuBLAS", n) > 1, f"the text says that the kernel leads at {n:,}"
    assert times("even waves, release.cluster", LAST) < 0.8, "a takeaway says what the release costs"
BESIDE_LT = [H200_RATES[LAST, n, n, n] / H200_RATES[LT, n, n, n] for n in (2048, 4096, 8192)]
TFLOP = RATES[LAST, 4096, 4096, 4096]
publish(
    gave={
        "ring": times("producer/consumer ring", "single buffer"),
        "two": times("two consumer warpgroups", "producer/consumer ring"),
        "stored": times("TMA store epilogue", "setmaxnreg"),
        "listed": times("persistent", "TMA store epilogue"),
        "curve_large": times("persistent, Hilbert order", "persistent", 8192),
        "word": times("even waves, release.cluster", LAST),
    },
    beside={
        "at_4096": times(LAST, "cuBLAS"),
        "at_8192": times(LAST, "cuBLAS", 8192),
        "tflop": TFLOP,
        "us": 2 * 4096**3 / TFLOP / 1e6,
        "of_units": TFLOP / PEAK,
    },
    best_of_ten={"least": min(BESIDE_LT), "most": max(BESIDE_LT)},
    unfed={"tflop": WGMMA, "reached": H200_RATES[LAST, 8192, 8192, 8192] / WGMMA},
    hook={
        "cublas": US["cuBLAS", 4096, 4096, 4096],
        "naive": US["naive, no tensor cores", 4096, 4096, 4096],
    },
    few_tiles={
        "ring": times("producer/consumer ring", "cuBLAS", 1024),
        "last": times(LAST, "cuBLAS", 1024),
    },
)

# %% [markdown]
# ## Measured: which steps pay off
#
# Each factor compares a version with the one before it. The second consumer is the biggest step, at
# {{ gave.two | .1f }}×. The ring on its own gains nothing ({{ gave.ring | .2f }}×): with a single buffer,
# {{ fits.single }} small blocks fit on an SM, and one multiplies while another waits; with the ring, only one block
# fits. But the ring allows a larger tile. Next come the TMA store, at {{ gave.stored | .2f }}×, and the persistent
# loop, at {{ gave.listed | .2f }}×.
#
# Tile order alone doesn't pay off: at 8,192, the Hilbert curve reaches {{ gave.curve_large | .2f }}× the throughput of
# row-major order. A \profile on an H200 shows that DRAM isn't the bottleneck: the curve nearly halves the bytes read
# from DRAM, but the tensor cores are busy {{ profile.busy | .0% }} of the time either way.

# %% fold="Code of the table"
PROFILES = printed_profiles("matmul/hopper", "counters")  # recorded on an H200
SHOWN = {label: PROFILES[f"{label}, 4096"] for label in ("single buffer", "setmaxnreg", LAST, "cuBLAS")}
rows, curve = (PROFILES[f"persistent{order}, 8192"] for order in ("", ", Hilbert order"))
TENSOR, READ = f"sm__pipe_tensor_cycles_active{OF_PEAK}active", "dram__bytes_read.sum"
publish(profile={"busy": curve[TENSOR] / 100})
if PROFILES:
    assert curve[READ] < 0.55 * rows[READ] and abs(curve[TENSOR] - rows[TENSOR]) < 1, "the text: tile order"
    assert SHOWN["cuBLAS"][TENSOR] - 1 < SHOWN[LAST][TENSOR], "the text says that cuBLAS isn't busier"
    waits = stall_fractions(SHOWN["single buffer"])
    assert max(waits, key=waits.get) == "long_scoreboard", "the text says that it waits for its loads"
    show(
        Table(
            [SUMMARY[at] for at in (0, 1, 3)],
            [[row[at] for at in (0, 1, 3)] for row in summary_rows(SHOWN)],
            caption="A profile at 4,096 × 4,096 × 4,096 on an H200: cycles in which the tensor cores are busy, and the most frequent reasons why warps don't issue.",
        )
    )

# %% [markdown]
# With a single buffer, warps wait mostly for loads (`long_scoreboard`, which includes waits on an mbarrier).

# %% fold="Code of the figure"
if complete(RATES):
    at_4096 = {label: RATES[label, 4096, 4096, 4096] for label in (*LADDER, "cuBLAS")}
    show(
        bars(
            at_4096,
            x="throughput [TFLOP/s]",
            roles=dict.fromkeys(at_4096, "measured")
            | {"cuBLAS": "block", "even waves, release.cluster": "waste"},
            title="The second consumer gains most; a wider release scope costs most",
            caption="Throughput of each version at 4,096 × 4,096 × 4,096, and of cuBLAS called through torch.matmul, recorded on an {machine} with random inputs.",
        )
    )

# %% [markdown]
# ## The cost of a wider release scope
#
# By default, `mbarrier.arrive` publishes the thread's earlier writes to its own block. Widening the scope to
# `.release.cluster` cuts the throughput to {{ gave.word | .2f }}×. In the \SASS, a GPU-wide `MEMBAR` then precedes
# every signal: once per K tile, the warp waits until all its earlier writes are visible. But a consumer has only read
# shared memory, so the narrow scope is enough.
#
# ## Against cuBLAS
#
# At 4,096, the kernel reaches {{ beside.tflop | .0f }} TFLOP/s, {{ beside.of_units | .0% }} of the tensor cores' peak
# (data sheet, {{ task.peak | .0f }} TFLOP/s). That's {{ beside.at_4096 | .1% }} of the throughput of cuBLAS when called
# through `torch.matmul`; at 8,192, it's {{ beside.at_8192 | .1% }}. But cuBLAS ran a single algorithm, chosen by its
# heuristics. On an H200, we also timed the ten that cuBLASLt proposes. From 2,048 to 8,192, the kernel reaches
# {{ best_of_ten.least | .1% }} to {{ best_of_ten.most | .1% }} of the throughput of the best one: a tie. We didn't time CUTLASS.
#
# What about the hardware limit? On that H200, `wgmma` on operands that stay in shared memory reaches
# {{ unfed.tflop | .0f }} TFLOP/s. At 8,192, the kernel reaches {{ unfed.reached | .0% }} of that: its tensor cores are
# busy, but the GPU's power limit lowers the clock.
#
# ## Fewer tiles than SMs
#
# At 1,024, there are only 32 tiles for 132 SMs, and the kernel reaches {{ few_tiles.last | .0% }} of cuBLAS's
# throughput. The ring with one consumer, whose tiles are half as high, reaches {{ few_tiles.ring | .0% }}. Besides
# smaller tiles, you can use *split-K*: see [FP32 GEMM at other sizes](register_tiles_sizes.py) and
# [Stream-K](shared_tiles.py).
#
# ??? definition "Split-K"
#     Dividing the sum over K among several blocks, which then add their partial results, so that more
#     SMs have work than there are tiles.

# %% [markdown]
# ## Takeaways
#
# - Warp specialisation combines a producer warpgroup, a ring with `full` and `empty` mbarriers, and two consumers that
#   share each tile of B. It pays off because it makes a larger tile possible. With multicast, two blocks share each
#   tile of B.
# - In a persistent kernel, the next tile's loads overlap the previous tile's stores.
# - Don't use a wider release scope than you need. A needless `.release.cluster` cut the throughput to
#   {{ gave.word | .2f }}×.
#
# ## In your own kernel
#
# In Nsight Compute, look at `sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active` first, then at the \stall
# reasons in the source view: `long_scoreboard` at an `mbarrier.try_wait` on `full` means that loads are late (try more
# stages, a larger tile or multicast), and `membar` points to a fence that you may not need. To write the ring, the
# descriptors and a small GEMM yourself, solve the [puzzles](puzzles.py).

# %% fold="Code of the exercise, with two wrong answers that the tests reject"
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


def order_tests(order):
    for rows, columns in ((16, 16), (24, 40), (5, 7), (9, 17)):
        path = [tuple(tile) for tile in order(rows, columns)]
        assert sorted(path) == row_by_row(rows, columns), f"{rows} x {columns}: not every tile once"
        if rows % 8 or columns % 8:
            continue
        for start in range(0, len(path), 64):
            wave = path[start : start + 64]
            slabs = len({i for i, _ in wave}) + len({j for _, j in wave})
            assert slabs <= 16, (
                f"{rows} x {columns}: 64 tiles from {start} on need {slabs} rows and columns, not 16"
            )


exercise(
    "A tile order of your own",
    """
    A GPU computes 64 tiles of C at a time, in the order given by a list. Write `order(rows, columns)`: a list of all pairs
    (row, column). If both sizes are multiples of 8, each run of 64 entries that starts at a multiple of 64 may touch at
    most 16 different rows and columns in total. Other sizes must be covered, too.
    """,
    answer=in_squares,
    tests=order_tests,
    wrong=[row_by_row, lambda rows, columns: [(i, j) for j in range(columns) for i in range(rows)]],
    hint="Which rectangle of 64 tiles touches the fewest rows and columns?",
)
