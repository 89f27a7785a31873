# ---
# title: Adding up at the memory's rate
# needs: [speed/occupancy, memory/banks]
# summary: "A tree that meets for every 256 numbers is far from the memory's rate. How close can a sum of 2²⁸ numbers come?"
# description: "Warp shuffles, sums and dot products at the rate of a read, the order of additions, contention. Kernel 4."
# date: 2026-11-21
# tags: [reduction, warp shuffle, dot product]
# ---

# %% [markdown]
# {{ task.numbers | , }} numbers of 4 bytes are to be added up. The GPU reads them in
# {{ task.least_us | us }} at its peak bandwidth (data sheet), and no sum is faster. The
# [tree](barriers.py), in which a block meets nine times for every 256 numbers, took
# {{ task.tree_times | .1f }} times as long as its bytes allow. How close can a sum come, and how
# often do its threads still have to meet?

# %% fold="Imports"
import numpy as np

from tilewise import (
    Guess,
    Table,
    Trace,
    agree,
    case,
    ceil_div,
    check,
    constant,
    expect_hazard,
    gpu_here,
    integers,
    measure,
    normal,
    output,
    parallel,
    publish,
    show,
    tiles,
    uniform,
)
from tilewise.figures import bars, stepped
from tilewise.measurements import medians_us, recorded, recorded_device
from tilewise.models import bound, bytes_in_flight, device, stated

GPU = recorded_device()
H100 = device("H100 SXM")  # an H200 has as many SMs
MANY = 2**28
publish(
    task={
        "numbers": MANY,
        "least_us": bound(stated(GPU), bytes_moved=4 * MANY).time_us,
        "tree_times": 1 / recorded("block_sums.tree.n_67108864.share_of_bound"),
    }
)

# %% [markdown]
# ## Lanes that hand over
#
# In the tree every step is a write to the box, a barrier and a read. The lanes of one warp can do
# without all three. With a warp shuffle, `__shfl_down_sync(mask, s, hop)`, lane `t` gets what lane
# `t + hop` has in its register `s`. The mask names the lanes that take part, one bit each, and they
# wait for each other there; so the shuffle is the `__syncwarp()` of its step, too.
#
# ??? definition "Warp shuffle | warp shuffles"
#     An instruction by which each lane of a warp reads a register of another lane, without memory.

# %% [markdown]
# Five steps add up a warp: `hop` goes 16, 8, 4, 2, 1, and lane 0 ends up with the sum of all 32. Each
# of the eight warps of a block puts its sum into the box; after a single barrier the first warp adds up
# what is in there, by the same five steps.


# %% tab="Pseudocode"
def sum_by_shuffles(x, sums):
    for b, tile in enumerate(tiles(len(x), 256)):
        s = np.zeros((8, 32))
        for i in tile:
            s.flat[i - tile.start] = x[i]
        # [warp
        for hop in (16, 8, 4, 2, 1):
            for warp in parallel(8):
                s[warp, :hop] += s[warp, hop : 2 * hop]
        # warp]
        # [block
        box = s[:, 0]
        sums[b] = box.sum()
        # block]


# %% tab="CUDA C"
from tilewise import Kernel

SUM_BY_SHUFFLES = Kernel(r"""
// [warp
__device__ float warp_sum(float s) {
    for (int hop = 16; hop > 0; hop /= 2) {
        s += __shfl_down_sync(0xffffffff, s, hop);  // watch: s
    }
    return s;  // in lane 0: the sum of all 32
}
// warp]

extern "C" __global__
void sum_by_shuffles(const float* x, float* sums, int n) {
    __shared__ float box[32];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float s = warp_sum(i < n ? x[i] : 0.0f);
    // [block
    if (lane == 0) box[warp] = s;
    __syncthreads();  // the sums of all warps are in the box
    if (warp > 0) return;
    s = warp_sum(lane < blockDim.x / 32 ? box[lane] : 0.0f);
    if (lane == 0) sums[blockIdx.x] = s;
    // block]
}
""")


# %% tab="Triton" needs="torch triton"
from tilewise.frameworks import tl, triton


@triton.jit
def sum_of_block(x, sums, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    s = tl.load(x + i, mask=i < n, other=0.0)
    tl.store(sums + tl.program_id(0), tl.sum(s))  # hops, box and barrier are the compiler's


def sum_by_triton(x, sums, n):
    sum_of_block[(triton.cdiv(n, 256),)](x, sums, n, BLOCK=256)


# %% tab="PyTorch" needs="torch"
from tilewise.frameworks import torch


def sum_by_torch(x, sums):
    blocks = torch.nn.functional.pad(x, (0, -len(x) % 256)).view(-1, 256)
    torch.sum(blocks, dim=1, out=sums)


# %% [markdown]
# Step through a block of two warps and watch `s` in the lanes: nothing is written anywhere until each
# warp puts its one sum into the box.


# %% fold="Code of the checks and of the figure"
def summing(n, block=256):
    blocks = ceil_div(n, block)
    x = integers(n, low=-8, high=9, dtype="float32")
    return case(x=x, sums=output(blocks), n=n, grid=blocks, block=block)


agree(sum_by_shuffles, SUM_BY_SHUFFLES, [summing(n) for n in (1, 77, 300, 1000)], rtol=0.0)
for function, by in {sum_by_triton: "Triton", sum_by_torch: "PyTorch"}.items():
    agree(function, SUM_BY_SHUFFLES, [summing(n) for n in (1, 77, 300, 1000)], by=by)
small = SUM_BY_SHUFFLES.on(summing(64, 64))
show(
    stepped(
        small.simulate(trace=Trace()),
        launch=small,
        extent=64,
        start=1,
        title="Five shuffles add up a warp, and the block meets once",
        caption="The sum of 64 numbers in one block of two warps, line by line as the simulator ran it. The value of s is shown for each lane.",
    )
)

# %% fold="The tree, from the lesson on barriers, to compare with"
SUM_BY_TREE = Kernel(r"""
extern "C" __global__
void sum_by_tree(const float* x, float* sums, int n) {
    __shared__ float box[256];
    int t = threadIdx.x;
    int i = blockIdx.x * blockDim.x + t;
    box[t] = i < n ? x[i] : 0.0f;
    __syncthreads();  // every number is in the box
    for (int h = blockDim.x / 2; h > 0; h /= 2) {
        if (t < h) box[t] += box[t + h];
        __syncthreads();  // every sum of this step is in the box
    }
    if (t == 0) sums[blockIdx.x] = box[0];
}
""")
agree(sum_by_shuffles, SUM_BY_TREE, [summing(n) for n in (1, 77, 300, 1000)], rtol=0.0)

# %% fold="Code of the numbers"
BLOCKS_OF_256 = {}
for name, kernel in {"tree": SUM_BY_TREE, "shuffles": SUM_BY_SHUFFLES}.items():
    counts = kernel.on(summing(256)).simulate().counts
    executed = recorded(f"block_sums_by_shuffles.{name}.n_8192.counters.instructions") / (2**13 / 256)
    BLOCKS_OF_256[name] = {
        "meetings": counts.barriers // 8,
        "passes": counts.shared_load.wavefronts + counts.shared_store.wavefronts,
        "executed": executed,
        "issue_us": 2**26 / 256 * executed / 4 / GPU.sms / GPU.boost_mhz,
    }
publish(block=BLOCKS_OF_256)

# %% [markdown]
# Meetings fall from {{ block.tree.meetings }} to {{ block.shuffles.meetings }} and passes over shared
# memory from {{ block.tree.passes }} to {{ block.shuffles.passes }}.
#
# Of these kernels only the H100's hardware counters (Nsight Compute) are recorded. The instructions executed
# fall from {{ block.tree.executed | .0f }} to {{ block.shuffles.executed | .0f }}: all eight warps make five
# shuffles and five additions, whether their upper lanes still matter or not. The compiler unrolls the loops,
# so the simulator's count of \PTX gives no bound here. For 2²⁶ numbers, issuing takes at least
# {{ block.shuffles.issue_us | us }}, and the bytes take {{ block_sums_by_shuffles.shuffles.bound | us }}.
# The tree took {{ block_sums.tree.n_67108864.median | us }}, well above its own {{ block.tree.issue_us | us }}, for
# neither number has any waiting in it.

# %% fold="Code of the measurement"


def torch_row_sums(arrays):
    import torch

    x, sums = (torch.as_tensor(arrays[name], device="cuda") for name in ("x", "sums"))
    return lambda: torch.sum(x.view(-1, 256), dim=1, out=sums)


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
    reasons={"tree": "Lanes that hand over", "shuffles": "Lanes that hand over"},
)

# %% [markdown]
# The tree takes {{ block_sums_by_shuffles.tree.median | us }}, the shuffles
# {{ block_sums_by_shuffles.shuffles.median | us }}, torch.sum {{ block_sums_by_shuffles.torch_sum.median | us }}.
# Neither bytes nor issuing can hold the shuffles up that long.
# What is left is waiting. A warp waits for its one load,
# then for its seven neighbours, and only then does its place go to one that asks for more.

# %% [markdown]
# ## 96 lanes and 100
#
# The tree lost numbers in a block of 96 threads, silently. Shuffles have their own way to go wrong,
# and this one can be caught. The guard `lane < blockDim.x / 32` looks superfluous: a warp has 32 lanes
# and the box 32 places. But 96 threads are three warps, so three places hold a sum, and without the
# guard the first warp adds whatever lies in the other 29.

# %%
NO_GUARD = Kernel(r"""
__device__ float warp_sum(float s) {
    for (int hop = 16; hop > 0; hop /= 2)
        s += __shfl_down_sync(0xffffffff, s, hop);
    return s;
}
extern "C" __global__
void sum_by_shuffles(const float* x, float* sums, int n) {
    __shared__ float box[32];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float s = warp_sum(i < n ? x[i] : 0.0f);
    if (lane == 0) box[warp] = s;
    __syncthreads();
    if (warp > 0) return;
    s = warp_sum(box[lane]);  // hazard: has every place a sum?
    if (lane == 0) sums[blockIdx.x] = s;
}
""")

# %% fold="Code of the checks"
expect_hazard(NO_GUARD.on(summing(96, 96)), "uninitialised", line_with="has every place a sum?")

ninety_six = SUM_BY_SHUFFLES.on(summing(960, 96))
arrays = ninety_six.case.make()
ninety_six.simulate(arrays=arrays)
check(arrays["sums"], arrays["x"].reshape(-1, 96).sum(axis=1), rtol=0.0, name="96 threads, with the guard")

# %% [markdown]
# With its guard the kernel is right for 96 threads. With 100 the fourth warp has four lanes, and the
# mask names 32. Lanes that do not exist never come to the shuffle, so what the others get is undefined,
# and the simulator stops there. Such a block would also lose its fourth warp, since 100 / 32 is 3 in
# whole numbers.[^whole]
#
# [^whole]: So blocks of reductions are made of whole warps, and a lane that has no number brings a
#     zero. A mask made of the lanes that are there, `__activemask()`, is no way out: it says who
#     happens to be at this instruction at the moment, not who will come.

# %% fold="Code of the check"
expect_hazard(SUM_BY_SHUFFLES.on(summing(100, 100)), "shuffle", line_with="__shfl_down_sync")

# %% [markdown]
# ## Add first, meet later
#
# So let a thread add up many numbers before anybody meets: a grid-stride loop, as in
# [Hiding latency](../speed/occupancy.py), with as many blocks as the SMs hold at a time,
# {{ sum_model.blocks | , }} of 256 threads. Each thread then adds up {{ sum_model.each | , }} numbers and
# takes part in one meeting, whose cost hardly matters.

# %% [markdown]
# What is left is to keep the memory busy. Little's law asks for {{ sum_model.flight_kb | .1f }} KB under
# way on each SM. With one load of 4 bytes at a time its {{ sum_model.warps }} warps have
# {{ sum_model.narrow_kb | .1f }} KB, with one of 16 bytes {{ sum_model.one_kb | .0f }} KB, with four of
# those {{ sum_model.four_kb | .0f }} KB, and less whenever a warp adds or turns its loop. So 4 bytes should
# fall short, and 16 should do. The four components of a `float4` are separate sums, so that no
# addition has to wait for the one before it.


# %% fold="The whole text: sums of a thread, a warp, a block and a grid"
FOUR = Kernel(
    r"""
__device__ float warp_sum(float s) {
    for (int hop = 16; hop > 0; hop /= 2)
        s += __shfl_down_sync(0xffffffff, s, hop);
    return s;
}
__device__ float block_sum(float s) {  // in thread 0: the sum of the block
    __shared__ float box[32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    s = warp_sum(s);
    if (lane == 0) box[warp] = s;
    __syncthreads();  // the sums of all warps are in the box
    if (warp > 0) return 0.0f;
    return warp_sum(lane < blockDim.x / 32 ? box[lane] : 0.0f);
}
// [wide
__device__ float thread_sum(const float* x, int n) {
    const float4* wide = (const float4*)x;
    int tile = LOADS * blockDim.x, whole = n / 4 / tile * tile;
    float4 s = {0.0f, 0.0f, 0.0f, 0.0f};  // New: four separate sums
    for (int at = blockIdx.x * tile + threadIdx.x; at < whole;
         at += gridDim.x * tile) {
        float4 v[LOADS];
        #pragma unroll
        for (int k = 0; k < LOADS; ++k)  // New: all loads, then the sums
            v[k] = wide[at + k * blockDim.x];
        #pragma unroll
        for (int k = 0; k < LOADS; ++k) {
            s.x += v[k].x;
            s.y += v[k].y;
            s.z += v[k].z;
            s.w += v[k].w;
        }
    }
    int me = blockIdx.x * blockDim.x + threadIdx.x;  // what fills no tile
    for (int i = 4 * whole + me; i < n; i += gridDim.x * blockDim.x)
        s.x += x[i];
    return (s.x + s.y) + (s.z + s.w);
}
// wide]
extern "C" __global__
void sum_wide(const float* x, float* sums, int n) {
    float s = block_sum(thread_sum(x, n));
    if (threadIdx.x == 0) sums[blockIdx.x] = s;
}
extern "C" __global__
void add_up(const float* sums, float* total, int blocks) {
    float s = 0.0f;
    for (int b = threadIdx.x; b < blocks; b += blockDim.x) s += sums[b];
    s = block_sum(s);
    if (threadIdx.x == 0) *total = s;
}
// [last
__device__ unsigned arrived = 0;  // blocks that are done
extern "C" __global__
void sum_at_once(const float* x, float* sums, float* total, int n) {
    __shared__ bool last;
    float s = block_sum(thread_sum(x, n));
    if (threadIdx.x == 0) {
        sums[blockIdx.x] = s;
        __threadfence();  // the sum is in place before its arrival counts
        last = atomicInc(&arrived, gridDim.x - 1) == gridDim.x - 1;
    }
    __syncthreads();  // everybody knows whether this block is the last
    if (!last) return;
    __threadfence();  // and reads what the others wrote, not an old copy
    s = 0.0f;
    for (int b = threadIdx.x; b < gridDim.x; b += blockDim.x)
        s += __ldcg(sums + b);
    s = block_sum(s);
    if (threadIdx.x == 0) *total = s;
}
// last]
""",
    "sum_wide",
    defines={"LOADS": 4},
)


# %% title="Pseudocode"
def sum_wide(x, sums):
    blocks = len(sums)
    sums[:] = 0.0
    for at, tile in enumerate(tiles(len(x), 4 * 4 * 256)):
        if len(tile) == 4 * 4 * 256:
            sums[at % blocks] += sum(x[i] for i in tile)
        else:
            for piece, rest in enumerate(tiles(len(tile), 256)):
                sums[piece % blocks] += sum(x[tile[i]] for i in rest)


# %%
FOUR.region("wide")

# %% fold="The same with one load and with sixteen, and with 4 bytes a load"
ONE = Kernel(FOUR.source, "sum_wide", defines={"LOADS": 1})
SIXTEEN = Kernel(FOUR.source, "sum_wide", defines={"LOADS": 16})
ADD_UP = FOUR.named("add_up")
AT_ONCE = FOUR.named("sum_at_once")
SIXTEEN_AT_ONCE = SIXTEEN.named("sum_at_once")

NARROW = Kernel(r"""
__device__ float warp_sum(float s) {
    for (int hop = 16; hop > 0; hop /= 2)
        s += __shfl_down_sync(0xffffffff, s, hop);
    return s;
}
extern "C" __global__
void sum_narrow(const float* x, float* sums, int n) {
    __shared__ float box[32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float s = 0.0f;
    #pragma unroll 1  // one load, then its sum, then the next load
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n;
         i += gridDim.x * blockDim.x)
        s += x[i];
    s = warp_sum(s);
    if (lane == 0) box[warp] = s;
    __syncthreads();  // the sums of all warps are in the box
    if (warp > 0) return;
    s = warp_sum(lane < blockDim.x / 32 ? box[lane] : 0.0f);
    if (lane == 0) sums[blockIdx.x] = s;
}
""")

# %% [markdown]
# That leaves one sum for each block, and blocks cannot meet at a barrier. A second launch of one block
# can add up the blocks' sums. Or the block that comes last does it: each block counts itself in with
# an atomic, and whoever sees that all the others have been there goes on. No block waits for another,
# so it does not matter which of them are on the chip.

# %%
AT_ONCE.region("last")

# %% [markdown]
# Two fences keep it right.[^fence] Without the first, the count may be seen to rise before the sum is
# in place, and the last block adds up what was in memory before. The counter wraps to zero by itself,
# `atomicInc` does that, and is ready for the next launch.
#
# [^fence]: `__threadfence()` orders what its thread wrote before it and what it writes after, for all
#     threads of the device. The simulator runs one block after another, so it cannot show what goes
#     wrong without.
#
# ??? definition "Memory fence | fences"
#     An instruction that puts what a thread wrote before it in place, for all who see anything that
#     the thread writes after it.


# %% fold="Code of the checks"
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
agree(sum_wide, FOUR, [adding_up(n, 3) for n in RAGGED], rtol=0.0)
agree(sum_at_once, AT_ONCE, [adding_up(n, 3) for n in RAGGED], rtol=0.0)


def in_two(kernel, blocks=BLOCKS, inputs=adding_up):
    """A launch that leaves a sum for each block, and one that adds those up."""

    def launches(n):
        given = inputs(n, blocks(n) if callable(blocks) else blocks)
        return [kernel.on(given), ADD_UP.on(given, grid=1, block=1024)]

    return launches


for kernel in (NARROW, ONE, FOUR, SIXTEEN):
    for n in RAGGED:
        first, second = in_two(kernel, 5)(n)
        arrays = first.case.make()
        first.simulate(arrays=arrays)
        second.simulate(arrays=arrays)
        assert arrays["total"][0] == arrays["x"].sum(), f"{kernel.name}, {n} numbers: {arrays['total'][0]:g}"

# %% fold="Code of the model"
from tilewise.kernel.nvrtc import available, compile_kernel
from tilewise.models.occupancy import LIMITS

LATENCY_NS = (
    1000
    * recorded("pointer_chase.one_thread_one_load_after_another.kilobytes_1048576_loads_65536.median")
    / 65_536
)
WARPS = LIMITS[9, 0].threads // 32
publish(
    sum_model={
        "blocks": BLOCKS,
        "each": MANY // (BLOCKS * 256),
        "warps": WARPS,
        "flight_kb": bytes_in_flight(GPU.memory_gb_per_s, LATENCY_NS) / GPU.sms / 1000,
        "one_kb": WARPS * 32 * 16 / 1000,
        "four_kb": 4 * WARPS * 32 * 16 / 1000,
        "narrow_kb": WARPS * 32 * 4 / 1000,
        "landing": 16 * 4,
        "registers": compile_kernel(SIXTEEN, ["sm_90"])[0].registers if available() is None else np.nan,
    }
)

# %% [markdown]
# CUB is NVIDIA's library of such building blocks, called here through CuPy. All contenders have to give
# the same sum to the last digit, for the numbers are whole. Some variants ought to make no difference:
# half as many blocks, a block for every tile in place of a loop over tiles, sixteen loads at once. Those
# would need {{ sum_model.landing }} registers to land in; the compiler gives a
# thread {{ sum_model.registers | .0f }} in all, so it cannot have all of them under way.

# %% fold="Code of the measurement"


def torch_sum(arrays):
    import torch

    x = torch.as_tensor(arrays["x"], device="cuda")
    return lambda: torch.sum(x)


def cub_sum(arrays):
    """CuPy's sum by way of CUB, whatever the environment chose, and the choice put back."""
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
        "4 bytes a load": in_two(NARROW),
        "16 bytes a load": in_two(ONE),
        "four loads at once": in_two(FOUR),
        "four at once, half the blocks": in_two(FOUR, BLOCKS // 2),
        "four at once, a block a tile": in_two(FOUR, tiles_of(4)),
        "sixteen, a block a tile": in_two(SIXTEEN, tiles_of(16)),
        "four at once, the last block finishes": lambda n: AT_ONCE.on(adding_up(n)),
        "sixteen, a block a tile, the last finishes": lambda n: SIXTEEN_AT_ONCE.on(
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

# %% fold="Code of the figure"
sum_us = medians_us(the_sums)
sum_rate = {label: 4 * MANY / us / 1e3 for label, us in sum_us.items()}
show(
    bars(
        sum_rate,
        x="numbers read [GB/s]",
        form=",.0f",
        title="Four wide loads at once, in a loop over tiles, make a sum as fast as the faster library",
        caption=f"Sums of {MANY:,} numbers recorded on an {{machine}}, as the bytes read in a second.",
    )
)
best = min((row["variant"] for row in the_sums.rows if row["role"] == "variant"), key=sum_us.get)
publish(
    sum_seen={
        "best_us": sum_us[best],
        "times_least": sum_us[best] / bound(stated(GPU), bytes_moved=4 * MANY).time_us,
        "tiles_less": 1 - sum_rate["four at once, a block a tile"] / sum_rate["four loads at once"],
        "many_blocks": ceil_div(MANY, 4 * 16 * 256),
        "of_cub": sum_rate[best] / recorded("sums.cub_through_cupy_sum.gb_per_s"),
        "of_stated": sum_rate[best] / GPU.memory_gb_per_s,
        "of_read": sum_rate[best] / recorded("sums.ceilings.probes.read_gb_per_s"),
    }
)
if sum_us[best] > 0:
    fastest = max(recorded("sums.torch_sum.gb_per_s"), recorded("sums.cub_through_cupy_sum.gb_per_s"))
    assert sum_rate["four loads at once"] > 0.99 * fastest, "the title says: as fast as the faster library"

# %% [markdown]
# With 4 bytes a load the sum reads {{ sums._4_bytes_a_load.gb_per_s | ,.0f }} GB/s, with 16 bytes
# {{ sums._16_bytes_a_load.gb_per_s | ,.0f }}, with four such loads at once
# {{ sums.four_loads_at_once.gb_per_s | ,.0f }}: the wide load does most of it. Half the blocks change next to nothing
# ({{ sums.four_at_once_half_the_blocks.gb_per_s | ,.0f }}), but a block for every
# tile costs {{ sum_seen.tiles_less | .0% }}, and tiles of sixteen loads win only a part of that back.
# With a block a tile every tile has its meeting again.

# %% [markdown]
# Whether a second launch or the last block finishes makes no difference
# ({{ sums.four_at_once_the_last_block_finishes.gb_per_s | ,.0f }}), except where that block has
# {{ sum_seen.many_blocks | , }} sums to add up by itself. torch.sum reads {{ sums.torch_sum.gb_per_s | ,.0f }} GB/s
# and CUB {{ sums.cub_through_cupy_sum.gb_per_s | ,.0f }}, so the best sum here reaches
# {{ sum_seen.of_cub | .1% }} of CUB's rate. That is {{ sum_seen.of_stated | .0% }} of the memory's peak
# (data sheet), and {{ sum_seen.of_read | .0% }} of the fastest read that was recorded.

# %% [markdown]
# ## In which order
#
# Whole numbers hide that other sums are rounded at every addition: the order decides the last digits,
# and the more additions in a row, the more rounding. One running sum has {{ order.serial | , }} in a
# row, `sum_wide` no more than {{ order.wide | , }}.[^chain] For comparison: {{ order.numbers | , }} numbers
# between 0 and 1, both ways and in 64 bits.
#
# [^chain]: In its thread's separate sum, where the four are put together, over the lanes, over the
#     warps, and in the second launch, with the grid of {{ sum_model.blocks | , }} blocks.

# %% fold="Code of the two sums"
few = {"x": uniform(2**18), "sums": output(8), "total": output(1), "blocks": 8}
few = case(**few, n=2**18, grid=8, block=256)
arrays = few.make()
FOUR.on(few).simulate(arrays=arrays)
ADD_UP.on(few, grid=1, block=1024).simulate(arrays=arrays)
right = arrays["x"].sum(dtype=np.float64)
serial = np.cumsum(arrays["x"])[-1]  # one running sum in 32 bits

errors = {"serial": abs(serial - right) / right, "wide": abs(arrays["total"][0] - right) / right}
publish(
    order={
        "numbers": len(arrays["x"]),
        "serial": MANY,
        "wide": MANY // (BLOCKS * 256 * 4) + 2 + 5 + 5 + ceil_div(BLOCKS, 1024) + 10,
        "serial_error": errors["serial"],
        "wide_error": errors["wide"],
    }
)

# %% [markdown]
# The running sum is off by {{ order.serial_error | .1e }} of its value, `sum_wide` by
# {{ order.wide_error | .1e }}. Is the sum the same in each launch? Here every number has its place,
# whichever block comes first. If each warp adds its sum to the total by an atomic, the order is that
# of arrival.

# %%
BY_ARRIVAL = Kernel(r"""
extern "C" __global__
void sum_by_arrival(const float* x, float* total, int n) {
    float s = 0.0f;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n;
         i += gridDim.x * blockDim.x)
        s += x[i];
    for (int hop = 16; hop > 0; hop /= 2)
        s += __shfl_down_sync(0xffffffff, s, hop);
    if (threadIdx.x % 32 == 0) atomicAdd(total, s);  // in whatever order
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
import re

from tilewise.measurements import text_record

said = text_record("memory/reductions", "orders")
COUNTED = re.findall(r"(\S.*): (\d+) different sums", said.text if said else "")
publish(orders={name.replace(" ", "_"): int(many) for name, many in COUNTED})

# %% [markdown]
# In 20 runs over the same {{ task.numbers | , }} numbers two launches gave {{ orders.two_launches }} sum,
# the last block {{ orders.the_last_block_finishes }}, and the order of arrival {{ orders.by_arrival }}
# different ones.

# %% [markdown]
# ## Everybody to one place
#
# How much does it cost that many add to one place? They take turns there; that is contention. Four
# kernels add up {{ tallied.numbers | , }} numbers: every thread adds its number to the total; the same
# with integers; every lane has a place of its own; and one lane for a warp, after shuffles. By the
# count of atomics the first two should take equally long, and the last a 32nd of that. In which of the
# four does the compiler have a hand?
#
# ??? definition "Contention"
#     Many threads that want to change the same place at the same time, so that they have to take
#     turns.

# %% fold="The four kernels, and code of the checks"
FLOATS = Kernel(
    r"""
extern "C" __global__
void tally_floats(const float* x, float* total, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(total, x[i]);
}
extern "C" __global__
void tally_integers(const int* whole, int* count, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(count, whole[i]);
}
extern "C" __global__
void tally_by_lanes(const float* x, float* places, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&places[i % 32], x[i]);
}
extern "C" __global__
void tally_by_warps(const float* x, float* total, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float s = i < n ? x[i] : 0.0f;
    for (int hop = 16; hop > 0; hop /= 2)
        s += __shfl_down_sync(0xffffffff, s, hop);
    if (threadIdx.x % 32 == 0) atomicAdd(total, s);
}
""",
    "tally_floats",
)


def tallying(n):
    return case(
        x=integers(n, low=-8, high=9, dtype="float32", seed=11),
        whole=integers(n, low=-8, high=9, dtype="int32", seed=11),
        total=constant(1, value=0),
        count=constant(1, value=0, dtype="int32"),
        places=constant(32, value=0),
        n=n,
        grid=ceil_div(n, 256),
        block=256,
    )


def tally_floats(x, total):
    for i in parallel(len(x)):
        total[0] += x[i]


def tally_integers(whole, count):
    for i in parallel(len(whole)):
        count[0] += whole[i]


def tally_by_lanes(x, places):
    for i in parallel(len(x)):
        places[i % 32] += x[i]


INTEGERS, BY_LANES, BY_WARPS = (FLOATS.named(f"tally_{how}") for how in ("integers", "by_lanes", "by_warps"))
some = [tallying(n) for n in (77, 1000)]
agree(tally_floats, FLOATS, some, rtol=0.0)
agree(tally_integers, INTEGERS, some, rtol=0.0)
agree(tally_by_lanes, BY_LANES, some, rtol=0.0)
agree(tally_floats, BY_WARPS, some, rtol=0.0)
agree(tally_floats, BY_ARRIVAL, some, rtol=0.0)

# %% fold="Code of the measurement"
TALLIED = 2**22


def tallied_right(x, whole):
    return {
        "total": x.sum(keepdims=True),
        "count": whole.sum(keepdims=True),
        "places": x.reshape(-1, 32).sum(axis=0),
    }


tallies = measure(
    "contention",
    variants={
        "floats, every thread": lambda n: FLOATS.on(tallying(n)),
        "integers, every thread": lambda n: INTEGERS.on(tallying(n)),
        "floats, a place for each lane": lambda n: BY_LANES.on(tallying(n)),
        "floats, one lane for a warp": lambda n: BY_WARPS.on(tallying(n)),
    },
    cases=[{"n": TALLIED}],
    count_case={"n": 2**13},
    bytes=lambda n: 4 * n,
    flop=lambda n: n,
    reference=tallied_right,
    tolerance=0.0,
    counts=("instructions",),
    reasons={"*": "Everybody to one place"},
    guess=Guess(
        "How many times as fast are integers as floats, every thread with an atomic of its own?",
        of="integers, every thread",
        over="floats, every thread",
        at={"n": TALLIED},
        between=(0.1, 100),
        models={"as many atomics": 1.0, "one atomic for a warp": 32.0},
        because="A compiler may add up a warp's integers first, for their order cannot be seen; and one atomic on an integer is sooner done than one on a float.",
    ),
)

# %% fold="Code of the numbers"
tally_us = medians_us(tallies)
issued = {row["variant"]: (row["counted"] or {}).get("instructions", np.nan) / 256 for row in tallies.rows}
publish(
    tallied={
        "numbers": TALLIED,
        "each_ns": 1000 * tally_us["floats, every thread"] / TALLIED,
        "warp_ns": 1000 * tally_us["floats, one lane for a warp"] / (TALLIED / 32),
        "integer_ns": 1000 * tally_us["integers, every thread"] / (TALLIED / 32),
        "warps_times": tally_us["floats, every thread"] / tally_us["floats, one lane for a warp"],
        "float_issued": issued["floats, every thread"],
        "integer_issued": issued["integers, every thread"],
    }
)

# %% [markdown]
# Floats from every thread take {{ contention.floats_every_thread.median | us }},
# {{ tallied.each_ns | .2f }} ns an addition, and one lane for a warp
# {{ contention.floats_one_lane_for_a_warp.median | us }}, {{ tallied.warps_times | .1f }} times less, as the
# count has it. With own places, {{ contention.floats_a_place_for_each_lane.median | us }}, the lanes of a warp hardly
# wait for each other. Integers take {{ contention.integers_every_thread.median | us }}, less than either model says.
#
# By the H100's counters integers have {{ tallied.integer_issued | .0f }} instructions a warp where floats have
# {{ tallied.float_issued | .0f }}: the compiler adds up the warp first, as it may, for the order of
# integers cannot be seen. The one atomic left for a warp takes {{ tallied.integer_ns | .2f }} ns in place
# of {{ tallied.warp_ns | .2f }}.

# %% [markdown]
# ## The dot product
#
# The sum of products of two arrays is the same kernel with two loads in place of one.


# %% fold="The whole kernel"
DOT_TWO = Kernel(
    r"""
__device__ float warp_sum(float s) {
    for (int hop = 16; hop > 0; hop /= 2)
        s += __shfl_down_sync(0xffffffff, s, hop);
    return s;
}
extern "C" __global__
void dot_wide(const float* x, const float* y, float* sums, int n) {
    __shared__ float box[32];
    const float4 *wide_x = (const float4*)x, *wide_y = (const float4*)y;
    int tile = LOADS * blockDim.x, whole = n / 4 / tile * tile;
    float4 s = {0.0f, 0.0f, 0.0f, 0.0f};
    // [wide
    for (int at = blockIdx.x * tile + threadIdx.x; at < whole;
         at += gridDim.x * tile) {
        float4 u[LOADS], v[LOADS];
        #pragma unroll
        for (int k = 0; k < LOADS; ++k) {
            u[k] = wide_x[at + k * blockDim.x];
            v[k] = wide_y[at + k * blockDim.x];  // New: of both
        }
        #pragma unroll
        for (int k = 0; k < LOADS; ++k) {
            s.x += u[k].x * v[k].x;
            s.y += u[k].y * v[k].y;
            s.z += u[k].z * v[k].z;
            s.w += u[k].w * v[k].w;
        }
    }
    int me = blockIdx.x * blockDim.x + threadIdx.x;
    for (int i = 4 * whole + me; i < n; i += gridDim.x * blockDim.x)
        s.x += x[i] * y[i];
    // wide]
    float mine = warp_sum((s.x + s.y) + (s.z + s.w));
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    if (lane == 0) box[warp] = mine;
    __syncthreads();  // the sums of all warps are in the box
    if (warp > 0) return;
    mine = warp_sum(lane < blockDim.x / 32 ? box[lane] : 0.0f);
    if (lane == 0) sums[blockIdx.x] = mine;
}
""",
    defines={"LOADS": 2},
)


# %%
DOT_TWO.region("wide")


# %% fold="Code of the checks"
def dotting(n, blocks=BLOCKS, block=256):
    return case(
        x=integers(n, low=-4, high=5, dtype="float32"),
        y=integers(n, low=-4, high=5, dtype="float32"),
        sums=output(blocks),
        total=output(1),
        blocks=blocks,
        n=n,
        grid=blocks,
        block=block,
    )


DOT_ONE, DOT_FOUR = (Kernel(DOT_TWO.source, defines={"LOADS": loads}) for loads in (1, 4))


def dot_wide(x, y, sums):
    blocks = len(sums)
    sums[:] = 0.0
    for at, tile in enumerate(tiles(len(x), 4 * 2 * 256)):
        if len(tile) == 4 * 2 * 256:
            sums[at % blocks] += sum(x[i] * y[i] for i in tile)
        else:
            for piece, rest in enumerate(tiles(len(tile), 256)):
                sums[piece % blocks] += sum(x[tile[i]] * y[tile[i]] for i in rest)


agree(dot_wide, DOT_TWO, [dotting(n, 3) for n in RAGGED], rtol=0.0)


# %% fold="Code of the measurement"
def torch_dot(arrays):
    import torch

    x, y = (torch.as_tensor(arrays[name], device="cuda") for name in "xy")
    return lambda: torch.dot(x, y)


dots = measure(
    "dots",
    variants={
        "one pair of loads": in_two(DOT_ONE, inputs=dotting),
        "two pairs at once": in_two(DOT_TWO, inputs=dotting),
        "four pairs at once": in_two(DOT_FOUR, inputs=dotting),
        "two pairs, a block a tile": in_two(DOT_TWO, tiles_of(2), dotting),
    },
    cases=[{"n": MANY // 2}],
    count_case={"n": 2**17},
    bytes=lambda n: 8 * n,
    flop=lambda n: 2 * n,
    library={"torch.dot": torch_dot},
    reference=lambda x, y: {"total": np.array([x @ y])},
    tolerance=0.0,
)

# %% [markdown]
# For two arrays of half as many numbers, as many bytes as the sum had, two pairs of loads
# at once read {{ dots.two_pairs_at_once.gb_per_s | ,.0f }} GB/s, one pair
# {{ dots.one_pair_of_loads.gb_per_s | ,.0f }}, four {{ dots.four_pairs_at_once.gb_per_s | ,.0f }}, and torch.dot
# {{ dots.torch_dot.gb_per_s | ,.0f }}. A block a tile costs as much as in
# the sum.

# %% [markdown]
# ## Kernel 4
#
# The softmax of Kernel 3 of attention has one thread for each of {{ fourth.rows | , }} rows, which is
# {{ fourth.warps_per_sm | .2f }} warps for an SM, and each of them makes
# {{ fourth.column_passes | , }} passes one after the other. And for that $Q$, $S$ and $P$ lie turned.
# Where a whole block reduces a row, its lanes stand along the row, and $S$ and $P$ can lie as they do in
# the formula. Only $K$ is turned, by the padded tile.

# %% [markdown]
# Softmax needs two reductions a row, a maximum and a sum, and every thread needs both results.
# `__shfl_xor_sync` gives that: lane `t` exchanges with lane `t ^ hop`, both add, and after five steps
# all 32 lanes have the same. Each warp then adds up the box for itself, without a barrier.


# %% tab="Pseudocode"
def softmax_by_blocks(S, P):
    for i in parallel(len(S)):
        # [maximum
        m = S[i].max()
        # maximum]
        # [sum
        z = np.exp(S[i] - m).sum()
        # sum]
        # [weights
        P[i] = np.exp(S[i] - m) / z
        # weights]


# %% tab="CUDA C"
SOFTMAX_BY_BLOCKS = Kernel(r"""
__device__ float warp_max(float m) {
    for (int hop = 16; hop > 0; hop /= 2)
        m = fmaxf(m, __shfl_xor_sync(0xffffffff, m, hop));  // New: xor
    return m;  // in every lane
}
__device__ float warp_sum(float z) {
    for (int hop = 16; hop > 0; hop /= 2)
        z += __shfl_xor_sync(0xffffffff, z, hop);
    return z;
}
extern "C" __global__
void softmax_by_blocks(const float* S, float* P, int N) {
    __shared__ float maxima[32], sums[32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int t = threadIdx.x, warps = blockDim.x / 32;
    const float* row = S + blockIdx.x * N;  // New: a block a row
    // [maximum
    float m = -INFINITY, z = 0.0f;
    for (int j = t; j < N; j += blockDim.x) m = fmaxf(m, row[j]);
    m = warp_max(m);
    if (lane == 0) maxima[warp] = m;
    __syncthreads();  // the maxima of all warps are in their box
    m = warp_max(lane < warps ? maxima[lane] : -INFINITY);
    // maximum]
    // [sum
    for (int j = t; j < N; j += blockDim.x) z += expf(row[j] - m);
    z = warp_sum(z);
    if (lane == 0) sums[warp] = z;
    __syncthreads();  // the sums of all warps are in theirs
    z = warp_sum(lane < warps ? sums[lane] : 0.0f);
    // sum]
    // [weights
    for (int j = t; j < N; j += blockDim.x)
        P[blockIdx.x * N + j] = expf(row[j] - m) / z;
    // weights]
}
""")

# %% [markdown]
# There are two boxes, one for each reduction. With one box for both, a fast warp could put its sum
# where a slow warp has not read the maximum yet, for no barrier stands between the two. The simulator
# finds it.

# %% fold="The kernel with one box, and the check that it is caught"
ONE_BOX = Kernel(r"""
__device__ float warp_max(float m) {
    for (int hop = 16; hop > 0; hop /= 2)
        m = fmaxf(m, __shfl_xor_sync(0xffffffff, m, hop));
    return m;
}
__device__ float warp_sum(float z) {
    for (int hop = 16; hop > 0; hop /= 2)
        z += __shfl_xor_sync(0xffffffff, z, hop);
    return z;
}
extern "C" __global__
void softmax_by_blocks(const float* S, float* P, int N) {
    __shared__ float box[32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int t = threadIdx.x, warps = blockDim.x / 32;
    const float* row = S + blockIdx.x * N;
    float m = -INFINITY, z = 0.0f;
    for (int j = t; j < N; j += blockDim.x) m = fmaxf(m, row[j]);
    m = warp_max(m);
    if (lane == 0) box[warp] = m;
    __syncthreads();
    m = warp_max(lane < warps ? box[lane] : -INFINITY);
    for (int j = t; j < N; j += blockDim.x) z += expf(row[j] - m);
    z = warp_sum(z);
    if (lane == 0) box[warp] = z;  // hazard: has everybody read the maxima?
    __syncthreads();
    z = warp_sum(lane < warps ? box[lane] : 0.0f);
    for (int j = t; j < N; j += blockDim.x)
        P[blockIdx.x * N + j] = expf(row[j] - m) / z;
}
""")
expect_hazard(
    ONE_BOX.on(case(S=normal(3, 300), P=output(3, 300), N=300, grid=3, block=64)),
    "race",
    line_with="has everybody read the maxima?",
)

# %% [markdown]
# The weighted sum has a chain of {{ fourth.rows | , }} passes, one for each key, and half of the
# threads that the chip has room for. Let eight warps of a block take every eighth key each, for the same
# 32 columns; their partial sums meet in shared memory, where 32 neighbouring words are 32 banks.


# %% tab="Pseudocode"
def weighted_sum_shared(P, V, O):
    N, d = V.shape
    for i, c in parallel(N, d):
        # [share
        box = [P[i, w::8] @ V[w::8, c] for w in parallel(8)]
        # share]
        O[i, c] = sum(box)


# %% tab="CUDA C"
WEIGHTED_SUM_SHARED = Kernel(r"""
extern "C" __global__
void weighted_sum_shared(const float* P, const float* V, float* O,
                         int N, int d) {
    __shared__ float box[8][32];
    int x = threadIdx.x, w = threadIdx.y;
    int c = blockIdx.x * 32 + x, i = blockIdx.y;
    // [share
    float o = 0.0f;
    for (int j = w; j < N && c < d; j += 8)  // New: every eighth key
        o += P[i * N + j] * V[j * d + c];
    box[w][x] = o;
    // share]
    __syncthreads();  // all eight partial sums are in the box
    if (w > 0 || c >= d) return;
    for (int k = 1; k < 8; ++k) o += box[k][x];
    O[i * d + c] = o;
}
""")

# %% fold="The scores, with K turned in place of Q; softmax by a warp a row; the launches; the checks"
SCORES_ALONG = Kernel(r"""
extern "C" __global__
void scores_along(const float* Q, const float* KT, float* S,
                  int N, int d, float scale) {
    int j = blockIdx.x * blockDim.x + threadIdx.x;  // New: lanes along j
    int i = blockIdx.y * blockDim.y + threadIdx.y;
    if (i >= N || j >= N) return;
    float s = 0.0f;
    for (int k = 0; k < d; ++k) s += Q[i * d + k] * KT[k * N + j];
    S[i * N + j] = s * scale;
}
""")

SOFTMAX_BY_WARPS = Kernel(r"""
extern "C" __global__
void softmax_by_warps(const float* S, float* P, int N) {
    int lane = threadIdx.x % 32;
    int i = (blockIdx.x * blockDim.x + threadIdx.x) / 32;  // New: a warp a row
    if (i >= N) return;
    const float* row = S + i * N;
    float m = -INFINITY, z = 0.0f;
    for (int j = lane; j < N; j += 32) m = fmaxf(m, row[j]);
    for (int hop = 16; hop > 0; hop /= 2)
        m = fmaxf(m, __shfl_xor_sync(0xffffffff, m, hop));
    for (int j = lane; j < N; j += 32) z += expf(row[j] - m);
    for (int hop = 16; hop > 0; hop /= 2)
        z += __shfl_xor_sync(0xffffffff, z, hop);
    for (int j = lane; j < N; j += 32) P[i * N + j] = expf(row[j] - m) / z;
}
""")

TURN_KEYS = Kernel(r"""
extern "C" __global__
void turn_keys(const float* K, float* KT, int N, int d) {
    __shared__ float box[32][33];
    int left = 32 * blockIdx.x, top = 32 * blockIdx.y, x = threadIdx.x;
    #pragma unroll
    for (int y = threadIdx.y; y < 32; y += 8)
        if (top + y < N && left + x < d)
            box[y][x] = K[(top + y) * d + left + x];
    __syncthreads();  // the tile is there
    #pragma unroll
    for (int y = threadIdx.y; y < 32; y += 8)
        if (left + y < d && top + x < N)
            KT[(left + y) * N + top + x] = box[x][y];
}
""")


def attention(N, d):
    inputs = {"Q": normal(N, d), "K": normal(N, d), "V": normal(N, d)}
    between = {"KT": output(d, N), "S": output(N, N), "P": output(N, N)}
    return case(**inputs, **between, O=output(N, d), N=N, d=d, scale=d**-0.5, grid=1, block=1)


def kernel_4(inputs, by="blocks"):
    """The four launches of Kernel 4, in the order in which the stream runs them."""
    N, d = inputs.values["N"], inputs.values["d"]
    softmax = {
        "blocks": SOFTMAX_BY_BLOCKS.on(inputs, grid=N, block=256),
        "warps": SOFTMAX_BY_WARPS.on(inputs, grid=ceil_div(N, 4), block=128),
    }[by]
    return [
        TURN_KEYS.on(inputs, grid=(ceil_div(d, 32), ceil_div(N, 32)), block=(32, 8)),
        SCORES_ALONG.on(inputs, grid=(ceil_div(N, 32), ceil_div(N, 8)), block=(32, 8)),
        softmax,
        WEIGHTED_SUM_SHARED.on(inputs, grid=(ceil_div(d, 32), N), block=(32, 8)),
    ]


def turn_keys(K, KT):
    N, d = K.shape
    for j, k in parallel(N, d):
        KT[k, j] = K[j, k]


def scores_along(Q, KT, S, scale):
    d, N = KT.shape
    for i, j in parallel(N, N):
        s = 0.0
        for k in range(d):
            s += Q[i, k] * KT[k, j]
        S[i, j] = s * scale


def part(which, N, d):
    square, V = normal(N, N, scale=3.0), normal(N, d)
    return {
        "turn": case(K=V, KT=output(d, N), N=N, d=d, grid=(ceil_div(d, 32), ceil_div(N, 32)), block=(32, 8)),
        "scores": case(
            Q=V,
            KT=normal(d, N),
            S=output(N, N),
            N=N,
            d=d,
            scale=d**-0.5,
            grid=(ceil_div(N, 8), ceil_div(N, 4)),
            block=(8, 4),
        ),
        "blocks": case(S=square, P=output(N, N), N=N, grid=N, block=64),
        "warps": case(S=square, P=output(N, N), N=N, grid=ceil_div(N, 2), block=64),
        "sum": case(P=square, V=V, O=output(N, d), N=N, d=d, grid=(ceil_div(d, 32), N), block=(32, 8)),
    }[which]


near = {"rtol": 1e-5, "atol": 1e-5}
steep = normal(21, 21, scale=90.0)
agree(turn_keys, TURN_KEYS, [part("turn", *size) for size in ((5, 3), (77, 50))], rtol=0.0)
agree(scores_along, SCORES_ALONG, [part("scores", *size) for size in ((5, 3), (21, 13))], **near)
for kernel, which, grid in ((SOFTMAX_BY_BLOCKS, "blocks", 21), (SOFTMAX_BY_WARPS, "warps", 11)):
    cases = [part(which, N, 1) for N in (5, 21, 77)]
    cases.append(case(S=steep, P=output(21, 21), N=21, grid=grid, block=64))
    agree(softmax_by_blocks, kernel, cases, **near)
agree(weighted_sum_shared, WEIGHTED_SUM_SHARED, [part("sum", *size) for size in ((5, 3), (21, 50))], **near)

# %% [markdown]
# The prediction takes Kernel 3's recorded steps. The scores are as they were: {{ fourth.scores_us | us }}.
# The weighted sum has as many requests, sectors and threads as the scores now, so it should take as long,
# in place of {{ fourth.sum_us | us }}. And softmax, with {{ fourth.block_passes }} passes in place of
# {{ fourth.column_passes | , }}, should be a matter of its bytes: $S$ in and $P$ out,
# {{ fourth.softmax_us | .1f }} µs in place of {{ fourth.columns_us | us }}. That makes
# {{ fourth.expected_us | us }} in place of {{ fourth.before_us | us }}.

# %% fold="Code of the prediction"
STEPS = ("turn", "scores", "softmax", "sum")


def touched_by(N, d):
    """Sectors that each launch touches, for N and d that are multiples of 32."""
    warps = N * N // 32
    return {
        "turn": N * d // 32 * (4 + 4),
        "scores": warps * (d * 5 + 4),
        "softmax": warps * 4 * 4,
        "sum": N * (d // 32) * (N * 5 + 4),
    }


for N, d in ((32, 32), (64, 32), (64, 96)):
    sectors, arrays = [], attention(N, d).make()
    for launch in kernel_4(attention(N, d)):
        counts = launch.simulate(arrays=arrays).counts
        sectors.append(counts.global_load.sectors + counts.global_store.sectors)
    check(sectors, list(touched_by(N, d).values()), name=f"sectors of Kernel 4, N = {N}, d = {d}")

until = [
    recorded(f"attention_coalesced_steps.{name}.median")
    for name in ("turn", "turn_scores", "turn_scores_softmax", "turn_scores_softmax_sum")
]
third_us = dict(zip(STEPS, np.diff([0.0, *until]), strict=True))
ROWS = 1024
softmax_us = bound(stated(GPU), bytes_moved=2 * 4 * ROWS * ROWS).time_us
expected_us = third_us["turn"] + 2 * third_us["scores"] + softmax_us
publish(
    fourth={
        "rows": ROWS,
        "warps_per_sm": ROWS / 32 / GPU.sms,
        "column_passes": 3 * ROWS,
        "block_passes": 3 * ROWS // 256,
        "scores_us": third_us["scores"],
        "sum_us": third_us["sum"],
        "columns_us": third_us["softmax"],
        "softmax_us": softmax_us,
        "expected_us": expected_us,
        "requests_us": 2 * 2 * ROWS * ROWS * 128 / 32 / GPU.sms / GPU.boost_mhz,
        "before_us": until[-1],
    }
)

# %% fold="Code of the measurement"


def torch_three_operations(arrays):
    """What a reader would write in eager mode: two products and a softmax."""
    import torch

    Q, K, V, O = (torch.as_tensor(arrays[name], device="cuda") for name in "QKVO")
    S = torch.empty(len(Q), len(Q), device="cuda")
    P = torch.empty_like(S)
    scale = float(arrays["scale"])

    def run():
        torch.addmm(S, Q, K.T, beta=0.0, alpha=scale, out=S)
        torch.softmax(S, dim=-1, out=P)
        torch.mm(P, V, out=O)

    return run


def attended(Q, K, V, scale):
    """Every array that the launches write, in 64-bit floats."""
    S = scale * Q @ K.T
    P = np.exp(S - S.max(axis=1, keepdims=True))
    P /= P.sum(axis=1, keepdims=True)
    return {"KT": K.T, "S": S, "P": P, "O": P @ V}


fourth = measure(
    "attention_reduced",
    variants={
        "Kernel 4: reduced by blocks": lambda N, d: kernel_4(attention(N, d)),
        "softmax by a warp a row": lambda N, d: kernel_4(attention(N, d), "warps"),
    },
    cases=[{"N": 256, "d": 128}, {"N": 1024, "d": 128}],
    count_case={"N": 64, "d": 32},
    bytes=lambda N, d: 4 * 4 * N * d,
    flop=lambda N, d: 4 * N * N * d,
    library={"torch, three operations": torch_three_operations},
    reference=attended,
    tolerance=1e-4,
    counts=("sectors", "wavefronts"),
    reasons={"*": "Kernel 4"},
)

steps = measure(
    "attention_reduced_steps",
    variants={
        "turn": lambda N, d: kernel_4(attention(N, d))[:1],
        "turn, scores": lambda N, d: kernel_4(attention(N, d))[:2],
        "turn, scores, softmax": lambda N, d: kernel_4(attention(N, d))[:3],
        "turn, scores, softmax, sum": lambda N, d: kernel_4(attention(N, d)),
    },
    cases=[{"N": ROWS, "d": 128}],
    count_case={"N": 64, "d": 32},
    reference=attended,
    tolerance=1e-4,
    fold="All four rows",
)

# %% fold="Code of the table"
until_4 = list(medians_us(steps).values())
fourth_us = dict(zip(STEPS, np.diff([0.0, *until_4]), strict=True))
predicted_us = dict(
    zip(STEPS, (third_us["turn"], third_us["scores"], softmax_us, third_us["scores"]), strict=True)
)
show(
    Table(
        ["step", "sectors", "Kernel 3, µs", "predicted, µs", "Kernel 4, µs"],
        [
            [name, touched_by(ROWS, 128)[name], third_us[name], predicted_us[name], fourth_us[name]]
            for name in STEPS
        ],
        caption="The steps at N = 1024, d = 128: sectors of Kernel 4 by formula, times recorded on an {machine} as the difference between two rows, and the prediction.",
    )
)
publish(
    fourth_seen={"launch_us": recorded("attention_reduced_steps.ceilings.launch_us")}
    | {f"{name}_us": us for name, us in fourth_us.items()}
)

# %% [markdown]
# Kernel 4 takes {{ attention_reduced.kernel_4_reduced_by_blocks.n_1024_d_128.median | us }}, and the same with a warp a row in place of a block. The scores
# are as predicted. Softmax takes {{ fourth_seen.softmax_us | us }}: the prediction had its bytes and not
# its launch, {{ fourth_seen.launch_us | us }} for an empty one. The weighted sum takes
# {{ fourth_seen.sum_us | us }}. Its requests are as many as the scores' are, but the compiler has fewer of
# them under way: it unrolls this loop by four, the other by sixteen. By itself the sum takes
# {{ weighted_sums.as_in_kernel_4.median | us }}, and unrolled as far {{ weighted_sums.unrolled_by_16.median | us }}: that makes up for what it lacked.

# %% [markdown]
# All of it is far from the bound of bytes and arithmetic. Both products make two requests for every
# multiply-add of a warp; at one a cycle on each SM that alone is {{ fourth.requests_us | us }}. Those
# requests are what is left to save.

# %% fold="The weighted sum with its loop unrolled further, measured beside the other"
WEIGHTED_SUM_AHEAD = Kernel(r"""
extern "C" __global__
void weighted_sum_ahead(const float* P, const float* V, float* O,
                        int N, int d) {
    __shared__ float box[8][32];
    int x = threadIdx.x, w = threadIdx.y;
    int c = blockIdx.x * 32 + x, i = blockIdx.y;
    float o = 0.0f;
    if (c < d) {
        #pragma unroll 16  // New: sixteen keys, two loads for each
        for (int j = w; j < N; j += 8)
            o += P[i * N + j] * V[j * d + c];
    }
    box[w][x] = o;
    __syncthreads();  // all eight partial sums are in the box
    if (w > 0 || c >= d) return;
    for (int k = 1; k < 8; ++k) o += box[k][x];
    O[i * d + c] = o;
}
""")
agree(weighted_sum_shared, WEIGHTED_SUM_AHEAD, [part("sum", *size) for size in ((5, 3), (21, 50))], **near)

measure(
    "weighted_sums",
    variants={
        "as in Kernel 4": lambda N, d: WEIGHTED_SUM_SHARED.on(part("sum", N, d)),
        "unrolled by 16": lambda N, d: WEIGHTED_SUM_AHEAD.on(part("sum", N, d)),
    },
    cases=[{"N": ROWS, "d": 128}],
    count_case={"N": 64, "d": 32},
    reference=lambda P, V: {"O": P @ V},
    tolerance=1e-4,
    counts=("sectors", "requests"),
)

# %% fold="Code of the table"
show(
    Table(
        ["version", "what is new", "N = 256, µs", "N = 1024, µs"],
        [
            [name, what, *(recorded(f"{path}.n_{N}_d_128.median", None) for N in (256, 1024))]
            for name, what, path in (
                (
                    "Kernel 1: one thread",
                    "ten loops in one thread",
                    "attention_one_thread.kernel_1_one_thread",
                ),
                (
                    "Kernel 2: three kernels",
                    "five independent loops are axes",
                    "attention_three_kernels.kernel_2_three_kernels",
                ),
                (
                    "Kernel 3: coalesced",
                    "lanes along the queries, three arrays turned",
                    "attention_coalesced.kernel_3_coalesced",
                ),
                (
                    "Kernel 4: reduced",
                    "rows and sums shared by blocks",
                    "attention_reduced.kernel_4_reduced_by_blocks",
                ),
                ("torch, three operations", "library", "attention_three_kernels.torch_three_operations"),
            )
        ],
        caption="Attention so far: 32-bit floats, one head, d = 128, on an {machine}. One thread is not timed at N = 1024.",
    )
)

# %% [markdown]
# ## The answer
#
# The threads of a block meet once for {{ answer.numbers | , }} numbers in place of nine times for 256.
# With that, wide loads, and several of them before the first addition, the best of the sums takes
# {{ sum_seen.best_us | us }} for {{ task.numbers | , }} numbers, {{ sum_seen.times_least | .2f }} times
# the {{ task.least_us | us }} of the peak bandwidth.

# %% fold="Code of the number"
publish(answer={"numbers": MANY // BLOCKS})

# %% [markdown]
# ## Takeaways
#
# - A warp shuffle hands a number from lane to lane without memory and without a barrier. Its mask
#   names lanes that have to be there.
# - A sum is a matter of bytes when each thread adds up many numbers before anybody meets, in a loop
#   over tiles and from loads of 16 bytes.
# - The order of additions decides the last digits of a sum. Atomics leave it to chance, and one
#   place for all makes them take turns.

# %% fold="The whole cell, with four wrong answers that the tests turn down"
from tilewise import exercise

LARGEST = Kernel(r"""
extern "C" __global__
void largest(const float* x, float* values, int* places, int n) {
    __shared__ float box[32];
    __shared__ int where[32];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float v = i < n ? x[i] : -INFINITY;
    int at = i;
    for (int round = 0; round < 2; ++round) {
        for (int hop = 16; hop > 0; hop /= 2) {
            float other = __shfl_down_sync(0xffffffff, v, hop);
            int there = __shfl_down_sync(0xffffffff, at, hop);
            if (other > v || (other == v && there < at)) {
                v = other;
                at = there;
            }
        }
        if (round == 1) break;
        if (lane == 0) {
            box[warp] = v;
            where[warp] = at;
        }
        __syncthreads();  // the largest of all warps are in the boxes
        if (warp > 0) return;
        v = lane < blockDim.x / 32 ? box[lane] : -INFINITY;
        at = lane < blockDim.x / 32 ? where[lane] : n;
    }
    if (lane == 0) {
        values[blockIdx.x] = v;
        places[blockIdx.x] = at;
    }
}
""")

WRONG = r"""
extern "C" __global__
void largest(const float* x, float* values, int* places, int n) {
    __shared__ float box[32];
    __shared__ int where[32];
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    float v = i < n ? x[i] : FILL;
    int at = i;
    for (int round = 0; round < 2; ++round) {
        for (int hop = 16; hop > 0; hop /= 2) {
            float other = __shfl_down_sync(0xffffffff, v, hop);
#if SHUFFLE_INSIDE
            if (other > v) {
                v = other;
                at = __shfl_down_sync(0xffffffff, at, hop);
            }
#else
            int there = __shfl_down_sync(0xffffffff, at, hop);
            if (BETTER) {
                v = other;
                at = there;
            }
#endif
        }
        if (round == 1) break;
        if (lane == 0) {
            box[warp] = v;
            where[warp] = at;
        }
        BARRIER;
        if (warp > 0) return;
        v = lane < blockDim.x / 32 ? box[lane] : FILL;
        at = lane < blockDim.x / 32 ? where[lane] : n;
    }
    if (lane == 0) {
        values[blockIdx.x] = v;
        places[blockIdx.x] = at;
    }
}
"""
RIGHT = {
    "FILL": "-INFINITY",
    "BETTER": "other > v || (other == v && there < at)",
    "SHUFFLE_INSIDE": 0,
    "BARRIER": "__syncthreads()",
}
LATER_OF_TWO = Kernel(WRONG, defines=RIGHT | {"BETTER": "other >= v"})
FILLED_WITH_ZERO = Kernel(WRONG, defines=RIGHT | {"FILL": "0.0f"})
SHUFFLE_IN_A_BRANCH = Kernel(WRONG, defines=RIGHT | {"SHUFFLE_INSIDE": 1})
NO_BARRIER = Kernel(WRONG, defines=RIGHT | {"BARRIER": ""})


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
    "The largest, and where it is",
    """
    Write `largest(x, values, places, n)`: for each block the largest of its numbers and the place of it in x,
    the first such place where there are several. Use shuffles within a warp and one barrier in between. The
    tests use blocks of whole warps, sizes that end within a block, and numbers that are all negative.
    """,
    answer=LARGEST,
    tests=largest_tests,
    wrong=[LATER_OF_TWO, FILLED_WITH_ZERO, SHUFFLE_IN_A_BRANCH, NO_BARRIER],
    hint="Shuffle the number and its place, both in all lanes, and only then compare.",
    explanation="A shuffle inside the comparison names lanes that did not enter it. A lane without a number brings minus infinity, which is never the largest.",
)

# %% [markdown]
# Numbers that a block has read lie where all its threads can use them, and so far each was read from
# the box once. In a product of matrices each number is needed many times over, and that is what tiles
# are for.
