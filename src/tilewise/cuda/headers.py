"""The course's own CUDA headers: helper code that kernels of several lessons share, one file per family.

In: a source with ``#include "hopper.cuh"``. Out: the source with that text inserted, so that both backends
compile the same, and back again. A header's lines keep their own file name and numbers.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from tilewise.cuda.kernel_source import KernelError, without_comments

FOLDER = Path(__file__).with_name("include")
"""The folder of the headers."""
OWN_FILE = "kernel.cu"
"""The source's own file name for clang."""

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+"(?P<name>[^"\n]*)"[^\n]*$', re.M)
_IN_PLACE = re.compile(r'^#line 1 "(?P<name>[\w.]+\.cuh)"\n.*?^#line \d+ "(?P<file>[^"\n]*)"$', re.M | re.S)


def names() -> tuple[str, ...]:
    """Return the headers that a kernel may include."""
    return tuple(sorted(path.name for path in FOLDER.glob("*.cuh")))


@cache
def header(name: str) -> str:
    """Return the text of a header.

    Raises:
        KernelError: there is no such header.
    """
    if name not in names():
        have = ", ".join(names())
        raise KernelError(f'there is no header "{name}" to include; there is {have}. Correct the name.')
    return (FOLDER / name).read_text(encoding="utf-8")


def with_headers(source: str, file: str = OWN_FILE) -> str:
    """Return the source with its includes of the course's headers replaced by their text.

    Args:
        source: CUDA C, perhaps with ``#define`` lines and ``#line 1`` in front.
        file: the compiler's file name for its own lines.
    """
    plain = without_comments(source) if '"' in source else ""

    def inserted(match: re.Match[str]) -> str:
        before = source[: match.start()]
        if match["name"] not in names() or not _INCLUDE.match(plain.split("\n")[before.count("\n")]):
            return match[0]
        line = before.rpartition("#line 1\n")[2].count("\n") + 1
        return f'#line 1 "{match["name"]}"\n{header(match["name"]).rstrip()}\n#line {line + 1} "{file}"'

    return _INCLUDE.sub(inserted, source)


def whole_text(source: str) -> str:
    """Return the source with its headers inserted, without ``#line``, as a file of its own."""
    return re.sub(r"^#line [^\n]*\n", "", with_headers(source), flags=re.M)


def as_written(compiled: str) -> str:
    """Return the original source of a compiler's input: without the lines before it, with its includes.

    Args:
        compiled: ``#define`` lines and ``#line 1``, if any, and a source ``with_headers``.
    """
    own = compiled.partition("#line 1\n")[2] or compiled
    return _IN_PLACE.sub(r'#include "\g<name>"', own)
