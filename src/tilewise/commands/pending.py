"""``tilewise record --pending``: write the list of what has no current record on any machine.

In: lessons, by id or path, run on the simulator; no GPU. Out: ``lessons/measurements/pending.json``, with the
date and the commit of each record that is shown until there is a new one. Entries of other lessons stay; what
is current again goes.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from tilewise.measurements.archive import Archive, lesson_root
from tilewise.measurements.counting import Simulated
from tilewise.measurements.pending import (
    Entry,
    entry_of,
    pending_path,
    read_pending,
    text_name,
    write_pending,
)
from tilewise.measurements.playback import (
    Failure,
    LessonFile,
    find_lesson,
    on_the_simulator,
    play,
    project_lessons,
)
from tilewise.measurements.record import RecordError
from tilewise.measurements.report import assemble, choose
from tilewise.measurements.session import handled_by

if TYPE_CHECKING:
    from tilewise.measurements.experiment import Experiment
    from tilewise.measurements.output import Measurement


def pending(lessons: Sequence[str]) -> int:
    """Write the list.

    Args:
        lessons: ids or paths of those whose entries are written anew; all where none is given.

    Returns:
        0, or 1 where a lesson fails: its entries stay as they were.

    Raises:
        LessonError: there is no such lesson, or a text record cannot be believed.
    """
    archive = Archive(lesson_root())
    every = project_lessons(archive.root)
    asked = () if list(lessons) == ["all"] else lessons
    names = [find_lesson(name, archive.root).id for name in asked] or every
    before: dict[str, Entry] = {}
    try:
        before = read_pending(archive)
    except RecordError as error:
        print(f"{error.message} It is written anew.")
        names = every
    entries = {name: entry for name, entry in before.items() if entry.lesson in {*every} - {*names}}
    failed = 0
    for name in names:
        lesson = find_lesson(name, archive.root)
        found, failures = _of_lesson(lesson, archive)
        for failure in failures:
            print(f"{failure.place}: {failure.message}")
        if failures:
            found |= {entry: one for entry, one in before.items() if one.lesson == lesson.id}
        entries |= {entry: _known(one, before.get(entry)) for entry, one in found.items()}
        failed += len(failures)
    if entries != before or not pending_path(archive).is_file():
        write_pending(entries, archive)
    for name in sorted(entries.keys() | before.keys()):
        if name not in before or name not in entries:
            print(f"{'pending now' if name in entries else 'no longer pending'}: {name}")
    shown = archive.shown(pending_path(archive))
    print(f"{len(names)} lessons, {len(entries)} pending in {shown}, {failed} cells failed")
    return 1 if failed else 0


def _of_lesson(lesson: LessonFile, archive: Archive) -> tuple[dict[str, Entry], list[Failure]]:
    """What of a lesson has no current record, by name, and its cells that fail."""
    found: dict[str, Entry] = {}

    def handle(experiment: Experiment) -> Measurement:
        shown = choose(experiment, archive)
        if shown.stale:
            path = archive.find(experiment.name)
            found[experiment.name] = entry_of(lesson.id, shown.record, _commit(path))
        return assemble(experiment, Simulated({}), shown.record, shown.stale, (), ())

    for cell in (one for one in lesson.cells if one.record):
        before = lesson.code_before(cell)
        kept = archive.text_record(lesson.id, cell.record, cell.source, before=before)
        if kept is None or kept.stale:
            path = archive.root.parent / kept.path if kept else None
            found[text_name(lesson.id, cell.record)] = entry_of(lesson.id, kept, _commit(path))
    with on_the_simulator(), handled_by(handle):
        failures = play(lesson) if lesson.experiments() else []
    return found, failures


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
