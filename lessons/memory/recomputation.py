# ---
# title: Fetch it, or make it again
# needs: [memory/fusion]
# summary: "Three layers and their gradient move 15 values for each number, or 9, or 5. For the 5 every layer is computed twice. When does that pay?"
# description: "What a backward pass reads, counted in four ways; activations made again instead of fetched; the depth at which it stops paying."
# date: 2026-11-21
# tags: [recomputation, activations, backward pass, checkpointing]
# ---

# %% [markdown]
# Three sigmoids stand in a row, as a toy network. Training runs them forwards and then asks, backwards,
# how the result depends on the input. Operation by operation that moves {{ moved.six }} values for
# each number; fused, {{ moved.kept }}. A third way does nearly twice the arithmetic, throws results
# away and makes them again, and moves {{ moved.again }}. How many times as fast is it? And with more
# layers than three, does it stay ahead?

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
# ## Forwards and back
#
# The forward pass is $a = \sigma(x)$, $b = \sigma(a)$, $out = \sigma(b)$ with
# $\sigma(v) = 1 / (1 + e^{-v})$. What a layer hands on, here $a$ and $b$, is called its activation.
# The backward pass begins with $dout$: by how much the loss, the number that training makes small,
# changes with each $out$. It ends with the same for $x$, the gradient $dx$. Each layer on the way
# multiplies by its slope.
#
# ??? definition "Activation | activations"
#     A value that one layer of a network hands to the next; the backward pass needs it again.
#
# ??? definition "Gradient | gradients"
#     By how much a loss changes with each number of an input; of the same shape as that input.
#
# ??? definition "Backward pass"
#     The walk from the loss back to the inputs that computes the gradients, layer by layer.

# %% [markdown]
# The slope of a sigmoid can be had from its result alone: where $v = \sigma(u)$, it is $v(1 - v)$. So,
# element by element[^jacobian] and with $db$ for the gradient of $b$,
#
# $$db = dout \cdot out\,(1 - out),$$
#
# $$dx = db \cdot b\,(1 - b) \cdot a\,(1 - a).$$
#
# The kernels below keep the activations of all layers but the last in an array `kept`, a row for each
# layer; the last one is `out` and is stored anyhow. The backward pass fetches them, last layer first.
#
# [^jacobian]: The derivatives of all results by all inputs form a matrix, the Jacobian. That of a
#     pointwise layer has its slopes on the diagonal and zeros elsewhere, which is why one product for
#     each number is enough here.


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
# Count for three layers what crosses between chip and memory. Forwards $x$ comes in and $a$, $b$,
# $out$ go out; backwards these three and $dout$ come in and $dx$ goes out: {{ moved.kept }} values.
# One fetch is easily spared: with $b$ at hand, $out$ is one more sigmoid away. That makes
# {{ moved.last }}.[^eight] Both are fused already. Operation by operation each layer reads one value
# and writes one forwards, and reads two and writes one backwards, {{ moved.six }} in all.
#
# [^eight]: [Where the sources differ](../../conventions.md#the-sources): the lecture counts eight, with
#     three reads backwards, and names the two activations and the gradient that comes in. That is
#     right where $out$ is made again from $b$; where it is fetched, it is nine.

# %% [markdown]
# ## Make it again
#
# If $out$ can be made again, so can the others. $x$ lies in memory in any case, and all three
# activations follow from it. Then the forward pass stores nothing but $out$, and the backward pass
# fetches $x$ and $dout$ and makes the rest on the way. Making a value a second time to save its trip
# is called recomputation. The new line replaces a fetch by a sigmoid.
#
# ??? definition "Recomputation | recompute | recomputes | recomputed"
#     Computing a value a second time where it is needed, in place of storing and fetching it.


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

extern "C" __global__
void backward_again(const float* x, const float* dout, float* dx, int n, int depth) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = x[i], g = dout[i];
    for (int k = 0; k < depth; ++k) {
        // [again
        v = sigmoid(v);  // New: made, not fetched
        g *= slope(v);
        // again]
    }
    dx[i] = g;
}
""")

# %% [markdown]
# This walk goes forwards, from the first layer to the last, although it is the backward pass. A
# product of numbers comes out the same in either direction, but for rounding. Where layers mix
# elements, as a product of matrices does, the order matters, and what is made on the way up has to
# wait for the way down.

# %% fold="Code of the checks"


def chain(n, depth, each=1, keeps="kept", steep=1.0, given=()):
    """n numbers through so many layers and back, so many of them a thread, and room for what is made.

    What is `given` holds numbers, as if another kernel had made it.
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

# %% [markdown]
# The pairs agree, but is $dx$ a gradient at all? That can be seen without trusting either walk: move
# $x$ by a little to both sides and see how far $out$ goes.

# %% fold="Code of the check against small steps"
small = chain(1003, 3).make()
up, down = small["x"].astype(float) + 1e-4, small["x"].astype(float) - 1e-4
for _ in range(3):
    up, down = sigmoid(up), sigmoid(down)
again = BACKWARD_AGAIN.on(chain(1003, 3)).run()
check(again["dx"], small["dout"] * (up - down) / 2e-4, rtol=1e-4, atol=1e-9, name="dx, by small steps")

# %% fold="Code of the table"
from tilewise import Table


def values_moved(way, depth):
    """What each kernel of a way moves for each number, and the sigmoids it computes: one pair a kernel."""
    return {
        "operation by operation": [(2, 1)] * int(depth) + [(3, 0)] * int(depth),
        "all kept": [(depth + 1, depth), (depth + 2, 0)],
        "all but the last kept": [(depth + 1, depth), (depth + 1, 1)],
        "slopes kept": [(3, depth), (3, 0)],
        "made again": [(2, depth), (3, depth)],
    }[way]


def total(way, depth=3):
    return sum(values for values, _ in values_moved(way, depth))


publish(
    moved={
        "six": total("operation by operation"),
        "kept": total("all kept"),
        "last": total("all but the last kept"),
        "slopes": total("slopes kept"),
        "again": total("made again"),
        "ratio_kept": total("all kept") / total("made again"),
        "ratio_six": total("operation by operation") / total("made again"),
    }
)
WAYS = ("operation by operation", "all kept", "all but the last kept", "made again")
show(
    Table(
        ["way", "values moved", "sigmoids"],
        [[way, total(way), sum(done for _, done in values_moved(way, 3))] for way in WAYS],
        caption="Three sigmoids and their gradient: values that cross between chip and memory for each number, and sigmoids computed. A model of the traffic, not of time.",
    )
)

# %% [markdown]
# ## Predict
#
# If bytes set the time, the {{ moved.again }} values are {{ moved.ratio_kept | .1f }} times as fast as
# the {{ moved.kept }}, and {{ moved.ratio_six | .0f }} times as fast as the {{ moved.six }}. The price
# is three more sigmoids. A sigmoid needs an exponential and a reciprocal, and both come from a unit
# with few lanes: an \SM gets 16 such results in a cycle.[^special] So a sigmoid takes at least
# {{ model.sigmoid_ps | .2f }} ps, counted for the whole GPU, and a trip of one value to or from memory
# {{ model.trip_ps | .2f }} ps at its peak bandwidth (data sheet).
#
# [^special]: The CUDA C++ Programming Guide lists it under the \throughput of arithmetic instructions,
#     beside 128 additions. A cycle is reckoned at the highest clock of the device table.

# %% fold="Code of the numbers"
from tilewise.measurements import recorded_device

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
        "flop": 2 * TRIP_PS * GPU.peak_tflop_per_s["fp32"],
    }
)

# %% [markdown]
# In the backward kernel the three sigmoids then take {{ model.back_arithmetic | .1f }} ps and its three
# trips {{ model.back_bytes | .1f }} ps. Both go on at the same time, in different warps, so the
# arithmetic should hide. The kernels that are timed take four numbers a thread, because loads of 4
# bytes leave part of the bandwidth unused, as [fusion](fusion.py) saw. Otherwise they are the same.

# %% fold="Four numbers a thread, and the other ways"
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
extern "C" __global__
void backward_last_again(const float4* kept, const float4* dout, float4* dx, int n, int depth) {
    int i = ME;
    if (i >= n) return;
    float4 v, g = dout[i];
    for (int k = 0; k < depth - 1; ++k) {
        v = kept[k * n + i];
        g = times(g, slope(v));
    }
    dx[i] = times(g, slope(sigmoid(v)));  // out, made again from the last one kept
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


def layer_1(x, a):
    for i in parallel(len(x)):
        a[i] = sigmoid(x[i])


def layer_2(a, b):
    for i in parallel(len(a)):
        b[i] = sigmoid(a[i])


def layer_3(b, out):
    for i in parallel(len(b)):
        out[i] = sigmoid(b[i])


def back_3(out, dout, db):
    for i in parallel(len(db)):
        db[i] = dout[i] * slope(out[i])


def back_2(b, db, da):
    for i in parallel(len(da)):
        da[i] = db[i] * slope(b[i])


def back_1(a, da, dx):
    for i in parallel(len(dx)):
        dx[i] = da[i] * slope(a[i])


def layers(n, given=()):
    """n numbers through three layers and back, each operation by itself; what is given holds numbers."""
    names = ("a", "b", "db", "da", "out", "dx")
    arrays = {name: (normal if name in given else output)(n) for name in names}
    return case(x=normal(n), dout=normal(n), **arrays, n=n // 4, grid=ceil_div(n, 1024), block=256)


for pseudocode, kernel in zip((layer_1, layer_2, layer_3, back_3, back_2, back_1), SIX, strict=True):
    given = [parameter.name for parameter in kernel.parameters if parameter.is_const]
    agree(pseudocode, kernel, [layers(n, given) for n in (4, 252, 1004)], rtol=1e-6)


def gradient(x, dout, depth=3):
    """The right answer; on the GPU where there is one, since the host takes seconds for it."""
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
    """Forwards and back by torch; `prepare` makes of the three sigmoids what is called."""

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
    "operation by operation": lambda n: [one.on(layers(n)) for one in SIX],
    "all kept": three("forward_kept", "backward_kept", keeps="kept"),
    "all but the last kept": three("forward_kept", "backward_last_again", keeps="kept"),
    "made again": three("forward_lean", "backward_again"),
}
three_layers = measure(
    "three_layers",
    variants=LAUNCHES,
    cases=[{"n": LARGE}],
    count_case={"n": 2**14},
    bytes=lambda n: 4 * 5 * n,
    library={"torch, eager": by_torch(lambda layers: layers), "torch.compile": by_torch(compiled)},
    reference=gradient,
    tolerance=1e-5,
    reasons={
        "operation by operation": "What was moved, and how long it took",
        "all kept": "What was moved, and how long it took",
    },
    guess=Guess(
        "Three layers, 33 million numbers: how many times as fast is making again as keeping all?",
        of="made again",
        over="all kept",
        at={"n": LARGE},
        between=(0.3, 8.0),
        models={"values moved": 9 / 5, "sigmoids computed": 3 / 6},
        because="Values moved decide as long as the sigmoids hide behind them.",
    ),
)

# %% [markdown]
# ## What was moved, and how long it took
#
# The simulator counts {{ counted.operation_by_operation | .0f }}, {{ counted.all_kept | .0f }},
# {{ counted.all_but_the_last_kept | .0f }} and {{ counted.made_again | .0f }} values for each number, in sectors
# of launches with {{ counted.n | , }} numbers. The times beside them are those of a larger launch.

# %% fold="Code of the table and of the numbers"
from tilewise.measurements import medians_us, recorded

COUNTED = 2**12
COUNTS = {}
for label, launches in (
    LAUNCHES | {"slopes kept": three("forward_slopes", "backward_slopes", keeps="slopes")}
).items():
    counts = [one.simulate().counts for one in launches(COUNTED)]
    sectors = sum(one.global_load.sectors + one.global_store.sectors for one in counts)
    COUNTS[label] = 32 * sectors / 4 / COUNTED
check(
    list(COUNTS.values()), [total(label) for label in COUNTS], rtol=0.0, name="values counted for each number"
)
TOOK = medians_us(three_layers)
publish(
    large=LARGE,
    counted={"n": COUNTED} | {label.replace(" ", "_"): values for label, values in COUNTS.items()},
    took={
        "ratio_kept": TOOK["all kept"] / TOOK["made again"],
        "ratio_six": TOOK["operation by operation"] / TOOK["made again"],
        "gb_kept": 4 * 9 * LARGE / TOOK["all kept"] / 1e3,
        "gb_again": 4 * 5 * LARGE / TOOK["made again"] / 1e3,
        "room": recorded("three_layers.torch_compile.median")
        * recorded("three_layers.ceilings.memory_gb_per_s")
        * 1e3
        / 4
        / LARGE,
    },
)
show(
    Table(
        ["way", "values counted", "predicted [µs]", "recorded [µs]", "GB/s"],
        [
            [
                label,
                COUNTS[label],
                predicted_ps(label, 3) * LARGE / 1e6,
                TOOK[label],
                4 * COUNTS[label] * LARGE / TOOK[label] / 1e3,
            ]
            for label in WAYS
        ],
        caption=f"Three sigmoids forwards and back. Values for each number are counted by the simulator with {COUNTED:,} numbers, times are those of {LARGE:,} on an {{machine}}; the prediction is the model above.",
    )
)

# %% [markdown]
# On the recorded GPU {{ large | , }} numbers take {{ three_layers.all_kept.median | us }} with everything kept and
# {{ three_layers.made_again.median | us }} with everything made again, {{ took.ratio_kept | .2f }} times as fast. Operation
# by operation they take {{ took.ratio_six | .2f }} times as long. The values are moved at
# {{ took.gb_kept | ,.0f }} GB/s where all is kept and at {{ took.gb_again | ,.0f }} GB/s where all is
# made again.
#
# On an H100 the two rates are the same: the second round of sigmoids did hide. An H200 has a faster memory
# and the same \SMs, and there a part of that round shows.

# %% [markdown]
# PyTorch takes {{ three_layers.torch_eager.median | us }} eager, much as the six kernels do, and
# {{ three_layers.torch_compile.median | us }} compiled. At the fastest rate that was probed,
# {{ three_layers.ceilings.memory_gb_per_s | ,.0f }} GB/s, the latter is time for
# {{ took.room | .1f }} values, so it cannot have kept all. The part of `torch.compile` that traces the
# backward pass, AOT Autograd, sees both passes as one graph and chooses where to cut it, so that
# little has to be kept between them: it recomputes too.[^aot]
#
# [^aot]: [Where the sources differ](../../conventions.md#the-sources): the notes of a talk put \flash
#     attention down to AOT Autograd. It is a kernel written by hand, with a backward pass of its own.
#     What the two have in common is recomputation.

# %% [markdown]
# ## How deep?
#
# Three layers are few. With $L$ layers the way that keeps all moves $2L + 3$ values, and the one that
# makes all again still {{ moved.again }}. But its backward kernel now computes $L$ sigmoids beside
# three trips. They hide as long as they take no longer, up to {{ model.free | .1f }} layers by the rates
# above, and in the forward kernel, which has two trips, up to {{ model.pair | .1f }}. Beyond that each
# layer costs two sigmoids, one in each direction. A layer that is kept costs two trips, which take
# {{ model.limit | .1f }} times as long. So against keeping all, making again should never fall behind.

# %% [markdown]
# Is keeping all the right opponent? The backward pass needs the activations for one thing only, the
# product of the slopes, and that is known at the end of the forward pass. A kernel can keep this one
# number in place of $L$: {{ moved.slopes }} values at any depth, one more than making again, and no
# sigmoid twice. Here is where recomputation can lose.[^only]
#
# [^only]: Only a chain of pointwise layers folds into one number like this. It is a question to ask of
#     every backward pass all the same: what is the least that it needs?

# %% [markdown]
# By the model the two cross where $L$ sigmoids take as long as three trips, at {{ model.free | .1f }}
# layers: up to there making again is ahead by up to one trip in six, beyond it falls behind by a
# sigmoid a layer. Two results a sigmoid is the least, though. The rest of the exponential and of the
# division are further instructions, so the true crossing should lie lower. How much lower?

# %% fold="Code of the measurement"
DEEP = 2**24
MEASURED_DEPTHS = (2, 3, 4, 6, 8, 12, 16)


def deep(*names, keeps=""):
    return lambda n, depth: [FOUR[name].on(chain(n, depth, 4, keeps, 4.4**depth)) for name in names]


depths = measure(
    "layers_kept_or_made_again",
    variants={
        "all kept": deep("forward_kept", "backward_kept", keeps="kept"),
        "slopes kept": deep("forward_slopes", "backward_slopes", keeps="slopes"),
        "made again": deep("forward_lean", "backward_again"),
    },
    cases=[{"n": DEEP, "depth": depth} for depth in MEASURED_DEPTHS],
    count_case={"n": 2**12, "depth": 8},
    bytes=lambda n, depth: 4 * 5 * n,
    reference=gradient,
    tolerance=1e-4,
    reasons={"*": "How deep?"},
    fold="All 21 rows",
)

# %% fold="Code of the figure and of the numbers"
from tilewise.figures import Series, line_chart

DEPTHS = range(2, 17)
SHOWN = {"all kept": "read", "slopes kept": "tile", "made again": "block"}
depth_us = medians_us(depths, "depth")
DEPTH_US = {label: [depth_us[label, depth] for depth in MEASURED_DEPTHS] for label in SHOWN}


def where_equal(depths, one, other):
    """The depth at which `one` first takes longer than `other`, on straight lines between what was timed."""
    gap = np.subtract(one, other)
    for at in range(1, len(depths)):
        if gap[at - 1] <= 0 < gap[at]:
            part = -gap[at - 1] / (gap[at] - gap[at - 1])
            return depths[at - 1] + part * (depths[at] - depths[at - 1])
    return np.nan


def each_layer_ps(label):
    """What a further layer costs each number, from eight layers on: the slope of a line fitted to the record."""
    return np.polyfit(MEASURED_DEPTHS[-3:], DEPTH_US[label][-3:], 1)[0] * 1e6 / DEEP


STEEP = each_layer_ps("made again") / 2  # two sigmoids a layer
TRIP = each_layer_ps("all kept") / 2  # two trips a layer
publish(
    deep={
        "crossing": where_equal(MEASURED_DEPTHS, DEPTH_US["made again"], DEPTH_US["slopes kept"]),
        "sigmoid_ps": STEEP,
        "times": STEEP / SIGMOID_PS,
        "trip_ps": TRIP,
        "free": 3 * TRIP / STEEP,
        "more": DEPTH_US["made again"][MEASURED_DEPTHS.index(4)] / DEPTH_US["made again"][0] - 1,
        "model_more": predicted_ps("made again", 4) / predicted_ps("made again", 2) - 1,
        "ratio_16": DEPTH_US["all kept"][-1] / DEPTH_US["made again"][-1],
    }
)
show(
    line_chart(
        [Series(label, MEASURED_DEPTHS, DEPTH_US[label], role=role) for label, role in SHOWN.items()]
        + [
            Series(
                "made again, model",
                list(DEPTHS),
                [predicted_ps("made again", depth) * DEEP / 1e6 for depth in DEPTHS],
                role="predicted",
                marks=False,
            )
        ],
        x="layers",
        y="time [µs]",
        title="Making again is ahead of keeping all at every depth, and of keeping the slopes only at first",
        caption=f"{DEEP:,} numbers forwards and back through chains of sigmoids on an {{machine}}. Dashed: the model for making again, which counts two special-function results a sigmoid and nothing else.",
    )
)
if np.isfinite(list(DEPTH_US.values())).all():
    assert np.less(DEPTH_US["made again"], DEPTH_US["all kept"]).all(), "the title says: ahead at every depth"

# %% [markdown]
# Recorded, making again is overtaken by keeping the slopes at {{ deep.crossing | .1f }} layers, on a straight
# line between the depths that were timed. From eight layers on making again grows by
# {{ deep.sigmoid_ps | .2f }} ps for each sigmoid, {{ deep.times | .2f }} times the least, and keeping all by
# {{ deep.trip_ps | .2f }} ps for each trip. Both are fitted: slopes of straight lines through the recorded times.
# With the two fitted slopes instead of the peaks the model says {{ deep.free | .1f }} layers, close to what was
# seen in the same runs; that is a fit and no prediction.

# %% [markdown]
# Yet hiding is not quite free: already from two layers to four making again takes
# {{ deep.more | .0%}} longer, where the model says {{ deep.model_more | .0% }}. The model knows nothing of \warps and
# their turns; it puts all of a kernel's arithmetic behind all of its bytes.

# %% [markdown]
# ## Where it leads
#
# A rule of thumb for kernels that wait for memory: a value is worth making again if that takes less
# time than its two trips. On an H100 the two are worth {{ model.flop | .0f }} operations in \FP32, at
# both peaks (data sheet). A sigmoid, a bias, a ReLU, a dropout mask drawn again from its seed are well below.
# A product of matrices is far above: with
# {{ product.columns | , }} columns each value of its result costs {{ product.flop | , }} operations,
# and in 16 bits that is {{ product.made_ps | .1f }} ps at the peak (data sheet) of the \tensor cores, against
# {{ product.trips_ps | .1f }} ps for two trips of 2 bytes.

# %% [markdown]
# Such layers are made again all the same, for another reason: room. The activations of all layers of a
# large model do not fit into the device's memory. So one keeps those of every tenth layer, say, and in
# the backward pass makes those between two kept ones again, a stretch at a time. This is activation
# checkpointing. It is the same trick with another aim, and it costs time: one more forward pass, a
# third on top if the backward pass takes as long as two of them. The fewest activations are held where about
# as many are kept as lie between two: the room needed then grows with the root of the depth.
#
# ??? definition "Activation checkpointing | gradient checkpointing | checkpointing"
#     Keeping the activations of only some layers, and recomputing those between them during the
#     backward pass, so that a model needs less memory.

# %% fold="Code of the numbers"
COLUMNS = 4096
PEAK_16 = GPU.peak_tflop_per_s["bf16_matrix"]
publish(
    product={
        "columns": COLUMNS,
        "flop": 2 * COLUMNS,
        "made_ps": 2 * COLUMNS / PEAK_16,
        "trips_ps": TRIP_PS,  # two trips of half the bytes
    }
)

# %% [markdown]
# ## The answer
#
# With three layers making everything again is {{ took.ratio_kept | .2f }} times as fast as keeping it,
# where {{ moved.kept }} values against {{ moved.again }} promise {{ moved.ratio_kept | .1f }}. Against
# keeping all it stays ahead at every depth that was timed, {{ deep.ratio_16 | .1f }} times as fast at 16
# layers, because two sigmoids take less time than two trips. But from {{ deep.crossing | .1f }} layers on
# another way is faster: to keep the one number for which the activations were needed.

# %% [markdown]
# ## Takeaways
#
# - A fused chain of $L$ pointwise layers that keeps its activations moves $2L + 3$ values for each
#   number, forwards and back; one that makes them again moves {{ moved.again }}.
# - Arithmetic beside memory traffic costs little until it takes as long. On an H100 that is at about {{ deep.free | .0f }}
#   sigmoids for three trips.
# - In a kernel that waits for memory a value is worth recomputing if making it takes less time than two
#   trips, on an H100 about {{ model.flop | .0f }} operations.
# - Ask what the backward pass needs, not what the forward pass had: sometimes it is one number.
# - Activation checkpointing is the same trick to save room. It costs time.

# %% fold="The whole cell, with three wrong answers that the tests turn down"
from tilewise import exercise

SOME_KEPT = Kernel(r"""
__device__ float sigmoid(float v) { return 1.0f / (1.0f + expf(-v)); }

extern "C" __global__
void some_kept(const float* x, float* kept, float* out, const float* dout,
               float* dx, int n, int depth, int which, int back) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = back && (which & 1) ? 0.0f : x[i];
    float g = back ? dout[i] : 0.0f;
    for (int k = 0; k < depth; ++k) {
        bool stored = which >> k & 1, last = k == depth - 1;
        if (back && stored) v = last ? out[i] : kept[k * n + i];
        else v = sigmoid(v);
        if (back) g *= v * (1.0f - v);
        else if (last) out[i] = v;
        else if (stored) kept[k * n + i] = v;
    }
    if (back) dx[i] = g;
}
""")


def values_moved_by(depth, kept):
    moved = 4  # x comes in and out goes out; dout comes in and dx goes out
    if 1 not in kept:
        moved += 1  # x once more
    for layer in kept:
        moved += 1 if layer == depth else 2  # the last one goes out anyhow
    return moved


def x_always_comes_again(depth, kept):
    return values_moved_by(depth, kept) + (1 in kept)


def last_one_stored_twice(depth, kept):
    return values_moved_by(depth, kept) + (depth in kept)


def only_the_backward_pass(depth, kept):
    return values_moved_by(depth, kept) - 2 - sum(layer < depth for layer in kept)


def counting_tests(answer):
    random = np.random.default_rng(5)
    n = 32
    for depth in range(1, 9):
        kept = {layer for layer in range(1, depth + 1) if random.random() < 0.5}
        for chosen in (set(), kept, set(range(1, depth + 1))):
            which = sum(1 << (layer - 1) for layer in chosen)
            sectors = 0
            x, dout = random.standard_normal((2, n)).astype(np.float32)
            stored, out, dx = (np.full((rows, n), np.nan, np.float32) for rows in (depth, 1, 1))
            for back in (0, 1):
                counts = SOME_KEPT.simulate(
                    x, stored, out, dout, dx, n, depth, which, back, grid=1, block=32
                ).counts
                sectors += counts.global_load.sectors + counts.global_store.sectors
            counted = sectors * 32 // (4 * n)
            given = answer(depth, chosen)
            layers = ", ".join(map(str, sorted(chosen))) or "none"
            assert given == counted, f"{depth} layers, kept: {layers}: {given}, but {counted} are moved"


exercise(
    "Keep some of them",
    """
    Write `values_moved_by(depth, kept)` for a fused chain of `depth` sigmoids, forwards and back. `kept` is the
    set of layers, counted from 1, whose results the backward kernel fetches; all others it makes again, each from
    the one before. It fetches $x$ only if it makes the first layer again. The last layer's result is `out`, which
    is stored in any case. How many values are moved for each number? The tests compare with what the simulator
    counts, for depths 1 to 8. Is there a set with fewer than the empty one?
    """,
    answer=values_moved_by,
    tests=counting_tests,
    wrong=[x_always_comes_again, last_one_stored_twice, only_the_backward_pass],
    hint="A layer kept costs one trip forwards and one back. For which layer is the first of them paid anyhow?",
    explanation="The empty set moves 5. Keeping only the last layer moves 6, and of a single layer 4: with depth 1 the result alone is enough, and x need not come again. Every further layer adds two.",
)

# %% [markdown]
# A chain of pointwise layers leaves every thread to itself. A sum over a row does not: there a fused kernel
# has to bring the numbers of many threads together.
