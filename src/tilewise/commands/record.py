"""``tilewise record``: time the experiments of lessons on this machine's GPU and write their records.

In: lessons, by id or path. Out: record files and lines of progress on stdout. What was recorded before and is
still current is left alone, so that an interrupted run goes on where it stopped. With ``--stale`` the lessons
are looked through first, and nothing is timed, run or shown but what has no current record of this GPU.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from tilewise.commands.progress import Display
from tilewise.errors import LessonError
from tilewise.gpu.counters import find_ncu
from tilewise.gpu.device import gpu_fault, gpu_wanted
from tilewise.gpu.timing import Plan
from tilewise.measurements.archive import Archive, lesson_root
from tilewise.measurements.counting import Simulated
from tilewise.measurements.fresh import RoundChild, RoundOver
from tilewise.measurements.hardware import CountingChild, count_lesson, counting_fault, with_counters
from tilewise.measurements.playback import (
    Failure,
    LessonFile,
    find_lesson,
    missing_needs,
    play,
    project_lessons,
)
from tilewise.measurements.record import RecordError, write_record
from tilewise.measurements.recorder import Laboratory, Recorder
from tilewise.measurements.report import assemble
from tilewise.measurements.session import handled_by
from tilewise.measurements.troubles import RecordingStopped, counters_refused

if TYPE_CHECKING:
    from tilewise.lesson.model import Cell
    from tilewise.measurements.experiment import Experiment
    from tilewise.measurements.output import Measurement

BESIDE_S = 20.0
"""Seconds that recording takes beside the samples: compiling, checking answers, the processes of further
rounds. A first guess, which counts only until something is done."""


def record(
    lessons: Sequence[str],
    counters: bool,
    out: str | None,
    force: bool,
    budget_s: float,
    rounds: int | None = None,
    add: bool = False,
    only: Sequence[str] = (),
    repetitions: int = 200,
    stale: bool = False,
) -> int:
    """Record lessons.

    Args:
        lessons: ids or paths; ``all`` for every lesson of the project, as is none with ``stale``.
        counters: whether to count with Nsight Compute afterwards.
        out: the folder that gets a folder a device; ``lessons/measurements`` where not given.
        force: whether to record anew what is current.
        budget_s: timed seconds for one contender, at most, over all rounds.
        rounds: how many rounds to take, each after the first in a process of its own; None: three, and of
            an experiment whose first takes long that one alone.
        add: whether to add rounds to what is current.
        only: names of the experiments and texts to record; all where not given.
        repetitions: how often to time one contender, at most, over all rounds.
        stale: whether to find out first what has no current record of this GPU, and record that alone.

    Returns:
        0 where every experiment of the lessons that is wanted has a current record now, else 1.
    """
    if rounds is not None and rounds < 1:
        raise LessonError("tilewise record", 0, f"{rounds} rounds are none.", "Give --rounds 1 or more.")
    if repetitions < 1:
        message, again = f"{repetitions} repetitions time nothing.", "Give --repetitions 1 or more."
        raise LessonError("tilewise record", 0, message, again)
    if add and force:
        message = "--add keeps the rounds that are there, and --force replaces them."
        raise LessonError("tilewise record", 0, message, "Give one of them.")
    if stale and (add or force or only):
        message, again = "--stale chooses by itself what to record.", "Leave --add, --force and --only out."
        raise LessonError("tilewise record", 0, message, again)
    _need_gpu()
    if counters:
        _need_counters()
    root = lesson_root()
    archive = Archive(root)
    names = project_lessons(root) if list(lessons) in ([], ["all"]) else tuple(lessons)
    found = [find_lesson(name, root) for name in names]
    _must_be_there(only, found)
    laboratory = Laboratory()
    stream = sys.__stdout__ or sys.stdout
    folder = Path(out).absolute() if out else archive.folder
    plan = Plan(budget_s=budget_s, repetitions=repetitions)

    def recorder_of(lesson: LessonFile, wanted: Sequence[str], display: Display) -> Recorder:
        return Recorder(
            *(archive, folder, laboratory, plan, display, lesson.file, force, rounds, add),
            only=frozenset(wanted),
        )

    chosen = {lesson.id: tuple(only) for lesson in found}
    expected_s: dict[str, float] = {}
    if stale:
        display = Display(stream, len(found))
        for lesson in found:
            display.begin(f"looking through {lesson.id}")
            chosen[lesson.id] = _stale(lesson, recorder_of(lesson, (), display))
            display.end()
        found = [lesson for lesson in found if chosen[lesson.id]]
        expected_s = _expected_s(archive, [(one, chosen[one.id]) for one in found], laboratory.name)
    things = sum(_things(lesson, chosen[lesson.id]) for lesson in found)
    display = Display(stream, things, expected_s=expected_s)
    display(f"recording on {laboratory.name}" if things else f"nothing is stale on {laboratory.name}")
    status = 0
    try:
        for at, lesson in enumerate(found, start=1):
            display(f"[{at}/{len(found)}] {lesson.id}")
            recorder = recorder_of(lesson, chosen[lesson.id], display)
            status = max(status, _record_lesson(lesson, recorder, counters, display))
    except RecordingStopped as stopped:
        display(f"  stopped: {stopped.fault}")
        status = 1
    return status


def _stale(lesson: LessonFile, recorder: Recorder) -> tuple[str, ...]:
    """The experiments and texts of a lesson that have no current record of this GPU.

    The lesson is played, untimed; experiments that a failing cell keeps it from are among them.
    """
    current: list[str] = []

    def handle(experiment: Experiment) -> Measurement:
        kept = recorder.current(experiment)
        if kept is not None:
            current.append(experiment.name)
        return assemble(experiment, Simulated({}), kept, None, (), ())

    if lesson.experiments():
        with handled_by(handle):
            play(lesson, wanted=lambda text: False)
    texts = [cell.record for cell in lesson.cells if cell.record and not recorder.current_text(lesson, cell)]
    return (*(name for name in lesson.experiments() if name not in current), *texts)


def _expected_s(
    archive: Archive, chosen: Sequence[tuple[LessonFile, Sequence[str]]], device: str
) -> dict[str, float]:
    """How many seconds the chosen experiments and texts should take, by what the display calls them.

    An experiment should take as long as the samples of its last record add up to, on this device or else on
    another, and ``BESIDE_S``. One without a record should take what the others do on average, and a text
    ``BESIDE_S``. The display corrects all that by how long what is done took.
    """
    timed_s: dict[str, float | None] = {}
    for lesson, names in chosen:
        for name in (one for one in lesson.experiments() if one in names):
            with suppress(RecordError):  # it is recorded anew
                kept = next(archive.on_each(name, device), None)
                rows = kept.rows if kept else ()
                timed_s[_title(lesson, name)] = (
                    sum(sum(row.samples_us) for row in rows) / 1e6 if rows else None
                )
    known = [taken for taken in timed_s.values() if taken is not None]
    usual = sum(known) / len(known) if known else 0.0
    texts = {
        _title(lesson, text=name): 0.0 for lesson, names in chosen for name in _texts(lesson) if name in names
    }
    experiments = {what: usual if taken is None else taken for what, taken in timed_s.items()}
    return {what: BESIDE_S + taken for what, taken in (experiments | texts).items()}


def _title(lesson: LessonFile, experiment: str = "", text: str = "") -> str:
    """What the display calls an experiment or a text."""
    return f"{lesson.id}: {experiment}" if experiment else f"{lesson.id}: the text {text}"


def _must_be_there(only: Sequence[str], lessons: Sequence[LessonFile]) -> None:
    """Refuse a name that none of the lessons measures or prints under."""
    names = [name for lesson in lessons for name in (*lesson.experiments(), *_texts(lesson))]
    for name in only:
        if name not in names:
            there = ", ".join(lesson.id for lesson in lessons)
            message = f'"{name}" is neither an experiment nor a text record of {there}.'
            raise LessonError("tilewise record", 0, message, f"Give one of: {', '.join(names)}.")


def _texts(lesson: LessonFile) -> tuple[str, ...]:
    return tuple(cell.record for cell in lesson.cells if cell.record)


def _things(lesson: LessonFile, only: Sequence[str]) -> int:
    """How much there is to record in a lesson: experiments and texts."""
    return sum(not only or name in only for name in (*lesson.experiments(), *_texts(lesson)))


def _need_gpu() -> None:
    fault = gpu_fault() if gpu_wanted() else "TILEWISE_BACKEND or TILEWISE_BUILD rules the GPU out."
    if fault is not None:
        repair = "Run it on a machine with an NVIDIA GPU, NumPy and CuPy."
        raise LessonError("tilewise record", 0, f"there is no GPU to record on. {fault}", repair)


def _need_counters() -> None:
    """Refuse before anything is timed where counters were asked for and cannot be had."""
    ncu = find_ncu()
    if ncu is None:
        message, repair = (
            "Nsight Compute (ncu) is not here, so there would be no counters.",
            "Install it, put ncu on the path, or leave --counters out.",
        )
    elif (said := counting_fault(ncu)) is not None:
        message, repair = counters_refused(said)
    else:
        return
    raise LessonError("tilewise record", 0, f"{message} Nothing was recorded.", repair)


def _record_lesson(lesson: LessonFile, recorder: Recorder, counters: bool, say: Display) -> int:
    seen: list[Experiment] = []

    def handle(experiment: Experiment) -> Measurement:
        if not recorder.wanted(experiment.name):
            return recorder(experiment)
        seen.append(experiment)
        say.begin(_title(lesson, experiment.name))
        try:
            return recorder(experiment)
        finally:
            say.end()

    def text(cell: Cell, printed: str) -> None:
        say.begin(_title(lesson, text=cell.record))
        recorder.record_text(lesson, cell, printed)
        say.end()

    with handled_by(handle):
        failures = play(lesson, text, recorder.wanted)
    for failure in failures:
        say(f"  failed: {failure.place}: {failure.message}")
    wanted = [name for name in lesson.experiments() if recorder.wanted(name)]
    missing = [name for name in wanted if name not in recorder.done]
    for name in missing:
        say(f"  not recorded: {name}")
    texts = [
        cell
        for cell in lesson.cells
        if cell.record and recorder.wanted(cell.record) and cell.record not in recorder.texts
    ]
    for cell in texts:
        lacking = ", ".join(missing_needs(cell)) or "see above"
        say(f"  not recorded: {cell}, the text {cell.record} (missing here: {lacking})")
    say.end(len([name for name in missing if name not in {one.name for one in seen}]) + len(texts))
    done = [one for one in seen if one.name in recorder.done]
    if counters and not _add_counters(lesson, recorder, done, say):
        return 1
    return 1 if missing or texts or recorder.failed else 0


def _add_counters(lesson: LessonFile, recorder: Recorder, seen: Sequence[Experiment], say: Display) -> bool:
    """Count what has no counters yet; whether all of it has them now."""
    wanted = {}
    for experiment in seen:
        kept = recorder.current(experiment)
        if experiment.count_case is None or kept is None:
            continue
        if recorder.force or not any(row.counters for row in kept.rows):
            wanted[experiment.name] = (experiment, kept)
    if not wanted:
        return True
    ncu = find_ncu()
    assert ncu is not None, "_need_counters has found it"
    say(f"  counting {', '.join(wanted)} with Nsight Compute")
    try:
        counted = count_lesson(ncu, str(lesson.file), list(wanted))
    except (ValueError, OSError, subprocess.TimeoutExpired) as error:
        why = " ".join(counters_refused(str(error)))
        say(f"  not counted: {why} The times stand; the same command goes on from here.")
        return False
    for name, (experiment, kept) in wanted.items():
        if name in counted:
            write_record(with_counters(kept, experiment, counted[name]), recorder.path(name))
            say(f"  {name}: counters of {len(counted[name])} variants")
    return set(wanted) <= set(counted)


def count_child(lesson: str, manifest: str, experiments: Sequence[str]) -> int:
    """The child of ``record --counters``: replay a lesson, its count cases observed."""
    found = find_lesson(lesson, lesson_root(lesson))
    with handled_by(CountingChild(experiments, Path(manifest))):
        failures = play(found)
    for failure in failures:
        print(f"{failure.place}: {failure.message}", file=sys.stderr)
    return 0


def round_child(lesson: str, experiment: str, out: str, plan: Plan) -> int:
    """The child of ``record`` for a round: play a lesson up to one experiment, which is timed."""
    root = lesson_root(lesson)
    found = find_lesson(lesson, root)
    told = sys.__stdout__ or sys.stdout
    failures: Sequence[Failure] = ()
    with handled_by(RoundChild(experiment, plan, Path(out), told, Archive(root))), suppress(RoundOver):
        failures = play(found, wanted=lambda text: False)
    for failure in failures:
        print(f"{failure.place}: {failure.message}", file=sys.stderr)
    return 0 if Path(out).is_file() else 1
