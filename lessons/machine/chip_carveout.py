# ---
# title: "The L1 carve-out: how much cache shared memory leaves"
# needs: [machine/chip]
# further: machine/chip
# summary: "If shared memory takes as much of an SM's on-chip memory as it can, how much slower are loads from a working set of 96 KiB?"
# description: "The shared-memory carve-out divides an SM's on-chip memory between L1 and shared memory. What each setting does to latency and throughput."
# date: 2026-11-23
# tags: [carve-out, L1 cache, shared memory]
# ---

# %% [markdown]
# Each SM of an H100 has 256 KiB of on-chip memory for L1 and shared memory, and a kernel can choose how
# to divide it. Take 96 KiB of data that a kernel loads again and again, and give shared memory as much as it can get.
# By what factor does the latency of a load rise, and by what factor does throughput fall?

# %% [markdown]
# ## Set the carve-out
#
# The part that becomes shared memory is called the *carve-out*. A kernel requests a percentage of the maximum, which is
# 228 KiB on an H100. In CUDA C++, one line before the launch sets it:
#
# ```cpp
# cudaFuncSetAttribute(chase, cudaFuncAttributePreferredSharedMemoryCarveout, 57);
# ```
#
# It's a preference, not a command. The driver rounds it up to the next size that the hardware supports, and L1 gets
# the rest. On an H100, the sizes are 0, 8, 16, 32, 64, 100, 132, 164, 196 and 228 KiB. For example, 0.57 × 228 KiB is
# 130 KiB, so the driver sets 132 KiB, which leaves 124 KiB for L1. Without a request, the driver picks a size based on
# how much shared memory the kernel uses.

# %% fold="Code of the numbers"
from tilewise.models.occupancy import LIMITS

TOTAL_KIB = 256  # of an SM's on-chip memory, by NVIDIA's white paper on the H100
SHARED_KIB = [size // 1024 for size in LIMITS[9, 0].shared_choices]
CARVEOUTS = (0, 14, 28, 43, 57, 71, 85, 100)


def granted(percent):
    """The shared memory that a carve-out gets on an H100, in KiB."""
    return next(size for size in SHARED_KIB if size >= SHARED_KIB[-1] * percent / 100)


assert SHARED_KIB == [0, 8, 16, 32, 64, 100, 132, 164, 196, 228], "the text lists them"
assert (granted(57), TOTAL_KIB - granted(57)) == (132, 124), "the example of the text"

# %% [markdown]
# ## Latency: low until the data outgrows L1
#
# Run [the lesson's pointer chase](chip.py#measuring-the-latency-of-each-level) on rings of 32, 96 and 160 KiB, at eight
# carve-outs. At which carve-out do loads from each ring become slow? You can predict it. The ring of 96 KiB fits in L1
# as long as shared memory has at most 256 − 96 = 160 KiB, and the ring of 160 KiB as long as it has at most 96 KiB.

# %% fold="The kernels of the lesson, again"
import numpy as np

from tilewise import Kernel, case, ceil_div, constant, measure, output
from tilewise.kernels.from_lesson import from_lesson

LAY_RING, where_it_ends = from_lesson("machine/chip", "LAY_RING", "where_it_ends")

CHASE_SOURCE = r"""
// Follows `loads` links from line 0 on and writes the index of the line it reaches to end[0].
// ring: lines of 32 words; word 0 of each is the index of the next line. Grid 1, block 1; any GPU.
extern "C" __global__
void chase(const unsigned* ring, int loads, unsigned* end) {
    unsigned line = 0;
    for (int load = 0; load < loads; ++load)
        line = ring[line * 32ull];  // the address of the next load
    end[0] = line;
}
"""
FACTOR, SHIFT = 420 * 10_007 + 1, 2_100_011


def walk(kilobytes, loads, chase):
    """Two launches: many threads fill the ring, one walks it."""
    lines = kilobytes * 1024 // 128
    words = output(lines, 32, dtype="uint32")
    fill = case(ring=words, lines=lines, factor=FACTOR, shift=SHIFT, grid=ceil_div(lines, 8), block=256)
    ring = constant(lines, 32, value=0, dtype="uint32")
    follow = case(ring=ring, loads=loads, end=output(1, dtype="uint32"), grid=1, block=1)
    return [LAY_RING.on(fill), chase.on(follow)]


# %% fold="Code of the measurement"
RING_LOADS = 131_072


def walk_beside(carveout):
    kernel = Kernel(CHASE_SOURCE, options=(f"--carveout={carveout}",))
    return lambda kilobytes, loads: walk(kilobytes, loads, kernel)


beside = measure(
    "chase_beside_shared",
    variants={f"carve-out {carveout} %": walk_beside(carveout) for carveout in CARVEOUTS},
    cases=[{"kilobytes": kilobytes, "loads": RING_LOADS} for kilobytes in (32, 96, 160)],
    count_case={"kilobytes": 4, "loads": 64},
    reference=where_it_ends,
    tolerance=0.0,
    counts=(),
    fold="All 24 rows",
    note="A kilobyte is 1,024 bytes (1 KiB) in this table.",
)

# %% fold="Code of the figure"
from tilewise import publish, show
from tilewise.figures import Mark, Series, line_chart
from tilewise.measurements import medians_us, recorded

clock_ghz = recorded("chase_beside_shared.sm_clock_mhz") / 1000
launch_us = recorded("chase_beside_shared.ceilings.launch_us")
ROLES = {32: "tile", 96: "block", 160: "warp"}
SHARED = [granted(percent) for percent in CARVEOUTS]


def by_size(made, value):
    """For each size, a value for the row of each carve-out."""
    us = medians_us(made, "kilobytes")
    return {kib: [value(kib, us[f"carve-out {percent} %", kib]) for percent in CARVEOUTS] for kib in ROLES}


waits = by_size(beside, lambda kib, us: 1000 * (us - 2 * launch_us) / RING_LOADS * clock_ghz)
show(
    line_chart(
        [Series(f"ring of {kib} KiB", SHARED, waits[kib], role=role) for kib, role in ROLES.items()],
        x="shared memory [KiB]",
        y="cycles per load",
        marks=[Mark(f"{kib} KiB", x=TOTAL_KIB - kib, role=role) for kib, role in ROLES.items()],
        title="Loads are fast as long as the ring fits in L1",
        caption="Cycles per dependent load for rings of 32, 96 and 160 KiB, by the shared memory that the driver sets aside on each SM of an {machine}. To the left of each dotted line, the corresponding ring fits in L1.",
    )
)
if np.isfinite(list(waits.values())).all():
    for kib, cycles in waits.items():
        for shared, one in zip(SHARED, cycles, strict=True):
            assert (one < 1.1 * cycles[0]) == (shared + kib <= TOTAL_KIB), "the text: the model holds"
publish(
    border={"cycles_all": waits[96][0], "cycles_none": waits[96][-1]},
    slower={"latency": waits[96][-1] / waits[96][0]},
)

# %% [markdown]
# The prediction holds for all 24 runs. As soon as the ring is larger than L1, some loads go to L2, and the larger the
# part that doesn't fit, the longer the average load takes. At the maximum carve-out, L1 has only 28
# KiB, and even the ring of 32 KiB no longer fits. For the ring of 96 KiB, a load takes {{ border.cycles_none | .0f }}
# cycles instead of {{ border.cycles_all | .0f }}.

# %% [markdown]
# ## Shared memory: the same memory, lower latency
#
# Does shared memory have the same latency as L1? This kernel builds a ring of 4 KiB in shared memory and chases the
# pointers around it.

# %%
CHASE_SHARED = Kernel(
    r"""
// Builds a ring of LINES words in shared memory and follows `loads` links from word 0;
// end[0] is the word it reaches. Grid 1, block 1; 4 * LINES bytes of shared memory; any GPU.
extern "C" __global__
void chase_shared(unsigned factor, unsigned shift, int loads, unsigned* end) {
    __shared__ unsigned ring[LINES];
    for (unsigned line = 0; line < LINES; ++line)
        ring[line] = (line * factor + shift) % LINES;
    unsigned line = 0;
    for (int load = 0; load < loads; ++load) line = ring[line];
    end[0] = line;
}
""",
    defines={"LINES": 1024},
)

# %% fold="Code of the measurement"
IN_SHARED_LOADS = 524_288


def walk_in_shared(loads):
    numbers = {"lines": 1024, "factor": 421, "shift": 11, "loads": loads}
    return CHASE_SHARED.on(case(**numbers, end=output(1, dtype="uint32"), grid=1, block=1))


in_shared = measure(
    "chase_in_shared",
    variants={"one thread, in shared memory": walk_in_shared},
    cases=[{"loads": IN_SHARED_LOADS}],
    count_case={"loads": 64},
    reference=where_it_ends,
    tolerance=0.0,
    counts=(),
    fold="The row",
)

shared_us = medians_us(in_shared)["one thread, in shared memory"]
shared_cycles = 1000 * (shared_us - launch_us) / IN_SHARED_LOADS * clock_ghz
publish(shared={"cycles": shared_cycles, "l1_cycles": waits[32][0], "less": 1 - shared_cycles / waits[32][0]})
if np.isfinite([shared_cycles, waits[32][0]]).all():
    assert shared_cycles < 0.8 * waits[32][0], "the heading says that shared memory has a lower latency"

# %% [markdown]
# A load from shared memory takes {{ shared.cycles | .0f }} cycles, {{ shared.less | .0% }} less than the
# {{ shared.l1_cycles | .0f }} cycles of an L1 hit in the ring of 32 KiB. Both times include computing the address,
# which takes longer for a 64-bit global address.

# %% [markdown]
# ## Throughput: many loads in flight
#
# One thread measures latency. To measure throughput, launch one block of 1,024 threads per SM. Each block loads its own
# values 256 times and adds them up. If L1 is large enough, all loads except those of the first round
# hit in L1.


# %% tab="Pseudocode"
from tilewise import parallel


def reread(values, rounds, sums):
    blocks, words, threads = values.shape
    for block, thread in parallel(blocks, threads):
        acc = 0.0
        for _ in range(rounds):
            for word in range(words):
                acc += values[block, word, thread]
        sums[block, thread] = acc


# %% tab="CUDA C"
REREAD_SOURCE = r"""
// Each thread adds up its `words` values `rounds` times. values: grid x words x block, row-major;
// sums: grid x block. 1-D grid and block of any size; no shared memory; any GPU.
extern "C" __global__
void reread(const float* values, int words, int rounds, float* sums) {
    const float* x = values + (size_t)blockIdx.x * words * blockDim.x;
    float acc = 0.0f;
    for (int round = 0; round < rounds; ++round) {
        #pragma unroll 8
        for (int word = 0; word < words; ++word)
            acc += x[word * blockDim.x + threadIdx.x];
    }
    sums[blockIdx.x * blockDim.x + threadIdx.x] = acc;
}
"""
REREAD = Kernel(REREAD_SOURCE)

# %% [markdown]
# Try it with one block of four threads, three values per thread and two rounds. Thread 0 adds 0 + 4 + 8 twice.

# %%
values = np.arange(12, dtype=np.float32).reshape(1, 3, 4)
sums = np.zeros((1, 4), np.float32)
REREAD(values, 3, 2, sums, grid=1, block=4)
print(sums)

# %% fold="Code of the checks"
from tilewise import agree, check, uniform

check(sums, 2 * values.sum(axis=1), name="sums of three values, twice")


def rereading(blocks, threads, words, rounds):
    values, sums = uniform(blocks, words, threads), output(blocks, threads)
    arrays = {"values": values, "sums": sums}
    return case(**arrays, words=words, rounds=rounds, grid=blocks, block=threads)


cases = [rereading(1, 33, 3, 2), rereading(1, 64, 7, 5), rereading(3, 32, 5, 2)]
agree(reread, REREAD, cases, rtol=1e-5)

# %% [markdown]
# Add rounds. If a cache serves the later rounds, do they request fewer sectors than the first?

# %% fold="Code of the run"
from tilewise import try_it

try_it(rereading, REREAD, blocks=(1, 1, 4), threads=[128, 32, 64, 256], words=(1, 3, 16), rounds=(1, 2, 8))

# %% fold="Code of the measurement"
ROUNDS = 256
SMS = 132


def reread_beside(carveout):
    kernel = Kernel(REREAD_SOURCE, options=(f"--carveout={carveout}",))
    return lambda kilobytes, blocks: kernel.on(rereading(blocks, 1024, kilobytes // 4, ROUNDS))


rates = measure(
    "reread_beside_shared",
    variants={f"carve-out {carveout} %": reread_beside(carveout) for carveout in CARVEOUTS},
    cases=[{"kilobytes": kilobytes, "blocks": SMS} for kilobytes in (32, 96, 160)],
    count_case={"kilobytes": 8, "blocks": 2},
    reference=lambda values, rounds: {"sums": rounds * values.sum(axis=1)},
    tolerance=1e-4,
    counts=(),
    fold="All 24 rows",
    note="A kilobyte is 1,024 bytes (1 KiB) in this table; the column gives the data of one SM.",
)

# %% fold="Code of the figure"
speeds = by_size(rates, lambda kib, us: kib * 1024 * SMS * ROUNDS / us / 1e6)
show(
    line_chart(
        [Series(f"{kib} KiB per SM", SHARED, speeds[kib], role=role) for kib, role in ROLES.items()],
        x="shared memory [KiB]",
        y="throughput [TB/s]",
        title="Throughput halves when the data outgrows L1",
        caption="Bytes per second that all SMs of an {machine} load together, when each loads its own 32, 96 or 160 KiB again and again, by the shared memory set aside on each SM.",
    )
)
publish(
    rate={
        "all": speeds[96][0],
        "none": speeds[96][-1],
        "less": speeds[96][0] / speeds[96][-1],
    },
)
if np.isfinite(list(speeds.values())).all():
    ends = [one[-1] for one in speeds.values()]
    assert max(ends) < 1.1 * min(ends), "the text says that all lines end near the same rate"
    assert all(1.5 < one[0] / one[-1] < 2.5 for one in speeds.values()), "the title says that it halves"

# %% fold="Code that counts L2's traffic on a GPU" needs="gpu" record="l2_traffic"
from tilewise import gpu_here

if gpu_here():
    from tilewise.measurements.profiling import LIMITS, STALLED, STALLS, profiled, table_of
    from tilewise.measurements.side_by_side import Calls

    def carve_outs():
        """Calls with L1 at its largest, in between and at its smallest."""
        calls = Calls()
        for carveout in (CARVEOUTS[0], CARVEOUTS[len(CARVEOUTS) // 2], CARVEOUTS[-1]):
            for kib in (32, 96, 160):
                calls.add(f"carve-out {carveout} %, {kib} KiB", reread_beside(carveout)(kib, SMS))
        return calls.by_label

    COUNTED = (*LIMITS, "lts__t_sectors_srcunit_tex.sum", *(STALLED.format(reason) for reason in STALLS))
    print(table_of(profiled("machine/chip_carveout", "l2_traffic", carve_outs, COUNTED)))

# %% fold="Code of the numbers"
from tilewise.measurements.profiling import printed_profiles

counted = printed_profiles("machine/chip_carveout", "l2_traffic")[f"carve-out {CARVEOUTS[-1]} %, 96 KiB"]
traffic = {
    "l2": counted["lts__throughput.avg.pct_of_peak_sustained_elapsed"] / 100,
    "hits": counted["lts__t_sector_hit_rate.pct"] / 100,
}
publish(traffic=traffic)
assert not min(traffic["l2"], traffic["hits"] - 0.1) < 0.8, "the text says that L2 is the limit"
assert not counted["dram__throughput.avg.pct_of_peak_sustained_elapsed"] > 5, (
    "the text: without device memory"
)

# %% [markdown]
# With L1 at its largest, the SMs load their 96 KiB at {{ rate.all | .2g }} TB/s in total; with L1 at its smallest, at
# {{ rate.none | .2g }} TB/s, most of it from L2. Latency rises {{ slower.latency | .1g }}-fold, but throughput falls
# only by a factor of {{ rate.less | .2g }}. With 1,024 threads per SM, many loads are in flight at once, so their
# latencies overlap. All three lines end near the same rate, which is set by the \bandwidth of L2. Even with 32 KiB per
# SM, nearly all loads then miss in L1: if a block reads slightly more than L1 holds, in the same order each round, most
# values are evicted before they're read again.
#
# Counters on an H200 confirm this limit: with L1 at its smallest, L2 is busy {{ traffic.l2 | .0% }} of the time, and
# {{ traffic.hits | .1% }} of its reads hit.

# %% [markdown]
# ## The answer
#
# If shared memory takes all that it can, a load from a working set of 96 KiB takes {{ slower.latency | .1g }}×
# longer, and throughput falls by a factor of {{ rate.less | .2g }}. As long as the data fits in the L1 that is left,
# the carve-out changes neither.

# %% [markdown]
# ## Takeaways
#
# - L1 and shared memory are carved out of the same on-chip memory. The carve-out sets the split, and the driver
#   rounds it up to a supported size.
# - If the working set no longer fits in what is left for L1, some of its loads go to L2. Latency suffers most; with
#   enough loads in flight, throughput suffers much less.
# - Shared memory has a somewhat lower latency than L1, and the kernel decides what to keep there.
#
# ## In your own kernel
#
# Nsight Compute shows the carve-out as *Shared Memory Configuration Size*
# (`launch__shared_mem_config_size`), next to L1's hit rate (`l1tex__t_sector_hit_rate.pct`). If a kernel that
# uses little shared memory has a low hit rate, request a smaller carve-out and measure again.


# %% fold="Code of the exercise, with two wrong answers that the tests reject"
from tilewise import exercise


def l1_left(percent):
    for size in (0, 8, 16, 32, 64, 100, 132, 164, 196, 228):
        if 100 * size >= 228 * percent:
            return 256 - size


def carveout_tests(answer):
    assert answer(0) == 256, "a carve-out of 0 leaves everything to L1"
    assert answer(57) == 124, "57% is rounded up to 132 KiB of shared memory"
    for percent in range(101):
        given = answer(percent)
        assert given == TOTAL_KIB - granted(percent), f"{given} KiB for a carve-out of {percent}%"


exercise(
    "How much L1 is left?",
    """
    On an H100, a carve-out is a percentage of 228 KiB. The driver rounds it up to 0, 8, 16, 32, 64, 100, 132, 164,
    196 or 228 KiB of shared memory. Write `l1_left(percent)`, which returns the size of L1 in KiB for a whole
    percentage from 0 to 100. What is the largest carve-out at which 100 KiB of data still fits in L1?
    """,
    answer=l1_left,
    tests=carveout_tests,
    wrong=[
        lambda percent: 256 - 228 * percent / 100,
        lambda percent: 256 - max(size for size in SHARED_KIB if 100 * size <= 228 * percent),
    ],
    hint="100 KiB of data fits as long as shared memory has at most 156 KiB. Which supported size is the largest one below that?",
    explanation="At most 132 KiB of shared memory, so the largest carve-out is 57%; a request for 58% gets 164 KiB.",
)

# %% [markdown]
# Back to the course: [the roofline model](../speed/roofline.py) shows how fast a kernel can possibly
# be.
