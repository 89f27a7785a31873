"""What tests share: a project in a temporary folder, lessons from text, golden files, and one Chromium.

`pytest --update` writes golden files anew; without it they are only compared. `pytest --all` also runs the
sweeps of which nothing has changed since they passed, see `tests/sweeps.py`, and recomputes whole records.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests import sweeps, workers
from tilewise.build.page import Page, render
from tilewise.build.run.runner import LessonRun, Runner
from tilewise.course.lesson import Lesson, parse, read
from tilewise.course.order import Course, Navigation
from tilewise.course.rules import checked_course

if TYPE_CHECKING:
    from playwright.sync_api import Browser

CHROMIUMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
CHROMIUM_FLAGS = (
    "--no-sandbox --headless --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
)
DEVICE_CELLS = Path(__file__).parent / "device_cells.txt"
"""The cells of lessons that run on a device only: lesson and record, a line each."""
WHOLE = """
# %% [markdown]
# ## Takeaways
#
# - One.
# - Two.
# - Three.

# %% needs="jax"
from tilewise.figures import bars

agree(exercise())
"""
"""The end of a lesson that lacks nothing, though none of it runs."""
HEADER = "# ---\n# title: {title}\n# needs: [{needs}]\n# ---\n\n"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update", action="store_true", help="write golden files, and the keys of sweeps that pass, anew"
    )
    parser.addoption("--due", action="store_true", help="run every sweep that is due, not a sample")
    parser.addoption(
        "--all", action="store_true", help="run everything: unchanged sweeps, and whole records, not samples"
    )
    parser.addoption(
        "--device-skips-only",
        action="store_true",
        help="fail if anything is skipped but cells of lessons that tests/device_cells.txt lists",
    )


def undue_skips(reasons: Iterable[str], listed: Iterable[str]) -> list[str]:
    """Why something was skipped, where that is not for want of a device by a cell that is listed."""
    allowed = {f"needs gpu: {name}" for name in listed}
    return [reason for reason in reasons if reason not in allowed]


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """With `--device-skips-only`, a skip that no device explains fails the session."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if not session.config.getoption("--device-skips-only") or reporter is None:
        return  # of several processes, the one that reports sees to it
    skipped = [report.longrepr[2].removeprefix("Skipped: ") for report in reporter.stats.get("skipped", [])]
    undue = undue_skips(skipped, DEVICE_CELLS.read_text(encoding="utf-8").splitlines())
    for reason in undue:
        reporter.write_line(f"must not be skipped here: {reason}", red=True)
    if undue:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """With `-n`, processes take whole files, and cases of a few long tests."""
    return workers.scheduler(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without `--all`, what recomputes a whole record is skipped; with `-n`, what takes long begins first."""
    if not config.getoption("--all"):
        for item in items:
            if item.get_closest_marker("whole"):
                item.add_marker(
                    pytest.mark.skip(reason="samples of this record are tested; --all takes it whole")
                )
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: workers.rank(item.nodeid))


def pytest_configure(config: pytest.Config) -> None:
    """A shell that starts pytest in the background has it ignore interrupts, and its children with it."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    config.pluginmanager.register(sweeps.Sweeps(config), "sweeps")


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[Path, str], None]:
    """Compares a text with a golden file, or writes it with `--update`."""

    def compare(file: Path, text: str) -> None:
        if request.config.getoption("--update"):
            file.write_text(text, encoding="utf-8")
        assert file.is_file(), f"{file} is missing; pytest --update writes it"
        assert text == file.read_text(encoding="utf-8"), (
            f"differs from {file}; pytest --update writes it anew"
        )

    return compare


@dataclass
class Project:
    """A project in a folder of its own."""

    root: Path
    runners: list[Runner] = field(default_factory=list)

    def write(self, name: str, content: str | bytes) -> Path:
        """Write a file below the root."""
        file = self.root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        return file

    def lesson(self, body: str, lesson_id: str = "part/one", needs: str = "", title: str = "") -> Lesson:
        """A lesson with a plain header, written and parsed."""
        text = HEADER.format(title=title or f"Title of {lesson_id}", needs=needs) + body
        self.write(f"lessons/{lesson_id}.py", text)
        return parse(text, f"lessons/{lesson_id}.py", lesson_id)

    def runner(self, **options: object) -> Runner:
        """A runner of this project, closed at the end of the test."""
        self.runners.append(Runner(self.root, self.root / ".cache", **options))  # type: ignore[arg-type]
        return self.runners[-1]

    def run(self, lesson: Lesson, **options: object) -> LessonRun:
        """Run a lesson with a runner of its own."""
        return self.runner(**options).run(lesson)

    def page(self, lesson: Lesson, *others: Lesson) -> Page:
        """Run and render a lesson of a course."""
        return render(lesson, self.run(lesson), Course.of([*others, lesson]))

    def lessons(self) -> dict[str, Lesson]:
        """Every lesson below the root, by id."""
        files = sorted((self.root / "lessons").glob("*/*.py"))
        return {lesson.id: lesson for lesson in (read(file, self.root) for file in files)}

    def build(self, nav: list[str], **options: object) -> Mapping[str, Page]:
        """The whole way: read, order, run, render."""
        lessons = self.lessons()
        course = checked_course(Navigation(nav), lessons)
        runner = self.runner(**options)
        return {name: render(lessons[name], runner.run(lessons[name]), course) for name in nav}


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    made = Project(tmp_path)
    yield made
    for runner in made.runners:
        runner.close()
    shutil.rmtree(tmp_path / ".cache", ignore_errors=True)


@pytest.fixture(scope="session")
def chromium() -> str:
    """Chromium's path: from CHROMIUM, else from the path."""
    named = os.environ.get("CHROMIUM")
    found = next(filter(None, map(shutil.which, [named] if named else CHROMIUMS)), None)
    if not found:
        pytest.skip("no Chromium here: install chromium or google-chrome, or name one in CHROMIUM")
    return found


@pytest.fixture(scope="session")
def browser(chromium: str) -> Iterator[Browser]:
    """One Chromium for the whole session: Playwright allows no second one beside it."""
    playwright_api = pytest.importorskip("playwright.sync_api")
    with playwright_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=CHROMIUM_FLAGS.split())
        yield browser
        browser.close()
