"""The same kernels on a real GPU: bits against NumPy and the simulator, scripts of their own, errors.

Everything here is skipped, and counted as skipped, where CuPy finds no GPU.
"""

import numpy as np
import pytest

from tilewise.cuda.cases import case, normal, output
from tilewise.cuda.kernel_source import KernelError
from tilewise.gpu import device
from tilewise.kernel import backend
from tilewise.kernel.kernel import Kernel

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(device.gpu_fault() is not None, reason=str(device.gpu_fault())),
]

SCALE = Kernel(
    r"""
extern "C" __global__ void scale(const float* x, float* y, int n, float by) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] * by + (i == 1 ? -INFINITY : T);
}
""",
    defines={"T": 2},
)
GIVEN = case(x=normal(1000), y=output(1100), n=1000, by=0.5, grid=8, block=128)


@pytest.fixture(autouse=True)
def on_gpu(monkeypatch):
    monkeypatch.setenv("TILEWISE_BACKEND", "gpu")
    backend.chosen.cache_clear()
    assert backend.backend() == "gpu"
    yield
    backend.chosen.cache_clear()


def test_gpu_and_simulator_write_the_same_bits_and_touch_nothing_else():
    there = SCALE.on(GIVEN).run()
    here = GIVEN.make()
    SCALE.on(GIVEN).simulate(arrays=here)
    assert there["y"].tobytes() == here["y"].tobytes()
    assert there["x"].tobytes() == here["x"].tobytes()
    assert np.isnan(there["y"][1000:]).all()


def test_arrays_of_cupy_are_written_where_they_are():
    cupy = pytest.importorskip("cupy")
    x, y = cupy.arange(5, dtype=cupy.float32), cupy.zeros(5, cupy.float32)
    SCALE(x, y, 5, 1, grid=1, block=32)
    assert y.tolist() == [2, -np.inf, 4, 5, 6]
    SCALE.simulate(x, y, 5, 2, grid=1, block=32)
    assert y.tolist() == [2, -np.inf, 6, 8, 10]


def test_shared_memory_beyond_48_kb_is_granted():
    big = Kernel(
        'extern "C" __global__ void big(int* y, int words) { extern __shared__ int s[]; '
        "for (int i = threadIdx.x; i < words; i += blockDim.x) s[i] = i; __syncthreads(); "
        "for (int i = threadIdx.x; i < words; i += blockDim.x) y[i] = s[words - 1 - i]; }"
    )
    words = 15_000
    values = big.on(
        case(y=output(words, dtype="int32"), words=words, grid=1, block=128, shared_bytes=4 * words)
    ).run()
    assert np.array_equal(values["y"], np.arange(words)[::-1])


def test_a_source_that_does_not_compile_names_the_lessons_line():
    broken = Kernel(
        r"""
extern "C" __global__ void broken(float* y) {
    y[0] = missing;
}
"""
    )
    with pytest.raises(KernelError) as caught:
        broken(np.zeros(1, np.float32), grid=1, block=1)
    assert str(caught.value) == (
        f'{__file__}:{broken.origin[1] + 1}: kernel "broken" does not compile: '
        'identifier "missing" is undefined.'
    )


def test_variables_keep_their_values_and_are_read_and_set_by_name():
    kernel = Kernel(
        "__device__ unsigned seen; __device__ int start = 3; __constant__ float taps[2][2];\n"
        "namespace own { __device__ double factor = 0.5; }\n"
        'extern "C" __global__ void count(float* y) {\n'
        "atomicAdd(&seen, 1u); if (threadIdx.x == 0) { start += 1; own::factor *= 2; }\n"
        "y[threadIdx.x] = taps[threadIdx.x / 2][threadIdx.x % 2]; }"
    )
    y, taps = np.zeros(4, np.float32), np.arange(4, dtype=np.float32).reshape(2, 2)
    kernel.variables["taps"] = taps
    for _ in range(3):
        kernel(y, grid=1, block=4)
    assert np.array_equal(y, taps.reshape(-1))
    assert (kernel.variables["seen"], kernel.variables["own::factor"]) == (12, 4.0)
    kernel.variables.reset()
    kernel(y, grid=1, block=4)
    assert kernel.variables["seen"] == 4
    assert not y.any()
    assert kernel.variables["start"] == 4
