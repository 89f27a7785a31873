# ---
# title: "Parallel reductions: warp shuffles at memory speed"
# needs: [speed/occupancy, memory/precision, memory/banks]
# summary: "A sum reads each element once, so it should run at memory speed. How close can a sum of 2²⁸ floats get?"
# description: "Parallel sums in CUDA C: from the shared-memory tree to warp shuffles, grid-stride loops and float4 loads, as fast as CUB. Partial warps, reproducible order."
# date: 2026-11-21
# tags: [reduction, warp shuffle]
# ---

# %% [markdown]
# At peak bandwidth, reading 2²⁸ floats takes {{ task.least_us | us }}. The [tree reduction](barriers.py), which we
# timed on 2²⁶ floats, takes {{ task.tree_times | .1f }}× as long as reading them would.
#
# The figure shows the steps that bring a sum close to the peak. None of these steps changes the arithmetic; each one
# reduces the time that threads spend waiting. Norms, softmax, losses and dot products are all reductions, so you can
# use the same steps there.

# %% fold="Imports"
import numpy as np

from tilewise import check, expect_hazard, gpu_here, measure, parallel, publish, show, tiles, uniform
from tilewise.figures import bars, stepped
from tilewise.measurements import medians_us, recorded, recorded_device
from tilewise.models import bound, bytes_in_flight, device, stated

GPU = recorded_device()
H100 = device("H100 SXM")  # an H200 has as many SMs
MANY = 2**28
publish(
    task={
        "least_us": bound(stated(GPU), bytes_moved=4 * MANY).time_us,
        "tree_times": 1 / recorded("block_sums_by_shuffles.tree.share_of_bound"),
    }
)

# %% fold="Code of the figure"
LADDER = {
    "tree in shared memory": "block_sums_by_shuffles.tree",
    "warp shuffles": "block_sums_by_shuffles.shuffles",
    "grid-stride loop": "sums._4_byte_loads",
    "float4 loads": "sums.float4_loads",
    "four float4 loads in flight": "sums._4_x_float4",
    "CUB": "sums.cub_through_cupy_sum",
}
ladder = {label: recorded(f"{path}.gb_per_s") for label, path in LADDER.items()}
show(
    bars(
        ladder,
        x="bytes read per second [GB/s]",
        form=",.0f",
        title="Four steps take a sum from the tree to CUB's speed",
        caption="Throughput of sums of 32-bit floats, recorded on an {machine}. The first two kernels sum 2²⁶ elements in blocks of 256; the others sum 2²⁸ elements. CUB is NVIDIA's library of parallel building blocks.",
    )
)
if np.isfinite(list(ladder.values())).all():
    rates = list(ladder.values())
    assert rates[:5] == sorted(rates[:5]), "each step of the figure is faster than the one before"
    assert ladder["four float4 loads in flight"] > 0.99 * ladder["CUB"], "the title says: CUB's speed"

# %% [markdown]
# ## Warp shuffles: summing without shared memory
#
# In the tree, every step stores to shared memory, waits at a barrier and loads again. The lanes of a warp can skip
# all three. With a *warp shuffle*, `__shfl_down_sync(mask, sum, offset)`, lane `t` reads the register `sum` of lane
# `t + offset`. The mask has one bit per lane and names the lanes that take part; they wait for each other
# at the shuffle.
#
# ??? definition "Warp shuffle | warp shuffles"
#     An instruction with which each lane of a warp reads a register of another lane, without going through
#     memory.
#
# Take eight lanes that hold 3, 1, 7, 0, 4, 1, 6 and 3. With an offset of 4, lanes 0 to 3 get 7, 2, 13 and 3. With an
# offset of 2, lanes 0 and 1 get 20 and 5. With an offset of 1, lane 0 has the total, 25. A warp of 32 lanes needs five
# steps.
#
# In a block, each warp sums its own elements this way and lane 0 stores the result in shared memory. After a single
# barrier, the first warp sums those results with the same five steps.


# %% tab="Pseudocode"
def sum_by_shuffles(x, sums):
    for b, tile in enumerate(tiles(len(x), 256)):
        s = np.zeros((8, 32))
        for i in tile:
            s.flat[i - tile.start] = x[i]
        # [warp
        for offset in (16, 8, 4, 2, 1):
            for warp in parallel(8):
                s[warp, :offset] += s[warp, offset : 2 * offset]
        # warp]
        # [block
        warp_sums = s[:, 0]
        sums[b] = warp_sums.sum()
        # block]


# %% tab="CUDA C"
from tilewise import Kernel

SUM_BY_SHUFFLES = Kernel(r"""
// [warp
__device__ float warp_sum(float sum) {
    for (int offset = 16; offset > 0; offset /= 2) {
        sum += __shfl_down_sync(0xffffffff, sum, offset);  // watch: sum
    }
    return sum;  // in lane 0: the sum of all 32
}
// warp]

// sums[b] = the sum of the elements of block b. x: n floats; sums: one float per block.
// One-dimensional grid and block; blockDim.x must be a multiple of 32.
extern "C" __global__
void sum_by_shuffles(const float* x, float* sums, int n) {
    __shared__ float warp_sums[32];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float sum = warp_sum(i < n ? x[i] : 0.0f);
    // [block
    if (lane == 0) warp_sums[warp] = sum;
    __syncthreads();  // every warp has stored its sum
    if (warp > 0) return;
    sum = warp_sum(lane < blockDim.x / 32 ? warp_sums[lane] : 0.0f);
    if (lane == 0) sums[blockIdx.x] = sum;
    // block]
}
""")


# %% tab="Triton" needs="torch triton"
from tilewise.frameworks import tl, triton


@triton.jit
def sum_of_block(x, sums, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    s = tl.load(x + i, mask=i < n, other=0.0)
    tl.store(sums + tl.program_id(0), tl.sum(s))  # Triton generates shuffles, shared memory and barrier


def sum_by_triton(x, sums, n):
    sum_of_block[(triton.cdiv(n, 256),)](x, sums, n, BLOCK=256)


# %% tab="PyTorch" needs="torch"
from tilewise.frameworks import torch


def sum_by_torch(x, sums):
    blocks = torch.nn.functional.pad(x, (0, -len(x) % 256)).view(-1, 256)
    torch.sum(blocks, dim=1, out=sums)


# %% [markdown]
# Launch it. A thousand ones in blocks of 256 give four sums; the last block has only 232 elements.

# %%
ones, block_sums = np.ones(1000, np.float32), np.zeros(4, np.float32)
SUM_BY_SHUFFLES(ones, block_sums, 1000, grid=4, block=256)
print(block_sums)

# %% [markdown]
# Step through a block of two warps and watch `sum`: nothing goes to memory until each warp stores its one sum.


# %% fold="Code of the checks and of the figure"
from tilewise import Trace, agree, case, ceil_div, integers, output
from tilewise.kernels.from_lesson import from_lesson

summing, torch_row_sums = from_lesson("memory/barriers", "summing", "torch_row_sums")
lanes = np.array([3, 1, 7, 0, 4, 1, 6, 3])
for offset, after in ((4, [7, 2, 13, 3]), (2, [20, 5]), (1, [25])):
    lanes[:offset] += lanes[offset : 2 * offset]
    assert lanes[:offset].tolist() == after, "the worked example"

agree(sum_by_shuffles, SUM_BY_SHUFFLES, [summing(n) for n in (1, 77, 300, 1000)])
for function, by in {sum_by_triton: "Triton", sum_by_torch: "PyTorch"}.items():
    agree(function, SUM_BY_SHUFFLES, [summing(n) for n in (1, 77, 300, 1000)], by=by)
show(
    stepped(
        SUM_BY_SHUFFLES.on(summing(64, 64)).simulate(trace=Trace()),
        extent=64,
        start=1,
        title="Five shuffles sum a warp; the block needs one barrier",
        caption="One block of two warps sums 64 elements, line by line as the simulator ran it. The value of sum is shown for each lane.",
    )
)

# %% fold="The tree reduction, for comparison"
SUM_BY_TREE = Kernel(r"""
extern "C" __global__
void sum_by_tree(const float* x, float* sums, int n) {
    __shared__ float partial[256];
    int tid = threadIdx.x;
    int i = blockIdx.x * blockDim.x + tid;
    partial[tid] = i < n ? x[i] : 0.0f;
    __syncthreads();  // every element is in shared memory
    for (int offset = blockDim.x / 2; offset > 0; offset /= 2) {
        if (tid < offset) partial[tid] += partial[tid + offset];
        __syncthreads();  // this step is complete
    }
    if (tid == 0) sums[blockIdx.x] = partial[0];
}
""")
agree(sum_by_shuffles, SUM_BY_TREE, [summing(n) for n in (1, 77, 300, 1000)])

# %% fold="Code of the numbers"
BLOCKS_OF_256 = {}
for name, kernel in {"tree": SUM_BY_TREE, "shuffles": SUM_BY_SHUFFLES}.items():
    counts = kernel.on(summing(256)).simulate().counts
    executed = recorded(f"block_sums_by_shuffles.{name}.n_8192.counters.instructions") / (2**13 / 256)
    BLOCKS_OF_256[name] = {
        "barriers": counts.barriers // 8,
        "wavefronts": counts.shared_load.wavefronts + counts.shared_store.wavefronts,
        "issue_us": 2**26 / 256 * executed / 4 / GPU.sms / GPU.boost_mhz,
    }
publish(block=BLOCKS_OF_256)

# %% fold="Code of the measurement"
measure(
    "block_sums_by_shuffles",
    variants={
        "tree": lambda n: SUM_BY_TREE.on(summing(n)),
        "shuffles": lambda n: SUM_BY_SHUFFLES.on(summing(n)),
    },
    cases=[{"n": 2**26}],
    count_case={"n": 2**13},
    bytes=lambda n: 4 * n + n // 64,
    flop=lambda n: n,
    library={"torch.sum": torch_row_sums},
    reference=lambda x: {"sums": x.reshape(-1, 256).sum(axis=1)},
    tolerance=0.0,
    counts=("wavefronts", "instructions"),
    fold="All three rows",
    reasons={
        "tree": "Warp shuffles: summing without shared memory",
        "shuffles": "Warp shuffles: summing without shared memory",
    },
)

# %% [markdown]
# For a block of 256 threads, the shuffle version needs {{ block.shuffles.barriers }} barrier instead of the tree's
# {{ block.tree.barriers }}, and {{ block.shuffles.wavefronts }} shared-memory wavefronts instead of
# {{ block.tree.wavefronts }}. For 2²⁶ elements, it takes {{ block_sums_by_shuffles.shuffles.median | us }}, compared
# with {{ block_sums_by_shuffles.tree.median | us }} for the tree. But moving the bytes takes only
# {{ block_sums_by_shuffles.shuffles.bound | us }}, and issuing all the instructions only
# {{ block.shuffles.issue_us | us }}. Most of the time is spent waiting: a warp issues one load, waits for the element
# and then waits at the barrier, and its block keeps its slot on the SM until all eight warps are done.

# %% [markdown]
# ## Partial warps: guard the last step
#
# With blocks of 96 threads, the tree silently lost elements. The shuffle version handles 96 threads correctly, thanks
# to the guard `lane < blockDim.x / 32`: a block of 96 threads has three warps, so only three of the 32 slots in
# `warp_sums` hold a sum. Without the guard, the first warp adds 29 uninitialised words, and the simulator reports them.

# %% fold="The kernel without the guard, which the simulator rejects"
NO_GUARD = Kernel(r"""
__device__ float warp_sum(float s) {
    for (int offset = 16; offset > 0; offset /= 2)
        s += __shfl_down_sync(0xffffffff, s, offset);
    return s;
}
extern "C" __global__
void sum_by_shuffles(const float* x, float* sums, int n) {
    __shared__ float warp_sums[32];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float s = warp_sum(i < n ? x[i] : 0.0f);
    if (lane == 0) warp_sums[warp] = s;
    __syncthreads();
    if (warp > 0) return;
    s = warp_sum(warp_sums[lane]);  // hazard: uninitialised beyond the last warp
    if (lane == 0) sums[blockIdx.x] = s;
}
""")

# %% fold="Code of the checks"
expect_hazard(NO_GUARD.on(summing(96, 96)), "uninitialised", line_with="uninitialised beyond the last warp")

ninety_six = SUM_BY_SHUFFLES.on(summing(960, 96))
arrays = ninety_six.case.make()
ninety_six.simulate(arrays=arrays)
check(arrays["sums"], arrays["x"].reshape(-1, 96).sum(axis=1), name="96 threads, with the guard")

# %% [markdown]
# Blocks of 100 threads fail even with the guard. The fourth warp has four lanes, but the mask names 32, and the result
# of a shuffle is undefined if a lane named in the mask doesn't execute it. Also, `100 / 32` is 3, so the sum of the
# fourth warp would be dropped. Launch reductions with whole warps, and give lanes without an element a zero. The check
# below reports a hazard at thread 96's first shuffle, which reads lane 16 of its warp, a lane that doesn't exist.
#
# *A common misconception:* `__activemask()` supplies the right mask. In fact, it returns the lanes that happen to be
# active at that instruction, not those that will arrive.

# %% fold="Code of the check"
expect_hazard(SUM_BY_SHUFFLES.on(summing(100, 100)), "shuffle", line_with="__shfl_down_sync")

# %% [markdown]
# Find the block sizes at which each version works. The tree is there for comparison.

# %% fold="Code of the run"
from tilewise import try_it

try_it(
    summing,
    {"shuffles": SUM_BY_SHUFFLES, "shuffles without the guard": NO_GUARD, "tree": SUM_BY_TREE},
    n=(1, 960, 2000),
    block=(1, 96, 256),
)

# %% [markdown]
# ## Grid-stride loop and float4 loads: keep the memory busy
#
# If waiting is the problem, wait less often. Launch only as many blocks as fit on the GPU at once
# ({{ sum_model.blocks | , }} blocks of 256 threads), and let each thread sum about {{ sum_model.each | , }} elements in
# a grid-stride loop. Each block then synchronises about once per {{ answer.numbers | , }} elements, instead of once per
# 256.
#
# What remains is to keep enough bytes in flight. By Little's law, with the latency of idle memory, each SM needs
# {{ sum_model.flight_kb | .0f }} kB in flight. With one 4-byte load outstanding per thread, its {{ sum_model.warps }}
# warps have {{ sum_model.narrow_kb | .0f }} kB. With one `float4`, they have {{ sum_model.one_kb | .0f }} kB, and with
# four of them, {{ sum_model.four_kb | .0f }} kB. So 4-byte loads should fall short, and `float4` loads should be
# enough.
#
# The kernel loads four `float4`s before it adds anything. Each thread has four accumulators, one per component, so
# that successive additions don't depend on each other.

# %% fold="The whole kernel: thread, warp, block and grid level"
FOUR = Kernel(
    r"""
__device__ float warp_sum(float acc) {
    for (int offset = 16; offset > 0; offset /= 2)
        acc += __shfl_down_sync(0xffffffff, acc, offset);
    return acc;
}
__device__ float block_sum(float acc) {  // valid in thread 0
    __shared__ float warp_sums[32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    acc = warp_sum(acc);
    if (lane == 0) warp_sums[warp] = acc;
    __syncthreads();  // every warp has stored its sum
    if (warp > 0) return 0.0f;
    return warp_sum(lane < blockDim.x / 32 ? warp_sums[lane] : 0.0f);
}
// [wide
__device__ float thread_sum(const float* x, int n) {
    const float4* x4 = (const float4*)x;
    int tile = LOADS * blockDim.x, n4 = n / 4 / tile * tile;
    float4 acc = {0.0f, 0.0f, 0.0f, 0.0f};  // four accumulators
    for (int j = blockIdx.x * tile + threadIdx.x; j < n4;
         j += gridDim.x * tile) {
        float4 v[LOADS];
        #pragma unroll
        for (int k = 0; k < LOADS; ++k)  // all loads before the first addition
            v[k] = x4[j + k * blockDim.x];
        #pragma unroll
        for (int k = 0; k < LOADS; ++k) {
            acc.x += v[k].x;
            acc.y += v[k].y;
            acc.z += v[k].z;
            acc.w += v[k].w;
        }
    }
    int tid = blockIdx.x * blockDim.x + threadIdx.x;  // elements beyond the last tile
    for (int i = 4 * n4 + tid; i < n; i += gridDim.x * blockDim.x)
        acc.x += x[i];
    return (acc.x + acc.y) + (acc.z + acc.w);
}
// wide]
// sums[b] = the sum of block b. x: n floats, aligned to 16 bytes; blockDim.x: whole warps.
extern "C" __global__
void sum_wide(const float* x, float* sums, int n) {
    float acc = block_sum(thread_sum(x, n));
    if (threadIdx.x == 0) sums[blockIdx.x] = acc;
}
// *total = the sum of `blocks` floats. One block.
extern "C" __global__
void add_up(const float* sums, float* total, int blocks) {
    float acc = 0.0f;
    for (int b = threadIdx.x; b < blocks; b += blockDim.x) acc += sums[b];
    acc = block_sum(acc);
    if (threadIdx.x == 0) *total = acc;
}
// [last
__device__ unsigned arrived = 0;  // blocks that have finished
// Both in one launch. Not for two launches at the same time: they would share `arrived`.
extern "C" __global__
void sum_at_once(const float* x, float* sums, float* total, int n) {
    __shared__ bool last;
    float acc = block_sum(thread_sum(x, n));
    if (threadIdx.x == 0) {
        sums[blockIdx.x] = acc;
        __threadfence();  // publish the sum before the arrival
        last = atomicInc(&arrived, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();  // every thread knows whether its block is last
    if (!last) return;
    __threadfence();  // read the other blocks' sums, not stale copies
    acc = 0.0f;
    for (int b = threadIdx.x; b < gridDim.x; b += blockDim.x)
        acc += __ldcg(sums + b);
    acc = block_sum(acc);
    if (threadIdx.x == 0) *total = acc;
}
// last]
""",
    "sum_wide",
    defines={"LOADS": 4},
)


# %%
FOUR.region("wide")


# %% fold="Pseudocode"
def sum_wide(x, sums):
    blocks = len(sums)
    sums[:] = 0.0
    for t, tile in enumerate(tiles(len(x), 4 * 4 * 256)):
        if len(tile) == 4 * 4 * 256:
            sums[t % blocks] += sum(x[i] for i in tile)
        else:
            for p, rest in enumerate(tiles(len(tile), 256)):
                sums[p % blocks] += sum(x[tile[i]] for i in rest)


# %% [markdown]
# ## Combining blocks: a second launch, or the last block
#
# Each block produces one sum, but `__syncthreads()` can't synchronise across blocks. The simplest solution is a second
# launch, with a single block that adds up those sums. You can also let the *last block* of the first launch do it, as
# in NVIDIA's `threadFenceReduction` CUDA sample. Each block stores its sum and then increments a counter with an
# atomic. If a block finds that all the others have already been counted, it adds up the sums. No block ever waits for
# another.

# %% fold="Versions to compare: one float4, sixteen, and 4-byte loads"
ONE = Kernel(FOUR.source, "sum_wide", defines={"LOADS": 1})
SIXTEEN = Kernel(FOUR.source, "sum_wide", defines={"LOADS": 16})
ADD_UP = FOUR.named("add_up")
AT_ONCE = FOUR.named("sum_at_once")
SIXTEEN_AT_ONCE = SIXTEEN.named("sum_at_once")

NARROW = Kernel(r"""
__device__ float warp_sum(float s) {
    for (int offset = 16; offset > 0; offset /= 2)
        s += __shfl_down_sync(0xffffffff, s, offset);
    return s;
}
extern "C" __global__
void sum_narrow(const float* x, float* sums, int n) {
    __shared__ float warp_sums[32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float s = 0.0f;
    #pragma unroll 1  // one load in flight per thread
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n;
         i += gridDim.x * blockDim.x)
        s += x[i];
    s = warp_sum(s);
    if (lane == 0) warp_sums[warp] = s;
    __syncthreads();  // every warp has stored its sum
    if (warp > 0) return;
    s = warp_sum(lane < blockDim.x / 32 ? warp_sums[lane] : 0.0f);
    if (lane == 0) sums[blockIdx.x] = s;
}
""")

# %%
AT_ONCE.region("last")

# %% [markdown]
# The first fence makes sure that a block's sum is visible before its increment of the counter.[^fence] `atomicInc`
# wraps the counter back to zero, so the next launch can use it again.
#
# [^fence]: The simulator runs blocks one after another, so it can't show what goes wrong without the fence. The second
#     fence and `__ldcg`, a load that bypasses L1, keep the last block from reading stale copies.
#
# ??? definition "Memory fence | fences"
#     An instruction that makes a thread's earlier writes visible to other threads before any of its later
#     writes.

# %% fold="Code of the checks"
from tilewise.kernel.chains import run_chain

BLOCKS = 8 * H100.sms


def adding_up(n, blocks=BLOCKS, block=256):
    return case(
        x=integers(n, low=-8, high=9, dtype="float32"),
        sums=output(blocks),
        total=output(1),
        blocks=blocks,
        n=n,
        grid=blocks,
        block=block,
    )


def sum_at_once(x, sums, total):
    sum_wide(x, sums)
    s = 0.0
    for b in range(len(sums)):
        s += sums[b]
    total[0] = s


RAGGED = (3, 700, 4099, 20_003)
agree(sum_wide, FOUR, [adding_up(n, 3) for n in RAGGED])
agree(sum_at_once, AT_ONCE, [adding_up(n, 3) for n in RAGGED])


def in_two(kernel, blocks=BLOCKS):
    """One launch that leaves a sum per block, and one that adds those up."""

    def launches(n):
        given = adding_up(n, blocks(n) if callable(blocks) else blocks)
        return [kernel.on(given), ADD_UP.on(given, grid=1, block=1024)]

    return launches


for kernel in (NARROW, ONE, FOUR, SIXTEEN):
    for n in RAGGED:
        arrays = run_chain(in_two(kernel, 5)(n))
        assert arrays["total"][0] == arrays["x"].sum(), f"{kernel.name}, {n} elements: {arrays['total'][0]:g}"

# %% fold="Code of the model"
from tilewise.measurements import memory_latency_ns
from tilewise.models.occupancy import LIMITS

LATENCY_NS = memory_latency_ns()
WARPS = LIMITS[9, 0].threads // 32
publish(
    answer={"numbers": MANY // BLOCKS},
    sum_model={
        "blocks": BLOCKS,
        "each": round(MANY / (BLOCKS * 256)),
        "warps": WARPS,
        "flight_kb": bytes_in_flight(GPU.memory_gb_per_s, LATENCY_NS) / GPU.sms / 1000,
        "one_kb": WARPS * 32 * 16 / 1000,
        "four_kb": 4 * WARPS * 32 * 16 / 1000,
        "narrow_kb": WARPS * 32 * 4 / 1000,
    },
)

# %% [markdown]
# ## Benchmark: sums against CUB and torch.sum
#
# All versions sum the same integers from −8 to 8, stored as floats. Positive and negative values nearly cancel, so the
# partial sums of each version stay below 2²⁴, and its result is exact. Three variants test the design: one launches
# half as many blocks, and two launch one block per tile instead of looping over tiles, with four and sixteen loads per
# thread. CUB is called through CuPy.

# %% fold="Code of the measurement"


def torch_sum(arrays):
    import torch

    x = torch.as_tensor(arrays["x"], device="cuda")
    return lambda: torch.sum(x)


def cub_sum(arrays):
    """CuPy's sum through CUB; the reader's choice of accelerators is restored."""
    from cupy import _core

    x = arrays["x"]

    def run():
        chosen = list(_core.get_routine_accelerators())
        _core.set_routine_accelerators(["cub"])
        try:
            return x.sum()
        finally:
            _core.set_routine_accelerators(chosen)

    return run


def tiles_of(loads):
    return lambda n: ceil_div(n, 4 * loads * 256)


the_sums = measure(
    "sums",
    variants={
        "4-byte loads": in_two(NARROW),
        "float4 loads": in_two(ONE),
        "4 x float4": in_two(FOUR),
        "4 x float4, half the blocks": in_two(FOUR, BLOCKS // 2),
        "4 x float4, one block per tile": in_two(FOUR, tiles_of(4)),
        "16 x float4, one block per tile": in_two(SIXTEEN, tiles_of(16)),
        "4 x float4, last block finishes": lambda n: AT_ONCE.on(adding_up(n)),
        "16 x float4, one block per tile, last finishes": lambda n: SIXTEEN_AT_ONCE.on(
            adding_up(n, ceil_div(n, 4 * 16 * 256))
        ),
    },
    cases=[{"n": MANY}],
    count_case={"n": 2**17},
    bytes=lambda n: 4 * n,
    flop=lambda n: n,
    library={"torch.sum": torch_sum, "CUB through cupy.sum": cub_sum},
    reference=lambda x: {"total": x.sum(keepdims=True)},
    tolerance=0.0,
    counts=("sectors", "requests"),
    fold="All ten rows",
)

# %% fold="Code of the numbers"
sum_us = medians_us(the_sums)
sum_rate = {label: 4 * MANY / us / 1e3 for label, us in sum_us.items()}
best = min((row["variant"] for row in the_sums.rows if row["role"] == "variant"), key=sum_us.get)
publish(
    sum_seen={
        "best_us": sum_us[best],
        "times_least": sum_us[best] / bound(stated(GPU), bytes_moved=4 * MANY).time_us,
        "tiles_less": 1 - sum_rate["4 x float4, one block per tile"] / sum_rate["4 x float4"],
        "of_stated": sum_rate[best] / GPU.memory_gb_per_s,
    }
)
if sum_us[best] > 0:
    halved = sum_rate["4 x float4, half the blocks"] / sum_rate["4 x float4"]
    at_end = sum_rate["4 x float4, last block finishes"] / sum_rate["4 x float4"]
    assert max(abs(halved - 1), abs(at_end - 1)) < 0.01, "the text says that neither makes a difference"

# %% [markdown]
# With 4-byte loads, the sum takes {{ sums._4_byte_loads.median | us }}; with `float4` loads, it takes
# {{ sums.float4_loads.median | us }}, and with four of them in flight, {{ sums._4_x_float4.median | us }}. As
# predicted, 4-byte loads fall short, and one `float4` per thread is almost enough. Launching half as many blocks makes
# no difference. One block per tile costs {{ sum_seen.tiles_less | .0% }} of the throughput: every tile then pays for
# its own barrier, which was the problem at the start.
#
# Letting the last block add up the sums is as fast as a second launch, at
# {{ sums._4_x_float4_last_block_finishes.median | us }}. `torch.sum` takes {{ sums.torch_sum.median | us }}, and CUB
# takes {{ sums.cub_through_cupy_sum.median | us }}. Our best kernel matches CUB. It reaches
# {{ sum_seen.of_stated | .0% }} of peak bandwidth.

# %% [markdown]
# ## Order of summation: rounding and reproducibility
#
# Floating-point addition rounds, so the order of additions determines the last digits. The longer a chain of additions,
# the more rounding errors pile up. A running sum of 2²⁸ elements is a chain of that many additions; in `sum_wide`, the
# longest chain has {{ order.wide | , }}.[^chain] Try it with {{ order.numbers | , }} values between 0 and 1: the
# relative error is {{ order.serial_error | .1e }} for the running sum in FP32 and {{ order.wide_error | .1e }} for
# `sum_wide`.
#
# [^chain]: This counts the additions in one accumulator of a thread, plus those that combine the four accumulators,
#     the lanes, the warps and, in the second launch, the blocks.

# %% fold="Code of the two sums"
few = {"x": uniform(2**18), "sums": output(8), "total": output(1), "blocks": 8}
few = case(**few, n=2**18, grid=8, block=256)
arrays = run_chain([FOUR.on(few), ADD_UP.on(few, grid=1, block=1024)])
right = arrays["x"].sum(dtype=np.float64)
serial = np.cumsum(arrays["x"])[-1]  # one running sum in 32 bits

tiles_per_block = ceil_div(MANY // (4 * 4 * 256), BLOCKS)  # of the busiest block, four additions each
assert MANY % (4 * 4 * 256) == 0, "no elements are left beyond the last tile"

errors = {"serial": abs(serial - right) / right, "wide": abs(arrays["total"][0] - right) / right}
publish(
    order={
        "numbers": len(arrays["x"]),
        "wide": 4 * tiles_per_block + 2 + 5 + 5 + ceil_div(BLOCKS, 1024) + 10,
        "serial_error": errors["serial"],
        "wide_error": errors["wide"],
    }
)

# %% [markdown]
# Is the result the same in every run? In `sum_wide`, each element has a fixed position in the tree of additions,
# whichever block finishes first. If each warp adds its sum to the total with an atomic instead, the additions happen in
# the order of arrival, which changes from run to run.

# %% title="CUDA C"
BY_ARRIVAL = Kernel(r"""
extern "C" __global__
void sum_by_arrival(const float* x, float* total, int n) {
    float acc = 0.0f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n;
         i += gridDim.x * blockDim.x)
        acc += x[i];
    for (int offset = 16; offset > 0; offset /= 2)
        acc += __shfl_down_sync(0xffffffff, acc, offset);
    if (threadIdx.x % 32 == 0) atomicAdd(total, acc);  // in order of arrival
}
""")

# %% fold="Code that compares launches on a GPU" needs="gpu" record="orders"
if gpu_here():
    import cupy

    x = cupy.random.default_rng(1).standard_normal(MANY, dtype=cupy.float32)
    right = float(x.reshape(2**14, -1).sum(axis=1, dtype=cupy.float64).sum())
    scale = float(cupy.abs(x).reshape(2**14, -1).sum(axis=1, dtype=cupy.float64).sum())
    sums, total = cupy.empty(BLOCKS, cupy.float32), cupy.empty(1, cupy.float32)

    def two_launches():
        FOUR(x, sums, MANY, grid=BLOCKS, block=256)
        ADD_UP(sums, total, BLOCKS, grid=1, block=1024)
        return float(total[0])

    def last_block():
        AT_ONCE(x, sums, total, MANY, grid=BLOCKS, block=256)
        return float(total[0])

    def arrival():
        total[...] = 0
        BY_ARRIVAL(x, total, MANY, grid=BLOCKS, block=256)
        return float(total[0])

    ways = {"two launches": two_launches, "the last block finishes": last_block, "by arrival": arrival}
    for name, way in ways.items():
        found = [way() for _ in range(20)]
        off = max(abs(one - right) for one in found) / scale
        print(f"{name}: {len(set(found))} different sums in 20 launches, off by {off:.2e} of all sizes added")

# %% fold="Code of the numbers"
from tilewise.measurements import printed_numbers

ORDERS = printed_numbers("memory/reductions", "orders", r"(\S.*): (\d+) different sums")
for name in ("two launches", "the last block finishes"):
    assert not ORDERS[name] > 1, "the text: the same result every time"
publish(orders={"by_arrival": ORDERS["by arrival"]})

# %% [markdown]
# In 20 runs over the same 2²⁸ floats, the two-launch version and the last-block version each gave the same result every
# time. Atomics in order of arrival gave {{ orders.by_arrival | .0f }} different results.

# %% [markdown]
# ## The answer
#
# With one barrier per {{ answer.numbers | , }} elements, `float4` loads and several of them in flight, the best sum
# takes {{ sum_seen.best_us | us }} for 2²⁸ floats. That's {{ sum_seen.times_least | .2f }}× the
# {{ task.least_us | us }} that peak bandwidth allows.

# %% [markdown]
# ## Takeaways
#
# - A warp shuffle moves a value between lanes without shared memory and without a barrier. Every lane named in its mask
#   has to execute it.
# - A reduction runs at memory speed if each thread sums many elements before its block synchronises, with several `float4`
#   loads in flight.
# - The order of additions determines the last digits of a floating-point sum. A fixed order is reproducible;
#   floating-point atomics aren't.

# %% [markdown]
# ## In your own kernel
#
# In Nsight Compute, look at `dram__throughput.avg.pct_of_peak_sustained_elapsed`: if a reduction is far below 90% and
# its warps mostly stall on `smsp__average_warps_issue_stalled_barrier_per_issue_active`, let each thread sum more
# elements before the block synchronises. If they stall on
# `smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active` instead, use `float4` loads and unroll. To find a
# missing barrier between storing the warps' sums and loading them, run `compute-sanitizer --tool racecheck`.

# %% fold="Code of the exercise, with four wrong answers that the tests reject"
from tilewise import exercise

LARGEST = Kernel(r"""
extern "C" __global__
void largest(const float* x, float* values, int* places, int n) {
    __shared__ float warp_max[32];
    __shared__ int warp_at[32];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float v = i < n ? x[i] : -INFINITY;
    int at = i;
    for (int level = 0; level < 2; ++level) {
        for (int offset = 16; offset > 0; offset /= 2) {
            float other = __shfl_down_sync(0xffffffff, v, offset);
            int other_at = __shfl_down_sync(0xffffffff, at, offset);
            if (other > v || (other == v && other_at < at)) {
                v = other;
                at = other_at;
            }
        }
        if (level == 1) break;
        if (lane == 0) {
            warp_max[warp] = v;
            warp_at[warp] = at;
        }
        __syncthreads();  // every warp has stored its maximum
        if (warp > 0) return;
        v = lane < blockDim.x / 32 ? warp_max[lane] : -INFINITY;
        at = lane < blockDim.x / 32 ? warp_at[lane] : n;
    }
    if (lane == 0) {
        values[blockIdx.x] = v;
        places[blockIdx.x] = at;
    }
}
""")


def largest_tests(kernel):
    rng = np.random.default_rng(5)
    for n, block in ((256, 256), (700, 128), (96, 96), (77, 32)):
        x = rng.integers(-9, -2, n).astype(np.float32)
        blocks = ceil_div(n, block)
        values, places = np.full(blocks, np.nan, np.float32), np.full(blocks, -1, np.int32)
        kernel.simulate(x, values, places, n, grid=blocks, block=block)
        for b in range(blocks):
            own = x[b * block :][:block]
            assert values[b] == own.max(), f"block {b} of {block}: {values[b]:g}, not {own.max():g}"
            right = b * block + int(own.argmax())
            assert places[b] == right, f"block {b} of {block}: place {places[b]}, not {right}"


exercise(
    "Argmax per block",
    """
    Write `largest(x, values, places, n)`. For each block, find the largest of its elements and the index of that
    element in `x`; if several elements are equal, take the first. Use shuffles within each warp and a single
    barrier. The tests use whole warps, array sizes that aren't multiples of the block size, and arrays in which all values are negative.
    """,
    answer=LARGEST,
    tests=largest_tests,
    wrong=[
        {"other > v || (other == v && other_at < at)": "other >= v"},
        {"-INFINITY": "0.0f"},
        {
            "int other_at = __shfl_down_sync(0xffffffff, at, offset);": "",
            "(other > v || (other == v && other_at < at))": "(other > v)",
            "at = other_at": "at = __shfl_down_sync(0xffffffff, at, offset)",
        },
        {"__syncthreads();": ""},
    ],
    hint="Shuffle both the value and its index in all lanes. Compare only afterwards.",
    explanation="A shuffle inside the comparison names lanes that don't execute it. A lane without an element contributes minus infinity, which never wins.",
)

# %% [markdown]
# Next come the [puzzles](puzzles.py) of this part, and after them [tiled matrix multiplication](../matmul/tiling.py).
