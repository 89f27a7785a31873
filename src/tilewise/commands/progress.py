"""Progress: lines of what is going on, and on a terminal a bar below them that says how much is left.

In: a stream, the number of things to do, lines and shares. Out: text on that stream. Where it is no terminal
there is no bar and no control character: each line says by itself how far the work is.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
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
    """

    def __init__(self, stream: TextIO, total: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._stream, self._total, self._clock = stream, total, clock
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
        self(f"({min(self._done + 1, self._total)} of {self._total}) {what}")

    def tick(self, share: float) -> None:
        """Say how much of it is done, from 0 to 1."""
        self._share = min(max(share, 0.0), 1.0)
        if self._clock() - self._drawn >= OFTEN_S:
            self._draw()

    def end(self, done: int = 1) -> None:
        """Say that it, or so many, are done with, well or badly."""
        self._done, self._share, self._what = min(self._done + done, self._total), 0.0, ""
        self._draw()

    def close(self) -> None:
        """Take the bar away."""
        self._clear()

    def bar(self) -> str:
        """The bar as it stands now, in characters."""
        share = (self._done + self._share) / self._total if self._total else 1.0
        filled = int(BAR * share)
        left = ""
        spent_s = self._clock() - self._began
        if 0.02 < share < 1 and spent_s > 1:
            left = f", about {_length(spent_s / share - spent_s)} left"
        what = f" {self._what}" if self._what else ""
        return f"[{'#' * filled}{'.' * (BAR - filled)}] {self._done} of {self._total}{left}{what}"

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
