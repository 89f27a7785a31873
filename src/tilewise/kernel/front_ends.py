"""Running a kernel's Numba, Triton or PyTorch version on a case of the CUDA kernel.

In: a Numba kernel, or a function that takes torch tensors; a kernel and a case. Out: the case's arrays
afterwards. On a GPU, Numba gets CuPy arrays and PyTorch CUDA tensors; elsewhere both compute on the host.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewise import bf16, frameworks
from tilewise.cuda.arguments import is_device_array
from tilewise.cuda.cases import Case
from tilewise.errors import LessonError, nearest
from tilewise.frameworks import Absent, is_numba_kernel
from tilewise.gpu.cupy_backend import to_host
from tilewise.gpu.device import gpu_here
from tilewise.kernel.pseudocode_source import place_of

if TYPE_CHECKING:
    from tilewise.kernel.kernel import Kernel

PSEUDOCODE = "Pseudocode"
FRONT_ENDS = (PSEUDOCODE, "Numba", "Triton", "PyTorch")
"""What `agree` compares with CUDA, by tab title."""
_PACKAGE = {"Numba": "cuda", "Triton": "triton", "PyTorch": "torch"}
_HOST = {"Numba": "Numba's simulator", "Triton": "Triton's interpreter", "PyTorch": "CPU"}


def function_of(implementation: Any) -> Callable[..., Any]:
    """Return the Python function of a Numba kernel, or the function itself."""
    function: Callable[..., Any] = (
        implementation.py_func if is_numba_kernel(implementation) else implementation
    )
    return function


def lacking(by: str, implementation: Any) -> str:
    """Return what is missing to run it, such as `needs PyTorch`; empty if nothing is."""
    package = implementation if isinstance(implementation, Absent) or by not in _PACKAGE else _package(by)
    return str(package) if isinstance(package, Absent) else ""


def _package(by: str) -> Any:
    return getattr(frameworks, _PACKAGE[by])


def check_front_end(by: str, implementation: Any, kernel: Kernel) -> None:
    """Check that `by` is known and that the implementation is of its kind.

    Raises:
        LessonError: either is wrong.
    """
    path, line = kernel.origin
    title = f'agree(..., kernel "{kernel.name}", by="{by}")'
    if by not in FRONT_ENDS:
        message = f'{title}: "{by}" is not a front end that it knows.'
        raise LessonError(path, line, message, nearest(by, FRONT_ENDS))
    if by == "Numba" and not is_numba_kernel(implementation):
        message = f"{title}: {type(implementation).__name__} is no kernel of Numba's."
        raise LessonError(path, line, message, "Pass the function that @cuda.jit decorates.")
    if by != "Numba" and is_numba_kernel(implementation):
        raise LessonError(path, line, f"{title}: it is a kernel of Numba's.", 'Add by="Numba".')
    if by in _HOST and by != "Numba" and not inspect.isfunction(implementation):
        message = f"{title}: {type(implementation).__name__} is no function."
        raise LessonError(path, line, message, "Pass the function that takes the arrays and launches.")


def label(by: str, alone: bool = False) -> str:
    """Return a front end's name in a sentence; `alone` if no function name follows."""
    return by if by != PSEUDOCODE else "the pseudocode" if alone else "pseudocode"


def place_run(by: str, implementation: Any) -> str:
    """Return what runs it here: a GPU, or the package's substitute for one."""
    return "gpu" if _is_on_gpu(by, implementation) else _HOST[by]


def _is_on_gpu(by: str, implementation: Any) -> bool:
    """Whether it runs on a GPU; a Numba kernel is compiled for one target."""
    return ".simulator." not in type(implementation).__module__ if by == "Numba" else gpu_here()


def runner(by: str) -> Callable[[Any, Kernel, Case, int], dict[str, Any]]:
    """Return the function that runs a case, given implementation, kernel, case and case number."""
    return run_numba if by == "Numba" else run_tensors


def run_numba(implementation: Any, kernel: Kernel, case: Case, seed: int) -> dict[str, Any]:
    """Launch a Numba kernel on fresh arrays, with the case's grid and block.

    Returns:
        The case's values by name, after the run, in host memory.

    Raises:
        LessonError: it takes a value that the case lacks.
    """
    launch = kernel.on(case)
    values = case.make()
    named = _arguments(implementation, kernel, case, values)
    as_array = import_module("cupy").asarray if _is_on_gpu("Numba", implementation) else np.asarray
    arrays = {name: as_array(value) for name, value in named.items() if isinstance(value, np.ndarray)}
    arguments = [arrays.get(name, value) for name, value in named.items()]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Grid size")  # checks use small grids on purpose
        implementation[launch.grid, launch.block, 0, launch.shared_bytes](*arguments)
    host = {name: to_host(array) if is_device_array(array) else array for name, array in arrays.items()}
    return {**values, **host}


def run_tensors(implementation: Any, kernel: Kernel, case: Case, seed: int) -> dict[str, Any]:
    """Call a function with torch tensors of fresh arrays, and the case's numbers as Python numbers.

    Returns:
        The case's values by name, after the run, in host memory.

    Raises:
        LessonError: it takes a value that the case lacks, or returns one.
    """
    torch = _package("PyTorch")
    values = case.make()
    named = _arguments(implementation, kernel, case, values)
    device = "cuda" if gpu_here() else "cpu"
    passed = {
        name: torch.from_numpy(value).to(device) if isinstance(value, np.ndarray) else value.item()
        for name, value in named.items()
    }
    returned = implementation(**passed)
    if returned is not None:
        path, line = place_of(implementation)
        message = f"{implementation.__name__} returns a value, and a kernel cannot."
        raise LessonError(path, line, message, "Write into the output arrays instead.")
    arrays = [name for name, value in named.items() if isinstance(value, np.ndarray)]
    return {**values, **{name: passed[name].cpu().numpy() for name in arrays}}


def _arguments(implementation: Any, kernel: Kernel, case: Case, values: Mapping[str, Any]) -> dict[str, Any]:
    """An implementation's arguments from a case, in its own order; numbers have the kernel's types."""
    function = function_of(implementation)
    path, line = place_of(function)
    types = {
        parameter.name: parameter.dtype
        for parameter in kernel.parameters
        if not parameter.is_pointer and parameter.dtype is not None
    }
    arguments = {}
    for name in inspect.signature(function).parameters:
        if name not in values:
            message = f'{function.__name__} takes "{name}", which the case does not name.'
            raise LessonError(path, line, message, f"The case has {', '.join(values)}.")
        if name in bf16.names(case.values):
            message = f'{function.__name__} takes "{name}", the bits of BF16 numbers, as whole numbers.'
            raise LessonError(path, line, message, "Compare it on FP32 numbers.")
        value = values[name]
        arguments[name] = (
            value if isinstance(value, np.ndarray) else types.get(name, np.dtype(type(value))).type(value)
        )
    return arguments
