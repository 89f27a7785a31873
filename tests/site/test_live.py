"""A page that is open while its lesson is edited: the change appears, and what the reader set stays."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import synthetic
from sites import edit, link_assets

if TYPE_CHECKING:
    from playwright.sync_api import Browser

LESSON = "lessons/part_1/lesson_02.py"
SOON_MS = 15_000

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory, web_cache: Path) -> Iterator[tuple[Path, str]]:
    """A project under plain ``mkdocs serve``, and its address."""
    folder = tmp_path_factory.mktemp("live")
    project = folder / "project"
    synthetic.write_project(project, 3)
    link_assets(web_cache, folder / "cache")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}/"
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(
            [str(Path(sys.executable).with_name("mkdocs")), "serve", "--dev-addr", f"127.0.0.1:{port}"],
            cwd=project,
            env={**os.environ, "TILEWISE_CACHE": str(folder / "cache")},
            stdout=said,
            stderr=subprocess.STDOUT,
        )
        try:
            deadline = time.monotonic() + 120
            while not answers(url):
                said.seek(0)
                assert process.poll() is None, said.read()
                assert time.monotonic() < deadline
                time.sleep(0.1)
            yield project, url
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(timeout=30)


def answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2):
            return True
    except (urllib.error.URLError, OSError):
        return False


@pytest.fixture
def page(browser: Browser, served: tuple[Path, str]) -> Iterator[Any]:
    """The lesson, open in Chromium."""
    project, url = served
    kept = {
        path: path.read_bytes() for path in project.rglob("*") if path.is_file() and "site" not in path.parts
    }
    with browser.new_context(viewport={"width": 1280, "height": 800}) as context:
        opened: Any = context.new_page()
        opened.problems = []
        opened.on("pageerror", lambda error: opened.problems.append(str(error)))
        opened.goto(url + LESSON.removesuffix(".py") + "/")
        opened.wait_for_function("window.tilewiseLive && window.document$")
        opened.wait_for_timeout(700)
        yield opened
        assert opened.problems == []
    changed = False
    for path, content in kept.items():
        if not path.exists() or path.read_bytes() != content:
            path.write_bytes(content)
            changed = True
    if changed:
        time.sleep(2)


def says(page: Any, words: str) -> None:
    page.wait_for_function("(words) => document.body.textContent.includes(words)", arg=words, timeout=SOON_MS)


def test_an_edit_of_prose_appears_and_keeps_what_the_reader_set(page, served):
    project, _ = served
    page.evaluate("document.querySelector('[data-figure]').scrollIntoView()")
    page.wait_for_timeout(800)
    page.evaluate(
        """() => {
          window.stillHere = true;
          document.querySelector('.tabbed-set').querySelectorAll('input')[1].click();
          document.querySelector('details.definition').open = true;
          window.figure = document.querySelector('[data-figure]');
          window.scrollTo(0, 1500);
        }"""
    )
    page.wait_for_timeout(300)
    heading = "document.querySelector('#section-2').getBoundingClientRect().top"
    before = page.evaluate(heading)
    edit(project / LESSON, "# ## Takeaways", "# A sentence that was not here.\n#\n# ## Takeaways")
    says(page, "A sentence that was not here.")
    after = page.evaluate(
        """() => ({
          here: window.stillHere,
          tab: document.querySelector('.tabbed-set').querySelectorAll('input')[1].checked,
          fold: document.querySelector('details.definition').open,
          figure: document.querySelector('[data-figure]') === window.figure,
        })"""
    )
    assert after == {"here": True, "tab": True, "fold": True, "figure": True}
    assert page.evaluate(heading) == pytest.approx(before, abs=2)


def test_what_stands_above_the_window_may_grow_without_moving_what_is_read(page, served):
    project, _ = served
    page.evaluate("document.querySelector('#section-2').scrollIntoView()")
    page.wait_for_timeout(300)
    heading = "document.querySelector('#section-2').getBoundingClientRect().top"
    before = page.evaluate(heading)
    edit(project / LESSON, "# ## Section 1\n", "# Added far above.\n#\n# And again.\n#\n# ## Section 1\n")
    says(page, "Added far above.")
    assert page.evaluate(heading) == pytest.approx(before, abs=2)


def test_a_broken_lesson_is_shown_over_the_last_good_page_until_it_is_repaired(page, served):
    project, url = served
    path = project / LESSON
    good = path.read_text(encoding="utf-8")
    path.write_text(good + "\n\n# %%\nraise ValueError('shown in the page')\n", encoding="utf-8")
    alert = page.get_by_role("alert")
    alert.wait_for(timeout=SOON_MS)
    line = good.count("\n") + 4
    assert f"{LESSON}:{line}: ValueError: shown in the page" in alert.inner_text()
    assert page.locator("#section-1").count() == 1
    assert answers(url)
    page.reload()
    page.get_by_role("alert").wait_for(timeout=SOON_MS)
    path.write_text(good.replace("# ## Takeaways", "# Repaired.\n#\n# ## Takeaways"), encoding="utf-8")
    says(page, "Repaired.")
    assert page.get_by_role("alert").count() == 0


def test_a_lesson_deleted_while_open_is_named_and_comes_back(page, served):
    project, _ = served
    path = project / "lessons/part_1/lesson_03.py"
    content = path.read_bytes()
    path.unlink()
    alert = page.get_by_role("alert")
    alert.wait_for(timeout=SOON_MS)
    assert "mkdocs.yml:" in alert.inner_text()
    assert "lesson_03" in alert.inner_text()
    path.write_bytes(content)
    page.wait_for_function("!document.querySelector('#tilewise-problem')", timeout=SOON_MS)


def test_a_broken_configuration_is_shown_and_survived(page, served):
    project, _ = served
    edit(project / "mkdocs.yml", "theme:\n", "theme: [\n")
    page.get_by_role("alert").wait_for(timeout=SOON_MS)
    edit(project / "mkdocs.yml", "theme: [\n", "theme:\n")
    page.wait_for_function("!document.querySelector('#tilewise-problem')", timeout=SOON_MS)
