# ---
# title: "Bugs in published CUDA code: what the simulator found"
# needs: [memory/barriers, memory/reductions]
# further: memory/barriers
# summary: "We found seven kinds of mistake in published code, three of them in the kernels that train GPT-2 in llm.c. Which line is wrong in each?"
# description: "Races, a missing fence, an off-by-one guard and an unloaded corner in published CUDA code: each as a minimal kernel, with the hazard that the simulator reports and the fix."
# date: 2026-11-23
# tags: [races, barriers, fences, tools, tilewise trace]
# ---

# %% [markdown]
# `tilewise trace file.cu` simulates a kernel from any CUDA file, without a GPU, and reports each hazard with its line
# number. We ran it on a few hundred public files. Most of the kernels are correct. Below are the mistakes that we
# confirmed by reading the code: seven kinds in eleven places.
#
# | mistake | what it does | found in |
# |---|---|---|
# | [scratch array that two reductions share](#a-scratch-array-that-two-reductions-share) | one warp reads another reduction's value | llm.c, LeetGPU solutions, 100 days of CUDA |
# | [last block without a fence](#a-last-block-without-a-fence) | a block is missing from a grid-wide sum | llm.c |
# | [off-by-one guard](#an-off-by-one-guard) | a row past the end of the array is overwritten | llm.c |
# | [warp-synchronous code](#warp-synchronous-code-after-volta) | a lane reads its neighbour's word too early or too late | a book's examples and two courses |
# | [in-place permutation](#an-in-place-permutation) | an element is overwritten before it's read | HeCBench |
# | [tile without its corners](#a-tile-without-its-corners) | four pixels per tile come from stale shared memory | basic-cuda-tutorial |
# | [late store](#a-store-that-seems-to-have-no-effect) | an average includes 3.14 | Udacity CS344 |
#
# A test on a GPU seldom catches any of them, because each needs bad luck: a slow warp, a size that isn't a multiple of
# the tile, or blocks that finish in an unusual order. The simulator reports them on the first run, because it tracks
# which accesses are ordered, not which happened to come first.
#
# For each kind, we wrote the shortest kernel that has the same mistake. Can you spot it before you read the simulator's
# report?

# %% fold="Imports"
import numpy as np

from tilewise import Kernel, agree, ceil_div, constant, integers, show
from tilewise.figures import bars

# %% [markdown]
# ## A scratch array that two reductions share
#
# A block-wide sum ends with every thread reading `scratch[0]`. If the block then starts a second reduction in the same
# array, a fast warp may overwrite that word before a slow one has read it. In one launch out of many, the slow warp
# continues with a wrong mean, maximum or \gradient.

# %%
UNORDERED = Kernel(r"""
__device__ float block_sum(float value, float* scratch) {
    int t = threadIdx.x;
    scratch[t] = value;
    __syncthreads();
    for (int h = blockDim.x / 2; h > 0; h /= 2) {
        if (t < h) scratch[t] += scratch[t + h];
        __syncthreads();
    }
    return scratch[0];
}
extern "C" __global__
void variance(const float* x, float* out, int width) {
    __shared__ float scratch[128];
    bool inside = threadIdx.x < width;
    float v = inside ? x[blockIdx.x * width + threadIdx.x] : 0.0f;
    float mean = block_sum(v, scratch) / width;
    float d = inside ? v - mean : 0.0f;
    float total = block_sum(d * d, scratch);  // hazard: all read?
    if (threadIdx.x == 0) out[blockIdx.x] = total / width;
}
""")


# %% fold="Code of the check"
from tilewise import case, expect_hazard, normal, output


def rows(count, width):
    return case(x=normal(count, width), out=output(count), width=width, grid=count, block=128)


expect_hazard(UNORDERED.on(rows(2, 100)), "race", line_with="block_sum(d * d, scratch)")

# %% [markdown]
# To fix this, add one barrier after the read. Here's the corrected kernel, alongside pseudocode:


# %% tab="Pseudocode"
def variance(x, out, width):
    for r in range(len(out)):
        mean = 0.0
        for i in range(width):
            mean += x[r, i] / width
        total = 0.0
        for i in range(width):
            total += (x[r, i] - mean) ** 2
        out[r] = total / width


# %% tab="CUDA C"
VARIANCE = Kernel(r"""
__device__ float block_sum(float value, float* scratch) {
    int t = threadIdx.x;
    scratch[t] = value;
    __syncthreads();
    for (int h = blockDim.x / 2; h > 0; h /= 2) {
        if (t < h) scratch[t] += scratch[t + h];
        __syncthreads();
    }
    float sum = scratch[0];
    __syncthreads();  // every thread has read it: scratch is free again
    return sum;
}
extern "C" __global__
void variance(const float* x, float* out, int width) {
    __shared__ float scratch[128];
    bool inside = threadIdx.x < width;
    float v = inside ? x[blockIdx.x * width + threadIdx.x] : 0.0f;
    float mean = block_sum(v, scratch) / width;
    float d = inside ? v - mean : 0.0f;
    float total = block_sum(d * d, scratch);
    if (threadIdx.x == 0) out[blockIdx.x] = total / width;
}
""")

# %%
agree(variance, VARIANCE, [rows(1, 128), rows(3, 100), rows(2, 117)], rtol=1e-5)

# %% [markdown]
# **Found in**
#
# - [llm.c, `llmc/attention.cuh`](https://github.com/karpathy/llm.c/blob/f1e2ace651495b74ae22d45d1723443fd00ecd3a/llmc/attention.cuh#L176): the \backward pass of the
#   softmax reduces once per row, in a loop over four rows, and leaves the `final_sync` parameter of `blockReduce` at `false`.
# - [LeetGPU solutions by lzyrapx, `Softmax.cu`](https://github.com/lzyrapx/LeetGPU/blob/6f17c2ab85ab933e6e2faf038b6188ebf052843a/cuda/Softmax/Softmax.cu#L74): the sum of the exponentials is accumulated in the array that still holds the maximum.
# - [100 days of CUDA by maitiSoutrik, day 75](https://github.com/maitiSoutrik/100-days-of-cuda/blob/39cd69f36747d6b6af50830eb46d46cc7d7eae34/day075/fused_linear_softmax_loss.cu#L15): the same mistake, with the sum and the maximum in separate functions.
#
# ??? note "Draft of an issue for upstream: llm.c, attention.cuh"
#     **Possible race in softmax_autoregressive_backward_inplace_kernel.** The kernel calls `blockReduce<warpReduceSum>(local_sum)` once for each of
#     its four rows, without `final_sync`. Warp 0 may write `shared_val[0]` for the next row while another warp is still reading
#     `shared_val` for this row; there's no barrier between the two. The comment above `blockReduce` says to set `final_sync` to 1 in loops.
#     Passing `true` here orders the two. I haven't seen a wrong \gradient on hardware; a simulator that tracks barriers reports the two accesses.
#
# ??? note "Draft of an issue for upstream: LeetGPU, day 75"
#     **Shared array used again without a barrier.** After the maximum has been computed, all threads read it from element 0 of the shared
#     array. The sum reduction then writes to the same element, with no `__syncthreads()` in between, so a slow warp may read a partial sum
#     as its maximum. A `__syncthreads()` after the maximum has been read removes the race.

# %% [markdown]
# ## A last block without a fence
#
# To reduce over the whole grid in one launch, each block writes its partial sum to global memory and increments an
# atomic counter, and the block that increments it last adds up all the partial sums. `__syncthreads()` orders only the
# threads of *one* block. Without a *fence*, another block may see the new counter before it sees the partial sum, and
# then add whatever was in memory before. When memory is busy, a block's contribution is occasionally missing from the
# sum.

# %%
NO_FENCE = Kernel(r"""
extern "C" __global__
void total(const float* x, float* parts, unsigned* done, float* sum) {
    __shared__ bool is_last;
    if (threadIdx.x == 0) {
        parts[blockIdx.x] = x[blockIdx.x];
        is_last = atomicAdd(done, 1u) == gridDim.x - 1;
    }
    __syncthreads();
    if (is_last && threadIdx.x == 0) {
        float s = 0.0f;
        for (int b = 0; b < gridDim.x; ++b) s += parts[b];  // hazard: has the part arrived?
        *sum = s;
    }
}
""")

# %% fold="Code of the check"
from tilewise.kernel.edits import edited

blocks = case(
    x=normal(4), parts=output(4), done=constant(1, value=0, dtype="uint32"), sum=output(1), grid=4, block=32
)
expect_hazard(NO_FENCE.on(blocks), "race", line_with="s += parts[b]")
FENCED = edited(NO_FENCE, ("        is_last =", "        __threadfence();\n        is_last ="))
assert not FENCED.on(blocks).simulate(hazards="collect").hazards

# %% [markdown]
# A `__threadfence()` between the store and the atomic fixes this.
#
# **Found in** [llm.c,
# `llmc/layernorm.cuh`](https://github.com/karpathy/llm.c/blob/f1e2ace651495b74ae22d45d1723443fd00ecd3a/llmc/layernorm.cuh#L378),
# in the \backward pass of LayerNorm: all threads of a block store partial sums of `dbias` and `dweight`, and after a
# `__syncthreads()`, thread 0 increments the counter. One fence by thread 0 before the increment is enough to fix this:
# it covers all stores before the barrier.
#
# ??? note "Draft of an issue for upstream: llm.c, layernorm.cuh"
#     **Missing fence in layernorm_backward_kernel10.** Each block stores its partial sums to `scratch`, synchronises, and thread 0 executes
#     `atomicInc(scratchFlag, ...)`. The last block then reads the partial sums of all blocks. Nothing orders the stores before the atomic for
#     readers in other blocks: `__syncthreads()` has block scope, and `atomicInc` is relaxed. CUDA's threadFenceReduction sample has a `__threadfence()`
#     at this place. One before `atomicInc`, and one after the flag has been read, would make it safe.

# %% [markdown]
# ## An off-by-one guard
#
# The grid is rounded up, so the last block covers rows beyond the end, and a guard makes the threads of those rows
# return. Written with `>`, it lets one row too many through. If the rows fill the last block, nothing happens;
# otherwise, the kernel overwrites one row past the end of its arrays, which usually belongs to another tensor.

# %%
ONE_TOO_MANY = Kernel(r"""
extern "C" __global__
void add_rows(const float* a, const float* b, float* out, int rows, int width) {
    int row = blockIdx.x * blockDim.y + threadIdx.y;
    if (row > rows) return;
    for (int i = threadIdx.x; i < width; i += 32) {
        out[row * width + i] = a[row * width + i] + b[row * width + i];  // hazard: is this row there?
    }
}
""")


# %% fold="Code of the check"
def seven(block_rows):
    arrays = {"a": normal(7, 64), "b": normal(7, 64), "out": output(7, 64)}
    return case(**arrays, rows=7, width=64, grid=ceil_div(7, block_rows), block=(32, block_rows))


expect_hazard(ONE_TOO_MANY.on(seven(4)), "out of bounds", line_with="out[row * width + i]")
assert not ONE_TOO_MANY.on(seven(7)).simulate(hazards="collect").hazards  # one full block: nothing shows

# %% [markdown]
# Change the number of rows and the block height. At which sizes does the mistake stay hidden?

# %% fold="Code of the run"
from tilewise import try_it


def of_rows(rows, block_rows):
    arrays = {"a": normal(rows, 64), "b": normal(rows, 64), "out": output(rows, 64)}
    return case(**arrays, rows=rows, width=64, grid=ceil_div(rows, block_rows), block=(32, block_rows))


RIGHT = edited(ONE_TOO_MANY, ("row > rows", "row >= rows"))
try_it(of_rows, {"row > rows": ONE_TOO_MANY, "row >= rows": RIGHT}, rows=(1, 7, 32), block_rows=(1, 4, 16))

# %% [markdown]
# **Found in** [llm.c,
# `llmc/layernorm.cuh`](https://github.com/karpathy/llm.c/blob/f1e2ace651495b74ae22d45d1723443fd00ecd3a/llmc/layernorm.cuh#L165),
# in the fused residual and LayerNorm kernel: the guard is `idx > N`. The other LayerNorm kernels in the file have
# `idx >= N`.
#
# ??? note "Draft of an issue for upstream: llm.c, layernorm.cuh"
#     **Off-by-one guard in fused_residual_forward_kernel5.** The guard `if(idx > N) return;` lets row `N` through. If `N` isn't a multiple of
#     `blockDim.y`, one row past the end of `residual`, `normed`, `mean` and `rstd` is written, and one past both inputs is read. `idx >= N`, as in
#     layernorm_forward_kernel6, fixes it. With the default settings, B * T is a multiple of it, so training isn't affected.

# %% [markdown]
# ## Warp-synchronous code, after Volta
#
# Up to Pascal, the lanes of a warp ran in lockstep, and `volatile` was enough for the last steps of a tree reduction. Since Volta
# each lane has its own program counter. A lane may read its neighbour's word too early, or after the neighbour has already
# added to it.

# %%
LOCKSTEP = Kernel(r"""
extern "C" __global__
void sum_of_warp(const int* x, int* sum) {
    __shared__ int smem[64];
    int t = threadIdx.x;
    smem[t] = x[t];
    __syncthreads();
    volatile int* v = smem;
    if (t < 32) {
        v[t] += v[t + 32];
        v[t] += v[t + 16];  // hazard: has lane t + 16 added its own?
        v[t] += v[t + 8];
        v[t] += v[t + 4];
        v[t] += v[t + 2];
        v[t] += v[t + 1];
    }
    if (t == 0) *sum = v[0];
}
""")

# %% fold="Code of the check"
expect_hazard(
    LOCKSTEP.on(case(x=integers(64, low=0, high=100), sum=output(1, dtype="int32"), grid=1, block=64)),
    "race",
    line_with="v[t + 16]",
)

# %% [markdown]
# In every step, read, call `__syncwarp()`, write, and call `__syncwarp()` again; or use shuffles, as in [the lesson on reductions](../memory/reductions.py).
#
# **Found in** a book written before Volta, and in two public repositories that still use its pattern:
#
# - [the examples of *Professional CUDA C
#   Programming*](https://github.com/deeperlearning/professional-cuda-c-programming/blob/ee58310bcdcec62a609f02b6c5193452d8102183/examples/chapter05/reduceIntegerShfl.cu#L59)
#   (Cheng, Grossman, McKercher, 2014) and their solutions;
# - [CUDA_Freshman by Tony-Tan](https://github.com/Tony-Tan/CUDA_Freshman/blob/979938216fbbd8bc81ccbc525c4dd1f8c0c9fcbb/29_reduce_shfl/reduce_shfl.cu#L129), notes on that book;
# - [cuda_programming by
#   CoffeeBeforeArch](https://github.com/CoffeeBeforeArch/cuda_programming/blob/8711be08e2060680820304594f3691cc0016edd1/03_sum_reduction/device_function/sumReduction.cu#L18).
#
# ??? note "Draft of an issue for upstream: all three"
#     **Warp-synchronous reduction is unsafe since Volta.** The last six steps rely on the lanes of a warp running in lockstep, which
#     `volatile` doesn't guarantee on compute capability 7.0 and later (CUDA Programming Guide, Independent Thread Scheduling). Each step should read the neighbour's value into a
#     register, call `__syncwarp()`, add and store it, and call `__syncwarp()` again; `__shfl_down_sync` needs no shared memory at all.

# %% [markdown]
# ## An in-place permutation
#
# Lane `t` moves its element to another lane's position. All elements have to be read before the first one is written.
# Here a single statement reads and writes, and only lockstep execution would ensure that all reads come before all
# writes.

# %%
IN_PLACE = Kernel(r"""
extern "C" __global__
void permute(const int* to, int* x) {
    __shared__ int values[16];
    int t = threadIdx.x;
    values[t] = x[t];
    __syncwarp(0xffff);
    values[to[t]] = values[t];  // hazard: has its owner read that element?
    __syncwarp(0xffff);
    x[t] = values[t];
}
""")

# %% fold="Code of the check"
reversal = case(
    to=np.arange(16, dtype=np.int32)[::-1].copy(), x=integers(16, low=0, high=100), grid=1, block=16
)
expect_hazard(IN_PLACE.on(reversal), "race", line_with="values[to[t]] = values[t]")

# %% [markdown]
# **Found in** [HeCBench, `dxtc2-cuda`](https://github.com/zjin-lcf/HeCBench/blob/f27000a5188f8ac79bd43fc95a1b3f890c18823d/src/dxtc2-cuda/main.cu#L448), a texture compressor that sorts the 16 colours of a tile. It was taken from a CUDA sample that
# NVIDIA has since fixed: the sample now reads into a register, synchronises, and then writes.
#
# ??? note "Draft of an issue for upstream: HeCBench, dxtc2-cuda"
#     **Race in the colour permutation.** `colors[xrefs[idx]] = colors[idx]` reads and writes `colors` in 16 lanes without a barrier in
#     between, and the loop above it does the same with `xrefs`. The current cuda-samples version reads `colors[idx]` into a temporary,
#     calls `cg::sync(tile)`, and then stores it; the same change fits here.

# %% [markdown]
# ## A tile without its corners
#
# A stencil loads a tile with a halo one element wide: first the interior, and then the four sides, which are loaded by
# the threads along the edge. A 3 × 3 stencil needs the four corners as well. If no thread loads them, the element in
# each corner of every tile is computed from whatever an earlier block left in shared memory.

# %%
NO_CORNERS = Kernel(r"""
// x and y have a border of one element, too.
extern "C" __global__
void blur(const float* x, float* y, int width) {
    __shared__ float tile[10][10];
    int tx = threadIdx.x + 1, ty = threadIdx.y + 1;
    int col = blockIdx.x * 8 + tx, row = blockIdx.y * 8 + ty;
    tile[ty][tx] = x[row * width + col];
    if (tx == 1) tile[ty][0] = x[row * width + col - 1];
    if (tx == 8) tile[ty][9] = x[row * width + col + 1];
    if (ty == 1) tile[0][tx] = x[(row - 1) * width + col];
    if (ty == 8) tile[9][tx] = x[(row + 1) * width + col];
    __syncthreads();
    float sum = 0.0f;
    for (int i = -1; i <= 1; ++i) {
        for (int j = -1; j <= 1; ++j) sum += tile[ty + i][tx + j];  // hazard: corners?
    }
    y[row * width + col] = sum / 9;
}
""")

# %% fold="Code of the check"
image = case(x=normal(18, 18), y=output(18, 18), width=18, grid=(2, 2), block=(8, 8))
expect_hazard(NO_CORNERS.on(image), "uninitialised", line_with="sum += tile")

# %% [markdown]
# **Found in** [basic-cuda-tutorial by eunomia-bpf,
# `14-cuda-function-annotations.cu`](https://github.com/eunomia-bpf/basic-cuda-tutorial/blob/beb32ec8be77559b22b2ac87ee478e5079022c29/14-cuda-function-annotations.cu#L154),
# in a Gaussian blur.
#
# ??? note "Draft of an issue for upstream: basic-cuda-tutorial"
#     **gaussianBlur reads uninitialised shared memory.** The four corners of `tile` are never written, but the 3 × 3 filter reads them for the corner pixels of each
#     block. Loading the tile in a loop over all 18 × 18 elements (`for (int k = ty * 16 + tx; k < 324; k += 256)`) covers sides and corners
#     alike, without special cases.

# %% [markdown]
# ## A store that seems to have no effect
#
# A kernel ends with a store to shared memory whose value is never read. It looks harmless. But without a barrier before it, other warps may
# still be reading the old value of that word.

# %%
LATE_STORE = Kernel(r"""
extern "C" __global__
void means(const float* x, float* y) {
    __shared__ float smem[128];
    int t = threadIdx.x;
    smem[t] = x[t];
    __syncthreads();
    float sum = 0.0f;
    for (int i = 0; i < t; ++i) sum += smem[i];
    y[t] = sum / (t + 1);
    smem[t] = 3.14f;  // hazard: are the others done?
}
""")

# %% fold="Code of the check"
expect_hazard(
    LATE_STORE.on(case(x=normal(128), y=output(128), grid=1, block=128)), "race", line_with="smem[t] = 3.14f"
)

# %% [markdown]
# A compiler may remove a store whose value is never read, and then the kernel is correct by luck.
#
# **Found in** [Udacity's *Intro to Parallel Programming*, CS344, lesson
# 2](https://github.com/udacity/cs344/blob/853c0827fe8d645d10d22418de94cd57444fce21/Lesson%20Code%20Snippets/Lesson%202%20Code%20Snippets/memory.cu#L60),
# where the store is meant to show that the contents of shared memory don't outlive the block, and a comment says that
# the store has no effect.
#
# ??? note "Draft of an issue for upstream: CS344"
#     **memory.cu: the store "without effect" races with the averages.** Thread 0 may execute `sh_arr[index] = 3.14` while threads of other
#     warps are still summing `sh_arr[0..index-1]`, so their averages may include 3.14. A `__syncthreads()` before the last line makes the
#     comment true.

# %% [markdown]
# ## The whole list
#
# Most of these mistakes occur in reductions. A reduction writes the same few words, reads them and writes them again,
# and these steps have to be ordered.

# %% fold="Code of the figure"
FOUND = {
    "scratch reused": 3,
    "lockstep assumed": 3,
    "fence missing": 1,
    "guard off by one": 1,
    "permuted in place": 1,
    "corners not loaded": 1,
    "late store": 1,
}
assert (len(FOUND), sum(FOUND.values())) == (7, 11), "the text says so"
show(
    bars(
        FOUND,
        x="places in published code",
        form=".0f",
        title="Most mistakes are about order: a barrier, a fence or a __syncwarp is missing",
        caption="The number of places in which we found each kind of mistake.",
    )
)

# %% [markdown]
# To check one of your own files, run `tilewise trace file.cu`: it lists the kernels and proposes a launch for each.

# %% [markdown]
# ## Takeaways
#
# - After a result has been read from shared memory, a barrier is needed before that memory is overwritten.
# - `__syncthreads()` orders the threads of one block; for a reader in another block, the writer needs `__threadfence()` between data and flag.
# - Test with sizes that don't fill the last block: an off-by-one guard goes unnoticed at sizes that do.
# - Since Volta, `volatile` is no longer a substitute for `__syncwarp()`.
# - A passing test tells you only that the order was right this time.

# %%
from tilewise import exercise

exercise(
    "Reverse in place",
    "A block reverses 64 elements with `smem[63 - t] = smem[t]`, between two `__syncthreads()`. Is one more barrier enough, and where does it belong?",
    explanation="Yes: read `float v = smem[t]`, then `__syncthreads()`, then store `smem[63 - t] = v`. The barrier has to separate the reads from the stores, so they can't be one statement.",
)
