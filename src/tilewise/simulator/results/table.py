"""A run's counts by source line, as a table for terminals and pages.

In: a ``Run``. Out: a ``RunOutput`` with the counts that occur, and marks where more is moved than the kernel
requested.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewise.outputs.run import RunColumn, RunLine, RunOutput
from tilewise.outputs.table import Cell
from tilewise.simulator.engine.shared import COUNTERS
from tilewise.simulator.results.counts import Counts

if TYPE_CHECKING:
    from tilewise.simulator.run import Run


@dataclass(frozen=True)
class _Column:
    shown: RunColumn
    form: str
    """The key in ``CELLS`` of the function that creates its cell."""
    takes: tuple[str, ...]
    """The fields of ``Counts`` for the cell; if the first is 0 in a run, the column is left out."""

    def is_used(self, counts: Counts) -> bool:
        """Whether the column has counts to show."""
        return bool(attrgetter(self.takes[0])(counts))

    def cell(self, counts: Counts) -> Cell:
        """The column's cell for some counts."""
        cell: Cell = globals()[CELLS[self.form]](*(attrgetter(name)(counts) for name in self.takes))
        return cell


CELLS = {"plain": "_plain_cell", "lanes": "_lanes_cell", "sectors": "_sectors_cell", "passes": "_passes_cell"}
"""The functions that create cells; ``simulator/browser/sentences.py`` translates them for pages."""


def _plain_cell(count: int) -> Cell:
    return Cell(count)


def _lanes_cell(issued: int, lanes: int) -> Cell:
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


def _column(group: str, name: str, meaning: str, *takes: str, form: str = "plain") -> _Column:
    return _Column(RunColumn(group, name, meaning), form, takes)


def _global(group: str, traffic: str) -> list[_Column]:
    requests = "Instructions of a warp that go to memory with at least one lane."
    sectors = "Distinct 32-byte sectors that the requests touch."
    takes = (f"{traffic}.sectors", f"{traffic}.useful_bytes")
    return [
        _column(group, "requests", requests, f"{traffic}.requests"),
        _column(group, "sectors", sectors, *takes, form="sectors"),
    ]


def _shared(group: str, traffic: str) -> list[_Column]:
    requests = "Instructions of a warp that go to shared memory with at least one lane."
    wavefronts = "Trips through the shared-memory pipe that the requests take."
    takes = (f"{traffic}.wavefronts", f"{traffic}.requests", f"{traffic}.useful_bytes")
    return [
        _column(group, "requests", requests, f"{traffic}.requests"),
        _column(group, "wavefronts", wavefronts, *takes, form="passes"),
    ]


def _bulk(group: str, traffic: str) -> list[_Column]:
    sectors = "Pieces of 32 bytes of global memory, row by row of each box."
    return [
        _column(group, "bytes", "Bytes of shared memory.", f"{traffic}.shared_bytes"),
        _column(group, "sectors", sectors, f"{traffic}.sectors"),
    ]


_ON_MBARRIERS = "Instructions of a warp on mbarriers; one that waits counts once."
_LOCAL = "Instructions of a warp that go to a thread's own memory."
_LANES = "Active lanes of 32, on average."
_COLUMNS = [
    _column("instructions", "issued", "Instructions of PTX that warps executed.", "issued"),
    _column("instructions", "lanes", _LANES, "issued", "active_lanes", form="lanes"),
    *_global("global loads", "global_load"),
    *_global("global stores", "global_store"),
    *_global("global atomics", "global_atomic"),
    *_shared("shared loads", "shared_load"),
    *_shared("shared stores", "shared_store"),
    *_shared("shared atomics", "shared_atomic"),
    _column("local", "requests", _LOCAL, "local_requests"),
    *_bulk("bulk copies in", "bulk_load"),
    *_bulk("bulk copies out", "bulk_store"),
    _column("warpgroups", "wgmma", "Products of matrices by a warpgroup.", "wgmma"),
    _column("control", "barriers", "Arrivals of warps at a barrier.", "barriers"),
    _column("control", "mbarriers", _ON_MBARRIERS, "mbarriers"),
    _column("control", "divergent", "Branches at which the lanes of a warp diverged.", "divergent_branches"),
]


def columns() -> list[dict[str, Any]]:
    """Every column as JSON data: its texts, its form, and the indices of the counters for its cell."""
    numbers = Counts.of(np.arange(len(COUNTERS), dtype=np.uint64))
    return [
        {
            "group": column.shown.group,
            "name": column.shown.name,
            "meaning": column.shown.meaning,
            "form": column.form,
            "used": attrgetter(column.takes[0])(numbers),
            "takes": [attrgetter(name)(numbers) for name in column.takes],
        }
        for column in _COLUMNS
    ]


def table(run: Run) -> RunOutput:
    """The counts of a run by source line, and totals; only columns with counts."""
    used = [column for column in _COLUMNS if column.is_used(run.counts)]
    text = run.source.splitlines()
    lines = tuple(
        RunLine(line, text[line - 1] if line <= len(text) else "", _cells(used, counts))
        for line, counts in sorted(run.lines.items())
        if line and any(column.is_used(counts) for column in used)
    )
    return RunOutput(
        run.title,
        tuple(column.shown for column in used),
        lines,
        RunLine(0, "", tuple(Cell(cell.text, cell.title) for cell in _cells(used, run.counts, every=True))),
        run.notes,
    )


def _cells(used: list[_Column], counts: Counts, every: bool = False) -> tuple[Cell, ...]:
    """A cell for each column, empty if the line has no such counts."""
    return tuple(column.cell(counts) if every or column.is_used(counts) else Cell("") for column in used)
