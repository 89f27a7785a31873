"""What a Further page takes over from its lesson."""

from pathlib import Path

import pytest

from tilewise.kernels.from_lesson import from_lesson, with_taken_over
from tilewise.measurements.definitions import uses_key

LESSON = """# %%
from tilewise import Kernel, ceil_div

SOURCE = 'extern "C" __global__ void twice(float* x, int n) { if (threadIdx.x < n) x[threadIdx.x] *= 2; }'
TWICE = Kernel(SOURCE)
FACTOR = 2

# %%
def blocks(n):
    return FACTOR * ceil_div(n, 32)

# %%
raise SystemExit("no check and no figure of the lesson runs")
"""


@pytest.fixture(autouse=True)
def lesson(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    file = tmp_path / "lessons" / "part" / "one.py"
    file.parent.mkdir(parents=True)
    file.write_text(LESSON)
    monkeypatch.setenv("TILEWISE_LESSONS", str(tmp_path / "lessons"))
    return file


def test_only_what_the_names_rest_on_runs():
    kernel, blocks = from_lesson("part/one", "TWICE", "blocks")
    assert kernel.name == "twice"
    assert blocks(33) == 4


def test_a_kernel_names_its_lesson_in_messages(lesson):
    (kernel,) = from_lesson("part/one", "TWICE")
    assert kernel.origin[0] == str(lesson)


def test_a_name_that_the_lesson_lacks_is_refused():
    with pytest.raises(NameError, match=r"lessons/part/one\.py does not define THRICE"):
        from_lesson("part/one", "THRICE")


HERE = 'n = 2\nTWICE, count = from_lesson("part/one", "TWICE", "blocks")\nprint(n)'
AS_IF_HERE = LESSON.split("# %%\n")
CELL = "TWICE(count(5))"


def test_a_record_rests_on_what_is_taken_over_as_if_it_stood_here(lesson):
    written = [*AS_IF_HERE[1:3], "count = blocks"]
    assert uses_key(CELL, [with_taken_over(HERE)]) == uses_key(CELL, written)
    lesson.write_text(LESSON.replace("FACTOR = 2", "FACTOR = 3"))
    assert uses_key(CELL, [with_taken_over(HERE)]) != uses_key(CELL, written)


def test_code_that_takes_nothing_over_stays_as_it_is():
    assert with_taken_over("n = 2\nprint(n)") == "n = 2\nprint(n)"
    assert with_taken_over('n = 2\nprint("from_lesson(")') == 'n = 2\nprint("from_lesson(")'
