"""Other packages in which kernels are written: Numba, Triton and PyTorch, made ready for this machine.

In: `from tilewise.frameworks import cuda` (that is `numba.cuda`), `torch`, `triton` or `tl`. Out: the
package's own module; without a GPU, Numba and Triton run kernels on their own simulators. Where a package is
missing an `Absent` stands in for it, so that a lesson runs to its end.
"""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any, ClassVar

from tilewise.gpu.device import gpu_here

NAMES = {
    "cupy": "CuPy",
    "gpu": "a GPU",
    "numba": "Numba",
    "nvrtc": "NVRTC",
    "torch": "PyTorch",
    "triton": "Triton",
}
"""Packages, and what a cell may need besides, as readers call them."""
NEEDS: dict[str, tuple[str, ...]] = {
    "cuda": ("numba",),
    "torch": ("torch",),
    "triton": ("torch", "triton"),
    "tl": ("torch", "triton"),
}
"""The names that can be imported from here, and the packages that each of them takes."""


class AbsentError(ImportError):
    """Something that is not installed would have to run."""


class Absent:
    """Stands in for a package that is not here: it lends names and decorates functions, and never runs.

    Args:
        packages: what is missing.
        why: why it cannot be used, a sentence, where it is installed.
    """

    packages: ClassVar[tuple[str, ...]] = ()
    why: ClassVar[str] = ""

    def __init__(self, packages: tuple[str, ...], why: str = "") -> None:
        self.__dict__.update(packages=packages, why=why)

    def __getattr__(self, name: str) -> Absent:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *given: Any, **named: Any) -> Absent:
        """Decorate a function, or make a decorator.

        Raises:
            AbsentError: it is called for a result.
        """
        if (len(given) == 1 and callable(given[0])) or (named and not given):
            return self
        raise AbsentError(str(self))

    def __getitem__(self, launch: Any) -> Absent:
        raise AbsentError(str(self))

    def __str__(self) -> str:
        return self.why or f"needs {listed(self.packages)}"


def stand_ins(source: str, missing: Sequence[str]) -> dict[str, Absent]:
    """What a tab that is left out would have handed to the cells below: its functions, which cannot run.

    Args:
        source: the cell's code.
        missing: the packages for want of which it is left out.
    """
    absent = Absent(tuple(missing))
    return {node.name: absent for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)}


def listed(packages: tuple[str, ...] | list[str]) -> str:
    """Packages by their names: `PyTorch and Triton`."""
    names = [NAMES.get(name, name) for name in packages]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def is_numba_kernel(value: Any) -> bool:
    """Whether a value is what `cuda.jit` makes, for a GPU or for Numba's simulator; imports nothing."""
    home = type(value).__module__
    return home.startswith(("numba.cuda", "numba_cuda")) and hasattr(value, "py_func")


@cache
def _loaded(name: str) -> Any:
    missing = tuple(package for package in NEEDS[name] if find_spec(package) is None)
    if missing:
        return Absent(missing)
    if name == "cuda":
        return _numba()
    if name == "torch":
        return import_module("torch")
    if not gpu_here():
        os.environ["TRITON_INTERPRET"] = "1"  # read whenever a function is decorated
    return import_module("triton" if name == "triton" else "triton.language")


def _numba() -> Any:
    """`numba.cuda`; without a GPU its simulator, which must be chosen before it is imported."""
    on_gpu = gpu_here()
    if not on_gpu:
        os.environ["NUMBA_ENABLE_CUDASIM"] = "1"
        if "numba.core.config" in sys.modules:  # Numba has read its environment already
            vars(sys.modules["numba.core.config"])["ENABLE_CUDASIM"] = 1
    cuda = import_module("numba.cuda")
    if not on_gpu:
        return cuda
    try:
        cuda.jit("void(int32[::1])")(_nothing)
    except Exception as error:  # of Numba, of its compiler or of the driver
        reason = str(error).strip().partition("\n")[0]
        return Absent(("numba",), f"Numba cannot compile for this GPU: {reason}")
    return cuda


def _nothing(array: Any) -> None:
    """A kernel to try the compiler on."""


def __getattr__(name: str) -> Any:
    """Import a package when its name is first asked for.

    Raises:
        AttributeError: no such name comes from here.
    """
    if name not in NEEDS:
        raise AttributeError(f"tilewise.frameworks has no name {name!r}; it has {', '.join(NEEDS)}")
    return _loaded(name)
