"""The kernels that can be imported: equal to their lessons' text, right on the simulator, and documented."""

import re
from pathlib import Path

import numpy as np
import pytest

from tilewise import Kernel, bf16, kernels
from tilewise.errors import LessonError
from tilewise.kernels.lesson_texts import files
from tilewise.kernels.published import PUBLISHED, Published

ROOT = Path(__file__).resolve().parents[1]
LESSONS = ROOT / "lessons"
NEAR = {"rtol": 1e-5, "atol": 1e-5}


def run(kernel, case):
    values = kernel.on(case).run()
    return case.make(), values


def test_the_files_are_what_the_lessons_say():
    there = {path.stem: path.read_text(encoding="utf-8") for path in kernels.FOLDER.glob("*.cu")}
    assert there == files(LESSONS), "python -m tilewise.kernels"


@pytest.mark.parametrize("n", [1, 700, 20_003])
def test_sum(n):
    given, values = run(kernels.sum_fp32, kernels.case_of("sum_fp32", n=n))
    assert np.isclose(values["total"][0], given["x"].astype(np.float64).sum(), rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize(("rows", "columns"), [(128, 192), (70, 33), (1, 65)])
def test_transpose(rows, columns):
    given, values = run(kernels.transpose_fp32, kernels.case_of("transpose_fp32", R=rows, C=columns))
    assert np.array_equal(values["B"], given["A"].T)


@pytest.mark.parametrize("name", ["matmul_fp32", "matmul_fp32_narrow"])
@pytest.mark.parametrize(("M", "N", "K"), [(65, 260, 36), (131, 70, 65)])
def test_matmul(name, M, N, K):  # noqa: N803 - as the kernel names them
    aligned = int(N % 4 == 0)
    kernel = kernels.kernel(name, ALIGNED=aligned)
    given, values = run(kernel, kernels.case_of(name, M=M, N=N, K=K, aligned=aligned))
    assert np.allclose(values["C"], given["A"].astype(np.float64) @ given["B"], **NEAR)


def test_a_width_that_the_published_settings_do_not_take_is_refused_before_the_launch():
    with pytest.raises(ValueError, match=r"N = 66.*ALIGNED=0"):
        kernels.case_of("matmul_fp32", M=65, N=66, K=36)


def test_matmul_of_hopper():
    case = kernels.case_of("matmul_bf16", M=264, N=520, K=136, sms=4)
    given, values = run(kernels.matmul_bf16, case)
    exact = bf16.values(given["A"]).astype(np.float64) @ bf16.values(given["B"])
    assert np.allclose(bf16.values(values["C"]), exact, rtol=2**-8, atol=1e-3)


def test_padding_two_matrices():
    given, values = run(kernels.pad_both_16bit, kernels.case_of("pad_both_16bit", n=93))
    for name in "AB":
        assert np.array_equal(values[f"wide_{name}"], np.pad(given[name], ((0, 3), (0, 3))))


@pytest.mark.parametrize("name", [name for name, entry in PUBLISHED.items() if entry.inputs])
def test_the_file_alone_has_the_published_settings(name):
    """Whoever copies the one string gets the kernel that the course measured."""
    entry = PUBLISHED[name]
    alone = Kernel(kernels.source(name), entry.entry, options=entry.options)
    sizes = {"n": 93} if "n" in entry.inputs.__code__.co_varnames else {"M": 65, "N": 260, "K": 36}
    sizes = {"R": 70, "C": 33} if name == "transpose_fp32" else sizes
    sizes = {"M": 130, "N": 264, "K": 72} if name == "matmul_bf16" else sizes
    case = kernels.case_of(name, **sizes)
    one, other = alone.on(case).run(), getattr(kernels, name).on(case).run()
    for array in case.outputs:
        assert np.array_equal(one[array], other[array], equal_nan=True), array


def test_a_kernel_without_a_case_says_so():
    with pytest.raises(ValueError, match='"softmax_long" has no case: call the function that launches it'):
        kernels.case_of("softmax_long", rows=3)


def test_a_name_that_is_not_published_is_told_what_there_is():
    with pytest.raises(AttributeError, match='Did you mean "matmul_fp32"'):
        _ = kernels.matmul_fp23
    with pytest.raises(KeyError, match='Did you mean "general/sum"'):
        kernels.source("general/sun")
    assert "sum_blocks(" in kernels.source("general/sum")
    with pytest.raises(KeyError, match='Did you mean "sum_fp32"'):
        kernels.case_of("sum_fp23", n=1)


LESSON = """
TEXT = "extern \\"C\\" __global__ void one(float* x)" + " { x[0] = STEP; }"
ONE = Kernel(TEXT, defines={"STEP": 1}, options=("-std=c++17",))
TWO = Kernel(ONE.source, defines={"STEP": 2})
MADE = Kernel(make(TEXT))
NUMBER = 3
"""


@pytest.mark.parametrize(
    "entry",
    [
        {"constant": "THREE"},
        {"constant": "MADE"},
        {"constant": "NUMBER"},
        {"constant": "TWO", "defines": {}},
        {"constant": "ONE"},
    ],
)
def test_what_cannot_be_published_is_said_with_its_place(tmp_path, entry):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "b.py").write_text(LESSON)
    whole = {
        "lesson": "a/b",
        "constant": "TWO",
        "does": "One.",
        "inputs": dict,
        "defines": {"STEP": 2},
    } | entry
    with pytest.raises(LessonError, match=f"{entry['constant']} is published as one"):
        files(tmp_path, {"one": Published(**whole)})


def test_the_page_of_published_kernels_names_them_all():
    page = (ROOT / "docs" / "reference" / "published.md").read_text(encoding="utf-8")
    assert re.findall(r"^\| `(\w+)`", page, re.M) == list(PUBLISHED)
