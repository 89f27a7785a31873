"""The compiled machine: builds ``machine.c`` once, keeps it in the cache, and calls it.

In: a launch, with pointers to program and memory. Out: what ``tw_run`` counted and found, as arrays. The
compiler is the clang of the ``ziglang`` wheel, the same that turns CUDA C into PTX; a library that is
already in the cache is used without it. C and not Numba, because importing and compiling Numba costs
seconds that a lesson does not have.
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
"""What ``tw_run`` returns."""
SLICE = 5_000_000
"""Warp instructions between two looks at Python's signals."""
_MAX_HAZARDS = 64
_MAX_NOTES = 8
_CALLS = ("tw_run", "tw_end", "calloc", "free")
_WASM = (
    *("-target", "wasm32-wasi", "-mexec-model=reactor", "-Wl,--strip-all"),
    *(f"-Wl,--export={name}" for name in _CALLS),
)
"""No SIMD: it brings nothing here, and every browser runs this. The module imports nothing."""


class MachineError(RuntimeError):
    """The machine could not be built."""


class Findings:
    """Where a machine writes what it counts and finds.

    Args:
        lines: how many rows of counters.
    """

    def __init__(self, lines: int) -> None:
        self.counts = np.zeros((lines, len(COUNTERS)), np.uint64)
        self.hazards = np.zeros(_MAX_HAZARDS, HAZARD)
        self.notes = np.zeros(_MAX_NOTES, HAZARD)

    def write_into(self, launch: Launch) -> None:
        """Have a launch write here."""
        launch.counts, launch.n_lines = self.counts.ctypes.data, len(self.counts)
        launch.hazards, launch.max_hazards = self.hazards.ctypes.data, len(self.hazards)
        launch.notes, launch.max_notes = self.notes.ctypes.data, len(self.notes)


def prepare() -> Path:
    """The library's path: the one that the wheel carries, else one compiled once for source and processor.

    Raises:
        MachineError: the compiler failed; its message is given.
        ToolchainError: there is no compiler and no compiled engine.
    """
    return built.library() or _compiled()


def prepare_wasm() -> Path:
    """The same as WebAssembly, for pages: the path of ``machine.wasm``.

    Raises:
        MachineError: the compiler failed; its message is given.
        ToolchainError: there is no compiler and no compiled engine.
    """
    return _prepared(".wasm", _WASM)


def wasm_key() -> str:
    """A hash of all that decides ``machine.wasm``."""
    return _key(_WASM)


def _compiled() -> Path:
    return _prepared(".so", (*built.LIBRARY, "-mcpu=native"), platform.machine(), _processor())


def _key(options: Sequence[str], *others: str) -> str:
    return hashlib.sha256("\0".join((built.sources_hash(), *options, *others)).encode()).hexdigest()[:16]


def _prepared(suffix: str, options: Sequence[str], *others: str) -> Path:
    target = cache_folder() / f"machine-{_key(options, *others)}{suffix}"
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
    """What ``-mcpu=native`` depends on: a cache that is carried to another processor builds anew there."""
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
        made = Path(folder) / f"machine{target.suffix}"
        try:
            done = built.compile_engine(compiler, made, *options)
        except OSError as error:
            raise ToolchainError(f"{compiler} cannot be run: {error.strerror}.") from None
        if done.returncode:
            raise MachineError(f"the simulator's engine does not compile:\n{done.stderr.strip()}")
        made.replace(target)
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
    """The library; a file that does not load here is replaced by one compiled here, once.

    That is one cut short, or one of a wheel on a system with another C library.
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
    """Run a launch; the status, the accesses it traced (dtype ``ACCESS``), and what it printed.

    It runs in slices, between which Python sees to its signals: Ctrl-C ends a launch.
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
