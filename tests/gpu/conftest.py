"""A small stand-in for CuPy that records what it is called with and runs kernels as Python functions."""

from __future__ import annotations

import ctypes
import importlib.machinery
import re
import sys
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tilewise.gpu import cupy_backend
from tilewise.kernel import backend

ARRAYS: weakref.WeakValueDictionary[int, DeviceArray] = weakref.WeakValueDictionary()
"""By address: what a word of an argument may point to."""


class DeviceArray:
    """An array in the fake device's memory."""

    def __init__(self, host: np.ndarray) -> None:
        self.memory = host.copy()
        ARRAYS[self.memory.ctypes.data] = self

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return dict(self.memory.__array_interface__)

    @property
    def dtype(self) -> np.dtype:
        return self.memory.dtype

    @property
    def flags(self) -> Any:
        return self.memory.flags

    @property
    def data(self) -> Any:
        return SimpleNamespace(ptr=self.memory.ctypes.data)

    def get(self, out: np.ndarray) -> None:
        assert out.flags.c_contiguous
        assert (out.dtype, out.shape) == (self.memory.dtype, self.memory.shape)
        out[...] = self.memory

    def __setitem__(self, index: Any, value: DeviceArray) -> None:
        self.memory[index] = value.memory


class CUDARuntimeError(RuntimeError):
    """As CuPy's."""


class CUDADriverError(RuntimeError):
    """As CuPy's."""


class CompileException(Exception):  # noqa: N818 - CuPy's name
    """As CuPy's."""


@dataclass
class FakeCupy:
    """What was asked of it, and what its kernels do."""

    made: list[tuple[str, tuple]] = field(default_factory=list)
    """Each RawKernel, RawModule and get_function with its arguments."""
    launches: list[dict[str, Any]] = field(default_factory=list)
    """Each launch: grid, block, shared_mem and how the arguments came."""
    copied_in: int = 0
    """Host arrays copied to the device."""
    errors: Any = None
    """Exceptions that its modules raise."""
    shared_limits: list[int] = field(default_factory=list)
    """Values of max_dynamic_shared_size_bytes that were set."""
    carveouts: list[int] = field(default_factory=list)
    """Values of preferred_shared_memory_carveout that were set."""
    variables: dict[str, DeviceArray] = field(default_factory=dict)
    """Bytes of the variables of its modules, by symbol."""
    body: Callable[..., None] = lambda *args: None
    """What a kernel does with its arguments; device arrays come as their memory."""

    functions: list[tuple[str, int]] = field(default_factory=list)
    """Name and number of parameters of each function, at its handle."""

    def launch_kernel(self, handle: int, *given: int) -> None:
        """The driver's launch: words that are addresses of arrays are told as such, others as numbers."""
        name, many = self.functions[handle]
        *shape, shared, _, address, _ = given
        places = (ctypes.c_uint64 * many).from_address(address)
        words = [ctypes.c_uint64.from_address(place).value for place in places]
        found = [ARRAYS.get(word, word) for word in words]
        kinds = [f"device {one.dtype}" if isinstance(one, DeviceArray) else f"word {one:#x}" for one in found]
        self.launches.append(
            {
                "name": name,
                "grid": tuple(shape[:3]),
                "block": tuple(shape[3:]),
                "args": kinds,
                "shared_mem": shared,
            }
        )
        self.body(*(one.memory if isinstance(one, DeviceArray) else one for one in found))

    def function(self, name: str, code: str = "") -> Any:
        fake = self
        declared = re.search(rf"\b{name}\s*\(([^)]*)\)", code)
        self.functions.append((name, declared[1].count(",") + 1 if declared else 0))

        class Function:
            shared_size_bytes = 1024
            kernel = SimpleNamespace(ptr=len(fake.functions) - 1)

            def __setattr__(self, attribute: str, value: int) -> None:
                kept = {
                    "max_dynamic_shared_size_bytes": fake.shared_limits,
                    "preferred_shared_memory_carveout": fake.carveouts,
                }
                kept[attribute].append(value)

            def __call__(self, grid: tuple, block: tuple, args: tuple, *, shared_mem: int = 0) -> None:
                kinds = [
                    f"device {one.dtype}"
                    if isinstance(one, DeviceArray)
                    else f"{type(one).__name__} {one.dtype}"
                    for one in args
                ]
                fake.launches.append(
                    {"name": name, "grid": grid, "block": block, "args": kinds, "shared_mem": shared_mem}
                )
                fake.body(*(one.memory if isinstance(one, DeviceArray) else one for one in args))

        return Function()

    def raw_kernel(self, code: str, name: str, options: tuple[str, ...] = ()) -> Any:
        self.made.append(("RawKernel", (code, name, options)))
        return self.function(name, code)

    def raw_module(self, *, code: str, options: tuple[str, ...] = ()) -> Any:
        self.made.append(("RawModule", (code, options)))
        return SimpleNamespace(
            get_function=lambda name: self._get_function(name, code), get_global=self._get_global
        )

    def _get_function(self, name: str, code: str) -> Any:
        self.made.append(("get_function", (name,)))
        return self.function(name, code)

    def _get_global(self, name: str) -> Any:
        if name not in self.variables:
            raise CUDADriverError("CUDA_ERROR_NOT_FOUND: named symbol not found")
        return SimpleNamespace(mem=SimpleNamespace(size=self.variables[name].memory.nbytes), name=name)

    def ndarray(self, shape: int, dtype: Any, memptr: Any) -> DeviceArray:
        assert (shape, dtype) == (self.variables[memptr.name].memory.nbytes, np.uint8)
        return self.variables[memptr.name]

    def asarray(self, value: Any) -> DeviceArray:
        if isinstance(value, DeviceArray):
            return value
        self.copied_in += 1
        return DeviceArray(value)


@pytest.fixture
def cupy(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeCupy]:
    """A machine with one GPU."""
    fake = FakeCupy()
    module = ModuleType("cupy")
    module.__spec__ = importlib.machinery.ModuleSpec("cupy", None)
    module.__version__ = "0"
    module.asarray = fake.asarray
    module.ndarray = fake.ndarray
    module.asnumpy = lambda value: value.memory.copy()
    module.RawKernel = fake.raw_kernel
    module.RawModule = fake.raw_module
    module.cuda = SimpleNamespace(
        runtime=SimpleNamespace(
            getDeviceCount=lambda: 1,
            getDevice=lambda: 0,
            getDeviceProperties=lambda device: {"name": b"Stand-in GPU"},
            CUDARuntimeError=CUDARuntimeError,
        ),
        driver=SimpleNamespace(CUDADriverError=CUDADriverError, launchKernel=fake.launch_kernel),
        get_current_stream=lambda: SimpleNamespace(ptr=0),
        compiler=SimpleNamespace(CompileException=CompileException),
        Device=lambda: SimpleNamespace(attributes={"MaxSharedMemoryPerBlockOptin": 101_376}),
    )
    fake.errors = SimpleNamespace(runtime=CUDARuntimeError, compile=CompileException)
    monkeypatch.setitem(sys.modules, "cupy", module)
    monkeypatch.delenv("TILEWISE_BACKEND", raising=False)
    _forget()
    yield fake
    _forget()


def _forget() -> None:
    backend.chosen.cache_clear()
    backend.backend.cache_clear()
    cupy_backend.forget("", ())  # kernels of modules keep what they have compiled
    for cached in (
        cupy_backend._alone,
        cupy_backend._module,
        cupy_backend._from_module,
        cupy_backend._most_shared,
    ):
        cached.cache_clear()
