"""``tilewise record --rekey``: renew the keys and labels of records where a key proves that they hold.

In: lessons, by id or path, on a machine with clang; no GPU. Out: their records on all devices and the
predictions, with no figure changed. To be run after a rename, and after another clang.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tilewise.errors import LessonError
from tilewise.measurements.archive import Archive, lesson_root
from tilewise.measurements.counting import Simulated
from tilewise.measurements.current import current, renewed, renewed_text
from tilewise.measurements.experiment import Experiment
from tilewise.measurements.output import Measurement
from tilewise.measurements.playback import LessonFile, find_lesson, on_the_simulator, play, project_lessons
from tilewise.measurements.prediction import FOLDER, read_prediction, write_prediction
from tilewise.measurements.prediction import renewed as renewed_prediction
from tilewise.measurements.record import read_record, read_text_record, write_record
from tilewise.measurements.report import assemble
from tilewise.measurements.session import handled_by
from tilewise.simulator.toolchain import ToolchainError, zig


def rekey(lessons: Sequence[str]) -> int:
    """Renew what is proven.

    Args:
        lessons: ids or paths; ``all`` for every lesson of the project.

    Returns:
        0, or 1 where a lesson fails, so that some of its records may not have been looked at.

    Raises:
        LessonError: there is no clang, or no such lesson.
    """
    try:
        zig()
    except ToolchainError as error:
        raise LessonError("tilewise record --rekey", 0, str(error)) from None
    root = lesson_root()
    archive = Archive(root)
    names = project_lessons(root) if list(lessons) == ["all"] else tuple(lessons)
    moved: dict[tuple[str, str, str], tuple[str, str]] = {}
    renewals = failed = 0

    def handle(experiment: Experiment) -> Measurement:
        nonlocal renewals
        for device in archive.devices:
            path = archive.path(experiment.name, device)
            if not path.is_file():
                continue
            old = read_record(path, archive.shown(path))
            now = current(experiment, old)
            for here, row in now.rows.items():
                if here not in now.stale:
                    had = (experiment.name, now.labels[here], row.tokens)
                    moved[had] = (here[0], experiment.tokens(here[0], row.case))
            made = renewed(experiment, old)
            if replace(made, checksum="") != replace(old, checksum=""):
                write_record(made, path)
                renewals += 1
        return assemble(experiment, Simulated({}), archive.record(experiment.name), None, (), ())

    for name in names:
        lesson = find_lesson(name, root)
        renewals += _texts(lesson, archive)
        with on_the_simulator(), handled_by(handle):
            failures = play(lesson) if lesson.experiments() else []
        for failure in failures:
            print(f"{failure.place}: {failure.message}")
        failed += len(failures)
    for path in sorted((root / FOLDER).glob("*.json")):
        said = read_prediction(path, archive.shown(path))
        now_said = renewed_prediction(said, moved)
        if now_said != said:
            write_prediction(now_said, path)
    print(f"{len(names)} lessons, {renewals} records renewed, {failed} cells failed")
    return 1 if failed else 0


def _texts(lesson: LessonFile, archive: Archive) -> int:
    """Renew the keys of what a lesson's cells printed; how many changed."""
    count = 0
    for cell in (one for one in lesson.cells if one.record):
        for path in (archive.text_path(lesson.id, cell.record, device) for device in archive.devices):
            if path.is_file():
                old = read_text_record(path, archive.shown(path))
                made = renewed_text(old, cell.source, lesson.code_before(cell))
                if made != old:
                    write_record(made, path)
                    count += 1
    return count
