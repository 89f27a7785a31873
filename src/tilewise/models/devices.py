"""The device table: what the makers state of each GPU, and peaks as units times a clock.

In: a device's name as its driver gives it. Out: a frozen ``Device``, or None for one that is not in the table
(measure it). Recorded clocks and measured ceilings live in records; this is the only place for stated
figures.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True)
class Device:
    """One GPU as its maker states it."""

    name: str
    """A short name, e.g. ``H100 SXM``."""
    pattern: str
    """A regular expression that the driver's name for it matches."""
    sms: int
    """Streaming multiprocessors that are enabled."""
    boost_mhz: float
    """The highest SM clock under light load, in MHz; a recorded clock is better."""
    fma_per_sm_clock: Mapping[str, int]
    """Fused multiply-adds that one SM starts in a clock, by arithmetic; matrix units without sparsity."""
    memory_gb_per_s: float
    """Stated bandwidth of device memory in GB/s (1e9 bytes)."""
    memory_gb: float
    """Stated size of device memory in GB (1e9 bytes)."""
    l2_mb: float
    """Stated size of the L2 cache in MB (2**20 bytes)."""
    compute_capability: tuple[int, int]
    """Major and minor."""
    source: str
    """Where the figures come from."""

    def peak_tflop_per_s(self, arithmetic: str = "fp32", sm_clock_mhz: float | None = None) -> float:
        """The highest arithmetic rate: SMs x units x 2 x clock.

        Args:
            arithmetic: a key of ``fma_per_sm_clock``.
            sm_clock_mhz: the clock to reckon with; the boost clock where none is given.

        Returns:
            TFLOP/s, with 1e12 for the T; a fused multiply-add counts as two operations.

        Raises:
            KeyError: the device has no such units; the message lists what it has.
        """
        if arithmetic not in self.fma_per_sm_clock:
            known = ", ".join(sorted(self.fma_per_sm_clock))
            raise KeyError(f"{self.name} has no {arithmetic} units in the device table; it has {known}")
        clock_mhz = self.boost_mhz if sm_clock_mhz is None else sm_clock_mhz
        return self.sms * self.fma_per_sm_clock[arithmetic] * 2 * clock_mhz * 1e6 / 1e12


def _units(**fma: int) -> Mapping[str, int]:
    return MappingProxyType(fma)


_AMPERE = _units(fp64=32, fp32=64, fp16=256, bf16=128, tf32_matrix=512, fp16_matrix=1024, bf16_matrix=1024,
                 int8_matrix=2048)  # fmt: skip
_HOPPER = _units(fp64=64, fp32=128, fp16=256, bf16=256, tf32_matrix=1024, fp16_matrix=2048, bf16_matrix=2048,
                 int8_matrix=4096, fp8_matrix=4096)  # fmt: skip
_BLACKWELL = _units(fp64=64, fp32=128, fp16=256, bf16=256, tf32_matrix=2048, fp16_matrix=4096,
                    bf16_matrix=4096, int8_matrix=8192, fp8_matrix=8192)  # fmt: skip
_GEFORCE = _units(fp64=2, fp32=128, fp16=128, bf16=128, tf32_matrix=128, fp16_matrix=256, bf16_matrix=256,
                  int8_matrix=1024, fp8_matrix=512)  # fmt: skip
_TURING = _units(fp64=2, fp32=64, fp16=128, fp16_matrix=512, int8_matrix=1024)
_ADA_SERVER = _units(fp64=2, fp32=128, fp16=128, bf16=128, tf32_matrix=256, fp16_matrix=512, bf16_matrix=512,
                     int8_matrix=1024, fp8_matrix=1024)  # fmt: skip

DEVICES: tuple[Device, ...] = (
    Device("A100 SXM 80 GB", r"A100-SXM.*80GB", 108, 1410, _AMPERE, 2039, 80, 40, (8, 0),
           "NVIDIA A100 data sheet; units from the A100 architecture white paper"),
    Device("A100 SXM 40 GB", r"A100-SXM.*40GB", 108, 1410, _AMPERE, 1555, 40, 40, (8, 0),
           "NVIDIA A100 data sheet; units from the A100 architecture white paper"),
    Device("A100 PCIe 80 GB", r"A100.*80GB PCIe", 108, 1410, _AMPERE, 1935, 80, 40, (8, 0),
           "NVIDIA A100 data sheet; units from the A100 architecture white paper"),
    Device("A100 PCIe 40 GB", r"A100-PCIE", 108, 1410, _AMPERE, 1555, 40, 40, (8, 0),
           "NVIDIA A100 data sheet; units from the A100 architecture white paper"),
    Device("H100 PCIe", r"H100 PCIe", 114, 1755, _HOPPER, 2039, 80, 50, (9, 0),
           "NVIDIA H100 data sheet; units from the H100 architecture white paper"),
    Device("H100 SXM", r"H100 80GB HBM3|H100 SXM", 132, 1980, _HOPPER, 3352, 80, 50, (9, 0),
           "NVIDIA H100 data sheet and white paper; its 989.4 TFLOP/s for bf16 assume 1.83 GHz, its 66.9 for "
           "fp32 1.98 GHz"),
    Device("H200", r"H200", 132, 1980, _HOPPER, 4800, 141, 50, (9, 0),
           "NVIDIA H200 data sheet; units from the H100 architecture white paper"),
    Device("B200", r"B200", 148, 1965, _BLACKWELL, 8000, 180, 126, (10, 0),
           "NVIDIA HGX B200 data sheet (an eighth of its figures); clock worked back from its fp32 rate"),
    Device("RTX 4090", r"RTX 4090(?! D)", 128, 2520, _GEFORCE, 1008, 24, 72, (8, 9),
           "NVIDIA Ada architecture white paper; matrix rates with fp32 sums, half of those with fp16"),
    Device("RTX 5090", r"RTX 5090(?! D)", 170, 2407, _GEFORCE, 1792, 32, 96, (12, 0),
           "NVIDIA RTX Blackwell architecture white paper; matrix rates with fp32 sums"),
    Device("T4", r"Tesla T4|\bT4\b", 40, 1590, _TURING, 320, 16, 4, (7, 5),
           "NVIDIA T4 data sheet; units from the Turing architecture white paper"),
    Device("L4", r"\bL4\b", 58, 2040, _ADA_SERVER, 300, 24, 48, (8, 9),
           "NVIDIA L4 data sheet; units worked back from its 121 TFLOP/s for bf16 without sparsity"),
)  # fmt: skip
"""Every device of the table."""


def device(name: str) -> Device | None:
    """The table's entry for a device.

    Args:
        name: the name that the driver gives (``NVIDIA H100 80GB HBM3``) or the table's short name (``H100
            SXM``).

    Returns:
        The entry, or None for a device that is not in the table.
    """
    for entry in DEVICES:
        if name == entry.name:
            return entry
    for entry in DEVICES:
        if re.search(entry.pattern, name):
            return entry
    return None
