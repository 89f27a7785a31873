"""The compile gate: a kernel through NVRTC as CuPy would compile it, on a machine without a GPU or driver.

In: a `Kernel`. Out: for each architecture the compiler's figures (registers, spills, shared memory) or its
messages; `machine_code` shows what it made. It is kept in the cache, since a large kernel takes seconds.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from tilewise.cuda.capability import needed
from tilewise.cuda.kernel_source import KernelError
from tilewise.cuda.options import architecture, for_compiler
from tilewise.gpu.cupy_backend import compile_message
from tilewise.kernel.kernel import Kernel
from tilewise.simulator.compile.toolchain import cache_folder, keep

ARCHITECTURES = ("sm_75", "sm_80", "sm_89", "sm_90", "sm_100", "sm_120")
"""Turing, Ampere, Ada, Hopper and both Blackwells."""

_SPILLS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_DECLARED = re.compile(r"//[ \t]*spills:[ \t]*(\S[^\n]*)")
_REQUIRES = re.compile(r"requires \.target (sm_\d+)\w* or higher")
_SINCE = {"__reduce_": "sm_80"}
"""Functions that NVIDIA's headers declare from some architecture on."""


@dataclass(frozen=True)
class Resources:
    """What one thread or block of a kernel takes on one architecture."""

    kernel: str
    """The kernel."""
    architecture: str
    """Such as sm_90."""
    registers: int
    """Registers a thread."""
    stack_bytes: int
    """Local memory a thread: arrays that are not in registers, and spills."""
    spill_store_bytes: int
    """Bytes stored for want of registers, a thread."""
    spill_load_bytes: int
    """Bytes loaded back, a thread."""
    shared_bytes: int
    """Static shared memory a block."""

    @property
    def spills(self) -> bool:
        """Whether anything is spilled."""
        return bool(self.spill_store_bytes or self.spill_load_bytes)


@dataclass(frozen=True)
class Compiled:
    """A kernel as NVRTC made it for one architecture."""

    resources: Resources
    """What it takes."""
    ptx: str
    """PTX of all kernels of the source, with `.loc` lines."""
    cubin: bytes
    """Machine code of all kernels of the source, an ELF file with line information."""


class CompileGateError(KernelError):
    """NVRTC refuses a kernel; the message has the lesson's own file and line where it names one.

    Attributes:
        needs: the least architecture that has what the kernel uses, such as sm_80, where that is the reason.
    """

    def __init__(self, message: str, needs: str | None = None) -> None:
        super().__init__(message)
        self.needs = needs


def declared_spill(source: str) -> str | None:
    """What a source's comment ``// spills: why`` says; None where it has none.

    A kernel that spills registers fails the tests unless it says so; one that says so and does not, too.
    """
    found = _DECLARED.search(source)
    return found[1].strip() if found else None


def available() -> str | None:
    """Why the gate cannot run here, one sentence; None where it can."""
    return None if _library_path() else "The wheel nvidia-cuda-nvrtc is not installed."


def architectures(source: str, options: Sequence[str]) -> tuple[str, ...]:
    """Where a kernel is compiled: the one that its `-arch=` names, else all that have its instructions."""
    if own := architecture(options):
        return (own,)
    major, minor = needed(source)
    return tuple(name for name in ARCHITECTURES if int(name.removeprefix("sm_")) >= 10 * major + minor)


def flags(options: Sequence[str], target: str) -> tuple[str, ...]:
    """The options that CuPy gives NVRTC for a kernel: its own, C++17, flush-to-zero, the architecture.

    CuPy appends the last two after the kernel's; a kernel's own `-arch=sm_90a` stays in force.
    """
    own = tuple(option for option in for_compiler(options) if not option.startswith("-arch="))
    standard = () if any(option.startswith("-std=") for option in own) else ("-std=c++17",)
    return (*own, *standard, "-ftz=true", f"-arch={target}")


def compile_kernel(
    kernel: Kernel, targets: Sequence[str] | None = None, fresh: bool = False
) -> tuple[Resources, ...]:
    """Compile a kernel's source for each architecture.

    Args:
        kernel: the kernel; others of the same source are compiled with it and left out of the result.
        targets: architectures; None takes those of `architectures`.
        fresh: compile it now, whatever is kept, and keep nothing.

    Returns:
        What it takes, one for each architecture.

    Raises:
        CompileGateError: NVRTC is missing or refuses the source.
    """
    found = []
    for target in targets or architectures(kernel.whole, kernel.options):
        log, _ = _compile(kernel, target) if fresh else _kept(kernel, target)
        found.append(_resources(kernel.name, target, log))
    return tuple(found)


def compile_whole(kernel: Kernel, target: str) -> Compiled:
    """Compile a kernel's source for one architecture, and keep what came of it.

    Args:
        kernel: the kernel.
        target: an architecture, such as sm_90.

    Raises:
        CompileGateError: NVRTC is missing or refuses the source.
    """
    log, made = _kept(kernel, target, ("PTX", "CUBIN"))
    ptx, cubin = made
    return Compiled(_resources(kernel.name, target, log), ptx.rstrip(b"\0").decode(), cubin)


def _kept(kernel: Kernel, target: str, wanted: Sequence[str] = ()) -> tuple[str, list[bytes]]:
    """As ``_compile``, from the cache where this compiler has compiled this text before."""
    place = Path(kernel.origin[0]).name
    decided = (_version(), kernel.gpu_source, place, flags(kernel.options, target), target, *wanted)
    file = cache_folder() / "nvrtc" / f"{hashlib.sha256(repr(decided).encode()).hexdigest()[:24]}.json"
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        return str(found["log"]), [part.encode("latin-1") for part in found["made"]]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):  # absent or damaged
        log, made = _compile(kernel, target, wanted)
    keep(file, json.dumps({"log": log, "made": [part.decode("latin-1") for part in made]}))
    return log, made


def _compile(kernel: Kernel, target: str, wanted: Sequence[str] = ()) -> tuple[str, list[bytes]]:
    """The compiler's log, and what is wanted of PTX and CUBIN; these come with line information."""
    library = _library()
    program = ctypes.c_void_p()
    headers = [f"-I{directory}" for directory in _include_directories()]
    options = [*flags(kernel.options, target), "--ptxas-options=-v", *headers]
    options += ["--generate-line-info"] if wanted else []
    if _version() >= (12, 9):  # what comes from the driver's cache comes without a log
        options += ["--no-cache"]
    texts = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
    name = Path(kernel.origin[0]).name.encode()
    _must(library.nvrtcCreateProgram(ctypes.byref(program), kernel.gpu_source.encode(), name, 0, None, None))
    try:
        status = library.nvrtcCompileProgram(program, len(options), texts)
        size = ctypes.c_size_t()
        _must(library.nvrtcGetProgramLogSize(program, ctypes.byref(size)))
        text = ctypes.create_string_buffer(size.value)
        _must(library.nvrtcGetProgramLog(program, text))
        made = [] if status else [_made(program, what) for what in wanted]
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))
    log = text.value.decode(errors="replace")
    if status:
        raise CompileGateError(compile_message(kernel.name, log, kernel.origin, target), _needs(log))
    return log, made


def _made(program: ctypes.c_void_p, what: str) -> bytes:
    size = ctypes.c_size_t()
    _must(getattr(_library(), f"nvrtcGet{what}Size")(program, ctypes.byref(size)))
    content = ctypes.create_string_buffer(size.value)
    _must(getattr(_library(), f"nvrtcGet{what}")(program, content))
    return content.raw


def _needs(log: str) -> str | None:
    """The least architecture that a log asks for, where each of its errors is about that."""
    errors = [line for line in log.splitlines() if "error" in line and "detected in" not in line]
    asked = []
    for line in errors:
        found = _REQUIRES.search(line)
        since = next((least for name, least in _SINCE.items() if f'"{name}' in line), None)
        if "Ptx assembly aborted" in line:
            continue
        if found is None and since is None:
            return None
        asked.append(found[1] if found else str(since))
    return max(asked, key=lambda name: int(name.removeprefix("sm_")), default=None)


def nvrtc_version() -> str:
    """The version of NVRTC, such as 13.5.

    Raises:
        CompileGateError: it is missing.
    """
    major, minor = _version()
    return f"{major}.{minor}"


def _version() -> tuple[int, int]:
    major, minor = ctypes.c_int(), ctypes.c_int()
    _must(_library().nvrtcVersion(ctypes.byref(major), ctypes.byref(minor)))
    return major.value, minor.value


def _resources(name: str, target: str, log: str) -> Resources:
    entry = log.split(f"Compiling entry function '{name}'", 1)
    if len(entry) < 2:
        raise CompileGateError(
            f'kernel "{name}": NVRTC gave no figures for {target}. Its log begins: {log[:200]!r}.'
        )
    part = entry[1].split("Compiling entry function", 1)[0]
    spills = _SPILLS.search(part)
    registers = re.search(r"Used (\d+) registers", part)
    shared = re.search(r"(\d+)(?:\+\d+)? bytes smem", part)
    return Resources(
        name,
        target,
        int(registers[1]) if registers else 0,
        int(spills[1]) if spills else 0,
        int(spills[2]) if spills else 0,
        int(spills[3]) if spills else 0,
        int(shared[1]) if shared else 0,
    )


def wheel() -> Path | None:
    """The folder that NVIDIA's wheels share; None where none of them is installed."""
    try:
        spec = find_spec("nvidia.cu13") or find_spec("nvidia.cuda_nvrtc")
    except ModuleNotFoundError:
        return None
    places = list(spec.submodule_search_locations or ()) if spec else []
    return Path(places[0]) if places else None


def _library_path() -> Path | None:
    folder = wheel()
    if folder is None:
        return None
    pattern = "bin/**/nvrtc64_*.dll" if os.name == "nt" else "lib/libnvrtc.so.*"
    found = [one for one in sorted(folder.glob(pattern)) if "builtins" not in one.name]
    return found[0] if found else None


def _include_directories() -> list[Path]:
    folder = wheel()
    return [folder / "include"] if folder and (folder / "include").is_dir() else []


@cache
def _library() -> ctypes.CDLL:
    path = _library_path()
    if path is None:
        raise CompileGateError(f"{available()} Install it: pip install nvidia-cuda-nvrtc.")
    library = ctypes.CDLL(str(path))
    library.nvrtcCompileProgram.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.POINTER(ctypes.c_char_p)]
    library.nvrtcGetProgramLogSize.argtypes = [ctypes.c_void_p, ctypes.POINTER(ctypes.c_size_t)]
    library.nvrtcGetProgramLog.argtypes = [ctypes.c_void_p, ctypes.c_char_p]
    for what in ("PTX", "CUBIN"):
        getattr(library, f"nvrtcGet{what}Size").argtypes = [ctypes.c_void_p, ctypes.POINTER(ctypes.c_size_t)]
        getattr(library, f"nvrtcGet{what}").argtypes = [ctypes.c_void_p, ctypes.c_char_p]
    return library


def _must(status: int) -> None:
    if status:
        raise CompileGateError(f"NVRTC failed with code {status}. Reinstall nvidia-cuda-nvrtc.")
