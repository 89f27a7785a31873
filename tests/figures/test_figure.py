"""A figure travels as JSON and stands on a page as one block of HTML."""

import json

import numpy as np
import pytest

from tilewise.figures import Figure, bars
from tilewise.figures.values import number, plain


def small(**changes: object) -> Figure:
    fields: dict[str, object] = {
        "title": "Two is more than one",
        "caption": "Two bars.",
        "alt": "Bars of 1 and 2.",
        "height": 300,
        "kind": "chart",
        "spec": {"data": [{"type": "bar", "y": np.array([1.0, 2.5])}], "layout": {}},
        "steps": ("one: 1", "two: 2.5"),
    }
    return Figure(**{**fields, **changes})  # type: ignore[arg-type]


def test_a_figure_comes_back_from_its_file():
    figure = bars({"one": 1.0, "two": 2.0}, title="t", caption="c", x="n")
    again = Figure.from_dict(json.loads(figure.json_bytes()))
    assert again == figure
    assert again.json_bytes() == figure.json_bytes()


def test_its_html_holds_what_must_be_there_without_a_script():
    html = small(title='a < b & "c"').html("assets/x.json", "figure-1")
    assert html == (
        '<figure class="tw-figure" id="figure-1" data-figure="assets/x.json" data-kind="chart" '
        'style="--tw-figure-height:300px;--tw-figure-height-narrow:300px">\n'
        '<p class="tw-figure-title">a &lt; b &amp; &quot;c&quot;</p>\n'
        '<div class="tw-figure-body"><noscript><p class="tw-figure-note">This figure needs JavaScript, '
        "which is switched off. The text version below describes it.</p></noscript></div>\n"
        "<figcaption>Two bars.</figcaption>\n"
        '<div class="tw-folds"><details class="tw-figure-alt"><summary>Text version</summary>'
        "<p>Bars of 1 and 2.</p>"
        '<ol tabindex="0"><li>one: 1</li><li>two: 2.5</li></ol></details></div>\n'
        "</figure>"
    )


@pytest.mark.parametrize("name", ["title", "caption", "alt"])
def test_a_figure_without_words_is_refused(name):
    with pytest.raises(ValueError, match=f"a figure needs a {name}"):
        small(**{name: " "})


def test_what_no_figure_can_hold_is_refused():
    with pytest.raises(TypeError, match="cannot hold a set"):
        plain({"a": {1, 2}})


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (0, "0"),
        (913000.0, "913,000"),
        (16_777_216, "16,777,216"),
        (5.25, "5.25"),
        (0.0312345, "0.03123"),
        (1234.56, "1,235"),
        (-2.5, "-2.5"),
        (1.5e-7, "1.500e-07"),
    ],
)
def test_numbers_are_written_for_readers(value, written):
    assert number(value) == written
