# ---
# title: "Softmax of long rows: clusters, prefetching and a staggered start"
# needs: [attention/softmax, matmul/tma]
# further: attention/softmax
# summary: "A row of 131,072 floats doesn't fit on a single SM. How close to the speed of a copy does a cluster of eight blocks get, and what closes the gap?"
# description: "One softmax row per thread block cluster: distributed shared memory, persistent clusters, TMA prefetch and a staggered start, in FP32 and BF16."
# date: 2026-11-23
# tags: [softmax, clusters, distributed shared memory]
# ---

# %% [markdown]
# A row of 131,072 floats is 512 KiB, more than the registers and shared memory of any SM. Give it to a *thread block
# cluster* of eight blocks, and softmax is back to one read and one write. Launched with one cluster per row, the
# kernel reaches {{ stated.alone | .0%}} of a copy's throughput. In BF16, with half the bytes, it reaches only
# {{ stated.alone_bf16 | .0% }}. What is memory waiting for?
#
# The same situation arises wherever only a few large blocks share an SM: they may all compute at the same time, with
# none of them loading data. This page tries three remedies: persistent clusters, prefetching, and a staggered start.

# %% [markdown]
# ## One row per cluster
#
# Each block of the cluster holds a slice of the row, and its warps reduce their elements to pairs $(m, z)$ as in
# [the lesson](softmax.py). Then the blocks exchange pairs through distributed shared memory. Three instructions do it:
#
# - `mapa` converts the address of a shared variable into the address of the same variable in another block.
# - `st.async` writes 8 bytes, one pair, to that address, and signals an mbarrier of the receiving block.
# - `barrier.cluster`, used once at the start, makes sure that every block of the cluster is running before any other
#   block writes to it.
#
# Every warp sends its pair to every block. Once a block has waited on its mbarrier, all pairs of the row are in its
# `warp_pairs`.
#
# The kernel loads its slices with the TMA's bulk copy, `cp.async.bulk`, whose addresses and sizes must be multiples of
# 16 bytes. So **the number of columns must be a multiple of 4 in FP32 and of 8 in BF16**.


# %% tab="Pseudocode"
import numpy as np

from tilewise import parallel


def softmax_row(row):
    m = max(row) if max(row) > -np.inf else 0.0
    e = np.exp(row - m)
    return e / e.sum() if e.sum() > 0 else e


def softmax_long(X, Y, clusters, slots):
    for cluster in parallel(clusters):
        rows = range(cluster, len(X), clusters)
        # [rows
        # [prefetch
        loaded = [np.array(X[r], dtype=np.float64) for r in rows[:slots]]
        # prefetch]
        for n, r in enumerate(rows):
            # [row
            row = loaded.pop(0)
            # row]
            # [refill
            loaded += [np.array(X[later], dtype=np.float64) for later in rows[n + slots :][:1]]
            # refill]
            # [all
            Y[r] = softmax_row(row)
            # all]
        # rows]


# %% tab="CUDA C"
from tilewise import Kernel

LONG = Kernel(
    r"""
#include "hopper.cuh"
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
    // [rows
    // [prefetch
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
    // prefetch]
    __syncthreads();
    cluster_arrive();  // this block is running
    for (int n = 0; row < rows; row += clusters, ++n) {
        // [row
        uint4* buffer = memory + n % SLOTS * (SLICE / VEC);
        mbarrier_wait(&full[n % SLOTS], n / SLOTS % 2);
        uint4 chunk[CHUNKS];
        #pragma unroll
        for (int k = 0; k < CHUNKS; ++k) {
            int i = t + k * THREADS;
            chunk[k] = i * VEC < count ? buffer[i] : uint4{minus_inf, minus_inf, minus_inf, minus_inf};
        }
        // row]
        float e[SHARE];
        Pair mine = exponentials(e, chunk), pair = warp_reduce(mine);
        if (t == 0) mbarrier_arrive_expect_tx(&pairs_full[n % 2], sizeof(warp_pairs) / 2);
        if (n == 0) cluster_wait();  // every block of the cluster is running
        if (lane < BLOCKS)
            send_pair(&warp_pairs[n % 2][cluster_rank() * WARPS + t / 32], pair, &pairs_full[n % 2], lane);
        // [refill
        __syncthreads();  // every warp has read the buffer
        if (t == 0 && row + SLOTS * clusters < rows)
            bulk_load(buffer, X + (long long)(row + SLOTS * clusters) * cols,
                bytes, &full[n % SLOTS]);
        // refill]
        // [all
        mbarrier_wait(&pairs_full[n % 2], n / 2 % 2);  // the pairs of all warps have arrived
        Pair all = lane < BLOCKS * WARPS ? warp_pairs[n % 2][lane] : Pair{-INFINITY, 0.0f};
        #pragma unroll
        for (int k = lane + 32; k < BLOCKS * WARPS; k += 32)
            all = combine(all, warp_pairs[n % 2][k]);
        all = warp_reduce(all);
        // all]
        float factor = all.z > 0.0f ? exp2f(mine.m - all.m) / all.z : 0.0f;
        uint4* to = (uint4*)(Y + (long long)row * cols);
        #pragma unroll
        for (int k = 0; k < CHUNKS; ++k) {
            uint4 made = pack(e + k * VEC, factor);
            if ((t + k * THREADS) * VEC < count) to[t + k * THREADS] = made;
        }
    }
    // rows]
}
""",
    defines={
        **{"Number": "float", "THREADS": 64, "SHARE": 8, "BLOCKS": 2},
        **{"SLOTS": 2, "AT_ONCE": 1, "LAG": 0},
    },
    options=("-std=c++17", "-arch=sm_90a"),
)

# %%
LONG.region("rows")

# %% [markdown]
# Follow the main loop. `full` completes when the row has arrived, and `pairs_full` when all pairs have. The block's
# barrier makes sure that every warp has read the buffer before the next row overwrites it. There are two sets of
# `warp_pairs`, used alternately, so the next row's pairs can't overwrite what a slow warp is still reading. Leave out
# any of the four waits (on `full`, on `pairs_full`, at the block's barrier or at the cluster's), and the simulator
# reports the access that the wait protects.


# %% fold="Code of the checks, with four broken kernels"
from tilewise import agree, check, expect_hazard, publish, show
from tilewise.kernel.chains import as_case
from tilewise.kernel.edits import edited
from tilewise.kernels.from_lesson import from_lesson

difficult, right, in_clusters, long_rows, planned_long = from_lesson(
    "attention/softmax", "difficult", "right", "in_clusters", "long_rows", "planned_long"
)
H100, VALUES, CYCLES, of_memory, of_lengths = from_lesson(
    "attention/softmax", "H100", "VALUES", "CYCLES", "of_memory", "of_lengths"
)
PASSES_ROWS, COPY_ROW, COPY_ROW_BF16, both_answers = from_lesson(
    "attention/softmax", "PASSES_ROWS", "COPY_ROW", "COPY_ROW_BF16", "both_answers"
)
torch_softmax, torch_softmax_bf16 = from_lesson("attention/softmax", "torch_softmax", "torch_softmax_bf16")


THREE_PREFETCHED = long_rows("float", 32, 8, 2, 3)
STAGGERED = long_rows("float", 32, 8, 2, 2, at_once=2, lag=500)
for kernel, columns in (
    (LONG, (1000, 780)),
    (THREE_PREFETCHED, (512, 388)),
    (STAGGERED, (512, 388)),
):
    launches = [in_clusters(kernel, 2, 15, cols) for cols in columns]
    launches.append(in_clusters(kernel, 2, 5, columns[1], X=difficult(columns[1])))
    agree(softmax_long, kernel, [as_case(one) for one in launches], rtol=2e-5, atol=1e-7)
got = in_clusters(LONG, 2, 5, 1004, X=difficult(1004)).run()
check(got["Y"], right(got["X"]), rtol=2e-5, atol=1e-9, name="two blocks per row against 64-bit NumPy")

for text, hazard, line in (
    ("if (n == 0) cluster_wait();", "cluster", "send_pair(&warp_pairs[n % 2]"),
    ("mbarrier_wait(&pairs_full[n % 2], n / 2 % 2);", "undelivered", "Pair all = lane < BLOCKS"),
    ("mbarrier_wait(&full[n % SLOTS], n / SLOTS % 2);", "undelivered", "buffer[i]"),
    ("__syncthreads();  // every warp has", "undelivered", "buffer[i]"),
):
    instead = "// every warp has" if "every warp" in text else ""
    expect_hazard(edited(in_clusters(LONG, 1, 5, 1000), (text, instead)), hazard, line_with=line)

for number, dtype, fits, misaligned in (
    ("float", "float32", 388, 389),
    ("__nv_bfloat16", "bfloat16", 392, 396),
):
    aligned = long_rows(number, 32, 16, 2)
    in_clusters(aligned, 1, 3, fits, dtype).run()
    expect_hazard(in_clusters(aligned, 1, 3, misaligned, dtype), "misaligned", line_with="cp.async.bulk")

# %% [markdown]
# Leave out one wait at a time. Which access does it protect, and does a single row need it?

# %% fold="Code of the run"
from tilewise import try_it

WAITS = {
    "all waits": LONG,
    "no wait for the row": edited(LONG, ("mbarrier_wait(&full[n % SLOTS], n / SLOTS % 2);", "")),
    "no wait for the pairs": edited(LONG, ("mbarrier_wait(&pairs_full[n % 2], n / 2 % 2);", "")),
    "no wait for the cluster": edited(LONG, ("if (n == 0) cluster_wait();", "")),
}
try_it(lambda rows: as_case(in_clusters(LONG, 1, rows, 1000)), WAITS, rows=(1, 2, 6))

# %% [markdown]
# ## Persistent clusters and prefetching
#
# Once its slice is in registers, a block reduces it, exchanges pairs, and scales and writes the slice, but loads
# nothing. An SM has room for only three blocks with slices of 64 KiB each, so few other blocks can load in the meantime.
#
# The kernel therefore launches only as many clusters as the device can run at once. Each of them is *persistent* and
# processes row after row. It also prefetches: as soon as all threads have copied a row into registers, its buffer is
# free, and one thread starts the bulk copy of the next row. Only then do the threads exchange their pairs, and scale
# and write their elements.
#
# The figure shows a model of one SM. It assumes one SM's \share of the H100's peak memory bandwidth (data sheet) and
# a compute time estimated from the simulator's instruction count. In this model, memory is busy
# {{ alone.share | .0% }} of the time in FP32 without prefetching. In BF16, with half the bytes and the same number of
# instructions, it's {{ alone.share_bf16 | .0% }}.


# %% fold="Code of the figure"
from tilewise.figures import Mark, Series, Span, line_chart, timeline
from tilewise.measurements import Numbers, complete, medians_us

LONG_COUNTS = in_clusters(planned_long("float", 32768, 256)[0], 1, 2, 32768).simulate().counts
READ = WRITE = of_memory(16384 * 4 * H100.sms)  # microseconds for 16,384 floats on one SM
COMPUTE = 16384 * LONG_COUNTS.issued / (2 * 32768) / 4 / H100.boost_mhz
SPANS, now = [], 0.0
for n in (1, 2, 3):  # one row after another
    SPANS += [
        Span("on demand: memory", now, now + READ, f"r{n}", "read"),
        Span("on demand: threads", now + READ, now + READ + COMPUTE, f"{n}", "block"),
        Span("on demand: memory", now + READ + COMPUTE, now + READ + COMPUTE + WRITE, f"w{n}", "write"),
    ]
    now += READ + COMPUTE + WRITE
SPANS.append(Span("prefetch: memory", 0.0, READ, "r1", "read"))
now = READ
for n in (1, 2, 3):  # each row is loaded while the previous one is computed
    SPANS.append(Span("prefetch: threads", now, now + COMPUTE, f"{n}", "block"))
    if n < 3:
        SPANS.append(Span("prefetch: memory", now, now + READ, f"r{n + 1}", "read"))
    now += READ if n < 3 else COMPUTE
    SPANS.append(Span("prefetch: memory", now, now + WRITE, f"w{n}", "write"))
    now += WRITE
show(
    timeline(
        SPANS,
        unit="µs",
        title="Prefetching the next row keeps memory busy",
        caption="A model of three slices of 16,384 floats on one SM, read (r), computed and written (w): on demand, and with the next slice prefetched. Times from peak memory bandwidth (data sheet) and the simulator's instruction count; waits for exchanges are left out.",
    )
)
memory_us = of_memory(8 * VALUES)
publish(
    alone={
        "share": 2 * READ / (2 * READ + COMPUTE),
        "share_bf16": READ / (READ + COMPUTE),
        "last_share": 3 * COMPUTE / memory_us,
        "last_share_bf16": 6 * COMPUTE / memory_us,
        "cycles": CYCLES["float"],
        "cycles_bf16": CYCLES["__nv_bfloat16"],
    },
    predicted={"memory_us": memory_us},
)

# %% [markdown]
# ## Staggered start
#
# Persistent blocks all start and load at the same moment. If they stay in step until the end, they compute their last
# rows together while memory is nearly idle.
#
# So the kernel can stagger them. Each of the `AT_ONCE` blocks on an SM should belong to a different group of clusters,
# and the groups start `LAG` cycles apart. A cluster's index determines its group. One thread polls the cycle counter,
# `clock64`, until its group's delay is over, and then starts the first copy. This works only if clusters are
# distributed over all SMs before any SM gets a second block, which CUDA doesn't guarantee.
#
# According to the model, this can save at most the compute time of the last rows: {{ alone.last_share | .0% }} of the
# total in FP32 and {{ alone.last_share_bf16 | .0% }} in BF16. We spread the start over {{ alone.cycles | , }} cycles in
# FP32 and {{ alone.cycles_bf16 | , }} in BF16, values found by trial and error for this problem size. So treat the
# results with a staggered start as tuned, and the prefetching kernel without one as the default.


# %% fold="Code of the measurement"
from tilewise import Guess, measure

NAMES = {"float": "float32", "__nv_bfloat16": "bfloat16"}


def fenced(kernel):
    """The same with plain stores of the pairs and the cluster's barrier instead of mbarriers."""
    return edited(
        kernel,
        (
            "st.async.shared::cluster.mbarrier::complete_tx::bytes.b64 [%0], %1, [%2];",
            "st.shared::cluster.b64 [%0], %1;",
        ),
        ("if (t == 0) mbarrier_arrive_expect_tx(&pairs_full[n % 2], sizeof(warp_pairs) / 2);", ""),
        ("mbarrier_wait(&pairs_full[n % 2], n / 2 % 2);", "cluster_arrive();\n        cluster_wait();"),
    )


def region(name, source=LONG.source):
    """The lines of a marked region."""
    return source.split(f"// [{name}\n")[1].split(f"// {name}]")[0]


SLOT = region("row").split("        uint4 chunk")[0]
PREFETCH = region("prefetch")[
    region("prefetch").index("        for (int s = 0; s < SLOTS && row") : -len("    }\n    ")
]


def straight(number, threads):
    """Persistent clusters that load each row on demand, straight into registers."""

    def launch(rows, cols):
        kernel, clusters = planned_long(number, cols, threads)
        there = "        const uint4* buffer = (const uint4*)(X + (long long)row * cols);\n"
        nothing = "        // no prefetch\n        "
        without = edited(kernel, (PREFETCH, ""), (SLOT, there), (region("refill"), nothing))
        made = in_clusters(without, clusters, rows, cols, NAMES[number])
        return without.on(made.case, grid=made.grid, block=made.block)

    return launch


def by_cluster(number, threads, stay=True, in_turn=False, form=lambda kernel: kernel):
    """Persistent clusters that prefetch, or one cluster per row."""

    def launch(rows, cols):
        kernel, clusters = planned_long(number, cols, threads, in_turn)
        return in_clusters(form(kernel), clusters if stay else rows, rows, cols, NAMES[number])

    return launch


def staying(number):
    return {
        "one cluster per row": by_cluster(number, 256, stay=False),
        "prefetched, with the cluster's barrier": by_cluster(number, 256, form=fenced),
        "persistent, no prefetch, blocks of 128": straight(number, 128),
        "next row prefetched, blocks of 256": by_cluster(number, 256),
        "next row prefetched, blocks of 128": by_cluster(number, 128),
        "staggered start, blocks of 256": by_cluster(number, 256, in_turn=True),
        "staggered start, blocks of 128": by_cluster(number, 128, in_turn=True),
    }


timed_long = measure(
    "softmax_long_rows",
    variants={**PASSES_ROWS, **staying("float"), **COPY_ROW},
    cases=of_lengths(32768, 65536, 131072),
    count_case={"rows": 2, "cols": 32768},
    bytes=lambda rows, cols: 8 * rows * cols,
    library={"torch.softmax": torch_softmax},
    reference=both_answers,
    tolerance=1e-6,
    note="Sectors read by bulk copies are counted separately.",
    reasons={"*": "Which remedy helps most?"},
    fold="All 33 rows in FP32",
    guess=Guess(
        "Rows of 131,072 floats: how much longer does one cluster per row take than persistent, prefetching clusters?",
        of="next row prefetched, blocks of 256",
        over="one cluster per row",
        at={"rows": VALUES // 131072, "cols": 131072},
        between=(0.5, 5),
        models={"memory never idle": 1.0},
        because="Other blocks on the SM can load while one computes, unless they all run in step.",
    ),
)


# %% fold="Code of the measurement"
timed_long_bf16 = measure(
    "softmax_long_rows_bf16",
    variants={**staying("__nv_bfloat16"), **COPY_ROW_BF16},
    cases=of_lengths(32768, 65536, 131072),
    count_case={"rows": 2, "cols": 32768},
    bytes=lambda rows, cols: 4 * rows * cols,
    library={"torch.softmax": torch_softmax_bf16},
    reference=both_answers,
    tolerance=4e-3,
    note="Sectors read by bulk copies are counted separately.",
    reasons={"*": "Which remedy helps most?"},
    fold="All 27 rows in BF16",
)

# %% [markdown]
# ## Which remedy helps most?


# %% fold="Code of the figures"
STAYING = list(staying("float"))
ALONE, BARRIER, DEMAND, AHEAD_256, AHEAD, STAGGER_256, STAGGER = STAYING
us = Numbers(medians_us(timed_long, "cols"))
us_bf16 = Numbers(medians_us(timed_long_bf16, "cols"))
LENGTHS = (32768, 65536, 131072)
LINES = (
    ("staggered start", STAGGER, "write"),
    ("next row prefetched", AHEAD, "tile"),
    ("persistent, no prefetch", DEMAND, "block"),
    ("one cluster per row", ALONE, "read"),
    ("torch.softmax", "torch.softmax", "measured"),
)


def of_copy(found, label):
    """Throughput relative to a copy's, for each length."""
    return [found["a copy", cols] / found[label, cols] for cols in LENGTHS]


def gain(found, slow, fast):
    """How much longer the first of two versions takes, for each length."""
    return [found[slow, cols] / found[fast, cols] - 1 for cols in LENGTHS]


if complete(*us.values(), *us_bf16.values()):
    for found in (us, us_bf16):
        for cols in LENGTHS:
            alone_us, _, demand_us, *later_us = (found[name, cols] for name in STAYING)
            assert alone_us / demand_us > demand_us / min(later_us), "persistence helps most"
            assert found[ALONE, cols] > found[AHEAD_256, cols], "with the same blocks, too"
    assert max(gain(us, AHEAD, STAGGER)) < 3 * COMPUTE / memory_us, "the text: the model's limit holds"
    assert max(gain(us_bf16, AHEAD, STAGGER)) < 6 * COMPUTE / memory_us, "and in BF16"
    for found, title in (
        (us, "In FP32, persistent clusters run at nearly the speed of a copy"),
        (us_bf16, "In BF16, one cluster per row leaves memory idle"),
    ):
        show(
            line_chart(
                [Series(name, LENGTHS, of_copy(found, label), role=role) for name, label, role in LINES],
                x="columns per row",
                y="throughput, copy = 1",
                log_x=True,
                y_range=(0, 1.1),
                marks=[Mark("copy", y=1.0)],
                title=title,
                caption="Softmax of 16,777,216 elements on an {machine}, by row length: the time of a copy of the same bytes divided by the time of softmax. The version with one cluster per row uses blocks of 256 threads; the persistent ones use 128.",
            )
        )
publish(
    stated={
        "alone": us["a copy", 131072] / us[ALONE, 131072],
        "alone_bf16": us_bf16["a copy", 131072] / us_bf16[ALONE, 131072],
        "ahead": min(of_copy(us, AHEAD)),
        "ahead_bf16": min(of_copy(us_bf16, AHEAD)),
    },
    demand={
        "fp32": max(gain(us, DEMAND, AHEAD)),
        "bf16": max(gain(us_bf16, DEMAND, AHEAD)),
    },
    persist={
        "bf16_least": min(gain(us_bf16, ALONE, AHEAD_256)),
        "bf16_most": max(gain(us_bf16, ALONE, AHEAD_256)),
    },
    stagger={
        "fp32": max([*gain(us, AHEAD_256, STAGGER_256), *gain(us, AHEAD, STAGGER)]),
        "bf16": max([*gain(us_bf16, AHEAD_256, STAGGER_256), *gain(us_bf16, AHEAD, STAGGER)]),
    },
    barrier={"fp32": max(gain(us, BARRIER, AHEAD_256)), "bf16": max(gain(us_bf16, BARRIER, AHEAD_256))},
)

# %% [markdown]
# Persistent clusters help most. In BF16, with the same blocks of 256 threads, one cluster per row takes
# {{ persist.bf16_least | .0% }} to {{ persist.bf16_most | .0% }} longer than persistent clusters that prefetch.
# Prefetching alone, tested with blocks of 128, accounts for up to {{ demand.fp32 | .0% }} in FP32 and
# {{ demand.bf16 | .0% }} in BF16, so most of the gain seems to come from persistence itself. With prefetching, softmax
# reaches at least {{ stated.ahead | .0% }} of the copy's throughput in FP32 and {{ stated.ahead_bf16 | .0% }} in BF16.
#
# The staggered start gains up to {{ stagger.fp32 | .0% }} in FP32 and {{ stagger.bf16 | .0% }} in BF16, below the
# maxima that the model predicts.

# %% [markdown]
# ## The cluster's own barrier, and its fence
#
# Couldn't the blocks exchange pairs with plain stores, followed by the cluster's barrier? They could, and one variant
# of the kernel does that. With the same blocks and clusters, it takes up to {{ barrier.fp32 | .0% }} longer than
# `st.async` in FP32, and up to {{ barrier.bf16 | .0% }} longer in BF16.
#
# The likely cause is memory ordering. Arriving at the cluster's barrier has release semantics: everything that the
# thread has written becomes visible to the cluster. So the compiler emits a fence, `MEMBAR.ALL.GPU`, and each thread
# waits until its results of the previous row have been written. `st.async` orders only its own 8 bytes.

# %% [markdown]
# ## Takeaways
#
# - A thread block cluster can hold a row that's too long for one SM. Its blocks exchange pairs with `st.async` and an
#   mbarrier, and must all be running before the first write.
# - Where an SM has room for only a few large blocks, make them persistent. Prefetching, smaller blocks and a staggered
#   start gain less.
# - Prefer an mbarrier to the cluster's barrier inside a loop: the barrier's release waits for all earlier writes.

# %% [markdown]
# ## In your own kernel
#
# In Nsight Compute, look for stalls at memory barriers
# (`smsp__average_warps_issue_stalled_membar_per_issue_active.ratio`): in a loop with a cluster barrier, they show the
# cost of the fence. If `dram__throughput.avg.pct_of_peak_sustained_elapsed` is far below a copy's, try persistent
# blocks first.

# %% fold="Code of the exercise"
from tilewise import exercise

exercise(
    "Rows for a smaller cluster",
    """
    Blocks of 128 threads hold 64 floats per thread. How many blocks does a row of 65,536 floats need, how many bytes of
    shared memory does a block take with two prefetched rows, and does a row of 65,538 floats work?
    """,
    explanation="A block holds 128 × 64 = 8,192 floats, so the row takes 8 blocks. Each buffer has 32 KiB, two have 64 KiB. A row of 65,538 floats fails twice: a cluster of 8 blocks is too small, and since 65,538 is no multiple of 4, the second row starts at an address that isn't a multiple of 16 bytes.",
)
