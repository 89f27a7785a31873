"""What the assumed values of a proposed launch have to do with a hazard, tried out.

In: a launch that met a hazard, as text, and the names of what its file does not say. Out: a few sentences:
with which other values there is none.
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

_MOST_STEPS = 2_000_000
_MOST_ELEMENTS = 1 << 24
_ARRAY = re.compile(r"(?P<fill>[^:\[]+:)?(?P<type>[a-z]+\d*)\[(?P<count>\d+)\](?P<first>\s*\+\s*\d+)?")
_WHOLE = re.compile(r"(?P<value>\d+)(?P<rest>(?:,\d+)*)")


def advice(
    file: str, given: Mapping[str, str], assumed: Sequence[str], launch: Callable[[Mapping[str, str]], Launch]
) -> str:
    """What was assumed, and what of it can be changed so that no hazard is met.

    Args:
        file: the file as the reader named it.
        given: the launch as a command has it, by name: ``grid``, ``block``, ``shared`` and arguments.
        assumed: names among these.
        launch: makes such a launch.
    """
    others = {name: [*_others(given[name])] for name in assumed if name in given}
    arrays = {name: found for name, found in others.items() if len(found) == len(_CHANGES)}
    alone = [[{name: one} for one in found] for name, found in others.items()]
    together = [{name: found[at] for name, found in arrays.items()} for at in range(len(_CHANGES))]
    clean = [one for one in (_first_clean(given, each, launch) for each in alone) if one]
    if not clean and len(arrays) > 1:
        clean = [one for one in [_first_clean(given, together, launch)] if one]
    changed = ", ".join(name for name, found in others.items() if found)
    helps = "; or with ".join(" ".join(_option(*change) for change in one.items()) for one in clean)
    if helps:
        tried = f"There is no hazard with {helps}. "
    elif changed:
        tried = f"Others were tried for {changed}, and none ran clean in {_MOST_STEPS:,} warp instructions. "
    else:
        tried = "No others were tried. "
    return (
        f"{file} does not say {', '.join(others)}, so this launch assumes them: what follows may be the "
        f"launch's fault, not the kernel's. {tried}"
        "Give the program's own values, and take their names out of --assumed."
    )


_CHANGES = (("zeros:", 1), ("", 4), ("zeros:", 4))
"""Of an array: what it holds, if that changes, and how many times its elements."""


def _others(text: str) -> Iterator[str]:
    """Other values than the one that a text says."""
    if (array := _ARRAY.fullmatch(text)) and int(array["count"]) <= _MOST_ELEMENTS:
        for fill, times in _CHANGES:
            first = array["first"] or ""
            yield f"{fill or array['fill'] or ''}{array['type']}[{times * int(array['count'])}]{first}"
    elif whole := _WHOLE.fullmatch(text):
        value = int(whole["value"])
        for other in (value // 2, 2 * value, value // 8, 8 * value):
            yield f"{other}{whole['rest']}"


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
    return f"--{name} {value}" if name in ("grid", "block", "shared") else f"--arg {name}={value}"
