"""Conversions against exact fractions: every rounding, saturation, NaN, ties, and what does not fit."""

from collections.abc import Callable
from fractions import Fraction
from math import ceil, floor, isfinite, isnan, trunc

import numpy as np
import pytest

from . import exact
from .edges import BF16, F16, INTEGERS, S32, S64, TO_INTEGER, TO_NARROW
from .table import C_TYPES, Array, Row, check, ptx

WHOLE = {"s8": "int8", "u8": "uint8", "s16": "int16", "u16": "uint16", "s32": "int32", "u32": "uint32"}
LONG = {"s64": "int64", "u64": "uint64"}
STEPS: dict[str, Callable[[Fraction], int]] = {"rzi": trunc, "rmi": floor, "rpi": ceil, "rni": round}


def _clipped(value: int, dtype: str) -> int:
    ends = np.iinfo(dtype)
    return min(max(value, int(ends.min)), int(ends.max))


def _whole(how: str, dtype: str, wide_source: bool, ftz: bool) -> Callable[[Array], Array]:
    """A float becomes an integer: rounded as told, then held to the type's range."""
    ends = np.iinfo(dtype)
    bits = 8 * np.dtype(dtype).itemsize

    def convert(value: float) -> int:
        if isnan(value):  # 0, unless either side has 64 bits: then the bit of the sign alone
            return 0 if not wide_source and bits < 64 else int(ends.min) if ends.min else 1 << (bits - 1)
        if abs(value) == float("inf"):
            return int(ends.max if value > 0 else ends.min)
        return _clipped(int(STEPS[how](Fraction(value))), dtype)

    def expected(a: Array) -> Array:
        numbers = (exact.flush(a) if ftz else a).astype(np.float64)
        return np.array([convert(float(one)) for one in numbers], dtype)

    return expected


def _to_integer() -> list[Row]:
    rows = []
    single = TO_INTEGER.astype(np.float32)
    half = F16
    for kind, dtype in (WHOLE | LONG).items():
        register = {"s8": "int16", "u8": "uint16"}.get(kind, dtype)
        for how in STEPS:
            for source, values in (("f32", single), ("f64", TO_INTEGER)):
                expected = _whole(how, dtype, source == "f64", False)
                name = f"cvt.{how}.{kind}.{source}"
                text = f"cvt.{how}.{kind}.{source} {{r}}, {{a}};"
                rows.append(ptx(name, (values,), register, expected, text))
        if kind in ("s32", "u32", "s16", "u16", "s64", "u64"):
            bits = half.view(np.uint16)
            expected = _whole("rzi", dtype, False, False)
            rows.append(
                ptx(f"cvt.rzi.{kind}.f16", (bits,), dtype, lambda x, f=expected: f(x.view(np.float16)))
            )
    tiny = np.array([1e-40, -1e-40, 1.0, -1.0], np.float32)
    rows.append(ptx("cvt.rpi.ftz.s32.f32", (tiny,), "int32", _whole("rpi", "int32", False, True)))
    return rows


def _from_integer() -> list[Row]:
    rows = []
    for kind, dtype in (WHOLE | LONG).items():
        if kind in ("s8", "u8"):
            continue
        values = INTEGERS.astype(dtype)
        for target, form, result in (("f32", exact.F32, "float32"), ("f64", exact.F64, "float64")):
            for mode in ("rn", "rz", "rm", "rp"):
                rows.append(
                    ptx(
                        f"cvt.{mode}.{target}.{kind}",
                        (values,),
                        result,
                        lambda x, m=mode, f=form: exact.pack(
                            [exact.rounded(Fraction(int(one)), m, f) for one in x], f
                        ),
                    )
                )
        for target, form in (("f16", exact.F16), ("bf16", exact.BF16)):
            rows.append(
                ptx(
                    f"cvt.rn.{target}.{kind}",
                    (values,),
                    "uint16",
                    lambda x, f=form: exact.pack(
                        [exact.rounded(Fraction(int(one)), "rn", f) for one in x], f
                    ).view(np.uint16),
                )
            )
    return rows


def _converted(mode: str, source: exact.Format, target: exact.Format) -> Callable[[Array], Array]:
    def expected(a: Array) -> Array:
        numbers = exact.values(a.view(source.dtype), source)
        made = []
        for one in numbers:
            finite = isfinite(one)
            made.append(exact.rounded(Fraction(one), mode, target) if finite and one else one)
        packed = exact.pack(made, target)
        return packed.view(np.uint16) if packed.dtype.itemsize == 2 else packed

    return expected


def _between_floats() -> list[Row]:
    wide = np.concatenate(
        [
            TO_NARROW.astype(np.float64),
            [1 + 2**-24, 1 + 2**-24 + 2**-50, 1 + 2**-8 + 2**-45, 1 + 2**-11 + 2**-45, 3.5e38, 1e-46, 1e300],
        ]
    )
    half, brain = F16.view(np.uint16), BF16
    rows = [
        ptx("cvt.f64.f32", (TO_NARROW,), "float64", _converted("rn", exact.F32, exact.F64)),
        ptx("cvt.f32.f16", (half,), "float32", _converted("rn", exact.F16, exact.F32)),
        ptx("cvt.f64.f16", (half,), "float64", _converted("rn", exact.F16, exact.F64)),
        ptx("cvt.f32.bf16", (brain,), "float32", _converted("rn", exact.BF16, exact.F32)),
        ptx("cvt.rn.f16.f32", (TO_NARROW,), "f16", _converted("rn", exact.F32, exact.F16)),
        ptx("cvt.rn.bf16.f32", (TO_NARROW,), "bf16", _converted("rn", exact.F32, exact.BF16)),
        ptx("cvt.rn.f16.f64", (wide,), "f16", _converted("rn", exact.F64, exact.F16)),
        ptx("cvt.rn.bf16.f64", (wide,), "bf16", _converted("rn", exact.F64, exact.BF16)),
    ]
    rows += [
        ptx(f"cvt.{mode}.f32.f64", (wide,), "float32", _converted(mode, exact.F64, exact.F32))
        for mode in ("rn", "rz", "rm", "rp")
    ]
    rows += [
        ptx(f"cvt.{how}.{kind}.{kind}", (values,), dtype, lambda x, s=step: s(x))
        for how, step in (("rzi", np.trunc), ("rmi", np.floor), ("rpi", np.ceil), ("rni", np.rint))
        for kind, values, dtype in (
            ("f32", TO_INTEGER.astype(np.float32), "float32"),
            ("f64", TO_INTEGER, "float64"),
        )
    ]
    saturated = np.array([-1, 0.0, 0.25, 1, 2, np.inf, -np.inf, np.nan], np.float32)  # -0 is left open
    rows.append(
        ptx(
            "cvt.sat.f32.f32",
            (saturated,),
            "float32",
            lambda x: np.array([0, 0, 0.25, 1, 1, 1, 0, 0], np.float32),
        )
    )
    return rows


def _between_integers() -> list[Row]:
    rows = []
    for source, values in (("s32", S32), ("s64", S64)):
        for kind, dtype in (WHOLE | LONG).items():
            register = {"s8": "int16", "u8": "uint16"}.get(kind, dtype)
            name = f"cvt.{kind}.{source}"
            if kind != source:
                rows.append(ptx(name, (values,), register, lambda x, d=dtype: x.astype(d)))
            if np.dtype(dtype).itemsize < values.dtype.itemsize:
                rows.append(
                    ptx(
                        f"cvt.sat.{kind}.{source}",
                        (values,),
                        register,
                        lambda x, d=dtype: np.array([_clipped(int(one), d) for one in x], d),
                    )
                )
    return rows


# A register of 64 bits of which a part is read: cvt.s64.s8 %rd2, %rd1.
PARTS = [
    ptx(f"cvt.{to}.{part} of 64 bits", (S64,), kind, lambda x, d=dtype, k=kind: x.astype(d).astype(k), text)
    for to, kind in (("s64", "int64"), ("u64", "uint64"))
    for part, dtype in WHOLE.items()
    if part[0] == to[0]
    for text in (f"cvt.{to}.{part} {{r}}, {{a}};",)
] + [
    Row(
        f"({C_TYPES[dtype]})long long",
        f"long long s = a * 3 + 1; r = ({C_TYPES[dtype]})s;",
        (S64,),
        "int64",
        lambda x, d=dtype: (x * 3 + 1).astype(d).astype(np.int64),
    )
    for dtype in WHOLE.values()
]
ROWS = PARTS + _to_integer() + _from_integer() + _between_floats() + _between_integers()


@pytest.mark.parametrize("number", range(len(ROWS)), ids=[row.name for row in ROWS])
def test_conversion(number):
    check(ROWS, number)
