"""Tensor maps on the host: what is refused, what reaches driver and simulator, and cases with maps."""

import ctypes
import sys
from typing import Any

import numpy as np
import pytest

from tests.gpu.conftest import ARRAYS
from tilewise.cuda import tensor_map
from tilewise.cuda.cases import case, normal, output
from tilewise.cuda.kernel_source import KernelError
from tilewise.cuda.tensor_map import TensorMap
from tilewise.cuda.tensor_map import tensor_map as make
from tilewise.gpu import cupy_backend
from tilewise.kernel.comparison import CheckError, agree
from tilewise.kernel.kernel import Kernel
from tilewise.kernel.pseudocode import parallel
from tilewise.outputs import CollectingSink, installed

A = np.zeros((64, 32), np.float32)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((A, (8,)), r"the array has 2 axes and the box 1\. Give one extent an axis"),
        ((A, (8, 300)), r"box=\(8, 300\) is not possible"),
        ((A, (0, 8)), "is not possible"),
        ((A, (1,) * 6), "Give 1 to 5 extents"),
        ((A, (8, 6)), r"a row of the box has 24 bytes, no multiple of 16"),
        ((A, (8, 32), 100), r"swizzle=100 is not possible"),
        ((A, (8, 16), 128), r"has 64 bytes and swizzle=128\. Make the last extent 32"),
        ((A, (8, 32), 0, (65, 32)), r"does not lie within the array's \(64, 32\)"),
        ((A, (8, 32), 0, None, "bfloat16"), "cannot be taken as bfloat16"),
        ((A, (8, 32), 0, None, None, 100), "l2_promotion=100 is not possible"),
        ((A.astype(np.complex64), (8, 32)), "cannot be taken as complex64"),
        ((np.zeros((64, 33), np.float32), (8, 32)), r"rows of the array are 132 bytes apart.*longer rows"),
        ((A.T, (8, 32)), "not C-contiguous"),
        (([1, 2], (8,)), "list is no array"),
    ],
)
def test_what_the_copy_unit_cannot_do_is_refused(arguments, message):
    with pytest.raises(KernelError, match=message):
        make(*arguments)


def _plain(value: Any) -> Any:
    return list(value) if hasattr(value, "_length_") else getattr(value, "value", value)


class Driver:
    """Keeps what the driver is asked, and fills the map with a pattern."""

    def __init__(self, status: int = 0) -> None:
        self.status = status
        self.seen: tuple[Any, ...] = ()

    def cuTensorMapEncodeTiled(self, to: Any, *rest: Any) -> int:  # noqa: N802
        ctypes.memset(to, 7, 128)
        self.seen = (to.value, *(_plain(one) for one in rest))
        return self.status


def test_what_reaches_the_driver(monkeypatch):
    driver = Driver()
    monkeypatch.setattr(tensor_map, "_driver", lambda: driver)
    array = np.zeros((4, 64, 72), np.uint16)
    layout = make(array, (2, 16, 64), 128, (4, 60, 70), "bfloat16", 256).layout
    encoded = tensor_map.encoded(0x7F0000, layout).data
    at, kind, rank, pointer, extents, strides, box, steps, interleave, swizzle, promotion, fill = driver.seen
    assert (kind, rank, pointer, interleave, swizzle, promotion, fill) == (9, 3, 0x7F0000, 0, 3, 3, 0)
    assert (extents, strides, box, steps) == ([70, 60, 4], [144, 9216], [64, 16, 2], [1, 1, 1])
    assert at % 128 == 0
    assert at == encoded.ctypes.data
    assert (encoded.size, encoded.dtype.itemsize, encoded.dtype.names) == (1, 128, ("opaque",))
    assert encoded.tobytes() == b"\7" * 128


SOURCE = r"""
struct __align__(128) TensorMap { unsigned long long opaque[16]; };
extern "C" __global__ void twice(const __grid_constant__ TensorMap X, const __grid_constant__ TensorMap Y) {
    __shared__ __align__(128) float s[8 * 16];
    __shared__ __align__(8) unsigned long long bar;
    unsigned at = (unsigned)__cvta_generic_to_shared(s), b = (unsigned)__cvta_generic_to_shared(&bar);
    if (threadIdx.x == 0) {
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;\nfence.mbarrier_init.release.cluster;\n"
            "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], 512;" :: "r"(b) : "memory");
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
            "[%0], [%1, {%3, %4}], [%2];" :: "r"(at), "l"(&X), "r"(b), "r"(blockIdx.x * 16),
            "r"(blockIdx.y * 8) : "memory");
    }
    __syncthreads();
    asm volatile("{\n.reg .pred p;\nagain:\nmbarrier.try_wait.parity.shared::cta.b64 p, [%0], 0;\n"
        "@!p bra again;\n}" :: "r"(b) : "memory");
    for (int i = threadIdx.x; i < 128; i += 32) s[i] = 2 * s[i];
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncthreads();
    if (threadIdx.x == 0) {
        asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%2, %3}], [%1];\n"
            "cp.async.bulk.commit_group;\ncp.async.bulk.wait_group.read 0;"
            :: "l"(&Y), "r"(at), "r"(blockIdx.x * 16), "r"(blockIdx.y * 8) : "memory");
    }
}
"""
TWICE = Kernel(SOURCE, options=("-std=c++17", "-arch=sm_90a"))


def given(**more: Any) -> Any:
    maps = {"X": make("x", (8, 16)), "Y": make("y", (8, 16))}
    return case(**{"x": normal(21, 36), "y": output(21, 36), "grid": (3, 3), "block": 32} | maps | more)


def test_a_case_names_the_arrays_of_its_maps():
    values = TWICE.on(given()).run()
    assert np.array_equal(values["y"], 2 * values["x"])
    assert isinstance(values["X"], TensorMap)


def test_maps_go_where_maps_are_declared_only():
    x = np.zeros((8, 16), np.float32)
    with pytest.raises(KernelError, match='"X" names the array "x", as in a case'):
        TWICE(make("x", (8, 16)), make(x, (8, 16)), grid=1, block=32)
    plain = Kernel('extern "C" __global__ void plain(float* x, int n) {}')
    with pytest.raises(KernelError, match=r"not a tensor map\. Declare const __grid_constant__ TensorMap x,"):
        plain(make(x, (8, 16)), 1, grid=1, block=32)
    small = Kernel('struct S { int a; };\nextern "C" __global__ void small(S x) {}')
    with pytest.raises(KernelError, match="takes 4 bytes, aligned to 4"):
        small.simulate(make(x, (8, 16)), grid=1, block=32)


def test_the_gpu_gets_one_copy_of_an_array_however_it_is_passed(cupy, monkeypatch):
    driver, attributes = Driver(), []
    monkeypatch.setattr(tensor_map, "_driver", lambda: driver)
    given = sys.modules["cupy"].cuda.driver
    monkeypatch.setattr(given, "funcSetAttribute", lambda *one: attributes.append(one[1:]), raising=False)
    monkeypatch.setattr(cupy, "body", lambda *maps: [one.memory.fill(1) for one in list(ARRAYS.values())])
    x, y = np.zeros((8, 16), np.float32), np.zeros((8, 16), np.float32)
    maps = [make(x, (8, 16)), make(y, (8, 16)), make(x, (8, 16))]
    cupy_backend.launch(
        cupy.function("twice"), [*TWICE.parameters, TWICE.parameters[0]], maps, kernel="twice",
        origin=TWICE.origin, grid=(16, 1, 1), block=(32, 1, 1), shared_bytes=0, cluster=(16, 1, 1),
    )  # fmt: skip
    assert cupy.copied_in == 2
    assert [kind.startswith("ndarray") for kind in cupy.launches[0]["args"]] == [True] * 3
    assert x.view(np.uint8).min() == y.view(np.uint8).min() == 1
    assert attributes == [(14, 1)]


def test_agree_compares_the_outputs_that_maps_name():
    def twice(x: Any, y: Any) -> None:
        for row in parallel(x.shape[0]):
            for column in range(x.shape[1]):
                y[row, column] = 2 * x[row, column]

    def thrice(x: Any, y: Any) -> None:
        for row in parallel(x.shape[0]):
            y[row] = 3 * x[row]

    cases = [given(x=normal(n, 36), y=output(n, 36), grid=(3, -(-n // 8))) for n in (21, 13)]
    sink = CollectingSink()
    with installed(sink):
        agree(twice, TWICE, cases)
        with pytest.raises(CheckError, match=r"differ in case 1 .*: y\["):
            agree(thrice, TWICE, cases)
    assert "y" in str(sink.outputs[0])
