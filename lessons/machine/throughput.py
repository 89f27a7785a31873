# ---
# title: "Latency and throughput: why GPUs exist"
# needs: [kernels/grids]
# summary: "One CPU core beats an entire H100 at one serial task. How many tasks does it take for the GPU to win, and by how much?"
# description: "Latency, throughput and work in flight: one model that predicts a GPU's time from one thread to a million."
# date: 2026-11-21
# tags: [latency, throughput, cores]
# ---

# %% [markdown]
# Take one value and apply {{ task.steps | , }} multiply-adds to it, one after another. A single
# CPU core takes {{ core.one_us | us }} for this task. An entire H100, with {{ model.units | , }}
# arithmetic units, takes {{ seen.one_us | us }}: the GPU is *slower*. Now take a million values.
# How much faster is the GPU then, and why?
#
# Two quantities answer both questions: *latency*, the time until one result is ready, and
# *throughput*, the number of results per second. They matter for every kernel you'll write: a GPU
# is fast only if it always has other work to do while it waits for a result.

# %% [markdown]
# ## The kernel: one dependency chain per thread
#
# Each step needs the `x` of the previous step, so nothing inside a task can run in parallel. That's a *dependency
# chain*. Different tasks don't depend on each other, so each gets a thread of its own.[^unroll]
#
# [^unroll]: With `#pragma unroll 256`, the loop counter is checked once every 256 steps. Without it,
#     we'd be timing the counter too.

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
// end[task] = start[task] after `steps` dependent multiply-adds. Arrays of `tasks` floats,
// any alignment; 1-D grid and block of any size that cover `tasks`; no shared memory; any GPU.
extern "C" __global__
void chain(const float* start, float* end, int tasks, int steps) {
    int task = blockIdx.x * blockDim.x + threadIdx.x;
    if (task >= tasks) return;
    float x = start[task];
    #pragma unroll 256  // time the chain, not the loop counter
    for (int step = 0; step < steps; ++step)
        x = x * 0.99999f + 0.00001f;
    end[task] = x;
}
""")

# %% [markdown]
# Launch it with five tasks of three steps. A GPU runs threads in *warps* of 32, so even five tasks occupy a whole
# warp; threads 5 to 31 have no task and return. Follow thread 2: its `x` starts at 2, and each step moves it a
# hundred-thousandth of the way towards 1.

# %%
import numpy as np

start = np.arange(5, dtype=np.float32)
end = np.zeros_like(start)
CHAIN(start, end, 5, 3, grid=1, block=32)
print(end)

# %% [markdown]
# The test below compares the versions in the two tabs. Its tolerance allows for rounding: the kernel's \fused
# multiply-add (FMA) rounds once per step, the pseudocode twice.

# %%
from tilewise import agree, case, ceil_div, output, uniform

BLOCK = 128


def chains(tasks, steps):
    arrays = {"start": uniform(tasks), "end": output(tasks)}
    numbers = {"tasks": tasks, "steps": steps}
    return case(**arrays, **numbers, grid=ceil_div(tasks, BLOCK), block=BLOCK)


agree(chain, CHAIN, [chains(1, 3), chains(77, 300), chains(200, 33)], rtol=6e-5)


# %% [markdown]
# Add tasks and steps. Which of the two leaves the number of instructions unchanged for a while, and why?

# %% fold="Code of the run"
from tilewise import try_it

try_it(chains, CHAIN, tasks=(1, 5, 300), steps=(1, 3, 300))


# %% fold="Code that checks the long chains used in the measurements"
def after(start, steps):
    """What chains end at, in 64-bit floats: each step shrinks the distance to the fixed point."""
    a, b = np.float64(np.float32(0.99999)), np.float64(np.float32(0.00001))
    fixed = b / (1 - a)
    return {"end": fixed + (start - fixed) * a**steps}


# %% [markdown]
# ## Latency and throughput: a few fast workers or many slow ones
#
# Picture two teams: {{ toy.fast.workers }} fast workers, and {{ toy.slow.workers }} slow ones who take longer for each
# task. A task can't be split between workers.
#
# For one task, hire the fast team, because its *latency* is lower. For many, hire the slow team.
# It finishes {{ toy.slow.rate | .0f }} tasks per microsecond instead of {{ toy.fast.rate | .0f }}, so its *throughput*
# is higher. Move the slider. With up to {{ toy.last_behind }} tasks, the fast team is never behind: each of its workers
# does at most {{ toy.rounds }}, which takes no longer than a slow worker needs for one. With {{ toy.first_ahead }} or
# more tasks, the slow team always finishes first.
#
# ??? definition "Latency | latencies"
#     The time from the start of an operation, or of a task, until its result can be used.
#
# ??? definition "Throughput"
#     The amount of work finished per unit of time, however long each piece of it takes.

# %% fold="Code of the figure"
from dataclasses import replace

from tilewise import show
from tilewise.figures import heat_map

TEAMS = {"fast": (2, 1), "slow": (8, 2)}  # workers, and microseconds per task
COUNTS = range(1, 25)
LENGTH = 12


def team_us(tasks, workers, us):
    """When the last of identical tasks is done, if every worker takes the next one as soon as possible."""
    return ceil_div(tasks, workers) * us


def schedule(tasks, workers, us):
    """Which task each worker is busy with in each microsecond; nan while idle."""
    busy = np.full((workers, LENGTH), np.nan)
    for task in range(tasks):
        turn = task // workers
        busy[task % workers, turn * us : (turn + 1) * us] = task + 1
    return busy


ends = {tasks: {team: team_us(tasks, *of) for team, of in TEAMS.items()} for tasks in COUNTS}
ahead = next(tasks for tasks in COUNTS if ends[tasks]["slow"] < ends[tasks]["fast"])
rounds = ceil_div(ahead - 1, TEAMS["fast"][0])  # of the fast team, while it isn't behind
assert rounds * TEAMS["fast"][1] <= TEAMS["slow"][1], "the text: they take no longer than one slow task"
assert all(team_us(n, *TEAMS["slow"]) < team_us(n, *TEAMS["fast"]) for n in range(ahead, 1000))
names = {team: f"{workers} {team} workers, {us} µs per task" for team, (workers, us) in TEAMS.items()}
teams = heat_map(
    {names[team]: np.stack([schedule(tasks, *of) for tasks in COUNTS]) for team, of in TEAMS.items()},
    steps=COUNTS,
    step_name="tasks",
    start=COUNTS.index(16),
    x="time [µs]",
    y="worker",
    role="predicted",
    ranges=dict.fromkeys(names.values(), (-12, COUNTS[-1])),
    form=".0f",
    key=False,
    title=f"With {ahead} or more tasks, many slow workers win",
    caption="A model: each row is a worker, each column is a microsecond, and the number in a cell is the task in progress. The team whose numbers end further to the left wins.",
    alt=f"Finish times of the two teams for 1 to {COUNTS[-1]} tasks. With {ahead} or more tasks, the slow team finishes first.",
)
show(
    replace(
        teams,
        steps=tuple(
            f"{tasks} tasks: the fast team finishes after {of['fast']} µs, the slow team after {of['slow']} µs."
            for tasks, of in ends.items()
        ),
    )
)

# %% [markdown]
# ## Pipelining: four steps in flight per unit
#
# Where are the slow workers in a GPU? An H100 has {{ model.units | , }} \FP32 units, the arithmetic units for 32-bit
# multiply-adds.[^units] Each unit is *pipelined*, like an assembly line: it can take a new multiply-add every *cycle*
# (one tick of the chip's clock), but the result comes out {{ model.latency | .0f }} cycles later.[^four] A single
# dependency chain can't take advantage of this: once a step has *issued* (been sent to a unit), the next one has to
# wait for its result, so {{ model.spare | .0f }} of every {{ model.latency | .0f }} \issue slots go unused. Other
# threads' chains can fill them.
#
# So each unit behaves like {{ model.latency | .0f }} slow workers, each advancing one chain by one step every
# {{ model.latency | .0f }} cycles. A step that has issued but has no result yet is *in flight*. By [Little's
# law](https://doi.org/10.1287/opre.9.3.383), keeping the chip busy takes this many steps in flight:
#
# $$\text{throughput (steps per cycle)} \times \text{latency (cycles)} = \text{steps in flight}$$
#
# For the H100, that's {{ model.units | , }} × {{ model.latency | .0f }} = {{ model.full | , }} steps in flight, one
# from each of {{ model.full | , }} chains. With up to {{ model.full | , }} tasks, every task has its own worker, so
# they all take as long as one: {{ model.one_us | us }} at {{ model.ghz | .2f }} GHz. With more, our model runs them in
# batches of {{ model.full | , }}, and each batch adds another {{ model.one_us | us }}. The batches aren't due to a lack
# of space: the chip can hold {{ model.resident | , }} threads at once.
#
# [^units]: 132 streaming multiprocessors with 128 units each. NVIDIA calls the units \CUDA cores.
#
# [^four]: NVIDIA doesn't publish this latency. On the V100, Jia et al. measured four cycles{from: Jia et al.,
#     Dissecting the NVIDIA Volta GPU Architecture via Microbenchmarking, 2018}; the measurement below tests whether
#     that still holds.
#
# ??? question "What is hyper-threading, and does a GPU have it?"
#     Hyper-threading is Intel's name for simultaneous multithreading (SMT): a CPU core holds the
#     state of two threads and issues instructions from both, often in the same cycle. A GPU does
#     something simpler on a larger scale, *fine-grained multithreading*. Each streaming
#     multiprocessor of an H100 holds up to 64 warps. In every cycle, each of its four schedulers
#     picks a warp that's ready and issues one instruction for it. A CPU core still spends most
#     of its area on making each of its two threads fast. The GPU relies on having another thread
#     that's ready.
#
# ??? definition "Little's law"
#     The amount in flight equals throughput times latency.
#

# %%
from tilewise.measurements import recorded_device

CHIP = recorded_device()
UNITS = CHIP.sms * CHIP.fma_per_sm_clock["fp32"]
LATENCY = 4  # cycles from a multiply-add to the next one that needs its result


def predicted_us(tasks, steps, clock_mhz=CHIP.boost_mhz):
    """Microseconds for chains of dependent steps, one thread each."""
    batches = np.ceil(np.asarray(tasks) / (UNITS * LATENCY))
    return batches * steps * LATENCY / clock_mhz


# %% fold="Code of the numbers"
from tilewise import publish

STEPS = 131_072
MOST = 1_081_344  # 16 times as many as there are steps in flight
publish(
    task={"steps": STEPS, "most_millions": MOST / 1e6},
    model={
        "latency": LATENCY,
        "spare": LATENCY - 1,
        "units": UNITS,
        "full": UNITS * LATENCY,
        "resident": CHIP.sms * 2048,  # threads that the multiprocessors of an H100 hold at once
        "ghz": CHIP.boost_mhz / 1000,
        "one_us": float(predicted_us(1, STEPS)),
    },
    toy={
        "first_ahead": ahead,
        "last_behind": ahead - 1,
        "rounds": rounds,
        **{team: {"workers": workers, "rate": workers / us} for team, (workers, us) in TEAMS.items()},
    },
)

# %% [markdown]
# ## Measurement: from one thread to a million
#
# Now launch between one and {{ task.most_millions | .2g }} million tasks of {{ task.steps | , }} steps each. The bound
# in the table ignores latency: it's either the time that the arithmetic takes at the chip's peak rate or the time of an
# empty launch, whichever is longer. Small launches are limited by latency, so they take far longer than the bound.

# %% fold="Code of the measurement"
from tilewise import measure
from tilewise.measurements import Guess

wide = measure(
    "tasks_on_the_gpu",
    variants={"one thread per task": lambda tasks, steps: CHAIN.on(chains(tasks, steps))},
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
        of="one thread per task",
        at={"tasks": UNITS * LATENCY, "steps": STEPS},
        between=(100.0, 100_000_000.0),
        models={"one task": float(predicted_us(1, STEPS))},
        because=f"While one chain waits, the scheduler can issue steps from other chains; {UNITS * LATENCY:,} chains exactly fill every slot.",
    ),
    reasons={"one thread per task": "Pipelining: four steps in flight per unit"},
)

# %% fold="Code of the figure"
from tilewise.figures import Mark, Series, line_chart
from tilewise.measurements import medians_us, recorded

us = medians_us(wide, "tasks")
counts, times = np.array([tasks for _, tasks in us]), np.array(list(us.values()))
clock_mhz = recorded("tasks_on_the_gpu.sm_clock_mhz")
stairs = np.repeat(UNITS * LATENCY * np.arange(1, 17), 2)[:-1]
stairs = np.concatenate([[1], stairs + np.tile([0, 1], 16)[: len(stairs)]])
model = Series("model", stairs, predicted_us(stairs, STEPS, clock_mhz), role="predicted", marks=False)
show(
    line_chart(
        [Series("measured", counts, times), model] if np.isfinite(times).all() else [model],
        x="tasks, one thread each",
        y="time [µs]",
        log_x=True,
        log_y=True,
        marks=[Mark(f"{UNITS * LATENCY:,} tasks: one full batch", x=UNITS * LATENCY)],
        title="Time is flat until every unit is full, then grows batch by batch",
        caption="Measured and predicted time for chains of 131,072 dependent multiply-adds on an {machine}. The prediction uses the recorded clock and excludes launch overhead. Both axes are logarithmic.",
    )
)

first, last = times[0], times[-1]
if np.isfinite(times).all():
    full = times[list(counts).index(UNITS * LATENCY)]
    assert full < 1.1 * first, "the title says that the time is flat until every unit is full"
    assert last > 15 * first, "the title says that it then grows"
busy = float(MOST * STEPS / UNITS / clock_mhz / last)
publish(
    seen={
        "one_us": first,
        "cycles": first * clock_mhz / STEPS,
        "full_more": times[list(counts).index(UNITS * LATENCY)] / first - 1,
        "last_us": last,
        "half_more": int(counts[6]),
        "half_more_us": times[6],
        "half_more_shared_us": float(counts[6] / UNITS * STEPS / clock_mhz),
        "half_more_each": int(counts[6] / UNITS),
        "busy": busy,
        "worst": float(np.max(np.abs(times / predicted_us(counts, STEPS, clock_mhz) - 1))),
    }
)

# %% [markdown]
# One thread takes {{ seen.cycles | .2g }} cycles per step, launch included, so the latency is indeed
# {{ model.latency | .0f }} cycles. {{ model.full | , }} threads take only {{ seen.full_more | .0% }} longer than one:
# the other chains run almost for free. With a million tasks, the units start a new step in {{ seen.busy | .0% }} of
# their cycles. Every measured time is within {{ seen.worst | .0% }} of the model's prediction at the recorded clock.
#
# The point at {{ seen.half_more | , }} tasks shows the batches. That's {{ seen.half_more | , }} / {{ model.units | , }}
# = {{ seen.half_more_each }} chains per unit if the blocks are spread evenly over the chip, or one and a half batches,
# yet the tasks take as long as two: {{ seen.half_more_us | us }}. If the chains of a unit shared its cycles equally,
# they'd take {{ seen.half_more_shared_us | us }}. So each unit seems to run the same {{ model.latency | .0f }} chains
# to the end before it starts others, as it would if its scheduler always preferred the oldest warp that's ready.

# %% [markdown]
# ## CPU core vs. GPU: where the lines cross
#
# A CPU core is built for latency. It runs at a high clock, and most of its area goes into keeping
# a single thread moving: caches, branch prediction, out-of-order execution. It also has *SIMD*
# units, which apply one instruction to several values at once. So we compile two versions for one
# core: a *scalar* loop, which runs one task at a time, and a SIMD loop, which runs 64 at once.

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
    variants={"GPU, one thread per task": lambda tasks, steps: CHAIN.on(chains(tasks, steps))},
    cases=[{"tasks": tasks, "steps": STEPS} for tasks in (1, 2, 8, 64, 128, 512)],
    count_case={"tasks": 200, "steps": 512},
    flop=lambda tasks, steps: 2 * tasks * steps,
    library={
        "CPU core, scalar": on_one_core("one_by_one"),
        "CPU core, SIMD": on_one_core("side_by_side"),
    },
    reference=after,
    tolerance=4e-3,
    counts=(),
    fold="All 18 rows",
    reasons={"GPU, one thread per task": "Pipelining: four steps in flight per unit"},
    note="The CPU rows run on one core of the GPU's host, with their inputs in host memory.",
)

# %% fold="Code of the figure"
from tilewise.measurements import two_digits

GPU, SCALAR, SIMD = "GPU, one thread per task", "CPU core, scalar", "CPU core, SIMD"
us = medians_us(raced, "tasks")
TASKS = sorted({tasks for _, tasks in us})
lines = {name: [us.get((name, tasks), np.nan) for tasks in TASKS] for name in (GPU, SCALAR, SIMD)}
known = {name: values for name, values in lines.items() if np.isfinite(values).all()}
show(
    line_chart(
        [Series(name, TASKS, values) for name, values in known.items()] or [model],
        x="tasks",
        y="time [µs]",
        log_x=True,
        log_y=True,
        title="The CPU core wins on one task; the GPU wins on many",
        caption="The same chains of 131,072 multiply-adds on one CPU core, scalar and SIMD, and on an {machine}. Both axes are logarithmic.",
    )
)
gpu, scalar, simd = lines.values()


def ahead_from(core):
    """The measured number of tasks from which on the GPU is ahead; 0 for none."""
    behind = [tasks for tasks, mine, theirs in zip(TASKS, gpu, core, strict=True) if mine >= theirs]
    return min((tasks for tasks in TASKS if tasks > max(behind, default=0)), default=0)


CORES = 64  # of a large server CPU
million_us = MOST * simd[-1] / 512
race = {
    "one_us": scalar[0],
    "gpu_us": gpu[0],
    "times": gpu[0] / scalar[0],
    "step_ns": 1000 * scalar[0] / STEPS,
    "gpu_step_ns": 1000 * gpu[0] / STEPS,
    "ahead_of_scalar": ahead_from(scalar),
    "ahead_of_simd": ahead_from(simd),
    "million_us": million_us,
    "million_gain": two_digits(million_us / last),
    "cores": CORES,
    "many_gain": million_us / CORES / last,
}
if len(known) == 3:
    assert scalar[0] < gpu[0], "the title says that the core wins on one task"
    assert simd[TASKS.index(64)] < 2 * simd[0], "the text says that 64 chains fill what one leaves empty"
    assert simd[-1] > gpu[-1], "the title says that the GPU wins on many"
    quoted = [two_digits(race[name]) for name in ("times", "gpu_step_ns", "step_ns")]
    assert abs(quoted[0] - quoted[1] / quoted[2]) < 0.1, "the factor is the quotient of the times per step"
publish(core=race)

# %% [markdown]
# For one task, the GPU is {{ core.times | .2g }}× slower than the scalar loop. Each step takes
# {{ core.gpu_step_ns | .2g }} ns on the GPU and {{ core.step_ns | .2g }} ns on the core. Among the sizes we measured,
# the GPU is ahead of the scalar loop from {{ core.ahead_of_scalar }} tasks on, and ahead of SIMD from
# {{ core.ahead_of_simd }}. SIMD holds out longer for the same reason that a GPU is fast: the loop's 64 chains fill the
# SIMD \lanes and pipeline slots that one chain leaves empty. For {{ task.most_millions | .2g }} million tasks, the core
# would need {{ core.million_us | us }} at the rate of the last SIMD row in the table; the GPU took
# {{ seen.last_us | us }}. So the GPU is about {{ core.million_gain | .0f }}× faster than one core.
#
# If the work scaled perfectly across {{ core.cores }} such cores, the factor would fall to {{ core.many_gain | .2g }}.
# This is the CPU we used:

# %% fold="Code that prints the CPU and the compiler" needs="gpu" record="host_processor"
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
# ## Dennard scaling: why clock speeds stalled
#
# Why not build a faster core? For thirty years, the industry did. In 1974, [Robert Dennard and
# colleagues](https://doi.org/10.1109/JSSC.1974.1050511) showed that a smaller transistor can run at a lower voltage
# and a higher clock with the same power per area. Around 2005, voltages stopped falling. Transistors kept shrinking,
# but raising the clock as before would now have doubled the power per area with every generation. So designers spent
# the new transistors on more units instead of faster ones, and GPUs take that choice to the extreme.
#
# ??? definition "Dennard scaling"
#     The rule, which held until about 2005, that smaller transistors can run faster and at a lower
#     voltage, so that the power per area stays the same.

# %% [markdown]
# ## Takeaways
#
# - Latency is the time until one result is ready; throughput is the number of results per second.
#   CPU cores are built for low latency, GPUs for high throughput.
# - Throughput times latency is the work that must be in flight. To issue multiply-adds at its peak \FP32 rate, an
#   H100 needs {{ model.full | , }} independent chains, and one thread may run several of them. With fewer, the run
#   takes as long as with a full batch, and units sit idle.
# - More threads never shorten a dependency chain. They fill the cycles in which it waits.
#
# ## In your own kernel
#
# In Nsight Compute, look at both *One or More Eligible* (`smsp__issue_active.avg.pct_of_peak_sustained_active`) and
# *Stall Wait* (`smsp__average_warps_issue_stalled_wait_per_issue_active.ratio`). If the first is low and the second
# is the largest of the \stall reasons, threads are waiting for their own previous instruction, so add independent
# work: more threads, or several \accumulators per thread.


# %% fold="The whole cell, with two wrong answers that the tests reject"
from tilewise import exercise


def overtakes_at(core_us, cores, unit_us, units):
    for tasks in range(1, cores * units + 1):
        if ceil_div(tasks, units) * unit_us < ceil_div(tasks, cores) * core_us:
            return tasks
    return None


def race_tests(answer):
    assert answer(1, 2, 2, 8) == 5, "the two teams of the figure"
    assert answer(1, 2, 5, 16) == 11, "ahead from 11 tasks on, though behind again at 17 and 18"
    assert answer(3, 4, 6, 8) is None, "equal throughput and equal batches: never ahead"
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


assert [n for n in range(11, 100) if team_us(n, 16, 5) > team_us(n, 2, 1)] == [17, 18]

exercise(
    "When do the slow units get ahead?",
    """
    There are `cores` fast cores, each taking `core_us` microseconds per task, and `units` slow units, each
    taking `unit_us`. Tasks are identical, can't be split and are assigned round-robin. All four arguments are
    integers. Write a function `overtakes_at(core_us, cores, unit_us, units)` that returns the smallest number
    of tasks at which the units finish before the cores, or None if that never happens. The lead can change
    hands again later: 16 units with `unit_us=5` first beat 2 cores with `core_us=1` at 11 tasks, but lose at
    17 and 18.
    """,
    answer=overtakes_at,
    tests=race_tests,
    wrong=[
        {"ceil_div(tasks, units)": "tasks / units", "ceil_div(tasks, cores)": "tasks / cores"},
        {"return None": "return 10_000"},
    ],
    hint="Time advances in whole batches. After cores times units tasks, both sides have finished whole batches. What happens then?",
)

# %% [markdown]
# Our chains hardly touch memory. Most programs use it heavily, and then latency depends on where the
# data is. The next lesson looks [inside the GPU](chip.py): what kinds of memory does it have, and how
# far away is each?
