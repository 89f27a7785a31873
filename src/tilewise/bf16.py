"""BF16 in uint16 arrays: NumPy has no such type, so an array holds the bits, and its recipe names the type.

In: floats, or bits as uint16, of NumPy or CuPy. Out: bits, or floats.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

NAME = "bfloat16"
NOT_A_NUMBER = 0xFFFF


def bits(values: Any) -> Any:
    """The bits of floats as BF16, rounded to the nearest, ties to even; NaN stays NaN.

    Args:
        values: an array of floats, on the host or on a GPU.

    Returns:
        An array of uint16 of the same shape.
    """
    words = values.astype(np.float32).view(np.uint32)
    rounded = words >> 16
    rounded &= 1
    rounded += np.uint32(0x7FFF)
    rounded += words
    rounded >>= 16
    words &= np.uint32(0x7FFFFFFF)
    nan = words > 0x7F800000
    if nan.any():
        rounded[nan] = 0x7FFF
    return rounded.astype(np.uint16)


def values(bits: Any) -> Any:
    """The exact values of bits, as float32.

    Args:
        bits: an array of uint16, on the host or on a GPU.
    """
    return (bits.astype(np.uint32) << 16).view(np.float32)


def names(values: Mapping[str, Any]) -> frozenset[str]:
    """The names of a case's values that are recipes of BF16 arrays."""
    return frozenset(name for name, value in values.items() if getattr(value, "element", None) == NAME)
