"""Variables of a source: they keep their values between launches, and are read and set by name."""

from pathlib import Path

import numpy as np
import pytest

from tilewise import HazardError, Kernel
from tilewise.__main__ import main
from tilewise.cuda.kernel_source import KernelError
from tilewise.cuda.variables import device_variables, shown_name, symbols
from tilewise.simulator import Trace

SOURCE = r"""
#define SIDE 3
typedef unsigned int Count;
__device__ Count passed;                        // one kernel leaves it for the next
static __device__ float history[4] = {1, 2, 3, 4};
__constant__ float weights[SIDE][SIDE];
__device__ float4 pair[2];
namespace state { __device__ double factor = 2.5; }

extern "C" __global__ void keep(const float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && x[i] > 0.0f) atomicAdd(&passed, 1u);
    if (i == 0) state::factor *= 2;
    if (i < 4) history[i] += i;
}
extern "C" __global__ void share(float* y, int n) {
    int i = threadIdx.x;
    if (i < n) y[i] = i < 4 ? history[i] : passed + state::factor;
}
extern "C" __global__ void weigh(float* y) {
    int i = threadIdx.x;
    y[i] = weights[i / SIDE][i % SIDE] + pair[1].z;
}
"""


@pytest.fixture
def keep() -> Kernel:
    kernel = Kernel(SOURCE, "keep")
    kernel.variables.reset()
    return kernel


def test_what_one_kernel_leaves_the_next_one_finds(keep):
    x = np.random.default_rng(0).standard_normal(300).astype(np.float32)
    y = np.zeros(6, np.float32)
    for _ in range(3):
        keep.simulate(x, 300, grid=3, block=128)
    keep.named("share").simulate(y, 6, grid=1, block=32)
    positive = 3 * int((x > 0).sum())
    assert np.array_equal(y, [1, 5, 9, 13, positive + 20, positive + 20])
    assert keep.variables["passed"] == positive and isinstance(keep.variables["passed"], np.uint32)
    assert keep.variables["state::factor"] == 20.0
    assert np.array_equal(keep.variables["history"], [1, 5, 9, 13])


def test_a_variable_can_be_set_and_reset(keep):
    y = np.zeros(9, np.float32)
    weights = np.arange(9, dtype=np.float32).reshape(3, 3)
    keep.variables["weights"] = weights
    keep.variables["pair"] = np.full((2, 4), 0.5, np.float32)
    keep.named("weigh").simulate(y, grid=1, block=9)
    assert np.array_equal(y, weights.reshape(-1) + 0.5)
    assert np.array_equal(keep.variables["weights"], weights)
    keep.variables["passed"] = 7
    keep.variables["history"][0] = 9  # a copy
    assert (keep.variables["passed"], keep.variables["history"][0]) == (7, 1)
    keep.variables.reset()
    assert keep.variables["passed"] == 0 and not keep.variables["pair"].any()


def test_a_constant_that_nobody_set_is_a_hazard_by_name(keep):
    y = np.zeros(9, np.float32)
    with pytest.raises(HazardError) as caught:
        keep.named("weigh").simulate(y, grid=1, block=9)
    hazard = caught.value.hazard
    assert (hazard.kind, hazard.line) == ("uninitialised", 21)
    assert "reads weights, a __constant__ variable that nobody has given a value" in str(caught.value)
    assert 'kernel.variables["weights"] = ...' in str(caught.value)
    assert not y.any()


def test_zero_is_what_cxx_says_of_other_variables(keep):
    y = np.ones(6, np.float32)
    assert keep.named("share").simulate(y, 6, grid=1, block=32).hazards == ()
    assert np.array_equal(y, [1, 2, 3, 4, 2.5, 2.5])


def test_a_variable_that_host_code_fills_is_missed(keep):
    source = r"""
__device__ float table[4];
__device__ float scratch[4];
__global__ void look(float* y) { y[threadIdx.x] = table[threadIdx.x] + scratch[threadIdx.x]; }
int main() { float host[4]; cudaMemcpyToSymbol(table, host, sizeof host); look<<<1, 4>>>(nullptr); }
"""
    kernel, y = Kernel(source), np.zeros(4, np.float32)
    with pytest.raises(HazardError, match="reads table, a __device__ variable that nobody has given a value"):
        kernel.simulate(y, grid=1, block=4)
    kernel.variables["table"] = [1.5, 2.5, 3.5, 4.5]
    kernel.simulate(y, grid=1, block=4)
    assert np.array_equal(y, [1.5, 2.5, 3.5, 4.5])


def test_kernels_of_a_whole_file_share_variables_templates_too():
    source = r"""
#include <cstdio>
__device__ int total;
template <int BY> __global__ void add() { total += BY; }
__global__ void take(int* y) { *y = total; }
int main() { add<3><<<1, 1>>>(); add<4><<<1, 1>>>(); }
"""
    first, second, take = (Kernel(source, name) for name in ("add<3>", "add<4>", "take"))
    first.variables.reset()
    y = np.zeros(1, np.int32)
    first.simulate(grid=1, block=1)
    second.simulate(grid=1, block=1)
    take.simulate(y, grid=1, block=1)
    assert (y[0], take.variables["total"]) == (7, 7)


def test_a_static_variable_is_no_constant_of_the_compiler():
    kernel = Kernel(
        "static __constant__ float taps[4];\nstatic __device__ int /* set from outside */ shift[2];\n"
        "__constant__ static const float fixed[2] = {0.5f, 0.25f};\n"
        "static __device__ int one(int k) { return k; }\n"
        'extern "C" __global__ void look(float* y) { y[0] = taps[1] + shift[one(1)] + fixed[1]; }\n'
    )
    y = np.zeros(1, np.float32)
    kernel.variables["taps"] = [1, 2, 3, 4]
    kernel.variables["shift"] = np.array([10, 20], np.int32)
    kernel.simulate(y, grid=1, block=1)
    assert y[0] == 22.25


def test_a_launch_that_ends_in_a_hazard_leaves_no_trace_in_them(keep):
    x = np.ones(8, np.float32)
    with pytest.raises(HazardError):
        keep.simulate(x, 9, grid=1, block=32)
    assert keep.variables["passed"] == 0
    keep.simulate(x, 8, grid=1, block=32, trace=Trace())
    assert keep.variables["passed"] == 8


@pytest.mark.parametrize(
    ("name", "value", "says"),
    [
        ("missing", 1, "has no __device__ or __constant__ variable"),
        ("passed", np.float32(1), "holds uint32, and the value is float32"),
        ("passed", -1, "from 0 to 4294967295"),
        ("passed", 1.5, "the value is float64"),
        ("weights", np.zeros(8, np.float32), "holds 9 elements of float32, and the value has 8"),
    ],
)
def test_a_value_that_does_not_fit(keep, name, value, says):
    with pytest.raises(KernelError, match=says):
        keep.variables[name] = value


def test_declarations_are_read_from_the_text():
    found = device_variables(
        "#define N 4\n__device__ int a, b[2][N] = {1};\nstruct S { int k; };\n"
        "static __constant__ const S held[3];\n"
        "namespace x {\nnamespace y { __managed__ volatile float c; }\n}\n"
        "namespace z { constexpr int R { 2 }; }\n__device__ float d[z::R * N][2 * z::R + 1];\n"
        "__device__ float twice(float f) { return 2 * f; }\n__device__ unsigned char* bytes;\n"
    )
    shapes = {
        name: (one.dtype and one.dtype.name, one.shape, one.needs_a_value) for name, one in found.items()
    }
    assert shapes == {
        "a": ("int32", (), False),
        "b": ("int32", (2, 4), False),
        "held": (None, (3,), True),
        "x::y::c": ("float32", (), False),
        "d": ("float32", (8, 5), False),
        "bytes": (None, (), False),
    }
    for name in ("plain", "a::b::c"):
        assert {shown_name(symbol) for symbol in symbols(name)} == {name}
    assert shown_name("_ZZ4tileE1s") == "_ZZ4tileE1s"


def test_tracing_a_file_gives_them_values(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("blur.cu").write_text(
        "__constant__ float taps[4];\n"
        "__global__ void blur(float* y) { y[threadIdx.x] = taps[threadIdx.x % 4]; }\n"
    )
    assert main(["trace", "blur.cu"]) == 0
    assert "--arg 'taps=f32[4]'" in capsys.readouterr().out
    assert main(["trace", "blur.cu", "--grid", "1", "--block", "32", "--arg", "y=f32[32]"]) == 1
    assert "reads taps, a __constant__ variable" in capsys.readouterr().err
    words = ["--grid", "1", "--block", "32", "--arg", "y=f32[32]", "--arg", "taps=ones:f32[4]"]
    assert main(["trace", "blur.cu", *words]) == 0
