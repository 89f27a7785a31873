# ---
# title: "Clusters, named barriers and dependent launches: who waits for whom"
# needs: [matmul/tma, matmul/tiles_and_waves]
# summary: "An H100 has 132 SMs, so 33 clusters of four blocks should run at once, one block per SM. How many do?"
# description: "How Hopper's blocks, warps and kernels wait for each other: GPCs and thread block clusters, distributed shared memory, multicast, named barriers, and programmatic dependent launch, each run, measured, and broken on purpose."
# date: 2026-11-23
# tags: [Hopper, clusters, distributed shared memory, multicast, named barriers, programmatic dependent launch]
# ---

# %% [markdown]
# On the H100 and the H200 that we measured, the driver reports room for only {{ fours.at_once }} clusters of four:
# {{ fours.idle }} of the 132 SMs stay idle, and a launch of 33 clusters needs a second wave.
#
# This lesson is about synchronising more than one block, or only part of one. The blocks of a *cluster* wait for each
# other and access each other's shared memory. A *named barrier* synchronises some of a block's warps. With
# *programmatic dependent launch*, a kernel starts before the previous one has finished. You'll run each of these in a
# small kernel and break it on purpose.

# %% fold="Imports, and numbers for the text"
import ctypes

import numpy as np

from tilewise import Kernel, ceil_div, gpu_here, parallel, publish, show, tiles
from tilewise.figures import Series, bars, line_chart
from tilewise.measurements import Archive, complete, printed_numbers, printed_rows, recorded_device
from tilewise.measurements.archive import lesson_root

OPTIONS = ("-std=c++17", "-arch=sm_90a")
SMS = recorded_device().sms
MACHINE = "H200"  # whose records of this lesson the text quotes

# %% [markdown]
# ## GPCs: where a cluster fits
#
# The blocks of a *thread block cluster* run at the same time, on SMs of one *GPC* (graphics processing cluster). Write
# `__cluster_dims__(4, 1, 1)` in front of the kernel, or set the cluster size when you launch it. If the blocks weren't
# guaranteed to run at the same time, a block that waits for another could hang, because the other might not have
# started yet.
#
# ??? definition "GPC | GPCs"
#     Graphics processing cluster: a group of SMs on the chip. The blocks of a thread block cluster run within one.
#
# ??? definition "Thread block cluster | thread block clusters"
#     Blocks that are launched together, run at the same time on SMs of one GPC, and have a
#     barrier of their own.
#
# Which SMs can share a cluster differs from chip to chip, because different SMs are disabled on each. To find out,
# launch clusters of many sizes, have each block store the index of its SM (`%smid`), and group together all SMs that
# ever share a cluster.

# %% fold="Kernel and launch of the measurement"
WHERE = Kernel(
    r"""
// sm[b]: the index of the SM that runs block b. A cluster stays for a while; how long differs
// from one to the next, so that later ones find other SMs free. Any grid, block and cluster.
extern "C" __global__
void where(int* sm, int cycles) {
    unsigned here, cluster;
    asm volatile("mov.u32 %0, %%smid;" : "=r"(here));
    asm volatile("mov.u32 %0, %%clusterid.x;" : "=r"(cluster));
    if (threadIdx.x == 0) sm[blockIdx.x] = (int)here;
    long long stay = (long long)cycles * (1 + cluster % 7), start = clock64();
    while (clock64() - start < stay) {}
}
""",
    options=OPTIONS,
)


class Attribute(ctypes.Structure):
    """CUlaunchAttribute: its number and its value."""

    _fields_ = (("number", ctypes.c_int), ("pad", ctypes.c_int), ("value", ctypes.c_uint32 * 16))


class Config(ctypes.Structure):
    """CUlaunchConfig: grid, block and bytes of dynamic shared memory; stream; attributes."""

    _fields_ = (
        ("sizes", ctypes.c_uint32 * 7),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(Attribute)),
        ("count", ctypes.c_uint32),
    )


CLUSTER_DIMENSION, PROGRAMMATIC_STREAM_SERIALIZATION = 4, 6  # CUlaunchAttributeID
NON_PORTABLE_CLUSTERS = 14  # CUfunction_attribute


def config(grid, block, shared_bytes, stream, *attributes):
    """A launch for the driver; each attribute is its number and its values."""
    listed = (Attribute * len(attributes))()
    for one, (number, *values) in zip(listed, attributes, strict=True):
        one.number = number
        one.value[: len(values)] = values
    return Config((ctypes.c_uint32 * 7)(grid, 1, 1, block, 1, 1, shared_bytes), stream, listed, len(listed))


def parameters(*arguments):
    """Addresses of a kernel's arguments, which are ctypes values, as the driver takes them."""
    return (ctypes.c_void_p * len(arguments))(*(ctypes.addressof(one) for one in arguments))


assert (ctypes.sizeof(Attribute), ctypes.sizeof(Config)) == (72, 56), "as cuda.h has them"


def joined(groups):
    """Groups of SMs, united where they have an SM in common; each sorted."""
    found = []
    for group in map(set, groups):
        apart = [one for one in found if not one & group]
        found = [*apart, group.union(*(one for one in found if one & group))]
    return sorted((sorted(one) for one in found), key=lambda one: (-len(one), one))


assert joined([(0, 1), (2, 3), (4, 5), (3, 4)]) == [[2, 3, 4, 5], [0, 1]]

# %% fold="Code that asks the driver and finds the GPCs" needs="gpu" record="cluster_sizes"
if gpu_here():
    import cupy

    driver = ctypes.CDLL("libcuda.so.1")
    function = cupy.RawModule(code=WHERE.gpu_source, options=OPTIONS).get_function("where")
    function.max_dynamic_shared_size_bytes = 196608
    handle = ctypes.c_void_p(function.kernel.ptr)
    print(f"opt-in: status {driver.cuFuncSetAttribute(handle, NON_PORTABLE_CLUSTERS, 1)}")
    for blocks in range(1, 17):
        wanted = config(64 * blocks, 128, 196608, None, (CLUSTER_DIMENSION, blocks, 1, 1))
        at_once = ctypes.c_int()
        status = driver.cuOccupancyMaxActiveClusters(ctypes.byref(at_once), handle, ctypes.byref(wanted))
        print(f"clusters of {blocks}: {f'{at_once.value} at once' if not status else f'error {status}'}")
    together = []
    for blocks in (16, 8, 7, 6, 5, 4, 3, 2):
        sm = cupy.zeros(160 * blocks, np.int32)  # several waves
        wanted = config(sm.size, 128, 196608, None, (CLUSTER_DIMENSION, blocks, 1, 1))
        passed = ctypes.c_void_p(sm.data.ptr), ctypes.c_int(2000)
        status = driver.cuLaunchKernelEx(ctypes.byref(wanted), handle, parameters(*passed), None)
        if status:
            print(f"launch in clusters of {blocks}: error {status}")
            continue
        together += cupy.asnumpy(sm).reshape(-1, blocks).tolist()
    for sms in joined(together):
        print(f"GPC of {len(sms)} SMs: {' '.join(map(str, sms))}")

# %% fold="Code of the figure, and numbers for the text"
FIT = printed_numbers("matmul/hopper", "clusters_at_once", r"clusters of (\d+) .*: (\d+) at once")
AT_ONCE = printed_numbers("matmul/clusters", "cluster_sizes", r"clusters of (\d+): (\d+) at once")
GPCS = [size for (size,) in printed_rows("matmul/clusters", "cluster_sizes", r"^GPC of (\d+) SMs")]
FITTING = {blocks: sum(size // blocks for size in GPCS) for blocks in range(1, 17)}
if GPCS:
    assert AT_ONCE[16] * 16 < SMS, "the title says so"
    assert dict(AT_ONCE) == FITTING, "the caption says that they agree"
    show(
        line_chart(
            [
                Series(
                    "from the sizes of the groups",
                    [*FITTING],
                    [blocks * at_once for blocks, at_once in FITTING.items()],
                    role="predicted",
                    marks=False,
                ),
                Series(
                    "by the driver",
                    [*AT_ONCE],
                    [blocks * at_once for blocks, at_once in AT_ONCE.items()],
                    line=False,
                ),
            ],
            x="blocks per cluster",
            y="SMs in use",
            title="Large clusters leave SMs idle",
            caption=f"Number of SMs that clusters with one block per SM can use at once on an {MACHINE}, by cluster size: computed from groups of {', '.join(map(str, GPCS))} SMs, and as reported by cuOccupancyMaxActiveClusters.",
        )
    )
publish(
    fours={"at_once": FIT[4], "idle": SMS - 4 * FIT[4], "pairs_sms": 2 * FIT[2]},
    gpcs={
        "number": len(GPCS),
        "least": min(GPCS, default=np.nan),
        "most": max(GPCS, default=np.nan),
        "fours": FITTING[4] if GPCS else np.nan,
        "sixteens_sms": 16 * AT_ONCE[16],
    },
)

# %% [markdown]
# On the H200 in the figure, this procedure finds {{ gpcs.number }} groups of {{ gpcs.least }} to {{ gpcs.most }} SMs. A
# group of *s* SMs has room for *s* / 4 clusters of four, rounded down. The groups add up to {{ gpcs.fours }} clusters,
# the number that the driver reports.[^groups]
#
# [^groups]: The output calls each group a GPC. According to NVIDIA's white paper, however, an H100 has only eight GPCs,
#     so some GPCs must consist of several groups.
#
# Clusters of more than eight blocks aren't portable: the kernel must opt in with
# `cudaFuncAttributeNonPortableClusterSizeAllowed`. Once the kernel has opted in, an H100 or H200 supports up to 16
# blocks per cluster, but on this H200, clusters of 16 can use only {{ gpcs.sixteens_sms }} SMs. Clusters of two use all
# {{ fours.pairs_sms }}.
#
# ## Distributed shared memory
#
# Four blocks share one row of a matrix, and each sums a part of it. How do they add their partial sums? Doing so
# through global memory requires atomics or a second kernel. In a cluster, block 0 simply reads the other blocks' shared
# memory:
#
# - `mapa` turns the address of a shared variable into the address of the same variable in another block of the cluster.
# - `ld.shared::cluster` loads from that address.
# - `barrier.cluster.arrive` and `barrier.cluster.wait` together form a barrier for all threads of the cluster.
#
# In CUDA C++, `cooperative_groups::this_cluster()` provides `sync()` and `map_shared_rank()`.
#
# ??? definition "Distributed shared memory"
#     The shared memory of all blocks of a thread block cluster, which each of them can access.


# %% tab="Pseudocode"
def cluster_sums(x, out):
    for row in parallel(len(x)):  # one cluster each
        # [partial
        partial = [part.sum() for part in np.array_split(x[row], 4)]  # one block each
        # partial]
        # [combine
        out[row] = sum(partial)
        # combine]


# %% tab="CUDA C"
CLUSTER_SUMS = Kernel(
    r"""
// Waits for all threads of the cluster, and shows what they wrote before.
static __device__ void cluster_sync() {
    asm volatile("barrier.cluster.arrive.release.aligned;\n"
                 "barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
// The variable at the same address in another block of the cluster.
static __device__ float load_from_block(const float* p, int block) {
    unsigned here = (unsigned)__cvta_generic_to_shared(p), there;
    float v;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
                 : "=r"(there) : "r"(here), "r"(block));
    asm volatile("ld.shared::cluster.f32 %0, [%1];"
                 : "=f"(v) : "r"(there) : "memory");
    return v;
}

// out[r] = sum of row r of x, one cluster of four blocks per row.
// Any rows and columns. Grid: 4 * rows. Block: 32. Compute capability 9.0 or later.
extern "C" __global__ void __cluster_dims__(4, 1, 1) __launch_bounds__(32)
cluster_sums(const float* x, float* out, int cols) {
    __shared__ float partial;
    int rank = blockIdx.x % 4, row = blockIdx.x / 4, lane = threadIdx.x;
    // [partial
    float sum = 0.0f;
    for (int col = 32 * rank + lane; col < cols; col += 128)
        sum += x[row * cols + col];
    for (int d = 16; d > 0; d /= 2) sum += __shfl_down_sync(~0u, sum, d);
    if (lane == 0) partial = sum;
    cluster_sync();  // every block has started, and has written its partial sum
    // partial]
    // [combine
    if (rank == 0 && lane == 0) {
        float total = 0.0f;
        for (int block = 0; block < 4; ++block)
            total += load_from_block(&partial, block);
        out[row] = total;
    }
    cluster_sync();  // no block exits while block 0 still reads its shared memory
    // combine]
}
""",
    options=OPTIONS,
)

# %%
x, out = np.ones((3, 500), np.float32), np.zeros(3, np.float32)
CLUSTER_SUMS(x, out, 500, grid=12, block=32)
print(out, "= 500 ones per row")

# %% fold="Code of the checks and of the table"


from tilewise import HazardError, Table, agree, case, integers, output


def summing(rows, cols):
    """A launch of cluster_sums on integers, whose sums are exact."""
    return case(
        4 * rows,
        32,
        x=integers(rows, cols, low=-8, high=9, dtype="float32"),
        out=output(rows),
        cols=cols,
    )


agree(cluster_sums, CLUSTER_SUMS, [summing(1, 77), summing(5, 1000), summing(3, 129)])


def edited(kernel, old, new, count=1):
    """A kernel with an edit."""
    assert kernel.source.count(old) == count, old
    return Kernel(kernel.source.replace(old, new), defines=kernel.defines, options=OPTIONS)


def report(kernel, made):
    """What the simulator says of a launch."""
    try:
        kernel.on(made).simulate()
    except HazardError as error:
        return f"{error.hazard}"
    return "nothing"


def broken_table(kernel, faults, made, column, caption):
    """A table of what the simulator says of a kernel with each of some edits."""
    reports = {name: report(edited(kernel, *edit), made) for name, edit in faults.items()}
    assert "nothing" not in reports.values(), reports
    show(Table([column, "what the simulator reports"], [*map(list, reports.items())], caption=caption))


START = "    cluster_sync();  // every block has started, and has written its partial sum\n"
END = "    cluster_sync();  // no block exits while block 0 still reads its shared memory\n"
broken_table(
    CLUSTER_SUMS,
    {
        "no first cluster barrier": (START, ""),
        "__syncthreads() in its place": (START, "    __syncthreads();\n"),
        "no second cluster barrier": (END, ""),
        "blocks 1 to 4 instead of 0 to 3": (
            "load_from_block(&partial, block)",
            "load_from_block(&partial, block + 1)",
        ),
    },
    summing(2, 300),
    "edit",
    "cluster_sums with one edit at a time, run on the simulator.",
)

# %% [markdown]
# Run the kernel yourself with each edit, and step through the run: blocks 0 to 3 share a row.

# %% fold="Code of the run"
from tilewise import try_it

SPOILT = {
    "both cluster barriers": CLUSTER_SUMS,
    "no first barrier": edited(CLUSTER_SUMS, START, ""),
    "__syncthreads() in its place": edited(CLUSTER_SUMS, START, "    __syncthreads();\n"),
    "no second barrier": edited(CLUSTER_SUMS, END, ""),
}
try_it(summing, SPOILT, rows=(1, 2, 4), cols=(1, 300, 1000))

# %% [markdown]
# Both barriers are needed. Before the first, block 1 may not even have started. Without the second, block 1 may exit
# while block 0 is still reading. Independent work goes between `arrive` and `wait`.
#
# How far away is another block's shared memory? A pointer chase, in which each load needs the result of the previous
# one, gives the latency:

# %% fold="Kernel of the measurement"
CHASE = Kernel(
    r"""
#include "hopper.cuh"
#define CLUSTER 8
#define ENTRIES 1024  // of a ring in shared memory
#define LINES 4096    // of a ring in global memory, 128 bytes each

// cycles[0] = cycles that `loads` loads take, each of which needs the result of the one before.
// where = 0: shared memory of the block itself, by ld.shared. 1: shared memory of block `target`
// of the cluster, by ld.shared::cluster. 2: ring, LINES * 128 bytes, from the L2.
// Grid: 8. Block: 32. Compute capability 9.0 or later.
extern "C" __global__ void __cluster_dims__(CLUSTER, 1, 1) __launch_bounds__(32)
chase(u64* ring, long long* cycles, int where, int target, int loads) {
    __shared__ unsigned next[ENTRIES];
    unsigned own = smem_addr(next), there;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(own), "r"((int)blockIdx.x));
    for (int i = threadIdx.x; i < ENTRIES; i += 32)
        next[i] = (where == 0 ? own : there) + (i + 37) % ENTRIES * 4;
    if (blockIdx.x == 0)
        for (int i = threadIdx.x; i < LINES; i += 32)
            ring[16 * i] = (u64)&ring[16 * ((i + 1637) % LINES)];
    __threadfence();
    asm volatile("barrier.cluster.arrive.release.aligned;\n"
                 "barrier.cluster.wait.acquire.aligned;" ::: "memory");
    if (blockIdx.x == 0 && threadIdx.x == 0) {
        unsigned at = own;
        u64 line = (u64)ring;
        if (where == 1)
            asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(at) : "r"(own), "r"(target));
        long long start = clock64();
        if (where == 0)
            for (int i = 0; i < loads; ++i)
                asm volatile("ld.shared.u32 %0, [%0];" : "+r"(at) :: "memory");
        else if (where == 1)
            for (int i = 0; i < loads; ++i)
                asm volatile("ld.shared::cluster.u32 %0, [%0];" : "+r"(at) :: "memory");
        else
            for (int i = 0; i < loads; ++i)
                asm volatile("ld.global.cg.u64 %0, [%0];" : "+l"(line) :: "memory");
        cycles[1] = at + (long long)line;  // needs the last load
        cycles[0] = clock64() - start;
    }
    asm volatile("barrier.cluster.arrive.release.aligned;\n"
                 "barrier.cluster.wait.acquire.aligned;" ::: "memory");
}
""",
    options=OPTIONS,
)
LINES = 4096
CHASES = {  # where, target
    "ld.shared, own block": (0, 0),
    **{f"ld.shared::cluster, block {block}": (1, block) for block in range(8)},
    "ld.global.cg, L2": (2, 0),
}

# %% fold="Code of the check"
ring, cycles = np.zeros(16 * LINES, np.uint64), np.zeros(2, np.int64)
for where, target in CHASES.values():
    CHASE.simulate(ring, cycles, where, target, 100, grid=8, block=32)
    assert cycles[0] >= 100, "one load after the other"

# %% fold="Code that measures latencies on a GPU" needs="gpu" record="latencies"
if gpu_here():
    import cupy

    ring, cycles = cupy.zeros(16 * LINES, np.uint64), cupy.zeros(2, np.int64)
    for label, (where, target) in CHASES.items():
        taken = []
        for _ in range(7):
            CHASE(ring, cycles, where, target, 8192, grid=8, block=32)
            taken.append(int(cupy.asnumpy(cycles)[0]) / 8192)
        print(f"{label}: {np.median(taken[2:]):.1f} cycles")

# %% fold="Code of the figure, and numbers for the text"
LATENCY = printed_numbers("matmul/clusters", "latencies", r"^(.+): ([\d.]+) cycles")
REMOTE = [LATENCY[f"ld.shared::cluster, block {block}"] for block in range(1, 8)]
publish(
    latency={
        "least": min(REMOTE),
        "most": max(REMOTE),
        "times": np.mean(REMOTE) / LATENCY["ld.shared, own block"],
        "of_l2": np.mean(REMOTE) / LATENCY["ld.global.cg, L2"],
    }
)
if complete(LATENCY):
    assert min(REMOTE) < max(REMOTE) < LATENCY["ld.global.cg, L2"], "the text says: in between"
    assert 2 * min(REMOTE) > LATENCY["ld.shared, own block"] + LATENCY["ld.global.cg, L2"], "the title"
    show(
        bars(
            {
                "ld.shared, own block": LATENCY["ld.shared, own block"],
                "ld.shared::cluster, own block": LATENCY["ld.shared::cluster, block 0"],
                "ld.shared::cluster, other blocks": float(np.mean(REMOTE)),
                "ld.global, from the L2": LATENCY["ld.global.cg, L2"],
            },
            x="latency [cycles]",
            form=".0f",
            role="read",
            title="The latency of distributed shared memory is closer to that of the L2 than to that of local shared memory",
            caption=f"Latency of a load whose address is the result of the previous one, on an {MACHINE}. Other blocks: the mean over the seven other blocks of a cluster of eight.",
        )
    )

# %% [markdown]
# A load from another block takes {{ latency.least | .0f }} to {{ latency.most | .0f }} cycles. That's
# {{ latency.times | .0f }}× the latency of the block's own shared memory, and {{ latency.of_l2 | .0%}} of the L2's. So
# use distributed shared memory to exchange results, with many loads in flight, not to extend a block's own shared
# memory.
#
# ## Multicast: one load for all blocks
#
# In a matrix-vector multiplication, every block needs the whole vector. In a cluster, each of the four blocks loads a
# quarter of it, and the [TMA](tma.py) writes that quarter to the shared memory of all four: a *multicast*. Bit *r* of a
# mask selects the block of rank *r*. In each selected block, the data and the mbarrier that counts their bytes are at
# the same shared-memory addresses as in the block that issued the load.
#
# ??? definition "Multicast"
#     One TMA copy that arrives in the shared memory of several blocks of a cluster.


# %% tab="Pseudocode"
def matvec(W, x, y):
    for row in parallel(len(W)):
        y[row] = (W[row] * x).sum()


# %% tab="CUDA C"
MATVEC = Kernel(
    r"""
#include "hopper.cuh"
#define COLS 1024

// One copy of contiguous bytes to the same address in each block whose bit is set in mask.
// Its bytes count on the mbarrier at the same address in each of them.
static __device__ void bulk_load_multicast(void* to, const void* from, int bytes,
                                           u64* bar, int mask) {
    asm volatile("cp.async.bulk.shared::cluster.global"
                 ".mbarrier::complete_tx::bytes.multicast::cluster "
                 "[%0], [%1], %2, [%3], %4;"
                 :: "r"(smem_addr(to)), "l"(from), "r"(bytes), "r"(smem_addr(bar)),
                    "h"((unsigned short)mask) : "memory");
}

// y = W x, W row-major with rows of 1,024 floats. Each warp computes one element of y.
// All blocks need x: in a cluster of four, each loads a quarter of it for all.
// Any rows. x is aligned to 16 bytes. Grid: 4 * ceil(rows / 16). Block: 128. sm_90.
extern "C" __global__ void __cluster_dims__(4, 1, 1) __launch_bounds__(128)
matvec(const float* W, const float* x, float* y, int rows) {
    __shared__ __align__(16) float xs[COLS];
    __shared__ u64 full;
    int rank = blockIdx.x % 4, lane = threadIdx.x % 32;
    // [multicast
    if (threadIdx.x == 0) {
        mbarrier_init(&full, 1);
        mbarrier_init_fence();
        mbarrier_arrive_expect_tx(&full, sizeof(xs));  // all four quarters
    }
    cluster_sync();  // all four mbarriers are ready
    if (threadIdx.x == 0) {
        int first = COLS / 4 * rank;
        bulk_load_multicast(xs + first, x + first, sizeof(xs) / 4, &full, 0xf);
    }
    mbarrier_wait(&full, 0);
    // multicast]
    int row = 4 * blockIdx.x + threadIdx.x / 32;
    float sum = 0.0f;
    for (int col = lane; row < rows && col < COLS; col += 32)
        sum += W[row * COLS + col] * xs[col];
    for (int d = 16; d > 0; d /= 2) sum += __shfl_down_sync(~0u, sum, d);
    if (row < rows && lane == 0) y[row] = sum;
}
""",
    options=OPTIONS,
)

# %%
MATVEC.region("multicast")

# %% [markdown]
# Each block expects the bytes of all four quarters, although it requests only one. The cluster barrier must come before
# the copies; otherwise bytes could arrive at an mbarrier that isn't initialised yet. In a ring of stages, there's one
# more rule: before a stage is loaded again, the consumers of *every* block in the mask must have read it. So consumers
# use `mapa` to arrive at the `empty` barriers of *all* blocks that load a part of the stage, not just at their own
# block's.

# %% fold="Code of the checks and of the table"


def multiplying(rows):
    """A launch of matvec on integers, whose sums are exact."""
    return case(
        4 * ceil_div(rows, 16),
        128,
        W=integers(rows, 1024, low=-8, high=9, dtype="float32"),
        x=integers(1024, low=-8, high=9, dtype="float32"),
        y=output(rows),
        rows=rows,
    )


agree(matvec, MATVEC, [multiplying(16), multiplying(33), multiplying(50)])
COPY = "bulk_load_multicast(xs + first, x + first, sizeof(xs) / 4, &full, {});"
broken_table(
    MATVEC,
    {
        "mask 0x7": (COPY.format("0xf"), COPY.format("0x7")),
        "mask 1 << rank": (COPY.format("0xf"), COPY.format("1 << rank")),
        "no cluster barrier": (
            "    cluster_sync();  // all four mbarriers are ready\n",
            "    __syncthreads();\n",
        ),
        "a quarter of the bytes expected": ("sizeof(xs));  // all four quarters", "sizeof(xs) / 4);"),
    },
    multiplying(16),
    "edit",
    "matvec with one edit at a time, run on the simulator with one cluster.",
)

# %% [markdown]
# ## Named barriers: IDs and counts
#
# `__syncthreads()` waits for every thread of the block. If producers and consumers run different loops, some threads
# never reach it. But each block has 16 barriers, and `__syncthreads()` uses only number 0. For the others, the *named
# barriers*, you say how many threads take part:
#
# | instruction | the warp | the barrier completes when |
# |---|---|---|
# | `__syncthreads()`, the same as `bar.sync 0` | arrives and waits | all threads of the block have arrived |
# | `bar.sync id, count` | arrives and waits | `count` threads have arrived |
# | `bar.arrive id, count` | arrives and continues | `count` threads have arrived |
#
# ??? definition "Named barrier | named barriers"
#     One of the barriers 1 to 15 of a block, `bar.sync` and `bar.arrive`. It completes when a given number of threads have
#     arrived, and can then be used again.
#
# The count includes both the threads that wait and those that arrive and continue. A warp arrives as a whole, so the
# count is a multiple of 32, and all warps that use the barrier must pass the same count.
#
# In the next kernel, warps 0 and 2 are producers and warps 1 and 3 consumers. Each pair shares a tile and uses two
# barriers with a count of 64, for the 32 threads that arrive and continue and the 32 that wait.
#
# - Barriers 1 and 2, `full`: the producer calls `bar.arrive` after writing, the consumer `bar.sync` before reading.
# - Barriers 3 and 4, `empty`: the consumer calls `bar.arrive` after reading, the producer `bar.sync` before writing.


# %% tab="Pseudocode"
def reverse_tiles(x, y):
    for span in tiles(len(x), 32):
        # [producer
        tile = np.zeros(32)
        tile[: len(span)] = x[span]
        # producer]
        # [consumer
        y[span] = tile[::-1][: len(span)]
        # consumer]


# %% tab="CUDA C"
REVERSE_TILES = Kernel(
    r"""
static __device__ void bar_sync(int id, int threads) {  // arrive, and wait
    asm volatile("bar.sync %0, %1;" :: "r"(id), "r"(threads) : "memory");
}
static __device__ void bar_arrive(int id, int threads) {  // arrive, and go on
    asm volatile("bar.arrive %0, %1;" :: "r"(id), "r"(threads) : "memory");
}

// y is x with each run of 32 elements reversed; beyond n, x counts as 0.
// Two pairs of warps: a producer fills a tile, a consumer empties it.
// Each pair takes every second tile. Any n. Grid: 1. Block: 128.
extern "C" __global__ void __launch_bounds__(128)
reverse_tiles(const float* x, float* y, int n) {
    __shared__ float tile[2][32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32, pair = warp / 2;
    int full = 1 + pair, empty = 3 + pair;  // barriers 1 to 4
    if (warp % 2 == 0) {
        // [producer
        for (int i = 32 * pair + lane; i - lane < n; i += 64) {
            bar_sync(empty, 64);  // the consumer has read the tile before
            tile[pair][lane] = i < n ? x[i] : 0.0f;
            bar_arrive(full, 64);
        }
        // producer]
    } else {
        // [consumer
        for (int i = 32 * pair + lane; i - lane < n; i += 64) {
            bar_arrive(empty, 64);  // the tile is free
            bar_sync(full, 64);     // the producer has filled it
            if (i < n) y[i] = tile[pair][31 - lane];
        }
        // consumer]
    }
}
""",
    options=OPTIONS,
)

# %%
x, y = np.arange(100, dtype=np.float32), np.zeros(100, np.float32)
REVERSE_TILES(x, y, 100, grid=1, block=128)
print(y[:3], "= the last elements of the first 32")

# %% fold="Code of the checks and of the table"


def reversing(n):
    """A launch of reverse_tiles."""
    return case(1, 128, x=integers(n, low=1, high=1000, dtype="float32"), y=output(n), n=n)


agree(reverse_tiles, REVERSE_TILES, [reversing(1), reversing(100), reversing(509)])
broken_table(
    REVERSE_TILES,
    {
        "count 96 instead of 64": (", 64)", ", 96)", 4),
        "count 32": (", 64)", ", 32)", 4),
        "__syncthreads() instead of the wait on full": ("bar_sync(full, 64)", "__syncthreads()"),
        "both pairs use barriers 1 and 2": ("1 + pair, empty = 3 + pair", "1, empty = 2"),
        "consumer doesn't arrive at empty": (
            "            bar_arrive(empty, 64);  // the tile is free\n",
            "",
        ),
        "consumer arrives at full, doesn't wait": ("bar_sync(full, 64)", "bar_arrive(full, 64)"),
    },
    reversing(300),
    "edit",
    "reverse_tiles with one edit at a time, run on the simulator.",
)

# %% [markdown]
# With a count of 96, a barrier waits for a warp that never arrives. A count of 32 is worse: each warp's own arrival
# completes the barrier, so no warp waits for another. The kernel doesn't hang, but some of its results are occasionally
# wrong.
#
# An [mbarrier](tma.py#the-life-of-an-mbarrier) could do the same. It can also count the bytes that the TMA delivers,
# and it works across a cluster. But a named barrier needs no shared memory, no initialisation and no parity.
#
# ## Programmatic dependent launch: start before the previous kernel ends
#
# Kernels in one stream run one after the other. While the last blocks of one kernel finish and the first blocks of
# the next go through their set-up, most of the GPU is idle. Even [in a CUDA
# graph](../speed/launches.py#predict-then-measure), each tiny kernel takes {{ chain.base | .1f }} µs. *Programmatic
# dependent launch* (PDL) overlaps the end of one kernel with the start of the next:
#
# 1. The host launches the second kernel with `cudaLaunchKernelEx` and the attribute
#    `cudaLaunchAttributeProgrammaticStreamSerialization`.
# 2. The first kernel executes `griddepcontrol.launch_dependents`, the *trigger*. As soon as each of its blocks has done so or has
#    exited, blocks of the second kernel may start wherever there's room.
# 3. The second kernel executes `griddepcontrol.wait` before it touches anything that the first one writes, or writes anything that
#    the first one reads. The wait ends when the first kernel is complete and its writes are visible.
#
# ??? definition "Programmatic dependent launch | PDL"
#     A launch that lets a kernel start before the previous kernel of its stream has finished. The kernel waits with
#     `griddepcontrol.wait` before it needs that kernel's results.
#
# In CUDA C++, the trigger is `cudaTriggerProgrammaticLaunchCompletion()` and the wait `cudaGridDependencySynchronize()`.[^trigger] What
# comes before the wait is the *prologue*: computing indices, initialising mbarriers, prefetching tensor maps, loading weights.
#
# [^trigger]: *A common misconception:* the next kernel sees what was written before the trigger. The trigger only allows blocks
#     to start. The wait always waits for the end of the previous kernel, so you may put the trigger first.


# %% tab="Pseudocode"
def chain_step(source, target):
    for i in parallel(len(source)):
        target[i] = source[(i + 1) % len(source)] + 1


# %% tab="CUDA C"
CHAIN_STEP = Kernel(
    r"""
// One kernel of a chain: target[i] = source[i + 1] + 1; source[0] follows the last one.
// `prologue` cycles stand for a set-up that needs nothing from the kernel before.
// Any n. Grid: ceil(n / 256). Block: 256. Compute capability 9.0 or later.
extern "C" __global__ void __launch_bounds__(256)
chain_step(const int* source, int* target, int n, int prologue) {
#if TRIGGER
    // the next kernel may start
    asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
    for (long long start = clock64(); clock64() - start < prologue;) {}
#if WAIT
    // the kernel before is complete
    asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) target[i] = source[i + 1 < n ? i + 1 : 0] + 1;
}
""",
    defines={"TRIGGER": 1, "WAIT": 1},
    options=OPTIONS,
)

# %%
a, b = np.arange(300, dtype=np.int32), np.zeros(300, np.int32)
for _ in range(2):
    CHAIN_STEP(a, b, 300, 100, grid=2, block=256)
    CHAIN_STEP(b, a, 300, 100, grid=2, block=256)
print(a[0], "= 4 + 4: element 4, plus 1 in each of four steps")

# %% [markdown]
# If the kernel is launched without the attribute, as it is here, `griddepcontrol` does nothing, so the same kernel
# works with and without PDL. The simulator runs one launch at a time and can't find a missing wait. Only a GPU can, and
# only sometimes.

# %% fold="Code of the check"


def stepping(n):
    """A launch of chain_step."""
    return case(
        ceil_div(n, 256),
        256,
        source=integers(n, low=-1000, high=1000),
        target=output(n, dtype="int32"),
        n=n,
        prologue=50,
    )


agree(chain_step, CHAIN_STEP, [stepping(1), stepping(300), stepping(1000)])

# %% [markdown]
# Now time a chain of 20 such kernels, with prologues of up to {{ chain.longest | , }} cycles. Predict first. Without
# the attribute, a kernel should take as long as its prologue plus the {{ chain.base | .2f }} µs of a tiny kernel in a
# graph. With the attribute and the trigger at the start, its prologue should overlap the previous kernel, as in a
# two-stage pipeline, so a kernel should take only the longer of the two times.

# %% fold="Variants of the measurement"
STEPS = 20
ELEMENTS = 132 * 256
PROLOGUES = (0, 500, 1000, 2000, 4000, 8000)  # cycles
NO_TRIGGER, NO_WAIT = (
    Kernel(CHAIN_STEP.source, defines=defines, options=OPTIONS)
    for defines in ({"TRIGGER": 0, "WAIT": 1}, {"TRIGGER": 1, "WAIT": 0})
)
CHAINS = {  # kernel, and whether it's launched with the attribute
    "no attribute": (CHAIN_STEP, False),
    "attribute, no trigger": (NO_TRIGGER, True),
    "attribute, trigger at the start": (CHAIN_STEP, True),
}

# %% fold="Code that times the chains on a GPU" needs="gpu" record="chains"
if gpu_here():
    import cupy

    from tilewise.gpu.timing import Contender, Plan, time_contenders

    driver = ctypes.CDLL("libcuda.so.1")
    stream = cupy.cuda.Stream(non_blocking=True)
    first = cupy.arange(ELEMENTS, dtype=np.int32)
    arrays = [first.copy(), cupy.zeros_like(first)]
    expected = np.roll(cupy.asnumpy(first), -STEPS) + STEPS
    loaded = {
        kernel: cupy.RawModule(code=kernel.gpu_source, options=OPTIONS).get_function("chain_step")
        for kernel in (CHAIN_STEP, NO_TRIGGER, NO_WAIT)
    }

    def chain_of(kernel, overlap, prologues):
        """A function that enqueues a chain of kernels; the first one never overlaps what came before."""
        handle = ctypes.c_void_p(loaded[kernel].kernel.ptr)
        launches = []
        for step in range(STEPS):
            attributes = [(PROGRAMMATIC_STREAM_SERIALIZATION, 1)] if overlap and step else []
            passed = (
                ctypes.c_void_p(arrays[step % 2].data.ptr),
                ctypes.c_void_p(arrays[1 - step % 2].data.ptr),
                ctypes.c_int(ELEMENTS),
                ctypes.c_int(prologues[step % len(prologues)]),
            )
            wanted = config(ceil_div(ELEMENTS, 256), 256, 0, stream.ptr, *attributes)
            launches.append((wanted, parameters(*passed), passed))

        def enqueue():
            for wanted, addresses, _ in launches:
                status = driver.cuLaunchKernelEx(ctypes.byref(wanted), handle, addresses, None)
                assert not status, f"cuLaunchKernelEx: error {status}"

        return enqueue

    def wrong_after(enqueue):
        """How many elements are wrong after a chain."""
        arrays[0][...] = first
        arrays[1][...] = 0
        cupy.cuda.Device().synchronize()
        enqueue()
        cupy.cuda.Device().synchronize()
        return int((cupy.asnumpy(arrays[STEPS % 2]) != expected).sum())

    timed = {
        (name, prologue): chain_of(kernel, overlap, (prologue,))
        for name, (kernel, overlap) in CHAINS.items()
        for prologue in PROLOGUES
    }
    for name in CHAINS:
        wrong = max(wrong_after(timed[name, prologue]) for prologue in PROLOGUES for _ in range(3))
        print(f"{name}: {wrong} of {ELEMENTS} elements wrong")
    with stream:
        contenders = [Contender(f"{name}, {prologue}", call) for (name, prologue), call in timed.items()]
        times = time_contenders(contenders, Plan(repetitions=100, flush=False))
    for (name, prologue), one in zip(timed, times, strict=True):
        print(f"{name}, prologue {prologue}: {one.median / STEPS:.3f} us per kernel")
    unordered = chain_of(NO_WAIT, True, (8000, 0))
    print(f"no wait: {max(wrong_after(unordered) for _ in range(10))} of {ELEMENTS} elements wrong")

# %% fold="Code of the figure, and numbers for the text"
CHAIN_US = printed_numbers("matmul/clusters", "chains", r"^(.+), prologue (\d+): ([\d.]+) us")
WRONG = printed_numbers("matmul/clusters", "chains", r"^(.+): (\d+) of \d+ elements wrong")
PIECES = Archive(lesson_root()).lookup("launch_pieces", "NVIDIA H200")
BASE = PIECES["cuda_graph"]["n_4096"]["median"] / 4096  # 2**24 additions in pieces of 4,096
PROLOGUE_US = np.array(PROLOGUES) / PIECES["sm_clock_mhz"]
EXPECTED = {"no attribute": BASE + PROLOGUE_US, "with PDL": np.maximum(BASE, PROLOGUE_US)}
PLAIN, UNTRIGGERED, PDL = (np.array([CHAIN_US[name, cycles] for cycles in PROLOGUES]) for name in CHAINS)
ABOVE, SAVED = PLAIN - EXPECTED["no attribute"], PLAIN - UNTRIGGERED
if complete(CHAIN_US):
    assert (PDL < PLAIN).all() and PDL.max() < 1.25 * PDL.min(), "the title: it hardly matters"
    assert np.ptp(ABOVE) < 0.1, "the text says: the slope is as predicted"
    assert np.ptp(SAVED) < 0.1, "the text says: at every length"
    assert WRONG["no wait"] == ELEMENTS, "the text says: all elements"
    assert not any(WRONG[name] for name in CHAINS), "a chain that waits computes the right result"
    show(
        line_chart(
            [
                *(
                    Series(f"prediction, {name}", PROLOGUES, times, role="predicted", marks=False)
                    for name, times in EXPECTED.items()
                ),
                Series("no attribute", PROLOGUES, PLAIN, role="waste"),
                Series("attribute, no trigger", PROLOGUES, UNTRIGGERED, role="lane"),
                Series("attribute, trigger at the start", PROLOGUES, PDL),
            ],
            x="prologue [cycles]",
            y="time per kernel [µs]",
            title="With PDL, prologues overlap, and their length hardly matters",
            caption=f"Chains of {STEPS} kernels of {ELEMENTS:,} elements in one stream on an {MACHINE}: time per kernel, by the length of the prologue. Dashed: the predictions above.",
        )
    )
publish(
    chain={
        "longest": PROLOGUES[-1],
        "longest_us": PROLOGUE_US[-1],
        "base": BASE,
        "above": ABOVE.mean(),
        "saved": SAVED.mean(),
        "pdl": PDL[0],
        "pdl_longest": PDL[-1],
        "overlapping": np.ceil(PROLOGUE_US[-1] / PDL[-1]),
        "wrong": WRONG["no wait"],
    }
)

# %% [markdown]
# With PDL, a kernel takes {{ chain.pdl | .1f }} µs without a prologue, and {{ chain.pdl_longest | .1f }} µs with the
# longest one. The latter is much less than predicted: this prologue alone takes {{ chain.longest_us | .1f }} µs, so at
# least {{ chain.overlapping | .0f }} prologues run at the same time. These kernels trigger before they wait, so each
# lets the next kernel start while several earlier kernels are still in their prologues.
#
# Without the attribute, the slope is as predicted, but each kernel takes {{ chain.above | .1f }} µs more: the
# prediction was based on launches in a graph, whereas these are launches into a stream. The attribute without the
# trigger saves {{ chain.saved | .1f }} µs at every length: without an explicit trigger, a block triggers when it exits,
# so only the launch overlaps, not the prologue.
#
# And without the wait? In the worst of ten runs, all {{ chain.wrong | , }} elements were wrong.
#
# ## Takeaways
#
# - The blocks of a cluster run at the same time within one GPC, so clusters of more than two blocks can leave SMs idle.
#   Call `cudaOccupancyMaxActiveClusters` before you choose a size.
# - Put a cluster barrier before the first access to another block's shared memory, and one before any block exits. A
#   multicast writes to the same address in each block selected by its mask, and each block must expect all the bytes
#   that it receives, not just those it requests.
# - A named barrier counts threads that wait and threads that only arrive. If the count is too high, the kernel hangs; if it's too low, it races.
# - With programmatic dependent launch, everything up to `griddepcontrol.wait` can overlap the kernels before it.
#
# ## In your own kernel
#
# If a kernel with clusters is slow, compare the number of clusters in its grid with what
# `cudaOccupancyMaxActiveClusters` returns: one cluster too many costs a whole wave. If it hangs at a barrier, write
# down for each named barrier who arrives, who waits, and the total count. In Nsight Systems, PDL shows up as
# overlapping kernels in one stream; if your kernels don't overlap, look for a kernel, memset or event in between.

# %% fold="Code of the exercise, with four wrong answers that the tests reject"
from tilewise import exercise

NORMALISE = Kernel(
    CLUSTER_SUMS.source.replace("cluster_sums(", "normalise(")
    .replace(
        "    if (rank == 0 && lane == 0) {\n        float total = 0.0f;\n"
        "        for (int block = 0; block < 4; ++block)\n"
        "            total += load_from_block(&partial, block);\n"
        "        out[row] = total;\n    }\n",
        "    float total = 0.0f;\n"
        "    for (int block = 0; block < 4; ++block)\n"
        "        total += load_from_block(&partial, block);\n"
        "    for (int col = 32 * rank + lane; col < cols; col += 128)\n"
        "        out[row * cols + col] = x[row * cols + col] / total;\n",
    )
    .replace("while block 0 still reads", "while others still read"),
    options=OPTIONS,
)


def normalise_tests(kernel):
    rng = np.random.default_rng(1)
    for rows, cols in ((1, 7), (3, 200), (2, 513)):
        x = rng.integers(1, 9, (rows, cols)).astype(np.float32)
        y = np.zeros_like(x)
        kernel.simulate(x, y, cols, grid=4 * rows, block=32)
        off = np.abs(y - x / x.sum(axis=1, keepdims=True)).max()
        assert off < 1e-6, f"{rows} x {cols}: an element of y is off by {off:.1e}"


exercise(
    "Divide each row by its sum",
    """
    Write `normalise(x, y, cols)`, which divides each element of `x` by the sum of its row. As before, a cluster of four
    blocks with one warp each computes one row. Every block writes its own columns. All sums are positive.
    """,
    answer=NORMALISE,
    tests=normalise_tests,
    wrong=[
        {START: "    __syncthreads();\n"},
        {END.replace("while block 0 still reads", "while others still read"): ""},
        {"block < 4; ++block)": "block < rank; ++block)"},
        {"load_from_block(&partial, block)": "load_from_block(&partial, rank)"},
    ],
    hint="Every block needs all four partial sums. Which block may exit first?",
    explanation="Each block reads the partial sums of all four, so all four get the total without sending it around. The second barrier matters even more than before: every block is read by three others.",
)

# %% [markdown]
# Next, put TMA, `wgmma`, clusters and multicast together in a [GEMM](hopper.py).
