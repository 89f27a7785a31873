"""`kernel.variables`: what the `__device__` and `__constant__` variables of a kernel's source hold.

In: names and values. Out: the same on the GPU and on the simulator: a variable keeps its value from launch
to launch, for every kernel of one text. Where a value is kept is the backend's matter.
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
    """The variables of a kernel's source by name, to be read and set.

    ``kernel.variables["n"]`` is a NumPy scalar or a copy as an array; ``kernel.variables["n"] = value`` sets
    all of it. A variable of a struct's type, or a pointer, is its bytes.
    """

    def __init__(
        self, kernel: Kernel, declared: Mapping[str, DeviceVariable], *, simulated: bool = False
    ) -> None:
        self._kernel, self._declared, self._simulated = kernel, declared, simulated

    @property
    def simulated(self) -> Variables:
        """The same on the simulator, whatever this machine has."""
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
        one = self._find(name)
        data = self._bytes(name)
        array = data.view(one.dtype) if one.dtype is not None else data
        array = array.reshape(-1 if one.shape is None or one.dtype is None else one.shape)
        return array[()] if array.ndim == 0 else array

    def __setitem__(self, name: str, value: Any) -> None:
        one = self._find(name)
        size = len(self._bytes(name))
        data = _as_bytes(self._kernel.name, one, value, size)
        self._kernel.state.set(name, data)
        if self._on_gpu:
            cupy_backend.write_variable(*self._module, name, data)

    def reset(self) -> None:
        """Give every variable the value that the source says, as before the first launch."""
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


def _as_bytes(kernel: str, one: DeviceVariable, value: Any, size: int) -> NDArray[np.uint8]:
    """A value as a variable's bytes.

    Raises:
        KernelError: its type or its number of elements does not fit.
    """
    dtype = np.dtype(np.uint8) if one.dtype is None else one.dtype
    given = np.asarray(value)
    plain = not isinstance(value, np.ndarray | np.generic)
    if given.dtype != dtype and one.dtype is not None:
        if not plain or (dtype.kind in "iub" and given.dtype.kind not in "iub"):
            raise KernelError(
                f'kernel "{kernel}": {one.name} holds {dtype}, and the value is {given.dtype}. '
                f'Convert it with .astype("{dtype}").'
            )
        limits = np.iinfo(dtype.name) if dtype.kind in "iu" else None
        if limits and given.size and (given.min() < limits.min or given.max() > limits.max):
            raise KernelError(
                f'kernel "{kernel}": {one.name} holds {dtype}, from {limits.min} to {limits.max}, and the '
                "value goes beyond. Set a smaller one."
            )
        given = given.astype(dtype)
    raw = np.frombuffer(np.ascontiguousarray(given).tobytes(), np.uint8).copy()
    if len(raw) != size:
        raise KernelError(
            f'kernel "{kernel}": {one.name} holds {size // dtype.itemsize} elements of {dtype}, and the '
            f"value has {len(raw) // dtype.itemsize}. Set all of them."
        )
    return raw
