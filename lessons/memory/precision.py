# ---
# title: "Number formats: what fewer bits buy and cost"
# needs: [speed/roofline, machine/warps]
# summary: "Add 5,000 ones in FP16 and the sum is 2,048. Where did the others go, and when are 16 bits enough?"
# description: "What FP16, BF16, FP8 and INT8 save in bytes and time, and what they cost: rounding, overflow, accumulators that stop growing, outliers that ruin a scale."
# date: 2026-11-21
# tags: [precision, FP16, BF16, quantisation]
# ---

# %% [markdown]
# Add up 5,000 ones in FP16, a 16-bit floating-point format, and you get {{ ones.narrow | ,.0f }}. Nothing
# overflowed. Where did the other {{ ones.lost | , }} go?
#
# You'd still like to use 16 bits: many kernels spend their time on memory traffic, and 16 bits halve it. Which values
# can be stored in 16 bits, and which have to stay in 32?

# %% [markdown]
# ## FP16 and FP32 accumulators
#
# The variable in which a kernel accumulates a sum is called its *accumulator*. Here one thread adds up FP16 values in
# an FP16 accumulator and in an FP32 one.
#
# ??? definition "Accumulator | accumulators"
#     The variable to which the terms of a sum are added.
#
# ??? definition "FP32"
#     The 32-bit floating-point format: 8 exponent bits and 23 fraction bits.
#
# ??? definition "FP16"
#     A 16-bit format with 5 exponent bits and 10 fraction bits; its largest finite value is 65,504.


# %% tab="Pseudocode"
import numpy as np


def sum_two_ways(x, n, narrow, wide):
    acc16, acc32 = np.float16(0), np.float32(0)
    for i in range(n):
        # [accumulate
        acc16 = np.float16(acc16 + x[i])
        acc32 = np.float32(acc32 + np.float32(x[i]))
        # accumulate]
    narrow[0] = acc16
    wide[0] = acc32


# %% tab="CUDA C"
from tilewise import Kernel

SUM_TWO_WAYS = Kernel(r"""
#include <cuda_fp16.h>

// The sum of x[0..n-1] in FP16 and in FP32. One thread does it all; launch one block.
extern "C" __global__
void sum_two_ways(const __half* x, int n, __half* narrow, float* wide) {
    if (blockIdx.x > 0 || threadIdx.x > 0) return;
    __half acc16 = __float2half(0.0f);
    float acc32 = 0.0f;
    for (int i = 0; i < n; ++i) {
        // [accumulate
        acc16 = __hadd(acc16, x[i]);
        acc32 += __half2float(x[i]);
        // accumulate]
    }
    *narrow = acc16;
    *wide = acc32;
}
""")

# %% [markdown]
# Launch it on 5,000 ones:

# %%
x = np.ones(5000, dtype=np.float16)
narrow = np.zeros(1, dtype=np.float16)
wide = np.zeros(1, dtype=np.float32)
SUM_TWO_WAYS(x, 5000, narrow, wide, grid=1, block=32)
print("FP16 accumulator:", float(narrow[0]))
print("FP32 accumulator:", float(wide[0]))

# %% [markdown]
# ## Floating-point formats: sign, exponent and fraction
#
# A floating-point value has a sign bit, an *exponent* and a *fraction*. The exponent says which two powers of two the
# value lies between, and the fraction divides that interval into equal steps. So exponent bits buy *dynamic range* and
# fraction bits buy *precision*. A value between two steps is rounded to the nearer one; in a tie, to the one whose last
# fraction bit is 0.
#
# FP16 and BF16 make different trade-offs: FP16 has three more fraction bits, whereas BF16 has the range of FP32. The
# two [FP8 formats](https://arxiv.org/abs/2209.05433) (Micikevicius et al., 2022) offer the same choice in 8 bits. Pick
# a value and compare.
#
# ??? definition "Dynamic range"
#     The range from the smallest positive value to the largest that a format can represent.
#
# ??? definition "Rounding error"
#     The difference between an exact result and the representable value that replaces it.
#
# ??? definition "BF16"
#     A 16-bit format with FP32's 8 exponent bits and 7 fraction bits.
#
# ??? definition "TF32"
#     The part of an FP32 value that tensor cores use: 8 exponent bits and 10 fraction bits. In memory it
#     takes 32 bits.
#
# ??? definition "FP8"
#     Two 8-bit formats, E4M3 and E5M2, named after their numbers of exponent (E) and fraction, or mantissa,
#     (M) bits.

# %% fold="Code of the figure"
from dataclasses import dataclass

from tilewise import Guess, ceil_div, integers, measure, normal, parallel, show
from tilewise.figures import BitFormat, Held, Series, bit_fields, line_chart


@dataclass(frozen=True)
class Format:
    exponent_bits: int
    fraction_bits: int
    largest: float

    def fields(self, value):
        """Exponent and fraction as integers, and the value that they encode; inf beyond the range."""
        bias = 2 ** (self.exponent_bits - 1) - 1
        power = max(int(np.frexp(abs(value))[1]) - 1, 1 - bias)
        places = int(np.rint(abs(value) / 2.0 ** (power - self.fraction_bits)))  # ties to even
        rounded = places * 2.0 ** (power - self.fraction_bits)
        if rounded > self.largest:  # infinity; FP8 E4M3 has none, and its last code is NaN
            return 2**self.exponent_bits - 1, 7 if self.largest == 448 else 0, np.inf
        if places == 2 ** (self.fraction_bits + 1):
            power, places = power + 1, places // 2
        exponent = power + bias if places >= 2**self.fraction_bits else 0
        return exponent, places % 2**self.fraction_bits, rounded


FORMATS = {
    "FP32": Format(8, 23, float(np.finfo(np.float32).max)),
    "TF32": Format(8, 10, (2 - 2.0**-10) * 2.0**127),
    "BF16": Format(8, 7, (2 - 2.0**-7) * 2.0**127),
    "FP16": Format(5, 10, 65504.0),
    "FP8 E5M2": Format(5, 2, 57344.0),
    "FP8 E4M3": Format(4, 3, 448.0),
}
VALUES = {
    "1e-8": 1e-8,
    "0.1": 0.1,
    "1/3": 1 / 3,
    "3.14159": 3.14159,
    "2,049": 2049.0,
    "70,000": 70000.0,
    "16,777,217": 16777217.0,
    "1e39": 1e39,
}


def in_bits(name, value):
    kind = FORMATS[name]
    exponent, fraction, rounded = kind.fields(value)
    bits = f"0{exponent:0{kind.exponent_bits}b}{fraction:0{kind.fraction_bits}b}"
    if not np.isfinite(rounded):
        label = "NaN: overflow" if fraction else "∞: overflow"
    elif rounded == value:
        label = "exact"
    else:
        label = (
            f"{rounded:.6g}, {'underflow' if not rounded else f'error {abs(rounded - value) / value:.2g}'}"
        )
    return Held(bits, label)


show(
    bit_fields(
        [BitFormat(name, kind.exponent_bits, kind.fraction_bits) for name, kind in FORMATS.items()],
        {text: [in_bits(name, value) for name in FORMATS] for text, value in VALUES.items()},
        start="0.1",
        title="Sixteen bits buy range or precision, not both",
        caption="One value in each format: sign, exponent and fraction after rounding to nearest, and the relative error. Filled boxes are ones.",
    )
)

# %% [markdown]
# ## Summation error: why a sum stops growing
#
# Between 2,048 and 4,096, FP16's ten fraction bits give 1,024 steps, so neighbouring values are 2 apart. The
# exact sum 2,049 is halfway between 2,048 and 2,050, and the tie goes to 2,048, whose last fraction bit is 0.
# So this 1 is lost, and so is every 1 after it.
#
# With $f$ fraction bits, a sum of ones stops growing at $2^{f+1}$: at {{ ones.stop_bf16 | ,.0f }} in BF16, and even in FP32
# at $2^{24}$, about 17 million.
#
# Sums of other values lose a little in nearly every addition. The figure shows the errors of sums of random values
# between 0 and 1. A pairwise sum adds adjacent values, then adjacent sums, and so on, so both operands always have
# about the same size. Rounding errors then accumulate over $\log_2 n$ levels instead of $n$ steps ([Higham,
# 1993](https://doi.org/10.1137/0914050)).

# %% fold="Code of the check and of the numbers"
from tilewise import agree, bf16, case, check, output, publish, uniform


def adding(n, x=None):
    x = uniform(n, low=-1.0, high=2.0, dtype="float16") if x is None else x
    results = {"narrow": output(1, dtype="float16"), "wide": output(1)}
    return case(x=x, n=n, **results, grid=1, block=32)


agree(sum_two_ways, SUM_TWO_WAYS, [adding(n) for n in (1, 77, 1000)])
check([float(narrow[0]), float(wide[0])], [2048, 5000], name="5,000 ones")
counted = np.add.accumulate(np.ones(2**24 + 1000, np.float32))  # sequentially, in FP32
bf16_sum = np.float32(0)
for _ in range(1000):
    bf16_sum = bf16.values(bf16.bits(bf16_sum + np.float32(1)))
stops = {"BF16": float(bf16_sum), "FP16": float(narrow[0]), "FP32": float(counted[-1])}
check(
    list(stops.values()),
    [2.0 ** (FORMATS[name].fraction_bits + 1) for name in stops],
    name="a sum of ones stops growing at 2 to the power of the fraction bits plus 1",
)
publish(
    ones={
        "narrow": float(narrow[0]),
        "lost": 5000 - int(narrow[0]),
        "stop_bf16": stops["BF16"],
    }
)

# %% fold="Code of the figure"
LENGTHS = 2 ** np.arange(2, 16)
DRAWN = np.random.default_rng(5).random((16, LENGTHS[-1])).astype(np.float16)


def pairwise(values):
    """Pairwise sums in FP16."""
    while values.shape[1] > 1:
        values = (values[:, ::2] + values[:, 1::2]).astype(np.float16)
    return values[:, 0]


def step_by_step(values, rounded):
    sums, at = np.empty(values.shape, np.float32), np.zeros(len(values), np.float32)
    for i in range(values.shape[1]):
        at = rounded(at + values[:, i].astype(np.float32))
        sums[:, i] = at
    return sums


RIGHT = np.cumsum(DRAWN, axis=1, dtype=np.float64)[:, LENGTHS - 1]
SUMS = {
    "FP16": np.add.accumulate(DRAWN, axis=1)[:, LENGTHS - 1],
    "BF16": step_by_step(DRAWN, lambda sums: bf16.values(bf16.bits(sums)))[:, LENGTHS - 1],
    "FP16, pairwise": np.stack([pairwise(DRAWN[:, :length]) for length in LENGTHS], axis=1),
    "FP32": np.add.accumulate(DRAWN, axis=1, dtype=np.float32)[:, LENGTHS - 1],
}
with np.errstate(invalid="ignore"):
    OFF = {
        label: np.sqrt(np.mean((sums.astype(float) / RIGHT - 1) ** 2, axis=0)) for label, sums in SUMS.items()
    }
publish(
    off={"numbers": int(LENGTHS[-1])}
    | {name.lower().replace(", ", "_"): float(values[-1]) for name, values in OFF.items()}
)
show(
    line_chart(
        [
            Series(label, LENGTHS[OFF[label] > 0], OFF[label][OFF[label] > 0], role=role)
            for label, role in {
                "BF16": "read",
                "FP16": "warp",
                "FP16, pairwise": "tile",
                "FP32": "block",
            }.items()
        ],
        x="values added",
        y="relative error",
        log_x=True,
        log_y=True,
        title="Sequential sums stop growing in 16 bits; pairwise sums don't",
        caption="Root-mean-square relative error of sixteen sums of random FP16 values between 0 and 1, compared with float64. In FP32, the shortest sums are exact, so this logarithmic axis can't show them.",
    )
)

# %% [markdown]
# After {{ off.numbers | , }} values, the FP16 accumulator has lost {{ off.fp16 | .0%}} of the sum, but the pairwise sum,
# also in FP16, is off by only {{ off.fp16_pairwise | .2% }}.
#
# The usual remedy is *mixed precision*: store and multiply in 16 bits, accumulate in FP32
# ([Micikevicius et al., 2018](https://arxiv.org/abs/1710.03740)). The product of two FP16 values has at most 22
# significant bits and FP32 has 24, so only the additions round.
#
# ??? definition "Mixed precision"
#     Using a narrow format for storage and multiplication, and a wider one for accumulators and other values that need
#     it.

# %% fold="Code of the check"
factors = np.random.default_rng(3).integers(0, 0x7C00, (2, 100_000)).astype(np.uint16).view(np.float16)
check(
    factors[0].astype(np.float32) * factors[1].astype(np.float32),
    factors[0].astype(np.float64) * factors[1].astype(np.float64),
    name="100,000 products of FP16 values, exact in FP32",
)

# %% [markdown]
# ## ReLU in FP16: half the bytes
#
# What do fewer bits buy? ReLU sets negative values to zero. Per element, it performs one operation and moves
# {{ relu.bytes_32 }} bytes in FP32 or {{ relu.bytes_16 }} in FP16, so FP16 doubles the \intensity. ReLU is
# memory-bound, so the \roofline predicts that its time halves. ReLU loses no accuracy, because taking a maximum
# involves no rounding.[^nan]
#
# [^nan]: A common misconception: `fmaxf(x, 0.0f)` does the same as `np.maximum(x, 0)`. They differ if `x` is NaN:
#     CUDA's function then returns 0, while NumPy and PyTorch return NaN.


# %% tab="Pseudocode"
def relu(x, y):
    for i in parallel(len(x)):
        y[i] = max(x[i], 0)


# %% tab="CUDA C"
RELU = Kernel(r"""
// y = max(x, 0). Launch 1-D, with at least n threads in total.
extern "C" __global__
void relu(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = fmaxf(x[i], 0.0f);
}
""")

RELU_HALF = Kernel(r"""
#include <cuda_fp16.h>

extern "C" __global__
void relu(const __half* x, __half* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = __hmax(x[i], __float2half(0.0f));  // New: 2 bytes in, 2 out
}
""")

# %% fold="Two, four and eight elements per thread"
RELU_FOUR = Kernel(r"""
extern "C" __global__
void relu_four(const float* x, float* y, int n) {
    int i = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
    if (i + 3 < n) {
        float4 v = *(const float4*)(x + i);
        *(float4*)(y + i) = make_float4(fmaxf(v.x, 0.0f), fmaxf(v.y, 0.0f),
                                        fmaxf(v.z, 0.0f), fmaxf(v.w, 0.0f));
    } else {
        for (; i < n; ++i) y[i] = fmaxf(x[i], 0.0f);
    }
}
""")

RELU_TWO = Kernel(r"""
#include <cuda_fp16.h>

extern "C" __global__
void relu_two(const __half* x, __half* y, int n) {
    int i = 2 * (blockIdx.x * blockDim.x + threadIdx.x);
    __half zero = __float2half(0.0f);
    if (i + 1 < n)
        *(__half2*)(y + i) = __hmax2(*(const __half2*)(x + i), __half2half2(zero));
    else if (i < n)
        y[i] = __hmax(x[i], zero);
}
""")

RELU_EIGHT = Kernel(r"""
#include <cuda_fp16.h>

extern "C" __global__
void relu_eight(const __half* x, __half* y, int n) {
    int i = 8 * (blockIdx.x * blockDim.x + threadIdx.x);
    __half zero = __float2half(0.0f);
    if (i + 7 < n) {
        uint4 words = *(const uint4*)(x + i);
        __half2* pairs = (__half2*)&words;
        #pragma unroll
        for (int j = 0; j < 4; ++j)
            pairs[j] = __hmax2(pairs[j], __half2half2(zero));
        *(uint4*)(y + i) = words;
    } else {
        for (; i < n; ++i) y[i] = __hmax(x[i], zero);
    }
}
""")


# %% fold="Code of the checks"
def relu_case(n, bits=32, each=1):
    kind = f"float{bits}"
    return case(
        x=normal(n, dtype=kind), y=output(n, dtype=kind), n=n, grid=ceil_div(n, 256 * each), block=256
    )


for kernel, bits, each in (
    (RELU, 32, 1),
    (RELU_FOUR, 32, 4),
    (RELU_HALF, 16, 1),
    (RELU_TWO, 16, 2),
    (RELU_EIGHT, 16, 8),
):
    agree(relu, kernel, [relu_case(n, bits, each) for n in (1, 255, 1003)])

with_nan = np.array([np.nan, -1.0, 2.0], np.float32)
clamped = np.empty(3, np.float32)
RELU(with_nan, clamped, 3, grid=1, block=32)
check(clamped, [0.0, 0.0, 2.0], name="fmaxf makes a NaN 0")
assert np.isnan(np.maximum(with_nan, 0)[0])


# %% [markdown]
# Run all five ReLU kernels on the same number of elements. Which of them load as few sectors as possible, and which
# issue the fewest requests?

# %% fold="Code of the run"
from tilewise import try_it

RELUS = {
    "float": (RELU, 32, 1),
    "float4 loads": (RELU_FOUR, 32, 4),
    "half": (RELU_HALF, 16, 1),
    "half2 loads": (RELU_TWO, 16, 2),
    "8 halves per load": (RELU_EIGHT, 16, 8),
}
try_it(
    {name: lambda n, how=how: relu_case(n, *how) for name, (_, *how) in RELUS.items()},
    {name: kernel for name, (kernel, *_) in RELUS.items()},
    n=(1, 1000, 4096),
)


# %% fold="Code of the measurement"
def torch_relu(arrays):
    import torch

    x, y = (torch.as_tensor(arrays[name], device="cuda") for name in "xy")
    return lambda: torch.clamp(x, min=0.0, out=y)


relu_32 = measure(
    "relu_32bit",
    variants={
        "4 bytes per load": lambda n: RELU.on(relu_case(n)),
        "16 bytes per load": lambda n: RELU_FOUR.on(relu_case(n, each=4)),
    },
    cases=[{"n": 2**26}],
    count_case={"n": 2**14},
    bytes=lambda n: 8 * n,
    flop=lambda n: n,
    library={"torch": torch_relu},
    reference=lambda x: {"y": np.maximum(x, 0)},
    tolerance=0.0,
    fold="ReLU in FP32, as measured",
)
relu_16 = measure(
    "relu_16bit",
    variants={
        "2 bytes per load": lambda n: RELU_HALF.on(relu_case(n, 16)),
        "4 bytes per load": lambda n: RELU_TWO.on(relu_case(n, 16, 2)),
        "16 bytes per load": lambda n: RELU_EIGHT.on(relu_case(n, 16, 8)),
    },
    cases=[{"n": 2**26}],
    count_case={"n": 2**14},
    bytes=lambda n: 4 * n,
    flop=lambda n: n,
    library={"torch": torch_relu},
    reference=lambda x: {"y": np.maximum(x, 0)},
    tolerance=0.0,
    reasons={"2 bytes per load": "ReLU in FP16: half the bytes"},
    fold="ReLU in FP16, as measured",
    guess=Guess(
        "ReLU in FP16: how many times faster is it if each load fetches eight elements instead of one?",
        of="16 bytes per load",
        over="2 bytes per load",
        between=(0.4, 16.0),
        models={"if only bytes count": 1.0, "if only loads count": 8.0},
        because="Both touch the same sectors, but with one element per load each thread has fewer bytes in flight.",
    ),
)


# %% fold="Code of the table"
from tilewise import Table
from tilewise.measurements import medians_us, recorded
from tilewise.outputs import Column

N_RELU = 2**26
RELU_US = {
    (bits, int(label.split()[0])): us
    for bits, made in ((32, relu_32), (16, relu_16))
    for label, us in medians_us(made).items()
    if label != "torch"
}
publish(
    relu={
        "bytes_32": 8,
        "bytes_16": 4,
        "ratio": RELU_US[16, 16] / RELU_US[32, 16],
        "naive_ratio": RELU_US[16, 2] / RELU_US[32, 4],
    }
)
show(
    Table(
        ["format", "bytes per load", "time [µs]", "GB/s"],
        [
            [f"FP{bits}", load, us, round(bits // 4 * N_RELU / us / 1e3, 1)]
            for (bits, load), us in RELU_US.items()
        ],
        caption="ReLU of 2²⁶ elements on an {machine}.",
    )
)

# %% [markdown]
# With 16 bytes per load in both formats, FP16 takes {{ relu.ratio | .0% }} of FP32's time, as predicted. With one
# element per load, it takes {{ relu.naive_ratio | .0% }}: at 2 bytes per load, the [warps on an
# SM](../speed/occupancy.py) can't keep enough bytes in flight. So when you switch to a narrower format, \vectorise the
# loads too.

# %% [markdown]
# ## Overflow in exp
#
# $e^x$ overflows FP16 at $x$ = {{ over.fp16 | .1f }}, and FP32 and BF16 at {{ over.fp32 | .1f }}. Attention \logits can
# be that large. A \softmax therefore subtracts the row's maximum from every logit first. The largest difference is then
# 0 and its exponential 1, or so you'd expect.

# %% fold="Code of the numbers"
LIMIT = {
    name: float(np.log(kind.largest * (1 + 2.0 ** -(kind.fraction_bits + 2))))
    for name, kind in FORMATS.items()
}
publish(over={"fp16": LIMIT["FP16"], "fp32": LIMIT["FP32"]})

# %% [markdown]
# ## Fused multiply-add: a zero that is not zero
#
# A *fused multiply-add* computes $a \cdot b + c$ in one instruction and rounds only once. It's faster and
# more accurate than two instructions, so the compiler uses it wherever it can.
#
# In a softmax, this instruction can surprise you. The stored maximum $m$ of the scaled logits is a *rounded* product. If the
# compiler fuses $x \cdot \text{scale} - m$, then $m$ is subtracted from the *exact* product. For the largest logit, the
# result is the rounding error of $m$, which is usually not 0.[^fmad] For example, with three decimal digits,
# $1.11 \times 1.11 = 1.2321$ is stored as 1.23, and the fused difference is 0.0021.
#
# ??? definition "Fused multiply-add"
#     One instruction for a·b + c with a single rounding at its end.
#
# [^fmad]: For plain `x[i] * scale - m`, nvcc generates the fused form unless you pass `-fmad=false`.


# %% tab="Pseudocode"
def shift_two_ways(x, fused, separate, scale):
    for i in parallel(len(x)):
        product = np.float64(x[i]) * np.float64(np.float32(scale))  # exact
        m = np.float32(product)
        fused[i] = product - m
        separate[i] = np.float32(product) - m


# %% tab="CUDA C"
SHIFT = Kernel(r"""
// x * scale - m, where m is x * scale rounded: fused and separate.
// Launch 1-D, with at least n threads in total.
extern "C" __global__
void shift_two_ways(const float* x, float* fused, float* separate,
                    int n, float scale) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float m = __fmul_rn(x[i], scale);   // stored, so rounded
    fused[i] = fmaf(x[i], scale, -m);   // exact product minus m
    separate[i] = __fsub_rn(__fmul_rn(x[i], scale), m);
}
""")


# %% fold="Code of the check and of the table"


def shifting(n, largest, d=128):
    x = uniform(n, low=largest / 2, high=largest)
    return case(
        x=x,
        fused=output(n),
        separate=output(n),
        n=n,
        scale=float(d) ** -0.5,
        grid=ceil_div(n, 256),
        block=256,
    )


agree(shift_two_ways, SHIFT, [shifting(n, 1000.0) for n in (1, 255, 1003)])
rows, residual = [], {}
for largest in (10.0, 1e3, 1e4, 1e6):
    ran = SHIFT.on(shifting(4096, largest)).run()
    worst = float(np.abs(ran["fused"]).max())
    residual[f"{largest:.0f}"] = worst
    rows.append([f"{largest:,.0f}", worst, float(np.expm1(worst)), float(np.abs(ran["separate"]).max())])
logit = np.float32(133120.0**2 * 64)  # the queries and keys, d = 64
base_2 = np.float32(np.log2(np.e) / 8)
excess = float(np.float64(logit) * np.float64(base_2) - np.float64(logit * base_2))
check(excess > 128, True, name="two to the power of the issue's residual overflows FP32")
publish(residual={"large": np.expm1(residual["1000000"])})
show(
    Table(
        ["logits up to", "largest residual, fused", "error of its exp", "largest residual, separate"],
        rows,
        caption="x · scale − m, where m is the same product rounded to FP32, for 4,096 logits of each size and scale 1/√128. A softmax takes the exponential of this residual.",
    )
)

# %% [markdown]
# The exponential turns this residual into a factor. With logits up to a thousand before scaling, the residual is
# harmless; with logits up to a million, the largest exponential is off by {{ residual.large | .1% }}. All exponentials
# of a row are off by about the same factor, so most of it cancels when softmax divides by their sum. But with even
# larger logits, the exponential overflows. This made FlashAttention [return NaN in
# PyTorch](https://github.com/pytorch/pytorch/issues/121558), which is why FlashAttention gained [an option to avoid the
# instruction](https://github.com/Dao-AILab/flash-attention/pull/893).
#
# ??? question "Is it better to forbid fused multiply-adds?"
#     Usually not: they're faster and more accurate. Trouble starts when you mix them with separate
#     instructions: a product that is rounded in one place and exact in another no longer cancels. So round in both places or in neither, for instance by computing the maximum and the
#     difference with the same instruction. Disable them everywhere only to compare two
#     programs bit for bit.

# %% [markdown]
# ## Quantisation: weights in INT8
#
# To generate one token for one user, a language model multiplies large matrices by a single vector. Each weight is
# loaded for just one multiply-add, so only the bytes matter. *Quantisation* to INT8 stores each weight as an integer
# $q_{ik}$ from −127 to 127, with one scale $s_i$ per row: $A_{ik} \approx q_{ik} \cdot s_i$. In the row (0.5, −1.2,
# 0.25, 2), the largest weight becomes 127, so the scale is 2/127 and the row is stored as (32, −76, 16, 127).
#
# In the kernel, one warp computes one row. Whatever the format, each lane loads four weights at a time, converts them
# if necessary and accumulates in FP32. At the end, \warp shuffles add up the 32 accumulators.
#
# ??? definition "Quantisation"
#     Storing values with fewer bits, usually as integers with a common scale.


# %%
def quantised(A):
    """Integers from -127 to 127, and one scale per row."""
    scale = np.abs(A).max(axis=1) / 127
    q = np.rint(A / scale[:, None]).astype(np.int8)
    return q, scale.astype(np.float32)


check(
    quantised(np.array([[0.5, -1.2, 0.25, 2.0]]))[0],
    [[32, -76, 16, 127]],
    rtol=0.0,
    name="the row of the example in INT8",
)


# %% tab="Pseudocode"
def matvec(A, scale, x, y):
    rows, columns = A.shape
    for i in parallel(rows):
        s = 0.0
        for k in range(columns):
            s += A[i, k] * x[k]
        y[i] = s * scale[i]


# %% tab="CUDA C"
MATVEC = Kernel(r"""
// y = (scale * A) x: A is INT8, rows by columns, row-major, with one scale per row.
// One warp per row: grid = ceil(rows / 8), block = 256. columns must be a multiple of 4.
extern "C" __global__
void matvec(const signed char* A, const float* scale, const float* x,
            float* y, int rows, int columns) {
    int lane = threadIdx.x % 32;
    int i = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;  // one warp per row
    if (i >= rows) return;
    const char4* a = (const char4*)(A + (long long)i * columns);
    float s = 0.0f;
    #pragma unroll 8
    for (int k = lane; k < columns / 4; k += 32) {
        char4 w = a[k];
        float4 v = ((const float4*)x)[k];
        s += w.x * v.x + w.y * v.y + w.z * v.z + w.w * v.w;
    }
    for (int d = 16; d > 0; d /= 2)  // add lane + d's accumulator
        s += __shfl_down_sync(0xffffffffu, s, d);
    if (lane == 0) y[i] = s * scale[i];
}
""")

# %% fold="The same kernel in FP16 and FP32"
MATVEC_HALF = Kernel(r"""
#include <cuda_fp16.h>

extern "C" __global__
void matvec(const __half* A, const float* x, float* y, int rows, int columns) {
    int lane = threadIdx.x % 32;
    int i = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (i >= rows) return;
    const uint2* a = (const uint2*)(A + (long long)i * columns);
    float s = 0.0f;
    #pragma unroll 8
    for (int k = lane; k < columns / 4; k += 32) {
        uint2 w = a[k];  // four weights
        float4 v = ((const float4*)x)[k];
        float2 low = __half22float2(*(__half2*)&w.x);
        float2 high = __half22float2(*(__half2*)&w.y);
        s += low.x * v.x + low.y * v.y + high.x * v.z + high.y * v.w;
    }
    for (int d = 16; d > 0; d /= 2)
        s += __shfl_down_sync(0xffffffffu, s, d);
    if (lane == 0) y[i] = s;
}
""")

MATVEC_FLOAT = Kernel(r"""
extern "C" __global__
void matvec(const float* A, const float* x, float* y, int rows, int columns) {
    int lane = threadIdx.x % 32;
    int i = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (i >= rows) return;
    const float4* a = (const float4*)(A + (long long)i * columns);
    float s = 0.0f;
    #pragma unroll 8
    for (int k = lane; k < columns / 4; k += 32) {
        float4 w = a[k];
        float4 v = ((const float4*)x)[k];
        s += w.x * v.x + w.y * v.y + w.z * v.z + w.w * v.w;
    }
    for (int d = 16; d > 0; d /= 2)
        s += __shfl_down_sync(0xffffffffu, s, d);
    if (lane == 0) y[i] = s;
}
""")


# %% fold="Code of the cases"
def product(rows, columns, bits):
    if bits == 8:
        given = {
            "A": integers(rows, columns, low=-127, high=128, dtype="int8"),
            "scale": uniform(rows, low=0.01, high=0.02),
        }
    else:
        given = {"A": normal(rows, columns, dtype=f"float{bits}")}
    sizes = {"rows": rows, "columns": columns}
    return case(**given, x=normal(columns), y=output(rows), **sizes, grid=ceil_div(rows, 8), block=256)


def plain_matvec(A, x, y):
    rows, columns = A.shape
    for i in parallel(rows):
        s = 0.0
        for k in range(columns):
            s += float(A[i, k]) * float(x[k])
        y[i] = s


SIZES = [(1, 4), (9, 132), (3, 260)]
agree(matvec, MATVEC, [product(*size, 8) for size in SIZES], rtol=1e-5, atol=1e-4)
for kernel, bits in ((MATVEC_HALF, 16), (MATVEC_FLOAT, 32)):
    agree(plain_matvec, kernel, [product(*size, bits) for size in SIZES], rtol=1e-5, atol=1e-4)


# %% fold="Code of the measurement"
def torch_matvec(arrays):
    import torch

    A, x = (torch.as_tensor(arrays[name], device="cuda") for name in ("A", "x"))
    x = x.to(A.dtype)
    return lambda: torch.mv(A, x)


LARGE = {"rows": 8192, "columns": 8192}
HOW = {
    "cases": [LARGE],
    "count_case": {"rows": 16, "columns": 1024},
    "flop": lambda rows, columns: 2 * rows * columns,
}
matvec_32 = measure(
    "matvec_32bit",
    variants={"FP32": lambda rows, columns: MATVEC_FLOAT.on(product(rows, columns, 32))},
    bytes=lambda rows, columns: 4 * (rows * columns + rows + columns),
    library={"torch.mv": torch_matvec},
    reference=lambda A, x: {"y": A @ x},
    tolerance=1e-3,
    fold="The FP32 kernel, as measured",
    **HOW,
)
matvec_16 = measure(
    "matvec_16bit",
    variants={"FP16": lambda rows, columns: MATVEC_HALF.on(product(rows, columns, 16))},
    bytes=lambda rows, columns: 2 * rows * columns + 4 * (rows + columns),
    library={"torch.mv": torch_matvec},
    reference=lambda A, x: {"y": A @ x},
    tolerance=0.2,
    fold="The FP16 kernel, as measured",
    **HOW,
)
matvec_8 = measure(
    "matvec_8bit",
    variants={"INT8": lambda rows, columns: MATVEC.on(product(rows, columns, 8))},
    bytes=lambda rows, columns: rows * columns + 4 * (2 * rows + columns),
    reference=lambda A, scale, x: {"y": (A.astype(np.float64) @ x) * scale},
    tolerance=1e-3,
    fold="The INT8 kernel, as measured",
    **HOW,
)


# %% fold="Code of the table"
ROWS, COLUMNS = 64, 1024
random = np.random.default_rng(11)
A, x = (
    random.standard_normal((ROWS, COLUMNS)).astype(np.float32),
    random.standard_normal(COLUMNS).astype(np.float32),
)
SIZE = {"rows": ROWS, "columns": COLUMNS, "grid": ceil_div(ROWS, 8), "block": 256}


def off_by(A, bits, true):
    """Relative error of the product with A in this many bits."""
    if bits == 8:
        q, scale = quantised(A)
        ran = MATVEC.on(case(A=q, scale=scale, x=x, y=output(ROWS), **SIZE)).run()
    else:
        kernel = MATVEC_FLOAT if bits == 32 else MATVEC_HALF
        ran = kernel.on(case(A=A.astype(f"float{bits}"), x=x, y=output(ROWS), **SIZE)).run()
    return float(np.linalg.norm(ran["y"] - true) / np.linalg.norm(true))


outlier = A.copy()
outlier[:, 7] = 100.0
ERROR = {bits: off_by(A, bits, A.astype(float) @ x) for bits in (32, 16, 8)}
MADE = {32: matvec_32, 16: matvec_16, 8: matvec_8}
NAMED = {32: "FP32", 16: "FP16", 8: "INT8"}
US = {bits: medians_us(made)[NAMED[bits]] for bits, made in MADE.items()}
WEIGHTS = LARGE["rows"] * LARGE["columns"]
LAUNCH_US = recorded("matvec_8bit.ceilings.launch_us")
READ_GB_PER_S = recorded("matvec_8bit.ceilings.probes.read_gb_per_s")


def e4m3(values):
    """Values up to 448 in FP8 E4M3, rounded to nearest."""
    step = 2.0 ** (np.maximum(np.frexp(values)[1] - 1, -6) - 3)
    return np.rint(values / step) * step


def error_beside(stored):
    """Relative error of the weights, without the outliers."""
    kept = np.delete(outlier, 7, axis=1)
    return float(np.linalg.norm(np.delete(stored, 7, axis=1) - kept) / np.linalg.norm(kept))


some = np.array([0.1, 1 / 3, 3.14159, 0.001, 0.0157, 447.0])
check(e4m3(some), [FORMATS["FP8 E4M3"].fields(one)[2] for one in some], name="six values in E4M3")
q, scale = quantised(outlier)
grouped, group_scale = quantised(outlier.reshape(-1, 32))
row_scale = np.abs(outlier).max(axis=1, keepdims=True) / 448
publish(
    matvec={
        "ratio_8": US[32] / US[8],
        "ratio_16": US[32] / US[16],
        "error_8": ERROR[8],
        "zeros": float(np.mean(q == 0)),
        "outlier_int8": error_beside(q * scale[:, None]),
        "outlier_groups": error_beside((grouped * group_scale[:, None]).reshape(outlier.shape)),
        "outlier_fp8": error_beside(e4m3(outlier / row_scale) * row_scale),
    }
)
show(
    Table(
        ["weights", Column("predicted", "µs"), Column("recorded", "µs"), Column("rate", "GB/s"), "error"],
        [
            [
                f"{NAMED[bits]}, {WEIGHTS * bits / 8e6:.0f} MB",
                LAUNCH_US + WEIGHTS * bits / 8e3 / READ_GB_PER_S,
                US[bits],
                round(WEIGHTS * bits / 8e3 / US[bits], 1),
                f"{ERROR[bits]:.1e}",
            ]
            for bits in (32, 16, 8)
        ],
        caption=f"A matrix of {LARGE['rows']:,} by {LARGE['columns']:,} times a vector on an {{machine}}. Predicted: the time of an empty launch plus the matrix at the fastest read rate measured. Relative error of the result for {ROWS} by {COLUMNS:,} normally distributed weights.",
    )
)

# %% [markdown]
# FP16 is only {{ matvec.ratio_16 | .1f }}× faster than FP32, and INT8 only {{ matvec.ratio_8 | .1f }}×, although INT8
# reads a quarter of the bytes. Why not more? Subtract the time that it takes to read each matrix at the fastest read
# rate. What remains doesn't shrink with the bytes: it's {{ conversion.rest_32 | us }} for FP32 and
# {{ conversion.rest_8 | us }} for INT8. This remainder behaves like a fixed \overhead per launch, so the fewer bytes
# you read, the more it matters.
#
# Could the conversions from INT8 be to blame?
# [FasterTransformer](https://github.com/NVIDIA/FasterTransformer/blob/main/src/fastertransformer/cutlass_extensions/include/cutlass_extensions/interleaved_numeric_conversion.h)
# replaces them with cheaper bit operations. FP32 values above $2^{23}$ are 1 apart, so if $b$, the weight plus 128, is
# written into the lowest byte of the float $2^{23}$, the result is $2^{23} + b$. One subtraction then gives the weight
# as a float.

# %% fold="The INT8 kernel without conversions"
MATVEC_BITS = Kernel(r"""
__device__ float weight(unsigned four, int j) {  // New: byte j as a float
    unsigned bits = __byte_perm(four, 0x4B000000, 0x7540 + j);  // 2^23, byte j
    return __uint_as_float(bits) - 8388736.0f;  // 2^23 + 128
}

extern "C" __global__
void matvec_bits(const signed char* A, const float* scale, const float* x,
                 float* y, int rows, int columns) {
    int lane = threadIdx.x % 32;
    int i = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (i >= rows) return;
    const unsigned* a = (const unsigned*)(A + (long long)i * columns);
    float s = 0.0f;
    #pragma unroll 8
    for (int k = lane; k < columns / 4; k += 32) {
        unsigned w = a[k] ^ 0x80808080u;  // New: weight + 128
        float4 v = ((const float4*)x)[k];
        s += weight(w, 0) * v.x + weight(w, 1) * v.y
           + weight(w, 2) * v.z + weight(w, 3) * v.w;
    }
    for (int d = 16; d > 0; d /= 2)
        s += __shfl_down_sync(0xffffffffu, s, d);
    if (lane == 0) y[i] = s * scale[i];
}
""")

# %% fold="Code of the check and of the measurement"
agree(matvec, MATVEC_BITS, [product(*size, 8) for size in SIZES], rtol=1e-5, atol=1e-4)
measure(
    "matvec_without_conversions",
    variants={
        "conversion instruction": lambda rows, columns: MATVEC.on(product(rows, columns, 8)),
        "magic number": lambda rows, columns: MATVEC_BITS.on(product(rows, columns, 8)),
    },
    bytes=lambda rows, columns: rows * columns + 4 * (2 * rows + columns),
    reference=lambda A, scale, x: {"y": (A.astype(np.float64) @ x) * scale},
    tolerance=1e-3,
    fold="INT8 with and without conversions, as measured",
    **HOW,
)
publish(conversion={f"rest_{bits}": us - bits / 8 * WEIGHTS / READ_GB_PER_S / 1e3 for bits, us in US.items()})

# %% fold="Code that times other sizes on a GPU" needs="gpu" record="sizes"
from tilewise import gpu_here

if gpu_here():
    from tilewise.measurements.side_by_side import Calls, timed_lines

    for rows in (1024, 2048, 4096, 8192):
        calls = Calls()
        for bits, kernel in ((32, MATVEC_FLOAT), (16, MATVEC_HALF), (8, MATVEC)):
            calls.add(NAMED[bits], kernel.on(product(rows, 8192, bits)))
        print(timed_lines(f"{rows} rows", calls.by_label))

# %% fold="Code of the numbers"
from tilewise.measurements.side_by_side import printed_times

rows_us = printed_times("memory/precision", "sizes")  # recorded on an H200
few_us = {bits: rows_us["1024 rows", NAMED[bits]] for bits in (32, 16, 8)}
publish(
    short={
        "rows": LARGE["rows"],
        "all_8": rows_us["8192 rows", "INT8"],
        "few_8": few_us[8],
        "few_32": few_us[32],
        "steps": LARGE["columns"] // 4 // 32,
    }
)
assert not few_us[8] < 0.5 * rows_us["8192 rows", "INT8"], "the text: time hardly falls with the rows"
assert not few_us[32] > 1.2 * few_us[8], "the text says that it isn't the bytes"

# %% [markdown]
# The trick saves little: {{ matvec_without_conversions.magic_number.median | us }} instead of
# {{ matvec_without_conversions.conversion_instruction.median | us }}. So neither bytes nor conversions explain the
# \overhead.
#
# The cause is the latency of each row's loads. On an H200, INT8 takes {{ short.all_8 | us }} for all
# {{ short.rows | , }} rows, but {{ short.few_8 | us }} for only an eighth of them, and FP32 is hardly slower for that
# eighth, at {{ short.few_32 | us }}. With four weights per load, a warp needs {{ short.steps }} steps per row in every
# format, and only a few of its loads are in flight at once.
#
# On normally distributed weights, INT8's error is only {{ matvec.error_8 | .1% }}. But replace one weight per row with
# an *outlier* of 100, and the outlier determines the scale: {{ matvec.zeros | .0% }} of the weights become 0, and the
# relative error of everything but the outliers is {{ matvec.outlier_int8 | .0% }}. There are two remedies. With one
# scale per group of 32 weights, an outlier spoils only its own group, and the error is
# {{ matvec.outlier_groups | .1% }}. In FP8 E4M3 each weight has its own exponent, and the error is
# {{ matvec.outlier_fp8 | .1% }}.[^outliers]
#
# [^outliers]: In practice, outliers are mainly a problem in \activations: [Dettmers et
#     al.](https://arxiv.org/abs/2208.07339) found them in the inputs that large language models multiply by their
#     weights.

# %% [markdown]
# ## Peak throughput by format
#
# Fewer bits also speed up arithmetic. On the GPUs below, \tensor cores perform twice as many operations per second each
# time the number of bits is halved.

# %% fold="Code of the table"
from tilewise.models import device

KINDS = {
    "FP32": "fp32",
    "TF32, tensor cores": "tf32_matrix",
    "16 bits, tensor cores": "fp16_matrix",
    "8 bits, tensor cores": "int8_matrix",
}
PEAKS = [
    [entry, *(device(entry).peak_tflop_per_s[kind] for kind in KINDS.values())]
    for entry in ("A100 SXM 80 GB", "H100 SXM", "B200")
]
for _, _, tf32, half, byte in PEAKS:
    check([half / tf32, byte / half], [2.0, 2.0], rtol=0.01, name="half the bits, twice the operations")
show(
    Table(
        ["GPU", *KINDS],
        PEAKS,
        caption="Dense peak throughput in TFLOP/s, from the data sheets. TF32 counts as 32 bits, and the 8-bit column counts integer operations.",
    )
)

# %% [markdown]
# ## The answer
#
# The sum stopped growing at {{ ones.narrow | ,.0f }} because FP16 has no value between 2,048 and 2,050: each of the {{ ones.lost | , }} missing ones was rounded away.
# Sixteen bits, or eight, are often enough for what you *store*. What you *accumulate* belongs in FP32.

# %% [markdown]
# ## Takeaways
#
# - Store in narrow formats and accumulate in FP32: the first saves bytes, the second keeps long sums accurate.
# - FP16 has more precision; BF16 has the range of FP32. $e^x$ overflows FP16 at {{ over.fp16 | .1f }} and BF16 and FP32
#   at {{ over.fp32 | .1f }}, so a softmax subtracts the maximum first.
# - INT8 with one scale per row has a small error, {{ matvec.error_8 | .1% }} on normally distributed weights, until an
#   outlier sets the scale. Then use smaller groups or FP8.

# %% [markdown]
# ## In your own kernel
#
# In Nsight Compute, check `dram__throughput.avg.pct_of_peak_sustained_elapsed`: only if it's high can a narrower
# storage format alone speed up the kernel. If it falls after the change, widen your loads. Compare the results with a
# float64 reference on real data, and look for FP16 arithmetic in long sums with
# `smsp__sass_thread_inst_executed_op_hadd_pred_on.sum` and `smsp__sass_thread_inst_executed_op_hfma_pred_on.sum`.

# %% fold="Code of the exercise, with three wrong answers that the tests reject"
from tilewise import exercise


def sum_in_16_bits(x):
    values = np.asarray(x, np.float16)
    while len(values) > 1:
        if len(values) % 2:
            values = np.append(values, np.float16(0))
        values = values[::2] + values[1::2]
    return values[0]


def sequential(x):
    s = np.float16(0)
    for value in np.asarray(x, np.float16):
        s = s + value
    return s


def two_halves(x):
    half = len(x) // 2
    return sequential(x[:half]) + sequential(x[half:])


def sum_tests(answer):
    random = np.random.default_rng(2)
    for x in (np.ones(5000), np.ones(1), np.ones(7), 8 * random.random(6001), random.random(33) - 0.25):
        short = x.astype(np.float16)
        given, right = answer(short), float(short.sum(dtype=np.float64))
        assert isinstance(given, np.float16), f"the sum is a {type(given).__name__}, not a float16"
        assert abs(float(given) / right - 1) < 0.01, f"{len(x)} values: {given}, not {right:.1f}"


exercise(
    "Five thousand ones in 16 bits",
    """
    Write `sum_in_16_bits(x)` for an FP16 array with at least one element. Every accumulator has to be FP16, and
    the result must be correct to within 1%. Why isn't it enough to add up two halves of the array
    separately?
    """,
    answer=sum_in_16_bits,
    tests=sum_tests,
    wrong=[sequential, two_halves, {"np.append(values, np.float16(0))": "values[:-1]"}],
    hint="Add neighbouring elements, then neighbouring sums. What happens to the last element if the length is odd?",
    explanation="Each half of 5,000 ones adds up to 2,500, more than 2,048, so it stops too. In a pairwise sum, both operands of an addition have about the same size, and the error grows with the number of levels, not with the number of elements.",
)

# %% [markdown]
# Narrow formats make each trip to memory cheaper. [Kernel fusion](fusion.py) saves whole trips.
