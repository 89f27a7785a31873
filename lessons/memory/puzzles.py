# ---
# title: "Puzzles: memory"
# needs: [memory/reductions]
# summary: "Seven kernels between global and shared memory: how close to the fewest sectors, passes and barriers?"
# description: "Fill in a warp's scan, row sums, vector loads, a stencil, a transpose, a tree and a histogram, within budgets."
# date: 2026-11-21
# tags: [puzzle, shared memory, barrier, coalescing]
# ---

# %% [markdown]
# Seven kernels whose cost is in how data move. Two move them between lanes and along rows, one
# moves four floats at a time, and four bring them into shared memory first, where a missing
# barrier, a rim that is not filled or a bank that 32 lanes want at once waits for you. The
# simulator sees all three. A matrix of 64 by 96 floats fills 768 sectors: how many does its
# transpose store if each element travels alone, and how few can it be?
#
# `tilewise puzzle start NAME` writes the file and `tilewise puzzle NAME` checks it;
# [the first page of puzzles](../kernels/puzzles.py) says how.

# %% [markdown]
# ## Running sums in five steps
#
# The lanes of a warp can read each other's registers. That is enough to add up what stands before
# each of them, in fewer steps than there are lanes.

# %%
from tilewise import puzzle

puzzle("memory/scan")

# %% [markdown]
# ## A warp for each row
#
# The sum at the end is given; the question is which elements each lane should read on its way.

# %%
puzzle("memory/row_sums")

# %% [markdown]
# ## Four at a time
#
# A vectorised load moves 16 bytes a lane, where the address allows it and the array is long
# enough. Both need a thought.

# %%
puzzle("memory/vectors")

# %% [markdown]
# ## Neighbours from a tile
#
# Each element is wanted by five threads. The block fetches it once, and a rim of elements that
# belong to its neighbours with it.

# %%
puzzle("memory/stencil")

# %% [markdown]
# ## A tile turned over
#
# Of the rows of a matrix and the columns of its transpose, one is always read or written across
# the grain. Shared memory can take that upon itself, if its banks agree.

# %%
puzzle("memory/transpose")

# %% [markdown]
# ## Half as many at each step
#
# A reduction within a block. Each step needs what the step before has written, and half of the
# threads of the step before.

# %%
puzzle("memory/tree")

# %% [markdown]
# ## Counting in two stages
#
# An atomic addition is right however many threads meet. How many additions reach global memory is
# up to you.

# %%
puzzle("memory/histogram")

# %% [markdown]
# ## Takeaways
#
# - What the lanes of a warp touch at the same moment decides about sectors in global memory and
#   about passes over the banks of shared memory.
# - Everything that one thread writes and another reads needs a barrier in between, before which no
#   thread may leave.
# - An element that travels alone takes a sector for itself. By way of a tile, the transpose stores
#   no more sectors than the matrix fills.
# - The tail, the rim and the last row are where a kernel that looks right goes wrong.
#
# What this part has shown, claim by claim: [recap](../../recap.md#memory).
