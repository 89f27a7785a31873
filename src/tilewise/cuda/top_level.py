"""The top-level declarations of a CUDA file, and which of them are only for the host.

In: the text of a file. Out: its pieces with their lines, and the text with some pieces blanked, so that every
line keeps its number. Only brackets, directives and a few words are parsed; clang does the rest.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from tilewise.cuda.kernel_source import without_comments

FOR_DEVICES = re.compile(r"__(?:global|device|constant|managed|shared)__")
"""CUDA's qualifiers for device code and data."""
_STRING = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|R"\((?:.|\n)*?\)"')
_OPENS_A_SPACE = re.compile(r'\s*(?:(?:inline\s+)?namespace\b[\w\s:]*|extern\s*" "\s*)\Z')
_TYPE = re.compile(r"(?:^|[\s>;])(?:struct|class|union|enum|typedef|concept)\b")
_DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", re.M)
_NAMESPACE = re.compile(r"\bnamespace\b\s*([\w:]*)\s*\Z")
_HOLDER = re.compile(r"\b(?:struct|class|union|namespace|extern)\b")
MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)(.*)$", re.M)
"""A macro's name, and the rest of its line."""
_FUNCTION = re.compile(r"(?P<name>\w+)\s*\((?P<taken>[^()]*(?:\([^()]*\)[^()]*)*)\)\s*\Z")
"""The end of a function's header."""


@dataclass(frozen=True)
class Piece:
    """A declaration, definition or macro call at the top level or in a namespace."""

    first: int
    """Its first line, counted from 1."""
    last: int
    """Its last line."""
    text: str
    """Its text without comments and strings."""
    begin: int
    """Its offset in the text, in characters."""
    spaces: tuple[str, ...]
    """The named namespaces around it, outermost first."""

    @cached_property
    def head(self) -> str:
        """The text before its body."""
        return self.text.partition("{")[0]

    @cached_property
    def name(self) -> str:
        """The name of the function that it defines; empty if none."""
        match = _FUNCTION.search(self.head)
        return match["name"] if match else ""

    @cached_property
    def taken(self) -> str:
        """The parameters of the function, as written."""
        match = _FUNCTION.search(self.head)
        return match["taken"] if match else ""

    @property
    def is_function(self) -> bool:
        """Whether it defines a function."""
        head = re.sub(r"\b(?:__attribute__|alignas|decltype|__launch_bounds__)\s*\(", "", self.head)
        return (
            "{" in self.text
            and "(" in head
            and not _is_type(self.head)
            and "=" not in _outside(head).split("(")[0]
        )

    @property
    def is_variable(self) -> bool:
        """Whether it defines variables that are not constant."""
        head = self.head
        if _is_type(head) or re.search(r"\b(?:using|template|namespace|static_assert|friend)\b", head):
            return False
        return "(" not in _outside(head) and len(re.findall(r"\w+", head)) > 1


def pieces(text: str) -> list[Piece]:
    """Return the pieces of a text in order.

    If a preprocessor condition begins in a piece, its first branch decides where the piece ends.
    """
    plain = _STRING.sub(_blank, without_comments(text, in_columns=True))
    result: list[Piece] = []
    spaces: list[str] = []
    start, depth, round_, at = 0, 0, 0, 0
    conditions: list[tuple[int, int, int | None]] = []

    def close(end: int) -> None:
        nonlocal start
        body = _DIRECTIVE.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), plain[start:end])
        if body.strip() not in ("", ";"):
            begin = start + len(body) - len(body.lstrip())
            first, last = (plain.count("\n", 0, at) + 1 for at in (begin, end))
            names = tuple(name for name in spaces if name)
            result.append(Piece(first, last, body.strip(), begin, names))
        start = end

    while at < len(plain):
        sign = plain[at]
        if sign == "#" and not plain[plain.rfind("\n", 0, at) + 1 : at].strip():
            line = _DIRECTIVE.match(plain, plain.rfind("\n", 0, at) + 1)
            end = line.end() if line else at + 1
            word = re.match(r"#[ \t]*(\w+)", plain[at:end])
            depth, round_ = _condition(word[1] if word else "", conditions, depth, round_)
            if depth == 0 and round_ == 0 and not plain[start:at].strip():
                start = min(end + 1, len(plain))
            at = end
            continue
        if sign in "([":
            round_ += 1
        elif sign in ")]":
            round_ = max(round_ - 1, 0)
        elif sign == "{":
            head = _code(plain[start:at]) if depth == 0 and round_ == 0 else ""
            if _OPENS_A_SPACE.match(head):
                start = at + 1
                named = _NAMESPACE.search(head)
                spaces.append(named[1] if named else "")
            else:
                depth += 1
        elif sign == "}":
            if depth == 0:
                start = at + 1  # the end of a namespace
                del spaces[-1:]
            else:
                depth -= 1
                if depth == 0 and round_ == 0 and _ends(_code(plain[start : at + 1])):
                    close(at + 1)
        elif sign == ";" and depth == 0 and round_ == 0:
            close(at + 1)
        elif sign == "\n" and depth == 0 and round_ == 0 and _is_a_call(plain[start:at], plain[at:]):
            close(at)
        at += 1
    close(len(plain))
    return result


def _condition(
    word: str, conditions: list[tuple[int, int, int | None]], depth: int, round_: int
) -> tuple[int, int]:
    """The nesting depths after a directive."""
    if word in ("if", "ifdef", "ifndef"):
        conditions.append((depth, round_, None))
    elif word in ("elif", "else") and conditions:
        before, round_before, first = conditions[-1]
        conditions[-1] = (before, round_before, depth if first is None else first)
        return before, round_before
    elif word == "endif" and conditions:
        _, _, first = conditions.pop()
        return (depth if first is None else first), round_
    return depth, round_


def _code(text: str) -> str:
    return _DIRECTIVE.sub("", text)


def _blank(match: re.Match[str]) -> str:
    """A string literal with its content replaced by spaces."""
    return '"' + re.sub(r"[^\n]", " ", match[0][1:-1]) + '"'


def _outside(text: str) -> str:
    """A text without its parts in angle brackets."""
    return re.sub(r"<[^<>;{}]*>", "", text)


def _is_type(head: str) -> bool:
    return bool(
        _TYPE.search(re.sub(r"\b(?:template\s*<[^{}]*?>\s*)", " ", _outside(f" {head}")).split("(")[0])
    )


def _ends(text: str) -> bool:
    """Whether a piece ends at its closing brace: functions do, types and initialisers do not."""
    head = text.partition("{")[0]
    if _is_type(head) and "(" not in _outside(head):
        return False
    return not re.search(r"=\s*\Z", _outside(head))


def _is_a_call(before: str, after: str) -> bool:
    """Whether a line break ends a macro call without a semicolon."""
    text = _code(before).strip()
    if not re.fullmatch(r"[A-Za-z_]\w*\s*\(.*\)", text, re.S) or text.count("(") != text.count(")"):
        return False
    following = re.match(r"\s*(\S)", after)
    return following is None or following[1] not in "{:;"


def device_macros(text: str) -> re.Pattern[str]:
    """Return a pattern for device code: CUDA's qualifiers, and the text's macros that expand to them."""
    known = FOR_DEVICES
    plain = without_comments(text).replace("\\\n", "  ")
    for _ in range(4):
        names = sorted({macro[1] for macro in MACRO.finditer(plain) if known.search(macro[2])})
        known = re.compile("|".join([FOR_DEVICES.pattern, *(rf"\b{name}\b" for name in names)]))
    return known


def host_pieces(text: str, every: Iterable[Piece]) -> Iterator[Piece]:
    """Yield the host-only pieces of a text: functions without device qualifiers, and variables."""
    device = device_macros(text)
    for piece in every:
        if device.search(piece.text) or "constexpr" in piece.head:
            continue
        if piece.is_function or (piece.is_variable and not re.search(r"\bconst\b", piece.head)):
            yield piece


def without_host_body(text: str, line: int, device: re.Pattern[str] = FOR_DEVICES) -> str | None:
    """Return the text without the body of the host member function around a line.

    Args:
        text: CUDA C.
        line: the line, counted from 1.
        device: a pattern for the header of device functions.

    Returns:
        The text with the same number of lines; None if the line is in no such body.
    """
    plain = _STRING.sub(_blank, without_comments(text, in_columns=True))
    starts = [0, *(match.end() for match in re.finditer("\n", text))]
    if not 0 < line <= len(starts):
        return None
    low = starts[line - 1]
    high = starts[line] if line < len(starts) else len(text)
    opened: list[tuple[int, int]] = []  # offsets of each open brace and of its header
    since = 0
    for bracket in re.finditer(r"[{};]", plain):
        at = bracket.start()
        if bracket[0] == "{":
            opened.append((at, since))
        elif bracket[0] == "}" and opened:
            begin, head = opened.pop()
            around = [plain[first:brace] for brace, first in opened]
            inside = head < high and at >= low and opened
            if inside and _is_host_function(plain[head:begin], device) and all(map(_holds, around)):
                first = begin + 1 if plain[begin + 1 : at].strip() else head
                end = at if first > head else at + 1
                return text[:first] + re.sub(r"[^\n]", " ", text[first:end]) + text[end:]
        since = at + 1
    return None


def _is_host_function(head: str, device: re.Pattern[str]) -> bool:
    """Whether a body with this header belongs to a host-only function."""
    before, opened, _ = head.partition("(")
    return bool(opened) and "=" not in before and "constexpr" not in head and not device.search(head)


def _holds(head: str) -> bool:
    """Whether a brace with this header opens a type or a namespace."""
    return bool(_HOLDER.search(head)) and "(" not in head


def without_inactive(text: str) -> str:
    """Return the text with lines blanked that conditions like ``#ifdef DOUBLE`` and ``#if 0`` exclude.

    A name counts as defined if a line above defines it. Lines in other conditions are unchanged.
    """
    defined = {"__CUDACC__"}
    open_: list[tuple[bool | None, bool]] = []  # results of _branch for each open condition
    lines = text.split("\n")
    for at, line in enumerate(lines):
        word = re.match(r"\s*#\s*(ifdef|ifndef|if|elif|else|endif)\b\s*(.*)", line)
        if not word:
            if any(is_out for _, is_out in open_):
                lines[at] = ""
            elif macro := re.match(r"\s*#\s*(define|undef)\s+(\w+)", line):
                (defined.add if macro[1] == "define" else defined.discard)(macro[2])
        elif word[1] in ("ifdef", "ifndef", "if"):
            open_.append(_branch(word[1], word[2].strip(), defined))
        elif open_ and word[1] == "endif":
            open_.pop()
        elif open_:
            holds = open_[-1][0]
            open_[-1] = (holds, bool(holds)) if word[1] == "else" or holds else (None, False)
    return "\n".join(lines)


def _branch(word: str, condition: str, defined: set[str]) -> tuple[bool | None, bool]:
    """Whether a condition holds (None if unknown), and whether its branch is excluded."""
    name = re.fullmatch(r"(!?)\s*defined\s*\(?\s*(\w+)\s*\)?", condition)
    if word != "if":
        holds = (condition.split(" ", maxsplit=1)[0] in defined) == (word == "ifdef")
    elif name:
        holds = (name[2] in defined) != bool(name[1])
    elif condition in ("0", "1"):
        holds = condition == "1"
    else:
        return None, False
    return holds, not holds


def blanked(text: str, ranges: Iterable[tuple[int, int]]) -> str:
    """Return the text with lines blanked except directives: conditions stay balanced, macros defined."""
    lines = text.split("\n")
    for first, last in ranges:
        in_directive = False
        for at in range(first - 1, min(last, len(lines))):
            bare = lines[at].lstrip()
            in_directive = in_directive or (bare.startswith("#") and not re.match(r"#\s*pragma\b", bare))
            going_on = lines[at].endswith("\\")
            if not in_directive:
                lines[at] = ""
            in_directive = in_directive and going_on
    return "\n".join(lines)
