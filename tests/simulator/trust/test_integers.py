"""Integer instructions against Python's own integers: wrapping, ends of ranges, wide shifts."""

from collections.abc import Callable

import numpy as np
import pytest

from .edges import S16, S32, S64, SHIFTS, U16, U32, U64
from .table import Array, Row, check, pairs, ptx, setp

VALUES = {"s16": S16, "u16": U16, "s32": S32, "u32": U32, "s64": S64, "u64": U64}


def _each(function: Callable[..., int], dtype: str) -> Callable[..., Array]:
    """A function of Python's integers, wrapped to a type."""
    bits = 8 * np.dtype(dtype).itemsize

    def expected(*inputs: Array) -> Array:
        whole = [function(*(int(one) for one in group)) % 2**bits for group in zip(*inputs, strict=True)]
        return np.array(whole, f"u{bits // 8}").view(dtype)

    return expected


def _quotient(a: int, b: int) -> int:
    return abs(a) // abs(b) * (-1 if (a < 0) != (b < 0) else 1)


def _without_zero(a: Array, b: Array) -> tuple[Array, Array]:
    return a, np.where(b == 0, np.array(3, b.dtype), b)


def _wide(kind: str) -> str:
    return {"s16": "int32", "u16": "uint32", "s32": "int64", "u32": "uint64"}[kind]


def _arithmetic() -> list[Row]:
    rows = []
    for kind, edge in VALUES.items():
        a, b = pairs(edge)
        c = np.roll(a, 5)
        bits, dtype = 8 * edge.dtype.itemsize, edge.dtype.name
        for name, function in {
            "add": lambda x, y: x + y,
            "sub": lambda x, y: x - y,
            "min": min,
            "max": max,
            "mul.lo": lambda x, y: x * y,
        }.items():
            rows.append(ptx(f"{name}.{kind}", (a, b), dtype, _each(function, dtype)))
        rows.append(ptx(f"mad.lo.{kind}", (a, b, c), dtype, _each(lambda x, y, z: x * y + z, dtype)))
        rows.append(ptx(f"mul.hi.{kind}", (a, b), dtype, _each(lambda x, y, n=bits: x * y >> n, dtype)))
        if bits < 64:
            rows.append(ptx(f"mul.wide.{kind}", (a, b), _wide(kind), _each(lambda x, y: x * y, _wide(kind))))
        if bits == 32:
            wide = np.resize(S64, len(a)).astype(_wide(kind))
            rows.append(
                ptx(
                    f"mad.wide.{kind}",
                    (a, b, wide),
                    _wide(kind),
                    _each(lambda x, y, z: x * y + z, _wide(kind)),
                )
            )
        d, e = _without_zero(a, b)
        rows.append(ptx(f"div.{kind}", (d, e), dtype, _each(_quotient, dtype)))
        rows.append(ptx(f"rem.{kind}", (d, e), dtype, _each(lambda x, y: x - y * _quotient(x, y), dtype)))
        if kind.startswith("s"):
            rows.append(ptx(f"abs.{kind}", (edge,), dtype, _each(abs, dtype)))
            rows.append(ptx(f"neg.{kind}", (edge,), dtype, _each(lambda x: -x, dtype)))
        for name, compare in {
            "eq": int.__eq__,
            "ne": int.__ne__,
            "lt": int.__lt__,
            "le": int.__le__,
            "gt": int.__gt__,
            "ge": int.__ge__,
        }.items():
            rows.append(setp(f"{name}.{kind}", (a, b), _each(compare, "int32")))
    return rows


def _bits() -> list[Row]:
    rows = []
    for kind, edge in {"b16": U16, "b32": U32, "b64": U64}.items():
        a, b = pairs(edge)
        dtype, bits = edge.dtype.name, 8 * edge.dtype.itemsize
        for name, function in {"and": int.__and__, "or": int.__or__, "xor": int.__xor__}.items():
            rows.append(ptx(f"{name}.{kind}", (a, b), dtype, _each(function, dtype)))
        rows.append(ptx(f"not.{kind}", (edge,), dtype, _each(lambda x: ~x, dtype)))
        v, by = pairs(edge, SHIFTS)
        rows.append(ptx(f"shl.{kind}", (v, by), dtype, _each(lambda x, n: x << n if n < 64 else 0, dtype)))
        unsigned = f"u{bits}"
        rows.append(ptx(f"shr.{unsigned}", (v, by), dtype, _each(lambda x, n: x >> min(n, 64), dtype)))
        signed = v.view(f"i{bits // 8}")
        rows.append(
            ptx(f"shr.s{bits}", (signed, by), signed.dtype.name, _each(lambda x, n: x >> min(n, 64), dtype))
        )
        if bits > 16:
            text = f"<< .reg .pred p; setp.ne.u32 p, {{c}}, 0; selp.{kind} {{r}}, {{a}}, {{b}}, p; >>"
            rows.append(
                ptx(
                    f"selp.{kind}",
                    (a, b, (a % 2).astype(np.uint32)),
                    dtype,
                    _each(lambda x, y, z: x if z else y, dtype),
                    text,
                )
            )
            count = _each(lambda x: x.bit_count(), "uint32")
            rows.append(ptx(f"popc.{kind}", (edge,), "uint32", count))
            rows.append(
                ptx(f"clz.{kind}", (edge,), "uint32", _each(lambda x, n=bits: n - x.bit_length(), "uint32"))
            )
            rows.append(
                ptx(
                    f"brev.{kind}", (edge,), dtype, _each(lambda x, n=bits: int(f"{x:0{n}b}"[::-1], 2), dtype)
                )
            )
    rows.append(ptx("bfind.u32", (U32,), "uint32", _each(lambda x: x.bit_length() - 1, "uint32")))
    rows += _fields()
    return rows


def _extract(signed: bool) -> Callable[[int, int, int], int]:
    def field(x: int, start: int, length: int) -> int:
        start, length = start & 255, length & 255
        sign = x >> 31 & 1 if signed else 0
        wide = (x & 0xFFFFFFFF) | (((1 << 600) - (1 << 32)) if sign else 0)
        made = wide >> start & ((1 << length) - 1)
        top = min(start + length - 1, 31)
        if signed and length and x >> top & 1:
            made |= -1 << length
        return made

    return field


def _insert(x: int, y: int, place: int) -> int:
    start, length = place & 255, place >> 8 & 255
    mask = ((1 << length) - 1) << start
    return (y & ~mask | (x << start) & mask) & 0xFFFFFFFF


def _permute(x: int, y: int, selector: int) -> int:
    both = (y << 32 | x).to_bytes(8, "little")
    made = 0
    for lane in range(4):
        pick = selector >> 4 * lane & 15
        byte = both[pick & 7]
        made |= ((255 if byte & 128 else 0) if pick & 8 else byte) << 8 * lane
    return made


def _funnel(left: bool, wrap: bool) -> Callable[[int, int, int], int]:
    def shifted(low: int, high: int, by: int) -> int:
        n = by % 32 if wrap else min(by, 32)
        both = high << 32 | low
        return both << n >> 32 if left else both >> n

    return shifted


def _fields() -> list[Row]:
    starts, lengths = pairs(np.array([0, 1, 4, 16, 31, 32, 40, 255, 256], np.uint32))
    u = np.resize(U32, len(starts))
    a, b = pairs(U32)
    places = np.resize(starts | lengths << 8, len(a)).astype(np.uint32)
    selectors = np.resize(np.array([0x3210, 0x7654, 0x0123, 0xFB73, 0x9999, 0x4567], np.uint32), len(a))
    by = np.resize(SHIFTS, len(a))
    rows = [
        ptx("bfe.u32", (u, starts, lengths), "uint32", _each(_extract(False), "uint32")),
        ptx("bfe.s32", (u.view(np.int32), starts, lengths), "int32", _each(_extract(True), "int32")),
        ptx(
            "bfi.b32",
            (a, b, places),
            "uint32",
            _each(_insert, "uint32"),
            "<< .reg .b32 s, n; and.b32 s, {c}, 255; shr.u32 n, {c}, 8; bfi.b32 {r}, {a}, {b}, s, n; >>",
        ),
        ptx("prmt.b32", (a, b, selectors), "uint32", _each(_permute, "uint32")),
    ]
    for left in (True, False):
        for wrap in (True, False):
            name = f"shf.{'l' if left else 'r'}.{'wrap' if wrap else 'clamp'}.b32"
            rows.append(ptx(name, (a, b, by), "uint32", _each(_funnel(left, wrap), "uint32")))
    for table in (0x80, 0xFE, 0x96, 0xE8, 0xCA, 0x1B):
        expected = _each(lambda x, y, z, t=table: _looked_up(t, x, y, z), "uint32")
        text = f"lop3.b32 {{r}}, {{a}}, {{b}}, {{c}}, {table:#x};"
        rows.append(ptx(f"lop3.b32 {table:#x}", (a, b, np.roll(a, 3)), "uint32", expected, text))
    for first in ("s32", "u32"):
        for second in ("s32", "u32"):
            expected = _each(lambda x, y, z, f=first, s=second: _dot(f, s, x, y, z), "int32")
            arrays = (a.view(np.int32), b.view(np.int32), np.roll(a, 3).view(np.int32))
            rows.append(ptx(f"dp4a.{first}.{second}", arrays, "int32", expected))
    return rows


def _looked_up(table: int, x: int, y: int, z: int) -> int:
    return sum((table >> ((x >> n & 1) * 4 + (y >> n & 1) * 2 + (z >> n & 1)) & 1) << n for n in range(32))


def _dot(first: str, second: str, x: int, y: int, z: int) -> int:
    def byte(value: int, at: int, kind: str) -> int:
        one = value >> 8 * at & 255
        return one - 256 if kind == "s32" and one > 127 else one

    return z + sum(byte(x, at, first) * byte(y, at, second) for at in range(4))


C_ROWS = [
    Row("INT_MIN / -1 wraps", "r = a / b;", pairs(S32[S32 != 0]), "int32", _each(_quotient, "int32")),
    Row("min of C", "r = min(a, b);", pairs(S32), "int32", _each(min, "int32")),
    Row("abs(INT_MIN) wraps", "r = abs(a);", (S32,), "int32", _each(abs, "int32")),
    Row("__popcll", "r = __popcll(a);", (U64,), "int32", _each(lambda x: x.bit_count(), "int32")),
    Row("__ffs", "r = __ffs(a);", (S32,), "int32", _each(lambda x: (x & -x).bit_length(), "int32")),
    Row("__umulhi", "r = __umulhi(a, b);", pairs(U32), "uint32", _each(lambda x, y: x * y >> 32, "uint32")),
    Row("char wraps", "r = (signed char)a;", (S32,), "int8", _each(lambda x: x, "int8")),
    Row("unsigned to long", "r = a;", (U32,), "int64", _each(lambda x: x, "int64")),
    Row("int to long", "r = a;", (S32,), "int64", _each(lambda x: x, "int64")),
]
ROWS = _arithmetic() + _bits() + C_ROWS


@pytest.mark.parametrize("number", range(len(ROWS)), ids=[row.name for row in ROWS])
def test_integer_instruction(number):
    check(ROWS, number)
