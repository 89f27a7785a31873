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

# %% fold="Code of the numbers"
from tilewise import publish
from tilewise.models import device

HEADS, ROWS, TILE, SMS = 32, 1024, 64, device("H100 SXM").sms
publish(
    split={
        "heads": HEADS,
        "rows": ROWS,
        "tile": TILE,
        "sms": SMS,
        "idle": SMS - HEADS,
        "blocks": HEADS * ROWS // TILE,
    }
)

# %% [markdown]
# ??? question "How can a softmax be computed piece by piece?"
#     With two numbers for each row: $m$, the largest score so far, and $l$, the sum of the
#     exponentials $e^{s - m}$ so far. A new score may raise the maximum to $m'$. Everything summed
#     before was measured from the old one, and a single factor repairs all of it: $l$ becomes
#     $l \cdot e^{m - m'}$, and then the new term is added. After the last score both numbers are what
#     two passes would have found, up to rounding. The weighted sum of value rows fades by the same
#     factor, so it can be carried along.
#
# ??? question "Is a second pass over the keys needed, once the sum is known?"
#     No. Weights that are too large by a common factor can be summed first and divided later, so the
#     row of $O$ is divided by $l$ once, after the last key. All keys must have been seen before that,
#     each of them once. In training the way back needs the weights again. It makes each of them from
#     its query and key, with the row's largest score and its sum, which are kept.
#
# ??? question "Why not one block for each head?"
#     Because heads are few. With {{ split.heads }} of them, {{ split.idle }} of an H100's
#     {{ split.sms }} SMs would get no block, and each block would have {{ split.rows | , }} queries
#     to go through one after the other. Queries do not need each other: they share the keys and
#     values, and those are only read. So a head is cut by its queries, and {{ split.rows | , }} of
#     them in blocks of {{ split.tile }} make {{ split.blocks }} blocks in all.

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
