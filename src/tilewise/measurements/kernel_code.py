"""What a kernel's text says, without the names that it says it by.

In: CUDA C. Out: a hash of clang's IR from before its first pass, the same however variables, parameters,
functions, types, macros and labels are called, and wherever in the text a helper stands. Nothing is optimised
first: another compiler may tell apart what clang's optimiser makes equal, so that only texts that say the
same are equal. What clang does not pass on is refused: such a kernel has no such hash.
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
"""Raised whenever other text comes out for the same IR."""

_FLAGS = (
    "-x", "cuda", "--cuda-device-only", "-nocudainc", "-nocudalib", "--cuda-path=/nonexistent", "-nostdinc",
    "--cuda-gpu-arch=sm_90", "--cuda-feature=+ptx83",
    "--target=x86_64-linux-gnu",  # the host's, which decides how long a long is
    "-fdeclspec", "-fno-strict-aliasing", "-ffp-contract=fast-honor-pragmas", "-std=gnu++17",
    "-O2", "-Xclang", "-disable-llvm-passes", "-S", "-emit-llvm", "-fdiscard-value-names",
    "-gline-tables-only",  # by which functions of the headers, which have no lines, are told from others
    "-Wno-everything",
    *(f"-Werror={name}-{what}" for name in ("unknown", "ignored") for what in ("attributes", "pragmas")),
)  # fmt: skip
"""The IR before any pass. What clang would ignore and another compiler may not, it refuses."""
_CLUSTER = """#undef __cluster_dims__
#define __cluster_dims__(...) __attribute__((annotate("cluster", __VA_ARGS__)))
#line 1
"""
"""Clang does not know clusters, and passes on a note of them."""

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
"""What C++ and its preprocessor reserve, and the names of the headers."""


def release() -> str:
    """What decides a kernel's hash beside its text: the compiler, its flags, the headers, this module.

    Raises:
        ToolchainError: ``TILEWISE_ZIG`` names no file.
    """
    headers = [path.read_text(encoding="utf-8") for path in sorted(HEADERS.glob("*.h"))]
    decided = hashlib.sha256("\0".join((*_FLAGS, _CLUSTER, *headers)).encode()).hexdigest()
    return f"{clang()}, flags and headers {decided[:8]}, version {VERSION}"


def code_hash(
    source: str, name: str, options: tuple[str, ...] = (), origin: tuple[str, int] | None = None
) -> str:
    """The hash of what the entry point of a name says, and of all that it calls or refers to.

    Args:
        source: CUDA C, with its ``#define`` lines and ``#line 1`` in front where it has defines.
        name: the entry point's.
        options: as ``Kernel`` takes them; only the standard of C++ decides what a text says.
        origin: the lesson's file and the line of the first source line, for messages.

    Raises:
        CompileError: clang refuses the source, or would not pass on all that it says.
        ToolchainError: clang is missing or broken, and the cache does not hold this source.
    """
    found = _hashes(source, _standard(options), origin, release())
    if name not in found:
        raise CompileError(*place(origin, 1), f'the compiler made no kernel "{name}" of this source.')
    return found[name]


def hashes_of(kernel: KernelText) -> Mapping[str, str]:
    """The hash of each entry point of a literal kernel; empty where clang would not pass on all that it says.

    Raises:
        ToolchainError: clang is missing or broken, and the cache does not hold this source.
    """
    source = define_lines(kernel.defines or {}) + with_headers(kernel.source.strip("\n"))
    try:
        return _hashes(source, _standard(kernel.options), None, release())
    except CompileError:
        return {}


def _standard(options: Sequence[str]) -> str:
    """The option that names the standard of C++, for clang; empty where none does."""
    return next((one.replace("c++", "gnu++") for one in options if one.startswith("-std=")), "")


@cache
def _hashes(source: str, standard: str, origin: tuple[str, int] | None, made_by: str) -> Mapping[str, str]:
    text = "\0".join((source, standard, made_by))
    kept = cache_folder() / "code" / f"{hashlib.sha256(text.encode()).hexdigest()[:24]}.json"
    try:
        found: dict[str, str] = json.loads(kept.read_bytes())
    except (OSError, ValueError):
        _check(source, origin)
        module = _Module(_clang(source, [standard] if standard else [], origin))
        found = {name: module.hash_of(name) for name in module.entries}
        keep(kept, json.dumps(found))
    return found


def _check(source: str, origin: tuple[str, int] | None) -> None:
    """Refuse what another compiler reads and clang does not.

    Raises:
        CompileError: there is such a thing.
    """
    if found := _PREDEFINED.search(without_comments(source)):
        what = f"{found['name'] or found[0]}, which compilers define each in its own way"
    elif found := _RESTRICT.search(without_comments(source)):
        what = f"{found[0]} of something else than a parameter, which clang ignores"
    else:
        return
    own = as_written(source)
    line = own.count("\n", 0, max(own.find(found[0].split()[-1]), 0)) + 1
    raise CompileError(*place(origin, line), f"the kernel has {what}.")


@cache
def reserved() -> frozenset[str]:
    """The words of C++ and its preprocessor, and what a kernel's headers declare or define.

    Raises:
        ToolchainError: clang is missing or broken, and the cache does not hold them.
    """
    kept = cache_folder() / "code" / f"words {hashlib.sha256(release().encode()).hexdigest()[:24]}.txt"
    if not kept.is_file():
        both = "#include <cuda_fp16.h>\n#include <cuda_bf16.h>\n"
        macros = re.findall(r"^#define (\w+)", _clang(both, ("-E", "-dM"), None), re.M)
        tree = json.loads(_clang(both, ("-fsyntax-only", "-Xclang", "-ast-dump=json"), None))
        keep(kept, "\n".join(sorted({*_WORDS.split(), *macros, *_declared(tree)})))
    return frozenset(kept.read_text(encoding="utf-8").split())


def _declared(node: Mapping[str, Any]) -> Iterator[str]:
    """The names that a syntax tree declares for others: no parameters, and nothing within a function."""
    if "name" in node and node["kind"] != "ParmVarDecl":
        yield node["name"]
    for one in node.get("inner", ()) if node.get("kind") != "CompoundStmt" else ():
        yield from _declared(one)


def _clang(source: str, flags: Sequence[str], origin: tuple[str, int] | None) -> str:
    """What clang makes of a source: without further flags its LLVM IR, before its first pass."""
    command = [
        *(str(zig()), "clang", *_FLAGS, *flags),
        *("-isystem", str(HEADERS), "-include", str(HEADERS / "tilewise_cuda.h"), "-o", "-", "kernel.cu"),
    ]
    ours = {name: os.environ[name] for name in os.environ if not name.endswith(("CPATH", "INCLUDE_PATH"))}
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "kernel.cu").write_text(_CLUSTER + source, encoding="utf-8")
        try:
            done = subprocess.run(command, capture_output=True, cwd=folder, check=False, env=ours)
        except OSError as error:
            raise ToolchainError(f"{command[0]} cannot be run: {error.strerror}.") from None
    said, made = (part.decode("utf-8", "replace") for part in (done.stderr, done.stdout))
    found = re.search(r"kernel\.cu:(\d+):\d+: (?:fatal )?error: ([^\n]*)", said)
    if done.returncode and found:
        raise CompileError(*place(origin, int(found[1])), f"clang refuses the kernel: {found[2]}.")
    if done.returncode or not made:
        raise ToolchainError(f"{command[0]} made nothing of a kernel: {said.strip()[:300]}")
    return made


@dataclass
class _Module:
    """A module of LLVM's IR."""

    text: str
    """As clang prints it."""
    _defined: dict[str, str] = field(default_factory=dict)
    _own: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        lines = {found[1]: found[2] for found in _LINE.finditer(self.text)}
        self._defined |= lines
        notes = dict(_NOTE.findall(lines.get("@llvm.global.annotations", "")))
        functions = list(_FUNCTION.finditer(self.text))
        self.entries = [found[1][1:] for found in functions if " ptx_kernel " in found[0].split("\n", 1)[0]]
        for found in functions:
            head = found[0].split("\n", 1)[0]
            about = re.search(r"!dbg (!\d+)", head)
            if named := _SUBPROGRAM.search(lines[about[1]] if about else ""):
                self._own[found[1]] = named[1]
            note = lines[notes[found[1]]] if found[1] in notes else ""
            self._defined[found[1]] = _PLACES.sub("", found[0]) + note

    def hash_of(self, entry: str) -> str:
        """The SHA-256 of an entry point's canonical text."""
        return hashlib.sha256("\n".join(self.canonical(entry)).encode()).hexdigest()

    def canonical(self, entry: str) -> Iterator[str]:
        """Everything that an entry point comes to, in the order in which it is first mentioned."""
        names: dict[str, str] = {}
        self._name(f"@{entry}", names)
        done = 0
        while one := next(islice(names, done, None), None):
            for static in self._statics(one):
                self._name(static, names)
            yield f"{names[one]} = {self._renamed(self._defined[one], names)}"
            done += 1

    def _statics(self, function: str) -> Iterator[str]:
        """The variables that a function keeps, in their order: shared memory has them in that order."""
        plain = function[3:] if function.startswith("@_Z") else f"{len(function) - 1}{function[1:]}"
        return (name for name in self._defined if name.startswith(f"@_ZZ{plain}E"))

    def _name(self, symbol: str, names: dict[str, str]) -> str:
        """What stands for a symbol or a type.

        What the lesson defines has a number. A function of a header and what is only declared keep their
        names, since two of CUDA's functions may be one to the simulator, such as loads that differ in what
        they leave in a cache.
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
        """A mangled name without the names in it: what is left tells which pointers point to const."""
        if not symbol.startswith("@_Z"):
            return ""
        types = (name.rpartition(".")[2] for name in self._defined if name.startswith("%"))
        for name in sorted({*self._own.values(), *types}, key=len, reverse=True):
            symbol = symbol.replace(f"{len(name)}{name}", "*")
        return symbol

    def _renamed(self, text: str, names: dict[str, str]) -> str:
        def one(found: re.Match[str]) -> str:
            if found["asm"]:
                return _plain_asm(found[0])
            if found["metadata"]:
                return self._expanded(f"!{found['metadata']}", ())
            if found["group"]:
                return self._defined.get(f"attributes #{found['group']}", found[0])
            if found["comdat"]:
                return ""
            return found[0] if found["string"] else self._name(found[0], names)

        return _TOKEN.sub(one, text)

    def _expanded(self, node: str, within: tuple[str, ...]) -> str:
        """A node of metadata with those in it in place; lines of the source do not count."""
        text = self._defined[node]
        if node in within or "!DILocation(" in text:
            return ""
        inner = r'"[^"]*"|(!\d+)'
        return re.sub(
            inner, lambda found: self._expanded(found[1], (*within, node)) if found[1] else found[0], text
        )


def _plain_asm(text: str) -> str:
    """Assembly with numbers for the registers and labels that it declares itself."""
    text = re.sub(r"\\([0-9A-Fa-f]{2})", lambda found: chr(int(found[1], 16)), text)
    lists = [found[1] or found[2] for found in _DECLARED.finditer(text)]
    for at, name in enumerate(dict.fromkeys(one.strip() for names in lists for one in names.split(","))):
        text = re.sub(rf"(?<![\w.$%]){re.escape(name)}(?![\w$.])", f"\\\\{at}", text)
    return text
