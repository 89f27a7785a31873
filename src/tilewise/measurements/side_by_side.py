"""Calls side by side, for text records: launches with shared inputs, timed in one process.

In: launches by label. Out: calls without arguments, or lines with the median of each call by round.
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
"""How many times the contenders are timed."""


class Calls:
    """Calls that share their inputs on the GPU: equal names and values give one array.

    Attributes:
        by_label: the calls, in the order added.
        arrays: device arrays and scalars by name of the last launch added.
    """

    def __init__(self) -> None:
        self.by_label: dict[str, Callable[[], Any]] = {}
        self.arrays: dict[str, Any] = {}
        self._drawn: Drawn = {}
        self._placed: dict[str, Any] = {}

    def add(self, label: str, launches: Any) -> Callable[[], None]:
        """Add a launch, or a list of launches that run in order on the same arrays."""
        sequence = list(launches) if isinstance(launches, list | tuple) else [launches]
        inputs = make_inputs(sequence, 0, self._drawn)
        self.arrays = {
            name: placed(self._placed, identity(name, value), value) for name, value in inputs.items()
        }
        call = launcher(sequence, self.arrays)
        self.by_label[label] = call
        return call

    def add_library(self, label: str, function: Callable[..., Any], **parameters: Any) -> None:
        """Add the call that a library's function returns for the arrays of the last launch added."""
        self.by_label[label] = function(dict(self.arrays), **parameters)


def timed_lines(
    what: str, calls: Mapping[str, Callable[[], Any]], repetitions: int = 60, flush: bool = True
) -> str:
    """Time calls in turn and write a line for each.

    Args:
        what: the start of the lines, e.g. ``N=4096``; without a colon.
        calls: by label.
        repetitions: per call, over all rounds.
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
    for index, label in enumerate(calls):
        samples = np.concatenate([timings[index].samples_us for timings in rounds])
        medians = ", ".join(f"{timings[index].median:.2f}" for timings in rounds)
        lines.append(f"{what}: {label}: {np.median(samples):.2f} us; rounds {medians}")
    return "\n".join(lines)


def read_times(text: str) -> dict[tuple[str, str], float]:
    """Medians in microseconds by ``(what, label)`` from lines of ``timed_lines``."""
    matches = re.findall(r"(?m)^([^:\n]+): ([^:\n]+(?:: [^:\n]+)?): ([\d.]+) us; rounds ", text)
    return {(what, label): float(us) for what, label, us in matches}


def printed_times(lesson: str, name: str) -> Numbers:
    """``read_times`` of what a recorded cell printed; NaN for unrecorded times.

    Args:
        lesson: the lesson's id.
        name: the cell's ``record="..."``.
    """
    return Numbers(read_times(printed(lesson, name)))


def largest_difference(arrays: Mapping[str, Any], calls: Sequence[Callable[[], Any]], name: str) -> float:
    """The largest difference between calls' results in an array of BF16 bits, cleared before each."""
    import cupy

    first, largest = None, 0.0
    for call in calls:
        arrays[name].fill(0)
        call()
        cupy.cuda.runtime.deviceSynchronize()
        values = bf16.values(arrays[name])
        first = values.copy() if first is None else first
        largest = max(largest, float(abs(values - first).max()))
    return largest
