# ---
# title: "TMA and mbarriers: one thread copies a whole tile"
# needs: [matmul/matrix_units, memory/banks]
# summary: "A GEMM step on Hopper needs 48 KiB of operands. How many copy instructions does that take?"
# description: "The Tensor Memory Accelerator explained: tensor maps field by field, swizzles as address bits, mbarriers with phases and bytes, a ring of buffers, the async proxy, and each mistake caught."
# date: 2026-11-23
# tags: [Hopper, TMA, mbarrier, tensor map, swizzle]
# ---

# %% [markdown]
# One step of a fast GEMM on Hopper multiplies a 128 × 64 tile of A by a 64 × 256 tile of B, both in BF16. That's 48 KiB
# of operands. With `cp.async`, 128 threads issue 3,072 copies of 16 bytes, each with an address to compute and a bounds
# check. The *Tensor Memory Accelerator* (TMA) does the same work, and a single thread starts it with five instructions.
#
# Why not two, one for A and one for B? And how does a thread know that the bytes have arrived? This lesson answers both questions, starting
# from a very small kernel.
#
# ??? definition "TMA | Tensor Memory Accelerator"
#     The unit of an SM, from Hopper on, that copies tiles of arrays between global and shared memory. One thread
#     issues the copy; the TMA computes all addresses.

# %% [markdown]
# ## One instruction, one tile
#
# The host describes the array once, in a *tensor map* of 128 bytes. The kernel takes the map as a parameter.
# One thread issues the copy of the tile, called a *box* in TMA terminology, at coordinates (x, y), with x along the row. All threads wait
# on an *mbarrier*, a barrier in shared memory that counts bytes as well as threads. Here's the whole kernel:
#
# ??? definition "Tensor map | tensor maps"
#     128 bytes that describe an array to the TMA: address, extents, strides, the box to copy, and its layout in
#     shared memory.
#
# ??? definition "mbarrier | mbarriers"
#     A barrier in shared memory. It completes a phase when all expected threads and all announced bytes have arrived,
#     and then starts the next phase.


# %% tab="Pseudocode"
def load_tile(array, out, x, y):
    rows, cols = out.shape
    out[:] = 0
    inside = array[max(y, 0) : max(y + rows, 0), max(x, 0) : max(x + cols, 0)]
    top, left = max(-y, 0), max(-x, 0)
    out[top : top + inside.shape[0], left : left + inside.shape[1]] = inside


# %% tab="CUDA C"
from tilewise import Kernel

OPTIONS = ("-std=c++17", "-arch=sm_90a")
LOAD_TILE = Kernel(
    r"""
typedef unsigned long long u64;
struct __align__(128) TensorMap { u64 opaque[16]; };

static __device__ unsigned smem_addr(const void* p) {
    return (unsigned)__cvta_generic_to_shared(p);
}

// One block copies the box at (x, y) to out, row by row, as it is in shared memory.
// map: boxes of ROWS x COLS integers. x counts elements of a row and is a
// multiple of 4 (16 bytes); y counts rows. What is outside the array arrives as zeros.
// Grid: 1. Block: 32 or more threads. Compute capability 9.0 or later.
extern "C" __global__
void load_tile(const __grid_constant__ TensorMap map, int* out, int x, int y) {
    __shared__ __align__(1024) int tile[ROWS * COLS];
    __shared__ u64 full;  // the mbarrier
    if (threadIdx.x == 0) {
        // a phase of this mbarrier needs one arrival
        asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;"
                     :: "r"(smem_addr(&full)) : "memory");
        // the TMA may use it from here on
        asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
        // the arrival, and how many bytes are going to come
        asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"
                     :: "r"(smem_addr(&full)), "r"((int)sizeof(tile)) : "memory");
        // copy the box at {x, y} to shared memory, and report its bytes to full
        asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile"
                     ".mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
                     :: "r"(smem_addr(tile)), "l"(&map), "r"(x), "r"(y),
                        "r"(smem_addr(&full)) : "memory");
    }
    __syncthreads();  // the mbarrier is initialised
    // wait until phase 0 is complete
    asm volatile("{\n.reg .pred done;\nagain:\n"
                 "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], 0;\n"
                 "@!done bra again;\n}" :: "r"(smem_addr(&full)) : "memory");
    for (int i = threadIdx.x; i < ROWS * COLS; i += blockDim.x) out[i] = tile[i];
}
""",
    defines={"ROWS": 8, "COLS": 32},
    options=OPTIONS,
)

# %% [markdown]
# Run it on a small array, 12 rows of 40 integers. The simulator reads the same tensor map and executes the same
# instructions as a GPU.

# %%
import numpy as np

from tilewise import tensor_map

array = np.arange(12 * 40, dtype=np.int32).reshape(12, 40)
out = np.zeros((8, 32), np.int32)
LOAD_TILE(tensor_map(array, box=(8, 32)), out, 4, 1, grid=1, block=32)  # x = 4, y = 1
print(out[0, :4], "= row 1 from column 4 on")

# %% [markdown]
# For the load, no thread computes an address, no register holds data in flight, and there's no bounds check.

# %% fold="Code of the checks"
from tilewise import (
    HazardError,
    Kernel,
    Table,
    agree,
    case,
    ceil_div,
    integers,
    measure,
    output,
    publish,
    show,
    tiles,
)
from tilewise.figures import Series, State, heat_map, line_chart, stepped
from tilewise.measurements import medians_us, recorded


def loading(x, y, box=(8, 32), extents=(12, 40)):
    """A launch of load_tile for an array of these extents."""
    return case(
        1,
        32,
        array=integers(*extents, low=1, high=60000),
        map=tensor_map("array", box=box),
        out=output(*box, dtype="int32"),
        x=x,
        y=y,
    )


agree(
    load_tile,
    LOAD_TILE,
    [loading(4, 1), loading(20, 6, extents=(11, 44)), loading(-8, -3), loading(36, 11, extents=(13, 52))],
)

# %% [markdown]
# Move the box past the edges of the array. What does the TMA deliver for the elements outside it?

# %% fold="Code of the run"
from tilewise import try_it

try_it(loading, LOAD_TILE, x=[4, *range(-16, 4, 4), *range(8, 40, 4)], y=(-8, 1, 12))

# %% [markdown]
# ## Tensor maps, field by field
#
# On a GPU, the driver function `cuTensorMapEncodeTiled` fills in the 128 bytes. The course's
# `tensor_map(array, box=..., swizzle=...)` sets its twelve arguments for you. For a matrix of 4,096 × 1,024 BF16
# values, boxes of 128 × 64 and the 128-byte swizzle, it passes these:
#
# | argument | value | what it means |
# |---|---|---|
# | tensorMap | an address | where to write the 128 bytes; a multiple of 64 |
# | tensorDataType | 9 (BFLOAT16) | element type; gives the element size and the value to fill with |
# | tensorRank | 2 | number of axes, 1 to 5 |
# | globalAddress | an address | where the array begins; a multiple of 16 bytes |
# | globalDim | 1,024; 4,096 | extents in elements, fastest axis first |
# | globalStrides | 2,048 | bytes from row to row, a multiple of 16; the fastest axis has none |
# | boxDim | 64; 128 | extents of the box, fastest axis first, each at most 256; a row is a multiple of 16 bytes |
# | elementStrides | 1; 1 | take every n-th element along an axis; 1 takes all |
# | interleave | 0 (NONE) | for image layouts with interleaved channels |
# | swizzle | 3 (128B) | how 16-byte chunks are permuted in shared memory: none, 32B, 64B or 128B |
# | l2Promotion | 2 (128B) | how much the L2 fetches from memory at a time |
# | oobFill | 0 (NONE) | what elements outside the array become: zeros, or NaN |

# %% fold="Code of the check"
matrix = np.zeros((4096, 1024), np.uint16)
weights_map = tensor_map(matrix, box=(128, 64), swizzle=128, dtype="bfloat16")
assert weights_map.layout == (9, (1024, 4096), (2048,), (64, 128), 3, 2), "the table says so"

# %% [markdown]
# Four rules are easy to miss:
#
# - The axes are listed with the *fastest-varying first*, the reverse of the order in a NumPy shape.
# - The base address and every stride must be multiples of 16 bytes. So you can't create a tensor map for a matrix with
#   1,001 BF16 columns, unless you pad its rows: `tensor_map(padded, shape=(rows, 1001), ...)`.
# - A box must begin at a multiple of 16 bytes within its row. We know this rule from tests on an H100: any other x
#   caused an illegal-instruction error.
# - Pass the map by value, as `const __grid_constant__`. The TMA can read it from the kernel's parameters, but not from a
#   thread's stack, and without `__grid_constant__` the compiler may copy it there.
#
# ## Out-of-bounds tiles: zeros instead of bounds checks
#
# The TMA knows the array's extents. In a load, elements outside the array
# arrive as zeros, and they count towards the announced bytes like any others; a store skips them. So a kernel that loads and stores through
# the TMA needs no bounds check at all.

# %% fold="Code of the figure"
SMALL = Kernel(LOAD_TILE.source, defines={"ROWS": 4, "COLS": 8}, options=OPTIONS)
small = np.zeros((6, 12), np.int32)  # rows of 48 bytes, a multiple of 16
small[:, :10] = np.arange(1, 61).reshape(6, 10)


def box_at(x, y):
    """What arrives for the box at (x, y), and which elements of the array it covers."""
    held = np.zeros((4, 8), np.int32)
    SMALL.simulate(tensor_map(small, box=(4, 8), shape=(6, 10)), held, x, y, grid=1, block=32)
    row, col = np.mgrid[0:6, 0:10]
    covered = (row >= y) & (row < y + 4) & (col >= x) & (col < x + 8)
    zeros = int((held == 0).sum())
    outside = f"{zeros} of the box's 32 elements are outside and arrive as zeros" if zeros else "all inside"
    return State(
        f"The box at x = {x}, y = {y}: {outside}.",
        arrays={"array": small[:, :10], "tile in shared memory": held},
        reads={"array": covered},
    )


show(
    stepped(
        [box_at(*corner) for corner in ((0, 0), (0, 1), (4, 1), (4, 4), (-4, -2))],
        title="Outside the array, the TMA delivers zeros",
        caption="An array of 6 × 10 elements, with rows padded to 48 bytes, and the tile that arrives for five positions of a box of 4 × 8. Outlined: the elements that the box covers. Each step shows the result of one run of load_tile.",
    )
)

# %% [markdown]
# ## Swizzles: three address bits
#
# A tile of 64 BF16 columns has rows of 128 bytes, which cover all 32 banks exactly once. So the 16-byte chunks at the
# same position in each row are in the same four banks. `ldmatrix` and the tensor cores read such chunks from eight rows
# at a time. In [the lesson on tensor cores](matrix_units.py), the kernel permuted the chunks by hand. The TMA does that
# during the copy, if the tensor map says so.
#
# The rule is easiest to state in terms of address bits. In a byte's offset within the tile, bits 4 to 6 select the 16-byte chunk within a
# 128-byte line, and bits 7 to 9 the line within a group of eight. The 128-byte swizzle replaces bits 4 to 6 with their exclusive OR with bits 7 to 9:
#
# **offset ^ ((offset >> 3) & 0x70)**
#
# So chunk `c` of row `r` moves to position `c ^ (r % 8)` of its row: chunk 2 of row 3, for example, to position 1. The TMA applies the rule
# to bits of the shared-memory *address*, not of the offset. Align each buffer to 1,024 bytes, so that the two agree.

# %% fold="Code of the figure"
MASKS = {0: 0x00, 32: 0x10, 64: 0x30, 128: 0x70}


def swizzled(span):
    """For each 16-byte place of 1,024 bytes of shared memory, the row of the tile whose chunk is there, and the chunk."""
    cols = (span or 128) // 4
    rows = 256 // cols
    kernel = Kernel(LOAD_TILE.source, defines={"ROWS": rows, "COLS": cols}, options=OPTIONS)
    numbered, held = np.arange(256, dtype=np.int32).reshape(rows, cols), np.zeros(256, np.int32)
    kernel.simulate(tensor_map(numbered, box=(rows, cols), swizzle=span), held, 0, 0, grid=1, block=32)
    offset = 16 * np.arange(64)
    unswizzled = offset ^ ((offset >> 3) & MASKS[span])  # the same function there and back
    assert np.array_equal(held[::4] * 4, unswizzled), f"the formula holds for a swizzle of {span} bytes"
    row, chunk = np.divmod(unswizzled, 4 * cols)
    return row.reshape(8, 8), (chunk // 16).reshape(8, 8)


def wavefronts_of_a_column(span):
    """Wavefronts that eight rows of one chunk need: how many of them share four banks."""
    row, chunk = swizzled(span)
    banks = [np.nonzero((chunk == 0) & (row == one))[1][0] for one in range(8)]
    return int(np.bincount(banks).max())


assert [wavefronts_of_a_column(span) for span in MASKS] == [8, 1, 1, 1]


def rejected(cols):
    """Whether there's no tensor map for a box with so many BF16 columns and the 128-byte swizzle."""
    try:
        tensor_map(np.zeros((64, 256), np.uint16), box=(64, cols), swizzle=128, dtype="bfloat16")
    except ValueError:
        return True
    return False


assert rejected(256) and not rejected(64), "the text says that a wider box is rejected"
NAMES = [f"{span} bytes" if span else "none" for span in MASKS]
chunk_map = heat_map(
    {"chunk of its row": np.stack([swizzled(span)[1] for span in MASKS]).astype(float)},
    steps=NAMES,
    step_name="swizzle",
    start=3,
    x="chunk of the line (four banks each)",
    y="line of 128 bytes",
    ranges={"chunk of its row": (-0.5, 7.5)},
    form=".0f",
    key=False,
    height=420,
    title="A swizzle spreads a column of chunks over all banks",
    caption="The 1,024 bytes of shared memory that a TMA load has filled, read back by load_tile: eight lines of eight 16-byte chunks. A cell's number and colour show which chunk of its tile row it holds; chunks in one column are in the same four banks. Each row of the tile is as long as the swizzle's span, or 128 bytes without a swizzle.",
    alt="A map of 8 lines by 8 chunks. Each cell has the number of the chunk of its row that the TMA put there.",
)
COLOURS = ["lane", "block", "write", "tile", "waste", "registers", "read", "line"]
chunk_map.spec["data"][0]["colorscale"] = [
    [(at + end) / 8, f"role:{colour}"] for at, colour in enumerate(COLOURS) for end in (0, 1)
]
show(chunk_map)

# %% [markdown]
# `ldmatrix` reads eight cells of one colour at once. Without a swizzle, all of them are in one column of the map, so
# the read takes eight wavefronts. With the 128-byte swizzle, they're in eight columns, so one wavefront is enough.
#
# The swizzle imposes a limit: a row of the box may be at most 128 bytes long, because three bits can permute only the
# eight chunks of one line.
#
# So the 64 × 256 tile of B takes four loads of 64 columns each, and in shared memory it becomes four sub-tiles of 64 ×
# 64. With one load for A, that makes five instructions.
#
# ## The life of an mbarrier
#
# `__syncthreads()` can't wait for the TMA, which isn't a thread. An mbarrier can. It's a 64-bit word in shared memory
# that you can think of as three counters:
#
# - **phase**: the number of phases completed so far. You can test only its parity, 0 or 1.
# - **pending arrivals**: how many threads still have to arrive in this phase. `init` sets how many each phase needs.
# - **pending bytes**: bytes announced by `expect_tx`, minus bytes that the TMA has delivered.
#
# When both pending counters reach zero, the phase is complete: the phase number goes up by one, and the arrival count
# is reset for the next phase. So one mbarrier is enough for a whole loop. Here's the whole mbarrier in Python:


# %%
class Mbarrier:
    """What an mbarrier keeps track of."""

    def __init__(self, arrivals):
        self.arrivals = arrivals
        self.phase, self.pending_arrivals, self.pending_bytes = 0, arrivals, 0

    def arrive(self):
        self.pending_arrivals -= 1
        self._complete()

    def arrive_expect_tx(self, count):
        self.pending_bytes += count
        self.arrive()

    def complete_tx(self, count):  # by the TMA
        self.pending_bytes -= count
        self._complete()

    def _complete(self):
        if self.pending_arrivals == 0 and self.pending_bytes == 0:
            self.phase += 1
            self.pending_arrivals = self.arrivals

    def try_wait(self, parity):
        """Whether the latest phase with this parity is complete: true while the current phase has the other parity."""
        return self.phase % 2 != parity


# %% [markdown]
# You don't wait for a phase *number*; you test whether the phase of a given *parity* is complete. On a fresh mbarrier, the current phase is 0.
# So `try_wait(0)` is false until phase 0 completes, and `try_wait(1)` is true at once, as if a phase before phase 0 had just completed.
#
# Why does the mbarrier need an arrival at all? As long as one is pending, the phase can't complete, even if no bytes
# have been announced yet. `arrive.expect_tx` announces the bytes first and then arrives, so the phase can't end too
# early. Step through two loads of 8,192 bytes, each delivered in two halves:

# %% fold="Code of the figure"


def life():
    """The states of one mbarrier through two loads."""
    bar = Mbarrier(1)

    def state(text):
        return State(
            text,
            values={
                "phase": bar.phase,
                "pending arrivals": bar.pending_arrivals,
                "pending bytes": bar.pending_bytes,
                "try_wait(0)": int(bar.try_wait(0)),
                "try_wait(1)": int(bar.try_wait(1)),
            },
        )

    yield state(
        "init(1): phase 0 needs one arrival. A wait for parity 1 passes, a wait for parity 0 doesn't."
    )
    for load in range(2):
        bar.arrive_expect_tx(8192)
        yield state(
            f"Load {load}: one thread announces 8,192 bytes and arrives. Now only the bytes are missing."
        )
        bar.complete_tx(4096)
        yield state(f"Load {load}: the TMA has delivered the first 4,096 bytes.")
        bar.complete_tx(4096)
        yield state(
            f"Load {load}: the last bytes. Phase {load} is complete, and phase {load + 1} begins: "
            f"a wait for parity {load % 2} passes now."
        )


LIFE = list(life())
assert [one.values["phase"] for one in LIFE] == [0, 0, 0, 1, 1, 1, 2]
show(
    stepped(
        LIFE,
        title="A phase ends when all arrivals and bytes are in",
        caption="The state of one mbarrier through two loads, computed by the class above. A 1 means that the wait returns at once.",
    )
)

# %% [markdown]
# ## A ring of buffers
#
# With one buffer, the kernel can only load, wait, compute, and load again. To overlap loads with computation, use
# several buffers, the *stages* of a ring, and split the roles: a *producer* thread only issues loads, and *consumers*
# only compute. Each stage has two mbarriers. A phase of `full` completes when the stage's bytes have arrived; a phase
# of `empty` completes when all consumers have read them. Tile *t* goes into stage `t % STAGES`. It's the `u`-th tile in that
# stage, counted from 0, with `u = t / STAGES` rounded down. So:
#
# - the consumer waits until phase `u` of `full` is complete: parity `u % 2`;
# - the producer waits until the stage's *previous* tile has been read, that is, for phase `u - 1` of `empty`: parity `u % 2 ^ 1`.
#
# For the first tile in each stage, there's no previous one: the stage is free, but no consumer has arrived at `empty` yet. The formula
# still works, because on a fresh mbarrier a wait for parity 1 returns at once. Here's the ring with two stages:
#
# | tile *t* | stage | use of stage | producer: parity of `empty` | which passes | consumer: parity of `full` |
# |---|---|---|---|---|---|
# | 0 | 0 | 0 | 1 | fresh, so parity 1 passes | 0 |
# | 1 | 1 | 0 | 1 | fresh, so parity 1 passes | 0 |
# | 2 | 0 | 1 | 0 | after the consumer has read tile 0 | 1 |
# | 3 | 1 | 1 | 0 | after the consumer has read tile 1 | 1 |
# | 4 | 0 | 2 | 1 | after the consumer has read tile 2 | 0 |

# %% fold="Code of the check"


def parities(tiles, stages):
    """For each tile: stage, use, and both parities, checked by running the two roles on the Mbarrier class."""
    full = [Mbarrier(1) for _ in range(stages)]
    empty = [Mbarrier(1) for _ in range(stages)]
    rows = []
    for t in range(tiles + stages):
        if t >= stages:  # the consumer is as many tiles behind as there are stages
            u = t - stages
            assert full[u % stages].try_wait(u // stages % 2), "tile u has arrived"
            empty[u % stages].arrive()
        if t < tiles:
            s, use = t % stages, t // stages
            assert empty[s].try_wait(use % 2 ^ 1), "the stage is free"
            full[s].arrive_expect_tx(8192)
            assert not full[s].try_wait(use % 2), "nothing has arrived yet"
            full[s].complete_tx(8192)
            rows.append((t, s, use, use % 2 ^ 1, use % 2))
    return rows


TABLE = [(0, 0, 0, 1, 0), (1, 1, 0, 1, 0), (2, 0, 1, 0, 1), (3, 1, 1, 0, 1), (4, 0, 2, 1, 0)]
assert parities(5, 2) == TABLE, "the table says so"
parities(40, 3)

# %% [markdown]
# ## The shared header
#
# The header `hopper.cuh` wraps the instructions above in small functions. The load is `tma_load_2d`, and these
# functions operate on mbarriers:

# %%
from tilewise import Header

HOPPER = Header("hopper.cuh")
HOPPER.region("mbarrier")

# %% [markdown]
# The next kernel sums the rows of a matrix. Warp 0 is the producer and warp 1 the consumer.
# Each lane of the consumer sums one row with eight `float4` loads per tile.
#
# Once the roles have split, no thread may call `__syncthreads()`, because the threads in the other role would never
# reach it. The producer may return while its loads are in flight: the consumers wait for all of them.


# %% tab="Pseudocode"
def row_sums(x, out):
    for rows in tiles(len(x), 32):  # one block each
        acc = np.zeros(len(rows))
        # [producer
        stream = (x[rows][:, cols] for cols in tiles(x.shape[1], 32))
        # producer]
        # [consumer
        for tile in stream:  # as they arrive
            acc += tile.sum(axis=1)
        # consumer]
        out[rows] = acc


# %% tab="CUDA C"
ROW_SUMS = Kernel(
    r"""
#include "hopper.cuh"

#define TILE_BYTES 4096  // 32 x 32 floats

// out[r] = sum of row r of x, for r < rows.
// map: boxes of 32 x 32 floats of x, 128-byte swizzle. Any rows; any cols that a map allows (a multiple of 4).
// Grid: ceil(rows / 32). Block: 64 threads. Dynamic shared memory: STAGES * 4096 bytes.
extern "C" __global__ void __launch_bounds__(64)
row_sums(const __grid_constant__ TensorMap map, float* out, int rows, int cols) {
    extern __shared__ __align__(1024) unsigned char smem[];
    __shared__ u64 full[STAGES], empty[STAGES];
    int lane = threadIdx.x % 32, tiles = (cols + 31) / 32;
    if (threadIdx.x == 0) {
        for (int s = 0; s < STAGES; ++s) {
            mbarrier_init(&full[s], 1);    // the producer arrives, with bytes
            mbarrier_init(&empty[s], 32);  // every lane of the consumer arrives
        }
        mbarrier_init_fence();
    }
    __syncthreads();  // the mbarriers are initialised
    if (threadIdx.x < 32) {
        // [producer
        if (lane == 0)
            for (int t = 0; t < tiles; ++t) {
                int stage = t % STAGES, use = t / STAGES;
                mbarrier_wait(&empty[stage], use % 2 ^ 1);  // passes at once in round 0
                mbarrier_arrive_expect_tx(&full[stage], TILE_BYTES);
                tma_load_2d(smem + stage * TILE_BYTES, &map, 32 * t, 32 * blockIdx.x, &full[stage]);
            }
        // producer]
    } else {
        // [consumer
        float acc = 0.0f;
        for (int t = 0; t < tiles; ++t) {
            int stage = t % STAGES, use = t / STAGES;
            const float4* row = (const float4*)(smem + stage * TILE_BYTES) + 8 * lane;
            mbarrier_wait(&full[stage], use % 2);
            #pragma unroll
            for (int chunk = 0; chunk < 8; ++chunk) {
                float4 v = row[chunk ^ lane % 8];  // the swizzle
                acc += v.x + v.y + v.z + v.w;
            }
            mbarrier_arrive(&empty[stage]);
        }
        int r = 32 * blockIdx.x + lane;
        if (r < rows) out[r] = acc;
        // consumer]
    }
}
""",
    defines={"STAGES": 4},
    options=OPTIONS,
)

# %%
ROW_SUMS.region("producer")

# %%
ROW_SUMS.region("consumer")

# %%
x, sums = np.ones((50, 100), np.float32), np.zeros(50, np.float32)
ROW_SUMS(tensor_map(x, box=(32, 32), swizzle=128), sums, 50, 100, grid=2, block=64, shared_bytes=4 * 4096)
print(sums[0], sums[49], "= 100 ones per row, from tiles that extend beyond the array on two sides")

# %% fold="Code of the checks"


def ring(stages):
    return Kernel(ROW_SUMS.source, defines={"STAGES": stages}, options=OPTIONS)


def summing(stages, rows, cols, **more):
    """A launch of row_sums with so many stages."""
    made = case(
        ceil_div(rows, 32),
        64,
        shared_bytes=stages * 4096,
        x=integers(rows, cols, low=-8, high=9, dtype="float32"),  # their sums are exact
        map=tensor_map("x", box=(32, 32), swizzle=128),
        out=output(rows),
        rows=rows,
        cols=cols,
        **more,
    )
    return ring(stages).on(made)


for stages in (1, 2, 4):
    agree(row_sums, ring(stages), [summing(stages, 50, 100).case, summing(stages, 70, 516).case])
seen = summing(4, 64, 128).simulate().counts.shared_load
assert seen.wavefronts == 4 * seen.requests, "a warp's 512 bytes take four wavefronts, no conflict"

# %% [markdown]
# ## Missing pieces, and the hazards they cause
#
# Remove any piece of synchronisation from this kernel, and the simulator shows what goes wrong:

# %% fold="Code of the table"
from tilewise.kernel.edits import edited

FAULTS = {
    "the consumer's wait on full": ("mbarrier_wait(&full[stage], use % 2);", ""),
    "the producer's wait on empty": ("mbarrier_wait(&empty[stage], use % 2 ^ 1);", ""),
    "the ^ 1 in that wait": ("use % 2 ^ 1", "use % 2"),
    "the consumer's arrival": ("mbarrier_arrive(&empty[stage]);", ""),
    "31 of the 32 arrivals": (
        "mbarrier_arrive(&empty[stage]);",
        "if (lane == 0) mbarrier_arrive(&empty[stage]);",
    ),
    "half of the announced bytes": (
        "TILE_BYTES);\n                tma",
        "TILE_BYTES / 2);\n                tma",
    ),
    "the fence after init": ("        mbarrier_init_fence();\n", ""),
}


def first_hazard(old, new):
    """What the simulator says of row_sums with two stages and one edit."""
    try:
        edited(summing(2, 32, 256), (old, new)).simulate()
    except HazardError as error:
        return error.hazard
    raise AssertionError(f"nothing happened without {old!r}")


CAUGHT = {name: first_hazard(*edit) for name, edit in FAULTS.items()}
assert [one.kind for one in CAUGHT.values()] == [
    *("undelivered", "mbarrier"),
    *["deadlock"] * 4,
    "proxy",
]
show(
    Table(
        ["missing", "what the simulator reports"],
        [[name, f"{hazard}"] for name, hazard in CAUGHT.items()],
        caption="row_sums with two stages and one piece removed at a time: the first hazard that the simulator reports.",
    )
)

# %% [markdown]
# ## TMA stores and the async proxy
#
# The TMA also stores tiles. Stores don't use an mbarrier. Instead, the thread that issued them commits them as a *bulk
# group* and waits for that group. With `.read`, it waits until the TMA has read the tile from shared memory; without
# `.read`, until the writes to global memory are complete.
#
# On Hopper, the TMA and the tensor cores access shared memory through a different path from the one used by ordinary
# loads and stores. \PTX calls these paths *proxies*: ordinary accesses use the *generic proxy*; the TMA and `wgmma` use
# the *async proxy*. What a thread has written through one isn't automatically visible through the other, not even after
# `__syncthreads()`. A `fence.proxy.async` executed by the writing thread makes it visible.
#
# ??? definition "Async proxy | generic proxy"
#     The path by which asynchronous units, such as the TMA, access memory. Ordinary loads and stores use the generic proxy.
#     `fence.proxy.async` makes a thread's writes through the generic proxy visible to the async proxy.
#
# The header has functions for the fence and the stores; here they are in the order in which a kernel needs them:

# %%
HOPPER.region("tma_store")

# %% [markdown]
# A barrier is needed between the fence and the store, so that all threads have finished writing before the store is issued:


# %% tab="Pseudocode"
def scale_tiles(x, y, alpha):
    for rows in tiles(len(x), 32):
        for cols in tiles(x.shape[1], 32):
            tile = np.ix_(rows, cols)
            y[tile] = alpha * x[tile]


# %% tab="CUDA C"
SCALE_TILES = Kernel(
    r"""
#include "hopper.cuh"

// y = alpha * x, one tile of 32 x 32 floats per block.
// Grid: ceil(columns / 32) x ceil(rows / 32). Block: 128 threads. No bounds check: the TMA has both extents.
extern "C" __global__ void __launch_bounds__(128)
scale_tiles(const __grid_constant__ TensorMap x_map, const __grid_constant__ TensorMap y_map, float alpha) {
    __shared__ __align__(1024) float tile[32 * 32];
    __shared__ u64 full;
    int col = 32 * blockIdx.x, row = 32 * blockIdx.y;
    if (threadIdx.x == 0) {
        mbarrier_init(&full, 1);
        mbarrier_init_fence();
        mbarrier_arrive_expect_tx(&full, sizeof(tile));
        tma_load_2d(tile, &x_map, col, row, &full);
    }
    __syncthreads();
    mbarrier_wait(&full, 0);
    for (int i = threadIdx.x; i < 32 * 32; i += 128) tile[i] *= alpha;
    fence_proxy_async();  // each thread, for what it wrote
    __syncthreads();      // all threads have written, and fenced
    if (threadIdx.x == 0) {
        tma_store_2d(&y_map, tile, col, row);
        tma_store_commit();
        tma_store_wait_read();
    }
}
""",
    options=OPTIONS,
)

# %% [markdown]
# Without the fence, the simulator reports:

# %% fold="Code of the checks"


from tilewise import expect_hazard, normal


def scaling(rows, cols):
    """A launch of scale_tiles."""
    made = case(
        (ceil_div(cols, 32), ceil_div(rows, 32)),
        128,
        x=normal(rows, cols),
        y=output(rows, cols),
        x_map=tensor_map("x", box=(32, 32)),
        y_map=tensor_map("y", box=(32, 32)),
        alpha=0.5,
    )
    return SCALE_TILES.on(made)


agree(scale_tiles, SCALE_TILES, [scaling(32, 32).case, scaling(50, 100).case])
for old, kind in (("fence_proxy_async();", "proxy"), ("tma_store_wait_read();", "overwritten")):
    expect_hazard(edited(scaling(50, 100), (old, "")), kind)

# %% [markdown]
# Which instruction uses which proxy, and what do you need between two accesses?
#
# - The generic proxy: loads, stores, atomics, `mbarrier` operations, `ldmatrix`, `stmatrix`, and `cp.async` of 4, 8 or
#   16 bytes.
# - The async proxy: `cp.async.bulk` and `cp.async.bulk.tensor` (TMA), and `wgmma` on operands in shared memory.
#
# | first access | second access | what makes it safe |
# |---|---|---|
# | TMA load | ordinary load | wait on the mbarrier |
# | ordinary store | TMA store, or `wgmma` that reads it | `fence.proxy.async` by each writer, then a barrier |
# | ordinary load | TMA load into the same stage | the consumers' arrival on `empty`; no fence |
# | `wgmma` reads a stage | TMA load into the same stage | the wait for the `wgmma`, then the arrival on `empty`; no fence |
# | TMA store | ordinary store into the same buffer | `wait_group.read` of the bulk copies, then a barrier |
# | `mbarrier.init` | TMA load that reports to it | `fence.mbarrier_init` by the initialising thread |
#
# Why is no fence needed between an ordinary load and a TMA load into the same stage? A fence makes *writes* visible,
# but here the consumer has only read, and the mbarrier already orders those reads before the next load.

# %% [markdown]
# ## How many stages?
#
# Little's law predicts how many you need. With one block per SM, each SM receives STAGES × 4 KiB per memory latency,
# until memory bandwidth becomes the limit. Doubling the stages should halve the time at first and then stop helping.
# Here are the times for 4,224 × 16,384 floats on an H200:

# %% fold="Code of the measurement"
ROWS, COLS = 132 * 32, 16384
STAGE_COUNTS = (1, 2, 4, 8, 16, 32)


def torch_sum(arrays):
    import torch

    x, out = torch.as_tensor(arrays["x"], device="cuda"), torch.as_tensor(arrays["out"], device="cuda")
    return lambda: torch.sum(x, dim=1, out=out)


stages_time = measure(
    "tma_ring_stages",
    variants={
        f"{stages} stage{'s' if stages > 1 else ''}": lambda rows, cols, stages=stages: summing(
            stages, rows, cols
        )
        for stages in STAGE_COUNTS
    },
    cases=[{"rows": ROWS, "cols": COLS}],
    count_case={"rows": 64, "cols": 256},
    bytes=lambda rows, cols: 4 * rows * cols + 4 * rows,
    library={"torch": torch_sum},
    reference=lambda x: {"out": x.astype(np.float64).sum(axis=1)},
    tolerance=0.0,
    counts=("wavefronts",),
    reasons=dict.fromkeys(("1 stage", "2 stages"), "How many stages?"),
    fold="All rows",
)
TIMES = medians_us(stages_time)
ONE = TIMES["1 stage"]
PEAK_US = 4 * ROWS * COLS / recorded("tma_ring_stages.ceilings.memory_gb_per_s") / 1e3
LITTLE = [max(ONE / stages, PEAK_US) for stages in STAGE_COUNTS]
DONE = np.isfinite([TIMES[label] for label in list(TIMES)[: len(STAGE_COUNTS)]]).all()

# %% fold="Code of the figure"
if DONE:
    show(
        line_chart(
            [
                Series("Little's law, from one stage", STAGE_COUNTS, LITTLE, role="predicted"),
                Series("measured", STAGE_COUNTS, list(TIMES.values())[: len(STAGE_COUNTS)]),
            ],
            x="stages",
            y="time [µs]",
            log_x=True,
            log_y=True,
            title="More stages help until memory bandwidth is the limit",
            caption=f"Row sums of a matrix of {ROWS:,} × {COLS:,} floats by row_sums, one block per SM. Predicted: the time with one stage divided by the number of stages, but no less than the time needed to transfer the bytes at the peak bandwidth (data sheet).",
        )
    )

# %% fold="Code that times other lengths on a GPU" needs="gpu" record="lengths"
from tilewise import gpu_here

if gpu_here():
    from tilewise.measurements.side_by_side import Calls, timed_lines

    for rows in (ROWS, 32):  # a block on each SM, and one block alone
        for cols in (1024, 2048, 4096, 8192, 16384, 32768):
            calls = Calls()
            for stages in (1, 2, 4, 8, 16):
                calls.add(f"{stages} stages", summing(stages, rows, cols))
            print(timed_lines(f"{rows} rows, {cols} columns", calls.by_label, 30))

# %% fold="Code of the numbers"
from tilewise.measurements.side_by_side import printed_times

length_us = printed_times("matmul/tma", "lengths")  # recorded on an H200


def tile_us(rows, stages):
    """Microseconds per tile of 32 columns, from the slope between two lengths."""
    short, long = (length_us[f"{rows} rows, {cols} columns", f"{stages} stages"] for cols in (8192, 32768))
    return (long - short) / ((32768 - 8192) / 32)


publish(
    alone={"gain": tile_us(32, 1) / tile_us(32, 4)},
    together={"gain": tile_us(ROWS, 1) / tile_us(ROWS, 4)},
)
assert not tile_us(32, 1) < 3.7 * tile_us(32, 4), "the text says that a block alone gains nearly four times"
assert not tile_us(ROWS, 1) > 3.4 * tile_us(ROWS, 4), "the text says that latency rises with the load"

# %% [markdown]
# With one stage, the kernel takes {{ tma_ring_stages._1_stage.median | us }}. With four, it takes
# {{ tma_ring_stages._4_stages.median | us }}: the time falls to nearly a third, not to a quarter. The reason is that
# latency rises with memory traffic: four stages speed up a block running alone on the GPU by {{ alone.gain | .1f }}×,
# but with a block on every SM, the speedup is only {{ together.gain | .1f }}×. Beyond 8 stages, there's little left to
# gain. With 16, one consumer warp per SM sums the matrix in {{ tma_ring_stages._16_stages.median | us }}.

# %% [markdown]
# ## Takeaways
#
# - A tensor map describes an array once. After that, one thread copies a tile with one instruction, and elements outside the array arrive
#   as zeros. With a swizzle, a row of the box must be no longer than the swizzle's span.
# - The 128-byte swizzle replaces address bits 4 to 6 with their exclusive OR with bits 7 to 9. Code that reads the tile applies the same
#   formula.
# - An mbarrier's phase completes when all expected arrivals *and* bytes are in. You wait for a parity: consumers start with 0, the producer with 1.
# - What a thread writes with ordinary stores needs a `fence.proxy.async` before the TMA or a tensor core reads it.
#
# ## In your own kernel
#
# If a pipelined kernel hangs, run it on the simulator, which names the mbarrier and the arrivals or bytes that are
# missing; compute-sanitizer's `synccheck` checks the use of mbarriers too. If it's slow, look at *Warp Stall Sampling*
# in Nsight Compute's source view: consumers that mostly wait on `full` need more stages or larger tiles.

# %% fold="Code of the exercise, with three wrong answers that the tests reject"
from tilewise import exercise

UNSWIZZLE = Kernel(
    r"""
#include "hopper.cuh"

extern "C" __global__
void load_unswizzled(const __grid_constant__ TensorMap map, int* out) {
    __shared__ __align__(1024) int tile[16 * 32];
    __shared__ u64 full;
    if (threadIdx.x == 0) {
        mbarrier_init(&full, 1);
        mbarrier_init_fence();
        mbarrier_arrive_expect_tx(&full, sizeof(tile));
        tma_load_2d(tile, &map, 0, 0, &full);
    }
    __syncthreads();
    mbarrier_wait(&full, 0);
    for (int i = threadIdx.x; i < 16 * 32; i += blockDim.x) {
        int row = i / 32, chunk = i % 32 / 4;
        out[i] = tile[32 * row + 4 * (chunk ^ row % 8) + i % 4];
    }
}
""",
    options=OPTIONS,
)


def unswizzle_tests(kernel):
    for first in (0, 1000):
        array = np.arange(first, first + 512, dtype=np.int32).reshape(16, 32)
        out = np.zeros((16, 32), np.int32)
        kernel.simulate(tensor_map(array, box=(16, 32), swizzle=128), out, grid=1, block=64)
        wrong = np.argwhere(out != array)
        assert not len(wrong), (
            f"out[{wrong[0][0]}, {wrong[0][1]}] is not element ({wrong[0][0]}, {wrong[0][1]})"
        )


exercise(
    "Undo the swizzle",
    """
    Write `load_unswizzled(map, out)`: it loads a box of 16 × 32 integers with a 128-byte swizzle and copies it to `out` in
    row-major order. The tests compare every element. Include `hopper.cuh`, as `row_sums` does.
    """,
    answer=UNSWIZZLE,
    tests=unswizzle_tests,
    wrong=[
        {"chunk ^ row % 8": "chunk"},
        {"4 * (chunk ^ row % 8) + i % 4": "(i % 32 ^ row % 8)"},
        {"mbarrier_wait(&full, 0);": "mbarrier_wait(&full, 1);"},
    ],
    hint="Chunk c of row r is at chunk c ^ (r % 8) of its line. How many integers are in a chunk?",
    explanation="A chunk is 16 bytes, four integers. Bits 7 to 9 of the offset are the row's number modulo 8, and bits 4 to 6 are the chunk.",
)

# %% [markdown]
# Next, the tensor cores read these tiles straight from shared memory: [wgmma](wgmma.py).
