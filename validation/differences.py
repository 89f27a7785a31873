"""Known differences between the simulator's counts and the hardware's, each with its reason.

In: nothing. Out: ``KNOWN``, by count, and ``REWRITTEN``, by output. A difference is an exact number, hardware
minus simulator: the test fails if it is off by one. Reasons are on the page "What the simulator counts".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Reason:
    """Why counts differ."""

    title: str
    """A few words."""
    text: str
    """A paragraph for the page."""


MERGED = Reason(
    "shared loads merged",
    "NVIDIA's compiler merges narrow shared loads of adjacent words into one wide load, within a line "
    "or across the iterations of an unrolled loop. The simulator counts the loads as clang leaves them. "
    "So the hardware has fewer requests, and fewer wavefronts where lanes of a wide load share "
    "addresses. A test merges the loads in the source and gets the hardware's counts from the "
    "simulator.",
)
UNROLLED = Reason(
    "a ragged loop unrolled",
    "The lanes of a warp need different numbers of iterations. NVIDIA's compiler first does single "
    "iterations until a multiple of 4 is left, then 16 at a time, then 8, then 4, so lanes in different "
    "stages load at different times. In the simulator, all lanes that are still in the loop do each "
    "iteration together. A test computes the hardware's counts from these stages.",
)
TURNS = Reason(
    "atomics on the same word",
    "Several lanes of a request access the same word. The simulator counts each sector that is touched "
    "once. The hardware counts a sector as often as its most requested word is requested. Requests are "
    "equal. A test computes the hardware's count from the trace. If all lanes add to one word, the "
    "counts are equal, presumably because NVIDIA's compiler adds within the warp first.",
)

COPIES = Reason(
    "asynchronous copies",
    "An asynchronous copy (`cp.async`) reads global memory and writes shared memory without a register "
    "in between. The simulator counts the write as a shared store, with its wavefronts; the hardware's "
    "counters of shared stores don't include it. Requests and sectors of the read are equal.",
)
STORED = Reason(
    "matrix stores without a counter",
    "None of Nsight Compute's counters of requests includes `stmatrix`. `ldmatrix` has one of its own, "
    "which is added here. Wavefronts are equal for both.",
)
REGISTERS = Reason(
    "small arrays in registers",
    "An array can live in registers if all its indices are constants once loops are unrolled. NVIDIA's "
    "compiler unrolls short loops by itself. The simulator's clang does so only with `#pragma unroll`, "
    "and otherwise keeps the array in local memory. A test adds the pragma to these kernels: then "
    "nothing goes to local memory, and all other counts stay the same.",
)
STORES_MERGED = Reason(
    "shared stores merged",
    "NVIDIA's compiler unrolls the loop that fills a shared array and merges four adjacent 4-byte "
    "stores into one of 16 bytes. The simulator counts the stores as clang leaves them. A test writes "
    "the wide store into the source and gets the hardware's counts from the simulator.",
)
SPILLED = Reason(
    "registers spilled",
    "The kernel is compiled with fewer registers than its values need (`--maxrregcount`), so NVIDIA's "
    "compiler keeps some of them in local memory. The simulator gives a thread as many registers as it "
    "likes. A test computes the loads from the spills that the compiler reports: each of these words is "
    "loaded once per iteration. The stores fit if all but 5 of these words (8 with 48 registers or "
    "fewer) are stored once, and those in each iteration; that split is inferred from the counts.",
)
FUSED = Reason(
    "a product fused with a sum",
    "CUDA lets a compiler round a product and a sum together or separately, and in a longer sum it may "
    "choose which product to fuse. Here clang rounds once where NVIDIA's compiler rounds twice. With "
    "the product's own rounding written into the source, the simulator gives the hardware's output bit "
    "for bit; that is repeated whenever the two are compared.",
)

KNOWN: Mapping[str, Mapping[str, tuple[int, Reason]]] = {
    "machine/chip_carveout: chase_shared with LINES=1024, blocks of 1": {
        "shared store requests": (-768, STORES_MERGED),
        "shared store wavefronts": (-768, STORES_MERGED),
    },
    "speed/occupancy: best_score with D=64, blocks of 128, number 3": {"local requests": (896, SPILLED)},
    "speed/occupancy: best_score with D=64, blocks of 128, number 4": {"local requests": (1664, SPILLED)},
    "speed/occupancy: best_score with D=64, blocks of 128, number 5": {"local requests": (1952, SPILLED)},
    "speed/occupancy: best_score with D=64, blocks of 128, number 6": {"local requests": (2240, SPILLED)},
    "shared broadcast": {
        "shared load requests": (-96, MERGED),
        "shared load wavefronts": (-64, MERGED),
    },
    "shared neighbours": {
        "shared load requests": (-16, MERGED),
        "shared load wavefronts": (-64, MERGED),
    },
    "tiled matmul": {
        "shared load requests": (-3456, MERGED),
        "shared load wavefronts": (-2304, MERGED),
    },
    "ragged rows": {"global load requests": (41, UNROLLED), "global load sectors": (10, UNROLLED)},
    "histogram": {"global atomic sectors": (88, TURNS)},
    "sums of four": {"global atomic sectors": (48, TURNS)},
    "or of three": {"global atomic sectors": (62, TURNS)},
    "cp.async ca of 4 bytes": {
        "shared store requests": (-6, COPIES),
        "shared store wavefronts": (-6, COPIES),
    },
    "cp.async ca of 8 bytes": {
        "shared store requests": (-6, COPIES),
        "shared store wavefronts": (-12, COPIES),
    },
    "cp.async ca of 16 bytes": {
        "shared store requests": (-6, COPIES),
        "shared store wavefronts": (-24, COPIES),
    },
    "cp.async cg of 16 bytes": {
        "shared store requests": (-6, COPIES),
        "shared store wavefronts": (-24, COPIES),
    },
    "cp.async ca of 4 bytes, turned by 5": {
        "shared store requests": (-6, COPIES),
        "shared store wavefronts": (-6, COPIES),
    },
    "pipeline of copies": {"shared store requests": (-14, COPIES), "shared store wavefronts": (-56, COPIES)},
    "stmatrix, rows 16 bytes apart": {"shared store requests": (-1, STORED)},
    "stmatrix, rows 32 bytes apart": {"shared store requests": (-1, STORED)},
    "stmatrix, rows 48 bytes apart": {"shared store requests": (-1, STORED)},
    "stmatrix, rows 128 bytes apart": {"shared store requests": (-1, STORED)},
    "mma f16, whole numbers": {"local requests": (-48, REGISTERS)},
    "mma f16": {"local requests": (-48, REGISTERS)},
    "mma bf16": {"local requests": (-48, REGISTERS)},
    "mma tf32": {"local requests": (-71, REGISTERS)},
    "mma s8": {"local requests": (-16, REGISTERS)},
    "ldmatrix, rows 16 bytes apart": {"local requests": (-8, REGISTERS)},
    "ldmatrix, rows 32 bytes apart": {"local requests": (-8, REGISTERS)},
    "ldmatrix, rows 48 bytes apart": {"local requests": (-8, REGISTERS)},
    "ldmatrix, rows 128 bytes apart": {"local requests": (-8, REGISTERS)},
    "ldmatrix, rows 144 bytes apart": {"local requests": (-8, REGISTERS)},
}
"""By specimen and count: the exact difference, hardware minus simulator, and the reason."""


REWRITTEN: Mapping[str, tuple[Mapping[str, str], Reason]] = {
    "machine/warps: many_ways, blocks of 256": ({"0.01f * w;": "__fmul_rn(0.01f, w);"}, FUSED),
}
"""By specimen whose output differs: the edit of its source that gives the hardware's bits, and the reason."""
