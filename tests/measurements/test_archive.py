"""The archive: which record is found, and how its values are spelt."""

from pathlib import Path

import pytest
from test_record import PROVENANCE, record

from tilewise.measurements.archive import Archive, lesson_id, lesson_root
from tilewise.measurements.definitions import uses_key
from tilewise.measurements.key import text_key
from tilewise.measurements.record import Row, TextRecord, write_record
from tilewise.measurements.slugs import case_slug, case_text, device_slug, name_slug


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    made = Archive(tmp_path / "lessons")
    write_record(record(), made.path("vector_add", "NVIDIA H100 80GB HBM3"))
    h200 = record(provenance={**PROVENANCE, "device": "NVIDIA H200"})
    write_record(h200, made.path("vector_add", "NVIDIA H200"))
    return made


def test_the_first_device_by_name_is_shown_unless_another_is_asked_for(archive, monkeypatch):
    def device(name: str | None = None) -> str:
        found = archive.record("vector_add", name)
        assert found is not None
        return str(found.provenance["device"])

    assert device() == "NVIDIA H100 80GB HBM3"
    assert device("NVIDIA H200") == "NVIDIA H200"
    assert device("Tesla T4") == "NVIDIA H100 80GB HBM3"
    monkeypatch.setenv("TILEWISE_RECORDED_ON", "nvidia-h200")
    assert device() == "NVIDIA H200"


def test_on_a_gpu_its_own_records_come_first(archive, monkeypatch):
    home, other = archive.devices[:2]
    monkeypatch.setattr("tilewise.measurements.archive.gpu_here", lambda: True)
    for name, expected in ((other, other), ("NVIDIA A10", home)):
        monkeypatch.setattr("tilewise.measurements.archive.device_name", lambda name=name: name)
        assert Archive(archive.root).wanted == expected
    monkeypatch.setenv("TILEWISE_RECORDED_ON", home)
    monkeypatch.setattr("tilewise.measurements.archive.device_name", lambda: other)
    assert Archive(archive.root).wanted == home


def test_an_experiment_without_a_record_is_none(archive):
    assert archive.record("other") is None
    assert archive.lookup("other") is None
    assert archive.text_record("kernels/first_kernel", "raw", "print(1)") is None
    assert Archive(archive.root / "nowhere").devices == ()


def test_who_only_reads_a_text_record_needs_no_cell(archive):
    made = TextRecord("kernels/first_kernel", "printed", "a" * 64, PROVENANCE, "one line")
    write_record(made, archive.text_path("kernels/first_kernel", "printed", PROVENANCE["device"]))
    read = archive.text_record("kernels/first_kernel", "printed")
    judged = archive.text_record("kernels/first_kernel", "printed", "print(2)")
    assert read is not None
    assert judged is not None
    assert (read.text, read.stale, judged.stale) == ("one line", False, True)


def test_a_text_record_is_stale_where_what_its_cell_uses_has_changed(archive):
    cell, before = "print(n)", ["n = 1"]
    path = archive.text_path("kernels/first_kernel", "counted", PROVENANCE["device"])
    for uses, stale in ((uses_key(cell, before), True), ("", False)):
        write_record(
            TextRecord("kernels/first_kernel", "counted", text_key(cell), PROVENANCE, "1", uses), path
        )
        now, later = (
            archive.text_record("kernels/first_kernel", "counted", cell, before=[text])
            for text in (*before, "n = 2")
        )
        assert now is not None
        assert later is not None
        assert (now.uses, now.stale, later.stale) == (uses, False, stale)


def test_of_several_machines_texts_the_first_current_one_is_found(archive):
    at = ("kernels/first_kernel", "counted")
    for device, cell in (
        (PROVENANCE["device"], "print(1)"),
        ("NVIDIA H200", "print(2)"),
        ("Tesla T4", "print(2)"),
    ):
        made = TextRecord(*at, text_key(cell), {**PROVENANCE, "device": device}, device)
        write_record(made, archive.text_path(*at, device))

    def found(cell: str, device: str | None = None) -> tuple[str, bool]:
        kept = archive.text_record(*at, cell, device)
        assert kept is not None
        return kept.text, kept.stale

    assert found("print(2)") == ("NVIDIA H200", False)
    assert found("print(2)", "Tesla T4") == ("Tesla T4", False)
    assert found("print(1)", "Tesla T4") == ("NVIDIA H100 80GB HBM3", False)
    assert found("print(3)") == ("NVIDIA H100 80GB HBM3", True)


def test_every_record_is_listed(archive):
    assert [found.provenance["device"] for found in archive.records()] == [
        "NVIDIA H100 80GB HBM3",
        "NVIDIA H200",
    ]


def test_values_are_looked_up_by_variant_case_and_name(archive):
    values = archive.lookup("vector_add")
    assert values is not None
    assert values["device"] == "NVIDIA H100 80GB HBM3"
    assert values["ceilings"]["memory_gb_per_s"] == 3000.0
    case = values["one_float"]["n_1000"]
    assert case["median"] == values["one_float"]["median"] == 10.0
    assert case["gb_per_s"] == pytest.approx(1.2)
    assert case["tflop_per_s"] == pytest.approx(1e-4)
    assert case["bound"] == 3.0, "one launch takes longer than 12 kB"
    assert case["share_of_bound"] == pytest.approx(0.3)
    assert case["share_of_library"] == pytest.approx(0.5)
    assert values["cublas"]["times_first"] == pytest.approx(2.0)
    assert values["one_float"]["n_64"]["counters"] == {"instructions": 7.0}


def test_no_factor_is_given_where_the_spread_is_larger_than_the_difference(tmp_path):
    archive = Archive(tmp_path / "lessons")
    rows = (
        Row("slow", "variant", {"n": 1}, (9.0, 10.0, 11.0), 9.0, 10.0, 11.0, None),
        Row("same", "variant", {"n": 1}, (8.0, 9.5, 10.0), 8.0, 9.5, 10.0, None),
        Row("fast", "variant", {"n": 1}, (5.0, 5.0, 5.0), 5.0, 5.0, 5.0, None),
    )
    write_record(record(rows=rows), archive.path("vector_add", PROVENANCE["device"]))
    values = archive.lookup("vector_add")
    assert values is not None
    assert "times_first" not in values["same"]
    assert values["fast"]["times_first"] == 2.0


def test_names_are_spelt_for_files_and_look_ups():
    assert device_slug("NVIDIA H100 80GB HBM3") == "nvidia-h100-80gb-hbm3"
    assert name_slug("Kernel 2: three kernels") == "kernel_2_three_kernels"
    assert name_slug("16 x 16") == "_16_x_16"
    assert case_slug({"n": 1048576, "rate": 0.5, "kind": "FP-16"}) == "n_1048576_rate_0_5_kind_fp_16"
    assert case_slug({}) == "only"
    assert case_text({"n": 2**20, "m": 1_000_000, "d": 64}) == "n = 2²⁰, m = 1,000,000, d = 64"


def test_a_lesson_finds_its_folder_and_its_id(tmp_path, monkeypatch):
    file = tmp_path / "lessons" / "memory" / "coalescing.py"
    assert lesson_root(file) == tmp_path / "lessons"
    assert lesson_id(file, tmp_path / "lessons") == "memory/coalescing"
    monkeypatch.setenv("TILEWISE_LESSONS", str(tmp_path / "elsewhere"))
    assert lesson_root(file) == tmp_path / "elsewhere"
    assert lesson_id(file, tmp_path / "elsewhere") == "coalescing"
