"""The simulator: runs CUDA C without a GPU, counts its memory traffic and detects hazards.

In: a kernel's text, NumPy arrays and a launch shape. Out: the arrays, written as on a GPU, and a ``Run``.
Time is not simulated.

Hazards, which stop a run or are collected:

- `out of bounds`, `misaligned`, `read-only`: checked against the array passed, the shared variable or the
  local array.
- `barrier`: live threads that never arrive, or lanes of a warp that diverge at a barrier; warps may wait at
  different barrier instructions. Exited threads don't count, as ``Run.notes`` reports.
- `shuffle`: lanes other than those named in the mask (matrix instructions need all 32), or a value from an
  inactive lane.
- `uninitialised`: unwritten shared memory, or an unset `__constant__` variable. An unwritten word, and a
  shuffle's value from an inactive lane, is a hazard when its value reaches a store, an address or a branch;
  until then it is tracked through registers and local memory. The hazard's line is that of the read.
- `null`: an access through a null pointer, such as an argument that was passed as None.
- `race`: two warps of a block access the same word of shared or global memory without a barrier in between,
  or two blocks the same word of global memory, and one of them stores; or lanes of one instruction store
  different values to the same word of global memory. Two atomics don't race, nor do an atomic and a read;
  volatile, relaxed, acquire and release accesses count as atomics, and storing the value already there is not
  a race. A fence followed by an atomic, and an atomic on the other side, order the accesses before and after
  ("last block", locks), whichever words the atomics use.
- `undelivered`: an access to shared memory that a `cp.async` fills before its thread has waited for it; or
  that a bulk or tensor copy fills, by a thread that has not observed the end of its mbarrier's phase,
  directly or through other threads.
- `overwritten`: a write to shared memory that a bulk store or a wgmma may still read; a block that ends
  without waiting for its bulk stores.
- `mbarrier`, `deadlock`: a misused mbarrier; waits of mbarriers, clusters and warpgroups that can't end.
- `proxy`: a copy or a wgmma reads a thread's writes, or a copy signals an mbarrier, without a proxy fence.
- `accumulator`: results of a wgmma accessed before its wait, or a wgmma without a fence after such accesses.
- `cluster`: access to shared memory of a block that may not have begun or may have ended; a misused barrier.
- `tensor map`: missing, or not where TMA can read it.
- `assert`, `trap`, `steps`: the kernel's own checks, and the limit on warp instructions.

Two lanes of a warp also `race` if they access the same word of shared memory in different instructions with
no warp-wide operation in between: lockstep hides a missing `__syncwarp`, but a GPU need not run in lockstep,
volatile or not. Shuffles, votes, atomics and fences count as such operations, although CUDA guarantees order
only for `__syncwarp` and barriers, to avoid false positives.

Not detected: races between lanes of a warp through global memory, through data from `cp.async`, or in kernels
with mbarriers or clusters; races in global arrays of more than 8 million words; writes to global memory that
a copy in flight still reads; reads of global memory before a bulk store has arrived; a wrong scope or order
of a fence or an atomic; a missing fence before a copy overwrites what threads read; changes to registers of A
during a wgmma.

`mma.sync` and `wgmma` add exact products in double precision and round once; a GPU truncates as it adds, so
the last bits may differ. `cp.async` counts as a load from global memory and a store to shared memory when it
is issued. `printf` writes in the order of blocks and warps, at most a megabyte. With `--use_fast_math`,
single-precision functions become their `__` forms. A kernel with `grid.sync()` runs all its blocks at once,
up to 128.
"""

from tilewise.simulator.compile.compiler import CompileError
from tilewise.simulator.compile.toolchain import ToolchainError
from tilewise.simulator.compile.whole_file import DevicePart, LeftOut
from tilewise.simulator.engine.state import State, state_of
from tilewise.simulator.engine.trace import Accesses, Trace, Watched
from tilewise.simulator.frontend import Entry, Module, compile_kernel, device_part
from tilewise.simulator.results.counts import BulkCounts, Counts, GlobalCounts, SharedCounts
from tilewise.simulator.results.hazards import ExpectationError, Hazard, HazardError, expect_hazard
from tilewise.simulator.run import IGNORABLE, MAX_STEPS, Run, launch

__all__ = [
    "IGNORABLE",
    "MAX_STEPS",
    "Accesses",
    "BulkCounts",
    "CompileError",
    "Counts",
    "DevicePart",
    "Entry",
    "ExpectationError",
    "GlobalCounts",
    "Hazard",
    "HazardError",
    "LeftOut",
    "Module",
    "Run",
    "SharedCounts",
    "State",
    "ToolchainError",
    "Trace",
    "Watched",
    "compile_kernel",
    "device_part",
    "expect_hazard",
    "launch",
    "state_of",
]
