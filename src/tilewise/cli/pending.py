"""``tilewise record --pending``: without a GPU, renew what a key proves and list what has to be recorded.

In: lessons, by id or path, run on the simulator. Out: records and predictions with the keys and labels of
now, with no figure changed; and ``lessons/measurements/pending.json``, which has the date and the commit of
each record that is shown until there is a new one. To be run after an edit and after another clang.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tilewise.build.playback import Failure, LessonFile, find_lesson, on_the_simulator, play, project_lessons
from tilewise.errors import LessonError
from tilewise.measurements.archive import Archive, lesson_root
from tilewise.measurements.current import current, renewed, renewed_text, text_holds
from tilewise.measurements.experiment import handled_by
from tilewise.measurements.pending import (
    Entry,
    entry_of,
    pending_path,
    read_pending,
    text_name,
    write_pending,
)
from tilewise.measurements.prediction import FOLDER, Moved, read_prediction, write_prediction
from tilewise.measurements.prediction import renewed as renewed_prediction
from tilewise.measurements.record import RecordError, read_record, read_text_record, write_record
from tilewise.measurements.report import assemble, choose
from tilewise.simulator.compile.toolchain import ToolchainError

if TYPE_CHECKING:
    from tilewise.measurements.experiment import Experiment
    from tilewise.measurements.output import Measurement


def pending(lessons: Sequence[str]) -> int:
    """Renew the keys and write the list.

    Args:
        lessons: ids or paths of those to look at; all where none is given. Entries of others stay.

    Returns:
        0, or 1 where a lesson fails: its entries stay as they were.

    Raises:
        LessonError: there is no such lesson, or a text record cannot be believed.
    """
    archive = Archive(lesson_root())
    every = project_lessons(archive.root)
    names = [find_lesson(name, archive.root).id for name in lessons] or every
    before: dict[str, Entry] = {}
    try:
        before = read_pending(archive)
    except RecordError as error:
        print(f"{error.message} It is written anew.")
        names = every
    entries = {name: entry for name, entry in before.items() if entry.lesson in {*every} - {*names}}
    moved: Moved = {}
    written: list[Path] = []
    failed = 0
    for name in names:
        lesson = find_lesson(name, archive.root)
        found, failures = _of_lesson(lesson, archive, moved, written)
        for failure in failures:
            print(f"{failure.place}: {failure.message}")
        if failures:
            found |= {entry: one for entry, one in before.items() if one.lesson == lesson.id}
        entries |= {entry: _known(one, before.get(entry)) for entry, one in found.items()}
        failed += len(failures)
    _renew_predictions(archive, moved)
    for path in written:
        print(f"renewed {archive.shown(path)}")
    if entries != before or not pending_path(archive).is_file():
        write_pending(entries, archive)
    for name in sorted(entries.keys() | before.keys()):
        if name not in before or name not in entries:
            print(f"{'pending now' if name in entries else 'no longer pending'}: {name}")
    shown = archive.shown(pending_path(archive))
    print(f"{len(names)} lessons, {len(entries)} pending in {shown}, {failed} cells failed")
    return 1 if failed else 0


def _of_lesson(
    lesson: LessonFile, archive: Archive, moved: Moved, written: list[Path]
) -> tuple[dict[str, Entry], list[Failure]]:
    """What of a lesson has no current record, by name, and its cells that fail; the rest is renewed."""
    found: dict[str, Entry] = {}

    def handle(experiment: Experiment) -> Measurement:
        written.extend(_renew(experiment, archive, moved))
        shown = choose(experiment, archive)
        if shown.stale:
            path = archive.find(experiment.name)
            found[experiment.name] = entry_of(lesson.id, shown.record, _commit(path))
        return assemble(experiment, shown.record, stale=shown.stale)

    written.extend(_renew_texts(lesson, archive))
    for cell in (one for one in lesson.cells if one.record):
        before = lesson.code_before(cell)
        kept = archive.text_record(lesson.id, cell.record, cell.source, before=before)
        if kept is None or kept.stale:
            path = archive.root.parent / kept.path if kept else None
            found[text_name(lesson.id, cell.record)] = entry_of(lesson.id, kept, _commit(path))
    with on_the_simulator(), handled_by(handle):
        failures = play(lesson) if lesson.experiments() else []
    return found, failures


def _renew(experiment: Experiment, archive: Archive, moved: Moved) -> Iterator[Path]:
    """Renew keys and labels of an experiment's records, and note which labels and keys became which."""
    for path in (archive.path(experiment.name, device) for device in archive.devices):
        if not path.is_file():
            continue
        old = read_record(path, archive.shown(path))
        now = current(experiment, old)
        for place, row in now.rows.items():
            if place not in now.stale:
                had = (experiment.name, now.labels[place], row.tokens)
                moved[had] = (place[0], experiment.tokens(place[0], row.case))
        made = renewed(experiment, old)
        if replace(made, checksum="") != replace(old, checksum=""):
            write_record(made, path)
            yield path


def _renew_texts(lesson: LessonFile, archive: Archive) -> Iterator[Path]:
    """Renew the keys of what a lesson's cells printed; a cell that moved here takes its records along."""
    yield from _move_texts(lesson, archive)
    for cell in (one for one in lesson.cells if one.record):
        for path in (archive.text_path(lesson.id, cell.record, device) for device in archive.devices):
            if not path.is_file():
                continue
            old = read_text_record(path, archive.shown(path))
            try:
                made = renewed_text(old, cell.source, lesson.code_before(cell))
            except ToolchainError:
                continue
            if made != old:
                write_record(made, path)
                yield path


def _move_texts(lesson: LessonFile, archive: Archive) -> Iterator[Path]:
    """Move what a cell printed when it was in another lesson that has no such cell any more."""
    for cell in (one for one in lesson.cells if one.record):
        for device in archive.devices:
            path = archive.text_path(lesson.id, cell.record, device)
            if path.is_file():
                continue
            for other in sorted(path.parent.glob(archive.text_path("*", cell.record, device).name)):
                old = read_text_record(other, archive.shown(other))
                left = old.name == cell.record and not _prints(old.lesson, cell.record, archive)
                if left and text_holds(old, cell.source, lesson.code_before(cell)):
                    write_record(replace(old, lesson=lesson.id), path)
                    other.unlink()
                    yield path
                    break


def _prints(lesson: str, name: str, archive: Archive) -> bool:
    """Whether there is such a lesson, and a cell of it has a text record of this name."""
    try:
        return any(cell.record == name for cell in find_lesson(lesson, archive.root).cells)
    except LessonError:
        return False


def _renew_predictions(archive: Archive, moved: Moved) -> None:
    for path in sorted((archive.root / FOLDER).glob("*.json")):
        old = read_prediction(path, archive.shown(path))
        made = renewed_prediction(old, moved)
        if made != old:
            write_prediction(made, path)


def _known(now: Entry, before: Entry | None) -> Entry:
    """An entry with the commit that it had, where git does not say one here."""
    same = before is not None and (now.lesson, now.date) == (before.lesson, before.date)
    return replace(now, commit=before.commit) if before and same and not now.commit else now


def _commit(path: Path | None) -> str:
    """The commit that last changed a file, abbreviated; empty without git, or where none has."""
    if path is None:
        return ""
    command = ["git", "-C", str(path.parent), "log", "-1", "--format=%h", "--abbrev=10", "--", path.name]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()
