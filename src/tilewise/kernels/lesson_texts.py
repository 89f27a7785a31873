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

from tilewise.errors import LessonError, nearest
from tilewise.gpu.regions import is_marker
from tilewise.kernels.published import PUBLISHED, Published

REWRITE = "python -m tilewise.kernels"
"""The command that writes the files."""


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


_SINCE_THE_LAST_RUNG = re.compile(r"[ \t]*// New$", re.M)


class _NotLiteralError(ValueError):
    """An expression that cannot be read without running the lesson."""


class _Constants:
    """The constants of a lesson's file, evaluated as far as they are literal."""

    def __init__(self, text: str) -> None:
        self.assigned: dict[str, ast.expr] = {}
        for statement in ast.parse(text).body:
            if isinstance(statement, ast.Assign):
                for target in statement.targets:
                    if isinstance(target, ast.Name):
                        self.assigned[target.id] = statement.value

    def value(self, node: ast.expr) -> Any:
        match node:
            case ast.Constant():
                return node.value
            case ast.Name() if node.id in self.assigned:
                return self.value(self.assigned[node.id])
            case ast.BinOp(op=ast.Add()):
                return self.value(node.left) + self.value(node.right)
            case ast.Tuple() | ast.List():
                return tuple(self.value(one) for one in node.elts)
            case ast.Dict(keys=keys) if all(key is not None for key in keys):
                names = [self.value(key) for key in keys if key is not None]
                return dict(zip(names, map(self.value, node.values), strict=True))
            case ast.Attribute(attr="source" | "defines" | "options"):
                return getattr(self.value(node.value), node.attr)
            case ast.Call(func=ast.Name(id="Kernel")):
                given = {word.arg: self.value(word.value) for word in node.keywords if word.arg}
                in_order = ("source", "name", "defines", "options")
                return KernelText(**dict(zip(in_order, map(self.value, node.args), strict=False)), **given)
        raise _NotLiteralError(ast.unparse(node)[:80])


def files(lessons: Path, published: Mapping[str, Published] = PUBLISHED) -> dict[str, str]:
    """The content of each ``.cu`` file by the kernel's name.

    Args:
        lessons: the lessons' folder.
        published: which kernels.

    Raises:
        LessonError: a lesson or its constant is missing, cannot be read without running it, or has settings
            or options that the table of published kernels lacks.
    """
    return {name: _file(lessons, name, entry) for name, entry in published.items()}


def _file(lessons: Path, name: str, entry: Published) -> str:
    path = lessons / f"{entry.lesson}.py"
    shown = f"lessons/{entry.lesson}.py"
    if not path.is_file():
        repair = f"Correct the lesson of {name} in src/tilewise/kernels/published.py."
        raise LessonError(shown, 0, f"the published kernel {name} is to stand here: no such lesson.", repair)
    constants = _Constants(path.read_text(encoding="utf-8"))
    node = constants.assigned.get(entry.constant)
    if node is None:
        repair = nearest(entry.constant, constants.assigned)
        message = f"the published kernel {name} is to be {entry.constant}, which the lesson does not assign."
        raise LessonError(shown, 0, message, repair)
    try:
        text = constants.value(node)
    except _NotLiteralError as error:
        message = f"{entry.constant} is published and cannot be read without running the lesson: {error}."
        raise LessonError(shown, node.lineno, message, "Write its text and settings as literals.") from None
    if not isinstance(text, KernelText):
        message = f"{entry.constant} is published as {name} and is no Kernel(...)."
        raise LessonError(shown, node.lineno, message, "Name the constant that holds the kernel.")
    _agrees(text, entry, name, shown, node.lineno)
    return _written(text.source, entry)


def _agrees(text: KernelText, entry: Published, name: str, shown: str, line: int) -> None:
    unset = sorted(set(text.defines or {}) - set(entry.defines))
    if unset:
        message = f"{entry.constant} sets {', '.join(unset)}, and the published kernel {name} does not."
        raise LessonError(shown, line, message, "Add it to defines in src/tilewise/kernels/published.py.")
    if tuple(text.options) != entry.options:
        message = f"{entry.constant} has the options {text.options}, the published {name} {entry.options}."
        raise LessonError(shown, line, message, "Make them equal in src/tilewise/kernels/published.py.")


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
    lines.append(_SINCE_THE_LAST_RUNG.sub("", body).replace("// New: ", "// "))
    return "\n".join(lines) + "\n"
