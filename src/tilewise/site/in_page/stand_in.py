"""What compiling takes of NumPy, for the page, where Pyodide has no NumPy: its types, and arrays as lists.

There it goes by the name ``numpy``. Programs are put down in these arrays and read from them again; nothing
is computed with them, and nothing else of NumPy is here.
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
    """A whole one."""


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
globals().update({"bool_" if name == "bool" else name: made for name, (_, _, made) in _TYPES.items()})
void = type("void", (generic,), {})
nan, inf = math.nan, math.inf


class dtype:  # noqa: N801
    """The type of an array's elements, or of its records."""

    def __class_getitem__(cls, _: Any) -> type[dtype]:
        return cls

    kind: str
    itemsize: int

    def __init__(self, given: Any, *, align: bool = False) -> None:
        self.names: tuple[str, ...] | None = None
        self.fields: dict[str, tuple[dtype, int]] = {}
        self.length = 0
        if isinstance(given, dtype):
            self.__dict__.update(given.__dict__)
            return
        if isinstance(given, list):
            self.fields = {name: (kind, kind.length) for name, kind in given}
            self.names, self.kind, self.name, self.type = tuple(self.fields), "V", "void", void
            self.itemsize = sum(kind.itemsize * max(length, 1) for kind, length in self.fields.values())
            return
        if hasattr(given, "_length_"):
            self.length, given = given._length_, given._type_
        self.name = _name_of(given)
        self.kind, self.itemsize, self.type = _TYPES[self.name]

    @property
    def str(self) -> str:
        """As NumPy writes it, such as ``<f4``."""
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


def _name_of(given: Any) -> str:
    """What NumPy calls a type that is given as ctypes, Python or NumPy has it."""
    if isinstance(getattr(given, "_type_", None), str):
        code, size = given._type_, 8 if given._type_ == "P" else ctypes.sizeof(given)
        stem = "float" if code in "fd" else "bool" if code == "?" else "uint" if code in "BHILQP" else "int"
        return stem if stem == "bool" else f"{stem}{8 * size}"
    text = (given if isinstance(given, str) else given.__name__).lstrip("<|=")
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
        kept = [self.values[row * width : (row + 1) * width][at[1]] for row in range(rows)]
        if isinstance(at[1], int):
            return ndarray(kept, (rows,), self.dtype)
        return ndarray([one for row in kept for one in row], (rows, len(kept[0])), self.dtype)

    def __setitem__(self, at: Any, value: Any) -> None:
        """Set one element, a whole array of one axis, or a whole column of two axes."""
        row, column = at if isinstance(at, tuple) else (at, 0)
        width = self.shape[1] if isinstance(at, tuple) else 1
        if isinstance(row, slice):
            self.values[column::width] = map(int, value)
        else:
            self.values[row * width + column] = int(value)

    def __eq__(self, other: object) -> Any:
        if isinstance(other, ndarray):  # whose second axis of three is 1
            rows, count, width = self.shape
            others = [
                one for row in range(rows) for one in other.values[row * width : (row + 1) * width] * count
            ]
        else:
            others = [other] * len(self.values)
        same = [one == another for one, another in zip(self.values, others, strict=True)]
        return ndarray(same, self.shape, dtype("bool"))

    def __and__(self, other: int) -> ndarray:
        return ndarray([value & other for value in self.values], self.shape, self.dtype)

    __hash__ = None  # type: ignore[assignment]

    def any(self) -> bool:
        """Whether one is not zero."""
        return any(self.values)

    def all(self) -> bool:
        """Whether none is zero."""
        return all(self.values)

    def tolist(self) -> list[Any]:
        """As lists."""
        return [one.tolist() if self.ndim > 1 else one for one in self]

    def copy(self) -> ndarray:
        """Another with the same elements."""
        return ndarray([*self.values], self.shape, self.dtype)

    def reshape(self, *shape: int) -> ndarray:
        """The same elements in other axes; -1 for one axis."""
        return ndarray(self.values, (len(self.values),) if shape == (-1,) else shape, self.dtype)

    def view(self, kind: Any) -> ndarray:
        """Words of 64 bits as words of 32."""
        words = [part for value in self.values for part in (value & 0xFFFFFFFF, value >> 32)]
        return ndarray(words, (len(words),), dtype(kind))


class _Records(ndarray):
    """An array of records, by columns."""

    def __init__(self, columns: dict[str, ndarray], size: int, kind: dtype) -> None:
        super().__init__([], (size,), kind)
        self.columns = columns

    def __getitem__(self, name: Any) -> ndarray:
        return self.columns[name]

    def copy(self) -> _Records:
        return _Records({name: one.copy() for name, one in self.columns.items()}, len(self), self.dtype)


def zeros(shape: Any, kind: Any) -> ndarray:
    """An array of zeros."""
    sizes, held = (shape,) if isinstance(shape, int) else tuple(shape), dtype(kind)
    if held.names is None:
        return ndarray([0] * math.prod(sizes), sizes, held)
    [size] = sizes
    columns = {
        name: zeros((size, length) if length else size, one) for name, (one, length) in held.fields.items()
    }
    return _Records(columns, size, held)


def full(size: int, value: Any, kind: Any) -> ndarray:
    """An array of one value."""
    return ndarray([value] * size, (size,), dtype(kind))


def array(values: Sequence[Any], kind: Any) -> ndarray:
    """A list as an array."""
    return ndarray(list(values), (len(values),), dtype(kind))


def stack(rows: Sequence[ndarray]) -> ndarray:
    """Rows under each other."""
    return ndarray([value for row in rows for value in row], (len(rows), len(rows[0])), rows[0].dtype)


def isin(values: ndarray, wanted: Sequence[Any]) -> ndarray:
    """Which values are wanted."""
    return ndarray([value in wanted for value in values], values.shape, dtype("bool"))


def iinfo(kind: Any) -> SimpleNamespace:
    """What a whole type holds."""
    one = dtype(kind)
    bits = 8 * one.itemsize - (one.kind == "i")
    return SimpleNamespace(min=-(1 << bits) if one.kind == "i" else 0, max=(1 << bits) - 1)
