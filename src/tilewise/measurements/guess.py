"""A guess that the reader makes before a measured table: question, range, what models say, what was recorded.

In: a ``Guess`` as a lesson writes it, without the answer, and the rows of its experiment. Out: the guess with
the answer from the record, as HTML and as text. It is no part of an experiment's key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tilewise.measurements.experiment import Experiment


@dataclass(frozen=True)
class Guess:
    """What a lesson asks before it shows a table; the answer is looked up in the record."""

    question: str
    """One sentence that ends with a question mark."""
    of: str
    """The variant, or library row, that is asked about."""
    between: tuple[float, float]
    """The ends of the slider, both above 0; it runs by factors, not by differences."""
    at: Mapping[str, Any] | None = None
    """The case, as it stands in ``cases``; it may be left out where there is only one."""
    over: str = ""
    """Another row of the same case. The question is then how many times as fast ``of`` is as this one;
    without it, how many microseconds ``of`` takes."""
    models: Mapping[str, float] = field(default_factory=dict)
    """By name, what models of the lesson answer; computed, in the unit of the answer."""
    because: str = ""
    """Why guesses miss, shown with the answer: a sentence or two without figures."""


def asked(guess: Guess, experiment: Experiment, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """A guess with the recorded answer; None where nothing was recorded for it.

    Returns:
        ``question``, ``unit`` (``×`` or `` µs``, as it follows a figure), ``answer``, ``low``, ``high``,
        ``models`` (answers by name) and ``because``, as JSON can hold them.

    Raises:
        LessonError: the guess names an unknown row or case, or its range leaves an answer out.
    """
    labels = [*experiment.variants, *experiment.library]
    for label in filter(None, (guess.of, guess.over)):
        if label not in labels:
            raise experiment.error(f'the guess names "{label}".', f"Rows: {', '.join(labels)}.")
    cases = [dict(case) for case in experiment.cases]
    at = cases[0] if guess.at is None and len(cases) == 1 else guess.at
    if at not in cases:
        raise experiment.error(f"the guess asks at {at}.", "Give one of the cases.")
    low, high = guess.between
    if not 0 < low < high:
        raise experiment.error(f"the guess runs from {low:g} to {high:g}.", "Give 0 < low < high.")
    times = {
        row["variant"]: row["recorded"]["median"]
        for row in rows
        if row["parameters"] == at and row.get("recorded")
    }
    if any(label not in times for label in (guess.of, guess.over) if label):
        return None
    answer = times[guess.over] / times[guess.of] if guess.over else times[guess.of]
    answers = {"the record": answer, **guess.models}
    for name, value in answers.items():
        if not low <= value <= high:
            message = f"the guess runs from {low:g} to {high:g}, and {name} says {value:.4g}."
            raise experiment.error(message, "Widen between=, with both ends well off the answer.")
    return {
        "question": " ".join(guess.question.split()),
        "unit": "×" if guess.over else " µs",
        "answer": float(answer),
        "low": float(low),
        "high": float(high),
        "models": {name: float(value) for name, value in guess.models.items()},
        "because": " ".join(guess.because.split()),
    }


def asked_text(asked: Mapping[str, Any]) -> str:
    """What a terminal prints before the table."""
    answers = "; ".join(f"{name}: {_shown(value, asked['unit'])}" for name, value in asked["models"].items())
    return f"Guess first: {asked['question']}" + (f" ({answers})" if answers else "")


def asked_html(asked: Mapping[str, Any], name: str) -> str:
    """The panel above the table, for ``site/web/site/guess.js``; without script it is not shown.

    The sentence with the verdict is there from the start, unseen, so that it has its place.

    Args:
        asked: what ``asked`` gave.
        name: the experiment's name, unique on the page.
    """
    title = f"guess-{escape(name)}"
    facts = {"guess": name} | {key: str(asked[key]) for key in ("answer", "low", "high", "unit", "because")}
    data = " ".join(f'data-{key}="{escape(value)}"' for key, value in facts.items())
    buttons = "".join(
        f'<button type="button" class="tw-act" data-value="{value!r}" aria-pressed="false" disabled>'
        f"{escape(label)}: {escape(_shown(value, asked['unit']))}</button>"
        for label, value in asked["models"].items()
    )
    answer, low, high = (_shown(asked[key], asked["unit"]) for key in ("answer", "low", "high"))
    sample = escape(f"Measured: {answer}. You guessed {answer}: 1.5× too high. {asked['because']}")
    models = f'<p class="tw-guess-models"><span>Model predictions:</span> {buttons}</p>' if buttons else ""
    return (
        f'<div class="tw-guess" role="group" aria-labelledby="{title}" {data}>'
        f'<p class="tw-guess-question" id="{title}">{escape(asked["question"])}</p>'
        f'<p class="tw-guess-slider"><input type="range" min="0" max="200" value="100" disabled '
        f'aria-labelledby="{title}"><output></output></p>'
        f'<p class="tw-guess-scale" aria-hidden="true"><span>{escape(low)}</span>'
        '<span class="tw-guess-marks"></span>'
        f"<span>{escape(high)}</span></p>{models}"
        '<div class="tw-guess-end"><p class="tw-guess-buttons">'
        '<button type="button" class="tw-act tw-act-main" data-do="compare" disabled>'
        "Compare with the measurement</button> "
        '<button type="button" class="tw-quiet" data-do="skip" disabled>'
        "Skip the guess</button></p>"
        f'<div class="tw-guess-told"><p class="tw-guess-verdict" role="status" tabindex="-1">{sample}</p>'
        '<p><button type="button" class="tw-quiet" data-do="clear">Clear my guesses</button></p></div>'
        "</div></div>"
    )


def _shown(value: float, unit: str) -> str:
    """Two figures, as the page's script says them."""
    rounded = float(f"{value:.2g}")
    return f"{rounded:,.0f}{unit}" if rounded >= 10 else f"{rounded:,g}{unit}"
