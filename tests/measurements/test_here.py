"""The sentences on how the reader's GPU differs from the recorded one, and whether its times agree."""

from __future__ import annotations

import pytest

from tilewise.measurements.here import Machine, agreement, difference
from tilewise.measurements.record import Row

H100 = Machine("NVIDIA H100 80GB HBM3", 132, 1980.0)


@pytest.mark.parametrize(
    ("here", "recorded", "sentence"),
    [
        (H100, None, "Here: NVIDIA H100 80GB HBM3."),
        (H100, H100, "Here: NVIDIA H100 80GB HBM3, the device of the record, at the same clock, 1,980 MHz."),
        (
            Machine(H100.name, 132, 1755.0),
            H100,
            "Here: NVIDIA H100 80GB HBM3, the device of the record, at 1,755 MHz instead of 1,980.",
        ),
        (
            Machine("NVIDIA H200", 132, 1980.0),
            H100,
            "Here: NVIDIA H200, which by its maker has 1.43 times the memory bandwidth of NVIDIA H100 80GB "
            "HBM3, as many SMs, 132, at the same clock, 1,980 MHz: rows that wait for device memory should "
            "be faster here, the others alike.",
        ),
        (
            Machine("Tesla T4", 40, 1590.0),
            H100,
            "Here: Tesla T4, which by its maker has 0.10 times the memory bandwidth of NVIDIA H100 80GB "
            "HBM3, 40 SMs instead of 132, at 1,590 MHz instead of 1,980: all rows should be slower here.",
        ),
        (
            Machine("NVIDIA GeForce RTX 3060", 28, None),
            H100,
            "Here: NVIDIA GeForce RTX 3060, with 28 SMs instead of 132, at a clock that could not be read; "
            "recorded on NVIDIA H100 80GB HBM3. The device table has no NVIDIA GeForce RTX 3060: tilewise "
            "doctor --probe measures what it reaches.",
        ),
    ],
)
def test_one_sentence_names_bandwidth_sms_and_clock(
    here: Machine, recorded: Machine | None, sentence: str
) -> None:
    assert difference(here, recorded) == sentence


def row(variant: str, p20: float, median: float, p80: float) -> Row:
    return Row(variant, "variant", {"n": 8}, (median,), p20, median, p80, None)


def test_rows_agree_where_their_spreads_overlap() -> None:
    recorded = [row("plain", 9.0, 10.0, 11.0), row("wide", 4.9, 5.0, 5.1)]
    assert agreement([row("plain", 10.9, 11.5, 12.0)], recorded) == (
        "All 1 rows here agree with the recorded ones within their spreads."
    )
    assert agreement([row("plain", 10.9, 11.5, 12.0), row("wide", 7.9, 8.0, 8.1)], recorded) == (
        "1 of 2 rows here agree with the recorded ones within their spreads, 0 within 5%; the farthest is "
        "wide at n = 8, +60.0% in time."
    )
    assert agreement([row("plain", 9, 10, 11), row("wide", 1.9, 2.0, 2.1)], recorded).endswith(
        "-60.0% in time."
    )
    assert agreement([row("other", 1, 2, 3)], recorded) is None
