"""The parts of the pages "What the simulator counts" and "What the kernels take"."""

import re
from dataclasses import replace

import pytest

from tilewise.build.pipeline import CourseView
from tilewise.course.order import Course
from tilewise.errors import LessonError
from tilewise.measurements import validation as page
from tilewise.measurements.validation import Comparison, load_comparison
from validation.comparison import assemble, waiting
from validation.differences import KNOWN
from validation.record import PROJECT, Counted, counters

DOCS = PROJECT / "docs"
PAGE = DOCS / "what-the-simulator-counts.md"


def test_the_pages_use_every_part_and_no_other():
    text = PAGE.read_text(encoding="utf-8") + (DOCS / "what-the-kernels-take.md").read_text(encoding="utf-8")
    assert set(re.findall(r"\{\{ hardware\.(\w+) \}\}", text)) == {
        "resources",
        *page.FRAGMENTS,
        *page.PLAIN,
    }
    nav = (DOCS.parent / "mkdocs.yml").read_text(encoding="utf-8")
    assert "what-the-kernels-take.md" in nav and PAGE.name in nav


def test_the_course_fills_the_parts_in():
    view = CourseView(Course.of([]), {}, {}, DOCS.parent / "lessons", ())
    text = "Of {{ hardware.counts }} counts, {{ hardware.equal }} are equal.\n\n{{ hardware.differences }}\n"
    filled = view.fill(text, "docs/page.md", text)
    counts, equal = (int(word.replace(",", "")) for word in re.findall(r"\d[\d,]*(?= )", filled)[:2])
    names = {row.name for row in RECORD.rows}
    assert counts - equal == sum(len(known) for name, known in KNOWN.items() if name in names)
    for specimen in names & set(KNOWN):
        assert specimen in filled
    with pytest.raises(LessonError, match=r'docs/page\.md:1: there is no "hardware\.tabel"'):
        view.fill("{{ hardware.tabel }}", "docs/page.md", "{{ hardware.tabel }}")


GROUP = "Global memory"
COUNTS = counters()[0]
RECORD = load_comparison(PROJECT)


def _against(rows: list[Counted]) -> Comparison:
    """The specimens of one group against some rows of counters."""
    counts = replace(COUNTS, rows=tuple(rows))
    keys = {row.name: row.key for row in rows}
    group = [
        row if keys.get(row.name) == row.key else waiting(row.name, row.key, counts)
        for row in RECORD.groups[GROUP]
    ]
    return assemble({GROUP: group}, counts, "")


def test_what_is_not_compared_is_named():
    names = list(RECORD.keys(GROUP))
    first, second, *others = [row for row in COUNTS.rows if row.name in names]
    whole, part = _against([first, second, *others]), _against([replace(second, key=""), *others])
    assert _against([replace(first, name="gone")]).gone == ("gone",)
    assert page.FRAGMENTS["uncounted"](whole) == "All kernels of all lessons are in these tables."
    text = page.FRAGMENTS["uncounted"](part)
    assert re.search(rf"not counted on this GPU yet</td>.*{re.escape(first.name)}</td>", text)
    assert re.search(rf"changed since they were counted</td>.*{re.escape(second.name)}</td>", text)
    assert text.startswith("2 kernels of lessons are in none of these tables")
    assert page.FRAGMENTS["kernels"](part) == str(len(names) - 2)
    for name in (first.name, second.name):
        assert f">{name}<" in page.FRAGMENTS["table"](whole)
        assert f">{name}<" not in page.FRAGMENTS["table"](part)


def test_a_difference_without_a_reason_stands_as_not_explained():
    (row,) = [row for row in RECORD.groups[GROUP] if row.name == "strided by 3"]
    pair = row.counts["global load sectors"]
    wrong = replace(row, counts={"global load sectors": replace(pair, counted=pair.counted + 1)})
    text = page.FRAGMENTS["differences"](assemble({GROUP: [wrong]}, COUNTS, ""))
    assert text.startswith("### Not explained\n") and "strided by 3" in text and "+1" in text
