"""The way to a GPU, against a stand-in that records what CuPy would be asked."""

import numpy as np
import pytest

from tilewise.cuda.kernel_source import KernelError
from tilewise.gpu import cupy_backend
from tilewise.kernel.backend import backend
from tilewise.kernel.kernel import Kernel

SOURCE = r"""
extern "C" __global__ void add(const float* a, const float* b, float* c, int n, float by) {
    int i = threadIdx.x;
    if (i < n) c[i] = a[i] + b[i] * by;
}
"""
ADD = Kernel(SOURCE, options=("-std=c++17",), defines={"T": 4})


def floats(memory):
    return memory.reshape(-1).view(np.float32)


def add(a, b, c, n, by):
    floats(c)[:n] = floats(a)[:n] + floats(b)[:n] * by


def arrays(n=5):
    return np.arange(n, dtype=np.float32), np.ones(n, np.float32), np.full(n, np.nan, np.float32)


def test_a_gpu_is_used_where_there_is_one_and_said_once(cupy, capsys):
    assert (backend(), backend()) == ("gpu", "gpu")
    assert capsys.readouterr().err == "tilewise: kernels run on Stand-in GPU through CuPy.\n"


def test_numpy_arrays_are_copied_in_and_written_ones_back(cupy):
    cupy.body = add
    a, b, c = arrays()
    assert ADD(a, b, c, 4, 2, grid=(1, 2), block=32, shared_bytes=64) is None
    assert np.array_equal(c, np.array([2, 3, 4, 5, np.nan], np.float32), equal_nan=True)
    assert (a.tolist(), b.tolist()) == ([0, 1, 2, 3, 4], [1, 1, 1, 1, 1])
    assert cupy.launches == [
        {
            "name": "add",
            "grid": (1, 2, 1),
            "block": (32, 1, 1),
            "args": ["device uint8", "device uint8", "device uint8", "int32 int32", "float32 float32"],
            "shared_mem": 64,
        }
    ]


def test_one_array_passed_twice_is_one_array_on_the_device(cupy):
    def in_place(a, b, c, n, by):
        assert a is c
        floats(c)[:] = floats(a) + floats(b)

    cupy.body = in_place
    a, b, _ = arrays()
    ADD(a, b, a, 5, 1, grid=1, block=32)
    assert (cupy.copied_in, a.tolist()) == (2, [1, 2, 3, 4, 5])


def test_device_arrays_stay_where_they_are(cupy):
    cupy.body = lambda a, b, c, n, by: add(a.view(np.uint8), b.view(np.uint8), c.view(np.uint8), n, by)
    a, b, c = (cupy.asarray(one) for one in arrays())
    cupy.copied_in = 0
    ADD(a, b, c, 5, 1, grid=1, block=32)
    assert (cupy.copied_in, cupy.launches[0]["args"][2], c.memory.tolist()) == (
        0,
        "device float32",
        [1, 2, 3, 4, 5],
    )


def test_simulating_device_arrays_copies_them_to_the_host_and_back(cupy):
    a, b, c = (cupy.asarray(one) for one in arrays())
    ADD.simulate(a, b, c, 5, 1, grid=1, block=32)
    assert (cupy.launches, c.memory.tolist()) == ([], [1, 2, 3, 4, 5])


def test_a_kernel_is_compiled_once_with_its_prelude_defines_and_options(cupy):
    a, b, c = arrays()
    for _ in range(3):
        ADD(a, b, c, 5, 1, grid=1, block=32)
    code = cupy_backend.PRELUDE + "#define T 4\n#line 1\n" + SOURCE.lstrip("\n")
    assert cupy.made == [("RawKernel", (code, "add", ("-std=c++17",)))]


def test_hopper_kernels_and_several_in_one_source_go_through_one_module(cupy):
    two = Kernel(
        'extern "C" __global__ void f(float* y) {}\nextern "C" __global__ void g(float* y) {}\n', name="f"
    )
    hopper = Kernel('extern "C" __global__ void f(float* y) {}', options=("-arch=sm_90a",))
    y = np.zeros(1, np.float32)
    for kernel in (two, two.named("g"), two, hopper):
        kernel(y, grid=1, block=1)
    assert cupy.made == [
        ("RawModule", (two.gpu_source, ())),
        ("get_function", ("f",)),
        ("get_function", ("g",)),
        ("RawModule", (hopper.gpu_source, ("-arch=sm_90a",))),
        ("get_function", ("f",)),
    ]


def test_shared_memory_beyond_the_default_is_asked_for(cupy):
    a, b, c = arrays()
    ADD(a, b, c, 5, 1, grid=1, block=32, shared_bytes=47 * 1024)  # with the static part 48 KiB: the default
    ADD(a, b, c, 5, 1, grid=1, block=32, shared_bytes=48 * 1024)
    ADD(a, b, c, 5, 1, grid=1, block=32, shared_bytes=100_000)
    assert (cupy.shared_limits, [one["shared_mem"] for one in cupy.launches]) == (
        [101_376 - 1024] * 2,  # all that is left beside the static part
        [48_128, 49_152, 100_000],
    )
    with pytest.raises(KernelError) as caught:
        ADD(a, b, c, 5, 1, grid=1, block=32, shared_bytes=101_000)
    assert str(caught.value) == (
        'kernel "add": shared_bytes=101000 and 1024 bytes of __shared__ variables are more than the 101376 '
        "that a block can have. Use a smaller tile."
    )


def test_a_carveout_is_asked_of_the_driver_once_and_kept_from_the_compiler(cupy):
    text, y = 'extern "C" __global__ void f(float* y) {}', np.zeros(1, np.float32)
    small = Kernel(text, options=("-std=c++17", "--carveout=14"))
    large = Kernel(text, options=("-std=c++17", "--carveout=100"))
    for kernel in (small, large, small):
        kernel(y, grid=1, block=1)
    flags = ("-std=c++17",)
    assert cupy.carveouts == [14, 100]
    assert cupy.made == [
        ("RawKernel", (small.gpu_source + "// carveout 14\n", "f", flags)),
        ("RawKernel", (small.gpu_source + "// carveout 100\n", "f", flags)),
    ]
    assert small.fingerprint() != large.fingerprint()
    two = Kernel(text + text.replace(" f(", " g("), name="g", options=("--carveout=50",))
    two(y, grid=1, block=1)
    assert (cupy.carveouts[2:], cupy.made[2:]) == (
        [50],
        [("RawModule", (two.gpu_source + "// carveout 50\n", ())), ("get_function", ("g",))],
    )


def test_a_structure_passes_by_value_and_an_array_of_structures_as_bytes(cupy):
    kernel = Kernel('struct P { int a; float b; };\nextern "C" __global__ void f(P one, P* many) {}')
    kind = [("a", "i4"), ("b", "f4")]
    seen = []
    cupy.body = lambda one, many: seen.append((one.tobytes(), many.size))
    one, many = np.array([(1, 2.0)], kind), np.zeros(3, kind)
    kernel(one, many, grid=1, block=1)
    assert seen == [(one.tobytes(), 24)]
    assert cupy.launches[0]["args"] == [f"ndarray {one.dtype}", "device uint8"]


def test_a_source_that_does_not_compile_names_the_lessons_line(cupy):
    def refuse(*args):
        raise cupy.errors.compile('/tmp/x/1.cu(3): error: identifier "y" is undefined\n\n1 error detected')

    cupy.body = refuse
    with pytest.raises(KernelError) as caught:
        ADD(*arrays(), 5, 1, grid=1, block=32)
    assert str(caught.value) == (
        f'{__file__}:{ADD.origin[1] + 2}: kernel "add" does not compile: identifier "y" is undefined.'
    )


def test_a_kernel_that_fails_says_what_to_do_and_leaves_the_arrays(cupy):
    def fail(*args):
        raise cupy.errors.runtime("cudaErrorIllegalAddress: an illegal memory access was encountered")

    cupy.body = fail
    a, b, c = arrays()
    with pytest.raises(KernelError) as caught:
        ADD(a, b, c, 5, 1, grid=1, block=32)
    assert str(caught.value) == (
        'kernel "add" failed on the GPU: cudaErrorIllegalAddress: an illegal memory access was encountered. '
        "Run it with .simulate(...), which names the line and the thread."
    )
    assert np.isnan(c).all()


COUNTED = Kernel(
    "__device__ unsigned seen; __constant__ float taps[2];\n"
    'extern "C" __global__ void count(float* y) { seen += 1; y[0] = taps[seen % 2]; }'
)


def test_variables_are_read_and_set_in_the_module_that_is_launched(cupy):
    for symbol, size in (("seen", 4), ("taps", 8)):
        cupy.variables[symbol] = cupy.asarray(np.zeros(size, np.uint8))
    COUNTED(np.zeros(1, np.float32), grid=1, block=1)
    COUNTED.variables["seen"] = 5
    assert COUNTED.variables["seen"] == 5
    COUNTED.variables["taps"] = [0.5, 1.5]
    assert cupy.variables["taps"].memory.view(np.float32).tolist() == [0.5, 1.5]
    assert [what for what, _ in cupy.made] == ["RawModule", "get_function"]
    COUNTED.variables.reset()
    COUNTED(np.zeros(1, np.float32), grid=1, block=1)
    assert cupy.made[-2][0] == "RawModule" and cupy.made[-2][1][0].endswith("// loaded anew 1\n")


def test_a_variable_that_the_module_does_not_show(cupy):
    with pytest.raises(KernelError, match="gives no access to seen"):
        COUNTED.variables["seen"]
