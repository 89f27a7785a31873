"""The same kernels on a real GPU: bits against NumPy and the simulator, scripts of their own, errors.

Everything here is skipped, and counted as skipped, where CuPy finds no GPU.
"""

from __future__ import annotations

import subprocess
import sys
import zlib

import numpy as np
import pytest

from tilewise.cases import case, integers, normal, output
from tilewise.gpu import backend, device
from tilewise.gpu.comparison import agree
from tilewise.gpu.kernel import Kernel
from tilewise.gpu.kernel_source import KernelError
from tilewise.outputs import AgreeOutput, CollectingSink, installed
from tilewise.pseudocode import parallel

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


def test_a_script_of_its_own_gives_the_same_bits(tmp_path):
    script = tmp_path / "scale.py"
    script.write_text(SCALE.standalone(GIVEN))
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=True)
    expected = zlib.crc32(SCALE.on(GIVEN).run()["y"].tobytes())
    assert done.stdout == f"y (1100,) float32 crc {expected:08x}\n"


def test_arrays_of_cupy_are_written_where_they_are():
    cupy = pytest.importorskip("cupy")
    x, y = cupy.arange(5, dtype=cupy.float32), cupy.zeros(5, cupy.float32)
    SCALE(x, y, 5, 1, grid=1, block=32)
    assert y.tolist() == [2, -np.inf, 4, 5, 6]
    SCALE.simulate(x, y, 5, 2, grid=1, block=32)
    assert y.tolist() == [2, -np.inf, 6, 8, 10]


def test_one_array_passed_twice_is_one_array():
    x = np.arange(5, dtype=np.float32)
    SCALE(x, x, 5, 1, grid=1, block=32)
    assert x.tolist() == [2, -np.inf, 4, 5, 6]


def test_structures_pass_by_value_and_arrays_of_them_by_pointer():
    takes = Kernel(
        "struct P { int a; float b; };\n"
        'extern "C" __global__ void takes(P one, P* many, const float2* wide, bool on) '
        "{ if (on) { many[0].a = one.a + 1; many[0].b = one.b * wide[0].y; } }"
    )
    kind = [("a", "i4"), ("b", "f4")]
    one, many = np.array([(1, 2.0)], kind), np.zeros(2, kind)
    takes(one, many, np.array([3, 4], np.float32), True, grid=1, block=1)
    assert many.tolist() == [(2, 8.0), (0, 0.0)]


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


def test_two_kernels_of_one_source_run():
    one = Kernel(
        'extern "C" __global__ void one(int* y) { y[0] = 1; }\n'
        'extern "C" __global__ void two(int* y) { y[0] = 2; }',
        name="one",
    )
    y = np.zeros(1, np.int32)
    seen = []
    for each in (one, one.named("two")):
        each(y, grid=1, block=1)
        seen.append(int(y[0]))
    assert seen == [1, 2]


def test_hoppers_instructions_compile_and_run_on_hopper():
    cupy = pytest.importorskip("cupy")
    if cupy.cuda.Device().compute_capability != "90":
        pytest.skip("This GPU is not a Hopper.")
    fence = Kernel(
        'extern "C" __global__ void fence(int* y) '
        '{ asm volatile("wgmma.fence.sync.aligned;"); y[threadIdx.x] = 1; }',
        options=("-std=c++17", "-arch=sm_90a"),
    )
    y = np.zeros(128, np.int32)
    fence(y, grid=1, block=128)
    assert y.tolist() == [1] * 128


def test_pseudocode_agrees_with_the_gpu():
    def add_one(x):
        for i in parallel(len(x)):
            x[i] += 1

    plus = Kernel(
        'extern "C" __global__ void plus(int* x, int n) { if (threadIdx.x < n) x[threadIdx.x] += 1; }'
    )
    sink = CollectingSink()
    with installed(sink):
        agree(add_one, plus, [case(x=integers(n, low=0, high=9), n=n, grid=1, block=32) for n in (5, 7)])
    assert list(sink.outputs) == [
        AgreeOutput("add_one", "plus", ("x 5", "x 7"), ("x",), 0.0, 0.0, 0.0, "gpu")
    ]


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
