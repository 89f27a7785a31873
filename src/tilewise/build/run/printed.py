"""What cells print, as a terminal would leave it and up to a limit, in order with what they show.

In: writes to standard output. Out: ``Text`` among the other outputs of a sink.
"""

from __future__ import annotations

import io
import re

from tilewise.outputs import CollectingSink, Output, Text

_ESCAPE_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


class Printed(io.TextIOBase):
    """Takes what cells print, up to a limit."""

    def __init__(self, limit: int) -> None:
        self._left = limit
        self._limit = limit
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
        text = _shown("".join(self._parts)).rstrip("\n")
        self._parts.clear()
        if self._cut:
            said = f"[cut here: {self._cut:,} characters more than the {self._limit:,} that a page keeps]"
            text = f"{text}\n{said}" if text else said
            self._cut = 0
        return text


def _shown(text: str) -> str:
    """Printed text as a terminal leaves it: no escape sequences, no lines written over, no control signs."""
    if text.isprintable():
        return text
    lines = _ESCAPE_SEQUENCE.sub("", text).replace("\r\n", "\n").split("\n")
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", "\n".join(line.rpartition("\r")[2] for line in lines))


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
