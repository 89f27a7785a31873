"""Counting: the simulator's counts of a variant at the count case.

In: an experiment. Out: counts by variant under the names of ``gpu.counters.METRICS``, after checking the
answer; the reason if the simulator cannot run, e.g. without clang.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tilewise.measurements.archive import wanted_machine

if TYPE_CHECKING:
    from tilewise.measurements.experiment import Experiment


@dataclass(frozen=True)
class Count:
    """A count that a table can show."""

    title: str
    parts: tuple[str, ...]
    """The single counts that it sums."""


COUNTS: Mapping[str, Count] = {
    "sectors": Count("sectors", ("global_load_sectors", "global_store_sectors")),
    "requests": Count("requests", ("global_load_requests", "global_store_requests")),
    "wavefronts": Count("shared wavefronts", ("shared_load_wavefronts", "shared_store_wavefronts")),
    "instructions": Count("instructions", ("instructions",)),
}
"""The counts that a table can show, loads and stores together."""


def total(counts: Mapping[str, float] | None, name: str) -> float | None:
    """One of ``COUNTS`` from single counts; None if one is missing."""
    if counts is None or any(part not in counts for part in COUNTS[name].parts):
        return None
    return sum(counts[part] for part in COUNTS[name].parts)


Counts = dict[str, Mapping[str, float]]
"""Single counts of each variant, summed over its launches."""
_KNOWN: dict[tuple[str, ...], Counts] = {}
"""Counts cached in this process by tokens, because they are the same for a lesson's other machines."""


def counts_of(run: Any) -> dict[str, float]:
    """The single counts of a simulated run, under the hardware counters' names."""
    counts = run.counts
    return {
        "global_load_requests": float(counts.global_load.requests),
        "global_load_sectors": float(counts.global_load.sectors),
        "global_store_requests": float(counts.global_store.requests),
        "global_store_sectors": float(counts.global_store.sectors),
        "global_load_useful_bytes": float(counts.global_load.useful_bytes),
        "global_store_useful_bytes": float(counts.global_store.useful_bytes),
        "shared_load_wavefronts": float(counts.shared_load.wavefronts),
        "shared_store_wavefronts": float(counts.shared_store.wavefronts),
        "instructions": float(counts.issued),
    }


def simulate(experiment: Experiment) -> tuple[Counts, str]:
    """Run every variant at the count case on the simulator, check its answer and count.

    Returns:
        The counts, and a sentence on why there are none if the simulator does not run here.

    Raises:
        LessonError: a variant's answer is wrong.
        HazardError: a variant has a hazard.
    """
    if experiment.count_case is None:
        return {}, ""
    from tilewise.simulator import ToolchainError
    from tilewise.simulator.engine.machine import MachineError

    key = _key(experiment, experiment.count_case)
    if key not in _KNOWN or not wanted_machine():
        try:
            _KNOWN[key] = _counted(experiment, experiment.count_case)
        except (ToolchainError, MachineError) as error:
            return {}, f"No simulation in this build: {error}".rstrip(".") + "."
    return _KNOWN[key], ""


def _key(experiment: Experiment, parameters: Mapping[str, Any]) -> tuple[str, ...]:
    """Everything that the simulation and its check depend on."""
    from tilewise.measurements.key import function_tokens

    right = function_tokens(experiment.reference) if experiment.reference else ""
    tokens = (experiment.tokens(label, parameters) for label in experiment.variants)
    return (experiment.name, f"{right} {experiment.tolerance}", *experiment.variants, *tokens)


def _counted(experiment: Experiment, parameters: Mapping[str, Any]) -> Counts:
    """The counts of each variant, after checking its answer."""
    from tilewise.measurements.answers import (
        check_answer,
        checked_names,
        expected_answer,
        make_inputs,
        numbers,
        written,
    )

    first = experiment.launches(next(iter(experiment.variants)), parameters)
    expected = expected_answer(experiment, first, make_inputs(first))
    by_variant: Counts = {}
    for label in experiment.variants:
        launches = experiment.launches(label, parameters)
        arrays = make_inputs(launches)
        summed: dict[str, float] = {}
        for launch in launches:
            run = launch.kernel.simulate(
                *launch.arguments(arrays),
                grid=launch.grid,
                block=launch.block,
                shared_bytes=launch.shared_bytes,
            )
            for name, value in counts_of(run).items():
                summed[name] = summed.get(name, 0.0) + value
        decoded = numbers(launches, arrays)
        if expected is None:
            expected = {name: decoded[name].copy() for name in written(launches)}
        names = checked_names(experiment, label, written(launches), expected)
        got = {name: decoded[name] for name in names}
        check_answer(experiment, label, got, {name: expected[name] for name in names}, "on the simulator")
        by_variant[label] = summed
    return by_variant
