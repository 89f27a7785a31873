"""Which accesses a run records, and the recorded accesses.

In: the machine's rows. Out: ``Accesses``, arrays of equal length for figures. Untraced runs only have
counts.
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
    """Which accesses of a run to record."""

    blocks: Sequence[int] | None = None
    """Linear block numbers; all by default."""
    warps: Sequence[int] | None = None
    """Warp numbers within a block; all by default."""
    max_steps: int = 100_000
    """Number of first instructions per warp whose accesses are recorded."""


@dataclass(frozen=True)
class Watched:
    """The values of a watched variable in order of time; all arrays have the same length."""

    step: NDArray[np.int32]
    """As in ``Accesses``: the warp's instruction after which the variable had the value."""
    block: NDArray[np.int32]
    """Linear block number."""
    warp: NDArray[np.int32]
    """Warp within its block."""
    lane: NDArray[np.int32]
    """Lane within its warp."""
    line: NDArray[np.int32]
    """Line of the kernel's source with the comment."""
    value: NDArray[np.float64]
    """Its value at the end of that line."""
    interval: NDArray[np.int32]
    """Barriers that the block had passed."""


@dataclass(frozen=True)
class Accesses:
    """One row per access of a lane, in order of time; all arrays have the same length."""

    step: NDArray[np.int32]
    """The warp's instruction, counted from 0: warps that do the same are at the same step."""
    block: NDArray[np.int32]
    """Linear block number."""
    warp: NDArray[np.int32]
    """Warp within its block."""
    lane: NDArray[np.int32]
    """Lane within its warp."""
    line: NDArray[np.int32]
    """Line of the kernel's source, from 1; 0 if the compiler names none."""
    space: NDArray[np.int32]
    """0 global, 1 shared, 2 local."""
    kind: NDArray[np.int32]
    """0 load, 1 store, 2 atomic."""
    size: NDArray[np.int32]
    """Size in bytes."""
    buffer: NDArray[np.int32]
    """Index into ``Run.buffers``; -1 for local memory and for addresses outside every array."""
    interval: NDArray[np.int32]
    """Barriers that the block had passed."""
    address: NDArray[np.uint64]
    """Address in its space."""
    index: NDArray[np.int64]
    """Element of the buffer; for shared memory in units of the access."""
    value: NDArray[np.float64]
    """The value read or written; for an atomic its result in memory. Shared words are read as floats."""
    bits: NDArray[np.uint64]
    """The same value's bits in memory, from the lowest byte."""

    def __len__(self) -> int:
        """The number of accesses."""
        return len(self.step)

    def where(self, keep: NDArray[np.bool_]) -> Accesses:
        """The accesses for which ``keep`` is true."""
        return Accesses(*(getattr(self, field.name)[keep] for field in fields(self)))

    @staticmethod
    def decoded(bits: NDArray[np.uint64], dtype: np.dtype[Any]) -> NDArray[Any]:
        """The lowest bytes as an element type; the bits themselves if the type is not numeric."""
        if dtype.kind not in "fiub" or dtype.itemsize > bits.itemsize:
            return bits
        low = np.ascontiguousarray(bits).view(np.uint8).reshape(len(bits), bits.itemsize)[:, : dtype.itemsize]
        return np.ascontiguousarray(low).view(dtype).reshape(-1)
