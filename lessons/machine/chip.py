# ---
# title: Inside the chip
# needs: [kernels/first_kernel]
# summary: "A thread asks for one number and waits. How long, if the number is one of 4 KB, and how long if it is one of 1 GB?"
# description: "Where values live on a GPU, how large each place is, who can see it, and how long a load from it takes."
# date: 2026-11-21
# tags: [memory levels, SM, latency]
# ---

# %% [markdown]
# A thread reads a number, and the number says which one to read next. It can do nothing but wait
# for each. How long does it wait if all the numbers lie within 4 KB, and how long if they are
# spread over 1 GB? Between the two, the time will rise in steps, and each step is the edge of a
# place on the chip, or beside it. Which places are there?

# %% [markdown]
# ## What the chip says of itself
#
# An H100 is {{ chip.sms }} processors around a cache, with memory beside them. A processor is
# called SM, and a block of threads runs on one SM from its start to its end. The driver gives the
# sizes; this cell printed them on the machine where all times of this page were recorded.
#
# ??? definition "SM | SMs"
#     Streaming multiprocessor: the processor of which a GPU has many, with its own schedulers,
#     arithmetic units, registers and shared memory.
#
# ??? definition "On-chip"
#     On the piece of silicon that the SMs are on, as opposed to memory beside it.

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
# The figure lays these parts out.[^plan] The slider sets how many bytes a program keeps coming
# back to, its working set, and lights the nearest place that holds them all. How far away that
# place is, the second half of this page measures.
#
# [^plan]: A schematic drawing of an H100: the real chip has its SMs in eight clusters, and which of
#     them are switched off differs from chip to chip. Sizes are those that its driver gave; five
#     stacks of memory are what NVIDIA's white paper gives for this model.
#
# ??? definition "Working set"
#     The bytes that a piece of a program comes back to while it runs.

# %% fold="Code of the floor plan"
from tilewise import publish, show
from tilewise.figures import Part, Stop, floor_plan
from tilewise.measurements import recorded_device, text_record
from tilewise.models import device
from tilewise.models.occupancy import LIMITS

H100 = device("H100 SXM")
LIMIT = LIMITS[H100.compute_capability]
STORE_KB = 256  # L1 cache and shared memory together, by NVIDIA's white paper
DRAWN = "NVIDIA H100 80GB HBM3"


def properties(device=None):
    said = text_record("machine/chip", "device_properties", device=device)
    lines = said.text.splitlines()[1:]
    return {line.split(": ")[0]: int(line.split(": ")[1].split(" ")[0].replace(",", "")) for line in lines}


told = properties(DRAWN)
sizes = {
    "registers": 4 * told["regsPerMultiprocessor"],
    "store": STORE_KB * 1024,
    "l2": told["l2CacheSize"],
    "memory": told["totalGlobalMem"],
}
stacks = [(0, 0), (0, 4), (0, 8), (17, 0), (17, 4)]
parts = [
    *(
        Part(f"memory stack {n + 1}", "device memory", (x, y), (2, 3), 4, "16 GB")
        for n, (x, y) in enumerate(stacks)
    ),
    *(
        Part(f"SM {11 * column + row}", "SM", (2.5 + column + (0 if column < 6 else 2), row))
        for column in range(12)
        for row in range(11)
    ),
    *(Part(f"L2, half {half + 1}", "L2 cache", (8.5 + half, 0), (1, 11), 2, "25 MB") for half in range(2)),
]
stops = [
    Stop("4 KB", ("SM 0",), "4 KB fit the L1 cache of the SM on which the thread runs."),
    Stop(
        "1 MB",
        ("L2 cache",),
        "1 MB is too much for one SM's L1 cache; L2 holds it, and every SM can see it there.",
    ),
    Stop(
        "1 GB",
        ("device memory",),
        "1 GB lies in the stacks of device memory beside the chip; caches hold only a part.",
    ),
]
show(
    floor_plan(
        parts,
        stops,
        levels={"SM": "shared", "L2 cache": "l2", "device memory": "global"},
        step_name="working set",
        start=1,
        title="132 SMs around one cache, and memory beside the chip",
        caption="A schematic plan of an H100: 132 SMs, two halves of L2 between them, five stacks of device memory. Lit is the nearest place that holds the working set.",
    )
)
l2_mb = properties()["l2CacheSize"] / 2**20
publish(
    chip={
        "sms": told["multiProcessorCount"],
        "l2_mb": l2_mb,
        "memory_tb_per_s": recorded_device().memory_gb_per_s / 1000,
    },
    sm={"units": H100.fma_per_sm_clock["fp32"] // 4, "registers_kb": sizes["registers"] // 1024},
    count={"p100": 56, "times": device("B200").sms / 56, "full": 144},  # by NVIDIA's white papers
)

# %% [markdown]
# ## Inside an SM
#
# Each SM is four partitions and one store. A partition has a scheduler, which picks an
# instruction in every cycle, and {{ sm.units }} units that carry it out; NVIDIA calls a unit a
# CUDA core, though it is the arithmetic of a core and nothing else.[^sp] The registers are the
# surprise: {{ sm.registers_kb }} KB in an SM, as much as L1 cache and shared memory together,
# since all threads that are on the SM keep their values there at the same time. The figure goes
# through the parts.
#
# [^sp]: [Where the sources differ](../../conventions.md#the-sources): the lecture has such a
#     unit run many threads in parallel. It does one thread's operation at a time; what an SM has
#     many of is threads that are resident, which means that their registers are in it and they
#     can go on in any cycle.
#
# ??? question "Drawings show a GPU as rows of small squares. What are they?"
#     A row with its own box of control stands for an SM, a square for one of its units; a drawing has
#     eight rows or so because more would not be seen. The chip of this page has {{ chip.sms }} such
#     rows with four times {{ sm.units }} squares each. What the drawing leaves out is most of what
#     matters here: registers, the store that L1 and shared memory divide, L2, and the way to memory.
#
# ??? question "Where do drawings of a chip come from, if nobody can look inside?"
#     From three places. The makers' white papers draw what they document, and leave out the rest.
#     Photographs of the bare chip show areas: large regular ones are stores, repeated ones are SMs.
#     And programs can feel their way: a driver tells sizes, and [a chain of
#     loads](#following-a-chain) takes longer as soon as its numbers no longer fit a level. The plan
#     above is drawn from what the driver and the maker say; its proportions are not those of the
#     chip.
#
# ??? definition "Register | registers"
#     A place for one 32-bit value of one thread, inside the SM; the fastest store there is.
#
# ??? definition "Shared memory"
#     Memory inside an SM that a program addresses itself; each resident block has its own part,
#     which all threads of the block can read and write.
#
# ??? definition "L1 cache | L1"
#     The cache inside each SM: it keeps copies of what was asked for lately. It shares one store
#     with shared memory.
#
# ??? definition "L2 cache | L2"
#     The cache between all SMs and device memory.
#
# ??? definition "CUDA core | CUDA cores"
#     NVIDIA's name for one unit of an SM that does 32-bit arithmetic.
#
# ??? definition "Tensor core | tensor cores"
#     A unit of an SM that multiplies small matrices and adds the product to a third.


# %% fold="Code of the floor plan"
def partition(number, x, y):
    return [
        Part(f"scheduler {number}", "scheduler", (x, y), (11, 1), 1, "scheduler"),
        Part(f"registers {number}", "registers", (x, y + 1), (11, 2), 2, "16,384 registers"),
        *(
            Part(f"unit {32 * number + 4 * column + row}", "32-bit unit", (x + column, y + 3 + row))
            for column in range(8)
            for row in range(4)
        ),
        Part(f"tensor core {number}", "tensor core", (x + 8, y + 3), (3, 4), 1, "tensor core"),
    ]


inside = [
    *(one for number in range(4) for one in partition(number, 12 * (number % 2), 8 * (number // 2))),
    Part("store", "L1 and shared memory", (0, 16), (23, 2), 2, "256 KB: L1 cache and shared memory"),
]
show(
    floor_plan(
        inside,
        [
            Stop(
                "scheduler",
                ("scheduler",),
                "Four schedulers: each picks, in every cycle, one instruction for 32 threads.",
            ),
            Stop(
                "units", ("32-bit unit",), "Four times 32 units: each does one thread's multiply-add a cycle."
            ),
            Stop(
                "tensor core",
                ("tensor core",),
                "Four tensor cores: each multiplies small matrices, of 16-bit numbers for instance.",
            ),
            Stop(
                "registers",
                ("registers",),
                "Four times 16,384 registers, 256 KB: every resident thread keeps its values here.",
            ),
            Stop(
                "store",
                ("L1 and shared memory",),
                "One store of 256 KB: shared memory for the blocks, L1 cache with the rest.",
            ),
        ],
        levels={
            "scheduler": "muted",
            "registers": "registers",
            "32-bit unit": "block",
            "tensor core": "tile",
            "L1 and shared memory": "shared",
        },
        step_name="part",
        start=3,
        title="Four partitions and one store make an SM",
        caption="What one SM of an H100 has, schematically: counts are to scale, areas are not. Units for other types, for loads and for special functions are left out.",
    )
)

# %% [markdown]
# What a thread can name is not quite what there is. Global memory is the device memory, on this
# card stacks of HBM, as a kernel addresses it, through both caches. Local memory is a thread's own, but it lies in the
# same place as global memory, so it is as far away;[^local] the compiler uses it when registers
# run out. Constant memory is a small part that kernels only read.[^constant] Blocks meet in global
# memory, and on an H100 also in the shared memory of a cluster of blocks.[^cluster]
#
# [^local]: Where the sources differ: the lecture lists local memory between registers and shared
#     memory in speed. It is cached, but its home is the device memory.
#
# [^constant]: Where the sources differ: the lecture has code write constant memory. The host
#     writes it; a kernel cannot.
#
# [^cluster]: Where the sources differ: the lecture has blocks exchange values through global
#     memory only. That was so up to the A100.
#
# ??? definition "Global memory"
#     Device memory as kernels address it: every thread of every block can read and write it.
#
# ??? definition "Local memory"
#     Memory of one thread that lies in device memory, for what does not fit its registers.
#
# ??? definition "Constant memory"
#     A part of device memory of 64 KB that the host writes and kernels read.
#
# ??? definition "HBM"
#     High-\bandwidth memory: stacks of memory chips beside the GPU's, joined to it by thousands of
#     wires.

# %% fold="Code of the table"
from tilewise import Table

rows = [
    ["registers", f"{sizes['registers'] / 2**10:.0f} KB", "an SM", "one thread"],
    ["L1 cache", f"{sizes['store'] / 2**10:.0f} KB, with shared memory", "an SM", "all threads of the SM"],
    [
        "shared memory",
        f"{LIMIT.shared_bytes / 2**10:.0f} KB of these at most",
        "an SM",
        "the threads of one block, or of its cluster",
    ],
    ["L2 cache", f"{sizes['l2'] / 2**20:.0f} MB", "the chip", "every thread"],
    ["local memory", "what a thread needs", "the device", "one thread"],
    ["constant memory", "64 KB", "the device", "every thread reads it, the host writes it"],
    [
        "global memory",
        f"{sizes['memory'] / 10**9:.0f} GB",
        "the device",
        "every thread, and the host by copies",
    ],
]
columns = ["place", "size", "of", "seen by"]
caption = "Places for values on an H100, by size. Registers and the L1 store come once for each of 132 SMs."
show(Table(columns, rows, caption=caption))

# %% [markdown]
# ## How many SMs
#
# Where the sources differ: they count 108, 128 and 132, and all three are right somewhere. A full
# A100 chip has 128 SMs, of which {{ devices.a100_sxm_80_gb.sms }} are switched on in what is sold, so that a chip
# with a few faults can be sold, too; the lecture takes 128 in one place and 108 in another. An
# H100 has {{ devices.h100_sxm.sms }} of {{ count.full }} in the model used here and {{ devices.h100_pcie.sms }} in the
# one on a PCIe card.[^sources] No program should have the number written into it.[^more]
#
# [^sources]: Full chips: NVIDIA's white papers on the A100 and the H100. What is switched on:
#     the same, and the driver of the recording machine.
#
# [^more]: Where the sources differ: the lecture puts the rise of GPUs down to their SMs, of which one
#     has only to add more. A program gains from more of them unchanged, since no block asks for a
#     certain SM. But from the P100 of 2016 with {{ count.p100 }} to the B200 of 2024 with
#     {{ devices.b200.sms }} their number grew by a factor of {{ count.times | .1f }} only; [shorter numbers
#     and matrix units](../memory/precision.py#peak-throughput-by-format) have brought far
#     more.

# %% [markdown]
# ## What the area is spent on
#
# Why can one chip have {{ area.gpu_units | , }} units, those of the SMs that are switched off among
# them? No maker publishes how much of a chip is control and how much arithmetic, but the area of the chip for each unit can be worked out.[^dies]
# A chip of eight processor cores, made in a process of the same generation, has
# {{ area.cpu_units }} such units, {{ area.cpu_each | .2f }} mm² for each; the GPU has
# {{ area.gpu_each | .3f }} mm², {{ area.ratio | .0f }} times less. A core has more of all that
# makes it quick: circuits that guess branches and reorder instructions, and large caches.
#
# [^dies]: AMD's Zen 4 chiplet: 10.70 mm by 6.75 mm, eight cores, reported by ComputerBase in
#     2021; two 256-bit units for multiply-adds a core. NVIDIA's GH100: 814 mm², 144 SMs of 128
#     units, from its white paper on the H100. The chiplet leaves out the processor's memory
#     controllers, which the GPU's area includes.

# %% fold="Code of the numbers"
CPU_MM2, CPU_UNITS = 10.70 * 6.75, 8 * 2 * 8  # eight cores, two units of eight 32-bit lanes
GPU_MM2, GPU_UNITS = 814.0, 144 * 128
cpu_each, gpu_each = CPU_MM2 / CPU_UNITS, GPU_MM2 / GPU_UNITS
publish(
    area={
        "cpu_units": CPU_UNITS,
        "gpu_units": GPU_UNITS,
        "cpu_each": cpu_each,
        "gpu_each": gpu_each,
        "ratio": cpu_each / gpu_each,
    }
)

# %% [markdown]
# ??? question "How does a TPU differ, and why are two things called tensor core?"
#     Google's TPU is built from few, large cores where NVIDIA's GPU has many small ones. Such a core
#     is called a tensor core as well, which is where the sources go wrong: the lecture has it do
#     products of matrices and nothing else. That is true of the matrix unit in it, the MXU, and of
#     NVIDIA's tensor core; a TPU core also has a scalar unit and a vector unit.
#
#     | | SM of a GPU | core of a TPU |
#     | --- | --- | --- |
#     | control | four schedulers, many resident threads | one scalar unit |
#     | vectors | 128 units, threads in groups of 32 | a vector unit |
#     | matrices | four tensor cores | matrix units (MXU) of 128 × 128, later 256 × 256 |
#     | near memory | shared memory and L1, 256 KB | vector memory, tens of MB, and a small scalar one |
#     | waiting is hidden by | running other threads | copies that the compiler plans ahead |
#     | other chips are reached | over NVLink and switches: every GPU of a machine directly | over links to four or six neighbours in a mesh whose opposite edges are joined, and through them |
#
#     A sum over all chips suits the mesh, since each step of it needs a neighbour only; where any
#     chip may need any other, as with experts that each live on one chip, switches have shorter ways.
#     The meshes are those of Google's documentation of the TPU: two directions in v5e and v6e, three in
#     v4 and v5p.

# %% [markdown]
# ## Following a chain
#
# To see how far away each place is, a thread must wait for every load. So each number it reads is
# the place of the next one. The places are lines of 128 bytes, joined to a ring in an order that
# jumps about;[^ring] every word of a line holds the number of the next line.[^whole] A first
# kernel lays the ring with many threads; a second walks it with one. As many lines as fit into
# 4 KB, or into 1 GB: the walk is the same.
#
# [^ring]: The line after line x is a · x + b, modulo the number of lines. With a - 1 a multiple
#     of 420 and b prime to it, this visits every line once before it comes back to the first, for
#     any number of lines whose prime factors are 2, 3, 5 and 7.
#
# [^whole]: One word would do for the walk. But a line of which only a part has been written must
#     be completed from device memory when it is read, and the walk would time that.

# %% tab="Pseudocode"
from tilewise import parallel


def lay_ring(ring, factor, shift):
    lines, words = ring.shape
    for line, word in parallel(lines, words):
        ring[line, word] = (line * factor + shift) % lines


# %% tab="CUDA C"
from tilewise import Kernel

LAY_RING = Kernel(r"""
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
# The walk is three lines. Its loop has nothing to hide behind: the address of a load is what the
# load before it brings.


# %% tab="Pseudocode"
def chase(ring, loads, end):
    line = 0
    for _ in range(loads):
        line = ring[line, 0]
    end[0] = line


# %% tab="CUDA C"
CHASE = Kernel(r"""
extern "C" __global__
void chase(const unsigned* ring, int loads, unsigned* end) {
    unsigned line = 0;
    for (int load = 0; load < loads; ++load)
        line = ring[line * 32ull];  // the address of the next load
    end[0] = line;
}
""")

# %% [markdown]
# The tabs are compared for ring and walk alike; where a walk must end can also be worked out by
# whole-number arithmetic alone, and the measurement checks every walk against that. Where will the
# waiting rise? Where the ring outgrows a place: at 256 KB the L1 cache of the one SM at work, at
# {{ chip.l2_mb | .0f }} MB the L2 cache. And how high? The lecture says about 20 cycles{from: the lecture} inside the SM and
# 200 to 300 cycles{from: the lecture} beyond it.[^w9]
#
# [^w9]: Where the sources differ: the lecture takes L2 and device memory for equally far, and the
#     draft has memory at 200 cycles{from: the draft}. L2 is the step between the two, as the
#     measurement shows. The lecture also counts registers as part of L1; they are a store of
#     their own.

# %%
import numpy as np

from tilewise import agree, case, ceil_div, constant, output

FACTOR, SHIFT = 420 * 10_007 + 1, 2_100_011


def ring(lines):
    """A ring of 128-byte lines, to be laid."""
    numbers = {"lines": lines, "factor": FACTOR, "shift": SHIFT}
    made = output(lines, 32, dtype="uint32")
    return case(ring=made, **numbers, grid=ceil_div(lines, 8), block=256)


def steps(lines, loads):
    """One thread's walk; a ring that is not laid leads from line 0 to itself."""
    return case(
        ring=constant(lines, 32, value=0, dtype="uint32"),
        loads=loads,
        end=output(1, dtype="uint32"),
        grid=1,
        block=1,
    )


def walk(kilobytes, loads, chase=CHASE):
    """Two launches: many threads lay the ring, one walks it."""
    lines = kilobytes * 1024 // 128
    return [LAY_RING.on(ring(lines)), chase.on(steps(lines, loads))]


# %% fold="Code of the checks"
def where_it_ends(lines, factor, shift, loads):
    """The line where a walk from line 0 ends, by arithmetic on whole numbers."""
    line = 0
    for _ in range(int(loads) % int(lines)):
        line = (line * int(factor) + int(shift)) % int(lines)
    return {"end": np.array([line])}


agree(lay_ring, LAY_RING, [ring(1), ring(32), ring(300)], rtol=0.0)


def laid(lines):
    made = ring(lines).make()
    LAY_RING.on(ring(lines)).run(made)
    return made["ring"]


def half_way(lines):
    """A walk through half of a ring, in lines of which the first word alone counts."""
    made, end = laid(lines), output(1, dtype="uint32")
    made[:, 1:] = 0
    return case(ring=made, loads=lines // 2, end=end, grid=1, block=1)


agree(chase, CHASE, [half_way(30), half_way(77), half_way(210)], rtol=0.0)

# %% fold="Code of the measurement"
from tilewise import measure

SIZES_KB = [4, 32, 64, 128, 192, 224, 256, 512, 1024, 4096, 8192, 16_384, 24_576, 32_768, 40_960, 49_152,
            65_536, 98_304, 131_072, 262_144, 524_288, 1_048_576]  # fmt: skip


def loads_for(kilobytes):
    """So many loads that the first lap through a small ring, which nothing has cached yet, hardly counts."""
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
edges = [
    Mark("L1, 256 KB", x=256, role="shared"),
    Mark(f"L2, {l2_mb:.0f} MB", x=1024 * l2_mb, role="l2"),
]
show(
    line_chart(
        [Series("a load", list(wait_ns), [ns * clock_ghz for ns in wait_ns.values()])],
        x="ring [KB]",
        y="cycles",
        log_x=True,
        marks=edges,
        title="Waiting rises in steps, at the edges of L1 and L2",
        caption="Cycles from one load to the next when each needs the one before, by the size of the ring, on an {machine}; the vertical lines are the sizes of its caches.",
    )
)

# %% fold="The same walk in shared memory"
CHASE_SHARED = Kernel(
    r"""
extern "C" __global__
void chase_shared(unsigned factor, unsigned shift, int loads, unsigned* end) {
    __shared__ unsigned ring[LINES];
    for (unsigned line = 0; line < LINES; ++line) ring[line] = (line * factor + shift) % LINES;
    unsigned line = 0;
    for (int load = 0; load < loads; ++load) line = ring[line];
    end[0] = line;
}
""",
    defines={"LINES": 1024},
)


def walk_in_shared(loads):
    numbers = {"lines": 1024, "factor": 421, "shift": 11, "loads": loads}
    return CHASE_SHARED.on(case(**numbers, end=output(1, dtype="uint32"), grid=1, block=1))


in_shared = measure(
    "chase_in_shared",
    variants={"one thread, in shared memory": walk_in_shared},
    cases=[{"loads": 524_288}],
    count_case={"loads": 64},
    reference=where_it_ends,
    tolerance=0.0,
    counts=(),
)


# %% fold="Code of the numbers"
far = {
    "l1": wait_ns[32],
    "near": wait_ns[4],
    "l2_near": wait_ns[512],
    "l2": wait_ns[8192],
    "memory": wait_ns[1_048_576],
    "shared": 1000 * (medians_us(in_shared)["one thread, in shared memory"] - launch_us) / 524_288,
}
publish(
    ns=far,
    cycles={name: ns * clock_ghz for name, ns in far.items()},
    ratio={"memory": far["memory"] / far["near"]},
    flat={"last_mb": max((kb for kb, ns in wait_ns.items() if ns < 1.01 * far["l2"]), default=0) / 1024},
    clock_ghz=clock_ghz,
    alone_mb_per_s=4000 / far["memory"],
)

# %% [markdown]
# Three plateaus: {{ cycles.l1 | .0f }} cycles in L1, {{ cycles.l2_near | .0f }} and, as the ring
# grows, {{ cycles.l2 | .0f }} in L2, {{ cycles.memory | .0f }} in a ring of 1 GB, at the recorded
# {{ clock_ghz | .2f }} GHz. A walk in shared memory takes {{ cycles.shared | .0f }}, close to L1,
# being the same store. Each figure includes the few cycles in which the next address is
# made.[^tlb] So the lecture's smaller figure is too small, and its larger one is that of L2, with
# device memory more than as far again.

# %% [markdown]
# The steps are not quite where they were expected. The first begins before 256 KB, since the store
# is never all L1. The second begins beyond {{ flat.last_mb | .0f }} MB, at about half of L2's
# {{ chip.l2_mb | .0f }} MB, and goes on far beyond them. Do the SMs of one side
# find lines at once only in the half that is theirs? Nothing here tells, nor why L2 has two
# plateaus of its own.
#
# [^tlb]: And, in large rings, those in which an address is translated: programs use virtual
#     addresses, and the tables that say where each piece of memory really lies are cached, too.

# %% [markdown]
# ## A border that moves
#
# L1 and shared memory are one store of 256 KB, and the border between them can be moved. A kernel
# states what share it would like as shared memory, the driver takes the next size that it knows,
# and L1 gets the rest.[^l1shared] Predict: a ring of 96 KB should be walked at L1's pace until
# shared memory has taken more than 160 KB, one of 160 KB until it has taken 96.
#
# [^l1shared]: Where the sources differ: the lecture treats L1 and shared memory as the same
#     thing. The talk notes have it right: two uses of one array.

# %% fold="Code of the measurement"
CARVEOUTS = (0, 14, 28, 43, 57, 71, 85, 100)


def walk_beside(carveout):
    kernel = Kernel(CHASE.source, options=(f"--carveout={carveout}",))
    return lambda kilobytes, loads: walk(kilobytes, loads, kernel)


beside = measure(
    "chase_beside_shared",
    variants={f"{carveout} % shared": walk_beside(carveout) for carveout in CARVEOUTS},
    cases=[{"kilobytes": kilobytes, "loads": 131_072} for kilobytes in (32, 96, 160)],
    count_case={"kilobytes": 4, "loads": 64},
    reference=where_it_ends,
    tolerance=0.0,
    counts=(),
    fold="All 24 rows",
)

# %% fold="Code of the figure"
MOST_SHARED_KB = 228  # of the store of 256 KB, on an H100
ROLES = {32: "tile", 96: "block", 160: "warp"}


def by_size(made, value):
    """For each size, a value of the row of each share asked for."""
    us = medians_us(made, "kilobytes")
    return {kb: [value(kb, us[f"{carveout} % shared", kb]) for carveout in CARVEOUTS] for kb in ROLES}


ASKED_KB = [MOST_SHARED_KB * carveout / 100 for carveout in CARVEOUTS]
waits = by_size(beside, lambda kb, us: 1000 * (us - 2 * launch_us) / 131_072 * clock_ghz)
show(
    line_chart(
        [Series(f"ring of {kb} KB", ASKED_KB, waits[kb], role=role) for kb, role in ROLES.items()],
        x="shared memory asked for [KB]",
        y="cycles a load",
        marks=[Mark(f"{kb} KB fit up to here", x=STORE_KB - kb) for kb in (160, 96)],
        title="A ring that no longer fits beside shared memory is walked at L2's pace",
        caption="Cycles a load for rings of 32, 96 and 160 KB against the share of the SM's 256 KB that the kernel asks to be kept as shared memory, on an {machine}.",
    )
)
leaves = {}
for kb, name in ((160, "large"), (96, "middle")):
    first = next((at for at, cycles in enumerate(waits[kb]) if cycles > 1.1 * waits[kb][0]), 0)
    leaves[name] = {"last": ASKED_KB[first - 1], "first": ASKED_KB[first]}
publish(leaves=leaves | {"rest": STORE_KB - MOST_SHARED_KB})

# %% [markdown]
# The prediction holds to the next size that the driver knows: the ring of 160 KB leaves L1's pace
# between {{ leaves.large.last | .0f }} and {{ leaves.large.first | .0f }} KB of shared memory asked for,
# that of 96 KB between {{ leaves.middle.last | .0f }} and {{ leaves.middle.first | .0f }}. Even 32 KB
# are too much at the end, when all but {{ leaves.rest | .0f }} KB are shared memory.

# %% [markdown]
# The same border decides how many bytes a second an SM can read again and again. In the next
# kernel each block has values of its own and adds them up {{ reread.rounds }} times; there is one
# block for each SM, so that each value should come from L1 in every round but the first, if L1 is
# large enough.


# %% tab="Pseudocode"
def reread(values, rounds, sums):
    blocks, words, threads = values.shape
    for block, thread in parallel(blocks, threads):
        total = 0.0
        for _ in range(rounds):
            for word in range(words):
                total += values[block, word, thread]
        sums[block, thread] = total


# %% tab="CUDA C"
REREAD_SOURCE = r"""
extern "C" __global__
void reread(const float* values, int words, int rounds, float* sums) {
    const float* mine = values + (size_t)blockIdx.x * words * blockDim.x;
    float total = 0.0f;
    for (int turn = 0; turn < rounds; ++turn) {
        #pragma unroll 8
        for (int word = 0; word < words; ++word)
            total += mine[word * blockDim.x + threadIdx.x];
    }
    sums[blockIdx.x * blockDim.x + threadIdx.x] = total;
}
"""
REREAD = Kernel(REREAD_SOURCE)

# %%
from tilewise import uniform


def rereading(blocks, threads, words, rounds):
    values, sums = uniform(blocks, words, threads), output(blocks, threads)
    arrays = {"values": values, "sums": sums}
    return case(**arrays, words=words, rounds=rounds, grid=blocks, block=threads)


cases = [rereading(1, 33, 3, 2), rereading(1, 64, 7, 5), rereading(3, 32, 5, 2)]
agree(reread, REREAD, cases, rtol=1e-5)

# %% fold="Code of the measurement"
ROUNDS = 256


def reread_beside(carveout):
    kernel = Kernel(REREAD_SOURCE, options=(f"--carveout={carveout}",))
    return lambda kilobytes, blocks: kernel.on(rereading(blocks, 1024, kilobytes // 4, ROUNDS))


rates = measure(
    "reread_beside_shared",
    variants={f"{carveout} % shared": reread_beside(carveout) for carveout in CARVEOUTS},
    cases=[{"kilobytes": kilobytes, "blocks": 132} for kilobytes in (32, 96, 160)],
    count_case={"kilobytes": 8, "blocks": 2},
    reference=lambda values, rounds: {"sums": rounds * values.sum(axis=1)},
    tolerance=1e-4,
    counts=(),
    fold="All 24 rows",
)


# %% fold="Code of the numbers"
speeds = by_size(rates, lambda kb, us: kb * 1024 * 132 * ROUNDS / us / 1e6)
publish(
    reread={"rounds": ROUNDS},
    border={
        "cycles_all": waits[96][0],
        "cycles_none": waits[96][-1],
        "rate_all": speeds[96][0],
        "rate_none": speeds[96][-1],
    },
)

# %% [markdown]
# With the whole store for L1, 96 KB are walked at {{ border.cycles_all | .0f }} cycles a load and
# reread at {{ border.rate_all | .1f }} TB/s; with as much as possible kept as shared memory it is
# {{ border.cycles_none | .0f }} cycles and {{ border.rate_none | .1f }} TB/s. Why 32 KB come
# more slowly than 96 even out of L1, this page does not show. Without L1,
# {{ border.rate_none | .1f }} TB/s is more than the {{ chip.memory_tb_per_s | .2f }} TB/s that
# NVIDIA states for device memory. The levels differ less in rate than in waiting, because many
# loads can be on their way at once.

# %% [markdown]
# ## The answer
#
# In 4 KB a load is answered after {{ ns.near | .0f }} ns, in 1 GB after {{ ns.memory | .0f }} ns,
# {{ ratio.memory | .0f }} times as long. Between them lies L2 with {{ ns.l2 | .0f }} ns. The steps
# come where the sizes say: at the L1 cache of the SM, which gives up what is kept as shared
# memory, and around {{ chip.l2_mb | .0f }} MB.

# %% [markdown]
# ## Takeaways
#
# - An SM has registers, and one store that L1 and shared memory divide; all SMs share L2 and the
#   device memory. Farther away means larger and slower.
# - One load after another takes as long as the place is far where the number lies. A chain that
#   fits a nearer place is quicker without a change to the program.
# - Local memory is far away; "tensor core" means a unit of an SM at NVIDIA and a whole core at
#   Google.
# - Ask the driver for the number of SMs; do not write 108 or 132 into a program.
#
# What this part has shown, claim by claim: [recap](../../recap.md#machine).


# %% fold="The whole cell, with two wrong answers that the tests turn down"
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


def place_of(fact):
    return PLACES[fact - 1]


def local_is_near(fact):
    return "registers" if place_of(fact) == "local memory" else place_of(fact)


def one_store(fact):
    return "shared memory" if place_of(fact) == "L1 cache" else place_of(fact)


def place_tests(answer):
    assert answer(1) == "registers", "fact 1: nothing is nearer to a thread"
    assert answer(5) == "local memory", "fact 5: a thread's own memory lies beside the chip"
    assert answer(3) == "L1 cache", "fact 3: nobody addresses a cache"
    right = sum(answer(fact) == place for fact, place in enumerate(PLACES, 1))
    assert right == len(PLACES), f"{right} of {len(PLACES)} facts are placed right"


exercise(
    "Twelve facts, seven places",
    """
    Registers, shared memory, L1 cache, L2 cache, local memory, constant memory, global memory: which place is
    meant? Write `place_of(fact)` for the numbers 1 to 12.

    1. One thread's own, and no place is nearer to it.
    2. Addressed by the threads of one block, and gone when the block ends.
    3. Keeps copies for one SM without being told to.
    4. The last place on the chip that every SM can reach.
    5. One thread's own, and yet beside the chip.
    6. Written by the host, read by kernels.
    7. Where the host's copies end.
    8. Where values go that find no register.
    9. Grows when a kernel asks for less shared memory.
    10. 64 KB in all.
    11. Outlives a launch, and any kernel can write it.
    12. Shrinks the cache of its SM when it grows.
    """,
    answer=place_of,
    tests=place_tests,
    wrong=[local_is_near, one_store],
    hint="Ask of each: who can see it, and who decides what is in it?",
)

# %% [markdown]
# One thread waits {{ ns.memory | .0f }} ns for a number, so at 4 bytes a time it gets
# {{ alone_mb_per_s | .0f }} MB/s out of a memory that can send {{ chip.memory_tb_per_s | .2f }}
# TB/s. Between these two figures lies everything that the rest of the course is about. The next
# step is to ask how fast a kernel can be at all, before it is written: [the
# roofline](../speed/roofline.py).
