# ---
# title: Attention on matrix units
# needs: [matmul/matrix_units, attention/flash_forward]
# summary: "Kernel 6 multiplies with ordinary multiply-adds. How much of the matrix units' rate is left for attention once softmax stands between its two products, and can 32-bit floats have it, too?"
# description: "Kernel 7: flash attention with mma.sync, ldmatrix and cp.async; online softmax in fragments, copies that run beside products; counted, predicted, beside torch. And 32-bit floats as two halves of FP16."
# date: 2026-11-21
# tags: [attention, flash attention, mma, ldmatrix]
# ---

# %% [markdown]
# Kernel 6 kept weights on chip, but it multiplied 32-bit floats one by one. Warps that do nothing but
# `mma.sync` were recorded at {{ units.probe | .0f }} TFLOP/s in BF16 on the same H100, which would be
# {{ units.ideal_us | us }} for two heads of 16,384 queries and keys with $d$ = 128. Between the two
# products of attention stands softmax, which knows no matrix units. How much of their rate is left?

# %% [markdown]
# ## Sums become operands
#
# A warp makes $S = QK^T$ as sums of `mma.sync`: a lane has pairs of neighbours from two rows of each
# 16 × 8 tile. The next product wants the weights $P$ as its left operand, fragments of 16 × 16, again in
# pairs of neighbours from two rows. So no number has to change lanes: two tiles of sums, rounded to
# BF16 and packed in pairs, are the four registers of an operand. A warp can tell. It multiplies,
# packs, and multiplies with the identity.

# %% fold="The kernel that asks"
import numpy as np

from tilewise import Kernel, Trace, agree, case, ceil_div, check, integers, output, parallel, show, tiles
from tilewise.figures import Series, State, line_chart, stepped
from tilewise.kernel.chains import as_case, run_chain
from tilewise.kernel.edits import edited
from tilewise.kernel.nvrtc import available, compile_kernel
from tilewise.measurements import (
    Numbers,
    complete,
    medians_us,
    printed_numbers,
    printed_rows,
    rates,
    recorded,
    recorded_device,
)
from tilewise.measurements.attention import DIFFICULT, ROUNDED, bf16_inputs, check_difficult
from tilewise.models import occupancy

TWICE = Kernel(r"""
#include <cuda_bf16.h>
typedef __nv_bfloat16 Bf16;

static __device__ void mma(float (&d)[4], const unsigned* a, const unsigned* b) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
static __device__ unsigned pair(float low, float high) {
    __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
    return *(unsigned*)&both;
}
extern "C" __global__
void twice(const float* A, const float* B, float* S, float* P) {
    int g = threadIdx.x / 4, t = threadIdx.x % 4;
    unsigned a[4], b[2][2], one[2][2], p[4];
    float s[2][4] = {}, o[2][4] = {};
    for (int r = 0; r < 4; ++r) {
        int row = g + r % 2 * 8, col = 2 * t + r / 2 * 8;
        a[r] = pair(A[row * 16 + col], A[row * 16 + col + 1]);
    }
    for (int n = 0; n < 2; ++n)
        for (int r = 0; r < 2; ++r) {
            int row = 2 * t + r * 8, col = 8 * n + g;
            b[n][r] = pair(B[row * 16 + col], B[row * 16 + 16 + col]);
            one[n][r] = pair(row == col, row + 1 == col);
        }
    for (int n = 0; n < 2; ++n) mma(s[n], a, b[n]);
    for (int n = 0; n < 2; ++n)  // sums of two tiles become one operand
        for (int r = 0; r < 2; ++r) p[2 * n + r] = pair(s[n][2 * r], s[n][2 * r + 1]);
    for (int n = 0; n < 2; ++n) mma(o[n], p, one[n]);
    for (int n = 0; n < 2; ++n)
        for (int r = 0; r < 4; ++r) {
            int row = g + r / 2 * 8, col = 8 * n + 2 * t + r % 2;
            S[row * 16 + col] = s[n][r];
            P[row * 16 + col] = o[n][r];
        }
}
""")
ASKED = TWICE.on(
    case(
        A=integers(16, 16, low=-3, high=4, dtype="float32"),
        B=integers(16, 16, low=-3, high=4, dtype="float32"),
        S=output(16, 16),
        P=output(16, 16),
        grid=1,
        block=32,
    )
)
got = ASKED.run()
check(got["S"], got["A"] @ got["B"], name="S by the matrix units")
check(got["P"], got["S"], name="S, packed and multiplied with the identity")

# %% fold="Code of the figure"
seen = ASKED.simulate(trace=Trace()).accesses
stored = seen.where(seen.buffer == list("ABSP").index("S"))
HOLDERS = np.zeros((16, 16), int)
HOLDERS.reshape(-1)[stored.index] = stored.lane
QUARTER = HOLDERS[:8, :8]
assert (np.tile(QUARTER, (2, 2)) == HOLDERS).all(), "the quarters differ"


def of_lane(lane):
    rows, columns = np.nonzero(lane == HOLDERS)
    keys = ", ".join(str(one) for one in np.unique(columns))
    return State(
        f"Lane {lane} has queries {rows.min()} and {rows.max()}, each with the keys {keys}.",
        arrays={"S": QUARTER},
        reads={"S": lane == QUARTER},
    )


show(
    stepped(
        [of_lane(lane) for lane in range(32)],
        start=5,
        title="Four lanes share a row of logits, and no others have any of it",
        caption="Eight of 16 queries down, eight of 16 keys across: in each cell stands the lane that holds the logit, as a simulated run wrote it. The other three quarters look the same. The same lane holds the weight as part of the next product's left operand.",
    )
)

# %% [markdown]
# So a row's maximum and sum are shared by four lanes with consecutive numbers: two shuffles each, and
# everything else of online softmax happens in the lane's own registers. The mean $o$ is a fragment of sums as well,
# with the same two rows, so a lane rescales its part of it with the factor that it has.

# %% [markdown]
# ## Kernel 7
#
# A block has four warps and goes through the keys in tiles of 64, in FA2 order. Each warp owns 16 or 32
# queries, `TILES` times 16, and needs no other warp's numbers. $Q$, $K$ and $V$ lie in shared memory,
# swizzled as in the lesson on matrix units. While logits are made the values travel, and while the mean
# is made the next keys do, so one buffer for each is enough. A weight costs a multiply-add and an
# `ex2`: the scale and $\log_2 e$ are one factor.


# %% tab="Pseudocode"
def flash_mma(Q, K, V, L, O, share, shift, scale):
    heads, N, d = Q.shape
    M = K.shape[1]
    for h in parallel(heads):
        for rows in tiles(N, 128):
            i = np.array(rows)
            m, z = np.full(len(i), -np.inf), np.zeros(len(i))
            o = np.zeros((len(i), d))
            for own in tiles(M, 64):
                j = np.array(own)
                # [scores
                s = scale * Q[h, i] @ K[h // share, j].T
                # scores]
                # [softmax
                s[i[:, None] + shift < j] = -np.inf
                top = np.maximum(m, s.max(axis=1))
                start = np.where(top > -np.inf, top, 0.0)
                p, worth = np.exp(s - start[:, None]), np.exp(m - start)
                m, z = top, worth * z + p.sum(axis=1)
                o = worth[:, None] * o
                # softmax]
                # [mean
                o = o + p @ V[h // share, j]
                # mean]
            # [write
            some = z > 0
            O[h, i] = o / np.where(some, z, 1.0)[:, None]
            L[h, i] = np.where(some, m + np.log(np.where(some, z, 1.0)), -np.inf)
            # write]


# %% tab="CUDA C"
FLASH_MMA = Kernel(
    r"""
#include <cuda_bf16.h>
typedef __nv_bfloat16 Bf16;
#define ROWS (64 * TILES)     // queries of a block: four warps with TILES times 16; KEYS of a key tile
#define CHUNKS (D / 8)        // of 16 bytes, of a row

// D += A B for one warp: 16x16 times 16x8, two BF16 to a register
static __device__ void mma(float (&d)[4], const unsigned* a, const unsigned* b) {
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
// four matrices of 8x8: lane l brings the address of row l % 8 of matrix l / 8
static __device__ void ldmatrix(unsigned (&r)[4], const uint4* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 "
        "{%0, %1, %2, %3}, [%4];"
        : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
        : "r"((unsigned)__cvta_generic_to_shared(row)) : "memory");
}
static __device__ void ldmatrix_turned(unsigned (&r)[4], const uint4* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 "
        "{%0, %1, %2, %3}, [%4];"
        : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
        : "r"((unsigned)__cvta_generic_to_shared(row)) : "memory");
}
// where a chunk of a row lies
static __device__ int place(int row, int chunk) {
    return row * CHUNKS + (chunk ^ row % 8);
}
// HEIGHT rows of X from `first` on, by copies that run ahead; zeros from `end` on
template <int HEIGHT>
static __device__ void bring(uint4* tile, const Bf16* X, int first, int end) {
    #pragma unroll
    for (int e = threadIdx.x; e < HEIGHT * CHUNKS; e += 128) {
        int row = e / CHUNKS, chunk = e % CHUNKS;
        bool there = first + row < end;
        const Bf16* from = X + (there ? (size_t)(first + row) * D + chunk * 8 : 0);
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
            :: "r"((unsigned)__cvta_generic_to_shared(&tile[place(row, chunk)])),
               "l"(from), "r"(there ? 16 : 0) : "memory");
    }
}
// everybody's copies are there, and everybody is through with what came before
static __device__ void arrived() {
    asm volatile("cp.async.wait_all;" ::: "memory");
    __syncthreads();
}
static __device__ unsigned pair(float low, float high) {
    __nv_bfloat162 both = __floats2bfloat162_rn(low, high);
    return *(unsigned*)&both;
}

extern "C" __global__ void __launch_bounds__(128)
flash_mma(const Bf16* Q, const Bf16* K, const Bf16* V, float* L, Bf16* O,
          int N, int M, int share, int shift, float scale) {
    extern __shared__ __align__(128) uint4 memory[];
    uint4 *q = memory, *k = q + ROWS * CHUNKS, *v = k + KEYS * CHUNKS;
    int lane = threadIdx.x % 32, mine = threadIdx.x / 32 * 16 * TILES;
    int head = blockIdx.y, first = blockIdx.x * ROWS;
    Q += (size_t)head * N * D;
    K += (size_t)(head / share) * M * D;
    V += (size_t)(head / share) * M * D;
    float o[TILES][D / 8][4] = {}, top[TILES][2], sum[TILES][2] = {};
    float scale2 = scale * 1.44269504f;  // exp(x) = exp2(x log2 e)
    #pragma unroll
    for (int m = 0; m < TILES; ++m) top[m][0] = top[m][1] = -INFINITY;
    int end = CAUSAL ? min(M, first + ROWS + shift) : M;
    int last = max(0, (end + KEYS - 1) / KEYS - 1) * KEYS;
    bring<ROWS>(q, Q, first, N);
    bring<KEYS>(k, K, last, M);
    for (int key = last; key >= 0; key -= KEYS) {
        // [scores
        arrived();
        bring<KEYS>(v, V, key, M);  // comes while logits are made
        float s[TILES][KEYS / 8][4] = {};
        #pragma unroll
        for (int c = 0; c < D / 16; ++c) {
            unsigned a[TILES][4], b[4];
            #pragma unroll
            for (int m = 0; m < TILES; ++m)
                ldmatrix(a[m], &q[place(mine + 16 * m + lane % 16, 2 * c + lane / 16)]);
            #pragma unroll
            for (int n = 0; n < KEYS / 8; n += 2) {
                ldmatrix(b, &k[place(8 * n + lane % 8 + lane / 16 * 8,
                                     2 * c + lane / 8 % 2)]);
                #pragma unroll
                for (int m = 0; m < TILES; ++m) {
                    mma(s[m][n], a[m], b);
                    mma(s[m][n + 1], a[m], b + 2);
                }
            }
        }
        // scores]
        // [softmax
        unsigned p[TILES][KEYS / 4];
        #pragma unroll
        for (int m = 0; m < TILES; ++m)
            #pragma unroll
            for (int r = 0; r < 2; ++r) {  // two rows of a lane, shared by four lanes
                int row = first + mine + 16 * m + lane / 4 + 8 * r;
                int see = CAUSAL ? min(M - 1, row + shift) : M - 1;
                if (key + KEYS > M || (CAUSAL && key + KEYS > first + shift))
                    #pragma unroll
                    for (int i = 0; i < KEYS / 4; ++i)
                        if (key + i / 2 * 8 + lane % 4 * 2 + i % 2 > see)
                            s[m][i / 2][2 * r + i % 2] = -INFINITY;
                float now = top[m][r];
                #pragma unroll
                for (int n = 0; n < KEYS / 8; ++n)
                    now = fmaxf(now, fmaxf(s[m][n][2 * r], s[m][n][2 * r + 1]));
                now = fmaxf(now, __shfl_xor_sync(~0u, now, 1));
                now = fmaxf(now, __shfl_xor_sync(~0u, now, 2));
                float from = now == -INFINITY ? 0.0f : now;  // no key yet: all weights 0
                float worth = exp2f((top[m][r] - from) * scale2);
                top[m][r] = now;
                sum[m][r] *= worth;
                from *= scale2;
                #pragma unroll
                for (int n = 0; n < KEYS / 8; ++n) {
                    float x = exp2f(s[m][n][2 * r] * scale2 - from);
                    float y = exp2f(s[m][n][2 * r + 1] * scale2 - from);
                    sum[m][r] += x + y;
                    p[m][2 * n + r] = pair(x, y);  // as the next product wants its A
                }
                #pragma unroll
                for (int n = 0; n < D / 8; ++n) {
                    o[m][n][2 * r] *= worth;
                    o[m][n][2 * r + 1] *= worth;
                }
            }
        // softmax]
        // [mean
        arrived();
        if (key) bring<KEYS>(k, K, key - KEYS, M);  // comes while the mean is made
        #pragma unroll
        for (int c = 0; c < KEYS / 16; ++c)
            #pragma unroll
            for (int n = 0; n < D / 8; n += 2) {
                unsigned b[4];
                ldmatrix_turned(b, &v[place(16 * c + lane % 16, n + lane / 16)]);
                #pragma unroll
                for (int m = 0; m < TILES; ++m) {
                    mma(o[m][n], &p[m][4 * c], b);
                    mma(o[m][n + 1], &p[m][4 * c], b + 2);
                }
            }
        // mean]
    }
    // [write
    #pragma unroll
    for (int m = 0; m < TILES; ++m)
        #pragma unroll
        for (int r = 0; r < 2; ++r) {
            float z = sum[m][r];
            z += __shfl_xor_sync(~0u, z, 1);
            z += __shfl_xor_sync(~0u, z, 2);
            float share_of = z > 0.0f ? 1.0f / z : 0.0f;  // no key at all: zeros
            int row = first + mine + 16 * m + lane / 4 + 8 * r;
            if (row >= N) continue;
            size_t i = (size_t)head * N + row;
            if (lane % 4 == 0)
                L[i] = z > 0.0f ? top[m][r] * scale + logf(z) : -INFINITY;
            #pragma unroll
            for (int n = 0; n < D / 8; ++n)
                *(__nv_bfloat162*)&O[i * D + 8 * n + lane % 4 * 2] = __floats2bfloat162_rn(
                    o[m][n][2 * r] * share_of, o[m][n][2 * r + 1] * share_of);
        }
    // write]
}
// spills: a few values with D of 128, on GPUs before Hopper
""",
    defines={"D": 128, "CAUSAL": 0, "TILES": 2, "KEYS": 64},
)

# %%
FLASH_MMA.region("scores")

# %%
FLASH_MMA.region("softmax")

# %% [markdown]
# Query $i$ may see keys up to $i$ plus a shift; this is the causal mask of a model that must not look
# ahead, and with a shift of `M - N` that of queries which continue a longer text.[^late] Tiles behind the
# last visible key are never visited, and the mask itself is applied in the tiles that it cuts. A row
# that has seen no key yet has minus infinity as its maximum, and the difference of two infinities is
# no number; `from` is 0 then, and all weights are 0.
#
# [^late]: Tiles are taken from the last one on, so that a block begins with those that need a mask. The
#     order changes nothing but rounding.
#
# ??? definition "Causal mask | causal"
#     The rule that a query sees no key that comes later than itself.

# %% fold="Code of the checks"


SPILLS = FLASH_MMA.source.splitlines(keepends=True)[-1]  # not so with other D, or half as many queries


def of_mma(row_tiles, keys=64, stages=1, source=FLASH_MMA.source, options=()):
    """Makes launches for 16 queries of a warp so many times, keys of a tile, and pairs of buffers."""

    def launch(N, d, causal=False, heads=1, **more):
        made = case(
            **bf16_inputs(N, d, heads=heads, causal=causal, **more),
            grid=(ceil_div(N, 64 * row_tiles), heads),
            block=128,
            shared_bytes=2 * d * (64 * row_tiles + 2 * stages * keys),
        )
        defines = {"D": d, "CAUSAL": int(causal), "TILES": row_tiles, "KEYS": keys}
        spilling = (row_tiles, d) == (2, 128) and not options
        text = source if spilling else source.replace(SPILLS, "")
        return Kernel(text, defines=defines, options=options).on(made)

    return launch


NARROW, WIDE = of_mma(1), of_mma(2)
agree(
    flash_mma,
    WIDE(N=8, d=64, causal=True).kernel,
    [
        WIDE(N=150, d=64, M=200, causal=True, heads=4, share=2, shift=40).case,
        WIDE(N=140, d=64, M=60, causal=True, heads=2, shift=-70).case,
    ],
    rtol=ROUNDED,
    atol=ROUNDED,
)
check_difficult(NARROW, "with 16 queries a warp")
check_difficult(WIDE, "with 32 queries a warp")

# %% [markdown]
# Both halves of `arrived` are needed. Without the wait a warp reads values that are still on their way;
# without the barrier a copy overwrites what another warp has yet to read, or never waited for.

# %% fold="Code of the check"
from tilewise import Guess, Table, bf16, expect_hazard, gpu_here, measure, normal, publish

faulty = WIDE(**DIFFICULT["keys that no tile divides"])
WAIT, BARRIER = 'asm volatile("cp.async.wait_all;" ::: "memory");', "    __syncthreads();\n}"
expect_hazard(edited(faulty, (WAIT, ";")), "undelivered", line_with="ldmatrix")
expect_hazard(edited(faulty, (BARRIER, "}")), "race", line_with="cp.async")

# %% [markdown]
# ## Sixteen queries, or thirty-two
#
# Every warp reads all keys and values from shared memory. A fragment of them that has been read serves
# as many `mma.sync` as the warp has row tiles. With 16 queries the warps of an SM read
# {{ banks.narrow | .0f }} bytes for each clock in which its matrix units are busy at the recorded rate,
# and shared memory gives 128. With 32 queries it is {{ banks.wide | .0f }}. The price is registers: the
# mean alone takes {{ banks.mean }} of a thread's with $d$ = 128, the logits {{ banks.logits }}.

# %% fold="Code of the figure"
PROBE = recorded("reads.ceilings.probes.bf16_matrix_tflop_per_s")
PEAK = recorded("reads.ceilings.tflop_per_s.bf16_matrix")  # at the recorded clock, to count cycles
GPU = recorded_device()
A_CLOCK = 2 * GPU.fma_per_sm_clock["bf16_matrix"]


def budget(row_tiles, d, keys=64):
    """Clocks of an SM for four warps and a tile of keys: matrix units, exponentials, issue, banks."""
    queries, warps = 16 * row_tiles, 4
    products = 4 * warps * queries * keys * d / (A_CLOCK * PROBE / PEAK)
    exponentials = warps * queries * keys / 16
    mma = 2 * row_tiles * (keys // 8) * (d // 16)
    fragments = d // 16 * (row_tiles + keys // 16) + keys // 16 * (d // 16)
    logits = queries * keys // 32
    issued = mma + fragments + logits * 4.5 + row_tiles * d // 2
    banks = warps * 4 * fragments  # four passes for four matrices
    return {"matrix": products, "exponentials": exponentials, "issue": issued, "banks": banks}


def bytes_a_clock(row_tiles, d):
    """Bytes that are read from shared memory for each clock of the matrix units."""
    one = budget(row_tiles, d)
    return 128 * one["banks"] / one["matrix"]


def share_left(row_tiles, d, keys=64):
    """Least and most of the recorded rate of mma.sync: nothing overlaps, everything does."""
    one = budget(row_tiles, d, keys)
    least = one["matrix"] / (one["matrix"] + one["exponentials"] + one["issue"])
    return least, one["matrix"] / max(one.values())


LADDER = {"16 queries a warp": NARROW, "Kernel 7: 32 queries a warp": WIDE}
ROW_TILES = dict(zip(LADDER, (1, 2), strict=True))
RUNGS = [(label, d) for label in LADDER for d in (64, 128)]
REGISTERS = {
    (label, d): compile_kernel(LADDER[label](N=64, d=d).kernel, ["sm_90"])[0].registers
    for label, d in RUNGS
    if available() is None
}
show(
    Table(
        ["", "d", "registers", "matrix units", "exponentials", "instructions", "banks", "share left"],
        [
            [
                label,
                d,
                REGISTERS.get((label, d)),
                *(round(clocks) for clocks in budget(ROW_TILES[label], d).values()),
                f"{share_left(ROW_TILES[label], d)[0]:.0%}",
            ]
            for label, d in RUNGS
        ],
        caption="A model: clocks of an SM for one block of four warps and 64 keys, with the matrix units at the rate recorded for mma.sync, 16 exponentials a clock, one instruction a clock and scheduler, one pass of the banks a clock; what is left of that rate if only the reads of fragments overlap; and registers of a thread by the compiler's report for an H100.",
    )
)
for row_tiles, launch_of in enumerate((NARROW, WIDE), 1):
    check(
        launch_of(N=128, d=128).simulate().counts.shared_load.wavefronts,
        2 * 2 // row_tiles * budget(row_tiles, 128)["banks"],
        name=f"passes, {16 * row_tiles} queries a warp",
    )
publish(
    banks={
        "narrow": bytes_a_clock(1, 128),
        "wide": bytes_a_clock(2, 128),
        "mean": 2 * 16 * 128 // 32,
        "logits": 2 * 16 * 64 // 32,
    },
    units={"probe": PROBE, "ideal_us": 4 * 2 * 16384**2 * 128 / PROBE / 1e6},
    model={
        f"{name}_{end}": share
        for name, *sizes in (("narrow", 1, 128), ("wide", 2, 128), ("small", 2, 64))
        for end, share in zip(("least", "most"), share_left(*sizes), strict=True)
    },
)

# %% [markdown]
# ## What it should take
#
# The passes over the banks are those that the simulator counts. With 16 queries a warp the model leaves
# {{ model.narrow_least | .0% }} of what `mma.sync` reaches if nothing overlaps and {{ model.narrow_most | .0% }} if
# everything does; with 32 it is {{ model.wide_least | .0% }} and {{ model.wide_most | .0% }}, and with $d$ = 64
# {{ model.small_least | .0% }} and {{ model.small_most | .0% }}. Two blocks share an SM, and while warps of one make
# weights those of the other can multiply. Nothing arranges it; a scheduler takes what is ready. So a result
# somewhere in the middle is to be expected.

# %% fold="Code of the measurement"
from tilewise.measurements.attention import attention, right_answer, shifted_attention


def heads_of(N, d):
    """As many heads as make arrays of 2^22 numbers; a few for the simulator."""
    return 2 if N < 512 else 2**22 // (N * d)


def launched(label):
    return lambda N, d, causal: LADDER[label](N=N, d=d, causal=causal, heads=heads_of(N, d))


def torch_backend(name):
    """torch's attention by one of its backends, on the same bits."""

    def made(arrays, N, d, causal):
        import cupy
        import torch
        from torch.nn.attention import SDPBackend, sdpa_kernel

        heads = heads_of(N, d)
        shape = (max(1, heads // 16), min(heads, 16), N, d)
        Q, K, V = (
            torch.as_tensor(arrays[one].view(np.int16), device="cuda").view(torch.bfloat16).view(shape)
            for one in "QKV"
        )
        backend = getattr(SDPBackend, name)

        def run():
            with sdpa_kernel(backend):
                found = torch.nn.functional.scaled_dot_product_attention(Q, K, V, is_causal=causal)
            return {"O": cupy.asarray(found.view(torch.int16)).view(np.uint16)}

        return run

    return made


MATH, FLASH_2 = "math (torch SDPA)", "FlashAttention-2 (torch SDPA)"
BACKENDS = {MATH: "MATH", FLASH_2: "FLASH_ATTENTION"}
LENGTHS = (1024, 4096, 16384)
SIZES = [
    *({"N": N, "d": d, "causal": False} for d in (128, 64) for N in LENGTHS),
    *({"N": N, "d": 128, "causal": True} for N in LENGTHS[1:]),
]


def flop_of(N, d, causal=False):
    """Operations for the pairs of a query and a key that it sees."""
    return 4 * heads_of(N, d) * (N * (N + 1) // 2 if causal else N * N) * d


seventh = measure(
    "attention_mma",
    variants={label: launched(label) for label in LADDER},
    cases=SIZES,
    count_case={"N": 256, "d": 64, "causal": True},
    bytes=lambda N, d, causal: heads_of(N, d) * N * (4 * 2 * d + 4),
    flop=flop_of,
    arithmetic="bf16_matrix",
    counts=("sectors", "wavefronts", "instructions"),
    library={label: torch_backend(name) for label, name in BACKENDS.items()},
    reference=shifted_attention,
    tolerance=2**-7,
    reasons={"*": "What it takes"},
    fold="All rows",
    guess=Guess(
        "With d = 128 and N = 4,096, how many times as fast are 32 queries a warp as 16?",
        of="Kernel 7: 32 queries a warp",
        over="16 queries a warp",
        at={"N": 4096, "d": 128, "causal": False},
        between=(0.5, 3.0),
        models={"bytes from shared memory": bytes_a_clock(1, 128) / bytes_a_clock(2, 128)},
        because="Fewer bytes for each product, as many exponentials as before, and fewer warps to cover for one that waits.",
    ),
)

# %% fold="Code of the figure"


RATES = rates(seventh, flop_of)
SEVEN, NARROW_LABEL = "Kernel 7: 32 queries a warp", "16 queries a warp"
COMPLETE = complete(*RATES.values()) and (FLASH_2, 4096, 128, False) in RATES


def at(label, N=4096, d=128, causal=False):
    return RATES[label, N, d, causal]


if COMPLETE:
    for N in LENGTHS:
        assert at(SEVEN, N) > 0.8 * at(FLASH_2, N), "the title says that Kernel 7 comes near FlashAttention-2"
        assert at(FLASH_2, N) < PROBE * share_left(2, 128)[0], "the title says that neither reaches the model"
    show(
        line_chart(
            [
                *(
                    Series(label, LENGTHS, [at(label, N) for N in LENGTHS])
                    for label in dict.fromkeys(label for label, *_ in RATES)
                ),
                Series("nothing overlaps", LENGTHS, [PROBE * share_left(2, 128)[0]] * 3, role="predicted"),
            ],
            x="N",
            y="TFLOP/s",
            log_x=True,
            title="Kernel 7 comes near FlashAttention-2, and neither reaches what the model leaves at the least",
            caption="Rates by the number of queries, d = 128 without a mask, recorded on an {machine}, and the model for 32 queries a warp if nothing overlaps but the reads of fragments.",
        )
    )


def in_turn(row_tiles, d, keys=64):
    """Share of mma.sync's rate if each part waits for the others, passes over the banks too."""
    one = budget(row_tiles, d, keys)
    return one["matrix"] / sum(one.values())


def micros(label, N=4096, causal=False):
    """A row's median in microseconds with d = 128, from its rate."""
    return flop_of(N, 128, causal) / at(label, N, causal=causal) / 1e6


def busiest(N):
    """The most key tiles of an SM under the mask, of those without, if blocks of 128 queries go to SMs in turn."""
    count, per_head = heads_of(N, 128) * N // 128, N // 128
    seen, every = np.zeros(GPU.sms), np.zeros(GPU.sms)
    for block in range(count):
        seen[block % GPU.sms] += 2 * (block % per_head + 1)
        every[block % GPU.sms] += 2 * per_head
    return seen.max() / every.max()


OF_FLASH = [at(SEVEN, **size) / at(FLASH_2, **size) for size in SIZES]
OFF = [
    in_turn(row_tiles, d) - at(label, d=d) / PROBE
    for row_tiles, label in ((1, NARROW_LABEL), (2, SEVEN))
    for d in (64, 128)
]
PLACES = {
    label: GPU.sms * occupancy(128, REGISTERS[label, 128], 256 * (64 * ROW_TILES[label] + 128)).blocks_per_sm
    for label in LADDER
    if REGISTERS
}
if COMPLETE:
    assert max(map(abs, OFF)) < 0.05, "the answer says that every unit seems to wait for the others"
publish(
    turn={
        "wide": in_turn(2, 128),
        "narrow": in_turn(1, 128),
        "small": in_turn(2, 64),
        "points": 100 * max(abs(one) for one in OFF),
        "times": in_turn(2, 128) / in_turn(1, 128),
        "recorded_times": at(SEVEN) / at(NARROW_LABEL),
        "bytes_times": bytes_a_clock(1, 128) / bytes_a_clock(2, 128),
    },
    mask={
        "us": micros(SEVEN, causal=True),
        "without_us": micros(SEVEN),
        "blocks": heads_of(4096, 128) * 4096 // 128,
        "places": PLACES.get(SEVEN, np.nan),
        "busiest": busiest(4096),
        "of_time": micros(SEVEN, causal=True) / micros(SEVEN),
        "long_busiest": busiest(16384),
        "long_of_time": micros(SEVEN, 16384, True) / micros(SEVEN, 16384),
        "narrow_us": micros(NARROW_LABEL, causal=True),
        "narrow_without_us": micros(NARROW_LABEL),
        "narrow_blocks": heads_of(4096, 128) * 4096 // 64,
        "narrow_places": PLACES.get(NARROW_LABEL, np.nan),
        "flash_of_time": micros(FLASH_2, causal=True) / micros(FLASH_2),
    },
    seen={
        "seven": at(SEVEN),
        "long_us": micros(SEVEN, 16384),
        "share": at(SEVEN) / PROBE,
        "narrow_share": at(NARROW_LABEL) / PROBE,
        "small_share": at(SEVEN, d=64) / PROBE,
        "math_times": at(SEVEN) / at(MATH),
    },
    flash={
        "least": min(OF_FLASH),
        "most": max(OF_FLASH),
        "at": at(SEVEN) / at(FLASH_2),
    },
)

# %% [markdown]
# ## What it takes
#
# The prediction failed. At $N$ = 4,096 and $d$ = 128 Kernel 7 reaches {{ seen.share | .0% }} of what `mma.sync` does alone,
# {{ seen.narrow_share | .0% }} with 16 queries a warp and {{ seen.small_share | .0% }} with $d$ = 64: nowhere as much as
# the model leaves if nothing overlaps. It let one thing overlap all the same, the reads of
# fragments. With the passes over the banks in the sum, every part in its turn, it leaves {{ turn.wide | .0% }},
# {{ turn.narrow | .0% }} and {{ turn.small | .0% }}.

# %% [markdown]
# That is within {{ turn.points | .1f }} percentage points of the record for both widths of a warp and both $d$. This model was
# fitted afterwards and proves no cause: waits that the model does not know would look the same. It agrees with
# what twice as many queries a warp are worth, {{ turn.recorded_times | .2f }} times the rate and not the
# {{ turn.bytes_times | .1f }} of their bytes: every part in its turn gives {{ turn.times | .2f }}.

# %% [markdown]
# The causal mask leaves out half of all pairs, and the time hardly changes: {{ mask.us | us }} after
# {{ mask.without_us | us }}. There are {{ mask.blocks }} blocks and {{ mask.places | .0f }} places for them, so all begin at once, and an
# SM with short ones gets no others. If blocks go to the SMs in turn, the busiest keeps {{ mask.busiest | .0% }} of its key
# tiles, and {{ mask.long_busiest | .0% }} with $N$ = 16,384. Of the times {{ mask.of_time | .0% }} and
# {{ mask.long_of_time | .0% }} are left.

# %% [markdown]
# With 16 queries a warp there are {{ mask.narrow_blocks }} blocks for {{ mask.narrow_places | .0f }} places, and some begin where
# short ones have ended. So it takes {{ mask.narrow_us | us }} after
# {{ mask.narrow_without_us | us }}, and the rung that is slower without a mask is the faster one with it. FlashAttention-2 keeps {{ mask.flash_of_time | .0% }} of its time. Which block gets
# which tiles matters, too; the next lesson deals them out.

# %% [markdown]
# ## Other shapes
#
# Two numbers were chosen without a comparison: 64 keys to a tile, and one buffer each for keys and values. A
# larger tile is rescaled less often and reads the queries' fragments less often; a smaller one leaves
# registers and shared memory to other blocks. With a second pair of buffers both tiles are asked for
# a whole round ahead, and one barrier a tile is enough.


# %% fold="Code of the shapes"
NEXT_TILE = (  # two buffers for keys and two for values
    (
        "    bring<KEYS>(k, K, last, M);\n",
        "    bring<KEYS>(k, K, last, M);\n"
        "    bring<KEYS>(v, V, last, M);\n"
        "    uint4* after = v + KEYS * CHUNKS;\n",
    ),
    (
        "        bring<KEYS>(v, V, key, M);  // comes while logits are made\n",
        "        if (key) bring<KEYS>(after, K, key - KEYS, M);  // New: a tile ahead\n"
        "        if (key) bring<KEYS>(after + KEYS * CHUNKS, V, key - KEYS, M);\n",
    ),
    (
        "        arrived();\n"
        "        if (key) bring<KEYS>(k, K, key - KEYS, M);  // comes while the mean is made\n",
        "",
    ),
    (
        "                    mma(o[m][n + 1], &p[m][4 * c], b + 2);\n                }\n            }\n",
        "                    mma(o[m][n + 1], &p[m][4 * c], b + 2);\n"
        "                }\n"
        "            }\n"
        "        uint4* read = k;\n"
        "        k = after;\n"
        "        v = k + KEYS * CHUNKS;\n"
        "        after = read;\n",
    ),
)
FOR_HOPPER = ("-std=c++17", "-arch=sm_90a")  # the shapes are tuned for one GPU
SPILLING = {(2, 128, 1), (2, 64, 2)}


def of_shape(row_tiles, keys, stages):
    text = FLASH_MMA.source
    for old, new in NEXT_TILE if stages == 2 else ():
        text = text.replace(old, new)
    if (row_tiles, keys, stages) in SPILLING:
        text += "// spills: to show what such a shape costs\n"
    return of_mma(row_tiles, keys, stages, text, () if (keys, stages) == (64, 1) else FOR_HOPPER)


SHAPES = {
    f"{16 * row_tiles} queries, {keys} keys{', a tile ahead' * (stages > 1)}": (row_tiles, keys, stages)
    for stages, sizes in ((1, (32, 64, 128)), (2, (32, 64)))
    for row_tiles in (1, 2)
    for keys in sizes
    if (row_tiles, keys, stages) != (1, 32, 2)
}
AHEAD = of_shape(2, 64, 2)(N=64, d=128).kernel
further = [shape for shape in SHAPES.values() if shape[1:] != (64, 1)]
runs = [of_shape(*shape)(**DIFFICULT["large logits"]).run() for shape in further]
for one, room in (("O", ROUNDED), ("L", 1e-5)):
    check(
        np.stack([bf16.values(run[one]) if one == "O" else run[one] for run in runs]),
        np.stack([right_answer(runs[0])[one]] * len(runs)),
        rtol=room,
        atol=room,
        name=f"{one} of {len(runs)} further shapes",
    )
FITTING = {
    label: compile_kernel(
        of_shape(*shape)(N=64, d=128).kernel, ["sm_90" if shape[1:] == (64, 1) else "sm_90a"]
    )[0]
    for label, shape in SHAPES.items()
    if available() is None
}

# %%
AHEAD.region("scores")

# %% [markdown]
# Which shape is best? The compiler says what each takes, the model what may be left, and a GPU decides.
# All nine are tried, and those that lose stay in the table. Written down before they ran: best is 32 queries and 64
# keys with a tile ahead, {{ guessed.ahead }} TFLOP/s, for it has one barrier less, then Kernel 7's own shape with
# {{ guessed.own }}; 32 queries and 128 keys come last, {{ guessed.spilling }}, because of what spills.

# %% fold="Code of the prediction"
GUESSED = {  # TFLOP/s of each shape, written down before any of them ran
    "16 queries, 32 keys": 280,
    "16 queries, 64 keys": 300,
    "16 queries, 128 keys": 305,
    "32 queries, 32 keys": 320,
    "32 queries, 64 keys": 340,
    "32 queries, 128 keys": 270,
    "16 queries, 64 keys, a tile ahead": 305,
    "32 queries, 32 keys, a tile ahead": 330,
    "32 queries, 64 keys, a tile ahead": 350,
}
publish(
    guessed={
        "ahead": GUESSED["32 queries, 64 keys, a tile ahead"],
        "own": GUESSED["32 queries, 64 keys"],
        "spilling": GUESSED["32 queries, 128 keys"],
    }
)

# %% fold="Code of the measurement"
tuned = measure(
    "attention_mma_shapes",
    variants={
        label: lambda N, d, shape=shape: of_shape(*shape)(N=N, d=d, heads=heads_of(N, d))
        for label, shape in SHAPES.items()
    },
    cases=[{"N": 4096, "d": 128}],
    count_case={"N": 128, "d": 128},
    bytes=lambda N, d: heads_of(N, d) * N * (4 * 2 * d + 4),
    flop=flop_of,
    arithmetic="bf16_matrix",
    counts=("sectors", "wavefronts"),
    reference=shifted_attention,
    tolerance=2**-7,
    reasons={"*": "Other shapes"},
    fold="What the shapes count",
)

# %% fold="Code of the table"
SHAPE_RATES = {label: rate for (label, *_), rate in rates(tuned, flop_of).items()}
OWN, SPILLED = "32 queries, 64 keys", "32 queries, 128 keys"


def shape_row(label):
    row_tiles, keys, _ = SHAPES[label]
    shared = of_shape(*SHAPES[label])(N=64, d=128).shared_bytes
    fitting = FITTING.get(label)
    return [
        label,
        fitting and fitting.registers,
        fitting and fitting.spill_store_bytes + fitting.spill_load_bytes,
        shared // 1024,
        fitting and occupancy(128, fitting.registers, shared).blocks_per_sm,
        round(PROBE * in_turn(row_tiles, 128, keys)),
        GUESSED[label],
        round(SHAPE_RATES[label]),
    ]


if complete(*SHAPE_RATES.values()):
    BY_RATE = sorted(SHAPE_RATES, key=SHAPE_RATES.get, reverse=True)
    OVER = [GUESSED[label] / SHAPE_RATES[label] - 1 for label in BY_RATE if label != SPILLED]
    TURN_OFF = [
        abs(1 - PROBE * in_turn(*SHAPES[label][:1], 128, SHAPES[label][1]) / SHAPE_RATES[label])
        for label in BY_RATE[:-1]
    ]
    assert BY_RATE[0] == OWN, "the text says that the best is Kernel 7's own shape"
    assert min(OVER) > 0.1, "the text says that all other predictions are too high"
    show(
        Table(
            ["shape", "registers", "spilled", "shared", "blocks", "in turn", "predicted", "recorded"],
            [shape_row(label) for label in BY_RATE],
            caption="Queries of a warp and keys of a tile with d = 128: registers and spilled bytes of a thread by the compiler's report for an H100, KB of shared memory of a block, blocks that fit on an SM, and TFLOP/s: the model's if each part waits for the others, those that were predicted, and those recorded on an {machine} for N = 4,096 without a mask, best first.",
        )
    )
    publish(
        shapes={
            "count": len(SHAPES),
            "best": BY_RATE[0],
            "best_rate": SHAPE_RATES[BY_RATE[0]],
            "worst": BY_RATE[-1],
            "worst_rate": SHAPE_RATES[BY_RATE[-1]],
            "ahead_times": SHAPE_RATES[f"{OWN}, a tile ahead"] / SHAPE_RATES[OWN],
            "next_rate": SHAPE_RATES[BY_RATE[1]],
            "turn_off": max(TURN_OFF),
            "spilling": SHAPE_RATES[SPILLED],
            "worst_turn": PROBE * in_turn(1, 128, 32),
            "over_least": min(OVER),
            "over_most": max(OVER),
        }
    )

# %% [markdown]
# The best of the {{ shapes.count }} is "{{ shapes.best }}", Kernel 7's own shape, with {{ shapes.best_rate | .0f }} TFLOP/s,
# but two more reach {{ shapes.next_rate | .0f }}. A tile ahead changes it by a factor of {{ shapes.ahead_times | .3f }}: one barrier
# less a tile buys nothing here. Nor do the spilled bytes cost what was feared, as "32 queries, 128 keys" reaches
# {{ shapes.spilling | .0f }}. That is the only rate that was predicted about right, for a reason that was wrong.

# %% [markdown]
# All other predictions are too high, by {{ shapes.over_least | .0% }} to {{ shapes.over_most | .0% }}, as they count on
# parts that overlap. Every part in its turn comes within {{ shapes.turn_off | .0% }} of all rows but the last,
# "{{ shapes.worst }}", which stays far below that as well: {{ shapes.worst_rate | .0f }} TFLOP/s where it gives
# {{ shapes.worst_turn | .0f }}. Nothing counted here says why.

# %% [markdown]
# ## 32-bit floats in two halves
#
# Kernel 7 rounds what it multiplies to 16 bits. Whoever has 32-bit floats, and wants results as exact
# as those, was left with multiply-adds: the last rung of the lesson on Kernel 6's clocks takes {{ ordinary.us | us }} for one
# head of 1,024 queries and keys, torch's three operations {{ ordinary.torch_us | us }}. In that time the matrix units
# could do the same products {{ ordinary.products | .0f }} times over. What if some of those were spent on exactness?
#
# A number of FP16 holds 11 bits. Let $h$ be $x$, rounded to FP16, and $l$ what is missing, times 2,048
# so that it is about as large as $h$, rounded as well. Then $x \approx h + l / 2048$ with 11 + 11 bits, and
#
# $$xy \approx h h' + (h l' + l h') / 2048 .$$
#
# Each of the three products is one for matrix units. The fourth, $l l'$, is left out.


# %% fold="Imports, and what is known"
from tilewise import constant


def ordinary_us(variant, N=1024):
    """A median of the lesson on Kernel 6's clocks, in microseconds."""
    return recorded(f"attention_flash_steps.{variant}.n_{N}_d_128.median")


FP16_PROBE = recorded("attention_flash_steps.ceilings.probes.fp16_matrix_tflop_per_s")
FFMA, THREE = "joined_later_all_loads_at_once", "torch_three_operations"
publish(
    ordinary={
        "us": ordinary_us(FFMA),
        "torch_us": ordinary_us(THREE),
        "products": ordinary_us(FFMA) * 1e6 * FP16_PROBE / (4 * 1024**2 * 128),
    }
)


# %%
def halves(x):
    """High and low halves of x in FP16, as 64-bit floats."""
    high = np.float16(x)
    low = np.float16((x - high) * 2048)
    return np.float64(high), np.float64(low)


def three_products(x, y):
    """x @ y without the product of both low halves."""
    (high, low), (other, missing) = halves(x), halves(y)
    return high @ other + (high @ missing + low @ other) / 2048


# %% [markdown]
# How much is lost? The next cell splits random numbers and adds up products of 128 pairs, in 64-bit floats, so that nothing
# but the halves is inexact. After the split a number is off by at most {{ split.off | .1e }} of its size; FP32 itself
# rounds by up to {{ split.fp32 | .1e }}. The product that is left out is at most {{ split.fourth | .1e }}
# of the largest sum.

# %% fold="Code of the table"
random = np.random.default_rng(7)
LEFT, RIGHT = (random.standard_normal((256, 128)).astype(np.float32) for _ in range(2))
EXACT = np.float64(LEFT) @ np.float64(RIGHT).T
(HIGH, LOW), (OTHER, MISSING) = halves(LEFT), halves(RIGHT.T)
in_order = np.zeros((256, 256), np.float32)
for at_once in range(128):
    in_order += LEFT[:, at_once, None] * RIGHT[None, :, at_once]
MADE = {
    "one: high by high": HIGH @ OTHER,
    "two: and high by low": HIGH @ OTHER + HIGH @ MISSING / 2048,
    "three: and low by high": three_products(LEFT, RIGHT.T),
    "four: and low by low": (HIGH + LOW / 2048) @ (OTHER + MISSING / 2048),
    "in 32-bit floats, one after the other": in_order,
}
PRODUCTS_OFF = {label: np.abs(one - EXACT).max() / np.abs(EXACT).max() for label, one in MADE.items()}
show(
    Table(
        ["products", "largest error"],
        [[label, f"{off:.1e}"] for label, off in PRODUCTS_OFF.items()],
        caption="Sums of 128 products of normal numbers, 65,536 of them: the largest error as a share of the largest sum. The first four are added up in 64-bit floats, so that only the halves count.",
    )
)
assert PRODUCTS_OFF["three: and low by high"] < PRODUCTS_OFF["in 32-bit floats, one after the other"]


def off_after_split(x):
    """The largest error of the halves, as a share of the number; NaN where a half is infinite."""
    high, low = halves(x)
    return np.max(np.abs(high + low / 2048 - np.float64(x)) / np.abs(np.float64(x)))


publish(
    split={
        "off": off_after_split(random.uniform(1, 2, 2**18).astype(np.float32)),
        "fp32": 2.0**-24,
        "fourth": np.abs(LOW @ MISSING).max() / 2048**2 / np.abs(EXACT).max(),
        "one": PRODUCTS_OFF["one: high by high"],
        "three": PRODUCTS_OFF["three: and low by high"],
        "four": PRODUCTS_OFF["four: and low by low"],
        "in_order": PRODUCTS_OFF["in 32-bit floats, one after the other"],
    }
)

# %% [markdown]
# So three products lose less than 32-bit additions do: {{ split.three | .1e }} beside {{ split.in_order | .1e }}. The fourth would
# leave {{ split.four | .1e }}, little gain for a third more work. With two the whole error of one operand stays, and one
# product alone loses {{ split.one | .1e }}.

# %% [markdown]
# ## What halves cannot hold
#
# FP16 has a smaller range than FP32. Above 65,504 the high half is infinite and the low one, too: the
# result is no number. Below {{ holds.smallest | .1e }} both halves run out of bits. From there
# on a number is off by the same amount however small it is, {{ holds.step | .1e }}.

# %% fold="Code of the figure"
FIRM = random.uniform(1, 2, 2**14).astype(np.float32)
SPANS = [2.0**exponent for exponent in range(-30, 15)]
SPLIT_OFF = [off_after_split(FIRM * np.float32(span)) for span in SPANS]
show(
    line_chart(
        [
            Series("halves", SPANS, SPLIT_OFF),
            Series("rounding of FP32", SPANS, [2.0**-24] * len(SPANS), role="predicted"),
        ],
        x="size of x",
        y="largest error, of x",
        log_x=True,
        log_y=True,
        title="Two halves are nearly as exact as FP32 from a ten-thousandth to 65,504, and no further",
        caption="The largest error of high + low / 2048 among 16,384 random numbers between a power of two and the next, as a share of the number, beside half a unit in the last place of FP32.",
    )
)
with np.errstate(all="ignore"):
    beyond = three_products(np.float32([[1e5]]), np.float32([[1.0]]))
check(beyond, np.full((1, 1), np.nan), name="1e5 by 1 in halves is no number")
SMALL = (FIRM * np.float32(2.0**-24)).astype(np.float32)
publish(
    holds={
        "smallest": 2.0**-14,
        "step": np.abs(np.add(*np.multiply(halves(SMALL), [[1], [1 / 2048]])) - SMALL).max(),
        "micro": off_after_split(FIRM * np.float32(1e-6)),
    }
)

# %% [markdown]
# Weights lie between 0 and 1, and a small one may be off by that amount: beside a weight of 1 it is nothing.
# Queries, keys and values have to be of an ordinary size. Values about 1e-6 in size are off by up to {{ holds.micro | .0e }}
# before anything is multiplied. Someone who cannot promise the size has to scale.

# %% [markdown]
# ## Split once, where it lies
#
# A block has the work of the other lesson: 64 queries and a share of the keys, 128 at a time, for a second launch
# to join. Of its eight warps four times two have the same 16 queries, and one half of the keys each. The
# numbers come as they are, 32 bits wide. Each thread waits for what it brought itself and splits it, once, into
# the place where it lies: 64 numbers of a row take as many bytes as their 128 halves.


# %% tab="Pseudocode"
def flash_halves(Q, K, V, bias, part, tops, sums, share, scale):
    shares, heads, N, d = part.shape
    for h in parallel(heads):
        for w in range(shares):
            own = range(w * share, min(len(bias), (w + 1) * share))
            m, z, o = np.full(N, -np.inf), np.zeros(N), np.zeros((N, d))
            for tile in tiles(len(own), 128):
                j = own[tile.start : tile.stop]
                # [scores
                s = np.log2(np.e) * (scale * three_products(Q[h], K[h, j].T) + bias[j])
                # scores]
                # [softmax
                top = np.maximum(m, s.max(axis=1))
                start = np.where(top > -np.inf, top, 0.0)
                p, worth = np.exp2(s - start[:, None]), np.exp2(m - start)
                m, z = top, worth * z + p.sum(axis=1)
                # softmax]
                # [mean
                o = worth[:, None] * o + three_products(p, V[h, j])
                # mean]
            part[w, h] = o
            tops[w, h] = m
            sums[w, h] = z


# %% tab="CUDA C"
HALVES = r"""
// spills: a few values, where 255 registers do not hold all of them
#include <cuda_fp16.h>
#define LOG2E 1.44269504f
#define WORTH (1.0f / 2048)   // of a product with a low half
// x = high + low / 2048, as operands: 16 rows of 16 terms, 16 terms of 8 columns
struct Left { unsigned high[4], low[4]; };
struct Right { unsigned high[2], low[2]; };
// Where 16 bytes of a row lie: 32 such chunks to a row, swizzled.
static __device__ int place(int row, int chunk) { return row * 32 + (chunk ^ row % 8); }

// One half of COUNT rows of X from `first` on, by copies that run ahead; zeros from `end` on.
template <int COUNT>
static __device__ void bring(float4* tile, const float* X, int piece, int first, int end) {
    int chunk = 16 * piece + threadIdx.x % 16;
    #pragma unroll
    for (int n = 0; n < COUNT; n += 16) {
        int r = threadIdx.x / 16 + n;
        bool there = first + r < end;
        const float* from = X + (there ? (long long)(first + r) * 128 + 4 * chunk : 0);
        asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
            :: "r"((unsigned)__cvta_generic_to_shared(&tile[place(r, chunk)])),
               "l"(from), "r"(there ? 16 : 0) : "memory");
    }
}
static __device__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Wait for this thread's copies, all but the latest groups.
template <int LATEST> static __device__ void arrived_but() {
    asm volatile("cp.async.wait_group %0;" :: "n"(LATEST) : "memory");
}

// [split
static __device__ void split(unsigned& high, unsigned& low, float x, float y) {
    __half2 h = __floats2half2_rn(x, y);
    float2 f = __half22float2(h);
    __half2 l = __floats2half2_rn((x - f.x) * 2048.0f, (y - f.y) * 2048.0f);
    high = *(unsigned*)&h;
    low = *(unsigned*)&l;
}
// Each thread splits what it brought. Of 64 numbers high halves go to the front, low ones behind.
template <int COUNT> static __device__ void split_piece(float4* tile, int piece) {
    int c = threadIdx.x % 16, row = threadIdx.x / 16, start = 16 * piece;
    #pragma unroll
    for (int n = 0; n < COUNT; n += 64) {
        float4 x[4];
        #pragma unroll
        for (int i = 0; i < 4; ++i) x[i] = tile[place(row + n + 16 * i, start + c)];
        __syncwarp();  // all lanes have their numbers: these rows may be written
        #pragma unroll
        for (int i = 0; i < 4; ++i) {
            int r = row + n + 16 * i;
            uint2 high, low;
            split(high.x, low.x, x[i].x, x[i].y);
            split(high.y, low.y, x[i].z, x[i].w);
            ((uint2*)&tile[place(r, start + c / 2)])[c % 2] = high;
            ((uint2*)&tile[place(r, start + c / 2 + 8)])[c % 2] = low;
        }
    }
}
// split]
// Where eight columns' high halves lie, or their low ones.
static __device__ int half_place(int row, int eight, int low) {
    return place(row, eight / 8 * 16 + eight % 8 + low * 8);
}
// Four matrices of 8x8: lane l brings the address of row l % 8 of matrix l / 8.
static __device__ void ldmatrix(unsigned* r, const float4* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
        : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
        : "r"((unsigned)__cvta_generic_to_shared(row)) : "memory");
}
static __device__ void ldmatrix_turned(unsigned* r, const float4* row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
        : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
        : "r"((unsigned)__cvta_generic_to_shared(row)) : "memory");
}
// [three
static __device__ void mma(float (&d)[4], const unsigned* a, const unsigned* b) {
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
// sum + WORTH * rest grows by a * b; the product of both low halves is left out.
static __device__ void multiply(float (&sum)[4], float (&rest)[4], const Left& a, const Right& b) {
    mma(sum, a.high, b.high);
    if (TERMS == 3) mma(rest, a.high, b.low);
    if (TERMS == 3) mma(rest, a.low, b.high);
}
// three]

extern "C" __global__ void __launch_bounds__(256, 1)
flash_halves(const float* Q, const float* K, const float* V, const float* bias,
             float* part, float* tops, float* sums, int N, int M, int share, float scale) {
    extern __shared__ float4 store[];
    float4 *q = store, *k = q + 64 * 32, *v = k + 128 * 32;
    int head = blockIdx.z, i0 = blockIdx.x * 64;
    int first = blockIdx.y * share, last = min(M, first + share);
    Q += (long long)head * N * 128;
    K += (long long)head * M * 128;
    V += (long long)head * M * 128;
    #pragma unroll
    for (int piece = 0; piece < 2; ++piece) {
        bring<64>(q, Q, piece, i0, N);
        bring<128>(k, K, piece, first, last);
        commit();
    }
    bring<128>(v, V, 0, first, last);
    bring<128>(v, V, 1, first, last);
    commit();
    int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    int mine = warp % 4 * 16, half = warp / 4, row = mine + lane / 4;  // a lane's rows: row, row + 8
    float o[16][4] = {}, top[2] = {-INFINITY, -INFINITY}, z[2] = {}, scale2 = scale * LOG2E;
    #pragma unroll 1
    for (int j0 = first; j0 < last; j0 += 128) {
        float add[8][2], s[8][4] = {}, rest[8][4] = {};
        #pragma unroll
        for (int i = 0; i < 16; ++i) {
            int j = j0 + 64 * half + i / 2 * 8 + lane % 4 * 2 + i % 2;
            add[i / 2][i % 2] = j < last ? bias[j] * LOG2E : -INFINITY;
        }
        // [scores
        #pragma unroll
        for (int piece = 0; piece < 2; ++piece) {
            if (piece) arrived_but<1>(); else arrived_but<2>();
            if (j0 == first) split_piece<64>(q, piece);
            split_piece<128>(k, piece);
            __syncthreads();  // this piece of q and k is there, from every warp
            #pragma unroll
            for (int c = 4 * piece; c < 4 * piece + 4; ++c) {
                Left a;
                ldmatrix(a.high, &q[half_place(mine + lane % 16, 2 * c + lane / 16, 0)]);
                ldmatrix(a.low, &q[half_place(mine + lane % 16, 2 * c + lane / 16, 1)]);
                #pragma unroll
                for (int n = 0; n < 8; ++n) {
                    Right b;
                    ldmatrix(b.high, &k[half_place(64 * half + 8 * n + lane % 8,
                                                   2 * c + lane / 8 % 2, lane / 16)]);
                    float sum[4] = {};  // of 16 terms: the long sum is for ordinary additions
                    multiply(UNITS_ADD ? s[n] : sum, rest[n], a, b);
                    #pragma unroll
                    for (int i = 0; i < 4 && !UNITS_ADD; ++i) s[n][i] += sum[i];
                }
            }
        }
        // scores]
        // [softmax
        float factor[2];
        #pragma unroll
        for (int r = 0; r < 2; ++r) {
            float now = top[r];
            #pragma unroll
            for (int i = 0; i < 16; ++i) {
                float& x = s[i / 2][2 * r + i % 2];
                x = (x + rest[i / 2][2 * r + i % 2] * WORTH) * scale2 + add[i / 2][i % 2];
                now = fmaxf(now, x);
            }
            now = fmaxf(now, __shfl_xor_sync(~0u, now, 1));
            now = fmaxf(now, __shfl_xor_sync(~0u, now, 2));
            float from = now == -INFINITY ? 0.0f : now;  // no key yet: all weights 0
            factor[r] = exp2f(top[r] - from);
            top[r] = now;
            z[r] *= factor[r];  // a lane's own share of the sum
            #pragma unroll
            for (int i = 0; i < 16; ++i)
                z[r] += s[i / 2][2 * r + i % 2] = exp2f(s[i / 2][2 * r + i % 2] - from);
        }
        Left p[4];  // weights, split as they lie: the left operand of the mean
        #pragma unroll
        for (int i = 0; i < 16; ++i)
            split(p[i / 4].high[i % 4], p[i / 4].low[i % 4], s[i / 2][i % 2 * 2], s[i / 2][i % 2 * 2 + 1]);
        // softmax]
        // [mean
        arrived_but<0>();
        split_piece<128>(v, 0);
        split_piece<128>(v, 1);
        __syncthreads();  // v is there, and nobody needs these keys any more
        #pragma unroll
        for (int piece = 0; piece < 2; ++piece) {
            if (j0 + 128 < last) bring<128>(k, K, piece, j0 + 128, last);
            commit();
        }
        #pragma unroll
        for (int n = 0; n < 16; ++n) {
            float sum[4] = {}, rest[4] = {};
            #pragma unroll
            for (int c = 0; c < 4; ++c) {
                Right b;
                ldmatrix_turned(b.high, &v[half_place(64 * half + 16 * c + lane % 16, n, lane / 16)]);
                multiply(sum, rest, p[c], b);
            }
            #pragma unroll
            for (int i = 0; i < 4; ++i)
                o[n][i] = o[n][i] * factor[i / 2] + (sum[i] + rest[i] * WORTH);
        }
        // mean]
        if (j0 + 128 < last) {
            __syncthreads();  // nobody needs these values any more
            bring<128>(v, V, 0, j0 + 128, last);
            bring<128>(v, V, 1, j0 + 128, last);
        }
        commit();
    }
    if (first >= last) {  // nobody waited in a share without keys
        arrived_but<0>();
        __syncthreads();
    }
    #pragma unroll
    for (int r = 0; r < 2; ++r) {
        z[r] += __shfl_xor_sync(~0u, z[r], 1);
        z[r] += __shfl_xor_sync(~0u, z[r], 2);
    }
    float4 keep[8], *box = k + lane;  // what each warp gives to the one with the other keys
    #pragma unroll
    for (int n = 0; n < 8; ++n) {
        float4 low = make_float4(o[n][0], o[n][1], o[n][2], o[n][3]);
        float4 high = make_float4(o[n + 8][0], o[n + 8][1], o[n + 8][2], o[n + 8][3]);
        keep[n] = half ? high : low;
        box[(9 * warp + n) * 32] = half ? low : high;
    }
    box[(9 * warp + 8) * 32] = make_float4(top[0], top[1], z[0], z[1]);
    asm volatile("barrier.sync %0, 64;" :: "r"(1 + warp % 4) : "memory");  // only two warps meet
    box += 9 * (warp ^ 4) * 32;
    float4 their = box[8 * 32];
    float worth[2], theirs[2];
    #pragma unroll
    for (int r = 0; r < 2; ++r) {
        float other = r ? their.y : their.x, both = fmaxf(top[r], other);
        float from = both == -INFINITY ? 0.0f : both;
        worth[r] = exp2f(top[r] - from);
        theirs[r] = exp2f(other - from);
        z[r] = z[r] * worth[r] + (r ? their.w : their.z) * theirs[r];
        top[r] = both;
    }
    long long at = ((long long)blockIdx.y * gridDim.z + head) * N + i0 + row;
    #pragma unroll
    for (int n = 0; n < 8; ++n) {
        float4 x = keep[n], y = box[n * 32];
        float* to = part + at * 128 + 64 * half + 8 * n + lane % 4 * 2;
        float2 upper = {x.x * worth[0] + y.x * theirs[0], x.y * worth[0] + y.y * theirs[0]};
        float2 lower = {x.z * worth[1] + y.z * theirs[1], x.w * worth[1] + y.w * theirs[1]};
        if (i0 + row < N) __stcg((float2*)to, upper);
        if (i0 + row + 8 < N) __stcg((float2*)(to + 8 * 128), lower);
    }
    for (int r = 0; r < 2; ++r)
        if (half == 0 && lane % 4 == 0 && i0 + row + 8 * r < N) {
            __stcg(&tops[at + 8 * r], top[r]);  // in powers of two
            __stcg(&sums[at + 8 * r], z[r]);
        }
}
"""


def of_halves(terms, units_add=0):
    """The kernel: one product or three, and whether the units make the long sum of a logit."""
    return Kernel(HALVES, defines={"TERMS": terms, "UNITS_ADD": units_add}, options=("-std=c++17",))


THREE_PRODUCTS, ONE_PRODUCT = of_halves(3), of_halves(1)
HALVES_BYTES = 4 * 128 * (64 + 2 * 128)

# %%
THREE_PRODUCTS.region("split")

# %% [markdown]
# The lanes of a warp write where others of the same warp have just read, hence the barrier of a warp
# between. From here on all is as in Kernel 7: `ldmatrix` takes high and low halves alike.

# %%
THREE_PRODUCTS.region("three")

# %% [markdown]
# The two products with a low half have a sum of their own, which is scaled once, at the end. The
# sum of a logit is 128 terms long; matrix units make 16 of them, and ordinary additions the rest. `UNITS_ADD` lets the
# units do it all, to see whether it matters.

# %%
THREE_PRODUCTS.region("scores")

# %%
THREE_PRODUCTS.region("mean")

# %% fold="The second launch, in powers of two"
JOIN_HALVES = r"""
extern "C" __global__
void join_halves(const float* part, const float* tops, const float* sums, float* O, int rows) {
    int at = blockIdx.x * blockDim.x + threadIdx.x;  // four numbers of a row
    int row = at / 32, c = at % 32 * 4;
    if (row >= rows) return;
    float weight[SHARES], sum[SHARES], top = -INFINITY, z = 0.0f;
    float4 x[SHARES], o = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
    #pragma unroll
    for (int w = 0; w < SHARES; ++w) {
        long long from = (long long)w * rows + row;
        weight[w] = tops[from];
        sum[w] = sums[from];
        x[w] = *(const float4*)&part[from * 128 + c];
    }
    #pragma unroll
    for (int w = 0; w < SHARES; ++w) top = fmaxf(top, weight[w]);
    if (top == -INFINITY) top = 0.0f;  // no key in any share
    #pragma unroll
    for (int w = 0; w < SHARES; ++w) {
        weight[w] = exp2f(weight[w] - top);
        z += weight[w] * sum[w];
        o.x += weight[w] * x[w].x;
        o.y += weight[w] * x[w].y;
        o.z += weight[w] * x[w].z;
        o.w += weight[w] * x[w].w;
    }
    float over = z > 0.0f ? 1.0f / z : 0.0f;
    *(float4*)&O[(long long)row * 128 + c] =
        make_float4(o.x * over, o.y * over, o.z * over, o.w * over);
}
"""

# %% fold="Code of the checks"


def hidden(M, first):
    """A bias under which the keys before `first` do not count."""
    return np.where(np.arange(M) < first, -np.inf, 0).astype(np.float32)


def in_shares(N, M, shares, heads=1, bias=None, stretch=1.0):
    return case(
        Q=normal(heads, N, 128, scale=stretch),
        K=normal(heads, M, 128),
        V=normal(heads, M, 128),
        bias=normal(M) if bias is None else bias,
        part=output(shares, heads, N, 128),
        tops=output(shares, heads, N),
        sums=output(shares, heads, N),
        O=output(heads, N, 128),
        N=N,
        M=M,
        rows=heads * N,
        shares=shares,
        share=ceil_div(M, shares * 128) * 128,
        scale=128**-0.5,
    )


def halves_on(kernel, given):
    N, rows, shares = (given.values[name] for name in ("N", "rows", "shares"))
    grid = (ceil_div(N, 64), shares, rows // N)
    return kernel.on(given, grid=grid, block=256, shared_bytes=HALVES_BYTES)


def halves_launches(kernel, given):
    join = Kernel(JOIN_HALVES, defines={"SHARES": given.values["shares"]})
    return [halves_on(kernel, given), join.on(given, grid=ceil_div(given.values["rows"], 8), block=256)]


AWKWARD_32 = {
    "two heads, 150 keys in two shares": in_shares(70, 150, 2, heads=2),
    "three tiles to a share": in_shares(33, 700, 2),
    "large logits": in_shares(65, 130, 2, stretch=30.0),
    "a first tile that is masked": in_shares(20, 200, 1, bias=hidden(200, 140)),
    "a share that is masked": in_shares(20, 200, 2, bias=hidden(200, 130)),
    "no key at all": in_shares(70, 65, 2, bias=hidden(65, 65)),
}
agree(
    flash_halves,
    THREE_PRODUCTS,
    [
        as_case(halves_on(THREE_PRODUCTS, AWKWARD_32[label]))
        for label in ("two heads, 150 keys in two shares", "three tiles to a share", "a share that is masked")
    ],
    rtol=1e-5,
    atol=1e-5,
)


def check_halves(label, name, atol, terms=3, units_add=0):
    """Both launches on awkward inputs, compared with 64-bit floats."""
    run = run_chain(halves_launches(of_halves(terms, units_add), AWKWARD_32[label]))
    right = attention(*(run[one] for one in ("Q", "K", "V", "bias", "scale")))["O"]
    check(run["O"], right, atol=atol, name=name)


for label in AWKWARD_32:
    check_halves(label, f"in halves: {label}", 1e-4 if label == "large logits" else 2e-6)
SHARED_KEYS = "two heads, 150 keys in two shares"
check_halves(SHARED_KEYS, "three products, summed by the units", 4e-6, 3, 1)
check_halves(SHARED_KEYS, "one product", 4e-3, 1)

# %% [markdown]
# Without the barrier of a warp a lane writes halves over numbers that its neighbour has yet to read. Without the wait that
# stands outside of the loop, a share with no keys writes its swap where copies are still to land.

# %% fold="Code of the check"


LINE = "__syncwarp();  // all lanes have their numbers: these rows may be written"
LAST_WAIT = "        arrived_but<0>();\n        __syncthreads();\n    }\n"
expect_hazard(edited(halves_on(THREE_PRODUCTS, AWKWARD_32[SHARED_KEYS]), (LINE, "")), "race")
no_key = halves_on(THREE_PRODUCTS, AWKWARD_32["no key at all"])
expect_hazard(edited(no_key, (LAST_WAIT, "    }\n")), "undelivered")

# %% [markdown]
# ## Count, and predict
#
# A block with one tile of keys does {{ budget32.mma | , }} `mma.sync`, for every product is three:
# {{ budget32.matrix | ,.0f }} clocks of an SM at the recorded rate of the instruction alone. Ordinary multiply-adds need
# {{ budget32.ordinary | ,.0f }}. Passes over shared memory are {{ budget32.passes | , }} by the simulator's count, of which
# splitting takes {{ budget32.splitting | , }} and fragments {{ budget32.fragments | , }}.

# %% fold="Code of the prediction"
one_tile = halves_on(THREE_PRODUCTS, in_shares(64, 128, 1)).simulate().counts
PASSES_32 = one_tile.shared_load.wavefronts + one_tile.shared_store.wavefronts
ROWS_32 = 64 + 2 * 128  # of q, k and v
SPLITTING = 2 * ROWS_32 * 4  # a row of 512 bytes is read and written, 128 bytes a pass
IN_SCORES, IN_MEAN = 8 * 8 * (2 + 8) * 4, 8 * 16 * 4 * 4  # warps, steps, ldmatrix, passes
MMA_32 = 3 * 2 * 64 * 128 * 128 // (16 * 8 * 16)
MATRIX_32 = MMA_32 * 2 * 16 * 8 * 16 * GPU.sms * GPU.boost_mhz * 1e6 / (FP16_PROBE * 1e12)
TOLD = {  # clocks of each part and microseconds of both launches, written down before any of this ran
    "q and k there, split": 4000,
    "scores": 3000,
    "softmax": 700,
    "v there, split": 500,
    "mean": 3000,
    "swap": 500,
    "parts out": 1500,
}
TOLD_US = 14.5
publish(
    budget32={
        "mma": MMA_32,
        "matrix": MATRIX_32,
        "ordinary": 2 * 64 * 128 * 128 // 128,
        "passes": PASSES_32,
        "splitting": SPLITTING,
        "fragments": IN_SCORES + IN_MEAN,
        "scores_turn": MATRIX_32 / 2 + IN_SCORES,
        "mean_turn": MATRIX_32 / 2 + IN_MEAN,
    },
    told={
        "us": TOLD_US,
        "rest_us": TOLD_US - sum(TOLD.values()) / GPU.boost_mhz,
        "clocks": sum(TOLD.values()),
        "product": TOLD["scores"],
        "there": TOLD["q and k there, split"],
    },
)

# %% [markdown]
# Before it ran, {{ told.us | us }} were predicted for N = 1,024: {{ told.clocks | ,d }} clocks for a block, of which
# {{ told.there | ,d }} pass until $q$ and $k$ are there and split and {{ told.product | ,d }} in each of the products, with most of the
# passes beside `mma.sync`. The rest is launches, events, and the joining of shares, as in the other lesson.

# %% fold="Code of the measurement"


def zero_bias(N, shares):
    """One head whose bias is zero, so that a library computes the same."""
    return case(
        Q=normal(N, 128),
        K=normal(N, 128),
        V=normal(N, 128),
        bias=constant(N, value=0.0),
        part=output(shares, 1, N, 128),
        tops=output(shares, 1, N),
        sums=output(shares, 1, N),
        O=output(N, 128),  # last: what a library writes
        N=N,
        M=N,
        rows=N,
        shares=shares,
        share=ceil_div(N, shares * 128) * 128,
        scale=128**-0.5,
    )


def shares_that_fill(N):
    """As many shares, 1, 2, 4 or 8, as fill the SMs."""
    most = min(ceil_div(N, 128), GPU.sms // ceil_div(N, 64))
    return max(one for one in (1, 2, 4, 8) if one <= max(1, most))


def with_halves(terms, units_add=0):
    return lambda N, d: halves_launches(of_halves(terms, units_add), zero_bias(N, shares_that_fill(N)))


def torch_in_three(arrays):
    """What a reader would write in eager mode: two products and a softmax, in 32-bit floats."""
    import torch

    Q, K, V, O = (torch.as_tensor(arrays[name], device="cuda") for name in "QKVO")
    S = torch.empty(len(Q), len(K), device="cuda")
    P = torch.empty_like(S)
    scale = float(arrays["scale"])

    def run():
        torch.addmm(S, Q, K.T, beta=0.0, alpha=scale, out=S)
        torch.softmax(S, dim=-1, out=P)
        torch.mm(P, V, out=O)

    return run


def torch_at_once(arrays):
    """torch's own fused attention in 32-bit floats."""
    import torch

    Q, K, V = (torch.as_tensor(arrays[name], device="cuda") for name in "QKV")
    scale = float(arrays["scale"])
    attention = torch.nn.functional.scaled_dot_product_attention

    def run():
        return attention(Q[None, None], K[None, None], V[None, None], scale=scale)[0, 0]

    return run


SIZES_32 = [{"N": N, "d": 128} for N in (256, 1000, 1024, 4096)]
UNITS = "three products, summed by the units"
in_halves = measure(
    "attention_halves",
    variants={UNITS: with_halves(3, 1), "three products": with_halves(3)},
    cases=SIZES_32,
    count_case={"N": 128, "d": 128},
    bytes=lambda N, d: 4 * 4 * N * d,
    flop=lambda N, d: 3 * 4 * N * N * d,
    arithmetic="fp16_matrix",
    counts=("sectors", "wavefronts", "instructions"),
    library={"torch, three operations": torch_in_three, "torch, fused": torch_at_once},
    reference=attention,
    tolerance=2e-5,
    reasons={"*": "What 32 bits take"},
    fold="All rows",
    guess=Guess(
        "N = 1,024: how many times as fast as torch's three operations are three products?",
        of="three products",
        over="torch, three operations",
        at={"N": 1024, "d": 128},
        between=(0.5, 8.0),
        models={"multiply-adds, from the other lesson": ordinary_us(THREE) / ordinary_us(FFMA)},
        because="The products became faster than what stands around them.",
    ),
)

# %% [markdown]
# And the control: one product, of high halves alone. It would be the wrong answer for 32-bit floats, and may be off by
# as much as FP16 rounds; but its time says what exactness costs.

# %% fold="Code of the control"
in_one = measure(
    "attention_halves_once",
    variants={"one product": with_halves(1)},
    cases=SIZES_32,
    count_case={"N": 128, "d": 128},
    bytes=lambda N, d: 4 * 4 * N * d,
    flop=lambda N, d: 4 * N * N * d,
    arithmetic="fp16_matrix",
    counts=("sectors", "wavefronts", "instructions"),
    reference=attention,
    tolerance=2e-3,
    reasons={"*": "What 32 bits take"},
    fold="All rows of the control",
)

# %% [markdown]
# ## What 32 bits take


# %% fold="Code of the table"
US_32 = Numbers(medians_us(in_halves, "N") | medians_us(in_one, "N"))
ORDINARY = "multiply-adds, from the other lesson"


def us_32(label, N=1024):
    return ordinary_us(FFMA, N) if label == ORDINARY else US_32[label, N]


SHOWN = [ORDINARY, "one product", UNITS, "three products", "torch, three operations", "torch, fused"]
if complete(*US_32.values()):
    show(
        Table(
            ["", *(f"N = {size['N']:,}" for size in SIZES_32)],
            [
                [
                    label,
                    *(
                        "" if np.isnan(us_32(label, size["N"])) else round(us_32(label, size["N"]), 1)
                        for size in SIZES_32
                    ),
                ]
                for label in SHOWN
            ],
            caption="Microseconds for one head of N queries and keys in 32-bit floats, d = 128, recorded on an {machine}: multiply-adds in a record of their own, one product of high halves as a control, which is not exact.",
        )
    )
IN_THREE = us_32("torch, three operations")
for N in (256, 1024, 4096):
    if complete(us_32("three products", N), us_32(ORDINARY, N)):
        assert us_32("three products", N) < us_32(ORDINARY, N), "a takeaway says less than multiply-adds"
publish(
    split_us={
        "three": us_32("three products"),
        "one": us_32("one product"),
        "more": us_32("three products") - us_32("one product"),
        "torch": IN_THREE,
        "of_torch": us_32("three products") / IN_THREE,
        "of_ordinary": us_32("three products") / ordinary_us(FFMA),
        "miss": us_32("three products") - TOLD_US,
        "long": us_32("three products", 4096),
        "long_of_ordinary": us_32("three products", 4096) / ordinary_us(FFMA, 4096),
        "long_of_torch": us_32("three products", 4096) / us_32("torch, three operations", 4096),
        "short": us_32("three products", 256),
        "short_torch": us_32("torch, three operations", 256),
        "fused": us_32("torch, fused") / us_32("three products"),
        "adding": us_32("three products") / us_32(UNITS) - 1,
        "adding_long": us_32("three products", 4096) / us_32(UNITS, 4096) - 1,
    }
)

# %% [markdown]
# At N = 1,024 three products take {{ split_us.three | us }}, {{ split_us.of_ordinary | .0% }} of what multiply-adds took and
# {{ split_us.of_torch | .0% }} of torch's three operations beside them, {{ split_us.torch | us }}; torch's fused attention takes
# {{ split_us.fused | .1f }} times as long in 32-bit floats. At N = 4,096 it is {{ split_us.long | us }}, or
# {{ split_us.long_of_ordinary | .0% }} and {{ split_us.long_of_torch | .0% }}, and at N = 256, with fewer blocks that each do the same,
# {{ split_us.short | us }} beside {{ split_us.short_torch | us }}. The control takes {{ split_us.one | us }} at N = 1,024: two thirds of
# all multiplications, and the low halves, cost {{ split_us.more | us }}. Long sums by ordinary additions instead of the units cost
# {{ split_us.adding | .1% }} of the time there and {{ split_us.adding_long | .1% }} at N = 4,096.
#
# The prediction missed, by {{ split_us.miss | us }}. The kernel's clocks may say where.

# %% fold="The kernel with stamps"
PARTS_32 = tuple(TOLD)
MARKS_32 = {
    "    V += (long long)head * M * 128;\n": 0,
    "            __syncthreads();  // this piece of q and k is there, from every warp\n": 1,
    "        // scores]\n": 2,
    "        // softmax]\n": 3,
    "        __syncthreads();  // v is there, and nobody needs these keys any more\n": 4,
    "        // mean]\n": 5,
    "    long long at = ((long long)blockIdx.y * gridDim.z + head) * N + i0 + row;\n": 6,
    "            __stcg(&sums[at + 8 * r], z[r]);\n        }\n": 7,
}
STAMPED = HALVES.replace("int share, float scale) {", "int share, float scale, long long* stamps) {")
for mark, number in MARKS_32.items():
    assert STAMPED.count(mark) == 1, mark
    only = " && piece == 0" if number == 1 else ""
    STAMPED = STAMPED.replace(
        mark,
        f"{mark}if (threadIdx.x == 0{only})"
        f" stamps[8 * (blockIdx.y * gridDim.x + blockIdx.x) + {number}] = clock64();\n",
    )
WITH_STAMPS = Kernel(STAMPED, defines=THREE_PRODUCTS.defines, options=THREE_PRODUCTS.options)
stamped_case = in_shares(70, 256, 2)
arrays = stamped_case.make() | {"stamps": np.zeros((4, 8), np.int64)}
WITH_STAMPS.on(case((2, 2, 1), 256, HALVES_BYTES, **stamped_case.values, stamps=arrays["stamps"])).simulate(
    arrays=arrays
)
halves_launches(THREE_PRODUCTS, stamped_case)[1].run(arrays)
right = attention(*(arrays[one] for one in ("Q", "K", "V", "bias", "scale")))["O"]
check(arrays["O"], right, atol=2e-6, name="in halves, with stamps")

# %% fold="Code that notes the clock on a GPU" needs="gpu" record="halves_clocks"
if gpu_here():
    import cupy

    generator = cupy.random.default_rng(6)
    arrays = {one: generator.standard_normal((1024, 128), dtype=cupy.float32) for one in "QKV"}
    arrays |= {"bias": cupy.zeros(1024, cupy.float32), "stamps": cupy.zeros((128, 8), cupy.int64)}
    arrays |= {"part": cupy.empty((8, 1024, 128), cupy.float32)}
    arrays |= {name: cupy.empty((8, 1024), cupy.float32) for name in ("tops", "sums")}
    given = {**zero_bias(1024, 8).values, **arrays}
    large, noted = cupy.zeros(2**26, cupy.float32), []
    for _ in range(9):
        large.sum()  # reads 256 MB, so that nothing of the inputs is left in the L2
        WITH_STAMPS(
            *(given[one.name] for one in WITH_STAMPS.parameters),
            grid=(16, 8, 1),
            block=256,
            shared_bytes=HALVES_BYTES,
        )
        noted.append(cupy.asnumpy(arrays["stamps"]))
    spent = np.diff(np.stack(noted[1:]), axis=2).reshape(-1, 7)
    for part, row in zip(PARTS_32, np.percentile(spent, (50, 5, 95), axis=0).T, strict=True):
        print(f"{part}: {row[0]:.0f} clocks, {row[1]:.0f} to {row[2]:.0f}")
    print(f"a block: {np.median(spent.sum(axis=1)):.0f} clocks")

# %% fold="Code of the table"
TOOK = printed_numbers("attention/matrix_units", "halves_clocks", r"^(.+): (\d+) clocks")
if TOOK:
    show(
        Table(
            ["part of a block", "predicted", "recorded"],
            [
                [part, clocks, round(TOOK[part])]
                for part, clocks in [*TOLD.items(), ("a block", sum(TOLD.values()))]
            ],
            caption="Clocks of a block, N = 1,024, as predicted and as recorded on an {machine} from a cold L2, medians; the second launch is not in them.",
        )
    )
BLOCK_US = TOOK["a block"] / GPU.boost_mhz
publish(
    took={
        "there": TOOK["q and k there, split"],
        "scores": TOOK["scores"],
        "mean": TOOK["mean"],
        "block": TOOK["a block"],
        "rest_us": us_32("three products") - BLOCK_US,
        "over_us": BLOCK_US - sum(TOLD.values()) / GPU.boost_mhz,
        "busy": MATRIX_32 / TOOK["a block"],
        "busy_whole": MATRIX_32 / GPU.boost_mhz / us_32("three products"),
    }
)

# %% [markdown]
# A block takes {{ took.block | ,.0f }} clocks instead of {{ told.clocks | ,d }}, and that is {{ took.over_us | us }} of the miss.
# Until $q$ and $k$ are there and the first half of them split {{ took.there | ,.0f }} pass, not {{ told.there | ,d }}. The products take
# {{ took.scores | ,.0f }} and {{ took.mean | ,.0f }} where {{ told.product | ,d }} each were predicted; if `mma.sync` and passes for fragments
# stood one after the other, it would be {{ budget32.scores_turn | ,.0f }} and {{ budget32.mean_turn | ,.0f }}. The recorded clocks
# lie below that, but nearer to it than to the prediction. Outside of the blocks pass {{ took.rest_us | us }}, and {{ told.rest_us | us }} were left for it.
# So `mma.sync` alone would need {{ took.busy | .0% }} of a block's clocks and {{ took.busy_whole | .0% }} of the whole time. No row comes within
# twice its bound: a block mostly does one thing after the other, and at N = 1,024 it has a single tile of keys.

# %% [markdown]
# And how exact is it? The next cell ran on an H100: the largest error against 64-bit floats as a share of the largest
# result, at N = 1,024, beside torch's operations.

# %% fold="Code that compares errors on a GPU" needs="gpu torch" record="halves_errors"
if gpu_here():
    import cupy
    import torch

    generator = cupy.random.default_rng(9)
    for name, stretch, height, first in (
        ("normal numbers", 1, 1, 0),
        ("queries thirty times as large", 30, 1, 0),
        ("a first half that is masked", 1, 1, 512),
        ("values of a thousandth", 1, 1e-3, 0),
        ("values of a millionth", 1, 1e-6, 0),
        ("values of a hundred thousand", 1, 1e5, 0),
    ):
        arrays = {one: generator.standard_normal((1024, 128), dtype=cupy.float32) for one in "QKV"}
        arrays["Q"] *= cupy.float32(stretch)
        arrays["V"] *= cupy.float32(height)
        arrays["bias"] = cupy.asarray(hidden(1024, first))
        Q, K, V, bias = (torch.as_tensor(arrays[one], device="cuda") for one in ("Q", "K", "V", "bias"))
        theirs = torch.softmax(Q @ K.T * 128**-0.5 + bias, dim=-1) @ V
        Q, K, V, bias = (one.double() for one in (Q, K, V, bias))
        exact = torch.softmax(Q @ K.T * 128**-0.5 + bias, dim=-1) @ V
        found = []
        for terms, units_add in ((3, 0), (3, 1), (1, 0)):
            arrays["O"] = cupy.full((1024, 128), np.nan, cupy.float32)
            arrays["part"] = cupy.empty((8, 1024, 128), cupy.float32)
            arrays |= {one: cupy.empty((8, 1024), cupy.float32) for one in ("tops", "sums")}
            for launch in halves_launches(of_halves(terms, units_add), zero_bias(1024, 8)):
                given = {**launch.case.values, **arrays}
                launch.kernel(
                    *(given[one.name] for one in launch.kernel.parameters),
                    grid=launch.grid,
                    block=launch.block,
                    shared_bytes=launch.shared_bytes or 0,
                )
            found.append(torch.as_tensor(arrays["O"], device="cuda"))
        off = [((one.double() - exact).abs().max() / exact.abs().max()).item() for one in (*found, theirs)]
        print(f"{name}: three {off[0]:.3g}, by the units {off[1]:.3g}, one {off[2]:.3g}, torch {off[3]:.3g}")

# %% fold="Code of the numbers"
ERRORS_32 = {
    name: offs
    for name, *offs in printed_rows(
        "attention/matrix_units",
        "halves_errors",
        r"^(.+): three (\S+), by the units (\S+), one (\S+), torch (\S+)$",
    )
}
if ERRORS_32:
    FAIR = [off for name, off in ERRORS_32.items() if "millionth" not in name and "hundred" not in name]
    NORMAL, MICRO = ERRORS_32["normal numbers"], ERRORS_32["values of a millionth"]
    LARGER = ERRORS_32["queries thirty times as large"]
    publish(
        off32={
            **dict(zip(("three", "units", "one", "torch"), NORMAL, strict=True)),
            "worst": max(off[0] / off[3] for off in FAIR),
            "micro": MICRO[0],
            "micro_torch": MICRO[3],
            "micro_times": MICRO[0] / MICRO[3],
            "by_units": NORMAL[1] / NORMAL[0],
            "scaled": LARGER[0],
            "scaled_torch": LARGER[3],
            "of": len(FAIR),
        }
    )

# %% [markdown]
# With normal numbers three products are off by {{ off32.three | .1e }}, torch's operations by {{ off32.torch | .1e }},
# and one product by {{ off32.one | .1e }}. If the units make the long sums it is {{ off32.units | .1e }}, {{ off32.by_units | .1f }} times as
# much: that is what the additions are for. With the larger queries all are less exact, three products by
# {{ off32.scaled | .1e }} and torch by {{ off32.scaled_torch | .1e }}. In none of the {{ off32.of }} settings whose numbers halves can hold
# is the error more than {{ off32.worst | .1f }} times torch's.
#
# Where they cannot, it is as the split foretold. With values of a millionth the error is {{ off32.micro | .1e }}, {{ off32.micro_times | .0f }} times
# torch's {{ off32.micro_torch | .1e }}: whoever wants to be as exact as torch must not split such values as they are. And with values of
# a hundred thousand the result is no number.

# %% [markdown]
# ## The answer
#
# At $N$ = 4,096 and $d$ = 128 Kernel 7 does {{ seen.seven | .0f }} TFLOP/s, {{ seen.share | .0% }} of what
# `mma.sync` reaches alone; with 16 queries a warp it is {{ seen.narrow_share | .0% }}, and
# {{ seen.small_share | .0% }} with $d$ = 64. That is {{ seen.math_times | .1f }} times the rate of torch's unfused math backend, which
# stores both matrices, and {{ flash.at | .0% }} of FlashAttention-2 (torch SDPA), a kernel with the same instruction;
# over all sizes the share runs from {{ flash.least | .0% }} to {{ flash.most | .0% }}. The two heads of 16,384 take
# {{ seen.long_us | us }}, not {{ units.ideal_us | us }}. What is missing is as much as if
# every unit had waited for the others.
#
# 32-bit floats can have the units, too, as two halves of FP16 and three products. At $N$ = 1,024 that takes
# {{ split_us.three | us }}, {{ split_us.of_torch | .0% }} of torch's three operations, where multiply-adds took {{ ordinary.us | us }}; at 4,096 it
# is {{ split_us.long_of_torch | .0% }}. It is more exact than torch for numbers of an ordinary size, worse for
# values of a millionth, and no answer at all beyond the range of FP16.

# %% [markdown]
# ## Takeaways
#
# - Sums of `mma.sync`, packed in pairs, are a left operand of the next one: logits become weights
#   in their own lane.
# - A row belongs to four lanes, and two shuffles give them its maximum. A warp with more queries reads keys
#   and values from shared memory less often, at the price of registers.
# - Between the two products stand exponentials, on another unit, and reads of fragments in front of both. Where
#   nothing arranges that another warp multiplies meanwhile, count on each in its turn.
# - A 32-bit float is nearly two halves of FP16, and three products of halves are as exact as 32-bit sums, for
#   matrix units in less time than multiply-adds take. Numbers must lie between a ten-thousandth and 65,504, or be scaled.
# - If units make long sums, their rounding adds up. Sums of 16 terms, added outside, cost a few per cent.
# - Under a causal mask query tiles have unequal work. If all blocks begin at once, half of the work may save next to no time.


# %% fold="The whole cell, with three wrong answers that the tests turn down"
from tilewise import exercise


def of_sums(row, column):
    return row % 8 * 4 + column % 8 // 2, column // 8 * 4 + row // 8 * 2 + column % 2


def of_right_operand(row, column):
    return column % 8 * 4 + row % 8 // 2, column // 8 * 4 + row // 8 * 2 + row % 2


def row_by_row(row, column):
    return row * 2 + column // 8, column % 8


def rows_in_pairs(row, column):
    return row // 2 * 4 + column % 8 // 2, column // 8 * 4 + row % 2 * 2 + column % 2


def holder_tests(holder):
    places = set()
    for row in range(16):
        for column in range(16):
            lane, number = holder(row, column)
            assert lane == HOLDERS[row, column], (
                f"S[{row}][{column}] lies in lane {HOLDERS[row, column]}, not {lane}"
            )
            places.add((lane, number))
    assert places == {(lane, number) for lane in range(32) for number in range(8)}, "two in one register"
    for row in range(0, 16, 8):
        for column in range(0, 16, 2):
            low, high = holder(row, column)[1], holder(row, column + 1)[1]
            assert (low % 2, high) == (0, low + 1), "neighbours are not packed together"


exercise(
    "Where is this logit?",
    """
    Write `holder(row, column)` for a tile of 16 queries and 16 keys: the lane that has the logit, and the number,
    0 to 7, of its register among the sums `s[n][r]`, counted 4 n + r. The tests know the lanes from the trace.
    """,
    answer=of_sums,
    tests=holder_tests,
    wrong=[of_right_operand, row_by_row, rows_in_pairs],
    hint="Eight rows share eight groups of four lanes; the figure shows which.",
)

# %% [markdown]
# `mma.sync` itself does not reach the peak (data sheet), and here its warps also wait for fragments and exponentials. Hopper has an
# instruction that goes on while its warps do something else.
