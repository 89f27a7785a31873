# ---
# title: "Puzzles: matrix multiplication"
# needs: [matmul/register_tiles, matmul/hopper]
# summary: "Eleven kernels, each with a gap to fill: tiles in shared memory and registers, then Hopper's mbarriers, TMA and wgmma. How many of them hang on your first attempt?"
# description: "GPU puzzles in CUDA C: tiled GEMM, register tiles, mbarrier phases, a full/empty ring, four stages, a deadlock, the async proxy, wgmma descriptors, an accumulator mask, a warp-specialised GEMM and multicast, checked without a GPU."
# date: 2026-11-23
# tags: [puzzle, GEMM, Hopper, TMA, mbarrier, wgmma]
# ---

# %% [markdown]
# On a GPU, one wrong parity bit can make a pipelined kernel hang without an error message. A wrong descriptor produces
# garbage. Here you can make these mistakes cheaply: the simulator stops at the line that waits forever, names the
# mbarrier, and counts the arrivals or bytes that are missing.
#
# The first two are about tiles. The other nine are about Hopper's primitives, and the lessons on [the TMA](tma.py), [wgmma](wgmma.py) and [GEMM on Hopper](hopper.py)
# contain all you need. These nine include `hopper.cuh`, the [shared header](tma.py#the-shared-header) from those lessons.
#
# `tilewise puzzle start NAME` creates the file and `tilewise puzzle NAME` checks it; see
# [how to solve a puzzle](../kernels/puzzles.py#how-to-solve-a-puzzle).

# %% [markdown]
# ## Tiled GEMM
#
# The loop along K is given. Fill in what a block does at each step, including at the edges.

# %%
from tilewise import puzzle

puzzle("matmul/tile")

# %% [markdown]
# ## Register tile
#
# The arrangement of a thread's accumulators determines how many requests it makes for their operands.

# %%
puzzle("matmul/register_tile")

# %% [markdown]
# ## Phases of an mbarrier
#
# One mbarrier serves a whole loop, as long as you wait for the right phase each time. With a second loop around the
# first, the phase is easy to get wrong.

# %%
puzzle("matmul/phase")

# %% [markdown]
# ## Full/empty ring
#
# A ring connects one producer thread with two consumer warps, which don't wait for each other.

# %%
puzzle("matmul/ring")

# %% [markdown]
# ## Four stages
#
# More stages keep more loads in flight. But with twice as many stages, the parity changes only half as often.

# %%
puzzle("matmul/stages")

# %% [markdown]
# ## Deadlock
#
# A ring that works for whole tiles may hang at the edge of the matrix, where some consumer warps have nothing to do. Count who
# arrives, and how many bytes.

# %%
puzzle("matmul/deadlock")

# %% [markdown]
# ## Async proxy and TMA store
#
# Ordinary stores fill a buffer, and the TMA reads it. Besides the TMA store itself, you need two steps before it and
# two after it, and their order matters.

# %%
puzzle("matmul/proxy")

# %% [markdown]
# ## wgmma descriptors
#
# The sub-tiles of B differ from those in the lesson, so the lesson's offsets are wrong here.

# %%
puzzle("matmul/descriptors")

# %% [markdown]
# ## Accumulator layout and mask
#
# To mask an accumulator, a thread has to know its row and column.

# %%
puzzle("matmul/accumulator_mask")

# %% [markdown]
# ## Warp-specialised GEMM
#
# This kernel combines the ring, the descriptors and the accumulator layout. It's a minimal GEMM that keeps the TMA and
# the tensor cores busy at the same time.

# %%
puzzle("matmul/gemm")

# %% [markdown]
# ## Multicast
#
# With multicast, a cluster of four loads every tile of A and B once instead of twice. Each block has to know which
# other blocks need its tiles. The header has two functions for multicast:

# %%
from tilewise import Header

Header("hopper.cuh").region("tma_multicast")

# %%
puzzle("matmul/multicast")

# %% [markdown]
# ## Takeaways
#
# - Tiles in shared memory and in registers serve the same purpose: to use each loaded value for as many multiply-adds as possible.
# - An mbarrier only counts. Write down who arrives in each phase and how many bytes arrive, at the edges too, and count
#   the uses of a stage rather than the iterations of the inner loop. Most hangs come from a wrong count.
# - Descriptors, masks and multicast are index arithmetic. Derive them from the layout, and test them with sizes that aren't
#   multiples of the tile.
#
# The [recap](../../recap.md#matrix-multiplication) lists everything covered in this part.
