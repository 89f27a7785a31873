# ---
# title: Shared memory, barriers and races
# needs: [kernels/first_kernel, machine/warps]
# summary: "A block of 256 threads adds up 256 values. How many times do its threads have to wait for each other, and what happens if they don't?"
# description: "Shared memory, __syncthreads and __syncwarp, races and uninitialised reads: what goes wrong when each barrier is missing, found and measured, and the tools that find the fault."
# date: 2026-11-23
# tags: [barriers, races, shared memory, reduction]
# ---

# %% [markdown]
# A kernel adds up 256 values per block, in a loop with a barrier. Delete this barrier. On a GPU, between
# {{ lost.loop.least | , }} and {{ lost.loop.most | , }} of {{ lost.loop.of | , }} sums come out wrong, different ones
# in every launch, and nothing is reported. That's a *race*.
#
# Where exactly do the threads have to wait for each other? And how do you find the barrier that you forgot?

# %% [markdown]
# ## Shared memory
#
# Threads that work on one sum have to exchange values, but registers are private. *Shared memory* is the on-chip memory
# that all threads of a block can read and write; each block has its own, which lasts as long as the block runs. In CUDA
# C you declare it with `__shared__`: one array per block, not one per thread.
#
# Combining many values into one, such as their sum or maximum, is called a *reduction*. In its simplest form every
# thread stores one value in shared memory, and then thread 0 adds them up. Before it starts, thread 0 must wait until
# all the other threads have stored their values. `__syncthreads()` provides this wait: no thread continues until every
# thread in the block has arrived, and whatever they wrote before the barrier is visible to all of them after it.
#
# ??? definition "Reduction | reductions"
#     Combining many values into one with an operation that may be grouped freely, such as a sum or a maximum.
#
# ??? definition "Partial sum | partial sums"
#     The sum of a part of the values, to be combined with those of the other parts.
#
# ??? definition "Barrier | barriers"
#     A point in a kernel that no thread of a group passes before all threads of the group have reached it. What
#     any of them wrote before it, all of them see after it.

# %% tab="Pseudocode"
from tilewise import parallel, tiles


def sum_by_one(x, sums):
    for b, tile in enumerate(tiles(len(x), 256)):
        smem = [x[i] for i in tile]
        s = 0.0
        for value in smem:
            s += value
        sums[b] = s


# %% tab="CUDA C"
from tilewise import Kernel

SUM_BY_ONE = Kernel(r"""
extern "C" __global__
void sum_by_one(const float* x, float* sums, int n) {
    __shared__ float smem[256];
    int t = threadIdx.x;
    int i = blockIdx.x * blockDim.x + t;
    smem[t] = i < n ? x[i] : 0.0f;
    __syncthreads();  // every value is stored
    if (t > 0) return;
    float s = 0.0f;
    for (int k = 0; k < blockDim.x; ++k) s += smem[k];
    sums[blockIdx.x] = s;
}
""")

# %% tab="Numba" needs="numba"
import numpy as np

from tilewise.frameworks import cuda  # numba.cuda


@cuda.jit
def sum_by_one_numba(x, sums):
    smem = cuda.shared.array(256, np.float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    smem[t] = x[i] if i < x.size else np.float32(0)
    cuda.syncthreads()  # every value is stored
    if t > 0:
        return
    s = np.float32(0)
    for k in range(cuda.blockDim.x):
        s += smem[k]
    sums[cuda.blockIdx.x] = s


# %% [markdown]
# Run it on 256 ones:

# %%
import numpy as np

ones, total = np.ones(256, np.float32), np.zeros(1, np.float32)
SUM_BY_ONE(ones, total, 256, grid=1, block=256)
print(total[0])

# %% [markdown]
# ## A tree of partial sums
#
# While thread 0 adds, 255 threads sit idle. Let half of the threads add instead. With eight values, threads 0 to 3 each
# add the value four places to the right, which leaves four partial sums. Next, threads 0 and 1 each add the value two
# places to the right; finally, thread 0 adds its neighbour's value. This takes three steps instead of seven additions
# in a row. For 256 values, it takes {{ tree.steps }} steps instead of 255.
#
# In each step, thread `t` adds the value at `t + h` to its own, and then `h` is halved. Every step reads what other
# threads wrote in the step before, so there has to be a barrier in the loop.


# %% tab="Pseudocode"
def sum_by_tree(x, sums):
    for b, tile in enumerate(tiles(len(x), 256)):
        # [fill
        smem = [x[i] for i in tile] + [0.0] * (256 - len(tile))
        # fill]
        # [halve
        h = 128
        while h > 0:
            for t in parallel(h):
                smem[t] += smem[t + h]
            h = h // 2
        # halve]
        sums[b] = smem[0]


# %% tab="CUDA C"
SUM_BY_TREE = Kernel(r"""
extern "C" __global__
void sum_by_tree(const float* x, float* sums, int n) {
    __shared__ float smem[256];
    int t = threadIdx.x;
    int i = blockIdx.x * blockDim.x + t;
    // [fill
    smem[t] = i < n ? x[i] : 0.0f;
    __syncthreads();  // every value is stored
    // fill]
    // [halve
    for (int h = blockDim.x / 2; h > 0; h /= 2) {
        if (t < h) smem[t] += smem[t + h];
        __syncthreads();  // every partial sum of this step is stored
    }
    // halve]
    if (t == 0) sums[blockIdx.x] = smem[0];
}
""")


# %% tab="Numba" needs="numba"
@cuda.jit
def sum_by_tree_numba(x, sums):
    smem = cuda.shared.array(256, np.float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    # [fill
    smem[t] = x[i] if i < x.size else np.float32(0)
    cuda.syncthreads()  # every value is stored
    # fill]
    # [halve
    h = cuda.blockDim.x // 2
    while h > 0:
        if t < h:
            smem[t] += smem[t + h]
        cuda.syncthreads()  # every partial sum of this step is stored
        h //= 2
    # halve]
    if t == 0:
        sums[cuda.blockIdx.x] = smem[0]


# %% [markdown]
# The tests use integers stored as floats, so that sums are exact in any order and no tolerance can hide a bug. Note
# what threads past the end do: they store a zero and carry on instead of returning.

# %% fold="Code of the checks"
import numpy as np

from tilewise import (
    Guess,
    agree,
    case,
    ceil_div,
    expect_hazard,
    integers,
    measure,
    normal,
    output,
    publish,
)


def summing(n, block=256):
    blocks = ceil_div(n, block)
    x = integers(n, low=-8, high=9, dtype="float32")
    return case(x=x, sums=output(blocks), n=n, grid=blocks, block=block)


sizes = [summing(n) for n in (1, 77, 300, 1000)]
agree(sum_by_one, SUM_BY_ONE, sizes)
agree(sum_by_tree, SUM_BY_TREE, sizes)
small = [summing(n, 64) for n in (77, 130)]
agree(sum_by_one_numba, SUM_BY_ONE, small, by="Numba")
agree(sum_by_tree_numba, SUM_BY_TREE, small, by="Numba")

# %% [markdown]
# Step through a run with 64 values in a block of two warps. In the first step of the loop, warp 0 reads what warp 1 has
# written; the barrier above it makes that safe. Ignore the row of \banks for now: [the lesson on
# banks](banks.py) explains it.

# %% fold="Code of the figure"
from tilewise import Trace, show
from tilewise.figures import Mark, Series, line_chart, stepped

show(
    stepped(
        SUM_BY_TREE.on(summing(64, 64)).simulate(trace=Trace()),
        extent=64,
        start=3,
        title="Each step reads what the previous step wrote",
        caption="The tree with 64 values, one block of two warps, line by line as the simulator ran it.",
    )
)

# %% [markdown]
# Barriers divide a run into intervals. Within an interval, warps may run in any order. In a block of 256,
# each thread executes {{ tree.barriers }} barriers: one after the stores, and one after each of the {{ tree.steps }} steps. The last
# one isn't needed, because after it thread 0 reads only what it wrote itself. So {{ tree.needed }} are enough.
#
# From the step with `h` = {{ tree.alone_from }} on, only one warp works. The other seven just go from one barrier to the
# next.

# %% fold="Numbers for the text"
from tilewise.kernel.edits import edited

full = SUM_BY_TREE.on(summing(256)).simulate(trace=Trace())
barriers_of_a_thread = full.counts.barriers // 8
seen = full.accesses
at_work = [len(np.unique(seen.warp[seen.interval == step])) for step in range(barriers_of_a_thread + 1)]
alone = at_work.index(1)  # interval 0 holds the stores, interval 1 the step with h = 128
assert at_work[alone:] == [1] * len(at_work[alone:]), "the text says that one warp works from there on"
publish(
    tree={
        "steps": 8,
        "barriers": barriers_of_a_thread,
        "needed": barriers_of_a_thread - 1,
        "alone_from": 256 >> alone,
    }
)
NO_LAST_BARRIER = edited(
    SUM_BY_TREE, ("        __syncthreads();  // every", "        if (h > 1) __syncthreads();  // every")
)
agree(sum_by_tree, NO_LAST_BARRIER, sizes)  # no hazard, so the barrier is not needed

# %% [markdown]
# ## A missing barrier is a race
#
# Leave out the barrier before the loop. Now a thread may add a value that hasn't been stored yet. The simulator runs
# one warp after the other, so warp 0 reads elements that haven't been written, and then warp 4 writes to them. Two
# threads access the same element, at least one of them writes, and nothing orders the two: that's a *race*. The
# simulator names the element and both lines.
#
# ??? definition "Race | races"
#     Two threads access the same element, at least one of them writes, and nothing orders the two accesses. The result depends
#     on which comes first.

# %%
NO_FIRST_BARRIER = Kernel(r"""
extern "C" __global__
void sum_by_tree(const float* x, float* sums, int n) {
    __shared__ float smem[256];
    int t = threadIdx.x;
    int i = blockIdx.x * blockDim.x + t;
    smem[t] = i < n ? x[i] : 0.0f;
    for (int h = blockDim.x / 2; h > 0; h /= 2) {
        if (t < h) smem[t] += smem[t + h];  // hazard: is the value there yet?
        __syncthreads();
    }
    if (t == 0) sums[blockIdx.x] = smem[0];
}
""")

# %% fold="Code of the check"
expect_hazard(NO_FIRST_BARRIER.on(summing(256)), "uninitialised", line_with="smem[t] += smem[t + h]")
expect_hazard(NO_FIRST_BARRIER.on(summing(256)), "race", line_with="smem[t] = i < n")

# %% [markdown]
# Now leave out the barrier in the loop instead. The first race that the simulator reports is *within a warp*: thread 0
# reads what thread 16, a lane of the same warp, has just written. You might expect the lanes of a warp to run in
# lockstep. They needn't. Since Volta, each lane has its own program counter, and a compiler that sees no barrier may
# reorder a thread's loads and stores, as long as that thread itself can't tell the difference.

# %%
NO_BARRIER_IN_THE_LOOP = Kernel(r"""
extern "C" __global__
void sum_by_tree(const float* x, float* sums, int n) {
    __shared__ float smem[256];
    int t = threadIdx.x;
    int i = blockIdx.x * blockDim.x + t;
    smem[t] = i < n ? x[i] : 0.0f;
    __syncthreads();
    for (int h = blockDim.x / 2; h > 0; h /= 2) {
        if (t < h) smem[t] += smem[t + h];  // hazard: has t + h been written?
    }
    if (t == 0) sums[blockIdx.x] = smem[0];
}
""")

# %% fold="Code of the check"
expect_hazard(NO_BARRIER_IN_THE_LOOP.on(summing(256)), "race", line_with="smem[t] += smem[t + h]")

# %% [markdown]
# Even a block of a single warp needs a barrier, although a cheap one is enough: `__syncwarp()` synchronises the lanes
# of one warp.

# %%
NO_SYNCWARP = Kernel(r"""
extern "C" __global__
void sum_by_warp(const float* x, float* sums, int n) {
    __shared__ float smem[32];
    int t = threadIdx.x;
    int i = blockIdx.x * blockDim.x + t;
    smem[t] = i < n ? x[i] : 0.0f;
    __syncwarp();
    for (int h = 16; h > 0; h /= 2) {
        if (t < h) smem[t] += smem[t + h];  // hazard: lanes are not in lockstep
    }
    if (t == 0) sums[blockIdx.x] = smem[0];
}
""")

# %% fold="Code of the check"
expect_hazard(NO_SYNCWARP.on(summing(64, 32)), "race", line_with="smem[t] += smem[t + h]")

# %% [markdown]
# Run the tree with and without its barriers, at any block size up to 256. At which sizes does the sum lose elements?

# %% fold="Code of the run"
from tilewise import try_it

try_it(
    summing,
    {
        "both barriers": SUM_BY_TREE,
        "without the first barrier": NO_FIRST_BARRIER,
        "without the barrier in the loop": NO_BARRIER_IN_THE_LOOP,
    },
    n=(1, 300, 1024),
    block=(1, 64, 256),
)

# %% [markdown]
# Would you notice on a GPU? The recorded cell below launches each version a hundred times on 2²⁴ values and compares
# every block's sum with the correct value. Three versions each lack one barrier: the one before the loop, the one in
# the loop, or the one in the single-warp block. Which of them do you expect to fail?

# %% fold="Code that counts wrong sums on a GPU" needs="gpu" record="lost_sums"
from tilewise import gpu_here

if gpu_here():
    import cupy

    numbers = cupy.random.default_rng(1).integers(-8, 9, 2**24).astype(cupy.float32)  # sums are exact
    tries = {
        "the tree with all its barriers": (SUM_BY_TREE, 256),
        "without the barrier in the loop": (NO_BARRIER_IN_THE_LOOP, 256),
        "without the first barrier": (NO_FIRST_BARRIER, 256),
        "one warp without __syncwarp": (NO_SYNCWARP, 32),
    }
    for name, (kernel, block) in tries.items():
        compiled = cupy.RawKernel(kernel.source, kernel.name)
        right = numbers.reshape(-1, block).sum(axis=1)
        wrong, seen = [], []
        for attempt in range(100):
            sums = cupy.full(right.size, cupy.nan, cupy.float32)
            compiled((right.size,), (block,), (numbers, sums, np.int32(numbers.size)))
            wrong.append(int((sums != right).sum()))
            seen.append(sums)
        first_ten = cupy.stack(seen[:10])
        changed = int((first_ten.max(axis=0) != first_ten.min(axis=0)).sum())
        print(f"{name}: of {right.size:,} sums {min(wrong):,} to {max(wrong):,} are wrong in 100 launches;")
        print(f"    {changed:,} of them differ between the first ten launches")

# %% fold="Code of the numbers"
import re

from tilewise.measurements import medians_us, recorded_device, text_record

said = text_record("memory/barriers", "lost_sums")
lost = {}
for version in ("barrier in the loop", "first barrier", "__syncwarp"):
    numbers = re.search(version + r": of ([\d,]+) sums ([\d,]+) to ([\d,]+) are wrong", said.text).groups()
    values = [int(number.replace(",", "")) for number in numbers]
    lost[re.findall("loop|first|warp", version)[0]] = dict(zip(("of", "least", "most"), values, strict=True))
publish(lost=lost)

# %% [markdown]
# All three fail. Without the first barrier, about a third of the sums are wrong, and which ones differs from launch to
# launch.
#
# The single-warp block is the surprise: {{ lost.warp.least | , }} of {{ lost.warp.of | , }} sums are wrong, exactly the
# same ones in all hundred launches. So the cause isn't timing: the compiled code does the wrong thing every time. Such
# a race looks like an error in your formula, and running the kernel again proves nothing.

# %% [markdown]
# ## Finding races: compute-sanitizer
#
# On your own GPU, NVIDIA's [compute-sanitizer](https://docs.nvidia.com/compute-sanitizer/ComputeSanitizer/index.html)
# looks for the same kinds of fault as the simulator. It comes with the CUDA toolkit and runs your program unchanged,
# although many times more slowly:
#
# ```sh
# compute-sanitizer --tool racecheck ./my_program   # races on shared memory
# compute-sanitizer --tool synccheck ./my_program   # invalid use of barriers
# compute-sanitizer --tool initcheck ./my_program   # reads of device memory that nobody has written
# compute-sanitizer --tool memcheck ./my_program    # out-of-bounds and misaligned accesses
# ```
#
# The simulator checks every access and every barrier of a small launch, including reads of uninitialised shared memory.
# compute-sanitizer checks your real program, but its `synccheck` doesn't report every barrier that some threads skip.

# %% [markdown]
# ## Threads that skip a barrier
#
# What if some threads never reach the barrier? There are two cases, and the difference matters.
#
# **They have exited.** In `RETURNS_EARLY`, threads past the end return, as in vector addition. Since Volta, a barrier
# doesn't wait for threads that have exited, so this kernel doesn't hang. It may be wrong for another reason, or correct
# by chance: the threads that returned never stored their zeros, and the tree adds whatever happens to be in shared
# memory.
#
# **They're still running, but elsewhere in the code.** In `BARRIER_INSIDE`, the barrier is inside `if (t < h)`, and
# threads with `t` ≥ `h` skip it. This is undefined behaviour on every GPU: the kernel may hang, or threads waiting at
# different barriers may release each other.
#
# One rule avoids both cases: put the bounds check around the work, never around the barrier, and never return before
# the last one.

# %%
RETURNS_EARLY = Kernel(r"""
extern "C" __global__
void sum_by_tree(const float* x, float* sums, int n) {
    __shared__ float smem[256];
    int t = threadIdx.x;
    int i = blockIdx.x * blockDim.x + t;
    if (i >= n) return;
    smem[t] = x[i];
    __syncthreads();  // doesn't wait for threads that have exited
    for (int h = blockDim.x / 2; h > 0; h /= 2) {
        if (t < h) smem[t] += smem[t + h];
        __syncthreads();
    }
    if (t == 0) sums[blockIdx.x] = smem[0];
}
""")

BARRIER_INSIDE = Kernel(r"""
extern "C" __global__
void sum_by_tree(const float* x, float* sums, int n) {
    __shared__ float smem[256];
    int t = threadIdx.x;
    int i = blockIdx.x * blockDim.x + t;
    smem[t] = i < n ? x[i] : 0.0f;
    __syncthreads();
    for (int h = blockDim.x / 2; h > 0; h /= 2)
        if (t < h) {
            smem[t] += smem[t + h];
            __syncthreads();  // hazard: only threads below h come here
        }
    if (t == 0) sums[blockIdx.x] = smem[0];
}
""")

# %% fold="Code of the checks"
expect_hazard(RETURNS_EARLY.on(summing(300)), "uninitialised", line_with="smem[t] += smem[t + h]")
expect_hazard(BARRIER_INSIDE.on(summing(256)), "barrier", line_with="only threads below h come here")

# %% [markdown]
# ## Block sizes that aren't a power of two
#
# The sum can be wrong even with every barrier in place. Launch the tree with 96 threads on 96 ones. `h` takes the
# values 48, 24, 12, 6, 3, and then 3 / 2, which is 1 in integer arithmetic. Three partial sums are left at that point,
# and the third is never added. The sum is {{ odd.at_96 | .0f }}. No hazard is reported, since every access is legal.
# Only a test finds the bug, and only {{ odd.right }} of the 256 block sizes pass it.


# %% fold="Code of the figure"
def sum_of_ones(kernel, threads):
    ones, sums = np.ones(threads, np.float32), np.full(1, np.nan, np.float32)
    kernel.simulate(ones, sums, threads, grid=1, block=threads)
    return float(sums[0])


BLOCKS = np.arange(1, 257)
found = np.array([sum_of_ones(SUM_BY_TREE, int(threads)) for threads in BLOCKS])
publish(odd={"at_96": found[95], "right": int((found == BLOCKS).sum())})
show(
    line_chart(
        [
            Series("correct sum", BLOCKS, BLOCKS, role="predicted", marks=False),
            Series("the tree", BLOCKS, found, marks=False),
        ],
        x="threads in the block (each adds a 1)",
        y="sum",
        marks=[Mark("96 threads", x=96, role="hazard")],
        title="The halving tree is correct only for powers of two",
        caption="The sum of as many ones as the block has threads, from the simulator, for blocks of 1 to 256 threads.",
    )
)

# %% [markdown]
# ## Fewer barriers
#
# After the step with `h` = 32, only 32 partial sums are left, few enough for one warp. The other warps can return,
# because no block-wide barrier follows: the lanes of the last warp synchronise with `__syncwarp()`. This leaves
# {{ fewer.barriers }} of the {{ tree.barriers }} block-wide barriers.

# %%
WARP_AT_THE_END = Kernel(r"""
extern "C" __global__
void sum_by_tree_and_warp(const float* x, float* sums, int n) {
    __shared__ float smem[256];
    int t = threadIdx.x;
    int i = blockIdx.x * blockDim.x + t;
    smem[t] = i < n ? x[i] : 0.0f;
    __syncthreads();
    for (int h = blockDim.x / 2; h >= 32; h /= 2) {
        if (t < h) smem[t] += smem[t + h];
        __syncthreads();
    }
    if (t >= 32) return;  // New: one warp is left, and no barrier follows
    for (int h = 16; h > 0; h /= 2) {
        if (t < h) smem[t] += smem[t + h];
        __syncwarp();  // New: only its lanes synchronise
    }
    if (t == 0) sums[blockIdx.x] = smem[0];
}
""")

# %% [markdown]
# A third version has no tree at all. An *atomic* addition reads, adds and writes without any other thread getting in
# between, so all threads may add to the same element, and two barriers are enough. The order of the additions is
# unspecified; with integers it doesn't matter.
#
# ??? definition "Atomic | atomics"
#     An operation that reads, modifies and writes one element in a single step that no other thread can interrupt.

# %%
BY_ATOMICS = Kernel(r"""
extern "C" __global__
void sum_by_atomics(const float* x, float* sums, int n) {
    __shared__ float s;
    int t = threadIdx.x;
    int i = blockIdx.x * blockDim.x + t;
    if (t == 0) s = 0.0f;
    __syncthreads();  // s is 0 before anybody adds
    if (i < n) atomicAdd(&s, x[i]);
    __syncthreads();  // all threads have added
    if (t == 0) sums[blockIdx.x] = s;
}
""")

# %% fold="Code of the checks"
agree(sum_by_tree, WARP_AT_THE_END, sizes)
agree(sum_by_tree, BY_ATOMICS, sizes)
publish(fewer={"barriers": WARP_AT_THE_END.on(summing(256)).simulate().counts.barriers // 8})

# %% [markdown]
# ## The cost of a barrier
#
# Start with a barrier on its own. One kernel alternates between a multiply-add and a barrier; the other does only the
# multiply-adds. The difference per step is the cost of a barrier. Does it depend on the number of threads?


# %% tab="Pseudocode"
def meet(x, y, steps):
    for i in parallel(len(x)):
        v = x[i]
        for _ in range(steps):
            v = v * 0.75 + 0.125
        y[i] = v


# %% tab="CUDA C"
MEET = Kernel(r"""
extern "C" __global__
void meet(const float* x, float* y, int n, int steps) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = i < n ? x[i] : 0.0f;
    for (int step = 0; step < steps; ++step) {
        v = v * 0.75f + 0.125f;
        __syncthreads();
    }
    if (i < n) y[i] = v;
}
""")

# %%
GO_ON = Kernel(r"""
extern "C" __global__
void go_on(const float* x, float* y, int n, int steps) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float v = i < n ? x[i] : 0.0f;
    for (int step = 0; step < steps; ++step) v = v * 0.75f + 0.125f;
    if (i < n) y[i] = v;
}
""")


# %% fold="Code of the checks"
def meeting(n, threads, steps):
    return case(x=normal(n), y=output(n), n=n, steps=steps, grid=ceil_div(n, threads), block=threads)


for kernel in (MEET, GO_ON):
    agree(meet, kernel, [meeting(77, 64, 9), meeting(300, 128, 5)], rtol=1e-5)

# %% fold="Code of the measurement"
met = measure(
    "meetings",
    variants={
        "no barrier": lambda threads, steps: GO_ON.on(meeting(132 * threads, threads, steps)),
        "one barrier per step": lambda threads, steps: MEET.on(meeting(132 * threads, threads, steps)),
    },
    cases=[{"threads": threads, "steps": 8192} for threads in (32, 64, 128, 256, 512, 1024)],
    count_case={"threads": 256, "steps": 64},
    reference=lambda x, steps: {"y": 0.5 + (x - 0.5) * 0.75**steps},
    counts=("instructions",),
    fold="All 12 rows",
)

# %% fold="Code of the figure"
met_us = medians_us(met, "threads")
price_ns = {
    threads: 1000 * (met_us["one barrier per step", threads] - us) / 8192
    for (label, threads), us in met_us.items()
    if label == "no barrier"
}
publish(price={"at_256": price_ns[256], "a_warp": (price_ns[1024] - price_ns[32]) / 31})
show(
    line_chart(
        [Series("a barrier", list(price_ns), list(price_ns.values()))],
        x="threads in the block",
        y="time of a barrier [ns]",
        y_range=(0, 1.2 * max(price_ns.values())),
        title="The more warps synchronise, the longer a barrier takes",
        caption="Time of a step with a barrier minus the time of a step without one, on an {machine}, with one block on each SM.",
    )
)

# %% [markdown]
# A barrier for 256 threads takes {{ price.at_256 | .0f }} ns. Each additional warp adds about {{ price.a_warp | .1f }}
# ns.
#
# Now time the sums themselves: 2²⁶ values in blocks of 256. Reading every value once takes at least
# {{ sums_model.memory_us | us }}. A single thread per block needs 255 additions in a row, whereas the tree needs only 8
# steps. But all eight warps execute every step of the tree, if only to find out that `t < h` is false. Which version is
# faster?

# %% fold="Numbers for the text"
from tilewise.models import bound, stated

GPU = recorded_device()
MANY = 2**26
publish(sums_model={"memory_us": bound(stated(GPU), bytes_moved=4 * MANY).time_us})

# %% fold="Code of the measurement"


def torch_row_sums(arrays):
    import torch

    x, sums = (torch.as_tensor(arrays[name], device="cuda") for name in ("x", "sums"))
    return lambda: torch.sum(x.view(-1, 256), dim=1, out=sums)


def cupy_row_sums(arrays):
    x, sums = arrays["x"].reshape(-1, 256), arrays["sums"]
    return lambda: x.sum(axis=1, out=sums)


measure(
    "block_sums",
    variants={
        "one thread adds": lambda n: SUM_BY_ONE.on(summing(n)),
        "atomicAdd to one element": lambda n: BY_ATOMICS.on(summing(n)),
        "tree": lambda n: SUM_BY_TREE.on(summing(n)),
        "tree, last steps in one warp": lambda n: WARP_AT_THE_END.on(summing(n)),
    },
    cases=[{"n": 2**26}],
    count_case={"n": 2**13},
    bytes=lambda n: 4 * n + n // 64,
    flop=lambda n: n,
    library={"torch.sum": torch_row_sums, "cupy.sum": cupy_row_sums},
    reference=lambda x: {"sums": x.reshape(-1, 256).sum(axis=1)},
    tolerance=0.0,
    counts=(),
    reasons={"*": "The cost of a barrier"},
    guess=Guess(
        "How much faster is the tree than a single thread that does all the adding?",
        of="tree",
        over="one thread adds",
        between=(0.1, 100),
        models={"steps one after another": 255 / 8},
        because="Counting steps ignores the barriers and the seven warps that have nothing left to add.",
    ),
)

# %% [markdown]
# The tree takes {{ block_sums.tree.n_67108864.median | us }}. That's longer than the
# {{ block_sums.one_thread_adds.n_67108864.median | us }} of the kernel in which one thread per block does all the
# adding. Running the last steps in one warp reduces the tree's time to
# {{ block_sums.tree_last_steps_in_one_warp.n_67108864.median | us }}. The atomic version is the slowest of all, at
# {{ block_sums.atomicadd_to_one_element.n_67108864.median | us }}: 256 atomic additions to the same element run one
# after the other.
#
# `torch.sum` takes {{ block_sums.torch_sum.n_67108864.median | us }}. Its secret isn't a better tree: each of its
# threads adds up several values in registers before it synchronises. The lesson on [parallel reductions](reductions.py)
# extends this idea to hundreds of thousands of values per block.

# %% [markdown]
# ## The answer
#
# To add up 256 values, the 256 threads of this kernel synchronise {{ tree.barriers }} times, although
# {{ tree.needed }} times would be enough: once after the stores, and once after each step but the last. Without
# those barriers, the GPU returns wrong sums and reports no error.

# %% [markdown]
# ## Takeaways
#
# - Threads of a block exchange values through shared memory. Between a store by one thread and a load by another there must be a barrier: `__syncthreads()` for the block,
#   `__syncwarp()` within a warp. Don't rely on lanes running in lockstep.
# - Every live thread has to reach each `__syncthreads()`. Bounds checks go around the work, not around the barrier.
# - A GPU doesn't report races, and a race may give the same wrong result every time. Test with exact values and odd
#   sizes, and run compute-sanitizer.
#
# ## In your own kernel
#
# Run `compute-sanitizer --tool racecheck` on every kernel that uses shared memory before you tune it, and run a small
# launch on the simulator to find barriers that some threads skip. If Nsight Compute shows *Stall Barrier*
# (`smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio`) as the largest \stall, let each thread combine
# more values in registers before it synchronises.

# %% fold="Code of the exercise, with three wrong answers that the tests reject"
from tilewise import exercise

ANY_BLOCK = Kernel(r"""
extern "C" __global__
void sum_by_tree(const float* x, float* sums, int n) {
    __shared__ float smem[256];
    int t = threadIdx.x;
    int i = blockIdx.x * blockDim.x + t;
    smem[t] = i < n ? x[i] : 0.0f;
    __syncthreads();
    for (int live = blockDim.x; live > 1;) {
        int h = (live + 1) / 2;  // rounded up: an odd one sits out
        if (t < live - h) smem[t] += smem[t + h];
        __syncthreads();
        live = h;
    }
    if (t == 0) sums[blockIdx.x] = smem[0];
}
""")


def any_block_tests(kernel):
    for threads in range(1, 257):
        x = np.arange(1, threads + 1, dtype=np.float32)
        sums = np.full(1, np.nan, np.float32)
        kernel.simulate(x, sums, threads, grid=1, block=threads)
        assert sums[0] == x.sum(), f"{threads} threads: {sums[0]:g}, not {x.sum():g}"


exercise(
    "A tree for any block",
    """
    Fix `sum_by_tree` so that it is correct for every block of 1 to 256 threads. Change only the loop.
    Every value must be added once, all threads must reach the barrier of each step, and the number of steps must
    still grow logarithmically with the block size. The tests add 1, 2, 3, … with every block size, and the simulator checks the barriers.
    """,
    answer=ANY_BLOCK,
    tests=any_block_tests,
    wrong=[
        SUM_BY_TREE,
        {
            "int h = (live + 1) / 2;  // rounded up: an odd one sits out": "int h = live / 2;",
            "t < live - h) smem[t] += smem[t + h]": "t < h) smem[t] += smem[t + (live + 1) / 2]",
        },
        {
            "t < live - h) smem": "t < live - h) {\n            smem",
            "syncthreads();\n        live": "syncthreads();\n        }\n        live",
        },
    ],
    hint="Keep track of how many partial sums are left. If their number is odd, one of them sits out a step.",
    explanation="With three left, h is 2: thread 0 adds element 2, element 1 sits out, and two are left.",
)

# %% [markdown]
# A barrier synchronises only one block. To add up values across blocks, let each block write a partial sum,
# and combine these sums with a second launch or with atomic additions in device memory.
