"""What the variables of a source hold between launches: `__device__`, `__constant__`, `__managed__`.

In: values that a launch left, or that somebody set. Out: the bytes with which the next launch of the same
source begins. One state belongs to one text with its options, as one module does on a GPU.
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
        declared: what the source declares, by name.
    """

    def __init__(self, declared: Mapping[str, DeviceVariable]) -> None:
        self.declared = declared
        self._values: dict[str, NDArray[np.uint8]] = {}

    def begin(self, variable: Variable, initial: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """The bytes with which a launch begins, to be written to.

        Raises:
            KernelError: the variable was set to more or fewer bytes than it has.
        """
        name = shown_name(variable.name)
        kept = self._values.get(name)
        if kept is None:
            return initial
        if len(kept) != len(initial):
            raise KernelError(
                f"{name} has {len(initial)} bytes and was set to {len(kept)}. Set all of its elements."
            )
        return kept.copy()

    def needs_a_value(self, variable: Variable) -> bool:
        """Whether a kernel that reads the variable now reads what nobody gave it."""
        name = shown_name(variable.name)
        if name in self._values or variable.initial:
            return False
        declared = self.declared.get(name)
        return declared.needs_a_value if declared else variable.space == "const"

    def keep(self, variable: Variable, data: NDArray[np.uint8], initial: NDArray[np.uint8]) -> None:
        """Take in what a launch left."""
        name = shown_name(variable.name)
        if name in self._values or not np.array_equal(data, initial):
            self._values[name] = data

    def get(self, name: str) -> NDArray[np.uint8] | None:
        """The bytes of a variable that was set or changed; None for one as it was at first."""
        return self._values.get(name)

    def set(self, name: str, data: NDArray[np.uint8]) -> None:
        """Give a variable its bytes."""
        self._values[name] = data

    def reset(self) -> None:
        """Make every variable what the source says."""
        self._values.clear()


_STATES: dict[tuple[str, tuple[str, ...]], State] = {}


def state_of(source: str, compiled: str = "", options: tuple[str, ...] = ()) -> State:
    """The state of a source: the same one for the same text and options.

    Args:
        source: as it is written, with its host code.
        compiled: the same with macros and headers, to read declarations from; the source by default.
        options: as ``Kernel`` takes them.
    """
    key = (source, options)
    if key not in _STATES:
        _STATES[key] = State(device_variables(source, compiled))
    return _STATES[key]
