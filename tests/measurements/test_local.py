"""Whether times of the reader's GPU agree with the recorded ones."""

from tilewise.measurements.local import agreement
from tilewise.measurements.record import Row


def row(variant: str, p20: float, median: float, p80: float) -> Row:
    return Row(variant, "variant", {"n": 8}, (median,), p20, median, p80, None)


def test_rows_agree_where_their_spreads_overlap():
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
