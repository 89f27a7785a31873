"""Going on with a lesson script on a GPU machine that has no compiler for the simulator.

In: the exception that ended a lesson run as a script. Out: the rest of the script is carried out statement by
statement; what needs the simulator, and what builds on it, is left out and said. Any other fault ends the
script as always.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

from tilewise.simulator.toolchain import ToolchainError


def offer() -> None:
    """Go on after the coming ``ToolchainError`` if the program is a lesson, run as a script beside a GPU."""
    from tilewise.gpu.device import gpu_here

    if _lesson() is not None and sys.excepthook is sys.__excepthook__ and gpu_here():
        sys.excepthook = _go_on


def _lesson() -> Path | None:
    name = getattr(sys.modules.get("__main__"), "__file__", None)
    if name is None or not Path(name).is_file():
        return None
    with Path(name).open("rb") as stream:
        return Path(name) if stream.readline().rstrip() == b"# ---" else None


def _go_on(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    path = _lesson()
    line = trace.tb_lineno if trace is not None else 0
    if path is None or not _lacks_compiler(error):
        sys.__excepthook__(kind, error, trace)
        return
    statements = ast.parse(path.read_text(encoding="utf-8")).body
    first = next((at for at, one in enumerate(statements) if _holds(one, line)), len(statements))
    print(f"tilewise: {error}", file=sys.stderr)
    left_out = statements[first : first + 1]
    tainted = {name for statement in left_out for name in _marked(statement)}
    for statement in statements[first + 1 :]:
        if _carry_out(statement, str(path), tainted):
            tainted -= set(_bound(statement))
        else:
            left_out.append(statement)
            tainted |= set(_marked(statement))
    places = ", ".join(str(statement.lineno) for statement in left_out)
    print(
        f"tilewise: left out for want of the simulator: {path.name}, statements at lines {places}.",
        file=sys.stderr,
    )
    sys.stdout.flush()
    raise SystemExit(0)


def _carry_out(statement: ast.stmt, path: str, tainted: set[str]) -> bool:
    """Run a statement in the script's namespace; False where it needs what was left out."""
    if not isinstance(statement, ast.FunctionDef | ast.ClassDef) and tainted & set(_read(statement)):
        return False
    try:
        exec(compile(ast.Module([statement], []), path, "exec"), vars(sys.modules["__main__"]))
    except SystemExit:
        raise
    except BaseException as error:
        if _lacks_compiler(error) or (isinstance(error, NameError) and error.name in tainted):
            return False
        sys.__excepthook__(type(error), error, error.__traceback__)
        raise SystemExit(1) from None
    return True


def _lacks_compiler(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, ToolchainError):
            return True
        error = error.__cause__ or error.__context__
    return False


def _holds(statement: ast.stmt, line: int) -> bool:
    return statement.lineno <= line <= (statement.end_lineno or statement.lineno)


def _marked(statement: ast.stmt) -> Iterator[str]:
    """Names that a statement, had it run, would have given a value or might have changed."""
    yield from _bound(statement)
    space = vars(sys.modules["__main__"])
    yield from (name for name in _read(statement) if _can_change(space.get(name)))


def _can_change(value: object) -> bool:
    return isinstance(value, list | dict | set) or hasattr(value, "__setitem__")


def _bound(statement: ast.stmt) -> Iterator[str]:
    """Names that a statement gives a value."""
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name


def _read(statement: ast.stmt) -> Iterator[str]:
    """Names that a statement looks up."""
    for node in ast.walk(statement):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
            yield node.id
