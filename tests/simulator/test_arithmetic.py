"""Instructions against NumPy, on edge values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.simulator.kernels import on_threads, simulate

F32 = np.array(
    [
        0.0,
        -0.0,
        1.0,
        -1.5,
        3.25,
        1e-30,
        -1e30,
        3.4e38,
        np.inf,
        -np.inf,
        np.nan,
        2**31,
        -(2.0**31),
        0.5,
        2.5,
        1e-7,
    ],
    np.float32,
)
S32 = np.array(
    [0, 1, -1, 2, -7, 13, 2**31 - 1, -(2**31), 65536, -65536, 31, 32, 33, 100, 255, -128], np.int32
)
S64 = np.array(
    [0, 1, -1, 7, -13, 2**63 - 1, -(2**63), 2**32, -(2**33), 63, 64, 5, 6, 1 << 40, 99, -99], np.int64
)
NP_OF = {
    "float": "f4",
    "double": "f8",
    "int": "i4",
    "unsigned": "u4",
    "long long": "i8",
    "unsigned long long": "u8",
}


def _pairs(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    a, b = np.meshgrid(values, values)
    return np.ascontiguousarray(a.reshape(-1)), np.ascontiguousarray(b.reshape(-1))


def _apply(
    expression: str, ctype: str, result: str, a: np.ndarray, b: np.ndarray, include: str = ""
) -> np.ndarray:
    out = np.zeros(len(a), NP_OF.get(result, "u2"))
    source = include + on_threads(
        f"{ctype} a = x[i], b = y[i]; z[i] = {expression};",
        f"const {ctype}* x, const {ctype}* y, {result}* z",
    )
    simulate(source, a, b, out, grid=len(a) // 32)
    return out


@pytest.mark.parametrize("op", ["+", "-", "*", "&", "|", "^"])
@pytest.mark.parametrize("ctype", ["int", "unsigned", "long long", "unsigned long long"])
def test_integer_operators_wrap(op: str, ctype: str) -> None:
    a, b = (part.astype(NP_OF[ctype]) for part in _pairs(S32 if "long" not in ctype else S64))
    with np.errstate(over="ignore"):
        expected = {"+": a + b, "-": a - b, "*": a * b, "&": a & b, "|": a | b, "^": a ^ b}[op]
    assert np.array_equal(_apply(f"a {op} b", ctype, ctype, a, b), expected)


@pytest.mark.parametrize("ctype", ["int", "unsigned", "long long", "unsigned long long"])
def test_division_truncates_toward_zero(ctype: str) -> None:
    a, b = (part.astype(NP_OF[ctype]) for part in _pairs(S32 if "long" not in ctype else S64))
    keep = (b != 0) & ~(
        (a == np.iinfo(a.dtype).min) & (b == np.array(-1).astype(b.dtype)) & (a.dtype.kind == "i")
    )
    a, b = np.where(keep, a, 1).astype(a.dtype), np.where(keep, b, 1).astype(b.dtype)
    quotient = [
        int(abs(int(p)) // abs(int(q))) * (-1 if (p < 0) != (q < 0) else 1) for p, q in zip(a, b, strict=True)
    ]
    assert np.array_equal(_apply("a / b", ctype, ctype, a, b), np.array(quotient, object).astype(a.dtype))
    remainder = [int(p) - k * int(q) for p, q, k in zip(a, b, quotient, strict=True)]
    assert np.array_equal(_apply("a % b", ctype, ctype, a, b), np.array(remainder, object).astype(a.dtype))


@pytest.mark.parametrize("op", ["<<", ">>"])
@pytest.mark.parametrize("ctype", ["int", "unsigned", "long long", "unsigned long long"])
def test_shifts(op: str, ctype: str) -> None:
    a, b = (part.astype(NP_OF[ctype]) for part in _pairs(S32 if "long" not in ctype else S64))
    b = (b.astype(np.uint64) % (8 * a.dtype.itemsize)).astype(a.dtype)
    assert np.array_equal(_apply(f"a {op} b", ctype, ctype, a, b), a << b if op == "<<" else a >> b)


@pytest.mark.parametrize("name", ["min", "max"])
@pytest.mark.parametrize("ctype", ["int", "unsigned", "long long"])
def test_integer_extremes(name: str, ctype: str) -> None:
    a, b = (part.astype(NP_OF[ctype]) for part in _pairs(S32))
    expected = np.minimum(a, b) if name == "min" else np.maximum(a, b)
    assert np.array_equal(_apply(f"{name}(a, b)", ctype, ctype, a, b), expected)


def test_bits() -> None:
    a, b = _pairs(S32)
    u = a.view(np.uint32)
    assert np.array_equal(_apply("__popc(a)", "int", "int", a, b), np.bitwise_count(u))
    assert np.array_equal(_apply("__clz(a)", "int", "int", a, b), [32 - int(v).bit_length() for v in u])
    assert np.array_equal(
        _apply("__ffs(a)", "int", "int", a, b), [(int(v) & -int(v)).bit_length() for v in u]
    )
    reverse = [int(f"{int(v):032b}"[::-1], 2) for v in u]
    assert np.array_equal(_apply("__brev(a)", "int", "unsigned", a, b), np.array(reverse, np.uint32))
    high = (a.astype(np.int64) * b) >> 32
    assert np.array_equal(_apply("__mulhi(a, b)", "int", "int", a, b), high)


@pytest.mark.parametrize("op", ["+", "-", "*", "/"])
@pytest.mark.parametrize("ctype", ["float", "double"])
def test_float_operators_round_to_nearest(op: str, ctype: str) -> None:
    a, b = (part.astype(NP_OF[ctype]) for part in _pairs(F32))
    with np.errstate(all="ignore"):
        expected = {"+": a + b, "-": a - b, "*": a * b, "/": a / b}[op]
    if ctype == "float":
        expected = np.where(np.abs(expected) < np.finfo(np.float32).tiny, np.copysign(0, expected), expected)
    got = _apply(f"a {op} b", ctype, ctype, a, b)
    np.testing.assert_array_equal(got, expected)
    assert np.array_equal(np.signbit(got[got == 0]), np.signbit(expected[expected == 0]))


def test_multiply_and_add_contract_to_one_rounding_unless_told_not_to() -> None:
    a, b = np.full(32, 1 + 2**-12, np.float32), np.full(32, -(1 + 2**-11), np.float32)
    assert set(_apply("a * a + b", "float", "float", a, b)) == {np.float32(2.0**-24)}
    out = np.ones(32, np.float32)
    source = on_threads("z[i] = x[i] * x[i] + y[i];", "const float* x, const float* y, float* z")
    simulate(source, a, b, out, options=("-fmad=false",))
    assert set(out) == {0.0}


def test_denormal_floats_are_flushed_and_doubles_are_not() -> None:
    a, b = np.full(32, 2.0**-100, np.float32), np.full(32, 2.0**-30, np.float32)
    assert set(_apply("a * b", "float", "float", a, b)) == {0.0}
    tiny = np.full(32, 2.0**-1060)
    assert set(_apply("a * b", "double", "double", tiny, np.ones(32))) == {2.0**-1060}


@pytest.mark.parametrize("ctype", ["float", "double"])
@pytest.mark.parametrize("op", ["<", "<=", ">", ">=", "==", "!="])
def test_comparisons_with_nan_are_false_but_for_unequal(op: str, ctype: str) -> None:
    a, b = (part.astype(NP_OF[ctype]) for part in _pairs(F32))
    compare = {"<": np.less, "<=": np.less_equal, ">": np.greater, ">=": np.greater_equal, "==": np.equal}
    expected = compare.get(op, np.not_equal)(a, b)
    assert np.array_equal(_apply(f"a {op} b", ctype, "int", a, b), expected)


def test_fmax_and_fmin_prefer_numbers_to_nan() -> None:
    a, b = _pairs(F32)
    np.testing.assert_array_equal(_apply("fmaxf(a, b)", "float", "float", a, b), np.fmax(a, b))
    np.testing.assert_array_equal(_apply("fminf(a, b)", "float", "float", a, b), np.fmin(a, b))


def test_floats_become_integers_by_truncation_and_saturate() -> None:
    a, b = _pairs(F32)
    inside = np.nan_to_num(np.trunc(a.astype(np.float64)), nan=0.0, posinf=1e300, neginf=-1e300)
    expected = np.clip(inside, -(2**31), 2**31 - 1).astype(np.int64)
    source = on_threads(
        'int r; asm("cvt.rzi.s32.f32 %0, %1;" : "=r"(r) : "f"(x[i])); z[i] = r;', "const float* x, int* z"
    )
    out = np.zeros(len(a), np.int32)
    simulate(source, a, out, grid=len(a) // 32)
    assert np.array_equal(out, expected)
    assert np.array_equal(_apply("__float2int_rn(a)", "float", "int", b, b)[:16], np.full(16, 0))


@pytest.mark.parametrize(
    ("call", "function", "low", "high"),
    [
        ("expf(a)", np.exp, -80, 80),
        ("exp2f(a)", np.exp2, -100, 100),
        ("logf(a)", np.log, 1e-6, 1e6),
        ("sinf(a)", np.sin, -10, 10),
        ("cosf(a)", np.cos, -10, 10),
        ("tanhf(a)", np.tanh, -5, 5),
        ("sqrtf(a)", np.sqrt, 0, 1e6),
        ("rsqrtf(a)", lambda x: 1 / np.sqrt(x), 1e-3, 1e6),
        ("powf(a, b)", None, 0.1, 10),
        ("__expf(a)", np.exp, -10, 10),
        ("__logf(a)", np.log, 2, 1e6),
        ("floorf(a)", np.floor, -9, 9),
        ("ceilf(a)", np.ceil, -9, 9),
        ("rintf(a)", np.rint, -9, 9),
    ],
)
def test_functions_are_right_to_a_few_units_in_the_last_place(
    call: str, function: Callable[[Any], Any] | None, low: float, high: float
) -> None:
    a = np.linspace(low, high, 256, dtype=np.float32)
    b = a[::-1].copy()
    x = a.astype(np.float64)
    expected = np.power(x, b.astype(np.float64)) if function is None else function(x)
    bound = 2e-6 if call.startswith("__") else 1.2e-7
    np.testing.assert_allclose(_apply(call, "float", "float", a, b), expected, rtol=bound, atol=1e-37)


HALVES = np.array(
    [
        0.0,
        -0.0,
        1.0,
        -1.5,
        0.1,
        65504.0,
        -65504.0,
        6e-8,
        1e-4,
        2048.0,
        3.0,
        np.inf,
        -np.inf,
        np.nan,
        0.333,
        100.0,
    ],
    np.float16,
)


@pytest.mark.parametrize("op", ["+", "-", "*"])
def test_half_arithmetic_rounds_once(op: str) -> None:
    a, b = _pairs(HALVES)
    with np.errstate(all="ignore"):
        expected = {"+": a + b, "-": a - b, "*": a * b}[op]
    out = np.zeros(len(a), np.float16)
    source = "#include <cuda_fp16.h>\n" + on_threads(
        f"z[i] = x[i] {op} y[i];", "const half* x, const half* y, half* z"
    )
    simulate(source, a, b, out, grid=len(a) // 32)
    np.testing.assert_array_equal(out, expected)


def test_pairs_of_halves_multiply_and_add_in_one() -> None:
    a = np.linspace(-3, 3, 64, dtype=np.float16)
    out = np.zeros(64, np.float16)
    source = "#include <cuda_fp16.h>\n" + on_threads(
        "half2 v = x[i]; z[i] = __hfma2(v, v, __float2half2_rn(0.5f));", "const half2* x, half2* z"
    )
    run = simulate(source, a, out)
    wide = a.astype(np.float64)
    np.testing.assert_array_equal(out, (wide * wide + 0.5).astype(np.float16))
    assert run.counts.global_load.requests == run.counts.global_store.requests == 1


def test_halves_and_floats_convert() -> None:
    a = F32.copy()
    out, back = np.zeros(16, np.float16), np.zeros(16, np.float32)
    source = "#include <cuda_fp16.h>\n" + on_threads(
        "z[i] = __float2half(x[i]); y[i] = __half2float(z[i]);", "const float* x, half* z, float* y"
    )
    simulate(source, a, out, back, block=16)
    with np.errstate(over="ignore"):
        expected = a.astype(np.float16)
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(back, expected.astype(np.float32))


def test_bfloat16_rounds_to_nearest_even() -> None:
    bits = np.array(
        [0x3F800000, 0x3F808000, 0x3F818000, 0x3F80FFFF, 0xBF808001, 0x7F800000, 0x00000000, 0x477FE000],
        np.uint32,
    )
    out = np.zeros(8, np.uint16)
    source = "#include <cuda_bf16.h>\n" + on_threads(
        "z[i] = __float2bfloat16(x[i]);", "const float* x, nv_bfloat16* z"
    )
    simulate(source, bits.view(np.float32), out, block=8)
    expected = ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)
    assert np.array_equal(out, expected)


@pytest.mark.parametrize(
    ("op", "exact"), [("+", 1.5 + 0.0078125), ("*", 1.5 * 0.0078125), ("-", 1.5 - 0.0078125)]
)
def test_bfloat16_arithmetic(op: str, exact: float) -> None:
    a, b = np.full(32, 0x3FC0, np.uint16), np.full(32, 0x3C00, np.uint16)
    out = np.zeros(32, np.uint16)
    source = "#include <cuda_bf16.h>\n" + on_threads(
        f"z[i] = x[i] {op} y[i];", "const nv_bfloat16* x, const nv_bfloat16* y, nv_bfloat16* z"
    )
    simulate(source, a, b, out)
    bits = np.array([exact], np.float32).view(np.uint32)
    assert set(out) == {int((bits[0] + 0x7FFF + ((bits[0] >> 16) & 1)) >> 16)}


@pytest.mark.parametrize(
    ("call", "start", "expected"),
    [
        ("atomicAdd(p, v)", 5, lambda old, v: old + v.sum()),
        ("atomicMin(p, v)", 5, lambda old, v: min(old, v.min())),
        ("atomicMax(p, v)", 5, lambda old, v: max(old, v.max())),
        ("atomicExch(p, v)", 5, lambda old, v: v[-1]),
        ("atomicOr(p, v)", 64, lambda old, v: int(np.bitwise_or.reduce(v)) | old),
        ("atomicXor(p, v)", 64, lambda old, v: int(np.bitwise_xor.reduce(v)) ^ old),
        ("atomicCAS(p, 5, v)", 5, lambda old, v: v[0]),
        ("atomicSub(p, v)", 9, lambda old, v: old - v.sum()),
    ],
)
@pytest.mark.parametrize("where", ["global", "shared"])
def test_atomics_take_one_lane_after_another(call: str, start: int, expected: object, where: str) -> None:
    v = np.arange(3, 35, dtype=np.int32)
    out = np.array([start], np.int32)
    body = f"int v = x[i]; int* p = y; {call};"
    if where == "shared":
        body = (
            f"__shared__ int s; if (i == 0) s = y[0]; __syncthreads(); int v = x[i]; int* p = &s; {call};"
            " __syncthreads(); if (i == 0) y[0] = s;"
        )
    run = simulate(on_threads(body, "const int* x, int* y"), v, out)
    assert out[0] == expected(start, v)  # type: ignore[operator]
    assert (run.counts.global_atomic if where == "global" else run.counts.shared_atomic).requests == 1
