"""cuBLASLt: matrix multiplication by the fastest algorithm of its heuristics.

In: device arrays in row-major order. Out: functions without arguments that multiply them. The library is
NVIDIA's, loaded with ctypes on first use. cuBLAS itself runs the first choice of its heuristics, untimed.

cuBLASLt reads matrices in column-major order, in which a row-major matrix is its own transpose. So it is
asked for (A B) transposed, which is B transposed times A transposed, and no data has to move.
"""

from __future__ import annotations

import ctypes
import os
import site
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

from tilewise.gpu.timing import Contender, Plan, time_contenders

ALGORITHMS = 10
"""Number of algorithms requested from the heuristics."""
WORKSPACE_BYTES = 64 * 1024 * 1024
"""The workspace that an algorithm may use; split-K needs some. PyTorch allows 32 MiB on Hopper."""
TRIAL = Plan(budget_s=0.5, repetitions=20)
"""How each algorithm is timed."""
VERSIONS = (13, 12)
"""Supported major versions."""

_TYPES = {"float32": 0, "float16": 2, "uint16": 14}  # CUDA_R_32F, CUDA_R_16F; 16 bits of BF16 are CUDA_R_16BF
_COMPUTE_32F = 68
_MAX_WORKSPACE = 1


class _Heuristic(ctypes.Structure):
    """cuBLASLt's ``cublasLtMatmulHeuristicResult_t``."""

    _fields_ = (
        ("algorithm", ctypes.c_uint64 * 8),
        ("workspace_bytes", ctypes.c_size_t),
        ("status", ctypes.c_int),
        ("waves", ctypes.c_float),
        ("reserved", ctypes.c_int * 4),
    )


def fastest(a: Any, b: Any, out: Any) -> Callable[[], None]:
    """Return a call for A B by the fastest of the first ``ALGORITHMS`` algorithms, timed on these arrays.

    Args:
        a: the left matrix on the GPU: 32-bit floats, 16-bit floats, or the bits of BF16 as ``uint16``.
        b: the right matrix, of the same type.
        out: their product, of the same type; written.

    Raises:
        ImportError: cuBLASLt is missing.
        ValueError, RuntimeError: as ``algorithms``.
    """
    calls = algorithms(a, b, out)
    timings = time_contenders([Contender(str(at), call) for at, call in enumerate(calls)], TRIAL)
    return calls[min(range(len(calls)), key=lambda at: timings[at].median)]


def algorithms(a: Any, b: Any, out: Any) -> list[Callable[[], None]]:
    """Return a call for A B by each algorithm of the heuristics, their first choice first.

    Raises:
        ImportError: cuBLASLt is missing.
        ValueError: the shapes or types of the matrices don't match.
        RuntimeError: cuBLASLt fails.
    """
    import cupy

    arrays = (a, b, out)
    shapes = [array.shape for array in arrays]
    if a.shape[1] != b.shape[0] or out.shape != (a.shape[0], b.shape[1]):
        raise ValueError(f"the shapes do not fit together: {shapes[0]} times {shapes[1]} into {shapes[2]}")
    if len({str(array.dtype) for array in arrays}) > 1 or str(a.dtype) not in _TYPES:
        raise ValueError(f"the arrays have to have one type, one of {', '.join(_TYPES)}")
    if not all(array.flags.c_contiguous for array in arrays):
        raise ValueError("a matrix is not in row-major order without gaps; pass a contiguous copy")
    kind, handle = _TYPES[str(a.dtype)], _handle()
    operation = _create("MatmulDescCreate", _COMPUTE_32F, _TYPES["float32"])
    of_a, of_b, of_out = (_layout(kind, *shape) for shape in shapes)
    preference, most = _create("MatmulPreferenceCreate"), ctypes.c_size_t(WORKSPACE_BYTES)
    size = ctypes.c_size_t(ctypes.sizeof(most))
    _do("MatmulPreferenceSetAttribute", preference, _MAX_WORKSPACE, ctypes.byref(most), size)
    results, number = (_Heuristic * ALGORITHMS)(), ctypes.c_int()
    descriptors = (operation, of_b, of_a, of_out, of_out, preference)
    _do("MatmulAlgoGetHeuristic", handle, *descriptors, ALGORITHMS, results, ctypes.byref(number))
    alpha, beta = ctypes.c_float(1), ctypes.c_float(0)
    scratch = cupy.empty(WORKSPACE_BYTES, dtype=cupy.uint8)

    def by(chosen: _Heuristic) -> Callable[[], None]:
        def call() -> None:
            left, right, into, room = (ctypes.c_void_p(array.data.ptr) for array in (a, b, out, scratch))
            factors = (ctypes.byref(alpha), right, of_b, left, of_a)
            output = (ctypes.byref(beta), into, of_out, into, of_out)
            stream = ctypes.c_void_p(cupy.cuda.get_current_stream().ptr)
            _do("Matmul", handle, operation, *factors, *output, ctypes.byref(chosen), room, most, stream)

        return call

    calls = [by(chosen) for chosen in results[: number.value] if chosen.status == 0]
    if not calls:
        raise RuntimeError(f"cuBLASLt names no algorithm for {a.dtype}, {shapes[0]} times {shapes[1]}")
    return calls


def version() -> str:
    """The version of the cuBLAS that this process has loaded; empty if none is loaded."""
    for path in (f"libcublasLt.so.{major}" for major in VERSIONS):
        try:
            number = ctypes.CDLL(path, mode=os.RTLD_NOLOAD).cublasLtGetVersion()
        except OSError:
            continue
        return f"{number // 10000}.{number // 100 % 100}.{number % 100}"
    return ""


@lru_cache(maxsize=1)
def _library() -> Any:
    """cuBLASLt: already loaded or on the loader's path, else from CuPy's or torch's packages."""
    for path in _paths():
        try:
            return ctypes.CDLL(path)
        except OSError:
            continue
    raise ImportError("libcublasLt was not found; it comes with CUDA, with torch, and as nvidia-cublas")


def _paths() -> Iterator[str]:
    names = [f"libcublasLt.so.{major}" for major in VERSIONS]
    yield from names
    for folder in site.getsitepackages():
        for name in names:
            yield from map(str, sorted(Path(folder).glob(f"nvidia/*/lib/{name}")))


@lru_cache(maxsize=1)
def _handle() -> ctypes.c_void_p:
    return _create("Create")


def _layout(kind: int, rows: int, columns: int) -> ctypes.c_void_p:
    """A row-major matrix as cuBLASLt sees it: its transpose, in column-major order."""
    extents = ctypes.c_uint64(columns), ctypes.c_uint64(rows)
    return _create("MatrixLayoutCreate", kind, *extents, ctypes.c_int64(columns))


def _create(what: str, *arguments: Any) -> ctypes.c_void_p:
    """An object created by cuBLASLt, which lives as long as the process."""
    created = ctypes.c_void_p()
    _do(what, ctypes.byref(created), *arguments)
    return created


def _do(what: str, *arguments: Any) -> None:
    """Call a cuBLASLt function by its name without the prefix.

    Raises:
        RuntimeError: it fails.
    """
    if status := getattr(_library(), f"cublasLt{what}")(*arguments):
        raise RuntimeError(f"cublasLt{what} failed with status {status}")
