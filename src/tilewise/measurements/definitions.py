"""What a cell depends on: the definitions of its lesson that it uses, and keys of them.

In: the text of a cell and of those before it. Out: a hex digest that changes with any assignment, function
or class that the cell uses, directly or indirectly. Imports, layout and comments do not count, nor, in
``nameless_key``, do the names in kernels.
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
    """The key of everything that a cell uses and that a cell defines.

    Args:
        cell: the cell's text.
        before: the texts of the cells before it, in order.

    Returns:
        A SHA-256 digest. If a name is bound more than once, all of its definitions count.
    """
    statements = [statement for text in before for statement in ast.parse(text).body]
    used = _reached(ast.parse(cell), statements)
    return digest(
        {"definitions": [python_tree(_Layout(tokens).visit(statements[at])) for at in sorted(used)]}
    )


def nameless_key(
    cell: str,
    before: Iterable[str],
    reserved: Collection[str],
    code: Callable[[KernelText], Mapping[str, str]],
) -> str:
    """The key of a cell and of all that it uses, independent of the names in their CUDA C.

    A kernel with literal text is represented by the hashes of its code, which ignore the order of helpers. In
    other CUDA C, each name is replaced by the number of its first occurrence, except for names that matter
    outside of it: reserved ones, those that start with an underscore, and those that occur in the Python.

    Args:
        cell: the cell's text.
        before: the texts of the cells before it, in order.
        reserved: the words of the language and of the headers.
        code: a literal kernel's hashes by entry point; empty if they are unknown.

    Returns:
        A SHA-256 digest; empty if macros paste names, or if there are attributes or unknown pragmas.
    """
    statements = [statement for text in before for statement in ast.parse(text).body]
    kernels = _literal_kernels(statements, code)
    used = _reached(ast.parse(cell), statements, leaves=kernels)
    cell_without_imports, imports = cell_tree(cell)
    trees = [*(statements[at] for at in sorted(used - kernels.keys())), cell_without_imports]
    texts = "\n".join(str(node.value) for tree in trees for node in ast.walk(tree) if _is_cuda(node))
    if {*re.findall(r"pragma\W+(\w+)", texts, re.IGNORECASE)} - {"unroll"}:
        return ""
    if re.search(r"##|__attribute__|\[\[", texts):
        return ""
    protected = {*reserved, *_words(trees)}
    numbers: dict[str, str] = {}

    def numbered(text: str) -> Sequence[str]:
        names = {
            token
            for token in tokens(text)
            if token.isidentifier() and token[0] != "_" and token not in protected
        }
        return [
            numbers.setdefault(token, f"${len(numbers)}") if token in names else token
            for token in tokens(text)
        ]

    shown = [python_tree(_Layout(numbered).visit(tree)) for tree in trees]
    by_code = [kernels[at] for at in sorted(used & kernels.keys())]
    return digest({"imports": imports, "kernels": by_code, "trees": shown})


def _literal_kernels(
    statements: Sequence[ast.stmt], code: Callable[[KernelText], Mapping[str, str]]
) -> dict[int, list[Any]]:
    """The statements that bind a name to a literal kernel, and what represents them in a key."""
    literals = Literals(statements)
    times = Counter(name for statement in statements for name in bound(statement))
    kernels: dict[int, list[Any]] = {}
    for index, statement in enumerate(statements):
        if not isinstance(statement, ast.Assign) or not isinstance(statement.value, ast.Call):
            continue
        try:
            kernel = literals.value(statement.value)
        except (ValueError, TypeError):
            continue
        used = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)} - {"Kernel"}
        if not isinstance(kernel, KernelText) or any(times[name] != 1 for name in used):
            continue
        if hashes := code(kernel):
            entries = sorted(hashes.items()) if len(hashes) > 1 else [*hashes.values()]
            chosen = kernel.name if len(hashes) > 1 else None
            kernels[index] = [ast.unparse(statement.targets[0]), chosen, entries, sorted(kernel.options)]
    return kernels


def _words(trees: Iterable[ast.AST]) -> Iterator[str]:
    """The words of Python in trees: names, and words in strings that are not CUDA C."""
    for node in (node for tree in trees for node in ast.walk(tree) if not _is_cuda(node)):
        for _, value in ast.iter_fields(node):
            for entry in value if isinstance(value, list) else [value]:
                yield from re.findall(r"\w+", entry) if isinstance(entry, str) else ()


def functions_reached(cell: str, before: Iterable[str]) -> set[str]:
    """The names of the functions of other cells that a cell uses, directly or indirectly.

    Args:
        cell: the cell's text.
        before: the texts of the cells before it.
    """
    statements = [statement for text in before for statement in ast.parse(text).body]
    reached = (statements[at] for at in _reached(ast.parse(cell), statements))
    return {statement.name for statement in reached if isinstance(statement, ast.FunctionDef)}


def statements_reached(names: Iterable[str], statements: list[ast.stmt]) -> list[ast.stmt]:
    """The statements of a module that names depend on, directly or indirectly, in order."""
    used = _reached(ast.parse("\n".join(names)), statements)
    return [statements[at] for at in sorted(used)]


def _reached(own: ast.Module, statements: Sequence[ast.stmt], leaves: Container[int] = ()) -> set[int]:
    """Indices of the statements that a cell depends on, without following those in ``leaves``."""
    binding: dict[str, list[int]] = {}
    for at, statement in enumerate(statements):
        for name in bound(statement):
            binding.setdefault(name, []).append(at)
    wanted, used = list(_needed(own.body)), set[int]()
    while wanted:
        new = set(binding.get(wanted.pop(), ())) - used
        used |= new
        wanted += [name for at in new if at not in leaves for name in _needed([statements[at]])]
    return used


def bound(statement: ast.stmt) -> set[str]:
    """The names that a module's statement binds, or whose value it changes by an assignment."""
    if isinstance(statement, _IMPORTS):
        return set()
    changed = _stored([statement])
    for node in _of_scope(statement):
        if isinstance(node, (ast.Subscript, ast.Attribute)) and isinstance(node.ctx, ast.Store):
            base = node.value
            while isinstance(base, (ast.Subscript, ast.Attribute)):
                base = base.value
            if isinstance(base, ast.Name):
                changed.add(base.id)
    return changed


def _needed(body: Iterable[ast.stmt], own: Collection[str] = ()) -> Iterator[str]:
    """The names that a module's statements load before they bind them.

    A name bound in a branch or a loop counts as bound only inside it.
    """
    own = set(own)
    for statement in body:
        if not isinstance(statement, _BLOCKS):
            yield from (name for name in _loaded(statement) if name not in own)
            own |= set() if isinstance(statement, ast.AugAssign) else _stored([statement])
            continue
        heads = [child for child in ast.iter_child_nodes(statement) if not isinstance(child, ast.stmt)]
        yield from (name for head in heads for name in _loaded(head) if name not in own)
        inside = own | {name for head in heads for name in _stored([head])}
        for block in (statement.body, getattr(statement, "orelse", [])):
            yield from _needed(block, inside)


def _loaded(node: ast.AST) -> Iterator[str]:
    """The names that a tree loads, without local names of its functions and comprehensions."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
        yield node.id
    own: set[str] = set()
    if isinstance(node, _FUNCTIONS):
        arguments = node.args
        yield from (
            name
            for default in (*arguments.defaults, *arguments.kw_defaults)
            if default
            for name in _loaded(default)
        )
        own = {argument.arg for argument in ast.walk(arguments) if isinstance(argument, ast.arg)}
        if not isinstance(node, ast.Lambda):
            yield from (name for decorator in node.decorator_list for name in _loaded(decorator))
            own |= _stored(node.body)
            own -= {name for inner in ast.walk(node) if isinstance(inner, ast.Global) for name in inner.names}
    elif isinstance(node, _COMPREHENSIONS):
        yield from _loaded(node.generators[0].iter)
        own = {name for generator in node.generators for name in _stored([generator.target])}
    for child in ast.iter_child_nodes(node):
        yield from (name for name in _loaded(child) if name not in own)


def _stored(nodes: Iterable[ast.AST]) -> set[str]:
    """The names that trees bind in their own scope."""
    inside = [child for node in nodes for child in _of_scope(node)]
    named = {child.name for child in inside if isinstance(child, _SCOPES)}
    return named | {
        child.id for child in inside if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store)
    }


def _of_scope(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a tree, without those inside its functions, classes and comprehensions."""
    yield node
    if not isinstance(node, (*_SCOPES, ast.Lambda, *_COMPREHENSIONS)):
        for child in ast.iter_child_nodes(node):
            yield from _of_scope(child)


def _is_cuda(node: ast.AST) -> TypeGuard[ast.Constant]:
    text = node.value if isinstance(node, ast.Constant) else None
    return isinstance(text, str) and ("__global__" in text or "__device__" in text)


class _Layout(ast.NodeTransformer):
    """Replaces CUDA C in strings by its tokens, so that comments and layout do not count."""

    def __init__(self, of: Callable[[str], Sequence[str]]) -> None:
        self._of = of

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        return ast.Constant(" ".join(self._of(str(node.value)))) if _is_cuda(node) else node
