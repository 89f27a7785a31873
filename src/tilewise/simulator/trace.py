"""Which accesses a run keeps, and the accesses it kept.

In: the machine's rows. Out: ``Accesses``, arrays of equal length from which figures draw. Untraced runs
keep counts only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np

from .shared import GLOBAL_BASE, GLOBAL_SHIFT, numbers

if TYPE_CHECKING:
    from numpy.typing import NDArray

GLOBAL, SHARED = numbers("SPACE")["GLOBAL"], numbers("SPACE")["SHARED"]
WATCH = numbers("KIND")["WATCH"]
SECTOR_BYTES, WORD_BYTES, BANKS = 32, 4, 32


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
class Requests:
    """One row for each warp instruction that went to memory, in order; all arrays have one length.

    An instruction that goes to two spaces, or loads and stores, has a row for each.
    """

    step: NDArray[np.int32]
    """As in ``Accesses``."""
    block: NDArray[np.int32]
    """Linear block number."""
    warp: NDArray[np.int32]
    """Warp within its block."""
    line: NDArray[np.int32]
    """Line of the kernel's source, from 1; 0 where the compiler names none."""
    space: NDArray[np.int32]
    """0 global, 1 shared, 2 local."""
    kind: NDArray[np.int32]
    """0 load, 1 store, 2 atomic."""
    interval: NDArray[np.int32]
    """Barriers that the block had passed."""
    mask: NDArray[np.uint32]
    """Active lanes: bit k is lane k."""
    sectors: NDArray[np.int32]
    """Different sectors that the lanes touch; 0 outside global memory."""
    banks: NDArray[np.uint32]
    """Banks that the lanes touch: bit k is bank k; 0 outside shared memory."""

    def __len__(self) -> int:
        """How many."""
        return len(self.step)


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

    def __len__(self) -> int:
        """How many."""
        return len(self.step)

    @property
    def sector(self) -> NDArray[np.int64]:
        """Which 32 bytes of its array each access lies in, from 0; -1 outside global memory and arrays.

        An access never lies in two: it is aligned, and at most 8 bytes of a wider one have a row.
        """
        within = self.address - np.uint64(GLOBAL_BASE) & np.uint64((1 << GLOBAL_SHIFT) - 1)
        there = (self.space == GLOBAL) & (self.buffer >= 0)
        return np.where(there, (within // SECTOR_BYTES).astype(np.int64), -1)

    @property
    def bank(self) -> NDArray[np.int32]:
        """The bank of shared memory that each access begins in, 0 to 31; -1 elsewhere."""
        bank = self.address // WORD_BYTES % BANKS
        return np.where(self.space == SHARED, bank.astype(np.int32), np.int32(-1))

    def requests(self) -> Requests:
        """The same accesses by warp instruction: active masks, sectors and banks."""
        keys = (self.block, self.warp, self.step, self.space, self.kind)
        order = np.lexsort(keys[::-1])
        new = np.ones(len(self), np.bool_)
        if len(self):
            new[1:] = np.any([np.diff(key[order]) != 0 for key in keys], axis=0)
        number = np.zeros(len(self), np.int64)
        number[order] = np.cumsum(new) - 1
        _, first = np.unique(number, return_index=True)
        rank = np.empty(len(first), np.int64)
        rank[np.argsort(first)] = np.arange(len(first))
        number, first = rank[number], np.sort(first)
        mask, banks = np.zeros((2, len(first)), np.uint32)
        np.bitwise_or.at(mask, number, np.uint32(1) << self.lane.astype(np.uint32))
        shared = self.space == SHARED
        for word in range(2):  # an access of 8 bytes lies in two banks
            into = shared & (self.size > WORD_BYTES * word)
            bank = (self.bank[into] + word) % BANKS
            np.bitwise_or.at(banks, number[into], np.uint32(1) << bank.astype(np.uint32))
        there = self.space == GLOBAL
        touched = np.stack([number[there].astype(np.uint64), self.address[there] // SECTOR_BYTES])
        owner = np.unique(touched, axis=1)[0].astype(np.int64)
        sectors = np.bincount(owner, minlength=len(first)).astype(np.int32)
        return Requests(
            **{one.name: getattr(self, one.name)[first] for one in fields(Requests)[:7]},
            mask=mask,
            sectors=sectors,
            banks=banks,
        )

    def where(self, keep: NDArray[np.bool_]) -> Accesses:
        """The accesses for which ``keep`` is true."""
        return Accesses(*(getattr(self, field.name)[keep] for field in fields(self)))
