"""Rounds: their samples pooled, what another run should take, and which rows differ."""

from dataclasses import replace

import numpy as np
import pytest

from tilewise.gpu.timing import summary
from tilewise.measurements.local import agreement
from tilewise.measurements.record import Row
from tilewise.measurements.rounds import apart, expected, parts, pooled, spread_notes, spread_of


def row(label: str, samples: list[float], n: int = 8) -> Row:
    found = summary(label, samples)
    return Row(label, "variant", {"n": n}, found.samples_us, found.p20, found.median, found.p80, None)


def around(median: float, wide: float = 0.1) -> list[float]:
    return [median - wide, median, median + wide]


def of_rounds(*medians: float, label: str = "plain") -> Row:
    return pooled([[row(label, around(median))] for median in medians])[0]


def test_pooled_rows_hold_all_samples_and_know_their_rounds():
    made = of_rounds(60, 64, 61)
    assert made.samples_us == (59.9, 60, 60.1, 63.9, 64, 64.1, 60.9, 61, 61.1)
    assert (made.rounds, made.median) == ((3, 3, 3), 61)
    assert [part.median for part in parts(made)] == [60, 64, 61]


def test_pooled_rows_have_the_readings_of_every_round():
    first = replace(row("plain", [1, 2]), sm_clock_mhz=(1980.0,), power_w=(700.0, 690.0))
    second, third = row("plain", [2]), replace(row("plain", [3]), sm_clock_mhz=(1755.0, 1770.0))
    (made,) = pooled([[first], [second], [third]])
    assert (made.sm_clock_mhz, made.power_w) == ((1980.0, 1755.0, 1770.0), (700.0, 690.0))


def test_what_a_round_lacks_comes_from_the_others():
    first, second = [row("plain", [1, 2]), row("torch", [3])], [row("plain", [2, 3])]
    assert [one.rounds for one in pooled([first, second])] == [(2, 2), ()]
    assert pooled([second, first])[1].samples_us == (3,)


def test_one_round_expects_what_lies_between_its_percentiles():
    one = row("plain", [9, 10, 11])
    stretch = expected(one)
    assert stretch is not None
    assert (stretch.low, stretch.high) == (one.p20, one.p80)
    counted = Row("plain", "variant", {}, (), None, None, None, {"instructions": 1.0})
    assert expected(counted) is None


def test_two_rounds_expect_what_lies_between_the_outer_percentiles_of_both():
    stretch = expected(of_rounds(60, 64))
    assert stretch is not None
    assert (stretch.low, stretch.high) == (pytest.approx(59.94), pytest.approx(64.06))


def test_three_rounds_expect_what_students_t_says_of_a_fourth():
    stretch = expected(of_rounds(99.0, 100.0, 101.0))
    assert stretch is not None
    assert stretch.high - 100 == pytest.approx(4.303 * 1.0 * (4 / 3) ** 0.5, abs=0.01)
    assert 100 - stretch.low == pytest.approx(stretch.high - 100)


@pytest.mark.parametrize("rounds", [3, 5, 8])
def test_nineteen_of_twenty_further_runs_lie_where_they_are_expected(rounds):
    draw = np.random.default_rng(7)
    held = 0
    for _ in range(500):
        *kept, further = draw.normal(100, 3, rounds + 1)
        stretch = expected(pooled([[row("plain", [median])] for median in kept])[0])
        assert stretch is not None
        held += stretch.meets(further, further)
    assert 0.93 < held / 500 < 0.97


def test_agreement_is_over_the_rounds_of_the_record():
    here = [row("plain", around(62.5))]
    alone = agreement(here, [row("plain", around(61))])
    assert alone is not None
    assert alone.startswith("0 of 1 rows here agree")
    assert agreement(here, [of_rounds(60, 61, 62)]) == (
        "All 1 rows here agree with the recorded ones within their spreads."
    )


def test_rows_of_a_record_differ_where_they_do_in_every_round():
    slow, fast = of_rounds(60, 64, 61), of_rounds(59, 63, 60, label="wide")
    assert apart(slow, fast), "over all rounds they overlap, and in each the second is faster"
    assert not apart(slow, of_rounds(59, 65, 60, label="wide"))
    assert apart(row("plain", around(5)), row("wide", around(6)))
    assert apart(of_rounds(60, 61, 62), row("wide", around(70)))
    assert not apart(of_rounds(60, 61, 62), row("wide", around(61)))


def test_the_spread_of_a_row_is_told_with_its_rounds():
    assert spread_of(row("plain", [20_000, 20_001, 20_002])) == (
        "p20 20,000 µs, median 20,001 µs, p80 20,002 µs"
    )
    assert spread_of(of_rounds(60, 64)) == (
        "p20 60 µs, median 62 µs, p80 64 µs; medians of 2 rounds 60 to 64 µs; another run 59.94 to 64.06 µs"
    )


def test_samples_that_scatter_are_noted():
    assert list(spread_notes([row("plain", [100, 100, 105])])) == []
    assert list(spread_notes([of_rounds(90, 100, 120)])) == [
        "plain at n = 8: p20 and p80 lie 30% of the median apart."
    ]
