"""Further machines: what a lesson shows with each machine's records, found without running it whole again."""

import re
from pathlib import Path
from typing import Any

import pytest

from tilewise.build.page import render
from tilewise.build.playback import project_lessons
from tilewise.build.run.runner import LessonRun, Runner
from tilewise.course.lesson import read
from tilewise.course.order import Course
from tilewise.errors import LessonError
from tilewise.measurements.archive import Archive
from tilewise.measurements.key import text_key
from tilewise.measurements.record import TextRecord, write_record
from tilewise.outputs import encode

ROOT = Path(__file__).parent.parent
BORN = {
    "date": "2026-11-22", "versions": {},
    "ceilings": {"memory_gb_per_s": 3000.0, "tflop_per_s": {"fp32": 60.0}, "launch_us": 3.0, "probes": {}},
}  # fmt: skip
HOME, OTHER = "nvidia-h100-80gb-hbm3", "nvidia-h200"
LESSON = """# %%
from pathlib import Path

from tilewise import Table, publish, show
from tilewise.measurements import text_record

FACTOR = 2
rows = []
UNTOUCHED = ["as it was"]


def times(x):
    return FACTOR * x + value


def ran(name):
    file = Path(__file__).parents[2] / ".cache" / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(file.read_text() + "x" if file.exists() else "x")


# %%
value = int(text_record("kernels/one", "raw").text)
said = "read"

# %%
ran("alike")
print("alike", len(UNTOUCHED), FACTOR)

# %%
ran("differs")
rows.append(times(10))
publish(by_function=times(1), alike=FACTOR)
print(said)

# %%
show(Table(["n"], [[n] for n in rows], "On an {machine}."))

# %%
value = 0
print(times(1))

# %% [markdown]
# It is {{ by_function }}, and {{ alike }}.
#
# On an H100 it is {{ by_function }}.
#
# On an H200 it is {{ by_function }}.
#
# On an H100, not on an H200, it is {{ by_function }}.
#
# It is {{ by_function }}. H200: {{ by_function }}. Later {{ by_function }}. H100: {{ by_function }}.
"""


@pytest.fixture
def made(project: Any, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, Any]:
    """A project with a lesson and what it reads, recorded on two machines."""
    monkeypatch.chdir(project.root)
    archive = Archive(project.root / "lessons")
    for device, text in (("NVIDIA H100 80GB HBM3", "5"), ("NVIDIA H200", "7")):
        record = TextRecord("kernels/one", "raw", text_key(""), {**BORN, "device": device}, text)
        write_record(record, archive.text_path("kernels/one", "raw", device))
    return project, project.lesson(LESSON)


def texts(run: LessonRun) -> list[list[str]]:
    return [[output.text() for output in outputs] for outputs in run.outputs]


def test_what_rests_on_a_record_is_shown_for_each_machine_and_nothing_else_runs_again(
    made,
):
    project, lesson = made
    run = project.run(lesson)
    assert (run.machine, run.machines) == (HOME, (OTHER,))
    assert texts(run)[2:6] == [["alike 1 2"], ["read"], [" n\n--\n25\nOn an H100."], ["2"]]
    assert texts(run.on(OTHER))[2:6] == [["alike 1 2"], ["read"], [" n\n--\n27\nOn an H200."], ["2"]]
    assert list(run.others[OTHER]) == [4]
    assert run.published_by == {OTHER: {"by_function": 9}}
    counts = [len((project.root / ".cache" / name).read_text()) for name in ("alike", "differs")]
    assert counts == [1, 2]
    assert texts(run.on(OTHER).on(HOME)) == texts(run)


def test_a_page_holds_the_other_machines_outputs_and_numbers(made):
    project, lesson = made
    page = render(lesson, project.run(lesson), Course.of([lesson])).markdown
    block = page[page.index('<div class="tw-machines" data-shown="nvidia-h100-80gb-hbm3">') :]
    shown, other = block.split('<template data-machine="nvidia-h200" data-search-exclude>')
    assert "25" in shown and "27" not in shown
    assert "27" in other[: other.index("</template>")]
    sentence, first, second, both, mixed = (line for line in page.splitlines() if "t is <span" in line)
    assert sentence.count("data-on=") == 1
    assert "{&quot;nvidia-h200&quot;: {&quot;text&quot;: &quot;9&quot;}}" in sentence
    assert not any("data-on=" in line for line in (first, second, both)), "it stays the named GPU's"
    assert [re.findall(r">(\d+)</span>", line) for line in (first, second, both)] == [["7"], ["9"], ["7"]]
    assert re.findall(r">(\d+)</span>", mixed) == ["7", "9", "9", "7"], (
        "a sentence's GPU, or the one named before"
    )
    assert mixed.count("data-on=") == 1


def test_a_claim_that_fails_with_another_machines_records_says_whose(made):
    project, _ = made
    lesson = project.lesson(
        LESSON + '\n# %%\nassert times(1) < 3 + value or value == 0, "no"\nassert rows == [25], "slower"\n'
    )
    with pytest.raises(LessonError, match=f"with the records of {OTHER}: slower"):
        project.run(lesson)


def test_a_claim_that_fails_on_a_readers_own_machine_stops_nothing(made):
    project, _ = made
    archive = Archive(project.root / "lessons")
    born = {**BORN, "device": "NVIDIA GeForce RTX 4090"}
    record = TextRecord("kernels/one", "raw", text_key(""), born, "9")
    write_record(record, archive.text_path("kernels/one", "raw", "NVIDIA GeForce RTX 4090"))
    checking = '\n# %%\nprint("held")\nassert rows != [29], "slower"\n\n# %%\nprint("further")\n'
    run = project.run(project.lesson(LESSON + checking))
    theirs = run.on("nvidia-geforce-rtx-4090")
    assert texts(theirs)[4] == [" n\n--\n29\nOn an RTX 4090."]
    assert texts(theirs)[7:] == texts(run)[7:] == [["held"], ["further"]]


@pytest.mark.sweep("src/tilewise/build/run")
@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.sweep(f"lessons/{name}.py"))
        for name in project_lessons(ROOT / "lessons")
    ],
)
def test_a_lesson_shows_what_it_shows_when_it_runs_with_that_machines_records_alone(name, monkeypatch):
    lesson = read(ROOT / "lessons" / f"{name}.py", ROOT)
    with Runner(ROOT, ROOT / ".cache/tilewise") as runner:
        beside = runner.run(lesson)
        monkeypatch.setenv("TILEWISE_RECORDED_ON", OTHER)
        alone = runner.run(read(ROOT / "lessons" / f"{name}.py", ROOT))
    beside = beside if beside.machine == OTHER else beside.on(OTHER)
    for cell, one, other in zip(lesson.cells, beside.outputs, alone.outputs, strict=True):
        assert list(map(encode, one)) == list(map(encode, other)), str(cell)
    assert repr(beside.published) == repr(alone.published), "as text: NaN equals NaN"
