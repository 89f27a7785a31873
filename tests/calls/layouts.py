"""What the tests of functions share: arrays in awkward memory, element types, and how many examples."""

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

from tests.sweeps import SIMULATOR
from tilewise import bf16

LAYOUTS = ("plain", "offset", "padded", "stepped", "permuted")
"""Fresh; one element into its memory; a slice of wider rows; every second column; transposed memory."""
KINDS = ("float32", "bfloat16", "float16")
_SHARED = {
    "deadline": None,
    "derandomize": True,
    "database": None,
    "suppress_health_check": list(HealthCheck),
}
FEW = settings(max_examples=12, **_SHARED)
"""In every run."""
MANY = settings(max_examples=2000, **_SHARED)
"""In a sweep."""
HEAVY = settings(max_examples=1000, **_SHARED)
"""In a sweep whose cases take longer."""


def sweep(*modules: str, texts: tuple[str, ...]) -> pytest.MarkDecorator:
    """Thousands of shapes, where sweeps run whole; due when a function, kernels or the simulator changed.

    Args:
        *modules: of `kernels/calls`, besides those that every function uses.
        texts: names of kernels, globs in `kernels`.
    """
    files = [f"src/tilewise/kernels/calls/{one}.py" for one in ("arrays", "launching", *modules)]
    files += [f"src/tilewise/kernels/{one}.cu" for one in (*texts, "general/pack")]
    return pytest.mark.sweep(
        *files, "tests/calls/layouts.py", *SIMULATOR, packages=["ziglang", "hypothesis"], sample=0
    )


def extents(least: int = 0, most: int = 70) -> st.SearchStrategy[int]:
    """A size: small ones often, and those around powers of two."""
    near = [2**power + off for power in range(3, 8) for off in (-1, 0, 1)]
    return st.one_of(
        st.integers(least, min(most, 9)),
        st.sampled_from([one for one in near if least <= one <= most]),
        st.integers(least, most),
    )


def laid_out(values: np.ndarray, layout: str) -> np.ndarray:
    """The same elements in other memory."""
    *leading, last = values.shape
    if layout == "offset":
        made = np.empty(values.size + 1, values.dtype)[1:].reshape(values.shape)
    elif layout == "padded":
        made = np.empty((*leading, last + 3), values.dtype)[..., :last]
    elif layout == "stepped":
        made = np.empty((*leading, 2 * last), values.dtype)[..., ::2]
    elif layout == "permuted":
        made = np.empty(values.shape[::-1], values.dtype).T
    else:
        made = np.empty(values.shape, values.dtype)
    made[...] = values
    return made


def stored(values: np.ndarray, kind: str) -> np.ndarray:
    """Floats as the array that a caller passes: BF16 as its bits."""
    return bf16.bits(values) if kind == "bfloat16" else values.astype(kind)


def exact(array: np.ndarray, kind: str) -> np.ndarray:
    """What an array holds, in FP64."""
    return (bf16.values(array) if kind == "bfloat16" else array).astype(np.float64)


def step_of(kind: str) -> float:
    """The relative rounding step of an element type."""
    return {"float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}[kind]


def named(kind: str) -> dict[str, str]:
    """The keyword that says a uint16 array is BF16."""
    return {"dtype": kind} if kind == "bfloat16" else {}
