"""Declarations and the bodies of functions in PTX.

In: text between braces. Out: registers, variables, instructions and labels. Names in scopes within a
body are made unique; source lines come from ``.loc``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from tilewise.simulator.ptx.ptx import Instruction, PtxError, Variable, type_bytes

_LOC = re.compile(r"\.loc\s+(\d+)\s+(\d+)\s")
_CALL = re.compile(r"inlined_at\s+(\d+)\s+(\d+)")
_HEADER = re.compile(r"header\s+(\S+)")
_BRACE = re.compile("[{}]")
_GROUPED = re.compile(r"[{\[(]")
_GUARD = re.compile(r"@(!?)\s*([%\w$.]+)\s+")
_PIECE = re.compile(
    r"\s*(?:"
    r"(?P<loc>\.loc\s[^\n]*)"
    r"|(?P<file>\.(?:file|section)[^\n]*)"
    r"|(?P<table>[\w$]+:\s*\.branchtargets\s+[^;]*;)"
    r"|(?P<proto>[\w$]+\s*:\s*\.callprototype\s+[^;]*;)"
    r"|(?P<label>[\w$]+):"
    r"|(?P<open>\{)"
    r"|(?P<close>\})"
    r"|(?P<statement>[^;{}]*(?:\{[^{}]*\}[^;{}]*)*;)"
    r")"
)
VARIABLE = re.compile(
    r"(?:\.(?:visible|extern|weak|common)\s+)*\.(global|shared|const|local|param)\s+"
    r"(?:\.align\s+(\d+)\s+)?(?:\.attribute\([^)]*\)\s+)?\.(\w+)\s+"
    r"((?:\.ptr\s+(?:\.\w+\s+)?(?:\.align\s+\d+\s+)?)?)"
    r"([\w$%.]+)((?:\[\d*\])*)\s*(?:=\s*(.*))?$",
    re.S,
)


def closing(text: str, start: int) -> int:
    """The position of the brace that closes the one at ``start``."""
    depth = 0
    for brace in _BRACE.finditer(text, start):
        depth += 1 if brace[0] == "{" else -1
        if depth == 0:
            return brace.start()
    raise PtxError("a brace is not closed")


def variable(match: re.Match[str]) -> Variable:
    """The variable of a match of ``VARIABLE``."""
    space, align, kind, _, name, dims, initial = match.groups()
    count = 1
    for size in re.findall(r"\[(\d*)\]", dims):
        count *= int(size or 0)
    values: tuple[int | str, ...] = ()
    if initial:
        values = tuple(_element(part.strip()) for part in initial.strip("{} \n").split(","))
    return Variable(name, space, kind, count, int(align or type_bytes(kind)), values)


def _element(text: str) -> int | str:
    """A number, or the address of a variable or a function, with an offset."""
    match = re.fullmatch(r"(?:generic\()?([A-Za-z_$][\w$.]*)\)?(?:\s*\+\s*(\d+))?", text)
    if match and not text.startswith(("0f", "0F", "0d", "0D")):
        return f"{match[1]}+{match[2] or 0}"
    return _integer(text)


def _integer(text: str) -> int:
    if text.startswith(("0f", "0F", "0d", "0D")):
        return int(text[2:], 16)
    return int(text.rstrip("U"), 0)


class Body:
    """Reads a function's body statement by statement, keeping scopes of inline assembly apart."""

    def __init__(self, source_file: int, headers: Mapping[int, str]) -> None:
        self.source_file, self.headers = source_file, headers
        self.registers: dict[str, str] = {}
        self.variables: list[Variable] = []
        self.instructions: list[Instruction] = []
        self.labels: dict[str, int] = {}
        self.targets: dict[str, tuple[str, ...]] = {}
        self.line, self.header, self.is_near = 0, "", False
        self.calls: tuple[int, ...] = ()
        self.scopes: list[dict[str, str]] = []
        self.scope_count = 0

    def read(self, text: str) -> None:
        """Read the text between a function's braces."""
        position = 0
        while match := _PIECE.match(text, position):
            position = match.end()
            kind = match.lastgroup
            piece = match.group(kind).strip() if kind else ""
            if kind == "loc":
                self._loc(piece)
            elif kind == "table":
                name, rest = piece.split(":", 1)
                self.targets[self._local(name.strip())] = tuple(
                    part.strip() for part in rest.split(".branchtargets", 1)[1].rstrip(";").split(",")
                )
            elif kind == "label":
                self.labels[self._local(piece)] = len(self.instructions)
            elif kind == "open":
                self._open(text[position : closing(text, position - 1)])
            elif kind == "close":
                self.scopes.pop()
            elif kind == "statement":
                self._statement(piece.rstrip(";").strip())
        if text[position:].strip():
            raise PtxError(f"cannot read: {text[position:].strip()[:80]}")

    def _open(self, inside: str) -> None:
        """Begin a scope; its labels are local, and jumps may precede them."""
        self.scope_count += 1
        names = re.findall(r"(?:^|[;{}\n])\s*([A-Za-z_$][\w$]*)\s*:(?!:)", inside)
        self.scopes.append({name: f"{name}.{self.scope_count}" for name in names})

    def _loc(self, piece: str) -> None:
        match = _LOC.match(piece)
        if not match:
            return
        number, line = int(match[1]), int(match[2])
        calls = tuple(int(call) for file, call in _CALL.findall(piece) if int(file) == self.source_file)
        self.is_near = not line
        if number in self.headers and line:
            self.header = f"{self.headers[number]}:{line}"
        elif number == self.source_file:
            within = _HEADER.search(piece)
            self.header = within[1] if within else ""
        if number == self.source_file and (line or calls):
            self.line, self.calls = line, calls
        elif calls:
            self.line, self.calls, self.is_near = calls[0], calls[1:], False
        elif not self.line and self.calls:  # moved or merged code after an inlined function
            self.line, self.calls = self.calls[-1], ()

    def _local(self, name: str) -> str:
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        return name

    def _statement(self, piece: str) -> None:
        if not piece:
            return
        if piece.startswith(".reg"):
            self._register(piece)
            return
        if piece.startswith("."):
            if piece.startswith(".pragma"):
                return
            match = VARIABLE.match(piece)
            if not match:
                raise PtxError(f"unknown directive: {piece[:80]}")
            self.variables.append(self._scoped(variable(match)))
            return
        self._instruction(piece)

    def _scoped(self, variable: Variable) -> Variable:
        if not self.scopes:
            return variable
        unique = f"{variable.name}.{self.scope_count}"
        self.scopes[-1][variable.name] = unique
        return Variable(
            unique, *[getattr(variable, part) for part in ("space", "type", "count", "align", "initial")]
        )

    def _register(self, piece: str) -> None:
        match = re.match(r"\.reg\s+(?:\.v\d\s+)?\.(\w+)\s+(.*)", piece, re.S)
        if not match:
            raise PtxError(f"unknown register declaration: {piece[:80]}")
        kind, names = match.groups()
        for name in (part.strip() for part in names.split(",")):
            base = name.split("<")[0]
            if self.scopes:
                unique = f"{base}.{self.scope_count}"
                self.scopes[-1][base] = unique
                self.registers[unique] = kind
            else:
                self.registers[base] = kind

    def _instruction(self, piece: str) -> None:
        predicate, negated = "", False
        if guard := _GUARD.match(piece):
            negated, predicate = bool(guard[1]), self._local(guard[2])
            piece = piece[guard.end() :]
        opcode, _, rest = piece.partition(" ") if " " in piece else piece.partition("\t")
        if "\t" in opcode:
            opcode, _, extra = opcode.partition("\t")
            rest = f"{extra} {rest}"
        operands = tuple(self._operand(part) for part in _split(rest))
        self.instructions.append(
            Instruction(
                tuple(opcode.strip().split(".")),
                operands,
                predicate,
                negated,
                self.line,
                " ".join(piece.split()),
                self.calls,
                self.header,
                self.is_near,
            )
        )

    def _operand(self, text: str) -> str:
        if not self.scopes:
            return text
        return re.sub(r"[%$A-Za-z_][\w$]*", lambda match: self._local(match[0]), text)


def _split(text: str) -> list[str]:
    if not _GROUPED.search(text):
        return [part.strip() for part in text.split(",") if part.strip()]
    parts: list[str] = []
    depth = 0
    current = ""
    for mark in text:
        if mark in "{[(":
            depth += 1
        elif mark in "}])":
            depth -= 1
        if mark == "," and depth == 0:
            parts.append(current.strip())
            current = ""
        else:
            current += mark
    if current.strip():
        parts.append(current.strip())
    return parts
