"""Records: written whole, read with suspicion."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

import tilewise.measurements.record as records
from tilewise.measurements.record import Record, RecordError, Row, TextRecord, read_record, write_record

SCHEMA = json.loads((Path(records.__file__).parent / "record.schema.json").read_text())
PROVENANCE = {
    "device": "NVIDIA H100 80GB HBM3", "date": "2026-11-21", "driver": "580.1", "sm_count": 132,
    "ceilings": {"memory_gb_per_s": 3000.0, "tflop_per_s": {"fp32": 60.0}, "launch_us": 3.0, "probes": {}},
    "versions": {"cupy": "14.2.0"}, "notes": [],
}  # fmt: skip


def record(**changes: Any) -> Record:
    rows = (
        Row("one float", "variant", {"n": 1000}, (9.0, 10.0, 11.0), 9.4, 10.0, 10.6, None, 12000, 1000),
        Row(
            *("cuBLAS", "library", {"n": 1000}, (5.0, 5.0, 5.0), 5.0, 5.0, 5.0, None, 12000, 1000),
            sm_clock_mhz=(1980.0, 1965.0),
            power_w=(512.3,),
        ),
        Row("one float", "variant", {"n": 64}, counters={"instructions": 7.0}, bytes=768, flop=64),
    )
    values: dict[str, Any] = {
        "experiment": "vector_add", "lesson": "kernels/first_kernel", "arithmetic": "fp32",
        "provenance": PROVENANCE, "rows": rows, "method": {"version": 1},
    } | changes  # fmt: skip
    return Record(**values)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "nvidia-h100-80gb-hbm3" / "vector_add.json"


def edit(path: Path, change: Any, seal: bool = True) -> None:
    """Change a written record; with ``seal`` its checksum is made to fit again."""
    body = json.loads(path.read_text())
    change(body)
    if seal:
        body["checksum"] = records.checksum(body)
    path.write_text(json.dumps(body))


def test_what_was_written_is_read_back(path):
    write_record(record(), path)
    found = read_record(path)
    assert found.rows == record().rows
    assert found.provenance == PROVENANCE
    jsonschema.validate(json.loads(path.read_text()), SCHEMA)
    assert [entry.name for entry in path.parent.iterdir()] == ["vector_add.json"]


def test_a_text_record_fits_the_schema(tmp_path):
    made = TextRecord("kernels/first_kernel", "raw", "a" * 64, PROVENANCE, "hello\nworld")
    write_record(made, tmp_path / "raw.txt.json")
    jsonschema.validate(json.loads((tmp_path / "raw.txt.json").read_text()), SCHEMA)
    assert records.read_text_record(tmp_path / "raw.txt.json") == made


def test_a_record_edited_by_hand_is_refused_with_the_command_that_repairs_it(path):
    write_record(record(), path)
    edit(path, lambda body: body["rows"][0].update(median=9.5), seal=False)
    with pytest.raises(RecordError) as caught:
        read_record(path, "lessons/measurements/x/vector_add.json")
    assert str(caught.value) == (
        "lessons/measurements/x/vector_add.json: the record was edited by hand: its checksum does not fit "
        "its content. Record it again on a GPU: tilewise record kernels/first_kernel --force."
    )


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda body: body.update(schema=1), "is not of form 2, the one that this version reads"),
        (lambda body: body.pop("rows"), "is malformed"),
        (lambda body: body.update(extra=1), "is malformed"),
        (lambda body: body["rows"].__setitem__(0, 3), "is malformed"),
        (lambda body: body.update(experiment="other"), 'is of the experiment "other"'),
        (lambda body: body["provenance"].update(device="\x1b[2J"), "was taken on '\\x1b[2J' and lies in"),
    ],
)
def test_a_record_of_another_form_is_refused(path, change, fault):
    write_record(record(), path)
    edit(path, change)
    with pytest.raises(RecordError) as caught:
        read_record(path)
    assert fault in str(caught.value)


def test_every_record_of_the_course_fits_the_schema():
    validator = jsonschema.Draft202012Validator(SCHEMA)
    files = sorted((Path(__file__).parents[2] / "lessons" / "measurements").glob("*/*.json"))
    assert len(files) > 100
    for file in files:
        body = json.loads(file.read_text(encoding="utf-8"))
        for row in body.get("rows", ()):
            row["samples_us"] = row["samples_us"][:3]  # a record has thousands
        assert next(validator.iter_errors(body), None) is None, file


@pytest.mark.parametrize("text", ["", '{"schema": 2', "[]", "[" * 100_000, '"\\ud800"'])
def test_what_is_no_object_is_refused_with_the_files_name(path, text):
    path.parent.mkdir()
    path.write_text(text)
    for read in (read_record, records.read_text_record):
        with pytest.raises(RecordError, match=r"^there\.json:?\d*: the (text )?record is no JSON") as caught:
            read(path, "there.json")
        assert "tilewise record LESSON --force" in str(caught.value)


def test_a_text_record_with_a_member_of_another_form_is_refused(tmp_path):
    path = tmp_path / "raw.txt.json"
    write_record(TextRecord("kernels/first_kernel", "raw", "a" * 64, PROVENANCE, "hello"), path)
    edit(path, lambda body: body.update(extra=1))
    with pytest.raises(RecordError, match=r"^there\.json: the text record is malformed"):
        records.read_text_record(path, "there.json")


def test_a_failed_write_leaves_the_old_record(path, monkeypatch):
    write_record(record(), path)
    before = path.read_bytes()

    def full(*_: Any) -> str:
        raise OSError("no space left")

    monkeypatch.setattr(records, "layout", full)
    with pytest.raises(OSError, match="no space"):
        write_record(record(lesson="other"), path)
    assert path.read_bytes() == before
    assert [entry.name for entry in path.parent.iterdir()] == ["vector_add.json"]


def test_samples_stand_on_one_line(path):
    write_record(record(), path)
    assert '   "samples_us": [9.0, 10.0, 11.0],' in path.read_text().splitlines()
