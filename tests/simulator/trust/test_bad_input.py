"""What cannot run is refused in one clear line, and no array is written, not even in part."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tilewise import Kernel
from tilewise.errors import LessonError
from tilewise.gpu.kernel_source import KernelError
from tilewise.simulator import HazardError

SCALE = """\
extern "C" __global__ void scale(const float* x, float* y, int n, float by) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] * by;
}
"""
TILE = """\
extern "C" __global__ void tile(float* y) {
    __shared__ float s[12000];
    s[threadIdx.x] = y[threadIdx.x];
    __syncthreads();
    y[threadIdx.x] = s[0];
}
"""
BOUNDED = 'extern "C" __global__ void __launch_bounds__(64) bounded(float* y) { y[threadIdx.x] = 1.0f; }\n'
X = np.arange(64, dtype=np.float32)
Arguments = tuple[Any, ...]


def _y() -> np.ndarray:
    return np.linspace(-3, 5, 64).astype(np.float32)


def _launch(**changes: Any) -> dict[str, Any]:
    return {"grid": 2, "block": 32} | changes


READ_ONLY = _y()
READ_ONLY.flags.writeable = False
GOOD: Arguments = (X, "y", 64, 2.0)
REFUSED: dict[str, tuple[str, Arguments, dict[str, Any], tuple[str, ...]]] = {
    "too few arguments": (SCALE, (X, "y", 64), _launch(), ("takes 4 arguments and got 3", "float by")),
    "another dtype": (SCALE, (X.astype("f8"), "y", 64, 2.0), _launch(), ('"x"', "float64", "float32")),
    "a read-only output": (SCALE, (X, READ_ONLY, 64, 2.0), _launch(), ('"y"', "read-only")),
    "a grid beyond y": (SCALE, GOOD, _launch(grid=(1, 65536)), ("in y", "65535")),
    "beyond launch bounds": (BOUNDED, ("y",), _launch(block=65), ("65 threads", "64", "__launch_bounds__")),
    "shared memory in all": (TILE, ("y",), _launch(shared_bytes=190_000), ("190000", "48000", "232448")),
    "static shared memory": (
        TILE.replace("12000", "12289"),
        ("y",),
        _launch(),
        ("49156", "extern __shared__"),
    ),
}
"""One of each kind of check; all of them are in `tests/gpu/test_arguments.py`."""


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_fit_is_refused_before_anything_runs(name: str) -> None:
    source, arguments, launch, words = REFUSED[name]
    y = _y()
    before = y.tobytes()
    given = [y if isinstance(one, str) else one for one in arguments]
    for way in ("simulate", "__call__"):
        with pytest.raises(KernelError) as caught:
            getattr(Kernel(source), way)(*given, **launch)
        for word in words:
            assert word in str(caught.value)
        assert "\n" not in str(caught.value) and str(caught.value).endswith(".")
    assert y.tobytes() == before and X.tobytes() == np.arange(64, dtype=np.float32).tobytes()


FAULTS: dict[str, tuple[str, str]] = {
    "out of bounds": ("y[i] = 7.0f; y[64 + i] = 7.0f;", "out of bounds"),
    "in the last block alone": ("y[i] = 7.0f; if (i == 63) y[i + 1] = 7.0f;", "out of bounds"),
    "misaligned": ("y[i] = 7.0f; if (i == 9) *(float2*)(y + i) = make_float2(1, 2);", "misaligned"),
    "a barrier": ("y[i] = 7.0f; if (i % 2) __syncthreads(); y[i] = 8.0f;", "barrier"),
    "a shuffle": ("y[i] = 7.0f; if (i % 2) y[i] = __shfl_sync(0xffffffff, y[i], 0);", "shuffle"),
    "a race": ("y[i] = 7.0f; __shared__ int s; s = i; __syncthreads(); y[i] = s;", "race"),
    "shared memory not written": (
        "y[i] = 7.0f; __shared__ float s[64]; if (n > 64) s[i % 64] = 1; y[i] = s[i % 64];",
        "uninitialised",
    ),
    "a trap": ("y[i] = 7.0f; if (i == 40) __trap();", "trap"),
    "an assertion": ("y[i] = 7.0f; assert(i < 40);", ""),
    "an endless loop": ("y[i] = 7.0f; while (y[0] > 0) y[i] = y[i] + 1.0f;", "steps"),
    "an endless loop of one lane": ("y[i] = 7.0f; if (i == 3) while (y[i] > 0) y[i] += 1.0f;", "steps"),
    "a spin on a lock nobody opens": ("y[i] = 7.0f; while (atomicAdd(c, 0) == 0) {}", "steps"),
    "a null pointer": ("y[i] = 7.0f; *(float*)(long long)(n - 64) = 1.0f;", "out of bounds"),
}


@pytest.mark.parametrize(
    ("name", "block"),
    [(name, block) for name in FAULTS for block in (64, 16) if (name, block) != ("a race", 16)],
)
def test_a_kernel_that_fails_leaves_every_byte_as_it_was(name: str, block: int) -> None:
    body, kind = FAULTS[name]
    source = (
        'extern "C" __global__ void fails(float* y, int* c, int n) {\n'
        f"int i = blockIdx.x * blockDim.x + threadIdx.x;\natomicAdd(c + 1, 1);\n{body}\n}}\n"
    )
    y, c = _y(), np.zeros(2, np.int32)
    before = y.tobytes(), c.tobytes()
    with pytest.raises(HazardError) as caught:
        Kernel(source).simulate(y, c, 64, grid=64 // block, block=block, max_steps=20_000)
    assert (y.tobytes(), c.tobytes()) == before
    assert caught.value.hazard.line == 4 and (not kind or caught.value.hazard.kind == kind)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"max_steps": 0}, "max_steps is 0"),
        ({"max_steps": 1e6}, "max_steps is 1000000.0"),
        ({"hazards": "raises"}, "hazards is 'raises'"),
    ],
)
def test_a_run_cannot_be_told_what_is_not_there(given: dict[str, Any], words: str) -> None:
    y = _y()
    with pytest.raises(ValueError, match=words):
        Kernel(BOUNDED).simulate(y, grid=1, block=64, **given)
    assert y.tobytes() == _y().tobytes()


def test_a_function_that_is_declared_and_not_defined_is_named() -> None:
    source = 'extern "C" __device__ float g(float);\n' + BOUNDED.replace("1.0f", "g(1.0f)")
    with pytest.raises(LessonError, match="a call of g, which is not defined"):
        Kernel(source).simulate(_y(), grid=1, block=64)


def test_arrays_beyond_all_memory_are_refused() -> None:
    source = "__device__ float all[1ull << 45];\n" + BOUNDED.replace("1.0f", "all[threadIdx.x]")
    y = _y()
    with pytest.raises(LessonError, match="not enough memory"):
        Kernel(source).simulate(y, grid=1, block=64)
    assert y.tobytes() == _y().tobytes()
