"""What a lesson made and launched: its kernels and, of each, a few launches that went well.

In: what `Kernel` and `Launch` report while a `LaunchLog` is open. Out: a `LoggedKernel` each, which
`saved_launches` writes and reads.
"""

from __future__ import annotations

import contextvars
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewise.cuda.cases import Dim3, Recipe, ceil_div
from tilewise.cuda.cases import case as a_case
from tilewise.cuda.tensor_map import TensorMap

if TYPE_CHECKING:
    from tilewise.kernel.kernel import Kernel
    from tilewise.kernel.launch import Launch

LARGEST_BYTES = 1 << 18
"""Of all arrays of a launch that is kept; one with larger arrays is kept where there is no smaller."""
LARGEST_THREADS = 4096
"""Likewise, threads."""
AT_MOST = 3
"""Launches kept of a kernel: with different blocks where there are such."""

Rank = tuple[bool, bool, bool, int, int]


@dataclass(frozen=True, eq=False)
class LoggedKernel:
    """A kernel of a lesson, and launches of it if none had a hazard."""

    kernel: Kernel
    """The kernel."""
    launches: tuple[Launch, ...]
    """Those best for a comparison first: inputs from recipes, sizes that do not divide, not too large."""


@dataclass
class _Entry:
    kernel: Kernel
    launches: list[tuple[Rank, Launch]] = field(default_factory=list)
    faulty: bool = False


class LaunchLog:
    """The kernels that are made and launched while it is open."""

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}

    def add(self, kernel: Kernel) -> None:
        """A kernel was made, or chosen from a source that has several."""
        self._entries.setdefault(kernel.fingerprint(), _Entry(kernel))

    def wants(self, kernel: Kernel, values: Sequence[Any]) -> bool:
        """Whether arguments that no case made should be copied: only where no better launch is logged."""
        self.add(kernel)
        arrays = [one.source if isinstance(one, TensorMap) else one for one in values]
        small = sum(one.nbytes for one in arrays if isinstance(one, np.ndarray)) <= LARGEST_BYTES
        known = self._entries[kernel.fingerprint()].launches
        return small and sum(rank[0] for rank, _ in known) < AT_MOST and all(rank[0] for rank, _ in known)

    def launched(self, launch: Launch, from_case: bool) -> None:
        """A launch ended without a hazard."""
        self.add(launch.kernel)
        threads = int(np.prod(launch.threads))
        size = sum(one.nbytes for one in launch.case.values.values() if isinstance(one, Recipe | np.ndarray))
        large = threads > LARGEST_THREADS or size > LARGEST_BYTES
        sign = 1 if large else -1
        rank = (not from_case, large, not does_not_divide(launch), sign * threads, sign * size)
        self._entries[launch.kernel.fingerprint()].launches.append((rank, launch))

    def faulted(self, kernel: Kernel) -> None:
        """A launch had a hazard, so the kernel is wrong, and on purpose: its other launches do not count."""
        self.add(kernel)
        self._entries[kernel.fingerprint()].faulty = True

    def kernels(self) -> tuple[LoggedKernel, ...]:
        """Every kernel in the order in which they were made, each with its best launches."""
        return tuple(
            LoggedKernel(entry.kernel, () if entry.faulty else _best(entry.launches))
            for entry in self._entries.values()
        )


def _best(found: list[tuple[Rank, Launch]]) -> tuple[Launch, ...]:
    ordered = [launch for _, launch in sorted(found, key=lambda pair: pair[0])]
    seen: set[str] = set()
    blocks: set[Dim3] = set()
    first: list[Launch] = []
    others: list[Launch] = []
    for launch in ordered:
        if launch.fingerprint() in seen:
            continue
        (others if launch.block in blocks else first).append(launch)
        seen.add(launch.fingerprint())
        blocks.add(launch.block)
    return tuple([*first, *others][:AT_MOST])


def does_not_divide(launch: Launch) -> bool:
    """Whether some size of a launch is no multiple of the block, so that its edge is ragged.

    An axis with more than one thread a block covers the array extents, array sizes and whole numbers that
    need just its number of blocks; the launch is ragged where one of those is not a multiple of the block.
    Where an axis covers none (a block a row, a grid-stride loop), any array extent above 1 counts. With one
    thread a block, an array extent counts that is above 1 and no multiple of 4.
    """
    arrays: set[int] = set()
    numbers: set[int] = set()
    for value in launch.taken.values():
        if isinstance(value, Recipe | np.ndarray):
            arrays |= {*value.shape, int(value.size)}
        elif isinstance(value, int | np.integer) and not isinstance(value, bool):
            numbers.add(int(value))
    extents = {extent for extent in arrays if extent > 1}
    axes = [(many, size) for many, size in zip(launch.grid, launch.block, strict=True) if size > 1]
    if not axes:
        return any(extent % 4 for extent in extents)
    for many, size in axes:
        covered = {one for one in extents | numbers if one > 0 and ceil_div(one, size) == many}
        if any(extent % size for extent in covered or extents):
            return True
    return False


_open: contextvars.ContextVar[LaunchLog | None] = contextvars.ContextVar("launch log", default=None)


def launch_log() -> LaunchLog | None:
    """The open log; None outside a build."""
    return _open.get()


@contextmanager
def logging_launches() -> Iterator[LaunchLog]:
    """Log kernels and launches within a ``with`` block."""
    made = LaunchLog()
    token = _open.set(made)
    try:
        yield made
    finally:
        _open.reset(token)


@contextmanager
def without_logging() -> Iterator[None]:
    """Log nothing within a ``with`` block: a `Launch` logs itself."""
    token = _open.set(None)
    try:
        yield
    finally:
        _open.reset(token)


def copied(kernel: Kernel, values: Sequence[Any], grid: Dim3, block: Dim3, shared_bytes: int) -> Launch:
    """A launch of what arguments hold now, before it writes to them."""
    named = dict(zip((one.name for one in kernel.parameters), values, strict=True))
    for name, value in list(named.items()):
        if isinstance(value, TensorMap):
            named[f"array of {name}"] = value.source
            named[name] = value.named(f"array of {name}")
    return kernel.on(a_case(grid, block, shared_bytes, **named))
