# ---
# title: Arithmetic intensity and the roofline
# needs: [kernels/serial_attention]
# summary: "Load a number, do one multiply-add, store it. With 80 multiply-adds in place of one, how many times as long?"
# description: "Predict from bytes and operations which of the two a kernel will wait for, then find the knee by experiment."
# date: 2026-11-21
# tags: [roofline, arithmetic intensity, bandwidth]
# ---

# %% [markdown]
# A kernel loads a number, multiplies it, adds to it, and stores it. Now let it do 80 multiply-adds in
# a row before it stores. Will it take far longer, a little longer, or just as long? Two divisions on
# the back of an envelope answer this before a line is written, and an experiment on a GPU will
# check them. The first division needs two rates.

# %% [markdown]
# ## Two valves
#
# Whatever a kernel does, its bytes come through one valve and its operations through another. Device
# memory delivers at most so many bytes a second, its bandwidth; the arithmetic units finish at most
# so many operations a second. The operations counted here are those on floating point numbers, FLOP
# for short, and a multiply-add, though one instruction, counts as two.
#
# ??? definition "Bandwidth"
#     The bytes that a path can carry in a second; here the path between device memory and the
#     processors of the device, in GB/s (10⁹ bytes) or TB/s (10¹²).
#
# ??? definition "FLOP"
#     One operation on floating point numbers: an addition or a multiplication. FLOP/s is how many of
#     them happen in a second; TFLOP/s is 10¹² of them.

# %% [markdown]
# The valves run at the same time: while some threads wait for bytes, others calculate. So a program
# ends when the slower of the two has let its share through. Which one is slower depends on a property
# of the program, the operations that it does for each byte that it moves. That quotient is its
# arithmetic intensity. Try it on a toy machine with {{ toy.bytes_per_s }} bytes and
# {{ toy.flop_per_s }} operations a second.
#
# ??? definition "Arithmetic intensity | intensity | intensities"
#     Operations done for each byte that crosses the memory's interface, in FLOP per byte.
#
# ??? definition "Memory-bound"
#     Said of a program whose bytes take longer than its operations: bandwidth sets its time.
#
# ??? definition "Compute-bound"
#     Said of a program whose operations take longer than its bytes: the arithmetic units set its
#     time.

# %% fold="Code of the figure"
import numpy as np

from tilewise import agree, case, ceil_div, check, measure, normal, output, parallel, publish, show
from tilewise.figures import Answer, Mark, Meter, Plot, Series, Slider, calculator, line_chart

TOY = {"bytes_per_s": 100, "flop_per_s": 400}
publish(toy=TOY)


def two_valves(operations_a_byte):
    """How far each valve is open when the slower one is open wide."""
    rate = min(TOY["flop_per_s"], operations_a_byte * TOY["bytes_per_s"])
    valves = {
        "memory valve": rate / operations_a_byte / TOY["bytes_per_s"],
        "arithmetic valve": rate / TOY["flop_per_s"],
    }
    limits = [name for name, part in valves.items() if part == 1]
    verdict = {
        "memory valve": "Memory-bound: the arithmetic waits for bytes. More operations a byte cost no time.",
        "arithmetic valve": "Compute-bound: the memory waits for the arithmetic. Fewer bytes save no time.",
    }[limits[0]]
    if len(limits) == 2:
        verdict = "Both valves are open wide: neither waits for the other."
    return Answer([*valves.values(), rate], verdict, limits)


show(
    calculator(
        [Slider("operations a byte", [0.5, 1, 2, 4, 8, 16, 32], 2)],
        two_valves,
        meters=[
            Meter("memory valve", 1.0, "open", "read", ".0%"),
            Meter("arithmetic valve", 1.0, "open", "block", ".0%"),
            Meter("rate reached", 400, "FLOP/s", "predicted"),
        ],
        title="At 2 operations a byte half of the arithmetic stands idle; at 16 most of the memory does",
        caption="A toy machine and a program: each valve as far open as the other allows. The arrow marks the one that sets the pace. A model, not to be confused with any GPU.",
    )
)

# %% [markdown]
# Three programs to set: one that does 200 operations for 100 bytes, {{ programs.low }} a byte; one
# with {{ programs.best }}; and one with 400 operations for 25 bytes, {{ programs.high }} a byte. Only
# the middle one keeps both valves wide open. That does not make it the best program: the third
# reaches the same rate, and it is no fault to leave the memory idle most of the time.[^middle]
#
# [^middle]: [Where the sources differ](../../conventions.md#the-sources): one of them looks for the
#     best intensity in the middle and counts the right side as a loss. The rate only ever grows
#     with intensity, up to the ceiling. The same text gives intensity as "FLOPS/B"; it is FLOP per
#     byte, since FLOP/s already has the second in it.
#
# ??? question "A GPU has both rates at once. Why does hardly any program reach both?"
#     Because a program uses the two in a ratio of its own. For each byte it does so many operations,
#     and the machine could do so many: unless the two numbers agree, one side waits for the other,
#     however well the program is written. Only at one \intensity are both valves wide open, and few
#     programs happen to have it. So a share of one of the two peaks says little until one has asked
#     which of them the program could reach.

# %% fold="Code of the numbers"
programs = {"low": 200 / 100, "best": TOY["flop_per_s"] / TOY["bytes_per_s"], "high": 400 / 25}
publish(programs={name: round(value) for name, value in programs.items()})

# %% [markdown]
# ## The roof of a real machine
#
# In formulas: with $I$ for the intensity, $B$ for the bandwidth and $F$ for the arithmetic rate,
#
# $$\text{time} \ge \max\left(\frac{\text{bytes}}{B},\ \frac{\text{FLOP}}{F}\right),$$
#
# $$\text{rate} \le \min(F,\ I \cdot B).$$
#
# Drawn over $I$ the second is a roof: a slope as long as memory limits, then a flat ceiling. The
# corner is the ridge point, $I = F/B$. Both axes are logarithmic by custom, so that an intensity of
# 1/12 and one of 500 fit on a page.
#
# ??? definition "Roofline"
#     The bound on a program's rate drawn over its intensity: the smaller of the arithmetic rate and
#     intensity times bandwidth.
#
# ??? definition "Ridge point | ridge"
#     The intensity at which both limits are equal: arithmetic rate over bandwidth, in FLOP per byte.

# %% [markdown]
# For an H100 both numbers can be had from its data sheet. $B$ is {{ h100.tb_per_s | .2f }} TB/s. $F$
# follows from counting: {{ h100.sms }} processors with {{ h100.lanes }} units each, every one of them
# able to start a multiply-add, 2 FLOP, in each tick of a clock of {{ h100.ghz | .2f }} GHz, makes
# {{ h100.tflop_per_s | .1f }} TFLOP/s.[^card] The ridge is at {{ h100.ridge | .1f }} FLOP per byte. A
# number of 4 bytes must be worth {{ h100.per_number | .0f }} operations before it pays for its
# way.[^which] Other arithmetic has other ridges; the figure has three for each GPU.[^hundred]
#
# [^card]: One GPU's name covers several cards. Where the sources differ: the draft's bandwidth of an
#     A100, 1,935 GB/s{from: the draft}, is that of the card for a PCIe slot. The module for a server has
#     {{ a100.gb_per_s | ,.0f }} GB/s, and its first edition with 40 GB {{ a100.first_gb_per_s | ,.0f }}.
#
# [^which]: The bandwidth here is that of the device's own memory. Copies from the host run over a
#     link that is {{ h100.link_ratio | .0f }} times narrower and have a roofline of their own. The
#     ridge is a quotient of rates; how long one load or one multiplication takes plays no part in it,
#     although one often reads that it does.
#
# [^hundred]: Where the sources differ: the blog post sets 1.1 trillion numbers of two bytes, moved in
#     the same second, against 133.9 trillion operations, and calls the one a hundredth of the other.
#     {{ h100.tb_per_s | .2f }} TB/s are {{ ridges.numbers | .3f }} trillion such numbers, and it depends on
#     the units what stands against each of them: {{ ridges.half_number | .0f }} operations in 16 bits,
#     {{ ridges.matrix_number | .0f }} in the matrix units, of which the post has the rate, too,
#     989.4 TFLOP/s{from: NVIDIA H100 data sheet}. Data sheets also print twice such a rate, for matrices
#     in which half of the numbers are zero; the figure leaves that out.

# %% fold="Code of the figure"
from tilewise.models import attainable_tflop_per_s, device, intensity_flop_per_byte, stated

H100 = device("H100 SXM")
ROOF = stated(H100)
publish(
    h100={
        "tb_per_s": H100.memory_gb_per_s / 1000,
        "sms": H100.sms,
        "lanes": H100.fma_per_sm_clock["fp32"],
        "ghz": H100.boost_mhz / 1000,
        "tflop_per_s": ROOF.tflop_per_s["fp32"],
        "ridge": ROOF.ridge_flop_per_byte(),
        "per_number": 4 * ROOF.ridge_flop_per_byte(),
        "link_ratio": H100.memory_gb_per_s / 64,
    },
    a100={
        "gb_per_s": device("A100 SXM 80 GB").memory_gb_per_s,
        "first_gb_per_s": device("A100 SXM 40 GB").memory_gb_per_s,
    },
    ridges={
        "numbers": H100.memory_gb_per_s / 2 / 1000,
        "half_number": 2 * ROOF.ridge_flop_per_byte("fp16"),
        "matrix_number": 2 * ROOF.ridge_flop_per_byte("bf16_matrix"),
    },
)
UNITS = {"32-bit": "fp32", "16-bit": "fp16", "16-bit, matrix units": "fp16_matrix"}
STEPS_OF_INTENSITY = [round(2 ** (step / 2), 4) for step in range(-10, 25)]


def roof(GPU, arithmetic, intensity):
    ceilings, kind = stated(device(GPU)), UNITS[arithmetic]
    top, ridge = ceilings.tflop_per_s[kind], ceilings.ridge_flop_per_byte(kind)
    reached = attainable_tflop_per_s(ceilings, intensity, kind)
    corner = [(0.03, 0.03 * ceilings.memory_gb_per_s / 1000), (ridge, top), (4096, top)]
    side = "Memory-bound" if intensity < ridge else "Compute-bound"
    return Answer(
        [reached, reached / top],
        f"{side}. The ridge of this roof is at {ridge:.0f} FLOP per byte.",
        lines=[(f"{GPU}, {arithmetic}", "predicted", corner)],
        point=(intensity, reached),
    )


show(
    calculator(
        [
            Slider("GPU", ["A100 SXM 80 GB", "H100 SXM", "H200", "RTX 4090"], "H100 SXM"),
            Slider("arithmetic", list(UNITS), "32-bit"),
            Slider("intensity", STEPS_OF_INTENSITY, 0.25, "FLOP/B"),
        ],
        roof,
        meters=[Meter("at most", 1000, "TFLOP/s"), Meter("share of the ceiling", 1.0, "", "block", ".1%")],
        plot=Plot("intensity [FLOP/B]", "rate [TFLOP/s]", (0.03, 4096), (0.05, 2000), log=True),
        title="Left of the ridge a program climbs with its intensity; right of it nothing is to be gained",
        caption="Rooflines with the peaks of the data sheets. Matrix units multiply small matrices only; a later part of the course is about them.",
    )
)

# %% [markdown]
# ## A corner that moves
#
# Five generations of server GPUs, each as many times the first as its maker states.[^growth] Links
# are the one to other GPUs, NVLink, and the slot to the host; the last one's slot is left out, since
# texts differ on it. If arithmetic outgrew memory, ridges moved right, and programs had to become
# denser to keep up. Did it?
#
# [^growth]: P100 and V100 as SXM2 modules: NVIDIA's data sheets. Arithmetic and memory of the
#     others: their data sheets, as in this course's device table. NVLink and slot: data sheets, both
#     directions together, without sparsity where there is arithmetic.

# %% fold="Code of the figure"
GENERATIONS = {
    "P100": (2016, {"16-bit": 21.2, "32-bit": 10.6, "memory": 732, "NVLink": 160, "slot": 32}),
    "V100": (2017, {"16-bit": 125, "32-bit": 15.7, "memory": 900, "NVLink": 300, "slot": 32}),
}
for name, (year, entry, links) in {
    "A100": (2020, "A100 SXM 80 GB", {"NVLink": 600, "slot": 64}),
    "H100": (2022, "H100 SXM", {"NVLink": 900, "slot": 128}),
    "B200": (2024, "B200", {"NVLink": 1800}),
}.items():
    gpu = device(entry)
    rates = {
        "16-bit": gpu.peak_tflop_per_s["fp16_matrix"],
        "32-bit": gpu.peak_tflop_per_s["fp32"],
        "memory": gpu.memory_gb_per_s,
    }
    GENERATIONS[name] = (year, rates | links)
GROWN = {
    rate: [(year, have[rate] / first) for year, have in GENERATIONS.values() if rate in have]
    for rate, first in GENERATIONS["P100"][1].items()
}
RIDGES = {
    rate: [1000 * have[rate] / have["memory"] for _, have in GENERATIONS.values()]
    for rate in ("16-bit", "32-bit")
}
LINES = {
    "16-bit": ("16-bit arithmetic, fastest units", "tile"),
    "32-bit": ("32-bit arithmetic", "block"),
    "memory": ("memory", "global"),
    "NVLink": ("NVLink", "l2"),
    "slot": ("slot to the host", "read"),
}
show(
    line_chart(
        [Series(label, *zip(*GROWN[rate], strict=True), role=role) for rate, (label, role) in LINES.items()],
        x="year",
        y="times the P100",
        log_y=True,
        title="Matrix units outgrew the memory; ordinary arithmetic did not",
        caption="Stated rates of P100, V100, A100, H100 and B200, each divided by the P100's. 16-bit arithmetic is in matrix units from the V100 on.",
    )
)
publish(
    moved={rate.lower().replace("-", "_"): grown[-1][1] for rate, grown in GROWN.items()}
    | {
        "ridge_first": RIDGES["16-bit"][0],
        "ridge_last": RIDGES["16-bit"][-1],
        "plain_least": min(RIDGES["32-bit"]),
        "plain_most": max(RIDGES["32-bit"]),
    }
)

# %% [markdown]
# Memory became {{ moved.memory | .0f }} times as fast, NVLink {{ moved.nvlink | .0f }} times, the
# slot {{ moved.slot | .0f }} times. 16-bit arithmetic became {{ moved.16_bit | .0f }} times as fast,
# and its ridge moved from {{ moved.ridge_first | .0f }} to {{ moved.ridge_last | .0f }} FLOP per
# byte. But that is matrix units. On ordinary ones 32-bit arithmetic grew {{ moved.32_bit | .0f }}
# times, less than memory, and its ridge lies between {{ moved.plain_least | .0f }} and
# {{ moved.plain_most | .0f }} throughout.[^outgrown]
#
# [^outgrown]: Where the sources differ: the lecture says that memory falls behind arithmetic with
#     each generation. Its chart shows the fastest units. For a kernel that uses no matrix units it
#     does not hold.

# %% [markdown]
# ## What a program can choose
#
# An intensity has two parts, and only one of them is given. The inputs must be read once and the
# results written once; this compulsory traffic belongs to the task. Whatever a program moves beyond
# it belongs to the program. The table has tasks at their compulsory traffic, and Kernel 2 of the last
# lesson as written, with $S$ and $P$ sent out and back.
#
# ??? question "Does an intensity belong to the task, to the program or to the machine?"
#     To the program. The task sets an upper end: its operations divided by its compulsory traffic.
#     How far below it a program stays is its author's choice, and in the table attention as written
#     stays below by a factor of {{ intensity.ratio | .0f }}. The machine has a number of the same
#     unit, its ridge, but that is a quotient of its rates; it says which intensity would be enough,
#     not which one you have.
#
# ??? definition "Compulsory traffic"
#     The bytes that no program for a task can avoid: every input read once, every result written
#     once.

# %% fold="Code of the table"
from tilewise import Table

N, d = 1024, 128
TASKS = [
    ["vector addition", 1, 12],
    ["ReLU: replace what is below 0 by 0", 1, 8],
    ["sum of all numbers", 1, 4],
    ["product of two N x N matrices", 2 * N**3, 12 * N**2],
    ["attention, S and P stored", 4 * N**2 * d, 4 * (4 * N * d + 4 * N**2)],
    ["attention, S and P never stored", 4 * N**2 * d, 4 * 4 * N * d],
]
rows = []
for task, flop, moved in TASKS:
    intensity = intensity_flop_per_byte(flop, moved)
    limit = "memory" if intensity < ROOF.ridge_flop_per_byte() else "arithmetic"
    share = attainable_tflop_per_s(ROOF, intensity) / ROOF.tflop_per_s["fp32"]
    rows.append([task, intensity, 2 * intensity, limit, f"{share:.1%}"])
show(
    Table(
        ["task", "FLOP per byte, 32-bit", "16-bit", "limited by, 32-bit", "of the H100's peak at most"],
        rows,
        caption="Intensities at N = 1024, d = 128, per element where that is all. ReLU's comparison is counted as one operation, attention's two products as its only ones. Two programs for one task stand in the last rows.",
    )
)
publish(
    intensity={
        "stored": rows[4][1],
        "kept": rows[5][1],
        "ratio": rows[5][1] / rows[4][1],
        "add_share": attainable_tflop_per_s(ROOF, 1 / 12) / ROOF.tflop_per_s["fp32"],
    }
)

# %% [markdown]
# Vector addition can reach {{ intensity.add_share | .1% }} of the arithmetic peak, on any day, by
# anyone. That is no reason to be sad about it: the right question is how much of the *bandwidth* it
# reaches. And attention moves from {{ intensity.stored | .1f }} to {{ intensity.kept | .0f }} FLOP
# per byte when $S$ and $P$ are not stored, which is what the rest of this course works towards.

# %% [markdown]
# ## An experiment with one knob
#
# To find the ridge on a real GPU one needs a kernel whose bytes stay the same while its operations
# grow. This one loads `v`, does `REPEAT` multiply-adds on it, and stores it. `factor` and `addend`
# arrive at run time, so that the compiler cannot work the loop out beforehand, and they shrink the
# distance to a fixed point, so that no number overflows.[^double]
#
# [^double]: Where the sources differ: theirs doubles a 16-bit number again and again. That overflows
#     after about 15 doublings, and a compiler is free to turn `v * 2` into `v + v`. A kernel that
#     only counts in a loop fares worse: the compiler stores the final count and drops the loop.


# %% tab="Pseudocode"
REPEAT = 80


def repeat_fma(x, y, factor, addend):
    for i in parallel(len(x)):
        v = x[i]
        for _ in range(REPEAT):
            v = v * factor + addend
        y[i] = v


# %% tab="CUDA C"
from tilewise import Kernel

REPEAT_FMA = Kernel(
    r"""
extern "C" __global__
void repeat_fma(const float* x, float* y, int n,
                float factor, float addend) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = x[i];
    #pragma unroll  // written out: no instruction counts the passes
    for (int r = 0; r < REPEAT; ++r) v = v * factor + addend;
    y[i] = v;
}
""",
    defines={"REPEAT": 80},
)


# %% [markdown]
# The two tabs are held against each other at three sizes, among them one that leaves most of a block
# without work. A kernel rounds once for a multiply-add and NumPy twice, so a small difference is
# allowed.


# %% fold="Code of the cases"
def worked_on(n, repeat, factor=0.5, addend=0.25, bits=32, bytes_a_load=4):
    arrays = {"x": normal(n, dtype=f"float{bits}"), "y": output(n, dtype=f"float{bits}")}
    threads = n * bits // 8 // bytes_a_load
    constants = {"n": n, "factor": factor, "addend": addend, "repeat": repeat}
    return case(**arrays, **constants, grid=ceil_div(threads, 256), block=256)


slowly = {"factor": 0.99, "addend": 0.005}  # so that 80 passes leave something of x
agree(repeat_fma, REPEAT_FMA, [worked_on(n, 80, **slowly) for n in (1, 255, 1000)], rtol=1e-5, atol=1e-5)

# %% [markdown]
# ## Predict three knees
#
# Each number costs {{ knee.bytes_32 }} bytes, 4 in and 4 out, and `REPEAT` multiply-adds are $2r$
# operations. So the intensity is $r/4$, and it meets the ridge at $r =$ {{ knee.at_32 | .0f }}: until
# there the multiply-adds are free. Numbers of 16 bits cost {{ knee.bytes_16 }} bytes; computed in 32
# bits as before they reach the ridge at {{ knee.at_16 | .0f }}.
#
# What if the loop only multiplies? A unit that can start a multiply-add in each tick can start a
# multiplication in each tick, and no more than that. The passes take as long, the knee stays where it
# is, and since a pass now counts as one operation, the ceiling is {{ knee.lone | .1f }} TFLOP/s, half
# of {{ h100.tflop_per_s | .1f }}.[^half]
#
# [^half]: Where the sources differ: one measured a ceiling of {{ knee.lone | .1f }} TFLOP/s, compared
#     it with a peak that counts multiply-adds, and had no reason for the difference. Half of the
#     units' work was left out: nothing was added.

# %% fold="Code of the numbers"
from tilewise.measurements import medians_us, recorded, recorded_device

GPU = recorded_device()
BYTES = {32: 8, 16: 4}
KNEE = {bits: BYTES[bits] * stated(GPU).ridge_flop_per_byte() / 2 for bits in BYTES}
publish(
    knee={
        "bytes_32": BYTES[32],
        "bytes_16": BYTES[16],
        "at_32": KNEE[32],
        "at_16": KNEE[16],
        "lone": ROOF.tflop_per_s["fp32"] / 2,
    }
)

# %% fold="Wider loads, the lone multiply, 16-bit numbers"
REPEAT_MULTIPLY = Kernel(
    r"""
extern "C" __global__
void repeat_multiply(const float* x, float* y, int n, float factor) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = x[i];
    #pragma unroll
    for (int r = 0; r < REPEAT; ++r) v = v * factor;  // New: nothing added
    y[i] = v;
}
""",
    defines={"REPEAT": 80},
)

REPEAT_WIDE = Kernel(
    r"""
extern "C" __global__
void repeat_wide(const float4* x, float4* y, int n,
                 float factor, float addend) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n / 4) return;
    float4 v = x[i];  // New: four numbers in one load of 16 bytes
    #pragma unroll UNROLL
    for (int r = 0; r < REPEAT; ++r) {
        v.x = ADDS ? v.x * factor + addend : v.x * factor;
        v.y = ADDS ? v.y * factor + addend : v.y * factor;
        v.z = ADDS ? v.z * factor + addend : v.z * factor;
        v.w = ADDS ? v.w * factor + addend : v.w * factor;
    }
    y[i] = v;
}
""",
    defines={"REPEAT": 80, "UNROLL": 80, "ADDS": 1},
)

REPEAT_WIDE_HALF = Kernel(
    r"""
#include <cuda_fp16.h>

extern "C" __global__
void repeat_wide_half(const __half2* x, __half2* y, int n,
                      float factor, float addend) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n / 8) return;
    uint4 words = reinterpret_cast<const uint4*>(x)[i];  // New: eight numbers, 16 bytes
    __half2* pairs = reinterpret_cast<__half2*>(&words);
    float2 v[4];
    #pragma unroll
    for (int j = 0; j < 4; ++j) v[j] = __half22float2(pairs[j]);
    #pragma unroll UNROLL
    for (int r = 0; r < REPEAT; ++r) {
        #pragma unroll
        for (int j = 0; j < 4; ++j) {
            v[j].x = ADDS ? v[j].x * factor + addend : v[j].x * factor;
            v[j].y = ADDS ? v[j].y * factor + addend : v[j].y * factor;
        }
    }
    #pragma unroll
    for (int j = 0; j < 4; ++j) pairs[j] = __floats2half2_rn(v[j].x, v[j].y);
    reinterpret_cast<uint4*>(y)[i] = words;
}
""",
    defines={"REPEAT": 80, "UNROLL": 80, "ADDS": 1},
)

REPEAT_HALF2 = Kernel(
    r"""
#include <cuda_fp16.h>

extern "C" __global__
void repeat_half2(const __half2* x, __half2* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n / 8) return;
    uint4 words = reinterpret_cast<const uint4*>(x)[i];
    __half2* pairs = reinterpret_cast<__half2*>(&words);
    #pragma unroll UNROLL
    for (int r = 0; r < REPEAT; ++r) {
        #pragma unroll
        for (int j = 0; j < 4; ++j)  // New: a multiply-add on two numbers at once
            pairs[j] = __hfma2(pairs[j], __float2half2_rn(0.5f), __float2half2_rn(0.25f));
    }
    reinterpret_cast<uint4*>(y)[i] = words;
}
""",
    defines={"REPEAT": 80, "UNROLL": 80},
)

# %% [markdown]
# A third way is to calculate in 16 bits as well. `__hfma2` does a multiply-add on two numbers at
# once, so the ceiling doubles, and the knee of 16-bit numbers moves back to {{ knee.at_32 | .0f }}.
# The answers are checked against a formula, not against another loop: what is left of the distance to
# the fixed point after $r$ passes is its $r$-th power of `factor`.


# %% fold="Code of the variants"
def after(x, factor, addend, repeat):
    """The answer without the loop: each pass shrinks the distance to a fixed point."""
    fixed = addend / (1 - factor)
    return fixed + (x - fixed) * factor**repeat


RAGGED = {
    "multiply": REPEAT_MULTIPLY.on(worked_on(1000, 80, 0.99, 0.0)),
    "16 bytes a load": REPEAT_WIDE.on(worked_on(1000, 80, **slowly, bytes_a_load=16)),
    "16 bits": REPEAT_WIDE_HALF.on(worked_on(1000, 80, **slowly, bits=16, bytes_a_load=16)),
    "16 bits in pairs": REPEAT_HALF2.on(worked_on(1000, 80, bits=16, bytes_a_load=16)),
}
for label, launch in RAGGED.items():
    arrays = launch.run()
    right = after(arrays["x"].astype(float), *(arrays[name] for name in ("factor", "addend", "repeat")))
    check(
        arrays["y"], right, rtol=0.0, atol=1e-3 if "bits" in label else 1e-5, name=f"{label}, 1,000 numbers"
    )


def pass_over(n, bits, op, repeat, bytes_a_load=16):
    kernel, defines = REPEAT_WIDE if bits == 32 else REPEAT_WIDE_HALF, {"ADDS": int(op == "fma")}
    if op == "fma in pairs":
        kernel, defines = REPEAT_HALF2, {}
    elif bytes_a_load == 4:
        kernel, defines = REPEAT_FMA if op == "fma" else REPEAT_MULTIPLY, {}
    if bytes_a_load == 16:
        defines["UNROLL"] = min(repeat, 128)  # longer code would not stay near the units
    made = Kernel(kernel.source, defines={"REPEAT": repeat, **defines})
    constants = (1 - 2**-10, 0.0) if op == "multiply" else (0.5, 0.25)
    return made.on(worked_on(n, repeat, *constants, bits=bits, bytes_a_load=bytes_a_load))


def flop_of(n, op, repeat):
    return n * repeat * (1 if op == "multiply" else 2)


def ladder(**lengths):
    return [{"op": op.replace("_", " "), "repeat": repeat} for op in lengths for repeat in lengths[op]]


MANY = 2**27
publish(many=MANY)

# %% [markdown]
# ## Measure
#
# {{ many | , }} numbers, far more than any store on the chip could keep, so each pass over them comes
# from device memory. Below the knees the time should stay at what the bytes take, and above them grow
# in proportion to `REPEAT`. The 32-bit kernels are timed twice: as on the tab, with 4 bytes a load,
# and with four neighbouring numbers to a thread, 16 bytes a load. Bytes, operations and intensity are
# the same, so the roofline cannot tell the two apart. The tables are folded; the figure shows their
# rows.

# %% fold="Code of the measurement"
by_32 = measure(
    "repeat_32bit",
    variants={
        "4 bytes a load": lambda op, repeat, n=MANY: pass_over(n, 32, op, repeat, 4),
        "16 bytes a load": lambda op, repeat, n=MANY: pass_over(n, 32, op, repeat),
    },
    cases=ladder(fma=(1, 16, 32, 48, 64, 80, 96, 128, 256, 512), multiply=(1, 32, 64, 96, 128, 512)),
    count_case={"op": "fma", "repeat": 80, "n": 4096},
    bytes=lambda op, repeat, n=MANY: 8 * n,
    flop=lambda op, repeat, n=MANY: flop_of(n, op, repeat),
    reference=after,
    tolerance=1e-4,
    reasons={"4 bytes a load": "Measure", "16 bytes a load": "Predict three knees"},
    fold="All 32 rows, 32-bit numbers",
)
by_16 = measure(
    "repeat_16bit",
    variants={"16 bytes a load": lambda op, repeat, n=MANY: pass_over(n, 16, op, repeat)},
    cases=ladder(fma=(1, 8, 16, 24, 32, 40, 48, 64, 128, 512), multiply=(1, 16, 32, 48, 64, 512)),
    count_case={"op": "fma", "repeat": 80, "n": 4096},
    bytes=lambda op, repeat, n=MANY: 4 * n,
    flop=lambda op, repeat, n=MANY: flop_of(n, op, repeat),
    reference=after,
    tolerance=1e-3,
    reasons={"16 bytes a load": "Predict three knees"},
    fold="All 16 rows, 16-bit numbers",
)
in_pairs = measure(
    "repeat_half2",
    variants={"16 bytes a load": lambda op, repeat, n=MANY: pass_over(n, 16, op, repeat)},
    cases=ladder(fma_in_pairs=(1, 32, 64, 80, 96, 128, 512)),
    count_case={"op": "fma in pairs", "repeat": 80, "n": 4096},
    bytes=lambda op, repeat, n=MANY: 4 * n,
    flop=lambda op, repeat, n=MANY: flop_of(n, op, repeat),
    reference=after,
    tolerance=2e-3,
    arithmetic="fp16",
    reasons={"16 bytes a load": "Measure"},
    fold="All 7 rows, 16-bit numbers and 16-bit arithmetic",
)


# %% fold="Code of the figures"
LADDERS = {
    "32-bit": (by_32, "16 bytes a load", "fma", 2),
    "32-bit, 4 bytes a load": (by_32, "4 bytes a load", "fma", 2),
    "32-bit, multiply": (by_32, "16 bytes a load", "multiply", 1),
    "16-bit": (by_16, "16 bytes a load", "fma", 2),
    "16-bit in pairs": (in_pairs, "16 bytes a load", "fma in pairs", 2),
}
TIMES = {}
for label, (made, variant, op, _) in LADDERS.items():
    rows = medians_us(made, "op", "repeat").items()
    TIMES[label] = np.array([(at, us) for (*which, at), us in rows if which == [variant, op]]).T
HAVE = all(np.isfinite(times).all() for _, times in TIMES.values())
PASSES = np.array([1, *(2**power for power in range(3, 10))])


def least_us(passes, bits):
    """The roofline's time for all numbers: the longer of bytes and multiply-adds."""
    memory = MANY * BYTES[bits] / (GPU.memory_gb_per_s * 1e3)
    return np.maximum(memory, MANY * 2 * passes / (ROOF.tflop_per_s["fp32"] * 1e6))


def rate(label):
    passes, times = TIMES[label]
    return MANY * LADDERS[label][3] * passes / times / 1e6


if HAVE:
    show(
        line_chart(
            [
                Series("32-bit", *TIMES["32-bit"], role="block"),
                Series("32-bit, 4 bytes a load", *TIMES["32-bit, 4 bytes a load"], role="lane"),
                Series("16-bit", *TIMES["16-bit"], role="tile"),
                Series("32-bit, model", PASSES, least_us(PASSES, 32), role="predicted", marks=False),
                Series("16-bit, model", PASSES, least_us(PASSES, 16), role="predicted", marks=False),
            ],
            x="multiply-adds on each number",
            y="time [µs]",
            log_x=True,
            log_y=True,
            marks=[Mark(f"{KNEE[16]:.0f}", x=KNEE[16]), Mark(f"{KNEE[32]:.0f}", x=KNEE[32])],
            title="Up to the knee the multiply-adds are free; beyond it, time is proportional to them",
            caption=f"{MANY:,} numbers, each worked on REPEAT times: recorded on an {{machine}} (solid) and the roofline at its peaks (data sheet, dashed), whose knees are dotted.",
        )
    )


# %% fold="Code of the numbers"
def crossing(label):
    """Where the flat start and the slope of the last point meet."""
    passes, times = TIMES[label]
    return times[0] / (times[-1] / passes[-1])


passes, times = TIMES["32-bit"]
flat = int(max(passes[times < 1.03 * times[0]], default=1))  # so many multiply-adds are free
of_32 = dict(zip(passes, times, strict=True))
publish(
    seen={
        "flat": flat,
        "flat_us": of_32[flat],
        "eighty_times": of_32[80] / of_32[1],
        "corner_times": of_32[80] / max(of_32[1], of_32[512] * 80 / 512),
        "knee_32": crossing("32-bit"),
        "knee_16": crossing("16-bit"),
        "knee_lone": crossing("32-bit, multiply"),
    }
)

# %% [markdown]
# With 16 bytes a load the curves do what two divisions said. The time stays at
# {{ repeat_32bit._16_bytes_a_load.op_fma_repeat_1.median | us }} until {{ seen.flat }} multiply-adds; the flat start and the slope meet at
# {{ seen.knee_32 | .0f }} in 32 bits, where the model said {{ knee.at_32 | .0f }}, and at
# {{ seen.knee_16 | .0f }} in 16, where it said {{ knee.at_16 | .0f }}. The lone multiply has its knee
# at {{ seen.knee_lone | .0f }} too, and the ceilings are
# {{ repeat_32bit._16_bytes_a_load.op_fma_repeat_512.tflop_per_s | .1f }} and
# {{ repeat_32bit._16_bytes_a_load.op_multiply_repeat_512.tflop_per_s | .1f }} TFLOP/s. Close to the corner a kernel is slower than either of its limits: 80
# multiply-adds take {{ seen.corner_times | .2f }} times as long as the slower of the two.
#
# ??? question "Why is a measured ceiling often half of what the data sheet says, or far less?"
#     Ask first what the data sheet counts. A rate counts each multiply-add as two operations, so that
#     code which only multiplies or only adds has half of it at best:
#     {{ repeat_32bit._16_bytes_a_load.op_multiply_repeat_512.tflop_per_s | .1f }} TFLOP/s
#     here. Its largest numbers are those of the matrix units, which multiply matrices and nothing
#     else; a loop over single numbers runs on the other units, whatever type its array has. And they
#     may be for matrices half of which are zeros. What is left after that is the clock, and a kernel
#     that waits.

# %% [markdown]
# Two things the roofline did not say. With 4 bytes a load the same bytes and the same operations take
# {{ repeat_32bit._4_bytes_a_load.op_fma_repeat_1.median | us }} from the start, at
# {{ repeat_32bit._4_bytes_a_load.op_fma_repeat_1.gb_per_s | ,.0f }} GB/s in place of
# {{ repeat_32bit._16_bytes_a_load.op_fma_repeat_1.gb_per_s | ,.0f }}: such a kernel never reaches its roof. What it
# lacks is the subject of [a later lesson](occupancy.py). And pairs of 16 bits reach
# {{ repeat_half2._16_bytes_a_load.op_fma_in_pairs_repeat_512.tflop_per_s | .1f }} TFLOP/s, hardly more than 32 bits do, where twice that was counted on. What it
# takes to get there is not shown on this page.

# %% [markdown]
# ## Low and high
#
# Two kernels mark the ends of the scale. The first adds up all numbers: 1 FLOP for 4 bytes. It has
# fewer threads than numbers, so each thread takes number `me`, then the one a whole grid further, and
# so on, a grid-stride loop, and keeps a sum of its own. That every number goes into a sum that is
# stored matters: loads whose values go nowhere are dropped by the
# compiler.[^examples]
#
# [^examples]: Where the sources differ: the draft's example of low intensity loads as many numbers as
#     the memory holds and does nothing with them, which is just what a compiler drops; and the
#     processors have no room to keep them, {{ examples.registers_mb | .0f }} MB in all on an H100. Its example of high
#     intensity counts to 2,147,483,647 by ones. Whole numbers are no FLOP, compilers drop such a loop,
#     it keeps one lane of the GPU busy, for {{ examples.count_s | .1f }} s at the pace at which a lane
#     adds; and in 32-bit floats it would stick at {{ examples.stuck | , }}, where adding 1 changes nothing.
#
# ??? definition "Grid-stride loop | grid-stride loops"
#     A loop in which a thread takes item i, then i plus the number of all threads, and so on, so that
#     any launch covers any number of items.


# %% tab="Pseudocode"
def sum_strided(x, partial):
    threads = len(partial)
    for me in parallel(threads):
        partial[me] = sum(x[me::threads])


# %% tab="CUDA C"
SUM_STRIDED = Kernel(r"""
extern "C" __global__
void sum_strided(const float* x, float* partial, int n) {
    int me = blockIdx.x * blockDim.x + threadIdx.x;
    int threads = gridDim.x * blockDim.x;
    float s = 0.0f;
    for (int i = me; i < n; i += threads) s += x[i];
    partial[me] = s;
}
""")


# %% [markdown]
# The second stays at one number for {{ steps | , }} multiply-adds, each of which needs the result of
# the one before: a chain. With 8 bytes a chain that is an intensity of {{ chain.intensity | , }} FLOP
# per byte, {{ chain.over_ridge | ,.0f }} times the ridge. It runs with a single chain, with 1,024
# independent chains, and with a million.


# %% tab="Pseudocode"
FACTOR, ADDEND = 1 - 2**-16, 2**-16


def chains(x, y, steps):
    for i in parallel(len(x)):
        v = x[i]
        for _ in range(steps):
            v = v * FACTOR + ADDEND
        y[i] = v


# %% tab="CUDA C"
CHAINS = Kernel(
    r"""
extern "C" __global__
void chains(const float* x, float* y, int n, int steps) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = x[i];
    #pragma unroll 64
    for (int r = 0; r < steps; ++r) v = v * FACTOR + ADDEND;
    y[i] = v;
}
""",
    defines={"FACTOR": "0.9999847412109375f", "ADDEND": "0.0000152587890625f"},
)


# %% fold="Code of the cases"
def summed(n, blocks=1024):
    return case(x=normal(n), partial=output(blocks * 256), n=n, grid=blocks, block=256)


def chained(n, steps):
    return case(x=normal(n), y=output(n), n=n, steps=steps, grid=ceil_div(n, 256), block=256)


agree(
    sum_strided,
    SUM_STRIDED,
    [summed(*size) for size in ((300, 2), (500, 2), (5001, 3))],
    rtol=1e-5,
    atol=1e-5,
)
agree(chains, CHAINS, [chained(n, steps) for n, steps in ((1, 130), (257, 64))], rtol=1e-4)

STEPS = 2**16
STUCK = int(np.float32(2**24))
check(np.float32(STUCK) + np.float32(1), STUCK, name="2²⁴ + 1 in 32-bit floats")
publish(
    examples={
        "registers_mb": H100.sms * 65_536 * 4 / 1e6,
        "count_s": (2**31 - 1) * 4 / (H100.boost_mhz * 1e6),  # four cycles for each addition
        "stuck": STUCK,
    },
    steps=STEPS,
    chain={"intensity": 2 * STEPS // 8, "over_ridge": 2 * STEPS / 8 / stated(GPU).ridge_flop_per_byte()},
)


# %% fold="Code of the measurement"
def torch_column_sums(arrays):
    """The same sums: x as a matrix, one column a thread."""
    import torch

    x, partial = (torch.as_tensor(arrays[name], device="cuda") for name in ("x", "partial"))
    return lambda: torch.sum(x.view(-1, partial.numel()), dim=0, out=partial)


low = measure(
    "sum_strided",
    variants={"grid-stride sum": lambda n: SUM_STRIDED.on(summed(n, max(1, min(1024, n // 4096))))},
    cases=[{"n": 2**27}],
    count_case={"n": 2**14},
    bytes=lambda n: 4 * n,
    flop=lambda n: n,
    library={"torch.sum by columns": torch_column_sums},
    reference=lambda x, n: x.reshape(-1, 256 * max(1, min(1024, n // 4096))).sum(axis=0),
    tolerance=1e-4,
)
high = measure(
    "chains",
    variants={"chains": lambda n, steps=STEPS: CHAINS.on(chained(n, steps))},
    cases=[{"n": 1}, {"n": 1024}, {"n": 2**20}],
    count_case={"n": 1024, "steps": 128},
    bytes=lambda n, steps=STEPS: 8 * n,
    flop=lambda n, steps=STEPS: 2 * steps * n,
    reference=lambda x, steps: after(x, 1 - 2**-16, 2**-16, steps),
    tolerance=2e-3,
    reasons={"chains": "Low and high"},
)

# %% [markdown]
# All of them under one roof. Its slope is the fastest memory probe on the recorded device,
# {{ repeat_32bit.ceilings.memory_gb_per_s | ,.0f }} GB/s,[^probes] and its ceiling the peak (data sheet), {{ h100.tflop_per_s | .1f }} TFLOP/s. The sum reaches
# {{ ends.sum_share | .0% }} of what its intensity allows. The chains have one and the same intensity,
# and their rates lie a factor of {{ ends.apart | ,.0f }} apart: a single chain keeps one unit of
# thousands busy, and even that one mostly waits for its own last result. A million chains reach
# {{ ends.many_share | .0% }} of the ceiling.
#
# [^probes]: Three probes ran, and the fastest is the roof's slope. Reading alone reached
#     {{ repeat_32bit.ceilings.probes.read_gb_per_s | ,.0f }} GB/s, of which the sum has {{ ends.sum_of_read | .0% }}, writing alone
#     {{ repeat_32bit.ceilings.probes.write_gb_per_s | ,.0f }}, and copying {{ repeat_32bit.ceilings.probes.copy_gb_per_s | ,.0f }}.

# %% fold="Code of the figure"
GB_PER_S = recorded("repeat_32bit.ceilings.memory_gb_per_s")
TFLOP_PER_S = H100.peak_tflop_per_s["fp32"]
RIDGE = TFLOP_PER_S * 1000 / GB_PER_S
chain_rates = 2 * STEPS * np.array([1, 1024, 2**20]) / list(medians_us(high, "n").values()) / 1e6
sum_rate = 2**27 / medians_us(low)["grid-stride sum"] / 1e6
publish(
    ends={
        "sum_of_read": 4000 * sum_rate / recorded("repeat_32bit.ceilings.probes.read_gb_per_s"),
        "sum_share": sum_rate / (0.25 * GB_PER_S / 1000),
        "apart": chain_rates[-1] / chain_rates[0],
        "many_share": chain_rates[-1] / TFLOP_PER_S,
    },
)
if HAVE and np.isfinite([*chain_rates, sum_rate]).all():
    add = recorded("vec_add.torch_add.n_67108864.tflop_per_s")
    show(
        line_chart(
            [
                Series(
                    "roof",
                    [0.05, RIDGE, 4e4],
                    [0.05 * GB_PER_S / 1000, TFLOP_PER_S, TFLOP_PER_S],
                    role="predicted",
                    marks=False,
                ),
                Series("repeat, 1 to 512", passes / 4, rate("32-bit")),
                Series("vector addition", [1 / 12], [add], line=False, role="tile"),
                Series("sum", [1 / 4], [sum_rate], line=False, role="read"),
                *(
                    Series(f"{label} chains", [2 * STEPS / 8], [reached], line=False, role="lane")
                    for label, reached in zip(("1", "1,024", "2²⁰"), chain_rates, strict=True)
                ),
            ],
            x="intensity [FLOP/B]",
            y="rate [TFLOP/s]",
            log_x=True,
            log_y=True,
            height=460,
            title="Intensity sets the roof; whether a kernel reaches it is another question",
            caption="Recorded kernels under the roof of the same {machine}: its slope is the fastest memory probe, its ceiling the peak (data sheet). Three points have one intensity: one chain, 1,024 chains and a million.",
        )
    )

# %% [markdown]
# A point can be low for two reasons. Either it stands on its roof, and then only a different
# intensity helps; or it hangs below, and neither valve is open. Too few threads, waiting for results,
# starting and ending: these are the subjects of the next lessons.
# [All kernels of the course](../../all-kernels.md) are drawn under one such roof.

# %% [markdown]
# ## The answer
#
# One multiply-add on each of {{ many | , }} numbers takes
# {{ repeat_32bit._16_bytes_a_load.op_fma_repeat_1.median | us }},
# {{ seen.flat }} take {{ seen.flat_us | us }}, and 80 take
# {{ repeat_32bit._16_bytes_a_load.op_fma_repeat_80.median | us }}: {{ seen.eighty_times | .2f }}
# times as long. Until the knee the bytes decide, and the arithmetic hides behind them. Far beyond it
# the operations decide: 512 multiply-adds take {{ repeat_32bit._16_bytes_a_load.op_fma_repeat_512.median | us }}.

# %% [markdown]
# ## Takeaways
#
# - Two divisions bound every kernel: bytes by bandwidth, operations by arithmetic rate. The longer
#   time counts, since both go on at once.
# - The ridge of an H100 is at {{ h100.ridge | .0f }} FLOP per byte in 32 bits. Vector addition has
#   1/12, so no cleverness in its arithmetic will show.
# - A peak counts multiply-adds as two. Code that only multiplies or only adds has half of it.
# - Intensity has a part that the task sets and a part that the program sets. Storing $S$ and $P$
#   costs attention a factor of {{ intensity.ratio | .0f }}.
# - Being compute-bound is no goal and no fault. What counts is how far below its roof a kernel hangs.

# %% fold="The whole cell, with two wrong answers that the tests turn down"
from tilewise import exercise


def attention_intensity(N, d, bytes_each, stored):
    flop = 2 * (2 * N * N * d)
    ends = 4 * N * d  # Q, K, V in; O out
    between = 4 * N * N if stored else 0  # S and P, each out and back in
    return flop / (bytes_each * (ends + between))


def never_read_back(N, d, bytes_each, stored):
    return 4 * N * N * d / (bytes_each * (4 * N * d + (2 * N * N if stored else 0)))


def numbers_in_place_of_bytes(N, d, bytes_each, stored):
    return attention_intensity(N, d, 1, stored)


def intensity_tests(answer):
    known = [
        (1024, 128, 4, True, 28.4),
        (1024, 128, 4, False, 256),
        (1024, 128, 2, True, 56.9),
        (4096, 64, 2, False, 2048),
        (64, 64, 4, True, 8),
    ]
    for N, d, bytes_each, stored, expected in known:
        given = answer(N, d, bytes_each, stored)
        assert abs(given / expected - 1) < 0.01, f"N={N}, d={d}, {bytes_each} bytes: {given}, not {expected}"


exercise(
    "What attention may hope for",
    """
    Write `attention_intensity(N, d, bytes_each, stored)`: operations per byte of one head, of which only
    the two products $QK^T$ and $PV$ are counted. The matrices Q, K, V and O have N rows and d columns, and
    a number takes `bytes_each` bytes. Where `stored` is true, S and P go out to device memory and come
    back once each. At which N does an H100 become compute-bound if nothing is stored, d = 128 and the
    numbers have 4 bytes? And why does d not matter there?
    """,
    answer=attention_intensity,
    tests=intensity_tests,
    wrong=[never_read_back, numbers_in_place_of_bytes],
    hint="Count the elements of each matrix and how often each crosses the memory's interface, then the operations of one product.",
    explanation="Without S and P the intensity is N / bytes_each: both operations and bytes grow with d. In 4 bytes it passes a ridge of 20 at N = 80.",
)

# %% [markdown]
# Everything here assumed that the GPU is busy from start to end. For a short kernel that is not so:
# before it can wait for bytes, it waits to be started. [What a launch costs](launches.py) comes next.
