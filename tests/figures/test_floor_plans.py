"""Floor plans: parts where they lie, and stops that light what exists."""

from typing import Any

import pytest

from tilewise.figures import Figure, Part, Stop, floor_plan

LEVELS = {"processor": "block", "memory": "global"}
PARTS = [
    Part("P0", "processor", (0, 0)),
    Part("P1", "processor", (1, 0)),
    Part("stack", "memory", (2.5, 0), (2, 3), 4, "16 GB"),
]
STOPS = [
    Stop("4 KB", ("P0",), "Near."),
    Stop("1 GB", ("memory", "P0"), "Far."),
]


def made(parts: Any = PARTS, stops: Any = STOPS, **changes: Any) -> Figure:
    given = {"levels": LEVELS, "step_name": "working set", "title": "Far is large", "caption": "A plan."}
    return floor_plan(parts, stops, **given | changes)


def test_a_plan_keeps_places_sizes_and_what_each_stop_lights():
    spec = made(start=1).spec
    assert spec["extent"] == [4.5, 3]
    assert spec["parts"][2] == {
        "name": "stack", "level": "memory", "at": [2.5, 0], "size": [2, 3], "height": 4, "label": "16 GB",
    }  # fmt: skip
    assert [stop["lit"] for stop in spec["stops"]] == [["P0"], ["memory", "P0"]]
    assert (spec["start"], spec["levels"][0]) == (1, {"name": "processor", "role": "block"})


def test_a_plan_says_its_parts_and_its_stops():
    figure = made()
    assert figure.alt == "Floor plan with 3 parts: 2 × processor, 1 × memory."
    assert figure.steps == ("working set 4 KB: Near.", "working set 1 GB: Far.")


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: made([*PARTS, PARTS[0]]), "two parts of the floor plan are called 'P0'"),
        (lambda: made([Part("P9", "cache", (0, 0))]), "the part 'P9' is of level 'cache'; levels are"),
        (lambda: made(stops=[Stop("a", ("P7",), "A.")]), "the stop 'a' lights 'P7', which is no level"),
        (lambda: made(stops=[]), "a floor plan starts at one of its stops: start=0 with 0 stops"),
        (lambda: made(start=2), "start=2 with 2 stops"),
        (lambda: made(levels=LEVELS | {"x": "purple"}), "the theme has no role 'purple'"),
        (lambda: made([Part("P0", "processor", (0, 0), (40, 40))]), "has 1,600 cubes in 3-D"),
    ],
)
def test_what_cannot_be_drawn_is_refused(make, why):
    with pytest.raises(ValueError) as caught:
        make()
    assert why in str(caught.value)
