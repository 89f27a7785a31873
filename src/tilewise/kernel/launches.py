"""A log of a lesson's kernels and, for each, a few launches without hazards.

In: what `Kernel` and `Launch` report while a `LaunchLog` is open. Out: a `LoggedKernel` for each, which
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
"""Preferred limit for all arrays of a logged launch; a larger launch is logged only without smaller ones."""
LARGEST_THREADS = 4096
"""The same for threads."""
AT_MOST = 3
"""Launches per kernel, with different blocks if possible."""

Rank = tuple[bool, bool, bool, int, int]


@dataclass(frozen=True, eq=False)
class LoggedKernel:
    """A lesson's kernel, and its launches unless one had a hazard."""

    kernel: Kernel
    """The kernel."""
    launches: tuple[Launch, ...]
    """Best for a comparison first: inputs from recipes, sizes that do not divide, not too large."""


@dataclass
class _Entry:
    kernel: Kernel
    launches: list[tuple[Rank, Launch]] = field(default_factory=list)
    faulty: bool = False


class LaunchLog:
    """The kernels created and launched while it is open."""

    def __init__(self) -> None:
        self._entries: dict[str, _Entry] = {}

    def add(self, kernel: Kernel) -> None:
        """Log a kernel that was created, or selected from a source with several."""
        self._entries.setdefault(kernel.fingerprint(), _Entry(kernel))

    def wants(self, kernel: Kernel, values: Sequence[Any]) -> bool:
        """Whether to copy arguments that come from no case: only if no better launch is logged."""
        self.add(kernel)
        arrays = [value.source if isinstance(value, TensorMap) else value for value in values]
        small = sum(array.nbytes for array in arrays if isinstance(array, np.ndarray)) <= LARGEST_BYTES
        known = self._entries[kernel.fingerprint()].launches
        return small and sum(rank[0] for rank, _ in known) < AT_MOST and all(rank[0] for rank, _ in known)

    def launched(self, launch: Launch, from_case: bool) -> None:
        """Log a launch that ended without a hazard."""
        self.add(launch.kernel)
        threads = int(np.prod(launch.threads))
        values = launch.case.values.values()
        size = sum(value.nbytes for value in values if isinstance(value, Recipe | np.ndarray))
        large = threads > LARGEST_THREADS or size > LARGEST_BYTES
        sign = 1 if large else -1
        rank = (not from_case, large, not does_not_divide(launch), sign * threads, sign * size)
        self._entries[launch.kernel.fingerprint()].launches.append((rank, launch))

    def faulted(self, kernel: Kernel) -> None:
        """Log a hazard: the kernel is wrong on purpose, so its other launches are dropped."""
        self.add(kernel)
        self._entries[kernel.fingerprint()].faulty = True

    def kernels(self) -> tuple[LoggedKernel, ...]:
        """Return every kernel in order of creation, with its best launches."""
        return tuple(
            LoggedKernel(entry.kernel, () if entry.faulty else _best(entry.launches))
            for entry in self._entries.values()
        )


def _best(ranked: list[tuple[Rank, Launch]]) -> tuple[Launch, ...]:
    ordered = [launch for _, launch in sorted(ranked, key=lambda pair: pair[0])]
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
    """Whether some size of a launch is not a multiple of the block, so that its edge is ragged.

    An axis with more than one thread per block covers the array extents, array sizes and integers that need
    exactly its number of blocks; the launch is ragged if one of these is not a multiple of the block. If an
    axis covers none (one block per row, a grid-stride loop), any array extent above 1 counts. With one thread
    per block, array extents above 1 that are not multiples of 4 count.
    """
    arrays: set[int] = set()
    numbers: set[int] = set()
    for value in launch.taken.values():
        if isinstance(value, Recipe | np.ndarray):
            arrays |= {*value.shape, int(value.size)}
        elif isinstance(value, int | np.integer) and not isinstance(value, bool):
            numbers.add(int(value))
    extents = {extent for extent in arrays if extent > 1}
    axes = [(blocks, size) for blocks, size in zip(launch.grid, launch.block, strict=True) if size > 1]
    if not axes:
        return any(extent % 4 for extent in extents)
    for blocks, size in axes:
        covered = {extent for extent in extents | numbers if extent > 0 and ceil_div(extent, size) == blocks}
        if any(extent % size for extent in covered or extents):
            return True
    return False


_open: contextvars.ContextVar[LaunchLog | None] = contextvars.ContextVar("launch log", default=None)


def launch_log() -> LaunchLog | None:
    """Return the open log; None outside a build."""
    return _open.get()


@contextmanager
def logging_launches() -> Iterator[LaunchLog]:
    """Log kernels and launches in a ``with`` block."""
    log = LaunchLog()
    token = _open.set(log)
    try:
        yield log
    finally:
        _open.reset(token)


@contextmanager
def without_logging() -> Iterator[None]:
    """Log nothing in a ``with`` block, because a `Launch` logs itself."""
    token = _open.set(None)
    try:
        yield
    finally:
        _open.reset(token)


def copied(kernel: Kernel, values: Sequence[Any], grid: Dim3, block: Dim3, shared_bytes: int) -> Launch:
    """Return a launch with copies of the arguments before they are written."""
    named = dict(zip((parameter.name for parameter in kernel.parameters), values, strict=True))
    for name, value in list(named.items()):
        if isinstance(value, TensorMap):
            named[f"array of {name}"] = value.source
            named[name] = value.named(f"array of {name}")
    return kernel.on(a_case(grid, block, shared_bytes, **named))
