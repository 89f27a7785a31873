"""Playback: a lesson's code cells run in order, in this process, for the commands.

In: a lesson's id or path. Out: nothing by itself; experiments go to the handler that is installed, and the
text of ``record="..."`` cells to a callback. A cell that fails is reported and the rest goes on, since a
machine that can record may lack what another cell needs. The site's runner is not used, and no header is
parsed.
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
    """A lesson found on disk."""

    id: str
    """Its id, e.g. ``speed/roofline``."""
    file: Path
    """Its file."""
    shown: str
    """The file as messages name it."""
    root: Path
    """The lessons' folder."""
    cells: tuple[Cell, ...]
    """All its cells."""

    def code_before(self, cell: Cell) -> tuple[str, ...]:
        """The code cells above one of its cells, in order, with what they take over from other lessons."""
        above = self.cells[: self.cells.index(cell)]
        return tuple(with_taken_over(one.source) for one in above if one.kind == "code")

    def headings(self) -> tuple[str, ...]:
        """The words of its headings."""
        lines = [line for cell in self.cells if cell.kind == "markdown" for line in cell.source.split("\n")]
        return tuple(line.lstrip("#").strip() for line in lines if re.match(r"#{1,6} ", line))

    def experiments(self) -> tuple[str, ...]:
        """The names that it gives to ``measure``, as far as they stand there in quotes."""
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
                    given = [*node.args[:1], *(word.value for word in node.keywords if word.arg == "name")]
                    names += [
                        entry.value
                        for entry in given
                        if isinstance(entry, ast.Constant) and isinstance(entry.value, str)
                    ]
        return tuple(names)


@dataclass(frozen=True)
class Failure:
    """A cell that raised."""

    place: str
    """File and line."""
    message: str
    """What it said, one line."""


def project_lessons(root: Path) -> tuple[str, ...]:
    """The ids of all lessons under a folder, by name."""
    return tuple(file.relative_to(root).with_suffix("").as_posix() for file in lesson_files(root))


def find_lesson(name: str, root: Path) -> LessonFile:
    """A lesson by its id or its path.

    Args:
        name: ``speed/roofline``, ``lessons/speed/roofline.py`` or any path to the file.
        root: the lessons' folder.

    Raises:
        LessonError: there is no such lesson, or it cannot be cut into cells.
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
        record_text: gets each ``record="..."`` cell and what it printed; without it such cells are run like
            others.
        wanted: whether a text is wanted, by its name; other cells that need something to be recorded are left
            out, as on a machine that lacks it.

    Returns:
        The first fault of each cell that has one. A cell whose ``needs`` are missing here is left out, and so
        are other front ends' tabs that decide no record, since they cost a GPU's time.
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
            taken = io.StringIO()
            sink = PrintingSink() if recorded else CollectingSink()
            with contextlib.redirect_stdout(taken), installed(sink):
                failed = list(_execute(lesson, cell, module))
            failures += failed[:1]
            if recorded and record_text and not failed:
                record_text(cell, taken.getvalue().rstrip("\n"))
    return failures


def _functions_recorded(cells: Sequence[Cell]) -> set[str]:
    """The functions that a record rests on: what cells with ``record`` or a measurement come to."""
    names, before = set[str](), list[str]()
    for cell in cells:
        if cell.kind == "code" and _parses(cell):
            if cell.record or "measure(" in cell.source:
                names |= functions_reached(cell.source, before)
            before.append(with_taken_over(cell.source))
    return names


def _parses(cell: Cell) -> bool:
    """Whether a cell is Python at all; one that is not fails when it runs, and says so there."""
    try:
        ast.parse(cell.source)
    except (SyntaxError, ValueError):
        return False
    return True


def missing_needs(cell: Cell) -> tuple[str, ...]:
    """What a cell needs and this machine lacks."""
    return tuple(need for need in cell.needs if not (gpu_here() if need == "gpu" else find_spec(need)))


@contextlib.contextmanager
def on_the_simulator() -> Iterator[None]:
    """Keep kernels off the GPU for the length of a ``with`` block."""
    kept = os.environ.get("TILEWISE_BACKEND")
    os.environ["TILEWISE_BACKEND"] = "simulator"
    backend.cache_clear()
    try:
        yield
    finally:
        if kept is None:
            del os.environ["TILEWISE_BACKEND"]
        else:
            os.environ["TILEWISE_BACKEND"] = kept
        backend.cache_clear()


@contextlib.contextmanager
def _importable(lesson: LessonFile, module: ModuleType) -> Iterator[None]:
    kept = list(sys.path)
    sys.path[:0] = [str(lesson.file.parent), str(lesson.root)]
    sys.modules[module.__name__] = module
    try:
        yield
    finally:
        sys.path[:] = kept
        del sys.modules[module.__name__]


def _execute(lesson: LessonFile, cell: Cell, module: ModuleType) -> Iterator[Failure]:
    """Run a cell statement by statement, so that what it defines is there even where one of them fails."""
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
    """The lesson's own line that an exception came from."""
    line, frame = cell.first_line, error.__traceback__
    while frame is not None:
        if frame.tb_frame.f_code.co_filename == str(lesson.file):
            line = frame.tb_lineno
        frame = frame.tb_next
    return f"{lesson.shown}:{line}"
