"""Progress: lines of what is going on, each thing with its number and the time that is left.

In: a stream, the number of things to do, and how long each should take where that is known. Out: lines.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TextIO


class Display:
    """A log that counts.

    Args:
        stream: where to write.
        total: how many things there are to do.
        clock: seconds; for tests.
        expected_s: how many seconds each of them should take, by what ``begin`` is told; empty where nobody
            knows.
    """

    def __init__(
        self,
        stream: TextIO,
        total: int,
        clock: Callable[[], float] = time.monotonic,
        expected_s: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        self._stream, self._total, self._clock = stream, total, clock
        self._expected_s = dict(expected_s)
        self._expected_so_far_s = 0.0
        self._began = clock()
        self._done = 0

    def __call__(self, line: str) -> None:
        """Write a line with the time of day."""
        print(f"{time.strftime('%H:%M:%S')} {line}", file=self._stream, flush=True)

    def begin(self, what: str) -> None:
        """Say which thing is at hand."""
        self(f"({min(self._done + 1, self._total)} of {self._total}) {what}{self._left()}")
        self._expected_so_far_s += self._expected_s.get(what, 0.0)

    def end(self, done: int = 1) -> None:
        """Count it, or so many, as done with, well or badly."""
        self._done = min(self._done + done, self._total)

    def _left(self) -> str:
        """How much time is left, in words: what should be left, corrected by how long all before took."""
        left_s = sum(self._expected_s.values()) - self._expected_so_far_s
        if left_s <= 0:
            return ""
        spent_s = self._clock() - self._began
        if self._expected_so_far_s > 0 and spent_s > 1:
            left_s *= spent_s / self._expected_so_far_s
        whole = round(left_s)
        return f", about {f'{whole} s' if whole < 60 else f'{whole // 60} min {whole % 60:02d} s'} left"
