# ---
# title: "Warps and divergence: thirty-two lanes, one instruction"
# needs: [machine/chip, kernels/grids]
# summary: "The 32 lanes of a warp take 32 different paths. How much slower does the warp run?"
# description: "SIMT, branch divergence and predication: what a branch costs, predicted, simulated and measured for 1 to 32 paths."
# date: 2026-11-21
# tags: [warps, divergence, branches]
# ---

# %% [markdown]
# Each element of an array selects one of {{ most.ways }} loops of equal length, and the thread that
# handles it runs only that loop. How much slower is this than running the same loop in every
# thread: not at all, or {{ most.ways }}×?
#
# Either answer can be right, depending on which elements share a warp. On an H100, a kernel like this runs
# {{ sort_gain | .2g }}× faster once the elements are sorted by loop. The kernel still does the same arithmetic on the
# same elements; only the assignment of elements to threads changes. The same assignment determines whether an `if` is
# free or wastes most of the GPU.

# %% [markdown]
# ## Lockstep: one instruction for 32 lanes
#
# An H100 SM can hold 2,048 threads, too many to fetch and decode instructions for each one separately. So an SM groups
# 32 consecutive threads of a block into a warp, and a *warp scheduler* issues one instruction for all of them.[^four]
# The 32 lanes normally execute it in *lockstep*, each on its own registers.[^exactly] [Lindholm et al.
# (2008)](https://doi.org/10.1109/MM.2008.31) call this *SIMT*: single instruction, multiple threads.
#
# If a branch sends some lanes to the `if` side and the rest to the `else` side, the warp *diverges*:
# it executes both paths, one after the other. On each path, an *active mask* of 32 bits disables
# the lanes that took the other one. After the branch, the lanes *reconverge*.
#
# Take a small example: a loop of three iterations on each path. If all lanes agree, the warp runs 3
# iterations. If the odd lanes branch off, it runs 3 + 3 = 6, with half of its lanes idle in each.
#
# ??? question "Why do warps exist?"
#     Fetching and decoding an instruction costs almost the same for one thread as for 32, and
#     sharing that cost leaves more of the chip for arithmetic. A warp also presents 32 addresses at
#     once, so neighbouring ones can be served by a single request. The price is divergence.
#
# [^four]: A common misconception: an SM runs one warp at a time. Each of its four warp schedulers can
#     issue an instruction per cycle, from any of its warps that is ready.
#
# [^exactly]: A block of 40 threads gets two warps, and 24 lanes of the second are never active.
#
# ??? definition "SIMT"
#     Single instruction, multiple threads: one instruction is issued for a warp, and each lane
#     executes it on its own registers.
#
# ??? definition "Warp scheduler | warp schedulers"
#     The part of an SM that picks, in every cycle, a warp whose next instruction is ready to issue.
#     An SM has four of them.
#
# ??? definition "Active mask | active masks"
#     A 32-bit mask that shows which lanes of a warp execute the current instruction.
#
# ??? definition "Divergence | diverge | diverges | divergent"
#     What happens when lanes of one warp take different paths at a branch: the warp executes the paths
#     one after the other.
#
# ??? definition "Reconvergence | reconverge | reconverges"
#     The point at which the lanes of a diverged warp run together again, usually right after the
#     branch.

# %% [markdown]
# ## Branch divergence
#
# The kernel below reads its condition from an array, so it can run any pattern of divergence. Both
# loops have the same length. The pseudocode doesn't mention warps: the threads are independent, so
# divergence changes only the time, never the result.

# %% tab="Pseudocode"
from tilewise import parallel


def two_ways(start, path, end, steps):
    for i in parallel(len(start)):
        x = start[i]
        if path[i] == 0:
            for _ in range(steps):
                x = x * 0.75 + 0.125
        else:
            for _ in range(steps):
                x = x * 0.25 + 0.375
        end[i] = x


# %% tab="CUDA C"
from tilewise import Kernel

TWO_WAYS = Kernel(r"""
// end[i] = start[i] after `steps` iterations of the loop that path[i] selects.
// Any n; 1-D grid of at least n threads; any block size; no shared memory.
extern "C" __global__
void two_ways(const float* start, const int* path, float* end,
              int n, int steps) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float x = start[i];
    if (path[i] == 0) {
        for (int step = 0; step < steps; ++step) {
            x = x * 0.75f + 0.125f;  // watch: x
        }
    } else {
        for (int step = 0; step < steps; ++step) {
            x = x * 0.25f + 0.375f;  // watch: x
        }
    }
    end[i] = x;
}
""")

# %% tab="Numba" needs="numba"
import numpy as np

from tilewise.frameworks import cuda  # numba.cuda


@cuda.jit
def two_ways_numba(start, path, end, steps):
    i = cuda.grid(1)
    if i >= end.size:
        return
    x = start[i]
    if path[i] == 0:
        for _ in range(steps):
            x = x * np.float32(0.75) + np.float32(0.125)  # a plain 0.75 has 64 bits
    else:
        for _ in range(steps):
            x = x * np.float32(0.25) + np.float32(0.375)
    end[i] = x


# %% [markdown]
# Launch a single warp with three iterations per path and the odd lanes on the second path. Without a GPU, the line
# runs on the simulator.

# %%
import numpy as np

lanes = np.arange(32, dtype=np.int32)
x0, x3 = np.zeros(32, np.float32), np.zeros(32, np.float32)

TWO_WAYS(x0, lanes % 2, x3, 32, 3, grid=1, block=32)
print(x3[:4])

# %% [markdown]
# The next cell tests the kernel on five patterns.

# %%
from tilewise import agree, case, ceil_div, output, uniform

PATTERNS = {
    "uniform": lambda i: 0 * i,
    "alternating warps": lambda i: i // 32 % 2,
    "half-warps": lambda i: i % 32 // 16,
    "alternating lanes": lambda i: i % 2,
    "one lane": lambda i: (i % 32 == 7).astype(int),
}


def branching(path, steps, block=256):
    path = np.asarray(path, np.int32)
    arrays = {"start": uniform(len(path)), "path": path, "end": output(len(path))}
    grid = ceil_div(len(path), block)
    return case(**arrays, n=len(path), steps=steps, grid=grid, block=block)


paths = [pattern(np.arange(n)) for n in (77, 300) for pattern in PATTERNS.values()]
cases = [branching(path, 9) for path in paths]
agree(two_ways, TWO_WAYS, cases, rtol=1e-5)
agree(two_ways_numba, TWO_WAYS, cases[1::5], rtol=1e-5, by="Numba")

# %% [markdown]
# Try patterns of your own. At first, each lane's path is random. Choose "own numbers" and type `0, 1`: the pattern
# repeats over all lanes.

# %% fold="Code of the run"
from tilewise import integers, try_it


def branching_at_random(n, steps):
    path = integers(n, low=0, high=2)
    arrays = {"start": uniform(n), "path": path, "end": output(n)}
    return case(**arrays, n=n, steps=steps, grid=ceil_div(n, 32), block=32)


try_it(branching_at_random, TWO_WAYS, n=(1, 32, 256), steps=(1, 3, 20))

# %% [markdown]
# The simulator records the active mask of every instruction, so you can watch the warp diverge. Step through the launch
# below line by line: first line 15 runs with the odd lanes, then line 11 with the even ones. CUDA doesn't specify which
# path runs first.

# %% fold="Code of the figure"
from tilewise import Trace, show
from tilewise.figures import stepped

alternate = branching(PATTERNS["alternating lanes"](np.arange(32)), 3, 32)
run = TWO_WAYS.on(alternate).simulate(trace=Trace())
seen = run.watched["x"]
assert seen.step[seen.lane % 2 == 1].max() < seen.step[seen.lane % 2 == 0].min(), "odd lanes run first"
show(
    stepped(
        run,
        arrays=["end"],
        extent=32,
        start=4,
        title="The warp runs its two paths one after the other",
        caption="One warp of 32 threads runs the kernel above with three iterations per path and the odd lanes on the second path.",
    )
)

# %% [markdown]
# ## The cost of divergence
#
# Now fill an H100 with as many threads as fit, so that instruction issue limits the kernel, and run all five patterns.
# With the pattern "alternating warps", whole warps take different paths. With "half-warps" and "alternating lanes",
# each warp splits into 16 and 16 lanes; with "one lane", it splits into 31 and 1. The table also counts warp
# instructions. The compiler unrolls the loops and the simulator doesn't, so compare these counts only within a column.

# %% fold="Code of the measurement"
from tilewise import measure
from tilewise.measurements import Guess

THREADS = 132 * 2048  # as many threads as an H100 holds at a time


def pattern_of(name):
    pattern = PATTERNS[name]
    return lambda n, steps: TWO_WAYS.on(branching(pattern(np.arange(n)), steps))


def distinct_paths(name):
    """How many of the two paths the lanes of a warp take; the warp executes each of them."""
    return len(np.unique(PATTERNS[name](np.arange(32))))


def after_two(start, path, steps):
    """Where each chain ends, in 64-bit floats: both paths converge to 0.5."""
    factor = np.where(path == 0, 0.75, 0.25)
    return {"end": 0.5 + (start - 0.5) * factor**steps}


two = measure(
    "two_ways",
    variants={name: pattern_of(name) for name in PATTERNS},
    cases=[{"n": THREADS, "steps": 8192}],
    count_case={"n": 256, "steps": 512},
    guess=Guess(
        "How much faster is the uniform kernel than the one in which one lane of each warp diverges?",
        of="uniform",
        over="one lane",
        between=(1.0, 32.0),
        models={"distinct paths per warp": distinct_paths("one lane") / distinct_paths("uniform")},
        because="A single lane on the second path costs its warp as many iterations as 31 lanes would.",
    ),
    reference=after_two,
    counts=("instructions",),
)


# %% fold="Code of the numbers"
from tilewise import check, publish
from tilewise.measurements import medians_us

two_us = medians_us(two)
slowdowns = [two_us[name] / two_us["uniform"] for name in ("half-warps", "alternating lanes", "one lane")]
if np.isfinite(slowdowns).all():
    assert max(slowdowns) < 1.01 * min(slowdowns), "the text gives one factor, whichever lanes diverge"
    assert two_us["alternating warps"] < 1.01 * two_us["uniform"], "the text: whole warps cost nothing"


def iterations(name):
    """Iterations that one warp of a pattern runs, with three per path."""
    one = TWO_WAYS.on(branching(PATTERNS[name](np.arange(32)), 3, 32)).simulate(trace=Trace())
    return len(np.unique(one.watched["x"].step))


issued = [iterations(name) for name in ("uniform", "half-warps", "alternating lanes", "one lane")]
check(issued, [3, 6, 6, 6], name="iterations that a warp of each pattern runs")
of_warp = [len(np.unique(lanes)) for lanes in (np.arange(96) % 48 // 32).reshape(-1, 32)]
check(max(of_warp), 2, name="values of threadIdx.x / 32 in one warp of a block 48 threads wide")
publish(two={"split": max(slowdowns)}, most={"ways": 32}, split={"one": issued[0], "two": issued[-1]})

# %% [markdown]
# If all lanes of a warp take the same path, the second path costs nothing. If they don't, the kernel is
# {{ two.split | .3g }}× slower, whichever lanes diverge.
#
# Why does a single lane cost as much as sixteen? A warp executes each path that at least one of its lanes takes. With
# three iterations per path, a uniform warp runs {{ split.one }} and any diverged warp runs {{ split.two }}, because the
# lengths of the two paths add up. What costs you is divergence, not the `if` itself.[^branch] In a 1-D launch, for
# example, a bounds guard diverges in at most one warp: the one that contains the end of the array.[^edges]
#
# [^branch]: A common misconception: a fast kernel must not contain an `if`. If all active lanes of a warp agree, the
#     branch is *uniform* and costs only its test. A branch on `blockIdx.x` or on the warp index is always uniform.
#     The warp index is the linearised thread index divided by 32, which `threadIdx.x / 32` gives only in 1-D blocks.
#
# [^edges]: In a 2-D launch, the guard can diverge in many warps, wherever the edge of the image cuts
#     through one.
#
# ??? definition "Uniform branch | uniform branches | uniform"
#     A branch at which all active lanes of a warp take the same path.

# %% [markdown]
# ## Independent thread scheduling
#
# On Pascal and earlier, all lanes of a warp shared one program counter, so one path had to finish before the other
# could start. Since compute capability 7.0 (Volta), each lane has its own program counter and call stack, which NVIDIA
# calls [*independent thread scheduling*](https://docs.nvidia.com/cuda/volta-tuning-guide/). The scheduler may now
# switch between the paths of a diverged warp, so a lane can spin on a lock that another lane of its warp holds; on
# earlier GPUs, this could deadlock. Divergence doesn't get any cheaper, as the H100 measurements above show: each
# instruction is still issued for one path only.
#
# In exchange, you can't rely on lockstep: lanes usually reconverge right after the branch, but CUDA doesn't guarantee
# it. If lanes of a warp exchange data through memory, call `__syncwarp()` between the write and the read.
#
# ??? definition "Independent thread scheduling"
#     A scheduling model (compute capability 7.0 and later) in which each lane has its own program
#     counter, so the scheduler can switch between the paths of a diverged warp.

# %% [markdown]
# ## Sorting work by path
#
# The second kernel has up to {{ most.ways }} paths and tests for them one after another, like a chain of `else if`; the
# tests are cheap compared with the loops. Element `i` takes path `i` modulo the number of paths. The array `order`
# decides which thread gets which element: "interleaved" gives neighbouring lanes different paths, "shuffled" is random,
# and "sorted" gives nearly all lanes of a warp the same path.


# %% tab="Pseudocode"
def many_ways(start, path, order, end, steps, paths):
    for tid in parallel(len(start)):
        i = order[tid]
        x = start[i]
        for w in range(paths):
            if path[i] == w:
                for _ in range(steps):
                    x = x * 0.5 + 0.01 * w
        end[i] = x


# %% tab="CUDA C"
MANY_WAYS = Kernel(r"""
// Thread tid runs element i = order[tid] through the loop that path[i] selects.
// 0 <= path[i] < paths; order is a permutation. Any n; 1-D grid of at least
// n threads; any block size; no shared memory.
extern "C" __global__
void many_ways(const float* start, const int* path, const int* order,
               float* end, int n, int steps, int paths) {
    int tid = blockIdx.x * blockDim.x + threadIdx.x;
    if (tid >= n) return;
    int i = order[tid];
    int my_path = path[i];
    float x = start[i];
    for (int w = 0; w < paths; ++w)
        if (my_path == w) {
            float shift = 0.01f * w;
            for (int step = 0; step < steps; ++step) {
                x = x * 0.5f + shift;  // watch: x
            }
        }
    end[i] = x;
}
""")


# %% tab="Numba" needs="numba"
@cuda.jit
def many_ways_numba(start, path, order, end, steps, paths):
    tid = cuda.grid(1)
    if tid >= end.size:
        return
    i = order[tid]
    my_path = path[i]
    x = start[i]
    for w in range(paths):
        if my_path == w:
            shift = np.float32(0.01) * np.float32(w)
            for _ in range(steps):
                x = x * np.float32(0.5) + shift
    end[i] = x


# %%
ORDERS = {
    "interleaved": lambda path: np.arange(len(path)),
    "shuffled": lambda path: np.random.default_rng(7).permutation(len(path)),
    "sorted": lambda path: np.argsort(path, kind="stable"),
}


def choosing(n, steps, ways, order="interleaved", block=256):
    path = np.arange(n, dtype=np.int32) % ways
    taken = ORDERS[order](path).astype(np.int32)
    arrays = {"start": uniform(n), "path": path, "order": taken, "end": output(n)}
    numbers = {"n": n, "steps": steps, "paths": ways}
    return case(**arrays, **numbers, grid=ceil_div(n, block), block=block)


cases = [choosing(n, 5, ways, order) for n, ways in ((77, 3), (300, 7)) for order in ORDERS]
agree(many_ways, MANY_WAYS, cases, rtol=1e-5)
agree(many_ways_numba, MANY_WAYS, cases[1::3], rtol=1e-5, by="Numba")


# %% [markdown]
# With 4 paths, an interleaved warp has lanes on all 4 and runs 4 loops; a sorted warp runs 1. So we predict that the
# time grows in proportion to the mean number of *distinct paths* per warp. Shuffled elements fall in between: 32
# random elements cover {{ distinct.shuffled | .2g }} of the {{ most.ways }} paths on average.


# %% fold="Code of the check"
def paths_per_warp(order, ways, n=132 * 2048):
    """How many distinct paths the lanes of each warp take."""
    path = np.arange(n) % ways
    of_warps = np.sort(path[ORDERS[order](path)].reshape(-1, 32), axis=1)
    return 1 + (np.diff(of_warps, axis=1) != 0).sum(axis=1)


loop_line = next(number for number, line in enumerate(MANY_WAYS.source.splitlines(), 1) if "watch" in line)


def loop_instructions(order, ways):
    counted = MANY_WAYS.on(choosing(1024, 16, ways, order)).simulate()
    return counted.lines[loop_line].issued


for order in ORDERS:
    counted = [loop_instructions(order, ways) / loop_instructions(order, 1) for ways in (4, 32)]
    expected = [paths_per_warp(order, ways, 1024).mean() for ways in (4, 32)]
    check(counted, expected, rtol=1e-9, name=f"loop instructions relative to one path, {order}")
publish(distinct={"shuffled": paths_per_warp("shuffled", 32).mean()})


# %% fold="Code of the measurement"
def ordered(name):
    return lambda n, steps, ways: MANY_WAYS.on(choosing(n, steps, ways, name))


def after_many(start, path, steps):
    """Where each chain ends, in 64-bit floats."""
    fixed = 2 * 0.01 * path
    return {"end": fixed + (start - fixed) * 0.5**steps}


many = measure(
    "many_ways",
    variants={name: ordered(name) for name in ORDERS},
    cases=[{"n": THREADS, "steps": 16_384, "ways": ways} for ways in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)],
    count_case={"n": 1024, "steps": 128, "ways": 32},
    reference=after_many,
    counts=("instructions",),
    fold="All 30 rows",
)

# %% fold="Code of the figure"
from tilewise.figures import Series, line_chart

many_us = medians_us(many, "ways")
measured = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
times = {order: {ways: many_us[order, ways] / many_us[order, 1] for ways in measured} for order in ORDERS}
lines = []
for order in ORDERS:
    expected = [paths_per_warp(order, ways).mean() for ways in measured]
    lines.append(Series(order, measured, list(times[order].values())))
    lines.append(Series(f"{order}, predicted", measured, expected, role="predicted"))
once_us = (32 * many_us["interleaved", 1] - many_us["interleaved", 32]) / 31
show(
    line_chart(
        lines,
        x="paths in the launch",
        y="time relative to one path",
        title="Run time tracks the number of distinct paths per warp",
        caption="The second kernel on an {machine} with 1 to 32 paths: each order's time relative to its own time with one path, and the mean number of distinct paths per warp.",
    )
)
if np.isfinite(once_us):
    assert times["interleaved"][32] > 0.9 * 32, "the title says that the time tracks the paths per warp"
    assert times["sorted"][32] < 1.1, "the title says that the paths in the launch do not count"
    assert times["shuffled"][32] < 1.1 * paths_per_warp("shuffled", 32).mean(), "the text: a little longer"
publish(
    many={"interleaved": {"ratio": times["interleaved"][32]}},
    sort_gain=many_us["interleaved", 32] / many_us["sorted", 32],
)

# %% [markdown]
# That answers the opening question. With {{ most.ways }} paths and interleaved elements, the kernel is
# {{ many.interleaved.ratio | .2g }}× slower than with one path: each lane runs its loop while the 31 others wait.
# Sorted elements cost almost nothing extra, so sorting makes the kernel {{ sort_gain | .2g }}× faster.
#
# Shuffled elements are a little slower than the mean predicts. A launch ends when its busiest warp scheduler finishes,
# and some schedulers happen to get more distinct paths than others.
#
# Sorting isn't free: you pay for the sort, and reads and writes are no longer contiguous. It pays
# off when the paths are long. Path tracers group rays by material for this reason; see
# [Laine, Karras and Aila (2013)](https://research.nvidia.com/publication/2013-07_megakernels-considered-harmful-wavefront-path-tracing-gpus).

# %% [markdown]
# ## Block scheduling
#
# How do warps get to an SM in the first place? A single work distributor for the whole chip keeps the blocks of a
# launch in a queue and assigns the next one to an SM with a free slot. How many slots an SM has depends on the
# registers, the shared memory and the threads that each block needs, up to a fixed maximum. The SM splits the block
# into warps and keeps the block's slot occupied until its last warp exits. CUDA guarantees no order among blocks, so a
# block must never wait for one that may not have started.

# %% [markdown]
# ## Predication
#
# A short `if` often compiles to no branch at all. The compiler emits code that computes both values in every lane and
# selects one, or it *predicates* the instruction: the warp issues it, but it takes effect only in lanes where a
# condition holds. Either way, nothing diverges. Every lane pays for both sides, though, so compilers do this only for
# a few instructions. The table compares a leaky ReLU, which selects between two values, with the two loops of the
# earlier kernel.
#
# ??? definition "Predication | predicated"
#     Issuing an instruction for a whole warp but letting it take effect only in lanes where a
#     condition holds, instead of branching around it.

# %% fold="Code of the table"
from tilewise import Table

LEAKY = Kernel(r"""
// y[i] = leaky ReLU of x[i]. Any n; 1-D grid of at least n threads; any block size.
extern "C" __global__
void leaky(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = x[i];
    if (v < 0.0f) v = 0.1f * v;
    y[i] = v;
}
""")

signs = (np.arange(256) % 2 * 2 - 1).astype(np.float32)
short = LEAKY.on(case(x=signs, y=output(256), n=256, grid=1, block=256)).simulate()
long = TWO_WAYS.on(branching(PATTERNS["alternating lanes"](np.arange(256)), 8)).simulate()
check(short.counts.divergent_branches, 0, name="divergent branches of the leaky ReLU")
rows = [
    [name, counts.issued, counts.divergent_branches, 100 * counts.active_lanes / (32 * counts.issued)]
    for name, counts in {"leaky ReLU": short.counts, "two loops": long.counts}.items()
]
columns = ["kernel", "warp instructions", "divergent branches", "active lanes, %"]
caption = "Eight warps in which alternating lanes decide differently, counted by the simulator. The leaky ReLU stays below 100% because no lane is active in the return of its bounds guard."
show(Table(columns, rows, caption=caption))

# %% [markdown]
# ## Takeaways
#
# - A warp issues one instruction for its 32 lanes, and the active mask selects the lanes that
#   execute it.
# - A warp executes every path that at least one of its lanes takes, so the times of its distinct
#   paths add up.
# - A branch that is uniform within each warp costs only its test. Sorting work by path makes
#   divergent branches uniform.
#
# ## In your own kernel
#
# In Nsight Compute, look at *Avg. Active Threads Per Warp* (`smsp__thread_inst_executed_per_inst_executed.ratio`): a
# value well below 32 means divergence or partly filled warps. Then find the branch in the *Divergent Branches* column
# of the Source page (`smsp__sass_branch_targets_threads_divergent`), and make the condition depend on the warp index,
# or sort the work by path.

# %% fold="Code of the exercise"
from tilewise import exercise

BY_WARP = Kernel(r"""
extern "C" __global__
void even_and_odd(const float* x, float* y, int n, int steps) {
    int thread = blockIdx.x * blockDim.x + threadIdx.x;
    int half = (n + 1) / 2, whole = (half + 31) / 32 * 32;
    bool odd = thread >= whole;
    int i = odd ? 2 * (thread - whole) + 1 : 2 * thread;
    if (i >= n) return;
    float v = x[i];
    if (odd) {
        for (int step = 0; step < steps; ++step) v = v * 0.25f + 0.375f;
    } else {
        for (int step = 0; step < steps; ++step) v = v * 0.75f + 0.125f;
    }
    y[i] = v;
}
""")


def even_and_odd_tests(kernel):
    for n in (1, 31, 64, 77, 200):
        x = np.linspace(-1, 2, n, dtype=np.float32)
        y = np.full(n, np.nan, np.float32)
        grid = ceil_div(ceil_div(n, 2) + 31, 32) + ceil_div(n // 2 + 31, 32)
        run = kernel.simulate(x, y, n, 3, grid=grid, block=32)
        shrunk = np.where(np.arange(n) % 2, 0.25**3, 0.75**3)
        assert np.allclose(y, 0.5 + (x - 0.5) * shrunk, atol=1e-6), f"n = {n}: a value is wrong"
        text = ["", *kernel.source.splitlines()]
        divergent = {
            number: counts.divergent_branches
            for number, counts in run.lines.items()
            if counts.divergent_branches and "return" not in text[number]
        }
        assert not divergent, f"n = {n}: divergent branches at lines {divergent}"


exercise(
    "Even and odd without divergence",
    """
    Apply `v = v * 0.75f + 0.125f` to the even elements of `x` and `v = v * 0.25f + 0.375f` to the
    odd ones, `steps` times each. If thread `i` handles element `i`, `if (i % 2)` diverges in every
    warp. Write `even_and_odd(x, y, n, steps)` so that no warp runs both loops. The launch uses
    blocks of 32 threads; each half is rounded up to whole warps, and there are enough blocks for both.
    The tests compare the values and allow no divergent branch except a guard of the form `if (...) return;`.
    """,
    answer=BY_WARP,
    tests=even_and_odd_tests,
    wrong=[
        {"thread >= whole": "thread % 2", "odd ? 2 * (thread - whole) + 1 : 2 * thread": "thread"},
        {", whole = (half + 31) / 32 * 32": "", "whole": "half"},
    ],
    hint="Choose the parity from the thread index, then compute the element index from the thread index and the parity.",
)

# %% [markdown]
# When a warp stalls, for example on memory, the scheduler can issue from another warp.
# [Occupancy and latency hiding](../speed/occupancy.py) shows how many warps that takes.
