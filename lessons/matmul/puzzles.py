# ---
# title: "Puzzles: products of matrices"
# needs: [matmul/register_tiles]
# summary: "Two kernels that multiply matrices: how few requests can a tile get by with?"
# description: "Fill in a product in tiles and the register tile of a faster one, within budgets of requests and barriers."
# date: 2026-11-21
# tags: [puzzle, matmul, tile, register tile]
# ---

# %% [markdown]
# Two rungs of the ladder, as kernels with a gap. The first keeps its operands in shared memory, the
# second its sums in registers; in both what counts is how often a value is used once it has
# arrived. An element of C, `K` long, asks for 2 K numbers if nobody shares: what is left of that
# when 256 threads fetch together?
#
# `tilewise puzzle start NAME` writes the file and `tilewise puzzle NAME` checks it;
# [the first page of puzzles](../kernels/puzzles.py) says how.

# %% [markdown]
# ## A product in tiles
#
# The loop along K stands; what a block does at each of its steps is yours, edges included.

# %%
from tilewise import puzzle

puzzle("matmul/tile")

# %% [markdown]
# ## Sixteen sums to a thread
#
# Here the \slabs are in shared memory already. How a thread's sums lie in the tile decides whether
# it asks for their factors twice at each depth or oftener.

# %%
puzzle("matmul/register_tile")

# %% [markdown]
# ## Takeaways
#
# - A tile of 16 by 16 lets a value that was fetched once serve 16 sums, so that a warp makes one
#   sixteenth of the requests.
# - Zeros past the edges cost nothing but keep the inner loop free of guards, and every thread,
#   inside C or outside, helps to fill the tiles.
# - Sums that are neighbours in both directions share their factors: eight values make sixteen
#   products.
#
# What this part has shown, claim by claim: [recap](../../recap.md#matrix-multiplication).
