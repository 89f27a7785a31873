"""A prediction that missed by more than its tolerance needs a reason, and the reason a heading."""

from dataclasses import replace

import pytest
from test_output import MADE, row

from tilewise.course.rules.records import unexplained
from tilewise.measurements.output import EVERY, Measurement
from tilewise.outputs import Context

HEADINGS = ("Predict", "What it left out")


def made(*shares: tuple[str, float], **changes: object) -> Measurement:
    return replace(MADE, rows=tuple(row(variant, share=share) for variant, share in shares), **changes)


def said(one: Measurement) -> list[str]:
    return [str(fault) for fault in unexplained(one, HEADINGS, "lessons/kernels/adding.py", 28)]


def test_a_variant_far_from_its_bound_needs_a_reason():
    assert said(made(("plain", 0.51), ("wide", 0.9))) == []
    assert said(made(("plain", 0.4), ("plain", 0.05), ("wide", 0.9))) == [
        'lessons/kernels/adding.py:28: measure("adding"): "plain" took 20 times as long as its bound, and at '
        'most 2 times needs no explanation. Say why, and where: reasons={"plain": "the heading"}; "*" is '
        "every variant."
    ]


def test_faster_than_its_bound_by_as_much_is_a_miss_too():
    assert made(("plain", 2.5)).missed() == {"plain": 0.4}
    assert made(("plain", 1.5)).missed() == {}


def test_libraries_and_rows_without_a_record_need_none():
    rows = (row("cuBLAS", "library", share=0.1), row("plain", share=None, recorded=None))
    assert said(replace(MADE, rows=rows)) == []


def test_a_reason_explains_a_variant_or_all_of_them():
    far = (("plain", 0.1), ("wide", 0.2))
    assert len(said(made(*far))) == 2
    assert len(said(made(*far, reasons=(("plain", "What it left out"),)))) == 1
    assert said(made(*far, reasons=((EVERY, "What it left out"),))) == []
    assert said(made(*far, within=20.0)) == []


def test_a_reason_has_to_stand_under_a_heading_of_the_lesson():
    (fault,) = said(made(("plain", 0.1), reasons=(("plain", "What it lft out"),)))
    assert 'stands under "What it lft out", which is no heading here.' in fault
    assert 'Did you mean "What it left out"?' in fault


def test_the_page_leads_to_the_reason():
    context = Context("kernels/adding", 7, lambda suffix, content: "", lambda wanted: wanted)
    reasons = (("plain", "What it left out"), ("wide", "What it left out"))
    html = made(("plain", 0.1), reasons=reasons).markdown(context)
    assert "More than 2× the bound: plain, wide. Explained under " in html
    assert '<a href="#what-it-left-out">What it left out</a>.' in html


@pytest.mark.parametrize(
    ("shares", "names"),
    [((0.1, 0.2), "every variant"), ((0.1, 0.9), "plain"), ((0.8, 0.9), "")],
)
def test_a_reason_for_every_variant_is_said_of_those_that_missed(shares, names):
    context = Context("kernels/adding", 7, lambda suffix, content: "", lambda wanted: wanted)
    one = made(("plain", shares[0]), ("wide", shares[1]), reasons=((EVERY, "Predict"),))
    said_there = f"× the bound: {names}. Explained under " if names else "× the bound"
    assert (said_there in one.markdown(context)) == bool(names)
