# ---
# title: "Puzzles: attention"
# needs: [kernels/serial_attention, memory/reductions, matmul/tiling, attention/flash_forward]
# summary: "A maximum that may still rise, then attention whose scores never see global memory."
# description: "Fill in the running maximum and normaliser of a row, and flash attention forward within a traffic budget."
# date: 2026-11-21
# tags: [puzzle, softmax, attention]
# ---

# %% [markdown]
# The last two puzzles of the course take up [serial attention](../kernels/serial_attention.py) and
# make one kernel of it. The first is one line long, and infinities meet in it. The second is flash
# attention, small: 16 numbers a head, a thread a query. A block that brings all of K and V into its
# shared memory once loads 512 sectors of them for 128 queries. How many does a kernel load whose
# threads each read K and V for themselves?
#
# `tilewise puzzle start NAME` writes the file and `tilewise puzzle NAME` checks it;
# [the first page of puzzles](../kernels/puzzles.py) says how.

# %% [markdown]
# ## A maximum that may still rise
#
# One pass over a row, which begins before its maximum is known. The same step serves twice: once
# for a score, once for another lane's share.

# %%
from tilewise import puzzle

puzzle("attention/normaliser")

# %% [markdown]
# ## Attention without its matrix
#
# Everything comes together: tiles in shared memory, two barriers, a tail of keys, threads without
# a query, and the rising maximum.

# %%
puzzle("attention/flash")

# %% [markdown]
# ## Takeaways
#
# - A sum of exponentials can be made before its maximum is known: when the maximum rises, what has
#   been added up fades by one factor.
# - A lane or a row that has seen nothing holds minus infinity and 0. It needs one guard, and then it
#   joins like any other.
# - The traffic of attention in one kernel is Q and O once, and K and V once for each block of
#   queries. The scores are nowhere.
#
# What this part has shown, claim by claim: [recap](../../recap.md#attention).
