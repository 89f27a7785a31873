"""``tilewise record``: time the experiments of lessons on this machine's GPU and write their records.

In: lessons, by id or path. Out: record files and lines of progress on stdout. Current records of this GPU are
skipped, so an interrupted run resumes where it stopped.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from argparse import Namespace
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewise.build.playback import Failure, LessonFile, find_lesson, missing_needs, play, project_lessons
from tilewise.cli.pending import pending
from tilewise.errors import LessonError
from tilewise.gpu.counters import find_ncu
from tilewise.gpu.device import gpu_fault, gpu_wanted
from tilewise.measurements.archive import Archive, lesson_root
from tilewise.measurements.counter_process import count_lesson, launch_variants, with_counters
from tilewise.measurements.experiment import handled_by
from tilewise.measurements.problems import RecordingStopped
from tilewise.measurements.profiling import ProfileOver, observing
from tilewise.measurements.record import write_record
from tilewise.measurements.recorder import GpuSession, Recorder
from tilewise.measurements.report import assemble
from tilewise.measurements.round_process import RoundOver, time_round

if TYPE_CHECKING:
    from tilewise.course.model import Cell
    from tilewise.measurements.experiment import Experiment
    from tilewise.measurements.output import Measurement


def say(line: str) -> None:
    """Print a line with the time of day, even while a lesson is played and its output is captured."""
    print(f"{time.strftime('%H:%M:%S')} {line}", file=sys.__stdout__ or sys.stdout, flush=True)


def record(arguments: Namespace) -> int:
    """Record everything without a current record of this GPU; with ``--pending`` list it.

    Returns:
        0 if every requested experiment and text now has a current record, else 1.
    """
    if arguments.pending:
        return pending(arguments.lessons)
    rounds = arguments.rounds
    if rounds is not None and rounds < 1:
        raise LessonError("tilewise record", 0, f"{rounds} rounds are none.", "Give --rounds 1 or more.")
    _need_gpu()
    ncu = _need_ncu() if arguments.counters else ""
    root = lesson_root()
    lessons = [find_lesson(name, root) for name in arguments.lessons or project_lessons(root)]
    _need_names(arguments.only, lessons)
    session = GpuSession()
    say(f"recording on {session.name}")
    status = 0
    for at, lesson in enumerate(lessons, start=1):
        say(f"[{at}/{len(lessons)}] {lesson.id}")
        recorder = Recorder(
            Archive(root), session, say, lesson, arguments.force, rounds, frozenset(arguments.only)
        )
        try:
            status = max(status, _record_lesson(recorder, ncu))
        except RecordingStopped as stopped:
            say(f"  stopped: {stopped.fault}")
            return 1
    return status


def _need_gpu() -> None:
    fault = gpu_fault() if gpu_wanted() else "TILEWISE_BACKEND or TILEWISE_BUILD rules the GPU out."
    if fault is not None:
        repair = "Run it on a machine with an NVIDIA GPU, NumPy and CuPy."
        raise LessonError("tilewise record", 0, f"there is no GPU to record on. {fault}", repair)


def _need_ncu() -> str:
    ncu = find_ncu()
    if ncu is None:
        message = "Nsight Compute (ncu) is not here, so there would be no counters. Nothing was recorded."
        repair = "Install it, put ncu on the path, or leave --counters out."
        raise LessonError("tilewise record", 0, message, repair)
    return ncu


def _need_names(only: Sequence[str], lessons: Sequence[LessonFile]) -> None:
    """Refuse a name that is no experiment or text record of the lessons."""
    names = [name for lesson in lessons for name in (*lesson.experiments(), *_texts(lesson))]
    for name in only:
        if name not in names:
            there = ", ".join(lesson.id for lesson in lessons)
            message = f'"{name}" is neither an experiment nor a text record of {there}.'
            raise LessonError("tilewise record", 0, message, f"Give one of: {', '.join(names)}.")


def _texts(lesson: LessonFile) -> dict[str, Cell]:
    return {cell.record: cell for cell in lesson.cells if cell.record}


def _record_lesson(recorder: Recorder, ncu: str) -> int:
    """Record a lesson; 1 if something requested still has no current record, else 0."""
    lesson = recorder.lesson
    texts = {name: cell for name, cell in _texts(lesson).items() if recorder.wanted(name)}
    if not recorder.force:
        texts = {name: cell for name, cell in texts.items() if not recorder.text_is_current(cell)}
    experiments = [name for name in lesson.experiments() if recorder.wanted(name)]
    if not texts and not experiments:
        return 0
    seen: list[Experiment] = []

    def handle(experiment: Experiment) -> Measurement:
        seen.append(experiment)
        return recorder(experiment)

    with handled_by(handle):
        failures = play(lesson, recorder.record_text, texts.__contains__)
    for failure in failures:
        say(f"  failed: {failure.place}: {failure.message}")
    missing = [name for name in (*experiments, *texts) if name not in recorder.done]
    for name in missing:
        lacking = ", ".join(missing_needs(texts[name])) if name in texts else ""
        say(f"  not recorded: {name}" + (f" (missing here: {lacking})" if lacking else ""))
    done = [experiment for experiment in seen if experiment.name in recorder.done]
    counted = not ncu or _add_counters(recorder, done, ncu)
    return 0 if counted and not missing and not recorder.failed else 1


def _add_counters(recorder: Recorder, seen: Sequence[Experiment], ncu: str) -> bool:
    """Count experiments without counters; return whether all have them now."""
    wanted = {}
    for experiment in seen:
        current = recorder.current(experiment)
        if experiment.count_case is None or current is None:
            continue
        if recorder.force or not any(row.counters for row in current.rows):
            wanted[experiment.name] = (experiment, current)
    if not wanted:
        return True
    say(f"  counting {', '.join(wanted)} with Nsight Compute")
    try:
        counted = count_lesson(ncu, str(recorder.lesson.file), list(wanted))
    except (ValueError, OSError, subprocess.TimeoutExpired) as error:
        say(f"  not counted: {error} The times are recorded; the same command goes on from here.")
        return False
    for name, (experiment, current) in wanted.items():
        if name in counted:
            path = recorder.archive.path(name, recorder.session.name)
            write_record(with_counters(current, experiment, counted[name]), path)
            say(f"  {name}: counters of {len(counted[name])} variants")
    return set(wanted) <= set(counted)


def count_child(arguments: Namespace) -> int:
    """The child of ``record --counters``: replay a lesson and observe its count cases."""
    entries: list[dict[str, Any]] = []

    def handle(experiment: Experiment) -> Measurement:
        if experiment.name in arguments.experiment and experiment.count_case is not None:
            entries.extend(launch_variants(experiment))
        return assemble(experiment, None)

    with handled_by(handle):
        lesson = find_lesson(arguments.lesson, lesson_root(arguments.lesson))
        _print_failures(play(lesson, wanted=lambda text: False))
    Path(arguments.manifest).write_text(json.dumps(entries), encoding="utf-8")
    return 0


def round_child(arguments: Namespace) -> int:
    """The child of ``record`` for a round: play a lesson up to one experiment and time it."""
    root, out = lesson_root(arguments.lesson), Path(arguments.out)
    lesson, archive = find_lesson(arguments.lesson, root), Archive(root)

    def handle(experiment: Experiment) -> Measurement:
        if experiment.name == arguments.experiment:
            time_round(experiment, (arguments.round, arguments.of), out, say)
        return assemble(experiment, archive.record(experiment.name))

    with handled_by(handle), suppress(RoundOver):
        _print_failures(play(lesson, wanted=lambda text: False))
    return 0 if out.is_file() else 1


def profile_child(arguments: Namespace) -> int:
    """The child of ``profiled``: play a lesson up to the cell of a text record and observe its calls."""
    root = lesson_root()
    lesson, archive = find_lesson(arguments.lesson, root), Archive(root)

    def handle(experiment: Experiment) -> Measurement:
        return assemble(experiment, archive.record(experiment.name))

    with handled_by(handle), observing(Path(arguments.labels)):
        try:
            _print_failures(play(lesson, wanted=lambda name: name == arguments.record))
        except ProfileOver:
            return 0
    return 1


def _print_failures(failures: Sequence[Failure]) -> None:
    for failure in failures:
        print(f"{failure.place}: {failure.message}", file=sys.stderr)
