"""Other packages for writing kernels: Numba, Triton and PyTorch, configured for this machine.

In: `from tilewise.frameworks import cuda` (that is `numba.cuda`), `torch`, `triton` or `tl`. Out: the
package's own module; without a GPU, Numba and Triton run kernels on their own simulators. A missing package
is replaced by an `Absent`, so that the rest of the lesson runs.
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
"""Packages, and other needs of a cell, as readers call them."""
NEEDS: dict[str, tuple[str, ...]] = {
    "cuda": ("numba",),
    "torch": ("torch",),
    "triton": ("torch", "triton"),
    "tl": ("torch", "triton"),
}
"""The names that can be imported from here, and the packages that each needs."""


class AbsentError(ImportError):
    """Something that is not installed was called."""


class Absent:
    """A placeholder for a missing package: it has attributes and decorates functions, but never runs.

    Args:
        packages: what is missing.
        why: why an installed package cannot be used, a sentence.
    """

    packages: ClassVar[tuple[str, ...]] = ()
    why: ClassVar[str] = ""

    def __init__(self, packages: tuple[str, ...], why: str = "") -> None:
        self.__dict__.update(packages=packages, why=why)

    def __getattr__(self, name: str) -> Absent:
        if name.startswith("__"):
            raise AttributeError(name)
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> Absent:
        """Decorate a function, or return a decorator.

        Raises:
            AbsentError: it is called for a result.
        """
        if (len(args) == 1 and callable(args[0])) or (kwargs and not args):
            return self
        raise AbsentError(str(self))

    def __getitem__(self, launch: Any) -> Absent:
        raise AbsentError(str(self))

    def __str__(self) -> str:
        return self.why or f"needs {listed(self.packages)}"


def stand_ins(source: str, missing: Sequence[str]) -> dict[str, Absent]:
    """Placeholders for the functions of a tab that is omitted, for the cells below.

    Args:
        source: the cell's code.
        missing: the missing packages.
    """
    absent = Absent(tuple(missing))
    return {node.name: absent for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)}


def listed(packages: tuple[str, ...] | list[str]) -> str:
    """A list of package names: `PyTorch and Triton`."""
    names = [NAMES.get(name, name) for name in packages]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def is_numba_kernel(value: Any) -> bool:
    """Whether a value is a `cuda.jit` kernel, for a GPU or for Numba's simulator; imports nothing."""
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
        os.environ["TRITON_INTERPRET"] = "1"  # read when a function is decorated
    return import_module("triton" if name == "triton" else "triton.language")


def _numba() -> Any:
    """`numba.cuda`; without a GPU, its simulator, which must be selected before the import."""
    on_gpu = gpu_here()
    if not on_gpu:
        os.environ["NUMBA_ENABLE_CUDASIM"] = "1"
        if "numba.core.config" in sys.modules:  # Numba has already read its environment
            vars(sys.modules["numba.core.config"])["ENABLE_CUDASIM"] = 1
    cuda = import_module("numba.cuda")
    if not on_gpu:
        return cuda
    try:
        cuda.jit("void(int32[::1])")(_empty_kernel)
    except Exception as error:  # from Numba, its compiler or the driver
        reason = str(error).strip().partition("\n")[0]
        return Absent(("numba",), f"Numba cannot compile for this GPU: {reason}")
    return cuda


def _empty_kernel(array: Any) -> None:
    """A kernel to test the compiler."""


def __getattr__(name: str) -> Any:
    """Import a package on first use of its name.

    Raises:
        AttributeError: there is no such name.
    """
    if name not in NEEDS:
        raise AttributeError(f"tilewise.frameworks has no name {name!r}; it has {', '.join(NEEDS)}")
    return _loaded(name)
