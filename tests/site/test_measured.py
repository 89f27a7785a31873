"""What the site says of measurements: typed numbers, stale records and missing reasons, with their line."""

import json
import os
from dataclasses import replace
from pathlib import Path

from tilewise.measurements.record import Record, Row, write_record

LESSON = "lessons/part_1/lesson_02.py"
MEASURE = '''

# %%
from tilewise import Kernel, case, measure, normal, output

TWICE = Kernel(r"""
extern "C" __global__ void twice(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2.0f * x[i];
}
""")
measure(
    "twice",
    variants={"plain": lambda n: TWICE.on(case(x=normal(n), y=output(n), n=n, grid=1, block=64))},
    cases=[{"n": 64}],
    count_case={"n": 64},
    bytes=lambda n: 8 * n,
    reference=lambda x: 2 * x,
)
'''
PAGE = "# All\n\n{{ measurements.all }}\n\n{{ measurements.provenance }}\n\n{{ measurements.comparison }}\n"
CEILINGS = {"memory_gb_per_s": 3260.0, "tflop_per_s": {"fp32": 64.0}, "launch_us": 3.0, "probes": {}}
BORN = {"device": "NVIDIA H100 80GB HBM3", "date": "2026-11-21", "versions": {}, "ceilings": CEILINGS}


def append(project: Path, path: str, text: str) -> int:
    """Add to a file; the number of lines that it had."""
    file = project / path
    before = file.read_text(encoding="utf-8") if file.is_file() else ""
    file.write_text(before + text, encoding="utf-8")
    return before.rstrip("\n").count("\n") + 1


def test_a_page_that_types_a_number_fails_with_its_line(serving):
    (serving.project / "docs" / "speed.md").write_text("# Speed\n\nIt takes 3 ms.\n", encoding="utf-8")
    said = 'docs/speed.md:3: "3 ms" is a number about performance, typed by hand.'
    assert said in serving.show().problems["speed/"]


def test_records_that_are_missing_stale_or_unexplained_are_warnings_which_strict_builds_count(
    serving,
):
    project = serving.project
    lines = append(project, LESSON, MEASURE)
    (project / "docs" / "measurements.md").write_text(PAGE, encoding="utf-8")
    built = serving.show()
    told = [line for line in built.warnings if "twice" in line]
    assert len(told) == 1
    assert (
        "/lesson_02.py:" in told[0]
        and "twice has no record yet. Record it on a GPU: tilewise record" in told[0]
    )
    assert int(told[0].split(".py:")[1].split(":")[0]) > lines
    assert "not recorded" in built.files["measurements/index.html"].decode()

    row = Row("plain", "variant", {"n": 64}, (90.0,), 89.0, 90.0, 91.0, None, 512, None)
    path = project / "lessons" / "measurements" / "nvidia-h100-80gb-hbm3" / "twice.json"
    write_record(Record("twice", "part_1/lesson_02", "fp32", BORN, (row,)), path)
    built = serving.show()
    assert any("The record of twice from 2026-11-21 is stale" in line for line in built.warnings)
    assert 'class="tw-number tw-stale"' in built.files["measurements/index.html"].decode()

    write_record(Record("twice", "part_1/lesson_02", "fp32", BORN, keyed(project, (row,))), path)
    built = serving.show()
    (told,) = [line for line in built.warnings if "twice" in line]
    assert '"plain" took 30 times as long as its bound' in told
    offered = serving.plugin.preview.file("measurements/nvidia-h100-80gb-hbm3/twice.json")
    published = json.loads(offered.read_text(encoding="utf-8"))
    assert published["rows"][0]["median"] == 90.0
    lesson = built.files["lessons/part_1/lesson_02/index.html"].decode()
    assert 'data-provenance="provenance-nvidia-h100-80gb-hbm3-twice"' in lesson
    assert 'href="../../../measurements/nvidia-h100-80gb-hbm3/twice.json"' in lesson

    file = project / LESSON
    text = file.read_text(encoding="utf-8")
    file.write_text(
        text.replace("    reference=lambda", "    within=50,\n    reference=lambda"), encoding="utf-8"
    )
    assert [line for line in serving.show().warnings if "twice" in line] == []


def keyed(project: Path, rows: tuple[Row, ...]) -> tuple[Row, ...]:
    """Rows of the experiment with their keys, by running its lesson."""
    from tilewise.build.playback import find_lesson, on_the_simulator, play
    from tilewise.measurements.experiment import handled_by
    from tilewise.measurements.report import assemble

    experiments = []

    def handle(experiment):
        experiments.append(experiment)
        return assemble(experiment, None)

    before = Path.cwd()
    os.chdir(project)
    try:
        with on_the_simulator(), handled_by(handle):
            play(find_lesson("part_1/lesson_02", project / "lessons"))
    finally:
        os.chdir(before)
    (experiment,) = experiments
    return tuple(replace(row, tokens=experiment.tokens(row.variant, row.case)) for row in rows)
