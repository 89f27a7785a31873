"""Kernels that a lesson's text gives away without being run: literals, sums of literals, other constants.

In: the statements of a lesson. Out: what stands behind a name, as far as it is literal.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


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


class Literals:
    """The constants that statements assign, evaluated as far as they are literal."""

    def __init__(self, statements: Iterable[ast.stmt]) -> None:
        self.assigned = {
            target.id: statement.value
            for statement in statements
            if isinstance(statement, ast.Assign)
            for target in statement.targets
            if isinstance(target, ast.Name)
        }

    def value(self, node: ast.expr) -> Any:
        """What an expression is.

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
                given = {word.arg: self.value(word.value) for word in node.keywords if word.arg}
                in_order = ("source", "name", "defines", "options")
                return KernelText(**dict(zip(in_order, map(self.value, node.args), strict=False)), **given)
        return ast.literal_eval(node)
