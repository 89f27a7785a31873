# ---
# title: "Register banks and operand reuse: the last few percent of FP32 GEMM"
# needs: [matmul/register_tiles]
# further: matmul/register_tiles
# summary: "Three GEMM kernels execute the same number of instructions, yet they don't run equally fast. How much speed can you gain from the order of the multiply-adds and the choice of their registers?"
# description: "Register bank conflicts and the operand reuse cache in an FP32 GEMM: a wider register tile, snake order, accumulators that the compiler may place freely, counted in SASS."
# date: 2026-11-23
# tags: [register banks, operand reuse, SASS, GEMM]
# ---

# %% [markdown]
# Three versions of one \GEMM kernel have main loops of {{ loop.instructions | , }} instructions each, with the same
# {{ loop.ffma | , }} multiply-adds (FFMA) and the same loads. Yet each version is faster than the previous one. Only
# two things differ: the order of the FFMAs, and which registers hold the accumulators.
#
# [The lesson](register_tiles.py) ended at {{ of_cublas.padded | .0% }} of cuBLAS. This page takes it to
# {{ of_cublas.best | .0% }} in four steps: a wider register tile, snake order, accumulators freed from consecutive
# registers, and three stages. You need this page only if nearly all of a kernel's instructions are FFMAs.

# %% fold="Imports, and code of the figure"
import re

import numpy as np

from tilewise import agree, case, ceil_div, kernels, parallel, publish, show
from tilewise.figures import bars
from tilewise.kernel.machine_code import available, listing, machine_codes
from tilewise.kernel.nvrtc import available as can_compile
from tilewise.kernel.nvrtc import compile_kernel
from tilewise.measurements import recorded
from tilewise.measurements.slugs import name_slug
from tilewise.models.occupancy import occupancy


def settings(stages, columns, snake, loose):
    return {"STAGES": stages, "PAD": 4, "COLUMNS": columns, "SNAKE": snake, "LOOSE": loose}


VERSIONS = {
    "double-buffered, padded": settings(2, 8, 0, 0),
    "8 × 16 register tile": settings(4, 16, 0, 0),
    "snake order": settings(4, 16, 1, 0),
    "free accumulators": settings(4, 16, 1, 1),
    "three stages": settings(3, 16, 1, 1),
    "8 × 8 register tile, two blocks": settings(2, 8, 1, 1),
}
KERNELS = {name: kernels.kernel("matmul_fp32", **chosen) for name, chosen in VERSIONS.items()}
WIDER, SNAKE, FREE, BEST, NARROW = list(VERSIONS)[1:]
SLUGS = {name: name_slug(name) for name in VERSIONS}
AT_4096 = "fp32_ladder.{}.m_4096_n_4096_k_4096.tflop_per_s"
RATE = {name: recorded(AT_4096.format(slug)) for name, slug in SLUGS.items()}
CUBLAS = recorded(AT_4096.format("cublas"))
CODE = dict(zip(VERSIONS, machine_codes(KERNELS.values()))) if available() is None else {}
LOOPS = {name: code.loop() for name, code in CODE.items()}
FFMA = {name: [one for one in loop if one.name.startswith("FFMA")] for name, loop in LOOPS.items()}
if LOOPS:
    assert len(LOOPS[WIDER]) == len(LOOPS[SNAKE]) == len(LOOPS[FREE]), "the text says as many instructions"
    assert len(FFMA[WIDER]) == len(FFMA[SNAKE]) == len(FFMA[FREE])
publish(
    loop={
        "instructions": len(LOOPS.get(WIDER, ())) or np.nan,
        "ffma": len(FFMA.get(WIDER, ())) or np.nan,
    },
    gain={
        "wider": RATE[WIDER] / RATE["double-buffered, padded"],
        "snake": RATE[SNAKE] / RATE[WIDER],
        "free": RATE[FREE] / RATE[SNAKE],
        "both": RATE[FREE] / RATE[WIDER],
    },
    of_cublas={
        "padded": RATE["double-buffered, padded"] / CUBLAS,
        "best": RATE[BEST] / CUBLAS,
        "narrow": RATE[NARROW] / CUBLAS,
    },
)
if np.isfinite([*RATE.values(), CUBLAS]).all():
    steps = {name: 100 * rate / CUBLAS for name, rate in RATE.items() if name != NARROW}
    assert list(steps.values()) == sorted(steps.values()), "the title says that each step gains"
    show(
        bars(
            steps,
            x="rate, % of cuBLAS",
            form=".0f",
            title="Four small steps bring the kernel close to cuBLAS",
            caption="Speed of an FP32 multiplication of 4,096 × 4,096 matrices on an {machine}, as a percentage of cuBLAS: the lesson's last version and the four steps on this page.",
        )
    )

# %% [markdown]
# ## 8 × 16 accumulators per thread
#
# With 8 × 16 accumulators, a thread needs six `float4` loads for 128 FFMAs; with 8 × 8, it needs four loads for 64
# FFMAs. The block's tile becomes 128 × 256. The accumulators alone take 128 of the 255 registers that a thread can
# have, so only one block of 256 threads fits on an SM. The gain is {{ gain.wider | .2f }}×.

# %% [markdown]
# ## Register banks and the reuse flag
#
# An FFMA reads three registers: an element of A, one of B and the accumulator. The register file of a scheduler has
# two *banks*, one for even and one for odd register numbers, and each delivers one register per cycle (for a whole
# warp). Of three operands, at least two are in the same bank, so an FFMA that reads all three from the register file
# needs an extra cycle or two.
#
# A small cache avoids that. Each operand position can keep the value it has just read, so the next instruction can
# reuse it without another read of the register file. The compiler marks such operands `.reuse` in the \SASS:

# %% fold="Code of the listing"
if FFMA:
    marked = next(at for at, one in enumerate(FFMA[SNAKE]) if at > 8 and one.operands.count(".reuse") == 1)
    show(listing(FFMA[SNAKE][marked : marked + 4], "Four FFMAs of the loop, NVIDIA's SASS for an H100"))

# %% [markdown]
# NVIDIA doesn't document any of this. Scott Gray worked out [banks and reuse for
# Maxwell](https://github.com/NervanaSystems/maxas/wiki/SGEMM); Huerta et al. measured the two banks and the reuse cache
# on an Ampere GPU ([Analyzing Modern NVIDIA GPU cores](https://arxiv.org/abs/2503.20481)).

# %% [markdown]
# ## Snake order: reuse an operand at every turn
#
# If you go down a column of the register tile, B's element is the same for all eight FFMAs, so seven of them reuse it.
# At the bottom of the column, B's element changes. If the next column starts at the top again, A's element changes at
# the same time, and nothing can be reused. If you turn around and go *up* the next column, A's element is the same as
# before:
#
# ```cpp
# #define COL_DOWN(j) FMA(0, j) FMA(1, j) FMA(2, j) FMA(3, j) \
#                     FMA(4, j) FMA(5, j) FMA(6, j) FMA(7, j)
# #define COL_UP(j)   FMA(7, j) FMA(6, j) FMA(5, j) FMA(4, j) \
#                     FMA(3, j) FMA(2, j) FMA(1, j) FMA(0, j)
# #define TWO_COLS(j) COL_DOWN(j) COL_UP(j + 1)  // New: COL_UP instead of COL_DOWN
# ```
#
# The source can only suggest an order: the compiler chooses both the final order and the registers. The kernel with
# all four steps applied can be imported and run:


# %%
A, B = np.ones((5, 40), np.float32), np.full((40, 8), 3, np.float32)
C = np.zeros((5, 8), np.float32)
kernels.matmul_fp32(A, B, C, 5, 8, 40, grid=1, block=256, shared_bytes=4 * 3 * 32 * 388)
print(C[4, 7], "= 40 times 1 times 3")


# %% fold="Pseudocode"
def multiply_in_snake_order(A, B, C):
    (M, K), N = A.shape, B.shape[1]
    for row, col in parallel(ceil_div(M, 8), ceil_div(N, 16)):  # each is a thread
        rows, columns = range(8 * row, min(8 * row + 8, M)), range(16 * col, min(16 * col + 16, N))
        acc = np.zeros((M, N))
        for k in range(K):
            for j in columns:
                for i in rows if j % 2 == 0 else reversed(rows):
                    acc[i, j] += A[i, k] * B[k, j]
        C[np.ix_(rows, columns)] = acc[np.ix_(rows, columns)]


# %% fold="Code of the check"
from tilewise.measurements.references import product_inputs


def product(M, N, K):
    grid = ceil_div(M, 128) * ceil_div(N, 256)
    return case(**product_inputs(M, N, K), grid=grid, block=256, shared_bytes=4 * 3 * 32 * 388)


agree(
    multiply_in_snake_order,
    kernels.matmul_fp32,
    [product(5, 20, 7), product(19, 36, 9)],
    rtol=1e-5,
    atol=1e-5,
)

# %% [markdown]
# Change the sizes. How much work does a block do if the matrix covers only part of its 128 × 256 tile?

# %% fold="Code of the run"
from tilewise import try_it

try_it(lambda M, N: product(M, N, 32), kernels.matmul_fp32, M=(1, 64, 128), N=[64, 4, 8, 16, 32, 128, 256])

# %% [markdown]
# ## Freeing the accumulators from consecutive registers
#
# A 16-byte store takes its four values from four consecutive registers. So the compiler keeps four accumulators of a
# row in consecutive registers throughout the loop, not just for the store. That leaves it less freedom to choose a bank
# for each accumulator.
#
# If you add zero to each accumulator before the store, only the sums need consecutive registers:
#
# ```cpp
# #define RESULT(x) ((x) + 0.0f)  // New: a copy, in another register
# ```
#
# The compiler can't remove the addition, because −0 + 0 is +0.

# %% [markdown]
# ## Counting conflicts in SASS
#
# Go through the FFMAs of the loop in order. Skip the operands that are reused from the previous instruction, and count
# how many of the others each bank holds. Each operand beyond the first in a bank costs an extra cycle.


# %% fold="Code of the count and the figure"
def operands(one):
    """For each operand position of an instruction, the register it reads and whether it's marked for reuse."""
    found = [re.match(r"[-|]*R(\d+)(\.reuse)?", text.strip()) for text in one.operands.split(",")[1:]]
    return {at: (int(match[1]), bool(match[2])) for at, match in enumerate(found) if match}


def extra_cycles(loop):
    """Extra cycles per FFMA for operands in the same bank, if a warp's instructions issue back to back."""
    kept, extra, count = {}, 0, 0
    for one in loop:
        if not one.name.startswith("FFMA"):
            kept = {}
            continue
        reads = operands(one)
        banks = [register % 2 for at, (register, _) in reads.items() if kept.get(at) != register]
        extra += max(0, max(banks.count(0), banks.count(1)) - 1)
        kept = {at: register for at, (register, reuse) in reads.items() if reuse}
        count += 1
    return extra / count


def in_one_bank(found):
    """The fraction of FFMAs whose three source registers are all in the same bank."""
    banks = [{register % 2 for register, _ in operands(one).values()} for one in found]
    return np.mean([len(of_one) == 1 for of_one in banks])


EXTRA = {name: extra_cycles(loop) for name, loop in LOOPS.items()}
REUSED = {name: np.mean([".reuse" in one.operands for one in found]) for name, found in FFMA.items()}
if EXTRA:
    assert EXTRA[WIDER] > EXTRA[SNAKE] > EXTRA[FREE] and EXTRA[FREE] < 0.6 * EXTRA[WIDER]
    assert in_one_bank(FFMA[FREE]) == in_one_bank(FFMA[NARROW]) == 0, "the text says none"
    assert REUSED[WIDER] < REUSED[SNAKE] < REUSED[FREE]
    show(
        bars(
            {name: EXTRA[name] for name in (WIDER, SNAKE, FREE)},
            x="extra cycles per FFMA (estimate)",
            form=".2f",
            title="Freeing the accumulators nearly halves the bank conflicts",
            caption="Extra cycles per FFMA for operands in the same register bank, counted in the SASS for an H100 by the rules given on this page.",
        )
    )
publish(
    extra={SLUGS[name]: EXTRA.get(name, np.nan) for name in VERSIONS},
    reused={SLUGS[name]: REUSED.get(name, np.nan) for name in VERSIONS},
)

# %% [markdown]
# Snake order raises the fraction of FFMAs with a `.reuse` operand from {{ reused._8_16_register_tile | .0%}} to
# {{ reused.snake_order | .0% }} and makes the kernel {{ gain.snake | .2f }}× faster. Freeing the accumulators reduces
# the extra cycles per FFMA from {{ extra.snake_order | .2f }} to {{ extra.free_accumulators | .2f }} and makes the
# kernel another {{ gain.free | .2f }}× faster.
#
# The count isn't a bound. It assumes that the instructions of one warp issue back to back, and for the lesson's 8 × 8
# tile it gives {{ extra.double_buffered_padded | .2f }} extra cycles per FFMA, more than would fit in the measured
# time. Use it to compare two versions of the same loop.

# %% [markdown]
# ## Stages and blocks per SM
#
# Two settings, the number of stages and the number of blocks per SM, were chosen before the FFMAs were reordered, so
# they're worth revisiting. The tile with 128 accumulators has four pipeline stages in shared memory. With three, the
# kernel is slightly faster. And with snake order and freed accumulators, the lesson's 8 × 8 tile, which lets two blocks
# share an SM, reaches {{ of_cublas.narrow | .0% }} of cuBLAS, nearly as much as the wide tile. For matrices that have
# few tiles or awkward sizes, it's the [better choice](register_tiles_sizes.py).

# %% fold="Code of the check"
if can_compile() is None:
    fitting = []
    for name, kernel in KERNELS.items():
        chosen = VERSIONS[name]
        shared_bytes = 4 * chosen["STAGES"] * 32 * (128 + chosen["PAD"] + 16 * chosen["COLUMNS"])
        [built] = compile_kernel(kernel, ["sm_90"])
        fitting.append(occupancy(256, built.registers, shared_bytes).blocks_per_sm)
    assert fitting == [2, 1, 1, 1, 1, 2], "the text says how many blocks share an SM"

# %% [markdown]
# ## The answer
#
# Together, the order of the FFMAs and the choice of registers make the kernel {{ gain.both | .2f }}× faster, with the
# same number of instructions in the loop.

# %% [markdown]
# ## Takeaways
#
# - An FFMA reads three registers from two banks. It needs no extra cycle only if the operands that the reuse cache
#   doesn't supply are in different banks.
# - Walk through a register tile in snake order: at every step, one of the two factors stays the same.
# - Vectorised stores tie accumulators to consecutive registers for the whole loop. Adding zero before the store
#   removes that constraint.

# %% [markdown]
# ## In your own kernel
#
# Look for `.reuse` in the inner loop with `cuobjdump --dump-sass`, or in Nsight Compute's *Source* page. If most FFMAs
# have no `.reuse`, try another order, and check that `sm__inst_executed_pipe_fma.avg.pct_of_peak_sustained_active`
# rises.

# %% fold="Code of the exercise, with two wrong answers that the tests reject"
from tilewise import exercise


def conflicts(instructions):
    kept, extra = {}, 0
    for reads in instructions:
        banks = [register % 2 for at, (register, _) in enumerate(reads) if kept.get(at) != register]
        extra += max(0, max(banks.count(0), banks.count(1)) - 1)
        kept = {at: register for at, (register, reuse) in enumerate(reads) if reuse}
    return extra


def conflict_tests(answer):
    kept, read = True, False
    for given in (
        [[(0, read), (1, read), (2, read)]],
        [[(0, read), (2, read), (4, read)]],
        [[(0, kept), (1, read), (2, read)], [(0, read), (3, read), (4, read)]],
        [[(0, kept), (1, read), (3, read)], [(2, read), (0, read), (4, read)]],
    ):
        right = conflicts(given)
        assert answer(given) == right, f"{given}: {answer(given)} extra cycles instead of {right}"


exercise(
    "Count the bank conflicts",
    """
    An instruction is a list of three pairs `(register, reuse)`, one per operand position. An operand is kept for the next
    instruction only, at its own position, and only if `reuse` is true. Write `conflicts(instructions)`, which returns
    the number of extra cycles that the list takes: one for each operand beyond the first that an instruction has to
    read from the same bank.
    """,
    answer=conflicts,
    tests=conflict_tests,
    wrong=[
        {" if kept.get(at) != register": ""},
        {"kept.get(at) != register": "register not in kept.values()"},
    ],
    hint="Keep a dictionary from position to register. Count even and odd registers of what isn't in it.",
)
