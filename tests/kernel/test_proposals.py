"""A first launch: as the file makes it, else one that keeps what the kernel promises."""

from math import prod

import pytest

from tilewise import Kernel, case, normal
from tilewise.cuda.kernel_source import global_functions
from tilewise.kernel.access_patterns import inner_pointer
from tilewise.kernel.proposals import ProposedArray, ProposedNumber, proposal


@pytest.mark.parametrize("most", [8, 32, 128, 1024])
@pytest.mark.parametrize("axis", ["x", "y"])
def test_a_block_keeps_what_the_kernel_promises(most, axis):
    source = f"""extern "C" __global__ __launch_bounds__({most})
void k(float* y, int width, int height) {{ y[threadIdx.{axis}] = width * height; }}"""
    made = proposal(Kernel(source).function, source)
    assert 1 <= prod(made.block) <= most
    assert (made.block[1] > 1) is (axis == "y" and most > 16)
    assert [one.value for one in made.arguments if isinstance(one, ProposedNumber)] == [32, 32]


HOST = """
int main() {
    const int n = 1 << 22;
    float *x, *y;
    cudaMalloc(&x, n * sizeof(float)); cudaMalloc(&y, 64);
    k<<<(n + 127) / 128, 128>>>(x, y, n);
}"""
KERNEL = """__global__ void k(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i % 16] = x[i];
}"""


def test_the_files_own_launch_is_made_smaller_and_follows_its_sizes_where_it_can():
    text = KERNEL + HOST
    made = proposal(Kernel(text, "k").function, text)
    x, y, n = made.arguments
    assert n.value == 1 << 13
    assert (made.grid, made.block) == ((64, 1, 1), (128, 1, 1))
    assert made.grid_formulas[0] == "ceil_div(n, blockDim.x)"
    assert (x.length, y.length) == ("n", "16")


@pytest.mark.parametrize(
    ("host", "assumed"),
    [
        (HOST, ()),
        ("", ("grid", "block", "x", "y", "n")),
        (HOST.replace("n = 1 << 22", "n = atoi(argv[1])"), ("n",)),
        (
            HOST.replace("n * sizeof", "m * sizeof").replace("float *x", "int m = atoi(argv[2]); float *x"),
            ("x",),
        ),
        (HOST.replace("n = 1 << 22", "n = argc > 1 ? atoi(argv[1]) : 1024"), ()),
        (HOST.replace("int main()", "void run(int n)").replace("const int n = 1 << 22;", ""), ("n",)),
        (HOST.replace(", 128>>>", ", tuned()>>>"), ("block",)),
    ],
)
def test_what_the_text_does_not_say_is_known_to_be_assumed(host, assumed):
    text = KERNEL + host
    assert proposal(Kernel(text, "k").function, text).assumed == assumed


def test_places_and_dynamic_shared_memory_of_an_unknown_size_are_assumed():
    text = """__global__ void k(const int* at, float* y) {
    extern __shared__ float held[];
    y[threadIdx.x] = held[at[threadIdx.x]];
}
int main() {
    int *at; float* y;
    cudaMalloc(&at, 256); cudaMalloc(&y, 256);
    k<<<1, 64, amount()>>>(at, y);
}"""
    assert proposal(Kernel(text, "k").function, text).assumed == ("shared", "at.values")


def test_an_array_that_a_size_is_multiplied_into_has_its_square():
    text = """__global__ void sums(const float* a, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) for (int j = 0; j < n; j++) y[i] += a[i * n + j];
}"""
    made = proposal(Kernel(text).function, text)
    n = {one.name: one.value for one in made.arguments if isinstance(one, ProposedNumber)}["n"]
    assert {one.shape for one in made.arguments if not isinstance(one, ProposedNumber)} == {(n * n,)}
    assert prod(made.grid) * prod(made.block) >= n


PAIRS = """__device__ void up(float* held, int d, int step) {
    int tid = threadIdx.x;
    if (tid < d) held[step * (2 * tid + 2) - 1] += held[step * (2 * tid + 1) - 1];
}
__global__ void sums(float* y, const float* x, int n) {
    extern __shared__ float held[];
    int tid = threadIdx.x, step = 1;
    held[2 * tid] = x[2 * tid];
    held[2 * tid + 1] = x[2 * tid + 1];
    for (int d = n >> 1; d > 0; d >>= 1, step *= 2) {
        __syncthreads();
        up(held, d, step);
    }
    __syncthreads();
    y[2 * tid] = held[2 * tid];
    y[2 * tid + 1] = held[2 * tid + 1];
}"""
HALVES = """__global__ void moved(const float* x, float* y, int baseIndex) {
    int first = __mul24(blockIdx.x, (blockDim.x << 1)) + baseIndex + threadIdx.x, second = first + blockDim.x;
    y[first] = x[first];
    y[second] = x[second];
}
int main() { moved<<<4, 256>>>(given(), taken(), begun()); }"""
LOOP = """#define LOOP(i, n) \\
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x)
__global__ void k(float* y, int n) { LOOP(i, n) y[i] = 1; }"""


@pytest.mark.parametrize(
    ("text", "grid", "number"),
    [(PAIRS, 1, 2 * 256), (HALVES, 4, 0), (LOOP, 4, 1024)],
    ids=["pairs", "halves", "loop"],
)
def test_a_block_whose_threads_take_two_elements_each_has_them(text, grid, number):
    kernel = Kernel(text)
    made = proposal(kernel.function, text)
    (passed,) = [one.value for one in made.arguments if isinstance(one, ProposedNumber)]
    assert (made.grid, made.block, passed) == ((grid, 1, 1), (256, 1, 1), number)
    values = {
        one.name: one.value if isinstance(one, ProposedNumber) else normal(*one.shape)
        for one in made.arguments
    }
    assert not kernel.on(case(made.grid, made.block, made.shared_bytes, **values)).simulate("collect").hazards


@pytest.mark.parametrize("index", ["i * 3", "i << 2", "i + STEP"])
def test_an_array_that_a_kernel_indexes_by_products_and_constants_is_large(index):
    text = f"""#define STEP 20000
__global__ void k(float* y) {{ int i = threadIdx.x; y[{index}] = 1; }}"""
    (y,) = proposal(Kernel(text).function, text).arguments
    assert prod(y.shape) == 1 << 16


def test_an_array_of_a_plane_has_as_many_elements_for_each_thread_as_an_index_says():
    text = """__global__ void k(unsigned char* image, float* depth) {
    int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
    int at = x + y * blockDim.x * gridDim.x;
    image[at * 4 + 3] = 255;
    depth[at] = 1;
}"""
    made = proposal(Kernel(text).function, text)
    image, depth = made.arguments
    threads = prod(made.grid) * prod(made.block)
    assert (prod(image.shape), prod(depth.shape)) == (4 * threads, threads)


def test_an_array_of_a_plane_whose_width_is_a_constant_of_the_file_is_large():
    text = """const int width = 640;
__global__ void turned(const float* x, float* y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y;
    y[j + i * width] = x[i + j * width];
}"""
    made = proposal(Kernel(text).function, text)
    x, y = (one for one in made.arguments if not isinstance(one, ProposedNumber))
    assert min(prod(x.shape), prod(y.shape)) >= 640 * made.grid[0] * made.block[0]


@pytest.mark.parametrize(("copied", "fill"), [("", "zeros"), ("cudaMemcpy(seen, host, 4 * n, kind);", "")])
def test_an_array_that_the_host_fills_with_zeros_holds_zeros(copied, fill):
    text = f"""__global__ void k(const float* x, int* seen) {{ atomicAdd(&seen[int(x[threadIdx.x])], 1); }}
int main() {{
    const int n = 256;
    float* x; int* seen;
    cudaMalloc(&x, n * sizeof(float)); cudaMalloc(&seen, n * sizeof(int));
    cudaMemset(seen, 0, n * sizeof(int));
    {copied}
    k<<<1, n>>>(x, seen);
}}"""
    made = proposal(Kernel(text, "k").function, text)
    _, seen = made.arguments
    assert seen.fill == fill
    assert made.assumed == ()


def test_shared_memory_that_the_host_computes_is_as_much_as_it_may_ask_for():
    text = """__global__ void k(float* y) { extern __shared__ float s[]; s[threadIdx.x] = 1; y[0] = s[0]; }
int main(int argc, char** argv) {
    cudaFuncSetAttribute(k, cudaFuncAttributeMaxDynamicSharedMemorySize, wanted());
    k<<<1, 32, wanted()>>>(y);
}"""
    assert proposal(Kernel(text, "k").function, text).shared_bytes == 232_448


@pytest.mark.parametrize(
    ("declared", "asked"),
    [
        ("extern __shared__ float s[];", True),
        ("__shared__ extern float s[];", True),
        ("__shared__ float s[32];", False),
    ],
)
def test_shared_memory_of_a_function_or_of_the_whole_file_is_proposed(declared, asked):
    text = f"""{declared}
__global__ void k(float* y) {{ s[threadIdx.x] = 1; y[threadIdx.x] = s[threadIdx.x]; }}"""
    assert proposal(Kernel(text).function, text).shared_bytes == (16_384 if asked else 0)


def test_a_size_of_which_nothing_is_known_does_not_follow_from_a_grid_that_is_not_taken():
    text = """#define BLOCKS 4000
__global__ void k(float* y, int n) { for (int i = threadIdx.x; i < n; i += BLOCKS) y[i % 8] = n; }
int main() { k<<<BLOCKS, 256>>>(y, lengths[0]); }"""
    made = proposal(Kernel(text, "k").function, text)
    assert [one.value for one in made.arguments if isinstance(one, ProposedNumber)] == [1024]
    assert prod(made.grid) <= 256


INDEXED = """
__global__ void k(const int* first, const int* item, int* label, char* key, int* count, float* y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int own = label[i];
    for (int j = first[i]; j < first[i + 1]; j++) y[i] += item[j];
    atomicAdd(&count[own], 1); atomicAdd(&count[key[i]], 1);
}
int main() {
    for (int i = 0; i < 256; i++) h_key[i] = (char)(rand() % 5);
    cudaMalloc(&count, 7 * sizeof(int));
    cudaMemcpy(key, h_key, 256, cudaMemcpyHostToDevice);
    k<<<1, 256>>>(first, item, label, key, count, y);
}"""


def test_arrays_of_places_hold_places_that_there_are():
    made = proposal(Kernel(INDEXED, "k").function, INDEXED)
    fills = {one.name: one.fill for one in made.arguments if isinstance(one, ProposedArray)}
    assert fills == {"first": "arange", "item": "", "label": "0..7", "key": "0..5", "count": "", "y": ""}
    text = INDEXED.replace("(char)(rand() % 5)", "'a' + (rand() % 5)")
    assert [
        one.fill for one in proposal(Kernel(text, "k").function, text).arguments if one.name == "key"
    ] == [""]


def test_structs_hold_zeros_and_a_row_of_threads_has_as_many_as_are_promised():
    text = """struct Node { int next; float x; };
__global__ void __launch_bounds__(96) k(Node* p, float* y) {
    int i = blockIdx.y * 96 + threadIdx.x; y[i] = p[p[i].next].x;
}"""
    made = proposal(Kernel(text).function, text)
    assert made.block == (96, 1, 1)
    assert [one.is_struct for one in made.arguments if isinstance(one, ProposedArray)] == [True, False]


def test_a_kernel_with_tiles_in_its_template_has_room_for_them():
    text = """template <int TILE> __global__ void k(float* y, int rows, int cols) {
    y[(blockIdx.y * TILE + threadIdx.x) * cols] = rows;
}"""
    y, rows, cols = proposal(Kernel(text, "k<64>").function, text).arguments
    assert (rows.value, cols.value, prod(y.shape)) == (128, 128, 1 << 16)


@pytest.mark.parametrize(
    ("types", "parameter", "use", "said"),
    [
        ("struct Grid { int width; float* cells; };", "Grid g", "g.cells[0]", "g is Grid, whose cells"),
        ("typedef struct { int width; float *cells; } Grid;", "Grid* g", "g->cells[0]", "g is Grid*, whose"),
        ("struct Node { int key; Node* next; };", "const Node* at", "at[1].next->key", "at is const Node*"),
        (
            "class Text { public: char* data; }; struct Item { int n; Text name; };",
            "Item* one",
            "one->name.data[0]",
            "one is Item*, whose name holds a pointer",
        ),
        ("struct Grid { int width; float* cells; };", "Grid g", "g.width", ""),  # the pointer is not followed
        ("struct Grid { int n; __device__ int* no(int* x) { return x; } };", "Grid g", "g.n", ""),
        ("", "float* x", "x[0]", ""),
    ],
)
def test_a_pointer_in_a_structure_is_named_where_a_kernel_follows_it(types, parameter, use, said):
    text = (
        f"{types}\n__global__ void k({parameter}, float* y) {{ y[threadIdx.x] = {use}; }}\nint main() {{}}\n"
    )
    found = inner_pointer(Kernel(text).function, text)
    assert found.startswith(said)
    assert bool(found) == bool(said)


@pytest.mark.parametrize(
    ("body", "leads"),
    [
        ("b[i] += a[i];", False),
        ("atomicAdd(&b[i], a[i]);", False),
        ("__shared__ int s[32]; s[i] = a[i]; __syncthreads(); if (i < 16) b[i] = s[i] + s[i + 16];", False),
        ("for (int j = 0; j < n; j++) b[i] += a[j];", False),
        ("for (int s = 16; s > 0; s /= 2) { if (i < s) b[i] += a[i + s]; }", False),
        ("b[a[i]] = 1;", True),
        ("atomicAdd(&b[2 * a[i]], 1);", True),
        ("int j = a[i]; b[2 * j] = 1;", True),
        ("int end = a[i]; for (int j = 0; j < end; j++) b[i] += j;", True),
        ("__shared__ int s[32]; s[i] = a[i]; if (s[0] > 3) b[i] = 1;", True),
    ],
)
def test_what_an_array_holds_is_assumed_where_the_kernel_goes_by_it(body, leads):
    text = f"""__global__ void k(const int* a, int* b, int n) {{ int i = threadIdx.x; {body} }}
int main() {{
    int *a, *b;
    cudaMalloc(&a, 256); cudaMalloc(&b, 256); cudaMemset(b, 0, 256);
    k<<<1, 32>>>(a, b, 8);
}}"""
    assert proposal(Kernel(text, "k").function, text).assumed == (("a.values",) if leads else ())


def test_a_number_named_after_the_block_is_its_threads():
    text = (
        "__global__ void k(float* x, int n, int BLOCK_SIZE) { x[blockIdx.x * BLOCK_SIZE + threadIdx.x] = n; }"
    )
    made = proposal(Kernel(text, "k").function, text)
    values = {one.name: one.value for one in made.arguments if isinstance(one, ProposedNumber)}
    assert values["BLOCK_SIZE"] == made.block[0] == 256


@pytest.mark.parametrize(
    ("declared", "body", "block"),
    [
        ("float s[EDGE][EDGE + 1]", "s[threadIdx.y][threadIdx.x] = x[0];", (32, 32)),
        (
            "float s[EDGE][EDGE + 1]",
            "for (int j = 0; j < EDGE; j += ROWS) s[threadIdx.y + j][threadIdx.x] = x[j];",
            (32, 8),
        ),
        ("float s[4][72]", "int i = threadIdx.x; int c = i + 4, r = threadIdx.y; s[r][c] = x[0];", (64, 4)),
        ("float s[2 * EDGE + 2]", "int t = threadIdx.x; s[t + 1] = x[0];", (64, 1)),
        ("float s[128][8]", "int t = threadIdx.y; s[t / 8][t % 8] = x[0];", (16, 16)),
        ("float s[n][8]", "s[threadIdx.y][threadIdx.x] = x[0];", (16, 16)),
    ],
)
def test_a_block_that_nothing_says_fills_the_shared_array(declared, body, block):
    text = f"""#define EDGE 32
const int ROWS = 8;
extern "C" __global__ void k(float* x) {{
    __shared__ {declared};
    {body}
    x[threadIdx.x] = s[0];
}}"""
    (function,) = global_functions(text)
    assert proposal(function, text).block[:2] == block
