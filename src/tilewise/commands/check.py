"""``tilewise check``: lint the lessons and their records.

In: the project in the current folder. Out: one line a fault. Lessons that measure something are run on the
simulator, since its records' keys are known only then; with ``--allow-stale`` what is stale is listed, not
failed. What needs no GPU to record, such as what NVRTC reports of a kernel, is a fault either way. Listed,
and no fault, are keys to be renewed and kernels whose records rest on their tokens alone.
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tilewise.errors import LessonError
from tilewise.hardware.lessons import COURSE, launches
from tilewise.hardware.resources import kernel_faults
from tilewise.measurements.archive import TEXT_ENDING, Archive, lesson_root
from tilewise.measurements.counting import Simulated
from tilewise.measurements.current import current, renewed
from tilewise.measurements.output import Measurement
from tilewise.measurements.playback import LessonFile, find_lesson, on_the_simulator, play, project_lessons
from tilewise.measurements.reasons import faults as reason_faults
from tilewise.measurements.record import read_record, read_text_record
from tilewise.measurements.report import assemble, staleness
from tilewise.measurements.session import handled_by
from tilewise.simulator import CompileError, ToolchainError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from tilewise.measurements.experiment import Experiment
    from tilewise.measurements.record import Record


def check(allow_stale: bool, lessons: Sequence[str] = ()) -> int:
    """Lint the project's lessons and records.

    Args:
        allow_stale: list stale and missing records instead of failing because of them.
        lessons: ids or paths of those to run, which is what takes long; all where none is given. How the
            lessons are ordered and whether records can be believed is looked at for all of them.

    Returns:
        0 where nothing is wrong, else 1.

    Raises:
        LessonError: one of them is no lesson.
    """
    root = lesson_root()
    archive = Archive(root)
    faults = [*course_faults(root), *record_faults(archive)]
    stale: list[str] = []
    notes: dict[str, None] = {}
    every = project_lessons(root)
    names = [find_lesson(name, root).id for name in lessons] if lessons else every
    for name in names:
        try:
            lesson = find_lesson(name, root)
        except LessonError as error:
            faults.append(str(error))
            continue
        stale += _stale_texts(lesson, archive)
        stale += _stale_experiments(lesson, archive, faults, notes)
    faults += _kernel_faults(root, names)
    for line in stale:
        print(line, file=sys.stdout if allow_stale else sys.stderr)
    for line in faults:
        print(line, file=sys.stderr)
    for line in notes:
        print(line)
    count = len(faults) + (0 if allow_stale else len(stale))
    which = f"{len(names)} of {len(every)} lessons" if lessons else f"{len(every)} lessons"
    print(f"{which}, {count} faults" + (f", {len(stale)} to record" if allow_stale else ""))
    return 1 if count else 0


def course_faults(root: Path) -> list[str]:
    """What parsing the lessons and ordering them by mkdocs.yml finds, a line each."""
    nav_file = root.parent / "mkdocs.yml"
    try:
        from mkdocs.utils.yaml import yaml_load

        from tilewise.course import Course
        from tilewise.lesson import read
        from tilewise.mkdocs_plugin import navigation
    except ImportError as error:
        return [f"mkdocs.yml: the order of the lessons cannot be checked: {error}. Run make serve once."]
    if not nav_file.is_file():
        return [f"{nav_file.name}: there is no such file. It orders the lessons."]
    lessons, faults = {}, []
    for name in project_lessons(root):
        try:
            lessons[name] = read(root / f"{name}.py", root.parent)
        except LessonError as error:
            faults += [str(one) for one in error.errors]
    with nav_file.open("rb") as stream:
        order = navigation.reading_order(yaml_load(stream).get("nav"))
    if not faults:
        try:
            Course.from_nav(order, lessons, nav_file.name, navigation.lines(nav_file, order))
        except LessonError as error:
            faults += [str(one) for one in error.errors]
    return faults


def record_faults(archive: Archive) -> list[str]:
    """Records that cannot be believed, a line each."""
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
    """Kernels that the record of compiled kernels lacks as they are now, or that spill undeclared.

    A lesson of the course runs for it as it does in a build, unless the result of its last run still holds.
    """
    if root.resolve() != COURSE.resolve():
        return []
    faults: list[LessonError] = []
    made: dict[str, Sequence[Mapping[str, Any]]] = {}
    for name in lessons:
        try:
            ((lesson, _, kernels),) = launches(root, [root / f"{name}.py"])
            made[lesson] = kernels
        except LessonError as error:
            faults += error.errors
    try:
        faults += kernel_faults(root, made)
    except LessonError as error:
        faults += error.errors
    return list(map(str, faults))


def _stale_texts(lesson: LessonFile, archive: Archive) -> list[str]:
    found = []
    for cell in lesson.cells:
        if not cell.record:
            continue
        try:
            kept = archive.text_record(lesson.id, cell.record, cell.source, before=lesson.code_before(cell))
        except LessonError:
            continue  # said by record_faults
        if kept is None or kept.stale:
            what = "has no record yet" if kept is None else "has changed since it was recorded"
            found.append(
                f'{cell}: the cell "{cell.record}" {what}. Record it on a GPU: tilewise record {lesson.id}'
            )
    return found


def _stale_experiments(
    lesson: LessonFile, archive: Archive, faults: list[str], notes: dict[str, None]
) -> list[str]:
    """Experiments without a current record; cells that fail otherwise are faults.

    ``notes`` gets records whose keys are to be renewed, and variants that have a key of their tokens alone.
    """
    found: list[str] = []

    def handle(experiment: Experiment) -> Measurement:
        record = archive.record(experiment.name)
        stale = staleness(experiment, record)
        if stale:
            found.append(f"{experiment.path}:{experiment.line}: {stale}")
        made = assemble(experiment, Simulated({}), record, stale, (), ())
        if not stale:
            unexplained = reason_faults(made, lesson.headings(), experiment.path, experiment.line)
            faults.extend(str(fault) for fault in unexplained)
        for path, one in _records(experiment, archive):
            again = staleness(experiment, one)
            if again and path != archive.find(experiment.name):
                device = one.provenance["device"]
                found.append(f"{experiment.path}:{experiment.line}: {again} ({device})")
            if replace(renewed(experiment, one), checksum="") != replace(one, checksum=""):
                notes[
                    f"{archive.shown(path)}: its keys or labels are not those of now, though it holds. Renew "
                    f"them, without a GPU: tilewise record {experiment.lesson} --rekey"
                ] = None
            notes.update(dict.fromkeys(_refused(experiment, one)))
        return made

    if lesson.experiments():
        with on_the_simulator(), handled_by(handle):
            faults += [f"{failure.place}: {failure.message}" for failure in play(lesson)]
    return found


def _records(experiment: Experiment, archive: Archive) -> Iterator[tuple[Path, Record]]:
    """An experiment's records on all devices."""
    for path in (archive.path(experiment.name, name) for name in archive.devices):
        try:
            record = read_record(path, archive.shown(path)) if path.is_file() else None
        except LessonError:
            continue  # said by record_faults
        if record is not None:
            yield path, record


def _refused(experiment: Experiment, record: Record) -> Iterator[str]:
    """Variants that hold by their tokens alone, since clang refuses a kernel of theirs, a line each."""
    for (label, _), row in current(experiment, record).rows.items():
        if row.role == "variant" and not row.compiled:
            try:
                experiment.code(label, row.case)
            except CompileError as error:
                yield f'{error}: "{label}" of {experiment.name} has a key of its tokens alone.'
            except ToolchainError:
                return
