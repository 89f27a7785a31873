"""Traffic: the sectors and requests that a warp's addresses cost, and the bytes in flight that fill a memory.

In: addresses, sizes, rates and latencies. Out: counts. These are formulas for prose and figures; what a
kernel really does is counted by the simulator.
"""

from __future__ import annotations

from collections.abc import Iterable

SECTOR_BYTES = 32
"""The least that moves between L1 and L2."""


def sectors(addresses: Iterable[int], bytes_each: int = 4) -> int:
    """Distinct 32-byte sectors that one warp instruction touches.

    Args:
        addresses: the byte address of each active lane.
        bytes_each: how many bytes each lane moves.
    """
    touched: set[int] = set()
    for address in addresses:
        touched.update(range(address // SECTOR_BYTES, (address + bytes_each - 1) // SECTOR_BYTES + 1))
    return len(touched)


def sectors_of_stride(stride: int, bytes_each: int = 4, lanes: int = 32, offset: int = 0) -> int:
    """Sectors of a warp whose lane ``i`` touches element ``i * stride``, ``offset`` bytes on."""
    return sectors((offset + lane * stride * bytes_each for lane in range(lanes)), bytes_each)


def bytes_in_flight(gb_per_s: float, latency_ns: float) -> float:
    """Bytes that must be under way at once to keep a memory busy: rate times latency (Little's law)."""
    return gb_per_s * latency_ns
