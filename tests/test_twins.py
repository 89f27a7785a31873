"""What more than one lesson shows and none can take from another: its texts stay the same.

A lesson stands alone, and its record's key has the text of what it times. So a kernel or a library's way that
two lessons need stands in both, and one that is changed in a single place would no longer be compared with
what the other page says.
"""

import re
from pathlib import Path

import pytest

LESSONS = Path(__file__).parents[1] / "lessons"
JOIN = r'extern "C" __global__\nvoid {}\(const float\* part, .*?int rows\) {{.*?\n}}\n'
TORCH = r"^def {}\(arrays\):\n.*?^    return run\n"
THREE = ("attention/flash_forward", TORCH.format("torch_three_operations"))
FUSED = ("attention/flash_forward", TORCH.format("torch_fused"))
ITSELF = {"len(K)": "len(Q)"}
"""Where there are as many keys as queries."""
TWINS = [
    (
        ("attention/flash_steps", JOIN.format("combine")),
        ("attention/matrix_units_fp32", JOIN.format("join_halves")),
        {"expf(": "exp2f("},  # in powers of two, as its lesson says
    ),
    (THREE, ("attention/matrix_units_fp32", TORCH.format("torch_in_three")), {}),
    (THREE, ("memory/coalescing_attention", TORCH.format("torch_three_operations")), ITSELF),
    (FUSED, ("attention/matrix_units_fp32", TORCH.format("torch_at_once")), {}),
]


def _text(lesson: str, pattern: str) -> str:
    """What a lesson has of this pattern, once, without its name and its docstrings."""
    found = re.findall(
        pattern, (LESSONS / f"{lesson}.py").read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )
    assert len(found) == 1, f"{lesson}.py has {pattern} {len(found)} times"
    without = re.sub(r'\n *"""[^"]*"""', "", found[0])
    return re.sub(r"^(def|void) \w+\(", r"\1 (", without, flags=re.MULTILINE)


@pytest.mark.parametrize(
    ("one", "other", "changes"), TWINS, ids=lambda given: given[0] if isinstance(given, tuple) else ""
)
def test_what_two_lessons_show_is_the_same(one, other, changes):
    text = _text(*one)
    for before, after in changes.items():
        assert before in text
        text = text.replace(before, after)
    assert _text(*other) == text
