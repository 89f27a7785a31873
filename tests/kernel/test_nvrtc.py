"""The compile gate: NVRTC without a GPU. The lessons' kernels go through it in hardware/test_resources."""

import pytest

from tilewise.kernel import nvrtc
from tilewise.kernel.kernel import Kernel
from tilewise.kernel.nvrtc import ARCHITECTURES, CompileGateError, compile_kernel, declared_spill, flags

pytestmark = pytest.mark.skipif(nvrtc.available() is not None, reason=str(nvrtc.available()))

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


def test_the_flags_are_cupys():
    assert flags(BARS.options, "sm_80") == ("--maxrregcount=24", "-std=c++17", "-ftz=true", "-arch=sm_80")
    assert flags(("-std=c++14", "-arch=sm_90a"), "sm_90a") == ("-std=c++14", "-ftz=true", "-arch=sm_90a")


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


@pytest.mark.parametrize(
    ("line", "needs"),
    [
        ('asm volatile("cp.async.commit_group;");', "sm_80"),
        ("x[0] = __reduce_add_sync(0xffffffffu, x[1]);", "sm_80"),
        ('asm volatile("cp.async.commit_group;"); asm volatile("fence.proxy.async;");', "sm_90"),
        ('asm volatile("cp.async.commit_group;"); x[0] = missing;', None),
        ("x[0] = missing;", None),
    ],
)
def test_what_an_architecture_lacks_is_told_from_what_is_wrong(line, needs):
    kernel = Kernel(f'extern "C" __global__ void lacking(int* x) {{ {line} }}')
    with pytest.raises(CompileGateError) as caught:
        compile_kernel(kernel, ["sm_75"])
    assert caught.value.needs == needs


def test_a_spill_is_declared_in_the_source():
    assert declared_spill(BARS.source) is None
    said = BARS.source.replace("float kept[64];", "float kept[64];  // spills: to show what it costs")
    assert declared_spill(said) == "to show what it costs"


def test_what_was_compiled_is_kept_for_the_next_process(tmp_path, monkeypatch):
    monkeypatch.setenv("TILEWISE_CACHE", str(tmp_path))
    found = compile_kernel(BARS, ["sm_90"])
    (file,) = (tmp_path / "nvrtc").iterdir()
    with monkeypatch.context() as patched:
        patched.setattr(nvrtc, "_compile", lambda *_: pytest.fail("compiled again"))
        assert compile_kernel(BARS, ["sm_90"]) == found
        for other in (lambda: compile_kernel(BARS, ["sm_80"]), lambda: compile_kernel(BARS, ["sm_90"], True)):
            with pytest.raises(pytest.fail.Exception):
                other()
    file.write_bytes(b"\x80")
    assert compile_kernel(BARS, ["sm_90"]) == found
