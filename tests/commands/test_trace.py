"""``tilewise trace`` on a file that knows nothing of lessons."""

from __future__ import annotations

from pathlib import Path

import pytest

from tilewise.__main__ import main

SOURCE = """\
extern "C" __global__ void scale(const float* x, float* y, int n, float by) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] * by;
}
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "scale.cu").write_text(SOURCE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TILEWISE_BACKEND", "simulator")
    return "scale.cu"


def arguments(n: int) -> list[str]:
    pairs = ("x=f32[100]", "y=out f32[100]", f"n={n}", "by=0.5")
    return ["--grid", "4", "--block", "32", *(part for pair in pairs for part in ("--arg", pair))]


def test_counts_are_printed_by_line(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", file, *arguments(100)]) == 0
    lines = capsys.readouterr().out.splitlines()
    line = next(line for line in lines if "y[i] = x[i] * by" in line)
    assert line.split()[0] == "3"
    assert lines[0].startswith("scale<<<")


def test_a_hazard_is_named_with_its_line_and_fails(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", file, *arguments(101)]) == 1
    assert "out of bounds" in (said := capsys.readouterr().err)
    assert "3" in said


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["none.cu", "--grid", "1", "--block", "1"], "none.cu: there is no such file."),
        (["scale.cu", "--grid", "1", "--block", "1"], "there is no x. Add --arg x=f32[1024]."),
        (["scale.cu", *arguments(1), "--arg", "z=1"], "scale has no parameter z. It takes x, y, n, by."),
        (["scale.cu", *arguments(1), "--arg", "x=f7[1]"], 'x: there is no type "f7". Known: f16, f32'),
        (["scale.cu", *arguments(1), "--arg", "n=many"], 'n: "many" is neither a number nor an array.'),
        (["scale.cu", *arguments(1), "--grid", "wide"], '"wide" is no grid. Write --grid 4 or --grid 4,2,1.'),
        (["scale.cu", *arguments(1), "--define", "T"], '"T" is no definition. Write NAME=VALUE.'),
    ],
)  # fmt: skip
def test_wrong_arguments_are_one_line(
    file: str, given: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["trace", *given]) == 1
    error = capsys.readouterr().err.strip().splitlines()[-1]
    assert said in error


def test_a_kernel_that_does_not_compile_is_named_with_its_own_line(
    file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path(file).write_text("\n\n" + SOURCE.replace("* by", "* z"), encoding="utf-8")
    assert main(["trace", file, *arguments(1)]) == 1
    assert (
        "scale.cu:5: the kernel does not compile: use of undeclared identifier 'z'" in capsys.readouterr().err
    )
