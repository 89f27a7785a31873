"""Specimens: small kernels, each with one idea and one launch, on which simulator and hardware are compared.

In: a kernel and a case. Out: a named ``Specimen`` with the key of its recorded counters. What was counted
is left to ``record``, comparing to ``comparison``.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from tilewise.cases import Case
from tilewise.gpu.kernel import Kernel
from tilewise.gpu.launch import Launch
from tilewise.measurements.key import digest

METHOD = 1
"""Raised whenever counting changes so that older counters no longer compare."""


@dataclass(frozen=True, eq=False)
class Specimen:
    """A kernel with one launch."""

    name: str
    """What records and tables call it."""
    idea: str
    """The one thing it is there for, in a few words."""
    launch: Launch
    """Kernel, inputs and shape."""
    rtol: float = 0.0
    """How far outputs may lie apart, relative to the value; 0 asks for the same bits."""
    atol: float = 0.0
    """Added to that, absolute."""

    @property
    def exact(self) -> bool:
        """Whether the outputs must be equal bit for bit."""
        return not self.rtol and not self.atol

    @property
    def written(self) -> tuple[str, ...]:
        """The arrays that the kernel may write, in the order of its parameters."""
        return tuple(one.name for one in self.launch.kernel.parameters if one.is_pointer and not one.is_const)

    @cached_property
    def key(self) -> str:
        """A hash of all that could change the counters: tokens, defines, options, inputs, shape."""
        return digest({"method": METHOD, "launch": self.launch.fingerprint()})

    def __str__(self) -> str:
        return self.name


def specimen(
    name: str, idea: str, kernel: Kernel, inputs: Case, rtol: float = 0.0, atol: float = 0.0
) -> Specimen:
    """A specimen from a kernel and a case that has grid and block."""
    return Specimen(name, idea, kernel.on(inputs), rtol, atol)
