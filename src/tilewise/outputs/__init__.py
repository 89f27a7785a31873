"""The outputs of cells: one class per kind of output, and the sink that receives them.

In: values from a lesson's cells. Out: ``Output`` objects that convert to text, Markdown and JSON. Nothing
here imports a header parser, MkDocs, Plotly or CuPy, so a lesson on a bare machine loads it in milliseconds.

To make another class showable, give it ``as_output() -> Output``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tilewise.outputs.base import (
    CollectingSink,
    Context,
    Output,
    PrintingSink,
    Sink,
    Task,
    decode,
    encode,
    installed,
    sink,
)
from tilewise.outputs.exercise import ExerciseOutput, exercise
from tilewise.outputs.kernel import KernelOutput
from tilewise.outputs.kinds import (
    AgreeOutput,
    CheckOutput,
    FigureOutput,
    HazardOutput,
    LackOutput,
    Text,
)
from tilewise.outputs.run import RunColumn, RunLine, RunOutput
from tilewise.outputs.table import Cell, Column, Table

__all__ = [
    "AgreeOutput",
    "Cell",
    "CheckOutput",
    "CollectingSink",
    "Column",
    "Context",
    "ExerciseOutput",
    "FigureOutput",
    "HazardOutput",
    "KernelOutput",
    "LackOutput",
    "Output",
    "PrintingSink",
    "RunColumn",
    "RunLine",
    "RunOutput",
    "Sink",
    "Table",
    "Task",
    "Text",
    "as_output",
    "decode",
    "encode",
    "exercise",
    "installed",
    "name_machine",
    "publish",
    "show",
    "sink",
]


MACHINE = "{machine}"
"""The placeholder in captions for the name of the GPU whose records are shown."""
_NAMES: dict[str, Callable[[], str]] = {}
DEEPEST = 20
"""The maximum nesting of published dicts."""


def as_output(value: object) -> Output | None:
    """The output that shows ``value``; None if there is none.

    An output is returned unchanged; figures, kernels and any value with ``as_output()`` have one. In texts
    of a table or a figure, ``{machine}`` becomes the name of the GPU whose records are shown, e.g. H100.
    """
    if isinstance(value, Table) and MACHINE in (value.caption or ""):
        return Table.from_dict(_with_machine(value.to_dict()))
    if isinstance(value, Output):
        return value
    if isinstance(value, type):
        return None
    if callable(getattr(value, "as_output", None)):
        output = value.as_output()  # type: ignore[attr-defined]
        return output if isinstance(output, Output) else None
    names = {f"{base.__module__}.{base.__qualname__}" for base in type(value).__mro__}
    if any(name.startswith("tilewise.figures.") and name.endswith(".Figure") for name in names):
        return FigureOutput(_with_machine(value.to_dict()))  # type: ignore[attr-defined]
    return None


def name_machine(name: Callable[[], str]) -> None:
    """Set the function that returns the text for ``{machine}``, e.g. H100."""
    _NAMES[MACHINE] = name


def _with_machine(data: dict[str, Any]) -> dict[str, Any]:
    """The fields of a table or a figure, with the GPU's name in its texts."""
    words = {
        name: data[name]
        for name in ("title", "caption", "alt")
        if isinstance(data.get(name), str) and MACHINE in data[name]
    }
    if not words:
        return data
    machine = _NAMES[MACHINE]() if MACHINE in _NAMES else "GPU"
    return {**data, **{name: text.replace(MACHINE, machine) for name, text in words.items()}}


def show(*values: object) -> None:
    """Show tables, figures, kernels and other outputs, in this order.

    Raises:
        TypeError: a value has no output; print it instead.
    """
    for value in values:
        output = as_output(value)
        if output is None:
            raise TypeError(
                f"show() takes tables, figures, kernels and runs, and got {type(value).__name__}; "
                "print() shows the rest"
            )
        sink().add(output)


def publish(**values: Any) -> None:
    """Name values so that the lesson's prose can quote them: ``{{ name | format }}``.

    Args:
        values: numbers, strings, NumPy scalars, or dicts of these (``{{ name.key }}``).

    Raises:
        TypeError: a value is none of these.
        ValueError: a name was already published in this lesson, or a path cannot address a value.
    """
    sink().publish({name: _published(name, value) for name, value in values.items()})


def _published(path: str, value: Any) -> Any:
    if isinstance(value, Mapping):
        for key in value:
            if wrong := next((sign for sign in ".|{}" if sign in str(key)), ""):
                raise ValueError(f'publish(): the name "{key}" in {path} has the sign {wrong}; take it out')
        if path.count(".") > DEEPEST:
            raise ValueError(
                f"publish(): {path.split('.', maxsplit=1)[0]} is nested more than {DEEPEST} times"
            )
        return {str(key): _published(f"{path}.{key}", entry) for key, entry in value.items()}
    plain = value.item() if hasattr(value, "item") and getattr(value, "ndim", None) == 0 else value
    if isinstance(plain, int) and abs(plain) >= 10**100:
        raise ValueError(f"publish(): {path} has more than 100 digits, which no sentence can show")
    if isinstance(plain, bool | int | float | str):
        return plain
    raise TypeError(f"publish() takes numbers, strings and dicts of them; {path} is {type(value).__name__}")
