"""All kernels on one roofline: which rows have a place, and where."""

from dataclasses import replace
from pathlib import Path

import pytest
from test_record import PROVENANCE, record

from tilewise.measurements import every_kernel
from tilewise.measurements.archive import Archive
from tilewise.measurements.output import Measurement
from tilewise.measurements.record import Row, write_record

TITLES = {"kernels/first_kernel": "The first <kernel>"}
OWN = "nvidia-h100-80gb-hbm3"
URLS = {"kernels/first_kernel": "lessons/kernels/first_kernel/"}


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    made = Archive(tmp_path / "lessons")
    rows = (
        Row("slow", "variant", {"n": 1000}, (10.0,), 10.0, 10.0, 10.0, None, 3_000_000, 300_000_000),
        Row("dense", "library", {"n": 1000}, (10.0,), 10.0, 10.0, 10.0, None, 3_000, 600_000_000),
        Row("no operations", "variant", {"n": 1000}, (10.0,), 10.0, 10.0, 10.0, None, 3_000, 0),
        Row("copy", "variant", {"n": 1000}, (10.0,), 10.0, 10.0, 10.0, None, 3_000_000, 300_000_000),
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


def test_rows_with_bytes_operations_and_a_time_of_the_device_alone_have_a_place(archive):
    found = every_kernel.points(archive, TITLES)[OWN]
    assert [(one.row.variant, one.row.role, one.intensity) for one in found] == [
        ("slow", "variant", 100.0), ("dense", "library", 200_000.0),
    ]  # fmt: skip
    assert found[0].tflop_per_s == pytest.approx(30.0)
    assert found[0].share == pytest.approx(30.0 / 66.9), "the flat roof is the data sheet's, not the record's"
    assert found[1].share == pytest.approx(60.0 / 66.9)


def test_the_page_has_the_figure_its_data_and_a_link_to_each_experiment(archive):
    page, other = every_kernel.fragment(archive, TITLES, URLS).split('<template data-machine="nvidia-h200"')
    files = every_kernel.data_files(archive, TITLES)
    assert len(files) == 2
    for (name, content), half, gpu in zip(files.items(), (page, other), ("H100", "H200"), strict=True):
        assert f'data-figure="../{name}"' in half
        assert b'"kind":"chart"' in content
        assert f" rows recorded on an NVIDIA {gpu}" in half
    assert page.startswith(f'<div class="tw-machines" data-shown="{OWN}">')
    assert "\n\n" not in page + other
    assert page.count('href="../lessons/kernels/first_kernel/#vector_add"') == 3, (
        "two rows, and the best again"
    )
    assert "The first &lt;kernel&gt;" in page


def test_the_best_of_a_lesson_is_a_kernel_of_its_own(archive):
    best = every_kernel.best_of_lessons(every_kernel.points(archive, TITLES)[OWN])
    assert [one.row.variant for one in best] == ["slow"], "the library is closer to the roof"


def test_each_point_has_its_name_and_markup_in_a_name_stays_text(archive):
    made = every_kernel.figure(TITLES, every_kernel.points(archive, TITLES)[OWN])
    named = {trace["name"]: trace["text"] for trace in made.spec["data"] if "text" in trace}
    assert named == {
        "libraries": ["dense, n = 1,000<br>The first &lt;kernel&gt;<br>90% of the roof"],
        "best of each lesson": ["slow, n = 1,000<br>The first &lt;kernel&gt;<br>45% of the roof"],
    }


def test_rows_that_no_longer_hold_are_left_out(archive):
    def now(*outdated: tuple[str, str]) -> dict[str, list[Measurement]]:
        rows = ({"variant": "slow"}, {"variant": "dense"})
        made = Measurement("vector_add", "kernels/first_kernel", None, (), rows, None, "", (), ())
        return {"kernels/first_kernel": [replace(made, outdated=outdated)]}

    def shown(*outdated: tuple[str, str]) -> list[str]:
        return [one.row.variant for one in every_kernel.points(archive, TITLES, now(*outdated))[OWN]]

    assert shown() == ["slow", "dense"]
    assert shown((PROVENANCE["device"], "slow")) == ["dense"]
    assert every_kernel.points(archive, TITLES, {}) == {}


def test_lessons_that_the_course_does_not_have_are_left_out(archive):
    assert every_kernel.data_files(archive, {"other/lesson": "Other"}) == {}
    assert every_kernel.fragment(archive, {"other/lesson": "Other"}, URLS) == ""
