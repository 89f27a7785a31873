# ---
# title: Launch overhead, CUDA graphs and five bottlenecks
# needs: [speed/roofline]
# summary: "Do 2²⁴ additions in one launch, and then again in 4,096 launches of 4,096 each. How much slower are the small launches?"
# description: "What a kernel launch costs, when it matters, how CUDA graphs and streams help, and how to tell five bottlenecks apart."
# date: 2026-11-21
# tags: [launch, CUDA graph, bottleneck]
# ---

# %% [markdown]
# Add two arrays of 2²⁴ elements in one launch. Now do it again in pieces of {{ piece | , }} elements, with one launch
# per piece. How much slower is it?
#
# According to the roofline, it isn't slower at all: the roofline counts bytes and FLOPs and knows nothing about the
# host. Make your guess before you read on. Many programs work like this: PyTorch's eager mode launches a kernel for
# nearly every operation, however small. In such a program, a better kernel may not help at all.

# %% [markdown]
# ## One kernel, one launch or many
#
# The kernel is the one from the first lesson; only the number of launches will vary.

# %% tab="Pseudocode"
from tilewise import parallel


def vec_add(a, b, c):
    for i in parallel(len(a)):
        c[i] = a[i] + b[i]


# %% tab="CUDA C"
from tilewise import Kernel

VEC_ADD = Kernel(r"""
// c = a + b, one thread per element.
// 1-D grid of ceil(n / blockDim.x) blocks; any n below 2^31.
extern "C" __global__
void vec_add(const float* a, const float* b, float* c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
""")

# %% [markdown]
# Launch it once on 255 elements, then on three pieces of 85. The slice `a[85:170]` is simply an array that starts
# later, so the kernel doesn't change.

# %%
import numpy as np

a = np.arange(255, dtype=np.float32)
b = np.full(255, 0.5, dtype=np.float32)
at_once, in_pieces = np.zeros_like(a), np.zeros_like(a)

VEC_ADD(a, b, at_once, 255, grid=1, block=256)

for start in (0, 85, 170):
    part = slice(start, start + 85)
    VEC_ADD(a[part], b[part], in_pieces[part], 85, grid=1, block=256)

print("same result:", np.array_equal(at_once, in_pieces))

# %% fold="Code of the test"
from tilewise import agree, case, ceil_div, gpu_here, measure, normal, output, publish, show
from tilewise.kernels.from_lesson import from_lesson

(addition,) = from_lesson("kernels/first_kernel", "addition")
agree(vec_add, VEC_ADD, [addition(n) for n in (255, 1000)])

# %% [markdown]
# Launch it on fewer elements. Do three launches of 85 elements execute as many instructions as one of 255?

# %% fold="Code of the run"
from tilewise import try_it

try_it(addition, VEC_ADD, n=(1, 255, 2000))

# %% [markdown]
# ## Launch overhead: when the device waits for the host
#
# A launch is asynchronous. The host packs the arguments, writes a command into the stream, and moves on to the next
# launch while the device executes the previous one. The two work in parallel, so the slower one sets the pace. Long
# kernels hide the host's work. Between short ones, the device sits idle. This idle time is the *overhead*.
#
# Take round numbers: {{ model.launches }} launches, {{ model.host_us }} µs of host work for each, and
# {{ model.device_us }} µs per kernel. The host needs {{ model.launches }} × {{ model.host_us }} =
# {{ model.host_total }} µs, and the last kernel ends {{ model.device_us }} µs later. The device is
# busy for only {{ model.work }} of these {{ model.total }} µs.
#
# ??? definition "Overhead"
#     Time in which the device has nothing to do because the software around it isn't ready.

# %% fold="Code of the figure"
from tilewise.figures import Mark, Series, Span, line_chart, timeline

TOTAL = 2**24
PIECE = 4096
HOST_US, DEVICE_US, LAUNCHES = 5.0, 2.0, 6


def one_by_one_spans(host_us, device_us, launches=LAUNCHES):
    """When host and device are busy if the host issues one launch after another."""
    spans, free = [], 0.0
    for at in range(launches):
        start = max((at + 1) * host_us, free)
        free = start + device_us
        spans.append(Span("host", at * host_us, (at + 1) * host_us, f"{at + 1}", "write"))
        spans.append(Span("device", start, free, f"{at + 1}", "block"))
    return sorted(spans, key=lambda span: span.row == "device")


one_by_one_timeline = one_by_one_spans(HOST_US, DEVICE_US)
publish(
    piece=PIECE,
    model={
        "host_us": int(HOST_US),
        "device_us": int(DEVICE_US),
        "launches": LAUNCHES,
        "host_total": int(LAUNCHES * HOST_US),
        "work": int(LAUNCHES * DEVICE_US),
        "total": int(one_by_one_timeline[-1].stop),
        "graph_total": int(HOST_US + LAUNCHES * DEVICE_US),
    },
)
show(
    timeline(
        one_by_one_timeline,
        unit="µs",
        title="Kernels shorter than their launch leave the device idle",
        caption=f"A model: six launches, {HOST_US:.0f} µs of host work each, {DEVICE_US:.0f} µs per kernel.",
    )
)

# %% [markdown]
# ## CUDA graphs: record once, replay with one call
#
# A program that repeats the same launches, such as a training loop, can pay for the host's work once. *Capture* the
# launches of a stream into a *CUDA graph*: they're recorded, not executed. After that, one call replays them all, and
# the device goes from kernel to kernel without waiting for the host. In the model above, the graph takes
# {{ model.graph_total }} µs instead of {{ model.total }}. The graph also records sizes and addresses, so
# each replay uses the same buffers.
#
# ??? definition "CUDA graph | CUDA graphs"
#     A recorded set of launches, with their order and arguments, that one call replays.


# %% [markdown]
# Here's how to capture a graph in CuPy; PyTorch has `torch.cuda.graph`.


# %%
def as_a_graph(arrays, n):
    """The same launches, captured once; one call replays them all."""
    import cupy

    launch_all = one_by_one(arrays, n)
    launch_all()  # compile and load before the capture
    stream = cupy.cuda.Stream(non_blocking=True)
    cupy.cuda.get_current_stream().synchronize()
    with stream:
        stream.begin_capture()
        launch_all()  # recorded, not executed
        graph = stream.end_capture()
    return graph.launch


# %% fold="Code of the launches through CuPy"
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


# %% fold="Code of the calls of torch.add"
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
# Call the host's time per launch $c$ and the bandwidth $B$. A piece of $n$ additions moves $12n$ bytes,
# so $N/n$ pieces take
#
# $$\frac{N}{n} \cdot \max\left(c, \frac{12\,n}{B}\right).$$
#
# Launches stop mattering where the two times are equal, at $n = cB/12$. With {{ guess.us | .0f }} µs per launch,
# that's {{ guess.n | .1f }} million additions. With smaller pieces, halving the size should double the time.
# Each measurement starts from an idle device and includes the host's work.[^lead]
#
# [^lead]: Elsewhere in the course, [timing](../../how-we-measure.md) excludes the host's work. Including it makes even
#     a single launch take well over its memory-bound time.

# %% fold="Code of the measurement"
timed = measure(
    "launch_pieces",
    variants={"one launch": lambda n, total=TOTAL: VEC_ADD.on(addition(total))},
    cases=[{"n": 4**power} for power in range(6, 13)],
    count_case={"n": 1024, "total": 4096},
    bytes=lambda n, total=TOTAL: 12 * total,
    flop=lambda n, total=TOTAL: total,
    library={
        "one launch per piece": one_by_one,
        "CUDA graph": as_a_graph,
        "torch.add per piece": torch_one_by_one,
    },
    reference=lambda a, b: {"c": a + b},
    tolerance=1e-6,
    with_host=True,
    reasons={"one launch": "Predict, then measure"},
    note="The rows labelled 'one launch' go through this course's Kernel, which checks every argument on each call; their times don't depend on n. The other rows use CuPy and PyTorch directly.",
    fold="All 28 rows: 2²⁴ additions in pieces of n",
)

# %% fold="Code of the figure"
from tilewise.measurements import medians_us, recorded, recorded_device

BANDWIDTH = recorded_device().memory_gb_per_s * 1e3  # bytes per µs
ROLES = {"one launch per piece": "read", "CUDA graph": "tile", "torch.add per piece": "lane"}
us = medians_us(timed, "n")
sizes = np.array([4**power for power in range(6, 13)])
TIMES = {label: np.array([us.get((label, n), np.nan) for n in sizes]) for label in ROLES}
COST = {label: times[0] / (TOTAL // 4096) for label, times in TIMES.items()}
plain, graph = TIMES["one launch per piece"], TIMES["CUDA graph"]
publish(
    guess={"us": HOST_US, "n": HOST_US * BANDWIDTH / 12 / 1e6},
    cost={
        "plain": COST["one launch per piece"],
        "graph": COST["CUDA graph"],
        "torch": COST["torch.add per piece"],
    },
    in_pieces={
        "times": plain[0] / plain[-1],
        "graph_times": graph[0] / plain[-1],
        "million_times": plain[4] / plain[-1],
        "four_million_times": plain[5] / plain[-1],
        "matters": COST["one launch per piece"] * BANDWIDTH / 12 / 1e6,
    },
)
if np.isfinite(list(TIMES.values())).all():
    assert plain[3] > 3 * plain[-1], "the title says that launches determine the time below a million"
    show(
        line_chart(
            [
                *(Series(label, sizes, TIMES[label], role=role) for label, role in ROLES.items()),
                Series(
                    f"model, {COST['one launch per piece']:.1f} µs per launch",
                    sizes,
                    TOTAL / sizes * np.maximum(COST["one launch per piece"], 12 * sizes / BANDWIDTH),
                    role="predicted",
                    marks=False,
                ),
            ],
            x="additions per piece",
            y="time for all pieces [µs]",
            log_x=True,
            log_y=True,
            marks=[Mark("a single launch", y=plain[-1], role="measured")],
            title="Below a million additions per piece, launches determine the time",
            caption="2²⁴ additions on an {machine}, in pieces of n, with the host's work included. Dashed: the model with the recorded cost per launch.",
        )
    )

# %% [markdown]
# A launch through CuPy costs {{ cost.plain | .1f }} µs and a call to `torch.add` {{ cost.torch | .1f }} µs. In the
# graph, {{ cost.graph | .1f }} µs per kernel remains, including the kernel's own time. These costs depend on the host,
# its driver and its Python version, so measure your own.
#
# The formula predicts a sharp corner at {{ in_pieces.matters | .1f }} million additions per launch, but the measured
# curve bends gradually: pieces of a million still take {{ in_pieces.million_times | .1f }}× the time of a single
# launch.

# %% [markdown]
# ## Five bottlenecks and their cures
#
# Horace He's [Making Deep Learning Go Brrrr](https://horace.io/brrr_intro.html) sorts programs by what limits them:
# compute, memory bandwidth or overhead. We add two more: loading data over PCIe, the link between host and device, and
# the network to other machines. Curing the wrong bottleneck often does nothing, so diagnose first.[^batch]
#
# [^batch]: A common misconception: if a smaller batch takes just as long, overhead is the limit. The kernel
#     may also be memory-bound: it reads all of a model's weights, whether for one input or for eight. Gaps
#     between kernels are the better evidence.
#
# ??? definition "Data-loading bound"
#     Limited by input: the device waits for the disk, for the host that prepares the data, or for the
#     link between host and device.
#
# ??? definition "Network-bound"
#     Limited by communication: the device waits for results from other machines.

# %% [markdown]
# | bottleneck | symptom | what helps |
# | --- | --- | --- |
# | arithmetic | high intensity; rate close to the compute peak | fewer bits, \tensor cores, fewer operations |
# | device memory | low intensity; rate close to the bandwidth | fewer bytes: keep intermediate results on the chip |
# | overhead | gaps between short kernels; a busy host thread | larger kernels, fewer of them, CUDA graphs |
# | data loading | the device idles at the start of each step | prefetch, preprocess once, pinned memory |
# | network | the device idles at the end of each step; one machine alone is faster | send less, send less often, overlap with computation |

# %% [markdown]
# ## Two streams: copy the next batch during this one
#
# The host holds {{ batch.batches }} batches of {{ batch.megabytes | .0f }} MB. Each is copied to the device
# and processed by `train`, a stand-in for a training step with as many multiply-adds per element as you like.


# %% tab="Pseudocode"
def train(x, y, steps, factor, addend):
    for i in parallel(len(x)):
        v = x[i]
        for _ in range(steps):
            v = v * factor + addend
        y[i] = v


# %% tab="CUDA C"
TRAIN = Kernel(r"""
// y[i] = x[i] after `steps` dependent multiply-adds, one thread per element.
// 1-D grid of ceil(n / blockDim.x) blocks; any n below 2^31.
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
# In one stream, copies and kernels alternate. Use two streams and two buffers instead: while the device works
# on one buffer, copy the next batch into the other. CUDA *events*, markers in one stream that another can
# wait for, hold back each kernel until its copy is complete, and each copy until its
# buffer is free.
#
# The host's memory must be *pinned*: the operating system promises not to move it, so the GPU can read it
# directly. A copy from ordinary memory goes through a staging buffer first.
#
# Copying a batch takes {{ batch.load_us | .0f }} µs at the peak bandwidth of PCIe. If the kernel takes
# longer, the copies should add almost nothing to the total time.

# %% fold="Code of the two loaders"
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
    """Batches from pinned host memory, each copied before its kernel or during the previous one."""

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
    variants={"no copies": lambda steps, count=BATCHES * BATCH: TRAIN.on(batches(steps, count))},
    cases=[{"steps": 512}, {"steps": 2048}, {"steps": 8192}],
    count_case={"steps": 64, "count": 1024},
    bytes=lambda steps, count=BATCHES * BATCH: 8 * count,
    flop=lambda steps, count=BATCHES * BATCH: 2 * steps * count,
    library={"sequential": loader(False), "double-buffered": loader(True)},
    reference=lambda x, steps, factor, addend: {"y": all_steps(x, steps, factor, addend)},
    tolerance=1e-3,
    reasons={"no copies": "Two streams: copy the next batch during this one"},
    fold="All nine rows",
)

# %% fold="Code of the figure"
us = medians_us(loaded, "steps")
WORK = {steps: us["no copies", steps] / BATCHES for steps in (512, 2048, 8192)}
LOAD = us.get(("sequential", 2048), np.nan) / BATCHES - WORK[2048]
publish(
    loading={
        "us": LOAD,
        "work_us": WORK[2048],
        "gain": recorded("loader.sequential.steps_2048.median")
        / recorded("loader.double_buffered.steps_2048.median"),
    }
)


def loader_spans(ahead, batches=4):
    """When PCIe and the device are busy, from the recorded durations of a copy and of a kernel."""
    spans, loaded_at, worked_at, free = [], 0.0, 0.0, [0.0, 0.0]
    name = "double-buffered" if ahead else "sequential"
    for batch in range(batches):
        start = max(loaded_at, free[batch % 2]) if ahead else max(loaded_at, worked_at)
        loaded_at = start + LOAD
        begin = max(loaded_at, worked_at)
        worked_at = begin + WORK[2048]
        free[batch % 2] = worked_at
        spans.append(Span(f"{name}: PCIe", start, loaded_at, f"copy {batch + 1}", "read"))
        spans.append(Span(f"{name}: device", begin, worked_at, f"train {batch + 1}", "block"))
    return spans


if np.isfinite(LOAD):
    show(
        timeline(
            loader_spans(False) + loader_spans(True),
            unit="µs",
            title="Double buffering hides the copies behind the kernels",
            caption="Four batches with 2,048 multiply-adds per element. The durations of a copy and a kernel were recorded on an {machine}; the start times follow from the order in the streams.",
        )
    )
    longer_us = BATCHES * max(LOAD, WORK[2048])
    assert recorded("loader.double_buffered.steps_2048.median") < 1.15 * longer_us, (
        "the title: copies are hidden"
    )

# %% [markdown]
# A copy takes {{ loading.us | .0f }} µs, and the kernel with 2,048 multiply-adds per element
# {{ loading.work_us | .0f }} µs. The double-buffered loop is {{ loading.gain | .1f }}× faster than the
# sequential one.
#
# With only 512 multiply-adds, the copy takes longer than the kernel, and no schedule can hide it: the device has to
# wait. The only way out is to copy fewer bytes.

# %% [markdown]
# ## Concurrent kernels in two streams
#
# Kernels in different streams may run at the same time if the device has room. Does each get its own \SMs, or do they
# share them? Let the blocks tell us: the special \register `%smid` holds the index of the \SM that a thread runs on.
# Kernels A and B are each launched with one block per \SM. Every block records its \SM and its start and end times, and
# otherwise just waits.

# %% needs="gpu" record="two_streams" fold="Code of the kernel and its launches"
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

spans, both_on = [], {}
for line in text_record("speed/launches", "two_streams").text.splitlines():
    if found := re.match(r"(one stream|two streams): ([\d.]+) us, .*: (\d+) of (\d+)", line):
        where = found[1]
        both_on[where] = (int(found[3]), int(found[4]))
    elif found := re.match(r"  processor ([01]): (.*)", line):
        for name, start, stop in re.findall(r"(\w) ([\d.]+) to ([\d.]+)", found[2]):
            row, role = f"{where}, SM {found[1]}: {name}", {"A": "block", "B": "warp"}[name]
            spans.append(Span(row, float(start), float(stop), name, role))
publish(streams={"sms": both_on["two streams"][1]})
show(
    timeline(
        spans,
        unit="µs",
        title="With two streams, blocks of both kernels share an SM",
        caption="Start and end times of the blocks of kernels A and B on two SMs of an {machine}, as the blocks recorded them, for one stream and for two.",
    )
)
assert len(set(both_on["two streams"])) == 1, "the title says that blocks of both kernels share an SM"

# %% [markdown]
# In one stream, B starts when A has finished on all \SMs. In two streams, all {{ streams.sms }} \SMs run
# blocks of both, and the pair takes far less time. Two kernels that each saturate the memory bandwidth gain nothing
# this way, because they'd have to share it.

# %% [markdown]
# ## MFU: one number for a training step
#
# One ratio says how close a training step comes to the arithmetic peak, whatever the bottleneck: *model FLOP
# utilisation* (MFU), introduced with [PaLM](https://arxiv.org/abs/2204.02311) (Chowdhery et al.). Count the operations
# that the model's mathematics needs, about six per parameter per token,[^six] and divide by what the device could have
# done in the same time at its peak.
#
# [^six]: Two for the multiply-add of the forward pass, four for the derivatives. Attention's matrix multiplications add
#     to that: a query attends to {{ mfu.keys | .0f }} keys on average, which adds {{ mfu.attention | .0% }} here.
#     Conventions differ: PaLM counts masked keys too, and gets twice that.
#
# ??? definition "MFU"
#     Model FLOP utilisation: the operations per second that a model's mathematics needs, as a fraction
#     of the device's peak rate.
#
# We measured a language model of {{ mfu.layers }} layers on one GPU, in PyTorch's eager mode with 16-bit
# matrix multiplications.

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
measured = dict(line.split(": ") for line in STEP.text.splitlines())
MODEL = {"layers": 12, "width": 768, "tokens": 1024}
parameters, rate = int(measured["parameters"]), float(measured["tokens a second"])
keys = np.arange(1, MODEL["tokens"] + 1).mean()  # query i attends to i keys
extra = 12 * MODEL["layers"] * MODEL["width"] * keys / (6 * parameters)
publish(
    mfu={
        **MODEL,
        "keys": keys,
        "attention": extra,
        "parameters": parameters / 1e6,
        "rate": rate / 1000,
        "reached": 6 * parameters * rate / 989.4e12,
    }
)

# %% [markdown]
# With {{ mfu.parameters | .0f }} million parameters and {{ mfu.rate | .0f }},000 tokens per second, the MFU is
# {{ mfu.reached | .0% }}, relative to the 16-bit peak (data sheet) and without counting attention's matrix
# multiplications. MFU shows how much is lost, but not where. To find out, you need a timeline.

# %% [markdown]
# ## Which bottleneck is it?
#
# Arithmetic, device memory, overhead, data loading and the network each leave symptoms of their own.

# %%
from tilewise import exercise

exercise(
    "Five programs, five bottlenecks",
    """
    Each of these five programs has a different bottleneck. Which one explains all of the symptoms?

    1. A model answers one user at a time. With every weight matrix half as wide and half as high, a step takes
       exactly as long as before. Most of the time, the GPU is idle.
    2. A kernel adds a bias to a large matrix and applies ReLU, which replaces negative values with zero. It
       reaches nine tenths of the memory bandwidth but only a tiny fraction of the arithmetic peak.
    3. You train on images from the local disk. At the start of each step the GPU idles for a while, and every
       core of the host is busy decoding JPEG files. With random images generated on the GPU, a step is much
       faster.
    4. A program multiplies large square matrices in 16 bits. It reaches four fifths of the arithmetic peak,
       and it slows down when the GPU lowers its clock.
    5. Sixteen machines train one model and exchange their results after each step. One machine alone, with as
       much data per step as each of the sixteen has now, is clearly faster.
    """,
    explanation="""
    1. **Overhead.** Launches cost the same whatever the size, and the GPU idles between them. If a step waited
       for arithmetic or memory, a quarter of the operations and bytes would make it much faster. Capture the many small
       kernels in a CUDA graph, or merge them into fewer.
    2. **Device memory.** The kernel is on the slope of the roofline, and at nine tenths of the bandwidth the
       device is hardly ever idle. Apply bias and ReLU inside the kernel that computes the matrix.
    3. **Data loading.** Random images need the same arithmetic, bytes and launches; only the source of the data
       has changed. Prefetch, decode once and keep the result, or decode on the GPU.
    4. **Arithmetic.** The program is close to its ceiling and follows the clock. Large matrix multiplications
       are far to the right of the ridge, and each launch is hidden behind the previous kernel. Use fewer bits
       or fewer operations.
    5. **Network.** Each machine does the same arithmetic, moves the same bytes and loads as much as one alone;
       only the exchange is new. Send fewer bits, send each layer's results as soon as they're ready, or
       exchange less often.
    """,
)

# %% [markdown]
# ## The answer
#
# In pieces of {{ piece | , }}, the additions take {{ in_pieces.times | .0f }}× the time of a single launch. A CUDA
# graph reduces this factor to {{ in_pieces.graph_times | .0f }}×. With pieces of four million additions, the factor is
# only {{ in_pieces.four_million_times | .1f }}×, even without a graph.

# %% [markdown]
# ## Takeaways
#
# - Host and device work in parallel, and the slower one sets the pace. A launch through CuPy costs
#   several microseconds; in a CUDA graph, only a fraction of that remains per kernel.
# - With pinned memory, two streams and two buffers, a step takes only as long as the copy or the computation, whichever
#   is longer, rather than the sum of the two.
# - Arithmetic, device memory, overhead, data loading, network: find out which one limits you before you optimise.

# %% [markdown]
# ## In your own kernel
#
# Run `nsys profile` and `nsys stats --report cuda_kern_exec_sum`, which lists each kernel's launch time next to its
# execution time. If a launch takes longer than the kernel and the timeline shows gaps between kernels, capture the
# launches in a CUDA graph or merge kernels before you optimise any of them.

# %% [markdown]
# Next: how an \SM executes the thousands of threads of a launch, in [warps](../machine/warps.py).
