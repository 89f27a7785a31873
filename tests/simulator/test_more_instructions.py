"""Directed rounding, NaN-keeping extremes, matches, 16-bit atomics, cache operators, fast math."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from tests.simulator.kernels import on_threads, simulate

_OPERATIONS = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
}


def _numbers(dtype: type, seed: int) -> np.ndarray:
    generator = np.random.default_rng(seed)
    return (generator.standard_normal(256) * 10.0 ** generator.integers(-5, 6, 256)).astype(dtype)


def _directed(exact: Fraction, dtype: type, how: str) -> float:
    """The neighbour of an exact number on the side that a rounding picks."""
    near = (
        dtype(float(exact)) if dtype is np.float64 else dtype(np.float64(exact.numerator / exact.denominator))
    )
    candidates = [np.nextafter(near, dtype(-np.inf)), near, np.nextafter(near, dtype(np.inf))]
    toward_zero_is_down = exact > 0
    if how == "rd" or (how == "rz" and toward_zero_is_down):
        return max(c for c in candidates if Fraction(float(c)) <= exact)
    return min(c for c in candidates if Fraction(float(c)) >= exact)


@pytest.mark.parametrize("how", ["rz", "rd", "ru"])
@pytest.mark.parametrize("operation", list(_OPERATIONS))
@pytest.mark.parametrize(
    ("letter", "ctype", "dtype"), [("f", "float", np.float32), ("d", "double", np.float64)]
)
def test_directed_rounding(operation: str, how: str, letter: str, ctype: str, dtype: type) -> None:
    a, b, out = _numbers(dtype, 1), _numbers(dtype, 2), np.zeros(256, dtype)
    body = f"z[i] = __{letter}{operation}_{how}(x[i], y[i]);"
    simulate(on_threads(body, f"const {ctype}* x, const {ctype}* y, {ctype}* z"), a, b, out, grid=8)
    exact = [
        _OPERATIONS[operation](Fraction(float(x)), Fraction(float(y))) for x, y in zip(a, b, strict=True)
    ]
    assert np.array_equal(out, np.array([_directed(e, dtype, how) for e in exact], dtype))


@pytest.mark.parametrize("how", ["rz", "rd", "ru"])
def test_directed_fma_square_root_and_reciprocal(how: str) -> None:
    x, y, z = (_numbers(np.float32, seed) for seed in (3, 4, 5))
    out = np.zeros((3, 256), np.float32)
    body = (
        f"r[i] = __fmaf_{how}(x[i], y[i], z[i]); r[256 + i] = __fsqrt_{how}(fabsf(x[i]));"
        f" r[512 + i] = __frcp_{how}(x[i]);"
    )
    simulate(
        on_threads(body, "const float* x, const float* y, const float* z, float* r"), x, y, z, out, grid=8
    )
    for n in range(256):
        p, q, s = (Fraction(float(v[n])) for v in (x, y, z))
        assert out[0, n] == _directed(p * q + s, np.float32, how)
        assert out[2, n] == _directed(1 / p, np.float32, how)
        root, square = out[1, n], abs(p)
        below, above = (np.nextafter(root, np.float32(side)) for side in (0, np.inf))
        if how == "ru":
            assert Fraction(float(below)) ** 2 < square <= Fraction(float(root)) ** 2
        else:
            assert Fraction(float(root)) ** 2 <= square < Fraction(float(above)) ** 2


def test_rounding_does_not_leak_into_the_host() -> None:
    simulate(
        on_threads("y[i] = __fadd_ru(y[i], __fdiv_ru(1.0f, 3.0f));", "float* y"), np.ones(32, np.float32)
    )
    assert np.float64(1) / np.float64(3) == 1 / 3 == float(Fraction(1, 3))
    assert np.float64(1) - np.float64(2**-60) == 1.0


@pytest.mark.parametrize("name", ["min", "max"])
def test_extremes_that_keep_nan(name: str) -> None:
    edge = np.array([0, -0.0, 1, -2, np.inf, -np.inf, np.nan, 1e30], np.float32)
    a, b = (part.reshape(-1).copy() for part in np.meshgrid(edge, edge))
    out, pairs = np.zeros(64, np.float32), np.zeros(64, np.uint32)
    body = (
        f'float r; asm("{name}.NaN.f32 %0, %1, %2;" : "=f"(r) : "f"(x[i]), "f"(y[i])); z[i] = r;\n'
        f'unsigned p; asm("{{ .reg .b16 a, b; cvt.rn.f16.f32 a, %1; cvt.rn.f16.f32 b, %2; .reg .b32 c, d;'
        f' mov.b32 c, {{a, a}}; mov.b32 d, {{b, b}}; {name}.NaN.f16x2 %0, c, d; }}" : "=r"(p) : "f"(x[i]),'
        ' "f"(y[i])); w[i] = p;'
    )
    source = on_threads(body, "const float* x, const float* y, float* z, unsigned* w")
    simulate(source, a, b, out, pairs, grid=2)
    expected = np.minimum(a, b) if name == "min" else np.maximum(a, b)
    assert np.array_equal(out, expected, equal_nan=True)
    with np.errstate(over="ignore"):
        halves = np.repeat(expected.astype(np.float16), 2)
    assert np.array_equal(pairs.view(np.float16), halves, equal_nan=True)


@pytest.mark.parametrize(
    ("ctype", "dtype"), [("int", np.int32), ("long long", np.int64), ("double", np.float64)]
)
def test_matches(ctype: str, dtype: type) -> None:
    x = (np.arange(32) % 5 * 2**20).astype(dtype) * (2**20 if dtype is not np.int32 else 1)
    y = np.zeros((4, 32), np.uint32)
    body = (
        "int all = 9, same = 9; unsigned m = 0xffffffffu;\ny[i] = __match_any_sync(m, x[i]);\n"
        f"y[32 + i] = __match_all_sync(m, x[i], &all); y[64 + i] = all * 10;\n"
        f"y[96 + i] = __match_all_sync(m, ({ctype})7, &same) + same;"
    )
    simulate(on_threads(body, f"const {ctype}* x, unsigned* y"), x, y)
    expected = [sum(1 << k for k in range(32) if x[k] == x[lane]) for lane in range(32)]
    assert y[0].tolist() == expected
    assert not y[1:3].any()
    assert (y[3] == 0).all()  # 0xffffffff + 1


@pytest.mark.parametrize(
    ("include", "ctype", "pair"),
    [("cuda_fp16.h", "__half", "__half2"), ("cuda_bf16.h", "__nv_bfloat16", "__nv_bfloat162")],
)
def test_sixteen_bit_atomics(include: str, ctype: str, pair: str) -> None:
    y = np.zeros(4, np.uint16)
    old = np.zeros(64, np.float32)
    body = (
        f"old[i] = float(atomicAdd(&((({ctype}*)y)[0]), {ctype}(0.5f)));\n"
        f"atomicAdd(&((({pair}*)y)[1]), {pair}({ctype}(1.0f), {ctype}(-2.0f)));"
    )
    run = simulate(
        f"#include <{include}>\n" + on_threads(body, "unsigned short* y, float* old"), y, old, grid=2
    )
    values = y.view(np.float16) if "half" in ctype else (y.astype(np.uint32) << 16).view(np.float32)
    assert values.tolist() == [32.0, 0.0, 64.0, -128.0]
    assert sorted(old.tolist()) == [k / 2 for k in range(64)]
    assert run.counts.global_atomic.requests == 4


def test_cache_operators_are_loads_and_stores() -> None:
    loads = ["__ldca", "__ldcg", "__ldcs", "__ldlu", "__ldcv", "__ldg"]
    stores = ["__stwb", "__stcg", "__stcs", "__stwt"]
    body = "float v = " + " + ".join(f"{name}(&x[{32 * k} + i])" for k, name in enumerate(loads)) + ";\n"
    body += " ".join(f"{name}(&y[{32 * k} + i], v);" for k, name in enumerate(stores))
    x, y = np.arange(192, dtype=np.float32), np.zeros(128, np.float32)
    run = simulate(on_threads(body, "const float* x, float* y"), x, y)
    assert np.array_equal(y.reshape(4, 32), np.tile(x.reshape(6, 32).sum(axis=0), (4, 1)))
    assert (run.counts.global_load.requests, run.counts.global_store.requests) == (6, 4)


@pytest.mark.parametrize("name", ["exp", "log", "log2", "log10", "sin", "cos", "tan", "exp10"])
def test_fast_math_takes_the_fast_forms(name: str) -> None:
    x = np.linspace(0.1, 30, 32, dtype=np.float32)
    results = []
    for call, options in ((f"{name}f", ()), (f"__{name}f", ()), (f"{name}f", ("--use_fast_math",))):
        y = np.zeros(32, np.float32)
        simulate(on_threads(f"y[i] = {call}(x[i]);", "const float* x, float* y"), x, y, options=options)
        results.append(y)
    exact, fast, option = results
    assert np.array_equal(fast, option)
    if name in ("exp", "exp10", "log"):
        assert not np.array_equal(exact, option)
    good = np.abs(exact) < 3e38  # 10 ** 30 is still finite
    np.testing.assert_allclose(option[good], exact[good], rtol=1e-4, atol=1e-5)


def test_fast_math_powers_and_overloads() -> None:
    x, y, z = np.linspace(0.5, 4, 32, dtype=np.float32), np.zeros(32, np.float32), np.zeros(32, np.float32)
    source = on_threads("y[i] = powf(x[i], 2.5f); z[i] = exp(x[i]);", "const float* x, float* y, float* z")
    simulate(source, x, y, z, options=("--use_fast_math",))
    fast = np.zeros(32, np.float32)
    simulate(on_threads("y[i] = __expf(x[i]);", "const float* x, float* y"), x, fast)
    np.testing.assert_allclose(y, x.astype(np.float64) ** 2.5, rtol=1e-5)
    assert np.array_equal(z, fast)


def test_bit_fields_of_64_bits() -> None:
    generator = np.random.default_rng(11)
    x = generator.integers(0, 1 << 63, 256, dtype=np.uint64) << np.uint64(1)
    x[::2] |= np.uint64(1 << 63)
    into = generator.integers(0, 1 << 63, 256, dtype=np.uint64)
    start, count = (generator.integers(0, 80, 256).astype(np.int32) for _ in range(2))
    start[:4], count[:4] = (0, 0, 63, 255), (0, 64, 1, 255)
    text = (
        'asm("bfe.u64 %0, %1, %2, %3;" : "=l"(y[i]) : "l"(x[i]), "r"(start[i]), "r"(count[i]));\n'
        'asm("bfe.s64 %0, %1, %2, %3;" : "=l"(y[256 + i]) : "l"(x[i]), "r"(start[i]), "r"(count[i]));\n'
        'asm("bfi.b64 %0, %1, %2, %3, %4;" : "=l"(y[512 + i]) : "l"(x[i]), "l"(into[i]), "r"(start[i]), '
        '"r"(count[i]));'
    )
    parameters = (
        "const unsigned long long* x, const unsigned long long* into, const int* start, const int* count, "
        "unsigned long long* y"
    )
    y = np.zeros(768, np.uint64)
    simulate(on_threads(text, parameters), x, into, start, count, y, block=256)
    expected: list[list[int]] = [[], [], []]
    for a, b, at, many in zip(*(one.tolist() for one in (x, into, start, count)), strict=True):
        expected[0].append(a >> at & (1 << many) - 1 if at < 64 else 0)
        first, kept = min(at, 63), min(many, 64 - min(at, 63))
        field = a >> first & (1 << kept) - 1
        signed = field - (1 << kept) if kept and field >> kept - 1 else field
        expected[1].append(signed & (1 << 64) - 1)
        mask = ((1 << min(many, 64)) - 1 << at) & (1 << 64) - 1
        expected[2].append(b & ~mask | a << at & mask)
    assert y.reshape(3, 256).tolist() == expected
