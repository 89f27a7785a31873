"""A round in its own process: runs the lesson again up to one experiment and times that.

In: a lesson's file, an experiment and a plan. Out: the rows of the round, or the child's problem, raised as
if it had occurred here. The child has its own inputs, arrays, modules and warm-up.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from tilewise.errors import LessonError
from tilewise.gpu.device import State
from tilewise.gpu.timing import Plan
from tilewise.measurements.problems import KEPT, GpuProblem, explain
from tilewise.measurements.record import Row, write_whole

if TYPE_CHECKING:
    from tilewise.measurements.experiment import Experiment
    from tilewise.measurements.experiment_timing import ExperimentTimes

ROUNDS = 3
"""The default number of rounds of a record."""
LONG_S = 60.0
"""By default, an experiment whose first round takes more seconds has only that one."""
TIME_LIMIT_S = 1800
"""The time limit of a round."""
OWN_PROCESSES = 2
"""Our processes on the GPU while a child times: the child and the one that waits for it."""


class RoundOver(BaseException):
    """Ends the child after timing; not an ``Exception``, so that no cell of a lesson swallows it."""


def time_round(
    experiment: Experiment, part: tuple[int, int], out: Path, progress: Callable[[str], None]
) -> NoReturn:
    """Time an experiment in the child, write the rows or the problem, and end the run.

    Args:
        experiment: what to time.
        part: the round's number from 0, and the number of rounds.
        out: the file for the result.
        progress: called with a line of progress.
    """
    from tilewise.measurements.experiment_timing import time_experiment

    plan = part_of_plan(*part, experiment.with_host)
    try:
        times = time_experiment(experiment, plan, progress, strict=True, own=OWN_PROCESSES)
        rows = [row.to_dict() for row in times.rows]
        write_whole({"rows": rows, "notes": list(times.notes), "state": asdict(times.state)}, out)
    except LessonError as error:
        write_whole({"wrong": {"message": error.message, "repair": error.repair}}, out)
    except Exception as error:
        write_whole({"problem": vars(explain(error))}, out)
    raise RoundOver


def run_child(command: list[str]) -> str:
    """Run a child and return how it ended, with the end of its stderr."""
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as errors:
        status = subprocess.run(command, stderr=errors, timeout=TIME_LIMIT_S, check=False).returncode
        errors.seek(0)
        tail = " ".join(errors.read().split())[-400:]
    how = f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"
    return f"{how}: {tail}" if tail else how


def run_round(experiment: Experiment, file: Path, at: int, of: int) -> ExperimentTimes:
    """Time an experiment in its own process.

    Args:
        experiment: what to time.
        file: its lesson's file.
        at: the round's number, from 0.
        of: the number of rounds.

    Raises:
        LessonError: a variant or library gives a wrong answer there, or the lesson measures something else
            there.
        GpuProblem: the child had one, or ended without a result.
    """
    from tilewise.measurements.experiment_timing import ExperimentTimes

    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "round.json")
        command = [
            *(sys.executable, "-m", "tilewise", "round-child", str(file)),
            *("--experiment", experiment.name, "--out", str(out), "--round", str(at), "--of", str(of)),
        ]
        ended = run_child(command)
        body = json.loads(out.read_text(encoding="utf-8")) if out.is_file() else None
    if body is None:
        raise GpuProblem(f"a round of its own process gave no times: it {ended}. {KEPT}")
    if "problem" in body:
        raise GpuProblem(**body["problem"])
    if "wrong" in body:
        raise LessonError(experiment.path, experiment.line, body["wrong"]["message"], body["wrong"]["repair"])
    rows = tuple(Row.from_dict(row) for row in body["rows"])
    wanted = {experiment.place(row.variant, row.case) for row in rows if row.case in experiment.cases}
    if len(wanted) < len(rows) or any(row.tokens != experiment.tokens(row.variant, row.case) for row in rows):
        raise experiment.error(
            "the lesson measures something else when it is run again: its keys change between processes.",
            "Take the inputs, sizes and sources from nothing that changes: no clock, no unseeded numbers.",
        )
    state = State(**{**body["state"], "throttled_by": tuple(body["state"]["throttled_by"])})
    return ExperimentTimes(rows, tuple(body["notes"]), state)


def take_rounds(
    experiment: Experiment, file: Path, wanted: int | None, progress: Callable[[str], None]
) -> Iterator[ExperimentTimes]:
    """Time an experiment in rounds: the first in this process, each other one in its own process.

    Args:
        experiment: what to time.
        file: its lesson's file.
        wanted: how many rounds; None: ``ROUNDS``, or one if the first takes more than ``LONG_S``.
        progress: called with a line of progress.

    Yields:
        Each finished round.

    Raises:
        LessonError: a variant or library gives a wrong answer, or the lesson measures something else the
            second time.
        GpuProblem: the times of a round are not usable.
    """
    from tilewise.measurements.experiment_timing import time_experiment

    rounds = ROUNDS if wanted is None else wanted
    began = time.monotonic()
    yield time_experiment(experiment, part_of_plan(0, rounds, experiment.with_host), progress, strict=True)
    spent_s = time.monotonic() - began
    if wanted is None and spent_s > LONG_S:
        progress(f"{experiment.name}: its first round took {spent_s:.0f} s and stays alone")
        return
    for at in range(1, rounds):
        progress(f"{experiment.name}: round {at + 1} of {rounds}, in a process of its own")
        yield run_round(experiment, file, at, rounds)


def part_of_plan(at: int, of: int, with_host: bool) -> Plan:
    """The plan of one round: its part of a recording's repetitions and seconds."""
    plan = Plan()
    repetitions = plan.repetitions // of + (at < plan.repetitions % of)
    return replace(plan, budget_s=plan.budget_s / of, repetitions=max(repetitions, 1), with_host=with_host)
