"""The device table: each GPU's data-sheet peaks, and its units for computing rates at other clocks.

In: a device's name from its driver. Out: a frozen ``Device``, or None for a device that is not in the table
(measure it). Recorded clocks and probe results are in records; data-sheet figures are only here, and "peak"
means these wherever a page divides by one.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from types import MappingProxyType


@dataclass(frozen=True)
class Device:
    """A GPU's data sheet."""

    name: str
    """A short name, e.g. ``H100 SXM``."""
    pattern: str
    """A regular expression that matches the driver's name."""
    _: KW_ONLY
    sms: int
    """Enabled streaming multiprocessors."""
    boost_mhz: float
    """The highest SM clock under light load, in MHz; a recorded clock is better."""
    fma_per_sm_clock: Mapping[str, int]
    """Fused multiply-adds per SM and cycle, by arithmetic; tensor cores without sparsity."""
    peak_tflop_per_s: Mapping[str, float]
    """Peak rates of the data sheet in TFLOP/s, by arithmetic, without sparsity; rates that it
    omits are missing. They may differ from units times ``boost_mhz``: Hopper's tensor core rates assume a
    lower clock."""
    memory_gb_per_s: float
    """Peak device memory bandwidth of the data sheet in GB/s (1e9 bytes)."""
    memory_gb: float
    """Device memory size of the data sheet in GB (1e9 bytes)."""
    l2_mb: float
    """L2 cache size of the data sheet in MB (2**20 bytes)."""
    compute_capability: tuple[int, int]
    """Major and minor."""
    source: str
    """The source of the figures."""

    def units_tflop_per_s(self, arithmetic: str = "fp32", sm_clock_mhz: float | None = None) -> float:
        """The rate of all units at a clock: SMs x units x 2 x clock; not a data-sheet peak.

        Args:
            arithmetic: a key of ``fma_per_sm_clock``.
            sm_clock_mhz: the clock; None: the boost clock.

        Returns:
            TFLOP/s (T = 1e12); a fused multiply-add counts as two operations.
        """
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


def _peaks(**tflop_per_s: float) -> Mapping[str, float]:
    return MappingProxyType(tflop_per_s)


_A100_PEAKS = _peaks(fp64=9.7, fp32=19.5, fp16=78, bf16=39, tf32_matrix=156, fp16_matrix=312, bf16_matrix=312,
                     int8_matrix=624)  # fmt: skip
_H100_PCIE_PEAKS = _peaks(fp64=25.6, fp32=51.2, fp16=102.4, bf16=102.4, tf32_matrix=378, fp16_matrix=756,
                          bf16_matrix=756, int8_matrix=1513, fp8_matrix=1513)  # fmt: skip
_H100_SXM_PEAKS = _peaks(fp64=33.5, fp32=66.9, fp16=133.8, bf16=133.8, tf32_matrix=494.7, fp16_matrix=989.4,
                         bf16_matrix=989.4, int8_matrix=1978.9, fp8_matrix=1978.9)  # fmt: skip
_B200_PEAKS = _peaks(fp64=37, fp32=75, tf32_matrix=1125, fp16_matrix=2250, bf16_matrix=2250, int8_matrix=4500,
                     fp8_matrix=4500)  # fmt: skip
_RTX_4090_PEAKS = _peaks(fp32=82.6, fp16=82.6, bf16=82.6, tf32_matrix=82.6, fp16_matrix=165.2,
                         bf16_matrix=165.2, int8_matrix=660.6, fp8_matrix=330.3)  # fmt: skip
_RTX_5090_PEAKS = _peaks(fp32=104.8, fp16=104.8, bf16=104.8, tf32_matrix=104.8, fp16_matrix=209.5,
                         bf16_matrix=209.5, int8_matrix=838, fp8_matrix=419)  # fmt: skip
_T4_PEAKS = _peaks(fp32=8.1, fp16_matrix=65, int8_matrix=130)
_L4_PEAKS = _peaks(fp32=30.3, tf32_matrix=60, fp16_matrix=121, bf16_matrix=121, int8_matrix=242.5,
                   fp8_matrix=242.5)  # fmt: skip

DEVICES: tuple[Device, ...] = (
    Device("A100 SXM 80 GB", r"A100-SXM.*80GB",
           sms=108, boost_mhz=1410, fma_per_sm_clock=_AMPERE, peak_tflop_per_s=_A100_PEAKS,
           memory_gb_per_s=2039, memory_gb=80, l2_mb=40, compute_capability=(8, 0),
           source="NVIDIA A100 data sheet; units from the A100 architecture white paper"),
    Device("A100 SXM 40 GB", r"A100-SXM.*40GB",
           sms=108, boost_mhz=1410, fma_per_sm_clock=_AMPERE, peak_tflop_per_s=_A100_PEAKS,
           memory_gb_per_s=1555, memory_gb=40, l2_mb=40, compute_capability=(8, 0),
           source="NVIDIA A100 data sheet; units from the A100 architecture white paper"),
    Device("A100 PCIe 80 GB", r"A100.*80GB PCIe",
           sms=108, boost_mhz=1410, fma_per_sm_clock=_AMPERE, peak_tflop_per_s=_A100_PEAKS,
           memory_gb_per_s=1935, memory_gb=80, l2_mb=40, compute_capability=(8, 0),
           source="NVIDIA A100 data sheet; units from the A100 architecture white paper"),
    Device("A100 PCIe 40 GB", r"A100-PCIE",
           sms=108, boost_mhz=1410, fma_per_sm_clock=_AMPERE, peak_tflop_per_s=_A100_PEAKS,
           memory_gb_per_s=1555, memory_gb=40, l2_mb=40, compute_capability=(8, 0),
           source="NVIDIA A100 data sheet; units from the A100 architecture white paper"),
    Device("H100 PCIe", r"H100 PCIe",
           sms=114, boost_mhz=1755, fma_per_sm_clock=_HOPPER, peak_tflop_per_s=_H100_PCIE_PEAKS,
           memory_gb_per_s=2039, memory_gb=80, l2_mb=50, compute_capability=(9, 0),
           source="NVIDIA H100 data sheet; units from the H100 architecture white paper"),
    Device("H100 SXM", r"H100 80GB HBM3|H100 SXM",
           sms=132, boost_mhz=1980, fma_per_sm_clock=_HOPPER, peak_tflop_per_s=_H100_SXM_PEAKS,
           memory_gb_per_s=3352, memory_gb=80, l2_mb=50, compute_capability=(9, 0),
           source="NVIDIA H100 data sheet; peaks with all digits and units from the H100 architecture white "
                  "paper, whose 989.4 TFLOP/s for bf16 assume 1.83 GHz and whose 66.9 for fp32 1.98 GHz"),
    Device("H200", r"H200",
           sms=132, boost_mhz=1980, fma_per_sm_clock=_HOPPER, peak_tflop_per_s=_H100_SXM_PEAKS,
           memory_gb_per_s=4800, memory_gb=141, l2_mb=60, compute_capability=(9, 0),
           source="NVIDIA H200 data sheet; the size of L2 from its driver; its arithmetic peaks are an H100 "
                  "SXM's, with all digits in the H100 architecture white paper, as are the units"),
    Device("B200", r"B200",
           sms=148, boost_mhz=1965, fma_per_sm_clock=_BLACKWELL, peak_tflop_per_s=_B200_PEAKS,
           memory_gb_per_s=8000, memory_gb=180, l2_mb=126, compute_capability=(10, 0),
           source="NVIDIA HGX B200 data sheet (an eighth of its figures); clock worked back from its "
                  "fp32 rate"),
    Device("RTX 4090", r"RTX 4090(?! D)",
           sms=128, boost_mhz=2520, fma_per_sm_clock=_GEFORCE, peak_tflop_per_s=_RTX_4090_PEAKS,
           memory_gb_per_s=1008, memory_gb=24, l2_mb=72, compute_capability=(8, 9),
           source="NVIDIA Ada architecture white paper; matrix rates with fp32 sums, half of those with"
                  " fp16"),
    Device("RTX 5090", r"RTX 5090(?! D)",
           sms=170, boost_mhz=2407, fma_per_sm_clock=_GEFORCE, peak_tflop_per_s=_RTX_5090_PEAKS,
           memory_gb_per_s=1792, memory_gb=32, l2_mb=96, compute_capability=(12, 0),
           source="NVIDIA RTX Blackwell architecture white paper; matrix rates with fp32 sums"),
    Device("T4", r"Tesla T4|\bT4\b",
           sms=40, boost_mhz=1590, fma_per_sm_clock=_TURING, peak_tflop_per_s=_T4_PEAKS,
           memory_gb_per_s=320, memory_gb=16, l2_mb=4, compute_capability=(7, 5),
           source="NVIDIA T4 data sheet; units from the Turing architecture white paper"),
    Device("L4", r"\bL4\b",
           sms=58, boost_mhz=2040, fma_per_sm_clock=_ADA_SERVER, peak_tflop_per_s=_L4_PEAKS,
           memory_gb_per_s=300, memory_gb=24, l2_mb=48, compute_capability=(8, 9),
           source="NVIDIA L4 data sheet; units worked back from its 121 TFLOP/s for bf16 without "
                  "sparsity"),
)  # fmt: skip
"""All devices of the table."""


def device(name: str) -> Device | None:
    """The table's entry for a device.

    Args:
        name: the driver's name (``NVIDIA H100 80GB HBM3``) or the table's short name (``H100 SXM``).

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
