"""Launching on a GPU through CuPy: compile once, copy in, launch, copy back.

In: a kernel's text and arguments checked by `arguments`. Out: the arrays, written in place. CuPy is imported
at the first launch.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any

import numpy as np

from tilewise.cuda.arguments import Argument, check_shared, is_device_array
from tilewise.cuda.cases import Dim3
from tilewise.cuda.kernel_source import KernelError, Parameter
from tilewise.cuda.options import carveout, for_compiler
from tilewise.cuda.tensor_map import TensorMap, encoded
from tilewise.cuda.variables import symbols

PRELUDE = """\
#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif
#ifndef NAN
#define NAN __int_as_float(0x7fc00000)
#endif
"""
"""NVRTC has no <math.h>; the simulator defines the same two macros."""

SHARED_DEFAULT_BYTES = 48 * 1024
"""A kernel whose blocks use more shared memory, static and dynamic, must opt in."""


PORTABLE_CLUSTER = 8
"""Cluster size that every GPU with clusters supports; larger clusters must opt in."""

NON_PORTABLE_CLUSTERS = 14
"""The driver's number of the function attribute for larger clusters."""


def compiled(code: str, name: str, options: tuple[str, ...], as_module: bool) -> Any:
    """CuPy's function object for a kernel; one compilation serves all kernels of a module.

    Args:
        code: CUDA C with prelude and defines.
        name: the kernel.
        options: the kernel's; those that aren't NVRTC's are set through the driver.
        as_module: use `RawModule`, which accepts an architecture with a letter (sm_90a) and shares its
            compilation between kernels, instead of `RawKernel`.
    """
    code = _fresh(code, options)
    return _from_module(code, name, options) if as_module else _alone(code, name, options)


def own_text(code: str, options: tuple[str, ...]) -> str:
    """The code, with a last line that makes kernels with different carveouts distinct functions."""
    share = carveout(options)
    return code if share is None else f"{code}// carveout {share}\n"


_FORGOTTEN: dict[tuple[str, tuple[str, ...]], int] = {}
"""How often each module's variables were reset by reloading it."""
_TIMES = [0]
"""Number of resets of all modules."""


def times_forgotten() -> int:
    """How often modules were reset: functions that `compiled` returned earlier may be outdated."""
    return _TIMES[0]


def forget(code: str, options: tuple[str, ...]) -> None:
    """Reload a module at its next launch, so that its variables have their initial values."""
    _FORGOTTEN[code, options] = _FORGOTTEN.get((code, options), 0) + 1
    _TIMES[0] += 1


def read_variable(code: str, options: tuple[str, ...], kernel: str, name: str) -> np.ndarray[Any, Any]:
    """The bytes of a `__device__` or `__constant__` variable in the GPU's memory.

    Raises:
        KernelError: the module exports no variable of that name.
    """
    cupy = importlib.import_module("cupy")
    memory = _variable(cupy, code, options, kernel, name)
    return np.frombuffer(
        cupy.asnumpy(cupy.ndarray(memory.mem.size, dtype=np.uint8, memptr=memory)).tobytes(), np.uint8
    ).copy()


def write_variable(
    code: str, options: tuple[str, ...], kernel: str, name: str, data: np.ndarray[Any, Any]
) -> None:
    """Set the bytes of a variable in the GPU's memory; as `read_variable`."""
    cupy = importlib.import_module("cupy")
    memory = _variable(cupy, code, options, kernel, name)
    cupy.ndarray(memory.mem.size, dtype=np.uint8, memptr=memory)[...] = cupy.asarray(data)


def _variable(cupy: Any, code: str, options: tuple[str, ...], kernel: str, name: str) -> Any:
    module = _module(_fresh(code, options), options)
    for symbol in symbols(name):
        try:
            return module.get_global(symbol)
        except (cupy.cuda.runtime.CUDARuntimeError, cupy.cuda.driver.CUDADriverError):
            continue
    raise KernelError(
        f'kernel "{kernel}": the compiled module gives no access to {name}. Is it used by a kernel? '
        "If it is static, leave that word out."
    )


def _fresh(code: str, options: tuple[str, ...]) -> str:
    """The code, with a last line that distinguishes a reloaded module from earlier ones."""
    times = _FORGOTTEN.get((code, options))
    return f"{code}// loaded anew {times}\n" if times else code


def _with_carveout(function: Any, options: tuple[str, ...]) -> Any:
    if (share := carveout(options)) is not None:
        function.preferred_shared_memory_carveout = share
    return function


def launch(
    function: Any,
    parameters: Sequence[Parameter],
    arguments: Sequence[Argument],
    *,
    kernel: str,
    origin: tuple[str, int],
    grid: Dim3,
    block: Dim3,
    shared_bytes: int,
    cluster: Dim3 | None = None,
) -> None:
    """Launch; NumPy arrays are copied in, and back if the kernel may write to them.

    Args:
        function: from `compiled`.
        parameters: the kernel's.
        arguments: from `check_arguments`.
        kernel: its name, for messages.
        origin: its source's file and line, for messages.
        grid: blocks in x, y, z.
        block: threads per block in x, y, z.
        shared_bytes: dynamic shared memory per block.
        cluster: blocks per cluster, if the source declares them.

    Raises:
        KernelError: the source does not compile, the GPU refuses the launch, or the kernel fails on it.
    """
    cupy = importlib.import_module("cupy")
    try:
        allow(function, kernel, shared_bytes, cluster)
        on_device: dict[tuple[int, int], Any] = {}
        passed = [
            _pass(cupy, parameter, value, on_device)
            for parameter, value in zip(parameters, arguments, strict=True)
        ]
        function(grid, block, tuple(passed), shared_mem=shared_bytes)
        written: set[tuple[int, int]] = set()
        for value in _written(parameters, arguments):
            where = _place(value)
            if where not in written:
                written.add(where)
                on_device[where].get(out=_bytes(value))
    except Exception as error:
        explain(error, kernel, origin)
        raise


def explain(error: Exception, kernel: str, origin: tuple[str, int]) -> None:
    """Translate CuPy's error at a launch to the kernel's own lines; ignore any other error.

    Raises:
        KernelError: the source does not compile, the GPU refuses the launch, or the kernel fails on it.
    """
    cupy = importlib.import_module("cupy")
    if isinstance(error, cupy.cuda.compiler.CompileException):
        raise KernelError(compile_message(kernel, str(error), origin)) from None
    if isinstance(error, (cupy.cuda.runtime.CUDARuntimeError, cupy.cuda.driver.CUDADriverError)):
        raise _failed(kernel, error) from error


def _failed(kernel: str, error: Exception) -> KernelError:
    return KernelError(
        f'kernel "{kernel}" failed on the GPU: {error}. '
        "Run it with .simulate(...), which names the line and the thread."
    )


def compile_message(kernel: str, log: str, origin: tuple[str, int], target: str = "") -> str:
    """NVRTC's first error, in one line with the lesson's own line number.

    Args:
        kernel: the kernel's name.
        log: NVRTC's output; `#line 1` makes its lines count from the source's first.
        origin: the source's file and line.
        target: the architecture, if several are tried.
    """
    path, line = origin
    match = re.search(r"\((\d+)\): (?:catastrophic )?error:? (.+)", log)
    if match is None:
        first = next((line for line in log.splitlines() if "error" in line), "NVRTC gave no message")
    else:
        line, first = line + int(match[1]) - 1, match[2]
    where = f" for {target}" if target else ""
    repair = " Install the wheel nvidia-cuda-runtime, which has it." if "cannot open source" in first else ""
    return f'{path}:{line}: kernel "{kernel}" does not compile{where}: {first.strip().rstrip(".")}.{repair}'


def to_host(value: Any) -> Any:
    """A copy of another package's device array in host memory."""
    return _cupy_for_device_arrays().asnumpy(_cupy_for_device_arrays().asarray(value))


def write_back(value: Any, host: np.ndarray[Any, Any]) -> None:
    """Copy a host array into another package's device array of the same shape."""
    cupy = _cupy_for_device_arrays()
    cupy.asarray(value)[...] = cupy.asarray(host)


def _cupy_for_device_arrays() -> Any:
    try:
        return importlib.import_module("cupy")
    except ImportError as error:
        raise KernelError(
            f"An array in GPU memory was passed, and CuPy does not import: {error}. Pass a NumPy array."
        ) from error


@lru_cache(maxsize=256)
def _alone(code: str, name: str, options: tuple[str, ...]) -> Any:
    code, flags = own_text(code, options), for_compiler(options)
    return _with_carveout(importlib.import_module("cupy").RawKernel(code, name, options=flags), options)


@lru_cache(maxsize=256)
def _module(code: str, options: tuple[str, ...]) -> Any:
    code = own_text(code, options)
    return importlib.import_module("cupy").RawModule(code=code, options=for_compiler(options))


@lru_cache(maxsize=256)
def _from_module(code: str, name: str, options: tuple[str, ...]) -> Any:
    return _with_carveout(_module(code, options).get_function(name), options)


def handle(function: Any) -> int:
    """The driver's handle of a function, from its attribute `kernel`."""
    return int(function.kernel.ptr)


def allow(
    function: Any,
    kernel: str,
    shared_bytes: int,
    cluster: Dim3 | None,
) -> None:
    """Opt in to what a launch needs beyond the defaults.

    Args:
        function: from `compiled`.
        kernel: its name, for messages.
        shared_bytes: dynamic shared memory per block.
        cluster: blocks per cluster, if the source declares them.

    Raises:
        KernelError: the GPU has less shared memory per block.
    """
    cupy = importlib.import_module("cupy")
    if shared_bytes and shared_bytes + (static := int(function.shared_size_bytes)) > SHARED_DEFAULT_BYTES:
        most = _most_shared(cupy.cuda.runtime.getDevice())
        check_shared(kernel, static, shared_bytes, most)
        # the maximum: another launch of the function may have needed more
        function.max_dynamic_shared_size_bytes = most - static
    if cluster is not None and cluster[0] * cluster[1] * cluster[2] > PORTABLE_CLUSTER:
        cupy.cuda.driver.funcSetAttribute(handle(function), NON_PORTABLE_CLUSTERS, 1)


@cache
def _most_shared(device: int) -> int:
    """Maximum shared memory per block on the current device; cached, since CuPy reads all attributes."""
    return int(importlib.import_module("cupy").cuda.Device().attributes["MaxSharedMemoryPerBlockOptin"])


def _written(parameters: Sequence[Parameter], arguments: Sequence[Argument]) -> list[np.ndarray[Any, Any]]:
    """The NumPy arrays that the kernel may have written, including those of every tensor map."""
    arrays = []
    for parameter, value in zip(parameters, arguments, strict=True):
        array = value.source if isinstance(value, TensorMap) else value
        may = isinstance(value, TensorMap) or (parameter.is_pointer and not parameter.is_const)
        if may and isinstance(array, np.ndarray) and array.size and array.flags.writeable:
            arrays.append(array)
    return arrays


def _pass(cupy: Any, parameter: Parameter, value: Argument, on_device: dict[tuple[int, int], Any]) -> Any:
    if isinstance(value, TensorMap):
        return encoded(int(_there(cupy, value.source, on_device).data.ptr), value.layout).data
    if value is None:
        return np.uint64(0)
    return _there(cupy, value, on_device) if parameter.is_pointer else value


def _there(cupy: Any, value: Any, on_device: dict[tuple[int, int], Any]) -> Any:
    """An array in GPU memory: the array itself or a copy."""
    if is_device_array(value):
        return cupy.asarray(value)
    where = _place(value)
    if where not in on_device:
        on_device[where] = cupy.asarray(_bytes(value))
    return on_device[where]


def _place(value: np.ndarray[Any, Any]) -> tuple[int, int]:
    """A key by which memory is copied once, however many parameters point to it."""
    return (value.ctypes.data, value.nbytes)


def _bytes(value: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """A flat view of the memory as bytes, because CuPy has no structured dtypes."""
    return value.reshape(-1).view(np.uint8)
