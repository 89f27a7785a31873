"""The blocks of one launch spread over the processor's cores, with the results of one core.

In: a launch that is ready to run, and its memory. Out: what it counted, or word that it has to run again on
one core. Each core has a machine of its own, which takes the next cluster when it is done with one; they
share the arrays and nothing else. Of each word that is watched for races a machine writes down what its
blocks did with it (``claims``). Where none touched a word that another one changed, the order of blocks makes
no difference. If anything else happens, a hazard above all, the launch runs again on one core, so that the
hazard told is always the first in the order of blocks.
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
"""Warp instructions before other cores join in: some 4 ms."""
_ATOMICS = COUNTERS.index("ga_requests")
_MOST_BYTES = 1 << 30
"""For the history of watched words, of which each machine has its own."""


def count() -> int:
    """How many cores a launch may take: all that this process has, or ``TILEWISE_CORES`` if that is fewer."""
    own = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    stated = os.environ.get("TILEWISE_CORES", "")
    return max(1, min(own, int(stated))) if stated.isdigit() else own


def may_spread(program: Program, memory: Memory) -> bool:
    """Whether blocks tell each other nothing but through words that are watched, and keep no other order."""
    return not program.has_order and not any(buffer.unset for buffer in memory.table)


def run(launch: Launch, memory: Memory, findings: Findings, cores: int) -> bool:
    """Run a launch on several cores; False if it has to run again, with new memory and findings, on one.

    Args:
        launch: as for ``machine.run``.
        memory: the launch's; its arrays are written.
        findings: the launch's; at the end it has what all blocks counted.
        cores: how many to use at most.
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
        if status != DONE or sum(one.launch.steps for one in machines) > launch.max_steps:
            return False
        if any(one.launch.n_hazards for one in machines) or _order_matters(machines):
            return False
    except MemoryError:  # for one machine there may be enough
        return False
    finally:
        for one in machines:
            library().tw_end(ctypes.byref(one.launch))
    for one in machines[1:]:
        findings.counts += one.findings.counts
    launch.n_notes = _gather_notes(machines)
    return True


class _Machine:
    """A machine for some blocks: the launch's program and arrays, a history and findings of its own."""

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
                buffer.writable = 0  # a store that nobody watches is a hazard here, and shown on one core
        launch.buffers = ctypes.cast(self._table, ctypes.c_void_p)

    def another(self) -> _Machine:
        """One more for the same launch, which has run nothing yet."""
        launch, findings = Launch.from_buffer_copy(self.launch), Findings(len(self.findings.counts))
        launch.state, launch.steps, launch.n_hazards, launch.n_notes = None, 0, 0, 0
        findings.write_into(launch)
        history = {data: np.zeros(len(words), np.uint8) for data, words in self.history.items()}
        return _Machine(launch, self.memory, findings, history)

    def go_on(self, stopped: Event) -> int:
        """Run blocks until none is left; the status. What stops one machine stops all."""
        status = PAUSED
        while status == PAUSED and not stopped.is_set():
            status = int(library().tw_run(ctypes.byref(self.launch)))
        if status != DONE:
            stopped.set()
        return status


def _room(launch: Launch, memory: Memory, taken: int, cores: int) -> int:
    """How many machines there is work and memory for, at least 1."""
    clusters = int(np.prod(launch.grid)) // int(np.prod(launch.cluster))
    history = sum(len(words) for words in memory.watched.values())
    return max(1, min(cores, clusters - taken + 1, _MOST_BYTES // max(history, 1)))


def _finish(machines: Sequence[_Machine]) -> int:
    """Run what is left on all machines, the first in this thread; the status, that of the first not done."""
    from concurrent.futures import ThreadPoolExecutor  # takes a while to load, and few launches are so long

    stopped = Event()
    with ThreadPoolExecutor(max(len(machines) - 1, 1)) as pool:
        others = [pool.submit(one.go_on, stopped) for one in machines[1:]]
        try:
            statuses = [machines[0].go_on(stopped)]
        except BaseException:  # Ctrl-C, between two slices
            stopped.set()
            raise
        statuses += [one.result() for one in others]
    return next((status for status in statuses if status != DONE), DONE)


def _order_matters(machines: Sequence[_Machine]) -> bool:
    """Whether a machine touched a word that another one changed."""
    changed = values("CONSTANT")["CHANGED"]
    for data in machines[0].claims:
        every = [one.claims[data] for one in machines]
        if ((sum(claims != 0 for claims in every) > 1) & (np.bitwise_or.reduce(every) & changed != 0)).any():
            return True
    return False


def _gather_notes(machines: Sequence[_Machine]) -> int:
    """Put the notes of all machines into the first one's, as one core would have them; their number."""
    rows: list[Any] = [row.copy() for one in machines for row in one.findings.notes[: one.launch.n_notes]]
    first: dict[int, Any] = {}
    for row in sorted(rows, key=lambda row: int(row["block"])):
        if row["line"] in first:
            first[int(row["line"])]["count"] += row["count"]
        else:
            first[int(row["line"])] = row
    into = machines[0].findings.notes
    kept = list(first.values())[: len(into)]
    for number, row in enumerate(kept):
        into[number] = row
    return len(kept)
