"""Whole CUDA files: kernels by their own names, host code left out, refusals that name every line."""

import numpy as np
import pytest

from tilewise import HazardError, Kernel
from tilewise.cuda.kernel_source import KernelError
from tilewise.cuda.launch_sites import launch_sites
from tilewise.cuda.top_level import host_pieces, pieces
from tilewise.simulator import CompileError, device_part

FILE = """#include <cstdio>
#include <vector>
#include <cuda_runtime.h>
#include "nowhere.h"
#define CHECK(call) do { if ((call) != cudaSuccess) { printf("failed\\n"); exit(1); } } while (0)
#define MAKE(name, op) __global__ void name(const float* x, float* y) { y[threadIdx.x] = op x[threadIdx.x]; }

const int N = 40;
std::vector<float> host(N);
static cudaStream_t stream;

namespace math {
__device__ float twice(float f) { return 2.0f * f; }

template <int FACTOR, typename T = float>
__global__ void __launch_bounds__(64) scale(const T* __restrict__ x, T* y, int n = N) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = FACTOR * twice(x[i]) / 2;
}
}  // namespace math

MAKE(negate, -)
MAKE(same, +)

#if 0
__global__ void dead(float* y) { this does not compile; }
#endif

__global__ void guarded(float* y, int n) {
    y[threadIdx.x] = n;
}

__global__ void textured(cudaTextureObject_t t, float* y) {
    y[0] = tex1D<float>(t, 0.5f);
}

struct Timer {
    std::string name;
    double stop() { cudaDeviceSynchronize(); return 0.0; }
};

template <typename T> T* to_device(const std::vector<T>& v) {
    T* p; CHECK(cudaMalloc(&p, v.size() * sizeof(T))); return p;
}

int main(int argc, char** argv) {
    Timer timer{"all"};
    float *x = to_device(host), *y;
    math::scale<3, float><<<(N + 31) / 32, 32>>>(x, y);
    guarded<<<1, N>>>(y, N);
    CHECK(cudaDeviceSynchronize());
    return 0;
}
"""
X = np.arange(40, dtype=np.float32)


def line_of(text: str) -> int:
    return 1 + FILE.split("\n").index(next(one for one in FILE.split("\n") if text in one))


def test_a_template_of_a_namespace_by_its_own_name():
    kernel, y = Kernel(FILE, name="math::scale<3, float>"), np.zeros(40, np.float32)
    run = kernel.simulate(X, y, 40, grid=2, block=32)
    assert (y == 3 * X).all()
    assert run.title == "math::scale<3, float><<<2, 32>>>"
    assert run.source == FILE.rstrip() + "\n"
    assert run.lines[line_of("if (i < n) y[i]")].global_store.lane_accesses == 40
    assert [(one.name, one.is_const, str(one.dtype)) for one in kernel.parameters] == [
        ("x", True, "float32"),
        ("y", False, "float32"),
        ("n", False, "int32"),
    ]
    assert kernel.function.max_threads == 64
    with pytest.raises(KernelError, match="65"):
        kernel.simulate(X, y, 40, grid=1, block=65)


def test_default_template_arguments_and_other_types():
    y = np.zeros(40, np.float32)
    Kernel(FILE, name="math::scale<5>").simulate(X, y, 40, grid=2, block=32)
    assert (y == 5 * X).all()
    whole = np.zeros(40, np.int32)
    Kernel(FILE, name="math::scale<2, int>").simulate(X.astype(np.int32), whole, 40, grid=2, block=32)
    assert (whole == 2 * np.arange(40)).all()


@pytest.mark.parametrize(("name", "sign"), [("negate", -1), ("same", 1)])
def test_kernels_that_macros_make(name, sign):
    y = np.zeros(40, np.float32)
    Kernel(FILE, name=name).simulate(X, y, grid=1, block=40)
    assert (y == sign * X).all()


def test_hazards_name_the_line_of_the_file():
    with pytest.raises(HazardError) as caught:
        Kernel(FILE, name="guarded").simulate(np.zeros(5, np.float32), 5, grid=1, block=32)
    assert caught.value.hazard.line == line_of("y[threadIdx.x] = n;")


def test_what_is_left_out_is_listed_and_what_is_asked_for_is_refused():
    left = Kernel(FILE, name="guarded").left_out
    assert [(one.line, one.what.split("(")[0]) for one in left] == [
        (line_of("nowhere.h"), '#include "nowhere.h"'),
        (line_of("textured"), "__global__ void textured"),
    ]
    with pytest.raises(CompileError, match=r"cudaTextureObject_t.*Textures and surfaces are not simulated"):
        Kernel(FILE, name="textured")


def test_the_kernels_of_a_file():
    part = device_part(FILE, None)
    assert [*part.kernels] == ["negate", "same", "guarded"]
    assert part.templates == {"scale": ("scale<3, float>",)}
    with pytest.raises(KernelError, match="several kernels: negate, same, guarded, scale"):
        Kernel(FILE)
    with pytest.raises(KernelError, match='no kernel "dead"'):
        Kernel(FILE, name="dead")


def test_everything_that_is_refused_is_said_at_once():
    body = "".join(f"    y[{at}] = {name};\n" for at, name in enumerate(("one", "two", "three")))
    source = f"__global__ void k(float* y) {{\n{body}}}\nint main() {{}}\n"
    with pytest.raises(CompileError) as caught:
        Kernel(source)
    assert all(one in str(caught.value) for one in ("'one'", "line 3", "'two'", "line 4", "'three'"))


def test_its_own_headers_are_found_beside_the_file(tmp_path):
    (tmp_path / "include").mkdir()
    half = "#pragma once\n#include <string>\nstd::string host();\n#define HALF 0.5f\n"
    (tmp_path / "include" / "half.h").write_text(half)
    (tmp_path / "kernels.cuh").write_text(
        '#include "half.h"\n\n__global__ void halve(float* y) {\n    y[threadIdx.x] *= HALF;\n}\n'
    )
    main = '#include "kernels.cuh"\n#include "half.h"\nint main() { halve<<<1, 1>>>(nullptr); }\n'
    y = np.ones(32, np.float32)
    kernel = Kernel(main, folder=tmp_path)
    run = kernel.simulate(y, grid=1, block=32)
    assert (y == 0.5).all()
    assert run.counts.global_store.requests == 1


@pytest.mark.parametrize("name", ["shift", None])
def test_a_hazard_in_a_header_has_the_headers_name_and_text(tmp_path, name):
    header = "// one\n// two\n__global__ void shift(float* y) {\n    y[threadIdx.x + 1] = 1;\n}\n"
    (tmp_path / "declared.cuh").write_text("__global__ void shift(float* y);\n")
    (tmp_path / "shift.cuh").write_text(header)
    included = '#include "declared.cuh"\n#include "shift.cuh"\n'
    main = f"{included}\n// a line of the file\nint main() {{ shift<<<1, 32>>>(nullptr); }}\n"
    kernel = Kernel(main, name, folder=tmp_path, origin=("main.cu", 1))
    with pytest.raises(HazardError, match=r"in `y\[threadIdx.x \+ 1\] = 1;`") as caught:
        kernel.simulate(np.zeros(32, np.float32), grid=1, block=32)
    assert (caught.value.path, caught.value.line) == ("shift.cuh", 4)
    assert caught.value.run.source == header


def test_lines_stay_true_behind_a_header_that_a_condition_leaves_out(tmp_path):
    (tmp_path / "timing.h").write_text("struct clock_of_hosts {};\n" * 9)
    source = """#ifdef TIMING
#include "timing.h"
#endif
/*
#include "timing.h"
*/
#include <string>
int load(std::string name);
__global__ void k(float* y) {
    y[threadIdx.x + 1] = 1;
}
int main() { return load("x"); }
"""
    y = np.zeros(32, np.float32)
    run = Kernel(source, folder=tmp_path).simulate(y, grid=1, block=32, hazards="collect")
    assert [(one.kind, one.line) for one in run.hazards] == [("out of bounds", 10)]
    assert y.tolist() == [0] + [1] * 31


def test_a_part_of_a_file_compiles_in_the_file_that_includes_it(tmp_path):
    (tmp_path / "part.cu").write_text("__global__ void k(real* y) { y[threadIdx.x] = 2; }\n")
    part, whole = tmp_path / "part.cu", tmp_path / "main.cu"
    with pytest.raises(CompileError, match="unknown type name 'real'"):
        Kernel(part.read_text(), folder=tmp_path, origin=(str(part), 1))
    (tmp_path / "middle.cu").write_text('\n\n#include "part.cu"\n__global__ void other(real* y) {}\n')
    whole.write_text('typedef float real;\n#include "middle.cu"\nint main() { k<<<2, 8>>>(y); }\n')
    made = device_part(part.read_text(), None, folder=tmp_path, origin=(str(part), 1))
    assert [*made.kernels] == ["k"]
    assert [one.config for one in launch_sites(made.whole)] == [("2", "8")]
    kernel = Kernel(part.read_text(), folder=tmp_path, origin=(str(part), 1))
    with pytest.raises(HazardError) as caught:
        kernel.simulate(np.zeros(31, np.float32), grid=1, block=32)
    assert caught.value.line == 1
    y = np.zeros(32, np.float32)
    Kernel(whole.read_text(), "k", folder=tmp_path, origin=(str(whole), 1)).simulate(y, grid=1, block=32)
    assert (y == 2).all()
    guarded = f"#ifdef HERE\n{part.read_text()}#endif\n"
    with pytest.raises(KernelError, match="no kernel"):
        device_part(guarded, None)
    part.write_text(guarded)
    whole.write_text(f"#define HERE\n{whole.read_text()}")
    assert [*device_part(guarded, None, folder=tmp_path, origin=(str(part), 1)).kernels] == ["k"]


def test_a_file_without_launches_has_those_of_a_file_nearby(tmp_path):
    (tmp_path / "kernels").mkdir()
    part = tmp_path / "kernels" / "part.cu"
    part.write_text("template <int N, bool B> __global__ void k(float* y) { y[threadIdx.x] = N + B; }\n")
    (tmp_path / "main.cu").write_text("int main() { k<8, true><<<3, 64>>>(y); }\n")
    made = device_part(part.read_text(), None, folder=part.parent, origin=(str(part), 1))
    assert made.templates == {"k": ("k<8, true>",)}
    assert [one.config for one in launch_sites(made.whole)] == [("3", "64")]


def test_arguments_of_a_template_that_takes_types_and_truth_values():
    source = "template <class T, bool B> __global__ void k(T* y) { y[threadIdx.x] = B; }\n"
    assert device_part(source, None).templates == {"k": ("k<float, true>",)}
    assert device_part(source.replace("bool", "int"), None).templates == {"k": ()}


def test_launch_bounds_are_those_of_the_template_arguments():
    source = """#define WARP 32
template <int A, int B> __global__ void __launch_bounds__(WARP * A * (B + 1), 1) k(float* y) {
    y[threadIdx.x] = A;
}"""
    kernel = Kernel(source, "k<2, 1>")
    assert kernel.function.max_threads == 128
    y = np.zeros(128, np.float32)
    kernel.simulate(y, grid=1, block=128)
    assert (y == 2).all()


@pytest.mark.parametrize(("prelude", "n"), [("", 64), ("#define LARGE\n", 512)])
def test_sizes_that_conditions_decide_are_those_that_are_compiled(prelude, n):
    source = """#ifdef LARGE
#define N 512
#else
#define N 64
#endif
__global__ void k(float* y, int n) { if (threadIdx.x < N) y[threadIdx.x] = n; }
int main() { int n = N; float* y; cudaMalloc(&y, N * sizeof(float)); k<<<1, N>>>(y, n); }
"""
    (site,) = launch_sites(device_part(source, None, prelude=prelude).whole)
    assert (site.passed(1, site.scope), site.bytes_of(0, site.scope)) == (n, 4 * n)


def test_a_pointer_to_pointers_says_what_to_do():
    with pytest.raises(KernelError, match=r"a pointer to pointers.*Take one array"):
        Kernel("__global__ void k(float** y) { y[0][0] = 1; }\nint main() {}\n")


def test_a_pointer_to_pointers_refuses_only_its_own_kernel():
    nested = """__global__ void rows(const float* const* __restrict__ x,
                     float* y) { y[0] = x[0][0]; }
"""
    part = device_part(FILE + nested, None)
    assert [*part.kernels] == ["negate", "same", "guarded"]
    (left,) = [one for one in part.left_out if "rows" in one.what]
    assert left.line == len(FILE.split("\n"))
    assert left.what == "__global__ void rows(const float* const* __restrict__ x, flo"
    assert left.reason == "x is const float *const *, a pointer to pointers, which a launch here cannot pass"
    y = np.zeros(40, np.float32)
    kernel = Kernel(FILE + nested, name="guarded")
    kernel.simulate(y, 7, grid=1, block=40)
    assert (y == 7).all()
    assert left in kernel.left_out
    with pytest.raises(KernelError, match=r'kernel "rows": x is .*a pointer to pointers.*Take one array'):
        Kernel(FILE + nested, name="rows")


def test_line_ends_and_marks_of_other_editors():
    source = "\ufeff" + FILE.replace("\n", "\r\n")
    y = np.zeros(40, np.float32)
    Kernel(source, name="guarded").simulate(y, 7, grid=1, block=40)
    assert (y == 7).all()


LOCKED = """#include "checks.h"
#include <iostream>
struct Lock {
    int* mutex;
    Lock(void) { int state = 0; check(cudaMalloc((void**)&mutex, sizeof(int)), __LINE__); use(&state); }
    ~Lock(void) { cudaFree(mutex); }
    void report(std::string name) const { std::cout << name << std::endl; }
    __device__ void lock() { while (atomicCAS(mutex, 0, 1) != 0) {} __threadfence(); }
    __device__ void unlock() { __threadfence(); atomicExch(mutex, 0); }
};
__global__ void total(Lock guard, const float* x, float* y) {
    if (threadIdx.x == 0) { guard.lock(); *y += x[blockIdx.x]; guard.unlock(); }
}
int main() { Lock lock; lock.report("all"); total<<<4, 32>>>(lock, nullptr, nullptr); }
"""


def test_host_members_and_the_host_functions_that_they_call(tmp_path):
    (tmp_path / "checks.h").write_text(
        "#include <pthread.h>\n"
        "static void check(cudaError_t error, int line) { if (error != cudaSuccess) exit(line); }\n"
        "__global__ void twice(float* y) { y[threadIdx.x] *= 2; }\n"
        "struct Thread { pthread_t id; };\n"
    )
    kernel = Kernel(LOCKED, name="total", folder=tmp_path)
    assert [one.ctype for one in kernel.parameters] == ["Lock", "const float*", "float*"]
    assert kernel.entry.parameters[0].size_bytes == 8
    y = np.ones(32, np.float32)
    run = Kernel(LOCKED, name="twice", folder=tmp_path).simulate(y, grid=1, block=32)
    assert (y == 2).all()
    assert run.lines[3].global_store.requests == 1, "the line of its own header"


def test_a_header_that_is_not_here_is_named_where_it_is_missed():
    source = '#include "sizes.h"\n__global__ void k(float* y) { y[threadIdx.x] = SCALE; }\nint main() {}\n'
    with pytest.raises(
        CompileError, match=r"'SCALE'.*includes \"sizes.h\", not found: put it beside the file"
    ):
        Kernel(source)
    many = "".join(f'#include "{name}.h"\n' for name in "abcde")
    with pytest.raises(CompileError, match=r'"a.h", "b.h", "c.h" and 2 more, not found: put them beside'):
        Kernel(many + source.partition("\n")[2])


@pytest.mark.parametrize("host", ["", "int main() {}\n"])
def test_a_linkage_that_is_glued_to_the_next_word(host):
    y = np.zeros(32, np.float32)
    source = f'{host}extern "C"__global__ void k(float* y) {{ y[threadIdx.x] = 3; }}\n'
    Kernel(source).simulate(y, grid=1, block=32)
    assert (y == 3).all()


def test_types_by_the_short_names_of_the_c_library():
    source = """int main() {}
__global__ void k(ulong* y, const uint n, ushort m, uchar b) { if (threadIdx.x < n) y[threadIdx.x] = m + b; }
"""
    made = Kernel(source)
    assert [str(one.dtype) for one in made.parameters] == ["uint64", "uint32", "uint16", "uint8"]
    y = np.zeros(32, np.uint64)
    made.simulate(y, 20, 70, 7, grid=1, block=32)
    assert y.tolist() == [77] * 20 + [0] * 12


def test_a_file_that_only_declares_a_kernel_has_none():
    source = "#include <iostream>\n__global__ void k(float* y);\nint main() { std::cout << 1; }\n"
    with pytest.raises(KernelError, match="the source has no kernel"):
        Kernel(source)


def test_template_arguments_that_only_the_host_names():
    source = """template <int N, typename T> __global__ void k(T* y) { y[threadIdx.x] = N; }
template <int ROWS> void run(float* y) { const int SIZE = ROWS * 16; k<SIZE, float><<<1, 32>>>(y); }
template <typename U> void any(U* y) { k<1, U><<<1, 32>>>(y); }
int main() { run<2>(nullptr); run<4>(nullptr); }
"""
    assert Kernel(source, name="k<64, float>").templates == {"k": ("k<32, float>", "k<64, float>")}


@pytest.mark.parametrize(("wide", "dtype"), [(0, "float32"), (1, "float64")])
def test_a_type_by_another_name_is_that_of_the_branch_compiled(wide, dtype):
    source = """#if WIDE
typedef double real;
#else
typedef float real;
#endif
#ifdef NOWHERE
using other = double;
#else
using other = int;
#endif
__global__ void k(real* y, other n) { y[threadIdx.x] = n; }
int main() {}
"""
    kernel = Kernel(source, defines={"WIDE": wide})
    assert [str(one.dtype) for one in kernel.parameters] == [dtype, "int32"]
    y = np.zeros(32, dtype)
    kernel.simulate(y, 3, grid=1, block=32)
    assert (y == 3).all()


TOP_LEVEL = """#include <vector>
struct A { int x; A() : x(1) {} };
enum Kind { ONE, TWO };
template <class T>
struct Box {
    T held[4];
    __device__ T sum() const { return held[0]; }
};
int count = 3;
const float PI = 3.0f;
static const int TABLE[] = {1, 2};
extern "C" {
__global__ void first(int* y) { y[0] = TABLE[0]; }
}
#ifdef WIDE
__global__ void second(long* y) {
#else
__global__ void second(int* y) {
#endif
    y[0] = ')';  // "unbalanced { in a string
}
inline int host_only(std::vector<int>& v) { return v.size(); }
auto lambda = [](int x) { return x; };
"""


def test_pieces_have_their_lines():
    found = {(one.first, one.last) for one in pieces(TOP_LEVEL)}
    assert found == {
        *((2, 2), (3, 3), (4, 8), (9, 9), (10, 10), (11, 11), (13, 13), (16, 21), (22, 22), (23, 23)),
    }
    assert [one.first for one in host_pieces(TOP_LEVEL, pieces(TOP_LEVEL))] == [9, 22]
