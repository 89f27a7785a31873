"""`make records`: what it computes again, what it leaves behind, and that it comes to the same bytes."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest

from tests.conftest import Project
from tilewise.kernel import nvrtc as compile_gate
from tilewise.measurements.compiled_kernels import load_resources
from tilewise.measurements.validation import LESSONS, load_comparison
from tilewise.measurements.validation_file import FOLDER
from validation import renewal
from validation.comparison import file_name
from validation.kernels.global_memory import SPECIMENS
from validation.record import PROJECT, counters
from validation.renewal import Workers, renew

nvrtc = pytest.mark.skipif(compile_gate.available() is not None, reason=str(compile_gate.available()))
COMPARISON = file_name(counters()[0].device)
OWN = {"Global memory": SPECIMENS[:3]}
LESSON = """\
# %%
from tilewise import Kernel, case, normal, output

SOURCE = r'''
extern "C" __global__ void scale(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = BY * x[i];
}
'''
for by in (2, 3):
    Kernel(SOURCE, defines={"BY": by}).on(case(x=normal(40), y=output(40), n=40, grid=2, block=32)).run()
"""


class Here(Workers):
    """Does the tasks in this process, and notes how many there were of each kind."""

    tasks: dict[str, int]
    interrupt_after: int | None = None

    def __init__(self, say: Callable[[str], None]) -> None:
        self.failures = []
        type(self).tasks = {}

    def __exit__(self, *_: object) -> None:
        pass

    def each(self, what: str, work: Callable[[Any], Any], tasks: Sequence[Any]) -> Iterator[Any]:
        self.tasks[what] = len(tasks)
        for done, task in enumerate(tasks):
            if what != "Running lessons" and done == self.interrupt_after:
                raise KeyboardInterrupt
            failure, result = renewal._attempt(work, task)
            if failure:
                self.failures.append(failure)
            else:
                yield result


@pytest.fixture
def course(project: Project, monkeypatch: pytest.MonkeyPatch) -> Project:
    """A course of one lesson and three specimens."""
    project.lesson(LESSON)
    monkeypatch.setattr(renewal, "Workers", Here)
    monkeypatch.setattr(renewal, "OWN", OWN)
    return project


def renewed(course: Project) -> list[str]:
    return renew(lambda line: None, course.root)


def texts(course: Project) -> dict[str, str]:
    """The files that were written."""
    folder = course.root / FOLDER
    return {file.relative_to(folder).as_posix(): file.read_text() for file in sorted(folder.rglob("*.*"))}


@nvrtc
def test_only_what_has_changed_is_computed_again(course):
    renewed(course)
    assert Here.tasks == {"Running lessons": 1, "Compiling kernels": 2, "Simulating kernels": 3}
    before = texts(course)
    assert before.keys() == {"resources.json", COMPARISON}
    renewed(course)
    assert Here.tasks == {"Running lessons": 1, "Compiling kernels": 0, "Simulating kernels": 0}
    assert texts(course) == before
    course.lesson(LESSON.replace("(2, 3)", "(3, 4)"))
    renewed(course)
    assert Here.tasks["Compiling kernels"] == 1
    rows = load_resources(course.root).lessons["part/one"]
    assert [row.title for row in rows] == ["scale with BY=3", "scale with BY=4"]
    record = load_comparison(course.root)
    assert [name.partition(",")[0] for name in record.keys(LESSONS)] == [
        "part/one: scale with BY=3", "part/one: scale with BY=4",
    ]  # fmt: skip


@nvrtc
def test_a_declaration_that_changes_is_taken_over_without_the_compiler(course):
    renewed(course)
    course.lesson(LESSON.replace("int n) {", "int n) {  // spills: to show it"))
    renewed(course)
    assert Here.tasks["Compiling kernels"] == 0
    rows = load_resources(course.root).lessons["part/one"]
    assert [row.spills for row in rows] == ["to show it"] * 2


@nvrtc
def test_what_fails_is_said_and_the_rest_is_recorded(course):
    course.lesson(LESSON + "Kernel('extern \"C\" __global__ void wrong(int* x) { x[0] = missing; }')\n")
    (failure,) = renewed(course)
    assert failure.startswith("lessons/part/one.py:17: ") and "missing" in failure
    assert len(load_resources(course.root).lessons["part/one"]) == 2


@nvrtc
def test_a_lesson_that_fails_stops_before_anything_is_written(course):
    course.lesson(LESSON + "raise ValueError('no')\n")
    (failure,) = renewed(course)
    assert failure.startswith("lessons/part/one.py:17: ")
    assert texts(course) == {}


@nvrtc
@pytest.mark.whole
def test_every_record_is_what_it_would_be_if_it_were_made_today(tmp_path):
    (tmp_path / "lessons").symlink_to(PROJECT / "lessons")
    renew(print, tmp_path)
    for name in ("resources.json", COMPARISON):
        assert (tmp_path / FOLDER / name).read_bytes() == (PROJECT / FOLDER / name).read_bytes(), name
