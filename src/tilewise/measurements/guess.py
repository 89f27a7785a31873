"""The reader's guess before a measured table: question, range, models' answers and recorded answer.

In: a lesson's ``Guess`` without the answer, and the rows of its experiment. Out: the guess with the answer
from the record, as HTML and as text. It is not part of an experiment's key.
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
    """A question before a table; the answer comes from the record."""

    question: str
    """One sentence that ends with a question mark."""
    of: str
    """The label of the variant or library in question."""
    between: tuple[float, float]
    """The ends of the slider, both above 0; its scale is logarithmic."""
    at: Mapping[str, Any] | None = None
    """The case, as in ``cases``; optional if there is only one."""
    over: str = ""
    """The label of another row of the same case. The question is then the speedup of ``of`` over it;
    without it, the time of ``of`` in microseconds."""
    models: Mapping[str, float] = field(default_factory=dict)
    """Computed answers of the lesson's models by name, in the unit of the answer."""
    because: str = ""
    """Why guesses miss, shown with the answer: one or two sentences without figures."""


def asked(guess: Guess, experiment: Experiment, rows: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """A guess with the recorded answer; None if that is not recorded.

    Returns:
        ``question``, ``unit`` (``×`` or `` µs``, as it follows a figure), ``answer``, ``low``, ``high``,
        ``models`` (answers by name) and ``because``, as JSON values.

    Raises:
        LessonError: the guess names an unknown row or case, or its range excludes an answer.
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
    """The panel above the table, for ``site/web/site/guess.js``; hidden without JavaScript.

    The verdict is hidden from the start to reserve its space.

    Args:
        asked: the result of ``asked``.
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
    """Two significant digits, as in the page's script."""
    rounded = float(f"{value:.2g}")
    return f"{rounded:,.0f}{unit}" if rounded >= 10 else f"{rounded:,g}{unit}"
