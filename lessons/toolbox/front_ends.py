# ---
# title: "CUDA C, Numba, Triton and PyTorch: one kernel, many front ends"
# needs: [toolbox/machine_code, memory/fusion, memory/reductions, matmul/register_tiles]
# summary: "We write one addition in five ways. On the GPU, all five are almost equally fast. How far apart are their launch costs on the host?"
# description: "Vector addition, softmax and a GEMM in CUDA C, Numba, Triton and PyTorch: what each leaves to the compiler, the SASS that comes out, and the launch overhead."
# date: 2026-11-21
# tags: [Numba, Triton, PyTorch, NVRTC, SASS]
# ---

# %% [markdown]
# You can write a GPU kernel in CUDA C, in Numba or in Triton, or leave it to PyTorch. Which one is fastest? The figure
# shows five versions of an addition of 2²⁶ elements.
#
# But the host has to launch the kernel first. How much work that takes depends on the front end. How much more does the
# most expensive launch cost than the cheapest?

# %% fold="Imports"
import re
from importlib.util import find_spec

import numpy as np

from tilewise import Guess, Table, ceil_div, gpu_here, measure, parallel, publish, show, tiles
from tilewise.figures import bars
from tilewise.frameworks import cuda, tl, torch, triton
from tilewise.measurements import Numbers, medians_us, printed, recorded
from tilewise.measurements.slugs import name_slug

MANY, PIECE, PIECES = 2**26, 2**12, 256
SIZE = 1024  # elements of a program instance

# %% fold="Code of the figure"
HOOK = {
    label: recorded(f"front_ends.{name_slug(label)}.n_{MANY}.median")
    for label in ("CUDA C", "Numba", "Triton", "torch.add", "torch.compile")
}
HOOK = {label: us for label, us in HOOK.items() if np.isfinite(us)}
if HOOK:
    assert max(HOOK.values()) < 1.35 * min(HOOK.values()), "the title says nearly"
    show(
        bars(
            HOOK,
            x="time on the GPU [µs]",
            form=".0f",
            title="One addition in five front ends: nearly the same time on the GPU",
            caption="Adding two vectors of 2²⁶ floats on an {machine}.",
        )
    )

# %% [markdown]
# ## Thread, block or array: the unit you program
#
# A *front end* is the part of a compiler that reads your source code. The tabs show [vector
# addition](../kernels/first_kernel.py) in CUDA C, Numba, Triton and PyTorch; the fifth version is PyTorch's line,
# compiled by `torch.compile`. They differ in the unit that you program:
#
# - **CUDA C and Numba: one thread.** `i` is one index.
# - **Triton: one block**, which it calls a *program instance* ([Tillet, Kung and
#   Cox](https://www.eecs.harvard.edu/~htk/publication/2019-mapl-tillet-kung-cox.pdf)). `i` is a range of `SIZE` =
#   1,024 indices. No line says which thread handles which element.
# - **PyTorch: whole arrays.** You only say what to compute.
#
# ??? definition "Front end | front ends"
#     The part of a compiler that reads a language: its words and rules, before anything specific to a machine.


# %% tab="Pseudocode"
def vec_add(a, b, c):
    for i in parallel(len(a)):
        c[i] = a[i] + b[i]


# %% tab="CUDA C"
from tilewise import Kernel

VEC_ADD = Kernel(r"""
// c = a + b, n elements each.
// One-dimensional grid of at least n threads, any block size.
extern "C" __global__
void vec_add(const float* a, const float* b, float* c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
""")


# %% tab="Numba" needs="numba"
@cuda.jit
def vec_add_numba(a, b, c):
    i = cuda.grid(1)
    if i < c.size:
        c[i] = a[i] + b[i]


# %% tab="Triton" needs="torch triton"
@triton.jit
def add_elements(a, b, c, n, SIZE: tl.constexpr):
    i = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    own = i < n
    s = tl.load(a + i, mask=own) + tl.load(b + i, mask=own)
    tl.store(c + i, s, mask=own)


def vec_add_triton(a, b, c):
    n = c.numel()
    add_elements[(ceil_div(n, SIZE),)](a, b, c, n, SIZE=SIZE)


# %% tab="PyTorch" needs="torch"
def vec_add_torch(a, b, c):
    torch.add(a, b, out=c)


# %%
a, b = np.arange(20_000, dtype=np.float32), np.full(20_000, 0.5, np.float32)
c = np.zeros(20_000, np.float32)
VEC_ADD(a, b, c, 20_000, grid=79, block=256)  # n
print((c == a + b).all())

# %% [markdown]
# You don't need a GPU to compare their results: CUDA C runs on this course's simulator, Numba's kernel on Numba's own
# simulator, and Triton's in *interpreter mode*, where NumPy executes it without compiling.[^interpreter]
#
# [^interpreter]: Set `TRITON_INTERPRET=1` before you import Triton. Interpreter mode runs program instances one after
#     the other, so it can find a wrong index but not a race.
#
# ??? definition "Interpreter mode"
#     Running a kernel line by line on the host, with arrays instead of blocks, to find mistakes.


# %% fold="Code of the checks"
from tilewise import agree, case, normal, output
from tilewise.kernels.from_lesson import from_lesson

(addition,) = from_lesson("kernels/first_kernel", "addition")
FEW = [addition(n) for n in (1, 255, 1003)]
agree(vec_add, VEC_ADD, FEW)
agree(vec_add_numba, VEC_ADD, FEW, by="Numba")
agree(vec_add_triton, VEC_ADD, FEW, by="Triton")
agree(vec_add_torch, VEC_ADD, FEW, by="PyTorch")

# %% [markdown]
# ## JIT compilation: source to PTX, PTX to SASS
#
# `torch.add` was compiled when PyTorch was built. The other four are compiled *just in time* (JIT), while your program
# is already running and its types and sizes are known. Numba and Triton have compilers of their own that produce PTX.
# All of them go from PTX to SASS through NVIDIA's `ptxas`, or through the same compiler packaged as a library.
#
# For CUDA C, the NVRTC library does both steps: it compiles the source to PTX, then to SASS with its own copy of
# `ptxas`. The `cuda-python` package has a function for each step: create a program from the text, compile it, get the
# binary, load it, and launch the kernel.
#
# ??? definition "JIT | just-in-time"
#     Compiling a piece of a program while the program runs, when its types and sizes are known.

# %% needs="gpu" record="by_nvrtc" fold="Each step with cuda-python: compile, load, launch"
if gpu_here() and find_spec("cuda"):
    import ctypes

    import cupy
    from cuda.bindings import driver, nvrtc

    def must(answer):
        """What a call returns besides its status, which has to be 0."""
        status, *values = answer
        assert status.value == 0, status
        return values[0] if len(values) == 1 else values

    def compiled(kernel):
        """NVRTC's log of a kernel and its machine code for an H100."""
        source = kernel.gpu_source.encode()
        program = must(nvrtc.nvrtcCreateProgram(source, b"kernel.cu", 0, [], []))
        # From the compiler's cache a kernel comes without a log.
        options = [b"-arch=sm_90", b"--ptxas-options=-v", b"--no-cache"]
        must(nvrtc.nvrtcCompileProgram(program, len(options), options))
        log = bytearray(must(nvrtc.nvrtcGetProgramLogSize(program)))
        must(nvrtc.nvrtcGetProgramLog(program, log))
        binary = bytearray(must(nvrtc.nvrtcGetCUBINSize(program)))
        must(nvrtc.nvrtcGetCUBIN(program, binary))
        return log.decode().strip("\0 \n"), bytes(binary)

    log, binary = compiled(VEC_ADD)
    print("\n".join(line for line in log.split("\n") if "ompil" not in line))
    print(f"machine code and its tables: {len(binary)} bytes")

    n = 20_000
    a, b = cupy.arange(n, dtype=np.float32), cupy.full(n, 0.5, dtype=np.float32)
    c = cupy.full(n, np.nan, dtype=np.float32)
    module = must(driver.cuModuleLoadData(binary))
    function = must(driver.cuModuleGetFunction(module, b"vec_add"))
    values = (a.data.ptr, b.data.ptr, c.data.ptr, n)
    types = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)
    stream = cupy.cuda.get_current_stream()
    blocks = ceil_div(n, 256)
    launch = (blocks, 1, 1, 256, 1, 1, 0)  # grid, block, bytes of shared memory
    must(driver.cuLaunchKernel(function, *launch, stream.ptr, (values, types), 0))
    stream.synchronize()
    print("equal to CuPy:", bool((c == a + b).all()))

# %% [markdown]
# ## Softmax: who writes the barriers?
#
# In an addition, elements are independent. In a softmax, the threads of a block have to combine their values into the
# maximum and the sum of a row. Look for the shared memory and the barriers: only two of the tabs have them.


# %% tab="Pseudocode"
def softmax_row(X, Y):
    for r in parallel(len(X)):
        e = np.exp(X[r] - max(X[r]))
        Y[r] = e / sum(e)


# %% tab="CUDA C"
SOFTMAX_ROW = Kernel(r"""
#define THREADS 128

// Y = softmax of each row of X, both rows x cols, row-major. One block of 128 threads per row.
extern "C" __global__
void softmax_row(const float* X, float* Y, int cols) {
    __shared__ float box[THREADS];  // one partial maximum or sum per thread
    const float* x = X + (long long)blockIdx.x * cols;
    float* y = Y + (long long)blockIdx.x * cols;
    int t = threadIdx.x;
    float m = -INFINITY, z = 0.0f;
    for (int c = t; c < cols; c += THREADS) m = fmaxf(m, x[c]);
    box[t] = m;
    for (int half = THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (t < half) box[t] = fmaxf(box[t], box[t + half]);
    }
    __syncthreads();
    m = box[0];
    __syncthreads();  // everyone has read it
    for (int c = t; c < cols; c += THREADS) z += expf(x[c] - m);
    box[t] = z;
    for (int half = THREADS / 2; half > 0; half /= 2) {
        __syncthreads();
        if (t < half) box[t] += box[t + half];
    }
    __syncthreads();
    for (int c = t; c < cols; c += THREADS) y[c] = expf(x[c] - m) / box[0];
}
""")


# %% tab="Numba" needs="numba"
from math import exp

ZERO, LEAST = np.float32(0), np.float32(-np.inf)  # 0.0 would have 64 bits


@cuda.jit
def softmax_row_numba(X, Y):
    box = cuda.shared.array(128, np.float32)
    r, t = cuda.blockIdx.x, cuda.threadIdx.x
    m, z = LEAST, ZERO
    for c in range(t, X.shape[1], 128):
        m = max(m, X[r, c])
    box[t] = m
    half = 64
    while half > 0:
        cuda.syncthreads()
        if t < half:
            box[t] = max(box[t], box[t + half])
        half //= 2
    cuda.syncthreads()
    m = box[0]
    cuda.syncthreads()
    for c in range(t, X.shape[1], 128):
        z += exp(X[r, c] - m)
    box[t] = z
    half = 64
    while half > 0:
        cuda.syncthreads()
        if t < half:
            box[t] += box[t + half]
        half //= 2
    cuda.syncthreads()
    for c in range(t, X.shape[1], 128):
        Y[r, c] = exp(X[r, c] - m) / box[0]


# %% tab="Triton" needs="torch triton"
@triton.jit
def softmax_elements(X, Y, cols, SIZE: tl.constexpr):
    c = tl.arange(0, SIZE)
    at = tl.program_id(0) * cols + c
    x = tl.load(X + at, mask=c < cols, other=-float("inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(Y + at, e / tl.sum(e, axis=0), mask=c < cols)


def softmax_row_triton(X, Y):
    rows, cols = X.shape
    whole = triton.next_power_of_2(cols)  # as a block's size must be
    softmax_elements[(rows,)](X, Y, cols, SIZE=whole)


# %% tab="PyTorch" needs="torch"
def softmax_row_torch(X, Y):
    torch.softmax(X, dim=-1, out=Y)


# %% [markdown]
# In Triton, you write `tl.max` and `tl.sum`, and the compiler decides how threads combine their values. In exchange,
# the row must fit into one program instance, whose size is a power of two. Numba's version follows the CUDA C line by
# line, with one trap: a Python `0.0` has 64 bits, and so does every sum that starts from it.


# %% fold="Code of the checks"
def rows_of(rows, cols):
    arrays = {"X": normal(rows, cols, scale=3.0), "Y": output(rows, cols)}
    return case(**arrays, cols=cols, grid=rows, block=128)


ROWS = [rows_of(2, 77), rows_of(3, 300)]
close = {"rtol": 1e-5, "atol": 1e-7}
agree(softmax_row, SOFTMAX_ROW, ROWS, **close)
agree(softmax_row_numba, SOFTMAX_ROW, ROWS, **close, by="Numba")
agree(softmax_row_triton, SOFTMAX_ROW, ROWS, **close, by="Triton")
agree(softmax_row_torch, SOFTMAX_ROW, ROWS, **close, by="PyTorch")

# %% [markdown]
# Run the CUDA C kernel on longer rows. Which lines cost the same at every length?

# %% fold="Code of the run"
from tilewise import try_it

try_it(rows_of, SOFTMAX_ROW, rows=(1, 2, 8), cols=(1, 77, 400))

# %% [markdown]
# A GEMM shows the same difference. In CUDA C, you load [tiles into shared
# memory](../matmul/tiling.py#the-tiled-kernel), synchronise and multiply. In Triton, a tile is a variable. The compiler
# decides where it's stored and which threads wait, and one argument decides which instructions `tl.dot` compiles
# to.[^tf32]
#
# [^tf32]: By default, Triton multiplies FP32 matrices on the tensor cores, which keep only the \TF32 bits of each
#     element. That changes your results. `input_precision="ieee"` keeps all of FP32.


# %% fold="Pseudocode of the tiled GEMM"
def product_tiled(A, B, C):
    (M, K), N = A.shape, B.shape[1]
    for rows in tiles(M, 32):
        for columns in tiles(N, 32):
            s = np.zeros((len(rows), len(columns)))
            for ks in tiles(K, 32):
                for i, j in parallel(len(rows), len(columns)):
                    for k in ks:
                        s[i, j] += A[rows[i], k] * B[k, columns[j]]
            for i, j in parallel(len(rows), len(columns)):
                C[rows[i], columns[j]] = s[i, j]


# %% tab="CUDA C"
PRODUCT_TILED = Kernel(
    r"""
// C = A B, all row-major: A is M x K, B is K x N.
// Block: T x T threads. Grid: ceil(N / T) x ceil(M / T) blocks.
extern "C" __global__
void product_tiled(const float* A, const float* B, float* C,
                   int M, int N, int K) {
    __shared__ float a[T][T], b[T][T];
    int x = threadIdx.x, y = threadIdx.y;
    int i = blockIdx.y * T + y, j = blockIdx.x * T + x;
    float s = 0.0f;
    for (int k0 = 0; k0 < K; k0 += T) {
        a[y][x] = i < M && k0 + x < K ? A[i * K + k0 + x] : 0.0f;
        b[y][x] = k0 + y < K && j < N ? B[(k0 + y) * N + j] : 0.0f;
        __syncthreads();  // both tiles are complete
        for (int k = 0; k < T; ++k) s += a[y][k] * b[k][x];
        __syncthreads();  // everyone has read them
    }
    if (i < M && j < N) C[i * N + j] = s;
}
""",
    defines={"T": 32},
)


# %% tab="Triton" needs="torch triton"
@triton.jit
def product_elements(
    A, B, C, M, N, K: tl.constexpr, T: tl.constexpr, PRECISION: tl.constexpr
):  # fmt: skip
    i = (tl.program_id(1) * T + tl.arange(0, T))[:, None]  # a column
    j = (tl.program_id(0) * T + tl.arange(0, T))[None, :]  # a row
    s = tl.zeros((T, T), tl.float32)
    for k0 in range(0, K, T):
        k = k0 + tl.arange(0, T)
        down, across = k[:, None], k[None, :]
        a = tl.load(A + i * K + across, mask=(i < M) & (across < K), other=0.0)
        b = tl.load(B + down * N + j, mask=(down < K) & (j < N), other=0.0)
        s = tl.dot(a, b, s, input_precision=PRECISION)
    tl.store(C + i * N + j, s, mask=(i < M) & (j < N))


def product_triton(A, B, C):
    (M, K), N = A.shape, B.shape[1]
    grid = (ceil_div(N, 32), ceil_div(M, 32))
    product_elements[grid](A, B, C, M, N, K, T=32, PRECISION="ieee")


# %% fold="Code of the checks"
from tilewise.measurements.references import product_inputs


def product(M, N, K):
    return case(**product_inputs(M, N, K), grid=(ceil_div(N, 32), ceil_div(M, 32)), block=(32, 32))


SOME = [product(37, 41, 29), product(65, 33, 70)]
near = {"rtol": 1e-5, "atol": 1e-5}
agree(product_tiled, PRODUCT_TILED, SOME, **near)
agree(product_triton, PRODUCT_TILED, SOME, **near, by="Triton")

# %% [markdown]
# ## SASS: what the compilers produced
#
# The table counts the instructions in the SASS listing, not how often they run; [the phrase
# book](machine_code.py#a-phrase-book-for-sass) explains their names.

# %% needs="gpu torch triton" record="machine_code" fold="Code that compiles, disassembles and counts"
if gpu_here() and all(map(find_spec, ("cuda", "torch", "triton"))):
    from triton.tools.disasm import get_sass

    NAMED = {
        "barriers": r"BAR\.SYNC",
        "shuffles": r"SHFL",
        "shared": r"(?:LDS|STS|LDSM)\b",
        "copies": r"LDGSTS",
        "fma": r"FFMA",
        "matrix": r"(?:HMMA|HGMMA|WGMMA)\b",
        "double": r"(?:DADD|DMUL|DFMA|F2F\.F64)\b",
    }

    def told(name, by, machine_code, registers, shared_bytes):
        """A line with what stands in the machine code of a kernel."""
        names = re.findall(r"(?:\t|\*/\s+)(?:@!?U?P\w+ )?([A-Z][\w.]+)", machine_code)
        loads = [one for one in names if one.startswith(("LDG.", "LDGSTS."))]
        widest = max(int((re.findall(r"\.(64|128)\b", one) or ["32"])[0]) for one in loads) // 8
        counts = {kind: sum(bool(re.match(what, one)) for one in names) for kind, what in NAMED.items()}
        said = ", ".join(f"{kind} {count}" for kind, count in counts.items())
        print(f"{name}, {by}: registers {registers}, block {shared_bytes}, widest {widest}, {said}")

    def by_nvrtc(kernel, name):
        """The same of a kernel of CUDA C."""
        log, binary = compiled(kernel)
        (registers,) = re.findall(r"Used (\d+) registers", log)
        shared_bytes = re.findall(r"(\d+) bytes smem", log) or ["0"]
        told(name, "CUDA C", get_sass(binary), registers, shared_bytes[0])

    def by_triton(name, made, by="Triton"):
        """The same of what a launch of a kernel of Triton's returns."""
        told(name, by, made.asm["sass"], made.n_regs, made.metadata.shared)

    def by_numba(kernel, name, grid, block, *arrays):
        """The same of a kernel of Numba's, for arrays of these types."""
        kernel[grid, block](*arrays)
        *_, kind = kernel.overloads
        own = kernel.overloads[kind]
        told(name, "Numba", kernel.inspect_sass()[kind], own.regs_per_thread, own.shared_mem_per_block)

    x, X = torch.randn(2**26, device="cuda"), torch.randn(4096, 4096, device="cuda")
    y, Y = torch.empty_like(x), torch.empty_like(X)
    by_nvrtc(VEC_ADD, "addition")
    by_numba(vec_add_numba, "addition", ceil_div(x.numel(), 256), 256, x, x, y)
    by_triton("addition", add_elements[(ceil_div(x.numel(), SIZE),)](x, x, y, x.numel(), SIZE=SIZE))
    less = x.numel() - 1
    by_triton("addition of one less", add_elements[(ceil_div(less, SIZE),)](x, x, y, less, SIZE=SIZE))
    by_nvrtc(SOFTMAX_ROW, "softmax")
    by_numba(softmax_row_numba, "softmax", 4096, 128, X, Y)
    by_triton("softmax", softmax_elements[(4096,)](X, Y, 4096, SIZE=4096))
    by_nvrtc(PRODUCT_TILED, "product")
    sizes = (X, X, Y, 4096, 4096, 4096)
    for precision in ("ieee", "tf32"):
        made = product_elements[(128, 128)](*sizes, T=32, PRECISION=precision)
        by_triton("product", made, f"Triton, {precision}")

# %% fold="Code of the table"
MADE = Numbers()
for task, by, rest in re.findall(
    r"(?m)^([a-z ]+), ([^:]+): (.*)$", printed("toolbox/front_ends", "machine_code")
):
    MADE |= {(task, by, word): int(value) for word, value in re.findall(r"(\w+) (\d+)", rest)}
KINDS = {
    "registers": "registers",
    "widest": "widest load",
    "barriers": "barriers",
    "copies": "async copies",
}
TASKS = {"addition of one less": "addition, n odd", "product": "GEMM"}
if MADE:
    show(
        Table(
            ["kernel", *KINDS.values()],
            [
                [
                    f"{TASKS.get(task, task)}: {by}",
                    *(MADE[task, by, kind] for kind in KINDS),
                ]
                for task, by in dict.fromkeys((task, by) for task, by, _ in MADE)
            ],
            caption="Registers per thread, bytes of the widest load, and counts in the SASS of each kernel for an H100, for 2²⁶ elements, rows of 4,096 and matrices of 4,096 × 4,096. Async copies: from global to shared memory, without a register (LDGSTS). n odd: one element fewer.",
        )
    )
publish(
    made={
        "wide": MADE["addition", "Triton", "widest"],
        "narrow": MADE["addition", "CUDA C", "widest"],
        "less": MADE["addition of one less", "Triton", "widest"],
        "smem": MADE["softmax", "Triton", "block"],
        "barriers": MADE["softmax", "Triton", "barriers"],
        "copies": MADE["product", "Triton, ieee", "copies"],
    }
)

# %% [markdown]
# Three things stand out:
#
# - **Wide loads.** Triton's addition loads {{ made.wide }} bytes at a time, the others {{ made.narrow }}. Triton
#   compiles a specialised version for addresses and lengths that are multiples of 16. With one element fewer, it loads
#   {{ made.less }} bytes at a time.
# - **Barriers that nobody wrote.** Triton's softmax has {{ made.barriers }} of them, {{ made.smem }} bytes of shared memory, and shuffles.
# - **Asynchronous copies.** Triton's GEMM has {{ made.copies }} copies that load the next tiles while it multiplies.

# %% [markdown]
# ## Who decides what?
#
# | decision | CUDA C | Numba | Triton | PyTorch |
# | --- | --- | --- | --- | --- |
# | what a block works on | you | you | you | compiler |
# | index arithmetic | you | you; arrays know their shape | you, for whole blocks | compiler |
# | bounds | you: if | you: if | you: masks | compiler |
# | which thread loads what, how wide | you | you | compiler | compiler |
# | shared memory, barriers | you | you | compiler | compiler |
# | order of loads and arithmetic | you, then ptxas | as in CUDA C | compiler | compiler |
# | types of intermediate values | you | Python's rules: 64 bits | you | as in PyTorch |
# | tensor cores | you | only through linked CUDA C | compiler, for tl.dot | library or Triton |
# | tile sizes, warps per block | you | you | you, or \autotuning | compiler, or \autotuning |
# | what is fused into one launch | you | you | you | compiler |

# %% [markdown]
# ## Sharing arrays between packages without a copy
#
# You can mix front ends without copying arrays between them. CuPy arrays and PyTorch tensors publish their address,
# shape and type in an attribute, the *CUDA array interface*, and Numba accepts any object that has this attribute.
#
# ??? definition "CUDA array interface"
#     An attribute, `__cuda_array_interface__`, in which an array on the GPU publishes its address, shape and type, so
#     that another package can use it without a copy.

# %% needs="gpu torch numba" record="one_array" fold="One array in CuPy, Numba and PyTorch"
if gpu_here() and find_spec("torch") and find_spec("numba"):
    import cupy

    n = 20_000
    a = cupy.arange(n, dtype=np.float32)  # CuPy's
    b = torch.full((n,), 0.5, device="cuda")  # PyTorch's
    c = torch.full((n,), torch.nan, device="cuda")
    vec_add_numba[ceil_div(n, 256), 256](a, b, c)
    torch.cuda.synchronize()

    def seen_by_numba(array):
        return cuda.as_cuda_array(array).device_ctypes_pointer.value

    seen_by_torch = torch.as_tensor(a, device="cuda")
    print("PyTorch sees what Numba wrote:", torch.equal(c, seen_by_torch + b))
    pointers = {
        "CuPy's in Numba": (a.data.ptr, seen_by_numba(a)),
        "PyTorch's in Numba": (c.data_ptr(), seen_by_numba(c)),
        "CuPy's in PyTorch": (a.data.ptr, seen_by_torch.data_ptr()),
    }
    for name, (own, seen) in pointers.items():
        print(f"{name}: {'the same address' if own == seen else 'another address'}")

# %% [markdown]
# ## Launch overhead per front end
#
# Every launch starts with a Python call and ends with a driver call such as `cuLaunchKernel`. In between, each library
# does its own work. The first two, cuda-python and CuPy, both launch CUDA C:
#
# - **cuda-python** writes four values into an argument array.
# - **CuPy's RawKernel** does the same, but takes array objects.
# - **torch.add** finds the operation for these types and this device, in C++.
# - **Triton** checks each argument's type and its divisibility by 16, and looks up the version compiled for them.
# - **torch.compile** checks that the inputs are what it compiled for, then launches through Triton.
# - **Numba** looks up the version for these types and unpacks each array into address, sizes and strides. It first
#   wraps CuPy's arrays in array objects of its own.
#
# To compare them, launch 256 additions of 4,096 elements each on an idle GPU, and include the host's work in the time.


# %% fold="Code of the contenders"
def in_pieces(arrays, n):
    starts = range(0, arrays["a"].size, n)
    return [tuple(arrays[name][at : at + n] for name in "abc") for at in starts]


def as_tensors(pieces):
    import torch

    return [tuple(torch.as_tensor(part, device="cuda") for part in piece) for piece in pieces]


def for_each(launch, pieces):

    def run():
        for piece in pieces:
            launch(*piece)

    return run


def through_cupy(arrays, n):
    import cupy

    kernel = cupy.RawKernel(VEC_ADD.gpu_source, "vec_add")
    return for_each(
        lambda a, b, c: kernel((ceil_div(n, 256),), (256,), (a, b, c, np.int32(n))), in_pieces(arrays, n)
    )


def through_the_driver(arrays, n):
    import ctypes

    import cupy
    from cuda.bindings import driver

    module = cupy.RawModule(code=VEC_ADD.gpu_source)
    function = driver.CUfunction(module.get_function("vec_add").kernel.ptr)
    types = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)
    stream, blocks = cupy.cuda.get_current_stream().ptr, ceil_div(n, 256)

    def launch(a, b, c):
        driver.cuLaunchKernel(function, blocks, 1, 1, 256, 1, 1, 0, stream, ((a, b, c, n), types), 0)

    pieces = [tuple(part.data.ptr for part in piece) for piece in in_pieces(arrays, n)]
    made = for_each(launch, pieces)
    made.module = module  # kept for as long as the launches are
    return made


def through_numba(arrays, n):
    return for_each(vec_add_numba[ceil_div(n, 256), 256], in_pieces(arrays, n))


def through_numba_alone(arrays, n):
    from numba import cuda

    own = [tuple(map(cuda.as_cuda_array, piece)) for piece in in_pieces(arrays, n)]
    return for_each(vec_add_numba[ceil_div(n, 256), 256], own)


def through_triton(arrays, n):
    grid = (ceil_div(n, SIZE),)
    pieces = as_tensors(in_pieces(arrays, n))
    return for_each(lambda a, b, c: add_elements[grid](a, b, c, n, SIZE=SIZE), pieces)


def through_torch(arrays, n):
    import torch

    pieces = as_tensors(in_pieces(arrays, n))
    return for_each(lambda a, b, c: torch.add(a, b, out=c), pieces)


def through_the_compiler(arrays, n):
    import torch

    torch.compiler.reset()
    added = torch.compile(lambda a, b, c: c.copy_(a + b), dynamic=False)
    pieces = as_tensors(in_pieces(arrays, n))
    added(*pieces[0])  # compiled before it is timed
    return for_each(added, pieces)


def rows_by_numba(arrays, rows, cols):
    from numba import cuda

    X, Y = (cuda.as_cuda_array(arrays[name]) for name in "XY")
    return lambda: softmax_row_numba[rows, 128](X, Y)


def rows_by_triton(arrays, rows, cols):
    import torch

    X, Y = (torch.as_tensor(arrays[name], device="cuda") for name in "XY")
    return lambda: softmax_elements[(rows,)](X, Y, cols, SIZE=cols, num_warps=8) is None


def rows_by_torch(arrays, rows, cols):
    import torch

    X, Y = (torch.as_tensor(arrays[name], device="cuda") for name in "XY")
    return lambda: torch.softmax(X, dim=-1, out=Y) is None


def softmax_reference(X):
    e = np.exp(X - X.max(axis=1, keepdims=True))
    return {"Y": e / e.sum(axis=1, keepdims=True)}


CONTENDERS = {
    "cuda-python": through_the_driver,
    "CuPy": through_cupy,
    "Numba": through_numba_alone,
    "Numba, CuPy's arrays": through_numba,
    "Triton": through_triton,
    "torch.add": through_torch,
    "torch.compile": through_the_compiler,
}

# %% fold="Code of the measurement"
timed = measure(
    "front_ends",
    variants={"CUDA C": lambda n: VEC_ADD.on(addition(n))},
    cases=[{"n": MANY}],
    count_case={"n": 2**12},
    bytes=lambda n: 12 * n,
    library={label: CONTENDERS[label] for label in ("Numba", "Triton", "torch.add", "torch.compile")},
    reference=lambda a, b: {"c": a + b},
    tolerance=1e-6,
    fold="All five rows",
)
launched = measure(
    "front_end_launches",
    variants={"one launch for all": lambda n, all: VEC_ADD.on(addition(all))},
    cases=[{"n": PIECE, "all": PIECE * PIECES}],
    count_case={"n": 256, "all": 1024},
    bytes=lambda n, all: 12 * all,
    library=CONTENDERS,
    reference=lambda a, b: {"c": a + b},
    tolerance=1e-6,
    with_host=True,
    reasons={"*": "Launch overhead per front end"},
    fold="All eight rows",
    guess=Guess(
        "How much faster are 256 launches through CuPy than through Triton?",
        of="CuPy",
        over="Triton",
        between=(0.3, 30),
        because="Triton inspects every argument again on each launch, in Python and in C.",
    ),
    note="The first row is a single launch for all elements, for comparison; the others are 256 launches.",
)


# %% fold="Code of the figure"
ON_DEVICE, HOSTED = medians_us(timed), medians_us(launched)
EACH = {label: HOSTED[label] / PIECES for label in CONTENDERS if label in HOSTED}
publish(
    host={
        "each": {name_slug(label): HOSTED[label] / PIECES for label in CONTENDERS},
        "ratio": max(EACH.values(), default=np.nan) / min(EACH.values(), default=np.nan),
        "least": min(EACH.values(), default=np.nan),
        "most": max(EACH.values(), default=np.nan),
    },
    gpu={"more": max(ON_DEVICE.values()) / min(ON_DEVICE.values()) - 1},
)
if {"cuda-python", "Triton", "torch.compile"} <= EACH.keys():
    assert min(EACH, key=EACH.get) == "cuda-python", "the text says so"
    assert 2 * EACH["CuPy"] < EACH["Triton"] < EACH["torch.compile"], "the title"
    show(
        bars(
            EACH,
            x="time per launch [µs]",
            form=".1f",
            title="The more a front end inspects, the more a launch costs",
            caption=f"Time per launch, averaged over {PIECES} launches of {PIECE:,} additions each on an idle {{machine}}, including the time that the small kernels themselves take.",
        )
    )

# %% [markdown]
# Through cuda-python, a launch takes {{ host.least | .1f }} µs. CuPy and `torch.add` are close to that. Triton takes
# {{ host.each.triton | .0f }} µs, and `torch.compile` takes {{ host.each.torch_compile | .0f }} µs. Numba's launch
# takes {{ host.each.numba | .0f }} µs, or {{ host.each.numba_cupy_s_arrays | .0f }} µs with CuPy's arrays.
#
# These times hold for one host, so compare them only with each other. A CUDA graph removes this cost for all front ends
# alike, and a kernel that runs longer than its launch hides it.

# %% [markdown]
# ## Row softmax: the algorithm, not the language

# %% fold="Code of the measurement"
timed_rows = measure(
    "front_end_rows",
    variants={"CUDA C": lambda rows, cols: SOFTMAX_ROW.on(rows_of(rows, cols))},
    cases=[{"rows": 4096, "cols": 4096}],
    count_case={"rows": 4, "cols": 1024},
    bytes=lambda rows, cols: 8 * rows * cols,
    library={"Numba": rows_by_numba, "Triton": rows_by_triton, "torch.softmax": rows_by_torch},
    reference=softmax_reference,
    tolerance=1e-6,
    reasons={"*": "Row softmax: the algorithm, not the language"},
    fold="All four rows",
)

# %% fold="Code of the numbers"
from tilewise.models.occupancy import occupancy

ROWS_US = medians_us(timed_rows)
REGISTERS = {by: MADE["softmax", by, "registers"] for by in ("CUDA C", "Numba")}
BLOCKS = Numbers({by: occupancy(128, many, 512).blocks_per_sm for by, many in REGISTERS.items() if MADE})
FUSED_US = recorded("softmax_rows.fused_16_elements_per_thread.rows_4096_cols_4096.median")
if np.isfinite(FUSED_US) and np.isfinite(ROWS_US["Triton"]):
    assert abs(FUSED_US / ROWS_US["Triton"] - 1) < 0.05, "the text says that CUDA C can do that too"
publish(
    rows={
        "cuda": ROWS_US["CUDA C"],
        "triton": ROWS_US["Triton"],
        "fused": FUSED_US,
        "numba": ROWS_US["Numba"],
    },
    registers={"numba": REGISTERS["Numba"], "cuda": REGISTERS["CUDA C"]},
    blocks={"numba": BLOCKS["Numba"], "cuda": BLOCKS["CUDA C"]},
)

# %% [markdown]
# On 4,096 rows of 4,096 elements, Triton takes {{ rows.triton | us }} and CUDA C {{ rows.cuda | us }}, because the two
# run different algorithms. Our CUDA C kernel reads each row three times and writes it once: four sweeps, even if some
# of the reads hit in a cache. Triton keeps the row in registers and needs only two. CUDA C can do that too: the [fused
# kernel of the softmax lesson](../attention/softmax.py#fused-softmax-the-row-stays-in-registers) takes
# {{ rows.fused | us }}.
#
# Numba's version matches the CUDA C line by line, but takes {{ rows.numba | us }}. Its SASS has the same number of
# barriers and shared-memory accesses, but uses {{ registers.numba }} registers per thread instead of
# {{ registers.cuda }}. As a result, only {{ blocks.numba }} of its blocks fit on an SM instead of {{ blocks.cuda }},
# and fewer loads can be in flight, which probably explains the difference.

# %% [markdown]
# ## The answer
#
# On the GPU, the slowest version of the addition takes only {{ gpu.more | .0% }} longer than the fastest. On the host,
# the most expensive launch costs {{ host.ratio | .0f }}× as much as the cheapest. The difference matters only for
# kernels that take less time than their launch.

# %% [markdown]
# ## Takeaways
#
# - Every front end ends in SASS. Look there to see what the compiler decided.
# - In CUDA C and Numba, you program a thread; in Triton, a block; in PyTorch, whole arrays. The compiler decides what
#   you leave open: load width, shared memory, barriers.
# - A launch costs the host {{ host.least | .0f }} to {{ host.most | .0f }} µs, depending on the front end. Kernels that
#   run longer than their launch hide this cost.
# - Defaults are decisions too: 64-bit sums in Numba, \TF32 in `tl.dot`.
#
# ## In your own kernel
#
# If a kernel is slower in one language than in another, compare the SASS first: the width of each `LDG`, the number of
# `BAR` instructions, and the use of `LDGSTS` or tensor cores. If the SASS is similar, compare the gaps between kernels
# in Nsight Systems, which show the launch overhead.

# %% fold="Code of the exercise, with three wrong answers that the tests reject"
from tilewise import exercise

MEAN_SOURCE = r"""
extern "C" __global__
void mean_of_three(const float* x, float* y, int rows, int cols) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int j = blockIdx.y * blockDim.y + threadIdx.y;
    if (i + 2 < rows && j < cols)
        y[i * cols + j] = (x[i * cols + j] + x[(i + 1) * cols + j] + x[(i + 2) * cols + j]) / 3;
}
"""
MEAN_OF_THREE = Kernel(MEAN_SOURCE)


def port_tests(kernel):
    random = np.random.default_rng(5)
    for rows, cols in ((3, 1), (7, 5), (40, 19)):
        x = random.standard_normal((rows, cols)).astype(np.float32)
        y = np.full((rows, cols), -1.0, np.float32)
        kernel.simulate(x, y, rows, cols, grid=(ceil_div(rows, 8), ceil_div(cols, 4)), block=(8, 4))
        right = np.full((rows, cols), -1.0)
        right[:-2] = (x[:-2].astype(float) + x[1:-1] + x[2:]) / 3
        assert np.allclose(y, right, rtol=1e-5, atol=1e-6), f"{rows} x {cols}: wrong values"


exercise(
    "From Numba to CUDA C",
    """
    Write this Numba kernel in CUDA C, as `mean_of_three(const float* x, float* y, int rows, int cols)`.
    Both are launched in blocks of 8 by 4 threads, with enough blocks to cover `rows` by `cols`.

        @cuda.jit
        def mean_of_three(x, y):
            i, j = cuda.grid(2)
            if i < x.shape[0] - 2 and j < x.shape[1]:
                y[i, j] = (x[i, j] + x[i + 1, j] + x[i + 2, j]) / 3

    Which of the two indices varies along the lanes of a warp, and what would you change about that?
    """,
    answer=MEAN_OF_THREE,
    tests=port_tests,
    wrong=[
        {
            "int i = blockIdx.x * blockDim.x + threadIdx.x": "int j = blockIdx.x * blockDim.x + threadIdx.x",
            "int j = blockIdx.y * blockDim.y + threadIdx.y": "int i = blockIdx.y * blockDim.y + threadIdx.y",
        },
        {"i * cols + j": "i * rows + j", "(i + 1) * cols": "(i + 1) * rows"},
        {"i + 2 < rows": "i + 1 < rows"},
    ],
    hint="The first result of cuda.grid(2) comes from threadIdx.x, and it's the row here.",
    explanation="Lanes vary along i, down a column, so the accesses are uncoalesced in both languages; swap the roles of x and y, in the launch as well. Numba divides in 64 bits, because its 3 is a 64-bit integer.",
)

# %% [markdown]
# How good are a compiler's decisions, and what are its limits? [The next lesson](compilers.py) gives PyTorch programs
# to `torch.compile` and reads what comes out.
