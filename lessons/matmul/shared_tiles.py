# ---
# title: A tile for two blocks
# needs: [matmul/register_tiles, matmul/hopper]
# summary: "512 tiles on 132 processors: in the last of four rounds, how many processors wait, and what is it worth to give them a part of somebody else's tile?"
# description: "Tiles that do not divide by the SMs: parts of k for the last round in 32 bits, and small tiles, squares and halves of K for BF16 products with too few tiles."
# date: 2026-11-21
# tags: [tiles, waves, split-K, stream-K, atomics, clusters]
# ---

# %% [markdown]
# A product of {{ ask.n | , }} rows and columns in tiles of 128 × 256 has {{ ask.tiles }} tiles, and an
# H100 has {{ ask.sms }} SMs. After three rounds {{ ask.rest }} tiles are left: in the last round
# {{ ask.idle }} SMs have nothing to do, for as long as a tile takes. Nobody says that a tile belongs to
# one block. What is it worth to let two share it?

# %% fold="Imports"
import re
from itertools import pairwise

import numpy as np

from tilewise import (
    Guess,
    Kernel,
    Table,
    agree,
    bf16,
    case,
    ceil_div,
    check,
    constant,
    expect_hazard,
    integers,
    measure,
    normal,
    output,
    parallel,
    publish,
    show,
    tensor_map,
    tiles,
)
from tilewise.figures import Span, timeline
from tilewise.measurements import Numbers, medians_us, printed, recorded_device
from tilewise.measurements.references import bf16_product, matrix_product

GPU = recorded_device()
SMS = GPU.sms
TILES = ceil_div(4096, 128) * ceil_div(4096, 256)
WHOLE = TILES // SMS * SMS
publish(
    ask={
        "n": 4096,
        "tiles": TILES,
        "sms": SMS,
        "rest": TILES - WHOLE,
        "idle": SMS - (TILES - WHOLE),
        "full": TILES / (ceil_div(TILES, SMS) * SMS),
    }
)

# %% [markdown]
# ## Parts of k for the last round
#
# A tile is a sum over k, and a sum can be cut. If each of the {{ ask.sms }} SMs is to have the same part of
# the {{ ask.rest }} tiles that are left, some tiles are cut in two. Which? Take n tiles for n + 1 blocks, lay
# them end to end along k, and cut the line into n + 1 equal pieces. That takes n cuts, one in every tile:
# two blocks add to it, never three. With two, the sum from zero is the same in either order, bit for bit.
#
# ??? definition "Stream-K"
#     Cutting the tiles of a product along k so that every block gets the same number of steps, and adding
#     up the parts of a tile afterwards.


# %%
def shared(order, blocks, stages):
    """Two entries a block, (row, column, first stage, stages), and the first block with parts."""
    nothing = (0, 0, 0, 0)
    whole = len(order) // blocks * blocks
    rest, helpers = order[whole:], blocks - (len(order) - whole)
    if not 0 < helpers <= len(rest):  # nothing to share, or more than two to a tile
        whole, rest, helpers = len(order), [], 1
    entries = [[(*tile, 0, stages), nothing] for tile in order[:whole]]
    for group in np.array_split(np.arange(len(rest)), helpers):
        n = len(group)
        cuts = [piece * n * stages // (n + 1) for piece in range(n + 2)] if n else []
        for begin, end in pairwise(cuts):
            now, mine = begin, []
            while now < end:
                at, first = divmod(now, stages)
                take = min(end - now, stages - first)
                mine.append((*rest[group[at]], first, take))
                now += take
            entries.append([*mine, nothing][:2])
    return entries, whole


# %% fold="Code of the figure"
def spans_of(entries, blocks):
    """What each block's SM does, blocks dealt out in order to whoever is done first."""
    free, spans = [0.0] * blocks, []
    for number, entry in enumerate(entries):
        sm = min(range(blocks), key=lambda one: (free[one], one))
        for row, column, _, stages in entry:
            if stages:
                name = f"{row}, {column}"
                begin, free[sm] = free[sm], free[sm] + stages
                spans.append(Span(f"SM {sm}", begin, free[sm], name, "tile" if number < blocks else "block"))
    return sorted(spans, key=lambda span: (int(span.row.split()[1]), span.start)), max(free)


FIVE = [(row, column) for row in range(3) for column in range(3)]  # nine tiles on five SMs
SHARES, _ = shared(FIVE, 5, 10)
SPANS, LONGEST = spans_of(SHARES, 5)
ALONE = ceil_div(len(FIVE), 5) * 10
show(
    timeline(
        SPANS,
        unit="stages",
        title=f"Nine tiles on five SMs take {LONGEST:.0f} stages in place of {ALONE}",
        caption="Nine tiles of ten stages along k on five SMs, a small example. A bar has its tile's row and column. Five are whole; the other four are cut at one place each, and every SM gets the same part of them.",
        alt="Timeline of five SMs, each with a whole tile and then with one or two parts of the tiles that are left.",
    )
)
for many, blocks, stages in ((512, 132, 128), (2048, 132, 256), (9, 5, 10), (128, 132, 64), (32, 132, 32)):
    entries, _ = shared([(at, 0) for at in range(many)], blocks, stages)
    done, hands = np.zeros(many, int), np.zeros(many, int)
    for entry in entries:
        for row, _, _, taken in entry:
            done[row] += taken
            hands[row] += taken > 0
    check(done, np.full(many, stages), name=f"stages of {many} tiles on {blocks} SMs")
    assert hands.max() <= 2, "three blocks add to one tile"


def longest(many, stages):
    """The most stages that a block has of the last round's tiles, and the rounds before."""
    entries, whole = shared([(at, 0) for at in range(many)], SMS, stages)
    return max(sum(taken for *_, taken in entry) for entry in entries[whole:]), whole // SMS


def rounds_gain(n):
    """The factor that the list predicts for wide tiles: rounds of whole tiles over those of its longest blocks."""
    stages, many = ceil_div(n, 32), ceil_div(n, 128) * ceil_div(n, 256)
    most, rounds = longest(many, stages)
    return ceil_div(many, SMS) / (rounds + most / stages)


MOST = longest(TILES, 128)[0]
publish(
    share={
        "most": MOST,
        "of": 128,
        "rounds": WHOLE // SMS + MOST / 128,
        "before": ceil_div(TILES, SMS),
        "gain": rounds_gain(4096),
    }
)

# %% [markdown]
# At {{ ask.n | , }} each of the last blocks has at most {{ share.most }} of a tile's {{ share.of }} stages:
# {{ share.rounds | .2f }} rounds in place of {{ share.before }}, which predicts a factor of
# {{ share.gain | .3f }}. Against it stands what the parts cost: zeros written before, and sums that go to
# memory as additions.

# %% [markdown]
# The kernel is the best one of the [ladder in 32 bits](register_tiles.py). What is new is the list. A block
# reads two entries, computes their parts one after the other, and stores a whole tile or adds a part.


# %% tab="Pseudocode"
def multiply_shares(A, B, C, shares):
    (M, K), N = A.shape, B.shape[1]
    high, wide = [*tiles(M, 128)], [*tiles(N, 256)]
    for block in parallel(len(shares)):
        for row, column, first, stages in shares[block]:
            ks = range(32 * first, min(32 * (first + stages), K))
            part = A[high[row]][:, ks] @ B[ks][:, wide[column]]
            # [store
            C[np.ix_(high[row], wide[column])] += part  # zeros before, where two add
            # store]


# %% tab="CUDA C"
SHARED = Kernel(
    r"""
#ifndef COLUMNS
#define COLUMNS 16  // sums of a thread: 8 rows of so many columns
#endif
#define STAGES (COLUMNS == 16 ? 3 : 2)
#define PAD 4
#define DEEP 32
#define ROWS 128
#define WIDTH (16 * COLUMNS)
#define A_ROW (ROWS + PAD)
#define STAGE (DEEP * (A_ROW + WIDTH))
#define ALL _Pragma("unroll")
#ifndef GROUP
#define GROUP 16  // steps of k that are written out
#endif
#ifndef BY_ROWS
#define BY_ROWS 0
#endif

// A copy goes on by itself. Where nothing is there, it writes zeros.
__device__ void copy4(unsigned to, const float* from, bool there) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
        :: "r"(to), "l"(from), "r"(there ? 4 : 0) : "memory");
}
__device__ void copy16(unsigned to, const float* from, bool there) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
        :: "r"(to), "l"(from), "r"(there ? 16 : 0) : "memory");
}
__device__ void close_group() {
    asm volatile("cp.async.commit_group;" ::: "memory");
}
__device__ void wait_for_oldest() {  // all but the youngest STAGES - 2 groups
    asm volatile("cp.async.wait_group %0;" :: "n"(STAGES - 2) : "memory");
}

#define ONE(i, j) s[i][j] += part(a[u], i) * part(b[u], j);
#define DOWN(j) ONE(0, j) ONE(1, j) ONE(2, j) ONE(3, j) \
                ONE(4, j) ONE(5, j) ONE(6, j) ONE(7, j)
#define UP(j)   ONE(7, j) ONE(6, j) ONE(5, j) ONE(4, j) \
                ONE(3, j) ONE(2, j) ONE(1, j) ONE(0, j)
#define RIGHT(i) ONE(i, 0) ONE(i, 1) ONE(i, 2) ONE(i, 3) \
                 ONE(i, 4) ONE(i, 5) ONE(i, 6) ONE(i, 7) \
                 ONE(i, 8) ONE(i, 9) ONE(i, 10) ONE(i, 11) \
                 ONE(i, 12) ONE(i, 13) ONE(i, 14) ONE(i, 15)
#define LEFT(i)  ONE(i, 15) ONE(i, 14) ONE(i, 13) ONE(i, 12) \
                 ONE(i, 11) ONE(i, 10) ONE(i, 9) ONE(i, 8) \
                 ONE(i, 7) ONE(i, 6) ONE(i, 5) ONE(i, 4) \
                 ONE(i, 3) ONE(i, 2) ONE(i, 1) ONE(i, 0)
#define DOWN_UP(j) DOWN(j) UP(j + 1)
#define RIGHT_LEFT(i) RIGHT(i) LEFT(i + 1)
#if BY_ROWS
#define ALL_SUMS RIGHT_LEFT(0) RIGHT_LEFT(2) RIGHT_LEFT(4) RIGHT_LEFT(6)
#elif COLUMNS == 8
#define ALL_SUMS DOWN_UP(0) DOWN_UP(2) DOWN_UP(4) DOWN_UP(6)
#else
#define ALL_SUMS DOWN_UP(0) DOWN_UP(2) DOWN_UP(4) DOWN_UP(6) \
                 DOWN_UP(8) DOWN_UP(10) DOWN_UP(12) DOWN_UP(14)
#endif
__device__ float part(const float4* v, int i) {
    float4 four = v[i / 4];
    return i % 4 == 0 ? four.x : i % 4 == 1 ? four.y : i % 4 == 2 ? four.z : four.w;
}

struct Source {
    const float* rows[4];  // of A, where this thread copies next
    const float* b;
    int q, row;            // its column of A's tile and its row of B's
    unsigned to_a, to_b;   // its places in the first stage
};

#define JUMP (1024 / WIDTH)  // rows of B that the block copies at once

// One stage: DEEP columns of A, turned on the way, and DEEP rows of B.
__device__ void fetch(Source& from, unsigned stage, int left, int N) {
    ALL for (int r = 0; r < 4; ++r) {
        ALL for (int p = 0; p < DEEP; p += 8)
            copy4(from.to_a + stage + 4 * (p * A_ROW + 4 * r),
                  from.rows[r] + p, from.q + p < left);
        from.rows[r] += DEEP;
    }
    ALL for (int p = 0; p < DEEP; p += JUMP) {
        copy16(from.to_b + stage + 4 * p * WIDTH, from.b, from.row + p < left);
        from.b += (size_t)JUMP * N;
    }
}

// N is a multiple of 4; C holds zeros where a tile is shared.
extern "C" __global__ __launch_bounds__(256, COLUMNS == 16 ? 1 : 2)
void multiply_shared(const float* A, const float* B, float* C, const int4* shares,
                     int M, int N, int K) {
    extern __shared__ __align__(16) float ring[];
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int row = warp % 2 * 64 + lane / 2 % 8 * 4;
    int column = warp / 2 * (WIDTH / 4) + (lane % 2 + lane / 16 * 2) * 4;
    float* first_b = ring + DEEP * A_ROW;
    // [shares
    for (int entry = 0; entry < 2; ++entry) {  // New: up to two parts
        int4 share = shares[2 * blockIdx.x + entry];
        if (share.w == 0) break;
        int i0 = share.x * ROWS, j0 = share.y * WIDTH, start = share.z * DEEP;
        int length = min(share.w * DEEP, K - start);
        bool whole = length == K;
        // shares]
        Source from;
        int m = warp * 16 + lane / 8, n = threadIdx.x % (WIDTH / 4) * 4;
        from.q = lane % 8;
        from.row = threadIdx.x / (WIDTH / 4);
        ALL for (int r = 0; r < 4; ++r)  // beyond M another row; its sums are not stored
            from.rows[r] = A + (size_t)min(i0 + m + 4 * r, M - 1) * K + start + from.q;
        from.b = B + (size_t)(start + from.row) * N + min(j0 + n, N - 4);
        from.to_a = (unsigned)__cvta_generic_to_shared(ring + from.q * A_ROW + m);
        from.to_b = (unsigned)__cvta_generic_to_shared(first_b + from.row * WIDTH + n);
        int steps = (length + DEEP - 1) / DEEP;
        float s[8][COLUMNS] = {};
        float4 a[2][2], b[2][COLUMNS / 4];
        ALL for (int p = 0; p < STAGES - 1; ++p) {
            if (p < steps) fetch(from, 4 * p * STAGE, length - p * DEEP, N);
            close_group();
        }
        wait_for_oldest();
        __syncthreads();  // the first stage is there
        const float* pa = ring + row;
        const float* pb = first_b + column;
#define READ(to, q) \
        ALL for (int h = 0; h < 2; ++h) \
            a[to][h] = *(const float4*)(pa + (q) * A_ROW + 32 * h); \
        ALL for (int h = 0; h < COLUMNS / 4; ++h) \
            b[to][h] = *(const float4*)(pb + (q) * WIDTH + 16 * h);
        READ(0, 0)
        for (int step = 0, now = 0; step < steps; ++step) {
            int after = step + STAGES - 1;
            unsigned stage = 4 * (after % STAGES) * STAGE;
            if (after < length / DEEP) fetch(from, stage, DEEP, N);
            else if (after < steps) fetch(from, stage, length % DEEP, N);
            close_group();
            int next = step + 1 < steps ? (now + 1) % STAGES : now;
            _Pragma("unroll 1")
            for (int done = GROUP; done <= DEEP; done += GROUP) {
                ALL for (int q = 0; q < GROUP; ++q) {
                    const int u = q % 2;  // these numbers are at work
                    if (q < GROUP - 1) {
                        READ(1 - u, q + 1)
                    } else {
                        pa += GROUP * A_ROW;
                        pb += GROUP * WIDTH;
                        if (done == DEEP) {
                            wait_for_oldest();
                            __syncthreads();  // one stage is there, one is read
                            pa = ring + next * STAGE + row;
                            pb = first_b + next * STAGE + column;
                        }
                        READ(0, 0)
                    }
                    ALL_SUMS
                }
            }
            now = next;
        }
        // [store
        ALL for (int r = 0; r < 8; ++r) {
            int i = i0 + row + r % 4 + r / 4 * 32;
            ALL for (int h = 0; h < COLUMNS / 4; ++h) {
                int j = j0 + column + 16 * h;
                float* to = C + (size_t)i * N + j;
                float* v = &s[r][4 * h];  // plus zero: in any register until here
                float4 w = {v[0] + 0.0f, v[1] + 0.0f, v[2] + 0.0f, v[3] + 0.0f};
                if (i >= M || j >= N) continue;
                if (whole) {
                    *(float4*)to = w;
                } else {  // New: another block adds its part too
                    atomicAdd(to, w.x);
                    atomicAdd(to + 1, w.y);
                    atomicAdd(to + 2, w.z);
                    atomicAdd(to + 3, w.w);
                }
            }
        }
        // store]
        __syncthreads();  // the ring has been read, and may be filled for the next part
    }
}
"""
)

# %%
SHARED.region("shares")

# %%
SHARED.region("store")

# %% [markdown]
# Without the last barrier a warp that is done with its part would fill the ring while another still reads
# it. The simulator names the race. The zeros come from a launch before: each tile that two share is begun by
# one entry of the list, and who has that entry clears the tile.

# %%
CLEAR = Kernel(r"""
#ifndef COLUMNS
#define COLUMNS 16
#endif
#define WIDTH (16 * COLUMNS)

extern "C" __global__
void clear_shared(float* C, const int4* shares, int first_block,
                  int M, int N, int K) {
    for (int entry = 0; entry < 2; ++entry) {
        int4 share = shares[2 * (first_block + blockIdx.x) + entry];
        if (share.w == 0 || share.z > 0 || 32 * share.w >= K) continue;
        for (int n = threadIdx.x; n < 128 * WIDTH; n += blockDim.x) {
            int i = share.x * 128 + n / WIDTH, j = share.y * WIDTH + n % WIDTH;
            if (i < M && j < N) C[(size_t)i * N + j] = 0.0f;
        }
    }
}
""")


# %% fold="Code of the checks"
def in_bands(high, wide):
    return [
        (i, j) for band in range(0, high, 8) for j in range(wide) for i in range(band, min(band + 8, high))
    ]


def shares_of(M, N, K, blocks, share, columns=16):
    order, stages = in_bands(ceil_div(M, 128), ceil_div(N, 16 * columns)), ceil_div(K, 32)
    entries, whole = shared(order, blocks if share else 1, stages)
    return np.array(entries, np.int32), whole


def arrays_for(M, N, K, C):
    return {"A": normal(M, K), "B": normal(K, N, scale=K**-0.5), "C": C, "M": M, "N": N, "K": K}


def with_shares(M, N, K, blocks, columns=16):
    entries, _ = shares_of(M, N, K, blocks, True, columns)
    arrays = arrays_for(M, N, K, constant(M, N, value=0.0))
    return case(**arrays, shares=entries, grid=len(entries), block=256, shared_bytes=ring_bytes(columns))


def ring_bytes(columns=16):
    return 4 * (3 if columns == 16 else 2) * 32 * (128 + 4 + 16 * columns)


close = {"rtol": 1e-5, "atol": 1e-5}
agree(
    multiply_shares,
    SHARED,
    [with_shares(*size) for size in ((250, 508, 165, 5), (131, 260, 100, 5))],
    **close,
)
CARELESS = SHARED.source.replace(
    "        __syncthreads();  // the ring has been read, and may be filled for the next part\n", ""
)
assert len(CARELESS) < len(SHARED.source)
expect_hazard(Kernel(CARELESS).on(with_shares(250, 508, 165, 5)), "race", line_with="READ(0, 0)")


def product(by_rows=0, group=16, share=True, columns=16, blocks=None):
    """The launches of a product: the zeros where they are needed, and the kernel.

    So many blocks run at once: one of wide tiles on each SM, or two of square ones.
    """
    kernel = Kernel(SHARED.source, defines={"BY_ROWS": by_rows, "GROUP": group, "COLUMNS": columns})
    clear = Kernel(CLEAR.source, defines={"COLUMNS": columns})
    at_once = blocks or SMS * 16 // columns

    def launches(M, N, K):
        entries, whole = shares_of(M, N, K, at_once, share, columns)
        arrays = arrays_for(M, N, K, output(M, N)) | {"shares": entries}
        inputs = case(
            **arrays, first_block=whole, grid=len(entries), block=256, shared_bytes=ring_bytes(columns)
        )
        main = kernel.on(inputs)
        return [clear.on(inputs, grid=len(entries) - whole), main] if whole < len(entries) else main

    return launches


SQUARE = Kernel(SHARED.source, defines={"COLUMNS": 8})
held = SQUARE.on(with_shares(250, 256, 165, 5, columns=8)).run()
check(held["C"], matrix_product(held["A"], held["B"])["C"], **close, name="C by parts of square tiles")
for columns, M, N, K in ((16, 250, 508, 165), (16, 300, 700, 100), (8, 300, 380, 165)):
    zeros, parts = product(columns=columns, blocks=5)(M, N, K)  # four tiles for five blocks, or nine
    arrays = zeros.run()
    parts.run(arrays)
    name = f"zeros, then parts by {columns} columns: {M} × {K} times {K} × {N}"
    check(arrays["C"], np.float64(arrays["A"]) @ np.float64(arrays["B"]), **close, name=name)


# %% [markdown]
# ## What else it could be
#
# The ladder left one thing unexplained: its loop takes more cycles than instructions and register banks
# account for. Three settings ask the machine about it. Sixteen steps of k written out are
# {{ code.kilobytes | .0f }} KB of instructions, more than what is near the schedulers may hold; with
# eight it is half of that. Going through the {{ code.sums }} sums by rows, back and forth, keeps a number
# of $A$ where the order by columns keeps one of $B$. And square tiles, 128 × 128 with half the sums to a
# thread, leave room for two blocks on an SM: while one waits at its barrier, the other multiplies. They
# need more loads for a multiply-add, and cost a little on the ladder. But they too can share
# the last round, {{ code.squares_rest }} tiles of {{ code.squares }} among {{ code.squares_places }} places.

# %% fold="Code of the numbers"
SQUARES = ceil_div(4096, 128) ** 2
publish(
    code={
        "kilobytes": 16 * 16 * (128 + 6) / 1024,
        "sums": 8 * 16,
        "squares": SQUARES,
        "squares_rest": SQUARES % (2 * SMS),
        "squares_places": 2 * SMS,
    }
)
VARIANTS = {
    "whole tiles": product(share=False),
    "shorter loop": product(group=8, share=False),
    "by rows": product(by_rows=1, share=False),
    "square tiles": product(columns=8, share=False),
    "last round shared": product(),
    "shared, by rows": product(by_rows=1),
    "shared, square tiles": product(columns=8),
}


# %% fold="Code of the measurement"
LT = "cuBLASLt, best of 10 algorithms"


def cublas(arrays):
    import cupy

    A, B, C = (arrays[name] for name in "ABC")
    return lambda: cupy.matmul(A, B, out=C)


def cublas_lt(arrays):
    from tilewise.gpu.cublas_lt import fastest

    return fastest(*(arrays[name] for name in "ABC"))


last_round = measure(
    "fp32_last_round",
    variants=VARIANTS,
    cases=[{"M": n, "N": n, "K": n} for n in (2048, 4096, 8192)],
    count_case={"M": 250, "N": 508, "K": 165},
    bytes=lambda M, N, K: 4 * (M * K + K * N + M * N),
    flop=lambda M, N, K: 2 * M * N * K,
    library={"cuBLAS": cublas, LT: cublas_lt},
    reference=matrix_product,
    tolerance=1e-4,
    reasons={"*": "Parts of k for the last round"},
    fold="All rows",
    guess=Guess(
        "At 4,096, how many times as fast is the product of square tiles with a shared last round as with whole ones?",
        of="shared, square tiles",
        over="square tiles",
        at={"M": 4096, "N": 4096, "K": 4096},
        between=(0.9, 1.1),
        models={"rounds": rounds_gain(4096)},
        because="Rounds are all that the list changes, and the additions cost less than they save.",
    ),
)


# %% fold="Code of the table"
US = medians_us(last_round, "M")
SQUARES_OF = (2048, 4096, 8192)


def gain(before, after, n=4096):
    return US[before, n] / US[after, n]


show(
    Table(
        ["", *(f"{n:,}" for n in SQUARES_OF), "of cuBLAS at 4,096, %"],
        [
            [name, *(2 * n**3 / US[name, n] / 1e6 for n in SQUARES_OF), 100 * gain("cuBLAS", name)]
            for name in dict.fromkeys(name for name, _ in US)
        ],
        caption="TFLOP/s of products of square matrices of 32-bit floats by their size, recorded on an {machine}, every row beside the library in the same run; the zeros are counted in.",
    )
)
publish(
    last={re.sub(r"\W+", "_", name): gain("cuBLAS", name) for name in VARIANTS},
    last_gain={
        "rows": gain("whole tiles", "by rows"),
        "loop": gain("whole tiles", "shorter loop"),
        **{f"shared_{n}": gain("whole tiles", "last round shared", n) for n in SQUARES_OF},
        **{f"square_{n}": gain("square tiles", "shared, square tiles", n) for n in SQUARES_OF},
    },
    of_8192={
        "square": gain("cuBLAS", "shared, square tiles", 8192),
        "wide": gain("cuBLAS", "last round shared", 8192),
    },
    by_list={f"n{n}": rounds_gain(n) for n in (2048, 8192)},
)

# %% [markdown]
# Sharing the last round was to give a factor of {{ share.gain | .3f }} at {{ ask.n | , }} and gave
# {{ last_gain.shared_4096 | .3f }}, and to square tiles {{ last_gain.square_4096 | .3f }}: less than the
# list promised. At 8,192 it was to be {{ by_list.n8192 | .3f }}, and came to {{ last_gain.shared_8192 | .3f }}
# and {{ last_gain.square_8192 | .3f }}, more than the list has to give. Both are unexplained.
#
# At 2,048 the list promises {{ by_list.n2048 | .3f }}, and what came is {{ last_gain.shared_2048 | .3f }} and
# {{ last_gain.square_2048 | .3f }}. A single round, all but full, is the last round: every tile is cut, all of
# $C$ is cleared, and all sums leave as additions. A list should ask first whether that pays.
#
# Of the other settings none wins. The order by rows left {{ last_gain.rows | .3f }} of the rate. The shorter
# loop left {{ last_gain.loop | .3f }}, so its length in instructions was not what held the longer one. At
# {{ ask.n | , }} the wide tiles with a shared last round run at {{ last.last_round_shared | .1% }} of cuBLAS's
# rate, where they had {{ last.whole_tiles | .1% }} without, and square ones at
# {{ last.shared_square_tiles | .1% }}; at 8,192 it is {{ of_8192.wide | .1% }} and {{ of_8192.square | .1% }}.

# %% [markdown]
# ## Too few tiles from the start
#
# A BF16 product of 1,024 is over in microseconds, and its tiles of 128 × 256 are {{ few.wide }}: three
# quarters of the SMs get none. Tiles of 64 × 128 are {{ few.small }}. Nearly every SM then has something to
# multiply, but it asks for {{ few.small_kb | .0f }} KB where a tile's products take {{ few.clocks | , }} clocks.
# How fast can an SM take that in? In the record of [the Hopper machine](hopper.py), four slabs asked for at
# once came at {{ few.rate | .0f }} bytes a clock on each SM while all SMs did the same. At that pace the small
# tile's numbers need {{ few.small_clocks | ,.0f }} clocks.
#
# Squares could need less. Squares of 128 × 128 for two blocks each, with half of K for either, are the same
# {{ few.small }} blocks with the same products, and {{ few.halves_kb | .0f }} KB for each; {{ few.half_sums }} KB
# of that are sums that one block gives to the other. If that pace holds, they are the faster ones.

# %% fold="Code of the numbers"
CLOCKS = [
    [int(clock) for clock in line.split(":")[1].split(",")]
    for line in printed("matmul/hopper", "pipeline_clock").splitlines()[1:]
]
# after the first slab, before the fifth
RATE = 3 * 49152 / (CLOCKS[3][1] - CLOCKS[0][1]) if CLOCKS else np.nan
A_CLOCK = 2 * GPU.fma_per_sm_clock["bf16_matrix"]


def a_block(rows, columns, parts, n=1024):
    """Blocks of a product of n, bytes that each takes in, and clocks of its products."""
    blocks = ceil_div(n, rows) * ceil_div(n, columns) * parts
    moved = 2 * n // parts * (rows + columns) + (4 * rows * columns // 2 if parts > 1 else 0)
    return blocks, moved, 2 * rows * columns * n // parts // A_CLOCK


FEW = {
    "128 × 256": a_block(128, 256, 1),
    "64 × 128": a_block(64, 128, 1),
    "128 × 128": a_block(128, 128, 1),
    "128 × 128, halves of K": a_block(128, 128, 2),
}
show(
    Table(
        ["tile", "blocks", "KB into an SM", "clocks for them", "clocks of products"],
        [
            [name, blocks, moved / 1024, round(moved / RATE) if CLOCKS else np.nan, clocks]
            for name, (blocks, moved, clocks) in FEW.items()
        ],
        caption="A product of 1,024: blocks, what each takes in, at the pace recorded at the start of a larger product, and what its products need.",
    )
)
publish(
    few={
        "wide": FEW["128 × 256"][0],
        "small": FEW["64 × 128"][0],
        "small_kb": FEW["64 × 128"][1] / 1024,
        "small_clocks": FEW["64 × 128"][1] / RATE,
        "clocks": FEW["64 × 128"][2],
        "rate": RATE,
        "halves_kb": FEW["128 × 128, halves of K"][1] / 1024,
        "half_sums": 4 * 128 * 128 // 2 // 1024,
        "saved": (FEW["64 × 128"][1] - FEW["128 × 128, halves of K"][1]) / RATE,
    }
)

# %% [markdown]
# So halves of K should save {{ few.saved | ,.0f }} clocks of the transfer, less a meeting of the two blocks. They
# are a cluster. Each puts the sums of the other's columns into room that the other keeps for them, they
# meet, and each adds up and stores its own half of the tile. The room is not part of the ring, so nobody has to
# wait before putting something there, except for the other block to have begun.


# %% tab="Pseudocode"
def multiply_few(A, B, C):
    (M, K), N = A.shape, B.shape[1]
    half = 64 * -(-K // 128)  # whole slabs of 64
    for rows in tiles(M, 128):
        for columns in tiles(N, 128):
            # [reduction
            parts = [A[rows][:, ks] @ B[ks][:, columns] for ks in tiles(K, half)]
            C[np.ix_(rows, columns)] = sum(parts)  # each from a block of its own
            # reduction]


# %% tab="CUDA C"
FEW_TILES = Kernel(
    r"""
#include <cuda_bf16.h>
typedef __nv_bfloat16 Bf16;
typedef unsigned long long u64;
struct __align__(128) TensorMap { unsigned long long opaque[16]; };

static __device__ unsigned at(const void* p) {
    return (unsigned)__cvta_generic_to_shared(p);
}
static __device__ void init(u64* bar, int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;"
                 :: "r"(at(bar)), "r"(arrivals) : "memory");
}
static __device__ void expect(u64* bar, int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                 :: "r"(at(bar)), "r"(bytes) : "memory");
}
static __device__ void wait(u64* bar, int parity) {
    asm volatile("{\n.reg .pred done;\nagain:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
                 "@!done bra again;\n}" :: "r"(at(bar)), "r"(parity) : "memory");
}
static __device__ void arrive(u64* bar) {
    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" :: "r"(at(bar)) : "memory");
}
static __device__ void load(void* to, const TensorMap* map, int x, int y, u64* bar) {
    asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile"
                 ".mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];"
                 :: "r"(at(to)), "l"(map), "r"(at(bar)), "r"(x), "r"(y) : "memory");
}
static __device__ void fetch_map(const TensorMap* map) {
    asm volatile("prefetch.tensormap [%0];" :: "l"(map) : "memory");
}
// where wgmma finds a matrix: address, and two distances, in units of 16 bytes
static __device__ u64 matrix(const void* p, int lead, int stride) {
    return (u64)(at(p) & 0x3ffff) >> 4  // beyond 18 bits: the block's rank in its cluster
         | (u64)(lead >> 4) << 16 | (u64)(stride >> 4) << 32
         | 1ull << 62;  // rows of 128 bytes, swizzled
}
#define SUM(i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define FOUR(i) SUM(i), SUM(i + 4), SUM(i + 8), SUM(i + 12)
#define SUMS FOUR(0), FOUR(16), FOUR(32), FOUR(48)
// D += A B for a warpgroup: 64x16 times 16x128
static __device__ void wgmma(float (&d)[64], u64 a, u64 b) {
    asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {"
        "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15,%16,%17,%18,%19,%20,"
        "%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31,%32,%33,%34,%35,%36,%37,%38,%39,"
        "%40,%41,%42,%43,%44,%45,%46,%47,%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,"
        "%59,%60,%61,%62,%63}, %64, %65, 1, 1, 1, 0, 1;"
        : SUMS : "l"(a), "l"(b));
}
static __device__ void wgmma_fence() {
    asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
}
static __device__ void wgmma_commit() {
    asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
// until at most N groups are under way; names d, so that no use of it moves before this
template <int N> static __device__ void wgmma_wait(float (&d)[64]) {
    asm volatile("wgmma.wait_group.sync.aligned %64;" : SUMS : "n"(N) : "memory");
}
// New: four sums into another block of the cluster
static __device__ void put(float4* p, int block, const float* v) {
    asm volatile("{\n.reg .b32 there;\nmapa.shared::cluster.u32 there, %0, %1;\n"
                 "st.shared::cluster.v4.f32 [there], {%2, %3, %4, %5};\n}"
                 :: "r"(at(p)), "r"(block), "f"(v[0]), "f"(v[1]), "f"(v[2]), "f"(v[3])
                 : "memory");
}
static __device__ unsigned pair(float low, float high) {
    __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
    return *(unsigned*)&both;
}
static __device__ void put_box(const TensorMap* map, const void* from, int x, int y) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group "
                 "[%0, {%2, %3}], [%1];"
                 :: "l"(map), "r"(at(from)), "r"(x), "r"(y) : "memory");
}
static __device__ void store(Bf16* C, int i, int j, int M, int N, float x, float y) {
    if (i < M && j < N) *(__nv_bfloat162*)&C[(size_t)i * N + j] = __floats2bfloat162_rn(x, y);
}

#define A_BYTES (HALVES * 8192)
#define B_BYTES 16384
#define THREADS (128 * HALVES)  // that multiply

// 64 * HALVES rows and 128 columns of C; with two PARTS, by the two blocks of a cluster
extern "C" __global__ void __cluster_dims__(PARTS, 1, 1) __launch_bounds__(128 + THREADS, 1)
few_tiles(const __grid_constant__ TensorMap a_map,
          const __grid_constant__ TensorMap b_map,
          const __grid_constant__ TensorMap c_map, Bf16* C, int M, int N, int K) {
    extern __shared__ __align__(1024) unsigned char memory[];
    __shared__ __align__(8) u64 full[STAGES], empty[STAGES];
    unsigned char *a = memory, *b = a + STAGES * A_BYTES;
    float4* room = (float4*)(b + STAGES * B_BYTES);
    int i = blockIdx.y * 64 * HALVES, j = blockIdx.x / PARTS * 128;
    int rank = blockIdx.x % PARTS, group = threadIdx.x / 128, me = threadIdx.x - 128;
    int all = (K + 63) / 64, share = (all + PARTS - 1) / PARTS, first = rank * share;
    int slabs = min(share, all - first);
    if (threadIdx.x == 32) {
        fetch_map(&a_map);
        fetch_map(&b_map);
        if (BY_TMA) fetch_map(&c_map);
    }
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; ++s) {
            init(&full[s], 1);
            init(&empty[s], HALVES);
        }
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
#if PARTS > 1
    asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");  // New: has begun
#endif
    if (group == 0) {
        if (threadIdx.x == 0)
            for (int t = 0; t < slabs; ++t) {
#if TURNED
                // neighbours begin at other slabs, and ask for other lines first
                int k = (t + 5 * (int)blockIdx.x + 3 * (int)blockIdx.y) % slabs;
#else
                int k = t;
#endif
                int s = t % STAGES;
                wait(&empty[s], t / STAGES % 2 ^ 1);
                expect(&full[s], A_BYTES + B_BYTES);
                load(a + s * A_BYTES, &a_map, (first + k) * 64, i, &full[s]);
                for (int q = 0; q < 2; ++q)
                    load(b + s * B_BYTES + q * 8192, &b_map, j + 64 * q,
                         (first + k) * 64, &full[s]);
            }
        __syncwarp();
#if PARTS > 1
        asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
        asm volatile("barrier.cluster.arrive.release.aligned;\n"
                     "barrier.cluster.wait.acquire.aligned;" ::: "memory");
#endif
        return;
    }
    float d[64] = {};
    for (int t = 0; t < slabs; ++t) {
        int s = t % STAGES;
        unsigned char* mine = a + s * A_BYTES + (group - 1) * 8192;
        wait(&full[s], t / STAGES % 2);
        wgmma_fence();
        #pragma unroll
        for (int m = 0; m < 4; ++m)
            wgmma(d, matrix(mine + 32 * m, 16, 1024),
                  matrix(b + s * B_BYTES + 2048 * m, 8192, 1024));
        wgmma_commit();
        wgmma_wait<1>(d);
        if (t && me % 128 == 0) arrive(&empty[(t - 1) % STAGES]);
    }
    wgmma_wait<0>(d);
    int lane = me % 32, row = i + me / 32 * 16 + lane / 4, column = j + lane % 4 * 2;
#if PARTS > 1
    // [reduction
    // both blocks have begun
    asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory");
    #pragma unroll
    for (int n = 0; n < 8; ++n) {  // the columns that the other block adds up
        float v[4];
        #pragma unroll
        for (int q = 0; q < 4; ++q) v[q] = rank ? d[4 * n + q] : d[32 + 4 * n + q];
        put(&room[n * THREADS + me], rank ^ 1, v);
    }
    // all sums have come
    asm volatile("barrier.cluster.arrive.release.aligned;\n"
                 "barrier.cluster.wait.acquire.aligned;" ::: "memory");
    #pragma unroll
    for (int n = 0; n < 8; ++n) {
        float4 other = room[n * THREADS + me];
        float v[4];
        #pragma unroll
        for (int q = 0; q < 4; ++q) v[q] = rank ? d[32 + 4 * n + q] : d[4 * n + q];
        int col = column + 64 * rank + 8 * n;
        store(C, row, col, M, N, v[0] + other.x, v[1] + other.y);
        store(C, row + 8, col, M, N, v[2] + other.z, v[3] + other.w);
    }
    // reduction]
#elif BY_TMA
    if (HALVES > 1)  // all have read the ring
        asm volatile("bar.sync 1, %0;" :: "n"(THREADS) : "memory");
    unsigned char* mine = memory + me / 32 * 4096;  // 16 rows of two boxes
    #pragma unroll
    for (int n = 0; n < 16; n += 2) {  // 8 columns each
        const float* v = d + 4 * n;
        int r = lane % 16, chunk = (n % 8 + lane / 16) ^ r % 8;
        asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};"
            :: "r"(at(mine + n / 8 * 2048 + r * 128 + chunk * 16)),
               "r"(pair(v[0], v[1])), "r"(pair(v[2], v[3])),
               "r"(pair(v[4], v[5])), "r"(pair(v[6], v[7])) : "memory");
    }
    asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
    __syncwarp();
    if (lane == 0) {  // New: a warp's rows leave as boxes
        for (int q = 0; q < 2; ++q)
            put_box(&c_map, mine + q * 2048, j + 64 * q, i + me / 32 * 16);
        asm volatile("cp.async.bulk.commit_group;\n"
                     "cp.async.bulk.wait_group.read 0;" ::: "memory");
    }
#else
    #pragma unroll
    for (int n = 0; n < 64; n += 2)
        store(C, row + n / 2 % 2 * 8, column + n / 4 * 8, M, N, d[n], d[n + 1]);
#endif
}
""",
    defines={"HALVES": 2, "PARTS": 2, "STAGES": 6, "TURNED": 0, "BY_TMA": 0},
    options=("-std=c++17", "-arch=sm_90a"),
)

# %%
FEW_TILES.region("reduction")

# %% [markdown]
# The same kernel makes the others by its settings. Small tiles keep eight slabs in shared memory, or
# five. *Turned* means that neighbours begin at other slabs, so that not all ask for the same lines
# first. *Boxes of C* are the way out of the [Hopper ladder](hopper.py): a warp's sums go to shared memory, where
# the ring was, and leave as boxes by the copy unit, in place of stores of 4 bytes. With *256 bytes* the
# tensor maps let the L2 fetch 256 bytes where it misses, else 128. And squares can do without halves: one
# block each, half as many blocks.


# %% fold="Code of the checks"
def of_few(halves, parts, stages, turned=0, by_tma=0, promotion=128):
    """The kernel for a tile of 64 * halves by 128 and so many parts of K, and its launch for sizes."""
    settings = {"HALVES": halves, "PARTS": parts, "STAGES": stages, "TURNED": turned, "BY_TMA": by_tma}
    kernel = Kernel(FEW_TILES.source, defines=settings, options=FEW_TILES.options)

    def launch(M, N, K, whole=False):
        if whole:
            A, B = (integers(*size, low=-2, high=3, dtype="bfloat16") for size in ((M, K), (K, N)))
        else:
            A, B = normal(M, K, dtype="bfloat16"), normal(K, N, dtype="bfloat16")
        boxes = {"a_map": ("A", 64 * halves), "b_map": ("B", 64), "c_map": ("C", 16)}
        maps = {
            name: tensor_map(array, box=(height, 64), swizzle=128, dtype="bfloat16", l2_promotion=promotion)
            for name, (array, height) in boxes.items()
        }
        inputs = case(
            A=A,
            B=B,
            C=output(M, N, dtype="bfloat16"),
            **maps,
            M=M,
            N=N,
            K=K,
            grid=(parts * ceil_div(N, 128), ceil_div(M, 64 * halves)),
            block=128 + 128 * halves,
            shared_bytes=stages * (halves * 8192 + 16384) + (parts - 1) * halves * 16384,
        )
        return kernel.on(inputs)

    return launch


SMALL = {
    "64 × 128": of_few(1, 1, 8),
    "64 × 128, turned": of_few(1, 1, 8, turned=1),
    "64 × 128, boxes of C": of_few(1, 1, 8, by_tma=1),
    "64 × 128, boxes, 5 stages": of_few(1, 1, 5, by_tma=1),
    "64 × 128, boxes, 256 bytes": of_few(1, 1, 8, by_tma=1, promotion=256),
    "128 × 128, boxes of C": of_few(2, 1, 7, by_tma=1),
    "128 × 128, halves of K": of_few(2, 2, 6),
}
RAGGED = ((72, 264, 136), (200, 136, 1032))
agree(multiply_few, FEW_TILES, [SMALL["128 × 128, halves of K"](*size, whole=True).case for size in RAGGED])
for name, launch in SMALL.items():
    held = launch(136, 264, 648, whole=True).run()
    check(bf16.values(held["C"]), bf16_product(held), name=f"C by tiles of {name}")


def with_fault(text, instead):
    assert FEW_TILES.source.count(text) == 1, text
    wrong = Kernel(
        FEW_TILES.source.replace(text, instead), defines=FEW_TILES.defines, options=FEW_TILES.options
    )
    return wrong.on(SMALL["128 × 128, halves of K"](136, 136, 648, whole=True).case)


expect_hazard(
    with_fault(
        """    // all sums have come
    asm volatile("barrier.cluster.arrive.release.aligned;\\n"
                 "barrier.cluster.wait.acquire.aligned;" ::: "memory");
""",
        "",
    ),
    "race",
)

# %% fold="Code of the measurement"


def torch_matmul(arrays):
    import torch

    A, B, C = (
        torch.as_tensor(arrays[name].view("int16"), device="cuda").view(torch.bfloat16) for name in "ABC"
    )
    return lambda: torch.matmul(A, B, out=C) is None


SMALL_SIZES = ((768, 768, 768), (1024, 1024, 1024), (512, 2048, 1024), (1280, 1280, 1280), (1024, 1024, 4096))
small = measure(
    "few_tiles",
    variants={name: (lambda M, N, K, launch=launch: launch(M, N, K)) for name, launch in SMALL.items()},
    cases=[dict(zip("MNK", size, strict=True)) for size in SMALL_SIZES],
    count_case={"M": 200, "N": 136, "K": 264},
    bytes=lambda M, N, K: 2 * (M * K + K * N + M * N),
    flop=lambda M, N, K: 2 * M * N * K,
    arithmetic="bf16_matrix",
    counts=("sectors", "instructions"),
    library={"cuBLAS": torch_matmul, LT: cublas_lt},
    reference=matrix_product,
    tolerance=2**-8,
    reasons={"*": "Too few tiles from the start"},
    fold="All rows",
)

# %% fold="Code of the table"
SMALL_US = medians_us(small, "M", "N", "K")
show(
    Table(
        ["tile", *(f"{M:,}" if M == N == K else f"{M:,} × {N:,} × {K:,}" for M, N, K in SMALL_SIZES)],
        [
            [name, *(SMALL_US[name, *size] for size in SMALL_SIZES)]
            for name in dict.fromkeys(name for name, *_ in SMALL_US)
        ],
        caption="Microseconds of small BF16 products by their size, M × N × K where it is no cube, recorded on an {machine} with random numbers, inputs not in L2.",
    )
)
AT_1024 = Numbers({name: us for (name, *size), us in SMALL_US.items() if set(size) == {1024}})
LONG, CUBE = (1024, 1024, 4096), (1024, 1024, 1024)
FIVE, BOXES, HALVES = "64 × 128, boxes, 5 stages", "64 × 128, boxes of C", "128 × 128, halves of K"


def of_cublas(name, *size):
    """A tile's rate as a part of cuBLAS's."""
    return SMALL_US["cuBLAS", *size] / SMALL_US[name, *size]


def in_rounds(name):
    """The medians of a tile's rounds at 1,024, in microseconds."""
    here = [row for row in small.rows if row["variant"] == name and set(row["parameters"].values()) == {1024}]
    return ((here[0]["recorded"] or {}).get("rounds") if here else None) or [AT_1024[name]]


if "cuBLAS" in AT_1024:
    assert max(SMALL_US[FIVE, *size] / SMALL_US[HALVES, *size] for size in SMALL_SIZES[:3]) < 1, (
        "the answer says that parts of K lose"
    )
    assert (SMALL_US[HALVES, *LONG] < SMALL_US[FIVE, *LONG]) == ("H200" in GPU.name), (
        "the text says on which machine halves of K win where K is long"
    )
publish(
    small={
        "tiles_us": AT_1024["64 × 128"],
        "boxes_us": AT_1024[BOXES],
        "halves_us": AT_1024[HALVES],
        "cublas_us": AT_1024["cuBLAS"],
        "five_us": AT_1024[FIVE],
        "five": of_cublas(FIVE, *CUBE),
        "turned": AT_1024["64 × 128"] / AT_1024["64 × 128, turned"],
        "wide_five": of_cublas(FIVE, 512, 2048, 1024),
        "at_768": of_cublas(BOXES, 768, 768, 768),
        "squares_1280": of_cublas("128 × 128, boxes of C", 1280, 1280, 1280),
        "boxes_1280": of_cublas(BOXES, 1280, 1280, 1280),
        "long_boxes": of_cublas(BOXES, *LONG),
        "far_long": SMALL_US[BOXES, *LONG] / SMALL_US["64 × 128, boxes, 256 bytes", *LONG],
        "long_five": of_cublas(FIVE, *LONG),
        "long_halves": of_cublas(HALVES, *LONG),
    },
    pace={
        "small": a_block(64, 128, 1, 4096)[1] / 1024 / SMALL_US[FIVE, *LONG],
        "halves": (4096 * (128 + 128) + 4 * 128 * 128 // 2) / 1024 / SMALL_US[HALVES, *LONG],
    },
    at_1280={
        "small": a_block(64, 128, 1, 1280)[0],
        "small_rounds": ceil_div(a_block(64, 128, 1, 1280)[0], SMS),
        "squares": a_block(128, 128, 1, 1280)[0],
    },
    few_rounds={
        f"{name}_{end}": of(in_rounds(label))
        for name, label in (("five", FIVE), ("cublas", "cuBLAS"))
        for end, of in (("low", min), ("high", max))
    },
)

# %% [markdown]
# At 1,024 the prediction failed. Squares with halves of K take {{ small.halves_us | .1f }} µs, and small tiles
# {{ small.tiles_us | .1f }}. Where K is long, 4,096, squares have {{ small.long_halves | .0% }} of cuBLAS's rate,
# and small tiles with five stages {{ small.long_five | .0% }}. And there an SM took in
# {{ pace.small | .0f }} KB a microsecond with small tiles, with halves {{ pace.halves | .0f }}. So the pace
# at which bytes come was not what held them.
#
# On an H100 halves of K lose there, too; on an H200 they win.
#
# What did help is the way out. With boxes of C the small tiles take {{ small.boxes_us | .1f }} µs, with five stages
# {{ small.five_us | .1f }}: {{ small.five | .1% }} of the rate of cuBLAS, which takes {{ small.cublas_us | .1f }}.
#
# These are microseconds, and processes differ: the two rounds of the H100's record have
# {{ few_rounds.five_low | .1f }} and {{ few_rounds.five_high | .1f }} µs for five stages, and
# {{ few_rounds.cublas_low | .1f }} and {{ few_rounds.cublas_high | .1f }} for cuBLAS.
#
# Five stages are better than eight where K is long, {{ small.long_five | .0%}} to {{ small.long_boxes | .0% }} of
# cuBLAS's rate; why is unexplained. That neighbours begin at different slabs leaves {{ small.turned | .2f }} of the
# rate. An L2 that fetches 256 bytes at once makes little difference at 1,024; where K is long it gives a factor of
# {{ small.far_long | .2f }}.
#
# At 512 × 2,048 small tiles with boxes and five stages have {{ small.wide_five | .0% }} of cuBLAS's rate, at 768
# with boxes {{ small.at_768 | .0% }}. At 1,280 it turns around: there are {{ at_1280.small }} small tiles,
# {{ at_1280.small_rounds }} rounds at one on each SM, and {{ at_1280.squares }} squares, which fit into
# one. Squares with boxes have {{ small.squares_1280 | .0% }} there, small tiles {{ small.boxes_1280 | .0% }}.

# %% [markdown]
# ## The answer
#
# {{ ask.idle }} SMs wait in the last round at {{ ask.n | , }}; over all rounds {{ ask.full | .1% }} of the SMs have
# a tile. Parts of k for everybody make the product {{ last_gain.shared_4096 | .3f }} times as fast, which brings
# it to {{ last.last_round_shared | .1% }} of cuBLAS's rate; at 8,192 square tiles come to
# {{ of_8192.square | .1% }}. Where tiles are few from the start, small ones whose sums leave as boxes come to
# {{ small.five | .1% }} of cuBLAS's rate at 1,024, and parts of K lose there.

# %% [markdown]
# ## Takeaways
#
# - Work that does not divide by the SMs can be cut along k: every block gets the same number of stages.
# - n tiles on n + 1 blocks have one cut each. Two that add to zero give the same bits in either order; three
#   do not.
# - Cutting has its price, zeros before and additions after: it pays for the last of several rounds, and not
#   where the last round is the only one.
# - Where tiles are too few and K is short, smaller tiles were worth more than parts of K, as long as they fit into
#   one round; and a block that is over in microseconds gains from a quick way out.


# %% fold="The whole cell, with three wrong answers that the tests turn down"
from tilewise import exercise


def cuts_of(tiles, blocks, stages):
    line = tiles * stages
    return [piece * line // blocks for piece in range(blocks + 1)]


def rounded_up(tiles, blocks, stages):
    longest = -(-tiles * stages // blocks)
    return [min(piece * longest, tiles * stages) for piece in range(blocks + 1)]


def whole_tiles(tiles, blocks, stages):
    return [piece * tiles // blocks * stages for piece in range(blocks + 1)]


def forgets_the_end(tiles, blocks, stages):
    return [piece * (tiles * stages // blocks) for piece in range(blocks + 1)]


def cuts_tests(answer):
    for many, blocks, stages in ((7, 8, 128), (8, 9, 128), (3, 5, 10), (16, 132, 64), (5, 3, 7), (1, 4, 10)):
        cuts = [int(cut) for cut in answer(many, blocks, stages)]
        assert cuts[0] == 0 and cuts[-1] == many * stages, (
            f"{many} tiles: {cuts[0]} to {cuts[-1]} is not all of it"
        )
        pieces = np.diff(cuts)
        assert len(pieces) == blocks, f"{len(pieces)} pieces for {blocks} blocks"
        assert pieces.max() - pieces.min() <= 1, f"{many} tiles on {blocks} blocks: pieces of {pieces}"


exercise(
    "Cuts along k",
    """
    `tiles` tiles of `stages` stages each lie end to end. Write `cuts_of(tiles, blocks, stages)`: `blocks` + 1 stages, from 0
    to the end, at which the line is cut into one piece for each block, no piece more than one stage longer than another.
    """,
    answer=cuts_of,
    tests=cuts_tests,
    wrong=[rounded_up, whole_tiles, forgets_the_end],
    hint="The end of piece p is p parts of the whole line, rounded down.",
)
