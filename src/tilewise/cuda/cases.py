"""Cases: which inputs a kernel gets and how it is launched, said without allocating anything.

In: shapes, dtypes, distributions, grid and block. Out: `Recipe` and `Case`, which make fresh arrays when
asked and a stable text for record keys.
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
    """Element type of the array that is made."""
    seed: int | None = None
    """Seed of NumPy's PCG64; None takes the one that `make` is given."""
    params: tuple[tuple[str, int | float], ...] = ()
    """What the kind needs besides, in a fixed order: scale, bounds, value."""
    element: str | None = None
    """`bfloat16` where `dtype` is uint16 and the array holds the bits of such numbers; else None."""

    @property
    def size(self) -> int:
        """Number of elements."""
        return int(np.prod(self.shape, dtype=np.int64))

    @property
    def nbytes(self) -> int:
        """Bytes that the array takes when made."""
        return self.size * self.dtype.itemsize

    @property
    def is_output(self) -> bool:
        """Whether the array starts poisoned, to be written by the kernel."""
        return self.kind == "output"

    def make(self, seed: int = 0) -> Array:
        """Make the array: the same recipe and seed give the same bits everywhere.

        Args:
            seed: used where the recipe itself has none.
        """
        if self.element is not None:
            if self.kind == "output":
                return np.full(self.shape, bf16.NOT_A_NUMBER, dtype=self.dtype)
            made: Array = bf16.bits(replace(self, dtype=np.dtype(np.float32), element=None).make(seed))
            return made
        given = dict(self.params)
        if self.kind == "output":
            return poisoned(self.shape, self.dtype)
        if self.kind == "constant":
            return np.full(self.shape, given["value"], dtype=self.dtype)
        generator = np.random.Generator(np.random.PCG64(seed if self.seed is None else self.seed))
        if self.kind == "integers":
            return generator.integers(
                int(given["low"]), int(given["high"]), self.shape, dtype=np.int64
            ).astype(self.dtype)
        working = np.float64 if self.dtype == np.float64 else np.float32
        if self.kind == "normal":
            drawn = generator.standard_normal(self.shape, dtype=working)
            drawn *= working(given["scale"])
        else:
            drawn = generator.random(self.shape, dtype=working)
            drawn *= working(given["high"] - given["low"])
            drawn += working(given["low"])
        return drawn.astype(self.dtype, copy=False)

    def __str__(self) -> str:
        settings = [f"{name}={value!r}" for name, value in self.params]
        if self.seed is not None:
            settings.append(f"seed={self.seed}")
        element = self.element or self.dtype
        return f"{self.kind}({shape_text(self.shape)} {element}{''.join(', ' + one for one in settings)})"


@dataclass(frozen=True, eq=False)
class Case:
    """Named inputs and a launch shape; made by `case`."""

    values: Mapping[str, Recipe | Array | Scalar]
    """Recipes, read-only arrays and scalars by the kernel's parameter names."""
    grid: Dim3 | None = None
    """Blocks in x, y, z, or None where the launch gives it."""
    block: Dim3 | None = None
    """Threads a block in x, y, z, or None where the launch gives it."""
    shared_bytes: int = 0
    """Dynamic shared memory a block."""

    def make(self) -> dict[str, Array | Scalar]:
        """Make every input afresh: arrays nobody else holds, outputs poisoned, scalars as given.

        An input without a seed takes one from its own name, so two inputs of a case never hold equal numbers.
        """
        made: dict[str, Array | Scalar] = {}
        for name, value in self.values.items():
            if isinstance(value, Recipe):
                made[name] = value.make(zlib.crc32(name.encode()))
            elif isinstance(value, np.ndarray):
                made[name] = value.copy()
            else:
                made[name] = value
        return made

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the arrays that start poisoned."""
        return tuple(
            name for name, value in self.values.items() if isinstance(value, Recipe) and value.is_output
        )

    def fingerprint(self) -> str:
        """Text that only equal cases share, on every machine: the part of a record's key that is data."""
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
    """Say what a kernel gets and how it is launched.

    Args:
        grid: blocks, an int or up to three of them in x, y, z.
        block: threads a block, likewise.
        shared_bytes: dynamic shared memory a block.
        **values: a recipe (`normal(64, 32)`, `output(64)`, ...), a NumPy array or a number for each of the
            kernel's parameters, by name. A case may name more than one kernel needs.

    Raises:
        TypeError: a value is none of these.
        ValueError: grid or block is not one to three whole numbers.
    """
    checked: dict[str, Recipe | Array | Scalar] = {}
    for name, value in values.items():
        if isinstance(value, np.ndarray):
            kept = value.copy()
            kept.flags.writeable = False
            checked[name] = kept
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
    """Standard normal numbers times `scale`; of `dtype="bfloat16"` the bits, as uint16."""
    params = (("scale", float(scale)),)
    return Recipe("normal", _shape(shape), _floating(dtype, "normal"), seed, params, _element(dtype))


def uniform(
    *shape: int,
    low: float = 0.0,
    high: float = 1.0,
    dtype: npt.DTypeLike = "float32",
    seed: int | None = None,
) -> Recipe:
    """Numbers spread evenly over [low, high)."""
    params = (("low", float(low)), ("high", float(high)))
    return Recipe("uniform", _shape(shape), _floating(dtype, "uniform"), seed, params, _element(dtype))


def integers(
    *shape: int, low: int, high: int, dtype: npt.DTypeLike = "int32", seed: int | None = None
) -> Recipe:
    """Whole numbers from `low` to `high - 1`, all equally likely."""
    if not low < high:
        raise ValueError(f"integers: low={low} must be less than high={high}, which is not drawn itself.")
    params = (("low", operator.index(low)), ("high", operator.index(high)))
    return Recipe("integers", _shape(shape), _held(dtype), seed, params, _element(dtype))


def constant(*shape: int, value: float, dtype: npt.DTypeLike = "float32") -> Recipe:
    """The same number everywhere."""
    return Recipe("constant", _shape(shape), _held(dtype), None, (("value", value),), _element(dtype))


def output(*shape: int, dtype: npt.DTypeLike = "float32") -> Recipe:
    """An array for the kernel to write, poisoned: NaN for floats, the byte 0xA5 otherwise."""
    return Recipe("output", _shape(shape), _held(dtype), element=_element(dtype))


def ceil_div(a: int, b: int) -> int:
    """Divide rounding up: how many pieces of size `b` cover `a`."""
    if b <= 0:
        raise ValueError(f"ceil_div: cannot divide {a} into pieces of {b}.")
    return -(-a // b)


def poisoned(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """An array whose every element is NaN, or whose every byte is 0xA5 where the dtype has no NaN."""
    if dtype.kind == "f":
        return np.full(shape, np.nan, dtype=dtype)
    raw = np.full(int(np.prod(shape, dtype=np.int64)) * dtype.itemsize, POISON_BYTE, dtype=np.uint8)
    return raw.view(dtype).reshape(shape)


def dim3(value: Extent, what: str) -> Dim3:
    """Three extents from an int or a tuple of up to three; missing ones are 1. Limits are not checked.

    Raises:
        ValueError: it is neither; the message names `what`.
    """
    given = tuple(value) if isinstance(value, tuple | list) else (value,)
    try:
        if not 1 <= len(given) <= 3 or any(isinstance(one, bool) for one in given):
            raise TypeError
        extents = [_whole(one) for one in given]
    except TypeError:
        raise ValueError(
            f"{what} is {value!r}. Give a whole number or a tuple of one to three of them, in x, y, z."
        ) from None
    extents += [1] * (3 - len(extents))
    return (extents[0], extents[1], extents[2])


def shape_text(shape: tuple[int, ...]) -> str:
    """A shape as readers write it: 64 x 32."""
    return " x ".join(map(str, shape)) if shape else "scalar"


def _whole(extent: SupportsIndex) -> int:
    """The whole number; what is more than one, such as a size that a page may change, stays as it is."""
    return extent if isinstance(extent, int) and not isinstance(extent, bool) else operator.index(extent)


def _shape(shape: tuple[int, ...]) -> tuple[int, ...]:
    extents = tuple(_whole(extent) for extent in shape)
    if any(extent < 0 for extent in extents):
        raise ValueError(f"shape {extents} has a negative extent.")
    return extents


def _element(dtype: npt.DTypeLike) -> str | None:
    return bf16.NAME if isinstance(dtype, str) and dtype == bf16.NAME else None


def _held(dtype: npt.DTypeLike) -> np.dtype[Any]:
    """The type of the array that holds such elements."""
    return np.dtype(np.uint16 if _element(dtype) else dtype)


def _floating(dtype: npt.DTypeLike, kind: str) -> np.dtype[Any]:
    checked = _held(dtype)
    if _element(dtype):
        return checked
    if checked.kind != "f":
        raise ValueError(f"{kind}: {checked} is not a floating type. Use integers(...) for whole numbers.")
    return checked
