"""The compile gate: NVRTC without a GPU, and every kernel of the lessons through it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tilewise.gpu import compile_gate
from tilewise.gpu.compile_gate import ARCHITECTURES, CompileGateError, Resources, compile_kernel, flags
from tilewise.gpu.kernel import Kernel

pytestmark = pytest.mark.skipif(compile_gate.available() is not None, reason=str(compile_gate.available()))

ROOT = Path(__file__).parents[2]
BARS = Kernel(
    r"""
extern "C" __global__ void bars(const float* x, float* y, int n) {
    __shared__ float tile[T];
    tile[threadIdx.x] = threadIdx.x < n ? x[threadIdx.x] : -INFINITY;
    __syncthreads();
    y[threadIdx.x] = tile[T - 1 - threadIdx.x] == NAN;
}
extern "C" __global__ void spilling(float* y) {
    float kept[64];
    for (int i = 0; i < 64; ++i) kept[i] = y[i];
    __syncthreads();
    for (int i = 0; i < 64; ++i) for (int j = 0; j < 64; ++j) y[i] += kept[(i + j) & 63] * kept[j];
}
""",
    name="bars",
    defines={"T": 64},
    options=("--maxrregcount=24",),
)


def test_a_kernel_is_compiled_for_every_architecture():
    found = compile_kernel(BARS)
    assert [one.architecture for one in found] == list(ARCHITECTURES)
    for one in found:
        assert (one.kernel, one.spills, one.shared_bytes, one.stack_bytes) == ("bars", False, 256, 0)
        assert 8 <= one.registers <= 24


def test_spills_are_seen():
    (found,) = compile_kernel(BARS.named("spilling"), ["sm_90"])
    assert found.spills
    assert (found.registers, found.shared_bytes) == (24, 0)


def test_a_kernel_that_names_its_architecture_is_compiled_for_that_alone():
    kernel = Kernel(
        'extern "C" __global__ void w() { asm volatile("wgmma.fence.sync.aligned;"); }',
        options=("-arch=sm_90a",),
    )
    assert [one.architecture for one in compile_kernel(kernel)] == ["sm_90a"]


def test_the_flags_are_cupys():
    assert flags(BARS, "sm_80") == ("--maxrregcount=24", "-std=c++17", "-ftz=true", "-arch=sm_80")
    own = Kernel(BARS.source, "bars", options=("-std=c++14", "-arch=sm_90a"))
    assert flags(own, "sm_90a") == ("-std=c++14", "-ftz=true", "-arch=sm_90a")


def test_an_error_names_the_lessons_own_line():
    broken = Kernel(
        r"""
extern "C" __global__ void broken(float* y) {
    y[0] = missing;
}
""",
        defines={"T": 1},
    )
    with pytest.raises(CompileGateError) as caught:
        compile_kernel(broken)
    assert str(caught.value) == (
        f'{__file__}:{broken.origin[1] + 1}: kernel "broken" does not compile for sm_75: '
        'identifier "missing" is undefined.'
    )


def value_of(node: ast.expr, texts: dict[str, ast.expr]) -> object:
    """The value of an argument that is a literal, or a name that the lesson gives one."""
    return ast.literal_eval(texts[node.id] if isinstance(node, ast.Name) else node)


def lesson_kernels() -> list[Kernel]:
    """Every `Kernel(...)` of the lessons, without running them; other arguments than literals fail here."""
    found = []
    for path in sorted((ROOT / "lessons").glob("*/*.py")):
        tree = ast.parse(path.read_text())
        texts = {
            node.targets[0].id: node.value
            for node in tree.body
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Kernel":
                given = [value_of(one, texts) for one in node.args]
                named = {one.arg: value_of(one.value, texts) for one in node.keywords}
                found.append(Kernel(*given, **named))
    return found


@pytest.mark.parametrize("kernel", lesson_kernels(), ids=lambda kernel: kernel.name)
def test_every_kernel_of_the_lessons_compiles_and_spills_nothing(kernel):
    found = compile_kernel(kernel)
    assert [one for one in found if one.spills] == []
    assert all(isinstance(one, Resources) and one.registers > 0 for one in found)
