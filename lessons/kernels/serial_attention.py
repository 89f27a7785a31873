# ---
# title: Attention on one thread
# needs: [kernels/grids]
# summary: "Ten loops compute attention. How many of them can be handed to threads, and what does that gain?"
# description: "Kernel 1: attention with no parallelism, corrected. Kernel 2: its independent loops turned into axes of a grid."
# date: 2026-11-21
# tags: [attention, softmax, loops]
# ---

# %% [markdown]
# Attention over 1,024 rows of 128 numbers is ten loops and {{ work.operations_1e9 | .2f }}
# billion multiplications and additions. One thread can run all ten, one after another. How many
# of the ten may instead be spread over threads without changing the answer, and how much faster
# does that make it?

# %% [markdown]
# ## A weighted mean of rows
#
# Attention looks rows up by likeness. A query, a row of numbers, is multiplied with every key,
# another row of numbers, element by element, and the sum of the products is a logit: one number
# for each key, the larger the better the two match. Softmax turns the logits into weights that add
# up to 1, and the answer is the mean of the value rows, one for each key, with those weights. As
# arrays, that is three formulas.
#
# ??? definition "Attention"
#     For each query, a weighted mean of the value rows, with weights that say how well the query
#     matches each key.
#
# ??? definition "Query | queries"
#     A row of d numbers that asks: it is compared with every key.
#
# ??? definition "Key | keys"
#     A row of d numbers that is compared with a query; each key belongs to one value row.
#
# ??? definition "Value row | value rows"
#     A row of d numbers that is averaged, with the weight that its key has received.
#
# ??? definition "Logit | logits"
#     A score before softmax, any real number, without a unit.
#
# ??? definition "Softmax"
#     The map from a row of logits to probabilities: each logit's exponential, divided by the sum of
#     them all.

# %% [markdown]
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
# $Q$, $K$, $V$ and $O$ are $N \times d$, one row for each token (a piece of text); $S$ and $P$
# are $N \times N$. $m_i$ is the largest logit of row $i$; subtracting it changes nothing on
# paper, since it cancels, and keeps every exponential at or below 1. The scale is
# $1/\sqrt{d}$.[^head] Written out as loops, the two products[^two] and the softmax between them
# make the first kernel.
#
# [^head]: A model has several heads, each of which is one such attention over its own slice of the
#     model's width; $d$ is the width of one head. This page computes one.
#
# [^two]: Some count three products. Attention itself has two; $Q$, $K$ and $V$ come out of three
#     more that stand before it.
#
# ??? definition "Head | heads"
#     One of several attentions that run side by side, each over its own slice of the model's width.

# %% [markdown]
# ## Kernel 1: everything on one thread
#
# Three nests, one for each formula. The letters are those above; `s`, `z` and `o` are running
# sums, `m` is a running maximum, and `c` counts the columns of $V$. `K[j, k]` reads row `j` of
# $K$, which is column `j` of $K^\top$, so nothing has to be transposed. In CUDA a matrix is one
# long array, and every thread but one returns at once. There are three loops for $S$, four for
# $P$ and three for $O$.


# %% tab="Pseudocode"
import numpy as np


def attention_serial(Q, K, V, S, P, O, scale):
    N, d = Q.shape
    # [scores
    for i in range(N):
        for j in range(N):
            s = 0.0
            for k in range(d):
                s += Q[i, k] * K[j, k]
            S[i, j] = s * scale
    # scores]
    for i in range(N):
        # [maximum
        m, z = -np.inf, 0.0
        for j in range(N):
            m = max(m, S[i, j])
        # maximum]
        # [sum
        for j in range(N):
            z += np.exp(S[i, j] - m)
        # sum]
        # [weights
        for j in range(N):
            P[i, j] = np.exp(S[i, j] - m) / z
        # weights]
    # [mean
    for i in range(N):
        for c in range(d):
            o = 0.0
            for j in range(N):
                o += P[i, j] * V[j, c]
            O[i, c] = o
    # mean]


# %% tab="CUDA C"
from tilewise import Kernel

ATTENTION_SERIAL = Kernel(r"""
extern "C" __global__
void attention_serial(const float* Q, const float* K, const float* V,
                      float* S, float* P, float* O,
                      int N, int d, float scale) {
    if (blockIdx.x > 0 || threadIdx.x > 0) return;
    // [scores
    for (int i = 0; i < N; ++i)
        for (int j = 0; j < N; ++j) {
            float s = 0.0f;
            for (int k = 0; k < d; ++k) s += Q[i * d + k] * K[j * d + k];
            S[i * N + j] = s * scale;
        }
    // scores]
    for (int i = 0; i < N; ++i) {
        // [maximum
        float m = -INFINITY, z = 0.0f;
        for (int j = 0; j < N; ++j) m = fmaxf(m, S[i * N + j]);
        // maximum]
        // [sum
        for (int j = 0; j < N; ++j) z += expf(S[i * N + j] - m);
        // sum]
        // [weights
        for (int j = 0; j < N; ++j) P[i * N + j] = expf(S[i * N + j] - m) / z;
        // weights]
    }
    // [mean
    for (int i = 0; i < N; ++i)
        for (int c = 0; c < d; ++c) {
            float o = 0.0f;
            for (int j = 0; j < N; ++j) o += P[i * N + j] * V[j * d + c];
            O[i * d + c] = o;
        }
    // mean]
}
""")

# %% [markdown]
# `agree` compares the tabs on small odd sizes, once with logits in the hundreds. Both tabs could
# share a mistake, so the kernel is also compared with NumPy in 64-bit floats. Sums of some twenty
# 32-bit products differ from that by a few units in the seventh digit, and the tolerances leave
# room for that. Each row of $P$ must add up to 1.

# %% fold="Code of the checks"
from tilewise import agree, case, check, integers, normal, output


def attention(N, d):
    inputs = {"Q": normal(N, d), "K": normal(N, d), "V": normal(N, d)}
    written = {"S": output(N, N), "P": output(N, N), "O": output(N, d)}
    return case(**inputs, **written, N=N, d=d, scale=d**-0.5, grid=1, block=1)


def softmax(S):
    weights = np.exp(S - S.max(axis=1, keepdims=True))
    return weights / weights.sum(axis=1, keepdims=True)


def reference(Q, K, V, scale):
    """S, P and O in 64-bit floats."""
    Q, K, V = (matrix.astype(np.float64) for matrix in (Q, K, V))
    S = scale * Q @ K.T
    P = softmax(S)
    return {"S": S, "P": P, "O": P @ V}


def steep_attention(N, d):
    whole = {name: integers(N, d, low=-4, high=5, dtype="float32") for name in "QKV"}
    written = {"S": output(N, N), "P": output(N, N), "O": output(N, d)}
    return case(**whole, **written, N=N, d=d, scale=8.0, grid=1, block=1)


cases = [attention(7, 5), attention(21, 12), steep_attention(13, 6)]
agree(attention_serial, ATTENTION_SERIAL, cases, rtol=1e-5, atol=1e-6)

arrays = attention(21, 12).make()
ATTENTION_SERIAL.on(attention(21, 12)).run(arrays)
inputs = {name: arrays[name] for name in ("Q", "K", "V", "scale")}
check(arrays["O"], reference(**inputs)["O"], rtol=1e-5, atol=1e-6, name="O against 64-bit NumPy")

# %% [markdown]
# ## Two mistakes that still run
#
# The first is easy to make: subtract the row's maximum in the sum but not in the numerator. The
# row of $P$ then adds up to $e^{m}$ in place of 1, here up to {{ slip.largest | .1f }}. Once a
# logit passes {{ slip.limit | .1f }}, the exponential no longer fits a 32-bit float, which is what
# the shift was meant to prevent. Subtracting in neither place gives the right sum and the same
# overflow, so the kernel subtracts in both.

# %%
from tilewise import Table, publish, show

N, d = 1024, 128
arrays = attention(N, d).make()
raw = (arrays["Q"] @ arrays["K"].T).astype(np.float32)
S = raw * np.float32(d**-0.5)
m = S.max(axis=1)
slipped = np.exp(S) / np.exp(S - m[:, None]).sum(axis=1, keepdims=True)
check(slipped.sum(axis=1), np.exp(m), rtol=1e-5, name="rows with one shift add up to exp(m)")

# %% fold="Code of the numbers"
overflows_from = float(np.log(np.finfo(np.float32).max))
publish(slip={"largest": float(slipped.sum(axis=1).max()), "limit": overflows_from})

# %% [markdown]
# The second concerns the scale. It is sometimes left out, and sometimes printed upside down, as
# $\sqrt{d}$. The product of two rows of $d$ normal numbers has a standard deviation of about
# $\sqrt{d}$; dividing brings it back to 1. Without that softmax nearly picks a single row, and
# multiplying makes it pick outright. The table measures how sharp each choice is.

# %% fold="Code of the table"
sharpness, rows = {}, []
for name, scale in {"1/√d": d**-0.5, "1": 1.0, "√d": d**0.5}.items():
    logits = scale * raw.astype(np.float64)
    largest = softmax(logits).max(axis=1)
    sharpness[name] = largest.mean()
    rows.append([name, logits.std(), largest.mean(), round(100 * (largest > 0.99).mean())])
columns = [
    "scale",
    "standard deviation of the logits",
    "mean largest probability",
    "rows with one weight above 0.99, %",
]
caption = "1,024 queries against 1,024 keys of normal numbers, d = 128: the scale decides whether attention averages or picks."
show(Table(columns, rows, caption=caption))
publish(sharpness={"right": sharpness["1/√d"], "none": sharpness["1"], "wrong": sharpness["√d"]})

# %% [markdown]
# With few rows the same can be seen at once. In the map each row is one query and its weights on
# 16 keys; move the slider from the right scale to the wrong ones and watch the weight of most
# rows gather on one key.

# %% fold="Code of the figure"
from tilewise.figures import heat_map

few = attention(16, d).make()
few_logits = (few["Q"] @ few["K"].T).astype(np.float64)
show(
    heat_map(
        {"P": np.stack([softmax(scale * few_logits) for scale in (d**-0.5, 1.0, d**0.5)])},
        steps=["1/√d", "1", "√d"],
        step_name="scale",
        x="key j",
        y="query i",
        title="Without the scale, attention picks where it should average",
        caption="Weights of 16 queries on 16 keys of normal numbers, d = 128, for three scales. Each row adds up to 1.",
        alt="Three maps of 16 by 16 weights. With the scale 1/√d every row is spread over its keys, with 1 and with √d most of a row's weight is in one cell.",
    )
)

# %% [markdown]
# A row of weights is what a classifier gives: the keys are its classes, each with a probability, and the
# answer is the mean over them.

# %% [markdown]
# ## Which loops can go
#
# Call one run of a loop's body a pass. A launch can take the place of a loop whose passes could
# run in any order, or all at once, each seeing only what was there before the loop began. Such a
# loop is independent. One that adds into `s` is not: every pass needs the sum that the pass
# before has left. So for each of the ten loops: what does one pass need from the others?
#
# ??? definition "Independent loop | independent loops"
#     A loop in which no pass reads what another pass writes, and no two passes write the same
#     place.
#
# ??? definition "Contraction | contractions"
#     Summing products over an index that the result no longer has, as over k in a product of
#     matrices.

# %% fold="Code of the table"
rows = [
    ["S", "i, query", "nothing: its own row of S", "yes"],
    ["S", "j, key", "nothing: its own place in the row", "yes"],
    ["S", "k", "the sum s so far: a contraction", "no"],
    ["P", "i, query", "nothing: its own row of S and P", "yes"],
    ["P", "j, first", "the maximum m so far", "no"],
    ["P", "j, second", "the sum z so far", "no"],
    ["P", "j, third", "nothing: its own place in P, once m and z are known", "yes"],
    ["O", "i, query", "nothing: its own row of O", "yes"],
    ["O", "c, column of V", "nothing: its own place in the row", "yes"],
    ["O", "j, key", "the sum o so far: a contraction", "no"],
]
caption = "The ten loops of Kernel 1. Six are independent, and one of the six (P, third j) still has to wait for the two before it."
show(Table(["nest", "loop", "what a pass needs from the others", "independent"], rows, caption=caption))

# %% [markdown]
# What happens to a loop that goes although it must not? Here the contraction over `k` has become
# a third axis of the launch, so {{ broken.d }} threads add into one place. All of them read the
# old value, add their own product, and write; the last to write wins. Of the {{ broken.entries }}
# entries of $S$, {{ broken.right }} are right. The simulator reports a \race, the first of
# {{ broken.races }}. A GPU reports nothing: no array's end is passed, and there only a comparison
# finds it. (A sum can be shared among threads, with more care; that is for a later lesson.)

# %%
NO_K_LOOP = Kernel(r"""
extern "C" __global__
void scores_without_k(const float* Q, const float* K, float* S,
                      int N, int d, float scale) {
    int k = blockIdx.x * blockDim.x + threadIdx.x;
    int j = blockIdx.y * blockDim.y + threadIdx.y;
    int i = blockIdx.z * blockDim.z + threadIdx.z;
    if (i >= N || j >= N || k >= d) return;
    // hazard: d threads add into one place
    S[i * N + j] += Q[i * d + k] * K[j * d + k] * scale;
}
""")

# %% fold="Code of the comparison"
from tilewise import expect_hazard

small = attention(8, 4).make()
small["S"][:] = 0.0


def spread(hazards):
    names = ("Q", "K", "S", "N", "d", "scale")
    return NO_K_LOOP.simulate(
        *(small[name] for name in names), grid=(1, 1, 1), block=(4, 8, 8), hazards=hazards
    )


expect_hazard(lambda: spread("raise"), "race", line_with="S[i * N + j] +=")
races = sum(hazard.count for hazard in spread("collect").hazards)
right = np.isclose(small["S"], small["Q"] @ small["K"].T * small["scale"], rtol=1e-4)
publish(broken={"d": 4, "entries": right.size, "right": int(right.sum()), "races": races})

# %% [markdown]
# ## Kernel 2: the independent loops are gone
#
# Each nest becomes a kernel of its own, because the second needs whole rows of $S$ and the third
# whole rows of $P$, and within one launch no block waits for another.[^order] In the first, the
# loops over `i` and `j` become two axes, with `j` on x since $S$ is stored row by row. The loop
# over `k` stays.[^both] The figure below the code folds the two loops one after the other.
#
# [^order]: Between launches the order is safe: the three kernels stand in one stream, and each
#     starts when the one before it has ended.
#
# [^both]: An index that replaces a loop takes both numbers: `blockIdx` for the block and
#     `threadIdx` for the place inside it. The size of a block decides nothing about the answer.


# %% tab="Pseudocode"
from tilewise import parallel


def scores(Q, K, S, scale):
    N, d = Q.shape
    for i, j in parallel(N, N):
        s = 0.0
        for k in range(d):
            s += Q[i, k] * K[j, k]
        S[i, j] = s * scale


# %% tab="CUDA C"
SCORES = Kernel(r"""
extern "C" __global__
void scores(const float* Q, const float* K, float* S,
            int N, int d, float scale) {
    int j = blockIdx.x * blockDim.x + threadIdx.x;  // New: for j
    int i = blockIdx.y * blockDim.y + threadIdx.y;  // New: for i
    if (i >= N || j >= N) return;
    float s = 0.0f;
    for (int k = 0; k < d; ++k) s += Q[i * d + k] * K[j * d + k];  // watch: s
    S[i * N + j] = s * scale;
}
""")

# %% fold="Code of the figure"
i, j = np.indices((6, 6))
show(
    heat_map(
        {"thread": np.stack([0 * i, j, 6 * i + j])},
        steps=["no loop", "j", "i and j"],
        step_name="folded",
        x="j",
        y="i",
        role="block",
        form=".0f",
        key=False,
        title="Two loops fold into the grid, the third stays in the thread",
        caption="The scores at N = 6, d = 4, each with the number of the thread that computes it: one thread makes all 144 passes, 6 threads make 24 each, or 36 make 4 each, those of the contraction over k.",
        alt="Three maps of the 6 by 6 scores. With no loop folded thread 0 computes all of them, with j folded thread j computes column j, with i and j folded thread 6 i + j computes one score.",
    )
)

# %% [markdown]
# The next figure runs that kernel on the same small sizes, in two blocks of 8 by 4 threads. Step
# through the four passes: the threads of a row of $S$ share one number of $Q$, and each reads its
# own number of $K$, a whole row away from its neighbour's.[^watch] Then each writes its entry.
#
# [^watch]: The comment `// watch: s` asks the simulator to note what `s` holds behind that line,
#     here after the loop. For a compiler it is a comment like any other.

# %% fold="Code of the figure"
from tilewise import Trace
from tilewise.figures import stepped

six = case(Q=normal(6, 4), K=normal(6, 4), S=output(6, 6), N=6, d=4, scale=0.5, grid=(1, 2), block=(8, 4))
show(
    stepped(
        SCORES.on(six).simulate(trace=Trace()),
        launch=SCORES.on(six),
        extent=(6, 6),
        axes=("j", "i"),
        title="Each thread walks one row of Q and one row of K, and writes one score",
        caption="The scores at N = 6, d = 4, step by step: the line that runs, the threads that act, and the elements they touch. Hatched threads have no entry of S; hatched elements come along in a sector of 32 bytes.",
    )
)

# %% [markdown]
# Softmax gives up one loop only. A row's maximum and sum run through the whole row, so one thread
# takes one row and walks it three times. That leaves $N$ threads where the scores had $N^2$, and
# each of them makes more passes one after another.


# %% tab="Pseudocode"
def softmax_rows(S, P):
    N = len(S)
    for i in parallel(N):
        m, z = -np.inf, 0.0
        for j in range(N):
            m = max(m, S[i, j])
        for j in range(N):
            z += np.exp(S[i, j] - m)
        for j in range(N):
            P[i, j] = np.exp(S[i, j] - m) / z


# %% tab="CUDA C"
SOFTMAX_ROWS = Kernel(r"""
extern "C" __global__
void softmax_rows(const float* S, float* P, int N) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;  // New: for i
    if (i >= N) return;
    float m = -INFINITY, z = 0.0f;
    for (int j = 0; j < N; ++j) m = fmaxf(m, S[i * N + j]);
    for (int j = 0; j < N; ++j) z += expf(S[i * N + j] - m);
    for (int j = 0; j < N; ++j) P[i * N + j] = expf(S[i * N + j] - m) / z;
}
""")

# %% [markdown]
# The third kernel has the shape of the first: two axes, one contraction, now over the keys. Query
# and column of $V$ become y and x. Note which index is summed: `j`, the same index that softmax
# has just normalised over. A later kernel will use this coincidence; here it only decides which
# loop stays.[^axes]
#
# [^axes]: It is often said that contraction and softmax share an axis. That holds for this second
#     product, $PV$; the first one, $QK^\top$, contracts over $d$.


# %% tab="Pseudocode"
def weighted_sum(P, V, O):
    N, d = V.shape
    for i, c in parallel(N, d):
        o = 0.0
        for j in range(N):
            o += P[i, j] * V[j, c]
        O[i, c] = o


# %% tab="CUDA C"
WEIGHTED_SUM = Kernel(r"""
extern "C" __global__
void weighted_sum(const float* P, const float* V, float* O,
                  int N, int d) {
    int c = blockIdx.x * blockDim.x + threadIdx.x;  // New: for c
    int i = blockIdx.y * blockDim.y + threadIdx.y;  // New: for i
    if (i >= N || c >= d) return;
    float o = 0.0f;
    for (int j = 0; j < N; ++j) o += P[i * N + j] * V[j * d + c];
    O[i * d + c] = o;
}
""")

# %% [markdown]
# Each pair of tabs is compared on sizes that are no multiples of a block. The three launches in a
# row are then compared with the 64-bit reference, once with queries forty times{from: the input} as large: there a
# softmax without its shift would overflow in {{ overflow.rows }} of {{ overflow.of }} rows. The
# rounding of the logits grows with them, and so does the tolerance.

# %% fold="Code of the checks"
from tilewise import ceil_div


def scores_case(N, d):
    grid, scale = (ceil_div(N, 8), ceil_div(N, 4)), d**-0.5
    return case(
        Q=normal(N, d), K=normal(N, d), S=output(N, N), N=N, d=d, scale=scale, grid=grid, block=(8, 4)
    )


def softmax_case(N, spread=3.0):
    return case(S=normal(N, N, scale=spread), P=output(N, N), N=N, grid=ceil_div(N, 8), block=8)


def weighted_sum_case(N, d):
    grid = (ceil_div(d, 8), ceil_div(N, 4))
    return case(P=normal(N, N), V=normal(N, d), O=output(N, d), N=N, d=d, grid=grid, block=(8, 4))


agree(scores, SCORES, [scores_case(5, 3), scores_case(21, 13)], rtol=1e-5, atol=1e-6)
agree(
    softmax_rows,
    SOFTMAX_ROWS,
    [softmax_case(5), softmax_case(21), softmax_case(21, 90.0)],
    rtol=1e-5,
    atol=1e-7,
)
agree(weighted_sum, WEIGHTED_SUM, [weighted_sum_case(5, 3), weighted_sum_case(21, 13)], rtol=1e-5, atol=1e-5)


# %%
def kernel_2(inputs):
    """The three launches of Kernel 2, in the order in which the stream runs them."""
    N, d = inputs.values["N"], inputs.values["d"]
    return [
        SCORES.on(inputs, grid=(ceil_div(N, 32), ceil_div(N, 8)), block=(32, 8)),
        SOFTMAX_ROWS.on(inputs, grid=ceil_div(N, 32), block=32),
        WEIGHTED_SUM.on(inputs, grid=(ceil_div(d, 32), ceil_div(N, 8)), block=(32, 8)),
    ]


# %% fold="Code of the checks"
for stretch in (1, 40):
    inputs = attention(77, 24)
    arrays = inputs.make()
    arrays["Q"] *= np.float32(stretch)
    for launch in kernel_2(inputs):
        launch.run(arrays)
    expected = reference(arrays["Q"], arrays["K"], arrays["V"], arrays["scale"])["O"]
    name = f"Kernel 2 against 64-bit NumPy, queries times {stretch}"
    check(arrays["O"], expected, rtol=0.0, atol=2e-6 * stretch, name=name)

too_large = arrays["S"].max(axis=1) > np.log(np.finfo(np.float32).max)
publish(overflow={"rows": int(too_large.sum()), "of": len(too_large)})

# %% [markdown]
# ## Predict, then measure
#
# Two bounds first. Both products together are $4N^2d$ operations, at least
# {{ work.arithmetic_us | us }} on an H100. The least traffic is $Q$, $K$ and $V$ read once and
# $O$ written once, at least {{ work.memory_us | us }}. A third floor is new: the passes of a loop
# in one thread come one after another, so the longest chain of passes sets a time that no number
# of threads lowers.

# %%
from tilewise.models import bound, device, stated


def passes(N, d):
    """Passes that one thread makes: in Kernel 1, then in each kernel of Kernel 2."""
    return {
        "one thread": 2 * N * N * d + 3 * N * N,
        "scores": d,
        "softmax": 3 * N,
        "weighted sum": N,
    }


def chain_of_kernel_2(N, d):
    return sum(passes(N, d)[kernel] for kernel in ("scores", "softmax", "weighted sum"))


# %% fold="Code of the table"
N, d = 1024, 128
operations = 4 * N * N * d
least = bound(stated(device("H100 SXM")), bytes_moved=4 * 4 * N * d, flop=operations)
chain = passes(N, d)
rows = [
    ["Kernel 1", 1, chain["one thread"], operations],
    ["Kernel 2, scores", N * N, chain["scores"], operations // 2],
    ["Kernel 2, softmax", N, chain["softmax"], 5 * N * N],
    ["Kernel 2, weighted sum", N * d, chain["weighted sum"], operations // 2],
]
caption = (
    "Work at N = 1024, d = 128. Softmax has one operation in a hundred and the longest chain in Kernel 2."
)
show(Table(["kernel", "threads", "passes in one thread", "operations"], rows, caption=caption))
publish(
    work={
        "operations_1e9": operations / 1e9,
        "arithmetic_us": least.arithmetic_us,
        "memory_us": least.memory_us,
    },
    passes={"one_thread": chain["one thread"], "kernel_2": chain_of_kernel_2(N, d)},
    gain={
        "at_1024": chain["one thread"] / chain_of_kernel_2(N, d),
        "at_256": passes(256, d)["one thread"] / chain_of_kernel_2(256, d),
        "softmax_share": chain["softmax"] / chain_of_kernel_2(N, d),
    },
    megabytes={"S": 4 * N * N / 1e6, "others": 4 * 4 * N * d / 1e6},
)

# %% [markdown]
# If a pass takes equally long everywhere, Kernel 2 gains the ratio of the chains:
# {{ passes.one_thread | , }} passes against {{ passes.kernel_2 | , }}, a factor of
# {{ gain.at_1024 | ,.0f }}; at N = 256, where one thread can still be waited for,
# {{ gain.at_256 | ,.0f }}. And softmax would take {{ gain.softmax_share | .0% }} of Kernel 2's
# time. Make your own guess before you look.

# %% fold="Code of the measurement"
from tilewise import Guess, measure


def torch_three_operations(arrays):
    """What a reader would write in eager mode: two products and a softmax."""
    import torch

    Q, K, V, S, P, O = (torch.as_tensor(arrays[name], device="cuda") for name in "QKVSPO")
    scale = float(arrays["scale"])

    def run():
        torch.addmm(S, Q, K.T, beta=0.0, alpha=scale, out=S)
        torch.softmax(S, dim=-1, out=P)
        torch.mm(P, V, out=O)

    return run


timed = measure(
    "attention_one_thread",
    variants={
        "Kernel 1: one thread": lambda N, d: ATTENTION_SERIAL.on(attention(N, d)),
        "Kernel 2: three kernels": lambda N, d: kernel_2(attention(N, d)),
    },
    cases=[{"N": 128, "d": 128}, {"N": 256, "d": 128}],
    count_case={"N": 24, "d": 16},
    bytes=lambda N, d: 4 * 4 * N * d,
    flop=lambda N, d: 4 * N * N * d,
    library={"torch, three operations": torch_three_operations},
    reference=reference,
    tolerance=1e-4,
    reasons={"*": "What the prediction left out"},
    note="Kernel 1 is timed at small N only: its time grows with the square of N.",
    guess=Guess(
        "How many times as fast as one thread is Kernel 2 at N = 256?",
        of="Kernel 2: three kernels",
        over="Kernel 1: one thread",
        at={"N": 256, "d": 128},
        between=(1, 1_000_000),
        models={
            "chains of passes": passes(256, d)["one thread"] / chain_of_kernel_2(256, d),
            "as many as threads in the largest launch": 256 * 256,
        },
        because="Passes do not all take equally long; the sections below take them apart.",
    ),
)

# %% [markdown]
# Kernel 2 goes on without Kernel 1 to the size of the question. The library rows are three
# operations of torch, called one by one, on the same 32-bit floats.

# %% fold="Code of the measurement"
large = measure(
    "attention_three_kernels",
    variants={"Kernel 2: three kernels": lambda N, d: kernel_2(attention(N, d))},
    cases=[{"N": 128, "d": 128}, {"N": 256, "d": 128}, {"N": 512, "d": 128}, {"N": 1024, "d": 128}],
    count_case={"N": 64, "d": 32},
    bytes=lambda N, d: 4 * 4 * N * d,
    flop=lambda N, d: 4 * N * N * d,
    library={"torch, three operations": torch_three_operations},
    reference=reference,
    tolerance=1e-4,
    reasons={"*": "What the prediction left out"},
)

# %% [markdown]
# Where does Kernel 2 spend its time? Each row of the next table starts one launch more than the
# row before it. If all passes took equally long, the step to softmax would be the largest.

# %% fold="Code of the measurement"
steps = measure(
    "attention_steps",
    variants={
        "scores": lambda N, d: kernel_2(attention(N, d))[:1],
        "scores, softmax": lambda N, d: kernel_2(attention(N, d))[:2],
        "scores, softmax, weighted sum": lambda N, d: kernel_2(attention(N, d)),
    },
    cases=[{"N": 1024, "d": 128}],
    count_case={"N": 64, "d": 32},
    reference=reference,
    tolerance=1e-4,
)

# %% [markdown]
# ## What the prediction left out
#
# At N = 256 Kernel 2 is
# {{ attention_one_thread.kernel_2_three_kernels.n_256_d_128.times_first | ,.0f }} times as fast
# as one thread, not {{ gain.at_256 | ,.0f }} times; and at N = 1024 the scores take
# {{ share.scores | .0% }} of the time and softmax {{ share.softmax | .0% }}. So passes do not all
# take equally long. The previous lesson named one thing in which they differ: how many sectors of
# memory a warp touches in a pass. The cell counts them for each step.


# %%
def sectors(N, d):
    """Sectors that each step touches, for N and d that are multiples of 32."""
    return {
        "scores": N * (N // 32) * (d * (1 + 32) + 4),  # 1 of Q, 32 of K
        "softmax": (N // 32) * N * 4 * 32,  # 4 accesses
        "weighted sum": N * (d // 32) * (N * (1 + 4) + 4),  # 1 of P, 4 of V
    }


# %% fold="Code of the check"
for size in ((32, 32), (64, 32), (64, 96)):
    inputs = attention(*size)
    arrays = inputs.make()
    counted = []
    for launch in kernel_2(inputs):
        counts = launch.simulate(arrays=arrays).counts
        counted.append(counts.global_load.sectors + counts.global_store.sectors)
    name = f"sectors of the three steps, N = {size[0]}, d = {size[1]}"
    check(counted, list(sectors(*size).values()), name=name)

# %% [markdown]
# The formulas equal the simulator's counts at three sizes, so they may speak for a fourth, N =
# 1024. The table sets them beside the recorded time of each step, which is the difference between
# two rows above.

# %% fold="Code of the table"
from tilewise.measurements import medians_us, recorded

until = list(medians_us(steps).values())
step_us = dict(zip(("scores", "softmax", "weighted sum"), np.diff([0.0, *until]), strict=True))
touched = sectors(1024, 128)
rows = [[name, chain[name], touched[name], us, 1000 * us / chain[name]] for name, us in step_us.items()]
columns = ["step", "passes in one thread", "sectors, all threads", "recorded, µs", "a pass, ns"]
caption = "The three steps of Kernel 2 at N = 1024, d = 128: passes of one thread and sectors of all, beside the recorded time."
show(Table(columns, rows, caption=caption))

alone_us = recorded("attention_one_thread.kernel_1_one_thread.n_256_d_128.median")
publish(
    share={name.replace(" ", "_"): us / until[-1] for name, us in step_us.items()},
    longer=(step_us["scores"] / chain["scores"]) / (step_us["softmax"] / chain["softmax"]),
    alone_ns=1000 * alone_us / passes(256, d)["one thread"],
    millions={name.replace(" ", "_"): count / 1e6 for name, count in touched.items()},
    tb_per_s=touched["scores"] * 32 / step_us["scores"] / 1e6,
)

# %% [markdown]
# A pass of the scores takes {{ longer | .0f }} times as long as one of softmax. In
# `K[j * d + k]` the lanes of a warp read down a column: {{ millions.scores | .0f }} million sectors
# in all, against {{ millions.weighted_sum | .0f }} million in the weighted sum, which does as many
# operations. They arrive at {{ tb_per_s | .1f }} TB/s, more than device memory can send, so a cache
# must answer part of them; which one, and whether its rate is what limits the scores, is not shown
# here. Nor is why a pass of Kernel 1, alone on the device, takes {{ alone_ns | .0f }} ns.

# %% [markdown]
# ## The answer
#
# Six of the ten loops are independent. Five became axes: i and j for the scores, i for softmax, i
# and c for the weighted sum. The sixth, which writes the row of $P$, waits behind two loops that
# carry something along the same row. At N = 256 the five axes gain a factor of
# {{ attention_one_thread.kernel_2_three_kernels.n_256_d_128.times_first | ,.0f }}. At N = 1024
# torch's three operations are
# {{ attention_three_kernels.torch_three_operations.n_1024_d_128.times_first | .0f }} times as
# fast as Kernel 2.

# %% [markdown]
# Later lessons go on with Kernel 3. Each new kernel enters its time in this table, beside the
# library that a reader would call instead.

# %% fold="Code of the table"
SO_FAR = {
    "Kernel 1: one thread": "ten loops in one thread",
    "Kernel 2: three kernels": "five independent loops are axes",
    "torch, three operations": "library",
}
us = medians_us(timed, "N") | medians_us(large, "N")
rows = [[name, what, *(us.get((name, N)) for N in (256, 1024))] for name, what in SO_FAR.items()]
caption = "Attention so far: 32-bit floats, one head, d = 128, on an {machine}. One thread is not timed at N = 1024."
show(Table(["version", "what is new", "N = 256, µs", "N = 1024, µs"], rows, caption=caption))

# %% [markdown]
# ## Takeaways
#
# - Attention is two products with a softmax by rows between them. The maximum is subtracted in
#   numerator and sum alike; in the sum alone, the weights of a query no longer add up to 1.
# - The scale is $1/\sqrt{d}$. Without it the mean largest of 1,024 weights rises from
#   {{ sharpness.right | .3f }} to {{ sharpness.none | .2f }}, and with $\sqrt{d}$ to
#   {{ sharpness.wrong | .2f }}.
# - An axis of the grid can take the place of an independent loop. A contraction cannot just be
#   spread: threads that add into one place lose each other's sums.
# - The chain of passes in one thread sets a floor under the time. Passes are not equal, though: in
#   Kernel 2 those of the scores take longest and touch by far the most sectors.


# %% fold="The whole cell, with one wrong answer that the tests turn down"
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
    may_go = {double: True, row_sums: True}
    must_stay = {add_up: False, running_sum: False, shift_left: False}
    for body, expected in (may_go | must_stay).items():
        arrays = {"x": np.arange(3, 11), "y": np.full(8, -1)}
        kept = {name: array.copy() for name, array in arrays.items()}
        assert answer(body, 8, arrays) == expected, body.__name__
        for name, array in arrays.items():
            assert np.array_equal(array, kept[name]), f"the input {name} was changed"


exercise(
    "May this loop go?",
    """
    Write `independent(body, n, arrays)`: whether a loop over `body(i, arrays)`, for i from 0 to n - 1,
    may be handed to threads. `body` changes the arrays in place. Running the passes in a shuffled order is
    not enough: a sum of integers comes out right in any order, and goes wrong when all passes read before
    any writes. The tests try five loops, and the inputs must be left as they were.
    """,
    answer=independent,
    tests=independence_tests,
    wrong=[shuffles_only],
    hint="Give every pass a fresh copy of what was there before the loop, and collect what each one changed.",
)

# %% [markdown]
# Kernel 2 sends $S$ and $P$ out and back, {{ megabytes.S | .1f }} MB each, where all inputs and
# outputs together are {{ megabytes.others | .1f }} MB, and its bound is
# {{ attention_three_kernels.kernel_2_three_kernels.n_1024_d_128.share_of_bound | .0% }} of the
# time it takes. Which resource a kernel runs out of, and how to tell from its bytes and its
# operations before it is written, is where the next part begins.
