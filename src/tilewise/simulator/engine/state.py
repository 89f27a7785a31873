"""The values of a source's variables between launches: `__device__`, `__constant__`, `__managed__`.

In: values from a launch, or set by the caller. Out: the initial bytes for the next launch of the same source.
Each source text with its options has one state, like a module on a GPU.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from tilewise.cuda.kernel_source import KernelError
from tilewise.cuda.variables import DeviceVariable, device_variables, shown_name
from tilewise.simulator.ptx.ptx import Variable


class State:
    """The variables of one source.

    Args:
        declared: the source's declarations, by name.
    """

    def __init__(self, declared: Mapping[str, DeviceVariable]) -> None:
        self.declared = declared
        self._values: dict[str, NDArray[np.uint8]] = {}

    def begin(self, variable: Variable, initial: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """The initial bytes for a launch, which writes to them.

        Raises:
            KernelError: the variable was set to a wrong number of bytes.
        """
        name = shown_name(variable.name)
        data = self._values.get(name)
        if data is None:
            return initial
        if len(data) != len(initial):
            raise KernelError(
                f"{name} has {len(initial)} bytes and was set to {len(data)}. Set all of its elements."
            )
        return data.copy()

    def needs_a_value(self, variable: Variable) -> bool:
        """Whether the variable has no value yet, so that reading it is a hazard."""
        name = shown_name(variable.name)
        if name in self._values or variable.initial:
            return False
        declared = self.declared.get(name)
        return declared.needs_a_value if declared else variable.space == "const"

    def keep(self, variable: Variable, data: NDArray[np.uint8], initial: NDArray[np.uint8]) -> None:
        """Keep a variable's bytes after a launch, if they were set or changed."""
        name = shown_name(variable.name)
        if name in self._values or not np.array_equal(data, initial):
            self._values[name] = data

    def get(self, name: str) -> NDArray[np.uint8] | None:
        """The bytes of a variable that was set or changed; None if it has its initial value."""
        return self._values.get(name)

    def set(self, name: str, data: NDArray[np.uint8]) -> None:
        """Set a variable's bytes."""
        self._values[name] = data

    def reset(self) -> None:
        """Reset every variable to its initial value."""
        self._values.clear()


_STATES: dict[tuple[str, tuple[str, ...]], State] = {}


def state_of(source: str, compiled: str = "", options: tuple[str, ...] = ()) -> State:
    """The state of a source: the same one for the same text and options.

    Args:
        source: as written, with its host code.
        compiled: with macros and headers, for its declarations; the source by default.
        options: as ``Kernel`` takes them.
    """
    key = (source, options)
    if key not in _STATES:
        _STATES[key] = State(device_variables(source, compiled))
    return _STATES[key]
