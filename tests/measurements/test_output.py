"""The table of a measurement: its columns, its units, what is left out."""

from dataclasses import replace
from typing import Any

from test_record import PROVENANCE

from tilewise.measurements.output import Measurement
from tilewise.outputs import Context


def row(variant: str, role: str = "variant", **changes: Any) -> dict[str, Any]:
    base = {
        "variant": variant, "role": role, "parameters": {"n": 1000}, "bound": 3.0,
        "limited_by": "memory", "recorded": {"median": 10.0, "p20": 9.0, "p80": 11.0}, "here": None,
        "device": "NVIDIA H100 80GB HBM3", "share": 0.3,
        "gb_per_s": 1.2345678, "tflop_per_s": None, "counted": None,
        "simulated": {"global_load_sectors": 16.0, "global_store_sectors": 8.0},
    }  # fmt: skip
    return base | changes


MADE = Measurement(
    name="adding", lesson="kernels/adding", count_case={"n": 64}, counts=("sectors",),
    rows=(row("plain"), row("cuBLAS", "library", simulated=None)), provenance=PROVENANCE,
    stale="", notes=("Odd.",), inputs=(),
)  # fmt: skip


def test_a_table_has_units_and_no_empty_column():
    heads = [(column.name, column.unit) for column in MADE.table().columns]
    assert heads == [
        ("variant", ""), ("bound", "µs"), ("recorded", "µs"), ("bound / recorded", "%"), ("rate", "GB/s"),
    ]  # fmt: skip
    assert [cell.text for cell in MADE.table().rows[0]] == ["plain", 3.0, 10.0, 30.0, 1.235]


def test_a_parameter_that_is_the_same_in_all_rows_is_in_the_caption_alone():
    assert MADE.table().caption == "All rows: n = 1,000."
    large = {"n": 2**26, "d": 64}
    made = replace(MADE, rows=(row("a", parameters=large), row("b", parameters=large | {"d": 128}))).table()
    assert made.caption == "All rows: n = 2²⁶."
    assert [column.name for column in made.columns][:2] == ["variant", "d"]
    alone = replace(MADE, rows=(row("a"),)).table()
    assert alone.caption is None and [column.name for column in alone.columns][:2] == ["variant", "n"]


def test_here_and_counted_stand_where_there_is_something_to_say():
    times = {"median": 12_000.0, "p20": 11_000.0, "p80": 13_000.0}
    counted = {"global_load_sectors": 16.0, "global_store_sectors": 9.0}
    made = replace(MADE, rows=(row("plain", here=times, counted=counted),))
    heads = [(column.name, column.unit) for column in made.table().columns]
    assert ("here", "ms") in heads
    cells = dict(zip([name for name, _ in heads], made.table().rows[0], strict=True))
    assert cells["here"].text == 12.0
    apart = made.counted()
    assert apart is not None
    assert [column.name for column in apart.columns] == ["variant", "sectors simulated", "sectors counted"]
    assert [cell.text for cell in apart.rows[0]] == ["plain", 24, 25]


def test_counts_stand_apart_with_their_size_and_one_row_a_variant():
    rows = (row("plain"), row("plain", parameters={"n": 2000}), row("wide"), row("lib", simulated=None))
    made = replace(MADE, rows=rows)
    apart = made.counted()
    assert apart is not None and apart.caption is not None
    assert "n = 64" in apart.caption
    assert [[cell.text for cell in line] for line in apart.rows] == [["plain", 24], ["wide", 24]]
    assert not any("sectors" in column.name for column in made.table().columns)
    assert "sectors simulated" in made.text()
    assert replace(MADE, counts=()).counted() is None


def test_the_columns_are_explained_at_the_first_table_of_a_page_alone():
    taken: list[str] = []

    def unique(wanted: str) -> str:
        taken.append(wanted)
        return wanted if taken.count(wanted) == 1 else f"{wanted}-{taken.count(wanted)}"

    context = Context("kernels/adding", 7, lambda suffix, content: "", unique, False, lambda path: f"/{path}")
    first, second = MADE.markdown(context), MADE.markdown(context)
    assert '<a href="/conventions/#where-a-number-comes-from">' in first
    assert "conventions" not in second


def test_times_that_scatter_are_told_in_words_beside_where_they_were_taken():
    notes = ("plain at n = 8: p20 and p80 lie 25% of the median apart.", "Odd.")
    context = Context("kernels/adding", 7, lambda suffix, content: "", lambda wanted: wanted)
    shown = replace(MADE, notes=notes).markdown(context)
    assert "p20 and p80" not in shown
    order = ["Recorded on", "<summary>Notes", "plain at n = 8: times vary", "Odd."]
    assert sorted(order, key=shown.index) == order
    assert "span 25 % of the median" in shown
    stale = replace(MADE, notes=notes, provenance=None).markdown(context)
    assert "span 25 % of the median" in stale, "it is told where nothing was recorded, too"


def test_an_experiment_without_a_record_says_how_to_get_one():
    stale = "adding has no record yet. Record it on a GPU: tilewise record kernels/adding"
    rows = (row("plain", recorded=None, share=None, gb_per_s=None),)
    made = replace(MADE, rows=rows, provenance=None, stale=stale)
    assert "recorded" not in made.table().text()
    assert stale in made.text()


def test_a_page_shows_table_notes_and_where_the_figures_come_from():
    context = Context(
        "kernels/adding", 7, lambda suffix, content: "unused", lambda wanted: wanted, False,
        lambda path: f"/site/{path}",
    )  # fmt: skip
    html = MADE.markdown(context)
    assert html.startswith('<div class="tw-measurement" id="adding" data-machine="nvidia-h100-80gb-hbm3">')
    assert "<th" in html
    origin = "provenance-nvidia-h100-80gb-hbm3-adding"
    spread = "p20 9 µs, median 10 µs, p80 11 µs"
    number = f'<a class="tw-number" href="#{origin}" data-provenance="{origin}" data-spread="{spread}">10</a>'
    assert number in html
    assert f'<dl class="tw-provenance-list" id="{origin}">' in html
    assert '<a href="/site/measurements/nvidia-h100-80gb-hbm3/adding.json" data-record-file>' in html
    assert '<a href="/site/measurements/#adding">all its rows</a>' in html
    assert 'title="p20' not in html, "where a number was taken is not said by a title alone"
    assert "<summary>Recorded on NVIDIA H100, 2026-11-21</summary>" in html
    assert "<dt>driver</dt><dd>580.1</dd>" in html
    assert 'data-mark="stale"' not in html
    assert 'data-mark="stale"' in replace(MADE, stale="The record is stale.").markdown(context)


def test_a_terminal_shows_the_spread_too():
    lines = MADE.text().splitlines()
    assert "recorded [µs]  spread [%]" in lines[1]
    assert lines[3].split() == ["plain", "3", "10", "20", "30", "1.235"]


def test_a_long_table_is_folded_under_its_words_on_a_page_and_printed_whole():
    context = Context("kernels/adding", 1, lambda suffix, content: "", lambda wanted: wanted)
    shown = replace(MADE, fold="All 2 rows").markdown(context)
    assert '<details class="tw-rows"><summary>All 2 rows</summary>' in shown
    assert shown.index("<summary>All 2 rows") < shown.index("<table>") < shown.index("Recorded on")
    assert "tw-rows" not in MADE.markdown(context)
    assert replace(MADE, fold="All 2 rows").text() == MADE.text()
