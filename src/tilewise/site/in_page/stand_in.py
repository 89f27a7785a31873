"""A subset of NumPy for the page, where Pyodide has no NumPy: its types, and arrays as lists.

It is imported as ``numpy`` there. Programs are stored in these arrays and read back; there is no arithmetic
and nothing else of NumPy.
"""

# mypy: disable-error-code="no-untyped-def,no-untyped-call"

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterator, Sequence
from itertools import count
from types import SimpleNamespace
from typing import Any


class generic:  # noqa: N801 - NumPy's names
    """A scalar."""


class integer(generic):  # noqa: N801
    """An integer scalar."""


_KINDS = {
    "b": ("bool", (1,)),
    "i": ("int", (1, 2, 4, 8)),
    "u": ("uint", (1, 2, 4, 8)),
    "f": ("float", (2, 4, 8)),
}
_BASES: dict[str, tuple[type, ...]] = {"b": (generic,), "f": (generic, float)}
_TYPES: dict[str, tuple[str, int, type]] = {}
for _kind, (_stem, _sizes) in _KINDS.items():
    for _size in _sizes:
        _name = _stem if _kind == "b" else f"{_stem}{8 * _size}"
        _TYPES[_name] = (_kind, _size, type(_name, _BASES.get(_kind, (integer, int)), {}))
globals().update({"bool_" if name == "bool" else name: scalar for name, (_, _, scalar) in _TYPES.items()})
void = type("void", (generic,), {})
nan, inf = math.nan, math.inf


class dtype:  # noqa: N801
    """The type of an array's elements, or of its records."""

    def __class_getitem__(cls, _: Any) -> type[dtype]:
        return cls

    kind: str
    itemsize: int

    def __init__(self, spec: Any, *, align: bool = False) -> None:
        self.names: tuple[str, ...] | None = None
        self.fields: dict[str, tuple[dtype, int]] = {}
        self.length = 0
        if isinstance(spec, dtype):
            self.__dict__.update(spec.__dict__)
            return
        if isinstance(spec, list):
            self.fields = {name: (kind, kind.length) for name, kind in spec}
            self.names, self.kind, self.name, self.type = tuple(self.fields), "V", "void", void
            self.itemsize = sum(kind.itemsize * max(length, 1) for kind, length in self.fields.values())
            return
        if hasattr(spec, "_length_"):
            self.length, spec = spec._length_, spec._type_
        self.name = _name_of(spec)
        self.kind, self.itemsize, self.type = _TYPES[self.name]

    @property
    def str(self) -> str:
        """NumPy's string, such as ``<f4``."""
        return f"{'<' if self.itemsize > 1 else '|'}{self.kind}{self.itemsize}"

    def __eq__(self, other: object) -> bool:
        try:
            return self.str == dtype(other).str
        except (KeyError, AttributeError):
            return False

    def __hash__(self) -> int:
        return hash(self.str)

    def __str__(self):
        return self.name


def _name_of(spec: Any) -> str:
    """NumPy's name of a type of ctypes, Python or NumPy."""
    if isinstance(getattr(spec, "_type_", None), str):
        code, size = spec._type_, 8 if spec._type_ == "P" else ctypes.sizeof(spec)
        stem = "float" if code in "fd" else "bool" if code == "?" else "uint" if code in "BHILQP" else "int"
        return stem if stem == "bool" else f"{stem}{8 * size}"
    text = (spec if isinstance(spec, str) else spec.__name__).lstrip("<|=")
    short = {f"{kind}{size}": name for name, (kind, size, _) in _TYPES.items()}
    return {"float": "float64", "int": "int64", "bool_": "bool", **short}.get(text, text)


class ndarray:  # noqa: N801
    """An array of up to three axes."""

    _addresses = count(1 << 62, 1 << 20)

    def __class_getitem__(cls, _: Any) -> type[ndarray]:
        return cls

    def __init__(self, values: list[Any], shape: tuple[int, ...], kind: dtype) -> None:
        self.values, self.shape, self.ndim, self.dtype = values, shape, len(shape), kind
        self.ctypes = SimpleNamespace(data=next(self._addresses))

    def __len__(self) -> int:
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        return (self[at] for at in range(len(self)))

    def __getitem__(self, at: Any) -> Any:
        if self.ndim == 1:
            return self.values[at]
        rows, width = self.shape
        if not isinstance(at, tuple):
            return ndarray(self.values[at * width : (at + 1) * width], (width,), self.dtype)
        if at[1] is None:
            return ndarray(self.values, (rows, 1, width), self.dtype)
        selected = [self.values[row * width : (row + 1) * width][at[1]] for row in range(rows)]
        if isinstance(at[1], int):
            return ndarray(selected, (rows,), self.dtype)
        return ndarray([value for row in selected for value in row], (rows, len(selected[0])), self.dtype)

    def __setitem__(self, at: Any, value: Any) -> None:
        """Set one element, a whole array of one axis, or a whole column of two axes."""
        row, column = at if isinstance(at, tuple) else (at, 0)
        width = self.shape[1] if isinstance(at, tuple) else 1
        if isinstance(row, slice):
            self.values[column::width] = map(int, value)
        else:
            self.values[row * width + column] = int(value)

    def __eq__(self, other: object) -> Any:
        if isinstance(other, ndarray):  # its second of three axes has length 1
            rows, count, width = self.shape
            operands = [
                value
                for row in range(rows)
                for value in other.values[row * width : (row + 1) * width] * count
            ]
        else:
            operands = [other] * len(self.values)
        same = [value == operand for value, operand in zip(self.values, operands, strict=True)]
        return ndarray(same, self.shape, dtype("bool"))

    def __and__(self, other: int) -> ndarray:
        return ndarray([value & other for value in self.values], self.shape, self.dtype)

    __hash__ = None  # type: ignore[assignment]

    def any(self) -> bool:
        """Whether any element is not zero."""
        return any(self.values)

    def all(self) -> bool:
        """Whether no element is zero."""
        return all(self.values)

    def tolist(self) -> list[Any]:
        """Return nested lists."""
        return [element.tolist() if self.ndim > 1 else element for element in self]

    def copy(self) -> ndarray:
        """Return a copy."""
        return ndarray([*self.values], self.shape, self.dtype)

    def reshape(self, *shape: int) -> ndarray:
        """Return the same elements in another shape; -1 flattens."""
        return ndarray(self.values, (len(self.values),) if shape == (-1,) else shape, self.dtype)

    def view(self, kind: Any) -> ndarray:
        """View 64-bit words as 32-bit words."""
        words = [part for value in self.values for part in (value & 0xFFFFFFFF, value >> 32)]
        return ndarray(words, (len(words),), dtype(kind))


class _Records(ndarray):
    """A structured array, stored by column."""

    def __init__(self, columns: dict[str, ndarray], size: int, kind: dtype) -> None:
        super().__init__([], (size,), kind)
        self.columns = columns

    def __getitem__(self, name: Any) -> ndarray:
        return self.columns[name]

    def copy(self) -> _Records:
        return _Records({name: column.copy() for name, column in self.columns.items()}, len(self), self.dtype)


def zeros(shape: Any, kind: Any) -> ndarray:
    """Return an array of zeros."""
    sizes, record = (shape,) if isinstance(shape, int) else tuple(shape), dtype(kind)
    if record.names is None:
        return ndarray([0] * math.prod(sizes), sizes, record)
    [size] = sizes
    columns = {
        name: zeros((size, length) if length else size, field)
        for name, (field, length) in record.fields.items()
    }
    return _Records(columns, size, record)


def full(size: int, value: Any, kind: Any) -> ndarray:
    """Return an array filled with one value."""
    return ndarray([value] * size, (size,), dtype(kind))


def array(values: Sequence[Any], kind: Any) -> ndarray:
    """Return an array with the elements of a list."""
    return ndarray(list(values), (len(values),), dtype(kind))


def stack(rows: Sequence[ndarray]) -> ndarray:
    """Stack rows into a matrix."""
    return ndarray([value for row in rows for value in row], (len(rows), len(rows[0])), rows[0].dtype)


def isin(values: ndarray, wanted: Sequence[Any]) -> ndarray:
    """Return which values are in ``wanted``."""
    return ndarray([value in wanted for value in values], values.shape, dtype("bool"))


def iinfo(kind: Any) -> SimpleNamespace:
    """Return the range of an integer type."""
    integer_type = dtype(kind)
    bits = 8 * integer_type.itemsize - (integer_type.kind == "i")
    return SimpleNamespace(min=-(1 << bits) if integer_type.kind == "i" else 0, max=(1 << bits) - 1)
