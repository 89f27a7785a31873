"""The course's own lessons: every check in them is a test, named by its cell's place in the lesson's file."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.sweeps import SIMULATOR
from tilewise.build.notebook import to_notebook
from tilewise.build.page import render
from tilewise.build.run.runner import LessonRun, Runner
from tilewise.course.lesson import Cell, Lesson, parse, read
from tilewise.course.order import Course
from tilewise.errors import LessonError

ROOT = Path(__file__).resolve().parents[1]
FILES = sorted(path for path in (ROOT / "lessons").glob("*/*.py"))
CHECKING = {"agree", "check", "exercise", "expect_hazard", "measure", "puzzle"}


@cache
def lesson_of(file: Path) -> Lesson:
    return read(file, ROOT)


def checks(lesson: Lesson) -> Iterator[Cell]:
    """The cells that check something."""
    for cell in lesson.code:
        called = {node.func.id for node in ast.walk(ast.parse(cell.source)) if _calls_a_name(node)}
        if called & CHECKING or cell.needs:
            yield cell


def _calls_a_name(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name)


@cache
def outcome(file: Path) -> LessonRun | LessonError:
    """What a run of the lesson gives: kept by the same cache as the site's, so that nothing runs twice."""
    with Runner(ROOT, ROOT / ".cache/tilewise") as runner:
        try:
            return runner.run(lesson_of(file))
        except LessonError as error:
            return error


CELLS = [pytest.param(file, cell, id=str(cell)) for file in FILES for cell in checks(lesson_of(file))]


@pytest.mark.parametrize(("file", "cell"), CELLS)
def test_the_check_holds(file, cell):
    result = outcome(file)
    if isinstance(result, LessonError):
        own = result.path == cell.path
        if own and cell.last_line < result.line:
            return  # the lesson failed further down
        reached = not own or cell.first_line <= result.line
        pytest.fail(str(result) if reached else f"not reached: {result}", pytrace=False)
    index = lesson_of(file).cells.index(cell)
    if missing := result.skipped.get(index):
        name = f"{lesson_of(file).id} {cell.record or cell.tab}"
        pytest.skip(f"needs {', '.join(missing)}: {name}")
    compared = cell.tab and not cell.record  # a run fails where such a tab was not compared
    assert compared or result.outputs[index], "the cell checks something and shows nothing"


def test_the_cells_that_need_a_device_are_listed(golden):
    """The job with PyTorch and Triton skips these and no others."""
    names = [
        f"{lesson_of(file).id} {cell.record}"
        for file in FILES
        for cell in lesson_of(file).code
        if "gpu" in cell.needs
    ]
    golden(Path(__file__).parent / "device_cells.txt", "\n".join(names) + "\n")


def test_the_lessons_make_a_course_that_renders():
    order = _reading_order()
    assert sorted(order) == sorted(lesson_of(file).id for file in FILES), "nav and lessons differ"
    by_id = {lesson_of(file).id: file for file in FILES}
    course = Course.of([lesson_of(by_id[name]) for name in order])
    for name in order:
        run = outcome(by_id[name])
        if isinstance(run, LessonError):
            continue  # its own test fails
        page = render(course.lesson(name), run, course)
        assert page.markdown.count("\n# ") == 1
        prose = re.sub(r"^( *)(`{3,}|~{3,}).*\n[\s\S]*?^\1\2$", "", page.markdown, flags=re.M)
        assert "{{" not in prose.replace("`{{", "")


def _reading_order() -> list[str]:
    lines = (ROOT / "mkdocs.yml").read_text().splitlines()
    entries = [line.split()[-1] for line in lines if line.rstrip().endswith(".py") and "lessons/" in line]
    return [entry.removeprefix("lessons/").removesuffix(".py") for entry in entries]


def compared_tabs() -> Iterator[Any]:
    """Every tab of pseudocode or Numba beside a CUDA tab: its lesson's file, and which of its cells it is."""
    for file in FILES:
        lesson = lesson_of(file)
        beside = [
            index
            for members in lesson.tab_sets
            if any(lesson.cells[index].tab.startswith("CUDA") for index in members)
            for index in members
            if lesson.cells[index].tab in ("Numba", "Pseudocode")
        ]
        for number, at in enumerate(beside, 1):
            name = f"{lesson.id} {lesson.cells[at].tab} {number}"
            yield pytest.param(file, at, id=name, marks=pytest.mark.sweep(lesson.path))


def with_a_wrong_line(lesson: Lesson, at: int) -> tuple[str, Cell]:
    """A lesson in which the last line of a tab that writes an element writes another value.

    Returns:
        Its text up to the cell that compares the tab's function, and that cell.
    """
    tree = ast.parse(lesson.cells[at].source)
    function, value = max(
        (
            (function.name, node.value)
            for function in tree.body
            for node in ast.walk(function)
            if _writes(node)
        ),
        key=lambda found: found[1].lineno,
    )
    lines = lesson.text.split("\n")
    above = lesson.cells[at].source_line - 2
    for line, column, text in (
        (above + value.end_lineno, value.end_col_offset, ") * 3 + 1"),
        (above + value.lineno, value.col_offset, "("),
    ):
        lines[line] = lines[line][:column] + text + lines[line][column:]
    comparing = next(
        cell
        for cell in lesson.cells[at:]
        if cell.kind == "code" and "agree(" in cell.source and re.search(rf"\b{function}\b", cell.source)
    )
    return "\n".join(lines[: comparing.last_line]) + "\n", comparing


def _writes(node: ast.AST) -> bool:
    """Whether it assigns to an element of an array."""
    match node:
        case ast.Assign(targets=[ast.Subscript()]) | ast.AugAssign(target=ast.Subscript()):
            return True
    return False


@pytest.mark.sweep(
    *SIMULATOR,
    "src/tilewise/kernel/comparison.py",
    "src/tilewise/cuda/difference.py",
    "src/tilewise/kernel/front_ends.py",
    "src/tilewise/frameworks.py",
    "src/tilewise/kernel/pseudocode.py",
    "src/tilewise/kernel/pseudocode_source.py",
    packages=["numba", "numpy", "ziglang"],
)
@pytest.mark.parametrize(("file", "at"), list(compared_tabs()))
def test_agree_turns_down_a_wrong_line_of_a_tab(file, at, tmp_path):
    pytest.importorskip("numba")
    lesson = lesson_of(file)
    text, comparing = with_a_wrong_line(lesson, at)
    with (
        Runner(ROOT, tmp_path) as runner,
        pytest.raises(LessonError, match=r"^\S+ (Numba|pseudocode) \w+ and kernel") as caught,
    ):
        runner.run(parse(text, lesson.path, lesson.id))
    assert comparing.first_line <= caught.value.line <= comparing.last_line, str(caught.value)


@pytest.mark.parametrize("file", FILES, ids=lambda file: f"{file.parent.name}/{file.stem}")
def test_the_notebook_holds_the_lesson_cell_for_cell(file):
    import nbformat

    lesson = lesson_of(file)
    notebook = nbformat.reads(to_notebook(lesson).decode(), as_version=4)
    nbformat.validate(notebook)
    code = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    assert code == [cell.source for cell in lesson.code]
