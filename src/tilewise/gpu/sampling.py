"""Sampling: a GPU's SM clock and power during timing, read through NVML in a thread.

In: a GPU's PCI bus id, and when each timed launch ran. Out: the readings during those launches. NVML is
loaded on first use, not on import; without it, nothing is sampled.

The power is an average over an interval that the GPU chooses, and some devices ignore most of the time (Yang,
Adamek and Armour, "Accurate and Convenient Energy Measurements for GPUs", SC 2024). If launches are shorter,
it includes what runs between them, and readings repeat the sensor's value.
"""

from __future__ import annotations

import ctypes
import time
from bisect import bisect_right
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from threading import Event, Thread
from typing import Any

INTERVAL_S = 0.005
"""Seconds between two readings."""
LIBRARY = "libnvidia-ml.so.1"
"""NVML, which comes with the driver."""

_CLOCK_SM = 1
_POWER_INSTANT = 186
_UNSIGNED = {1: ctypes.c_uint, 2: ctypes.c_ulong, 3: ctypes.c_ulonglong}


class _FieldValue(ctypes.Structure):
    """NVML's ``nvmlFieldValue_t``."""

    _fields_ = (
        ("field", ctypes.c_uint),
        ("scope", ctypes.c_uint),
        ("timestamp", ctypes.c_longlong),
        ("latency_us", ctypes.c_longlong),
        ("kind", ctypes.c_uint),
        ("status", ctypes.c_int),
        ("value", ctypes.c_ubyte * 8),
    )


class Nvml:
    """A GPU, read through NVML."""

    def __init__(self, library: Any, device: ctypes.c_void_p) -> None:
        self._library, self._device = library, device
        self._word = ctypes.c_uint()
        self._field = _FieldValue()
        self._instant = self._instant_w() is not None
        self.sensor = "now" if self._instant else "as averaged by NVML, over a second from Ampere on"

    def sm_clock_mhz(self) -> float | None:
        """The current SM clock in MHz; None if it cannot be read."""
        if self._library.nvmlDeviceGetClockInfo(self._device, _CLOCK_SM, ctypes.byref(self._word)):
            return None
        return float(self._word.value)

    def power_w(self) -> float | None:
        """The power in W, to a tenth: the sensor's latest value, else NVML's average."""
        if self._instant:
            return self._instant_w()
        if self._library.nvmlDeviceGetPowerUsage(self._device, ctypes.byref(self._word)):
            return None
        return round(self._word.value / 1000, 1)

    def _instant_w(self) -> float | None:
        """NVML's field "power, instant", in W; None if the driver or GPU lacks it."""
        query = getattr(self._library, "nvmlDeviceGetFieldValues", None)
        if query is None:
            return None
        self._field.field, self._field.scope, self._field.status = _POWER_INSTANT, 0, -1
        failed = query(self._device, 1, ctypes.byref(self._field)) or self._field.status
        kind = _UNSIGNED.get(self._field.kind)
        if failed or kind is None:
            return None
        return round(kind.from_buffer_copy(bytes(self._field.value)).value / 1000, 1)

    def close(self) -> None:
        """End the session with NVML."""
        self._library.nvmlShutdown()


def nvml(identity: str, load: Callable[[str], Any] = ctypes.CDLL) -> Nvml | None:
    """A GPU through NVML; None if NVML is missing or does not give access to that GPU.

    Args:
        identity: the GPU's PCI bus id, from CuPy.
        load: opens a shared library; for tests.
    """
    try:
        library = load(LIBRARY)
        if library.nvmlInit_v2():
            return None
    except (OSError, AttributeError):
        return None
    device = ctypes.c_void_p()
    with suppress(AttributeError):
        if not library.nvmlDeviceGetHandleByPciBusId_v2(identity.encode(), ctypes.byref(device)):
            return Nvml(library, device)
    with suppress(AttributeError):
        library.nvmlShutdown()
    return None


Stretch = tuple[float, float]
"""The beginning and end of an interval, in seconds of the sampler's clock."""


@dataclass
class Sampler:
    """Reads a meter repeatedly in its own thread during a ``with`` block.

    The thread sleeps between readings. NVML runs without Python's lock, so the timing thread waits only for
    the little Python around a reading.
    """

    meter: Nvml
    """What to read; closed at the end of the block."""
    interval_s: float = INTERVAL_S
    """Seconds of sleep between two readings."""
    now: Callable[[], float] = time.perf_counter
    """The clock, in seconds; the same as for the launches."""
    clocks: list[tuple[float, float, float]] = field(default_factory=list)
    """When each reading of the SM clock began and ended, and its MHz."""
    powers: list[tuple[float, float, float]] = field(default_factory=list)
    """When each reading of the power began and ended, and its W."""

    def __post_init__(self) -> None:
        self._over = Event()
        self._thread = Thread(target=self._run, name="tilewise-sampler", daemon=True)

    def __enter__(self) -> Sampler:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self.meter.close()

    def _run(self) -> None:
        while not self._over.wait(self.interval_s):
            self.read()

    def read(self) -> None:
        """Take one reading of the clock and one of the power."""
        for readings, take in ((self.clocks, self.meter.sm_clock_mhz), (self.powers, self.meter.power_w)):
            began = self.now()
            value = take()
            if value is not None:
                readings.append((began, self.now(), value))


def inside(readings: Sequence[tuple[float, float, float]], launches: Sequence[Stretch]) -> tuple[float, ...]:
    """The values that were read during one of the launches, which are in order of time."""
    starts = [began for began, _ in launches]
    values = []
    for began, ended, value in list(readings):
        at = bisect_right(starts, began) - 1
        if at >= 0 and ended <= launches[at][1]:
            values.append(value)
    return tuple(values)
