"""What a text record rests on: the definitions that its cell comes to, and nothing else."""

import pytest

from tilewise.measurements.definitions import uses_key

KERNEL = """SCALE = Kernel("scale", r\'\'\'
extern "C" __global__ void scale(float* x) { x[threadIdx.x] *= 2.0f; }  // doubled
\'\'\')"""
BEFORE = [
    "import numpy as np\nSIZES = [8, 16]\nother = 3",
    KERNEL,
    "def timed(size):\n    return launched(size)\n\ndef launched(size):\n    return SCALE, size",
    "SIZES[1] = 32",
]
CELL = "for size in SIZES:\n    print(timed(size), np.pi)"


def changed(old: str, new: str) -> bool:
    """Whether the key moves when a text in the cells before gives way to another."""
    after = [text.replace(old, new) for text in BEFORE]
    assert after != BEFORE
    return uses_key(CELL, after) != uses_key(CELL, BEFORE)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("[8, 16]", "[8, 24]"),
        ("= 32", "= 64"),
        ("*= 2.0f", "*= 3.0f"),
        ("return SCALE, size", "return SCALE, 2 * size"),
        ("return launched(size)", "return launched(size), 1"),
    ],
)
def test_what_a_cell_uses_counts_at_second_hand_too(old, new):
    assert changed(old, new)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("other = 3", "other = 4"),
        ("  // doubled", " /* twice as much */"),
        ("{ x[", "{\n    x["),
        ("import numpy as np", "import numpy as np\nimport json"),
        ("def timed(size):", "def timed(size):  # in us"),
    ],
)
def test_what_it_does_not_use_and_how_it_is_written_does_not_count(old, new):
    assert not changed(old, new)


@pytest.mark.parametrize(
    "binding",
    [
        "a, (n, *b) = 1, (2, 3)",
        "for n in range(3): pass",
        "with open('f') as n: pass",
        "if True:\n    n = 2",
        "n: int = 2",
        "n += 2",
        "n['key'].length = 2",
        "class n: size = 2",
        "(n := 2)",
    ],
)
def test_whatever_binds_a_name_counts(binding):
    assert uses_key("print(n)", [binding]) != uses_key("print(n)", [])
    assert uses_key("print(m)", [binding]) == uses_key("print(m)", [])


def test_names_that_a_comprehension_binds_stay_within_it():
    assert uses_key("print(n)", ["squares = [n * n for n in (1, 2)]"]) == uses_key("print(n)", [])


@pytest.mark.parametrize(
    ("cell", "counts"),
    [
        ("for n in (1, 2): print(n)", False),
        ("n = 3\nprint(n)", False),
        ("n = n + 1", True),
        ("if here():\n    n = 3\nprint(n)", True),
        ("def double(n): return 2 * n", False),
        ("def double():\n    n = 3\n    return 2 * n", False),
        ("def double(m=n): return 2 * m", True),
        ("def double():\n    global n\n    n = 2 * n", True),
        ("print([n for n in (1, 2)])", False),
        ("print([m for m in n])", True),
    ],
)
def test_a_name_counts_where_it_is_loaded_before_it_is_bound(cell, counts):
    assert (uses_key(cell, ["n = 2"]) != uses_key(cell, [])) is counts


def test_what_a_definition_has_for_itself_leads_nowhere():
    before = ["def double(d):\n    return 2 * d", "if shown:\n    for d in (64, 128):\n        show(d)"]
    changed = [before[0], before[1].replace("show(d)", "show(d, 'a caption')")]
    assert uses_key("print(double(3))", before) == uses_key("print(double(3))", changed)
    assert uses_key("print(double(d))", before) != uses_key("print(double(d))", changed)
