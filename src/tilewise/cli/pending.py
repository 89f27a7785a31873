"""``tilewise record --pending``: without a GPU, renew keys and list what must be recorded.

In: lessons, by id or path, run on the simulator. Out: records and predictions with current keys and labels,
but the same numbers; and ``lessons/measurements/pending.json``, with the date and commit of each stale record
that is still shown. Run it after an edit and after an update of clang.
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
        lessons: ids or paths of lessons; all if empty. Entries of others stay.

    Returns:
        0, or 1 if a lesson fails: its entries stay unchanged.

    Raises:
        LessonError: there is no such lesson, or a text record is invalid.
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
        stale, failures = _of_lesson(lesson, archive, moved, written)
        for failure in failures:
            print(f"{failure.place}: {failure.message}")
        if failures:
            stale |= {key: entry for key, entry in before.items() if entry.lesson == lesson.id}
        entries |= {key: _with_commit(entry, before.get(key)) for key, entry in stale.items()}
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
    """A lesson's entries without a current record, by name, and its failing cells; renews the rest."""
    entries: dict[str, Entry] = {}

    def handle(experiment: Experiment) -> Measurement:
        written.extend(_renew(experiment, archive, moved))
        shown = choose(experiment, archive)
        if shown.stale:
            path = archive.find(experiment.name)
            entries[experiment.name] = entry_of(lesson.id, shown.record, _commit(path))
        return assemble(experiment, shown.record, stale=shown.stale)

    written.extend(_renew_texts(lesson, archive))
    for cell in (cell for cell in lesson.cells if cell.record):
        before = lesson.code_before(cell)
        record = archive.text_record(lesson.id, cell.record, cell.source, before=before)
        if record is None or record.stale:
            path = archive.root.parent / record.path if record else None
            entries[text_name(lesson.id, cell.record)] = entry_of(lesson.id, record, _commit(path))
    with on_the_simulator(), handled_by(handle):
        failures = play(lesson) if lesson.experiments() else []
    return entries, failures


def _renew(experiment: Experiment, archive: Archive, moved: Moved) -> Iterator[Path]:
    """Renew keys and labels of an experiment's records, and add the changed ones to `moved`."""
    for path in (archive.path(experiment.name, device) for device in archive.devices):
        if not path.is_file():
            continue
        old = read_record(path, archive.shown(path))
        now = current(experiment, old)
        for place, row in now.rows.items():
            if place not in now.stale:
                old_key = (experiment.name, now.labels[place], row.tokens)
                moved[old_key] = (place[0], experiment.tokens(place[0], row.case))
        record = renewed(experiment, old)
        if replace(record, checksum="") != replace(old, checksum=""):
            write_record(record, path)
            yield path


def _renew_texts(lesson: LessonFile, archive: Archive) -> Iterator[Path]:
    """Renew the keys of a lesson's text records; those of cells that moved here move too."""
    yield from _move_texts(lesson, archive)
    for cell in (cell for cell in lesson.cells if cell.record):
        for path in (archive.text_path(lesson.id, cell.record, device) for device in archive.devices):
            if not path.is_file():
                continue
            old = read_text_record(path, archive.shown(path))
            try:
                new = renewed_text(old, cell.source, lesson.code_before(cell))
            except ToolchainError:
                continue
            if new != old:
                write_record(new, path)
                yield path


def _move_texts(lesson: LessonFile, archive: Archive) -> Iterator[Path]:
    """Move the text records of cells that moved here from another lesson."""
    for cell in (cell for cell in lesson.cells if cell.record):
        for device in archive.devices:
            path = archive.text_path(lesson.id, cell.record, device)
            if path.is_file():
                continue
            for source in sorted(path.parent.glob(archive.text_path("*", cell.record, device).name)):
                old = read_text_record(source, archive.shown(source))
                is_moved = old.name == cell.record and not _prints(old.lesson, cell.record, archive)
                if is_moved and text_holds(old, cell.source, lesson.code_before(cell)):
                    write_record(replace(old, lesson=lesson.id), path)
                    source.unlink()
                    yield path
                    break


def _prints(lesson: str, name: str, archive: Archive) -> bool:
    """Whether a lesson exists and has a cell with a text record of this name."""
    try:
        return any(cell.record == name for cell in find_lesson(lesson, archive.root).cells)
    except LessonError:
        return False


def _renew_predictions(archive: Archive, moved: Moved) -> None:
    for path in sorted((archive.root / FOLDER).glob("*.json")):
        old = read_prediction(path, archive.shown(path))
        new = renewed_prediction(old, moved)
        if new != old:
            write_prediction(new, path)


def _with_commit(now: Entry, before: Entry | None) -> Entry:
    """An entry with its earlier commit if git does not know one here."""
    same = before is not None and (now.lesson, now.date) == (before.lesson, before.date)
    return replace(now, commit=before.commit) if before and same and not now.commit else now


def _commit(path: Path | None) -> str:
    """The abbreviated last commit of a file; empty without git or without a commit."""
    if path is None:
        return ""
    command = ["git", "-C", str(path.parent), "log", "-1", "--format=%h", "--abbrev=10", "--", path.name]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip()
