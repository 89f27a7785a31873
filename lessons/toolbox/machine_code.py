# ---
# title: Reading machine code
# needs: [kernels/first_kernel, speed/occupancy]
# summary: "A line with one multiplication and one addition is written out 64 times. How many instructions does a warp issue for it, and for which of them does it wait?"
# description: "From CUDA C to PTX to machine code without a GPU: registers, spills, wide loads, predicates, and how far ahead of their use loads stand."
# date: 2026-11-21
# tags: [PTX, SASS, registers, compilers]
# ---

# %% [markdown]
# The lesson on [occupancy](../speed/occupancy.py#register-pressure-and-spills) left a puzzle. Its kernel
# multiplies and adds 64 pairs of numbers for each key. Allowed 128 registers a thread in place of the
# {{ puzzle.free_64 }} that the compiler took by itself, it became {{ puzzle.gain_64 | .2f }} times as
# fast, with fewer warps on an SM. The compiler's report could not say why. The instructions can, and
# one may read them without a GPU. How many does a warp issue for one key, and for which does it wait?

# %% [markdown]
# ## Three texts
#
# A kernel passes two compilers. The first turns CUDA C into PTX, an assembly language for a machine
# that does not exist: it has as many registers as one likes, all of them typed, and it is the same for
# all GPUs. The second makes of it the machine code of one generation of GPUs, SASS, whose registers are
# those of the hardware. NVIDIA's NVRTC does both in a library that needs neither GPU nor
# driver,[^explorer] and its `nvdisasm` writes machine code out in words.
#
# [^explorer]: The same can be had in a browser, for a line pasted from any of these pages: the
#     [road map](../../road-map.md#to-look-up) leads to Compiler Explorer, and to NVIDIA's list of
#     the names of its instructions. With NVIDIA's compiler `nvcc -Xptxas -v` prints registers and spills.
#
# ??? definition "PTX"
#     The assembly language into which CUDA C is compiled first. It has unlimited registers and is
#     common to all of NVIDIA's GPUs; none of them executes it as it stands.
#
# ??? definition "SASS"
#     The machine code of one generation of NVIDIA's GPUs, written out in words: the instructions that
#     are executed, with the registers of the hardware.
#
# ??? definition "NVRTC"
#     NVIDIA's compiler as a library, which a program calls at run time with a string of CUDA C. CuPy
#     compiles with it, and so do this course's tests.

# %% [markdown]
# Begin with the kernel that you know best, [the first](../kernels/first_kernel.py).


# %% tab="Pseudocode"
from tilewise import parallel


def vec_add(a, b, c):
    for i in parallel(len(a)):
        c[i] = a[i] + b[i]


# %% tab="CUDA C"
from tilewise import Kernel

VEC_ADD = Kernel(r"""
extern "C" __global__
void vec_add(const float* a, const float* b, float* c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
""")

# %% fold="Code of the check"
import numpy as np

from tilewise import Table, agree, case, ceil_div, normal, output, publish, show
from tilewise.kernel.machine_code import available, machine_code, machine_codes, side_by_side


def addition(n, block=256):
    """One addition of n elements: inputs, an output to be written, and the launch."""
    arrays = {"a": normal(n), "b": normal(n), "c": output(n)}
    return case(**arrays, n=n, grid=ceil_div(n, block), block=block)


agree(vec_add, VEC_ADD, [addition(n) for n in (1, 255, 257, 20_000)], rtol=0.0)
HERE = available() is None  # NVRTC and nvdisasm are installed
if not HERE:
    print(available())

# %% [markdown]
# `machine_code` compiles a kernel for an H100, as CuPy would, and asks for line numbers, so that each
# instruction can stand below the line it comes from.

# %% needs="nvrtc nvdisasm"
if HERE:
    added = machine_code(VEC_ADD)
    show(added.beside())

# %% [markdown]
# On the right the name of an instruction comes first, then where its result goes, then what it reads.
# `R9` is a register of each lane, `UR4` one that the warp has in common, `RZ` always zero. `P0` is a
# predicate, one bit a lane, and `PT` is always true. `c[0x0][0x210]` is a place in constant memory:
# the kernel's arguments lie there.

# %% [markdown]
# Now the lines. The index takes one multiply-add of integers, `IMAD`. An address takes one more, since
# `IMAD.WIDE` multiplies `i` by the four bytes of a float and adds a 64-bit pointer, for which PTX needs
# two instructions. The `if` has become no branch: PTX jumps over the rest, the machine code ends the
# lanes for which `P0` is set, by `@P0 EXIT`. Of {{ first.instructions }} instructions one, `FADD`, does
# what the kernel is for.

# %% [markdown]
# And where would a warp wait? Not at a load. `LDG` asks for a number and the warp goes on; a scoreboard
# notes which register is yet to come, and the warp stops at the first instruction that reads it. Here
# both loads are issued before `FADD` needs them, so their latencies overlap. The order on the page is
# the order of issue.
#
# ??? definition "Scoreboard"
#     The marks by which a warp scheduler knows which registers still wait for a result. An instruction
#     that reads or writes one of them is not issued before it has come.

# %% [markdown]
# ## Predict from the count
#
# A scheduler issues one instruction in a cycle, so instructions are time. For {{ first.n | , }} elements
# there are {{ first.warps | , }} warps with {{ first.instructions }} instructions each. Shared out over
# the {{ first.schedulers }} schedulers of an H100, at its recorded clock, that is
# {{ first.issue_us | .0f }} µs. The bytes need {{ first.bytes_us | .0f }} µs at the peak bandwidth (data sheet), and
# {{ first.recorded_us | .0f }} µs were recorded. {{ first.share | .0%}} of the time would do to issue
# everything: the {{ first.others }} instructions around one addition are free here.

# %% fold="Code of the numbers"
from tilewise.measurements import recorded, recorded_device

GPU = recorded_device()
SCHEDULERS = 4 * GPU.sms
N_ADDED = 67_108_864
first = len(added.instructions) if HERE else np.nan
added_us = recorded(f"vec_add.blocks_of_256.n_{N_ADDED}.median")
added_issue_us = N_ADDED // 32 * first / SCHEDULERS / recorded("vec_add.sm_clock_mhz")
publish(
    first={
        "instructions": first,
        "others": first - 1,
        "n": N_ADDED,
        "warps": N_ADDED // 32,
        "schedulers": SCHEDULERS,
        "issue_us": added_issue_us,
        "bytes_us": 12 * N_ADDED / GPU.memory_gb_per_s / 1e3,
        "recorded_us": added_us,
        "share": added_issue_us / added_us,
    }
)

# %% [markdown]
# ## A phrase book
#
# Most of what one looks for is a handful of names. This kernel has a line for each; it is compiled and
# never run.

# %%
PHRASES = Kernel(r"""
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
from collections import Counter

from tilewise import kernels
from tilewise.outputs import Cell

SOUGHT = [  # a line of the kernel, the names to look for in it, and what they say
    ("a * x[i]", ("FFMA",), "one rounding, one instruction"),
    ("__expf", ("FMUL", "MUFU"), "an approximation by the special units"),
    (" expf", ("FFMA", "MUFU"), "the same units, and more digits around them"),
    ("a / x", ("MUFU", "FFMA", "CALL"), "an approximation, steps that repair it, a call for rare cases"),
    ("? x[i", ("FSETP", "FSEL"), "both values are there, one is taken: no branch"),
    ("if (x", ("FSETP", "STG"), "a store under a predicate: no branch"),
    ("float4", ("LDG", "STG"), "16 bytes a lane: look for the 128"),
    ("s[i] =", ("STS",), "a store to shared memory"),
    ("__syncthreads", ("BAR",), "a barrier of the block"),
    ("s[255", ("LDS",), "a load from shared memory"),
    ("__shfl", ("SHFL",), "from lane to lane"),
    ("__threadfence", ("MEMBAR",), "a memory fence for the whole GPU"),
    ("atomicAdd", ("ATOMG", "REDG"), "an atomic sum in global memory"),
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
    book, apart, units = machine_codes(
        [PHRASES, Kernel(PHRASES.source, options=["-fmad=false"]), kernels.matmul_bf16]
    )
    lines = PHRASES.source.splitlines()
    rows = []
    for words, names, says in SOUGHT:
        number = 1 + next(at for at, line in enumerate(lines) if words in line)
        found = book.from_line(number)
        rows.append([number, named(found, names), len(found), says])
        if words == "a * x[i]":
            split = apart.from_line(number)
            twice = "two roundings, with the option -fmad=false"
            rows.append(["5, unfused", named(split, ("FMUL", "FADD", "FFMA")), len(split), twice])
    multiplied = named([one for one in units.loop() if one.name.startswith("HGMMA")], ("HGMMA",))
    rows.append(["the Hopper machine", multiplied, "", "a product of matrices by a warpgroup"])
    show(
        Table(
            ["line", "look for", "instructions", "what it says"],
            rows,
            caption="What became of each line of the kernel above, compiled for an H100: names to look for, and how many instructions come from the line, those for addresses that it is the first to need among them. Last, the loop of the BF16 product of the lesson on Hopper.",
        )
    )
publish(book={"repair": sum(one.line == 0 for one in book.instructions) if HERE else np.nan})

# %% [markdown]
# Two of them deserve a second look. A division is no instruction: beside its own line it brings a
# subroutine of {{ book.repair }} instructions for very large and very small numbers. And a name without
# its modifiers says little: `LDG.E` moves 4 bytes a lane and `LDG.E.128` moves 16.

# %% [markdown]
# ## Where the loads stand
#
# Now the puzzle. This is the kernel: each thread keeps a query of `D` numbers in registers, goes through
# the keys, and keeps the largest sum of products.

# %% fold="The kernel of the lesson on occupancy"
BEST_SCORE = r"""
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
"""
CAPS = (None, 128, 64, 48, 32)
WIDTHS = (64, 128)


def held_to(d, cap):
    """The kernel for rows of d numbers, with at most so many registers a thread."""
    spilling = cap is not None and cap < d + 16
    source = BEST_SCORE + ("// spills: to show what a cap costs\n" if spilling else "")
    options = [f"--maxrregcount={cap}"] if cap else []
    return Kernel(source, defines={"D": d}, options=options)


KINDS = [(d, cap) for d in WIDTHS for cap in CAPS]
BUILDS = dict(zip(KINDS, machine_codes(held_to(*kind) for kind in KINDS))) if HERE else {}

# %% [markdown]
# The inner loop ends with a jump back, `BRA`, to a label above it. `loop` finds it. This is how
# it begins at D = 64, as the compiler makes it by itself and with 128 registers allowed.

# %% needs="nvrtc nvdisasm"
if HERE:
    by_itself, allowed_more = BUILDS[64, None].loop(), BUILDS[64, 128].loop()
    show(side_by_side(by_itself[:16], allowed_more[:16], ("no cap", "at most 128")))

# %% [markdown]
# The loop over `c` is gone: it was unrolled, and every load has its distance from the row's beginning
# written into it. Without a cap {{ loops.ahead_free }} loads are issued, then comes a multiply-add that
# reads the first of them, and there the warp waits. With more registers {{ loops.ahead_128 }} loads are
# issued before the first multiply-add: each needs a register of its own to arrive in. Both loops
# have about as many instructions, {{ loops.free_64 }} and {{ loops.at_128 }}.

# %% [markdown]
# So count two things. The instructions of the loop, as before. And for every multiply-add, how many
# loads of its thread are at most under way when it needs its number: those that were issued from that
# load on.


# %%
def loads_under_way(instructions):
    """Loads issued from a load on until it is needed, on average."""
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
# Times the resident warps, that is how many loads an SM has under way. What can be predicted from it? If
# an SM issues one memory instruction in a cycle, since its maker draws it with 32 units for them,
# the loads at D = 64 take {{ loops.least_64 | .0f }} µs at least. Where few are under way it
# should take longer, by Little's law; where many are, that much. {{ loops.same }} of the
# {{ loops.builds }} builds below take as many registers and bytes of local memory as the recorded ones,
# though a newer compiler made them.

# %% fold="Code of the figure"
from tilewise.figures import Series, line_chart
from tilewise.measurements import Archive
from tilewise.measurements.archive import lesson_root
from tilewise.models.occupancy import occupancy

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
        "local_bytes": made.resources.stack_bytes,
        "kilobytes": made.resources.stack_bytes * 32 * warps / 1000,
        "thread": loads_under_way(loop),
        "sm": loads_under_way(loop) * warps,
        "cycles": cycles / memory,
    }

record = Archive(lesson_root()).record("register_caps")
taken = record.method.get("resources", []) if record else []
known = {(one["registers"], one["local_bytes"]) for one in taken}
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
            + [Series("one a cycle", [80, 860], [1, 1], role="predicted", marks=False)],
            x="loads under way on an SM",
            y="cycles of an SM a memory instruction",
            title="With few loads under way each costs more; the builds that spill most stand apart",
            caption=f"{len(READ)} builds of one kernel: recorded time on an {{machine}} by memory instructions of the loop, over the loads under way on an SM, counted in the machine code. Dashed: the least that the units allow.",
        )
    )

# %% fold="Code of the table"
QUESTION = {"free_64": (64, None), "at_128_64": (64, 128), "at_128_128": (128, 128), "at_64_128": (128, 64)}
if HERE:
    show(
        Table(
            [
                "D",
                "registers allowed",
                "warps",
                "instructions",
                "of them for spills",
                "loads under way, thread",
                "loads under way, SM",
                "recorded, µs",
            ],
            [
                [
                    d,
                    cap or "no cap",
                    *(READ[d, cap][key] for key in ("warps", "instructions", "spilled")),
                    round(READ[d, cap]["thread"], 1),
                    round(READ[d, cap]["sm"]),
                    recorded_us(d, cap),
                ]
                for d, cap in QUESTION.values()
            ],
            caption="The four builds in question: what is counted in the machine code of the loop, for one key, and the time recorded on an {machine}.",
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
    assert max(near) < min(far), "the title says that with few loads under way each costs more"
    assert len(heavy) == 2 and min(READ[key]["cycles"] for key in heavy) > 1.5 * max(near), (
        "the title says that the builds that spill most stand apart"
    )
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
        "builds": len(BUILDS),
        "same": sum((one["registers"], one["local_bytes"]) in known for one in READ.values()),
        "near_least": min(near),
        "near_most": max(near),
        "far_least": min(far),
        "far_most": max(far),
        "heavy_caps": " and ".join(f"D = {d} with a cap of {cap}" for d, cap in heavy),
        "around": read_of(64, None, "instructions") - 2 * 64,
        "heavy_kb": min((READ[key]["kilobytes"] for key in heavy), default=np.nan),
        "light_kb": max((one["kilobytes"] for key, one in READ.items() if key not in heavy), default=np.nan),
    },
    thread={name: read_of(*build, "thread") for name, build in QUESTION.items()},
    sm={name: read_of(*build, "sm") for name, build in QUESTION.items()}
    | {"warps_128": read_of(128, 128, "warps"), "warps_64": read_of(128, 64, "warps")},
)

# %% [markdown]
# At D = 64 a thread has {{ thread.free_64 | .1f }} loads under way without a cap and
# {{ thread.at_128_64 | .1f }} with 128 registers; fewer warps and all, the SM has
# {{ sm.at_128_64 | .0f }} in place of {{ sm.free_64 | .0f }}. A second question of that lesson is
# answered with it, why at D = 128 a cap of 64 beat one of 128 in spite of its spills. A thread has about
# as many loads under way in either, {{ thread.at_64_128 | .1f }} and {{ thread.at_128_128 | .1f }}, but
# {{ sm.warps_64 }} warps are resident in place of {{ sm.warps_128 }}, and the SM has
# {{ sm.at_64_128 | .0f }} under way in place of {{ sm.at_128_128 | .0f }}.

# %% [markdown]
# Where some hundreds of loads are under way, a memory instruction takes {{ loops.near_least | .2f }} to
# {{ loops.near_most | .2f }} cycles of the SM; where there are fewer than 300, {{ loops.far_least | .2f }}
# to {{ loops.far_most | .2f }}. That the least is not one, the count does not explain. Nor does it explain
# the builds far above the rest, {{ loops.heavy_caps }}. They spill most: all warps of an SM together
# {{ loops.heavy_kb | .0f }} KB and more, which is more than L1 holds. But so are the
# {{ loops.light_kb | .0f }} KB of a build that lies with the others.

# %% [markdown]
# ## What a cap costs
#
# Spills show in the machine code as `STL` and `LDL`, stores and loads of local memory. A cap takes a
# number out of its register and puts one of them into every pass of the loop.

# %% fold="Code of the figure"
if HERE:
    shown = CAPS[:0:-1]
    show(
        line_chart(
            [
                Series(f"D = {d}, {what}", shown, [READ[d, cap][key] for cap in shown], role=role)
                for d, role in ((128, "registers"), (64, "block"))
                for what, key in (("all", "instructions"), ("for spills", "spilled"))
            ],
            x="registers allowed to a thread",
            y="instructions of the loop",
            title="What a cap takes out of registers comes back as loads and stores",
            caption="Instructions of the loop for one key, and those of them that store or load spilled numbers, by the registers allowed to a thread; from the machine code for an H100.",
        )
    )

# %% [markdown]
# ## A loop of multiply-adds
#
# The fastest 32-bit product of the course has another loop. Of its {{ product.instructions | , }}
# instructions {{ product.fma | , }} are `FFMA`, so {{ product.most | .0% }} of the cycles are left to
# them, and no kernel with this loop can pass that share of the peak. {{ product.recorded | .0% }} were
# recorded. What is between the two is waiting, which no count of instructions contains. Of the
# multiply-adds {{ product.reuse | .0% }} carry `.reuse` at a register: its value is kept for the next
# instruction, which [spares a read](../matmul/register_tiles_banks.py#snake-order-reuse-an-operand-at-every-turn).

# %% fold="Code of the numbers"
product_us = recorded("fp32_ladder.three_stages.m_4096_n_4096_k_4096.median")
peak = GPU.peak_tflop_per_s["fp32"]
inner = machine_code(kernels.matmul_fp32).loop() if HERE else ()
fma = [one for one in inner if one.name.startswith("FFMA")]
publish(
    product={
        "instructions": len(inner) or np.nan,
        "fma": len(fma) or np.nan,
        "most": len(fma) / len(inner) if inner else np.nan,
        "recorded": 2 * 4096**3 / product_us / 1e6 / peak,
        "reuse": np.mean(["reuse" in one.operands for one in fma]) if fma else np.nan,
    }
)

# %% [markdown]
# ## The answer
#
# {{ loops.free_64 }} instructions for a key: 64 loads, 64 multiply-adds, {{ loops.around }} others. The warp
# waits for none of the loads as such, but at the first multiply-add that needs one. The build
# with {{ loops.ahead_free }} loads before it takes {{ puzzle.free_us | ,.0f }} µs, the one with
# {{ loops.ahead_128 }} takes {{ loops.recorded_64 | .0f }}.

# %% [markdown]
# ## Takeaways
#
# - PTX is a text for no machine; registers, spills and the order of loads stand in the machine code only,
#   and NVRTC and nvdisasm show it without a GPU.
# - Instructions are time at one a cycle for each scheduler. Where the bytes take longer, they are free.
# - A warp waits where a loaded number is used. Count how many loads stand between, times the warps.
# - Look for `.128` at loads, `LDL` and `STL` for spills, `@P` for branches that are none, `MUFU` and `CALL`
#   for functions that cost more than they look.
# - A count is a bound. What lies above it is waiting, and only a measurement shows how much.
#
# What do other languages make of the same kernel? [One kernel, many front ends](front_ends.py) reads their machine code, too.


# %% fold="The whole cell, with two wrong answers that the tests turn down"
import re

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


def takes_any_jump(lines):
    labels = {line.strip()[:-1]: at for at, line in enumerate(lines) if line.strip().endswith(":")}
    jumps = [
        (labels[jump[1]], at)
        for at, line in enumerate(lines)
        if (jump := re.search(r"\bBRA\b.*?(\.L_\w+)", line))
    ]
    first, last = max(map(sorted, jumps), key=lambda ends: ends[1] - ends[0])
    body = [line for line in lines[first : last + 1] if not line.strip().endswith(":")]
    return len(body), sum("LDL" in line or "STL" in line for line in body)


def counts_every_line(lines):
    kept = [line for line in lines if not line.strip().endswith(":")]
    return len(kept), sum("LDL" in line or "STL" in line for line in kept)


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
    assert given == (7, 2), f"the listing of the task: {given}, not (7, 2)"
    longer = [*lines[:6], *["     FADD.FTZ R0, R0, R2"] * 5, *lines[6:]]
    given = answer(longer)
    assert given == (12, 2), f"five more instructions in the inner loop: {given}, not (12, 2)"
    forward = ["@P0  BRA `(.L_x_9)", *["     NOP"] * 20, ".L_x_9:", *lines]
    given = answer(forward)
    assert given == (7, 2), f"a jump forward, over twenty instructions, before it: {given}, not (7, 2)"


exercise(
    "Find the loop",
    """
    Write `inner_loop(lines)` for the lines of a listing: how many instructions the longest loop without another
    loop in it has, its jump included, and how many of them load or store spilled numbers. Labels stand on lines
    of their own and end with a colon; a predicate may stand before an instruction. `machine_code(kernel).text()`
    is such a listing, of any kernel, where NVRTC and nvdisasm are installed.
    """,
    answer=inner_loop,
    tests=loop_tests,
    wrong=[takes_any_jump, counts_every_line],
    hint="A jump to a label above itself ends a loop. One that goes down is a branch.",
)

# %% [markdown]
# What a line becomes changes with the compiler. Look again when its version does.
