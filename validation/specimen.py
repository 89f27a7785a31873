"""Specimens: small kernels, each with one idea and one launch, on which simulator and hardware are compared.

In: a kernel and a case. Out: a named ``Specimen`` with the key of its recorded counters. Counters are in
``record``, comparisons in ``comparison``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tilewise.cuda.cases import Case
from tilewise.kernel.kernel import Kernel
from tilewise.kernel.launch import Launch
from tilewise.kernel.launches import LoggedKernel
from tilewise.kernel.saved_launches import decode, encode
from tilewise.measurements.key import digest

METHOD = 1
"""Raised whenever counting changes so that older counters no longer compare."""
RTOL, ATOL = 1e-5, 1e-6
"""How far outputs may be apart where a function is used whose last bits nobody promises, or floats are added
in an order that nobody promises."""
_INEXACT = frozenset(
    ("math_f32", "math_f64", "rsqrt_f32", "ex2_f32", "lg2_f32", "sin_f32", "cos_f32", "tanh_f32", "rcp_f32",
     "rsqrt_f64", "mma")
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Specimen:
    """A kernel with one launch."""

    name: str
    """What records and tables call it."""
    idea: str
    """The one thing it is there for, in a few words."""
    launch: Launch
    """Kernel, inputs and shape."""
    stated: tuple[float, float] | None = (0.0, 0.0)
    """The tolerance, where somebody states it; None leaves it to the instructions that the kernel uses."""

    @cached_property
    def tolerance(self) -> tuple[float, float]:
        """The relative and absolute tolerance of outputs; zeros require the same bits.

        If it is not stated, the kernel is compiled and decoded to find it.
        """
        if self.stated is not None:
            return self.stated
        return (RTOL, ATOL) if inexact(self.launch.kernel) else (0.0, 0.0)

    @property
    def exact(self) -> bool:
        """Whether the outputs must be equal bit for bit."""
        return not any(self.tolerance)

    @property
    def written(self) -> tuple[str, ...]:
        """The arrays that the kernel may write, in the order of its parameters."""
        return tuple(one.name for one in self.launch.kernel.parameters if one.is_pointer and not one.is_const)

    @cached_property
    def key(self) -> str:
        """A hash of everything that could change the counters: tokens, defines, options, inputs, shape."""
        return digest({"method": METHOD, "launch": self.launch.fingerprint()})

    def __str__(self) -> str:
        return self.name


def specimen(
    name: str, idea: str, kernel: Kernel, inputs: Case, rtol: float = 0.0, atol: float = 0.0
) -> Specimen:
    """A specimen from a kernel and a case that has grid and block."""
    return Specimen(name, idea, kernel.on(inputs), (rtol, atol))


def inexact(kernel: Kernel) -> bool:
    """Whether its bits may differ between implementations: functions, mma, atomic sums of floats."""
    from tilewise.simulator import compile_kernel
    from tilewise.simulator.engine.shared import numbers

    module = compile_kernel(kernel.preprocessed, options=kernel.options, origin=kernel.origin)
    code = module.kernels[kernel.name].program.code
    names = {number: name for name, number in numbers("OP").items()}
    used = {names[int(op)] for op in set(code["op"].tolist())}
    sums = code[(code["op"] == numbers("OP")["atom"]) & (code["sub"] == numbers("ATOMIC")["add"])]
    floats = {numbers("TYPE")[name] for name in ("f16", "bf16", "f32", "f64")}
    return bool(used & _INEXACT) or bool(floats & set(sums["type2"].tolist()))


def encode_specimen(one: Specimen) -> dict[str, Any]:
    """A specimen as JSON data, for another process or machine."""
    kernel = encode(LoggedKernel(one.launch.kernel, (one.launch,)))
    path = one.launch.kernel.origin[0]
    return {"name": one.name, "idea": one.idea, "path": path, "stated": one.stated, "kernel": kernel}


def decode_specimen(data: Mapping[str, Any]) -> Specimen:
    """The specimen that `encode_specimen` encoded as ``data``."""
    (launch,) = decode(data["kernel"], data["path"]).launches
    stated = data["stated"]
    return Specimen(data["name"], data["idea"], launch, None if stated is None else tuple(stated))
