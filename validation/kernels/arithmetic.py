"""Specimens of arithmetic: results that must be equal bit by bit, and results within a tolerance.

In: nothing. Out: ``SPECIMENS``. A bound is stated where a function of CUDA's library is used, whose last
bits the simulator does not promise.
"""

from __future__ import annotations

from tilewise.cuda.cases import case, integers, normal, output, uniform
from tilewise.kernel.kernel import Kernel
from validation.specimen import Specimen, specimen

DIVIDE = Kernel(r"""
extern "C" __global__
void divide(const int* a, const int* b, int* quotient, int* remainder, unsigned int* halves, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    quotient[i] = a[i] / b[i];
    remainder[i] = a[i] % b[i];
    halves[i] = (unsigned int)a[i] / 7u;
}
""")

BITS = Kernel(r"""
extern "C" __global__
void bits(const unsigned int* x, unsigned int* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned int v = x[i];
    unsigned long long wide = (unsigned long long)v * 0x9E3779B97F4A7C15ull;
    y[i] = __popc(v) + 64 * __clz(v) + 4096 * __ffs(v) + (__brev(v) >> 8) + (unsigned int)(wide >> 40)
         + __umulhi(v, 0x12345678u);
}
""")

POLYNOMIAL = Kernel(r"""
extern "C" __global__
void polynomial(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = x[i];
    y[i] = ((0.3f * v - 1.7f) * v + 2.5f) * v - 0.125f;
}
""")

DIVIDE_FLOATS = Kernel(r"""
extern "C" __global__
void divide_floats(const float* a, const float* b, float* quotient, float* root, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    quotient[i] = a[i] / b[i];
    root[i] = sqrtf(fabsf(a[i]));
}
""")

DOUBLES = Kernel(r"""
extern "C" __global__
void doubles(const double* a, const double* b, double* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = sqrt(a[i] * a[i] + b[i] * b[i]) / (1.0 + fabs(b[i]));
}
""")

CONVERT = Kernel(r"""
extern "C" __global__
void convert(const float* x, int* whole, unsigned char* small, double* wide, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    whole[i] = (int)(1000.0f * x[i]) + __float2int_rn(x[i]);
    small[i] = (unsigned char)(int)fminf(fmaxf(100.0f * x[i] + 128.0f, 0.0f), 255.0f);
    wide[i] = (double)x[i] + i;
}
""")

SOFTPLUS = Kernel(r"""
extern "C" __global__
void softplus(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = logf(1.0f + expf(x[i]));
}
""")

WAVES = Kernel(r"""
extern "C" __global__
void waves(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = sinf(x[i]) * rsqrtf(2.0f + cosf(x[i])) + tanhf(x[i]);
}
""")

HALF2 = Kernel(r"""
#include <cuda_fp16.h>

extern "C" __global__
void half2_axpy(const half2* x, half2* y, int n, float alpha) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    y[i] = __hfma2(__float2half2_rn(alpha), x[i], y[i]);
}
""")

HALF = Kernel(r"""
#include <cuda_fp16.h>

extern "C" __global__
void half_to_float(const half* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 0.1f * __half2float(x[i]) + 1.0f;
}
""")

BF16 = Kernel(r"""
#include <cuda_bf16.h>

extern "C" __global__
void bf16_scale(const float* x, __nv_bfloat16* y, int n, float alpha) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = __float2bfloat16(alpha * x[i]);
}
""")

VOTES = Kernel(r"""
extern "C" __global__
void votes(const int* x, unsigned int* y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    unsigned int odd = __ballot_sync(0xffffffffu, x[i] & 1);
    int all = __all_sync(0xffffffffu, x[i] > 0), any = __any_sync(0xffffffffu, x[i] == 77);
    int turned = __shfl_xor_sync(0xffffffffu, x[i], 5);
    y[i] = __popc(odd) + 100 * all + 200 * any + 1000 * (unsigned int)turned;
}
""")

_N = 500
_SHAPE = {"grid": 4, "block": 128}

SPECIMENS: tuple[Specimen, ...] = (
    specimen(
        "integer division",
        "quotients and remainders of ints, a division by 7",
        DIVIDE,
        case(
            a=integers(_N, low=-(2**31), high=2**31),
            b=integers(_N, low=1, high=1000),
            quotient=output(_N, dtype="int32"),
            remainder=output(_N, dtype="int32"),
            halves=output(_N, dtype="uint32"),
            n=_N,
            **_SHAPE,
        ),
    ),
    specimen(
        "bits",
        "population counts, leading zeros, products of 64 bits",
        BITS,
        case(x=integers(_N, low=0, high=2**32, dtype="uint32"), y=output(_N, dtype="uint32"), n=_N, **_SHAPE),
    ),
    specimen(
        "polynomial",
        "multiply-adds of floats",
        POLYNOMIAL,
        case(x=normal(_N), y=output(_N), n=_N, **_SHAPE),
    ),
    specimen(
        "float division",
        "division and square root of floats, correctly rounded",
        DIVIDE_FLOATS,
        case(a=normal(_N), b=normal(_N), quotient=output(_N), root=output(_N), n=_N, **_SHAPE),
    ),
    specimen(
        "double arithmetic",
        "square root and division of doubles",
        DOUBLES,
        case(
            a=normal(_N, dtype="float64"),
            b=normal(_N, dtype="float64"),
            y=output(_N, dtype="float64"),
            n=_N,
            **_SHAPE,
        ),
    ),
    specimen(
        "conversions",
        "float to int, byte and double",
        CONVERT,
        case(
            x=normal(_N),
            whole=output(_N, dtype="int32"),
            small=output(_N, dtype="uint8"),
            wide=output(_N, dtype="float64"),
            n=_N,
            **_SHAPE,
        ),
    ),
    specimen(
        "softplus",
        "expf and logf",
        SOFTPLUS,
        case(x=uniform(_N, low=-4.0, high=8.0), y=output(_N), n=_N, **_SHAPE),
        rtol=2e-6,
        atol=1e-7,
    ),
    specimen(
        "waves",
        "sinf, cosf, rsqrtf and tanhf",
        WAVES,
        case(x=uniform(_N, low=-6.0, high=6.0), y=output(_N), n=_N, **_SHAPE),
        rtol=1e-6,
        atol=1e-6,
    ),
    specimen(
        "half2",
        "two halves a lane, multiply-add",
        HALF2,
        case(x=normal(_N, 2, dtype="float16"), y=normal(_N, 2, dtype="float16"), n=_N, alpha=1.25, **_SHAPE),
    ),
    specimen(
        "half",
        "two bytes a lane, widened",
        HALF,
        case(x=normal(_N, dtype="float16"), y=output(_N), n=_N, **_SHAPE),
    ),
    specimen(
        "bf16",
        "floats rounded to bfloat16",
        BF16,
        case(x=normal(_N), y=output(_N, dtype="uint16"), n=_N, alpha=0.7, **_SHAPE),
    ),
    specimen(
        "votes",
        "ballots and shuffles of full warps",
        VOTES,
        case(x=integers(512, low=-3, high=100), y=output(512, dtype="uint32"), **_SHAPE),
    ),
)
"""All specimens, in the order of the tables."""
