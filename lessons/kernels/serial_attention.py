# ---
# title: Attention with one thread per query
# needs: [kernels/grids]
# summary: "Two kernels do 134 million multiply-adds each, with one thread per result. Why is one of them much slower than the other?"
# description: "Attention as a soft lookup, worked by hand and as a CUDA kernel with one thread per query. Which of its loops can become threads, and which cannot."
# date: 2026-11-21
# tags: [attention, softmax, independent loops]
# ---

# %% [markdown]
# Attention is two matrix multiplications with a softmax between them, and nearly every large language
# model is built on it. In this lesson you'll write it as a kernel and find out which of its loops can become threads.
#
# Each multiplication does 134 million multiply-adds for 1,024 queries. If you write each as a kernel with one thread
# per result, one still takes {{ seen.times | .1f }}× longer than the other on an H100. Which one, and why?

# %% [markdown]
# ## Attention: a soft lookup
#
# A Python dictionary returns the value whose key matches. *Attention* is a soft lookup: it scores every key against a
# *query*, and returns a weighted average of all the *values*. Queries, keys and values are all vectors of d elements.
# A score, or *logit*, is the dot product of a key with the query, times a scale. *Softmax* turns the logits into
# weights that add up to 1: subtract the largest, take the exponentials, and divide by their sum.
#
# Let's compute one lookup by hand, with d = 4, the query (1, 1, 1, 1) and a scale of $1/\sqrt{d}$ = 0.5. The table
# shows only the first element of each value:
#
# | key | logit | exp(logit − max) | weight | value |
# | --- | --- | --- | --- | --- |
# | (1,&nbsp;1,&nbsp;1,&nbsp;1) | 4&nbsp;·&nbsp;0.5 =&nbsp;2 | $e^{0}$ = {{ tiny.e0 | .2f }} | {{ tiny.w0 | .2f }} | 10 |
# | (1,&nbsp;1,&nbsp;0,&nbsp;0) | 2&nbsp;·&nbsp;0.5 =&nbsp;1 | $e^{-1}$ = {{ tiny.e1 | .2f }} | {{ tiny.w1 | .2f }} | 20 |
# | (0,&nbsp;0,&nbsp;0,&nbsp;0) | 0&nbsp;·&nbsp;0.5 =&nbsp;0 | $e^{-2}$ = {{ tiny.e2 | .2f }} | {{ tiny.w2 | .2f }} | 40 |
#
# The answer is {{ tiny.w0 | .2f }} · 10 + {{ tiny.w1 | .2f }} · 20 + {{ tiny.w2 | .2f }} · 40 ≈
# {{ tiny.answer | .1f }}.
#
# ??? definition "Attention"
#     For each query, an average of the values, weighted by how well their keys match the query.
#
# ??? definition "Query | queries"
#     A vector that is compared with every key.
#
# ??? definition "Key | keys"
#     A vector that is compared with a query; each key belongs to one value row.
#
# ??? definition "Value row | value rows"
#     A vector that is averaged, with the weight of its key.
#
# ??? definition "Logit | logits"
#     A score before softmax: any real number.
#
# ??? definition "Softmax"
#     Turns a row of logits into probabilities: the exponential of each, divided by their sum.

# %% [markdown]
# With N queries, keys and values as the rows of three matrices, attention is three formulas:
#
# $$
# S = \text{scale} \cdot Q K^\top
# $$
#
# $$
# P_{ij} = \frac{e^{S_{ij} - m_i}}{\sum_{l} e^{S_{il} - m_i}}
# $$
#
# $$
# O = P V
# $$
#
# $Q$, $K$, $V$ and the result $O$ are $N \times d$. The logits $S$ and the weights $P$ are $N \times N$, and $m_i$ is
# the largest logit in row $i$. This is one *head*, of width $d$; a model has many of them.
#
# ??? definition "Head | heads"
#     One of several attention computations that run side by side, each on its own slice of the model's width.
#
# ??? question "Why does attention scale its logits by 1/√d?"
#     The dot product of two random normal vectors has a standard deviation of $\sqrt{d}$. Without the scale, a few large
#     logits would get nearly all the weight.

# %% [markdown]
# ## The kernel: one thread per query
#
# No query needs another query's result, so each query gets a thread, `i`, which computes row `i` of $S$, then of $P$,
# then of $O$. Row `j` of $K$ is column `j` of $K^\top$, so nothing has to be transposed.


# %% tab="Pseudocode"
import numpy as np

from tilewise import parallel


def attention_per_query(Q, K, V, S, P, O, scale):
    N, d = Q.shape
    for i in parallel(N):
        # [scores
        for j in range(N):
            acc = 0.0
            for k in range(d):
                acc += Q[i, k] * K[j, k]
            S[i, j] = acc * scale
        # scores]
        # [maximum
        row_max, row_sum = -np.inf, 0.0
        for j in range(N):
            row_max = max(row_max, S[i, j])
        # maximum]
        # [sum
        for j in range(N):
            row_sum += np.exp(S[i, j] - row_max)
        # sum]
        # [weights
        for j in range(N):
            P[i, j] = np.exp(S[i, j] - row_max) / row_sum
        # weights]
        # [output
        for c in range(d):
            acc = 0.0
            for j in range(N):
                acc += P[i, j] * V[j, c]
            O[i, c] = acc
        # output]


# %% tab="CUDA C"
from tilewise import Kernel

ATTENTION = Kernel(r"""
// O = softmax(scale * Q K^T) V for one head, one thread per query.
// Q, K, V, O: N x d; S, P: N x N scratch; all row-major, with fewer
// than 2^31 elements. 1-D grid of ceil(N / blockDim.x) blocks.
extern "C" __global__
void attention_per_query(const float* Q, const float* K, const float* V,
                         float* S, float* P, float* O,
                         int N, int d, float scale) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;  // this thread's query
    if (i >= N) return;
    // [scores
    for (int j = 0; j < N; ++j) {
        float acc = 0.0f;
        for (int k = 0; k < d; ++k) acc += Q[i * d + k] * K[j * d + k];
        S[i * N + j] = acc * scale;
    }
    // scores]
    // [maximum
    float row_max = -INFINITY, row_sum = 0.0f;
    for (int j = 0; j < N; ++j) row_max = fmaxf(row_max, S[i * N + j]);
    // maximum]
    // [sum
    for (int j = 0; j < N; ++j) row_sum += expf(S[i * N + j] - row_max);
    // sum]
    // [weights
    for (int j = 0; j < N; ++j)
        P[i * N + j] = expf(S[i * N + j] - row_max) / row_sum;
    // weights]
    // [output
    for (int c = 0; c < d; ++c) {
        float acc = 0.0f;
        for (int j = 0; j < N; ++j) acc += P[i * N + j] * V[j * d + c];
        O[i * d + c] = acc;
    }
    // output]
}
""")

# %% [markdown]
# Launch it on the example above. The first column of `V` holds 10, 20 and 40. Each of the other columns has a 1 in a
# single row and zeros elsewhere, so the corresponding output is the weight of one key.

# %%
Q = np.float32([[1, 1, 1, 1], [0, 0, 2, 2], [0, 0, 0, 0]])
K = np.float32([[1, 1, 1, 1], [1, 1, 0, 0], [0, 0, 0, 0]])
V = np.float32([[10, 1, 0, 0], [20, 0, 1, 0], [40, 0, 0, 1]])
S, P, O = np.zeros((3, 3), "f"), np.zeros((3, 3), "f"), np.zeros((3, 4), "f")
ATTENTION(Q, K, V, S, P, O, 3, 4, 0.5, grid=1, block=32)  # N = 3, d = 4
print(O.round(2))

# %% [markdown]
# Query 2 is all zeros, so it gets the plain average of the values.
#
# ??? question "Why does softmax subtract the largest logit?"
#     The subtraction divides every exponential and their sum by the same factor, so the weights don't change. But
#     without it, a logit above {{ overflow.limit | .0f }} overflows a 32-bit float.

# %% fold="Code of the checks"
from tilewise import agree, case, ceil_div, check, integers, normal, output, publish
from tilewise.kernel.chains import run_chain
from tilewise.measurements.attention import stored_attention


def attention(N, d):
    inputs = {"Q": normal(N, d), "K": normal(N, d), "V": normal(N, d)}
    written = {"S": output(N, N), "P": output(N, N), "O": output(N, d)}
    return case(**inputs, **written, N=N, d=d, scale=d**-0.5, grid=ceil_div(N, 8), block=8)


def steep_attention(N, d):
    whole = {name: integers(N, d, low=-4, high=5, dtype="float32") for name in "QKV"}
    written = {"S": output(N, N), "P": output(N, N), "O": output(N, d)}
    return case(**whole, **written, N=N, d=d, scale=8.0, grid=2, block=8)


powers = np.exp([0.0, -1.0, -2.0])
weights = powers / powers.sum()
by_hand = float(weights @ [10, 20, 40])
publish(
    tiny={
        **{f"e{j}": float(power) for j, power in enumerate(powers)},
        **{f"w{j}": float(weight) for j, weight in enumerate(weights)},
        "answer": by_hand,
    },
    overflow={"limit": float(np.log(np.finfo(np.float32).max))},
)
check(O[0], [by_hand, *weights], rtol=1e-6, name="the example by hand")
check(O[2, 0], 70 / 3, rtol=1e-6, name="equal logits give the plain average")
cases = [attention(7, 5), attention(21, 12), steep_attention(13, 6)]
agree(attention_per_query, ATTENTION, cases, rtol=1e-5, atol=1e-6)

run = run_chain([ATTENTION.on(attention(21, 12))])
expected = stored_attention(run["Q"], run["K"], run["V"], run["scale"])
check(run["O"], expected["O"], rtol=1e-5, atol=1e-6, name="O against 64-bit NumPy")

# %% [markdown]
# ## Independent loops: which loops can become threads?
#
# The loop over the queries became threads. Can the other seven loops become threads, too? Only if they're
# *independent*: no iteration reads or writes what another one writes, so they can run in any order, or all at once.
#
# ??? definition "Independent loop | independent loops"
#     A loop in which no iteration reads or writes what another one writes.
#
# ??? definition "Contraction | contractions"
#     A sum of products over an index that the result doesn't have, such as k in a matrix multiplication.
#
# | step | loop | what an iteration needs from the others | independent |
# | --- | --- | --- | --- |
# | scores | j | nothing: it writes its own score | yes |
# | scores | k | the sum so far | no |
# | softmax | j, maximum and sum (two loops) | the maximum or the sum so far | no |
# | softmax | j, weights | nothing, once the maximum and the sum are known | yes |
# | output | c | nothing: it writes its own element | yes |
# | output | j | the sum so far | no |
#
# Three of the seven are independent. In the other four, each iteration needs a value from the previous one. Two of
# these, over `k` in the scores and over `j` in the output, are *contractions*: every iteration adds to the sum in
# `acc`.

# %% [markdown]
# ## Parallelising a contraction: a race
#
# Suppose {{ broken.d }} threads share one contraction. They all read the old score, add their own product, and write
# the result. The last write wins. Because of this \race, {{ broken.right }} of {{ broken.entries }} scores are correct.
# A GPU doesn't detect the \race, but the simulator does.

# %%
RACING_SCORES = Kernel(r"""
// Broken: d threads add to the same score without synchronisation.
extern "C" __global__
void scores_without_k(const float* Q, const float* K, float* S,
                      int N, int d, float scale) {
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    int j = blockIdx.y * blockDim.y + threadIdx.y;
    int i = blockIdx.z * blockDim.z + threadIdx.z;
    if (i >= N || j >= N || k >= d) return;
    // hazard: read, add and write by d threads at once
    S[i * N + j] += Q[i * d + k] * K[j * d + k] * scale;
}
""")

# %% fold="Code of the comparison"
from tilewise import expect_hazard
from tilewise.models import device
from tilewise.models.occupancy import LIMITS

small = attention(8, 4).make()
small["S"][:] = 0.0


def spread(hazards):
    names = ("Q", "K", "S", "N", "d", "scale")
    return RACING_SCORES.simulate(
        *(small[name] for name in names), grid=(1, 1, 1), block=(4, 8, 8), hazards=hazards
    )


expect_hazard(lambda: spread("raise"), "race", line_with="S[i * N + j] +=")
spread("collect")
right = np.isclose(small["S"], small["Q"] @ small["K"].T * small["scale"], rtol=1e-4)
publish(
    broken={"d": 4, "entries": right.size, "right": int(right.sum())},
    room={"threads": device("H100 SXM").sms * LIMITS[9, 0].threads},
)

# %% [markdown]
# Change the number of queries and their length $d$. When does the simulator report nothing?

# %% fold="Code of the run"
from tilewise import constant, try_it


def without_k(N, d):
    arrays = {"Q": normal(N, d), "K": normal(N, d), "S": constant(N, N, value=0)}
    grid = (ceil_div(d, 4), ceil_div(N, 8), ceil_div(N, 8))
    return case(**arrays, N=N, d=d, scale=0.5, grid=grid, block=(4, 8, 8))


try_it(without_k, RACING_SCORES, N=(1, 8, 32), d=(1, 4, 16))

# %% [markdown]
# For now, each contraction stays within one thread; [a later lesson](../memory/reductions.py) changes that.

# %% [markdown]
# ## Kernel 2: more threads than queries
#
# For 1,024 queries, the kernel above uses only 1,024 threads, and an H100 can hold {{ room.threads | , }} at once. The
# independent loops can supply more threads. But softmax needs whole rows of $S$, and blocks of one launch don't wait
# for each other. So each step becomes a kernel of its own. Together, the three are called *Kernel 2*. ([Kernel
# 1](../speed/attention_critical_path.py) runs everything, the loop over the queries included, on a single thread.)
#
# The first kernel gives every score its own thread, with `j` and `i` as the axes of the grid.


# %% tab="Pseudocode"
def scores(Q, K, S, scale):
    N, d = Q.shape
    for i, j in parallel(N, N):
        acc = 0.0
        for k in range(d):
            acc += Q[i, k] * K[j, k]
        S[i, j] = acc * scale


# %% tab="CUDA C"
SCORES = Kernel(r"""
// S = scale * Q K^T. Q, K: N x d; S: N x N, row-major. One thread per
// score; 2-D grid and block that cover N (x, keys) by N (y, queries).
extern "C" __global__
void scores(const float* Q, const float* K, float* S,
            int N, int d, float scale) {
    int j = blockIdx.x * blockDim.x + threadIdx.x;  // key
    int i = blockIdx.y * blockDim.y + threadIdx.y;  // query
    if (i >= N || j >= N) return;
    float acc = 0.0f;
    for (int k = 0; k < d; ++k) acc += Q[i * d + k] * K[j * d + k];  // watch: acc
    S[i * N + j] = acc * scale;
}
""")

# %% [markdown]
# The second is the softmax from above, with one thread per query: the maximum and the sum need the whole row.

# %% fold="The softmax kernel"
SOFTMAX_ROWS = Kernel(r"""
// P = softmax of each row of S. S, P: N x N, row-major. One thread per row.
extern "C" __global__
void softmax_rows(const float* S, float* P, int N) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;  // query
    if (i >= N) return;
    float row_max = -INFINITY, row_sum = 0.0f;
    for (int j = 0; j < N; ++j) row_max = fmaxf(row_max, S[i * N + j]);
    for (int j = 0; j < N; ++j) row_sum += expf(S[i * N + j] - row_max);
    for (int j = 0; j < N; ++j)
        P[i * N + j] = expf(S[i * N + j] - row_max) / row_sum;
}
""")

# %% [markdown]
# The third gives every element of $O$ its own thread. Its contraction runs over the keys, `j`.


# %% tab="Pseudocode"
def weighted_sum(P, V, O):
    N, d = V.shape
    for i, c in parallel(N, d):
        acc = 0.0
        for j in range(N):
            acc += P[i, j] * V[j, c]
        O[i, c] = acc


# %% tab="CUDA C"
WEIGHTED_SUM = Kernel(r"""
// O = P V. P: N x N; V, O: N x d, row-major. One thread per element of O;
// 2-D grid and block that cover d (x, columns) by N (y, queries).
extern "C" __global__
void weighted_sum(const float* P, const float* V, float* O,
                  int N, int d) {
    int c = blockIdx.x * blockDim.x + threadIdx.x;  // column of V
    int i = blockIdx.y * blockDim.y + threadIdx.y;  // query
    if (i >= N || c >= d) return;
    float acc = 0.0f;
    for (int j = 0; j < N; ++j) acc += P[i * N + j] * V[j * d + c];
    O[i * d + c] = acc;
}
""")


# %% fold="Code of the checks"
def scores_case(N, d):
    grid, scale = (ceil_div(N, 8), ceil_div(N, 4)), d**-0.5
    return case(
        Q=normal(N, d), K=normal(N, d), S=output(N, N), N=N, d=d, scale=scale, grid=grid, block=(8, 4)
    )


def weighted_sum_case(N, d):
    grid = (ceil_div(d, 8), ceil_div(N, 4))
    return case(P=normal(N, N), V=normal(N, d), O=output(N, d), N=N, d=d, grid=grid, block=(8, 4))


agree(scores, SCORES, [scores_case(5, 3), scores_case(21, 13)], rtol=1e-5, atol=1e-6)
agree(weighted_sum, WEIGHTED_SUM, [weighted_sum_case(5, 3), weighted_sum_case(21, 13)], rtol=1e-5, atol=1e-5)


def kernel_2(inputs):
    """The three launches of Kernel 2, in the order in which the stream runs them."""
    N, d = inputs.values["N"], inputs.values["d"]
    return [
        SCORES.on(inputs, grid=(ceil_div(N, 32), ceil_div(N, 8)), block=(32, 8)),
        SOFTMAX_ROWS.on(inputs, grid=ceil_div(N, 32), block=32),
        WEIGHTED_SUM.on(inputs, grid=(ceil_div(d, 32), ceil_div(N, 8)), block=(32, 8)),
    ]


for stretch in (1, 40):  # at 40, softmax without the maximum would overflow
    inputs = attention(77, 24)
    arrays = inputs.make()
    arrays["Q"] *= np.float32(stretch)
    for launch in kernel_2(inputs):
        launch.run(arrays)
    expected = stored_attention(arrays["Q"], arrays["K"], arrays["V"], arrays["scale"])["O"]
    name = f"Kernel 2 against 64-bit NumPy, queries times {stretch}"
    check(arrays["O"], expected, atol=2e-6 * stretch, name=name)
assert arrays["S"].max() > np.log(np.finfo(np.float32).max), (
    "queries times 40 must overflow without the maximum"
)

# %% [markdown]
# Step through six queries and six keys. Threads in the same row of $S$ read the same element of $Q$, but each reads
# its own element of $K$, one full row away from its neighbour's.

# %% fold="Code of the figure"
from tilewise import Table, Trace, show
from tilewise.figures import stepped

six = case(Q=normal(6, 4), K=normal(6, 4), S=output(6, 6), N=6, d=4, scale=0.5, grid=(1, 2), block=(8, 4))
show(
    stepped(
        SCORES.on(six).simulate(trace=Trace()),
        extent=(6, 6),
        axes=("j", "i"),
        title="Neighbouring threads read down a column of K",
        caption="The scores at N = 6, d = 4, step by step: the line that runs, the active threads, and the elements they access. Hatched threads have no score to compute; hatched elements are fetched only because they share a 32-byte sector with an element that is read.",
    )
)

# %% [markdown]
# ## Same multiply-adds, different time: sectors
#
# The scores and the weighted sum do the same number of multiply-adds, $N^2 d$. You'd expect similar times:

# %% fold="Code of the measurement"
from tilewise import measure

steps = measure(
    "attention_steps",
    variants={
        "scores": lambda N, d: kernel_2(attention(N, d))[:1],
        "scores, softmax": lambda N, d: kernel_2(attention(N, d))[:2],
        "scores, softmax, weighted sum": lambda N, d: kernel_2(attention(N, d)),
    },
    cases=[{"N": 1024, "d": 128}],
    count_case={"N": 64, "d": 32},
    reference=stored_attention,
    tolerance=1e-4,
    fold="All rows of the measurement",
)

# %% fold="Code of the figure"
from tilewise.figures import bars
from tilewise.measurements import complete, step_times

step_us = step_times(("scores", "softmax", "weighted sum"), steps)
THREADS = {"scores": "1 thread per score", "softmax": "1 per query", "weighted sum": "1 per element of O"}
show(
    bars(
        {f"{step}: {THREADS[step]}": us for step, us in step_us.items()},
        roles=dict.fromkeys((f"{step}: {THREADS[step]}" for step in step_us), "measured"),
        x="time [µs]",
        title="Same number of multiply-adds, but the scores take much longer",
        caption="The three kernels of Kernel 2 at N = 1024, d = 128, recorded on an {machine}.",
    )
)
if complete(step_us):
    assert step_us["scores"] > 4 * step_us["weighted sum"], "the title says far longer"

# %% [markdown]
# The scores take {{ step.scores | .0f }} µs and the weighted sum {{ step.weighted_sum | .0f }} µs. So look at what the
# 32 lanes of a warp read in one iteration, and count sectors [as before](grids.py#warps-and-sectors-why-block-shape-matters):

# %% fold="Code of the table"
PER_ITERATION = {  # of one warp; sectors(N, d) below is checked against the simulator
    "scores": {"Q[i * d + k]": ("the same element", 1), "K[j * d + k]": ("32 elements down a column", 32)},
    "weighted sum": {"P[i * N + j]": ("the same element", 1), "V[j * d + c]": ("32 elements along a row", 4)},
}
show(
    Table(
        ["kernel", "load", "what the 32 lanes read", "sectors"],
        [
            [name, *row]
            for name, loads in PER_ITERATION.items()
            for row in ((load, *what) for load, what in loads.items())
        ],
        caption="One iteration of one warp. The lanes of the scores differ in j, those of the weighted sum in c.",
    )
)
per_iteration = {name: sum(count for _, count in loads.values()) for name, loads in PER_ITERATION.items()}

# %% [markdown]
# That's {{ warp.scores }} sectors compared with {{ warp.weighted_sum }}. Over the whole launch, the scores touch
# {{ traffic.ratio | .1f }}× as many sectors and take {{ seen.times | .1f }}× longer. So what sets the two apart isn't
# the arithmetic, but which addresses a warp reads together.

# %% fold="Code of the check"
from tilewise.kernel.chains import count_chain


def sectors(N, d):
    """Sectors that each kernel touches, for N and d that are multiples of 32."""
    return {
        "scores": N * (N // 32) * (d * per_iteration["scores"] + 4),
        "softmax": (N // 32) * N * 4 * 32,  # 4 accesses
        "weighted sum": N * (d // 32) * (N * per_iteration["weighted sum"] + 4),
    }


for size in ((32, 32), (64, 32), (64, 96)):
    counted = [
        counts.global_load.sectors + counts.global_store.sectors
        for counts in count_chain(kernel_2(attention(*size)))
    ]
    name = f"sectors of the three kernels, N = {size[0]}, d = {size[1]}"
    check(counted, list(sectors(*size).values()), name=name)

touched = sectors(1024, 128)
publish(
    step={name.replace(" ", "_"): us for name, us in step_us.items()},
    seen={"times": step_us["scores"] / step_us["weighted sum"]},
    warp={name.replace(" ", "_"): count for name, count in per_iteration.items()},
    traffic={"ratio": touched["scores"] / touched["weighted sum"]},
)

# %% [markdown]
# ## Takeaways
#
# - Attention is a soft lookup: $QK^\top$ scores every key, softmax turns the scores into weights, and $PV$ averages
#   the values.
# - An independent loop can become an axis of the grid. In a contraction, threads would overwrite each other's sums.
# - Equal arithmetic doesn't mean equal time: what counts is how many sectors a warp touches.
#
# ## In your own kernel
#
# Before you turn a loop into threads, ask what one iteration needs from the others. `compute-sanitizer --tool
# racecheck` won't tell you: it looks at \shared memory only. If two kernels with the same arithmetic differ in time, compare `l1tex__average_t_sectors_per_request_pipe_lsu_mem_global_op_ld.ratio` in Nsight
# Compute.


# %% fold="Code of the exercise, with one wrong answer that the tests reject"
from tilewise import exercise


def independent(body, n, arrays):
    before = {name: array.copy() for name, array in arrays.items()}
    in_order = {name: array.copy() for name, array in arrays.items()}
    for i in range(n):
        body(i, in_order)
    written = {name: np.zeros(array.shape, int) for name, array in arrays.items()}
    alone = {name: array.copy() for name, array in arrays.items()}
    for i in range(n):
        mine = {name: array.copy() for name, array in before.items()}
        body(i, mine)
        for name, array in mine.items():
            changed = array != before[name]
            alone[name][changed] = array[changed]
            written[name] += changed
    no_clash = all((count <= 1).all() for count in written.values())
    return no_clash and all(np.array_equal(alone[name], in_order[name]) for name in arrays)


def shuffles_only(body, n, arrays):
    in_order = {name: array.copy() for name, array in arrays.items()}
    shuffled = {name: array.copy() for name, array in arrays.items()}
    for i in range(n):
        body(i, in_order)
    for i in parallel(n):
        body(i, shuffled)
    return all(np.array_equal(shuffled[name], in_order[name]) for name in arrays)


def double(i, at):
    at["y"][i] = 2 * at["x"][i]


def add_up(i, at):
    at["y"][0] += at["x"][i]


def running_sum(i, at):
    at["y"][i] = at["x"][i] + (at["y"][i - 1] if i else 0)


def shift_left(i, at):
    at["x"][i] = at["x"][(i + 1) % len(at["x"])]


def row_sums(i, at):
    at["y"][i] = at["x"].reshape(2, -1)[i % 2].sum()


def independence_tests(answer):
    can_go = {double: True, row_sums: True}
    must_stay = {add_up: False, running_sum: False, shift_left: False}
    for body, expected in (can_go | must_stay).items():
        arrays = {"x": np.arange(3, 11), "y": np.full(8, -1)}
        kept = {name: array.copy() for name, array in arrays.items()}
        assert answer(body, 8, arrays) == expected, body.__name__
        for name, array in arrays.items():
            assert np.array_equal(array, kept[name]), f"the input {name} was changed"


exercise(
    "Is this loop independent?",
    """
    Write `independent(body, n, arrays)`, which returns whether a loop that calls `body(i, arrays)` for i from 0 to
    n - 1 can be mapped to threads. `body` changes the arrays in place. It isn't enough to run the iterations in a
    shuffled order: an integer sum is right in any order, but wrong if all iterations read before any of them
    writes. The tests try five loops and check that you leave the arrays unchanged.
    """,
    answer=independent,
    tests=independence_tests,
    wrong=[shuffles_only],
    hint="Give every iteration a fresh copy of the arrays from before the loop, and record which elements it changed.",
)

# %% [markdown]
# Next: [latency and throughput](../machine/throughput.py), and why a GPU wants so many threads.
