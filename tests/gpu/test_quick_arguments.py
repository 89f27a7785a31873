"""The quick way to a launch: taken for plain arguments, left for all others, with the same result."""

import gc
import sys
import weakref
from types import SimpleNamespace

import numpy as np
import pytest

from tests.gpu.conftest import DeviceArray
from tilewise.cuda import tensor_map as maps
from tilewise.cuda.kernel_source import KernelError
from tilewise.cuda.tensor_map import tensor_map
from tilewise.kernel import kernel as module
from tilewise.kernel.kernel import Kernel

SOURCE = """
extern "C" __global__ void add(const float* a, float* b, int n, float by, const float4* v, bool on) {}
"""
MAPPED = """
struct __align__(128) TensorMap { unsigned long long opaque[16]; };
extern "C" __global__ void mapped(const __grid_constant__ TensorMap map) {}
"""


@pytest.fixture
def quick(cupy, monkeypatch):
    """A stand-in whose arrays are of one class, as CuPy's are; a full check is counted."""
    monkeypatch.setattr(sys.modules["cupy"], "ndarray", DeviceArray)
    cupy.checked = []
    full = module.check_arguments

    def counted(*given):
        cupy.checked.append(given[0])
        return full(*given)

    monkeypatch.setattr(module, "check_arguments", counted)
    return cupy


def floats(n=5, dtype=np.float32):
    return DeviceArray(np.zeros(n, dtype))


def test_plain_arguments_reach_the_launch_as_the_full_check_makes_them(quick):
    a, b = floats(), floats()
    launch = {"grid": (2, 3), "block": 32, "shared_bytes": 64}
    for n, by, on in ((4, 0.5, np.bool_(True)), (np.int32(4), np.float32(0.5), np.bool_(True))):
        Kernel(SOURCE)(a, b, n, by, None, on, **launch)
    assert quick.checked == []
    Kernel(SOURCE)(a, b, 4, 0.5, None, True, **launch)
    assert quick.checked == ["add"]
    assert quick.launches[0] == quick.launches[1]
    assert quick.launches[0]["args"] == [
        "device float32",
        "device float32",
        "word 0x4",
        "word 0x3f000000",
        "word 0x0",
        "word 0x1",
    ]
    same = ("name", "grid", "block", "shared_mem")
    assert [quick.launches[2][key] for key in same] == [quick.launches[0][key] for key in same]
    assert quick.launches[2]["args"][2:] == ["int32 int32", "float32 float32", "uint64 uint64", "bool bool"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({0: floats(dtype=np.int32)}, '"a" has dtype int32, and const float\\* takes float32'),
        ({2: 2**31}, '"n" is 2147483648, outside'),
        ({2: 1.5}, '"n" is 1.5, and int is whole'),
        ({3: 1e39}, '"by" is 1e\\+39, which does not fit float'),
        ({3: np.float64(1)}, '"by" is a NumPy float64'),
        ({0: [1.0]}, '"a" is of type list'),
    ],
)
def test_what_is_not_plain_is_left_to_the_full_check(quick, given, message):
    arguments = [floats(), floats(), 4, 0.5, None, True]
    for number, value in given.items():
        arguments[number] = value
    with pytest.raises(KernelError, match=message):
        Kernel(SOURCE)(*arguments, grid=1, block=32)
    with pytest.raises(KernelError, match="takes 6 arguments and got 5"):
        Kernel(SOURCE)(*arguments[:5], grid=1, block=32)
    assert quick.launches == []


def test_numbers_that_have_no_plain_form_are_converted_by_the_full_check(quick):
    kernel = Kernel(SOURCE)
    for by in (float("inf"), float("nan"), 3):
        kernel(floats(), floats(), True, by, floats(8), False, grid=[1, 2], block=32)
    assert (len(quick.checked), len(quick.launches)) == (3, 3)


def test_a_launch_shape_is_checked_once(quick, monkeypatch):
    kernel, checked = Kernel(SOURCE), []
    full = module.check_launch
    monkeypatch.setattr(module, "check_launch", lambda *given: checked.append(given[2:]) or full(*given))
    arguments = (floats(), floats(), 4, 0.5, None, np.bool_(True))
    for _ in range(3):
        kernel(*arguments, grid=2, block=32)
        kernel(*arguments, grid=3, block=32)
        with pytest.raises(KernelError, match="block=2048 has 2048"):
            kernel(*arguments, grid=3, block=2048)
    assert checked == [(2, 32, 0), (3, 32, 0), *[(3, 2048, 0)] * 3]


def test_a_kernel_of_the_same_text_keeps_its_own_parameters(quick):
    first = Kernel(
        'extern "C" __global__ void one(float* x) {}\nextern "C" __global__ void two(float* x, int n) {}',
        "one",
    )
    first(floats(), grid=1, block=1)
    first.named("two")(floats(), 3, grid=1, block=1)
    assert [len(one["args"]) for one in quick.launches] == [1, 2]


def test_faults_are_told_as_on_the_full_way(quick):
    kernel = Kernel('extern "C" __global__ void f(float* x) {}')

    def fail(*args):
        raise quick.errors.runtime("cudaErrorIllegalAddress")

    def refuse(*args):
        raise quick.errors.compile('/tmp/x/1.cu(1): error: identifier "y" is undefined')

    for body, message in (
        (fail, "failed on the GPU: cudaErrorIllegal"),
        (refuse, "does not compile: identif"),
    ):
        quick.body = body
        with pytest.raises(KernelError, match=message):
            kernel(floats(), grid=1, block=1)
    assert quick.checked == []


def test_a_tensor_map_is_encoded_once_for_an_address_and_a_shape(quick, monkeypatch):
    encoded = []

    class Driver:
        def cuTensorMapEncodeTiled(self, to, *rest):  # noqa: N802
            encoded.append(rest[2].value)
            return 0

    monkeypatch.setattr(maps, "_driver", Driver)
    kernel = Kernel(MAPPED)
    one, other = (DeviceArray(np.zeros((64, 40), np.float32)) for _ in range(2))
    for array in (one, other, one, one):
        kernel(tensor_map(array, box=(8, 32), swizzle=128), grid=1, block=1)
    assert encoded == [one.data.ptr, other.data.ptr]
    kernel(tensor_map(one, box=(16, 32), swizzle=128), grid=1, block=1)
    assert encoded == [one.data.ptr, other.data.ptr, one.data.ptr]
    assert (len(quick.launches), quick.checked) == (5, [])


def test_a_launch_does_not_keep_the_array_of_its_tensor_map(quick, monkeypatch):
    driver = SimpleNamespace(cuTensorMapEncodeTiled=lambda *given: 0)
    monkeypatch.setattr(maps, "_driver", lambda: driver)
    maps.encoded.cache_clear()
    kernel, array = Kernel(MAPPED), DeviceArray(np.zeros((64, 64), np.float16))
    kernel(tensor_map(array, box=(8, 32), swizzle=64), grid=1, block=1)
    gone = weakref.ref(array)
    del array
    gc.collect()
    assert gone() is None and quick.checked == []
