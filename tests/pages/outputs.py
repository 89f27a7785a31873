# ---
# title: Outputs
# needs: []
# summary: "Which outputs does a page know?"
# ---

# %%
from tilewise import Table, exercise, show
from tilewise.outputs import (
    AgreeOutput,
    Cell,
    CheckOutput,
    Column,
    HazardOutput,
)

print("printed before")
table = Table(
    ["variant", Column("time", "µs"), "note"],
    [["naive", 1234.5, Cell("slow", title="twice <as> slow", mark="waste")], ["tiled", 20_000, None]],
    caption="Times & notes.",
)
show(table)
print("printed after")

# %% title="The last expression of a cell is shown if it is a table"
table

# %% fold="Checks, folded"
show(CheckOutput("out", 1000, 1.5e-7, 1e-6))
show(AgreeOutput("add", "vec_add", ("n = 1", "n = 257"), ("c",), 0.0, 0.0))
show(HazardOutput("race", "two warps write tile[0] between barriers", "tile[0] = i;", 4))

# %%
# [sum
total = sum(range(5))
# sum]
total  # a number is not shown


# %%
def successor(x):
    """The next integer."""
    return x + 1


def successor_tests(answer):
    assert [answer(x) for x in (-1, 0, 41)] == [0, 1, 42]


exercise(
    "Successor",
    """
    Write `successor`, with $s(x) = x + 1$.

    - No loop.
    """,
    answer=successor,
    tests=successor_tests,
    wrong=[lambda x: x, lambda x: x + 2],
    hint="Add.",
)
