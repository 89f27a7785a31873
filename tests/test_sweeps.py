"""Sweeps: a case runs when something that it covers has changed since it passed, and not before."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Project
from tests.sweeps import KEPT, RECORDED, Keys, code_of, read, write

ROOT = Path(__file__).resolve().parents[1]
CONFTEST = """
from tests.sweeps import Sweeps

def pytest_addoption(parser):
    parser.addoption("--all", action="store_true")
    parser.addoption("--update", action="store_true")

def pytest_configure(config):
    config.addinivalue_line("markers", "sweep: of the tests")
    config.pluginmanager.register(Sweeps(config))
"""
TEST = """
import pytest
from pathlib import Path

LESSONS = [pytest.param(one, marks=pytest.mark.sweep(f"lessons/{one}.py")) for one in ("grids", "warps")]

@pytest.mark.sweep("src", packages=["ziglang"])
@pytest.mark.parametrize("lesson", LESSONS)
def test_lesson(lesson):
    assert "good" in Path(f"lessons/{lesson}.py").read_text()

def test_another():
    pass
"""
GOOD = "# %% [markdown]\n# A cat.\n\n# %%\n" + "good()\n" * 9
GRIDS, WARPS = (f"tests/test_it.py::test_lesson[{lesson}]" for lesson in ("grids", "warps"))
EVERY = {"lesson[grids]", "lesson[warps]", "another"}


@pytest.fixture
def swept(project: Project) -> Project:
    """A project with a sweep of two cases."""
    project.write("conftest.py", CONFTEST)
    project.write("pyproject.toml", "[tool.pytest.ini_options]\naddopts = ['--import-mode=importlib']\n")
    project.write("constraints.txt", "numpy==2.0\nziglang==0.17.0\n")
    project.write("tests/test_it.py", TEST)
    project.write("src/engine.c", "int x;\n")
    project.write("src/simulator.py", '"""Runs."""\n\nSIZE = 3  # lanes\n')
    for lesson in ("grids", "warps"):
        project.write(f"lessons/{lesson}.py", GOOD)
    return project


def run(project: Project, *options: str, status: int = 0) -> tuple[set[str], str]:
    """The tests that pytest ran, and its output."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rA", *options],
        cwd=project.root,
        env={"PYTHONPATH": str(ROOT), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == status, done.stdout + done.stderr
    return set(re.findall(r"^(?:PASSED|FAILED) tests/test_it.py::test_(\S+)", done.stdout, re.M)), done.stdout


def test_what_passed_runs_again_when_it_has_changed_or_is_asked_for(swept: Project) -> None:
    ran, said = run(swept)
    assert ran == EVERY
    assert "Sweeps: all run, because swept.txt is missing." in said
    assert run(swept, "--update")[0] == EVERY
    assert list(read(swept.root / RECORDED)) == [GRIDS, WARPS]
    (swept.root / KEPT).unlink()
    ran, said = run(swept)
    assert ran == {"another"}
    assert "Sweeps: 2 deselected: nothing that they cover has changed since they passed." in said
    assert run(swept, "--all")[0] == EVERY
    swept.write("lessons/grids.py", GOOD.replace("good()", "good(1)", 1))
    ran, said = run(swept)
    assert ran == {"lesson[grids]", "another"}
    assert "Sweeps: 1 passed anew. pytest --update --collect-only records them" in said
    run(swept, "--update", "--collect-only")  # this working tree keeps what has passed
    (swept.root / KEPT).unlink()
    assert run(swept)[0] == {"another"}


@pytest.mark.parametrize(
    ("file", "content", "changed"),
    [
        ("lessons/warps.py", GOOD.replace("A cat.", "A dog.\n# Another."), False),
        ("lessons/warps.py", GOOD.replace("# %%\n", '# %% needs="numba"\n'), True),
        ("lessons/warps.py", GOOD.replace("good()\n", "good()\nmore()\n", 1), True),
        ("src/simulator.py", '"""Runs kernels."""\n# Lanes.\nSIZE = 3  # lanes\n', False),
        ("src/simulator.py", '"""Runs."""\n\nSIZE = 4  # lanes\n', True),
        ("src/engine.c", "int x; // a\n", True),
        ("src/engine.c", "int x;\r\n", False),
        ("src/__pycache__/a.pyc", "x", False),
        ("src/more.h", "int y;\n", True),
        ("constraints.txt", "numpy==2.1\nziglang==0.17.0\n", False),
        ("constraints.txt", "numpy==2.0\nziglang==0.18.0\n", True),
        ("tests/test_it.py", TEST + "\nX = 1\n", True),
        ("lessons/other.py", GOOD, False),
    ],
)
def test_a_key_changes_with_what_is_covered(swept: Project, file: str, content: str, changed: bool) -> None:
    marks = [pytest.mark.sweep("src", packages=["ziglang"]).mark, pytest.mark.sweep("lessons/warps.py").mark]
    test = swept.root / "tests/test_it.py"
    before = Keys(swept.root).key(test, marks)
    swept.write(file, content)
    assert (Keys(swept.root).key(test, marks) != before) is changed


def test_a_case_that_fails_is_not_recorded_and_counts_as_passed_no_longer(swept: Project) -> None:
    swept.write("lessons/warps.py", GOOD.replace("good", "bad"))
    run(swept, "--update", status=1)
    assert list(read(swept.root / RECORDED)) == [GRIDS]
    assert run(swept, status=1)[0] == {"lesson[warps]", "another"}
    write(swept.root / RECORDED, {GRIDS: "0" * 16, WARPS: "0" * 16})
    run(swept, "--all", "--update", status=1)
    assert list(read(swept.root / RECORDED)) == list(read(swept.root / KEPT)) == [GRIDS]


def test_of_python_only_what_runs_counts() -> None:
    text = 'def f():\n    """Says.\n\n    More."""\n    # Why.\n\n    return r"""\n# kept\n\nkept"""\n'
    assert code_of(text) == 'def f():\n    return r"""\n# kept\n\nkept"""\n'
