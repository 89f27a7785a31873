"""Kernels read from a lesson's text without running it: literals, sums of literals, other constants.

In: the statements of a lesson. Out: the value of a name, if it is literal.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class KernelText:
    """The arguments that a lesson passes to ``Kernel``."""

    source: str
    """CUDA C."""
    name: str | None = None
    """The kernel's name; None if the source has only one."""
    defines: Mapping[str, Any] | None = None
    """Values of macros."""
    options: tuple[str, ...] = ()
    """Compiler options."""


class Literals:
    """The constants that statements assign, evaluated if they are literal."""

    def __init__(self, statements: Iterable[ast.stmt]) -> None:
        self.assigned = {
            target.id: statement.value
            for statement in statements
            if isinstance(statement, ast.Assign)
            for target in statement.targets
            if isinstance(target, ast.Name)
        }

    def value(self, node: ast.expr) -> Any:
        """Return the value of an expression.

        Raises:
            ValueError: it is not literal.
        """
        match node:
            case ast.Name() if node.id in self.assigned:
                return self.value(self.assigned[node.id])
            case ast.BinOp(op=ast.Add()):
                return self.value(node.left) + self.value(node.right)
            case ast.Attribute(attr="source" | "defines" | "options"):
                return getattr(self.value(node.value), node.attr)
            case ast.Call(func=ast.Name(id="Kernel")):
                keywords = {word.arg: self.value(word.value) for word in node.keywords if word.arg}
                in_order = ("source", "name", "defines", "options")
                return KernelText(**dict(zip(in_order, map(self.value, node.args), strict=False)), **keywords)
        return ast.literal_eval(node)
