"""Answers: fresh inputs, the reference's result in float64, and the check that comes before any timing.

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
    """The recipes, arrays and scalars of the launches' cases, by name; the first that names one decides."""
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
        fresh: draw other numbers than the recipes' own seeds give; another number, other inputs.
        drawn: arrays made before, by name and recipe, which are handed out again and added to; for a caller
            who never writes to them.
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
    own = seed if recipe.seed is None else recipe.seed
    return replace(recipe, seed=own + 1_000_003 * (fresh + 1)).make(seed)


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
    """What the reference gives for these inputs, by name of the array; None without a reference.

    Raises:
        LessonError: the reference wants an unknown input, or it is unclear which array it returned.
    """
    if experiment.reference is None:
        return None
    made = set(outputs(launches))
    meant = numbers(launches, inputs)
    known = {name: _wide(value) for name, value in meant.items() if name not in made}
    wanted = inspect.signature(experiment.reference).parameters
    if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in wanted.values()):
        given = known
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
        given = {name: known[name] for name in wanted if name in known}
    answer = experiment.reference(**given)
    if isinstance(answer, Mapping):
        if unknown := [name for name in answer if name not in inputs]:
            raise experiment.error(f'the reference returned "{unknown[0]}", which the case does not name.')
        return {name: np.asarray(value) for name, value in answer.items()}
    return {answer_name(experiment, launches): np.asarray(answer)}


def answer_name(experiment: Experiment, launches: Sequence[Any]) -> str:
    """Which array a single returned array stands for: the case's last output, else the one array written.

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
    """Which of the expected arrays a contender has to have written.

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
    """Arrays by name, of host or GPU, with those that hold the bits of BF16 numbers as float32."""
    coded = bf16.names(values_of(launches))
    return {name: bf16.values(array) if name in coded else array for name, array in arrays.items()}


def _wide(value: Any) -> Any:
    return value.astype(np.float64) if isinstance(value, np.ndarray) and value.dtype.kind == "f" else value


def check_answer(
    experiment: Experiment, label: str, got: Mapping[str, Array], expected: Mapping[str, Array], where: str
) -> None:
    """Compare what a contender wrote with what is right.

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
        found = difference(
            actual.reshape(right.shape).astype(np.float64), wide, experiment.tolerance, experiment.tolerance
        )
        if found.wrong:
            raise experiment.error(
                f'"{label}" is wrong {where}: {name}{index_text(found.index)} is {found.actual:.9g}, right: '
                f"{found.expected:.9g}; {found.wrong} of {found.count} elements are off by more than "
                f"{experiment.tolerance:g}.",
                "Nothing was timed.",
            )
