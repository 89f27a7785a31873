"""The compiled machine: builds ``machine.c`` once, keeps it in the cache, and calls it.

In: a launch, with pointers to program and memory. Out: what ``tw_run`` counted and found, as arrays. The
compiler is the clang of the ``ziglang`` wheel, the same that turns CUDA C into PTX; a library that is
already in the cache is used without it. C and not Numba, because importing and compiling Numba costs
seconds that a lesson does not have.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from tilewise.simulator.compile.toolchain import ToolchainError, cache_folder, unwritable, zig
from tilewise.simulator.engine.shared import ACCESS, ENGINE, Launch, numbers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

_STATUS = numbers("STATUS")
STOPPED, NO_MEMORY, TOO_MANY_STEPS = (_STATUS[name] for name in ("STOPPED", "NO_MEMORY", "TOO_MANY_STEPS"))
"""What ``tw_run`` returns, beside a run to the end."""
SLICE = 5_000_000
"""Warp instructions between two looks at Python's signals."""
_FLAGS = (
    "-O2",
    "-mcpu=native",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-std=gnu11",
    "-shared",
    "-fPIC",
    "-g0",
    "-fno-sanitize=all",
)


class MachineError(RuntimeError):
    """The machine could not be built."""


def prepare() -> Path:
    """Build the machine if the cache has none for this source and processor; the library's path.

    Raises:
        MachineError: the compiler failed; its message is given.
        ToolchainError: there is no compiler and no built machine.
    """
    sources = [path.read_text() for path in sorted(ENGINE.glob("*.[chd]*"))]
    key = "\0".join((*sources, *_FLAGS, platform.machine(), _processor()))
    name = hashlib.sha256(key.encode()).hexdigest()[:16]
    target = cache_folder() / f"machine-{name}.so"
    if target.exists():
        return target
    compiler = zig()
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(target.parent, error) from None
    with _lock(target.with_suffix(".lock")):
        if not target.exists():
            _build(compiler, target)
    return target


def _processor() -> str:
    """What ``-mcpu=native`` depends on: a cache that is carried to another processor builds anew there."""
    if os.environ.get("TILEWISE_ANY_PROCESSOR"):
        return "any"
    info = Path("/proc/cpuinfo")
    if info.exists():
        text = info.read_text(errors="replace")
        return next((line for line in text.splitlines() if line.startswith(("flags", "Features"))), "")
    return platform.processor()


def _build(compiler: Path, target: Path) -> None:
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        made = Path(folder) / "machine.so"
        flags = [
            flag
            for flag in _FLAGS
            if not (os.environ.get("TILEWISE_ANY_PROCESSOR") and flag == "-mcpu=native")
        ]
        command = [
            str(compiler),
            "cc",
            *flags,
            "-Werror=switch",
            "-o",
            str(made),
            str(ENGINE / "machine.c"),
            "-lm",
        ]
        try:
            done = subprocess.run(command, capture_output=True, text=True, check=False)
        except OSError as error:
            raise ToolchainError(f"{compiler} cannot be run: {error.strerror}.") from None
        if done.returncode:
            raise MachineError(f"the simulator's machine does not compile:\n{done.stderr.strip()}")
        made.replace(target)


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
    """The library; a file that is no library, such as one cut short, is built anew, once."""
    path = prepare()
    try:
        return ctypes.CDLL(str(path))
    except OSError:
        path.unlink(missing_ok=True)
    try:
        return ctypes.CDLL(str(prepare()))
    except OSError as error:
        raise MachineError(f"the simulator's machine does not load: {error}") from None


@cache
def _library() -> ctypes.CDLL:
    library = _loaded()
    library.tw_run.argtypes = [ctypes.POINTER(Launch)]
    library.tw_run.restype = ctypes.c_int
    library.tw_end.argtypes = [ctypes.POINTER(Launch)]
    library.tw_end.restype = None
    library.tw_free.argtypes = [ctypes.c_void_p]
    library.tw_free.restype = None
    return library


def run(launch: Launch) -> tuple[int, NDArray[np.void], str]:
    """Run a launch; the status, the accesses it traced (dtype ``ACCESS``), and what it printed.

    It runs in slices, between which Python sees to its signals: Ctrl-C ends a launch.
    """
    library = _library()
    launch.slice = SLICE
    accesses, text = np.zeros(0, ACCESS), ""
    try:
        while (status := library.tw_run(ctypes.byref(launch))) == _STATUS["PAUSED"]:
            pass
        if launch.n_accesses:
            size = launch.n_accesses * ACCESS.itemsize
            accesses = np.frombuffer(ctypes.string_at(launch.accesses, size), ACCESS).copy()
        if launch.n_text:
            text = ctypes.string_at(launch.text, launch.n_text).decode(errors="replace")
    finally:
        library.tw_free(launch.accesses)
        launch.accesses = None
        library.tw_end(ctypes.byref(launch))
    return status, accesses, text


if __name__ == "__main__":
    print(prepare())
