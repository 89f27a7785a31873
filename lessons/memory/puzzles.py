# ---
# title: "Puzzles: memory"
# needs: [memory/reductions]
# summary: "Seven kernels whose cost is data movement: how close can you get to the minimum number of sectors, wavefronts and barriers?"
# description: "GPU puzzles: warp scan, row sums, float4 loads, stencil, transpose, tree reduction and histogram in CUDA C, each with a budget, checked without a GPU."
# date: 2026-11-21
# tags: [puzzle, shared memory, barrier, coalescing]
# ---

# %% [markdown]
# What do a scan, a stencil and a histogram have in common? Their arithmetic is trivial: data movement determines their
# cost. In these seven puzzles, you move data between lanes, along rows, four floats at a time, and through shared
# memory. The simulator reports a missing barrier, an unfilled halo and every bank conflict. A warm-up: a matrix of 64
# by 96 floats fills 768 sectors. How many sectors does a transpose store if it stores each element on its own, and what
# is the minimum?
#
# `tilewise puzzle start NAME` creates the file and `tilewise puzzle NAME` checks it; see
# [how to solve a puzzle](../kernels/puzzles.py#how-to-solve-a-puzzle).

# %% [markdown]
# ## Warp scan
#
# A *scan* replaces each element with the sum of all elements up to and including it. The lanes of a warp can read each
# other's registers, so a scan takes fewer steps than there are lanes.

# %%
from tilewise import puzzle

puzzle("memory/scan")

# %% [markdown]
# ## Coalesced row sums
#
# The final reduction is given. What matters is which elements each lane reads.

# %%
puzzle("memory/row_sums")

# %% [markdown]
# ## float4 loads and stores
#
# A `float4` load moves 16 bytes per lane. You have to check that all four floats are inside the array.

# %%
puzzle("memory/vectors")

# %% [markdown]
# ## Stencil with a halo
#
# Each element is needed by five threads, so it pays to load it into shared memory once. A block also needs a *halo*: a
# few elements that belong to its neighbours.

# %%
puzzle("memory/stencil")

# %% [markdown]
# ## Transpose without bank conflicts
#
# A tile in shared memory makes it possible to coalesce both the loads and the stores. Its columns mustn't cause bank
# conflicts.

# %%
puzzle("memory/transpose")

# %% [markdown]
# ## Tree reduction
#
# A tree reduction combines pairs of elements, then pairs of sums, until a single sum is left.

# %%
puzzle("memory/tree")

# %% [markdown]
# ## Histogram with fewer global atomics
#
# Atomics keep a histogram correct, however many threads update it at once.

# %%
puzzle("memory/histogram")

# %% [markdown]
# ## Takeaways
#
# - The addresses that a warp accesses in one instruction determine the number of sectors in global memory and of
#   wavefronts in shared memory.
# - Put a barrier between a write by one thread and a read by another, and make sure that no thread returns before it
#   has reached the barrier.
# - An element that is stored alone costs a whole sector. With a tile in shared memory, a transpose stores no more
#   sectors than the matrix fills.
# - The tail, the halo and the last row are where a kernel that looks right goes wrong.
