# ---
# title: "Stream-K: sharing the last wave"
# needs: [matmul/register_tiles, matmul/tiles_and_waves]
# summary: "512 tiles on 132 SMs leave 16 SMs idle in the last of four waves. How much of that lost time does Stream-K win back?"
# description: "Stream-K on an FP32 GEMM: split the tiles of the last wave along K so that every SM gets the same work, add partial tiles with atomics, and see when it pays off."
# date: 2026-11-23
# tags: [GEMM, Stream-K, waves, atomics, tile scheduler]
# ---

# %% [markdown]
# A GEMM of 4,096 × 4,096 matrices has 512 tiles of 128 × 256, and an H100 has 132 SMs. After three waves, 116 tiles are
# left. So in the fourth wave, 16 SMs idle for as long as a tile takes, and only {{ ask.full | .0% }} of the SMs' time
# is used.
#
# Those SMs idle only because each tile belongs to a single block. *Stream-K* (Osama et al.,
# [2023](https://arxiv.org/abs/2301.03598)) splits tiles along K instead, and every SM gets the same amount of work. In
# the figure, nine tiles run on five SMs. They take two waves with whole tiles and {{ small.waves | .1f }} with
# Stream-K.
#
# ??? definition "Stream-K"
#     Giving every block the same number of steps along K instead of the same number of tiles. A block may start or
#     end in the middle of a tile, and the parts of that tile are added up.

# %% fold="Imports, the schedule and code of the figure"
from itertools import pairwise

import numpy as np

from tilewise import Kernel, ceil_div, check, measure, parallel, publish, show, tiles
from tilewise.figures import Mark, Series, Span, line_chart, timeline
from tilewise.measurements import complete, medians_us, recorded_device
from tilewise.measurements.references import matrix_product

GPU = recorded_device()
SMS = GPU.sms
NOTHING = (0, 0, 0, 0)


def stream_k(order, blocks, k_steps):
    """Two work items per block, (tile row, tile column, first K step, K steps), and the first block with parts."""
    whole = len(order) // blocks * blocks
    rest, helpers = order[whole:], blocks - (len(order) - whole)
    if not 0 < helpers <= len(rest):  # nothing to split, or more than two blocks per tile
        whole, rest, helpers = len(order), [], 1
    work = [[(*tile, 0, k_steps), NOTHING] for tile in order[:whole]]
    for group in np.array_split(np.arange(len(rest)), helpers):  # n tiles for n + 1 blocks
        n = len(group)
        cuts = [piece * n * k_steps // (n + 1) for piece in range(n + 2)] if n else []
        for begin, end in pairwise(cuts):
            now, items = begin, []
            while now < end:
                at, first = divmod(now, k_steps)
                take = min(end - now, k_steps - first)
                items.append((*rest[group[at]], first, take))
                now += take
            work.append([*items, NOTHING][:2])
    return work, whole


def spans_of(work, blocks, name):
    """What each SM does, blocks assigned in order to the SM that is free first."""
    free, spans = [0.0] * blocks, []
    for number, items in enumerate(work):
        sm = min(range(blocks), key=lambda one: (free[one], one))
        for row, col, _, steps in items:
            if steps:
                begin, free[sm] = free[sm], free[sm] + steps
                role = "block" if steps < 10 else "tile"
                spans.append(Span(f"{name}, SM {sm}", begin, free[sm], f"{3 * row + col}", role))
    return sorted(spans, key=lambda span: (span.row, span.start)), max(free)


NINE = [(row, col) for row in range(3) for col in range(3)]
SPLIT_SPANS, LONGEST = spans_of(stream_k(NINE, 5, 10)[0], 5, "Stream-K")
WHOLE_SPANS, ALONE = spans_of([[(*tile, 0, 10), NOTHING] for tile in NINE], 5, "whole")
show(
    timeline(
        WHOLE_SPANS + SPLIT_SPANS,
        unit="K steps",
        title=f"Nine tiles on five SMs: {LONGEST:.0f} steps instead of {ALONE:.0f}",
        caption="Nine tiles of ten K steps each on five SMs, with one block per tile and with Stream-K. The number in each bar is the tile's index. In the lower half, tiles 5 to 8 are split once each, and every SM gets eight of their steps.",
        alt="Two timelines of five SMs. With whole tiles, one SM idles in the second wave. With Stream-K, all SMs finish together.",
    )
)
TILES = ceil_div(4096, 128) * ceil_div(4096, 256)
WHOLE = TILES // SMS * SMS
assert (TILES, SMS, TILES - WHOLE) == (512, 132, 116), "the text says so"
publish(
    ask={
        "full": TILES / (ceil_div(TILES, SMS) * SMS),
    },
    small={"waves": LONGEST / 10},
)

# %% [markdown]
# ## Splitting the last wave along K
#
# A tile of C is a sum over K, and a sum can be split. Whole tiles fill all waves but the last, one block per tile.
# Divide the remaining tiles and all the SMs into groups, each with one more SM than tiles. Within a group, line up the
# tiles end to end along K, and cut the line into equal pieces, one for each SM.
#
# Where do the cuts fall? Cutting a group of *n* tiles into *n* + 1 equal pieces takes *n* cuts, and exactly one falls
# into each tile. So exactly two blocks contribute to each tile. In the example, four tiles of ten steps are left for
# five SMs: one group, with cuts after 8, 16, 24 and 32 of 40 steps. With 4,096 rows and columns, 116 tiles are left for
# 132 SMs, which makes {{ groups.number }} groups of {{ groups.least }} or {{ groups.most }} tiles.
#
# Osama et al. call this schedule *data-parallel + one-tile Stream-K*. The host computes a list of work items, two per
# block, of which the second may be empty. Each item has a tile's row and column, the first K step, and the number of
# steps.

# %%
work, _ = stream_k(NINE, blocks=5, k_steps=10)  # nine tiles, five SMs
for number, items in enumerate(work[5:], start=5):
    parts = [f"tile {tile} from step {k}, {n} steps" for *tile, k, n in items if n]
    print(f"block {number}:", ", ".join(parts))

# %% fold="Checks of the schedule, and numbers for the text"
for many, blocks, steps in ((512, 132, 128), (2048, 132, 256), (9, 5, 10), (128, 132, 64), (32, 132, 32)):
    work, _ = stream_k([(at, 0) for at in range(many)], blocks, steps)
    done, adders = np.zeros(many, int), np.zeros(many, int)
    for items in work:
        for row, _, _, taken in items:
            done[row] += taken
            adders[row] += taken > 0
    check(done, np.full(many, steps), name=f"K steps of {many} tiles on {blocks} SMs")
    assert adders.max() <= 2, "three blocks add to one tile"


def waves_of(n, width=256):
    """Waves of whole tiles, waves of Stream-K, and how many tiles it splits."""
    at_once, steps = SMS * 256 // width, ceil_div(n, 32)
    many = ceil_div(n, 128) * ceil_div(n, width)
    work, whole = stream_k([(at, 0) for at in range(many)], at_once, steps)
    longest = max((sum(taken for *_, taken in items) for items in work[whole:]), default=0)
    return (
        ceil_div(many, at_once),
        whole / at_once + longest / steps if whole < many else ceil_div(many, at_once),
        many - whole,
    )


ONE, SHARED_OUT, _ = waves_of(4096)
GROUPS = [len(group) for group in np.array_split(np.arange(TILES - WHOLE), SMS - (TILES - WHOLE))]
publish(
    ideal={"waves": SHARED_OUT, "before": ONE, "percent": ONE / SHARED_OUT - 1},
    groups={
        "number": len(GROUPS),
        "least": min(GROUPS),
        "most": max(GROUPS),
        "most_sms": max(GROUPS) + 1,
    },
)
check(
    SHARED_OUT,
    ONE - 1 + ceil_div(128 * max(GROUPS), max(GROUPS) + 1) / 128,
    name="waves: the largest group finishes last",
)

# %% [markdown]
# For 4,096 rows and columns, the largest groups, of {{ groups.most }} tiles on {{ groups.most_sms }} SMs, finish last.
# So {{ ideal.before }} waves become {{ ideal.waves | .2f }}, and by this count Stream-K is {{ ideal.percent | .1% }}
# faster. The gain depends on the size. A tile count just above a multiple of the number of SMs wastes most of a wave;
# with many waves, the last one hardly matters:

# %% fold="Code of the figure"
SIZES_SHOWN = range(1024, 8193, 256)


def busy_percent(n, waves):
    return 100 * ceil_div(n, 128) * ceil_div(n, 256) / SMS / waves


show(
    line_chart(
        [
            Series(
                "last wave split",
                SIZES_SHOWN,
                [busy_percent(n, waves_of(n)[1]) for n in SIZES_SHOWN],
                role="read",
            ),
            Series(
                "whole tiles",
                SIZES_SHOWN,
                [busy_percent(n, waves_of(n)[0]) for n in SIZES_SHOWN],
                role="waste",
            ),
        ],
        x="rows and columns",
        y="SMs busy [%]",
        y_range=(0, 100),
        title="Splitting the last wave keeps nearly all SMs busy if that wave is at least half full",
        caption=f"Percentage of the {SMS} SMs that have work, averaged over all waves, computed for square GEMMs with tiles of 128 × 256. The schedule splits a last wave only if at least half of the SMs have a tile in it.",
    )
)

# %% [markdown]
# Where both lines are low, fewer than half of the SMs would have a tile in the last wave. Sharing those tiles among all SMs would
# take three blocks or more per tile, and our schedule doesn't do that. Osama et al. share the last *two* waves instead (*two-tile Stream-K*).
#
# ## The kernel: a GEMM that reads a work list
#
# The kernel is the best FP32 GEMM from [Register tiling](register_tiles.py). Only two things are new: a block loops
# over its two work items, and it adds partial tiles to C with atomics instead of storing them.

# %% fold="The helper functions, from the lesson on register tiling"
HELPERS = r"""
#ifndef COLUMNS
#define COLUMNS 16  // accumulators per thread: 8 rows of COLUMNS
#endif
#define STAGES (COLUMNS == 16 ? 3 : 2)
#define PAD 4
#define DEEP 32
#define ROWS 128
#define WIDTH (16 * COLUMNS)
#define A_ROW (ROWS + PAD)
#define STAGE (DEEP * (A_ROW + WIDTH))
#define GROUP 16  // unrolled steps of k
#define UNROLL _Pragma("unroll")

// Asynchronous copies of 4 and 16 bytes. Outside the matrix they write zeros.
__device__ void cp_async4(unsigned to, const float* from, bool valid) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
        :: "r"(to), "l"(from), "r"(valid ? 4 : 0) : "memory");
}
__device__ void cp_async16(unsigned to, const float* from, bool valid) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
        :: "r"(to), "l"(from), "r"(valid ? 16 : 0) : "memory");
}
__device__ void cp_async_commit() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}
__device__ void cp_async_wait() {  // for all but the newest STAGES - 2 groups
    asm volatile("cp.async.wait_group %0;" :: "n"(STAGES - 2) : "memory");
}

#define FMA(i, j) acc[i][j] += element(frag_a[u], i) * element(frag_b[u], j);
#define COL_DOWN(j) FMA(0, j) FMA(1, j) FMA(2, j) FMA(3, j) \
                FMA(4, j) FMA(5, j) FMA(6, j) FMA(7, j)
#define COL_UP(j)   FMA(7, j) FMA(6, j) FMA(5, j) FMA(4, j) \
                FMA(3, j) FMA(2, j) FMA(1, j) FMA(0, j)
#define TWO_COLS(j) COL_DOWN(j) COL_UP(j + 1)
#if COLUMNS == 8
#define OUTER_PRODUCT TWO_COLS(0) TWO_COLS(2) TWO_COLS(4) TWO_COLS(6)
#else
#define OUTER_PRODUCT TWO_COLS(0) TWO_COLS(2) TWO_COLS(4) TWO_COLS(6) \
                 TWO_COLS(8) TWO_COLS(10) TWO_COLS(12) TWO_COLS(14)
#endif
#define LOAD_FRAGMENTS(to, k) \
    UNROLL for (int h = 0; h < 2; ++h) \
        frag_a[to][h] = *(const float4*)(pa + (k) * A_ROW + 32 * h); \
    UNROLL for (int h = 0; h < COLUMNS / 4; ++h) \
        frag_b[to][h] = *(const float4*)(pb + (k) * WIDTH + 16 * h);
__device__ float element(const float4* v, int i) {
    float4 f = v[i / 4];
    return i % 4 == 0 ? f.x : i % 4 == 1 ? f.y : i % 4 == 2 ? f.z : f.w;
}

struct Source {
    const float* rows[4];  // of A, where this thread copies next
    const float* b;
    int a_k, b_k;          // its k in A's tile and in B's
    unsigned to_a, to_b;   // shared-memory addresses in the first stage
};

#define B_ROWS (1024 / WIDTH)  // rows of B that the block copies at once

// Starts the copies of one stage: DEEP columns of A, transposed, and DEEP rows of B.
__device__ void fetch(Source& from, unsigned stage, int left, int N) {
    UNROLL for (int r = 0; r < 4; ++r) {
        UNROLL for (int p = 0; p < DEEP; p += 8)
            cp_async4(from.to_a + stage + 4 * (p * A_ROW + 4 * r),
                  from.rows[r] + p, from.a_k + p < left);
        from.rows[r] += DEEP;
    }
    UNROLL for (int p = 0; p < DEEP; p += B_ROWS) {
        cp_async16(from.to_b + stage + 4 * p * WIDTH, from.b, from.b_k + p < left);
        from.b += (size_t)B_ROWS * N;
    }
}
"""


# %% tab="Pseudocode"
def gemm_stream_k(A, B, C, shares):
    (M, K), N = A.shape, B.shape[1]
    high, wide = [*tiles(M, 128)], [*tiles(N, 256)]
    for block in parallel(len(shares)):
        # [items
        for row, col, first, steps in shares[block]:
            ks = range(32 * first, min(32 * (first + steps), K))
            # items]
            partial = A[high[row]][:, ks] @ B[ks][:, wide[col]]
            # [store
            C[np.ix_(high[row], wide[col])] += partial  # zeros before
            # store]


# %% tab="CUDA C"
STREAM_K = Kernel(
    HELPERS
    + r"""
// C = A B in FP32 from a list of work. A: M x K, B: K x N, C: M x N, row-major; 4 must divide N,
// and B and C must start at multiples of 16 bytes.
// shares: two work items per block, {tile row, tile column, first K step, K steps}; a K step is 32
// of K. An item with 0 steps ends a block's list. Tiles are 128 x (16 * COLUMNS). A tile that is
// split must hold zeros at the launch (clear_split_tiles), and at most two items may add to it.
// Grid: one block per pair of items. Block: 256. Shared memory: 4 * STAGES * STAGE bytes.
// Compute capability 8.0 or later.
extern "C" __global__ __launch_bounds__(256, COLUMNS == 16 ? 1 : 2)
void gemm_stream_k(const float* A, const float* B, float* C, const int4* shares,
                   int M, int N, int K) {
    extern __shared__ __align__(16) float smem[];
    int lane = threadIdx.x % 32, warp_id = threadIdx.x / 32;
    int row = warp_id % 2 * 64 + lane / 2 % 8 * 4;
    int col = warp_id / 2 * (WIDTH / 4) + (lane % 2 + lane / 16 * 2) * 4;
    float* smem_b = smem + DEEP * A_ROW;
    // [items
    for (int entry = 0; entry < 2; ++entry) {  // New: up to two work items
        int4 item = shares[2 * blockIdx.x + entry];
        if (item.w == 0) break;
        int row0 = item.x * ROWS, col0 = item.y * WIDTH, start = item.z * DEEP;
        int length = min(item.w * DEEP, K - start);
        bool is_whole = length == K;
        // items]
        Source from;
        int m = warp_id * 16 + lane / 8, n = threadIdx.x % (WIDTH / 4) * 4;
        from.a_k = lane % 8;
        from.b_k = threadIdx.x / (WIDTH / 4);
        UNROLL for (int r = 0; r < 4; ++r)  // beyond M: another row, not stored
            from.rows[r] = A + (size_t)min(row0 + m + 4 * r, M - 1) * K + start + from.a_k;
        from.b = B + (size_t)(start + from.b_k) * N + min(col0 + n, N - 4);
        from.to_a = (unsigned)__cvta_generic_to_shared(smem + from.a_k * A_ROW + m);
        from.to_b = (unsigned)__cvta_generic_to_shared(smem_b + from.b_k * WIDTH + n);
        int steps = (length + DEEP - 1) / DEEP;
        float acc[8][COLUMNS] = {};
        float4 frag_a[2][2], frag_b[2][COLUMNS / 4];
        UNROLL for (int p = 0; p < STAGES - 1; ++p) {
            if (p < steps) fetch(from, 4 * p * STAGE, length - p * DEEP, N);
            cp_async_commit();
        }
        cp_async_wait();
        __syncthreads();  // the first stage has arrived
        const float* pa = smem + row;
        const float* pb = smem_b + col;
        LOAD_FRAGMENTS(0, 0)
        for (int step = 0, now = 0; step < steps; ++step) {
            int after = step + STAGES - 1;
            unsigned stage = 4 * (after % STAGES) * STAGE;
            if (after < length / DEEP) fetch(from, stage, DEEP, N);
            else if (after < steps) fetch(from, stage, length % DEEP, N);
            cp_async_commit();
            int next = step + 1 < steps ? (now + 1) % STAGES : now;
            _Pragma("unroll 1")
            for (int done = GROUP; done <= DEEP; done += GROUP) {
                UNROLL for (int k = 0; k < GROUP; ++k) {
                    const int u = k % 2;  // the fragments in use
                    if (k < GROUP - 1) {
                        LOAD_FRAGMENTS(1 - u, k + 1)
                    } else {
                        pa += GROUP * A_ROW;
                        pb += GROUP * WIDTH;
                        if (done == DEEP) {
                            cp_async_wait();
                            __syncthreads();  // next stage arrived, this one is read
                            pa = smem + next * STAGE + row;
                            pb = smem_b + next * STAGE + col;
                        }
                        LOAD_FRAGMENTS(0, 0)
                    }
                    OUTER_PRODUCT
                }
            }
            now = next;
        }
        // [store
        UNROLL for (int r = 0; r < 8; ++r) {
            int i = row0 + row + r % 4 + r / 4 * 32;
            UNROLL for (int h = 0; h < COLUMNS / 4; ++h) {
                int j = col0 + col + 16 * h;
                float* to = C + (size_t)i * N + j;
                float* v = &acc[r][4 * h];  // + 0.0f: a copy, in another register
                float4 w = {v[0] + 0.0f, v[1] + 0.0f, v[2] + 0.0f, v[3] + 0.0f};
                if (i >= M || j >= N) continue;
                if (is_whole) {
                    *(float4*)to = w;
                } else {  // New: another block adds its part, too
                    atomicAdd(to, w.x);
                    atomicAdd(to + 1, w.y);
                    atomicAdd(to + 2, w.z);
                    atomicAdd(to + 3, w.w);
                }
            }
        }
        // store]
        __syncthreads();  // all warps have read the stages: the next item may fill them
    }
}
"""
)

# %% [markdown]
# Run it on one tile that two blocks share. Each computes one of the two K steps.

# %%
A, B, C = np.ones((64, 64), np.float32), np.full((64, 256), 0.5, np.float32), np.zeros((64, 256), np.float32)
work = np.array([[(0, 0, 0, 1), NOTHING], [(0, 0, 1, 1), NOTHING]], np.int32)
STREAM_K(A, B, C, work, 64, 256, 64, grid=2, block=256, shared_bytes=4 * 3 * 32 * 388)  # M, N, K
print(C[0, 0], C[63, 255], "= 64 times 1 times 0.5")

# %% [markdown]
# In the code, the two changes look like this:

# %%
STREAM_K.region("items")

# %%
STREAM_K.region("store")

# %% [markdown]
# Don't forget the barrier at the end of the loop. Without it, a fast warp fills the stages for its second
# item while a slow warp is still reading them for the first, and the simulator reports a race.

# %% fold="Code of the checks"


from tilewise import agree, case, constant, expect_hazard
from tilewise.kernel.edits import edited
from tilewise.measurements.references import product_inputs


def grouped(high, wide):
    return [
        (i, j) for group in range(0, high, 8) for j in range(wide) for i in range(group, min(group + 8, high))
    ]


def work_of(M, N, K, blocks, split, columns=16):
    order, steps = grouped(ceil_div(M, 128), ceil_div(N, 16 * columns)), ceil_div(K, 32)
    work, whole = stream_k(order, blocks if split else 1, steps)
    return np.array(work, np.int32), whole


def with_work(M, N, K, blocks, columns=16):
    work, _ = work_of(M, N, K, blocks, True, columns)
    arrays = product_inputs(M, N, K) | {"C": constant(M, N, value=0.0)}
    return case(**arrays, shares=work, grid=len(work), block=256, shared_bytes=stage_bytes(columns))


def stage_bytes(columns=16):
    return 4 * (3 if columns == 16 else 2) * 32 * (128 + 4 + 16 * columns)


close = {"rtol": 1e-5, "atol": 1e-5}
agree(
    gemm_stream_k,
    STREAM_K,
    [with_work(*size) for size in ((250, 508, 165, 5), (131, 260, 100, 5))],
    **close,
)
LAST_BARRIER = "        __syncthreads();  // all warps have read the stages: the next item may fill them\n"
careless = edited(STREAM_K, (LAST_BARRIER, ""))
expect_hazard(careless.on(with_work(250, 508, 165, 5)), "race", line_with="LOAD_FRAGMENTS(0, 0)")

# %% [markdown]
# Split two tiles among two, three or four blocks. How many atomics does it take to add the partial tiles?

# %% fold="Code of the run"
from tilewise import try_it

SMALL = Kernel(STREAM_K.source, defines={"COLUMNS": 8})
try_it({f"{blocks} blocks": SMALL.on(with_work(128, 256, 192, blocks, columns=8)) for blocks in (2, 3, 4)})

# %% [markdown]
# ## Fix-up: adding partial tiles
#
# Atomic additions have to start from zero. A small kernel launched before the GEMM clears the split tiles, and only those.

# %% fold="The kernel that clears the split tiles"
CLEAR = Kernel(r"""
#ifndef COLUMNS
#define COLUMNS 16
#endif
#define WIDTH (16 * COLUMNS)

// Zeros in all tiles of C that the list of work splits; the list is that of gemm_stream_k.
// first_block: the first block whose items are parts. Grid: the blocks from there on. Block: any.
extern "C" __global__
void clear_split_tiles(float* C, const int4* shares, int first_block,
                       int M, int N, int K) {
    for (int entry = 0; entry < 2; ++entry) {
        int4 item = shares[2 * (first_block + blockIdx.x) + entry];
        if (item.w == 0 || item.z > 0 || 32 * item.w >= K) continue;
        for (int n = threadIdx.x; n < 128 * WIDTH; n += blockDim.x) {
            int i = item.x * 128 + n / WIDTH, j = item.y * WIDTH + n % WIDTH;
            if (i < M && j < N) C[(size_t)i * N + j] = 0.0f;
        }
    }
}
""")

# %% [markdown]
# Floating-point atomics usually make results depend on the order of the blocks. Here they don't: 0 + *a* is exact, and
# *a* + *b* = *b* + *a*. With two parts per tile, the result is the same in every run, bit for bit. With three
# parts it may differ, because rounding depends on the order.
#
# Osama et al. and \CUTLASS do the fix-up differently. A block that has only part of a tile writes it to a workspace and
# sets a flag. The block that finishes the tile waits for the flag and adds the parts. But a waiting block occupies its
# SM, so the schedule must ensure that the other blocks of its tile can always run.

# %% fold="Code of the checks"


def gemm(split=True, columns=16, blocks=None):
    """The launches of a GEMM: zeros where they are needed, and the kernel.

    So many blocks run at once: one of wide tiles on each SM, or two of square ones.
    """
    kernel = Kernel(STREAM_K.source, defines={"COLUMNS": columns})
    clear = Kernel(CLEAR.source, defines={"COLUMNS": columns})
    at_once = blocks or SMS * 16 // columns

    def launches(M, N, K):
        work, whole = work_of(M, N, K, at_once, split, columns)
        arrays = product_inputs(M, N, K) | {"shares": work}
        inputs = case(
            **arrays, first_block=whole, grid=len(work), block=256, shared_bytes=stage_bytes(columns)
        )
        main = kernel.on(inputs)
        return [clear.on(inputs, grid=len(work) - whole), main] if whole < len(work) else main

    return launches


SQUARE = Kernel(STREAM_K.source, defines={"COLUMNS": 8})
held = SQUARE.on(with_work(250, 256, 165, 5, columns=8)).run()
check(held["C"], matrix_product(held["A"], held["B"])["C"], **close, name="C by parts of 128 × 128 tiles")
for columns, M, N, K in ((16, 250, 508, 165), (16, 300, 700, 100), (8, 300, 380, 165)):
    zeros, parts = gemm(columns=columns, blocks=5)(M, N, K)  # four tiles for five blocks, or nine
    arrays = zeros.run()
    parts.run(arrays)
    name = f"zeros, then parts by {columns} columns: {M} × {K} times {K} × {N}"
    check(arrays["C"], np.float64(arrays["A"]) @ np.float64(arrays["B"]), **close, name=name)

# %% [markdown]
# ## Estimate: waves saved against the cost of the fix-up
#
# Stream-K saves part of a wave, but every split tile has to be cleared first and then updated twice with atomics
# instead of being stored once. So expect a gain where idle SMs in the last wave waste a large part of the total time,
# and a loss where the saving is small and *every* tile is split.
#
# We time three sizes, and two tile shapes: 128 × 256 with one block per SM, and 128 × 128 with two.

# %% fold="Code of the measurement"
from tilewise.kernels.from_lesson import from_lesson

VARIANTS = {
    "128 × 256, whole tiles": gemm(split=False),
    "128 × 256, Stream-K": gemm(),
    "128 × 128, whole tiles": gemm(columns=8, split=False),
    "128 × 128, Stream-K": gemm(columns=8),
}
LT, cublas, cublas_lt = from_lesson("matmul/register_tiles", "LT", "cublas", "cublas_lt")

last_wave = measure(
    "fp32_last_round",
    variants=VARIANTS,
    cases=[{"M": n, "N": n, "K": n} for n in (2048, 4096, 8192)],
    count_case={"M": 250, "N": 508, "K": 165},
    bytes=lambda M, N, K: 4 * (M * K + K * N + M * N),
    flop=lambda M, N, K: 2 * M * N * K,
    library={"cuBLAS": cublas, LT: cublas_lt},
    reference=matrix_product,
    tolerance=1e-4,
    reasons={"*": "Estimate: waves saved against the cost of the fix-up"},
    fold="All rows",
)

# %% fold="Code of the figure"
US = medians_us(last_wave, "M")
SQUARES = (2048, 4096, 8192)
TILE_NAMES = {"128 × 256": 256, "128 × 128": 128}


def gain(tile, n):
    return US[f"{tile}, whole tiles", n] / US[f"{tile}, Stream-K", n]


def saved_us(tile, n):
    """What the schedule saves if all tiles take equally long, in microseconds."""
    before, after, _ = waves_of(n, TILE_NAMES[tile])
    return US[f"{tile}, whole tiles", n] * (1 - after / before)


def fix_up_us(tile, n):
    """What is missing of that in the measurement: the price of zeros and atomics."""
    return saved_us(tile, n) - (US[f"{tile}, whole tiles", n] - US[f"{tile}, Stream-K", n])


IDEAL = {n: waves_of(n)[0] / waves_of(n)[1] for n in SQUARES}
if complete(US):
    for tile, width in TILE_NAMES.items():
        assert gain(tile, 2048) < 0.95, "the text says that Stream-K loses at 2,048"
        assert 1 < gain(tile, 4096) < IDEAL[4096], "the text says that fix-up costs a part of the gain"
        assert 1 < gain(tile, 8192) / IDEAL[8192] < 1.006, "the text says how far the model is off"
        assert waves_of(4096, width)[:2] == waves_of(4096)[:2], "the text has one ideal for both tiles"
    show(
        line_chart(
            [
                Series("ideal", SQUARES, list(IDEAL.values()), role="predicted"),
                Series("128 × 256 tiles", SQUARES, [gain("128 × 256", n) for n in SQUARES]),
                Series("128 × 128 tiles", SQUARES, [gain("128 × 128", n) for n in SQUARES], role="block"),
            ],
            x="rows and columns",
            y="speedup by Stream-K",
            y_range=(0.88, 1.06),
            marks=[Mark("whole tiles", y=1.0)],
            title="Stream-K pays off at 4,096 and above, and loses at 2,048",
            caption="Time with whole tiles divided by the time with the last wave split, including the clearing of the split tiles, for square FP32 GEMMs on an {machine}. 'Ideal' counts waves only.",
        )
    )
publish(
    gained={"wide_2048": gain("128 × 256", 2048)},
    percent={
        f"{'wide' if width == 256 else 'square'}_{n}": gain(tile, n) - 1
        for tile, width in TILE_NAMES.items()
        for n in SQUARES
    }
    | {f"ideal_{n}": IDEAL[n] - 1 for n in SQUARES},
    saved={f"n{n}": saved_us("128 × 256", n) for n in SQUARES},
    fix_up={f"n{n}": fix_up_us("128 × 256", n) for n in SQUARES},
    split={f"n{n}": waves_of(n)[2] for n in (2048, 4096)},
    won={"part": 1 - fix_up_us("128 × 256", 4096) / saved_us("128 × 256", 4096)},
    of_cublas={
        "before": US["cuBLAS", 4096] / US["128 × 256, whole tiles", 4096],
        "after": US["cuBLAS", 4096] / US["128 × 256, Stream-K", 4096],
        "square_8192": US["cuBLAS", 8192] / US["128 × 128, Stream-K", 8192],
    },
)

# %% [markdown]
# ## Measured: when Stream-K pays off
#
# At 4,096, Stream-K is {{ percent.wide_4096 | .1% }} faster with wide tiles and {{ percent.square_4096 | .1% }} faster
# with square ones. The ideal was {{ percent.ideal_4096 | .1% }}. By the wave count, the schedule should save
# {{ saved.n4096 | .0f }} µs; the measured saving is {{ fix_up.n4096 | .0f }} µs smaller. We attribute this difference
# to the fix-up of {{ split.n4096 }} tiles: clearing them, adding with atomics, and filling the pipeline once more for
# each second item.
#
# At 2,048, Stream-K runs at {{ gained.wide_2048 | .2f }}× the speed of whole tiles. All {{ split.n2048 }} tiles fit in
# one wave, which is nearly full. So the schedule can save only {{ saved.n2048 | .1f }} µs, but it splits every tile,
# and the fix-up costs {{ fix_up.n2048 | .0f }} µs.
#
# At 8,192, both tile shapes gain slightly more than the ideal {{ percent.ideal_8192 | .1% }}: {{ percent.wide_8192 | .1% }} and
# {{ percent.square_8192 | .1% }}. So the ideal is an estimate, not a bound: it assumes that all tiles take the same time and that a wave
# begins only when the previous one has ended.
#
# At 4,096, Stream-K takes the wide tiles from {{ of_cublas.before | .1% }} to {{ of_cublas.after | .1% }} of cuBLAS's
# rate; at 8,192, square tiles with Stream-K reach {{ of_cublas.square_8192 | .1% }}. What about a GEMM with fewer tiles
# than SMs, which has no full wave at all? See the further reading: [Small GEMMs](shared_tiles_small.py).

# %% [markdown]
# ## The answer
#
# With whole tiles, 16 of 132 SMs idle in the last of {{ ideal.before }} waves. Stream-K wins back
# {{ won.part | .0% }} of the {{ saved.n4096 | .0f }} µs that its schedule can save. The GEMM is then
# {{ percent.wide_4096 | .1% }} faster and reaches {{ of_cublas.after | .1% }} of cuBLAS's rate.

# %% [markdown]
# ## Takeaways
#
# - Stream-K gives every SM the same number of K steps instead of whole tiles. Use it only for the end of the launch, and keep whole tiles
#   before that.
# - When *n* tiles are shared among *n* + 1 blocks, each tile is cut once. Two parts added to zero give the same bits in
#   any order; three may not.
# - Every split tile costs a fix-up, so Stream-K pays off only if it saves more idle time than the fix-ups take.

# %% [markdown]
# ## In your own kernel
#
# Look at `launch__waves_per_multiprocessor` in Nsight Compute. If it's small and not a whole number, such as 3.5,
# Stream-K can win back time in the last wave. In \CUTLASS, try `cutlass::gemm::StreamKScheduler` as the tile scheduler
# before you write your own.

# %% fold="Code of the exercise, with three wrong answers that the tests reject"
from tilewise import exercise


def cuts_of(tiles, blocks, steps):
    line = tiles * steps
    return [piece * line // blocks for piece in range(blocks + 1)]


def cuts_tests(answer):
    for many, blocks, steps in ((7, 8, 128), (8, 9, 128), (3, 5, 10), (16, 132, 64), (5, 3, 7), (1, 4, 10)):
        cuts = [int(cut) for cut in answer(many, blocks, steps)]
        assert cuts[0] == 0 and cuts[-1] == many * steps, (
            f"{many} tiles: the cuts go from {cuts[0]} to {cuts[-1]}, not from 0 to {many * steps}"
        )
        pieces = np.diff(cuts)
        assert len(pieces) == blocks, f"{len(pieces)} pieces for {blocks} blocks"
        assert pieces.max() - pieces.min() <= 1, f"{many} tiles on {blocks} blocks: pieces of {pieces}"


exercise(
    "Cuts along K",
    """
    Line up `tiles` tiles of `steps` K steps each. Write `cuts_of(tiles, blocks, steps)`: the `blocks` + 1 positions, from 0
    to the end, at which the line is cut into one piece per block, with no piece more than one step longer than another.
    """,
    answer=cuts_of,
    tests=cuts_tests,
    wrong=[
        {"piece * line // blocks": "min(piece * -(-line // blocks), line)"},
        {"piece * line // blocks": "piece * tiles // blocks * steps"},
        {"piece * line // blocks": "piece * (line // blocks)"},
    ],
    hint="Piece p ends after p / blocks of the whole line. Round down.",
)
