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
    check,
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
    """n numbers, so many a thread, and room for all that comes between them and the result."""
    between = {name: output(n) for name in ("s", "c", "s2", "c2")}
    return case(x=normal(n), **between, y=output(n), n=n, grid=ceil_div(n, 256 * each), block=256)


MANY = 2**26
publish(many=MANY, small_n=2**12)


def one_step(n, reads, writes):
    """n numbers for each array that a step reads, and room for what it writes."""
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
from tilewise.figures import Answer, Meter, Series, Slider, State, calculator, line_chart, stepped

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
check([moved["five"], moved["one"]], [11, 2], rtol=0.0, name="values carried for each number")
show(
    stepped(
        STATES[False],
        source=BELT,
        language="python",
        blanks=True,
        title="Five launches: what the factory has just made leaves, and comes back for the next step",
        caption="Four numbers, five launches. The rows of the factory are x, s, c, s2 and c2. A model of the traffic, not of time.",
    )
)
show(
    stepped(
        STATES[True],
        source=BELT,
        language="python",
        blanks=True,
        title="One launch: x comes in once, y goes out once, and the rest never leaves",
        caption="The same four numbers in one launch. What lies between x and y stays in the factory: on a GPU, in registers.",
    )
)

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
# The chain is also a graph: $x$ goes two ways, which meet in the sum. In the plan a step reads what
# lies above it and leaves what lies below. Between everything in memory and nothing but the ends
# there are choices.

# %% fold="Code of the figure"
from tilewise.figures import Part, Stop, floor_plan

GRAPH = {
    "sine": (("x",), "s"),
    "cosine": (("x",), "c"),
    "square s": (("s",), "s2"),
    "square c": (("c",), "c2"),
    "sum": (("s2", "c2"), "y"),
}
SHARED = {
    "no two": [["sine"], ["cosine"], ["square s"], ["square c"], ["sum"]],
    "each square with its function": [["sine", "square s"], ["cosine", "square c"], ["sum"]],
    "sine and cosine; the other three": [["sine", "cosine"], ["square s", "square c", "sum"]],
    "all five": [["sine", "cosine", "square s", "square c", "sum"]],
}


def stored_and_moved(launches):
    """Which arrays are in memory, and how many values cross for each number."""
    stored, crossing = {"x"}, 0
    for steps in launches:
        made = {GRAPH[step][1] for step in steps}
        read = {name for step in steps for name in GRAPH[step][0]} - made
        wanted = {name for step in GRAPH if step not in steps for name in GRAPH[step][0]} | {"y"}
        stored |= made & wanted
        crossing += len(read) + len(made & wanted)
    return stored, crossing


LANES = {"x": (0, 11), "s": (0, 5), "c": (6, 5), "s2": (0, 5), "c2": (6, 5), "y": (0, 11)}
ROWS = {"x": 0, "s": 2, "c": 2, "s2": 4, "c2": 4, "y": 6}
plan = [Part(name, "array", (at, ROWS[name]), (wide, 1), 1, name) for name, (at, wide) in LANES.items()] + [
    Part(step, "step", (LANES[made][0], ROWS[made] - 1), (LANES[made][1], 1), 1, step)
    for step, (_, made) in GRAPH.items()
]
SHORT = dict(zip(SHARED, ("no two", "each pair", "two groups", "all five"), strict=True))
by_choice = {name: stored_and_moved(launches) for name, launches in SHARED.items()}
check(
    [by_choice["no two"][1], by_choice["all five"][1]],
    [moved["five"], moved["one"]],
    rtol=0.0,
    name="values of the graph and of the belt",
)
show(
    floor_plan(
        plan,
        [
            Stop(
                SHORT[name],
                tuple(sorted(stored)),
                f"{name.capitalize()}: {crossing} values cross for each number, in {len(SHARED[name])} {'launch' if len(SHARED[name]) == 1 else 'launches'}. In memory: {', '.join(array for array in LANES if array in stored)}.",
            )
            for name, (stored, crossing) in by_choice.items()
        ],
        levels={"array": "global", "step": "block"},
        step_name="sharing a launch",
        title="What two launches share lies in memory; what one launch keeps does not",
        caption="sin² x + cos² x as a graph: five steps, and the arrays between them. Lit is what lies in device memory.",
    )
)

# %% [markdown]
# ## Predict
#
# None of the five does much arithmetic for a byte, so bytes should set the time: {{ moved.five }}
# values against {{ moved.one }}, a ratio of {{ moved.ratio }}. For short arrays the bytes hardly
# count, and [launches](../speed/launches.py) do: five against one. Between the two extremes lie
# partial fusions. Choose which of the steps share a launch.


# %% fold="Code of the figure"
from tilewise.measurements import recorded_device

GPU = recorded_device()
A_LAUNCH_US = 2.0
GROUPS = {name: (crossing, len(SHARED[name])) for name, (_, crossing) in by_choice.items()}


def chain_us(values, launches, n):
    """The longer of starting the launches and moving the values, in µs."""
    return launches * max(A_LAUNCH_US, 4 * values / launches * n / (GPU.memory_gb_per_s * 1e3))


def grouped(sharing_a_launch, numbers):
    """What a choice moves and how long it takes."""
    n = 2 ** int(numbers.removeprefix("2^"))
    values, launches = GROUPS[sharing_a_launch]
    took, least = chain_us(values, launches, n), chain_us(2, 1, n)
    by_bytes = took > 1.5 * launches * A_LAUNCH_US
    verdict = "Bytes set the time." if by_bytes else "Starting the launches is most of the time."
    return Answer([values, launches, took / least], verdict)


show(
    calculator(
        [
            Slider("sharing a launch", list(GROUPS), "no two"),
            Slider("numbers", [f"2^{power}" for power in range(10, 29, 2)], "2^26"),
        ],
        grouped,
        meters=[
            Meter("values moved for each number", 11, "", "read"),
            Meter("launches", 5, "", "block"),
            Meter("time, all five in one launch = 1", 6, "", "predicted", ".2f"),
        ],
        title="Every value that stays on the chip saves one write and each of its reads",
        caption=f"A model: the peak bandwidth of an {{machine}} (data sheet), and {A_LAUNCH_US:.0f} µs for a launch at least, a round number. Arithmetic is left out.",
    )
)

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
    """Each operation as the program reaches it."""

    def prepare(arrays):
        import torch

        x = torch.as_tensor(arrays["x"], device="cuda")
        return lambda: formula(x)

    return prepare


def compiled(formula):
    """The formula given to torch.compile, for one size and compiled before it is timed."""

    def prepare(arrays):
        import torch

        torch.compiler.reset()  # a size of its own for each case, none of them dropped
        x = torch.as_tensor(arrays["x"], device="cuda")
        fused = torch.compile(formula, dynamic=False)
        fused(x)
        return lambda: fused(x)

    return prepare


def five_in_a_graph(arrays):
    """The five launches, recorded once and started with one call."""
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

# %% fold="Code of the figure"
COUNTED = 2**14


def sectors(kernel, each=1):
    """Sectors read and written, counted by the simulator."""
    counts = kernel.on(numbers(COUNTED, each)).simulate().counts
    return counts.global_load.sectors + counts.global_store.sectors


counted = {"n": COUNTED, "five": sum(sectors(one) for one in FIVE), "one": sectors(ONE)}
publish(counted={**counted, "ratio": counted["five"] / counted["one"]})

# %% fold="Code of the figure and of the numbers"
ROLES = {
    "five launches": "read",
    "torch, eager": "warp",
    "torch.compile": "tile",
    "one launch": "block",
}


def recorded(made, label):
    """A contender's recorded times in µs by n; NaN where there is none."""
    rows = [row for row in made.rows if row["variant"] == label]
    return {
        row["parameters"]["n"]: (row["recorded"] or row["here"] or {}).get("median", np.nan) for row in rows
    }


LABELS = (*ROLES, "one launch, 16 bytes a load", "one launch, quick sine")
TOOK = {label: recorded(squares, label) for label in LABELS}


def took(label, n=MANY):
    return TOOK[label].get(n, np.nan)


publish(
    took={
        "five": took("five launches"),
        "one": took("one launch"),
        "ratio": took("five launches") / took("one launch"),
        "gb_per_s": 8 * MANY / took("one launch") / 1e3,
        "five_gb_per_s": 44 * MANY / took("five launches") / 1e3,
        "wide": took("one launch, 16 bytes a load"),
        "wide_gb_per_s": 8 * MANY / took("one launch, 16 bytes a load") / 1e3,
        "quick": took("one launch, quick sine"),
        "quick_ratio": took("five launches") / took("one launch, quick sine"),
        "eager": took("torch, eager"),
        "compiled": took("torch.compile"),
        "eager_gb_per_s": 44 * MANY / took("torch, eager") / 1e3,
        "compiled_gb_per_s": 8 * MANY / took("torch.compile") / 1e3,
        "compiled_ratio": took("torch, eager") / took("torch.compile"),
        "small_five": took("five launches", 2**12),
        "small_one": took("one launch", 2**12),
        "small_ratio": took("five launches", 2**12) / took("one launch", 2**12),
        "each_more": (took("five launches", 2**12) - took("one launch", 2**12)) / 4,
    }
)
if np.isfinite([took(label, n) for label in LABELS for n in SIZES]).all():
    five, one, wide, quick = (
        took(label)
        for label in ("five launches", "one launch", "one launch, 16 bytes a load", "one launch, quick sine")
    )
    assert 4 < five / one < 5.5, "the answer says that one launch gains less than the bytes promise"
    assert one - wide > 2 * (one - quick), "the text says that the loads hold one launch back, not the sines"
    eager_us, compiled_us = took("torch, eager"), took("torch.compile")
    assert eager_us < five and compiled_us < one, "the answer says that torch uses the memory better"
    assert 0.85 < eager_us / compiled_us / 5.5 < 1.15, (
        "the answer says that the count of values gives torch's ratio"
    )
    assert took("five launches", 2**12) > 2.5 * took("one launch", 2**12), (
        "the title says that fusion saves launches"
    )
    show(
        line_chart(
            [
                *(
                    Series(label, SIZES, [took(label, n) for n in SIZES], role=role)
                    for label, role in ROLES.items()
                ),
                Series(
                    "five launches, model",
                    SIZES,
                    [chain_us(11, 5, n) for n in SIZES],
                    role="predicted",
                    marks=False,
                ),
            ],
            x="numbers",
            y="time [µs]",
            log_x=True,
            log_y=True,
            title="Short arrays pay for launches, long ones for bytes; fusion saves both",
            caption="The five operations on an {machine}, in five launches and in one, by hand and by torch. Dashed: the model of the calculator for five launches.",
        )
    )

# %% [markdown]
# For {{ many | , }} numbers one launch takes {{ took.one | us }} and five take
# {{ took.five | us }}: {{ took.ratio | .1f }} times as fast, less than the bytes promise.
# The five use the memory better, {{ took.five_gb_per_s | ,.0f }} GB/s against
# {{ took.gb_per_s | ,.0f }} for the fused kernel. What holds that one back? Either its arithmetic,
# all five operations in one place, or its loads of 4 bytes, which the
# [roofline](../speed/roofline.py) has seen fall short before.

# %% [markdown]
# Two more rows of the table tell them apart. `__sinf` and `__cosf` are two instructions each, where
# `sinf` and `cosf` are dozens:[^flop] with them the time is {{ took.quick | us }}, not much less.
# With the exact functions and four numbers in a load it is {{ took.wide | us }}, and the bytes move
# at {{ took.wide_gb_per_s | ,.0f }} GB/s. So it was mostly the loads, and most of the arithmetic fits
# behind the bytes. Torch's two rows use the memory better than those with 4 bytes a load,
# {{ took.eager_gb_per_s | ,.0f }} GB/s eager and {{ took.compiled_gb_per_s | ,.0f }} compiled, so they
# are the fairer test of the count: {{ took.eager | us }} and {{ took.compiled | us }}, a ratio of
# {{ took.compiled_ratio | .1f }} where {{ moved.ratio }} was predicted.
#
# [^flop]: One often counts a cosine as one FLOP. Its argument is first brought near zero, then put into a polynomial;
#     even the instruction behind `__cosf` is one of a slower kind.

# %% [markdown]
# For {{ small_n | , }} numbers five launches take {{ took.small_five | us }} and one
# {{ took.small_one | us }}. The ratio is {{ took.small_ratio | .1f }}, not the number of launches:
# the first launch of a row costs more than those that follow, {{ took.each_more | .1f }} µs each. Here
# the host was ahead, as in most tables of this course. What if it is not?

# %% [markdown]
# ## Small arrays wait for the host
#
# The same {{ small_n | , }} numbers once more, from an idle device and with the host's work in the
# time. Five launches take {{ hosted.five | us }} and one takes {{ hosted.one | us }} through this
# course's `Kernel`, which checks each argument. A CUDA graph of the five takes
# {{ hosted.graph | us }}: it needs one call, like the fused kernel, but still runs five kernels and
# moves what they move. Torch takes {{ hosted.eager | us }} eager and {{ hosted.compiled | us }}
# compiled. A compiled function is not free to call either: it first makes sure that its input still
# is what it was compiled for. These are times of one host and its Python: they
# differ more from one process to the next than others here do, but their order was the same each time.

# %% fold="Code of the measurement"
with_the_host = measure(
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


# %% fold="Code of the numbers"
HOSTED = {
    row["variant"]: (row["recorded"] or row["here"] or {}).get("median", np.nan) for row in with_the_host.rows
}
if np.isfinite(list(HOSTED.values())).all():
    assert min(HOSTED, key=HOSTED.get) == "five in a CUDA graph", (
        "the text says that a graph needs one call only"
    )
    assert HOSTED["torch.compile"] > HOSTED["torch, eager"], "the text says that a compiled call is not free"
publish(
    hosted={
        "five": HOSTED.get("five launches", np.nan),
        "one": HOSTED.get("one launch", np.nan),
        "graph": HOSTED.get("five in a CUDA graph", np.nan),
        "eager": HOSTED.get("torch, eager", np.nan),
        "compiled": HOSTED.get("torch.compile", np.nan),
    }
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
cosines = measure(
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

SAID = text_record("memory/fusion", "what_runs")
TEXT = SAID.text if SAID else ""
FOUND = dict(re.findall(r"^([a-z ]+, (?:eager|compiled)): (\d+) kernels", TEXT, re.M))
COS = {row["variant"]: (row["recorded"] or row["here"] or {}).get("median", np.nan) for row in cosines.rows}
publish(
    kernels={
        "two": int(FOUND.get("two statements, eager", 0)),
        "nested": int(FOUND.get("one expression, eager", 0)),
        "fused": int(FOUND.get("one expression, compiled", 0)),
        "squares": int(FOUND.get("squares of both, eager", 0)),
        "squares_fused": int(FOUND.get("squares of both, compiled", 0)),
        "loads": TEXT.count("tl.load("),
        "stores": TEXT.count("tl.store("),
    },
    cosines={
        "two": COS.get("two launches", np.nan),
        "one": COS.get("one launch", np.nan),
        "ratio": COS.get("two launches", np.nan) / COS.get("one launch", np.nan),
        "torch_ratio": COS.get("torch, eager", np.nan) / COS.get("torch.compile", np.nan),
        "model": 4 / 2,
    },
)

# %% [markdown]
# Eager torch starts {{ kernels.two }} kernels for two statements and {{ kernels.nested }} for the
# nested call; compiled it is {{ kernels.fused }}. For the sum of the squares it is
# {{ kernels.squares }} and {{ kernels.squares_fused }}, and the generated kernel has
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
# One launch takes {{ took.one | us }} where five take {{ took.five | us }},
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
