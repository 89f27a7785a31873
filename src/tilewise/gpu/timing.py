"""Timing on a GPU: CUDA events around a call, cold L2, interleaved contenders, percentiles of many samples.

In: callables that enqueue work on the current stream and do not wait. Out: microseconds. Correctness of the
work and conclusions from the times are checked elsewhere.

Each repetition of a contender is: restore its inputs, read a 256 MiB buffer (which evicts L2 and leaves no
dirty line whose write-back the timed kernel would pay for), spin for as long as the host needs to enqueue the
work, event, the work, event. Without the spin, the time of a short kernel would include the host's gaps;
``Plan(with_host=True)`` omits it to measure them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np

from tilewise.gpu.sampling import Sampler, Stretch, inside

FLUSH_BYTES = 256 * 1024 * 1024
"""Bytes read before each repetition; several times the largest L2."""
LEAD_IN_US = (40.0, 5000.0)
"""The shortest and longest spin before a repetition."""

_SOURCE = r"""
extern "C" __global__ void read_all(const uint4* data, long long count, unsigned* sink) {
    unsigned mixed = 0;
    long long step = (long long)gridDim.x * blockDim.x;
    for (long long i = (long long)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += step) {
        uint4 word = data[i];
        mixed |= word.x | word.y | word.z | word.w;
    }
    if (mixed == 0x9e3779b9u) *sink = mixed;  // never true for zeros, which the compiler cannot know
}
extern "C" __global__ void spin(long long nanoseconds) {
    long long start, now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
    do asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now)); while (now - start < nanoseconds);
}
"""


@dataclass(frozen=True)
class Contender:
    """Something to time."""

    label: str
    call: Callable[[], Any]
    """Enqueues the work on the current stream; does not wait for it."""
    restore: Callable[[], Any] | None = None
    """Restores what the work overwrites, outside the timed interval."""


@dataclass(frozen=True)
class Plan:
    """How long to measure."""

    budget_s: float = 20.0
    """Maximum timed seconds per contender, except for the ``least`` repetitions."""
    repetitions: int = 200
    """Maximum repetitions per contender."""
    least: int = 3
    """Minimum repetitions per contender, unless a single one exceeds the budget."""
    flush: bool = True
    """Whether the L2 is cold at each repetition."""
    with_host: bool = False
    """Whether the GPU is idle when the host begins, so that the time includes the host's launch."""


@dataclass(frozen=True)
class Timing:
    """The times of one contender; percentiles are in microseconds."""

    label: str
    samples_us: tuple[float, ...]
    """Every repetition in microseconds, in order."""
    p20: float
    median: float
    p80: float
    sm_clock_mhz: tuple[float, ...] = ()
    """SM clocks in MHz, read during its launches; may be empty."""
    power_w: tuple[float, ...] = ()
    """Power in W, read during its launches; may be empty."""


def summary(label: str, samples_us: Sequence[float]) -> Timing:
    """Percentiles of samples, to the nanosecond."""
    ordered = sorted(map(float, samples_us))
    p20, median, p80 = (round(_quantile(ordered, at), 3) for at in (0.2, 0.5, 0.8))
    return Timing(label, tuple(round(float(sample), 3) for sample in samples_us), p20, median, p80)


def _quantile(ordered: Sequence[float], at: float) -> float:
    """Equals ``numpy.quantile`` to the last bit; NumPy takes 0.1 ms each, and pages need thousands."""
    place = (len(ordered) - 1) * at
    below = int(place)
    low, high = ordered[below], ordered[min(below + 1, len(ordered) - 1)]
    weight = place - below
    return low + (high - low) * weight if weight < 0.5 else high - (high - low) * (1 - weight)


def repetitions(estimate_us: float, plan: Plan) -> int:
    """How often to run a contender, given the time of one repetition."""
    if estimate_us <= 0:
        return plan.repetitions
    fitting = int(plan.budget_s * 1e6 / estimate_us)
    if fitting >= plan.least:
        return min(fitting, plan.repetitions)
    return plan.least if fitting >= 1 else 1


def takes_part(round_index: int, own: int, rounds: int) -> bool:
    """Whether a contender with ``own`` repetitions, spread evenly over ``rounds``, runs in this round."""
    return (round_index + 1) * own // rounds > round_index * own // rounds


def time_contenders(
    contenders: Sequence[Contender],
    plan: Plan | None = None,
    progress: Callable[[str], None] | None = None,
    sampler: Sampler | None = None,
) -> list[Timing]:
    """Time contenders interleaved, round by round, in this process.

    Args:
        contenders: what to time; each has been run once before, so that nothing is compiled here.
        plan: how long to measure.
        progress: receives one-line progress messages.
        sampler: reads the GPU's clock and power; readings during a contender's launches go into its
            ``Timing``.

    Returns:
        One ``Timing`` for each contender, in order.
    """
    plan = plan or Plan()
    stage = _stage()
    counts, lead_ins_us = [], []
    for contender in contenders:
        estimate_us, enqueue_us = _estimate(stage, contender, plan)
        counts.append(repetitions(estimate_us, plan))
        lead_in_us = min(max(LEAD_IN_US[0], 2 * enqueue_us + 20), LEAD_IN_US[1])
        lead_ins_us.append(0.0 if plan.with_host else lead_in_us)
        if progress:
            progress(f"{contender.label}: about {estimate_us:.4g} us, {counts[-1]} repetitions")
    rounds = max(counts)
    samples: list[list[float]] = [[] for _ in contenders]
    launches: list[list[Stretch]] = [[] for _ in contenders]
    for at in range(rounds):
        for index, contender in enumerate(contenders):
            if takes_part(at, counts[index], rounds):
                time_us, lead_ins_us[index] = _sample(stage, contender, lead_ins_us[index], plan.flush)
                samples[index].append(time_us)
                launches[index].append((stage.finished_s - time_us / 1e6, stage.finished_s))
    timings = [summary(contender.label, times) for contender, times in zip(contenders, samples, strict=True)]
    if sampler is None:
        return timings
    return [
        replace(
            timing, sm_clock_mhz=inside(sampler.clocks, stretches), power_w=inside(sampler.powers, stretches)
        )
        for timing, stretches in zip(timings, launches, strict=True)
    ]


def _sample(stage: Stage, contender: Contender, lead_in_us: float, flush: bool) -> tuple[float, float]:
    """The time of a repetition whose work was enqueued before the spin ended, and its lead-in.

    If the host was slower, the time may include its gaps, so the repetition is repeated after a longer spin,
    up to the maximum. A contender that waits for the GPU always ends up there. Without a lead-in, the host's
    gaps are wanted and the first time is returned.
    """
    while True:
        time_us, enqueue_us = stage.sample(contender, lead_in_us, flush)
        if enqueue_us < lead_in_us or lead_in_us >= LEAD_IN_US[1] or not lead_in_us:
            return time_us, lead_in_us
        lead_in_us = min(2 * lead_in_us, LEAD_IN_US[1])


def _estimate(stage: Stage, contender: Contender, plan: Plan) -> tuple[float, float]:
    """Microseconds of one repetition, and of enqueuing it on the host, after a warm-up."""
    lead_in_us = 0.0 if plan.with_host else LEAD_IN_US[0]
    estimate_us, enqueue_us = stage.sample(contender, lead_in_us, flush=True)
    for _ in range(3 if estimate_us < 3e5 else 0):
        estimate_us, enqueue_us = stage.sample(contender, lead_in_us, flush=True)
    return estimate_us, enqueue_us


class Stage:
    """The buffers and kernels that every repetition needs, created once per process."""

    finished_s = 0.0
    """When the host saw the last repetition end, in seconds of ``time.perf_counter``."""

    def __init__(self) -> None:
        import cupy

        self._cupy = cupy
        self._read = cupy.RawKernel(_SOURCE, "read_all")
        self._spin = cupy.RawKernel(_SOURCE, "spin")
        self._buffer = cupy.zeros(FLUSH_BYTES, dtype=np.uint8)
        self._sink = cupy.zeros(1, dtype=np.uint32)
        self._blocks = 8 * int(cupy.cuda.Device().attributes["MultiProcessorCount"])
        before = time.perf_counter()
        while time.perf_counter() - before < 0.3:  # clocks rise from idle before anything is timed
            self.read(self._buffer)
            self.synchronize()

    def read(self, buffer: Any) -> None:
        """Enqueue one read of a buffer of zeros."""
        count = np.int64(buffer.nbytes // 16)
        self._read((self._blocks,), (256,), (buffer, count, self._sink))

    def synchronize(self) -> None:
        """Wait for the GPU."""
        self._cupy.cuda.get_current_stream().synchronize()

    def sample(self, contender: Contender, lead_in_us: float, flush: bool) -> tuple[float, float]:
        """One repetition: microseconds between its events, and on the host from the spin on.

        Without a lead-in there is no spin: the GPU is idle at the first event.
        """
        events = self._cupy.cuda.Event(), self._cupy.cuda.Event()
        if contender.restore:
            contender.restore()
        if flush:
            self.read(self._buffer)
        if not lead_in_us:
            self.synchronize()
        before = time.perf_counter()
        if lead_in_us:
            self._spin((1,), (1,), (np.int64(lead_in_us * 1000),))
        events[0].record()
        contender.call()
        events[1].record()
        enqueue_us = (time.perf_counter() - before) * 1e6
        events[1].synchronize()
        self.finished_s = time.perf_counter()
        return float(self._cupy.cuda.get_elapsed_time(*events)) * 1000, enqueue_us


@lru_cache(maxsize=1)
def _stage() -> Stage:
    return Stage()
