# ---
# title: "Small GEMMs: smaller tiles or split-K in a cluster"
# needs: [matmul/shared_tiles, matmul/hopper]
# further: matmul/shared_tiles
# summary: "A BF16 GEMM with n = 1,024 has 32 tiles of 128 × 256 for 132 SMs. Which is faster: tiles a quarter of that size, or larger ones whose K is split between two blocks?"
# description: "BF16 GEMMs with fewer tiles than SMs on Hopper: 64 × 128 tiles, split-K with a reduction through distributed shared memory, and a TMA store, measured at five sizes."
# date: 2026-11-23
# tags: [GEMM, split-K, clusters, distributed shared memory]
# ---

# %% [markdown]
# A BF16 GEMM of 1,024 rows and columns has 32 tiles of 128 × 256. An H100 has 132 SMs, so three quarters of them get no
# tile at all.
#
# Two remedies give nearly every SM a block, with 128 blocks in all. *Smaller tiles* of 64 × 128 are simple. *\Split-K*
# uses tiles of 128 × 128 and assigns each tile to two blocks, each of which takes half of K. It should load a quarter
# fewer bytes per SM, as the figure shows. Which one is faster?

# %% fold="Imports, and code of the figure"
import numpy as np

from tilewise import Kernel, bf16, ceil_div, measure, publish, show, tensor_map, tiles
from tilewise.figures import bars
from tilewise.measurements import complete, medians_us, printed, recorded_device
from tilewise.measurements.references import bf16_product, matrix_product

GPU = recorded_device()
A_CLOCK = 2 * GPU.fma_per_sm_clock["bf16_matrix"]


def a_block(rows, columns, parts, n=1024):
    """Blocks of a GEMM of n, bytes that each loads or receives, and tensor-core cycles."""
    blocks = ceil_div(n, rows) * ceil_div(n, columns) * parts
    moved = 2 * n // parts * (rows + columns) + (4 * rows * columns // 2 if parts > 1 else 0)
    return blocks, moved, 2 * rows * columns * n // parts // A_CLOCK


CANDIDATES = {
    "128 × 256": a_block(128, 256, 1),
    "128 × 128": a_block(128, 128, 1),
    "64 × 128": a_block(64, 128, 1),
    "128 × 128, split-K": a_block(128, 128, 2),
}
show(
    bars(
        {f"{name}, {blocks} blocks": moved / 1024 for name, (blocks, moved, _) in CANDIDATES.items()},
        x="KiB into each SM",
        form=".0f",
        role="read",
        title="Split-K loads the fewest bytes per SM",
        caption="Bytes that one block of a 1,024-square BF16 GEMM loads, by tile shape and number of blocks. With split-K, this includes 32 KiB of accumulators from the other block.",
    )
)

# %% [markdown]
# ## Split-K through distributed shared memory
#
# The two blocks of a tile form a cluster, so each can write to the shared memory of the other, called *distributed
# shared memory*. Each block computes the product over its half of K. Then it sends half of its accumulators to the
# other block, and the two blocks synchronise. Each adds what it received to the half that it kept, and stores the sum.
# There's no workspace in global memory, and there are no atomics and no second launch.
#
# Two cluster barriers make that safe. The first guarantees that the other block has started, since you can't write to
# the shared memory of a block that isn't running yet. Each block arrives at this barrier as soon as it starts and
# waits only before it writes, so the wait is usually short. The second guarantees that both halves have arrived.

# %% fold="The helper functions"
OPTIONS = ("-std=c++17", "-arch=sm_90a")
HELPERS = r"""
#include "hopper.cuh"
// D += A B for a warpgroup: 64x16 times 16x128, B MN-major
static __device__ void wgmma_m64n128k16(float (&d)[64], u64 a, u64 b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
        HOPPER_R64 "}, %64, %65, 1, 1, 1, 0, 1;"
        : HOPPER_D64 : "l"(a), "l"(b));
}
// New: four accumulators to the same place in another block of the cluster
static __device__ void store_to_block(float4* p, int block, const float* v) {
    asm volatile("{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\n"
                 "st.shared::cluster.v4.f32 [there], {%2, %3, %4, %5};\n}"
                 :: "r"(smem_addr(p)), "r"(block), "f"(v[0]), "f"(v[1]), "f"(v[2]), "f"(v[3])
                 : "memory");
}
static __device__ void store_pair(Bf16* C, int i, int j, int M, int N, float x, float y) {
    if (i < M && j < N) *(__nv_bfloat162*)&C[(size_t)i * N + j] = __floats2bfloat162_rn(x, y);
}
"""


# %% tab="Pseudocode"
def gemm_small(A, B, C):
    (M, K), N = A.shape, B.shape[1]
    half = 64 * -(-K // 128)  # whole K tiles of 64
    for rows in tiles(M, 128):
        for cols in tiles(N, 128):
            # [reduction
            parts = [A[rows][:, ks] @ B[ks][:, cols] for ks in tiles(K, half)]
            C[np.ix_(rows, cols)] = sum(parts)  # each from a block of its own
            # reduction]


# %% tab="CUDA C"
GEMM_SMALL = Kernel(
    HELPERS
    + r"""
#define A_BYTES (CONSUMERS * 8192)
#define B_BYTES 16384
#define THREADS (128 * CONSUMERS)  // of the consumers

// C = A B in BF16, 64 * CONSUMERS x 128 of C per block or, with PARTS 2, per cluster of two blocks
// that take half of K each. a_map: boxes of 64 * CONSUMERS x 64; b_map: 64 x 64; c_map (BY_TMA):
// 16 x 64; all with a 128-byte swizzle. Any M; N and K multiples of 8.
// Grid: PARTS * ceil(N / 128) x ceil(M / (64 * CONSUMERS)). Block: 128 * (1 + CONSUMERS).
// Dynamic shared memory: STAGES * (A_BYTES + B_BYTES), and with PARTS 2 another 16 KB * CONSUMERS.
// PARTS 2 ignores BY_TMA. sm_90a.
extern "C" __global__ void __cluster_dims__(PARTS, 1, 1) __launch_bounds__(128 + THREADS, 1)
gemm_small(const __grid_constant__ TensorMap a_map,
          const __grid_constant__ TensorMap b_map,
          const __grid_constant__ TensorMap c_map, Bf16* C, int M, int N, int K) {
    extern __shared__ __align__(1024) unsigned char smem[];
    __shared__ __align__(8) u64 full[STAGES], empty[STAGES];
    unsigned char *a = smem, *b = a + STAGES * A_BYTES;
    float4* peer_acc = (float4*)(b + STAGES * B_BYTES);
    int i = blockIdx.y * 64 * CONSUMERS, j = blockIdx.x / PARTS * 128;
    int rank = blockIdx.x % PARTS, warpgroup = threadIdx.x / 128, tid = threadIdx.x - 128;
    int all = (K + 63) / 64, per_block = (all + PARTS - 1) / PARTS, first = rank * per_block;
    int k_tiles = min(per_block, all - first);
    if (threadIdx.x == 32) {
        prefetch_tensor_map(&a_map);
        prefetch_tensor_map(&b_map);
        if (BY_TMA) prefetch_tensor_map(&c_map);
    }
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; ++s) {
            mbarrier_init(&full[s], 1);
            mbarrier_init(&empty[s], CONSUMERS);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
#if PARTS > 1
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");  // this block runs
#endif
    if (warpgroup == 0) {
        if (threadIdx.x == 0)
            for (int t = 0; t < k_tiles; ++t) {
                int k = t;  // K tile of this block
                int s = t % STAGES;
                mbarrier_wait(&empty[s], t / STAGES % 2 ^ 1);
                mbarrier_arrive_expect_tx(&full[s], A_BYTES + B_BYTES);
                tma_load_2d(a + s * A_BYTES, &a_map, (first + k) * 64, i, &full[s]);
                for (int q = 0; q < 2; ++q)
                    tma_load_2d(b + s * B_BYTES + q * 8192, &b_map, j + 64 * q,
                         (first + k) * 64, &full[s]);
            }
        __syncwarp();
#if PARTS > 1
        asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
        asm volatile("barrier.cluster.arrive.release.aligned;\n"
                     "barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
        return;
    }
    float acc[64] = {};
    for (int t = 0; t < k_tiles; ++t) {
        int s = t % STAGES;
        unsigned char* a_tile = a + s * A_BYTES + (warpgroup - 1) * 8192;
        mbarrier_wait(&full[s], t / STAGES % 2);
        wgmma_fence();
        #pragma unroll
        for (int m = 0; m < 4; ++m)
            wgmma_m64n128k16(acc, descriptor(a_tile + 32 * m, 16, 1024),
                  descriptor(b + s * B_BYTES + 2048 * m, 8192, 1024));
        wgmma_commit();
        wgmma_wait<1>(acc);
        if (t && tid % 128 == 0) mbarrier_arrive(&empty[(t - 1) % STAGES]);
    }
    wgmma_wait<0>(acc);
    int lane = tid % 32, row = i + tid / 32 * 16 + lane / 4, column = j + lane % 4 * 2;
#if PARTS > 1
    // [reduction
    // the other block runs, so its shared memory may be written
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
    #pragma unroll
    for (int n = 0; n < 8; ++n) {  // the half that the other block finishes
        float v[4];
        #pragma unroll
        for (int q = 0; q < 4; ++q) v[q] = rank ? acc[4 * n + q] : acc[32 + 4 * n + q];
        store_to_block(&peer_acc[n * THREADS + tid], rank ^ 1, v);
    }
    // both halves have arrived
    asm volatile("barrier.cluster.arrive.release.aligned;\n"
                 "barrier.cluster.wait.acquire.aligned;" ::: "memory");
    #pragma unroll
    for (int n = 0; n < 8; ++n) {
        float4 other = peer_acc[n * THREADS + tid];
        float v[4];
        #pragma unroll
        for (int q = 0; q < 4; ++q) v[q] = rank ? acc[32 + 4 * n + q] : acc[4 * n + q];
        int col = column + 64 * rank + 8 * n;
        store_pair(C, row, col, M, N, v[0] + other.x, v[1] + other.y);
        store_pair(C, row + 8, col, M, N, v[2] + other.z, v[3] + other.w);
    }
    // reduction]
#elif BY_TMA
    if (CONSUMERS > 1)  // all consumers have read the ring
        asm volatile("bar.sync 1, %0;" :: "n"(THREADS) : "memory");
    unsigned char* staged = smem + tid / 32 * 4096;  // 16 rows in two boxes
    #pragma unroll
    for (int n = 0; n < 16; n += 2) {  // 8 columns each
        const float* v = acc + 4 * n;
        int r = lane % 16, chunk = (n % 8 + lane / 16) ^ r % 8;
        asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
            :: "r"(smem_addr(staged + n / 8 * 2048 + r * 128 + chunk * 16)),
               "r"(pack_bf16x2(v[0], v[1])), "r"(pack_bf16x2(v[2], v[3])),
               "r"(pack_bf16x2(v[4], v[5])), "r"(pack_bf16x2(v[6], v[7])) : "memory");
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncwarp();
    if (lane == 0) {  // each warp stores its own rows
        for (int q = 0; q < 2; ++q)
            tma_store_2d(&c_map, staged + q * 2048, j + 64 * q, i + tid / 32 * 16);
        asm volatile("cp.async.bulk.commit_group;\n"
                     "cp.async.bulk.wait_group.read 0;" ::: "memory");
    }
#else
    #pragma unroll
    for (int n = 0; n < 64; n += 2)
        store_pair(C, row + n / 2 % 2 * 8, column + n / 4 * 8, M, N, acc[n], acc[n + 1]);
#endif
}
""",
    defines={"CONSUMERS": 2, "PARTS": 2, "STAGES": 6, "BY_TMA": 0},
    options=OPTIONS,
)

# %%
GEMM_SMALL.region("reduction")

# %% [markdown]
# Run it on a small case: one 128 × 128 tile of C, with two K tiles, one for each block.

# %%
A, B, C = (bf16.bits(np.full((128, 128), value)) for value in (1, 0.5, 0))
maps = (
    tensor_map(array, box=(rows, 64), swizzle=128, dtype="bfloat16")
    for array, rows in ((A, 128), (B, 64), (C, 16))
)
GEMM_SMALL(*maps, C, 128, 128, 128, grid=(2, 1), block=384, shared_bytes=6 * 32768 + 32768)
print(bf16.values(C)[0, 0], bf16.values(C)[127, 127], "= 128 times 1 times 0.5")

# %% [markdown]
# ## Smaller tiles, and a TMA store
#
# The other variants come from the same kernel source. With 64 × 128 tiles there's one consumer warpgroup and no
# cluster. A variant with a *TMA store* writes C through shared memory in boxes, as in [the GEMM
# lesson](hopper.py#storing-c-stmatrix-and-tma), instead of with 4-byte stores. The checks also run split-K without its
# last cluster barrier, and the simulator reports a race.

# %% fold="Code of the checks"


from tilewise import agree, case, check, expect_hazard, integers, normal, output
from tilewise.kernel.edits import edited


def variant(consumers, parts, stages, by_tma=0):
    """The kernel for a tile of 64 * consumers by 128 and so many parts of K, and its launch for sizes."""
    settings = {"CONSUMERS": consumers, "PARTS": parts, "STAGES": stages, "BY_TMA": by_tma}
    kernel = Kernel(GEMM_SMALL.source, defines=settings, options=OPTIONS)

    def launch(M, N, K, whole=False):
        if whole:
            A, B = (integers(*size, low=-2, high=3, dtype="bfloat16") for size in ((M, K), (K, N)))
        else:
            A, B = normal(M, K, dtype="bfloat16"), normal(K, N, dtype="bfloat16")
        boxes = {"a_map": ("A", 64 * consumers), "b_map": ("B", 64), "c_map": ("C", 16)}
        maps = {
            name: tensor_map(array, box=(height, 64), swizzle=128, dtype="bfloat16")
            for name, (array, height) in boxes.items()
        }
        inputs = case(
            A=A,
            B=B,
            C=output(M, N, dtype="bfloat16"),
            **maps,
            M=M,
            N=N,
            K=K,
            grid=(parts * ceil_div(N, 128), ceil_div(M, 64 * consumers)),
            block=128 + 128 * consumers,
            shared_bytes=stages * (consumers * 8192 + 16384) + (parts - 1) * consumers * 16384,
        )
        return kernel.on(inputs)

    return launch


SPLIT = "128 × 128, split-K"
VARIANTS = {
    "64 × 128": variant(1, 1, 8),
    "64 × 128, TMA store": variant(1, 1, 8, by_tma=1),
    "64 × 128, TMA store, 5 stages": variant(1, 1, 5, by_tma=1),
    "128 × 128, TMA store": variant(2, 1, 7, by_tma=1),
    SPLIT: variant(2, 2, 6),
}
RAGGED = ((72, 264, 136), (200, 136, 1032))
agree(gemm_small, GEMM_SMALL, [VARIANTS[SPLIT](*size, whole=True).case for size in RAGGED])
for name, launch in VARIANTS.items():
    held = launch(136, 264, 648, whole=True).run()
    check(bf16.values(held["C"]), bf16_product(held), name=f"C by tiles of {name}")
LAST_BARRIER = """    // both halves have arrived
    asm volatile("barrier.cluster.arrive.release.aligned;\\n"
                 "barrier.cluster.wait.acquire.aligned;" ::: "memory");
"""
unsafe = edited(GEMM_SMALL, (LAST_BARRIER, ""))
expect_hazard(unsafe.on(VARIANTS[SPLIT](136, 136, 648, whole=True).case), "race")

# %% [markdown]
# Run the variants on one matrix of 128 × 128, with K = 512. How many bytes does each variant copy by TMA?

# %% fold="Code of the run"
from tilewise import try_it

try_it({name: VARIANTS[name](128, 128, 512) for name in ("64 × 128", "64 × 128, TMA store", SPLIT)})

# %% [markdown]
# ## Estimate: bytes per SM
#
# Both remedies give each SM the same {{ few.clocks | , }} cycles of tensor-core work. But small tiles load
# {{ few.small_kb | .0f }} KiB into each SM, and split-K {{ few.halves_kb | .0f }}, including the accumulators. How fast
# do these bytes arrive? In an earlier measurement, in which all SMs of an H100 filled their [ring
# buffers](hopper.py#warp-specialisation-producer-and-consumer-warpgroups) at once, an SM received its second to fourth
# K tiles at {{ few.rate | .0f }} bytes per cycle. At that pace, loading small tiles takes {{ few.small_clocks | ,.0f }}
# cycles, twice the tensor-core work, and split-K saves {{ few.saved | ,.0f }} of them. So split-K should win clearly.

# %% fold="Code of the numbers"
CLOCKS = [
    [int(clock) for clock in line.split(":")[1].split(",")]
    for line in printed("matmul/hopper", "pipeline_clock").splitlines()[1:]
]
# three K tiles of 48 KiB, from the arrival of the first to that of the fourth
RATE = 3 * 49152 / (CLOCKS[3][1] - CLOCKS[0][1]) if CLOCKS else np.nan
publish(
    few={
        "small_kb": CANDIDATES["64 × 128"][1] / 1024,
        "small_clocks": CANDIDATES["64 × 128"][1] / RATE,
        "small_us": CANDIDATES["64 × 128"][1] / RATE / GPU.boost_mhz,
        "clocks": CANDIDATES["64 × 128"][2],
        "rate": RATE,
        "halves_kb": CANDIDATES[SPLIT][1] / 1024,
        "saved": (CANDIDATES["64 × 128"][1] - CANDIDATES[SPLIT][1]) / RATE,
    }
)

# %% fold="Code of the measurement"
from tilewise.kernels.from_lesson import from_lesson

LT = "cuBLASLt, best of 10 algorithms"


torch_matmul, cublas_lt = from_lesson("matmul/matrix_units", "torch_matmul", "cublas_lt")

SIZES = ((768, 768, 768), (1024, 1024, 1024), (512, 2048, 1024), (1280, 1280, 1280), (1024, 1024, 4096))
small = measure(
    "few_tiles",
    variants={name: (lambda M, N, K, launch=launch: launch(M, N, K)) for name, launch in VARIANTS.items()},
    cases=[dict(zip("MNK", size, strict=True)) for size in SIZES],
    count_case={"M": 200, "N": 136, "K": 264},
    bytes=lambda M, N, K: 2 * (M * K + K * N + M * N),
    flop=lambda M, N, K: 2 * M * N * K,
    arithmetic="bf16_matrix",
    counts=("sectors", "instructions"),
    library={"cuBLAS": torch_matmul, LT: cublas_lt},
    reference=matrix_product,
    tolerance=2**-8,
    reasons={"*": "Estimate: bytes per SM"},
    fold="All rows",
)

# %% fold="Code of the figure"
US = medians_us(small, "M", "N", "K")
CUBE, LONG = (1024, 1024, 1024), (1024, 1024, 4096)
STORED, FIVE, SQUARE = "64 × 128, TMA store", "64 × 128, TMA store, 5 stages", "128 × 128, TMA store"


def of_cublas(name, *size):
    """A variant's rate as a fraction of cuBLAS's."""
    return US["cuBLAS", *size] / US[name, *size]


if complete(US):
    show(
        bars(
            {name: US[name, *CUBE] for name in (*VARIANTS, "cuBLAS")},
            x="time [µs]",
            form=".1f",
            roles={name: "block" if name == "cuBLAS" else "measured" for name in (*VARIANTS, "cuBLAS")},
            title="At n = 1,024, small tiles beat split-K",
            caption="Time of a 1,024-square BF16 GEMM on an {machine}, with random inputs that aren't in L2.",
        )
    )
    assert max(US[FIVE, *size] / US[SPLIT, *size] for size in SIZES[:3]) < 1, "the text: split-K loses"
    assert US[SPLIT, *LONG] / US[FIVE, *LONG] < US[SPLIT, *CUBE] / US[FIVE, *CUBE], (
        "the text says it comes closer"
    )
    faster = min(SPLIT, FIVE, key=lambda name: US[name, *LONG])
    assert {"H100 SXM": FIVE, "H200": SPLIT}.get(GPU.name, faster) == faster, "the text says which"
    assert US["64 × 128", *CUBE] > 2 * CANDIDATES["64 × 128"][1] / RATE / GPU.boost_mhz, (
        "not limited by arrival"
    )
publish(
    us={
        "plain": US["64 × 128", *CUBE],
        "stored": US[STORED, *CUBE],
        "five": US[FIVE, *CUBE],
        "split": US[SPLIT, *CUBE],
    },
    of={
        "five": of_cublas(FIVE, *CUBE),
        "square_1280": of_cublas(SQUARE, 1280, 1280, 1280),
        "small_1280": of_cublas(STORED, 1280, 1280, 1280),
        "long_five": of_cublas(FIVE, *LONG),
        "long_split": of_cublas(SPLIT, *LONG),
    },
)

# %% [markdown]
# ## Measured: smaller tiles win
#
# The estimate was wrong. At 1,024, split-K takes {{ us.split | us }}, and small tiles with plain stores
# {{ us.plain | us }}. At the estimated pace, the operands of the small tiles would arrive within
# {{ few.small_us | us }}, so loading them wasn't the limit.
#
# What does help is a cheap \epilogue. With a TMA store, small tiles take {{ us.stored | us }}. With five stages instead
# of eight, they take {{ us.five | us }}, {{ of.five | .0% }} of cuBLAS's rate, though this last gain is within the
# run-to-run spread.
#
# Small tiles are best only as long as they fit in one wave. At 1,280, there are 200 of them, or two waves, and the
# kernel reaches {{ of.small_1280 | .0% }} of cuBLAS. The 100 tiles of 128 × 128 fit in one wave and reach
# {{ of.square_1280 | .0% }}.
#
# With K = 4,096, split-K comes closer, since the cost of its one exchange is spread over more work. It reaches
# {{ of.long_split | .0% }} of cuBLAS, and small tiles with five stages {{ of.long_five | .0% }}. So on an H100, small
# tiles stay ahead; on an H200, split-K wins.

# %% [markdown]
# ## Takeaways
#
# - If there are fewer tiles than SMs, choose the smallest tile with which all blocks still fit in one wave.
# - Split-K in a cluster needs no workspace and no second launch, but the exchange still costs time, so it can pay off
#   only for a large K.
# - When a GEMM takes only a few microseconds, look at its \epilogue: this GEMM gained more from TMA stores than from
#   loading fewer bytes.

# %% [markdown]
# ## In your own kernel
#
# Read `launch__waves_per_multiprocessor` in Nsight Compute. If it's well below 1, try smaller tiles first, and split
# K only if K is many times the width of a tile. \CUTLASS, cuBLASLt's heuristics and \Triton's autotuner all treat the
# tile shape as a parameter.

# %% fold="Code of the exercise, with two wrong answers that the tests reject"
from tilewise import exercise


def tile_for(M, N, sms, shapes):
    def blocks(shape):
        return -(-M // shape[0]) * -(-N // shape[1])

    fits = [shape for shape in shapes if blocks(shape) <= sms]
    return max(fits, key=blocks) if fits else max(shapes, key=lambda shape: shape[0] * shape[1])


SHAPES = [(64, 64), (64, 128), (128, 128), (128, 256)]


def tile_tests(answer):
    for M, N, sms in (
        (1024, 1024, 132),
        (1280, 1280, 132),
        (768, 768, 132),
        (100, 500, 132),
        (8192, 8192, 132),
    ):
        shape = tuple(answer(M, N, sms, SHAPES))
        right = tile_for(M, N, sms, SHAPES)
        assert shape in SHAPES, f"{shape} is not one of the tiles"
        assert shape == right, f"{M} × {N} on {sms} SMs: {shape} instead of {right}"


exercise(
    "Which tile for a small GEMM?",
    """
    `shapes` is a list of tiles (rows, columns). Write `tile_for(M, N, sms, shapes)`. Of the tiles
    for which an `M` × `N` result fits in a single wave, with one block per SM, it returns the one that yields the
    most blocks. If there's no such tile, it returns the tile with the largest area.
    """,
    answer=tile_for,
    tests=tile_tests,
    wrong=[{"max(fits, key=blocks) if fits else ": ""}, {"max(fits, key=blocks) if fits else max(": "min("}],
    hint="The number of blocks is the rounded-up number of tile rows times that of tile columns.",
)
