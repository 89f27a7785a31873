"""What a lesson calls a bound or a least time, held against every recorded row that it is about.

The bound of the tables is held by ``measurements/test_bounds.py``. What a recorded row beats is an estimate:
a lesson calls it one, and it has no line here.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

import pytest

from tests.test_lessons import ROOT, outcome
from tilewise.build.run.runner import LessonRun
from tilewise.kernel.machine_code import available
from tilewise.measurements.archive import Archive

ARCHIVE = Archive(ROOT / "lessons")
H100 = "nvidia-h100-80gb-hbm3"


@dataclass(frozen=True)
class Bound:
    """A number of a lesson, and the rows that it bounds."""

    lesson: str
    """The lesson's id."""
    path: str
    """Where the number is among those that the lesson publishes; or a group of them by variant."""
    experiment: str
    """The experiment."""
    variants: tuple[str, ...] = ()
    """The variants; every row but those of libraries where empty."""
    case: Mapping[str, Any] = field(default_factory=dict)
    """What the rows' case holds."""
    devices: tuple[str, ...] = ARCHIVE.devices
    """Where the rows were recorded: everywhere, but for a bound by one device's memory or probe."""
    rate: bool = False
    """Whether the number is a rate in TFLOP/s, which bounds from above, and no time in microseconds."""

    def __str__(self) -> str:
        return f"{self.lesson} {self.path} {self.experiment}"


N = {"N": 1024, "d": 128}
BOUNDS = (
    Bound("speed/attention_critical_path", "work.arithmetic_us", "attention_three_kernels", case=N),
    Bound("machine/throughput", "model.one_us", "tasks_on_the_gpu", case={"tasks": 1}),
    Bound("matmul/tiling", "far.arithmetic_us", "tiled_product", case={"n": 4096}),
    Bound("matmul/register_tiles", "issue_bound", "fp32_ladder", rate=True),
    Bound("matmul/hopper", "task.us", "hopper_ladder", case={"M": 4096, "N": 4096, "K": 4096}),
    Bound("matmul/matrix_units", "units.ideal_us", "matrix_products", case={"n": 4096}, devices=(H100,)),
    Bound("memory/banks", "turn_model.memory_us", "transposes", devices=(H100,)),
    Bound("memory/barriers", "sums_model.memory_us", "block_sums", case={"n": 2**26}, devices=(H100,)),
    Bound("memory/reductions", "task.least_us", "sums", case={"n": 2**28}, devices=(H100,)),
    *(
        Bound("memory/reductions", f"block.{way}.issue_us", "block_sums_by_shuffles", (way,), {"n": 2**26})
        for way in ("tree", "shuffles")
    ),
    Bound("attention/flash_forward", "predicted.arithmetic_us", "attention_flash", case=N),
    Bound("attention/softmax", "predicted.memory_us", "softmax_rows", devices=(H100,)),
    Bound("attention/softmax_long", "predicted.memory_us", "softmax_long_rows", devices=(H100,)),
    Bound("toolbox/machine_code", "loops.least_64", "register_caps", case={"d": 64}),
)
NEEDS_SASS = ("issue_bound", "loops.")


@pytest.mark.parametrize("bound", BOUNDS, ids=str)
def test_no_recorded_row_beats_a_bound_that_a_lesson_names(bound):
    if bound.path.startswith(NEEDS_SASS) and (missing := available()):
        pytest.skip(missing)
    made = outcome(ROOT / "lessons" / f"{bound.lesson}.py")
    assert isinstance(made, LessonRun), made
    found: Any = reduce(lambda values, name: values[name], bound.path.split("."), made.published)
    rows = [row for device in bound.devices for row in rows_of(bound, device)]
    assert rows, "the bound is about no row"
    for row in rows:
        least = found[re.sub(r"\W+", "_", row.variant)] if isinstance(found, dict) else found
        if bound.rate:
            assert row.flop / row.p20 / 1e6 <= least, row.variant
        else:
            assert row.p20 >= least, (row.variant, dict(row.case))


def rows_of(bound: Bound, device: str) -> list[Any]:
    """The timed rows of a device that a bound is about."""
    record = ARCHIVE.record(bound.experiment, device)
    assert record is not None, f"{bound.experiment} has no record"
    return [
        row
        for row in record.rows
        if row.median is not None
        and (row.variant in bound.variants if bound.variants else row.role == "variant")
        and bound.case.items() <= row.case.items()
    ]
