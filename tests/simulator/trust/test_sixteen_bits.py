"""Half precision and bfloat16: one rounding, to even, for each instruction; pairs go like two alone."""

import operator
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from tests.simulator.kernels import on_threads, simulate

from . import exact
from .edges import BF16, F16
from .exact import Format
from .table import Array, Row, check, pairs, ptx, setp

# Products that end in a tie, and what decides it: far below it, where a second rounding would lose it.
TIES = np.array([0x4040, 0x42CA, 0x2F80, 0xAF80, 0x0D80, 0x4044, 0x42CC, 0x0080, 0x3F00], np.uint16)
KINDS = {"f16": (F16.view(np.uint16), exact.F16), "bf16": (np.concatenate([BF16, TIES]), exact.BF16)}


def _floats(bits: Array, kind: Format) -> Array:
    return np.array(exact.values(bits.view(kind.dtype), kind), np.float64)


def _rounded(function: Callable[..., Fraction], kind: Format) -> Callable[..., Array]:
    def plain(*numbers: float) -> float:
        with np.errstate(all="ignore"):
            return float(function(*map(np.float64, numbers)))

    def expected(*inputs: Array) -> Array:
        made = exact.apply(function, plain, "rn", kind, *(one.view(kind.dtype) for one in inputs))
        return made.view(np.uint16)

    return expected


def _least(kind: Format, sign: int) -> Callable[[Array, Array], Array]:
    def expected(x: Array, y: Array) -> Array:
        a, b = _floats(x, kind), _floats(y, kind)
        first = np.where(
            np.isnan(b), True, np.where(a == b, np.signbit(a) == (sign > 0), sign * a < sign * b)
        )
        return np.where(np.isnan(a), False, first).choose([y, x])

    return expected


def _twice(expected: Callable[..., Array]) -> Callable[..., Array]:
    """On pairs: the low and the high half of a word."""

    def both(*inputs: Array) -> Array:
        low, high = (expected(*(one.view(np.uint16)[part::2].copy() for one in inputs)) for part in (0, 1))
        return low.astype(np.uint32) | high.astype(np.uint32) << 16

    return both


def _words(one: Array) -> Array:
    return one.astype(np.uint32) | np.roll(one, 11).astype(np.uint32) << 16


def _rows() -> list[Row]:
    rows = []
    for name, (edge, kind) in KINDS.items():
        a, b = pairs(edge)
        operations: dict[str, tuple[Callable[..., Array], tuple[Array, ...]]] = {
            "add": (_rounded(operator.add, kind), (a, b)),
            "sub": (_rounded(operator.sub, kind), (a, b)),
            "mul": (_rounded(operator.mul, kind), (a, b)),
            "fma.rn": (_rounded(lambda x, y, z: x * y + z, kind), _triples(a, b, edge)),
            "min": (_least(kind, 1), (a, b)),
            "max": (_least(kind, -1), (a, b)),
        }
        for op, (expected, inputs) in operations.items():
            rows.append(ptx(f"{op}.{name}", inputs, name, expected))
            words = tuple(map(_words, inputs))
            rows.append(ptx(f"{op}.{name}x2", words, f"{name}x2", _twice(expected)))
        rows.append(ptx(f"neg.{name}", (edge,), "uint16", lambda x: x ^ 0x8000))
        rows.append(ptx(f"abs.{name}", (edge,), "uint16", lambda x: x & 0x7FFF))
        for op, compare in {"lt": np.less, "ge": np.greater_equal, "eq": np.equal}.items():
            of_floats = lambda x, y, f=compare, k=kind: f(_floats(x, k), _floats(y, k))  # noqa: E731
            rows.append(setp(f"{op}.{name}", (a, b), of_floats))
    return rows


def _triples(a: Array, b: Array, edge: Array) -> tuple[Array, Array, Array]:
    third = np.concatenate([np.roll(a, 9), np.resize(edge, len(a))])
    return np.tile(a, 2), np.tile(b, 2), third


ROWS = _rows()


@pytest.mark.parametrize("number", range(len(ROWS)), ids=[row.name for row in ROWS])
def test_instruction(number):
    check(ROWS, number)


@pytest.mark.parametrize("options", [(), ("--use_fast_math",)])
def test_a_product_and_a_sum_of_halves_are_rounded_each_and_those_of_floats_once(
    options,
):
    """As on an H100, whose bits stand in the record of the specimen "half2 products"."""
    a = np.random.default_rng(3).standard_normal(32).astype(np.float16)
    y, z, v = np.zeros(32, np.float16), np.zeros((32, 2), np.float16), np.zeros(32, np.float32)
    source = "#include <cuda_fp16.h>\n" + on_threads(
        "half2 p = make_half2(a[i], a[i]); y[i] = a[i] * a[i] - a[0]; z[i] = __hsub2(__hmul2(p, p), "
        "__half2half2(a[0])); float f = a[i]; f += 1e-3f; v[i] = f * f - 1.0f;",
        "const half* a, half* y, half2* z, float* v",
    )
    simulate(source, a, y, z, v, options=options)
    expected = (a * a - a[0]).astype(np.float16)
    assert np.array_equal(y, expected) and np.array_equal(z, np.stack([expected, expected], 1))
    f = a.astype(np.float32) + np.float32(1e-3)
    assert np.array_equal(v, (f.astype(np.float64) ** 2 - 1).astype(np.float32))
