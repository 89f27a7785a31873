# ---
# title: Arithmetic intensity and the roofline model
# needs: [kernels/serial_attention]
# summary: "A kernel loads a value, does one multiply-add and stores it. With 80 multiply-adds instead of one, how much slower is it?"
# description: "Predict from bytes and operations whether memory or arithmetic limits a kernel, then find the ridge point by experiment."
# date: 2026-11-21
# tags: [roofline, arithmetic intensity, bandwidth]
# ---

# %% [markdown]
# A kernel loads a value, does one multiply-add, and stores the result. Now give it 80 multiply-adds
# per value. Does it get much slower, a little slower, or not slower at all?
#
# Guess before you read on. Two divisions predict the answer, and a run on an H100 checks it. The same
# two divisions tell you whether memory traffic or arithmetic limits a kernel.

# %% [markdown]
# ## The test kernel
#
# Each thread loads one element `v`, applies `REPEAT` multiply-adds to it, and stores it. The bytes per element
# never change; only the arithmetic grows with `REPEAT`. Microbenchmarks need precautions: `factor` and `addend` are
# arguments, so the compiler can't evaluate the loop in advance, and their values pull `v` towards a fixed point, so
# nothing overflows.


# %% tab="Pseudocode"
from tilewise import parallel

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
// y[i] = x[i] after REPEAT multiply-adds, one thread per element.
// 1-D grid of ceil(n / blockDim.x) blocks; any n below 2^31.
extern "C" __global__
void repeat_fma(const float* x, float* y, int n,
                float factor, float addend) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = x[i];
    #pragma unroll  // fully unrolled: no loop counter to update
    for (int r = 0; r < REPEAT; ++r) v = v * factor + addend;
    y[i] = v;
}
""",
    defines={"REPEAT": 80},
)


# %% [markdown]
# Launch it on 1,000 elements.

# %%
import numpy as np

x = np.linspace(-1, 1, 1000, dtype=np.float32)
y = np.zeros_like(x)
REPEAT_FMA(x, y, 1000, 0.99, 0.005, grid=4, block=256)
print(x[:3], "->", y[:3])

# %% [markdown]
# All values have moved towards the fixed point, 0.5.

# %% fold="Code of the test"
from tilewise import agree, case, ceil_div, check, measure, normal, output, publish, show


def worked_on(n, repeat, factor=0.5, addend=0.25, bits=32, load_bytes=4):
    arrays = {"x": normal(n, dtype=f"float{bits}"), "y": output(n, dtype=f"float{bits}")}
    threads = n * bits // 8 // load_bytes
    constants = {"n": n, "factor": factor, "addend": addend, "repeat": repeat}
    return case(**arrays, **constants, grid=ceil_div(threads, 256), block=256)


slowly = {"factor": 0.99, "addend": 0.005}  # so that x still matters after 80 iterations
agree(repeat_fma, REPEAT_FMA, [worked_on(n, 80, **slowly) for n in (1, 255, 1000)], rtol=1e-5, atol=1e-5)

# %% [markdown]
# Change `REPEAT`. Which counts grow with it, and which stay the same?

# %% fold="Code of the run"
from tilewise import try_it

REPEATS = {f"REPEAT = {times}": Kernel(REPEAT_FMA.source, defines={"REPEAT": times}) for times in (80, 1, 8)}
try_it(lambda n: worked_on(n, 80, **slowly), REPEATS, n=(1, 1000, 4000))

# %% [markdown]
# ## Memory-bound or compute-bound: two valves
#
# Think of two valves. Every byte that a kernel moves flows through one, and every operation through the other.
# *Bandwidth* limits the first: device memory delivers only so many bytes per second. The *arithmetic rate* limits the
# second. We count floating-point operations, or *FLOPs*. A multiply-add is one instruction but counts as two.
#
# ??? definition "Bandwidth"
#     The bytes per second that a path can carry; here the path between device memory and the GPU's
#     processors, in GB/s (10⁹ bytes) or TB/s (10¹²).
#
# ??? definition "FLOP"
#     One floating-point operation: an addition or a multiplication. FLOP/s is the number per
#     second, and a TFLOP/s is 10¹² of them.

# %% [markdown]
# Both valves are open at the same time: while some threads wait for data, others compute. So only one
# valve, the bottleneck, sets the run time. Which one that is depends on a single ratio, the kernel's
# *arithmetic intensity*: operations per byte moved.
#
# Take a toy machine that can move {{ toy.bytes_per_s }} bytes per second and do {{ toy.flop_per_s }} operations per
# second:
#
# - A program that does 200 operations and moves 100 bytes has an intensity of 2. Moving its data takes longer than its
#   arithmetic. The two overlap, so only the data counts: it's *memory-bound*.
# - A program that does 400 operations and moves 25 bytes has an intensity of 16. Its arithmetic takes longer than
#   moving its data: it's *compute-bound*.
#
# At 4 operations per byte, data and arithmetic take the same time. Beyond that, the rate stays constant: at an intensity
# of 16, the toy machine computes just as fast as at 4.
#
# ??? definition "Arithmetic intensity | intensity | intensities"
#     Operations per byte that crosses the memory interface, in FLOP per byte.
#
# ??? definition "Memory-bound"
#     Limited by bandwidth: data movement takes longer than arithmetic.
#
# ??? definition "Compute-bound"
#     Limited by the arithmetic units: arithmetic takes longer than data movement.
#
# ??? question "Why do so few programs reach both of a GPU's peaks at once?"
#     Every program has its own ratio of operations to bytes, and the machine has one ratio at which
#     both are saturated. Unless the two match, one side waits for the other, however well
#     the program is written. So before you judge a program by its percentage of a peak, check which of the two peaks it can reach.

# %% [markdown]
# ## The roofline of an H100
#
# As formulas, with the intensity $I$, the bandwidth $B$ and the arithmetic rate $F$:
#
# $$\text{time} \ge \max\left(\frac{\text{bytes}}{B},\ \frac{\text{FLOPs}}{F}\right),$$
#
# $$\text{rate} \le \min(F,\ I \cdot B).$$
#
# Plot the second formula against $I$, and you get the *roofline* of [Williams, Waterman and
# Patterson](https://doi.org/10.1145/1498765.1498785): a slope where memory limits the rate, then a flat ceiling where
# arithmetic does. The two intersect at the *ridge point*, $I = F/B$. Both axes are logarithmic, because
# intensities range from less than 0.1 to several hundred.
#
# ??? definition "Roofline"
#     The upper bound on a program's rate as a function of its intensity: the arithmetic rate or
#     intensity times bandwidth, whichever is smaller.
#
# ??? definition "Ridge point | ridge"
#     The intensity at which both limits are equal: arithmetic rate over bandwidth, in FLOP per byte.

# %% [markdown]
# An H100's memory delivers {{ h100.tb_per_s | .2f }} TB/s, according to its data sheet. It has
# {{ h100.sms }} \SMs (streaming multiprocessors), and each can start {{ h100.lanes }} \FP32
# multiply-adds per cycle. At {{ h100.ghz | .2f }} GHz that comes to {{ h100.tflop_per_s | .0f }} TFLOP/s.
# So the ridge point is at {{ h100.ridge | .0f }} FLOP per byte: below that, memory is the bottleneck.[^rates]
#
# Each kind of arithmetic has its own ridge. \Tensor cores, units that only multiply and accumulate small matrices,
# raise the \FP16 ceiling to {{ h100.tensor_tflop_per_s | .0f }} TFLOP/s and the ridge to {{ h100.tensor_ridge | .0f }} FLOP per byte.
#
# [^rates]: *A common misconception:* the ridge depends on how long one load or one multiplication
#     takes. It's a ratio of two rates; \latency isn't part of it.

# %% fold="Code of the figure"
from tilewise.figures import Answer, Mark, Meter, Plot, Series, Slider, calculator, line_chart
from tilewise.models import attainable_tflop_per_s, device, intensity_flop_per_byte, stated

H100 = device("H100 SXM")
ROOF = stated(H100)
TENSOR = "fp16_matrix"
publish(
    toy={"bytes_per_s": 100, "flop_per_s": 400},
    h100={
        "tb_per_s": H100.memory_gb_per_s / 1000,
        "sms": H100.sms,
        "lanes": H100.fma_per_sm_clock["fp32"],
        "ghz": H100.boost_mhz / 1000,
        "tflop_per_s": ROOF.tflop_per_s["fp32"],
        "ridge": ROOF.ridge_flop_per_byte(),
        "tensor_tflop_per_s": ROOF.tflop_per_s[TENSOR],
        "tensor_ridge": ROOF.ridge_flop_per_byte(TENSOR),
    },
)
UNITS = {"FP32": "fp32", "FP16": "fp16", "FP16, tensor cores": TENSOR}
INTENSITIES = [round(2 ** (step / 2), 4) for step in range(-10, 25)]


def roof(GPU, arithmetic, intensity):
    ceilings, kind = stated(device(GPU)), UNITS[arithmetic]
    top, ridge = ceilings.tflop_per_s[kind], ceilings.ridge_flop_per_byte(kind)
    reached = attainable_tflop_per_s(ceilings, intensity, kind)
    corner = [(0.03, 0.03 * ceilings.memory_gb_per_s / 1000), (ridge, top), (4096, top)]
    side = "Memory-bound" if intensity < ridge else "Compute-bound"
    return Answer(
        [reached, reached / top],
        f"{side}. The ridge point is at {ridge:.0f} FLOP per byte.",
        lines=[(f"{GPU}, {arithmetic}", "predicted", corner)],
        point=(intensity, reached),
    )


show(
    calculator(
        [
            Slider("GPU", ["A100 SXM 80 GB", "H100 SXM", "H200", "RTX 4090"], "H100 SXM"),
            Slider("arithmetic", list(UNITS), "FP32"),
            Slider("intensity", INTENSITIES, 0.25, "FLOP/B"),
        ],
        roof,
        meters=[Meter("at most", 1000, "TFLOP/s"), Meter("of the peak", 1.0, "", "block", ".1%")],
        plot=Plot("arithmetic intensity [FLOP/B]", "rate [TFLOP/s]", (0.03, 4096), (0.05, 2000), log=True),
        title="Rate climbs with intensity up to the ridge, then levels off",
        caption="Rooflines from the data sheets' peaks, without sparsity. The dot marks a program with the intensity you set.",
    )
)

# %% [markdown]
# ## Ridge points from P100 to B200
#
# Does arithmetic pull further ahead of memory with every GPU generation? Here are the peak rates of five server GPUs,
# each relative to the P100.[^growth]
#
# [^growth]: The P100 and V100 rates are from the data sheets of the SXM2 modules; the others come from this course's device table.

# %% fold="Code of the figure"
GENERATIONS = {
    "P100": (2016, {"FP16": 21.2, "FP32": 10.6, "memory": 732}),
    "V100": (2017, {"FP16": 125, "FP32": 15.7, "memory": 900}),
}
for name, (year, entry) in {
    "A100": (2020, "A100 SXM 80 GB"),
    "H100": (2022, "H100 SXM"),
    "B200": (2024, "B200"),
}.items():
    gpu = device(entry)
    rates = {
        "FP16": gpu.peak_tflop_per_s[TENSOR],
        "FP32": gpu.peak_tflop_per_s["fp32"],
        "memory": gpu.memory_gb_per_s,
    }
    GENERATIONS[name] = (year, rates)
GROWN = {
    rate: [(year, have[rate] / first) for year, have in GENERATIONS.values()]
    for rate, first in GENERATIONS["P100"][1].items()
}
RIDGES = {
    rate: [1000 * have[rate] / have["memory"] for _, have in GENERATIONS.values()]
    for rate in ("FP16", "FP32")
}
LINES = {
    "FP16": ("FP16, fastest units", "tile"),
    "FP32": ("FP32", "block"),
    "memory": ("memory bandwidth", "ink"),
}
show(
    line_chart(
        [Series(label, *zip(*GROWN[rate], strict=True), role=role) for rate, (label, role) in LINES.items()],
        x="year",
        y="relative to the P100",
        log_y=True,
        title="Tensor cores outpaced memory; the FP32 rate did not",
        caption="Peak rates of the P100, V100, A100, H100 and B200, each divided by the P100's. FP16 uses tensor cores from the V100 on.",
    )
)
publish(
    moved={rate.lower(): grown[-1][1] for rate, grown in GROWN.items()}
    | {
        "ridge_first": RIDGES["FP16"][0],
        "ridge_last": RIDGES["FP16"][-1],
        "ridge_growth": RIDGES["FP16"][-1] / RIDGES["FP16"][0],
    }
)

# %% [markdown]
# The \FP32 rate grew {{ moved.fp32 | .1f }}× from the P100 to the B200, less than memory bandwidth, which grew
# {{ moved.memory | .0f }}×. The \FP16 rate grew {{ moved.fp16 | .0f }}×, thanks to \tensor cores, and its ridge moved
# from {{ moved.ridge_first | .0f }} to {{ moved.ridge_last | .0f }} FLOP per byte. To keep the fastest units busy, a
# kernel now needs {{ moved.ridge_growth | .0f }}× the intensity that it needed in 2016.

# %% [markdown]
# ## Arithmetic intensity of real tasks
#
# Some traffic is unavoidable: a program must read every input once and write every result once. This
# *compulsory traffic* belongs to the task. Any traffic beyond that comes from how the program is written.
# The table lists five tasks with compulsory traffic alone, plus attention that stores the scores $S$ and the weights $P$
# in device memory and reads them back.
#
# ??? question "Is arithmetic intensity a property of the task, the program or the machine?"
#     Of the program. The task sets an upper limit: its operations divided by its compulsory traffic. How
#     close you get is up to you; in the table below, attention that stores $S$ and $P$ falls short of the
#     limit by a factor of {{ intensity.ratio | .0f }}. The machine's ridge has the same unit, but it's a ratio of two rates. It
#     tells you what intensity you need, not what you have.
#
# ??? definition "Compulsory traffic"
#     The memory traffic that any program for a task must generate if its inputs start in device
#     memory: every input read once, every result written once.

# %% fold="Code of the table"
from tilewise import Table

N, d = 1024, 128
TASKS = [  # FLOP, elements moved, and whether tensor cores can do it
    ["vector addition", 1, 3, False],
    ["ReLU", 1, 2, False],
    ["sum of an array", 1, 1, False],
    ["GEMM, N x N matrices", 2 * N**3, 3 * N**2, True],
    ["attention, S and P stored", 4 * N**2 * d, 4 * N * d + 4 * N**2, True],
    ["attention, S and P not stored", 4 * N**2 * d, 4 * N * d, True],
]
INTENSITY, CAP, rows = {}, {}, []
for task, flop, elements, matrices in TASKS:
    for kind, width in {"fp32": 4, TENSOR: 2}.items():
        INTENSITY[task, kind] = intensity_flop_per_byte(flop, width * elements)
        CAP[task, kind] = attainable_tflop_per_s(ROOF, INTENSITY[task, kind], kind) / ROOF.tflop_per_s[kind]
    tensor = [INTENSITY[task, TENSOR], f"{CAP[task, TENSOR]:.0%}"] if matrices else ["–", "–"]
    rows.append([task, INTENSITY[task, "fp32"], f"{CAP[task, 'fp32']:.1%}", *tensor])
show(
    Table(
        [
            "task",
            "FP32 [FLOP/B]",
            "of FP32 peak",
            "FP16 [FLOP/B]",
            "of tensor-core peak",
        ],
        rows,
        caption="Intensity, and the fraction of each peak that the H100's roofline allows, at N = 1024, d = 128. ReLU's comparison counts as one operation; attention counts its two GEMMs only.",
    )
)
STORED, KEPT = "attention, S and P stored", "attention, S and P not stored"
check(CAP[STORED, "fp32"], CAP[KEPT, "fp32"], name="attention's FP32 roofline, S and P stored or not")
check(INTENSITY[KEPT, "fp32"] / INTENSITY[STORED, "fp32"], 1 + N / d, name="ratio of intensities, 1 + N/d")
publish(
    intensity={
        "stored": INTENSITY[STORED, "fp32"],
        "tensor_stored": INTENSITY[STORED, TENSOR],
        "tensor_kept": INTENSITY[KEPT, TENSOR],
        "tensor_cap": CAP[STORED, TENSOR],
        "ratio": INTENSITY[KEPT, "fp32"] / INTENSITY[STORED, "fp32"],
        "gain": CAP[KEPT, TENSOR] / CAP[STORED, TENSOR],
        "add_cap": CAP["vector addition", "fp32"],
    }
)

# %% [markdown]
# Vector addition can't exceed {{ intensity.add_cap | .1% }} of the \FP32 peak, however well you write it.
# A better question is what fraction of the *bandwidth* it reaches.
#
# In attention, $S$ and $P$ add $4N^2$ elements to the compulsory $4Nd$, so storing
# them divides the intensity by $1 + N/d =$ {{ intensity.ratio | .0f }}. Does the run time grow as much?
# Not in \FP32: {{ intensity.stored | .0f }} FLOP per byte is still above the ridge.
#
# On \tensor cores the ridge is at {{ h100.tensor_ridge | .0f }}. With $S$ and $P$ stored, \FP16 attention has
# {{ intensity.tensor_stored | .0f }} FLOP per byte and gets at most {{ intensity.tensor_cap | .0% }} of the peak.
# Without them, it has {{ intensity.tensor_kept | .0f }}. That is the benefit of
# [FlashAttention](https://arxiv.org/abs/2205.14135) by Dao et al.: it moves attention across the tensor-core ridge and
# raises the bound by a factor of {{ intensity.gain | .1f }}.

# %% [markdown]
# ## Predicting the knees
#
# We return to the test kernel. An \FP32 element costs {{ knee.bytes_32 }} bytes, 4 in and 4 out, and $r$ multiply-adds
# are $2r$ FLOPs. On the H100, the intensity $2r/8$ reaches the ridge at $r =$ {{ knee.at_32 | .0f }}. Up to this
# *knee*, the multiply-adds should cost nothing.
#
# Two variants test the model:
#
# - **\FP16 storage, \FP32 arithmetic.** Half the bytes, the same operations: the knee moves to
#   {{ knee.at_16 | .0f }}.
# - **Multiply only.** A unit that starts one multiply-add per cycle starts at most one multiplication
#   per cycle. The knee stays at {{ knee.at_32 | .0f }}. But an iteration now counts as one FLOP instead
#   of two, so the ceiling drops to {{ knee.multiply_only | .0f }} TFLOP/s.

# %% fold="Code of the numbers"
from tilewise.measurements import medians_us, recorded, recorded_device

GPU = recorded_device()
BYTES = {32: 8, 16: 4}
KNEE = {bits: BYTES[bits] * stated(GPU).ridge_flop_per_byte() / 2 for bits in BYTES}
publish(
    knee={
        "bytes_32": BYTES[32],
        "at_32": KNEE[32],
        "at_16": KNEE[16],
        "multiply_only": ROOF.tflop_per_s["fp32"] / 2,
    }
)

# %% fold="Variants: multiply only, 16-byte loads, FP16"
REPEAT_MULTIPLY = Kernel(
    r"""
// Like repeat_fma, but y[i] = x[i] * factor^REPEAT.
extern "C" __global__
void repeat_multiply(const float* x, float* y, int n, float factor) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = x[i];
    #pragma unroll
    for (int r = 0; r < REPEAT; ++r) v = v * factor;  // New: no addition
    y[i] = v;
}
""",
    defines={"REPEAT": 80},
)

REPEAT_WIDE = Kernel(
    r"""
// Like repeat_fma, with four elements per thread: grid = ceil(n / 4 / blockDim.x).
// n must be a multiple of 4, x and y 16-byte aligned.
extern "C" __global__
void repeat_wide(const float4* x, float4* y, int n,
                 float factor, float addend) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n / 4) return;
    float4 v = x[i];  // New: four elements per 16-byte load
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

// Like repeat_wide, with FP16 in memory and FP32 arithmetic: eight elements per thread.
// n must be a multiple of 8, x and y 16-byte aligned.
extern "C" __global__
void repeat_wide_half(const __half2* x, __half2* y, int n,
                      float factor, float addend) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n / 8) return;
    uint4 words = reinterpret_cast<const uint4*>(x)[i];  // New: eight elements per 16-byte load
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


# %% fold="Code of the variants"
def after(x, factor, addend, repeat):
    """The answer without the loop: each iteration shrinks the distance to a fixed point."""
    fixed = addend / (1 - factor)
    return fixed + (x - fixed) * factor**repeat


RAGGED = {
    "multiply only": REPEAT_MULTIPLY.on(worked_on(1000, 80, 0.99, 0.0)),
    "float4 loads": REPEAT_WIDE.on(worked_on(1000, 80, **slowly, load_bytes=16)),
    "FP16 storage": REPEAT_WIDE_HALF.on(worked_on(1000, 80, **slowly, bits=16, load_bytes=16)),
}
for label, launch in RAGGED.items():
    arrays = launch.run()
    right = after(arrays["x"].astype(float), *(arrays[name] for name in ("factor", "addend", "repeat")))
    tolerance = 1e-5 if arrays["x"].dtype == np.float32 else 1e-3
    check(arrays["y"], right, atol=tolerance, name=f"{label}, 1,000 elements")


def variant_of(n, bits, op, repeat, load_bytes=16):
    kernel, defines = REPEAT_WIDE if bits == 32 else REPEAT_WIDE_HALF, {"ADDS": int(op == "fma")}
    if load_bytes == 4:
        kernel, defines = REPEAT_FMA if op == "fma" else REPEAT_MULTIPLY, {}
    if load_bytes == 16:
        defines["UNROLL"] = min(repeat, 128)  # longer code would not fit the instruction cache
    made = Kernel(kernel.source, defines={"REPEAT": repeat, **defines})
    constants = (1 - 2**-10, 0.0) if op == "multiply" else (0.5, 0.25)
    return made.on(worked_on(n, repeat, *constants, bits=bits, load_bytes=load_bytes))


def flop_of(n, op, repeat):
    return n * repeat * (1 if op == "multiply" else 2)


def sweep(**lengths):
    return [{"op": op, "repeat": repeat} for op in lengths for repeat in lengths[op]]


MANY = 2**27

# %% [markdown]
# ## Measuring the knees
#
# We use 2²⁷ elements, far more than any cache holds, so all traffic goes to device memory. The \FP32 kernel runs in two
# versions: with 4-byte loads, as above, and with `float4` loads, where each thread handles four neighbouring elements.
# Both move the same number of bytes and do the same number of FLOPs, so the roofline can't tell them apart.

# %% fold="Code of the measurement"
by_32 = measure(
    "repeat_32bit",
    variants={
        "4-byte loads": lambda op, repeat, n=MANY: variant_of(n, 32, op, repeat, 4),
        "16-byte loads": lambda op, repeat, n=MANY: variant_of(n, 32, op, repeat),
    },
    cases=sweep(fma=(1, 16, 32, 48, 64, 80, 96, 128, 256, 512), multiply=(1, 32, 64, 96, 128, 512)),
    count_case={"op": "fma", "repeat": 80, "n": 4096},
    bytes=lambda op, repeat, n=MANY: 8 * n,
    flop=lambda op, repeat, n=MANY: flop_of(n, op, repeat),
    reference=after,
    tolerance=1e-4,
    reasons={"4-byte loads": "Measuring the knees", "16-byte loads": "Predicting the knees"},
    fold="All 32 rows: FP32",
)
by_16 = measure(
    "repeat_16bit",
    variants={"16-byte loads": lambda op, repeat, n=MANY: variant_of(n, 16, op, repeat)},
    cases=sweep(fma=(1, 8, 16, 24, 32, 40, 48, 64, 128, 512), multiply=(1, 16, 32, 48, 64, 512)),
    count_case={"op": "fma", "repeat": 80, "n": 4096},
    bytes=lambda op, repeat, n=MANY: 4 * n,
    flop=lambda op, repeat, n=MANY: flop_of(n, op, repeat),
    reference=after,
    tolerance=1e-3,
    reasons={"16-byte loads": "Predicting the knees"},
    fold="All 16 rows: FP16 storage, FP32 arithmetic",
)

# %% fold="Code of the figure"
SWEEPS = {
    "FP32": (by_32, "16-byte loads", "fma", 2),
    "FP32, 4-byte loads": (by_32, "4-byte loads", "fma", 2),
    "FP32, multiply only": (by_32, "16-byte loads", "multiply", 1),
    "FP16 storage": (by_16, "16-byte loads", "fma", 2),
}
TIMES = {}
for label, (made, variant, op, _) in SWEEPS.items():
    rows = medians_us(made, "op", "repeat").items()
    TIMES[label] = np.array([(at, us) for (*which, at), us in rows if which == [variant, op]]).T
HAVE = all(np.isfinite(times).all() for _, times in TIMES.values())


def limits_us(repeat, bits):
    """What the bytes of all elements take, and what their multiply-adds take."""
    ceilings = stated(GPU)
    memory = MANY * BYTES[bits] / (ceilings.memory_gb_per_s * 1e3)
    return memory, MANY * 2 * repeat / (ceilings.tflop_per_s["fp32"] * 1e6)


def model(bits):
    """The roofline's time: two straight pieces on logarithmic axes, so three points draw it exactly."""
    repeats = [1, KNEE[bits], 512]
    return repeats, [max(limits_us(repeat, bits)) for repeat in repeats]


for bits in BYTES:
    memory, arithmetic = limits_us(KNEE[bits], bits)
    check(memory, arithmetic, rtol=1e-9, name=f"FP{bits}: both limits at the knee that is drawn")


def rate(label):
    repeats, times = TIMES[label]
    return MANY * SWEEPS[label][3] * repeats / times / 1e6


if HAVE:
    show(
        line_chart(
            [
                Series("FP32", *TIMES["FP32"], role="block"),
                Series("FP32, 4-byte loads", *TIMES["FP32, 4-byte loads"], role="lane"),
                Series("FP16 storage", *TIMES["FP16 storage"], role="tile"),
                Series("FP32, model", *model(32), role="predicted", marks=False),
                Series("FP16 storage, model", *model(16), role="predicted", marks=False),
            ],
            x="multiply-adds per element",
            y="time [µs]",
            log_x=True,
            log_y=True,
            marks=[Mark(f"{KNEE[16]:.0f}", x=KNEE[16]), Mark(f"{KNEE[32]:.0f}", x=KNEE[32])],
            title="Multiply-adds are free up to the knee",
            caption="Times for 2²⁷ elements, recorded on an {machine} (solid) and predicted by the roofline at the data sheet's peaks (dashed). Dotted lines mark the predicted knees.",
        )
    )


# %% fold="Code of the numbers"
from tilewise.measurements import two_digits


def crossing(label):
    """Where the flat start meets the line through the origin and the last point."""
    repeats, times = TIMES[label]
    return times[0] / (times[-1] / repeats[-1])


repeats, times = TIMES["FP32"]
flat = int(max(repeats[times < 1.03 * times[0]], default=1))  # this many multiply-adds are free
of_32 = dict(zip(repeats, times, strict=True))
publish(
    seen={
        "flat": flat,
        "one_us": two_digits(of_32[1]),
        "eighty_more": of_32[80] / of_32[1] - 1,
        "corner_more": of_32[80] / max(of_32[1], of_32[512] * 80 / 512) - 1,
        "knee_32": crossing("FP32"),
        "knee_16": crossing("FP16 storage"),
        "knee_multiply": crossing("FP32, multiply only"),
    }
)

# %% [markdown]
# With 16-byte loads, the curves have the model's shape. Extend the flat start and the final slope of the \FP32 curve,
# and they cross at {{ seen.knee_32 | .0f }}; the model says {{ knee.at_32 | .0f }}. With \FP16 storage they cross at
# {{ seen.knee_16 | .0f }}, where the model says {{ knee.at_16 | .0f }}. The knee of the multiply-only kernel stays near
# that of the \FP32 kernel, at {{ seen.knee_multiply | .0f }}, but the kernel reaches only
# {{ repeat_32bit._16_byte_loads.op_multiply_repeat_512.tflop_per_s | .0f }} TFLOP/s, compared with
# {{ repeat_32bit._16_byte_loads.op_fma_repeat_512.tflop_per_s | .0f }} for multiply-adds.
#
# ??? question "Why is a measured ceiling often half of what the data sheet says, or far less?"
#     Check first what the data sheet counts. It counts a multiply-add as two operations, so code that
#     only multiplies or only adds can reach one half of it at best. Its largest values are for \tensor cores,
#     which ordinary code on single values doesn't use, whatever its data type. And some of them assume structured sparsity, where two of
#     every four matrix elements are zero. Most of what remains usually comes from a lower clock, from other instructions or from stalls.

# %% [markdown]
# The model misses two things. First, close to the ridge the kernel falls short of both limits: 80 multiply-adds take
# {{ seen.corner_more | .0% }} longer than the measured limits predict, since the overlap isn't perfect.
#
# Second, 4-byte loads keep the kernel well below the slope of the roofline: at one multiply-add per element, it moves
# {{ four.tb_per_s | .1f }} TB/s, compared with {{ sixteen.tb_per_s | .1f }} TB/s for `float4` loads. The lesson on
# [hiding latency](occupancy.py) explains why.

# %% fold="Code of the numbers"
publish(
    four={"tb_per_s": recorded("repeat_32bit._4_byte_loads.op_fma_repeat_1.gb_per_s") / 1000},
    sixteen={"tb_per_s": recorded("repeat_32bit._16_byte_loads.op_fma_repeat_1.gb_per_s") / 1000},
)

# %% [markdown]
# ## Below the roofline: too little parallelism
#
# The roofline is an upper bound, and a kernel can be far below it. Compare two more kernels.
#
# `sum_strided` adds up an array, at 1 FLOP per 4 bytes. Thread `me` adds up elements `me`, `me + threads`, `me + 2 * threads` and so on, in
# a *grid-stride loop*.
#
# ??? definition "Grid-stride loop | grid-stride loops"
#     A loop in which a thread handles item i, then i plus the number of all threads, and so on, so that
#     any launch covers any number of items.


# %% tab="Pseudocode"
def sum_strided(x, partial):
    threads = len(partial)
    for me in parallel(threads):
        partial[me] = sum(x[me::threads])


# %% tab="CUDA C"
SUM_STRIDED = Kernel(r"""
// partial[me] = sum of x[me], x[me + threads], ...
// 1-D grid and block of any size; partial has one element per thread.
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
# `chains` does {{ chain.steps | , }} multiply-adds on each element, each of which needs the result of the previous one.
# Its intensity of {{ chain.intensity | , }} FLOP per byte is {{ chain.over_ridge | .0f }}× the ridge, so the roofline
# allows the \FP32 peak. We launch it with one chain, with 1,024 and with a million.


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
// y[i] = x[i] after `steps` dependent multiply-adds, one thread per element.
// 1-D grid of ceil(n / blockDim.x) blocks.
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


# %% fold="Code of the test"
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
publish(
    chain={
        "steps": STEPS,
        "intensity": 2 * STEPS // 8,
        "over_ridge": 2 * STEPS / 8 / stated(GPU).ridge_flop_per_byte(),
    }
)


# %% fold="Code of the measurement"
def torch_column_sums(arrays):
    """The same sums: x as a matrix, one column per thread."""
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
    fold="All rows: grid-stride sum",
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
    reasons={"chains": "Below the roofline: too little parallelism"},
)

# %% fold="Code of the figure"
GB_PER_S = recorded("repeat_32bit.ceilings.memory_gb_per_s")
TFLOP_PER_S = H100.peak_tflop_per_s["fp32"]
RIDGE = TFLOP_PER_S * 1000 / GB_PER_S
chain_rates = 2 * STEPS * np.array([1, 1024, 2**20]) / list(medians_us(high, "n").values()) / 1e6
sum_rate = 2**27 / medians_us(low)["grid-stride sum"] / 1e6
publish(
    ends={
        "sum_cap": sum_rate / (0.25 * GB_PER_S / 1000),
        "one_cap": chain_rates[0] / TFLOP_PER_S,
        "many_cap": chain_rates[-1] / TFLOP_PER_S,
    }
)
if HAVE and np.isfinite([*chain_rates, sum_rate]).all():
    add = recorded("vec_add.torch_add.n_67108864.tflop_per_s")
    show(
        line_chart(
            [
                Series(
                    "roofline",
                    [0.05, RIDGE, 4e4],
                    [0.05 * GB_PER_S / 1000, TFLOP_PER_S, TFLOP_PER_S],
                    role="predicted",
                    marks=False,
                ),
                Series("test kernel, REPEAT 1 to 512", repeats / 4, rate("FP32")),
                Series("vector addition", [1 / 12], [add], line=False, role="tile"),
                Series("grid-stride sum", [1 / 4], [sum_rate], line=False, role="read"),
                *(
                    Series(label, [2 * STEPS / 8], [reached], line=False, role="lane")
                    for label, reached in zip(
                        ("1 chain", "1,024 chains", "2²⁰ chains"), chain_rates, strict=True
                    )
                ),
            ],
            x="arithmetic intensity [FLOP/B]",
            y="rate [TFLOP/s]",
            log_x=True,
            log_y=True,
            height=460,
            title="Same intensity, very different rates: parallelism decides",
            caption="The rates of the kernels, recorded on an {machine}, and its roofline. The slope is the highest bandwidth that we measured; the ceiling is the data sheet's peak. The three launches of chains have the same intensity.",
        )
    )

# %% [markdown]
# The sum reaches {{ ends.sum_cap | .0% }} of the measured bandwidth, the slope in the figure. One chain reaches
# {{ ends.one_cap | .4% }} of the peak and a million reach {{ ends.many_cap | .0% }}. A single chain uses one of the
# GPU's thousands of arithmetic units, and even this unit mostly waits, because every step needs the result of the
# previous one.
#
# So before you tune a kernel, check how close it is to its [roofline](../../all-kernels.md). On the slope, only a
# higher intensity helps. Below the roofline, look for too few threads, exposed \latency or launch \overhead, the
# subjects of the next lessons.

# %% [markdown]
# ## The answer
#
# With the test kernel's 4-byte loads, one multiply-add per value takes
# {{ repeat_32bit._4_byte_loads.op_fma_repeat_1.median | us }}, and 80 take
# {{ repeat_32bit._4_byte_loads.op_fma_repeat_80.median | us }}. With `float4` loads, one
# multiply-add takes {{ seen.one_us }} µs, and {{ seen.flat }} take just as long; 80 take {{ seen.eighty_more | .0% }} longer than one.

# %% [markdown]
# ## Takeaways
#
# - Two divisions bound every kernel: bytes over bandwidth, and FLOPs over the arithmetic rate. Data movement and
#   arithmetic overlap, so the longer of the two sets the bound.
# - The ridge of an H100 is at {{ h100.ridge | .0f }} FLOP per byte in \FP32 and at
#   {{ h100.tensor_ridge | .0f }} for \FP16 on \tensor cores. Left of it, save bytes; right of it, save
#   operations.
# - Intensity is partly your choice. Storing $S$ and $P$ divides attention's intensity by
#   $1 + N/d$, but that costs time only if the intensity ends up left of the
#   ridge.

# %% [markdown]
# ## In your own kernel
#
# Run Nsight Compute with `--section SpeedOfLight` and compare `dram__throughput.avg.pct_of_peak_sustained_elapsed` with
# `sm__throughput.avg.pct_of_peak_sustained_elapsed`; `--section SpeedOfLight_RooflineChart` draws the roofline itself.
# Nsight regards a resource above about 80% as near its limit. If that's DRAM, move fewer bytes; if it's the \SM, the
# section's breakdown names the busiest unit. If both are low, look for too little parallelism, exposed \latency or
# launch \overhead first.

# %% fold="The whole cell, with two wrong answers that the tests reject"
from tilewise import exercise


def attention_intensity(N, d, bytes_each, stored):
    flop = 2 * (2 * N * N * d)
    compulsory = 4 * N * d  # Q, K, V in; O out
    extra = 4 * N * N if stored else 0  # S and P, each written and read back
    return flop / (bytes_each * (compulsory + extra))


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
    "Arithmetic intensity of attention",
    """
    Write `attention_intensity(N, d, bytes_each, stored)`: the FLOP per byte of one attention head. Count
    only the two matrix multiplications, $QK^T$ and $PV$. Q, K, V and O have N rows and d columns, and an element takes
    `bytes_each` bytes. If `stored` is true, S and P are each written to device memory and read back
    once. If they aren't stored and elements take 4 bytes, at which N does attention become compute-bound on
    an H100? And why doesn't d matter there?
    """,
    answer=attention_intensity,
    tests=intensity_tests,
    wrong=[{"4 * N * N if": "2 * N * N if"}, {"bytes_each * ": ""}],
    hint="For each matrix, count its elements and how often each is read or written. Then count the FLOPs of one multiplication.",
    explanation="Without S and P the intensity is N / bytes_each, because both FLOPs and bytes are proportional to d. With 4-byte elements it passes a ridge of 20 at N = 80.",
)

# %% [markdown]
# Everything on this page assumes that the GPU is busy all the time. With short kernels, it isn't: it spends much of the
# time waiting for the next launch. Next: [launch overhead, CUDA graphs and five bottlenecks](launches.py).
