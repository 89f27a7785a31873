"""The device table: what the makers state of each GPU, and peaks as units times a clock.

In: a device's name as its driver gives it. Out: a frozen ``Device``, or None for one that is not in the table
(measure it). Recorded clocks and measured ceilings live in records; this is the only place for stated
figures.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from types import MappingProxyType

_PLAUSIBLE: Mapping[str, tuple[float, float, str]] = MappingProxyType(
    {
        "sms": (1, 1000, "SMs"),
        "boost_mhz": (300, 5000, "MHz"),
        "memory_gb_per_s": (50, 50_000, "GB/s"),
        "memory_gb": (1, 2000, "GB"),
        "l2_mb": (0.25, 1000, "MB"),
    }
)
"""Where figures of a GPU lie; outside, a unit was probably mistaken."""


@dataclass(frozen=True)
class Device:
    """One GPU as its maker states it."""

    name: str
    """A short name, e.g. ``H100 SXM``."""
    pattern: str
    """A regular expression that the driver's name for it matches."""
    _: KW_ONLY
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

    def __post_init__(self) -> None:
        for field, (low, high, unit) in _PLAUSIBLE.items():
            value = getattr(self, field)
            if not isinstance(value, (int, float)) or not low <= value <= high:
                raise ValueError(
                    f"device table, {self.name}: {field} is {value!r}. "
                    f"Give a number in {unit}, from {low} to {high:,}."
                )
        if not self.source.strip():
            raise ValueError(f"device table, {self.name}: there is no source. Name the data sheet.")
        try:
            re.compile(self.pattern)
        except re.error as error:
            raise ValueError(
                f"device table, {self.name}: the pattern {self.pattern!r} is no regular expression: {error}. "
                "Put a backslash before a sign that is meant as itself."
            ) from None

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
    Device("A100 SXM 80 GB", r"A100-SXM.*80GB",
           sms=108, boost_mhz=1410, fma_per_sm_clock=_AMPERE, memory_gb_per_s=2039, memory_gb=80, l2_mb=40,
           compute_capability=(8, 0),
           source="NVIDIA A100 data sheet; units from the A100 architecture white paper"),
    Device("A100 SXM 40 GB", r"A100-SXM.*40GB",
           sms=108, boost_mhz=1410, fma_per_sm_clock=_AMPERE, memory_gb_per_s=1555, memory_gb=40, l2_mb=40,
           compute_capability=(8, 0),
           source="NVIDIA A100 data sheet; units from the A100 architecture white paper"),
    Device("A100 PCIe 80 GB", r"A100.*80GB PCIe",
           sms=108, boost_mhz=1410, fma_per_sm_clock=_AMPERE, memory_gb_per_s=1935, memory_gb=80, l2_mb=40,
           compute_capability=(8, 0),
           source="NVIDIA A100 data sheet; units from the A100 architecture white paper"),
    Device("A100 PCIe 40 GB", r"A100-PCIE",
           sms=108, boost_mhz=1410, fma_per_sm_clock=_AMPERE, memory_gb_per_s=1555, memory_gb=40, l2_mb=40,
           compute_capability=(8, 0),
           source="NVIDIA A100 data sheet; units from the A100 architecture white paper"),
    Device("H100 PCIe", r"H100 PCIe",
           sms=114, boost_mhz=1755, fma_per_sm_clock=_HOPPER, memory_gb_per_s=2039, memory_gb=80, l2_mb=50,
           compute_capability=(9, 0),
           source="NVIDIA H100 data sheet; units from the H100 architecture white paper"),
    Device("H100 SXM", r"H100 80GB HBM3|H100 SXM",
           sms=132, boost_mhz=1980, fma_per_sm_clock=_HOPPER, memory_gb_per_s=3352, memory_gb=80, l2_mb=50,
           compute_capability=(9, 0),
           source="NVIDIA H100 data sheet and white paper; its 989.4 TFLOP/s for bf16 assume 1.83 GHz, "
                  "its 66.9 for fp32 1.98 GHz"),
    Device("H200", r"H200",
           sms=132, boost_mhz=1980, fma_per_sm_clock=_HOPPER, memory_gb_per_s=4800, memory_gb=141, l2_mb=50,
           compute_capability=(9, 0),
           source="NVIDIA H200 data sheet; units from the H100 architecture white paper"),
    Device("B200", r"B200",
           sms=148, boost_mhz=1965, fma_per_sm_clock=_BLACKWELL, memory_gb_per_s=8000, memory_gb=180,
           l2_mb=126, compute_capability=(10, 0),
           source="NVIDIA HGX B200 data sheet (an eighth of its figures); clock worked back from its "
                  "fp32 rate"),
    Device("RTX 4090", r"RTX 4090(?! D)",
           sms=128, boost_mhz=2520, fma_per_sm_clock=_GEFORCE, memory_gb_per_s=1008, memory_gb=24, l2_mb=72,
           compute_capability=(8, 9),
           source="NVIDIA Ada architecture white paper; matrix rates with fp32 sums, half of those with"
                  " fp16"),
    Device("RTX 5090", r"RTX 5090(?! D)",
           sms=170, boost_mhz=2407, fma_per_sm_clock=_GEFORCE, memory_gb_per_s=1792, memory_gb=32, l2_mb=96,
           compute_capability=(12, 0),
           source="NVIDIA RTX Blackwell architecture white paper; matrix rates with fp32 sums"),
    Device("T4", r"Tesla T4|\bT4\b",
           sms=40, boost_mhz=1590, fma_per_sm_clock=_TURING, memory_gb_per_s=320, memory_gb=16, l2_mb=4,
           compute_capability=(7, 5),
           source="NVIDIA T4 data sheet; units from the Turing architecture white paper"),
    Device("L4", r"\bL4\b",
           sms=58, boost_mhz=2040, fma_per_sm_clock=_ADA_SERVER, memory_gb_per_s=300, memory_gb=24,
           l2_mb=48, compute_capability=(8, 9),
           source="NVIDIA L4 data sheet; units worked back from its 121 TFLOP/s for bf16 without "
                  "sparsity"),
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
