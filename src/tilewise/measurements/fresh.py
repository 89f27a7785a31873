"""A round in a process of its own: the lesson played again up to one experiment, which is timed there.

In: a lesson's file, an experiment and a plan. Out: the rows of the round, or the trouble that the child met,
as if it had been met here. The child has its own inputs, arrays, modules and warm-up, and ends once it is
done. It tells how far it is in lines of JSON on its standard output.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from tilewise.errors import LessonError
from tilewise.gpu.device import State
from tilewise.gpu.timing import Plan
from tilewise.measurements.archive import Archive
from tilewise.measurements.counting import Simulated
from tilewise.measurements.record import Row, write_whole
from tilewise.measurements.report import assemble
from tilewise.measurements.troubles import KEPT, GpuTrouble, Trouble, explain, memory_of_gpu

if TYPE_CHECKING:
    from tilewise.measurements.bench import Bench
    from tilewise.measurements.experiment import Experiment
    from tilewise.measurements.output import Measurement

ROUNDS = 3
"""How many rounds a record has where nobody says otherwise."""
LONG_S = 60.0
"""Seconds above which the first round of an experiment stays alone then."""
TIME_LIMIT_S = 1800
"""How long one round may take."""
OURS = 2
"""The processes on the GPU that are ours while a child times: the child and the one that waits for it."""

Line = Callable[[Mapping[str, Any]], None]
"""Takes what a child tells on the way: ``{"tick": share}`` or ``{"say": line}``."""
Start = Callable[[list[str], Line], str]
"""Runs a command, hands its lines on, and returns how it ended in words, with what it said last."""


class RoundOver(BaseException):
    """Ends the child once its experiment is timed; no cell of a lesson may swallow it."""


class RoundChild:
    """The handler in the child: times one experiment and ends the play.

    Args:
        wanted: the experiment's name.
        plan: how long to go on.
        out: the file that gets the result.
        told: gets lines of JSON.
        archive: where the records of experiments before it are.
    """

    def __init__(self, wanted: str, plan: Plan, out: Path, told: TextIO, archive: Archive) -> None:
        self._wanted, self._plan, self._out, self._told = wanted, plan, out, told
        self._archive = archive

    def __call__(self, experiment: Experiment) -> Measurement:
        """Pass by what is not wanted; time what is, write the rows or the trouble, and end."""
        if experiment.name != self._wanted:
            record = self._archive.record(experiment.name)
            return assemble(experiment, Simulated({}), record, None, (), ())
        try:
            write_whole(self._timed(experiment), self._out)
        except LessonError as error:
            write_whole({"wrong": {"message": error.message, "repair": error.repair}}, self._out)
        except Exception as error:
            write_whole({"trouble": asdict(explain(error, "", memory_of_gpu()))}, self._out)
        raise RoundOver

    def _timed(self, experiment: Experiment) -> dict[str, Any]:
        from tilewise.measurements.bench import run_bench

        made = run_bench(
            experiment,
            self._plan,
            lambda line: self._tell({"say": line}),
            strict=True,
            tick=lambda share: self._tell({"tick": round(share, 4)}),
            own=OURS,
        )
        return {
            "rows": [row.to_dict() for row in made.rows],
            "notes": list(made.notes),
            "state": asdict(made.state),
        }

    def _tell(self, what: Mapping[str, Any]) -> None:
        print(json.dumps(what), file=self._told, flush=True)


@dataclass(frozen=True)
class Caller:
    """Who waits for a child."""

    say: Callable[[str], None]
    """Told, in a line, what is going on."""
    tick: Callable[[float], None]
    """Told the share of the round that is done."""

    def line(self, what: Mapping[str, Any]) -> None:
        """Hand on what a child told."""
        if "tick" in what:
            self.tick(float(what["tick"]))
        elif "say" in what:
            self.say(str(what["say"]))


def start(command: list[str], line: Line) -> str:
    """Run a child to its end and hand on what it tells; ``Start`` says the rest."""
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as errors:
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, errors="replace")
        assert child.stdout is not None
        try:
            for text in child.stdout:
                try:
                    told = json.loads(text)
                except ValueError:
                    continue
                if isinstance(told, dict):
                    line(told)
            status = child.wait(TIME_LIMIT_S)
        finally:
            if child.poll() is None:
                child.kill()
                child.wait()
            child.stdout.close()
        errors.seek(0)
        said = " ".join(errors.read().split())[-400:]
    how = f"was ended by signal {-status}" if status < 0 else f"ended with status {status}"
    return f"{how}{': ' + said if said else ', and said nothing'}"


def run_round(
    experiment: Experiment, file: Path, plan: Plan, caller: Caller, begin: Start | None = None
) -> Bench:
    """Time an experiment in a process of its own.

    Args:
        experiment: what to time, as this process knows it.
        file: its lesson's file.
        plan: how long to go on.
        caller: told how far it is.
        begin: ``start`` or a stand-in.

    Raises:
        LessonError: a contender gives a wrong answer there, or the lesson measures something else there.
        GpuTrouble: the child met one, or ended without a result.
    """
    from tilewise.measurements.bench import Bench

    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "round.json")
        command = [
            *(sys.executable, "-m", "tilewise", "round-child", str(file)),
            *("--experiment", experiment.name, "--out", str(out)),
            *("--budget", str(plan.budget_s), "--repetitions", str(plan.repetitions)),
            *(("--with-host",) if plan.with_host else ()),
        ]
        ended = (begin or start)(command, caller.line)
        body = json.loads(out.read_text(encoding="utf-8")) if out.is_file() else None
    if body is None:
        raise GpuTrouble(Trouble(f"a round of its own process gave no times: it {ended}. {KEPT}", ""))
    if "trouble" in body:
        raise GpuTrouble(Trouble(**body["trouble"]))
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
    return Bench(rows, tuple(body["notes"]), state)


def take_rounds(
    experiment: Experiment,
    file: Path,
    plan: Plan,
    wanted: int | None,
    caller: Caller,
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[Bench]:
    """Time an experiment in rounds: the first in this process, each other one in a process of its own.

    Args:
        experiment: what to time.
        file: its lesson's file.
        plan: how long to go on in all; the rounds share its repetitions and its budget.
        wanted: how many rounds; None: ``ROUNDS``, of an experiment whose first is long that one alone.
        caller: told how far it is.
        clock: seconds; for tests.

    Yields:
        Each round, once it is done.

    Raises:
        LessonError: a contender gives a wrong answer, or the lesson measures something else the second time.
        GpuTrouble: times in one of the rounds would not be worth keeping.
    """
    from tilewise.measurements.bench import run_bench

    rounds = ROUNDS if wanted is None else wanted
    began = clock()
    for at in range(rounds):
        part = Caller(caller.say, partial(_part, caller.tick, at, rounds))
        share = _share(plan, at, rounds, experiment.with_host)
        if at:
            caller.say(f"{experiment.name}: round {at + 1} of {rounds}, in a process of its own")
            yield run_round(experiment, file, share, part)
            continue
        made = run_bench(experiment, share, caller.say, strict=True, tick=part.tick)
        spent_s = clock() - began
        yield made
        if wanted is None and spent_s > LONG_S:
            caller.say(f"{experiment.name}: its first round took {spent_s:.0f} s and stays alone")
            break


def _part(tick: Callable[[float], None], at: int, of: int, share: float) -> None:
    tick((at + share) / of)


def _share(plan: Plan, at: int, of: int, with_host: bool) -> Plan:
    """The part of a plan that one of so many rounds has."""
    repetitions = plan.repetitions // of + (at < plan.repetitions % of)
    return replace(plan, budget_s=plan.budget_s / of, repetitions=max(repetitions, 1), with_host=with_host)
