"""``tilewise record --pending``: a key that proves a row renews the other and the label, and no figure."""

import json
from pathlib import Path

import pytest

from tilewise.__main__ import main
from tilewise.measurements.archive import Archive
from tilewise.measurements.key import text_key
from tilewise.measurements.prediction import PredictedRow, Prediction, write_prediction
from tilewise.measurements.record import (
    Record,
    Row,
    TextRecord,
    read_text_record,
    write_record,
)

LESSON = '''# ---
# title: Twice
# needs: []
# summary: "Twice as much: how long?"
# ---

# %%
from tilewise import Kernel, case, measure, normal, output

TWICE = Kernel(r"""
extern "C" __global__ void twice(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2.0f * x[i];
}
""")
measure(
    "twice",
    variants={"plain": lambda n: TWICE.on(case(x=normal(n), y=output(n), n=n), grid=1, block=n)},
    cases=[{"n": 64}],
    bytes=lambda n: 8 * n,
    reference=lambda x: 2 * x,
    within=100,
)
'''
H100 = {
    "device": "NVIDIA H100 80GB HBM3", "date": "2026-11-21", "versions": {},
    "ceilings": {"memory_gb_per_s": 3000.0, "tflop_per_s": {"fp32": 60.0}, "launch_us": 3.0, "probes": {}},
}  # fmt: skip


@pytest.fixture
def lesson(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A lesson with a record, both keys in it, on two devices, and a prediction from one of them."""
    file = tmp_path / "lessons" / "kernels" / "twice.py"
    file.parent.mkdir(parents=True)
    file.write_text(LESSON, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TILEWISE_BACKEND", "simulator")
    row = Row("plain", "variant", {"n": 64}, (4.0, 5.0), 4.2, 4.5, 4.8, None, 512, None, tokens=tokens())
    archive = Archive(tmp_path / "lessons")
    for device in ("NVIDIA H100 80GB HBM3", "NVIDIA H200"):
        made = Record("twice", "kernels/twice", "fp32", {**H100, "device": device}, (row,))
        write_record(made, archive.path("twice", device))
    assert main(["record", "kernels/twice", "--pending"]) == 0
    said = PredictedRow("twice", "kernels/twice", tokens(), "plain", {"n": 64}, 4.5, 4.4, 1.02, 3.0, 0.2, 1.3,
                        "launch", False)  # fmt: skip
    made = Prediction("H200", "NVIDIA H100 80GB HBM3", "2026-11-22", 0.1, 1.4, 1.0, (said,))
    write_prediction(made, archive.root / "predictions" / "h200.json")
    return file


def tokens() -> str:
    """The key of the lesson's variant as it is now."""
    from tilewise.build.playback import find_lesson, play
    from tilewise.measurements.experiment import handled_by

    made = []
    with handled_by(made.append):
        play(find_lesson("kernels/twice", Path("lessons")))
    return made[0].tokens("plain", {"n": 64})


def bodies() -> list[dict]:
    return [
        json.loads(path.read_text())
        for path in sorted(Path("lessons").rglob("*.json"))
        if path.name != "pending.json"
    ]


def figures() -> list[object]:
    return [
        {name: value for name, value in row.items() if name not in ("variant", "key", "tokens", "compiled")}
        for body in bodies()
        for row in body["rows"]
    ]


def edit(lesson: Path, old: str, new: str) -> None:
    text = lesson.read_text(encoding="utf-8")
    assert old in text
    lesson.write_text(text.replace(old, new), encoding="utf-8")


def test_a_rename_is_current_at_once_and_its_keys_are_renewed_on_every_device(lesson, capsys):
    before, keys = figures(), {row["tokens"] for body in bodies()[:2] for row in body["rows"]}
    edit(lesson, "i = blockIdx", "col = blockIdx")
    edit(lesson, "if (i < n) y[i] = 2.0f * x[i]", "if (col < n) y[col] = 2.0f * x[col]")
    edit(lesson, '"plain"', '"one float each"')
    main(["check"])
    said = capsys.readouterr().out
    assert said.count("tilewise record --pending kernels/twice") == 2
    assert "nvidia-h200/twice.json: its keys or labels are not those of now, though it holds" in said

    assert main(["record", "--pending"]) == 0
    assert capsys.readouterr().out.count("renewed lessons/measurements/") == 2
    assert figures() == before
    assert {(row["variant"], row["tokens"] in keys) for body in bodies()[:2] for row in body["rows"]} == {
        ("one float each", False)
    }
    (said_of,) = bodies()[2]["rows"]
    assert said_of["variant"] == "one float each"
    assert said_of["key"] == bodies()[0]["rows"][0]["tokens"], "the prediction is still of this row"
    assert main(["record", "--pending"]) == 0
    assert "renewed" not in capsys.readouterr().out
    main(["check"])
    assert "--pending" not in capsys.readouterr().out


def test_an_experiment_that_moves_to_another_lesson_takes_its_records_along(lesson, capsys):
    before = figures()
    lesson.rename(lesson.with_name("moved.py"))
    main(["check"])
    assert "tilewise record --pending kernels/moved" in capsys.readouterr().out
    assert main(["record", "kernels/moved", "--pending"]) == 0
    assert capsys.readouterr().out.count("renewed lessons/measurements/") == 2
    assert {body["lesson"] for body in bodies()[:2]} == {"kernels/moved"}
    assert [{**row, "lesson": ""} for row in figures()] == [{**row, "lesson": ""} for row in before]


def test_a_cell_that_moves_to_another_lesson_takes_what_it_printed_along(lesson, capsys):
    cell = '\n# %% needs="gpu" record="raw"\nprint("on", "a GPU")\n'
    archive, devices = Archive(lesson.parents[1]), (H100["device"], "NVIDIA H200")
    for device in devices:
        made = TextRecord("kernels/twice", "raw", text_key(cell), {**H100, "device": device}, "on a GPU")
        write_record(made, archive.text_path("kernels/twice", "raw", device))
    edit(lesson, "measure(\n", f"{cell}\n# %%\nmeasure(\n")
    further = lesson.with_name("further.py")
    further.write_text(LESSON.partition("# %%")[0] + cell, encoding="utf-8")
    assert main(["record", "kernels/further", "--pending"]) == 0
    assert not archive.text_path("kernels/further", "raw", devices[0]).exists(), (
        "the other lesson has it still"
    )

    edit(lesson, cell, "")
    changed = further.read_text(encoding="utf-8")
    edit(further, '"on", "a GPU"', '"on", "another"')
    assert main(["record", "kernels/further", "--pending"]) == 0
    assert not archive.text_path("kernels/further", "raw", devices[0]).exists(), "it is another cell"

    further.write_text(changed, encoding="utf-8")
    assert main(["record", "kernels/further", "--pending"]) == 0
    for device in devices:
        assert not archive.text_path("kernels/twice", "raw", device).exists()
        moved = read_text_record(archive.text_path("kernels/further", "raw", device))
        assert (moved.lesson, moved.text, moved.provenance["device"]) == (
            "kernels/further",
            "on a GPU",
            device,
        )
    assert "no longer pending: kernels.further.raw" in capsys.readouterr().out


def test_an_edit_is_not_renewed(lesson, capsys):
    before = bodies()
    edit(lesson, "2.0f * x[i]", "x[i] + x[i]")
    assert main(["record", "--pending"]) == 0
    assert bodies() == before
    main(["check"])
    said = capsys.readouterr()
    assert said.out.count("is stale: the code has changed since then") == 2, "pending, and the other's"
