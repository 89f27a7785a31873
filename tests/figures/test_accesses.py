"""A trace becomes steps: who touched which element, on which line."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tilewise.figures.accesses import element_text, ranges, shapes_of, steps_of

ONE, WARPS = (1, 1, 1), (64, 1, 1)
SOURCE = "extern\n{\n    float s = a[i] + b[i];\n    c[i] = s;\n}"


def test_each_access_of_a_warp_is_a_step(addition: Any) -> None:
    steps = steps_of(addition, ONE, WARPS, source=SOURCE)
    assert steps.texts() == (
        "Step 1, line 3: threads 0 to 31 read a[0 to 31].",
        "Step 2, line 3: threads 0 to 31 read b[0 to 31].",
        "Step 3, line 4: threads 0 to 31 write c[0 to 31].",
        "Step 4, line 3: threads 32 to 39 read a[32 to 39].",
        "Step 5, line 3: threads 32 to 39 read b[32 to 39].",
        "Step 6, line 4: threads 32 to 39 write c[32 to 39].",
    )
    assert [step.source for step in steps.steps[:3]] == ["float s = a[i] + b[i];"] * 2 + ["c[i] = s;"]
    assert [(buffer.name, buffer.shape, buffer.space) for buffer in steps.buffers] == [
        ("a", (40,), "global"),
        ("b", (40,), "global"),
        ("c", (40,), "global"),
    ]


def test_the_script_gets_threads_elements_and_values(make_run: Callable[..., Any]) -> None:
    run = make_run(
        [(7, 1, 0, 2, 5, 1, 2, 4, 0, 0, 3, 1.23456), (7, 1, 0, 1, 5, 1, 2, 4, 0, 0, 2, np.nan)], ("s",)
    )
    from tilewise.figures.values import plain

    assert plain(steps_of(run, (2, 1, 1), (4, 1, 1)).spec()) == {
        "arrays": [{"name": "s", "shape": [4], "space": "shared"}],
        "steps": [
            {
                "line": 5,
                "source": "",
                "touches": [{"a": 0, "k": "update", "t": [5, 6], "i": [2, 3], "v": [None, 1.235]}],
            }
        ],
        "left_out": 0,
    }


def test_what_is_kept_can_be_narrowed(addition: Any) -> None:
    steps = steps_of(addition, ONE, WARPS, only=["c", "a"], max_threads=32, shapes={"a": (8, 8)})
    assert steps.texts() == (
        "Step 1, line 3: threads 0 to 31 read a[0 to 3][0 to 7].",
        "Step 2, line 4: threads 0 to 31 write c[0 to 31].",
    )
    assert [buffer.shape for buffer in steps.buffers] == [(32,), (8, 8)]


def test_later_steps_are_counted(addition: Any) -> None:
    steps = steps_of(addition, ONE, WARPS, max_steps=4)
    assert (len(steps.steps), steps.left_out) == (4, 2)


def test_a_figure_holds_no_more_accesses_than_can_be_sent(make_run: Callable[..., Any]) -> None:
    rows = [(step, 0, 0, 0, 1, 0, 0, 4, 0, 0, k, 1.0) for step in range(4) for k in range(25_000)]
    steps = steps_of(make_run(rows, ("a",)), ONE, ONE)
    assert (len(steps.steps), steps.left_out) == (2, 2)


def test_a_trace_of_other_arrays_is_refused(make_run: Callable[..., Any]) -> None:
    run = make_run([(0, 0, 0, 0, 1, 0, 0, 4, 0, 0, 0, 1.0)], ("a", "b"))
    with pytest.raises(ValueError, match="no access to these buffers"):
        steps_of(run, ONE, ONE, only=["b"])


def test_spilled_registers_are_no_arrays(make_run: Callable[..., Any]) -> None:
    row = (0, 0, 0, 0, 1, 0, 0, 4, 0, 0, 0, 1.0)
    local = (1, 0, 0, 0, 1, 2, 0, 4, 0, -1, 9, 1.0)
    assert len(steps_of(make_run([row, local], ("a",)), ONE, ONE).steps) == 1


def test_a_run_without_a_trace_is_refused() -> None:
    with pytest.raises(ValueError, match="simulate with trace=Trace"):
        steps_of(SimpleNamespace(accesses=None, buffers=()), ONE, WARPS)


def test_an_unknown_buffer_is_refused_with_the_known_ones(addition: Any) -> None:
    with pytest.raises(ValueError, match="no buffer 'd'; its buffers are a, b, c"):
        steps_of(addition, ONE, WARPS, only=["d"])


def test_shapes_come_from_the_launch_s_case() -> None:
    values = {"A": np.zeros((3, 4)), "n": 3, "scale": np.float32(2)}
    assert shapes_of(SimpleNamespace(case=SimpleNamespace(values=values))) == {"A": (3, 4)}
    assert shapes_of(None) == {}


@pytest.mark.parametrize(
    ("numbers", "said"),
    [
        ([3], "3"),
        ([2, 0, 1, 1], "0 to 2"),
        ([0, 2, 3, 9], "0, 2 to 3, 9"),
        ([0, 2, 4, 6, 8, 10], "0, 2, 4, 6 and 2 more"),
    ],
)
def test_numbers_are_said_as_ranges(numbers: list[int], said: str) -> None:
    assert ranges(np.array(numbers)) == said


def test_elements_of_a_matrix_are_said_by_row_and_column() -> None:
    assert element_text(np.array([1, 6, 11]), (3, 5)) == "[0 to 2][1]"
    assert element_text(np.array([0, 6]), (3, 5)) == "[0, 6]"
