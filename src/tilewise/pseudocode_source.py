"""The text of a pseudocode function: where it stands, and that it flattens no index.

In: a function. Out: its syntax tree, or a `LessonError` with the line. Nothing is executed; running it beside
its kernel is left to `gpu.comparison`, changing it to `mutation`.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
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
        LessonError: an index, or a bound of a slice, adds something to a product; it has that line.
    """
    path, _ = place_of(function)
    for node in ast.walk(tree_of(function)):
        if isinstance(node, ast.Subscript):
            for part in _parts(node.slice):
                if _adds_to_product(part):
                    raise LessonError(
                        path,
                        part.lineno,
                        f'pseudocode "{function.__name__}" flattens an index: {ast.unparse(node)}.',
                        "Give the array its shape in the case and index it as a[row, column].",
                    )


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
