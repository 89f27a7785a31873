"""Calculators: every answer is there, and only answers that fit."""

from itertools import product

import pytest

from tilewise.figures import Answer, Figure, Meter, Slider, calculator

WIDTHS = Slider("pipe width", [1, 2, 5], 2, "B/s")
LOADS = Slider("load", ["light", "heavy"], "heavy")
BUSY = Meter("busy", 1.0, form=".0%")
TIME = Meter("time", 40.0, "s", "measured")


def pipe(pipe_width: int, load: str) -> Answer:
    work = {"light": 10, "heavy": 100}[load]
    return Answer([work / 100, work / pipe_width], f"{work} bytes.", ["time"] if work > 50 else [])


def made(**changes: object) -> Figure:
    given = {"meters": [BUSY, TIME], "title": "A pipe takes its time", "caption": "A model."} | changes
    return calculator([WIDTHS, LOADS], pipe, **given)  # type: ignore[arg-type]


def test_each_position_of_the_sliders_has_the_models_answer():
    spec = made().spec
    assert [one["start"] for one in spec["sliders"]] == [1, 1]
    assert spec["sliders"][0]["said"] == ["1 B/s", "2 B/s", "5 B/s"]
    for state, (width, load) in enumerate(product(WIDTHS.values, LOADS.values)):
        answer = pipe(width, load)
        busy, time = spec["meters"]
        assert busy["texts"][busy["text"][state]] == f"{answer.meters[0]:.0%}"
        assert time["share"][state] == pytest.approx(min(1.0, answer.meters[1] / 40.0), abs=1e-4)
        assert spec["verdicts"][spec["verdict"][state]] == answer.verdict
        assert spec["limits"][state] == (0b10 if answer.limits else 0)


def test_text_and_notebook_show_the_start():
    figure = made()
    assert figure.steps[0] == "pipe width 2 B/s, load heavy: busy 100%, time 50 s. 100 bytes."
    assert any(
        step.startswith("pipe width 5 B/s, load heavy: busy 100%, time 20 s.") for step in figure.steps
    )
    with pytest.raises(ValueError, match="is no chart"):
        figure.plotly()
    assert figure._repr_mimebundle_() == {"text/plain": figure.text()}
    assert Figure.from_dict(figure.to_dict()) == figure


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"sliders": [Slider("a", [1], 2)]}, "starts at 2, which is none of its values"),
        ({"sliders": []}, "1 to 40,000 positions"),
        ({"sliders": [Slider("a", range(300), 0), Slider("b", range(300), 0)]}, "not 90,000"),
        ({"model": lambda **_: Answer([1.0], "x")}, "1 values for 2 meters"),
        ({"model": lambda **_: Answer([1.0, 1.0], "x", ["none"])}, "names the meter 'none'"),
        ({"model": lambda **_: Answer([1.0, 1.0], "x", point=(1, 1))}, "the calculator no plot"),
        ({"meters": [BUSY, Meter("time", 1.0, role="purple")]}, "no role 'purple'"),
    ],
)
def test_what_does_not_fit_is_refused(wrong, message):
    given: dict[str, object] = {"sliders": [WIDTHS, LOADS], "model": pipe, "meters": [BUSY, TIME]} | wrong
    sliders, model = given.pop("sliders"), given.pop("model")
    with pytest.raises(ValueError, match=message):
        calculator(sliders, model, title="t", caption="c", **given)  # type: ignore[arg-type]
