# ---
# title: "Inside the GPU: SMs, caches and memory"
# needs: [machine/throughput]
# summary: "How long does one load take when the data spans 4 KiB? And when it spans 1 GiB?"
# description: "What an SM is made of, which memories a thread can reach, and how many cycles a load takes from L1, from L2 and from device memory."
# date: 2026-11-21
# tags: [memory hierarchy, SM, latency]
# ---

# %% [markdown]
# One thread follows a chain of indices through an array. Each load returns the index of the next one, so the thread can
# do nothing but wait. The kernel and its instructions are the same for an array of 4 KiB and one of 1 GiB. Guess how
# long a load takes in each array, and how many times longer it takes in the larger one.
#
# That factor is why memory dominates this course. Most of the optimisations that follow replace loads from a distant
# memory with loads from a closer one. So you need to know which memories a GPU has, how large they are, and how far
# away they are.

# %% [markdown]
# ## Pointer chasing: a kernel that can only wait
#
# The array `ring` consists of 128-byte lines of 32 words each, and the first word of a line is the index of the next
# line. The address of each load is the result of the previous one, so the loop is bound by memory latency. This
# technique is called *pointer chasing*.[^credit]
#
# [^credit]: Larry McVoy and Carl Staelin's
#     [lmbench](https://www.usenix.org/publications/library/proceedings/sd96/mcvoy.html) measured CPU caches this way in
#     1996. [Wong et al.](https://doi.org/10.1109/ISPASS.2010.5452013) applied the technique to GPUs in 2010.


# %% tab="Pseudocode"
def chase(ring, loads, end):
    line = 0
    for _ in range(loads):
        line = ring[line, 0]
    end[0] = line


# %% tab="CUDA C"
from tilewise import Kernel

CHASE = Kernel(r"""
// Follows `loads` links from line 0 on and writes the index of the line it reaches to end[0].
// ring: lines of 32 words; word 0 of each is the index of the next line. Grid 1, block 1; any GPU.
extern "C" __global__
void chase(const unsigned* ring, int loads, unsigned* end) {
    unsigned line = 0;
    for (int load = 0; load < loads; ++load)
        line = ring[line * 32ull];  // the address of the next load
    end[0] = line;
}
""")

# %% [markdown]
# Try it on a ring of five lines, in the order 0, 3, 1, 4, 2 and back to 0. Where is the thread after four
# loads? Without a GPU, this launch runs on the course's simulator.

# %%
import numpy as np

ring = np.zeros((5, 32), np.uint32)
ring[:, 0] = [3, 4, 0, 1, 2]  # line 0 leads to 3, line 3 to 1, and so on
end = np.zeros(1, np.uint32)
CHASE(ring, 4, end, grid=1, block=1)
print("after 4 loads: line", end[0])

# %% fold="Code of the check"
from tilewise import check

check(end[0], 2, name="the line after four loads")

# %% [markdown]
# Follow more links. After how many loads is the thread back at line 0, and how many sectors has it loaded by then?

# %% fold="Code of the run"
from tilewise import case, output, try_it


def chasing(loads):
    return case(ring=ring, loads=loads, end=output(1, dtype="uint32"), grid=1, block=1)


try_it(chasing, CHASE, loads=(0, 4, 20))

# %% [markdown]
# ## SMs, L2 cache and device memory
#
# To predict these times, you need to know where the data can be. An H100 has {{ chip.sms }} processors, called *SMs*,
# around one L2 cache, with device memory in stacks next to the chip. A block of threads runs on one SM from start to
# finish, so its threads use that SM's L1 cache.
#
# The slider in the figure sets the size of the *working set*, the data that a program keeps coming back to. The figure
# highlights the closest memory that can hold all of it.[^plan]
#
# [^plan]: The drawing is schematic. On the real chip, the SMs form eight groups, the graphics processing clusters
#     (\GPCs).
#
# ??? definition "SM | SMs"
#     Streaming multiprocessor: one of the many processors of a GPU, with its own schedulers, arithmetic
#     units, registers and shared memory.
#
# ??? definition "Working set"
#     The data that a part of a program accesses repeatedly while it runs.

# %% fold="Code of the floor plan"
from tilewise import publish, show
from tilewise.figures import Part, Stop, floor_plan
from tilewise.measurements import recorded_device, text_record
from tilewise.models import device
from tilewise.models.occupancy import LIMITS

KIB, MIB, GIB = 2**10, 2**20, 2**30
H100 = device("H100 SXM")
LIMIT = LIMITS[H100.compute_capability]
L1_AND_SHARED = 256 * KIB  # per SM, by NVIDIA's white paper
STACK = 16 * GIB  # five stacks in this model, by NVIDIA's white paper
DRAWN = "NVIDIA H100 80GB HBM3"


def properties(device=None):
    record = text_record("machine/chip", "device_properties", device=device)
    lines = record.text.splitlines()[1:]
    return {line.split(": ")[0]: int(line.split(": ")[1].split(" ")[0].replace(",", "")) for line in lines}


queried = properties(DRAWN)
sizes = {
    "registers": 4 * queried["regsPerMultiprocessor"],
    "l2": queried["l2CacheSize"],
    "constant": queried["totalConstMem"],
    "memory": queried["totalGlobalMem"],
}
assert sizes["registers"] == L1_AND_SHARED, "the text: registers take as much as L1 and shared memory"
assert LIMIT.shared_bytes == queried["sharedMemPerMultiprocessor"]
assert 4.9 * STACK < sizes["memory"] < 5 * STACK, "five stacks of 16 GiB, less what the driver reserves"
stacks = [(0, 0), (0, 4), (0, 8), (17, 0), (17, 4)]
parts = [
    *(
        Part(f"memory stack {n + 1}", "device memory", (x, y), (2, 3), 4, f"{STACK // GIB} GiB")
        for n, (x, y) in enumerate(stacks)
    ),
    *(
        Part(f"SM {11 * column + row}", "SM", (2.5 + column + (0 if column < 6 else 2), row))
        for column in range(12)
        for row in range(11)
    ),
    *(
        Part(
            f"L2, half {half + 1}", "L2 cache", (8.5 + half, 0), (1, 11), 2, f"{sizes['l2'] // MIB // 2} MiB"
        )
        for half in range(2)
    ),
]
stops = [
    Stop("4 KiB", ("SM 0",), "4 KiB fits in the L1 cache of the SM that runs the thread."),
    Stop("1 MiB", ("L2 cache",), "1 MiB is too large for an L1 cache. It fits in L2, which all SMs share."),
    Stop(
        "1 GiB", ("device memory",), "1 GiB only fits in device memory; the caches hold a small part of it."
    ),
]
show(
    floor_plan(
        parts,
        stops,
        levels={"SM": "shared", "L2 cache": "l2", "device memory": "global"},
        step_name="working set",
        start=1,
        title="All SMs share one L2 cache and device memory",
        caption="A schematic plan of an H100: 132 SMs, the two halves of the L2 cache between them, and five stacks of device memory. The highlighted parts are the closest memory that holds the working set.",
    )
)
l2_mib = properties()["l2CacheSize"] / MIB
publish(
    chip={
        "sms": queried["multiProcessorCount"],
        "l2_mib": l2_mib,
        "memory_tb_per_s": recorded_device().memory_gb_per_s / 1000,
    },
    sm={
        "units": H100.fma_per_sm_clock["fp32"] // 4,
        "registers_kib": sizes["registers"] // KIB,
    },
)

# %% [markdown]
# ## Query the device
#
# The driver reports most of these sizes at run time. The output below is from the GPU that this page's times
# were measured on.

# %% fold="Code that asks the driver" needs="gpu" record="device_properties"
from tilewise import gpu_here

if gpu_here():
    import cupy

    given = cupy.cuda.runtime.getDeviceProperties(cupy.cuda.runtime.getDevice())
    print(given["name"].decode())
    for name, unit in {
        "multiProcessorCount": "",
        "warpSize": "threads",
        "maxThreadsPerMultiProcessor": "threads",
        "maxBlocksPerMultiProcessor": "blocks",
        "regsPerMultiprocessor": "registers of 4 bytes",
        "sharedMemPerMultiprocessor": "bytes",
        "sharedMemPerBlockOptin": "bytes",
        "totalConstMem": "bytes",
        "l2CacheSize": "bytes",
        "totalGlobalMem": "bytes",
        "memoryBusWidth": "bits",
        "clockRate": "kHz",
        "memoryClockRate": "kHz",
    }.items():
        if name in given:
            print(f"{name}: {given[name]:,} {unit}".rstrip())

# %% [markdown]
# Don't hard-code the number of SMs. A full H100 chip has 144, but only {{ devices.h100_sxm.sms }} are
# enabled in the SXM model used here and {{ devices.h100_pcie.sms }} in the PCIe card. A kernel runs unchanged on all of
# these GPUs, because blocks aren't tied to particular SMs.
#
# ??? question "How do we know what a chip looks like inside?"
#     There are three sources. Manufacturers document part of the design in white papers. Photographs of the bare
#     silicon show regular areas, which are memory, and repeated ones, which are SMs. And programs can probe the
#     hardware: the driver reports sizes, and the time of [dependent loads](#measuring-the-latency-of-each-level) shows
#     where each cache ends. The plan above uses what NVIDIA and the driver report; its proportions aren't those of the
#     chip.

# %% [markdown]
# ## Inside an SM
#
# An SM has four equal partitions, each with its own registers, plus one memory that serves as both L1 cache and shared
# memory. All of this is *on-chip*. The scheduler of a partition issues up to one instruction per cycle for one warp, a
# group of 32 threads. Arithmetic on 32-bit floats runs on the partition's {{ sm.units }} \FP32 units, which NVIDIA
# calls *CUDA cores*; its *tensor core* multiplies small matrices.[^core]
#
# The size of the *register file* may surprise you: each SM's is {{ sm.registers_kib }} KiB, as much as L1 and shared
# memory combined. It holds the registers of all the SM's threads at the same time. So when one warp waits for memory,
# the scheduler can issue an instruction from another in the very next cycle, with nothing to save or restore.
#
# [^core]: *A common misconception:* a CUDA core is a processor that runs many threads. It's only an arithmetic
#     unit, and it executes one thread's operation at a time. The counterpart of a CPU core is the SM.
#
# ??? definition "On-chip"
#     On the same piece of silicon as the SMs, unlike device memory.
#
# ??? definition "Register | registers"
#     Storage for one 32-bit value of one thread, inside the SM; the fastest memory there is.
#
# ??? definition "Shared memory"
#     Memory inside an SM that a kernel addresses explicitly. Each block has its own part, which all
#     threads of the block can read and write.
#
# ??? definition "L1 cache | L1"
#     The cache inside each SM. It keeps copies of recently used data, in the same physical memory as
#     shared memory.
#
# ??? definition "L2 cache | L2"
#     The cache between the SMs and device memory, shared by all SMs.
#
# ??? definition "CUDA core | CUDA cores"
#     NVIDIA's name for one \FP32 unit of an SM.
#
# ??? definition "Tensor core | tensor cores"
#     A unit of an SM that multiplies two small matrices and adds the result to a third.


# %% fold="Code of the floor plan"
def partition(number, x, y):
    return [
        Part(f"scheduler {number}", "scheduler", (x, y), (11, 1), 1, "scheduler"),
        Part(f"registers {number}", "registers", (x, y + 1), (11, 2), 2, "16,384 registers"),
        *(
            Part(f"unit {32 * number + 4 * column + row}", "CUDA core", (x + column, y + 3 + row))
            for column in range(8)
            for row in range(4)
        ),
        Part(f"tensor core {number}", "tensor core", (x + 8, y + 3), (3, 4), 1, "tensor core"),
    ]


inside = [
    *(one for number in range(4) for one in partition(number, 12 * (number % 2), 8 * (number // 2))),
    Part("L1 and shared", "L1 and shared memory", (0, 16), (23, 2), 2, "256 KiB: L1 cache and shared memory"),
]
show(
    floor_plan(
        inside,
        [
            Stop(
                "schedulers",
                ("scheduler",),
                "Four schedulers. Each issues up to one instruction per cycle, for 32 threads.",
            ),
            Stop(
                "CUDA cores",
                ("CUDA core",),
                "Four times 32 CUDA cores. Each executes one thread's multiply-add per cycle.",
            ),
            Stop(
                "tensor cores",
                ("tensor core",),
                "Four tensor cores. Each multiplies small matrices, for example of 16-bit values.",
            ),
            Stop(
                "registers",
                ("registers",),
                "Four times 16,384 registers, 256 KiB in total, for all threads on the SM.",
            ),
            Stop(
                "L1 and shared memory",
                ("L1 and shared memory",),
                "256 KiB that serve as shared memory for the blocks and as L1 cache.",
            ),
        ],
        levels={
            "scheduler": "muted",
            "registers": "registers",
            "CUDA core": "block",
            "tensor core": "tile",
            "L1 and shared memory": "shared",
        },
        step_name="part",
        start=3,
        title="An SM's registers hold as much as L1 and shared memory together",
        caption="One SM of an H100, schematically: the counts are right, the areas aren't to scale. Other units are left out.",
    )
)

# %% [markdown]
# ## Memory spaces: who can see what
#
# A kernel doesn't address caches. It addresses *memory spaces*:
#
# - *Global memory* is device memory: on an H100, stacks of HBM. Loads from it go through L1 and L2.
# - *Local memory* is private to a thread. The compiler uses it when it runs out of registers (it *\spills*
#   values), and for arrays that it can't keep in registers.[^local]
# - *Constant memory* is small, 64 KiB in total. The host writes it, and kernels can only read it.
# - *Shared memory* belongs to a block. On an H100, blocks can also form a cluster and access each other's
#   shared memory.
#
# [^local]: Two misconceptions are common: that local memory is close to the thread, and that every access to it is as
#     slow as an access to device memory. Local memory is part of device memory but cached, so a value that has been
#     \spilled and is still in L1 costs an L1 hit.
#
# ??? definition "Global memory"
#     Device memory as kernels address it: every thread of every block can read and write it.
#
# ??? definition "Local memory"
#     Memory private to one thread for values that don't fit in its registers. It's part of device memory
#     and is cached in L1 and L2.
#
# ??? definition "Constant memory"
#     A 64 KiB part of device memory that the host writes and kernels can only read; it has a cache of its own.
#
# ??? definition "HBM"
#     High-\bandwidth memory: stacks of memory chips next to the GPU chip, connected to it by thousands of
#     wires.

# %% fold="Code of the table"
from tilewise import Table

rows = [
    ["registers", f"{sizes['registers'] // KIB} KiB", "each SM", "one thread"],
    [
        "shared memory",
        f"up to {LIMIT.shared_bytes // KIB} KiB",
        "each SM",
        "one block, or a cluster of blocks",
    ],
    ["L1 cache", f"{L1_AND_SHARED // KIB} KiB less shared memory", "each SM", "the threads on that SM"],
    ["L2 cache", f"{sizes['l2'] // MIB} MiB", "the chip", "all threads"],
    [
        "global memory",
        f"{sizes['memory'] / GIB:.0f} GiB",
        "device memory",
        "all threads, and the host by copies",
    ],
    ["local memory", "as needed", "device memory", "one thread"],
    ["constant memory", f"{sizes['constant'] // KIB} KiB", "device memory", "all threads (read only)"],
]
columns = ["memory", "size", "located in", "visible to"]
caption = "The memories of an H100. Data in global, local and constant memory is also cached on the chip."
show(Table(columns, rows, caption=caption))

# %% [markdown]
# ## Measuring the latency of each level
#
# Now predict. Latency should rise where the ring outgrows a level: at 256 KiB, the size of one SM's L1 and shared
# memory, and at {{ chip.l2_mib | .0f }} MiB, the size of the L2 cache. A second kernel, `lay_ring`, writes rings of up
# to 1 GiB whose links jump around the array.[^ring] It fills all 32 words of a line, not just the first, with the index
# of the next one.[^whole]
#
# [^ring]: The line after line *x* is *ax* + *b*, modulo the number of lines, with *a* and *b* chosen so that the ring
#     visits every line once.
#
# [^whole]: If only part of a line has been written, the first read has to fetch the rest from device memory, and
#     we'd be timing that too.

# %% tab="Pseudocode"
from tilewise import parallel


def lay_ring(ring, factor, shift):
    lines, words = ring.shape
    for line, word in parallel(lines, words):
        ring[line, word] = (line * factor + shift) % lines


# %% tab="CUDA C"
LAY_RING = Kernel(r"""
// Fills `lines` lines of 32 words: every word of line x becomes (x * factor + shift) % lines.
// 1-D grid and block with at least 32 * lines threads in total; any GPU.
extern "C" __global__
void lay_ring(unsigned* ring, unsigned lines,
              unsigned long long factor, unsigned long long shift) {
    unsigned long long i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned long long line = i / 32;
    if (line >= lines) return;
    ring[i] = (unsigned)((line * factor + shift) % lines);
}
""")

# %% [markdown]
# Before we time anything, we test both kernels.

# %%
from tilewise import agree, case, ceil_div, constant, output

FACTOR, SHIFT = 420 * 10_007 + 1, 2_100_011


def ring(lines):
    """A ring of 128-byte lines for the kernel to fill."""
    numbers = {"lines": lines, "factor": FACTOR, "shift": SHIFT}
    words = output(lines, 32, dtype="uint32")
    return case(ring=words, **numbers, grid=ceil_div(lines, 8), block=256)


agree(lay_ring, LAY_RING, [ring(1), ring(32), ring(300)], rtol=0.0)


# %% fold="Code of the checks"
def steps(lines, loads):
    """One thread's walk; if the ring hasn't been filled, line 0 leads to itself."""
    return case(
        ring=constant(lines, 32, value=0, dtype="uint32"),
        loads=loads,
        end=output(1, dtype="uint32"),
        grid=1,
        block=1,
    )


def walk(kilobytes, loads, chase=CHASE):
    """Two launches: many threads fill the ring, one walks it."""
    lines = kilobytes * 1024 // 128
    return [LAY_RING.on(ring(lines)), chase.on(steps(lines, loads))]


def where_it_ends(lines, factor, shift, loads):
    """The line where a walk from line 0 ends, by integer arithmetic."""
    line = 0
    for _ in range(int(loads) % int(lines)):
        line = (line * int(factor) + int(shift)) % int(lines)
    return {"end": np.array([line])}


def laid(lines):
    made = ring(lines).make()
    LAY_RING.on(ring(lines)).run(made)
    return made["ring"]


def half_way(lines):
    """A walk through half of a ring, in lines of which only the first word counts."""
    made, end = laid(lines), output(1, dtype="uint32")
    made[:, 1:] = 0
    return case(ring=made, loads=lines // 2, end=end, grid=1, block=1)


agree(chase, CHASE, [half_way(30), half_way(77), half_way(210)])

# %% fold="Code of the measurement"
from tilewise import measure

SIZES_KB = [4, 32, 64, 128, 192, 224, 256, 512, 1024, 4096, 8192, 16_384, 24_576, 32_768, 40_960, 49_152,
            65_536, 98_304, 131_072, 262_144, 524_288, 1_048_576]  # fmt: skip


def loads_for(kilobytes):
    """Enough loads that the first lap through a small ring, which isn't cached yet, hardly counts."""
    return 2048 * kilobytes if 32 < kilobytes <= 256 else 65_536


latency = measure(
    "pointer_chase",
    variants={"one thread, one load after another": walk},
    cases=[{"kilobytes": kilobytes, "loads": loads_for(kilobytes)} for kilobytes in SIZES_KB],
    count_case={"kilobytes": 4, "loads": 64},
    reference=where_it_ends,
    tolerance=0.0,
    counts=(),
    fold="All 22 rows",
    note="A kilobyte is 1,024 bytes (1 KiB) in this table.",
)

# %% fold="Code of the figure"
from tilewise.figures import Mark, Series, line_chart
from tilewise.measurements import medians_us, recorded

clock_ghz = recorded("pointer_chase.sm_clock_mhz") / 1000
launch_us = recorded("pointer_chase.ceilings.launch_us")
wait_ns = {
    kilobytes: 1000 * (us - 2 * launch_us) / loads
    for (_, kilobytes, loads), us in medians_us(latency, "kilobytes", "loads").items()
}
show(
    line_chart(
        [Series("latency", list(wait_ns), [ns * clock_ghz for ns in wait_ns.values()])],
        x="size of the ring [KiB]",
        y="cycles per load",
        log_x=True,
        marks=[
            Mark("L1 ≤ 256 KiB", x=256, role="shared"),
            Mark(f"L2: {l2_mib:.0f} MiB", x=1024 * l2_mib, role="l2"),
        ],
        title="Latency rises in steps as the ring outgrows each cache",
        caption="Cycles per dependent load, by the size of the ring, on an {machine}. The vertical lines mark the sizes of its caches.",
    )
)

far = {
    "l1": wait_ns[32],
    "near": wait_ns[4],
    "l2_near": wait_ns[512],
    "l2": wait_ns[8192],
    "memory": wait_ns[1_048_576],
}

flat_mib = max((kib for kib, ns in wait_ns.items() if ns < 1.01 * far["l2"]), default=0) / 1024
publish(
    ns=far,
    cycles={name: ns * clock_ghz for name, ns in far.items()},
    ratio={"memory": far["memory"] / far["near"]},
    flat={"last_mib": flat_mib},
    clock_ghz=clock_ghz,
    alone_mb_per_s=4000 / far["memory"],
    in_flight_mb=far["memory"] * recorded_device().memory_gb_per_s / 1e6,
)
if np.isfinite(list(wait_ns.values())).all():
    assert wait_ns[192] < 1.05 * wait_ns[32] < wait_ns[224], "the text: L1 ends between 192 and 256 KiB"
    assert 0.9 < flat_mib / (l2_mib / 2) < 1.1, "the text: the second step starts at about half of L2"
    assert far["memory"] > 2 * far["l2"] > 8 * far["l1"], "the title says that latency rises in steps"

# %% [markdown]
# The figure shows three levels. A load takes {{ cycles.near | .0f }} cycles from L1 in a ring of 4 KiB. A load from L2
# takes {{ cycles.l2_near | .0f }} to {{ cycles.l2 | .0f }} cycles, depending on the size of the ring. In a ring of 1
# GiB, nearly all of which is in device memory, a load takes {{ cycles.memory | .0f }}.[^tlb]
#
# The first step comes a little before 256 KiB. Two reasons are likely: L1 doesn't get all of the 256 KiB, because the
# system reserves 1 KiB of shared memory for each block, and a cache can evict lines before it is full.
#
# The second step starts just above {{ flat.last_mib | .0f }} MiB, at about half of L2's {{ chip.l2_mib | .0f }} MiB.
# NVIDIA's [white paper on the
# A100](https://images.nvidia.com/aem-dam/en-zz/Solutions/data-center/nvidia-ampere-architecture-whitepaper.pdf)
# suggests why: L2 has two partitions, and each caches data for the SMs directly connected to it. Our single thread's
# data would then be cached in only one of the two partitions.
#
# [^tlb]: These latencies, recorded at a clock rate of {{ clock_ghz | .2f }} GHz, include a few cycles to compute the
#     address. In large rings, they also include translating virtual addresses to physical ones, since the caches for
#     page tables (TLBs) are small too.

# %% [markdown]
# ## The answer
#
# A load from a 4 KiB array takes {{ ns.near | .0f }} ns, and a load from a 1 GiB array takes {{ ns.memory | .0f }} ns,
# {{ ratio.memory | .0f }}× longer. An 8 MiB array fits in L2, so a load from it takes {{ ns.l2 | .0f }} ns.

# %% [markdown]
# ## Takeaways
#
# - Each SM has registers and a memory that is divided between L1 and shared memory. All SMs share L2 and device memory.
#   From L1 and shared memory, through L2, to device memory, each level is larger and slower than the one before.
# - A dependent load takes as long as the latency of the level that holds its data. Shrink the working set to fit a
#   closer level, and the same code runs faster.
# - Local memory is part of device memory, but \spills are cached: as long as they stay in L1, they cost L1 latency.
#
# For a summary of this part, see the [recap](../../recap.md#machine).
#
# ## In your own kernel
#
# In Nsight Compute, *Stall Long \Scoreboard*
# (`smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio`) shows how many cycles
# per issued instruction a warp waits, on average, for L1, L2 or device memory. If this stall dominates, check the
# hit rates of L1 (`l1tex__t_sector_hit_rate.pct`) and L2 (`lts__t_sector_hit_rate.pct`), then shrink the working
# set or give the SM more independent loads.


# %% fold="The whole cell, with two wrong answers that the tests reject"
from tilewise import exercise

PLACES = (
    "registers",
    "shared memory",
    "L1 cache",
    "L2 cache",
    "local memory",
    "constant memory",
    "global memory",
    "local memory",
    "L1 cache",
    "constant memory",
    "global memory",
    "shared memory",
)


def memory_of(fact):
    return PLACES[fact - 1]


def memory_tests(answer):
    assert answer(1) == "registers", "fact 1: nothing is closer to a thread"
    assert answer(5) == "local memory", "fact 5: private to a thread, but part of device memory"
    assert answer(3) == "L1 cache", "fact 3: a kernel doesn't address a cache"
    right = sum(answer(fact) == memory for fact, memory in enumerate(PLACES, 1))
    assert right == len(PLACES), f"{right} of {len(PLACES)} answers are right"


exercise(
    "Twelve facts, seven memories",
    """
    Each fact describes one of these: registers, shared memory, L1 cache, L2 cache, local memory, constant memory,
    global memory. Write `memory_of(fact)`, which returns its name for facts 1 to 12.

    1. Private to a thread, and the closest memory to it.
    2. Addressed by the threads of one block, and gone when the block ends.
    3. Keeps copies for one SM automatically.
    4. The last on-chip level, shared by all SMs.
    5. Private to a thread, but part of device memory.
    6. Written by the host, only read by kernels.
    7. The memory that the host copies data to.
    8. Where the compiler puts values when it runs out of registers.
    9. Grows when a kernel uses less shared memory.
    10. 64 KiB in total.
    11. Keeps its contents between launches, and any kernel can write it.
    12. When it grows, its SM's cache shrinks.
    """,
    answer=memory_of,
    tests=memory_tests,
    wrong=[
        lambda fact: memory_of(fact).replace("local memory", "registers"),
        lambda fact: memory_of(fact).replace("L1 cache", "shared memory"),
    ],
    hint="For each fact, ask who can see the memory, and who decides what is in it.",
)

# %% [markdown]
# Our thread waits {{ ns.memory | .0f }} ns for 4 bytes, so it reads at {{ alone_mb_per_s | .0f }} MB/s from a memory
# that can deliver {{ chip.memory_tb_per_s | .2f }} TB/s. To keep that memory busy, about {{ in_flight_mb | .1f }} MB of
# loads must be in flight at any time. How fast can a kernel run with that many loads in flight? That's the question
# [the roofline model](../speed/roofline.py) answers.
