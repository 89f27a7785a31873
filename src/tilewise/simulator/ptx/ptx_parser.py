"""Parses the text of a PTX module into functions and variables.

In: the PTX that clang prints. Out: ``Ptx``. Knows the grammar but not what instructions do.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from tilewise.cuda.headers import OWN_FILE
from tilewise.simulator.ptx.lines import with_lines
from tilewise.simulator.ptx.ptx import Function, Ptx, PtxError, Variable
from tilewise.simulator.ptx.ptx_body import VARIABLE, Body, closing, variable

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
_INLINED = re.compile(r"\.loc\s+(?P<file>\d+)\s+(?P<line>\d+)\s+\d+[ \t]*//(?P<calls>[^\n]*@\[[^\n]*)")
"""A line in an inlined function; clang lists its calls in a comment, innermost first."""
_CALL = re.compile(r"@\[ kernel\.cu:(\d+):")
_FRAME = re.compile(r"(?:^|@\[) *([^\s:]+):(\d+)")
_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"(?:[^"]*/)?([^"/]+)"', re.M)


def parse(text: str, source_file: int = 1, headers: Collection[str] = ()) -> Ptx:
    """Parse a PTX module.

    Args:
        text: the module, as printed by clang.
        source_file: number of the user's ``.file``; lines of other files (headers) are replaced by the line
            of the call in the user's file, if clang names it.
        headers: names of the user's own headers; instructions include their places in them.

    Raises:
        PtxError: a directive or a type is unknown.
    """
    body = _INLINED.sub(lambda match: _in_the_source(match, source_file, headers), text)
    files = {int(number): name for number, name in _FILE.findall(text) if name in headers}
    body = _COMMENT.sub("", body)
    functions: dict[str, Function] = {}
    externs: set[str] = set()
    variables: list[Variable] = []
    for statement in _statements(body):
        head = statement.head
        if re.search(r"\.(entry|func)\b", head):
            function = _function(head, statement.body, source_file, files)
            if statement.body is None:
                externs.add(function.name)
            else:
                functions[function.name] = function
        elif match := VARIABLE.match(head):
            variables.append(variable(match))
        elif not re.match(
            r"\.(version|target|address_size|file|section|pragma|noreturn|alias|weak|explicitcluster)", head
        ):
            raise PtxError(f"unknown directive: {head[:80]}")
    return Ptx(functions, frozenset(externs - functions.keys()), tuple(variables))


def _in_the_source(match: re.Match[str], source_file: int, headers: Collection[str]) -> str:
    """The ``.loc`` of an inlined line: the innermost line of the source, and the calls leading to it."""
    lines = _CALL.findall(match["calls"])
    if int(match["file"]) == source_file:
        lines.insert(0, match["line"])
    if not lines:
        return match[0]
    own, *outer = lines
    called = "".join(f", inlined_at {source_file} {line} 0" for line in outer)
    frames = _FRAME.findall(match["calls"].strip()) if headers else []
    within = next(((name, line) for name, line in frames if name in headers or name == OWN_FILE), ("", "0"))
    header = f", header {within[0]}:{within[1]}" if within[0] in headers and int(within[1]) else ""
    return f".loc {source_file} {own} 0{called}{header}"


@dataclass(frozen=True)
class _Statement:
    head: str
    body: str | None


def _statements(text: str) -> list[_Statement]:
    """Top-level statements, with a function's body separate from its head."""
    statements: list[_Statement] = []
    position = 0
    while True:
        while position < len(text) and text[position].isspace():
            position += 1
        if position >= len(text):
            return statements
        directive = re.match(r"\.(version|target|address_size|file)[^\n]*", text[position:])
        if directive:
            position += directive.end()
            continue
        end = position
        depth = 0
        while end < len(text):
            mark = text[end]
            if mark == "(":
                depth += 1
            elif mark == ")":
                depth -= 1
            elif depth == 0 and mark in ";{":
                break
            end += 1
        head = text[position:end].strip()
        if end < len(text) and text[end] == "{" and "=" not in head:
            close = closing(text, end)
            if not head.startswith(".section"):
                statements.append(_Statement(head, text[end + 1 : close]))
            position = close + 1
        elif end < len(text) and text[end] == "{":  # an initialiser
            close = closing(text, end)
            statements.append(_Statement(text[position : close + 1].strip(), None))
            position = text.find(";", close) + 1
        else:
            if head:
                statements.append(_Statement(head, None))
            position = end + 1


def _function(head: str, body: str | None, source_file: int, headers: Mapping[int, str]) -> Function:
    match = re.match(
        r"(?:\.(?:visible|extern|weak)\s+)*\.(entry|func)\s*(\([^)]*\))?\s*([\w$]+)\s*(\((?:[^)]*)\))?",
        head,
        re.S,
    )
    if not match:
        raise PtxError(f"unknown function head: {head[:80]}")
    kind, results, name, parameters = match.groups()

    def declared(part: str | None) -> tuple[Variable, ...]:
        inner = (part or "()").strip()[1:-1]
        return tuple(
            variable(declaration)
            for piece in inner.split(",")
            if (declaration := VARIABLE.match(piece.strip()))
        )

    parsed = Body(source_file, headers)
    if body is not None:
        parsed.read(body)
    return Function(
        name,
        kind == "entry",
        declared(parameters),
        declared(results),
        parsed.registers,
        tuple(parsed.variables),
        with_lines(parsed.instructions),
        parsed.labels,
        parsed.targets,
    )
