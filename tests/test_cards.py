"""Cards: what a terminal and a page show, and what is refused."""

from __future__ import annotations

import re

from tilewise.outputs import Card, Cards, Context, decode, encode

CARD = Card(
    "The GPU idles <half> of the time.", "overhead", {"memory": "It moves little.", "overhead": "It waits."}
)


def page(cards: Cards) -> str:
    return cards.markdown(Context("speed/launches", 1, lambda suffix, content: "", lambda wanted: wanted))


def test_each_choice_has_its_reason_right_behind_it_and_one_is_right() -> None:
    shown = page(Cards("What limits it?", [CARD, CARD]))
    assert re.findall(r'name="([^"]+)" id="([^"]+)" data-right="(\w+)"', shown) == [
        ("cards-1", "cards-1-0", "false"), ("cards-1", "cards-1-1", "true"),
        ("cards-2", "cards-2-0", "false"), ("cards-2", "cards-2-1", "true"),
    ]  # fmt: skip
    assert (
        '<label for="cards-1-1">overhead</label>\n<p class="tw-card-reason"><b>Yes.</b> It waits.</p>'
        in shown
    )
    assert "&lt;half&gt;" in shown
    assert "<half>" not in shown


def test_a_terminal_gets_the_answers_at_the_end_and_nothing_is_lost_on_the_way() -> None:
    made = Cards("What limits it?", [CARD])
    assert made.text().splitlines()[-1] == "Answers: 1 overhead."
    assert decode(encode(made)) == made
