# ---
# title: "Puzzles: kernels"
# needs: [kernels/serial_attention]
# summary: "Six kernels with a gap: can you fill each so that it is right at every size, and touches no sector too many?"
# description: "Fill in a kernel, and check it on your machine without a GPU: results, faults and traffic."
# date: 2026-11-21
# tags: [puzzle, index, guard, strides]
# ---

# %% [markdown]
# Six kernels, each with a gap. You fill it in an editor of your choice, and one command compiles
# your kernel, runs it on the simulator and compares what it wrote with what it should have
# written. A GPU is not needed. Being right is half of it: each puzzle has a budget too, the number
# of sectors or requests that a good answer needs. How many of the 6 can you solve without a hint?

# %% [markdown]
# ## How it goes
#
# `tilewise puzzle start kernels/map` writes the file `puzzles/kernels/map.cu` below the folder
# that you are in. It is yours: nothing else writes there, and the command refuses to write over
# it. `tilewise puzzle kernels/map` checks the file. It says which value is wrong, or which thread
# leaves an array at which line, or by how much the budget is exceeded and where, for the first
# thing that it finds. The sizes it tries are more than the one on the page, and few of them
# divide by anything.
#
# A table beside each puzzle has its *budget* and what the folded solution counts, *solved*. Where
# a kernel that thinks of nothing but being right would be over budget, the table says by how much:
# that is the column *plain*.
#
# `tilewise puzzle` lists all puzzles, and `tilewise puzzle kernels/map --hint` prints the first
# hint. On the page hints and solutions are folded. The command comes with the course's
# [environment](../../docs/index.md#how-to-run-it).

# %% [markdown]
# ## Every thread its square
#
# The shortest kernel there is, and the line that nearly every other one begins with.

# %%
from tilewise import puzzle

puzzle("kernels/map")

# %% [markdown]
# ## The last block
#
# Sizes rarely divide. The threads that are too many must find out for themselves.

# %%
puzzle("kernels/guard")

# %% [markdown]
# ## A picture in the mirror
#
# With two axes there are two indices and two guards, and the wrong way round touches a sector for
# each lane.

# %%
puzzle("kernels/mirror")

# %% [markdown]
# ## A window with strides
#
# Arrays that libraries hand over are often windows into larger ones. Their elements are where the
# strides say, and nowhere else.

# %%
puzzle("kernels/strides")

# %% [markdown]
# ## A row plus a column
#
# Now the launch has one axis and the result has two, so that the index must be taken apart.

# %%
puzzle("kernels/broadcast")

# %% [markdown]
# ## More elements than threads
#
# So far there was a thread for each element. Here there are 256 threads, whatever n is, and the
# same kernel must do for 31 elements and for 2,000.

# %%
puzzle("kernels/stride_loop")

# %% [markdown]
# ## Takeaways
#
# - An index is the number of elements that come before: whole blocks, or whole rows, and then
#   the place inside.
# - A guard asks whether the element exists, before anything of it is touched.
# - An answer can be right and still read each sector many times over. What decides is which
#   elements the lanes of a warp meet at the same moment.
#
# What this part has shown, claim by claim: [recap](../../recap.md#kernels).
