"""The course's own CUDA headers: helper code that several lessons' kernels share, one text a family.

In: a source with ``#include "hopper.cuh"``. Out: the source with that text in place, so that both backends
compile the same, and back again. A header's lines keep their own numbers, under their own file name.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from tilewise.cuda.kernel_source import KernelError, without_comments

FOLDER = Path(__file__).with_name("include")
"""Where the headers are."""
OWN_FILE = "kernel.cu"
"""The name that a source itself has for clang."""

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+"(?P<name>[^"\n]*)"[^\n]*$', re.M)
_IN_PLACE = re.compile(r'^#line 1 "(?P<name>[\w.]+\.cuh)"\n.*?^#line \d+ "(?P<file>[^"\n]*)"$', re.M | re.S)


def names() -> tuple[str, ...]:
    """The headers that a kernel may include."""
    return tuple(sorted(path.name for path in FOLDER.glob("*.cuh")))


@cache
def header(name: str) -> str:
    """The text of a header.

    Raises:
        KernelError: there is no such header.
    """
    if name not in names():
        have = ", ".join(names())
        raise KernelError(f'there is no header "{name}" to include; there is {have}. Correct the name.')
    return (FOLDER / name).read_text(encoding="utf-8")


def with_headers(source: str, file: str = OWN_FILE) -> str:
    """The source with the text of each of our headers that it includes in place of the directive.

    Args:
        source: CUDA C, perhaps with ``#define`` lines and ``#line 1`` in front.
        file: the name that its own lines have for the compiler.
    """
    plain = without_comments(source) if '"' in source else ""

    def in_place(found: re.Match[str]) -> str:
        before = source[: found.start()]
        if found["name"] not in names() or not _INCLUDE.match(plain.split("\n")[before.count("\n")]):
            return found[0]
        line = before.rpartition("#line 1\n")[2].count("\n") + 1
        return f'#line 1 "{found["name"]}"\n{header(found["name"]).rstrip()}\n#line {line + 1} "{file}"'

    return _INCLUDE.sub(in_place, source)


def whole_text(source: str) -> str:
    """The source with its headers in place, as a file of its own: without ``#line``."""
    return re.sub(r"^#line [^\n]*\n", "", with_headers(source), flags=re.M)


def as_written(compiled: str) -> str:
    """What a compiler was given, without the lines in front of it, and with its directives for headers.

    Args:
        compiled: ``#define`` lines and ``#line 1``, if any, and a source ``with_headers``.
    """
    own = compiled.partition("#line 1\n")[2] or compiled
    return _IN_PLACE.sub(r'#include "\g<name>"', own)
