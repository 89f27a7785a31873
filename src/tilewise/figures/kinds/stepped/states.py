"""The steps of a model: states computed in Python, without a run.

In: a list of ``State``s, each with a text, a source line, values, arrays and threads. Out: moments as from a
run, so that the same figure shows both. The lesson defines the states.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tilewise.figures.kinds.stepped.moments import Moment, Touch, Watch


@dataclass(frozen=True, eq=False)
class State:
    """The state after one step of a model."""

    text: str
    """What the step does, as a sentence."""
    line: int = 0
    """The executed line of the source, from 1; 0 for none."""
    values: Mapping[str, Any] = field(default_factory=dict)
    """Numbers by name, or one-dimensional arrays with one number per lane."""
    arrays: Mapping[str, Any] = field(default_factory=dict)
    """Arrays of one or two dimensions by name; every state has the same names and shapes."""
    reads: Mapping[str, Any] = field(default_factory=dict)
    """Elements that the step reads, by array: a mask, or flat indices. Writes are found by comparison."""
    threads: Sequence[int] | None = None
    """Linear indices of the active threads, if there is a launch."""


def moments_of_states(states: Sequence[State]) -> tuple[list[Moment], dict[str, npt.NDArray[np.float64]]]:
    """Return the moments of a model, and its arrays in the first state.

    Raises:
        ValueError: there is no state, states differ in arrays or shapes, or an array has three dimensions.
    """
    if not states:
        raise ValueError("a stepped figure needs at least one state")
    contents = [{name: _array(name, value) for name, value in state.arrays.items()} for state in states]
    first = contents[0]
    for number, arrays in enumerate(contents):
        if _shapes(arrays) != _shapes(first):
            raise ValueError(
                f"state {number + 1} holds {_description(arrays)}, and the first one {_description(first)}: "
                "give every state the same arrays, in the same shapes"
            )
    names = list(first)
    watched = list(dict.fromkeys(name for state in states for name in state.values))
    moments = []
    for number, (state, arrays) in enumerate(zip(states, contents, strict=True)):
        if unknown := [name for name in state.reads if name not in first]:
            raise ValueError(f"state {number + 1} reads {unknown[0]!r}, which is none of {', '.join(names)}")
        touches = [_read(names.index(n), arrays[n], np.asarray(what)) for n, what in state.reads.items()]
        if number:
            touches += [
                _written(at, contents[number - 1][name], arrays[name]) for at, name in enumerate(names)
            ]
        watches = tuple(
            Watch(watched.index(name), np.atleast_1d(np.asarray(value, np.float64)).tolist())
            for name, value in state.values.items()
        )
        nonempty = tuple(touch for touch in touches if len(touch.elements))
        moments.append(Moment(state.line, nonempty, watches, text=state.text))
    return moments, first


def _array(name: str, value: Any) -> npt.NDArray[np.float64]:
    array = np.asarray(value, np.float64)
    if array.ndim not in (1, 2):
        raise ValueError(f"the array {name!r} has {array.ndim} dimensions; a figure draws one or two")
    return array


def _shapes(arrays: Mapping[str, npt.NDArray[np.float64]]) -> dict[str, tuple[int, ...]]:
    return {name: array.shape for name, array in arrays.items()}


def _description(arrays: Mapping[str, npt.NDArray[np.float64]]) -> str:
    sizes = {name: " by ".join(map(str, shape)) for name, shape in _shapes(arrays).items()}
    return ", ".join(f"{name} ({size})" for name, size in sizes.items()) or "no arrays"


def _read(number: int, array: npt.NDArray[np.float64], reads: npt.NDArray[Any]) -> Touch:
    elements = np.flatnonzero(reads.ravel()) if reads.dtype == bool else reads.astype(np.int64).ravel()
    return Touch(number, "read", elements.tolist(), array.ravel()[elements].tolist())


def _written(number: int, before: npt.NDArray[np.float64], after: npt.NDArray[np.float64]) -> Touch:
    same = (before == after) | (np.isnan(before) & np.isnan(after))
    elements = np.flatnonzero(~same.ravel())
    return Touch(number, "write", elements.tolist(), after.ravel()[elements].tolist())
