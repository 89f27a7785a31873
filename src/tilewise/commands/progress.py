"""Progress: lines of what is going on, and on a terminal a bar below them that says how much is left.

In: a stream, the number of things to do, lines and shares, and how long each thing should take where that is
known. Out: text on that stream. Where it is no terminal there is no bar and no control character: each line
says by itself how far the work is.

The time left is the time spent, times what is left over what is done. Each thing counts as much as it should
take, or as much as the others where nobody knows. As long as next to nothing is done, the expected times
themselves are the estimate.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import TextIO

BAR = 24
"""Characters of the bar."""
OFTEN_S = 0.1
"""Seconds between two drawings of it."""


class Display:
    """A log with a bar below it.

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
        self._expected_s, self._at_hand, self._done_s = expected_s, 1.0, 0.0
        self._total_s = sum(expected_s.values()) or float(total)
        self._tty = stream.isatty()
        self._began = clock()
        self._drawn = float("-inf")
        self._done, self._share, self._what, self._shown = 0, 0.0, "", False

    def __call__(self, line: str) -> None:
        """Write a line with the time of day."""
        self._clear()
        print(f"{time.strftime('%H:%M:%S')} {line}", file=self._stream, flush=True)
        self._draw()

    def begin(self, what: str) -> None:
        """Say which thing is at hand."""
        self._what, self._share = what, 0.0
        self._at_hand = self._expected_s.get(what, self._each)
        left = self._left() if self._expected_s else ""
        self(f"({min(self._done + 1, self._total)} of {self._total}) {what}{left}")

    @property
    def _each(self) -> float:
        """What one thing counts where nobody knows."""
        return self._total_s / self._total if self._total else 1.0

    def tick(self, share: float) -> None:
        """Say how much of it is done, from 0 to 1."""
        self._share = min(max(share, 0.0), 1.0)
        if self._clock() - self._drawn >= OFTEN_S:
            self._draw()

    def end(self, done: int = 1) -> None:
        """Say that it, or so many, are done with, well or badly."""
        first = self._at_hand if self._what else self._each
        self._done_s = min(self._done_s + (first + (done - 1) * self._each) * bool(done), self._total_s)
        self._done, self._share, self._what = min(self._done + done, self._total), 0.0, ""
        self._draw()

    def close(self) -> None:
        """Take the bar away."""
        self._clear()

    def bar(self) -> str:
        """The bar as it stands now, in characters."""
        filled = int(BAR * self._progress())
        what = f" {self._what}" if self._what else ""
        return f"[{'#' * filled}{'.' * (BAR - filled)}] {self._done} of {self._total}{self._left()}{what}"

    def _progress(self) -> float:
        """How much of all is done, from 0 to 1."""
        return (self._done_s + self._share * self._at_hand) / self._total_s if self._total else 1.0

    def _left(self) -> str:
        """How much time is left, in words; empty where that is not known."""
        share, spent_s = self._progress(), self._clock() - self._began
        if 0.02 < share < 1 and spent_s > 1:
            return f", about {_length(spent_s / share - spent_s)} left"
        return f", about {_length(self._total_s)} left" if self._expected_s and share < 1 else ""

    def _draw(self) -> None:
        if not self._tty:
            return
        self._drawn = self._clock()
        width = max(shutil.get_terminal_size().columns - 1, 20)
        self._stream.write(f"\r\x1b[2K{self.bar()[:width]}")
        self._stream.flush()
        self._shown = True

    def _clear(self) -> None:
        if self._shown:
            self._stream.write("\r\x1b[2K")
            self._stream.flush()
            self._shown = False


def _length(seconds: float) -> str:
    whole = round(seconds)
    return f"{whole} s" if whole < 60 else f"{whole // 60} min {whole % 60:02d} s"
