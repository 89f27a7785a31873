"""What is assumed of a proposed launch: arrays become long enough, and hazards are tried with other values.

In: a launch that met a hazard, as text, and the names of what its file does not say. Out: longer arrays, and
a few sentences: what became longer, and with which other values there is no hazard.
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
"""How many times as long an array becomes that a run reaches past."""
VALUES = ".values"
"""What follows an array's name where its length is known, and not what it holds."""
_WHOLE = re.compile(r"(?P<value>\d+)(?P<rest>(?:,\d+)*)")


def lengthened(
    file: str, given: Mapping[str, str], assumed: Sequence[str], hazards: Sequence[Hazard]
) -> dict[str, str]:
    """Longer arrays for those that a run reached past the end of and whose lengths are assumed.

    Such an access is no fault of the kernel's as far as the file says.

    Args:
        file: the file as the reader named it.
        given: the launch as a command has it, by name.
        assumed: names among these.
        hazards: what the run met.

    Raises:
        LessonError: an array would have to be longer than is simulated.
    """
    found = {}
    shared = int(given["--shared"])
    if "shared" in assumed and any("more dynamic shared memory" in one.repair for one in hazards):
        more = str(min(max(4 * shared, 1024), _MOST_SHARED))
        found = {"--shared": more} if shared < _MOST_SHARED else {}
    for hazard in hazards:
        past = _PAST.search(hazard.message) if hazard.kind == "out of bounds" else None
        array = _ARRAY.fullmatch(given.get(past["name"], "")) if past and past["name"] in assumed else None
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
            found[past["name"]] = _written(array, count)
    return found


def growth(first: Mapping[str, str], last: Mapping[str, str]) -> str:
    """What ``lengthened`` changed in a launch, in a sentence for each array."""
    sentences = []
    for name, text in first.items():
        before, after = (_ARRAY.fullmatch(one) for one in (text, last[name]))
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
    given: Mapping[str, str],
    assumed: Sequence[str],
    hazards: Sequence[Hazard],
    launch: Callable[[Mapping[str, str]], Launch],
) -> str:
    """What was assumed, and what of it can be changed so that no hazard is met.

    Empty where only arrays of floating-point numbers were: they are long enough, and a kernel rarely goes by
    what they hold.

    Args:
        file: the file as the reader named it.
        given: the launch as a command has it, by name: ``--grid``, ``--block``, ``--shared`` and arguments.
        assumed: ``grid``, ``block``, ``shared`` and arguments; ``x.values`` where only what ``x`` holds is.
        hazards: what the launch met.
        launch: makes such a launch.
    """
    names = {one: f"--{one}" if one in _OPTIONS else one.removesuffix(VALUES) for one in assumed}
    names = {one: name for one, name in names.items() if name in given and not _is_floats(given[name])}
    if not names:
        return ""
    others = {name: [*_others(given[name])] for name in names.values()}
    if any(one.kind == "race" for one in hazards):  # two threads that write the same value are no race
        others = {name: found for name, found in others.items() if not _ARRAY.fullmatch(given[name])}
    alone = [[{name: one} for one in found] for name, found in others.items()]
    clean = [one for one in (_first_clean(given, each, launch) for each in alone) if one]
    changed = ", ".join(name.removeprefix("--") for name, found in others.items() if found)
    helps = "; or with ".join(" ".join(_option(*change) for change in one.items()) for one in clean)
    if helps:
        tried = f"There is no hazard with {helps}. "
    elif changed:
        tried = f"Others were tried for {changed}, and none ran clean in {_MOST_STEPS:,} warp instructions. "
    else:
        tried = "No others were tried. "
    said = ", ".join(f"the values of {name}" if one.endswith(VALUES) else one for one, name in names.items())
    return (
        f"{file} does not say {said}, so this launch assumes them: what follows may be the "
        f"launch's fault, not the kernel's. {tried}"
        "Give the program's own values, and take their names out of --assumed."
    )


def _is_floats(text: str) -> bool:
    array = _ARRAY.fullmatch(text)
    return bool(array and array["type"].startswith("f"))


def _others(text: str) -> Iterator[str]:
    """Other values than the one that a text says."""
    if (array := _ARRAY.fullmatch(text)) and int(array["count"]) <= _MOST_ELEMENTS:
        yield f"zeros:{_written(array, int(array['count'])).removeprefix(array['fill'] or '')}"
    elif whole := _WHOLE.fullmatch(text):
        value = int(whole["value"])
        for other in (value // 2, 2 * value, value // 8, 8 * value):
            yield f"{other}{whole['rest']}"


def _written(array: re.Match[str], count: int) -> str:
    """An array of another length."""
    return f"{array['fill'] or ''}{array['type']}[{count}]{array['first'] or ''}"


def _first_clean(
    given: Mapping[str, str], changes: Sequence[dict[str, str]], launch: Callable[[Mapping[str, str]], Launch]
) -> dict[str, str]:
    """The first of some changes with which a launch meets no hazard; empty where there is none."""
    for change in changes:
        with contextlib.suppress(LessonError, ValueError, TypeError, RuntimeError):
            with contextlib.redirect_stdout(io.StringIO()):
                run = launch({**given, **change}).simulate(hazards="collect", max_steps=_MOST_STEPS)
            if not run.hazards:
                return change
    return {}


def _option(name: str, value: str) -> str:
    return f"{name} {value}" if name.startswith("--") else f"--arg {name}={value}"
