"""What cannot run is refused in one clear line, and no array is written, not even in part."""

import numpy as np
import pytest

from tilewise import Kernel
from tilewise.errors import LessonError
from tilewise.simulator import HazardError

SCALE = """\
extern "C" __global__ void scale(const float* x, float* y, int n, float by) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] * by;
}
"""
BOUNDED = 'extern "C" __global__ void __launch_bounds__(64) bounded(float* y) { y[threadIdx.x] = 1.0f; }\n'


def _y() -> np.ndarray:
    return np.linspace(-3, 5, 64).astype(np.float32)


READ_ONLY = _y()
READ_ONLY.flags.writeable = False


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
    "a null pointer": ("y[i] = 7.0f; *(float*)(long long)(n - 64) = 1.0f;", "null"),
}


@pytest.mark.parametrize(
    ("name", "block"),
    [(name, block) for name in FAULTS for block in (64, 16) if (name, block) != ("a race", 16)],
)
def test_a_kernel_that_fails_leaves_every_byte_as_it_was(name, block):
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


def test_arrays_beyond_all_memory_are_refused():
    source = "__device__ float all[1ull << 45];\n" + BOUNDED.replace("1.0f", "all[threadIdx.x]")
    y = _y()
    with pytest.raises(LessonError, match="not enough memory"):
        Kernel(source).simulate(y, grid=1, block=64)
    assert y.tobytes() == _y().tobytes()
