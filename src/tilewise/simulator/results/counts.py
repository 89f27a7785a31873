"""The counts of a run, in total and by source line.

In: the machine's rows of counters. Out: ``Counts``: a warp's requests, the 32-byte sectors and 128-byte
lines that they touch, and the wavefronts that the banks of shared memory need. All at PTX level, without
caches or time.
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
    """Bytes that lanes requested."""
    lane_accesses: int = 0
    """Active lanes, summed over requests."""


@dataclass(frozen=True)
class SharedCounts:
    """Traffic to shared memory of one kind."""

    requests: int = 0
    """Warp instructions with at least one active lane."""
    wavefronts: int = 0
    """Wavefronts; equal to requests if there are no bank conflicts and accesses are 4 bytes wide."""
    useful_bytes: int = 0
    """Bytes that lanes requested."""
    lane_accesses: int = 0
    """Active lanes, summed over requests."""


@dataclass(frozen=True)
class BulkCounts:
    """Bulk and tensor copies in one direction, each counted once for its issuing thread."""

    requests: int = 0
    """Issued copies."""
    sectors: int = 0
    """32-byte sectors of global memory, summed over the rows of each box."""
    useful_bytes: int = 0
    """Bytes of global memory: the part of each box inside the array."""
    shared_bytes: int = 0
    """Bytes of shared memory: whole boxes, once for each receiving block of a multicast."""


@dataclass(frozen=True)
class Counts:
    """All counts of a run or of a source line."""

    global_load: GlobalCounts = GlobalCounts()
    global_store: GlobalCounts = GlobalCounts()
    global_atomic: GlobalCounts = GlobalCounts()
    shared_load: SharedCounts = SharedCounts()
    shared_store: SharedCounts = SharedCounts()
    shared_atomic: SharedCounts = SharedCounts()
    issued: int = 0
    """Warp instructions issued (PTX level)."""
    active_lanes: int = 0
    """Active lanes, summed over issued instructions."""
    barriers: int = 0
    """Barriers that warps arrived at."""
    divergent_branches: int = 0
    """Branches at which lanes of a warp diverged."""
    local_requests: int = 0
    """Warp instructions that touched local memory."""
    local_useful_bytes: int = 0
    """Bytes of local memory that lanes requested."""
    bulk_load: BulkCounts = BulkCounts()
    """Copies to shared memory; copies from another block's shared memory have no sectors."""
    bulk_store: BulkCounts = BulkCounts()
    """Copies and reductions from shared to global memory."""
    wgmma: int = 0
    """``wgmma`` instructions, counted per warpgroup."""
    mbarriers: int = 0
    """Warp instructions on mbarriers; a wait counts once, when it completes."""

    @staticmethod
    def of(row: NDArray[np.uint64]) -> Counts:
        """Counts from a row of the machine's counters, which are in the order of the fields."""
        values = iter(row.tolist())
        kinds: list[Any] = [type(field.default) for field in fields(Counts)]
        return Counts(
            *(next(values) if kind is int else kind(*islice(values, len(fields(kind)))) for kind in kinds)
        )
