"""``tilewise record --stale``: what has no current record of this GPU is recorded, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tilewise.__main__ import main
from tilewise.measurements import bench

KERNEL = ("a[i] + b[i]", "b[i] + a[i]")
PRINTED = ('"hello from", "the GPU"', '"hello from", shared_state.GPU.name')


def edit(lesson: Path, old: str, new: str) -> None:
    text = lesson.read_text(encoding="utf-8")
    assert old in text
    lesson.write_text(text.replace(old, new), encoding="utf-8")


@pytest.fixture
def two(project: SimpleNamespace) -> tuple[Path, Path]:
    """Two lessons, each with an experiment and a text, all of which is recorded on an H100."""
    other = project.lesson.with_name("more.py")
    other.write_text(project.text.replace('"adding"', '"more"').replace("raw", "text"), encoding="utf-8")
    assert main(["record", "all", "--rounds", "1"]) == 0
    return project.lesson, other


def files(project: SimpleNamespace) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in project.folder.parent.glob("*/*.json")}


def begun(text: str) -> list[str]:
    """What was recorded, as the lines of progress count it."""
    return re.findall(r"\(\d+ of \d+\) (?!looking)(.*?)(?:, about .*)?\n", text)


def test_only_what_is_stale_is_recorded_and_then_nothing_is(
    project: SimpleNamespace, two: tuple[Path, Path], capfd: pytest.CaptureFixture[str]
) -> None:
    before = files(project)
    edit(two[0], *KERNEL)
    edit(two[1], *PRINTED)
    capfd.readouterr()
    assert main(["record", "--stale", "--rounds", "1"]) == 0
    said = capfd.readouterr().out
    assert begun(said) == ["kernels/adding: adding", "kernels/more: the text text"]
    assert "(1 of 2) kernels/adding: adding, about 40 s left" in said
    changed = {name for name, content in files(project).items() if content != before[name]}
    assert changed == {"adding.json", "kernels.more.text.txt.json"}
    assert main(["record", "--stale"]) == 0
    assert "nothing is stale on NVIDIA H100 80GB HBM3" in (said := capfd.readouterr().out)
    assert begun(said) == []


def test_a_run_that_was_interrupted_goes_on_with_what_is_left(
    project: SimpleNamespace, two: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    for lesson in two:
        edit(lesson, *KERNEL)
    with monkeypatch.context() as cut:
        times, calls = bench.time_contenders, []

        def once(*arguments: Any) -> Any:
            calls.append(arguments)
            if len(calls) > 1:
                raise KeyboardInterrupt
            return times(*arguments)

        cut.setattr(bench, "time_contenders", once)
        assert main(["record", "--stale", "--rounds", "1"]) == 130
    assert begun(capfd.readouterr().out)[-2:] == ["kernels/adding: adding", "kernels/more: more"]
    assert main(["record", "--stale", "--rounds", "1"]) == 0
    assert begun(capfd.readouterr().out) == ["kernels/more: more"]


def test_another_machine_records_its_own_times_and_texts(
    project: SimpleNamespace, two: tuple[Path, Path], capfd: pytest.CaptureFixture[str]
) -> None:
    project.gpu.name = "NVIDIA H200"
    capfd.readouterr()
    assert main(["record", "--stale", "kernels/adding", "--rounds", "1"]) == 0
    assert begun(capfd.readouterr().out) == ["kernels/adding: the text raw", "kernels/adding: adding"]
    edit(two[0], *PRINTED)
    assert main(["record", "--stale", "kernels/adding"]) == 0
    assert begun(capfd.readouterr().out) == ["kernels/adding: the text raw"]
    project.gpu.name = "NVIDIA H100 80GB HBM3"
    assert main(["record", "--stale", "kernels/adding"]) == 0
    assert begun(capfd.readouterr().out) == ["kernels/adding: the text raw"], "its own is stale"
    assert main(["record", "--stale", "kernels/adding"]) == 0
    assert begun(capfd.readouterr().out) == []


@pytest.mark.parametrize("option", ["--add", "--force", "--only=adding"])
def test_who_chooses_as_well_is_refused(
    project: SimpleNamespace, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    assert main(["record", "--stale", option]) == 1
    assert "tilewise record: --stale chooses by itself what to record." in capsys.readouterr().err
    assert main(["record"]) == 1
    assert "there is no lesson named. Name one, or all, or give --stale." in capsys.readouterr().err
