"""Functions that few kernels use, against NumPy and the standard library."""

import math
from statistics import NormalDist

import numpy as np

from tests.simulator.kernels import simulate

RANDOM = np.random.Generator(np.random.PCG64(7))


def test_votes_and_shuffles_from_before_volta():
    source = """extern "C" __global__ void kernel(const float* x, float* y, unsigned* v) {
    int t = threadIdx.x;
    float s = x[t];
    for (int h = 16; h > 0; h /= 2) s += __shfl_xor(s, h);
    y[t] = s; y[32 + t] = __shfl(x[t], 3); y[64 + t] = __shfl_up(x[t], 1);
    y[96 + t] = __shfl_down(x[t], 1u, 16);
    v[t] = __ballot(x[t] > 0); v[32 + t] = 2 * __any(t == 7) + __all(t < 32);
}"""
    x = RANDOM.standard_normal(32).astype(np.float32)
    y, v = np.zeros(128, np.float32), np.zeros(64, np.uint32)
    simulate(source, x, y, v, grid=1, block=32)
    assert np.allclose(y[:32], x.sum(), atol=1e-5)
    assert (y[32:64] == x[3]).all()
    assert (y[64:96] == np.r_[x[0], x[:-1]]).all()
    assert (y[96:] == np.r_[x[1:16], x[15], x[17:], x[31]]).all()
    assert (v[:32] == sum(1 << t for t in range(32) if x[t] > 0)).all()
    assert (v[32:] == 3).all()


def test_narrowing_rounds_in_the_direction_asked_for():
    source = """extern "C" __global__ void kernel(const double* x, const int* n, float* y) {
    int t = threadIdx.x, k = blockDim.x;
    y[t] = __double2float_rd(x[t]); y[k + t] = __double2float_ru(x[t]);
    y[2 * k + t] = __double2float_rz(x[t]); y[3 * k + t] = __int2float_rd(n[t]);
    y[4 * k + t] = __int2float_ru(n[t]); y[5 * k + t] = __int2float_rz(n[t]);
}"""
    x = np.r_[RANDOM.standard_normal(60) * 1e3, 0.0, 1.0, -2.5, 1e-30]
    n = np.r_[RANDOM.integers(-(2**31), 2**31 - 1, 62), 2**31 - 1, -(2**31)].astype(np.int32)
    y = np.zeros(6 * 64, np.float32)
    simulate(source, x, n, y, grid=1, block=64)
    for at, exact in ((0, x), (3, n.astype(np.float64))):
        near = exact.astype(np.float32)
        down = np.where(near > exact, np.nextafter(near, np.float32(-np.inf)), near)
        up = np.where(near < exact, np.nextafter(near, np.float32(np.inf)), near)
        for step, wanted in enumerate((down, up, np.where(exact < 0, up, down))):
            assert (y[64 * (at + step) : 64 * (at + step + 1)] == wanted).all()


def test_special_functions():
    names = {
        "asinh(x)": math.asinh,
        "acosh(1 + fabs(x))": lambda one: math.acosh(1 + abs(one)),
        "atanh(x / 9)": lambda one: math.atanh(one / 9),
        "erf(erfinv(x / 9))": lambda one: one / 9,
        "erfc(erfcinv(fabs(x) / 5 + 1e-9))": lambda one: abs(one) / 5 + 1e-9,
        "normcdfinv(0.5 + x / 18)": lambda one: NormalDist().inv_cdf(0.5 + one / 18),
        "erfcx(fabs(x))": lambda one: math.exp(one * one) * math.erfc(abs(one)),
        "norm4d(x, 1, 2, 3)": lambda one: math.hypot(one, 1, 2, 3),
        "rcbrt(x * x + 1)": lambda one: (one * one + 1) ** (-1 / 3),
        "remainder(x, 0.7)": lambda one: math.remainder(one, 0.7),
        "nextafter(x, 9.0)": lambda one: math.nextafter(one, 9.0),
        "__dsqrt_rn(fabs(x))": lambda one: math.sqrt(abs(one)),
        "__drcp_rn(x)": lambda one: 1 / one,
        "logb(x)": lambda one: math.frexp(one)[1] - 1,
    }
    lines = "".join(f"    y[{at} * blockDim.x + threadIdx.x] = {one};\n" for at, one in enumerate(names))
    source = f"""extern "C" __global__ void kernel(const double* v, double* y) {{
    double x = v[threadIdx.x];
{lines}}}"""
    x = RANDOM.uniform(-4, 4, 64)
    y = np.zeros((len(names), 64))
    simulate(source, x, y, grid=1, block=64)
    for got, (name, function) in zip(y, names.items(), strict=True):
        wanted = np.array([function(one) for one in x])
        assert np.allclose(got, wanted, rtol=1e-12, atol=1e-13), name


def test_sums_of_bytes_and_halves():
    source = """extern "C" __global__ void kernel(const int* x, int* y) {
    int t = threadIdx.x, a = x[t], b = x[t + 32];
    char4 p = make_char4(a, a >> 8, a >> 16, a >> 24), q = make_char4(b, b >> 8, b >> 16, b >> 24);
    y[t] = __dp4a(p, q, t); y[32 + t] = __dp2a_lo(a, b, t); y[64 + t] = __dp2a_hi(a, b, t);
    y[96 + t] = __viaddmax_s32(a >> 2, b >> 2, 5); y[128 + t] = memcmp(&a, &b, 4);
    y[160 + t] = __vhaddu4(a, b);
}"""
    x = RANDOM.integers(-(2**31), 2**31 - 1, 64).astype(np.int32)
    y = np.zeros((6, 32), np.int32)
    simulate(source, x, y, grid=1, block=32)
    a, b, t = x[:32], x[32:], np.arange(32)
    p, q = a.view(np.int8).reshape(32, 4).astype(int), b.view(np.int8).reshape(32, 4).astype(int)
    halves = a.view(np.int16).reshape(32, 2).astype(int)
    assert (y[0] == (p * q).sum(axis=1) + t).all()
    assert (y[1] == (halves * q[:, :2]).sum(axis=1) + t).all()
    assert (y[2] == (halves * q[:, 2:]).sum(axis=1) + t).all()
    assert (y[3] == np.maximum((a >> 2) + (b >> 2), 5)).all()
    order = [
        (one.tobytes() > other.tobytes()) - (one.tobytes() < other.tobytes())
        for one, other in zip(a, b, strict=True)
    ]
    assert (y[4] == order).all()
    pair = [one.view(np.uint8).reshape(32, 4).astype(int) for one in (a, b)]
    assert (y[5].view(np.uint8).reshape(32, 4) == (pair[0] + pair[1]) // 2).all()
