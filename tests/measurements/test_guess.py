"""A guess before a table: the answer is looked up, never given."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from test_output import MADE, row

from tilewise.errors import LessonError
from tilewise.measurements.experiment import Experiment
from tilewise.measurements.guess import Guess, asked
from tilewise.outputs import Context, decode, encode

GUESS = Guess(
    "How many times as fast\n  is wide?", of="wide", over="plain", at={"n": 1000}, between=(1, 100),
    models={"four words at once": 4.0}, because="Each load moves more <bytes>.",
)  # fmt: skip
EXPERIMENT = Experiment(
    name="adding",
    variants={"plain": lambda n: None, "wide": lambda n: None},
    cases=({"n": 1000}, {"n": 2000}),
    library={"cuBLAS": lambda arrays: None},
    path="lessons/kernels/adding.py",
    line=7,
    root=Path("lessons"),
    lesson="kernels/adding",
)
ROWS: tuple[dict[str, Any], ...] = (
    row("plain"),
    row("wide", recorded={"median": 2.5, "p20": 2.0, "p80": 3.0}),
    row("wide", parameters={"n": 2000}, recorded={"median": 1.0, "p20": 1.0, "p80": 1.0}),
)
ASKED = {
    "question": "How many times as fast is wide?", "unit": "×", "answer": 4.0, "low": 1.0, "high": 100.0,
    "models": {"four words at once": 4.0}, "because": "Each load moves more <bytes>.",
}  # fmt: skip


def html(made: dict[str, Any]) -> str:
    context = Context("kernels/adding", 7, lambda suffix, content: "", lambda wanted: wanted)
    return replace(MADE, asked=made).markdown(context)


def test_the_answer_is_a_ratio_of_recorded_times_or_a_recorded_time():
    assert asked(GUESS, EXPERIMENT, ROWS) == ASKED
    alone = asked(replace(GUESS, over="", models={}), EXPERIMENT, ROWS)
    assert alone is not None
    assert (alone["answer"], alone["unit"]) == (2.5, " µs")


def test_the_only_case_need_not_be_named():
    guess = replace(GUESS, at=None)
    assert asked(guess, replace(EXPERIMENT, cases=({"n": 1000},)), ROWS) == ASKED
    with pytest.raises(LessonError, match="asks at None"):
        asked(guess, EXPERIMENT, ROWS)


def test_nothing_is_asked_where_nothing_was_recorded():
    assert asked(GUESS, EXPERIMENT, [*ROWS[:1], row("wide", recorded=None)]) is None
    stale = replace(MADE, asked=ASKED, stale="old.")
    context = Context("kernels/adding", 7, lambda suffix, content: "", lambda wanted: wanted)
    assert "tw-guess" not in stale.markdown(context)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"of": "wider"}, 'the guess names "wider". Rows: plain, wide, cuBLAS.'),
        ({"over": "none"}, 'the guess names "none". Rows: plain, wide, cuBLAS.'),
        ({"at": {"n": 5}}, "the guess asks at {'n': 5}. Give one of the cases."),
        ({"between": (0, 10)}, "the guess runs from 0 to 10. Give 0 < low < high."),
        ({"between": (5, 10)}, "the guess runs from 5 to 10, and the record says 4. Widen between=,"),
        ({"models": {"all": 200.0}}, "the guess runs from 1 to 100, and all says 200. Widen between=,"),
    ],
)
def test_a_guess_that_cannot_be_asked_is_an_error_at_the_lessons_line(changes, said):
    with pytest.raises(LessonError) as caught:
        asked(replace(GUESS, **changes), EXPERIMENT, ROWS)
    assert str(caught.value).startswith(f'lessons/kernels/adding.py:7: measure("adding"): {said}')


def test_the_panel_stands_before_the_table_with_the_answer_and_escapes_its_texts():
    made = html(ASKED)
    assert made.index("tw-guess") < made.index("<table")
    assert 'data-answer="4.0" data-low="1.0" data-high="100.0" data-unit="×"' in made
    assert "&lt;bytes&gt;" in made and "<bytes>" not in made
    assert "four words at once: 4×" in made


def test_it_travels_between_processes_and_is_printed_before_the_table():
    made = replace(MADE, asked=ASKED)
    for one in (made, MADE):
        assert decode(json.loads(json.dumps(encode(one)))) == one
    assert made.text().startswith(
        "Guess first: How many times as fast is wide? (four words at once: 4×)\nadding\n"
    )
