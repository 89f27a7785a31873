"""Arithmetic without rounding, and one rounding at its end: what an instruction must give, bit for bit.

In: NumPy values. Out: NumPy values, by way of Python's fractions, so that nothing is shared with the machine
that is tested, nor with the rounding of this computer. Only finite values come through here.
"""

from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from math import copysign, floor, isfinite

import numpy as np

Array = np.ndarray


@dataclass(frozen=True)
class Format:
    """A binary floating-point format."""

    dtype: str
    """NumPy's type of the array that holds it; bfloat16 travels as its bits."""
    fraction: int
    """Bits behind the leading one."""
    lowest: int
    """Exponent of the least normal number."""
    highest: int
    """Exponent of the largest."""


F16 = Format("f2", 10, -14, 15)
BF16 = Format("u2", 7, -126, 127)
F32 = Format("f4", 23, -126, 127)
F64 = Format("f8", 52, -1022, 1023)


def values(array: Array, kind: Format) -> list[float]:
    """The numbers that an array stands for."""
    if kind is BF16:
        return [float(one) for one in (array.astype(np.uint32) << 16).view(np.float32)]
    return [float(one) for one in array]


def rounded(value: Fraction, mode: str, kind: Format) -> float:
    """The number of a format next to a value: to even (rn), zero (rz), minus (rm) or plus infinity (rp)."""
    size = abs(value)
    if not size:
        return 0.0
    exponent = max(size.numerator.bit_length() - size.denominator.bit_length() - 1, kind.lowest - 1)
    while exponent + 1 <= kind.highest + 1 and Fraction(2) ** (exponent + 1) <= size:
        exponent += 1
    unit = Fraction(2) ** (max(exponent, kind.lowest) - kind.fraction)
    scaled = size / unit
    whole = floor(scaled)
    away = {"rz": False, "rm": value < 0, "rp": value > 0}
    if mode == "rn":
        rest = scaled - whole
        whole += rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole % 2)
    elif scaled != whole and away[mode]:
        whole += 1
    made = whole * unit
    largest = (2 - Fraction(1, 2**kind.fraction)) * Fraction(2) ** kind.highest
    if made > largest:
        made_float = float("inf") if mode == "rn" or away[mode] else float(largest)
    else:
        made_float = float(made)
    return -made_float if value < 0 else made_float


def pack(numbers: list[float], kind: Format) -> Array:
    """Numbers, which a format holds exactly, in its array."""
    if kind is BF16:
        return (np.array(numbers, np.float32).view(np.uint32) >> 16).astype(np.uint16)
    with np.errstate(over="ignore"):
        return np.array(numbers, np.float64).astype(kind.dtype)


def apply(
    operation: Callable[..., Fraction], special: Callable[..., float], mode: str, kind: Format, *inputs: Array
) -> Array:
    """An operation with one rounding.

    Args:
        operation: on fractions.
        special: the same on floats, for infinities, NaN and results of zero, where only the sign counts.
        mode: the rounding.
        kind: the format of inputs and result.
        inputs: equally long arrays.
    """
    results = []
    for numbers in zip(*(values(one, kind) for one in inputs), strict=True):
        exact = operation(*map(Fraction, numbers)) if all(map(isfinite, numbers)) else None
        if exact:
            results.append(rounded(exact, mode, kind))
        else:
            plain = special(*numbers)
            results.append(-0.0 if mode == "rm" and _cancels(numbers, plain) else plain)
    return pack(results, kind)


def _cancels(numbers: tuple[float, ...], plain: float) -> bool:
    """Whether a sum is zero because its parts cancel: rounded down, that zero is negative."""
    if plain != 0 or len(numbers) != 2 or numbers[0] != -numbers[1]:
        return False
    return copysign(1, numbers[0]) != copysign(1, numbers[1])


def flush(array: Array) -> Array:
    """Subnormal floats as zeros of their sign."""
    if array.dtype != np.float32:
        return array
    return np.where(np.abs(array) < np.finfo(np.float32).tiny, np.copysign(np.float32(0), array), array)
