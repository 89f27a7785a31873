# ---
# title: Thirty-two addresses, one request
# needs: [speed/roofline, machine/warps]
# summary: "Two kernels add up the same numbers. In one, neighbouring lanes read neighbouring numbers. How much sooner is it done?"
# description: "Sectors, bursts and alignment: predicted from addresses, counted twice, measured. Streaming at the copy rate. Kernel 3."
# date: 2026-11-21
# tags: [coalescing, sectors, streaming]
# ---

# %% [markdown]
# Two kernels add up the same {{ lists.numbers | , }} numbers, {{ lists.length }} to a thread. The
# loads and additions are the same in both, and so is the number of threads. In one, the numbers of
# a thread lie side by side, as one would lay them out for a processor with a few cores. In the
# other, the numbers that neighbouring threads need at the same moment lie side by side. How many
# times as long does the first one take?

# %% [markdown]
# ## Thirty-two addresses
#
# A load is one instruction for the 32 lanes of a warp, so it comes with 32 addresses. The hardware
# does not fetch 32 numbers for them. It works out which pieces of 32 bytes, called sectors, the
# addresses fall into, and fetches each of those once. Four neighbouring sectors, 128 bytes, are a
# cache line. All that a warp asks for with one instruction is a request. Where few sectors serve
# all its lanes, the request is coalesced.
#
# ??? definition "Cache line | cache lines"
#     128 bytes under one address in a cache: four sectors, each of which may be there or not.
#
# ??? definition "Coalescing | coalesced | coalesce"
#     Serving the addresses of a warp's lanes by as few sectors as hold them.

# %% [markdown]
# 32 lanes that read 4 bytes each, side by side, need {{ sectors.stride_1 }} sectors, if the first
# address is a multiple of 32: that is what alignment is about. If they begin 4 bytes later, it is
# {{ sectors.offset_1 }}. If each takes every second number, a stride of 2, the numbers lie in
# {{ sectors.stride_2 }} sectors, of which half is fetched in vain. From a stride of 8 on every lane
# needs a sector of its own, {{ sectors.stride_8 }} in all, and {{ sectors.useless | .1%  }} of what
# is fetched is not used. Move the sliders.
#
# ??? definition "Alignment | aligned"
#     Whether an address is a whole multiple of the size that is fetched there, or that a wide load
#     needs.

# %% fold="Code of the figure"
import numpy as np

from tilewise import (
    Trace,
    agree,
    case,
    ceil_div,
    check,
    constant,
    integers,
    measure,
    normal,
    output,
    publish,
    show,
)
from tilewise.figures import Answer, Meter, Series, Slider, bars, calculator, line_chart, stepped
from tilewise.measurements import medians_us, recorded
from tilewise.models import sectors_of_stride


def sectors_of(stride, offset, bytes_a_lane):
    """Sectors of one request, and the share of their bytes that some lane asked for."""
    if 4 * offset % bytes_a_lane:
        return Answer([0, 0], f"No such load: its address is not a multiple of {bytes_a_lane}.")
    touched = sectors_of_stride(stride, bytes_a_lane, offset=4 * offset)
    useful = bytes_a_lane / touched
    said = f"32 lanes ask for {32 * bytes_a_lane} bytes, and {32 * touched:,} are fetched."
    return Answer([touched, useful], said)


show(
    calculator(
        [
            Slider("stride", [1, 2, 3, 4, 6, 8, 12, 16, 32, 64], 2),
            Slider("offset", [*range(9), 16, 31], 0, "numbers"),
            Slider("bytes a lane", [4, 8, 16], 4),
        ],
        sectors_of,
        meters=[
            Meter("sectors fetched", 64, "", "predicted"),
            Meter("useful share of them", 1.0, "", "read", ".0%"),
        ],
        title="A stride of two wastes half of every sector, and a stride of eight seven eighths",
        caption="Sectors of one request whose lanes read a given number of bytes each. Stride is the distance from lane to lane in units of what a lane reads; the offset is in numbers of 4 bytes. A model.",
    )
)
publish(
    sectors={
        "stride_1": sectors_of_stride(1),
        "stride_2": sectors_of_stride(2),
        "stride_8": sectors_of_stride(8),
        "offset_1": sectors_of_stride(1, offset=4),
        "useless": 1 - 4 / 32,
        "times_8": sectors_of_stride(8) / sectors_of_stride(1),
        "times_offset": sectors_of_stride(1, offset=4) / sectors_of_stride(1),
    },
)

# %% [markdown]
# ## Every pattern, three times
#
# To see whether sectors decide, one kernel reads in any pattern. Its threads go through the numbers
# in a grid-stride loop, and what is number `i` there lies at `offset + i * stride`. A thread keeps
# a sum, so that the reads are not dropped and next to nothing is written.

# %% tab="Pseudocode"
from tilewise import parallel


def pick(x, partial, n, stride, offset):
    threads = len(partial)
    taken = x[offset:][::stride][:n]
    for me in parallel(threads):
        partial[me] = sum(taken[me::threads])


# %% tab="CUDA C"
from tilewise import Kernel

PICK = Kernel(r"""
extern "C" __global__
void pick(const int* x, int* partial, int n, int stride, int offset) {
    int me = blockIdx.x * blockDim.x + threadIdx.x;
    int threads = gridDim.x * blockDim.x;
    int s = 0;
    for (int i = me; i < n; i += threads)
        s += x[offset + i * stride];
    partial[me] = s;
}
""")


# %% tab="Numba" needs="numba"
from tilewise.frameworks import cuda  # numba.cuda


@cuda.jit
def pick_numba(x, partial, n, stride, offset):
    me, threads = cuda.grid(1), cuda.gridsize(1)
    s = 0
    for i in range(me, n, threads):
        s += x[offset + i * stride]
    partial[me] = s


# %% fold="Code of the check"
def picking(n, stride, offset, x=None, threads=None, block=256):
    threads = n // 32 if threads is None else threads
    taken = {"x": constant(64 * n, value=1, dtype="int32") if x is None else x}
    partial = output(threads, dtype="int32")
    numbers = {"n": n, "stride": stride, "offset": offset}
    return case(**taken, partial=partial, **numbers, grid=threads // block, block=block)


def drawn(size):
    return integers(size, low=-1000, high=1000, dtype="int32")


cases = [
    picking(n, stride, offset, drawn(size), 128, 64)
    for n, stride, offset, size in ((101, 1, 0, 4001), (77, 33, 5, 2999), (500, 7, 31, 4003))
]
agree(pick, PICK, cases, rtol=0.0)
agree(pick_numba, PICK, cases, by="Numba")

# %% [markdown]
# The prediction: every variant uses the same number of bytes, so the time should grow as the
# sectors do. A stride of 8 and all beyond should take {{ sectors.times_8 | .0f }} times as long
# as a stride of 1, and an offset of one number {{ sectors.times_offset | .2f }} times. Which of these
# two do you trust less?

# %% [markdown]
# Among the variants are four more, to which we come back: they read whole runs of neighbouring
# numbers, with gaps between the runs.


# %% tab="Pseudocode"
def pick_runs(x, partial, n, run, gap):
    threads = len(partial)
    taken = np.concatenate([x[start:][:run] for start in range(0, len(x), gap)])[:n]
    for me in parallel(threads):
        partial[me] = sum(taken[me::threads])


# %% tab="CUDA C"
PICK_RUNS = Kernel(r"""
extern "C" __global__
void pick_runs(const int* x, int* partial, int n, int run, int gap) {
    int me = blockIdx.x * blockDim.x + threadIdx.x;
    int threads = gridDim.x * blockDim.x;
    int lane = me % run, jump = threads / run;  // run divides threads
    int s = 0, r = me / run;
    for (int i = me; i < n; i += threads, r += jump)
        s += x[r * gap + lane];
    partial[me] = s;
}
""")


# %% tab="Numba" needs="numba"
@cuda.jit
def pick_runs_numba(x, partial, n, run, gap):
    me, threads = cuda.grid(1), cuda.gridsize(1)
    lane, jump = me % run, threads // run  # run divides threads
    s, r = 0, me // run
    for _ in range(me, n, threads):
        s += x[r * gap + lane]
        r += jump
    partial[me] = s


# %% fold="Code of the check"
def picking_runs(n, run, gap, x=None, threads=None, block=256):
    threads = n // 32 if threads is None else threads
    taken = {"x": constant(64 * n, value=1, dtype="int32") if x is None else x}
    partial = output(threads, dtype="int32")
    numbers = {"n": n, "run": run, "gap": gap}
    return case(**taken, partial=partial, **numbers, grid=threads // block, block=block)


cases = [
    picking_runs(n, run, gap, drawn(size), 128, 64)
    for n, run, gap, size in ((101, 8, 16, 401), (77, 1, 7, 533), (500, 16, 33, 1993))
]
agree(pick_runs, PICK_RUNS, cases, rtol=0.0)
agree(pick_runs_numba, PICK_RUNS, cases, by="Numba")

# %% fold="Code of the measurement"
STRIDES = (1, 2, 4, 8, 16, 32, 64)
OFFSETS = range(1, 32)
RUNS = ((8, 16), (8, 32), (16, 32), (32, 64))


def strided(stride):
    return lambda n: PICK.on(picking(n, stride, 0))


def shifted(offset):
    return lambda n: PICK.on(picking(n, 1, offset))


def in_runs(run, gap):
    return lambda n: PICK_RUNS.on(picking_runs(n, run, gap))


reads = measure(
    "reads",
    variants={
        **{f"stride {stride}": strided(stride) for stride in STRIDES},
        **{f"offset {offset}": shifted(offset) for offset in OFFSETS},
        **{f"runs of {run}, {gap} apart": in_runs(run, gap) for run, gap in RUNS},
    },
    cases=[{"n": 2**23}],
    count_case={"n": 2**14},
    bytes=lambda n: 4 * n,
    reference=lambda n: {"partial": np.full(n // 32, 32)},
    tolerance=0.0,
    reasons={"*": "What the sectors leave unexplained"},
    fold="All 42 rows",
)

# %% [markdown]
# The strides first, against that prediction.

# %% fold="Code of the figure"
from tilewise import Table

reads_rows = {row["variant"]: row for row in reads.rows}
reads_us = medians_us(reads)
READ_GB_PER_S = recorded("reads.ceilings.probes.read_gb_per_s")
COUNT = 2**23
fixed_us = reads_us["stride 1"] - 4 * COUNT / READ_GB_PER_S / 1e3


def model_us(stride, burst):
    """The fixed part, fitted to the stride of 1, and pieces of so many bytes at the probed rate."""
    return fixed_us + COUNT * min(4 * stride, burst) / READ_GB_PER_S / 1e3


stride_us = [reads_us[f"stride {stride}"] for stride in STRIDES]
show(
    line_chart(
        [
            Series("recorded", STRIDES, stride_us),
            Series("sectors, 32 bytes", STRIDES, [model_us(s, 32) for s in STRIDES], role="predicted"),
            Series("pieces of 64 bytes", STRIDES, [model_us(s, 64) for s in STRIDES], role="tile"),
        ],
        x="stride",
        y="time [µs]",
        log_x=True,
        title="Up to a stride of 8 the time follows the sectors; at 16 it doubles once more",
        caption="8,388,608 numbers read at a stride on an {machine}, and two models: a fixed part, fitted to the stride of 1, and pieces of 32 or 64 bytes at the rate of the fastest probed read.",
    )
)
offset_us = [reads_us[f"offset {offset}"] for offset in OFFSETS]
if np.isfinite(stride_us).all():
    for stride, burst in ((2, 32), (4, 32), (8, 32), (16, 64)):
        off = model_us(stride, burst) / reads_us[f"stride {stride}"] - 1
        assert abs(off) < 0.05, f"the title says that a model gives the time of a stride of {stride}"
    assert max(offset_us) < 1.1 * reads_us["stride 1"], "the title says that an offset takes hardly longer"
publish(
    seen={
        "variants": len(reads_rows),
        "times_8": reads_us["stride 8"] / reads_us["stride 1"],
        "fixed_us": fixed_us,
        "model_8_us": model_us(8, 32),
        "model_16_us": model_us(16, 64),
        "times_16": reads_us["stride 16"] / reads_us["stride 8"],
        "times_64": reads_us["stride 64"] / reads_us["stride 16"],
        "offset_least_us": min(offset_us),
        "offset_most_us": max(offset_us),
        "megabytes_64": 4 * 64 * COUNT / 2**20,
    }
)

# %% [markdown]
# The sectors that an H100 counted are those of the simulator in all {{ seen.variants }} rows.
#
# A stride of 8 takes
# {{ seen.times_8 | .1f }} times as long as a stride of 1, not {{ sectors.times_8 | .0f }} times:
# some {{ seen.fixed_us | .1f }} µs of each launch pass whatever it reads, and they weigh most where
# there is least to do. Sectors at the probed rate plus that fixed part, which is fitted to the stride of 1, give
# {{ seen.model_8_us | us }} for a stride of 8, and {{ reads.stride_8.n_8388608.median | us }} were
# recorded.

# %% [markdown]
# Now the offsets. The sectors go up to 5 in place of 4 wherever the offset is no multiple of 8. The time does not:
# {{ seen.offset_least_us | .1f }} to {{ seen.offset_most_us | .1f }} µs from offset 1 to 31, and
# {{ reads.stride_1.n_8388608.median | us }} at 0. The fifth sector of a warp is the first of the
# next one's. It is asked for twice and counted twice, in front of the caches, and comes from memory
# once. So for reads that go on and on, alignment is a matter of requests, not of bytes.

# %% [markdown]
# ## What the sectors leave unexplained
#
# From stride 8 to 16 the sectors stay the same, {{ sectors.stride_8 }} a request, and the time
# grows {{ seen.times_16 | .2f }} times. Does the memory itself send larger pieces? The four
# variants with runs can tell. All of them need 4 sectors a request, like a stride of 1, and use
# every byte of each. They differ in which sectors they leave out.

# %% fold="Code of the table"
LAYOUTS = {
    "stride 1": ("everything", "both"),
    "runs of 32, 64 apart": ("four sectors of eight", "both"),
    "runs of 16, 32 apart": ("two of four", "both"),
    "runs of 8, 16 apart": ("one of two", "one"),
    "runs of 8, 32 apart": ("one of four", "one"),
}
rows = []
for label, (taken, halves) in LAYOUTS.items():
    counts = reads_rows[label]["simulated"]
    each = counts["global_load_sectors"] / counts["global_load_requests"] if counts else None
    rows.append([label, taken, halves, each, reads_us[label]])
show(
    Table(
        ["pattern", "sectors taken", "of two neighbours", "sectors a request", "recorded, µs"],
        rows,
        caption="Patterns of whole sectors on an {machine}. Two neighbouring sectors that begin at a multiple of 64 bytes are taken both, or one of them.",
    )
)
publish(
    burst={
        "times": reads_us["runs of 8, 16 apart"] / reads_us["runs of 16, 32 apart"],
        "bytes": 64,
    }
)

# %% [markdown]
# Whoever takes both sectors of a pair is as fast as a stride of 1; whoever takes one of two takes
# {{ burst.times | .1f }} times as long, as if the other came along. So this GPU's memory delivers
# {{ burst.bytes }} bytes at a time. Such a run is called a burst: the slow part of a read is to
# open a row of the memory's cells, and to send on a few neighbours then costs little.[^four] The
# second model in the figure has pieces of {{ burst.bytes }} bytes and gives
# {{ seen.model_16_us | us }} for a stride of 16, where {{ reads.stride_16.n_8388608.median | us }}
# were recorded. A stride of 64 takes {{ seen.times_64 | .2f }} times as long again, spread over
# {{ seen.megabytes_64 | ,.0f }} MiB; for that neither model has a reason.
#
# [^four]: [Where the sources differ](../../conventions.md#the-sources): the lecture's memory sends
#     four neighbouring values for one, which it once calls bytes, and so gains up to a factor of
#     four. That is the scale of its drawing. Here 8 numbers of 4 bytes are a sector and 16 a burst.
#
# ??? definition "Burst | bursts"
#     The run of neighbouring bytes that memory delivers at a time, because opening their row was
#     the slow part.

# %% [markdown]
# Why is opening slow? A cell of such memory is a charge too small to be read as it is, and reading
# spends it. So a row of amplifiers takes over a whole row of cells and holds their numbers. From
# there bursts leave quickly; but another row can be opened only when this one has been restored and
# closed. A row is opened once, and what lies beside a number comes with it.

# %% [markdown]
# ## Own row, own column
#
# Now the question of the beginning. The numbers of all threads are a matrix in row-major order. In
# the first kernel thread `r` walks along row `r`. It reads its numbers one after another from
# neighbouring places, which looks orderly, and is, for one thread. But a warp is 32 threads, and at
# any moment its lanes are a whole row apart.[^rows]
#
# [^rows]: Where the sources differ: the lecture changes rows and columns about three times over.
#     What counts is what the lanes of a warp touch at one instant, not what one thread touches over
#     time.


# %% tab="Pseudocode"
def sum_own_row(A, out):
    for r in parallel(len(A)):
        out[r] = sum(A[r, :])


# %% tab="CUDA C"
SUM_OWN_ROW = Kernel(r"""
extern "C" __global__
void sum_own_row(const int* A, int* out, int R, int C) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= R) return;
    int s = 0;
    for (int c = 0; c < C; ++c) s += A[r * C + c];
    out[r] = s;
}
""")


# %% tab="Numba" needs="numba"
@cuda.jit
def sum_own_row_numba(A, out):
    r = cuda.grid(1)
    R, C = A.shape
    if r < R:
        s = 0
        for c in range(C):
            s += A[r, c]
        out[r] = s


# %% [markdown]
# In the second, thread `c` walks down column `c`. From one pass to the next it jumps a whole row
# ahead, and at any moment the warp's lanes stand side by side.


# %% tab="Pseudocode"
def sum_own_column(A, out):
    for c in parallel(A.shape[1]):
        out[c] = sum(A[:, c])


# %% tab="CUDA C"
SUM_OWN_COLUMN = Kernel(r"""
extern "C" __global__
void sum_own_column(const int* A, int* out, int R, int C) {
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= C) return;
    int s = 0;
    for (int r = 0; r < R; ++r) s += A[r * C + c];
    out[c] = s;
}
""")


# %% tab="Numba" needs="numba"
@cuda.jit
def sum_own_column_numba(A, out):
    c = cuda.grid(1)
    R, C = A.shape
    if c < C:
        s = 0
        for r in range(R):
            s += A[r, c]
        out[c] = s


# %% [markdown]
# Step through both with 32 threads and rows of eight numbers. In the first each pass touches all
# the sectors of the matrix, and so does the next pass; in the second a pass touches four and is
# done with them.


# %% fold="Code of the checks"
def walking(lists, length, along, A=None):
    R, C = (lists, length) if along == "row" else (length, lists)
    A = constant(R, C, value=1, dtype="int32") if A is None else A
    return case(A=A, out=output(lists, dtype="int32"), R=R, C=C, grid=ceil_div(lists, 256), block=256)


def small_numbers(*shape):
    return integers(*shape, low=-99, high=99, dtype="int32")


lying = [walking(37, 20, "row", small_numbers(37, 20)), walking(300, 12, "row", small_numbers(300, 12))]
standing = [
    walking(37, 20, "column", small_numbers(20, 37)),
    walking(300, 12, "column", small_numbers(12, 300)),
]
agree(sum_own_row, SUM_OWN_ROW, lying, rtol=0.0)
agree(sum_own_column, SUM_OWN_COLUMN, standing, rtol=0.0)
agree(sum_own_row_numba, SUM_OWN_ROW, lying, by="Numba")
agree(sum_own_column_numba, SUM_OWN_COLUMN, standing, by="Numba")

# %% fold="Code of the figures"
few_rows = SUM_OWN_ROW.on(walking(32, 8, "row", small_numbers(32, 8)), grid=1, block=32)
few_columns = SUM_OWN_COLUMN.on(walking(32, 8, "column", small_numbers(8, 32)), grid=1, block=32)
show(
    stepped(
        few_rows.simulate(trace=Trace()),
        launch=few_rows,
        extent=32,
        start=1,
        title="Along its own row: each pass of the warp touches a sector of every row",
        caption="32 threads add up a row of eight numbers each. A row is one sector, and every pass of the loop needs all 32 of them.",
    )
)
show(
    stepped(
        few_columns.simulate(trace=Trace()),
        launch=few_columns,
        extent=32,
        start=1,
        title="Down its own column: each pass of the warp touches four sectors and uses all of each",
        caption="32 threads add up a column of eight numbers each. A pass of the loop reads one row of 128 bytes.",
    )
)

# %% [markdown]
# The rows are {{ lists.length }} numbers long, {{ lists.bytes }} bytes, so a sector that a lane has
# opened serves its next seven passes, if it is still in the L1 by then. That is a bet on the cache:
# an SM with all its {{ lists.threads | , }} threads has {{ lists.threads | , }} rows open at a
# time. There is a way to need less luck. A load of 16 bytes takes four numbers at once, and a lane
# comes back for its sector once and not seven times. Such a vectorised load needs an address that
# is a multiple of 16.
#
# ??? definition "Vectorised load | vectorised"
#     A load that brings several neighbouring numbers to a lane, up to 16 bytes, from an aligned
#     address.

# %%
SUM_OWN_ROW_WIDE = Kernel(r"""
extern "C" __global__
void sum_own_row_wide(const int* A, int* out, int R, int C) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= R) return;
    int s = 0;
    for (int c = 0; c < C; c += 4) {  // New: four numbers a load
        int4 v = *(const int4*)(A + r * C + c);
        s += v.x + v.y + v.z + v.w;
    }
    out[r] = s;
}
""")

# %% fold="Code of the check"
agree(sum_own_row, SUM_OWN_ROW_WIDE, lying, rtol=0.0)

# %% fold="Code of the measurement"
from tilewise import Guess

walks = measure(
    "walks",
    variants={
        "own row": lambda length, lists: SUM_OWN_ROW.on(walking(lists, length, "row")),
        "own row, 16 bytes a load": lambda length, lists: SUM_OWN_ROW_WIDE.on(walking(lists, length, "row")),
        "own column": lambda length, lists: SUM_OWN_COLUMN.on(walking(lists, length, "column")),
    },
    cases=[{"length": 128, "lists": 2**18}],
    count_case={"length": 128, "lists": 1024},
    bytes=lambda length, lists: 4 * lists * (length + 1),
    reference=lambda A: {"out": A.sum(axis=1)},
    tolerance=0.0,
    reasons={"*": "Own row, own column"},
    guess=Guess(
        "How many times as fast is a walk down the own column as one along the own row?",
        of="own column",
        over="own row",
        at={"length": 128, "lists": 2**18},
        between=(0.5, 32),
        models={
            "sectors of a request": sectors_of_stride(128) / sectors_of_stride(1),
            "a cache keeps every sector": 1.0,
        },
        because="Both loads use every byte of every sector in the end; what differs is whether it is still there.",
    ),
)

# %% fold="Code of the numbers"
walks_us = medians_us(walks)
publish(
    walked={
        "times": walks_us["own row"] / walks_us["own column"],
        "sectors": sectors_of_stride(128) / sectors_of_stride(1),
        "wide_sectors": sectors_of_stride(32, 16),
    },
    lists={"length": 128, "bytes": 4 * 128, "threads": 2048, "numbers": 128 * 2**18},
)

# %% [markdown]
# A walk down the own column takes {{ walks.own_column.length_128_lists_262144.median | us }}, one
# along the own row {{ walks.own_row.length_128_lists_262144.median | us }}:
# {{ walked.times | .1f }} times as long, where a request has {{ walked.sectors | .0f }} times the
# sectors. So the caches keep most of what was opened, and it still costs. With 16 bytes a load the
# rows take {{ walks.own_row_16_bytes_a_load.length_128_lists_262144.median | us }}. Every request
# there has {{ walked.wide_sectors | .0f }} sectors, too, but of each sector half is used at once
# and there is a quarter of the requests.

# %% [markdown]
# ## Streaming
#
# The friendliest pattern of all goes through everything once: vector addition. In the first lesson
# its plain form, one number a thread, stayed below its bound although each of its requests has 4
# sectors and uses all of them. Coalescing has nothing left to give. The yardstick here is the
# driver's own copy, which moved {{ stream_add.ceilings.probes.copy_gb_per_s | ,.0f }} GB/s on the recorded GPU, reads
# and writes added. What brings an addition there? The candidates: a grid-stride loop with just as
# many blocks as the SMs hold at a time, and wider loads.


# %% tab="Pseudocode"
def add(a, b, c):
    for i in parallel(len(a)):
        c[i] = a[i] + b[i]


# %% tab="CUDA C"
ADD = Kernel(r"""
extern "C" __global__
void add(const float* a, const float* b, float* c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
""")

# %% fold="The grid-stride loop, and 8 bytes a load"
ADD_STRIDED = Kernel(r"""
extern "C" __global__
void add_strided(const float* a, const float* b, float* c, int n) {
    int threads = gridDim.x * blockDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += threads)
        c[i] = a[i] + b[i];
}
""")

ADD_TWO = Kernel(r"""
extern "C" __global__
void add_two(const float* a, const float* b, float* c, int n) {
    int i = 2 * (blockIdx.x * blockDim.x + threadIdx.x);
    if (i + 1 < n) {
        float2 u = *(const float2*)(a + i), v = *(const float2*)(b + i);
        *(float2*)(c + i) = make_float2(u.x + v.x, u.y + v.y);
    } else if (i < n) {
        c[i] = a[i] + b[i];
    }
}
""")

# %%
ADD_FOUR = Kernel(r"""
extern "C" __global__
void add_four(const float* a, const float* b, float* c, int n) {
    int i = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
    if (i + 3 < n) {
        float4 u = *(const float4*)(a + i), v = *(const float4*)(b + i);
        *(float4*)(c + i) =
            make_float4(u.x + v.x, u.y + v.y, u.z + v.z, u.w + v.w);
    } else {
        for (; i < n; ++i) c[i] = a[i] + b[i];  // the last one to three
    }
}
""")

# %% [markdown]
# Two more steps are often recommended. One marks loads and stores as used once, so that they do not
# push other things out of the caches. The other has a thread ask for everything it needs before it
# adds for the first time.

# %% fold="The two kernels"
ADD_FOUR_STREAMING = Kernel(r"""
extern "C" __global__
void add_four_streaming(const float* a, const float* b, float* c, int n) {
    int i = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
    if (i + 3 < n) {
        float4 u = __ldcs((const float4*)(a + i));  // New: will not be used again
        float4 v = __ldcs((const float4*)(b + i));
        __stcs((float4*)(c + i),
               make_float4(u.x + v.x, u.y + v.y, u.z + v.z, u.w + v.w));
    } else {
        for (; i < n; ++i) c[i] = a[i] + b[i];
    }
}
""")

ADD_FOUR_FOUR = Kernel(r"""
extern "C" __global__
void add_four_four(const float* a, const float* b, float* c, int n) {
    int first = 16 * blockIdx.x * blockDim.x + 4 * threadIdx.x;
    float4 u[4], v[4];
    #pragma unroll
    for (int k = 0; k < 4; ++k) {  // New: eight loads before the first sum
        int i = first + 4 * k * blockDim.x;
        if (i + 3 < n) {
            u[k] = *(const float4*)(a + i);
            v[k] = *(const float4*)(b + i);
        }
    }
    #pragma unroll
    for (int k = 0; k < 4; ++k) {
        int i = first + 4 * k * blockDim.x;
        if (i + 3 < n) {
            *(float4*)(c + i) = make_float4(u[k].x + v[k].x, u[k].y + v[k].y,
                                            u[k].z + v[k].z, u[k].w + v[k].w);
        } else {
            for (; i < n; ++i) c[i] = a[i] + b[i];
        }
    }
}
""")


# %% fold="Code of the checks"
def adding(n, each=1, block=256, grid=None):
    grid = ceil_div(n, each * block) if grid is None else grid
    return case(a=normal(n), b=normal(n), c=output(n), n=n, grid=grid, block=block)


ADDS = {
    "4 bytes a load": (ADD, {}),
    "4 bytes, grid-stride loop": (ADD_STRIDED, {"grid": 132 * 8}),
    "8 bytes a load": (ADD_TWO, {"each": 2}),
    "16 bytes a load": (ADD_FOUR, {"each": 4}),
    "16 bytes, blocks of 1,024": (ADD_FOUR, {"each": 4, "block": 1024}),
    "16 bytes, marked as used once": (ADD_FOUR_STREAMING, {"each": 4}),
    "16 bytes, eight loads at once": (ADD_FOUR_FOUR, {"each": 16}),
}
for kernel, how in ADDS.values():
    agree(add, kernel, [adding(n, **how) for n in (1, 77, 4099, 5002)], rtol=0.0)

# %% fold="Code of the measurement"


def torch_add(arrays):
    import torch

    a, b, c = (torch.as_tensor(arrays[name], device="cuda") for name in "abc")
    return lambda: torch.add(a, b, out=c)


def cupy_add(arrays):
    import cupy

    return lambda: cupy.add(arrays["a"], arrays["b"], out=arrays["c"])


def adding_by(label):
    kernel, how = ADDS[label]
    return lambda n: kernel.on(adding(n, **how))


sums = measure(
    "stream_add",
    variants={label: adding_by(label) for label in ADDS},
    cases=[{"n": 2**26}],
    count_case={"n": 2**16},
    bytes=lambda n: 12 * n,
    flop=lambda n: n,
    library={"cupy.add": cupy_add, "torch.add": torch_add},
    reference=lambda a, b: {"c": a + b},
    tolerance=1e-6,
    counts=("sectors", "requests"),
)

# %% [markdown]
# One number a thread reaches {{ streams.add._4_bytes_a_load | .0% }} of the copy's rate. The grid-stride loop,
# {{ streams.add._4_bytes_grid_stride_loop | .0% }}, helps little. 8 bytes a load help:
# {{ streams.add._8_bytes_a_load | .0% }};
# 16 bytes are as good, {{ streams.add._16_bytes_a_load | .0% }}. Sectors are the same in all rows; what changes
# is how many bytes one request asks for, and so how much is under way at a time. [Hiding
# latency](../speed/occupancy.py) has that as its subject. The steps beyond bring nothing: blocks of
# 1,024 {{ streams.add._16_bytes_blocks_of_1_024 | .0% }}, the marks
# {{ streams.add._16_bytes_marked_as_used_once | .0% }}, eight loads at
# once {{ streams.add._16_bytes_eight_loads_at_once | .0% }}; torch.add {{ streams.add.torch_add | .0% }}.

# %% [markdown]
# ReLU, $y = \max(x, 0)$, has one input in place of two, so a thread has one load under way in place
# of two. If bytes under way are what counts, its plain form must fall further behind, and the wide
# one must make up for it.


# %% tab="Pseudocode"
def relu(x, y):
    for i in parallel(len(x)):
        y[i] = max(x[i], 0)


# %% tab="CUDA C"
RELU = Kernel(r"""
extern "C" __global__
void relu(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = fmaxf(x[i], 0.0f);
}
""")

# %% fold="ReLU with 16 bytes a load, and with four of them at once"
RELU_FOUR = Kernel(r"""
extern "C" __global__
void relu_four(const float* x, float* y, int n) {
    int i = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
    if (i + 3 < n) {
        float4 v = *(const float4*)(x + i);
        *(float4*)(y + i) = make_float4(fmaxf(v.x, 0.0f), fmaxf(v.y, 0.0f),
                                        fmaxf(v.z, 0.0f), fmaxf(v.w, 0.0f));
    } else {
        for (; i < n; ++i) y[i] = fmaxf(x[i], 0.0f);
    }
}
""")

RELU_FOUR_FOUR = Kernel(r"""
extern "C" __global__
void relu_four_four(const float* x, float* y, int n) {
    int first = 16 * blockIdx.x * blockDim.x + 4 * threadIdx.x;
    float4 v[4];
    #pragma unroll
    for (int k = 0; k < 4; ++k) {  // New: four loads before the first store
        int i = first + 4 * k * blockDim.x;
        if (i + 3 < n) v[k] = *(const float4*)(x + i);
    }
    #pragma unroll
    for (int k = 0; k < 4; ++k) {
        int i = first + 4 * k * blockDim.x;
        if (i + 3 < n) {
            *(float4*)(y + i) =
                make_float4(fmaxf(v[k].x, 0.0f), fmaxf(v[k].y, 0.0f),
                            fmaxf(v[k].z, 0.0f), fmaxf(v[k].w, 0.0f));
        } else {
            for (; i < n; ++i) y[i] = fmaxf(x[i], 0.0f);
        }
    }
}
""")


# %% fold="Code of the checks"
def cutting(n, each=1, block=256):
    return case(x=normal(n), y=output(n), n=n, grid=ceil_div(n, each * block), block=block)


RELUS = {
    "4 bytes a load": (RELU, 1),
    "16 bytes a load": (RELU_FOUR, 4),
    "16 bytes, four loads at once": (RELU_FOUR_FOUR, 16),
}
for kernel, each in RELUS.values():
    agree(relu, kernel, [cutting(n, each) for n in (1, 77, 4099, 5002)], rtol=0.0)


# %% fold="Code of the measurement"
def torch_relu(arrays):
    import torch

    x, y = (torch.as_tensor(arrays[name], device="cuda") for name in "xy")
    return lambda: torch.clamp_min(x, 0.0, out=y)


def cutting_by(label):
    kernel, each = RELUS[label]
    return lambda n: kernel.on(cutting(n, each))


relus = measure(
    "stream_relu",
    variants={label: cutting_by(label) for label in RELUS},
    cases=[{"n": 2**26}],
    count_case={"n": 2**16},
    bytes=lambda n: 8 * n,
    flop=lambda n: n,
    library={"torch.clamp_min": torch_relu},
    reference=lambda x: {"y": np.maximum(x, 0)},
    tolerance=0.0,
    counts=("sectors", "requests"),
)

# %% [markdown]
# It does: {{ streams.relu._4_bytes_a_load | .0% }} of the copy's rate with 4 bytes a load,
# {{ streams.relu._16_bytes_a_load | .0% }} with 16. Four such loads at once are no better,
# {{ streams.relu._16_bytes_four_loads_at_once | .0% }}. Some shares lie a little above 100: the yardstick is one copy of a
# size of its own, and what the last per cents hang on is not shown here.

# %% fold="Code of the figure"
from tilewise.measurements.slugs import name_slug

of_copy, streams = {}, {}
for name, moved, made in (("add", 12, sums), ("ReLU", 8, relus)):
    copy_gb_per_s = recorded(f"stream_{name.lower()}.ceilings.probes.copy_gb_per_s")
    rates = {label: moved * 2**26 / us / 1e3 / copy_gb_per_s for label, us in medians_us(made).items()}
    of_copy |= {f"{name}: {label}": rate for label, rate in rates.items()}
    streams[name.lower()] = {name_slug(label): rate for label, rate in rates.items()}
publish(streams=streams)
show(
    bars(
        {label: 100 * share for label, share in of_copy.items()},
        x="share of the device copy's rate [%]",
        form=".1f",
        value_range=(0, 110),
        title="Wider loads bring both kernels to the copy's rate; nothing that was tried beyond helps",
        caption="Bytes a second of vector addition and ReLU over 67,108,864 numbers on an {machine}, as a share of the rate of the driver's own copy on the same GPU, reads and writes added.",
    )
)
if np.isfinite(list(of_copy.values())).all():
    for name in ("add", "ReLU"):
        one, four = of_copy[f"{name}: 4 bytes a load"], of_copy[f"{name}: 16 bytes a load"]
        assert one < 0.95 < four, "the title says that wider loads bring both kernels to the copy's rate"
        more = [rate for label, rate in of_copy.items() if f"{name}: 16 bytes, " in label]
        assert max(more) < 1.02 * four, "the title says that nothing beyond helps"

# %% [markdown]
# ## Kernel 3
#
# Back to attention. In Kernel 2 the lanes of a warp stand along the keys, `j`. For the scores they
# read `K[j, k]` at one `k`: the column of a matrix, 32 sectors. Softmax walks along a row of $S$, a
# row a lane: 32 sectors. Only the weighted sum was coalesced already. All of this can be mended by
# the choice of layout alone, if the lanes stand along the queries, `i`, and three arrays are kept
# turned: $Q^\top$, $S^\top$ and $P^\top$. Then each lane has its own column. $K$ is read at one
# place for the whole warp,[^broadcast] which is one sector. For the turned $Q$ there is one small
# launch more.
#
# [^broadcast]: Where the sources differ: the lecture calls the row operand of a product
#     uncoalesced. Where x runs along the columns and a block is at least 32 wide, all lanes of a
#     warp want the same number of it: one sector.


# %% tab="Pseudocode"
def turn(Q, QT):
    N, d = Q.shape
    for i, k in parallel(N, d):
        QT[k, i] = Q[i, k]


# %% tab="CUDA C"
TURN = Kernel(r"""
extern "C" __global__
void turn(const float* Q, float* QT, int N, int d) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int k = blockIdx.y * blockDim.y + threadIdx.y;
    if (i >= N || k >= d) return;
    QT[k * N + i] = Q[i * d + k];
}
""")

# %% [markdown]
# In the scores the lanes stand along `i`, and `QT[k, i]` is a row of the turned array for them.


# %% tab="Pseudocode"
def scores_turned(QT, K, ST, scale):
    d, N = QT.shape
    for i, j in parallel(N, N):
        s = 0.0
        for k in range(d):
            s += QT[k, i] * K[j, k]
        ST[j, i] = s * scale


# %% tab="CUDA C"
SCORES_TURNED = Kernel(r"""
extern "C" __global__
void scores_turned(const float* QT, const float* K, float* ST,
                   int N, int d, float scale) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;  // New: lanes along i
    int j = blockIdx.y * blockDim.y + threadIdx.y;
    if (i >= N || j >= N) return;
    float s = 0.0f;
    for (int k = 0; k < d; ++k) s += QT[k * N + i] * K[j * d + k];
    ST[j * N + i] = s * scale;
}
""")

# %% [markdown]
# Softmax keeps one thread a query. Its three walks go down a column now.


# %% tab="Pseudocode"
def softmax_columns(ST, PT):
    N = len(ST)
    for i in parallel(N):
        m, z = -np.inf, 0.0
        for j in range(N):
            m = max(m, ST[j, i])
        for j in range(N):
            z += np.exp(ST[j, i] - m)
        for j in range(N):
            PT[j, i] = np.exp(ST[j, i] - m) / z


# %% tab="CUDA C"
SOFTMAX_COLUMNS = Kernel(r"""
extern "C" __global__
void softmax_columns(const float* ST, float* PT, int N) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= N) return;
    float m = -INFINITY, z = 0.0f;
    for (int j = 0; j < N; ++j) m = fmaxf(m, ST[j * N + i]);
    for (int j = 0; j < N; ++j) z += expf(ST[j * N + i] - m);
    for (int j = 0; j < N; ++j) PT[j * N + i] = expf(ST[j * N + i] - m) / z;
}
""")

# %% [markdown]
# The weighted sum stays as it was, but for the weight, which it finds in the turned array. All
# lanes of a warp want the same one.


# %% tab="Pseudocode"
def weighted_sum_turned(PT, V, O):
    N, d = V.shape
    for i, c in parallel(N, d):
        o = 0.0
        for j in range(N):
            o += PT[j, i] * V[j, c]
        O[i, c] = o


# %% tab="CUDA C"
WEIGHTED_SUM_TURNED = Kernel(r"""
extern "C" __global__
void weighted_sum_turned(const float* PT, const float* V, float* O,
                         int N, int d) {
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    int i = blockIdx.y * blockDim.y + threadIdx.y;
    if (i >= N || c >= d) return;
    float o = 0.0f;
    for (int j = 0; j < N; ++j) o += PT[j * N + i] * V[j * d + c];
    O[i * d + c] = o;
}
""")

# %% [markdown]
# The loops, and so the chains of passes, are those of Kernel 2; only the addresses differ. The
# formulas for the sectors are checked against the simulator at three sizes. Where sectors decided,
# in the scores, the time should fall by {{ third.fewer | .1f }} times; softmax was a matter of its
# chain, not of sectors, and the sum is as it was.


# %% fold="Code of the checks"
def attention(N, d):
    inputs = {"Q": normal(N, d), "K": normal(N, d), "V": normal(N, d)}
    turned = {"QT": output(d, N), "ST": output(N, N), "PT": output(N, N)}
    return case(**inputs, **turned, O=output(N, d), N=N, d=d, scale=d**-0.5, grid=1, block=1)


def kernel_3(inputs):
    """The four launches of Kernel 3, in the order in which the stream runs them."""
    N, d = inputs.values["N"], inputs.values["d"]
    return [
        TURN.on(inputs, grid=(ceil_div(N, 32), ceil_div(d, 8)), block=(32, 8)),
        SCORES_TURNED.on(inputs, grid=(ceil_div(N, 32), ceil_div(N, 8)), block=(32, 8)),
        SOFTMAX_COLUMNS.on(inputs, grid=ceil_div(N, 32), block=32),
        WEIGHTED_SUM_TURNED.on(inputs, grid=(ceil_div(d, 32), ceil_div(N, 8)), block=(32, 8)),
    ]


def part(which, N, d):
    Q, K, V = normal(N, d), normal(N, d), normal(N, d)
    square = normal(N, N, scale=3.0)
    block = (8, 4)
    rows, columns = ceil_div(N, 8), ceil_div(d, 8)
    return {
        "turn": case(Q=Q, QT=output(d, N), N=N, d=d, grid=(rows, ceil_div(d, 4)), block=block),
        "scores": case(
            QT=normal(d, N),
            K=K,
            ST=output(N, N),
            N=N,
            d=d,
            scale=d**-0.5,
            grid=(rows, ceil_div(N, 4)),
            block=block,
        ),
        "softmax": case(ST=square, PT=output(N, N), N=N, grid=rows, block=8),
        "sum": case(PT=square, V=V, O=output(N, d), N=N, d=d, grid=(columns, ceil_div(N, 4)), block=block),
    }[which]


SIZES = ((5, 3), (21, 13))
steep = case(ST=normal(21, 21, scale=90.0), PT=output(21, 21), N=21, grid=3, block=8)
near = {"rtol": 1e-5, "atol": 1e-5}
agree(turn, TURN, [part("turn", *size) for size in SIZES], rtol=0.0)
agree(scores_turned, SCORES_TURNED, [part("scores", *size) for size in SIZES], **near)
agree(softmax_columns, SOFTMAX_COLUMNS, [*(part("softmax", *size) for size in SIZES), steep], **near)
agree(weighted_sum_turned, WEIGHTED_SUM_TURNED, [part("sum", *size) for size in SIZES], **near)


# %% fold="Code of the prediction"
def touched_by(N, d):
    """Sectors that each launch touches, for N and d that are multiples of 32: Kernel 2's, then Kernel 3's."""
    warps = N * N // 32
    second = {"turn": 0, "scores": warps * (d * 33 + 4), "softmax": warps * 4 * 32}
    third = {"turn": N * d // 32 * (32 + 4), "scores": warps * (d * 5 + 4), "softmax": warps * 4 * 4}
    last = {"sum": N * (d // 32) * (N * 5 + 4)}
    return second | last, third | last


for N, d in ((32, 32), (64, 32), (64, 96)):
    counted, arrays = [], attention(N, d).make()
    for launch in kernel_3(attention(N, d)):
        counts = launch.simulate(arrays=arrays).counts
        counted.append(counts.global_load.sectors + counts.global_store.sectors)
    check(counted, list(touched_by(N, d)[1].values()), name=f"sectors of Kernel 3, N = {N}, d = {d}")

before, after = touched_by(1024, 128)
until = [
    recorded(f"attention_steps.{name}.median")
    for name in ("scores", "scores_softmax", "scores_softmax_weighted_sum")
]
step_2_us = dict(zip(("turn", "scores", "softmax", "sum"), np.diff([0.0, 0.0, *until]), strict=True))
expected_us = (
    step_2_us["scores"] * after["scores"] / before["scores"] + step_2_us["softmax"] + step_2_us["sum"]
)
publish(
    third={
        "fewer": before["scores"] / after["scores"],
        "lines": 33 / 2,
        "expected_us": expected_us,
        "before_us": until[-1],
    }
)

# %% [markdown]
# That makes {{ third.expected_us | us }} in place of {{ third.before_us | us }}.

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
    return {"QT": Q.T, "ST": S.T, "PT": P.T, "O": P @ V}


third = measure(
    "attention_coalesced",
    variants={"Kernel 3: coalesced": lambda N, d: kernel_3(attention(N, d))},
    cases=[{"N": 256, "d": 128}, {"N": 1024, "d": 128}],
    count_case={"N": 64, "d": 32},
    bytes=lambda N, d: 4 * 4 * N * d,
    flop=lambda N, d: 4 * N * N * d,
    library={"torch, three operations": torch_three_operations},
    reference=attended,
    tolerance=1e-4,
    reasons={"*": "Kernel 3"},
)

steps = measure(
    "attention_coalesced_steps",
    variants={
        "turn": lambda N, d: kernel_3(attention(N, d))[:1],
        "turn, scores": lambda N, d: kernel_3(attention(N, d))[:2],
        "turn, scores, softmax": lambda N, d: kernel_3(attention(N, d))[:3],
        "turn, scores, softmax, sum": lambda N, d: kernel_3(attention(N, d)),
    },
    cases=[{"N": 1024, "d": 128}],
    count_case={"N": 64, "d": 32},
    reference=attended,
    tolerance=1e-4,
    fold="All four rows",
)

# %% fold="Code of the table"
until_3 = list(medians_us(steps).values())
publish(third_gain={"times": until[-1] / until_3[-1]})
step_3_us = dict(zip(("turn", "scores", "softmax", "sum"), np.diff([0.0, *until_3]), strict=True))
rows = [
    [name, before[name], after[name], step_2_us[name] if name != "turn" else None, step_3_us[name]]
    for name in ("turn", "scores", "softmax", "sum")
]
show(
    Table(
        ["step", "sectors, Kernel 2", "sectors, Kernel 3", "Kernel 2, µs", "Kernel 3, µs"],
        rows,
        caption="The steps at N = 1024, d = 128: sectors by formula, times recorded on an {machine} as the difference between two rows.",
    )
)
publish(
    step={name: {"times": step_2_us[name] / step_3_us[name]} for name in ("scores", "softmax")},
    third_turn={"us": step_3_us["turn"], "rows": 1024},
)

# %% [markdown]
# Kernel 3 takes {{ attention_coalesced.kernel_3_coalesced.n_1024_d_128.median | us }}, less than
# the model gave it. The scores gain a factor of {{ step.scores.times | .1f }} where
# {{ third.fewer | .1f }} was predicted. Sectors are not all that a request asks for: the 33 sectors
# of Kernel 2 lie in 33 cache lines, the 5 of Kernel 3 in 2, and the L1 looks addresses up by line.
# That would be a factor of {{ third.lines | .1f }}; the measured one lies between. And softmax
# gains {{ step.softmax.times | .1f }}, with the same chain of passes: a pass that waits for
# {{ sectors.stride_8 }} lines waits longer than one that waits for one. The sum stays as it was.
# Turning $Q$ takes {{ third_turn.us | .1f }} µs. Softmax is now the largest part, and
# {{ third_turn.rows }} threads are all that it has.

# %% [markdown]
# ## The answer
#
# The same loads and additions, the same threads: along its own row a thread takes
# {{ walked.times | .1f }} times as long as down its own column. At each moment the 32 lanes of a
# warp need {{ sectors.stride_8 }} sectors in the one and {{ sectors.stride_1 }} in the other.
# Caches soften that. Where nobody ever comes back for the rest of a sector they cannot: a stride of
# 8 takes {{ seen.times_8 | .1f }} times as long as a stride of 1.

# %% [markdown]
# ## Takeaways
#
# - A warp's 32 addresses become sectors of 32 bytes; side by side they need {{ sectors.stride_1 }},
#   a stride of 8 apart {{ sectors.stride_8 }}. What counts is what the lanes touch at one instant,
#   not what a thread touches over time.
# - Simulator and an H100's counters agree on the sectors of all {{ seen.variants }} patterns. Time
#   follows them up to a fixed part, and from a stride of 8 to 16 the bursts of {{ burst.bytes }}
#   bytes double it.
# - A missing alignment costs a fifth sector a request, but hardly time where the next warp needs
#   that sector anyway.
# - Vector addition and ReLU run at the copy's rate with 8 or 16 bytes a load. Larger blocks, marks
#   and more loads at once did not help.
# - Attention becomes {{ third_gain.times | .1f }} times as fast by standing the lanes along the
#   queries, with the same operations.

# %% fold="The whole cell, with three wrong answers that the tests turn down"
from tilewise import exercise

INTERLEAVED = Kernel(r"""
extern "C" __global__
void scale(float* x, float factor, int n, int each) {
    int first = blockIdx.x * blockDim.x * each;
    for (int k = 0; k < each; ++k) {
        int i = first + k * blockDim.x + threadIdx.x;
        if (i < n) x[i] *= factor;
    }
}
""")

OWN_STRETCH = Kernel(r"""
extern "C" __global__
void scale(float* x, float factor, int n, int each) {
    int first = (blockIdx.x * blockDim.x + threadIdx.x) * each;
    for (int k = 0; k < each; ++k)
        if (first + k < n) x[first + k] *= factor;
}
""")

ONE_NUMBER_ONLY = Kernel(r"""
extern "C" __global__
void scale(float* x, float factor, int n, int each) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= factor;
}
""")

OFF_BY_ONE_SECTOR = Kernel(
    INTERLEAVED.source.replace(
        "k * blockDim.x + threadIdx.x;", "(k * blockDim.x + threadIdx.x + 1) % (blockDim.x * each);"
    )
)


def scale_tests(kernel):
    for n, each, block in ((1024, 4, 64), (1000, 8, 32), (5000, 3, 128)):
        x = np.arange(1, n + 1, dtype=np.float32)
        run = kernel.simulate(x, 0.5, n, each, grid=ceil_div(n, each * block), block=block)
        assert np.array_equal(x, np.arange(1, n + 1) * 0.5), f"n = {n}, {each} a thread: a value is wrong"
        load = run.counts.global_load
        assert load.sectors <= 4 * load.requests, (
            f"{load.sectors / load.requests:.1f} sectors a request, not 4"
        )


exercise(
    "Several numbers a thread, and still four sectors",
    """
    Each thread is to scale `each` numbers of `x` by a factor. In the kernel given, thread t takes the stretch
    from `t * each` on, as one would on a processor, and a request touches up to 32 sectors. Write
    `scale(x, factor, n, each)` so that no request touches more than four on average. It is launched with blocks
    whose threads together have room for all n numbers. The tests compare every value and count sectors.
    """,
    answer=INTERLEAVED,
    tests=scale_tests,
    wrong=[OWN_STRETCH, ONE_NUMBER_ONLY, OFF_BY_ONE_SECTOR],
    hint="A block owns one stretch; its threads go through it side by side.",
)

# %% [markdown]
# Turning $Q$ read a matrix along one axis and wrote it along the other, so one side of it was not
# coalesced, and no choice of lanes can help that: one side is always a column. It takes a detour
# through shared memory, and that, with the sums and maxima of whole rows by a block in place of a
# thread, is for the lesson on \reductions.
