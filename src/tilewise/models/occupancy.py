"""Occupancy: how many blocks and warps fit on one SM at a time, and which resource limits them.

In: a kernel's threads, registers and shared memory, and the limits of a compute capability. Out: an
``Occupancy``. A kernel's needs are read from the compiler's report elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True)
class Limits:
    """The limits of one SM, from the CUDA programming guide's table of technical specifications."""

    threads: int
    """Resident threads."""
    blocks: int
    """Resident blocks."""
    shared_bytes: int
    """Total shared memory."""
    shared_bytes_per_block: int
    """Maximum per block after opting in."""
    registers: int = 65536
    """32-bit registers."""
    registers_per_thread: int = 255
    """Maximum per thread."""
    register_unit: int = 256
    """Registers are allocated to a warp in multiples of this."""
    shared_unit: int = 128
    """Shared memory is allocated in multiples of this."""
    shared_reserved: int = 1024
    """Shared memory that the system reserves in each block."""
    shared_choices: tuple[int, ...] = ()
    """Possible sizes of shared memory within an SM's unified L1, smallest first; the rest is L1."""


LIMITS: Mapping[tuple[int, int], Limits] = MappingProxyType({
    (7, 5): Limits(1024, 16, 64 * 1024, 64 * 1024, shared_unit=256, shared_reserved=0),
    (8, 0): Limits(2048, 32, 164 * 1024, 163 * 1024),
    (8, 6): Limits(1536, 16, 100 * 1024, 99 * 1024),
    (8, 9): Limits(1536, 24, 100 * 1024, 99 * 1024),
    (9, 0): Limits(2048, 32, 228 * 1024, 227 * 1024, shared_choices=tuple(
        kilobytes * 1024 for kilobytes in (0, 8, 16, 32, 64, 100, 132, 164, 196, 228))),
    (10, 0): Limits(2048, 32, 228 * 1024, 227 * 1024),
    (12, 0): Limits(1536, 24, 100 * 1024, 99 * 1024),
})  # fmt: skip
"""Limits by compute capability."""


@dataclass(frozen=True)
class Occupancy:
    """The blocks and warps that fit on one SM."""

    blocks_per_sm: int
    """Resident blocks."""
    warps_per_sm: int
    """Resident warps."""
    share: float
    """Resident warps as a fraction of the SM's maximum."""
    limited_by: str
    """``threads``, ``blocks``, ``registers`` or ``shared memory``."""


def occupancy(threads: int, registers: int, shared_bytes: int = 0,
              compute_capability: tuple[int, int] = (9, 0),
              carveout: int | None = None) -> Occupancy:  # fmt: skip
    """Return how many blocks of a kernel fit on one SM.

    Args:
        threads: threads per block.
        registers: registers per thread.
        shared_bytes: shared memory per block, static and dynamic.
        compute_capability: of the device.
        carveout: the percentage of the unified L1 that the kernel requests as shared memory; None: the driver
            chooses enough for the most blocks.

    Raises:
        ValueError: such a block cannot be launched.
        KeyError: the compute capability has no entry in ``LIMITS``.
    """
    limits = LIMITS[compute_capability]
    if not 1 <= threads <= 1024:
        raise ValueError(f"a block has 1 to 1024 threads, not {threads}")
    if not 0 < registers <= limits.registers_per_thread:
        raise ValueError(f"a thread has 1 to {limits.registers_per_thread} registers, not {registers}")
    if not 0 <= shared_bytes <= limits.shared_bytes_per_block:
        raise ValueError(f"a block has at most {limits.shared_bytes_per_block} bytes of shared memory, "
                         f"not {shared_bytes}")  # fmt: skip
    warps = -(-threads // 32)
    # A warp runs in one of four SM partitions and uses registers from that partition's quarter.
    per_warp = _rounded(registers * 32, limits.register_unit)
    warps_by_registers = 4 * ((limits.registers // 4) // per_warp)
    shared = _rounded(shared_bytes + limits.shared_reserved, limits.shared_unit)
    fits = {
        "threads": limits.threads // 32 // warps,
        "blocks": limits.blocks,
        "registers": warps_by_registers // warps,
    }
    if shared:
        fits["shared memory"] = _shared_of_an_sm(limits, carveout, shared) // shared
    limited_by = min(fits, key=lambda name: fits[name])
    blocks = fits[limited_by]
    return Occupancy(blocks, blocks * warps, blocks * warps * 32 / limits.threads, limited_by)


def _shared_of_an_sm(limits: Limits, carveout: int | None, shared: int) -> int:
    """The smallest choice that is at least as large as requested and fits one block."""
    wanted = limits.shared_bytes if carveout is None else limits.shared_bytes * carveout / 100
    fitting = [size for size in limits.shared_choices if size >= max(wanted, shared)]
    return fitting[0] if fitting else limits.shared_bytes


def _rounded(amount: int, unit: int) -> int:
    return -(-amount // unit) * unit
