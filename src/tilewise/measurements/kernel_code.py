"""A hash of what a kernel does that is independent of its names.

In: CUDA C. Out: a hash of clang's IR before its first pass. It does not depend on the names of variables,
parameters, functions, types, macros and labels, nor on the order of helpers. The IR is not optimised, because
clang's optimiser may make kernels equal that another compiler distinguishes. Kernels with constructs that
clang would drop are refused and have no hash.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

from tilewise.cuda.headers import as_written, with_headers
from tilewise.cuda.kernel_source import define_lines, without_comments
from tilewise.kernel.literals import KernelText
from tilewise.simulator.compile.compiler import HEADERS, CompileError, place
from tilewise.simulator.compile.toolchain import ToolchainError, cache_folder, clang, keep, zig

VERSION = 1
"""Incremented whenever the canonical text of the same IR changes."""

_FLAGS = (
    "-x", "cuda", "--cuda-device-only", "-nocudainc", "-nocudalib", "--cuda-path=/nonexistent", "-nostdinc",
    "--cuda-gpu-arch=sm_90", "--cuda-feature=+ptx83",
    "--target=x86_64-linux-gnu",  # the host's, which decides the size of a long
    "-fdeclspec", "-fno-strict-aliasing", "-ffp-contract=fast-honor-pragmas", "-std=gnu++17",
    "-O2", "-Xclang", "-disable-llvm-passes", "-S", "-emit-llvm", "-fdiscard-value-names",
    "-gline-tables-only",  # distinguishes functions of the headers, which have no lines
    "-Wno-everything",
    *(f"-Werror={name}-{what}" for name in ("unknown", "ignored") for what in ("attributes", "pragmas")),
)  # fmt: skip
"""Emit the IR before any pass. What clang would ignore and another compiler may not is an error."""
_CLUSTER = """#undef __cluster_dims__
#define __cluster_dims__(...) __attribute__((annotate("cluster", __VA_ARGS__)))
#line 1
"""
"""Clang does not know clusters, so an annotation carries them into the IR."""

_TOKEN = re.compile(
    r'(?P<asm>\basm (?:sideeffect |alignstack )*"[^"]*")|(?P<string>c?(?<![@%$])"[^"]*")'
    r'|(?P<symbol>@(?:"[^"]*"|[\w.$-]+))|(?P<type>%(?:"[^"]*"|[A-Za-z_.$][\w.$-]*))'
    r"|(?P<comdat>\$[\w.$-]+)|!(?P<metadata>\d+)|#(?P<group>\d+)"
)
_PLACES = re.compile(r",? !(?:dbg|srcloc) !\d+| *; preds = [^\n]*")
_FUNCTION = re.compile(r'^define [^\n@]*(@(?:"[^"]*"|[\w.$-]+))\([^\n]*\{\n.*?^\}', re.M | re.S)
_LINE = re.compile(r'^([@%!](?:"[^"]*"|[\w.$-]+)|attributes #\d+) = ([^\n]*)', re.M)
_NOTE = re.compile(r"\{ ptr (@[\w.$-]+), ptr @[\w.$-]+, ptr @[\w.$-]+, i32 \d+, ptr (@[\w.$-]+) \}")
_SUBPROGRAM = re.compile(r'!DISubprogram\(name: "([\w~]+)')
_DECLARED = re.compile(r'\.reg\s+\.\w+\s+([^;<]+);|[";{}\s](%?[A-Za-z_][\w$]*)\s*:(?!:)')

_RESTRICT = re.compile(r"\b__restrict(?:__)?\b(?!\s*\w+\s*[,)])")
_PREDEFINED = re.compile(
    r"\b__(?:CUDA|NVCC|NVRTC|clang|GNUC|cplusplus|has_|LINE__|FILE__)\w*"
    r"|^[ \t]*#[ \t]*(?:if|elif)[^\n]*?\b(?P<name>_\w+)",
    re.M,
)
_WORDS = """
alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t char8_t class
co_await co_return co_yield compl concept const const_cast consteval constexpr constinit continue decltype
default delete do double dynamic_cast else enum explicit export extern false final float for friend goto if
import inline int long module mutable namespace new noexcept not not_eq nullptr operator or or_eq override
private protected public register reinterpret_cast requires restrict return short signed sizeof static
static_assert static_cast struct switch template this thread_local throw true try typedef typeid typename
union unsigned using virtual void volatile wchar_t while xor xor_eq
define defined elif elifdef elifndef endif error ifdef ifndef include line pragma undef unroll warning
C cuda_bf16 cuda_fp16 h
"""
"""Reserved words of C++ and its preprocessor, and the names of the headers."""


def release() -> str:
    """What a kernel's hash depends on besides its text: compiler, flags, headers and this module's version.

    Raises:
        ToolchainError: ``TILEWISE_ZIG`` names no file.
    """
    headers = [path.read_text(encoding="utf-8") for path in sorted(HEADERS.glob("*.h"))]
    decided = hashlib.sha256("\0".join((*_FLAGS, _CLUSTER, *headers)).encode()).hexdigest()
    return f"{clang()}, flags and headers {decided[:8]}, version {VERSION}"


def code_hash(
    source: str, name: str, options: tuple[str, ...] = (), origin: tuple[str, int] | None = None
) -> str:
    """The hash of an entry point and of everything that it calls or refers to.

    Args:
        source: CUDA C, preceded by its ``#define`` lines and ``#line 1`` if it has defines.
        name: the entry point's.
        options: as ``Kernel`` takes them; only the C++ standard affects the hash.
        origin: the lesson's file and the line of the first source line, for messages.

    Raises:
        CompileError: clang rejects the source, or would drop part of it.
        ToolchainError: clang is missing or broken, and the hash is not cached.
    """
    hashes = _hashes(source, _standard(options), origin, release())
    if name not in hashes:
        raise CompileError(*place(origin, 1), f'the compiler made no kernel "{name}" of this source.')
    return hashes[name]


def hashes_of(kernel: KernelText) -> Mapping[str, str]:
    """The hash of each entry point of a literal kernel; empty if clang rejects it or would drop part of it.

    Raises:
        ToolchainError: clang is missing or broken, and the hash is not cached.
    """
    source = define_lines(kernel.defines or {}) + with_headers(kernel.source.strip("\n"))
    try:
        return _hashes(source, _standard(kernel.options), None, release())
    except CompileError:
        return {}


def _standard(options: Sequence[str]) -> str:
    """The option that sets the C++ standard, for clang; empty if there is none."""
    return next((option.replace("c++", "gnu++") for option in options if option.startswith("-std=")), "")


@cache
def _hashes(source: str, standard: str, origin: tuple[str, int] | None, compiler: str) -> Mapping[str, str]:
    text = "\0".join((source, standard, compiler))
    cached = cache_folder() / "code" / f"{hashlib.sha256(text.encode()).hexdigest()[:24]}.json"
    try:
        hashes: dict[str, str] = json.loads(cached.read_bytes())
    except (OSError, ValueError):
        _check(source, origin)
        module = _Module(_clang(source, [standard] if standard else [], origin))
        hashes = {name: module.hash_of(name) for name in module.entries}
        keep(cached, json.dumps(hashes))
    return hashes


def _check(source: str, origin: tuple[str, int] | None) -> None:
    """Reject what other compilers read and clang does not.

    Raises:
        CompileError: the source has such a construct.
    """
    if match := _PREDEFINED.search(without_comments(source)):
        fault = f"{match['name'] or match[0]}, which compilers define each in its own way"
    elif match := _RESTRICT.search(without_comments(source)):
        fault = f"{match[0]} of something else than a parameter, which clang ignores"
    else:
        return
    lesson_text = as_written(source)
    line = lesson_text.count("\n", 0, max(lesson_text.find(match[0].split()[-1]), 0)) + 1
    raise CompileError(*place(origin, line), f"the kernel has {fault}.")


@cache
def reserved() -> frozenset[str]:
    """The reserved words of C++ and its preprocessor, and the names that a kernel's headers introduce.

    Raises:
        ToolchainError: clang is missing or broken, and they are not cached.
    """
    cached = cache_folder() / "code" / f"words {hashlib.sha256(release().encode()).hexdigest()[:24]}.txt"
    if not cached.is_file():
        both = "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n"
        macros = re.findall(r"^#define (\w+)", _clang(both, ("-E", "-dM"), None), re.M)
        tree = json.loads(_clang(both, ("-fsyntax-only", "-Xclang", "-ast-dump=json"), None))
        keep(cached, "\n".join(sorted({*_WORDS.split(), *macros, *_declared(tree)})))
    return frozenset(cached.read_text(encoding="utf-8").split())


def _declared(node: Mapping[str, Any]) -> Iterator[str]:
    """The names that a syntax tree declares outside of parameters and function bodies."""
    if "name" in node and node["kind"] != "ParmVarDecl":
        yield node["name"]
    for child in node.get("inner", ()) if node.get("kind") != "CompoundStmt" else ():
        yield from _declared(child)


def _clang(source: str, flags: Sequence[str], origin: tuple[str, int] | None) -> str:
    """Clang's output for a source: without further flags its LLVM IR before the first pass."""
    command = [
        *(str(zig()), "clang", *_FLAGS, *flags),
        *("-isystem", str(HEADERS), "-include", str(HEADERS / "tilewise_cuda.h"), "-o", "-", "kernel.cu"),
    ]
    env = {name: os.environ[name] for name in os.environ if not name.endswith(("CPATH", "INCLUDE_PATH"))}
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "kernel.cu").write_text(_CLUSTER + source, encoding="utf-8")
        try:
            process = subprocess.run(command, capture_output=True, cwd=folder, check=False, env=env)
        except OSError as error:
            raise ToolchainError(f"{command[0]} cannot be run: {error.strerror}.") from None
    errors, output = (part.decode("utf-8", "replace") for part in (process.stderr, process.stdout))
    match = re.search(r"kernel\.cu:(\d+):\d+: (?:fatal )?error: ([^\n]*)", errors)
    if process.returncode and match:
        raise CompileError(*place(origin, int(match[1])), f"clang refuses the kernel: {match[2]}.")
    if process.returncode or not output:
        raise ToolchainError(f"{command[0]} made nothing of a kernel: {errors.strip()[:300]}")
    return output


@dataclass
class _Module:
    """A module of LLVM's IR."""

    text: str
    """As clang prints it."""
    _defined: dict[str, str] = field(default_factory=dict)
    _own: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        lines = {match[1]: match[2] for match in _LINE.finditer(self.text)}
        self._defined |= lines
        notes = dict(_NOTE.findall(lines.get("@llvm.global.annotations", "")))
        functions = list(_FUNCTION.finditer(self.text))
        self.entries = [
            function[1][1:] for function in functions if " ptx_kernel " in function[0].split("\n", 1)[0]
        ]
        for function in functions:
            head = function[0].split("\n", 1)[0]
            location = re.search(r"!dbg (!\d+)", head)
            if named := _SUBPROGRAM.search(lines[location[1]] if location else ""):
                self._own[function[1]] = named[1]
            note = lines[notes[function[1]]] if function[1] in notes else ""
            self._defined[function[1]] = _PLACES.sub("", function[0]) + note

    def hash_of(self, entry: str) -> str:
        """The SHA-256 of an entry point's canonical text."""
        return hashlib.sha256("\n".join(self.canonical(entry)).encode()).hexdigest()

    def canonical(self, entry: str) -> Iterator[str]:
        """Everything reachable from an entry point, in the order of first mention."""
        names: dict[str, str] = {}
        self._name(f"@{entry}", names)
        index = 0
        while symbol := next(islice(names, index, None), None):
            for static in self._statics(symbol):
                self._name(static, names)
            yield f"{names[symbol]} = {self._renamed(self._defined[symbol], names)}"
            index += 1

    def _statics(self, function: str) -> Iterator[str]:
        """A function's static variables in their order, which is also that in shared memory."""
        plain = function[3:] if function.startswith("@_Z") else f"{len(function) - 1}{function[1:]}"
        return (name for name in self._defined if name.startswith(f"@_ZZ{plain}E"))

    def _name(self, symbol: str, names: dict[str, str]) -> str:
        """The canonical name of a symbol or a type.

        What the lesson defines gets a number. Header functions and mere declarations keep their names,
        because CUDA functions that the simulator implements alike may differ, e.g. in their cache hints.
        """
        text = self._defined.get(symbol)
        if text is None or text.startswith("extern_weak"):
            return symbol
        if symbol not in names:
            number = f"{symbol[0]}n{len(names)}"
            if text.startswith("define"):
                number += f" {self._signature(symbol)}" if symbol in self._own else f" {symbol}"
            names[symbol] = number
        return names[symbol].partition(" ")[0]

    def _signature(self, symbol: str) -> str:
        """A mangled name without its identifiers; the rest shows which pointers point to const."""
        if not symbol.startswith("@_Z"):
            return ""
        types = (name.rpartition(".")[2] for name in self._defined if name.startswith("%"))
        for name in sorted({*self._own.values(), *types}, key=len, reverse=True):
            symbol = symbol.replace(f"{len(name)}{name}", "*")
        return symbol

    def _renamed(self, text: str, names: dict[str, str]) -> str:
        def replacement(match: re.Match[str]) -> str:
            if match["asm"]:
                return _plain_asm(match[0])
            if match["metadata"]:
                return self._expanded(f"!{match['metadata']}", ())
            if match["group"]:
                return self._defined.get(f"attributes #{match['group']}", match[0])
            if match["comdat"]:
                return ""
            return match[0] if match["string"] else self._name(match[0], names)

        return _TOKEN.sub(replacement, text)

    def _expanded(self, node: str, within: tuple[str, ...]) -> str:
        """A metadata node with its operands expanded, without source locations."""
        text = self._defined[node]
        if node in within or "!DILocation(" in text:
            return ""
        operand = r'"[^"]*"|(!\d+)'
        return re.sub(
            operand, lambda match: self._expanded(match[1], (*within, node)) if match[1] else match[0], text
        )


def _plain_asm(text: str) -> str:
    """Inline assembly with numbers for the registers and labels that it declares itself."""
    text = re.sub(r"\\([0-9A-Fa-f]{2})", lambda match: chr(int(match[1], 16)), text)
    lists = [match[1] or match[2] for match in _DECLARED.finditer(text)]
    for number, name in enumerate(
        dict.fromkeys(item.strip() for names in lists for item in names.split(","))
    ):
        text = re.sub(rf"(?<![\w.$%]){re.escape(name)}(?![\w$.])", f"\\\\{number}", text)
    return text
