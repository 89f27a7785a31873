"""``tilewise table``: a lesson's tables, as text.

In: a lesson. Out: stdout. The lesson's code is run, its other outputs are not shown, and no GPU is used.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from tilewise.build.playback import find_lesson, on_the_simulator, play
from tilewise.measurements.archive import lesson_root
from tilewise.measurements.report import report
from tilewise.measurements.session import handled_by

if TYPE_CHECKING:
    from tilewise.measurements.experiment import Experiment
    from tilewise.measurements.output import Measurement


def table(lesson: str) -> int:
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
    print("\n\n".join(one.text() for one in made) or "This lesson measures nothing.")
    for failure in failures:
        print(f"{failure.place}: {failure.message}", file=sys.stderr)
    return 1 if failures else 0
