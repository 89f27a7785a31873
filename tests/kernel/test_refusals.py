"""What the simulator does not take: each says what it is, where, and what one can do."""

from typing import Any

import numpy as np
import pytest

from tilewise import Kernel
from tilewise.cuda.kernel_source import KernelError
from tilewise.errors import LessonError

FUNCTIONS = (
    "typedef float (*F)(float);\n__device__ float square(float x) { return x * x; }\n"
    "__device__ float cube(float x) { return x * x * x; }\n"
)
HOLDER = np.dtype([("x", "u8"), ("n", "i4"), ("pad", "i4")])
FLOATS = np.zeros(64, np.float32)

REFUSED: dict[str, tuple[str, list[Any], int, str, str]] = {
    "texture object": (
        "__global__ void k(cudaTextureObject_t t, float* y) {\ny[0] = tex2D<float>(t, 0.5f, 1.0f); }",
        [1, FLOATS], 1, "cudaTextureObject_t", "read an array",
    ),
    "texture reference": (
        "texture<float, 2> t;\n__global__ void k(float* y) {\ny[0] = tex2D(t, 0.5f, 1.0f); }",
        [FLOATS], 3, "t", "Textures and surfaces are not simulated",
    ),
    "array of a length that only a run knows": (
        "__global__ void k(float* y, int n) {\nfloat held[n]; y[0] = held[0]; }",
        [FLOATS, 3], 2, "variable-length", "Make its size a constant",
    ),
    "surface": (
        "__global__ void k(cudaSurfaceObject_t s, float* y) {\nsurf2Dread(y, s, 4, 1); }",
        [1, FLOATS], 1, "cudaSurfaceObject_t", "read an array",
    ),
    "dynamic parallelism": (
        "__global__ void child(float* y) { y[0] = 1; }\n__global__ void k(float* y) {\nchild<<<1, 1>>>(y); }",
        [FLOATS], 3, "kernel launch from", "Launch both kernels from the host",
    ),
    "a table of functions": (
        FUNCTIONS
        + '__device__ F table[2] = {square, cube};\nextern "C" __global__ void k(float* y, int n) {\n'
        "y[0] = table[n](y[1]); }",
        [FLOATS, 1], 6, "pointer to a device function", "Choose the function with if or switch",
    ),
    "a local table of functions": (
        FUNCTIONS + 'extern "C" __global__ void k(float* y, int n) {\nF table[2] = {square, cube};\n'
        "y[0] = table[n](y[1]); }",
        [FLOATS, 1], 6, "pointer to a device function", "template parameter",
    ),
    "a virtual function": (
        "struct A { __device__ virtual float f(float x) { return x; } };\n"
        "struct B : A { __device__ float f(float x) override { return 2 * x; } };\n"
        'extern "C" __global__ void k(float* y, int n) {\nA a; B b; A* p = n ? &a : &b;\n'
        "y[0] = p->f(y[1]); }",
        [FLOATS, 1], 5, "virtual function", "Choose the function with if or switch",
    ),
    "a struct with pointers": (
        'struct P { float* x; int n; };\nextern "C" __global__ void k(P p, float* y) {\n'
        "y[0] = p.x[1] + p.n; }",
        [np.array([(1 << 45, 3, 0)], HOLDER), FLOATS], 3, "if p holds pointers", "",
    ),
    "an array of structs with pointers": (
        'struct P { float* x; int n; };\nextern "C" __global__ void k(const P* p, float* y) {\n'
        "y[0] = p->x[1] + p->n; }",
        [np.zeros(1, HOLDER), FLOATS], 3, "null", "",
    ),
    "new": (
        'extern "C" __global__ void k(float* y, int n) {\nfloat* a = new float[n];\n'
        "a[0] = y[1]; y[0] = a[n - 1]; }",
        [FLOATS, 4], 2, "allocates memory by itself", "Give it an array to work in",
    ),
    "malloc": (
        'extern "C" __global__ void k(float* y) {\nfloat* a = (float*)malloc(16);\ny[0] = a[0]; }',
        [FLOATS], 2, "malloc", "Give the kernel an array to work in",
    ),
    "waiting for a later block": (
        '__device__ volatile int flag;\nextern "C" __global__ void k(float* y) {\n'
        "if (blockIdx.x == 0)\nwhile (flag == 0);\nelse flag = 1;\ny[0] = 1; }",
        [FLOATS], 4, "the blocks after it have not begun", "cooperative launch",
    ),
    "a negative index of a local array": (
        'extern "C" __global__ void k(float* y, int n) {\n'
        "float a[4]; for (int i = 0; i < 4; ++i) a[i] = y[i];\n"
        "y[0] = a[n] + a[n + 1]; }",
        [FLOATS, -3], 3, "byte -12 of its local arrays, which have 16 bytes", "Guard the access",
    ),
    "recursion": (
        "__device__ __noinline__ int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }\n"
        'extern "C" __global__ void k(int* y) { y[0] = fib(y[1]); }',
        [np.zeros(4, np.int32)], 1, "fib calls itself", "Write it as a loop",
    ),
    "a function of another file": (
        'extern __device__ float other(float);\nextern "C" __global__ void k(float* y) {\n'
        "y[0] = other(y[1]); }",
        [FLOATS], 3, "calls other, which its source declares and does not define", "include the file",
    ),
    "a class of the host's": (
        "#include <vector>\n__global__ void k(std::vector<float> v, float* y) { y[0] = v[0]; }",
        [FLOATS, FLOATS], 2, "vector", "Pass pointers and numbers",
    ),
    "a function without a return": (
        "__device__ float halved(float x) {\n  x *= 0.5f;\n}\n"
        'extern "C" __global__ void k(float* y) { y[0] = halved(y[0]); }',
        [FLOATS], 3, "ends here is not void, and returns no value", "Return one, or make it void",
    ),
    "a function without a return, in a whole file": (
        "template <class T> __device__ T halved(T x) {\n  x *= 2;\n}\n"
        "__global__ void k(float* y) { y[0] = halved(y[0]); }\nint main() { k<<<1, 1>>>(nullptr); }",
        [FLOATS], 3, "ends here is not void, and returns no value", "Return one, or make it void",
    ),
    "a loop without an end, in a whole file": (
        "int main() { }\n__global__ void k(float* y) {\n  int i = 0;\n  while (i < 1) { }\n}",
        [FLOATS], 2, 'the compiler left nothing of the kernel "k"', "look for a loop that cannot end",
    ),
    "an unknown instruction": (
        'extern "C" __global__ void k(float* y) {\nasm volatile("foo.bar.f32 %0, %0;" : "+f"(y[0])); }',
        [FLOATS], 2, "foo.bar.f32", "Write it another way",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_refused_is_named_with_a_repair(what):
    source, arguments, line, says, repair = REFUSED[what]
    with pytest.raises(LessonError) as caught:
        kernel = Kernel(source, name="k", origin=("file.cu", 1))
        kernel.simulate(*arguments, grid=2, block=1, max_steps=20_000)
    error = caught.value
    assert (error.path, error.line) == ("file.cu", line), str(error)
    assert says in str(error) and repair in str(error)


def test_a_kernel_runs_whose_functions_return_on_some_paths_or_that_calls_none_without_a_return():
    source = """__device__ float halved(float x) { }
__device__ float sign(float x) {
    if (x > 0) return 1;
    else if (x <= 0) return -1;
}
__global__ void k(float* y) { y[0] = sign(y[0]); }
int main() { k<<<1, 1>>>(nullptr); }"""
    y = np.full(1, 3, np.float32)
    Kernel(source, name="k").simulate(y, grid=1, block=1)
    assert y[0] == 1


@pytest.mark.parametrize(
    ("source", "says"),
    [
        (
            "__global__ void k(float& x, float* y) { y[0] = x; }",
            '"x" is a reference, float &. Have the kernel',
        ),
        (
            "template <class F> __global__ void k(F f, float* y) { y[0] = f(2.0f); }\n"
            "int main() { k<<<1, 1>>>([] __device__ (float x) { return x; }, nullptr); }",
            "is a template. Say with which arguments",
        ),
    ],
)
def test_what_a_launch_cannot_pass(source, says):
    with pytest.raises(KernelError) as caught:
        Kernel(source, name="k").simulate(1.0, FLOATS, grid=1, block=1)
    assert says in str(caught.value)


def test_a_variable_may_begin_with_the_address_of_another():
    kernel = Kernel(
        "__device__ float values[4] = {1, 2, 3, 4};\n__device__ float* inner = values + 1;\n"
        'extern "C" __global__ void look(float* y) { y[0] = inner[1]; inner[2] = 9; y[1] = values[3]; }'
    )
    y = np.zeros(2, np.float32)
    kernel.variables.reset()
    kernel.simulate(y, grid=1, block=1)
    assert y.tolist() == [3, 9]
