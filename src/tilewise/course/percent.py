"""Jupytext's percent format: splits a lesson's file into cells, without executing anything.

In: text. Out: cells with their line numbers, the same cells as jupytext's ``py:percent`` reader returns (a
test compares them). Options on ``# %%`` lines are validated here.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Sequence

from tilewise.course.model import Cell, Kind
from tilewise.errors import LessonError, nearest

_MARKER = re.compile(r"^\s*# ?%%(?!%)(?P<rest>.*)$")
_OPTION = re.compile(r'\s*(?P<key>[A-Za-z_][\w-]*)=(?:"(?P<quoted>(?:[^"\\]|\\.)*)"|(?P<bare>\S+))')
_KIND = re.compile(r"\s*\[(?P<kind>\w+)\]")
_PACKAGES = ("gpu", "cupy", "jax", "numba", "nvdisasm", "nvrtc", "scipy", "torch", "triton")
_OPTIONS = ("tab", "needs", "record", "title", "fold")


def parse_cells(lines: Sequence[str], skip: int, path: str) -> tuple[Cell, ...]:
    """Split a file into cells.

    Raises:
        LessonError: code before the first marker, a wrong option, a prose line that is no comment, or a
            syntax error in a code cell.
    """
    marked = [at for at in range(skip, len(lines)) if _MARKER.match(lines[at])]
    starts = _outside_strings(marked, _tree(lines, path), path)
    for at in starts:
        if not lines[at].startswith("#"):
            repair = "Begin it at the margin, or word the comment otherwise."
            raise LessonError(path, at + 1, 'a "# %%" line is indented.', repair)
    for at in range(skip, starts[0] if starts else len(lines)):
        if lines[at].strip():
            repair = 'Put a line "# %%" (code) or "# %% [markdown]" (prose) above it.'
            raise LessonError(path, at + 1, "this is in no cell.", repair)
    ends = [*starts[1:], len(lines)][: len(starts)]
    return tuple(_cell(lines, start, end, path) for start, end in zip(starts, ends, strict=True))


def _tree(lines: Sequence[str], path: str) -> ast.Module:
    """The syntax tree of a file; warnings, such as of an unknown escape in a string, are errors."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", SyntaxWarning)
            warnings.simplefilter("error", DeprecationWarning)
            tree = ast.parse("\n".join(lines), filename=path)
            compile(tree, path, "exec", dont_inherit=True)
        return tree
    except SyntaxError as error:
        line = error.lineno or 1
        _check_prose(lines, line, path)
        shown = lines[line - 1].strip() if 0 < line <= len(lines) else ""
        shown = shown if len(shown) <= 80 else f"{shown[:80]} …"
        repair = f"It reads: {shown}" if shown else ""
        raise LessonError(path, line, f"the code is not valid Python: {error.msg}.", repair) from None
    except (ValueError, RecursionError, MemoryError):
        sources = [(at, line) for at, line in enumerate(lines, start=1) if not line.startswith("#")]
        at = max(sources, key=lambda entry: len(entry[1]))[0] if sources else 1
        message = "the code is nested too deeply for Python; this is its longest line."
        raise LessonError(path, at, message, "Write it in several statements.") from None


def _check_prose(lines: Sequence[str], line: int, path: str) -> None:
    """Report a syntax error in a prose cell as a line without a comment sign."""
    marker = next((entry for entry in reversed(lines[:line]) if _MARKER.match(entry)), "")
    if "[markdown]" in marker and not lines[line - 1].startswith("#"):
        _uncommented(lines[line - 1], line, path)


def _outside_strings(starts: list[int], tree: ast.Module, path: str) -> list[int]:
    """The markers that are not inside a multi-line string."""
    spans = [(node, node.lineno, node.end_lineno or node.lineno) for node in tree.body]
    outside = []
    for at in starts:
        around = next((node for node, first, last in spans if first <= at < last), None)
        if around is None:
            outside.append(at)
        elif not any(
            isinstance(node, ast.Constant | ast.JoinedStr) and node.lineno <= at < (node.end_lineno or 0)
            for node in ast.walk(around)
        ):
            repair = "Move it between statements, or word the comment otherwise."
            raise LessonError(path, at + 1, "a cell begins in the middle of a statement.", repair)
    return outside


def _cell(lines: Sequence[str], start: int, end: int, path: str) -> Cell:
    kind, options = _marker(lines[start], start + 1, path)
    first, last = start + 1, end - 1
    while first <= last and not lines[first].strip():
        first += 1
    while last >= first and not lines[last].strip():
        last -= 1
    body = lines[first : last + 1]
    if kind == "markdown":
        body = [_uncommented(line, first + at + 1, path) for at, line in enumerate(body)]
    return Cell(
        path=path,
        first_line=start + 1,
        last_line=max(last, start) + 1,
        kind=kind,
        source="\n".join(body),
        source_line=first + 1,
        tab=options.get("tab", ""),
        needs=tuple(options.get("needs", "").split()),
        record=options.get("record", ""),
        title=options.get("title", ""),
        fold=options.get("fold", ""),
    )


def _uncommented(line: str, number: int, path: str) -> str:
    if line.startswith("# "):
        return line[2:]
    if line.startswith("#"):
        return line[1:]
    if not line.strip():
        return ""
    raise LessonError(
        path,
        number,
        "a line of prose is no comment.",
        'Start it with "# ", or begin a code cell above it with a line "# %%".',
    )


def _marker(line: str, number: int, path: str) -> tuple[Kind, dict[str, str]]:
    """The kind and the options on a ``# %%`` line."""
    match = _MARKER.match(line)
    rest = match["rest"] if match else ""
    kind: Kind = "code"
    options: dict[str, str] = {}
    while rest.strip():
        if option := _KIND.match(rest):
            if option["kind"] not in ("markdown", "md"):
                raise LessonError(path, number, f"a cell cannot be [{option['kind']}].", "Write [markdown].")
            kind = "markdown"
        elif option := _OPTION.match(rest):
            key = option["key"]
            if key not in _OPTIONS:
                repair = nearest(key, _OPTIONS)
                raise LessonError(path, number, f'a cell has no option "{key}".', repair)
            if key in options:
                raise LessonError(path, number, f'the cell has "{key}" twice.', "Keep one.")
            if option["quoted"] is None:
                repair = f'Write {key}="{option["bare"]}".'
                raise LessonError(path, number, f'the value of "{key}" has no quotes.', repair)
            options[key] = re.sub(r"\\(.)", r"\1", option["quoted"])
        else:
            repair = 'Options look like tab="CUDA C"; prose goes into the lines below.'
            raise LessonError(path, number, f'"{rest.strip()}" is no cell option.', repair)
        rest = rest[option.end() :]
    if kind == "markdown" and options:
        name = next(iter(options))
        raise LessonError(path, number, f'a prose cell takes no "{name}".', "Give it to a code cell.")
    for name in options.get("needs", "").split():
        if name not in _PACKAGES:
            repair = nearest(name, _PACKAGES)
            raise LessonError(path, number, f'"needs" names "{name}", which is no package it knows.', repair)
    if options.get("record") and not options.get("needs"):
        repair = 'Say what it stands in for, e.g. needs="gpu".'
        raise LessonError(path, number, '"record" without "needs".', repair)
    return kind, options
