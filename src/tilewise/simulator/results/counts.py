"""What a run counted, in all and by source line.

In: the machine's rows of counters. Out: ``Counts``, with the names of the design: requests a warp makes,
the 32-byte sectors and 128-byte lines they touch, and wavefronts, the passes that the banks of shared
memory need. All at the level of PTX: no caches, no time.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from itertools import islice
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class GlobalCounts:
    """Traffic to global memory of one kind (loads, stores or atomics)."""

    requests: int = 0
    """Warp instructions with at least one active lane."""
    sectors: int = 0
    """Distinct 32-byte sectors, summed over requests."""
    lines: int = 0
    """Distinct 128-byte lines, summed over requests."""
    useful_bytes: int = 0
    """Bytes that lanes asked for."""
    lane_accesses: int = 0
    """Lanes that took part, summed over requests."""


@dataclass(frozen=True)
class SharedCounts:
    """Traffic to shared memory of one kind."""

    requests: int = 0
    """Warp instructions with at least one active lane."""
    wavefronts: int = 0
    """Passes over the 32 banks; equal to requests where nothing conflicts and accesses are 4 bytes wide."""
    useful_bytes: int = 0
    """Bytes that lanes asked for."""
    lane_accesses: int = 0
    """Lanes that took part, summed over requests."""


@dataclass(frozen=True)
class BulkCounts:
    """Bulk and tensor copies in one direction, each counted once for the thread that begins it."""

    requests: int = 0
    """Copies begun."""
    sectors: int = 0
    """32-byte sectors of global memory, summed over the rows of each box."""
    useful_bytes: int = 0
    """Bytes of global memory: what of a box lies inside the array."""
    shared_bytes: int = 0
    """Bytes of shared memory: whole boxes, once for each block that a multicast goes to."""


@dataclass(frozen=True)
class Counts:
    """Everything that was counted, for a whole run or for one source line."""

    global_load: GlobalCounts = GlobalCounts()
    global_store: GlobalCounts = GlobalCounts()
    global_atomic: GlobalCounts = GlobalCounts()
    shared_load: SharedCounts = SharedCounts()
    shared_store: SharedCounts = SharedCounts()
    shared_atomic: SharedCounts = SharedCounts()
    issued: int = 0
    """Warp instructions issued (PTX level)."""
    active_lanes: int = 0
    """Lanes that took part, summed over issued instructions."""
    barriers: int = 0
    """Barriers that warps arrived at."""
    divergent_branches: int = 0
    """Branches at which lanes of one warp parted."""
    local_requests: int = 0
    """Warp instructions that touched local memory."""
    local_useful_bytes: int = 0
    """Bytes of local memory that lanes asked for."""
    bulk_load: BulkCounts = BulkCounts()
    """Copies into shared memory; those from another block's shared memory have no sectors."""
    bulk_store: BulkCounts = BulkCounts()
    """Copies, and reductions, from shared to global memory."""
    wgmma: int = 0
    """Products of matrices by a warpgroup."""
    mbarriers: int = 0
    """Warp instructions on mbarriers; one that waits counts once, when it goes on."""

    @staticmethod
    def of(row: NDArray[np.uint64]) -> Counts:
        """Counts from one row of the machine's counters, which come in the order of the fields."""
        values = iter(row.tolist())
        kinds: list[Any] = [type(field.default) for field in fields(Counts)]
        return Counts(
            *(next(values) if kind is int else kind(*islice(values, len(fields(kind)))) for kind in kinds)
        )
