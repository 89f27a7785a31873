# ---
# title: Occupancy and latency hiding
# needs: [speed/roofline, machine/throughput, machine/warps]
# summary: "An SM holds 64 warps. If each of them keeps one 4-byte load per lane in flight, is that enough to saturate the memory?"
# description: "Latency hiding, Little's law, occupancy, register pressure and spills: how many bytes must be in flight, and when fewer warps are faster."
# date: 2026-11-21
# tags: [occupancy, latency hiding, registers]
# ---

# %% [markdown]
# A load from global memory takes {{ latency.ns | .0f }} ns on an H100, as the [pointer chase](../machine/chip.py)
# showed. Good kernels still get close to peak bandwidth, because other loads are in flight in the meantime. Can the
# {{ little.most }} warps of an SM keep enough loads in flight?
#
# The usual advice is to fit as many warps on an SM as you can. But the last kernel on this page gets
# {{ caps.gain_64 | .2g }}× faster when the compiler gives each thread more registers, although only
# {{ caps.warps_capped_64 }} warps then fit on an SM instead of {{ caps.warps_free_64 }}.

# %% [markdown]
# ## Latency hiding
#
# A warp scheduler never waits for one particular warp. In each cycle, it picks one of the warps that are ready. A warp
# isn't ready if its next instruction needs a value that hasn't arrived yet. Switching is free: all resident warps keep
# their registers on the SM, so there's nothing to save or restore. With enough warps, one is always ready, and the
# latency of each is hidden behind the work of the others.
#
# Take four warps. Each issues a load, waits for {{ turns.wait }} cycles, then computes for {{ turns.use }}. Run one
# after the other, they need {{ turns.serial }} cycles. If the scheduler switches between them, they need only
# {{ turns.switching }}, because they all wait at the same time.
#
# ??? definition "Resident warp | resident warps"
#     A warp whose block has been assigned to an SM and hasn't finished. Its registers stay reserved all
#     that time, and so does its block's shared memory.
#
# ??? definition "Latency hiding"
#     Running some warps while others wait, so that the waiting doesn't add to the total time.
#
# ??? definition "Context switch | context switches"
#     Changing from one thread's state to another's. Between resident warps it's free.
#
# ??? definition "Oversubscription"
#     Giving an SM more warps than it can issue instructions for at once, so that one is always ready.

# %% fold="Code of the figure"
import numpy as np

from tilewise import agree, case, ceil_div, measure, normal, output, parallel, publish, show
from tilewise.figures import Answer, Meter, Series, Slider, Span, calculator, line_chart, timeline
from tilewise.measurements import medians_us, memory_latency_ns, recorded

LATENCY_NS = memory_latency_ns()
ISSUE, WAIT, USE, WARPS = 1, 6, 2, 4


def of_warp(row, start, begin):
    """A warp that issues a load, waits for it, and computes with the value."""
    return [
        Span(row, start, start + ISSUE, "load", "read"),
        Span(row, start + ISSUE, begin, "wait", "waste"),
        Span(row, begin, begin + USE, "compute", "block"),
    ]


spans = []
for warp in range(WARPS):
    start = warp * (ISSUE + WAIT + USE)
    spans += of_warp(f"one by one, warp {warp}", start, start + ISSUE + WAIT)
for warp in range(WARPS):
    spans += of_warp(f"switching, warp {warp}", warp * ISSUE, ISSUE + WAIT + warp * USE)
publish(
    latency={"ns": LATENCY_NS},
    turns={
        "wait": WAIT,
        "use": USE,
        "serial": WARPS * (ISSUE + WAIT + USE),
        "switching": ISSUE + WAIT + WARPS * USE,
    },
)
show(
    timeline(
        spans,
        unit="cycles",
        title="Switching between warps overlaps their waits",
        caption=f"A model of four warps on one scheduler. Each issues a load, waits for {WAIT} cycles (hatched), and computes for {USE}.",
    )
)

# %% [markdown]
# ## Little's law: bytes in flight
#
# If two customers per minute walk into a café and each stays for ten minutes, there are 20 customers inside. That's
# [Little's](https://doi.org/10.1287/opre.9.3.383) law [again](../machine/throughput.py). For memory, it reads
#
# $$\text{bytes in flight} = \text{bandwidth} \times \text{latency}$$
#
# The fastest read measured on the H100 reaches {{ little.gb_per_s | ,.0f }} GB/s. Multiply that by
# {{ latency.ns | .0f }} ns, and you get the {{ little.megabytes | .3g }} MB that must be in flight at any time, or
# {{ little.kilobytes | .2g }} kB on each of the {{ little.sms }} SMs.

# %% [markdown]
# One 4-byte load per lane is {{ little.warp_bytes }} bytes per warp, so saturating the memory takes about
# {{ little.warps | .0f }} warps per SM. Only {{ little.most }} fit. That's close, but {{ latency.ns | .0f }} ns is
# the latency when the memory is idle. When it's busy, loads take longer.
#
# You can keep more bytes in flight with the same warps in two ways: make each load wider, or let each
# thread issue several independent loads before it uses the first. The second is an example of
# *instruction-level parallelism* (ILP).
#
# ??? question "Vector addition has almost no arithmetic. What is there to hide its latency behind?"
#     Other loads. While one warp waits, others issue their own loads, and the memory serves many at once. Each
#     additional warp puts more bytes in flight and so raises the bandwidth, until the memory is saturated.
#
# ??? definition "Instruction-level parallelism"
#     Instructions of one thread that don't need each other's results, so that one can start before
#     another has finished.

# %% fold="Code of the numbers"
from tilewise.models import device
from tilewise.models.occupancy import LIMITS, occupancy
from tilewise.models.traffic import bytes_in_flight

HOPPER = LIMITS[9, 0]
SMS = device("H100 SXM").sms
READ_GB_PER_S = recorded("pointer_chase.ceilings.probes.read_gb_per_s")
FLIGHT = bytes_in_flight(READ_GB_PER_S, LATENCY_NS)
publish(
    little={
        "gb_per_s": READ_GB_PER_S,
        "megabytes": FLIGHT / 1e6,
        "kilobytes": FLIGHT / SMS / 1000,
        "sms": SMS,
        "warp_bytes": 32 * 4,
        "warps": FLIGHT / SMS / (32 * 4),
        "most": HOPPER.threads // 32,
    }
)

# %% [markdown]
# ## Unrolling and float4 loads
#
# We'll test the law on three kernels that sum an array in a grid-stride loop. The first adds each element
# before it loads the next, so a thread never has more than one 4-byte load in flight.


# %% tab="Pseudocode"
def sum_one(x, partial):
    threads = len(partial)
    for me in parallel(threads):
        partial[me] = sum(x[me::threads])


# %% tab="CUDA C"
from tilewise import Kernel

SUM_ONE = Kernel(r"""
// partial[me] = sum of x[me], x[me + threads], ..., one load at a time.
// Any n; 1-D grid and block of any size; partial has one element per thread.
extern "C" __global__
void sum_one(const float* x, float* partial, int n) {
    int me = blockIdx.x * blockDim.x + threadIdx.x;
    int threads = gridDim.x * blockDim.x;
    float s = 0.0f;
    #pragma unroll 1  // load, add, then the next load
    for (int i = me; i < n; i += threads) s += x[i];
    partial[me] = s;
}
""")


# %% [markdown]
# Launch it with 4 blocks of 32 threads; without a GPU, the launch runs on the simulator.

# %%
x = np.arange(1000, dtype=np.float32)
partial = np.zeros(128, np.float32)

SUM_ONE(x, partial, 1000, grid=4, block=32)
print(partial.sum(), x.sum())

# %% [markdown]
# The second kernel issues four loads before the first addition. The compiler unrolls the loop over `j`,
# and each load feeds an \accumulator of its own, so none of the four waits for another.


# %% tab="Pseudocode"
def sum_four(x, partial):
    threads = len(partial)
    for me in parallel(threads):
        own = x[me::threads]
        partial[me] = sum(own[0::4]) + sum(own[1::4]) + sum(own[2::4]) + sum(own[3::4])


# %% tab="CUDA C"
SUM_FOUR = Kernel(r"""
// As sum_one, with up to four independent loads in flight per thread.
extern "C" __global__
void sum_four(const float* x, float* partial, int n) {
    int me = blockIdx.x * blockDim.x + threadIdx.x;
    int threads = gridDim.x * blockDim.x;
    float s[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    #pragma unroll 1
    for (int i = me; i < n; i += 4 * threads) {
        #pragma unroll
        for (int j = 0; j < 4; ++j) {  // New: four loads before the first addition
            int at = i + j * threads;
            if (at < n) s[j] += x[at];
        }
    }
    partial[me] = (s[0] + s[1]) + (s[2] + s[3]);
}
""")


# %% [markdown]
# The third issues a single load of 16 bytes: a `float4` is four consecutive floats at an address
# divisible by 16.


# %% tab="Pseudocode"
def sum_wide(x, wide_partial):
    threads = len(wide_partial)
    for me in parallel(threads):
        wide_partial[me] = x[me::threads].sum(axis=0)


# %% tab="CUDA C"
SUM_WIDE = Kernel(r"""
// As sum_one, with one 16-byte load in flight per thread and one float4 of partial sums in each thread.
// n must be a multiple of 4, and x and wide_partial aligned to 16 bytes.
extern "C" __global__
void sum_wide(const float4* x, float4* wide_partial, int n) {
    int me = blockIdx.x * blockDim.x + threadIdx.x;
    int threads = gridDim.x * blockDim.x;
    float4 s = {0.0f, 0.0f, 0.0f, 0.0f};
    #pragma unroll 1
    for (int i = me; i < n / 4; i += threads) {
        float4 v = x[i];  // New: 16 bytes in one load
        s.x += v.x;
        s.y += v.y;
        s.z += v.z;
        s.w += v.w;
    }
    wide_partial[me] = s;
}
""")


# %% [markdown]
# All three have to be correct for array sizes that don't divide evenly among the threads.


# %% fold="Code of the cases"
def summed(n, threads, block=64, shared_bytes=0, rows=1):
    shape = (n // 4, 4) if rows == 4 else (n,)
    return case(
        x=normal(*shape),
        partial=output(threads),
        wide_partial=output(threads, 4),
        n=n,
        grid=threads // block,
        block=block,
        shared_bytes=shared_bytes,
    )


for pseudocode, kernel, rows, sizes in (
    (sum_one, SUM_ONE, 1, ((100, 128), (90, 128), (5001, 64))),
    (sum_four, SUM_FOUR, 1, ((100, 128), (90, 128), (5001, 64))),
    (sum_wide, SUM_WIDE, 4, ((340, 128), (400, 128), (5000, 64))),
):
    cases = [summed(n, threads, rows=rows) for n, threads in sizes]
    agree(pseudocode, kernel, cases, rtol=1e-5, atol=1e-5)


# %% [markdown]
# Run all three. They load the same sectors. How many load requests does each kernel need to do so?

# %% fold="Code of the run"
from tilewise import try_it

SUMS = {"one load": (SUM_ONE, 1), "four loads": (SUM_FOUR, 1), "float4 load": (SUM_WIDE, 4)}
try_it(
    {name: lambda n, threads, rows=rows: summed(n, threads, rows=rows) for name, (_, rows) in SUMS.items()},
    {name: kernel for name, (kernel, _) in SUMS.items()},
    n=[1024, 256, 2048, 4096],
    threads=[128, 64, 256, 512],
)

# %% [markdown]
# ## Bandwidth by resident warps
#
# To control how many warps are resident, give each block shared memory that it never uses. An SM has
# {{ shared.kibibytes | .0f }} KiB in total, and the system reserves 1 KiB for each block on top of the block's
# own. So if each block requests {{ shared.half | .0f }} KiB, only two are resident.


# %% fold="Code of the measurement"
def shared_for(warps, block=64):
    """Shared memory per block with which exactly so many warps fit on an SM."""
    blocks = warps * 32 // block
    share = HOPPER.shared_bytes // blocks - HOPPER.shared_reserved
    return min(share // HOPPER.shared_unit * HOPPER.shared_unit, HOPPER.shared_bytes_per_block)


def resident(kernel):
    def launch(warps, n):
        return kernel.on(summed(n, n // 512, shared_bytes=shared_for(warps)))

    return launch


def column_sums(x, n):
    threads = n // 512
    return {
        "partial": x.reshape(-1, threads).sum(axis=0),
        "wide_partial": x.reshape(-1, threads, 4).sum(axis=0),
    }


in_flight = measure(
    "resident_warps",
    variants={
        "float loads": resident(SUM_ONE),
        "float loads, unrolled by 4": resident(SUM_FOUR),
        "float4 loads": resident(SUM_WIDE),
    },
    cases=[{"warps": warps, "n": 2**27} for warps in (2, 4, 8, 16, 24, 32, 48, 64)],
    count_case={"warps": 64, "n": 2**15},
    bytes=lambda warps, n: 4 * n,
    flop=lambda warps, n: n,
    reference=column_sums,
    tolerance=1e-4,
    reasons={"*": "Little's law: bytes in flight"},
    fold="All 24 rows",
)


# %% fold="Code of the figure"
BLOCKS = 2**27 // 512 // 64  # in the grid, two warps each
RESIDENT = (2, 4, 8, 16, 24, 32, 48, 64)


def wave_efficiency(warps):
    """The fraction of the slots that the grid's waves of blocks fill, the last wave included."""
    waves = BLOCKS / (SMS * (warps // 2))
    return waves / np.ceil(waves)


us = medians_us(in_flight, "warps")
RATES = {
    label: {warps: 4 * 2**27 / us[label, warps] / 1e3 for warps in RESIDENT}
    for label in ("float loads", "float loads, unrolled by 4", "float4 loads")
}
small, _, wide = RATES.values()
publish(
    answer={"kilobytes": 64 * 128 / 1000},
    shared={
        "kibibytes": HOPPER.shared_bytes / 1024,
        "most": HOPPER.shared_bytes_per_block / 1024,
        "half": shared_for(4) / 1024,
    },
    flying={
        "one_share": small[64] / READ_GB_PER_S,
        "wide_share": wide[64] / READ_GB_PER_S,
        "ns_at_2": wave_efficiency(2) * SMS * 2 * 128 / small[2],
        "ns_at_64": wave_efficiency(64) * SMS * 64 * 128 / small[64],
    },
    waves={
        "at_48": BLOCKS / (SMS * 24),
        "at_32": BLOCKS / (SMS * 16),
    },
)
steps = np.arange(2, 65)
show(
    line_chart(
        [
            *(
                Series(label, RESIDENT, list(rates.values()), role=role)
                for (label, rates), role in zip(RATES.items(), ("read", "tile", "block"), strict=True)
            ),
            *(
                Series(
                    label,
                    steps,
                    np.minimum(READ_GB_PER_S, SMS * steps * each / LATENCY_NS),
                    role="predicted",
                    marks=False,
                )
                for label, each in (
                    ("Little's law, 128 bytes per warp", 128),
                    ("Little's law, 512 bytes per warp", 512),
                )
            ),
            Series(
                "Little's law, 128 bytes, whole waves",
                RESIDENT,
                [wave_efficiency(warps) * SMS * warps * 128 / LATENCY_NS for warps in RESIDENT],
                role="predicted",
                line=False,
            ),
        ],
        x="resident warps per SM",
        y="bandwidth [GB/s]",
        title="Wider loads saturate the memory with fewer warps",
        caption="Bandwidth when summing 2²⁷ floats on an {machine}, by the number of resident warps. Dashed: Little's law with the idle latency. Open markers: the same model, corrected for a last wave of blocks that only partly fills the GPU.",
    )
)
if np.isfinite(small[64]):
    assert wide[32] > 2 * small[32] and wide[64] < 1.2 * wide[32], "the title: wider loads need fewer warps"
    assert wide[16] > 0.9 * small[64], "the text says that a quarter of the warps comes close"
    assert np.ceil(BLOCKS / (SMS * 24)) == np.ceil(BLOCKS / (SMS * 16)) == 2, "both need two waves"

# %% [markdown]
# So the answer is no. With one 4-byte load per lane, 64 warps have {{ answer.kilobytes | .2g }} kB in flight per SM
# and reach {{ flying.one_share | .0% }} of the fastest read bandwidth. With float4 loads, they reach
# {{ flying.wide_share | .0% }}.

# %% [markdown]
# Why are 48 warps no better than 32? The blocks run in \waves, and each full \wave fills the GPU. All points use the
# same grid, which needs {{ waves.at_32 | .2g }} \waves with 32 warps per SM and {{ waves.at_48 | .2g }} with 48, so
# both take two \waves, but with 48 warps the second is mostly empty.
#
# Why only {{ flying.one_share | .0% }}, if {{ little.most }} warps are so close to the {{ little.warps | .0f }} that we
# need? Apply Little's law in reverse: divide the bytes in flight, averaged over those \waves, by the bandwidth, and you
# get the latency of a load. It's {{ flying.ns_at_2 | .0f }} ns with 2 warps, the same as when the memory is idle, but
# {{ flying.ns_at_64 | .0f }} ns with 64. The extra time is queueing delay in the busy memory system.

# %% [markdown]
# ## Occupancy and its limits
#
# Occupancy is the number of resident warps as a fraction of the {{ little.most }} that an SM can hold. Four resources
# limit it: slots for warps, slots for blocks, registers, and shared memory.[^optin] The scarcest one sets the limit.
# Only whole blocks become resident, so occupancy changes in steps.
#
# Take blocks of 256 threads, with 40 registers per thread. A warp needs 1,280 registers. Each of the four schedulers
# has 16,384, enough for 12 warps. That's {{ example.warps }} warps or {{ example.blocks }} blocks per SM, and an
# occupancy of {{ example.share | .0% }}. Try your own kernel:
#
# [^optin]: For more than 48 KiB of shared memory per block, up to {{ shared.most | .0f }} KiB on an H100, a kernel
#     must opt in (`cudaFuncAttributeMaxDynamicSharedMemorySize`).
#
# ??? definition "Occupancy"
#     The resident warps of an SM as a fraction of the maximum it can hold.


# %% fold="Code of the figure"
def fitting(threads_per_block, registers_per_thread, shared_memory_per_block):
    found = occupancy(threads_per_block, registers_per_thread, shared_memory_per_block * 1024)
    if found.blocks_per_sm == 0:
        verdict = "No block fits, so this launch fails."
    else:
        verdict = f"Occupancy {found.share:.0%}, limited by {found.limited_by}."
    return Answer([found.blocks_per_sm, found.warps_per_sm], verdict)


example = occupancy(256, 40)
assert HOPPER.registers // 4 // (40 * 32) == 12, "the text's example"
assert 4 * 12 == example.warps_per_sm == example.blocks_per_sm * 8, "the text's example"
publish(
    example={"warps": example.warps_per_sm, "blocks": example.blocks_per_sm, "share": example.share},
)
show(
    calculator(
        [
            Slider("threads per block", [32, 64, 96, 128, 160, 192, 256, 320, 384, 512, 640, 768, 1024], 256),
            Slider(
                "registers per thread",
                [16, 24, 32, 40, 48, 56, 64, 72, 80, 96, 112, 128, 144, 168, 192, 200, 224, 255],
                40,
            ),
            Slider(
                "shared memory per block",
                [0, 1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 113, 160, 227],
                0,
                "KiB",
            ),
        ],
        fitting,
        meters=[
            Meter("resident blocks", 32, "of 32", "block"),
            Meter("resident warps", 64, "of 64", "measured"),
        ],
        title="The scarcest resource limits occupancy",
        caption="Resident blocks and warps per SM of an {machine}.",
    )
)

# %% [markdown]
# The driver's function `cuOccupancyMaxActiveBlocksPerMultiprocessor` computes the same limit for a compiled kernel.

# %% [markdown]
# ## Register pressure and spills
#
# Registers are often the limit you hit first, and the compiler decides how many a thread gets. An SM has 65,536, and a
# thread can have at most 255. At 200 registers per thread, only {{ registers.at_200 }} warps fit on an SM.
#
# The next kernel needs many registers. Each thread keeps a query, a row of `D` floats, in local variables and finds its
# best score, the largest dot product with any key.
#
# ??? definition "Register pressure"
#     The situation in which a kernel needs more registers than a thread can have, or so many that too few
#     warps fit.
#
# ??? definition "Register spill | spills | spilled"
#     The compiler runs out of registers and keeps a variable in local memory, at the cost of extra
#     stores and loads.


# %% tab="Pseudocode"
def best_score(Q, K, best):
    for i in parallel(len(Q)):
        best[i] = max(Q[i] @ k for k in K)


# %% tab="CUDA C"
BEST_SCORE = Kernel(
    r"""
// best[i] = largest dot product of row i of Q (N x D) with any row of K (M x D), row-major.
// 1-D grid of at least N threads; any block size; no shared memory.
extern "C" __global__
void best_score(const float* Q, const float* K, float* best,
                int N, int M) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= N) return;
    float q[D];  // private: in registers, as long as they last
    #pragma unroll
    for (int c = 0; c < D; ++c) q[c] = Q[i * D + c];
    float most = -INFINITY;
    #pragma unroll 1
    for (int j = 0; j < M; ++j) {
        float s = 0.0f;
        #pragma unroll
        for (int c = 0; c < D; ++c) s += q[c] * K[j * D + c];
        most = fmaxf(most, s);
    }
    best[i] = most;
}
""",
    defines={"D": 64},
)


# %% [markdown]
# `q` looks like an array, but after unrolling, every index is a constant and each element gets a
# register. The option `--maxrregcount` caps the registers per thread. Whatever doesn't fit is spilled to
# local memory, which is in the same DRAM as global memory, although spills usually hit in L1.


# %% fold="Code of the cases"
def scored(N, M, d=64):
    return case(Q=normal(N, d), K=normal(M, d), best=output(N), N=N, M=M, grid=ceil_div(N, 128), block=128)


publish(registers={"at_200": occupancy(64, 200).warps_per_sm})
agree(best_score, BEST_SCORE, [scored(1, 3), scored(130, 7)], rtol=1e-4, atol=1e-4)


# %% fold="Code of the figure"
from tilewise.kernel.nvrtc import available, compile_kernel

CAPS = (None, 128, 64, 48, 40, 32)


def held_to(registers, d):
    options = [f"--maxrregcount={registers}"] if registers else []
    wanting = registers is not None and registers < d + 16  # its own D floats and some more
    source = BEST_SCORE.source + ("// spills: to show what a cap costs\n" if wanting else "")
    return Kernel(source, defines={"D": d}, options=options)


DEPTHS = (32, 64, 128)
TAKEN = {}
if available() is None:
    for d in DEPTHS:
        for cap in CAPS:
            [found] = compile_kernel(held_to(cap, d), ["sm_90"])
            TAKEN[d, cap] = (found.registers, found.spill_store_bytes)
    show(
        line_chart(
            [
                Series(f"D = {d}", CAPS[:0:-1], [TAKEN[d, cap][1] for cap in CAPS[:0:-1]], role=role)
                for d, role in ((128, "registers"), (64, "block"), (32, "tile"))
            ],
            x="cap on registers per thread",
            y="spilled bytes per thread",
            title="A tight register cap causes spills",
            caption="Spilled bytes per thread, from the compiler's report for an H100. A query of D floats takes 4 D bytes.",
        )
    )

# %% fold="Code of the numbers"
FREE, CAPPED = TAKEN.get((64, None), (np.nan, 0))[0], TAKEN.get((64, 128), (np.nan, 0))[0]
publish(report={"free_64": FREE, "capped_64": CAPPED, "cap": 128})

# %% [markdown]
# The compiler's report[^read] holds a surprise. A cap below what the kernel needs causes spills, as expected. But a cap
# above what it needs can *raise* the register count: at D = 64 the compiler takes {{ report.free_64 }} registers by
# default and {{ report.capped_64 }} with a cap of {{ report.cap }}. With the extra registers, the kernel can issue more
# loads before it needs the result of the first. That's ILP paid for with occupancy. Is it worth it?
#
# [^read]: `nvcc -Xptxas -v` prints it. A CuPy kernel exposes the numbers as its attributes `num_regs` and
#     `local_size_bytes`.


# %% fold="Code of the measurement"
def capped(registers):
    def launch(d, N, M):
        return held_to(registers, d).on(scored(N, M, d))

    return launch


scores = measure(
    "register_caps",
    variants={"no cap": capped(None)} | {f"at most {cap}": capped(cap) for cap in (128, 64, 48, 40, 32)},
    cases=[{"d": d, "N": 2**18, "M": 256} for d in (32, 64, 128)],
    count_case={"d": 64, "N": 128, "M": 8},
    bytes=lambda d, N, M: 4 * (N * d + M * d + N),
    flop=lambda d, N, M: 2 * N * M * d,
    reference=lambda Q, K: {"best": (Q @ K.T).max(axis=1)},
    tolerance=1e-4,
    reasons={"*": "Register pressure and spills"},
    fold="All 18 rows",
)


# %% fold="Code of the table"
from tilewise import Table
from tilewise.outputs import Cell

took = medians_us(scores, "d")
LABELS = tuple(dict.fromkeys(label for label, _ in took))
best = {d: min(LABELS, key=lambda label, d=d: took[label, d]) for d in DEPTHS}
show(
    Table(
        ["registers per thread", *(f"D\u00a0=\u00a0{d}, ms" for d in DEPTHS)],
        [
            [
                label,
                *(
                    Cell(took[label, d] / 1000, None, None, "best" if best[d] == label else None)
                    for d in DEPTHS
                ),
            ]
            for label in LABELS
        ],
        caption="Time to find the best score of each of 2¹⁸ queries among 256 keys on an {machine}, with different caps on registers per thread. The fastest in each column is marked.",
    )
)
WARPS_AT = {key: occupancy(128, registers).warps_per_sm for key, (registers, _) in TAKEN.items()}
if WARPS_AT and np.isfinite(list(took.values())).all():
    caps_of = {"no cap": None} | {f"at most {cap}": cap for cap in CAPS[1:]}
    for d in DEPTHS:
        fewest = min(WARPS_AT[d, cap] for cap in CAPS)
        assert WARPS_AT[d, caps_of[best[d]]] == fewest, "the text says that the fewest warps are fastest"
publish(
    caps={
        "warps_free_64": occupancy(128, FREE).warps_per_sm if TAKEN else np.nan,
        "warps_capped_64": occupancy(128, CAPPED).warps_per_sm if TAKEN else np.nan,
        "gain_64": took["no cap", 64] / took["at most 128", 64],
        "full_128": took["at most 32", 128] / took["no cap", 128],
    }
)

# %% [markdown]
# In every column, the fastest version is the one with the *fewest* warps; at D = 128, it has no cap. A cap of 32
# registers allows an occupancy of 100%, but at D = 128, it makes the kernel {{ caps.full_128 | .2g }}× slower than
# without a cap, because the spilled values have to be reloaded for every key. At D = 64, a cap of 128 lowers the number
# of resident warps from {{ caps.warps_free_64 }} to {{ caps.warps_capped_64 }}, and the kernel gets
# {{ caps.gain_64 | .2g }}× faster.

# %% [markdown]
# Vasily Volkov made this point in 2010, in his talk [*Better performance at lower
# occupancy*](https://www.nvidia.com/content/GTC-2010/pdfs/2238_GTC2010.pdf): ILP hides latency just as well as more
# warps do. But fewer warps don't always help: at D = 128, a cap of 64 beats a cap of 128, and [a later
# lesson](../toolbox/machine_code.py#loads-in-flight-counted-in-the-listing) explains why.

# %% [markdown]
# ## Takeaways
#
# - By Little's law, bytes in flight = bandwidth × latency. An H100 needs {{ little.kilobytes | .2g }} kB in flight
#   per SM, more than {{ little.most }} warps provide with one 4-byte load per lane.
# - More warps, wider loads and several independent loads per thread all increase the number of bytes in flight.
#   Switching between resident warps is free.
# - The scarcest of warp slots, block slots, registers and shared memory limits occupancy. Occupancy is a
#   means to an end: more registers per thread can be worth more than more warps.
#
# ## In your own kernel
#
# In Nsight Compute, look at *Achieved Occupancy* (`sm__warps_active.avg.pct_of_peak_sustained_active`) and at the
# \stall reason *Long \Scoreboard* (`smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio`), the
# wait for a value from global or local memory. If that \stall dominates while
# `dram__throughput.avg.pct_of_peak_sustained_elapsed` is low, first unroll or use float4 loads, then try to fit more
# warps.


# %% fold="Code of the exercise, with two wrong answers that the tests reject"
from tilewise import exercise


def warps_per_sm(registers, shared_bytes, threads):
    warps = -(-threads // 32)
    a_warp = -(-registers * 32 // 256) * 256  # allocated in units of 256
    by_registers = 4 * (16_384 // a_warp)  # each scheduler has its own quarter
    a_block = -(-(shared_bytes + 1024) // 128) * 128  # the system reserves 1 KiB per block
    blocks = min(64 // warps, 32, by_registers // warps, 233_472 // a_block)
    return blocks * warps


def occupancy_tests(answer):
    for registers, warps in {32: 64, 64: 32, 96: 20, 128: 16, 168: 12, 200: 8, 255: 8}.items():
        given = answer(registers, 0, 128)
        assert given == warps, f"{registers} registers, blocks of 128: {given}, not {warps}"
    random = np.random.default_rng(9)
    for _ in range(300):
        registers, threads = int(random.integers(16, 256)), int(random.integers(1, 1025))
        shared_bytes = int(random.integers(0, 116_000))
        expected = occupancy(threads, registers, shared_bytes).warps_per_sm
        given = answer(registers, shared_bytes, threads)
        assert given == expected, f"{registers}, {shared_bytes}, {threads}: {given}, not {expected}"


exercise(
    "Your own calculator",
    """
    Write `warps_per_sm(registers, shared_bytes, threads)`. It returns how many warps are resident on an H100 SM,
    given the registers per thread, the shared memory per block and the threads per block. An SM has slots for 64
    warps and 32 blocks, four schedulers with 16,384 registers each, and 233,472 bytes of shared memory. Registers are
    allocated per warp in units of 256. Shared memory is allocated per block in units of 128 bytes, and the system
    adds 1,024 bytes to each block's own.
    """,
    answer=warps_per_sm,
    tests=occupancy_tests,
    wrong=[
        {"4 * (16_384 // a_warp)": "65_536 // (registers * 32)"},
        {"return blocks * warps": "return min(64, by_registers, 233_472 // a_block * warps)"},
    ],
    hint="Count blocks: how many does each resource allow? All registers of a warp come from its own scheduler's quarter.",
)

# %% [markdown]
# In the three sum kernels, neighbouring lanes read neighbouring addresses. In `best_score` they read `Q` with a stride
# of `D`. [Memory coalescing](../memory/coalescing.py) shows what that costs.
