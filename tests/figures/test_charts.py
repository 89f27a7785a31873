"""Charts: what Plotly is given, that it takes it, and what the text alternative says."""

import json
from collections.abc import Callable

import numpy as np
import pytest

from tilewise.figures import (
    Figure,
    Mark,
    Series,
    bars,
    block_grid,
    heat_map,
    line_chart,
    stepped,
)

WORDS = {"title": "A statement", "caption": "What it shows."}
Z = np.arange(12.0).reshape(2, 2, 3)


def lines() -> Figure:
    series = [
        Series("measured", [1, 10, 100], [5, 6, 50]),
        Series("model", [1, 10, 100], [4, 5, 48], role="predicted"),
        Series("points", [2, 20], [5, 9], role="read", line=False),
    ]
    marks = [Mark("knee", x=10), Mark("peak", y=55, role="predicted")]
    return line_chart(series, x="n", y="time [µs]", log_x=True, log_y=True, marks=marks, **WORDS)


def probabilities(first: float) -> Figure:
    return bars({"a": first, "b": 1 - first}, x="probability", value_range=(0, 1), form=".2f", **WORDS)


KINDS: dict[str, Callable[[], Figure]] = {
    "lines": lines,
    "bars": lambda: bars({"a": 1, "b": 2e6}, x="time [µs]", roles={"b": "predicted"}, **WORDS),
    "groups": lambda: bars(
        {"a": {"measured": 1, "predicted": 2}}, x="n", roles={"predicted": "predicted"}, **WORDS
    ),
    "heat map": lambda: heat_map({"S": Z, "P": Z / 12}, steps=["cold", "warm"], x="j", y="i", **WORDS),
    "stepped": lambda: stepped([probabilities(0.25), probabilities(0.5)], [1, 2], **WORDS),
}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("kind", KINDS)
def test_plotly_takes_every_chart(kind, scheme):
    from plotly.graph_objects import Figure as PlotlyFigure

    given = KINDS[kind]().plotly(scheme)
    assert "role:" not in json.dumps(given)
    drawn = PlotlyFigure(given)
    assert drawn.layout.title.text == "A statement"
    assert len(drawn.data) >= 1


def test_predictions_are_dashed_with_open_marks_and_measurements_solid():
    drawn = {trace["name"]: trace for trace in lines().spec["data"] if "name" in trace}
    assert (drawn["measured"]["line"]["dash"], drawn["measured"]["marker"]["symbol"]) == ("solid", "circle")
    assert (drawn["model"]["line"]["dash"], drawn["model"]["marker"]["symbol"]) == ("dash", "circle-open")
    assert drawn["points"]["mode"] == "markers"


@pytest.mark.parametrize(
    ("own", "others", "place"),
    [
        ([1, 1, 1], [[0.2, 0.2]], ("left", None)),
        ([1, 1, 1], [[0.8, 0.2]], ("left", None)),
        ([1, 1, 1], [[1, 1]], ("left", -13)),
        ([1, 1, 1], [[1, 1], [0.95, 0.95]], ("left", 13)),
        ([1, 1, 1], [[1, 1], [0.95, 0.95], [1.05, 1.05]], ("right", 13)),
        ([1.1, 1.1, 1], [[1, 1], [0.95, 0.95], [1.05, 1.05]], ("right", 42)),
    ],
)
def test_a_label_that_another_line_would_cross_stands_elsewhere(own, others, place):
    series = [Series("ends early", [1, 45, 50], own)]
    series += [Series(str(at), [51, 100], one) for at, one in enumerate(others)]
    note = line_chart(series, x="n", y="t", **WORDS).spec["layout"]["annotations"][0]
    assert (note["text"], note["xanchor"], note.get("yshift")) == ("ends early", *place)


def test_steps_share_their_axes():
    charts = [line_chart([Series("a", [0, 1], [1, top])], x="n", y="t", **WORDS) for top in (2, 8)]
    figure = stepped(charts, ["low", "high"], step_name="load", start=1, **WORDS)
    assert figure.spec["layout"]["yaxis"]["range"] == [0, 8.48]
    assert figure.spec["layout"]["meta"] == {"step_name": "load", "are_names": True, "start": 1}
    assert [frame["name"] for frame in figure.spec["frames"]] == ["low", "high"]
    assert figure.steps == ("load low: a: 0: 1; 1: 2", "load high: a: 0: 1; 1: 8")


def test_a_heat_map_keeps_one_scale_over_all_steps():
    figure = heat_map(
        {"S": Z}, steps=["cold", "warm"], step_name="temperature", start=1, x="j", y="i", **WORDS
    )
    (trace,) = figure.spec["data"]
    assert (trace["zmin"], trace["zmax"]) == (0, 11)
    assert trace["z"] == [[6, 7, 8], [9, 10, 11]]
    assert [frame["data"][0]["z"] for frame in figure.spec["frames"]] == Z.tolist()
    assert figure.steps[0] == "temperature cold: S = 0.00 1.00 2.00 / 3.00 4.00 5.00"


def test_heat_maps_stand_below_each_other_on_a_narrow_screen():
    figure = heat_map({"S": Z[0], "P": Z[1]}, x="j", y={"S": "i", "P": "i"}, **WORDS)
    wide, narrow = figure.spec["layout"], figure.spec["layout"]["meta"]["narrow"]["layout"]
    assert wide["xaxis"]["domain"][1] < wide["xaxis2"]["domain"][0]
    assert narrow["xaxis"]["domain"] == narrow["xaxis2"]["domain"]
    assert narrow["yaxis"]["domain"][0] > narrow["yaxis2"]["domain"][1]


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: line_chart([], x="n", y="t", **WORDS), "at least one series"),
        (lambda: line_chart([Series("a", [1, 2], [1])], x="n", y="t", **WORDS), "as many x as y"),
        (
            lambda: line_chart([Series("a", [0], [1])], x="n", y="t", log_x=True, **WORDS),
            "takes positive numbers",
        ),
        (
            lambda: line_chart([Series("a", [1], [1])], x="n", y="t", marks=[Mark("m")], **WORDS),
            "needs x or y",
        ),
        (lambda: bars({}, x="n", **WORDS), "at least one value"),
        (lambda: bars({"a": -1}, x="n", **WORDS), "not negative"),
        (lambda: bars({"a": {"s": 1}, "b": {"t": 1}}, x="n", **WORDS), "the same series"),
        (lambda: heat_map({"S": Z}, x="j", y="i", **WORDS), "should be rows by columns"),
        (lambda: heat_map({"S": Z}, steps=[1, 2, 3], x="j", y="i", **WORDS), "3 steps by rows by columns"),
        (lambda: stepped([], [], **WORDS), "a label for each chart"),
        (lambda: stepped([block_grid(9, 4, **WORDS)], [1], **WORDS), "charts without steps"),
    ],
)
def test_what_cannot_be_drawn_is_refused(make, why):
    with pytest.raises(ValueError, match=why):
        make()


def test_a_gap_in_a_line_is_no_point_in_words():
    gap = line_chart(
        [Series("a", [1, np.nan, 2], [3, np.nan, 4])], x="x", y="y", title="One is one", caption="Two."
    )
    assert gap.steps == ("a: 1: 3; 2: 4",)


def test_a_label_is_at_the_last_point_even_if_a_gap_follows_it():
    broken = Series("a", [1, 2, np.nan], [3, 4, np.nan])
    spec = line_chart([broken], x="x", y="y", title="One is one", caption="Two.").to_dict()["spec"]
    (note,) = spec["layout"]["annotations"]
    assert (note["x"], note["y"]) == (2, 4)
