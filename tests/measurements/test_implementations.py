"""What implementations are given: variants that name the same input share it, others do not."""

from pathlib import Path
from typing import Any

import fake_gpu
import numpy as np
import pytest

from tilewise import bf16
from tilewise.cuda.cases import case, normal, output
from tilewise.errors import LessonError
from tilewise.measurements.experiment import Experiment
from tilewise.measurements.implementations import checked_implementations

PARAMETERS = tuple(
    fake_gpu.Parameter(name, True, name != "end") for name in ("start", "way", "end")
)  # the last is written


def made_of(name: str, variants: dict[str, Any], **more: Any) -> Experiment:
    return Experiment(
        name=name,
        variants=variants,
        cases=({"n": 64},),
        path="lesson.py",
        line=1,
        root=Path(),
        lesson="part/lesson",
        **more,
    )


def test_arrays_that_differ_in_their_middle_only_are_not_shared(monkeypatch):
    gpu = fake_gpu.FakeGpu()
    fake_gpu.install(monkeypatch, gpu)
    kernel = fake_gpu.FakeKernel(gpu, "", _copy, PARAMETERS)
    flat = np.zeros(5000, np.int32)
    bent = flat.copy()
    bent[2500] = 1
    assert str(flat) == str(bent)

    def variant(way: Any) -> Any:
        return lambda n: kernel.on(case(start=normal(n), way=way, end=output(n)))

    variants = {"flat": variant(flat), "bent": variant(bent), "flat too": variant(flat.copy())}
    experiment = made_of("ways", variants)
    _, entries, _ = checked_implementations(experiment, {"n": 64})
    arrays = {entry.label: entry.arrays for entry in entries}
    assert [int(arrays[label]["way"].sum()) for label in ("flat", "bent", "flat too")] == [0, 1, 0]
    assert arrays["flat"]["way"] is arrays["flat too"]["way"]
    assert arrays["flat"]["start"] is arrays["bent"]["start"]


def _copy(start: Any, way: Any, end: Any) -> None:
    end[...] = start


def test_arrays_of_bits_are_checked_as_the_numbers_that_they_stand_for(
    monkeypatch,
):
    gpu = fake_gpu.FakeGpu()
    fake_gpu.install(monkeypatch, gpu)
    parameters = (fake_gpu.Parameter("start", True, True), fake_gpu.Parameter("end", True, False))

    def experiment(function: Any) -> Experiment:
        kernel = fake_gpu.FakeKernel(gpu, "", function, parameters)

        def variant(n: int) -> Any:
            return kernel.on(case(start=normal(n, dtype="bfloat16"), end=output(n, dtype="bfloat16")))

        def doubled(start: Any) -> Any:
            assert start.dtype == np.float64
            return {"end": 2 * start}

        return made_of("bits", {"doubled": variant}, reference=doubled, tolerance=2**-8)

    def twice(start: Any, end: Any) -> None:
        end[...] = bf16.bits(2 * bf16.values(start))

    def nothing(start: Any, end: Any) -> None:
        pass

    def nearly(start: Any, end: Any) -> None:
        end[...] = bf16.bits(2.03 * bf16.values(start))

    contenders, _, _ = checked_implementations(experiment(twice), {"n": 64})
    assert [one.label for one in contenders] == ["doubled"]
    for wrong in (nothing, nearly):
        with pytest.raises(LessonError, match="is wrong on the GPU"):
            checked_implementations(experiment(wrong), {"n": 64})
