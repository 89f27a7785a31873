# ---
# title: "Kernel 5: attention with tiled GEMMs"
# needs: [matmul/tiling, memory/reductions]
# further: matmul/tiling
# summary: "Attention is two GEMMs with a softmax between them. How much faster does it get when both use tiles in shared memory?"
# description: "Kernel 5: QKᵀ and PV as tiled GEMMs, softmax with one warp per row, and why the scores need padded rows."
# date: 2026-11-23
# tags: [attention, tiling, shared memory]
# ---

# %% [markdown]
# In Kernel 3, both GEMMs of attention, $QK^\top$ and $PV$, had coalesced loads, but every thread loaded its operands
# from global memory, and three arrays ($Q$, the scores and the probabilities) were stored transposed. Now let both
# GEMMs use [32 × 32 tiles in shared memory](tiling.py#the-tiled-kernel). With N = 1,024 queries and keys and d = 128,
# how much faster is that than Kernel 3?

# %% [markdown]
# ## QKᵀ with padded tiles
#
# $PV$ is exactly the lesson's GEMM. $QK^\top$ differs, because both $Q$ and $K$ are contiguous along $k$: column $j$
# of $K^\top$ is row $j$ of $K$. So a block loads tiles of rows from both arrays, with coalesced loads for each. Then
# each thread multiplies a row of one tile by a row of the other.
#
# This multiplication is where bank conflicts arise. The lanes of a warp have consecutive $j$, so for each $k$ they read
# 32 different rows of the tile of $K$, all in the same column. If its rows are 32 words long, all elements of a column
# are in the same bank. One word of padding per row removes the conflict.


# %% tab="Pseudocode"
import numpy as np

from tilewise import (
    agree,
    case,
    ceil_div,
    check,
    measure,
    normal,
    output,
    parallel,
    publish,
    show,
    tiles,
)

T = 32


def scores_tiled(Q, K, S, scale):
    N, d = Q.shape
    for queries in tiles(N, T):
        for keys in tiles(N, T):
            acc = np.zeros((len(queries), len(keys)))
            for ks in tiles(d, T):
                smem_q, smem_k = Q[np.ix_(queries, ks)], K[np.ix_(keys, ks)]
                for i, j in parallel(len(queries), len(keys)):
                    for k in range(len(ks)):
                        acc[i, j] += smem_q[i, k] * smem_k[j, k]
            for i, j in parallel(len(queries), len(keys)):
                S[queries[i], keys[j]] = acc[i, j] * scale


# %% tab="CUDA C"
from tilewise import Kernel

SCORES_TILED = Kernel(r"""
// S = scale * Q K^T. Q and K: N x d, S: N x N, all row-major; N * N and N * d below 2^31.
// Block: 32 x 32 threads. Grid: ceil(N / 32) x ceil(N / 32). Any N and d.
extern "C" __global__
void scores_tiled(const float* Q, const float* K, float* S,
                  int N, int d, float scale) {
    __shared__ float smem_q[32][32], smem_k[32][33];  // New: padded rows
    int x = threadIdx.x, y = threadIdx.y;
    int row = blockIdx.y * 32 + y, j0 = blockIdx.x * 32;
    float acc = 0.0f;
    for (int k0 = 0; k0 < d; k0 += 32) {
        bool inside = k0 + x < d;
        smem_q[y][x] = row < N && inside ? Q[row * d + k0 + x] : 0.0f;
        smem_k[y][x] = j0 + y < N && inside ? K[(j0 + y) * d + k0 + x] : 0.0f;
        __syncthreads();  // both tiles are complete
        for (int k = 0; k < 32; ++k) acc += smem_q[y][k] * smem_k[x][k];
        __syncthreads();  // everyone has read them
    }
    if (row < N && j0 + x < N) S[row * N + j0 + x] = acc * scale;
}
""")

# %% [markdown]
# Launch it for 64 queries and 64 keys of 48 elements each:

# %%
Q = np.linspace(-1, 1, 64 * 48, dtype=np.float32).reshape(64, 48)
K = np.linspace(1, 0, 64 * 48, dtype=np.float32).reshape(64, 48)
S = np.zeros((64, 64), np.float32)
SCORES_TILED(Q, K, S, 64, 48, 0.125, grid=(2, 2), block=(32, 32))  # N, d, scale
print(np.allclose(S, 0.125 * Q @ K.T, atol=1e-4))

# %% [markdown]
# ## Softmax with one warp per row
#
# Softmax uses one warp per row, whereas [Kernel 4](../memory/reductions.py) used a whole block. The lanes read the row
# together, and combine their maxima and then their sums with shuffles.


# %% tab="Pseudocode"
def softmax_by_warp(S, P):
    N = len(S)
    for i in parallel(N):
        row_max = max(S[i])
        row_sum = sum(np.exp(S[i] - row_max))
        for j in parallel(N):
            P[i, j] = np.exp(S[i, j] - row_max) / row_sum


# %% tab="CUDA C"
SOFTMAX_BY_WARP = Kernel(r"""
// P = softmax of each row of S; both N x N, row-major. One warp per row.
// 1-D grid of ceil(N / (blockDim.x / 32)) blocks; blockDim.x a multiple of 32. Any N with N * N < 2^31.
extern "C" __global__
void softmax_by_warp(const float* S, float* P, int N) {
    int lane = threadIdx.x % 32;
    int i = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32;
    if (i >= N) return;  // all lanes of a warp, or none
    float row_max = -INFINITY, row_sum = 0.0f;
    for (int j = lane; j < N; j += 32) row_max = fmaxf(row_max, S[i * N + j]);
    for (int offset = 16; offset > 0; offset /= 2)
        row_max = fmaxf(row_max, __shfl_xor_sync(0xffffffff, row_max, offset));
    for (int j = lane; j < N; j += 32) row_sum += expf(S[i * N + j] - row_max);
    for (int offset = 16; offset > 0; offset /= 2)
        row_sum += __shfl_xor_sync(0xffffffff, row_sum, offset);
    for (int j = lane; j < N; j += 32) P[i * N + j] = expf(S[i * N + j] - row_max) / row_sum;
}
""")


# %% [markdown]
# The third kernel computes $PV$:

# %% fold="The kernel of PV"
WEIGHTED_SUM_TILED = Kernel(r"""
// O = P V. P: N x N, V and O: N x d, all row-major; N * N and N * d below 2^31.
// Block: 32 x 32 threads. Grid: ceil(d / 32) x ceil(N / 32). Any N and d.
extern "C" __global__
void weighted_sum_tiled(const float* P, const float* V, float* O,
                        int N, int d) {
    __shared__ float smem_p[32][32], smem_v[32][32];
    int x = threadIdx.x, y = threadIdx.y;
    int row = blockIdx.y * 32 + y, col = blockIdx.x * 32 + x;
    float acc = 0.0f;
    for (int j0 = 0; j0 < N; j0 += 32) {
        smem_p[y][x] = row < N && j0 + x < N ? P[row * N + j0 + x] : 0.0f;
        smem_v[y][x] = j0 + y < N && col < d ? V[(j0 + y) * d + col] : 0.0f;
        __syncthreads();  // both tiles are complete
        for (int j = 0; j < 32; ++j) acc += smem_p[y][j] * smem_v[j][x];
        __syncthreads();  // everyone has read them
    }
    if (row < N && col < d) O[row * d + col] = acc;
}
""")


# %% fold="Code of the checks"
from tilewise.kernel.chains import run_chain
from tilewise.measurements.attention import stored_attention


def attention(N, d):
    """One head, with room for scores and probabilities."""
    inputs = {"Q": normal(N, d), "K": normal(N, d), "V": normal(N, d)}
    written = {"S": output(N, N), "P": output(N, N), "O": output(N, d)}
    return case(**inputs, **written, N=N, d=d, scale=d**-0.5, grid=1, block=1)


def kernel_5(N, d):
    """The three launches of Kernel 5, in the order in which the stream runs them."""
    inputs, rows = attention(N, d), ceil_div(N, 32)
    return [
        SCORES_TILED.on(inputs, grid=(rows, rows), block=(32, 32)),
        SOFTMAX_BY_WARP.on(inputs, grid=ceil_div(N, 8), block=256),
        WEIGHTED_SUM_TILED.on(inputs, grid=(ceil_div(d, 32), rows), block=(32, 32)),
    ]


def scores(N, d):
    grid = (ceil_div(N, 32), ceil_div(N, 32))
    return case(
        Q=normal(N, d), K=normal(N, d), S=output(N, N), N=N, d=d, scale=d**-0.5, grid=grid, block=(32, 32)
    )


def rows_of(N, scale=3.0):
    return case(S=normal(N, N, scale=scale), P=output(N, N), N=N, grid=ceil_div(N, 8), block=256)


near = {"rtol": 1e-5, "atol": 1e-5}
agree(scores_tiled, SCORES_TILED, [scores(37, 41), scores(65, 7)], **near)
agree(softmax_by_warp, SOFTMAX_BY_WARP, [rows_of(37), rows_of(70), rows_of(21, scale=90.0)], **near)

run = run_chain(kernel_5(77, 45))
expected = stored_attention(run["Q"], run["K"], run["V"], run["scale"])
check(run["O"], expected["O"], rtol=1e-4, atol=1e-5, name="Kernel 5 against 64-bit NumPy")

# %% [markdown]
# Run the scores kernel with and without the padding. Which loads need more wavefronts?

# %% fold="Code of the run"
from tilewise import try_it
from tilewise.kernel.edits import edited

try_it(
    lambda N: scores(N, 32),
    {
        "padded rows": SCORES_TILED,
        "rows of 32": edited(SCORES_TILED, ("smem_k[32][33]", "smem_k[32][32]")),
    },
    N=(1, 32, 96),
)

# %% [markdown]
# ## Estimate: wavefronts of both GEMMs
#
# Each GEMM has {{ fifth.fma_1e6 | .0f }} million multiply-adds. $PV$ needs 1.5 wavefronts per warp-wide multiply-add,
# as in the lesson: one for the element of $V$, and half of one for $P$, since each 16-byte load along a row of $P$ is a
# broadcast that takes two wavefronts and serves four multiply-adds. $QK^\top$ needs 1.5 as well: one for the element of
# $K$, and half of one for $Q$, whose unpadded rows also allow 16-byte loads. Together, that's
# {{ fifth.gemms_us | us }}.
#
# Softmax reads the scores three times and writes its result once, {{ fifth.megabytes | .0f }} MB each time. At the peak
# bandwidth of device memory, that takes {{ fifth.softmax_us | us }}, or less if L2 serves part of the traffic. In
# total, we estimate {{ fifth.all_us | us }}.


# %% fold="Code of the estimate"
from tilewise.measurements import medians_us, recorded_device
from tilewise.measurements.attention import attention_so_far
from tilewise.models import stated

GPU = recorded_device()
CYCLES_PER_US = GPU.sms * GPU.boost_mhz  # of all SMs together
WAVEFRONTS = 1 + 2 / 4  # per multiply-add
N_BIG, D_BIG = 1024, 128
fifth_fma = N_BIG**2 * D_BIG
gemms_us = 2 * WAVEFRONTS * fifth_fma / 32 / CYCLES_PER_US
softmax_us = 4 * 4 * N_BIG**2 / stated(GPU).memory_gb_per_s / 1e3
ROWS, COLUMNS = ceil_div(N_BIG, T), ceil_div(D_BIG, T)  # of tiles
assert (ROWS * ROWS, ROWS * COLUMNS, ROWS / COLUMNS) == (1024, 128, 8), "the title and the text say so"
publish(
    fifth={
        "fma_1e6": fifth_fma / 1e6,
        "gemms_us": gemms_us,
        "softmax_us": softmax_us,
        "megabytes": 4 * N_BIG**2 / 1e6,
        "all_us": gemms_us + softmax_us,
    }
)

# %% fold="Code of the measurement"
tiled_attention = measure(
    "attention_tiled",
    variants={"Kernel 5: tiles": kernel_5},
    cases=[{"N": 256, "d": 128}, {"N": N_BIG, "d": D_BIG}],
    count_case={"N": 64, "d": 32},
    bytes=lambda N, d: 4 * 4 * N * d,
    flop=lambda N, d: 4 * N * N * d,
    reference=stored_attention,
    tolerance=1e-4,
    fold="Both rows",
    reasons={"*": "Estimate: wavefronts of both GEMMs"},
)

steps = measure(
    "attention_tiled_steps",
    variants={
        "scores": lambda N, d: kernel_5(N, d)[:1],
        "scores, softmax": lambda N, d: kernel_5(N, d)[:2],
        "scores, softmax, sum": kernel_5,
    },
    cases=[{"N": N_BIG, "d": D_BIG}],
    count_case={"N": 64, "d": 32},
    reference=stored_attention,
    tolerance=1e-4,
    fold="All three rows",
)


# %% fold="Code of the figures"
from tilewise.figures import bars
from tilewise.measurements import step_times

third_us = step_times(("transpose", "QKᵀ", "softmax", "PV"), "attention_coalesced_steps")
step_us = step_times(("QKᵀ", "softmax", "PV"), steps)
if np.isfinite([*third_us.values(), *step_us.values()]).all():
    estimate_us = {"QKᵀ": gemms_us / 2, "softmax": softmax_us, "PV": gemms_us / 2}
    assert gemms_us < step_us["QKᵀ"] + step_us["PV"] < 2 * gemms_us, "the text says over half"
    assert step_us["QKᵀ"] < step_us["PV"], "the text says that PV is slower"
    show(
        bars(
            {
                name: {"Kernel 3": third_us[name], "Kernel 5": step_us[name], "estimate": us}
                for name, us in estimate_us.items()
            },
            roles={"Kernel 3": "waste", "Kernel 5": "measured", "estimate": "predicted"},
            x="time [µs]",
            form=".0f",
            title="PV has an eighth as many blocks as QKᵀ, and takes longer",
            caption="The steps at N = 1,024, d = 128, recorded on an {machine}, each as the difference between a run with that step and one without it, and the estimate for Kernel 5. Kernel 3 also transposes three arrays. Both GEMMs do the same number of multiply-adds.",
        )
    )
show(attention_so_far(5))
FIFTH_US = medians_us(tiled_attention, "N")["Kernel 5: tiles", 1024]
counted = next((row["counted"] for row in tiled_attention.rows if row["counted"]), None) or {}
COUNTED_WAVEFRONTS = counted.get("shared_load_wavefronts", np.nan) / (2 * 64 * 64 * 32 / 32)
if np.isfinite(COUNTED_WAVEFRONTS):
    assert COUNTED_WAVEFRONTS == WAVEFRONTS, "the text says that the counter agrees"
publish(
    fifth_seen={
        "us": FIFTH_US,
        "times": sum(third_us.values()) / FIFTH_US,
        "wavefronts": COUNTED_WAVEFRONTS,
        "gemms_us": step_us["QKᵀ"] + step_us["PV"],
        "more": f"{step_us['PV'] / step_us['QKᵀ'] - 1:.0%}",
    }
)

# %% [markdown]
# Nsight Compute counts {{ fifth_seen.wavefronts | .1f }} wavefronts per multiply-add, as assumed.

# %% [markdown]
# ## Too few blocks
#
# Kernel 5 takes {{ fifth_seen.us | us }}, and the two GEMMs alone take {{ fifth_seen.gemms_us | us }}. The estimate
# leaves out the launches, the barriers and the first loads of each block, which weigh heavily when a block of $QK^\top$
# runs only four iterations of the loop.
#
# $PV$ takes {{ fifth_seen.more }} longer than $QK^\top$, although both do the same number of multiply-adds. What
# differs is the grid: $QK^\top$ has 1,024 blocks, but $PV$ has only 128 for 132 SMs. So each SM has at most one block
# of $PV$, and while that block waits at a barrier for its tiles, its SM computes nothing.

# %% [markdown]
# ## The answer
#
# Kernel 5 takes {{ fifth_seen.us | us }} and is {{ fifth_seen.times | .1f }}× faster than Kernel 3, without transposed copies. According to
# the estimate, shared-memory wavefronts account for over half of the GEMMs' time, and $PV$ also suffers from its small grid.

# %% [markdown]
# ## Takeaways
#
# - For $QK^\top$, a block loads rows of both arrays, but a warp then reads the tile of $K$ column by column. One word of padding per row
#   avoids the bank conflicts.
# - A 16-byte broadcast load takes two wavefronts, but it serves four multiply-adds, so each of them needs only half a wavefront.
# - The number of tiles limits the parallelism: with one block per SM, no other block can compute while that block waits at a barrier.

# %% [markdown]
# ## In your own kernel
#
# If a GEMM is slower than another with the same number of operations, compare their grids first: Nsight Compute's
# `launch__waves_per_multiprocessor` should be well above 1. Then look at the slower one's warp states, where
# `smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio` shows how much time warps spend waiting at
# barriers.

# %%
from tilewise import exercise

exercise(
    "Blocks of PV",
    "How many blocks does $PV$ have at N = 2,048 and d = 128, and how many on average per SM of an H100 with 132 SMs?",
    explanation="64 tiles of rows times 4 tiles of columns are 256 blocks, which is 1.9 per SM. Two of them fit on an SM, so most SMs have a second block that computes while the first one waits.",
)
