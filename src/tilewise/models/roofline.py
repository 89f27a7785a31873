"""The roofline: the least time that a kernel's bytes and operations allow on a device.

In: bytes moved, operations, and a device's ceilings: the peaks of its data sheet, and where there is a record
the time of a launch. Out: a ``Bound``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tilewise.models.devices import Device


@dataclass(frozen=True)
class Ceilings:
    """What a device can reach at best."""

    memory_gb_per_s: float
    """The data sheet's peak bandwidth in GB/s (1e9 bytes); of a device that the table does not know, the
    fastest memory probe."""
    tflop_per_s: Mapping[str, float]
    """The data sheet's peak by kind of arithmetic (``fp32``, ``bf16_matrix``), in TFLOP/s; of a device that
    the table does not know, what probes reached."""
    launch_us: float = 0.0
    """The time between two events around an empty kernel, in microseconds; 0 where it is unknown."""
    probes: Mapping[str, float] = field(default_factory=dict)
    """What each probe reached, with its unit in its name; empty where nothing was probed."""

    def ridge_flop_per_byte(self, arithmetic: str = "fp32") -> float:
        """The arithmetic intensity at which both ceilings take the same time."""
        return self.tflop_per_s[arithmetic] * 1e12 / (self.memory_gb_per_s * 1e9)


@dataclass(frozen=True)
class Bound:
    """The least time, and what sets it."""

    time_us: float
    """Microseconds below which no version gets."""
    limited_by: str
    """``memory``, ``arithmetic`` or ``launch``."""
    memory_us: float
    """What the bytes alone take."""
    arithmetic_us: float
    """What the operations alone take."""
    launch_us: float
    """What one empty launch takes."""


def stated(device: Device) -> Ceilings:
    """A device's peaks by its data sheet.

    A kind of arithmetic that the sheet leaves out has its units times the boost clock.
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
    """The least time for this much work: the longest of memory, arithmetic and the launches.

    Args:
        ceilings: of the device.
        bytes_moved: bytes that have to cross the device memory's interface, read and written.
        flop: operations that have to be done; a fused multiply-add counts as two.
        arithmetic: which units do them, a key of ``ceilings.tflop_per_s``.
        launches: how many kernels at least.

    Raises:
        KeyError: the ceilings know no such arithmetic.
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
