"""A launch's blocks spread over several CPU cores, with the results of a single core.

In: a launch that is ready to run, and its memory. Out: its counts, or False if it must run again on one core.
Each core has its own machine, which takes the next cluster when it finishes one; the machines share only the
arrays. For each word watched for races, a machine records what its blocks did with it (``claims``). If no
machine touched a word that another machine changed, the order of blocks doesn't matter. Otherwise, and after
any hazard, the launch runs again on one core, so the reported hazard is always the first in block order.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Mapping, Sequence
from threading import Event
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewise.simulator.engine.machine import DONE, PAUSED, SLICE, Findings, library
from tilewise.simulator.engine.shared import COUNTERS, WORD_BYTES, Buffer, Launch, values

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tilewise.simulator.decode.program import Program
    from tilewise.simulator.engine.memory import Memory

FIRST_SLICE = 50_000
"""Warp instructions before other cores join: about 4 ms."""
_ATOMICS = COUNTERS.index("ga_requests")
_MOST_BYTES = 1 << 30
"""Limit for the histories of watched words, one per machine."""


def count() -> int:
    """How many cores a launch may use: all of this process's, or ``TILEWISE_CORES`` if fewer."""
    own = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    stated = os.environ.get("TILEWISE_CORES", "")
    return max(1, min(own, int(stated))) if stated.isdigit() else own


def may_spread(program: Program, memory: Memory) -> bool:
    """Whether blocks communicate only through watched words and rely on no other order."""
    return not program.has_order and not any(buffer.unset for buffer in memory.table)


def run(launch: Launch, memory: Memory, findings: Findings, cores: int) -> bool:
    """Run a launch on several cores; False if it must run again on one, with new memory and findings.

    Args:
        launch: as for ``machine.run``.
        memory: the launch's; its arrays are written.
        findings: the launch's; receives the counts of all blocks.
        cores: maximum number of cores.
    """
    taken = ctypes.c_int64(0)
    launch.next, launch.slice = ctypes.addressof(taken), FIRST_SLICE
    machines = [_Machine(launch, memory, findings, memory.watched)]
    try:
        status = int(library().tw_run(ctypes.byref(launch)))
        if status == PAUSED:
            launch.slice = SLICE
            if not findings.counts[:, _ATOMICS].any():
                more = _room(launch, memory, taken.value, cores) - 1
                launch.spread = int(more > 0)
                machines += [machines[0].another() for _ in range(more)]
            status = _finish(machines)
        if status != DONE or sum(machine.launch.steps for machine in machines) > launch.max_steps:
            return False
        if any(machine.launch.n_hazards for machine in machines) or _order_matters(machines):
            return False
    except MemoryError:  # one machine may fit
        return False
    finally:
        for machine in machines:
            library().tw_end(ctypes.byref(machine.launch))
    for machine in machines[1:]:
        findings.counts += machine.findings.counts
    launch.n_notes = _gather_notes(machines)
    return True


class _Machine:
    """A machine for some of the blocks: the launch's program and arrays, its own history and findings."""

    def __init__(
        self, launch: Launch, memory: Memory, findings: Findings, history: Mapping[int, NDArray[np.uint8]]
    ) -> None:
        self.launch, self.memory, self.findings, self.history = launch, memory, findings, history
        self.claims = {data: np.zeros(len(words) // WORD_BYTES, np.uint8) for data, words in history.items()}
        self._table = (Buffer * len(memory.table))(*memory.table)
        for buffer in self._table:
            if buffer.data in history:
                buffer.words = history[buffer.data].ctypes.data
                buffer.claims = self.claims[buffer.data].ctypes.data
            else:
                buffer.writable = 0  # an unwatched store is a hazard, so the launch runs again on one core
        launch.buffers = ctypes.cast(self._table, ctypes.c_void_p)

    def another(self) -> _Machine:
        """A new machine for the same launch."""
        launch, findings = Launch.from_buffer_copy(self.launch), Findings(len(self.findings.counts))
        launch.state, launch.steps, launch.n_hazards, launch.n_notes = None, 0, 0, 0
        findings.write_into(launch)
        history = {data: np.zeros(len(words), np.uint8) for data, words in self.history.items()}
        return _Machine(launch, self.memory, findings, history)

    def go_on(self, stopped: Event) -> int:
        """Run blocks until none is left, and return the status. What stops one machine stops all."""
        status = PAUSED
        while status == PAUSED and not stopped.is_set():
            status = int(library().tw_run(ctypes.byref(self.launch)))
        if status != DONE:
            stopped.set()
        return status


def _room(launch: Launch, memory: Memory, taken: int, cores: int) -> int:
    """How many machines have enough work and memory, at least 1."""
    clusters = int(np.prod(launch.grid)) // int(np.prod(launch.cluster))
    history = sum(len(words) for words in memory.watched.values())
    return max(1, min(cores, clusters - taken + 1, _MOST_BYTES // max(history, 1)))


def _finish(machines: Sequence[_Machine]) -> int:
    """Run the rest on all machines, the first in this thread; return the first status that isn't DONE."""
    from concurrent.futures import ThreadPoolExecutor  # slow to import, and few launches are this long

    stopped = Event()
    with ThreadPoolExecutor(max(len(machines) - 1, 1)) as pool:
        futures = [pool.submit(machine.go_on, stopped) for machine in machines[1:]]
        try:
            statuses = [machines[0].go_on(stopped)]
        except BaseException:  # Ctrl-C, between two slices
            stopped.set()
            raise
        statuses += [future.result() for future in futures]
    return next((status for status in statuses if status != DONE), DONE)


def _order_matters(machines: Sequence[_Machine]) -> bool:
    """Whether a machine touched a word that another machine changed."""
    changed = values("CONSTANT")["CHANGED"]
    for data in machines[0].claims:
        claims = [machine.claims[data] for machine in machines]
        if ((sum(part != 0 for part in claims) > 1) & (np.bitwise_or.reduce(claims) & changed != 0)).any():
            return True
    return False


def _gather_notes(machines: Sequence[_Machine]) -> int:
    """Merge the notes of all machines into the first's, as one core would; return their number."""
    rows: list[Any] = [
        row.copy() for machine in machines for row in machine.findings.notes[: machine.launch.n_notes]
    ]
    first: dict[int, Any] = {}
    for row in sorted(rows, key=lambda row: int(row["block"])):
        if row["line"] in first:
            first[int(row["line"])]["count"] += row["count"]
        else:
            first[int(row["line"])] = row
    into = machines[0].findings.notes
    notes = list(first.values())[: len(into)]
    for number, row in enumerate(notes):
        into[number] = row
    return len(notes)
