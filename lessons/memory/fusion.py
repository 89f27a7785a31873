# ---
# title: "Kernel fusion: one launch instead of five"
# needs: [speed/roofline, speed/launches]
# summary: "Five PyTorch operations launch five kernels, and each one writes its result to device memory. How much faster is one fused kernel?"
# description: "Kernel fusion counted, predicted and timed: five pointwise kernels against one, by hand and by torch.compile, and where fusion stops paying."
# date: 2026-11-21
# tags: [fusion, torch.compile, Triton]
# ---

# %% [markdown]
# PyTorch computes `x.sin() ** 2 + x.cos() ** 2` with five kernels. Each one reads its inputs from device memory and
# writes its result back, only for the next one to read it. For 67 million elements, that takes
# {{ sum_of_squares.pytorch_eager.n_67108864.median | us }}. How much faster is a single kernel that does all five
# operations?
#
# Outside its matrix multiplications, a neural network consists mostly of operations like these: little arithmetic and
# a lot of memory traffic. Merging such kernels is one of the simplest optimisations, and a compiler can do it for
# you.

# %% fold="Imports"
import numpy as np

from tilewise import (
    Guess,
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
)

# %% [markdown]
# ## Eager execution: one kernel per operation
#
# All five operations are *pointwise*: element `i` of the result depends only on element `i` of the
# inputs. In *eager execution*, a framework launches a kernel as soon as your program reaches an
# operation. It doesn't know what comes next, so each kernel leaves its result in device memory.
#
# ??? definition "Pointwise operation | pointwise"
#     An operation whose element i depends only on element i of each input.
#
# ??? definition "Eager execution"
#     Running each operation as soon as the program reaches it, before later operations are known.


# %% tab="Pseudocode"
def sine(x, s):
    for i in parallel(len(x)):
        s[i] = np.sin(x[i])


def cosine(x, c):
    for i in parallel(len(x)):
        c[i] = np.cos(x[i])


def square_s(s, s2):
    for i in parallel(len(s)):
        s2[i] = s[i] * s[i]


def square_c(c, c2):
    for i in parallel(len(c)):
        c2[i] = c[i] * c[i]


def add(s2, c2, y):
    for i in parallel(len(y)):
        y[i] = s2[i] + c2[i]


# %% tab="CUDA C"
from tilewise import Kernel

STEPS = r"""
// Five pointwise kernels on n floats, one thread per element.
// Each: 1-D grid of ceil(n / blockDim.x) blocks. ME is the index of the thread.
#define ME (blockIdx.x * blockDim.x + threadIdx.x)

extern "C" __global__
void sine(const float* x, float* s, int n) {
    int i = ME;
    if (i < n) s[i] = sinf(x[i]);
}
extern "C" __global__
void cosine(const float* x, float* c, int n) {
    int i = ME;
    if (i < n) c[i] = cosf(x[i]);
}
extern "C" __global__
void square_s(const float* s, float* s2, int n) {
    int i = ME;
    if (i < n) s2[i] = s[i] * s[i];
}
extern "C" __global__
void square_c(const float* c, float* c2, int n) {
    int i = ME;
    if (i < n) c2[i] = c[i] * c[i];
}
extern "C" __global__
void add(const float* s2, const float* c2, float* y, int n) {
    int i = ME;
    if (i < n) y[i] = s2[i] + c2[i];
}
"""
SINE = Kernel(STEPS, "sine")
COSINE = Kernel(STEPS, "cosine")
SQUARE_S = Kernel(STEPS, "square_s")
SQUARE_C = Kernel(STEPS, "square_c")
ADD = Kernel(STEPS, "add")


# %% fold="Code of the checks"
def elements(n, per_thread=1):
    """A launch of any kernel of the chain on n random elements."""
    between = {name: output(n) for name in ("s", "c", "s2", "c2")}
    grid = ceil_div(n, 256 * per_thread)
    return case(x=normal(n), **between, y=output(n), n=n, grid=grid, block=256)


def one_step(n, reads, writes):
    """A launch of one step, with random inputs of its own."""
    return case(
        **{name: normal(n) for name in reads}, **{writes: output(n)}, n=n, grid=ceil_div(n, 256), block=256
    )


def at_three_sizes(reads, writes):
    return [one_step(n, reads, writes) for n in (1, 255, 1003)]


agree(sine, SINE, at_three_sizes(["x"], "s"), rtol=1e-6)
agree(cosine, COSINE, at_three_sizes(["x"], "c"), rtol=1e-6)
agree(square_s, SQUARE_S, at_three_sizes(["s"], "s2"), rtol=1e-6)
agree(square_c, SQUARE_C, at_three_sizes(["c"], "c2"), rtol=1e-6)
agree(add, ADD, at_three_sizes(["s2", "c2"], "y"), rtol=1e-6)

FIVE = [SINE, COSINE, SQUARE_S, SQUARE_C, ADD]
MANY = 2**26
publish(small_n=2**12)

# %% [markdown]
# Run the chain on four elements.

# %%
x = np.array([0, 0.5, 1, 2], dtype=np.float32)
s, c, s2, c2, y = (np.zeros_like(x) for _ in range(5))

SINE(x, s, 4, grid=1, block=256)
COSINE(x, c, 4, grid=1, block=256)
SQUARE_S(s, s2, 4, grid=1, block=256)
SQUARE_C(c, c2, 4, grid=1, block=256)
ADD(s2, c2, y, 4, grid=1, block=256)
print("s:", s.round(3))
print("c:", c.round(3))
print("y:", y.round(3))

# %% [markdown]
# Now count the traffic. Per element, four of the kernels load one value and store one; the sum loads two and stores
# one. That makes {{ moved.five }} values per element, or {{ moved.five_of_four }} for our four elements. Step through
# it:

# %% fold="Code of the figure"
from tilewise.figures import Series, State, line_chart, stepped

X = np.array([0.0, 0.5, 1.0, 2.0])
EMPTY = np.full(4, np.nan)
CHAIN = [
    ("s", ("x",), "s = sin(x)", lambda held: np.sin(held["x"])),
    ("c", ("x",), "c = cos(x)", lambda held: np.cos(held["x"])),
    ("s2", ("s",), "s2 = s * s", lambda held: held["s"] ** 2),
    ("c2", ("c",), "c2 = c * c", lambda held: held["c"] ** 2),
    ("y", ("s2", "c2"), "y = s2 + c2", lambda held: held["s2"] + held["c2"]),
]


def traffic():
    """Every transfer of the chain on four elements, with the contents of memory and of the registers."""
    memory = dict.fromkeys(("x", "s", "c", "s2", "c2", "y"), EMPTY) | {"x": X}
    registers = dict.fromkeys(("x", "s", "c", "s2", "c2"), EMPTY)
    moved = 0
    states = []

    def add_state(text, line=0, reads=()):
        arrays = {**memory, "registers": np.array(list(registers.values()))}
        taken = {name: range(4) for name in reads}
        states.append(State(text, line=line, values={"values moved": moved}, arrays=arrays, reads=taken))

    add_state("Only x is in device memory, and the registers are empty.")
    for line, (name, needs, code, compute) in enumerate(CHAIN, start=1):
        empty = registers
        registers = registers | {needed: memory[needed] for needed in needs}
        moved += len(needs) * len(X)
        add_state(f"Load {' and '.join(needs)} from device memory.", line, needs)
        memory[name] = compute(registers)
        if name in registers:
            registers[name] = memory[name]
        moved += len(X)
        add_state(f"Compute {code} and store {name} in device memory.", line)
        registers = empty
        if name != "y":
            add_state("The kernel ends, and its registers are gone.", line)
    return states


def values_moved(*kernels):
    """Values loaded and stored per element if each kernel does these steps of the chain."""
    inputs = {name: set(needs) for name, needs, *_ in CHAIN}
    total = 0
    for steps in kernels:
        loads = set().union(*(inputs[name] for name in steps)) - set(steps)
        elsewhere = set().union(*(inputs[name] for name in inputs if name not in steps), {"y"})
        total += len(loads) + len(elsewhere & set(steps))
    return total


STATES = traffic()
moved = {
    "five": values_moved(["s"], ["c"], ["s2"], ["c2"], ["y"]),
    "two_crossing": values_moved(["s", "c"], ["s2", "c2", "y"]),
    "one_crossing": values_moved(["s", "s2"], ["c", "c2", "y"]),
    "fused": values_moved(["s", "c", "s2", "c2", "y"]),
}
moved |= {f"{name}_of_four": len(X) * moved[name] for name in ("five", "fused")}
assert STATES[-1].values["values moved"] == moved["five_of_four"], "the figure shows another count"
publish(moved=moved | {"ratio": moved["five"] / moved["fused"]})
show(
    stepped(
        STATES,
        source="\n".join(code for _, _, code, _ in CHAIN),
        blanks=True,
        start=2,
        title="Five kernels move every intermediate twice",
        caption="Four elements and five kernels. The rows of the registers are x, s, c, s2 and c2. The model counts transfers to and from device memory, not time.",
    )
)

# %% [markdown]
# ## Fusion: keep intermediates in registers
#
# *Fusion* combines several operations into one kernel, so that intermediate results stay on the chip. Here, you simply
# put the five lines into one kernel. `s` and `c` become local variables of a thread, and the compiler keeps them in
# \registers.
#
# ??? definition "Fusion"
#     Combining several operations into one kernel, so that intermediate results stay on the chip.


# %% tab="Pseudocode"
def sum_of_squares(x, y):
    for i in parallel(len(x)):
        # [chain
        s, c = np.sin(x[i]), np.cos(x[i])
        y[i] = s * s + c * c
        # chain]


# %% tab="CUDA C"
FUSED = Kernel(r"""
// y = sin(x)^2 + cos(x)^2 for n floats, one thread per element.
// 1-D grid of ceil(n / blockDim.x) blocks.
extern "C" __global__
void sum_of_squares(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    // [chain
    float s = sinf(x[i]), c = cosf(x[i]);
    y[i] = s * s + c * c;
    // chain]
}
""")

# %% fold="Two more versions, and the checks"
FUSED_FAST_MATH = Kernel(r"""
// As sum_of_squares, with the fast, less accurate sine and cosine.
extern "C" __global__
void quick(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float s = __sinf(x[i]), c = __cosf(x[i]);  // New: fast versions of both
    y[i] = s * s + c * c;
}
""")

FUSED_FLOAT4 = Kernel(r"""
// As sum_of_squares, four elements per thread. x and y aligned to 16 bytes; any n.
// 1-D grid of ceil(n / (4 * blockDim.x)) blocks.
__device__ float of_squares(float x) {
    float s = sinf(x), c = cosf(x);
    return s * s + c * c;
}
extern "C" __global__
void four(const float* x, float* y, int n) {
    int i = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
    if (i + 3 < n) {  // New: one load of four elements
        float4 v = *(const float4*)(x + i);
        *(float4*)(y + i) = make_float4(of_squares(v.x), of_squares(v.y),
                                        of_squares(v.z), of_squares(v.w));
    } else {
        for (; i < n; ++i) y[i] = of_squares(x[i]);  // the last one to three
    }
}
""")


agree(sum_of_squares, FUSED, [elements(n) for n in (1, 255, 1003)], rtol=1e-6)
agree(sum_of_squares, FUSED_FLOAT4, [elements(n, 4) for n in (1, 255, 1003)], rtol=1e-6)
agree(sum_of_squares, FUSED_FAST_MATH, [elements(n) for n in (1, 255, 1003)], rtol=1e-5)

# %% [markdown]
# Launch it on the same four elements. It moves {{ moved.fused_of_four }} values instead of
# {{ moved.five_of_four }}: each thread loads one element of `x` and stores one of `y`. Everything between stays in
# \registers.

# %%
y = np.zeros_like(x)
FUSED(x, y, 4, grid=1, block=256)
print(y.round(3))

# %% [markdown]
# Run the fused kernel, then three of the five (the cosine works like the sine, and one square like the other). How many
# sectors do all five move, and how many does the fused kernel move?

# %% fold="Code of the run"
from tilewise import try_it

STEP = {
    "sine": (SINE, ["x"], "s"),
    "square of the sine": (SQUARE_S, ["s"], "s2"),
    "sum": (ADD, ["s2", "c2"], "y"),
}
ONES = {name: lambda n, ends=ends: one_step(n, *ends) for name, (_, *ends) in STEP.items()}
try_it(
    {"fused": elements, "fused, float4": lambda n: elements(n, 4), **ONES},
    {"fused": FUSED, "fused, float4": FUSED_FLOAT4, **{name: kernel for name, (kernel, *_) in STEP.items()}},
    n=(1, 1000, 4000),
)

# %% [markdown]
# You can also fuse part of a chain. Say you split ours into two kernels. If you cut the chain after sine and cosine,
# two intermediate arrays go from one kernel to the other, and together the kernels move {{ moved.two_crossing }} values
# per element. If the first kernel computes sin² and the second does the rest, there's only one intermediate array. Both
# kernels then load `x`, but the total falls to {{ moved.one_crossing }}.

# %% [markdown]
# ## Prediction: count the bytes
#
# Pointwise kernels do little arithmetic per byte, so we expect them to be memory-bound. If the kernels move $v$ 4-byte
# values per element, $n$ elements take at least
#
# $$t = \frac{4\,v\,n}{B}$$
#
# at bandwidth $B$. For 67 million elements at the data sheet's peak bandwidth, that's {{ predicted.five_us | us }} for
# five kernels and {{ predicted.fused_us | us }} for one, a ratio of {{ moved.five }} / {{ moved.fused }} =
# {{ moved.ratio }}. On short arrays, [launch overhead](../speed/launches.py) matters more than bytes, and the five
# kernels pay it five times.

# %% fold="Code of the numbers"
from tilewise.measurements import medians_us, printed, recorded, recorded_device, text_record

GPU = recorded_device()
least_us = {name: 4 * moved[name] * MANY / (GPU.memory_gb_per_s * 1e3) for name in ("five", "fused")}
publish(predicted={f"{name}_us": time for name, time in least_us.items()})

# %% [markdown]
# ## torch.compile: fusion by a compiler
#
# A compiler can fuse too, if it sees the whole chain before anything runs. In `torch.compile`, TorchDynamo records a
# function's tensor operations as a *computation graph*. TorchInductor groups the operations that can be fused into one
# kernel, and generates that kernel in Triton. In Triton, you program a whole block of elements at once, and the
# compiler distributes it among threads.
#
# ??? definition "Computation graph"
#     A program's operations, and which of them uses which result.
#
# ??? definition "TorchDynamo"
#     The part of `torch.compile` that traces a Python function into a computation graph.
#
# ??? definition "TorchInductor | Inductor"
#     The part of `torch.compile` that turns a computation graph into kernels and fuses what it can.
#
# ??? definition "Triton"
#     A Python-based language for GPU kernels, in which one program instance handles a block of elements
#     and the compiler distributes them among threads.


# %% fold="Code of the PyTorch versions and of the CUDA graph"
def squares_in_torch(x):
    return x.sin() ** 2 + x.cos() ** 2


def cosines_in_torch(x):
    return x.cos().cos()


def eager(formula):

    def prepare(arrays):
        import torch

        x = torch.as_tensor(arrays["x"], device="cuda")
        return lambda: formula(x)

    return prepare


def compiled(formula):

    def prepare(arrays):
        import torch

        torch.compiler.reset()  # a size of its own for each case, none of them dropped
        x = torch.as_tensor(arrays["x"], device="cuda")
        fused = torch.compile(formula, dynamic=False)
        fused(x)
        return lambda: fused(x)

    return prepare


def five_in_a_graph(arrays):
    import cupy

    names = [one.name for one in FIVE]
    made = [cupy.RawKernel(one.gpu_source, name) for one, name in zip(FIVE, names, strict=True)]
    n = arrays["x"].size
    given = [tuple(arrays[p.name] for p in one.parameters if p.name != "n") for one in FIVE]

    def launch_all():
        for kernel, some in zip(made, given, strict=True):
            kernel((ceil_div(n, 256),), (256,), (*some, np.int32(n)))

    launch_all()  # compiled and loaded before the recording
    stream = cupy.cuda.Stream(non_blocking=True)
    cupy.cuda.get_current_stream().synchronize()
    with stream:
        stream.begin_capture()
        launch_all()
        graph = stream.end_capture()
    return graph.launch


# %% [markdown]
# ## Benchmark: five kernels against one
#
# The simulator confirms the count: {{ counted.five | , }} sectors for five kernels on {{ counted.n | , }}
# elements, and {{ counted.fused | , }} for the fused one. What about time?

# %% fold="Code of the measurement"
SIZES = (2**12, 2**16, 2**20, 2**22, 2**24, 2**26)
squares = measure(
    "sum_of_squares",
    variants={
        "five kernels": lambda n: [one.on(elements(n)) for one in FIVE],
        "fused": lambda n: FUSED.on(elements(n)),
        "fused, float4": lambda n: FUSED_FLOAT4.on(elements(n, 4)),
        "fused, fast sine and cosine": lambda n: FUSED_FAST_MATH.on(elements(n)),
    },
    cases=[{"n": n} for n in SIZES],
    count_case={"n": 2**14},
    bytes=lambda n: 8 * n,
    library={
        "PyTorch eager": eager(squares_in_torch),
        "torch.compile": compiled(squares_in_torch),
    },
    reference=lambda x: {"y": np.sin(x) ** 2 + np.cos(x) ** 2},
    reasons={"*": "Benchmark: five kernels against one"},
    fold="All 36 rows",
    guess=Guess(
        "For 67 million elements, how much faster is the fused kernel than the five kernels?",
        of="fused",
        over="five kernels",
        at={"n": 2**26},
        between=(0.5, 50.0),
        models={"values moved": 11 / 2, "launches": 5.0},
        because="Counting values predicts the ratio only if both versions use the memory bandwidth equally efficiently.",
    ),
)

# %% fold="Code of the numbers"
counted = {"n": 2**14}
for name, kernels in {"five": FIVE, "fused": [FUSED]}.items():
    counts = [kernel.on(elements(2**14)).simulate().counts for kernel in kernels]
    counted[name] = sum(one.global_load.sectors + one.global_store.sectors for one in counts)
assert counted["five"] / counted["fused"] == moved["five"] / moved["fused"]
publish(counted=counted)

# %% [markdown]
# Written by hand, the fused kernel takes {{ sum_of_squares.fused.n_67108864.median | us }}. That's
# {{ took.ratio | .1f }}× faster than five hand-written kernels, but short of the prediction: at
# {{ took.fused_tb_per_s | .1f }} TB/s, the fused kernel uses the memory bandwidth less efficiently than they do. What
# slows it down, arithmetic or memory accesses?
#
# Two variants answer this question. `__sinf` and `__cosf` replace dozens of instructions with a multiplication and one
# special-function instruction each, at the price of accuracy. The kernel gets only a little faster. With the accurate
# functions but four elements per thread, loaded as one `float4`, it reaches {{ took.float4_tb_per_s | .1f }} TB/s. So
# the memory accesses are mostly to blame: one 4-byte load per thread [doesn't keep enough bytes in
# flight](../speed/roofline.py).
#
# PyTorch uses the memory bandwidth about equally efficiently in eager mode and when compiled, so it's a fairer test of
# our prediction. Its speedup from fusion is {{ took.compiled_ratio | .1f }}×.

# %% fold="Code of the figure and of the numbers"
A_LAUNCH_US = 2.0
ROLES = {
    "five kernels": "read",
    "PyTorch eager": "warp",
    "torch.compile": "tile",
    "fused": "block",
}
us = medians_us(squares, "n")
TOOK = {label: [us.get((label, n), np.nan) for n in SIZES] for label in ROLES}
five_us, eager_us, compiled_us, fused_us = (times[-1] for times in TOOK.values())
float4_us = us.get(("fused, float4", MANY), np.nan)
small_five, small_fused = TOOK["five kernels"][0], TOOK["fused"][0]
publish(
    took={
        "ratio": five_us / fused_us,
        "fused_tb_per_s": 8 * MANY / fused_us / 1e6,
        "float4_tb_per_s": 8 * MANY / float4_us / 1e6,
        "compiled_ratio": eager_us / compiled_us,
        "each_more": (small_five - small_fused) / 4,
    }
)
model = [5 * max(A_LAUNCH_US, 4 * 11 / 5 * n / (GPU.memory_gb_per_s * 1e3)) for n in SIZES]
if np.isfinite(list(TOOK.values())).all():
    show(
        line_chart(
            [
                *(Series(label, SIZES, times, role=ROLES[label]) for label, times in TOOK.items()),
                Series("five kernels, model", SIZES, model, role="predicted", marks=False),
            ],
            x="elements",
            y="time [µs]",
            log_x=True,
            log_y=True,
            title="Fusion saves launches on short arrays, bytes on long ones",
            caption=f"Time of sin² x + cos² x on an {{machine}}, with five kernels and with one, by hand and in PyTorch. Dashed: a model of five kernels, each of which takes either about {A_LAUNCH_US:.0f} µs or the time to transfer its bytes at the data sheet's peak bandwidth, whichever is longer. The model ignores the L2 cache.",
        )
    )
    assert small_five > 2.5 * small_fused, "the title says that fusion saves launches"
    assert five_us > 2.5 * fused_us, "the title says that fusion saves bytes"
    recovered = (fused_us - float4_us) / (fused_us - least_us["fused"])
    assert recovered > 2 / 3, "the text says that it's mostly the memory accesses"
    assert float4_us < us["fused, fast sine and cosine", MANY] < fused_us

# %% [markdown]
# For {{ small_n | , }} elements, fusion gains less, because each kernel after the first adds only
# {{ took.each_more | .1f }} µs. In this benchmark, the host enqueues work ahead of the GPU. What if it can't?

# %% [markdown]
# ## Short arrays: launch overhead on the host
#
# Now start from an idle GPU and include the host's work, again with {{ small_n | , }} elements. A CUDA graph of the
# five kernels is the fastest.
#
# In PyTorch, `torch.compile` makes the chain *slower* here. Before each call, a compiled function checks that its input
# still matches what it was compiled for. For such cases, there's `torch.compile(mode="reduce-overhead")`, which uses
# CUDA graphs.

# %% fold="Code of the measurement"
with_host = measure(
    "sum_of_squares_with_host",
    variants={
        "five kernels": lambda n: [one.on(elements(n)) for one in FIVE],
        "fused": lambda n: FUSED.on(elements(n)),
    },
    cases=[{"n": 2**12}],
    count_case={"n": 2**12},
    bytes=lambda n: 8 * n,
    library={
        "five kernels, CUDA graph": five_in_a_graph,
        "PyTorch eager": eager(squares_in_torch),
        "torch.compile": compiled(squares_in_torch),
    },
    reference=lambda x: {"y": np.sin(x) ** 2 + np.cos(x) ** 2},
    with_host=True,
    reasons={"*": "Short arrays: launch overhead on the host"},
)
host_us = medians_us(with_host)
if np.isfinite(list(host_us.values())).all():
    assert host_us["torch.compile"] > host_us["PyTorch eager"], "the text says that compiling is slower"
    assert min(host_us, key=host_us.get) == "five kernels, CUDA graph"

# %% [markdown]
# ## Nested calls in eager mode: still two kernels
#
# Does it help to write two operations as one expression, `torch.cos(torch.cos(x))`? Not in eager execution: by the time
# Python calls the outer `cos`, the inner one has already been launched.[^spelling]
#
# [^spelling]: A common misconception: a chained call such as `x.cos().cos()` is fused, because its intermediate result
#     has no name. [An article by Horace He](https://horace.io/brrr_intro.html) illustrates fusion with this form, but
#     eager PyTorch launches two kernels for it, as the profiler's output shows.


# %% tab="Pseudocode"
def cos_of_cos(x, y):
    for i in parallel(len(x)):
        y[i] = np.cos(np.cos(x[i]))


# %% tab="CUDA C"
COS_OF_COS = Kernel(r"""
// y = cos(cos(x)) for n floats, one thread per element.
extern "C" __global__
void cos_of_cos(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = cosf(cosf(x[i]));
}
""")

# %% fold="Code of the second kernel, of the check and of the measurement"
SECOND_COSINE = Kernel(r"""
// y = cos(c) for n floats, one thread per element.
extern "C" __global__
void cosine_of_c(const float* c, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = cosf(c[i]);
}
""")


def cosine_of_c(c, y):
    for i in parallel(len(c)):
        y[i] = np.cos(c[i])


agree(cosine_of_c, SECOND_COSINE, [one_step(n, ("c",), "y") for n in (1, 255, 1003)], rtol=1e-6)
agree(cos_of_cos, COS_OF_COS, [elements(n) for n in (1, 255, 1003)], rtol=1e-6)
measure(
    "cos_of_cos",
    variants={
        "two kernels": lambda n: [one.on(elements(n)) for one in (COSINE, SECOND_COSINE)],
        "fused": lambda n: COS_OF_COS.on(elements(n)),
    },
    cases=[{"n": 2**26}],
    count_case={"n": 2**14},
    bytes=lambda n: 8 * n,
    library={
        "PyTorch eager": eager(cosines_in_torch),
        "torch.compile": compiled(cosines_in_torch),
    },
    reference=lambda x: {"y": np.cos(np.cos(x))},
    reasons={"two kernels": "Nested calls in eager mode: still two kernels"},
)

# %% [markdown]
# PyTorch's profiler shows how many kernels each call launches. Below is the Triton kernel that TorchInductor generated
# for our chain. Its name starts with `triton_poi`, for pointwise, and lists the fused operations.

# %% needs="gpu torch" record="what_runs" fold="Code that counts the kernels and prints what was generated"
from importlib.util import find_spec

if gpu_here() and find_spec("torch"):
    import torch
    from torch._inductor.utils import run_and_get_code
    from torch.autograd import DeviceType
    from torch.profiler import ProfilerActivity, profile

    def two_statements(x):
        inner = torch.cos(x)
        return torch.cos(inner)

    def one_expression(x):
        return torch.cos(torch.cos(x))

    def squares_of_both(x):
        return torch.sin(x) ** 2 + torch.cos(x) ** 2

    def kernels_of(work, x):
        """Names of the kernels that one call starts."""
        for _ in range(3):  # compiled, loaded, and the profiler started once
            with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen:
                work(x)
                torch.cuda.synchronize()
        events = [event for event in seen.events() if event.device_type == DeviceType.CUDA]
        return [event.name for event in events if "Sync" not in event.name and "Mem" not in event.name]

    x = torch.randn(2**20, device="cuda")
    torch.compiler.reset()
    print(f"torch {torch.__version__}, Triton {__import__('triton').__version__}")
    for work in (two_statements, one_expression, squares_of_both):
        name = work.__name__.replace("_", " ")
        print(f"{name}, eager: {len(kernels_of(work, x))} kernels")
        fused = kernels_of(torch.compile(work), x)
        print(f"{name}, compiled: {len(fused)} kernels ({', '.join(fused)})")
    torch.compiler.reset()
    _, generated = run_and_get_code(torch.compile(squares_of_both), x)
    lines = generated[0].splitlines()
    start = next(at for at, line in enumerate(lines) if line.startswith("@triton.jit"))
    stop = next(at for at in range(start, len(lines)) if lines[at].startswith("'''"))
    print()
    print("\n".join(lines[start:stop]).strip())

# %% fold="Code of the numbers"
import re

TEXT = text_record("memory/fusion", "what_runs").text
FOUND = dict(re.findall(r"^([a-z ]+, (?:eager|compiled)): (\d+) kernels", TEXT, re.M))
publish(
    kernels={name.replace(", ", " ").replace(" ", "_"): int(number) for name, number in FOUND.items()}
    | {"loads": TEXT.count("tl.load("), "stores": TEXT.count("tl.store(")},
    cosines={
        "ratio": recorded("cos_of_cos.two_kernels.median") / recorded("cos_of_cos.fused.median"),
        "torch_ratio": recorded("cos_of_cos.pytorch_eager.median")
        / recorded("cos_of_cos.torch_compile.median"),
        "model": 4 / 2,
    },
)
GENERATED = printed("toolbox/compilers", "generated")
assert not GENERATED or "online" in GENERATED, "the text says that TorchInductor has online softmax"

# %% [markdown]
# Eager PyTorch launches {{ kernels.two_statements_eager }} kernels for two statements, and
# {{ kernels.one_expression_eager }} for the nested call. Once compiled, each launches
# {{ kernels.one_expression_compiled }}. The sum of squares goes from {{ kernels.squares_of_both_eager }} kernels to
# {{ kernels.squares_of_both_compiled }}, with {{ kernels.loads }} load and {{ kernels.stores }} store, just like our
# fused kernel.
#
# For the cosines, counting bytes predicts a gain of {{ cosines.model | .0f }}×. We measure {{ cosines.ratio | .1f }}×
# with hand-written kernels and {{ cosines.torch_ratio | .1f }}× in PyTorch.

# %% [markdown]
# ## Limits of fusion
#
# Fusion removes bytes but no operations, so the \intensity grows. Once arithmetic limits the kernel, further fusion
# gains nothing. An intermediate that another kernel needs must still be stored, unless that kernel \recomputes it. And
# pointwise fusion isn't possible where an element depends on what *other* threads compute, as in the sum of a row or a
# matrix multiplication. To fuse across such a dependency, threads must cooperate, or you need a different algorithm.
#
# ??? question "What can't a compiler fuse?"
#     What it can't see and what it may not change. If Python needs a value, to print it or for an
#     `if`, the graph breaks there, and each part is compiled alone. A library's matrix multiplication
#     is a black box: apart from the few operations that the library lets you append, nothing can be fused
#     into it, so a compiler that fuses more has to generate a matrix multiplication of its own. And a
#     compiler doesn't invent algorithms. TorchInductor can
#     [generate online softmax](../toolbox/compilers.py#online-softmax-a-rule-not-a-discovery), but only because people
#     built in the online-softmax identity, published by [Milakov and Gimelshein](https://arxiv.org/abs/1805.02867).

# %% [markdown]
# ## The answer
#
# In PyTorch, the fused kernel takes {{ sum_of_squares.torch_compile.n_67108864.median | us }} instead of
# {{ sum_of_squares.pytorch_eager.n_67108864.median | us }}. That's {{ took.compiled_ratio | .1f }}× faster, and
# counting values predicted {{ moved.ratio }}×. The arithmetic hasn't changed; we just no longer move the intermediates.

# %% [markdown]
# ## Takeaways
#
# - Count values, not operations: our five pointwise kernels move {{ moved.five }} values per element,
#   the fused kernel {{ moved.fused }}.
# - On long arrays, fusion mainly saves bytes; on short ones, launches. A CUDA graph saves launch overhead but no bytes.
# - Eager execution launches one kernel per operation, however you write the expression. A compiler
#   that sees the whole graph can fuse the operations.

# %% [markdown]
# ## In your own kernel
#
# In Nsight Compute, run with `--cache-control none`, add up `dram__bytes_read.sum` and
# `dram__bytes_write.sum` over a chain of kernels, and compare the total with the size of the chain's
# inputs and outputs. If most of the bytes are intermediates, fuse by hand or try `torch.compile`, then
# check with `torch.profiler` that fewer kernels run.

# %% fold="Code of the exercise, with four wrong answers that the tests reject"
from tilewise import exercise

GELU_SOURCE = r"""
extern "C" __global__
void gelu_chain(const float* x, const float* b, const float* s,
                float* y, int rows, int columns) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows * columns) return;
    float v = x[i] + b[i % columns];
    float inner = 0.7978845608f * (v + 0.044715f * v * v * v);
    y[i] = 0.5f * v * (1.0f + tanhf(inner)) * s[0];
}
"""
GELU = Kernel(GELU_SOURCE)


def gelu_tests(kernel):
    random = np.random.default_rng(3)
    for rows, columns in ((1, 1), (7, 37), (40, 64)):
        x = random.standard_normal((rows, columns)).astype(np.float32)
        b = random.standard_normal(columns).astype(np.float32)
        s, y = np.float32([1.5]), np.full((rows, columns), np.nan, np.float32)
        run = kernel.simulate(x, b, s, y, rows, columns, grid=ceil_div(x.size, 64), block=64)
        v = x.astype(float) + b
        right = 1.5 * 0.5 * v * (1 + np.tanh(np.sqrt(2 / np.pi) * (v + 0.044715 * v**3)))
        assert np.allclose(y, right, rtol=1e-4, atol=1e-5), f"{rows} x {columns}: wrong values"
        counts = run.counts
        loads = counts.global_load.requests / -(-x.size // 32)
        assert loads <= 3, f"{rows} x {columns}: {loads:.0f} loads per warp; x, b and s need three"
        assert counts.global_store.requests <= -(-x.size // 32), "y is stored more than once"


exercise(
    "Fuse a bias, GELU and a scale",
    """
    Write `gelu_chain` as one kernel: `y = gelu(x + b) * s[0]` for a matrix `x` of `rows` by `columns`, a bias
    `b` with one element per column, and a scale `s` with a single element. GELU is
    $\\tfrac{v}{2}\\,(1 + \\tanh(\\sqrt{2/\\pi}\\,(v + 0.044715\\,v^3)))$. Load each element of `x` once and
    store each element of `y` once; the tests count loads and stores. How many values would three separate kernels move?
    """,
    answer=GELU,
    tests=gelu_tests,
    wrong=[
        {"b[i % columns]": "b[i / columns]"},
        {"    if (i >= rows * columns) return;\n": ""},
        {"float v = x[i] + b[i % columns];": "y[i] = x[i] + b[i % columns];\n    float v = y[i];"},
        {"b[i % columns];": "b[i % columns];\n    v *= s[0];", " * s[0];\n}": ";\n}"},
    ],
    hint="Keep x + b in a local variable. Nothing needs to be loaded twice.",
    explanation="Three kernels load and store three times, 6 values per element; the fused one moves 2. b and s are small enough to stay in a cache.",
)

# %% [markdown]
# A fused kernel keeps its intermediates on the chip. What if a later kernel needs them too? It can [load a stored copy
# or recompute them](recomputation.py) from `x`. To see which is faster, start by counting bytes once more.
