"""The location of a kernel's source in the lesson that calls `Kernel`.

In: the call stack. Out: the file as its code object names it, and the line of the source's first line, so
that compilers and hazards can name the lesson's line. Nothing is parsed or executed.
"""

from __future__ import annotations

import linecache
import sys
from pathlib import Path
from types import FrameType

_OWN = str(Path(__file__).resolve().parents[1])


def origin_of(source: str) -> tuple[str, int]:
    """Find a source text in the file of the first caller outside tilewise.

    Args:
        source: the text, without leading blank lines.

    Returns:
        The file's name and the line where the text begins, counted from 1; the line of the call if the file
        does not contain the text literally (it was read from elsewhere).
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _is_own(frame):
        frame = frame.f_back
    if frame is None:
        return ("<unknown>", 1)
    name, call_line = frame.f_code.co_filename, frame.f_lineno
    linecache.checkcache(name)
    text = "".join(linecache.getlines(name, frame.f_globals))
    return (name, _nearest(text, source.rstrip(), call_line))


def _is_own(frame: FrameType) -> bool:
    name = frame.f_globals.get("__name__", "")
    own_name = name == "tilewise" or str(name).startswith("tilewise.")
    return own_name and str(Path(frame.f_code.co_filename).resolve()).startswith(_OWN)


def _nearest(text: str, source: str, call_line: int) -> int:
    lines: list[int] = []
    at = text.find(source) if source else -1
    while at >= 0:
        lines.append(text.count("\n", 0, at) + 1)
        at = text.find(source, at + 1)
    return min(lines, key=lambda line: abs(line - call_line), default=call_line)
