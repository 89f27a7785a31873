"""The roofline: a lower bound on a kernel's time from its bytes, operations and device.

In: bytes moved, operations, and a device's ceilings: its data-sheet peaks and, if recorded, the time of a
launch. Out: a ``Bound``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tilewise.models.devices import Device


@dataclass(frozen=True)
class Ceilings:
    """The highest rates of a device."""

    memory_gb_per_s: float
    """The data sheet's peak bandwidth in GB/s (1e9 bytes); for a device that is not in the table, the fastest
    memory probe."""
    tflop_per_s: Mapping[str, float]
    """The data sheet's peak by kind of arithmetic (``fp32``, ``bf16_matrix``), in TFLOP/s; for a device that
    is not in the table, the probes' rates."""
    launch_us: float = 0.0
    """The time between two events around an empty kernel, in microseconds; 0 if unknown."""
    probes: Mapping[str, float] = field(default_factory=dict)
    """The result of each probe, with its unit in its name; empty if nothing was probed."""

    def ridge_flop_per_byte(self, arithmetic: str = "fp32") -> float:
        """The arithmetic intensity at which both ceilings take the same time."""
        return self.tflop_per_s[arithmetic] * 1e12 / (self.memory_gb_per_s * 1e9)


@dataclass(frozen=True)
class Bound:
    """A lower bound on a time, and what sets it."""

    time_us: float
    """The lower bound in microseconds."""
    limited_by: str
    """``memory``, ``arithmetic`` or ``launch``."""
    memory_us: float
    """The time of the bytes alone."""
    arithmetic_us: float
    """The time of the operations alone."""
    launch_us: float
    """The time of the launches alone."""


def stated(device: Device) -> Ceilings:
    """Return a device's data-sheet peaks.

    For arithmetic that the data sheet omits, the peak is its units times the boost clock.
    """
    computed = {kind: device.units_tflop_per_s(kind) for kind in device.fma_per_sm_clock}
    return Ceilings(device.memory_gb_per_s, computed | dict(device.peak_tflop_per_s))


def bound(
    ceilings: Ceilings,
    *,
    bytes_moved: float = 0,
    flop: float = 0,
    arithmetic: str = "fp32",
    launches: int = 1,
) -> Bound:
    """Return the lower bound for some work: the longest of memory, arithmetic and launch time.

    Args:
        ceilings: the device's.
        bytes_moved: bytes that must be read from and written to device memory.
        flop: required operations; a fused multiply-add counts as two.
        arithmetic: the units that perform them, a key of ``ceilings.tflop_per_s``.
        launches: minimum number of kernels.

    Raises:
        KeyError: the arithmetic has no ceiling.
    """
    if flop and arithmetic not in ceilings.tflop_per_s:
        known = ", ".join(sorted(ceilings.tflop_per_s))
        raise KeyError(f"no ceiling is known for {arithmetic!r} arithmetic; known: {known}")
    memory_us = bytes_moved / (ceilings.memory_gb_per_s * 1e9) * 1e6
    arithmetic_us = flop / (ceilings.tflop_per_s[arithmetic] * 1e12) * 1e6 if flop else 0.0
    launch_us = ceilings.launch_us * launches
    times = {"memory": memory_us, "arithmetic": arithmetic_us, "launch": launch_us}
    limited_by = max(times, key=lambda name: times[name])
    return Bound(times[limited_by], limited_by, memory_us, arithmetic_us, launch_us)


def intensity_flop_per_byte(flop: float, bytes_moved: float) -> float:
    """Operations per byte moved."""
    return flop / bytes_moved


def attainable_tflop_per_s(ceilings: Ceilings, intensity: float, arithmetic: str = "fp32") -> float:
    """The height of the roof above an intensity in FLOP per byte, in TFLOP/s."""
    return min(ceilings.tflop_per_s[arithmetic], intensity * ceilings.memory_gb_per_s * 1e9 / 1e12)
