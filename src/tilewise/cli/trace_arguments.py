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
"""Initial contents of arrays, besides ranges such as ``0..16``; ``out`` is poisoned, which reveals elements
that are never written."""

MOST_BYTES = 1 << 30

_ARRAY = re.compile(r"(?:(?P<fill>[a-z]+|\d+\.\.\d+)[:\s]\s*)?(?P<type>[a-z]+\d*)\[(?P<shape>[\d\s,x]*)\]")
_INNER = re.compile(r"(?P<array>.*\])\s*\+\s*(?P<first>\d+)")
"""A pointer that is not to the first element: ``f32[1030]+3``."""
_HOW = "Write 5, 0.5, true, f32[1024], zeros:f32[32,32], out:i32[8], f32[1030]+3 or file.npy."


def named(file: str, texts: Sequence[str]) -> dict[str, str]:
    """Command-line arguments by name.

    Raises:
        LessonError: one is not ``NAME=VALUE``, or a name is given twice.
    """
    arguments: dict[str, str] = {}
    for text in texts:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not equals or not name:
            raise LessonError(
                file, 0, f'"{text}" is not an argument.', "Write NAME=VALUE, as in x=f32[1024]."
            )
        if name in arguments:
            raise LessonError(file, 0, f"{name} is given twice.", "Give each parameter once.")
        arguments[name] = value
    return arguments


def case_of(file: str, kernel: Kernel, arguments: Mapping[str, str]) -> Case:
    """Return a kernel's inputs from the command line; variables of its source are set.

    Raises:
        LessonError: an argument is missing, unknown, or cannot be read.
        KernelError: a variable's value does not fit it.
    """
    wanted = [parameter.name for parameter in kernel.parameters]
    variables = [name for name in arguments if name not in wanted and name in kernel.variables]
    if unknown := [name for name in arguments if name not in (*wanted, *variables)]:
        near = difflib.get_close_matches(unknown[0], [*wanted, *kernel.variables], 1)
        meant = f" Did you mean {near[0]}?" if near else ""
        takes = f"It takes {', '.join(wanted)}." if wanted else "It takes nothing."
        raise LessonError(file, 0, f"{kernel.name} has no parameter {unknown[0]}.", takes + meant)
    if missing := [parameter for parameter in kernel.parameters if parameter.name not in arguments]:
        example = "f32[1024]" if missing[0].is_pointer else "1000"
        raise LessonError(
            file,
            0,
            f"{kernel.name} takes {', '.join(wanted)}; there is no {missing[0].name}.",
            f"Add --arg {missing[0].name}={example}.",
        )
    contents = Case(
        MappingProxyType({name: value_of(file, name, arguments[name]) for name in variables})
    ).make()
    for name, array in contents.items():
        kernel.variables.simulated[name] = array
    values: dict[str, Any] = {}
    for parameter in kernel.parameters:
        inner = _INNER.fullmatch(arguments[parameter.name]) if parameter.is_pointer else None
        argument = _by_value(
            parameter, value_of(file, parameter.name, inner["array"] if inner else arguments[parameter.name])
        )
        if inner:
            if int(inner["first"]) >= argument.size:
                repair = "Begin at an element that the array has."
                raise LessonError(file, 0, f"{parameter.name}: {inner[0]} begins behind its array.", repair)
            whole = f"array of {parameter.name}"
            values[whole], argument = argument, InnerPointer(whole, int(inner["first"]))
        values[parameter.name] = argument
    return Case(MappingProxyType(values))


def _by_value(parameter: Parameter, value: Any) -> Any:
    """An argument; for a struct or a vector by value, the bytes of an array."""
    if parameter.is_pointer or (parameter.dtype is not None and parameter.width == 1):
        return value
    array = Case(MappingProxyType({parameter.name: value})).make()[parameter.name]
    if not isinstance(array, np.ndarray):
        return value
    return np.frombuffer(array.tobytes(), dtype=[("bytes", "u1", (array.nbytes,))])


def value_of(file: str, name: str, text: str) -> Recipe | np.ndarray[Any, Any] | int | float | None:
    """Parse an argument: a number, a recipe for an array, or None for ``null``.

    Raises:
        LessonError: it is neither, or the array has an unknown type, is empty, or larger than a gigabyte.
    """
    if match := _ARRAY.fullmatch(text):
        return _array(file, name, match)
    if text.endswith(".npy"):
        return _loaded(file, name, text)
    if text.lower() in ("none", "null", "nullptr"):
        return None
    if text.lower() in ("true", "false"):
        return int(text.lower() == "true")
    for read in (lambda number: int(number, 0), float):
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
            f'{name}: "[{match["shape"]}]" is not a shape.',
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
