"""Playback: runs a lesson's code cells in order, in this process, for the commands.

In: a lesson's id or path. Out: nothing by itself; experiments go to the installed handler, and the text of
``record="..."`` cells to a callback. A failing cell is reported and the rest still runs, because a machine
that can record may lack what another cell needs. Neither the site's runner nor the header is used.
"""

from __future__ import annotations

import ast
import contextlib
import io
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType

from tilewise.course.lesson import lesson_files
from tilewise.course.model import Cell
from tilewise.course.percent import parse_cells
from tilewise.errors import LessonError, nearest
from tilewise.frameworks import stand_ins
from tilewise.gpu.device import gpu_here
from tilewise.kernel.backend import backend
from tilewise.kernels.from_lesson import with_taken_over
from tilewise.measurements.definitions import functions_reached
from tilewise.outputs import CollectingSink, PrintingSink, installed


@dataclass(frozen=True)
class LessonFile:
    """A lesson on disk."""

    id: str
    """Its id, e.g. ``speed/roofline``."""
    file: Path
    """Its file."""
    shown: str
    """The file's name in messages."""
    root: Path
    """The lessons' folder."""
    cells: tuple[Cell, ...]
    """All its cells."""

    def code_before(self, cell: Cell) -> tuple[str, ...]:
        """The code cells above a cell, in order, with the code that they import from other lessons."""
        above = self.cells[: self.cells.index(cell)]
        return tuple(with_taken_over(each.source) for each in above if each.kind == "code")

    def headings(self) -> tuple[str, ...]:
        """The words of its headings."""
        lines = [line for cell in self.cells if cell.kind == "markdown" for line in cell.source.split("\n")]
        return tuple(line.lstrip("#").strip() for line in lines if re.match(r"#{1,6} ", line))

    def experiments(self) -> tuple[str, ...]:
        """The names that it passes to ``measure`` as string literals."""
        names = []
        for cell in self.cells:
            if cell.kind != "code":
                continue
            for node in ast.walk(ast.parse(cell.source)):
                if (
                    isinstance(node, ast.Call)
                    and isinstance(node.func, ast.Name)
                    and node.func.id == "measure"
                ):
                    values = [*node.args[:1], *(word.value for word in node.keywords if word.arg == "name")]
                    names += [
                        entry.value
                        for entry in values
                        if isinstance(entry, ast.Constant) and isinstance(entry.value, str)
                    ]
        return tuple(names)


@dataclass(frozen=True)
class Failure:
    """A cell that raised."""

    place: str
    """File and line."""
    message: str
    """Its message, one line."""


def project_lessons(root: Path) -> tuple[str, ...]:
    """The ids of all lessons in a folder, sorted."""
    return tuple(file.relative_to(root).with_suffix("").as_posix() for file in lesson_files(root))


def find_lesson(name: str, root: Path) -> LessonFile:
    """Find a lesson by its id or path.

    Args:
        name: ``speed/roofline``, ``lessons/speed/roofline.py`` or any path to the file.
        root: the lessons' folder.

    Raises:
        LessonError: there is no such lesson, or it cannot be split into cells.
    """
    for file in (root / f"{name.removesuffix('.py')}.py", Path(name)):
        if file.is_file():
            return _read(file.absolute(), root.absolute())
    raise LessonError(name, 0, "there is no such lesson.", nearest(name, project_lessons(root)))


def _read(file: Path, root: Path) -> LessonFile:
    inside = file.is_relative_to(root)
    shown = file.relative_to(root.parent).as_posix() if inside else file.name
    identity = file.relative_to(root).with_suffix("").as_posix() if inside else file.stem
    lines = file.read_text(encoding="utf-8").replace("\r\n", "\n").split("\n")
    header = next((at for at, line in enumerate(lines) if at and line.rstrip() == "# ---"), -1)
    return LessonFile(identity, file, shown, root, parse_cells(lines, header + 1, shown))


def play(
    lesson: LessonFile,
    record_text: Callable[[Cell, str], None] | None = None,
    wanted: Callable[[str], bool] = lambda name: True,
) -> list[Failure]:
    """Run a lesson's code cells in order in one namespace.

    Args:
        lesson: the lesson.
        record_text: receives each ``record="..."`` cell and its printed text; without it, such cells run like
            others.
        wanted: whether a text of this name is wanted; other cells that need something to record are
            skipped, as on a machine that lacks it.

    Returns:
        The first failure of each failing cell. Cells whose ``needs`` are missing here are skipped, and so are
        other front ends' tabs that no record depends on, because they cost GPU time.
    """
    failures: list[Failure] = []
    decisive = _functions_recorded(lesson.cells)
    module = ModuleType(f"tilewise_lesson_{lesson.id.replace('/', '_')}")
    module.__file__ = str(lesson.file)
    with _importable(lesson, module):
        for cell in lesson.cells:
            if cell.kind == "code" and cell.tab and cell.needs:
                absent = stand_ins(cell.source, cell.needs)
                if missing_needs(cell) or not decisive & absent.keys():
                    module.__dict__.update(absent)
                    continue
            if cell.kind != "code" or missing_needs(cell):
                continue
            if cell.record and cell.needs and not wanted(cell.record):
                continue
            recorded = bool(cell.record and record_text and wanted(cell.record))
            printed = io.StringIO()
            sink = PrintingSink() if recorded else CollectingSink()
            with contextlib.redirect_stdout(printed), installed(sink):
                failed = list(_execute(lesson, cell, module))
            failures += failed[:1]
            if recorded and record_text and not failed:
                record_text(cell, printed.getvalue().rstrip("\n"))
    return failures


def _functions_recorded(cells: Sequence[Cell]) -> set[str]:
    """The functions that a record depends on: those that cells with ``record`` or ``measure`` reach."""
    names, before = set[str](), list[str]()
    for cell in cells:
        if cell.kind == "code" and _parses(cell):
            if cell.record or "measure(" in cell.source:
                names |= functions_reached(cell.source, before)
            before.append(with_taken_over(cell.source))
    return names


def _parses(cell: Cell) -> bool:
    """Whether a cell is valid Python; an invalid one fails when it runs."""
    try:
        ast.parse(cell.source)
    except (SyntaxError, ValueError):
        return False
    return True


def missing_needs(cell: Cell) -> tuple[str, ...]:
    """The needs of a cell that this machine lacks."""
    return tuple(need for need in cell.needs if not (gpu_here() if need == "gpu" else find_spec(need)))


@contextlib.contextmanager
def on_the_simulator() -> Iterator[None]:
    """Run kernels on the simulator inside a ``with`` block."""
    before = os.environ.get("TILEWISE_BACKEND")
    os.environ["TILEWISE_BACKEND"] = "simulator"
    backend.cache_clear()
    try:
        yield
    finally:
        if before is None:
            del os.environ["TILEWISE_BACKEND"]
        else:
            os.environ["TILEWISE_BACKEND"] = before
        backend.cache_clear()


@contextlib.contextmanager
def _importable(lesson: LessonFile, module: ModuleType) -> Iterator[None]:
    before = list(sys.path)
    sys.path[:0] = [str(lesson.file.parent), str(lesson.root)]
    sys.modules[module.__name__] = module
    try:
        yield
    finally:
        sys.path[:] = before
        del sys.modules[module.__name__]


def _execute(lesson: LessonFile, cell: Cell, module: ModuleType) -> Iterator[Failure]:
    """Run a cell statement by statement, so that its definitions exist even if a statement fails."""
    tree = ast.increment_lineno(ast.parse(cell.source), cell.source_line - 1)
    for statement in tree.body:
        code = compile(ast.Module([statement], []), str(lesson.file), "exec")
        try:
            exec(code, module.__dict__)
        except LessonError as error:
            place = str(error).split(": ", 1)[0]
            yield Failure(place, f"{error.message} {error.repair}".strip())
        except (Exception, SystemExit) as error:
            yield Failure(_place(lesson, cell, error), f"{type(error).__name__}: {error}")


def _place(lesson: LessonFile, cell: Cell, error: BaseException) -> str:
    """The lesson's line that raised an exception."""
    line, frame = cell.first_line, error.__traceback__
    while frame is not None:
        if frame.tb_frame.f_code.co_filename == str(lesson.file):
            line = frame.tb_lineno
        frame = frame.tb_next
    return f"{lesson.shown}:{line}"
