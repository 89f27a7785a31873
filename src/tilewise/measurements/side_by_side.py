"""Calls side by side: for text records, launches with shared inputs as calls, and their times in one process.

In: launches by label. Out: calls of no arguments, or lines with the median of each call, round by round.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tilewise import bf16
from tilewise.gpu.timing import Contender, Plan, time_contenders
from tilewise.measurements.answers import Drawn, make_inputs
from tilewise.measurements.implementations import identity, launcher, placed
from tilewise.measurements.readings import Numbers, printed

ROUNDS = 3
"""How often the contenders are timed anew."""


class Calls:
    """Calls that share their inputs on the GPU: what has the same name and the same values is one array.

    Attributes:
        by_label: what was added, in order.
        arrays: device arrays and scalars by name of what was added last.
    """

    def __init__(self) -> None:
        self.by_label: dict[str, Callable[[], Any]] = {}
        self.arrays: dict[str, Any] = {}
        self._drawn: Drawn = {}
        self._placed: dict[str, Any] = {}

    def add(self, label: str, launches: Any) -> Callable[[], None]:
        """Add a launch, or a list of launches that run one after the other on the same arrays."""
        given = list(launches) if isinstance(launches, list | tuple) else [launches]
        made = make_inputs(given, 0, self._drawn)
        self.arrays = {
            name: placed(self._placed, identity(name, value), value) for name, value in made.items()
        }
        call = launcher(given, self.arrays)
        self.by_label[label] = call
        return call

    def add_library(self, label: str, function: Callable[..., Any], **parameters: Any) -> None:
        """Add what a library's function makes of the arrays of the launch that was added last."""
        self.by_label[label] = function(dict(self.arrays), **parameters)


def timed_lines(
    what: str, calls: Mapping[str, Callable[[], Any]], repetitions: int = 60, flush: bool = True
) -> str:
    """Time calls in turn and write a line for each.

    Args:
        what: what the lines begin with, ``N=4096``; without a colon.
        calls: by label.
        repetitions: of each call, over all rounds.
        flush: whether the L2 is cold before each repetition.

    Returns:
        Lines ``what: label: median us; rounds a, b, c``, in microseconds.
    """
    for call in calls.values():
        call()  # compiled and loaded before anything is timed
    plan = Plan(budget_s=1.0, repetitions=max(3, repetitions // ROUNDS), flush=flush)
    contenders = [Contender(label, call) for label, call in calls.items()]
    rounds = [time_contenders(contenders, plan) for _ in range(ROUNDS)]
    lines = []
    for at, label in enumerate(calls):
        every = np.concatenate([one[at].samples_us for one in rounds])
        medians = ", ".join(f"{one[at].median:.2f}" for one in rounds)
        lines.append(f"{what}: {label}: {np.median(every):.2f} us; rounds {medians}")
    return "\n".join(lines)


def read_times(text: str) -> dict[tuple[str, str], float]:
    """Medians in microseconds by ``(what, label)`` from lines of ``timed_lines``."""
    found = re.findall(r"(?m)^([^:\n]+): ([^:\n]+(?:: [^:\n]+)?): ([\d.]+) us; rounds ", text)
    return {(what, label): float(us) for what, label, us in found}


def printed_times(lesson: str, name: str) -> Numbers:
    """``read_times`` of what a recorded cell printed; NaN for what is not recorded.

    Args:
        lesson: the lesson's id.
        name: the cell's ``record="..."``.
    """
    return Numbers(read_times(printed(lesson, name)))


def largest_difference(arrays: Mapping[str, Any], calls: Sequence[Callable[[], Any]], name: str) -> float:
    """The largest difference between what calls leave in an array of BF16 bits, cleared before each."""
    import cupy

    first, most = None, 0.0
    for call in calls:
        arrays[name].fill(0)
        call()
        cupy.cuda.runtime.deviceSynchronize()
        found = bf16.values(arrays[name])
        first = found.copy() if first is None else first
        most = max(most, float(abs(found - first).max()))
    return most
