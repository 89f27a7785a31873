# ---
# title: Reading PTX and SASS
# needs: [kernels/first_kernel, speed/occupancy, toolbox/profiles]
# summary: "With more registers per thread, a kernel gets much faster, although fewer warps fit on an SM. At which instructions does a warp wait?"
# description: "From CUDA C to PTX to SASS without a GPU: instruction counts, scoreboards, loads in flight, predicates, wide loads and spills."
# date: 2026-11-21
# tags: [PTX, SASS, registers, compilers]
# ---

# %% [markdown]
# [The lesson on occupancy](../speed/occupancy.py#register-pressure-and-spills) left us with a puzzle. Its kernel
# computes dot products of 64 elements, and by default the compiler gives each thread {{ puzzle.free_64 }} registers.
# With up to 128 registers, it got {{ puzzle.gain_64 | .1f }}× faster, although fewer warps fit on an SM. Why?
#
# Here's how the loop over the keys starts in both builds. `LDG` loads an element, and `FFMA`
# is a multiply-add. How many instructions does a warp issue per key, and at which of them does it wait?

# %% fold="Imports, and the kernel of the lesson on occupancy"
import re
from collections import Counter

import numpy as np

from tilewise import Kernel, Table, agree, kernels, parallel, publish, show
from tilewise.figures import Series, line_chart
from tilewise.kernel.machine_code import available, machine_code, machine_codes, side_by_side
from tilewise.kernels.from_lesson import from_lesson
from tilewise.measurements import Archive, recorded, recorded_device
from tilewise.measurements.archive import lesson_root
from tilewise.models.occupancy import occupancy
from tilewise.outputs import Cell

(BEST_SCORE,) = from_lesson("speed/occupancy", "BEST_SCORE")


def held_to(d, cap):
    """The kernel for rows of d numbers, with at most so many registers per thread."""
    spilling = cap is not None and cap < d + 16
    source = BEST_SCORE.source + ("// spills: to show what a cap costs\n" if spilling else "")
    options = [f"--maxrregcount={cap}"] if cap else []
    return Kernel(source, defines={"D": d}, options=options)


# %% needs="nvrtc nvdisasm" fold="Code of the listings"
HERE = available() is None  # NVRTC and nvdisasm are installed
CAPS = (None, 128, 64, 48, 32)
WIDTHS = (64, 128)
KINDS = [(d, cap) for d in WIDTHS for cap in CAPS]
BUILDS = dict(zip(KINDS, machine_codes(held_to(*kind) for kind in KINDS))) if HERE else {}
if HERE:
    by_default, more_registers = BUILDS[64, None].loop(), BUILDS[64, 128].loop()
    show(
        side_by_side(
            by_default[:12],
            more_registers[:12],
            (f"{BUILDS[64, None].resources.registers} registers", "up to 128"),
        )
    )

# %% [markdown]
# ## From CUDA C to PTX to SASS
#
# A kernel passes through two compilers. The first translates CUDA C into *PTX*, an assembly language for a virtual
# GPU with as many registers as you like. The second, `ptxas`, translates PTX into *SASS*, the machine code of one GPU
# generation, with the hardware's registers. SASS is what runs.
#
# You don't need a GPU to read it. *NVRTC* packages both compilers as a library, and `nvdisasm` prints SASS as text.
#
# ??? definition "PTX"
#     NVIDIA's virtual assembly language, into which CUDA C is compiled first. It has unlimited typed registers and
#     is common to all NVIDIA GPUs; none of them executes it directly.
#
# ??? definition "SASS"
#     The machine code of one generation of NVIDIA GPUs in text form: the instructions that the hardware executes,
#     with its own registers.
#
# ??? definition "NVRTC"
#     NVIDIA's CUDA C compiler as a library, which a program calls at run time with a string of CUDA C.

# %% [markdown]
# Start with [vector addition](../kernels/first_kernel.py).


# %% tab="Pseudocode"
def vec_add(a, b, c):
    for i in parallel(len(a)):
        c[i] = a[i] + b[i]


# %% tab="CUDA C"
VEC_ADD = Kernel(r"""
// c = a + b, n elements each.
// One-dimensional grid of at least n threads, any block size.
extern "C" __global__
void vec_add(const float* a, const float* b, float* c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
""")


# %% fold="Code of the check"
(addition,) = from_lesson("kernels/first_kernel", "addition")
agree(vec_add, VEC_ADD, [addition(n) for n in (1, 255, 257, 20_000)])
if not HERE:
    print(available())

# %% [markdown]
# The simulator executes the \PTX. How many PTX instructions does a warp execute for each line?

# %% fold="Code of the run"
from tilewise import try_it

try_it(addition, VEC_ADD, n=(1, 255, 2000), block=[256, 32, 64, 128, 512, 1024])

# %% [markdown]
# `machine_code` compiles a kernel for an H100. `beside` prints PTX and SASS below the line of CUDA C that they
# come from.

# %% needs="nvrtc nvdisasm"
if HERE:
    added = machine_code(VEC_ADD)
    show(added.beside())

# %% [markdown]
# Read a SASS instruction from left to right: its name, the destination, then the sources.
#
# - `R9` is a register, one per lane. `UR4` is a *uniform* register, one per warp. `RZ` always reads as zero.
# - `c[0x0][0x210]` is an address in \constant memory, where the kernel's arguments are stored.
# - `P0` is a predicate, one bit per lane. `@P0 EXIT` terminates only the lanes whose `P0` is set.
# - `desc[UR4][R2.64]` is the address in the register pair `R2`, `R3`.
#
# The index takes one `IMAD`, an integer multiply-add. Each address takes one `IMAD.WIDE`, which multiplies `i` by 4
# bytes and adds a 64-bit pointer; PTX needs two instructions for that. The `if` has become a predicated `EXIT`, not a
# branch. Of the {{ first.instructions }} instructions, only one, the `FADD`, does the actual work.

# %% [markdown]
# ## Scoreboards: a warp waits at the first use
#
# A warp doesn't wait at a load. `LDG` sends its request, and the warp goes on to the next instruction. A
# *scoreboard* records that the destination register is pending. The warp stalls at the first instruction that reads the
# register. In the listing, both `LDG`s come before the `FADD` that needs them, so their latencies overlap.
#
# ??? definition "Scoreboard"
#     The marks by which a warp scheduler knows which registers still wait for a result. An instruction that uses such
#     a register isn't issued until the result has arrived.

# %% [markdown]
# ## Issue bound: from instructions per warp to time
#
# A warp scheduler issues at most one instruction per cycle. With $W$ warps of $I$ instructions each and $S$ schedulers,
# issuing takes at least $WI/S$ cycles. An H100 has {{ first.schedulers }} schedulers. For 2²⁶ elements, that's
# {{ first.warps_e6 | .1f }} million × {{ first.instructions }} / {{ first.schedulers }} cycles, or {{ first.issue_us | .0f }} µs.
#
# The addition takes {{ first.recorded_us | .0f }} µs, so issuing accounts for only {{ first.fraction | .0% }} of the
# time. For a compute-bound kernel, the same count [bounds the rate](../matmul/register_tiles.py#a-bound-from-the-sass).

# %% fold="Code of the numbers"
GPU = recorded_device()
SCHEDULERS = 4 * GPU.sms
N_ADDED = 67_108_864
first = len(added.instructions) if HERE else np.nan
added_us = recorded(f"vec_add.blocks_of_256.n_{N_ADDED}.median")
added_issue_us = N_ADDED // 32 * first / SCHEDULERS / recorded("vec_add.sm_clock_mhz")
publish(
    first={
        "instructions": first,
        "warps_e6": N_ADDED // 32 / 1e6,
        "schedulers": SCHEDULERS,
        "issue_us": added_issue_us,
        "recorded_us": added_us,
        "fraction": added_issue_us / added_us,
    }
)

# %% [markdown]
# ## A phrase book for SASS
#
# A handful of instruction names is enough to answer most questions. This kernel has a line for each.

# %%
PHRASES = Kernel(r"""
// Compiled only, to look at its machine code.
extern "C" __global__
void phrases(const float* x, float* y, float a) {
    __shared__ float s[256];
    int i = threadIdx.x;
    y[i] = a * x[i] + y[i];
    y[i + 256] = __expf(x[i + 256]);
    y[i + 512] = expf(x[i + 512]);
    y[i + 768] = a / x[i + 768];
    y[i + 1024] = x[i + 1024] > a ? x[i + 1024] : y[i];
    if (x[i + 1280] > a) y[i + 1280] = a;
    ((float4*)y)[i + 384] = ((const float4*)x)[i + 384];
    s[i] = x[i + 2560];
    __syncthreads();
    y[i + 2560] = s[255 - i];
    y[i + 2816] = __shfl_xor_sync(0xffffffffu, x[i + 2816], 1);
    __threadfence();
    atomicAdd(y + 3072, x[i + 3072]);
}
""")

# %% fold="Code of the table"
SOUGHT = [  # words of a line of the kernel, how to call it, the names to look for, and what they mean
    ("a * x[i]", "a * x + y", ("FFMA",), "fused multiply-add: one rounding"),
    ("__expf", "__expf(x)", ("FMUL", "MUFU"), "approximation by the special-function units"),
    (" expf", "expf(x)", ("FFMA", "MUFU"), "the same, with more digits"),
    ("a / x", "a / x", ("MUFU", "FFMA", "CALL"), "approximation, refinement, and a call for rare cases"),
    ("? x[i", "p ? x : y", ("FSETP", "FSEL"), "select: both values are computed, no branch"),
    ("if (x", "if (p) y = a", ("FSETP", "STG"), "predicated store: no branch"),
    ("float4", "float4 copy", ("LDG", "STG"), "16 bytes per lane: look for .128"),
    ("s[i] =", "smem store", ("STS",), "store to shared memory"),
    ("s[255", "smem load", ("LDS",), "load from shared memory"),
    ("__syncthreads", "__syncthreads", ("BAR",), "barrier of the block"),
    ("__shfl", "__shfl_xor_sync", ("SHFL",), "shuffle between lanes"),
    ("__threadfence", "__threadfence", ("MEMBAR",), "memory fence for the whole GPU"),
    ("atomicAdd", "atomicAdd", ("ATOMG", "REDG"), "atomic in global memory"),
]


def named(instructions, names):
    counted = Counter(
        " ".join(part for part in (one.predicate, one.name) if part)
        for one in instructions
        if one.name.split(".")[0] in names
    )
    text = ", ".join(f"{number} {name}" if number > 1 else name for name, number in counted.items())
    return Cell(text, None, None, "code")


if HERE:
    book, tensor = machine_codes([PHRASES, kernels.matmul_bf16])
    lines = PHRASES.source.splitlines()
    rows = []
    for words, called, names, meaning in SOUGHT:
        found = book.from_line(1 + next(at for at, line in enumerate(lines) if words in line))
        rows.append([Cell(called, None, None, "code"), named(found, names), meaning])
    multiplied = named([one for one in tensor.loop() if one.name.startswith("HGMMA")], ("HGMMA",))
    rows.append(["tensor cores", multiplied, "matrix multiply-add on Hopper; HMMA before"])
    show(
        Table(
            ["CUDA C", "look for", "meaning"],
            rows,
            caption="SASS for each line of the kernel above, compiled for an H100, without instructions for addresses. Last row: the inner loop of the course's BF16 kernel.",
        )
    )
publish(book={"repair": sum(one.line == 0 for one in book.instructions) if HERE else np.nan})

# %% [markdown]
# Two of the lines deserve a second look. Division isn't a single instruction: it starts with an approximation and, for
# very large and very small values, may call a subroutine of {{ book.repair }} instructions. And always read the suffix:
# `LDG.E` loads 4 bytes per lane; `LDG.E.128` loads 16.

# %% [markdown]
# ## Loads in flight, counted in the listing
#
# Now we can solve the puzzle. The two loops are almost equally long, {{ loops.free_64 }} and {{ loops.at_128 }}
# instructions per key: 64 loads, 64 multiply-adds and a few others. In the first one, {{ loops.ahead_free }} loads are
# issued, and then an `FFMA` reads the first of them. That's where the warp waits. With more registers,
# {{ loops.ahead_128 }} loads come before the first `FFMA`, because each has its own destination register.
#
# So count the loads in flight: the number issued between a load and its first use, averaged over all loads in the
# loop.


# %%
def loads_in_flight(instructions):
    """Loads issued from a load until its first use, itself included, on average."""
    loads, issued_at, ahead = 0, {}, []
    for one in instructions:
        registers = one.registers()
        if one.name.startswith(("LDG", "LDL")):
            loads += 1
            issued_at[registers[0]] = loads
        elif one.name.startswith("FFMA"):
            needed = [issued_at.pop(name) for name in registers[1:] if name in issued_at]
            ahead += [loads - load + 1 for load in needed]
    return np.mean(ahead)


# %% [markdown]
# Multiply by the number of resident warps, and you have an estimate of the loads in flight per SM. By Little's law,
# throughput is that number divided by the latency, so a build with few loads in flight should be slow. How fast can the
# kernel get at best? An SM has 32 load/store units, so it should execute at most one warp's load per cycle. At D = 64, the
# loads take at least {{ loops.least_64 | .0f }} µs.
#
# To test this, compile the kernel with five register caps, for D = 64 and D = 128, and compare with the recorded times.

# %% fold="Code of the figure"
QUERIES, KEYS = 2**18, 256
WARP_KEYS = QUERIES // 32 * KEYS  # how often all warps together go through the loop
CLOCK_MHZ = recorded("register_caps.sm_clock_mhz")


def recorded_us(d, cap):
    label = f"at_most_{cap}" if cap else "no_cap"
    return recorded(f"register_caps.{label}.d_{d}_n_{QUERIES}_m_{KEYS}.median")


def of(loop, *names):
    return sum(one.name.startswith(names) for one in loop)


READ = {}
for (d, cap), made in BUILDS.items():
    loop, registers = made.loop(), made.resources.registers
    warps = occupancy(128, registers).warps_per_sm
    memory = of(loop, "LDG", "LDL", "STL")
    cycles = recorded_us(d, cap) * CLOCK_MHZ * GPU.sms / WARP_KEYS
    READ[d, cap] = {
        "registers": registers,
        "warps": warps,
        "instructions": len(loop),
        "spilled": of(loop, "LDL", "STL"),
        "kilobytes": made.resources.stack_bytes * 32 * warps / 1000,
        "sm": loads_in_flight(loop) * warps,
        "cycles": cycles / memory,
        "issue": len(loop) / 4 / cycles,
    }

record = Archive(lesson_root()).record("register_caps")
if HERE and record:
    show(
        line_chart(
            [
                Series(
                    f"D = {d}",
                    [READ[d, cap]["sm"] for cap in CAPS],
                    [READ[d, cap]["cycles"] for cap in CAPS],
                    role=role,
                    line=False,
                )
                for d, role in ((64, "block"), (128, "registers"))
            ]
            + [Series("lower bound", [80, 860], [1, 1], role="predicted", marks=False)],
            x="loads in flight per SM",
            y="SM cycles per memory instruction",
            title="Below 300 loads in flight, each memory instruction costs more",
            caption=f"Recorded time on an {{machine}} per memory instruction of the loop, for {len(READ)} builds of one kernel, against the loads in flight per SM, counted in the SASS. Dashed: one memory instruction per cycle.",
        )
    )


def before_the_first(loop):
    return of(loop[: next(at for at, one in enumerate(loop) if one.name.startswith("FFMA"))], "LDG")


def read_of(d, cap, key):
    return READ.get((d, cap), {}).get(key, np.nan)


heavy = [key for key, one in READ.items() if one["sm"] > 300 and one["cycles"] > 2]
near = [one["cycles"] for key, one in READ.items() if one["sm"] > 300 and key not in heavy] or [np.nan]
far = [one["cycles"] for key, one in READ.items() if one["sm"] < 300] or [np.nan]
if HERE and np.isfinite([one["cycles"] for one in READ.values()]).all():
    assert max(near) < min(far), "the title says that with few loads in flight each costs more"
    assert heavy == [(128, 48), (128, 32)], "the text names them"
    assert min(READ[key]["cycles"] for key in heavy) > 1.5 * max(near), "the title: they stand out"
    most_spilled = sorted(READ, key=lambda key: READ[key]["spilled"])[-2:]
    assert set(most_spilled) == set(heavy), "the text says that they spill most"
if READ:
    assert read_of(128, 64, "warps") == 2 * read_of(128, 128, "warps"), "the text says twice as many"
L1_KB = 256 * 1.024  # of an H100's SM, shared memory included; NVIDIA's H100 white paper
if heavy:
    assert min(READ[key]["kilobytes"] for key in heavy) > 2 * L1_KB, "the text says twice"
    light = max(one["kilobytes"] for key, one in READ.items() if key not in heavy)
    assert light < 2 * L1_KB, "the text says: the others spill less"
publish(
    puzzle={
        "free_64": read_of(64, None, "registers"),
        "free_us": recorded_us(64, None),
        "gain_64": recorded_us(64, None) / recorded_us(64, 128),
    },
    loops={
        "free_64": read_of(64, None, "instructions"),
        "at_128": read_of(64, 128, "instructions"),
        "ahead_free": before_the_first(BUILDS[64, None].loop()) if HERE else np.nan,
        "ahead_128": before_the_first(BUILDS[64, 128].loop()) if HERE else np.nan,
        "least_64": WARP_KEYS * 64 / GPU.sms / CLOCK_MHZ,
        "recorded_64": recorded_us(64, 128),
        "near_least": min(near),
        "near_most": max(near),
        "far_least": min(far),
        "issue": read_of(64, 128, "issue"),
        "spills_48": read_of(128, 48, "spilled"),
        "of_48": read_of(128, 48, "instructions"),
    },
    sm={
        "free_64": read_of(64, None, "sm"),
        "at_128_64": read_of(64, 128, "sm"),
        "at_128_128": read_of(128, 128, "sm"),
        "at_64_128": read_of(128, 64, "sm"),
    },
)

# %% [markdown]
# That solves the puzzle. With up to 128 registers, an SM has {{ sm.at_128_64 | .0f }} loads in flight instead of
# {{ sm.free_64 | .0f }}, despite fewer warps. The same count also explains why, at D = 128, a cap of 64 beats one of
# 128 despite its spills: each thread has slightly more loads in flight, and twice as many warps fit, so the SM has
# {{ sm.at_64_128 | .0f }} loads in flight instead of {{ sm.at_128_128 | .0f }}.
#
# Except in the builds with the most spills, a memory instruction takes {{ loops.near_least | .1f }} to
# {{ loops.near_most | .1f }} cycles with more than 300 loads in flight, and more than {{ loops.far_least | .1f }} with
# fewer. None of the builds reaches the dashed lower bound. Issue slots aren't the reason, since only
# {{ loops.issue | .0% }} of them are used, and keeping more loads in flight doesn't help. So the limit must be in the
# memory path, which a listing doesn't show.

# %% [markdown]
# ## Spills: LDL and STL in the loop
#
# Two builds stand out in the figure: D = 128 with a cap of 48 or 32. In SASS, spills appear as `STL` and `LDL`: stores
# to and loads from local memory. With a cap of 48, they account for {{ loops.spills_48 }} of the {{ loops.of_48 }}
# instructions in the loop. In both builds, the resident warps together spill more than twice what L1 can hold.

# %% [markdown]
# ## The answer
#
# By default, a warp issues {{ loops.free_64 }} instructions per key. It waits at the first multiply-add that needs a
# loaded value. With {{ loops.ahead_free }} loads before it, the kernel takes {{ puzzle.free_us | us }}. The build with
# {{ loops.ahead_128 }} takes {{ loops.recorded_64 | us }}.

# %% [markdown]
# ## Takeaways
#
# - PTX is for a virtual GPU. Registers, spills and the final order of loads are visible only in SASS. With NVRTC and
#   `nvdisasm`, you can print the SASS without a GPU.
# - A warp waits at the first use of a loaded register. Count the loads issued before that use and multiply by the
#   number of resident warps.
# - A scheduler issues at most one instruction per cycle, so the instruction count gives a lower bound on the time. This
#   bound ignores any waiting.
#
# ## In your own kernel
#
# On Nsight Compute's *Source* page, choose SASS and look for the instructions with the most *long scoreboard* samples:
# each is the first use of a load. If only a few `LDG`s come before it, unroll the loop, allow more registers or use
# 16-byte loads. If you find `LDL` and `STL` in the loop, allow more registers or keep fewer values live.


# %% fold="Code of the exercise, with two wrong answers that the tests reject"
from tilewise import exercise


def inner_loop(lines):
    labels = {line.strip()[:-1]: at for at, line in enumerate(lines) if line.strip().endswith(":")}
    loops = []
    for at, line in enumerate(lines):
        jump = re.search(r"\bBRA\b.*?(\.L_\w+)", line)
        if jump and labels[jump[1]] <= at:
            loops.append((labels[jump[1]], at))
    inner = [
        (first, last)
        for first, last in loops
        if not any((a, b) != (first, last) and first <= a and b <= last for a, b in loops)
    ]
    first, last = max(inner, key=lambda ends: ends[1] - ends[0])
    body = [line.split() for line in lines[first : last + 1] if not line.strip().endswith(":")]
    names = [words[1] if words[0].startswith("@") else words[0] for words in body]
    return len(names), sum(name.split(".")[0] in ("LDL", "STL") for name in names)


NESTED = """
     LDC R1, c[0x0][0x28]
     STL [R1], R4
.L_x_0:
     LDL R5, [R1]
.L_x_1:
     LDG.E R2, desc[UR4][R6.64]
     LDL.LU R3, [R1+0x4]
@!P1 STL [R1+0x8], R2
@P2  BRA `(.L_x_2)
     FFMA.FTZ R0, R2, R3, R0
.L_x_2:
     ISETP.NE.AND P0, PT, R8, RZ, PT
@P0  BRA `(.L_x_1)
     IADD3 R9, R9, 0x1, RZ
@P3  BRA `(.L_x_0)
     STG.E desc[UR4][R6.64], R0
     EXIT
"""


def loop_tests(answer):
    lines = NESTED.strip("\n").splitlines()
    given = answer(lines)
    assert given == (7, 2), f"the listing NESTED: {given}, not (7, 2)"
    longer = [*lines[:6], *["     FADD.FTZ R0, R0, R2"] * 5, *lines[6:]]
    given = answer(longer)
    assert given == (12, 2), f"five more instructions in the inner loop: {given}, not (12, 2)"
    forward = ["@P0  BRA `(.L_x_9)", *["     NOP"] * 20, ".L_x_9:", *lines]
    given = answer(forward)
    assert given == (7, 2), f"a forward branch over twenty instructions before it: {given}, not (7, 2)"


exercise(
    "Find the loop",
    """
    Write `inner_loop(lines)` for the lines of a listing. Return two numbers for the longest loop that contains no
    other loop: how many instructions it has, including the branch, and how many of them load or store
    spilled values. A label has a line of its own and ends with a colon; an instruction may start with a predicate.
    `machine_code(kernel).text()` returns such a listing for any kernel, if NVRTC and nvdisasm are installed.
    """,
    answer=inner_loop,
    tests=loop_tests,
    wrong=[
        {
            "jump and labels[jump[1]] <= at": "jump",
            "(labels[jump[1]], at)": "tuple(sorted((labels[jump[1]], at)))",
        },
        {"max(inner, key=lambda ends: ends[1] - ends[0])": "0, len(lines) - 1"},
    ],
    hint="A branch to a label above itself ends a loop. A branch to a label below it doesn't.",
)

# %% [markdown]
# The next lesson compares [the SASS of CUDA C, Numba, Triton and PyTorch](front_ends.py).
