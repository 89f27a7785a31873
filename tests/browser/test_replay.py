"""The machine in WebAssembly gives what the native one gives: outputs, counts, hazards, steps, accesses."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tests.sweeps import SIMULATOR
from tilewise.simulator.browser import sentences, stepping
from tilewise.simulator.browser.layout import layout
from tilewise.simulator.engine.machine import prepare_wasm

from .conftest import ROOT

HERE = Path(__file__).parent
PAGE = """<!doctype html><title>…</title><link rel="icon" href="data:,">
<script type="importmap">{"imports": {
  "tilewise-sentences": "./sentences.js", "tilewise-stepping": "./stepping.js"}}</script>
<script type="module" src="replay.js"></script>"""
LESSONS = sorted(
    path.relative_to(ROOT).as_posix() for path in (ROOT / "lessons").rglob("*.py") if path.stem != "puzzles"
)
TESTS = sorted(
    path.relative_to(ROOT).as_posix()
    for path in (ROOT / "tests/simulator").glob("test_*.py")
    if path.stem not in ("test_frontend", "test_cuda_headers", "test_cores")  # a page has one core
)

pytestmark = pytest.mark.sweep(
    *SIMULATOR, "src/tilewise/site/web/run", "tests/browser/replay.*", packages=["ziglang"]
)


def replayed(
    browser: Browser, served: Callable[[Path], str], folder: Path, *command: str
) -> list[dict[str, object]]:
    """What each launch of a command is like in the browser."""
    (folder / "launches").mkdir()
    (folder / "replay.js").symlink_to(HERE / "replay.js")
    (folder / "run").symlink_to(ROOT / "src/tilewise/site/web/run")
    (folder / "machine.wasm").symlink_to(prepare_wasm())
    (folder / "layout.json").write_text(json.dumps(layout()))
    (folder / "sentences.js").write_text(sentences.script())
    (folder / "stepping.js").write_text(stepping.script())
    (folder / "index.html").write_text(PAGE)
    done = subprocess.run(
        [sys.executable, "-m", "tests.browser.replay", str(folder / "launches"), *command],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"},
    )
    assert done.returncode == 0, done.stderr[-4000:] + done.stdout[-2000:]
    names = sorted(path.stem for path in (folder / "launches").glob("*.json"))
    context = browser.new_context()
    page = context.new_page()
    page.goto(served(folder))
    page.wait_for_function("document.title === 'ready'")
    found: list[dict[str, object]] = page.evaluate("(names) => replay('launches', names)", names)
    context.close()
    return found


@pytest.mark.parametrize(
    "lesson",
    [pytest.param(one, marks=pytest.mark.sweep(one), id=one.removeprefix("lessons/")) for one in LESSONS],
)
def test_a_lessons_launches_are_the_same_in_the_browser(
    browser,
    served,
    tmp_path,
    lesson,
    record_property,
):
    found = replayed(browser, served, tmp_path, lesson)
    record_property("launches", len(found))
    print(f"{lesson}: {len(found)} launches, {sum(bool(one['stepped']) for one in found)} stepped")
    assert [one for one in found if one["faults"]] == []


@pytest.mark.parametrize(
    "tests", [pytest.param(one, marks=pytest.mark.sweep(one), id=Path(one).stem) for one in TESTS]
)
def test_the_launches_of_the_simulators_tests_are_the_same_in_the_browser(browser, served, tmp_path, tests):
    found = replayed(browser, served, tmp_path, "pytest", tests, "-q", "--all")
    print(f"{tests}: {len(found)} launches, {sum(bool(one['stepped']) for one in found)} stepped")
    assert [one for one in found if one["faults"]] == []


def test_stepped_figures_of_all_kinds_of_accesses_are_the_same_in_the_browser(browser, served, tmp_path):
    found = replayed(browser, served, tmp_path, "tests/browser/traced.py")
    assert [one["stepped"] for one in found] == [True] * 22
    assert [one for one in found if one["faults"]] == []


def test_arithmetic_is_the_same_in_the_browser(browser, served, tmp_path):
    found = replayed(browser, served, tmp_path, "tests/browser/arithmetic.py")
    assert [one["kernel"] for one in found] == ["directed"] * 6 + ["functions", "say"]
    assert [one for one in found if one["faults"]] == []
