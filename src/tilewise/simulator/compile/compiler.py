"""Running clang: a kernel's text to PTX, cached on disk by its contents.

In: a source, flags, and its place in a lesson. Out: the text of the PTX. A compiler error becomes one message
with the lesson's own line; an installation error says what is broken. For untrusted sources, ``seal`` hides
every file from clang except the source and the course's headers.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from tilewise.errors import LessonError
from tilewise.simulator.compile.toolchain import ToolchainError, cache_folder, keep, zig

HEADERS = Path(__file__).with_name("header")
_FLAGS = (
    "-x",
    "cuda",
    "--cuda-device-only",
    "-nocudainc",
    "-nocudalib",
    "--cuda-path=/nonexistent",
    "--cuda-feature=+ptx83",
    "--cuda-gpu-arch=sm_90",
    "-fdeclspec",
    "-O2",
    "-S",
    "-gline-tables-only",
    "-fno-unroll-loops",
    "-fno-delete-null-pointer-checks",  # keeps a null test after a pointer's first use
    "-fno-strict-aliasing",  # like NVIDIA's compiler, reloads an int after a float store
    "-mllvm",
    "-simplifycfg-sink-common=false",  # and keeps a store in each of two branches
    "-nostdinc",
    "-w",
    "-Wno-register",
    "-std=c++17",
)
_FLAGS_WITH_WARNINGS = tuple(flag for flag in _FLAGS if flag != "-w")
"""The flags for runs whose warnings are read: one of them is an error here."""
_REPAIR = "Install the wheel again: pip install --force-reinstall ziglang; or correct TILEWISE_ZIG."


@dataclass(frozen=True)
class Fault:
    """An error from clang."""

    file: str
    """The file's name in the source."""
    line: int
    """Its line."""
    message: str
    """Clang's message."""
    repair: str = ""
    """How to fix it, if known."""


class CompileError(LessonError):
    """A kernel that does not compile, with the compiler's message at the lesson's line."""


def place(origin: tuple[str, int] | None, line: int) -> tuple[str, int]:
    """The lesson's file and line for line ``line`` (from 1) of a source that begins at ``origin``."""
    if origin is None:
        return "<kernel>", line
    return origin[0], origin[1] + max(line, 1) - 1


def ptx_text(source: str, flags: tuple[str, ...], origin: tuple[str, int] | None, compiler: str) -> str:
    """The PTX of a source, from the cache or compiled by clang and then cached.

    Args:
        source: CUDA C.
        flags: extra flags for clang.
        origin: as for ``place``.
        compiler: identifies the version of clang.

    Raises:
        CompileError: clang rejects the source.
        ToolchainError: clang is missing or broken and the source isn't cached, or the cache can't be written.
    """
    header = (HEADERS / "tilewise_cuda.h").read_text()
    extra = "".join(path.read_text() for path in sorted(HEADERS.rglob("*")) if path.is_file())
    key = "\0".join((source, *flags, header, extra, *_FLAGS, compiler))
    name = hashlib.sha256(key.encode()).hexdigest()[:24]
    cached = cache_folder() / "ptx" / f"{name}.ptx"
    if cached.exists():
        text = cached.read_bytes().decode("utf-8", "replace")
        if _is_ptx(text):
            return text
    text = _compile(source, flags, cached, origin)
    keep(cached, text)
    return text


def _is_ptx(text: str) -> bool:
    return bool(re.search(r"^\.version ", text, re.M) and re.search(r"^\.target ", text, re.M))


def _compile(source: str, flags: tuple[str, ...], cached: Path, origin: tuple[str, int] | None) -> str:
    try:
        compiler = zig()
    except ToolchainError as error:
        raise ToolchainError(f"{error} (This kernel is not in the cache {cached.parent} either.)") from None
    flags = (*_FLAGS_WITH_WARNINGS, *flags)
    headers = None if _sealed else _precompiled(compiler, flags)
    done = _run(compiler, flags, source, headers)
    if done.returncode and headers is not None:  # messages should refer to the headers' text
        done = _run(compiler, flags, source)
    messages, ptx = (part.decode("utf-8", "replace") for part in (done.stderr, done.stdout))
    if done.returncode < 0:
        raise ToolchainError(f"{compiler} was ended by signal {-done.returncode}. Is memory short? {_REPAIR}")
    if done.returncode and not messages.strip():
        raise ToolchainError(f"{compiler} failed with exit code {done.returncode} and no word. {_REPAIR}")
    if done.returncode or re.search(f"warning: {_NO_RETURN}", messages):
        raise _error(messages, origin)
    if not _is_ptx(ptx):
        raise ToolchainError(f"{compiler} made no PTX of a kernel. {_REPAIR}")
    return ptx


_sealed = False


def seal() -> None:
    """From now on in this process, hide every file from clang except the source and the course's headers.

    So ``#include``, ``__has_include`` or ``#embed`` in an untrusted source can't read files of this machine.
    """
    global _sealed  # noqa: PLW0603 - set once per process, never reset
    _sealed = True


@cache
def _precompiled(compiler: Path, flags: tuple[str, ...]) -> Path | None:
    """The headers of every kernel, precompiled: parsing them dominates the time of a small kernel.

    None if the cache can't be written or this clang can't precompile.
    """
    seen = [f"{path} {path.stat().st_mtime_ns}" for path in sorted(HEADERS.rglob("*")) if path.is_file()]
    name = hashlib.sha256("\0".join((*flags, str(compiler), *seen)).encode()).hexdigest()[:24]
    cached = cache_folder() / "headers" / f"{name}.pch"
    if cached.exists():
        return cached
    part = cached.with_suffix(f".{os.getpid()}")
    output = ("-Xclang", "-emit-pch", "-o", str(part), str(HEADERS / "tilewise_cuda.h"))
    try:
        cached.parent.mkdir(parents=True, exist_ok=True)
        command = [str(compiler), "clang", *flags, "-isystem", str(HEADERS), *output]
        subprocess.run(command, capture_output=True, check=True, env=_environment())
        part.replace(cached)
    except (OSError, subprocess.CalledProcessError):
        return None
    return cached


def _run(
    compiler: Path, flags: tuple[str, ...], source: str, headers: Path | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run clang on a source, as ``kernel.cu``, with the headers of every kernel."""
    included = ["-include", str(HEADERS / "tilewise_cuda.h")]
    if headers is not None:
        included = ["-Xclang", "-include-pch", "-Xclang", str(headers)]
    own = ["-isystem", str(HEADERS), *included, "-o", "-", "kernel.cu"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name).resolve()
        (folder / "kernel.cu").write_text(source, encoding="utf-8")
        if _sealed:
            visible: dict[str, Any] = {
                "version": 0,
                "redirecting-with": "redirect-only",
                "use-external-names": "false",
            }
            visible["roots"] = [_visible(folder, "kernel.cu"), *_visible_headers()]
            (folder / "visible.json").write_text(json.dumps(visible), encoding="utf-8")
            own += ["-ivfsoverlay", str(folder / "visible.json"), "-fno-crash-diagnostics"]
        command = [str(compiler), "clang", *flags, *own]
        try:
            return subprocess.run(command, capture_output=True, cwd=folder, check=False, env=_environment())
        except OSError as error:
            raise ToolchainError(f"{compiler} cannot be run: {error.strerror}. {_REPAIR}") from None


def _visible(folder: Path, *names: str) -> dict[str, Any]:
    """Files of a folder, as an entry of clang's virtual file system overlay."""
    files = [{"name": name, "type": "file", "external-contents": str(folder / name)} for name in names]
    return {"name": str(folder), "type": "directory", "contents": files}


@cache
def _visible_headers() -> list[dict[str, Any]]:
    folders: dict[Path, list[str]] = {}
    for path in sorted(HEADERS.rglob("*")):
        if path.is_file():
            folders.setdefault(path.parent, []).append(path.name)
    return [_visible(folder, *names) for folder, names in folders.items()]


_NO_RETURN = r"non-void \w+ does not return a value(?= \[)"
"""A warning. Calling such a function is undefined in C++, and clang drops all code after the call."""
_FAULT = re.compile(
    r"^(?P<place>[^\n]*?):(?P<line>\d+):\d+: "
    rf"(?:(?:fatal )?error: (?P<says>[^\n]*)|warning: (?P<lacks>{_NO_RETURN}))",
    re.M,
)
LACKS_RETURN = "the function that ends here is not void, and returns no value"


def faults_of(source: str, flags: tuple[str, ...]) -> list[Fault]:
    """All errors that clang reports for a source; empty if it compiles.

    Raises:
        ToolchainError: clang is missing or broken.
    """
    done = _run(zig(), (*_FLAGS_WITH_WARNINGS, *flags, "-fsyntax-only", "-ferror-limit=0"), source)
    messages = done.stderr.decode("utf-8", "replace")
    faults = []
    for match in _FAULT.finditer(messages):
        file, line = match["place"].replace("./", ""), int(match["line"])
        if str(HEADERS) in file:  # in our headers: use the line that instantiates the template
            rest = messages[match.end() :].partition("error: ")[0]
            if called := re.search(r"^([^\n:]+):(\d+):\d+: note: [^\n]*requested here", rest, re.M):
                file, line = called[1], int(called[2])
        says = LACKS_RETURN if match["lacks"] else match["says"].rstrip(".")
        faults.append(Fault(file, line, says, repair_of(says)))
    if done.returncode and not faults:
        raise ToolchainError(f"clang failed and named no line: {messages.strip()[:300]}. {_REPAIR}")
    return faults


_HOLDER = re.compile(rb'\s*"id": "\w+",\s*"kind": "(?:Typedef|TypeAlias|Namespace|LinkageSpec)Decl"')


def syntax_tree(source: str, flags: tuple[str, ...]) -> dict[str, Any]:
    """Clang's syntax tree of a source that compiles: kernels, type aliases, and what may contain them.

    The headers' functions, which are most of the dump, are skipped.
    """
    tree = ("-fsyntax-only", "-Xclang", "-ast-dump=json")
    dump = _run(zig(), (*_FLAGS, *flags, *tree), source).stdout
    inner = dump.partition(b'"inner": [\n    {')[2].rpartition(b"\n    }\n  ]\n}")[0]
    parts = inner.split(b"\n    },\n    {")
    wanted = [part for part in parts if _HOLDER.match(part) or b"CUDAGlobalAttr" in part]
    return {"kind": "TranslationUnitDecl", "inner": json.loads(b"[{" + b"},{".join(wanted) + b"}]")}


def macros_of(source: str, flags: tuple[str, ...]) -> list[str]:
    """The macros defined at the end of a source, as ``#define`` lines."""
    return _run(zig(), (*_FLAGS, *flags, "-E", "-dM"), source).stdout.decode("utf-8", "replace").splitlines()


_REPAIRS = (
    ("texture|surface|tex[123]D|surf[123]D", "Textures and surfaces are not simulated: read an array."),
    (r"\bcu(?:blas|fft|dnn|sparse|solver)", "Libraries for hosts cannot be called from a kernel."),
    ("thrust|cute|cutlass", "Write that part as plain CUDA, or trace a kernel that does without it."),
    (
        "global function|kernel launch|cudaDeviceSynchronize",
        "Launch both kernels from the host, one after the other: a kernel cannot launch another here.",
    ),
    (
        "'new'|operator (?:new|delete)|'(?:malloc|free)'",
        "Give the kernel an array to work in: it cannot allocate.",
    ),
    ("returns no value", "Return one, or make it void: all that follows a call of it is undefined in C++."),
    ("host function .* in __(?:global|device)", "Make it a __device__ function."),
    (
        "variable.length array",
        "Make its size a constant: a #define or a template argument. nvcc takes no other, either.",
    ),
    ("file not found", "Put the header beside the file."),
    ("unknown type name '(?:TensorMap|u64)'", 'Begin the source with #include "hopper.cuh".'),
    (
        r"namespace 'std'|\bstd::",
        "Pass pointers and numbers: classes of the host's library have no device code.",
    ),
)
"""How to fix an error, by a pattern in clang's message."""


def repair_of(*texts: str) -> str:
    """How to fix an error, by clang's message or else by the line of code; empty if unknown."""
    for text in texts:
        for pattern, repair in _REPAIRS:
            if re.search(pattern, text, re.I):
                return repair
    return ""


def _environment() -> dict[str, str]:
    return {
        key: value
        for key, value in os.environ.items()
        if key not in ("CPATH", "CPLUS_INCLUDE_PATH", "C_INCLUDE_PATH")
    }


def _error(message: str, origin: tuple[str, int] | None) -> CompileError:
    error = re.search(r"kernel\.cu:(\d+):(\d+): (?:fatal )?error: ([^\n]*)\n?([^\n]*)", message)
    if not error and (lacks := re.search(rf"kernel\.cu:(\d+):\d+: warning: {_NO_RETURN}", message)):
        text = f"the kernel does not compile: {LACKS_RETURN}."
        return CompileError(*place(origin, int(lacks[1])), text, repair_of(LACKS_RETURN))
    if not error:
        path, line = place(origin, 1)
        return CompileError(path, line, f"the kernel does not compile: {message.strip()[:300].rstrip('.')}.")
    path, line = place(origin, int(error[1]))
    code = re.sub(r"^\s*\d*\s*\|\s*", "", error[4]).strip()
    shown = f", in `{code}`" if code else ""
    text = f"the kernel does not compile: {error[3].rstrip('.')}{shown}."
    return CompileError(path, line, text, repair_of(error[3], code))
