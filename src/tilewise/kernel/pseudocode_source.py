"""The text of a pseudocode function: its location, and a check that it flattens no index.

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
    """Return the file and line of a function's `def` from its code object."""
    code = function.__code__
    return (code.co_filename, code.co_firstlineno)


def tree_of(function: Callable[..., Any]) -> ast.FunctionDef:
    """Return the function's syntax tree, with the line numbers of its file.

    Raises:
        LessonError: its source cannot be read, or it was not defined with `def`.
    """
    path, line = place_of(function)
    try:
        source = textwrap.dedent(inspect.getsource(function))
        tree = ast.parse(source).body[0]
    except (OSError, SyntaxError):
        tree = None
    if not isinstance(tree, ast.FunctionDef):
        raise LessonError(
            path,
            line,
            f'the source of pseudocode "{function.__name__}" cannot be read.',
            "Write it as a def at the top level of a cell.",
        )
    ast.increment_lineno(tree, line - 1)
    return tree


def check_no_flat_index(function: Callable[..., Any]) -> None:
    """Reject indices such as `a[i * n + j]`: pseudocode names rows and columns, arrays keep their shape.

    Raises:
        LessonError: an index, or a bound of a slice, adds something to a product, directly or through names
            that the function assigns once; its line is that of the index.
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
    """Names with one plain assignment in the function, ``at = i * n + j``, and their values."""
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
    """Replaces names by their values, each at most once on the way down."""

    def __init__(self, names: Mapping[str, ast.expr]) -> None:
        self._names = names

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """Return the name's value with its own names replaced."""
        value = self._names.get(node.id)
        if value is None:
            return node
        rest = {name: known for name, known in self._names.items() if name != node.id}
        return _spelled_out(value, rest)

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        """Return the node unchanged: loading a value is not index arithmetic."""
        return node


def _spelled_out(expression: ast.expr, names: Mapping[str, ast.expr]) -> ast.expr:
    """An index with names replaced by their values; the line stays that of the index."""
    result = _SpelledOut(names).visit(copy.deepcopy(expression))
    assert isinstance(result, ast.expr)
    return result


def _parts(index: ast.expr) -> Iterator[ast.expr]:
    if isinstance(index, ast.Tuple):
        for element in index.elts:
            yield from _parts(element)
    elif isinstance(index, ast.Slice):
        yield from (bound for bound in (index.lower, index.upper, index.step) if bound is not None)
    else:
        yield index


def _adds_to_product(expression: ast.expr) -> bool:
    """Whether any sum or difference in an expression has a product as a term."""
    return any(
        isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.Add | ast.Sub)
        and any(_is_product(side) for side in (node.left, node.right))
        for node in ast.walk(expression)
    )


def _is_product(expression: ast.expr) -> bool:
    return isinstance(expression, ast.BinOp) and isinstance(expression.op, ast.Mult)
