"""Progress on the terminal: a line at least every two seconds while an activity runs.

In: activities, each with a text that may change over time. Out: lines of a log. Short activities are not
logged; long ones are logged repeatedly, with their elapsed time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

OFTEN_S = 1.5
"""Seconds between two lines."""


class Progress:
    """Logs long activities."""

    def __init__(self, say: Callable[[str], None], often_s: float = OFTEN_S) -> None:
        self._say = say
        self._often_s = often_s
        self._activities: dict[int, tuple[Callable[[], str], float]] = {}
        self._number = 0
        self._news = threading.Condition()
        self._thread: threading.Thread | None = None

    def add(self, describe: Callable[[], str]) -> int:
        """Start logging an activity whenever its text is not empty; returns its number."""
        with self._news:
            self._number += 1
            self._activities[self._number] = (describe, time.monotonic())
            if self._thread is None:
                self._thread = threading.Thread(target=self._mention, name="progress", daemon=True)
                self._thread.start()
            self._news.notify_all()
            return self._number

    @contextmanager
    def during(self, text: str | Callable[[], str]) -> Iterator[None]:
        """Log an activity during the ``with`` block."""
        number = self.add(text if callable(text) else lambda: text)
        try:
            yield
        finally:
            with self._news:
                del self._activities[number]

    def _mention(self) -> None:
        while True:
            with self._news:
                while not self._activities:
                    self._news.wait()
            time.sleep(self._often_s)
            now = time.monotonic()
            parts = []
            with self._news:
                for number, (describe, began) in list(self._activities.items()):
                    if text := describe():
                        parts.append(f"{text} ({now - began:.0f} s)")
                    else:  # idle: restart its clock
                        self._activities[number] = (describe, now)
            if parts:
                self._say("; ".join(parts))


def lessons_text(ended: int, total: int, running: tuple[str, ...]) -> str:
    """``Running lessons: 12 of 40 done, now memory/banks``; empty if all have ended."""
    if ended >= total:
        return ""
    now = f", now {', '.join(running)}" if running else ""
    return f"Running lessons: {ended} of {total} done{now}"
