"""A stand-in for CuPy and for a kernel, so that recording can be tested where there is no GPU.

Arrays are NumPy's with CuPy's interface on top; a "kernel" is a Python function; time is a counter that a
kernel advances by what it says it costs.
"""

import sys
from dataclasses import dataclass, field
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tilewise.cuda.kernel_source import tokens


@dataclass
class FakeGpu:
    """The clock and the log of a fake GPU."""

    now_us: float = 0.0
    launched: list[str] = field(default_factory=list)
    profiled: list[str] = field(default_factory=list)
    observing: bool = False
    name: str = "NVIDIA H100 80GB HBM3"

    def run(self, name: str, cost_us: float) -> None:
        self.now_us += cost_us
        self.launched.append(name)
        if self.observing:
            self.profiled.append(name)


CLOCK: list[FakeGpu] = []


class FakeArray(np.ndarray):
    """A NumPy array that says it lies on a GPU."""

    @property
    def data(self) -> Any:
        """The memory behind it, as far as the probes use it."""
        return SimpleNamespace(
            copy_from_device_async=lambda *_: CLOCK[0].run("memcpy", 700.0),
            memset_async=lambda *_: CLOCK[0].run("memset", 330.0),
        )

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "data": (self.ctypes.data, False),
            "version": 3,
        }

    def set(self, host: np.ndarray) -> None:
        self[...] = host


@dataclass(frozen=True)
class Parameter:
    name: str
    is_pointer: bool
    is_const: bool


class FakeKernel:
    """A kernel as ``measure`` knows it: a source, parameters, a call and a simulation."""

    def __init__(self, gpu: FakeGpu | None, source: str, body: Any, parameters: tuple[Parameter, ...],
                 cost_us: float = 100.0) -> None:  # fmt: skip
        self.source, self.name, self.defines, self.options = source, "fake", {}, ()
        self.gpu_source, self.wants_module = source, False
        self.preprocessed, self.origin, self.function = source, None, SimpleNamespace(cluster=None)
        self.parameters, self._body, self._gpu, self._cost_us = parameters, body, gpu, cost_us

    def __call__(self, *values: Any, grid: Any, block: Any, shared_bytes: int = 0) -> None:
        self._body(*values)
        if self._gpu is not None:
            self._gpu.run(self.name, self._cost_us)

    def simulate(self, *values: Any, grid: Any, block: Any, shared_bytes: int = 0) -> Any:
        self._body(*values)
        sectors = sum(value.nbytes // 32 for value in values if isinstance(value, np.ndarray))
        part = SimpleNamespace(requests=sectors // 4, sectors=sectors, useful_bytes=sectors * 32)
        none = SimpleNamespace(requests=0, sectors=0, wavefronts=0, useful_bytes=0)
        counts = SimpleNamespace(
            global_load=part, global_store=none, shared_load=none, shared_store=none, issued=7
        )
        return SimpleNamespace(counts=counts)

    def on(self, case: Any, grid: Any = 1, block: Any = 32) -> Any:
        text = f"{tokens(self.source)} {grid} {block} {case.fingerprint()}"
        launch = SimpleNamespace(kernel=self, case=case, grid=grid, block=block, shared_bytes=0)
        launch.fingerprint = lambda: text
        launch.arguments = lambda values: [values[parameter.name] for parameter in self.parameters]
        return launch


VECTOR = (Parameter("a", True, True), Parameter("b", True, True), Parameter("c", True, False),
          Parameter("n", False, True))  # fmt: skip


def add(a: Any, b: Any, c: Any, n: int) -> None:
    c[:n] = a[:n] + b[:n]


def fake_cupy(gpu: FakeGpu) -> ModuleType:
    """A module with the parts of CuPy that recording uses."""
    CLOCK[:] = [gpu]
    module = ModuleType("cupy")
    module.__spec__ = ModuleSpec("cupy", None)

    class RawKernel:
        def __init__(self, source: str, name: str, options: tuple[str, ...] = ()) -> None:
            self._name = name
            self.kernel = SimpleNamespace(ptr=1)
            self.num_regs, self.local_size_bytes, self.shared_size_bytes = 16, 0, 0

        def __call__(self, grid: Any, block: Any, values: Any) -> None:
            gpu.run(self._name, 400.0 if self._name != "nothing" else 2.5)

    class RawModule:
        def __init__(self, code: str, options: tuple[str, ...] = ()) -> None:
            self._code = code

        def get_function(self, name: str) -> RawKernel:
            return RawKernel(self._code, name)

    class Event:
        def record(self) -> None:
            self.at_us = gpu.now_us

        def synchronize(self) -> None:
            pass

    def observe(on: bool) -> None:
        gpu.observing = on

    def array(value: Any, dtype: Any = None) -> FakeArray:
        return np.array(value, dtype=dtype).view(FakeArray)

    stream = SimpleNamespace(synchronize=lambda: None)
    runtime = SimpleNamespace(
        getDeviceCount=lambda: 1, getDevice=lambda: 0, runtimeGetVersion=lambda: 13000,
        getDeviceProperties=lambda _: {"name": gpu.name.encode(), "multiProcessorCount": 132, "major": 9,
                                       "l2CacheSize": 52428800, "totalGlobalMem": 85_000_000_000},
        profilerStart=lambda: observe(True), profilerStop=lambda: observe(False),
    )  # fmt: skip
    module.cuda = SimpleNamespace(
        runtime=runtime, Event=Event, get_current_stream=lambda: stream,
        get_elapsed_time=lambda start, stop: (stop.at_us - start.at_us) / 1000,
        Device=lambda: SimpleNamespace(attributes={"MultiProcessorCount": 132}, pci_bus_id="0000:00:00.0"),
        nvrtc=SimpleNamespace(getVersion=lambda: (13, 0)),
        driver=SimpleNamespace(
            occupancyMaxActiveBlocksPerMultiprocessor=lambda _, threads, shared: 2048 // threads
        ),
    )  # fmt: skip
    module.__version__ = "14.2.0"
    module.RawKernel, module.RawModule = RawKernel, RawModule
    module.asarray, module.asnumpy = array, np.asarray
    module.zeros = lambda shape, dtype: np.zeros(min(shape, 4096), dtype).view(FakeArray)
    module.ones = lambda shape, dtype: np.ones(16, dtype).view(FakeArray)
    module.empty = module.zeros
    module.get_default_memory_pool = lambda: SimpleNamespace(free_all_blocks=lambda: None)
    module.abs, module.isnan = np.abs, np.isnan
    return module


def install(monkeypatch: pytest.MonkeyPatch, gpu: FakeGpu) -> None:
    """Make this process see a GPU."""
    from tilewise.gpu import timing

    monkeypatch.setitem(sys.modules, "cupy", fake_cupy(gpu))
    monkeypatch.delenv("TILEWISE_BACKEND", raising=False)
    monkeypatch.delenv("TILEWISE_BUILD", raising=False)
    timing._stage.cache_clear()
