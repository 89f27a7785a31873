# ---
# title: Finish one soon, or finish many
# needs: [kernels/first_kernel]
# summary: "Multiply and add 131,072 times in a row: who finishes one such task first, a processor's core or a GPU, and who a million?"
# description: "Latency and throughput: how long a step takes, how many are under way, and what that predicts from one thread to a million."
# date: 2026-11-21
# tags: [latency, throughput, cores]
# ---

# %% [markdown]
# A task is to multiply and add {{ task.steps | , }} times, each time with the result of the time
# before. One core of an ordinary processor and a whole GPU each get one such task. Which is
# done first? And with a million tasks, by what factor does the GPU win? Two numbers predict both
# answers: how long one step takes, and how many steps can be under way at once.

# %% [markdown]
# ## A chain of steps
#
# Within a task nothing can be spread over threads: every step needs the `x` that the step before
# has left. Between tasks nothing has to wait. So the kernel gives each task a thread, and the
# chain stays a loop. Each step goes a hundred-thousandth of the way towards 1, so the end of a task
# tells whether all of its steps were done.[^unroll]
#
# [^unroll]: `#pragma unroll 256` asks the compiler for 256 steps in a row between two looks at the
#     counter. Without it, counting would be a fair part of what is timed.

# %% tab="Pseudocode"
from tilewise import parallel


def chain(start, end, steps):
    for task in parallel(len(start)):
        x = start[task]
        for _ in range(steps):
            x = x * 0.99999 + 0.00001
        end[task] = x


# %% tab="CUDA C"
from tilewise import Kernel

CHAIN = Kernel(r"""
extern "C" __global__
void chain(const float* start, float* end, int tasks, int steps) {
    int task = blockIdx.x * blockDim.x + threadIdx.x;
    if (task >= tasks) return;
    float x = start[task];
    #pragma unroll 256  // time the chain, not the counting of its steps
    for (int step = 0; step < steps; ++step)
        x = x * 0.99999f + 0.00001f;
    end[task] = x;
}
""")

# %% [markdown]
# `agree` runs both tabs on sizes that blocks of 128 do not divide. The pseudocode rounds product
# and sum to 32 bits, the kernel only the sum, so they may part by three halves of a unit in the
# last place in each step; the tolerance leaves room for 300 of them. The longer chains of the
# measurement are checked against a formula: after s steps the distance to the end point has
# shrunk by 0.99999 to the power s.

# %%
from tilewise import agree, case, ceil_div, output, uniform

BLOCK = 128


def chains(tasks, steps):
    arrays = {"start": uniform(tasks), "end": output(tasks)}
    numbers = {"tasks": tasks, "steps": steps}
    return case(**arrays, **numbers, grid=ceil_div(tasks, BLOCK), block=BLOCK)


agree(chain, CHAIN, [chains(1, 3), chains(77, 300), chains(200, 33)], rtol=6e-5)

# %%
import numpy as np


def after(start, steps):
    """What chains end at, in 64-bit floats: each step nears the fixed point by its share."""
    a, b = np.float64(np.float32(0.99999)), np.float64(np.float32(0.00001))
    fixed = b / (1 - a)
    return {"end": fixed + (start - fixed) * a**steps}


# %% [markdown]
# ## Two numbers
#
# The first number is a time. A result can be used {{ model.latency | .0f }} cycles of the clock
# after its multiply-add began,[^four] so a task of {{ task.steps | , }} steps takes at least
# {{ model.one_us | us }} at the {{ model.ghz | .2f }} GHz that an H100 reaches, whatever else
# happens. This is its latency. The second number is a count: the chip has
# {{ model.units | , }} units for 32-bit multiply-adds,[^units] and each can begin a new one in
# every cycle. That decides the throughput.
#
# [^four]: NVIDIA does not state it. Others have measured it on an earlier chip,
#     four cycles{from: Jia et al., Dissecting the NVIDIA Volta GPU Architecture via
#     Microbenchmarking, 2018}; the first row of the measurement below confirms or refutes it.
#
# [^units]: 132 processors with 128 units each, from NVIDIA's white paper on the H100. The next
#     lesson looks at what such a processor is made of.
#
# ??? definition "Latency | latencies"
#     The time from the beginning of an operation, or of a task, until its result can be used.
#
# ??? definition "Throughput"
#     Work that is finished per unit of time, however long each piece of it takes.

# %% [markdown]
# Of {{ model.latency | .0f }} cycles a chain uses a single one of its unit's. In the other
# {{ model.spare | .0f }} the unit can begin steps of other chains, so {{ model.units | , }} units
# have room for {{ model.full | , }} chains, all of them at full speed. Up to there the time should
# not change at all: one task or {{ model.full | , }}, {{ model.one_us | us }}. Beyond it no unit
# is ever idle, and the time grows as the tasks do.

# %%
from tilewise.measurements import recorded_device

CHIP = recorded_device()
UNITS = CHIP.sms * CHIP.fma_per_sm_clock["fp32"]
LATENCY = 4  # cycles from a multiply-add to the next one that needs it


def predicted_us(tasks, steps, clock_mhz=CHIP.boost_mhz):
    """Microseconds for tasks of so many dependent steps, one thread a task."""
    cycles_a_step = np.maximum(LATENCY, np.asarray(tasks) / UNITS)
    return steps * cycles_a_step / clock_mhz


# %% fold="Code of the figure"
from tilewise import show
from tilewise.figures import heat_map

COUNTS = (1, 2, 3, 4, 8, 12, 16, 24, 32)
LENGTH = 16


def schedule(tasks, workers, each):
    """Who works when: a row a worker, a column a moment; two shades tell a worker's tasks apart."""
    busy = np.zeros((workers, LENGTH))
    for task in range(tasks):
        turn = task // workers
        busy[task % workers, turn * each : (turn + 1) * each] = 1.0 if turn % 2 == 0 else 0.6
    return busy


works = [
    np.vstack([schedule(tasks, 2, 1), np.zeros((1, LENGTH)), schedule(tasks, 16, 5)]) for tasks in COUNTS
]
ends = [(-(-tasks // 2) * 1, -(-tasks // 16) * 5) for tasks in COUNTS]
overtaken = next(tasks for tasks, (first, second) in zip(COUNTS, ends, strict=True) if second < first)
show(
    heat_map(
        {"at work": np.stack(works)},
        steps=COUNTS,
        step_name="tasks",
        start=3,
        x="time in moments",
        y="workers 0 and 1: quick; 3 to 18: slow",
        role="predicted",
        ranges={"at work": (0, 1)},
        key=False,
        title=f"The slow lose while tasks are few, and are done first from {overtaken} tasks on",
        caption="A model: equal tasks are handed out in turn to two quick workers, above, and to sixteen slow ones, below. A bar of one shade is one task. Move the slider from one task to 32 and see whose last bar ends first.",
        alt=f"Workers against time, for 1 to 32 tasks. The quick workers are done first up to {overtaken - 1} tasks, the slow ones from {overtaken} on.",
    )
)

# %% fold="Code of the numbers"
from tilewise import publish

STEPS = 131_072
MOST = 1_081_344  # 16 times as many as the units have room for
publish(
    task={"steps": STEPS, "most": MOST},
    model={
        "latency": LATENCY,
        "spare": LATENCY - 1,
        "units": UNITS,
        "full": UNITS * LATENCY,
        "ghz": CHIP.boost_mhz / 1000,
        "one_us": float(predicted_us(1, STEPS)),
    },
)

# %% [markdown]
# ## Measure: one to a million threads
#
# The same kernel with the same {{ task.steps | , }} steps, from one thread to
# {{ task.most | , }}. The bound in the table counts operations only, at the rate of all units
# together, so for one thread its share is next to nothing: that row is bound by latency, and
# the table's bound knows only throughput. Where will the recorded time begin to rise?

# %% fold="Code of the measurement"
from tilewise import measure
from tilewise.measurements import Guess

wide = measure(
    "tasks_on_the_gpu",
    variants={"one thread a task": lambda tasks, steps: CHAIN.on(chains(tasks, steps))},
    cases=[
        {"tasks": tasks, "steps": STEPS}
        for tasks in (1, 32, 1024, 16_896, 33_792, 67_584, 101_376, 135_168, 270_336, 540_672, 1_081_344)
    ],
    count_case={"tasks": 200, "steps": 512},
    flop=lambda tasks, steps: 2 * tasks * steps,
    reference=after,
    tolerance=4e-3,
    counts=(),
    fold="All 11 rows",
    guess=Guess(
        f"How many microseconds do {UNITS * LATENCY:,} tasks take?",
        of="one thread a task",
        at={"tasks": UNITS * LATENCY, "steps": STEPS},
        between=(100.0, 100_000_000.0),
        models={"one task": float(predicted_us(1, STEPS))},
        because="A unit that waits for one chain can begin steps of others, and there is room for just so many.",
    ),
    reasons={"one thread a task": "Two numbers"},
)

# %% fold="Code of the figure"
from tilewise.figures import Mark, Series, line_chart
from tilewise.measurements import medians_us, recorded

us = medians_us(wide, "tasks")
counts, times = np.array([tasks for _, tasks in us]), np.array(list(us.values()))
clock_mhz = recorded("tasks_on_the_gpu.sm_clock_mhz")
smooth = np.geomspace(1, counts[-1], 60)
model = Series(
    "model, in turns", smooth, predicted_us(smooth, STEPS, clock_mhz), role="predicted", marks=False
)


def in_rounds_us(tasks):
    """Microseconds if a unit's oldest chains go first: whole rounds of as many as fill its cycles."""
    rounds = np.ceil(np.asarray(tasks) / (UNITS * LATENCY))
    return rounds * STEPS * LATENCY / clock_mhz


stairs = np.repeat(UNITS * LATENCY * np.arange(1, 17), 2)[:-1]
stairs = np.concatenate([[1], stairs + np.tile([0, 1], 16)[: len(stairs)]])
oldest = Series("model, oldest first", stairs, in_rounds_us(stairs), role="predicted", marks=False)
show(
    line_chart(
        [Series("measured", counts, times), model, oldest] if np.isfinite(times).all() else [model],
        x="tasks, one thread each",
        y="time [µs]",
        log_x=True,
        log_y=True,
        marks=[Mark(f"{UNITS * LATENCY:,} tasks: every unit busy", x=UNITS * LATENCY)],
        title="The time stays the same until every unit is busy, then grows with the work",
        caption="131,072 dependent multiply-adds a task on an {machine}, and two models at the recorded clock, without the time of a launch: the chains of a unit take turns, or the oldest go first.",
    )
)

first, last = times[0], times[-1]
if np.isfinite(times).all():
    full = times[list(counts).index(UNITS * LATENCY)]
    assert full < 1.1 * first, "the title says that the time stays the same until every unit is busy"
    assert predicted_us(MOST, STEPS, clock_mhz) > 0.9 * last, (
        "the title says that it then grows with the work"
    )
publish(
    seen={
        "one_us": first,
        "step_ns": 1000 * first / STEPS,
        "cycles": first * clock_mhz / STEPS,
        "full_ratio": times[list(counts).index(UNITS * LATENCY)] / first,
        "last_us": last,
        "gain": MOST * first / last,
        "half_more": int(counts[6]),
        "half_more_us": times[6],
        "half_more_predicted_us": float(predicted_us(counts[6], STEPS, clock_mhz)),
        "twice": int(counts[7]),
        "twice_us": times[7],
        "of_units": float(predicted_us(MOST, STEPS, clock_mhz) / last),
        "clock_ghz": clock_mhz / 1000,
    },
    rounds={
        "half_more_us": float(in_rounds_us(counts[6])),
        "worst": float(np.max(np.abs(times / in_rounds_us(counts) - 1))),
    },
)

# %% [markdown]
# One thread takes {{ seen.one_us | us }}, which is {{ seen.cycles | .2f }} cycles a step at the
# recorded {{ seen.clock_ghz | .2f }} GHz, launch included. {{ model.full | , }} tasks take
# {{ seen.full_ratio | .2f }} times as long as one, so all threads but one came almost free. A
# million-odd take {{ seen.last_us | us }}, during which the units begin a step in
# {{ seen.of_units | .0% }} of their cycles. So the chip does {{ seen.gain | ,.0f }} times the work
# of one thread per second, and one thread is all that a program without parallel parts can use.

# %% [markdown]
# One row misses the line: {{ seen.half_more | , }} tasks take {{ seen.half_more_us | us }}, where
# the model says {{ seen.half_more_predicted_us | us }} and {{ seen.twice | , }} tasks take
# {{ seen.twice_us | us }}. Do some processors get more blocks than others? No: a kernel that asks
# every block where it runs finds 792 blocks, which are that many tasks, spread evenly.

# %% [markdown]
# The time seems to rise in steps, one for every {{ model.full | , }} tasks. The model assumes that
# all chains of a unit take turns. Suppose that older ones go first instead: {{ model.latency | .0f }}
# of them are enough to fill a unit's cycles, so a fifth and a sixth would have to wait until those
# have ended, and the time would be that of two rounds, {{ rounds.half_more_us | us }}. The figure
# has this model too, and every recorded time lies within {{ rounds.worst | .0% }} of it. That is no
# proof: one row decides between the two, and nobody has noted when each chain ended.

# %% fold="Code that asks each block where it runs" needs="gpu" record="blocks_on_processors"
from tilewise import gpu_here

if gpu_here():
    import cupy

    where = cupy.RawKernel(
        r"""
        extern "C" __global__ void where(const float* start, int* processor, int steps) {
            float x = start[0];
            for (int step = 0; step < steps; ++step) x = x * 0.99999f + 0.00001f;
            unsigned at;
            asm volatile("mov.u32 %0, %%smid;" : "=r"(at));
            if (threadIdx.x == 0) processor[blockIdx.x] = x < 2.0f ? (int)at : -1;
        }
        """,
        "where",
    )
    for blocks in (132, 264, 528, 792, 1056):
        processor = cupy.empty(blocks, dtype=cupy.int32)
        where((blocks,), (128,), (cupy.zeros(1, cupy.float32), processor, np.int32(50_000)))
        on_each = np.bincount(cupy.asnumpy(processor))
        on_each = on_each[on_each > 0]
        spread = ", ".join(f"{count} on {int((on_each == count).sum())}" for count in np.unique(on_each))
        print(f"{blocks} blocks of 128 threads, blocks on processors: {spread}")

# %% [markdown]
# ## One core of a processor
#
# Now the other side. A core is built to finish one thing soon: a higher clock, and much of its
# area spent on guessing what comes next. The compiler for the processor gets the same loop in C,
# in two forms: task after task, and 64 tasks side by side in the wide units that such a core has,
# too. A step has to wait for the one before on a core as well. How many tasks must there be
# before the GPU is ahead?
#
# ??? question "What is hyper-threading, and does a GPU have it?"
#     It lets a core keep two threads at hand, so that one can go on while the other waits. The GPU
#     has the same idea on another scale: a processor of an H100 keeps up to 64 groups of 32 threads
#     at hand. A core with two threads still spends most of its area on making each of them quick; the
#     GPU's processor relies on there always being another one that is ready.
#
# ??? definition "Hyper-threading"
#     Keeping the state of two threads on one core, which runs the one while the other waits.

# %% fold="The same two loops for one core, in C"
CPU_SOURCE = r"""
void one_by_one(const float* start, float* end, int tasks, int steps) {
    for (int task = 0; task < tasks; ++task) {
        float x = start[task];
        for (int step = 0; step < steps; ++step) x = x * 0.99999f + 0.00001f;
        end[task] = x;
    }
}

void side_by_side(const float* start, float* end, int tasks, int steps) {
    for (int first = 0; first < tasks; first += 64) {
        float x[64];
        for (int k = 0; k < 64; ++k) x[k] = first + k < tasks ? start[first + k] : 0.0f;
        for (int step = 0; step < steps; ++step)
            for (int k = 0; k < 64; ++k) x[k] = x[k] * 0.99999f + 0.00001f;
        for (int k = 0; k < 64 && first + k < tasks; ++k) end[first + k] = x[k];
    }
}
"""
CPU_FLAGS = ("-O3", "-march=native", "-ffp-contract=fast", "-shared", "-fPIC")


def compiled_here(source, flags):
    import ctypes
    import shutil
    import subprocess
    import tempfile
    from pathlib import Path

    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise ImportError("there is no C compiler here")
    folder = Path(tempfile.mkdtemp(prefix="tilewise_"))
    (folder / "chain.c").write_text(source)
    subprocess.run([compiler, *flags, "-o", "chain.so", "chain.c"], cwd=folder, check=True)
    return ctypes.CDLL(str(folder / "chain.so"))


def on_one_core(name, source=CPU_SOURCE, flags=CPU_FLAGS):
    """A contender that runs on the processor while the GPU waits."""

    def prepare(arrays):
        import ctypes

        import cupy

        function = getattr(compiled_here(source, flags), name)
        function.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_int]
        function.restype = None
        start = cupy.asnumpy(arrays["start"])
        end = np.full_like(start, np.nan)
        tasks, steps = int(arrays["tasks"]), int(arrays["steps"])

        def run():
            cupy.cuda.get_current_stream().synchronize()  # the clock is the GPU's: let it start first
            function(start.ctypes.data, end.ctypes.data, tasks, steps)
            return {"end": end}

        return run

    return prepare


# %% fold="Code of the measurement"
raced = measure(
    "tasks_on_one_core",
    variants={"GPU, one thread a task": lambda tasks, steps: CHAIN.on(chains(tasks, steps))},
    cases=[{"tasks": tasks, "steps": STEPS} for tasks in (1, 2, 8, 64, 128, 512)],
    count_case={"tasks": 200, "steps": 512},
    flop=lambda tasks, steps: 2 * tasks * steps,
    library={
        "one core, one by one": on_one_core("one_by_one"),
        "one core, 64 side by side": on_one_core("side_by_side"),
    },
    reference=after,
    tolerance=4e-3,
    counts=(),
    fold="All 18 rows",
    reasons={"GPU, one thread a task": "Two numbers"},
    note="The library rows run on one core of the processor beside the GPU; their inputs lie in its memory.",
)

# %% fold="Code of the figure"
GPU, ONE_BY_ONE, SIDE_BY_SIDE = "GPU, one thread a task", "one core, one by one", "one core, 64 side by side"
us = medians_us(raced, "tasks")
TASKS = sorted({tasks for _, tasks in us})
lines = {name: [us.get((name, tasks), np.nan) for tasks in TASKS] for name in (GPU, ONE_BY_ONE, SIDE_BY_SIDE)}
known = {name: values for name, values in lines.items() if np.isfinite(values).all()}
show(
    line_chart(
        [Series(name, TASKS, values) for name, values in known.items()] or [model],
        x="tasks",
        y="time [µs]",
        log_x=True,
        log_y=True,
        title="The core finishes one task first, the GPU many",
        caption="The same chains of 131,072 multiply-adds on one processor core, in two ways, and on an {machine}. Both axes are logarithmic.",
    )
)
gpu, one_by_one, side_by_side = lines.values()


def ahead_from(core):
    """The measured number of tasks from which on the GPU is ahead; 0 for none."""
    behind = [tasks for tasks, mine, theirs in zip(TASKS, gpu, core, strict=True) if mine >= theirs]
    return min((tasks for tasks in TASKS if tasks > max(behind, default=0)), default=0)


if len(known) == 3:
    assert one_by_one[0] < gpu[0], "the title says that the core finishes one task first"
    assert side_by_side[-1] > gpu[-1], "the title says that the GPU finishes many first"
million_us = MOST * side_by_side[-1] / 512
publish(
    core={
        "one_us": one_by_one[0],
        "times": gpu[0] / one_by_one[0],
        "step_ns": 1000 * (one_by_one[-1] - one_by_one[0]) / 511 / STEPS,
        "ahead_of_one": ahead_from(one_by_one),
        "ahead_of_many": ahead_from(side_by_side),
        "million_us": million_us,
        "million_gain": million_us / last,
    }
)

# %% [markdown]
# One task: {{ core.one_us | us }} on the core, {{ seen.one_us | us }} on the GPU, which is
# {{ core.times | .1f }} times as long, for a step takes {{ core.step_ns | .2f }} ns there and
# {{ seen.step_ns | .2f }} ns here. Against tasks one by one the GPU is ahead from
# {{ core.ahead_of_one }} of them on, against 64 side by side from {{ core.ahead_of_many }} on, of
# the numbers measured. At the pace of its last row, the core would need
# {{ core.million_us | us }} for {{ task.most | , }} tasks; the GPU took
# {{ seen.last_us | us }}. What the core was, a cell printed on the machine of the record:

# %% fold="Code that asks for the processor" needs="gpu" record="host_processor"
from tilewise import gpu_here

if gpu_here():
    import os
    import shutil
    import subprocess
    from pathlib import Path

    described = dict(
        line.split(":", 1)
        for line in Path("/proc/cpuinfo").read_text().split("\n\n")[0].splitlines()
        if ":" in line
    )
    described = {name.strip(): value.strip() for name, value in described.items()}
    compiler = shutil.which("cc") or shutil.which("gcc") or "no compiler"
    version = subprocess.run([compiler, "--version"], capture_output=True, text=True, check=False).stdout
    print("processor:", described.get("model name", "unknown"))
    print("cores this machine may use:", len(os.sched_getaffinity(0)))
    print("compiler:", version.splitlines()[0] if version else compiler)
    print("flags:", *CPU_FLAGS)

# %% [markdown]
# ## Why not make the core faster?
#
# For thirty years that was the way. Smaller transistors could run at a higher clock with less
# voltage, so that a chip of the same size needed the same power: Dennard scaling. Around 2005 the
# voltage could not sink any further.[^moore] Transistors went on shrinking, but raising the clock
# as before would now double the power of each square millimetre with every generation.
# So the new transistors went into more units, not into quicker ones.
#
# [^moore]: [Where the sources differ](../../conventions.md#the-sources): the lecture has the
#     number of transistors double every year. Moore wrote that in 1965; in 1975 he made it two
#     years, which is what the rule is remembered as. And the draft's footnote on throughput has
#     its two words the wrong way round: it is the GPU that is built for throughput and the core
#     that is built for latency.
#
# ??? definition "Dennard scaling"
#     The rule, true until about 2005, that transistors made smaller can run faster and at a lower
#     voltage, so that the power per area stays the same.

# %% [markdown]
# ## The answer
#
# One task is done first on the core: {{ core.one_us | us }} against {{ seen.one_us | us }}. For
# {{ task.most | , }} the GPU takes {{ seen.last_us | us }}, and one core, 64 tasks at a time,
# would take {{ core.million_gain | ,.0f }} times that. The GPU's steps are not quicker; it has
# {{ model.units | , }} units and enough threads to fill the cycles in which each would wait. A
# program with fewer than {{ model.full | , }} independent chains leaves some of that unused.

# %% [markdown]
# ## Takeaways
#
# - Latency is how long one takes, throughput how many are done in a second. A core is built for
#   the first, a GPU for the second.
# - A chain of dependent steps takes its length times the latency of a step, on any number of
#   units.
# - Units times latency is the number of chains that a chip can advance at full speed. With fewer,
#   the time stays and the throughput falls.
# - More threads do not speed one task up; they fill the cycles in which it waits.


# %% fold="The whole cell, with two wrong answers that the tests turn down"
from tilewise import exercise


def overtakes_at(core_us, cores, unit_us, units):
    for tasks in range(1, cores * units + 1):
        if ceil_div(tasks, units) * unit_us < ceil_div(tasks, cores) * core_us:
            return tasks
    return None


def by_rates(core_us, cores, unit_us, units):
    return max(1, ceil_div(cores * unit_us, core_us)) if units * core_us > cores * unit_us else None


def never_says_never(core_us, cores, unit_us, units):
    tasks = 1
    while ceil_div(tasks, units) * unit_us >= ceil_div(tasks, cores) * core_us and tasks < 10_000:
        tasks += 1
    return tasks


def race_tests(answer):
    assert answer(1, 2, 5, 16) == 11, "the two machines of the figure"
    assert answer(3, 4, 6, 8) is None, "equal rates and equal rounds: never ahead"
    random = np.random.default_rng(2026)
    for _ in range(50):
        core_us, cores, unit_us, units = (int(one) for one in random.integers(1, (9, 7, 40, 60)))
        ahead = [
            tasks
            for tasks in range(1, cores * units + 1)
            if ceil_div(tasks, units) * unit_us < ceil_div(tasks, cores) * core_us
        ]
        expected = ahead[0] if ahead else None
        given = answer(core_us, cores, unit_us, units)
        assert given == expected, f"{cores} cores of {core_us} µs against {units} units of {unit_us} µs"


exercise(
    "When is the slow machine ahead?",
    """
    `cores` workers need `core_us` microseconds a task each, `units` others need `unit_us`. Tasks are equal,
    cannot be split and are handed out in turn; all four numbers are whole. Write
    `overtakes_at(core_us, cores, unit_us, units)`: the smallest number of tasks at which the units are done
    before the cores, or None where that never happens.
    """,
    answer=overtakes_at,
    tests=race_tests,
    wrong=[by_rates, never_says_never],
    hint="Time comes in whole rounds. After cores times units tasks both have done whole rounds; what then?",
)

# %% [markdown]
# The chains of this page never touched memory between their first and last step. Most programs
# do in almost every step, and then the latency of a step is that of the place where its number
# lies. Which places there are, and how far away each of them is, comes next: [inside the
# chip](chip.py).
