"""Kernels and launches that the simulator's tests share."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from tilewise.simulator import HazardError, Run, Trace, compile_kernel, launch

ORIGIN = ("lessons/part/lesson.py", 10)


def simulate(
    source: str,
    *arguments: Any,
    grid: int | Sequence[int] = 1,
    block: int | Sequence[int] = 32,
    name: str | None = None,
    shared_bytes: int = 0,
    collect: bool = False,
    trace: Trace | None = None,
    options: tuple[str, ...] = (),
    max_steps: int = 50_000_000,
) -> Run:
    module = compile_kernel(source, options=options, origin=ORIGIN)
    entry = module.kernels[name or next(iter(module.kernels))]
    return launch(
        entry,
        arguments,
        grid=_dims(grid),
        block=_dims(block),
        shared_bytes=shared_bytes,
        hazards="collect" if collect else "raise",
        trace=trace,
        max_steps=max_steps,
    )


def _dims(extent: int | Sequence[int]) -> tuple[int, int, int]:
    given = (extent,) if isinstance(extent, int) else tuple(extent)
    x, y, z = (*given, 1, 1, 1)[:3]
    return x, y, z


@contextmanager
def meets(
    kind: str | tuple[str, ...], line: int | tuple[int, ...] | None = None, match: str | None = None
) -> Iterator[pytest.ExceptionInfo[HazardError]]:
    """What runs inside meets a hazard of this kind, or of one of several, at this line of the kernel."""
    with pytest.raises(HazardError, match=match) as caught:
        yield caught
    hazard = caught.value.hazard
    assert hazard.kind in ((kind,) if isinstance(kind, str) else kind), str(caught.value)
    if line is not None:
        lines = (line,) if isinstance(line, int) else line
        assert (hazard.caller or hazard.line) in lines, str(caught.value)


def on_threads(body: str, parameters: str) -> str:
    """A kernel whose body sees its thread's linear number as `i`; the body is line 3."""
    return (
        f'extern "C" __global__ void kernel({parameters}) {{\n'
        f"int i = blockIdx.x * blockDim.x + threadIdx.x;\n{body}\n}}\n"
    )


VEC_ADD = """\
extern "C" __global__ void vec_add(const float* a, const float* b, float* c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
"""

TILED = """\
#define T 8
#line 1
extern "C" __global__ void tiled(const float* A, const float* B, float* C, int M, int N, int K) {
    __shared__ float a[T][T], b[T][T];
    int row = blockIdx.y * T + threadIdx.y, col = blockIdx.x * T + threadIdx.x;
    float s = 0.0f;
    for (int k = 0; k < K; k += T) {
        a[threadIdx.y][threadIdx.x] = row < M && k + threadIdx.x < K ? A[row * K + k + threadIdx.x] : 0.0f;
        b[threadIdx.y][threadIdx.x] = k + threadIdx.y < K && col < N ? B[(k + threadIdx.y) * N + col] : 0.0f;
        __syncthreads();
        for (int t = 0; t < T; ++t) s += a[threadIdx.y][t] * b[t][threadIdx.x];
        __syncthreads();
    }
    if (row < M && col < N) C[row * N + col] = s;
}
"""
