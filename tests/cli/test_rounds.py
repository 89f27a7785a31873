"""``tilewise record`` in rounds: children of their own, what they meet, and rounds that are added."""

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jsonschema
import pytest

import tilewise
from tilewise.__main__ import main
from tilewise.build.playback import find_lesson, play
from tilewise.gpu import timing
from tilewise.measurements import experiment_timing, round_process
from tilewise.measurements import record as records
from tilewise.measurements.experiment import handled_by
from tilewise.measurements.record import read_record
from tilewise.measurements.report import report
from tilewise.measurements.rounds import parts
from tilewise.outputs import Context, Table

SCHEMA = json.loads((Path(records.__file__).parent / "record.schema.json").read_text())
TESTS = Path(__file__).parents[1]
STUBS = {
    "cupy": "import sys, fake_gpu\nsys.modules['cupy'] = fake_gpu.fake_cupy(fake_gpu.FakeGpu())\n",
    "shared_state": (
        "import fake_gpu\nimport cupy\nGPU, BODY = fake_gpu.CLOCK[0], None\n"
        "def library(arrays):\n"
        "    GPU.run('library', 83.0)\n"
        "    return (arrays['a'] + arrays['b']).view(fake_gpu.FakeArray)\n"
    ),
    "plotly": "raise ImportError('there is no plotly here')\n",
    "ziglang": "raise ImportError('there is no clang here')\n",
}


def taken(project: SimpleNamespace) -> dict[str, Any]:
    body: dict[str, Any] = json.loads((project.folder / "adding.json").read_text())
    return body


@pytest.fixture
def children(
    project: SimpleNamespace, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Path:
    """Real child processes, with the fake GPU for CuPy and without plotly and a compiler."""
    folder = tmp_path_factory.mktemp("stubs")
    for name, text in STUBS.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    source = Path(tilewise.__file__).parents[1]
    path = os.pathsep.join(map(str, (folder, TESTS / "measurements", source)))
    monkeypatch.setenv("PYTHONPATH", path)
    monkeypatch.setattr(round_process, "run_child", RUN_CHILD)
    return folder


RUN_CHILD = round_process.run_child


def test_a_record_has_three_rounds_each_further_one_in_a_process_of_its_own(project, children, capfd):
    assert main(["record", "kernels/adding"]) == 0, capfd.readouterr()
    body = taken(project)
    jsonschema.validate(body, SCHEMA)
    assert [row["rounds"] for row in body["rows"]] == [[67, 67, 66]] * 3
    library = next(row for row in read_record(project.folder / "adding.json").rows if row.role == "library")
    assert [part.median for part in parts(library)] == [80.0, 83.0, 83.0], "83 us is the child's library"
    assert library.median == 83.0
    assert len(body["provenance"]["rounds"]) == 3
    said = capfd.readouterr().out
    assert "adding: round 2 of 3, in a process of its own" in said
    assert "200 samples in 3 rounds" in said


def test_a_child_that_dies_is_told_and_the_old_record_stands(project, children, capfd):
    assert main(["record", "kernels/adding"]) == 0
    before = (project.folder / "adding.json").read_bytes()
    (children / "shared_state.py").write_text("import os\nos.write(2, b'no such state')\nos._exit(7)\n")
    assert main(["record", "kernels/adding", "--force"]) == 1
    assert (
        "a round of its own process gave no times: it ended with status 7: no such state. The old record"
        in (capfd.readouterr().out)
    )
    assert (project.folder / "adding.json").read_bytes() == before


def test_a_wrong_answer_in_a_child_is_an_error_at_the_lessons_line(project, children, capfd):
    wrong = STUBS["shared_state"].replace("BODY = fake_gpu.CLOCK[0], None", "BODY = fake_gpu.CLOCK[0], idle")
    (children / "shared_state.py").write_text(f"def idle(a, b, c, n): pass\n{wrong}")
    assert main(["record", "kernels/adding"]) == 1
    said = capfd.readouterr().out
    assert 'lessons/kernels/adding.py:28: measure("adding"): "one float" is wrong on the GPU' in said
    assert not (project.folder / "adding.json").exists()


@pytest.mark.parametrize("others", [1, 2])
def test_other_processes_are_told_apart_from_the_process_that_waits(project, monkeypatch, capfd, others):
    seen = iter([0, others, others])  # the first round alone; then this process and its child
    monkeypatch.setattr(experiment_timing, "others_computing", lambda identity: next(seen))
    assert main(["record", "kernels/adding"]) == others - 1
    refused = "another process computes on this GPU at n = 4,096" in capfd.readouterr().out
    assert refused == (others == 2)
    assert (project.folder / "adding.json").exists() == (others == 1)


def test_a_lesson_that_measures_something_else_the_second_time_is_refused(project, capfd):
    project.state.SIZES = iter([4096, 8192])
    project.lesson.write_text(project.text.replace('{"n": 4096}', '{"n": next(shared_state.SIZES)}'))
    assert main(["record", "kernels/adding"]) == 1
    assert "its keys change between processes" in capfd.readouterr().out


def test_an_experiment_whose_first_round_is_long_has_that_one_alone(project, monkeypatch, capfd):
    monkeypatch.setattr(round_process, "LONG_S", 0.0)
    assert main(["record", "kernels/adding"]) == 0
    assert "stays alone" in capfd.readouterr().out
    assert "rounds" not in taken(project)["rows"][0]
    assert main(["record", "kernels/adding", "--force", "--rounds", "2"]) == 0
    assert taken(project)["rows"][0]["rounds"] == [100, 100], "who asks for rounds has them"


def test_a_table_that_a_lesson_builds_of_recorded_times_says_where_they_were_taken(project, monkeypatch):
    assert main(["record", "kernels/adding"]) == 0
    monkeypatch.setenv("TILEWISE_BACKEND", "simulator")
    edited = project.text.replace("c[i] = a[i] + b[i]", "c[i] = b[i] + a[i]")
    for text, mark in ((project.text, "measured"), (edited, "stale")):
        project.lesson.write_text(text, encoding="utf-8")
        made: list[Any] = []
        with handled_by(lambda experiment, made=made: made.append(report(experiment)) or made[-1]):
            assert play(find_lesson("kernels/adding", project.root)) == []
        time = made[0].rows[0]["recorded"]["median"]
        (cell,) = Table(["recorded, ms"], [[time / 1000]]).rows[0]
        assert (cell.text, cell.mark) == (0.12, mark)
        assert made[0].rows[1]["recorded"]["median"].mark == "measured", "its sibling"
        assert f'id="{cell.origin}"' in made[0].markdown(Context("kernels/adding", 1, lambda *_: "", str))
        assert "another run 120 to 120 µs" in (cell.title or "")


def test_every_round_samples_clock_and_power_and_the_record_has_all_readings(project, monkeypatch, capsys):
    closed: list[str] = []
    meter = SimpleNamespace(
        sensor="now", sm_clock_mhz=lambda: None, power_w=lambda: None, close=lambda: closed.append("closed")
    )
    monkeypatch.setattr(experiment_timing, "nvml", lambda identity: meter)
    monkeypatch.setattr(timing, "inside", lambda readings, launches: (1755.0, 1770.0))
    assert main(["record", "kernels/adding", "--rounds", "2"]) == 0
    body = taken(project)
    jsonschema.validate(body, SCHEMA)
    assert closed == ["closed"] * 2
    assert [(row["sm_clock_mhz"], row["power_w"]) for row in body["rows"]] == [
        ([1755.0, 1770.0] * 2, [1755.0, 1770.0] * 2)
    ] * len(body["rows"])
    assert body["method"]["sampling"].startswith("SM clock and GPU power (now) through NVML every 5 ms")


def test_without_nvml_and_where_the_host_is_timed_nothing_is_sampled(project, monkeypatch):
    asked: list[str] = []
    monkeypatch.setattr(experiment_timing, "nvml", asked.append)
    assert main(["record", "kernels/adding", "--rounds", "1"]) == 0
    assert asked == ["0000:00:00.0"]
    assert "sampling" not in taken(project)["method"]
    text = project.text.replace("within=100,", "within=100, with_host=True,")
    project.lesson.write_text(text, encoding="utf-8")
    assert main(["record", "kernels/adding", "--rounds", "1"]) == 0
    assert asked == ["0000:00:00.0"]
