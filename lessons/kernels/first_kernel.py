# ---
# title: The first kernel
# needs: []
# summary: "Twenty thousand additions in blocks of 256 threads: how many threads start, and how many find nothing to do?"
# description: "Write a CUDA kernel, launch it from Python, check it, and predict its time before measuring it."
# date: 2026-11-21
# tags: [launch, host, vector addition]
# ---

# %% [markdown]
# Two arrays hold 20,000 numbers each, and a GPU is to add them element by element. Its threads
# start in blocks of 256. How many threads start, how many of them find nothing to do, and what
# takes longer: the additions, or carrying the numbers to the place where they are added? You will
# predict all three, then run the kernel and compare.

# %% [markdown]
# ## Two memories
#
# A GPU does not see the arrays of your program. They lie in the memory of the host; the GPU, here
# called the device, computes on a memory of its own, and the link between the two carries far
# fewer bytes a second than either memory. So an addition over there is more than an addition: it
# needs room on the device, a copy in, the computation, and a copy out.
#
# ??? definition "Host"
#     The computer that runs your program, and its memory, where the arrays of the program lie. It
#     hands work to the GPU and waits for it only when told to.
#
# ??? definition "Device | devices"
#     The GPU together with its own memory, the device memory, whose size is counted in GB.

# %% [markdown]
# ## One function, many threads
#
# What computes on the device is a kernel: a function that returns nothing and answers by writing
# to device memory. It is not called once for the whole array. It is started as thousands of
# threads, and each of them runs the same few lines for one element. `__global__` marks such a function; `extern "C"` keeps
# its name as written, so that the host can ask for it by name. A `float*` is the address of an
# array of 32-bit floats. An address does not say where its array ends, so the length `n` comes
# along.
#
# ??? definition "Kernel | kernels"
#     A function that many threads of the device run at once and that answers by writing device
#     memory.
#
# ??? definition "Thread | threads"
#     One run of the kernel's code, with its own index and its own variables.

# %%
SOURCE = r"""
extern "C" __global__
void vec_add(const float* a, const float* b, float* c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
"""

# %% [markdown]
# All threads get the same four arguments, so the first line has to tell a thread which element is
# its own. Threads come in blocks of one size: `blockDim.x` is that size, `blockIdx.x` the number
# of the block, `threadIdx.x` the place inside it. Multiply, add, and the thread knows its `i`.
# These three are no arguments; the hardware sets them.
#
# ??? question "Where do blockIdx and threadIdx get their values?"
#     From the launch and from the hardware. The host states the number of blocks and their size when
#     it launches, and every thread can read both. As a block starts, the hardware gives it its number
#     and each of its threads a place in it. A thread reads them like variables and cannot change
#     them; nothing in the kernel's text sets them.
#
# ??? definition "Block | blocks"
#     A group of 1 to 1,024 threads that start together on one processor of the device.
#
# ??? definition "Grid | grids"
#     All blocks of one launch, counted in blocks.

# %% [markdown]
# ## What the host does around it
#
# Five steps surround the kernel: make room, copy in, launch, wait, copy out. CuPy, which is NumPy
# for the device, has a call for each. `asarray` makes room[^room] and copies in; `empty` makes
# room only. `RawKernel` stands for the compiled string, and calling it is the launch: number of
# blocks, threads in a block, arguments. The count goes in as `np.int32`, since the kernel reads a
# 32-bit `int` and nothing converts it on the way. Everything here is plain CuPy but `gpu_here`,
# which skips the cell where there is no GPU; the printed lines were recorded on one.
#
# [^room]: `nvidia-smi` shows the memory that each process has been given. CuPy keeps the room of
#     deleted arrays for the next ones, so the figure is larger than what your arrays need.

# %% needs="gpu" record="first_launch"
import numpy as np

from tilewise import gpu_here

if gpu_here():
    import cupy

    n = 20_000
    a = np.arange(n, dtype=np.float32)  # in host memory
    b = np.full(n, 0.5, dtype=np.float32)

    a_device, b_device = cupy.asarray(a), cupy.asarray(b)  # make room, copy in
    c_device = cupy.empty(n, dtype=cupy.float32)  # make room
    vec_add_device = cupy.RawKernel(SOURCE, "vec_add")
    vec_add_device(  # launch: blocks, threads in a block, arguments
        ((n + 255) // 256,),
        (256,),
        (a_device, b_device, c_device, np.int32(n)),
    )
    cupy.cuda.get_current_stream().synchronize()  # wait
    c = cupy.asnumpy(c_device)  # copy out

    print(c[:4], "...", c[-1])
    print("equal to NumPy:", np.array_equal(c, a + b))

# %% [markdown]
# The launch is asynchronous: its line returns without waiting for a single addition. It only
# hands the kernel to a stream, a queue which the device works off in order while the host goes
# on.[^eager] That is why the cell waits before it reads the answer,[^copy-waits] and why a clock
# around the launch line would time only the handing over.
#
# [^eager]: Often believed: a framework that runs operations one by one, as they are called (eager
#     mode), waits for each result before it queues the next kernel. It does not; the device idles
#     only where the host queues more slowly than the device works.
#
# [^copy-waits]: `asnumpy` would have waited by itself: its copy stands behind the kernel in the
#     same stream, and it returns when the copy is done. Other ways of looking at the answer, such
#     as a copy in another stream, do not wait.
#
# ??? definition "Launch | launches | launched"
#     The host's order to run a kernel, which names the grid, the block size and the arguments.
#
# ??? definition "Asynchronous | asynchronously"
#     Said of a call that hands work over and returns at once, without waiting for the work to end.
#
# ??? definition "Stream | streams"
#     A queue of device operations that run in the order in which they were put in.

# %% [markdown]
# Errors come back late as well. A launch that cannot be, such as one with blocks of 2,048
# threads, is refused on the spot, and CuPy raises an exception. A fault inside the kernel happens
# after the launch line has returned, so a later call reports it, such as the one that waits. CUDA
# C++ reports both as status codes that the program must read for itself, as the fold shows.
#
# ??? note "The same host in CUDA C++, every status read"
#     This program needs NVIDIA's compiler; the build of this page does not run it.
#
#     ```cuda
#     #include <cstdio>
#     #include <cstdlib>
#     #include <vector>
#
#     static void must(cudaError_t status, const char* step) {
#         if (status == cudaSuccess) return;
#         std::fprintf(stderr, "%s: %s\n", step, cudaGetErrorString(status));
#         std::exit(1);
#     }
#
#     __global__ void vec_add(const float* a, const float* b, float* c, int n) {
#         int i = blockIdx.x * blockDim.x + threadIdx.x;
#         if (i < n) c[i] = a[i] + b[i];
#     }
#
#     int main() {
#         const int n = 20000, block = 256, grid = (n + block - 1) / block;
#         const size_t bytes = n * sizeof(float);
#         std::vector<float> a(n, 1.0f), b(n, 0.5f), c(n);
#         float *a_device, *b_device, *c_device;
#         must(cudaMalloc(&a_device, bytes), "make room for a");
#         must(cudaMalloc(&b_device, bytes), "make room for b");
#         must(cudaMalloc(&c_device, bytes), "make room for c");
#         must(cudaMemcpy(a_device, a.data(), bytes, cudaMemcpyHostToDevice), "copy a in");
#         must(cudaMemcpy(b_device, b.data(), bytes, cudaMemcpyHostToDevice), "copy b in");
#         vec_add<<<grid, block>>>(a_device, b_device, c_device, n);
#         must(cudaGetLastError(), "launch");        // was the launch accepted?
#         must(cudaDeviceSynchronize(), "kernel");   // did the kernel end well?
#         must(cudaMemcpy(c.data(), c_device, bytes, cudaMemcpyDeviceToHost), "copy c out");
#         std::printf("%s\n", c[n - 1] == 1.5f ? "right" : "wrong");
#         must(cudaFree(a_device), "give a back");
#         must(cudaFree(b_device), "give b back");
#         must(cudaFree(c_device), "give c back");
#     }
#     ```

# %% [markdown]
# ??? question "What passes between the host and a kernel?"
#     On the way there: which kernel, how many blocks of how many threads, and the arguments.
#     Arguments are copied as they are, a number as a number and an array as its address on the
#     device. On the way back nothing: a kernel returns no value, so its answer lies in device memory
#     until the host copies it. That the kernel has ended, the host learns by waiting; that it has
#     failed, from the next call. While it runs the two need not talk to each other.

# %% [markdown]
# ## The same string without a GPU
#
# `Kernel` takes the same string. On a machine with a GPU it launches through CuPy; elsewhere a
# simulator compiles the string and steps through its instructions for every thread. The
# Pseudocode tab says what happens without index arithmetic, and it runs too: `parallel` yields
# the numbers from 0 in shuffled order, since no order among threads is guaranteed.

# %% tab="Pseudocode"
from tilewise import parallel


def vec_add(a, b, c):
    for i in parallel(len(a)):
        c[i] = a[i] + b[i]


# %% tab="CUDA C"
from tilewise import Kernel

VEC_ADD = Kernel(SOURCE)


# %% tab="Numba" needs="numba"
from tilewise.frameworks import cuda  # numba.cuda


@cuda.jit
def vec_add_numba(a, b, c):
    i = cuda.grid(1)  # blockIdx.x * blockDim.x + threadIdx.x
    if i < c.size:
        c[i] = a[i] + b[i]


# %% tab="Triton" needs="torch triton"
from tilewise.frameworks import tl, triton


@triton.jit
def block_of_sums(a, b, c, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)  # of the whole block
    inside = i < n
    total = tl.load(a + i, mask=inside) + tl.load(b + i, mask=inside)
    tl.store(c + i, total, mask=inside)


def vec_add_triton(a, b, c, n):
    block_of_sums[(triton.cdiv(n, 256),)](a, b, c, n, BLOCK=256)


# %% tab="PyTorch" needs="torch"
from tilewise.frameworks import torch


def vec_add_torch(a, b, c):
    torch.add(a, b, out=c)


# %% [markdown]
# Three more tabs write the same addition in Python. In Numba the function is that of one thread,
# as in CUDA C, and an array brings its length along.[^numba] In \Triton it is that of a whole block:
# `i` is a vector of {{ block }} indices, and the guard has become a mask. In PyTorch the kernel is
# one that others have written.
#
# [^numba]: `tilewise.frameworks` hands out the packages' own modules. Where there is no GPU it first
#     sets the switches `NUMBA_ENABLE_CUDASIM` and `TRITON_INTERPRET`, with which Numba and \Triton run
#     their kernels in Python.

# %% [markdown]
# Do the tabs mean the same? A `case` is one launch written down: its arrays, `normal` ones
# with random numbers and an `output` to be written, its grid and its block. `agree` runs a tab and the
# CUDA C on each case, with `c` full of NaN beforehand, so that an element that nobody writes cannot pass
# by luck. The sizes are awkward on purpose: one element, one less and one more than a block, and
# the 20,000 of the question. One addition rounds once in either version, so nothing may differ.

# %%
from tilewise import agree, case, ceil_div, expect_hazard, normal, output


def addition(n, block=256):
    """One addition of n elements: inputs, an output to be written, and the launch."""
    arrays = {"a": normal(n), "b": normal(n), "c": output(n)}
    return case(**arrays, n=n, grid=ceil_div(n, block), block=block)


agree(vec_add, VEC_ADD, [addition(n) for n in (1, 255, 257, 20_000)], rtol=0.0)
agree(vec_add_numba, VEC_ADD, [addition(n) for n in (1, 255, 257)], by="Numba")
agree(vec_add_triton, VEC_ADD, [addition(n) for n in (1, 255, 257, 20_000)], by="Triton")
agree(vec_add_torch, VEC_ADD, [addition(n) for n in (1, 255, 257, 20_000)], by="PyTorch")

# %% [markdown]
# ## How many threads start
#
# Blocks come whole, and {{ n | , }} / {{ block }} is {{ quotient | .3f }}, so the launch takes
# {{ blocks }} blocks. That makes {{ threads | , }} threads, {{ idle }} more than there are
# elements, all of them in the last block. In the integers of C one rounds up by
# `(n + 255) / 256`; `ceil_div` is the general form.[^ceil]
#
# [^ceil]: A tempting way, `ceil(n / 256)`, is wrong in C when `n` is an `int`: the division has
#     already rounded down before `ceil` sees it.

# %%
from tilewise import publish

n, block = 20_000, 256
blocks = ceil_div(n, block)
threads = blocks * block
idle = threads - n
publish(n=n, block=block, quotient=n / block)
publish(blocks=blocks, threads=threads, idle=idle)

# %% [markdown]
# A small launch shows all of its threads: 20 elements in blocks of 8 need 3 blocks, so 4 threads of
# the last one are idle. Step through the run: the threads read `a` and `b` and write `c`, each its
# own element.

# %% fold="Code of the figure"
from tilewise import Trace, show
from tilewise.figures import stepped

twenty = VEC_ADD.on(addition(20, 8))
show(
    stepped(
        twenty.simulate(trace=Trace()),
        launch=twenty,
        extent=20,
        title="Only the last block has threads without an element",
        caption="Blocks of 8 threads add arrays of 20 elements; threads past the end of the arrays are hatched and touch nothing.",
    )
)

# %% [markdown]
# ## Without the guard
#
# The `if (i < n)` in the kernel is the bounds guard. Leave it out, and the surplus threads read
# past `a` and `b` and write past `c`. On a GPU this often goes unnoticed: another array may lie
# there and quietly change. The simulator knows where each array ends. Which block do you expect
# it to name?
#
# ??? definition "Bounds guard | guard"
#     The test that keeps threads without an element from touching memory.

# %%
NO_GUARD = Kernel(r"""
extern "C" __global__
void vec_add(const float* a, const float* b, float* c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    c[i] = a[i] + b[i];  // hazard: nothing stops i >= n
}
""")

unguarded = NO_GUARD.on(addition(n, block))
expect_hazard(unguarded, "out of bounds", line_with="c[i] = a[i] + b[i]")

# %% [markdown]
# To see the damage itself, give both kernels arrays with room to spare and tell them that only
# the first {{ n | , }} elements are in use. Nothing faults now, but without the guard
# {{ trampled }} elements behind the end change, and with it none.

# %% fold="Code of the check"
import numpy as np

from tilewise import check

room = threads + 100
trampled = {}
for label, kernel in {"with the guard": VEC_ADD, "without": NO_GUARD}.items():
    a, b = np.ones(room, np.float32), np.ones(room, np.float32)
    c = np.zeros(room, np.float32)
    kernel.simulate(a, b, c, n, grid=blocks, block=block)
    check(c[:n], np.full(n, 2.0), rtol=0.0, name=f"the first {n:,} elements, {label}")
    trampled[label] = int(np.count_nonzero(c[n:]))
publish(trampled=trampled["without"])
check(trampled["with the guard"], 0, rtol=0.0, name="elements changed behind the end, with the guard")

# %% [markdown]
# ## Predict, then measure
#
# Each element costs one addition and 12 bytes: 4 from `a`, 4 from `b`, 4 to `c`. The data sheet
# states {{ memory.tb_per_s | .2f }} TB/s for the device memory, and the inputs come from there. The
# host's link, a PCIe 5.0 x16 slot, moves {{ link.gb_per_s | .0f }} GB/s in each direction,
# {{ link.ratio | .0f }} times less, and it has to carry the same 12 bytes. Bytes divided by the rate
# is a bound: no kernel can be faster.

# %%
from tilewise.measurements import recorded_device
from tilewise.models import bound, stated

GPU = stated(recorded_device())
link_gb_per_s = 64.0  # PCIe 5.0 x16: 16 times 32 Gbit/s, one direction


def least_us(n):
    """Microseconds for n additions on the GPU, and for carrying their arrays."""
    kernel_us = bound(GPU, bytes_moved=12 * n, flop=n).time_us
    copies_us = 12 * n / (link_gb_per_s * 1e9) * 1e6
    return kernel_us, copies_us


# %% fold="Code of the numbers"
moved = 12 * n
publish(
    moved={"bytes": moved, "pieces": moved // 32},
    memory={"tb_per_s": GPU.memory_gb_per_s / 1000},
    link={"gb_per_s": link_gb_per_s, "ratio": GPU.memory_gb_per_s / link_gb_per_s},
)

# %% [markdown]
# The figure lays one long addition out in time, at the peaks. The copies are nearly
# everything, whatever happens in the kernel. That is the practical reason to leave arrays on the
# device for as long as there is work to do there, and the reason why times in later
# lessons start when the inputs are already on the device.
#
# ??? question "Must the data be copied at all?"
#     The calls can be left out, the way of the bytes mostly not. Memory of the host can be mapped, so
#     that a kernel reads it over the link, number by number; with unified memory one address holds on
#     both sides, and pieces of the array move over when they are touched. Either saves code more than
#     time. On machines where the two share one memory, or are joined by a link that keeps their
#     caches consistent, the copies go away or get cheaper.

# %% fold="Code of the figure"
from tilewise.figures import timeline

copied = 2**24
kernel_us, copies_us = least_us(copied)
into, out = copies_us * 2 / 3, copies_us / 3
show(
    timeline(
        [
            ("link", 0.0, into / 2, "copy a in", "read"),
            ("link", into / 2, into, "copy b in", "read"),
            ("device", into, into + kernel_us, "kernel", "block"),
            ("link", into + kernel_us, into + kernel_us + out, "copy c out", "write"),
        ],
        title="The copies take nearly all of the time",
        caption="One addition of 16,777,216 elements at the peak bandwidth of an {machine} (data sheet) and the rate of its link: a prediction, with nothing overlapped.",
        unit="µs",
    )
)
publish(copied=copied, there_and_back_us=kernel_us + copies_us)

# %% [markdown]
# Now the kernel alone, inputs on the device, against the bound of the tables in this course: the bytes at
# the memory's peak rate (data sheet), or the time of a launch that does nothing if that is longer.[^bound] At
# 20,000 elements that launch is nearly all of it, so a share of the bound near 1 says little there. The
# library rows are what you would call instead of writing a kernel. Before you look: blocks of 32 threads move the same bytes; do they take as long?
#
# [^bound]: Here {{ memory.tb_per_s | .2f }} TB/s and {{ vec_add.ceilings.launch_us | us }}. The fastest
#     memory probe reached {{ vec_add.ceilings.memory_gb_per_s | ,.0f }} GB/s.

# %% fold="Code of the measurement"
from tilewise import Guess, measure


def cupy_add(arrays):
    import cupy

    return lambda: cupy.add(arrays["a"], arrays["b"], out=arrays["c"])


def torch_add(arrays):
    import torch

    a, b, c = (torch.as_tensor(arrays[name], device="cuda") for name in "abc")
    return lambda: torch.add(a, b, out=c)


added = measure(
    "vec_add",
    variants={
        "blocks of 256": lambda n: VEC_ADD.on(addition(n, 256)),
        "blocks of 32": lambda n: VEC_ADD.on(addition(n, 32)),
        "blocks of 1,024": lambda n: VEC_ADD.on(addition(n, 1024)),
    },
    cases=[{"n": 20_000}, {"n": 2**22}, {"n": 2**26}],
    count_case={"n": 20_000},
    bytes=lambda n: 12 * n,
    flop=lambda n: n,
    library={"cupy.add": cupy_add, "torch.add": torch_add},
    reference=lambda a, b: {"c": a.astype(np.float64) + b.astype(np.float64)},
    tolerance=1e-6,
    reasons={"blocks of 32": "Predict, then measure"},
    fold="All rows of the measurement",
    guess=Guess(
        "How many times as fast are blocks of 256 as blocks of 32, on the longest array?",
        of="blocks of 256",
        over="blocks of 32",
        at={"n": 2**26},
        between=(0.1, 100),
        models={"the same bytes, the same time": 1.0, "as many blocks, as much time": 256 / 32},
        because="Both move the same bytes; what differs is how many blocks have to be started.",
    ),
)

# %% fold="Code of the figure"
from tilewise.figures import bars
from tilewise.measurements import recorded_us

longest = [row for row in added.rows if row["parameters"]["n"] == 2**26]
times_us = {row["variant"]: recorded_us(row) for row in sorted(longest, key=recorded_us)}
show(
    bars(
        {"bound": longest[0]["bound"], **times_us},
        roles={"bound": "predicted", **dict.fromkeys(times_us, "measured")},
        x="time of one addition [µs]",
        title="Blocks of 32 take far longer than any other version",
        caption="One addition of 67,108,864 elements on the device: the bound, then each kernel by its recorded time. All move the same bytes.",
    )
)
if np.isfinite(list(times_us.values())).all():
    others = [us for name, us in times_us.items() if name != "blocks of 32"]
    assert times_us["blocks of 32"] > 3 * max(others), "the title says so of blocks of 32"

# %% [markdown]
# Blocks of 256 reach {{ vec_add.blocks_of_256.n_67108864.share_of_bound | .0% }} of the bound,
# torch {{ vec_add.torch_add.n_67108864.share_of_bound | .0% }}, blocks of 32 only
# {{ vec_add.blocks_of_32.n_67108864.share_of_bound | .0% }}. Small blocks change two things: far
# more of them have to be started, and a processor of the device holds at most 32 blocks at once,
# so it has half as many threads at hand as it could. Which of the two costs the time is not shown
# here; [hiding latency](../speed/occupancy.py) takes up the second.

# %% [markdown]
# Memory does not move in single bytes but in sectors of 32; the small table below the rows counts them at {{ n | , }} elements, over all threads. {{ moved.bytes | , }} bytes
# should be {{ moved.pieces | , }} sectors, and the check below finds as many in every column:
# nothing is moved in vain, in small blocks or in large ones.
#
# ??? definition "Sector | sectors"
#     The piece of 32 bytes in which caches and device memory exchange data.

# %% fold="Code of the check"
at_count_case = [row for row in added.rows if row["parameters"]["n"] == n]
columns = [row[source] for row in at_count_case for source in ("simulated", "counted") if row[source]]
sectors = [counts["global_load_sectors"] + counts["global_store_sectors"] for counts in columns]
check(
    sectors,
    [moved // 32] * len(sectors),
    rtol=0.0,
    name="sectors, simulated and counted, small blocks and large",
)

# %% [markdown]
# Now the whole way: copy in, add, copy out. The bound in this table is still that of the kernel
# alone, so the share says how little of the time the addition would need. Pinned host memory is
# memory that the operating system has promised not to move; the device fetches from it directly,
# while ordinary memory takes a detour through a pinned buffer.

# %% fold="Code of the measurement"


def round_trip(pinned):

    def prepare(arrays):
        import cupy
        import cupyx

        empty = cupyx.empty_pinned if pinned else np.empty
        host = {name: empty(arrays[name].shape, np.float32) for name in "abc"}
        for name in "ab":
            host[name][...] = cupy.asnumpy(arrays[name])

        def run():
            arrays["a"].set(host["a"])
            arrays["b"].set(host["b"])
            cupy.add(arrays["a"], arrays["b"], out=arrays["c"])
            arrays["c"].get(out=host["c"])

        return run

    return prepare


measure(
    "vec_add_with_copies",
    variants={"kernel alone": lambda n: VEC_ADD.on(addition(n))},
    cases=[{"n": 20_000}, {"n": 2**24}],
    count_case={"n": 20_000},
    bytes=lambda n: 12 * n,
    flop=lambda n: n,
    library={
        "with copies, ordinary memory": round_trip(False),
        "with copies, pinned memory": round_trip(True),
    },
    reference=lambda a, b: {"c": a.astype(np.float64) + b.astype(np.float64)},
    tolerance=1e-6,
    note="The library rows copy both inputs in, call cupy.add, and copy the result out.",
)

# %% [markdown]
# For {{ copied | , }} elements the kernel alone takes
# {{ vec_add_with_copies.kernel_alone.n_16777216.median | us }}. With the copies it is
# {{ vec_add_with_copies.with_copies_pinned_memory.n_16777216.median | us }} from pinned memory,
# where the peaks allow {{ there_and_back_us | us }}, and
# {{ vec_add_with_copies.with_copies_ordinary_memory.n_16777216.median | us }} from ordinary
# memory. Link and kernel are the same in both; the detour takes more time than they do together.

# %% [markdown]
# ## The answer
#
# For {{ n | , }} elements {{ blocks }} blocks start, {{ threads | , }} threads, and {{ idle }} of
# them find nothing to do; the guard keeps those off the memory. The additions are the small part:
# {{ vec_add_with_copies.kernel_alone.n_20000.median | us }} against
# {{ vec_add_with_copies.with_copies_pinned_memory.n_20000.median | us }} with the copies. The way
# over pays for arrays that stay on the device and are used again, not for one addition.

# %% [markdown]
# ## Takeaways
#
# - A kernel is one function run by every thread; `blockIdx`, `blockDim` and `threadIdx` tell a
#   thread which element is its own.
# - Around it the host makes room, copies in, launches, waits and copies out; the launch itself
#   returns at once.
# - The grid is rounded up, so the last block has threads to spare, and a bounds guard has to stop
#   them.
# - Adding moves 12 bytes for one operation, so the bytes decide; over the host's link they take
#   {{ link.ratio | .0f }} times as long as from device memory.

# %% fold="The whole cell, with three wrong answers that the tests turn down"
from tilewise import exercise

STRIDED_SAXPY = Kernel(r"""
extern "C" __global__
void saxpy(float alpha, const float* x, float* y,
           int n, int offset, int stride) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        int at = offset + i * stride;
        y[at] = alpha * x[at] + y[at];
    }
}
""")

NO_OFFSET = Kernel(r"""
extern "C" __global__
void saxpy(float alpha, const float* x, float* y,
           int n, int offset, int stride) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i * stride] = alpha * x[i * stride] + y[i * stride];
}
""")

GUARDS_THE_PLACE = Kernel(r"""
extern "C" __global__
void saxpy(float alpha, const float* x, float* y,
           int n, int offset, int stride) {
    int at = offset + (blockIdx.x * blockDim.x + threadIdx.x) * stride;
    if (at < n) y[at] = alpha * x[at] + y[at];
}
""")

GUARDS_NOTHING = Kernel(GUARDS_THE_PLACE.source.replace("if (at < n) ", ""))


def saxpy_tests(kernel):
    sizes = [(1, 0, 1), (255, 3, 1), (256, 0, 2), (257, 5, 3), (20_000, 1, 2)]
    for n, offset, stride in sizes:
        x = np.arange(offset + n * stride + 1000, dtype=np.float32) % 97
        y = np.arange(x.size, dtype=np.float32) % 89
        expected = y.copy()
        mine = slice(offset, offset + n * stride, stride)
        expected[mine] += 2.5 * x[mine]
        kernel.simulate(2.5, x, y, n, offset, stride, grid=ceil_div(n, 256), block=256)
        assert np.array_equal(y, expected), f"n={n}, offset={offset}, stride={stride}"


exercise(
    "Every third element, from index 5 on",
    """
    Write `saxpy`: `y = alpha * x + y` for `n` elements that start at `offset` and lie `stride` apart
    in both arrays. The grid is rounded up to blocks of 256. Which quantity does the guard test, and
    why not the place that is written? The tests look at every element of `y`, also at those that must
    not change.
    """,
    answer=STRIDED_SAXPY,
    tests=saxpy_tests,
    wrong=[NO_OFFSET, GUARDS_THE_PLACE, GUARDS_NOTHING],
    hint="Two indices: which of the n elements is mine, and where does it lie?",
)

# %% [markdown]
# An array has one axis, and so had this launch. Pictures and matrices have two, and with one
# index a thread would have to divide to find its row and its column. [Grids with several
# axes](grids.py) hands out coordinates instead.
