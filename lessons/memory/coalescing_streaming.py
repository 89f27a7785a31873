# ---
# title: "Streaming: vector addition at the speed of a copy"
# needs: [memory/coalescing, speed/occupancy]
# further: memory/coalescing
# summary: "A coalesced vector addition is slower than a plain copy. How much do float4 loads help, and does anything else?"
# description: "Vector addition as fast as the driver's device-to-device copy: float2 and float4 loads help; larger blocks, cache hints and more loads per thread don't."
# date: 2026-11-23
# tags: [streaming, vectorised loads, float4]
# ---

# %% [markdown]
# Vector addition has the friendliest access pattern there is: every request needs 4 sectors and uses every byte. Yet
# the first kernel of this course reaches only {{ of_copy.float_one_per_thread | .0% }} of the speed of a plain copy
# on an H100. What accounts for the rest?

# %% [markdown]
# ## The yardstick: a device-to-device copy
#
# The driver's own copy moves {{ stream_add.ceilings.probes.copy_gb_per_s | ,.0f }} GB/s on this H100, counting reads
# and writes. Here again is the plain kernel, which loads two floats per thread.


# %% tab="CUDA C"
from tilewise import Kernel

ADD = Kernel(r"""
// c = a + b, one element per thread. Launch 1-D, with at least n threads in total.
extern "C" __global__
void add(const float* a, const float* b, float* c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] = a[i] + b[i];
}
""")


# %% tab="Pseudocode"
from tilewise import parallel


def add(a, b, c):
    for i in parallel(len(a)):
        c[i] = a[i] + b[i]


# %% [markdown]
# To saturate memory, a GPU needs enough bytes in flight. By [Little's law](../speed/occupancy.py), that's bandwidth
# times latency. Each thread of the plain kernel issues two 4-byte loads and then waits for them. With `float4`, the
# same two instructions request 16 bytes each.

# %%
ADD_FOUR = Kernel(r"""
// c = a + b, four elements per thread; any n, arrays aligned to 16 bytes.
// Launch 1-D, with at least n / 4 threads, rounded up.
extern "C" __global__
void add_four(const float* a, const float* b, float* c, int n) {
    int i = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
    if (i + 3 < n) {
        float4 u = *(const float4*)(a + i), v = *(const float4*)(b + i);
        *(float4*)(c + i) =
            make_float4(u.x + v.x, u.y + v.y, u.z + v.z, u.w + v.w);
    } else {
        for (; i < n; ++i) c[i] = a[i] + b[i];  // the last one to three elements
    }
}
""")

# %% [markdown]
# Launch it with a size that isn't a multiple of 4. Each thread takes four elements, so 1,002 elements need 251
# threads.

# %%
import numpy as np

n = 1002
a, b, c = np.arange(n, dtype=np.float32), np.ones(n, np.float32), np.zeros(n, np.float32)
ADD_FOUR(a, b, c, n, grid=1, block=256)
print(c[:3], "...", c[-1])

# %% fold="float2 loads, and the grid-stride loop"
ADD_STRIDED = Kernel(r"""
// c = a + b in a grid-stride loop. Launch 1-D with any number of threads.
extern "C" __global__
void add_strided(const float* a, const float* b, float* c, int n) {
    int threads = gridDim.x * blockDim.x;
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += threads)
        c[i] = a[i] + b[i];
}
""")

ADD_TWO = Kernel(r"""
// c = a + b, two elements per thread; arrays aligned to 8 bytes.
extern "C" __global__
void add_two(const float* a, const float* b, float* c, int n) {
    int i = 2 * (blockIdx.x * blockDim.x + threadIdx.x);
    if (i + 1 < n) {
        float2 u = *(const float2*)(a + i), v = *(const float2*)(b + i);
        *(float2*)(c + i) = make_float2(u.x + v.x, u.y + v.y);
    } else if (i < n) {
        c[i] = a[i] + b[i];
    }
}
""")

# %% [markdown]
# Two more steps are often recommended. Streaming hints (`__ldcs`, `__stcs`) mark data as used once, so that it doesn't
# evict other data from the caches. And a thread can issue several `float4` loads before its first addition.

# %% fold="Streaming hints, and eight float4 loads in flight"
ADD_FOUR_STREAMING = Kernel(r"""
// As add_four, with streaming cache hints.
extern "C" __global__
void add_four_streaming(const float* a, const float* b, float* c, int n) {
    int i = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
    if (i + 3 < n) {
        float4 u = __ldcs((const float4*)(a + i));  // New: evict first
        float4 v = __ldcs((const float4*)(b + i));
        __stcs((float4*)(c + i),
               make_float4(u.x + v.x, u.y + v.y, u.z + v.z, u.w + v.w));
    } else {
        for (; i < n; ++i) c[i] = a[i] + b[i];
    }
}
""")

ADD_FOUR_FOUR = Kernel(r"""
// c = a + b, 16 elements per thread; arrays aligned to 16 bytes.
// Launch 1-D, with at least n / 16 threads, rounded up.
extern "C" __global__
void add_four_four(const float* a, const float* b, float* c, int n) {
    int first = 16 * blockIdx.x * blockDim.x + 4 * threadIdx.x;
    float4 u[4], v[4];
    #pragma unroll
    for (int k = 0; k < 4; ++k) {  // New: eight loads before the first addition
        int i = first + 4 * k * blockDim.x;
        if (i + 3 < n) {
            u[k] = *(const float4*)(a + i);
            v[k] = *(const float4*)(b + i);
        }
    }
    #pragma unroll
    for (int k = 0; k < 4; ++k) {
        int i = first + 4 * k * blockDim.x;
        if (i + 3 < n) {
            *(float4*)(c + i) = make_float4(u[k].x + v[k].x, u[k].y + v[k].y,
                                            u[k].z + v[k].z, u[k].w + v[k].w);
        } else {
            for (; i < n; ++i) c[i] = a[i] + b[i];
        }
    }
}
""")


# %% fold="Code of the checks and of the measurement"
from tilewise import agree, case, ceil_div, measure, normal, output, publish, show
from tilewise.figures import bars
from tilewise.measurements import medians_us, recorded


def adding(n, each=1, block=256, grid=None):
    grid = ceil_div(n, each * block) if grid is None else grid
    return case(a=normal(n), b=normal(n), c=output(n), n=n, grid=grid, block=block)


ADDS = {
    "float, one per thread": (ADD, {}),
    "float, grid-stride loop": (ADD_STRIDED, {"grid": 132 * 8}),
    "float2 loads": (ADD_TWO, {"each": 2}),
    "float4 loads": (ADD_FOUR, {"each": 4}),
    "float4, 1,024 threads per block": (ADD_FOUR, {"each": 4, "block": 1024}),
    "float4, streaming hints": (ADD_FOUR_STREAMING, {"each": 4}),
    "float4, eight loads in flight": (ADD_FOUR_FOUR, {"each": 16}),
}
for kernel, how in ADDS.values():
    agree(add, kernel, [adding(n, **how) for n in (1, 77, 4099, 5002)])


def torch_add(arrays):
    import torch

    a, b, c = (torch.as_tensor(arrays[name], device="cuda") for name in "abc")
    return lambda: torch.add(a, b, out=c)


def cupy_add(arrays):
    import cupy

    return lambda: cupy.add(arrays["a"], arrays["b"], out=arrays["c"])


def adding_by(label):
    kernel, how = ADDS[label]
    return lambda n: kernel.on(adding(n, **how))


additions = measure(
    "stream_add",
    variants={label: adding_by(label) for label in ADDS},
    cases=[{"n": 2**26}],
    count_case={"n": 2**16},
    bytes=lambda n: 12 * n,
    flop=lambda n: n,
    library={"cupy.add": cupy_add, "torch.add": torch_add},
    reference=lambda a, b: {"c": a + b},
    tolerance=1e-6,
    counts=("sectors", "requests"),
    fold="All nine rows",
)

# %% [markdown]
# `float4` loads bring the addition to {{ of_copy.float4_loads | .0% }} of the copy's speed, and `float2` loads are
# just as good, at {{ of_copy.float2_loads | .0% }}. Slightly more than 100% is possible, because the yardstick is
# one particular copy, not a hardware limit. The number of sectors is the same in all variants. What changes is how many
# bytes each request moves, and so how many are in flight; with `float2` loads, that's already enough.
#
# The other changes hardly help. On top of `float4` loads, streaming hints, larger blocks or more loads in flight change
# the speed by a few percent at most.

# %% fold="Code of the figure"
from tilewise.measurements.slugs import name_slug

copy_gb_per_s = recorded("stream_add.ceilings.probes.copy_gb_per_s")
of_copy = {label: 12 * 2**26 / us / 1e3 / copy_gb_per_s for label, us in medians_us(additions).items()}
publish(of_copy={name_slug(label): fraction for label, fraction in of_copy.items()})
show(
    bars(
        {label: 100 * fraction for label, fraction in of_copy.items()},
        x="speed relative to a device copy [%]",
        form=".1f",
        value_range=(0, 110),
        title="float4 loads bring vector addition to the speed of a copy",
        caption="Throughput of vector addition over 2²⁶ floats on an {machine}, as a percentage of the throughput of the driver's device-to-device copy on the same GPU.",
    )
)
if np.isfinite(list(of_copy.values())).all():
    one, four = of_copy["float, one per thread"], of_copy["float4 loads"]
    assert one < 0.95 < four, "the title says that float4 loads bring it to the copy's speed"
    more = [fraction for label, fraction in of_copy.items() if label.startswith("float4, ")]
    assert max(more) < 1.02 * four, "the text says that nothing else helps"
    relu_us = [recorded(f"relu_32bit._{load}_bytes_per_load.median") for load in (4, 16)]
    assert not relu_us[0] / relu_us[1] < four / one, "the takeaway says that ReLU gains more"

# %% [markdown]
# Run the versions yourself. How many load requests does each one need for the same sectors?

# %% fold="Code of the run"
from tilewise import try_it

PER_LOAD = {name: one for name, one in ADDS.items() if "grid" not in one[1]}
try_it(
    {name: lambda n, how=how: adding(n, **how) for name, (_, how) in PER_LOAD.items()},
    {name: kernel for name, (kernel, _) in PER_LOAD.items()},
    n=(1, 1002, 5000),
)

# %% [markdown]
# ## Takeaways
#
# - A coalesced kernel can still be too slow: with one float per load, too few bytes are in flight.
# - `float2` or `float4` loads fix that. Vector addition then runs at the speed of a copy.
# - The fewer arrays a kernel reads, the more it gains from wide loads, as [ReLU](precision.py#relu-in-fp16-half-the-bytes)
#   shows.

# %% [markdown]
# ## In your own kernel
#
# In Nsight Compute, compare `dram__throughput.avg.pct_of_peak_sustained_elapsed` with that of a copy. If it's lower and
# each request needs only 4 sectors, try `float4` loads first.

# %%
from tilewise import exercise

exercise(
    "float4 loads from a slice",
    """
    A colleague calls `add_four` on slices that start at element 1: the pointers `a + 1`, `b + 1` and `c + 1`. What
    happens, and how would you change the kernel so that it still uses `float4` loads?
    """,
    hint="Which addresses are multiples of 16?",
    explanation="The kernel fails with a misaligned-address error, because the slices start 4 bytes past a multiple of 16. All three have the same misalignment, so the kernel can handle the first three elements one by one and use float4 from element 4 of the arrays on. If the misalignments differed, float4 would work for one array only.",
)

# %% [markdown]
# Next, see what coalescing does for a kernel that works on matrices, in [coalesced attention](coalescing_attention.py).
