"""A call's launches are kept: the next that looks the same fills in its own addresses, and nothing else."""

import ctypes
import importlib.machinery
import itertools
import sys
from contextlib import nullcontext
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from tilewise import kernels
from tilewise.cuda.kernel_source import KernelError
from tilewise.gpu import cupy_backend
from tilewise.kernel import backend
from tilewise.kernels.calls import launching, plans, softmaxes, sums


class Memory:
    """Device memory: an allocation, or a part of another under a name of its own."""

    def __init__(self, ptr, size, owner=None):
        self.ptr, self.size, self.owner = ptr, size, owner


class Pointer:
    """An address in memory."""

    device_id = 0

    def __init__(self, mem, offset):
        self.mem, self.ptr = mem, mem.ptr + offset


class Array:
    """As much of ``cupy.ndarray`` as functions and plans look at; its numbers are of no interest."""

    def __init__(self, shape, dtype=np.float32, memptr=None, strides=None):
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        self.host = np.zeros(shape, dtype)
        if memptr is None:
            room = np.zeros(self.host.nbytes + 512, np.uint8)
            memptr = Pointer(Memory(room.ctypes.data + -room.ctypes.data % 256, room.nbytes, room), 0)
        self.data, self._strides = memptr, strides or self.host.strides
        self.shape, self.dtype, self.device = shape, np.dtype(dtype), SimpleNamespace(id=0)

    @property
    def strides(self):
        return self._strides

    @property
    def flags(self):
        return SimpleNamespace(c_contiguous=self._strides == self.host.strides)

    ndim = property(lambda self: len(self.shape))
    itemsize = property(lambda self: self.dtype.itemsize)
    size = property(lambda self: self.host.size)
    nbytes = property(lambda self: self.host.nbytes)
    __cuda_array_interface__ = property(lambda self: dict(self.host.__array_interface__))

    def reshape(self, *shape):
        shape = shape[0] if isinstance(shape[0], tuple) else shape
        return Array(self.host.reshape(shape).shape, self.dtype, self.data)

    def __getitem__(self, index):
        begin = index.start or 0
        seen = Pointer(self.data.mem, self.data.ptr - self.data.mem.ptr + begin * self.itemsize)
        return Array(self.host[index].shape, self.dtype, seen)


@pytest.fixture
def launches(monkeypatch):
    """A machine with one GPU, on which launches are noted: handle, grid and the words of the arguments."""
    noted, functions = [], {}

    def launch(handle, *given):
        *head, _, address, _ = given
        places = (ctypes.c_uint64 * functions[handle]).from_address(address)
        noted.append((handle, head[:3], [ctypes.c_uint64.from_address(one).value for one in places]))

    handles = itertools.count()

    def function(code, name):
        handle = next(handles)
        begin = code.index("(", code.index(f" {name}(") if f" {name}(" in code else code.index(f"\n{name}("))
        functions[handle] = code[begin : code.index(")", begin)].count(",") + 1
        return SimpleNamespace(kernel=SimpleNamespace(ptr=handle), shared_size_bytes=0)

    cupy = ModuleType("cupy")
    cupy.__spec__ = importlib.machinery.ModuleSpec("cupy", None)
    cupy.__version__ = "0"
    cupy.ndarray, cupy.asarray = Array, lambda value: value
    cupy.empty = Array
    cupy.RawKernel = lambda code, name, options=(): function(code, name)
    cupy.RawModule = lambda code, options=(): SimpleNamespace(get_function=lambda name: function(code, name))
    device = SimpleNamespace(compute_capability="90", attributes={"MultiProcessorCount": 132})
    cupy.cuda = SimpleNamespace(
        runtime=SimpleNamespace(
            getDeviceCount=lambda: 1,
            getDevice=lambda: 0,
            getDeviceProperties=lambda one: {"name": b"Stand-in GPU"},
            CUDARuntimeError=OSError,
        ),
        driver=SimpleNamespace(CUDADriverError=OSError, launchKernel=launch),
        compiler=SimpleNamespace(CompileException=SyntaxError),
        memory=SimpleNamespace(OutOfMemoryError=MemoryError),
        Device=lambda number=0: device,
        get_current_stream=lambda: SimpleNamespace(ptr=0),
        UnownedMemory=Memory,
        MemoryPointer=Pointer,
        alloc=lambda many: Array(many, np.uint8).data,
    )
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.delenv("TILEWISE_BACKEND", raising=False)
    for module in (softmaxes, sums):
        monkeypatch.setattr(module, "at", lambda *tensors: nullcontext())
    monkeypatch.setattr("tilewise.kernels.calls.arrays.at", lambda *tensors: nullcontext())
    _forget()
    yield noted
    _forget()


def _forget():
    backend.chosen.cache_clear()
    backend.backend.cache_clear()
    plans._plans.clear()
    launching._of_device.cache_clear()
    cupy_backend.forget("", ())
    for cached in (cupy_backend._alone, cupy_backend._module, cupy_backend._from_module):
        cached.cache_clear()


def test_the_second_call_launches_the_same_on_its_own_arrays(launches, monkeypatch):
    first, second = Array((3, 50)), Array((3, 50))
    made = kernels.softmax(first)
    (launched,) = launches
    assert launched[2][:2] == [first.data.ptr, made.data.ptr]
    monkeypatch.setattr(
        softmaxes, "taken", lambda *given, **more: pytest.fail("the function was asked again")
    )
    again = kernels.softmax(second)
    assert launches[1][:2] == launched[:2]
    assert launches[1][2] == [second.data.ptr, again.data.ptr, *launched[2][2:]]
    assert again.data.ptr != made.data.ptr


def test_what_decides_on_a_launch_makes_a_plan_of_its_own(launches):
    room = Array(1000)
    given = [room[:600], room[1:601], room[4:604]]
    for x in given:
        kernels.sum(x)
    assert [one[2][0] for one in launches] == [x.data.ptr for x in given]
    assert [one[2][3] for one in launches] == [0, 3, 0]  # elements before a multiple of 16 bytes
    assert len(plans._plans) == 2
    kernels.sum(Array(601))
    kernels.sum(Array(600, np.float16))
    assert len(plans._plans) == 4


def test_workspace_is_shared_by_the_launches_of_a_call(launches):
    x = [Array(1 << 20) for _ in range(2)]
    for one in x:
        kernels.sum(one)
    assert len(launches) == 4
    blocks, total = launches[2], launches[3]
    assert blocks[2][0] == x[1].data.ptr
    assert blocks[2][1] == total[2][0]  # what the first launch leaves, the second adds up
    assert total[2][0] not in (x[0].data.ptr, x[1].data.ptr)


def test_a_result_that_shares_memory_with_an_input_is_refused_by_a_plan_too(launches):
    out = Array((3, 50))
    assert kernels.softmax(Array((3, 50)), out=out) is out
    assert kernels.softmax(Array((3, 50)), out=out) is out
    with pytest.raises(KernelError, match='"out" shares memory with "x"'):
        kernels.softmax(out, out=out)
    assert len(launches) == 2


def test_no_more_plans_are_kept_than_there_is_room_for(launches, monkeypatch):
    monkeypatch.setattr(plans, "MOST_PLANS", 3)
    for columns in range(10, 20):
        kernels.softmax(Array((3, columns)))
    assert len(plans._plans) == 3
