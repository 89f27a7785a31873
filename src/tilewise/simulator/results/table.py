"""A run's counts by source line, as the table that a terminal and a page show.

In: a ``Run``. Out: a ``RunOutput`` with the counts that occur, and a mark at those that cost more than the
kernel asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilewise.outputs.run import RunColumn, RunLine, RunOutput
from tilewise.outputs.table import Cell
from tilewise.simulator.results.counts import BulkCounts, Counts, GlobalCounts, SharedCounts

if TYPE_CHECKING:
    from tilewise.simulator.run import Run

SECTOR_BYTES = 32
PASS_BYTES = 128


@dataclass(frozen=True)
class _Column:
    shown: RunColumn
    used: Callable[[Counts], int]
    """What it counts: the column is left out where the whole run has none."""
    cell: Callable[[Counts], Cell]


def _plain(group: str, name: str, meaning: str, get: Callable[[Counts], int]) -> _Column:
    return _Column(RunColumn(group, name, meaning), get, lambda counts: Cell(get(counts)))


def _lanes(counts: Counts) -> Cell:
    average = counts.active_lanes / counts.issued if counts.issued else 0.0
    return Cell(f"{average:.1f}".removesuffix(".0"), f"{counts.active_lanes:,} lanes in all")


def _sectors(get: Callable[[Counts], GlobalCounts]) -> Callable[[Counts], Cell]:
    def cell(counts: Counts) -> Cell:
        one = get(counts)
        moved = SECTOR_BYTES * one.sectors
        if not moved:
            return Cell(0)
        share = f"{one.useful_bytes:,} bytes requested, {moved:,} moved"
        return Cell(one.sectors, share, mark="waste" if 2 * one.useful_bytes < moved else None)

    return cell


def _wavefronts(get: Callable[[Counts], SharedCounts]) -> Callable[[Counts], Cell]:
    def cell(counts: Counts) -> Cell:
        one = get(counts)
        least = max(one.requests, -(-one.useful_bytes // PASS_BYTES))
        if one.wavefronts <= least:
            return Cell(one.wavefronts)
        return Cell(one.wavefronts, f"{least:,} would do without bank conflicts", mark="waste")

    return cell


def _global(group: str, get: Callable[[Counts], GlobalCounts]) -> list[_Column]:
    requests = "Instructions of a warp that go to memory with at least one lane."
    sectors = RunColumn(group, "sectors", "Distinct 32-byte sectors that the requests touch.")
    return [
        _plain(group, "requests", requests, lambda counts: get(counts).requests),
        _Column(sectors, lambda counts: get(counts).sectors, _sectors(get)),
    ]


def _shared(group: str, get: Callable[[Counts], SharedCounts]) -> list[_Column]:
    requests = "Instructions of a warp that go to shared memory with at least one lane."
    passes = RunColumn(group, "wavefronts", "Trips through the shared-memory pipe that the requests take.")
    return [
        _plain(group, "requests", requests, lambda counts: get(counts).requests),
        _Column(passes, lambda counts: get(counts).wavefronts, _wavefronts(get)),
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
        _lanes,
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
