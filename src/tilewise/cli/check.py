"""``tilewise check``: check the lessons against ``tilewise.course.rules``, and their records.

In: the project in the current folder. Out: one line per fault. Lessons that measure something are run on the
simulator, because the keys of their records are known only then. A stale record that needs no GPU, such as
NVRTC's reports, is a fault too. Entries of ``pending.json``, records that are stale on one of several
machines, and keys to renew are listed, but are no faults.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewise.build.playback import LessonFile, find_lesson, on_the_simulator, play, project_lessons
from tilewise.course.lesson import read
from tilewise.course.rules import checked_course, every_rule, form_faults
from tilewise.course.rules.language import page_faults
from tilewise.course.rules.records import unexplained
from tilewise.errors import LessonError
from tilewise.measurements.archive import TEXT_ENDING, Archive, lesson_root
from tilewise.measurements.compiled_kernels import kernel_faults
from tilewise.measurements.current import renewed, text_holds
from tilewise.measurements.experiment import handled_by
from tilewise.measurements.output import Measurement
from tilewise.measurements.pending import (
    COMMAND,
    Entry,
    entry_of,
    list_faults,
    pending_path,
    read_pending,
    text_name,
)
from tilewise.measurements.record import read_record, read_text_record
from tilewise.measurements.report import assemble, choose, staleness
from tilewise.measurements.validation_file import FOLDER

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from tilewise.measurements.experiment import Experiment
    from tilewise.measurements.record import Record, TextRecord


def check(arguments: Namespace) -> int:
    """Lint the project's lessons and records; with ``--rules`` print the rules.

    If lessons are named, only these are run, which takes the most time. The order of lessons and the validity
    of records are checked for all.

    Returns:
        0 if nothing is wrong, else 1.

    Raises:
        LessonError: a name is no lesson.
    """
    if arguments.rules:
        print("\n".join(f"{rule.name}: {rule.sentence}" for rule in every_rule()))
        return 0
    root = lesson_root()
    archive = Archive(root)
    faults = [*course_faults(root), *record_faults(archive)]
    findings = _Findings(archive)
    every = project_lessons(root)
    try:
        findings.listed.update(read_pending(archive))
    except LessonError as error:
        faults.append(str(error))
    names = [find_lesson(name, root).id for name in arguments.lessons] or every
    for name in names:
        try:
            lesson = find_lesson(name, root)
        except LessonError as error:
            faults.append(str(error))
            continue
        findings.texts(lesson)
        faults += findings.experiments(lesson)
    faults += map(str, list_faults(archive, findings.listed, findings.current, set(every) - set(names)))
    faults += _kernel_faults(root, names)
    faults = [*findings.stale, *faults]
    for line in faults:
        print(line, file=sys.stderr)
    for line in findings.notes:
        print(line)
    which = f"{len(names)} of {len(every)} lessons" if arguments.lessons else f"{len(every)} lessons"
    print(f"{which}, {len(faults)} faults")
    return 1 if faults else 0


def course_faults(root: Path) -> list[str]:
    """Violations of the rules in the sources of lessons and docs/ pages, a line each."""
    nav_file = root.parent / "mkdocs.yml"
    try:
        from mkdocs.utils.yaml import yaml_load

        from tilewise.build import navigation
    except ImportError as error:
        return [f"mkdocs.yml: the order of the lessons cannot be checked: {error}. Run make serve once."]
    if not nav_file.is_file():
        return [f"{nav_file.name}: there is no such file. It orders the lessons."]
    lessons, faults = {}, list[LessonError]()
    for name in project_lessons(root):
        try:
            lessons[name] = read(root / f"{name}.py", root.parent)
        except LessonError as error:
            faults += error.errors
    with nav_file.open("rb") as stream:
        nav = navigation.read(yaml_load(stream).get("nav"), nav_file, nav_file.name)
    if not faults:
        try:
            faults += form_faults(nav, checked_course(nav, lessons))
        except LessonError as error:
            faults += error.errors
    for page in sorted((root.parent / "docs").rglob("*.md")):
        path = page.relative_to(root.parent).as_posix()
        faults += page_faults(path, page.read_text(encoding="utf-8"))
    return list(map(str, faults))


def record_faults(archive: Archive) -> list[str]:
    """Invalid records, a line each."""
    faults = []
    for device in archive.devices:
        for path in sorted((archive.folder / device).iterdir()):
            try:
                if path.name.endswith(TEXT_ENDING):
                    read_text_record(path, archive.shown(path))
                elif path.suffix == ".json":
                    read_record(path, archive.shown(path))
                else:
                    faults.append(f"{archive.shown(path)}: this is no record. Take it out.")
            except LessonError as error:
                faults.append(str(error))
    return faults


def _kernel_faults(root: Path, lessons: Sequence[str]) -> list[str]:
    """Kernels missing from the record of compiled kernels, or with undeclared spills.

    Lessons run as in a build, unless their cached results are valid.
    """
    from tilewise.build.run.runner import Runner
    from tilewise.course.lesson import read
    from tilewise.simulator.compile.toolchain import cache_folder

    project = root.resolve().parent
    if not (project / FOLDER).is_dir():
        return []
    faults: list[LessonError] = []
    kernels: dict[str, Sequence[Mapping[str, Any]]] = {}
    with Runner(project, cache_folder()) as runner:
        for name in lessons:
            try:
                kernels[name] = runner.run(read(root / f"{name}.py", project)).launches
            except LessonError as error:
                faults += error.errors
    try:
        faults += kernel_faults(root, kernels)
    except LessonError as error:
        faults += error.errors
    return list(map(str, faults))


@dataclass
class _Findings:
    """The findings of a check about records."""

    archive: Archive
    """The records' archive."""
    listed: dict[str, Entry] = field(default_factory=dict)
    """Pending entries."""
    current: dict[str, bool] = field(default_factory=dict)
    """Whether each experiment or text has a current record, by name."""
    stale: list[str] = field(default_factory=list)
    """Those that have none and are not pending, a line each."""
    notes: dict[str, None] = field(default_factory=dict)
    """Lines about what is no fault."""

    def texts(self, lesson: LessonFile) -> None:
        """Check the records of a lesson's printed texts."""
        for cell in (cell for cell in lesson.cells if cell.record):
            before, name = lesson.code_before(cell), text_name(lesson.id, cell.record)
            self.current[name] = False
            try:
                record = self.archive.text_record(lesson.id, cell.record, cell.source, before=before)
            except LessonError:
                continue  # reported by record_faults
            self.current[name] = record is not None and not record.stale
            what = "has no record yet" if record is None else "has changed since it was recorded"
            repair = f"Record it on a GPU: tilewise record {lesson.id}"
            self._look(name, f'{cell}: the cell "{cell.record}" {what}.', repair, record)
            for device in self.archive.devices:
                path = self.archive.text_path(lesson.id, cell.record, device)
                shown = self.archive.shown(path)
                if not path.is_file() or (record is not None and record.path == shown):
                    continue
                with suppress(LessonError):  # reported by record_faults
                    if not text_holds(read_text_record(path, shown), cell.source, before):
                        self.notes[f"{shown}: the cell has changed since this was recorded. {repair}"] = None

    def experiments(self, lesson: LessonFile) -> list[str]:
        """Check the records of a lesson's experiments; return its other failures, a line each."""
        faults: list[str] = []

        def handle(experiment: Experiment) -> Measurement:
            shown = choose(experiment, self.archive)
            self.current[experiment.name] = shown.stale is None
            measurement = assemble(experiment, shown.record, stale=shown.stale)
            where = f"{experiment.path}:{experiment.line}"
            if shown.stale:
                self._look(experiment.name, f"{where}: {shown.stale.why}", shown.stale.repair, shown.record)
            else:
                missed = unexplained(measurement, lesson.headings(), experiment.path, experiment.line)
                faults.extend(str(fault) for fault in missed)
            for record in self.archive.on_each(experiment.name):
                again = staleness(experiment, record)
                device = record.provenance["device"]
                if again and (shown.record is None or device != shown.record.provenance["device"]):
                    self.notes[f"{where}: {again} ({device})"] = None
                if replace(renewed(experiment, record), checksum="") != replace(record, checksum=""):
                    shown_path = self.archive.shown(self.archive.path(experiment.name, device))
                    self.notes[
                        f"{shown_path}: its keys or labels are not those of now, though it "
                        f"holds. Renew them, without a GPU: {COMMAND} {experiment.lesson}"
                    ] = None
            return measurement

        if lesson.experiments():
            self.current |= dict.fromkeys(lesson.experiments(), False)
            with on_the_simulator(), handled_by(handle):
                faults += [f"{failure.place}: {failure.message}" for failure in play(lesson)]
        return faults

    def _look(self, name: str, why: str, repair: str, record: Record | TextRecord | None) -> None:
        """Note an entry without a current record, as pending or stale."""
        if self.current[name]:
            return
        entry = self.listed.get(name)
        if entry is None:
            self.stale.append(f"{why} {repair}")
        elif entry.date != entry_of(entry.lesson, record, "").date:
            path = self.archive.shown(pending_path(self.archive))
            self.stale.append(
                f"{path}: {name} is listed with the date of another record. Renew it: {COMMAND}"
            )
        else:
            self.notes[f"{why} It is listed as pending. {repair}"] = None
