"""Cases: a kernel's inputs and launch shape, described without allocating anything.

In: shapes, dtypes, distributions, grid and block. Out: `Recipe` and `Case`, which make new arrays on demand
and a stable text for record keys.
"""

from __future__ import annotations

import hashlib
import operator
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, SupportsIndex, TypeAlias

import numpy as np
import numpy.typing as npt

from tilewise import bf16

Array: TypeAlias = npt.NDArray[Any]
Scalar: TypeAlias = "int | float | bool | np.generic | None"
"""A number, or None for a null pointer."""
Extent: TypeAlias = "SupportsIndex | tuple[SupportsIndex, ...] | list[SupportsIndex]"
Dim3: TypeAlias = tuple[int, int, int]

POISON_BYTE = 0xA5


@dataclass(frozen=True)
class Recipe:
    """How to make one array: nothing is allocated until `make`."""

    kind: str
    """`normal`, `uniform`, `integers`, `constant` or `output`."""
    shape: tuple[int, ...]
    """Extents, slowest axis first."""
    dtype: np.dtype[Any]
    """Element type of the array."""
    seed: int | None = None
    """Seed of NumPy's PCG64; None takes that of `make`."""
    params: tuple[tuple[str, int | float], ...] = ()
    """Further parameters of the kind, in a fixed order: scale, bounds, value."""
    element: str | None = None
    """`bfloat16` if `dtype` is uint16 and the elements are BF16 bits; else None."""

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def nbytes(self) -> int:
        """Size of the array in bytes."""
        return self.size * self.dtype.itemsize

    @property
    def is_output(self) -> bool:
        """Whether the array starts poisoned, to be written by the kernel."""
        return self.kind == "output"

    def make(self, seed: int = 0) -> Array:
        """Make the array: the same recipe and seed give the same bits everywhere.

        Args:
            seed: used if the recipe has none.
        """
        if self.element is not None:
            if self.kind == "output":
                return np.full(self.shape, bf16.NOT_A_NUMBER, dtype=self.dtype)
            array: Array = bf16.bits(replace(self, dtype=np.dtype(np.float32), element=None).make(seed))
            return array
        params = dict(self.params)
        if self.kind == "output":
            return poisoned(self.shape, self.dtype)
        if self.kind == "constant":
            return np.full(self.shape, params["value"], dtype=self.dtype)
        generator = np.random.Generator(np.random.PCG64(seed if self.seed is None else self.seed))
        if self.kind == "integers":
            return generator.integers(
                int(params["low"]), int(params["high"]), self.shape, dtype=np.int64
            ).astype(self.dtype)
        working = np.float64 if self.dtype == np.float64 else np.float32
        if self.kind == "normal":
            values = generator.standard_normal(self.shape, dtype=working)
            values *= working(params["scale"])
        else:
            values = generator.random(self.shape, dtype=working)
            values *= working(params["high"] - params["low"])
            values += working(params["low"])
        return values.astype(self.dtype, copy=False)

    def __str__(self) -> str:
        settings = [f"{name}={value!r}" for name, value in self.params]
        if self.seed is not None:
            settings.append(f"seed={self.seed}")
        element = self.element or self.dtype
        rest = "".join(f", {setting}" for setting in settings)
        return f"{self.kind}({shape_text(self.shape)} {element}{rest})"


@dataclass(frozen=True, eq=False)
class Case:
    """Named inputs and a launch shape; created by `case`."""

    values: Mapping[str, Recipe | Array | Scalar]
    """Recipes, read-only arrays and scalars by parameter name."""
    grid: Dim3 | None = None
    """Blocks in x, y, z; None if the launch sets it."""
    block: Dim3 | None = None
    """Threads per block in x, y, z; None if the launch sets it."""
    shared_bytes: int = 0
    """Dynamic shared memory per block."""

    def make(self) -> dict[str, Array | Scalar]:
        """Make every input anew: unshared arrays, poisoned outputs, scalars unchanged.

        An input without a seed takes one from its name, so two inputs of a case never have equal values.
        """
        inputs: dict[str, Array | Scalar] = {}
        for name, value in self.values.items():
            if isinstance(value, Recipe):
                inputs[name] = value.make(zlib.crc32(name.encode()))
            elif isinstance(value, np.ndarray):
                inputs[name] = value.copy()
            else:
                inputs[name] = value
        return inputs

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the arrays that start poisoned."""
        return tuple(
            name for name, value in self.values.items() if isinstance(value, Recipe) and value.is_output
        )

    def fingerprint(self) -> str:
        """Return a text that only equal cases share, on every machine: the data part of a record's key."""
        lines = [f"grid={self.grid} block={self.block} shared_bytes={self.shared_bytes}"]
        for name in sorted(self.values):
            value = self.values[name]
            if isinstance(value, Recipe):
                lines.append(
                    f"{name}={value.kind} {value.shape} {value.element or value.dtype.str} seed={value.seed} "
                    f"{[(key, repr(setting)) for key, setting in value.params]}"
                )
            elif isinstance(value, np.ndarray):
                digest = hashlib.sha256(value.tobytes()).hexdigest()
                lines.append(f"{name}=array {value.shape} {value.dtype.descr} {digest}")
            elif isinstance(value, np.generic):
                lines.append(f"{name}={value.dtype.str} {value.item()!r}")
            else:
                lines.append(f"{name}={type(value).__name__} {value!r}")
        return "\n".join(lines)

    def __str__(self) -> str:
        inputs = []
        for name, value in self.values.items():
            if isinstance(value, Recipe | np.ndarray):
                inputs.append(f"{name}: {shape_text(value.shape)} {value.dtype}")
            else:
                inputs.append(f"{name}={value}")
        return f"case({', '.join(inputs)})"


def case(
    grid: Extent | None = None, block: Extent | None = None, shared_bytes: int = 0, **values: Any
) -> Case:
    """Describe a kernel's inputs and launch shape.

    Args:
        grid: blocks, an int or up to three of them in x, y, z.
        block: threads per block, likewise.
        shared_bytes: dynamic shared memory per block.
        **values: a recipe (`normal(64, 32)`, `output(64)`, ...), a NumPy array or a number for each of the
            kernel's parameters, by name. A case may name more than a kernel needs.

    Raises:
        TypeError: a value is none of these.
        ValueError: grid or block is not one to three integers.
    """
    checked: dict[str, Recipe | Array | Scalar] = {}
    for name, value in values.items():
        if isinstance(value, np.ndarray):
            array = value.copy()
            array.flags.writeable = False
            checked[name] = array
        elif (
            value is None
            or isinstance(value, Recipe | np.generic | bool | int | float)
            or _maps_by_name(value)
        ):
            checked[name] = value
        else:
            raise TypeError(
                f'case: "{name}" is a {type(value).__name__}. '
                "Give a recipe such as normal(64, 32), a tensor_map of a named array, a NumPy array, "
                "a number, or None for a null pointer."
            )
    return Case(
        MappingProxyType(checked),
        None if grid is None else dim3(grid, "grid"),
        None if block is None else dim3(block, "block"),
        _whole(shared_bytes),
    )


def _maps_by_name(value: Any) -> bool:
    from tilewise.cuda.tensor_map import TensorMap

    return isinstance(value, TensorMap) and value.name is not None


def normal(
    *shape: int, dtype: npt.DTypeLike = "float32", seed: int | None = None, scale: float = 1.0
) -> Recipe:
    """Standard normal numbers times `scale`; for `dtype="bfloat16"` their bits as uint16."""
    params = (("scale", float(scale)),)
    return Recipe("normal", _shape(shape), _floating(dtype, "normal"), seed, params, _element(dtype))


def uniform(
    *shape: int,
    low: float = 0.0,
    high: float = 1.0,
    dtype: npt.DTypeLike = "float32",
    seed: int | None = None,
) -> Recipe:
    """Uniformly distributed numbers in [low, high)."""
    params = (("low", float(low)), ("high", float(high)))
    return Recipe("uniform", _shape(shape), _floating(dtype, "uniform"), seed, params, _element(dtype))


def integers(
    *shape: int, low: int, high: int, dtype: npt.DTypeLike = "int32", seed: int | None = None
) -> Recipe:
    """Uniformly distributed integers from `low` to `high - 1`."""
    if not low < high:
        raise ValueError(f"integers: low={low} must be less than high={high}, which is not drawn itself.")
    params = (("low", operator.index(low)), ("high", operator.index(high)))
    return Recipe("integers", _shape(shape), _storage_dtype(dtype), seed, params, _element(dtype))


def constant(*shape: int, value: float, dtype: npt.DTypeLike = "float32") -> Recipe:
    """An array with the same value in every element."""
    return Recipe(
        "constant", _shape(shape), _storage_dtype(dtype), None, (("value", value),), _element(dtype)
    )


def output(*shape: int, dtype: npt.DTypeLike = "float32") -> Recipe:
    """An array for the kernel to write, poisoned: NaN for floats, the byte 0xA5 otherwise."""
    return Recipe("output", _shape(shape), _storage_dtype(dtype), element=_element(dtype))


def ceil_div(a: int, b: int) -> int:
    """Divide, rounding up: the number of pieces of size `b` that cover `a`."""
    if b <= 0:
        raise ValueError(f"ceil_div: cannot divide {a} into pieces of {b}.")
    return -(-a // b)


def poisoned(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """Return an array filled with NaN, or with the byte 0xA5 if the dtype has no NaN."""
    if dtype.kind == "f":
        return np.full(shape, np.nan, dtype=dtype)
    raw = np.full(int(np.prod(shape, dtype=np.int64)) * dtype.itemsize, POISON_BYTE, dtype=np.uint8)
    return raw.view(dtype).reshape(shape)


def dim3(value: Extent, what: str) -> Dim3:
    """Return three extents from an int or a tuple of up to three; missing ones are 1. Limits are not checked.

    Raises:
        ValueError: it is neither; the message names `what`.
    """
    parts = tuple(value) if isinstance(value, tuple | list) else (value,)
    try:
        if not 1 <= len(parts) <= 3 or any(isinstance(extent, bool) for extent in parts):
            raise TypeError
        extents = [_whole(extent) for extent in parts]
    except TypeError:
        raise ValueError(
            f"{what} is {value!r}. Give a whole number or a tuple of one to three of them, in x, y, z."
        ) from None
    extents += [1] * (3 - len(extents))
    return (extents[0], extents[1], extents[2])


def shape_text(shape: tuple[int, ...]) -> str:
    """Return a shape as text: 64 x 32."""
    return " x ".join(map(str, shape)) if shape else "scalar"


def _whole(extent: SupportsIndex) -> int:
    """An extent as an int; subclasses, such as `try_it`'s sizes, are unchanged."""
    return extent if isinstance(extent, int) and not isinstance(extent, bool) else operator.index(extent)


def _shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    extents = tuple(_whole(extent) for extent in shape)
    if any(extent < 0 for extent in extents):
        raise ValueError(f"shape {extents} has a negative extent.")
    return extents


def _element(dtype: npt.DTypeLike) -> str | None:
    return bf16.NAME if isinstance(dtype, str) and dtype == bf16.NAME else None


def _storage_dtype(dtype: npt.DTypeLike) -> np.dtype[Any]:
    """The dtype of arrays with such elements."""
    return np.dtype(np.uint16 if _element(dtype) else dtype)


def _floating(dtype: npt.DTypeLike, kind: str) -> np.dtype[Any]:
    checked = _storage_dtype(dtype)
    if _element(dtype):
        return checked
    if checked.kind != "f":
        raise ValueError(f"{kind}: {checked} is not a floating type. Use integers(...) for whole numbers.")
    return checked
