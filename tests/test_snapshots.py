"""Snapshots of a lesson's process: after an edit only what follows runs, and gives what a whole run gives."""

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tilewise.build.run.process import Stopped
from tilewise.build.run.runner import Runner
from tilewise.errors import LessonError

SLOW = """
import os, time

def note(word):
    with open({log!r}, "a") as log:
        print(word, os.getpid(), file=log)

note("slow")
time.sleep(0.15)
value = 20
print("slow", value)
"""
QUICK = "note('quick')\nvalue = value + 1\nprint('quick', value)\n"
LAST = "note('last')\nprint('last', value)\n"


class Warm:
    """A lesson of three cells in a runner that keeps snapshots."""

    def __init__(self, project: Any) -> None:
        self.project = project
        self.log = project.root / "log.txt"
        self.runner: Runner = project.runner()

    def lesson(self, *cells: str, first: str = "") -> Any:
        return self.project.lesson("\n\n".join(f"# %%\n{cell}" for cell in (first + self.slow, *cells)))

    @property
    def slow(self) -> str:
        return SLOW.format(log=str(self.log))

    def run(self, *cells: str, first: str = "", **options: Any) -> list[str]:
        """Run with snapshots; the words of the cells that were executed."""
        self.log.unlink(missing_ok=True)
        lesson = self.lesson(*cells, first=first)
        made = self.runner.run(lesson, snapshots=True, **options)
        whole = Runner(self.project.root, self.project.root / ".other")
        words = [line.split()[0] for line in self.log.read_text().splitlines()] if self.log.exists() else []
        assert made.digest == whole.run(lesson).digest
        return words

    def pids(self) -> set[int]:
        return {int(line.split()[1]) for line in self.log.read_text().splitlines()}


@pytest.fixture
def warm(project: Any) -> Iterator[Warm]:
    yield Warm(project)


def test_an_edit_runs_only_what_follows_it(warm):
    assert warm.run(QUICK, LAST) == ["slow", "quick", "last"]
    assert warm.run(QUICK, LAST + "print('more')\n") == ["quick", "last"]
    assert warm.run(QUICK, LAST, "note('new')\nprint(value * 2)\n") == ["quick", "last", "new"]
    assert warm.run(QUICK.replace("1", "2"), LAST) == ["quick", "last"]
    assert warm.run(QUICK, LAST, first="other = 1\n") == ["slow", "quick", "last"]


def test_a_changed_module_begins_at_the_top(warm):
    warm.project.write("lessons/part/_own.py", "NUMBER = 1\n")
    own = "import _own\nprint(_own.NUMBER)\n"
    assert warm.run(own, LAST) == ["slow", "last"]
    assert warm.run(own, LAST + "print('more')\n") == ["last"]
    warm.project.write("lessons/part/_own.py", "NUMBER = 12\n")
    assert warm.run(own, LAST) == ["slow", "last"]


def test_a_failure_and_its_repair_run_only_what_follows_the_edit(warm):
    warm.run(QUICK, LAST)
    for _ in range(2):
        with pytest.raises(LessonError, match="ZeroDivisionError"):
            warm.run(QUICK, LAST + "1 / 0\n")
        assert [line.split()[0] for line in warm.log.read_text().splitlines()] == ["quick", "last"]
    assert warm.run(QUICK, LAST + "print('repaired')\n") == ["quick", "last"]


def test_a_cell_that_leaves_a_thread_is_in_no_snapshot(warm):
    """A fork has only the thread that forks."""
    thread = "import threading\nthreading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
    assert warm.run(thread + "time.sleep(0.15)\n", QUICK, LAST) == ["slow", "quick", "last"]
    assert warm.run(thread + "time.sleep(0.15)\n", QUICK, LAST + "print('more')\n") == ["quick", "last"]


def test_a_run_stops_in_the_middle_of_a_cell_and_the_next_goes_on(warm):
    warm.run(QUICK, LAST)
    stop = threading.Event()
    threading.Timer(0.3, stop.set).start()
    with pytest.raises(Stopped):
        warm.run(QUICK, "note('endless')\nwhile True:\n    pass\n", stop=stop)
    assert warm.run(QUICK, LAST + "print('more')\n") == ["quick", "last"]


def test_snapshots_end_with_whoever_took_them(warm):
    """Also where a runner is killed and closes nothing: their pipe ends."""
    warm.run(QUICK, LAST)
    pids = warm.pids()
    (chain,) = warm.runner._chains.values()
    os.close(chain._life)
    chain._life = -1
    deadline = time.monotonic() + 5
    while any(map(_runs, pids)) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not any(map(_runs, pids))


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"
