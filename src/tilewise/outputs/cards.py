"""Cards: situations that the reader sorts, each with a few choices and what is to be said about every choice.

In: cards with their choices and reasons. Out: HTML of native radio buttons, whose choice shows its reason by
style alone, so that it works without a script; in print every reason stands. Nothing is scored or sent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, ClassVar, Self

from tilewise.outputs.base import Context, Output


@dataclass(frozen=True)
class Card:
    """A situation and what each choice is worth."""

    situation: str
    """What is seen, in a few sentences."""
    right: str
    """The choice that holds."""
    reasons: Mapping[str, str]
    """By choice, why it holds or what speaks against it; in the order in which they are shown."""


@dataclass(frozen=True, init=False)
class Cards(Output):
    """A set of cards.

    Args:
        question: what is asked of every card.
        cards: the situations.

    Raises:
        ValueError: there is no card, one has fewer than two choices, or none of them is right.
    """

    kind: ClassVar[str] = "cards"
    question: str
    cards: tuple[Card, ...]

    def __init__(self, question: str, cards: Sequence[Card]) -> None:
        if not cards:
            raise ValueError(f"the cards of {question!r} are missing; give at least one")
        for one in cards:
            if len(one.reasons) < 2 or one.right not in one.reasons:
                raise ValueError(
                    f"the card {one.situation!r} has the choices {', '.join(one.reasons) or 'none'}, and "
                    f"{one.right!r} must be one of at least two"
                )
        object.__setattr__(self, "question", question)
        object.__setattr__(self, "cards", tuple(cards))

    def to_dict(self) -> dict[str, Any]:
        """Question and cards; reasons as pairs, which keep their order."""
        cards = [
            [card.situation, card.right, [list(pair) for pair in card.reasons.items()]] for card in self.cards
        ]
        return {"question": self.question, "cards": cards}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """The cards whose ``to_dict`` gave ``data``."""
        return cls(
            data["question"],
            [Card(situation, right, dict(reasons)) for situation, right, reasons in data["cards"]],
        )

    def text(self) -> str:
        """Every situation with its choices, and the answers at the end."""
        lines = [self.question]
        for number, card in enumerate(self.cards, start=1):
            lines += [f"{number}. {card.situation}", f"   {' / '.join(card.reasons)}"]
        answers = ", ".join(f"{number} {card.right}" for number, card in enumerate(self.cards, start=1))
        return "\n".join([*lines, f"Answers: {answers}."])

    def markdown(self, context: Context) -> str:
        """A ``div.tw-cards`` with a ``fieldset.tw-card`` for each card."""
        name = context.unique("cards")
        cards = "\n".join(self._card(f"{name}-{at}", card) for at, card in enumerate(self.cards, start=1))
        question = f'<p class="tw-cards-question">{escape(self.question, quote=False)}</p>'
        return context.html_block(f'<div class="tw-cards" id="{name}">\n{question}\n{cards}\n</div>')

    def _card(self, name: str, card: Card) -> str:
        lines = ['<fieldset class="tw-card">', f"<legend>{escape(card.situation, quote=False)}</legend>"]
        for at, (choice, reason) in enumerate(card.reasons.items()):
            own = f"{name}-{at}"
            holds = choice == card.right
            verdict = "Yes." if holds else "No."
            lines += [
                f'<input type="radio" name="{name}" id="{own}" data-right="{str(holds).lower()}" '
                'autocomplete="off">',
                f'<label for="{own}">{escape(choice, quote=False)}</label>',
                f'<p class="tw-card-reason"><b>{verdict}</b> {escape(reason, quote=False)}</p>',
            ]
        return "\n".join([*lines, "</fieldset>"])
