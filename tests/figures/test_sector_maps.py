"""Sector maps: the element of every lane, what a request fetches, and what does not fit."""

import pytest

from tilewise.figures import Figure, sector_map


def made(start: tuple[int, int] = (1, 0)) -> Figure:
    return sector_map([0, 1, 2, 8], [0, 1], start=start, title="A stride wastes bytes", caption="c")


def test_it_says_what_each_stride_and_each_offset_fetches():
    assert made().steps == (
        "stride 0, offset 0: 1 sector, 32 bytes fetched, 12.5% of them used",
        "stride 1, offset 0: 4 sectors, 128 bytes fetched, 100% of them used",
        "stride 2, offset 0: 8 sectors, 256 bytes fetched, 50% of them used",
        "stride 8, offset 0: 32 sectors, 1,024 bytes fetched, 12.5% of them used",
        "stride 1, offset 1: 5 sectors, 160 bytes fetched, 80% of them used",
    )


def test_it_holds_the_elements_of_every_position_and_rows_for_all_of_them():
    spec = made().spec
    assert spec["elements"][3] == list(range(1, 33))  # stride 1, offset 1
    assert spec["elements"][6][-1] == 248  # stride 8, offset 0
    assert spec["rows"] == 8
    assert len(spec["elements"]) == len(spec["said"]) == 8
    assert spec["start"] == [1, 0]


@pytest.mark.parametrize("start", [(3, 0), (1, 5)])
def test_a_start_outside_the_sliders_is_refused(start):
    with pytest.raises(ValueError, match="starts at a stride and an offset"):
        made(start)


def test_a_negative_stride_is_refused():
    with pytest.raises(ValueError, match="at least 0"):
        sector_map([-1], [0], start=(-1, 0), title="t", caption="c")
