"""Reasons: where a prediction missed by more than its tolerance, the lesson has to say why.

In: a measurement with its recorded rows. Out: the variants that missed. ``tilewise.course.rules.records``
holds the lesson to its reasons.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

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
