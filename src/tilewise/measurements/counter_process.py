"""Hardware counters for records: the count case of each experiment under Nsight Compute, in a child process.

In: a lesson and the records just written. Out: the same records with counters in the rows of the count case.
The child runs the lesson, opens the profiler's range around each variant's launches only, and writes their
order to a manifest; the parent matches it with the tool's table.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewise.gpu.counters import run_with_ncu
from tilewise.measurements.record import Record, Row

if TYPE_CHECKING:
    from tilewise.measurements.experiment import Experiment

TIME_LIMIT_S = 900
"""The child's time limit for one lesson."""

Counted = Mapping[str, Mapping[str, Mapping[str, float]]]


def launch_variants(experiment: Experiment) -> Iterator[dict[str, Any]]:
    """Launch each variant at the count case twice: to compile everything, then in the profiler's range.

    Yields:
        The manifest's entry of each.
    """
    import cupy

    from tilewise.measurements.implementations import launcher, on_device

    assert experiment.count_case is not None
    for label in experiment.variants:
        launches = experiment.launches(label, experiment.count_case)
        launcher(launches, on_device(launches))()
        call = launcher(launches, on_device(launches))
        cupy.cuda.get_current_stream().synchronize()
        cupy.cuda.runtime.profilerStart()
        call()
        cupy.cuda.get_current_stream().synchronize()
        cupy.cuda.runtime.profilerStop()
        yield {"experiment": experiment.name, "variant": label, "launches": len(launches)}


def count_lesson(ncu: str, lesson: str, experiments: Sequence[str]) -> Counted:
    """Count the variants of a lesson's experiments with Nsight Compute.

    Args:
        ncu: the tool.
        lesson: the lesson's id or path.
        experiments: the names of its experiments to count.

    Returns:
        Counters by experiment, variant and our name, summed over the variant's launches.

    Raises:
        ValueError: the tool failed or its table does not match; with its message.
    """
    named = [part for name in experiments for part in ("--experiment", name)]

    def child(manifest: Path) -> list[str]:
        command = [sys.executable, "-m", "tilewise", "count-child", lesson, "--manifest", str(manifest)]
        return [*command, *named]

    return match_counters(*run_with_ncu(ncu, child, TIME_LIMIT_S))


def match_counters(
    manifest: Sequence[Mapping[str, Any]], launches: Sequence[tuple[str, Mapping[str, float]]]
) -> Counted:
    """Sum the counters of launches by variant.

    Raises:
        ValueError: the number of launches differs from the manifest's.
    """
    expected = sum(int(entry["launches"]) for entry in manifest)
    if expected != len(launches):
        raise ValueError(f"{expected} launches were to be counted and Nsight Compute saw {len(launches)}")
    counted: dict[str, dict[str, Mapping[str, float]]] = {}
    remaining = iter(launches)
    for entry in manifest:
        summed = Counter[str]()
        for _, values in islice(remaining, int(entry["launches"])):
            summed.update(values)
        counted.setdefault(entry["experiment"], {})[entry["variant"]] = dict(summed)
    return counted


def with_counters(
    record: Record, experiment: Experiment, counted: Mapping[str, Mapping[str, float]]
) -> Record:
    """A record with counters in the rows of the count case; rows are added if that was not timed."""
    assert experiment.count_case is not None
    case = dict(experiment.count_case)
    byte_count, operations = experiment.work(case)
    rows = []
    remaining = dict(counted)
    for row in record.rows:
        if dict(row.case) == case and row.variant in counted:
            rows.append(replace(row, counters=dict(remaining.pop(row.variant))))
        elif row.samples_us:
            rows.append(row)
    rows += [
        Row(
            variant=label,
            role="variant",
            case=case,
            counters=dict(values),
            bytes=byte_count,
            flop=operations,
            tokens=experiment.tokens(label, case),
        )
        for label, values in remaining.items()
    ]
    return replace(record, rows=tuple(rows))
