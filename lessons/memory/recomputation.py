# ---
# title: "Recomputation: cheaper than remembering"
# needs: [memory/fusion]
# summary: "Three fused layers and their gradient move 9 values per element; recomputing the activations reduces that to 5. How much faster is that?"
# description: "A backward pass that stores its activations against one that recomputes them: counted, timed, and followed to the depth where a third way wins."
# date: 2026-11-21
# tags: [recomputation, activations, backward pass, checkpointing]
# ---

# %% [markdown]
# Throwing results away and computing them a second time sounds wasteful. On a GPU it's often the faster choice. Take
# three sigmoid layers and their gradient. With one kernel per operation, they move {{ moved.six }} values per element
# between chip and memory; fused, they move {{ moved.kept }}. If you discard the intermediate results and recompute
# them, they move {{ moved.again }}, at the cost of twice as many sigmoids. How much faster is that, and does it still
# pay off with 16 layers?

# %% fold="Imports"
import numpy as np

from tilewise import Guess, agree, case, ceil_div, check, gpu_here, measure, normal, output, parallel

# %% [markdown]
# ## Activations: what a backward pass needs
#
# The forward pass is $a = \sigma(x)$, $b = \sigma(a)$, $out = \sigma(b)$ with $\sigma(v) = 1 / (1 + e^{-v})$. The
# results of the layers, here $a$, $b$ and $out$, are the network's *activations*. Training minimises a single number,
# the *loss*. The *backward pass* starts from $dout$, which says how much the loss changes with each element of $out$.
# It ends with the same quantity for $x$, the *gradient* $dx$. Along the way, each layer multiplies by its slope.
#
# ??? definition "Activation | activations"
#     A value that a layer of a network computes; the backward pass needs it again.
#
# ??? definition "Gradient | gradients"
#     How much a loss changes with each element of an input; it has the shape of that input.
#
# ??? definition "Backward pass"
#     The walk from the loss back to the inputs that computes the gradients, layer by layer.

# %% [markdown]
# A sigmoid's slope follows from its result alone: if $v = \sigma(u)$, the slope is $v(1 - v)$. So for each
# element[^jacobian]
#
# $$dx = dout \cdot out\,(1 - out) \cdot b\,(1 - b) \cdot a\,(1 - a).$$
#
# Work it through for $x = 0$ and $dout = 1$. In the forward pass, $a$ is {{ traced.a | .3f }}, $b$ is
# {{ traced.b | .3f }} and $out$ is {{ traced.out | .3f }}. The three slopes are {{ traced.slope_a | .3f }},
# {{ traced.slope_b | .3f }} and {{ traced.slope_out | .3f }}, and their product is $dx$ = {{ traced.dx | .4f }}.
#
# The usual way is to store the activations. The forward kernel writes all of them but the last to an array `kept`, one
# row per layer; the last one is `out`. The backward kernel loads them again, starting with the last layer.
#
# [^jacobian]: The derivatives of all results with respect to all inputs form a matrix, the Jacobian. For a
#     pointwise layer it's diagonal, so one multiplication per element is enough.


# %% tab="Pseudocode"
def sigmoid(v):
    return 1 / (1 + np.exp(-v))


def slope(v):
    return v * (1 - v)


def forward_kept(x, kept, out):
    for i in parallel(len(x)):
        v = x[i]
        for row in kept:
            # [keep
            v = sigmoid(v)
            row[i] = v
            # keep]
        out[i] = sigmoid(v)


def backward_kept(kept, out, dout, dx):
    for i in parallel(len(dx)):
        g = dout[i] * slope(out[i])
        for row in reversed(kept):
            # [fetch
            g = g * slope(row[i])
            # fetch]
        dx[i] = g


# %% tab="CUDA C"
from tilewise import Kernel

FORWARD_KEPT = Kernel(r"""
__device__ float sigmoid(float v) { return 1.0f / (1.0f + expf(-v)); }

// out = sigmoid applied depth times to x. kept: the activations before out,
// (depth - 1) x n, row-major; depth * n < 2^31. One thread per element:
// one-dimensional grid and block that cover n.
extern "C" __global__
void forward_kept(const float* x, float* kept, float* out, int n, int depth) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = x[i];
    for (int k = 0; k < depth - 1; ++k) {
        // [keep
        v = sigmoid(v);
        kept[k * n + i] = v;
        // keep]
    }
    out[i] = sigmoid(v);
}
""")

BACKWARD_KEPT = Kernel(r"""
__device__ float slope(float v) { return v * (1.0f - v); }

// dx = dout times the slopes of all depth layers.
// kept and out as forward_kept stored them; same launch.
extern "C" __global__
void backward_kept(const float* kept, const float* out, const float* dout,
                   float* dx, int n, int depth) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float g = dout[i] * slope(out[i]);
    for (int k = depth - 2; k >= 0; --k) {
        // [fetch
        g *= slope(kept[k * n + i]);
        // fetch]
    }
    dx[i] = g;
}
""")

# %% [markdown]
# Launch one warp, 32 elements with $x = 0$. You don't need a GPU: `simulate` runs the kernel and counts its
# loads and stores. With a single warp, each load or store moves one value per element.

# %%
x, dout = np.zeros(32, np.float32), np.ones(32, np.float32)
kept = np.zeros((2, 32), np.float32)
out, dx = np.zeros(32, np.float32), np.zeros(32, np.float32)
n, depth = 32, 3

forward = FORWARD_KEPT.simulate(x, kept, out, n, depth, grid=1, block=32)
backward = BACKWARD_KEPT.simulate(kept, out, dout, dx, n, depth, grid=1, block=32)

print(f"dx = {dx[0]:.4f}")
for run in (forward, backward):
    print(run.counts.global_load.requests, "loads,", run.counts.global_store.requests, "stores")

# %% [markdown]
# The forward pass loads $x$ and stores $a$, $b$ and $out$. The backward pass loads these three and $dout$, and
# stores $dx$: {{ moved.kept }} values in all. Without fusion, each layer moves two values forward and three
# backward, {{ moved.six }} in total.
#
# One load is easy to save. Once $b$ is loaded, one more sigmoid gives $out$, and {{ moved.last }} values remain. Why
# stop there?

# %% [markdown]
# ## Recomputation: load only the input
#
# All three activations follow from $x$, and $x$ is in memory anyway. So let the forward kernel store nothing but
# $out$. The backward kernel loads $x$ and $dout$ and computes the activations again in \registers.
# That's *recomputation*: in the loop, a sigmoid replaces a load.
#
# ??? definition "Recomputation | recompute | recomputes | recomputed"
#     Computing a value a second time where it is needed, instead of storing and loading it.


# %% tab="Pseudocode"
def forward_lean(x, out, depth):
    for i in parallel(len(x)):
        v = x[i]
        for _ in range(depth):
            v = sigmoid(v)
        out[i] = v


def backward_again(x, dout, dx, depth):
    for i in parallel(len(x)):
        v, g = x[i], dout[i]
        for _ in range(depth):
            # [again
            v = sigmoid(v)
            g = g * slope(v)
            # again]
        dx[i] = g


# %% tab="CUDA C"
FORWARD_LEAN = Kernel(r"""
__device__ float sigmoid(float v) { return 1.0f / (1.0f + expf(-v)); }

// out = sigmoid applied depth times to x.
// One thread per element; the grid and block cover n.
extern "C" __global__
void forward_lean(const float* x, float* out, int n, int depth) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = x[i];
    for (int k = 0; k < depth; ++k) v = sigmoid(v);
    out[i] = v;
}
""")

BACKWARD_AGAIN = Kernel(r"""
__device__ float sigmoid(float v) { return 1.0f / (1.0f + expf(-v)); }
__device__ float slope(float v) { return v * (1.0f - v); }

// dx = dout times the slopes of all depth layers, recomputed from x.
// Same launch as forward_lean.
extern "C" __global__
void backward_again(const float* x, const float* dout, float* dx, int n, int depth) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = x[i], g = dout[i];
    for (int k = 0; k < depth; ++k) {
        // [again
        v = sigmoid(v);  // recomputed instead of loaded
        g *= slope(v);
        // again]
    }
    dx[i] = g;
}
""")

# %%
forward = FORWARD_LEAN.simulate(x, out, n, depth, grid=1, block=32)
backward = BACKWARD_AGAIN.simulate(x, dout, dx, n, depth, grid=1, block=32)

print(f"dx = {dx[0]:.4f}")
for run in (forward, backward):
    print(run.counts.global_load.requests, "loads,", run.counts.global_store.requests, "stores")

# %% [markdown]
# The result is the same, with only {{ moved.again }} values moved. This backward pass runs from the first layer to the
# last, because a product of slopes can be computed in either order, up to rounding. Layers that mix elements, such as a
# matrix multiplication, need the true backward order, so their recomputed activations have to be kept until the
# backward pass reaches them.

# %% fold="Code of the checks"


def chain(n, depth, each=1, keeps="kept", steep=1.0, given=()):
    """A launch over n elements and depth layers, `each` elements per thread, with its output arrays.

    Arrays named in `given` are filled, as if an earlier kernel had written them.
    """
    sides = {"kept": (depth - 1, n), "slopes": (n,), "out": (n,), "dx": (n,)}
    wanted = [name for name in sides if name in ("out", "dx", keeps, *given)]
    arrays = {name: (normal if name in given else output)(*sides[name]) for name in wanted}
    inputs = {"x": normal(n), "dout": normal(n, scale=steep)}
    sizes = {"n": n // each, "depth": depth}
    return case(**inputs, **arrays, **sizes, grid=ceil_div(n, 256 * each), block=256)


def walks_agree(pseudocode, kernel, each=1):
    names = [parameter.name for parameter in kernel.parameters if parameter.is_const]
    given = [name for name in names if name not in ("x", "dout")]
    keeps = "slopes" if "slopes" in pseudocode.__name__ else "kept"
    shapes = ((1, 3), (255, 2), (1003, 5)) if each == 1 else ((4, 3), (252, 2), (1004, 5))
    agree(pseudocode, kernel, [chain(n, d, each, keeps, given=given) for n, d in shapes], rtol=1e-4)


walks_agree(forward_kept, FORWARD_KEPT)
walks_agree(backward_kept, BACKWARD_KEPT)
walks_agree(forward_lean, FORWARD_LEAN)
walks_agree(backward_again, BACKWARD_AGAIN)

small = chain(1003, 3).make()
up, down = small["x"].astype(float) + 1e-4, small["x"].astype(float) - 1e-4
for _ in range(3):
    up, down = sigmoid(up), sigmoid(down)
again = BACKWARD_AGAIN.on(chain(1003, 3)).run()
right = small["dout"] * (up - down) / 2e-4
check(again["dx"], right, rtol=1e-4, atol=1e-9, name="dx against finite differences")

# %% [markdown]
# Run both versions with more layers. Which one loads more per layer, and which one computes more?

# %% fold="Code of the run"
from tilewise import try_it

WALKS = {
    "backward, recomputed": (BACKWARD_AGAIN, ()),
    "backward, stored": (BACKWARD_KEPT, ("kept", "out")),
    "forward, nothing stored": (FORWARD_LEAN, ()),
    "forward, stored": (FORWARD_KEPT, ()),
}
try_it(
    {name: lambda n, depth, given=given: chain(n, depth, given=given) for name, (_, given) in WALKS.items()},
    {name: kernel for name, (kernel, _) in WALKS.items()},
    n=(1, 256, 1000),
    depth=(2, 3, 12),
)

# %% fold="Code of the numbers"
from tilewise import Table, publish, show


def values_moved(way, depth):
    """Values moved and sigmoids computed per element, one pair for each kernel of a version."""
    return {
        "unfused": [(2, 1)] * int(depth) + [(3, 0)] * int(depth),
        "store all": [(depth + 1, depth), (depth + 2, 0)],
        "store all but out": [(depth + 1, depth), (depth + 1, 1)],
        "slope product": [(3, depth), (3, 0)],
        "recompute": [(2, depth), (3, depth)],
    }[way]


def total(way, depth=3):
    return sum(values for values, _ in values_moved(way, depth))


a, b, out_0 = (float(sigmoid(v)) for v in (0.0, 0.5, sigmoid(0.5)))
traced = {"a": a, "b": b, "out": out_0}
slopes = {f"slope_{name}": slope(value) for name, value in traced.items()}
check(dx[0], np.prod(list(slopes.values())), rtol=1e-5, name="dx at x = 0")
publish(
    traced={**traced, **slopes, "dx": np.prod(list(slopes.values()))},
    moved={
        "six": total("unfused"),
        "kept": total("store all"),
        "last": total("store all but out"),
        "slopes": total("slope product"),
        "again": total("recompute"),
        "ratio_kept": total("store all") / total("recompute"),
        "ratio_six": total("unfused") / total("recompute"),
    },
)

# %% [markdown]
# ## Predict: does memory traffic hide the extra sigmoids?
#
# If memory traffic sets the time, moving {{ moved.again }} values instead of {{ moved.kept }} makes the program
# {{ moved.ratio_kept | .1f }}× faster, and {{ moved.ratio_six | .0f }}× faster than the unfused version. The price is
# three more sigmoids per element. Do they fit into the time that the loads and stores take anyway?
#
# Each sigmoid needs an exponential and a reciprocal. Both come from the special-function unit, which delivers 16
# results per \SM per cycle.[^special] Spread over the whole GPU, a sigmoid therefore takes at least
# {{ model.sigmoid_ps | .2f }} ps. Moving one 4-byte value takes {{ model.trip_ps | .2f }} ps at the data sheet's peak
# bandwidth.
#
# [^special]: The CUDA C++ Programming Guide lists this rate in its table of arithmetic instruction \throughput.

# %% fold="Code of the numbers"
from tilewise.measurements import recorded_device, two_digits

GPU = recorded_device()
SPECIAL_A_CLOCK = 16  # CUDA C++ Programming Guide, compute capability 9.0
TRIP_PS = 4 / GPU.memory_gb_per_s * 1e3
SIGMOID_PS = 2 / (SPECIAL_A_CLOCK * GPU.sms * GPU.boost_mhz) * 1e6


def predicted_ps(way, depth):
    """In each kernel the longer of its trips and its sigmoids."""
    return sum(max(values * TRIP_PS, done * SIGMOID_PS) for values, done in values_moved(way, depth))


publish(
    model={
        "sigmoid_ps": SIGMOID_PS,
        "trip_ps": TRIP_PS,
        "back_arithmetic": 3 * SIGMOID_PS,
        "back_bytes": 3 * TRIP_PS,
        "free": 3 * TRIP_PS / SIGMOID_PS,
        "pair": 2 * TRIP_PS / SIGMOID_PS,
        "limit": 2 * TRIP_PS / (2 * SIGMOID_PS),
        "flop_round": two_digits(2 * TRIP_PS * GPU.peak_tflop_per_s["fp32"]),
    }
)

# %% [markdown]
# The backward kernel then needs {{ model.back_arithmetic | .1f }} ps for its three sigmoids and
# {{ model.back_bytes | .1f }} ps for its three values. Some warps compute while others wait for memory, so the
# arithmetic should be hidden. The timed kernels use `float4` loads and stores, which reach more of the peak
# [bandwidth](fusion.py).

# %% fold="float4 kernels of all versions"
WIDE = r"""
#define ME (blockIdx.x * blockDim.x + threadIdx.x)
__device__ float sigmoid(float v) { return 1.0f / (1.0f + expf(-v)); }
__device__ float slope(float v) { return v * (1.0f - v); }
__device__ float4 sigmoid(float4 v) {
    return make_float4(sigmoid(v.x), sigmoid(v.y), sigmoid(v.z), sigmoid(v.w));
}
__device__ float4 slope(float4 v) {
    return make_float4(slope(v.x), slope(v.y), slope(v.z), slope(v.w));
}
__device__ float4 times(float4 u, float4 v) {
    return make_float4(u.x * v.x, u.y * v.y, u.z * v.z, u.w * v.w);
}

// All kernels: one thread per four elements; n counts float4s, so the array's length is a multiple of 4.
// Arrays are 16-byte aligned, kept is (depth - 1) x n; the one-dimensional grid and block cover n.
extern "C" __global__
void forward_kept(const float4* x, float4* kept, float4* out, int n, int depth) {
    int i = ME;
    if (i >= n) return;
    float4 v = x[i];
    for (int k = 0; k < depth - 1; ++k) {
        v = sigmoid(v);
        kept[k * n + i] = v;
    }
    out[i] = sigmoid(v);
}
extern "C" __global__
void backward_kept(const float4* kept, const float4* out, const float4* dout,
                   float4* dx, int n, int depth) {
    int i = ME;
    if (i >= n) return;
    float4 g = times(dout[i], slope(out[i]));
    for (int k = depth - 2; k >= 0; --k)
        g = times(g, slope(kept[k * n + i]));
    dx[i] = g;
}
// As backward_kept, but recomputes out from the last row of kept; depth is at least 2.
extern "C" __global__
void backward_last_again(const float4* kept, const float4* dout, float4* dx, int n, int depth) {
    int i = ME;
    if (i >= n) return;
    float4 v, g = dout[i];
    for (int k = 0; k < depth - 1; ++k) {
        v = kept[k * n + i];
        g = times(g, slope(v));
    }
    dx[i] = times(g, slope(sigmoid(v)));  // out, recomputed from the last activation
}
extern "C" __global__
void forward_lean(const float4* x, float4* out, int n, int depth) {
    int i = ME;
    if (i >= n) return;
    float4 v = x[i];
    for (int k = 0; k < depth; ++k) v = sigmoid(v);
    out[i] = v;
}
extern "C" __global__
void backward_again(const float4* x, const float4* dout, float4* dx, int n, int depth) {
    int i = ME;
    if (i >= n) return;
    float4 v = x[i], g = dout[i];
    for (int k = 0; k < depth; ++k) {
        v = sigmoid(v);
        g = times(g, slope(v));
    }
    dx[i] = g;
}
// Stores the product of all slopes, one value per element, instead of the activations.
extern "C" __global__
void forward_slopes(const float4* x, float4* slopes, float4* out, int n, int depth) {
    int i = ME;
    if (i >= n) return;
    float4 v = x[i], s = make_float4(1.0f, 1.0f, 1.0f, 1.0f);
    for (int k = 0; k < depth; ++k) {
        v = sigmoid(v);
        s = times(s, slope(v));
    }
    out[i] = v;
    slopes[i] = s;
}
extern "C" __global__
void backward_slopes(const float4* slopes, const float4* dout, float4* dx, int n) {
    int i = ME;
    if (i < n) dx[i] = times(dout[i], slopes[i]);
}
"""
LAYERS = r"""
#define ME (blockIdx.x * blockDim.x + threadIdx.x)
__device__ float sigmoid(float v) { return 1.0f / (1.0f + expf(-v)); }
__device__ float slope(float v) { return v * (1.0f - v); }
__device__ float4 sigmoid(float4 v) {
    return make_float4(sigmoid(v.x), sigmoid(v.y), sigmoid(v.z), sigmoid(v.w));
}
__device__ float4 sloped(float4 g, float4 v) {
    return make_float4(g.x * slope(v.x), g.y * slope(v.y), g.z * slope(v.z), g.w * slope(v.w));
}

// One kernel per operation. One thread per four elements; n counts float4s; the grid and block cover n.
extern "C" __global__
void layer_1(const float4* x, float4* a, int n) {
    int i = ME;
    if (i < n) a[i] = sigmoid(x[i]);
}
extern "C" __global__
void layer_2(const float4* a, float4* b, int n) {
    int i = ME;
    if (i < n) b[i] = sigmoid(a[i]);
}
extern "C" __global__
void layer_3(const float4* b, float4* out, int n) {
    int i = ME;
    if (i < n) out[i] = sigmoid(b[i]);
}
extern "C" __global__
void back_3(const float4* out, const float4* dout, float4* db, int n) {
    int i = ME;
    if (i < n) db[i] = sloped(dout[i], out[i]);
}
extern "C" __global__
void back_2(const float4* b, const float4* db, float4* da, int n) {
    int i = ME;
    if (i < n) da[i] = sloped(db[i], b[i]);
}
extern "C" __global__
void back_1(const float4* a, const float4* da, float4* dx, int n) {
    int i = ME;
    if (i < n) dx[i] = sloped(da[i], a[i]);
}
"""


# %% fold="Code of the checks"
def backward_last_again(kept, dout, dx):
    for i in parallel(len(dx)):
        g = dout[i]
        for row in kept:
            v = row[i]
            g = g * slope(v)
        dx[i] = g * slope(sigmoid(v))


def forward_slopes(x, slopes, out, depth):
    for i in parallel(len(x)):
        v, s = x[i], 1.0
        for _ in range(depth):
            v = sigmoid(v)
            s = s * slope(v)
        out[i], slopes[i] = v, s


def backward_slopes(slopes, dout, dx):
    for i in parallel(len(dx)):
        dx[i] = dout[i] * slopes[i]


FOUR = {}
for pseudocode in (
    forward_kept,
    backward_kept,
    backward_last_again,
    forward_lean,
    backward_again,
    forward_slopes,
    backward_slopes,
):
    FOUR[pseudocode.__name__] = Kernel(WIDE, pseudocode.__name__)
    walks_agree(pseudocode, FOUR[pseudocode.__name__], each=4)
SIX = [Kernel(LAYERS, name) for name in ("layer_1", "layer_2", "layer_3", "back_3", "back_2", "back_1")]


def layers(n, given=()):
    """A launch of one unfused operation over n elements; arrays named in `given` are filled."""
    names = ("a", "b", "db", "da", "out", "dx")
    arrays = {name: (normal if name in given else output)(n) for name in names}
    return case(x=normal(n), dout=normal(n), **arrays, n=n // 4, grid=ceil_div(n, 1024), block=256)


for kernel in SIX:
    *given, result, _ = (parameter.name for parameter in kernel.parameters)
    for n in (4, 1004):
        launch = layers(n, given)
        activation, *gradients = (launch.make()[name] for name in given)
        right = gradients[0] * slope(activation) if gradients else sigmoid(activation)
        check(kernel.on(launch).run()[result], right, rtol=1e-6, name=f"{kernel.name} of {n} elements")


def gradient(x, dout, depth=3):
    """The reference result, computed on the GPU if there is one, since the host takes seconds."""
    xp = np
    if gpu_here():
        import cupy as xp
    v, g = xp.asarray(x), xp.asarray(dout)
    for _ in range(int(depth)):
        v = 1 / (1 + xp.exp(-v))
        g = g * v * (1 - v)
    answer = {"out": v, "dx": g}
    return answer if xp is np else {name: xp.asnumpy(one) for name, one in answer.items()}


# %% fold="Code of the measurement"
def by_torch(prepare):
    """Forward and backward pass in PyTorch; `prepare` wraps the three sigmoids."""

    def contender(arrays):
        import torch

        x = torch.as_tensor(arrays["x"], device="cuda").requires_grad_()
        dout = torch.as_tensor(arrays["dout"], device="cuda")
        layers = prepare(lambda x: x.sigmoid().sigmoid().sigmoid())

        def both_ways():
            out = layers(x)
            return {"out": out.detach(), "dx": torch.autograd.grad(out, x, dout)[0]}

        both_ways()
        return both_ways

    return contender


def compiled(layers):
    import torch

    torch.compiler.reset()
    return torch.compile(layers, dynamic=False)


def three(*names, keeps=""):
    return lambda n: [FOUR[name].on(chain(n, 3, 4, keeps)) for name in names]


LARGE = 2**25
LAUNCHES = {
    "unfused": lambda n: [one.on(layers(n)) for one in SIX],
    "store all": three("forward_kept", "backward_kept", keeps="kept"),
    "store all but out": three("forward_kept", "backward_last_again", keeps="kept"),
    "recompute": three("forward_lean", "backward_again"),
}
three_layers = measure(
    "three_layers",
    variants=LAUNCHES,
    cases=[{"n": LARGE}],
    count_case={"n": 2**14},
    bytes=lambda n: 4 * 5 * n,
    library={"torch, eager": by_torch(lambda layers: layers), "torch.compile": by_torch(compiled)},
    reference=gradient,
    reasons={
        "unfused": "Measured traffic and time",
        "store all": "Measured traffic and time",
    },
    guess=Guess(
        "Three layers, 34 million elements: how much faster is recomputing the activations than storing them all?",
        of="recompute",
        over="store all",
        between=(0.3, 8.0),
        models={"values moved": 9 / 5, "sigmoids computed": 3 / 6},
        because="Memory traffic sets the time as long as it hides the sigmoids.",
    ),
)

# %% [markdown]
# ## Measured traffic and time
#
# The simulator counts exactly the values that we derived.

# %% fold="Code of the table and of the numbers"
from tilewise.measurements import medians_us, recorded

COUNTED = 2**12
COUNTS = {}
for label, launches in (
    LAUNCHES | {"slope product": three("forward_slopes", "backward_slopes", keeps="slopes")}
).items():
    counts = [one.simulate().counts for one in launches(COUNTED)]
    sectors = sum(one.global_load.sectors + one.global_store.sectors for one in counts)
    COUNTS[label] = 32 * sectors / 4 / COUNTED
check(list(COUNTS.values()), [total(label) for label in COUNTS], name="values counted per element")
TOOK = medians_us(three_layers)
rates = [
    4 * COUNTS[label] * LARGE / TOOK[label] / 1e3 for label in ("store all", "store all but out", "recompute")
]
if "H100" in GPU.name and np.isfinite(rates).all():
    assert len({two_digits(rate) for rate in rates}) == 1, "the text says that all three are as fast"
publish(
    took={
        "ratio_kept": TOOK["store all"] / TOOK["recompute"],
        "ratio_six": TOOK["unfused"] / TOOK["recompute"],
        "gb_round": two_digits(4 * 5 * LARGE / TOOK["recompute"] / 1e3),
        "room": recorded("three_layers.torch_compile.median")
        * recorded("three_layers.ceilings.memory_gb_per_s")
        * 1e3
        / 4
        / LARGE,
    },
)
show(
    Table(
        ["version", "values", "sigmoids", "predicted [µs]", "recorded [µs]"],
        [
            [
                label,
                COUNTS[label],
                sum(sigmoids for _, sigmoids in values_moved(label, 3)),
                predicted_ps(label, 3) * LARGE / 1e6,
                TOOK[label],
            ]
            for label in LAUNCHES
        ],
        caption=f"Three sigmoids, forward and backward. Values per element are counted by the simulator with {COUNTED:,} elements, and sigmoids per element follow from the loops; the times are for {LARGE:,} elements on an {{machine}}, predicted by the model above and recorded.",
    )
)

# %% [markdown]
# With 34 million elements, storing everything takes {{ three_layers.store_all.median | us }} and recomputing
# {{ three_layers.recompute.median | us }}. That's {{ took.ratio_kept | .1f }}× faster, and {{ took.ratio_six | .1f }}×
# faster than the unfused version. On an H100, all three fused versions move data at about {{ took.gb_round | ,.0f }}
# GB/s: the extra sigmoids cost nothing.

# %% [markdown]
# PyTorch's compiled version takes {{ three_layers.torch_compile.median | us }}. Even at the highest bandwidth measured
# on this GPU, this time is enough to move only {{ took.room | .1f }} values per element, so this version can't have
# stored everything. `torch.compile` recomputes too: its AOTAutograd traces both passes as one graph and uses a [minimum
# cut](https://dev-discuss.pytorch.org/t/min-cut-optimal-recomputation-i-e-activation-checkpointing-with-aotautograd/467)
# to choose what to save, as Horace He explains.
#
# *A common misconception:* recomputation saves memory and costs time. That's true of expensive layers. For memory-bound
# pointwise layers, it saves both memory and time.

# %% [markdown]
# ## Deeper chains: where recomputation loses
#
# Now let the chain grow to $L$ layers. Storing everything moves $2L + 3$ values, since each additional layer costs a
# store and a load. Recomputing still moves {{ moved.again }}, but its backward kernel computes $L$ sigmoids while three
# values move. At the rates above, the memory traffic hides the sigmoids of up to {{ model.free | .1f }} layers in this
# kernel, and of up to {{ model.pair | .1f }} in the forward kernel, which moves two values. Beyond that, each
# additional layer costs the time of two sigmoids. But if you store everything, each additional layer moves two more
# values, which takes {{ model.limit | .1f }}× as long as two sigmoids. So recomputing should always beat storing.
#
# But does the backward pass need every activation? It only needs the product of their slopes, and the forward kernel
# can compute that product. If you store this one value per element, you move {{ moved.slopes }} values at any depth:
# one more than with recomputation, but no sigmoid is computed twice.[^only]
#
# [^only]: Only a chain of pointwise layers folds into one value like this.

# %% [markdown]
# According to the model, recomputation and the slope product break even when $L$ sigmoids take as long as moving
# three values, at {{ model.free | .1f }} layers. But our sigmoid time is a lower bound, since `expf` and the division
# need ordinary instructions too. How much earlier is the real crossover?

# %% fold="Code of the measurement"
DEEP = 2**24
MEASURED_DEPTHS = (2, 3, 4, 6, 8, 12, 16)


def deep(*names, keeps=""):
    return lambda n, depth: [FOUR[name].on(chain(n, depth, 4, keeps, 4.4**depth)) for name in names]


depths = measure(
    "layers_kept_or_made_again",
    variants={
        "store all": deep("forward_kept", "backward_kept", keeps="kept"),
        "slope product": deep("forward_slopes", "backward_slopes", keeps="slopes"),
        "recompute": deep("forward_lean", "backward_again"),
    },
    cases=[{"n": DEEP, "depth": depth} for depth in MEASURED_DEPTHS],
    count_case={"n": 2**12, "depth": 8},
    bytes=lambda n, depth: 4 * 5 * n,
    reference=gradient,
    tolerance=1e-4,
    reasons={"*": "Deeper chains: where recomputation loses"},
    fold="All 21 rows",
)

# %% fold="Code of the figure and of the numbers"
from tilewise.figures import Series, line_chart

DEPTHS = range(2, 17)
SHOWN = {"store all": "read", "slope product": "tile", "recompute": "block"}
depth_us = medians_us(depths, "depth")
DEPTH_US = {label: [depth_us[label, depth] for depth in MEASURED_DEPTHS] for label in SHOWN}


def where_equal(depths, one, other):
    """The depth at which `one` first takes longer than `other`, interpolated linearly."""
    gap = np.subtract(one, other)
    for at in range(1, len(depths)):
        if gap[at - 1] <= 0 < gap[at]:
            part = -gap[at - 1] / (gap[at] - gap[at - 1])
            return depths[at - 1] + part * (depths[at] - depths[at - 1])
    return np.nan


def each_layer_ps(label):
    """Time per further layer and element: the slope of a line fitted to the record from eight layers on."""
    return np.polyfit(MEASURED_DEPTHS[-3:], DEPTH_US[label][-3:], 1)[0] * 1e6 / DEEP


FITTED_PS = each_layer_ps("recompute") / 2  # two sigmoids per layer
INSTRUCTIONS = {"forward_lean": 165 / 8, "backward_again": 189 / 8}  # per sigmoid, checked below
ISSUE_PS = {  # four warp instructions per cycle and SM
    name: instructions / (4 * 32 * GPU.sms * GPU.boost_mhz) * 1e6
    for name, instructions in INSTRUCTIONS.items()
}
publish(
    deep={
        "crossing": where_equal(MEASURED_DEPTHS, DEPTH_US["recompute"], DEPTH_US["slope product"]),
        "sigmoid_ps": FITTED_PS,
        "plain": INSTRUCTIONS["forward_lean"],
        "with_slope": INSTRUCTIONS["backward_again"],
        "issue_ps": np.mean(list(ISSUE_PS.values())),
        # beyond both knees, the slope product saves the sigmoids of one kernel and pays three more values
        "issue_free": 3 * TRIP_PS / ISSUE_PS["forward_lean"],
        "ratio_16": DEPTH_US["store all"][-1] / DEPTH_US["recompute"][-1],
    }
)
show(
    line_chart(
        [Series(label, MEASURED_DEPTHS, DEPTH_US[label], role=role) for label, role in SHOWN.items()]
        + [
            Series(
                "recompute, model",
                list(DEPTHS),
                [predicted_ps("recompute", depth) * DEEP / 1e6 for depth in DEPTHS],
                role="predicted",
                marks=False,
            )
        ],
        x="number of layers",
        y="time [µs]",
        title="Recomputing always beats storing everything, but beats the slope product only in short chains",
        caption=f"Time for {DEEP:,} elements forward and backward through chains of sigmoids on an {{machine}}. Dashed: the model for recomputing, which counts two special-function results per sigmoid and no other instruction.",
    )
)
if np.isfinite(list(DEPTH_US.values())).all():
    assert np.less(DEPTH_US["recompute"], DEPTH_US["store all"]).all(), (
        "the title says: recomputing beats storing all"
    )
    assert DEPTH_US["recompute"][0] < DEPTH_US["slope product"][0], "the title says: in short chains"
    assert DEPTH_US["slope product"][-1] < DEPTH_US["recompute"][-1], "the title says: only in short chains"

# %% needs="nvrtc nvdisasm" fold="Code of the check: instructions per sigmoid"
from tilewise.kernel.machine_code import available as can_disassemble
from tilewise.kernel.machine_code import machine_code


def per_sigmoid(kernel):
    """Instructions of the loop per exponential, without the slow path of the division."""
    loop = machine_code(kernel).loop()
    position = {label: at for at, one in enumerate(loop) for label in one.labels}
    at, issued, exponentials = 0, 0, 0
    while at < len(loop):
        one = loop[at]
        issued += 1
        exponentials += one.name.startswith("MUFU.EX2")
        jumps = one.predicate and position.get(one.target, 0) > at  # taken for ordinary operands
        at = position[one.target] if jumps else at + 1
    return issued / exponentials


if can_disassemble() is None:
    counted = [per_sigmoid(FOUR[name]) for name in INSTRUCTIONS]
    check(counted, list(INSTRUCTIONS.values()), rtol=0.05, name="instructions per sigmoid")

# %% [markdown]
# The slope product overtakes recomputation at {{ deep.crossing | .1f }} layers. The compiled code explains why: a
# sigmoid compiles to about {{ deep.plain | .0f }} instructions, or {{ deep.with_slope | .0f }} with its slope. An \SM
# issues four warp instructions per cycle, so instruction issue is a tighter limit than the special-function unit.
# Averaged over sigmoids with and without a slope, it allows one sigmoid per {{ deep.issue_ps | .2f }} ps. A straight
# line fitted to the times for eight or more layers gives {{ deep.sigmoid_ps | .2f }} ps per sigmoid. The slope product
# saves only sigmoids that are computed without their slope, so with instruction issue as the limit, the model's
# crossover moves from {{ model.free | .1f }} to {{ deep.issue_free | .1f }} layers.

# %% [markdown]
# ## When to recompute: a rule of thumb
#
# In a memory-bound kernel, recompute a value if that takes less time than storing and loading it. This assumes that its
# inputs are on the chip anyway. On an H100, storing and loading 4 bytes takes as long as {{ model.flop_round | .0f }}
# \FP32 operations at the data sheet's peaks for bandwidth and arithmetic. A sigmoid, a bias or a ReLU takes far less
# time.
#
# A matrix multiplication takes far more. If each element of the result is a dot product of {{ product.columns | , }}
# terms, it costs {{ product.flop | , }} operations. With 16-bit elements, computing it takes
# {{ product.made_ps | .1f }} ps on the \tensor cores, whereas storing and loading it takes {{ product.trips_ps | .1f }}
# ps.

# %% [markdown]
# ## Activation checkpointing: saving memory instead of time
#
# Expensive layers are recomputed too, for a different reason: the activations of a large model don't fit in device
# memory. In [*Training deep nets with sublinear memory cost*](https://arxiv.org/abs/1604.06174), Chen et al. save only
# some of them. The backward pass then recomputes one segment between two saved activations at a time.
#
# Suppose there are 100 layers and you save every tenth activation. Memory then holds ten saved activations and the ten
# of the current segment: 20 instead of 100. In general, with segments of $s$ layers, memory holds $L/s + s$
# activations, which is smallest at $s = \sqrt{L}$, so memory grows with the square root of the depth. The price is a second forward pass. If
# a backward pass takes as long as two forward passes, the whole step then takes a third longer.
#
# ??? definition "Activation checkpointing | gradient checkpointing | checkpointing"
#     Saving the activations of only some layers and recomputing the others during the
#     backward pass, so that a model needs less memory.

# %% fold="Code of the numbers"
COLUMNS = 4096
PEAK_16 = GPU.peak_tflop_per_s["bf16_matrix"]
HELD = {length: ceil_div(100, length) + length for length in range(1, 101)}
check([min(HELD, key=HELD.get), HELD[10]], [100**0.5, 20], name="best length of a segment, and what it holds")
publish(
    product={
        "columns": COLUMNS,
        "flop": 2 * COLUMNS,
        "made_ps": 2 * COLUMNS / PEAK_16,
        "trips_ps": TRIP_PS,  # two values of half the bytes
    },
)

# %% [markdown]
# ## The answer
#
# With three layers, recomputing the activations is {{ took.ratio_kept | .1f }}× faster than storing them, just as the
# ratio of {{ moved.kept }} to {{ moved.again }} values predicts. At 16 layers, it's {{ deep.ratio_16 | .1f }}× faster.
# But from about {{ deep.crossing | .0f }} layers on, the slope product is faster still, because it stores only what the
# backward pass needs.

# %% [markdown]
# ## Takeaways
#
# - A fused chain of $L$ pointwise layers moves $2L + 3$ values per element if it stores its activations, and
#   {{ moved.again }} if it recomputes them.
# - Recompute a value if that takes less time than storing and loading it. In a memory-bound kernel, small amounts
#   of arithmetic are almost free.
# - Store what the backward pass needs rather than what the forward pass computed. Sometimes that's one value.

# %% [markdown]
# ## In your own kernel
#
# In Nsight Compute, compare `dram__throughput.avg.pct_of_peak_sustained_elapsed` with
# `sm__inst_issued.avg.pct_of_peak_sustained_active`: if memory is near its peak and
# instruction issue isn't, recompute values instead of loading them. In PyTorch, wrap a block of layers in
# `torch.utils.checkpoint.checkpoint` and read `torch.cuda.max_memory_allocated()` before and after.

# %% fold="Code of the exercise, with three wrong answers that the tests reject"
from tilewise import exercise


def values_moved_by(depth, kept):
    moved = 4  # loads x and dout, stores out and dx
    if 1 not in kept:
        moved += 1  # the backward kernel loads x again
    for layer in kept:
        moved += 1 if layer == depth else 2  # out is stored anyway
    return moved


check(
    [values_moved_by(3, kept) for kept in ({1, 2, 3}, {1, 2}, set())],
    [COUNTS[way] for way in ("store all", "store all but out", "recompute")],
    name="the answer against the simulator's counts",
)


def counting_tests(answer):
    for depth in range(1, 9):
        for which in range(2**depth):
            chosen = {layer for layer in range(1, depth + 1) if which >> (layer - 1) & 1}
            right = 5 + 2 * len(chosen) - (1 in chosen) - (depth in chosen)
            assert right >= 5, "the explanation says that no set beats 5"
            given = answer(depth, chosen)
            layers = ", ".join(map(str, sorted(chosen))) or "none"
            assert given == right, f"{depth} layers, saved: {layers}: {given}, but the kernels move {right}"


exercise(
    "Save some of the activations",
    """
    Write `values_moved_by(depth, kept)` for a fused chain of `depth` sigmoids and its backward pass. `kept` is the
    set of layers, counted from 1, whose results the backward kernel loads. It recomputes all others, each from
    the layer before, and loads $x$ only if it recomputes the first layer. The last layer's result is `out`, which
    is stored in any case. How many values per element do the two kernels move? The tests try every
    set for depths 1 to 8. Does any set need fewer values than the empty one?
    """,
    answer=values_moved_by,
    tests=counting_tests,
    wrong=[
        {"if 1 not in kept": "if True"},
        {"1 if layer == depth else 2": "2"},
        {"moved = 4": "moved = 2", "1 if layer == depth else 2": "1"},
    ],
    hint="Saving a layer costs one store and one load. Which layer's result is stored anyway?",
    explanation="No. The empty set moves 5 values. Saving a layer adds 2, with two exceptions: the last layer adds only 1, since out is stored anyway, and the first saves the second load of x. With depth 1, a single layer is both first and last, and both choices move 5 values.",
)

# %% [markdown]
# In a chain of pointwise layers, every thread works independently. A sum over a row needs many threads to combine their
# values, in a [parallel reduction](reductions.py).
