"""Steps that a model makes: states computed in Python, without a run.

In: a list of ``State``s, each with what it says, the line it stands for, values, arrays and threads. Out: the
same moments as a run's, so that one figure shows both. What the states are is the lesson's business.
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
    """One step of a model, as it is when the step is done."""

    text: str
    """What the step does, as a sentence."""
    line: int = 0
    """The line of the source that is executed, from 1; 0 for none."""
    values: Mapping[str, Any] = field(default_factory=dict)
    """Numbers by name, or one-dimensional arrays with a number for each lane."""
    arrays: Mapping[str, Any] = field(default_factory=dict)
    """Contents by name, of one or two dimensions; the same names and shapes in every state."""
    reads: Mapping[str, Any] = field(default_factory=dict)
    """What the step reads, by array: a mask of its shape, or flat indices. Writes are found by comparing."""
    threads: Sequence[int] | None = None
    """Linear numbers of the threads at work, where there is a launch."""


def moments_of_states(states: Sequence[State]) -> tuple[list[Moment], dict[str, npt.NDArray[np.float64]]]:
    """Return the moments of a model, and what its arrays hold in the first one.

    Raises:
        ValueError: there is no state, or an array changes its shape, comes later, or has three dimensions.
    """
    if not states:
        raise ValueError("a stepped figure needs at least one state")
    contents = [{name: _held(name, one) for name, one in state.arrays.items()} for state in states]
    first = contents[0]
    for number, held in enumerate(contents):
        if {name: one.shape for name, one in held.items()} != {n: one.shape for n, one in first.items()}:
            raise ValueError(
                f"state {number + 1} holds {_named(held)}, and the first one {_named(first)}: "
                "give every state the same arrays, in the same shapes"
            )
    names = list(first)
    watched = list(dict.fromkeys(name for state in states for name in state.values))
    moments = []
    for number, (state, held) in enumerate(zip(states, contents, strict=True)):
        if unknown := [name for name in state.reads if name not in first]:
            raise ValueError(f"state {number + 1} reads {unknown[0]!r}, which is none of {', '.join(names)}")
        touches = [_read(names.index(n), held[n], np.asarray(what)) for n, what in state.reads.items()]
        if number:
            touches += [_written(at, contents[number - 1][name], held[name]) for at, name in enumerate(names)]
        watches = tuple(
            Watch(watched.index(name), np.atleast_1d(np.asarray(value, np.float64)).tolist())
            for name, value in state.values.items()
        )
        kept = tuple(touch for touch in touches if len(touch.elements))
        moments.append(Moment(state.line, kept, watches, text=state.text))
    return moments, first


def _held(name: str, value: Any) -> npt.NDArray[np.float64]:
    array = np.asarray(value, np.float64)
    if array.ndim not in (1, 2):
        raise ValueError(f"the array {name!r} has {array.ndim} dimensions; a figure draws one or two")
    return array


def _named(held: Mapping[str, npt.NDArray[np.float64]]) -> str:
    said = [f"{name} ({' by '.join(map(str, one.shape))})" for name, one in held.items()]
    return ", ".join(said) or "no arrays"


def _read(number: int, held: npt.NDArray[np.float64], what: npt.NDArray[Any]) -> Touch:
    elements = np.flatnonzero(what.ravel()) if what.dtype == bool else what.astype(np.int64).ravel()
    return Touch(number, "read", elements.tolist(), held.ravel()[elements].tolist())


def _written(number: int, before: npt.NDArray[np.float64], after: npt.NDArray[np.float64]) -> Touch:
    same = (before == after) | (np.isnan(before) & np.isnan(after))
    elements = np.flatnonzero(~same.ravel())
    return Touch(number, "write", elements.tolist(), after.ravel()[elements].tolist())
