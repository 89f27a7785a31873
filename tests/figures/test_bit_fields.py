"""Bit fields: bits as given, their texts, and what does not fit."""

from collections.abc import Mapping, Sequence

import pytest

from tilewise.figures import BitFormat, Figure, Held, bit_fields

SMALL, LARGE = BitFormat("E2M1", 2, 1), BitFormat("E4M3", 4, 3)
NUMBERS = {
    "1": [Held("0010", "1, exactly"), Held("00111000", "1, exactly")],
    "9": [Held("0111", "too large"), Held("01010001", "9, exactly")],
}


def made(numbers: Mapping[str, Sequence[Held]] = NUMBERS, start: str = "9") -> Figure:
    return bit_fields([SMALL, LARGE], numbers, start=start, title="Few bits hold little", caption="c")


def test_it_says_every_number_with_its_fields_apart():
    figure = made()
    assert figure.steps == (
        "number 1: E2M1 0 01 0, 1, exactly; E4M3 0 0111 000, 1, exactly.",
        "number 9: E2M1 0 11 1, too large; E4M3 0 1010 001, 9, exactly.",
    )
    assert "E2M1 (2 and 1), E4M3 (4 and 3)" in figure.alt


@pytest.mark.parametrize(
    ("numbers", "start", "said"),
    [
        (NUMBERS, "2", "a start among 1, 9, not '2'"),
        ({"9": NUMBERS["9"][:1]}, "9", "9 is held in 1 ways, and there are 2 formats"),
        ({"9": [Held("011", ""), NUMBERS["9"][1]]}, "9", "9 in E2M1 is '011': give 4 of 0 and 1"),
        ({"9": [Held("01x1", ""), NUMBERS["9"][1]]}, "9", "9 in E2M1 is '01x1'"),
    ],
)
def test_what_does_not_fit_is_refused(numbers, start, said):
    with pytest.raises(ValueError, match=said):
        made(numbers, start)
