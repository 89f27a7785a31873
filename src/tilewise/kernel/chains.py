"""Chains: launches that run one after the other on the same arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from tilewise.cuda.cases import Case, case
from tilewise.kernel.launch import Launch

if TYPE_CHECKING:
    from tilewise.simulator.results.counts import Counts


def run_chain(launches: Sequence[Launch]) -> dict[str, Any]:
    """Run launches one after the other on arrays of the first one's case.

    Returns:
        The values by name, after the last one.
    """
    arrays = launches[0].case.make()
    for launch in launches:
        launch.run(arrays)
    return arrays


def count_chain(launches: Sequence[Launch]) -> list[Counts]:
    """Simulate launches one after the other on arrays of the first one's case.

    Returns:
        What each of them counted.
    """
    arrays = launches[0].case.make()
    return [launch.simulate(arrays=arrays).counts for launch in launches]


def as_case(launch: Launch) -> Case:
    """A launch's inputs as a case with its grid, block and shared bytes, for ``agree``."""
    return case(launch.grid, launch.block, launch.shared_bytes, **launch.case.values)
