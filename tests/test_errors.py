"""Each wrong lesson gives its one line: what, where, and what to do. Golden cases stand in tests/errors.

A case is a folder with `<name>.lesson` files, which become `lessons/part/<name>.py`, the navigation in
`nav.txt` (where it matters), and `expected.txt`.
"""

import pickle
from pathlib import Path

import pytest

from tilewise.errors import LessonError, LessonErrors

CASES = sorted(path for path in (Path(__file__).parent / "errors").iterdir() if path.is_dir())


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_wrong_lesson_gives_its_one_line(case, project, golden):
    for file in sorted(case.glob("*.lesson")):
        project.write(f"lessons/part/{file.stem}.py", file.read_bytes())
    navigation = case / "nav.txt"
    nav = navigation.read_text().split() if navigation.exists() else ["part/one"]
    with pytest.raises(LessonError) as caught:
        project.build(nav, time_limit_s=1 if case.name == "infinite_loop" else 60)
    text = str(caught.value)
    assert "Traceback" not in text and str(project.root) not in text
    assert all(len(line) < 400 for line in text.splitlines())
    golden(case / "expected.txt", text + "\n")


def test_errors_travel_between_processes():
    one, two = LessonError("a.py", 1, "x.", "y.", "long"), LessonError("b.py", 2, "z.")
    again = pickle.loads(pickle.dumps(LessonErrors([one, two])))
    assert str(again) == "a.py:1: x. y.\nb.py:2: z."
    assert [error.details for error in again.errors] == ["long", ""]
    assert (again.path, again.line) == ("a.py", 1)
