"""What a cell rests on: the definitions of its lesson that it comes to, and keys of them.

In: the text of a cell and of those before it. Out: a hex digest that changes with any assignment, function
or class that the cell uses, at first or second hand. Imports, layout and comments do not count, and in
``nameless_key`` neither do the names in kernels.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeGuard

from tilewise.cuda.kernel_source import tokens
from tilewise.kernel.literals import KernelText, Literals
from tilewise.measurements.key import cell_tree, digest, python_tree

_IMPORTS = (ast.Import, ast.ImportFrom)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_BLOCKS = (ast.If, ast.For, ast.While, ast.With)


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


def nameless_key(
    cell: str,
    before: Iterable[str],
    reserved: Collection[str],
    code: Callable[[KernelText], Mapping[str, str]],
) -> str:
    """The key of a cell and of all that it uses, whatever the names in their CUDA C.

    A kernel whose text is literal counts by what its text says, wherever in it a helper stands. In other CUDA
    C, each name has the number of its first place instead. Names keep themselves that mean something outside
    of the CUDA C: reserved ones, those with an underscore in front, and those that occur in the Python.

    Args:
        cell: the cell's text.
        before: the texts of the cells before it, in order.
        reserved: the words of the language and of the headers.
        code: what a literal kernel's text says, by its entry points; empty where that is not known.

    Returns:
        A SHA-256 digest; empty where macros put names together, or where attributes or pragmas have words
        that nobody knows.
    """
    statements = [statement for text in before for statement in ast.parse(text).body]
    kernels = _literal_kernels(statements, code)
    found = _reached(ast.parse(cell), statements, leaves=kernels)
    own, imports = cell_tree(cell)
    trees = [*(statements[at] for at in sorted(found - kernels.keys())), own]
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
    by_code = [kernels[at] for at in sorted(found & kernels.keys())]
    return digest({"imports": imports, "kernels": by_code, "trees": shown})


def _literal_kernels(
    statements: Sequence[ast.stmt], code: Callable[[KernelText], Mapping[str, str]]
) -> dict[int, list[Any]]:
    """Which statements bind a name to a literal kernel, and what stands for them in a key."""
    literals = Literals(statements)
    times = Counter(name for one in statements for name in bound(one))
    found: dict[int, list[Any]] = {}
    for at, one in enumerate(statements):
        if not isinstance(one, ast.Assign) or not isinstance(one.value, ast.Call):
            continue
        try:
            kernel = literals.value(one.value)
        except (ValueError, TypeError):
            continue
        used = {node.id for node in ast.walk(one) if isinstance(node, ast.Name)} - {"Kernel"}
        if not isinstance(kernel, KernelText) or any(times[name] != 1 for name in used):
            continue
        if says := code(kernel):
            entries = sorted(says.items()) if len(says) > 1 else [*says.values()]
            chosen = kernel.name if len(says) > 1 else None
            found[at] = [ast.unparse(one.targets[0]), chosen, entries, sorted(kernel.options)]
    return found


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


def statements_reached(names: Iterable[str], statements: list[ast.stmt]) -> list[ast.stmt]:
    """The statements of a module that names rest on, at first or second hand, in their order."""
    found = _reached(ast.parse("\n".join(names)), statements)
    return [statements[at] for at in sorted(found)]


def _reached(own: ast.Module, statements: Sequence[ast.stmt], leaves: Container[int] = ()) -> set[int]:
    """Which of the statements a cell rests on, but nothing that only the leaves rest on."""
    binding: dict[str, list[int]] = {}
    for at, statement in enumerate(statements):
        for name in bound(statement):
            binding.setdefault(name, []).append(at)
    wanted, found = list(_needed(own.body)), set[int]()
    while wanted:
        new = set(binding.get(wanted.pop(), ())) - found
        found |= new
        wanted += [name for at in new if at not in leaves for name in _needed([statements[at]])]
    return found


def bound(statement: ast.stmt) -> set[str]:
    """The names that a statement of a module binds there, or whose value it changes by an assignment."""
    if isinstance(statement, _IMPORTS):
        return set()
    changed = _stored([statement])
    for one in _of_scope(statement):
        if isinstance(one, (ast.Subscript, ast.Attribute)) and isinstance(one.ctx, ast.Store):
            base = one.value
            while isinstance(base, (ast.Subscript, ast.Attribute)):
                base = base.value
            if isinstance(base, ast.Name):
                changed.add(base.id)
    return changed


def _needed(body: Iterable[ast.stmt], own: Collection[str] = ()) -> Iterator[str]:
    """The names that statements of a module load, less those that they themselves have bound by then.

    What a branch or a loop binds counts as bound within it only.
    """
    own = set(own)
    for statement in body:
        if not isinstance(statement, _BLOCKS):
            yield from (name for name in _loaded(statement) if name not in own)
            own |= set() if isinstance(statement, ast.AugAssign) else _stored([statement])
            continue
        heads = [one for one in ast.iter_child_nodes(statement) if not isinstance(one, ast.stmt)]
        yield from (name for head in heads for name in _loaded(head) if name not in own)
        inside = own | {name for head in heads for name in _stored([head])}
        for block in (statement.body, getattr(statement, "orelse", [])):
            yield from _needed(block, inside)


def _loaded(node: ast.AST) -> Iterator[str]:
    """The names that a tree loads, less those that its functions and comprehensions have for themselves."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        yield node.id
    own: set[str] = set()
    if isinstance(node, _FUNCTIONS):
        given = node.args
        yield from (name for one in (*given.defaults, *given.kw_defaults) if one for name in _loaded(one))
        own = {one.arg for one in ast.walk(given) if isinstance(one, ast.arg)}
        if not isinstance(node, ast.Lambda):
            yield from (name for one in node.decorator_list for name in _loaded(one))
            own |= _stored(node.body)
            own -= {name for one in ast.walk(node) if isinstance(one, ast.Global) for name in one.names}
    elif isinstance(node, _COMPREHENSIONS):
        yield from _loaded(node.generators[0].iter)
        own = {name for one in node.generators for name in _stored([one.target])}
    for child in ast.iter_child_nodes(node):
        yield from (name for name in _loaded(child) if name not in own)


def _stored(nodes: Iterable[ast.AST]) -> set[str]:
    """The names that trees bind in the scope that they stand in."""
    inside = [one for node in nodes for one in _of_scope(node)]
    named = {one.name for one in inside if isinstance(one, _SCOPES)}
    return named | {one.id for one in inside if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}


def _of_scope(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a tree, without those within its functions, classes and comprehensions."""
    yield node
    if not isinstance(node, (*_SCOPES, ast.Lambda, *_COMPREHENSIONS)):
        for child in ast.iter_child_nodes(node):
            yield from _of_scope(child)


def _is_cuda(node: ast.AST) -> TypeGuard[ast.Constant]:
    text = node.value if isinstance(node, ast.Constant) else None
    return isinstance(text, str) and ("__global__" in text or "__device__" in text)


class _Layout(ast.NodeTransformer):
    """CUDA C in strings as its tokens: comments and layout of a kernel do not count."""

    def __init__(self, of: Callable[[str], Sequence[str]]) -> None:
        self._of = of

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        return ast.Constant(" ".join(self._of(str(node.value)))) if _is_cuda(node) else node
