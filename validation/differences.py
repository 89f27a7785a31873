"""Known differences between the simulator's counts and the hardware's, each with its reason.

In: nothing. Out: ``KNOWN``, by count, and ``REWRITTEN``, by output. A difference is an exact number, hardware
less simulator: one more or less and the test fails. Reasons are on the page "What the simulator counts".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Reason:
    """Why counts differ."""

    title: str
    """In a few words."""
    text: str
    """In a paragraph, for the page."""


MERGED = Reason(
    "shared loads merged",
    "NVIDIA's compiler makes one wide shared load of several narrow ones that lie side by side, in one "
    "line or across the turns of a loop that it has unrolled. The simulator counts the loads as clang "
    "leaves them. Fewer requests are made, and a wide load whose lanes share places takes fewer passes than"
    " the narrow ones did together. A test that merges "
    "them in the source gets the hardware's numbers from the simulator.",
)
UNROLLED = Reason(
    "a ragged loop unrolled",
    "The lanes of a warp have different numbers of turns. NVIDIA's compiler first does single turns "
    "until a multiple of 4 is left, then 16 at a time, then 8, then 4; lanes that are in different "
    "stages load at different times. In the simulator all lanes that are still in the loop take each "
    "turn together. A test computes the hardware's numbers from these stages.",
)
TURNS = Reason(
    "atomics that take turns",
    "Several lanes of a request go for the same word. The simulator counts the sectors that are "
    "touched, each once; the hardware counts a sector as often as the most wanted word in it is wanted,"
    " once for each turn. Requests are equal. A test computes the hardware's number from the trace. "
    "Where all lanes add to one word the counts are equal, presumably since NVIDIA's compiler adds up "
    "within the warp first.",
)

COPIES = Reason(
    "copies that pass the registers by",
    "An asynchronous copy (`cp.async`) reads global memory and writes shared memory without a register in "
    "between. The simulator counts the write as a shared store, with the passes that it needs; the hardware "
    "has it in none of its counters of shared stores. The requests and sectors of the read are equal.",
)
STORED = Reason(
    "matrices stored uncounted",
    "`stmatrix` is in no counter of requests that Nsight Compute offers; `ldmatrix` has one of its own, "
    "which is added here. Passes over the banks are equal for both.",
)
REGISTERS = Reason(
    "small arrays in registers",
    "An array whose every index is a constant once its loops are unrolled can live in registers. NVIDIA's "
    "compiler unrolls short loops by itself; the simulator's clang does so where the source says "
    "`#pragma unroll`, and keeps the array in local memory where it does not. A test writes that into these "
    "kernels: then nothing goes to local memory, and all other counts stay.",
)
STORES_MERGED = Reason(
    "shared stores merged",
    "NVIDIA's compiler unrolls the loop that fills a shared array and makes one store of 16 bytes of four "
    "neighbouring ones of 4. The simulator counts the stores as clang leaves them. A test that writes the "
    "wide store into the source gets the hardware's numbers from the simulator.",
)
SPILLED = Reason(
    "registers spilled",
    "The kernel is compiled with fewer registers than its values take (`--maxrregcount`), so NVIDIA's "
    "compiler keeps some of them in local memory. The simulator gives a thread as many registers as it "
    "likes. A test computes the loads from what the compiler says it spills: each of these words is loaded "
    "once in each turn of the kernel's loop. The stores are as many as they are if all but 5 of these words "
    "(8 of them with 48 registers and fewer) are stored once, and those in each turn; that split is inferred "
    "from the counts.",
)
FUSED = Reason(
    "a product fused with a sum",
    "CUDA lets a compiler round a product and a sum once, together, or each by itself, and in a longer sum "
    "it may choose which product that is. Here clang rounds once what NVIDIA's compiler rounds twice. With "
    "the product's own rounding written into the source, the simulator gives the hardware's output bit for "
    "bit; that is done again whenever the two are compared.",
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
"""By specimen and count: the exact difference, hardware less simulator, and the reason."""


REWRITTEN: Mapping[str, tuple[Mapping[str, str], Reason]] = {
    "machine/warps: many_ways, blocks of 256": ({"0.01f * w;": "__fmul_rn(0.01f, w);"}, FUSED),
}
"""By specimen whose output differs: what to replace in its source for the hardware's bits, and the reason."""
