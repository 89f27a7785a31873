# ---
# title: "Memory coalescing: thirty-two addresses, one request"
# needs: [speed/roofline, machine/warps]
# summary: "Two kernels sum the same number of integers with the same loads and additions. How much faster is reading by columns than by rows?"
# description: "What a warp's 32 addresses cost: sectors, strides, offsets and alignment, shown lane by lane, counted, and measured. Row-wise against column-wise access."
# date: 2026-11-23
# tags: [coalescing, sectors, alignment]
# ---

# %% [markdown]
# Two kernels sum 2²⁵ integers each, {{ lists.length }} per thread. In the first kernel, each thread reads a row of a
# row-major matrix from left to right, as you'd write it for a CPU. In the second, each thread reads a column from top
# to bottom, which is the worst order for a CPU.
#
# Yet on a GPU, the second one is faster. The reason is *coalescing*, the first thing to check in any kernel that is
# limited by memory. If you get it wrong with 4-byte elements, up to {{ sectors.useless | .1% }} of the bytes that the
# memory system fetches are wasted.

# %% [markdown]
# ## Lanes, sectors and cache lines
#
# A load is one instruction for all 32 lanes of a warp, so it arrives at the memory system as one *request* with 32
# addresses. The hardware doesn't fetch 32 elements for them. It fetches memory in *sectors* of 32 bytes: it
# works out which sectors the addresses are in, and fetches each of those once. Four neighbouring sectors, 128 bytes,
# make a *cache line*. A request is *coalesced* if its addresses fall into as few sectors as possible.
#
# Take 4-byte elements at a stride of 2: lane 0 reads element 0, lane 1 element 2, lane 2 element 4. A sector holds
# eight elements, so only four lanes share it, and the 32 lanes need 32 / 4 = {{ sectors.stride_2 }} sectors instead of
# {{ sectors.stride_1 }}. Move the sliders:
#
# ??? definition "Cache line | cache lines"
#     128 bytes that share one tag in a cache: four sectors, each of which may be present or not.
#
# ??? definition "Coalescing | coalesced | coalesce"
#     Serving the addresses of a warp's lanes with as few sectors as possible.

# %% fold="Code of the figure"
import numpy as np

from tilewise import Guess, Trace, ceil_div, check, constant, measure, publish, show
from tilewise.figures import Series, line_chart, sector_map, stepped
from tilewise.measurements import medians_us, recorded, recorded_device
from tilewise.models import sectors_of_stride

show(
    sector_map(
        [0, 1, 2, 3, 4, 6, 8, 12, 16],
        [*range(9), 16],
        start=(2, 0),
        title="A stride of 2 wastes half of every sector",
        caption="One request of a warp whose lanes each read 4 bytes, lane t at element offset + t × stride. Lanes have the colour of the sector that serves them; after eight sectors, the colours repeat. Hatched: bytes that are fetched but not used.",
    )
)
publish(
    sectors={
        "stride_1": sectors_of_stride(1),
        "stride_2": sectors_of_stride(2),
        "stride_8": sectors_of_stride(8),
        "useless": 1 - 4 / 32,
        "times_8": sectors_of_stride(8) / sectors_of_stride(1),
        "times_offset": sectors_of_stride(1, offset=4) / sectors_of_stride(1),
    }
)
assert [sectors_of_stride(s) for s in range(1, 65)] == [4 * min(s, 8) for s in range(1, 65)]

# %% [markdown]
# For 4-byte elements and strides of at least 1, with the first lane at the start of a sector, the formula is short:
#
# **sectors per request = 4 × min(stride, 8)**
#
# At strides of 8 or more, each lane needs a sector of its own, which is the worst case. A stride of 0 is the other
# extreme: all lanes read the same element, and one sector serves them all.
#
# The offset matters too. At a stride of 1, an offset that isn't a multiple of 8 breaks the request's *alignment* and
# costs a fifth sector.
#
# ??? definition "Alignment | aligned"
#     Whether an address is a multiple of the size that matters: 32 bytes for a sector, or the access size for a wide
#     load.

# %% [markdown]
# ## Count the sectors of a kernel
#
# The simulator counts sectors as Nsight Compute does on a GPU. To try any stride and offset, let a kernel read `n`
# elements at `offset + i * stride`. The threads divide the elements among themselves in a \grid-stride loop, and each
# accumulates a sum so that the compiler can't remove the loads.


# %% tab="CUDA C"
from tilewise import Kernel

PICK = Kernel(r"""
// Each thread sums every threads-th element of a strided sequence of n elements.
// x: more than offset + (n - 1) * stride elements. partial: one sum per thread.
// One-dimensional grid and block; offset + n * stride < 2^31.
extern "C" __global__
void pick(const int* x, int* partial, int n, int stride, int offset) {
    int tid = blockIdx.x * blockDim.x + threadIdx.x;
    int threads = gridDim.x * blockDim.x;
    int acc = 0;
    for (int i = tid; i < n; i += threads)
        acc += x[offset + i * stride];
    partial[tid] = acc;
}
""")


# %% tab="Pseudocode"
from tilewise import parallel


def pick(x, partial, n, stride, offset):
    threads = len(partial)
    taken = x[offset:][::stride][:n]
    for tid in parallel(threads):
        partial[tid] = sum(taken[tid::threads])


# %%
x = np.ones(64 * 1024, np.int32)
partial = np.zeros(256, np.int32)

PICK(x, partial, 1024, 2, 0, grid=1, block=256)  # n, stride, offset
print("sum:", partial.sum())

for stride, offset in ((1, 0), (1, 1), (2, 0), (8, 0), (16, 0)):
    run = PICK.simulate(x, partial, 1024, stride, offset, grid=1, block=256)
    loads = run.counts.global_load
    each = loads.sectors / loads.requests
    print(f"stride {stride}, offset {offset}: {each:g} sectors per request")

# %% fold="Code of the check"
from tilewise import agree, case, integers, output

cases = []
for n, stride, offset, size in ((101, 1, 0, 4001), (77, 33, 5, 2999), (500, 7, 31, 4003)):
    arrays = {"x": integers(size, low=-1000, high=1000), "partial": output(128, dtype="int32")}
    cases.append(case(**arrays, n=n, stride=stride, offset=offset, grid=2, block=64))
agree(pick, PICK, cases)

# %% [markdown]
# Change the stride and the offset, and watch how many sectors the load needs.

# %% fold="Code of the run"
from tilewise import try_it


def picking(stride, offset):
    x = integers(offset + 1024 * stride, low=0, high=10)
    return case(
        x=x, partial=output(256, dtype="int32"), n=1024, stride=stride, offset=offset, grid=1, block=256
    )


try_it(picking, PICK, stride=(1, 1, 32), offset=(0, 0, 31))

# %% [markdown]
# ## Strides cost time; offsets hardly do
#
# Every variant consumes the same number of useful bytes, so if the number of sectors determines the time, a stride of 8
# should take {{ sectors.times_8 | .0f }}× as long as a stride of 1, and an offset of one element
# {{ sectors.times_offset | .2f }}×. One of these predictions fails:

# %% fold="Code of the figure"
STRIDES, COUNT = (1, 2, 4, 8, 16, 32, 64), 2**23


def reads_us(name):
    return recorded(f"reads.{name}.n_8388608.median")


READ_GB_PER_S = recorded("reads.ceilings.probes.read_gb_per_s")
FIXED_US = reads_us("stride_1") - 4 * COUNT / READ_GB_PER_S / 1e3
sector_us = [FIXED_US + COUNT * min(4 * s, 32) / READ_GB_PER_S / 1e3 for s in STRIDES]
stride_us = [reads_us(f"stride_{s}") for s in STRIDES]
offset_us = [reads_us(f"offset_{offset}") for offset in range(1, 32)]
show(
    line_chart(
        [
            Series("measured", STRIDES, stride_us),
            Series("sectors", STRIDES, sector_us, role="predicted"),
        ],
        x="stride [elements]",
        y="time [µs]",
        log_x=True,
        title="Up to a stride of 8, time follows the number of sectors",
        caption="Time to read 2²³ ints at various strides on an {machine}, and a model: a fixed cost per launch, fitted to a stride of 1, plus the time for the sectors at the peak read rate measured on the same GPU.",
    )
)
if np.isfinite(stride_us).all():
    assert all(abs(b / a - 1) < 0.05 for a, b in zip(stride_us[:4], sector_us, strict=False)), "the title"
    assert max(offset_us) < 1.1 * stride_us[0], "the text says that an offset takes hardly longer"
publish(
    seen={
        "times_8": stride_us[3] / stride_us[0],
        "times_16": stride_us[4] / stride_us[3],
        "fixed_us": FIXED_US,
        "one_us": stride_us[0],
        "offset_us": max(offset_us),
    }
)

# %% [markdown]
# Apart from a fixed cost, the strides behave as predicted. A stride of 8 takes {{ seen.times_8 | .1f }}× as long as a
# stride of 1 rather than {{ sectors.times_8 | .0f }}×, because every launch also pays about
# {{ seen.fixed_us | .1f }} µs.
#
# The offsets don't behave as predicted. The slowest of the offsets from 1 to 31 takes {{ seen.offset_us | .1f }} µs,
# against {{ seen.one_us | .1f }} µs without an offset. The reason is that a warp's fifth sector is also the first
# sector of the next warp. It's requested twice, but it comes from memory only once, because the second request finds it
# in a cache. In a stream of reads, misalignment means extra work for the caches, but not for memory.
#
# There's one more surprise: from a stride of 8 to a stride of 16, the time grows by a factor of
# {{ seen.times_16 | .1f }}, although the number of sectors stays the same. Beyond a stride of 8, the L2 cache fetches
# more than was requested: see [the L2's fetch granularity](coalescing_fetch_granularity.py).

# %% [markdown]
# ## Column-wise access: lanes side by side
#
# Now return to the two kernels. In the column-wise kernel, thread `c` sums column `c` of a row-major matrix. From one
# iteration to the next, a thread jumps a whole row ahead. But in any iteration, lanes 0 to 31 read 32 neighbouring
# elements, which fill exactly {{ sectors.stride_1 }} sectors.


# %% tab="CUDA C"
SUM_OWN_COLUMN = Kernel(r"""
// out[c] = sum of column c of A. A: R x C, row-major, R * C < 2^31.
// One thread per column: 1-D, at least C threads in total.
extern "C" __global__
void sum_own_column(const int* A, int* out, int R, int C) {
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    if (c >= C) return;
    int acc = 0;
    for (int r = 0; r < R; ++r) acc += A[r * C + c];
    out[c] = acc;
}
""")


# %% tab="Pseudocode"
def sum_own_column(A, out):
    for c in parallel(A.shape[1]):
        out[c] = sum(A[:, c])


# %% tab="Numba" needs="numba"
from tilewise.frameworks import cuda  # numba.cuda


@cuda.jit
def sum_own_column_numba(A, out):
    c = cuda.grid(1)
    R, C = A.shape
    if c < C:
        acc = 0
        for r in range(R):
            acc += A[r, c]
        out[c] = acc


# %% fold="Code of the checks and of the figure"
def walking(lists, length, along, A=None):
    R, C = (lists, length) if along == "row" else (length, lists)
    A = constant(R, C, value=1, dtype="int32") if A is None else A
    return case(A=A, out=output(lists, dtype="int32"), R=R, C=C, grid=ceil_div(lists, 256), block=256)


def small_integers(*shape):
    return integers(*shape, low=-99, high=99)


by_columns = [
    walking(37, 20, "column", small_integers(20, 37)),
    walking(300, 12, "column", small_integers(12, 300)),
]
agree(sum_own_column, SUM_OWN_COLUMN, by_columns)
agree(sum_own_column_numba, SUM_OWN_COLUMN, by_columns, by="Numba")

few_columns = SUM_OWN_COLUMN.on(walking(32, 8, "column", small_integers(8, 32)), grid=1, block=32)
show(
    stepped(
        few_columns.simulate(trace=Trace()),
        extent=32,
        start=1,
        title="Column-wise: four sectors per iteration, fully used",
        caption="32 threads each sum a column of eight elements. Each iteration of the loop reads one row, which is 128 bytes.",
    )
)

# %% [markdown]
# ## Row-wise access: lanes a row apart
#
# In the row-wise kernel, thread `r` sums row `r`. Each thread reads neighbouring elements one after another, which
# looks tidy. But in each iteration, neighbouring lanes are a whole row apart.[^time] That's a stride of
# {{ lists.length }} elements, and each lane needs a sector of its own: {{ sectors.stride_8 }} per request.
#
# [^time]: It's a common misconception that an access is coalesced if a thread reads consecutive addresses over time.
#     What counts is which addresses the lanes of one warp touch in one instruction.


# %% tab="CUDA C"
SUM_OWN_ROW = Kernel(r"""
// out[r] = sum of row r of A. A: R x C, row-major, R * C < 2^31.
// One thread per row: 1-D, at least R threads in total.
extern "C" __global__
void sum_own_row(const int* A, int* out, int R, int C) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= R) return;
    int acc = 0;
    for (int c = 0; c < C; ++c) acc += A[r * C + c];
    out[r] = acc;
}
""")


# %% tab="Pseudocode"
def sum_own_row(A, out):
    for r in parallel(len(A)):
        out[r] = sum(A[r, :])


# %% tab="Numba" needs="numba"
@cuda.jit
def sum_own_row_numba(A, out):
    r = cuda.grid(1)
    R, C = A.shape
    if r < R:
        acc = 0
        for c in range(C):
            acc += A[r, c]
        out[r] = acc


# %% fold="Code of the checks and of the figure"
by_rows = [walking(37, 20, "row", small_integers(37, 20)), walking(300, 12, "row", small_integers(300, 12))]
agree(sum_own_row, SUM_OWN_ROW, by_rows)
agree(sum_own_row_numba, SUM_OWN_ROW, by_rows, by="Numba")

few_rows = SUM_OWN_ROW.on(walking(32, 8, "row", small_integers(32, 8)), grid=1, block=32)
show(
    stepped(
        few_rows.simulate(trace=Trace()),
        extent=32,
        start=1,
        title="Row-wise: every iteration touches a sector of every row",
        caption="32 threads each sum a row of eight elements. Each row is one sector, and every iteration of the loop touches all 32 sectors.",
    )
)
SECTORS_PER_REQUEST = {"column": sectors_of_stride(1), "row": sectors_of_stride(8)}
for name, launch in (("column", few_columns), ("row", few_rows)):
    loads = launch.simulate().counts.global_load
    check(loads.sectors, SECTORS_PER_REQUEST[name] * loads.requests, name=f"sectors, {name}-wise")

# %% [markdown]
# A sector that lane 5 fetches in one iteration also holds the elements it needs in the next seven. If the sector is
# still in L1 by then, nothing is wasted. That's a bet on the cache: with {{ lists.threads | , }} threads per SM,
# {{ lists.threads | , }} rows are in progress at once, and a cache line of each has to survive in L1 until its thread
# is done with it.
#
# You can rely less on luck. An `int4` load reads 16 bytes at once, so a lane returns to its sector once instead of
# seven times. This *vectorised load* needs an address that is a multiple of 16.
#
# ??? definition "Vectorised load | vectorised"
#     A load instruction with which each lane reads several neighbouring elements, up to 16 bytes, from an aligned
#     address.

# %% fold="The row-wise kernel with int4 loads, and the checks"
SUM_OWN_ROW_WIDE = Kernel(r"""
// As sum_own_row; C must be a multiple of 4, and A aligned to 16 bytes.
extern "C" __global__
void sum_own_row_wide(const int* A, int* out, int R, int C) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= R) return;
    int acc = 0;
    for (int c = 0; c < C; c += 4) {  // New: four elements per load
        int4 v = *(const int4*)(A + r * C + c);
        acc += v.x + v.y + v.z + v.w;
    }
    out[r] = acc;
}
""")
agree(sum_own_row, SUM_OWN_ROW_WIDE, by_rows)

# %% [markdown]
# Now guess. Without caches, {{ sectors.stride_8 }} sectors against {{ sectors.stride_1 }} would make the column-wise
# kernel {{ sectors.times_8 | .0f }}× faster. With perfect caches, it would be no faster at all.

# %% fold="Code of the measurement"
walks = measure(
    "walks",
    variants={
        "row-wise": lambda length, lists: SUM_OWN_ROW.on(walking(lists, length, "row")),
        "row-wise, int4 loads": lambda length, lists: SUM_OWN_ROW_WIDE.on(walking(lists, length, "row")),
        "column-wise (coalesced)": lambda length, lists: SUM_OWN_COLUMN.on(walking(lists, length, "column")),
    },
    cases=[{"length": 128, "lists": 2**18}],
    count_case={"length": 128, "lists": 1024},
    bytes=lambda length, lists: 4 * lists * (length + 1),
    reference=lambda A: {"out": A.sum(axis=1)},
    tolerance=0.0,
    reasons={"*": "Row-wise access: lanes a row apart"},
    guess=Guess(
        "How much faster is reading by columns than by rows?",
        of="column-wise (coalesced)",
        over="row-wise",
        between=(0.5, 32),
        models={
            "sectors per request": sectors_of_stride(128) / sectors_of_stride(1),
            "perfect caches": 1.0,
        },
        because="Both kernels use every byte of every sector in the end; what differs is whether the sector is still in a cache by then, and how many cache lines each request has to look up.",
    ),
)

# %% fold="Code of the numbers"
GPU = recorded_device()
walks_us = medians_us(walks)
LOOK_UPS_US = 2**25 / GPU.sms / GPU.boost_mhz  # row-wise: one line per element, one line per cycle and SM
if np.isfinite(walks_us["row-wise"]):
    assert 0.8 < LOOK_UPS_US / walks_us["row-wise"] < 1, "the text: look-ups may take most of the time"
publish(
    walked={
        "times": walks_us["row-wise"] / walks_us["column-wise (coalesced)"],
        "wide_gain": walks_us["row-wise"] / walks_us["row-wise, int4 loads"],
        "wide_sectors": sectors_of_stride(32, 16),
        "look_ups_us": LOOK_UPS_US,
    },
    lists={"length": 128, "threads": 2048},
)
assert 128 * 2**18 == 2**25, "the first sentence says so"

# %% [markdown]
# Column-wise access is {{ walked.times | .1f }}× faster: {{ walks.column_wise_coalesced.median | us }} instead of
# {{ walks.row_wise.median | us }}. So the caches keep much of what was fetched, but the row-wise kernel still has to
# look up 32 cache lines for every request. If we assume that an SM's L1 looks up one line per cycle, that alone takes
# {{ walked.look_ups_us | us }}.
#
# With `int4` loads, the row-wise kernel is {{ walked.wide_gain | .1f }}× faster than before. Each request still needs
# {{ walked.wide_sectors }} sectors, but it uses half of each at once, and there are only a quarter as
# many requests.

# %% [markdown]
# ## Takeaways
#
# - A warp's 32 addresses are served in 32-byte sectors: {{ sectors.stride_1 }} for neighbouring elements,
#   {{ sectors.stride_8 }} at strides of 8 or more. What counts is what the lanes touch in one instruction, not what one
#   thread touches over time.
# - Give neighbouring lanes neighbouring elements. With the same loads and additions, column-wise reading was {{ walked.times | .1f }}×
#   faster than row-wise reading.
# - A misaligned start costs a fifth sector per request but hardly any time in a stream of reads: the
#   next warp needs that sector anyway.

# %% [markdown]
# ## In your own kernel
#
# In Nsight Compute, look at `l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio`: 4 is ideal for
# 4-byte loads, and 32 is the worst case. If it's high, interchange the loops or change the layout so that `threadIdx.x`
# is the fastest-varying index of the array.
#
# Three further-reading pages continue from here: [the L2's fetch granularity](coalescing_fetch_granularity.py) explains
# the jump at a stride of 16, [streaming](coalescing_streaming.py) brings vector addition up to the speed of a copy, and
# [coalesced attention](coalescing_attention.py) applies the lesson to a real kernel.

# %% fold="The whole cell, with three wrong answers that the tests reject"
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


def scale_tests(kernel):
    for n, each, block in ((1024, 4, 64), (1000, 8, 32), (5000, 3, 128)):
        x = np.arange(1, n + 1, dtype=np.float32)
        run = kernel.simulate(x, 0.5, n, each, grid=ceil_div(n, each * block), block=block)
        assert np.array_equal(x, np.arange(1, n + 1) * 0.5), (
            f"n = {n}, {each} per thread: an element is wrong"
        )
        load = run.counts.global_load
        assert load.sectors <= 4 * load.requests, (
            f"{load.sectors / load.requests:.1f} sectors per request, not 4"
        )


exercise(
    "Several elements per thread, still four sectors per request",
    """
    Each thread scales `each` elements of `x` by a factor. In the first version, thread t takes the elements
    that start at `t * each`, as you'd do on a CPU, and a request touches up to 32 sectors. Write
    `scale(x, factor, n, each)` so that a request touches no more than four on average. It is launched with
    enough blocks for all n elements. The tests compare every element and count sectors.
    """,
    answer=INTERLEAVED,
    tests=scale_tests,
    wrong=[
        {
            "blockIdx.x * blockDim.x * each": "(blockIdx.x * blockDim.x + threadIdx.x) * each",
            "first + k * blockDim.x + threadIdx.x": "first + k",
        },
        {"k < each": "k < 1"},
        {"k * blockDim.x + threadIdx.x;": "(k * blockDim.x + threadIdx.x + 1) % (blockDim.x * each);"},
    ],
    hint="Each block owns one contiguous range. In each iteration, its threads take neighbouring elements.",
)

# %% [markdown]
# A transpose reads along one axis and writes along the other, so either the reads or the writes are strided, whichever
# way you assign the lanes. The way out is through shared memory, as the lesson on \bank conflicts shows.
