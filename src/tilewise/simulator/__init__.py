"""The simulator: CUDA C on a machine without a GPU, with its memory traffic counted and its hazards found.

In: a kernel's text, NumPy arrays and a launch shape. Out: arrays written as a GPU would write them, and a
``Run``. Time is not simulated.

Hazards that stop a run, or are collected:

- `out of bounds`, `misaligned`, `read-only`: by the array passed, the shared variable, the local array.
- `barrier`: live threads that never come, or lanes of a warp that part at a barrier; warps may meet at
  different ones. Threads that have exited are not waited for, which ``Run.notes`` says.
- `shuffle`: lanes that are not those named in the mask (matrix instructions need all), or a value from a lane
  that does not take part.
- `uninitialised`: shared memory that nobody wrote, or a `__constant__` variable that nobody set. A word, and
  what a shuffle takes from an absent lane, is a hazard where its value reaches a store, an address or a
  branch; until then it travels through registers and local memory. The hazard's line is that of the read.
- `null`: an access through a null pointer, such as an argument that was passed as None.
- `race`: two warps of a block touch one word of shared or global memory with no barrier in between, or two
  blocks one word of global memory, and one of them stores; or lanes of one instruction store different
  values to one word of global memory. Two atomics do not race, nor an atomic and a read; volatile, relaxed,
  acquire and release accesses count as atomics, and a store of the value that is there already is none. A
  fence, then an atomic, and an atomic on the other side order what is before and after ("last block", locks);
  which word the atomics are on is not looked at.
- `undelivered`: an access to shared memory that a `cp.async` fills and that its thread has not waited for; or
  that a bulk or tensor copy fills, by a thread that has not seen the end of its mbarrier's phase nor heard of
  it from others.
- `overwritten`: a write to shared memory that a bulk store or a wgmma may still read; a block that ends
  before its bulk stores have been waited for.
- `mbarrier`, `deadlock`: its misuse, and waits that nobody can end, of mbarriers, clusters and warpgroups.
- `proxy`: what a thread wrote is read by a copy or a wgmma, or an mbarrier told by a copy, with no fence.
- `accumulator`: results of a wgmma touched before its wait, or a wgmma with no fence since they were touched.
- `cluster`: shared memory of a block that need not have begun, or may have ended; its barrier misused.
- `tensor map`: none, or not where the copy unit can read it.
- `assert`, `trap`, `steps`: the kernel's own checks, and the limit on warp instructions.

A `race` is also met by two lanes of one warp, in different instructions, on one word of shared memory, with
nothing in between that lanes do together: lockstep hides a missing `__syncwarp`, a GPU need not, volatile or
not. Shuffles, votes, atomics and fences count as such things here, though CUDA promises order by
`__syncwarp` and barriers alone, so that no right kernel is accused.

Not found: races between lanes of one warp through global memory, through what `cp.async` brought, or in
kernels with mbarriers or clusters; races in global arrays of more than 8 million words, a write to what a
copy under way still reads in global memory, a read there before a bulk store has arrived, a wrong scope or
order of a fence or an atomic, a fence missing before a copy writes over what threads read, registers of A
changed under a wgmma.

`mma.sync` and `wgmma` add exact products in double and round once; a GPU truncates as it adds, so last bits
may differ.
`cp.async` counts as a load from global memory and a store to shared memory where it is issued. `printf`
writes in the order of blocks and warps, at most a megabyte. With `--use_fast_math` the
single-precision functions become their `__` forms. A kernel with `grid.sync()` runs with all its blocks at
once, up to 128 of them.
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
