"""What a Further page takes over from its lesson: its kernels, and the functions that launch them.

In: a lesson and names in it. Out: their values, or the code that they rest on. Only the imports run, and the
statements that the names rest on: no check, no figure and no measurement of the lesson.
"""

from __future__ import annotations

import ast
from typing import Any

from tilewise.measurements.archive import lesson_root
from tilewise.measurements.definitions import statements_reached


def from_lesson(lesson: str, *names: str) -> tuple[Any, ...]:
    """The values of names of another lesson, as its file has them.

    Args:
        lesson: the lesson's id, e.g. ``attention/hopper``.
        *names: what to take: kernels, functions, constants.

    Raises:
        NameError: the lesson does not define one of them.
    """
    path = lesson_root().absolute() / f"{lesson}.py"
    body = ast.parse(path.read_text(encoding="utf-8")).body
    reached = statements_reached(names, body)
    imports = [one for one in body if isinstance(one, ast.Import | ast.ImportFrom)]
    wanted = [one for one in body if one in imports or one in reached]
    scope: dict[str, Any] = {"__name__": lesson.replace("/", "."), "__file__": str(path)}
    exec(compile(ast.Module(wanted, []), str(path), "exec"), scope)
    if missing := [name for name in names if name not in scope]:
        raise NameError(f"lessons/{lesson}.py does not define {', '.join(missing)}")
    return tuple(scope[name] for name in names)


def with_taken_over(code: str) -> str:
    """A cell's code with the other lesson's statements in place of each ``from_lesson`` of its own.

    So a record that rests on them is stale when they change there, and holds if they stood here before.
    """
    if "from_lesson(" not in code:
        return code
    lines = code.split("\n")
    for statement in reversed(ast.parse(code).body):
        if (taken := _taken_over(statement)) is not None:
            lines[statement.lineno - 1 : statement.end_lineno] = taken.split("\n")
    return "\n".join(lines)


def _taken_over(statement: ast.stmt) -> str | None:
    """What stands for ``here, ... = from_lesson("part/lesson", "there", ...)``; None for other statements."""
    match statement:
        case ast.Assign(
            targets=[ast.Tuple(elts=own)],
            value=ast.Call(func=ast.Name(id="from_lesson"), args=[ast.Constant(value=str(lesson)), *args]),
        ):
            names = [ast.literal_eval(one) for one in args]
        case _:
            return None
    text = (lesson_root() / f"{lesson}.py").read_text(encoding="utf-8")
    reached = statements_reached(names, ast.parse(text).body)
    lines = text.split("\n")
    first = [min([one, *getattr(one, "decorator_list", [])], key=lambda node: node.lineno) for one in reached]
    there = ["\n".join(lines[a.lineno - 1 : one.end_lineno]) for a, one in zip(first, reached, strict=True)]
    pairs = [(ast.unparse(here), name) for here, name in zip(own, names, strict=True)]
    renamed = [f"{here} = {name}" for here, name in pairs if here != name]
    return with_taken_over("\n".join(there + renamed))
