"""How far the math functions are from the truth, in units in the last place, over stated ranges.

`TABLE` is what the documentation shows. The truth is NumPy in float64, whose own error is a hundred million
times smaller than a unit of float32.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import erf, erfc, exp, lgamma

import numpy as np
import pytest

from .table import Array, Row, run

COUNT = 4000


@dataclass(frozen=True)
class Promise:
    """One line of the table."""

    call: str
    """As a kernel writes it."""
    truth: Callable[..., Array]
    """In float64."""
    low: float
    """Least argument."""
    high: float
    """Largest argument."""
    ulp: float
    """Largest error, in units in the last place of the true result."""
    spread: str = "evenly"
    """`evenly`, or `log` for arguments whose logarithms are spread evenly."""
    absolute: float = 0.0
    """Where the result comes near zero: an absolute error that is enough."""


def _by_one(function: Callable[[float], float]) -> Callable[[Array], Array]:
    return np.vectorize(function, otypes=[np.float64])


TABLE = (
    Promise("expf(a)", np.exp, -87.0, 88.0, 0.501),
    Promise("exp2f(a)", np.exp2, -125.0, 127.0, 0.501),
    Promise("exp10f(a)", lambda x: np.power(10.0, x), -37.0, 38.0, 0.501),
    Promise("expm1f(a)", np.expm1, -5.0, 5.0, 0.501),
    Promise("logf(a)", np.log, 1e-37, 1e38, 0.501, "log"),
    Promise("log2f(a)", np.log2, 1e-37, 1e38, 0.501, "log"),
    Promise("log10f(a)", np.log10, 1e-37, 1e38, 0.501, "log"),
    Promise("log1pf(a)", np.log1p, -0.9, 10.0, 0.501),
    Promise("sinf(a)", np.sin, -1000.0, 1000.0, 0.501),
    Promise("cosf(a)", np.cos, -1000.0, 1000.0, 0.501),
    Promise("tanf(a)", np.tan, -1.5, 1.5, 0.501),
    Promise("sinhf(a)", np.sinh, -20.0, 20.0, 0.501),
    Promise("coshf(a)", np.cosh, -20.0, 20.0, 0.501),
    Promise("tanhf(a)", np.tanh, -9.0, 9.0, 0.501),
    Promise("asinf(a)", np.arcsin, -1.0, 1.0, 0.501),
    Promise("acosf(a)", np.arccos, -1.0, 1.0, 0.501),
    Promise("atanf(a)", np.arctan, -100.0, 100.0, 0.501),
    Promise("atan2f(a, b)", np.arctan2, -10.0, 10.0, 0.501),
    Promise("erff(a)", _by_one(erf), -4.0, 4.0, 0.501),
    Promise("erfcf(a)", _by_one(erfc), -3.0, 8.0, 0.501),
    Promise("lgammaf(a)", _by_one(lgamma), 3.0, 100.0, 0.501),
    Promise("cbrtf(a)", np.cbrt, -100.0, 100.0, 0.501),
    Promise("hypotf(a, b)", np.hypot, -100.0, 100.0, 0.501),
    Promise("powf(a, b)", np.power, 0.01, 20.0, 0.501),
    Promise("sqrtf(a)", np.sqrt, 1e-37, 1e38, 0.501, "log"),
    Promise("rsqrtf(a)", lambda x: 1 / np.sqrt(x), 1e-37, 1e38, 0.501, "log"),
    Promise("1.0f / a", lambda x: 1 / x, 1e-37, 1e37, 0.501, "log"),
    Promise("a / b", lambda x, y: x / y, 0.01, 1000.0, 0.501),
    Promise("__fdividef(a, b)", lambda x, y: x / y, 0.01, 1000.0, 1.5),
    Promise("__expf(a)", np.exp, -10.0, 10.0, 8.0),
    Promise("__expf(a)", np.exp, -80.0, 80.0, 64.0),
    Promise("__log2f(a)", np.log2, 2.0, 1e38, 0.501, "log"),
    Promise("__logf(a)", np.log, 2.0, 1e38, 1.5, "log"),
    Promise("__sinf(a)", np.sin, -3.14159, 3.14159, 0.501, absolute=1e-7),
    Promise("__cosf(a)", np.cos, -3.14159, 3.14159, 0.501, absolute=1e-7),
    Promise("__powf(a, b)", np.power, 0.5, 4.0, 8.0),
    Promise("exp(a)", np.exp, -87.0, 88.0, 0.501),
)
"""Ranges and errors; the simulator rounds the double function once, so most are half a unit."""


def _arguments(promise: Promise) -> tuple[Array, ...]:
    made = np.random.Generator(np.random.PCG64(5))
    if promise.spread == "log":
        a = np.exp(made.uniform(np.log(promise.low), np.log(promise.high), COUNT)).astype(np.float32)
    else:
        a = made.uniform(promise.low, promise.high, COUNT).astype(np.float32)
        a[:2] = promise.low, promise.high
    a = np.clip(a, np.float32(promise.low), np.float32(promise.high))
    if "b" not in promise.call.replace("cbrt", ""):
        return (a,)
    return a, made.permutation(a)


ROWS = [
    Row(one.call, f"r = {one.call};", _arguments(one), "float32", lambda *_: np.zeros(0)) for one in TABLE
]


def largest_error(number: int) -> float:
    """In units in the last place, of one line of the table."""
    promise = TABLE[number]
    got = run(ROWS, number).astype(np.float64)
    truth = promise.truth(*(one.astype(np.float64) for one in ROWS[number].inputs))
    unit = np.spacing(np.maximum(np.abs(truth), np.finfo(np.float32).tiny).astype(np.float32)).astype(
        np.float64
    )
    # Above a power of two the unit doubles; measured is by the unit of the interval that holds the truth.
    below = np.nextafter(np.abs(truth).astype(np.float32), np.float32(0)).astype(np.float64)
    unit = np.where(
        np.abs(truth).astype(np.float32) > np.abs(truth), np.abs(truth).astype(np.float32) - below, unit
    )
    off = np.abs(got - truth)
    off[off <= promise.absolute] = 0.0
    assert np.isfinite(off).all(), f"{promise.call} is not finite"
    return float((off / unit).max())


NAMES = [f"{one.call} {one.low:g} to {one.high:g}" for one in TABLE]


@pytest.mark.parametrize("number", range(len(TABLE)), ids=NAMES)
def test_error_of_a_function(number):
    error = largest_error(number)
    promised = TABLE[number].ulp
    assert error <= promised, f"{NAMES[number]}: {error:.3f} units, promised {promised}"
    # A promise far wider than what is found says nothing.
    assert promised <= max(0.501, 4 * error)


def test_results_below_the_least_normal_float_are_flushed_as_cupy_compiles():
    a = np.array([-87.0, -88.0, -100.0], np.float32)
    row = [Row("expf", "r = expf(a);", (a,), "float32", lambda x: x)]
    assert run(row, 0).tolist() == [np.float32(exp(-87.0)), 0.0, 0.0]
    kept = run(row, 0, options=("-ftz=false",))
    assert (kept > 0).all()
