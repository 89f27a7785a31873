# ---
# title: Meeting at a barrier
# needs: [kernels/first_kernel, machine/warps]
# summary: "A block of 256 threads adds up 256 numbers. How often do its threads have to wait for each other?"
# description: "Shared memory, barriers, races and the tree: what a missing barrier does, found by name and line."
# date: 2026-11-21
# tags: [barriers, races, shared memory, reduction]
# ---

# %% [markdown]
# A block of 256 threads is to add up 256 numbers. One thread alone makes 255 additions, each after
# the one before. All 256 together are through in {{ tree.steps }} steps, if after every step each
# of them waits for all the others. How often do they wait in all, and how long does waiting take?
# And what is the sum if somebody forgets one of the waits?

# %% [markdown]
# ## A box for the block
#
# Threads that work on one sum have to hand numbers to each other, and registers are private. The
# threads of a block can use shared memory for it, the store on the SM that a block has to itself as
# long as it runs. In CUDA C `__shared__` before an array puts it there: one `box` for each block,
# not one for each thread. Combining many numbers into one, by a sum or a maximum, is called a
# reduction.
#
# ??? definition "Reduction | reductions"
#     Combining many values into one with an operation that may be grouped at will, such as a sum or
#     a maximum.
#
# ??? definition "Partial sum | partial sums"
#     The sum over one share of the numbers, still to be added to those of the other shares.

# %% [markdown]
# The first version is plain. Every thread puts one number into the box, then thread 0 adds them up.
# Between the two stands `__syncthreads()`, a barrier: no thread of the block goes on from there
# until all of them have come. Without it thread 0 would read places that others have not filled
# yet.
#
# ??? definition "Barrier | barriers"
#     A place in a kernel that no thread of a block passes before all threads of the block have
#     reached it; what any of them wrote before, all of them see behind it.

# %% tab="Pseudocode"
from tilewise import parallel, tiles


def sum_by_one(x, sums):
    for b, tile in enumerate(tiles(len(x), 256)):
        box = [x[i] for i in tile]
        s = 0.0
        for number in box:
            s += number
        sums[b] = s


# %% tab="CUDA C"
from tilewise import Kernel

SUM_BY_ONE = Kernel(r"""
extern "C" __global__
void sum_by_one(const float* x, float* sums, int n) {
    __shared__ float box[256];
    int t = threadIdx.x;
    int i = blockIdx.x * blockDim.x + t;
    box[t] = i < n ? x[i] : 0.0f;
    __syncthreads();  // every number is in the box
    if (t > 0) return;
    float s = 0.0f;
    for (int k = 0; k < blockDim.x; ++k) s += box[k];
    sums[blockIdx.x] = s;
}
""")

# %% tab="Numba" needs="numba"
import numpy as np

from tilewise.frameworks import cuda  # numba.cuda


@cuda.jit
def sum_by_one_numba(x, sums):
    box = cuda.shared.array(256, np.float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    box[t] = x[i] if i < x.size else np.float32(0)
    cuda.syncthreads()  # every number is in the box
    if t > 0:
        return
    s = np.float32(0)
    for k in range(cuda.blockDim.x):
        s += box[k]
    sums[cuda.blockIdx.x] = s


# %% [markdown]
# ## The tree
#
# 255 threads only watch while one adds. Let half of them add instead: thread `t` adds the number at
# `t + h` to its own, with `h` = 128, and 128 numbers are left. With `h` = 64 the same again, then
# 32, and so on down to 1: a tree of {{ tree.steps }} steps. In each step half as many threads work
# as in the one before, and each step needs the sums of the one before. So there is a barrier in the
# loop.


# %% tab="Pseudocode"
def sum_by_tree(x, sums):
    for b, tile in enumerate(tiles(len(x), 256)):
        # [fill
        box = [x[i] for i in tile] + [0.0] * (256 - len(tile))
        # fill]
        # [halve
        h = 128
        while h > 0:
            for t in parallel(h):
                box[t] += box[t + h]
            h = h // 2
        # halve]
        sums[b] = box[0]


# %% tab="CUDA C"
SUM_BY_TREE = Kernel(r"""
extern "C" __global__
void sum_by_tree(const float* x, float* sums, int n) {
    __shared__ float box[256];
    int t = threadIdx.x;
    int i = blockIdx.x * blockDim.x + t;
    // [fill
    box[t] = i < n ? x[i] : 0.0f;
    __syncthreads();  // every number is in the box
    // fill]
    // [halve
    for (int h = blockDim.x / 2; h > 0; h /= 2) {
        if (t < h) box[t] += box[t + h];
        __syncthreads();  // every sum of this step is in the box
    }
    // halve]
    if (t == 0) sums[blockIdx.x] = box[0];
}
""")


# %% tab="Numba" needs="numba"
@cuda.jit
def sum_by_tree_numba(x, sums):
    box = cuda.shared.array(256, np.float32)
    t = cuda.threadIdx.x
    i = cuda.grid(1)
    # [fill
    box[t] = x[i] if i < x.size else np.float32(0)
    cuda.syncthreads()  # every number is in the box
    # fill]
    # [halve
    h = cuda.blockDim.x // 2
    while h > 0:
        if t < h:
            box[t] += box[t + h]
        cuda.syncthreads()  # every sum of this step is in the box
        h //= 2
    # halve]
    if t == 0:
        sums[cuda.blockIdx.x] = box[0]


# %% [markdown]
# The numbers are whole ones, so that sums are exact in any order and no tolerance hides a fault.
# Both kernels are compared with their pseudocode and so with each other, on sizes that end inside a
# block. Threads past the end put a zero into the box; why they must not just return comes further
# down.

# %% fold="Code of the checks"
import numpy as np

from tilewise import (
    Guess,
    Table,
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
agree(sum_by_one, SUM_BY_ONE, sizes, rtol=0.0)
agree(sum_by_tree, SUM_BY_TREE, sizes, rtol=0.0)
small = [summing(n, 64) for n in (77, 130)]
agree(sum_by_one_numba, SUM_BY_ONE, small, by="Numba")
agree(sum_by_tree_numba, SUM_BY_TREE, small, by="Numba")

# %% [markdown]
# Here is the tree at work on 64 numbers, in a block of two warps. Go through the steps and watch
# two things: the line of the barrier, at which all threads are lit, and the box, of which a shorter
# piece is in use after each of them. In the first step of the loop threads 0 to 31, one warp, read
# what threads 32 to 63, the other warp, have written.

# %% fold="Code of the figure"
from tilewise import Trace, show
from tilewise.figures import Mark, Series, heat_map, line_chart, stepped

small = SUM_BY_TREE.on(summing(64, 64))
show(
    stepped(
        small.simulate(trace=Trace()),
        launch=small,
        extent=64,
        start=3,
        title="Every step of the tree reads what the step before has written, with a barrier between them",
        caption="The tree on 64 numbers, one block of two warps, line by line as the simulator ran it. Of the box of 256 places a block of 64 threads uses the first 64.",
    )
)

# %% [markdown]
# The barriers cut the run into intervals. Within one, warps may run in any order and at any pace;
# the barrier in between is all that is certain. The next figure shows for a full block of eight
# warps in which interval which of them has anything to do. From interval {{ tree.alone_from }} on
# only warp 0 adds, while the seven others walk from barrier to barrier.

# %% fold="Code of the figure"
full = SUM_BY_TREE.on(summing(256)).simulate(trace=Trace())
trace = full.accesses
last = int(trace.interval.max())
lanes = np.zeros((8, last + 1))
for interval in range(last + 1):
    for warp in range(8):
        mine = (trace.interval == interval) & (trace.warp == warp)
        lanes[warp, interval] = len(np.unique(trace.lane[mine]))
alone_from = next(interval for interval in range(last + 1) if (lanes[:, interval] > 0).sum() == 1)
show(
    heat_map(
        {"lanes at work": lanes},
        x="interval, by barriers passed",
        y="warp",
        role="warp",
        ranges={"lanes at work": (0, 32)},
        key=False,
        form=".0f",
        title=f"In {last + 1 - alone_from} of {last + 1} intervals one warp works and seven wait",
        caption="One block of 256 threads in the tree, from the simulator's trace: how many lanes of each warp touch memory between two barriers.",
    )
)
barriers_of_a_thread = full.counts.barriers // 8
publish(
    tree={
        "steps": 8,
        "barriers": barriers_of_a_thread,
        "alone_from": alone_from,
    }
)

# %% [markdown]
# ## Without the first barrier
#
# Now leave out the barrier before the loop. A thread may then add a number that is not there yet.
# The simulator runs one warp after the other, so warp 0 is early and finds places that nobody
# wrote; then warp 4 writes where warp 0 has been. That is a race: two threads touch one place, at
# least one of them writes, and nothing says who comes first. The simulator names the place and the
# two lines.
#
# ??? definition "Race | races"
#     Two threads touch the same place, at least one of them writes, and nothing orders the two, so
#     that the result depends on who comes first.

# %%
NO_FIRST_BARRIER = Kernel(r"""
extern "C" __global__
void sum_by_tree(const float* x, float* sums, int n) {
    __shared__ float box[256];
    int t = threadIdx.x;
    int i = blockIdx.x * blockDim.x + t;
    box[t] = i < n ? x[i] : 0.0f;
    for (int h = blockDim.x / 2; h > 0; h /= 2) {
        if (t < h) box[t] += box[t + h];  // hazard: is the number there yet?
        __syncthreads();
    }
    if (t == 0) sums[blockIdx.x] = box[0];
}
""")

# %% fold="Code of the check"
expect_hazard(NO_FIRST_BARRIER.on(summing(256)), "uninitialised", line_with="box[t] += box[t + h]")
expect_hazard(NO_FIRST_BARRIER.on(summing(256)), "race", line_with="box[t] = i < n")

# %% [markdown]
# ## Without the barrier in the loop
#
# The other barrier is missed in another way. The first fault that the simulator reports here lies
# inside a warp: thread 0 reads what thread 16, a lane of the same warp, has just written. One would
# think that lanes of a warp keep step anyhow. Nothing promises it: since Volta each lane has a
# program counter of its own, and a compiler that sees no barrier may read ahead of what other lanes
# write.[^volta]
#
# [^volta]: [Where the sources differ](../../conventions.md#the-sources): one asks for
#     `__syncthreads()` between the steps and lets a block of one warp do without. A lane may rely
#     on another's write only behind a barrier, `__syncwarp()` for the lanes of one warp.

# %%
NO_BARRIER_IN_THE_LOOP = Kernel(r"""
extern "C" __global__
void sum_by_tree(const float* x, float* sums, int n) {
    __shared__ float box[256];
    int t = threadIdx.x;
    int i = blockIdx.x * blockDim.x + t;
    box[t] = i < n ? x[i] : 0.0f;
    __syncthreads();
    for (int h = blockDim.x / 2; h > 0; h /= 2) {
        if (t < h) box[t] += box[t + h];  // hazard: has t + h been written?
    }
    if (t == 0) sums[blockIdx.x] = box[0];
}
""")

# %% fold="Code of the check"
expect_hazard(NO_BARRIER_IN_THE_LOOP.on(summing(256)), "race", line_with="box[t] += box[t + h]")

# %% [markdown]
# So a single warp, whose lanes run side by side, needs something as well. `__syncwarp()` lets the
# lanes of one warp meet. A block of 32 threads without it is a race, too.

# %%
NO_SYNCWARP = Kernel(r"""
extern "C" __global__
void sum_by_warp(const float* x, float* sums, int n) {
    __shared__ float box[32];
    int t = threadIdx.x;
    int i = blockIdx.x * blockDim.x + t;
    box[t] = i < n ? x[i] : 0.0f;
    __syncwarp();
    for (int h = 16; h > 0; h /= 2) {
        if (t < h) box[t] += box[t + h];  // hazard: lanes keep no step
    }
    if (t == 0) sums[blockIdx.x] = box[0];
}
""")

# %% fold="Code of the check"
expect_hazard(NO_SYNCWARP.on(summing(64, 32)), "race", line_with="box[t] += box[t + h]")

# %% [markdown]
# Would one notice? On a GPU nothing is reported. The next cell ran on one: a hundred launches
# of each version, over 16,777,216 whole numbers, each block's sum compared with the right one. In
# which of the three versions do you expect wrong sums?

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
# In all three. Without the barrier in the loop {{ lost.loop.least | , }} to
# {{ lost.loop.most | , }} of {{ lost.loop.of | , }} sums are wrong, without the first one
# {{ lost.first.least | , }} to {{ lost.first.most | , }}, other ones in every launch. The single
# warp is the surprise: {{ lost.warp.least | , }} of {{ lost.warp.of | , }} are wrong, the same ones
# each time. That is no accident of timing. Most likely the compiler, which sees no barrier, has
# lanes read places before other lanes' sums are in them; the page does not look into its code.

# %% [markdown]
# ## A barrier that some do not reach
#
# A barrier waits for all threads of the block. In the next kernel those past the end return early,
# as they did in vector addition, and the others wait for them. What then happens is undefined; the
# simulator stops and says who is missing. The same goes for a barrier inside `if (t < h)`. So a
# guard in a kernel with barriers goes around the work, never around the barrier.

# %%
RETURNS_EARLY = Kernel(r"""
extern "C" __global__
void sum_by_tree(const float* x, float* sums, int n) {
    __shared__ float box[256];
    int t = threadIdx.x;
    int i = blockIdx.x * blockDim.x + t;
    if (i >= n) return;
    box[t] = x[i];
    __syncthreads();  // hazard: threads past the end have gone
    for (int h = blockDim.x / 2; h > 0; h /= 2) {
        if (t < h) box[t] += box[t + h];
        __syncthreads();
    }
    if (t == 0) sums[blockIdx.x] = box[0];
}
""")

BARRIER_INSIDE = Kernel(r"""
extern "C" __global__
void sum_by_tree(const float* x, float* sums, int n) {
    __shared__ float box[256];
    int t = threadIdx.x;
    int i = blockIdx.x * blockDim.x + t;
    box[t] = i < n ? x[i] : 0.0f;
    __syncthreads();
    for (int h = blockDim.x / 2; h > 0; h /= 2)
        if (t < h) {
            box[t] += box[t + h];
            __syncthreads();  // hazard: only threads below h come here
        }
    if (t == 0) sums[blockIdx.x] = box[0];
}
""")

# %% fold="Code of the checks"
expect_hazard(RETURNS_EARLY.on(summing(300)), "barrier", line_with="threads past the end have gone")
expect_hazard(BARRIER_INSIDE.on(summing(256)), "barrier", line_with="only threads below h come here")

# %% [markdown]
# ## 96 threads
#
# There is one more way to get a wrong sum, and no barrier is missing in it. Launch the tree with 96
# threads, and give it 96 ones. `h` goes 48, 24, 12, 6, 3 and then 3 / 2, which is 1 in whole
# numbers: of three numbers that are left, the third is never added. The sum is
# {{ odd.at_96 | .0f }}. With 100 threads it is {{ odd.at_100 | .0f }} as well. No hazard is
# reported, since nobody touches anything out of turn; only a check finds it.[^power]


# %% fold="Code of the figure"
def sum_of_ones(kernel, threads):
    ones, sums = np.ones(threads, np.float32), np.full(1, np.nan, np.float32)
    kernel.simulate(ones, sums, threads, grid=1, block=threads)
    return float(sums[0])


BLOCKS = np.arange(1, 257)
found = np.array([sum_of_ones(SUM_BY_TREE, int(threads)) for threads in BLOCKS])
publish(odd={"at_96": found[95], "at_100": found[99], "right": int((found == BLOCKS).sum())})
show(
    line_chart(
        [
            Series("should be", BLOCKS, BLOCKS, role="predicted", marks=False),
            Series("the tree", BLOCKS, found, marks=False),
        ],
        x="threads in the block, each with a 1",
        y="sum",
        marks=[Mark("96 threads", x=96, role="hazard")],
        title="The halving tree is right for powers of two and for nothing else",
        caption="The sum of as many ones as the block has threads, from the simulator, for blocks of 1 to 256 threads.",
    )
)

# %% [markdown]
# Of the 256 block sizes {{ odd.right }} come out right. The exercise below asks you to mend it.
#
# [^power]: Where the sources differ: the blog post says that a reduction needs a power of two. This
#     loop does; a reduction does not.

# %% [markdown]
# ## Fewer meetings
#
# From the figure of intervals follows a second version. Once a single warp is left, the other
# threads return, for no barrier comes any more that would wait for them, and the lanes that are
# left meet by `__syncwarp()`. {{ fewer.barriers }} barriers remain of {{ tree.barriers }}.

# %%
WARP_AT_THE_END = Kernel(r"""
extern "C" __global__
void sum_by_tree_and_warp(const float* x, float* sums, int n) {
    __shared__ float box[256];
    int t = threadIdx.x;
    int i = blockIdx.x * blockDim.x + t;
    box[t] = i < n ? x[i] : 0.0f;
    __syncthreads();
    for (int h = blockDim.x / 2; h >= 32; h /= 2) {
        if (t < h) box[t] += box[t + h];
        __syncthreads();
    }
    if (t >= 32) return;  // New: one warp is left, and no barrier follows
    for (int h = 16; h > 0; h /= 2) {
        if (t < h) box[t] += box[t + h];
        __syncwarp();  // New: only its lanes meet
    }
    if (t == 0) sums[blockIdx.x] = box[0];
}
""")

# %% [markdown]
# A third version does without the tree. An atomic addition reads, adds and writes in one go that no
# other thread can cut in two, so all threads may add into one place, and two barriers are enough.
# In which order they add is open; with whole numbers it does not matter.
#
# ??? definition "Atomic | atomics"
#     Said of a read, change and write of one place that no other thread can cut in two.

# %%
BY_ATOMICS = Kernel(r"""
extern "C" __global__
void sum_by_atomics(const float* x, float* sums, int n) {
    __shared__ float s;
    int t = threadIdx.x;
    int i = blockIdx.x * blockDim.x + t;
    if (t == 0) s = 0.0f;
    __syncthreads();  // nobody adds before there is a zero
    if (i < n) atomicAdd(&s, x[i]);
    __syncthreads();  // everybody has added
    if (t == 0) sums[blockIdx.x] = s;
}
""")

# %% fold="Code of the checks"
agree(sum_by_tree, WARP_AT_THE_END, sizes, rtol=0.0)
agree(sum_by_tree, BY_ATOMICS, sizes, rtol=0.0)
publish(fewer={"barriers": WARP_AT_THE_END.on(summing(256)).simulate().counts.barriers // 8})

# %% [markdown]
# ## What waiting costs
#
# First a barrier by itself. The kernel below makes a multiply-add and meets, again and again;
# another makes the multiply-adds alone. The difference, divided by the number of steps, is the
# price of one meeting. Does it depend on how many threads have to come?


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
        "a barrier in each step": lambda threads, steps: MEET.on(meeting(132 * threads, threads, steps)),
    },
    cases=[{"threads": threads, "steps": 8192} for threads in (32, 64, 128, 256, 512, 1024)],
    count_case={"threads": 256, "steps": 64},
    reference=lambda x, steps: {"y": 0.5 + (x - 0.5) * 0.75**steps},
    tolerance=1e-5,
    counts=("instructions",),
    fold="All 12 rows",
)


# %% fold="Code of the figure"
met_us = medians_us(met, "threads")
price_ns = {
    threads: 1000 * (met_us["a barrier in each step", threads] - us) / 8192
    for (label, threads), us in met_us.items()
    if label == "no barrier"
}
publish(
    price={f"at_{threads}": ns for threads, ns in price_ns.items()}
    | {
        "a_warp": (price_ns[1024] - price_ns[32]) / 31,
        "step": 1000 * met_us["no barrier", 256] / 8192,
    },
    nine_ns=9 * price_ns[256],
)
show(
    line_chart(
        [Series("a barrier", list(price_ns), list(price_ns.values()))],
        x="threads in the block",
        y="time of a barrier [ns]",
        log_x=True,
        y_range=(0, 1.2 * max(price_ns.values())),
        title="The more warps have to come, the longer a barrier takes",
        caption="Time of a step with a barrier less that of a step without, on an {machine}, one block on each SM.",
    )
)

# %% [markdown]
# A barrier of 32 threads takes {{ price.at_32 | .1f }} ns, one of 256 takes
# {{ price.at_256 | .0f }} ns and one of 1,024 {{ price.at_1024 | .0f }} ns; each further warp adds
# about {{ price.a_warp | .1f }} ns. A step without a barrier, one multiply-add in a chain, takes
# {{ price.step | .1f }} ns. So nine meetings of 256 threads take at least {{ nine_ns | .0f }} ns of
# a block's life.

# %% [markdown]
# Then the sums, of 2²⁶ numbers in blocks of 256. One bound and two estimates. Every number is read once, which
# takes at least {{ sums_model.memory_us | us }}. Shared memory serves one request of a warp in a
# pass where its lanes stand side by side, and an SM makes one pass a cycle: the tree takes
# {{ sums_model.tree_passes | .0f }} passes a block, one thread alone
# {{ sums_model.one_passes | .0f }}, since it asks for number after number. And an SM issues four
# instructions a cycle at most. How many does the tree take? All eight warps go through all steps,
# if only to find that `t < h` is false.

# %% fold="Code of the model"
from tilewise.models import bound, stated

GPU = recorded_device()
MANY = 2**26
passes, issued = {}, {}
for name, kernel in {"one": SUM_BY_ONE, "tree": SUM_BY_TREE, "warp": WARP_AT_THE_END}.items():
    counts = kernel.on(summing(256)).simulate().counts
    passes[name] = counts.shared_load.wavefronts + counts.shared_store.wavefronts
    issued[name] = counts.issued
passes_us = {name: MANY / 256 * each / GPU.sms / GPU.boost_mhz for name, each in passes.items()}
issue_us = {name: MANY / 256 * each / 4 / GPU.sms / GPU.boost_mhz for name, each in issued.items()}
memory_us = bound(stated(GPU), bytes_moved=4 * MANY, flop=0).time_us
labels = {"one": "one thread adds", "tree": "tree", "warp": "tree, the last steps in a warp"}
show(
    Table(
        ["variant", "instructions of a block", "bytes, µs", "passes, µs", "instructions, µs"],
        [[label, issued[name], memory_us, passes_us[name], issue_us[name]] for name, label in labels.items()],
        caption="67,108,864 numbers in blocks of 256 on an {machine}: the bytes at its peak bandwidth (data sheet), a bound; and two estimates from the simulator's counts of the PTX, passes over shared memory at one per cycle and instructions at four. The GPU's own compiler may need fewer or more.",
    )
)
publish(
    sums_model={
        "memory_us": memory_us,
        "one_passes": passes["one"],
        "tree_passes": passes["tree"],
        "tree_us": issue_us["tree"],
    }
)

# %% [markdown]
# Where do so many instructions come from? The simulator has them by line. In the loop the line that
# adds is the smaller part; counting `h`, testing it and meeting are the larger, for all eight warps.

# %%
show(SUM_BY_TREE.on(summing(256)).simulate())

# %% [markdown]
# The largest time in a row of the small table is the prediction, if the GPU's compiler makes about
# as many passes and instructions as the simulator counts. The tree should take {{ sums_model.tree_us | us }},
# less than half of what one thread takes, and neither is close to its bytes. Waiting is in none of
# the columns.

# %% fold="Code of the measurement"


def torch_row_sums(arrays):
    import torch

    x, sums = (torch.as_tensor(arrays[name], device="cuda") for name in ("x", "sums"))
    return lambda: torch.sum(x.view(-1, 256), dim=1, out=sums)


def cupy_row_sums(arrays):
    x, sums = arrays["x"].reshape(-1, 256), arrays["sums"]
    return lambda: x.sum(axis=1, out=sums)


block_sums = measure(
    "block_sums",
    variants={
        "one thread adds": lambda n: SUM_BY_ONE.on(summing(n)),
        "all add to one place": lambda n: BY_ATOMICS.on(summing(n)),
        "tree": lambda n: SUM_BY_TREE.on(summing(n)),
        "tree, the last steps in a warp": lambda n: WARP_AT_THE_END.on(summing(n)),
    },
    cases=[{"n": 2**26}],
    count_case={"n": 2**13},
    bytes=lambda n: 4 * n + n // 64,
    flop=lambda n: n,
    library={"torch.sum": torch_row_sums, "cupy.sum": cupy_row_sums},
    reference=lambda x: {"sums": x.reshape(-1, 256).sum(axis=1)},
    tolerance=0.0,
    counts=("sectors", "wavefronts"),
    reasons={"*": "What waiting costs"},
    guess=Guess(
        "How many times as fast is the tree as one thread that adds alone?",
        of="tree",
        over="one thread adds",
        at={"n": 2**26},
        between=(0.1, 100),
        models={"additions one after another": 255 / 8},
        because="Two things are in no model: how the compiler reads for the single thread, and waiting.",
    ),
)

# %% fold="Code of the numbers"
counted = {row["variant"]: row["counted"] or {} for row in block_sums.rows}
passes_seen = {
    label: sum(counts.get(f"shared_{kind}_wavefronts", np.nan) for kind in ("load", "store")) / (2**13 / 256)
    for label, counts in counted.items()
}
publish(
    sums_seen={
        "one_passes": passes_seen["one thread adds"],
        "atomic_passes": passes_seen["all add to one place"],
        "tree_over_us": medians_us(block_sums)["tree"] - issue_us["tree"],
    }
)

# %% [markdown]
# The tree takes {{ block_sums.tree.n_67108864.median | us }} and one thread alone
# {{ block_sums.one_thread_adds.n_67108864.median | us }}: the tree is the slower one. It misses
# its model by {{ sums_seen.tree_over_us | us }}, and {{ tree.barriers }} meetings are what the model leaves out.
# Where the last steps are left to a warp, with {{ fewer.barriers }} meetings, it takes
# {{ block_sums.tree_the_last_steps_in_a_warp.n_67108864.median | us }}. How much of the rest is
# waiting at barriers and how much is waiting for numbers, this page does not take apart.
#
# The single thread is better than its model, and the counters of an H100 say why: it made
# {{ sums_seen.one_passes | .0f }} passes a block and not {{ sums_model.one_passes | .0f }}, since its
# compiler reads four neighbouring numbers in one go.

# %% [markdown]
# All adding to one place takes {{ block_sums.all_add_to_one_place.n_67108864.median | us }}. 256
# atomic additions to one place happen one after another, and in shared memory a floating-point
# addition is a loop that reads, adds, and tries to write until nobody came between: an H100 counted
# {{ sums_seen.atomic_passes | ,.0f }} passes a block.
#
# And torch.sum takes
# {{ block_sums.torch_sum.n_67108864.median | us }},
# {{ block_sums.torch_sum.n_67108864.share_of_bound | .0% }} of the bound. What it does otherwise
# has little to do with how threads meet, and much with how seldom: when each thread first adds up
# many numbers on its own, a meeting serves more of them.

# %% [markdown]
# ## The answer
#
# 256 threads meet {{ tree.barriers }} times to add up 256 numbers: once when the numbers are in the
# box and once after each of {{ tree.steps }} steps. A meeting of 256 takes {{ price.at_256 | .0f }}
# ns. If the wait in the loop is forgotten, the GPU gets {{ lost.loop.least | , }} to
# {{ lost.loop.most | , }} of {{ lost.loop.of | , }} sums wrong, other ones each time, and says
# nothing. And meeting for every 256 numbers is too often: the tree takes
# {{ block_sums.tree.n_67108864.times_first | .2f }} times the speed of one thread that adds alone.

# %% [markdown]
# ## Takeaways
#
# - A barrier makes what all threads of a block wrote before it visible to all of them behind it.
#   All have to reach it; a guard goes around the work, never around the barrier.
# - A race is reported by no GPU. Left out, each of three barriers gave wrong sums on the GPU; one
#   of them gave the same wrong sums every time, so that repeating proves nothing.
# - Lanes of one warp need `__syncwarp()` before they use each other's writes. They do not keep step
#   by themselves.
# - The halving tree drops numbers unless the block is a power of two, without any hazard.
# - A barrier costs some {{ price.a_warp | .1f }} ns for each warp, and every warp walks through
#   every step. A tree is for the end of a sum, not for all of it.

# %% fold="The whole cell, with three wrong answers that the tests turn down"
from tilewise import exercise

ANY_BLOCK = Kernel(r"""
extern "C" __global__
void sum_by_tree(const float* x, float* sums, int n) {
    __shared__ float box[256];
    int t = threadIdx.x;
    int i = blockIdx.x * blockDim.x + t;
    box[t] = i < n ? x[i] : 0.0f;
    __syncthreads();
    for (int live = blockDim.x; live > 1;) {
        int h = (live + 1) / 2;  // rounded up: the odd one waits
        if (t < live - h) box[t] += box[t + h];
        __syncthreads();
        live = h;
    }
    if (t == 0) sums[blockIdx.x] = box[0];
}
""")

ROUNDED_UP = "int h = (live + 1) / 2;  // rounded up: the odd one waits"
ROUNDED_AND_ADDED_TWICE = Kernel(
    ANY_BLOCK.source.replace(ROUNDED_UP, "int h = live / 2;").replace(
        "t < live - h) box[t] += box[t + h]", "t < h) box[t] += box[t + (live + 1) / 2]"
    )
)
BARRIER_ONLY_FOR_SOME = Kernel(
    ANY_BLOCK.source.replace(ROUNDED_UP, "int h = (live + 1) / 2;\n        if (t >= live) return;")
)


def any_block_tests(kernel):
    for threads in range(1, 257):
        x = np.arange(1, threads + 1, dtype=np.float32)
        sums = np.full(1, np.nan, np.float32)
        kernel.simulate(x, sums, threads, grid=1, block=threads)
        assert sums[0] == x.sum(), f"{threads} threads: {sums[0]:g}, not {x.sum():g}"


exercise(
    "A tree for any block",
    """
    Mend `sum_by_tree` so that it is right for every block from 1 to 256 threads. Change the loop only:
    every number has to be added once, every step needs a barrier that all threads reach, and the number of
    steps should still grow with the logarithm. The tests add 1, 2, 3, ... with every block size, and the
    simulator watches the barriers.
    """,
    answer=ANY_BLOCK,
    tests=any_block_tests,
    wrong=[SUM_BY_TREE, ROUNDED_AND_ADDED_TWICE, BARRIER_ONLY_FOR_SOME],
    hint="Keep the number of places that are still in use; if it is odd, the one in the middle waits a round.",
    explanation="With three in use h is 2: thread 0 adds place 2, place 1 waits, and two are left.",
)

# %% [markdown]
# A barrier is for one block. Blocks of a launch cannot meet at one, since not all of them need to
# be on the chip at once;[^cluster] here each leaves a partial sum, and a second launch, or an
# atomic on device memory, finishes. How to get from these sums to the fastest one, with lanes that
# hand numbers to each other without memory, is for the lesson on reductions. Before that: which
# addresses a warp should ask for.
#
# [^cluster]: On an H100 a few blocks can be launched as a cluster, which stands on the chip
#     together and has a barrier of its own.
