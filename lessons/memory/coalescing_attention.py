# ---
# title: "Coalesced attention: lanes along the queries"
# needs: [memory/coalescing, kernels/serial_attention]
# further: memory/coalescing
# summary: "Store three matrices transposed and swap two thread indices. How much faster does attention get with the same operations?"
# description: "Attention with coalesced loads: transposed Q, S and P put the lanes of a warp side by side. Sectors predicted, counted and timed, step by step."
# date: 2026-11-23
# tags: [coalescing, attention, transpose]
# ---

# %% [markdown]
# The three kernels of [parallel attention](../kernels/serial_attention.py) take {{ third.before_us | us }} for 1,024
# queries on an H100. One of them, the scores kernel, fetches {{ third.fewer | .1f }}× as many sectors as it needs.
# Suppose you keep every operation and change only the layout of three matrices and the index that runs along the lanes.
# How much time does that save?

# %% [markdown]
# ## Which loads are uncoalesced?
#
# In the scores kernel, the lanes of a warp run along the keys, `j`. At any one time, they all read `K[j, k]` for the
# same `k`. That's a column of a row-major matrix, so it takes {{ sectors.stride_8 }} sectors. In the softmax kernel,
# the lanes run along the queries, `i`, and each reads along its own row of $S$: {{ sectors.stride_8 }} sectors again.
# Only the weighted sum is coalesced.
#
# Let the lanes of the scores kernel run along the queries, too, and store $Q$, $S$ and $P$ transposed, as $Q^\top$,
# $S^\top$ and $P^\top$. Now each lane reads down its own column, and neighbouring lanes read neighbouring elements.
# `K[j, k]` is the same element for the whole warp, so it takes a single sector. The price is one small extra launch
# that transposes $Q$.

# %% [markdown]
# ## Four kernels
#
# First, transpose $Q$ once:


# %% tab="CUDA C"
from tilewise import Kernel

TURN = Kernel(r"""
// QT = Q transposed. Q: N x d, row-major; QT: d x N, row-major.
// Two-dimensional grid and block that cover N (x) and d (y).
extern "C" __global__
void turn(const float* Q, float* QT, int N, int d) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    int k = blockIdx.y * blockDim.y + threadIdx.y;
    if (i >= N || k >= d) return;
    QT[k * N + i] = Q[i * d + k];
}
""")


# %% tab="Pseudocode"
import numpy as np

from tilewise import parallel


def turn(Q, QT):
    N, d = Q.shape
    for i, k in parallel(N, d):
        QT[k, i] = Q[i, k]


# %% [markdown]
# Try other block shapes. Which of them coalesce the loads, and which the stores?

# %% fold="Code of the run"
from tilewise import case, ceil_div, normal, output, try_it


def transposing(N, d, block_x, block_y):
    grid = (ceil_div(N, block_x), ceil_div(d, block_y))
    return case(Q=normal(N, d), QT=output(d, N), N=N, d=d, grid=grid, block=(block_x, block_y))


try_it(transposing, TURN, N=(1, 32, 64), d=(1, 32, 64), block_x=(1, 8, 32), block_y=(1, 4, 32))

# %% [markdown]
# In the scores kernel, neighbouring lanes now read neighbouring elements of a row of `QT`.


# %% tab="CUDA C"
SCORES_TURNED = Kernel(r"""
// ST[j, i] = scale * dot(Q[i], K[j]). QT: d x N; K: N x d; ST: N x N; all row-major.
// Two-dimensional grid and block that cover N queries (x) and N keys (y).
extern "C" __global__
void scores_turned(const float* QT, const float* K, float* ST,
                   int N, int d, float scale) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;  // New: lanes along the queries
    int j = blockIdx.y * blockDim.y + threadIdx.y;
    if (i >= N || j >= N) return;
    float acc = 0.0f;
    for (int k = 0; k < d; ++k) acc += QT[k * N + i] * K[j * d + k];
    ST[j * N + i] = acc * scale;
}
""")


# %% tab="Pseudocode"
def scores_turned(QT, K, ST, scale):
    d, N = QT.shape
    for i, j in parallel(N, N):
        acc = 0.0
        for k in range(d):
            acc += QT[k, i] * K[j, k]
        ST[j, i] = acc * scale


# %% [markdown]
# Softmax keeps one thread per query. Each thread now reads down a column, three times.


# %% tab="CUDA C"
SOFTMAX_COLUMNS = Kernel(r"""
// PT = softmax of each column of ST. ST, PT: N x N, row-major.
// One thread per column: 1-D, at least N threads in total.
extern "C" __global__
void softmax_columns(const float* ST, float* PT, int N) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= N) return;
    float row_max = -INFINITY, row_sum = 0.0f;
    for (int j = 0; j < N; ++j) row_max = fmaxf(row_max, ST[j * N + i]);
    for (int j = 0; j < N; ++j) row_sum += expf(ST[j * N + i] - row_max);
    for (int j = 0; j < N; ++j) PT[j * N + i] = expf(ST[j * N + i] - row_max) / row_sum;
}
""")


# %% tab="Pseudocode"
def softmax_columns(ST, PT):
    N = len(ST)
    for i in parallel(N):
        row_max, row_sum = -np.inf, 0.0
        for j in range(N):
            row_max = max(row_max, ST[j, i])
        for j in range(N):
            row_sum += np.exp(ST[j, i] - row_max)
        for j in range(N):
            PT[j, i] = np.exp(ST[j, i] - row_max) / row_sum


# %% [markdown]
# The weighted sum stays the same, except that it reads its weights from the transposed matrix.


# %% tab="CUDA C"
WEIGHTED_SUM_TURNED = Kernel(r"""
// O[i, c] = sum over j of PT[j, i] * V[j, c]. PT: N x N; V, O: N x d; row-major.
// Two-dimensional grid and block that cover d (x) and N (y).
extern "C" __global__
void weighted_sum_turned(const float* PT, const float* V, float* O,
                         int N, int d) {
    int c = blockIdx.x * blockDim.x + threadIdx.x;
    int i = blockIdx.y * blockDim.y + threadIdx.y;
    if (i >= N || c >= d) return;
    float acc = 0.0f;
    for (int j = 0; j < N; ++j) acc += PT[j * N + i] * V[j * d + c];
    O[i * d + c] = acc;
}
""")


# %% tab="Pseudocode"
def weighted_sum_turned(PT, V, O):
    N, d = V.shape
    for i, c in parallel(N, d):
        acc = 0.0
        for j in range(N):
            acc += PT[j, i] * V[j, c]
        O[i, c] = acc


# %% [markdown]
# Run all four in order, as a single stream would:

# %%
N, d = 64, 32
rng = np.random.default_rng(0)
Q, K, V = (rng.standard_normal((N, d), dtype=np.float32) for _ in range(3))
QT, ST, PT, O = (np.zeros(shape, np.float32) for shape in ((d, N), (N, N), (N, N), (N, d)))

TURN(Q, QT, N, d, grid=(2, 4), block=(32, 8))
SCORES_TURNED(QT, K, ST, N, d, d**-0.5, grid=(2, 8), block=(32, 8))
SOFTMAX_COLUMNS(ST, PT, N, grid=2, block=32)
WEIGHTED_SUM_TURNED(PT, V, O, N, d, grid=(1, 8), block=(32, 8))
print("weights of each query add up to 1:", np.allclose(PT.sum(axis=0), 1))

# %% [markdown]
# ## Prediction and measurement
#
# If the number of sectors determines the time, the scores kernel should be {{ third.fewer | .1f }}× faster. Softmax
# seems to be limited by its long chain of dependent operations, and the weighted sum was already coalesced, so we
# expect neither to get faster. In total, this predicts {{ third.expected_us | us }} instead of
# {{ third.before_us | us }}.


# %% fold="Code of the checks and of the prediction"
from tilewise import agree, case, ceil_div, check, measure, normal, output, publish, show
from tilewise.figures import bars
from tilewise.kernel.chains import count_chain
from tilewise.measurements import step_times
from tilewise.models import sectors_of_stride


def attention(N, d):
    inputs = {"Q": normal(N, d), "K": normal(N, d), "V": normal(N, d)}
    turned = {"QT": output(d, N), "ST": output(N, N), "PT": output(N, N)}
    return case(**inputs, **turned, O=output(N, d), N=N, d=d, scale=d**-0.5, grid=1, block=1)


def kernel_3(inputs):
    """The four launches, in the order in which the stream runs them."""
    N, d = inputs.values["N"], inputs.values["d"]
    return [
        TURN.on(inputs, grid=(ceil_div(N, 32), ceil_div(d, 8)), block=(32, 8)),
        SCORES_TURNED.on(inputs, grid=(ceil_div(N, 32), ceil_div(N, 8)), block=(32, 8)),
        SOFTMAX_COLUMNS.on(inputs, grid=ceil_div(N, 32), block=32),
        WEIGHTED_SUM_TURNED.on(inputs, grid=(ceil_div(d, 32), ceil_div(N, 8)), block=(32, 8)),
    ]


def part(which, N, d):
    Q, K, V = normal(N, d), normal(N, d), normal(N, d)
    square = normal(N, N, scale=3.0)
    block = (8, 4)
    rows, columns = ceil_div(N, 8), ceil_div(d, 8)
    return {
        "turn": case(Q=Q, QT=output(d, N), N=N, d=d, grid=(rows, ceil_div(d, 4)), block=block),
        "scores": case(
            QT=normal(d, N),
            K=K,
            ST=output(N, N),
            N=N,
            d=d,
            scale=d**-0.5,
            grid=(rows, ceil_div(N, 4)),
            block=block,
        ),
        "softmax": case(ST=square, PT=output(N, N), N=N, grid=rows, block=8),
        "sum": case(PT=square, V=V, O=output(N, d), N=N, d=d, grid=(columns, ceil_div(N, 4)), block=block),
    }[which]


SIZES = ((5, 3), (21, 13))
steep = case(ST=normal(21, 21, scale=90.0), PT=output(21, 21), N=21, grid=3, block=8)
near = {"rtol": 1e-5, "atol": 1e-5}
agree(turn, TURN, [part("turn", *size) for size in SIZES])
agree(scores_turned, SCORES_TURNED, [part("scores", *size) for size in SIZES], **near)
agree(softmax_columns, SOFTMAX_COLUMNS, [*(part("softmax", *size) for size in SIZES), steep], **near)
agree(weighted_sum_turned, WEIGHTED_SUM_TURNED, [part("sum", *size) for size in SIZES], **near)


def touched_by(N, d):
    """Sectors that each launch touches, before and after; N and d are multiples of 32."""
    warps = N * N // 32
    second = {"turn": 0, "scores": warps * (d * 33 + 4), "softmax": warps * 4 * 32}
    third = {"turn": N * d // 32 * (32 + 4), "scores": warps * (d * 5 + 4), "softmax": warps * 4 * 4}
    last = {"sum": N * (d // 32) * (N * 5 + 4)}
    return second | last, third | last


for N, d in ((32, 32), (64, 32), (64, 96)):
    counts = count_chain(kernel_3(attention(N, d)))
    check(
        [one.global_load.sectors + one.global_store.sectors for one in counts],
        list(touched_by(N, d)[1].values()),
        name=f"sectors of the coalesced kernels, N = {N}, d = {d}",
    )

before, after = touched_by(1024, 128)
step_2_us = step_times(("scores", "softmax", "sum"), "attention_steps")
expected_us = (
    step_2_us["scores"] * after["scores"] / before["scores"] + step_2_us["softmax"] + step_2_us["sum"]
)
publish(
    sectors={"stride_8": sectors_of_stride(8)},
    third={
        "fewer": before["scores"] / after["scores"],
        "expected_us": expected_us,
        "before_us": sum(step_2_us.values()),
    },
)


# %% fold="Code of the measurement"
from tilewise.measurements.attention import stored_attention


def torch_three_operations(arrays):
    """What you would write in eager mode: two matrix multiplications and a softmax."""
    import torch

    Q, K, V, O = (torch.as_tensor(arrays[name], device="cuda") for name in "QKVO")
    S = torch.empty(len(Q), len(Q), device="cuda")
    P = torch.empty_like(S)
    scale = float(arrays["scale"])

    def run():
        torch.addmm(S, Q, K.T, beta=0.0, alpha=scale, out=S)
        torch.softmax(S, dim=-1, out=P)
        torch.mm(P, V, out=O)

    return run


def attended(Q, K, V, scale):
    """Every array that the launches write, in 64-bit floats."""
    made = stored_attention(Q, K, V, scale)
    return {"QT": Q.T, "ST": made["S"].T, "PT": made["P"].T, "O": made["O"]}


third = measure(
    "attention_coalesced",
    variants={"Kernel 3: coalesced": lambda N, d: kernel_3(attention(N, d))},
    cases=[{"N": 256, "d": 128}, {"N": 1024, "d": 128}],
    count_case={"N": 64, "d": 32},
    bytes=lambda N, d: 4 * 4 * N * d,
    flop=lambda N, d: 4 * N * N * d,
    library={"torch, three operations": torch_three_operations},
    reference=attended,
    tolerance=1e-4,
    reasons={"*": "Prediction and measurement"},
)

steps = measure(
    "attention_coalesced_steps",
    variants={
        "turn": lambda N, d: kernel_3(attention(N, d))[:1],
        "turn, scores": lambda N, d: kernel_3(attention(N, d))[:2],
        "turn, scores, softmax": lambda N, d: kernel_3(attention(N, d))[:3],
        "turn, scores, softmax, sum": lambda N, d: kernel_3(attention(N, d)),
    },
    cases=[{"N": 1024, "d": 128}],
    count_case={"N": 64, "d": 32},
    reference=attended,
    tolerance=1e-4,
    fold="All four rows",
)

# %% fold="Code of the figure"
step_3_us = step_times(("turn", "scores", "softmax", "sum"), steps)
publish(
    third_gain={"times": sum(step_2_us.values()) / sum(step_3_us.values())},
    step={name: {"times": step_2_us[name] / step_3_us[name]} for name in ("scores", "softmax")},
)
SHOWN = {"scores": "scores", "softmax": "softmax", "sum": "weighted sum"}
show(
    bars(
        {
            f"{label}, {when}": us[name]
            for name, label in SHOWN.items()
            for when, us in (("before", step_2_us), ("coalesced", step_3_us))
        },
        x="time [µs]",
        form=".0f",
        title="Coalescing speeds up the scores kernel and softmax",
        caption="Time of each step of attention at N = 1024, d = 128 on an {machine}, before and after the change of layout.",
    )
)

# %% fold="Code that counts look-ups in L1 on a GPU" needs="gpu" record="lookups"
from tilewise import gpu_here

if gpu_here():
    from tilewise.kernels.from_lesson import from_lesson
    from tilewise.measurements.profiling import LIMITS, STALLED, STALLS, profiled, table_of
    from tilewise.measurements.side_by_side import Calls

    def step_by_step():
        """Calls of each kernel of both versions, alone."""
        kernel_2, inputs = from_lesson("kernels/serial_attention", "kernel_2", "attention")
        calls = Calls()
        for version, launches in (
            ("strided", kernel_2(inputs(1024, 128))),
            ("coalesced", kernel_3(attention(1024, 128))),
        ):
            for launch in launches:
                calls.add(f"{version}, {launch.kernel.name}", launch)
        return calls.by_label

    COUNTED = (
        *LIMITS,
        "smsp__inst_executed.sum",
        "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
        "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
        "l1tex__t_set_accesses_pipe_lsu_mem_global_op_ld.sum",
        "l1tex__t_set_conflicts_pipe_lsu_mem_global_op_ld.sum",
        "l1tex__t_output_wavefronts_pipe_lsu_mem_global_op_ld.sum",
        "l1tex__data_pipe_lsu_wavefronts.sum",
        *(STALLED.format(reason) for reason in STALLS),
    )
    print(table_of(profiled("memory/coalescing_attention", "lookups", step_by_step, COUNTED)))

# %% fold="Code of the numbers"
from tilewise.measurements.profiling import printed_profiles, stall_fractions

LOADS = "l1tex__t_{}_pipe_lsu_mem_global_op_ld.sum"
looked_up = printed_profiles("memory/coalescing_attention", "lookups")
l1 = {}
for when, scores, softmax in (
    ("before", "strided, scores", "strided, softmax_rows"),
    ("now", "coalesced, scores_turned", "coalesced, softmax_columns"),
):
    counted = looked_up[scores]
    l1[f"lookups_{when}"] = counted[LOADS.format("set_accesses")] / counted[LOADS.format("requests")]
    l1[f"busy_{when}"] = counted["l1tex__throughput.avg.pct_of_peak_sustained_active"] / 100
    l1[f"waits_{when}"] = stall_fractions(looked_up[softmax])["long_scoreboard"]
publish(l1=l1)
assert not abs(l1["lookups_before"] / l1["lookups_now"] - 33 / 2) > 0.01, "the text: one look-up per line"
assert not l1["busy_before"] < 0.95, "the text says that L1 was busy"
assert not l1["waits_before"] < 1.5 * l1["waits_now"], "the text says that a load takes longer"

# %% [markdown]
# The coalesced kernels take {{ attention_coalesced.kernel_3_coalesced.n_1024_d_128.median | us }}, less than predicted,
# and are {{ third_gain.times | .1f }}× faster than before.
#
# The scores kernel gets {{ step.scores.times | .1f }}× faster, more than the sectors predict, because a request costs
# one L1 look-up per cache line: on an H200, the average falls from {{ l1.lookups_before | .1f }} look-ups to
# {{ l1.lookups_now | .0f }}.
#
# Softmax gets {{ step.softmax.times | .1f }}× faster, although its chain is as long as before. Each iteration waits for
# its load, and a request for {{ sectors.stride_8 }} lines takes longer to complete than a request for one. The fraction
# of its time that a warp waits for loads falls from {{ l1.waits_before | .0% }} to {{ l1.waits_now | .0% }}.

# %% [markdown]
# ## Takeaways
#
# - A load is coalesced if the index that runs along the lanes is the array's contiguous one. Swap the thread indices,
#   or store the array transposed.
# - If all lanes need the same element, one sector serves the whole warp.
# - Coalescing also speeds up a chain of dependent operations that wait for loads: a request for one cache line takes
#   less time than a request for {{ sectors.stride_8 }}.

# %% [markdown]
# ## In your own kernel
#
# In Nsight Compute's source view, sort the loads by `memory_l2_theoretical_sectors_global_excessive`: it counts the
# sectors beyond those that a coalesced access would need. Then change which index `threadIdx.x` maps to, or the array's
# layout.

# %%
from tilewise import exercise

exercise(
    "Lanes along the keys, K transposed",
    """
    Keep the lanes along the keys, as in the original scores kernel, and store $K^\\top$ instead of $Q^\\top$. How many
    sectors does a warp need per iteration of the loop over `k`, and which later step suffers?
    """,
    hint="For each array, ask which element lane t reads for a given k.",
    explanation="Five: four for 32 neighbouring elements of a row of the transposed K, and one for the element of Q that all lanes share. That's the same as with lanes along the queries. But S is then stored row by row, so the softmax kernel with one thread per row still needs 32 sectors per request.",
)

# %% [markdown]
# Two problems remain: the transpose of $Q$ has uncoalesced loads or stores, and softmax's one thread per query can't
# keep the GPU busy. The lessons on \bank conflicts and parallel \reductions deal with them, but the lesson on [number
# formats](precision.py) comes first.
