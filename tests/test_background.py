"""Lessons that run behind a reader's back: in which order, what stands meanwhile, and what an edit stops."""

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tilewise.build.run.background import BackgroundRuns

PRINTS = "# %%\nprint('{word}')\n"


class Course:
    """Lessons of a project and what runs them."""

    def __init__(self, project: Any, at_once: int = 1) -> None:
        self.project = project
        self.runs = BackgroundRuns(project.runner(), at_once)
        self.lessons: dict[str, Any] = {}

    def write(self, name: str, body: str) -> Any:
        self.lessons[name] = self.project.lesson(body, f"part/{name}")
        return self.lessons[name]

    def update(self, *paths: Any) -> None:
        self.runs.update(list(self.lessons.values()), set(paths) if paths else None)

    def run(self, name: str) -> Any:
        return self.runs.run(f"part/{name}")

    def shown(self, name: str) -> list[str]:
        return [output.content for outputs in self.run(name).outputs for output in outputs]


@pytest.fixture
def course(project: Any) -> Iterator[Course]:
    made = Course(project)
    yield made
    made.runs.close()


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 30
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def settled(course: Course) -> None:
    until(lambda: course.runs.progress()[0] == len(course.lessons))


def logging_cell(course: Course, word: str, waits: bool = False) -> str:
    """A cell that writes its word down, and may wait until a file ``go`` is there."""
    log, go = course.project.root / "log.txt", course.project.root / "go"
    wait = f"import os, time\nwhile not os.path.exists({str(go)!r}):\n    time.sleep(0.01)\n" if waits else ""
    return (
        f"# %%\nwith open({str(log)!r}, 'a') as log:\n    print('{word}', file=log)\n{wait}print('{word}')\n"
    )


def log_of(course: Course) -> list[str]:
    file = course.project.root / "log.txt"
    return file.read_text().split() if file.exists() else []


def go(course: Course) -> None:
    (course.project.root / "go").touch()


def test_lessons_run_in_order_and_the_open_one_first(course):
    for name in ("first", "second", "third"):
        course.write(name, logging_cell(course, name))
    course.runs.open("part/third")
    course.update()
    settled(course)
    assert log_of(course) == ["third", "first", "second"]
    assert course.shown("second") == ["second"]
    assert course.runs.progress() == (3, 3, ())


def test_what_has_ended_is_there_while_the_rest_runs(course):
    course.write("one", f"{PRINTS.format(word='early')}\n\n{logging_cell(course, 'late', waits=True)}")
    course.runs.open("part/one")
    course.update()
    until(lambda: course.shown("one") == ["early"])
    assert course.run("one").pending == {1}
    assert course.runs.progress() == (0, 1, ("part/one",))
    go(course)
    settled(course)
    assert course.shown("one") == ["early", "late"]
    assert not course.run("one").pending


def test_an_edit_of_code_shows_what_was_there_until_it_has_run(course):
    course.write("one", PRINTS.format(word="kept") + "\n\n" + PRINTS.format(word="old"))
    course.update()
    settled(course)
    course.write("one", f"{PRINTS.format(word='kept')}\n\n{logging_cell(course, 'new', waits=True)}")
    course.update()
    assert course.run("one").pending
    assert course.shown("one") == ["kept"]
    go(course)
    settled(course)
    assert course.shown("one") == ["kept", "new"]


def test_an_edit_of_prose_neither_stops_a_run_nor_starts_one(course):
    cell = logging_cell(course, "once", waits=True)
    course.write("one", cell)
    course.update()
    until(lambda: log_of(course) == ["once"])
    course.write("one", f"# %% [markdown]\n# Prose.\n\n{cell}")
    course.update()
    go(course)
    settled(course)
    assert course.shown("one") == ["once"]
    assert log_of(course) == ["once"]


def test_an_edit_of_code_stops_the_run_of_the_old_code(course):
    course.write("one", "# %%\nwhile True:\n    pass\n")
    course.update()
    until(lambda: course.runs.progress()[2] == ("part/one",))
    time.sleep(0.3)
    course.write("one", PRINTS.format(word="new"))
    course.update()
    settled(course)
    assert course.shown("one") == ["new"]


def test_a_failure_keeps_what_ended_before_it_and_goes_with_its_cause(course):
    course.project.write("lessons/part/_own.py", "raise ValueError('not yet')\n")
    module = course.project.root.resolve() / "lessons/part/_own.py"
    course.write("one", f"{PRINTS.format(word='early')}\n\n# %%\nimport _own\nprint('late')\n")
    course.write("two", PRINTS.format(word="other"))
    course.update()
    settled(course)
    assert "not yet" in str(course.runs.failures()["part/one"])
    assert course.run("one").stopped and course.shown("one") == ["early"]
    assert list(course.runs.failures()) == ["part/one"]
    course.project.write("lessons/part/_own.py", "WORKS = True\n")
    course.update(module)
    until(lambda: not course.runs.failures())
    assert course.shown("one") == ["early", "late"]


def test_a_changed_file_runs_the_lessons_that_read_it_and_no_other(course):
    course.project.write("lessons/part/_own.py", "WORD = 'before'\n")
    module = course.project.root.resolve() / "lessons/part/_own.py"
    course.write("reads", f"{logging_cell(course, 'reads')}from _own import WORD\nprint(WORD)\n")
    course.write("other", logging_cell(course, "other"))
    course.update()
    settled(course)
    course.project.write("lessons/part/_own.py", "WORD = 'behind'\n")
    course.update(module, *module.parents)
    until(lambda: "behind" in "".join(course.shown("reads")))
    settled(course)
    assert log_of(course) == ["reads", "other", "reads"]
