"""A whole CUDA file, host code and all, reduced to what compiles for the device.

In: the file's text, the requested kernel, the folder of the file's own headers. Out: the text with host code
blanked, so that line numbers stay, and the kernels that clang finds in it. Code outside the kernel that clang
rejects, and kernels that cannot be launched here, are listed with the reasons.
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
"""Since C++11 a string literal with a suffix; CUDA's compiler reads two tokens."""
FOR_HOSTS = frozenset(Path(__file__).with_name("host_headers.txt").read_text(encoding="utf-8").split())
"""Headers from which a kernel needs nothing, or nothing that isn't always available."""
_WITHOUT_INCLUDE = {"cuda_fp16.h": r"\b(?:__)?half2?\b", "cuda_bf16.h": r"\b(?:__)?nv_bfloat162?\b"}
"""Headers that other headers include, with a pattern for code that needs them."""
_NEAR = ("", "include", "inc", "common", "Common", "utils", "util", "utilities", "utility", "helper", "src")
"""Common names of folders that contain a project's headers."""
_ROUNDS = 30
"""Maximum number of clang runs; after each, everything that it rejects is removed."""


@dataclass(frozen=True)
class LeftOut:
    """A part of a file that isn't host code but is missing from the device part."""

    line: int
    """Its first line."""
    what: str
    """Its first words, or a header's name."""
    reason: str
    """The compiler's message."""


@dataclass(frozen=True)
class DeviceKernel:
    """A compiled kernel of a file."""

    function: GlobalFunction
    """Its signature; the name is the one that was requested: ``sgemm<32, 64>``."""
    symbol: str
    """Its name in the PTX."""


@dataclass(frozen=True)
class DevicePart:
    """The device code of a file."""

    text: str
    """Compiles; has the file's line numbers."""
    kernels: Mapping[str, DeviceKernel]
    """By name."""
    templates: Mapping[str, tuple[str, ...]]
    """Kernel templates, with the arguments from the file's own launches."""
    left_out: tuple[LeftOut, ...]
    """What was left out apart from host code."""
    whole: str
    """The file with its own headers inserted, host code included, after the macros set by conditions."""
    header: tuple[str, str] | None = None
    """Name and text of the header that defines the requested kernel; None if the file itself does."""


@dataclass
class _Text:
    """The lines of a file, with its own headers inserted."""

    lines: list[str] = field(default_factory=list)
    origin: list[tuple[str, int]] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    seen: dict[Path, str] = field(default_factory=dict)
    """Its own headers, with their texts."""

    def add(self, text: str, name: str, folder: Path | None) -> None:
        """Add a file, with the headers that it includes inserted."""
        seen = without_comments(text, in_columns=True).split("\n")
        for number, (line, read) in enumerate(zip(text.split("\n"), seen, strict=True), start=1):
            match = _INCLUDE.match(read)
            stays = (
                self._included(match["file"], number if name == OWN_FILE else 0, folder) if match else True
            )
            self.lines.append(_GLUED.sub('"C" ', line) if stays else "")
            self.origin.append((name, number))

    def _included(self, file: str, line: int, folder: Path | None) -> bool:
        """Whether the compiler finds a header by itself; the file's own headers are added."""
        name = file[1:-1]
        if name in shared_headers():
            self._take_in(SHARED_HEADERS / name)
            return False
        if ".." not in name and not Path(name).is_absolute() and (HEADERS / name).is_file():
            return True
        path = _own_header(name, folder)
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
        """The text with ``#line`` wherever the file changes; ``own`` gets the name of a source.

        Also after ``#else`` and ``#endif``, because the skipped branch may contain the last ``#line``.
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
    """A file's name for clang: the file with the kernel is called like a source."""
    return OWN_FILE if name == own else "the file" if name == OWN_FILE else name


def _own_header(name: str, folder: Path | None) -> Path | None:
    """The path of one of the file's own headers: next to it, or in a folder above or near it."""
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
    """Return the device code of a CUDA file.

    Args:
        source: the file's text.
        name: the requested kernel, such as ``add``, ``ns::add`` or ``sgemm<32, 64>``; None: all that compile.
        flags: for clang.
        prelude: ``#define`` lines.
        folder: the folder of the file's own headers; None: it has none.
        origin: the source's file and line, for messages. A source that doesn't compile on its own is compiled
            as part of a nearby file that includes it.

    Raises:
        CompileError: clang rejects the requested kernel, or all of them.
        KernelError: a launch here cannot pass the parameters of the requested kernel, or of any.
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
    functions = [piece for piece in every if piece.is_function]
    asked = [
        piece for piece in functions if (_defines_kernel(piece, base) if base else "__global__" in piece.head)
    ]
    is_sure = asked and part == OWN_FILE and (base or len(asked) == 1)
    own = whole.origin[asked[0].first - 1][0] if is_sure else part
    device = device_macros(text)
    host = {(piece.first, piece.last): piece for piece in host_pieces(text, every)}
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
            piece
            for piece in every
            if (piece.first, piece.last) not in gone or (piece.first, piece.last) in declared
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
    by_place = {(piece.first, piece.last): piece for piece in every}
    for where, piece_faults in sorted(reasons.items()):
        piece = by_place[where]
        if FOR_DEVICES.search(piece.text):  # host code isn't expected on a GPU
            left_out.append(_left_out(piece, whole, own, piece_faults[0].message))
    kernels: dict[str, DeviceKernel] = {}
    refused: dict[str, LeftOut] = {}
    own_pieces = [piece for piece in every if part in (OWN_FILE, whole.origin[piece.first - 1][0])]
    for shown_name, result in _kernels(whole_text, flags, name, own_pieces, whole, own, part):
        if isinstance(result, DeviceKernel):
            kernels[shown_name] = result
        else:
            refused[shown_name] = result
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
        next(((own, text) for path, text in whole.seen.items() if path.name == own != part), None),
    )


def _decided(text: str, compiled: str, flags: tuple[str, ...]) -> str:
    """A file, after the compiled values of those macros that its conditions define in several ways."""
    defined = Counter(re.findall(r"^[ \t]*#[ \t]*define[ \t]+(\w+)", text, re.M))
    names = {name for name, count in defined.items() if count > 1}
    lines = macros_of(compiled, flags) if names else []
    return "".join(f"{line}\n" for line in lines if re.split(r"[\s(]", line)[1] in names) + text


def _left_out(piece: Piece, whole: _Text, own: str, reason: str) -> LeftOut:
    file, line = whole.origin[piece.first - 1]
    return LeftOut(line if file == own else 0, " ".join(piece.head.split())[:60], reason)


def _defines_kernel(piece: Piece, name: str) -> bool:
    return bool(re.search(rf"\b{name}\s*\(", piece.head))


def _dropped(
    faults: Sequence[Fault], shown: _Text, own: str, left: Sequence[Piece]
) -> list[tuple[Piece | None, Fault, int]]:
    """For each fault its piece, or None, and its line in the whole text."""
    physical = {(_shown(name, own), number): at for at, (name, number) in enumerate(shown.origin, start=1)}
    located: list[tuple[Piece | None, Fault, int]] = []
    for fault in faults:
        at = physical.get((fault.file, fault.line), 0)
        inside = [piece for piece in left if piece.first <= at <= piece.last]
        located.append((inside[0] if inside else None, fault, at))
    return located


def _with_heads(text: str, declared: Mapping[tuple[int, int], str]) -> list[str]:
    """The lines of a text, with declarations in place of blanked host functions."""
    lines = text.split("\n")
    for (first, _), head in declared.items():
        lines[first - 1] += head
    return lines


def _without_host_bodies(
    text: str, faults: Sequence[tuple[Piece | None, Fault, int]], device: re.Pattern[str]
) -> str:
    """The text without the bodies of host member functions that contain a fault."""
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
    """Declare the host functions that device code names, and drop declarations that fail.

    Returns:
        Whether anything changed.
    """
    before = dict(declared)
    for piece, fault, _ in faults:
        if piece is not None and (piece.first, piece.last) in declared:
            declared[piece.first, piece.last] = ""
        elif missing := _UNDECLARED.search(fault.message):
            for where, function in host.items():
                if function.is_function and where not in declared and _defines_kernel(function, missing[1]):
                    declared[where] = " ".join(function.head.split()) + ";"
    return declared != before


def _refusal(
    faults: Sequence[Fault], earlier: Sequence[Fault], origin: tuple[str, int] | None, whole: _Text
) -> CompileError:
    """The error for all faults together."""
    root = [fault for fault in earlier if fault.message == LACKS_RETURN]  # causes its callers' faults
    first, *rest = dict.fromkeys([*root, *faults, *earlier])
    more = [
        f"{'' if fault.file == OWN_FILE else f'{fault.file}, '}line {fault.line}: {fault.message}"
        for fault in rest[:8]
    ]
    also = f" Also, {'; '.join(more)}." if more else ""
    path, line = place(origin, first.line) if first.file == OWN_FILE else (first.file, first.line)
    text = dict(zip(whole.origin, whole.lines, strict=True))
    lines = (text.get((fault.file, fault.line), "") for fault in (first, *rest))
    repair = next((fault.repair for fault in (first, *rest) if fault.repair), "") or repair_of(*lines)
    missing = [
        part.what.removeprefix("#include ") for part in whole.left_out if part.what.startswith("#include")
    ]
    if missing and any(
        re.search("undeclared|unknown type|no template named", fault.message) for fault in (first, *rest)
    ):
        them = "them" if len(missing) > 1 else "it"
        further = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
        hint = f"The file includes {', '.join(missing[:3])}{further}, not found: put {them} beside the file."
        repair = f"{hint} {repair}".strip()
    return CompileError(path, line, f"the kernel does not compile: {first.message}.{also}", repair)


def _near(origin: tuple[str, int] | None, pattern: str) -> Iterator[tuple[Path, str]]:
    """Sources next to a file or in the folder above that match a pattern, with their text."""
    path = Path(origin[0] if origin else "").resolve()
    for folder in (path.parent, path.parent.parent) if path.is_file() else ():
        for source in sorted(folder.glob("*.c*")):
            if source.is_file() and source != path:
                text = source.read_text(encoding="utf-8", errors="replace")
                if re.search(pattern, without_comments(text), re.M):
                    yield source, text


def _including(origin: tuple[str, int] | None) -> Iterator[tuple[Path, str]]:
    """Nearby sources that include the origin's, directly or indirectly, with their text."""
    waiting, yielded = [Path(origin[0]).name if origin else ""], list[Path]()
    while waiting:
        pattern = rf'^[ \t]*#[ \t]*include[ \t]*"(?:[^"\n]*/)?{re.escape(waiting.pop(0))}"'
        for path, text in _near(origin, pattern):
            if path not in yielded:
                yielded.append(path)
                waiting.append(path.name)
                yield path, text


def _launched_nearby(every: Sequence[Piece], text: str, origin: tuple[str, int] | None) -> str:
    """The text of the first nearby file that launches the kernels, if their own file does not."""
    kernels = [piece.name for piece in every if "__global__" in piece.head and piece.name]
    launched = rf"\b(?:{'|'.join(kernels)})\s*(?:<[^;]*>\s*)?<<<"
    if not kernels or re.search(launched, text):
        return ""
    for path, launching in _near(origin, launched):
        around = _Text()
        around.add(launching, path.name, path.parent)
        return "\n".join(["", *around.lines])
    return ""


def _launches(text: str) -> dict[str, list[str]]:
    """The template arguments of each kernel's launches, where they are written out."""
    arguments: dict[str, list[str]] = {}
    for site in launch_sites(text):
        if site.template and site.template not in arguments.setdefault(site.kernel, []):
            arguments[site.kernel].append(site.template)
    return arguments


def _templates(
    every: Sequence[Piece], gone: set[tuple[int, int]], launches: Mapping[str, Sequence[str]]
) -> dict[str, tuple[str, ...]]:
    templates = {}
    for piece in every:
        is_template = "__global__" in piece.head and re.match(r"template\b", piece.head)
        if is_template and piece.name and (piece.first, piece.last) not in gone:
            arguments = launches.get(piece.name) or _simple(piece.head)
            templates[piece.name] = tuple(f"{piece.name}{listed}" for listed in arguments)
    return templates


def _simple(head: str) -> list[str]:
    """Arguments for a template whose parameters are types and booleans."""
    match = re.match(r"template\s*<([^<>]*)>", head)
    kinds = [part.split()[0] for part in match[1].split(",") if part.split()] if match else []
    known = {"typename": "float", "class": "float", "bool": "true"}
    return [f"<{', '.join(known[kind] for kind in kinds)}>"] if kinds and set(kinds) <= known.keys() else []


def _kernels(
    text: str,
    flags: tuple[str, ...],
    name: str | None,
    every: Sequence[Piece],
    whole: _Text,
    own: str,
    part: str,
) -> Iterator[tuple[str, DeviceKernel | LeftOut]]:
    """The kernels in clang's syntax tree, and those that cannot be launched here."""
    tree = syntax_tree(text, flags)
    aliases = known_types(text)
    aliases |= {key: kind for key, kind in _typedefs(tree) if key in aliases}
    for spaces, node in _functions(tree, ()):
        parts = node.get("inner", [])
        arguments = [child for child in parts if child["kind"] == "TemplateArgument"]
        plain = "::".join((*spaces, node["name"]))
        base = node["name"]
        shown = name if name and arguments and name.partition("<")[0].strip() == plain else plain
        defined = next((piece for piece in every if _defines_kernel(piece, base)), None)
        if defined is None and name is None and part != OWN_FILE:
            continue
        bounds = next((child for child in parts if child["kind"] == "CUDALaunchBoundsAttr"), None)
        types = {
            child.get("name", f"unnamed{at}"): _plain(child["type"]["qualType"])
            for at, child in enumerate(child for child in parts if child["kind"] == "ParmVarDecl")
        }
        if nested := next((typed for typed in types.items() if typed[1].count("*") > 1), None):
            reason = f"{nested[0]} is {nested[1]}, a pointer to pointers, which a launch here cannot pass"
            yield shown, _left_out(defined, whole, own, reason) if defined else LeftOut(0, shown, reason)
            continue
        function = GlobalFunction(
            name=shown,
            line=whole.origin[defined.first - 1][1] if defined else 1,
            parameters=tuple(_parameter(*typed, aliases) for typed in types.items()),
            max_threads=_constant(bounds["inner"][0]) if bounds else None,
            cluster=_cluster(text, base),
        )
        yield shown, DeviceKernel(function, node.get("mangledName", node["name"]))


def _functions(
    node: Mapping[str, Any], spaces: tuple[str, ...], in_template: bool = False
) -> Iterator[tuple[tuple[str, ...], Mapping[str, Any]]]:
    """Kernels with a body, but not templates themselves, with their namespaces."""
    kind = node.get("kind")
    if kind == "FunctionDecl":
        inner = node.get("inner", ())
        kinds = {child.get("kind") for child in inner}
        is_instance = not in_template or "TemplateArgument" in kinds
        if is_instance and {"CUDAGlobalAttr", "CompoundStmt"} <= kinds:
            yield spaces, node
        return
    if kind == "NamespaceDecl" and node.get("name"):
        spaces = (*spaces, node["name"])
    for child in node.get("inner", ()) if kind in _HOLDERS else ():
        yield from _functions(child, spaces, in_template or kind == "FunctionTemplateDecl")


def _typedefs(node: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Type aliases and their types, in the branches that are compiled."""
    for child in node.get("inner", ()):
        if child.get("kind") in ("TypedefDecl", "TypeAliasDecl"):
            yield child["name"], child["type"]["qualType"]
        elif child.get("kind") in _HOLDERS:
            yield from _typedefs(child)


_HOLDERS = {"TranslationUnitDecl", "NamespaceDecl", "LinkageSpecDecl", "FunctionTemplateDecl"}


def _constant(node: Mapping[str, Any]) -> int | None:
    """The value of an integer expression of numbers, template arguments and operators."""
    if str(node.get("value", "")).isdigit():
        return int(node["value"])
    operands = [_constant(child) for child in node.get("inner", ())]
    if node.get("kind") == "BinaryOperator":
        value = Scope().value(f"{operands[0]} {node['opcode']} {operands[1]}")
        return value if isinstance(value, int) else None
    return operands[-1] if operands else None


def _cluster(text: str, name: str) -> tuple[int, int, int] | None:
    match = re.search(rf"__cluster_dims__\s*\(([\d\s,]+)\)[^;{{}}]*\b{name}\s*\(", text)
    return three([int(size) for size in match[1].split(",")]) if match else None


def _plain(written: str) -> str:
    """A type as clang prints it, without ``__restrict__``."""
    return re.sub(r"\b__restrict(?:__)?\b", "", written).strip()


def _parameter(name: str, plain: str, aliases: Mapping[str, str]) -> Parameter:
    """A parameter, from its type as clang prints it."""
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
