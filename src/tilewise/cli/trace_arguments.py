"""Arguments of ``tilewise trace``: text from the command line becomes arrays and numbers for a kernel.

In: ``x=f32[1024]``, ``y=out:f32[32,32]``, ``z=f32[1030]+3``, ``n=1000``. Out: a ``Case``. Random arrays are
the same in every run.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewise.cuda.cases import Case, Recipe, constant, integers, normal, output
from tilewise.cuda.tensor_map import InnerPointer
from tilewise.errors import LessonError

if TYPE_CHECKING:
    from tilewise.cuda.kernel_source import Parameter
    from tilewise.kernel.kernel import Kernel

TYPES = {
    "f16": "float16", "f32": "float32", "f64": "float64", "bool": "bool",
    "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64",
    "u8": "uint8", "u16": "uint16", "u32": "uint32", "u64": "uint64",
}  # fmt: skip
"""Element types as arguments spell them, and as NumPy does."""

FILLS = ("random", "arange", "letters", "zeros", "ones", "out")
"""What an array holds at first, where it is no range such as ``0..16``; ``out`` is poisoned, so that elements
that nobody writes show."""

MOST_BYTES = 1 << 30

_ARRAY = re.compile(r"(?:(?P<fill>[a-z]+|\d+\.\.\d+)[:\s]\s*)?(?P<type>[a-z]+\d*)\[(?P<shape>[\d\s,x]*)\]")
_INNER = re.compile(r"(?P<array>.*\])\s*\+\s*(?P<first>\d+)")
"""A pointer to another element than the first: ``f32[1030]+3``."""
_HOW = "Write 5, 0.5, true, f32[1024], zeros:f32[32,32], out:i32[8], f32[1030]+3 or file.npy."


def named(file: str, texts: Sequence[str]) -> dict[str, str]:
    """Arguments of a command line by name.

    Raises:
        LessonError: one is no ``NAME=VALUE``, or a name is given twice.
    """
    given: dict[str, str] = {}
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not name:
            raise LessonError(file, 0, f'"{text}" is no argument.', "Write NAME=VALUE, as in x=f32[1024].")
        if name in given:
            raise LessonError(file, 0, f"{name} is given twice.", "Give each parameter once.")
        given[name] = value
    return given


def case_of(file: str, kernel: Kernel, given: Mapping[str, str]) -> Case:
    """Return the inputs that a command line gives a kernel; variables of its source are set.

    Raises:
        LessonError: an argument is missing, unknown, or cannot be read.
        KernelError: a variable's value does not fit it.
    """
    wanted = [parameter.name for parameter in kernel.parameters]
    kept = [name for name in given if name not in wanted and name in kernel.variables]
    if unknown := [name for name in given if name not in (*wanted, *kept)]:
        near = difflib.get_close_matches(unknown[0], [*wanted, *kernel.variables], 1)
        meant = f" Did you mean {near[0]}?" if near else ""
        takes = f"It takes {', '.join(wanted)}." if wanted else "It takes nothing."
        raise LessonError(file, 0, f"{kernel.name} has no parameter {unknown[0]}.", takes + meant)
    if missing := [parameter for parameter in kernel.parameters if parameter.name not in given]:
        example = "f32[1024]" if missing[0].is_pointer else "1000"
        raise LessonError(
            file,
            0,
            f"{kernel.name} takes {', '.join(wanted)}; there is no {missing[0].name}.",
            f"Add --arg {missing[0].name}={example}.",
        )
    held = Case(MappingProxyType({name: value_of(file, name, given[name]) for name in kept})).make()
    for name, made in held.items():
        kernel.variables.simulated[name] = made
    values: dict[str, Any] = {}
    for one in kernel.parameters:
        inner = _INNER.fullmatch(given[one.name]) if one.is_pointer else None
        argument = _by_value(one, value_of(file, one.name, inner["array"] if inner else given[one.name]))
        if inner:
            if int(inner["first"]) >= argument.size:
                repair = "Begin at an element that the array has."
                raise LessonError(file, 0, f"{one.name}: {inner[0]} begins behind its array.", repair)
            whole = f"array of {one.name}"
            values[whole], argument = argument, InnerPointer(whole, int(inner["first"]))
        values[one.name] = argument
    return Case(MappingProxyType(values))


def _by_value(one: Parameter, value: Any) -> Any:
    """An argument; for a structure or a vector that a kernel takes by value, the bytes of an array."""
    if one.is_pointer or (one.dtype is not None and one.width == 1):
        return value
    array = Case(MappingProxyType({one.name: value})).make()[one.name]
    if not isinstance(array, np.ndarray):
        return value
    return np.frombuffer(array.tobytes(), dtype=[("bytes", "u1", (array.nbytes,))])


def value_of(file: str, name: str, text: str) -> Recipe | np.ndarray[Any, Any] | int | float | None:
    """Return what one argument says: a number, how to make an array, or None for ``null``.

    Raises:
        LessonError: it is neither, or the array is of an unknown type, empty, or larger than a gigabyte.
    """
    if match := _ARRAY.fullmatch(text):
        return _array(file, name, match)
    if text.endswith(".npy"):
        return _loaded(file, name, text)
    if text.lower() in ("none", "null", "nullptr"):
        return None
    if text.lower() in ("true", "false"):
        return int(text.lower() == "true")
    for read in (lambda one: int(one, 0), float):
        try:
            return read(text)
        except ValueError:
            continue
    raise LessonError(file, 0, f'{name}: "{text}" is neither a number nor an array.', _HOW)


def _loaded(file: str, name: str, path: str) -> np.ndarray[Any, Any]:
    try:
        array = np.load(path, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise LessonError(
            file, 0, f"{name}: {path} cannot be read: {error}.", "Save it with numpy.save."
        ) from None
    if not isinstance(array, np.ndarray) or array.nbytes > MOST_BYTES or not array.size:
        raise LessonError(
            file, 0, f"{name}: {path} holds no array of up to a gigabyte.", "Save a smaller one."
        )
    return np.ascontiguousarray(array)


def _array(file: str, name: str, match: re.Match[str]) -> Recipe | np.ndarray[Any, Any]:
    kind, fill = match["type"], match["fill"] or "random"
    if kind not in TYPES:
        raise LessonError(file, 0, f'{name}: there is no type "{kind}".', f"Known: {', '.join(TYPES)}.")
    if fill not in FILLS and ".." not in fill:
        raise LessonError(
            file, 0, f'{name}: nothing fills an array by "{fill}".', f"Known: {', '.join(FILLS)}."
        )
    sizes = [part.strip() for part in re.split(r"[,x]", match["shape"])]
    if not all(size.isdigit() and int(size) for size in sizes):
        raise LessonError(
            file,
            0,
            f'{name}: "[{match["shape"]}]" is no shape.',
            "Write whole numbers from 1, as in f32[32,32].",
        )
    shape, dtype = tuple(int(size) for size in sizes), np.dtype(TYPES[kind])
    count = 1
    for size in shape:
        count *= size
    if count * dtype.itemsize > MOST_BYTES:
        raise LessonError(file, 0, f"{name}: {match[0]} is more than a gigabyte.", "Trace a smaller array.")
    low, is_range, high = fill.partition("..")
    if is_range:
        return integers(*shape, low=int(low), high=int(high), dtype=dtype)
    if fill == "out":
        return output(*shape, dtype=dtype)
    if fill == "arange":
        return np.arange(count).astype(dtype).reshape(shape)
    if fill in ("zeros", "ones"):
        return constant(*shape, value=float(fill == "ones"), dtype=dtype)
    if fill == "letters":
        return integers(*shape, low=ord("a"), high=ord("z") + 1, dtype=dtype)
    if dtype.kind == "f":
        return normal(*shape, dtype=dtype)
    return integers(*shape, low=0, high=2 if kind == "bool" else 100, dtype=dtype)
