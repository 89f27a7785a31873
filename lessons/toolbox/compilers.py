# ---
# title: "torch.compile: what a compiler fuses"
# needs: [toolbox/front_ends, memory/fusion, matmul/alignment, attention/softmax]
# summary: "torch.compile makes four lines of attention many times faster. Add one operation in the middle, and most of the speedup is gone. What does the compiler do?"
# description: "What torch.compile does with a softmax, a GEMM with an epilogue and attention: fusion, rules, padding, autotuning, and the limits of each."
# date: 2026-11-21
# tags: [torch.compile, TorchInductor, Triton, autotuning, attention]
# ---

# %% [markdown]
# Attention takes four lines of PyTorch. `torch.compile` makes them {{ took.gain | .1f }}× faster, as if it had invented
# FlashAttention.
#
# Now limit the scores with a `tanh`, the *soft cap* of [Gemma 2](https://arxiv.org/abs/2408.00118). Even when compiled,
# this version is only {{ took.capped_gain | .1f }}× faster than in eager mode, and {{ took.lost | .1f }}× slower than
# compiled attention without the cap. What does the compiler do to one program and not to the other?

# %% fold="Imports"
import re
from importlib.util import find_spec

import numpy as np

from tilewise import Guess, Kernel, Table, gpu_here, measure, parallel, publish, show
from tilewise.figures import bars
from tilewise.frameworks import tl, torch, triton
from tilewise.measurements import Numbers, medians_us, printed, printed_numbers, recorded
from tilewise.outputs import Cell

HERE = "toolbox/compilers"

# %% fold="Code of the figure"
TOOK = printed_numbers(HERE, "attention", r"^([a-z ,]+): (\d+) us")
TOOK_MB = printed_numbers(HERE, "attention", r"^([a-z ,]+): \d+ us, (\d+) MB")
WAYS = {  # by their names in the record
    "attention, line by line": "attention, eager",
    "attention, compiled": "attention, torch.compile",
    "bent attention, line by line": "soft-capped, eager",
    "bent attention, compiled": "soft-capped, torch.compile",
}
EAGER_US, ATTENTION_US, CAP_US, CAPPED_US = (TOOK[way] for way in WAYS)
if TOOK:
    assert EAGER_US > 5 * ATTENTION_US and CAPPED_US > 5 * ATTENTION_US, "the title"
    show(
        bars(
            {label: TOOK[way] / 1000 for way, label in WAYS.items()},
            x="time [ms]",
            form=".1f",
            title="A soft cap on the scores costs most of the compiler's speedup",
            caption="Attention in PyTorch on an H100, with and without a soft cap on the scores: 2 × 16 heads of 4,096 queries and keys, head dimension 64, BF16.",
        )
    )

# %% [markdown]
# ## Three programs
#
# We compile three programs. In a *softmax*, each result depends on every element of its row. In a *linear layer*, a
# GEMM is followed by pointwise operations, called its *epilogue*. *Attention* has a softmax between two GEMMs.
#
# ??? definition "Epilogue | epilogues"
#     What a GEMM kernel does to its results before it stores them, such as adding a bias, an \activation or a
#     conversion.


# %%
def softmax_of_rows(x):
    e = torch.exp(x - x.amax(-1, keepdim=True))
    return e / e.sum(-1, keepdim=True)


def linear_relu(a, b, bias):
    return torch.relu(a @ b + bias)


def attention(q, k, v):
    scores = q @ k.transpose(-1, -2)
    scores = scores / 8
    weights = torch.softmax(scores, dim=-1)
    return weights @ v


# %% [markdown]
# ## Predict: sweeps over memory
#
# In eager mode, these programs are memory-bound, so count *sweeps*: the number of times that the largest array is read
# or written in full. The softmax, written out as five operations, has eight:
#
# | operation | sweeps |
# |---|---|
# | `x.amax` | 1 read |
# | `x - ...` | 1 read, 1 write |
# | `torch.exp` | 1 read, 1 write |
# | `e.sum` | 1 read |
# | `e / ...` | 1 read, 1 write |
#
# [TorchInductor](../memory/fusion.py#torchcompile-fusion-by-a-compiler), the compiler behind `torch.compile`, fuses
# neighbours: pointwise operations, and reductions over a row that fits on chip. So the softmax should become one read
# and one write. To the compiler, a library's GEMM is a black box, so fusion stops there.

# %% fold="Code of the figure"
SWEEPS = {
    "softmax": {"eager": 8, "neighbours fused": 2, "by hand": 2},
    "linear layer": {"eager": 5, "neighbours fused": 3, "by hand": 1},
    "attention": {"eager": 6, "neighbours fused": 4, "by hand": 0},
}
show(
    bars(
        SWEEPS,
        x="sweeps over the largest array",
        roles={"eager": "waste", "neighbours fused": "predicted", "by hand": "block"},
        title="Fusing neighbours is enough for a softmax, but not around a GEMM",
        caption="How many times the rows of the softmax, the output of the GEMM or the score matrix are read or written, counted from the program text. 'By hand' is what a kernel written for the whole program can reach.",
        form=".0f",
    )
)

# %% [markdown]
# ## Profile: which kernels really run?
#
# `torch.profiler` lists the kernels. A kernel with `triton` in its name was generated, `nvjet` indicates cuBLAS, and
# `at::native` marks one of PyTorch's own kernels. In the recorded output, "line by line" means eager mode, "product
# with epilogue" is the linear layer, and "bent attention" is attention with the soft cap.

# %% needs="gpu torch" record="what_runs" fold="Code that compiles the programs and lists their kernels"
if gpu_here() and find_spec("torch"):
    from torch.autograd import DeviceType
    from torch.profiler import ProfilerActivity, profile

    def bent_attention(q, k, v):
        scores = 20 * torch.tanh(q @ k.transpose(-1, -2) / 160)
        return torch.softmax(scores, dim=-1) @ v

    def kernels_of(work, given):
        """Names of the kernels that a call starts, in order, and its result."""
        for _ in range(3):  # compiled, loaded, and the profiler started once
            with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen:
                result = work(*given)
                torch.cuda.synchronize()
        events = sorted(
            (event for event in seen.events() if event.device_type == DeviceType.CUDA),
            key=lambda event: event.time_range.start,
        )
        return [one.name for one in events if "Sync" not in one.name and "Mem" not in one.name], result

    def short(name):
        """A kernel's name without its types, cut where it gets long."""
        return re.sub(r"<.*|\(.*", "", name.removeprefix("void "))[:60]

    def random(*shape, kind=torch.bfloat16):
        return torch.randn(*shape, device="cuda", dtype=kind)

    TUNED = {"max_autotune": True, "max_autotune_gemm_backends": "TRITON"}
    rows = (random(4096, 4096, kind=torch.float32),)
    linear = (random(4096, 512), random(512, 4096), random(4096))
    heads = tuple(random(2, 16, 2048, 64) for _ in range(3))
    for name, work, given in (
        ("softmax", softmax_of_rows, rows),
        ("product with epilogue", linear_relu, linear),
        ("attention", attention, heads),
        ("bent attention", bent_attention, heads),
    ):
        names, right = kernels_of(work, given)
        print(f"{name}, line by line: {len(names)} kernels: {', '.join(map(short, names))}")
        ways = [("compiled", {})] + [("compiled, product in Triton", TUNED)] * (given is linear)
        for way, options in ways:
            torch.compiler.reset()
            with torch.no_grad():
                names, result = kernels_of(torch.compile(work, options=options, dynamic=False), given)
            off = (result.float() - right.float()).abs().max() / right.float().abs().max()
            print(f"{name}, {way}: {len(names)} kernels: {', '.join(map(short, names))}")
            print(f"    off by {off.item():.1e} of the largest result")

# %% fold="Code of the table"
RAN = printed_numbers(HERE, "what_runs", r"^([a-z ]+), ([^:]+): (\d+) kernels")
PROGRAMS = {
    "softmax": "softmax",
    "linear layer": "product with epilogue",
    "attention": "attention",
    "soft-capped attention": "bent attention",
}
NAMES = dict(re.findall(r"(?m)^([a-z ]+), compiled: \d+ kernels: (.*)$", printed(HERE, "what_runs")))


def shortened(name):
    """A kernel's name up to where it stops being words that a reader looks for."""
    return re.sub(r"_sm90.*|_fused_(?:div|_softmax).*(?=softmax_online)|__softmax.*", "…", name)


if NAMES:
    show(
        Table(
            ["program", "eager", "compiled", "kernels when compiled"],
            [
                [
                    program,
                    RAN[name, "line by line"],
                    RAN[name, "compiled"],
                    Cell(", ".join(map(shortened, NAMES[name].split(", "))), None, None, "code"),
                ]
                for program, name in PROGRAMS.items()
            ],
            caption="Kernels per call in eager mode and compiled, as recorded by torch.profiler on an {machine}; names shortened.",
        )
    )
publish(
    tuned=RAN["product with epilogue", "compiled, product in Triton"],
    flash="the flash kernel of cuDNN"
    if re.search("(?m)^attention, compiled: .*cudnn.*flash", printed(HERE, "what_runs"))
    else "not that of a known flash kernel",
)

# %% [markdown]
# The softmax becomes one kernel and the linear layer two, as predicted. With `max_autotune`, TorchInductor may generate
# the GEMM itself and fuse the epilogue into it; the layer then takes {{ tuned }} kernel instead of 2. Soft-capped
# attention keeps its two library GEMMs, with one generated kernel in between.
#
# But attention without the cap is a single kernel, {{ flash }}. Fusing neighbours can't produce
# that; [pattern matching](#pattern-matching-why-attention-becomes-one-kernel) does.

# %% [markdown]
# ## Online softmax: a rule, not a discovery
#
# The softmax kernel's name contains `softmax_online`. For rows of 1,024 elements, a program instance holds the whole
# row: it loads the row once, computes its maximum and sum, and stores the result once. Longer rows don't fit. For them,
# [online softmax](../attention/softmax.py#online-softmax-maximum-and-sum-in-one-pass) saves a read, since it computes
# the maximum and the sum in a single pass.
#
# The compiler didn't discover that. Its developers gave it a rule for the pattern "maximum, then sum of
# exponentials", based on an identity published by [Milakov and Gimelshein](https://arxiv.org/abs/1805.02867).

# %% needs="gpu torch" record="generated" fold="Code that prints what was generated"
if gpu_here() and find_spec("torch"):
    from torch._inductor.utils import run_and_get_code

    def generated(work, *given):
        """The Triton kernels that were written for a function, each as a text."""
        torch.compiler.reset()
        _, texts = run_and_get_code(torch.compile(work, dynamic=False), *given)
        kernels = re.findall(r"^@triton\.jit\n(.*?)^'''", texts[0], re.S | re.M)
        return [kernel.strip() for kernel in kernels]

    print("\n\n".join(generated(softmax_of_rows, torch.randn(16384, 1024, device="cuda"))), end="\n\n")
    for cols in (1024, 65536):
        texts = generated(softmax_of_rows, torch.randn(2**24 // cols, cols, device="cuda"))
        counts = [sum(text.count(what) for text in texts) for what in ("tl.load(", "for ", "tl.store(")]
        print(
            f"rows of {cols}: {len(texts)} kernels, {counts[0]} loads, {counts[1]} loops, {counts[2]} stores"
        )

# %% fold="Code of the numbers"
LONG = re.search(r"rows of 65536: (\d+) kernels", printed(HERE, "generated"))
publish(walks={"long_kernels": int(LONG[1]) if LONG else np.nan})

# %% [markdown]
# A rule applies only where its pattern survives. For example, 256 rows of 65,536 elements are too few to fill the GPU,
# so TorchInductor splits each row among several program instances. The split turns the rule off, as a compiler warning
# points out, and the resulting {{ walks.long_kernels }} kernels read each row three times. The course's own [softmax
# for long rows](../attention/softmax.py#long-rows-one-thread-block-cluster-per-row) reads each row once.[^logs]
#
# [^logs]: Set `TORCH_LOGS=output_code` before you import PyTorch to see the generated code, or `TORCH_LOGS=fusion` to see
#     what was fused and what wasn't.

# %% [markdown]
# ## Epilogue fusion in a GEMM
#
# In a handwritten kernel, the epilogue is part of the line that stores the result. This kernel adds the bias and
# applies ReLU to its accumulator, so the result is written once and never read back.


# %% tab="Pseudocode"
def product_bias_relu(A, B, b, C):
    (M, K), N = A.shape, B.shape[1]
    for i, j in parallel(M, N):
        acc = 0.0
        for k in range(K):
            acc += A[i, k] * B[k, j]
        # [epilogue
        C[i, j] = max(acc + b[j], 0.0)
        # epilogue]


# %% tab="CUDA C"
LINEAR = r"""
#define T 16

// This thread's element of A B. All row-major: A is M x K, B is K x N. Any sizes.
// Block: 16 x 16 threads. Grid: ceil(N / 16) x ceil(M / 16) blocks.
__device__ float gemm_element(const float* A, const float* B, int M, int N, int K) {
    __shared__ float smem_a[T][T], smem_b[T][T];
    int x = threadIdx.x, y = threadIdx.y;
    int i = blockIdx.y * T + y, j = blockIdx.x * T + x;
    float acc = 0.0f;
    for (int k0 = 0; k0 < K; k0 += T) {
        smem_a[y][x] = i < M && k0 + x < K ? A[i * K + k0 + x] : 0.0f;
        smem_b[y][x] = k0 + y < K && j < N ? B[(k0 + y) * N + j] : 0.0f;
        __syncthreads();  // both tiles are complete
        for (int k = 0; k < T; ++k) acc += smem_a[y][k] * smem_b[k][x];
        __syncthreads();  // everyone has read them
    }
    return acc;
}

// C = ReLU(A B + b), launched as above.
extern "C" __global__
void product_bias_relu(const float* A, const float* B, const float* b, float* C,
                       int M, int N, int K) {
    float acc = gemm_element(A, B, M, N, K);
    int i = blockIdx.y * T + threadIdx.y, j = blockIdx.x * T + threadIdx.x;
    // [epilogue
    if (i < M && j < N) C[i * N + j] = fmaxf(acc + b[j], 0.0f);
    // epilogue]
}
"""
FUSED = Kernel(LINEAR)

# %%
M, N, K = 37, 41, 29
A, B, b = (np.ones(shape, np.float32) for shape in ((M, K), (K, N), (N,)))
C = np.zeros((M, N), np.float32)
FUSED(A, B, b, C, M, N, K, grid=(3, 3), block=(16, 16))
print((C == K + 1).all())


# %% fold="The same in three launches; code of the checks"
from tilewise import agree, case, ceil_div, check, normal, output
from tilewise.kernel.chains import run_chain
from tilewise.measurements.references import product_inputs

UNFUSED = r"""
// P = A B, launched as above.
extern "C" __global__
void product_alone(const float* A, const float* B, float* P,
                   int M, int N, int K) {
    float acc = gemm_element(A, B, M, N, K);
    int i = blockIdx.y * T + threadIdx.y, j = blockIdx.x * T + threadIdx.x;
    if (i < M && j < N) P[i * N + j] = acc;
}

// S = P + b, one thread per element, M N below 2^31.
extern "C" __global__
void add_bias(const float* P, const float* b, float* S, int M, int N) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < M * N) S[at] = P[at] + b[at % N];
}

// C = ReLU(S), one thread per element.
extern "C" __global__
void relu(const float* S, float* C, int M, int N) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < M * N) C[at] = fmaxf(S[at], 0.0f);
}
"""
PRODUCT = Kernel(LINEAR + UNFUSED, "product_alone")
ADD_BIAS = PRODUCT.named("add_bias")
RELU = PRODUCT.named("relu")


def layer(M, N, K, pointwise=False):
    """A linear layer of M by K and K by N: blocks of 16 by 16 threads, or of 256 for the pointwise kernels."""
    tiled = {"grid": (ceil_div(N, 16), ceil_div(M, 16)), "block": (16, 16)}
    launch = {"grid": ceil_div(M * N, 256), "block": 256} if pointwise else tiled
    layer = {"b": normal(N), "P": output(M, N), "S": output(M, N)}
    return case(**product_inputs(M, N, K), **layer, **launch)


def in_three(M, N, K):
    return [PRODUCT.on(layer(M, N, K)), *(one.on(layer(M, N, K, True)) for one in (ADD_BIAS, RELU))]


near = {"rtol": 1e-5, "atol": 1e-5}
agree(product_bias_relu, FUSED, [layer(37, 41, 29), layer(65, 33, 70)], **near)
arrays = run_chain(in_three(37, 41, 29))
right = np.maximum(arrays["A"].astype(float) @ arrays["B"] + arrays["b"], 0)
check(arrays["C"], right, **near, name="the same in three launches")


# %% [markdown]
# Run the GEMM with and without its epilogue. What do the bias and the ReLU cost?

# %% fold="Code of the run"
from tilewise import try_it

EPILOGUES = {"fused epilogue": FUSED, "GEMM alone": PRODUCT}
try_it(dict.fromkeys(EPILOGUES, lambda M, N: layer(M, N, 29)), EPILOGUES, M=(1, 37, 64), N=(1, 41, 64))


# %% fold="Code of the measurement"
def layer_in_torch(compiled, exact=True):
    def prepare(arrays):
        import torch

        torch.compiler.reset()
        torch.set_float32_matmul_precision("highest")
        a, b, bias = (torch.as_tensor(arrays[name], device="cuda") for name in ("A", "B", "b"))
        work = torch.compile(linear_relu, dynamic=False) if compiled else linear_relu
        work(a, b, bias)
        return lambda: work(a, b, bias)

    return prepare


timed = measure(
    "epilogues",
    variants={
        "three kernels": in_three,
        "fused epilogue": lambda M, N, K: FUSED.on(layer(M, N, K)),
    },
    cases=[{"M": 8192, "N": 4096, "K": 128}],
    count_case={"M": 64, "N": 64, "K": 32},
    bytes=lambda M, N, K: 4 * (M * K + K * N + N + M * N),
    flop=lambda M, N, K: 2 * M * N * K,
    library={"PyTorch, eager": layer_in_torch(False), "torch.compile": layer_in_torch(True)},
    reference=lambda A, B, b: {"C": np.maximum(A @ B + b, 0)},
    tolerance=1e-4,
    reasons={"*": "Epilogue fusion in a GEMM"},
    fold="All four rows",
    guess=Guess(
        "How much faster is the compiled layer than eager PyTorch?",
        of="torch.compile",
        over="PyTorch, eager",
        between=(0.5, 6),
        models={"sweeps over the result": 5 / 3},
        because="The GEMM itself takes as long as before. Fusion saves two of five sweeps over its result.",
    ),
)
us = medians_us(timed)
BY_COMPILER = (us["PyTorch, eager"] - us["torch.compile"]) / 2
publish(
    layer={
        "eager": us["PyTorch, eager"],
        "compiled": us["torch.compile"],
        "by_compiler": BY_COMPILER,
    }
)
by_hand = (us["three kernels"] - us["fused epilogue"]) / 4
if np.isfinite(by_hand):
    assert abs(by_hand / BY_COMPILER - 1) < 0.25, "the text says about the same length"
    assert us["fused epilogue"] > us["PyTorch, eager"], "the text says that ours can't keep up"

# %% [markdown]
# Fusion pays off when the GEMM itself is quick, as here with $K$ = 128. Compiling cuts the layer's time from
# {{ layer.eager | us }} to {{ layer.compiled | us }}: it saves two of five sweeps, about {{ layer.by_compiler | us }}
# each.
#
# Our own kernels use the first [tiled GEMM](../matmul/tiling.py#the-tiled-kernel), which is much slower than cuBLAS. So
# even the fused version can't keep up with eager PyTorch. `kernels.matmul(a, b, bias, "relu")` fuses bias and
# \activation into a fast GEMM.

# %% [markdown]
# ## Padding at compile time
#
# A GEMM with 50,257 columns was [several times slower](../matmul/alignment.py#50257-tokens-gpt-2s-vocabulary) than one
# with 50,304, because its rows aren't aligned. A compiler can't change the shape of a result, but it can pad the
# weights first. That costs a copy, so TorchInductor times both variants at compile time.

# %% needs="gpu torch" record="padding" fold="Code that compiles a product with an odd number of columns"
if gpu_here() and find_spec("torch"):
    from tilewise.gpu.timing import Contender, Plan, time_contenders

    def project(x, weights):
        return x @ weights.t()

    def timed_ms(**calls):
        """Medians in milliseconds of several calls in turn."""
        contenders = [Contender(name, call) for name, call in calls.items()]
        return {one.label: one.median / 1000 for one in time_contenders(contenders, Plan(repetitions=7))}

    x = torch.randn(16384, 768, device="cuda", dtype=torch.bfloat16)
    odd, even = (torch.randn(V, 768, device="cuda", dtype=torch.bfloat16) for V in (50257, 50304))
    torch.compiler.reset()
    padded = torch.compile(project, dynamic=False)
    with torch.no_grad():
        names, result = kernels_of(padded, (x, odd))
        print(f"kernels for 50257 columns: {', '.join(map(short, names))}")
        print(f"same result: {torch.allclose(result, project(x, odd), rtol=1e-2, atol=1e-1)}")
        del result
        times = timed_ms(
            eager=lambda: project(x, odd), compiled=lambda: padded(x, odd), even=lambda: project(x, even)
        )
    for name, ms in times.items():
        print(f"{name}: {ms:.2f} ms")
    del x, odd, even

# %% fold="Code of the numbers"
PAD_MS = printed_numbers(HERE, "padding", r"^(\w+): ([\d.]+) ms")
RAN_PADDED = re.search(r"(?m)^kernels for .*", printed(HERE, "padding"))
publish(pad={way: PAD_MS[way] for way in ("eager", "compiled", "even")})
if RAN_PADDED:
    assert len(RAN_PADDED[0].split(", ")) == 2, "the text says: a copy of the weights and the GEMM"

# %% [markdown]
# TorchInductor chooses to pad, which cuts the time from {{ pad.eager | .1f }} ms to {{ pad.compiled | .2f }} ms. A
# generated kernel copies the weights. The result needs no copy: a view of its first 50,257 columns is enough. With
# 50,304 columns from the start, you save the copy of the weights too, and the GEMM takes {{ pad.even | .2f }} ms.

# %% [markdown]
# ## Autotuning: try the tile sizes
#
# Which tile is best? To find out, a compiler can *autotune*: time several settings on the GPU and keep the fastest.
# This Triton GEMM leaves all its parameters open: the tile sizes, the number of warps per block, and the number of
# stages (tiles in flight).
#
# ??? definition "Autotuning"
#     Timing several settings of a kernel on the machine at hand and keeping the fastest.


# %% tab="Triton" needs="torch triton"
@triton.jit
def product_blocks(
    A, B, C, M, N, K: tl.constexpr,
    TM: tl.constexpr, TN: tl.constexpr, TK: tl.constexpr,
):  # fmt: skip
    i = (tl.program_id(1) * TM + tl.arange(0, TM))[:, None]
    j = (tl.program_id(0) * TN + tl.arange(0, TN))[None, :]
    s = tl.zeros((TM, TN), tl.float32)
    for k0 in range(0, K, TK):
        k = k0 + tl.arange(0, TK)
        down, across = k[:, None], k[None, :]
        a = tl.load(A + i * K + across, mask=(i < M) & (across < K), other=0.0)
        b = tl.load(B + down * N + j, mask=(down < K) & (j < N), other=0.0)
        s = tl.dot(a, b, s, input_precision="ieee")
    tl.store(C + i * N + j, s.to(C.dtype.element_ty), mask=(i < M) & (j < N))


def tuned(A, B, P, TM, TN, TK, **setting):
    (M, K), N = A.shape, B.shape[1]
    grid = (ceil_div(N, TN), ceil_div(M, TM))
    return product_blocks[grid](A, B, P, M, N, K, TM=TM, TN=TN, TK=TK, **setting)


def product_triton(A, B, P):
    tuned(A, B, P, TM=32, TN=64, TK=32)


# %% tab="PyTorch" needs="torch"
def product_torch(A, B, P):
    torch.matmul(A, B, out=P)


# %% [markdown]
# A larger tile needs fewer loads per multiply-add, $1/T_M + 1/T_N$, but at some point it no longer fits. A tile of 256
# × 256 with 256 threads has 256 accumulators per thread, and a thread has at most 255 registers, so that tile should
# spill. Try nine settings for BF16 matrices of 4,096 × 4,096.

# %% needs="gpu torch triton" record="choices" fold="Code that tries nine settings"
if gpu_here() and find_spec("triton") and find_spec("torch"):
    from triton.runtime.errors import OutOfResources

    from tilewise.gpu.timing import Contender, Plan, time_contenders

    A, B = (torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    P, right = torch.empty_like(A), A @ B
    contenders = [Contender("cuBLAS", lambda: torch.matmul(A, B, out=P))]
    for TM, TN, TK, warps, stages in (
        (32, 32, 32, 4, 3),
        (64, 64, 32, 4, 3),
        (128, 64, 64, 4, 3),
        (128, 128, 64, 4, 3),
        (128, 128, 64, 8, 3),
        (128, 256, 64, 8, 3),
        (128, 256, 64, 8, 4),
        (128, 256, 64, 8, 5),
        (256, 256, 64, 8, 3),
    ):
        name = f"{TM} x {TN} x {TK}, {warps} warps, {stages} ahead"
        setting = {"TM": TM, "TN": TN, "TK": TK, "num_warps": warps, "num_stages": stages}
        P.fill_(torch.nan)
        try:
            made = tuned(A, B, P, **setting)
        except OutOfResources as error:
            print(f"{name}: does not fit, {error.name} {error.required}, limit {error.limit}")
            continue
        print(f"{name}: {made.n_regs} registers, {made.n_spills} spilled")
        off = ((P - right).abs().max() / right.abs().max()).item()
        assert off < 1e-2, (name, off)
        contenders.append(Contender(name, lambda setting=setting: tuned(A, B, P, **setting)))
    for one in time_contenders(contenders, Plan(repetitions=25)):
        print(f"{one.label}: {one.median:.1f} us")

# %% fold="Code of the check and of the figure"
SOME = [layer(37, 41, 29), layer(65, 33, 70)]
agree(product_triton, PRODUCT, SOME, **near, by="Triton")
agree(product_torch, PRODUCT, SOME, **near, by="PyTorch")
CHOICES = printed_numbers(HERE, "choices", r"^(.*): ([\d.]+) us$")
RATES = Numbers({label: 2 * 4096**3 / time_us / 1e6 for label, time_us in CHOICES.items()})
settings = {label: rate for label, rate in RATES.items() if label != "cuBLAS"}
SPILLED = printed_numbers(HERE, "choices", r"^(.*): \d+ registers, (\d+) spilled$")
UNFIT = re.findall(r"(?m)^(.*): does not fit", printed(HERE, "choices"))
LARGEST = next((label for label in SPILLED if label.startswith("256 x 256")), "")
BEST, WORST = (pick(settings.values(), default=np.nan) for pick in (max, min))
publish(
    tune={
        "times": BEST / WORST,
        "spilled": int(SPILLED[LARGEST]) if SPILLED else np.nan,
        "of_cublas": BEST / RATES["cuBLAS"],
    }
)


def written(label):
    """A setting in the words of the page."""
    return label.replace(" ahead", " stages").replace(" x ", " × ")


if RATES:
    assert RATES["cuBLAS"] < BEST / 0.9, "the title says close"
    assert RATES[LARGEST] == WORST and len(UNFIT) == 1, "the text says so"
    assert RATES["cuBLAS"] > BEST, "a takeaway says that cuBLAS is faster"
    show(
        bars(
            {written(label): rate for label, rate in RATES.items()},
            x="rate [TFLOP/s]",
            form=".0f",
            roles=dict.fromkeys((written(label) for label in RATES), "measured") | {"cuBLAS": "block"},
            title="The best setting comes close to cuBLAS; the largest tile spills and is slowest",
            caption="BF16 GEMM of 4,096 × 4,096 matrices in Triton on an {machine}, by tile size M × N × K, warps and stages, with cuBLAS for comparison.",
        )
    )

# %% [markdown]
# The best setting is {{ tune.times | .0f }}× faster than the worst, and reaches {{ tune.of_cublas | .0%}} of cuBLAS.
# The worst is the largest tile, with {{ tune.spilled }} spilled registers per thread.
#
# Autotuning finds the best entry in a list. It never finds a structure that isn't on the list, such as the warp
# specialisation in this course's [Hopper GEMM](../matmul/hopper.py).

# %% [markdown]
# ## Pattern matching: why attention becomes one kernel
#
# The second GEMM of attention needs a row's softmax weights. In the program's order, no weight is known before the last
# score of the row. So fusing neighbours stops here. [FlashAttention](../attention/flash_forward.py), by [Tri Dao and
# others](https://arxiv.org/abs/2205.14135), uses another order: it multiplies with preliminary weights and corrects the
# result later.
#
# How did TorchInductor get a flash kernel, then? By *pattern matching*: it has a list of ways in which people write
# attention, recognises the four lines, and replaces them with a call to `scaled_dot_product_attention`, whose kernel
# was written by hand. With a soft cap, the program isn't on the list.[^flex]
#
# [^flex]: For such cases, PyTorch has `flex_attention`: a template for a flash kernel, into which the compiler inserts
#     your function of the scores.

# %% needs="gpu torch" record="attention" fold="Code of the comparison"
if gpu_here() and find_spec("torch"):
    from torch.nn.functional import scaled_dot_product_attention

    given = tuple(torch.randn(2, 16, 4096, 64, device="cuda", dtype=torch.bfloat16) for _ in range(3))
    torch.compiler.reset()
    ways = {
        "attention, line by line": attention,
        "attention, compiled": torch.compile(attention, dynamic=False),
        "bent attention, line by line": bent_attention,
        "bent attention, compiled": torch.compile(bent_attention, dynamic=False),
        "attention, one call": lambda q, k, v: scaled_dot_product_attention(q, k, v, scale=1 / 8),
    }
    calls, megabytes = [], {}
    with torch.no_grad():
        for name, work in ways.items():
            work(*given)  # compiled
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
            work(*given)
            megabytes[name] = (torch.cuda.max_memory_allocated() - before) / 1e6
            calls.append(Contender(name, lambda work=work: work(*given)))
        for one in time_contenders(calls, Plan(repetitions=15)):
            print(f"{one.label}: {one.median:.0f} us, {megabytes[one.label]:.0f} MB besides the inputs")

# %% fold="Code of the numbers"
COPY_GB_PER_S = recorded("epilogues.ceilings.probes.copy_gb_per_s")
SCORES_MB = 2 * 2 * 16 * 4096**2 / 1e6
SWEEP_MS = SCORES_MB / COPY_GB_PER_S
publish(
    scores={"sweep_ms": SWEEP_MS, "cap_ms": 4 * SWEEP_MS, "merged_ms": 4 * SWEEP_MS},
    took={
        "gain": EAGER_US / ATTENTION_US,
        "capped_gain": CAP_US / CAPPED_US,
        "lost": CAPPED_US / ATTENTION_US,
        "cap_ms": (CAP_US - EAGER_US) / 1000,
        "capped_ms": CAPPED_US / 1000,
        "mb_capped": TOOK_MB["bent attention, compiled"],
        "mb_one": TOOK_MB["attention, one call"],
    },
)
if TOOK:
    assert TOOK["attention, one call"] < 1.05 * ATTENTION_US, "the text says that it is the same kernel"
    assert TOOK_MB["bent attention, compiled"] > SCORES_MB, "the text says that the score matrix stays"

# %% [markdown]
# Memory use shows the difference. Even when compiled, attention with the soft cap needs {{ took.mb_capped | ,.0f }} MB
# in addition to its inputs, most of it for the score matrix. The flash kernel needs only {{ took.mb_one | .0f }} MB.
#
# Sweeps also explain the time. At the rate of a copy, a sweep over the scores takes {{ scores.sweep_ms | .2f }} ms. In
# eager mode, the cap adds two pointwise kernels (the uncapped scores are scaled too), or four sweeps. They should cost
# {{ scores.cap_ms | .1f }} ms, and the measured difference is {{ took.cap_ms | .1f }} ms. The compiled version's four
# sweeps account for {{ scores.merged_ms | .1f }} of its {{ took.capped_ms | .1f }} ms.

# %% [markdown]
# ## What to leave to a compiler
#
# |  | the compiler | what's left to you |
# | --- | --- | --- |
# | pointwise chains | fuses them |  |
# | maximum and sum of a row | fuses them, by rules; splits a few long rows | a long row kept on chip |
# | epilogue of a GEMM | fuses it, if it generates the GEMM | the fastest GEMM and its epilogue in one |
# | odd shapes | pads, with a copy, if that's faster | choosing another shape |
# | tile sizes, warps, stages | tries a list | the list, and other structures |
# | softmax between two GEMMs | recognises known programs | another order of computation |

# %% [markdown]
# ## The answer
#
# In eager mode, where `torch.softmax` is a single kernel, attention makes six sweeps over its scores, and ten with the
# soft cap. Fusing neighbours leaves four in either case, and that's all that the compiler does for the soft-capped
# version. The {{ took.gain | .1f }}× speedup without the cap comes from people who found an order in which the scores
# never leave the chip, wrote a kernel for it, and taught the compiler which programs to replace.

# %% [markdown]
# ## Takeaways
#
# - A compiler keeps your program's order and fuses neighbours: pointwise operations and reductions over a row. The
#   softmax goes from eight sweeps to two.
# - A library GEMM stops fusion. A generated GEMM can fuse its epilogue, but the best one here reached only
#   {{ tune.of_cublas | .0%}} of cuBLAS's rate.
# - Online softmax and FlashAttention change the order of computation. People built them into the compiler as rules,
#   and a small change to your program can switch a rule off.
#
# ## In your own kernel
#
# List the kernels before and after `torch.compile` with `torch.profiler`, and read their names: `flash`, `online` and
# `fused` show which rules matched. If `dram__bytes_write.sum` in Nsight Compute is still a whole matrix larger than
# what your algorithm has to write, fusion hasn't removed that matrix; change the order of the computation.
#
# For a summary of this part, see the [recap](../../recap.md#toolbox).

# %% fold="Code of the exercise, with three wrong answers that the tests reject"
from tilewise import exercise


def sweeps(steps):
    total = 0
    held = False  # is the array on chip when the next step begins?
    for kind in steps:
        if kind == "gemm":  # reads or writes the array; nothing stays on chip
            total += 1
            held = False
        elif not held:
            total += 2
            held = True
    return total


def sweep_tests(answer):
    for steps, right in (
        (["pointwise"] * 5, 2),
        (["gemm", "pointwise", "row", "gemm"], 4),
        (["gemm", "pointwise", "gemm", "pointwise", "row"], 6),
        (["gemm", "gemm"], 2),
        (["row", "pointwise", "gemm", "row", "pointwise", "gemm", "pointwise"], 8),
    ):
        given = answer(list(steps))
        assert given == right, f"{' → '.join(steps)}: {given} sweeps, not {right}"


exercise(
    "Sweeps that fusion leaves",
    """
    A program is a list of steps on one large array: `"pointwise"`, `"row"` (a softmax or a sum of a row that
    fits on chip) or `"gemm"`. A library's GEMM counts as one sweep, since it either writes the array
    or reads it. Neighbouring steps of the other kinds are fused into one kernel, which reads the array once
    and writes it once. Write `sweeps(steps)`, which returns the number of sweeps.
    """,
    answer=sweeps,
    tests=sweep_tests,
    wrong=[
        {"total += 1\n            held = False": "pass"},
        {"elif not held": "else"},
        {"total += 1\n            held = False": "total += 1"},
    ],
    hint="Go through the list and remember whether the current step can be fused with the previous one.",
)
