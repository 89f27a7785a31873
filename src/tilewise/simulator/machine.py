"""The compiled machine: builds ``machine.c`` once, keeps it in the cache, and calls it.

In: a ``Program`` and memory as pointers. Out: what ``tw_run`` counted and found, as NumPy arrays. The
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

from .names import SOURCE, header, machine_text
from .toolchain import cache_folder, zig

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

COUNTERS = [
    "gl_requests",
    "gl_sectors",
    "gl_lines",
    "gl_useful",
    "gl_lanes",
    "gs_requests",
    "gs_sectors",
    "gs_lines",
    "gs_useful",
    "gs_lanes",
    "ga_requests",
    "ga_sectors",
    "ga_lines",
    "ga_useful",
    "ga_lanes",
    "sl_requests",
    "sl_wavefronts",
    "sl_useful",
    "sl_lanes",
    "ss_requests",
    "ss_wavefronts",
    "ss_useful",
    "ss_lanes",
    "sa_requests",
    "sa_wavefronts",
    "sa_useful",
    "sa_lanes",
    "issued",
    "active_lanes",
    "barriers",
    "divergent",
    "local_requests",
    "local_useful",
    "bl_requests",
    "bl_sectors",
    "bl_useful",
    "bl_delivered",
    "bs_requests",
    "bs_sectors",
    "bs_useful",
    "bs_delivered",
    "wgmma",
    "mbarriers",
]

HAZARD = np.dtype(
    [
        (name, np.int32)
        for name in [
            "kind",
            "line",
            "block",
            "warp",
            "lane",
            "thread",
            "buffer",
            "size",
            "write",
            "other_line",
            "other_warp",
            "count",
            "other_block",
            "agent",
            "caller",
            "other_lane",
        ]
    ]
    + [("address", np.uint64), ("index", np.int64)]
)
ACCESS = np.dtype(
    [
        (name, np.int32)
        for name in ["step", "block", "warp", "lane", "line", "space", "kind", "size", "buffer", "interval"]
    ]
    + [("address", np.uint64), ("index", np.int64), ("bits", np.uint64)]
)
STOPPED, NO_MEMORY, TOO_MANY_STEPS, PAUSED = 1, 2, 3, 4
"""What ``tw_run`` returns; 0 is a run to the end."""
SLICE = 5_000_000
"""Warp instructions between two looks at Python's signals."""
WORD_BYTES = 36
"""Bytes that the machine keeps for each word of a global array that it watches for races."""
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


class Buffer(ctypes.Structure):
    """One array of global memory."""

    _fields_ = (
        ("size", ctypes.c_uint64),
        ("data", ctypes.c_void_p),
        ("writable", ctypes.c_int32),
        ("id", ctypes.c_int32),
        ("words", ctypes.c_void_p),
    )


class Launch(ctypes.Structure):
    """Everything that ``tw_run`` reads and writes; the layout of ``Launch`` in ``machine.c``."""

    _fields_ = (
        ("code", ctypes.c_void_p),
        ("n_code", ctypes.c_int64),
        ("consts", ctypes.c_void_p),
        ("units", ctypes.c_int64),
        ("params", ctypes.c_void_p),
        ("buffers", ctypes.c_void_p),
        ("n_buffers", ctypes.c_int64),
        ("grid", ctypes.c_int32 * 3),
        ("block", ctypes.c_int32 * 3),
        ("shared_bytes", ctypes.c_int64),
        ("local_bytes", ctypes.c_int64),
        ("shared_grain", ctypes.c_int32),
        ("entry", ctypes.c_int32),
        ("counts", ctypes.c_void_p),
        ("n_lines", ctypes.c_int64),
        ("hazards", ctypes.c_void_p),
        ("max_hazards", ctypes.c_int64),
        ("n_hazards", ctypes.c_int64),
        ("collect", ctypes.c_int32),
        ("tracing", ctypes.c_int32),
        ("max_steps", ctypes.c_int64),
        ("steps", ctypes.c_int64),
        ("trace_blocks", ctypes.c_void_p),
        ("trace_warps", ctypes.c_void_p),
        ("accesses", ctypes.c_void_p),
        ("n_accesses", ctypes.c_int64),
        ("cap_accesses", ctypes.c_int64),
        ("max_trace_steps", ctypes.c_int64),
        ("sm_count", ctypes.c_int32),
        ("used_clock", ctypes.c_int32),
        ("stop_line", ctypes.c_int32),
        ("pad", ctypes.c_int32),
        ("owners", ctypes.c_void_p),
        ("slice", ctypes.c_int64),
        ("limit", ctypes.c_int64),
        ("releases", ctypes.c_void_p),
        ("global_grain", ctypes.c_int64),
        ("text", ctypes.c_void_p),
        ("n_text", ctypes.c_int64),
        ("cap_text", ctypes.c_int64),
        ("state", ctypes.c_void_p),
        ("cluster", ctypes.c_int32 * 3),
        ("agents", ctypes.c_int32),
        ("last", ctypes.c_int64),
    )


class MachineError(RuntimeError):
    """The machine could not be built or does not fit its description."""


def prepare() -> Path:
    """Build the machine if the cache has none for this source and processor; the library's path.

    Raises:
        MachineError: the compiler failed; its message is given.
        ToolchainError: there is no compiler and no built machine.
    """
    text = machine_text()
    name = hashlib.sha256(
        "\0".join((text, header(), *_FLAGS, platform.machine(), _processor())).encode()
    ).hexdigest()[:16]
    target = cache_folder() / f"machine-{name}.so"
    if target.exists():
        return target
    compiler = zig()
    target.parent.mkdir(parents=True, exist_ok=True)
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
        (Path(folder) / "ops.h").write_text(header())
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
            f"-I{folder}",
            f"-I{SOURCE.parent}",
            "-Werror=switch",
            "-o",
            str(made),
            str(SOURCE),
            "-lm",
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
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


@cache
def _library() -> ctypes.CDLL:
    library = ctypes.CDLL(str(prepare()))
    library.tw_run.argtypes = [ctypes.POINTER(Launch)]
    library.tw_run.restype = ctypes.c_int
    library.tw_end.argtypes = [ctypes.POINTER(Launch)]
    library.tw_end.restype = None
    library.tw_free.argtypes = [ctypes.c_void_p]
    library.tw_free.restype = None
    sizes = [library.tw_layout(which) for which in range(7)]
    from .program import INSTRUCTION

    expected = [
        INSTRUCTION.itemsize,
        ctypes.sizeof(Launch),
        HAZARD.itemsize,
        ACCESS.itemsize,
        8 * len(COUNTERS),
        ctypes.sizeof(Buffer),
        WORD_BYTES,
    ]
    if sizes != expected:
        raise MachineError(f"machine.c lays out its structures in {sizes} bytes and machine.py in {expected}")
    return library


def run(launch: Launch) -> tuple[int, NDArray[np.void], str]:
    """Run a launch; the status, the accesses it traced (dtype ``ACCESS``), and what it printed.

    It runs in slices, between which Python sees to its signals: Ctrl-C ends a launch.
    """
    library = _library()
    launch.slice = SLICE
    accesses, text = np.zeros(0, ACCESS), ""
    try:
        while (status := library.tw_run(ctypes.byref(launch))) == PAUSED:
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
