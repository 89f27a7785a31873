"""Times an experiment on this machine's GPU, after checking every variant and library.

In: an experiment. Out: rows of times for its cases, with notes on oddities.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from threading import Event
from typing import TYPE_CHECKING

import numpy as np

from tilewise.gpu.device import POWER_CAP, State, others_computing, state
from tilewise.gpu.sampling import INTERVAL_S, Nvml, Sampler, nvml
from tilewise.gpu.timing import Plan, time_contenders
from tilewise.measurements.implementations import checked_implementations
from tilewise.measurements.problems import KEPT, clock_fell, clock_problem, other_processes_problem
from tilewise.measurements.record import Row
from tilewise.measurements.slugs import case_text

if TYPE_CHECKING:
    from tilewise.measurements.experiment import Experiment

GLANCE = Plan(budget_s=1.5, repetitions=60)
"""The plan for a lesson that is run as a script on a GPU."""
WATCH_S = 2.0
"""Seconds between two readings of the GPU's state during the timing."""


@dataclass(frozen=True)
class ExperimentTimes:
    """The result of timing an experiment."""

    rows: tuple[Row, ...]
    """Variants and libraries at every case."""
    notes: tuple[str, ...]
    """A sentence per oddity, except on spread, which needs the samples of all rounds."""
    state: State
    """The GPU's state right after the last case."""
    sampling: str = ""
    """How the rows' clocks and powers were read; empty if they were not."""


def time_experiment(
    experiment: Experiment,
    plan: Plan,
    progress: Callable[[str], None],
    *,
    strict: bool = False,
    own: int = 1,
) -> ExperimentTimes:
    """Check and time an experiment at all of its cases.

    Args:
        experiment: what to time.
        plan: the time budget and the repetitions.
        progress: called with a line of progress.
        strict: refuse times that were taken next to other processes or at a throttled clock, as for records,
            instead of adding a note. Clock and power are sampled then too, unless host time is included,
            because the sampling thread shares Python's lock.
        own: how many of the processes that use the GPU are ours: this one, and one that waits for it.

    Raises:
        LessonError: a variant or library gives a wrong answer.
        GpuProblem: ``strict``, and the times are not usable.
    """
    import cupy

    identity = _pci_bus_id()
    rows: list[Row] = []
    notes: list[str] = []
    now = State()
    sampling = ""
    for parameters in experiment.cases:
        shown = case_text(parameters)
        progress(f"{experiment.name} at {shown}: checking")
        contenders, implementations, absent = checked_implementations(experiment, parameters)
        notes += [note for note in absent if note not in notes]
        before = busy_state()
        meter = nvml(identity) if strict and not plan.with_host else None
        sampling = sampling or _sampling(meter)
        with _watched(identity) as during, Sampler(meter) if meter else nullcontext() as sampler:
            timings = time_contenders(contenders, plan, progress, sampler=sampler)
        now = worst(during or [busy_state()])
        other_processes = max((others_computing(identity) or 0) - (own - 1), 0)
        problems = [other_processes_problem(other_processes, shown), clock_problem(before, now, shown)]
        for problem in filter(None, problems):
            if strict:
                raise problem
            notes.append(problem.message.removesuffix(KEPT).strip())
        notes += _oddities(shown, before, now)
        cupy.get_default_memory_pool().free_all_blocks()
        byte_count, operations = experiment.work(parameters)
        for implementation, timing in zip(implementations, timings, strict=True):
            rows.append(
                Row(
                    variant=implementation.label,
                    role=implementation.role,
                    case=dict(parameters),
                    samples_us=timing.samples_us,
                    p20=timing.p20,
                    median=timing.median,
                    p80=timing.p80,
                    bytes=byte_count,
                    flop=operations,
                    sm_clock_mhz=timing.sm_clock_mhz,
                    power_w=timing.power_w,
                    tokens=experiment.tokens(implementation.label, parameters),
                )
            )
    return ExperimentTimes(tuple(rows), tuple(dict.fromkeys(notes)), now, sampling)


def _sampling(meter: Nvml | None) -> str:
    """The record's sentence on how clocks and powers were read; empty without a meter."""
    if meter is None:
        return ""
    return (
        f"SM clock and GPU power ({meter.sensor}) through NVML every {1000 * INTERVAL_S:g} ms, in a thread; "
        "a row has the readings that began and ended inside one of its timed launches"
    )


def worst(states: Sequence[State]) -> State:
    """The state with the lowest clock, with the throttle reasons of all states."""
    lowest = min(states, key=lambda entry: entry.sm_clock_mhz or 0)
    causes = dict.fromkeys(cause for entry in states for cause in entry.throttled_by)
    return replace(lowest, throttled_by=tuple(causes))


def _pci_bus_id() -> str:
    import cupy

    return str(cupy.cuda.Device().pci_bus_id)


def busy_state() -> State:
    """The GPU's state under load, so that the clock is not that of an idle GPU."""
    import cupy

    words = cupy.ones(1 << 26, dtype=np.float32)
    with ThreadPoolExecutor(max_workers=1) as pool:
        reading = pool.submit(state, _pci_bus_id())
        while not reading.done():
            for _ in range(50):
                words *= np.float32(1.0)
            cupy.cuda.get_current_stream().synchronize()
    return reading.result()


@contextmanager
def _watched(identity: str) -> Iterator[list[State]]:
    """The GPU's states during a ``with`` block, read periodically by a thread."""
    states: list[State] = []
    over = Event()

    def watch() -> None:
        while not over.wait(WATCH_S):
            states.append(state(identity))

    with ThreadPoolExecutor(max_workers=1) as pool:
        pool.submit(watch)
        try:
            yield states
        finally:
            over.set()


def _oddities(shown: str, before: State, after: State) -> list[str]:
    notes = []
    if clock_fell(before, after):
        notes.append(
            f"At {shown} the SM clock fell from {before.sm_clock_mhz:.0f} to {after.sm_clock_mhz:.0f} MHz."
        )
    if POWER_CAP in after.throttled_by:
        notes.append(f"At {shown} the clock was held down by {POWER_CAP}.")
    return notes
