"""``tilewise table``: a lesson's tables, for people as text and for programs as one JSON array of rows.

In: a lesson. Out: stdout. The lesson's code is run, its other outputs are not shown, and no GPU is used.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tilewise.measurements.archive import lesson_root
from tilewise.measurements.output import Measurement
from tilewise.measurements.playback import find_lesson, on_the_simulator, play
from tilewise.measurements.report import report
from tilewise.measurements.session import handled_by

if TYPE_CHECKING:
    from tilewise.measurements.experiment import Experiment


def table(lesson: str, as_json: bool) -> int:
    """Print a lesson's tables.

    Returns:
        0, or 1 where a cell of the lesson failed; the reason is on stderr.
    """
    made: list[Measurement] = []

    def handle(experiment: Experiment) -> Measurement:
        made.append(report(experiment))
        return made[-1]

    with on_the_simulator(), handled_by(handle):
        failures = play(find_lesson(lesson, lesson_root()))
    if as_json:
        print(json.dumps([json_row(row) for one in made for row in one.rows], indent=1))
    else:
        print("\n\n".join(one.text() for one in made) or "This lesson measures nothing.")
    for failure in failures:
        print(f"{failure.place}: {failure.message}", file=sys.stderr)
    return 1 if failures else 0


def json_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """One row as programs read it."""
    names = (
        "experiment",
        "variant",
        "role",
        "parameters",
        "bound",
        "limited_by",
        "simulated",
        "counted",
        "recorded",
        "share",
        "gb_per_s",
        "tflop_per_s",
        "unit",
        "library",
        "device",
        "date",
        "sm_clock_mhz",
        "power_w",
    )
    return {name: row.get(name) for name in names}
