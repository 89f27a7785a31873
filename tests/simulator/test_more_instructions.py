"""Directed rounding, NaN-keeping extremes, matches, 16-bit atomics, cache operators, fast math."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from tests.simulator.kernels import on_threads, simulate

MODES = {"rz": "rz", "rd": "rm", "ru": "rp"}
"""CUDA's suffixes of rounding, and those of the instructions, which `trust` holds to exact fractions."""
CALLS = {
    "add": ("__{kind}add_{how}(a, b)", "add.{mode}.f{bits} %0, %1, %2;"),
    "sub": ("__{kind}sub_{how}(a, b)", "sub.{mode}.f{bits} %0, %1, %2;"),
    "mul": ("__{kind}mul_{how}(a, b)", "mul.{mode}.f{bits} %0, %1, %2;"),
    "div": ("__{kind}div_{how}(a, b)", "div.{mode}.f{bits} %0, %1, %2;"),
    "fma": ("__fma{kind}_{how}(a, b, c)", "fma.{mode}.f{bits} %0, %1, %2, %3;"),
    "sqrt": ("__{kind}sqrt_{how}(fabs(a))", "abs.f{bits} %0, %1; sqrt.{mode}.f{bits} %0, %0;"),
    "rcp": ("__{kind}rcp_{how}(a)", "rcp.{mode}.f{bits} %0, %1;"),
}


@pytest.mark.parametrize(("kind", "ctype"), [("f", "float"), ("d", "double")])
def test_functions_of_directed_rounding_are_their_instructions(kind: str, ctype: str) -> None:
    dtype = np.float32 if kind == "f" else np.float64
    letter = kind
    body, places = [f"{ctype} a = x[i], b = x[i + 256], c = x[i + 512], r;"], 0
    for how, mode in MODES.items():
        for name, (call, text) in CALLS.items():
            if kind == "d" and name in ("fma", "sqrt", "rcp"):
                continue  # in double these are called otherwise
            filled = text.format(mode=mode, bits=32 if kind == "f" else 64)
            body.append(
                f'asm("{filled}" : "=&{letter}"(r) : "{letter}"(a), "{letter}"(b), "{letter}"(c));'
                f" y[{2 * places * 256} + i] = {call.format(kind=kind, how=how)};"
                f" y[{(2 * places + 1) * 256} + i] = r;"
            )
            places += 1
    random = np.random.default_rng(1)
    x = (random.standard_normal(768) * 10.0 ** random.integers(-5, 6, 768)).astype(dtype)
    y = np.zeros((places, 2, 256), dtype)
    simulate(on_threads("\n".join(body), f"const {ctype}* x, {ctype}* y"), x, y, grid=8)
    assert np.array_equal(y[:, 0], y[:, 1])
    assert y.all()


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
