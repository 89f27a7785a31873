"""`Launch`: a kernel with a case's inputs and a launch shape, ready to run or to simulate.

In: the checked arguments of `Kernel.on`. Out: the case's values after a run, or a `Run` of the simulator.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal

from tilewise.cuda.cases import Array, Case, Dim3, Scalar
from tilewise.cuda.tensor_map import InnerPointer, TensorMap, with_array
from tilewise.errors import LessonError
from tilewise.kernel.launches import launch_log, without_logging

if TYPE_CHECKING:
    from tilewise.kernel.kernel import Kernel
    from tilewise.simulator import Run, Trace

Hazards = Literal["raise", "collect"]


@dataclass(frozen=True, eq=False)
class Launch:
    """A kernel, a case and a launch shape: everything that a run needs."""

    kernel: Kernel
    """The kernel."""
    case: Case
    """Its inputs, by parameter name."""
    grid: Dim3
    """Blocks in x, y, z."""
    block: Dim3
    """Threads per block in x, y, z."""
    shared_bytes: int = 0
    """Dynamic shared memory per block."""

    def run(self, arrays: Mapping[str, Array | Scalar] | None = None) -> dict[str, Any]:
        """Run on the GPU or, without one, on the simulator.

        Args:
            arrays: values by parameter name, written in place; by default new ones from the case.

        Returns:
            The values by name, after the run.
        """
        values = dict(self.case.make() if arrays is None else arrays)
        with self._logged(own=arrays is None):
            self.kernel(
                *self.arguments(values), grid=self.grid, block=self.block, shared_bytes=self.shared_bytes
            )
        return values

    def simulate(
        self,
        hazards: Hazards = "raise",
        trace: Trace | None = None,
        arrays: Mapping[str, Array | Scalar] | None = None,
        max_steps: int | None = None,
        ignore: Sequence[str] = (),
    ) -> Run:
        """Run on the simulator, by default with new values from the case; see `Kernel.simulate`."""
        values = dict(self.case.make() if arrays is None else arrays)
        with self._logged(own=arrays is None and hazards == "raise" and not ignore):
            run = self.kernel.simulate(
                *self.arguments(values),
                grid=self.grid,
                block=self.block,
                shared_bytes=self.shared_bytes,
                hazards=hazards,
                trace=trace,
                max_steps=max_steps,
                ignore=ignore,
            )
        return replace(run, launch=self)

    @contextmanager
    def _logged(self, own: bool) -> Iterator[None]:
        """Log a run of the case's own values, if a log is open and it ends without a hazard."""
        log = launch_log() if own else None
        if log is None:
            yield
            return
        try:
            with without_logging():
                yield
        except LessonError:
            log.faulted(self.kernel)
            raise
        log.launched(self, from_case=True)

    def arguments(self, values: Mapping[str, Array | Scalar]) -> list[Array | Scalar]:
        """Return the kernel's arguments in order, selected by name."""
        return [with_array(values[parameter.name], values) for parameter in self.kernel.parameters]

    @property
    def taken(self) -> dict[str, Any]:
        """The case's values that the kernel takes, and the arrays that its tensor maps and pointers name."""
        values: dict[str, Any] = {
            parameter.name: self.case.values[parameter.name] for parameter in self.kernel.parameters
        }
        inner = (value for value in values.values() if isinstance(value, TensorMap | InnerPointer))
        named = [value.name for value in inner if value.name]
        return values | {name: self.case.values[name] for name in named if name in self.case.values}

    @property
    def threads(self) -> Dim3:
        """Threads in the whole launch in x, y, z."""
        x, y, z = (blocks * threads for blocks, threads in zip(self.grid, self.block, strict=True))
        return (x, y, z)

    def fingerprint(self) -> str:
        """Return the text for a record's key: kernel, its values in the case, grid, block, shared bytes."""
        data = Case(self.taken, self.grid, self.block, self.shared_bytes).fingerprint()
        return f"{self.kernel.fingerprint()}\n{data}"

    def __str__(self) -> str:
        shared = f", {self.shared_bytes} bytes shared" if self.shared_bytes else ""
        inputs = str(
            Case({parameter.name: self.case.values[parameter.name] for parameter in self.kernel.parameters})
        )
        return f"{self.kernel.name}, grid {self.grid}, block {self.block}{shared}: {inputs}"
