"""What a file's text says of its own launches: template arguments, extents, arrays, made small together."""

import re

import pytest

from tilewise.cuda.host_values import _MOST_EVALUATIONS, Scope, scope_of
from tilewise.cuda.launch_sites import launch_sites

FILE = r"""
#include <cstdio>
#define TILE 16
#define CEIL_DIV(a, b) (((a) + (b) - 1) / (b))
constexpr int WARPS = 4;
struct Half {};

template <int ROWS, typename T>
__global__ void rows(T* y, int n) { y[blockIdx.x] = ROWS * TILE; }

__global__ void add(const float* a, const float* b, float* c, int n) {}
__global__ void blur(const float* x, float* y, int width, int height) {}

inline int twice(int n) { return n * 2; }

template <class T> void launch_any(T* y);
template <class T> void launch_any(T* y) { rows<1, T><<<1, 32>>>(y, 1); }

template <typename T, int K>
void launch_rows(T* y) {
    constexpr int kRows = K < 128 ? 4 : 8;
    rows<kRows, T><<<twice(WARPS), 32 * WARPS>>>(y, K);
}

int main() {
    const int N = 1 << 22;
    size_t bytes = N * sizeof(float);
    float *d_a, *d_b, *d_c;
    cudaMalloc((void**)&d_a, bytes); cudaMalloc(&d_b, bytes); cudaMalloc(&d_c, bytes);
    int threads = 256, blocks = (N + threads - 1) / threads;
    add << <blocks, threads >> >(d_a, d_b, d_c, N);
    int width = 640, height = 480;
    dim3 block(TILE, TILE);
    dim3 grid(CEIL_DIV(width, block.x), CEIL_DIV(height, block.y));
    printf("<<<%d>>>", width);
    blur<<<grid, block, TILE * TILE * sizeof(float), 0>>>(d_a, d_b, width, height);
    launch_rows<float, 64>(d_a);
    launch_rows<int, 256>(nullptr);
}
"""


def test_every_launch_of_a_file_with_what_the_text_says():
    found = {one.kernel + one.template: one for one in launch_sites(FILE)}
    assert [*found] == ["rows", "rows<4, float>", "rows<8, int>", "add", "blur"]
    rows = found["rows<8, int>"]
    assert rows.extents(rows.scope) == ((8,), (128,), 0)
    assert rows.passed(1, rows.scope) == 256
    blur = found["blur"]
    assert blur.extents(blur.scope) == ((40, 30), (16, 16), 1024)
    assert [blur.passed(at, blur.scope) for at in range(4)] == [None, None, 640, 480]


def test_sizes_become_small_together_and_the_block_stays():
    (add,) = [one for one in launch_sites(FILE) if one.kernel == "add"]
    assert add.extents(add.scope) == ((16384,), (256,), 0)
    small = add.small()
    grid, block, _ = add.extents(small)
    n = add.passed(3, small)
    assert 256 <= n <= 1 << 15
    assert grid == (n // 256,)
    assert block == (256,)
    assert [add.bytes_of(at, small) for at in range(3)] == [4 * n] * 3
    (moved,) = [
        one
        for one in launch_sites(FILE.replace("(d_a, d_b, d_c,", "(d_a + N, d_b, d_c,"))
        if one.kernel == "add"
    ]
    assert moved.bytes_of(0, moved.scope) == 4 << 22


def test_a_size_becomes_smaller_where_the_kernel_loops_to_it_but_not_below_a_block_at_once():
    source = """__global__ void k(float* y, int bodies, int rows) {}
int main() { int n = 1 << 13, rows = 300; float* y; cudaMalloc(&y, n * 4); k<<<n / 256, 256>>>(y, n, rows); }
"""
    (site,) = launch_sites(source)
    values = [[site.passed(at, site.small(loops)) for at in (1, 2)] for loops in (0, 1, 2)]
    assert values == [[1 << 13, 300], [1 << 11, 300], [256, 300]]


def test_three_sizes_of_a_volume_become_smaller_than_those_of_a_plane():
    source = """namespace config { constexpr int EDGE { 8 }; }
__global__ void k(float* y, int d, int h, int w) {}
void go(int d, int h, int w) {
    std::size_t bytes { d * h * w * sizeof(float) };
    cudaMalloc(&y, bytes);
    dim3 block(config::EDGE, config::EDGE, config::EDGE);
    dim3 grid((w + 7) / 8, (h + 7) / 8, (d + 7) / 8);
    k<<<grid, block>>>(y, d, h, w);
}
"""
    (site,) = launch_sites(source)
    small = site.small()
    assert site.extents(small) == ((2, 2, 2), (8, 8, 8), 0)
    assert site.bytes_of(0, small) == 4 * 16**3


def test_a_size_that_the_kernel_has_in_its_text_stays():
    source = """const int N = 1 << 20;
__global__ void k(float* y) { if (threadIdx.x < N) y[threadIdx.x] = N; }
int main() { float* y; cudaMalloc(&y, N * sizeof(float)); k<<<N / 256, 256>>>(y); }
"""
    (site,) = launch_sites(source)
    assert site.bytes_of(0, site.small()) == 4 << 20


def test_a_macro_stands_for_what_it_does_at_the_launch_and_commas_in_a_call_end_no_value():
    source = """#define LEAST(a, b) (a < b) ? a : b
__global__ void k(float* y, int n) {}
#define WIDE 512
void first(float* y, i32 n) {
    int threads = LEAST(WIDE, n), blocks = max(1, (n + 3) / 4);
    k<<<blocks, threads>>>(y, n);
}
#undef WIDE
#define WIDE 128
void second(float* y, i32 n) { int threads = LEAST(WIDE, n); k<<<1, threads>>>(y, n); }
"""
    first, second = launch_sites(source)
    assert first.extents(first.scope) == ((256,), (512,), 0)
    assert second.extents(second.scope) == ((1,), (128,), 0)
    assert not first.says(1, first.scope)


def test_extents_that_nothing_passes_a_function_are_assumed():
    source = """__global__ void k(float* y, int width, int height) {}
void go(const dim3& size) {
    float* y;
    cudaMalloc(&y, size.x * size.y * sizeof(float));
    k<<<dim3(size.x / 16, size.y / 16), dim3(16, 16)>>>(y, size.x, size.y);
}
"""
    (site,) = launch_sites(source)
    small = site.small()
    grid, block, _ = site.extents(small)
    assert (site.passed(1, small), site.passed(2, small), block) == (16 * grid[0], 16 * grid[1], (16, 16))
    assert site.bytes_of(0, small) == 4 * 16 * grid[0] * 16 * grid[1]
    assert not any(site.says(at, small) for at in range(3))


def test_sizes_that_one_statement_sets_together_are_all_known():
    source = """__global__ void k(float* y, int n, int m, int k) {}
int main() {
    int n, m, k;
    n = m = k = 2048;
    float* y; cudaMalloc(&y, n * m * 4);
    k<<<n / 32, 32>>>(y, n, m, k);
}
"""
    (site,) = launch_sites(source)
    assert [site.passed(at, site.scope) for at in (1, 2, 3)] == [2048] * 3
    small = site.small()
    rows = site.passed(1, small)
    assert rows < 2048
    assert [site.passed(at, small) for at in (2, 3)] == [rows] * 2
    assert site.extents(small)[0] == (rows // 32,)


def test_an_array_whose_size_is_related_to_the_launch_in_a_comment_only_stays_large_enough():
    source = """#define N 1000000
__global__ void k(float* y, int nx, int ny) {}
int main() {
    int nx = 1000, ny = 1000;  // N = nx * ny
    float* y; cudaMalloc(&y, N * sizeof(float));
    k<<<dim3((nx + 15) / 16, (ny + 15) / 16), dim3(16, 16)>>>(y, nx, ny);
}
"""
    (site,) = launch_sites(source)
    small = site.small()
    nx, ny = site.passed(1, small), site.passed(2, small)
    assert nx < 1000
    bytes_ = site.bytes_of(0, small)
    assert 4 * nx * ny <= bytes_ < 4 << 20


@pytest.mark.parametrize(
    "host",
    [
        "if (edge == 8) { k<8><<<4, block>>>(y); } else { k<16><<<4, block>>>(y); }",
        "if (edge == 8)\n        k<8><<<4, block>>>(y);\n    else if (edge == 16) k<16><<<4, block>>>(y);",
        "switch (edge) {\n case 8: k<8><<<4, block>>>(y); break;\n case 16: k<16><<<4, block>>>(y); break; }",
    ],
)
def test_a_launch_under_a_condition_has_the_value_that_the_condition_says(host):
    source = f"""template <int EDGE> __global__ void k(float* y) {{}}
int main() {{
    int edge = 16;
    dim3 block(edge, edge);
    {host}
}}
"""
    found = {one.template: one.extents(one.scope)[1] for one in launch_sites(source)}
    assert found == {"<8>": (8, 8), "<16>": (16, 16)}


def test_a_size_becomes_small_though_a_parameter_of_the_kernel_has_its_name():
    source = """const int N = 1 << 20;
__global__ void __launch_bounds__(32) k(float* y, const int N) { if (threadIdx.x < N) y[threadIdx.x] = N; }
int main() { float* y; cudaMalloc(&y, N * sizeof(float)); k<<<N / 32, 32>>>(y, N); }
"""
    (site,) = launch_sites(source)
    assert site.passed(1, site.small()) == 1 << 13


@pytest.mark.parametrize(
    ("loop", "value"),
    [
        ("int size = 0, rest = N; while (rest > 1) { size++; rest >>= 1; }", 9),
        ("int size = 1; while (size < N) size *= 2;", 1024),
        ("int size = 0; while ((1 << size) < N) { ++size; }", 10),
        ("int size = N; while (size % 32 != 0) size = size + 1;", 1024),
        ("int size = 1; while (size < N && size < 256) size <<= 1;", 256),
        ("int size = 1; while (size < 8 || size % 3) size += 1;", 9),
        ("int size = 1; while (size < N) { step(size); size *= 2; }", 1),  # it does more than calculate
        ("int size = 1; while (size > 0) size++;", None),  # as long as an int has room
    ],
)
def test_a_loop_that_only_calculates_has_a_value(loop, value):
    scope = scope_of("#define N 1000", loop)
    assert scope.value("size") == value
    assert scope.having({"N": 3}).value("N") == 3
    assert ("size" in scope.roots) == (value == 1)


@pytest.mark.parametrize("size", ["sizeof(d[0])", "sizeof(*d)", "sizeof *d", "sizeof(h[0])"])
def test_bytes_by_the_size_of_an_element(size):
    source = f"""__global__ void k(double* y, size_t n) {{}}
int main() {{
    size_t n = 8ULL * 1024UL * 1024;
    double *h, *d;
    cudaMalloc(&d, n * {size});
    k<<<n / 256, 256>>>(d, n);
}}
"""
    (site,) = launch_sites(source)
    assert site.bytes_of(0, site.scope) == 64 << 20
    small = site.passed(1, site.small())
    assert small < 1 << 14
    assert site.bytes_of(0, site.small()) == 8 * small


CALLED = """
int steps = 3;
__global__ void add(const float* a, float* c, int n, int k) {}
void timed(void (*kernel)(const float*, float*, int, int), float* A, float* C, int N, dim3 grid, int t) {
    kernel<<<grid, t>>>(A, C, N, steps);
}
void run(int N, int threads) {
    float *dA, *dC;
    cudaMallocManaged(&dA, N * N * sizeof(float)); cudaMalloc(&dC, N * sizeof(float));
    dim3 grid((N + threads - 1) / threads);
    timed(add, dA, dC, N, grid, threads);
}
"""


@pytest.mark.parametrize(
    ("host", "n", "threads"),
    [
        ("int main(int argc, char** argv) { int N = argc > 1 ? atoi(argv[1]) : 500; run(N, 64); }", 500, 64),
        (
            "int main(int argc, char** argv) { int n = 320; if (argc > 1) n = atoi(argv[1]); run(n, 32); }",
            320,
            32,
        ),
        ('int main() { int n; scanf("%d", &n); run(n, 128); }', 1024, 128),
        ("", 1024, 256),
    ],
)
def test_sizes_pass_through_the_calls_of_host_functions(host, n, threads):
    (site,) = launch_sites(CALLED + host)
    assert site.kernel == "add"
    assert site.extents(site.scope) == ((-(-n // threads),), (threads,), 0)
    assert [site.passed(at, site.scope) for at in (2, 3)] == [n, 3]
    assert [site.bytes_of(at, site.scope) for at in (0, 1)] == [4 * n * n, 4 * n]


def test_a_size_that_a_call_passes_becomes_small_though_the_kernel_has_its_name():
    source = """__global__ void k(float* y, int n) { y[threadIdx.x] = n; }
void run(int n) { float* y; cudaMalloc(&y, n * n * sizeof(float)); k<<<n / 32, 32>>>(y, n); }
int main() { run(4096); }
"""
    (site,) = launch_sites(source)
    assert (site.passed(1, site.scope), site.passed(1, site.small())) == (4096, 512)


def test_sizes_stay_where_the_launch_is_large_without_them():
    source = """__global__ void k(float* y) { y[threadIdx.x] = 1; }
int main() { int n = 36 * 128; float* y; cudaMalloc(&y, n * sizeof(float)); k<<<64, 1024>>>(y); }
"""
    (site,) = launch_sites(source)
    assert site.bytes_of(0, site.small()) == 4 * 36 * 128


def test_a_size_that_template_arguments_follow_from_stays():
    source = """template <int PER> __global__ void k(float* y, int n) {}
int main() {
    const int n = 1 << 22; float* y; cudaMalloc(&y, n * 4); const int per = n / 1024;
    k<per><<<n / per, 256>>>(y, n);
}"""
    (site,) = launch_sites(source)
    assert (site.template, site.passed(1, site.small())) == ("<4096>", 1 << 22)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("(N + 31) / 32", 4),
        ("ceil(N / 32.0)", 4),
        ("(int)ceil((float)N / 32)", 4),
        ("N > 64 ? 2 : 3", 2),
        ("(N < 64) ? ((N > 8) ? 2 : 3) : 4 * (N > 99 ? 5 : 6)", 20),
        ("min(N > 64 ? 7 : 8, N)", 7),
        ("N < 8 ? 2 : N < 64 ? 3 : (4)", 4),
        ("dim3(N, 2)", (100, 2)),
        ("sizeof(float) * N", 400),
        ("sizeof(DATA) * N", 800),
        ("std::min(N, 7u)", 7),
        ("-N % 7", -2),
        ("atoi(argv[1])", None),
        ("N / 0", None),
        ("self", None),
    ],
)
def test_values_of_expressions(text, value):
    assert (
        scope_of("#define N 100\n#define self self + 1\n#define DATA real\ntypedef double real;\n").value(
            text
        )
        == value
    )


def test_what_a_function_defines_hides_what_is_outside():
    scope = scope_of("const int n = 1;\n#define M 8\n", "int n = M * 4, m = n / 2;")
    assert (scope.value("n"), scope.value("m")) == (32, 16)
    assert scope.having({"n": 10}).value("m") == 5
    axes = scope_of("#define EDGE 8\n", "dim3 block; block.x = EDGE * 2; block.y = 4; p->x = 3;")
    assert axes.value("block") == (16, 4, 1)
    assert Scope({"a": "3", "b": "a"}).roots == {"a": 3}


@pytest.mark.parametrize(
    ("outside", "function", "text"),
    [
        ("", "int n = 3; while (n > 0) n *= n;", "n"),
        ("", "int n = 3; while (n > 0) n = n << n;", "n"),
        ("", " ".join(["int a0 = 1;", *(f"int a{i} = a{i - 1} + a{i - 1};" for i in range(1, 24))]), "a22"),
        ("\n".join(f"#define f{i}(x) (f{i - 1}(x) + f{i - 1}(x))" for i in range(1, 24)), "", "f22(1)"),
    ],
)
def test_values_that_would_not_end_are_given_up(outside, function, text):
    scope = scope_of("#define f0(x) x\n" + outside, function)
    assert scope.value(text) is None
    assert scope._spent[0] <= _MOST_EVALUATIONS + 1


@pytest.mark.parametrize(
    ("host", "blocks"),
    [
        ("int threads = 0, blocks = 0; threads = 4; blocks = 512 / threads;", 128),
        ("int threads = 4, blocks = 0; blocks = blocks + 1;", 0),
        ("int blocks(0); unsigned blocks = 0u; blocks = 3; blocks = 5;", 3),
        ("int blocks = 2; blocks = 3;", 2),
    ],
)
def test_a_number_that_is_declared_with_zero_is_what_it_is_given_first(host, blocks):
    assert scope_of("", host).value("blocks") == blocks


UNKNOWN = """
struct Image { int width, height; float* pixels; };
int total;
__global__ void k(const float* x, float* y, int n) {}
__global__ void blur(const float* x, float* y, int width, int height) {}
int main() {
    Image image = load();
    total = read_all().size();
    int rows = image_rows(image), sm_count;
    ask(&sm_count);
    float *d_x, *d_y[2];
    cudaMalloc(&d_x, total * sizeof(float));
    for (int i = 0; i < 2; i++) cudaMalloc(&d_y[i], 12);
    k<<<sm_count, 128>>>(d_x, d_y[1], total);
    cudaMalloc(&image.pixels, image.width * rows * sizeof(float));
    blur<<<dim3((image.width + 15) / 16, rows / 16), dim3(16, 16)>>>(image.pixels, d_y[0], image.width, rows);
}
"""


def test_whole_numbers_that_the_text_does_not_say_are_assumed_once_for_all_that_follows_from_them():
    k, blur = launch_sites(UNKNOWN)
    assert k.extents(k.scope) == ((8,), (128,), 0)
    assert [k.passed(2, k.scope), k.bytes_of(0, k.scope), k.bytes_of(1, k.scope)] == [1024, 4096, 12]
    assert [k.says(at, k.scope) for at in range(3)] == [False, True, False]
    assert [k.says_length(at, k.scope) for at in range(2)] == [True, True]
    assert blur.extents(blur.scope) == ((64, 64), (16, 16), 0)
    assert [blur.passed(at, blur.scope) for at in (2, 3)] == [1024, 1024]
    assert blur.bytes_of(0, blur.scope) == 4 << 20


def test_a_length_that_follows_from_a_size_of_its_own_is_not_said():
    text = UNKNOWN.replace("total * sizeof(float)", "capacity(4) * total + extra").replace(
        "int total", "int total, extra"
    )
    k, _ = launch_sites(text.replace("capacity(4)", "4"))
    assert k.bytes_of(0, k.scope) == 5 * 1024
    assert not k.says_length(0, k.scope)


def test_a_launch_made_small_keeps_its_blocks():
    text = """
const int ROWS = 1024, COLUMNS = 4096;
__global__ void k(float* x) { x[blockIdx.y * COLUMNS] = 1; }
int main() {
    float* x;
    cudaMalloc(&x, ROWS * COLUMNS * 4);
    k<<<dim3(COLUMNS / 32, ROWS / 32), dim3(32, 32)>>>(x);
}
"""
    (k,) = launch_sites(text)
    assert k.extents(k.small()) == ((128, 1), (32, 32), 0)


VECTORS = """
#include <thrust/device_vector.h>
__global__ void k(const float* x, float* y, float* z, int n) {}
int main() {
    const int N = 1000;
    float table[3][N], few[] = {1, 2, 3};
    std::vector<float> h_x(2 * N), other(h_x.begin(), h_x.end());
    thrust::device_vector<float> d_x = other, d_y(h_x.size() / 2);
    float *d_z, *d_few;
    cudaMalloc(&d_z, sizeof(table)); cudaMalloc(&d_few, sizeof(few) / sizeof(few[0]) * sizeof(float));
    k<<<4, 256>>>(thrust::raw_pointer_cast(d_x.data()), thrust::raw_pointer_cast(&d_y[0]), d_z, other.size());
    k<<<4, 256>>>(d_few, d_few, d_few, 3);
}
"""


def test_vectors_and_arrays_say_how_much_they_hold():
    vectors, few = launch_sites(VECTORS)
    assert [vectors.bytes_of(at, vectors.scope) for at in range(3)] == [8000, 4000, 12000]
    assert vectors.passed(3, vectors.scope) == 2000
    assert few.bytes_of(0, few.scope) == 12


def test_sizes_become_small_where_the_threads_are_said_to_be_many():
    (k,) = launch_sites("""
__global__ void k(float* x, size_t n) { for (size_t i = threadIdx.x; i < n; i += blockDim.x) x[i]++; }
const size_t count = 1ULL << 28;
int main() { float* x; cudaMalloc(&x, count * sizeof(float));
    k<<<256, 256>>>(x, count);
}""")
    small = k.small()
    assert k.extents(small) == ((256,), (256,), 0)
    assert k.bytes_of(0, small) == 4 * k.passed(1, small) == 1 << 20


HELPERS = """
__global__ void k(int* x, double* y, int n) {}
template <typename T> void get(T*& p, size_t count) {
    const size_t bytes = count * sizeof(T);
    cudaMalloc(&p, bytes);
}
void make(int** p, int rows, int columns = 4) { cudaMalloc((void**)p, rows * columns * sizeof(int)); }
int main() {
    int* d_x; double* d_y;
    make(&d_x, 10 + 6, 8);
    get(d_y, 50);
    k<<<1, 50>>>(d_x, d_y, 50);
}
"""


def test_a_function_that_allocates_for_a_pointer_says_how_long_its_array_is():
    (k,) = launch_sites(HELPERS)
    assert [k.bytes_of(at, k.scope) for at in range(2)] == [512, 400]


def test_many_sizes_that_nothing_says_become_smaller_than_those_of_the_file():
    file = """
__global__ void k(float* x, int n, int c, int h, int w) {}
int main(int argc, char** argv) {
    int n = atoi(argv[1]), c = atoi(argv[2]), h = atoi(argv[3]), w = -1;
    w = atoi(argv[4]);
    float* x;
    cudaMalloc(&x, n * c * h * w * sizeof(float));
    k<<<n, 64>>>(x, n, c, h, w);
}"""
    (k,) = launch_sites(file)
    assert k.passed(4, k.scope) == 1024
    assert k.bytes_of(0, k.small()) <= 1 << 20
    (k,) = launch_sites(re.sub(r"atoi\(argv\[.\]\)", "1024", file))
    assert k.bytes_of(0, k.small()) > 1 << 20


@pytest.mark.parametrize(
    ("lines", "bytes_"),
    [
        ("", 400),
        ("#define WIDE", 800),
        ("#ifndef GUARD_H\n#define GUARD_H\n#define WIDE\n#endif", 800),
        ("#define WIDE\n#undef WIDE", 400),
    ],
)
def test_a_condition_of_the_file_chooses_what_a_name_stands_for(lines, bytes_):
    text = f"""{lines}
#ifdef WIDE // as wide as can be
typedef double real;
#else
typedef float real;
#endif
#if 0
const int n = 1;
#elif defined(WIDE) || 1
const int n = 100;
#endif
__global__ void k(real* x) {{}}
int main() {{ real* x; cudaMalloc(&x, n * sizeof(real)); k<<<1, 100>>>(x); }}
"""
    (k,) = launch_sites(text)
    assert k.bytes_of(0, k.scope) == bytes_


@pytest.mark.parametrize(("last", "n"), [("1", 512), ("bits", 1 << 29)])
def test_a_power_of_two_becomes_small_unless_its_exponent_is_passed(last, n):
    (k,) = launch_sites(f"""
__global__ void k(float* x, size_t n, int bits) {{ for (size_t i = threadIdx.x; i < n; i++) x[i]++; }}
int main() {{
    int bits = 29;
    size_t n = 1UL << bits;
    k<<<64, 256>>>(allocated(n), n, {last});
}}""")
    assert k.passed(1, k.small(1)) == n


def test_a_size_that_bounds_the_block_from_above_becomes_small_too():
    (k,) = launch_sites("""
__global__ void k(float* x, int n) { if (threadIdx.x < n) x[threadIdx.x] = 1; }
int main() {
    int n = 1 << 24, most = 256;
    int threads = std::max(std::min(most, n), 1), blocks = (n + threads - 1) / threads;
    float* x;
    cudaMalloc(&x, n * sizeof(float));
    k<<<blocks, threads>>>(x, n);
}""")
    assert k.extents(k.small()) == ((32,), (256,), 0)
    assert k.bytes_of(0, k.small()) == 4 << 13
