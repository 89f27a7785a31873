"""Numbers in prose: found by path, formatted, and traced to where they come from."""

from typing import Any

import pytest

from tilewise.build.numbers import quote
from tilewise.course.lesson import Lesson, parse
from tilewise.errors import LessonError

PUBLISHED = {"n": 20_224, "share": 0.923, "rate": {"gb_per_s": 2345.678}, "name": "H100", "time": 1234.5}
RECORDS = {"add": {"median": 3.25, "device": "NVIDIA H100", "date": "2026-11-21"}}


def lesson_with(text: str) -> Lesson:
    return parse(f"# ---\n# title: One\n# ---\n\n# %% [markdown]\n# Text\n# {text}\n", "a.py", "a")


def quoted(text: str) -> Any:
    lesson = lesson_with(text)
    (mention,) = lesson.prose.numbers
    return quote(mention, lesson, PUBLISHED, RECORDS)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("{{ n }}", "20,224"),
        ("{{n|}}", "20,224"),
        ("{{ n | d }}", "20224"),
        ("{{ n | , }}", "20,224"),
        ("{{ share | .0% }}", "92%"),
        ("{{ rate.gb_per_s | ,.1f }}", "2,345.7"),
        ("{{ name }}", "H100"),
        ("{{ time | us }}", "1.23 ms"),
        ("{{ add.median | us }}", "3.25 µs"),
        ("{{ devices.h100_sxm.sms }}", "132"),
        ("{{ devices.h100_sxm.peak_tflop_per_s.fp32 | .1f }}", "66.9"),
    ],
)
def test_a_number_is_looked_up_and_formatted(text, shown):
    assert quoted(text).text == shown


def test_a_number_says_where_it_comes_from():
    assert quoted("{{ n }}").source == "computed on this page"
    assert quoted("{{ add.median }}").source == "recorded on NVIDIA H100, 2026-11-21"
    assert quoted("{{ devices.t4.sms }}").source == "stated by the maker"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{{ m }}", "a.py:7: {{ m }} is not known."),
        (
            "{{ rate.gb_per_sec }}",
            'a.py:7: {{ rate.gb_per_sec }} is not known. Did you mean "rate.gb_per_s"?',
        ),
        ("{{ add.medain }}", 'a.py:7: {{ add.medain }} is not known. Did you mean "add.median", '),
        ("{{ n.real }}", "a.py:7: {{ n.real }} is not known."),
        ("{{ n + 1 }}", "a.py:7: {{ n + 1 }} is not known."),
        ("{{ name.__class__ }}", "a.py:7: {{ name.__class__ }} is not known."),
        ("{{ rate }}", 'a.py:7: {{ rate }} is a group of values, not one. There is "gb_per_s".'),
        ("{{ name | .1f }}", "a.py:7: {{ name | .1f }}: the format \".1f\" does not fit 'H100'."),
        ("{{ devices.h100_sxn.sms }}", 'Did you mean "devices.h100_sxm.sms"'),
    ],
)
def test_an_unknown_path_is_named_with_the_nearest_names(text, said):
    with pytest.raises(LessonError) as caught:
        quoted(text)
    assert said in str(caught.value)
