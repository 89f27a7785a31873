"""Implementations: variants and libraries of an experiment on the GPU, each checked before any is timed.

In: an experiment and a size. Out: ``Contender`` objects whose inputs are on the GPU, or a ``LessonError``
that says which one is wrong and where.
"""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tilewise import bf16
from tilewise.gpu.timing import Contender
from tilewise.measurements.answers import (
    Drawn,
    answer_name,
    check_answer,
    checked_names,
    expected_answer,
    make_inputs,
    outputs,
    values_of,
    written,
)

if TYPE_CHECKING:
    from tilewise.measurements.experiment import Experiment, Parameters


@dataclass(frozen=True)
class Implementation:
    """A variant or a library with everything that its check needs."""

    label: str
    role: str
    """``variant`` or ``library``."""
    call: Callable[[], Any]
    inputs: str
    """The variant whose inputs it uses."""
    arrays: Mapping[str, Any]
    """Its device arrays and scalars by name."""
    writes: tuple[str, ...]
    """The arrays that it must write; for a library the answer, which it may also return."""


def checked_implementations(
    experiment: Experiment, parameters: Parameters
) -> tuple[list[Contender], list[Implementation], list[str]]:
    """The contenders of a case, checked on fresh inputs and holding the case's own inputs."""
    by_label = {label: experiment.launches(label, parameters) for label in experiment.variants}
    shared: dict[str, Any] = {}
    drawn: Drawn = {}
    fresh = {label: make_inputs(launches, 0, drawn) for label, launches in by_label.items()}
    device: dict[str, dict[str, Any]] = {}
    for label, launches in by_label.items():
        values = values_of(launches)
        device[label] = {
            name: placed(shared, identity(name, values[name]), value) for name, value in fresh[label].items()
        }
    first = next(iter(by_label))
    answer = answer_name(experiment, by_label[first]) if written(by_label[first]) else None
    entries = [
        Implementation(
            label, "variant", launcher(launches, device[label]), label, device[label], written(launches)
        )
        for label, launches in by_label.items()
    ]
    absent: list[str] = []
    for label, function in experiment.library.items():
        call = _library(experiment, label, function, parameters, device[first])
        if isinstance(call, str):
            absent.append(call)
        else:
            writes = (answer,) if answer else ()
            entries.append(Implementation(label, "library", call, first, device[first], writes))
    expected = expected_answer(experiment, by_label[first], fresh[first])
    _check_all(experiment, by_label, entries, fresh, expected)
    return _ready(by_label, entries, device), entries, absent


def _check_all(
    experiment: Experiment,
    by_label: Mapping[str, Sequence[Any]],
    entries: Sequence[Implementation],
    fresh: Mapping[str, Mapping[str, Any]],
    expected: Mapping[str, Any] | None,
) -> None:
    """Run every implementation once on fresh inputs and poisoned outputs and compare what it wrote."""
    import cupy

    right: dict[str, Any] = {}
    coded = bf16.names(values_of([launch for launches in by_label.values() for launch in launches]))
    for name, value in (expected or {}).items():
        right[name] = cupy.asarray(value, dtype=np.float64)
    for entry in entries:
        _refill(entry.arrays, fresh[entry.inputs])
        returned = entry.call()
        cupy.cuda.get_current_stream().synchronize()
        got = _result(entry, returned)
        got = {
            name: bf16.values(array) if name in coded and array.dtype.kind == "u" else array
            for name, array in got.items()
        }
        if not right:
            right = {name: got[name].astype(np.float64) for name in entry.writes}
        names = tuple(returned) if isinstance(returned, Mapping) else entry.writes
        checked = checked_names(experiment, entry.label, names, right)
        if any(_differs(experiment, got[name], right[name]) for name in checked):
            check_answer(
                experiment,
                entry.label,
                {name: cupy.asnumpy(got[name]) for name in checked},
                {name: cupy.asnumpy(right[name]) for name in checked},
                "on the GPU",
            )


def _ready(
    by_label: Mapping[str, Sequence[Any]],
    entries: Sequence[Implementation],
    device: Mapping[str, Mapping[str, Any]],
) -> list[Contender]:
    """The contenders, with the case's own inputs and a function that restores overwritten ones."""
    import cupy

    originals: dict[int, Any] = {}
    drawn: Drawn = {}
    for label, launches in by_label.items():
        _refill(device[label], make_inputs(launches, drawn=drawn))
        overwritten = set(written(launches)) - set(outputs(launches))
        for name in overwritten:
            originals[id(device[label][name])] = (device[label][name], device[label][name].copy())
    cupy.cuda.get_current_stream().synchronize()
    contenders = []
    for entry in entries:
        pairs = [originals[id(array)] for array in entry.arrays.values() if id(array) in originals]
        contenders.append(Contender(entry.label, entry.call, _restorer(pairs) if pairs else None))
    return contenders


def _restorer(pairs: Sequence[tuple[Any, Any]]) -> Callable[[], None]:
    def restore() -> None:
        for array, original in pairs:
            array[...] = original

    return restore


def identity(name: str, value: Any) -> str:
    """Text that only equal inputs share; an array is hashed, because its ``str`` omits elements."""
    if isinstance(value, np.ndarray):
        return f"{name} {hashlib.sha256(np.ascontiguousarray(value).data).hexdigest()}"
    return f"{name} {value!s}"


def placed(shared: dict[str, Any], label: str, value: Any) -> Any:
    """The device array for a host array, shared by variants with the same recipe; scalars unchanged."""
    import cupy

    if not isinstance(value, np.ndarray):
        return value
    if value.dtype.kind == "V":
        return value
    key = f"{label} {value.dtype.str} {value.shape}"
    if key not in shared:
        shared[key] = cupy.asarray(value)
    return shared[key]


def _refill(arrays: Mapping[str, Any], host: Mapping[str, Any]) -> None:
    for name, array in arrays.items():
        if hasattr(array, "__cuda_array_interface__"):
            array.set(host[name])


def on_device(launches: Sequence[Any]) -> dict[str, Any]:
    """The launches' own inputs as device arrays and scalars, outputs poisoned."""
    return {name: placed({}, name, value) for name, value in make_inputs(launches).items()}


def launcher(launches: Sequence[Any], arrays: Mapping[str, Any]) -> Callable[[], None]:
    """A function that enqueues the launches with these arrays."""
    ready = [(launch, launch.arguments(arrays)) for launch in launches]

    def call() -> None:
        for launch, values in ready:
            launch.kernel(*values, grid=launch.grid, block=launch.block, shared_bytes=launch.shared_bytes)

    return call


def _library(
    experiment: Experiment,
    label: str,
    function: Callable[..., Any],
    parameters: Parameters,
    arrays: Mapping[str, Any],
) -> Callable[[], Any] | str:
    """The library's call without arguments, or a sentence on why it is missing."""
    try:
        wanted = list(inspect.signature(function).parameters)
        maker = function if wanted[:1] == ["arrays"] else function(**parameters)
        if wanted[:1] == ["arrays"] and len(wanted) > 1:
            call = maker(dict(arrays), **{name: parameters[name] for name in wanted[1:]})
        else:
            call = maker(dict(arrays))
    except ImportError as error:
        return f"{label} was not there: {error}."
    if not callable(call):
        raise experiment.error(
            f'the library "{label}" returned {type(call).__name__}.',
            "Return a function of no arguments that does the work.",
        )
    result: Callable[[], Any] = call
    return result


def _result(entry: Implementation, returned: Any) -> dict[str, Any]:
    """An implementation's results by name: its arrays, or what a library returned."""
    import cupy

    got = {name: array for name, array in entry.arrays.items() if hasattr(array, "__cuda_array_interface__")}
    if isinstance(returned, Mapping):
        got.update({name: cupy.asarray(value) for name, value in returned.items()})
    elif entry.role == "library" and entry.writes and hasattr(returned, "__cuda_array_interface__"):
        got[entry.writes[-1]] = cupy.asarray(returned)
    return got


def _differs(experiment: Experiment, got: Any, right: Any) -> bool:
    """Whether an array on the GPU is off by more than the tolerance anywhere."""
    import cupy

    if got.size != right.size:
        return True
    left, wide = got.reshape(-1).astype(np.float64), right.reshape(-1)
    off = cupy.abs(left - wide)
    good = (off <= experiment.tolerance * (1 + cupy.abs(wide))) | (left == wide)
    good |= cupy.isnan(left) & cupy.isnan(wide)
    return not bool(good.all())
