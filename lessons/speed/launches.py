# ---
# title: Five bottlenecks, and the cost of a launch
# needs: [speed/roofline]
# summary: "Sixteen million additions in one launch, or in 4,096 launches of 4,096: how many times as long?"
# description: "What a launch costs, when that matters, and how to tell arithmetic, memory, overhead, data loading and network apart."
# date: 2026-11-21
# tags: [launch, CUDA graph, bottleneck]
# ---

# %% [markdown]
# A GPU has {{ total | , }} additions to do. In one launch they take what their bytes take. A program
# that goes through the same arrays in pieces of 4,096 moves the same bytes and does the same
# additions, in {{ pieces_at_4096 | , }} launches. How many times as long? The roofline says: just as
# long. It knows nothing of the host.

# %% [markdown]
# ## Two clocks
#
# Before each launch the host works: it puts the arguments in place, writes an order, and hands it to
# the stream. It does not wait for the kernel, so the two work side by side, the host on the next
# order and the device on the last one. The slower of them sets the pace. Long kernels hide the host's
# work; short ones do not, and the device idles between them. That idle time is overhead. A framework
# in eager mode is the usual cause: it launches each operation as the program reaches it, a small one
# like a large one.
#
# ??? definition "Overhead"
#     Time in which the device has nothing to do because the software around it is not ready.

# %% fold="Code of the figure"
import numpy as np

from tilewise import agree, case, ceil_div, gpu_here, measure, normal, output, parallel, publish, show
from tilewise.figures import Mark, Series, Span, line_chart, timeline

TOTAL = 2**24
publish(total=TOTAL, pieces_at_4096=TOTAL // 4096)
HOST_US, DEVICE_US = 5.0, 2.0


def side_by_side(host_us, device_us, launches=6):
    """Who is busy when, if the host hands over one launch after the other."""
    spans, free = [], 0.0
    for one in range(launches):
        start = max((one + 1) * host_us, free)
        free = start + device_us
        spans.append(Span("host", one * host_us, (one + 1) * host_us, f"{one + 1}", "write"))
        spans.append(Span("device", start, free, f"{one + 1}", "block"))
    return sorted(spans, key=lambda span: span.row == "device")


show(
    timeline(
        side_by_side(HOST_US, DEVICE_US),
        unit="µs",
        title="Where a kernel is shorter than its launch, the device waits more than it works",
        caption=f"Six launches, if the host needs {HOST_US:.0f} µs for each and the device {DEVICE_US:.0f} µs: a model with round numbers.",
    )
)

# %% [markdown]
# A launch costs nothing as long as the kernel before it is still running: with a launch of fixed price, the
# device is fully busy only if its kernels are longer than that. Where they are shorter, a faster kernel would
# change nothing.

# %% [markdown]
# ## The same work in pieces
#
# The experiment needs the kernel of the first lesson and nothing new in it. All that varies is how
# many launches share the {{ total | , }} additions.


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


# %% fold="Code of the cases"
def addition(n):
    arrays = {"a": normal(n), "b": normal(n), "c": output(n)}
    return case(**arrays, n=n, grid=ceil_div(n, 256), block=256)


agree(vec_add, VEC_ADD, [addition(n) for n in (255, 1000)], rtol=0.0)

# %% [markdown]
# One contender launches a kernel for each piece through CuPy, one calls `torch.add` for each. The
# third pays for the host's work once: it records the launches, without running them, into a CUDA
# graph. From then on a single call runs them all. The order of the launches and their arguments are
# fixed in it, which is why the device can go from one to the next without asking.
#
# ??? definition "CUDA graph | CUDA graphs"
#     A recorded set of launches with their order and arguments, which one call runs again.


# %% fold="Code of the figure"
def in_a_graph(host_us, device_us, launches=6):
    """The same launches, recorded: one call of the host, and the device goes from one to the next."""
    kernels = [
        Span("device", host_us + at * device_us, host_us + (at + 1) * device_us, f"{at + 1}", "block")
        for at in range(launches)
    ]
    return [Span("host", 0.0, host_us, "all", "write"), *kernels]


one_call = in_a_graph(HOST_US, DEVICE_US)
show(
    timeline(
        one_call,
        unit="µs",
        title=f"As a graph the same six launches are over after {one_call[-1].stop:.0f} µs, not {side_by_side(HOST_US, DEVICE_US)[-1].stop:.0f}",
        caption=f"The model of the first figure: {DEVICE_US:.0f} µs for a kernel, and {HOST_US:.0f} µs for the one call of the host. A real device needs a little time between two kernels of a graph as well.",
    )
)


# %% fold="Code of the contenders"
def pieces(arrays, n):
    starts = range(0, arrays["a"].size, n)
    return [tuple(arrays[name][at : at + n] for name in "abc") for at in starts]


def one_by_one(arrays, n):
    import cupy

    add = cupy.RawKernel(VEC_ADD.gpu_source, "vec_add")
    given = [(*piece, np.int32(n)) for piece in pieces(arrays, n)]
    grid = (ceil_div(n, 256),)

    def run():
        for values in given:
            add(grid, (256,), values)

    return run


# %%
def as_a_graph(arrays, n):
    """The same launches, recorded once; to run them all is one call."""
    import cupy

    launch_all = one_by_one(arrays, n)
    launch_all()  # compiled and loaded before the recording
    stream = cupy.cuda.Stream(non_blocking=True)
    cupy.cuda.get_current_stream().synchronize()
    with stream:
        stream.begin_capture()
        launch_all()  # recorded, not run
        graph = stream.end_capture()
    return graph.launch


# %% fold="Code of the contender"
def torch_one_by_one(arrays, n):
    import torch

    given = [tuple(torch.as_tensor(part, device="cuda") for part in piece) for piece in pieces(arrays, n)]

    def run():
        for a, b, c in given:
            torch.add(a, b, out=c)

    return run


# %% [markdown]
# ## Predict, then measure
#
# If a launch costs the host $c$ and a piece of $n$ additions the memory $12n/B$, all pieces together
# take
#
# $$\frac{N}{n} \cdot \max\left(c, \frac{12\,n}{B}\right).$$
#
# The launch stops mattering where both are equal, at $n = cB/12$. With a launch of
# {{ guess.us | .0f }} µs, a round number from the figure above, that is {{ guess.n | ,.0f }}
# additions, and below it the time should double with every halving of the pieces. These times start
# with an idle device and include the host's work; elsewhere in the course they do not.[^lead]
#
# [^lead]: Elsewhere a kernel that only waits runs first, so that the host has handed everything over
#     when the first event is taken. [How we measure](../../how-we-measure.md) has the details.

# %% fold="Code of the measurement"
timed = measure(
    "launch_pieces",
    variants={"one launch for all": lambda n, total=TOTAL: VEC_ADD.on(addition(total))},
    cases=[{"n": 4**power} for power in range(6, 13)],
    count_case={"n": 1024, "total": 4096},
    bytes=lambda n, total=TOTAL: 12 * total,
    flop=lambda n, total=TOTAL: total,
    library={
        "a launch a piece": one_by_one,
        "a CUDA graph": as_a_graph,
        "torch.add a piece": torch_one_by_one,
    },
    reference=lambda a, b: {"c": a + b},
    tolerance=1e-6,
    with_host=True,
    reasons={"one launch for all": "Predict, then measure"},
    note="The first row launches through this course's Kernel, which checks every argument first; the others use CuPy and torch alone.",
    fold="All 28 rows: 16,777,216 additions in pieces of n",
)


# %% fold="Code of the figure"
from tilewise.measurements import medians_us, recorded, recorded_device

BANDWIDTH = recorded_device().memory_gb_per_s * 1e3  # bytes a µs
CONTENDERS = {"a launch a piece": "read", "a CUDA graph": "tile", "torch.add a piece": "lane"}
us = medians_us(timed, "n")
sizes = np.array([4**power for power in range(6, 13)])
TIMES = {label: np.array([us.get((label, n), np.nan) for n in sizes]) for label in CONTENDERS}
COST = {label: times[0] / (TOTAL // 4096) for label, times in TIMES.items()}
plain, graph = TIMES["a launch a piece"], TIMES["a CUDA graph"]
publish(
    guess={"us": HOST_US, "n": HOST_US * BANDWIDTH / 12},
    cost={
        "plain": COST["a launch a piece"],
        "graph": COST["a CUDA graph"],
        "torch": COST["torch.add a piece"],
    },
    in_pieces={
        "times": plain[0] / plain[-1],
        "graph_times": graph[0] / plain[-1],
        "million_times": plain[4] / plain[-1],
        "four_million_times": plain[5] / plain[-1],
        "graph_extra_us": (graph[4] - graph[-1]) / (TOTAL // 2**20),
        "matters": COST["a launch a piece"] * BANDWIDTH / 12 / 1e6,
        "graph_matters": COST["a CUDA graph"] * BANDWIDTH / 12 / 1e6,
    },
)
if np.isfinite(list(TIMES.values())).all():
    assert plain[3] > 3 * plain[-1], "the title says that launches are all that counts below a million"
    show(
        line_chart(
            [
                *(Series(label, sizes, TIMES[label], role=role) for label, role in CONTENDERS.items()),
                Series(
                    f"model, {COST['a launch a piece']:.1f} µs a launch",
                    sizes,
                    TOTAL / sizes * np.maximum(COST["a launch a piece"], 12 * sizes / BANDWIDTH),
                    role="predicted",
                    marks=False,
                ),
            ],
            x="additions in a piece",
            y="time for all pieces [µs]",
            log_x=True,
            log_y=True,
            marks=[Mark("one launch for all", y=plain[-1], role="measured")],
            title="Below a million additions a piece, launches are all that counts",
            caption=f"{TOTAL:,} additions on an {{machine}}, cut into pieces of n; the time includes the host's work. Dashed: the model with the recorded price of a launch.",
        )
    )

# %% [markdown]
# A launch through CuPy costs {{ cost.plain | .1f }} µs, a call of `torch.add` {{ cost.torch | .1f }}
# µs, and a launch inside the graph {{ cost.graph | .2f }} µs, its small kernel included. By the
# formula, plain launches stop mattering at about {{ in_pieces.matters | .1f }} million additions and
# those of a graph at {{ in_pieces.graph_matters | .1f }} million. Recorded, the corner is round:
# pieces of a million take {{ in_pieces.million_times | .2f }} times as long as one launch for all,
# and pieces of four million {{ in_pieces.four_million_times | .2f }} times. Even in a graph a piece of
# a million takes {{ in_pieces.graph_extra_us | .1f }} µs more than its share of the whole, about what
# a small kernel costs there: not all of a launch's price is the host's. The prices belong to this
# host, its driver and its Python.

# %% [markdown]
# ## What a program can wait for
#
# Overhead is one of five things that a program waits for, and each has a cure that does nothing for
# the other four.[^levers] Two are on the roofline, arithmetic and the device's memory. The other three keep
# work from reaching the device: the host that is late with its launches, the link over which the data
# come, and the network to other machines.[^links]
#
# [^levers]: [Where the sources differ](../../conventions.md#the-sources): the blog post counts
#     copies from the host among the work of the device's memory. They cross a link of their own,
#     and belong to data loading. And it sees no way out of waiting for arithmetic but to buy more
#     of it; the table names three.
#
# [^links]: The GPUs of one machine have links of their own between them. NVLink gives an H100
#     900 GB/s{from: NVIDIA H100 data sheet} to the others, both directions together, where its PCIe
#     slot has 128 GB/s{from: NVIDIA H100 data sheet}. Where the sources differ: the lecture names NVLink
#     among the links to the host. The host is at its other end in few machines only, such as those with
#     NVIDIA's own Grace processor.
#
# ??? definition "Data-loading bound"
#     Said of a program whose device waits for its inputs: for the disk, for the host that prepares
#     them, or for the link from host to device.
#
# ??? definition "Network-bound"
#     Said of a program whose devices wait for results of other machines.

# %% fold="Code of the table"
from tilewise import Table

show(
    Table(
        ["waits for", "how one tells", "what helps"],
        [
            ["arithmetic", "high intensity, close to the ceiling", "fewer bits, matrix units, less work"],
            [
                "device memory",
                "low intensity, close to the bandwidth",
                "fewer bytes: keep intermediate results on the chip",
            ],
            [
                "overhead",
                "gaps between short kernels; a smaller batch takes as long",
                "longer kernels, fewer of them, CUDA graphs",
            ],
            [
                "data loading",
                "the device idles at the start of each step",
                "load ahead, prepare the data once, pinned memory",
            ],
            [
                "network",
                "the device idles at the end of each step; one machine alone is fast",
                "send less or more rarely, send during the work",
            ],
        ],
        caption="Five bottlenecks. Against the last one, gradients of 8 bits are in use, and methods that let machines work alone for hundreds of steps.",
    )
)

# %% [markdown]
# ??? note "Examples: which of the five does it go after?"
#     Names that one meets in texts on training, each with the wait that it is meant to shorten.
#
#     | name | goes after | how |
#     | --- | --- | --- |
#     | [Unsloth](https://github.com/unslothai/unsloth), for fine-tuning | device memory, its rate and its room | kernels in \Triton and backward passes that were derived by hand, so that less is stored and read again |
#     | CUDA graphs, `torch.compile` | overhead | one call for many launches; fewer launches |
#     | text turned into numbers beforehand | data loading | done once, not in every step |
#     | [DiLoCo](https://arxiv.org/abs/2311.08105) | network | each machine takes 500 steps alone, and only then is the change of the weights averaged |
#     | [INTELLECT-1](https://arxiv.org/abs/2412.01152), trained over the internet | network | the same after 100 steps, with the changes in 8 bits in place of 32: both together are the report's factor of 400 |

# %% [markdown]
# ## Load ahead
#
# Here is a program that waits for its data. {{ batch.batches }} batches of
# {{ batch.megabytes | .1f }} MB lie in pinned memory of the host, which the operating system has
# promised not to move, so that the device can copy from it by itself. Each batch is copied and worked
# on. The work stands for a step of training: as many multiply-adds on each number as one likes.


# %% tab="Pseudocode"
def train(x, y, steps, factor, addend):
    for i in parallel(len(x)):
        v = x[i]
        for _ in range(steps):
            v = v * factor + addend
        y[i] = v


# %% tab="CUDA C"
TRAIN = Kernel(r"""
extern "C" __global__
void train(const float* x, float* y, int n, int steps,
           float factor, float addend) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = x[i];
    #pragma unroll 64
    for (int r = 0; r < steps; ++r) v = v * factor + addend;
    y[i] = v;
}
""")

# %% [markdown]
# In one stream a batch is loaded, then worked on, then the next is loaded. With two streams the next
# batch is loaded while this one is worked on, into a second buffer; each stream waits for an event of
# the other where it must. Loading takes the batch's bytes over the link, {{ batch.load_us | .0f }}
# µs at its peak. If that is shorter than the work, it should vanish.

# %% fold="Code of the contenders"
BATCHES = 8
BATCH = 2**22
publish(
    batch={
        "batches": BATCHES,
        "megabytes": 4 * BATCH / 1e6,
        "load_us": 4 * BATCH / 64e3,
    }
)


def batches(steps, count=BATCHES * BATCH):
    constants = {"steps": steps, "factor": 1 - 2**-12, "addend": 2**-12}
    return case(x=normal(count), y=output(count), n=count, **constants, grid=ceil_div(count, 256), block=256)


agree(train, TRAIN, [batches(steps, n) for steps, n in ((64, 300), (130, 1000))], rtol=1e-4)


def loader(ahead):
    """Batches from pinned host memory: each one loaded before its work, or during the work of another."""

    def prepare(arrays, steps):
        import cupy
        import cupyx

        runtime, to_device = cupy.cuda.runtime, cupy.cuda.runtime.memcpyHostToDevice
        kernel = cupy.RawKernel(TRAIN.gpu_source, "train")
        constants = (np.int32(BATCH), np.int32(steps), np.float32(1 - 2**-12), np.float32(2**-12))
        in_host = cupyx.empty_pinned(BATCHES * BATCH, np.float32)
        in_host[...] = cupy.asnumpy(arrays["x"])
        slots = [cupy.empty(BATCH, np.float32) for _ in range(2)]
        parts = [slice(at * BATCH, (at + 1) * BATCH) for at in range(BATCHES)]
        loading = cupy.cuda.Stream(non_blocking=True)

        def load(batch, stream):
            source, slot = in_host[parts[batch]], slots[batch % 2]
            runtime.memcpyAsync(slot.data.ptr, source.ctypes.data, source.nbytes, to_device, stream.ptr)

        def work(batch):
            y = arrays["y"][parts[batch]]
            kernel((ceil_div(BATCH, 256),), (256,), (slots[batch % 2], y, *constants))

        def in_turn():
            stream = cupy.cuda.get_current_stream()
            for batch in range(BATCHES):
                load(batch, stream)
                work(batch)

        def overlapped():
            stream = cupy.cuda.get_current_stream()
            free = [stream.record()] * 2  # when each slot may be overwritten
            for batch in range(BATCHES):
                loading.wait_event(free[batch % 2])
                load(batch, loading)
                stream.wait_event(loading.record())
                work(batch)
                free[batch % 2] = stream.record()

        return overlapped if ahead else in_turn

    return prepare


# %% fold="Code of the measurement"
def all_steps(x, steps, factor, addend):
    """Each step shrinks the distance to addend / (1 - factor)."""
    fixed = addend / (1 - factor)
    return fixed + (x - fixed) * factor**steps


loaded = measure(
    "loader",
    variants={"data on the device": lambda steps, count=BATCHES * BATCH: TRAIN.on(batches(steps, count))},
    cases=[{"steps": 512}, {"steps": 2048}, {"steps": 8192}],
    count_case={"steps": 64, "count": 1024},
    bytes=lambda steps, count=BATCHES * BATCH: 8 * count,
    flop=lambda steps, count=BATCHES * BATCH: 2 * steps * count,
    library={"load, then work": loader(False), "load during work": loader(True)},
    reference=lambda x, steps, factor, addend: {"y": all_steps(x, steps, factor, addend)},
    tolerance=1e-3,
    reasons={"data on the device": "Load ahead"},
)

# %% fold="Code of the figure"
us = medians_us(loaded, "steps")
WORK = {steps: us["data on the device", steps] / BATCHES for steps in (512, 2048, 8192)}
LOAD = us.get(("load, then work", 2048), np.nan) / BATCHES - WORK[2048]
publish(
    loading={
        "us": LOAD,
        "gb_per_s": 4 * BATCH / LOAD / 1e3,
        "work_us": WORK[2048],
        "gain": recorded("loader.load_then_work.steps_2048.median")
        / recorded("loader.load_during_work.steps_2048.median"),
        "long_gain": recorded("loader.load_then_work.steps_8192.median")
        / recorded("loader.load_during_work.steps_8192.median"),
        "short_share": WORK[512] * BATCHES / recorded("loader.load_during_work.steps_512.median"),
    }
)


def loading(ahead, batches=4):
    """When the link and the device are busy, from the recorded lengths of a load and of the work."""
    spans, loaded_at, worked_at, free = [], 0.0, 0.0, [0.0, 0.0]
    name = "load ahead" if ahead else "in turn"
    for batch in range(batches):
        start = max(loaded_at, free[batch % 2]) if ahead else max(loaded_at, worked_at)
        loaded_at = start + LOAD
        begin = max(loaded_at, worked_at)
        worked_at = begin + WORK[2048]
        free[batch % 2] = worked_at
        spans.append(Span(f"{name}: link", start, loaded_at, f"load {batch + 1}", "read"))
        spans.append(Span(f"{name}: device", begin, worked_at, f"work {batch + 1}", "block"))
    return spans


if np.isfinite(LOAD):
    show(
        timeline(
            loading(False) + loading(True),
            unit="µs",
            title="Loaded ahead, a batch costs the longer of load and work, not their sum",
            caption="Four batches with 2,048 multiply-adds on each number. The lengths of a load and of the work were recorded on an {machine}; when each of them starts follows from the streams' order.",
        )
    )
    longer_us = BATCHES * max(LOAD, WORK[2048])
    assert recorded("loader.load_during_work.steps_2048.median") < 1.15 * longer_us, "the title: the longer"

# %% [markdown]
# A load takes {{ loading.us | .0f }} µs, {{ loading.gb_per_s | .0f }} GB/s over the link, and the
# work with 2,048 multiply-adds {{ loading.work_us | .0f }} µs.[^rate] All {{ batch.batches }}
# batches take {{ loader.load_then_work.steps_2048.median | us }} in turn and
# {{ loader.load_during_work.steps_2048.median | us }} loaded ahead,
# {{ loading.gain | .2f }} times as fast. With 8,192 multiply-adds the gain is
# {{ loading.long_gain | .2f }}: the more one of the two outlasts the other, the less there is to
# hide.
#
# [^rate]: The kernel reaches half of the arithmetic ceiling in the table's bound. What keeps it there
#     is not shown on this page; for the overlap only its length counts.

# %% [markdown]
# No order of things helps where loading is the longer part: with 512 multiply-adds the device works
# {{ loading.short_share | .0% }} of the time even though it is loaded ahead. There the data have to
# become smaller, for example text that was turned into numbers of 16 bits once, before training.

# %% [markdown]
# ## Two kernels at once
#
# Streams have a second use. Kernels of one stream run one after the other; kernels of two streams may
# run at the same time, if there is room. Do they share the device by halves, or do their blocks stand
# side by side on one processor? A thread can ask: `%smid` is the number of the processor that it runs
# on. Each block of this kernel writes down where and when it ran, and waits a while. A and B are two
# launches of it, with one block for each processor.

# %% needs="gpu" record="two_streams" fold="The kernel and its launches"
WHERE_AND_WHEN = r"""
extern "C" __global__
void where_and_when(int* sm, long long* begin, long long* end, long long cycles) {
    if (threadIdx.x > 0) return;
    unsigned here;
    long long now, start = clock64();
    asm volatile("mov.u32 %0, %smid;" : "=r"(here));
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    sm[blockIdx.x] = here;
    begin[blockIdx.x] = now;
    while (clock64() - start < cycles) {}
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    end[blockIdx.x] = now;
}
"""

if gpu_here():
    import cupy

    kernel = cupy.RawKernel(WHERE_AND_WHEN, "where_and_when")
    sms = cupy.cuda.Device().attributes["MultiProcessorCount"]
    first, second = cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream(non_blocking=True)

    def launched(stream):
        """A launch with a block of 256 threads for each SM; its arrays."""
        sm = cupy.zeros(sms, np.int32)
        begin, end = cupy.zeros(sms, np.int64), cupy.zeros(sms, np.int64)
        cupy.cuda.Device().synchronize()
        return stream, (sm, begin, end)

    for title, streams in {"one stream": (first, first), "two streams": (first, second)}.items():
        for _ in range(2):  # the first time only loads the kernel
            launches = [launched(stream) for stream in streams]
            for stream, arrays in launches:
                with stream:
                    kernel((sms,), (256,), (*arrays, np.int64(200_000)))
            cupy.cuda.Device().synchronize()
        a, b = ([cupy.asnumpy(array) for array in arrays] for _, arrays in launches)
        zero = min(a[1].min(), b[1].min())
        took = (max(a[2].max(), b[2].max()) - zero) / 1000
        both = {
            sm for sm, start, stop in zip(*a) for other, begun, ended in zip(*b)
            if sm == other and start < ended and begun < stop
        }  # fmt: skip
        print(f"{title}: {took:.1f} us, processors with blocks of both at once: {len(both)} of {sms}")
        for sm in range(4):
            spans = [
                f"{name} {(start - zero) / 1000:.1f} to {(stop - zero) / 1000:.1f}"
                for name, rows in (("A", a), ("B", b))
                for where, start, stop in zip(*rows)
                if where == sm
            ]
            print(f"  processor {sm}: {', '.join(spans)}")

# %% fold="Code of the figure"
import re

from tilewise.measurements import text_record

spans, seen = [], {}
for line in text_record("speed/launches", "two_streams").text.splitlines():
    if found := re.match(r"(one stream|two streams): ([\d.]+) us, .*: (\d+) of (\d+)", line):
        where = found[1]
        seen[where.replace(" ", "_")] = {"us": float(found[2]), "both": int(found[3]), "of": int(found[4])}
    elif found := re.match(r"  processor ([01]): (.*)", line):
        for name, start, stop in re.findall(r"(\w) ([\d.]+) to ([\d.]+)", found[2]):
            row, role = f"{where}, processor {found[1]}: {name}", {"A": "block", "B": "warp"}[name]
            spans.append(Span(row, float(start), float(stop), name, role))
publish(streams=seen)
show(
    timeline(
        spans,
        unit="µs",
        title="In two streams, blocks of both kernels run on the same processor at the same time",
        caption="When the blocks of kernels A and B ran on two processors of an {machine}, by their own notes: launched into one stream, and into two.",
    )
)
assert seen["two_streams"]["both"] == seen["two_streams"]["of"], "the title says where blocks of both run"

# %% [markdown]
# In one stream B begins when A has ended on every processor. In two streams
# {{ streams.two_streams.both }} of {{ streams.two_streams.of }} processors run blocks of both at
# once, and the pair takes {{ streams.two_streams.us | .0f }} µs in place of
# {{ streams.one_stream.us | .0f }}. The blocks here do nothing but wait, so nothing is taken from
# anyone; two kernels that both fill the memory's bandwidth gain nothing from running at once.

# %% [markdown]
# ## One number for the whole
#
# For a training step there is a measure that puts all five together: the model FLOP utilisation, MFU.
# It takes only the operations that the mathematics of the model needs, about six for each parameter
# and token,[^six] and divides by what the device could have done in the time. Whatever was waited
# for, it shows as a share that is missing.
#
# [^six]: Two for the multiply-add of the forward pass and four in the \backward pass. Attention's two
#     products come on top: for {{ mfu.layers }} layers of width {{ mfu.width }} and
#     {{ mfu.tokens | , }} tokens they are {{ mfu.attention | .0% }} more.
#
# ??? definition "MFU"
#     Model FLOP utilisation: the operations a second that a model's mathematics needs, as a share of
#     the device's peak rate.


# %% [markdown]
# A step that was measured: a language model of {{ mfu.layers }} layers in plain PyTorch, eager
# mode, 16-bit products, one GPU. The fold has all of its code.

# %% needs="gpu torch" record="training_step" fold="Code of the training step"
from importlib.util import find_spec

if gpu_here() and find_spec("torch"):
    import torch
    from torch import nn
    from torch.nn import functional

    LAYERS, WIDTH, HEADS, TOKENS, VOCABULARY, SEQUENCES = 12, 768, 12, 1024, 50304, 16

    class Layer(nn.Module):
        """Attention and a network of two products, each added to what came in."""

        def __init__(self):
            super().__init__()
            self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
            self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
            self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

        def forward(self, x):
            heads = (x.shape[0], TOKENS, 3, HEADS, WIDTH // HEADS)
            q, k, v = self.qkv(self.norms[0](x)).view(heads).permute(2, 0, 3, 1, 4)
            mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(mixed.transpose(1, 2).reshape(x.shape))
            return x + self.down(functional.gelu(self.up(self.norms[1](x))))

    class Model(nn.Module):
        """A language model of 12 such layers; the last product uses the embedding again."""

        def __init__(self):
            super().__init__()
            self.words, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(TOKENS, WIDTH)
            self.layers = nn.Sequential(*(Layer() for _ in range(LAYERS)))
            self.norm = nn.LayerNorm(WIDTH)

        def forward(self, tokens):
            x = self.words(tokens) + self.places.weight
            return functional.linear(self.norm(self.layers(x)), self.words.weight)

    torch.manual_seed(0)
    torch.set_float32_matmul_precision("high")
    model = Model().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    tokens = torch.randint(VOCABULARY, (SEQUENCES, TOKENS + 1), device="cuda")

    def step():
        with torch.autocast("cuda", torch.bfloat16):
            guess = model(tokens[:, :-1])
            loss = functional.cross_entropy(guess.flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    times_ms = []
    for _ in range(30):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        step()
        stop.record()
        stop.synchronize()
        times_ms.append(start.elapsed_time(stop))
    step_ms = float(np.median(times_ms[10:]))
    print(f"parameters: {sum(one.numel() for one in model.parameters())}")
    print(f"tokens a step: {SEQUENCES * TOKENS}")
    print(f"step: {step_ms:.2f} ms, median of 20")
    print(f"tokens a second: {SEQUENCES * TOKENS / step_ms * 1000:.0f}")

# %% fold="Code of the numbers"
STEP = text_record("speed/launches", "training_step")
told = dict(line.split(": ") for line in STEP.text.splitlines())
MODEL = {"layers": 12, "width": 768, "tokens": 1024}
parameters, rate = int(told["parameters"]), float(told["tokens a second"])
extra = 12 * MODEL["layers"] * MODEL["width"] * MODEL["tokens"] / (6 * parameters)
publish(
    mfu={
        **MODEL,
        "attention": extra,
        "parameters": parameters / 1e6,
        "rate": rate / 1000,
        "reached": 6 * parameters * rate / 989.4e12,
        "whole": 6 * parameters * (1 + extra) * rate / 989.4e12,
    }
)

# %% [markdown]
# {{ mfu.parameters | .0f }} million parameters at {{ mfu.rate | .0f }} thousand tokens a second are
# {{ mfu.reached | .0% }} of the peak, and {{ mfu.whole | .0% }} with attention's products counted.
# Where the rest is lost, MFU does not say. That takes a timeline, and the question which of the five
# the device was waiting for.

# %% [markdown]
# ## Which one is it?
#
# Five situations. Each was built so that one of the five bottlenecks explains all that is seen.

# %% fold="Code of the cards"
from tilewise.outputs import Card, Cards


def sorted_card(situation, right, **reasons):
    order = ["arithmetic", "device memory", "overhead", "data loading", "network"]
    return Card(situation, right, {name: reasons[name.replace(" ", "_")] for name in order})


show(
    Cards(
        "What is this program waiting for?",
        [
            sorted_card(
                "A model answers one user at a time. Halving the length of every matrix in it changes the time of a step by nothing. The device is reported busy a third of the time.",
                "overhead",
                arithmetic="Half of the matrix means a quarter of the operations; it would be much faster.",
                device_memory="Half of the matrix means a quarter of the bytes; it would be much faster.",
                overhead="What does not depend on size is paid per launch. Many small kernels: record them as a graph, or fuse them.",
                data_loading="One user's question is a few bytes; and a wait for it would not depend on the launches at all.",
                network="Nothing here leaves the machine.",
            ),
            sorted_card(
                "A kernel adds a bias to a large matrix and applies ReLU to it. It reaches nine tenths of the memory's bandwidth and a hundredth of the arithmetic peak.",
                "device memory",
                arithmetic="A hundredth of the peak is no limit.",
                device_memory="It stands on its roof, on the slope. Do the same two operations inside the kernel that makes the matrix.",
                overhead="A kernel that moves bytes at nine tenths of the bandwidth is not waiting to be started.",
                data_loading="The matrix is on the device already.",
                network="Nothing here leaves the machine.",
            ),
            sorted_card(
                "Training on pictures. At the start of each step the device idles for a while, and all cores of the host are busy unpacking files. With pictures made of random numbers on the device, steps are twice as fast.",
                "data loading",
                arithmetic="The same arithmetic on random pictures is twice as fast.",
                device_memory="The same bytes move on the device with random pictures.",
                overhead="The launches of a step are the same with random pictures.",
                data_loading="Only the source of the data changed. Load ahead, unpack once and keep the result, or unpack on the device.",
                network="The files lie on this machine.",
            ),
            sorted_card(
                "Products of large square matrices in 16 bits. The rate is four fifths of the peak of the matrix units, and the clock falls when the room gets warmer.",
                "arithmetic",
                arithmetic="It is close to its ceiling, and even the clock matters. Fewer bits or fewer operations are all that is left.",
                device_memory="The intensity of a large product lies far right of the ridge.",
                overhead="Such a kernel is long; its launch hides behind the one before.",
                data_loading="The matrices stay on the device from one product to the next.",
                network="Nothing here leaves the machine.",
            ),
            sorted_card(
                "Sixteen machines train one model and add up their gradients after each step. A single machine alone, with the same batch, needs two thirds of the time.",
                "network",
                arithmetic="Each machine does the same arithmetic as one alone.",
                device_memory="Each device moves the same bytes as one alone.",
                overhead="Each host makes the same launches as one alone, and a few more for the gradients.",
                data_loading="Each machine loads as much as one alone.",
                network="What is new is what is sent. Send gradients of 8 bits, send each layer's as soon as it is there, or let the machines work alone for many steps before they compare.",
            ),
        ],
    )
)

# %% [markdown]
# ## The answer
#
# In pieces of 4,096 the {{ total | , }} additions take {{ launch_pieces.a_launch_a_piece.n_4096.median | us }},
# {{ in_pieces.times | .0f }} times as long as in one launch. The bytes are the same and the
# arithmetic is the same; the host's {{ pieces_at_4096 | , }} orders are what takes the time. From a
# CUDA graph the same pieces take {{ in_pieces.graph_times | .0f }} times as long, and with four
# million additions a piece, {{ in_pieces.four_million_times | .2f }} times: there the launches hardly
# matter.

# %% [markdown]
# ## Takeaways
#
# - Host and device work side by side; the slower one sets the pace. A launch through CuPy costs
#   {{ cost.plain | .1f }} µs on the recorded host, so kernels shorter than that leave the device
#   idle.
# - A CUDA graph replays recorded launches with one call; {{ cost.graph | .2f }} µs a kernel remain.
# - Load the next batch during the work of this one: a step then takes the longer of the two, not the
#   sum.
# - Arithmetic, device memory, overhead, data loading, network: find out which one it is before
#   changing anything, since the cure for one does nothing for the others.
# - MFU says how much is lost, not where.

# %% fold="The whole cell, with two wrong answers that the tests turn down"
from itertools import pairwise

from tilewise import exercise


def bottleneck(spans, ridge):
    busy = {}
    for row in {span[0] for span in spans}:
        mine = sorted((start, stop) for name, start, stop, *_ in spans if name == row)
        total, until = 0.0, -np.inf
        for start, stop in mine:  # spans of one row may overlap
            total += max(0.0, stop - max(start, until))
            until = max(until, stop)
        busy[row] = total
    row = max(busy, key=busy.get)
    if row != "device":
        return {"host": "overhead", "link": "data loading", "network": "network"}[row]
    work = [span for span in spans if span[0] == "device"]
    intensity = sum(span[3] for span in work) / sum(span[4] for span in work)
    return "arithmetic" if intensity > ridge else "device memory"


def adds_up_what_overlaps(spans, ridge):
    kept = []
    for at, span in enumerate(spans):  # pulled apart, so that nothing overlaps any more
        shift = 1000.0 * at
        kept.append((span[0], span[1] + shift, span[2] + shift, *span[3:]))
    return bottleneck(kept, ridge)


def longest_single_span(spans, ridge):
    longest = max(spans, key=lambda span: span[2] - span[1])
    return bottleneck([span for span in spans if span[0] == longest[0]], ridge)


KINDS = ("arithmetic", "device memory", "overhead", "data loading", "network")


def a_timeline(kind, random):
    rows = {"host": 0.3, "link": 0.2, "network": 0.1, "device": 0.5}
    full = {"overhead": "host", "data loading": "link", "network": "network"}.get(kind, "device")
    rows[full] = 0.95
    spans = []
    for row, share in rows.items():
        edges = np.sort(random.uniform(0, 100, 6))
        for start, stop in pairwise(edges):
            spans.append((row, start, start + share * (stop - start)))
        spans.append((row, 0.0, edges[0] * share))
        spans.append((row, edges[-1], edges[-1] + share * (100 - edges[-1])))
    start, stop = max(((a, b) for row, a, b in spans if row == "host"), key=lambda pair: pair[1] - pair[0])
    if full != "host":
        spans += [("host", start, stop)] * 12  # helpers of the host that work at the same time
    intensity = 60.0 if kind == "arithmetic" else 6.0
    made = []
    for span in spans:
        moved = random.uniform(1, 2)
        made.append((*span, intensity * moved, moved) if span[0] == "device" else span)
    return made


def bottleneck_tests(answer):
    random = np.random.default_rng(7)
    for kind in KINDS * 2:
        given = answer(a_timeline(kind, random), 20.0)
        assert given == kind, f"{given}, not {kind}"


exercise(
    "Ten timelines",
    """
    Write `bottleneck(spans, ridge)`. A span is `(row, start, stop)` with a row among `host`, `link` and
    `network`, or `("device", start, stop, flop, bytes)`. Spans of one row may overlap, since a host has several
    threads. Name the row that is busy longest: `"overhead"` for the host, `"data loading"` for the link,
    `"network"`. For the device say whether all of its work together lies left of the ridge, `"device memory"`, or
    right of it, `"arithmetic"`. The tests draw ten timelines, two of each kind.
    """,
    answer=bottleneck,
    tests=bottleneck_tests,
    wrong=[adds_up_what_overlaps, longest_single_span],
    hint="Sort the spans of a row by their start and count only what lies beyond the furthest end so far.",
)

# %% [markdown]
# A launch hands over thousands of threads, and so far it did not matter how the device goes about
# running them. From here on it does: [warps](../machine/warps.py) are what its processors really run.
