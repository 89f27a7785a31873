"""Scaling: what a time recorded on one device ought to be on another, before anyone measures it there.

In: a recorded time, the bytes behind it, the ceilings that were measured beside it, and two entries of the
device table. Out: a ``Scaled``. Nothing is fitted: the memory's part follows the stated bandwidths, the rest
follows SMs times clock, and what a launch takes stays.
"""

from __future__ import annotations

from dataclasses import dataclass

from tilewise.models.devices import Device
from tilewise.models.roofline import Ceilings

CHANGES = 0.05
"""A row is said to change where its predicted time differs by more than this share."""


@dataclass(frozen=True)
class Scaled:
    """A time on another device, and the parts that it is made of."""

    time_us: float
    """Microseconds predicted on the other device."""
    ratio: float
    """The recorded time over the predicted one: how many times as fast."""
    launch_us: float
    """The part of the recorded time that one empty launch takes."""
    memory_us: float
    """The part that the bytes take at the best rate that was measured."""
    rest_us: float
    """What is left: arithmetic, caches, latency, the starting of blocks, the host's link."""

    @property
    def changes(self) -> bool:
        """Whether the time is predicted to change by more than ``CHANGES``."""
        return abs(self.ratio - 1) > CHANGES

    @property
    def waits_for(self) -> str:
        """The largest part: ``launch``, ``memory`` or ``chip``."""
        parts = {"launch": self.launch_us, "memory": self.memory_us, "chip": self.rest_us}
        return max(parts, key=lambda name: parts[name])


def scaled(
    time_us: float, bytes_moved: float, ceilings: Ceilings, recorded_on: Device, wanted: Device
) -> Scaled:
    """Predict a time on another device.

    A recorded time is cut into three parts, one after the other: the launch, the bytes at the device's best
    measured rate, and the rest. Kernels overlap the last two; taking them as a sum says that only what
    the bytes explain gets shorter with a faster memory.

    Args:
        time_us: the recorded time in microseconds.
        bytes_moved: bytes that had to cross the device memory's interface; 0 where nothing says how many.
        ceilings: of the device that it was recorded on, measured there.
        recorded_on: that device in the device table.
        wanted: the other device.

    Raises:
        ValueError: a time that is not positive, or a negative number of bytes.
    """
    if time_us <= 0 or bytes_moved < 0:
        raise ValueError(f"a time ({time_us}) is positive and bytes ({bytes_moved}) are not negative")
    launch_us = min(ceilings.launch_us, time_us)
    memory_us = min(bytes_moved / (ceilings.memory_gb_per_s * 1e9) * 1e6, time_us - launch_us)
    rest_us = time_us - launch_us - memory_us
    memory_ratio = recorded_on.memory_gb_per_s / wanted.memory_gb_per_s
    chip_ratio = (recorded_on.sms * recorded_on.boost_mhz) / (wanted.sms * wanted.boost_mhz)
    predicted_us = launch_us + memory_us * memory_ratio + rest_us * chip_ratio
    return Scaled(predicted_us, time_us / predicted_us, launch_us, memory_us, rest_us)
