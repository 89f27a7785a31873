"""What CUDA C makes of instructions: contraction, matches, 16-bit atomics, cache operators, fast math."""

import re
from fractions import Fraction

import numpy as np
import pytest

from tests.simulator.kernels import on_threads, simulate
from tilewise.simulator.engine.shared import ENGINE, numbers


def test_each_operation_has_its_case_where_the_machine_looks_for_it():
    cases = {
        name: re.findall(r"\bcase OP_(\w+):", (ENGINE / name).read_text(encoding="utf-8"))
        for name in ("float_cases.h", "half_cases.h", "integer_cases.h", "warp.h")
    }
    operations = list(numbers("OP"))
    assert sorted(name for names in cases.values() for name in names) == sorted(operations)
    first = operations.index("mov_32")
    assert {*cases["float_cases.h"], *cases["half_cases.h"]} == set(operations[:first])
    assert set(cases["integer_cases.h"]) == set(operations[first : first + len(cases["integer_cases.h"])])


def test_rounding_does_not_leak_into_the_host():
    simulate(
        on_threads("y[i] = __fadd_ru(y[i], __fdiv_ru(1.0f, 3.0f));", "float* y"), np.ones(32, np.float32)
    )
    assert np.float64(1) / np.float64(3) == 1 / 3 == float(Fraction(1, 3))
    assert np.float64(1) - np.float64(2**-60) == 1.0


@pytest.mark.parametrize(
    ("ctype", "dtype"), [("int", np.int32), ("long long", np.int64), ("double", np.float64)]
)
def test_matches(ctype, dtype):
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
def test_sixteen_bit_atomics(include, ctype, pair):
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


def test_cache_operators_are_loads_and_stores():
    loads = ["__ldca", "__ldcg", "__ldcs", "__ldlu", "__ldcv", "__ldg"]
    stores = ["__stwb", "__stcg", "__stcs", "__stwt"]
    body = "float v = " + " + ".join(f"{name}(&x[{32 * k} + i])" for k, name in enumerate(loads)) + ";\n"
    body += " ".join(f"{name}(&y[{32 * k} + i], v);" for k, name in enumerate(stores))
    x, y = np.arange(192, dtype=np.float32), np.zeros(128, np.float32)
    run = simulate(on_threads(body, "const float* x, float* y"), x, y)
    assert np.array_equal(y.reshape(4, 32), np.tile(x.reshape(6, 32).sum(axis=0), (4, 1)))
    assert (run.counts.global_load.requests, run.counts.global_store.requests) == (6, 4)


@pytest.mark.parametrize("name", ["exp", "log", "log2", "log10", "sin", "cos", "tan", "exp10"])
def test_fast_math_takes_the_fast_forms(name):
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


def _apply(expression: str, a: np.ndarray, b: np.ndarray, *options: str) -> set[float]:
    out = np.ones_like(a)
    ctype = "float" if a.dtype == np.float32 else "double"
    source = on_threads(
        f"{ctype} a = x[i], b = y[i]; z[i] = {expression};", f"const {ctype}* x, const {ctype}* y, {ctype}* z"
    )
    simulate(source, a, b, out, options=options)
    return set(out.tolist())


def test_multiply_and_add_contract_to_one_rounding_unless_told_not_to():
    a, b = np.full(32, 1 + 2**-12, np.float32), np.full(32, -(1 + 2**-11), np.float32)
    assert _apply("a * a + b", a, b) == {2.0**-24}
    assert _apply("a * a + b", a, b, "-fmad=false") == {0.0}


def test_denormal_floats_are_flushed_and_doubles_are_not():
    a, b = np.full(32, 2.0**-100, np.float32), np.full(32, 2.0**-30, np.float32)
    assert _apply("a * b", a, b) == {0.0}
    assert _apply("a * b", np.full(32, 2.0**-1060), np.ones(32)) == {2.0**-1060}
