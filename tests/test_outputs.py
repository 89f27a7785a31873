"""Outputs: text for a terminal, Markdown for a page, JSON between processes, and the sink they go to."""

from collections.abc import Callable

import numpy as np
import pytest

from tilewise import Figure, Kernel, Table, exercise, publish, show
from tilewise.outputs import (
    AgreeOutput,
    Cell,
    CheckOutput,
    CollectingSink,
    Column,
    Context,
    ExerciseOutput,
    FigureOutput,
    HazardOutput,
    KernelOutput,
    LackOutput,
    Output,
    RunColumn,
    RunLine,
    RunOutput,
    Text,
    as_output,
    decode,
    encode,
    installed,
)
from tilewise.outputs.kernel import without_markers
from tilewise.outputs.kinds import LONGEST_LINE, LONGEST_RECORDED, LONGEST_TEXT, WIDEST_RECORDED
from tilewise.outputs.listing import Beside, Listing, Pair, Row
from tilewise.outputs.table import number
from tilewise.outputs.try_it import TryOutput

TABLE = Table(["name", Column("time", "µs")], [["a", 1.25], ["b", 20_000]], caption="Two rows.")
FIGURE = Figure("A title", "A caption.", "What is seen.", 300, "chart", {"data": [[1, 2]], "layout": {}})
EVERY: list[Output] = [
    Text("hello", source="recorded on a machine"),
    TABLE,
    FigureOutput(FIGURE.to_dict()),
    CheckOutput("out", 3, 0.5, 1e-6, 1e-8),
    AgreeOutput("f", "k", ("n = 1", "n = 2"), ("a", "b"), 0.0, 1e-5),
    AgreeOutput("f", "k", ("n = 1",), ("a",), 0.0, 1e-5, 0.0, "Numba's simulator", "Numba"),
    LackOutput("Triton", "k", "needs PyTorch and Triton"),
    RunOutput(
        "k<<<1, 32>>>",
        (RunColumn("", "issued", "What ran."), RunColumn("global loads", "sectors", "Of 32 bytes.")),
        (RunLine(2, "    a[i] = 1;", (Cell(3), Cell(9, "27 bytes asked for", mark="waste"))),),
        RunLine(0, "", (Cell(3), Cell(9))),
    ),
    TryOutput(
        RunOutput("k<<<1, 32>>>", (), (), RunLine(0, "", ())),
        {"sizes": [{"name": "block_x", "start": 8, "values": [4, 8]}], "kernels": [{"label": "<k>"}] * 2},
        "A & B.",
    ),
    HazardOutput("race", "two warps write", "a[i] = 1;", 3),
    KernelOutput("k", "int a;\nint b;", 4, "part", (("T", "16"),), ("-fmad=false",)),
    ExerciseOutput("T", "Do it.", "def f(): ...", tests="def t(f): ...", wrong_answers=1),
    Listing("FFMA R0, R1, R2, R0\nEXIT", "the end"),
    Pair(Listing("EXIT", "the end"), Listing("NOP")),
    Beside((Row(4, "y[i] = 1.0f;", ("st.global.u32 [%rd1], 1;",), ()),), "sm_90"),
]


def context(nested: bool = False) -> Context:
    return Context("part/one", 7, lambda suffix, content: f"x{suffix}", lambda wanted: wanted, nested)


@pytest.mark.parametrize("output", EVERY, ids=lambda output: output.kind)
def test_every_output_survives_json_and_has_a_text_and_a_page(output):
    import json

    again = decode(json.loads(json.dumps(encode(output))))
    assert again == output
    assert again.text() == output.text() != ""
    assert again.markdown(context()) == output.markdown(context()) != ""


def test_only_outputs_of_tilewise_are_decoded():
    with pytest.raises(ValueError, match="no output of tilewise"):
        decode({"class": "os:environ", "data": {}})
    with pytest.raises(ValueError, match="no output of tilewise"):
        decode({"class": "tilewise.outputs.table:Column", "data": {"name": "a"}})


def test_a_table_is_aligned_as_text():
    assert TABLE.text() == ("name  time [µs]\n----  ---------\na          1.25\nb        20,000\nTwo rows.")


def test_a_table_escapes_what_it_holds():
    html = Table(["a<b"], [[Cell("x & y", title='"quoted"', href="../z/?a=1&b=2", mark="best")]]).html()
    assert '<th scope="col" class="tw-left">a&lt;b</th>' in html
    assert (
        '<td class="tw-left" data-mark="best"><span title="&quot;quoted&quot;">'
        '<a href="../z/?a=1&amp;b=2">x &amp; y</a></span></td>' in html
    )


def test_a_column_of_numbers_written_out_is_aligned_right():
    table = Table(
        ["of the peak", "gain", "kernel", "range"],
        [["73%", "1.3×", "2", "1 to 2"], ["−4.5 %", "–", "two", "3%"]],
    )
    assert table.numeric == (True, True, False, False)
    assert (
        '<td class="tw-right">73%</td><td class="tw-right">1.3×</td><td class="tw-left">2</td>'
        in table.html()
    )
    assert table.text().split("\n")[2] == "        73%  1.3×  2       1 to 2"


def test_code_in_a_sentence_is_code_on_a_page():
    said = "thread 1 reads what warp 0 wrote at line 3 (`a[i] = b < c;`)"
    shown = "wrote at line 3 (<code>a[i] = b &lt; c;</code>)"
    assert shown in Table(["hazard"], [[said]]).html()
    assert shown in HazardOutput("race", said).markdown(context())
    assert said in HazardOutput("race", said).text()


def test_a_table_takes_numpy_values_and_refuses_ragged_rows():
    table = Table(["n"], [[np.int64(3)], [np.float32(0.5)], [None]])
    assert [row[0].text for row in table.rows] == [3, 0.5, ""]
    assert table.numeric == (True,)
    with pytest.raises(ValueError, match="row 2 of the table has 1 cells and the table has 2 columns"):
        Table(["a", "b"], [[1, 2], [3]])


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0"),
        (1048576, "1,048,576"),
        (-1234, "-1,234"),
        (True, "yes"),
        (0.5, "0.5"),
        (12.0, "12"),
        (1234.5678, "1,235"),
        (0.000123456, "0.0001235"),
        (1e-9, "1e-09"),
        (2.5e20, "2.5e+20"),
        (float("inf"), "∞"),
        (float("nan"), "NaN"),
    ],
)
def test_numbers_are_written_for_readers(value, shown):
    assert number(value) == shown


def test_show_takes_what_has_an_output_and_nothing_else():
    class Own:
        def as_output(self) -> Output:
            return Text("own")

    with installed(CollectingSink()) as sink:
        show(TABLE, FIGURE, Own())
        with pytest.raises(TypeError, match=r"got int; print\(\) shows the rest"):
            show(3)
    assert isinstance(sink, CollectingSink)
    assert [output.kind for output in sink.outputs] == ["table", "figure", "text"]
    assert as_output(Table) is None


def test_publish_refuses_what_prose_cannot_quote():
    with installed(CollectingSink()) as sink:
        publish(a={"b": np.float64(0.5)})
        with pytest.raises(TypeError, match=r"x\.y is ndarray"):
            publish(x={"y": np.zeros(3)})
        with pytest.raises(ValueError, match=r"publish\(a=\.\.\.\) is called twice"):
            publish(a=1)
    assert isinstance(sink, CollectingSink)
    assert sink.published == {"a": {"b": 0.5}}


MARKED = "a\n// [load\nb\n// load]\n  // [sum\nc\n  # sum]\nd"


def twice(x: float) -> float:
    return 2 * x


def test_a_wrong_answer_is_an_edit_of_the_answer():
    def tests(answer: Callable[[float], float]) -> None:
        assert answer(2) == 4

    with installed(CollectingSink()) as sink:
        exercise("Twice", "Double it.", twice, tests, wrong=[{"2 *": "3 *"}, {"2 * x": "x"}])
        with pytest.raises(AssertionError, match=r"accept the wrong answer with \{'2 \*': '2.0 \*'\}"):
            exercise("Twice", "Double it.", twice, tests, wrong=[{"2 *": "2.0 *"}])
        with pytest.raises(ValueError, match=r"the answer has no '4 \*'"):
            exercise("Twice", "Double it.", twice, tests, wrong=[{"4 *": "2 *"}])
    assert [one.text() for one in sink.outputs] == [
        "exercise: Twice\n  Double it.\n  [the answer passes its tests; 2 wrong answers rejected]"
    ]


def test_a_wrong_answer_of_a_kernel_keeps_its_defines():
    fill = Kernel('extern "C" __global__ void fill(int* x) { x[0] = VALUE; }', defines={"VALUE": 7})

    def tests(kernel: Kernel) -> None:
        x = np.zeros(1, np.int32)
        kernel.simulate(x, grid=1, block=1)
        seen.append(int(x[0]))
        assert x[0] == 7

    seen: list[int] = []
    with installed(CollectingSink()):
        exercise("Fill", "Write it.", fill, tests, wrong=[{"VALUE;": "VALUE + 1;"}])
    assert seen == [7, 8]


def test_region_markers_stand_blank_or_go():
    assert without_markers(MARKED, 10) == ("a\n\nb\n\n\nc\n\nd", "load:12-12 sum:15-15", "11 13 14 16")
    assert without_markers(MARKED, blank=False) == ("a\nb\nc\nd", "load:2-2 sum:3-3", "2 4 5 7")


def test_a_long_printed_text_is_folded_and_keeps_its_source_and_every_line():
    lines = [f"{n} {n}.5" for n in range(LONGEST_RECORDED + 1)]
    assert Text("\n".join([*lines, *lines][:LONGEST_TEXT])).markdown(context()).startswith("```")
    open_text = Text("\n".join(lines[:-1]), source="recorded on a machine").markdown(context())
    long_text = Text("\n".join(lines), source="recorded on a machine").markdown(context())
    assert open_text.startswith("```")
    assert long_text.startswith(f'??? code "Output, {len(lines)} lines"')
    assert 'title="recorded on a machine"' in long_text
    assert all(f"    {line}" in long_text.splitlines() for line in lines)
    assert Text(" ".join(lines) + " 0" * LONGEST_LINE).markdown(context()).startswith("??? code")
    wide = Text("0" * (WIDEST_RECORDED + 1), source="recorded on a machine")
    assert wide.markdown(context()).startswith("??? code")
    timed = "N=32: one: 2.00 us; rounds 2.00, 2.01, 1.99"
    assert Text(timed, source="recorded on a machine").markdown(context()).startswith("??? code")
