"""All kernels on one roofline: which rows have a place, and where."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_record import PROVENANCE, record

from tilewise.measurements import every_kernel
from tilewise.measurements.archive import Archive
from tilewise.measurements.record import Row, write_record

TITLES = {"kernels/first_kernel": "The first <kernel>"}
URLS = {"kernels/first_kernel": "lessons/kernels/first_kernel/"}


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    made = Archive(tmp_path / "lessons")
    rows = (
        Row("slow", "variant", {"n": 1000}, (10.0,), 10.0, 10.0, 10.0, None, 3_000_000, 300_000_000),
        Row("dense", "library", {"n": 1000}, (10.0,), 10.0, 10.0, 10.0, None, 3_000, 600_000_000),
        Row("no operations", "variant", {"n": 1000}, (10.0,), 10.0, 10.0, 10.0, None, 3_000, 0),
        Row("counted only", "variant", {"n": 64}, (), None, None, None, {"instructions": 7.0}, 768, 64),
    )
    write_record(record(rows=rows), made.path("vector_add", PROVENANCE["device"]))
    with_host = {"version": 1, "lead_in": "none: the host is in the time"}
    write_record(
        record(experiment="pieces", rows=rows, method=with_host), made.path("pieces", PROVENANCE["device"])
    )
    other = record(provenance={**PROVENANCE, "device": "NVIDIA H200"})
    write_record(other, made.path("vector_add", "NVIDIA H200"))
    return made


def test_rows_with_bytes_operations_and_a_time_of_the_device_alone_have_a_place(archive: Archive) -> None:
    found = every_kernel.points(archive)
    assert [(one.label, one.role, one.intensity) for one in found] == [
        ("slow", "variant", 100.0), ("dense", "library", 200_000.0),
    ]  # fmt: skip
    assert found[0].tflop_per_s == pytest.approx(30.0)
    assert found[0].share == pytest.approx(30.0 / 66.9), "the flat roof is the data sheet's, not the record's"
    assert found[1].share == pytest.approx(60.0 / 66.9)


def test_the_page_has_the_figure_its_data_and_a_link_to_each_experiment(archive: Archive) -> None:
    [(name, content)] = every_kernel.data_files(archive, TITLES).items()
    page = every_kernel.fragment(archive, TITLES, URLS)
    assert f'data-figure="../{name}"' in page
    assert b'"kind":"chart"' in content
    assert page.count('href="../lessons/kernels/first_kernel/#vector_add"') == 2
    assert "The first &lt;kernel&gt;" in page


def test_lessons_that_the_course_does_not_have_are_left_out(archive: Archive) -> None:
    assert every_kernel.data_files(archive, {"other/lesson": "Other"}) == {}
    with pytest.raises(ValueError, match="no recorded row"):
        every_kernel.figure(archive, {"other/lesson": "Other"})
