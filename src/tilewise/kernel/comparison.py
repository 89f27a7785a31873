"""Comparing results: arrays with a reference, a kernel with its pseudocode or another front end's kernel.

In: arrays, or a pseudocode function, a kernel and cases. Out: nothing if all is equal within the tolerance,
else a one-line error with the index and both values. `kernel` and `front_ends` run; the sink shows.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tilewise import bf16
from tilewise.cuda.arguments import is_device_array
from tilewise.cuda.cases import Array, Case, Recipe, shape_text
from tilewise.cuda.difference import difference, index_text, tolerance_text
from tilewise.cuda.tensor_map import TensorMap
from tilewise.errors import LessonError
from tilewise.gpu.cupy_backend import to_host
from tilewise.kernel.backend import backend
from tilewise.kernel.front_ends import (
    PSEUDOCODE,
    check_front_end,
    function_of,
    label,
    lacking,
    place_run,
    runner,
)
from tilewise.kernel.kernel import Kernel
from tilewise.kernel.launches import does_not_divide, without_logging
from tilewise.kernel.pseudocode import shuffle_seed
from tilewise.kernel.pseudocode_source import check_no_flat_index, place_of

Pseudocode = Callable[..., Any]


class CheckError(AssertionError):
    """Results differ by more than the tolerance."""


def check(actual: Any, expected: Any, rtol: float = 0.0, atol: float = 0.0, name: str | None = None) -> None:
    """Compare a result with its reference and show that they are equal.

    Args:
        actual: the result, an array or a number.
        expected: the reference, of the same shape.
        rtol: allowed difference relative to the reference's value; 0 requires equality.
        atol: additional allowed difference.
        name: its name on the page.

    Raises:
        CheckError: shapes differ, or an element is outside rtol * |expected| + atol. NaN equals only NaN.
    """
    label = name or "result"
    left, right = _host(actual), _host(expected)
    if left.shape != right.shape:
        raise CheckError(
            f"{label} has shape {left.shape} and its reference {right.shape}. Compare arrays of one shape."
        )
    result = difference(left, right, rtol, atol)
    if result.wrong:
        raise CheckError(
            f"{label}: {result.wrong} of {result.count} values are off by more than "
            f"{tolerance_text(rtol, atol)}. Largest error {result.largest_error:.6g} at "
            f"{index_text(result.index)}: {result.actual}, expected {result.expected}."
        )
    from tilewise.outputs import CheckOutput, sink

    sink().add(CheckOutput(label, result.count, result.largest_error, float(rtol), float(atol)))


def agree(
    function: Any,
    kernel: Kernel,
    cases: Sequence[Case],
    rtol: float = 0.0,
    atol: float = 0.0,
    by: str = PSEUDOCODE,
) -> None:
    """Run pseudocode, or another front end's version of a kernel, and the kernel, and show that they agree.

    Both take their arguments from a case by their own parameter names; arrays keep their shape, and the
    pseudocode gets arrays of BF16 bits as float32. Both get fresh copies with poisoned outputs. Every array
    that the kernel may write is compared. If a package is not installed, the page says so instead.

    Args:
        function: a function that writes into its arrays and returns nothing, or a Numba kernel.
        kernel: the kernel in CUDA C.
        cases: at least two of them must not divide, as `does_not_divide` defines it, and differ in size.
        rtol: allowed difference relative to the function's value.
        atol: additional allowed difference.
        by: the function's front end: `Pseudocode`; `Numba`, launched with the case's grid and block; `Triton`
            or `PyTorch`, a function that takes torch tensors.

    Raises:
        CheckError: they differ; the message names case, array, index and both values.
        LessonError: the cases all divide, the pseudocode flattens an index, does not take an array that the
            kernel writes, or leaves one unchanged in every case.
    """
    from tilewise.outputs import AgreeOutput, LackOutput, sink

    cases = tuple(cases)
    if missing := lacking(by, function):
        sink().add(LackOutput(by, kernel.name, missing))
        return
    check_front_end(by, function, kernel)
    _check_pair(function, kernel, cases, by)
    with contextlib.nullcontext() if by == PSEUDOCODE else without_logging():
        largest = _compare(function, kernel, cases, rtol, atol, by)
    sink().add(
        AgreeOutput(
            function_of(function).__name__,
            kernel.name,
            tuple(_sizes(kernel, case) for case in cases),
            written_names(kernel, cases[0]),
            largest,
            float(rtol),
            float(atol),
            backend() if by == PSEUDOCODE else place_run(by, function),
            by,
        )
    )


def _check_pair(function: Any, kernel: Kernel, cases: Sequence[Case], by: str) -> None:
    """Check that the pair can be compared, before anything runs.

    Raises:
        LessonError: see `agree`.
    """
    function = function_of(function)
    path, line = place_of(function)
    title = f'agree({function.__name__}, kernel "{kernel.name}")'
    if by == PSEUDOCODE:
        check_no_flat_index(function)
    parameters = inspect.signature(function).parameters
    launches = [kernel.on(case) for case in cases]  # raises if a case lacks a parameter
    for name in written_names(kernel, cases[0]) if cases else ():
        if name not in parameters:
            raise LessonError(
                path,
                line,
                f'{title}: {label(by, alone=True)} does not take "{name}", which the kernel writes.',
                f"Add the parameter {name} and write it.",
            )
    ragged = {_sizes(kernel, launch.case) for launch in launches if does_not_divide(launch)}
    if len(ragged) < 2:
        raise LessonError(
            path,
            line,
            f"{title}: {len(ragged)} of the cases have a size of their own that the block does not divide; "
            "two are needed, since mistakes at the edge show at such sizes only.",
            "Add cases with other sizes, such as primes.",
        )


def _compare(
    function: Any, kernel: Kernel, cases: Sequence[Case], rtol: float, atol: float, by: str
) -> float:
    """The largest absolute difference between the outputs of a function and the kernel in all cases."""
    title = function_of(function).__name__
    path, line = place_of(function_of(function))
    run = _run_pseudocode if by == PSEUDOCODE else runner(by)
    names = written_names(kernel, cases[0])
    unwritten = set(names)
    largest = 0.0
    for number, case in enumerate(cases, start=1):
        result = kernel.on(case).run()
        values = run(function, kernel, case, number)
        before = case.make()
        coded = bf16.names(case.values)
        for name in names:
            if not _equal_bytes(values[name], before[name]):
                unwritten.discard(name)
            pair = (result[name], values[name])
            actual, expected = map(bf16.values, pair) if name in coded else pair
            comparison = difference(actual, expected, rtol, atol)
            if comparison.wrong:
                raise CheckError(
                    f'{label(by)} {title} and kernel "{kernel.name}" differ '
                    f"in case {number} ({_sizes(kernel, case)}): {name}{index_text(comparison.index)} is "
                    f"{comparison.expected} by {label(by, alone=True)} and {comparison.actual} "
                    f"by the kernel; {comparison.wrong} of {comparison.count} values are off by more than "
                    f"{tolerance_text(rtol, atol)}."
                )
            largest = max(largest, comparison.largest_error)
    if unwritten:
        raise LessonError(
            path,
            line,
            f'{label(by)} {title} and kernel "{kernel.name}" leave '
            f"{', '.join(sorted(unwritten))} as it was in every case, so nothing was compared.",
            "Choose cases in which it is written, or declare it const.",
        )
    return largest


def _run_pseudocode(pseudocode: Pseudocode, kernel: Kernel, case: Case, seed: int) -> dict[str, Any]:
    """Run the pseudocode on fresh copies and return the case's values; const arrays are read-only for it too.

    Raises:
        LessonError: it takes a value that the case lacks, or returns one.
    """
    path, line = place_of(pseudocode)
    values = case.make()
    constant = {
        parameter.name for parameter in kernel.parameters if parameter.is_pointer and parameter.is_const
    }
    coded = bf16.names(case.values)
    arguments = {}
    for name, parameter in inspect.signature(pseudocode).parameters.items():
        if name in values:
            value = bf16.values(values[name]) if name in coded else values[name]
            if isinstance(value, np.ndarray) and name in constant:
                value.flags.writeable = False
            arguments[name] = value
        elif parameter.default is inspect.Parameter.empty:
            raise LessonError(
                path,
                line,
                f'pseudocode {pseudocode.__name__} takes "{name}", which the case does not name.',
                f"The case has {', '.join(values)}.",
            )
    with shuffle_seed(seed):
        returned = pseudocode(**arguments)
    if returned is not None:
        raise LessonError(
            path,
            line,
            f"pseudocode {pseudocode.__name__} returns a value, and a kernel cannot.",
            "Write into the output arrays instead.",
        )
    for name in coded & arguments.keys():
        values[name] = bf16.bits(arguments[name])
    return values


def written_names(kernel: Kernel, case: Case) -> tuple[str, ...]:
    """The names of the arrays that a kernel may write: non-const pointers, and outputs with tensor maps."""
    pointers = (
        parameter.name for parameter in kernel.parameters if parameter.is_pointer and not parameter.is_const
    )
    plain = tuple(name for name in pointers if case.values[name] is not None)
    maps: list[Any] = [case.values[parameter.name] for parameter in kernel.parameters]
    mapped = (value.name for value in maps if isinstance(value, TensorMap))
    return plain + tuple(name for name in dict.fromkeys(mapped) if name in case.outputs and name not in plain)


def _sizes(kernel: Kernel, case: Case) -> str:
    """A case as short text: `A 65 x 7, out 65`."""
    parts = []
    for name, value in kernel.on(case).taken.items():
        if isinstance(value, Recipe | np.ndarray):
            parts.append(f"{name} {shape_text(value.shape)}")
    return ", ".join(parts)


def _host(value: Any) -> Array:
    return to_host(value) if is_device_array(value) else np.asarray(value)


def _equal_bytes(left: Any, right: Any) -> bool:
    return np.asarray(left).tobytes() == np.asarray(right).tobytes()
