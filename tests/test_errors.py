"""Each wrong lesson gives its one line: what, where, and what to do. Golden cases stand in tests/errors.

A case is a folder with `<name>.lesson` files, which become `lessons/part/<name>.py`, the navigation in
`nav.txt` (where it matters), and `expected.txt`.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tilewise.errors import LessonError, LessonErrors, nearest

CASES = sorted(path for path in (Path(__file__).parent / "errors").iterdir() if path.is_dir())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_wrong_lesson_gives_its_one_line(
    case: Path, project: Any, golden: Callable[[Path, str], None]
) -> None:
    for file in sorted(case.glob("*.lesson")):
        project.write(f"lessons/part/{file.stem}.py", file.read_bytes())
    navigation = case / "nav.txt"
    nav = navigation.read_text().split() if navigation.exists() else ["part/one"]
    with pytest.raises(LessonError) as caught:
        project.build(nav, time_limit_s=1)
    text = str(caught.value)
    assert "Traceback" not in text and str(project.root) not in text
    assert all(len(line) < 400 for line in text.splitlines())
    golden(case / "expected.txt", text + "\n")


def test_an_error_names_place_fault_and_repair_in_one_line() -> None:
    error = LessonError("lessons/a.py", 3, "two\nlines.", "Do\nthis.")
    assert str(error) == "lessons/a.py:3: two lines. Do this."
    assert str(LessonError("lessons/a.py", 0, "gone.")) == "lessons/a.py: gone."


def test_errors_travel_between_processes() -> None:
    one, two = LessonError("a.py", 1, "x.", "y.", "long"), LessonError("b.py", 2, "z.")
    again = pickle.loads(pickle.dumps(LessonErrors([one, two])))
    assert str(again) == "a.py:1: x. y.\nb.py:2: z."
    assert [error.details for error in again.errors] == ["long", ""]
    assert (again.path, again.line) == ("a.py", 1)


@pytest.mark.parametrize(
    ("name", "names", "said"),
    [
        ("machine/warp", ["machine/warps", "speed/roofline"], 'Did you mean "machine/warps"?'),
        ("Tab", ["tab", "needs"], 'Did you mean "tab"?'),
        ("zzz", ["tab", "needs"], 'There is "needs" and "tab".'),
        ("zzz", [], ""),
        ("zzz", [f"name{at}" for at in range(50)], ""),
    ],
)
def test_the_nearest_names_are_offered(name: str, names: list[str], said: str) -> None:
    assert nearest(name, names) == said
