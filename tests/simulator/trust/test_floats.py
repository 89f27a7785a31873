"""Float and double instructions against exact fractions, on edge values: roundings, subnormals, NaN, -0."""

import math
import operator
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from . import exact
from .edges import F32, F64, S32
from .exact import Format
from .table import Array, Row, check, pairs, ptx, setp

KINDS = {"f32": (F32, exact.F32, "float32"), "f64": (F64, exact.F64, "float64")}


def _plain(function: Callable[..., float]) -> Callable[..., float]:
    """The same in float64, for infinities, NaN and zeros."""

    def special(*numbers: float) -> float:
        with np.errstate(all="ignore"):
            return float(function(*map(np.float64, numbers)))

    return special


def _expected(
    function: Callable[..., Fraction], mode: str, kind: Format, ftz: bool, saturate: bool = False
) -> Callable[..., Array]:
    def expected(*inputs: Array) -> Array:
        if ftz:
            inputs = tuple(map(exact.flush, inputs))
        made = exact.apply(function, _plain(function), mode, kind, *inputs)
        if ftz:
            made = exact.flush(made)
        if saturate:
            made = np.where(np.isnan(made), 0, np.clip(made, 0, 1)).astype(made.dtype)
            made = np.where(made == 0, np.abs(made), made).astype(made.dtype)
        return made

    return expected


def _division(a: Fraction, b: Fraction) -> Fraction:
    return Fraction(0) if isinstance(a, Fraction) and b == 0 else a / b


def _root(kind: Format, ftz: bool, mode: str = "rn") -> Callable[[Array], Array]:
    def root(value: float) -> float:
        if not value > 0 or value == math.inf:
            return math.nan if value < 0 or value != value else value  # noqa: PLR0124
        # Sixty bits more than any format holds, and a last one that says whether anything is left over.
        exponent = math.frexp(value)[1] // 2 - 120
        scaled = Fraction(value) / Fraction(4) ** exponent
        whole = math.isqrt(scaled.numerator // scaled.denominator)
        left_over = whole * whole != scaled
        return exact.rounded((Fraction(whole) + Fraction(left_over, 2)) * Fraction(2) ** exponent, mode, kind)

    def expected(a: Array) -> Array:
        return exact.pack([root(float(one)) for one in (exact.flush(a) if ftz else a)], kind)

    return expected


def _smaller(sign: int) -> Callable[[Array, Array], Array]:
    """min for 1, max for -1: a number wins over NaN, and -0 lies below +0."""

    def expected(a: Array, b: Array) -> Array:
        first = np.where(np.signbit(a) == (sign > 0), a, b)
        both_zero = (a == 0) & (b == 0)
        pick = np.fmin(a, b) if sign > 0 else np.fmax(a, b)
        return np.where(both_zero, first, pick).astype(a.dtype)

    return expected


def _arithmetic() -> list[Row]:
    rows = []
    for name, (edge, kind, dtype) in KINDS.items():
        a, b = pairs(edge)
        c = np.roll(a, 7)
        endings = [("", False), (".ftz", True)] if name == "f32" else [("", False)]
        for ending, ftz in endings:
            for op, function in (("add", operator.add), ("sub", operator.sub), ("mul", operator.mul)):
                expected = _expected(function, "rn", kind, ftz)
                rows.append(ptx(f"{op}.rn{ending}.{name}", (a, b), dtype, expected))
            expected = _expected(lambda x, y, z: x * y + z, "rn", kind, ftz)
            rows.append(ptx(f"fma.rn{ending}.{name}", (a, b, c), dtype, expected))
            divided = _expected(_division, "rn", kind, ftz)
            rows.append(ptx(f"div.rn{ending}.{name}", (a, b), dtype, divided))
            rows.append(ptx(f"sqrt.rn{ending}.{name}", (edge,), dtype, _root(kind, ftz)))
            rows.append(
                ptx(f"rcp.rn{ending}.{name}", (edge,), dtype, lambda x, f=divided: f(np.ones_like(x), x))
            )
            flushed = exact.flush if ftz else np.asarray
            for op, sign in (("min", 1), ("max", -1)):
                pick = _smaller(sign)
                rows.append(
                    ptx(
                        f"{op}{ending}.{name}",
                        (a, b),
                        dtype,
                        lambda x, y, f=flushed, p=pick: p(f(x), f(y)),
                    )
                )
            rows.append(ptx(f"abs{ending}.{name}", (edge,), dtype, lambda x, f=flushed: np.abs(f(x))))
            rows.append(ptx(f"neg{ending}.{name}", (edge,), dtype, lambda x, f=flushed: -f(x)))
            rows += _comparisons(name, ending, (a, b), flushed)
        rows.append(ptx(f"copysign.{name}", (a, b), dtype, lambda x, y: np.copysign(y, x)))
    return rows


def _comparisons(
    name: str, ending: str, inputs: tuple[Array, Array], flushed: Callable[[Array], Array]
) -> list[Row]:
    ordered = {
        "eq": np.equal,
        "ne": np.not_equal,
        "lt": np.less,
        "le": np.less_equal,
        "gt": np.greater,
        "ge": np.greater_equal,
    }
    rows = []
    for op, compare in ordered.items():
        for unordered in (False, True):

            def expected(x: Array, y: Array, f: Callable[..., Array] = compare, u: bool = unordered) -> Array:
                nan = np.isnan(x) | np.isnan(y)
                return np.where(nan, u, f(flushed(x), flushed(y)))

            rows.append(setp(f"{op}{'u' if unordered else ''}{ending}.{name}", inputs, expected))
    for op in ("num", "nan"):
        is_nan = lambda x, y, n=op == "nan": (np.isnan(x) | np.isnan(y)) == n  # noqa: E731
        rows.append(setp(f"{op}{ending}.{name}", inputs, is_nan))
    return rows


def _directed() -> list[Row]:
    rows = []
    for name, (edge, kind, dtype) in KINDS.items():
        a, b = pairs(edge)
        c = np.roll(a, 7)
        for mode in ("rz", "rm", "rp"):
            for ending, ftz in [("", False), (".ftz", True)] if name == "f32" else [("", False)]:
                end = f"{mode}{ending}.{name}"
                plus = _expected(operator.add, mode, kind, ftz)
                rows.append(ptx(f"add.{end}", (a, b), dtype, plus))
                rows.append(ptx(f"sub.{end}", (a, b), dtype, lambda x, y, f=plus: f(x, -y)))
                rows.append(ptx(f"mul.{end}", (a, b), dtype, _expected(operator.mul, mode, kind, ftz)))
                fused = _expected(lambda x, y, z: x * y + z, mode, kind, ftz)
                rows.append(ptx(f"fma.{end}", _not_cancelling(a, b, c), dtype, fused))
                divided = _expected(_division, mode, kind, ftz)
                rows.append(ptx(f"div.{end}", (a, b), dtype, divided))
                rows.append(ptx(f"rcp.{end}", (edge,), dtype, lambda x, f=divided: f(np.ones_like(x), x)))
                rows.append(ptx(f"sqrt.{end}", (edge,), dtype, _root(kind, ftz, mode)))
    a, b = pairs(F32)
    for op, function in (("add", operator.add), ("mul", operator.mul)):
        name = f"{op}.rn.ftz.sat.f32"
        # The sign of a zero is left open; abs makes it plus.
        text = f"<< .reg .f32 t; {name} t, {{a}}, {{b}}; abs.f32 {{r}}, t; >>"
        rows.append(ptx(name, (a, b), "float32", _expected(function, "rn", exact.F32, True, True), text))
    return rows


def _not_cancelling(a: Array, b: Array, c: Array) -> tuple[Array, Array, Array]:
    """Without sums of zeros of different signs, which tests of add cover."""
    with np.errstate(all="ignore"):
        flat = exact.flush(a) * exact.flush(b) + exact.flush(c)
        keep = ~(flat == 0) & ~(a * b.astype(np.float64) + c == 0)
    return a[keep], b[keep], c[keep]


def _nan_wins() -> list[Row]:
    a, b = pairs(F32)
    rows = []
    for op, pick in (("min", _smaller(1)), ("max", _smaller(-1))):
        for ending, flushed in (("", np.asarray), (".ftz", exact.flush)):

            def expected(
                x: Array, y: Array, p: Callable[..., Array] = pick, f: Callable[..., Array] = flushed
            ) -> Array:
                return np.where(np.isnan(x) | np.isnan(y), np.float32(np.nan), p(f(x), f(y)))

            rows.append(ptx(f"{op}{ending}.NaN.f32", (a, b), "float32", expected))
    return rows


def _classes() -> list[Row]:
    tests: dict[str, Callable[[Array], Array]] = {
        "finite": np.isfinite,
        "infinite": np.isinf,
        "number": lambda x: ~np.isnan(x),
        "notanumber": np.isnan,
        "normal": lambda x: np.isfinite(x) & (np.abs(x) >= np.finfo(np.float32).tiny),
        "subnormal": lambda x: (x != 0) & (np.abs(x) < np.finfo(np.float32).tiny),
    }
    return [setp(f"{name}.f32", (F32,), test, "testp") for name, test in tests.items()]


def _ends() -> list[Row]:
    a = np.array([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, 2.0**-140], np.float32)
    ends = {
        "ex2.approx.ftz.f32": [1.0, 1.0, np.inf, 0.0, np.nan, 2.0, 1.0],
        "lg2.approx.ftz.f32": [-np.inf, -np.inf, np.inf, np.nan, np.nan, 0.0, -np.inf],
        "rsqrt.approx.ftz.f32": [np.inf, -np.inf, 0.0, np.nan, np.nan, 1.0, np.inf],
        "rcp.approx.ftz.f32": [np.inf, -np.inf, 0.0, -0.0, np.nan, 1.0, np.inf],
        "sqrt.approx.ftz.f32": [0.0, -0.0, np.inf, np.nan, np.nan, 1.0, 0.0],
        "tanh.approx.f32": [0.0, -0.0, 1.0, -1.0, np.nan, math.tanh(1.0), 2.0**-140],
    }
    rows = []
    for name, results in ends.items():
        # tanh of 1 and of subnormals is approximate; only its ends are held to the bit.
        keep = slice(0, 5) if name.startswith("tanh") else slice(None)
        rows.append(ptx(name, (a[keep],), "float32", lambda x, r=results, k=keep: np.array(r[k], np.float32)))
    return rows


def _selects() -> list[Row]:
    a, b = pairs(F32)
    picked = np.resize(S32 % 2, len(a)).astype(np.int32)
    text = "<< .reg .pred p; setp.ne.s32 p, {c}, 0; selp.f32 {r}, {a}, {b}, p; >>"
    return [
        ptx("selp.f32", (a, b, picked), "float32", lambda x, y, z: np.where(z != 0, x, y), text),
        Row(
            "fminf ignores NaN",
            "r = fminf(a, b);",
            (a, b),
            "float32",
            lambda x, y: _smaller(1)(*map(exact.flush, (x, y))),
        ),
        Row("fabsf", "r = fabsf(a);", (F32,), "float32", lambda x: np.abs(exact.flush(x))),
        Row("isnan", "r = isnan(a);", (F32,), "int32", np.isnan),
        Row("isinf", "r = isinf(a);", (F32,), "int32", np.isinf),
        Row("float to bits", "r = __float_as_uint(a);", (F32,), "uint32", lambda x: x.view(np.uint32)),
    ]


ROWS = _arithmetic() + _directed() + _nan_wins() + _classes() + _ends() + _selects()


@pytest.mark.parametrize("number", range(len(ROWS)), ids=[row.name for row in ROWS])
def test_float_instruction(number):
    check(ROWS, number)
