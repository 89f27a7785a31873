"""`kernel.variables`: the values of the `__device__` and `__constant__` variables of a kernel's source.

In: names and values. Out: the same on the GPU and on the simulator: a variable keeps its value between
launches, for all kernels of one text. The backend decides where a value is stored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewise.cuda.kernel_source import KernelError
from tilewise.cuda.variables import DeviceVariable
from tilewise.gpu import cupy_backend
from tilewise.kernel.backend import backend

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from tilewise.kernel.kernel import Kernel


class Variables(Mapping[str, Any]):
    """The variables of a kernel's source by name, to read and set.

    ``kernel.variables["n"]`` is a NumPy scalar or a copy as an array; ``kernel.variables["n"] = value`` sets
    all of it. A struct or a pointer is an array of its bytes.
    """

    def __init__(
        self, kernel: Kernel, declared: Mapping[str, DeviceVariable], *, simulated: bool = False
    ) -> None:
        self._kernel, self._declared, self._simulated = kernel, declared, simulated

    @property
    def simulated(self) -> Variables:
        """The same variables on the simulator, even with a GPU."""
        return Variables(self._kernel, self._declared, simulated=True)

    @property
    def _on_gpu(self) -> bool:
        return not self._simulated and backend() == "gpu"

    def __contains__(self, name: object) -> bool:
        return name in self._declared

    def __iter__(self) -> Iterator[str]:
        return iter(self._declared)

    def __len__(self) -> int:
        return len(self._declared)

    def __getitem__(self, name: str) -> Any:
        variable = self._find(name)
        data = self._bytes(name)
        array = data.view(variable.dtype) if variable.dtype is not None else data
        array = array.reshape(-1 if variable.shape is None or variable.dtype is None else variable.shape)
        return array[()] if array.ndim == 0 else array

    def __setitem__(self, name: str, value: Any) -> None:
        variable = self._find(name)
        size = len(self._bytes(name))
        data = _as_bytes(self._kernel.name, variable, value, size)
        self._kernel.state.set(name, data)
        if self._on_gpu:
            cupy_backend.write_variable(*self._module, name, data)

    def reset(self) -> None:
        """Reset every variable to its initial value in the source."""
        self._kernel.state.reset()
        if self._on_gpu:
            code, options, _ = self._module
            cupy_backend.forget(code, options)

    @property
    def _module(self) -> tuple[str, tuple[str, ...], str]:
        return self._kernel.gpu_source, self._kernel.options, self._kernel.name

    def _bytes(self, name: str) -> NDArray[np.uint8]:
        if self._on_gpu:
            return cupy_backend.read_variable(*self._module, name)
        return self._kernel.simulated_variable(name)

    def _find(self, name: str) -> DeviceVariable:
        if name not in self._declared:
            have = ", ".join(self._declared) or "none"
            raise KernelError(
                f'kernel "{self._kernel.name}": the source has no __device__ or __constant__ variable '
                f'"{name}"; it has {have}. Correct the name.'
            )
        return self._declared[name]

    def __repr__(self) -> str:
        return f"Variables({', '.join(self._declared)})"


def _as_bytes(kernel: str, variable: DeviceVariable, value: Any, size: int) -> NDArray[np.uint8]:
    """Convert a value to a variable's bytes.

    Raises:
        KernelError: its type or its number of elements does not fit.
    """
    dtype = np.dtype(np.uint8) if variable.dtype is None else variable.dtype
    array = np.asarray(value)
    is_plain = not isinstance(value, np.ndarray | np.generic)
    if array.dtype != dtype and variable.dtype is not None:
        if not is_plain or (dtype.kind in "iub" and array.dtype.kind not in "iub"):
            raise KernelError(
                f'kernel "{kernel}": {variable.name} holds {dtype}, and the value is {array.dtype}. '
                f'Convert it with .astype("{dtype}").'
            )
        limits = np.iinfo(dtype.name) if dtype.kind in "iu" else None
        if limits and array.size and (array.min() < limits.min or array.max() > limits.max):
            raise KernelError(
                f'kernel "{kernel}": {variable.name} holds {dtype}, from {limits.min} to {limits.max}, and '
                "the value goes beyond. Set a smaller one."
            )
        array = array.astype(dtype)
    raw = np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8).copy()
    if len(raw) != size:
        raise KernelError(
            f'kernel "{kernel}": {variable.name} holds {size // dtype.itemsize} elements of {dtype}, and the '
            f"value has {len(raw) // dtype.itemsize}. Set all of them."
        )
    return raw
