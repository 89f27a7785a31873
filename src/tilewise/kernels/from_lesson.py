"""Kernels and launch functions that a Further page imports from its lesson.

In: a lesson and names in it. Out: their values, or the code that they depend on. Only the imports and the
statements that the names depend on run: no check, figure or measurement of the lesson.
"""

from __future__ import annotations

import ast
from typing import Any

from tilewise.measurements.archive import lesson_root
from tilewise.measurements.definitions import statements_reached


def from_lesson(lesson: str, *names: str) -> tuple[Any, ...]:
    """The values of names defined in another lesson.

    Args:
        lesson: the lesson's id, e.g. ``attention/hopper``.
        *names: kernels, functions and constants to import.

    Raises:
        NameError: the lesson does not define one of them.
    """
    path = lesson_root().absolute() / f"{lesson}.py"
    body = ast.parse(path.read_text(encoding="utf-8")).body
    reached = statements_reached(names, body)
    imports = [statement for statement in body if isinstance(statement, ast.Import | ast.ImportFrom)]
    wanted = [statement for statement in body if statement in imports or statement in reached]
    scope: dict[str, Any] = {"__name__": lesson.replace("/", "."), "__file__": str(path)}
    exec(compile(ast.Module(wanted, []), str(path), "exec"), scope)
    if missing := [name for name in names if name not in scope]:
        raise NameError(f"lessons/{lesson}.py does not define {', '.join(missing)}")
    return tuple(scope[name] for name in names)


def with_taken_over(code: str) -> str:
    """A cell's code with each of its ``from_lesson`` calls replaced by the other lesson's statements.

    So a record is stale when those statements change, and stays current when they move between the lessons.
    """
    if "from_lesson(" not in code:
        return code
    lines = code.split("\n")
    for statement in reversed(ast.parse(code).body):
        if (imported := _imported_code(statement)) is not None:
            lines[statement.lineno - 1 : statement.end_lineno] = imported.split("\n")
    return "\n".join(lines)


def _imported_code(statement: ast.stmt) -> str | None:
    """The code behind ``here, ... = from_lesson("part/lesson", "there", ...)``; None for other statements."""
    match statement:
        case ast.Assign(
            targets=[ast.Tuple(elts=own)],
            value=ast.Call(func=ast.Name(id="from_lesson"), args=[ast.Constant(value=str(lesson)), *args]),
        ):
            names = [ast.literal_eval(arg) for arg in args]
        case _:
            return None
    text = (lesson_root() / f"{lesson}.py").read_text(encoding="utf-8")
    reached = statements_reached(names, ast.parse(text).body)
    lines = text.split("\n")
    starts = [min(node.lineno for node in [s, *getattr(s, "decorator_list", [])]) for s in reached]
    there = ["\n".join(lines[start - 1 : s.end_lineno]) for start, s in zip(starts, reached, strict=True)]
    pairs = [(ast.unparse(here), name) for here, name in zip(own, names, strict=True)]
    renamed = [f"{here} = {name}" for here, name in pairs if here != name]
    return with_taken_over("\n".join(there + renamed))
