# ---
# title: "Puzzles: machine and speed"
# needs: [speed/launches, speed/occupancy]
# summary: "Four kernels that are correct but wasteful: which loads, stores and divergent branches can you remove?"
# description: "GPU puzzles on registers, memory traffic and warp divergence: fill in CUDA kernels within a budget, checked without a GPU."
# date: 2026-11-21
# tags: [puzzle, registers, divergence, traffic]
# ---

# %% [markdown]
# In these four puzzles, the obvious kernel is correct but over budget. It stores an intermediate result, loads the same coefficient four
# times, reads an array twice, or diverges in every warp. In which of the four can you remove the waste, and in which do you only trade it
# for another cost?
#
# As before, `tilewise puzzle start NAME` creates the file and `tilewise puzzle NAME` checks it; see
# [how to solve a puzzle](../kernels/puzzles.py#how-to-solve-a-puzzle).

# %% [markdown]
# ## Registers instead of intermediate stores
#
# The obvious kernel has three simple steps, and each of them writes to `out`. The compiler removes what it can, but an
# unnecessary store remains.

# %%
from tilewise import puzzle

puzzle("speed/fused")

# %% [markdown]
# ## Several results per thread
#
# A thread has registers for more than one result. If it computes four at a time, which loads does it need only once?

# %%
puzzle("speed/registers")

# %% [markdown]
# ## One sweep instead of two
#
# You can't count how often the maximum occurs before you know the maximum, or so it seems. Reading the matrix twice,
# however, doubles the traffic.

# %%
puzzle("speed/one_pass")

# %% [markdown]
# ## Divergence
#
# Even and odd elements need different work. You can't reduce the work, and the number of threads is
# fixed. But you can choose which thread processes which element.

# %%
puzzle("speed/sides")

# %% [markdown]
# ## Takeaways
#
# - Keep intermediate results in variables. If you write them to an array, the compiler generally can't
#   remove the stores, because it must assume that this array may overlap with another one that the kernel reads.
# - One load can serve several results if one thread computes all of them.
# - If you can update the result as you go, you don't need a second sweep.
# - Divergence depends on which elements share a warp. Reassigning the elements removes the divergence, here at the
#   price of loading each sector twice.
#
# For a summary of this part, see the [recap](../../recap.md#speed).
