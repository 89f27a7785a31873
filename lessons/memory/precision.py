# ---
# title: Fewer bits
# needs: [speed/roofline, machine/warps]
# summary: "Add 5,000 ones in 16 bits. The sum is 2,048. Where did the others go, and when are 16 bits enough?"
# description: "What shorter numbers save in bytes and time, and what they cost: rounding, range, sums that stop, a maximum that is not zero."
# date: 2026-11-21
# tags: [precision, FP16, BF16, quantisation]
# ---

# %% [markdown]
# A thread has an array of 5,000 ones and adds them up, one after the other, in numbers of 16 bits. It
# reports {{ ones.narrow | ,.0f }}. Nothing overflowed and no rule was broken. Where did the other
# {{ ones.lost | , }} go? And since 16 bits are half of 32 and memory sets the time of so many
# kernels, when can one use them all the same?

# %% [markdown]
# ## What the bits say
#
# A floating-point number has a sign, an exponent that says between which two powers of two it lies,
# and a fraction that says where between them. The exponent sets the dynamic range, how large and how
# small a number can be; the fraction sets how finely it can be placed. What falls between two
# representable numbers becomes the nearer one, and what is lost is the rounding error. FP16 spends
# its 16 bits on a fine fraction and a short range, BF16 on the range of FP32 and a coarse fraction.
# Put a number into each of the formats.
#
# ??? definition "Dynamic range"
#     The numbers from the smallest to the largest that a format can hold.
#
# ??? definition "Rounding error"
#     The difference between a result and the nearest number that its format can hold.
#
# ??? definition "FP32"
#     The 32-bit floating-point format: 8 bits of exponent, 23 of fraction.
#
# ??? definition "FP16"
#     A 16-bit format with 5 bits of exponent and 10 of fraction; its largest number is 65,504.
#
# ??? definition "BF16"
#     A 16-bit format with FP32's 8 bits of exponent and 7 of fraction.
#
# ??? definition "TF32"
#     What matrix units keep of an FP32 number: 8 bits of exponent and 10 of fraction. It is stored in
#     32 bits.
#
# ??? definition "FP8"
#     Two 8-bit formats, E4M3 and E5M2, named for their bits of exponent and of fraction.

# %% fold="Code of the figure"
from dataclasses import dataclass

import numpy as np

from tilewise import (
    Guess,
    agree,
    case,
    ceil_div,
    check,
    constant,
    integers,
    measure,
    normal,
    output,
    parallel,
    publish,
    show,
    uniform,
)  # fmt: skip
from tilewise.figures import BitFormat, Held, Series, bit_fields, line_chart


@dataclass(frozen=True)
class Format:
    exponent_bits: int
    fraction_bits: int
    largest: float

    def fields(self, value):
        """Exponent and fraction as whole numbers, and the number that they stand for; inf beyond the range."""
        bias = 2 ** (self.exponent_bits - 1) - 1
        power = max(int(np.frexp(abs(value))[1]) - 1, 1 - bias)
        places = int(np.rint(abs(value) / 2.0 ** (power - self.fraction_bits)))  # ties to even
        held = places * 2.0 ** (power - self.fraction_bits)
        if held > self.largest:  # infinity; FP8 E4M3 has none, and its last code is NaN
            return 2**self.exponent_bits - 1, 7 if self.largest == 448 else 0, np.inf
        if places == 2 ** (self.fraction_bits + 1):
            power, places = power + 1, places // 2
        exponent = power + bias if places >= 2**self.fraction_bits else 0
        return exponent, places % 2**self.fraction_bits, held


FORMATS = {
    "FP32": Format(8, 23, float(np.finfo(np.float32).max)),
    "TF32": Format(8, 10, (2 - 2.0**-10) * 2.0**127),
    "BF16": Format(8, 7, (2 - 2.0**-7) * 2.0**127),
    "FP16": Format(5, 10, 65504.0),
    "FP8 E5M2": Format(5, 2, 57344.0),
    "FP8 E4M3": Format(4, 3, 448.0),
}
NUMBERS = {
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
    exponent, fraction, held = kind.fields(value)
    bits = f"0{exponent:0{kind.exponent_bits}b}{fraction:0{kind.fraction_bits}b}"
    if not np.isfinite(held):
        said = "NaN: too large" if fraction else "∞: too large"
    elif held == value:
        said = "exactly"
    else:
        said = f"{held:.6g}, {'too small' if not held else f'{abs(held - value) / value:.2g} off'}"
    return Held(bits, said)


show(
    bit_fields(
        [BitFormat(name, kind.exponent_bits, kind.fraction_bits) for name, kind in FORMATS.items()],
        {label: [in_bits(name, value) for name in FORMATS] for label, value in NUMBERS.items()},
        start="0.1",
        title="The exponent buys range, the fraction buys precision, and 16 bits have to choose",
        caption="One number as each format holds it: sign, exponent and fraction, rounded to the nearest, and how far off it is as a share of the number. Set bits are filled.",
    )
)

# %% [markdown]
# ## ReLU at half the bytes
#
# ReLU sets negative numbers to zero: one operation, and {{ relu.bytes_32 }} bytes in and out in FP32
# or {{ relu.bytes_16 }} in FP16. The operations stay the same and the bytes are halved, so the
# \intensity doubles. On the slope of the \roofline the time should follow the bytes.[^have] The
# maximum itself loses nothing: it does not round.
#
# [^have]: [Where the sources differ](../../conventions.md#the-sources): the transcript has it that 16
#     bits "have the memory access" with unchanged intensity. It means *halve*; what is unchanged is the
#     number of operations.


# %% tab="Pseudocode"
def relu(x, y):
    for i in parallel(len(x)):
        y[i] = max(x[i], 0)


# %% tab="CUDA C"
from tilewise import Kernel

RELU = Kernel(r"""
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

# %% fold="Two, four and eight numbers a thread"
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


# %% fold="Code of the cases"
def clipped(n, bits=32, each=1):
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
    agree(relu, kernel, [clipped(n, bits, each) for n in (1, 255, 1003)], rtol=0.0)


# %% fold="Code of the measurement"
def torch_relu(arrays):
    import torch

    x, y = (torch.as_tensor(arrays[name], device="cuda") for name in "xy")
    return lambda: torch.clamp(x, min=0.0, out=y)


relu_32 = measure(
    "relu_32bit",
    variants={
        "4 bytes a load": lambda n: RELU.on(clipped(n)),
        "16 bytes a load": lambda n: RELU_FOUR.on(clipped(n, each=4)),
    },
    cases=[{"n": 2**26}],
    count_case={"n": 2**14},
    bytes=lambda n: 8 * n,
    flop=lambda n: n,
    library={"torch": torch_relu},
    reference=lambda x: {"y": np.maximum(x, 0)},
    tolerance=0.0,
    fold="ReLU in 32 bits, as measured",
)
relu_16 = measure(
    "relu_16bit",
    variants={
        "2 bytes a load": lambda n: RELU_HALF.on(clipped(n, 16)),
        "4 bytes a load": lambda n: RELU_TWO.on(clipped(n, 16, 2)),
        "16 bytes a load": lambda n: RELU_EIGHT.on(clipped(n, 16, 8)),
    },
    cases=[{"n": 2**26}],
    count_case={"n": 2**14},
    bytes=lambda n: 4 * n,
    flop=lambda n: n,
    library={"torch": torch_relu},
    reference=lambda x: {"y": np.maximum(x, 0)},
    tolerance=0.0,
    reasons={"2 bytes a load": "ReLU at half the bytes"},
    fold="ReLU in 16 bits, as measured",
    guess=Guess(
        "ReLU in 16 bits: how many times as fast is it with eight numbers to a load as with one?",
        of="16 bytes a load",
        over="2 bytes a load",
        at={"n": 2**26},
        between=(0.4, 16.0),
        models={"bytes moved": 1.0, "loads": 8.0},
        because="Both touch the same sectors; they differ in how many bytes a thread has on their way at a time.",
    ),
)


# %% fold="Code of the table"
from tilewise import Table
from tilewise.measurements import medians_us, recorded

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
        "share": RELU_US[16, 16] / RELU_US[32, 16],
        "naive_share": RELU_US[16, 2] / RELU_US[32, 4],
    }
)
show(
    Table(
        ["format", "bytes a load", "time [µs]", "GB/s"],
        [[f"FP{bits}", load, us, bits // 4 * N_RELU / us / 1e3] for (bits, load), us in RELU_US.items()],
        caption=f"ReLU of {N_RELU:,} numbers on an {{machine}}.",
    )
)

# %% [markdown]
# With 16 bytes a load FP32 takes {{ relu_32bit._16_bytes_a_load.median | us }} and FP16
# {{ relu_16bit._16_bytes_a_load.median | us }}: half the bytes in
# {{ relu.share | .0%}} of the time. With one number a thread the same step brings less,
# {{ relu.naive_share | .0% }}: loads of 2 bytes reach {{ relu_16bit._2_bytes_a_load.gb_per_s | ,.0f }} GB/s where those of
# 16 reach {{ relu_16bit._16_bytes_a_load.gb_per_s | ,.0f }}, though both touch the same sectors. It is the bytes a load that
# count, not the format: with 4 of them FP32 comes to {{ relu_32bit._4_bytes_a_load.gb_per_s | ,.0f }} GB/s and FP16 to
# {{ relu_16bit._4_bytes_a_load.gb_per_s | ,.0f }}. A thread that asks for fewer bytes at a time needs
# [more company](../speed/occupancy.py) to keep the memory busy.

# %% [markdown]
# ## Sums that stop
#
# A sum is another matter. Above 2,048 the numbers of FP16 lie 2 apart: 2,049 is none of them, so
# $2048 + 1$ lies half-way between two and becomes 2,048 again. From there on ones are added to no
# effect. The variable that collects a sum is called its accumulator, and it need not be as short as
# what it collects: this kernel keeps one in 16 bits and one in 32.
#
# ??? definition "Accumulator | accumulators"
#     The variable in which a sum is collected.
#
# ??? definition "Mixed precision"
#     Short formats for what is stored and multiplied, longer ones where sums or range need them.


# %% tab="Pseudocode"
def sum_two_ways(x, n, narrow, wide):
    short, long = np.float16(0), np.float32(0)
    for i in range(n):
        # [sums
        short = np.float16(short + x[i])
        long = np.float32(long + np.float32(x[i]))
        # sums]
    narrow[0] = short
    wide[0] = long


# %% tab="CUDA C"
SUM_TWO_WAYS = Kernel(r"""
#include <cuda_fp16.h>

extern "C" __global__
void sum_two_ways(const __half* x, int n, __half* narrow, float* wide) {
    if (blockIdx.x > 0 || threadIdx.x > 0) return;
    __half shorter = __float2half(0.0f);
    float longer = 0.0f;
    for (int i = 0; i < n; ++i) {
        // [sums
        shorter = __hadd(shorter, x[i]);
        longer += __half2float(x[i]);
        // sums]
    }
    *narrow = shorter;
    *wide = longer;
}
""")


# %% fold="Code of the check and of the numbers"
def adding(n, x=None):
    x = uniform(n, low=-1.0, high=2.0, dtype="float16") if x is None else x
    results = {"narrow": output(1, dtype="float16"), "wide": output(1)}
    return case(x=x, n=n, **results, grid=1, block=32)


agree(sum_two_ways, SUM_TWO_WAYS, [adding(n) for n in (1, 77, 1000)], rtol=0.0)
ones = SUM_TWO_WAYS.on(adding(5000, constant(5000, value=1, dtype="float16"))).run()
counted = np.add.accumulate(np.ones(2**24 + 1000, np.float32))  # one after the other, in 32 bits
check([float(ones["narrow"][0]), float(ones["wide"][0])], [2048, 5000], rtol=0.0, name="5,000 ones")
publish(
    ones={
        "narrow": float(ones["narrow"][0]),
        "wide": float(ones["wide"][0]),
        "lost": 5000 - int(ones["narrow"][0]),
        "stop_32": float(counted[-1]),
        "given_32": counted.size,
    }
)

# %% [markdown]
# The kernel reports {{ ones.narrow | ,.0f }} and {{ ones.wide | ,.0f }}. FP32 stops too, only later:
# {{ ones.given_32 | , }} ones make {{ ones.stop_32 | ,.0f }}, which is $2^{24}$. The place is where
# the sum is as many times larger than what is added as the fraction has steps. Long before that each
# addition loses a part. The figure adds up random numbers between 0 and 1 in four ways.

# %% fold="Code of the figure"
from tilewise import bf16

LENGTHS = 2 ** np.arange(2, 16)
DRAWN = np.random.default_rng(5).random((16, LENGTHS[-1])).astype(np.float16)


def in_pairs(values):
    """Neighbours added in FP16, then the sums of neighbours, until one is left."""
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
    "FP16 in pairs": np.stack([in_pairs(DRAWN[:, :length]) for length in LENGTHS], axis=1),
    "FP32": np.add.accumulate(DRAWN, axis=1, dtype=np.float32)[:, LENGTHS - 1],
}
with np.errstate(invalid="ignore"):
    OFF = {
        label: np.sqrt(np.mean((sums.astype(float) / RIGHT - 1) ** 2, axis=0)) for label, sums in SUMS.items()
    }
publish(
    off={"numbers": int(LENGTHS[-1])}
    | {name.lower().replace(" ", "_"): float(values[-1]) for name, values in OFF.items()}
)
show(
    line_chart(
        [
            Series(label, LENGTHS[OFF[label] > 0], OFF[label][OFF[label] > 0], role=role)
            for label, role in {
                "BF16": "read",
                "FP16": "warp",
                "FP16 in pairs": "tile",
                "FP32": "block",
            }.items()
        ],
        x="numbers added",
        y="relative error",
        log_x=True,
        log_y=True,
        title="One after the other a short accumulator stops; in pairs it hardly notices",
        caption="Sixteen sums of random 16-bit numbers between 0 and 1, against float64: root mean square of the relative error. FP32 makes none on the shortest.",
    )
)

# %% [markdown]
# After {{ off.numbers | , }} numbers the FP16 accumulator is off by {{ off.fp16 | .0% }} and the BF16 one by
# {{ off.bf16 | .1% }}. Added in pairs, then pairs of pairs, all in FP16, the error stays at
# {{ off.fp16_in_pairs | .2% }}: equals meet equals, and nothing small is added to something large.
# The usual way out is mixed precision, short numbers in memory and sums in FP32. A product of two
# FP16 numbers even fits into FP32 without any error, 11 and 11 bits into 24; only the sums
# round.[^exact]
#
# [^exact]: [Where the sources differ](../../conventions.md#the-sources): the lecture has the products
#     made in full 32 bits. What matters is that the sums are.

# %% [markdown]
# ## Where exp overflows
#
# Range is lost before precision where an exponential comes in. $e^x$ leaves FP16 at a harmless
# looking $x$ of {{ over.fp16 | .2f }}, FP32 and BF16 at {{ over.fp32 | .1f }}. \Logits of attention
# reach that, which is why a \softmax subtracts the row's maximum first, in the sum and in the
# numerator. Then the largest exponent is zero, and the largest weight before the division is 1. Or
# so it should be.

# %% fold="Code of the numbers"
LIMIT = {
    name: float(np.log(kind.largest * (1 + 2.0 ** -(kind.fraction_bits + 2))))
    for name, kind in FORMATS.items()
}
publish(over={"fp16": LIMIT["FP16"], "fp32": LIMIT["FP32"]})

# %% [markdown]
# ## A zero that is not zero
#
# The GPU has an instruction for $a \cdot b + c$ that rounds once, the fused multiply-add, and a
# compiler uses it wherever a sum follows a product. That is faster and, by itself, more exact. But in
# a softmax the scaled logits are $x \cdot \text{scale}$, their maximum $m$ has been stored and
# so *rounded*, and then $x \cdot \text{scale} - m$ is formed in one instruction from the product as
# it was *before* rounding. For the largest logit of the row that leaves the rounding error of $m$.[^fmad]
#
# ??? definition "Fused multiply-add"
#     One instruction for a·b + c with a single rounding at its end.
#
# [^fmad]: The kernel asks for each form by name. From `x[i] * scale - m` a compiler makes the fused
#     one, unless it is told `-fmad=false`.


# %% tab="Pseudocode"
def shift_two_ways(x, fused, apart, scale):
    for i in parallel(len(x)):
        product = np.float64(x[i]) * np.float64(np.float32(scale))  # exact
        m = np.float32(product)
        fused[i] = product - m
        apart[i] = np.float32(product) - m


# %% tab="CUDA C"
SHIFT = Kernel(r"""
extern "C" __global__
void shift_two_ways(const float* x, float* fused, float* apart,
                    int n, float scale) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float m = __fmul_rn(x[i], scale);   // a maximum that was stored, so rounded
    fused[i] = fmaf(x[i], scale, -m);   // the product before rounding, minus m
    apart[i] = __fsub_rn(__fmul_rn(x[i], scale), m);
}
""")


# %% fold="Code of the check and of the table"


def shifting(n, largest, d=128):
    x = uniform(n, low=largest / 2, high=largest)
    return case(
        x=x, fused=output(n), apart=output(n), n=n, scale=float(d) ** -0.5, grid=ceil_div(n, 256), block=256
    )


agree(shift_two_ways, SHIFT, [shifting(n, 1000.0) for n in (1, 255, 1003)], rtol=0.0)
rows, residue = [], {}
for largest in (10.0, 1e3, 1e4, 1e6):
    ran = SHIFT.on(shifting(4096, largest)).run()
    worst = float(np.abs(ran["fused"]).max())
    residue[f"{largest:.0f}"] = worst
    rows.append([f"{largest:,.0f}", worst, float(np.expm1(worst)), float(np.abs(ran["apart"]).max())])
eighth = SHIFT.on(shifting(4096, 1e4, d=64)).run()
check(eighth["fused"], np.zeros(4096), rtol=0.0, name="a scale of 1/8, d = 64: no residue")
publish(residue={"large": np.expm1(residue["1000000"]), "usual": np.expm1(residue["1000"])})
show(
    Table(
        ["logits up to", "fused: largest rest", "its weight: 1, but for", "apart: largest rest"],
        rows,
        caption="What is left of x · scale − m where m is the same product, stored: 4,096 logits of each size, scale 1/√128. A softmax then takes e to the power of the rest.",
    )
)

# %% [markdown]
# Behind the exponential the rest becomes a factor: the largest weight is not 1 but off by up to
# {{ residue.usual | .1e }} at logits of a thousand, and by {{ residue.large | .1%}} at a million. Logits of
# usual size make it harmless. It still has two uses: it explains why a kernel and its check differ in
# the last digits, and it is gone where the scale is a power of two, as with $d = 64$, since such a
# product needs no rounding.
#
# ??? question "Is it better to forbid fused multiply-adds?"
#     No. A fused multiply-add is the faster and the more exact of the two. Trouble comes from using
#     both: a product that was rounded in one place and not in another no longer cancels where it
#     should. So let both places round or neither, for instance by forming the maximum and the
#     difference with the same instruction, and leave the compiler its fused ones everywhere else.
#     Only whoever compares two programs bit for bit has to switch them off in both.

# %% [markdown]
# ## A matrix in 8 bits
#
# To answer one user, a language model multiplies large matrices with a single vector: each weight is
# read for one multiply-add, so bytes are everything. Quantisation stores each weight as a whole number
# between −127 and 127 with one scale a row, $A_{ik} \approx q_{ik} \cdot s_i$. In the kernel a warp
# takes a row; its lanes read four weights at a time, turn them into FP32, and multiply and add there.
# In the end each lane adds the sum of the lane 16 further, then 8, 4, 2 and 1.
#
# ??? definition "Quantisation"
#     Storing numbers with fewer bits, usually as whole numbers with a common scale.


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
extern "C" __global__
void matvec(const signed char* A, const float* scale, const float* x,
            float* y, int rows, int columns) {
    int lane = threadIdx.x % 32;
    int i = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;  // a warp a row
    if (i >= rows) return;
    const char4* a = (const char4*)(A + (long long)i * columns);
    float s = 0.0f;
    #pragma unroll 8
    for (int k = lane; k < columns / 4; k += 32) {
        char4 w = a[k];
        float4 v = ((const float4*)x)[k];
        s += w.x * v.x + w.y * v.y + w.z * v.z + w.w * v.w;
    }
    for (int d = 16; d > 0; d /= 2)  // each lane adds the sum of the one d further
        s += __shfl_down_sync(0xffffffffu, s, d);
    if (lane == 0) y[i] = s * scale[i];
}
""")

# %% fold="The same with 16 and with 32 bits"
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
        uint2 w = a[k];  // four numbers
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


# %% [markdown]
# Here is what makes the 8 bits: the largest weight of a row becomes 127.


# %%
def quantised(A):
    """Whole numbers from -127 to 127, and a scale for each row."""
    scale = np.abs(A).max(axis=1) / 127
    q = np.rint(A / scale[:, None]).astype(np.int8)
    return q, scale.astype(np.float32)


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
    variants={"32 bits": lambda rows, columns: MATVEC_FLOAT.on(product(rows, columns, 32))},
    bytes=lambda rows, columns: 4 * (rows * columns + rows + columns),
    library={"torch.mv": torch_matvec},
    reference=lambda A, x: {"y": A @ x},
    tolerance=1e-3,
    fold="The product in 32 bits, as measured",
    **HOW,
)
matvec_16 = measure(
    "matvec_16bit",
    variants={"16 bits": lambda rows, columns: MATVEC_HALF.on(product(rows, columns, 16))},
    bytes=lambda rows, columns: 2 * rows * columns + 4 * (rows + columns),
    library={"torch.mv": torch_matvec},
    reference=lambda A, x: {"y": A @ x},
    tolerance=0.2,
    fold="The product in 16 bits, as measured",
    **HOW,
)
matvec_8 = measure(
    "matvec_8bit",
    variants={"8 bits": lambda rows, columns: MATVEC.on(product(rows, columns, 8))},
    bytes=lambda rows, columns: rows * columns + 4 * (2 * rows + columns),
    reference=lambda A, scale, x: {"y": (A.astype(np.float64) @ x) * scale},
    tolerance=1e-3,
    fold="The product in 8 bits, as measured",
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
    """Error of the product with A in so many bits, as a share of the result's length."""
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
US = {bits: medians_us(made)[f"{bits} bits"] for bits, made in MADE.items()}
WEIGHTS = LARGE["rows"] * LARGE["columns"]
LAUNCH_US = recorded("matvec_8bit.ceilings.launch_us")
READ_GB_PER_S = recorded("matvec_8bit.ceilings.probes.read_gb_per_s")
q, scale = quantised(outlier)
rest = np.delete(q * scale[:, None] - outlier, 7, axis=1)
publish(
    matvec={
        "ratio_8": US[32] / US[8],
        "ratio_16": US[32] / US[16],
        "first_us": US[32] - US[16],
        "first_model": 2 * WEIGHTS / READ_GB_PER_S / 1e3,
        "next_us": US[16] - US[8],
        "next_model": WEIGHTS / READ_GB_PER_S / 1e3,
        "rest_us": US[8] - WEIGHTS / READ_GB_PER_S / 1e3,
        "error_8": ERROR[8],
        "error_16": ERROR[16],
        "zeros": float(np.mean(q == 0)),
        "rest": float(np.linalg.norm(rest) / np.linalg.norm(np.delete(outlier, 7, axis=1))),
    }
)
show(
    Table(
        ["bits of a weight", "MB", "predicted [µs]", "recorded [µs]", "GB/s", "error"],
        [
            [
                bits,
                WEIGHTS * bits / 8e6,
                LAUNCH_US + WEIGHTS * bits / 8e3 / READ_GB_PER_S,
                US[bits],
                WEIGHTS * bits / 8e3 / US[bits],
                f"{ERROR[bits]:.1e}",
            ]
            for bits in (32, 16, 8)
        ],
        caption=f"A matrix of {LARGE['rows']:,} by {LARGE['columns']:,} times a vector on an {{machine}}. Predicted: an empty launch, and the matrix at the fastest rate of reading that was probed. The error is that of the kernels on {ROWS} by {COLUMNS:,} normal numbers, as a share of the result.",
    )
)

# %% [markdown]
# With half the bits the product is {{ matvec.ratio_16 | .2f }} times as fast as with 32, and with a
# quarter of them {{ matvec.ratio_8 | .2f }} times, not four times. Yet the bytes that are spared bring
# about what they should: from 32 to 16 bits {{ matvec.first_us | us }}, where the probed rate promises
# {{ matvec.first_model | us }}, and from 16 to 8 bits {{ matvec.next_us | us }} and
# {{ matvec.next_model | us }}. What does not shrink is the rest.

# %% [markdown]
# Of the {{ matvec_8bit._8_bits.median | us }} with 8 bits, {{ matvec.rest_us | us }} do not go to the matrix's bytes:
# {{ matvec_8bit.ceilings.launch_us | us }} to an empty launch, the others to something else. Torch's `mv` takes
# {{ matvec_32bit.torch_mv.median | us }} with 32 bits and {{ matvec_16bit.torch_mv.median | us }} with 16. The error grows to
# {{ matvec.error_16 | .2% }} with 16 bits and to {{ matvec.error_8 | .1% }} of the result with 8.

# %% [markdown]
# Is it the conversions? Each weight needs one, from a whole number to FP32, and the format offers a way
# around it. From $2^{23}$ to $2^{24}$ the numbers of FP32 lie 1 apart, so whoever puts a byte $b$ into the
# last bits of $2^{23}$ holds the number $2^{23} + b$, and a subtraction leaves $b$. Weights have a sign;
# flipping the first bit of each adds 128 and makes them bytes from 1 to 255. The rest of the kernel stays.

# %%
MATVEC_BITS = Kernel(r"""
__device__ float weight(unsigned four, int j) {  // New: the j-th of four
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
        unsigned w = a[k] ^ 0x80808080u;  // New: from 1 to 255
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
        "converted": lambda rows, columns: MATVEC.on(product(rows, columns, 8)),
        "put together from bits": lambda rows, columns: MATVEC_BITS.on(product(rows, columns, 8)),
    },
    bytes=lambda rows, columns: rows * columns + 4 * (2 * rows + columns),
    reference=lambda A, scale, x: {"y": (A.astype(np.float64) @ x) * scale},
    tolerance=1e-3,
    **HOW,
)
publish(conversion={f"rest_{bits}": us - bits / 8 * WEIGHTS / READ_GB_PER_S / 1e3 for bits, us in US.items()})

# %% [markdown]
# Only in part: {{ matvec_without_conversions.converted.median | us }} become
# {{ matvec_without_conversions.put_together_from_bits.median | us }}. And there is a rest with all
# three widths, {{ conversion.rest_32 | us }} with 32 bits, where nothing is converted,
# {{ conversion.rest_16 | us }} with 16 and {{ conversion.rest_8 | us }} with 8. So each launch pays most of it, whatever its
# bytes are, and the fewer they are, the more it weighs. An empty launch explains {{ matvec_8bit.ceilings.launch_us | us }} of it. What a
# full one pays beyond that, at its start or at its end, these numbers do not tell apart.

# %% [markdown]
# The price of short numbers depends on the numbers. One weight of 100 in each row of otherwise normal ones, and the
# scale is set by it: {{ matvec.zeros | .0% }} of the weights become zero, and the others are off by
# {{ matvec.rest | .0% }} of their size. That is why scales are kept for short pieces of a row, and
# why formats with an exponent, such as FP8, hold out longer.

# %% [markdown]
# ## What shorter numbers have brought
#
# Short numbers pay a second time in arithmetic. On each of the three newest GPUs below, matrix units
# do {{ grown.step | .0f }} times as many operations a second with half the bits. How much of the growth
# of GPUs is that? These are the makers' figures, without sparsity.[^sheets]
#
# [^sheets]: A100, H100 and B200: this course's device table, units times clock, with its sources. P100
#     and V100: NVIDIA's data sheets of the Tesla P100 (SXM2) and V100 (SXM2). TF32 is itself a
#     shorter number than FP32; what that has brought cannot be told from the units.

# %% fold="Code of the figure"
from tilewise.models import device

RATES = {
    "P100": (2016, {"FP32": 10.6, "16 bits": 21.2}),
    "V100": (2017, {"FP32": 15.7, "16 bits, matrix units": 125.0}),
}
NEW = {"A100": (2020, "A100 SXM 80 GB"), "H100": (2022, "H100 SXM"), "B200": (2024, "B200")}
KINDS = {
    "FP32": "fp32",
    "TF32, matrix units": "tf32_matrix",
    "16 bits, matrix units": "fp16_matrix",
    "8 bits, matrix units": "int8_matrix",
}
for name, (year, entry) in NEW.items():
    gpu = device(entry)
    RATES[name] = (year, {label: gpu.peak_tflop_per_s[kind] for label, kind in KINDS.items()})
FIRST, NEWEST = RATES["P100"][1]["FP32"], RATES["B200"][1]
BITS = 32 // 8
grown, plain = NEWEST["8 bits, matrix units"] / FIRST, NEWEST["FP32"] / FIRST
publish(
    grown={
        "step": (NEWEST["8 bits, matrix units"] / NEWEST["TF32, matrix units"]) ** 0.5,
        "all": grown,
        "format": BITS,
        "rest": grown / BITS,
        "fp32": plain,
        "matrix": grown / BITS / plain,
    }
)
show(
    line_chart(
        [
            Series(
                label,
                [year for year, rates in RATES.values() if label in rates],
                [rates[label] for _, rates in RATES.values() if label in rates],
                role=role,
            )
            for label, role in zip(KINDS, ("block", "lane", "warp", "tile"), strict=True)
        ],
        x="year",
        y="peak [TFLOP/s]",
        log_y=True,
        title="Every GPU is faster with fewer bits, and with the same bits faster than the one before",
        caption="Peaks (data sheets) of P100, V100, A100, H100 and B200, dense, by format; 8 bits are whole-number operations.",
    )
)

# %% [markdown]
# From the P100's FP32 to 8 bits on a B200 the rate grew by a factor of {{ grown.all | .0f }}. The
# bits alone account for {{ grown.format }} of it and everything else for {{ grown.rest | .0f }}: a factor
# of {{ grown.fp32 | .0f }} that plain FP32 has gained as well, by more units and faster clocks, and
# {{ grown.matrix | .0f }} from \tensor cores. Where only bytes count, as in ReLU above, short numbers
# bring the same without new units.

# %% [markdown]
# ## The answer
#
# The sum stopped at {{ ones.narrow | ,.0f }} because FP16 has no number between it and
# 2,050, and half-way goes to the even neighbour. The {{ ones.lost | , }} ones that are missing
# were each rounded away. So 16 bits, or 8, are enough for what is *stored*, where they save bytes in
# proportion; what is *summed* belongs in 32.

# %% [markdown]
# ## Takeaways
#
# - Store short, add long: the bytes shrink with what is stored, the error grows with what sums are
#   kept in.
# - FP16 has precision without range, BF16 range without precision. $e^x$ leaves FP16 at
#   {{ over.fp16 | .1f }}, FP32 and BF16 at {{ over.fp32 | .0f }}.
# - A sum stops where what is added is no more than half a step of the accumulator: ones at
#   {{ ones.narrow | ,.0f }} in FP16, at {{ ones.stop_32 | ,.0f }} in FP32.
# - A fused multiply-add sees a product before its rounding; subtracting the rounded product leaves a
#   rest that is not zero.
# - A matrix in 8 bits and a scale for each row costs an error of {{ matvec.error_8 | .1% }} on normal
#   numbers, and more where one number of a row stands out.

# %% fold="The whole cell, with three wrong answers that the tests turn down"
from tilewise import exercise


def sum_in_16_bits(x):
    values = np.asarray(x, np.float16)
    while len(values) > 1:
        if len(values) % 2:
            values = np.append(values, np.float16(0))
        values = values[::2] + values[1::2]
    return values[0]


def one_after_the_other(x):
    s = np.float16(0)
    for value in np.asarray(x, np.float16):
        s = s + value
    return s


def two_halves(x):
    half = len(x) // 2
    return one_after_the_other(x[:half]) + one_after_the_other(x[half:])


def drops_the_odd_one(x):
    values = np.asarray(x, np.float16)
    while len(values) > 1:
        values = values[: len(values) // 2 * 2 : 2] + values[1::2]
    return values[0]


def sum_tests(answer):
    random = np.random.default_rng(2)
    for x in (np.ones(5000), np.ones(1), np.ones(7), 8 * random.random(6001), random.random(33) - 0.25):
        short = x.astype(np.float16)
        given, right = answer(short), float(short.sum(dtype=np.float64))
        assert isinstance(given, np.float16), f"the sum is a {type(given).__name__}, not a float16"
        assert abs(float(given) / right - 1) < 0.01, f"{len(x)} numbers: {given}, not {right:.1f}"


exercise(
    "Five thousand ones in 16 bits",
    """
    Write `sum_in_16_bits(x)` for an array of FP16 numbers of any length from 1 on. Every variable that holds a
    number of the sum is FP16, and the result is off by less than 1 in 100. Why is it not enough to add
    up two halves?
    """,
    answer=sum_in_16_bits,
    tests=sum_tests,
    wrong=[one_after_the_other, two_halves, drops_the_odd_one],
    hint="Add neighbours to neighbours. What happens to the last one if their number is odd?",
    explanation="Each half of 5,000 ones is 2,500, more than 2,048. Pairs of pairs keep both numbers of each addition alike in size, and the error grows with the number of rounds, not of numbers.",
)

# %% [markdown]
# Shorter numbers make each trip over the memory's interface cheaper. [Fusion](fusion.py) saves the
# trips.
