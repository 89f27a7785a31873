"""A whole CUDA file, host code and all, as a text that compiles for the device alone.

In: the file's text, the kernel that is asked for, where its own headers are. Out: the text with what only a
CPU runs left blank, so that lines keep their numbers, and the kernels that clang finds in it. What clang
refuses outside of the kernel, and other kernels that no launch here can call, are listed with their reasons.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from tilewise.cuda.headers import FOLDER as SHARED_HEADERS
from tilewise.cuda.headers import OWN_FILE
from tilewise.cuda.headers import names as shared_headers
from tilewise.cuda.host_values import Scope
from tilewise.cuda.kernel_source import (
    GlobalFunction,
    KernelError,
    Parameter,
    known_types,
    three,
    without_comments,
)
from tilewise.cuda.launch_sites import launch_sites
from tilewise.cuda.top_level import (
    FOR_DEVICES,
    Piece,
    blanked,
    device_macros,
    host_pieces,
    pieces,
    without_host_body,
)
from tilewise.simulator.compile.compiler import (
    HEADERS,
    LACKS_RETURN,
    CompileError,
    Fault,
    faults_of,
    macros_of,
    place,
    repair_of,
    syntax_tree,
)

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(?P<file><[^>\n]+>|"[^"\n]+")[^\n]*$')
_ENDS_A_BRANCH = re.compile(r"[ \t]*#[ \t]*(?:else|elif|endif)\b")
_GLUED = re.compile(r'(?<=extern )"C"(?=\w)')
"""What C++ reads as a string with a suffix since 2011, and CUDA's compiler as two words."""
FOR_HOSTS = frozenset(Path(__file__).with_name("host_headers.txt").read_text(encoding="utf-8").split())
"""Headers that a kernel needs nothing of, or nothing that it does not have anyway."""
_WITHOUT_INCLUDE = {"cuda_fp16.h": r"\b(?:__)?half2?\b", "cuda_bf16.h": r"\b(?:__)?nv_bfloat162?\b"}
"""Headers that others bring along, by the words that need them."""
_NEAR = ("", "include", "inc", "common", "Common", "utils", "util", "utilities", "utility", "helper", "src")
"""Folders that have a file's headers, by the names that projects give them."""
_ROUNDS = 30
"""How often clang is asked; each time all that it refuses goes."""


@dataclass(frozen=True)
class LeftOut:
    """Something of a file that the device part does without, although it is no host code."""

    line: int
    """Its first line."""
    what: str
    """Its first words, or the name of a header."""
    reason: str
    """Why, as the compiler says it."""


@dataclass(frozen=True)
class DeviceKernel:
    """A kernel that a file has, compiled."""

    function: GlobalFunction
    """What it takes; its name is as one asks for it: ``sgemm<32, 64>``."""
    symbol: str
    """Its name in the PTX."""


@dataclass(frozen=True)
class DevicePart:
    """What of a file is for the device."""

    text: str
    """Compiles; line by line the file's."""
    kernels: Mapping[str, DeviceKernel]
    """By their names."""
    templates: Mapping[str, tuple[str, ...]]
    """Kernels that are templates, with the arguments that the file's own launches give them."""
    left_out: tuple[LeftOut, ...]
    """What was left out beside host code."""
    whole: str
    """The file with its own headers in place, host code and all, behind macros that conditions decide."""
    header: tuple[str, str] | None = None
    """Name and text of the header that has the kernel asked for; None where the file itself has it."""


@dataclass
class _Text:
    """A file with its own headers in place, line by line."""

    lines: list[str] = field(default_factory=list)
    origin: list[tuple[str, int]] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    seen: dict[Path, str] = field(default_factory=dict)
    """The headers of its own, with their texts."""

    def add(self, text: str, name: str, folder: Path | None) -> None:
        """Take a file in; what it includes comes in its place."""
        seen = without_comments(text, in_columns=True).split("\n")
        for number, (line, read) in enumerate(zip(text.split("\n"), seen, strict=True), start=1):
            found = _INCLUDE.match(read)
            kept = self._included(found["file"], number if name == OWN_FILE else 0, folder) if found else True
            self.lines.append(_GLUED.sub('"C" ', line) if kept else "")
            self.origin.append((name, number))

    def _included(self, file: str, line: int, folder: Path | None) -> bool:
        """Whether the compiler finds a header by itself; one of the file's own is taken in."""
        name = file[1:-1]
        if name in shared_headers():
            self._take_in(SHARED_HEADERS / name)
            return False
        if ".." not in name and not Path(name).is_absolute() and (HEADERS / name).is_file():
            return True
        path = _found(name, folder)
        if path is None and name.removesuffix(".h") not in FOR_HOSTS:
            self.left_out.append(LeftOut(line, f"#include {file}", "no such header is here"))
        elif path is not None:
            self._take_in(path)
        return False

    def _take_in(self, path: Path) -> None:
        if path not in self.seen:
            self.seen[path] = path.read_text(encoding="utf-8", errors="replace")
            self.add(self.seen[path], path.name, path.parent)

    def written(self, own: str) -> str:
        """The text with ``#line`` wherever the file changes; the file ``own`` has the name of a source.

        Also behind branches of conditions, as those that are not compiled may have held the last one.
        """
        out: list[str] = []
        several = len(self.seen) > 0
        before: tuple[str, int] | None = None
        for line, (name, number) in zip(self.lines, self.origin, strict=True):
            if before != (name, number - 1) and (before or (name, number) != (own, 1)):
                out.append(f'#line {number} "{_shown(name, own)}"')
            out.append(line)
            before = ("", 0) if several and _ENDS_A_BRANCH.match(line) else (name, number)
        return "\n".join(out)


def _shown(name: str, own: str) -> str:
    """What clang is told of a file: the one that has the kernel goes by the name of a source."""
    return OWN_FILE if name == own else "the file" if name == OWN_FILE else name


def _found(name: str, folder: Path | None) -> Path | None:
    """A header of the file's own: beside it, or in a folder above or near it."""
    if folder is None or Path(name).is_absolute():
        return None
    for base in (folder, *list(folder.resolve().parents)[:3]):
        for near in _NEAR:
            if (base / near / name).is_file():
                return (base / near / name).resolve()
    return None


def device_part(
    source: str,
    name: str | None,
    *,
    flags: tuple[str, ...],
    prelude: str = "",
    folder: Path | None = None,
    origin: tuple[str, int] | None = None,
) -> DevicePart:
    """What of a CUDA file is for the device.

    Args:
        source: the file's text.
        name: the kernel that is asked for, such as ``add``, ``ns::add`` or ``sgemm<32, 64>``; None: all that
            compile.
        flags: for clang.
        prelude: ``#define`` lines.
        folder: where the file's own headers are; None: it has none.
        origin: where the source stands, for messages. A source that does not compile by itself compiles as a
            part of the file nearby that includes it.

    Raises:
        CompileError: clang refuses the kernel that is asked for, or all of them.
        KernelError: no launch here can pass what the kernel that is asked for takes, or any of them.
        ToolchainError: clang is missing or broken.
    """
    try:
        return _device_part(source, name, flags, prelude, folder, origin, OWN_FILE)
    except (CompileError, KernelError):
        own = Path(origin[0]).name if origin else ""
        for path, text in _including(origin):
            with suppress(CompileError, KernelError):
                return _device_part(text, name, flags, prelude, path.parent, origin, own)
        raise


@lru_cache(maxsize=64)
def _device_part(
    source: str,
    name: str | None,
    flags: tuple[str, ...],
    prelude: str,
    folder: Path | None,
    origin: tuple[str, int] | None,
    part: str,
) -> DevicePart:
    whole = _Text()
    whole.add(source.removeprefix("\ufeff"), OWN_FILE, folder)
    text = "\n".join(whole.lines)
    every = pieces(text)
    whole_file = text if name else text + _launched_nearby(every, text, origin)
    launches = _launches(whole_file)
    missing = "".join(
        f"#include <{header}>\n" for header, words in _WITHOUT_INCLUDE.items() if re.search(words, text)
    )
    base = name.partition("<")[0].rpartition("::")[2].strip() if name else None
    functions = [one for one in every if one.is_function]
    asked = [one for one in functions if (_defines_kernel(one, base) if base else "__global__" in one.head)]
    is_sure = asked and part == OWN_FILE and (base or len(asked) == 1)
    own = whole.origin[asked[0].first - 1][0] if is_sure else part
    device = device_macros(text)
    host = {(one.first, one.last): one for one in host_pieces(text, every)}
    gone, declared = set(host), dict[tuple[int, int], str]()
    left_out = list(whole.left_out)
    wanted = f"template __global__ decltype({name}) {name};" if name and "<" in name else ""
    reasons: dict[tuple[int, int], list[Fault]] = {}
    for _ in range(_ROUNDS):
        shown = replace(whole, lines=_with_heads(blanked(text, gone), declared))
        written = f'{missing}#line 1 "{OWN_FILE}"\n' * bool(missing) + shown.written(own)
        whole_text = f"{prelude}#line 1\n{written}\n" + (f"{wanted}\n" if wanted else "")
        faults = faults_of(whole_text, flags)
        if not faults:
            break
        left = [
            one for one in every if (one.first, one.last) not in gone or (one.first, one.last) in declared
        ]
        again = _dropped(faults, shown, own, left)
        emptied = _without_host_bodies(text, again, device)
        if emptied != text:
            text, whole.lines = emptied, emptied.split("\n")
            continue
        if _declare(declared, again, host):
            continue
        fatal = [
            fault for piece, fault, _ in again if piece is None or (base and _defines_kernel(piece, base))
        ]
        if fatal:
            earlier = [fault for each in reasons.values() for fault in each]
            raise _refusal(fatal, earlier, origin, whole)
        for piece, fault, _ in again:
            assert piece is not None
            gone.add((piece.first, piece.last))
            reasons.setdefault((piece.first, piece.last), []).append(fault)
    else:
        raise _refusal(faults, [], origin, whole)
    by_place = {(one.first, one.last): one for one in every}
    for where, found in sorted(reasons.items()):
        piece = by_place[where]
        if FOR_DEVICES.search(piece.text):  # nobody would look for the others on a GPU
            left_out.append(_left_out(piece, whole, own, found[0].message))
    kernels: dict[str, DeviceKernel] = {}
    refused: dict[str, LeftOut] = {}
    own_pieces = [one for one in every if part in (OWN_FILE, whole.origin[one.first - 1][0])]
    for shown_name, made in _kernels(whole_text, flags, name, own_pieces, whole, own, part):
        if isinstance(made, DeviceKernel):
            kernels[shown_name] = made
        else:
            refused[shown_name] = made
    templates = _templates(own_pieces, gone, launches)
    if not kernels and not templates and not refused:
        devices = [where for where in reasons if FOR_DEVICES.search(by_place[where].head)]
        if not devices:
            raise KernelError("the source has no kernel. Write: __global__ void name(...) { ... }")
        raise _refusal([fault for where in devices for fault in reasons[where]], [], origin, whole)
    if name in refused or (refused and not kernels and not templates):
        unfit = name if name in refused else next(iter(refused))
        raise KernelError(
            f'kernel "{unfit}": {refused[unfit].reason}. Take one array and compute the places in it.'
        )
    left_out += refused.values()
    return DevicePart(
        f"{written}\n{wanted}",
        kernels,
        templates,
        tuple(left_out),
        _decided(whole_file, whole_text, flags),
        next(((own, held) for path, held in whole.seen.items() if path.name == own != part), None),
    )


def _decided(text: str, compiled: str, flags: tuple[str, ...]) -> str:
    """A file behind those of its macros that its conditions define in several ways, as they were compiled."""
    defined = Counter(re.findall(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", text, re.M))
    names = {name for name, count in defined.items() if count > 1}
    lines = macros_of(compiled, flags) if names else []
    return "".join(f"{one}\n" for one in lines if re.split(r"[\s(]", one)[1] in names) + text


def _left_out(piece: Piece, whole: _Text, own: str, reason: str) -> LeftOut:
    file, line = whole.origin[piece.first - 1]
    return LeftOut(line if file == own else 0, " ".join(piece.head.split())[:60], reason)


def _defines_kernel(piece: Piece, name: str) -> bool:
    return bool(re.search(rf"\b{name}\s*\(", piece.head))


def _dropped(
    faults: Sequence[Fault], shown: _Text, own: str, left: Sequence[Piece]
) -> list[tuple[Piece | None, Fault, int]]:
    """The piece that each fault is in, None where it is in none, and the line of the whole text."""
    physical = {(_shown(name, own), number): at for at, (name, number) in enumerate(shown.origin, start=1)}
    found: list[tuple[Piece | None, Fault, int]] = []
    for fault in faults:
        at = physical.get((fault.file, fault.line), 0)
        inside = [one for one in left if one.first <= at <= one.last]
        found.append((inside[0] if inside else None, fault, at))
    return found


def _with_heads(text: str, declared: Mapping[tuple[int, int], str]) -> list[str]:
    """The lines of a text with declarations of host functions where these were."""
    lines = text.split("\n")
    for (first, _), head in declared.items():
        lines[first - 1] += head
    return lines


def _without_host_bodies(
    text: str, faults: Sequence[tuple[Piece | None, Fault, int]], device: re.Pattern[str]
) -> str:
    """The text without the bodies of host functions inside types that a fault is in."""
    for piece, _, at in faults:
        if piece is not None and not piece.is_function:
            text = without_host_body(text, at, device) or text
    return text


_UNDECLARED = re.compile(r"use of undeclared identifier '(\w+)'")


def _declare(
    declared: dict[tuple[int, int], str],
    faults: Sequence[tuple[Piece | None, Fault, int]],
    host: Mapping[tuple[int, int], Piece],
) -> bool:
    """Declare the host functions that device code names, and forget those that cannot be declared.

    Returns:
        Whether anything has changed.
    """
    before = dict(declared)
    for piece, fault, _ in faults:
        if piece is not None and (piece.first, piece.last) in declared:
            declared[piece.first, piece.last] = ""
        elif missing := _UNDECLARED.search(fault.message):
            for where, one in host.items():
                if one.is_function and where not in declared and _defines_kernel(one, missing[1]):
                    declared[where] = " ".join(one.head.split()) + ";"
    return declared != before


def _refusal(
    faults: Sequence[Fault], earlier: Sequence[Fault], origin: tuple[str, int] | None, whole: _Text
) -> CompileError:
    """All that stands in the way, in one message."""
    root = [one for one in earlier if one.message == LACKS_RETURN]  # its callers only miss it
    first, *rest = dict.fromkeys([*root, *faults, *earlier])
    more = [
        f"{'' if one.file == OWN_FILE else f'{one.file}, '}line {one.line}: {one.message}" for one in rest[:8]
    ]
    also = f" Also, {'; '.join(more)}." if more else ""
    path, line = place(origin, first.line) if first.file == OWN_FILE else (first.file, first.line)
    text = dict(zip(whole.origin, whole.lines, strict=True))
    lines = (text.get((one.file, one.line), "") for one in (first, *rest))
    repair = next((one.repair for one in (first, *rest) if one.repair), "") or repair_of(*lines)
    missing = [
        one.what.removeprefix("#include ") for one in whole.left_out if one.what.startswith("#include")
    ]
    if missing and any(
        re.search("undeclared|unknown type|no template named", one.message) for one in (first, *rest)
    ):
        them = "them" if len(missing) > 1 else "it"
        others = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        found = f"The file includes {', '.join(missing[:3])}{others}, not found: put {them} beside the file."
        repair = f"{found} {repair}".strip()
    return CompileError(path, line, f"the kernel does not compile: {first.message}.{also}", repair)


def _near(origin: tuple[str, int] | None, pattern: str) -> Iterator[tuple[Path, str]]:
    """The sources beside a file, and those in the folder above, whose text has a pattern; with the text."""
    path = Path(origin[0] if origin else "").resolve()
    for folder in (path.parent, path.parent.parent) if path.is_file() else ():
        for one in sorted(folder.glob("*.c*")):
            if one.is_file() and one != path:
                text = one.read_text(encoding="utf-8", errors="replace")
                if re.search(pattern, without_comments(text), re.M):
                    yield one, text


def _including(origin: tuple[str, int] | None) -> Iterator[tuple[Path, str]]:
    """The sources nearby that include the one of an origin, and those that include these; with their text."""
    waiting, found = [Path(origin[0]).name if origin else ""], list[Path]()
    while waiting:
        pattern = rf'^[ \t]*#[ \t]*include[ \t]*"(?:[^"\n]*/)?{re.escape(waiting.pop(0))}"'
        for path, text in _near(origin, pattern):
            if path not in found:
                found.append(path)
                waiting.append(path.name)
                yield path, text


def _launched_nearby(every: Sequence[Piece], text: str, origin: tuple[str, int] | None) -> str:
    """The text of the first file nearby that launches a kernel of a file that launches none itself."""
    kernels = [one.name for one in every if "__global__" in one.head and one.name]
    launched = rf"\b(?:{'|'.join(kernels)})\s*(?:<[^;]*>\s*)?<<<"
    if not kernels or re.search(launched, text):
        return ""
    for path, found in _near(origin, launched):
        around = _Text()
        around.add(found, path.name, path.parent)
        return "\n".join(["", *around.lines])
    return ""


def _launches(text: str) -> dict[str, list[str]]:
    """The template arguments that launches give to each kernel, where the text says them."""
    found: dict[str, list[str]] = {}
    for one in launch_sites(text):
        if one.template and one.template not in found.setdefault(one.kernel, []):
            found[one.kernel].append(one.template)
    return found


def _templates(
    every: Sequence[Piece], gone: set[tuple[int, int]], launches: Mapping[str, Sequence[str]]
) -> dict[str, tuple[str, ...]]:
    found = {}
    for piece in every:
        is_template = "__global__" in piece.head and re.match(r"template\b", piece.head)
        if is_template and piece.name and (piece.first, piece.last) not in gone:
            given = launches.get(piece.name) or _simple(piece.head)
            found[piece.name] = tuple(f"{piece.name}{one}" for one in given)
    return found


def _simple(head: str) -> list[str]:
    """Arguments for a template that takes types and truth values only."""
    taken = re.match(r"template\s*<([^<>]*)>", head)
    kinds = [one.split()[0] for one in taken[1].split(",") if one.split()] if taken else []
    known = {"typename": "float", "class": "float", "bool": "true"}
    return [f"<{', '.join(known[one] for one in kinds)}>"] if kinds and set(kinds) <= known.keys() else []


def _kernels(
    text: str,
    flags: tuple[str, ...],
    name: str | None,
    every: Sequence[Piece],
    whole: _Text,
    own: str,
    part: str,
) -> Iterator[tuple[str, DeviceKernel | LeftOut]]:
    """The kernels that clang has made, from its syntax tree, and those that no launch here can call."""
    tree = syntax_tree(text, flags)
    aliases = known_types(text)
    aliases |= {key: kind for key, kind in _typedefs(tree) if key in aliases}
    for spaces, node in _functions(tree, ()):
        parts = node.get("inner", [])
        arguments = [one for one in parts if one["kind"] == "TemplateArgument"]
        plain = "::".join((*spaces, node["name"]))
        base = node["name"]
        shown = name if name and arguments and name.partition("<")[0].strip() == plain else plain
        defined = next((one for one in every if _defines_kernel(one, base)), None)
        if defined is None and name is None and part != OWN_FILE:
            continue
        bounds = next((one for one in parts if one["kind"] == "CUDALaunchBoundsAttr"), None)
        taken = {
            one.get("name", f"unnamed{at}"): _plain(one["type"]["qualType"])
            for at, one in enumerate(one for one in parts if one["kind"] == "ParmVarDecl")
        }
        if nested := next((one for one in taken.items() if one[1].count("*") > 1), None):
            reason = f"{nested[0]} is {nested[1]}, a pointer to pointers, which a launch here cannot pass"
            yield shown, _left_out(defined, whole, own, reason) if defined else LeftOut(0, shown, reason)
            continue
        function = GlobalFunction(
            name=shown,
            line=whole.origin[defined.first - 1][1] if defined else 1,
            parameters=tuple(_parameter(*one, aliases) for one in taken.items()),
            max_threads=_constant(bounds["inner"][0]) if bounds else None,
            cluster=_cluster(text, base),
        )
        yield shown, DeviceKernel(function, node.get("mangledName", node["name"]))


def _functions(
    node: Mapping[str, Any], spaces: tuple[str, ...], in_template: bool = False
) -> Iterator[tuple[tuple[str, ...], Mapping[str, Any]]]:
    """Functions for the GPU that have a body, but no template itself, with their namespaces."""
    kind = node.get("kind")
    if kind == "FunctionDecl":
        inner = node.get("inner", ())
        kinds = {one.get("kind") for one in inner}
        made = not in_template or "TemplateArgument" in kinds
        if made and {"CUDAGlobalAttr", "CompoundStmt"} <= kinds:
            yield spaces, node
        return
    if kind == "NamespaceDecl" and node.get("name"):
        spaces = (*spaces, node["name"])
    for one in node.get("inner", ()) if kind in _HOLDERS else ():
        yield from _functions(one, spaces, in_template or kind == "FunctionTemplateDecl")


def _typedefs(node: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Names of types and what they stand for, of those branches of conditions that are compiled."""
    for one in node.get("inner", ()):
        if one.get("kind") in ("TypedefDecl", "TypeAliasDecl"):
            yield one["name"], one["type"]["qualType"]
        elif one.get("kind") in _HOLDERS:
            yield from _typedefs(one)


_HOLDERS = {"TranslationUnitDecl", "NamespaceDecl", "LinkageSpecDecl", "FunctionTemplateDecl"}


def _constant(node: Mapping[str, Any]) -> int | None:
    """The value of a whole expression, of which only numbers, template arguments and operators are known."""
    if str(node.get("value", "")).isdigit():
        return int(node["value"])
    found = [_constant(one) for one in node.get("inner", ())]
    if node.get("kind") == "BinaryOperator":
        value = Scope().value(f"{found[0]} {node['opcode']} {found[1]}")
        return value if isinstance(value, int) else None
    return found[-1] if found else None


def _cluster(text: str, name: str) -> tuple[int, int, int] | None:
    found = re.search(rf"__cluster_dims__\s*\(([\d\s,]+)\)[^;{{}}]*\b{name}\s*\(", text)
    return three([int(one) for one in found[1].split(",")]) if found else None


def _plain(written: str) -> str:
    """A type as clang prints it, without ``__restrict__``."""
    return re.sub(r"\b__restrict(?:__)?\b", "", written).strip()


def _parameter(name: str, plain: str, aliases: Mapping[str, str]) -> Parameter:
    """What a parameter takes, from its type."""
    is_pointer = "*" in plain
    pointee = plain.partition("(")[0].partition("*")[0] if is_pointer else plain
    for _ in range(8):
        base = " ".join(word for word in pointee.split() if word not in ("const", "volatile", "struct"))
        if base not in aliases or aliases[base] == base:
            break
        pointee = pointee.replace(base, aliases[base])
    return Parameter(
        name, plain.replace(" *", "*"), base, is_pointer, is_pointer and "const" in pointee.split()
    )
