# ---
# title: Reading an Nsight Compute profile
# needs: [memory/banks, memory/reductions, memory/fusion, speed/occupancy]
# summary: "Eight launches of a matrix transpose all give the right result, but six of them waste time, each for a different reason. How many of a profile's metrics do you need to tell them apart?"
# description: "Speed of Light, the roofline, memory traffic, L2 hit rate, stall reasons and the source view of Nsight Compute, on eight transposes with known faults."
# date: 2026-11-21
# tags: [profiling, Nsight Compute, torch.profiler, stalls]
# ---

# %% [markdown]
# Seven of the launches below transpose the same matrix of 8,192 × 8,192 floats, and the eighth transposes a small one.
# At the data sheet's peak bandwidth, reading and writing the large matrix takes {{ ask.bytes_us | us }}.
#
# Nsight Compute, NVIDIA's kernel profiler, offers {{ profiler.known | , }} metrics, but only a few are needed to find
# what's wrong with each launch.

# %% fold="Imports"
import hashlib
import json
import re

import numpy as np

from tilewise import Kernel, Table, check, gpu_here, parallel, publish, show, tiles
from tilewise.figures import Series, bars, heat_map, line_chart
from tilewise.measurements import Numbers, printed, recorded_device
from tilewise.models import stated
from tilewise.outputs import Cell

GPU = recorded_device()
PEAKS = stated(GPU)
PROFILED = printed("toolbox/profiles", "profiles")
TIMED = {name: float(us) for name, us in re.findall(r"(?m)^timed ([a-z ]+): ([\d.]+),", PROFILED)}
LABELS = {  # by their names in the record
    "padded": "padded tile",
    "in registers": "register shuffles",
    "no box": "naive",
    "no padding": "unpadded tile",
    "spilling": "24-register cap",
    "dividing": "64-bit division",
    "few warps": "one block per SM",
    "small": "small matrix",
}
SIX = [name for name in LABELS if name not in ("padded", "in registers")]

# %% fold="Code of the figure"
LARGE = {label: TIMED[name] for name, label in LABELS.items() if name in TIMED and name != "small"}
if LARGE:
    assert (
        max(LARGE["padded tile"], LARGE["register shuffles"])
        < 1.4 * 8 * 8192**2 / PEAKS.memory_gb_per_s / 1e3
    )
    assert min(LARGE[LABELS[name]] for name in SIX[:-1]) > 1.5 * LARGE["padded tile"], "five are slow"
    show(
        bars(
            LARGE,
            x="time [µs]",
            roles={
                label: "measured" if us < 1.1 * LARGE["padded tile"] else "waste"
                for label, us in LARGE.items()
            },
            form=",.0f",
            title="Seven transposes of one matrix: two are fast, five aren't",
            caption="Transposing a matrix of 8,192 × 8,192 floats on an {machine}. Hatched: the launches with a fault.",
        )
    )
publish(ask={"bytes_us": 8 * 8192**2 / PEAKS.memory_gb_per_s / 1e3})

# %% [markdown]
# ## Eight transposes, six of them with a fault
#
# The first kernel is the padded transpose from [the lesson on bank conflicts](../memory/banks.py). A block loads
# a tile of 32 × 32 elements into shared memory row by row and stores it column by column.


# %% tab="Pseudocode"
def transpose_tiled(A, B):
    R, C = A.shape
    for rows in tiles(R, 32):
        for columns in tiles(C, 32):
            for r, c in parallel(len(rows), len(columns)):
                B[columns[c], rows[r]] = A[rows[r], columns[c]]


# %% tab="CUDA C"
PADDED = Kernel(
    r"""
// B = A transposed. A: R x C; B: C x R; both row-major; R * C < 2^31.
// Block: 32 x 8 threads. Grid: ceil(C / 32) x ceil(R / 32) blocks.
// PAD: unused words at the end of each row of the tile.
extern "C" __global__
void transpose_tiled(const float* A, float* B, int R, int C) {
    __shared__ float box[32][32 + PAD];  // the tile
    int left = 32 * blockIdx.x, top = 32 * blockIdx.y, x = threadIdx.x;
    #pragma unroll
    for (int y = threadIdx.y; y < 32; y += 8)
        if (top + y < R && left + x < C)
            box[y][x] = A[(top + y) * C + left + x];  // a row of the tile
    __syncthreads();  // the tile is complete
    #pragma unroll
    for (int y = threadIdx.y; y < 32; y += 8)
        if (left + y < C && top + x < R)
            B[(left + y) * R + top + x] = box[x][y];  // a column of the tile
}
""",
    defines={"PAD": 1},
)

# %%
A = np.arange(48 * 64, dtype=np.float32).reshape(48, 64)
B = np.zeros((64, 48), np.float32)
PADDED(A, B, 48, 64, grid=(2, 2), block=(32, 8))  # R, C
print((B == A.T).all())

# %% [markdown]
# Each of the other seven launches changes one thing:
#
# - *register shuffles*: no shared memory. A warp loads 32 × 32 elements into registers and transposes them with
#   \warp shuffles.
# - *naive*: no tile, so the stores are uncoalesced.
# - *unpadded tile*: `PAD` = 0, so reading a column has \bank conflicts.
# - *24-register cap*: the shuffle kernel, compiled with `--maxrregcount` for at most 24 registers per
#   thread, so it spills.
# - *64-bit division*: the tile's side is an argument, so every index needs a 64-bit division.
# - *one block per SM*: the padded kernel with 200,000 bytes of unused shared memory per block, so an SM
#   holds one block instead of eight.
# - *small matrix*: the padded kernel on 256 × 256 elements.

# %% fold="The kernels without a tile, without padding, and in registers"
CONFLICTS = Kernel(PADDED.source, defines={"PAD": 0})

DIRECT = Kernel(r"""
// B = A transposed. Two-dimensional grid and block that cover C columns (x) and R rows (y).
extern "C" __global__
void transpose_naive(const float* A, float* B, int R, int C) {
    int c = blockIdx.x * blockDim.x + threadIdx.x;  // lanes along the rows of A
    int r = blockIdx.y * blockDim.y + threadIdx.y;
    if (r < R && c < C) B[c * R + r] = A[r * C + c];
}
""")


def transpose(A, B):
    R, C = A.shape
    for r, c in parallel(R, C):
        B[c, r] = A[r, c]


REGISTERS = Kernel(r"""
// B = A transposed, one 32 x 32 tile per warp. Block: 32 x W threads, W warps.
// Grid: ceil(C / (32 W)) x ceil(R / 32) blocks.
extern "C" __global__
void transpose_shuffles(const float* A, float* B, int R, int C) {
    int lane = threadIdx.x, top = 32 * blockIdx.y;
    int left = 32 * (blockDim.y * blockIdx.x + threadIdx.y);
    float v[32];  // a column of the tile, in registers
    #pragma unroll
    for (int y = 0; y < 32; ++y) {
        bool inside = top + y < R && left + lane < C;
        v[y] = inside ? A[(top + y) * C + left + lane] : 0.0f;
    }
    #pragma unroll
    for (int step = 16; step > 0; step /= 2) {  // lanes that differ in one bit exchange half of v
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


# %% fold="The kernel with 64-bit divisions; code of the launches and of the checks"
from tilewise import agree, case, ceil_div, normal, output


def transpose_divided(A, B, side):
    R, C = A.shape
    for rows in tiles(R, side):
        for columns in tiles(C, side):
            for i in parallel(side * side):
                y, x = i // side, i % side
                if y < len(rows) and x < len(columns):
                    B[columns[x], rows[y]] = A[rows[y], columns[x]]


DIVIDED = Kernel(r"""
// B = A transposed in tiles of side x side elements; side: 32.
// One-dimensional block of any size. Grid: ceil(C / 32) x ceil(R / 32) blocks.
extern "C" __global__
void transpose_divided(const float* A, float* B, int R, int C,
                  long long side) {
    __shared__ float box[32][33];
    int left = 32 * blockIdx.x, top = 32 * blockIdx.y;
    for (long long i = threadIdx.x; i < side * side; i += blockDim.x) {
        int y = i / side, x = i % side;  // New: side isn't known at compile time
        if (top + y < R && left + x < C)
            box[y][x] = A[(top + y) * C + left + x];
    }
    __syncthreads();  // the tile is complete
    for (long long i = threadIdx.x; i < side * side; i += blockDim.x) {
        int y = i / side, x = i % side;
        if (left + y < C && top + x < R)
            B[(left + y) * R + top + x] = box[x][y];
    }
}
""")

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


def launch_of(name, R, C):
    """A launch of that name for a matrix of R rows and C columns."""
    kernel, (wide, high), block, ballast = LAUNCHES[name]
    more = {"side": 32} if kernel is DIVIDED else {}
    return kernel.on(
        case(
            A=normal(R, C),
            B=output(C, R),
            R=R,
            C=C,
            **more,
            grid=(ceil_div(C, wide), ceil_div(R, high)),
            block=block,
            shared_bytes=ballast,
        )
    )


SHAPES = ((5, 3), (77, 50), (36, 68), (130, 64))
for pseudocode, names in (
    (transpose_tiled, ("padded", "no padding")),
    (transpose, ("no box", "in registers", "spilling")),
    (transpose_divided, ("dividing",)),
):
    for name in names:
        cases = [launch_of(name, *shape).case for shape in SHAPES]
        agree(pseudocode, LAUNCHES[name][0], cases)
assert list(LAUNCHES) == list(LABELS)

# %% [markdown]
# Before you profile, count: run the transpose with other paddings. Which of them have no bank conflicts?

# %% fold="Code of the run"
from tilewise import try_it


def transposing(R, C):
    grid = (ceil_div(C, 32), ceil_div(R, 32))
    return case(A=normal(R, C), B=output(C, R), R=R, C=C, grid=grid, block=(32, 8))


PADDINGS = {f"PAD = {words}": Kernel(PADDED.source, defines={"PAD": words}) for words in (0, 1, 2, 4, 8)}
try_it(transposing, PADDINGS, R=(1, 64, 128), C=(1, 64, 128))

# %% [markdown]
# ## Taking a profile
#
# Profile one launch, after a warm-up launch, with everything that Nsight Compute can collect:
#
# ```sh
# ncu --set full --kernel-name regex:transpose --launch-skip 1 --launch-count 1 \
#     -o report python transpose.py
# ```
#
# Open `report.ncu-rep` in the graphical interface, or print it with `ncu --import report.ncu-rep`. An SM has only a few
# hardware counters, so Nsight Compute runs the kernel many times, counts different events in each run, and restores
# memory in between. This is called *kernel replay*. By default, Nsight Compute also flushes the caches and locks the
# clocks. So trust a profile's counts, but not its times.[^clock]
#
# [^clock]: The profiles on this page were taken with `--clock-control none`, so their times are close to those of
#     a plain run.
#
# ??? definition "Profile | profiles"
#     A report on a run, built from what the hardware and the driver counted during it.
#
# ??? definition "Kernel replay"
#     Running a kernel several times from the same memory contents, to collect more counters than fit into one run.

# %% [markdown]
# Each section of the report shows a few *metrics*. Their names follow a pattern.
# `l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum` starts with the hardware unit, L1. Then comes what is counted:
# sectors of global stores. The suffix says how the units' values are combined: `sum`, `avg` or `max`. The units on
# this page are:
#
# | unit | what it is |
# |---|---|
# | `dram` | device memory |
# | `lts` | a slice of L2 |
# | `l1tex` | L1 and shared memory |
# | `sm`, `smsp` | an SM; one of its four partitions, with a warp scheduler |
# | `launch` | the launch: grid, block, registers |
#
# ??? definition "Metric | metrics"
#     One number of a profile. Its name says which unit it's about, what is counted and how the units' values
#     are combined.

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

# %% fold="Code that reads the record"
ROWS = [line.split(" | ") for line in PROFILED.splitlines() if " | " in line]
METRICS = {row[0]: dict(zip(ROWS[0][1:], map(float, row[1:]), strict=True)) for row in ROWS[1:]}
KNOWN = re.search(r"(\d+) metrics known", PROFILED)
STALL = re.compile(r"smsp__average_warps_issue_stalled_(\w+)_per_issue_active\.ratio")


def stalls_of(launch):
    """Of a warp's cycles, the fraction spent in each stall reason, `selected` included."""
    stalls = {
        found[1].replace("_", " "): values[launch]
        for name, values in METRICS.items()
        if (found := STALL.fullmatch(name)) and np.isfinite(values[launch])
    }
    whole = sum(stalls.values())
    return {reason: cycles / whole for reason, cycles in stalls.items()}


def profile_of(launch):
    """What this page reads of a profile, in the order in which it's read."""
    of = Numbers({name: values[launch] for name, values in METRICS.items()})

    def both(name):
        return of[name.format("ld")] + of[name.format("st")]

    def per_request(op):
        return of[sectors.format(op)] / of[sectors.format(op).replace("sectors", "requests")]

    sectors, local = (f"l1tex__t_sectors_pipe_lsu_mem_{where}_op_{{}}.sum" for where in ("global", "local"))
    wavefronts = of["l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum"]
    shared_loads = of["smsp__inst_executed_op_shared_ld_pred_on_any.sum"]
    bytes_moved = of["dram__bytes_read.sum"] + of["dram__bytes_write.sum"]
    reads, writes = (of[f"lts__t_sectors_op_{op}.sum"] for op in ("read", "write"))
    stalls = stalls_of(launch)
    longest = max(set(stalls) - {"selected"}, key=stalls.get, default="")
    peak = ".avg.pct_of_peak_sustained_"
    return {
        "waves": of["launch__waves_per_multiprocessor"],
        "sm": of[f"sm__throughput{peak}elapsed"] / 100,
        "l1": of[f"l1tex__throughput{peak}active"] / 100,
        "l2": of[f"lts__throughput{peak}elapsed"] / 100,
        "dram": of[f"dram__throughput{peak}elapsed"] / 100,
        "moved": bytes_moved / (2 * 4 * side_of(launch) ** 2),
        "load": per_request("ld"),
        "store": per_request("st"),
        "wavefronts": wavefronts / shared_loads if shared_loads else 0.0,
        "local": both(local) / both(sectors),
        "hits": of["lts__t_sector_hit_rate.pct"] / 100,
        "hits_model": writes / (reads + writes),
        "issue": of[f"smsp__issue_active{peak}active"] / 100,
        "alu": of[f"sm__inst_executed_pipe_alu{peak}active"] / 100,
        "xu": of[f"sm__inst_executed_pipe_xu{peak}active"] / 100,
        "occupancy": of[f"sm__warps_active{peak}active"] / 100,
        "waits": longest,
        "waiting": stalls.get(longest, np.nan),
        "instructions": 32 * of["smsp__inst_executed.sum"] / side_of(launch) ** 2,
        "per_transaction": of["smsp__inst_executed.sum"] / (bytes_moved / 32),
        "rate": of["smsp__inst_executed.sum"] / of["gpu__time_duration.sum"],  # per ns
        "timed": TIMED.get(launch, np.nan),
    }


SEEN = {name: profile_of(name) for name in LAUNCHES}
for name in ("padded", "no box", "no padding", "dividing"):
    if METRICS:  # the simulator counts the same sectors
        counts = launch_of(name, 128, 128).simulate().counts
        for key, counted in (("load", counts.global_load), ("store", counts.global_store)):
            check(
                counted.sectors / counted.requests,
                SEEN[name][key],
                rtol=0.001,
                name=f"{name}, sectors per {key}",
            )
publish(
    profiler={"known": int(KNOWN[1]) if KNOWN else np.nan},
    seen={name.replace(" ", "_"): values for name, values in SEEN.items()},
)

# %% [markdown]
# ## Speed of Light: which unit is busy?
#
# First check that the launch is large enough to fill the GPU. `launch__waves_per_multiprocessor` divides the number of
# blocks by how many fit on the GPU at once. For the small matrix, it's {{ seen.small.waves | .2f }}, so most SMs have
# nothing to do, and nothing else in that profile matters.
#
# Then read the first section, *GPU Speed Of Light Throughput*. It gives the utilisation of each unit as a percentage of
# its peak. Nsight Compute's rule of thumb: above 80%, the unit limits the kernel; if all units are below 60%, the
# kernel is latency-bound. Between the two, it may be either.
#
# ??? definition "Speed of Light"
#     Nsight Compute's name for utilisation: what a unit achieved, as a percentage of the most it can sustain.

# %% fold="Code of the figure"
UNITS = {"sm": "SM", "l1": "L1, shared", "l2": "L2", "dram": "DRAM"}


def by_launch(table, columns, caption, title, alt):
    """A heat map with a row per launch: percentages, or colours alone where there are many."""
    drawn = heat_map(
        {"% of peak" if len(columns) < 5 else "% of a warp's cycles": 100 * np.array(table)},
        x="",
        y="",
        ranges={"% of peak": (0, 100), "% of a warp's cycles": (0, 100)},
        form=".0f",
        title=title,
        caption=caption,
        alt=alt,
    )
    drawn.spec["data"][0] |= {
        "x": columns,
        "y": list(LABELS.values()),
        "hovertemplate": "%{y}, %{x}: %{z:.0f}%<extra></extra>",
    }
    drawn.spec["layout"]["yaxis"] |= {"automargin": True}
    return drawn


if METRICS:
    for name in LAUNCHES:
        busiest = max(SEEN[name][unit] for unit in UNITS)
        assert busiest < 0.4 if name in ("few warps", "small") else busiest > 0.6, name
    show(
        by_launch(
            [[SEEN[name][unit] for unit in UNITS] for name in LAUNCHES],
            list(UNITS.values()),
            "Speed of Light of eight transposes, as reported by Nsight Compute on an {machine}: utilisation of four units.",
            "Six kernels keep a unit busy; the last two don't",
            "A table of eight launches by four units: SM, L1 with shared memory, L2 and DRAM, in percent of peak.",
        )
    )

# %% [markdown]
# Most of the diagnosis is in this figure. Three kernels keep DRAM busy, though only the first two are fast. The naive
# kernel keeps L2 busy, the unpadded tile keeps shared memory busy, and the 64-bit division keeps the SM itself busy
# with instructions. Apart from the small matrix, only the launch with one block per SM keeps no unit busy: its warps
# must be waiting.

# %% [markdown]
# ## Instruction roofline: memory or instructions?
#
# Nsight Compute also draws a [roofline](../speed/roofline.py), but it counts floating-point operations, and a transpose
# has none. For such kernels, Nan Ding and Samuel Williams proposed an [instruction
# roofline](https://escholarship.org/uc/item/7q73n52w): warp instructions per second against warp instructions per
# memory transaction of 32 bytes. The sloping roof is the peak bandwidth. The horizontal roof is the issue rate: 528
# warp schedulers each issue at most one instruction per cycle, which makes {{ roof.issue_g | ,.0f }} billion per second
# in total.

# %% fold="Code of the figure"
ISSUE_G = 4 * GPU.sms * GPU.boost_mhz / 1e3
TRANSACTIONS_G = PEAKS.memory_gb_per_s / 32
publish(roof={"issue_g": ISSUE_G})
if METRICS:
    at = {name: (SEEN[name]["per_transaction"], SEEN[name]["rate"]) for name in LAUNCHES}
    for name, (x, y) in at.items():
        assert y < min(ISSUE_G, TRANSACTIONS_G * x), f"{name} is above the roofline"
    COLOURS = {
        "no box": "l2",
        "no padding": "shared",
        "spilling": "registers",
        "dividing": "write",
        "few warps": "lane",
        "small": "muted",
    }
    ends = [1.3, ISSUE_G / TRANSACTIONS_G, 40]
    show(
        line_chart(
            [
                Series(LABELS[name], [x], [y], role=COLOURS.get(name, "measured"), line=False)
                for name, (x, y) in at.items()
            ]
            + [
                Series(
                    "roofline",
                    ends,
                    [min(ISSUE_G, TRANSACTIONS_G * x) for x in ends],
                    role="predicted",
                    marks=False,
                )
            ],
            x="warp instructions per 32-byte DRAM transaction",
            y="10⁹ warp instructions per second",
            log_x=True,
            log_y=True,
            title="The fast kernels are close to the sloping roof; most slow ones are far below the roofline",
            caption="Instruction roofline of an {machine} with eight transposes, from Nsight Compute's counts. Dashed: peak bandwidth (data sheet) and the issue rate at the boost clock.",
        )
    )

# %% [markdown]
# The padded tile and the register shuffles are close to the sloping roof: they could be faster only if they moved fewer
# bytes. The 64-bit division is furthest to the right, with {{ seen.dividing.instructions | .0f }} instructions per
# element instead of {{ seen.padded.instructions | .0f }}. The unpadded tile and one block per SM are directly below the
# padded tile: they execute the same instructions and move the same bytes, but spend more time waiting.
#
# If the SM is busy, *Compute Workload Analysis* shows which of its pipes are. In the kernel with the 64-bit division,
# integer arithmetic is the cause: the ALU pipe is at {{ seen.dividing.alu | .0% }}, and XU, the pipe for special
# functions and conversions, is at {{ seen.dividing.xu | .0% }}.
#
# ??? definition "Issue slot | issue slots"
#     A cycle of a warp scheduler. The slot is used if the scheduler issues an instruction in that cycle.

# %% [markdown]
# ## Memory traffic: is it more than the task needs?
#
# Now compare the counts in *Memory Workload Analysis* with the traffic that the task requires. A transpose needs 8
# bytes of DRAM traffic per element. A warp's load or store of 32 floats needs four sectors, and a shared-memory load
# needs one wavefront. Local memory isn't needed at all.

# %% fold="Code of the numbers"
if METRICS:
    for name in ("in registers", "few warps"):
        for key in ("moved", "load", "store", "local", "hits"):
            assert abs(SEEN[name][key] - SEEN["padded"][key]) < 0.05, (name, key)
    for name in ("padded", "in registers", "no box", "no padding", "dividing", "few warps"):
        assert abs(SEEN[name]["hits"] - SEEN[name]["hits_model"]) < 0.015, "the rule that the text gives"
    assert max(SEEN, key=lambda name: SEEN[name]["hits"]) == "no box" and TIMED["no box"] == max(
        TIMED.values()
    )
WRITES = METRICS.get("lts__t_sectors_op_write.sum", Numbers())
publish(write_more={"l2": WRITES["no box"] / WRITES["padded"]})

# %% [markdown]
# Three faults show up:
#
# - The naive kernel's stores touch {{ seen.no_box.store | .0f }} sectors per request instead of
#   {{ seen.padded.store | .0f }}, so L2 receives {{ write_more.l2 | .0f }}× as many writes. L2 combines them, so little
#   of the extra traffic reaches DRAM.
# - The unpadded tile needs {{ seen.no_padding.wavefronts | .0f }} wavefronts per shared-memory load. The padded tile
#   needs {{ seen.padded.wavefronts | .0f }}.
# - The register cap makes threads spill to local memory, and DRAM moves {{ seen.spilling.moved | .1f }}× as many bytes
#   as the task needs.

# %% [markdown]
# **Why does the naive kernel, the slowest, have the best hit rate in L2?** Every read misses, because each element is
# read once, and every write hits, because L2 accepts it without fetching anything. With equal numbers of reads and
# writes, the hit rate is {{ seen.padded.hits_model | .0% }}. The naive kernel writes each sector eight times, so its
# hit rate is {{ seen.no_box.hits_model | .0% }}. Useless hits raise the hit rate, so always look at the traffic as
# well.

# %% [markdown]
# ## Source view: which line is at fault?
#
# Nsight Compute's *Source* page attributes counters and stall samples to lines of your code, if you compile with
# `-lineinfo`. Sort by the counter that turned out to be too large in the previous sections, such as *L1 Wavefronts
# Shared*. Without a GPU, the simulator counts the same traffic per line; these are its counts for the unpadded tile.

# %%
lines = launch_of("no padding", 128, 128).simulate().lines

# %% fold="Code of the table"
STORE, LOAD = (
    next(at for at, text in enumerate(CONFLICTS.source.splitlines(), 1) if words in text)
    for words in ("box[y][x] =", "= box[x][y]")
)
texts = ["", *(text.split("  //")[0].strip() for text in CONFLICTS.source.splitlines())]
rows = [
    [
        at,
        Cell(texts[at], None, None, "code"),
        of.global_load.sectors + of.global_store.sectors or None,
        of.shared_load.wavefronts + of.shared_store.wavefronts or None,
    ]
    for at, of in sorted(lines.items())
    if STORE - 2 <= at <= LOAD
]
show(
    Table(
        ["line", "source", "global sectors", "shared wavefronts"],
        rows,
        caption="The simulator's counts for each line of the unpadded kernel's loops, on 128 × 128 elements.",
    )
)
culprit, other = lines[LOAD], lines[STORE]
assert other.shared_store.wavefronts == other.shared_store.requests, "the text says one"
publish(line={"number": LOAD, "wavefronts": culprit.shared_load.wavefronts / culprit.shared_load.requests})

# %% [markdown]
# Line {{ line.number }} is the culprit: `box[x][y]` takes {{ line.wavefronts | .0f }} wavefronts per load, while the
# store to the tile takes one.

# %% [markdown]
# ## Stall reasons: read them last
#
# In each cycle, a resident warp either issues an instruction or has a *stall reason*. The section *Warp State
# Statistics* adds up the cycles by reason:
#
# - *long \scoreboard*: the warp waits for a value from global or local memory
# - *short \scoreboard*: the warp waits for a value from shared memory or a shuffle
# - *barrier*: the warp waits for other warps at `__syncthreads`
# - *MIO throttle*: the queue for shared-memory instructions and shuffles is full
# - *LG throttle*: the queue for global and local memory instructions is full
# - *drain*: the warp has finished, but is waiting for its last stores to be accepted
# - *not selected*: the warp is ready, but the scheduler picked another one
#
# ??? definition "Stall reason | stall reasons"
#     Why a resident warp doesn't issue its next instruction in a given cycle.

# %% fold="Code of the figure"
REASONS = ["long scoreboard", "short scoreboard", "barrier", "mio throttle", "lg throttle", "drain"]
if METRICS:
    every = {name: stalls_of(name) for name in LAUNCHES}
    of_warps = by_launch(
        [
            [of[reason] for reason in REASONS] + [1 - sum(of[reason] for reason in REASONS)]
            for of in every.values()
        ],
        ["long sb.", "short sb.", "barrier", "MIO", "LG", "drain", "other"],
        "Where the cycles of a resident warp go, by stall reason, in eight profiles from an {machine}. sb.: scoreboard; MIO and LG: throttle; other: not selected, issued and the rest.",
        "Long scoreboard is the top stall reason in fast and slow kernels alike",
        "A table of eight launches by seven stall reasons, in percent of a warp's cycles.",
    )
    show(of_warps)
    for name in ("padded", "in registers", "spilling", "few warps"):
        assert SEEN[name]["waits"] == "long scoreboard", "the title"
    assert SEEN["padded"]["waiting"] > SEEN["few warps"]["waiting"], "the text says although"
publish(
    stalled={
        "alike": sum(one["waits"] == "long scoreboard" for one in SEEN.values()),
        "slower": SEEN["few warps"]["timed"] / SEEN["padded"]["timed"],
    }
)

# %% [markdown]
# If you read it first, this figure is misleading. In {{ stalled.alike }} of eight profiles, the top reason is long
# \scoreboard: {{ seen.padded.waiting | .0% }} of the warps' cycles in the padded tile, and
# {{ seen.few_warps.waiting | .0% }} with one block per SM, although that launch is {{ stalled.slower | .1f }}× slower.
# But the warps of any memory-bound kernel wait for memory.
#
# Stall reasons are useful when no unit is busy, as with one block per SM. Its warps wait for loads, and its achieved
# occupancy is only {{ seen.few_warps.occupancy | .0% }}, so by
# [Little's law](../speed/occupancy.py#littles-law-bytes-in-flight) it needs more bytes in flight. Otherwise they
# confirm what you already know: the unpadded tile waits for the shared-memory queue (MIO throttle), and the naive
# kernel waits for its stores (drain).

# %% [markdown]
# ## The reading order as a program
#
# Here's the order as seven questions, each with the metrics it needs. Stop at the first "yes".

# %%
QUESTIONS = (
    ("too few blocks", ("waves",), lambda p: p["waves"] < 1),
    (
        "at peak bandwidth",
        ("dram", "moved"),
        lambda p: p["dram"] > 0.8 and p["moved"] < 1.1,
    ),
    ("uncoalesced", ("load", "store"), lambda p: max(p["load"], p["store"]) > 5),
    ("bank conflicts", ("wavefronts",), lambda p: p["wavefronts"] > 1.25),
    ("register spills", ("local",), lambda p: p["local"] > 0.1),
    ("too many instructions", ("issue",), lambda p: p["issue"] > 0.6),
    ("too few bytes in flight", ("occupancy", "waits"), lambda p: "long" in p["waits"]),
)


def diagnose(p):
    """What limits the kernel, and how many metrics were read until then."""
    read = 0
    for finding, names, holds in QUESTIONS:
        read += len(names)
        if holds(p):
            return finding, read
    return "none of these", read


# %% fold="Code of the table"
FOUND = {name: diagnose(SEEN[name]) for name in LAUNCHES} if METRICS else {}
if METRICS:
    show(
        Table(
            ["launch", "diagnosis", "metrics read"],
            [[LABELS[name], finding, read] for name, (finding, read) in FOUND.items()],
            caption="The program's diagnosis for each recorded profile.",
        )
    )
RIGHT = {
    "padded": "at peak bandwidth",
    "in registers": "at peak bandwidth",
    "no box": "uncoalesced",
    "no padding": "bank conflicts",
    "spilling": "register spills",
    "dividing": "too many instructions",
    "few warps": "too few bytes in flight",
    "small": "too few blocks",
}
assert (len(QUESTIONS), len(RIGHT)) == (7, 8), "the text says so"
publish(
    order={
        "most": max((read for _, read in FOUND.values()), default=np.nan),
        "right": sum(FOUND[name][0] == fault for name, fault in RIGHT.items()) if FOUND else np.nan,
    }
)

# %% [markdown]
# The program gets {{ order.right | .0f }} of eight launches right, but its margins are narrow: DRAM has to be above
# 80%, and the register shuffles reach {{ seen.in_registers.dram | .0% }}. A kernel with two faults shows only the
# first, so profile again after each fix. [From symptom to lesson](../../from-symptom-to-lesson.md) has a longer list.
#
# On an H200, whose memory is faster, the program gets only {{ order.right | .0f }} of eight right. The two fast kernels
# stay below the threshold, the register shuffles at {{ seen.in_registers.dram | .0% }}, and the program wrongly
# recommends more bytes in flight.

# %% [markdown]
# ## Before the profile, a timeline: is the kernel the problem at all?
#
# A kernel's profile doesn't show the time between kernels. A timeline from Nsight Systems or, in Python,
# `torch.profiler` does. If it has gaps, [the GPU waits for the
# host](../speed/launches.py#launch-overhead-when-the-device-waits-for-the-host): each kernel may be fine by itself, so
# no kernel profile shows the fault. Fuse the kernels or use a CUDA graph first, and profile kernels once the GPU is
# busy most of the time. Recording a timeline slows down the host and so lengthens the gaps.

# %% [markdown]
# ## The answer
#
# You need at most {{ order.most | .0f }} of the {{ profiler.known | , }} metrics. Read them in this order: \waves per
# SM, DRAM throughput and bytes, sectors per request for loads and stores, wavefronts, local sectors and used issue
# slots. Only if none of these shows the fault do you need the last two, occupancy and the top stall reason.

# %% [markdown]
# ## Takeaways
#
# - Record a timeline first, then profile one kernel. In its profile, start with Speed of Light: it names the busy unit.
# - A busy unit may be doing wasted work. Compare each count with what the task needs: DRAM bytes, sectors per
#   request, wavefronts, instructions per element.
# - Read stall reasons last, and only if no unit is busy. The warps of a kernel at peak bandwidth also wait for
#   memory.
#
# ## In your own kernel
#
# Run `ncu --set full` on one launch and look at `launch__waves_per_multiprocessor` first: if it's well below 1, launch
# more blocks. Then compare `dram__throughput`, `lts__throughput`, `l1tex__throughput` and `sm__throughput`. If all four
# are below 60%, go to the stall reasons; otherwise divide the busiest unit's traffic by what your task needs.

# %% fold="Code of the exercise, with three wrong answers that the tests reject"
from tilewise import exercise


def lower_bound_us(p, sms, mhz, gb_per_s):
    cycles = max(p["instructions"] / (4 * sms), p["wavefronts"] / sms)
    return max(cycles / mhz, p["bytes"] / gb_per_s / 1e3)


def one_after_the_other(p, sms, mhz, gb_per_s):
    return (p["instructions"] / (4 * sms) + p["wavefronts"] / sms) / mhz + p["bytes"] / gb_per_s / 1e3


def bound_tests(answer):
    for p, us in (
        ({"instructions": 4e6, "wavefronts": 1e5, "bytes": 1e5}, 100.0),
        ({"instructions": 4e5, "wavefronts": 1e6, "bytes": 1e5}, 100.0),
        ({"instructions": 4e5, "wavefronts": 1e5, "bytes": 3e8}, 150.0),
        ({"instructions": 2e6, "wavefronts": 4e5, "bytes": 8e7}, 50.0),
    ):
        given = answer(p, 10, 1000.0, 2000.0)
        assert abs(given - us) < 1e-6 * us, f"{p}: {given:.4g} µs instead of {us:.4g}"


exercise(
    "Is the fix worth the work?",
    """
    Before you fix a fault, estimate what limits the kernel next. Write `lower_bound_us(p, sms, mhz, gb_per_s)`,
    which returns a lower bound in microseconds for a launch whose profile `p` contains warp `instructions`,
    shared-memory `wavefronts` and DRAM `bytes`, each summed over the GPU. Each of `sms` SMs issues four
    instructions and serves one wavefront per cycle at a clock of `mhz`; DRAM moves `gb_per_s`. All three overlap.
    Call it with the counts that you expect after the fix to see how fast the kernel could become.
    """,
    answer=lower_bound_us,
    tests=bound_tests,
    wrong=[one_after_the_other, {"4 * sms": "sms"}, {"cycles / mhz, ": "0.0, "}],
    hint="Activities that overlap take as long as the longest of them.",
)
