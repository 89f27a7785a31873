"""Running clang: a kernel's text to PTX, kept on disk by its contents.

In: a source, flags, and where in a lesson it stands. Out: the text of the PTX. Errors of the compiler come
back as one message that names the lesson's own line; those of the installation say what is broken. For texts
by strangers, ``seal`` hides every file from clang but the source and the course's headers.
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
    "-fno-delete-null-pointer-checks",  # a test of a pointer behind its first use stays
    "-fno-strict-aliasing",  # NVIDIA's compiler reloads an int after a store of a float, too
    "-mllvm",
    "-simplifycfg-sink-common=false",  # and leaves a store in each of two branches
    "-nostdinc",
    "-w",
    "-Wno-register",
    "-std=c++17",
)
_HEARD = tuple(one for one in _FLAGS if one != "-w")
"""The flags where warnings are read: of them one is an error here."""
_REPAIR = "Install the wheel again: pip install --force-reinstall ziglang; or correct TILEWISE_ZIG."


@dataclass(frozen=True)
class Fault:
    """Something that clang refuses."""

    file: str
    """The file, as the source names it."""
    line: int
    """The line in it."""
    message: str
    """What clang says."""
    repair: str = ""
    """What one can do, where that is known."""


class CompileError(LessonError):
    """A kernel that does not compile, with the compiler's message at the lesson's line."""


def place(origin: tuple[str, int] | None, line: int) -> tuple[str, int]:
    """The lesson's file and line of line ``line`` (from 1) of a source that begins at ``origin``."""
    if origin is None:
        return "<kernel>", line
    return origin[0], origin[1] + max(line, 1) - 1


def ptx_text(source: str, flags: tuple[str, ...], origin: tuple[str, int] | None, compiler: str) -> str:
    """The PTX of a source: from the cache, else made by clang and kept there.

    Args:
        source: CUDA C.
        flags: for clang, beside those that it always gets.
        origin: as for ``place``.
        compiler: what tells one clang from another.

    Raises:
        CompileError: clang refuses the source.
        ToolchainError: clang is missing or broken and the cache does not hold this source, or the cache
            cannot be written.
    """
    header = (HEADERS / "tilewise_cuda.h").read_text()
    extra = "".join(path.read_text() for path in sorted(HEADERS.rglob("*")) if path.is_file())
    key = "\0".join((source, *flags, header, extra, *_FLAGS, compiler))
    name = hashlib.sha256(key.encode()).hexdigest()[:24]
    kept = cache_folder() / "ptx" / f"{name}.ptx"
    if kept.exists():
        text = kept.read_bytes().decode("utf-8", "replace")
        if _is_ptx(text):
            return text
    made = _compile(source, flags, kept, origin)
    keep(kept, made)
    return made


def _is_ptx(text: str) -> bool:
    return bool(re.search(r"^\.version ", text, re.M) and re.search(r"^\.target ", text, re.M))


def _compile(source: str, flags: tuple[str, ...], kept: Path, origin: tuple[str, int] | None) -> str:
    try:
        compiler = zig()
    except ToolchainError as error:
        raise ToolchainError(f"{error} (This kernel is not in the cache {kept.parent} either.)") from None
    flags = (*_HEARD, *flags)
    headers = None if _sealed else _precompiled(compiler, flags)
    done = _run(compiler, flags, source, headers)
    if done.returncode and headers is not None:  # what is wrong is said as of headers that are read as text
        done = _run(compiler, flags, source)
    said, made = (part.decode("utf-8", "replace") for part in (done.stderr, done.stdout))
    if done.returncode < 0:
        raise ToolchainError(f"{compiler} was ended by signal {-done.returncode}. Is memory short? {_REPAIR}")
    if done.returncode and not said.strip():
        raise ToolchainError(f"{compiler} failed with exit code {done.returncode} and no word. {_REPAIR}")
    if done.returncode or re.search(f"warning: {_NO_RETURN}", said):
        raise _error(said, origin)
    if not _is_ptx(made):
        raise ToolchainError(f"{compiler} made no PTX of a kernel. {_REPAIR}")
    return made


_sealed = False


def seal() -> None:
    """From now on, in this process, clang finds no file but the source and the course's headers.

    So no ``#include``, ``__has_include`` or ``#embed`` of a stranger's text learns anything of this machine.
    """
    global _sealed  # noqa: PLW0603 - it holds for the process, and is never taken back
    _sealed = True


@cache
def _precompiled(compiler: Path, flags: tuple[str, ...]) -> Path | None:
    """The headers that every kernel has, compiled once: reading them takes longest of a small kernel.

    None where the cache cannot be written, or this clang does not make such a file.
    """
    seen = [f"{path} {path.stat().st_mtime_ns}" for path in sorted(HEADERS.rglob("*")) if path.is_file()]
    name = hashlib.sha256("\0".join((*flags, str(compiler), *seen)).encode()).hexdigest()[:24]
    kept = cache_folder() / "headers" / f"{name}.pch"
    if kept.exists():
        return kept
    part = kept.with_suffix(f".{os.getpid()}")
    made = ("-Xclang", "-emit-pch", "-o", str(part), str(HEADERS / "tilewise_cuda.h"))
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        command = [str(compiler), "clang", *flags, "-isystem", str(HEADERS), *made]
        subprocess.run(command, capture_output=True, check=True, env=_environment())
        part.replace(kept)
    except (OSError, subprocess.CalledProcessError):
        return None
    return kept


def _run(
    compiler: Path, flags: tuple[str, ...], source: str, headers: Path | None = None
) -> subprocess.CompletedProcess[bytes]:
    """Run clang on a source, which is called ``kernel.cu``, with the headers that every kernel has."""
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
    """Files of a folder, as clang's overlay of the file system lists them."""
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
"""A warning. C++ leaves a call of such a function undefined, and clang drops all that follows it."""
_FAULT = re.compile(
    r"^(?P<place>[^\n]*?):(?P<line>\d+):\d+: "
    rf"(?:(?:fatal )?error: (?P<says>[^\n]*)|warning: (?P<lacks>{_NO_RETURN}))",
    re.M,
)
LACKS_RETURN = "the function that ends here is not void, and returns no value"


def faults_of(source: str, flags: tuple[str, ...]) -> list[Fault]:
    """Everything that clang refuses in a source; empty where it compiles.

    Raises:
        ToolchainError: clang is missing or broken.
    """
    done = _run(zig(), (*_HEARD, *flags, "-fsyntax-only", "-ferror-limit=0"), source)
    said = done.stderr.decode("utf-8", "replace")
    found = []
    for one in _FAULT.finditer(said):
        file, line = one["place"].replace("./", ""), int(one["line"])
        if str(HEADERS) in file:  # of ours, met in what the source asked for
            rest = said[one.end() :].partition("error: ")[0]
            if called := re.search(r"^([^\n:]+):(\d+):\d+: note: [^\n]*requested here", rest, re.M):
                file, line = called[1], int(called[2])
        says = LACKS_RETURN if one["lacks"] else one["says"].rstrip(".")
        found.append(Fault(file, line, says, repair_of(says)))
    if done.returncode and not found:
        raise ToolchainError(f"clang failed and named no line: {said.strip()[:300]}. {_REPAIR}")
    return found


_HOLDER = re.compile(rb'\s*"id": "\w+",\s*"kind": "(?:Typedef|TypeAlias|Namespace|LinkageSpec)Decl"')


def syntax_tree(source: str, flags: tuple[str, ...]) -> dict[str, Any]:
    """Clang's syntax tree of a source that compiles: kernels, names of types, and what may hold them.

    The headers' functions are most of it, and are left unread.
    """
    tree = ("-fsyntax-only", "-Xclang", "-ast-dump=json")
    dump = _run(zig(), (*_FLAGS, *flags, *tree), source).stdout
    inner = dump.partition(b'"inner": [\n    {')[2].rpartition(b"\n    }\n  ]\n}")[0]
    parts = inner.split(b"\n    },\n    {")
    kept = [one for one in parts if _HOLDER.match(one) or b"CUDAGlobalAttr" in one]
    return {"kind": "TranslationUnitDecl", "inner": json.loads(b"[{" + b"},{".join(kept) + b"}]")}


def macros_of(source: str, flags: tuple[str, ...]) -> list[str]:
    """The macros that hold at the end of a source, as ``#define`` lines."""
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
"""What one can do about what clang says, by words in it."""


def repair_of(*texts: str) -> str:
    """What one can do, by what clang says or else by the line that it says it of; empty if unknown."""
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
    found = re.search(r"kernel\.cu:(\d+):(\d+): (?:fatal )?error: ([^\n]*)\n?([^\n]*)", message)
    if not found and (lacks := re.search(rf"kernel\.cu:(\d+):\d+: warning: {_NO_RETURN}", message)):
        says = f"the kernel does not compile: {LACKS_RETURN}."
        return CompileError(*place(origin, int(lacks[1])), says, repair_of(LACKS_RETURN))
    if not found:
        path, line = place(origin, 1)
        return CompileError(path, line, f"the kernel does not compile: {message.strip()[:300].rstrip('.')}.")
    path, line = place(origin, int(found[1]))
    code = re.sub(r"^\s*\d*\s*\|\s*", "", found[4]).strip()
    shown = f", in `{code}`" if code else ""
    says = f"the kernel does not compile: {found[3].rstrip('.')}{shown}."
    return CompileError(path, line, says, repair_of(found[3], code))
