"""What a cell rests on: the definitions of its lesson that it comes to, and a key of them.

In: the text of a cell and of those before it. Out: a hex digest that changes with any assignment, function
or class that the cell uses, at first or second hand. Imports, layout and comments do not count.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import Any

from tilewise.gpu.kernel_source import tokens
from tilewise.measurements.key import digest, python_tree

_IMPORTS = (ast.Import, ast.ImportFrom)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def uses_key(cell: str, before: Iterable[str]) -> str:
    """The key of everything that a cell uses and other cells, or the cell itself, define.

    Args:
        cell: the cell's text.
        before: the texts of the cells before it, in order.

    Returns:
        A SHA-256 digest. A name that is bound more than once counts with all of its definitions.
    """
    statements = [statement for text in before for statement in ast.parse(text).body]
    found = _reached(ast.parse(cell), statements)
    return digest({"definitions": [python_tree(_without_layout(statements[at])) for at in sorted(found)]})


def functions_reached(cell: str, before: Iterable[str]) -> set[str]:
    """The names of the functions of other cells that a cell comes to, at first or second hand.

    Args:
        cell: the cell's text.
        before: the texts of the cells before it.
    """
    statements = [statement for text in before for statement in ast.parse(text).body]
    reached = (statements[at] for at in _reached(ast.parse(cell), statements))
    return {one.name for one in reached if isinstance(one, ast.FunctionDef)}


def _reached(own: ast.AST, statements: list[ast.stmt]) -> set[int]:
    """Which of the statements a tree rests on."""
    binding: dict[str, list[int]] = {}
    for at, statement in enumerate(statements):
        for name in bound(statement):
            binding.setdefault(name, []).append(at)
    wanted, found = list(_loaded(own)), set[int]()
    while wanted:
        new = set(binding.get(wanted.pop(), ())) - found
        found |= new
        wanted += [name for at in new for name in _loaded(statements[at])]
    return found


def bound(statement: ast.stmt) -> set[str]:
    """The names that a statement of a module binds there, or whose value it changes by an assignment."""
    if isinstance(statement, _IMPORTS):
        return set()
    return set(_bound(statement))


def _bound(node: ast.AST) -> Iterator[str]:
    if isinstance(node, _SCOPES):
        yield node.name
        return
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    if isinstance(node, (ast.Subscript, ast.Attribute)) and isinstance(node.ctx, ast.Store):
        base: ast.expr = node
        while isinstance(base, (ast.Subscript, ast.Attribute)):
            base = base.value
        if isinstance(base, ast.Name):
            yield base.id
    if not isinstance(node, (ast.Lambda, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)):
        for child in ast.iter_child_nodes(node):
            yield from _bound(child)


def _loaded(node: ast.AST) -> set[str]:
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load)}


class _Layout(ast.NodeTransformer):
    """CUDA C in strings as its tokens: comments and layout of a kernel do not count."""

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        if isinstance(node.value, str) and ("__global__" in node.value or "__device__" in node.value):
            return ast.Constant(" ".join(tokens(node.value)))
        return node


def _without_layout(statement: ast.stmt) -> Any:
    return _Layout().visit(statement)
