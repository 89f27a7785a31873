"""Finds the first wrong output of an answer, and what its value suggests.

In: the array that a kernel wrote and the expected one. Out: a sentence with the first wrong element, and one
with what to check. Nothing is run here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tilewise.cuda.cases import Array
from tilewise.cuda.difference import alike, index_text
from tilewise.puzzles import wording

_MARK = 0x7FC0BEEF
"""Bits of a float32 NaN that marks elements that were never written."""


def first_wrong(
    name: str, actual: Array, right: Array, before: Mapping[str, Any], rtol: float = 0.0, atol: float = 0.0
) -> tuple[str, str] | None:
    """The first wrong element of an output.

    Args:
        name: the output's name.
        actual: the kernel's output.
        right: the expected output, of the same shape.
        before: every array before the launch, by name.
        rtol: how far a value may be off, relative to the right one.
        atol: the same, absolute.

    Returns:
        The fault and the repair; None if nothing is wrong.
    """
    wrong = ~_equal(actual, right, rtol, atol)
    if not wrong.any():
        return None
    index = tuple(int(at) for at in np.argwhere(wrong)[0])
    message = wording.wrong_value(
        name,
        index_text(index),
        _shown(actual[index]),
        _shown(right[index]),
        int(wrong.sum()),
        wrong.size,
    )
    return message, _diagnosis(name, actual, right, np.asarray(before[name]), index, wrong)


def _equal(actual: Array, right: Array, rtol: float, atol: float) -> np.ndarray[Any, np.dtype[np.bool_]]:
    same = alike(actual, right)
    if actual.dtype.kind != "f":
        return same
    with np.errstate(invalid="ignore", over="ignore"):
        near = np.abs(actual.astype(np.float64) - right) <= rtol * np.abs(right.astype(np.float64)) + atol
    return same | near


def _diagnosis(
    name: str,
    actual: Array,
    right: Array,
    before: Array,
    index: tuple[int, ...],
    wrong: np.ndarray[Any, np.dtype[np.bool_]],
) -> str:
    """What the value at an index suggests."""
    value = actual[index]
    unchanged = _same_bits(actual, before)
    elsewhere = np.argwhere(alike(right, value))
    is_moved = len(elsewhere) == 1 and _is_moved(actual, right, wrong)
    return wording.diagnosis(
        name,
        written=int((~unchanged).sum()),
        was_kept=bool(unchanged[index]),
        must_stay=bool(alike(right[index], before[index])),
        is_nan=bool(isinstance(value, np.floating) and np.isnan(value)),
        belongs=index_text(tuple(int(at) for at in elsewhere[0])) if is_moved else "",
        is_all=bool(wrong.all()),
    )


def marked(values: Mapping[str, Any]) -> dict[str, Any]:
    """A launch's values; float32 arrays of NaN get a NaN that arithmetic never produces."""
    result = dict(values)
    for name, value in values.items():
        if isinstance(value, np.ndarray) and value.dtype == np.float32 and np.isnan(value).all():
            result[name] = np.full(value.shape, _MARK, dtype=np.uint32).view(np.float32)
    return result


def _same_bits(left: Array, right: Array) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Where two arrays of one dtype have the same bits, so that different NaNs differ."""
    words = np.dtype(f"u{left.dtype.itemsize}")
    return np.asarray(left.view(words) == right.view(words))


def _is_moved(actual: Array, right: Array, wrong: np.ndarray[Any, np.dtype[np.bool_]]) -> bool:
    """Whether the wrong values are right ones in wrong places, and unlikely to be equal by chance."""
    are_distinct = len(np.unique(right)) > 0.9 * right.size
    return are_distinct and bool(np.isin(actual[wrong], right).mean() > 0.9)


def _shown(value: Any) -> str:
    plain = value.item()
    return f"{plain:g}" if isinstance(plain, float) else str(plain)
