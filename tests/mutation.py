"""Pseudocode with one mistake in it, made on purpose: what `agree` would have to notice.

In: a pseudocode function. Out: copies that differ in one operator, index, constant or line. Those that do the
same as the original, whatever the case, exist; naming them is left to the test that asks.
"""

from __future__ import annotations

import ast
import copy
import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from tilewise.gpu.comparison import Agreement, compare, kernel_results
from tilewise.pseudocode_source import place_of, tree_of

LOOP_LIMIT = 1_000_000
"""Turns of all loops of a mutant; a mistake in a loop's condition may keep it going for ever."""

_Change: TypeAlias = tuple[str, Callable[[ast.AST], ast.AST]]

_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitOr,
}
_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
}
_CALLS = {
    "max": "min",
    "min": "max",
    "maximum": "minimum",
    "minimum": "maximum",
    "exp": "sqrt",
    "exp2": "sqrt",
}
_LINES = (ast.Assign, ast.AnnAssign, ast.Return, ast.Continue, ast.Break, ast.If, ast.For, ast.While)
_LOOPS = {"range", "parallel", "lanes"}


class LoopLimitError(RuntimeError):
    """A mutant that does not end."""


@dataclass(frozen=True)
class Mutant:
    """A pseudocode function with one mistake."""

    function: Callable[..., Any]
    """The changed function."""
    line: int
    """Line of the change in the original's file."""
    change: str
    """What was changed: `c[i] + b[i] -> c[i] - b[i]`."""

    def __str__(self) -> str:
        return f"{place_of(self.function)[0]}:{self.line}: {self.change}"


def mutants(function: Callable[..., Any]) -> Iterator[Mutant]:
    """Every copy of a pseudocode function with one operator, index, constant, call or line changed.

    Args:
        function: made by `def`; its globals and enclosing values are shared with the copies.

    Raises:
        LessonError: its source cannot be read.
    """
    tree = tree_of(function)
    tree.decorator_list = []
    for at, node in enumerate(ast.walk(tree)):
        if not isinstance(node, ast.expr | ast.stmt) or node is tree:
            continue
        for describe, change in _changes(node):
            changed = copy.deepcopy(tree)
            place = next(one for number, one in enumerate(ast.walk(changed)) if number == at)
            replaced = _Replace(place, change(copy.deepcopy(place))).visit(changed)
            ast.fix_missing_locations(replaced)
            yield Mutant(_compiled(function, replaced), node.lineno, describe)


def survivors(agreement: Agreement) -> tuple[Mutant, ...]:
    """The mutants that `agree` takes for right: holes in the cases, or the same as the original.

    The kernel runs once; only the mutants run again. One that raises, or does not end, is noticed.

    Args:
        agreement: what was compared, from `recorded_agreements()`.
    """
    results = kernel_results(agreement.kernel, agreement.cases)
    return tuple(one for one in mutants(agreement.pseudocode) if not _is_noticed(one, agreement, results))


def _is_noticed(mutant: Mutant, agreement: Agreement, results: Sequence[dict[str, Any]]) -> bool:
    try:
        with np.errstate(all="ignore"):
            compare(
                mutant.function, agreement.kernel, agreement.cases, results, agreement.rtol, agreement.atol
            )
    except Exception:
        return True
    return False


def _changes(node: ast.AST) -> Iterator[_Change]:
    if isinstance(node, ast.expr):
        yield from _expression_changes(node)
    elif isinstance(node, ast.AugAssign):
        other = _OPERATORS.get(type(node.op))
        if other is not None:
            yield _said(node, _with(op=other()))
        yield _said(node, _plain_assignment)
        yield _dropped(node)
    elif isinstance(node, _LINES) or (
        isinstance(node, ast.Expr) and not isinstance(node.value, ast.Constant)
    ):
        yield _dropped(node)


def _expression_changes(node: ast.expr) -> Iterator[_Change]:
    match node:
        case ast.BinOp() if type(node.op) in _OPERATORS:
            yield _said(node, _with(op=_OPERATORS[type(node.op)]()))
        case ast.Compare() if type(node.ops[0]) in _COMPARISONS:
            yield _said(node, _with(ops=[_COMPARISONS[type(node.ops[0])](), *node.ops[1:]]))
        case ast.Constant() if isinstance(node.value, int | float) and not isinstance(node.value, bool):
            yield _said(node, _with(value=node.value + 1))
        case ast.UnaryOp(op=ast.USub() | ast.Not()):
            yield _said(node, lambda one: one.operand)  # type: ignore[attr-defined]
        case ast.BoolOp():
            yield _said(node, _with(op=ast.Or() if isinstance(node.op, ast.And) else ast.And()))
        case ast.IfExp():
            yield _said(node, _with(body=node.orelse, orelse=node.body))
        case ast.Subscript():
            yield from _index_changes(node)
        case ast.Call():
            yield from _call_changes(node)


def _index_changes(node: ast.Subscript) -> Iterator[_Change]:
    if isinstance(node.slice, ast.Tuple):
        elements = node.slice.elts
        if len(elements) > 1 and ast.dump(elements[0]) != ast.dump(elements[1]):
            swapped = ast.Tuple([elements[1], elements[0], *elements[2:]], ast.Load())
            yield _said(node, _with(slice=swapped))
        for at, element in enumerate(elements):
            if not isinstance(element, ast.Slice):
                moved = [*elements[:at], _less_one(element), *elements[at + 1 :]]
                yield _said(node, _with(slice=ast.Tuple(moved, ast.Load())))
    elif not isinstance(node.slice, ast.Slice):
        yield _said(node, _with(slice=_less_one(node.slice)))


def _call_changes(node: ast.Call) -> Iterator[_Change]:
    called = node.func
    name = (
        called.id
        if isinstance(called, ast.Name)
        else called.attr
        if isinstance(called, ast.Attribute)
        else ""
    )
    if name in _CALLS:
        other: ast.expr
        if isinstance(called, ast.Attribute):
            other = ast.Attribute(called.value, _CALLS[name], ast.Load())
        else:
            other = ast.Name(_CALLS[name], ast.Load())
        if isinstance(called, ast.Attribute) or name in ("max", "min"):
            yield _said(node, _with(func=other))
    if name in _LOOPS:
        for at, argument in enumerate(node.args):
            shorter = [*node.args[:at], _less_one(argument), *node.args[at + 1 :]]
            yield _said(node, _with(args=shorter))


def _said(node: ast.AST, change: Callable[[ast.AST], ast.AST]) -> _Change:
    changed = ast.fix_missing_locations(change(copy.deepcopy(node)))
    return (f"{_first_line(node)} -> {_first_line(changed)}", change)


def _dropped(node: ast.AST) -> _Change:
    return (f"without: {_first_line(node)}", lambda _: ast.Pass())


def _first_line(node: ast.AST) -> str:
    return ast.unparse(node).splitlines()[0]


def _with(**fields: Any) -> Callable[[ast.AST], ast.AST]:
    def change(node: ast.AST) -> ast.AST:
        for name, value in fields.items():
            setattr(node, name, copy.deepcopy(value))
        return node

    return change


def _plain_assignment(node: ast.AST) -> ast.AST:
    assert isinstance(node, ast.AugAssign)
    return ast.Assign([node.target], node.value)


def _less_one(index: ast.expr) -> ast.expr:
    return ast.BinOp(copy.deepcopy(index), ast.Sub(), ast.Constant(1))


class _Replace(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self.old, self.new = old, new

    def visit(self, node: ast.AST) -> Any:
        if node is self.old:
            return ast.copy_location(self.new, node)
        return self.generic_visit(node)


class _CountTurns(ast.NodeTransformer):
    def visit_For(self, node: ast.For) -> ast.AST:
        return self._counted(node)

    def visit_While(self, node: ast.While) -> ast.AST:
        return self._counted(node)

    def _counted(self, node: ast.For | ast.While) -> ast.AST:
        self.generic_visit(node)
        turn = ast.Expr(ast.Call(ast.Name("__turn", ast.Load()), [], []))
        node.body.insert(0, ast.copy_location(turn, node))
        return node


def _compiled(original: Callable[..., Any], tree: ast.FunctionDef) -> Callable[..., Any]:
    counted = ast.fix_missing_locations(_CountTurns().visit(tree))
    code = compile(ast.Module([counted], []), place_of(original)[0], "exec")
    turns = 0

    def turn() -> None:
        nonlocal turns
        turns += 1
        if turns > LOOP_LIMIT:
            raise LoopLimitError(f"more than {LOOP_LIMIT} turns of its loops")

    namespace = {**original.__globals__, **inspect.getclosurevars(original).nonlocals, "__turn": turn}
    exec(code, namespace)
    made: Callable[..., Any] = namespace[original.__name__]
    return made
