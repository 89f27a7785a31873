"""The compile gate: compiles a kernel with NVRTC as CuPy would, without a GPU or driver.

In: a `Kernel`. Out: for each architecture the compiler's figures (registers, spills, shared memory) or its
messages; `machine_code` shows the generated code. Results are cached because a large kernel takes seconds.
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
"""Functions that NVIDIA's headers declare only from an architecture on."""


@dataclass(frozen=True)
class Resources:
    """The resources that a thread or block of a kernel uses on one architecture."""

    kernel: str
    """The kernel."""
    architecture: str
    """Such as sm_90."""
    registers: int
    """Registers per thread."""
    stack_bytes: int
    """Local memory per thread: arrays that are not in registers, and spills."""
    spill_store_bytes: int
    """Bytes of spill stores per thread."""
    spill_load_bytes: int
    """Bytes of spill loads per thread."""
    shared_bytes: int
    """Static shared memory per block."""

    @property
    def spills(self) -> bool:
        """Whether any register is spilled."""
        return bool(self.spill_store_bytes or self.spill_load_bytes)


@dataclass(frozen=True)
class Compiled:
    """A kernel compiled by NVRTC for one architecture."""

    resources: Resources
    """Its resources."""
    ptx: str
    """PTX of all kernels of the source, with `.loc` lines."""
    cubin: bytes
    """Machine code of all kernels of the source, an ELF file with line information."""


class CompileGateError(KernelError):
    """NVRTC rejects a kernel; the message names the lesson's file and line if the log does.

    Attributes:
        needs: the minimum architecture that the kernel requires, such as sm_80, if that is the reason.
    """

    def __init__(self, message: str, needs: str | None = None) -> None:
        super().__init__(message)
        self.needs = needs


def declared_spill(source: str) -> str | None:
    """Return the reason in a source's comment ``// spills: why``; None without one.

    The tests fail for a kernel that spills without this comment or has it without spilling.
    """
    match = _DECLARED.search(source)
    return match[1].strip() if match else None


def available() -> str | None:
    """Why the gate cannot run here, in one sentence; None if it can."""
    return None if _library_path() else "The wheel nvidia-cuda-nvrtc is not installed."


def architectures(source: str, options: Sequence[str]) -> tuple[str, ...]:
    """Return the architectures to compile for: the one in `-arch=`, or all that support the source."""
    if own := architecture(options):
        return (own,)
    major, minor = needed(source)
    return tuple(name for name in ARCHITECTURES if int(name.removeprefix("sm_")) >= 10 * major + minor)


def flags(options: Sequence[str], target: str) -> tuple[str, ...]:
    """Return the options that CuPy passes to NVRTC: the kernel's, C++17, flush-to-zero, the architecture.

    CuPy appends the last two after the kernel's; a kernel's own `-arch=sm_90a` stays in effect.
    """
    own = tuple(option for option in for_compiler(options) if not option.startswith("-arch="))
    standard = () if any(option.startswith("-std=") for option in own) else ("-std=c++17",)
    return (*own, *standard, "-ftz=true", f"-arch={target}")


def compile_kernel(
    kernel: Kernel, targets: Sequence[str] | None = None, fresh: bool = False
) -> tuple[Resources, ...]:
    """Compile a kernel's source for each architecture.

    Args:
        kernel: the kernel; other kernels of its source are compiled too, but not in the result.
        targets: architectures; by default those of `architectures`.
        fresh: bypass the cache.

    Returns:
        The kernel's resources on each architecture.

    Raises:
        CompileGateError: NVRTC is missing or rejects the source.
    """
    resources = []
    for target in targets or architectures(kernel.whole, kernel.options):
        log, _ = _compile(kernel, target) if fresh else _compile_cached(kernel, target)
        resources.append(_resources(kernel.name, target, log))
    return tuple(resources)


def compile_whole(kernel: Kernel, target: str) -> Compiled:
    """Compile a kernel's source for one architecture, and cache the result.

    Args:
        kernel: the kernel.
        target: an architecture, such as sm_90.

    Raises:
        CompileGateError: NVRTC is missing or rejects the source.
    """
    log, outputs = _compile_cached(kernel, target, ("PTX", "CUBIN"))
    ptx, cubin = outputs
    return Compiled(_resources(kernel.name, target, log), ptx.rstrip(b"\0").decode(), cubin)


def _compile_cached(kernel: Kernel, target: str, wanted: Sequence[str] = ()) -> tuple[str, list[bytes]]:
    """Like ``_compile``, but cached by compiler version and text."""
    file_name = Path(kernel.origin[0]).name
    key = (_version(), kernel.gpu_source, file_name, flags(kernel.options, target), target, *wanted)
    file = cache_folder() / "nvrtc" / f"{hashlib.sha256(repr(key).encode()).hexdigest()[:24]}.json"
    try:
        entry = json.loads(file.read_text(encoding="utf-8"))
        return str(entry["log"]), [part.encode("latin-1") for part in entry["made"]]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):  # absent or damaged
        log, outputs = _compile(kernel, target, wanted)
    keep(file, json.dumps({"log": log, "made": [part.decode("latin-1") for part in outputs]}))
    return log, outputs


def _compile(kernel: Kernel, target: str, wanted: Sequence[str] = ()) -> tuple[str, list[bytes]]:
    """The compiler's log, and the wanted ones of PTX and CUBIN, with line information."""
    library = _library()
    program = ctypes.c_void_p()
    headers = [f"-I{directory}" for directory in _include_directories()]
    options = [*flags(kernel.options, target), "--ptxas-options=-v", *headers]
    options += ["--generate-line-info"] if wanted else []
    if _version() >= (12, 9):  # results from the driver's cache have no log
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
        outputs = [] if status else [_output(program, what) for what in wanted]
    finally:
        library.nvrtcDestroyProgram(ctypes.byref(program))
    log = text.value.decode(errors="replace")
    if status:
        raise CompileGateError(compile_message(kernel.name, log, kernel.origin, target), _needs(log))
    return log, outputs


def _output(program: ctypes.c_void_p, what: str) -> bytes:
    size = ctypes.c_size_t()
    _must(getattr(_library(), f"nvrtcGet{what}Size")(program, ctypes.byref(size)))
    content = ctypes.create_string_buffer(size.value)
    _must(getattr(_library(), f"nvrtcGet{what}")(program, content))
    return content.raw


def _needs(log: str) -> str | None:
    """The minimum architecture that a log asks for, if all its errors are about the architecture."""
    errors = [line for line in log.splitlines() if "error" in line and "detected in" not in line]
    required = []
    for line in errors:
        match = _REQUIRES.search(line)
        since = next((least for name, least in _SINCE.items() if f'"{name}' in line), None)
        if "Ptx assembly aborted" in line:
            continue
        if match is None and since is None:
            return None
        required.append(match[1] if match else str(since))
    return max(required, key=lambda name: int(name.removeprefix("sm_")), default=None)


def nvrtc_version() -> str:
    """Return the version of NVRTC, such as 13.5.

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
    """Return the shared folder of NVIDIA's wheels; None if none is installed."""
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
    libraries = [path for path in sorted(folder.glob(pattern)) if "builtins" not in path.name]
    return libraries[0] if libraries else None


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
