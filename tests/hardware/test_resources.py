"""Every kernel of the course through NVIDIA's compiler, and the page that shows what each takes."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.conftest import Project
from tilewise.gpu import compile_gate
from tilewise.gpu.compile_gate import ARCHITECTURES, CompileGateError
from tilewise.gpu.kernel import Kernel
from tilewise.hardware import resources
from tilewise.hardware.collection import LESSONS, groups
from tilewise.hardware.lessons import noted
from tilewise.hardware.resources import faults, page_table, row, survey

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.skipif(compile_gate.available() is not None, reason=str(compile_gate.available()))

SPILLING = """\
extern "C" __global__ void spilling(float* y) {
    float kept[64];
    for (int i = 0; i < 64; ++i) kept[i] = y[i];
    __syncthreads();
    for (int i = 0; i < 64; ++i) for (int j = 0; j < 64; ++j) y[i] += kept[(i + j) & 63] * kept[j];
}
"""
LEAN = ("--maxrregcount=24",)


def test_every_kernel_of_the_lessons_compiles_and_spills_only_where_it_says() -> None:
    rows = survey(ROOT / "lessons")
    assert len(rows) == sum(map(len, noted(ROOT / "lessons").values())) > 15
    found = [fault for one in rows for fault in faults(one)]
    assert not found, "\n".join(found)
    for one in rows:
        least = max((target for target in one.taken.values()), key=lambda taken: taken.registers)
        assert 0 < least.registers <= 255


def test_every_specimen_compiles_for_what_has_its_instructions() -> None:
    once = {
        one.launch.kernel.fingerprint(): one.launch.kernel
        for title, group in groups().items()
        if title in ("Arithmetic", "Warps and asynchronous copies", "Matrix units") and title != LESSONS
        for one in group
    }
    for kernel in once.values():
        found = row("", kernel)
        assert found.needs in (("sm_90",) if kernel.name == "store_matrices" else ("", "sm_80")), kernel
        least = found.needs or ARCHITECTURES[0]
        assert list(found.taken) == list(ARCHITECTURES[ARCHITECTURES.index(least) :]), kernel
    assert "store_matrices" in {kernel.name for kernel in once.values()}


def test_a_spill_must_be_declared_and_a_declared_one_must_be() -> None:
    kernel = Kernel(SPILLING, options=LEAN)
    (fault,) = faults(row("part/one", kernel))
    assert "test_resources.py:" in fault and "spills registers on sm_75, sm_80" in fault
    said = Kernel(SPILLING.replace("[64];", "[64];  // spills: that is the point"), options=LEAN)
    assert faults(row("part/one", said)) == []
    (fault,) = faults(row("part/one", Kernel(said.source.replace("64", "4"))))
    assert 'says "// spills: that is the point" and spills nothing' in fault


def test_a_kernel_that_is_wrong_is_no_kernel_that_needs_more() -> None:
    wrong = Kernel('extern "C" __global__ void wrong(int* x) { x[0] = missing; }')
    with pytest.raises(CompileGateError, match="missing"):
        row("part/one", wrong)


def test_a_compilation_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TILEWISE_CACHE", str(tmp_path))
    kernel = Kernel('extern "C" __global__ void f(int* x) { asm volatile("cp.async.commit_group;"); }')
    first = row("part/one", kernel)
    monkeypatch.setattr(compile_gate, "compile_kernel", None)
    again = row("part/one", kernel)
    assert (again.taken, again.needs) == (first.taken, first.needs)
    assert first.needs == "sm_80" and list(first.taken) == list(ARCHITECTURES[1:])


TWO_KERNELS = (
    """\
# %%
from tilewise import Kernel

SPILLING = Kernel(r\'\'\'SOURCE\'\'\', options=("--maxrregcount=24",))
COPIES = Kernel(
    'extern "C" __global__ void copies(int* x) { asm volatile("cp.async.wait_all;"); x[0] = 1; }'
)
"""
).replace("SOURCE", SPILLING.replace("[64];", "[64];  // spills: to show it", 1))


def test_the_page_has_a_row_for_every_kernel(project: Project) -> None:
    project.lesson(TWO_KERNELS)
    text = page_table(project.root / "lessons")
    assert text.startswith("### part/one\n\n<div")
    cells = [re.sub(r"<[^>]*>", "", cell) for cell in re.findall(r"<td.*?</td>", text)]
    spilling, copies = cells[: len(cells) // 2], cells[len(cells) // 2 :]
    assert spilling[:2] == ["9", "spilling"] and spilling[4].startswith("24") and "spills" in spilling[4]
    assert copies[1] == "copies" and copies[4] == "–" and copies[5].isdigit()
    assert "bytes stored" in text and "to show it" in text and "needs sm_80" in text


def test_the_page_of_the_site_asks_for_the_table() -> None:
    text = (ROOT / "docs" / "what-the-kernels-take.md").read_text(encoding="utf-8")
    assert "{{ hardware.resources }}" in text
    assert "what-the-kernels-take.md" in (ROOT / "mkdocs.yml").read_text(encoding="utf-8")


def test_without_the_compiler_the_page_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compile_gate, "available", lambda: "The wheel nvidia-cuda-nvrtc is not installed.")
    assert page_table(ROOT / "lessons") == (
        "*The wheel nvidia-cuda-nvrtc is not installed. The table is made where it is.*"
    )


def test_a_kernel_that_compiles_nowhere_is_a_fault() -> None:
    found = resources.Row("part/one", Kernel(SPILLING), {}, "sm_130")
    assert "compiles for none of sm_75" in faults(found)[0]
    assert faults(replace(found, taken=row("part/one", Kernel(SPILLING)).taken)) == []
