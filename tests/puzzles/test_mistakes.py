"""What an author of a puzzle gets wrong is said with its place and repair, when it is made or used."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tilewise.errors import LessonError
from tilewise.puzzles.catalogue import named
from tilewise.puzzles.judging import judge
from tilewise.puzzles.model import Limit

GUARD = named("kernels/guard")
QUESTION = "which element, is there such an element, and what does it become?"
OPENS, CLOSES = f"    // [gap {QUESTION}\n", "    // gap]\n"
INSIDE = GUARD.code[GUARD.code.index(OPENS) + len(OPENS) : GUARD.code.index(CLOSES)]


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"code": GUARD.code.replace(OPENS, "").replace(CLOSES, "")}, r"the text has no gap\. Enclose"),
        (
            {"code": GUARD.code.replace(CLOSES, "")},
            r"gap 1 is never closed\. Put `// gap\]` on a line of its",
        ),
        ({"code": GUARD.code.replace(OPENS, "")}, r"gap 1 is closed and was not opened\. Between"),
        (
            {"code": GUARD.code.replace(INSIDE, "\n")},
            r"gap 1 holds no solution\. Between `// \[gap question` and",
        ),
        (
            {"code": GUARD.code.replace(f" {QUESTION}", "")},
            r"a gap asks nothing, at `// \[gap`\. Write `// \[gap q",
        ),
        ({"code": GUARD.code.replace(OPENS, 2 * OPENS)}, r"a gap opens within another, at `// \[gap which"),
        (
            {"limits": (Limit("global_loads.sectors", lambda v: 1, "."),)},
            r'a limit on "global_loads\.sectors", which nothing counts\. Did you mean "global_load\.sectors"',
        ),
        ({"hints": GUARD.hints[:1]}, r"hints are a tuple of at least three.* with a comma behind each\."),
        ({"hints": GUARD.hints[0]}, r"hints are a tuple of at least three"),
        ({"trials": GUARD.trials[:2]}, r"2 trials; an answer is tried at five sizes at least\. Add sizes"),
    ],
)
def test_half_a_puzzle_cannot_be_made(changed: dict[str, Any], said: str) -> None:
    with pytest.raises(LessonError, match=rf"^src/tilewise/puzzles/kernels/guard\.py: {said}"):
        replace(GUARD, **changed)


def test_a_right_result_by_another_name_is_no_ones_output() -> None:
    wrong = replace(GUARD, expected=lambda v: {"result": v["a"]})
    with pytest.raises(LessonError, match=r'`expected` gives "result", which is none of a, b, out, n\. Name'):
        judge(wrong, GUARD.solution, "mine.cu")
