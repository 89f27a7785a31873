# ---
# title: "Atomic contention: many threads, one address"
# needs: [memory/reductions]
# further: memory/reductions
# summary: "Every thread adds its element to one total. What does that cost for 2²² floats, and why are integers so much faster?"
# description: "Contended atomics in CUDA: floats, integers, one address per lane and one atomic per warp, measured. What the compiler aggregates for you."
# date: 2026-11-23
# tags: [atomics, contention, reduction]
# ---

# %% [markdown]
# The shortest reduction in CUDA is one line: `atomicAdd(total, x[i])`. It's correct, and for 2²² floats it
# takes {{ contention.float_one_atomic_per_thread.median | us }}. With integers instead of floats, the same line is far faster. How much faster?
#
# You'll find this pattern wherever many threads update a histogram, a counter or a loss.

# %% fold="Imports"
import numpy as np

from tilewise import Guess, Kernel, measure, publish, show
from tilewise.figures import bars
from tilewise.measurements import medians_us

# %% [markdown]
# ## One address: atomics are serialised
#
# An atomic reads, adds and writes as one indivisible operation. Two atomics on the same address therefore have to be
# executed one after the other. Suppose a warp of 32 lanes adds to a single total: that's 32 operations in a row. If
# only lane 0 adds the warp's sum, there's just one operation.
#
# ??? definition "Contention"
#     A situation in which many threads update the same address at the same time, so that their operations are serialised.
#
# The kernels below compute the total in four ways. In the first two, every thread executes an atomic, on a float or
# on an integer. In the third, lane `t` has an address of its own, `bins[t]`. In the last one, shuffles sum the warp
# first.

# %% title="CUDA C"
FLOATS = Kernel(
    r"""
// *total += the sum of x, one atomic per thread. x: n floats. One-dimensional grid and block.
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
// As above, with one address per lane: bins has 32 floats.
extern "C" __global__
void tally_by_lanes(const float* x, float* bins, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&bins[i % 32], x[i]);
}
// As above, with one atomic per warp; blocks of whole warps.
extern "C" __global__
void tally_by_warps(const float* x, float* total, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    float s = i < n ? x[i] : 0.0f;
    for (int offset = 16; offset > 0; offset /= 2)
        s += __shfl_down_sync(0xffffffff, s, offset);
    if (threadIdx.x % 32 == 0) atomicAdd(total, s);
}
""",
    "tally_floats",
)

# %% [markdown]
# Run the first kernel on an array of a hundred ones.

# %%
ones, total = np.ones(100, np.float32), np.zeros(1, np.float32)
FLOATS(ones, total, 100, grid=1, block=128)
print(total[0])


# %% fold="Code of the checks"
from tilewise import agree, case, ceil_div, constant, integers, parallel


def tallying(n):
    return case(
        x=integers(n, low=-8, high=9, dtype="float32", seed=11),
        whole=integers(n, low=-8, high=9, seed=11),
        total=constant(1, value=0),
        count=constant(1, value=0, dtype="int32"),
        bins=constant(32, value=0),
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


def tally_by_lanes(x, bins):
    for i in parallel(len(x)):
        bins[i % 32] += x[i]


INTEGERS, BY_LANES, BY_WARPS = (FLOATS.named(f"tally_{how}") for how in ("integers", "by_lanes", "by_warps"))
some = [tallying(n) for n in (77, 1000)]
agree(tally_floats, FLOATS, some)
agree(tally_integers, INTEGERS, some)
agree(tally_by_lanes, BY_LANES, some)
agree(tally_floats, BY_WARPS, some)

# %% [markdown]
# Run three of them. How many atomic requests does each one issue, and how many sectors do they touch?

# %% fold="Code of the run"
from tilewise import try_it

TALLIES = {"one atomic per thread": FLOATS, "one address per lane": BY_LANES, "one atomic per warp": BY_WARPS}
try_it(dict.fromkeys(TALLIES, tallying), TALLIES, n=(1, 100, 2000))

# %% [markdown]
# ## Benchmark: floats, integers, lanes and warps
#
# Count the atomics. As written, the float and integer kernels execute the same number of atomics, so they should take
# the same time. With one atomic per warp, there are 1/32 as many. Do you expect the compiler to treat integers
# differently?

# %% fold="Code of the measurement"
TALLIED = 2**22


def tallied_right(x, whole):
    return {
        "total": x.sum(keepdims=True),
        "count": whole.sum(keepdims=True),
        "bins": x.reshape(-1, 32).sum(axis=0),
    }


tallies = measure(
    "contention",
    variants={
        "float, one atomic per thread": lambda n: FLOATS.on(tallying(n)),
        "integer, one atomic per thread": lambda n: INTEGERS.on(tallying(n)),
        "float, one address per lane": lambda n: BY_LANES.on(tallying(n)),
        "float, one atomic per warp": lambda n: BY_WARPS.on(tallying(n)),
    },
    cases=[{"n": TALLIED}],
    count_case={"n": 2**13},
    bytes=lambda n: 4 * n,
    flop=lambda n: n,
    reference=tallied_right,
    tolerance=0.0,
    counts=("instructions",),
    reasons={"*": "One address: atomics are serialised"},
    guess=Guess(
        "How much faster are integers than floats, with one atomic per thread?",
        of="integer, one atomic per thread",
        over="float, one atomic per thread",
        between=(0.1, 100),
        models={"equally many atomics": 1.0, "the compiler sums each warp first": 32.0},
        because="Integer addition gives the same result however it's grouped, so the compiler may sum each warp first.",
    ),
)

# %% fold="Code of the numbers"
tally_us = medians_us(tallies)
publish(
    tallied={
        "warp_ns": 1000 * tally_us["float, one atomic per warp"] / (TALLIED / 32),
        "integer_ns": 1000 * tally_us["integer, one atomic per thread"] / (TALLIED / 32),
        "integer_times": tally_us["float, one atomic per thread"]
        / tally_us["integer, one atomic per thread"],
        "warps_times": tally_us["float, one atomic per thread"] / tally_us["float, one atomic per warp"],
    }
)
if np.isfinite(list(tally_us.values())).all():
    show(
        bars(
            tally_us,
            x="time [µs]",
            title="One atomic per warp is far cheaper than one per thread",
            caption=f"Time to add up {TALLIED:,} elements with atomics on one address, or on 32 (one per lane), on an {{machine}}.",
        )
    )

# %% [markdown]
# With one float atomic per warp, the sum takes {{ contention.float_one_atomic_per_warp.median | us }}, which is
# {{ tallied.warps_times | .0f }}× faster than with one per thread, as the number of atomics predicts. With one address
# per lane, each address receives only as many atomics as the single total does in the version with one atomic per warp,
# yet the kernel takes somewhat longer, {{ contention.float_one_address_per_lane.median | us }}.
#
# Integers take only {{ contention.integer_one_atomic_per_thread.median | us }}, which is
# {{ tallied.integer_times | .0f }}× faster than floats. The compiler sums each warp first and then issues a single
# atomic per warp. It's allowed to do that for integers, whose sum doesn't depend on how the additions are grouped.
# Besides, with one atomic per warp, each integer atomic takes only {{ tallied.integer_ns | .2f }} ns, whereas a float
# atomic takes {{ tallied.warp_ns | .2f }} ns.

# %% [markdown]
# ## Takeaways
#
# - Atomics on one address are serialised, so their cost is proportional to the number of atomics per address.
# - Sum within the warp or the block first, and execute one atomic for the result.
# - The compiler aggregates integer atomics within a warp. It can't do that for floats, because each addition rounds:
#   grouping the additions can give a result that no order of individual atomics would.
#
# ## In your own kernel
#
# In Nsight Compute, add up `smsp__inst_executed_op_global_red.sum` (atomics that return nothing) and
# `smsp__sass_inst_executed_op_global_atom.sum` (atomics that return the old value), and compare the total with the
# number of results that you really have to combine. Both count warp instructions, so multiply by the number of lanes
# that take part: one instruction of `tally_floats` executes 32 atomics, while one of `tally_by_warps` executes just
# one. If there are far more atomics than results, reduce in registers or shared memory first.

# %%
from tilewise import exercise

exercise(
    "A histogram's worst input",
    """
    A histogram of bytes has 256 bins in global memory and uses one integer atomic per element. For which input does
    contention hurt most, and for which least? Name one change to the kernel that helps in both cases.
    """,
    hint="How many elements of a warp go to the same bin, and how many warps use that bin?",
    explanation="It's worst if all elements are equal, because all atomics then update one address, and best if the elements are spread evenly over the bins. Counting in shared memory first leaves one global atomic per bin and \\block, whatever the input.",
)
