# ---
# title: One kernel, many front ends
# needs: [toolbox/machine_code, memory/fusion, memory/reductions]
# summary: "The same addition in CUDA C, Numba, Triton and PyTorch. Does the GPU notice which one it was written in, and does the host?"
# description: "Vector add, softmax and a product in CUDA C, NVRTC, Numba, Triton and PyTorch: machine code, launches, and who decides what."
# date: 2026-11-21
# tags: [Numba, Triton, PyTorch, NVRTC, SASS]
# ---

# %% [markdown]
# An addition of {{ ask.n | , }} numbers can be written in CUDA C, in Numba, in Triton, in PyTorch, and
# in PyTorch with a compiler behind it. Five languages, one task, one GPU. How far apart are the fastest
# and the slowest of the five while the GPU adds, and how far apart while the host launches?

# %% fold="Imports"
import re
from importlib.util import find_spec

import numpy as np

from tilewise import (
    Guess,
    Table,
    agree,
    case,
    ceil_div,
    gpu_here,
    measure,
    normal,
    output,
    parallel,
    publish,
    show,
    tiles,
)
from tilewise.frameworks import cuda, tl, torch, triton
from tilewise.measurements import Numbers, medians_us, printed, recorded
from tilewise.measurements.slugs import name_slug

MANY, PIECE, PIECES = 2**26, 2**12, 256
SIZE = 1024  # elements of a program instance
publish(ask={"n": MANY, "piece": PIECE, "pieces": PIECES})

# %% [markdown]
# ## Five ways to write an addition
#
# What turns a program's text into something that a compiler can work on is its front end. The tabs
# show [the first kernel](../kernels/first_kernel.py) through four of them; the fifth is PyTorch's line,
# given to `torch.compile`. Numba's text is a kernel as in CUDA C: it says what one thread does.
# Triton's says what one program instance does, and that has a whole range of elements in hand: `i`
# holds `SIZE` = {{ adds.size | , }} numbers, and so do `own` and the sum. No line says which thread
# takes which of them. PyTorch's says only what is to be computed.
#
# ??? definition "Front end | front ends"
#     The part of a compiler that reads a language: its words and rules, before anything about a machine.


# %% tab="Pseudocode"
def vec_add(a, b, c):
    for i in parallel(len(a)):
        c[i] = a[i] + b[i]


# %% tab="CUDA C"
from tilewise import Kernel

VEC_ADD = Kernel(r"""
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


# %% [markdown]
# Each of them is compared with the kernel in CUDA C, on lengths that divide nothing. Where this page
# was built there was no GPU, so CUDA C ran on this course's simulator, Numba's kernel on Numba's own,
# and the others ran where PyTorch and Triton are installed: Triton comes with an interpreter, which
# carries out a kernel in NumPy, without compiling it.[^interpreter]
#
# [^interpreter]: `TRITON_INTERPRET=1` chooses it, and has to be set before Triton is imported. Python's
#     debugger and `print` work in it. It runs the program instances one after the other, so it finds a
#     wrong index and no race.
#
# ??? definition "Interpreter mode"
#     Running a kernel line by line on the host, with arrays in place of blocks, to look for mistakes.


# %% fold="Code of the checks"
def addition(n):
    arrays = {"a": normal(n), "b": normal(n), "c": output(n)}
    return case(**arrays, n=n, grid=ceil_div(n, 256), block=256)


FEW = [addition(n) for n in (1, 255, 1003)]
agree(vec_add, VEC_ADD, FEW, rtol=0.0)
agree(vec_add_numba, VEC_ADD, FEW, rtol=0.0, by="Numba")
agree(vec_add_triton, VEC_ADD, FEW, rtol=0.0, by="Triton")
agree(vec_add_torch, VEC_ADD, FEW, rtol=0.0, by="PyTorch")
publish(adds={"size": SIZE})

# %% [markdown]
# ## Compiled while the program runs
#
# `torch.add` was compiled when PyTorch was built. The other four compile when the program is running
# already; that is called just-in-time. For CUDA C NVRTC does it. Behind CuPy's `RawKernel` stand its
# calls and then those of the driver: make a program of the text, compile it, ask for the log, load what
# came out, launch. The package `cuda-python`[^name] has all of them, one function for each of C's. This
# is the whole way, with the architecture named and the compiler asked to report.
#
# [^name]: [Where the sources differ](../../conventions.md#the-sources): the notes call it python-cuda.
#     The package is `cuda-python`, and what is imported is `cuda.bindings`.
#
# ??? definition "JIT | just-in-time"
#     Compiling a piece of a program while the program runs, when its types and sizes are known.

# %% needs="gpu" record="by_nvrtc"
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
# `-arch=sm_90` asks for machine code, so NVRTC does both steps of [Reading machine
# code](machine_code.py). Numba and Triton have compilers of their own for the first step; they write
# PTX, and the second step is the same for all. However a kernel was written, from PTX on the way is
# one.

# %% [markdown]
# ## One array, three owners
#
# Arrays need not be copied when they go from one package to another. CuPy's arrays and PyTorch's
# tensors state their address, shape and type in an attribute, the CUDA array interface, and Numba
# takes whatever has it. Here Numba's kernel writes into a tensor; the addresses were printed on the
# recorded machine as equal or not, since the numbers themselves say nothing.[^row_stack]
#
# [^row_stack]: The recorded machine had Numba 0.68.0 beside NumPy 2.5, which has dropped `row_stack`, a name
#     that this version of Numba asks for. It was given back as an alias of `vstack` before Numba was
#     imported. The versions that this course pins do without.
#
# ??? definition "CUDA array interface"
#     An attribute, `__cuda_array_interface__`, in which an array on the GPU states its address, shape and
#     type, so that another package can use it without a copy.

# %% needs="gpu torch numba" record="one_array"
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
# ## A row of softmax
#
# An addition hides what a language does for you, since its elements do not need each other. A softmax
# of rows does not: the maximum of a row and the sum of its exponentials concern a whole block. Look
# for the array in shared memory and for the barriers: they stand in two of the five texts.


# %% tab="Pseudocode"
def softmax_row(X, Y):
    for r in parallel(len(X)):
        e = np.exp(X[r] - max(X[r]))
        Y[r] = e / sum(e)


# %% tab="CUDA C"
SOFTMAX_ROW = Kernel(r"""
#define THREADS 128

extern "C" __global__
void softmax_row(const float* X, float* Y, int cols) {
    __shared__ float box[THREADS];
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
    __syncthreads();  // all have read it
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

ZERO, LEAST = np.float32(0), np.float32(-np.inf)  # 0.0 would be 64 bits wide


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
    whole = triton.next_power_of_2(cols)  # a block's size must be one
    softmax_elements[(rows,)](X, Y, cols, SIZE=whole)


# %% tab="PyTorch" needs="torch"
def softmax_row_torch(X, Y):
    torch.softmax(X, dim=-1, out=Y)


# %% [markdown]
# In Triton `tl.max` and `tl.sum` say what is wanted, and how threads put a row together is the
# compiler's affair. The price is in the next line above: the row must fit into one program instance,
# in a size that is a power of two. Numba's version has CUDA's structure line by line, and one trap of
# its own. It takes the types of Python's numbers as they are, and those have 64 bits.


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
# ## A product of matrices
#
# The kernel of [A tile of each matrix](../matmul/tiling.py) once more, with tiles of
# {{ product.tile }}. In CUDA C one fetches tiles into shared memory, waits, multiplies, and waits;
# Numba's text would be the same again. In Triton a tile is a variable. Where it lies and who waits
# for whom is nowhere said, and what `tl.dot` becomes depends on one argument.[^tf32]
#
# [^tf32]: Without `input_precision="ieee"` Triton gives matrices of 32-bit floats to the matrix units,
#     which keep only \TF32 of each number: a decision about accuracy, made by default.


# %% tab="Pseudocode"
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
        __syncthreads();  // both tiles are there
        for (int k = 0; k < T; ++k) s += a[y][k] * b[k][x];
        __syncthreads();  // nobody needs them any more
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
    i = (tl.program_id(1) * T + tl.arange(0, T))[:, None]  # a column of rows
    j = (tl.program_id(0) * T + tl.arange(0, T))[None, :]  # a row of columns
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


# %% tab="PyTorch" needs="torch"
def product_torch(A, B, C):
    torch.matmul(A, B, out=C)


# %% fold="Code of the checks"
def product(M, N, K):
    arrays = {"A": normal(M, K), "B": normal(K, N, scale=K**-0.5), "C": output(M, N)}
    return case(**arrays, M=M, N=N, K=K, grid=(ceil_div(N, 32), ceil_div(M, 32)), block=(32, 32))


SOME = [product(37, 41, 29), product(65, 33, 70)]
near = {"rtol": 1e-5, "atol": 1e-5}
agree(product_tiled, PRODUCT_TILED, SOME, **near)
agree(product_triton, PRODUCT_TILED, SOME, **near, by="Triton")
agree(product_torch, PRODUCT_TILED, SOME, **near, by="PyTorch")
publish(product={"tile": 32})

# %% [markdown]
# ## What they become
#
# The next table was read from machine code, as each compiler made it on the recorded machine for
# arrays of {{ ask.n | , }} numbers, rows of {{ made.cols | , }} and matrices of {{ made.side | , }}:
# how wide a load from device memory is at most, what a block takes, and how many instructions of some
# kinds stand in the text. It says nothing of how often they run.

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
    "registers": "registers a thread",
    "block": "shared memory, bytes",
    "widest": "widest load, bytes",
    "barriers": "barriers",
    "shared": "accesses to shared memory",
    "copies": "copies ahead",
    "matrix": "on matrix units",
}
if MADE:
    show(
        Table(
            ["task", "written in", *KINDS.values()],
            [
                [task, by.replace(" ", "\N{NO-BREAK SPACE}"), *(MADE[task, by, kind] for kind in KINDS)]
                for task, by in dict.fromkeys((task, by) for task, by, _ in MADE)
            ],
            caption="What stands in the machine code of each kernel for an H100, counted in its text. Copies ahead: from device memory to shared memory without a register, while the threads go on.",
        )
    )
publish(
    made={
        "cols": 4096,
        "side": 4096,
        "wide": MADE["addition", "Triton", "widest"],
        "narrow": MADE["addition", "CUDA C", "widest"],
        "less": MADE["addition of one less", "Triton", "widest"],
        "box": MADE["softmax", "Triton", "block"],
        "barriers": MADE["softmax", "Triton", "barriers"],
        "copies": MADE["product", "Triton, ieee", "copies"],
    }
)

# %% [markdown]
# Triton's addition loads {{ made.wide }} bytes at a time, where the other two load
# {{ made.narrow }}. It may, since it looked at the arguments: addresses and length are multiples of
# 16, and a version for that was compiled. With one number less it loads {{ made.less }}. Its softmax
# has {{ made.box }} bytes of shared memory and {{ made.barriers }} barriers that nobody wrote, and its
# product {{ made.copies }} copies ahead.

# %% [markdown]
# ## Who decides what
#
# So the languages differ in what they leave to you. What the first four columns say can be read from
# the texts above and from what they became; [What a compiler can do](compilers.py) shows the last.

# %% fold="Code of the table"
DECISIONS = """
what a block works on | you | you | you | compiler
index arithmetic | you | you; arrays keep their shape | you, for whole blocks | compiler
bounds | you: if | you: if | you: masks | compiler
which thread loads what, how wide | you | you | compiler | compiler
shared memory, barriers | you | you | compiler | compiler
order of loads and arithmetic | you, then the assembler | as in CUDA C | compiler | compiler
types of values in between | you | Python's rules: 64 bits | you | as in PyTorch
matrix units | you | by CUDA C that is linked in | compiler, for tl.dot | library or Triton
sizes of tiles, warps in a block | you | you | you, or a list to try | compiler, or a list to try
what shares a launch | you | you | you | compiler
"""
show(
    Table(
        ["decision", "CUDA C", "Numba", "Triton", "torch.compile"],
        [line.split(" | ") for line in DECISIONS.strip().splitlines()],
        caption="Who decides. Order among blocks is nobody's: the hardware starts them as it can, in every column.",
    )
)

# %% [markdown]
# What of this moves to another maker's GPU is in a note of
# [Kernel fusion](../memory/fusion.py#torchcompile-fusion-by-a-compiler). One part of
# `torch.compile` has no row here: AOT Autograd, which records what training needs besides, is in
# [recomputation](../memory/recomputation.py#measured-traffic-and-time).

# %% [markdown]
# ## Predict
#
# Once they run, additions are bytes. All five move {{ host.bytes_per }} of them for each element, so
# on {{ ask.n | , }} elements they should take the same time, but for the width of the loads, which
# [the roofline](../speed/roofline.py) has seen cost some. Before they run, they differ. Every front
# end is a Python function that ends in one call of the driver, and on the way it has work to do:

# %% fold="Code of the table"
BEFORE = {
    "the driver, by cuda-python": "put four values into an array of arguments",
    "CuPy's RawKernel": "the same, from array objects",
    "torch.add": "find the operation for these types and this device, in C++",
    "Triton": "look at every argument's type and its divisibility by 16; find the version compiled for that",
    "torch.compile": "check that inputs are what the function was compiled for; then Triton's launch",
    "Numba": "look up the version compiled for these types; take each array apart into address, sizes and strides",
    "Numba, CuPy's arrays": "ask each array for its interface first, and make an array of Numba's of it",
}
show(Table(["launched through", "before the driver is called"], BEFORE.items()))

# %% [markdown]
# In [Five bottlenecks](../speed/launches.py) a launch through CuPy cost {{ host.cupy_before | .1f }} µs
# and a call of `torch.add` {{ host.torch_before | .1f }} µs on the recorded host. The more Python there
# is in the row of a table, the more it should cost; by how much is a guess. The experiment is the one of
# that lesson: {{ ask.pieces }} launches for pieces of {{ ask.piece | , }} elements, from an idle device,
# with the host's work in the time.


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
)
timed_rows = measure(
    "front_end_rows",
    variants={"CUDA C": lambda rows, cols: SOFTMAX_ROW.on(rows_of(rows, cols))},
    cases=[{"rows": 4096, "cols": 4096}],
    count_case={"rows": 4, "cols": 1024},
    bytes=lambda rows, cols: 8 * rows * cols,
    library={"Numba": rows_by_numba, "Triton": rows_by_triton, "torch.softmax": rows_by_torch},
    reference=softmax_reference,
    tolerance=1e-6,
    reasons={"*": "The answer"},
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
    reasons={"*": "Predict"},
    guess=Guess(
        "How many times as fast are 256 launches through CuPy as the same through Triton?",
        of="CuPy",
        over="Triton",
        at={"n": PIECE, "all": PIECE * PIECES},
        between=(0.3, 30),
        because="Triton looks at every argument anew in each launch, in Python and in C.",
    ),
    note="The first row is one launch through this course's Kernel, for comparison; the others are 256 launches.",
)


# %% fold="Code of the figure"
from tilewise.figures import bars
from tilewise.models.occupancy import occupancy

ON_DEVICE, HOSTED, ROWS_US = medians_us(timed), medians_us(launched), medians_us(timed_rows)
EACH = {label: HOSTED[label] / PIECES for label in CONTENDERS if label in HOSTED}
REGISTERS = {by: MADE["softmax", by, "registers"] for by in ("CUDA C", "Numba")}
BLOCKS = {by: occupancy(128, many, 512).blocks_per_sm for by, many in REGISTERS.items() if MADE}
publish(
    host={
        "bytes_per": 12,
        "cupy_before": recorded("launch_pieces.one_launch_per_piece.n_4096.median") / 4096,
        "torch_before": recorded("launch_pieces.torch_add_per_piece.n_4096.median") / 4096,
        "each": {name_slug(label): HOSTED[label] / PIECES for label in CONTENDERS},
        "ratio": max(EACH.values(), default=np.nan) / min(EACH.values(), default=np.nan),
        "slowest": max(EACH, key=EACH.get, default="none yet"),
        "fastest": min(EACH, key=EACH.get, default="none yet"),
    },
    rows={
        "cuda": ROWS_US["CUDA C"],
        "numba": ROWS_US["Numba"],
        "triton": ROWS_US["Triton"],
        "torch": ROWS_US["torch.softmax"],
        "times": ROWS_US["CUDA C"] / ROWS_US["Triton"],
        "passes": 4,
        "one_pass": 2,
        "registers": REGISTERS["CUDA C"],
        "registers_numba": REGISTERS["Numba"],
        "blocks": BLOCKS.get("CUDA C", np.nan),
        "blocks_numba": BLOCKS.get("Numba", np.nan),
    },
    gpu={
        "ratio": max(ON_DEVICE.values()) / min(ON_DEVICE.values()),
        "narrow": ON_DEVICE["CUDA C"],
        "wide": ON_DEVICE["Triton"],
        "numba": ON_DEVICE["Numba"],
    },
)
if {"cuda-python", "Triton", "torch.compile"} <= EACH.keys():
    assert min(EACH, key=EACH.get) == "cuda-python", "the answer says that cuda-python is the fastest"
    assert 2 * EACH["CuPy"] < EACH["Triton"] < EACH["torch.compile"], "the title says: the more it looks at"
    show(
        bars(
            EACH,
            x="time for each launch [µs]",
            title="The same kernel costs the host more, the more a front end looks at",
            caption=f"{PIECES} launches of {PIECE:,} additions each, from an idle {{machine}}, over their number; the small kernels are in the time.",
        )
    )

# %% [markdown]
# On {{ ask.n | , }} elements the slowest takes {{ gpu.ratio | .2f }} times as long as the
# fastest. CUDA C with a number a thread takes {{ gpu.narrow | us }}, and Triton's with wide loads
# {{ gpu.wide | us }}. A launch costs
# {{ host.each.cuda_python | .1f }} µs through the driver's own call, {{ host.each.cupy | .1f }} µs
# through CuPy, {{ host.each.torch_add | .1f }} µs as `torch.add`, {{ host.each.triton | .1f }} µs
# through Triton and {{ host.each.torch_compile | .1f }} µs through `torch.compile`. These are prices of
# one host and its Python, and a CUDA graph takes them away from all of them alike.
#
# The H100's record has Numba as well. Its version of CUDA C's kernel takes {{ gpu.numba | us }}, and a launch
# {{ host.each.numba | .1f }} µs, or {{ host.each.numba_cupy_s_arrays | .1f }} µs if the arrays are CuPy's.

# %% [markdown]
# And the softmax, on rows of {{ made.cols | , }}, on an H100? CUDA C and Numba walk over a row three times and
# write it, {{ rows.passes }} passes; Triton holds it, {{ rows.one_pass }} passes. They take
# {{ rows.cuda | us }} and {{ rows.numba | us }}, and Triton {{ rows.triton | us }}, a factor of
# {{ rows.times | .2f }}; `torch.softmax` takes {{ rows.torch | us }}. It is not that CUDA C cannot hold
# a row: [the lesson on softmax](../attention/softmax.py) does it, in forty lines. In Triton it was the
# way that suggested itself. That Numba's version of the same text takes longer fits its registers,
# {{ rows.registers_numba }} a thread for {{ rows.registers }}: an SM holds {{ rows.blocks_numba }} of
# its blocks in place of {{ rows.blocks }}, so fewer loads are on their way. That this is the reason is
# not shown here.

# %% [markdown]
# ## The answer
#
# While the GPU adds, all that were recorded lie within a factor of {{ gpu.ratio | .2f }}, and what is left of that is
# the width of a load. While the host launches, the factor is {{ host.ratio | .1f }}, from
# {{ host.fastest }} to {{ host.slowest }}; it matters for kernels shorter than a launch.
#
# On a softmax the texts differed in more than their language, and it showed: a factor of
# {{ rows.times | .2f }} on an H100. The language decides none of the three directly. It decides who chooses:
# the width of loads, the place of a tile, the size of a block.

# %% [markdown]
# ## Takeaways
#
# - Every front end ends in SASS, most by way of PTX; the machine code shows what was decided, whoever
#   decided it.
# - CUDA C and Numba say what a thread does, Triton what a block does, PyTorch what is wanted. The
#   compiler decides what the text leaves open.
# - Arrays go from CuPy to PyTorch to Numba without a copy, by address.
# - Launching costs the host {{ host.each.cuda_python | .1f }} to {{ host.ratio | .1f }} times that,
#   depending on the front end. Kernels that run longer than their launch hide it.
# - Defaults are decisions too: 64-bit numbers in Numba, \TF32 in `tl.dot`.

# %% fold="The whole cell, with three wrong answers that the tests turn down"
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
SWAPPED = Kernel(
    MEAN_SOURCE.replace(
        "int i = blockIdx.x * blockDim.x + threadIdx.x", "int j = blockIdx.x * blockDim.x + threadIdx.x"
    ).replace(
        "int j = blockIdx.y * blockDim.y + threadIdx.y", "int i = blockIdx.y * blockDim.y + threadIdx.y"
    )
)
BY_ROWS = Kernel(
    MEAN_SOURCE.replace("i * cols + j", "i * rows + j").replace("(i + 1) * cols", "(i + 1) * rows")
)
ONE_MORE_ROW = Kernel(MEAN_SOURCE.replace("i + 2 < rows", "i + 1 < rows"))


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
    Write this kernel of Numba's in CUDA C, as `mean_of_three(const float* x, float* y, int rows, int cols)`.
    It is launched in both with blocks of 8 by 4 threads, and with enough of them for `rows` by `cols`.

        @cuda.jit
        def mean_of_three(x, y):
            i, j = cuda.grid(2)
            if i < x.shape[0] - 2 and j < x.shape[1]:
                y[i, j] = (x[i, j] + x[i + 1, j] + x[i + 2, j]) / 3

    Which of the two indices runs along the lanes of a warp, and what would you change about that?
    """,
    answer=MEAN_OF_THREE,
    tests=port_tests,
    wrong=[SWAPPED, BY_ROWS, ONE_MORE_ROW],
    hint="The first number of cuda.grid(2) comes from threadIdx.x, and it counts rows here.",
    explanation="Lanes run along i, down a column, so they are not coalesced in either language; swapping the roles of x and y, in the launch as well, repairs that. Numba computes the division in 64 bits, since its 3 is a 64-bit integer.",
)

# %% [markdown]
# Front ends leave decisions to compilers. How good are those, and where do they end?
# [The next page](compilers.py) gives three programs to one and reads what comes out.
