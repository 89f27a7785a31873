# ---
# title: "Your first CUDA kernel: adding two vectors"
# needs: []
# summary: "Add two 20,000-element arrays with 256-thread blocks: how many threads are launched, and how many have no work?"
# description: "Write a CUDA kernel, launch it from Python with or without a GPU, check its result, and predict its time before you measure it."
# date: 2026-11-21
# tags: [launch, host, vector addition]
# ---

# %% [markdown]
# Let's add two arrays of 20,000 elements on a GPU, with threads in blocks of 256. Which takes longer: the additions, or
# copying the arrays to the GPU and back?
#
# The answer is one reason why a first GPU program is often slower than NumPy. You don't need a GPU to run this page:
# without one, a simulator executes the same CUDA C.

# %% [markdown]
# ## Kernel code: one thread per element
#
# In NumPy, `c = a + b` handles a whole array. In CUDA you write the code for *one* element, and
# thousands of *threads* run that code, the *kernel*. Your program on the CPU, the *host*, launches the
# kernel, and it runs on the GPU, the *device*.
#
# ??? definition "Kernel | kernels"
#     A function that many threads on the device run in parallel. It returns nothing and writes its
#     results to device memory.
#
# ??? definition "Thread | threads"
#     One execution of the kernel's code, with its own index and its own variables.
#
# ??? definition "Host"
#     The CPU that runs your program, together with its memory. It hands work to the GPU.
#
# ??? definition "Device | devices"
#     The GPU together with its own memory, the device memory.

# %%
SOURCE = r"""
// c = a + b. Launch 1-D, with at least n threads in total.
extern "C" __global__
void vec_add(const float* a, const float* b, float* c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
"""

# %% [markdown]
# `__global__` marks the function as a kernel, and `extern "C"` keeps its name as written, so that
# Python can look it up. A `float*` is a pointer to 32-bit floats. A pointer carries no length, so
# we pass `n` too.
#
# All threads get the same four arguments, so how does each thread find its own element? Threads come in
# *blocks* of equal size, and all blocks of one launch form the *grid*. Three built-in variables give
# a thread its position:
#
# - `blockIdx.x`: the index of its block in the grid
# - `blockDim.x`: the number of threads per block
# - `threadIdx.x`: its own index within the block
#
# Trace one thread by hand. With 256 threads per block, which element belongs to thread 5 of block 2? Blocks 0 and 1
# cover the first 2 × 256 = 512 elements. Our thread is 5 elements further on, so its `i` is 2 × 256 + 5 = 517, and it
# computes element 517 of `c`.
#
# ??? question "Where do blockIdx and threadIdx get their values?"
#     From the launch and from the hardware. The host sets the number of blocks and their size when
#     it launches the kernel. When a block starts, the hardware assigns the block its index and each
#     thread an index within the block. A thread can read these variables like any other, but it can't
#     change them.
#
# ??? definition "Block | blocks"
#     A group of 1 to 1,024 threads that all run on the same streaming multiprocessor, one of
#     the many processors of a GPU.
#
# ??? definition "Grid | grids"
#     All the blocks of one launch.

# %% [markdown]
# ## Launch it: eight elements, two blocks
#
# Start small: eight elements in blocks of four threads need two blocks. `Kernel` compiles the
# string, and calling the result *launches* the kernel. Pass the kernel's arguments, then the number
# of blocks (`grid`) and the number of threads per block (`block`). In CUDA C++ the same launch is
# `vec_add<<<2, 4>>>(a, b, c, 8)`.
#
# ??? definition "Launch | launches | launched"
#     The host's command to run a kernel, with the grid, the block size and the arguments.

# %%
import numpy as np

from tilewise import Kernel

VEC_ADD = Kernel(SOURCE)

a = np.arange(8, dtype=np.float32)
b = np.full(8, 0.5, dtype=np.float32)
c = np.zeros(8, dtype=np.float32)
VEC_ADD(a, b, c, 8, grid=2, block=4)
print(c)

# %% [markdown]
# Here the simulator executed the kernel; on a machine with a GPU, the same line launches it there. Thread 2 of block 1 wrote `c[6]`: 1 × 4 + 2 = 6.

# %% [markdown]
# ## Grid size: round up
#
# Real sizes are rarely a multiple of the block size. Take 20 elements in blocks of 8. You can't
# launch half a block, so you launch 3 blocks, and 4 threads have no element. The test `if (i < n)`,
# called the *bounds check* or *guard*, makes them skip the addition. Step through the run:
#
# ??? definition "Bounds check | bounds checks | bounds guard | guard"
#     The test that keeps threads without an element from accessing memory; also called a guard.

# %% fold="Code of the figure"
from tilewise import Trace, case, normal, output, show
from tilewise.figures import stepped

twenty = case(a=normal(20), b=normal(20), c=output(20), n=20, grid=3, block=8)
show(
    stepped(
        VEC_ADD.on(twenty).simulate(trace=Trace()),
        extent=20,
        title="Only the last block has idle threads",
        caption="Blocks of 8 threads add arrays of 20 elements. The hatched threads are past the end of the arrays and access no memory. Sectors are explained further down this page.",
        alt="Three blocks of 8 threads step through the kernel, next to the arrays a, b and c of 20 elements. Each step is a line below. The last 4 threads of block 2 fail the bounds check.",
    )
)

# %% [markdown]
# Now take the arrays from the opening: 20,000 / 256 = 78.125, so launch 79 blocks. That's 20,224 threads, and the last
# 224 have no element. In C you round up with `(n + 255) / 256`.[^ceil]
#
# [^ceil]: A common misconception: `ceil(n / 256)` does the same in C. It doesn't if `n` is an
#     `int`, because the division has already rounded down before `ceil` sees the result.

# %%
n = 20_000
a = np.arange(n, dtype=np.float32)
b = np.full(n, 0.5, dtype=np.float32)
c = np.zeros(n, dtype=np.float32)
VEC_ADD(a, b, c, n, grid=79, block=256)
print(c[:4], "...", c[-1])
print("equal to NumPy:", np.array_equal(c, a + b))

# %% fold="Code of the check"
from tilewise import ceil_div, check

check([ceil_div(n, 256), 79 * 256, 79 * 256 - n], [79, 20_224, 224], name="blocks, threads and idle threads")

# %% [markdown]
# ## The missing bounds check
#
# Forget the `if`, and the surplus threads read past the end of `a` and `b` and write past the end of `c`. A GPU often
# doesn't notice: the memory there may belong to another array, which is then silently overwritten. The simulator stops
# at such an access. Which block will it name?

# %%
from tilewise import expect_hazard

NO_GUARD = Kernel(r"""
// Broken: no bounds check.
extern "C" __global__
void vec_add(const float* a, const float* b, float* c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    c[i] = a[i] + b[i];  // hazard: nothing stops i >= n
}
""")

expect_hazard(
    lambda: NO_GUARD.simulate(a, b, c, n, grid=79, block=256),
    "out of bounds",
    line_with="c[i] = a[i] + b[i]",
)

# %% [markdown]
# Run both kernels with sizes of your own. For which sizes does the bounds check make no difference?

# %% fold="Code of the run"
from tilewise import try_it


def adding(n, block):
    return case(a=normal(n), b=normal(n), c=output(n), n=n, grid=ceil_div(n, block), block=block)


try_it(
    adding,
    {"with the bounds check": VEC_ADD, "without the bounds check": NO_GUARD},
    n=(1, 20, 128),
    block=(1, 8, 64),
)

# %% [markdown]
# If the arrays are longer than `n`, every access is inside an array, and no tool reports an error. Yet the kernel
# without the check changes {{ overwritten }} elements past `n`.

# %% fold="Code of the check"
from tilewise import publish

overwritten = {}
for label, kernel in {"with the bounds check": VEC_ADD, "without it": NO_GUARD}.items():
    a, b, c = np.ones(20_500, np.float32), np.ones(20_500, np.float32), np.zeros(20_500, np.float32)
    kernel.simulate(a, b, c, n, grid=79, block=256)
    check(c[:n], np.full(n, 2.0), name=f"the first {n:,} elements, {label}")
    overwritten[label] = int(np.count_nonzero(c[n:]))
check(overwritten["with the bounds check"], 0, name="elements changed past the end, with the bounds check")
publish(overwritten=overwritten["without it"])

# %% [markdown]
# ## Host code: allocate, copy, launch, synchronise
#
# A GPU works on data in its own memory, but your NumPy arrays are in host memory. So a program takes five steps:
# allocate device memory, copy the inputs in, launch, wait, and copy the result out. On a GPU, `VEC_ADD(...)` does all
# of this for you. The next cell does it in plain CuPy, a library that is essentially NumPy for the GPU. `asarray`
# allocates and copies in, `empty` only allocates, `RawKernel` compiles the string, and `synchronize` waits. Pass `n` as
# `np.int32`, since the kernel expects a 32-bit `int` and CuPy doesn't convert it for you. Without a GPU, `gpu_here()`
# is false and the cell does nothing; the output shown was recorded on a machine with a GPU.
#
# ??? question "What passes between the host and a kernel?"
#     The host passes a handle to the compiled kernel, the grid, the block size and the arguments. A
#     number is copied; an array is passed as its address on the device. Nothing comes back, because a
#     kernel returns no value: its result stays in device memory until the host copies it out. To
#     learn that the kernel has finished, the host has to wait for it. Errors show up in the status of
#     a later call.

# %% needs="gpu" record="first_launch"
import numpy as np

from tilewise import gpu_here

if gpu_here():
    import cupy

    n = 20_000
    a = np.arange(n, dtype=np.float32)  # in host memory
    b = np.full(n, 0.5, dtype=np.float32)

    a_device, b_device = cupy.asarray(a), cupy.asarray(b)  # allocate, copy in
    c_device = cupy.empty(n, dtype=cupy.float32)  # allocate
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
# A launch is *asynchronous*: it returns without waiting for the kernel. It only adds the kernel to a
# *stream*, a queue of work that the device executes in order, and the host carries on. So a
# timer around the launch line measures only how long it takes to enqueue the kernel. To time the
# kernel, *synchronise* before you stop the clock: make the host wait until the stream is empty.
#
# Errors arrive late for the same reason. A launch with 2,048 threads per block is rejected immediately. But a fault
# inside the kernel, such as an invalid address, is reported by a later call, at the latest by the next one that
# synchronises. CuPy then raises an exception. In CUDA C++, `<<<...>>>` returns nothing: `cudaGetLastError()` reports a rejected launch, and the status
# of a later call, such as `cudaDeviceSynchronize()`, reports a fault.
#
# ??? definition "Asynchronous | asynchronously"
#     Describes a call that hands work over and returns before the work is done.
#
# ??? definition "Stream | streams"
#     A queue of device operations that execute in the order in which they were enqueued.
#
# ??? note "The same program in CUDA C++, with every status checked"
#     You need NVIDIA's compiler `nvcc` for this program; this page doesn't run it.
#
#     ```cuda
#     #include <cstdio>
#     #include <cstdlib>
#     #include <vector>
#
#     static void check(cudaError_t status, const char* step) {
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
#         check(cudaMalloc(&a_device, bytes), "allocate a");
#         check(cudaMalloc(&b_device, bytes), "allocate b");
#         check(cudaMalloc(&c_device, bytes), "allocate c");
#         check(cudaMemcpy(a_device, a.data(), bytes, cudaMemcpyHostToDevice), "copy a in");
#         check(cudaMemcpy(b_device, b.data(), bytes, cudaMemcpyHostToDevice), "copy b in");
#         vec_add<<<grid, block>>>(a_device, b_device, c_device, n);
#         check(cudaGetLastError(), "launch");        // was the launch accepted?
#         check(cudaDeviceSynchronize(), "kernel");   // did the kernel finish without an error?
#         check(cudaMemcpy(c.data(), c_device, bytes, cudaMemcpyDeviceToHost), "copy c out");
#         std::printf("%s\n", c[n - 1] == 1.5f ? "right" : "wrong");
#         check(cudaFree(a_device), "free a");
#         check(cudaFree(b_device), "free b");
#         check(cudaFree(c_device), "free c");
#     }
#     ```

# %% [markdown]
# ## The same kernel, written five ways
#
# The pseudocode needs no index arithmetic: `parallel` yields the indices. Their order is shuffled, because CUDA
# guarantees no order among threads. In Numba, which compiles Python functions, you write code for one thread, as in
# CUDA C, and arrays know their length. In \Triton, another compiler for kernels written in Python, you write code for
# one block: `i` is a vector of 256 indices, and the bounds check becomes a mask.

# %% tab="Pseudocode"
from tilewise import parallel


def vec_add(a, b, c):
    for i in parallel(len(a)):
        c[i] = a[i] + b[i]


# %% tab="CUDA C"
VEC_ADD = Kernel(SOURCE)  # the kernel from above


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
def add_kernel(a, b, c, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)  # all indices of the block
    mask = i < n
    total = tl.load(a + i, mask=mask) + tl.load(b + i, mask=mask)
    tl.store(c + i, total, mask=mask)


def vec_add_triton(a, b, c, n):
    add_kernel[(triton.cdiv(n, 256),)](a, b, c, n, BLOCK=256)


# %% tab="PyTorch" needs="torch"
from tilewise.frameworks import torch


def vec_add_torch(a, b, c):
    torch.add(a, b, out=c)


# %% [markdown]
# Do the tabs agree? To test that, describe a launch as a `case`, with random inputs (`normal`) and an array to be
# written (`output`). `agree` runs two versions on each case and compares the results. It first fills `c` with NaN, so
# that an element that no thread writes can't pass by chance.

# %%
from tilewise import agree, case, ceil_div, normal, output


def addition(n, block=256):
    """A launch that adds n random elements."""
    arrays = {"a": normal(n), "b": normal(n), "c": output(n)}
    return case(**arrays, n=n, grid=ceil_div(n, block), block=block)


agree(vec_add, VEC_ADD, [addition(n) for n in (1, 255, 257, 20_000)], rtol=0.0)
agree(vec_add_numba, VEC_ADD, [addition(n) for n in (1, 255, 257)], by="Numba")
agree(vec_add_triton, VEC_ADD, [addition(n) for n in (1, 255, 257, 20_000)], by="Triton")
agree(vec_add_torch, VEC_ADD, [addition(n) for n in (1, 255, 257, 20_000)], by="PyTorch")

# %% [markdown]
# ## Lower bound: bytes over bandwidth
#
# How fast can this kernel be? Each element needs one addition but 12 bytes of memory traffic: 4 from `a`, 4 from `b`
# and 4 to `c`. We measure on an NVIDIA H100, a data-centre GPU, whose data sheet gives a peak memory \bandwidth of
# {{ memory.tb_per_s | .2f }} TB/s. Dividing the number of bytes by this \bandwidth gives a *lower bound* on the time: no
# kernel that moves these bytes to and from device memory can be faster. Only a kernel whose arrays are already in the
# GPU's caches, its small fast memories, can beat it.
#
# The arrays also have to cross PCIe, the bus between the CPU and the GPU. PCIe 5.0 x16 carries
# {{ pcie.gb_per_s | .0f }} GB/s in each direction, only 1/{{ pcie.ratio | .0f }} of the device-memory \bandwidth, yet
# it has to carry the same 12 bytes per element.

# %%
from tilewise.measurements import recorded_device
from tilewise.models import bound, stated

GPU = stated(recorded_device())
pcie_gb_per_s = 64.0  # PCIe 5.0 x16: 16 lanes of 32 Gbit/s, one direction


def lower_bounds_us(n):
    """Lower bounds in µs for adding n elements: the kernel, the copies over PCIe."""
    kernel_us = bound(GPU, bytes_moved=12 * n, flop=n).time_us
    copies_us = 12 * n / (pcie_gb_per_s * 1e9) * 1e6
    return kernel_us, copies_us


# %% fold="Code of the numbers"
moved = 12 * n
publish(
    moved={"bytes": moved, "sectors": moved // 32},
    memory={"tb_per_s": GPU.memory_gb_per_s / 1000},
    pcie={"gb_per_s": pcie_gb_per_s, "ratio": GPU.memory_gb_per_s / pcie_gb_per_s},
)

# %% [markdown]
# The figure predicts the times for 2²⁴ elements, about 17 million. However good the kernel is, the copies dominate, so
# keep your arrays on the device for as long as you still have work to do on them.
#
# ??? question "Must the data be copied at all?"
#     You can drop the copy calls, but the bytes usually still have to move. A kernel can access
#     mapped host memory directly, over PCIe. With unified memory, one address works on both sides,
#     and a page of memory can migrate each time the other side accesses it. Both save code more
#     than time. On systems where CPU and GPU share one memory, or are joined by a fast
#     cache-coherent link, the copies disappear or become cheap.

# %% fold="Code of the figure"
from tilewise.figures import timeline

copied = 2**24
kernel_us, copies_us = lower_bounds_us(copied)
into, out = copies_us * 2 / 3, copies_us / 3
show(
    timeline(
        [
            ("PCIe", 0.0, into / 2, "copy a in", "read"),
            ("PCIe", into / 2, into, "copy b in", "read"),
            ("GPU", into, into + kernel_us, "kernel", "block"),
            ("PCIe", into + kernel_us, into + kernel_us + out, "copy c out", "write"),
        ],
        title="PCIe copies dominate; the kernel is a sliver",
        caption="Predicted time to add 2²⁴ elements on an {machine}, at the peak bandwidths of its memory and of PCIe 5.0 x16, with nothing overlapped.",
        unit="µs",
    )
)

# %% [markdown]
# ## Block size: predict, then measure
#
# Now time the kernel alone, with its inputs already on the device. The bound in the table is the longer of two times:
# the time to move the bytes at peak memory \bandwidth, and the time to launch a kernel that does nothing.[^bound]
# Blocks of 32 threads move the same bytes as blocks of 256. Are they equally fast?
#
# [^bound]: At 20,000 elements, launch \overhead exceeds the transfer time, so the rows for that size say little
#     about the kernel.

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
    reasons={"blocks of 32": "Block size: predict, then measure"},
    fold="All rows of the measurement",
    guess=Guess(
        "How much faster are blocks of 256 than blocks of 32, on the longest array?",
        of="blocks of 256",
        over="blocks of 32",
        at={"n": 2**26},
        between=(0.1, 100),
        models={"same bytes, same time": 1.0, "time follows the number of blocks": 256 / 32},
        because="Both move the same bytes. But with blocks of 32 there are more blocks to start, and fewer threads are resident on the GPU at any moment.",
    ),
)

# %% [markdown]
# Does the block size change the memory traffic? Data moves in *sectors* of 32 bytes, so
# 20,000 elements need {{ moved.bytes | , }} / 32 = {{ moved.sectors | , }} sectors. The
# simulator and the GPU's hardware counters both find exactly that many, for every block size. So
# traffic can't explain the difference.
#
# ??? definition "Sector | sectors"
#     The 32-byte unit in which caches and device memory exchange data.

# %% fold="Code of the check"
from tilewise.measurements import recorded

at_count_case = [row for row in added.rows if row["parameters"]["n"] == n]
columns = [row[source] for row in at_count_case for source in ("simulated", "counted") if row[source]]
sectors = [counts["global_load_sectors"] + counts["global_store_sectors"] for counts in columns]
check(sectors, [moved // 32] * len(sectors), name="sectors, simulated and counted, for every block size")
launch_us = recorded("vec_add.ceilings.launch_us")
if np.isfinite(launch_us):
    check(
        [row["bound"] for row in added.rows],
        [max(launch_us, lower_bounds_us(row["parameters"]["n"])[0]) for row in added.rows],
        rtol=1e-3,
        name="the bound is the longer of launch and memory traffic, not their sum",
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
        x="time [µs]",
        title="Blocks of 32 are far slower than any other version",
        caption="Adding 2²⁶ elements that are already on the device: the lower bound and the recorded time of each kernel. cupy.add and torch.add are library kernels. All of them move the same bytes.",
    )
)
if np.isfinite(list(times_us.values())).all():
    others = [us for name, us in times_us.items() if name != "blocks of 32"]
    assert times_us["blocks of 32"] > 3 * max(others), "the title says so of blocks of 32"

# %% fold="Code that times blocks without work on a GPU" needs="gpu" record="empty_blocks"
from tilewise import gpu_here

NO_WORK = Kernel(r"""
// Does nothing. As many blocks and threads as vec_add; n is never negative.
extern "C" __global__
void no_work(float* c, int n) {
    if (n < 0) c[0] = 0.0f;
}
""")

if gpu_here():
    from tilewise.measurements.side_by_side import Calls, timed_lines

    calls = Calls()
    for block in (32, 64, 128, 256, 1024):
        calls.add(f"vec_add, blocks of {block}", VEC_ADD.on(addition(2**26, block)))
        calls.add(f"no work, blocks of {block}", NO_WORK.on(addition(2**26, block)))
    print(timed_lines("n=2^26", calls.by_label))

# %% [markdown]
# Blocks of 256 reach {{ vec_add.blocks_of_256.n_67108864.share_of_bound | .0% }} of peak \bandwidth, blocks of 32 only
# {{ vec_add.blocks_of_32.n_67108864.share_of_bound | .0% }}. Two things can slow small blocks down. First, there are
# more of them: the GPU has to launch a block for every 32 elements. Second, they can't fill the GPU. It runs blocks on
# its *streaming multiprocessors*, each of which has slots for 2,048 threads but holds at most 32 blocks at once, so
# blocks of 32 fill only half of the slots.
#
# The first cause is enough to explain the time: on an H200, the kernel with blocks of 32 takes
# {{ launched.added | us }}, and launching just as many blocks of a kernel that does nothing takes just as long. Of the
# three block sizes measured, 256 is the fastest on the longest array, and it's a good first choice.

# %% fold="Code of the numbers"
from tilewise.measurements.side_by_side import printed_times

empty_us = printed_times("kernels/first_kernel", "empty_blocks")  # recorded on an H200
added_us, no_work_us = (empty_us["n=2^26", f"{what}, blocks of 32"] for what in ("vec_add", "no work"))
assert not abs(added_us / no_work_us - 1) > 0.01, "the text says that blocks without work take as long"
if np.isfinite(list(times_us.values())).all():
    assert times_us["blocks of 256"] < times_us["blocks of 1,024"], "the text calls 256 the fastest"
publish(launched={"added": added_us})

# %% [markdown]
# ## Copies over PCIe: pageable and pinned memory
#
# Finally, measure end to end: copy in, add, copy out. NumPy allocates *pageable* memory, which the
# operating system may move or swap out. *Pinned* memory stays where it is, so the GPU can read and
# write it directly. Data in pageable memory takes a detour: the driver copies it through a pinned
# staging buffer. The bound in the table is for the kernel alone, without the copies.

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
        "with copies, pageable memory": round_trip(False),
        "with copies, pinned memory": round_trip(True),
    },
    reference=lambda a, b: {"c": a.astype(np.float64) + b.astype(np.float64)},
    tolerance=1e-6,
    note="The library rows copy both inputs in, call cupy.add and copy the result out.",
)

# %% [markdown]
# For 2²⁴ elements the kernel alone takes {{ vec_add_with_copies.kernel_alone.n_16777216.median | us }}. With copies to
# and from pinned memory, the end-to-end time is
# {{ vec_add_with_copies.with_copies_pinned_memory.n_16777216.median | us }}. With pageable memory it is
# {{ vec_add_with_copies.with_copies_pageable_memory.n_16777216.median | us }}: the extra copy costs more than all the
# rest combined.

# %% [markdown]
# ## The answer
#
# The launch starts 79 blocks with 20,224 threads, and 224 of them have no work. Copying
# takes longer than adding: the kernel and its launch take {{ vec_add_with_copies.kernel_alone.n_20000.median | .2g }}
# µs, or {{ vec_add_with_copies.with_copies_pinned_memory.n_20000.median | .2g }} µs together with copies to and from
# pinned memory.

# %% [markdown]
# ## Takeaways
#
# - A kernel is the code that each thread runs; `blockIdx.x * blockDim.x + threadIdx.x` is the index of the thread's own
#   element.
# - Round the grid up, and let a bounds check such as `if (i < n)` stop the surplus threads.
# - Vector addition moves 12 bytes per operation, so memory \bandwidth limits it. PCIe has only a small fraction of the
#   memory \bandwidth, so copying takes far longer than adding.
#
# ## In your own kernel
#
# Run a new kernel under `compute-sanitizer --tool memcheck`, which names the thread and the address
# of each access outside an allocation; with CuPy, call `cupy.cuda.set_allocator(None)` first, or its
# memory pool hides the ends of your arrays. Then read
# `dram__throughput.avg.pct_of_peak_sustained_elapsed` in Nsight Compute, which shows how close you
# are to peak memory \bandwidth, and look in Nsight Systems for copies that take longer than the kernel.

# %% fold="Code of the exercise: solution, tests and three wrong answers"
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
    "saxpy with an offset and a stride",
    """
    Write `saxpy`: `y = alpha * x + y` for `n` elements that start at index `offset` and are `stride`
    apart in both arrays. The grid is rounded up to whole blocks of 256 threads. Which value must the bounds check
    test, and why isn't it the index into the array? The tests compare every element of `y`, including
    those that must not change.
    """,
    answer=STRIDED_SAXPY,
    tests=saxpy_tests,
    wrong=[{"offset + i * stride": "i * stride"}, {"i < n": "offset + i * stride < n"}, {"if (i < n) ": ""}],
    hint="You need two indices: which of the n elements belongs to this thread, and where is it in the array?",
)

# %% [markdown]
# These arrays have one axis; images and matrices have two. [Grids, blocks and threads in two and three
# dimensions](grids.py) shows how to give each thread a row and a column.
