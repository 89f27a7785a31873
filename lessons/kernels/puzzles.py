# ---
# title: "Puzzles: kernels"
# needs: [kernels/grids]
# summary: "Six kernels, each with a gap to fill in. Can you make each one correct at every size and keep it within its memory-traffic budget?"
# description: "Six GPU puzzles: write the missing lines of a CUDA kernel and check them without a GPU. Indices, bounds checks, strides, broadcasting."
# date: 2026-11-21
# tags: [puzzle, index, bounds check, strides]
# ---

# %% [markdown]
# Each of these six kernels has a gap of one to five lines. Fill it in on this page, or in your own editor, where one
# command compiles your kernel, runs it on the simulator and checks every value. You don't need a GPU. A correct result
# is only half the task: each puzzle also has a budget, such as the number of sectors that a good solution loads. How
# many of the six can you solve without a hint?

# %% [markdown]
# ## How to solve a puzzle
#
# *Solve it here* turns the gap into blanks and offers several options for each. Your choice runs in your browser, at
# several sizes. To write the code yourself, press *Write it* there, which opens an editor. Or create the file, edit it
# and check it on your own machine:
#
# ```sh
# tilewise puzzle start kernels/map     # writes puzzles/kernels/map.cu
# tilewise puzzle kernels/map           # checks it
# tilewise puzzle kernels/map --hint    # prints the first hint
# ```
#
# If something is wrong, the check reports the first problem it finds: a wrong value, the line and thread of an
# out-of-bounds access, or the line that exceeds the budget. It tries several sizes, most of which aren't multiples of
# the block size. `tilewise puzzle` lists all puzzles. To get the command, set up the course's
# [environment](../../docs/index.md#how-to-run-it).
#
# The table under each puzzle shows the *budget* and what the solution needs. The *naive* column, where there is one,
# shows what a correct but wasteful kernel needs.

# %% [markdown]
# ## Thread index
#
# Almost every kernel begins by computing the index of its thread.

# %%
from tilewise import puzzle

puzzle("kernels/map")

# %% [markdown]
# ## Bounds check
#
# Array sizes are rarely multiples of the block size. Surplus threads must recognise that they have no work.

# %%
puzzle("kernels/guard")

# %% [markdown]
# ## Two axes
#
# An image needs two indices and two bounds checks. If the lanes of a warp run down a column, each lane touches a
# different sector.

# %%
puzzle("kernels/mirror")

# %% [markdown]
# ## Strides
#
# A slice of a NumPy or PyTorch array is a window into a larger one. To find an element of the slice, you need the
# slice's strides: the distances in memory from one row to the next and from one column to the next.

# %%
puzzle("kernels/strides")

# %% [markdown]
# ## Broadcasting: one index for two axes
#
# Here the launch has one axis and the result has two. Split the index.

# %%
puzzle("kernels/broadcast")

# %% [markdown]
# ## Grid-stride loop: more elements than threads
#
# So far, every element has had its own thread. This kernel has to work for 31 elements and for 2,000, with the same
# number of threads.

# %%
puzzle("kernels/stride_loop")

# %% [markdown]
# ## Takeaways
#
# - The index of an element is the number of elements before it: those in earlier blocks or rows, plus those before
#   it in its own block or row.
# - The bounds check must come before the first access, whether it's a load or a store.
# - A correct kernel can still load each sector many times. What counts is which elements the lanes of a warp access
#   in one instruction.
#
# Next comes a kernel with several nested loops: [attention with one thread per query](serial_attention.py).
