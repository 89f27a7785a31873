# ---
# title: "wgmma: four warps, one matrix instruction"
# needs: [matmul/tma, matmul/matrix_units]
# summary: "A warpgroup multiplies 64 × 64 by 64 × 128. How many instructions does that take with mma.sync, and how many with wgmma?"
# description: "Hopper's warpgroup MMA explained: the shared-memory descriptor field by field, K-major and MN-major operands, the register layout, A from registers, fences and groups, and the register budget."
# date: 2026-11-23
# tags: [Hopper, wgmma, tensor cores, descriptor]
# ---

# %% [markdown]
# With `mma.sync`, multiplying a 64 × 64 tile by a 64 × 128 tile takes 256 warp instructions, and four warps need at
# least {{ task.ldmatrix }} more to load their fragments from shared memory. With Hopper's `wgmma`, it takes four
# instructions, each issued by all four warps together. A `wgmma` reads its operands directly from shared memory, where
# the [TMA](tma.py) put them, and it runs in the background while the warps do something else.
#
# Only `wgmma` reaches the full rate of Hopper's tensor cores. But it's hard to get right: with one wrong value in a
# 64-bit *descriptor*, the result is usually garbage, and no error is reported.
#
# ??? definition "Warpgroup | warpgroups"
#     Four consecutive warps of a block, 128 threads in all; the number of the first warp is a multiple of 4.
#
# ??? definition "wgmma"
#     Hopper's matrix instruction `wgmma.mma_async`: a warpgroup multiplies a 64 × 16 tile of 16-bit elements by a 16 × N tile,
#     asynchronously. B comes from shared memory, A from shared memory or registers, and the accumulators are registers.

# %% [markdown]
# ## One warpgroup, one tile
#
# The kernel computes D = A B for one tile. A is 64 × 64 and row-major. B is 64 × 128, but for now it's stored
# transposed, as 128 rows of 64, which is how the weights of a linear layer are usually stored. Both operands then have
# K along their rows; such operands are called *K-major*. One thread loads both tiles through the TMA, using a 128-byte
# swizzle. Then the warpgroup issues four `wgmma` instructions, each of which handles 16 of the 64 elements along K. The
# kernel is compiled for `sm_90a`, because `wgmma` and `setmaxnreg` are architecture-specific: for plain `sm_90`,
# `ptxas` rejects them.


# %% tab="Pseudocode"
import numpy as np

from tilewise import tiles


def one_tile(A, Bt, D):
    acc = np.zeros(D.shape)
    # [multiply
    for ks in tiles(A.shape[1], 16):
        acc += A[:, ks] @ Bt[:, ks].T
    # multiply]
    D[:] = acc


# %% tab="CUDA C"
from tilewise import Kernel

OPTIONS = ("-std=c++17", "-arch=sm_90a")
ONE_TILE = Kernel(
    r"""
#include "hopper.cuh"

#if B_IS_MN_MAJOR
#define wgmma wgmma_m64n128k16_mn
#else
#define wgmma wgmma_m64n128k16
#endif

// D = A B for one tile: A M x K, B K x N, D M x N floats, row-major; A and B in BF16. M and K up
// to 64, N up to 128: what is missing arrives as zeros.
// a_map: boxes of 64 x 64. b_map: B transposed, boxes of 128 x 64; or, if B_IS_MN_MAJOR, B itself
// in boxes of 64 x 64. All with a 128-byte swizzle. Grid: 1. Block: 128. sm_90a only.
extern "C" __global__ void __launch_bounds__(128)
one_tile(const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map, float* D,
         int M, int N) {
    __shared__ __align__(1024) unsigned char a[8192], b[16384];
    __shared__ u64 full;
    if (threadIdx.x == 0) {
        mbarrier_init(&full, 1);
        mbarrier_init_fence();
        mbarrier_arrive_expect_tx(&full, sizeof(a) + sizeof(b));
        tma_load_2d(a, &a_map, 0, 0, &full);
        tma_load_2d(b, &b_map, 0, 0, &full);
        if (B_IS_MN_MAJOR) tma_load_2d(b + 8192, &b_map, 64, 0, &full);
    }
    __syncthreads();
    mbarrier_wait(&full, 0);
    // [multiply
    float acc[64];
    wgmma_fence();
    #pragma unroll
    for (int k = 0; k < 4; ++k)
        wgmma(acc, descriptor(a + 32 * k, 16, 1024),
              B_IS_MN_MAJOR ? descriptor(b + 2048 * k, 8192, 1024)
                            : descriptor(b + 32 * k, 16, 1024), k > 0);
    wgmma_commit();
    wgmma_wait<0>(acc);
    // multiply]
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    #pragma unroll
    for (int i = 0; i < 64; ++i) {
        int row = 16 * warp + lane / 4 + i / 2 % 2 * 8;
        int col = i / 4 * 8 + lane % 4 * 2 + i % 2;
        if (row < M && col < N) D[N * row + col] = acc[i];
    }
}
""",
    defines={"B_IS_MN_MAJOR": 0},
    options=OPTIONS,
)

# %%
ONE_TILE.region("multiply")

# %% [markdown]
# Run it on the simulator:

# %%
from tilewise import bf16, tensor_map

A = bf16.bits(np.ones((64, 64)))
Bt = bf16.bits(np.full((128, 64), 0.5))
D = np.zeros((64, 128), np.float32)
a_map = tensor_map(A, box=(64, 64), swizzle=128, dtype="bfloat16")
b_map = tensor_map(Bt, box=(128, 64), swizzle=128, dtype="bfloat16")
ONE_TILE(a_map, b_map, D, 64, 128, grid=1, block=128)
print(D[0, 0], D[63, 127], "= 64 times 1 times 0.5")

# %% [markdown]
# The instruction itself is wrapped in one of the functions in [`hopper.cuh`](tma.py#the-shared-header). `HOPPER_R64` is
# the list of registers, `%0` to `%63`, and `HOPPER_D64` binds `d[0]` to `d[63]` to them:

# %%
from tilewise import Header

HOPPER = Header("hopper.cuh")
HOPPER.region("wgmma_k_major")

# %% [markdown]
# Read its name and operands from left to right:
#
# | part | meaning |
# | --- | --- |
# | `wgmma.mma_async` | a warpgroup's matrix multiply-accumulate, which runs in the background |
# | `.sync.aligned` | all threads of all four warps execute this same instruction |
# | `.m64n128k16` | 64 × 16 times 16 × 128. M is always 64; N is 8, 16, 24, … 256; K is 32 bytes |
# | `.f32.bf16.bf16` | types of D, A and B |
# | `{%0, …, %63}` | D: 64 × 128 accumulators over 128 threads are 64 registers per thread |
# | `%64, %65` | descriptors of A and B |
# | `p` | scale-d: false means D = A B, true D += A B |
# | `1, 1` | scale-a and scale-b: 1, or −1 to negate the operand |
# | `0, 0` | transpose bits of A and B: 0 is K-major, 1 is MN-major; 16-bit types only |

# %% fold="Code of the checks, and numbers for the text"
from tilewise import (
    HazardError,
    Table,
    agree,
    case,
    check,
    expect_hazard,
    integers,
    output,
    publish,
    show,
)
from tilewise.figures import State, stepped


def tile_case(transposed=True, M=64, N=128, K=64):
    """A launch of one_tile on integers, whose sums are exact."""
    whole = {"low": -4, "high": 5, "dtype": "bfloat16"}
    B = {"Bt": integers(N, K, **whole)} if transposed else {"B": integers(K, N, **whole)}
    (name,) = B
    return case(
        1,
        128,
        A=integers(M, K, **whole),
        **B,
        a_map=tensor_map("A", box=(64, 64), swizzle=128, dtype="bfloat16"),
        b_map=tensor_map(name, box=(128, 64) if transposed else (64, 64), swizzle=128, dtype="bfloat16"),
        D=output(M, N),
        M=M,
        N=N,
    )


def exact(arrays):
    """D in 64-bit floats."""
    B = bf16.values(arrays["Bt"]).T if "Bt" in arrays else bf16.values(arrays["B"])
    return bf16.values(arrays["A"]).astype(np.float64) @ B


arrays = ONE_TILE.on(tile_case()).run()
check(arrays["D"], exact(arrays), name="D of one_tile, B K-major")
LDMATRIX = min(  # .x4 loads 16 x 16 of A or of B; the warps are `down` rows of 4 / down
    4 * (64 // 16) * (64 // down // 16 + 128 // (4 // down) // 16) for down in (1, 2, 4)
)
publish(task={"ldmatrix": LDMATRIX})

# %% [markdown]
# ## The descriptor
#
# A descriptor is a 64-bit value that says where an operand is in shared memory and how it's laid out. The address and
# both offsets are stored divided by 16.
#
# | bits | field | for a 128-byte swizzle |
# |---|---|---|
# | 0 to 13 | start address | shared-memory address of the operand's first element |
# | 16 to 29 | leading byte offset (LBO) | K-major: not used. MN-major: from one group of 64 columns to the next |
# | 32 to 45 | stride byte offset (SBO) | from one group of eight rows to the next: 8 × 128 = 1,024 bytes |
# | 49 to 51 | base offset | 0 if the buffer is aligned to 1,024 bytes |
# | 62, 63 | swizzle mode | 1 for 128 bytes, 2 for 64, 3 for 32, 0 for none |
#
# `descriptor` puts the fields together for the 128-byte swizzle:

# %%
HOPPER.region("descriptor")

# %% [markdown]
# With a 128-byte swizzle, a *swizzle atom* is eight rows of 128 bytes, or 1,024 contiguous bytes, and a tile is a grid
# of atoms. The layout inside an atom is fixed by the swizzle mode. LBO and SBO only give the distance from one atom to
# the next: SBO down the rows, LBO across the columns.
#
# ??? definition "Swizzle atom | swizzle atoms"
#     The piece of shared memory after which a swizzle pattern repeats: eight rows of 128, 64 or 32 bytes.
#
# For our K-major A, an atom is 8 rows of A by 64 columns, so the tile with K = 64 is exactly one atom wide. The only
# distance left to specify is from one group of eight rows to the next: SBO = 1,024. LBO is ignored; the kernel passes
# 16.
#
# Let's test that with other values:

# %% fold="Code of the table"
from tilewise.kernel.edits import edited


def outcome(old, new, transposed=True, kernel=None):
    """Whether D is right after one edit of the kernel, or what the simulator says."""
    launch = edited(kernel or ONE_TILE, (old, new)).on(tile_case(transposed))
    got = launch.case.make()
    try:
        launch.simulate(arrays=got)
    except HazardError as error:
        return error.hazard.kind
    wrong = got["D"] != exact(got)
    return f"{wrong.mean():.0%} of D wrong" if wrong.any() else "correct"


INCLUDE = '#include "hopper.cuh"\n'
MODE = "#define descriptor(p, lbo, sbo) (descriptor(p, lbo, sbo) & ~(3ull << 62) | {})\n"
A_DESCRIPTOR = "descriptor(a + 32 * k, 16, 1024)"
TRIED = {
    "LBO 16, SBO 1,024": (A_DESCRIPTOR, A_DESCRIPTOR),
    "LBO 0, SBO 1,024": (A_DESCRIPTOR, "descriptor(a + 32 * k, 0, 1024)"),
    "LBO 4,096, SBO 1,024": (A_DESCRIPTOR, "descriptor(a + 32 * k, 4096, 1024)"),
    "LBO 16, SBO 512": (A_DESCRIPTOR, "descriptor(a + 32 * k, 16, 512)"),
    "LBO 1,024, SBO 16": (A_DESCRIPTOR, "descriptor(a + 32 * k, 1024, 16)"),
    "K step of 16 bytes": (A_DESCRIPTOR, "descriptor(a + 16 * k, 16, 1024)"),
    "a buffer 128 bytes later": (A_DESCRIPTOR, "descriptor(a + 128 + 32 * k, 16, 1024)"),
    "no swizzle": (INCLUDE, INCLUDE + MODE.format("0ull")),
    "64-byte swizzle": (INCLUDE, INCLUDE + MODE.format("2ull << 62")),
}
K_MAJOR = {name: outcome(*edit) for name, edit in TRIED.items()}
show(
    Table(
        ["descriptor of A (last two: of A and B)", "result"],
        [[name, result] for name, result in K_MAJOR.items()],
        caption="one_tile with other descriptors, run on the simulator and compared with float64. A is K-major with a 128-byte swizzle.",
    )
)
assert list(K_MAJOR.values())[:3] == ["correct"] * 3, "LBO is not used for K-major operands"
assert "correct" not in list(K_MAJOR.values())[3:]
assert list(K_MAJOR.values())[6:] == ["misaligned", "tensor map", "tensor map"], "the text names them"

# %% [markdown]
# In the last three cases, the simulator stops before it multiplies. The later buffer breaks the rule that a swizzle
# pattern must begin at a multiple of 1,024 bytes; the last two descriptors don't specify the swizzle mode given in the
# tensor map.
#
# Run the kernel with four of these descriptors:

# %% fold="Code of the run"
from tilewise import try_it

try_it(
    {
        name: edited(ONE_TILE.on(tile_case()), TRIED[name])
        for name in ("LBO 16, SBO 1,024", "LBO 16, SBO 512", "K step of 16 bytes", "a buffer 128 bytes later")
    }
)

# %% [markdown]
# ## Stepping along K
#
# Each `wgmma` handles 16 elements along K, which are 32 bytes of each row. To reach the next 16, the kernel adds 32
# to the start address. With a swizzle, that looks wrong. In row 2, the TMA stored chunk 0 at position 0 ^ 2 = 2 and
# chunk 2 at position 2 ^ 2 = 0, so chunk 2 comes 32 bytes *before* chunk 0.
#
# It still works, because the hardware computes the *unswizzled* address first and applies the exclusive or
# afterwards. With 32 added to the start address, row 2 begins at offset 2 × 128 + 32 = 288. That's position 2 of the
# row, and the exclusive or turns it into position 0, offset 256: exactly where the TMA stored chunk 2. This requires
# that bits 4 to 9 of the buffer's address are zero, which is why buffers are aligned to 1,024 bytes.
#
# ## MN-major operands: B in row-major order
#
# Often B is stored row-major, as K rows of N elements. Then N, rather than K, runs along the rows, and the operand is
# called *MN-major*. For 16-bit types, `wgmma` accepts it if the transpose bit of B is 1. With this swizzle, a row of a
# TMA box can be at most 128 bytes long, so the 64 × 128 tile takes two loads. Each one fills an 8 KiB sub-tile of 64
# rows (K) × 64 columns (N). Now an atom is eight rows of K by 64 columns of N, and both offsets matter:
#
# - **SBO** = 1,024: from eight rows of K to the next eight. One `wgmma` reads 16 rows, that is, two atoms.
# - **LBO** = 8,192: from 64 columns of N to the next 64, that is, from one sub-tile to the next.
# - The step along K is 16 rows of 128 bytes, **2,048** bytes.
#
# LBO depends on the sub-tile: it's 128 bytes times the number of rows of K that one load covers, here 64.

# %% fold="Code of the checks"
MN_MAJOR = Kernel(ONE_TILE.source, defines={"B_IS_MN_MAJOR": 1}, options=OPTIONS)
agree(one_tile, ONE_TILE, [tile_case(), tile_case(M=50, N=100, K=40), tile_case(M=33, N=72, K=24)])
arrays = MN_MAJOR.on(tile_case(transposed=False)).run()
check(arrays["D"], exact(arrays), name="D of one_tile, B MN-major")
B_DESCRIPTOR = "descriptor(b + 2048 * k, 8192, 1024)"
TRIED_MN = {
    "LBO 8,192, SBO 1,024, step 2,048": (B_DESCRIPTOR, B_DESCRIPTOR),
    "LBO 16": (B_DESCRIPTOR, "descriptor(b + 2048 * k, 16, 1024)"),
    "LBO and SBO swapped": (B_DESCRIPTOR, "descriptor(b + 2048 * k, 1024, 8192)"),
    "step of 32 bytes": (B_DESCRIPTOR, "descriptor(b + 32 * k, 8192, 1024)"),
    "transpose bit 0": ("#define wgmma wgmma_m64n128k16_mn", "#define wgmma wgmma_m64n128k16"),
}
MN = {name: outcome(*edit, transposed=False, kernel=MN_MAJOR) for name, edit in TRIED_MN.items()}
assert MN.pop("LBO 8,192, SBO 1,024, step 2,048") == "correct"
assert "correct" not in MN.values() and MN["transpose bit 0"] == "out of bounds", "the text says so"
SHARES = [MN[name].split()[0] for name in list(TRIED_MN)[1:4]]
publish(mn={"least": min(SHARES, key=lambda share: int(share.rstrip("%")))})

# %% [markdown]
# If you keep LBO = 16 or the step of 32 bytes from the K-major kernel, or swap the two offsets, at least {{ mn.least }}
# of D is wrong. If you forget the transpose bit, each `wgmma` reads from 128 rows of 128 bytes, counted from its start
# address, so every `wgmma` but the first reads beyond the end of B.
#
# The transpose bit is part of the instruction, so the header has a function for each shape and layout. In their
# names, `_mn` means that B is MN-major, and `_rs` that A comes from registers. For another N, write a similar
# function, with N / 2 accumulators per thread.

# %% [markdown]
# ## The accumulator layout
#
# D is spread over the registers of 128 threads. Warp *w* of the warpgroup holds rows 16 *w* to 16 *w* + 15. Within a
# warp, the layout is that of `mma.sync`, repeated every eight columns. With all divisions rounded down, register *i*
# of a lane holds the element in
#
# - row 16 · warp + lane / 4 + 8 · (i / 2 % 2),
# - column 8 · (i / 4) + 2 · (lane % 4) + i % 2.

# %% fold="Code of the figure"
RAW = edited(
    ONE_TILE, ("if (row < M && col < N) D[N * row + col] = acc[i];", "D[64 * threadIdx.x + i] = acc[i];")
)


def registers_of(digit):
    """What each register of each thread holds, if D is the column's or the row's number."""
    row, col = np.mgrid[0:64, 0:128]
    wanted = (row if digit == "row" else col).astype(float)
    # D = A B with A the identity: B is 64 x 128, and holds D
    arrays = {"A": bf16.bits(np.eye(64)), "Bt": bf16.bits(wanted.T.copy())}
    held = np.zeros((128, 64), np.float32)
    maps = [
        tensor_map(arrays["A"], box=(64, 64), swizzle=128, dtype="bfloat16"),
        tensor_map(arrays["Bt"], box=(128, 64), swizzle=128, dtype="bfloat16"),
    ]
    RAW.simulate(*maps, held, 64, 128, grid=1, block=128)
    return held.astype(int)


ROW, COL = registers_of("row"), registers_of("col")
thread, i = np.mgrid[0:128, 0:64]
check(ROW, 16 * (thread // 32) + thread % 32 // 4 + i // 2 % 2 * 8, name="row of each register")
check(COL, i // 4 * 8 + thread % 4 * 2 + i % 2, name="column of each register")
LANE, REGISTER = np.zeros((16, 16), int), np.zeros((16, 16), int)
for t in range(32):
    for r in range(64):
        if COL[t, r] < 16:
            LANE[ROW[t, r], COL[t, r]], REGISTER[ROW[t, r], COL[t, r]] = t, r
show(
    stepped(
        [
            State(
                f"Lane {lane} holds two neighbouring elements of row {lane // 4} and two of row {lane // 4 + 8}.",
                arrays={"lane": LANE[:, :8], "register": REGISTER[:, :8]},
                reads={"lane": lane == LANE[:, :8], "register": lane == LANE[:, :8]},
            )
            for lane in range(32)
        ],
        start=5,
        title="A lane holds pairs of neighbouring columns in two rows",
        caption="The first 16 rows and 8 columns of D: which lane of warp 0 holds each element, and in which of its registers. The next eight columns are in the next four registers, the rows below in warps 1 to 3.",
    )
)

# %% [markdown]
# ## A from registers: D of one wgmma is A of the next
#
# A may also come from registers. Instead of A's descriptor, the instruction then takes four registers with two 16-bit
# elements each, and it expects them in the layout that D already has. A lane holds its part of columns 16 *k* to 16
# *k* + 15 of D in registers 8 *k* to 8 *k* + 7. Converted to BF16 and packed in pairs, these are exactly the four
# registers of A for step *k*. So two matrix multiplications in a row, (A B) C, need no shared memory in between.
# That's how [FlashAttention-3](../attention/hopper.py) multiplies the softmax of $QK^\top$ by V.


# %% tab="Pseudocode"
def chain(A, Bt, C, E):
    P = bf16.values(bf16.bits(A @ Bt.T))  # rounded
    E[:] = P @ C


# %% tab="CUDA C"
CHAIN = Kernel(
    r"""
#include "hopper.cuh"

// E = (A B) C: A M x 64, B transposed in memory 128 x 64, C 128 x N row-major (MN-major for wgmma),
// E M x N floats, M up to 64 and N up to 128.
// c_map: boxes of 128 rows x 64 columns. Grid: 1. Block: 128. Dynamic shared memory: 57,344 bytes.
extern "C" __global__ void __launch_bounds__(128)
chain(const __grid_constant__ TensorMap a_map, const __grid_constant__ TensorMap b_map,
      const __grid_constant__ TensorMap c_map, float* E, int M, int N) {
    extern __shared__ __align__(1024) unsigned char smem[];
    __shared__ u64 full;
    unsigned char *a = smem, *b = a + 8192, *c = b + 16384;
    if (threadIdx.x == 0) {
        mbarrier_init(&full, 1);
        mbarrier_init_fence();
        mbarrier_arrive_expect_tx(&full, 8192 + 16384 + 32768);
        tma_load_2d(a, &a_map, 0, 0, &full);
        tma_load_2d(b, &b_map, 0, 0, &full);
        tma_load_2d(c, &c_map, 0, 0, &full);
        tma_load_2d(c + 16384, &c_map, 64, 0, &full);
    }
    __syncthreads();
    mbarrier_wait(&full, 0);
    float d[64], e[64];
    wgmma_fence();
    #pragma unroll
    for (int k = 0; k < 4; ++k)
        wgmma_m64n128k16(d, descriptor(a + 32 * k, 16, 1024), descriptor(b + 32 * k, 16, 1024), k > 0);
    wgmma_commit();
    wgmma_wait<0>(d);
    // [pack
    unsigned p[8][4];
    #pragma unroll
    for (int k = 0; k < 8; ++k)
        #pragma unroll
        for (int r = 0; r < 4; ++r) p[k][r] = pack_bf16x2(d[8 * k + 2 * r], d[8 * k + 2 * r + 1]);
    // pack]
    wgmma_fence();  // orders the writes of p before the first wgmma that reads them
    #pragma unroll
    for (int k = 0; k < 8; ++k)
        wgmma_m64n128k16_rs_mn(e, p[k], descriptor(c + 2048 * k, 16384, 1024), k > 0);
    wgmma_commit();
    wgmma_wait<0>(e);
    int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    #pragma unroll
    for (int i = 0; i < 64; ++i) {
        int row = 16 * warp + lane / 4 + i / 2 % 2 * 8, col = i / 4 * 8 + lane % 4 * 2 + i % 2;
        if (row < M && col < N) E[N * row + col] = e[i];
    }
}
""",
    options=OPTIONS,
)

# %%
CHAIN.region("pack")

# %% fold="Code of the checks"


def chain_case(M=64, N=128):
    whole = {"low": -2, "high": 3, "dtype": "bfloat16"}
    maps = {"a_map": ("A", (64, 64)), "b_map": ("Bt", (128, 64)), "c_map": ("C", (128, 64))}
    return case(
        1,
        128,
        shared_bytes=8192 + 16384 + 32768,
        A=integers(M, 64, **whole),
        Bt=integers(128, 64, **whole),
        C=integers(128, N, **whole),
        E=output(M, N),
        M=M,
        N=N,
        **{
            name: tensor_map(array, box=box, swizzle=128, dtype="bfloat16")
            for name, (array, box) in maps.items()
        },
    )


agree(chain, CHAIN, [chain_case(), chain_case(50, 104), chain_case(33, 72)])

# %% [markdown]
# ## Fence, commit, wait
#
# `wgmma` is asynchronous: the instruction only starts the multiplication, and the warps continue immediately. Three
# more instructions order it relative to the rest of your program.
#
# - **`wgmma.fence`** orders earlier accesses *to registers* before the next `wgmma`: writes to the accumulators, and to
#   A if it's in registers. You need one before the first `wgmma`, and another before any later `wgmma` if you've read
#   or written these registers in the meantime. For operands in shared memory, [the rules of the async
#   proxy](tma.py#tma-stores-and-the-async-proxy) apply instead.
# - **`wgmma.commit_group`** collects all `wgmma` instructions not yet in a group into a new group.
# - **`wgmma.wait_group N`** waits until at most the N latest groups are still in flight. Until a `wgmma` is complete,
#   no thread may read or write its accumulators or overwrite its operands.
#
# The header has a function for each. `wgmma_wait` takes the accumulators as operands, so that the compiler can't move
# any use of them ahead of the wait:

# %%
HOPPER.region("wgmma_order")

# %% [markdown]
# Consecutive `wgmma` instructions that accumulate into the same registers need no fence between them, because the
# hardware keeps their order. In a loop over K tiles, however, put one `wgmma_fence()` at the start of each iteration;
# otherwise `ptxas` inserts it (C7519). After the first tile, every `wgmma` accumulates, so the function's last
# argument, scale-d, becomes `t > 0 || k > 0`.
#
# To keep the tensor cores busy in such a loop, let the wait lag one tile behind. After you've committed tile *t*,
# `wgmma_wait<1>(acc)` returns when tile *t* − 1 is complete, so release the stage of tile *t* − 1. One thread per
# consumer warpgroup arrives on the stage's `empty` mbarrier: a `wgmma` is a single operation of the whole warpgroup, so
# once it's complete, all four warps are done with the stage. After the loop, call `wgmma_wait<0>(acc)`. Letting the
# wait lag requires a ring of at least two stages.
#
# If you leave out a wait, the commit or a fence, the simulator reports it. Here the second fence of `chain` is missing,
# although ordinary code has just written the registers of A:

# %% fold="Code of the checks"
for old, found in (
    ("    wgmma_wait<0>(acc);\n", "accumulator"),
    ("    wgmma_commit();\n", "accumulator"),
    ("    mbarrier_wait(&full, 0);\n", "undelivered"),
):
    assert outcome(old, "") == found
spoilt = edited(CHAIN, ("    wgmma_fence();  // orders the writes of p", "    // "))
expect_hazard(spoilt.on(chain_case()), "accumulator")

# %% [markdown]
# On a GPU, also watch the compiler. A branch, a function call that isn't inlined or a shortage of registers can
# keep it from proving that the accumulators stay untouched between a `wgmma` and its wait. It then *serialises* the `wgmma` instructions:
# it inserts a wait after every `wgmma`. The result is correct, but the kernel is slow. `ptxas` prints warning C7510,
# `Potential Performance Loss: wgmma.mma_async instructions are serialized`. In the \SASS, a healthy
# loop has several `HGMMA` in a row and one `WARPGROUP.DEPBAR`.
#
# ## The register budget
#
# The accumulators of a 64 × 256 tile alone take 128 registers per thread. An SM has 65,536 registers. With one producer
# warpgroup and two consumer warpgroups, a block has 384 threads, and the compiler can give each of them at most 168
# registers, since register counts are multiples of 8. That's much more than the producer needs for its loop, but it
# leaves a consumer only 40 in addition to its accumulators. `setmaxnreg` redistributes registers at run time: the
# producer goes down to 24, and each consumer goes up to 240. The block's total stays the same, 64,512.
#
# As soon as the code branches by role, the producer executes `asm volatile("setmaxnreg.dec.sync.aligned.u32 24;")`, and
# each consumer executes the same instruction with `inc` and 240. There are three conditions: the counts must be
# multiples of 8 between 24 and 256, all warps of the warpgroup must execute the instruction, and the kernel must be
# compiled for a known number of registers per thread, for example through `__launch_bounds__`. The last is needed
# because a block can only redistribute the registers that it was given at launch. `setmaxnreg.inc` blocks until enough
# registers are free, so it can't complete before the producer has executed `setmaxnreg.dec`.

# %% fold="Code of the check"
EVEN = 65536 // 384 // 8 * 8
assert (128 * 24 + 256 * 240, EVEN, EVEN - 128) == (384 * EVEN, 168, 40), "the text: the total stays the same"

# %% [markdown]
# ## From one tile to a GEMM
#
# You now have all the parts of a GEMM: [the ring](tma.py#a-ring-of-buffers) with a producer, and consumers that issue `wgmma`. Say that warpgroup
# 0 is the producer, and that warpgroups 1 and 2 each compute 64 rows of the 128 × 128 tile of C at (`row0`, `col0`). B is row-major.
#
# | part | `one_tile` | GEMM, K tile *t* |
# |---|---|---|
# | loads | A at (0, 0), B at (0, 0) and (64, 0) | a box of 128 × 64 of A at (64 *t*, `row0`), boxes of 64 × 64 of B at (`col0`, 64 *t*) and (`col0` + 64, 64 *t*) |
# | announced bytes | 8,192 + 16,384 | 16,384 + 16,384 per stage, at the edges too: zeros count |
# | `full`, `empty` | `full` expects 1 arrival | `full` expects 1 and `empty` 2, one per consumer warpgroup |
# | rows of A | the whole tile | the second consumer's start 64 rows of 128 bytes later |
# | last argument of the `wgmma` | `k > 0` | true if `t > 0` or `k > 0` |
# | wait | `wgmma_wait<0>` | `wgmma_wait<1>`, then release the stage of tile *t* − 1 |
# | warp, in the accumulator layout | `threadIdx.x / 32` | `threadIdx.x / 32 % 4` |
#
# One thread would be enough for the producer, but it gets a warpgroup of its own, because `setmaxnreg` applies to whole
# warpgroups. Write this kernel in the puzzle [Warp-specialised GEMM](puzzles.py#warp-specialised-gemm).
#
# ## Takeaways
#
# - `wgmma` multiplies 64 × 16 by 16 × N with operands in shared memory, each described by an address, a swizzle mode and up to two offsets between swizzle atoms.
# - With a 128-byte swizzle, a K-major operand has SBO = 1,024 and a step of 32 bytes. An MN-major one has SBO = 1,024,
#   LBO = the size of a sub-tile of 64 columns, a step of 2,048 bytes and its transpose bit set to 1. Buffers are
#   aligned to 1,024 bytes.
# - D has the layout that A needs, so chained multiplications stay in registers. Issue a fence after you've written
#   registers, commit the group, and don't touch accumulators or operands before the wait.
#
# ## In your own kernel
#
# If the result is garbage, multiply by the identity and print D: a wrong offset shows up as permuted blocks, a wrong
# swizzle as permuted chunks of eight columns. If it's slow, look for C7510 in the output of `ptxas`, and in Nsight
# Compute look at `sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_active`, the utilisation of the tensor
# cores.

# %% fold="Code of the exercise, with four wrong answers that the tests reject"
from tilewise import exercise

TALL = ONE_TILE.source.replace("one_tile", "tall_tile")
for old, new in (
    (
        "__shared__ __align__(1024) unsigned char a[8192], b[16384];",
        "extern __shared__ __align__(1024) unsigned char a[];\n    unsigned char* b = a + 16384;",
    ),
    ("sizeof(a) + sizeof(b)", "16384 + 32768"),
    (
        "tma_load_2d(a, &a_map, 0, 0, &full);",
        "for (int h = 0; h < 2; ++h) tma_load_2d(a + 8192 * h, &a_map, 64 * h, 0, &full);",
    ),
    (
        "tma_load_2d(b, &b_map, 0, 0, &full);",
        "for (int h = 0; h < 2; ++h) tma_load_2d(b + 16384 * h, &b_map, 64 * h, 0, &full);",
    ),
    ("k < 4; ++k", "k < 8; ++k"),
    ("descriptor(a + 32 * k, 16, 1024)", "descriptor(a + 8192 * (k / 4) + 32 * (k % 4), 16, 1024)"),
    ("descriptor(b + 32 * k, 16, 1024)", "descriptor(b + 16384 * (k / 4) + 32 * (k % 4), 16, 1024)"),
):
    assert TALL.count(old) == 1, old
    TALL = TALL.replace(old, new)
DEEP = Kernel(TALL, defines={"B_IS_MN_MAJOR": 0}, options=OPTIONS)


def deep_tests(kernel):
    rng = np.random.default_rng(1)
    A, Bt = (bf16.bits(rng.integers(-3, 4, shape).astype(float)) for shape in ((64, 128), (128, 128)))
    D = np.zeros((64, 128), np.float32)
    maps = [
        tensor_map(one, box=(rows, 64), swizzle=128, dtype="bfloat16") for one, rows in ((A, 64), (Bt, 128))
    ]
    kernel.simulate(*maps, D, 64, 128, grid=1, block=128, shared_bytes=49152)
    wrong = np.argwhere(bf16.values(A).astype(float) @ bf16.values(Bt).T != D)
    assert not len(wrong), f"D[{wrong[0][0]}, {wrong[0][1]}] is wrong, and {len(wrong)} elements in all"


exercise(
    "A deeper tile",
    """
    Change `one_tile` into `tall_tile(a_map, b_map, D, M, N)` for K = 128: A is 64 × 128 and B, stored transposed, 128 × 128. The boxes stay 64 columns wide, since a row of a
    box can be at most 128 bytes long. How many loads does each operand take now, and how do the descriptors step along K? The tests launch it with
    49,152 bytes of dynamic shared memory and compare D with NumPy.
    """,
    answer=DEEP,
    tests=deep_tests,
    wrong=[
        {"descriptor(a + 8192 * (k / 4) + 32 * (k % 4)": "descriptor(a + 32 * k"},
        {"descriptor(a + 8192 * (k / 4) + 32 * (k % 4), 16": "descriptor(a + 32 * (k % 4), 8192"},
        {"16384 * (k / 4) + 32 * (k % 4)": "8192 * (k / 4) + 32 * (k % 4)"},
        {"k < 8; ++k": "k < 4; ++k"},
    ],
    hint="After four steps of 32 bytes, you're at the end of a 128-byte row. Where do the next 64 elements along K begin?",
    explanation="Each operand takes two loads of 64 columns. Steps 0 to 3 are in the first sub-tile and 4 to 7 in the second, 8,192 bytes later for A and 16,384 for B. A K-major descriptor never reaches beyond its atom along K, so the kernel has to move to the next sub-tile itself.",
)

# %% [markdown]
# Next: [clusters and named barriers](clusters.py). After that, we combine the TMA and `wgmma` into a [GEMM](hopper.py).
