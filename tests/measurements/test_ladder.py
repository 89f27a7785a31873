"""The ladder of attention kernels: computed from the records, linked to the lessons."""

import re
from pathlib import Path

from tilewise.measurements import ladder
from tilewise.measurements.archive import Archive

ROOT = Path(__file__).parents[2] / "lessons"


def test_every_step_has_a_record_on_each_machine_and_leads_to_its_lesson():
    archive = Archive(ROOT)
    lessons = {record.lesson for record in archive.records()}
    made = ladder.fragment(archive, {name: f"lessons/{name}/" for name in lessons})
    assert "\n\n" not in made
    pictures = made.split("<template")
    assert len(pictures) == 2, "one for each machine"
    for picture in pictures:
        links = re.findall(r'<a href="lessons/([\w/]+)/#(\w+)">', picture)
        assert len(links) == picture.count("<li") == len(ladder.STEPS)
        for (lesson, experiment), step in zip(links, ladder.STEPS, strict=True):
            record = archive.record(experiment)
            assert record is not None and record.lesson == lesson and experiment == step.experiment
    assert "156 ms, N = 256" in pictures[0] and "on an H100" in pictures[0] and "on an H200" in pictures[1]


def test_bars_grow_and_stand_on_the_axis():
    made = ladder.fragment(Archive(ROOT), {})
    assert "<a " not in made, "a lesson that is not published is not linked"
    widths = [float(width) for width in re.findall(r'style="width:([\d.]+)%"', made)]
    own = widths[: len(ladder.STEPS) - 1]
    assert own == sorted(own) and own[0] > 0 and own[-1] < 100


def test_the_sketch_has_the_headline_and_a_bar_for_each_of_our_kernels():
    made = ladder.sketch(Archive(ROOT))
    first = made.split("<template")[0]
    heights = [float(height) for height in re.findall(r'style="height:([\d.]+)%"', first)]
    assert len(heights) == len(ladder.STEPS) - 1 and heights == sorted(heights)
    title = re.findall(
        r"Eight attention kernels: [\d.]+ million times faster", ladder.fragment(Archive(ROOT), {})
    )
    assert title[0] in first


def test_without_the_records_there_is_no_picture(tmp_path):
    assert ladder.fragment(Archive(tmp_path), {}) == ladder.sketch(Archive(tmp_path)) == ""
