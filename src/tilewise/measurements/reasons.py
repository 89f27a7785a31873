"""Reasons: where a prediction missed by more than its tolerance, the lesson has to say why.

In: a measurement, its recorded rows and the headings of its lesson. Out: a fault for each variant that missed
and is not explained, and for each reason that names no heading. What the reasons are is for the lesson.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from tilewise.errors import LessonError, nearest

if TYPE_CHECKING:
    from tilewise.measurements.output import Measurement

WITHIN = 2.0
"""How many times as long as predicted a variant may take before the lesson has to say why."""
EVERY = "*"
"""Stands for every variant."""


def missed(made: Measurement) -> dict[str, float]:
    """The variants that took longer, or less, than predicted by more than the tolerance.

    Returns:
        By variant, its farthest row: the recorded time over the predicted one.
    """
    found: dict[str, float] = {}
    for row in made.rows:
        share = row.get("share")
        if row["role"] != "variant" or not share:
            continue
        times = 1 / share
        far = max(times, 1 / times)
        if far > made.within and far > max(found.get(row["variant"], 1), 1 / found.get(row["variant"], 1)):
            found[row["variant"]] = times
    return found


def faults(made: Measurement, headings: Collection[str], path: str, line: int) -> Iterator[LessonError]:
    """What is not explained, and reasons that lead nowhere.

    Args:
        made: the measurement.
        headings: the words of each heading of its lesson.
        path: the lesson's file, for messages.
        line: the line of the measurement in it.
    """
    reasons = dict(made.reasons)
    label = f'measure("{made.name}"): '
    for variant, heading in reasons.items():
        if heading not in headings:
            message = f'{label}the reason for "{variant}" stands under "{heading}", which is no heading here.'
            yield LessonError(path, line, message, nearest(heading, headings))
    for variant, times in missed(made).items():
        if variant not in reasons and EVERY not in reasons:
            message = (
                f'{label}"{variant}" took {times:,.3g} times as long as its bound, and at most '
                f"{made.within:g} times needs no explanation."
            )
            repair = (
                f'Say why, and where: reasons={{"{variant}": "the heading"}}; "{EVERY}" is every variant.'
            )
            yield LessonError(path, line, message, repair)
