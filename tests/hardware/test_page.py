"""The parts of the page "What the simulator counts"."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from tilewise.course import Course
from tilewise.errors import LessonError
from tilewise.hardware import clangs, page
from tilewise.hardware.collection import groups
from tilewise.hardware.comparison import compare
from tilewise.hardware.differences import KNOWN
from tilewise.hardware.record import CountsRecord, recorded
from tilewise.mkdocs_plugin.lessons import Shelf

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "what-the-simulator-counts.md"


def test_the_pages_use_every_part_and_no_other() -> None:
    text = PAGE.read_text(encoding="utf-8") + (DOCS / "what-the-kernels-take.md").read_text(encoding="utf-8")
    assert set(re.findall(r"\{\{ hardware\.(\w+) \}\}", text)) == {*page.FRAGMENTS, *page.PLAIN}


def test_the_differences_of_two_compilers_are_shown() -> None:
    record = clangs.recorded()
    text = page.fragment("clangs")
    assert record.found and text.count("<tr>") == len(record.found) + 1
    for one in record.found:
        assert f"{one.ours:,}" in text and f"{one.other - one.ours:+,}" in text
    assert page.fragment("clang_pair") == f"clang {record.ours} and clang {record.other}"


def test_the_page_types_no_count() -> None:
    text = PAGE.read_text(encoding="utf-8").split("---", 2)[2]
    words = set(re.findall(r"(?<![\w.])\d[\d,.]*", text))
    sizes = {"1", "2", "8", "16", "32", "128", "65536"}
    assert words <= sizes, "sizes of the machine may be typed, results may not"


def test_the_shelf_fills_the_parts_in() -> None:
    shelf = Shelf(Course.of([]), {}, (), {}, DOCS.parent / "lessons", ())
    text = "Of {{ hardware.counts }} counts, {{ hardware.equal }} are equal.\n\n{{ hardware.differences }}\n"
    filled = shelf.fill(text, "docs/page.md", text)
    counts, equal = (int(word.replace(",", "")) for word in re.findall(r"\d[\d,]*(?= )", filled)[:2])
    assert counts - equal == sum(len(known) for known in KNOWN.values())
    for specimen in KNOWN:
        assert specimen in filled
    with pytest.raises(LessonError, match=r'docs/page\.md:1: there is no "hardware\.tabel"'):
        shelf.fill("{{ hardware.tabel }}", "docs/page.md", "{{ hardware.tabel }}")


def test_a_specimen_that_has_changed_is_named_and_left_out() -> None:
    record = recorded()[0]
    stale = CountsRecord(
        record.provenance, record.metrics, (replace(record.rows[0], key=""), *record.rows[1:])
    )
    compared = compare(stale, groups(), keep_stale=True)
    name = record.rows[0].name
    found = compare(record, groups(), keep_stale=True)
    assert {one.name for one in compared.stale} - {one.name for one in found.stale} == {name}
    assert re.search(f'to be counted again: .*"{re.escape(name)}"', page.FRAGMENTS["table"](compared))
    assert page.FRAGMENTS["kernels"](compared) == str(len(found.rows) - 1)
