# ---
# title: "FP32 GEMM at other sizes, and split-K"
# needs: [matmul/register_tiles]
# further: matmul/register_tiles
# summary: "A kernel nearly matches cuBLAS on 4,096 × 4,096 matrices. What fraction of cuBLAS's throughput does it reach at 1,024, and how much does splitting K win back?"
# description: "The register-tiled FP32 GEMM at small, large, oblong and odd sizes, with two tile sizes, and split-K with a second launch that adds the partial results."
# date: 2026-11-23
# tags: [GEMM, tile size, split-K, cuBLAS]
# ---

# %% [markdown]
# The best kernel from [Register tiling](register_tiles.py), with a tile of 128 × 256, reaches {{ size.n4096 | .0% }} of
# cuBLAS at 4,096 rows and columns. At 1,024, the same kernel reaches only {{ size.wide_1024 | .0%}}. There aren't
# enough tiles: the result has {{ size.tiles_wide }}, but the GPU has {{ size.sms }} SMs.
#
# Small output matrices are common: think of a projection applied to a few tokens, or the GEMMs inside attention. Two
# remedies are cheap to try: smaller tiles and *\split-K*.

# %% fold="Imports, and code of the figure"
import numpy as np

from tilewise import Kernel, Table, agree, ceil_div, check, kernels, parallel, publish, show
from tilewise.figures import bars
from tilewise.measurements import complete, medians_us, recorded, recorded_device
from tilewise.measurements.references import matrix_product

GPU = recorded_device()


def blocks(n, width, parts=1):
    return ceil_div(n, 128) * ceil_div(n, width) * parts


BLOCKS = {
    "128 × 256 tiles": blocks(1024, 256),
    "128 × 128 tiles": blocks(1024, 128),
    "128 × 128 tiles, K in four parts": blocks(1024, 128, 4),
}
assert list(BLOCKS.values()) == sorted(BLOCKS.values()) and BLOCKS["128 × 128 tiles"] < GPU.sms
show(
    bars(
        BLOCKS | {"SMs of the GPU": GPU.sms},
        x="blocks",
        form=".0f",
        title="At 1,024, only split-K gives every SM work",
        caption="Number of blocks in a 1,024-square GEMM, by tile size and number of parts of K, compared with the number of SMs on an {machine}.",
    )
)

# %% [markdown]
# ## Two tile sizes
#
# `kernels.matmul_fp32` uses tiles of 128 × 256, with one block per SM. `kernels.matmul_fp32_narrow` uses tiles of 128 ×
# 128, with two blocks per SM.

# %%
A, B = np.ones((5, 40), np.float32), np.full((40, 8), 3, np.float32)
C = np.zeros((5, 8), np.float32)
kernels.matmul_fp32_narrow(A, B, C, 5, 8, 40, grid=1, block=256, shared_bytes=4 * 2 * 32 * 260)
print(C[4, 7], "= 40 times 1 times 3")

# %% fold="Code of the measurement"
from tilewise import case, measure, normal, output
from tilewise.kernels.from_lesson import from_lesson
from tilewise.measurements.references import product_inputs

WIDE = {"STAGES": 3, "PAD": 4, "COLUMNS": 16, "SNAKE": 1, "LOOSE": 1}
NARROW = {"STAGES": 2, "PAD": 4, "COLUMNS": 8, "SNAKE": 1, "LOOSE": 1}


def product(M, N, K, **launch):
    """A matrix multiplication whose results have a standard deviation of 1."""
    return case(**product_inputs(M, N, K), block=256, **launch)


def tiled(settings):
    """The kernel with its settings, compiled for rows that are aligned or for any."""
    width = 16 * settings["COLUMNS"]
    shared_bytes = 4 * settings["STAGES"] * 32 * (128 + settings["PAD"] + width)

    def launch(M, N, K):
        kernel = kernels.kernel("matmul_fp32", ALIGNED=int(N % 4 == 0), **settings)
        grid = ceil_div(N, width) * ceil_div(M, 128)
        return kernel.on(product(M, N, K, grid=grid, shared_bytes=shared_bytes))

    return launch


cublas, cublas_lt = from_lesson("matmul/register_tiles", "cublas", "cublas_lt")

SIZES = [
    *((n, n, n) for n in (1024, 2048, 8192)),
    (16384, 1024, 2048),
    (2048, 8192, 1024),
    *((n, n, n) for n in (1793, 4095, 4097)),
]
sizes = measure(
    "fp32_sizes",
    variants={"128 × 128 tiles": tiled(NARROW), "128 × 256 tiles": tiled(WIDE)},
    cases=[{"M": M, "N": N, "K": K} for M, N, K in SIZES],
    count_case={"M": 65, "N": 131, "K": 37},
    bytes=lambda M, N, K: 4 * (M * K + K * N + M * N),
    flop=lambda M, N, K: 2 * M * N * K,
    library={"cuBLAS": cublas, "cuBLASLt, best of 10 algorithms": cublas_lt},
    reference=matrix_product,
    tolerance=1e-4,
    reasons={"*": "Two tile sizes"},
    fold="All rows",
)

# %% fold="Code of the table"
AT = medians_us(sizes, "M", "N", "K")


def rate(name, M, N, K):
    return 2 * M * N * K / AT[name, M, N, K] / 1e6


def of_cublas(*size):
    """Both tiles as a fraction of cuBLAS."""
    both = [rate(name, *size) for name in ("128 × 128 tiles", "128 × 256 tiles")]
    return [one / rate("cuBLAS", *size) for one in both]


FRACTIONS = {size: of_cublas(*size) for size in SIZES}
show(
    Table(
        ["M × N × K", "128 × 128 tiles, % of cuBLAS", "128 × 256 tiles, % of cuBLAS"],
        [
            [" × ".join(f"{extent:,}" for extent in size), 100 * narrow, 100 * wide]
            for size, (narrow, wide) in FRACTIONS.items()
        ],
        caption="Rate as a percentage of cuBLAS at eight sizes, measured on an {machine} with inputs that aren't in L2.",
    )
)
AT_4096 = "fp32_ladder.{}.m_4096_n_4096_k_4096.tflop_per_s"
SQUARE = {n: FRACTIONS[n, n, n] for n in (1024, 2048, 8192)}
publish(
    size={
        "n4096": recorded(AT_4096.format("three_stages")) / recorded(AT_4096.format("cublas")),
        "sms": GPU.sms,
        "tiles_wide": blocks(1024, 256),
        "tiles_narrow": blocks(1024, 128),
        "wide_1024": SQUARE[1024][1],
        "narrow_1024": SQUARE[1024][0],
        "best": min(max(SQUARE[2048]), max(SQUARE[8192])),
        "odd": rate("128 × 256 tiles", 4095, 4095, 4095),
        "even": recorded(AT_4096.format("three_stages")),
    }
)
assert [ceil_div(blocks(n, 256), GPU.sms) for n in (4095, 4097)] == [4, 5], "the text says a fifth wave"


# %% [markdown]
# The better of the two reaches at least {{ size.best | .0% }} of cuBLAS at both 2,048 and 8,192. At 1,024, the smaller
# tiles are the better choice, because there are {{ size.tiles_narrow }} of them instead of {{ size.tiles_wide }}. They
# still reach only {{ size.narrow_1024 | .0% }}: half of the SMs have no work.
#
# Odd sizes have a different cost. At 4,095, a row of B can start at any multiple of 4 bytes, so the kernel is compiled
# with copies and stores of 4 bytes instead of 16. That version runs at {{ size.odd | .0f }} TFLOP/s, instead of
# {{ size.even | .0f }} at 4,096.

# %% [markdown]
# ## Split-K: several blocks per tile
#
# If there are too few tiles, divide K as well. With *\split-K*, several blocks compute the same tile of C, each for its
# own part of K. Each writes a partial result, and a second launch adds them up. All SMs get work, but at a price: each
# partial result has to be written and read once.


# %% tab="Pseudocode"
def add_parts(C, total):
    parts, results = C.shape
    for i in parallel(results):
        acc = 0.0
        for p in range(parts):
            acc += C[p, i]
        total[i] = acc


# %% tab="CUDA C"
ADD_PARTS = Kernel(r"""
// total[i] = the sum of C[p][i] over p. C: parts x results, row-major.
// 1-D grid and block that cover `results`; any GPU.
extern "C" __global__
void add_parts(const float* C, float* total, int parts, int results) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= results) return;
    float acc = 0.0f;
    #pragma unroll 4
    for (int p = 0; p < parts; ++p) acc += C[(size_t)p * results + i];
    total[i] = acc;
}
""")

# %% [markdown]
# In the \GEMM kernel, defining `SPLIT` as 1 switches this on: block `blockIdx.y` starts at its own part of K and writes
# to its own matrix, and `gridDim.y` is the number of parts.

# %% fold="Code of the checks and the measurement"
from tilewise.kernel.chains import run_chain

near = {"rtol": 1e-5, "atol": 1e-5}


def adding(parts, results):
    arrays = {"C": normal(parts, results), "total": output(results)}
    return case(**arrays, parts=parts, results=results, grid=ceil_div(results, 256), block=256)


def in_parts(M, N, K, parts):
    """A GEMM whose blocks take a part of K each, and the launch that adds the partial results up."""
    steps = ceil_div(K, 32)
    parts = ceil_div(steps, ceil_div(steps, parts))  # none of them empty
    aligned = int(N % 4 == 0)
    spilling = "" if aligned else "// spills: on GPUs after Hopper, where rows begin anywhere\n"
    source = kernels.source("matmul_fp32") + spilling
    kernel = Kernel(source, defines={"ALIGNED": aligned, **NARROW, "SPLIT": 1})
    inputs = case(
        **product_inputs(M, N, K) | {"C": output(parts, M, N), "total": output(M, N)},
        parts=parts,
        results=M * N,
        grid=(ceil_div(N, 128) * ceil_div(M, 128), parts),
        block=256,
        shared_bytes=4 * 2 * 32 * (128 + 4 + 128),
    )
    return [kernel.on(inputs), ADD_PARTS.on(inputs, grid=ceil_div(M * N, 256), block=256)]


agree(add_parts, ADD_PARTS, [adding(3, 300), adding(5, 129)], rtol=1e-6)
for M, N, K, parts in ((37, 41, 129, 2), (131, 260, 100, 4), (128, 128, 64, 5)):
    arrays = run_chain(in_parts(M, N, K, parts))
    check(
        arrays["total"],
        np.float64(arrays["A"]) @ np.float64(arrays["B"]),
        **near,
        name=f"{arrays['parts']} parts: {M} × {K} times {K} × {N}",
    )


def cublas_total(arrays):
    import cupy

    A, B, total = (arrays[name] for name in ("A", "B", "total"))
    return lambda: cupy.matmul(A, B, out=total)


IN_PARTS = [(1024, 2), (1024, 4), (1024, 8), (4097, 2)]
parted = measure(
    "fp32_parts",
    variants={"split-K": in_parts},
    cases=[{"M": n, "N": n, "K": n, "parts": parts} for n, parts in IN_PARTS],
    count_case={"M": 65, "N": 131, "K": 100, "parts": 3},
    bytes=lambda M, N, K, parts: 4 * (M * K + K * N + M * N),
    flop=lambda M, N, K, parts: 2 * M * N * K,
    library={"cuBLAS": cublas_total},
    reference=lambda A, B: {"total": matrix_product(A, B)["C"]},
    tolerance=1e-4,
    reasons={"*": "Split-K: several blocks per tile"},
    fold="All eight rows",
)

# %% fold="Code of the figure"
PARTED = medians_us(parted, "M", "parts")
OF_CUBLAS = {parts: PARTED["cuBLAS", n, parts] / PARTED["split-K", n, parts] for n, parts in IN_PARTS[:3]}
if complete(PARTED):
    assert max(OF_CUBLAS, key=OF_CUBLAS.get) == 4, "the title says four parts"
    show(
        bars(
            {"no split": 100 * SQUARE[1024][0]}
            | {f"{parts} parts": 100 * fraction for parts, fraction in OF_CUBLAS.items()},
            x="rate, % of cuBLAS",
            form=".0f",
            title="At 1,024, four parts of K are best",
            caption="Rate of a 1,024-square FP32 GEMM with tiles of 128 × 128 and K split into up to eight parts, both launches included, as a percentage of cuBLAS on an {machine}.",
        )
    )
publish(
    parts={
        "four": OF_CUBLAS[4],
        "blocks_4": blocks(1024, 128, 4),
        "blocks_8": blocks(1024, 128, 8),
        "slots": 2 * GPU.sms,
    }
)

# %% [markdown]
# Four parts make {{ parts.blocks_4 }} blocks for {{ parts.slots }} slots, two per SM, and bring the \GEMM to
# {{ parts.four | .0% }} of cuBLAS. With eight parts, {{ parts.blocks_8 }} blocks no longer fit at once, and twice as
# many partial results have to be written, read and added. With many tiles, \split-K has little to offer.

# %% [markdown]
# Run the kernel that adds up the parts. How do its loads and stores grow with the number of parts?

# %% fold="Code of the run"
from tilewise import try_it

try_it(adding, ADD_PARTS, parts=(1, 4, 8), results=(1, 300, 2000))

# %% [markdown]
# ## The answer
#
# At 1,024, the 128 × 256 tiles reach {{ size.wide_1024 | .0% }} of cuBLAS, the 128 × 128 tiles reach
# {{ size.narrow_1024 | .0% }}, and splitting K into four parts reaches {{ parts.four | .0% }}.

# %% [markdown]
# ## Takeaways
#
# - A \GEMM with fewer tiles than SMs leaves SMs idle. Use smaller tiles, or split K.
# - \Split-K trades memory traffic for parallelism: each part writes a partial result, and another launch adds them up.
# - Choose the largest number of parts whose blocks all fit on the GPU at once. If the tiles alone fill the GPU, don't
#   split K.

# %% [markdown]
# ## In your own kernel
#
# Nsight Compute's launch statistics (`--section LaunchStats`) show `launch__waves_per_multiprocessor`. If it's well
# below one, use smaller tiles or split K until it's close to one.

# %% fold="Code of the exercise, with two wrong answers that the tests reject"
from tilewise import exercise


def parts_of_k(M, N, K, sms):
    tiles = -(-M // 128) * -(-N // 128)
    steps = -(-K // 32)
    parts = max(1, min(2 * sms // tiles, steps))
    return -(-steps // -(-steps // parts))


def parts_tests(answer):
    for M, N, K, sms in (
        (1024, 1024, 1024, 132),
        (4096, 4096, 4096, 132),
        (128, 128, 96, 132),
        (256, 512, 1000, 108),
    ):
        parts, steps = answer(M, N, K, sms), ceil_div(K, 32)
        assert isinstance(parts, int) and parts >= 1, f"{M} × {N} × {K}: {parts} is no number of parts"
        length = ceil_div(steps, parts)
        assert (parts - 1) * length < steps, f"{M} × {N} × {K}: with {parts} parts, one is empty"
        right = parts_of_k(M, N, K, sms)
        assert parts == right, f"{M} × {N} × {K} on {sms} SMs: {parts} parts instead of {right}"


exercise(
    "How many parts",
    """
    Tiles are 128 × 128, two blocks fit on an SM, and a part of K is a whole number of steps of 32. Take the largest number of
    parts for which all blocks fit at once, but at least one part and at most one per step. All parts get the same number of
    steps, rounded up, and the last one may get fewer. Then some parts at the end may have no steps left. Write
    `parts_of_k(M, N, K, sms)`, which returns the number of parts that do have steps.
    """,
    answer=parts_of_k,
    tests=parts_tests,
    wrong=[
        {"-(-steps // -(-steps // parts))": "parts"},
        {"min(2 * sms // tiles, steps)": "2 * sms // tiles", "-(-steps // -(-steps // parts))": "parts"},
    ],
    hint="Start from min(2 * sms // tiles, steps), or 1. Divide the steps by it and round up: how many parts of that length does K have?",
)
