"""What a launch costs on the host: a ``Kernel`` beside ``cupy.RawKernel``, with and without tensor maps.

Both launch the same empty kernel through CuPy. The functions of ``tilewise.kernels`` follow, on arrays of
CuPy and, where it is there, of PyTorch. Needs a GPU.

Run: ``python benchmarks/launches.py``.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any

import numpy as np

from tilewise.cuda import tensor_map as maps
from tilewise.cuda.tensor_map import tensor_map
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


def microseconds(launch: Callable[[], Any]) -> float:
    """Host time of one launch: the median of rounds."""
    taken = []
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        for _ in range(LAUNCHES):
            launch()
        taken.append((time.perf_counter() - begun) / LAUNCHES * 1e6)
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
    import cupy

    kernel, mapped = Kernel(PLAIN), Kernel(MAPPED)
    arrays = [cupy.zeros((256, 64), np.float32) for _ in range(3)]
    raw, n = cupy.RawKernel(PLAIN, "plain"), np.int32(5)
    held = [tensor_map(one, box=(64, 32), swizzle=128) for one in arrays]
    rows = {
        "cupy.RawKernel": lambda: raw((1,), (32,), (*arrays, n)),
        "Kernel": lambda: kernel(*arrays, 5, grid=1, block=32),
        "Kernel, three tensor maps": lambda: mapped(*held, 5, grid=1, block=32),
        "the same, made for each launch": lambda: mapped(
            *(tensor_map(one, box=(64, 32), swizzle=128) for one in arrays), 5, grid=1, block=32
        ),
    }
    encoded = [maps.encoded(one.source.data.ptr, one.layout).data for one in held]
    raw_mapped = cupy.RawKernel(MAPPED, "mapped")
    rows["cupy.RawKernel, three tensor maps"] = lambda: raw_mapped((1,), (32,), (*encoded, n))
    rows |= functions(cupy)
    first = 0.0
    for name, launch in rows.items():
        launch()
        took = microseconds(launch)
        first = first or took
        print(f"{name:34} {took:7.2f} us  {took / first:6.2f} x, {took - first:+.2f} us")


if __name__ == "__main__":
    main()
