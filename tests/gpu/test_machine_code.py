"""Machine code read without a GPU: lines, loops, spills, and what is said where a tool is missing."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tilewise import kernels
from tilewise.gpu import compile_gate
from tilewise.gpu import machine_code as module
from tilewise.gpu.compile_gate import CompileGateError, compile_kernel
from tilewise.gpu.kernel import Kernel
from tilewise.gpu.kernel_source import KernelError
from tilewise.gpu.machine_code import available, listing, machine_code, machine_codes, side_by_side
from tilewise.outputs.listing import Beside
from tilewise.run import child, store

both = pytest.mark.skipif(available() is not None, reason=str(available()))

SCALE = Kernel(
    r"""
#include <cuda_fp16.h>
extern "C" __global__
void scale(const float* x, float* y, float a, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    // [multiply
    float v = a * x[i] + FAR;
    // multiply]
    y[i] = v / x[n - i];
}
extern "C" __global__ void other(float* y) { y[0] = 1.0f; }
""",
    "scale",
    defines={"FAR": "3.0f"},
)
LOOPS = Kernel(r"""
extern "C" __global__ void loops(const float* x, float* y, int n, int m) {
    #pragma unroll 1
    for (int j = 0; j < m; ++j) {
        float s = 0.0f;
        #pragma unroll 1
        for (int i = 0; i < n; ++i) s += x[i] * x[i + j];
        #pragma unroll 1
        for (int i = 0; i < n; ++i) s = s * x[i] + x[3 * i] / (x[5 * i] + x[7 * i]);
        y[j] = s;
    }
}
""")
KEPT = r"""
extern "C" __global__ void kept(const float* x, float* y) {
    float q[64];
    #pragma unroll
    for (int i = 0; i < 64; ++i) q[i] = x[i];
    __syncthreads();
    #pragma unroll
    for (int i = 0; i < 64; ++i) y[i] = q[i] + q[63 - i];
}
"""


def names(instructions: Any) -> list[str]:
    return [one.name.split(".")[0] for one in instructions]


@both
def test_each_instruction_comes_from_its_line_of_the_source() -> None:
    made = machine_code(SCALE)
    assert "FFMA" in names(made.from_line(7))
    assert "FFMA" not in names(made.from_line(4))
    assert "LDG" in names(made.from_line(9)) and "STG" in names(made.from_line(9))
    assert next(str(one) for one in made.instructions if one.name == "EXIT") == "@P0 EXIT"
    ptx = {line: [one.text for one in made.ptx if one.line == line] for line in (7, 9)}
    assert any(text.startswith("fma.rn") for text in ptx[7])
    assert any(text.startswith("div.") for text in ptx[9])


@both
def test_a_subroutine_of_the_compilers_own_comes_from_no_line() -> None:
    own = machine_code(SCALE).from_line(0)
    assert len(own) > 20 and "RET" in names(own)


@both
def test_what_follows_the_last_instruction_and_other_kernels_are_left_out() -> None:
    made = machine_code(SCALE.named("other"))
    assert names(made.instructions)[-2:] == ["STG", "EXIT"]
    assert len(made.instructions) < 12


@both
def test_line_numbers_change_nothing_that_the_compiler_reports() -> None:
    for kernel in (SCALE, LOOPS, kernels.sum_fp32):
        assert machine_code(kernel).resources == compile_kernel(kernel, ["sm_90"])[0]


@both
def test_the_longest_loop_without_another_is_found() -> None:
    made = machine_code(LOOPS)
    loop = made.loop()
    assert loop[-1].target in loop[0].labels
    assert names(loop).count("LDG") == 4, "the second inner loop has four loads, the outer has six"
    assert sum(one.target in loop[0].labels for one in loop) == 1


@both
def test_a_kernel_without_a_loop_says_so() -> None:
    with pytest.raises(CompileGateError, match='kernel "other" has no loop'):
        machine_code(SCALE.named("other")).loop()


@both
def test_a_region_shows_its_lines_alone() -> None:
    made = machine_code(SCALE)
    assert [row.line for row in made.beside("multiply").rows] == [7]
    assert [row.line for row in made.beside().rows] == [3, 4, 5, 7, 9, 10]
    assert made.beside("multiply").rows[0].source == "float v = a * x[i] + FAR;"
    assert isinstance(made.beside(), Beside)
    with pytest.raises(KernelError):
        made.beside("missing")


@both
def test_spills_are_loads_and_stores_of_local_memory() -> None:
    free, held = machine_codes([Kernel(KEPT), Kernel(KEPT, options=["--maxrregcount=32"])])
    assert not {"LDL", "STL"} & set(names(free.instructions))
    stored = [one for one in held.instructions if one.name.startswith("STL")]
    assert {"LDL", "STL"} <= set(names(held.instructions))
    sizes = [4 * int((one.name.split(".")[1:] or ["32"])[0]) // 32 for one in stored]
    assert sum(sizes) == held.resources.spill_store_bytes


@both
def test_a_kernels_own_architecture_goes_before() -> None:
    made = machine_code(kernels.matmul_bf16, "sm_90")
    assert made.resources.architecture == "sm_90a"
    assert "HGMMA" in names(made.loop())


@both
def test_registers_are_those_of_numbers_and_not_of_addresses() -> None:
    (load,) = [one for one in machine_code(SCALE).from_line(7) if one.name == "LDG.E"]
    assert len(load.registers()) == 1 and "[" in load.operands


@both
def test_a_listing_has_labels_on_lines_of_their_own() -> None:
    loop = machine_code(LOOPS).loop()
    first, second, *_ = listing(loop).content.splitlines()
    assert first == f"{loop[0].labels[0]}:"
    assert second.split()[0] == loop[0].name
    pair = side_by_side(loop[:1], loop[1:2], ("first", "second"))
    assert (pair.left.title, pair.right.title) == ("first", "second")
    assert pair.right.content.split()[0] in (loop[1].name, loop[1].predicate)
    assert machine_code(LOOPS).text() == machine_code(LOOPS).as_output().content


def test_without_nvdisasm_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "nvdisasm", lambda: None)
    assert available() == "nvdisasm is not here. Install it: pip install nvidia-cuda-nvdisasm."
    with pytest.raises(CompileGateError, match="pip install nvidia-cuda-nvdisasm"):
        machine_code(SCALE)


def test_without_the_wheel_the_one_on_the_path_is_taken(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(compile_gate, "wheel", lambda: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert module.nvdisasm() is None
    tool = tmp_path / "nvdisasm"
    tool.write_text("#!/bin/sh\nexit 3\n")
    tool.chmod(0o755)
    assert module.nvdisasm() == tool


@both
@pytest.mark.parametrize(
    ("says", "why"), [("release 9.1, V9", "nvdisasm 9.1 is older than"), ("", "no known")]
)
def test_a_tool_older_than_the_compiler_is_not_trusted(
    says: str, why: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tool = tmp_path / "nvdisasm"
    tool.write_text(f"#!/bin/sh\necho Cuda compilation tools, {says}\n")
    tool.chmod(0o755)
    monkeypatch.setattr(module, "nvdisasm", lambda: tool)
    said = available()
    assert said is not None and why in said and "pip install nvidia-cuda-nvdisasm" in said


@both
def test_a_tool_that_fails_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    tool = tmp_path / "nvdisasm"
    tool.write_text("#!/bin/sh\necho no such thing >&2\nexit 3\n")
    tool.chmod(0o755)
    monkeypatch.setattr(module, "nvdisasm", lambda: tool)
    with pytest.raises(CompileGateError, match='kernel "scale": nvdisasm fails: no such thing'):
        machine_code(SCALE)


def test_a_cell_may_need_either_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    assert child._is_there("nvdisasm") == (module.nvdisasm() is not None)
    assert child._is_there("nvrtc") == (compile_gate.available() is None)
    monkeypatch.setattr(module, "nvdisasm", lambda: None)
    monkeypatch.setattr(compile_gate, "available", lambda: "missing")
    assert not child._is_there("nvdisasm") and not child._is_there("nvrtc")


def test_a_kept_result_does_not_outlive_a_tool_that_its_cells_need(monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(*needs: str) -> Any:
        return SimpleNamespace(cells=[SimpleNamespace(needs=needs), SimpleNamespace(needs=("gpu",))])

    monkeypatch.setattr(store, "_version", lambda name: f"of {name}")
    assert store._tools(asked("nvrtc", "nvdisasm")) == [
        "nvdisasm of nvidia-cuda-nvdisasm",
        "nvrtc of nvidia-cuda-nvrtc",
    ]
    assert store._tools(asked("torch")) == []
