# ---
# title: Reading a profile
# needs: [memory/banks, speed/occupancy, matmul/tiles_and_waves, toolbox/machine_code]
# summary: "Eight launches do one task, and most of them waste time, each in another way. How many of a profile's numbers does it take to tell them apart?"
# description: "Nsight Compute and torch's profiler on kernels with known faults: in which order to read, and what each number says beside a count."
# date: 2026-11-21
# tags: [profiling, Nsight Compute, torch.profiler, stalls]
# ---

# %% [markdown]
# Eight launches transpose a matrix. All of them are right. Some take about as long as their bytes do, and
# the others waste time, each in a way of its own. Nsight Compute, NVIDIA's profiler, knows
# {{ profiler.known | , }} counters, each with several ways to sum it up. How many numbers does one have to
# read to tell these eight apart, and in which order?

# %% fold="Imports"
import hashlib
import json
import re
from importlib.util import find_spec

import numpy as np

from tilewise import (
    Kernel,
    Table,
    agree,
    case,
    ceil_div,
    gpu_here,
    normal,
    output,
    parallel,
    publish,
    show,
    tiles,
)
from tilewise.figures import bars, timeline
from tilewise.kernel.nvrtc import available, compile_kernel
from tilewise.measurements import Numbers, printed, recorded, recorded_device
from tilewise.models import occupancy
from tilewise.outputs import Column

# %% [markdown]
# ## Eight launches
#
# The task is the one of [Shared-memory bank conflicts](../memory/banks.py), and so are the first kernels: a tile goes
# into a box in shared memory by rows and leaves by columns. With `PAD` = 1 that is a good kernel; with
# `PAD` = 0 it has \bank conflicts. The third does without a box, and its stores are not \coalesced.


# %% tab="Pseudocode"
def turn_tile(A, B):
    R, C = A.shape
    for rows in tiles(R, 32):
        for columns in tiles(C, 32):
            for r, c in parallel(len(rows), len(columns)):
                B[columns[c], rows[r]] = A[rows[r], columns[c]]


# %% tab="CUDA C"
PADDED = Kernel(
    r"""
extern "C" __global__
void turn_tile(const float* A, float* B, int R, int C) {
    __shared__ float box[32][32 + PAD];
    int left = 32 * blockIdx.x, top = 32 * blockIdx.y, x = threadIdx.x;
    #pragma unroll
    for (int y = threadIdx.y; y < 32; y += 8)
        if (top + y < R && left + x < C)
            box[y][x] = A[(top + y) * C + left + x];
    __syncthreads();  // the tile is there
    #pragma unroll
    for (int y = threadIdx.y; y < 32; y += 8)
        if (left + y < C && top + x < R)
            B[(left + y) * R + top + x] = box[x][y];  // a column of the box
}
""",
    defines={"PAD": 1},
)

# %% fold="Without padding, and without a box"
CONFLICTS = Kernel(PADDED.source, defines={"PAD": 0})

DIRECT = Kernel(r"""
extern "C" __global__
void turn_reading(const float* A, float* B, int R, int C) {
    int c = blockIdx.x * blockDim.x + threadIdx.x;  // lanes along the rows of A
    int r = blockIdx.y * blockDim.y + threadIdx.y;
    if (r < R && c < C) B[c * R + r] = A[r * C + c];
}
""")

# %% [markdown]
# The next one needs no shared memory either. A warp reads a tile into registers, 32 numbers a lane, and
# turns it by \warp shuffles: lanes whose numbers differ in one bit exchange half of what they hold, five
# times, once for each bit. A lane then has a column. Compiled for at most {{ cap }} registers
# a thread it becomes another launch, one that \spills.


# %% tab="Pseudocode"
def turn_registers(A, B):
    R, C = A.shape
    for r, c in parallel(R, C):
        B[c, r] = A[r, c]


# %% tab="CUDA C"
REGISTERS = Kernel(r"""
extern "C" __global__
void turn_registers(const float* A, float* B, int R, int C) {
    int lane = threadIdx.x, top = 32 * blockIdx.y;
    int left = 32 * (blockDim.y * blockIdx.x + threadIdx.y);
    float v[32];  // a column of the tile, in registers
    #pragma unroll
    for (int y = 0; y < 32; ++y) {
        bool inside = top + y < R && left + lane < C;
        v[y] = inside ? A[(top + y) * C + left + lane] : 0.0f;
    }
    #pragma unroll
    for (int step = 16; step > 0; step /= 2) {
        bool upper = lane & step;
        #pragma unroll
        for (int y = 0; y < 32; ++y) {
            if (y & step) continue;
            float mine = upper ? v[y] : v[y + step];
            float theirs = __shfl_xor_sync(0xffffffff, mine, step);
            if (upper) v[y] = theirs; else v[y + step] = theirs;
        }
    }
    #pragma unroll
    for (int y = 0; y < 32; ++y)
        if (left + y < C && top + lane < R)
            B[(left + y) * R + top + lane] = v[y];
}
""")

# %% [markdown]
# The last kernel has the box, padded, and a tile whose side is known only when it runs. Each place in the
# tile is found by a division and a remainder of 64-bit numbers, twice for each element.


# %% tab="Pseudocode"
def turn_divided(A, B, side):
    R, C = A.shape
    for rows in tiles(R, side):
        for columns in tiles(C, side):
            for i in parallel(side * side):
                y, x = i // side, i % side
                if y < len(rows) and x < len(columns):
                    B[columns[x], rows[y]] = A[rows[y], columns[x]]


# %% tab="CUDA C"
DIVIDED = Kernel(r"""
extern "C" __global__
void turn_divided(const float* A, float* B, int R, int C,
                  long long side) {
    __shared__ float box[32][33];
    int left = 32 * blockIdx.x, top = 32 * blockIdx.y;
    for (long long i = threadIdx.x; i < side * side; i += blockDim.x) {
        int y = i / side, x = i % side;  // New: nobody knows side
        if (top + y < R && left + x < C)
            box[y][x] = A[(top + y) * C + left + x];
    }
    __syncthreads();  // the tile is there
    for (long long i = threadIdx.x; i < side * side; i += blockDim.x) {
        int y = i / side, x = i % side;
        if (left + y < C && top + x < R)
            B[(left + y) * R + top + x] = box[x][y];
    }
}
""")

# %% fold="Code of the launches and of the checks"
SIDE, SMALL, CAP, BALLAST = 8192, 256, 24, 200_000
SPILLING = Kernel(
    REGISTERS.source + "// spills: to show what that looks like in a profile\n",
    options=[f"--maxrregcount={CAP}"],
)
LAUNCHES = {  # kernel, columns and rows of a block's part, its threads, shared memory that nobody uses
    "padded": (PADDED, (32, 32), (32, 8), 0),
    "in registers": (REGISTERS, (128, 32), (32, 4), 0),
    "no box": (DIRECT, (32, 8), (32, 8), 0),
    "no padding": (CONFLICTS, (32, 32), (32, 8), 0),
    "spilling": (SPILLING, (128, 32), (32, 4), 0),
    "dividing": (DIVIDED, (32, 32), (256,), 0),
    "few warps": (PADDED, (32, 32), (32, 8), BALLAST),
    "small": (PADDED, (32, 32), (32, 8), 0),
}


def side_of(name):
    return SMALL if name == "small" else SIDE


def described(name):
    """A launch in words that another process can read."""
    kernel, (wide, high), block, ballast = LAUNCHES[name]
    side = side_of(name)
    return {
        "source": kernel.source,
        "defines": dict(kernel.defines),
        "options": list(kernel.options),
        "side": side,
        "more": [32] if kernel is DIVIDED else [],
        "grid": [ceil_div(side, wide), ceil_div(side, high)],
        "block": list(block),
        "shared_bytes": ballast,
    }


def fingerprint():
    """A few digits that change with any of the kernels or launches, comments aside."""
    every = [
        [kernel.fingerprint(), {**described(name), "source": ""}] for name, (kernel, *_) in LAUNCHES.items()
    ]
    return hashlib.sha256(json.dumps(every).encode()).hexdigest()[:12]


def turning(name, R, C):
    """A launch of that name for a matrix of R rows and C columns."""
    kernel, (wide, high), block, ballast = LAUNCHES[name]
    numbers = {"side": 32} if kernel is DIVIDED else {}
    return kernel.on(
        case(
            A=normal(R, C),
            B=output(C, R),
            R=R,
            C=C,
            **numbers,
            grid=(ceil_div(C, wide), ceil_div(R, high)),
            block=block,
            shared_bytes=ballast,
        )
    )


SHAPES = ((5, 3), (77, 50), (36, 68), (130, 64))
for pseudocode, names in (
    (turn_tile, ("padded", "no padding")),
    (turn_registers, ("no box", "in registers", "spilling")),
    (turn_divided, ("dividing",)),
):
    for name in names:
        cases = [turning(name, *shape).case for shape in SHAPES]
        agree(pseudocode, LAUNCHES[name][0], cases, rtol=0.0)

# %% [markdown]
# Two more launches need no kernel of their own. In *few warps* each block of the good kernel asks for
# {{ ballast | , }} bytes of shared memory that nobody uses, so one fits on an SM where eight did. And
# *small* is the good kernel on a matrix of {{ small_side }} × {{ small_side }}, where all others have
# {{ side | , }} × {{ side | , }}.

# %% [markdown]
# ## What needs no profile
#
# A profiler is the last tool, not the first. The simulator has counted requests and passes, the compiler
# has said what it spills, and a division tells how many warps fit. Together with three rates of the
# device they make a prediction: bytes at the rate of a copy, one pass over the banks a cycle for each SM, and
# four instructions a cycle. The longest of the three should be the time.

# %% fold="Code of the table"
GPU = recorded_device()
COPY = recorded("transposes.ceilings.probes.copy_gb_per_s")
PROFILED = printed("toolbox/profiles", "profiles")
COUNTED = {name: turning(name, 128, 128).simulate().counts for name in LAUNCHES}
TIMED = {name: float(us) for name, us in re.findall(r"(?m)^timed ([a-z ]+): ([\d.]+),", PROFILED)}


def resources(name):
    """Warps on an SM, and bytes that a thread spills; NaN without NVIDIA's compiler."""
    kernel, _, block, ballast = LAUNCHES[name]
    if available() is not None:
        return np.nan, np.nan
    [found] = compile_kernel(kernel, ["sm_90"])
    warps = occupancy(int(np.prod(block)), found.registers, found.shared_bytes + ballast).warps_per_sm
    return warps, found.spill_store_bytes + found.spill_load_bytes


def counted_by_us(name):
    """Sectors a load and a store, passes a shared load, instructions a number, and microseconds of three clocks."""
    counts, numbers = COUNTED[name], side_of(name) ** 2
    instructions = 32 * counts.issued / 128**2
    passes = (counts.shared_load.wavefronts + counts.shared_store.wavefronts) / 128**2
    a_cycle = GPU.sms * GPU.boost_mhz
    warps, spilled = resources(name)
    ours = {
        "load": counts.global_load.sectors / counts.global_load.requests,
        "store": counts.global_store.sectors / counts.global_store.requests,
        "passes": counts.shared_load.wavefronts / max(counts.shared_load.requests, 1),
        "instructions": instructions,
        "warps": warps,
        "spilled": spilled,
        "bytes_us": 8 * numbers / COPY / 1e3,
        "passes_us": passes * numbers / a_cycle,
    }
    issue_us = instructions * numbers / (4 * 32 * a_cycle)
    return ours | {"predicted": max(ours["bytes_us"], ours["passes_us"], issue_us)}


def a_table(values, columns, caption):
    """A row for each launch: headings, and how each number is written."""
    if values:
        show(
            Table(
                ["launch", *(Column(heading, align="right") for heading, _, _ in columns)],
                [
                    [unbroken(name), *(format(values[name][key], form) for _, key, form in columns)]
                    for name in LAUNCHES
                ],
                caption=caption,
            )
        )


def unbroken(words):
    """Words that stay on one line."""
    return words.replace(" ", "\u00a0")


OURS = {name: counted_by_us(name) for name in LAUNCHES}
a_table(
    OURS,
    (
        ("sectors a load", "load", ".0f"),
        ("a store", "store", ".0f"),
        ("passes a shared load", "passes", ".0f"),
        ("PTX instructions a number", "instructions", ".0f"),
        ("warps on an SM", "warps", ".0f"),
        ("bytes spilled a thread", "spilled", ".0f"),
        ("predicted [µs]", "predicted", ".1f"),
    ),
    "Before anything is timed: the simulator's counts, the compiler's report for an H100, and the longest of three clocks.",
)
publish(
    cap=CAP,
    ballast=BALLAST,
    side=SIDE,
    small_side=SMALL,
    before={
        "bytes_us": OURS["padded"]["bytes_us"],
        "passes_us": OURS["no padding"]["passes_us"],
        "least": OURS["few warps"]["warps"],
        "sectors": OURS["no box"]["store"],
        "conflict": OURS["no padding"]["passes"],
        "spilled": OURS["spilling"]["spilled"],
        "blocks": ceil_div(SMALL, 32) ** 2,
        "sms": GPU.sms,
    },
    earlier={
        "padded": recorded("transposes.tile_padded.side_8192.median"),
        "conflicts": recorded("transposes.tile.side_8192.median"),
        "direct": recorded("transposes.lanes_along_the_rows_read.side_8192.median"),
    },
)

# %% [markdown]
# Five of the six faults stand in this table: {{ before.sectors | .0f }} sectors a store, {{ before.conflict | .0f }} passes a
# load, {{ before.least | .0f }} warps, {{ before.spilled | .0f }} bytes spilled, and {{ before.blocks }} blocks of a small
# matrix for {{ before.sms }} SMs. How much time a fault costs is another matter. Three times were recorded with
# the lesson on banks: the padded tile takes {{ earlier.padded | us }}, near the {{ before.bytes_us | .0f }} µs of its
# bytes; without padding it takes {{ earlier.conflicts | us }}, near the {{ before.passes_us | .0f }} of its passes;
# but without a box it takes {{ earlier.direct | us }}, and no clock of the three says so. For such a
# residual one takes a profile.

# %% [markdown]
# ## How a profile is taken
#
# An SM has only a few counters, and each can count one thing at a time. So Nsight Compute runs the launch
# again and again, each time with other counters, and puts memory back in between. That is kernel replay. It
# runs each launch alone and with cold caches, so it shows what the kernel does and nothing of the program
# around it.[^clock]
#
# [^clock]: By default it also holds the clock at a fixed rate, so that runs compare; times are then longer than in the
#     program. Here it was told not to, with `--clock-control none`.
#
# ??? definition "Profile | profiles"
#     Numbers about a run that the hardware and the driver took while it ran.
#
# ??? definition "Metric | metrics"
#     One number of a profile, with a name that says where and how it was taken.
#
# ??? definition "Kernel replay"
#     To run a launch again from the same state of memory, to count what did not fit into the run before.

# %% [markdown]
# The names look forbidding and are regular. `l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum` begins with
# the unit, the L1 cache; then comes what is counted, sectors of stores to global memory; then how the
# values of all units become one: `sum`, `avg`, `max`. A name may go on with what it is divided by:
# `.per_cycle_active`, `.pct_of_peak_sustained_elapsed`. Knowing the units is most of it: `dram` the memory,
# `lts` the L2, `l1tex` the L1 with shared memory, `smsp` a quarter of an SM with its scheduler, `launch` what
# the driver knew before.

# %% needs="gpu" record="profiles" fold="Code that times and profiles the launches"
if gpu_here():
    import subprocess
    import sys
    import tempfile
    from pathlib import Path

    import cupy

    from tilewise.gpu.counters import find_ncu, ncu_command, parse_counters
    from tilewise.gpu.timing import Contender, Plan, time_contenders

    LSU = "l1tex__t_{}_pipe_lsu_mem_{}_op_{}.sum"
    STALLED = "smsp__average_warps_issue_stalled_{}_per_issue_active.ratio"
    STALLS = [
        "long_scoreboard",
        "short_scoreboard",
        "lg_throttle",
        "mio_throttle",
        "barrier",
        "wait",
        "not_selected",
        "selected",
        "math_pipe_throttle",
        "dispatch_stall",
        "no_instruction",
        "drain",
        "branch_resolve",
        "imc_miss",
    ]
    PEAK = ".avg.pct_of_peak_sustained_"
    WANTED = [
        "gpu__time_duration.sum",
        "launch__waves_per_multiprocessor",
        "launch__registers_per_thread",
        f"dram__throughput{PEAK}elapsed",
        "dram__bytes_read.sum",
        "dram__bytes_write.sum",
        f"lts__throughput{PEAK}elapsed",
        "lts__t_sectors_op_read.sum",
        "lts__t_sectors_op_write.sum",
        "lts__t_sector_hit_rate.pct",
        f"l1tex__throughput{PEAK}active",
        f"sm__throughput{PEAK}elapsed",
        "sm__cycles_elapsed.max",
        "sm__cycles_active.avg",
        *(
            LSU.format(what, where, op)
            for where in ("global", "local")
            for op in ("ld", "st")
            for what in ("requests", "sectors")
        ),
        *(f"smsp__inst_executed_op_shared_{op}_pred_on_any.sum" for op in ("ld", "st")),
        *(f"l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{op}.sum" for op in ("ld", "st")),
        "smsp__inst_executed.sum",
        f"smsp__issue_active{PEAK}active",
        *(f"sm__inst_executed_pipe_{pipe}{PEAK}active" for pipe in ("alu", "fma", "lsu", "xu")),
        f"sm__warps_active{PEAK}active",
        "smsp__warps_active.avg.per_cycle_active",
        "smsp__warps_eligible.avg.per_cycle_active",
        *(STALLED.format(reason) for reason in STALLS),
    ]
    CHILD = """
import json, sys
import cupy
from tilewise import Kernel
for one in json.load(open(sys.argv[1])):
    kernel = Kernel(one["source"], defines=one["defines"], options=one["options"])
    side = one["side"]
    A = cupy.random.standard_normal((side, side), dtype=cupy.float32)
    B = cupy.empty_like(A)
    how = {key: one[key] for key in ("grid", "block", "shared_bytes")}
    kernel(A, B, side, side, *one["more"], **how)  # compiled and loaded, not profiled
    cupy.cuda.get_current_stream().synchronize()
    cupy.cuda.runtime.profilerStart()
    kernel(A, B, side, side, *one["more"], **how)
    cupy.cuda.get_current_stream().synchronize()
    cupy.cuda.runtime.profilerStop()
"""

    def contender(name, A, B):
        """The launch on arrays of this process; refused where its result is wrong."""
        told = described(name)
        kernel, how = LAUNCHES[name][0], {key: told[key] for key in ("grid", "block", "shared_bytes")}

        def call():
            kernel(A, B, len(A), len(A), *told["more"], **how)

        B.fill(np.nan)
        call()
        assert (B == A.T).all(), name
        return Contender(name, call)

    print(f"launches {fingerprint()}")
    matrices = {}
    for side in (SIDE, SMALL):
        A = cupy.random.standard_normal((side, side), dtype=cupy.float32)
        matrices[side] = A, cupy.empty_like(A)
    timings = time_contenders(
        [contender(name, *matrices[side_of(name)]) for name in LAUNCHES], Plan(repetitions=41)
    )
    for one in timings:
        print(f"timed {one.label}: {one.median:.2f}, {one.p20:.2f}, {one.p80:.2f} us")
    del matrices

    ncu = find_ncu()
    said = subprocess.run(
        [ncu, "--query-metrics"], check=False, capture_output=True, text=True, timeout=120
    ).stdout
    known = {line.split()[0] for line in said.splitlines() if "__" in line.split(" ")[0]}
    print(f"{len(known)} metrics known")

    def profiled(metrics):
        """What Nsight Compute says of every launch, by metric; nothing where it does not know one of them."""
        with tempfile.TemporaryDirectory() as folder:
            log, listed = Path(folder, "ncu.csv"), Path(folder, "launches.json")
            listed.write_text(json.dumps([described(name) for name in LAUNCHES]))
            command = ncu_command(
                ncu, log, [sys.executable, "-c", CHILD, str(listed)], {name: name for name in metrics}
            )
            done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=240)
            text = log.read_text(errors="replace") if log.is_file() else ""
        try:
            found = [values for _, values in parse_counters(text, {name: name for name in metrics})]
        except ValueError as error:
            print(f"no table: {str(error)[:200]} {done.stderr[-200:]}")
            return []
        return found if len(found) == len(LAUNCHES) else []

    certain = [name for name in WANTED if not known or name.split(".")[0] in known]
    found = profiled(
        [name for name in WANTED if name in certain or name.startswith(("launch__", "smsp__av"))]
    )
    found = found or profiled(certain)
    print(f"metric | {' | '.join(LAUNCHES)}")
    for name in WANTED:
        print(f"{name} | {' | '.join(format(one.get(name, np.nan), '.8g') for one in found)}")

# %% [markdown]
# ## In which order to read
#
# Sum up first, then go down: is the device full, which unit is near its limit, does that unit do more than it
# must, and only then, what is waited for. A number further down means nothing before those above it are known.
# Kernels that stand at their roof have stalled warps too: they stall because they wait for a busy memory.

# %% fold="Code that reads the record"
ROWS = [line.split(" | ") for line in PROFILED.splitlines() if " | " in line]
METRICS = {row[0]: dict(zip(ROWS[0][1:], map(float, row[1:]), strict=True)) for row in ROWS[1:]}
MADE_OF = re.search(r"(?m)^launches (\w+)$", PROFILED)
if MADE_OF and not gpu_here():
    assert MADE_OF[1] == fingerprint(), "the profiles are of other launches: record them anew"
KNOWN = re.search(r"(\d+) metrics known", PROFILED)
STALL = re.compile(r"smsp__average_warps_issue_stalled_(\w+)_per_issue_active\.ratio")


def told(launch):
    """What this page reads of a profile, in the order in which it is read."""
    of = Numbers({name: values[launch] for name, values in METRICS.items()})

    def both(name):
        return of[name.format("ld")] + of[name.format("st")]

    def per_request(op):
        return of[f"{own.format(op)}"] / of[own.format(op).replace("sectors", "requests")]

    own, local = (f"l1tex__t_sectors_pipe_lsu_mem_{where}_op_{{}}.sum" for where in ("global", "local"))
    passes = "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{}.sum"
    shared_loads = of["smsp__inst_executed_op_shared_ld_pred_on_any.sum"]
    moved = of["dram__bytes_read.sum"] + of["dram__bytes_write.sum"]
    stalls = {
        found[1].replace("_", " "): value
        for name, value in of.items()
        if (found := STALL.fullmatch(name)) and np.isfinite(value)
    }
    longest = max(set(stalls) - {"selected"}, key=stalls.get, default="")
    return {
        "waves": of["launch__waves_per_multiprocessor"],
        "memory": of["dram__throughput.avg.pct_of_peak_sustained_elapsed"] / 100,
        "moved": moved / (2 * 4 * side_of(launch) ** 2),
        "l2": of["lts__throughput.avg.pct_of_peak_sustained_elapsed"] / 100,
        "issue": of["smsp__issue_active.avg.pct_of_peak_sustained_active"] / 100,
        "load": per_request("ld"),
        "store": per_request("st"),
        "passes": of[passes.format("ld")] / shared_loads if shared_loads else 0.0,
        "box": both(passes) / GPU.sms / of["sm__cycles_elapsed.max"],
        "local": both(local) / both(own),
        "occupancy": of["sm__warps_active.avg.pct_of_peak_sustained_active"] / 100,
        "waits": longest,
        "waiting": stalls.get(longest, np.nan) / (sum(stalls.values()) or np.nan),
        "instructions": 32 * of["smsp__inst_executed.sum"] / side_of(launch) ** 2,
        "us": of["gpu__time_duration.sum"] / 1000,
        "predicted": OURS[launch]["predicted"],
        "timed": TIMED.get(launch, np.nan),
    }


TOLD = {name: told(name) for name in LAUNCHES}
if METRICS:
    for name in ("no box", "few warps"):
        busiest = max(TOLD[name][unit] for unit in ("memory", "issue", "box"))
        assert busiest < 0.4, "the title says that something is waited for where no bar is long"
publish(
    profiler={"known": int(KNOWN[1]) if KNOWN else np.nan},
    told={name.replace(" ", "_"): values for name, values in TOLD.items()},
    spilling={"ratio": TOLD["spilling"]["timed"] / TOLD["padded"]["timed"]},
    stalled={
        "alike": sum(one["waits"] == TOLD["few warps"]["waits"] for one in TOLD.values()),
        "faster": TOLD["few warps"]["timed"] / TOLD["padded"]["timed"],
    },
)

# %% [markdown]
# **Is the device full, and which roof is near?** A \wave is as many blocks as fit on all SMs at once. Below one
# wave nothing further is worth reading: *small* has {{ told.small.waves | .2f }}. Then the busy shares: of the
# memory's bandwidth, of the issue slots of the schedulers, of the cycles in which the L1 passes something
# between lanes and banks.
#
# ??? definition "Issue slot | issue slots"
#     A cycle of a warp scheduler, in which it can issue one instruction; busy if it does.

# %% fold="Code of the table and the figure"
a_table(
    METRICS and TOLD,
    (
        ("waves", "waves", ".2f"),
        ("predicted [µs]", "predicted", ".1f"),
        ("timed [µs]", "timed", ".1f"),
        ("under the profiler [µs]", "us", ".1f"),
    ),
    "From the record of Nsight Compute on an {machine}.",
)
UNITS = {"memory": "memory", "issue slots": "issue", "banks": "box"}
if METRICS:
    show(
        bars(
            {name: {what: 100 * TOLD[name][key] for what, key in UNITS.items()} for name in LAUNCHES},
            roles={"memory": "global", "issue slots": "read", "banks": "shared"},
            x="busy [% of the most]",
            value_range=(0, 100),
            form=".0f",
            title="Where one bar is long, that unit sets the time; where none is, something is waited for",
            caption="Busy shares of three units during eight transposes, by Nsight Compute on an {machine}. Banks: passes of shared memory, as a share of an SM's cycles.",
        )
    )

# %% [markdown]
# *Padded* keeps the memory {{ told.padded.memory | .0% }} busy and moves {{ told.padded.moved | .2f }} times the
# bytes that it must: nothing inside the kernel can gain more than the rest.[^below] *Dividing* has {{ told.dividing.issue | .0% }}
# of its issue slots busy, and *no padding* {{ told.no_padding.box | .0% }} of the banks' cycles. Those two are
# found. *Spilling* keeps the memory {{ told.spilling.memory | .0% }} busy and takes
# {{ spilling.ratio | .1f }} times as long as *padded*. In *no box* and *few warps* none of the three is busy.
#
# [^below]: Less than 1: what it reads comes from the memory to the last byte, but of what it stores some is
#     missing. The L2 can still hold that when the launch ends.

# %% [markdown]
# **Does it do more than it must?** Set what was moved beside what the task needs, level by level: bytes at the
# memory against eight for each number, sectors against four for a request of 32 floats side by side, passes
# against one, and local memory against nothing at all.

# %% fold="Code of the table"
a_table(
    METRICS and TOLD,
    (
        ("bytes moved, needed = 1", "moved", ".2f"),
        ("L2 busy", "l2", ".0%"),
        ("sectors a load", "load", ".1f"),
        ("a store", "store", ".1f"),
        ("passes a shared load", "passes", ".1f"),
        ("local sectors, global = 1", "local", ".2f"),
        ("machine instructions a number", "instructions", ".0f"),
    ),
    "From the same record. Sectors and passes are those that the simulator counts too.",
)

# %% [markdown]
# *No box* writes {{ told.no_box.store | .0f }} sectors for a request where *padded* writes
# {{ told.padded.store | .0f }}. They meet again in the L2: the memory moves only {{ told.no_box.moved | .2f }} times the
# bytes that it must, and is {{ told.no_box.memory | .0%}} busy, while the L2 is {{ told.no_box.l2 | .0%}} busy, more than in
# any other of the eight. So its roof is the L2's. *Spilling* touches {{ told.spilling.local | .1f }} times
# as many sectors of local memory as of the matrices, and {{ told.spilling.moved | .2f }} times the bytes reach the
# memory: busy, with bytes that nobody asked for. Neither needs a stall reason to be found.

# %% [markdown]
# **What is waited for?** Only now, and only where no unit is busy and nothing is done twice. Each cycle the
# schedulers note why each of their warps does not issue. The reasons have names: *long scoreboard* waits for
# global or local memory, *short scoreboard* for shared memory, *barrier* for other warps, *lg* and *mio throttle*
# for a place in a queue of requests, *math pipe throttle* for a unit, *drain* for its last stores to be gone,
# *not selected* for nothing: it was ready, and another warp was issued.[^nan]
#
# [^nan]: For one more reason, `branch_resolve`, the recorded tool gave no number (`nan` in its output); it is left out.
#
# ??? definition "Stall reason | stall reasons"
#     What keeps a resident warp from issuing its next instruction in a cycle.

# %% fold="Code of the table"
a_table(
    METRICS and TOLD,
    (
        ("warps, most = 1", "occupancy", ".0%"),
        ("waits for", "waits", ""),
        ("share of the waiting", "waiting", ".0%"),
    ),
    "From the same record: the achieved occupancy, and the stall reason with the largest share.",
)

# %% [markdown]
# *Few warps* waits for its loads, {{ told.few_warps.waiting | .0% }} of the time, with {{ told.few_warps.occupancy | .0%}}
# of the warps that fit. But {{ stalled.alike }} of the eight name the same reason. *Padded* waits for
# *{{ told.padded.waits }}* {{ told.padded.waiting | .0%}} of the time, a larger share than *few warps*, and is
# {{ stalled.faster | .1f }} times as fast. That is why this table comes last. The remedy follows from the rest: with few warps,
# [more bytes in flight](../speed/occupancy.py#littles-law-bytes-in-flight); at the roof, [fewer bytes](../memory/fusion.py).
# Two reasons do tell something: in *no box* warps have nothing left to do and wait for
# their stores (*{{ told.no_box.waits }}*), in *no padding* for a place in the banks' queue (*{{ told.no_padding.waits }}*).

# %% [markdown]
# ## The order as a program
#
# Written down, the order is {{ order.questions }} questions. Each names the numbers it reads, and the first that is answered
# with yes ends the reading. [From symptom to lesson](../../from-symptom-to-lesson.md) goes on from there.

# %%
QUESTIONS = (
    ("too little work for the device", ("waves",), lambda p: p["waves"] < 1),
    (
        "at the roof of the memory",
        ("memory", "moved"),
        lambda p: p["memory"] > 0.8 and p["moved"] < 1.1,
    ),
    ("lanes out of order", ("load", "store"), lambda p: max(p["load"], p["store"]) > 5),
    ("bank conflicts", ("passes",), lambda p: p["passes"] > 1.25),
    ("registers spilled", ("local",), lambda p: p["local"] > 0.1),
    ("too many instructions", ("issue",), lambda p: p["issue"] > 0.6),
    ("too little under way", ("occupancy", "waits"), lambda p: "long" in p["waits"]),
)


def read(p):
    """What a profile shows, and how many of its numbers were read until then."""
    numbers = 0
    for finding, names, holds in QUESTIONS:
        numbers += len(names)
        if holds(p):
            return finding, numbers
    return "nothing of these", numbers


# %% fold="Code of the table"
FOUND = {name: read(TOLD[name]) for name in LAUNCHES} if METRICS else {}
if METRICS:
    show(
        Table(
            ["launch", "what its profile shows", "numbers read"],
            [[name, finding, numbers] for name, (finding, numbers) in FOUND.items()],
            caption="The questions, put to the recorded profiles in their order.",
        )
    )
RIGHT = {
    "padded": "at the roof of the memory",
    "in registers": "at the roof of the memory",
    "no box": "lanes out of order",
    "no padding": "bank conflicts",
    "spilling": "registers spilled",
    "dividing": "too many instructions",
    "few warps": "too little under way",
    "small": "too little work for the device",
}
publish(
    order={
        "questions": len(QUESTIONS),
        "most": max((numbers for _, numbers in FOUND.values()), default=np.nan),
        "right": sum(FOUND[name][0] == fault for name, fault in RIGHT.items()) if FOUND else np.nan,
        "of": len(RIGHT),
    }
)

# %% [markdown]
# The program names {{ order.right | .0f }} of {{ order.of }} rightly and reads at most {{ order.most | .0f }}
# numbers. Its limits were written down before anything was recorded; *in registers*, with
# {{ told.in_registers.memory | .0%}} of the memory busy, comes closest to one. It is no oracle: a kernel with two
# faults shows the first, and one looks again after its cure.
#
# On an H200 *padded* and *in registers* miss the limit for the memory's roof and are found to have too little under
# way: its memory is faster, and kernels that fill an H100's do not fill this one.

# %% [markdown]
# ## Beside the simulator
#
# Where a profile and the simulator count the same thing they should agree, for both do it in front of the L1.
# What the simulator cannot know is what the next tool makes of the kernel: it runs PTX, so spills are not in its
# counts, and instructions are those of PTX.

# %% fold="Code of the table"
COMPARED = {"sectors a load": "load", "sectors a store": "store", "passes a shared load": "passes"}
DIFFERENT = [
    (name, what)
    for name in LAUNCHES
    for what, key in COMPARED.items()
    if not abs(TOLD[name][key] - OURS[name][key]) < 0.005
]
if METRICS:
    rows = [[*row, COMPARED[row[1]], ".2f", "not explained"] for row in DIFFERENT]
    rows += [
        [name, "instructions a number", "instructions", ".0f", unbroken("PTX against machine code")]
        for name in ("padded", "in registers", "spilling", "dividing")
    ]
    SPILLED = f"{TOLD['spilling']['local'] * 2 / 8:.2f}"
    show(
        Table(
            [
                *("launch", "what"),
                *(Column(where, align="right") for where in ("simulator", "profile")),
                "why they differ",
            ],
            [
                [name, what, *(format(count[name][key], form) for count in (OURS, TOLD)), why]
                for name, what, key, form, why in rows
            ]
            + [
                ["spilling", "local sectors a number", "0.00", SPILLED, unbroken("spills are made after PTX")]
            ],
            caption="What differs between the simulator's counts and the recorded profile; equal ratios are left out.",
        )
    )
BOXED = [name for name in LAUNCHES if OURS[name]["passes"]]
publish(
    beside={
        "more": sum(what.startswith("passes") for _, what in DIFFERENT),
        "sectors": 2 * len(LAUNCHES) - sum(what.startswith("sectors") for _, what in DIFFERENT),
        "of_sectors": 2 * len(LAUNCHES),
        "most": max(TOLD[name]["passes"] / OURS[name]["passes"] for name in BOXED) - 1,
        "ptx": {name.replace(" ", "_"): ours["instructions"] for name, ours in OURS.items()},
    }
)

# %% [markdown]
# Of {{ beside.of_sectors }} ratios of sectors {{ beside.sectors }} are equal. Passes are up to {{ beside.most | .0% }} more in
# {{ beside.more }} launches, and exactly as simulated in *few warps*, which is the kernel of *padded* with fewer warps at
# a time. So it is not the pattern that makes them more; what does is not explained. [What the simulator
# counts](../../what-the-simulator-counts.md) compares every kernel of this course.

# %% [markdown]
# Instructions are another matter. *In registers* has {{ beside.ptx.in_registers | .0f }} of PTX for a number and *padded*
# {{ beside.ptx.padded | .0f }}; the machine executes {{ told.in_registers.instructions | .0f }} and
# {{ told.padded.instructions | .0f }}, the other way round. *Dividing* stands out in both,
# {{ beside.ptx.dividing | .0f }} and {{ told.dividing.instructions | .0f }}. A count of PTX compares two versions of one
# kernel; for what different kernels cost, look at a profile.

# %% [markdown]
# ## Between the launches
#
# All of this was about one launch at a time. If the device idles between launches, no metric of a launch says
# so. For that there are profilers of the timeline, such as `torch.profiler`: it lets the program run once, as it
# is, and notes when each call of the host and each kernel began and ended. Here it looks at a chain of torch
# operations, eager and compiled, on few rows and on many.

# %% needs="gpu torch" record="chain" fold="Code that profiles the chain"
if gpu_here() and find_spec("torch"):
    import torch
    from torch.autograd import DeviceType
    from torch.profiler import ProfilerActivity, profile

    def chain(x, w, b):
        """Centre each row, scale it, and bend it."""
        return torch.nn.functional.gelu((x - x.mean(-1, keepdim=True)) * w + b)

    def spans_of(work, given):
        """The host's launches and the device's kernels of one call: what, start, end in us."""
        for _ in range(4):  # compiled, loaded, and the profiler started before the one that counts
            with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen:
                work(*given)
                torch.cuda.synchronize()
        events = sorted(seen.events(), key=lambda event: event.time_range.start)
        spans = []
        for event in events:
            span = event.time_range.start, event.time_range.end
            if event.device_type == DeviceType.CUDA and not re.search("Sync|Mem", event.name):
                spans.append(("kernel", *span, event.name))
            elif "LaunchKernel" in event.name:
                spans.append(("launch", *span, event.name))
        return spans, seen.key_averages()

    for rows in (256, 65536):
        given = [torch.randn(rows, 1024, device="cuda")]
        given += [torch.randn(1024, device="cuda") for _ in range(2)]
        for mode, work in (("eager", chain), ("compiled", torch.compile(chain, dynamic=False))):
            spans, averages = spans_of(work, given)
            begin = min(start for _, start, _, _ in spans)
            print(f"{rows} rows, {mode}")
            for what, start, end, name in spans:
                short = re.sub(r"^void |at::native::|\(anonymous namespace\)::|<.*", "", name)
                print(f"  {what} {start - begin:.2f} {end - begin:.2f} {short[:60]}")
            if rows == 256:
                for one in sorted(averages, key=lambda one: -one.self_cpu_time_total)[:6]:
                    device_us = getattr(one, "self_device_time_total", 0)
                    print(f"  table {one.count} {one.self_cpu_time_total:.1f} {device_us:.1f} {one.key[:60]}")

# %% fold="Code of the timelines"
CHAINS = {}
for part in re.split(r"(?m)^(?=\d+ rows, )", printed("toolbox/profiles", "chain")):
    if head := re.match(r"(\d+ rows, \w+)\n", part):
        CHAINS[head[1]] = [
            (what, float(start), float(end), name)
            for what, start, end, name in re.findall(r"(launch|kernel) ([\d.]+) ([\d.]+) (\S+)", part)
        ]


def of_chain(rows, mode):
    """Kernels, the time in them, and the time from the first one's start to the last one's end."""
    spans = CHAINS.get(f"{rows} rows, {mode}", [])
    kernels = [(start, end) for what, start, end, _ in spans if what == "kernel"]
    if not kernels:
        return {"kernels": 0, "busy": np.nan, "whole": np.nan, "share": np.nan}
    busy = sum(end - start for start, end in kernels)
    whole = max(end for _, end in kernels) - min(start for start, _ in kernels)
    return {"kernels": len(kernels), "busy": busy, "whole": whole, "share": busy / whole}


CALLS_US = [[end - start for what, start, end, _ in spans if what == "launch"] for spans in CHAINS.values()]


FEW = []
for mode in ("eager", "compiled"):
    noted = CHAINS.get(f"256 rows, {mode}", [])
    origin = min((start for what, start, _, _ in noted if what == "kernel"), default=0.0)
    numbered = {"launch": 0, "kernel": 0}
    for what, start, end, _ in noted:
        numbered[what] += 1
        row, role = ("host", "warp") if what == "launch" else ("device", "measured")
        if start >= origin:
            FEW.append((f"{mode}: {row}", start - origin, end - origin, f"{numbered[what]}", role))
if FEW:
    show(
        timeline(
            FEW,
            unit="µs",
            title="On few rows the device waits for the host to launch the next operation",
            caption="One call of the chain on 256 rows, eager and compiled: launches by the host and kernels on an {machine}, numbered, as torch.profiler noted them. Time begins with the first kernel; its launch is left out.",
        )
    )
publish(
    chain={
        f"{mode}_{size}": of_chain(rows, mode)
        for size, rows in (("few", 256), ("many", 65536))
        for mode in ("eager", "compiled")
    },
    launching={
        "first": min((calls[0] for calls in CALLS_US), default=np.nan),
        "later": max((us for calls in CALLS_US for us in calls[1:]), default=np.nan),
    },
)

# %% [markdown]
# On few rows the eager chain has {{ chain.eager_few.kernels }} kernels, which together take
# {{ chain.eager_few.busy | .1f }} of the {{ chain.eager_few.whole | .0f }} µs from the first one's start to the last one's end: a
# device that is {{ chain.eager_few.share | .0% }} busy, with nothing wrong in any kernel.[^first] Compiled it is
# {{ chain.compiled_few.kernels }} kernel of {{ chain.compiled_few.busy | .1f }} µs. On many rows the device is busy
# {{ chain.eager_many.share | .0% }} of the time in eager code too, and what the compiler saves is bytes:
# {{ chain.eager_many.busy | .0f }} µs become {{ chain.compiled_many.busy | .0f }}. So before a kernel's profile comes the
# program's timeline; it says which kernel is worth one.
#
# [^first]: A profiler of timelines costs time as well, on the host. In each of the four calls the first launch took at least
#     {{ launching.first | .0f }} µs, where no later one took more than {{ launching.later | .0f }}, and
#     without a profiler launches take [a few](../speed/launches.py). So the gaps are there, but not as long.

# %% [markdown]
# ## The answer
#
# At most {{ order.most | .0f }} numbers of {{ profiler.known | , }}: waves, the memory's busy share and its bytes,
# sectors of loads and stores, passes, local sectors, issue slots, and at the very end the warps and what they wait for.

# %% [markdown]
# ## Takeaways
#
# - Timeline first, then one kernel: a profile of a launch says nothing about the gaps between launches.
# - Busy shares before stall reasons. At a roof warps stall as well, and rightly.
# - Set every count beside what the task needs: bytes, sectors, passes, instructions for each number.
# - Sectors are the same in simulator and profiler, passes nearly. Spills exist only in machine code, and a count of
#   PTX is none of its instructions.
# - A profiler replays launches alone, with cold caches: take times from the program, reasons from the profile.
#
# What this part has shown, claim by claim: [recap](../../recap.md#toolbox).

# %% fold="The whole cell, with three wrong answers that the tests turn down"
from tilewise import exercise


def least_us(p, sms, mhz, gb_per_s):
    cycles = max(p["instructions"] / (4 * sms), p["passes"] / sms)
    return max(cycles / mhz, p["bytes"] / gb_per_s / 1e3)


def one_after_the_other(p, sms, mhz, gb_per_s):
    return (p["instructions"] / (4 * sms) + p["passes"] / sms) / mhz + p["bytes"] / gb_per_s / 1e3


def one_scheduler(p, sms, mhz, gb_per_s):
    return max(p["instructions"] / sms / mhz, p["passes"] / sms / mhz, p["bytes"] / gb_per_s / 1e3)


def bytes_alone(p, sms, mhz, gb_per_s):
    return p["bytes"] / gb_per_s / 1e3


def least_tests(answer):
    for p, us in (
        ({"instructions": 4e6, "passes": 1e5, "bytes": 1e5}, 100.0),
        ({"instructions": 4e5, "passes": 1e6, "bytes": 1e5}, 100.0),
        ({"instructions": 4e5, "passes": 1e5, "bytes": 3e8}, 150.0),
        ({"instructions": 2e6, "passes": 4e5, "bytes": 8e7}, 50.0),
    ):
        given = answer(p, 10, 1000.0, 2000.0)
        assert abs(given - us) < 1e-6 * us, f"{p}: {given:.4g} µs in place of {us:.4g}"


exercise(
    "What a cure can bring",
    """
    Before a fault is cured one would like to know what limits the kernel next. Write `least_us(p, sms, mhz, gb_per_s)`:
    the least time in microseconds for a launch whose profile `p` has `instructions` of warps, `passes` over the banks of
    shared memory and `bytes` of device memory, each summed over the device. Each of `sms` SMs issues four
    instructions and makes one pass a cycle of a clock of `mhz`; the memory moves `gb_per_s`. All three go on at
    the same time. With the counts as they will be after the cure it says whether the cure is worth the work.
    """,
    answer=least_us,
    tests=least_tests,
    wrong=[one_after_the_other, one_scheduler, bytes_alone],
    hint="Things that go on at the same time take as long as the longest of them.",
)
