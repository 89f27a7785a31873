"""The keys of a measurement: hashes of everything that could change its result, and of nothing else.

In: launches, library functions, cell text. Out: a hex digest. Comments, layout and docstrings of Python
do not count. Neither does a variant's own function, because it only decides which launches it returns. Those
count in full, by their tokens in one key and by their code without names in another.
"""

from __future__ import annotations

import ast
import hashlib
import json
import linecache
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any, TypeAlias

from tilewise.cuda.cases import Case
from tilewise.cuda.tensor_map import TensorMap
from tilewise.measurements.answers import values_of

if TYPE_CHECKING:
    from tilewise.cuda.kernel_source import Parameter
    from tilewise.kernel.launch import Launch

METHOD_VERSION = 1
"""Incremented whenever timing or counting changes so that older figures are no longer comparable."""

_SIMPLE = (bool, int, float, str, bytes, tuple)


def python_tree(tree: ast.AST) -> Any:
    """A syntax tree as nested lists without positions, docstrings, contexts or empty fields.

    Without empty fields, the same code has the same tree under every version of Python.
    """
    fields: list[Any] = []
    for name, value in ast.iter_fields(tree):
        if name in ("ctx", "type_comment", "kind") or value is None or value == []:
            continue
        fields.append([name, _plain(_without_docstring(value) if name == "body" else value)])
    return [type(tree).__name__, fields]


def _without_docstring(body: Any) -> Any:
    first = body[0] if isinstance(body, list) and body else None
    if (
        isinstance(first, ast.Expr)
        and isinstance(first.value, ast.Constant)
        and isinstance(first.value.value, str)
    ):
        return body[1:]
    return body


def _plain(value: Any) -> Any:
    if isinstance(value, ast.AST):
        return python_tree(value)
    if isinstance(value, list):
        return [_plain(entry) for entry in value]
    return repr(value)


def python_tokens(text: str) -> str:
    """A form of Python text that is independent of layout, comments and docstrings."""
    return json.dumps(python_tree(ast.parse(text)))


def function_tokens(function: Callable[..., Any]) -> str:
    """A function or lambda, and every function of the same file that it calls, as in ``python_tokens``.

    Decorated functions of the file, such as kernels for Triton or Numba, count by their definitions, and so
    alike if those packages are not installed. Functions of other files count by their names.
    """
    seen: dict[str, Any] = {}
    _collect(function, seen)
    return json.dumps(list(seen.values()))


def _collect(function: Any, seen: dict[str, Any]) -> None:
    if not isinstance(function, FunctionType):
        seen.setdefault(getattr(function, "__qualname__", type(function).__qualname__), None)
        return
    code = function.__code__
    label = f"{function.__qualname__}:{code.co_firstlineno}"
    if label in seen:
        return
    seen[label] = None
    node = _definition(code)
    closed = [cell.cell_contents for cell in function.__closure__ or () if _filled(cell)]
    tree = python_tree(node) if node is not None else [code.co_code.hex(), repr(code.co_consts)]
    seen[label] = [tree, [repr(value) for value in closed if isinstance(value, _SIMPLE)]]
    used = {name: function.__globals__.get(name) for name in sorted(set(_names(code)))}
    for target in [*used.values(), *closed]:
        if isinstance(target, FunctionType) and target.__code__.co_filename == code.co_filename:
            _collect(target, seen)
    for name, target in used.items():
        if target is not None and not isinstance(target, FunctionType):
            for definition in _decorated(code.co_filename, name):
                seen[f"{name}:{definition.lineno}"] = python_tree(definition)


_Function: TypeAlias = ast.Lambda | ast.FunctionDef | ast.AsyncFunctionDef


@lru_cache(maxsize=2)
def _functions(text: str) -> list[_Function]:
    """A file's functions, not to be modified; cached, because each function of a lesson needs them."""
    return [node for node in ast.walk(ast.parse(text)) if isinstance(node, _Function)]


def _decorated(file: str, name: str) -> list[ast.FunctionDef]:
    """The decorated functions of a file with a given name."""
    try:
        functions = _functions("".join(linecache.getlines(file)))
    except SyntaxError:
        return []
    named = [node for node in functions if isinstance(node, ast.FunctionDef) and node.name == name]
    return [node for node in named if node.decorator_list]


def _filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:
        return False


def _names(code: CodeType) -> Iterable[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)


def _definition(code: CodeType) -> ast.AST | None:
    """The syntax tree of a code object's function, from its file."""
    text = "".join(linecache.getlines(code.co_filename))
    try:
        functions = _functions(text)
    except SyntaxError:
        return None
    candidates = [
        node
        for node in functions
        if _starts(node) == code.co_firstlineno
        and (isinstance(node, ast.Lambda)) == (code.co_name == "<lambda>")
    ]
    if len(candidates) < 2:
        return candidates[0] if candidates else None
    spots = [(line, column) for line, _, column, _ in code.co_positions() if line and column]
    for node in sorted(candidates, key=lambda node: node.col_offset, reverse=True):
        span = ((node.lineno, node.col_offset), (node.end_lineno or 0, node.end_col_offset or 0))
        if spots and span[0] <= max(spots) <= span[1]:
            return node
    return candidates[0]


def _starts(node: _Function) -> int:
    decorators = [] if isinstance(node, ast.Lambda) else node.decorator_list
    return min([node.lineno, *(decorator.lineno for decorator in decorators)])


def digest(facts: Mapping[str, Any]) -> str:
    """A key from facts: the SHA-256 of their canonical JSON."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


class _Imports(ast.NodeTransformer):
    """Removes imports from this package and collects their names, because a module may move."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def visit_ImportFrom(self, node: ast.ImportFrom) -> ast.AST | None:
        if (node.module or "").partition(".")[0] != "tilewise":
            return node
        self.names += map(ast.unparse, node.names)
        return None


def cell_tree(cell_source: str) -> tuple[ast.AST, list[str]]:
    """A cell without its imports from this package, and their names."""
    imports = _Imports()
    tree = imports.visit(ast.parse(cell_source))
    return tree, sorted(imports.names)


def text_key(cell_source: str) -> str:
    """The key of a text record: the tokens of its cell, and the names that the cell imports."""
    tree, imports = cell_tree(cell_source)
    return digest({"method": METHOD_VERSION, "cell": json.dumps(python_tree(tree)), "imports": imports})


def launches_code(launches: Sequence[Launch]) -> dict[str, Any]:
    """Launches without names, as JSON values: kernels, launch shapes, arguments, inputs.

    An array is identified by its position among the launches' arrays, so that sharing is visible. The seed of
    an input without its own, which comes from its name, does not count.

    Raises:
        CompileError: clang rejects a kernel, or would drop part of it.
        ToolchainError: there is no clang.
    """
    from tilewise.measurements.kernel_code import code_hash

    values = values_of(launches)
    places: dict[str, int] = {}

    def argument(parameter: Parameter) -> list[Any]:
        value = values[parameter.name]
        if isinstance(value, TensorMap):
            return [places.setdefault(str(value.name), len(places)), repr(value.named(""))]
        return [places.setdefault(parameter.name, len(places)), parameter.is_const]

    facts = [
        {
            "code": code_hash(kernel.preprocessed, kernel.name, kernel.options, kernel.origin),
            "options": sorted(kernel.options),
            "shape": [launch.grid, launch.block, launch.shared_bytes],
            "arguments": [argument(parameter) for parameter in kernel.parameters],
        }
        for launch in launches
        for kernel in [launch.kernel]
    ]
    return {"launches": facts, "values": [Case({"": values[name]}).fingerprint() for name in places]}
