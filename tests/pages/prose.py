# ---
# title: Prose
# needs: []
# summary: "What becomes of 5 terms, 2 numbers & a note?"
# tags: [terms, numbers]
# date: 2026-11-21
# ---

# %% [markdown]
# ## A warp in a heading is no use
#
# A grid has blocks; a \block of text is another thing. `block` in code, $block$ in a formula and
# [block](prose.py) in a link are no uses either. Thirty-two threads make a
# warp, and each of its lanes sees shared
# memory.[^lanes] The second block is not linked.
#
# [^lanes]: A lane is a thread's place in its warp.
#
# ??? definition "Block | blocks"
#     Threads that start together, up to $1{,}024$. They share *one* memory, see [above](prose.py#term-warp).
#
# ??? definition "Warp | warps"
#     Thirty-two threads with one program counter. Its lanes run in step.
#
# ??? definition "Lane | lanes"
#     A thread's place in its warp.
#
# ??? definition "Shared memory"
#     Memory that a block shares.[^lanes]

# %%
from tilewise import publish

publish(blocks=79, rate={"gb_per_s": 2345.678}, device="H100", share=0.923)

# %% [markdown]
# It takes {{ blocks }} blocks at {{ rate.gb_per_s | ,.1f }} GB/s on an {{ device }}, which is {{ share | .0%}};
# `{{ blocks }}` in code stays, as does $\frac{{a}}{{b}}$.
#
# | what | how many |
# |---|---|
# | blocks | {{ blocks }} |
#
# $$
# \text{warp} = \frac{i}{32}
# $$
#
# ```python
# warp = i // 32  # {{ blocks }} and [^lanes] stay
# ```
#
# An H100 states {{ devices.h100_sxm.memory_gb_per_s | ,.0f }} GB/s.
