# ---
# title: "Attention with one block per row"
# needs: [memory/reductions]
# further: memory/reductions
# summary: "Softmax with one thread per row keeps only one warp busy for every four SMs. How much faster is it with one block per row, and what limits attention then?"
# description: "Kernel 4 of attention: softmax as a block reduction with __shfl_xor_sync, and a weighted sum split over the warps of a block. Predicted, measured, and one limit left."
# date: 2026-11-23
# tags: [attention, softmax, reduction]
# ---

# %% [markdown]
# The softmax of [coalesced attention](coalescing_attention.py), our Kernel 3, has one thread per row. With
# {{ fourth.rows | , }} rows that's {{ fourth.warps }} warps for {{ fourth.sms }} SMs, and it takes
# {{ fourth.columns_us | us }}; moving the bytes alone would take only {{ fourth.softmax_us | .1f }} µs. How much of
# that gap does one block per row close?
#
# A row of scores is reduced twice, to a maximum and to a sum. So you can use the [block reduction](reductions.py),
# with one difference: here every thread needs the result.

# %% fold="Imports"
import numpy as np

from tilewise import Kernel, agree, ceil_div, check, measure, parallel, publish, show
from tilewise.figures import bars
from tilewise.measurements import recorded, recorded_device
from tilewise.models import bound, stated

GPU = recorded_device()

# %% [markdown]
# ## Softmax with one block per row: butterfly shuffles
#
# `__shfl_down_sync` leaves the result in lane 0. `__shfl_xor_sync` leaves it in every lane: lane `t` exchanges values
# with lane `t ^ offset`, and both combine them. With four lanes that hold 5, 2, 9 and 4, an offset of 2 gives maxima of
# 9, 4, 9 and 4, and an offset of 1 gives 9 in all four. In the second stage, every warp reduces all the warps' results
# itself, so one barrier is enough.
#
# The lanes now read along a row, so `S` and `P` can stay row-major. Only `K` needs a transpose.


# %% tab="Pseudocode"
def softmax_by_blocks(S, P):
    for i in parallel(len(S)):
        # [maximum
        m = S[i].max()
        # maximum]
        # [sum
        z = np.exp(S[i] - m).sum()
        # sum]
        # [weights
        P[i] = np.exp(S[i] - m) / z
        # weights]


# %% tab="CUDA C"
SOFTMAX_BY_BLOCKS = Kernel(r"""
__device__ float warp_max(float row_max) {
    for (int offset = 16; offset > 0; offset /= 2)
        row_max = fmaxf(row_max, __shfl_xor_sync(0xffffffff, row_max, offset));
    return row_max;  // in every lane
}
__device__ float warp_sum(float row_sum) {
    for (int offset = 16; offset > 0; offset /= 2)
        row_sum += __shfl_xor_sync(0xffffffff, row_sum, offset);
    return row_sum;
}
// P = softmax(S) by rows. S, P: N x N, row-major. Grid: N blocks; blockDim.x: whole warps.
extern "C" __global__
void softmax_by_blocks(const float* S, float* P, int N) {
    __shared__ float maxima[32], sums[32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int t = threadIdx.x, warps = blockDim.x / 32;
    const float* row = S + blockIdx.x * N;  // one block per row
    // [maximum
    float row_max = -INFINITY, row_sum = 0.0f;
    for (int j = t; j < N; j += blockDim.x) row_max = fmaxf(row_max, row[j]);
    row_max = warp_max(row_max);
    if (lane == 0) maxima[warp] = row_max;
    __syncthreads();  // every warp has stored its maximum
    row_max = warp_max(lane < warps ? maxima[lane] : -INFINITY);
    // maximum]
    // [sum
    for (int j = t; j < N; j += blockDim.x) row_sum += expf(row[j] - row_max);
    row_sum = warp_sum(row_sum);
    if (lane == 0) sums[warp] = row_sum;
    __syncthreads();  // every warp has stored its sum
    row_sum = warp_sum(lane < warps ? sums[lane] : 0.0f);
    // sum]
    // [weights
    for (int j = t; j < N; j += blockDim.x)
        P[blockIdx.x * N + j] = expf(row[j] - row_max) / row_sum;
    // weights]
}
""")

# %% [markdown]
# Run it on rows with the scores 0 to 3. Each weight is e times the previous one.

# %%
scores = np.tile(np.arange(4, dtype=np.float32), (4, 1))
weights = np.zeros_like(scores)
SOFTMAX_BY_BLOCKS(scores, weights, 4, grid=4, block=32)
print(weights[0].round(3))

# %% [markdown]
# Why are there two shared arrays? With just one, a fast warp could overwrite a maximum with its sum before a slow warp has read it, because
# no barrier separates the read from the write. The simulator reports that race.

# %% fold="One shared array for both reductions: a race that the simulator reports"
from tilewise import case, expect_hazard, normal, output

ONE_ARRAY = Kernel(r"""
__device__ float warp_max(float row_max) {
    for (int offset = 16; offset > 0; offset /= 2)
        row_max = fmaxf(row_max, __shfl_xor_sync(0xffffffff, row_max, offset));
    return row_max;
}
__device__ float warp_sum(float row_sum) {
    for (int offset = 16; offset > 0; offset /= 2)
        row_sum += __shfl_xor_sync(0xffffffff, row_sum, offset);
    return row_sum;
}
extern "C" __global__
void softmax_by_blocks(const float* S, float* P, int N) {
    __shared__ float warp_results[32];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int t = threadIdx.x, warps = blockDim.x / 32;
    const float* row = S + blockIdx.x * N;
    float row_max = -INFINITY, row_sum = 0.0f;
    for (int j = t; j < N; j += blockDim.x) row_max = fmaxf(row_max, row[j]);
    row_max = warp_max(row_max);
    if (lane == 0) warp_results[warp] = row_max;
    __syncthreads();
    row_max = warp_max(lane < warps ? warp_results[lane] : -INFINITY);
    for (int j = t; j < N; j += blockDim.x) row_sum += expf(row[j] - row_max);
    row_sum = warp_sum(row_sum);
    if (lane == 0) warp_results[warp] = row_sum;  // hazard: is the maximum still being read?
    __syncthreads();
    row_sum = warp_sum(lane < warps ? warp_results[lane] : 0.0f);
    for (int j = t; j < N; j += blockDim.x)
        P[blockIdx.x * N + j] = expf(row[j] - row_max) / row_sum;
}
""")
expect_hazard(
    ONE_ARRAY.on(case(S=normal(3, 300), P=output(3, 300), N=300, grid=3, block=64)),
    "race",
    line_with="is the maximum still being read?",
)

# %% [markdown]
# Run softmax with one shared array and with two. For which block sizes is one array enough?

# %% fold="Code of the run"
from tilewise import try_it


def by_blocks(N, block):
    return case(S=normal(N, N, scale=3.0), P=output(N, N), N=N, grid=N, block=block)


try_it(
    by_blocks,
    {"two shared arrays": SOFTMAX_BY_BLOCKS, "one shared array": ONE_ARRAY},
    N=(1, 21, 100),
    block=[64, 32, 96, 128, 256],
)

# %% [markdown]
# ## The weighted sum: split the keys over eight warps
#
# In Kernel 3's last step, each thread adds up {{ fourth.rows | , }} products, one after another, and only half of the
# GPU's thread slots are filled. Let each of a block's eight warps process every eighth key, for the same 32 columns.
# Their partial sums are combined in shared memory.


# %% tab="Pseudocode"
def weighted_sum_shared(P, V, O):
    N, d = V.shape
    for i, c in parallel(N, d):
        # [split
        partial = [P[i, w::8] @ V[w::8, c] for w in parallel(8)]
        # split]
        O[i, c] = sum(partial)


# %% tab="CUDA C"
WEIGHTED_SUM_SHARED = Kernel(r"""
// O = P V. P: N x N, V and O: N x d, row-major. Block: 32 x 8. Grid: ceil(d / 32) x N.
extern "C" __global__
void weighted_sum_shared(const float* P, const float* V, float* O,
                         int N, int d) {
    __shared__ float partial[8][32];
    int x = threadIdx.x, w = threadIdx.y;
    int c = blockIdx.x * 32 + x, i = blockIdx.y;
    // [split
    float acc = 0.0f;
    for (int j = w; j < N && c < d; j += 8)  // every eighth key
        acc += P[i * N + j] * V[j * d + c];
    partial[w][x] = acc;
    // split]
    __syncthreads();  // all eight partial sums are stored
    if (w > 0 || c >= d) return;
    for (int k = 1; k < 8; ++k) acc += partial[k][x];
    O[i * d + c] = acc;
}
""")

# %% fold="Scores with a transposed K, softmax with one warp per row, launches and checks"
SCORES_ALONG = Kernel(r"""
extern "C" __global__
void scores_along(const float* Q, const float* KT, float* S,
                  int N, int d, float scale) {
    int j = blockIdx.x * blockDim.x + threadIdx.x;  // lanes along j
    int i = blockIdx.y * blockDim.y + threadIdx.y;
    if (i >= N || j >= N) return;
    float s = 0.0f;
    for (int k = 0; k < d; ++k) s += Q[i * d + k] * KT[k * N + j];
    S[i * N + j] = s * scale;
}
""")

SOFTMAX_BY_WARPS = Kernel(r"""
extern "C" __global__
void softmax_by_warps(const float* S, float* P, int N) {
    int lane = threadIdx.x % 32;
    int i = (blockIdx.x * blockDim.x + threadIdx.x) / 32;  // one warp per row
    if (i >= N) return;
    const float* row = S + i * N;
    float row_max = -INFINITY, row_sum = 0.0f;
    for (int j = lane; j < N; j += 32) row_max = fmaxf(row_max, row[j]);
    for (int offset = 16; offset > 0; offset /= 2)
        row_max = fmaxf(row_max, __shfl_xor_sync(0xffffffff, row_max, offset));
    for (int j = lane; j < N; j += 32) row_sum += expf(row[j] - row_max);
    for (int offset = 16; offset > 0; offset /= 2)
        row_sum += __shfl_xor_sync(0xffffffff, row_sum, offset);
    for (int j = lane; j < N; j += 32) P[i * N + j] = expf(row[j] - row_max) / row_sum;
}
""")

TURN_KEYS = Kernel(r"""
extern "C" __global__
void turn_keys(const float* K, float* KT, int N, int d) {
    __shared__ float tile[32][33];
    int left = 32 * blockIdx.x, top = 32 * blockIdx.y, x = threadIdx.x;
    #pragma unroll
    for (int y = threadIdx.y; y < 32; y += 8)
        if (top + y < N && left + x < d)
            tile[y][x] = K[(top + y) * d + left + x];
    __syncthreads();  // the tile is complete
    #pragma unroll
    for (int y = threadIdx.y; y < 32; y += 8)
        if (left + y < d && top + x < N)
            KT[(left + y) * N + top + x] = tile[x][y];
}
""")


def attention(N, d):
    inputs = {"Q": normal(N, d), "K": normal(N, d), "V": normal(N, d)}
    between = {"KT": output(d, N), "S": output(N, N), "P": output(N, N)}
    return case(**inputs, **between, O=output(N, d), N=N, d=d, scale=d**-0.5, grid=1, block=1)


def kernel_4(inputs, by="blocks"):
    """The four launches of Kernel 4, in the order in which the stream runs them."""
    N, d = inputs.values["N"], inputs.values["d"]
    softmax = {
        "blocks": SOFTMAX_BY_BLOCKS.on(inputs, grid=N, block=256),
        "warps": SOFTMAX_BY_WARPS.on(inputs, grid=ceil_div(N, 4), block=128),
    }[by]
    return [
        TURN_KEYS.on(inputs, grid=(ceil_div(d, 32), ceil_div(N, 32)), block=(32, 8)),
        SCORES_ALONG.on(inputs, grid=(ceil_div(N, 32), ceil_div(N, 8)), block=(32, 8)),
        softmax,
        WEIGHTED_SUM_SHARED.on(inputs, grid=(ceil_div(d, 32), N), block=(32, 8)),
    ]


def turn_keys(K, KT):
    N, d = K.shape
    for j, k in parallel(N, d):
        KT[k, j] = K[j, k]


def scores_along(Q, KT, S, scale):
    d, N = KT.shape
    for i, j in parallel(N, N):
        s = 0.0
        for k in range(d):
            s += Q[i, k] * KT[k, j]
        S[i, j] = s * scale


def part(which, N, d):
    square, V = normal(N, N, scale=3.0), normal(N, d)
    return {
        "turn": case(K=V, KT=output(d, N), N=N, d=d, grid=(ceil_div(d, 32), ceil_div(N, 32)), block=(32, 8)),
        "scores": case(
            Q=V,
            KT=normal(d, N),
            S=output(N, N),
            N=N,
            d=d,
            scale=d**-0.5,
            grid=(ceil_div(N, 8), ceil_div(N, 4)),
            block=(8, 4),
        ),
        "blocks": case(S=square, P=output(N, N), N=N, grid=N, block=64),
        "warps": case(S=square, P=output(N, N), N=N, grid=ceil_div(N, 2), block=64),
        "sum": case(P=square, V=V, O=output(N, d), N=N, d=d, grid=(ceil_div(d, 32), N), block=(32, 8)),
    }[which]


near = {"rtol": 1e-5, "atol": 1e-5}
steep = normal(21, 21, scale=90.0)
agree(turn_keys, TURN_KEYS, [part("turn", *size) for size in ((5, 3), (77, 50))])
agree(scores_along, SCORES_ALONG, [part("scores", *size) for size in ((5, 3), (21, 13))], **near)
for kernel, which, grid in ((SOFTMAX_BY_BLOCKS, "blocks", 21), (SOFTMAX_BY_WARPS, "warps", 11)):
    cases = [part(which, N, 1) for N in (5, 21, 77)]
    cases.append(case(S=steep, P=output(21, 21), N=21, grid=grid, block=64))
    agree(softmax_by_blocks, kernel, cases, **near)
agree(weighted_sum_shared, WEIGHTED_SUM_SHARED, [part("sum", *size) for size in ((5, 3), (21, 50))], **near)

# %% [markdown]
# ## Predict, then measure
#
# We start from the measured times of Kernel 3's steps. The scores still take {{ fourth.scores_us | us }}. Split over
# eight warps, the weighted sum has as many threads as the score kernel and makes the same number of requests for the
# same number of sectors, so it should take the same time. In softmax, the loops shrink from
# {{ fourth.column_passes | , }} iterations per thread to {{ fourth.block_passes }}, plus {{ fourth.shuffles }}
# shuffles, so memory traffic should determine the time, {{ fourth.softmax_us | .1f }} µs. Together with Kernel 3's time
# for transposing, that makes {{ fourth.expected_us | us }}, versus {{ fourth.before_us | us }} for Kernel 3.

# %% fold="Code of the prediction"
from tilewise.kernel.chains import count_chain
from tilewise.measurements import step_times

_, one, _, other = (run.global_load for run in count_chain(kernel_4(attention(64, 96))))
check(
    [other.requests, other.sectors],
    [one.requests, one.sectors],
    name="requests and sectors of the weighted sum's loads and of the scores'",
)
STEPS = ("turn", "scores", "softmax", "sum")
third_us = step_times(STEPS, "attention_coalesced_steps")
ROWS = 1024
softmax_us = bound(stated(GPU), bytes_moved=2 * 4 * ROWS * ROWS).time_us
expected_us = third_us["turn"] + 2 * third_us["scores"] + softmax_us
publish(
    fourth={
        "rows": ROWS,
        "warps": ROWS // 32,
        "sms": GPU.sms,
        "column_passes": 3 * ROWS,
        "block_passes": 3 * ROWS // 256,
        "shuffles": 2 * 2 * 5,  # a maximum and a sum, within the warps and across them, in five steps each
        "scores_us": third_us["scores"],
        "columns_us": third_us["softmax"],
        "softmax_us": softmax_us,
        "expected_us": expected_us,
        "requests_us": 2 * 2 * ROWS * ROWS * 128 / 32 / GPU.sms / GPU.boost_mhz,
        "before_us": recorded("attention_coalesced.kernel_3_coalesced.n_1024_d_128.median"),
    }
)

# %% fold="Code of the measurement"
from tilewise.kernels.from_lesson import from_lesson
from tilewise.measurements.attention import stored_attention

(torch_three_operations,) = from_lesson("memory/coalescing_attention", "torch_three_operations")


def attended(Q, K, V, scale):
    """Every array that the launches write, in 64-bit floats."""
    return {"KT": K.T, **stored_attention(Q, K, V, scale)}


measure(
    "attention_reduced",
    variants={
        "Kernel 4: reduced by blocks": lambda N, d: kernel_4(attention(N, d)),
        "softmax by warps, one per row": lambda N, d: kernel_4(attention(N, d), "warps"),
    },
    cases=[{"N": 256, "d": 128}, {"N": 1024, "d": 128}],
    count_case={"N": 64, "d": 32},
    bytes=lambda N, d: 4 * 4 * N * d,
    flop=lambda N, d: 4 * N * N * d,
    library={"torch, three operations": torch_three_operations},
    reference=attended,
    tolerance=1e-4,
    counts=("sectors", "wavefronts"),
    reasons={"*": "Predict, then measure"},
    fold="All rows",
)

steps = measure(
    "attention_reduced_steps",
    variants={
        "transpose": lambda N, d: kernel_4(attention(N, d))[:1],
        "transpose, scores": lambda N, d: kernel_4(attention(N, d))[:2],
        "transpose, scores, softmax": lambda N, d: kernel_4(attention(N, d))[:3],
        "transpose, scores, softmax, weighted sum": lambda N, d: kernel_4(attention(N, d)),
    },
    cases=[{"N": ROWS, "d": 128}],
    count_case={"N": 64, "d": 32},
    reference=attended,
    tolerance=1e-4,
    fold="All four rows",
)

# %% fold="Code of the figure"
LABELS = {"turn": "transpose K", "scores": "scores", "softmax": "softmax", "sum": "weighted sum"}
fourth_us = step_times(STEPS, steps)
predicted_us = dict(
    zip(STEPS, (third_us["turn"], third_us["scores"], softmax_us, third_us["scores"]), strict=True)
)
show(
    bars(
        {
            LABELS[name]: {
                "Kernel 3": third_us[name],
                "predicted": predicted_us[name],
                "Kernel 4": fourth_us[name],
            }
            for name in STEPS
        },
        x="time [µs]",
        roles={"Kernel 3": "muted", "predicted": "predicted"},
        title="Kernel 4 is faster where Kernel 3 lacked threads",
        caption="The steps of Kernels 3 and 4 at N = 1,024 and d = 128 on an {machine}, and what we predicted for Kernel 4. Each time is the difference between a run that includes the step and one that stops before it.",
    )
)
publish(
    fourth_seen={
        "another_us": (
            recorded("sum_of_squares.five_kernels.n_4096.median")
            - recorded("sum_of_squares.fused.n_4096.median")
        )
        / 4
    }
    | {f"{name}_us": us for name, us in fourth_us.items()}
)

# %% fold="Code that profiles its kernels on a GPU" needs="gpu" record="counters"
from tilewise import gpu_here

if gpu_here():
    from tilewise.measurements.profiling import profiled, table_of
    from tilewise.measurements.side_by_side import Calls

    def kernels_of_4():
        """Calls of each kernel of Kernel 4 alone, and of softmax by warps."""
        calls = Calls()
        for label, launches in (
            ("by blocks", kernel_4(attention(ROWS, 128))),
            ("by warps", kernel_4(attention(ROWS, 128), "warps")[2:3]),
        ):
            for launch in launches:
                calls.add(f"{launch.kernel.name}, {label}", launch)
        return calls.by_label

    print(table_of(profiled("memory/reductions_attention", "counters", kernels_of_4)))

# %% fold="Code of the numbers"
from tilewise.measurements.profiling import printed_profiles, stall_fractions

softmax_alone = printed_profiles("memory/reductions_attention", "counters")["softmax_by_blocks, by blocks"]
waits = stall_fractions(softmax_alone)
alone = {
    "issue_us": softmax_alone["smsp__inst_executed.sum"] / (4 * GPU.sms) / GPU.boost_mhz,
    "loads": waits["long_scoreboard"],
    "barriers": waits["barrier"],
}
publish(alone=alone)
assert not alone["issue_us"] < softmax_us, "the text says that issuing takes longer than the bytes"
assert not max(set(waits.values()) - {alone["loads"]}, default=0) > alone["loads"], (
    "the text: waits for loads"
)
assert not alone["barriers"] > 0.1, "the text says that barriers hardly matter"

# %% [markdown]
# Kernel 4 takes {{ attention_reduced.kernel_4_reduced_by_blocks.n_1024_d_128.median | us }}. Softmax takes
# {{ fourth_seen.softmax_us | us }}. The prediction left out the [cost of one more kernel](fusion.py) in the stream,
# about {{ fourth_seen.another_us | .1f }} µs. It also left out the time to issue instructions, which is
# {{ alone.issue_us | .1f }} µs on an H200, more than it takes to move the bytes. The barriers hardly matter: a warp
# waits for loads {{ alone.loads | .0% }} of the time and at barriers only {{ alone.barriers | .0% }}.
#
# The weighted sum takes {{ fourth_seen.sum_us | us }}, more than predicted. It makes as many requests as the score
# kernel, but fewer of them are in flight: the compiler unrolls its loop by four and the score kernel's loop by sixteen.
#
# Both matrix multiplications still issue two load requests for each warp-wide multiply-add. At one request per cycle on
# each SM, these requests take {{ fourth.requests_us | us }} in total. Loading each value once and using it many times
# is what [tiled matrix multiplication](../matmul/tiling.py) is for.

# %% fold="The weighted sum unrolled by 16, and its measurement"
WEIGHTED_SUM_AHEAD = Kernel(r"""
extern "C" __global__
void weighted_sum_ahead(const float* P, const float* V, float* O,
                        int N, int d) {
    __shared__ float partial[8][32];
    int x = threadIdx.x, w = threadIdx.y;
    int c = blockIdx.x * 32 + x, i = blockIdx.y;
    float acc = 0.0f;
    if (c < d) {
        #pragma unroll 16  // sixteen keys in flight
        for (int j = w; j < N; j += 8)
            acc += P[i * N + j] * V[j * d + c];
    }
    partial[w][x] = acc;
    __syncthreads();  // all eight partial sums are stored
    if (w > 0 || c >= d) return;
    for (int k = 1; k < 8; ++k) acc += partial[k][x];
    O[i * d + c] = acc;
}
""")
agree(weighted_sum_shared, WEIGHTED_SUM_AHEAD, [part("sum", *size) for size in ((5, 3), (21, 50))], **near)

measure(
    "weighted_sums",
    variants={
        "as in Kernel 4": lambda N, d: WEIGHTED_SUM_SHARED.on(part("sum", N, d)),
        "unrolled by 16": lambda N, d: WEIGHTED_SUM_AHEAD.on(part("sum", N, d)),
    },
    cases=[{"N": ROWS, "d": 128}],
    count_case={"N": 64, "d": 32},
    reference=lambda P, V: {"O": P @ V},
    tolerance=1e-4,
    counts=("sectors", "requests"),
    fold="Both rows",
)

# %% fold="Code of the table"
from tilewise.measurements.attention import attention_so_far

show(attention_so_far(4))

# %% [markdown]
# ## Takeaways
#
# - One block per row fills the GPU; one thread per row leaves most of it idle.
# - `__shfl_xor_sync` gives the result of a warp's reduction to every lane. Softmax needs this twice per row.
# - Two successive reductions need two shared arrays, or another barrier between them.
#
# ## In your own kernel
#
# In Nsight Compute, a `launch__waves_per_multiprocessor` value far below 1 means that a kernel has too few threads:
# look for a reduction that a single thread performs. `compute-sanitizer --tool racecheck` finds the race that arises
# when a shared array is used again without a barrier in between.

# %%
from tilewise import exercise

exercise(
    "One warp per row",
    """
    With one warp per row instead of one block, softmax needs no shared memory at all. Why not, and when would you still prefer a
    block?
    """,
    hint="How many columns does each lane process, and how many rows are there?",
    explanation="All values of a row are then in one warp, so shuffles alone combine them. With few but long rows, one warp per row leaves most warp slots empty; a block per row fills more of them.",
)
