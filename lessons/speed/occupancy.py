# ---
# title: Hiding latency
# needs: [speed/roofline, machine/throughput, machine/warps]
# summary: "An SM holds 64 warps. If each of them has one load of 4 bytes a lane under way, is that enough to keep the memory busy?"
# description: "How many bytes must be under way, how many warps fit on an SM to ask for them, and what registers cost."
# date: 2026-11-21
# tags: [occupancy, latency hiding, registers]
# ---

# %% [markdown]
# A load from global memory takes {{ latency.ns | .0f }} ns, as the lesson on the chip
# measured, and the loading warp can do nothing with the number before that. Yet kernels reach nine
# tenths of the bandwidth. An SM holds 64 warps. If each has one load of 4 bytes a lane under way, is
# that enough? One multiplication will answer it.

# %% [markdown]
# ## Waiting in turn
#
# A warp scheduler does not wait with a warp. In each cycle it issues an instruction of any warp that
# is ready, and a warp that waits for a number is not. Going over from one warp to another costs
# nothing: all resident warps have their registers on the SM all the time, so nothing is saved and
# nothing restored. With enough warps there is always one that is ready, and the latency of each is
# hidden behind the work of the others.[^turns]
#
# [^turns]: [Where the sources differ](../../conventions.md#the-sources): one says that it makes no
#     difference whether warps run one after the other or take turns. That holds only if no
#     instruction ever waits. Another says that hiding latency does little for vector addition, of
#     all kernels; it is what brings vector addition to the memory's bandwidth.
#
# ??? definition "Resident warp | resident warps"
#     Said of a block and its warps from the moment an SM takes the block until all of its threads
#     have ended: their registers and shared memory are set aside there all that time.
#
# ??? definition "Latency hiding"
#     Letting other warps work while some wait, so that waiting takes no time of the whole.
#
# ??? definition "Context switch | context switches"
#     The passage of an execution unit from one thread's state to another's. Between resident warps it
#     is free, since nothing is moved.
#
# ??? definition "Oversubscription"
#     Giving an SM more warps than it can issue instructions for in a cycle, so that one is always
#     ready.

# %% fold="Code of the figure"
import numpy as np

from tilewise import agree, case, ceil_div, measure, normal, output, parallel, publish, show
from tilewise.figures import Answer, Meter, Series, Slider, Span, calculator, line_chart, timeline
from tilewise.measurements import medians_us, recorded

LATENCY_NS = (
    1000
    * recorded("pointer_chase.one_thread_one_load_after_another.kilobytes_1048576_loads_65536.median")
    / 65_536
)
publish(latency={"ns": LATENCY_NS})
ISSUE, WAIT, USE, WARPS = 1.0, 6.0, 2.0, 4


def of_warp(row, start, begin):
    """A warp that loads, waits, and begins to use what came."""
    return [
        Span(row, start, start + ISSUE, "load", "read"),
        Span(row, start + ISSUE, begin, "wait", "waste"),
        Span(row, begin, begin + USE, "use", "block"),
    ]


spans = []
for warp in range(WARPS):
    start = warp * (ISSUE + WAIT + USE)
    spans += of_warp(f"in turn, warp {warp}", start, start + ISSUE + WAIT)
for warp in range(WARPS):
    spans += of_warp(f"switching, warp {warp}", warp * ISSUE, ISSUE + WAIT + warp * USE)
show(
    timeline(
        spans,
        unit="cycles",
        title="Four warps that take turns wait at the same time; one after the other they wait four times",
        caption=f"Four warps on one scheduler, each with a load, {WAIT:.0f} cycles of waiting, and {USE:.0f} of work: a model with small numbers. Hatched: waiting.",
    )
)

# %% [markdown]
# ## How much must be under way
#
# A path that delivers $B$ bytes a second, each of them $L$ seconds after it was asked for, has
# $B \cdot L$ bytes under way whenever it is full. That is Little's law, and it holds for queues of
# any kind. For {{ little.gb_per_s | ,.0f }} GB/s, the fastest read that was probed on the recorded
# GPU, and {{ latency.ns | .0f }} ns it is {{ little.megabytes | .2f }} MB, or
# {{ little.kilobytes | .1f }} KB for each of {{ little.sms }} SMs.
#
# ??? definition "Little's law"
#     What is under way equals rate times time under way: bytes in flight = bandwidth · latency.

# %% [markdown]
# One load of 4 bytes a lane is {{ little.warp_bytes }} bytes a warp. So {{ little.warps | .0f }}
# warps would do if the memory were as quick when busy as when idle, and {{ little.most }} fit: too
# few, and a busy memory is slower. There are two ways to have more under way without more warps:
# wider loads, or several loads before the first of them is used. The second has a name of its own,
# instruction-level parallelism.
#
# ??? question "In a vector addition every warp waits for memory. What is gained by taking turns?"
#     Their waiting lies side by side. No warp gets its numbers sooner, but while it waits the others
#     have asked for theirs, and the memory has many loads to serve in place of one. A single warp
#     that waits for each load would have {{ little.warp_bytes }} bytes on its way where
#     {{ little.kilobytes | .1f }} KB are needed. So each further warp adds its share of bandwidth
#     until the path is full; only from there on does another one gain nothing. There is no arithmetic
#     to hide behind, and none is needed.
#
# ??? definition "Instruction-level parallelism"
#     Instructions of one thread that do not need each other's results, so that one can begin before
#     the other has ended.

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
# ## Three sums
#
# The kernel adds up numbers in a grid-stride loop, as in the lesson on the roofline. In the first
# version a thread asks for a number and needs it at once for the sum: one load of 4 bytes is under
# way a lane, never more.


# %% tab="Pseudocode"
def sum_one(x, partial):
    threads = len(partial)
    for me in parallel(threads):
        partial[me] = sum(x[me::threads])


# %% tab="CUDA C"
from tilewise import Kernel

SUM_ONE = Kernel(r"""
extern "C" __global__
void sum_one(const float* x, float* partial, int n) {
    int me = blockIdx.x * blockDim.x + threadIdx.x;
    int threads = gridDim.x * blockDim.x;
    float s = 0.0f;
    #pragma unroll 1  // one load, then its sum, then the next load
    for (int i = me; i < n; i += threads) s += x[i];
    partial[me] = s;
}
""")


# %% [markdown]
# The second asks for four numbers and only then adds the first. The third asks once, for 16 bytes: a
# `float4` is four numbers that lie side by side, and the sums stay apart to the end.


# %% tab="Pseudocode"
def sum_four(x, partial):
    threads = len(partial)
    for me in parallel(threads):
        own = x[me::threads]
        partial[me] = sum(own[0::4]) + sum(own[1::4]) + sum(own[2::4]) + sum(own[3::4])


# %% tab="CUDA C"
SUM_FOUR = Kernel(r"""
extern "C" __global__
void sum_four(const float* x, float* partial, int n) {
    int me = blockIdx.x * blockDim.x + threadIdx.x;
    int threads = gridDim.x * blockDim.x;
    float s[4] = {0.0f, 0.0f, 0.0f, 0.0f};
    #pragma unroll 1
    for (int i = me; i < n; i += 4 * threads) {
        #pragma unroll
        for (int j = 0; j < 4; ++j) {  // New: four loads before the first sum
            int at = i + j * threads;
            if (at < n) s[j] += x[at];
        }
    }
    partial[me] = (s[0] + s[1]) + (s[2] + s[3]);
}
""")


# %% [markdown]
# The loop over `j` is written out by the compiler, so the four loads stand one behind the other, and
# each waits for none of the others.


# %% tab="Pseudocode"
def sum_wide(x, wide_partial):
    threads = len(wide_partial)
    for me in parallel(threads):
        wide_partial[me] = x[me::threads].sum(axis=0)


# %% tab="CUDA C"
SUM_WIDE = Kernel(r"""
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
# How does one set the number of resident warps? By asking for shared memory that nobody uses. An SM
# has {{ shared.kilobytes | .0f }} KB of it for all its blocks, so blocks that want half of it each
# stand there in pairs, and the rest of the grid waits for its turn. Blocks of 64 threads, two warps,
# make the steps small.


# %% fold="Code of the measurement"
def shared_for(warps, block=64):
    """Shared memory a block may ask for when just so many warps shall fit on an SM: all of it, shared out."""
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
        "one load of 4 bytes": resident(SUM_ONE),
        "four loads of 4 bytes": resident(SUM_FOUR),
        "one load of 16 bytes": resident(SUM_WIDE),
    },
    cases=[{"warps": warps, "n": 2**27} for warps in (2, 4, 8, 16, 24, 32, 48, 64)],
    count_case={"warps": 64, "n": 2**15},
    bytes=lambda warps, n: 4 * n,
    flop=lambda warps, n: n,
    reference=column_sums,
    tolerance=1e-4,
    reasons={"*": "How much must be under way"},
    fold="All 24 rows",
)


# %% fold="Code of the figure"
BLOCKS = 2**27 // 512 // 64  # of the whole grid, two warps each
RESIDENT = (2, 4, 8, 16, 24, 32, 48, 64)


def of_rounds(warps):
    """How full the rounds are in which the grid's blocks stand on the SMs, the last one included."""
    rounds = BLOCKS / (SMS * (warps // 2))
    return rounds / np.ceil(rounds)


us = medians_us(in_flight, "warps")
RATES = {
    label: {warps: 4 * 2**27 / us[label, warps] / 1e3 for warps in RESIDENT}
    for label in ("one load of 4 bytes", "four loads of 4 bytes", "one load of 16 bytes")
}
small, _, wide = RATES.values()
publish(
    answer={"kilobytes": 64 * 128 / 1000},
    shared={"kilobytes": HOPPER.shared_bytes / 1024, "most": HOPPER.shared_bytes_per_block / 1024},
    flying={
        "one_share": small[64] / READ_GB_PER_S,
        "wide_share": wide[64] / READ_GB_PER_S,
        "ns_at_2": of_rounds(2) * SMS * 2 * 128 / small[2],
        "ns_at_64": of_rounds(64) * SMS * 64 * 128 / small[64],
    },
    rounds={
        "blocks": BLOCKS,
        "at_48": BLOCKS / (SMS * 24),
        "at_32": BLOCKS / (SMS * 16),
        "at_64": BLOCKS / (SMS * 32),
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
                for label, each in (("Little, 128 bytes a warp", 128), ("Little, 512", 512))
            ),
            Series(
                "Little, 128, whole rounds",
                RESIDENT,
                [of_rounds(warps) * SMS * warps * 128 / LATENCY_NS for warps in RESIDENT],
                role="predicted",
                line=False,
            ),
        ],
        x="resident warps on an SM",
        y="bandwidth [GB/s]",
        title="Each byte under way buys bandwidth until the memory is full; more warps buy little then",
        caption="A sum of 134,217,728 numbers on an {machine} with a chosen number of resident warps. Dashed: Little's law with the latency of an idle memory; open marks: the same if the grid's blocks run in whole rounds.",
    )
)
if np.isfinite(small[64]):
    assert wide[64] < 1.2 * wide[32], "the title says that more warps buy little once the memory is full"

# %% [markdown]
# With 2 warps and one small load each the sum reaches
# {{ resident_warps.one_load_of_4_bytes.warps_2_n_134217728.gb_per_s | .0f }} GB/s, with 64 warps
# {{ resident_warps.one_load_of_4_bytes.warps_64_n_134217728.gb_per_s | ,.0f }}, {{ flying.one_share | .0% }} of the probed read. With 16 warps four
# loads at once reach {{ resident_warps.four_loads_of_4_bytes.warps_16_n_134217728.gb_per_s | ,.0f }} GB/s and one wide load
# {{ resident_warps.one_load_of_16_bytes.warps_16_n_134217728.gb_per_s | ,.0f }}, where a small load reaches
# {{ resident_warps.one_load_of_4_bytes.warps_16_n_134217728.gb_per_s | ,.0f }}.

# %% [markdown]
# Two things on the small load's curve ask for a reason. Why do 48 warps reach
# {{ resident_warps.one_load_of_4_bytes.warps_48_n_134217728.gb_per_s | ,.0f }} GB/s, hardly more than the
# {{ resident_warps.one_load_of_4_bytes.warps_32_n_134217728.gb_per_s | ,.0f }} of 32? The
# grid has {{ rounds.blocks | , }} blocks. With 48 warps on an SM they make
# {{ rounds.at_48 | .2f }} rounds and with 32 they make {{ rounds.at_32 | .2f }}: both end after the
# second. With 64 it is {{ rounds.at_64 | .2f }}, and one is enough. The open marks count that in. And Little's
# law read backwards, rounds included, gives the time that a load took: {{ flying.ns_at_2 | .0f }} ns
# with 2 warps, as in the chase, and {{ flying.ns_at_64 | .0f }} with 64. The difference is the queues
# of a busy memory.

# %% [markdown]
# ## How many fit
#
# So the number of resident warps matters, up to a point. Occupancy is that number as a share of the
# {{ little.most }} that an SM can hold. Four supplies set it, and the scarcest decides: places for
# threads, places for blocks, registers, and shared memory. Blocks come whole, so it goes in
# steps.[^optin]
#
# [^optin]: A block gets up to 48 KB of shared memory for the asking. For more, up to
#     {{ shared.most | .0f }} KB on an H100, the kernel has to opt in through an attribute, which this
#     course's `Kernel` does by itself.
#
# ??? definition "Occupancy"
#     Resident warps of an SM as a share of the most that it can hold.


# %% fold="Code of the figure"
def fitting(threads_in_a_block, registers_of_a_thread, shared_memory_of_a_block):
    found = occupancy(threads_in_a_block, registers_of_a_thread, shared_memory_of_a_block * 1024)
    if found.blocks_per_sm == 0:
        verdict = "No block fits: such a launch is refused."
    else:
        verdict = f"Occupancy {found.share:.0%}; the scarcest supply: {found.limited_by}."
    return Answer([found.blocks_per_sm, found.warps_per_sm], verdict)


show(
    calculator(
        [
            Slider(
                "threads in a block", [32, 64, 96, 128, 160, 192, 256, 320, 384, 512, 640, 768, 1024], 256
            ),
            Slider(
                "registers of a thread",
                [16, 24, 32, 40, 48, 56, 64, 72, 80, 96, 112, 128, 144, 168, 192, 200, 224, 255],
                32,
            ),
            Slider(
                "shared memory of a block",
                [0, 1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 113, 160, 227],
                0,
                "KB",
            ),
        ],
        fitting,
        meters=[
            Meter("resident blocks", 32, "of 32", "block"),
            Meter("resident warps", 64, "of 64", "measured"),
        ],
        title="The scarcest supply decides how many blocks stand on an SM",
        caption="How many blocks and warps fit on an {machine}'s SM. A block takes 1 KB of shared memory for the system besides its own.",
    )
)

# %% [markdown]
# Is the calculator right? The driver knows, since it has to place the blocks. When a kernel of this
# course is recorded, the driver is asked how many of its blocks fit on an SM, and the answer is kept
# with the times. A test holds the model to that answer, for every kernel of the course.

# %% [markdown]
# ## What registers cost
#
# Registers are the supply that a programmer meets first, because nobody asks for them: the compiler
# hands them out. An SM has {{ registers.all | , }} in four parts, one for each scheduler, and a
# thread may have at most {{ registers.most }}. At 200 a thread no more than {{ registers.at_200 }}
# warps fit.[^quarter] This kernel wants many. Each thread keeps a query, a row of `D` numbers, in
# variables of its own and finds the largest of its scores with all keys.
#
# [^quarter]: Where the sources differ: one gives an SM 16 thousand registers. That is a quarter of
#     it, the part of one scheduler.
#
# ??? definition "Register pressure"
#     Wanting more registers than there are, for a thread or for as many warps as one would like to
#     have resident.
#
# ??? definition "Register spill | spills | spilled"
#     A variable that the compiler keeps in local memory for lack of registers, with a store and a
#     load where it is used.


# %% tab="Pseudocode"
def best_score(Q, K, best):
    for i in parallel(len(Q)):
        best[i] = max(Q[i] @ k for k in K)


# %% tab="CUDA C"
BEST_SCORE = Kernel(
    r"""
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
# `q` looks like an array and is none: all its indices are known after unrolling, so each element
# becomes a register. With the option `--maxrregcount` the compiler can be held to fewer, and what does not fit is spilled to local memory. That memory is as far away as any, though its
# lines are usually found in L1.


# %% fold="Code of the cases"
def scored(N, M, d=64):
    return case(Q=normal(N, d), K=normal(M, d), best=output(N), N=N, M=M, grid=ceil_div(N, 128), block=128)


publish(
    registers={
        "all": HOPPER.registers,
        "most": HOPPER.registers_per_thread,
        "at_200": occupancy(64, 200).warps_per_sm,
    }
)
agree(best_score, BEST_SCORE, [scored(1, 3), scored(130, 7)], rtol=1e-4, atol=1e-4)


# %% fold="Code of the figure"
from tilewise.kernel.nvrtc import available, compile_kernel

CAPS = (None, 128, 64, 48, 40, 32)


def held_to(registers, d):
    options = [f"--maxrregcount={registers}"] if registers else []
    wanting = registers is not None and registers < d + 16  # its own D numbers and some more
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
            x="registers allowed to a thread",
            y="bytes spilled by a thread",
            title="A cap below what a thread needs turns registers into memory traffic",
            caption="Spilled bytes of a thread by the registers allowed to it, from the compiler's report for an H100. A query of D numbers takes 4 D bytes.",
        )
    )

# %% fold="Code of the numbers"
FREE, CAPPED = TAKEN.get((64, None), (np.nan, 0))[0], TAKEN.get((64, 128), (np.nan, 0))[0]
publish(report={"free_64": FREE, "capped_64": CAPPED, "cap": 128})

# %% [markdown]
# Two things stand in the report. A cap under the need costs spills, up to nearly the whole query. And
# a cap above it can *raise* the number of registers: at D = 64 the kernel does with
# {{ report.free_64 }}, and allowed {{ report.cap }} it takes {{ report.capped_64 }}. The likely use for more is to ask for several numbers before the first is
# needed, instruction-level parallelism bought with occupancy. Which of the two is worth more, no
# report says.[^read]
#
# [^read]: `nvcc -Xptxas -v` prints such a report, Compiler Explorer shows it beside the machine code,
#     and the kernel objects of CuPy have `num_regs` and `local_size_bytes`, so that nobody has to
#     guess.


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
    reasons={"*": "What registers cost"},
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
        ["registers", *(f"D\u00a0=\u00a0{d}, ms" for d in DEPTHS)],
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
        caption="The largest score of each of 262,144 queries with 256 keys, recorded on an {machine}: the time by the registers allowed to a thread. The best of each column is marked.",
    )
)
publish(
    caps={
        "warps_free_64": occupancy(128, FREE).warps_per_sm if TAKEN else np.nan,
        "warps_capped_64": occupancy(128, CAPPED).warps_per_sm if TAKEN else np.nan,
        "gain_64": took["no cap", 64] / took["at most 128", 64],
        "full_64": took["at most 32", 64] / took["at most 128", 64],
        "full_128": took["at most 32", 128] / took["no cap", 128],
    }
)

# %% [markdown]
# In every column the fastest is the one with the *fewest* warps. Held to 32 registers, the kernel has
# every place on an SM taken and needs {{ caps.full_64 | .1f }} times as long as the best at D = 64,
# and {{ caps.full_128 | .1f }} times at D = 128: the spilled numbers have to be fetched again for
# every key. Allowed 128 at D = 64, {{ caps.warps_capped_64 }} warps fit in place of
# {{ caps.warps_free_64 }}, and the kernel is {{ caps.gain_64 | .2f }} times as fast as without a cap. The likely reason
# is that it asks for more numbers before it uses the first; the report names registers, not the order
# of loads. And why a cap of 64 beats one of 128 at D = 128, in spite of its spills, nothing on this
# page explains; [the machine code](../toolbox/machine_code.py#where-the-loads-stand) does.

# %% [markdown]
# None of the versions comes near the arithmetic that the bound reckons with. Beside every
# multiply-add stands a load, of a number of the key, and its maker's white paper draws an SM of an
# H100 with 32 units for loads and stores beside 128 for arithmetic. A quarter of the ceiling is the
# most that such a loop can reach, wherever its numbers are found.

# %% [markdown]
# ## The answer
#
# No. Sixty-four warps with one load of 4 bytes a lane have {{ answer.kilobytes | .1f }} KB under way
# on each SM, {{ little.kilobytes | .1f }} are needed even if the memory answers as if it were idle,
# and the sum reaches {{ resident_warps.one_load_of_4_bytes.warps_64_n_134217728.gb_per_s | ,.0f }} GB/s,
# {{ flying.one_share | .0% }} of the probed
# read. With 16 bytes a lane it reaches {{ flying.wide_share | .0% }}, and a quarter of the warps come
# to {{ resident_warps.one_load_of_16_bytes.warps_16_n_134217728.gb_per_s | ,.0f }} GB/s.

# %% [markdown]
# ## Takeaways
#
# - A scheduler issues for whichever warp is ready, and changing over is free, because resident warps
#   keep their registers.
# - Bytes under way = bandwidth · latency. For an H100 that is {{ little.kilobytes | .1f }} KB on each
#   SM, all the time.
# - More warps, wider loads and several loads at once are three ways to the same end.
# - Occupancy is set by the scarcest of threads, blocks, registers and shared memory; the driver's own
#   answer agrees with the model for every recorded kernel.
# - High occupancy is no aim by itself. The fastest version of the last kernel has the fewest warps.


# %% fold="The whole cell, with two wrong answers that the tests turn down"
from tilewise import exercise


def warps_per_sm(registers, shared_bytes, threads):
    warps = -(-threads // 32)
    a_warp = -(-registers * 32 // 256) * 256  # handed out in units of 256
    by_registers = 4 * (16_384 // a_warp)  # each scheduler's part by itself
    a_block = -(-(shared_bytes + 1024) // 128) * 128  # 1 KB of each block is the system's
    blocks = min(64 // warps, 32, by_registers // warps, 233_472 // a_block)
    return blocks * warps


def registers_in_one_heap(registers, shared_bytes, threads):
    warps = -(-threads // 32)
    a_block = -(-(shared_bytes + 1024) // 128) * 128
    return warps * min(64 // warps, 32, 65_536 // (registers * 32 * warps), 233_472 // a_block)


def warps_without_blocks(registers, shared_bytes, threads):
    by_registers = 4 * (16_384 // (-(-registers * 32 // 256) * 256))
    a_block = -(-(shared_bytes + 1024) // 128) * 128
    return min(64, by_registers, 233_472 // a_block * -(-threads // 32))


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
    Write `warps_per_sm(registers, shared_bytes, threads)` for an H100: how many warps are resident on an
    SM if a thread takes so many registers and a block so much shared memory and so many threads. An SM has
    places for 64 warps and 32 blocks, four parts of 16,384 registers, and 233,472 bytes of shared memory. Registers go to a warp
    in units of 256, shared memory to a block in units of 128 bytes, after 1,024 bytes that the system takes for each
    block. The tests compare with the model that the driver has confirmed.
    """,
    answer=warps_per_sm,
    tests=occupancy_tests,
    wrong=[registers_in_one_heap, warps_without_blocks],
    hint="Count in blocks: how many does each supply have room for? Registers go to warps of one part, not to blocks of the whole.",
)

# %% [markdown]
# Every load in this lesson was one that memory likes: the lanes of a warp asked for neighbours. What
# happens to the bytes under way when they do not is the subject of a later part.
