"""The text of each published kernel, read from its lesson.

In: the lessons' folder. Out: the content of each ``.cu`` file. Lessons are parsed, not run: a kernel's text
and settings must be literals, concatenations of literals, or those of another constant of the lesson.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tilewise.cuda.headers import whole_text
from tilewise.cuda.regions import is_marker
from tilewise.errors import LessonError
from tilewise.kernel.literals import KernelText, Literals
from tilewise.kernels.published import PUBLISHED, Published

REWRITE = "python -m tilewise.kernels"
"""The command that writes the files."""
_NEW_IN_THIS_VERSION = re.compile(r"[ \t]*// New$", re.M)


def files(lessons: Path, published: Mapping[str, Published] = PUBLISHED) -> dict[str, str]:
    """The content of each ``.cu`` file by the kernel's name.

    Args:
        lessons: the lessons' folder.
        published: the kernels.

    Raises:
        LessonError: a lesson's constant cannot be read as a kernel without running the lesson, or has
            settings or options that are missing from the table of published kernels.
    """
    return {name: _file(lessons, name, entry) for name, entry in published.items()}


class _Unpacked(Literals):
    """Literals with ``**`` in dictionaries, which the keys of records don't support."""

    def value(self, node: ast.expr) -> Any:
        """The value of an expression.

        Raises:
            ValueError: it is not literal.
        """
        if not isinstance(node, ast.Dict):
            return super().value(node)
        pairs = zip(node.keys, node.values, strict=True)
        parts = [self.value(v) if k is None else {self.value(k): self.value(v)} for k, v in pairs]
        return {key: value for part in parts for key, value in part.items()}


def _file(lessons: Path, name: str, entry: Published) -> str:
    text = (lessons / f"{entry.lesson}.py").read_text(encoding="utf-8")
    constants = _Unpacked(ast.parse(text).body)
    node = constants.assigned.get(entry.constant, ast.Constant(None))
    try:
        kernel = constants.value(node)
    except ValueError:
        kernel = None
    if isinstance(kernel, str) and "__global__" in kernel:  # a function of the lesson makes kernels from it
        kernel = KernelText(kernel, entry.entry, options=entry.options)
    if (
        not isinstance(kernel, KernelText)
        or set(kernel.defines or {}) - set(entry.defines)
        or tuple(kernel.options) != entry.options
    ):
        raise LessonError(
            f"lessons/{entry.lesson}.py",
            getattr(node, "lineno", 0),
            f"{entry.constant} is published as {name}, and is not read as such a kernel.",
            "Write it as Kernel(...) of literals, with the settings and options of kernels/published.py.",
        )
    return _content(whole_text(kernel.source), entry)


def _content(source: str, entry: Published) -> str:
    lines = [
        f"// {entry.does}",
        f"// {entry.constant} of the lesson {entry.lesson}, written by {REWRITE}: change it there.",
    ]
    if entry.options:
        lines.append(f"// Compile with {' '.join(entry.options)}.")
    for key, value in entry.defines.items():
        lines += [f"#ifndef {key}", f"#define {key} {value}", "#endif"]
    body = "\n".join(line for line in source.strip("\n").split("\n") if not is_marker(line))
    lines.append(_NEW_IN_THIS_VERSION.sub("", body).replace("// New: ", "// "))
    return "\n".join(lines) + "\n"
