"""What a launch costs on the host: a ``Kernel`` beside ``cupy.RawKernel``, with and without tensor maps.

With a GPU both launch the same empty kernel through CuPy; the functions of ``tilewise.kernels`` follow, on
arrays of CuPy and, where it is there, of PyTorch. Without one, a stand-in for CuPy takes the launch
and does nothing, so that what is left is the work in front of it, in processor time; its own call is the row
"stand-in".

Run: ``python benchmarks/launches.py``.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np

from tilewise.cuda import tensor_map as maps
from tilewise.cuda.tensor_map import tensor_map
from tilewise.kernel.backend import backend
from tilewise.kernel.kernel import Kernel

PLAIN = """
extern "C" __global__ void plain(const float* a, const float* b, float* c, int n) {}
"""
MAPPED = """
struct __align__(128) TensorMap { unsigned long long opaque[16]; };
extern "C" __global__ void mapped(const __grid_constant__ TensorMap a, const __grid_constant__ TensorMap b,
                                  const __grid_constant__ TensorMap c, int n) {}
"""
LAUNCHES, ROUNDS = 500, 9


class Array:
    """As much of ``cupy.ndarray`` as a launch looks at."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.host = np.zeros(shape, np.float32)
        self.dtype, self.flags = self.host.dtype, self.host.flags
        self.data = SimpleNamespace(ptr=self.host.ctypes.data)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return dict(self.host.__array_interface__)


def stand_in() -> ModuleType:
    """A module that a launch takes for CuPy."""

    def taken(grid: Any, block: Any, args: Any, *, shared_mem: int = 0) -> None:
        return None

    taken.kernel = SimpleNamespace(ptr=0)  # type: ignore[attr-defined]

    cupy = ModuleType("cupy")
    cupy.ndarray, cupy.asarray = Array, lambda value: value
    cupy.RawKernel = lambda code, name, options=(): taken
    cupy.RawModule = lambda code, options=(): SimpleNamespace(get_function=lambda name: taken)
    runtime = SimpleNamespace(
        getDeviceCount=lambda: 1,
        getDevice=lambda: 0,
        getDeviceProperties=lambda device: {"name": b"stand-in"},
        CUDARuntimeError=OSError,
    )
    cupy.cuda = SimpleNamespace(
        runtime=runtime,
        driver=SimpleNamespace(CUDADriverError=OSError, launchKernel=lambda *given: None),
        get_current_stream=lambda: SimpleNamespace(ptr=0),
        compiler=SimpleNamespace(CompileException=SyntaxError),
    )
    cupy.__spec__ = SimpleNamespace(name="cupy")
    maps._driver = lambda: SimpleNamespace(cuTensorMapEncodeTiled=lambda *given: 0)
    sys.modules["cupy"] = cupy
    return cupy


def microseconds(launch: Callable[[], Any], clock: Callable[[], float]) -> float:
    """Host time of one launch: the median of rounds."""
    taken = []
    for _ in range(ROUNDS):
        begun = clock()
        for _ in range(LAUNCHES):
            launch()
        taken.append((clock() - begun) / LAUNCHES * 1e6)
    return statistics.median(taken)


def functions(cupy: Any) -> dict[str, Callable[[], Any]]:
    """Calls of every function on small arrays that stay the same: what a call costs once it has its plan."""
    from tilewise import kernels

    sorts: dict[str, Callable[..., Any]] = {
        "CuPy": lambda kind, *shape: cupy.zeros(shape, np.uint16 if kind == "bfloat16" else np.float32)
    }
    if find_spec("torch") is not None:
        torch = __import__("torch")
        sorts["PyTorch"] = lambda kind, *shape: torch.zeros(shape, dtype=getattr(torch, kind), device="cuda")
    made: dict[str, Callable[[], Any]] = {}
    for sort, zeros in sorts.items():
        bits = {"dtype": "bfloat16"} if sort == "CuPy" else {}
        x, y = zeros("float32", 64, 256), zeros("float32", 256, 64)
        a, b = zeros("bfloat16", 128, 256), zeros("bfloat16", 256, 128)
        q, one = zeros("bfloat16", 1, 2, 64, 128), zeros("bfloat16", 1, 2, 128)
        out, lse = kernels.attention(q, q, q, return_lse=True, **bits)
        made |= {
            f"softmax, {sort}": partial(kernels.softmax, x),
            f"sum, {sort}": partial(kernels.sum, x),
            f"transpose, {sort}": partial(kernels.transpose, x),
            f"matmul, FP32, {sort}": partial(kernels.matmul, x, y),
            f"matmul, BF16, {sort}": partial(kernels.matmul, a, b, **bits),
            f"attention, {sort}": partial(kernels.attention, q, q, q, **bits),
            f"attention_backward, {sort}": partial(kernels.attention_backward, q, q, q, q, out, lse, **bits),
            f"attention_decode, {sort}": partial(kernels.attention_decode, one, q, q, **bits),
        }
    return made


def main() -> None:
    """Print host times, and ratios to the first row."""
    real = find_spec("cupy") is not None
    cupy: Any = __import__("cupy") if real else stand_in()
    backend()
    kernel, mapped = Kernel(PLAIN), Kernel(MAPPED)
    arrays = [cupy.zeros((256, 64), np.float32) if real else Array((256, 64)) for _ in range(3)]
    raw, n = cupy.RawKernel(PLAIN, "plain"), np.int32(5)
    held = [tensor_map(one, box=(64, 32), swizzle=128) for one in arrays]
    rows = {
        "cupy.RawKernel" if real else "stand-in": lambda: raw((1,), (32,), (*arrays, n)),
        "Kernel": lambda: kernel(*arrays, 5, grid=1, block=32),
        "Kernel, three tensor maps": lambda: mapped(*held, 5, grid=1, block=32),
        "the same, made for each launch": lambda: mapped(
            *(tensor_map(one, box=(64, 32), swizzle=128) for one in arrays), 5, grid=1, block=32
        ),
    }
    if real:
        encoded, raw_mapped = (
            [maps.encoded(one.source.data.ptr, one.layout).data for one in held],
            cupy.RawKernel(MAPPED, "mapped"),
        )
        rows["cupy.RawKernel, three tensor maps"] = lambda: raw_mapped((1,), (32,), (*encoded, n))
        rows |= functions(cupy)
    first = 0.0
    for name, launch in rows.items():
        launch()
        took = microseconds(launch, time.perf_counter if real else time.process_time)
        first = first or took
        print(f"{name:34} {took:7.2f} us  {took / first:6.2f} x, {took - first:+.2f} us")


if __name__ == "__main__":
    main()
