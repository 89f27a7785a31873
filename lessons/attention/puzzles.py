# ---
# title: "Puzzles: online softmax and FlashAttention"
# needs: [kernels/serial_attention, memory/reductions, matmul/tiling, attention/flash_forward]
# summary: "Write the online softmax step, then a small FlashAttention kernel. What is the smallest number of sectors that its blocks need to load?"
# description: "GPU puzzles: online softmax across a warp and a FlashAttention forward pass in CUDA C, each with a budget, checked without a GPU."
# date: 2026-11-23
# tags: [puzzle, softmax, FlashAttention]
# ---

# %% [markdown]
# Can you write FlashAttention from memory? These two puzzles will get you there. The first is its core: the online
# softmax step, for rows that may contain minus infinity. The second is a small FlashAttention kernel: 16 elements per
# head and one query per thread. For 128 queries and keys, two blocks that stage tiles of K and V in shared memory need
# to load only 1,280 sectors, Q included.
#
# `tilewise puzzle start NAME` creates the file and `tilewise puzzle NAME` checks it; see
# [how to solve a puzzle](../kernels/puzzles.py#how-to-solve-a-puzzle).

# %% [markdown]
# ## The online softmax step
#
# You need the same step twice: to add one score, and to combine the results of two lanes.

# %%
from tilewise import puzzle

puzzle("attention/normaliser")

# %% [markdown]
# ## A small FlashAttention kernel
#
# Mind the last tile, which may not be full, and the threads without a query.

# %%
puzzle("attention/flash")

# %% [markdown]
# ## Takeaways
#
# - You can sum exponentials before you know their maximum. When it grows, one factor rescales the sum so far.
# - A lane or row without a finite score has a maximum of minus infinity and a sum of 0. A single guard lets you combine it like any other.
# - A FlashAttention kernel loads Q once, stores O once, and loads K and V once per block of queries.
#
# For a summary of this part, see the [recap](../../recap.md#attention).
