"""Sampling: what NVML is asked, which readings belong to a launch, and a thread that ends with its block."""

import ctypes
import sys
import threading
import time
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

from tilewise.gpu.sampling import LIBRARY, Sampler, inside, nvml

GPU = "0000:17:00.0"


class FakeNvml:
    """NVML with one GPU; a power of None is a driver that knows no power of the moment."""

    def __init__(
        self, clock_mhz: int = 1755, instant_mw: int | None = 698_340, average_mw: int = 512_000
    ) -> None:
        self.clock_mhz, self.instant_mw, self.average_mw = clock_mhz, instant_mw, average_mw
        self.sessions = 0
        self.broken = 0

    def nvmlInit_v2(self) -> int:  # noqa: N802
        self.sessions += 1
        return 0

    def nvmlShutdown(self) -> int:  # noqa: N802
        self.sessions -= 1
        return 0

    def nvmlDeviceGetHandleByPciBusId_v2(self, identity: bytes, device: Any) -> int:  # noqa: N802
        return 0 if identity == GPU.encode() else 6

    def nvmlDeviceGetClockInfo(self, device: Any, kind: int, word: Any) -> int:  # noqa: N802
        assert kind == 1, "the SM clock, not that of the graphics engine"
        word._obj.value = self.clock_mhz
        return self.broken

    def nvmlDeviceGetPowerUsage(self, device: Any, word: Any) -> int:  # noqa: N802
        word._obj.value = self.average_mw
        return self.broken

    def nvmlDeviceGetFieldValues(self, device: Any, count: int, values: Any) -> int:  # noqa: N802
        asked = values._obj
        assert (count, asked.field, asked.scope) == (1, 186, 0)
        assert ctypes.sizeof(asked) == 40, "the size of nvmlFieldValue_t"
        if self.instant_mw is None:
            asked.status = 3
        else:
            asked.status, asked.kind = self.broken, 1
            asked.value[:] = self.instant_mw.to_bytes(8, sys.byteorder)
        return 0


def opened(library: FakeNvml, identity: str = GPU) -> Any:
    def load(name: str) -> Any:
        assert name == LIBRARY
        return library

    return nvml(identity, load)


def test_clock_and_power_of_the_moment_are_read():
    library = FakeNvml()
    meter = opened(library)
    assert (meter.sm_clock_mhz(), meter.power_w()) == (1755.0, 698.3)
    meter.close()
    assert library.sessions == 0


def test_where_the_driver_knows_only_an_average_that_is_read():
    assert opened(FakeNvml(instant_mw=None)).power_w() == 512.0


def test_what_nvml_cannot_read_is_none():
    library = FakeNvml()
    meter = opened(library)
    library.broken = 3
    assert (meter.sm_clock_mhz(), meter.power_w()) == (None, None)


def test_without_nvml_or_the_gpu_in_it_there_is_no_meter():
    library = FakeNvml()
    assert opened(library, "0000:18:00.0") is None
    assert library.sessions == 0
    assert nvml(GPU, lambda name: SimpleNamespace()) is None

    def missing(name: str) -> Any:
        raise OSError(f"{name}: cannot open shared object file")

    assert nvml(GPU, missing) is None
    assert nvml(GPU, lambda name: SimpleNamespace(nvmlInit_v2=lambda: 9)) is None


def test_a_reading_belongs_to_the_launch_that_it_began_and_ended_in():
    readings = [(0.5, 0.9, 1.0), (1.0, 1.5, 2.0), (1.9, 2.1, 3.0), (3.2, 3.3, 4.0), (5.0, 5.1, 5.0)]
    assert inside(readings, [(1.0, 2.0), (3.0, 4.0)]) == (2.0, 4.0)
    assert inside([(3.9, 4.0, 6.0)], [(1.0, 2.0), (3.0, 4.0)]) == (6.0,)
    assert inside(readings, []) == ()


def test_the_thread_reads_until_its_block_is_over_and_gives_nvml_back():
    library = FakeNvml()
    before = threading.active_count()
    with suppress(ValueError), Sampler(opened(library), interval_s=0.001) as sampler:
        assert threading.active_count() == before + 1
        until = time.perf_counter() + 20
        while len(sampler.powers) < 3 and time.perf_counter() < until:
            time.sleep(0.001)
        raise ValueError("a wrong answer")
    assert threading.active_count() == before
    assert library.sessions == 0
    assert {value for _, _, value in sampler.clocks} == {1755.0}
    assert all(began <= ended for began, ended, _ in sampler.powers)
