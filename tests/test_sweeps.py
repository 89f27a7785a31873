"""Sweeps: a case runs when something that it covers has changed since it passed, and not before."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import Project
from tests.sweeps import KEPT, RECORDED, SAMPLE, SIMULATOR, Keys, Pass, read, write

ROOT = Path(__file__).resolve().parents[1]
CONFTEST = """
from tests.sweeps import Sweeps

def pytest_addoption(parser):
    parser.addoption("--all", action="store_true")
    parser.addoption("--due", action="store_true")
    parser.addoption("--update", action="store_true")

def pytest_configure(config):
    config.addinivalue_line("markers", "sweep: of the tests")
    config.pluginmanager.register(Sweeps(config))
"""
TEST = """
import pytest
from pathlib import Path

LESSONS = [pytest.param(one, marks=pytest.mark.sweep(f"lessons/{one}.py")) for one in ("grids", "warps")]

@pytest.mark.sweep("src", packages=["ziglang"], at_least=0.8)
@pytest.mark.parametrize("lesson", LESSONS)
def test_lesson(lesson, record_property):
    good = Path(f"lessons/{lesson}.py").read_text().count("good")
    record_property("tally", f"{good}/10")
    assert good >= 5

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


def test_what_passed_runs_again_when_it_has_changed_or_is_asked_for(swept):
    ran, said = run(swept)
    assert ran == EVERY
    assert "Sweeps: all run, because swept.txt is missing." in said
    assert run(swept, "--update")[0] == EVERY
    assert list(read(swept.root / RECORDED)) == [GRIDS, WARPS]
    (swept.root / KEPT).unlink()
    ran, said = run(swept)
    assert ran == {"another"}
    assert "Sweeps: 2 left out: nothing that they cover has changed since they passed." in said
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
def test_a_key_changes_with_what_is_covered(swept, file, content, changed):
    marks = [pytest.mark.sweep("src", packages=["ziglang"]).mark, pytest.mark.sweep("lessons/warps.py").mark]
    test = swept.root / "tests/test_it.py"
    before = Keys(swept.root).key(test, marks)
    swept.write(file, content)
    assert (Keys(swept.root).key(test, marks) != before) is changed


def test_a_new_file_of_the_simulator_is_covered_or_named_here():
    """SIMULATOR names what lessons' kernels need: nothing is left out because nobody thought of it."""

    def files(*patterns: str) -> set[str]:
        found = {file for one in patterns for path in ROOT.glob(one) for file in (path, *path.rglob("*"))}
        return {
            file.relative_to(ROOT).as_posix() for file in found if file.suffix in (".py", ".c", ".h", ".cuh")
        }

    only_of_files_with_main = {
        *(f"src/tilewise/cuda/{one}.py" for one in ("host_values", "launch_sites", "top_level")),
        "src/tilewise/simulator/compile/whole_file.py",
    }
    left = files("src/tilewise/simulator", "src/tilewise/cuda") - files(*SIMULATOR)
    assert left - only_of_files_with_main <= {
        "src/tilewise/cuda/difference.py",
        "src/tilewise/cuda/__init__.py",
    }


def test_a_case_that_fails_is_not_recorded_and_counts_as_passed_no_longer(swept):
    swept.write("lessons/warps.py", GOOD.replace("good", "bad"))
    run(swept, "--update", status=1)
    assert list(read(swept.root / RECORDED)) == [GRIDS]
    assert run(swept, status=1)[0] == {"lesson[warps]", "another"}
    write(swept.root / RECORDED, {GRIDS: Pass("0" * 16), WARPS: Pass("0" * 16)})
    run(swept, "--all", "--update", status=1)
    assert list(read(swept.root / RECORDED)) == list(read(swept.root / KEPT)) == [GRIDS]


def many(project: Project, *, good: int, more: str = "") -> None:
    """A sweep of twenty cases, each of which is good in so many of ten."""
    project.write(
        "tests/test_it.py",
        "import pytest\n"
        f'@pytest.mark.sweep("src", at_least=0.8{more})\n'
        '@pytest.mark.parametrize("number", range(20))\n'
        "def test_lesson(number, record_property):\n"
        f'    record_property("tally", "{good}/10")\n',
    )


def test_of_many_cases_that_are_due_a_sample_runs_another_for_each_change(swept):
    many(swept, good=8)
    run(swept, "--update")  # a file that is missing leaves nothing out
    (swept.root / KEPT).unlink()
    swept.write("src/engine.c", "int y;\n")
    first, said = run(swept, "-n", "2")
    assert len(first) == SAMPLE
    assert f"Sweeps: {20 - SAMPLE} more are due" in said
    assert "test_lesson 80.0% of 200 are good" in said
    (swept.root / KEPT).unlink()
    assert run(swept)[0] == first, "the same of the same change"
    assert len(run(swept, "--due")[0]) == 20 - SAMPLE, "the others, now that these have passed"
    swept.write("src/engine.c", "int z;\n")
    assert run(swept)[0] != first


def test_too_little_that_is_good_in_all_fails_although_each_case_passes(swept):
    run(swept, "--update")
    swept.write("lessons/grids.py", GOOD.replace("good", "bad", 3))
    said = "test_lesson 75.0% of 20 are good; 80% must be."
    assert said in run(swept, status=1)[1]
    assert said in run(swept, "--all", "-n", "2", status=1)[1]
    (swept.root / KEPT).unlink()
    (swept.root / RECORDED).unlink()
    assert "are good" not in run(swept, GRIDS)[1], "one of two is not all"


@pytest.mark.parametrize("line", ["<<<<<<< ours", f"{GRIDS} 123"])
def test_a_damaged_file_leaves_nothing_out(swept, line):
    run(swept, "--update")
    with (swept.root / RECORDED).open("a") as file:
        file.write(f"{line}\n")
    ran, said = run(swept)
    assert ran == EVERY
    assert "line 3 of swept.txt cannot be read" in said


def test_the_projects_own_file_can_be_read_and_is_in_order():
    cases = list(read(ROOT / RECORDED))
    assert cases == sorted(cases)
