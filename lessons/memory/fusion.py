# ---
# title: One launch in place of five
# needs: [speed/roofline, speed/launches]
# summary: "sin² x + cos² x, operation by operation: five launches. In one launch, how many times as fast?"
# description: "What each step of a chain moves, counted; the chain fused by hand and by torch.compile; where fusion stops paying."
# date: 2026-11-21
# tags: [fusion, torch.compile, Triton]
# ---

# %% [markdown]
# For each of {{ many | , }} numbers a program needs the sine, the cosine, the square of each and the
# sum of both squares. The answer is 1, every time; but a program that is handed the five operations
# one by one does not know that, and carries every value in between to device memory and back. If a
# single kernel did all five in one go, how many times as fast would it be?

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
# ## Five trips
#
# Written as one reads it, the formula is five loops over arrays, and each becomes a kernel. All five
# are pointwise: element `i` of the result needs element `i` of the inputs and no other. A framework
# in eager execution works in this way. It launches the kernel of an operation as soon as the program
# reaches it, and each operation finds its inputs in device memory and leaves its result there.
#
# ??? definition "Pointwise operation | pointwise"
#     An operation whose element i needs only the elements i of its inputs.
#
# ??? definition "Eager execution"
#     Running each operation when the program reaches it, before it is known what comes next.


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
FIVE = [SINE, COSINE, SQUARE_S, SQUARE_C, ADD]


# %% fold="Code of the cases"
def numbers(n, each=1):
    between = {name: output(n) for name in ("s", "c", "s2", "c2")}
    return case(x=normal(n), **between, y=output(n), n=n, grid=ceil_div(n, 256 * each), block=256)


MANY = 2**26
publish(many=MANY, small_n=2**12)


def one_step(n, reads, writes):
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

# %% [markdown]
# Count the values that cross between the chip and its memory, for each number: every loop reads one
# and writes one, and the sum reads two. That makes {{ moved.five }}. Nothing in the task asks for
# that: $x$ has to come in and $y$ has to go out, {{ moved.one }} values. Think of the device memory
# as a storehouse, of the chip as a factory, and of a belt between them.

# %% fold="Code of the figure"
from tilewise.figures import Series, State, line_chart, stepped

X = np.array([0.0, 0.5, 1.0, 2.0])
EMPTY = np.full(4, np.nan)
TRIPS = [
    ("s", ("x",), "s = sin(x)", "the sine", lambda held: np.sin(held["x"])),
    ("c", ("x",), "c = cos(x)", "the cosine", lambda held: np.cos(held["x"])),
    ("s2", ("s",), "s2 = s * s", "the square of s", lambda held: held["s"] ** 2),
    ("c2", ("c",), "c2 = c * c", "the square of c", lambda held: held["c"] ** 2),
    ("y", ("s2", "c2"), "y = s2 + c2", "the sum", lambda held: held["s2"] + held["c2"]),
]


def on_the_belt(fused):
    """Every trip over the belt for four numbers, with what lies in the storehouse and in the factory."""
    store = dict.fromkeys(("x", "y") if fused else ("x", "s", "c", "s2", "c2", "y"), EMPTY)
    store["x"] = X
    inside = dict.fromkeys(("x", "s", "c", "s2", "c2"), EMPTY)
    carried = 0
    states = []

    def now(text, line=0, reads=()):
        held = np.array([inside[name] for name in inside])
        arrays = {**store, "in the factory": held}
        taken = {name: range(4) for name in reads}
        states.append(State(text, line=line, values={"carried": carried}, arrays=arrays, reads=taken))

    now("The numbers x lie in the storehouse; the factory is empty.")
    for line, (name, needs, _, said, made) in enumerate(TRIPS, start=1):
        fetched = [one for one in needs if np.isnan(inside[one]).all()]
        for one in fetched:
            inside[one] = store[one]
            carried += 1
        if fetched:
            now(f"The belt brings {' and '.join(fetched)} in.", line, fetched)
        fresh = made(inside)
        if name in inside:  # y goes straight out
            inside[name] = fresh
        if fused and name != "y":
            now(f"The factory makes {said} and keeps it.", line)
            continue
        store = {**store, name: fresh}
        carried += 1
        now(f"The factory makes {said}; the belt takes {name} out.", line)
        if not fused:
            inside = dict.fromkeys(inside, EMPTY)
            if name != "y":
                now("The launch is over, and the factory is cleared.", line)
    return states


BELT = "\n".join(step for _, _, step, _, _ in TRIPS)
STATES = {fused: on_the_belt(fused) for fused in (False, True)}
moved = {name: STATES[fused][-1].values["carried"] for name, fused in (("five", False), ("one", True))}
publish(moved={**moved, "saved": moved["five"] - moved["one"], "ratio": moved["five"] / moved["one"]})
for fused, title, caption in (
    (
        False,
        "Five launches: what the factory has just made leaves, and comes back for the next step",
        "Four numbers, five launches. The rows of the factory are x, s, c, s2 and c2. A model of the traffic, not of time.",
    ),
    (
        True,
        "One launch: x comes in once, y goes out once, and the rest never leaves",
        "The same four numbers in one launch. What lies between x and y stays in the factory: on a GPU, in registers.",
    ),
):
    show(stepped(STATES[fused], source=BELT, language="python", blanks=True, title=title, caption=caption))

# %% [markdown]
# ## One trip
#
# Doing several operations in one kernel, so that the values between them never go to device memory,
# is called fusion. By hand it takes no more than putting the five lines behind one another. `s` and
# `c` are now variables of a thread, so they live in its \registers.
#
# ??? definition "Fusion"
#     Doing several operations in one kernel, so that the values between them stay on the chip.


# %% tab="Pseudocode"
def sum_of_squares(x, y):
    for i in parallel(len(x)):
        # [chain
        s, c = np.sin(x[i]), np.cos(x[i])
        y[i] = s * s + c * c
        # chain]


# %% tab="CUDA C"
ONE = Kernel(r"""
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

# %% fold="Two more ways to write it, and the checks"
QUICK = Kernel(r"""
extern "C" __global__
void quick(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float s = __sinf(x[i]), c = __cosf(x[i]);  // New: an instruction each, less exact
    y[i] = s * s + c * c;
}
""")

FOUR = Kernel(r"""
__device__ float of_squares(float x) {
    float s = sinf(x), c = cosf(x);
    return s * s + c * c;
}
extern "C" __global__
void four(const float* x, float* y, int n) {
    int i = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
    if (i + 3 < n) {  // New: four numbers in a load
        float4 v = *(const float4*)(x + i);
        *(float4*)(y + i) = make_float4(of_squares(v.x), of_squares(v.y),
                                        of_squares(v.z), of_squares(v.w));
    } else {
        for (; i < n; ++i) y[i] = of_squares(x[i]);  // the last one to three
    }
}
""")


agree(sum_of_squares, ONE, [numbers(n) for n in (1, 255, 1003)], rtol=1e-6)
agree(sum_of_squares, FOUR, [numbers(n, 4) for n in (1, 255, 1003)], rtol=1e-6)
agree(sum_of_squares, QUICK, [numbers(n) for n in (1, 255, 1003)], rtol=1e-5)

# %% [markdown]
# All answers are 1, so a check of them proves little: a kernel that writes ones would pass. That is
# why each of the five steps was checked above on numbers of its own, and why the exercise has another
# chain.

# %% [markdown]
# The chain is also a graph: $x$ goes two ways, which meet in the sum. A step reads what lies above it and leaves
# what lies below. Between everything in memory and nothing but the ends there are choices: each square in one
# launch with its function makes three launches and 7 values, sine and cosine in one and the other three in
# another makes two launches and 6. What two launches share lies in memory; what one launch keeps does not.

# %% [markdown]
# ## Predict
#
# None of the five does much arithmetic for a byte, so bytes should set the time: {{ moved.five }}
# values against {{ moved.one }}, a ratio of {{ moved.ratio }}. For short arrays the bytes hardly
# count, and [launches](../speed/launches.py) do: five against one. Every value that stays on the chip saves one
# write and each of its reads.

# %% [markdown]
# ## By hand and by compiler
#
# A compiler can do the same if it sees the whole chain before anything runs. `torch.compile` records
# what a function does to its tensors as a computation graph (the part called TorchDynamo), groups the
# operations that one kernel can do, and writes such a kernel (TorchInductor). On a GPU it is written
# in Triton, a language in which one program handles a whole block of elements.[^elsewhere] It is a
# contender below, next to torch's eager operations.[^thunder]
#
# [^elsewhere]: AMD's and Intel's GPUs have compilers for Triton too, and `torch.compile` writes it for
#     them as well. What was tuned does not travel with the text: one instruction serves 64 threads on
#     AMD's GPUs for servers, 32 on NVIDIA's, and caches, \shared memory and matrix units have other
#     sizes. CUDA C is NVIDIA's own; AMD's HIP is nearly the same language under other names.
#
# [^thunder]: Lightning Thunder, `thunder.jit`, makes no kernels of its own. It turns the function into
#     another Python program, which can be printed and read, and hands parts of that to others:
#     `torch.compile`, NVIDIA's nvFuser, libraries. It is not measured here.
#
# ??? definition "Computation graph"
#     The operations of a program and which of them uses the result of which.
#
# ??? definition "TorchDynamo"
#     The part of `torch.compile` that follows a Python function and turns it into a graph.
#
# ??? definition "TorchInductor | Inductor"
#     The part of `torch.compile` that turns a graph into kernels, fusing what it can.
#
# ??? definition "Triton"
#     A language in Python for GPU kernels, in which one program instance handles a block of elements
#     and the compiler shares it out among threads.


# %% fold="Code of the contenders"
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


# %% fold="Code of the measurement"
SIZES = (2**12, 2**16, 2**20, 2**22, 2**24, 2**26)
squares = measure(
    "sum_of_squares",
    variants={
        "five launches": lambda n: [one.on(numbers(n)) for one in FIVE],
        "one launch": lambda n: ONE.on(numbers(n)),
        "one launch, 16 bytes a load": lambda n: FOUR.on(numbers(n, 4)),
        "one launch, quick sine": lambda n: QUICK.on(numbers(n)),
    },
    cases=[{"n": n} for n in SIZES],
    count_case={"n": 2**14},
    bytes=lambda n: 8 * n,
    library={
        "torch, eager": eager(squares_in_torch),
        "torch.compile": compiled(squares_in_torch),
    },
    reference=lambda x: {"y": np.sin(x) ** 2 + np.cos(x) ** 2},
    tolerance=1e-5,
    reasons={"*": "What was moved, and how long it took"},
    fold="All 36 rows",
    guess=Guess(
        "Sixty-seven million numbers: how many times as fast is one launch as five?",
        of="one launch",
        over="five launches",
        at={"n": 2**26},
        between=(0.5, 50.0),
        models={"values moved": 11 / 2, "launches": 5.0},
        because="Values moved decide as long as the arithmetic of the one launch stays hidden behind its bytes.",
    ),
)

# %% [markdown]
# ## What was moved, and how long it took
#
# The simulator counts {{ counted.five | , }} sectors for five launches of {{ counted.n | , }} numbers
# and {{ counted.one | , }} for one: a ratio of {{ counted.ratio }}, as on the belt. The times follow
# where the arrays are long.

# %% fold="Code of the numbers"
counted = {"n": 2**14}
for name, kernels in {"five": FIVE, "one": [ONE]}.items():
    counts = [kernel.on(numbers(2**14)).simulate().counts for kernel in kernels]
    counted[name] = sum(one.global_load.sectors + one.global_store.sectors for one in counts)
publish(counted={**counted, "ratio": counted["five"] / counted["one"]})

# %% fold="Code of the figure and of the numbers"
from tilewise.measurements import medians_us, recorded, recorded_device

GPU = recorded_device()
A_LAUNCH_US = 2.0
ROLES = {
    "five launches": "read",
    "torch, eager": "warp",
    "torch.compile": "tile",
    "one launch": "block",
}
us = medians_us(squares, "n")
TOOK = {label: [us.get((label, n), np.nan) for n in SIZES] for label in ROLES}
five, eager_us, compiled_us, one = (times[-1] for times in TOOK.values())
small_five, small_one = TOOK["five launches"][0], TOOK["one launch"][0]
publish(
    took={
        "ratio": five / one,
        "five_gb_per_s": 44 * MANY / five / 1e3,
        "eager_gb_per_s": 44 * MANY / eager_us / 1e3,
        "compiled_ratio": eager_us / compiled_us,
        "small_ratio": small_five / small_one,
        "each_more": (small_five - small_one) / 4,
    }
)
model = [5 * max(A_LAUNCH_US, 4 * 11 / 5 * n / (GPU.memory_gb_per_s * 1e3)) for n in SIZES]
if np.isfinite(list(TOOK.values())).all():
    show(
        line_chart(
            [
                *(Series(label, SIZES, times, role=ROLES[label]) for label, times in TOOK.items()),
                Series("five launches, model", SIZES, model, role="predicted", marks=False),
            ],
            x="numbers",
            y="time [µs]",
            log_x=True,
            log_y=True,
            title="Short arrays pay for launches, long ones for bytes; fusion saves both",
            caption=f"The five operations on an {{machine}}, in five launches and in one, by hand and by torch. Dashed: a model of five launches, each the longer of {A_LAUNCH_US:.0f} µs, a round number, and its values at the peak bandwidth (data sheet).",
        )
    )
    assert small_five > 2.5 * small_one, "the title says that fusion saves launches"

# %% [markdown]
# For {{ many | , }} numbers one launch takes {{ sum_of_squares.one_launch.n_67108864.median | us }} and five take
# {{ sum_of_squares.five_launches.n_67108864.median | us }}: {{ took.ratio | .1f }} times as fast, less than the bytes promise.
# The five use the memory better, {{ took.five_gb_per_s | ,.0f }} GB/s against
# {{ sum_of_squares.one_launch.n_67108864.gb_per_s | ,.0f }} for the fused kernel. What holds that one back? Either its arithmetic,
# all five operations in one place, or its loads of 4 bytes, which the
# [roofline](../speed/roofline.py) has seen fall short before.

# %% [markdown]
# Two more rows of the table tell them apart. `__sinf` and `__cosf` are two instructions each, where
# `sinf` and `cosf` are dozens:[^flop] with them the time is
# {{ sum_of_squares.one_launch_quick_sine.n_67108864.median | us }}, not much less.
# With the exact functions and four numbers in a load it is
# {{ sum_of_squares.one_launch_16_bytes_a_load.n_67108864.median | us }}, and the bytes move
# at {{ sum_of_squares.one_launch_16_bytes_a_load.n_67108864.gb_per_s | ,.0f }} GB/s. So it was mostly the loads, and most of the arithmetic fits
# behind the bytes. Torch's two rows use the memory better than those with 4 bytes a load,
# {{ took.eager_gb_per_s | ,.0f }} GB/s eager and {{ sum_of_squares.torch_compile.n_67108864.gb_per_s | ,.0f }} compiled, so they
# are the fairer test of the count: {{ sum_of_squares.torch_eager.n_67108864.median | us }} and
# {{ sum_of_squares.torch_compile.n_67108864.median | us }}, a ratio of
# {{ took.compiled_ratio | .1f }} where {{ moved.ratio }} was predicted.
#
# [^flop]: One often counts a cosine as one FLOP. Its argument is first brought near zero, then put into a polynomial;
#     even the instruction behind `__cosf` is one of a slower kind.

# %% [markdown]
# For {{ small_n | , }} numbers five launches take {{ sum_of_squares.five_launches.n_4096.median | us }} and one
# {{ sum_of_squares.one_launch.n_4096.median | us }}. The ratio is {{ took.small_ratio | .1f }}, not the number of launches:
# the first launch of a row costs more than those that follow, {{ took.each_more | .1f }} µs each. Here
# the host was ahead, as in most tables of this course. What if it is not?

# %% [markdown]
# ## Small arrays wait for the host
#
# The same {{ small_n | , }} numbers once more, from an idle device and with the host's work in the
# time. Five launches take {{ sum_of_squares_with_host.five_launches.median | us }} and one takes
# {{ sum_of_squares_with_host.one_launch.median | us }} through this
# course's `Kernel`, which checks each argument. A CUDA graph of the five takes
# {{ sum_of_squares_with_host.five_in_a_cuda_graph.median | us }}: it needs one call, like the fused kernel, but still runs five kernels and
# moves what they move. Torch takes {{ sum_of_squares_with_host.torch_eager.median | us }} eager and
# {{ sum_of_squares_with_host.torch_compile.median | us }}
# compiled. A compiled function is not free to call either: it first makes sure that its input still
# is what it was compiled for. These are times of one host and its Python: they
# differ more from one process to the next than others here do, but their order was the same each time.

# %% fold="Code of the measurement"
measure(
    "sum_of_squares_with_host",
    variants={
        "five launches": lambda n: [one.on(numbers(n)) for one in FIVE],
        "one launch": lambda n: ONE.on(numbers(n)),
    },
    cases=[{"n": 2**12}],
    count_case={"n": 2**12},
    bytes=lambda n: 8 * n,
    library={
        "five in a CUDA graph": five_in_a_graph,
        "torch, eager": eager(squares_in_torch),
        "torch.compile": compiled(squares_in_torch),
    },
    reference=lambda x: {"y": np.sin(x) ** 2 + np.cos(x) ** 2},
    tolerance=1e-5,
    with_host=True,
    reasons={"*": "Small arrays wait for the host"},
)

# %% [markdown]
# ## Two spellings of one thing
#
# Does it help to write the chain as one expression, `torch.cos(torch.cos(x))`, in place of two
# statements with a name for the value between them? In eager execution it cannot: by the time the
# outer `cos` is called, the inner one has been launched, whether its result has a name or
# not.[^spelling] By hand the two become one line of one kernel.
#
# [^spelling]: [Where the sources differ](../../conventions.md#the-sources): the blog post counts the
#     nested call as fused, one read and one write. Eager PyTorch launches two kernels for both
#     spellings, as the count below shows.


# %% tab="Pseudocode"
def cos_of_cos(x, y):
    for i in parallel(len(x)):
        y[i] = np.cos(np.cos(x[i]))


# %% tab="CUDA C"
COS_OF_COS = Kernel(r"""
extern "C" __global__
void cos_of_cos(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = cosf(cosf(x[i]));
}
""")
AGAIN = Kernel(r"""
extern "C" __global__
void cosine_of_c(const float* c, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = cosf(c[i]);
}
""")


# %% fold="Code of the check and of the measurement"
def cosine_of_c(c, y):
    for i in parallel(len(c)):
        y[i] = np.cos(c[i])


agree(cosine_of_c, AGAIN, [one_step(n, ("c",), "y") for n in (1, 255, 1003)], rtol=1e-6)
agree(cos_of_cos, COS_OF_COS, [numbers(n) for n in (1, 255, 1003)], rtol=1e-6)
measure(
    "cos_of_cos",
    variants={
        "two launches": lambda n: [one.on(numbers(n)) for one in (COSINE, AGAIN)],
        "one launch": lambda n: COS_OF_COS.on(numbers(n)),
    },
    cases=[{"n": 2**26}],
    count_case={"n": 2**14},
    bytes=lambda n: 8 * n,
    library={
        "torch, eager": eager(cosines_in_torch),
        "torch.compile": compiled(cosines_in_torch),
    },
    reference=lambda x: {"y": np.cos(np.cos(x))},
    tolerance=1e-5,
    reasons={"two launches": "Two spellings of one thing"},
)

# %% [markdown]
# A profiler counts what a call really starts. Below the counts stands what TorchInductor wrote for
# the sum of the squares, as it came from it on the recorded machine.[^logs]
#
# [^logs]: `TORCH_LOGS=output_code` prints it too, if it is set before Python starts: torch reads it
#     when it is imported, and setting it later from the program has no effect.

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

from tilewise.measurements import text_record

TEXT = text_record("memory/fusion", "what_runs").text
FOUND = dict(re.findall(r"^([a-z ]+, (?:eager|compiled)): (\d+) kernels", TEXT, re.M))
publish(
    kernels={name.replace(", ", " ").replace(" ", "_"): int(number) for name, number in FOUND.items()}
    | {"loads": TEXT.count("tl.load("), "stores": TEXT.count("tl.store(")},
    cosines={
        "ratio": recorded("cos_of_cos.two_launches.median") / recorded("cos_of_cos.one_launch.median"),
        "torch_ratio": recorded("cos_of_cos.torch_eager.median")
        / recorded("cos_of_cos.torch_compile.median"),
        "model": 4 / 2,
    },
)

# %% [markdown]
# Eager torch starts {{ kernels.two_statements_eager }} kernels for two statements and
# {{ kernels.one_expression_eager }} for the
# nested call; compiled it is {{ kernels.one_expression_compiled }}. For the sum of the squares it is
# {{ kernels.squares_of_both_eager }} and {{ kernels.squares_of_both_compiled }}, and the generated kernel has
# {{ kernels.loads }} load and {{ kernels.stores }} store. The bytes predict a factor of
# {{ cosines.model | .0f }} for the cosines; by hand it is {{ cosines.ratio | .2f }}, in torch
# {{ cosines.torch_ratio | .2f }}.

# %% [markdown]
# ## Where it ends
#
# Each fusion adds operations and removes bytes, so the \intensity grows until arithmetic sets the
# time; from there on nothing is gained. A value that others need as well must be written anyhow. And
# a chain ends where an element needs the results of *other* threads: a sum over a row, a product of
# matrices. Fusing across such a place takes a \barrier or a second look at the mathematics, and much
# of this course is about the second.
#
# ??? question "What can a compiler not fuse?"
#     What it does not see, and what it may not change. Where Python itself must know a value, for an
#     `if` or to print it, the graph ends, and each side is compiled alone. A library's product of
#     matrices is closed: the steps before it can become one kernel and those behind it another, but
#     beyond the few endings that the library offers neither joins the product, unless the compiler
#     brings one of its own. And it keeps to the algorithm: it will not find by itself that a softmax
#     can be summed before its maximum is known, which is what makes attention
#     [one kernel](../attention/puzzles.py). Such kernels are written by people.

# %% [markdown]
# ## The answer
#
# One launch takes {{ sum_of_squares.one_launch.n_67108864.median | us }} where five take
# {{ sum_of_squares.five_launches.n_67108864.median | us }},
# {{ took.ratio | .1f }} times as fast; in torch, where both sides use the memory better, it is
# {{ took.compiled_ratio | .1f }} times. The count of values had said {{ moved.ratio }}. Neither the
# operations nor their order have changed: {{ moved.saved }} values of each {{ moved.five }} are no
# longer carried.

# %% [markdown]
# ## Takeaways
#
# - Count values, not operations: five pointwise steps move {{ moved.five }} values for each number,
#   one fused kernel moves {{ moved.one }}.
# - Fusion saves bytes where arrays are long and launches where they are short. A CUDA graph saves
#   only the host's part of the second.
# - In eager execution nothing is fused, however the expression is written. A compiler that sees the
#   graph writes the same one load and one store as a hand does.
# - A fused kernel has a higher intensity. Once its arithmetic takes as long as its bytes, fusing more
#   saves nothing.

# %% fold="The whole cell, with four wrong answers that the tests turn down"
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
ROW_FOR_COLUMN = Kernel(GELU_SOURCE.replace("b[i % columns]", "b[i / columns]"))
NO_GUARD = Kernel(GELU_SOURCE.replace("    if (i >= rows * columns) return;\n", ""))
THROUGH_MEMORY = Kernel(
    GELU_SOURCE.replace(
        "float v = x[i] + b[i % columns];", "y[i] = x[i] + b[i % columns];\n    float v = y[i];"
    )
)
SCALED_FIRST = Kernel(
    GELU_SOURCE.replace("b[i % columns];", "b[i % columns];\n    v *= s[0];").replace(" * s[0];\n}", ";\n}")
)


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
        asked = counts.global_load.requests / -(-x.size // 32)
        assert asked <= 3, f"{rows} x {columns}: {asked:.0f} reads a warp; x, b and s are three"
        assert counts.global_store.requests <= -(-x.size // 32), "y is written more than once"


exercise(
    "A bias, an activation and a factor",
    """
    Write `gelu_chain` in one launch: `y = gelu(x + b) * s` for a matrix `x` of `rows` by `columns`, a bias
    `b` with a number for each column, and a single number `s[0]`. GELU is
    $\\tfrac{v}{2}\\,(1 + \\tanh(\\sqrt{2/\\pi}\\,(v + 0.044715\\,v^3)))$. Each number of `x` is read once and
    each of `y` written once; the tests count. How many values does the same chain move in three launches?
    """,
    answer=GELU,
    tests=gelu_tests,
    wrong=[ROW_FOR_COLUMN, NO_GUARD, THROUGH_MEMORY, SCALED_FIRST],
    hint="The value after the bias is a variable of the thread; nothing else has to be read again.",
    explanation="Three launches read and write three times, 6 values for each number; one moves 2, and b and s are small enough to stay in a cache.",
)

# %% [markdown]
# A fused kernel keeps what it needs on the chip. What if a later kernel needs those values again?
# It can [read what was stored, or make it anew](recomputation.py) from $x$; bytes decide that too.
