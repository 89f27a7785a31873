"""What a cell rests on: the definitions of its lesson that it comes to, and keys of them.

In: the text of a cell and of those before it. Out: a hex digest that changes with any assignment, function
or class that the cell uses, at first or second hand. Imports, layout and comments do not count, and in
``nameless_key`` neither do the names in kernels.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import TypeGuard

from tilewise.gpu.kernel_source import tokens
from tilewise.measurements.key import cell_tree, digest, python_tree

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
    return digest(
        {"definitions": [python_tree(_Layout(tokens).visit(statements[at])) for at in sorted(found)]}
    )


def nameless_key(cell: str, before: Iterable[str], reserved: Collection[str]) -> str:
    """The key of a cell and of all that it uses, whatever the names in their CUDA C.

    Each name has the number of its first place instead. Names keep themselves that mean something outside of
    the CUDA C: reserved ones, those with an underscore in front, and those that occur in the Python.

    Args:
        cell: the cell's text.
        before: the texts of the cells before it, in order.
        reserved: the words of the language and of the headers.

    Returns:
        A SHA-256 digest; empty where macros put names together, or where attributes or pragmas have words
        that nobody knows.
    """
    statements = [statement for text in before for statement in ast.parse(text).body]
    found = _reached(ast.parse(cell), statements)
    own, imports = cell_tree(cell)
    trees = [*(statements[at] for at in sorted(found)), own]
    texts = "\n".join(str(one.value) for tree in trees for one in ast.walk(tree) if _is_cuda(one))
    if {*re.findall(r"pragma\W+(\w+)", texts, re.IGNORECASE)} - {"unroll"}:
        return ""
    if re.search(r"##|__attribute__|\[\[", texts):
        return ""
    kept = {*reserved, *_words(trees)}
    numbers: dict[str, str] = {}

    def numbered(text: str) -> Sequence[str]:
        names = {one for one in tokens(text) if one.isidentifier() and one[0] != "_" and one not in kept}
        return [numbers.setdefault(one, f"${len(numbers)}") if one in names else one for one in tokens(text)]

    shown = [python_tree(_Layout(numbered).visit(tree)) for tree in trees]
    return digest({"imports": imports, "trees": shown})


def _words(trees: Iterable[ast.AST]) -> Iterator[str]:
    """The words of Python in trees: names, and what stands in strings that are no CUDA C."""
    for node in (node for tree in trees for node in ast.walk(tree) if not _is_cuda(node)):
        for _, value in ast.iter_fields(node):
            for one in value if isinstance(value, list) else [value]:
                yield from re.findall(r"\w+", one) if isinstance(one, str) else ()


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


def _is_cuda(node: ast.AST) -> TypeGuard[ast.Constant]:
    text = node.value if isinstance(node, ast.Constant) else None
    return isinstance(text, str) and ("__global__" in text or "__device__" in text)


class _Layout(ast.NodeTransformer):
    """CUDA C in strings as its tokens: comments and layout of a kernel do not count."""

    def __init__(self, of: Callable[[str], Sequence[str]]) -> None:
        self._of = of

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        return ast.Constant(" ".join(self._of(str(node.value)))) if _is_cuda(node) else node
