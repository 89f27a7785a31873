"""The text of a PTX module, taken apart: functions, variables and instructions with their source lines.

In: the PTX that clang prints. Out: frozen dataclasses, with names still as text. Knows the grammar and
nothing of what an instruction does; ``program`` gives instructions a meaning.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field


class PtxError(Exception):
    """PTX that this parser does not know; carries the PTX line."""


@dataclass(frozen=True)
class Variable:
    """A variable in some state space, or a parameter."""

    name: str
    """Its name in the PTX."""
    space: str
    """``global``, ``shared``, ``const``, ``local`` or ``param``."""
    type: str
    """Element type, such as ``b8`` or ``f32``."""
    count: int
    """Elements; 1 for a scalar and 0 for an array of unknown length (dynamic shared memory)."""
    align: int
    """Alignment in bytes."""
    initial: tuple[int, ...] = ()
    """Initial elements as integers; missing ones are zero."""

    @property
    def size_bytes(self) -> int:
        """Bytes that it takes."""
        return self.count * type_bytes(self.type)


@dataclass(frozen=True)
class Instruction:
    """One instruction: ``@!p opcode operands`` and where it comes from."""

    opcode: tuple[str, ...]
    """The mnemonic cut at its dots: ``("ld", "global", "v2", "f32")``."""
    operands: tuple[str, ...]
    """Operand texts; a vector ``{a, b}`` and an address ``[r+4]`` are one each."""
    predicate: str
    """The guarding predicate register, or empty."""
    negated: bool
    """Whether the guard is negated."""
    line: int
    """Line in the user's source, 0 where the compiler gives none."""
    text: str
    """The instruction as printed, for messages."""
    caller: int = 0
    """Line that the function was called from which has this instruction, where that was inlined; else 0."""


@dataclass(frozen=True)
class Function:
    """An entry point or a device function."""

    name: str
    """Its name as written."""
    is_entry: bool
    """Whether it can be launched."""
    parameters: tuple[Variable, ...]
    """In order."""
    results: tuple[Variable, ...]
    """Return values (device functions only)."""
    registers: dict[str, str]
    """Register prefix or name to type: ``{"%r": "b32"}``."""
    variables: tuple[Variable, ...]
    """Variables declared in the body."""
    instructions: tuple[Instruction, ...]
    """In order."""
    labels: dict[str, int]
    """Label to the index of the instruction after it."""
    targets: dict[str, tuple[str, ...]]
    """Branch tables of ``brx.idx``."""


@dataclass(frozen=True)
class Ptx:
    """A module."""

    functions: dict[str, Function] = field(default_factory=dict)
    """Those with a body, by name."""
    externs: frozenset[str] = frozenset()
    """Functions declared but not defined: what the machine itself has to carry out."""
    variables: tuple[Variable, ...] = ()
    """Variables of the module."""


_BYTES = {"pred": 1, "8": 1, "16": 2, "32": 4, "64": 8, "128": 16}


def type_bytes(name: str) -> int:
    """Bytes of a PTX type such as ``f32``, ``bf16x2`` or ``b64``."""
    if name == "pred":
        return 1
    if name.endswith("x2"):
        return 2 * type_bytes(name[:-2])
    digits = re.search(r"\d+$", name)
    if not digits or digits[0] not in _BYTES:
        raise PtxError(f"unknown type .{name}")
    return _BYTES[digits[0]]


_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
_CALLED = re.compile(r"(\.loc\s+\d+\s+\d+\s+\d+)[ \t]*//[^\n]*@\[ kernel\.cu:(\d+):\d+[ \]]+(?=\n)")
"""Where clang says in a comment which line of the kernel called the function that a line is in."""
_LOC = re.compile(
    r"\.loc\s+(\d+)\s+(\d+)\s+\d+(?:,\s*function_name\s+\S+,\s*inlined_at\s+(\d+)\s+(\d+)\s+\d+)?"
)
_VARIABLE = re.compile(
    r"(?:\.(?:visible|extern|weak|common)\s+)*\.(global|shared|const|local|param)\s+"
    r"(?:\.align\s+(\d+)\s+)?(?:\.attribute\([^)]*\)\s+)?\.(\w+)\s+((?:\.ptr\s+(?:\.\w+\s+)?(?:\.align\s+\d+\s+)?)?)"
    r"([\w$%.]+)((?:\[\d*\])*)\s*(?:=\s*(.*))?$",
    re.S,
)


def parse(text: str, source_file: int = 1) -> Ptx:
    """Take a PTX module apart.

    Args:
        text: the module as clang prints it.
        source_file: number of the ``.file`` that is the user's own; the lines of other files (headers) are
            replaced by the place of the call in the user's file where clang gives it.

    Raises:
        PtxError: a directive or a type that is not known.
    """
    body = _CALLED.sub(rf"\1, function_name $f, inlined_at {source_file} \2 0", text)
    body = _COMMENT.sub("", body)
    functions: dict[str, Function] = {}
    externs: set[str] = set()
    variables: list[Variable] = []
    for statement in _statements(body):
        head = statement.head
        if re.search(r"\.(entry|func)\b", head):
            function = _function(head, statement.body, source_file)
            if statement.body is None:
                externs.add(function.name)
            else:
                functions[function.name] = function
        elif match := _VARIABLE.match(head):
            variables.append(_variable(match))
        elif not re.match(
            r"\.(version|target|address_size|file|section|pragma|noreturn|alias|weak|explicitcluster)", head
        ):
            raise PtxError(f"unknown directive: {head[:80]}")
    return Ptx(functions, frozenset(externs - functions.keys()), tuple(variables))


@dataclass(frozen=True)
class _Statement:
    head: str
    body: str | None


def _statements(text: str) -> list[_Statement]:
    """Top-level statements; a function's body comes apart from its head."""
    found: list[_Statement] = []
    position = 0
    while True:
        while position < len(text) and text[position].isspace():
            position += 1
        if position >= len(text):
            return found
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
            close = _closing(text, end)
            if not head.startswith(".section"):
                found.append(_Statement(head, text[end + 1 : close]))
            position = close + 1
        elif end < len(text) and text[end] == "{":  # an initialiser
            close = _closing(text, end)
            found.append(_Statement(text[position : close + 1].strip(), None))
            position = text.find(";", close) + 1
        else:
            if head:
                found.append(_Statement(head, None))
            position = end + 1


def _closing(text: str, start: int) -> int:
    depth = 0
    for position in range(start, len(text)):
        if text[position] == "{":
            depth += 1
        elif text[position] == "}":
            depth -= 1
            if depth == 0:
                return position
    raise PtxError("a brace is not closed")


def _variable(match: re.Match[str]) -> Variable:
    space, align, kind, _, name, dims, initial = match.groups()
    count = 1
    for size in re.findall(r"\[(\d*)\]", dims):
        count *= int(size or 0)
    values: tuple[int, ...] = ()
    if initial:
        values = tuple(_integer(part) for part in re.findall(r"[-\w]+", initial))
    return Variable(name, space, kind, count, int(align or type_bytes(kind)), values)


def _integer(text: str) -> int:
    if text.startswith(("0f", "0F", "0d", "0D")):
        return int(text[2:], 16)
    return int(text.rstrip("U"), 0)


def _function(head: str, body: str | None, source_file: int) -> Function:
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
            _variable(found) for piece in inner.split(",") if (found := _VARIABLE.match(piece.strip()))
        )

    parsed = _Body(source_file)
    if body is not None:
        parsed.read(body)
    return Function(
        name,
        kind == "entry",
        declared(parameters),
        declared(results),
        parsed.registers,
        tuple(parsed.variables),
        tuple(parsed.instructions),
        parsed.labels,
        parsed.targets,
    )


class _Body:
    """Reads a function's body statement by statement, keeping scopes of inline assembly apart."""

    def __init__(self, source_file: int) -> None:
        self.source_file = source_file
        self.registers: dict[str, str] = {}
        self.variables: list[Variable] = []
        self.instructions: list[Instruction] = []
        self.labels: dict[str, int] = {}
        self.targets: dict[str, tuple[str, ...]] = {}
        self.line, self.caller = 0, 0
        self.scopes: list[dict[str, str]] = []
        self.scope_count = 0

    def read(self, text: str) -> None:
        position = 0
        pattern = re.compile(
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
        while match := pattern.match(text, position):
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
                self._open(text[position : _closing(text, position - 1)])
            elif kind == "close":
                self.scopes.pop()
            elif kind == "statement":
                self._statement(piece.rstrip(";").strip())
        if text[position:].strip():
            raise PtxError(f"cannot read: {text[position:].strip()[:80]}")

    def _open(self, inside: str) -> None:
        """Begin a scope: its labels are its own, and may be jumped to before they stand."""
        self.scope_count += 1
        names = re.findall(r"(?:^|[;{}\n])\s*([A-Za-z_$][\w$]*)\s*:(?!:)", inside)
        self.scopes.append({name: f"{name}.{self.scope_count}" for name in names})

    def _loc(self, piece: str) -> None:
        match = _LOC.match(piece)
        if not match:
            return
        number, line, outer_file, outer_line = match.groups()
        if int(number) == self.source_file and int(line):
            self.line = int(line)
            self.caller = int(outer_line) if outer_file and int(outer_file) == self.source_file else 0
        elif outer_file and int(outer_file) == self.source_file and int(outer_line):
            self.line, self.caller = int(outer_line), 0

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
            match = _VARIABLE.match(piece)
            if not match:
                raise PtxError(f"unknown directive: {piece[:80]}")
            self.variables.append(self._scoped(_variable(match)))
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
        if guard := re.match(r"@(!?)\s*([%\w$.]+)\s+", piece):
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
                self.caller,
            )
        )

    def _operand(self, text: str) -> str:
        if not self.scopes:
            return text
        return re.sub(r"[%$A-Za-z_][\w$]*", lambda match: self._local(match[0]), text)


def _split(text: str) -> list[str]:
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
