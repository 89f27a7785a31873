"""Edits: a kernel or a launch with parts of its text replaced, to show the purpose of a line.

In: a kernel and pairs of a text and its replacement. Out: a new kernel.
"""

from __future__ import annotations

from typing import TypeVar

from tilewise.errors import LessonError
from tilewise.kernel.kernel import Kernel
from tilewise.kernel.launch import Launch

Edited = TypeVar("Edited", Kernel, Launch)


def edited(of: Edited, *edits: tuple[str, str]) -> Edited:
    """Return a kernel, or a launch of it, with parts of its text replaced.

    Args:
        of: the kernel or launch, which is not changed.
        *edits: pairs of a text that occurs once in the source and its replacement.

    Raises:
        LessonError: a text does not occur in the source, or occurs several times.
    """
    if isinstance(of, Launch):
        kernel = edited(of.kernel, *edits)
        return kernel.on(of.case, grid=of.grid, block=of.block, shared_bytes=of.shared_bytes)
    source = of.source
    for old, new in edits:
        if (count := source.count(old)) != 1:
            raise LessonError(
                *of.origin, f"the kernel has this text {count} times: {old!r}.", "Give one that it has once."
            )
        source = source.replace(old, new)
    return Kernel(source, of.name, defines=of.defines, options=of.options)
