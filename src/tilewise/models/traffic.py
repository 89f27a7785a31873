"""Traffic: the sectors of a warp's addresses, and the bytes in flight that saturate a memory.

In: strides, sizes, rates and latencies. Out: counts. The formulas are for prose and figures; the
simulator counts what a kernel really does.
"""

from __future__ import annotations

SECTOR_BYTES = 32
"""The smallest transfer between L1 and L2."""


def sectors_of_stride(stride: int, bytes_each: int = 4, lanes: int = 32, offset: int = 0) -> int:
    """Distinct sectors of a warp whose lane ``i`` touches element ``i * stride``, at a byte offset."""
    touched: set[int] = set()
    for address in (offset + lane * stride * bytes_each for lane in range(lanes)):
        touched.update(range(address // SECTOR_BYTES, (address + bytes_each - 1) // SECTOR_BYTES + 1))
    return len(touched)


def bytes_in_flight(gb_per_s: float, latency_ns: float) -> float:
    """Bytes that must be in flight at once to keep a memory busy: rate times latency (Little's law)."""
    return gb_per_s * latency_ns
