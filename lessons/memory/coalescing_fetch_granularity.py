# ---
# title: "Strides beyond a sector: the L2's fetch granularity"
# needs: [memory/coalescing]
# further: memory/coalescing
# summary: "A stride of 16 touches as many sectors as a stride of 8, but reading takes longer. What else does the GPU fetch?"
# description: "Strided reads on a GPU take time in proportion to their 32-byte sectors up to a stride of 8; at 16, the time doubles. The L2's fetch granularity explains it: the page moves the limit to 32, 64 and 128 bytes."
# date: 2026-11-23
# tags: [coalescing, L2, sectors]
# ---

# %% [markdown]
# The lesson on [memory coalescing](coalescing.py) counts 32-byte sectors. With a stride of 8 elements, each of a warp's
# 32 lanes needs a sector of its own, so a stride of 16 shouldn't be any worse. Yet on an H100, a stride of 16 takes
# {{ jump.times | .2f }}× as long as a stride of 8.
#
# If you read one field of a large struct, or one column of a table, this effect doubles the cost of each element.

# %% [markdown]
# ## Strides: time against two models
#
# The kernel is [the strided read from the lesson](coalescing.py#count-the-sectors-of-a-kernel). Element `i` of the
# sequence is at index `offset + i * stride`, and both strides, 8 and 16, need {{ each.sectors }} sectors per request.

# %% fold="Imports"
import numpy as np

from tilewise import Kernel, parallel
from tilewise.kernels.from_lesson import from_lesson

(PICK,) = from_lesson("memory/coalescing", "PICK")

# %% [markdown]
# A second kernel serves as a control. It reads runs of neighbouring elements with gaps between them. If the runs are
# whole sectors, every request is fully coalesced, whatever the gap.


# %% tab="CUDA C"
PICK_RUNS = Kernel(r"""
// As above, but the sequence is made of runs of `run` elements that start `gap` elements apart.
// run must divide the number of threads.
extern "C" __global__
void pick_runs(const int* x, int* partial, int n, int run, int gap) {
    int tid = blockIdx.x * blockDim.x + threadIdx.x;
    int threads = gridDim.x * blockDim.x;
    int lane = tid % run, jump = threads / run;
    int acc = 0, r = tid / run;
    for (int i = tid; i < n; i += threads, r += jump)
        acc += x[r * gap + lane];
    partial[tid] = acc;
}
""")


# %% tab="Pseudocode"
def pick_runs(x, partial, n, run, gap):
    threads = len(partial)
    taken = np.concatenate([x[start:][:run] for start in range(0, len(x), gap)])[:n]
    for tid in parallel(threads):
        partial[tid] = sum(taken[tid::threads])


# %% [markdown]
# Read runs of 1 to 32 elements that start 32 to 64 elements apart. How long must a run be to use whole sectors?

# %% fold="Code of the run"
from tilewise import case, integers, output, try_it


def in_runs_of(run, gap):
    x = integers(512 * 64, low=0, high=10)
    return case(x=x, partial=output(256, dtype="int32"), n=512, run=run, gap=gap, grid=1, block=256)


try_it(in_runs_of, PICK_RUNS, run=[8, 1, 2, 4, 16, 32], gap=(32, 32, 64))

# %% fold="Code of the checks and of the measurement"
from tilewise import agree, case, check, constant, integers, measure, output, publish, show
from tilewise.figures import Series, line_chart
from tilewise.measurements import medians_us, recorded


def picking(n, stride, offset, x=None, threads=None, block=256):
    threads = n // 32 if threads is None else threads
    taken = {"x": constant(64 * n, value=1, dtype="int32") if x is None else x}
    partial = output(threads, dtype="int32")
    sizes = {"n": n, "stride": stride, "offset": offset}
    return case(**taken, partial=partial, **sizes, grid=threads // block, block=block)


def picking_runs(n, run, gap, x=None, threads=None, block=256):
    threads = n // 32 if threads is None else threads
    taken = {"x": constant(64 * n, value=1, dtype="int32") if x is None else x}
    partial = output(threads, dtype="int32")
    sizes = {"n": n, "run": run, "gap": gap}
    return case(**taken, partial=partial, **sizes, grid=threads // block, block=block)


def drawn(size):
    return integers(size, low=-1000, high=1000)


cases = [
    picking_runs(n, run, gap, drawn(size), 128, 64)
    for n, run, gap, size in ((101, 8, 16, 401), (77, 1, 7, 533), (500, 16, 33, 1993))
]
agree(pick_runs, PICK_RUNS, cases)
loads = [PICK.on(picking(1024, stride, 0, threads=256)).simulate().counts.global_load for stride in (8, 16)]
check([one.sectors for one in loads], [32 * one.requests for one in loads], name="32 sectors per request")
publish(each={"sectors": loads[0].sectors // loads[0].requests})

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
        **{f"{run} of every {gap} elements": in_runs(run, gap) for run, gap in RUNS},
    },
    cases=[{"n": 2**23}],
    count_case={"n": 2**14},
    bytes=lambda n: 4 * n,
    reference=lambda n: {"partial": np.full(n // 32, 32)},
    tolerance=0.0,
    reasons={"*": "Move the limit: 32, 64 and 128 bytes"},
    fold="All 42 rows",
)

# %% [markdown]
# ## Which extra sectors are fetched?
#
# Up to a stride of 8, the times follow the first model in the figure: a fixed cost per launch plus the time to fetch
# the data in 32-byte pieces, at the peak read rate measured on this GPU. At a stride of 16, the model with 64-byte
# pieces, two sectors each, fits instead. At strides of 32 and 64, reads take longer than either model predicts.

# %% fold="Code of the figure"
reads_us = medians_us(reads)
READ_GB_PER_S = recorded("reads.ceilings.probes.read_gb_per_s")
COUNT = 2**23
fixed_us = reads_us["stride 1"] - 4 * COUNT / READ_GB_PER_S / 1e3


def model_us(stride, piece):
    """A fixed cost, fitted at a stride of 1, plus the time to fetch pieces of this size at the measured peak rate."""
    return fixed_us + COUNT * min(4 * stride, piece) / READ_GB_PER_S / 1e3


stride_us = [reads_us[f"stride {stride}"] for stride in STRIDES]
show(
    line_chart(
        [
            Series("measured", STRIDES, stride_us),
            Series("32-byte pieces", STRIDES, [model_us(s, 32) for s in STRIDES], role="predicted"),
            Series("64-byte pieces", STRIDES, [model_us(s, 64) for s in STRIDES], role="tile"),
        ],
        x="stride [elements]",
        y="time [µs]",
        log_x=True,
        title="From a stride of 8 to 16, the time doubles",
        caption="Time to read 2²³ ints at different strides on an {machine}, and two models: a fixed cost, fitted at a stride of 1, plus the time to fetch pieces of 32 or 64 bytes at the peak read rate measured on the same GPU.",
    )
)
if np.isfinite(stride_us).all():
    for stride, piece in ((2, 32), (4, 32), (8, 32), (16, 64)):
        off = model_us(stride, piece) / reads_us[f"stride {stride}"] - 1
        assert abs(off) < 0.05, f"the text says that a model fits a stride of {stride}"
    for stride in (32, 64):
        assert reads_us[f"stride {stride}"] > 1.05 * model_us(stride, 64), (
            f"the text says that a stride of {stride} takes longer than the models predict"
        )

# %% [markdown]
# Do neighbouring sectors really come in pairs? The control kernel answers this question. All its patterns need 4
# sectors per request and use every byte of them. They differ only in which sectors they leave out.

# %% fold="Code of the table"
from tilewise import Table

LAYOUTS = {
    "stride 1": ("all", "both"),
    "32 of every 64 elements": ("4 of 8", "both"),
    "16 of every 32 elements": ("2 of 4", "both"),
    "8 of every 16 elements": ("1 of 2", "one"),
    "8 of every 32 elements": ("1 of 4", "one"),
}
show(
    Table(
        ["pattern", "sectors read", "of each 64-byte pair", "time, µs"],
        [[label, *layout, reads_us[label]] for label, layout in LAYOUTS.items()],
        caption="Patterns of whole sectors, 4 per request, on an {machine}.",
    )
)
publish(
    jump={
        "times": reads_us["stride 16"] / reads_us["stride 8"],
        "pair": reads_us["8 of every 16 elements"] / reads_us["16 of every 32 elements"],
    }
)

# %% [markdown]
# When both sectors of each pair are read, the kernel runs at full speed. Reading the same number of elements from
# only one sector of each pair takes {{ jump.pair | .1f }}× as long. That's what you'd expect if both sectors were
# fetched: twice the data, at the same fixed cost per launch. So somewhere below the SMs, data is fetched 64 bytes at
# a time. Does the DRAM itself do so, or the L2 cache in front of it?

# %% [markdown]
# ## Move the limit: 32, 64 and 128 bytes
#
# CUDA has a setting for one of the two suspects. `cudaLimitMaxL2FetchGranularity` sets the maximum amount that the \L2
# fetches from memory on a miss: 32, 64 or 128 bytes. It's a hint, which the driver may ignore, so read it back. If the
# memory itself delivers 64 bytes at a time, a limit of 32 should change nothing. If it's the L2 that fetches 64 bytes
# at a time, the jump between strides of 8 and 16 should move.
#
# A stride of $s$ spans $4s$ bytes, so that's how much the L2 should fetch per element on average, up to the limit. With
# a limit of 32, the time should therefore stop growing at a stride of 8; with 64, at 16; with 128, at 32. The H200, on
# which we recorded this experiment, shows the same jump as the H100: with the default limit of {{ l2.default }} bytes,
# a stride of 16 takes {{ limit.jump | .2f }}× as long as a stride of 8.

# %% fold="Code that times strides under three L2 settings on a GPU" needs="gpu" record="fetch_granularity"
from tilewise import gpu_here

if gpu_here():
    from functools import partial as bound_to

    import cupy

    from tilewise.gpu.timing import Contender, Plan, time_contenders

    L2_FETCH = 0x05  # cudaLimitMaxL2FetchGranularity
    runtime = cupy.cuda.runtime
    most = 2**25
    x = cupy.ones(32 * most, dtype=cupy.int32)
    sums = cupy.zeros(most // 32, dtype=cupy.int32)

    def read_strided(n, stride):
        PICK(x, sums[: n // 32], n, stride, 0, grid=n // 32 // 256, block=256)

    def contender(n, stride):
        sums.fill(0)
        read_strided(n, stride)
        assert bool((sums[: n // 32] == 32).all()), f"wrong sums at a stride of {stride}"
        return Contender(f"stride {stride}", bound_to(read_strided, n, stride))

    default = runtime.deviceGetLimit(L2_FETCH)
    print(f"default limit: {default} bytes")
    try:
        for limit in (64, 32, 128):
            runtime.deviceSetLimit(L2_FETCH, limit)
            print(f"limit set to {limit}: reads back as {runtime.deviceGetLimit(L2_FETCH)} bytes")
            for n in (2**25, 2**23):
                strides = [contender(n, stride) for stride in (1, 2, 4, 8, 16, 32)]
                times = time_contenders(strides, Plan(budget_s=0.5, repetitions=60))
                medians = ", ".join(f"{one.median:.1f}" for one in times)
                spread = max(one.spread for one in times)
                print(f"limit {limit}, {n} elements, strides 1 to 32: {medians} us; spread {spread:.1%}")
    finally:
        runtime.deviceSetLimit(L2_FETCH, default)
    print(f"limit put back: {runtime.deviceGetLimit(L2_FETCH)} bytes")
    del x, sums
    cupy.get_default_memory_pool().free_all_blocks()

# %% fold="Code that counts the bytes of DRAM on a GPU" needs="gpu" record="dram_bytes"
from tilewise import gpu_here

if gpu_here():
    from tilewise.measurements.profiling import profiled, table_of

    def reads_under_limits():
        """Calls of the kernel by limit and stride, each of which sets the limit first."""
        import cupy

        x = cupy.ones(2**30, dtype=cupy.int32)
        sums = cupy.zeros(2**20, dtype=cupy.int32)

        def reading(limit, stride):
            def call():
                cupy.cuda.runtime.deviceSetLimit(0x05, limit)  # cudaLimitMaxL2FetchGranularity
                PICK(x, sums, 2**25, stride, 0, grid=2**25 // 32 // 256, block=256)

            return call

        return {
            f"limit {limit}, stride {stride}": reading(limit, stride)
            for limit in (64, 32, 128)
            for stride in (4, 8, 16, 32)
        }

    COUNTED = (
        "gpu__time_duration.sum",
        "dram__bytes_read.sum",
        "dram__throughput.avg.pct_of_peak_sustained_elapsed",
        "lts__t_sectors_op_read.sum",
        "lts__t_sectors_op_read_lookup_miss.sum",
        "lts__t_sectors_srcunit_tex.sum",
        "lts__t_sector_hit_rate.pct",
        "lts__throughput.avg.pct_of_peak_sustained_elapsed",
        "lts__t_requests_srcunit_tex.sum",
        "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
        "lts__average_gcomp_input_sector_success_rate.pct",
        "fbpa__dram_read_sectors.sum",
        "smsp__warps_active.avg.per_cycle_active",
    )
    print(
        table_of(profiled("memory/coalescing_fetch_granularity", "dram_bytes", reads_under_limits, COUNTED))
    )

# %% fold="Code of the figure"
from tilewise.measurements import text_record
from tilewise.measurements.profiling import printed_profiles
from tilewise.measurements.readings import Numbers, printed_rows

PAGE, NAME = "memory/coalescing_fetch_granularity", "fetch_granularity"
LIMITS, LONG = (32, 64, 128), 2**25
SHOWN = (1, 2, 4, 8, 16, 32)
limit_us = Numbers(
    {
        (int(limit), int(n), stride): us
        for limit, n, *medians in printed_rows(
            PAGE, NAME, r"^limit (\d+), (\d+) elements.*: " + ", ".join([r"([\d.]+)"] * 6) + " us"
        )
        for stride, us in zip(SHOWN, medians, strict=True)
    }
)
read_back = dict(printed_rows(PAGE, NAME, r"^limit set to (\d+): reads back as (\d+) bytes"))
record = text_record(PAGE, NAME)
jumps = {limit: [limit_us[limit, LONG, s] for s in SHOWN] for limit in LIMITS}


def ratio(limit, stride, over):
    return limit_us[limit, LONG, stride] / limit_us[limit, LONG, over]


if record is not None:
    assert read_back == {limit: limit for limit in LIMITS}, "the text says that the limit was set"
    for limit, stride in ((32, 8), (64, 16), (128, 32)):
        for at in (one for one in SHOWN if 8 < one <= stride):
            assert 1.8 < ratio(limit, at, at // 2) < 2.1, "the text: the time doubles up to the limit"
    assert limit_us[64, LONG, 16] / limit_us[64, LONG, 8] > 1.9, "the text: an H200 has the same jump"
    for limit, stride in ((32, 16), (64, 32)):
        assert ratio(limit, stride, stride // 2) < 1.4, "the title says that the jump moves"
    show(
        line_chart(
            [
                Series(f"limit {limit} bytes", SHOWN, jumps[limit], role=role)
                for limit, role in zip(LIMITS, ("read", "tile", "write"), strict=True)
            ],
            x="stride [elements]",
            y="time [µs]",
            log_x=True,
            log_y=True,
            title="The jump moves with the L2's fetch granularity",
            caption=f"Time to read 2²⁵ ints at different strides on an {record.provenance['device']}, with a cold L2 and cudaLimitMaxL2FetchGranularity set to 32, 64 and 128 bytes.",
        )
    )

delivered = printed_profiles(PAGE, "dram_bytes")
dram = {}
for stride in (8, 16, 32):
    counted = delivered[f"limit 32, stride {stride}"]
    dram[f"gb_{stride}"] = counted["dram__bytes_read.sum"] / 1e9
    dram[f"of_{stride}"] = counted["dram__throughput.avg.pct_of_peak_sustained_elapsed"] / 100
    assert not abs(dram[f"gb_{stride}"] * 1e9 / (32 * LONG) - 1) > 0.01, "the text: no more than the limit"
assert not dram["of_8"] < 2 * dram["of_32"], "the text says that the rate falls"
publish(
    limit={f"of_{limit}": {f"stride_{s}": limit_us[limit, LONG, s] for s in SHOWN} for limit in LIMITS}
    | {"jump": ratio(64, 16, 8)},
    rest={"times": ratio(32, 32, 8)},
    dram=dram,
    l2={"default": dict(printed_rows(PAGE, NAME, r"^(default) limit: (\d+) bytes")).get("default", np.nan)},
)

# %% [markdown]
# The jump moves with the limit. So on the H200, and presumably on the H100, it's the L2 that fetches 64 bytes at a
# time. With a limit of 32 bytes, a stride of 16 takes {{ limit.of_32.stride_16 | us }}, compared with
# {{ limit.of_64.stride_16 | us }} for a limit of 64. With a limit of 128, a stride of 32 takes
# {{ limit.of_128.stride_32 | us }} instead of {{ limit.of_64.stride_32 | us }}.[^burst]
#
# As on the H100, one thing doesn't fit the model: past the jump, the time keeps growing. With a limit of 32, a stride
# of 32 takes {{ rest.times | .1f }}× as long as a stride of 8. The L2 doesn't fetch more than the limit: the memory
# delivers {{ dram.gb_8 | .2f }} GB at both strides. What falls is the rate, from {{ dram.of_8 | .0% }} of the memory's
# peak to {{ dram.of_32 | .0% }}: widely scattered sectors are served more slowly.
#
# [^burst]: A common misconception: the 64 bytes are one burst of the DRAM. Memory chips do deliver bursts, but
#     if those caused the jump, no cache setting could make it disappear at a stride of 16.

# %% [markdown]
# ## Should you change it?
#
# Rarely. The limit applies to the whole CUDA context, and coalesced kernels use whole lines anyway. For sparse reads
# of single sectors, such as table look-ups by a random index, try 32:
#
# ```python
# cupy.cuda.runtime.deviceSetLimit(0x05, 32)  # cudaLimitMaxL2FetchGranularity
# ```
#
# Measure before you keep the setting. A better layout often helps more: if you store a struct's fields in separate
# arrays, the stride is gone.

# %% [markdown]
# ## Takeaways
#
# - The SMs request 32-byte sectors, but the L2 may fetch more from memory: 64 bytes by default here. A lone sector
#   then costs as much as a pair.
# - It's the L2 that sets this size, not the DRAM: `cudaLimitMaxL2FetchGranularity` changes it to 32 or 128 bytes.
# - Before you change the limit, change the layout: an array for each field removes the stride.

# %% [markdown]
# ## In your own kernel
#
# In Nsight Compute, compare `dram__bytes_read.sum` with 32 times `lts__t_sectors_op_read.sum`: if the first is larger,
# the L2 fetched bytes that nobody requested.

# %%
from tilewise import exercise

exercise(
    "One field of a 64-byte struct",
    """
    An array holds 2²⁴ structs of 64 bytes. A kernel reads one float of each, and neighbouring lanes read from
    neighbouring structs. How many bytes per struct does the L2 fetch with limits of 32, 64 and 128 bytes? How many
    would it fetch if that field had an array of its own?
    """,
    hint="What's the stride in elements, and how many structs share 128 bytes?",
    explanation="The stride is 16 elements. With a limit of 32 the L2 fetches 32 bytes per struct, and with 64 it fetches 64. With 128 it fetches a line that holds two structs, and both are used, so it's 64 bytes per struct again. A separate array needs only 4 bytes per element.",
)

# %% [markdown]
# The next further-reading page is about [streaming](coalescing_streaming.py): kernels that use every byte they fetch.
