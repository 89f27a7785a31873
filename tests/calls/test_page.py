"""The page *Use the kernels*: its examples run, in order, and its table names what the functions choose."""

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tilewise import kernels
from tilewise.kernels.calls.launching import GENERAL
from tilewise.kernels.published import PUBLISHED

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "reference" / "use-the-kernels.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S)


def needs(example: str) -> str | None:
    """The package that an example imports and that is not here."""
    named = re.findall(r"^import (cupy|torch)", example, re.M)
    return next((one for one in named if find_spec(one) is None), None)


def test_every_example_runs_and_prints_what_is_expected(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TILEWISE_LESSONS", str(ROOT / "lessons"))
    scope: dict = {}
    printed = []
    for example in EXAMPLES:
        if needs(example) is None:
            exec(compile(example, "use-the-kernels.md", "exec"), scope)
            printed.append(capsys.readouterr().out)
    assert printed[0] == "(3, 1001) [1. 1. 1.]\n"
    assert printed[1] == "True\n"
    assert "attention_hopper" in printed[2]
    assert (tmp_path / "softmax_online.cu").read_text() == kernels.source("softmax_online")
    assert printed[-1].startswith('softmax: "x" runs backwards along axis 0')
    assert "False" not in "".join(printed)


@pytest.mark.parametrize("package", ["cupy", "torch"])
def test_examples_of_a_package_are_on_the_page(package):
    assert any(f"import {package}" in one for one in EXAMPLES)


def test_the_table_names_every_general_kernel_and_lesson_of_a_function():
    files = set(re.findall(r"`general/(\w+)\.cu`", PAGE))
    assert files == {path.stem for path in GENERAL.glob("*.cu")}
    functions = set(re.findall(r"^\| `(\w+)`", PAGE, re.M))
    assert functions == {*kernels._FUNCTIONS} - {"explain", "scaled_dot_product_attention"}
    lessons = {entry.lesson for name, entry in PUBLISHED.items() if name != "pad_both_16bit"}
    assert set(re.findall(r"\.\./lessons/([\w/]+)\.py", PAGE)) == lessons


def test_importing_the_package_loads_nothing_heavy():
    code = (
        "import sys, tilewise, tilewise.kernels\n"
        "heavy = {'cupy', 'torch', 'plotly', 'mkdocs', 'tilewise.simulator', 'tilewise.measurements', "
        "'tilewise.models', 'tilewise.kernels.calls'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_every_function_has_its_name_and_a_docstring():
    for name in kernels._FUNCTIONS:
        assert name in kernels.__all__
        assert getattr(kernels, name).__doc__
    assert set(kernels.__all__) <= set(dir(kernels))
