"""What cells print, up to a limit, in order with what they show.

In: writes to standard output. Out: ``Text`` among the other outputs of a sink.
"""

from __future__ import annotations

import io

from tilewise.outputs import CollectingSink, Output, Text

LIMIT = 1_000_000
"""How many characters of printed text are kept, all cells of a lesson together."""


class Printed(io.TextIOBase):
    """Takes what cells print, up to ``LIMIT``."""

    def __init__(self) -> None:
        self._left = LIMIT
        self._parts: list[str] = []
        self._cut = 0

    def writable(self) -> bool:
        """Always."""
        return True

    def write(self, text: str) -> int:
        """Keep the text, or as much as the limit allows."""
        kept = text[: self._left]
        self._left -= len(kept)
        self._cut += len(text) - len(kept)
        if kept:
            self._parts.append(kept)
        return len(text)

    def take(self) -> str:
        """What was printed since the last call, and, where text was lost, that it was."""
        text = "".join(self._parts).rstrip("\n")
        self._parts.clear()
        if self._cut:
            note = f"[cut here: {self._cut:,} characters more than the {LIMIT:,} that a page keeps]"
            text = f"{text}\n{note}" if text else note
            self._cut = 0
        return text


class PrintedSink(CollectingSink):
    """Keeps the order between what is printed and what is shown."""

    def __init__(self, printed: Printed) -> None:
        super().__init__()
        self._printed = printed

    def add(self, output: Output) -> None:
        """Take an output, after what was printed before it."""
        self.flush()
        super().add(output)

    def flush(self) -> None:
        """Turn what was printed into an output."""
        if text := self._printed.take():
            self.outputs.append(Text(text))
