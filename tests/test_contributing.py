"""The lesson that CONTRIBUTING.md shows is whole: in a copy of the project it passes what lessons must."""

import os
import re
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import tilewise
from tilewise.simulator.compile.toolchain import cache_folder

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
NAME = "kernels/saxpy"
HELD = (
    "test_lesson.py", "test_lessons.py", "test_machines.py",
    "measurements/test_lessons_can_be_recorded.py", "simulator/trust/test_lesson_bugs.py",
)  # fmt: skip
"""The tests with a case for each lesson, but for those of its page; the rules are held by the check."""


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the project with that lesson in it, second in the navigation."""
    folder = tmp_path_factory.mktemp("copied")
    (block,) = re.findall(r"^ *```python\n(.*?)^ *```$", TEXT, re.MULTILINE | re.DOTALL)
    for name in ("tests", "lessons", "docs", "src"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, folder)
    (folder / f"lessons/{NAME}.py").write_text(textwrap.dedent(block), encoding="utf-8")
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    first = "      - lessons/kernels/first_kernel.py\n"
    assert nav.count(first) == 1
    changed = nav.replace(first, f"{first}      - lessons/{NAME}.py\n")
    (folder / "mkdocs.yml").write_text(changed, encoding="utf-8")
    return folder


def run(folder: Path, *arguments: str) -> str:
    """What Python prints with these arguments in a folder, where it must succeed."""
    home = str(Path(tilewise.__file__).parents[1])
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": home, "TILEWISE_CACHE": str(cache_folder())},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_first_lesson_runs_as_a_script(copied):
    assert "pseudocode saxpy and kernel saxpy" in run(copied, f"lessons/{NAME}.py")


def test_the_check_finds_no_fault_in_the_first_lesson(copied):
    assert re.search(r"^1 of \d+ lessons, 0 faults$", run(copied, "-m", "tilewise", "check", NAME), re.M)


def test_the_first_lesson_passes_the_tests_that_hold_every_lesson(copied):
    files = [f"tests/{name}" for name in HELD]
    said = run(copied, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "saxpy", *files)
    assert int(re.findall(r"^(\d+) passed", said, re.MULTILINE)[0]) > len(HELD)
    assert "skipped" not in said


def test_what_it_names_is_there():
    paths = re.findall(r"`((?:src|tests|docs|lessons)/[\w./-]+)`", TEXT)
    assert len(set(paths)) > 8
    assert not [path for path in paths if not (ROOT / path).exists()]
