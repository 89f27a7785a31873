"""Waves: how many waves of blocks a grid takes, and how full the last one is.

In: blocks of a launch, SMs of a device, blocks that fit on one SM at a time. Out: a ``Waves``. All blocks
are assumed to take equally long.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Waves:
    """How a grid fills a device."""

    blocks: int
    """Blocks in the grid."""
    slots: int
    """Blocks that run at the same time."""
    full: int
    """Waves in which every slot has a block."""
    last: int
    """Blocks in the last, partial wave; 0 if there is none."""

    @property
    def waves(self) -> int:
        """Total number of waves."""
        return self.full + (1 if self.last else 0)

    @property
    def busy_share(self) -> float:
        """The fraction of slot time that is used by blocks."""
        return self.blocks / (self.waves * self.slots)


def waves(blocks: int, sms: int, blocks_per_sm: int = 1) -> Waves:
    """Return the waves of a grid.

    Raises:
        ValueError: a count below one.
    """
    if min(blocks, sms, blocks_per_sm) < 1:
        raise ValueError(f"blocks ({blocks}), SMs ({sms}) and blocks per SM ({blocks_per_sm}) start at 1")
    slots = sms * blocks_per_sm
    return Waves(blocks, slots, blocks // slots, blocks % slots)
