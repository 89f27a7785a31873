"""Thumbnails: every kind of figure, small and still, in the page's own colours."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET

import numpy as np
import pytest

from tilewise.figures import (
    Answer,
    Figure,
    Meter,
    Plot,
    Series,
    Slider,
    Span,
    State,
    bars,
    block_grid,
    calculator,
    heat_map,
    line_chart,
    ribbon,
    stepped,
    theme,
    timeline,
)
from tilewise.figures.small_drawing import HEIGHT, WIDTH
from tilewise.figures.thumbnails import thumbnail

SAID = {"title": "A statement.", "caption": "A caption."}
BOX = re.compile(r"M(-?[\d.]+) (-?[\d.]+)h(-?[\d.]+)v(-?[\d.]+)h")


def drawn(figure: Figure) -> list[tuple[dict[str, str], str]]:
    """The looks and outlines of a figure's thumbnail; every colour is one of the palette's."""
    svg = ET.fromstring(thumbnail(figure.kind, figure.spec))
    assert svg.attrib["viewBox"] == f"0 0 {WIDTH} {HEIGHT}" and svg.attrib["aria-hidden"] == "true"
    paths = [(dict(path.attrib), path.attrib["d"]) for path in svg]
    for look, _ in paths:
        for paint in (look.get("fill", "none"), look.get("stroke", "none")):
            found = re.fullmatch(r"var\(--tw-(\w+)\)", paint)
            assert paint == "none" or (found and theme.colour(found[1])), paint
    return paths


def boxes(paths: list[tuple[dict[str, str], str]], role: str) -> list[tuple[float, ...]]:
    """The filled boxes of a role: left, top, width, height."""
    return [
        tuple(float(number) for number in box)
        for look, outline in paths
        if look.get("fill") == f"var(--tw-{role})"
        for box in BOX.findall(outline)
    ]


def test_bars_have_the_lengths_of_their_values() -> None:
    figure = bars({"one": 100.0, "three": 300.0}, x="time [us]", roles={"one": "predicted"}, **SAID)
    paths = drawn(figure)
    ((_, top, short, _),) = boxes(paths, "predicted")
    ((_, below, long, _),) = boxes(paths, "measured")
    assert long / short == pytest.approx(3, rel=0.01) and top < below


def test_a_series_rises_and_keeps_its_dash_and_its_marks() -> None:
    figure = line_chart(
        [Series("model", [1, 10, 100], [1, 2, 3], role="predicted"), Series("run", [1, 10, 100], [1, 4, 9])],
        x="n",
        y="time [us]",
        log_x=True,
        **SAID,
    )
    lines = [
        (look, path) for look, path in drawn(figure) if "L" in path and look["stroke"] != "var(--tw-line)"
    ]
    (model, model_path), (run, run_path) = lines
    assert "stroke-dasharray" in model and "stroke-dasharray" not in run
    points = [[float(number) for number in point.split()] for point in run_path[1:].split("L")]
    (x0, y0), (x1, y1), (x2, y2) = points
    assert x1 - x0 == pytest.approx(x2 - x1, abs=0.2) and y0 > y1 > y2, "a log axis; up is more"
    assert model_path != run_path


def test_cells_take_shades_and_large_maps_lose_some() -> None:
    small = drawn(heat_map({"P": np.eye(4)}, x="j", y="i", **SAID))
    assert len(boxes(small, "global")) == 16
    opacities = {look.get("fill-opacity", "1") for look, _ in small}
    assert len(opacities) == 2, "the diagonal stands out"
    large = thumbnail(
        "chart", heat_map({"P": np.random.default_rng(1).random((90, 90))}, x="j", y="i", **SAID).spec
    )
    assert len(large) < 16_000


def test_what_is_left_of_a_stack_begins_where_the_rest_ends() -> None:
    paths = drawn(ribbon(20_000, 256, array="c", **SAID))
    ((left, _, at_work, _),) = boxes(paths, "block")
    ((idle_left, _, idle, _),) = boxes(paths, "waste")
    assert idle_left == pytest.approx(left + at_work, abs=1) and idle < at_work


def test_spans_stand_in_their_rows() -> None:
    spans = [Span("host", 0, 2, "copy", "read"), Span("device", 2, 8, "kernel", "block")]
    paths = drawn(timeline(spans, unit="us", **SAID))
    ((_, host, short, _),) = boxes(paths, "read")
    ((start, device, long, _),) = boxes(paths, "block")
    assert long / short == pytest.approx(3, rel=0.05) and device > host and start > short


def test_a_step_shows_its_line_and_what_it_touches() -> None:
    states = [
        State("Nothing yet.", line=1, arrays={"x": np.arange(4.0)}),
        State("Two are read.", line=2, arrays={"x": np.arange(4.0)}, reads={"x": [1, 2]}),
    ]
    paths = drawn(stepped(states, source="first\n    second\n", language="python", **SAID))
    assert len(boxes(paths, "read")) == 2 and len(boxes(paths, "muted")) == 2 + 2, "two lines, two elements"
    (line,) = boxes(paths, "tile")
    second = sorted(boxes(paths, "muted"), key=lambda box: box[1])
    assert any(abs(box[1] - line[1]) < 4 and box[0] > line[0] for box in second)


def test_a_launch_shows_its_threads() -> None:
    paths = drawn(block_grid((2, 2), (2, 2), extent=(4, 4), axes=("x", "y"), **SAID))
    assert len(boxes(paths, "block")) == 16


def test_a_calculator_shows_its_sliders_and_bars_or_its_plot() -> None:
    def doubled(n: int) -> Answer:
        return Answer([2 * n], "Twice.")

    sliders, meters = [Slider("n", [1, 2, 4], 2)], [Meter("twice", 8.0)]
    paths = drawn(calculator(sliders, doubled, meters=meters, **SAID))
    knobs = [look for look, _ in paths if look.get("stroke") == "var(--tw-ink)"]
    assert len(knobs) == 1
    (track, bar) = (boxes(paths, role) for role in ("line", meters[0].role))
    assert bar[0][2] / track[0][2] == pytest.approx(0.5, rel=0.02)

    def on_a_line(n: int) -> Answer:
        return Answer([2 * n], "Twice.", lines=[("line", "predicted", [(1, 2), (4, 8)])], point=(n, 2 * n))

    plotted = calculator(
        sliders, on_a_line, meters=meters, plot=Plot("n", "2 n", (1, 4), (1, 8), log=True), **SAID
    )
    strokes = {look.get("stroke") for look, _ in drawn(plotted)}
    assert {"var(--tw-predicted)", "var(--tw-lane)"} <= strokes


def test_a_trace_that_cannot_be_drawn_is_refused() -> None:
    spec = {"data": [{"type": "pie", "x": [1], "y": [1]}], "layout": {"margin": {}}}
    with pytest.raises(ValueError, match="pie"):
        thumbnail("chart", spec)
