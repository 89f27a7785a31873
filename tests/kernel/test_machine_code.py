"""Machine code read without a GPU: lines, loops, spills, and what is said where a tool is missing."""

from typing import Any

import pytest

from tilewise import kernels
from tilewise.kernel import machine_code as module
from tilewise.kernel.kernel import Kernel
from tilewise.kernel.machine_code import available, machine_code
from tilewise.kernel.nvrtc import CompileGateError

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


def names(instructions: Any) -> list[str]:
    return [one.name.split(".")[0] for one in instructions]


@both
def test_each_instruction_comes_from_its_line_of_the_source():
    made = machine_code(SCALE)
    assert "FFMA" in names(made.from_line(7))
    assert "FFMA" not in names(made.from_line(4))
    assert "LDG" in names(made.from_line(9)) and "STG" in names(made.from_line(9))
    assert next(str(one) for one in made.instructions if one.name == "EXIT") == "@P0 EXIT"
    ptx = {line: [one.text for one in made.ptx if one.line == line] for line in (7, 9)}
    assert any(text.startswith("fma.rn") for text in ptx[7])
    assert any(text.startswith("div.") for text in ptx[9])


@both
def test_what_follows_the_last_instruction_and_other_kernels_are_left_out():
    made = machine_code(SCALE.named("other"))
    assert names(made.instructions)[-2:] == ["STG", "EXIT"]
    assert len(made.instructions) < 12


@both
def test_the_longest_loop_without_another_is_found():
    made = machine_code(LOOPS)
    loop = made.loop()
    assert loop[-1].target in loop[0].labels
    assert names(loop).count("LDG") == 4, "the second inner loop has four loads, the outer has six"
    assert sum(one.target in loop[0].labels for one in loop) == 1


@both
def test_a_kernels_own_architecture_goes_before():
    made = machine_code(kernels.matmul_bf16, "sm_90")
    assert made.resources.architecture == "sm_90a"
    assert "HGMMA" in names(made.loop())


def test_without_nvdisasm_it_says_what_to_install(monkeypatch):
    monkeypatch.setattr(module, "nvdisasm", lambda: None)
    assert available() == "nvdisasm is not here. Install it: pip install nvidia-cuda-nvdisasm."
    with pytest.raises(CompileGateError, match="pip install nvidia-cuda-nvdisasm"):
        machine_code(SCALE)


@both
@pytest.mark.parametrize(
    ("says", "why"), [("release 9.1, V9", "nvdisasm 9.1 is older than"), ("", "no known")]
)
def test_a_tool_older_than_the_compiler_is_not_trusted(says, why, monkeypatch, tmp_path):
    tool = tmp_path / "nvdisasm"
    tool.write_text(f"#!/bin/sh\necho Cuda compilation tools, {says}\n")
    tool.chmod(0o755)
    monkeypatch.setattr(module, "nvdisasm", lambda: tool)
    said = available()
    assert said is not None and why in said and "pip install nvidia-cuda-nvdisasm" in said
