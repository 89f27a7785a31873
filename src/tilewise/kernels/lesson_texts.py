"""The text of each published kernel, read from the lesson that has it.

In: the lessons' folder. Out: the content of each ``.cu`` file. Lessons are parsed and not run: a kernel's
text and settings must be literals, sums of literals, or those of another constant of the lesson.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewise.cuda.regions import is_marker
from tilewise.errors import LessonError
from tilewise.kernels.published import PUBLISHED, Published

REWRITE = "python -m tilewise.kernels"
"""The command that writes the files."""
_NEW_IN_THIS_VERSION = re.compile(r"[ \t]*// New$", re.M)


@dataclass(frozen=True)
class KernelText:
    """What a lesson gives to ``Kernel``."""

    source: str
    """CUDA C."""
    name: str | None = None
    """Which of its kernels; None where there is one."""
    defines: Mapping[str, Any] | None = None
    """Settings."""
    options: tuple[str, ...] = ()
    """For the compiler."""


class _Constants:
    """The constants of a lesson's file, evaluated as far as they are literal."""

    def __init__(self, text: str) -> None:
        self.assigned = {
            target.id: statement.value
            for statement in ast.parse(text).body
            if isinstance(statement, ast.Assign)
            for target in statement.targets
            if isinstance(target, ast.Name)
        }

    def value(self, node: ast.expr) -> Any:
        match node:
            case ast.Name() if node.id in self.assigned:
                return self.value(self.assigned[node.id])
            case ast.BinOp(op=ast.Add()):
                return self.value(node.left) + self.value(node.right)
            case ast.Attribute(attr="source" | "defines" | "options"):
                return getattr(self.value(node.value), node.attr)
            case ast.Call(func=ast.Name(id="Kernel")):
                given = {word.arg: self.value(word.value) for word in node.keywords if word.arg}
                in_order = ("source", "name", "defines", "options")
                return KernelText(**dict(zip(in_order, map(self.value, node.args), strict=False)), **given)
        return ast.literal_eval(node)


def files(lessons: Path, published: Mapping[str, Published] = PUBLISHED) -> dict[str, str]:
    """The content of each ``.cu`` file by the kernel's name.

    Args:
        lessons: the lessons' folder.
        published: which kernels.

    Raises:
        LessonError: a lesson's constant is no kernel that can be read without running the lesson, or has
            settings or options that the table of published kernels lacks.
    """
    return {name: _file(lessons, name, entry) for name, entry in published.items()}


def _file(lessons: Path, name: str, entry: Published) -> str:
    constants = _Constants((lessons / f"{entry.lesson}.py").read_text(encoding="utf-8"))
    node = constants.assigned.get(entry.constant, ast.Constant(None))
    try:
        text = constants.value(node)
    except ValueError:
        text = None
    if (
        not isinstance(text, KernelText)
        or set(text.defines or {}) - set(entry.defines)
        or tuple(text.options) != entry.options
    ):
        raise LessonError(
            f"lessons/{entry.lesson}.py",
            getattr(node, "lineno", 0),
            f"{entry.constant} is published as {name}, and is not read as such a kernel.",
            "Write it as Kernel(...) of literals, with the settings and options of kernels/published.py.",
        )
    return _written(text.source, entry)


def _written(source: str, entry: Published) -> str:
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
