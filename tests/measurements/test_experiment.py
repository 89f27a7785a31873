"""``measure`` in a lesson without a GPU: what it checks, what it shows, what it refuses."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from test_record import PROVENANCE, record

from tilewise.errors import LessonError
from tilewise.kernel.kernel import Kernel
from tilewise.measurements.archive import Archive
from tilewise.measurements.experiment import Experiment, handled_by
from tilewise.measurements.output import Measurement
from tilewise.measurements.record import Row, write_record
from tilewise.measurements.report import report
from tilewise.outputs import CollectingSink, installed, sink
from tilewise.simulator import ToolchainError

CELL = '''
from tilewise import Kernel, case, ceil_div, measure, normal, output

TWICE = Kernel(r"""
extern "C" __global__ void twice(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = FACTOR * x[i];
}
""", defines={"FACTOR": "2.0f"})


def vector(n):
    return case(x=normal(n), y=output(n), n=n, grid=ceil_div(n, 64), block=64)


made = measure(
    "twice",
    variants={"blocks of 64": lambda n: TWICE.on(vector(n))},
    cases=[{"n": 2**20}],
    count_case={"n": 100},
    bytes=lambda n: 8 * n,
    reference=lambda x: 2 * x,
)
'''
TIMED = Row("blocks of 64", "variant", {"n": 2**20}, (4.0, 4.0), 4.0, 4.0, 4.0, None, 8 * 2**20)
LINE = CELL.split("\n").index("made = measure(") + 1


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Measurement]:
    """Runs the cell, with replacements, as the lesson ``kernels/twice`` of a project."""
    monkeypatch.setenv("TILEWISE_BACKEND", "simulator")
    file = tmp_path / "lessons" / "kernels" / "twice.py"
    file.parent.mkdir(parents=True)

    def execute(**changes: str) -> Measurement:
        text = CELL
        for key, new in changes.items():
            old = {"reference": "2 * x,", "name": '"twice",', "bytes": "lambda n: 8 * n"}.get(key, key)
            assert old in text
            text = text.replace(old, new)
        file.write_text(text, encoding="utf-8")
        names: dict[str, Any] = {}
        taken = CollectingSink()
        with installed(taken):
            exec(compile(text, str(file), "exec"), names)
        assert taken.outputs == [names["made"]]
        return names["made"]

    return execute


def experiment_of(run: Callable[..., Measurement], **changes: str) -> Experiment:
    """The experiment that a run makes."""
    made: list[Experiment] = []

    def handle(experiment: Experiment) -> Measurement:
        made.append(experiment)
        shown = report(experiment)
        sink().add(shown)
        return shown

    with handled_by(handle):
        run(**changes)
    return made[0]


def test_without_a_gpu_the_count_case_is_simulated_and_the_bound_predicted(
    run,
):
    made = run()
    [row] = made.rows
    assert row["simulated"] == {
        "global_load_requests": 4.0, "global_load_sectors": 13.0, "global_store_requests": 4.0,
        "global_store_sectors": 13.0, "global_load_useful_bytes": 400.0, "global_store_useful_bytes": 400.0,
        "shared_load_wavefronts": 0.0, "shared_store_wavefronts": 0.0,
        "instructions": row["simulated"]["instructions"],
    }  # fmt: skip
    assert row["bound"] == pytest.approx(8 * 2**20 / 3352e9 * 1e6)
    assert row["limited_by"] == "memory"
    assert [column.name for column in made.table().columns] == ["variant", "n", "bound"]
    counted = made.counted()
    assert counted is not None
    assert [column.name for column in counted.columns] == ["variant", "sectors simulated"]
    assert made.stale == "twice has no record yet. Record it on a GPU: tilewise record kernels/twice"
    assert made.notes == ("The bound uses the peaks of an H100 SXM (data sheet).",)


def test_a_record_of_the_same_key_is_shown_and_another_is_stale(run, tmp_path, monkeypatch):
    rows = (
        replace(TIMED, tokens=experiment_of(run).tokens("blocks of 64", TIMED.case)),
        replace(TIMED, variant="cuBLAS", role="library"),
    )
    kept = record(experiment="twice", lesson="kernels/twice", rows=rows)
    archive = Archive(tmp_path / "lessons")
    path = archive.path("twice", PROVENANCE["device"])
    write_record(kept, path)
    made = run()
    assert made.stale == ""
    assert made.rows[0]["recorded"] == {"median": 4.0, "p20": 4.0, "p80": 4.0}
    assert made.rows[0]["bound"] == 3.0, "one launch of the recorded device"
    assert [row["variant"] for row in made.rows] == ["blocks of 64"], "the library is no longer the lesson's"
    assert run(**{"FACTOR *": "FACTOR  *"}).stale == "", "white space does not count"
    changed = run(**{'"2.0f"': '"(1.0f + 1.0f)"'})
    assert changed.stale.startswith("The record of twice from 2026-11-21 is stale: the code has changed")
    monkeypatch.setenv("TILEWISE_STALE", "error")
    with pytest.raises(LessonError) as caught:
        run(**{'"2.0f"': '"(1.0f + 1.0f)"'})
    assert str(caught.value) == (
        f'lessons/kernels/twice.py:{LINE}: measure("twice"): The record of twice from 2026-11-21 is stale: '
        "the code has changed since then. Record it on a GPU: tilewise record kernels/twice"
    )


def test_a_wrong_answer_names_variant_element_and_both_values(run):
    with pytest.raises(LessonError) as caught:
        run(reference="2 * x + (x.size == 100),")
    said = str(caught.value)
    assert said.startswith(
        f'lessons/kernels/twice.py:{LINE}: measure("twice"): "blocks of 64" is wrong on the simulator: y['
    )
    assert "100 of 100 elements are off by more than 1e-05. Nothing was timed." in said


def test_an_element_that_was_never_written_is_wrong(run):
    with pytest.raises(LessonError, match=r"y\[99\] is nan, right: "):
        run(**{"i < n)": "i < n - 1)"})


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"name": '"Twice",'}, "a name is small letters, digits and underscores."),
        ({"bytes": "lambda m: 8 * m"}, "bytes does not take the parameters n: missing a required"),
        ({"lambda n: TWICE.on(vector(n))": "lambda n: 3"}, 'the variant "blocks of 64" returned int.'),
        ({"cases=[{\"n\": 2**20}]": "cases=[]"}, "there is no case to time."),
        ({"reference=lambda x: 2 * x,": ""}, "nothing says whether the answer is right."),
        ({"reference": "2 * x, counts=['speed']"}, 'there is no count "speed". Known: sectors'),
        ({"lambda x: 2 * x": "lambda z: z"}, 'wants "z", which is no input of the case. Inputs: x, n.'),
        ({"lambda x: 2 * x": "lambda x: {'q': x}"}, 'returned "q", which the case does not name.'),
        ({"lambda x: 2 * x": "lambda x: x[1:]"}, 'gives y with 100 elements on the simulator; '),
        ({"reference": "2 * x, library={'blocks of 64': print}"}, "is a variant and a library"),
        ({"reference": "2 * x, flop=lambda n: n, arithmetic='fp4'"}, "no ceiling is known for 'fp4'"),
    ],
)  # fmt: skip
def test_a_wrong_experiment_is_refused_at_the_lessons_line(run, changes, said):
    with pytest.raises(LessonError) as caught:
        run(**changes)
    assert f'lessons/kernels/twice.py:{LINE}: measure("' in str(caught.value)
    assert said in str(caught.value)


def test_variants_of_several_launches_are_counted_together(run):
    made = run(**{"lambda n: TWICE.on(vector(n))": "lambda n: [TWICE.on(vector(n)), TWICE.on(vector(n))]"})
    assert made.rows[0]["simulated"]["global_load_sectors"] == 26.0


def test_where_the_simulator_is_missing_the_table_goes_on_and_says_so(run, monkeypatch):
    def nothing(*_: object, **__: object) -> None:
        raise ToolchainError("There is no clang.")

    monkeypatch.setattr(Kernel, "simulate", nothing)
    made = run()
    assert made.rows[0]["simulated"] is None
    assert "No simulation in this build: There is no clang." in made.notes


def test_times_with_the_host_have_a_key_of_their_own_and_others_keep_theirs(
    run,
):
    keys = [
        experiment_of(run, reference=f"2 * x, {added}").tokens("blocks of 64", TIMED.case)
        for added in ("", "with_host=False,", "with_host=True,")
    ]
    assert keys[0] == keys[1] != keys[2]
