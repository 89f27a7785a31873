"""Answers: fresh inputs, the reference's float64 result, and the check before any timing.

In: launches of an experiment and its reference. Out: arrays by name, or a ``LessonError`` that names the
variant, the array, the element and both values.
"""

from __future__ import annotations

import inspect
import zlib
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tilewise import bf16
from tilewise.cuda.cases import Recipe
from tilewise.cuda.difference import difference, index_text

if TYPE_CHECKING:
    from tilewise.measurements.experiment import Experiment

Array = npt.NDArray[Any]
Drawn = dict[tuple[str, str], Array]


def values_of(launches: Sequence[Any]) -> dict[str, Any]:
    """The recipes, arrays and scalars of the launches' cases, by name; the first launch takes precedence."""
    values: dict[str, Any] = {}
    for launch in launches:
        for name, value in launch.case.values.items():
            values.setdefault(name, value)
    return values


def make_inputs(
    launches: Sequence[Any], fresh: int | None = None, drawn: Drawn | None = None
) -> dict[str, Any]:
    """Arrays and scalars by name, outputs poisoned.

    Args:
        launches: those of one variant.
        fresh: draw other numbers than from the recipes' own seeds; each value gives different inputs.
        drawn: a cache of arrays by name and recipe, for callers that never write to them.
    """
    values = values_of(launches)
    drawn = {} if drawn is None else drawn
    wanted = {(name, str(value)): value for name, value in values.items() if isinstance(value, Recipe)}
    missing = [key for key in wanted if key not in drawn]
    with ThreadPoolExecutor() as pool:
        drawn.update(
            zip(missing, pool.map(lambda key: _make(key[0], wanted[key], fresh), missing), strict=True)
        )
    return {
        name: drawn[name, str(value)] if isinstance(value, Recipe) else _copied(value)
        for name, value in values.items()
    }


def _make(name: str, recipe: Recipe, fresh: int | None) -> Array:
    seed = zlib.crc32(name.encode())
    if fresh is None or recipe.kind in ("output", "constant"):
        return recipe.make(seed)
    base = seed if recipe.seed is None else recipe.seed
    return replace(recipe, seed=base + 1_000_003 * (fresh + 1)).make(seed)


def _copied(value: Any) -> Any:
    return value.copy() if isinstance(value, np.ndarray) else value


def written(launches: Sequence[Any]) -> tuple[str, ...]:
    """Names of the arrays that a variant's kernels may write, in order; tensor maps' come last."""
    from tilewise.kernel.comparison import written_names

    names = [name for launch in launches for name in written_names(launch.kernel, launch.case)]
    return tuple(dict.fromkeys(names))


def outputs(launches: Sequence[Any]) -> tuple[str, ...]:
    """Names of the arrays that start poisoned, in the order of the case."""
    return tuple(
        name for name, value in values_of(launches).items() if isinstance(value, Recipe) and value.is_output
    )


def expected_answer(
    experiment: Experiment, launches: Sequence[Any], inputs: Mapping[str, Any]
) -> dict[str, Array] | None:
    """The reference's result for these inputs, by array name; None without a reference.

    Raises:
        LessonError: the reference wants an unknown input, or it is unclear which array it returned.
    """
    if experiment.reference is None:
        return None
    written_names = set(outputs(launches))
    decoded = numbers(launches, inputs)
    known = {name: _wide(value) for name, value in decoded.items() if name not in written_names}
    wanted = inspect.signature(experiment.reference).parameters
    if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in wanted.values()):
        arguments = known
    else:
        if missing := [
            name
            for name, parameter in wanted.items()
            if name not in known and parameter.default is inspect.Parameter.empty
        ]:
            raise experiment.error(
                f'the reference wants "{missing[0]}", which is no input of the case.',
                f"Inputs: {', '.join(known)}.",
            )
        arguments = {name: known[name] for name in wanted if name in known}
    answer = experiment.reference(**arguments)
    if isinstance(answer, Mapping):
        if unknown := [name for name in answer if name not in inputs]:
            raise experiment.error(f'the reference returned "{unknown[0]}", which the case does not name.')
        return {name: np.asarray(value) for name, value in answer.items()}
    return {answer_name(experiment, launches): np.asarray(answer)}


def answer_name(experiment: Experiment, launches: Sequence[Any]) -> str:
    """The array that a single returned array represents: the last output, else the only array written.

    Raises:
        LessonError: it is unclear.
    """
    candidates = outputs(launches) or written(launches)
    if not candidates or (not outputs(launches) and len(candidates) > 1):
        raise experiment.error("it is unclear which array an answer stands for.", "Return a mapping by name.")
    return candidates[-1]


def checked_names(
    experiment: Experiment, label: str, writes: Sequence[str], expected: Mapping[str, Any]
) -> tuple[str, ...]:
    """The expected arrays that a contender writes.

    Raises:
        LessonError: it writes none of them, so that nothing would be checked.
    """
    names = tuple(name for name in writes if name in expected)
    if expected and not names:
        raise experiment.error(
            f'"{label}" writes {", ".join(writes) or "nothing"}; the reference gives {", ".join(expected)}.',
            "Let the reference return a mapping with every array that a variant writes.",
        )
    return names


def numbers(launches: Sequence[Any], arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Host or GPU arrays by name, with BF16 bits converted to float32."""
    coded = bf16.names(values_of(launches))
    return {name: bf16.values(array) if name in coded else array for name, array in arrays.items()}


def _wide(value: Any) -> Any:
    return value.astype(np.float64) if isinstance(value, np.ndarray) and value.dtype.kind == "f" else value


def check_answer(
    experiment: Experiment, label: str, got: Mapping[str, Array], expected: Mapping[str, Array], where: str
) -> None:
    """Compare what a contender wrote with the expected arrays.

    Raises:
        LessonError: an element is off by more than ``tolerance * (1 + |right|)``, or was never written.
    """
    for name, right in expected.items():
        actual = np.asarray(got[name])
        if actual.size != right.size:
            raise experiment.error(
                f'"{label}" gives {name} with {actual.size} elements {where}; the reference has {right.size}.'
            )
        wide = right.astype(np.float64)
        worst = difference(
            actual.reshape(right.shape).astype(np.float64), wide, experiment.tolerance, experiment.tolerance
        )
        if worst.wrong:
            raise experiment.error(
                f'"{label}" is wrong {where}: {name}{index_text(worst.index)} is {worst.actual:.9g}, right: '
                f"{worst.expected:.9g}; {worst.wrong} of {worst.count} elements are off by more than "
                f"{experiment.tolerance:g}.",
                "Nothing was timed.",
            )
