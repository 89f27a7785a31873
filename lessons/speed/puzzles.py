# ---
# title: "Puzzles: machine and speed"
# needs: [speed/launches, speed/occupancy]
# summary: "Four kernels that are right and spend too much: which loads, stores and branches can you take out?"
# description: "Fill in kernels that keep what they need in registers and whose warps stay together, within a budget."
# date: 2026-11-21
# tags: [puzzle, registers, divergence, traffic]
# ---

# %% [markdown]
# In these four puzzles the straightforward kernel is right, and over budget: it stores twice what
# it should, loads the same number four times, walks through an array twice, or parts at each
# branch. The column *plain* in each table is its count. Which of the four costs can be
# brought to the least possible, and which only traded for another?
#
# As before, `tilewise puzzle start NAME` writes the file and `tilewise puzzle NAME` checks it;
# [the first page of puzzles](../kernels/puzzles.py) says how.

# %% [markdown]
# ## Three steps, one store
#
# Three steps, each simple, and each written as a line of its own that loads and stores. On the
# roofline such a kernel lies far to the left.

# %%
from tilewise import puzzle

puzzle("speed/fused")

# %% [markdown]
# ## Four results for one coefficient
#
# A thread has registers for more than one result. When it computes four at a time, what can it
# load once instead of four times?

# %%
puzzle("speed/registers")

# %% [markdown]
# ## The peak and how often
#
# The peak must be known before its equals can be counted, or so it seems. A second walk through
# the matrix doubles the traffic.

# %%
puzzle("speed/one_pass")

# %% [markdown]
# ## Each warp on one side
#
# Two kinds of work, dealt out like a chequered pattern. The work itself cannot be made less, and
# the number of threads is given; only who does what is free.

# %%
puzzle("speed/sides")

# %% [markdown]
# ## Takeaways
#
# - What a later line needs belongs in a variable. Traffic begins where an array is written or
#   read, and the compiler may not guess that two arrays never overlap.
# - One load can serve several results, if one thread computes them together.
# - A running answer that can be corrected makes a second walk unnecessary.
# - Divergence is a question of which elements share a warp. Dealing them out anew took it away,
#   and doubled the sectors.
#
# What this part has shown, claim by claim: [recap](../../recap.md#speed).
