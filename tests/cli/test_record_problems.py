"""Recording on a GPU in trouble: said with a repair, the old record kept, no partial one written."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tilewise.__main__ import main
from tilewise.gpu.device import State
from tilewise.measurements import experiment_timing
from tilewise.measurements.record import read_record, write_record

TWO_CASES = ('cases=[{"n": 4096}],', 'cases=[{"n": 4096}, {"n": 8192}],')


class CUDARuntimeError(RuntimeError):
    """Named as CuPy names it."""


class OutOfMemoryError(MemoryError):
    """Named as CuPy names it."""


def kept_record(project: SimpleNamespace) -> tuple[Path, bytes]:
    assert main(["record", "kernels/adding"]) == 0
    path = project.folder / "adding.json"
    return path, path.read_bytes()


def fails(project: SimpleNamespace, error: BaseException, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the second case of the experiment fail while it is timed, when the first is done."""
    project.lesson.write_text(project.lesson.read_text().replace(*TWO_CASES))
    times = experiment_timing.time_contenders

    def failing(*given: Any, **more: Any) -> Any:
        if failing.calls:  # type: ignore[attr-defined]
            raise error
        failing.calls += 1  # type: ignore[attr-defined]
        return times(*given, **more)

    failing.calls = 0  # type: ignore[attr-defined]
    monkeypatch.setattr(experiment_timing, "time_contenders", failing)


def add_lesson(project: SimpleNamespace, name: str) -> None:
    """A second lesson whose experiment has the name."""
    text = project.lesson.read_text().replace('"adding"', f'"{name}"')
    project.lesson.with_name(f"{name}.py").write_text(text)


def test_a_gpu_that_disappears_stops_the_run_and_the_next_one_goes_on(project, monkeypatch, capfd):
    path, before = kept_record(project)
    add_lesson(project, "later")
    with monkeypatch.context() as context:
        fails(project, CUDARuntimeError("cudaErrorDevicesUnavailable: devices are unavailable"), context)
        capfd.readouterr()
        assert main(["record", "kernels/adding", "kernels/later", "--force"]) == 1
    said = capfd.readouterr().out
    assert 'stopped: lessons/kernels/adding.py:28: measure("adding"): the GPU failed' in said
    assert "kernels/later" not in said, "nothing more is tried in a process whose GPU is gone"
    assert path.read_bytes() == before
    assert sorted(entry.name for entry in project.folder.iterdir()) == [
        "adding.json", "kernels.adding.raw.txt.json",
    ]  # fmt: skip
    assert main(["record", "kernels/adding", "kernels/later"]) == 0
    assert (project.folder / "later.json").is_file()


def test_times_beside_other_processes_are_refused(project, monkeypatch, capfd):
    path, before = kept_record(project)
    monkeypatch.setattr(experiment_timing, "others_computing", lambda identity: 1)
    assert main(["record", "kernels/adding", "--force"]) == 1
    assert "another process computes on this GPU at n = 4,096" in capfd.readouterr().out
    assert path.read_bytes() == before


def test_times_at_a_clock_that_was_held_down_are_refused(project, monkeypatch, capfd):
    path, before = kept_record(project)
    hot = State(1200.0, throttled_by=("its temperature (hardware)",))
    states = [*[State(1980.0)] * 2, hot]  # the text's, before the timing, after it
    monkeypatch.setattr(experiment_timing, "busy_state", lambda: states.pop(0))
    assert main(["record", "kernels/adding", "--force"]) == 1
    said = capfd.readouterr().out
    assert "the clock was held down by its temperature (hardware) at n = 4,096 from 1980 to 1200 MHz" in said
    assert path.read_bytes() == before


def test_without_nsight_compute_counters_are_refused_before_anything_is_timed(project, capsys):
    assert main(["record", "kernels/adding", "--counters"]) == 1
    said = capsys.readouterr().err
    assert "Nsight Compute (ncu) is not here" in said
    assert "Nothing was recorded." in said
    assert not project.folder.exists()
    assert project.gpu.launched == []


def test_recording_again_keeps_counters_that_still_hold(project, counted):
    path, _ = kept_record(project)
    made = read_record(path)
    write_record(replace(made, rows=(*made.rows, counted)), path)
    assert main(["record", "kernels/adding", "--force"]) == 0
    assert counted in read_record(path).rows
