"""Shows that sampling clock and power does not disturb the launches that are timed meanwhile.

In: a GPU, with NumPy and CuPy. Out: a table on stdout. The same kernel is timed by ``time_contenders``
without the sampling thread, with it, and without it again, in turn, in one process. *with / without* is a
statistic of a block of launches with the thread over that of its two neighbours without; *without /
without* is that of the neighbours over each other, which is how far the ratio scatters by itself. Each is
shown as the median over all turns, with the 20th and 80th percentile. Every kernel is timed as records
are, between two events behind a spin, and once more with the host's part in the time, which records never
sample. The last columns count the readings that fell inside launches. ``python
benchmarks/clock_sampling.py`` takes some three minutes.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from tilewise.gpu.sampling import INTERVAL_S, Meter, Sampler, nvml
from tilewise.gpu.timing import Contender, Plan, Timing, time_contenders

SOURCE = r"""
// Chains of fused multiply-adds in every thread. Grid and block have one dimension; out has a float a thread.
extern "C" __global__ void fma_chain(float* out, float b, int steps) {
    float x0 = threadIdx.x, x1 = x0 + 1, x2 = x0 + 2, x3 = x0 + 3;
    for (int i = 0; i < steps; ++i) {
        x0 = fmaf(x0, 0.999f, b); x1 = fmaf(x1, 0.999f, b);
        x2 = fmaf(x2, 0.999f, b); x3 = fmaf(x3, 0.999f, b);
    }
    out[blockIdx.x * blockDim.x + threadIdx.x] = x0 + x1 + x2 + x3;
}
"""
WANTED_US = (5.0, 100.0, 10_000.0)
"""How long the kernels should take."""
STATISTICS: dict[str, Callable[[Sequence[float]], float]] = {
    "median": lambda samples: float(np.median(samples)),
    "mean": lambda samples: float(np.mean(samples)),
    "p95": lambda samples: float(np.percentile(samples, 95)),
}


@dataclass
class Blocks:
    """The blocks of one kernel, timed in one way."""

    without: list[Timing] = field(default_factory=list)
    """First of each turn."""
    sampled: list[Timing] = field(default_factory=list)
    """Second."""
    again: list[Timing] = field(default_factory=list)
    """Third, without the thread."""
    reading_us: list[float] = field(default_factory=list)
    """How long each reading of the thread took."""

    def ratios(self, name: str) -> tuple[np.ndarray, np.ndarray]:
        """A statistic with the thread over that of its neighbours without, and of these over each other."""
        of = STATISTICS[name]
        first, with_it, last = (
            np.array([of(timing.samples_us) for timing in blocks])
            for blocks in (self.without, self.sampled, self.again)
        )
        return with_it / ((first + last) / 2), last / first


def main() -> int:
    """Time, and print the tables."""
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--turns", type=int, default=40, help="blocks of each kind and kernel")
    arguments.add_argument(
        "--intervals-ms",
        type=float,
        nargs="+",
        default=[1000 * INTERVAL_S, 1.0],
        help="sleeps between readings",
    )
    chosen = arguments.parse_args()
    import cupy

    identity = str(cupy.cuda.Device().pci_bus_id)
    meter = nvml(identity)
    if meter is None:
        print("NVML does not know this GPU: nothing would be sampled.", file=sys.stderr)
        return 1
    kernel = Kernel()
    made = [(wanted_us, kernel.steps_for(wanted_us)) for wanted_us in WANTED_US]
    describe(meter, kernel, made[-1][1])
    head = (
        f"{'kernel':>10} {'timed':>7} {'every':>7} {'of':>7} {'with / without':>26} {'without / without':>26}"
    )
    print(f"\n{head} {'clocks':>7} {'powers':>7}")
    for interval_ms in chosen.intervals_ms:
        for with_host in (False, True):
            for wanted_us, steps in made:
                turns = chosen.turns if wanted_us < 1000 else max(chosen.turns // 2, 2)
                found = timed(
                    kernel.contender(steps), identity, interval_ms / 1000, with_host, turns, wanted_us
                )
                show(found, interval_ms, with_host)
    return 0


class Kernel:
    """The kernel, compiled, with as many threads as fill the GPU."""

    def __init__(self) -> None:
        import cupy

        self._function = cupy.RawKernel(SOURCE, "fma_chain")
        self._blocks = 8 * int(cupy.cuda.Device().attributes["MultiProcessorCount"])
        self._out = cupy.empty(self._blocks * 256, dtype=np.float32)

    def contender(self, steps: int) -> Contender:
        """The kernel with so many steps."""
        values: tuple[Any, ...] = (self._out, np.float32(0.5), np.int32(steps))
        return Contender(f"{steps} steps", lambda: self._function((self._blocks,), (256,), values))

    def steps_for(self, wanted_us: float) -> int:
        """How many steps take about so long."""
        steps = 64
        for _ in range(6):
            taken = time_contenders([self.contender(steps)], Plan(repetitions=5))[0].median
            steps = max(int(steps * wanted_us / taken), 1)
        return steps


def timed(
    contender: Contender, identity: str, interval_s: float, with_host: bool, turns: int, wanted_us: float
) -> Blocks:
    """Blocks without the thread, with it and without it again, in turn."""
    found = Blocks()
    plan = Plan(repetitions=100 if wanted_us < 1000 else 20, with_host=with_host)
    for _ in range(turns):
        found.without += time_contenders([contender], plan)
        meter = nvml(identity)
        assert meter is not None
        with Sampler(meter, interval_s) as sampler:
            found.sampled += time_contenders([contender], plan, sampler=sampler)
        found.reading_us += [1e6 * (ended - began) for began, ended, _ in [*sampler.clocks, *sampler.powers]]
        found.again += time_contenders([contender], plan)
    return found


def show(found: Blocks, interval_ms: float, with_host: bool) -> None:
    """A line for each statistic."""
    kernel_us = float(np.median([timing.median for timing in found.without]))
    clocks = sum(len(timing.sm_clock_mhz) for timing in found.sampled)
    powers = sum(len(timing.power_w) for timing in found.sampled)
    for name in STATISTICS:
        ratios = [spread(ratio) for ratio in found.ratios(name)]
        print(
            f"{kernel_us:>7,.1f} us {'host' if with_host else 'device':>7} {interval_ms:>4g} ms {name:>7} "
            f"{ratios[0]:>26} {ratios[1]:>26} {clocks:>7} {powers:>7}",
            flush=True,
        )


def spread(ratios: np.ndarray) -> str:
    """A median with its 20th and 80th percentile."""
    low, middle, high = np.percentile(ratios, [20, 50, 80])
    return f"{middle:.4f} [{low:.4f}, {high:.4f}]"


def describe(meter: Meter, kernel: Kernel, steps: int) -> None:
    """What one reading costs the host, and how often its value changes while the GPU works and rests."""
    import cupy

    contender, stream = kernel.contender(steps), cupy.cuda.get_current_stream()
    clocks: list[tuple[float, float]] = []
    powers: list[tuple[float, float]] = []
    costs: dict[str, list[float]] = {"SM clock": [], "power": []}
    until = time.perf_counter() + 4.0
    while (now := time.perf_counter()) < until:
        if int(4 * (until - now)) % 2:
            contender.call()
        for name, take, kept in (
            ("SM clock", meter.sm_clock_mhz, clocks),
            ("power", meter.power_w, powers),
        ):
            began = time.perf_counter()
            value = take()
            costs[name].append(1e6 * (time.perf_counter() - began))
            if value is not None:
                kept.append((began, value))
        stream.synchronize()
    print(
        f"power: {meter.sensor}; read in turn with launches of 10 ms for a quarter of a second, and with none"
    )
    for name, kept in (("SM clock", clocks), ("power", powers)):
        low, middle, high = np.percentile(costs[name], [20, 50, 99])
        values = [value for _, value in kept] or [float("nan")]
        changed = [later[0] for earlier, later in pairwise(kept) if later[1] != earlier[1]]
        step = (
            f"{1000 * float(np.median(np.diff(changed))):.1f} ms" if len(changed) > 2 else "never or hardly"
        )
        print(
            f"{name}: a reading takes {middle:,.0f} us [p20 {low:,.0f}, p99 {high:,.0f}]; "
            f"from {min(values):g} to {max(values):g}, a new value every {step}"
        )


if __name__ == "__main__":
    sys.exit(main())
