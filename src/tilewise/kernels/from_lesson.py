"""What a Further page takes over from its lesson: its kernels, and the functions that launch them.

In: a lesson and names in it. Out: their values. Only the imports run, and the statements that the names rest
on: no check, no figure and no measurement of the lesson.
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
