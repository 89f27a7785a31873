"""The declarations at the top level of a CUDA file, and which of them a GPU has no use for.

In: the text of a file. Out: its pieces with their lines, and the text with some pieces blank, so that every
line keeps its number. Only brackets, directives and a few words are read; what a piece means, clang says.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from tilewise.cuda.kernel_source import without_comments

FOR_DEVICES = re.compile(r"__(?:global|device|constant|managed|shared)__")
"""CUDA's words for what a GPU runs or holds."""
_STRING = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|R"\((?:.|\n)*?\)"')
_OPENS_A_SPACE = re.compile(r'\s*(?:(?:inline\s+)?namespace\b[\w\s:]*|extern\s*" "\s*)\Z')
_TYPE = re.compile(r"(?:^|[\s>;])(?:struct|class|union|enum|typedef|concept)\b")
_DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", re.M)
_NAMESPACE = re.compile(r"\bnamespace\b\s*([\w:]*)\s*\Z")
_HOLDER = re.compile(r"\b(?:struct|class|union|namespace|extern)\b")
MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)(.*)$", re.M)
"""A macro's name, and the rest of its line."""
_FUNCTION = re.compile(r"(?P<name>\w+)\s*\((?P<taken>[^()]*(?:\([^()]*\)[^()]*)*)\)\s*\Z")
"""The end of a function's head."""


@dataclass(frozen=True)
class Piece:
    """A declaration, a definition or a call of a macro at the top level, or within a namespace."""

    first: int
    """Its first line, counted from 1."""
    last: int
    """Its last line."""
    text: str
    """Its text without comments and strings."""
    begin: int
    """Where it begins in the text, in characters from 0."""
    spaces: tuple[str, ...]
    """The namespaces around it that have a name, from the outermost."""

    @cached_property
    def head(self) -> str:
        """What stands before its body."""
        return self.text.partition("{")[0]

    @cached_property
    def name(self) -> str:
        """The name of the function that it defines; empty where it has none."""
        found = _FUNCTION.search(self.head)
        return found["name"] if found else ""

    @cached_property
    def taken(self) -> str:
        """The parameters of that function, as written."""
        found = _FUNCTION.search(self.head)
        return found["taken"] if found else ""

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
    """The pieces of a text in their order.

    Of the branches of a condition that begins within a piece, the first one decides where it ends.
    """
    plain = _STRING.sub(_blank, without_comments(text, in_columns=True))
    found: list[Piece] = []
    spaces: list[str] = []
    start, depth, round_, at = 0, 0, 0, 0
    conditions: list[tuple[int, int, int | None]] = []

    def close(end: int) -> None:
        nonlocal start
        body = _DIRECTIVE.sub(lambda one: re.sub(r"[^\n]", " ", one[0]), plain[start:end])
        if body.strip() not in ("", ";"):
            begin = start + len(body) - len(body.lstrip())
            first, last = (plain.count("\n", 0, at) + 1 for at in (begin, end))
            names = tuple(name for name in spaces if name)
            found.append(Piece(first, last, body.strip(), begin, names))
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
    return found


def _condition(
    word: str, conditions: list[tuple[int, int, int | None]], depth: int, round_: int
) -> tuple[int, int]:
    """How deep the text is behind a directive."""
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


def _blank(found: re.Match[str]) -> str:
    """A string with spaces in it."""
    return '"' + re.sub(r"[^\n]", " ", found[0][1:-1]) + '"'


def _outside(text: str) -> str:
    """A text without what is between angle brackets."""
    return re.sub(r"<[^<>;{}]*>", "", text)


def _is_type(head: str) -> bool:
    return bool(
        _TYPE.search(re.sub(r"\b(?:template\s*<[^{}]*?>\s*)", " ", _outside(f" {head}")).split("(")[0])
    )


def _ends(text: str) -> bool:
    """Whether a piece whose braces are closed ends with them: a function does, a type or a list not."""
    head = text.partition("{")[0]
    if _is_type(head) and "(" not in _outside(head):
        return False
    return not re.search(r"=\s*\Z", _outside(head))


def _is_a_call(before: str, after: str) -> bool:
    """Whether a line break ends the call of a macro that has no semicolon."""
    text = _code(before).strip()
    if not re.fullmatch(r"[A-Za-z_]\w*\s*\(.*\)", text, re.S) or text.count("(") != text.count(")"):
        return False
    following = re.match(r"\s*(\S)", after)
    return following is None or following[1] not in "{:;"


def device_macros(text: str) -> re.Pattern[str]:
    """What a piece for devices has in it: CUDA's words, and macros of the text that stand for them."""
    known = FOR_DEVICES
    plain = without_comments(text).replace("\\\n", "  ")
    for _ in range(4):
        names = sorted({one[1] for one in MACRO.finditer(plain) if known.search(one[2])})
        known = re.compile("|".join([FOR_DEVICES.pattern, *(rf"\b{name}\b" for name in names)]))
    return known


def host_pieces(text: str, every: Iterable[Piece]) -> Iterator[Piece]:
    """The pieces of a text that only a CPU runs: functions without a word for devices, and variables."""
    device = device_macros(text)
    for piece in every:
        if device.search(piece.text) or "constexpr" in piece.head:
            continue
        if piece.is_function or (piece.is_variable and not re.search(r"\bconst\b", piece.head)):
            yield piece


def without_host_body(text: str, line: int, device: re.Pattern[str] = FOR_DEVICES) -> str | None:
    """The text without the body of the host's member function around a line.

    Args:
        text: CUDA C.
        line: the line, counted from 1.
        device: what a function for the GPU has in its head.

    Returns:
        The text, as many lines; None where the line is in no such body.
    """
    plain = _STRING.sub(_blank, without_comments(text, in_columns=True))
    starts = [0, *(one.end() for one in re.finditer("\n", text))]
    if not 0 < line <= len(starts):
        return None
    low = starts[line - 1]
    high = starts[line] if line < len(starts) else len(text)
    opened: list[tuple[int, int]] = []  # where each brace is, and where its head begins
    since = 0
    for found in re.finditer(r"[{};]", plain):
        at = found.start()
        if found[0] == "{":
            opened.append((at, since))
        elif found[0] == "}" and opened:
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
    """Whether a body with this head is a function's that no GPU runs."""
    before, opened, _ = head.partition("(")
    return bool(opened) and "=" not in before and "constexpr" not in head and not device.search(head)


def _holds(head: str) -> bool:
    """Whether a brace with this head is a type's or a namespace's."""
    return bool(_HOLDER.search(head)) and "(" not in head


def without_inactive(text: str) -> str:
    """The text with lines blank that conditions like ``#ifdef DOUBLE`` and ``#if 0`` leave out.

    A name counts as defined where a line above defines it. Other conditions leave their lines as they are.
    """
    defined = {"__CUDACC__"}
    open_: list[tuple[bool | None, bool]] = []  # as _branch says of each condition that is not closed
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
    """Whether a condition holds, None where that is not plain to see, and whether its branch is left out."""
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
    """The text with lines blank, but for directives: conditions stay balanced and macros defined."""
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
