"""The text of a pseudocode function: where it stands, and that it flattens no index.

In: a function. Out: its syntax tree, or a `LessonError` with the line. Nothing is executed.
"""

from __future__ import annotations

import ast
import copy
import inspect
import textwrap
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tilewise.errors import LessonError


def place_of(function: Callable[..., Any]) -> tuple[str, int]:
    """The file and line of a function's `def`, as its code object names them."""
    code = function.__code__
    return (code.co_filename, code.co_firstlineno)


def tree_of(function: Callable[..., Any]) -> ast.FunctionDef:
    """The function's syntax tree, with the line numbers of its file.

    Raises:
        LessonError: its source cannot be read, or it is not made by `def`.
    """
    path, line = place_of(function)
    try:
        source = textwrap.dedent(inspect.getsource(function))
        found = ast.parse(source).body[0]
    except (OSError, SyntaxError):
        found = None
    if not isinstance(found, ast.FunctionDef):
        raise LessonError(
            path,
            line,
            f'the source of pseudocode "{function.__name__}" cannot be read.',
            "Write it as a def at the top level of a cell.",
        )
    ast.increment_lineno(found, line - 1)
    return found


def check_no_flat_index(function: Callable[..., Any]) -> None:
    """Refuse indices such as `a[i * n + j]`: pseudocode names rows and columns, arrays keep their shape.

    Raises:
        LessonError: an index, or a bound of a slice, adds something to a product, itself or through names
            that the function assigns once; it has the index's line.
    """
    path, _ = place_of(function)
    tree = tree_of(function)
    names = _assigned_once(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript):
            for part in _parts(node.slice):
                if _adds_to_product(_spelled_out(part, names)):
                    raise LessonError(
                        path,
                        part.lineno,
                        f'pseudocode "{function.__name__}" flattens an index: {ast.unparse(node)}.',
                        "Give the array its shape in the case and index it as a[row, column].",
                    )


def _assigned_once(function: ast.FunctionDef) -> dict[str, ast.expr]:
    """Names with one plain assignment in the function, ``at = i * n + j``, and what they stand for."""
    plain: dict[str, ast.expr] = {}
    stored: dict[str, int] = {
        argument.arg: 1 for argument in ast.walk(function) if isinstance(argument, ast.arg)
    }
    for node in ast.walk(function):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            stored[node.id] = stored.get(node.id, 0) + 1
        if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
            plain[node.targets[0].id] = node.value
        elif (
            isinstance(node, ast.AnnAssign | ast.NamedExpr)
            and isinstance(node.target, ast.Name)
            and node.value
        ):
            plain[node.target.id] = node.value
    return {name: value for name, value in plain.items() if stored[name] == 1}


class _SpelledOut(ast.NodeTransformer):
    """Puts what names stand for in their place, each at most once on the way down."""

    def __init__(self, names: Mapping[str, ast.expr]) -> None:
        self._names = names

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """What the name stands for, spelled out itself."""
        value = self._names.get(node.id)
        if value is None:
            return node
        rest = {name: known for name, known in self._names.items() if name != node.id}
        return _spelled_out(value, rest)

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        """As it is: a value that was read is no arithmetic on indices."""
        return node


def _spelled_out(expression: ast.expr, names: Mapping[str, ast.expr]) -> ast.expr:
    """An index with the names that stand for arithmetic spelled out; the line stays that of the index."""
    made = _SpelledOut(names).visit(copy.deepcopy(expression))
    assert isinstance(made, ast.expr)
    return made


def _parts(index: ast.expr) -> Iterator[ast.expr]:
    if isinstance(index, ast.Tuple):
        for element in index.elts:
            yield from _parts(element)
    elif isinstance(index, ast.Slice):
        yield from (bound for bound in (index.lower, index.upper, index.step) if bound is not None)
    else:
        yield index


def _adds_to_product(expression: ast.expr) -> bool:
    """Whether a sum or difference, at the top of the arithmetic or inside it, has a product as a term."""
    return any(
        isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.Add | ast.Sub)
        and any(_is_product(side) for side in (node.left, node.right))
        for node in ast.walk(expression)
    )


def _is_product(expression: ast.expr) -> bool:
    return isinstance(expression, ast.BinOp) and isinstance(expression.op, ast.Mult)
