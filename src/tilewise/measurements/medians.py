"""What lessons compute with: recorded medians, and numbers in what a recorded cell printed.

In: a measurement's rows, or the text of a record. Out: dicts in which a number that nobody has recorded is
NaN, so that a page without it can be made.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from tilewise.measurements.archive import lookup, text_record
from tilewise.measurements.output import Measurement


class Numbers(dict[Any, Any]):
    """Numbers by key; NaN for a key that is missing."""

    def __missing__(self, key: Any) -> float:
        """NaN."""
        return math.nan


def medians(measured: Measurement, *parameters: str) -> Numbers:
    """The recorded medians of an experiment in microseconds, or those timed here.

    Args:
        measured: what ``measure`` returned.
        parameters: names of the parameters that tell the cases apart.

    Returns:
        By variant, or with parameters by a tuple of the variant and their values.
    """
    found = Numbers()
    for row in measured.rows:
        key = (row["variant"], *(row["parameters"][name] for name in parameters))
        found[key if parameters else row["variant"]] = (row["recorded"] or row["here"] or {}).get(
            "median", math.nan
        )
    return found


def recorded(path: str) -> Any:
    """A value of a record; NaN where there is none.

    Args:
        path: as prose spells it, e.g. ``vec_add.blocks_of_256.n_1024.median``.
    """
    experiment, *names = path.split(".")
    value: Any = lookup(experiment) or {}
    for name in names:
        value = value.get(name, {})
    return math.nan if value == {} else value


def printed(lesson: str, name: str) -> str:
    """What a recorded cell printed; empty where it is not recorded.

    Args:
        lesson: the lesson's id.
        name: the cell's ``record="..."``.
    """
    found = text_record(lesson, name)
    return found.text if found else ""


def printed_numbers(lesson: str, name: str, pattern: str) -> Numbers:
    """Numbers in what a recorded cell printed.

    Args:
        lesson: the lesson's id.
        name: the cell's ``record="..."``.
        pattern: a regular expression; its last group is the number, ``^`` and ``$`` match at each line.

    Returns:
        By the groups before it, a tuple where they are several; those of digits only are integers.
    """
    found = Numbers()
    for *groups, number in re.findall(pattern, printed(lesson, name), re.M):
        keys = tuple(int(group) if group.isdecimal() else group for group in groups)
        found[keys if len(keys) > 1 else keys[0]] = float(number)
    return found


def complete(*tables: Mapping[Any, float]) -> bool:
    """Whether each table has numbers, and none of them is missing."""
    return all(table and all(map(math.isfinite, table.values())) for table in tables)
