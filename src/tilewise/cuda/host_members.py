"""Host code inside types for the GPU: its bodies, blank.

In: a text and a line that clang refuses. Out: the text without the body of the member function there, where
nothing says that a GPU runs it: a constructor that allocates, a method that prints. One whose body is blank
already goes as a whole, since its head is refused. Lines keep their numbers.
"""

from __future__ import annotations

import re

from tilewise.cuda.kernel_source import without_comments
from tilewise.cuda.top_level import FOR_DEVICES

_STRING = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'')
_HOLDER = re.compile(r"\b(?:struct|class|union|namespace|extern)\b")


def without_host_body(text: str, line: int, device: re.Pattern[str] = FOR_DEVICES) -> str | None:
    """The text without the body of the host's member function around a line.

    Args:
        text: CUDA C.
        line: the line, counted from 1.
        device: what a function for the GPU has in its head.

    Returns:
        The text, as many lines; None where the line is in no such body.
    """
    plain = without_comments(
        _STRING.sub(lambda one: '"' + " " * (len(one[0]) - 2) + '"', text), in_columns=True
    )
    if len(plain) != len(text):
        return None
    starts = [0, *(one.end() for one in re.finditer("\n", text))]
    if not 0 < line <= len(starts):
        return None
    low = starts[line - 1]
    high = starts[line] if line < len(starts) else len(text)
    opened: list[tuple[int, int]] = []  # where each brace is, and where its head begins
    since = 0
    for found in re.finditer(r"[{};]", plain):
        at = found.start()
        if found[0] == "{":
            opened.append((at, since))
        elif found[0] == "}" and opened:
            begin, head = opened.pop()
            around = [plain[first:brace] for brace, first in opened]
            inside = head < high and at >= low and opened
            if inside and _is_host_function(plain[head:begin], device) and all(map(_holds, around)):
                first = begin + 1 if plain[begin + 1 : at].strip() else head
                end = at if first > head else at + 1
                return text[:first] + re.sub(r"[^\n]", " ", text[first:end]) + text[end:]
        since = at + 1
    return None


def _is_host_function(head: str, device: re.Pattern[str]) -> bool:
    """Whether a body with this head is a function's that no GPU runs."""
    before, opened, _ = head.partition("(")
    return bool(opened) and "=" not in before and "constexpr" not in head and not device.search(head)


def _holds(head: str) -> bool:
    """Whether a brace with this head is a type's or a namespace's."""
    return bool(_HOLDER.search(head)) and "(" not in head
