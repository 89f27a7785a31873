"""Chains: launches that run in sequence on the same arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tilewise.cuda.cases import Case, case
from tilewise.kernel.launch import Launch

if TYPE_CHECKING:
    from tilewise.simulator.results.counts import Counts


def run_chain(launches: Sequence[Launch]) -> dict[str, Any]:
    """Run launches in sequence on the arrays of the first launch's case.

    Returns:
        The values by name, after the last launch.
    """
    arrays = launches[0].case.make()
    for launch in launches:
        launch.run(arrays)
    return arrays


def count_chain(launches: Sequence[Launch]) -> list[Counts]:
    """Simulate launches in sequence on the arrays of the first launch's case.

    Returns:
        The counts of each launch.
    """
    arrays = launches[0].case.make()
    return [launch.simulate(arrays=arrays).counts for launch in launches]


def as_case(launch: Launch) -> Case:
    """Return a launch's inputs as a case with its grid, block and shared bytes, for ``agree``."""
    return case(launch.grid, launch.block, launch.shared_bytes, **launch.case.values)
