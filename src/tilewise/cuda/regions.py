"""Named parts of a kernel, between `// [name` and `// name]`.

In: CUDA C. Out: each part with its true line numbers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tilewise.cuda.kernel_source import KernelError


@dataclass(frozen=True)
class Region:
    """A named part of a source, between `// [name` and `// name]`."""

    name: str
    """The name in the markers."""
    first_line: int
    """Line of the first line inside, counted from 1 in the whole source."""
    last_line: int
    """Line of the last line inside."""
    source: str
    """The lines inside, including markers of nested regions."""


_MARKER = re.compile(r"^\s*//\s*(?:\[(?P<opens>[\w-]+)|(?P<closes>[\w-]+)\])\s*$")


def regions(source: str) -> dict[str, Region]:
    """Return every region of the source by name.

    Raises:
        KernelError: a region is opened twice, closed without being open, never closed, or empty.
    """
    lines = source.split("\n")
    opened: dict[str, int] = {}
    result: dict[str, Region] = {}
    for number, line in enumerate(lines, start=1):
        marker = _MARKER.match(line)
        if marker is None:
            continue
        if name := marker["opens"]:
            if name in opened or name in result:
                raise KernelError(
                    f'line {number}: region "{name}" is opened twice. Give each region its own name.'
                )
            opened[name] = number
            continue
        name = marker["closes"]
        if name not in opened:
            raise KernelError(
                f'line {number}: region "{name}" is closed but not open. Put "// [{name}" before it.'
            )
        first, last = opened.pop(name) + 1, number - 1
        inside = lines[first - 1 : last]
        if all(is_marker(text) or not text.strip() for text in inside):
            raise KernelError(f'line {number}: region "{name}" is empty. Put its lines between the markers.')
        result[name] = Region(name, first, last, "\n".join(inside) + "\n")
    if opened:
        name, number = next(iter(opened.items()))
        raise KernelError(
            f'line {number}: region "{name}" is never closed. Put "// {name}]" after its last line.'
        )
    return result


def region_of(source: str, name: str, owner: str) -> Region:
    """Return one region of a source.

    Args:
        source: the source.
        name: the region's name.
        owner: a description of the source, for messages.

    Raises:
        KernelError: the source has no such region.
    """
    every = regions(source)
    if name not in every:
        have = ", ".join(every) or "none"
        raise KernelError(f'{owner} has no region "{name}"; it has {have}. Correct the name.')
    return every[name]


def is_marker(line: str) -> bool:
    """Whether a line only opens or closes a region; such lines are hidden from readers."""
    return _MARKER.match(line) is not None
