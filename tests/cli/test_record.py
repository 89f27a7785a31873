"""``tilewise record``, ``table`` and ``check`` on a project of one lesson and a fake GPU."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tilewise.__main__ import main
from tilewise.build.playback import find_lesson
from tilewise.gpu import counters
from tilewise.measurements.archive import Archive
from tilewise.measurements.definitions import uses_key


def test_record_writes_what_it_timed_and_a_second_call_leaves_it_alone(project, capfd):
    assert main(["record", "kernels/adding"]) == 0
    path = project.folder / "adding.json"
    written = json.loads(path.read_text())
    assert [(row["variant"], row["role"], row["median"]) for row in written["rows"]] == [
        ("one float", "variant", 120.0), ("float4", "variant", 100.0), ("cuBLAS", "library", 80.0),
    ]  # fmt: skip
    assert written["provenance"]["device"] == "NVIDIA H100 80GB HBM3"
    assert any("absent was not there" in note for note in written["provenance"]["notes"])
    assert len(written["rows"][0]["samples_us"]) == 200
    taken = {
        "kernel": "fake", "threads": 32, "registers": 16, "local_bytes": 0, "static_shared_bytes": 0,
        "dynamic_shared_bytes": 0, "blocks_per_sm": 64, "carveout": None,
    }  # fmt: skip
    assert written["method"]["resources"] == [taken]
    before = path.read_bytes()
    capfd.readouterr()
    assert main(["record", "lessons/kernels/adding.py"]) == 0
    assert "is current" in capfd.readouterr().out
    assert path.read_bytes() == before


def test_text_records_hold_what_a_gpu_cell_printed(project):
    main(["record", "kernels/adding"])
    source = 'print("hello from", "the GPU")'
    cells = find_lesson("kernels/adding", project.root).cells
    before = [cell.source for cell in cells if cell.kind == "code" and cell.record != "raw"]
    kept = Archive(project.root).text_record("kernels/adding", "raw", source)
    assert kept is not None
    assert (kept.text, kept.stale) == ("hello from the GPU", False)
    assert kept.uses == uses_key(source, before)
    changed = Archive(project.root).text_record("kernels/adding", "raw", 'print("bye")')
    assert changed is not None
    assert changed.stale


def test_a_wrong_answer_is_not_timed_and_keeps_the_old_record(project, capfd):
    main(["record", "kernels/adding"])
    before = (project.folder / "adding.json").read_bytes()

    def forgets_the_last(a: Any, b: Any, c: Any, n: int) -> None:
        c[: n - 1] = a[: n - 1] + b[: n - 1]

    project.state.BODY = forgets_the_last
    assert main(["record", "kernels/adding", "--force"]) == 1
    said = capfd.readouterr().out
    assert (
        'lessons/kernels/adding.py:28: measure("adding"): "one float" is wrong on the GPU: c[4095] is nan'
        in said
    )
    assert "not recorded: adding" in said
    assert (project.folder / "adding.json").read_bytes() == before


def test_an_interrupted_recording_leaves_no_half_written_file(project, monkeypatch):
    def interrupt(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("tilewise.measurements.experiment_timing.time_contenders", interrupt)
    assert main(["record", "kernels/adding"]) == 130
    written = [path.name for path in project.root.rglob("measurements/*/*")]
    assert written == ["kernels.adding.raw.txt.json"], "the text was whole, the experiment was not"


@pytest.mark.parametrize(
    ("old", "new", "renewed"),
    [
        ("a[i] + b[i]", "b[i] + a[i]", "adding.json"),
        ('"the GPU")', "shared_state.GPU.name)", "kernels.adding.raw.txt.json"),
    ],
)
def test_only_what_is_stale_is_recorded(project, old, new, renewed):
    assert main(["record", "--rounds", "1"]) == 0
    before = {path.name: path.read_bytes() for path in project.folder.iterdir()}
    project.lesson.write_text(project.text.replace(old, new), encoding="utf-8")
    assert main(["record", "--rounds", "1"]) == 0
    after = {path.name: path.read_bytes() for path in project.folder.iterdir()}
    assert [name for name in before if after[name] != before[name]] == [renewed]


TWO_TEXTS = """
# %% needs="gpu" record="more"
print("and", "more")
shared_state.library.played = True
"""


def test_only_what_is_named_is_recorded_and_other_texts_are_not_even_run(project, capfd):
    project.lesson.write_text(project.text + TWO_TEXTS)
    assert main(["record", "kernels/adding", "--only", "raw"]) == 0, "what is not wanted is not missed"
    assert [path.name for path in project.folder.iterdir()] == ["kernels.adding.raw.txt.json"]
    assert main(["record", "kernels/adding", "--only", "adding", "--rounds", "1"]) == 0
    assert (project.folder / "adding.json").is_file()
    assert not hasattr(project.state.library, "played")
    assert not (project.folder / "kernels.adding.more.txt.json").exists()
    assert main(["record", "kernels/adding", "--only", "adding", "--only", "more"]) == 0
    assert (project.folder / "kernels.adding.more.txt.json").is_file()
    capfd.readouterr()
    assert main(["record", "kernels/adding", "--only", "ading"]) == 1
    assert (
        '"ading" is neither an experiment nor a text record of kernels/adding. '
        "Give one of: adding, raw, more." in capfd.readouterr().err
    )


def test_without_a_gpu_recording_says_what_it_needs(project, monkeypatch, capsys):
    monkeypatch.setenv("TILEWISE_BACKEND", "simulator")
    assert main(["record", "kernels/adding"]) == 1
    assert capsys.readouterr().err.startswith("tilewise record: there is no GPU to record on.")


def test_counters_are_summed_by_variant_and_kept_with_the_count_case(project, monkeypatch):
    def ncu(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        assert main(command[command.index("tilewise") + 1 :]) == 0
        metric = "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum"
        rows = [f'"{at}","fake","{16 * (at + 1)}"' for at in range(len(project.gpu.profiled))]
        log = Path(command[command.index("--log-file") + 1])
        log.write_text(
            "\n".join(["==PROF== Connected", f'"ID","Kernel Name","{metric}"', '"","","sector"', *rows])
        )
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr("tilewise.cli.record.find_ncu", lambda: "/opt/ncu")
    assert main(["record", "kernels/adding"]) == 0
    monkeypatch.setattr(counters.subprocess, "run", ncu)
    assert main(["record", "kernels/adding", "--counters"]) == 0
    rows = json.loads((project.folder / "adding.json").read_text())["rows"]
    counted = [
        (row["variant"], row["case"], row["median"], row["counters"]) for row in rows if row["counters"]
    ]
    assert counted == [
        ("one float", {"n": 64}, None, {"global_load_sectors": 16.0}),
        ("float4", {"n": 64}, None, {"global_load_sectors": 32.0}),
    ]


def test_check_names_a_stale_record_with_the_command_that_repairs_it(project, capsys):
    main(["record", "kernels/adding"])
    capsys.readouterr()
    assert main(["check"]) == 0
    project.lesson.write_text(project.text.replace("a[i] + b[i]", "b[i] + a[i]"), encoding="utf-8")
    assert main(["check"]) == 1
    assert "lessons/kernels/adding.py:28: The record of adding from" in (said := capsys.readouterr().err)
    assert "tilewise record kernels/adding" in said


def test_check_runs_one_lesson_alone_and_orders_all(project, capsys):
    project.lesson.with_name("broken.py").write_text(
        "# ---\n# title: Broken\n# needs: []\n# ---\n\n# %%\nraise ValueError\n",
        encoding="utf-8",
    )
    assert main(["check", "kernels/adding"]) == 1
    said = capsys.readouterr()
    assert "1 of 2 lessons" in said.out
    assert "tilewise record kernels/adding" in said.err
    assert "broken.py:1: the lesson is not in the navigation" in said.err
    assert main(["check", "lessons/kernels/broken.py"]) == 1
    assert "1 of 2 lessons, " in (said := capsys.readouterr()).out
    assert "tilewise record kernels/adding" not in said.out
    assert main(["check", "kernels/ading"]) == 1
    assert (
        capsys.readouterr().err
        == 'kernels/ading: there is no such lesson. Did you mean "kernels/adding" or "kernels/broken"?\n'
    )


def test_check_asks_why_a_prediction_missed(project, capsys):
    assert main(["record", "kernels/adding"]) == 0
    capsys.readouterr()
    assert main(["check"]) == 0, capsys.readouterr().err
    project.lesson.write_text(project.text.replace("    within=100,\n", ""), encoding="utf-8")
    assert main(["check"]) == 1
    said = capsys.readouterr().err
    assert 'lessons/kernels/adding.py:28: measure("adding"): "one float" took' in said
    assert "Say why, and where: reasons=" in said
