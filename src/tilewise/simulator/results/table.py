"""A run's counts by source line, as the table that a terminal and a page show.

In: a ``Run``. Out: a ``RunOutput`` with the counts that occur, and a mark at those that cost more than the
kernel asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewise.outputs.run import RunColumn, RunLine, RunOutput
from tilewise.outputs.table import Cell
from tilewise.simulator.engine.shared import COUNTERS
from tilewise.simulator.results.counts import BulkCounts, Counts, GlobalCounts, SharedCounts

if TYPE_CHECKING:
    from tilewise.simulator.run import Run


@dataclass(frozen=True)
class _Column:
    shown: RunColumn
    used: Callable[[Counts], int]
    """What it counts: the column is left out where the whole run has none."""
    form: str
    """Which of ``CELLS`` makes its cell."""
    get: Callable[[Counts], tuple[int, ...]]
    """What that one takes."""

    def cell(self, counts: Counts) -> Cell:
        """What the column shows of some counts."""
        made: Cell = globals()[CELLS[self.form]](*self.get(counts))
        return made


CELLS = {"plain": "_plain_cell", "lanes": "_lanes_cell", "sectors": "_sectors_cell", "passes": "_passes_cell"}
"""The functions that make cells; ``simulator/browser/sentences.py`` translates them for pages."""


def _plain_cell(count: int) -> Cell:
    return Cell(count)


def _lanes_cell(lanes: int, issued: int) -> Cell:
    average = lanes / issued if issued else 0.0
    return Cell(f"{average:.1f}".removesuffix(".0"), f"{lanes:,} lanes in all")


def _sectors_cell(sectors: int, useful: int) -> Cell:
    moved = 32 * sectors
    if not moved:
        return Cell(0)
    fraction = f"{useful:,} bytes requested, {moved:,} moved"
    return Cell(sectors, fraction, mark="waste" if 2 * useful < moved else None)


def _passes_cell(wavefronts: int, requests: int, useful: int) -> Cell:
    least = max(requests, -(-useful // 128))
    if wavefronts <= least:
        return Cell(wavefronts)
    return Cell(wavefronts, f"{least:,} would do without bank conflicts", mark="waste")


def _plain(group: str, name: str, meaning: str, get: Callable[[Counts], int]) -> _Column:
    return _Column(RunColumn(group, name, meaning), get, "plain", lambda counts: (get(counts),))


def _global(group: str, get: Callable[[Counts], GlobalCounts]) -> list[_Column]:
    requests = "Instructions of a warp that go to memory with at least one lane."
    sectors = RunColumn(group, "sectors", "Distinct 32-byte sectors that the requests touch.")
    return [
        _plain(group, "requests", requests, lambda counts: get(counts).requests),
        _Column(
            sectors,
            lambda counts: get(counts).sectors,
            "sectors",
            lambda counts: (get(counts).sectors, get(counts).useful_bytes),
        ),
    ]


def _shared(group: str, get: Callable[[Counts], SharedCounts]) -> list[_Column]:
    requests = "Instructions of a warp that go to shared memory with at least one lane."
    passes = RunColumn(group, "wavefronts", "Trips through the shared-memory pipe that the requests take.")
    return [
        _plain(group, "requests", requests, lambda counts: get(counts).requests),
        _Column(
            passes,
            lambda counts: get(counts).wavefronts,
            "passes",
            lambda counts: (get(counts).wavefronts, get(counts).requests, get(counts).useful_bytes),
        ),
    ]


def _bulk(group: str, get: Callable[[Counts], BulkCounts]) -> list[_Column]:
    sectors = "Pieces of 32 bytes of global memory, row by row of each box."
    return [
        _plain(group, "bytes", "Bytes of shared memory.", lambda counts: get(counts).shared_bytes),
        _plain(group, "sectors", sectors, lambda counts: get(counts).sectors),
    ]


_COLUMNS = [
    _plain(
        "instructions", "issued", "Instructions of PTX that warps executed.", lambda counts: counts.issued
    ),
    _Column(
        RunColumn("instructions", "lanes", "Active lanes of 32, on average."),
        lambda counts: counts.issued,
        "lanes",
        lambda counts: (counts.active_lanes, counts.issued),
    ),
    *_global("global loads", lambda counts: counts.global_load),
    *_global("global stores", lambda counts: counts.global_store),
    *_global("global atomics", lambda counts: counts.global_atomic),
    *_shared("shared loads", lambda counts: counts.shared_load),
    *_shared("shared stores", lambda counts: counts.shared_store),
    *_shared("shared atomics", lambda counts: counts.shared_atomic),
    _plain(
        "local",
        "requests",
        "Instructions of a warp that go to a thread's own memory.",
        lambda counts: counts.local_requests,
    ),
    *_bulk("bulk copies in", lambda counts: counts.bulk_load),
    *_bulk("bulk copies out", lambda counts: counts.bulk_store),
    _plain("warpgroups", "wgmma", "Products of matrices by a warpgroup.", lambda counts: counts.wgmma),
    _plain("control", "barriers", "Arrivals of warps at a barrier.", lambda counts: counts.barriers),
    _plain(
        "control",
        "mbarriers",
        "Instructions of a warp on mbarriers; one that waits counts once.",
        lambda counts: counts.mbarriers,
    ),
    _plain(
        "control",
        "divergent",
        "Branches at which the lanes of a warp diverged.",
        lambda counts: counts.divergent_branches,
    ),
]


def columns() -> list[dict[str, Any]]:
    """Every column as JSON holds it: its words, its form, and the counters that its cell takes, by number."""
    rows = [Counts.of(one) for one in np.eye(len(COUNTERS), dtype=np.uint64)]

    def counter(of: Callable[[Counts], int]) -> int:
        return next(number for number, counts in enumerate(rows) if of(counts))

    return [
        {
            "group": one.shown.group,
            "name": one.shown.name,
            "meaning": one.shown.meaning,
            "form": one.form,
            "used": counter(one.used),
            "takes": [
                counter(lambda counts, at=at, get=one.get: get(counts)[at])  # type: ignore[misc]
                for at in range(len(one.get(Counts())))
            ],
        }
        for one in _COLUMNS
    ]


def table(run: Run) -> RunOutput:
    """The counts of a run by source line and in all; only the columns in which something was counted."""
    used = [column for column in _COLUMNS if column.used(run.counts)]
    text = run.source.splitlines()
    lines = tuple(
        RunLine(line, text[line - 1] if line <= len(text) else "", _cells(used, counts))
        for line, counts in sorted(run.lines.items())
        if line and any(column.used(counts) for column in used)
    )
    return RunOutput(
        run.title,
        tuple(column.shown for column in used),
        lines,
        RunLine(0, "", tuple(Cell(cell.text, cell.title) for cell in _cells(used, run.counts, every=True))),
        run.notes,
    )


def _cells(used: list[_Column], counts: Counts, every: bool = False) -> tuple[Cell, ...]:
    """A cell for each column, empty where the line has none of it."""
    return tuple(column.cell(counts) if every or column.used(counts) else Cell("") for column in used)
