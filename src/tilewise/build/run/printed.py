"""What cells print, as a terminal would show it and up to a limit, in order with their other outputs.

In: writes to standard output. Out: ``Text`` among the other outputs of a sink.
"""

from __future__ import annotations

import io
import re

from tilewise.outputs import CollectingSink, Output, Text

_ESCAPE_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


class Printed(io.TextIOBase):
    """Collects what cells print, up to a limit."""

    def __init__(self, limit: int) -> None:
        self._left = limit
        self._limit = limit
        self._parts: list[str] = []
        self._cut = 0

    def writable(self) -> bool:
        """Always."""
        return True

    def write(self, text: str) -> int:
        """Store the text, or as much as the limit allows."""
        accepted = text[: self._left]
        self._left -= len(accepted)
        self._cut += len(text) - len(accepted)
        if accepted:
            self._parts.append(accepted)
        return len(text)

    def take(self) -> str:
        """The text printed since the last call, with a note if some was cut."""
        text = _shown("".join(self._parts)).rstrip("\n")
        self._parts.clear()
        if self._cut:
            note = f"[cut here: {self._cut:,} characters more than the {self._limit:,} that a page keeps]"
            text = f"{text}\n{note}" if text else note
            self._cut = 0
        return text


def _shown(text: str) -> str:
    """Printed text as a terminal shows it: no escape sequences, overwritten lines or control characters."""
    if text.isprintable():
        return text
    lines = _ESCAPE_SEQUENCE.sub("", text).replace("\r\n", "\n").split("\n")
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", "\n".join(line.rpartition("\r")[2] for line in lines))


class PrintedSink(CollectingSink):
    """Keeps printed text and other outputs in order."""

    def __init__(self, printed: Printed) -> None:
        super().__init__()
        self._printed = printed

    def add(self, output: Output) -> None:
        """Add an output after the text printed before it."""
        self.flush()
        super().add(output)

    def flush(self) -> None:
        """Turn the printed text into an output."""
        if text := self._printed.take():
            self.outputs.append(Text(text))
