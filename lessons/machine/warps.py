# ---
# title: Thirty-two lanes, one instruction
# needs: [machine/chip, kernels/grids]
# summary: "The 32 lanes of a warp want to go 32 different ways. How many times as long does the warp take?"
# description: "What a branch costs, predicted from which lanes take it and measured for one to thirty-two ways."
# date: 2026-11-21
# tags: [warps, divergence, branches]
# ---

# %% [markdown]
# A kernel asks each thread which of {{ most.ways }} loops it is to run, and every loop takes
# equally long. No thread runs more than one. How many times as long does the kernel take as one
# in which all threads run the same loop: once, twice, {{ most.ways }} times? It depends on which
# threads lie in a warp together, and the same threads in another order can change the answer.

# %% [markdown]
# ## One instruction at a time
#
# A warp has 32 lanes and one instruction. Fetching and decoding an instruction takes circuits, and
# an SM spends them once for a warp, not for each of the 2,048 threads that it holds; 32 units then
# carry it out on 32 lanes' own registers: SIMT.[^four] What if a branch sends some lanes one way
# and the rest the other? Then the warp goes both ways, one after the other. On each way the lanes
# that do not belong there are off; the active mask says which are on.[^exactly] Behind the branch
# all of them reconverge.
#
# ??? question "Why do warps exist?"
#     Because an instruction costs nearly the same to fetch, decode and choose whether it serves one
#     thread or 32. Shared by 32, this leaves more of the chip to the units that compute. It also
#     brings 32 addresses together at one instant, which can be served as one request if they are
#     neighbours. The price is this page's subject: lanes that want different instructions must take
#     turns.
#
# [^four]: [Where the sources differ](../../conventions.md#the-sources): the blog post has an SM run
#     one warp at a time. An SM has four warp schedulers, and each can send an instruction off in
#     every cycle, from whichever of its warps is ready.
#
# [^exactly]: Where the sources differ: one set of notes calls 32 the minimum. On NVIDIA's GPUs it
#     is exactly 32, so far on all of them; a block of 40 threads takes two warps, the second with
#     24 lanes that are never on. AMD's GPUs for servers have 64, so a program for both asks for
#     `warpSize`. And the warps of eight or four threads in the sources are drawing aids.
#
# ??? definition "SIMT"
#     Single instruction, multiple threads: one instruction is issued for a warp, and each lane
#     carries it out on its own registers.
#
# ??? definition "Warp scheduler | warp schedulers"
#     The part of an SM that picks, in every cycle, a warp whose next instruction can start. There
#     are four in an SM.
#
# ??? definition "Active mask | active masks"
#     32 bits that say which lanes of a warp take part in the instruction.
#
# ??? definition "Divergence | diverge | diverges | divergent"
#     Lanes of one warp taking different ways at a branch, so that the ways are run one after the
#     other.
#
# ??? definition "Reconvergence | reconverge | reconverges"
#     The point behind a branch from which the lanes of a warp run together again.

# %% [markdown]
# ## From blocks to warps
#
# How does a warp come to an SM? With its block. A launch's blocks wait in a row; an SM with room
# takes the next one, cuts it into warps, and keeps all of them until the last has ended. No order
# among blocks is promised, and an SM that got short ones takes more of them. A kernel must come to
# the same result in every order, which is why blocks must not wait for each other.

# %% fold="Code of the figure"
from tilewise import show
from tilewise.figures import Span, timeline

SMS, ROOM = 4, 2
LENGTHS = (6, 3, 4, 2, 5, 2, 3, 4, 4, 2, 3, 5, 2, 3)  # made up


def placed(lengths):
    """Who takes which block when: the next in the row goes to the place that is free first."""
    free = {(sm, place): 0.0 for place in range(ROOM) for sm in range(SMS)}
    spans = []
    for block, length in enumerate(lengths):
        where = min(free, key=free.get)
        sm, place = where
        row = f"SM {sm}, place {place + 1}"
        spans.append(Span(row, free[where], free[where] + length, f"block {block}", "block"))
        free[where] += length
    return sorted(spans, key=lambda span: span.row)


show(
    timeline(
        placed(LENGTHS),
        unit="moments",
        title="An SM takes the next block as soon as one of its own has ended",
        caption="A model: 14 blocks of unequal length on four SMs with room for two blocks each. The slider moves through time.",
    )
)

# %% [markdown]
# ## Two ways
#
# The kernel below is told by an array which way each thread goes, so that one kernel serves every
# pattern. The two loops are alike but for their numbers; both lead towards 0.5, so all patterns
# must end at the same values. To the thread, its other way does not exist, and the pseudocode does
# not mention warps at all: divergence changes no result, only the time.

# %% tab="Pseudocode"
from tilewise import parallel


def two_ways(start, way, end, steps):
    for i in parallel(len(start)):
        x = start[i]
        if way[i] == 0:
            for _ in range(steps):
                x = x * 0.75 + 0.125
        else:
            for _ in range(steps):
                x = x * 0.25 + 0.375
        end[i] = x


# %% tab="CUDA C"
from tilewise import Kernel

TWO_WAYS = Kernel(r"""
extern "C" __global__
void two_ways(const float* start, const int* way, float* end,
              int n, int steps) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float x = start[i];
    if (way[i] == 0) {
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
def two_ways_numba(start, way, end, steps):
    i = cuda.grid(1)
    if i >= end.size:
        return
    x = start[i]
    if way[i] == 0:
        for _ in range(steps):
            x = x * np.float32(0.75) + np.float32(0.125)  # a plain 0.75 has 64 bits
    else:
        for _ in range(steps):
            x = x * np.float32(0.25) + np.float32(0.375)
    end[i] = x


# %%
import numpy as np

from tilewise import agree, case, ceil_div, output, uniform

PATTERNS = {
    "all one way": lambda i: 0 * i,
    "every other warp": lambda i: i // 32 % 2,
    "first half of the lanes": lambda i: i % 32 // 16,
    "every other lane": lambda i: i % 2,
    "one lane alone": lambda i: (i % 32 == 7).astype(int),
}


def deciding(way, steps, block=256):
    way = np.asarray(way, np.int32)
    arrays = {"start": uniform(len(way)), "way": way, "end": output(len(way))}
    grid = ceil_div(len(way), block)
    return case(**arrays, n=len(way), steps=steps, grid=grid, block=block)


ways = [pattern(np.arange(n)) for n in (77, 300) for pattern in PATTERNS.values()]
cases = [deciding(way, 9) for way in ways]
agree(two_ways, TWO_WAYS, cases, rtol=1e-5)
agree(two_ways_numba, TWO_WAYS, cases[1::5], rtol=1e-5, by="Numba")

# %% [markdown]
# The simulator runs warps as they were just described and knows the active mask of every
# instruction. First one warp, line by line, with three steps a thread and every other lane on the
# second way. Watch which threads are at work at lines 9 and 13, and when the other half's turn
# comes.

# %% fold="Code of the figure"
from tilewise import Trace
from tilewise.figures import stepped

every_other = TWO_WAYS.on(deciding(PATTERNS["every other lane"](np.arange(32)), 3, 32))
show(
    stepped(
        every_other.simulate(trace=Trace()),
        launch=every_other,
        arrays=["end"],
        extent=32,
        start=4,
        title="The even lanes begin their loop when the odd ones have ended theirs",
        caption="One warp of 32 threads runs the kernel above with three steps a thread; odd lanes go the second way. The figure goes through the lines as the simulator ran them; x is each lane's own.",
    )
)

# %% [markdown]
# The next figure lays such a run out in time, with six steps a thread: a cell has its full colour
# while a lane takes part in a step of the first way, is paler in one of the second, and empty
# while the lane waits. Go through the patterns. Which of them take longer than "all alike"?

# %% fold="Code of the figure"
from tilewise.figures import heat_map


def lanes_at_work(pattern):
    """Lanes by moments of a warp: 0 where a lane waits, else the shade of the way that it is on."""
    way = pattern(np.arange(32))
    seen = TWO_WAYS.on(deciding(way, 6, 32)).simulate(trace=Trace(blocks=[0], warps=[0])).watched["x"]
    moment = {step: at for at, step in enumerate(sorted(set(seen.step.tolist())))}
    work = np.zeros((32, 12))
    for step, lane in zip(seen.step.tolist(), seen.lane.tolist(), strict=True):
        work[lane, moment[step]] = 1.0 if way[lane] == 0 else 0.55
    return work


SHOWN = {
    "all one way": "all alike",
    "first half of the lanes": "half, half",
    "every other lane": "every other",
    "one lane alone": "one alone",
}
works = {name: lanes_at_work(PATTERNS[name]) for name in SHOWN}
moments = {name: int(work.any(axis=0).sum()) for name, work in works.items()}
show(
    heat_map(
        {"lanes at work": np.stack(list(works.values()))},
        steps=list(SHOWN.values()),
        step_name="lanes",
        start=2,
        x="step of the warp",
        y="lane",
        role="lane",
        ranges={"lanes at work": (0, 1)},
        key=False,
        height=430,
        title="Any split of a warp costs both ways in full, even one lane against 31",
        caption="One warp of the kernel above with six steps a thread, from the simulator's active masks. Full colour: the first way, paler: the second, empty: the lane waits.",
        alt="Lanes against the steps of a warp for four patterns. "
        + "; ".join(f"{name}: {count} steps" for name, count in moments.items())
        + ".",
    )
)

# %% [markdown]
# The lengths of the ways add up, whoever takes them: {{ split.one }} steps when all lanes agree,
# {{ split.two }} for any split, be it half and half or {{ split.alone }} lane against 31. What
# the lecture's advice to avoid conditionals leaves out is the other half: a branch that splits
# no warp adds nothing.[^branch] A bounds guard splits one warp at most, the one in which the array
# ends; in {{ guard.warps }} warps with {{ guard.n }} elements it is {{ guard.split }}.
#
# [^branch]: Where the sources differ: the lecture warns against any conditional in a kernel, and
#     the notes ask whether a kernel has branching. What costs is neither, but lanes of one warp
#     on different ways. A branch on the number of the block or of the warp is uniform.
#
# ??? definition "Uniform branch | uniform branches | uniform"
#     Said of a branch at which all active lanes of a warp go the same way.

# %% fold="Code of the numbers"
from tilewise import check, publish

guarded = TWO_WAYS.on(deciding(np.zeros(77), 3, 32)).simulate()
guard_line = next(number for number, line in enumerate(TWO_WAYS.source.splitlines(), 1) if "i >= n" in line)
publish(
    most={"ways": 32},
    split={"one": moments["all one way"], "two": moments["every other lane"], "alone": 1},
    guard={"n": 77, "warps": 3, "split": guarded.lines[guard_line].divergent_branches},
)

# %% [markdown]
# ## Predict, then measure
#
# So the prediction for two ways is a factor of 1 or 2, by the pattern alone. Every SM of an H100
# gets as many warps as it can hold, so that the schedulers always have one that is ready, and the
# time is that of the instructions issued. In the table, `instructions` are those of warps, counted by
# the simulator and, on an H100, by the GPU, whose compiler writes several steps of a loop out in a
# row: compare the rows of a column with each other, not the columns.

# %% fold="Code of the measurement"
from tilewise import measure
from tilewise.measurements import Guess

THREADS = 132 * 2048  # as many threads as an H100 holds at a time


def pattern_of(name):
    pattern = PATTERNS[name]
    return lambda n, steps: TWO_WAYS.on(deciding(pattern(np.arange(n)), steps))


def ways_of_a_warp(name):
    """How many of the two ways a warp's lanes take between them; each costs the whole warp its steps."""
    return len(np.unique(PATTERNS[name](np.arange(32))))


def after_two(start, way, steps):
    """What each chain ends at, in 64-bit floats: both ways halve in on 0.5."""
    factor = np.where(way == 0, 0.75, 0.25)
    return {"end": 0.5 + (start - 0.5) * factor**steps}


two = measure(
    "two_ways",
    variants={name: pattern_of(name) for name in PATTERNS},
    cases=[{"n": THREADS, "steps": 8192}],
    count_case={"n": 256, "steps": 512},
    guess=Guess(
        "How many times as fast is the kernel when all lanes go one way as when one lane of each warp goes its own?",
        of="all one way",
        over="one lane alone",
        at={"n": THREADS, "steps": 8192},
        between=(1.0, 32.0),
        models={"steps of the warp": ways_of_a_warp("one lane alone") / ways_of_a_warp("all one way")},
        because="One lane on the second way takes as many of the warp's steps as 31 would.",
    ),
    reference=after_two,
    tolerance=1e-5,
    counts=("instructions",),
)


# %% fold="Code of the numbers"
from tilewise.measurements import medians_us

two_us = medians_us(two)
splits = [two_us[name] / two_us["all one way"] for name in list(SHOWN)[1:]]
publish(
    two={
        "once_us": 2 * two_us["all one way"] - two_us["every other lane"],
        "uniform": two_us["every other warp"] / two_us["all one way"],
        "least": min(splits),
        "most": max(splits),
    },
)

# %% [markdown]
# Split between warps, the kernel takes {{ two.uniform | .2f }} times as long as without a split;
# split between lanes, {{ two.least | .2f }} to {{ two.most | .2f }} times, whichever lanes they
# are. How often each of the two ways is taken does not matter, only that it is taken at all. The
# factor is not quite 2, since some of the time is paid once, whatever the lanes do: by these rows
# {{ two.once_us | .1f }} µs, of which an empty launch takes {{ two_ways.ceilings.launch_us | .1f }}. Now make it
# {{ most.ways }} ways.

# %% [markdown]
# ## Many ways
#
# The second kernel asks one way after another, like a chain of `else if`. An element's way is its
# number modulo the number of ways, and a second array says which thread takes which element: in
# the order given, where neighbours go different ways; shuffled; or sorted by way, so that a warp
# finds 32 elements that go the same one. The results are the same in every order.


# %% tab="Pseudocode"
def many_ways(start, way, order, end, steps, ways):
    for thread in parallel(len(start)):
        i = order[thread]
        x = start[i]
        for w in range(ways):
            if way[i] == w:
                for _ in range(steps):
                    x = x * 0.5 + 0.01 * w
        end[i] = x


# %% tab="CUDA C"
MANY_WAYS = Kernel(r"""
extern "C" __global__
void many_ways(const float* start, const int* way, const int* order,
               float* end, int n, int steps, int ways) {
    int thread = blockIdx.x * blockDim.x + threadIdx.x;
    if (thread >= n) return;
    int i = order[thread];
    int mine = way[i];
    float x = start[i];
    for (int w = 0; w < ways; ++w)
        if (mine == w) {
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
def many_ways_numba(start, way, order, end, steps, ways):
    thread = cuda.grid(1)
    if thread >= end.size:
        return
    i = order[thread]
    mine = way[i]
    x = start[i]
    for w in range(ways):
        if mine == w:
            shift = np.float32(0.01) * np.float32(w)
            for _ in range(steps):
                x = x * np.float32(0.5) + shift
    end[i] = x


# %%
ORDERS = {
    "ways alternate": lambda way: np.arange(len(way)),
    "shuffled": lambda way: np.random.default_rng(7).permutation(len(way)),
    "sorted by way": lambda way: np.argsort(way, kind="stable"),
}


def choosing(n, steps, ways, order="ways alternate", block=256):
    way = np.arange(n, dtype=np.int32) % ways
    taken = ORDERS[order](way).astype(np.int32)
    arrays = {"start": uniform(n), "way": way, "order": taken, "end": output(n)}
    numbers = {"n": n, "steps": steps, "ways": ways}
    return case(**arrays, **numbers, grid=ceil_div(n, block), block=block)


cases = [choosing(n, 5, ways, order) for n, ways in ((77, 3), (300, 7)) for order in ORDERS]
agree(many_ways, MANY_WAYS, cases, rtol=1e-5)
agree(many_ways_numba, MANY_WAYS, cases[1::3], rtol=1e-5, by="Numba")


# %% [markdown]
# The prediction for a whole launch is the mean number of different ways in a warp. In the order
# given that is the number of ways, sorted it is hardly more than 1, and shuffled it lies between:
# of {{ most.ways }} ways, 32 lanes drawn at random hit {{ distinct.shuffled | .1f }}. The
# simulator's count of the loop's instructions must be in the same proportion.


# %% [markdown]
# With 32 ways every lane has its own, and in each step of the warp one lane works while 31 wait: the warp has
# become a single thread.


# %%
def ways_of_warps(order, ways, n=132 * 2048):
    """How many different ways the lanes of each warp go."""
    way = np.arange(n) % ways
    of_warps = np.sort(way[ORDERS[order](way)].reshape(-1, 32), axis=1)
    return 1 + (np.diff(of_warps, axis=1) != 0).sum(axis=1)


# %% fold="Code of the check"
loop_line = next(number for number, line in enumerate(MANY_WAYS.source.splitlines(), 1) if "watch" in line)


def loop_instructions(order, ways):
    counted = MANY_WAYS.on(choosing(1024, 16, ways, order)).simulate()
    return counted.lines[loop_line].issued


for order in ORDERS:
    counted = [loop_instructions(order, ways) / loop_instructions(order, 1) for ways in (4, 32)]
    expected = [ways_of_warps(order, ways, 1024).mean() for ways in (4, 32)]
    check(counted, expected, rtol=1e-9, name=f"loop instructions against one way, {order}")
publish(distinct={order.split()[0]: ways_of_warps(order, 32).mean() for order in ORDERS})


# %% fold="Code of the measurement"
def ordered(name):
    return lambda n, steps, ways: MANY_WAYS.on(choosing(n, steps, ways, name))


def after_many(start, way, steps):
    """What each chain ends at, in 64-bit floats."""
    fixed = 2 * 0.01 * way
    return {"end": fixed + (start - fixed) * 0.5**steps}


many = measure(
    "many_ways",
    variants={name: ordered(name) for name in ORDERS},
    cases=[{"n": THREADS, "steps": 16_384, "ways": ways} for ways in (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)],
    count_case={"n": 1024, "steps": 128, "ways": 32},
    reference=after_many,
    tolerance=1e-5,
    counts=("instructions",),
    fold="All 30 rows",
)

# %% fold="Code of the figure"
from tilewise.figures import Series, line_chart


def busiest(ways, sms=132, schedulers=4):
    """Shuffled: different ways in a warp, averaged over the warps of the scheduler that has most of them to run."""
    different = ways_of_warps("shuffled", ways)
    warp = np.arange(len(different))
    runs_on = warp // 8 % sms * schedulers + warp % schedulers  # blocks of 8 warps, dealt out in turn
    return float(np.bincount(runs_on, different).max() / np.bincount(runs_on).max())


many_us = medians_us(many, "ways")
asked = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
times = {order: {ways: many_us[order, ways] / many_us[order, 1] for ways in asked} for order in ORDERS}
lines = []
for order in ORDERS:
    expected = [ways_of_warps(order, ways).mean() for ways in asked]
    lines.append(Series(order, asked, list(times[order].values())))
    lines.append(Series(f"{order}, predicted", asked, expected, role="predicted"))
once_us = (32 * many_us["ways alternate", 1] - many_us["ways alternate", 32]) / 31
show(
    line_chart(
        lines,
        x="ways",
        y="time, one way = 1",
        title="The time follows the number of different ways in a warp, not in the launch",
        caption="The second kernel on an {machine} for one to 32 ways, each order divided by its own time for one way, and the mean number of different ways in a warp.",
    )
)
if np.isfinite(once_us):
    assert times["ways alternate"][32] > 0.9 * 32, "the title says that the time follows the ways in a warp"
    assert times["sorted by way"][32] < 1.1, "the title says that the ways in the launch do not count"
publish(
    many={order.split()[0]: {"ratio": times[order][32]} for order in ORDERS},
    sort_gain=many_us["ways alternate", 32] / many_us["sorted by way", 32],
    once_us=once_us,
    last={
        "ways": busiest(32),
        "ratio": (many_us["shuffled", 32] - once_us) / (many_us["shuffled", 1] - once_us),
        "ways_of_16": busiest(16),
        "ratio_of_16": (many_us["shuffled", 16] - once_us) / (many_us["shuffled", 1] - once_us),
    },
)

# %% [markdown]
# With {{ most.ways }} ways, lanes that alternate take {{ many.ways.ratio | .1f }} times as long as
# with one, shuffled ones {{ many.shuffled.ratio | .1f }} times and sorted ones
# {{ many.sorted.ratio | .2f }} times. Sorting the elements by what is to be done with them makes
# the kernel {{ sort_gain | .1f }} times as fast, at the price of a sort, and of reads and writes
# that are no longer in order.

# %% [markdown]
# Two differences from the prediction remain. What is paid once is {{ once_us | .1f }} µs here, by
# the rows of one and of {{ most.ways }} ways, much as with two ways. And shuffled lanes take longer
# than their mean says: a launch ends when the last of its schedulers has done its 16 warps, and
# chance does not give all of them the same number of ways. With blocks dealt out to the SMs in turn,
# the busiest has {{ last.ways | .2f }} ways a warp on average; without what is paid once,
# the recorded time is {{ last.ratio | .2f }} times that of one way. For 16 ways it is
# {{ last.ways_of_16 | .2f }} and {{ last.ratio_of_16 | .2f }}.

# %% [markdown]
# ## Branches that are none
#
# A short `if` often becomes no branch at all. The compiler lets all lanes compute both values and
# keep one, or carries an instruction out for all and drops the result for some: predication. Then
# no lane waits, and no divergence is counted. Of the two kernels below, one chooses between two
# numbers and one between two loops; the simulator counts the branches at which a warp parted.
#
# ??? definition "Predication | predicated"
#     Letting an instruction take effect only in lanes where a condition holds, in place of a branch
#     around it.

# %% fold="Code of the table"
from tilewise import Table

LEAKY = Kernel(r"""
extern "C" __global__
void leaky(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = x[i];
    if (v < 0.0f) v = 0.1f * v;
    y[i] = v;
}
""")

halves = (np.arange(256) % 2 * 2 - 1).astype(np.float32)
short = LEAKY.on(case(x=halves, y=output(256), n=256, grid=1, block=256)).simulate()
long = TWO_WAYS.on(deciding(PATTERNS["every other lane"](np.arange(256)), 8)).simulate()
rows = [
    [name, counts.issued, counts.divergent_branches, counts.active_lanes / (32 * counts.issued)]
    for name, counts in {"v < 0 ? 0.1 · v : v": short.counts, "one of two loops": long.counts}.items()
]
columns = ["what the lanes choose between", "instructions", "branches that part a warp", "lanes on, share"]
caption = "Eight warps in which every other lane decides otherwise, counted by the simulator."
show(Table(columns, rows, caption=caption))

# %% [markdown]
# ## The answer
#
# With {{ most.ways }} ways the kernel takes {{ many.ways.ratio | .1f }} times as long if every
# lane of a warp goes its own, and {{ many.sorted.ratio | .2f }} times if the elements are sorted,
# so that nearly all warps agree. The number of ways in the code does not matter, and neither does
# the number of threads on each; what counts is how many different ways meet in one warp.

# %% [markdown]
# ## Takeaways
#
# - A warp issues one instruction at a time for 32 lanes; the active mask says for which.
# - Where lanes of a warp part, the ways are run one after the other and their times add up. One
#   lane is enough.
# - A branch at which whole warps agree costs no more than the test.
# - Sorting work by kind, or choosing which index decides, turns divergent branches into uniform
#   ones.


# %% fold="The whole cell, with two wrong answers that the tests turn down"
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

AS_GIVEN = Kernel(r"""
extern "C" __global__
void even_and_odd(const float* x, float* y, int n, int steps) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = x[i];
    if (i % 2) {
        for (int step = 0; step < steps; ++step) v = v * 0.25f + 0.375f;
    } else {
        for (int step = 0; step < steps; ++step) v = v * 0.75f + 0.125f;
    }
    y[i] = v;
}
""")

NOT_ROUNDED = Kernel(BY_WARP.source.replace(", whole = (half + 31) / 32 * 32", "").replace("whole", "half"))


def even_and_odd_tests(kernel):
    for n in (1, 31, 64, 77, 200):
        x = np.linspace(-1, 2, n, dtype=np.float32)
        y = np.full(n, np.nan, np.float32)
        grid = ceil_div(ceil_div(n, 2) + 31, 32) + ceil_div(n // 2 + 31, 32)
        run = kernel.simulate(x, y, n, 3, grid=grid, block=32)
        shrunk = np.where(np.arange(n) % 2, 0.25**3, 0.75**3)
        assert np.allclose(y, 0.5 + (x - 0.5) * shrunk, atol=1e-6), f"n = {n}: a value is wrong"
        text = ["", *kernel.source.splitlines()]
        parted = {
            number: counts.divergent_branches
            for number, counts in run.lines.items()
            if counts.divergent_branches and "return" not in text[number]
        }
        assert not parted, f"n = {n}: warps part at lines {parted}"


exercise(
    "Even and odd without divergence",
    """
    Even elements of `x` are to go through `v = v * 0.75f + 0.125f`, odd ones through
    `v = v * 0.25f + 0.375f`, `steps` times each. With element i on thread i, `if (i % 2)` parts every
    warp. Write `even_and_odd(x, y, n, steps)` so that no warp runs both loops. It is
    launched with blocks of 32 threads and with enough of them that each half may be rounded up to whole
    warps. The tests compare the values and allow no warp to part, except at a guard of the form
    `if (...) return;`.
    """,
    answer=BY_WARP,
    tests=even_and_odd_tests,
    wrong=[AS_GIVEN, NOT_ROUNDED],
    hint="Let a thread's number decide the parity, and its element follow from both.",
)

# %% [markdown]
# A warp that waits for its own other half cannot be helped by other lanes, but the scheduler can
# run another warp meanwhile. How many warps it takes to hide all waiting, and how registers limit
# their number, is the subject of [hiding latency](../speed/occupancy.py).
