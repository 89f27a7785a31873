"""The compiled machine: builds ``machine.c`` once, caches it, and calls it.

In: a launch, with pointers to program and memory. Out: the counts and findings of ``tw_run``, as arrays. The
compiler is the clang of the ``ziglang`` wheel, which also compiles CUDA C to PTX; a cached library is used
without it. The machine is in C instead of Numba, because importing and compiling Numba takes seconds.
"""

from __future__ import annotations

import ctypes
import hashlib
import platform
import sys
import tempfile
import time
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tilewise.simulator.compile.toolchain import ToolchainError, cache_folder, unwritable, zig
from tilewise.simulator.engine import built
from tilewise.simulator.engine.shared import ACCESS, COUNTERS, HAZARD, Launch, numbers

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from numpy.typing import NDArray

DONE, STOPPED, NO_MEMORY, TOO_MANY_STEPS, PAUSED = (
    numbers("STATUS")[name] for name in ("DONE", "STOPPED", "NO_MEMORY", "TOO_MANY_STEPS", "PAUSED")
)
"""Return values of ``tw_run``."""
SLICE = 5_000_000
"""Warp instructions between checks of Python's signals."""
_MAX_HAZARDS = 64
_MAX_NOTES = 8
_CALLS = ("tw_run", "tw_end", "calloc", "free")
_WASM = (
    *("-target", "wasm32-wasi", "-mexec-model=reactor", "-Wl,--strip-all"),
    *(f"-Wl,--export={name}" for name in _CALLS),
)
"""No SIMD: it gains nothing here, and every browser runs this. The module has no imports."""


class MachineError(RuntimeError):
    """The machine could not be built."""


class Findings:
    """Buffers for a machine's counts, hazards and notes.

    Args:
        lines: number of rows of counters.
    """

    def __init__(self, lines: int) -> None:
        self.counts = np.zeros((lines, len(COUNTERS)), np.uint64)
        self.hazards = np.zeros(_MAX_HAZARDS, HAZARD)
        self.notes = np.zeros(_MAX_NOTES, HAZARD)

    def write_into(self, launch: Launch) -> None:
        """Point a launch to these buffers."""
        launch.counts, launch.n_lines = self.counts.ctypes.data, len(self.counts)
        launch.hazards, launch.max_hazards = self.hazards.ctypes.data, len(self.hazards)
        launch.notes, launch.max_notes = self.notes.ctypes.data, len(self.notes)


def prepare() -> Path:
    """Return the library's path: from the wheel, else compiled once per source and processor.

    Raises:
        MachineError: the compiler failed; includes its message.
        ToolchainError: there is no compiler and no compiled engine.
    """
    return built.library() or _compiled()


def prepare_wasm() -> Path:
    """Return the path of ``machine.wasm``, the machine for pages.

    Raises:
        MachineError: the compiler failed; includes its message.
        ToolchainError: there is no compiler and no compiled engine.
    """
    return _prepared(".wasm", _WASM)


def wasm_key() -> str:
    """A hash of everything that determines ``machine.wasm``."""
    return _key(_WASM)


def _compiled() -> Path:
    return _prepared(".so", (*built.LIBRARY, "-mcpu=native"), platform.machine(), _processor())


def _key(options: Sequence[str], *parts: str) -> str:
    return hashlib.sha256("\0".join((built.sources_hash(), *options, *parts)).encode()).hexdigest()[:16]


def _prepared(suffix: str, options: Sequence[str], *parts: str) -> Path:
    target = cache_folder() / f"machine-{_key(options, *parts)}{suffix}"
    if target.exists():
        return target
    compiler = zig()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(target.parent, error) from None
    with _lock(target.with_suffix(".lock")):
        if not target.exists():
            _compile(compiler, target, options)
    return target


def _processor() -> str:
    """What ``-mcpu=native`` depends on, so that a cache moved to another processor is rebuilt."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        text = info.read_text(errors="replace")
        return next((line for line in text.splitlines() if line.startswith(("flags", "Features"))), "")
    return platform.processor()


def _compile(compiler: Path, target: Path, options: Sequence[str]) -> None:
    started = time.monotonic()
    place = "the pages" if target.suffix == ".wasm" else "this machine"
    print(f"tilewise: compiling the simulator's engine for {place}, once (about 20 s) …", file=sys.stderr)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        built_file = Path(folder) / f"machine{target.suffix}"
        try:
            process = built.compile_engine(compiler, built_file, *options)
        except OSError as error:
            raise ToolchainError(f"{compiler} cannot be run: {error.strerror}.") from None
        if process.returncode:
            raise MachineError(f"the simulator's engine does not compile:\n{process.stderr.strip()}")
        built_file.replace(target)
    print(f"tilewise: the engine is ready after {time.monotonic() - started:.0f} s.", file=sys.stderr)


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    if sys.platform == "win32":
        yield
        return
    import fcntl

    with path.open("w") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _loaded() -> ctypes.CDLL:
    """The library; a file that does not load is recompiled once.

    The file may be truncated, or from a wheel for another C library.
    """
    path = prepare()
    try:
        return ctypes.CDLL(str(path))
    except OSError:
        if path.parent != built.FOLDER:
            path.unlink(missing_ok=True)
    try:
        return ctypes.CDLL(str(_compiled()))
    except OSError as error:
        raise MachineError(f"the simulator's engine does not load: {error}") from None


@cache
def library() -> ctypes.CDLL:
    """The compiled machine, loaded."""
    loaded = _loaded()
    loaded.tw_run.argtypes = [ctypes.POINTER(Launch)]
    loaded.tw_run.restype = ctypes.c_int
    loaded.tw_end.argtypes = [ctypes.POINTER(Launch)]
    loaded.tw_end.restype = None
    loaded.tw_free.argtypes = [ctypes.c_void_p]
    loaded.tw_free.restype = None
    return loaded


def run(launch: Launch) -> tuple[int, NDArray[np.void], str]:
    """Run a launch; return the status, the traced accesses (dtype ``ACCESS``), and the printed text.

    It runs in slices, between which Python handles signals, so Ctrl-C ends a launch.
    """
    launch.slice = SLICE
    accesses, text = np.zeros(0, ACCESS), ""
    try:
        while (status := library().tw_run(ctypes.byref(launch))) == PAUSED:
            pass
        if launch.n_accesses:
            size = launch.n_accesses * ACCESS.itemsize
            accesses = np.frombuffer(ctypes.string_at(launch.accesses, size), ACCESS).copy()
        if launch.n_text:
            text = ctypes.string_at(launch.text, launch.n_text).decode(errors="replace")
    finally:
        library().tw_free(launch.accesses)
        launch.accesses = None
        library().tw_end(ctypes.byref(launch))
    return status, accesses, text


if __name__ == "__main__":
    print(prepare())
