"""A lesson run on a GPU beside the record of another one: both columns, and a sentence on why they differ."""

from types import SimpleNamespace

import pytest

from tilewise.__main__ import main
from tilewise.build.playback import find_lesson, play
from tilewise.gpu.device import State
from tilewise.measurements import experiment_timing
from tilewise.measurements.experiment import handled_by
from tilewise.measurements.output import Measurement
from tilewise.measurements.report import report


def shown(project: SimpleNamespace) -> Measurement:
    made: list[Measurement] = []

    def handle(experiment):
        made.append(report(experiment))
        return made[-1]

    with handled_by(handle):
        assert play(find_lesson("kernels/adding", project.root)) == []
    return made[0]


@pytest.fixture
def recorded(project: SimpleNamespace, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """The project with a record of an H100 at 1,980 MHz."""
    monkeypatch.setattr(experiment_timing, "busy_state", lambda: State(sm_clock_mhz=1980.0))
    assert main(["record", "kernels/adding"]) == 0
    return project


def test_an_h200_stands_beside_the_record_of_an_h100(recorded):
    recorded.gpu.name = "NVIDIA H200"
    made = shown(recorded)
    heads = [column.name for column in made.table().columns]
    assert [name for name in heads if name in ("bound", "recorded", "here")] == ["bound", "recorded", "here"]
    assert made.counted() is not None
    assert (made.rows[0]["recorded"]["median"], made.rows[0]["here"]["median"]) == (120.0, 120.0)
    assert made.rows[0]["device"] == "NVIDIA H100 80GB HBM3"
    assert made.notes[0] == (
        "Here: NVIDIA H200 at 1,980 MHz; recorded on NVIDIA H100 80GB HBM3 at 1,980 MHz."
    )
    assert made.notes[1] == "All 3 rows here agree with the recorded ones within their spreads."
    assert made.notes[0] in made.text()


def test_a_record_of_this_device_is_taken_before_the_courses_own(recorded):
    recorded.gpu.name = "NVIDIA H200"
    assert main(["record", "kernels/adding"]) == 0
    assert shown(recorded).rows[0]["device"] == "NVIDIA H200"
    recorded.gpu.name = "NVIDIA A100-SXM4-80GB"
    assert shown(recorded).rows[0]["device"] == "NVIDIA H100 80GB HBM3"
