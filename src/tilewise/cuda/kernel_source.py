"""Parsing of a CUDA C string: its kernels with their parameters, and its tokens.

In: source text from a lesson. Out: what launches and pages need from it. Only declarations are parsed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tilewise.cuda.c_types import CType, c_type


class KernelError(ValueError):
    """A kernel's source, options or launch is wrong; the one-line message says how to fix it."""


@dataclass(frozen=True)
class Parameter:
    """A parameter of a kernel."""

    name: str
    """Its name."""
    ctype: str
    """Its type as written: `const float*`."""
    base: str
    """The pointed-to or plain type without qualifiers, aliases resolved: `float`."""
    is_pointer: bool
    """Whether an array is expected."""
    is_const: bool
    """Whether the data that it points to is read-only."""

    @cached_property
    def _known(self) -> CType | None:
        return c_type(self.base)

    @cached_property
    def dtype(self) -> np.dtype[Any] | None:
        """The element's NumPy type; None for void and for structs, whose layout only compilers know."""
        return self._known.dtype if self._known else None

    @cached_property
    def width(self) -> int:
        """Elements per value: 4 for float4 and float4*."""
        return self._known.width if self._known else 1


@dataclass(frozen=True)
class GlobalFunction:
    """A function that can be launched."""

    name: str
    """Its name."""
    line: int
    """Line of the name, counted from 1."""
    parameters: tuple[Parameter, ...]
    """Its parameters, in order."""
    max_threads: int | None
    """First argument of `__launch_bounds__`, if it is a number."""
    cluster: tuple[int, int, int] | None
    """`__cluster_dims__`, if given as numbers."""


_COMMENT_OR_STRING = re.compile(
    r'//[^\n]*|/\*.*?(?:\*/|\Z)|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.DOTALL
)
_TOKEN = re.compile(
    r'[A-Za-z_]\w*|\.?\d(?:[eEpP][+-]|[\w.])*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
    r"|<<<|>>>|<<=|>>=|\.\.\.|->\*?|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^]=|::|##|\S"
)
_HEADERS = ("<cuda_fp16.h>", "<cuda_bf16.h>")
_TAKES_A_FILE = re.compile(r"[ \t]*(?:#|%:)[ \t]*(?:include|include_next|import|embed)\b(?P<file>.*)")
_STRING = re.compile(r'"(?:\\.|[^"\\\n])*"')
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*\Z")
_WITH_PARENTHESES = {
    "__launch_bounds__",
    "__cluster_dims__",
    "__attribute__",
    "__maxnreg__",
    "__block_size__",
}
_QUALIFIERS = {"const", "volatile", "restrict", "__restrict__", "__restrict", "__grid_constant__", "struct"}


def without_comments(source: str, *, in_columns: bool = False) -> str:
    """The source with each comment replaced by a space; line numbers stay, and optionally columns."""

    def blank(match: re.Match[str]) -> str:
        text = match[0]
        if in_columns and text.startswith("/"):
            return re.sub(r"[^\n]", " ", text)
        return " " + "\n" * text.count("\n") if text.startswith("/") else text

    return _COMMENT_OR_STRING.sub(blank, source)


def check_includes(source: str, own: Iterable[str] = ()) -> None:
    """Reject includes of files that the backends do not both have.

    Args:
        source: CUDA C.
        own: names of the course's own headers.

    Raises:
        KernelError: the source includes, imports or embeds another one.
    """
    files = (*_HEADERS, *(f'"{name}"' for name in own))
    for number, line in enumerate(without_comments(source).split("\n"), start=1):
        directive = _TAKES_A_FILE.match(line)
        if directive is not None and directive["file"].strip() not in files:
            known = f"{', '.join(files[:-1])} and {files[-1]}"
            raise KernelError(
                f"line {number}: a kernel may include {known} only. Take this out: {line.strip()}"
            )


def tokens(source: str) -> tuple[str, ...]:
    """Return the tokens: equal for sources that differ only in comments, white space, regions and `#line`.

    A directive ends with its line, so its tokens are followed by a line break.
    """
    result: list[str] = []
    for line in without_comments(source).replace("\\\n", " ").split("\n"):
        bare = line.strip()
        if bare.startswith("#"):
            directive = _TOKEN.findall(bare)
            if directive[1:2] != ["line"]:
                result += [*directive, "\n"]
        else:
            result += _TOKEN.findall(bare)
    return tuple(result)


def global_functions(source: str, defines: Mapping[str, str] | None = None) -> tuple[GlobalFunction, ...]:
    """Find every `extern "C" __global__` function.

    Args:
        source: CUDA C.
        defines: texts of the macros defined before it.

    Raises:
        KernelError: a `__global__` function is a template, is not `extern "C"`, or has unreadable parameters.
    """
    text = without_comments(source)
    macros = _macros(text) | dict(defines or {})  # the given ones win: a text guards its own by #ifndef
    aliases = _aliases(text) | macros
    text = re.sub(
        r"^[ \t]*#(?:[^\n\\]|\\.|\\\n)*", lambda match: "\n" * match[0].count("\n"), text, flags=re.M
    )
    text = _STRING.sub(
        lambda match: match[0] if match[0] == '"C"' else '"' + " " * (len(match[0]) - 2) + '"', text
    )
    c_blocks = _extern_c_blocks(text)
    functions = []
    for match in re.finditer(r"\b__global__\b", text):
        start = max(text.rfind(end, 0, match.start()) for end in ";{}") + 1
        before = text[start : match.start()]
        parsed = _signature(text, match.end())
        if parsed is None:
            continue
        name, name_at, attributes, parameters = parsed
        if re.search(r"\btemplate\b", before):
            raise KernelError(
                f'kernel "{name}" is a template, which has no plain name to launch by. '
                'Make it extern "C" __global__ and put the template on a __device__ function that it calls.'
            )
        linked = re.search(r'\bextern\s*"C"', before) or any(
            first < name_at < last for first, last in c_blocks
        )
        if not linked:
            raise KernelError(
                f'kernel "{name}" is not extern "C", so its name is mangled. '
                f'Write: extern "C" __global__ void {name}(...)'
            )
        bounds = _numbers(attributes.get("__launch_bounds__", ""), macros)
        cluster = _numbers(attributes.get("__cluster_dims__", ""), macros)
        functions.append(
            GlobalFunction(
                name=name,
                line=text.count("\n", 0, name_at) + 1,
                parameters=tuple(_parameter(part, name, aliases) for part in split(parameters)),
                max_threads=bounds[0] if bounds else None,
                cluster=three(cluster) if cluster else None,
            )
        )
    return tuple(functions)


def define_lines(defines: Mapping[str, object]) -> str:
    """Return `#define` lines for the values, then `#line 1`, so that the source keeps its line numbers.

    Raises:
        KernelError: a name is not an identifier, or a value not a number, bool or one-line string.
    """
    if not defines:
        return ""
    lines = []
    for name, value in defines.items():
        if not _IDENTIFIER.match(name):
            raise KernelError(f"defines: {name!r} is not a C identifier. Rename it.")
        lines.append(f"#define {name} {define_text(name, value)}".rstrip() + "\n")
    return "".join(lines) + "#line 1\n"


def define_text(name: str, value: object) -> str:
    """Return the C text of a define's value: text is unchanged, True is 1, a float keeps all its digits."""
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str) and "\n" not in value:
        return value
    raise KernelError(f"defines: {name} is {value!r}. Give a number, a truth value or a one-line text.")


def known_types(source: str) -> dict[str, str]:
    """Return the values of a source's type aliases and macros, for parsing declarations of another source."""
    text = without_comments(source)
    return _aliases(text) | _macros(text)


def _macros(text: str) -> dict[str, str]:
    return dict(re.findall(r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+(.+?)[ \t]*$", text, re.M))


def _aliases(text: str) -> dict[str, str]:
    plain = re.findall(r"\btypedef\s+([\w\s]+?)\s+(\w+)\s*;", text)
    using = re.findall(r"\busing\s+(\w+)\s*=\s*([\w\s]+?)\s*;", text)
    return {name: base for base, name in plain} | dict(using)


def _extern_c_blocks(text: str) -> list[tuple[int, int]]:
    blocks = []
    for match in re.finditer(r'\bextern\s*"C"\s*\{', text):
        blocks.append((match.start(), _closing(text, match.end() - 1, "{", "}")))
    return blocks


def _closing(text: str, at: int, opens: str, closes: str) -> int:
    depth = 0
    for position in range(at, len(text)):
        if text[position] == opens:
            depth += 1
        elif text[position] == closes:
            depth -= 1
            if depth == 0:
                return position
    return len(text)


def _signature(text: str, at: int) -> tuple[str, int, dict[str, str], str] | None:
    """Name, its position, attributes with their arguments, and the text between the parentheses."""
    attributes: dict[str, str] = {}
    word = re.compile(r"\s*([A-Za-z_]\w*|\"C\"|\*|&|::|<[^<>]*>)")
    while match := word.match(text, at):
        at = match.end()
        opening = re.match(r"\s*\(", text[at:])
        if opening is None:
            continue
        first = at + opening.end()
        last = _closing(text, first - 1, "(", ")")
        if match[1] not in _WITH_PARENTHESES:
            return match[1], match.start(1), attributes, text[first:last]
        attributes[match[1]] = text[first:last]
        at = last + 1
    return None


def split(parameters: str) -> list[str]:
    """Split a list of parameters or declarators at commas outside brackets."""
    parts, depth, start = [], 0, 0
    for position, sign in enumerate(parameters):
        if sign in "([{<":
            depth += 1
        elif sign in ")]}>":
            depth -= 1
        elif sign == "," and depth == 0:
            parts.append(parameters[start:position])
            start = position + 1
    parts.append(parameters[start:])
    parts = [" ".join(part.split()) for part in parts]
    return [] if parts in ([""], ["void"]) else parts


def _parameter(text: str, kernel: str, aliases: Mapping[str, str]) -> Parameter:
    array = re.search(r"\[[^\]]*\]\s*$", text)
    words = _TOKEN.findall(text[: array.start()] if array else text)
    if (
        len(words) < 2
        or not _IDENTIFIER.match(words[-1])
        or words.count("*") + bool(array) > 1
        or "&" in words
    ):
        raise KernelError(
            f'kernel "{kernel}": cannot read the parameter "{text}". '
            "Write a type and a name, such as const float* x or int n."
        )
    name = words.pop()
    is_pointer = bool(array) or "*" in words
    pointee = words[: words.index("*")] if "*" in words else words
    base = " ".join(word for word in pointee if word not in _QUALIFIERS)
    for _ in range(8):
        if base not in aliases or aliases[base].strip() == base:
            break
        base = " ".join(word for word in aliases[base].split() if word not in _QUALIFIERS)
    shown = [word for word in words if "restrict" not in word and word != "__grid_constant__"]
    written = " ".join(shown).replace(" *", "*") + ("*" if array else "")
    return Parameter(name, written, base, is_pointer, is_pointer and "const" in pointee)


def _numbers(text: str, macros: Mapping[str, str]) -> tuple[int, ...]:
    numbers = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        value = macros.get(part, part).strip("() ")
        if not re.fullmatch(r"\d+[uU]?", value):
            return ()
        numbers.append(int(value.rstrip("uU")))
    return tuple(numbers)


def three(extents: Sequence[int]) -> tuple[int, int, int]:
    """Return extents along x, y and z; missing ones are 1."""
    x, y, z = [*extents, 1, 1][:3]
    return x, y, z
