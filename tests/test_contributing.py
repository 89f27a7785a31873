"""The lesson that CONTRIBUTING.md shows to begin from is a lesson: it reads, it runs, and it agrees."""

from __future__ import annotations

import re
import subprocess
import sys
import textwrap
from pathlib import Path

from tilewise.course import Course
from tilewise.lesson import read

ROOT = Path(__file__).parent.parent
TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def test_the_first_lesson_takes_its_place_in_the_course_and_runs(tmp_path: Path) -> None:
    (block,) = re.findall(r"^ *```python\n(.*?)^ *```$", TEXT, re.MULTILINE | re.DOTALL)
    file = tmp_path / "lessons" / "kernels" / "saxpy.py"
    file.parent.mkdir(parents=True)
    file.write_text(textwrap.dedent(block), encoding="utf-8")
    nav = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    order = re.findall(r"^ +- lessons/([\w/]+)\.py$", nav, re.MULTILINE)
    lessons = {name: read(ROOT / "lessons" / f"{name}.py", ROOT) for name in order}
    lessons["kernels/saxpy"] = read(file, tmp_path)
    order.insert(order.index("kernels/first_kernel") + 1, "kernels/saxpy")
    assert Course.from_nav(order, lessons).number("kernels/saxpy") == 2
    done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "pseudocode saxpy and kernel saxpy" in done.stdout


def test_what_it_names_is_there() -> None:
    paths = re.findall(r"`((?:src|tests|docs|lessons)/[\w./-]+)`", TEXT)
    assert len(set(paths)) > 8
    assert not [path for path in paths if not (ROOT / path).exists()]
