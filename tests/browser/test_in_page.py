"""A static site compiles too: a reader loads the compiler once, edits, solves a puzzle, works offline."""

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from tests.sweeps import SIMULATOR
from tilewise.puzzles.catalogue import named
from tilewise.site.in_page.files import BACKEND

from .conftest import FIGURES, ROOT, must_pass_axe
from .test_play import PASTED, QUIETLY, editor, paste, title, write_course

pytestmark = [
    FIGURES,
    pytest.mark.sweep(
        *SIMULATOR,
        "nvptx/nvptx.wasm.gz",
        "src/tilewise/kernel/pasted.py",
        "src/tilewise/kernel/access_patterns.py",
        "src/tilewise/kernel/proposals.py",
        "src/tilewise/puzzles",
        "src/tilewise/site/in_page",
        "src/tilewise/site/play",
        packages=["ziglang"],
    ),
]


PUZZLE = """
# %%
from tilewise import puzzle

puzzle("kernels/guard")
"""


@pytest.fixture(scope="module", autouse=True)
def patience() -> Iterator[None]:
    """Compiling takes seconds on a machine that has other things to do."""
    expect.set_options(timeout=60_000)
    yield
    expect.set_options(timeout=20_000)


@pytest.fixture(scope="module")
def course(chromium: str, served: Callable[[Path], str], tmp_path_factory: pytest.TempPathFactory) -> str:
    """The address of a built course of one lesson and the Playground."""
    folder = write_course(tmp_path_factory.mktemp("course"))
    lesson = folder / "lessons/part_1/lesson_01.py"
    lesson.write_text(lesson.read_text(encoding="utf-8") + PUZZLE, encoding="utf-8")
    (folder / BACKEND).parent.symlink_to((ROOT / BACKEND).parent)
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet"],
        cwd=folder,
        env=QUIETLY,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return served(folder / "site")


def test_the_compiler_is_loaded_when_asked_for_and_works_offline(open_at, faults, course, axe):
    page = open_at(f"{course}lessons/part_1/lesson_01/", 390)
    panel = page.locator(".tw-try")
    panel.get_by_role("button", name="Edit").click()
    expect(panel.locator(".tw-load")).to_have_text(re.compile(r"needs a compiler: \d+ MB, fetched once"))
    must_pass_axe(page, axe, ".tw-load")
    panel.get_by_role("button", name="Not now").click()
    expect(panel.locator(".tw-load")).to_have_count(0)
    assert not [url for url in faults.requests if re.search(r"\.gz|editor\.js", url)]

    panel.get_by_role("button", name="Edit").click()
    panel.get_by_role("button", name="Load it").click()
    text = panel.get_by_role("textbox", name="CUDA text of add_one")
    expect(text).to_be_focused(timeout=240_000)
    text.locator(".cm-line", has_text="if (i < n)").click()
    page.keyboard.press("Home")
    for _ in range(len("if (i < n) ")):
        page.keyboard.press("Delete")
    expect(panel.locator(".tw-hazard")).to_contain_text("thread 4 of block 2 reads a[20]; a has 20 elements")
    page.keyboard.type("oops ")
    expect(panel.locator(".tw-play-faults")).to_contain_text("Line 4")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")

    puzzle = page.locator(".puzzle")
    puzzle.get_by_role("button", name="Solve it here").click()
    solution = named("kernels/guard").solution
    for answer, said in (
        (solution.replace("i < n", "i <= n"), "out of bounds: thread 232 of block 3 reads a[1000]"),
        (solution, "Solved."),
    ):
        paste(page, answer, "CUDA text of twice_and_add")
        puzzle.get_by_role("button", name="Check").click()
        expect(puzzle.locator(".tw-solve-verdict")).to_contain_text(said)

    page.goto(f"{course}playground/")
    expect(editor(page)).to_be_visible()
    assert page.evaluate("globalThis.tilewiseCompiler === undefined")  # it starts once a text is changed
    page.context.set_offline(True)
    page.reload()
    paste(page, PASTED)
    expect(title(page)).to_contain_text("fill<<<1, 32>>>", timeout=120_000)
