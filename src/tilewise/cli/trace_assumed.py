"""Adjusts the assumed values of a proposed launch: longer arrays, and other values that avoid hazards.

In: a launch with a hazard, as text, and the names of the values that its file does not state. Out: longer
arrays, and a few sentences: what became longer, and which other values avoid the hazard.
"""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from tilewise.errors import LessonError

if TYPE_CHECKING:
    from tilewise.kernel.launch import Launch
    from tilewise.simulator.results.hazards import Hazard

_MOST_STEPS = 2_000_000
_MOST_ELEMENTS = 1 << 26
_MOST_SHARED = 232_448
_ARRAY = re.compile(
    r"(?P<fill>[^:\[]+:)?(?P<type>[a-z]+\d*)\[(?P<count>\d+)\](?P<first>\s*\+\s*(?P<offset>\d+))?"
)
_PAST = re.compile(r" (?P<name>\w+)\[(?P<index>\d+)\](?: on)?; (?P=name) has \d+ element")
_OPTIONS = ("grid", "block", "shared")
_TIMES = 8
"""Growth factor of an array that a run accesses beyond its end."""
VALUES = ".values"
"""Suffix of an array's name if its length is known, but not its values."""
_WHOLE = re.compile(r"(?P<value>\d+)(?P<rest>(?:,\d+)*)")


def lengthened(
    file: str, values: Mapping[str, str], assumed: Sequence[str], hazards: Sequence[Hazard]
) -> dict[str, str]:
    """Longer arrays of assumed length, for those that a run accessed beyond their end.

    As far as the file says, such an access is no fault of the kernel.

    Args:
        file: the file as the reader named it.
        values: the launch as in a command, by name.
        assumed: the names of assumed values.
        hazards: the run's hazards.

    Raises:
        LessonError: an array would be too long to simulate.
    """
    longer = {}
    shared = int(values["--shared"])
    if "shared" in assumed and any("more dynamic shared memory" in hazard.repair for hazard in hazards):
        more = str(min(max(4 * shared, 1024), _MOST_SHARED))
        longer = {"--shared": more} if shared < _MOST_SHARED else {}
    for hazard in hazards:
        past = _PAST.search(hazard.message) if hazard.kind == "out of bounds" else None
        array = _ARRAY.fullmatch(values.get(past["name"], "")) if past and past["name"] in assumed else None
        if past and array:
            needed = int(array["offset"] or 0) + int(past["index"]) + 1
            count = min(max(_TIMES * int(array["count"]), needed), _MOST_ELEMENTS)
            if needed > count:
                name, index = past["name"], int(past["index"])
                message = (
                    f"the kernel uses element {index:,} of {name}, whose length is assumed: that is too long."
                )
                repair = f"Launch with smaller values, or take {name} out of --assumed if that is a fault."
                raise LessonError(file, 0, message, repair)
            longer[past["name"]] = _written(array, count)
    return longer


def growth(first: Mapping[str, str], last: Mapping[str, str]) -> str:
    """The changes of ``lengthened`` to a launch, one sentence per array."""
    sentences = []
    for name, text in first.items():
        before, after = (_ARRAY.fullmatch(value) for value in (text, last[name]))
        if before and after and text != last[name]:
            sentences.append(
                f"The length of {name} is assumed, and the kernel uses more than "
                f"{int(before['count']):,} elements of it: here it has {int(after['count']):,}. "
            )
    if first["--shared"] != last["--shared"]:
        sentences.append(
            "The size of dynamic shared memory is assumed, and the kernel uses more than "
            f"{int(first['--shared']):,} bytes: here it has {int(last['--shared']):,}. "
        )
    return "".join(sentences)


def advice(
    file: str,
    values: Mapping[str, str],
    assumed: Sequence[str],
    hazards: Sequence[Hazard],
    launch: Callable[[Mapping[str, str]], Launch],
) -> str:
    """What was assumed, and which changes of it avoid the hazard.

    Empty if only floating-point arrays were assumed: they are long enough, and kernels rarely depend on their
    values.

    Args:
        file: the file as the reader named it.
        values: the launch as in a command, by name: ``--grid``, ``--block``, ``--shared`` and arguments.
        assumed: ``grid``, ``block``, ``shared`` and arguments; ``x.values`` if only the values of ``x`` are.
        hazards: the launch's hazards.
        launch: creates such a launch.
    """
    names = {label: f"--{label}" if label in _OPTIONS else label.removesuffix(VALUES) for label in assumed}
    names = {label: name for label, name in names.items() if name in values and not _is_floats(values[name])}
    if not names:
        return ""
    others = {name: [*_others(values[name])] for name in names.values()}
    if any(hazard.kind == "race" for hazard in hazards):  # two threads that write the same value are no race
        others = {name: texts for name, texts in others.items() if not _ARRAY.fullmatch(values[name])}
    changes = [[{name: text} for text in texts] for name, texts in others.items()]
    clean = [change for change in (_first_clean(values, each, launch) for each in changes) if change]
    changed = ", ".join(name.removeprefix("--") for name, texts in others.items() if texts)
    helps = "; or with ".join(" ".join(_option(*item) for item in change.items()) for change in clean)
    if helps:
        tried = f"There is no hazard with {helps}. "
    elif changed:
        tried = f"Others were tried for {changed}, and none ran clean in {_MOST_STEPS:,} warp instructions. "
    else:
        tried = "No others were tried. "
    missing = ", ".join(
        f"the values of {name}" if label.endswith(VALUES) else label for label, name in names.items()
    )
    return (
        f"{file} does not say {missing}, so this launch assumes them: what follows may be the "
        f"launch's fault, not the kernel's. {tried}"
        "Give the program's own values, and take their names out of --assumed."
    )


def _is_floats(text: str) -> bool:
    array = _ARRAY.fullmatch(text)
    return bool(array and array["type"].startswith("f"))


def _others(text: str) -> Iterator[str]:
    """Alternatives to the value in a text."""
    if (array := _ARRAY.fullmatch(text)) and int(array["count"]) <= _MOST_ELEMENTS:
        yield f"zeros:{_written(array, int(array['count'])).removeprefix(array['fill'] or '')}"
    elif whole := _WHOLE.fullmatch(text):
        value = int(whole["value"])
        for other in (value // 2, 2 * value, value // 8, 8 * value):
            yield f"{other}{whole['rest']}"


def _written(array: re.Match[str], count: int) -> str:
    """An array's text with another length."""
    return f"{array['fill'] or ''}{array['type']}[{count}]{array['first'] or ''}"


def _first_clean(
    values: Mapping[str, str],
    changes: Sequence[dict[str, str]],
    launch: Callable[[Mapping[str, str]], Launch],
) -> dict[str, str]:
    """The first of the changes with which the launch has no hazard; empty if there is none."""
    for change in changes:
        with contextlib.suppress(LessonError, ValueError, TypeError, RuntimeError):
            with contextlib.redirect_stdout(io.StringIO()):
                run = launch({**values, **change}).simulate(hazards="collect", max_steps=_MOST_STEPS)
            if not run.hazards:
                return change
    return {}


def _option(name: str, value: str) -> str:
    return f"{name} {value}" if name.startswith("--") else f"--arg {name}={value}"
