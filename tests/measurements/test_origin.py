"""Recorded numbers that lessons put into tables of their own carry their provenance there."""

import json
import pickle

import numpy as np
import pytest

from tilewise.figures import Series, bars, line_chart
from tilewise.measurements import lookup
from tilewise.measurements.origin import Recorded
from tilewise.outputs import Table

TIME = Recorded(1500.0, "provenance-x-adding", "p20 1,400 µs", "measured")


def test_a_table_shows_where_a_number_was_born():
    table = Table(["what", "recorded, µs"], [["adding", TIME], ["absent", None]])
    cell = table.rows[0][1]
    assert (cell.text, cell.origin, cell.title, cell.mark) == (
        1500.0, "provenance-x-adding", "p20 1,400 µs", "measured",
    )  # fmt: skip
    assert type(cell.text) is float
    assert table.numeric == (False, True)
    assert 'href="#provenance-x-adding" data-provenance="provenance-x-adding"' in table.html()
    assert Table.from_dict(table.to_dict()).html() == table.html()


@pytest.mark.parametrize("in_ms", [TIME / 1000, TIME / 1e3, 1e-3 * TIME, TIME * 0.001])
def test_in_another_unit_it_is_still_that_number(in_ms):
    assert in_ms == pytest.approx(1.5)
    assert Table(["ms"], [[in_ms]]).rows[0][0].origin == "provenance-x-adding"


@pytest.mark.parametrize(
    "other",
    [TIME / 3, TIME - 1, TIME + TIME, TIME * TIME, TIME / TIME, 1000 / TIME, np.diff([0.0, TIME])[0], -TIME,
     TIME * 0, TIME * float("inf"), TIME * np.float32(7)],
)  # fmt: skip
def test_what_is_reckoned_with_it_is_no_recorded_number(other):
    assert Table(["µs"], [[other]]).rows[0][0].origin is None


def test_the_work_of_its_row_over_a_time_is_the_recorded_rate():
    time = Recorded(1500.0, "here", "", "measured", "adding", work=(6e6, 3e6))
    rate = 6_000_000 / time / 1e3
    assert (rate, rate.origin, rate.experiment) == (4.0, "here", "adding")
    again = 3e6 / (time / 1e6) / 1e12
    assert (again, again.experiment) == (pytest.approx(0.002), "adding")
    assert type(5e6 / time) is float
    assert type(6e6 / time * 3) is float


def test_it_is_a_float_everywhere_else():
    assert json.dumps({"median": TIME}) == '{"median": 1500.0}'
    assert f"{TIME:,.0f} {TIME!r}" == "1,500 1500.0"
    again = pickle.loads(pickle.dumps(TIME))
    assert (again, again.origin) == (1500.0, "provenance-x-adding")
    with pytest.raises(TypeError):
        TIME * "a"


def test_a_chart_names_the_experiments_whose_records_it_draws():
    times = [Recorded(1500.0, "here", "", "measured", "adding") for _ in range(2)]
    drawn = line_chart(
        [Series("recorded", [8, 64], [time / 1e3 for time in times]), Series("model", [8, 64], [1, 2])],
        title="Time", caption="Two sizes.", x="n", y="ms",
    )  # fmt: skip
    assert ' data-recorded="adding"' in drawn.html("a.json")
    columns = bars(dict(zip("ab", times, strict=True)), title="Time", caption="Two sizes.", x="µs")
    assert ' data-recorded="adding"' in columns.html("a.json")
    mixed = bars({"a": times[0], "b": 2.0}, title="Time", caption="Two sizes.", x="µs")
    assert " data-recorded" not in mixed.html("a.json")


def test_what_lessons_look_up_of_a_record_knows_its_experiment_and_shows_no_provenance():
    found = lookup("vec_add")
    assert found is not None
    time = found["blocks_of_256"]["n_20000"]["median"]
    assert time.experiment == "vec_add"
    assert (found["blocks_of_256"]["n_20000"]["bytes"] / time).experiment == "vec_add"
    assert "data-provenance" not in Table(["µs"], [[time]]).html()
