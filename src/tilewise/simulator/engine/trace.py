"""Which accesses a run keeps, and the accesses it kept.

In: the machine's rows. Out: ``Accesses``, arrays of equal length from which figures draw. Untraced runs
keep counts only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewise.simulator.engine.shared import numbers

GLOBAL, SHARED = numbers("SPACE")["GLOBAL"], numbers("SPACE")["SHARED"]
WATCH = numbers("KIND")["WATCH"]


@dataclass(frozen=True)
class Trace:
    """What to keep of a run's accesses."""

    blocks: Sequence[int] | None = None
    """Linear block numbers; all by default."""
    warps: Sequence[int] | None = None
    """Warps of a block; all by default."""
    max_steps: int = 100_000
    """Instructions of a warp, from its start, whose accesses are kept."""


@dataclass(frozen=True)
class Watched:
    """The values of one watched variable, in the order in which they came by; all arrays have one length."""

    step: NDArray[np.int32]
    """As in ``Accesses``: the instruction of the warp after which the variable had the value."""
    block: NDArray[np.int32]
    """Linear block number."""
    warp: NDArray[np.int32]
    """Warp within its block."""
    lane: NDArray[np.int32]
    """Lane within its warp."""
    line: NDArray[np.int32]
    """Line of the kernel's source that the comment stands on."""
    value: NDArray[np.float64]
    """Its value at the end of that line."""
    interval: NDArray[np.int32]
    """Barriers that the block had passed."""


@dataclass(frozen=True)
class Accesses:
    """One row for each lane's access, in the order in which they happened; all arrays have one length."""

    step: NDArray[np.int32]
    """Which of its instructions the warp was at, from 0: warps that do the same are at the same step."""
    block: NDArray[np.int32]
    """Linear block number."""
    warp: NDArray[np.int32]
    """Warp within its block."""
    lane: NDArray[np.int32]
    """Lane within its warp."""
    line: NDArray[np.int32]
    """Line of the kernel's source, from 1; 0 where the compiler names none."""
    space: NDArray[np.int32]
    """0 global, 1 shared, 2 local."""
    kind: NDArray[np.int32]
    """0 load, 1 store, 2 atomic."""
    size: NDArray[np.int32]
    """Bytes."""
    buffer: NDArray[np.int32]
    """Index into ``Run.buffers``; -1 for local memory and for addresses outside every array."""
    interval: NDArray[np.int32]
    """Barriers that the block had passed."""
    address: NDArray[np.uint64]
    """Address in its space."""
    index: NDArray[np.int64]
    """Element of the buffer; for shared memory in units of the access."""
    value: NDArray[np.float64]
    """What was read or written; for an atomic what it left behind. Shared words count as floats."""
    bits: NDArray[np.uint64]
    """The same as it is in memory, from the lowest byte on."""

    def __len__(self) -> int:
        """How many."""
        return len(self.step)

    def where(self, keep: NDArray[np.bool_]) -> Accesses:
        """The accesses for which ``keep`` is true."""
        return Accesses(*(getattr(self, field.name)[keep] for field in fields(self)))

    @staticmethod
    def decoded(bits: NDArray[np.uint64], dtype: np.dtype[Any]) -> NDArray[Any]:
        """What the lowest bytes stand for in an element type; the bits themselves where it is no number's."""
        if dtype.kind not in "fiub" or dtype.itemsize > bits.itemsize:
            return bits
        low = np.ascontiguousarray(bits).view(np.uint8).reshape(len(bits), bits.itemsize)[:, : dtype.itemsize]
        return np.ascontiguousarray(low).view(dtype).reshape(-1)
