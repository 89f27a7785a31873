"""Numbers about performance that are typed by hand: found wherever a page shows prose, and nowhere else."""

import re
from pathlib import Path

import pytest

from tilewise.build.page.prose import edited
from tilewise.course.lesson import Lesson, parse
from tilewise.course.rules import lesson_faults
from tilewise.course.rules.typed_numbers import page_faults
from tilewise.course.typed_numbers import FORMS, faults, sourced, spelt_out, stray_marks, typed_numbers

ROOT = Path(__file__).parents[1]

DRESSED = (
    "It reaches **2.1** TB/s.",
    "It reaches *2.1 TB/s*.",
    "It reaches $2.1$ TB/s.",
    "It reaches `2.1` TB/s.",
    "It is $4\\times$ faster.",
    "It is [three times as fast](faster.md).",
    "It takes 12&nbsp;µs.",
    "It takes 12\u202fµs.",
    "## A kernel of 12 µs",
    "- a wait of\n    three\n    times as long",
    "[^1]: It took 3 ms.",
    '??? note "3 ms and more"\n    Text.',
    "| kernel | 3 ms |",
)

INNOCENT = (
    "Blocks come in multiples of 256 threads.",
    "It runs {{ x.y | .1f }} times as fast, in {{ a.b | us }}.",
    "That is {{ c | .0% }} of the bound and {{ d | .0f }} GB/s.",
    "The device has 80 GB of memory and 132 SMs.",
    "It is timed 200 times, and the loop runs 128 times for each row.",
    "Each element costs 12 bytes: 4 from `a`, 4 from `b`, 4 to `c`.",
    "The host's link is a PCIe 5.0 x16 slot.",
    "`x = 3 ms` is code, and so is `sleep(12 us)`.",
    "$t = 3\\,\\mathrm{ms}$ stands in a formula.",
    "At most 200 repetitions or 20 seconds.",
    "Twice as many threads start, and A is read twice.",
    "Eight lanes per cycle is another matter, and so is a rate in GB/s.",
    "The clock runs at 1,980 MHz.",
    "[the page](three-times-faster/3-ms) and https://example.org/3ms",
    "<!-- 3 ms --> A comment shows nothing.",
    "```\n3 ms\n```",
    "    ~~~\n    3 TB/s\n    ~~~",
    "SMs x units x 2 x clock.",
)


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
def test_each_form_finds_its_example_and_passes_what_looks_like_it(form):
    assert re.search(form.pattern, form.found, re.VERBOSE | re.IGNORECASE)
    assert typed_numbers(form.found)
    assert typed_numbers(form.passed) == ()


@pytest.mark.parametrize("sentence", DRESSED)
def test_emphasis_formulas_links_and_line_ends_do_not_hide_a_number(sentence):
    assert typed_numbers(sentence), sentence


@pytest.mark.parametrize("sentence", INNOCENT)
def test_an_innocent_sentence_passes(sentence):
    assert list(faults(sentence)) == [], sentence


def test_a_source_behind_the_number_makes_it_welcome():
    text = "It has 3.35 TB/s{from: NVIDIA H100 data sheet}, three times{from:\nthe sizes} as much."
    assert list(faults(text)) == []
    assert [(one.text, " ".join((one.source or "").split())) for one in typed_numbers(text)] == [
        ("3.35 TB/s", "NVIDIA H100 data sheet"), ("three times", "the sizes"),
    ]  # fmt: skip
    assert edited(text, sourced(text)) == (
        'It has <span class="tw-number tw-typed" data-source="NVIDIA H100 data sheet">3.35 TB/s</span>, '
        '<span class="tw-number tw-typed" data-source="the sizes">three times</span> as much.'
    )
    assert edited(text, spelt_out(text)) == (
        "It has 3.35 TB/s (NVIDIA H100 data sheet), three times (the sizes) as much."
    )


def test_marks_that_follow_no_number_or_name_nothing_are_faults():
    assert list(stray_marks("Some words{from: a book}. 3 ms{from: }. 3 ms {from: afar}. `{from: code}`")) == [
        10, 30, 45,
    ]  # fmt: skip


LESSON = """# ---
# title: Adding
# needs: []
# summary: "{summary}"
# ---

# %% [markdown]
# First line.
# {prose}

# %%
show(1, caption="{caption}")
exercise("{exercise}", "Do it.")
"""


def lesson(words: dict[str, str]) -> Lesson:
    return parse(LESSON.format(**words), "lessons/kernels/adding.py", "kernels/adding")


@pytest.mark.parametrize(("place", "line"), [("summary", 4), ("prose", 9), ("caption", 12), ("exercise", 13)])
def test_a_lesson_that_types_one_is_at_fault_with_its_line(place, line):
    words = dict.fromkeys(("summary", "prose", "caption", "exercise"), "Nothing.")
    assert list(lesson_faults(lesson(words))) == []
    (fault,) = lesson_faults(lesson(words | {place: "It takes 3 ms."}))
    assert str(fault).startswith(
        f'lessons/kernels/adding.py:{line}: "3 ms" is a number about performance, typed by hand. Quote it'
    )


def test_a_page_that_types_one_is_at_fault_with_its_line():
    (fault,) = page_faults("docs/speed.md", "---\ntitle: Speed\n---\n\n# Speed\n\nIt takes 3 ms.\n")
    assert (fault.path, fault.line) == ("docs/speed.md", 7)


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda page: page.name)
def test_no_page_types_one(page):
    assert [str(fault) for fault in page_faults(page.name, page.read_text(encoding="utf-8"))] == []
