# ---
# title: What a compiler can do
# needs: [toolbox/front_ends, memory/fusion, matmul/alignment, attention/softmax]
# summary: "Attention in four lines of PyTorch. How many kernels does torch.compile make of it, and why not one?"
# description: "What torch.compile makes of softmax, of a product with an epilogue and of attention: fusion, padding, autotuning, and the limit of each."
# date: 2026-11-21
# tags: [torch.compile, TorchInductor, Triton, autotuning, attention]
# ---

# %% [markdown]
# Attention can be written in four lines of PyTorch, each of them an operation on a whole matrix. Run
# as they stand they write and read a matrix of scores, one number for each pair of a query and a key,
# {{ attention.passes.eager }} times in all. [Fusion](../memory/fusion.py) is what a compiler is good at.
# How many of the {{ attention.passes.eager }} does it save, and who saves the rest?

# %% fold="Imports"
import re
from importlib.util import find_spec

import numpy as np

from tilewise import (
    Guess,
    Kernel,
    Table,
    agree,
    case,
    ceil_div,
    check,
    gpu_here,
    measure,
    normal,
    output,
    parallel,
    publish,
    show,
)
from tilewise.figures import bars
from tilewise.frameworks import tl, torch, triton
from tilewise.measurements import Numbers, medians_us, printed, printed_numbers, recorded

HERE = "toolbox/compilers"

# %% [markdown]
# ## Three programs
#
# In the first, elements of a row need its sum. In the second a product of matrices is followed by
# operations that are pointwise; what is done to a product's results before they are stored is called
# its epilogue. The third is attention, for one head: two products with a softmax of rows between them.
#
# ??? definition "Epilogue | epilogues"
#     What a kernel for a product does to its results before it stores them: a bias, an \activation, a
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
# ## Predict: passes over the large array
#
# Count how often the largest array of each program is read or written, broadcast arrays left out.
# Run line by line, every operation reads what it needs and writes what it makes. A compiler that
# merges neighbours keeps what a pointwise operation makes, and what the rows of a block make. It has
# to stop at a product, if that comes from a library.

# %% fold="Code of the figure"
PASSES = {
    "softmax": {"line by line": 8, "neighbours merged": 2, "one kernel": 2},
    "product with epilogue": {"line by line": 5, "neighbours merged": 3, "one kernel": 1},
    "attention": {"line by line": 6, "neighbours merged": 4, "one kernel": 0},
}
publish(
    attention={"passes": {"eager": 6, "merged": 4}, "saved": 6 - 4},
    softmax={"eager": 8, "merged": 2},
)
show(
    bars(
        PASSES,
        x="passes over the largest array",
        roles={"line by line": "waste", "neighbours merged": "predicted", "one kernel": "block"},
        title="Merging neighbours is enough for a softmax, and for nothing that holds a product",
        caption="How often the rows, the product's results or the matrix of scores cross the memory interface, by count. One kernel: what somebody who writes all of it by hand can reach.",
        form=".0f",
    )
)

# %% [markdown]
# ## What really runs
#
# The profiler's names of the kernels that each program starts, as it stands and compiled, on the
# recorded machine. A fourth program is attention with a bend in it: scores pass through `tanh` before
# the softmax, as in some models. Names that begin with `triton` were generated.

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

# %% fold="Code of the numbers"
RAN = printed_numbers(HERE, "what_runs", r"^([a-z ]+), ([^:]+): (\d+) kernels")
PROGRAMS = {
    "softmax": "softmax",
    "linear": "product with epilogue",
    "attention": "attention",
    "bent": "bent attention",
}
publish(
    ran={
        name: {"eager": RAN[program, "line by line"], "compiled": RAN[program, "compiled"]}
        for name, program in PROGRAMS.items()
    },
    tuned=RAN["product with epilogue", "compiled, product in Triton"],
    flash="a flash kernel of cuDNN"
    if re.search("(?m)^attention, compiled: .*cudnn.*flash", printed(HERE, "what_runs"))
    else "not that of a known flash kernel",
)

# %% [markdown]
# The softmax goes from {{ ran.softmax.eager }} kernels to {{ ran.softmax.compiled }}. The product with
# its epilogue goes from {{ ran.linear.eager }} to {{ ran.linear.compiled }}: the library's kernel is
# closed, so what follows it gets a launch of its own, and only if the product is written in Triton as
# well does it become {{ tuned }}. Attention goes from {{ ran.attention.eager }} to
# {{ ran.attention.compiled }}, the bent one from {{ ran.bent.eager }} to {{ ran.bent.compiled }}. The
# names tell how, and we come back to that.[^nameless]
#
# [^nameless]: One name is empty where attention runs line by line: torch's kernel for the softmax. Its name begins
#     with a parenthesis, at which names were cut.

# %% [markdown]
# ## A softmax, generated
#
# This is what TorchInductor wrote for rows of 1,024 numbers, and what it wrote for rows of 65,536 is
# counted below it.[^logs] A row of the first kind is held by one program instance: one load, one store,
# and between them `max` and `sum` along the row. A row that no instance holds has to be walked in pieces.
#
# [^logs]: `TORCH_LOGS=output_code` prints such text, `TORCH_LOGS=fusion` says what was merged and what
#     was not. [Where the sources differ](../../conventions.md#the-sources): the blog post sets it after
#     `import torch`, and by then it has been read.

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
LONG = re.search(
    r"rows of 65536: (\d+) kernels, (\d+) loads, \d+ loops, (\d+) stores", printed(HERE, "generated")
)
KERNELS, LOADS, STORES = map(int, LONG.groups()) if LONG else (np.nan,) * 3
publish(
    walks={
        "rows": 2**24 // 65536,
        "long_kernels": KERNELS,
        "long_loads": LOADS,
        "long_stores": STORES,
        "others": LOADS - 3,
    }
)

# %% [markdown]
# The name of that kernel has `online` in it, and so has the one for rows of 4,096 further up: that is
# [online softmax](../attention/softmax.py), maximum and sum in one walk along the row. It is mathematics;
# that a sum can be rescaled does not follow from the program's text. People taught the compiler this identity, as a rule about
# the pattern "maximum, then sum of exponentials".[^learnt]
#
# [^learnt]: [Where the sources differ](../../conventions.md#the-sources): the blog post says that a
#     compiler cannot find it. It did not find it, it was told; the switch
#     `TORCHINDUCTOR_ONLINE_SOFTMAX` turns the rule on and off.

# %% [markdown]
# For the long rows the rule should leave two loads of the row, one to sum and one to divide. What was written is
# {{ walks.long_kernels }} kernels with {{ walks.long_loads }} loads and {{ walks.long_stores }} stores. There are
# only {{ walks.rows }} such rows, so TorchInductor splits each among several program instances, and then the rule
# is off, as a warning says.[^split] The counts are those of the formula as it stands: maxima of pieces, the row's
# maximum, sums of pieces, the row's sum, the quotients. By that the row is read three times again.
#
# [^split]: "Online softmax is disabled on the fly since Inductor decides to split the reduction." The other
#     {{ walks.others }} loads are then maxima and sums. A kernel that keeps long rows on chip reads them once.

# %% [markdown]
# ## A product that takes its epilogue in
#
# By hand the epilogue is part of the line that stores. The tabs show a product with a bias and ReLU;
# the same without the two, and two kernels of a line each, are the version in three launches.


# %% tab="Pseudocode"
def product_bias_relu(A, B, b, C):
    (M, K), N = A.shape, B.shape[1]
    for i, j in parallel(M, N):
        s = 0.0
        for k in range(K):
            s += A[i, k] * B[k, j]
        # [epilogue
        C[i, j] = max(s + b[j], 0.0)
        # epilogue]


# %% tab="CUDA C"
LINEAR = r"""
#define T 16

__device__ float one_sum(const float* A, const float* B, int M, int N, int K) {
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
    return s;
}

extern "C" __global__
void product_bias_relu(const float* A, const float* B, const float* b, float* C,
                       int M, int N, int K) {
    float s = one_sum(A, B, M, N, K);
    int i = blockIdx.y * T + threadIdx.y, j = blockIdx.x * T + threadIdx.x;
    // [epilogue
    if (i < M && j < N) C[i * N + j] = fmaxf(s + b[j], 0.0f);
    // epilogue]
}

extern "C" __global__
void product_alone(const float* A, const float* B, float* P,
                   int M, int N, int K) {
    float s = one_sum(A, B, M, N, K);
    int i = blockIdx.y * T + threadIdx.y, j = blockIdx.x * T + threadIdx.x;
    if (i < M && j < N) P[i * N + j] = s;
}

extern "C" __global__
void add_bias(const float* P, const float* b, float* S, int M, int N) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < M * N) S[at] = P[at] + b[at % N];
}

extern "C" __global__
void relu(const float* S, float* C, int M, int N) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < M * N) C[at] = fmaxf(S[at], 0.0f);
}
"""
FUSED = Kernel(LINEAR, "product_bias_relu")

# %% fold="The three launches, the cases and the checks"
PRODUCT = FUSED.named("product_alone")
ADD_BIAS = FUSED.named("add_bias")
RELU = FUSED.named("relu")


def layer(M, N, K, pointwise=False):
    """A product of M by K and K by N with a bias: a block a tile of 16, or 256 results a block."""
    tiled = {"grid": (ceil_div(N, 16), ceil_div(M, 16)), "block": (16, 16)}
    return case(
        A=normal(M, K),
        B=normal(K, N, scale=K**-0.5),
        b=normal(N),
        P=output(M, N),
        S=output(M, N),
        C=output(M, N),
        M=M,
        N=N,
        K=K,
        **({"grid": ceil_div(M * N, 256), "block": 256} if pointwise else tiled),
    )


def in_three(M, N, K):
    return [PRODUCT.on(layer(M, N, K)), *(one.on(layer(M, N, K, True)) for one in (ADD_BIAS, RELU))]


near = {"rtol": 1e-5, "atol": 1e-5}
agree(product_bias_relu, FUSED, [layer(37, 41, 29), layer(65, 33, 70)], **near)
arrays = layer(37, 41, 29).make()
for step in in_three(37, 41, 29):
    step.run(arrays)
right = np.maximum(arrays["A"].astype(float) @ arrays["B"] + arrays["b"], 0)
check(arrays["C"], right, **near, name="the same in three launches")


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
        "three launches": in_three,
        "one launch": lambda M, N, K: FUSED.on(layer(M, N, K)),
    },
    cases=[{"M": 8192, "N": 4096, "K": 128}],
    count_case={"M": 64, "N": 64, "K": 32},
    bytes=lambda M, N, K: 4 * (M * K + K * N + N + M * N),
    flop=lambda M, N, K: 2 * M * N * K,
    library={"torch, line by line": layer_in_torch(False), "torch.compile": layer_in_torch(True)},
    reference=lambda A, B, b: {"C": np.maximum(A @ B + b, 0)},
    tolerance=1e-4,
    reasons={"*": "A product that takes its epilogue in"},
    guess=Guess(
        "How many times as fast as line by line is the compiled program?",
        of="torch.compile",
        over="torch, line by line",
        at={"M": 8192, "N": 4096, "K": 128},
        between=(0.5, 6),
        models={"passes over the result": 5 / 3},
        because="The product itself takes as long as before; what is saved are two of five passes over its results.",
    ),
)
us = medians_us(timed)
publish(
    layer={
        "three": us["three launches"],
        "one": us["one launch"],
        "eager": us["torch, line by line"],
        "compiled": us["torch.compile"],
        "pass_us": 4 * 8192 * 4096 / recorded("epilogues.ceilings.probes.copy_gb_per_s") / 1e3,
        "by_compiler": (us["torch, line by line"] - us["torch.compile"]) / 2,
        "by_hand": (us["three launches"] - us["one launch"]) / 4,
    }
)

# %% [markdown]
# A pass over the result of this product, {{ layer.pass_us | .0f }} µs at the rate of a copy, is short
# beside a slow product and long beside a fast one. By hand the three launches take
# {{ layer.three | us }} and the one {{ layer.one | us }}; torch takes {{ layer.eager | us }} line by
# line and {{ layer.compiled | us }} compiled. The compiler saves two of five passes, {{ layer.by_compiler | us }} for each,
# and the hand four, {{ layer.by_hand | us }} for each: more than a copy would take. But the
# compiler's product is the library's, and ours is one of the first of [its ladder](../matmul/register_tiles.py).

# %% [markdown]
# ## Padding
#
# [Rows that begin anywhere](../matmul/alignment.py) made a product with {{ pad.words | , }} columns
# several times as slow as one with {{ pad.round | , }}. Can a compiler repair that? It cannot change
# the shape of what the program returns, but it can add columns of zeros before the product and cut
# them off behind it. That costs copies, so TorchInductor times both ways while it compiles. Predicted
# from the lesson's record of an H100: the aligned product, {{ pad.aligned_was | .1f }} ms, and at most a copy of
# the result, {{ pad.copy | .1f }} ms, against {{ pad.odd_was | .1f }} ms.

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
WORDS, ROUND = 50257, 50304
PAD_MS = printed_numbers(HERE, "padding", r"^(\w+): ([\d.]+) ms")
FORWARD_US = printed_numbers("matmul/alignment", "projection", r"^(\d{5}): forward (\d+) us")
RAN_PADDED = re.search(r"(?m)^kernels for .*", printed(HERE, "padding"))
publish(
    pad={
        "words": WORDS,
        "round": ROUND,
        "odd_was": FORWARD_US[WORDS] / 1000,
        "aligned_was": FORWARD_US[ROUND] / 1000,
        "copy": 2 * 2 * 16384 * WORDS / 3000e6,
        "eager": PAD_MS["eager"],
        "compiled": PAD_MS["compiled"],
        "kernels": len(RAN_PADDED[0].split(", ")) if RAN_PADDED else np.nan,
        "even": PAD_MS["even"],
    }
)

# %% [markdown]
# Recorded on an H100: {{ pad.eager | .1f }} ms as it stands, {{ pad.compiled | .2f }} ms compiled, and
# {{ pad.even | .2f }} ms with {{ pad.round | , }} columns. TorchInductor pads, and the copy of the result that we
# allowed for is not made: {{ pad.kernels }} kernels ran, a generated one that copies the weights into wider rows, and
# the product. What is too much can stay where it is, for a view of the rest is a result as good. Padding the
# vocabulary by hand, once, when the model is made, needs no copy at all.

# %% [markdown]
# ## Autotuning
#
# Which tile is best? A compiler can reason about it, or try. Trying several settings on the real
# machine and keeping the fastest is autotuning. Here is Triton's product with everything open that one
# can choose: the tile's edges, the warps of a block, and how many tiles are fetched ahead.
#
# ??? definition "Autotuning"
#     Trying several settings of a kernel on the machine at hand and keeping the fastest.


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
# A tile of $T_M \times T_N$ loads $1/T_M + 1/T_N$ numbers for each multiply-add, so the larger the
# better, until a block no longer fits: its sums lie in \registers, its tiles in \shared memory. A tile
# of {{ tune.edge }} × {{ tune.edge }} among {{ tune.threads }} threads is {{ tune.sums }} sums for each,
# and a thread may have {{ tune.most }} registers: that one should spill and fall far behind. Nine
# settings were tried, on BF16 matrices of {{ tune.side | , }} rows.

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
OWN_US = recorded("hopper_ladder.even_waves.m_4096_n_4096_k_4096.median")
settings = {label: rate for label, rate in RATES.items() if label != "cuBLAS"}
SPILLED = printed_numbers(HERE, "choices", r"^(.*): \d+ registers, (\d+) spilled$")
UNFIT = re.findall(r"(?m)^(.*): does not fit", printed(HERE, "choices"))
LARGEST = next((label for label in SPILLED if label.startswith("256 x 256")), "")
BEST, WORST = (pick(settings.values(), default=np.nan) for pick in (max, min))
publish(
    tune={
        "side": 4096,
        "edge": 256,
        "threads": 8 * 32,
        "sums": 256 * 256 // (8 * 32),
        "most": 255,
        "best": BEST,
        "which": max(settings, key=settings.get, default="none yet"),
        "times": BEST / WORST,
        "cublas": RATES["cuBLAS"],
        "unfit_names": "; ".join(UNFIT) or "None",
        "smallest": next(iter(settings.values()), np.nan),
        "last": min(settings, key=settings.get, default="none yet"),
        "spilled": int(SPILLED[LARGEST]) if SPILLED else np.nan,
        "largest": RATES[LARGEST],
        "own": 2 * 4096**3 / OWN_US / 1e6,
    }
)
if RATES:
    assert BEST > 5 * WORST, "the title says far apart"
    assert RATES["cuBLAS"] > BEST, "a takeaway says that the library's product is faster"
    show(
        bars(
            RATES,
            x="rate [TFLOP/s]",
            roles=dict.fromkeys(RATES, "measured") | {"cuBLAS": "block"},
            title="Of the settings that fit, the best and the worst are far apart",
            caption="A product of BF16 matrices of 4,096 rows in Triton, tile of the result × depth of a step, on an {machine}, with cuBLAS beside it. One that did not fit stands in the text above.",
        )
    )

# %% [markdown]
# From the worst to the best the rate goes up {{ tune.times | .1f }} times, to {{ tune.best | .0f }} TFLOP/s with
# {{ tune.which }}. The worst is not the smallest tile, which has {{ tune.smallest | .0f }}, but
# {{ tune.last }}: {{ tune.spilled }} registers of a thread are spilled, and {{ tune.largest | .0f }} TFLOP/s are left.
# {{ tune.unfit_names }} did not fit into shared memory. cuBLAS has {{ tune.cublas | .0f }}, and the last kernel of
# [GEMM on Hopper](../matmul/hopper.py), with all that is done by hand in it, had
# {{ tune.own | .0f }}. Autotuning finds the best entry of a list. What is not in the list, it does not find.

# %% [markdown]
# ## What is not fused
#
# Back to attention. Its second product needs a whole row of weights, and a row of weights needs a
# whole row of scores, for its sum. Merging neighbours stops here, not for want of trying: in the
# order in which the program does things, no weight is known before the last score of its row. Another
# order exists, [flash attention](../attention/flash_forward.py), which multiplies with weights that
# are wrong by a factor and repairs the result. It computes other numbers in between, and no rule about
# neighbours leads there.

# %% [markdown]
# So look at the names above once more. Compiled, attention is one kernel, by its name
# {{ flash }}. TorchInductor recognised the four lines: it has a list of the ways in which
# people write attention, and puts a call of a kernel in their place that people wrote. A bend in the
# scores, and the program is not on the list: there are two products of the library again, and a generated
# kernel between them.[^flex] How much that costs, in time and in memory:
#
# [^flex]: For such cases PyTorch has `flex_attention`: a flash kernel with a gap, into which the
#     compiler puts what is to be done to each score. Again the order of work was written by hand.

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

# %% fold="Code of the figure"
TOOK = printed_numbers(HERE, "attention", r"^([a-z ,]+): (\d+) us")
TOOK_MB = printed_numbers(HERE, "attention", r"^([a-z ,]+): \d+ us, (\d+) MB")
EAGER_US, BENT_US, MERGED_US, ONE_US = (
    TOOK[way]
    for way in (
        "attention, line by line",
        "bent attention, line by line",
        "bent attention, compiled",
        "attention, one call",
    )
)
SCORES_MB = 2 * 2 * 16 * 4096**2 / 1e6
PASS_US = 1e3 * SCORES_MB / 3000
publish(
    scores={
        "mb": SCORES_MB,
        "pass_ms": PASS_US / 1e3,
        "bend": 4 * PASS_US,
        "eager": 6 * PASS_US,
        "merged": 4 * PASS_US,
    },
    took={
        "eager": EAGER_US,
        "compiled": TOOK["attention, compiled"],
        "bent": BENT_US,
        "bent_compiled": MERGED_US,
        "one": ONE_US,
        "bent_ratio": BENT_US / MERGED_US,
        "bend": BENT_US - EAGER_US,
        "softmax": EAGER_US - MERGED_US - 2 * PASS_US,
        "mb_bent": TOOK_MB["bent attention, compiled"],
        "mb_one": TOOK_MB["attention, one call"],
    },
)
if TOOK:
    assert BENT_US > 2 * MERGED_US, "the title says: merged"
    assert TOOK_MB["bent attention, compiled"] > SCORES_MB, "the title says that the matrix of scores stays"
    show(
        bars(
            {name: time_us / 1000 for name, time_us in TOOK.items()},
            x="time [ms]",
            title="A compiler merges the steps of the bent softmax; the matrix of scores stays",
            caption="Attention for 2 × 16 heads of 4,096 queries and keys, 64 numbers each, BF16, on an H100. Bent: with tanh on the scores. One call: scaled_dot_product_attention.",
        )
    )

# %% [markdown]
# The matrix of scores has {{ scores.mb | ,.0f }} MB here, so a pass over it takes about
# {{ scores.pass_ms | .2f }} ms at the rate of an H100's copy. Bent attention takes {{ took.bent | us }} line by line and
# {{ took.bent_compiled | us }} compiled, {{ took.bent_ratio | .1f }} times as fast, and still needs
# {{ took.mb_bent | ,.0f }} MB beside its inputs, a matrix of scores and the result. The call of a flash kernel
# takes {{ took.one | us }} and {{ took.mb_one | ,.0f }} MB. The straight program takes {{ took.eager | us }} line
# by line and {{ took.compiled | us }} compiled, as much as the call.

# %% [markdown]
# Are passes all there is to these times? The bend is two pointwise kernels, so four passes, and they cost
# {{ took.bend | us }} where the count says {{ scores.bend | us }}. But the
# {{ attention.passes.eager }} of the straight program should be {{ scores.eager | us }}, and the
# {{ attention.passes.merged }} that the compiler leaves of the bent one {{ scores.merged | us }}. The products are the
# same kernels in both, by their names above, and the generated kernel needs its two passes. So torch's softmax
# takes some {{ took.softmax | us }} more than its own two; the rest lies with the products, or with the
# generated kernel.

# %% [markdown]
# ## What to expect
#
# The table sums up what compilers did on this page and in the lessons before it.

# %% fold="Code of the table"
WHO = """
pointwise chains | merges them |
rows: maximum, sum | one kernel, by rules it was taught; a few long rows in several | a long row kept on chip
a product's epilogue | if the product is its own | the fastest product and its epilogue at once
odd shapes | pads, with a copy, if that is faster | choosing another shape
tiles, warps, stages | tries a list | the list; other structures, such as roles of warps
softmax between products | recognises known programs | finding the other order
"""
show(
    Table(
        ["", "a compiler", "still a person"],
        [[entry.strip() for entry in line.split("|")] for line in WHO.strip().splitlines()],
        caption="What to leave to a compiler, and what not to wait for.",
    )
)

# %% [markdown]
# ## The answer
#
# Of {{ attention.passes.eager }} passes over the scores, merging neighbours saves
# {{ attention.saved }}; {{ attention.passes.merged }} remain, since the softmax stands between two
# products. The rest was saved by people: they found an order in which the scores never leave the chip,
# wrote a kernel for it, and taught the compiler what programs it may stand in for.

# %% [markdown]
# ## Takeaways
#
# - A compiler keeps the order of a program and merges neighbours: what is pointwise, and what concerns
#   one row. {{ softmax.eager }} passes of a softmax become {{ softmax.merged }}.
# - A library's kernel is a wall: nothing is fused into it. A generated product can take its epilogue
#   in; the best of nine here had {{ tune.best | .0f }} TFLOP/s, the library's {{ tune.cublas | .0f }}.
# - Rules that change the order, online softmax or attention, are mathematics that people put in. Look at
#   the kernels' names to see whether a rule matched: a bend in the scores or a split row, and it does not.
# - Padding and tiles are chosen by trying. The list of what is tried is written by people.

# %% fold="The whole cell, with three wrong answers that the tests turn down"
from tilewise import exercise


def merged(steps):
    total = 0
    held = False  # is the array on chip when the next step begins?
    for kind in steps:
        if kind == "product":  # reads what it consumes, writes what it makes; nothing stays
            total += 1
            held = False
        elif not held:
            total += 2
            held = True
    return total


def products_are_free(steps):
    return merged([kind for kind in steps if kind != "product"])


def never_merges(steps):
    return sum(1 if kind == "product" else 2 for kind in steps)


def merges_across_products(steps):
    return steps.count("product") + (2 if set(steps) - {"product"} else 0)


def merged_tests(answer):
    for steps, right in (
        (["pointwise"] * 5, 2),
        (["product", "pointwise", "row", "product"], 4),
        (["product", "pointwise", "product", "pointwise", "row"], 6),
        (["product", "product"], 2),
        (["row", "pointwise", "product", "row", "pointwise", "product", "pointwise"], 8),
    ):
        given = answer(list(steps))
        assert given == right, f"{' → '.join(steps)}: {given} passes, not {right}"


exercise(
    "Passes that merging leaves",
    """
    A program is a list of steps on one large array: `"pointwise"`, `"row"` (a softmax or a sum of a row, which
    fits on chip) or `"product"`. A product is a library's kernel; count one pass for each, since it either makes
    the array or uses it up. Neighbouring steps of the other kinds share one kernel, which reads the array once
    and writes it once. Write `merged(steps)`, the number of passes.
    """,
    answer=merged,
    tests=merged_tests,
    wrong=[products_are_free, never_merges, merges_across_products],
    hint="Walk through the list and remember whether the step before was one that can be merged with.",
)

# %% [markdown]
# The names of kernels said more here than any model did. A profiler says more than names:
# [Reading a profile](profiles.py) has it beside what the simulator counts.
