"""What a kernel's text says of the GPU it needs is what NVRTC says: not less, and not more."""

import pytest

from tilewise import Kernel
from tilewise.cuda.capability import HOSTED, named, needed
from tilewise.kernel import nvrtc
from tilewise.kernel.nvrtc import CompileGateError, compile_kernel

SHELL = 'extern "C" __global__ void k(float* a) { __shared__ __align__(16) float s[64]; BODY a[0] = s[0]; }'
ADDRESS = "unsigned at = (unsigned)__cvta_generic_to_shared(s);"
SPECIMENS = {
    "plain": ("s[threadIdx.x] = a[threadIdx.x]; __syncthreads();", (7, 5)),
    "a comment": ("s[0] = 1; // unlike cp.async.cg.shared.global\n", (7, 5)),
    "half matrix": (
        "unsigned c0, c1, z = 0; asm volatile("
        '"mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%0,%1}, {%2,%2}, {%2}, {%2,%2};"'
        ' : "=r"(c0), "=r"(c1) : "r"(z)); s[0] = c0 + c1;',
        (7, 5),
    ),
    "cp.async": (
        ADDRESS + 'asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(at), "l"(a));'
        ' asm volatile("cp.async.wait_all;");',
        (8, 0),
    ),
    "bf16 matrix": (
        "float c0, c1, c2, c3; unsigned z = 0; float f = 0; asm volatile("
        '"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%4,%4,%4}, {%4,%4},'
        ' {%5,%5,%5,%5};" : "=f"(c0), "=f"(c1), "=f"(c2), "=f"(c3) : "r"(z), "f"(f)); s[0] = c0 + c1 + c2;',
        (8, 0),
    ),
    "redux": ("s[0] = __reduce_add_sync(0xffffffffu, 1u);", (8, 0)),
    "mbarrier": (ADDRESS + 'asm volatile("mbarrier.init.shared.b64 [%0], 1;" :: "r"(at));', (8, 0)),
    "stmatrix": (
        ADDRESS + "unsigned z = 0;"
        ' asm volatile("stmatrix.sync.aligned.m8n8.x1.shared.b16 [%0], {%1};" :: "r"(at), "r"(z));',
        (9, 0),
    ),
}


@pytest.mark.parametrize("name", SPECIMENS)
def test_the_least_capability_is_the_first_that_the_compiler_takes(name):
    if reason := nvrtc.available():
        pytest.skip(reason)
    body, least = SPECIMENS[name]
    kernel = Kernel(SHELL.replace("BODY", body), name="k")
    assert needed(kernel.source, kernel.options) == least
    targets = nvrtc.architectures(kernel.source, kernel.options)
    compile_kernel(kernel, targets)
    refused = [name for name in nvrtc.ARCHITECTURES if name not in targets]
    for target in refused:
        with pytest.raises(CompileGateError):
            compile_kernel(kernel, [target])


def test_an_architecture_of_its_own_decides():
    assert needed("", ("-arch=sm_90a",)) == (9, 0)
    assert needed("", ("-arch=sm_100a",)) == (10, 0)
    assert named((9, 0)) == "compute capability 9.0 (Hopper)"
    assert HOSTED == (7, 5)
